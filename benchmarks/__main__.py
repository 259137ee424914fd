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
import time
from dataclasses import asdict, replace
from pathlib import Path

import pandas as pd
import torch
from threadpoolctl import threadpool_limits

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


def measured(job, small, device):
    """Rows of a job, printed as soon as they are there; bars are for whole jobs on
    one CPU core.
    """
    start = time.perf_counter()
    rows = []
    for row in JOBS[job](small, device):
        rows.append(replace(row, bar=None) if small or device != "cpu" else row)
        print(rows[-1], flush=True)
    print(f"-- {job}: {time.perf_counter() - start:.0f} s", flush=True)
    return rows


def compare(commit, jobs):
    """Print our own seconds for each row by the package of another commit and by
    this one, each the least of three.
    """
    here = _common.RESULTS.parents[1]
    packed = subprocess.run(
        ["git", "archive", commit, "dpnotes"],
        cwd=here,
        stdout=subprocess.PIPE,
        check=True,
    )
    with tempfile.TemporaryDirectory() as folder:
        there = Path(folder)
        with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as files:
            files.extractall(there, filter="data")
        (there / "benchmarks").symlink_to(here / "benchmarks")
        own = there / "own.csv"
        for job in jobs:
            found = {there: [], here: []}
            for side in [there, here] * 3:
                command = [sys.executable, "-m", "benchmarks", "--job", job]
                subprocess.run(
                    [*command, "--own", own],
                    cwd=side,
                    stdout=subprocess.DEVNULL,
                    check=True,
                )
                rows = pd.read_csv(own, index_col=["job", "data"])
                found[side].append(rows["ours"])
            before, after = [pd.concat(a, axis=1).min(axis=1) for a in found.values()]
            both = {"before": before, "after": after, "ratio": after / before}
            print(pd.DataFrame(both).to_string(), flush=True)


def bench(jobs, *, small, device, kept, own):
    """Measure jobs; keep the rows of each that is finished, or write our own seconds
    of all of them.
    """
    rows = []
    with threadpool_limits(1):
        for place, job in enumerate(jobs):
            try:
                found = measured(job, small, device)
            except KeyboardInterrupt:
                became = "were kept" if kept else "are printed above"
                _common.stopped(
                    f"the rows of {place} of {len(jobs)} jobs {became}; go on with"
                    f" --job {' '.join(jobs[place:])} and the same options"
                )
            if kept:
                about = [{"group": job, **asdict(r), "ratio": r.ratio} for r in found]
                _common.keep(KEPT, about, KEY)
            rows += found
    if own:
        seconds = pd.DataFrame([asdict(row) for row in rows])[["job", "data", "ours"]]
        seconds.drop_duplicates(["job", "data"]).to_csv(own, index=False)
    barred = [row for row in rows if row.bar is not None]
    missed = [row for row in barred if row.missed]
    print(f"{len(barred)} bars, {len(barred) - len(missed)} met")
    for row in missed:
        print(f"  missed: {row.job}, {row.against}")


def main():
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    add = parser.add_argument
    add("--small", action="store_true", help="fewer models, rows, steps and repeats")
    add("--job", nargs="+", choices=JOBS, default=list(JOBS), metavar="JOB")
    add("--device", default="cpu", help="cuda: train on the GPU, without bars")
    add("--keep", action="store_true", help=f"store the rows in {KEPT.name}")
    add("--against", metavar="COMMIT", help="our own times with its package and this")
    add("--own", metavar="FILE", help="time our own side only, and write its seconds")
    given = parser.parse_args()
    if given.keep and (given.small or given.own or given.against):
        parser.error("--keep is for whole benchmarks alone")
    torch.set_num_threads(1)
    _common.OWN_SIDE_ONLY = given.own is not None
    if given.against:
        compare(given.against, given.job)
    else:
        bench(
            given.job,
            small=given.small,
            device=given.device,
            kept=given.keep,
            own=given.own,
        )


if __name__ == "__main__":
    main()
