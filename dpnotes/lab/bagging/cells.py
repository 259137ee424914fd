"""Every printed number of the bagging paper, and every sentence about its two figures: what became of it.

The paper prints no standard deviation and no number of runs; each printed number counts as one run whose standard
deviation is that of our rows of the cell. Runs of DP-SGD and the network on all records of Table 3a, of which we have
one each, borrow as :mod:`dpnotes.lab.bagging.means` says. PATE's teachers train for a tenth of the paper's epochs here:
its cells are gaps.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from dpnotes.lab._experiment import Grid
from dpnotes.lab.bagging import grids, tables
from dpnotes.lab.bagging.experiments import EXPERIMENTS
from dpnotes.lab.bagging.means import NOBODY, Borrowed, borrowed, mean, noisy, pooled
from dpnotes.lab.bagging.orderings import orderings
from dpnotes.lab.scorecard import Cause, Cell, number, sentence
from dpnotes.lab.store import collect, published_store
from dpnotes.lab.verdicts import UNTESTED, Mean

UNIT = 1e-4  # the papers' accuracies have two digits after the point, in per cent
COARSE = {("3b", 100.0): 1e-3}  # printed with one
SENTENCES = {  # of the paper, by its figure; panel (a) is MNIST, (b) CIFAR-10
    "figure1_falls": ("Figure 1", "MNIST: the more models, the lower the accuracy at fixed N k"),
    "figure2_equal": ("Figure 2", "MNIST: drawing with or without replacement has negligible impact"),
}
CIFAR10 = {
    "Figure 1": "CIFAR-10: the more models, the lower the accuracy at fixed N k",
    "Figure 2": "CIFAR-10: drawing with or without replacement has negligible impact",
}
ONE_RATE = {  # of DP-SGD in a table, and its rows
    "2a": ("the learning rate of the library's example", "bagging_dp_sgd"),
    "3a": ("a tenth of the learning rate of the library's example", "bagging_case2_dp_sgd"),
}


def cells() -> list[Cell]:
    """Cells of Tables 2 and 3, and sentences about Figures 1 and 2, in the paper's order."""
    found, bagged, case2 = printed_tables(), rows("bagging_table2a"), rows("bagging_case2")
    lenders = {"dp_sgd": noisy(rows("bagging_equal")), "none": pooled(bagged[bagged["subsample"].isna()], ["epochs"])}
    causes = _other_rates(lenders["dp_sgd"]) | _other_tuning(lenders["none"])
    numbers = [
        _number(name, line, lenders, causes)
        for name, table in found.items()
        for _, line in table.query("variant == ''").dropna(subset=["published"]).iterrows()
    ]
    points, drawn_twice = tables.fixed_draws(case2, "paper"), tables.replacement(case2, "paper")
    judged = orderings(
        *(found["2a"], found["3a"], points, drawn_twice),
        table2b=found["2b"],
        table3b=found["3b"],
        noisy=lenders["dp_sgd"],
    ).set_index("claim")["verdict"]
    figures = [sentence(figure, words, judged[claim]) for claim, (figure, words) in SENTENCES.items()]
    return [*numbers, *figures, *(sentence(figure, words, UNTESTED) for figure, words in CIFAR10.items())]


def printed_tables() -> dict[str, pd.DataFrame]:
    """Tables 2 and 3 of the paper, our published rows beside: see :mod:`dpnotes.lab.bagging.tables`."""
    cifar10, noise = rows("bagging_cifar10"), rows("bagging_cifar10_dp_sgd")
    tuned = rows("bagging_case2_dp_sgd", grids.case2_dp_sgd("paper"))
    case2 = rows("bagging_case2"), rows("bagging_pate"), tuned
    return {
        "2a": tables.table2a(rows("bagging_table2a"), "paper", rows("bagging_dp_sgd", grids.dp_sgd("paper"))),
        "2b": tables.cifar10("2b", cifar10, noise),
        "3a": tables.table3a(*case2, "paper"),
        "3b": tables.cifar10("3b", cifar10, noise, rows("bagging_cifar10_pate")),
    }


def rows(name: str, grid: Grid | None = None) -> pd.DataFrame:
    """Published rows of an experiment of this chapter; metrics of a row that is not there are empty."""
    chosen = next(experiment for experiment in EXPERIMENTS if experiment.name == name)
    store = published_store(name)
    grid = chosen.grids["paper"]() if grid is None else grid
    return collect(chosen.function, grid, compute="stored", published=store, runs=store)


def _number(
    table: str, line: pd.Series[Any], lenders: Mapping[str, Borrowed], causes: Mapping[Any, list[Cause]]
) -> Cell:
    lender = lenders.get(line["method"], NOBODY)
    ran = line["seeds"] > 0 and line["method"] != "pate"
    own = Borrowed(line["std"], line["seeds"] - 1) if line["seeds"] > 1 else lender
    setting = line["sigma"] if line["method"] == "dp_sgd" else line["subsample"]
    setting = None if pd.isna(setting) else setting
    return number(
        f"Table {table}",
        tables.method_name(line),
        mean(line, to=lender) if ran else None,
        borrowed(line["published"], own),
        unit=COARSE.get((table, line["answers"]), UNIT),
        causes=causes.get((table, line["method"], setting), ()),
    )


def _other_rates(lender: Borrowed) -> dict[Any, list[Cause]]:
    """DP-SGD at the noises of Tables 2a and 3a, all of a table with one learning rate."""
    found = {}
    for table, (name, store) in ONE_RATE.items():
        given = rows(store, grids.one_rate(table)).dropna(subset=["accuracy"])
        for sigma, x in given[["noise_multiplier", "accuracy"]].astype(float).itertuples(index=False, name=None):
            found[table, "dp_sgd", sigma] = [Cause(name, store, borrowed(x, lender))]
    return found


def _other_tuning(lender: Borrowed) -> dict[Any, list[Cause]]:
    """Networks of Table 3a that go on from the public model with other optimisers and rates."""
    found: dict[Any, list[Cause]] = {}
    groups: Any = (
        rows("bagging_causes")
        .dropna(subset=["accuracy"])
        .groupby(["subsample", "optimizer", "learning_rate"], sort=False, dropna=False)
    )
    for (size, optimizer, rate), group in groups:
        accuracy = group["accuracy"].astype(float)
        name = f"going on by {optimizer.capitalize()} at rate {rate:g}"
        whole = pd.isna(size)
        own = borrowed(accuracy.mean(), lender) if whole else Mean.of(accuracy.mean(), accuracy.std(), len(accuracy))
        key = ("3a", "none", None) if whole else ("3a", "bagging", size)
        found.setdefault(key, []).append(Cause(name, "bagging_causes", own))
    return found
