"""Settings that the bagging paper leaves open: the candidates on held-out rows, and those that the rules choose."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from dpnotes.lab.bagging.costs import RECORDS
from dpnotes.lab.bagging.networks import VALIDATION_ROWS
from dpnotes.lab.bagging.rates import RATES, dp_sgd_rate
from dpnotes.lab.bagging.tables import equals, parameters, published
from dpnotes.lab.tables import GAP, Column, Table, columns, mean_and_std

NETWORK = ["width", "optimizer", "learning_rate"]
TASK = ["method", "architecture", "subsample", "sigma"]
ARCHITECTURES = {"vgg16": "VGG16", "vgg5": "five convolutions"}
MODELS = {"network": "the network, batches of 256", "linear": "softmax regression, batches of 1,000"}


def networks(rows: pd.DataFrame) -> pd.DataFrame:
    """Mean validation accuracy of each candidate, and the one that the rule chooses.

    The rule: the smallest network whose mean accuracy, over sizes and seeds, lies within one standard error of the best
    candidate's, with the optimiser that is better for it. The standard error is that of the best candidate's mean over
    seeds at each size, the two sizes taken as independent.

    Columns: width, optimizer, learning_rate, accuracy_<k> for each size, accuracy (mean), standard_error, chosen.
    """
    means, errors = (rows.pivot_table("accuracy", NETWORK, "subsample", aggfunc=name) for name in ("mean", "sem"))
    table: pd.DataFrame = means.add_prefix("accuracy_")
    table = table.assign(accuracy=means.mean(axis=1), standard_error=np.sqrt((errors**2).sum(axis=1)) / 2).reset_index()
    best = table.nlargest(1, "accuracy")
    good = table[table["accuracy"] >= float((best["accuracy"] - best["standard_error"]).sum())]
    smallest = good[good["width"] == good["width"].min()]
    return table.assign(chosen=table.index == smallest["accuracy"].idxmax()).rename_axis(columns=None)


def rates(rows: pd.DataFrame, model: str) -> pd.DataFrame:
    """Accuracy on held-out rows of DP-SGD's short runs, for ``model`` "network" or "linear".

    Columns: noise_multiplier, accuracy_<rate> for each rate, chosen (the best rate where all were run).
    """
    done = rows[rows["width"].isna() == (model == "linear")]
    table = done.pivot_table("accuracy", "noise_multiplier", "learning_rate", dropna=False)
    chosen = table.idxmax(axis=1).where(table.notna().all(axis=1))
    return table.rename(columns="accuracy_{:g}".format).assign(chosen=chosen).reset_index().rename_axis(columns=None)


def two_rates(one_rate: pd.DataFrame, chosen: pd.DataFrame) -> pd.DataFrame:
    """DP-SGD with the noise of Table 2a, all with one learning rate, beside the rates chosen for each noise.

    Columns: sigma, published, one_rate (accuracy), rate (the chosen), accuracy; NaN where a row was not run.
    """
    table = published("2a").query("method == 'dp_sgd'")[["sigma", "published"]]
    one, own = (
        frame.dropna(subset=["noise_multiplier"])
        .reindex(columns=["noise_multiplier", "learning_rate", "accuracy"])
        .astype(float)
        .set_axis(["sigma", "rate", "accuracy"], axis="columns")
        for frame in (one_rate, chosen)
    )
    one = one.drop(columns="rate").rename(columns={"accuracy": "one_rate"})
    return table.merge(one, on="sigma", how="left").merge(own, on="sigma", how="left")


def cifar10(rows: pd.DataFrame, dp_sgd: pd.DataFrame) -> pd.DataFrame:
    """Settings that were tried on CIFAR-10's held-out training rows, and those in use.

    The rule: of the candidates of one network, method and size the one with the best mean accuracy. Columns: method,
    architecture, subsample (records; empty for DP-SGD, which trains on all), sigma (the noise multiplier of DP-SGD,
    empty for the least noise), optimizer, learning_rate, accuracy (mean), std, seeds, chosen (the best where all
    candidates were run).
    """
    frames = (
        rows.assign(method="bagging", sigma=np.nan),
        dp_sgd.assign(method="dp_sgd", sigma=dp_sgd["noise_multiplier"].astype(float), optimizer="sgd"),
    )
    keys = [*TASK, "optimizer", "learning_rate"]
    both = pd.concat([frame.reindex(columns=[*keys, "accuracy"]).astype({"accuracy": float}) for frame in frames])
    groups = both.groupby(keys, sort=False, dropna=False)["accuracy"]
    table = groups.agg(accuracy="mean", std="std", seeds="count").reset_index()
    same = table.groupby(TASK, dropna=False)["accuracy"]
    whole = same.transform("count") == same.transform("size")
    return table.assign(chosen=whole & (table["accuracy"] == same.transform("max")))


def carried_rates(dp_sgd: pd.DataFrame) -> pd.DataFrame:
    """What held-out images choose at the reduced scale, beside the learning rate carried over from MNIST by its noise.

    Columns: sigma (empty for the least noise), chosen (NaN unless all candidates were run), carried, nearest (the
    candidate nearest to it).
    """
    lines = []
    groups: Any = dp_sgd.astype({"noise_multiplier": float}).groupby("noise_multiplier", dropna=False)
    for sigma, rows in groups:
        carried = dp_sgd_rate("network", next(iter(parameters(rows))), n=RECORDS["cifar10"] - VALIDATION_ROWS)
        best = rows.loc[rows["accuracy"].idxmax(), "learning_rate"] if rows["accuracy"].notna().all() else np.nan
        nearest = min(rows["learning_rate"], key=lambda rate: abs(np.log(rate / carried)))
        lines.append({"sigma": sigma, "chosen": best, "carried": carried, "nearest": nearest})
    return pd.DataFrame(lines)


def _task(row: Any) -> str:
    what = f"{'bagging' if row.method == 'bagging' else 'DP-SGD'}, {ARCHITECTURES[row.architecture]}"
    if row.method == "bagging":
        return what
    return f"{what}, {'the least sigma' if np.isnan(row.sigma) else equals('sigma', f'{row.sigma:g}')}"


CHOSEN = Column("chosen", labels={True: "yes", False: ""})

NETWORKS = Table(
    "Settings that the paper leaves open: accuracy on the last 10,000 MNIST training images, mean of 3 seeds; models "
    "trained on the first 50,000.",
    (
        Column("width", "channels"),
        "optimizer",
        Column("learning_rate", "rate", format="{:g}"),
        *columns("{:.2%}", accuracy_300="k = 300", accuracy_1000="k = 1,000", accuracy="mean"),
        Column("standard_error", "standard error", format="{:.2%}"),
        CHOSEN,
    ),
)
TWO_RATES = Table(
    "DP-SGD with the noise of Table 2a for 100 epochs, one run each: test accuracy at the rate 0.15 of the library's "
    "public example, and at the rate chosen for each noise on held-out rows.",
    (
        Column("sigma", format="{:g}"),
        Column("published", format="{:.2%}"),
        Column("one_rate", "rate 0.15", format="{:.2%}", gap=GAP),
        Column("rate", "chosen rate", format="{:g}"),
        Column("accuracy", "at the chosen rate", format="{:.2%}", gap=GAP),
    ),
)
CIFAR10 = Table(
    "Settings that the paper leaves open on CIFAR-10: accuracy on the last 10,000 training images, models trained on "
    "k others: 30 epochs with k = 1,000, 5 with k = 500; two epochs for DP-SGD, on 40,000 images.",
    (
        Column("method", "for", text=_task),
        Column("subsample", "k", format="{:,.0f}"),
        "optimizer",
        Column("learning_rate", "rate", format="{:g}"),
        mean_and_std("accuracy"),
        "seeds",
        CHOSEN,
    ),
)


def show_rates(table: pd.DataFrame, model: str) -> Any:
    """The candidates of :func:`rates` as the chapter shows them."""
    accuracies = (Column(f"accuracy_{rate:g}", f"rate {rate:g}", "{:.1%}", gap=GAP) for rate in sorted(RATES[model]))
    caption = (
        "DP-SGD for ten epochs, {what}: accuracy on the last 10,000 MNIST training images at four noises; trained on "
        "the first 50,000, one seed."
    )
    chosen = Column("chosen", format="{:g}", gap=GAP)
    shown = Table(caption, (Column("noise_multiplier", "sigma", format="{:g}"), *accuracies, chosen))
    return shown(table, what=MODELS[model])
