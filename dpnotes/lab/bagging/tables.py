"""Accuracies in the bagging paper's tables, published and reproduced: tidy rows, and how the chapter shows them.

A line of a table is a setting, given by the columns :data:`SETTING`: ``method`` is "bagging", "dp_sgd", "pate" or
"none"; ``variant`` is empty for what the paper runs, else "least_noise" (DP-SGD with the least noise for its budget) or
"logistic_teachers" (of PATE). ``block`` is the delta by which a published table groups its methods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from dpnotes.lab._experiment import paper_table
from dpnotes.lab.bagging import costs, grids
from dpnotes.lab.bagging.exposure import profile
from dpnotes.lab.tables import GAP, NO_BREAK, Column, Table, mean_and_std, mean_text
from dpnotes.lab.verdicts import Mean

SETTING = ["method", "variant", "subsample", "sigma", "target_epsilon", "target_delta", "answers", "queries"]
METHODS = {"Bagging": "bagging", "PATE": "pate", "DPSGD": "dp_sgd", "No Privacy": "none"}
SPLITS = {"2b": "test", "3b": "rest"}
STARTS = {
    "imagenet": "ImageNet weights of VGG16",
    "cifar100_subset": "a model of CIFAR-100, not of ImageNet as in the paper",
}
FRESH = {"paper": 3, "quick": 0}  # first seed that judges Figure 2: the rule was replaced when 0 to 2 had been seen


def table2a(rows: pd.DataFrame, scale: str, dp_sgd: pd.DataFrame | None = None) -> pd.DataFrame:
    """Table 2a, published and reproduced: its settings, further sizes that were run, and DP-SGD with the least noise.

    See :func:`accuracies` for the columns; ``exact_delta`` is that of bagging. Nothing is published for the quick
    scale.
    """
    table = accuracies("2a", rows, dp_sgd, variants=("least_noise",) if dp_sgd is not None else (), scale=scale)
    rank = table["method"].map([*METHODS.values()].index)
    order = table.assign(exact_delta=table["advantage"].where(table["method"] == "bagging"), rank=rank)
    return order.sort_values(["rank", "subsample", "sigma"], ascending=[True, True, False], ignore_index=True)


def table3a(rows: pd.DataFrame, pate: pd.DataFrame, dp_sgd: pd.DataFrame, scale: str) -> pd.DataFrame:
    """Table 3a, and below its cells the same with the least noise and with logistic teachers: see :func:`accuracies`.

    Nothing is published for the quick scale.
    """
    single = rows.query("n_models == 1 and replace")
    return accuracies("3a", single, dp_sgd, pate, variants=("least_noise", "logistic_teachers"), scale=scale)


def cifar10(table: str, rows: pd.DataFrame, dp_sgd: pd.DataFrame, pate: pd.DataFrame | None = None) -> pd.DataFrame:
    """Table 2b or 3b, and below DP-SGD's cells the same with the least noise: see :func:`accuracies`."""
    rows, dp_sgd = (frame[frame["split"] == SPLITS[table]] for frame in (rows, dp_sgd))
    return accuracies(table, rows, dp_sgd, pate, variants=("least_noise",), scale="cifar10")


def reduced(rows: pd.DataFrame, dp_sgd: pd.DataFrame) -> pd.DataFrame:
    """The reduced scale: bagging and DP-SGD, each from scratch and from CIFAR-100.

    Columns: those of :data:`SETTING`, and with the suffixes "_scratch" and "_tuned" those of :func:`reproduced`.
    """
    scratch, tuned = (
        reproduced(runs(*(frame[frame["split"] == split] for frame in (rows, dp_sgd)), scale="reduced"))
        for split in SPLITS.values()
    )
    return scratch.merge(tuned, on=SETTING, suffixes=("_scratch", "_tuned"))


