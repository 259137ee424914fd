"""Measure the speed claims and print each row beside its bar; ``make bench`` does the
same.

Only with ``--keep`` do the rows of a finished job take the place of the job's rows on
the same data, machine and device in ``book/results/benchmarks.csv``, which the book
shows.
"""

import argparse
import sys
from dataclasses import asdict, replace

import torch
from threadpoolctl import threadpool_limits

from dpnotes.learners import device_name

from . import (
    _common,
    accounting,
    boosted_trees,
    dp_sgd,
    large,
    logistic,
    memory,
    networks,
    sgd,
)

JOBS = {
    # first: a process that has trained before asks for new memory where it could use
    # old
    "memory": memory.rows,
    "1": logistic.subsets_of_mnist,
    "1b": logistic.one_on_mnist,
    "1c": logistic.repeats_on_mnist,
    "2": logistic.teachers_on_adult,
    "2b": logistic.votes_on_adult,
    "2c": boosted_trees.rows,
    "2d": logistic.shadow_models,
    "3": accounting.personal,
    "4": sgd.rows,
    "5": dp_sgd.rows,
    "6": networks.rows,
    "7": accounting.calibrations,
    "8": large.rows,
}
KEPT = _common.RESULTS / "benchmarks.csv"
# of rows that are measured, and replaced, together
KEY = ["group", "data", "machine", "device"]


def measured(job, device):
    """Rows of a job, printed as soon as they are there."""
    rows = []
    for row in JOBS[job](False, device):
        if device != "cpu":
            # bars are what one CPU core can do
            row = replace(row, device=device_name(device), bar=None)
        print(row, flush=True)
        rows.append(row)
    return rows


def bench(jobs, device, kept):
    """Measure jobs, and keep the rows of each that is finished."""
    rows = []
    for place, job in enumerate(jobs):
        try:
            found = measured(job, device)
        except KeyboardInterrupt:
            became = "were kept" if kept else "are printed above"
            print(
                f"\nStopped: the rows of {place} of {len(jobs)} jobs {became}; go on"
                f" with --job {' '.join(jobs[place:])} and the same options",
                file=sys.stderr,
            )
            # what shells expect after Ctrl-C
            sys.exit(130)
        if kept:
            about = [{"group": job, **asdict(r), "ratio": r.ratio} for r in found]
            _common.keep(KEPT, about, KEY)
        rows += found
    return rows


def main():
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    add = parser.add_argument
    add("--job", nargs="+", choices=JOBS, default=list(JOBS), metavar="JOB")
    add("--device", default="cpu", help="cuda: train on the GPU, without bars")
    add("--keep", action="store_true", help=f"store the rows in {KEPT.name}")
    given = parser.parse_args()
    torch.set_num_threads(1)
    # of NumPy and SciPy, which torch does not set
    with threadpool_limits(1):
        rows = bench(given.job, given.device, given.keep)
    barred = [row for row in rows if row.bar is not None]
    missed = [row for row in barred if row.missed]
    print(f"{len(barred)} bars, {len(barred) - len(missed)} met")
    for row in missed:
        print(f"  missed: {row.job}, {row.against}")


if __name__ == "__main__":
    main()
