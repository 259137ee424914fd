"""What the bagging paper says against our rows, by the one rule: its printed numbers,
its sentences, its orderings.

A single run has no standard deviation of its own. A run of DP-SGD borrows that of the
ten-epoch runs of the same network by DP-SGD, pooled over their settings; the network on
all records of Table 3a borrows that of Table 2a. The paper prints no standard deviation
and no number of runs; each printed number counts as one run whose standard deviation is
that of our rows of the cell. PATE's teachers train for a tenth of the paper's epochs
here: its cells are gaps.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from dpnotes.lab import scorecard
from dpnotes.lab._experiment import Grid, paper_table
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

QUESTIONS: dict[str, Callable[[Mean], Question]] = {
    "": above,
    "not behind": not_behind,
    "negligible": lambda difference: level(difference, margin=NEGLIGIBLE),
}


def cells() -> list[Cell]:
    """Cells of Tables 2 and 3, and sentences about Figures 1 and 2, in the paper's
    order.
    """
    found, bagged, case2 = (
        printed_tables(),
        rows("bagging_table2a"),
        rows("bagging_case2"),
    )
    lenders = {
        "dp_sgd": noisy(rows("bagging_equal")),
        "none": pooled(bagged[bagged["subsample"].isna()], ["epochs"]),
    }
    judged = orderings(
        *(
            found["2a"],
            found["3a"],
            tables.fixed_draws(case2, "paper"),
            tables.replacement(case2, "paper"),
        ),
        table2b=found["2b"],
        table3b=found["3b"],
        noisy=lenders["dp_sgd"],
    )
    sentences = {
        claim: Ours(answer)
        for claim, answer in zip(judged["claim"], judged["verdict"], strict=True)
    }
    return scorecard.cells("bagging", sentences, lenders=lenders)


def printed_tables() -> dict[str, pd.DataFrame]:
    """Tables 2 and 3 of the paper, our published rows beside: see
    :mod:`dpnotes.lab.bagging.tables`.
    """
    cifar10, noise = rows("bagging_cifar10"), rows("bagging_cifar10_dp_sgd")
    tuned = rows("bagging_case2_dp_sgd", grids.case2_dp_sgd("paper"))
    case2 = rows("bagging_case2"), rows("bagging_pate"), tuned
    return {
        "2a": tables.table2a(
            rows("bagging_table2a"),
            "paper",
            rows("bagging_dp_sgd", grids.dp_sgd("paper")),
        ),
        "2b": tables.cifar10("2b", cifar10, noise),
        "3a": tables.table3a(*case2, "paper"),
        "3b": tables.cifar10("3b", cifar10, noise, rows("bagging_cifar10_pate")),
    }


def rows(name: str, grid: Grid | None = None) -> pd.DataFrame:
    """Published rows of an experiment of this chapter; metrics of a row that is not
    there are empty.
    """
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
    """What the paper says is larger than what, and whether it is so here, in every pair
    that was run.

    Parameters
    ----------
    table2a, table3a, fixed_draws, replacement, table2b, table3b : DataFrame
        As the functions of :mod:`dpnotes.lab.bagging.tables` give them; ``table2b`` and
        ``table3b`` as ``cifar10``.
    noisy : Borrowed
        What single runs of DP-SGD borrow. Without it comparisons with them are
        undecided.

    Returns
    -------
    DataFrame
        As :func:`judged` gives it.
    """
    tables = {"2a": table2a, "3a": table3a, "2b": table2b, "3b": table3b}
    found = {
        "2a_as_far": further_than_published(table2a, noisy),
        "figure2_equal": differences(replacement),
    }
    for name in ("2a", "2b"):
        series = (
            method(tables[name], "bagging")
            .query("seeds > 0")
            .sort_values("subsample")
            .to_dict("records")
        )
        found[f"{name}_grows"] = steps([mean(line) for line in series])
    found["figure1_falls"] = [
        gap * -1.0
        for _, curve in fixed_draws.sort_values("n_models").groupby("drawn")
        for gap in steps([mean(line, "accuracy") for line in curve.to_dict("records")])
    ]
    return judged("paper", tables, found, to=noisy)


def counted(outcomes: Iterable[str]) -> str:
    """Say how often there is each outcome or verdict.

    Examples
    --------
    >>> counted(["gap", "agrees", "gap"])
    '2 gap, 1 agrees'
    """
    return ", ".join(f"{n} {outcome}" for outcome, n in Counter(outcomes).items())


def differences(replacement: pd.DataFrame) -> list[Mean]:
    """Accuracy with less accuracy without replacement, at each size of Figure 2."""
    return [
        mean(line, "with_replacement", std="with_std")
        - mean(line, "without_replacement", std="without_std")
        for line in replacement.to_dict("records")
    ]


def reduced_orderings(table: pd.DataFrame) -> pd.DataFrame:
    """What the rows of the reduced scale say: see :func:`judged`."""

    def start(name: str) -> pd.DataFrame:
        return table.rename(columns=lambda column: column.removesuffix(f"_{name}"))

    return judged("reduced", {name: start(name) for name in ("scratch", "tuned")})


def method(table: pd.DataFrame, name: str, variant: str = "") -> pd.DataFrame:
    """Lines of a table that are of one method."""
    return table[(table["method"] == name) & (table["variant"] == variant)]


def leads(
    table: pd.DataFrame, other: str, variant: str = "", *, to: Borrowed = NOBODY
) -> list[Mean]:
    """Accuracy of bagging less that of another method, at each pair of the table for
    which both were run.
    """
    return gaps(
        method(table, "bagging").dropna(subset=["block"]),
        method(table, other, variant),
        on="block",
        to=to,
    )


def further_than_published(table2a: pd.DataFrame, noisy: Borrowed) -> list[Mean]:
    """Our distance between bagging and DP-SGD with the least noise, less the printed
    distance, at each pair.
    """
    bagged, given = (
        method(table2a, name).dropna(subset=["block"]) for name in ("bagging", "dp_sgd")
    )
    printed = bagged.merge(given, on="block", suffixes=("", "_given"))
    distances: list[float] = (
        printed["published"] - printed["published_given"]
    ).tolist()
    ours = leads(table2a, "dp_sgd", "least_noise", to=noisy)
    return (
        [gap - far for gap, far in zip(ours, distances, strict=True)]
        if len(ours) == len(distances)
        else []
    )


def pooled(rows: pd.DataFrame, by: list[str]) -> Borrowed:
    """Standard deviation of accuracy within settings, over all settings with several
    seeds; nobody's if none has.
    """
    done = (
        rows.reindex(columns=[*by, "accuracy"])
        .dropna(subset=["accuracy"])
        .astype({"accuracy": float})
    )
    found = done.groupby(by, dropna=False)["accuracy"].agg(["var", "count"]).dropna()
    freedom = float((found["count"] - 1).sum())
    return (
        Borrowed(
            math.sqrt(np.average(found["var"], weights=found["count"] - 1)), freedom
        )
        if freedom
        else NOBODY
    )


def noisy(equal: pd.DataFrame) -> Borrowed:
    """What a single run of a network by DP-SGD borrows: from the rows of the store
    ``bagging_equal``.
    """
    return pooled(equal[equal["width"].notna()], tables.TARGET)


def mean(
    line: Any,
    name: str = "reproduced",
    *,
    std: str = "std",
    seeds: str = "seeds",
    to: Borrowed = NOBODY,
) -> Mean:
    """The mean in a line of a table; a single run borrows."""
    runs = int(line[seeds])
    return (
        borrowed(float(line[name]), to, runs)
        if runs < 2
        else Mean.of(float(line[name]), float(line[std]), runs)
    )


def borrowed(value: float, lender: Borrowed, runs: int = 1) -> Mean:
    """A value, of the paper or a single run of ours, with a standard deviation that
    is not its own.
    """
    return Mean.of(value, lender.std, runs, freedom=lender.freedom)


def gaps(
    upper: pd.DataFrame, lower: pd.DataFrame, *, on: str, to: Borrowed = NOBODY
) -> list[Mean]:
    """Differences of two methods wherever both were run; ``to``: what a single run
    borrows.
    """
    pairs = upper.merge(lower, on=on, suffixes=("", "_lower"))
    lines = pairs[(pairs["seeds"] > 0) & (pairs["seeds_lower"] > 0)].to_dict("records")
    ends = {"name": "reproduced_lower", "std": "std_lower", "seeds": "seeds_lower"}
    return [mean(line, to=to) - mean(line, **ends, to=to) for line in lines]


def steps(means: Sequence[Mean]) -> list[Mean]:
    """Differences of neighbours in a series."""
    return [after - before for before, after in itertools.pairwise(means)]


def judged(
    scale: str,
    given: Mapping[str, pd.DataFrame],
    found: Mapping[str, Sequence[Mean]] | None = None,
    *,
    to: Borrowed = NOBODY,
) -> pd.DataFrame:
    """Verdicts on the statements of a scale, lines of
    ``book/results/published/orderings_bagging.csv``.

    A line says of ``upper`` of one table that it is above ``lower`` of another, or asks
    another ``question`` of their differences, of which there is one wherever both were
    run and are equal in ``on``, or one of all.

    Parameters
    ----------
    scale : {"paper", "reduced"}
    given : mapping of str to DataFrame
        The tables.
    found : mapping of str to sequence of Mean, optional
        Differences of statements that name no table.
    to : Borrowed
        What a single run borrows where pairs of a privacy budget are compared.

    Returns
    -------
    DataFrame
        Columns claim (a name), says, compared (how many differences), ours (the least,
        in percentage points), verdict.
    """
    lines = []
    line: Any
    for line in (
        paper_table("orderings_bagging")
        .query("scale == @scale")
        .fillna("")
        .itertuples()
    ):
        if line.table:
            upper, lower = (
                given[line.table].query(line.upper),
                given[line.other].query(line.lower),
            )
            sides = (
                side.assign(all=1).dropna(subset=[line.on]) for side in (upper, lower)
            )
            differences = gaps(
                *sides, on=line.on, to=to if line.on == "block" else NOBODY
            )
        else:
            differences = list((found or {})[line.claim])
        least = 100 * min((gap.value for gap in differences), default=math.nan)
        answer = verdict(
            every(map(QUESTIONS[line.question], differences)) if differences else None
        )
        lines.append((line.claim, line.says, len(differences), least, answer))
    return pd.DataFrame(lines, columns=["claim", "says", "compared", "ours", "verdict"])


SHOWN = (
    Column("says", "claim"),
    Column("compared", "pairs"),
    Column("ours", "least gap", "{:+.2f}"),
    "verdict",
)
ORDERINGS = Table(
    "Ordering claims of the paper, judged on our results by the rule of this book.",
    SHOWN,
)
REDUCED_ORDERINGS = Table(
    "Orderings at the reduced scale, judged by the rule of this book.", SHOWN
)
