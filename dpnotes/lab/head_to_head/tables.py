"""Verdicts from rows of the head-to-head: where each family is the right choice, and
what a choice loses.
"""

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

# those that lead anywhere first, as they have the clearest colours
FAMILIES: dict[str, tuple[str, ...]] = {
    "DP-SGD": ("DPSGD",),
    "private prediction": (
        "LossPerturbation",
        "ModelSensitivity",
        "PredictionSensitivity",
        "SubsampleAggregate",
    ),
    "class means": ("ClassMeans",),
    "random trees": ("RandomTrees",),
    "noisy SGD": ("NoisySGD", "AugmentedSGD"),
    "bagging": ("Bagging",),
    "filtered votes": ("FilteredVote",),
    "majority": ("majority class",),
}
FAMILY = {method: family for family, methods in FAMILIES.items() for method in methods}


def behind(row: pd.Series, method: str, repeats: int) -> Mean:
    """Give the mean by which a method is behind the best method of a row, on the
    same splits.
    """
    return _mean(
        row[f"behind_{column(method)}"], row[f"error_{column(method)}"], repeats
    )


def _mean(value: Any, error: Any, repeats: Any) -> Mean:
    return Mean(float(value), float(error) ** 2, float(error) ** 4 / (int(repeats) - 1))


def right_choice(rows: pd.DataFrame) -> pd.DataFrame:
    """Find, for each row, the family of the best method, and whether this family is
    ahead of every other family.

    Parameters
    ----------
    rows : DataFrame
        Rows of :func:`dpnotes.lab.head_to_head.experiments.methods`; gaps are left out.

    Returns
    -------
    DataFrame
        The rows, with three more columns. The column family names the family with the
        highest mean. The column choice names this family again if it is ahead of every
        other family, and is "tie" or "undecided" otherwise. The column left is 1 if the
        family is ahead of every other family. Otherwise it counts the families that
        have a method which is not shown to be behind the best method. The tests of all
        methods together have the level of a verdict. With this confidence, one of the
        counted families therefore contains the truly best method.
    """
    there = rows.dropna(subset=["best"])
    families, choices, left = [], [], []
    for _, row in there.iterrows():
        own = FAMILY[row["best"]]
        ran = [
            method for method in FAMILY if pd.notna(row.get(f"behind_{column(method)}"))
        ]
        leads = {
            method: above(behind(row, method, int(row["repeats"])))
            for method in ran
            if method != row["best"]
        }
        found = verdict(
            every([lead for method, lead in leads.items() if FAMILY[method] != own])
        )
        families.append(own)
        choices.append(own if found == HOLDS else TIE if found == TIE else UNDECIDED)
        near = {
            FAMILY[method]
            for method, lead in leads.items()
            if lead(LEVEL / len(leads)) != HOLDS
        }
        left.append(1 if found == HOLDS else len({own} | near))
    return there.assign(family=families, choice=choices, left=left)


def pooled(rows: pd.DataFrame) -> pd.DataFrame:
    """Pool the rows of several tables of one kind into one row; the tables are the
    repeats and are independent.

    Parameters
    ----------
    rows : DataFrame
        Rows of :func:`dpnotes.lab.head_to_head.experiments.methods` that differ in
        ``seed``; gaps are left out.

    Returns
    -------
    DataFrame
        One row for each combination of kind of table, epsilon and delta that has at
        least two tables. The columns are best, the accuracy, behind and error of each
        method under the same names as in the rows, and repeats, the number of tables.
    """
    keys = ["dataset", "target", "rows", "columns", "margin", "epsilon", "delta"]
    found = []
    for key, own in rows.dropna(subset=["best"]).groupby(
        keys, dropna=False, sort=False
    ):
        if len(own) < 2:
            continue
        names = {f"accuracy_{column(method)}": method for method in FAMILY}
        accuracy = (
            own[[name for name in names if name in own]]
            .astype(float)
            .dropna(axis=1)
            .rename(columns=names)
        )
        best = accuracy.mean().idxmax()
        gaps = accuracy.rsub(accuracy[best], axis=0)
        cells = {
            f"{what}_{column(str(method))}": value
            for what, values in {
                "accuracy": accuracy.mean(),
                "behind": gaps.mean(),
                "error": gaps.sem(),
            }.items()
            for method, value in values.items()
        }
        found.append(
            dict(zip(keys, key, strict=True))
            | {"best": best, "repeats": len(own)}
            | cells
        )
    return pd.DataFrame(found)


