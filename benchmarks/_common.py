"""What the benchmarks share: timing by turns, peak memory, what the machine can do, one
row a claim, how rows are kept.

How many times as fast as a loop in Python we are says as much about the interpreter and
torch's overhead as about us: with a new torch such ratios fell by half, although our
own times fell, too. A bar is therefore one of these:

* a fraction of the machine's arithmetic. :func:`arithmetic` is one large matrix
  product, the fastest way to multiply numbers that it has; its time is scaled to the
  operations of the job's own products. Half of it is the bar: the rest is for products
  too small for that speed, and for all that is no product.
* a fraction of the machine's memory, where a job mostly moves data. :func:`gathering`
  takes the rows that the job needs out of their table in one compiled loop, and does
  nothing with them.
* the ratio to a library that people use, in the same run.

A fraction of 1 is all that the machine has. Loops in Python are still timed, but have
no bar.
"""

import argparse
import ctypes
import gc
import json
import statistics
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from dpnotes import data
from dpnotes.lab.store import provenance

RESULTS = Path(__file__).resolve().parents[1] / "book" / "results"
PEERS = Path(__file__).with_name("_peers.py")
# of provenance; the device is a column of its own
ORIGIN = ["commit", "python", "torch", "scikit_learn", "machine", "date"]
# in the place of a data set's name: the cost of the job does not depend on the values
RANDOM = "random numbers"


@dataclass(frozen=True)
class Row:
    """What each side takes, their ratio beside the one to reach, and how far the
    results agree.

    ``data`` names what was measured on. There is no ``bar`` where the other side is a
    loop in Python. ``check`` says in words what was compared, ``gap`` is the largest
    difference found between the results (None where there are no others), ``allowed``
    the largest that a test accepts.
    """

    job: str
    data: str
    ours: float
    other: float
    against: str
    bar: float | None
    check: str
    unit: str = "s"
    device: str = "cpu"
    gap: float | None = None
    allowed: float = 1e-3

    @property
    def ratio(self):
        return self.other / self.ours

    @property
    def missed(self):
        return self.bar is not None and self.ratio < self.bar

    def __str__(self):
        verdict = ""
        if self.bar is not None:
            verdict = f"   bar {self.bar:g}   {'MISSED' if self.missed else 'met'}"
        return (
            f"{self.job:58} {self.ours:9.4g} {self.unit}   {self.against}"
            f" {self.other:.4g} {self.unit}   ratio {self.ratio:.3g}{verdict}\n    on"
            f" {self.data}; {self.check}"
        )


def loaded(name, *, split="original", n, d, n_classes):
    """Name, training rows and labels, query rows; random numbers where the data
    folder lacks the set.
    """
    try:
        found = data.load(name, split=split)
    except data.DataMissing:
        rng = np.random.default_rng(0)
        # many zeros, as pixels and indicators have
        X = np.maximum(rng.normal(size=(n + 5000, d)) - 1, 0).astype(np.float32)
        logits = X @ rng.normal(size=(d, n_classes))
        y = (logits + rng.normal(size=logits.shape)).argmax(axis=1)
        return f"{RANDOM}, shaped as {name}", X[:n], y[:n], X[n:]
    return name, found.X_train, found.y_train, found.X_test


CALL_ONCE = False  # tests compare what both sides compute and read no clock
OWN_SIDE_ONLY = False  # the others are called once, for the comparison of results


def timed(*sides, repeats, device="cpu", clock=None):
    """Median seconds and last result of each side, taken by turns (A B A B) after
    one call that does not count.
    """
    clock = clock or clock_of(device)
    seconds = [[] for _ in sides]
    results = [None for _ in sides]
    for turn in range(1 if CALL_ONCE else repeats + 1):
        for i, side in enumerate(sides):
            if turn and i and OWN_SIDE_ONLY:
                continue
            start = clock()
            results[i] = side()
            seconds[i].append(clock() - start)
    # the first call pays for imports and for code that is compiled on the way
    return [statistics.median(times[1:] or times) for times in seconds], results


def clock_of(device):
    """The CPU time of this thread, which a shared machine disturbs least; on a GPU
    the time at which it is done.
    """
    if device == "cpu":
        return time.thread_time

    def clock():
        torch.cuda.synchronize()
        return time.perf_counter()

    return clock


# of a call of what `arithmetic` gives, a multiplication and an addition being two
OPERATIONS = 2 * 1024**3 * 8


def arithmetic(dtype, device="cpu"):
    """``OPERATIONS`` in products of two matrices of 1024 x 1024 numbers, the second
    in the cache.
    """
    left, right = torch.ones(2, 1024, 1024, dtype=dtype, device=device)
    product = torch.empty_like(left)

    def run():
        for _ in range(8):
            torch.mm(left, right, out=product)

    return run


def gathering(steps):
    """Copies of rows, for each step of a table and the rows' numbers."""

    def run():
        out = None
        for table, rows in steps():
            out = table.new_empty(len(rows), table.shape[1]) if out is None else out
            torch.index_select(table, 0, rows, out=out)

    return run


def peak_memory(call):
    """Most memory that this process holds during a call beyond what it held before,
    in MiB; Linux with glibc only.
    """
    gc.collect()
    # what was freed before must not hide what the call takes
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    # the system's own peak starts again from what is held now
    Path("/proc/self/clear_refs").write_text("5")
    before = _held("VmRSS")
    call()
    return max(0.0, _held("VmHWM") - before)


def _held(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    line = next(line for line in lines if line.startswith(f"{name}:"))
    return int(line.split()[1]) / 1024


def keep(path, rows, by):
    """Put rows, rounded and with where and with what they were measured, where the
    first row stood that has their values in the columns ``by``; all such rows give way,
    and the others stay to the letter.
    """
    new = pd.DataFrame(rows).map(_written)
    found = provenance()
    for name in ORIGIN:
        new[name] = found[name]
    old = new[:0]
    if path.is_file():
        # as text, so that no number is rounded again
        old = pd.read_csv(path, dtype=str, keep_default_na=False)
    gone = pd.MultiIndex.from_frame(old[by]).isin(pd.MultiIndex.from_frame(new[by]))
    place = gone.argmax() if gone.any() else len(old)
    parts = [old[:place], new, old[place:][~gone[place:]]]
    draft = path.with_suffix(".new")
    pd.concat(parts).to_csv(draft, index=False)
    # whole or not at all
    draft.replace(path)


def _written(value):
    if value is None or value != value:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def table(path, rows, by, *, kept):
    """Print rows as soon as they are measured; put them into a tracked table if told
    to, once all are there.
    """
    found = []
    for row in rows:
        print(*row.values(), flush=True)
        found.append(row)
    if kept:
        keep(path, found, by)


def options(about, *peers, parts=None):
    """Options of a table's command: ``--keep``, which leaves alone the rows of sides
    that did not run, a Python for each of the other sides, and one of its parts.
    """
    parser = argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    if parts:
        parser.add_argument("part", choices=parts)
    for name in peers:
        parser.add_argument(f"--{name}", metavar="PYTHON", help=f"that has {name}")
    parser.add_argument("--keep", action="store_true", help="store rows for the book")
    return parser.parse_args()


def asked(python, side, arrays, **given):
    """What a side of ``_peers.py`` answers to arrays by name and plain values, in an
    environment of its own.
    """
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "given.npz"
        np.savez(path, **arrays)
        # -E: a PYTHONPATH with this package is not the other side's
        command = [python, "-E", PEERS, side, path, json.dumps(given)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)
