"""What a run costs: processor time and memory of the rows that share teachers."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pandas as pd

from dpnotes.lab.dpbag.grids import SIZES
from dpnotes.lab.tables import Column, Table

PARTITIONS = sorted({k for sizes in SIZES.values() for k in sizes["k"]})


def seconds_and_memory(call: Callable[[], object]) -> tuple[float, float | None]:
    """Processor time of this process in seconds, and the most memory it holds during a call, all of it, in MiB.

    The memory is None where the system does not tell (Linux does).
    """
    told = True
    try:
        Path("/proc/self/clear_refs").write_text("5")  # the system's own peak starts again from what is held now
    except OSError:
        told = False
    start = time.process_time()
    call()
    seconds = time.process_time() - start
    if not told:
        return seconds, None
    lines = Path("/proc/self/status").read_text().splitlines()
    return seconds, int(next(line for line in lines if line.startswith("VmHWM:")).split()[1]) / 1024


def costs(rows: pd.DataFrame) -> pd.DataFrame:
    """Seconds of each setting of a run, and the most memory.

    Parameters
    ----------
    rows : DataFrame
        Of :func:`dpnotes.lab.dpbag.experiments.cost`.

    Returns
    -------
    DataFrame
        teachers, n_teachers, seconds_<k> (seconds of teachers, votes, accounts and students for each number k of
        partitions; empty where not measured), memory (the most of any k, in GiB). n = k = 1 is one model on all
        records.
    """
    measured = rows.dropna(subset=["teachers_seconds"]).astype({"n_teachers": int, "n_partitions": int})
    measured["seconds"] = measured["teachers_seconds"] + measured["students_seconds"]
    keys = ["teachers", "n_teachers"]
    table = measured.pivot_table("seconds", keys, "n_partitions").add_prefix("seconds_").rename_axis(columns=None)
    table["memory"] = measured.groupby(keys)["peak_memory"].max() / 1024
    return table.sort_index(ascending=[False, True]).reset_index()


COSTS = Table(
    "Seconds of one core for each setting of a run, and the most memory that the process holds, in GiB. n = 1: one "
    "model on all private records.",
    (
        "teachers",
        Column("n_teachers", "n"),
        *(Column(f"seconds_{k}", f"k = {k}", "{:.1f}") for k in PARTITIONS),
        Column("memory", "GiB", "{:.2f}"),
    ),
)


def run_seconds(rows: pd.DataFrame, teachers: str) -> float:
    """Seconds of all settings of one run on one core, NaN where one of them was not measured.

    Parameters
    ----------
    rows : DataFrame
        Of :func:`dpnotes.lab.dpbag.experiments.cost`.
    teachers : {"logistic", "boosting"}
    """
    own = rows[rows["teachers"] == teachers].set_index(["n_teachers", "n_partitions"])
    seconds = (own["teachers_seconds"] + own["students_seconds"]).astype(float)
    settings = [(1, 1), *product(SIZES[teachers]["n"], SIZES[teachers]["k"])]
    return float(sum(seconds.get(setting, math.nan) for setting in settings))
