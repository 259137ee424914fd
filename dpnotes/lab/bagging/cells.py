"""What the bagging paper says against our rows, by the one rule: its printed numbers, its sentences, its orderings.

A single run has no standard deviation of its own. A run of DP-SGD borrows that of the ten-epoch runs of the same
network by DP-SGD, pooled over their settings; the network on all records of Table 3a borrows that of Table 2a. The
paper prints no standard deviation and no number of runs; each printed number counts as one run whose standard deviation
is that of our rows of the cell. PATE's teachers train for a tenth of the paper's epochs here: its cells are gaps.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from dpnotes.lab import scorecard
from dpnotes.lab._experiment import Grid
from dpnotes.lab.bagging import grids, tables
from dpnotes.lab.bagging.experiments import EXPERIMENTS
from dpnotes.lab.scorecard import Cell, Ours
from dpnotes.lab.store import collect, published_store
from dpnotes.lab.tables import Column, Table
from dpnotes.lab.verdicts import (
    NEGLIGIBLE,
    NOBODY,
    Borrowed,
    Mean,
    Question,
    above,
    every,
    level,
    not_behind,
    verdict,
)

STATEMENTS = {
    "2a_above_dp_sgd": "Table 2a: bagging is above DP-SGD with the paper's noise",
    "2a_above_least": "the same, DP-SGD with the least noise of the pair",
    "2a_as_far": "and as far above it as published",
    "2a_grows": "Table 2a: accuracy grows with k",
    "3a_above_dp_sgd": "Table 3a: bagging is above DP-SGD with the paper's noise",
    "3a_above_least": "the same, DP-SGD with the least noise of the pair",
    "3a_above_pate": "Table 3a: bagging is above PATE",
    "3a_above_logistic": "the same, PATE with logistic teachers",
    "mnist_public_is_no_gain": "Tables 2a, 3a: the public model does not help bagging",
    "figure1_falls": "Figure 1, MNIST: accuracy falls with N at fixed N k",
    "figure2_equal": "Figure 2, MNIST: with or without replacement is negligible",
    "2b_above_dp_sgd": "Table 2b: bagging is above DP-SGD with the paper's noise",
    "2b_above_least": "the same, DP-SGD with the least noise of the pair",
    "2b_grows": "Table 2b: accuracy grows with k",
    "3b_above_dp_sgd": "Table 3b: bagging is above DP-SGD with the paper's noise",
    "3b_above_pate": "Table 3b: bagging is above PATE",
    "cifar10_public_helps": "Tables 2b, 3b: the public model helps bagging",
}
REDUCED_STATEMENTS = {
    "above_dp_sgd": "from scratch: bagging with k = 5,000 is above DP-SGD with the paper's noise",
    "above_least": "the same, DP-SGD with the least noise",
    "small_above_least": "bagging with k = 1,000 is above DP-SGD with the least noise",
    "tuned_above_dp_sgd": "from CIFAR-100: bagging with k = 5,000 is above DP-SGD with the paper's noise",
    "tuned_above_least": "the same, DP-SGD with the least noise",
    "tuned_small_above_least": "bagging with k = 1,000 is above DP-SGD with the least noise",
    "public_helps_small": "CIFAR-100 helps bagging with k = 1,000",
    "public_helps": "CIFAR-100 helps bagging with k = 5,000",
    "public_helps_least": "CIFAR-100 helps DP-SGD with the least noise",
}
QUESTIONS: dict[str, Callable[[Mean], Question]] = {
    "2a_as_far": not_behind,
    "mnist_public_is_no_gain": not_behind,
    "figure2_equal": lambda difference: level(difference, margin=NEGLIGIBLE),
}


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


def orderings(
    table2a: pd.DataFrame,
    table3a: pd.DataFrame,
    fixed_draws: pd.DataFrame,
    replacement: pd.DataFrame,
    *,
    table2b: pd.DataFrame,
    table3b: pd.DataFrame,
    noisy: Borrowed = NOBODY,
) -> pd.DataFrame:
    """What the paper says is larger than what, and whether it is so here, in every pair that was run.

    Parameters
    ----------
    table2a, table3a, fixed_draws, replacement, table2b, table3b : DataFrame
        As the functions of :mod:`dpnotes.lab.bagging.tables` give them; ``table2b`` and ``table3b`` as ``cifar10``.
    noisy : Borrowed
        What single runs of DP-SGD borrow. Without it comparisons with them are undecided.

    Returns
    -------
    DataFrame
        As :func:`dpnotes.lab.bagging.means.judged` gives it, for :data:`STATEMENTS`.
    """
    tables = {"2a": table2a, "3a": table3a, "2b": table2b, "3b": table3b}
    bagged = {name: method(table, "bagging") for name, table in tables.items()}
    found: dict[str, list[Mean]] = {}
    for name, table in tables.items():
        others = {"dp_sgd": ("dp_sgd", ""), "least": ("dp_sgd", "least_noise")}
        others |= {"pate": ("pate", ""), "logistic": ("pate", "logistic_teachers")}
        for other, which in others.items():
            found[f"{name}_above_{other}"] = leads(table, *which, to=noisy)
        series = bagged[name].query("seeds > 0").sort_values("subsample").to_dict("records")
        found[f"{name}_grows"] = steps([mean(line) for line in series])
    found["2a_as_far"] = further_than_published(table2a, noisy)
    found["mnist_public_is_no_gain"] = gaps(bagged["2a"], bagged["3a"], on="subsample")
    found["cifar10_public_helps"] = gaps(bagged["3b"], bagged["2b"], on="subsample")
    found["figure1_falls"] = [
        gap * -1.0
        for _, curve in fixed_draws.sort_values("n_models").groupby("drawn")
        for gap in steps([mean(line, "accuracy") for line in curve.to_dict("records")])
    ]
    found["figure2_equal"] = differences(replacement)
    return judged(STATEMENTS, found, QUESTIONS)


def differences(replacement: pd.DataFrame) -> list[Mean]:
    """Accuracy with less accuracy without replacement, at each size of Figure 2."""
    return [
        mean(line, "with_replacement", std="with_std") - mean(line, "without_replacement", std="without_std")
        for line in replacement.to_dict("records")
    ]


def reduced_orderings(table: pd.DataFrame) -> pd.DataFrame:
    """What the rows of the reduced scale say; :func:`dpnotes.lab.bagging.means.judged`, :data:`REDUCED_STATEMENTS`."""
    lines = {
        "small": "method == 'bagging' and subsample == 1000",
        "large": "method == 'bagging' and subsample == 5000",
        "dp_sgd": "method == 'dp_sgd' and variant == ''",
        "least": "variant == 'least_noise'",
    }
    found = {name: table.query(line).to_dict("records") for name, line in lines.items()}

    def gap(upper: tuple[str, str], lower: tuple[str, str]) -> list[Mean]:
        sides = [(line, start) for name, start in (upper, lower) for line in found[name]]
        ran = [line[f"seeds_{start}"] > 0 for line, start in sides]
        if sum(ran) < 2:
            return []
        one, other = (
            mean(line, f"reproduced_{start}", std=f"std_{start}", seeds=f"seeds_{start}") for line, start in sides
        )
        return [one - other]

    scratch, tuned = "scratch", "tuned"
    answers = {
        f"{prefix}{name}": gap((size, start), (other, start))
        for prefix, start in (("", scratch), ("tuned_", tuned))
        for name, size, other in (
            ("above_dp_sgd", "large", "dp_sgd"),
            ("above_least", "large", "least"),
            ("small_above_least", "small", "least"),
        )
    }
    for name, who in (("public_helps_small", "small"), ("public_helps", "large"), ("public_helps_least", "least")):
        answers[name] = gap((who, tuned), (who, scratch))
    return judged(REDUCED_STATEMENTS, answers)


def method(table: pd.DataFrame, name: str, variant: str = "") -> pd.DataFrame:
    """Lines of a table that are of one method."""
    return table[(table["method"] == name) & (table["variant"] == variant)]


def leads(table: pd.DataFrame, other: str, variant: str = "", *, to: Borrowed = NOBODY) -> list[Mean]:
    """Accuracy of bagging less that of another method, at each pair of the table for which both were run."""
    return gaps(method(table, "bagging").dropna(subset=["block"]), method(table, other, variant), on="block", to=to)


def further_than_published(table2a: pd.DataFrame, noisy: Borrowed) -> list[Mean]:
    """Our distance between bagging and DP-SGD with the least noise, less the printed distance, at each pair."""
    bagged, given = (method(table2a, name).dropna(subset=["block"]) for name in ("bagging", "dp_sgd"))
    printed = bagged.merge(given, on="block", suffixes=("", "_given"))
    distances: list[float] = (printed["published"] - printed["published_given"]).tolist()
    ours = leads(table2a, "dp_sgd", "least_noise", to=noisy)
    return [gap - far for gap, far in zip(ours, distances, strict=True)] if len(ours) == len(distances) else []


def pooled(rows: pd.DataFrame, by: list[str]) -> Borrowed:
    """Standard deviation of accuracy within settings, over all settings with several seeds; nobody's if none has."""
    done = rows.reindex(columns=[*by, "accuracy"]).dropna(subset=["accuracy"]).astype({"accuracy": float})
    found = done.groupby(by, dropna=False)["accuracy"].agg(["var", "count"]).dropna()
    freedom = float((found["count"] - 1).sum())
    return Borrowed(math.sqrt(np.average(found["var"], weights=found["count"] - 1)), freedom) if freedom else NOBODY