def accuracies(
    table: str,
    rows: pd.DataFrame,
    dp_sgd: pd.DataFrame | None,
    pate: pd.DataFrame | None = None,
    *,
    variants: tuple[str, ...],
    scale: str,
) -> pd.DataFrame:
    """Lines of one of the paper's tables in its order, each variant below its cell; then what was run besides.

    Columns: those of :data:`SETTING` and :func:`reproduced`, block, epsilon and delta (published), published
    (accuracy), difference (reproduced minus published).
    """
    lines = published(table, variants)
    ours = reproduced(runs(rows, dp_sgd, pate, scale=scale))
    if scale == "quick":
        merged = lines.head(0).merge(ours, on=SETTING, how="right")
        merged = merged.sort_values("method", key=lambda names: names.map([*METHODS.values()].index), kind="stable")
    else:
        merged = lines.merge(ours, on=SETTING, how="outer" if table == "2a" else "left")
    merged["seeds"] = merged["seeds"].fillna(0).astype(int)
    return merged.assign(difference=merged["reproduced"] - merged["published"])


def published(table: str, variants: Iterable[str] = ()) -> pd.DataFrame:
    """Lines of a published table; below each of them its variants, for which nothing is published."""
    paper = paper_table(f"bagging_table{table[0]}").query("table == @table")
    lines = paper.rename(columns={"k": "subsample", "value": "published", "n_queries": "answers"})
    lines = lines.assign(method=paper["method"].map(METHODS), variant="", block=paper["delta"])
    lines = lines.reindex(columns=[*SETTING, "block", "epsilon", "delta", "published"])
    unpublished = dict.fromkeys(("epsilon", "delta", "published"), np.nan)
    least = lines.query("method == 'dp_sgd'")
    least = least.assign(target_epsilon=least["epsilon"], target_delta=least["delta"], sigma=np.nan, **unpublished)
    further = {"least_noise": least, "logistic_teachers": lines.query("method == 'pate'").assign(**unpublished)}
    both = pd.concat([lines, *(further[name].assign(variant=name) for name in variants)]).sort_index(kind="stable")
    return both.astype({name: float for name in both if name not in ("method", "variant")})


def runs(
    rows: pd.DataFrame, dp_sgd: pd.DataFrame | None = None, pate: pd.DataFrame | None = None, *, scale: str
) -> pd.DataFrame:
    """Rows of the three experiments under the same columns.

    Columns: those of :data:`SETTING`; accuracy; noise (the noise multiplier used); advantage (total variation that the
    release guarantees; where the noise is yet to be calibrated, that its budget guarantees); cpu_seconds and gpu_hours
    (what a row that was not run needs).
    """
    none = rows["subsample"].isna()
    frames = [_measured(rows, scale).assign(method=np.where(none, "none", "bagging"), variant="")]
    if dp_sgd is not None:
        noise = dp_sgd["noise_multiplier"]
        targets = {"target_epsilon": dp_sgd["epsilon"], "target_delta": dp_sgd["delta"], "sigma": noise}
        least = np.where(noise.isna(), "least_noise", "")
        used = dp_sgd.get("sigma", noise)
        frames.append(_measured(dp_sgd, scale).assign(method="dp_sgd", variant=least, noise=used, **targets))
    if pate is not None:
        logistic = np.where(pate["epochs"].isna(), "logistic_teachers", "")
        queries = pate["queries"].where(pate["answers"].isna())
        frames.append(_measured(pate, scale).assign(method="pate", variant=logistic, queries=queries))
    names = [*SETTING[2:], "accuracy", "noise", "advantage", "cpu_seconds", "gpu_hours"]
    full = [frame.reindex(columns=[*SETTING[:2], *names]).astype(dict.fromkeys(names, float)) for frame in frames]
    return pd.concat(full, ignore_index=True)


def reproduced(runs: pd.DataFrame) -> pd.DataFrame:
    """One line for each setting of :func:`runs`.

    Columns: those of :data:`SETTING`, reproduced (mean), std, low, high (over seeds), seeds, and the others of
    :func:`runs`.
    """
    over_seeds = {"reproduced": "mean", "std": "std", "low": "min", "high": "max", "seeds": "count"}
    others = {"noise": "max", "advantage": "max", "cpu_seconds": "sum", "gpu_hours": "sum"}
    columns: Any = {name: ("accuracy", function) for name, function in over_seeds.items()}
    columns |= {name: (name, function) for name, function in others.items()}
    table: pd.DataFrame = runs.groupby(SETTING, dropna=False, sort=False).agg(**columns).reset_index()
    return table


