"""Means of the chapter's tables as the one rule of :mod:`dpnotes.lab.verdicts` takes them, and its answers as tables.

A single run has no standard deviation of its own. A run of DP-SGD borrows that of the ten-epoch runs of the same
network by DP-SGD, pooled over their settings; the network on all records of Table 3a borrows that of Table 2a.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from dpnotes.lab.bagging.comparisons import TARGET
from dpnotes.lab.tables import Column
from dpnotes.lab.verdicts import NOBODY, Borrowed, Mean, Question, above, every, verdict


def pooled(rows: pd.DataFrame, by: list[str]) -> Borrowed:
    """Standard deviation of accuracy within settings, over all settings with several seeds; nobody's if none has."""
    done = rows.reindex(columns=[*by, "accuracy"]).dropna(subset=["accuracy"]).astype({"accuracy": float})
    found = done.groupby(by, dropna=False)["accuracy"].agg(["var", "count"]).dropna()
    freedom = float((found["count"] - 1).sum())
    return Borrowed(math.sqrt(np.average(found["var"], weights=found["count"] - 1)), freedom) if freedom else NOBODY


def noisy(equal: pd.DataFrame) -> Borrowed:
    """What a single run of a network by DP-SGD borrows: from the rows of the store ``bagging_equal``."""
    return pooled(equal[equal["width"].notna()], TARGET)


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