def noisy(equal: pd.DataFrame) -> Borrowed:
    """What a single run of a network by DP-SGD borrows: from the rows of the store ``bagging_equal``."""
    return pooled(equal[equal["width"].notna()], tables.TARGET)


def mean(line: Any, name: str = "reproduced", *, std: str = "std", seeds: str = "seeds", to: Borrowed = NOBODY) -> Mean:
    """The mean in a line of a table; a single run borrows."""
    runs = int(line[seeds])
    return borrowed(float(line[name]), to, runs) if runs < 2 else Mean.of(float(line[name]), float(line[std]), runs)


def borrowed(value: float, lender: Borrowed, runs: int = 1) -> Mean:
    """A value, of the paper or a single run of ours, with a standard deviation that is not its own."""
    return Mean.of(value, lender.std, runs, freedom=lender.freedom)


def gaps(upper: pd.DataFrame, lower: pd.DataFrame, *, on: str, to: Borrowed = NOBODY) -> list[Mean]:
    """Differences of two methods wherever both were run; ``to``: what a single run borrows."""
    pairs = upper.merge(lower, on=on, suffixes=("", "_lower"))
    lines = pairs[(pairs["seeds"] > 0) & (pairs["seeds_lower"] > 0)].to_dict("records")
    ends = {"name": "reproduced_lower", "std": "std_lower", "seeds": "seeds_lower"}
    return [mean(line, to=to) - mean(line, **ends, to=to) for line in lines]


