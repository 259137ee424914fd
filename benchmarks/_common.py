"""What the benchmarks share: alternating timing, one row for each job, its printing."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One speed claim: seconds of both sides, their ratio beside the ratio to reach, and how far the results agree.

    ``check`` says in words what was compared and the largest difference found.
    """

    job: str
    ours_seconds: float
    other_seconds: float
    other: str
    bar: float
    check: str

    @property
    def ratio(self) -> float:
        return self.other_seconds / self.ours_seconds


def timed(*sides: Callable[[], object], repeats: int, clock: Callable[[], float] = time.thread_time) -> list[float]:
    """Median seconds of each side, taken by turns (A B A B) after one call of each that does not count.

    The clock is the CPU time of this thread: on one thread a shared machine does not disturb it. For a GPU pass
    ``time.perf_counter`` and sides that end with a synchronisation.
    """
    seconds: list[list[float]] = [[] for _ in sides]
    for _ in range(repeats + 1):
        for side, times in zip(sides, seconds, strict=True):
            start = clock()
            side()
            times.append(clock() - start)
    return [statistics.median(times[1:]) for times in seconds]


def show(rows: Iterable[Row]) -> None:
    """Print each row as soon as it is there."""
    for row in rows:
        verdict = "met" if row.ratio >= row.bar else "MISSED"
        print(
            f"{row.job:52} {row.ours_seconds:9.4f} s   {row.other} {row.other_seconds:.4f} s   "
            f"ratio {row.ratio:.2f}   bar {row.bar:g}   {verdict}\n    {row.check}",
            flush=True,
        )