def map_of(
    rows: pd.DataFrame, names: Sequence[str], *, across: str = "epsilon"
) -> dict[str, tuple[pd.DataFrame, pd.DataFrame]]:
    """Make the panels for :func:`dpnotes.lab.figures.leaders`: tasks against a column,
    one panel for each delta.

    Parameters
    ----------
    rows : DataFrame
        Rows of :func:`right_choice`. Without a column delta, there is one panel.
    names : sequence of str
        Columns that name a task.
    across : str
        The column whose values the panels have across.
    """
    words = {"rows": "n = {:,.0f}", "columns": "d = {:.0f}", "margin": "margin {:g}"}
    tasks = [
        ", ".join(
            words.get(name, "{}").format(row[name])
            for name in names
            if pd.notna(row[name]) and row[name]
        )
        for _, row in rows.iterrows()
    ]
    told = rows.assign(task=[task.replace("_", " ") for task in tasks])
    order = told.sort_values([*names], na_position="first")["task"].unique()
    panels = told.groupby("delta") if "delta" in told else [("", told)]
    return {
        f"delta = {delta:g}" if delta != "" else "": tuple(  # type: ignore[misc]
            own.pivot_table(cell, "task", across, aggfunc="first").reindex(order)
            for cell in ("family", "left")
        )
        for delta, own in panels
    }


def beside_others(rows: pd.DataFrame) -> pd.DataFrame:
    """Test on each task whether our best model is at most a tie behind the best model
    of the other libraries.

    Parameters
    ----------
    rows : DataFrame
        Rows of :func:`dpnotes.lab.head_to_head.experiments.others`; gaps are left out.

    Returns
    -------
    DataFrame
        One row for each task, with the columns dataset, epsilon, delta, ours,
        accuracy_ours, theirs, accuracy_theirs, ahead, low, high and verdict.
    """
    there = rows.dropna(subset=["ours"])
    means = [
        _mean(row["ahead"], row["error"], row["repeats"]) for _, row in there.iterrows()
    ]
    limits = pd.DataFrame(
        [mean.interval() for mean in means], columns=["low", "high"], index=there.index
    )
    columns = [
        "dataset",
        "epsilon",
        "delta",
        "ours",
        "accuracy_ours",
        "theirs",
        "accuracy_theirs",
        "ahead",
    ]
    return (
        there[columns]
        .join(limits)
        .assign(verdict=[verdict(not_behind(mean)) for mean in means])
    )


def regrets(
    rows: pd.DataFrame, roles: Sequence[str], *, at_most: float = NEGLIGIBLE
) -> pd.DataFrame:
    """Compute the mean regret of each choice, and test whether it is small enough.

    The regret of a choice is the accuracy that it loses compared with the best method
    in hindsight. The mean is over data sets. Each data set counts with the mean over
    its rows, because tasks made from one data set share its records.

    Parameters
    ----------
    rows : DataFrame
        Rows of :func:`dpnotes.lab.head_to_head.experiments.regret`; gaps are left out.
    roles : sequence of str
        Names of the choices in the rows.
    at_most : float
        The largest regret that is small enough. Default: one point.

    Returns
    -------
    DataFrame
        One row for each choice, with the columns choice, sets, regret, low, high and
        verdict.
    """
    there = rows.dropna(subset=["hindsight"])
    top = pd.Series(
        {
            i: float(row[f"behind_{column(row['hindsight'])}"])
            for i, row in there.iterrows()
        }
    )
    found = []
    for role in roles:
        mean, sets = _over_sets(
            there, there[f"behind_{column(role)}"].astype(float) - top
        )
        low, high = mean.interval()
        within: Verdict = verdict(above(mean * -1.0 + at_most))
        found.append(
            {
                "choice": role,
                "sets": sets,
                "regret": mean.value,
                "low": low,
                "high": high,
                "verdict": within,
            }
        )
    return pd.DataFrame(found)


def _over_sets(rows: pd.DataFrame, values: pd.Series) -> tuple[Mean, int]:
    """Give the mean over data sets of the values of the rows, and the number of data
    sets, which are the repeats.
    """
    own = values.groupby(rows["dataset"]).mean().dropna()
    return Mean.of(float(own.mean()), float(own.std(ddof=1)), len(own)), len(own)


def ahead_of(rows: pd.DataFrame, one: str, other: str) -> Mean:
    """Compute the mean lead of one choice over another, over data sets; gaps are left
    out.

    Parameters
    ----------
    rows : DataFrame
        Rows of :func:`dpnotes.lab.head_to_head.experiments.regret`.
    one, other : str
        Names of the choices in the rows.
    """
    there = rows.dropna(subset=["hindsight"])
    ahead = there[f"behind_{column(other)}"].astype(float) - there[
        f"behind_{column(one)}"
    ].astype(float)
    return _over_sets(there, ahead)[0]


