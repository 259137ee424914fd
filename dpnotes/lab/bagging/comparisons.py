"""Bagging beside DP-SGD, PATE and private base learners: at the same budget, at the same exposure, under attack."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd

from dpnotes import accounting
from dpnotes.lab.bagging.exposure import profile, tpr_at_fpr_1e3
from dpnotes.lab.bagging.grids import RECORDS
from dpnotes.lab.bagging.tables import BUDGET, parameters
from dpnotes.lab.tables import GAP, Column, Table, columns, mean_and_std
from dpnotes.lab.verdicts import Mean, compared

KEYS = ["subsample", "width", "sigma", "batch_size", "epochs", "queries", "answers"]  # of runs that differ in seeds
TARGET = ["epsilon", "delta", "tpr_at_fpr_1e3"]  # what the noise of DP-SGD at equal exposure is calibrated to
SENSES = {"advantage": "delta", "tpr": "tpr_at_fpr_1e3"}
CONTENDERS = ("softmax", "network", "hog")
ATTACK = ["attack", "mislabelled", "false_positive_rate"]
POINT = ["method", "variant", "setting", "advantage", "tpr_at_fpr_1e3", "accuracy", "seeds"]


def baselines(table2a: pd.DataFrame) -> pd.DataFrame:
    """DP-SGD at each budget of Table 2a, with the paper's noise and with the least noise that the budget allows.

    Columns: those of the paper's DP-SGD in :func:`dpnotes.lab.bagging.tables.table2a`, and with the suffixes "_least"
    and "_bagging" those of DP-SGD with the least noise and of bagging at the same budget. Nothing is published for the
    quick scale: the table is empty then.
    """
    lines = table2a.dropna(subset=["block"])
    given, least, bagged = (
        lines.query("method == @method and variant == @variant")
        for method, variant in (("dp_sgd", ""), ("dp_sgd", "least_noise"), ("bagging", ""))
    )
    table = given.merge(least, on="block", suffixes=("", "_least")).merge(bagged, on="block", suffixes=("", "_bagging"))
    return table.sort_values("sigma", ascending=False, ignore_index=True)


def equal_exposure(
    bagging: pd.DataFrame,
    equal: pd.DataFrame,
    scale: str,
    handcrafted: tuple[pd.DataFrame, pd.DataFrame] | None = None,
) -> pd.DataFrame:
    """Bagging at each size beside DP-SGD that exposes as much: in advantage, or at 0.1% false positives.

    Parameters
    ----------
    bagging, equal : DataFrame
        Rows of networks, and of DP-SGD on pixels.
    scale : str
    handcrafted : tuple of DataFrame, optional
        Rows of bagging and of DP-SGD on handcrafted features.

    Returns
    -------
    DataFrame
        Columns subsample, advantage; mean accuracy of bagging, bagging_hog (logistic regressions on handcrafted
        features), and of DP-SGD at equal advantage and at equal true-positive rate: softmax_advantage, softmax_tpr,
        network_advantage, network_tpr, hog_advantage, hog_tpr. For each of them its standard deviation ("..._std") and
        number of seeds ("..._seeds"); NaN and 0 where not run.
    """
    nothing = pd.DataFrame(columns=["subsample", "width", "delta", "tpr_at_fpr_1e3", "accuracy"])
    frames = (bagging, equal, *(handcrafted or (nothing, nothing)))
    bagging, equal, bagged, features = (frame.assign(accuracy=_accuracy(frame)) for frame in frames)
    rows = {"softmax": equal[equal["width"].isna()], "network": equal[equal["width"].notna()], "hog": features}
    lines = []
    sizes: Any = bagging.dropna(subset=["subsample"]).groupby("subsample")
    for size, drawn in sizes:
        pi = accounting.bagging(n=RECORDS[scale], subsample=int(size)).advantage
        groups = {"bagging": drawn, "bagging_hog": bagged[bagged["subsample"].astype(float) == size]}
        for sense, column in SENSES.items():
            for model in CONTENDERS:
                groups[f"{model}_{sense}"] = rows[model][np.isclose(rows[model][column].astype(float), pi)]
        line = {"subsample": int(size), "advantage": pi}
        for name, group in groups.items():
            accuracy = group["accuracy"]
            line |= {name: accuracy.mean(), f"{name}_std": accuracy.std(), f"{name}_seeds": accuracy.count()}
        lines.append(line)
    return pd.DataFrame(lines)


def standings(equal: pd.DataFrame) -> pd.DataFrame:
    """How bagging stands to each contender at equal exposure: ahead, behind, equal, undecided or not run.

    Columns: subsample; softmax_advantage, ..., hog_tpr (bagging of networks to DP-SGD); hogs_advantage, hogs_tpr
    (bagging on handcrafted features to DP-SGD on them).
    """
    pairs = {f"{model}_{sense}": ("bagging", f"{model}_{sense}") for sense in SENSES for model in CONTENDERS}
    pairs |= {f"hogs_{sense}": ("bagging_hog", f"hog_{sense}") for sense in SENSES}
    lines = []
    for line in equal.to_dict("records"):
        found = {}
        for name, sides in pairs.items():
            one, other = (_mean(line, side) for side in sides)
            found[name] = "not run" if one is None or other is None else compared(one, other)
        lines.append({"subsample": line["subsample"], **found})
    return pd.DataFrame(lines, columns=["subsample", *pairs])


def _mean(line: Any, name: str) -> Mean | None:
    runs = line[f"{name}_seeds"]
    return Mean.of(line[name], line[f"{name}_std"], runs) if runs else None


def exposures(
    bagging: pd.DataFrame, dp_sgd: pd.DataFrame, equal: pd.DataFrame, pate: pd.DataFrame, scale: str
) -> pd.DataFrame:
    """What each run exposes, and its accuracy: the points of :func:`dpnotes.lab.bagging.figures.plane`.

    Columns: method, variant ("softmax", "long" and "short" of DP-SGD, "networks" and "logistic" of PATE's teachers),
    setting (records for each model, noise multiplier, or answers), advantage, tpr_at_fpr_1e3, accuracy (mean), seeds.
    Profiles are exact for bagging, of tight accounting for DP-SGD and PATE, whatever the data.
    """
    lines = []
    for method, setting, frame, length in (
        ("bagging", "subsample", bagging.dropna(subset=["subsample"]), ""),
        ("dp_sgd", "sigma", dp_sgd, "long"),
        ("dp_sgd", "sigma", equal, "short"),
        ("pate", "answers", pate, ""),
    ):
        done = frame.assign(accuracy=_accuracy(frame)).dropna(subset=["accuracy"])
        keys = [name for name in KEYS if name in done]
        for _, group in done.groupby(keys, dropna=False) if len(done) else ():
            row = next(iter(parameters(group)))
            guarantee = profile(row, RECORDS[scale])
            if guarantee is not None:
                variant = {"bagging": "", "pate": "networks" if row["epochs"] else "logistic"}.get(method, length)
                variant = "softmax" if method == "dp_sgd" and row["width"] is None else variant
                exposed = (guarantee.advantage, tpr_at_fpr_1e3(guarantee), group["accuracy"].mean(), len(group))
                lines.append((method, variant, row[setting] or row["queries"], *exposed))
    return pd.DataFrame(lines, columns=POINT).sort_values(["method", "variant", "advantage"], ignore_index=True)


def private_bases(rows: pd.DataFrame) -> pd.DataFrame:
    """The modes of using a subsample, bare, private or not at all: guarantee and accuracy.

    Columns: subsample, base_epsilon, mode, release_epsilon (at the common delta), advantage, tpr_at_fpr_1e3, accuracy
    (mean), standard_error, seeds.
    """
    numbers = ["base_epsilon", "release_epsilon", "advantage", "tpr_at_fpr_1e3", "accuracy"]
    rows = rows.assign(base_epsilon=rows["epsilon"].where(rows["mode"] != "bare"))
    done = (
        rows.reindex(columns=["subsample", "mode", *numbers])
        .dropna(subset=["accuracy"])
        .astype(dict.fromkeys(numbers, float))
    )
    aggregated: Any = {name: (name, "first") for name in numbers[1:-1]}
    aggregated |= {"accuracy": ("accuracy", "mean"), "standard_error": ("accuracy", "sem")}
    groups: Any = done.groupby(["subsample", "base_epsilon", "mode"], dropna=False)
    table: pd.DataFrame = groups.agg(**aggregated, seeds=("accuracy", "count")).reset_index()
    return table


def stands(one: pd.Series[Any], other: pd.Series[Any]) -> str:
    """How the accuracy of a line of :func:`private_bases` stands to that of another: see ``verdicts.compared``."""
    ours, theirs = (
        Mean.of(line["accuracy"], line["standard_error"] * math.sqrt(line["seeds"]), line["seeds"])
        for line in (one, other)
    )
    return compared(ours, theirs)


def attacks(rows: pd.DataFrame) -> pd.DataFrame:
    """Error rates of the membership attacks with 95% Clopper-Pearson limits, as if records were independent.

    Columns: attack, mislabelled, false_positive_rate (that was set), tpr, low, high, fpr (measured), dispersion
    (standard deviation of the true-positive rate between networks, in units of what independent records would have).
    Rows that were not run are left out.
    """
    counts = ["true_positives", "members", "false_positives", "nonmembers", "tpr_std"]
    done = rows.reindex(columns=[*ATTACK, "n_networks", *counts]).dropna(subset=["true_positives"])
    done = done.astype(dict.fromkeys(("n_networks", *counts), float))
    limits = [accounting.clopper_pearson(int(k), int(n)) for k, n in done[counts[:2]].itertuples(index=False)]
    tpr = done["true_positives"] / done["members"]
    binomial = np.sqrt((tpr * (1 - tpr)).clip(lower=1e-12) * (done["n_networks"] // 2) / done["members"])
    table = done[ATTACK].assign(tpr=tpr, low=[limit.low for limit in limits], high=[limit.high for limit in limits])
    fpr = done["false_positives"] / done["nonmembers"]
    return table.assign(fpr=fpr, dispersion=done["tpr_std"] / binomial)


def _accuracy(rows: pd.DataFrame) -> pd.Series:
    return rows["accuracy"].astype(float) if "accuracy" in rows else pd.Series(np.nan, index=rows.index)


BASELINES = Table(
    "DP-SGD at the budgets of Table 2a: with the noise of the paper and with the least noise that tight accounting "
    "allows, one run each, beside bagging (mean over seeds). Accuracies on the test set.",
    (
        BUDGET,
        Column("sigma", "published sigma", format="{:g}"),
        Column("advantage", "its total variation", gap=GAP),
        Column("reproduced", "accuracy, published sigma", format="{:.2%}", gap=GAP),
        Column("noise_least", "tight sigma", format="{:.3g}", gap=GAP),
        Column("advantage_least", "its total variation ", gap=GAP),
        Column("reproduced_least", "accuracy, tight sigma", format="{:.2%}", gap=GAP),
        Column("reproduced_bagging", "accuracy, bagging", format="{:.2%}", gap=GAP),
    ),
)
EQUAL_EXPOSURE = Table(
    "Test accuracy (mean and standard deviation over seeds) of bagging (a network on k records) and of DP-SGD (all "
    "records, ten epochs): at equal advantage, and at equal true-positive rate when 0.1 % of the others are called "
    "members.",
    (
        Column("subsample", "k", format="{:,}"),
        Column("advantage", "pi", format="{:.4f}"),
        mean_and_std("bagging", std="bagging_std"),
        mean_and_std("softmax_advantage", "softmax, equal advantage", std="softmax_advantage_std"),
        mean_and_std("softmax_tpr", "softmax, equal true-positive rate", std="softmax_tpr_std"),
        mean_and_std("network_advantage", "network, equal advantage", std="network_advantage_std"),
        mean_and_std("network_tpr", "network, equal true-positive rate", std="network_tpr_std"),
    ),
)
HANDCRAFTED = Table(
    "The same on histograms of oriented gradients, which no training data decides: logistic regression on k records by "
    "bagging, softmax regression on all records by DP-SGD, ten epochs.",
    (
        Column("subsample", "k", format="{:,}"),
        Column("advantage", "pi", format="{:.4f}"),
        mean_and_std("bagging_hog", "bagging", std="bagging_hog_std"),
        mean_and_std("hog_advantage", "DP-SGD, equal advantage", std="hog_advantage_std"),
        mean_and_std("hog_tpr", "DP-SGD, equal true-positive rate", std="hog_tpr_std"),
    ),
)
_MODELS = {"softmax": "softmax", "network": "network", "hog": "features", "hogs": "features, both"}
STANDINGS = Table(
    "How bagging of networks stands to DP-SGD (softmax regression or a network on pixels, softmax regression on "
    'handcrafted features), and in "features, both" bagging on the features: by the one rule; left at equal advantage, '
    "right at equal true-positive rate (TPR).",
    (
        Column("subsample", "k", format="{:,}"),
        *(
            Column(f"{model}_{sense}", words if sense == "advantage" else f"{words}, TPR")
            for sense in SENSES
            for model, words in _MODELS.items()
        ),
    ),
)
PRIVATE_BASES = Table(
    "A private base learner on a subsample without replacement, and what the same epsilon gives on all records. "
    "Epsilon of the release at delta = 1e-5 k/n; true positives at 0.1 % false positives.",
    (
        Column(
            "mode",
            labels={
                "bare": "subsample, no noise",
                "bagged": "subsample, private base",
                "direct": "all records, same epsilon",
            },
        ),
        Column("base_epsilon", "base epsilon", format="{:g}"),
        Column("release_epsilon", "epsilon of the release", format="{:.3g}"),
        Column("advantage", format="{:.3f}"),
        *columns("{:.2%}", tpr_at_fpr_1e3="true positives", accuracy="", standard_error="standard error"),
        "seeds",
    ),
)
OWN = Table(
    "Your records: logistic regression on a subsample of k records without replacement, without noise, with a private "
    "base learner, and what the same epsilon gives on all records. Epsilon of the release at delta = 1e-5 k/n.",
    (Column("subsample", "k"), *PRIVATE_BASES.columns),
)
ATTACKS = Table(
    "Membership attacks on single networks of bagging: fraction of the drawn records that are called members (true "
    "positives, 95 % Clopper-Pearson) and of the others (false positives).",
    (
        "attack",
        Column("mislabelled", "records", labels={True: "mislabelled", False: "as they are"}),
        *columns("{:.2%}", false_positive_rate="allowed false", tpr="drawn, called"),
        *columns("{:.2%}", low="95 % from", high="to", fpr="not drawn, called"),
        Column("dispersion", format="{:.2f}"),
    ),
)
