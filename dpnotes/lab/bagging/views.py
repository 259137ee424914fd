"""Tables of the bagging chapter about attacks and private base learners."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from dpnotes import accounting
from dpnotes.lab import tables
from dpnotes.lab.bagging.cells import filled, mean_texts
from dpnotes.lab.bagging.grids import RECORDS

if TYPE_CHECKING:
    from pandas.io.formats.style import Styler

PRIVATE = ["way", "base epsilon", "level", "advantage", "found", "accuracy", "standard error", "seeds"]


def attacks(rows: pd.DataFrame) -> pd.DataFrame:
    """Error rates of the membership attacks with 95% Clopper-Pearson limits, as if records were independent.

    Columns: attack, records, allowed (false-positive rate that was set), true, low, high, false (measured), dispersion
    (standard deviation of the true-positive rate between networks, in units of what independent records would have).
    Rows that were not run are left out.
    """
    if "hits" not in rows:
        rows = rows.assign(hits=np.nan)
    lines = []
    done: Any = rows.dropna(subset=["hits"]).itertuples()
    for row in done:
        hits, members = int(row.hits), int(row.members)
        limits = accounting.clopper_pearson(hits, members)
        true, networks = hits / members, int(row.n_networks) // 2
        binomial = np.sqrt(max(true * (1 - true), 1e-12) * networks / members)
        lines.append(
            {
                "attack": row.attack,
                "records": "mislabelled" if row.mislabelled else "as they are",
                "allowed": row.false_positive_rate,
                "true": true,
                "low": limits.low,
                "high": limits.high,
                "false": row.alarms / row.nonmembers,
                "dispersion": float(row.deviation) / binomial,
            }
        )
    columns = ["attack", "records", "allowed", "true", "low", "high", "false", "dispersion"]
    return pd.DataFrame(lines, columns=columns)


def attacks_view(table: pd.DataFrame) -> Styler:
    """The attacks as the chapter shows them."""
    percent = dict.fromkeys(("allowed", "true", "low", "high", "false"), "{:.2%}")
    return tables.show(
        table,
        caption="Membership attacks on single networks of bagging: share of the drawn records that are called members "
        "(true positives, 95 % Clopper-Pearson) and of the others (false positives).",
        formats={**percent, "dispersion": "{:.2f}"},
        names={
            "allowed": "allowed false",
            "true": "drawn, found",
            "low": "95 % from",
            "high": "to",
            "false": "not drawn",
        },
    )


def private_bases(rows: pd.DataFrame, scale: str) -> pd.DataFrame:
    """Ways to use a subsample, bare, private or not at all: guarantee and accuracy.

    Columns: way, base epsilon, level (epsilon of the release at the common delta), advantage, found, accuracy (mean),
    standard error, seeds.
    """
    if "accuracy" not in rows:
        return pd.DataFrame(
            columns=["way", "base epsilon", "level", "advantage", "found", "accuracy", "standard error"]
        )
    words = {"bare": "subsample, no noise", "bagged": "subsample, private base", "direct": "all records, same epsilon"}
    done = rows.dropna(subset=["accuracy"])
    done = done.assign(**{"base epsilon": done["epsilon"].where(done["way"] != "bare")})
    done = done.astype({"base epsilon": float, "level": float, "accuracy": float})
    groups = done.groupby(["base epsilon", "way"], dropna=False)
    table = groups.agg(
        level=("level", "first"),
        advantage=("advantage", "first"),
        found=("found", "first"),
        accuracy=("accuracy", "mean"),
        error=("accuracy", "sem"),
        seeds=("accuracy", "count"),
    ).reset_index()
    table["way"] = table["way"].map(words)
    return table.rename(columns={"error": "standard error"})[PRIVATE]


def private_bases_view(table: pd.DataFrame) -> Styler:
    """The ways to use a subsample as the chapter shows them."""
    return tables.show(
        table,
        caption="A private base learner on a subsample without replacement, and what the same epsilon gives on all "
        "records. Epsilon of the release at delta = 1e-5 k/n; found: true positives at 0.1 % false positives.",
        formats={
            "base epsilon": "{:g}",
            "level": "{:.3g}",
            "advantage": "{:.3f}",
            "found": "{:.2%}",
            "accuracy": "{:.2%}",
            "standard error": "{:.2%}",
        },
        names={"level": "epsilon of the release"},
    )


def equal_exposure(bagging: pd.DataFrame, equal: pd.DataFrame, scale: str) -> pd.DataFrame:
    """Bagging at each size beside DP-SGD that exposes as much: in advantage, or at 0.1% false positives.

    Columns: k, pi, bagging (mean accuracy), and for softmax regression and the network of DP-SGD the mean accuracy at
    equal advantage and at equal found; for each of them its spread ("... spread"); NaN where not run.
    """
    bagging, equal = filled(bagging), filled(equal)
    lines = []
    sizes: Any = bagging.groupby("subsample")
    for size, drawn in sizes:
        share = accounting.bagging(n=RECORDS[scale], subsample=int(size)).advantage
        line = {"k": int(size), "pi": share, **_mean_and_spread("bagging", drawn)}
        for model, linear in (("softmax", True), ("network", False)):
            own = equal[equal["width"].isna() == linear]
            for where, column in (("advantage", "delta"), ("found", "found")):
                at = own[np.isclose(own[column].astype(float), share)]
                line |= _mean_and_spread(f"{model}, equal {where}", at)
        lines.append(line)
    return pd.DataFrame(lines)


def equal_exposure_view(table: pd.DataFrame) -> Styler:
    """Accuracies at equal exposure as the chapter shows them, gaps named."""
    methods = [name.removesuffix(" spread") for name in table.columns if name.endswith(" spread")]
    return tables.show(
        table.assign(**mean_texts(table, methods))[["k", "pi", *methods]],
        caption="Test accuracy (mean and standard deviation over seeds) of bagging (a network on k records) and of "
        "DP-SGD (all records, ten epochs): at equal advantage, and at equal true-positive rate when 0.1 % of the "
        "others are called members.",
        formats={"k": "{:,}", "pi": "{:.4f}"},
    )


def _mean_and_spread(name: str, rows: pd.DataFrame) -> dict[str, float]:
    return {name: rows["accuracy"].mean(), f"{name} spread": rows["accuracy"].std(ddof=1)}
