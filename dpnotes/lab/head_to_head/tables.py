"""From rows of the head-to-head to verdicts: which family is the right choice where, and what a choice gives up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from dpnotes.lab.head_to_head.experiments import column
from dpnotes.lab.tables import NO_BREAK, Column, Table, columns
from dpnotes.lab.verdicts import (
    HOLDS,
    LEVEL,
    NEGLIGIBLE,
    TIE,
    UNDECIDED,
    Mean,
    Verdict,
    above,
    every,
    not_behind,
    verdict,
)

FAMILIES: dict[str, tuple[str, ...]] = {  # those that lead anywhere first, as they have the clearest colours
    "DP-SGD": ("DPSGD",),
    "private prediction": ("LossPerturbation", "ModelSensitivity", "PredictionSensitivity", "SubsampleAggregate"),
    "class means": ("ClassMeans",),
    "random trees": ("RandomTrees",),
    "noisy SGD": ("NoisySGD", "AugmentedSGD"),
    "bagging": ("Bagging",),
    "filtered votes": ("FilteredVote",),
    "majority": ("majority class",),
}
FAMILY = {method: family for family, methods in FAMILIES.items() for method in methods}


def behind(row: pd.Series, method: str, repeats: int) -> Mean:
    """What a method is behind the best of a row, on the same cuts."""
    return _mean(row[f"behind_{column(method)}"], row[f"error_{column(method)}"], repeats)


def _mean(value: Any, error: Any, repeats: Any) -> Mean:
    return Mean(float(value), float(error) ** 2, float(error) ** 4 / (int(repeats) - 1))


def right_choice(rows: pd.DataFrame) -> pd.DataFrame:
    """The family of the best method of each row, where it is ahead of every other family; and which are left else.

    Parameters
    ----------
    rows : DataFrame
        Rows of :func:`dpnotes.lab.head_to_head.experiments.methods`; gaps are left out.

    Returns
    -------
    DataFrame
        The rows with columns family (that of the highest mean), choice (the same, or the word of the verdict) and left:
        1 where there is a choice, else how many families have a method that is not shown to be behind, all methods
        together at the level of a verdict: they hold the best one with that confidence.
    """
    there = rows.dropna(subset=["best"])
    families, choices, left = [], [], []
    for _, row in there.iterrows():
        own = FAMILY[row["best"]]
        ran = [method for method in FAMILY if pd.notna(row.get(f"behind_{column(method)}"))]
        leads = {method: above(behind(row, method, int(row["repeats"]))) for method in ran if method != row["best"]}
        found = verdict(every([lead for method, lead in leads.items() if FAMILY[method] != own]))
        families.append(own)
        choices.append(own if found == HOLDS else TIE if found == TIE else UNDECIDED)
        near = {FAMILY[method] for method, lead in leads.items() if lead(LEVEL / len(leads)) != HOLDS}
        left.append(1 if found == HOLDS else len({own} | near))
    return there.assign(family=families, choice=choices, left=left)


def pooled(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of several tables of a kind as one, in which the tables are the repeats: they are independent.

    Parameters
    ----------
    rows : DataFrame
        Of :func:`dpnotes.lab.head_to_head.experiments.methods`, differing in ``seed``; gaps are left out.

    Returns
    -------
    DataFrame
        One row for each kind of table, epsilon and delta of which there are two: best, and of each method accuracy,
        behind and error, as the rows have them; repeats is the number of tables.
    """
    keys = ["dataset", "target", "rows", "columns", "margin", "epsilon", "delta"]
    found = []
    for key, own in rows.dropna(subset=["best"]).groupby(keys, dropna=False, sort=False):
        if len(own) < 2:
            continue
        names = {f"accuracy_{column(method)}": method for method in FAMILY}
        accuracy = own[[name for name in names if name in own]].astype(float).dropna(axis=1).rename(columns=names)
        best = accuracy.mean().idxmax()
        gaps = accuracy.rsub(accuracy[best], axis=0)
        cells = {
            f"{what}_{column(str(method))}": value
            for what, values in {"accuracy": accuracy.mean(), "behind": gaps.mean(), "error": gaps.sem()}.items()
            for method, value in values.items()
        }
        found.append(dict(zip(keys, key, strict=True)) | {"best": best, "repeats": len(own)} | cells)
    return pd.DataFrame(found)


