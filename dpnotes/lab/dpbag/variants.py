"""Beyond the paper's tables: variants with a proof at equal budgets, what many partitions add, and who pays."""

from __future__ import annotations

from typing import Any

import pandas as pd

from dpnotes.lab.dpbag.grids import STATED_DELTA
from dpnotes.lab.dpbag.runs import PAID, QUANTILES
from dpnotes.lab.dpbag.tables import METRICS, of_method
from dpnotes.lab.tables import Column, Table, mean_and_std

FILTER = "filter"
VARIANTS = {
    "saa": "SAA, the paper's accounting",
    "dpbag": "DPBag, personalised",
    "saa_tight": "SAA, tight",
    "dpbag_tight": "many partitions, tight",
}
SETTING = ["method", "confidence", "vote_fraction"]  # of a variant; a filter alone has the last two


def compared(rows: pd.DataFrame, filters: pd.DataFrame) -> pd.DataFrame:
    """Variants at equal (epsilon, 1e-5), for each number of teachers: labels, their quality, and the student's.

    Columns: method (of :data:`VARIANTS`, or "filter"), confidence and vote_fraction (of a filter), guarantee,
    n_teachers, k, epsilon; labels, label_accuracy, accuracy, auroc, auprc (means over seeds) and <metric>_std. Variants
    of many partitions are shown at the most partitions there are.
    """
    numbers, metrics = ["n_teachers", "k", "epsilon"], ["label_accuracy", *METRICS]
    ours = of_method(rows)
    shown = (ours["delta"] == STATED_DELTA) & ours["k"].isin([1, ours["k"].max()]) & ours["method"].isin(VARIANTS)
    every = pd.concat([ours[shown], filters.assign(method=FILTER, k=filters["n_partitions"])], ignore_index=True)
    every = every.rename(columns={"status": "guarantee"})
    every = every.reindex(columns=[*SETTING, "guarantee", *numbers, *metrics]).dropna(subset=["accuracy"])
    every = every.astype({"guarantee": str, **dict.fromkeys([*SETTING[1:], *numbers, *metrics], float)})
    every["method"] = pd.Categorical(every["method"], [*VARIANTS, FILTER])
    groups = every.groupby([*SETTING, "guarantee", *numbers], dropna=False, observed=True)[metrics]
    table = groups.agg(["mean", "std"])
    table.columns = table.columns.map(lambda name: "_".join(name).removesuffix("_mean"))
    order = {"n_teachers": True, "epsilon": True, "method": True, "confidence": True, "vote_fraction": False, "k": True}
    table = table.reset_index().sort_values(list(order), ascending=list(order.values()), ignore_index=True)
    return table.astype({"method": str})


def variant_name(row: Any) -> str:
    """Name of a row of :func:`compared` for its reader."""
    if row.method != FILTER:
        return VARIANTS[row.method]
    sure = f"{row.confidence:g} sure, votes on {row.vote_fraction:g}"
    return f"filter: {'votes on all' if row.confidence == 0 else sure}"


COMPARED = Table(
    "Variants at equal (epsilon, 1e-5): labels, the fraction of them that is correct, and the student (mean and "
    "standard deviation over runs). Personalised DPBag has no guarantee and is there for comparison.",
    (
        Column("method", "variant", text=variant_name),
        Column("guarantee", labels={"per-instance": "none"}),
        Column("n_teachers", "n", text=lambda row: f"{row.n_teachers:.0f}"),
        Column("k", text=lambda row: f"{row.k:.0f}"),
        Column("epsilon", text=lambda row: f"{row.epsilon:g}"),
        Column("labels", format="{:.0f}"),
        Column("label_accuracy", "correct", "{:.1%}"),
        mean_and_std("accuracy", std="accuracy_std", formats=("{:.3f}", "{:.3f}")),
        mean_and_std("auroc", "AUROC", std="auroc_std", formats=("{:.3f}", "{:.3f}")),
    ),
)


def partitions_effect(rows: pd.DataFrame) -> pd.DataFrame:
    """What the most partitions add to one, at the same budget, labels and noise: runs paired by seed.

    Columns: n_teachers, epsilon, labels; correct_fraction (of the labels with one partition); label_gain and auroc_gain
    (mean differences, percentage points); label_gain_se and auroc_gain_se (their standard errors over seeds).
    """
    keys, metrics = ["n_teachers", "epsilon", "seed"], ["labels", "label_accuracy", "auroc"]
    tight = rows[(rows["accountant"] == "tight") & (rows["delta"] == STATED_DELTA)]
    tight = tight.reindex(columns=[*keys, "n_partitions", *metrics]).astype(float).dropna()
    one, many = (tight[tight["n_partitions"] == k].set_index(keys)[metrics] for k in (1, tight["n_partitions"].max()))
    both = one.join((100 * (many - one)).add_suffix("_gain").dropna(), how="inner")
    table = both.groupby(keys[:2]).agg(
        labels=("labels", "mean"),
        correct_fraction=("label_accuracy", "mean"),
        label_gain=("label_accuracy_gain", "mean"),
        label_gain_se=("label_accuracy_gain", "sem"),
        auroc_gain=("auroc_gain", "mean"),
        auroc_gain_se=("auroc_gain", "sem"),
    )
    return table.reset_index().astype({"n_teachers": int})


EFFECT = Table(
    "Tight accounting at delta = 1e-5: fraction of correct labels with one partition, and what the most partitions add "
    "to it and to the student's AUROC, with standard errors over runs, in percentage points.",
    (
        Column("n_teachers", "n"),
        Column("epsilon", format="{:g}"),
        Column("labels", format="{:.0f}"),
        Column("correct_fraction", "correct", "{:.1%}"),
        Column("label_gain", "many more", "{:+.2f}"),
        Column("label_gain_se", "error", "{:.2f}"),
        Column("auroc_gain", "AUROC, many more", "{:+.2f}"),
        Column("auroc_gain_se", "AUROC, error", "{:.2f}"),
    ),
)


def paid(rows: pd.DataFrame) -> pd.DataFrame:
    """Epsilon of the private records when the personalised accountant stops, as a fraction of the largest one.

    One row for each n_teachers, k and epsilon at delta = 1e-5; the other columns are quantiles over records, means over
    seeds.
    """
    keys = ["n_teachers", "k", "epsilon"]
    ours = of_method(rows).query("accountant == 'personalised' and delta == @STATED_DELTA")
    numbers = ours.reindex(columns=[*keys, "epsilon_spent", *PAID]).astype(float).dropna()
    fractions = numbers[list(PAID)].div(numbers["epsilon_spent"], axis=0).set_axis(QUANTILES, axis=1)
    return numbers[keys].join(fractions).groupby(keys).mean().reset_index()
