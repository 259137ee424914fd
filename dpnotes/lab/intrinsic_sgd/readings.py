"""Tables on how the paper's numbers were made: one draw of noise for all models, unscaled digits; and on cost."""

from __future__ import annotations

import numpy as np
import pandas as pd

from dpnotes.lab._experiment import paper_table
from dpnotes.lab.intrinsic_sgd.data import TASKS
from dpnotes.lab.intrinsic_sgd.tables import task_name

WAYS = {
    "none": "none",
    "rows": "rows to norm 1",
    "rows before projection": "rows to norm 1, then projected",
    "largest row": "all by the largest norm",
    "features": "features standardised",
}


def one_draw(rows: pd.DataFrame) -> pd.DataFrame:
    """Table IV with noise, as printed, with one draw for all models, and with a draw for each.

    Parameters
    ----------
    rows : DataFrame
        Of :func:`dpnotes.lab.intrinsic_sgd.experiments.draws`.

    Returns
    -------
    DataFrame
        task, sensitivity, entry ("accuracy", "spread", "gain / 10" as printed, "of the gap"), published, one draw, own
        draws.
    """
    keys = ["dataset", "sensitivity", "metric"]
    paper = paper_table("intrinsic_sgd_table4").query("treatment != 'noiseless'")
    printed = paper.set_index(keys)["value"].to_dict()
    spreads = paper.set_index(keys)["sd"].to_dict()
    theory = paper_table("intrinsic_sgd_table3").query("quantity == 'sensitivity_theoretical'")
    theoretical = theory.set_index("dataset")["value"].to_dict()
    found = []
    there = rows.dropna(subset=["accuracy"]).groupby(["dataset", "sensitivity"], sort=False) if len(rows) else ()
    for (name, sensitivity), own in there:
        dataset = str(name)
        task = TASKS[dataset]
        kind = "theoretical" if sensitivity == theoretical[task] else "empirical"
        by_draw = own.set_index("draw")
        for entry, column, published in (
            ("accuracy", "accuracy", printed[task, kind, "accuracy"]),
            ("spread", "accuracy_spread", spreads[task, kind, "accuracy"]),
            ("gain", "gain", printed[task, kind, "accuracy_gain"] / 10),
            ("of the gap", "gap_closed", printed[task, kind, "gap_closed"]),
        ):
            found.append(
                {
                    "task": task_name(dataset),
                    "sensitivity": {"theoretical": kind, "empirical": "observed"}[kind],
                    "entry": entry,
                    "published": published,
                    **{f"{draw} draw": float(by_draw[column].get(draw, np.nan)) for draw in ("shared", "own")},
                }
            )
    return pd.DataFrame(found, columns=["task", "sensitivity", "entry", "published", "shared draw", "own draw"])


def scaled_digits(rows: pd.DataFrame) -> pd.DataFrame:
    """What is printed of MNIST-binary, and what each way to scale its rows and each random projection gives.

    Parameters
    ----------
    rows : DataFrame
        Of :func:`dpnotes.lab.intrinsic_sgd.experiments.scaling`.

    Returns
    -------
    DataFrame
        scaling, projection (its seed), sigma, observed, accuracy, spread (of the accuracy, over seeds); the first row
        is the paper's.
    """
    columns = ["scaling", "projection", "sigma", "observed", "accuracy", "spread"]
    three, four = (paper_table(f"intrinsic_sgd_table{n}").query("dataset == 'MNIST-binary'") for n in (3, 4))
    values, quiet = three.set_index("quantity")["value"], four.set_index("treatment").loc["noiseless"]
    published = (
        "published",
        np.nan,
        values["sigma_intrinsic"],
        values["sensitivity_empirical"],
        *quiet[["value", "sd"]],
    )
    table = pd.DataFrame([published], columns=columns)
    if "sigma" not in rows:
        return table
    ours = rows.dropna(subset=["sigma"]).rename(columns={"accuracy_spread": "spread"})
    return pd.concat([table, ours.assign(scaling=ours["scaling"].map(WAYS))[columns]], ignore_index=True)


def costs(rows: pd.DataFrame) -> pd.DataFrame:
    """Runs and processor seconds of each task, both initialisations together, and of all.

    Parameters
    ----------
    rows : DataFrame
        Of :func:`dpnotes.lab.intrinsic_sgd.experiments.cost`.

    Returns
    -------
    DataFrame
        task, model, runs, training, statistics, minutes (both together).
    """
    names = ["runs", "training_seconds", "statistics_seconds"]
    columns = ["task", "model", "runs", "training", "statistics", "minutes"]
    there = rows.dropna(subset=["runs"]) if "runs" in rows else rows.iloc[:0]
    if there.empty:
        return pd.DataFrame(columns=columns)
    there = there.assign(
        task=there["dataset"].map(task_name),
        model=np.where(there["hidden"].isna(), "logistic regression", "network"),
    )
    table = there.groupby(["model", "task"], sort=False)[names].sum().reset_index()
    table.loc[len(table)] = ["", "all", *table[names].sum()]
    table["minutes"] = (table["training_seconds"] + table["statistics_seconds"]) / 60
    return table.rename(columns={"training_seconds": "training", "statistics_seconds": "statistics"})[columns]
