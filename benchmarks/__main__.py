"""Measure the speed claims and print each row beside its bar; ``make bench`` does the
same.

Only with ``--keep`` do the rows of a finished job take the place of the job's rows on
the same data, machine and device in ``book/results/benchmarks.csv``, which the book
shows.
"""

import argparse
import io
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import asdict, replace
from pathlib import Path

import pandas as pd
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


def compare(commit, jobs):
    """Print our own seconds for each row by the package of another commit and by
    this one, each the least of three.
    """
    here = _common.RESULTS.parents[1]
    command = ["git", "archive", commit, "dpnotes"]
    packed = subprocess.run(command, cwd=here, stdout=subprocess.PIPE, check=True)
    with tempfile.TemporaryDirectory() as folder:
        there = Path(folder)
        with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as files:
            files.extractall(there, filter="data")
        # both sides are measured by the same jobs
        (there / "benchmarks").symlink_to(here / "benchmarks")
        own = there / "own.csv"
        for job in jobs:
            command = [sys.executable, "-m", "benchmarks", "--job", job, "--own", own]
            found = {there: [], here: []}
            for side in [there, here] * 3:
                subprocess.run(command, cwd=side, stdout=subprocess.DEVNULL, check=True)
                rows = pd.read_csv(own, index_col=["job", "data"])
                found[side].append(rows["ours"])
            # what else the machine did only ever adds to a time
            before, after = [pd.concat(a, axis=1).min(axis=1) for a in found.values()]
            both = {"before": before, "after": after, "ratio": after / before}
            print(pd.DataFrame(both).to_string(), flush=True)


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
    add("--against", metavar="COMMIT", help="our own times with its package and this")
    add("--own", metavar="FILE", help="time our own side only, and write its seconds")
    given = parser.parse_args()
    if given.keep and (given.own or given.against):
        parser.error("--keep is for whole benchmarks alone")
    if given.against:
        compare(given.against, given.job)
        return
    _common.OWN_SIDE_ONLY = given.own is not None
    torch.set_num_threads(1)
    # of NumPy and SciPy, which torch does not set
    with threadpool_limits(1):
        rows = bench(given.job, given.device, given.keep)
    if given.own:
        seconds = pd.DataFrame([asdict(row) for row in rows])[["job", "data", "ours"]]
        # a job has one own side, and as many rows as others
        seconds.drop_duplicates(["job", "data"]).to_csv(given.own, index=False)
    barred = [row for row in rows if row.bar is not None]
    missed = [row for row in barred if row.missed]
    print(f"{len(barred)} bars, {len(barred) - len(missed)} met")
    for row in missed:
        print(f"  missed: {row.job}, {row.against}")


if __name__ == "__main__":
    main()