def exposures(rows: pd.DataFrame) -> pd.DataFrame:
    """Bound the true-positive rate at 0.1 % false positives for each method: the
    largest bound over the tasks.

    Parameters
    ----------
    rows : DataFrame
        Rows of :func:`dpnotes.lab.head_to_head.experiments.methods`; gaps are left out.

    Returns
    -------
    DataFrame
        One row for each method. Besides method, there is a column for each pair of
        epsilon and delta, such as ``"10, 1e-05"``. It is NaN for a method that was not
        fitted at this pair.
    """
    names = {f"exposure_{column(method)}": method for method in FAMILY}
    there = rows.dropna(subset=["best"])
    long = there.melt(
        ["epsilon", "delta"],
        [name for name in names if name in there],
        "method",
        "rate",
    )
    found = long.assign(
        method=long["method"].map(names), rate=long["rate"].astype(float)
    )
    pairs = [
        f"{epsilon:g}, {delta:g}"
        for epsilon, delta in zip(found["epsilon"], found["delta"], strict=True)
    ]
    return (
        found.assign(pair=pairs)
        .pivot_table("rate", "method", "pair", aggfunc="max")
        .reset_index()
    )


def audited(rows: pd.DataFrame) -> pd.DataFrame:
    """Put the two audits of each method into one row: at the two values of epsilon for
    which it was asked.

    Parameters
    ----------
    rows : DataFrame
        Rows of ``python -m benchmarks.audit_faults methods``.

    Returns
    -------
    DataFrame
        One row for each method. For each of the two values, such as 1, there is a
        column ``found_1`` (the lower bound on epsilon) and a column ``runs_1`` (the
        number of runs). The column refuted counts the refuted claims.
    """
    told = rows.assign(asked=rows["asked"].map("{:g}".format))
    wide = told.pivot_table(
        ["epsilon", "runs"], "training", "asked", sort=False
    ).rename(columns={"epsilon": "found"})
    wide.columns = ["_".join(pair) for pair in wide.columns]
    return wide.assign(refuted=told.groupby("training")["refuted"].sum()).reset_index(
        names="method"
    )


def _limits(row: Any) -> str:
    # no minus before a zero
    low, high = (round(limit, 3) + 0.0 for limit in (row.low, row.high))
    return f"{low:.1%} to {high:.1%}".replace(" ", NO_BREAK)


GAP = "not fitted"
AUDITS = Table(
    "Lower bounds on the epsilon of each method at delta = 0.02. Each method is audited"
    " twice: once when it is asked for epsilon = 1, and once for epsilon = 4. At this"
    " delta, some methods claim a smaller epsilon than they are asked for, and bagging"
    " claims epsilon = 0. The fourth column counts how many of the two claims are"
    " refuted.",
    "method",
    Column("found_1", "lower bound (asked for 1)", "{:.2f}"),
    Column("found_4", "lower bound (asked for 4)", "{:.2f}"),
    Column("refuted", "claims refuted"),
    columns("{:,.0f}", runs_1="runs (asked for 1)", runs_4="runs (asked for 4)"),
)
OTHERS = Table(
    "The accuracies of our best method and of the best method of the other libraries,"
    ' and our lead with its 95 % interval. The verdict "holds" means that our best'
    " method is shown to be at least as good as theirs, up to the margin of a tie;"
    ' "reversed" means that it is shown to be worse.',
    "dataset",
    columns("{:g}", epsilon="", delta=""),
    Column("ahead", "our lead", "{:.1%}"),
    Column("limits", "95 % interval", text=_limits),
    "verdict",
    Column(
        "ours",
        "our best method",
        text=lambda row: f"{row.ours} {row.accuracy_ours:.1%}",
    ),
    Column(
        "theirs",
        "their best method",
        text=lambda row: f"{row.theirs} {row.accuracy_theirs:.1%}",
    ),
)
CHOICES = {
    "chosen without the data": 'compare with data="shape"',
    "DP-SGD by default": "DP-SGD with its defaults",
    "recommended": "the rules",
}
REGRETS = Table(
    "The mean regret of each choice over the data sets, with its 95 % interval. The"
    ' verdict "holds" means that the mean regret is shown to be at most one point;'
    ' "reversed" means that it is shown to be larger.',
    Column("choice", labels=CHOICES),
    Column("regret", "mean regret", "{:.1%}"),
    Column("limits", "95 % interval", text=_limits),
    "verdict",
    Column("sets", "data sets"),
)
EXPOSURES = Table(
    "Upper bound on the true-positive rate of any membership test at a false-positive"
    " rate of 0.1 %. Each column is for one pair of epsilon and delta, and gives the"
    " largest bound over the tasks.",
    "method",
    *(
        Column(
            f"{epsilon}, {delta}",
            f"epsilon = {epsilon}, delta = {delta}",
            "{:.2%}",
            gap=GAP,
        )
        for epsilon in (1, 10)
        for delta in ("0", "1e-05")
    ),
)
