"""Tables of the chapter on differentially private bagging: published beside reproduced, at both deltas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from dpnotes.lab import tables
from dpnotes.lab._experiment import paper_table

if TYPE_CHECKING:
    from pandas.io.formats.style import Styler

SETTING = ["method", "n_teachers", "k", "epsilon"]
METRICS = {"labels": "labels", "accuracy": "accuracy", "auroc": "AUROC", "auprc": "AUPRC"}
PUBLISHED = {  # data set and learner: file of performances, and the names in the file of counts
    ("adult", "logistic"): ("dpbag_adult_lr", "UCI Adult", "logistic regression"),
    ("adult", "boosting"): ("dpbag_adult_gbm", "UCI Adult", "GBM"),
    ("diabetes130", "logistic"): ("dpbag_heart_lr", "Heart Failure", "logistic regression"),
    ("diabetes130", "boosting"): ("dpbag_heart_gbm", "Heart Failure", "GBM"),
}
RANK = {"DPBag": 0, "DPBag-": 1, "SAA": 2, "NPB": 3}
DELTAS = {"reproduced": 1e-3, "stated": 1e-5}


def of_method(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows under the paper's names; those of tight accounting, which it does not have, are left out.

    Columns method, n_teachers, k (1 for subsample-and-aggregate), epsilon and delta come first.
    """
    accountant, partitions = rows["accountant"].astype(str), rows["n_partitions"].astype(int)
    names = np.select(
        [accountant == "none", accountant == "personalised", (accountant == "naive") & (partitions == 1)],
        ["NPB", "DPBag", "SAA"],
        np.where(accountant == "naive", "DPBag-", ""),
    )
    found = rows.assign(method=names, k=partitions.astype(float), n_teachers=rows["n_teachers"].astype(float))
    found[["epsilon", "delta"]] = found[["epsilon", "delta"]].astype(float)
    return found[found["method"] != ""]


def published(dataset: str, teachers: str, metric: str) -> pd.DataFrame:
    """Published values: method, n_teachers, k, epsilon, value. Nothing is published for other data."""
    if (dataset, teachers) not in PUBLISHED:
        return pd.DataFrame(
            {"method": pd.Series(dtype=str)} | dict.fromkeys([*SETTING[1:], metric], pd.Series(dtype=float))
        )
    file, data, model = PUBLISHED[dataset, teachers]
    if metric == "labels":
        table = paper_table("dpbag_labels")
        table = table[(table["dataset"] == data) & (table["model"] == model)].assign(metric="labels")
    else:
        table = paper_table(file)
    found = table[table["metric"] == METRICS[metric]].rename(columns={"value": metric})
    found = found.assign(k=found["k"].fillna(1.0), n_teachers=found["n_teachers"].astype(float))
    return found.assign(epsilon=found["epsilon"].astype(float))[[*SETTING, metric]]


