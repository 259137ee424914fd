"""Table 3 of the bagging paper and Table 2b: published, reproduced, and what a gap needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from dpnotes import accounting, figures
from dpnotes.experiments import _bagging_grids as grids
from dpnotes.experiments._registry import paper_table

if TYPE_CHECKING:
    from pandas.io.formats.style import Styler

COLUMNS = ["method", "published budget", "advantage", "published", "reproduced", "spread", "seeds", "difference", "gap"]


def table3a(rows: pd.DataFrame, pate: pd.DataFrame, dp_sgd: pd.DataFrame, scale: str) -> pd.DataFrame:
    """Table 3a: a line for each of its cells, and below PATE's cell the same with logistic teachers.

    Columns: method (with its setting), published budget, advantage (total variation that our run guarantees: exact for
    bagging, tight accounting for the others), published, reproduced (mean), spread, seeds, difference, gap (what a cell
    without rows needs). Nothing is published for the quick scale.
    """
    rows, pate, dp_sgd = (_filled(frame) for frame in (rows, pate, dp_sgd))
    lines: list[dict[str, Any]] = []
    if scale != "paper":
        groups: Any = rows.query("n_models == 1 and replace").groupby("subsample", dropna=False)
        for size, group in groups:
            lines.append(_line(_drawn(size), group))
        groups = pate.groupby("answers", dropna=False)
        for answers, group in groups:
            what = f"{answers:.0f} answers" if answers > 0 else f"{group['queries'].iloc[0]} queries"
            lines.append(_line(f"PATE, {what}", group))
        for sigma, group in dp_sgd.groupby("sigma"):
            lines.append(_line(f"DP-SGD, sigma = {sigma:.3g}", group))
        return pd.DataFrame(lines)[COLUMNS]
    cells: Any = paper_table("bagging_table3").query("table == '3a'").itertuples()
    for cell in cells:
        published = {"published": cell.value, "budget": (cell.epsilon, cell.delta)}
        if cell.method == "PATE":
            count = int(cell.n_queries)
            asked = pate[pate["answers"] == count]
            networks, logistic = asked[asked["epochs"].notna()], asked[asked["epochs"].isna()]
            lines.append(_line(f"PATE, {count} answers", networks, cost=grids.pate_seconds, **published))
            lines.append(_line("the same with logistic teachers", logistic))
        elif cell.method == "DPSGD":
            given = dp_sgd[dp_sgd["noise_multiplier"] == cell.sigma]
            lines.append(_line(f"DP-SGD, sigma = {cell.sigma:g}", given, cost=grids.dp_sgd_seconds, **published))
            least = dp_sgd[(dp_sgd["epsilon"] == cell.epsilon) & (dp_sgd["delta"] == cell.delta)]
            lines.append(_line("the same with the least sigma", least, cost=grids.dp_sgd_seconds))
        else:
            single = rows.query("n_models == 1 and replace")
            size = np.nan if cell.method == "No Privacy" else float(cell.k)
            ours = single[single["subsample"].isna()] if np.isnan(size) else single[single["subsample"] == size]
            lines.append(_line(_drawn(size), ours, cost=grids.ensemble_seconds, **published))
    return pd.DataFrame(lines)[COLUMNS]


def cifar10_gaps(table: str) -> pd.DataFrame:
    """Every cell of Table 2b or 3b, none of which was run: published, and the hours that it needs.

    Columns: method, published budget, published, hours (on a GPU that trains 10,000 images a second without per-example
    gradients and 2,500 with, which is an estimate).
    """
    cells: Any = paper_table(f"bagging_table{table[0]}").query("table == @table").itertuples()
    images = 50_000 * 100
    lines = []
    for cell in cells:
        per_second = 2500 if cell.method == "DPSGD" else 10_000
        seen = float(cell.k) * 100 if cell.k > 0 else images
        name = {"DPSGD": "DP-SGD", "No Privacy": "no privacy"}.get(cell.method, cell.method)
        if cell.method == "PATE":
            seen, name = 10 * images, f"PATE, {cell.n_queries:.0f} answers"  # 1,000 epochs
        name += f", sigma = {cell.sigma:g}" if cell.sigma > 0 else ""
        name += f", k = {cell.k:,.0f}" if cell.k > 0 else ""
        hours = seen / per_second / 3600
        lines.append(
            {
                "method": name,
                "published budget": _budget(cell.epsilon, cell.delta),
                "published": cell.value,
                "reproduced": f"not run: {max(hours, 0.01):.2f} h on a GPU",
                "hours": hours,
            }
        )
    return pd.DataFrame(lines)


def table3a_view(table: pd.DataFrame) -> Styler:
    """Table 3a as the chapter shows it."""
    shown = table.assign(
        reproduced=[
            gap if np.isnan(mean) else f"{mean:.2%}" + ("" if np.isnan(spread) else f" ± {100 * spread:.2f}")
            for mean, spread, gap in zip(table["reproduced"], table["spread"], table["gap"], strict=True)
        ],
        difference=100 * table["difference"],
    )
    return figures.table(
        shown.drop(columns=["spread", "gap"]),
        caption="Accuracy on 9,000 test images from a public model, published and reproduced (mean and standard "
        "deviation over seeds). Advantage: what our run guarantees against any membership test, at all error rates.",
        formats={"published": "{:.2%}", "advantage": "{:.4f}", "difference": "{:+.2f}"},
    )


def cifar10_view(table: pd.DataFrame, *, caption: str) -> Styler:
    """A table of gaps as the chapter shows it."""
    return figures.table(table.drop(columns="hours"), caption=caption, formats={"published": "{:.2%}"})


def replacement(rows: pd.DataFrame) -> pd.DataFrame:
    """Accuracy with and without replacement at each size: means, their difference and its standard error, seeds."""
    single = _filled(rows).query("n_models == 1").dropna(subset=["subsample", "accuracy"])
    lines = []
    groups: Any = single.groupby("subsample")
    for size, group in groups:
        pair = [group[group["replace"] == replace]["accuracy"].astype(float) for replace in (True, False)]
        if min(map(len, pair)) == 0:
            continue
        errors = [values.var(ddof=1) / len(values) if len(values) > 1 else np.nan for values in pair]
        lines.append(
            {
                "k": int(size),
                "with replacement": pair[0].mean(),
                "without replacement": pair[1].mean(),
                "difference": pair[0].mean() - pair[1].mean(),
                "standard error": float(np.sqrt(sum(errors))),
                "seeds": min(map(len, pair)),
            }
        )
    columns = ["k", "with replacement", "without replacement", "difference", "standard error", "seeds"]
    return pd.DataFrame(lines, columns=columns)


def fixed_draws(rows: pd.DataFrame, scale: str) -> pd.DataFrame:
    """Figure 1: columns drawn (N k), n_models, accuracy (mean), low, high, seeds, for each point that has rows."""
    done = _filled(rows).query("replace").dropna(subset=["subsample", "accuracy"])
    lines = []
    for drawn, counts in grids.MODELS[scale].items():
        for n_models in counts:
            at = done[(done["n_models"] == n_models) & (done["subsample"] == drawn // n_models)]["accuracy"]
            if len(at):
                ends = {"low": at.min(), "high": at.max(), "seeds": len(at)}
                lines.append({"drawn": drawn, "n_models": n_models, "accuracy": at.mean(), **ends})
    return pd.DataFrame(lines, columns=["drawn", "n_models", "accuracy", "low", "high", "seeds"])


def _line(
    method: str,
    rows: pd.DataFrame,
    *,
    published: float = np.nan,
    budget: tuple[float, float] = (np.nan, np.nan),
    cost: Callable[[Mapping[str, Any]], float] | None = None,
) -> dict[str, Any]:
    done = rows.dropna(subset=["accuracy"])
    accuracy = done["accuracy"].astype(float)
    needed: Any = rows.astype(object).where(rows.notna(), None).to_dict("records")
    seconds = sum(map(cost, needed)) if cost else 0.0
    return {
        "method": method,
        "published budget": _budget(*budget),
        "advantage": _advantage(done),
        "published": published,
        "reproduced": accuracy.mean(),
        "spread": accuracy.std(ddof=1),
        "seeds": len(done),
        "difference": accuracy.mean() - published,
        "gap": f"not run: {max(1, round(seconds / 60))} min of CPU" if seconds else figures.GAP,
    }


def _advantage(done: pd.DataFrame) -> float:
    if not len(done):
        return np.nan
    if "subsample" in done:
        first = done.iloc[0]
        if pd.isna(first["subsample"]):
            return np.nan
        return accounting.bagging(n=int(first["n"]), subsample=int(first["subsample"])).advantage
    return float(done["advantage"].max())


def _budget(epsilon: float, delta: float) -> str:
    return "" if np.isnan(epsilon) else f"({epsilon:g}, {delta:g})"


def _drawn(size: float) -> str:
    return f"bagging, k = {size:,.0f}" if size > 0 else "no privacy"


def _filled(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows with the columns of all metrics, whether or not any was run, numbers as float."""
    numbers = ["accuracy", "advantage", "n", "epsilon", "delta", "noise_multiplier", "sigma", "answers", "epochs"]
    numbers = [name for name in numbers if name in rows or name in ("accuracy", "advantage", "n")]
    if "noise_multiplier" in rows:
        numbers = list(dict.fromkeys([*numbers, "sigma"]))
    filled = rows.reindex(columns=[*rows.columns, *(name for name in numbers if name not in rows)])
    filled[numbers] = filled[numbers].astype(float)
    if "subsample" in filled:
        filled["subsample"] = filled["subsample"].astype(float)
    return filled
