"""Tables 2b and 3b of the bagging paper, and the reduced scale beside them."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from dpnotes import accounting
from dpnotes.lab import tables
from dpnotes.lab._experiment import paper_table
from dpnotes.lab.bagging.cells import COLUMNS, drawn, filled, line, mean_text, mean_texts, parameters, view
from dpnotes.lab.bagging.cifar10 import GPU, HUNDRED, RECORDS, gpu_hours
from dpnotes.lab.bagging.networks import IMAGENET, VALIDATION_ROWS
from dpnotes.lab.bagging.rates import dp_sgd_rate

if TYPE_CHECKING:
    from pandas.io.formats.style import Styler

PARTS = {"2b": "test", "3b": "rest"}
LEAST = "the same with the least sigma"
STARTS = {IMAGENET: "ImageNet weights of VGG16", HUNDRED: "a model of CIFAR-100, not of ImageNet as in the paper"}


def cifar10_table(
    table: str, rows: pd.DataFrame, dp_sgd: pd.DataFrame, pate: pd.DataFrame | None = None
) -> pd.DataFrame:
    """Table 2b or 3b: a line for each of its cells, and below DP-SGD's cells the same with the least noise.

    Columns: method (with its setting), published budget, advantage (total variation that a run with our settings
    guarantees; where the noise is yet to be calibrated, that its budget guarantees), published, reproduced (mean),
    spread, seeds, difference, gap (hours on a GPU that a cell without rows needs).
    """
    rows, dp_sgd = (filled(frame[frame["part"] == PARTS[table]]) for frame in (rows, dp_sgd))
    cells: Any = paper_table(f"bagging_table{table[0]}").query("table == @table").itertuples()
    lines: list[dict[str, Any]] = []
    for cell in cells:
        published = {"published": cell.value, "budget": (cell.epsilon, cell.delta)}
        if cell.method == "DPSGD":
            given = dp_sgd[dp_sgd["noise_multiplier"] == cell.sigma]
            lines.append(_line(f"DP-SGD, sigma = {cell.sigma:g}", given, **published))
            lines.append(_line(LEAST, dp_sgd[(dp_sgd["epsilon"] == cell.epsilon) & (dp_sgd["delta"] == cell.delta)]))
        elif cell.method == "PATE":
            asked = filled(pate) if pate is not None else rows.iloc[:0].assign(answers=np.nan)
            count = int(cell.n_queries)
            lines.append(_line(f"PATE, {count} answers", asked[asked["answers"] == count], **published))
        else:
            size = np.nan if cell.method == "No Privacy" else float(cell.k)
            ours = rows[rows["subsample"].isna()] if np.isnan(size) else rows[rows["subsample"] == size]
            lines.append(_line(drawn(size), ours, **published))
    return pd.DataFrame(lines)[COLUMNS]


def cifar10_view(table: pd.DataFrame, *, public: str | None = None) -> Styler:
    """Table 2b, or, with the public model that Case II started from, Table 3b as the chapter shows it."""
    which = "Table 2b of the paper, from scratch" if public is None else f"Table 3b of the paper, from {STARTS[public]}"
    return view(
        table,
        caption=f"{which}: accuracy on CIFAR-10. Advantage: what the run guarantees against any membership test, at "
        "all error rates (where the least sigma is yet to be found: what the budget guarantees). Hours: at "
        f"{GPU['plain']:,.0f} images a second, {GPU['private']:,.0f} by DP-SGD (estimates).",
    )


def reduced_table(rows: pd.DataFrame, dp_sgd: pd.DataFrame) -> pd.DataFrame:
    """The reduced scale: bagging and DP-SGD, each from scratch and from CIFAR-100.

    Columns: method, advantage, and for scratch and tuned (from CIFAR-100) the mean accuracy, spread and seeds.
    """
    rows, dp_sgd = filled(rows), filled(dp_sgd)
    sizes: Any = rows.groupby("subsample")
    groups = [(drawn(size), group) for size, group in sizes]
    sigmas: Any = dp_sgd.groupby("noise_multiplier", dropna=False)
    groups += [(f"DP-SGD, {_noise(sigma)}", group) for sigma, group in sigmas]
    lines = []
    for method, group in groups:
        scratch, tuned = (_line(method, group[group["part"] == part]) for part in PARTS.values())
        lines.append(
            {
                "method": method,
                "advantage": scratch["advantage"],
                "scratch": scratch["reproduced"],
                "scratch spread": scratch["spread"],
                "scratch seeds": scratch["seeds"],
                "tuned": tuned["reproduced"],
                "tuned spread": tuned["spread"],
                "tuned seeds": tuned["seeds"],
            }
        )
    return pd.DataFrame(lines)


def reduced_view(table: pd.DataFrame) -> Styler:
    """The reduced scale as the chapter shows it."""
    texts = mean_texts(table, ("scratch", "tuned"))
    return tables.show(
        table.assign(**texts)[["method", "advantage", "scratch", "scratch seeds", "tuned", "tuned seeds"]],
        caption="CIFAR-10 at a reduced scale, not the paper's: five convolutions, 30 epochs for bagging and 2 for "
        "DP-SGD. Accuracy from scratch (10,000 test images) and from CIFAR-100 (9,000), mean and standard deviation.",
        formats={"advantage": "{:.4f}"},
        names={"scratch": "from scratch", "scratch seeds": "seeds", "tuned": "from CIFAR-100", "tuned seeds": "seeds "},
    )


def candidates(rows: pd.DataFrame, dp_sgd: pd.DataFrame) -> pd.DataFrame:
    """Settings that were tried on held-out training rows, and those in use.

    The rule: of the candidates of one network and method the one with the best mean accuracy. Columns: what, optimizer,
    learning_rate, accuracy (mean), spread, seeds, chosen ("yes" for the best where all candidates were run).
    """
    names = {"vgg16": "bagging, VGG16", "vgg5": "bagging, five convolutions"}
    rows = filled(rows).assign(what=rows["architecture"].map(names))
    dp_sgd = filled(dp_sgd)
    what = [f"DP-SGD, five convolutions, {_noise(sigma)}" for sigma in dp_sgd["noise_multiplier"]]
    dp_sgd = dp_sgd.assign(what=what, optimizer="sgd")
    keys = ["what", "optimizer", "learning_rate"]
    both = pd.concat([frame[[*keys, "accuracy"]] for frame in (rows, dp_sgd)])
    groups = both.groupby(keys, sort=False)["accuracy"]
    table = groups.agg(accuracy="mean", spread="std", seeds="count").reset_index()
    whole = table.groupby("what")["accuracy"].transform(lambda means: means.notna().all())
    best = table["accuracy"] == table.groupby("what")["accuracy"].transform("max")
    return table.assign(chosen=(whole & best).map({True: "yes", False: ""}))


def candidates_view(table: pd.DataFrame) -> Styler:
    """The candidates as the chapter shows them."""
    texts = [mean_text(*pair, tables.GAP) for pair in zip(table["accuracy"], table["spread"], strict=True)]
    return tables.show(
        table.assign(accuracy=texts).drop(columns="spread"),
        caption="Settings that the paper leaves open on CIFAR-10: accuracy on the last 10,000 training images, models "
        "trained on others: k = 1,000 and 30 epochs for bagging, 500 and 5 for VGG16; two epochs for DP-SGD.",
        formats={"learning_rate": "{:g}"},
        names={"what": "for", "learning_rate": "rate"},
    )


def carried_rates(dp_sgd: pd.DataFrame) -> pd.DataFrame:
    """What held-out images choose at the reduced scale, beside the learning rate carried over from MNIST by its noise.

    Columns: noise, chosen (NaN unless all candidates were run), carried, nearest (the candidate nearest to it).
    """
    lines = []
    groups: Any = filled(dp_sgd).groupby("noise_multiplier", dropna=False)
    for sigma, rows in groups:
        carried = dp_sgd_rate("network", parameters(rows)[0], n=RECORDS - VALIDATION_ROWS)
        best = rows.loc[rows["accuracy"].idxmax(), "learning_rate"] if rows["accuracy"].notna().all() else np.nan
        nearest = min(rows["learning_rate"], key=lambda rate: abs(np.log(rate / carried)))
        lines.append({"noise": _noise(sigma), "chosen": best, "carried": carried, "nearest": nearest})
    return pd.DataFrame(lines)


def _noise(sigma: float) -> str:
    return "the least sigma" if np.isnan(sigma) else f"sigma = {sigma:g}"


def _line(method: str, rows: pd.DataFrame, **published: Any) -> dict[str, Any]:
    asked = parameters(rows)
    hours = sum(map(gpu_hours, asked))
    gap = f"not run: {max(hours, 0.01):.2f} h on a GPU" if asked else tables.GAP
    return line(method, rows, advantage=_guaranteed(asked[0]) if asked else np.nan, gap=gap, **published)


def _guaranteed(row: Mapping[str, Any]) -> float:
    """Total variation of a row's release, the stored one or from its parameters alone."""
    if row["advantage"] is not None:
        return float(row["advantage"])
    if "n_teachers" in row:
        return accounting.confident_gnmax(
            sigma_threshold=float(row["sigma_threshold"]),
            sigma_answer=float(row["sigma_answer"]),
            queries=int(row["queries"]),
            answers=int(row["answers"]),
        ).advantage
    if "clipping_norm" in row:
        if row["noise_multiplier"] is None:
            return accounting.approximate(float(row["epsilon"]), float(row["delta"])).advantage
        return _noisy(float(row["noise_multiplier"]), int(row["batch_size"]), int(row["epochs"]))
    if row["subsample"] is None:
        return np.nan
    return accounting.bagging(n=RECORDS, subsample=int(row["subsample"])).advantage


@functools.cache
def _noisy(sigma: float, batch: int, epochs: int) -> float:
    rounds: dict[str, Any] = {"sample_rate": batch / RECORDS, "steps": epochs * RECORDS // batch}
    return accounting.dp_sgd(noise_multiplier=sigma, **rounds).advantage
