"""All speed claims, or some: ``python benchmarks/bench.py [--small] [--job 2b ...] [--keep]``, and ``make bench``.

Prints each row beside its bar. With ``--keep`` the rows take the place of those of the same job, machine and device in
``book/results/benchmarks.csv``, which the book shows.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import accounting
import boosted_trees
import dp_sgd
import gpu
import logistic
import memory
import networks
import pandas as pd
import personal_accountant
import sgd
import torch
from _common import Row, Rows

from dpnotes.lab.store import provenance

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
KEPT = Path(__file__).resolve().parents[1] / "book" / "results" / "benchmarks.csv"
ABOUT = ("machine", "python", "torch", "commit", "date")


def measured(jobs: list[str], small: bool) -> Iterator[tuple[str, Row]]:
    """Rows of these jobs, printed as soon as they are there."""
    for job in jobs:
        start = time.perf_counter()
        for row in JOBS[job](small):
            print(row, flush=True)
            yield job, row
        print(f"-- {job}: {time.perf_counter() - start:.0f} s", flush=True)


def keep(rows: list[tuple[str, Row]], path: Path = KEPT) -> None:
    """Put rows in the place of those of the same jobs, machine and device."""
    here = {name: value for name, value in provenance().items() if name in ABOUT}
    new = pd.DataFrame([{"group": job, **asdict(row), "ratio": row.ratio, **here} for job, row in rows])
    if path.is_file():
        old = pd.read_csv(path, dtype={"group": str})
        keys = ["group", "machine", "device"]
        again = pd.MultiIndex.from_frame(old[keys]).isin(pd.MultiIndex.from_frame(new[keys]))
        new = pd.concat([old[~again], new])
    order = {job: place for place, job in enumerate(JOBS)}
    new = new.sort_values("group", key=lambda group: group.map(order), kind="stable")
    draft = path.with_suffix(".new")
    new.to_csv(draft, index=False, float_format="%.6g")
    os.replace(draft, path)  # whole or not at all


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="fewer models, rows, steps and repeats")
    parser.add_argument("--job", nargs="+", choices=JOBS, default=list(JOBS), metavar="JOB", help=", ".join(JOBS))
    parser.add_argument("--keep", action="store_true", help="store the rows for the book")
    arguments = parser.parse_args()
    if arguments.small and arguments.keep:
        parser.error("--keep is for the whole benchmarks, not for --small ones")
    torch.set_num_threads(1)
    rows = []
    for job in arguments.job:
        rows += measured([job], arguments.small)
        if arguments.keep:
            keep(rows)
    missed = [row.job for _, row in rows if row.ratio < row.bar]
    print(f"{len(rows)} claims, {len(rows) - len(missed)} met" + "".join(f"\n  missed: {job}" for job in missed))
    if low := [row.job for _, row in rows if arguments.small and row.ratio < row.demanded]:
        sys.exit("below what is demanded of the small version:\n" + "\n".join(low))


if __name__ == "__main__":
    main()
