"""The experiments of the book: pure functions of plain parameters and a seed, in one
module for each chapter.

An :class:`Experiment` names the function, the file that stores its rows, and the grid
for each scale. Only the command line and the chapters import this package.
"""

from __future__ import annotations

from typing import Any

import pandas as pd

from dpnotes.lab._experiment import (
    Experiment as Experiment,
    Grid as Grid,
    paper_table as paper_table,
)
from dpnotes.lab.bagging import experiments as bagging
from dpnotes.lab.dpbag import experiments as dpbag
from dpnotes.lab.intrinsic_sgd import experiments as intrinsic_sgd
from dpnotes.lab.private_prediction import experiments as private_prediction
from dpnotes.lab.store import (
    experiment_version,
    published_store,
    read_store,
)

EXPERIMENTS: dict[str, Experiment] = {}
for _chapter in (bagging, dpbag, intrinsic_sgd, private_prediction):
    EXPERIMENTS |= {each.name: each for each in _chapter.EXPERIMENTS}

VERIFICATIONS = "verifications"  # the table of what `dpnotes results verify` found


def find(name: str) -> Experiment:
    """Find an experiment by its name.

    Raises
    ------
    ValueError
        If there is no such experiment; the message lists the known names.
    """
    if name not in EXPERIMENTS:
        raise ValueError(
            f"unknown experiment {name!r}; known: {', '.join(EXPERIMENTS)}"
        )
    return EXPERIMENTS[name]


def rows(name: str, grid: Grid | None = None, **kwargs: Any) -> pd.DataFrame:
    """Collect the rows of an experiment from the published results or from runs of this
    machine, or compute them now.

    Parameters
    ----------
    name : str
        A name in :data:`EXPERIMENTS`.
    grid : list of dict, optional
        Parameters of the rows. Default: the grid of the paper.
    compute : {"stored", "missing", "all"}
        ``"stored"``, the default, reads only published rows, ``"missing"`` also runs
        the missing rows, and ``"all"`` runs every row again. See
        :func:`dpnotes.lab.store.collect`.
    experiment : callable, optional
        Function that computes missing rows, with the name and the version of the
        experiment: see :func:`dpnotes.lab.experiment`. Default: the function of the
        experiment.
    kwargs
        The arguments ``options``, ``n_jobs`` and ``progress`` of
        :func:`dpnotes.lab.store.collect`.

    Returns
    -------
    DataFrame
        One row for each entry of the grid, in its order; a missing row has empty
        metrics.
    """
    return find(name).rows(grid, **kwargs)


def verified(chapter: str) -> str:
    """Report how many published rows of a chapter were computed again, and with which
    result.

    The text also gives the date of the latest of these computations and, if there are
    any, the number of rows that are out of date.
    """
    stored = []
    old = 0
    for experiment in EXPERIMENTS.values():
        path = published_store(experiment.name)
        # an experiment without published rows has nothing to tell
        if experiment.chapter == chapter and path.is_file():
            rows = read_store(path)
            stored.append(rows)
            version = experiment_version(experiment.function)
            old += int((rows["version"] < version).sum())
    # what is out of date should not be read as agreeing
    late = (
        f" {old} come from an earlier version of their experiment and are out of date."
        if old
        else ""
    )
    again = computed_again(*stored)
    return f"Published rows that were computed again as a check: {again}.{late}"


def computed_again(*stored: pd.DataFrame) -> str:
    """Report how many rows were computed again after they were stored, and with which
    result.

    The text also gives the date of the latest of these computations. The result is
    whether all rows agree with the stored rows, or how many differ.
    """
    dates = pd.concat([rows[["row", "date"]] for rows in stored]).drop_duplicates("row")
    # a computation before the row was stored says nothing of it
    kept = pd.read_csv(published_store(VERIFICATIONS), dtype={"differing": str})
    kept = kept.merge(dates, on="row", suffixes=("", "_stored")).query(
        "date >= date_stored"
    )
    if kept.empty:
        return f"none of {len(dates)}"
    found = (
        f"{differing} differ"
        if (differing := int(kept["differing"].notna().sum()))
        else "all agree"
    )
    return (
        f"{len(kept)} of {len(dates)}, the last on {kept['date'].max()[:10]}; {found}"
    )


def provenance(rows: pd.DataFrame) -> pd.DataFrame:
    """Describe the origin of rows in words.

    Returns
    -------
    DataFrame
        One row for each machine, device, version of PyTorch, commit and data set. Its
        columns are "rows" (their number), "hours" (total computing time), "made by",
        "computed again" (number of rows, last date, result), "data" and "until" (the
        last day).
    """
    keys = ["machine", "device", "torch", "commit", "data"]
    # gaps come from nowhere
    there = rows.dropna(subset=["date"]).astype(dict.fromkeys([*keys, "date"], str))
    # rows of one origin are one line
    groups = there.groupby(keys)
    totals = groups.agg(
        rows=("row", "count"), hours=("seconds", "sum"), until=("date", "max")
    ).reset_index()
    made = (
        totals["machine"]
        + ", "
        + totals["device"]
        + ", torch "
        + totals["torch"]
        + ", commit "
        + totals["commit"]
    )
    return pd.DataFrame(
        {
            "rows": totals["rows"],
            "hours": (totals["hours"].astype(float) / 3600).round(2),
            "made by": made,
            "computed again": [computed_again(group) for _, group in groups],
            "data": totals["data"],
            "until": totals["until"].str[:10],
        }
    )
