"""Measure the speed claims and print each row beside its bar; ``make bench`` does the same.

Only with ``--keep`` do the rows of a finished job take the place of the job's rows on the same data, machine and device
in ``book/results/benchmarks.csv``, which the book shows.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import asdict

import torch
from threadpoolctl import threadpool_limits

from . import accounting, boosted_trees, dp_sgd, gpu, logistic, memory, networks, personal_accountant, sgd
from ._common import RESULTS, Row, Rows, keep, origin, stoppable

JOBS: dict[str, Rows] = {
    "1": logistic.subsets_of_mnist,
    "1b": logistic.one_on_mnist,
    "1c": logistic.repeats_on_mnist,
    "2": logistic.teachers_on_adult,
    "2b": logistic.votes_on_adult,
    "2c": boosted_trees.rows,
    "2d": logistic.shadow_models,
    "3": personal_accountant.rows,
    "4": sgd.rows,
    "5": dp_sgd.rows,
    "6": networks.rows,
    "7": accounting.rows,
    "memory": memory.rows,
    "gpu": gpu.rows,
}
KEPT = RESULTS / "benchmarks.csv"
KEY = ("group", "data", "machine", "device")  # of rows that are measured, and replaced, together


def measured(job: str, small: bool) -> list[Row]:
    """Rows of a job, printed as soon as they are there."""
    start, rows = time.perf_counter(), []
    for row in JOBS[job](small):
        print(row, flush=True)
        rows.append(row)
    print(f"-- {job}: {time.perf_counter() - start:.0f} s", flush=True)
    return rows


def stopped(done: list[str], left: list[str], kept: bool) -> str:
    """What was measured when somebody pressed Ctrl-C, what became of it, and how to go on."""
    jobs = f"{len(done)} of {len(done) + len(left)} jobs were measured" + f" ({', '.join(done)})" * bool(done)
    became = f"their rows are in {KEPT.name}" if kept and done else f"{KEPT.name} is as before"
    return f"Stopped: {jobs}, {became}; go on with python -m benchmarks{' --keep' * kept} --job {' '.join(left)}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--small", action="store_true", help="fewer models, rows, steps and repeats")
    parser.add_argument("--job", nargs="+", choices=JOBS, default=list(JOBS), metavar="JOB", help=", ".join(JOBS))
    parser.add_argument("--keep", action="store_true", help=f"store the rows in book/results/{KEPT.name}, for the book")
    given = parser.parse_args()
    if given.small and given.keep:
        parser.error("--keep is for the whole benchmarks, not for --small ones")
    torch.set_num_threads(1)
    rows, done = [], []
    with threadpool_limits(1), stoppable(lambda: stopped(done, [j for j in given.job if j not in done], given.keep)):
        for job in given.job:
            rows += (found := measured(job, given.small))
            if given.keep:
                about = origin()
                keep(KEPT, [{"group": job, **asdict(row), "ratio": row.ratio, **about} for row in found], KEY)
            done.append(job)
    missed = [row.job for row in rows if row.ratio < row.bar]
    print(f"{len(rows)} claims, {len(rows) - len(missed)} met" + "".join(f"\n  missed: {job}" for job in missed))
    if low := [row.job for row in rows if given.small and row.ratio < row.demanded]:
        sys.exit("below what is demanded of the small version:\n" + "\n".join(low))


if __name__ == "__main__":
    main()
