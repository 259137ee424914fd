"""What a run costs: processor time and memory of the rows that share teachers, and the price of what is missing."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from dpnotes.lab.dpbag.grids import SIZES


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
        teachers, n, "k = <k>" (seconds of teachers, votes, accounts and students; empty where not measured), GiB (the
        most of any k). n = k = 1 is one model on all records.
    """
    named = rows.dropna(subset=["teachers_seconds"]).assign(
        seconds=lambda t: t["teachers_seconds"] + t["students_seconds"],
        n=lambda t: t["n_teachers"].astype(int),
        k=lambda t: "k = " + t["n_partitions"].astype(int).astype(str),
    )
    order = list(dict.fromkeys(named.sort_values("n_partitions")["k"]))
    keys = ["teachers", "n"]
    table = named.pivot_table("seconds", keys, "k")[order]
    table["GiB"] = named.groupby(keys)["peak_memory"].max() / 1024
    return table.sort_index(ascending=[False, True]).reset_index().rename_axis(columns=None)


def run_seconds(rows: pd.DataFrame, teachers: str) -> float:
    """Seconds of all settings of one run on one core, NaN where one of them was not measured.

    Parameters
    ----------
    rows : DataFrame
        Of :func:`dpnotes.lab.dpbag.experiments.cost`.
    teachers : {"logistic", "boosting"}
    """
    own = rows[rows["teachers"] == teachers]
    seconds = (own["teachers_seconds"] + own["students_seconds"]).astype(float)
    measured = dict(zip(zip(own["n_teachers"], own["n_partitions"], strict=True), seconds, strict=True))
    settings = [(1, 1), *itertools.product(SIZES[teachers]["n"], SIZES[teachers]["k"])]
    return sum(measured.get(setting, math.nan) for setting in settings)
