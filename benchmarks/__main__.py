"""Measure the speed claims and print each row beside its bar; ``make bench`` does the
same.

Only with ``--keep`` do the rows of a finished job take the place of the job's rows on
the same data, machine and device in ``book/results/benchmarks.csv``, which the book
shows.
"""

from __future__ import annotations

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
from ._common import RESULTS, Row, Rows, keep, stoppable

JOBS: dict[str, Rows] = {
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
KEPT = RESULTS / "benchmarks.csv"
# of rows that are measured, and replaced, together
KEY = ("group", "data", "machine", "device")


def measured(job: str, small: bool, device: str) -> list[Row]:
    """Rows of a job, printed as soon as they are there; bars are for whole jobs on
    one CPU core.
    """
    start, rows = time.perf_counter(), []
    for row in JOBS[job](small, device):
        rows.append(replace(row, bar=None) if small or device != "cpu" else row)
        print(rows[-1], flush=True)
    print(f"-- {job}: {time.perf_counter() - start:.0f} s", flush=True)
    return rows


def stopped(
    done: list[str],
    left: list[str],
    *,
    kept: bool = False,
    small: bool = False,
    device: str = "cpu",
) -> str:
    """What was measured when somebody pressed Ctrl-C, what became of it, and how to
    go on.
    """
    same = (
        " --keep" * kept
        + " --small" * small
        + f" --device {device}" * (device != "cpu")
    )
    jobs = (
        f"{len(done)} of {len(done) + len(left)} jobs were measured"
        + f" ({', '.join(done)})" * bool(done)
    )
    became = (
        f"their rows are in {KEPT.name}"
        if kept and done
        else f"{KEPT.name} is as before"
    )
    return (
        f"Stopped: {jobs}, {became}; go on with python -m benchmarks{same} --job"
        f" {' '.join(left)}"
    )


def compare(commit: str, jobs: list[str]) -> None:
    """Print our own seconds for each row by the package of another commit and by
    this one, each the least of three.
    """
    here = RESULTS.parents[1]
    archive = subprocess.run(
        ["git", "archive", commit, "dpnotes"],
        cwd=here,
        stdout=subprocess.PIPE,
        check=True,
    ).stdout
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=io.BytesIO(archive)) as files:
            files.extractall(folder, filter="data")
        there = Path(folder)
        (there / "benchmarks").symlink_to(here / "benchmarks")
        for job in jobs:
            found: dict[Path, list[pd.Series]] = {there: [], here: []}
            for side in [there, here] * 3:
                command = [
                    sys.executable,
                    "-m",
                    "benchmarks",
                    "--job",
                    job,
                    "--own",
                    there / "own.csv",
                ]
                subprocess.run(command, cwd=side, stdout=subprocess.DEVNULL, check=True)
                found[side].append(
                    pd.read_csv(there / "own.csv", index_col=["job", "data"])["ours"]
                )
            before, after = (
                pd.concat(each, axis=1).min(axis=1) for each in found.values()
            )
            print(
                pd.DataFrame(
                    {"before": before, "after": after, "ratio": after / before}
                ).to_string(),
                flush=True,
            )


def bench(
    jobs: list[str], *, small: bool, device: str, kept: bool, own: str | None
) -> None:
    """Measure jobs; keep the rows of each that is finished, or write our own seconds
    of all of them.
    """
    rows: list[Row] = []
    done: list[str] = []

    def told() -> str:
        return stopped(
            done,
            [job for job in jobs if job not in done],
            kept=kept,
            small=small,
            device=device,
        )

    with threadpool_limits(1), stoppable(told):
        for job in jobs:
            rows += (found := measured(job, small, device))
            if kept:
                keep(
                    KEPT,
                    [
                        {"group": job, **asdict(row), "ratio": row.ratio}
                        for row in found
                    ],
                    KEY,
                )
            done.append(job)
    if own:
        seconds = pd.DataFrame(
            [{"job": row.job, "data": row.data, "ours": row.ours} for row in rows]
        )
        seconds.drop_duplicates(["job", "data"]).to_csv(own, index=False)
    missed = [f"\n  missed: {row.job}, {row.against}" for row in rows if row.missed]
    barred = sum(row.bar is not None for row in rows)
    print(f"{barred} bars, {barred - len(missed)} met" + "".join(missed))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--small", action="store_true", help="fewer models, rows, steps and repeats"
    )
    parser.add_argument(
        "--job",
        nargs="+",
        choices=JOBS,
        default=list(JOBS),
        metavar="JOB",
        help=", ".join(JOBS),
    )
    parser.add_argument(
        "--device",
        default="cpu",
        help="cuda: train on the GPU; there are no bars for one",
    )
    parser.add_argument(
        "--keep",
        action="store_true",
        help=f"store the rows in book/results/{KEPT.name}, for the book",
    )
    parser.add_argument(
        "--against",
        metavar="COMMIT",
        help="only print our own times with its package and with this",
    )
    parser.add_argument(
        "--own",
        metavar="FILE",
        help="time our own side only, and write its seconds there",
    )
    given = parser.parse_args()
    if given.keep and (given.small or given.own or given.against):
        parser.error(
            "--keep is for whole benchmarks, without --small, --own and --against"
        )
    torch.set_num_threads(1)
    _common.OWN_SIDE_ONLY = given.own is not None
    if given.against:
        with stoppable(
            lambda: "Stopped: what was compared is printed above; nothing is kept."
        ):
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
