"""Every printed number of the bagging paper, and every sentence about its two figures: what became of it.

The paper prints no standard deviation and no number of runs; each printed number counts as one run whose standard
deviation is that of our rows of the cell. Runs of DP-SGD and the network on all records of Table 3a, of which we have
one each, borrow as :mod:`dpnotes.lab.bagging.means` says. PATE's teachers train for a tenth of the paper's epochs here:
its cells are gaps.
"""

from __future__ import annotations

import pandas as pd

from dpnotes.lab import scorecard
from dpnotes.lab._experiment import Grid
from dpnotes.lab.bagging import grids, tables
from dpnotes.lab.bagging.experiments import EXPERIMENTS
from dpnotes.lab.bagging.means import noisy, pooled
from dpnotes.lab.bagging.orderings import orderings
from dpnotes.lab.scorecard import Cell, Ours
from dpnotes.lab.store import collect, published_store


def cells() -> list[Cell]:
    """Cells of Tables 2 and 3, and sentences about Figures 1 and 2, in the paper's order."""
    found, bagged, case2 = printed_tables(), rows("bagging_table2a"), rows("bagging_case2")
    lenders = {"dp_sgd": noisy(rows("bagging_equal")), "none": pooled(bagged[bagged["subsample"].isna()], ["epochs"])}
    judged = orderings(
        *(found["2a"], found["3a"], tables.fixed_draws(case2, "paper"), tables.replacement(case2, "paper")),
        table2b=found["2b"],
        table3b=found["3b"],
        noisy=lenders["dp_sgd"],
    )
    sentences = {claim: Ours(answer) for claim, answer in zip(judged["claim"], judged["verdict"], strict=True)}
    return scorecard.cells("bagging", sentences, lenders=lenders)


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
