"""The experiments of the book: one module per chapter, each a pure function of plain parameters and a seed.

An :class:`Experiment` names the function, the file that keeps its rows, and the grid of every scale.
Nothing but the command line and the chapters imports this package.
"""

from __future__ import annotations

from typing import Any

import pandas as pd

from dpnotes.lab._experiment import Experiment as Experiment
from dpnotes.lab._experiment import Grid as Grid
from dpnotes.lab._experiment import paper_table as paper_table
from dpnotes.lab.bagging import experiments as bagging
from dpnotes.lab.dpbag import experiments as dpbag
from dpnotes.lab.head_to_head import experiments as head_to_head
from dpnotes.lab.intrinsic_sgd import experiments as intrinsic_sgd
from dpnotes.lab.private_prediction import experiments as private_prediction
from dpnotes.lab.store import Compute, Standing, code, collect, experiment_name, published_store, runs_store, standing

EXPERIMENTS: dict[str, Experiment] = {
    e.name: e
    for chapter in (bagging, dpbag, intrinsic_sgd, private_prediction, head_to_head)
    for e in chapter.EXPERIMENTS
}

VERIFICATIONS = "verifications"  # the store of what `dpnotes results verify` found


def find(name: str) -> Experiment:
    """The experiment of that name.

    Raises
    ------
    ValueError
        If there is none; the message lists the known ones.
    """
    if name not in EXPERIMENTS:
        raise ValueError(f"unknown experiment {name!r}; known: {', '.join(EXPERIMENTS)}")
    return EXPERIMENTS[name]


def rows(name: str, grid: Grid | None = None, *, compute: Compute = "stored", **kwargs: Any) -> pd.DataFrame:
    """Rows of an experiment, from the published results, from runs of this machine, or computed now.

    Parameters
    ----------
    name : str
        One of :data:`EXPERIMENTS`.
    grid : list of dict, optional
        Default: the grid of the paper.
    compute : {"stored", "missing", "all"}
        Show what is published; run what is missing; run every row afresh. See :func:`dpnotes.lab.store.collect`.
    kwargs
        ``options``, ``n_jobs`` and ``progress`` of :func:`dpnotes.lab.store.collect`.

    Returns
    -------
    DataFrame
        One row for each entry of the grid, in its order; metrics of a row that is not there are empty.
    """
    chosen = find(name)
    found = collect(
        chosen.function,
        chosen.grids["paper"]() if grid is None else grid,
        compute=compute,
        published=published_store(name),
        runs=runs_store(name),
        **kwargs,
    )
    if (stands := code_standing(found)).stale:
        _say(f"`{name}`, {stands.rows} rows: {stands}.")
    return found


def code_standing(rows: pd.DataFrame) -> Standing:
    """How many rows are of earlier code than that of today, and whether today's gives a sample of them again.

    Parameters
    ----------
    rows : DataFrame
        Rows as :func:`rows` gives them, of one experiment or several; gaps do not count.
    """
    functions = {experiment_name(e.function): e.function for e in EXPERIMENTS.values()}
    there = rows.dropna(subset=["check"])
    parts = (
        standing(zip(own["row"], own["code"], strict=True), code(functions[name]), published_store(VERIFICATIONS))
        for name, own in [(str(name), own) for name, own in there.groupby("experiment")]
    )
    return sum(parts, start=Standing())


def _say(text: str) -> None:
    """Print a remark beneath the cell of a chapter that runs; nowhere else.

    It is no Markdown, which the page of a cell with a figure would take for a second figure of the same name.
    """
    from IPython import get_ipython

    if get_ipython() is not None:
        print(text)


def provenance(rows: pd.DataFrame) -> pd.DataFrame:
    """Where rows come from, in words.

    Returns
    -------
    DataFrame
        One row for each machine, device, version, commit and data set: rows (how many), hours (computing time, all rows
        together), made by, code (:class:`dpnotes.lab.store.Standing` in words), data, until (the last day).
    """
    keys = ["machine", "device", "torch", "commit", "data"]
    there = rows.dropna(subset=["check"]).astype(dict.fromkeys([*keys, "date"], str))
    groups = there.groupby(keys)
    stands = [str(code_standing(group)) for _, group in groups]
    totals = groups.agg(rows=("row", "count"), hours=("seconds", "sum"), until=("date", "max")).reset_index()
    made = totals["machine"] + ", " + totals["device"] + ", torch " + totals["torch"] + ", commit " + totals["commit"]
    return pd.DataFrame(
        {
            "rows": totals["rows"],
            "hours": (totals["hours"].astype(float) / 3600).round(2),
            "made by": made,
            "code": stands,
            "data": totals["data"],
            "until": totals["until"].str[:10],
        }
    )