def parameters(rows: pd.DataFrame) -> list[Mapping[str, Any]]:
    """Rows as the dicts that they were asked by, None for what a row lacks."""
    found: list[Mapping[str, Any]] = rows.astype(object).where(rows.notna(), None).to_dict("records")  # type: ignore[assignment]
    return found


def replacement(rows: pd.DataFrame, scale: str) -> pd.DataFrame:
    """Accuracy with and without replacement at each size, of the seeds that are judged.

    Columns: subsample, with_replacement, with_std, without_replacement, without_std, difference, low, high (its
    interval), seeds (of the side that has fewer). Sizes of which a side has no such seed are left out.
    """
    single = _run(rows).query("n_models == 1")
    lines = []
    for size, group in single[single["seed"] >= FRESH[scale]].groupby("subsample"):
        sides = [group[group["replace"] == replace]["accuracy"] for replace in (True, False)]
        seeds = min(map(len, sides))
        if seeds:
            means = [Mean.of(side.mean(), side.std(), len(side)) for side in sides]
            described = [value for side in sides for value in (side.mean(), side.std())]
            difference = means[0] - means[1]
            lines.append((size, *described, difference.value, *difference.interval(), seeds))
    columns = ["subsample", "with_replacement", "with_std", "without_replacement", "without_std"]
    table = pd.DataFrame(lines, columns=[*columns, "difference", "low", "high", "seeds"])
    return table.astype({"subsample": int})


