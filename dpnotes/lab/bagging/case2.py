"""Table 3a and Figures 1 and 2 of the bagging paper: published, reproduced, and what a gap needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import stats

from dpnotes.lab import tables
from dpnotes.lab._experiment import paper_table
from dpnotes.lab.bagging import grids
from dpnotes.lab.bagging.cells import COLUMNS, drawn, filled, line, parameters, view

if TYPE_CHECKING:
    from pandas.io.formats.style import Styler

CONFIDENCE = 0.90  # of the intervals of Figure 2: two one-sided tests at 5 %


def table3a(rows: pd.DataFrame, pate: pd.DataFrame, dp_sgd: pd.DataFrame, scale: str) -> pd.DataFrame:
    """Table 3a: a line for each of its cells, and below PATE's cell the same with logistic teachers.

    Columns: method (with its setting), published budget, advantage (total variation that our run guarantees: exact for
    bagging, tight accounting for the others), published, reproduced (mean), spread, seeds, difference, gap (what a cell
    without rows needs). Nothing is published for the quick scale.
    """
    rows, pate, dp_sgd = (filled(frame) for frame in (rows, pate, dp_sgd))
    lines: list[dict[str, Any]] = []
    if scale != "paper":
        groups: Any = rows.query("n_models == 1 and replace").groupby("subsample", dropna=False)
        for size, group in groups:
            lines.append(line(drawn(size), group))
        groups = pate.groupby("answers", dropna=False)
        for answers, group in groups:
            what = f"{answers:.0f} answers" if answers > 0 else f"{group['queries'].iloc[0]} queries"
            lines.append(line(f"PATE, {what}", group))
        for sigma, group in dp_sgd.groupby("sigma"):
            lines.append(line(f"DP-SGD, sigma = {sigma:.3g}", group))
        return pd.DataFrame(lines)[COLUMNS]
    cells: Any = paper_table("bagging_table3").query("table == '3a'").itertuples()
    for cell in cells:
        published = {"published": cell.value, "budget": (cell.epsilon, cell.delta)}
        if cell.method == "PATE":
            count = int(cell.n_queries)
            asked = pate[pate["answers"] == count]
            networks, logistic = asked[asked["epochs"].notna()], asked[asked["epochs"].isna()]
            gap = _minutes(networks, grids.pate_seconds)
            lines.append(line(f"PATE, {count} answers", networks, gap=gap, **published))
            lines.append(line("the same with logistic teachers", logistic))
        elif cell.method == "DPSGD":
            given = dp_sgd[dp_sgd["noise_multiplier"] == cell.sigma]
            gap = _minutes(given, grids.dp_sgd_seconds)
            lines.append(line(f"DP-SGD, sigma = {cell.sigma:g}", given, gap=gap, **published))
            least = dp_sgd[(dp_sgd["epsilon"] == cell.epsilon) & (dp_sgd["delta"] == cell.delta)]
            lines.append(line("the same with the least sigma", least, gap=_minutes(least, grids.dp_sgd_seconds)))
        else:
            single = rows.query("n_models == 1 and replace")
            size = np.nan if cell.method == "No Privacy" else float(cell.k)
            ours = single[single["subsample"].isna()] if np.isnan(size) else single[single["subsample"] == size]
            lines.append(line(drawn(size), ours, gap=_minutes(ours, grids.ensemble_seconds), **published))
    return pd.DataFrame(lines)[COLUMNS]


def table3a_view(table: pd.DataFrame) -> Styler:
    """Table 3a as the chapter shows it."""
    return view(
        table,
        caption="Accuracy on 9,000 test images from a public model, published and reproduced (mean and standard "
        "deviation over seeds). Advantage: what our run guarantees against any membership test, at all error rates.",
    )


def replacement(rows: pd.DataFrame) -> pd.DataFrame:
    """Accuracy with and without replacement at each size: means, their difference, its interval, seeds.

    Columns: k, with replacement, without replacement, difference, low, high (Welch's 90 % interval of the difference,
    empty where a side has one seed), seeds (of the side that has fewer).
    """
    single = filled(rows).query("n_models == 1").dropna(subset=["subsample", "accuracy"])
    lines = []
    groups: Any = single.groupby("subsample")
    for size, group in groups:
        with_, without = (group[group["replace"] == replace]["accuracy"].astype(float) for replace in (True, False))
        seeds = min(len(with_), len(without))
        if seeds == 0:
            continue
        low = high = np.nan
        if seeds > 1:
            low, high = stats.ttest_ind(with_, without, equal_var=False).confidence_interval(CONFIDENCE)
        lines.append((int(size), with_.mean(), without.mean(), with_.mean() - without.mean(), low, high, seeds))
    columns = ["k", "with replacement", "without replacement", "difference", "low", "high", "seeds"]
    return pd.DataFrame(lines, columns=columns)


def fixed_draws(rows: pd.DataFrame, scale: str) -> pd.DataFrame:
    """Figure 1: columns drawn (N k), n_models, accuracy (mean), low, high, seeds, for each point that has rows."""
    done = filled(rows).query("replace").dropna(subset=["subsample", "accuracy"])
    lines = []
    for total, counts in grids.MODELS[scale].items():
        for n_models in counts:
            at = done[(done["n_models"] == n_models) & (done["subsample"] == total // n_models)]["accuracy"]
            if len(at):
                ends = {"low": at.min(), "high": at.max(), "seeds": len(at)}
                lines.append({"drawn": total, "n_models": n_models, "accuracy": at.mean(), **ends})
    return pd.DataFrame(lines, columns=["drawn", "n_models", "accuracy", "low", "high", "seeds"])


def _minutes(rows: pd.DataFrame, cost: Callable[[Mapping[str, Any]], float]) -> str:
    seconds = sum(map(cost, parameters(rows)))
    return f"not run: {max(1, round(seconds / 60))} min of CPU" if seconds else tables.GAP