def cells(rows: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Every published cell, or every cell of our own where nothing is published, beside ours at both deltas.

    Columns: method, n_teachers, k, epsilon; published; reproduced, spread, seeds and difference at delta = 1e-3 (what
    the paper's numbers are of); stated, stated spread at delta = 1e-5 (what it says). Means and standard deviations
    over seeds. NPB has no epsilon and no delta: its values are under "reproduced".
    """
    dataset, teachers = rows["dataset"].iloc[0], rows["teachers"].iloc[0]
    paper, ours = published(dataset, teachers, metric), of_method(rows)
    if metric in ours:
        ours = ours.astype({metric: float})
    if metric == "labels":
        ours = ours[~ours["method"].isin(["NPB", "DPBag-"])]  # one needs none, the other has those of SAA
    first = ours[(ours["delta"] == DELTAS["reproduced"]) | (ours["method"] == "NPB")]
    table = tables.compare(paper, first, on=SETTING, metric=metric)
    second = tables.compare(paper, ours[ours["delta"] == DELTAS["stated"]], on=SETTING, metric=metric)
    renamed = second.rename(columns={"reproduced": "stated", "spread": "stated spread"})
    table = table.merge(renamed[[*SETTING, "stated", "stated spread"]], on=SETTING, how="left")
    if len(paper):
        table = table[table["published"].notna()]
    order = table.assign(rank=table["method"].map(RANK)).sort_values(["rank", "n_teachers", "k", "epsilon"])
    columns = ["published", "reproduced", "spread", "seeds", "difference", "stated", "stated spread"]
    return order[[*SETTING, *columns]].reset_index(drop=True)


def cells_view(table: pd.DataFrame, *, metric: str, caption: str) -> Styler:
    """A table of :func:`cells` as the chapter shows it, gaps named; ours with the digits that the spread supports."""
    counts = metric == "labels"
    digits = "{:.0f}" if counts else "{:.3f}"

    def mean(value: float, spread: float) -> str:
        if np.isnan(value):
            return tables.GAP
        wide = f"{tables.PLUS_MINUS}{spread:.1f}" if counts else f"{tables.PLUS_MINUS}{spread:.3f}"
        return digits.format(value) + ("" if np.isnan(spread) or (counts and spread == 0) else wide)

    def each(value: str, spread: str) -> list[str]:
        return [mean(*pair) for pair in zip(table[value], table[spread], strict=True)]

    difference = 100 * table["difference"] / (table["published"] if counts else 1)
    shown = pd.DataFrame(
        {
            "method": table["method"],
            "n": table["n_teachers"].map("{:.0f}".format),
            "k": [f"{k:.0f}" if k > 1 else "" for k in table["k"]],
            "epsilon": ["" if np.isnan(e) else f"{e:g}" for e in table["epsilon"]],
            "published": table["published"],
            "reproduced": each("reproduced", "spread"),
            "runs": table["seeds"],
            "difference": difference,
            "stated": [
                "" if method == "NPB" else text
                for method, text in zip(table["method"], each("stated", "stated spread"), strict=True)
            ],
        }
    )
    return tables.show(
        shown,
        caption=caption,
        formats={"published": "{:.0f}" if counts else "{:.4f}", "difference": "{:+.1f} %" if counts else "{:+.1f}"},
        names={
            "reproduced": "at delta = 1e\N{NON-BREAKING HYPHEN}3",
            "stated": "at delta = 1e\N{NON-BREAKING HYPHEN}5",
        },
    )


def orderings(rows: pd.DataFrame) -> pd.DataFrame:
    """How often the paper's ordering statements hold, in its own numbers and in ours (delta = 1e-3, means over seeds).

    Columns: statement, published, ours: "cells in which it holds of cells compared".
    """
    by_metric = {metric: cells(rows, metric) for metric in METRICS}
    columns = {"published": "published", "ours": "reproduced"}
    return pd.DataFrame(
        [
            {"statement": name} | {shown: _share(test(by_metric, column)) for shown, column in columns.items()}
            for name, test in {
                "DPBag above SAA of the same n": lambda t, c: _above(t, c, "DPBag", "SAA"),
                "DPBag- above SAA of the same n": lambda t, c: _above(t, c, "DPBag-", "SAA"),
                "DPBag above DPBag- of the same n and k": lambda t, c: _above(t, c, "DPBag", "DPBag-"),
                "DPBag has more labels than SAA": lambda t, c: _above({"labels": t["labels"]}, c, "DPBag", "SAA"),
                "labels of DPBag do not fall with k": _labels_rise,
            }.items()
        ]
    )


def _above(by_metric: Mapping[str, pd.DataFrame], column: str, better: str, worse: str) -> list[bool]:
    found: list[bool] = []
    for table in by_metric.values():
        high, low = (table[table["method"] == name].dropna(subset=[column]) for name in (better, worse))
        keys = ["n_teachers", "epsilon"] + (["k"] if worse == "DPBag-" else [])
        both = high.merge(low, on=keys)
        found += (both[f"{column}_x"] > both[f"{column}_y"]).tolist()
    return found


def _labels_rise(by_metric: Mapping[str, pd.DataFrame], column: str) -> list[bool]:
    counts = by_metric["labels"].query("method == 'DPBag'").dropna(subset=[column]).sort_values("k")
    found: list[bool] = []
    for _, group in counts.groupby(["n_teachers", "epsilon"]):
        found += (np.diff(group[column]) >= 0).tolist()
    return found


def _share(found: list[bool]) -> str:
    return f"{sum(found)} of {len(found)}" if found else tables.GAP


def best(rows: pd.DataFrame, metric: str, name: str) -> pd.DataFrame:
    """Setting of DPBag with the largest value for each epsilon: ``name`` is "n_teachers" or "k"."""
    table = cells(rows, metric).query("method == 'DPBag'")
    found: dict[str, pd.Series[Any]] = {}
    for shown, column in {"published": "published", "ours": "reproduced"}.items():
        there = table.dropna(subset=[column])
        found[shown] = there.loc[there.groupby("epsilon")[column].idxmax()].set_index("epsilon")[name]
    return pd.DataFrame(found).rename_axis("epsilon").reset_index()


def implied_shares(labels: pd.DataFrame) -> pd.DataFrame:
    """Mean of m^2 over queries, for the record that pays most, that counts of labels imply: SAA count / DPBag count.

    Parameters
    ----------
    labels : DataFrame
        Of :func:`cells`.

    Returns
    -------
    DataFrame
        n_teachers, k, and for each epsilon "published, <epsilon>" and "ours, <epsilon>" (delta = 1e-3).
    """
    kinds, keys = {"published": "published", "reproduced": "ours"}, ["n_teachers", "k"]
    base = labels.loc[labels["method"] == "SAA", ["n_teachers", "epsilon", *kinds]]
    both = labels[labels["method"] == "DPBag"].merge(base, on=["n_teachers", "epsilon"], suffixes=("", " of SAA"))
    both[keys] = both[keys].astype(int)
    long = [
        both[keys].assign(
            name=[f"{name}, {e:g}" for e in both["epsilon"]], ratio=both[f"{column} of SAA"] / both[column]
        )
        for column, name in kinds.items()
    ]
    wide = pd.concat(long).pivot_table("ratio", keys, "name", sort=False, dropna=False)
    return wide.reset_index().rename_axis(columns=None)