def fixed_draws(rows: pd.DataFrame, scale: str) -> pd.DataFrame:
    """Figure 1: columns drawn (N k), n_models, accuracy (mean), std, low, high, seeds, for each point with rows."""
    asked = [(total, count, total // count) for total, counts in grids.MODELS[scale].items() for count in counts]
    points = pd.DataFrame(asked, columns=["drawn", "n_models", "subsample"])
    done = _run(rows).query("replace").merge(points, on=["n_models", "subsample"])
    statistics = {"accuracy": "mean", "std": "std", "low": "min", "high": "max", "seeds": "count"}
    columns: Any = {name: ("accuracy", function) for name, function in statistics.items()}
    table: pd.DataFrame = done.groupby(["drawn", "n_models"]).agg(**columns).reset_index()
    return table


def _run(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows on subsamples that were run."""
    if "accuracy" not in rows:
        rows = rows.assign(accuracy=np.nan)
    return rows.astype({"subsample": float, "accuracy": float}).dropna(subset=["subsample", "accuracy"])


def _measured(rows: pd.DataFrame, scale: str) -> pd.DataFrame:
    """Rows with the advantage of each, the stored one or from its parameters, and what one that was not run needs."""
    asked = parameters(rows)
    waiting = [row if row.get("accuracy") is None else None for row in asked]
    return rows.assign(
        advantage=[_guaranteed(row, grids.RECORDS[scale]) for row in asked],
        cpu_seconds=[costs.seconds(row) if row else 0.0 for row in waiting],
        gpu_hours=[costs.gpu_hours(row) if row else 0.0 for row in waiting],
    )


def _guaranteed(row: Mapping[str, Any], n: int) -> float:
    if row.get("advantage") is not None:
        return float(row["advantage"])
    guarantee = profile(row, n)
    return np.nan if guarantee is None else guarantee.advantage


def equals(name: str, value: str) -> str:
    """A setting such as k = 300, on one line."""
    return f"{name}{NO_BREAK}={NO_BREAK}{value}"


def method_name(row: Any) -> str:
    """What a line of a table is called, e.g. "bagging, k = 300"."""
    if row.variant:
        least = row.variant == "least_noise"
        return "the same with the least sigma" if least else "the same with logistic teachers"
    if row.method == "pate":
        asked = f"{row.answers:.0f} answers" if row.answers > 0 else f"{row.queries:.0f} queries"
        return f"PATE, {asked}"
    if row.method == "dp_sgd":
        return f"DP-SGD, {equals('sigma', f'{row.sigma:g}')}"
    return f"bagging, {equals('k', f'{row.subsample:,.0f}')}" if row.method == "bagging" else "no privacy"


def _reduced_method(row: Any) -> str:
    return "DP-SGD, the least sigma" if row.variant else method_name(row)


def _budget(row: Any) -> str:
    return "" if np.isnan(row.epsilon) else f"({row.epsilon:g},{NO_BREAK}{row.delta:g})"


def _minutes(row: Any) -> str:
    return f"not run: {max(1, round(row.cpu_seconds / 60))} min of CPU" if row.cpu_seconds > 0 else GAP


def _hours(row: Any) -> str:
    return f"not run: {max(row.gpu_hours, 0.01):.2f} h on a GPU" if row.gpu_hours > 0 else GAP


def _accuracies(caption: str, exposed: Column, gap: Callable[[Any], str]) -> Table:
    means = Column("reproduced", text=lambda row: mean_text(row.reproduced, row.std, gap=gap(row)))
    difference = Column("difference", format="{:+.2f}", scale=100)
    published = Column("published", format="{:.2%}")
    return Table(caption, (Column("method", text=method_name), published, means, difference, exposed, BUDGET, "seeds"))


BUDGET = Column("budget", "published budget", text=_budget)
ADVANTAGE = Column("advantage", format="{:.4f}")

TABLE_2A = _accuracies(
    "Test accuracy, published and reproduced (mean and standard deviation over seeds). Published budget: (epsilon, "
    "delta). Difference: reproduced minus published, in percentage points.",
    Column("exact_delta", "exact delta", format="{:.5f}"),
    _minutes,
)
TABLE_3A = _accuracies(
    "Accuracy on 9,000 test images from a public model, published and reproduced (mean and standard deviation over "
    "seeds). Advantage: what our run guarantees against any membership test, at all error rates.",
    ADVANTAGE,
    _minutes,
)
_CIFAR10 = _accuracies(
    "{which}: accuracy on CIFAR-10. Advantage: what the run guarantees against any membership test, at all error rates "
    "(where the least sigma is yet to be found: what the budget guarantees). Hours: at {plain:,.0f} images a second, "
    "{private:,.0f} by DP-SGD (estimates).",
    ADVANTAGE,
    _hours,
)
REDUCED = Table(
    "CIFAR-10 at a reduced scale, not the paper's: five convolutions, 30 epochs for bagging and 2 for DP-SGD. Accuracy "
    "from scratch (10,000 test images) and from CIFAR-100 (9,000), mean and standard deviation.",
    (
        Column("method", text=_reduced_method),
        Column("advantage_scratch", "advantage", format="{:.4f}"),
        mean_and_std("reproduced_scratch", "from scratch", std="std_scratch"),
        Column("seeds_scratch", "seeds"),
        mean_and_std("reproduced_tuned", "from CIFAR-100", std="std_tuned"),
        Column("seeds_tuned", f"seeds{NO_BREAK}"),  # no two columns have the same heading
    ),
)
REPLACEMENT = Table(
    "Figure 2 of the paper: one model on k records drawn with and without replacement, seeds that the rule had not "
    "seen; 95 % interval of the difference.",
    (
        Column("subsample", "k", format="{:,}"),
        Column("with_replacement", "with replacement", format="{:.2%}"),
        Column("without_replacement", "without replacement", format="{:.2%}"),
        Column("difference", format="{:.2%}"),
        Column("low", "95 % from", format="{:.2%}"),
        Column("high", "to", format="{:.2%}"),
        "seeds",
    ),
)


def show_cifar10(table: pd.DataFrame, *, public: str | None = None) -> Any:
    """Table 2b, or, with the public model that Case II started from, Table 3b as the chapter shows it."""
    which = "Table 2b of the paper, from scratch" if public is None else f"Table 3b of the paper, from {STARTS[public]}"
    plain, private = costs.GPU
    return _CIFAR10(table, which=which, plain=plain, private=private)
