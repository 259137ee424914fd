"""What the benchmarks share: alternating timing, peak memory, one row for each claim, its printing."""

from __future__ import annotations

import argparse
import ctypes
import gc
import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from dpnotes import data


@dataclass(frozen=True)
class Row:
    """One claim: what each side takes, their ratio beside the one to reach, and how far the results agree.

    ``check`` says in words what was compared, ``gap`` is the largest difference found between the sides (None where
    there is no other side) and ``allowed`` the largest that a test accepts. ``floor`` is the ratio that
    ``bench.py --small`` demands: half of the bar where nothing else is said.
    """

    job: str
    ours: float
    other: float
    against: str
    bar: float
    check: str
    unit: str = "s"
    device: str = "cpu"
    gap: float | None = None
    allowed: float = 1e-3
    floor: float | None = None

    @property
    def ratio(self) -> float:
        return self.other / self.ours

    @property
    def demanded(self) -> float:
        return self.bar / 2 if self.floor is None else self.floor

    def __str__(self) -> str:
        verdict = "met" if self.ratio >= self.bar else "MISSED"
        return (
            f"{self.job:58} {self.ours:9.4g} {self.unit}   {self.against} {self.other:.4g} {self.unit}   "
            f"ratio {self.ratio:.2f}   bar {self.bar:g}   {verdict}\n    {self.check}"
        )


Arrays = tuple[np.ndarray, np.ndarray, np.ndarray]
Rows = Callable[[bool], Iterable[Row]]  # of the small version, or of the whole


def loaded(name: str, *, split: str = "original", n: int, d: int, n_classes: int) -> tuple[str, *Arrays]:
    """Name, training rows and labels, query rows; synthetic where the data folder lacks the set."""
    try:
        found = data.load(name, split=split)
        return name, found.X_train, found.y_train, found.X_test
    except data.DataMissing:
        rng = np.random.default_rng(0)
        X = np.maximum(rng.normal(size=(n + 5000, d)) - 1, 0).astype(np.float32)
        y = (X @ rng.normal(size=(d, n_classes)) + rng.normal(size=(n + 5000, n_classes))).argmax(axis=1)
        return f"synthetic data of the shape of {name}", X[:n], y[:n], X[n:]


CALL_ONCE = False  # tests compare what both sides compute and read no clock


def timed(*sides: Callable[[], object], repeats: int, clock: Callable[[], float] = time.thread_time) -> list[float]:
    """Median seconds of each side, taken by turns (A B A B) after one call of each that does not count.

    The clock is the CPU time of this thread: on one thread a shared machine disturbs it least. For a GPU pass
    ``time.perf_counter`` and sides that end with a synchronisation.
    """
    seconds: list[list[float]] = [[] for _ in sides]
    for _ in range(1 if CALL_ONCE else repeats + 1):
        for side, times in zip(sides, seconds, strict=True):
            start = clock()
            side()
            times.append(clock() - start)
    return [statistics.median(times[1:] or times) for times in seconds]


def clock_of(device: str) -> Callable[[], float]:
    """Clock for :func:`timed`: the CPU time of this thread on a CPU, wall time on a GPU."""
    return time.thread_time if torch.device(device).type == "cpu" else time.perf_counter


def peak_memory(call: Callable[[], object]) -> float:
    """Most memory that this process holds during a call beyond what it held before, in MiB; Linux with glibc only."""
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)  # what was freed before must not hide what the call takes
    Path("/proc/self/clear_refs").write_text("5")  # the system's own peak starts again from what is held now
    before = _held("VmRSS")
    call()
    return max(0.0, _held("VmHWM") - before)


def _held(name: str) -> float:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(f"{name}:"))
    return int(line.split()[1]) / 1024


def run(description: str | None, rows: Rows) -> None:
    """Command line of one script: print each row as soon as it is there."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--small", action="store_true", help="fewer models, rows, steps and repeats")
    small = parser.parse_args().small
    torch.set_num_threads(1)
    for row in rows(small):
        print(row, flush=True)