def map_of(
    rows: pd.DataFrame, names: Sequence[str], *, across: str = "epsilon"
) -> dict[str, tuple[pd.DataFrame, pd.DataFrame]]:
    """Panels of :func:`dpnotes.lab.figures.leaders`: tasks against a column, one for each delta that rows tell.

    Parameters
    ----------
    rows : DataFrame
        Of :func:`right_choice`.
    names : sequence of str
        Columns that name a task.
    across : str
        The column that is not a task's.
    """
    words = {"rows": "n = {:,.0f}", "columns": "d = {:.0f}", "margin": "margin {:g}"}
    tasks = [
        ", ".join(words.get(name, "{}").format(row[name]) for name in names if pd.notna(row[name]) and row[name])
        for _, row in rows.iterrows()
    ]
    told = rows.assign(task=[task.replace("_", " ") for task in tasks])
    order = told.sort_values([*names], na_position="first")["task"].unique()
    panels = told.groupby("delta") if "delta" in told else [("", told)]
    return {
        f"delta = {delta:g}" if delta != "" else "": tuple(  # type: ignore[misc]
            own.pivot_table(cell, "task", across, aggfunc="first").reindex(order) for cell in ("family", "left")
        )
        for delta, own in panels
    }


def beside_others(rows: pd.DataFrame) -> pd.DataFrame:
    """Whether the best model of ours is behind the best of other libraries' by no more than a tie, on each task.

    Parameters
    ----------
    rows : DataFrame
        Rows of :func:`dpnotes.lab.head_to_head.experiments.others`; gaps are left out.

    Returns
    -------
    DataFrame
        dataset, epsilon, delta, ours, accuracy_ours, theirs, accuracy_theirs, ahead, low, high, verdict.
    """
    there = rows.dropna(subset=["ours"])
    means = [_mean(row["ahead"], row["error"], row["repeats"]) for _, row in there.iterrows()]
    limits = pd.DataFrame([mean.interval() for mean in means], columns=["low", "high"], index=there.index)
    columns = ["dataset", "epsilon", "delta", "ours", "accuracy_ours", "theirs", "accuracy_theirs", "ahead"]
    return there[columns].join(limits).assign(verdict=[verdict(not_behind(mean)) for mean in means])


def regrets(rows: pd.DataFrame, roles: Sequence[str], *, at_most: float = NEGLIGIBLE) -> pd.DataFrame:
    """Mean accuracy that each choice gives up against the best method in hindsight, and whether it is little enough.

    The mean is over data sets, each with the mean over its rows: tasks that are made of one share its records.

    Parameters
    ----------
    rows : DataFrame
        Rows of :func:`dpnotes.lab.head_to_head.experiments.regret`; gaps are left out.
    roles : sequence of str
        Choices, as the rows name them.
    at_most : float
        What is little enough: one point.

    Returns
    -------
    DataFrame
        One row for each choice: choice, sets, regret, low, high, verdict.
    """
    there = rows.dropna(subset=["hindsight"])
    top = pd.Series({i: float(row[f"behind_{column(row['hindsight'])}"]) for i, row in there.iterrows()})
    found = []
    for role in roles:
        mean, sets = _over_sets(there, there[f"behind_{column(role)}"].astype(float) - top)
        low, high = mean.interval()
        within: Verdict = verdict(above(mean * -1.0 + at_most))
        found.append({"choice": role, "sets": sets, "regret": mean.value, "low": low, "high": high, "verdict": within})
    return pd.DataFrame(found)


def _over_sets(rows: pd.DataFrame, values: pd.Series) -> tuple[Mean, int]:
    """Mean over data sets of what each row has, and how many sets have any; these are the repeats of its error."""
    own = values.groupby(rows["dataset"]).mean().dropna()
    return Mean.of(float(own.mean()), float(own.std(ddof=1)), len(own)), len(own)


