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

from __future__ import annotations

import ctypes
import gc
import io
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from dpnotes import data
from dpnotes.lab.store import provenance

RESULTS = Path(__file__).resolve().parents[1] / "book" / "results"
ORIGIN = ("commit", "python", "torch", "scikit_learn", "machine", "date")
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
    def ratio(self) -> float:
        return self.other / self.ours

    @property
    def missed(self) -> bool:
        return self.bar is not None and self.ratio < self.bar

    def __str__(self) -> str:
        verdict = (
            ""
            if self.bar is None
            else f"   bar {self.bar:g}   {'MISSED' if self.missed else 'met'}"
        )
        return (
            f"{self.job:58} {self.ours:9.4g} {self.unit}   {self.against}"
            f" {self.other:.4g} {self.unit}   ratio {self.ratio:.3g}{verdict}\n    on"
            f" {self.data}; {self.check}"
        )


Arrays = tuple[np.ndarray, np.ndarray, np.ndarray]
# of the small version, or of the whole; on that device
Rows = Callable[[bool, str], Iterable[Row]]


def loaded(
    name: str, *, split: str = "original", n: int, d: int, n_classes: int
) -> tuple[str, *Arrays]:
    """Name, training rows and labels, query rows; random numbers where the data
    folder lacks the set.
    """
    try:
        found = data.load(name, split=split)
        return name, found.X_train, found.y_train, found.X_test
    except data.DataMissing:
        rng = np.random.default_rng(0)
        X = np.maximum(rng.normal(size=(n + 5000, d)) - 1, 0).astype(np.float32)
        y = (
            X @ rng.normal(size=(d, n_classes)) + rng.normal(size=(n + 5000, n_classes))
        ).argmax(axis=1)
        return f"{RANDOM}, shaped as {name}", X[:n], y[:n], X[n:]


CALL_ONCE = False  # tests compare what both sides compute and read no clock
OWN_SIDE_ONLY = False  # the others are called once, for the comparison of results


def timed(
    *sides: Callable[[], Any],
    repeats: int,
    clock: Callable[[], float] = time.thread_time,
) -> tuple[list[float], list[Any]]:
    """Median seconds and last result of each side, taken by turns (A B A B) after
    one call that does not count.
    """
    seconds: list[list[float]] = [[] for _ in sides]
    results: list[Any] = [None] * len(sides)
    for turn in range(1 if CALL_ONCE else repeats + 1):
        for i, side in enumerate(sides[:1] if turn and OWN_SIDE_ONLY else sides):
            start = clock()
            results[i] = side()
            seconds[i].append(clock() - start)
    return [statistics.median(times[1:] or times) for times in seconds], results


def clock_of(device: str) -> Callable[[], float]:
    """The CPU time of this thread, which a shared machine disturbs least; on a GPU
    the time at which it is done.
    """
    if torch.device(device).type == "cpu":
        return time.thread_time

    def clock() -> float:
        torch.cuda.synchronize()
        return time.perf_counter()

    return clock


# of a call of what `arithmetic` gives, a multiplication and an addition being two
OPERATIONS = 2 * 1024**3 * 8


def arithmetic(dtype: torch.dtype, device: str = "cpu") -> Callable[[], None]:
    """``OPERATIONS`` in products of two matrices of 1024 x 1024 numbers, the second
    in the cache.
    """
    left, right = torch.ones(2, 1024, 1024, dtype=dtype, device=device)
    product = torch.empty_like(left)

    def run() -> None:
        for _ in range(8):
            torch.mm(left, right, out=product)

    return run


def gathering(
    steps: Callable[[], Iterable[tuple[torch.Tensor, torch.Tensor]]],
) -> Callable[[], None]:
    """Copies of rows, for each step of a table and the rows' numbers."""

    def run() -> None:
        out = None
        for table, rows in steps():
            out = table.new_empty(len(rows), table.shape[1]) if out is None else out
            torch.index_select(table, 0, rows, out=out)

    return run


def peak_memory(call: Callable[[], object]) -> float:
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


def _held(name: str) -> float:
    line = next(
        line
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith(f"{name}:")
    )
    return int(line.split()[1]) / 1024


def keep(
    path: Path, rows: list[dict[str, Any]], by: Sequence[str], *, exact: bool = False
) -> None:
    """Put rows in the place of those that have the same values in the columns ``by``;
    the others stay to the letter.

    Measured rows are rounded, and say where and with what they were measured; exact
    ones are kept as they are.
    """
    found = {} if exact else provenance()
    about = {name: found[name] for name in ORIGIN if name in found}
    text = pd.DataFrame([{**row, **about} for row in rows]).to_csv(
        index=False, float_format=None if exact else "%.6g"
    )
    tables = (
        [pd.read_csv(path, dtype=str, keep_default_na=False)] if path.is_file() else []
    )
    tables.append(pd.read_csv(io.StringIO(text), dtype=str, keep_default_na=False))
    whole = pd.concat(tables, ignore_index=True)
    keys = pd.MultiIndex.from_frame(whole[list(by)])
    new = len(whole) - len(tables[-1])
    stays = ~keys.isin(keys[new:]) | (whole.index >= new)
    # each key where it first stood
    order = whole.index[stays][keys.factorize()[0][stays].argsort(kind="stable")]
    draft = path.with_suffix(".new")
    whole.loc[order].to_csv(draft, index=False)
    draft.replace(path)  # whole or not at all


@contextmanager
def stoppable(told: Callable[[], str]) -> Iterator[None]:
    """Let Ctrl-C end with one sentence, and with the exit code that shells expect of
    it.
    """
    try:
        yield
    except KeyboardInterrupt:
        print(f"\n{told()}", file=sys.stderr)
        sys.exit(130)


def table(
    path: Path,
    rows: Iterable[dict[str, Any]],
    by: Sequence[str],
    *,
    kept: bool,
    exact: bool = False,
) -> None:
    """Print rows as soon as they are measured; put them into a tracked table if told
    to, once all are there.
    """
    found: list[dict[str, Any]] = []

    def told() -> str:
        why = "rows are kept once all are there" if kept else "--keep was not given"
        return (
            f"Stopped: {len(found)} rows were printed, {path.name} is as before"
            f" ({why}); run the same command again."
        )

    with stoppable(told):
        for row in rows:
            print(
                *(
                    f"{value:.4g}" if isinstance(value, float) else value
                    for value in row.values()
                ),
                flush=True,
            )
            found.append(row)
    if kept:
        keep(path, found, by, exact=exact)
