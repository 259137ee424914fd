"""Tables of the head-to-head: what a choice lost, in rows of earlier versions of the
package that chose.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from dpnotes.lab.tables import NO_BREAK, Column, Table, columns
from dpnotes.lab.verdicts import (
    NEGLIGIBLE,
    Mean,
    Verdict,
    above,
    not_behind,
    verdict,
)


def column(name: str) -> str:
    """A method's name as part of the name of a column."""
    return name.replace(" ", "_").replace("-", "_")


def _mean(value: Any, error: Any, repeats: Any) -> Mean:
    return Mean(float(value), float(error) ** 2, float(error) ** 4 / (int(repeats) - 1))


def beside_others(rows: pd.DataFrame) -> pd.DataFrame:
    """Test on each task whether our best model is at most a tie behind the best model
    of the other libraries.

    Parameters
    ----------
    rows : DataFrame
        Rows of ``head_to_head_others.csv``; gaps are left out.

    Returns
    -------
    DataFrame
        One row for each task, with the columns dataset, epsilon, delta, ours,
        accuracy_ours, theirs, accuracy_theirs, ahead, low, high and verdict.
    """
    # a gap is a row that was not computed
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


def regrets(rows: pd.DataFrame, roles: Sequence[str]) -> pd.DataFrame:
    """Compute the mean regret of each choice, and test whether it is at most one point.

    The regret of a choice is the accuracy that it loses compared with the best method
    in hindsight. The mean is over data sets. Each data set counts with the mean over
    its rows, because tasks made from one data set share its records.

    Parameters
    ----------
    rows : DataFrame
        Rows of ``head_to_head_sealed.csv``; gaps are left out.
    roles : sequence of str
        Names of the choices in the rows.

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
        within: Verdict = verdict(above(mean * -1.0 + NEGLIGIBLE))
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
    # tasks of one data set share its records, so they count as one
    own = values.groupby(rows["dataset"]).mean().dropna()
    return Mean.of(float(own.mean()), float(own.std(ddof=1)), len(own)), len(own)


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


# of which more is better, and those of which less is
MORE = ("accuracy", "auc")
LESS = ("log_loss", "calibration")


def losses(rows: pd.DataFrame) -> pd.DataFrame:
    """Compute what each private model loses, compared with the best private one for
    each table and epsilon, on the average and at most.

    Parameters
    ----------
    rows : DataFrame
        Rows of ``python -m benchmarks.real_tables``; those without privacy, of infinite
        epsilon, are left out. So is a model where it could not be fitted.

    Returns
    -------
    DataFrame
        One row for each model, by rising loss in log loss, with the columns model,
        tables, and mean and worst of each measure: ``accuracy_mean`` and so on.
    """
    # those without privacy have an infinite epsilon
    private = rows[np.isfinite(rows["epsilon"])]
    groups = private.groupby("model")
    found = {"tables": groups["table"].nunique()}
    for measure in (*MORE, *LESS):
        values = private.pivot_table(measure, ["table", "epsilon"], "model")
        if measure in MORE:
            # of accuracy and AUC, less is a loss
            values = -values
        # the best private model of each table and epsilon loses nothing
        lost = values.sub(values.min(axis=1), axis=0)
        found[f"{measure}_mean"] = lost.mean()
        found[f"{measure}_worst"] = lost.max()
    table = pd.DataFrame(found).rename_axis("model")
    return table.sort_values("log_loss_mean").reset_index()


def _limits(row: Any) -> str:
    # no minus before a zero
    low, high = (round(limit, 3) + 0.0 for limit in (row.low, row.high))
    return f"{low:.1%} to {high:.1%}".replace(" ", NO_BREAK)


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


def _loss(measure: str, heading: str, form: str) -> Column:
    """A column of mean losses, with the worst in brackets."""

    def text(row: Any) -> str:
        mean = form.format(getattr(row, f"{measure}_mean"))
        worst = form.format(getattr(row, f"{measure}_worst"))
        return f"{mean} ({worst})".replace(" ", NO_BREAK)

    return Column(measure, heading, text=text)


LOSSES = Table(
    "What each private model loses, compared with the best private model for the same"
    " table and epsilon: the mean, and in brackets the largest loss.",
    "model",
    _loss("accuracy", "accuracy", "{:.1%}"),
    _loss("auc", "AUC", "{:.1%}"),
    _loss("log_loss", "log loss", "{:.3f}"),
    _loss("calibration", "calibration error", "{:.3f}"),
    "tables",
)
CHOICES = {
    "chosen without the data": "chosen on synthetic tables",
    "DP-SGD by default": "DP-SGD with its defaults",
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