def ahead_of(rows: pd.DataFrame, one: str, other: str) -> Mean:
    """Mean over data sets of what one choice is ahead of another; gaps are left out.

    Parameters
    ----------
    rows : DataFrame
        Rows of :func:`dpnotes.lab.head_to_head.experiments.regret`.
    one, other : str
        Choices, as the rows name them.
    """
    there = rows.dropna(subset=["hindsight"])
    ahead = there[f"behind_{column(other)}"].astype(float) - there[f"behind_{column(one)}"].astype(float)
    return _over_sets(there, ahead)[0]


def exposures(rows: pd.DataFrame) -> pd.DataFrame:
    """Bound on the true-positive rate at 0.1 % false positives, of each method: the largest over the tasks.

    Parameters
    ----------
    rows : DataFrame
        Rows of :func:`dpnotes.lab.head_to_head.experiments.methods`; gaps are left out.

    Returns
    -------
    DataFrame
        method, and a column for each pair, such as ``"10, 1e-05"`` of epsilon and delta; NaN where a method has no such
        fit.
    """
    names = {f"exposure_{column(method)}": method for method in FAMILY}
    there = rows.dropna(subset=["best"])
    long = there.melt(["epsilon", "delta"], [name for name in names if name in there], "method", "rate")
    found = long.assign(method=long["method"].map(names), rate=long["rate"].astype(float))
    pairs = [f"{epsilon:g}, {delta:g}" for epsilon, delta in zip(found["epsilon"], found["delta"], strict=True)]
    return found.assign(pair=pairs).pivot_table("rate", "method", "pair", aggfunc="max").reset_index()


def audited(rows: pd.DataFrame) -> pd.DataFrame:
    """Audits of each method, the claimed epsilon of its two settings side by side with the lower bound.

    Parameters
    ----------
    rows : DataFrame
        Of ``benchmarks/audit_faults.py methods``.

    Returns
    -------
    DataFrame
        method, and for each of the two claimed epsilons ``found_...`` (lower bound of it) and ``runs_...``; and of
        the two, how many are refuted.
    """
    told = rows.assign(asked=rows["asked"].map("{:g}".format))
    wide = told.pivot_table(["epsilon", "runs"], "training", "asked", sort=False).rename(columns={"epsilon": "found"})
    wide.columns = ["_".join(pair) for pair in wide.columns]
    return wide.assign(refuted=told.groupby("training")["refuted"].sum()).reset_index(names="method")


def _limits(row: Any) -> str:
    low, high = (round(limit, 3) + 0.0 for limit in (row.low, row.high))  # no minus before a zero
    return f"{low:.1%} to {high:.1%}".replace(" ", NO_BREAK)


GAP = "no such fit"
AUDITS = Table(
    "Lower bounds of epsilon at delta = 0.02, for methods that were asked for epsilon 1 and 4 (votes and libraries "
    "claim less, and bagging claims 0), and how many of the two claims are refuted.",
    "method",
    Column("found_1", "of 1, at least", "{:.2f}"),
    Column("found_4", "of 4, at least", "{:.2f}"),
    "refuted",
    columns("{:,.0f}", runs_1="runs", runs_4="runs (of 4)"),
)
OTHERS = Table(
    "Accuracies of the best model of each side, and by how much ours is ahead, with 95 % limits.",
    "dataset",
    columns("{:g}", epsilon="", delta=""),
    Column("ahead", format="{:.1%}"),
    Column("limits", text=_limits),
    "verdict",
    Column("ours", text=lambda row: f"{row.ours} {row.accuracy_ours:.1%}"),
    Column("theirs", text=lambda row: f"{row.theirs} {row.accuracy_theirs:.1%}"),
)
REGRETS = Table(
    "Mean regret over data sets, with 95 % limits, and whether it is at most a point.",
    "choice",
    Column("regret", format="{:.1%}"),
    Column("limits", text=_limits),
    "verdict",
    "sets",
)
EXPOSURES = Table(
    "Bound on the true-positive rate at a false-positive rate of 0.1 %, for each pair of epsilon and delta.",
    "method",
    *(Column(pair, format="{:.2%}", gap=GAP) for pair in ("1, 0", "1, 1e-05", "10, 0", "10, 1e-05")),
)