def steps(means: Sequence[Mean]) -> list[Mean]:
    """Differences of neighbours in a series."""
    return [after - before for before, after in itertools.pairwise(means)]


def judged(
    statements: Mapping[str, str],
    found: Mapping[str, Sequence[Mean]],
    questions: Mapping[str, Callable[[Mean], Question]] | None = None,
) -> pd.DataFrame:
    """Verdicts on statements that say the same of several differences.

    Parameters
    ----------
    statements : mapping of str to str
        Names, and the words in which a table shows them.
    found : mapping of str to sequence of Mean
        The differences.
    questions : mapping of str to callable, optional
        What is asked of each difference. Default: whether it is above 0.

    Returns
    -------
    DataFrame
        Columns claim (a name), compared (how many differences), ours (the least, in percentage points), verdict.
    """
    asked = questions or {}
    lines = [
        (
            name,
            len(found[name]),
            100 * min((gap.value for gap in found[name]), default=math.nan),
            verdict(every(map(asked.get(name, above), found[name])) if found[name] else None),
        )
        for name in statements
    ]
    return pd.DataFrame(lines, columns=["claim", "compared", "ours", "verdict"])


def shown(statements: Mapping[str, str]) -> tuple[Column | str, ...]:
    """Columns of a table of :func:`judged`."""
    least = Column("ours", "least gap", format="{:+.2f}")
    return Column("claim", labels=statements), Column("compared", "pairs"), least, "verdict"


ORDERINGS = Table("Ordering claims of the paper against our rows, by the one rule.", shown(STATEMENTS))
REDUCED_ORDERINGS = Table("What the reduced scale says, by the same rule.", shown(REDUCED_STATEMENTS))
