"""Grids of the head-to-head. The sealed sets are run once, after code, grids and
rules are committed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from dpnotes.lab._experiment import Grid, paper_table
from dpnotes.lab.head_to_head.tasks import SURVEYS, SYNTHETIC, same

EPSILONS, DELTAS = (0.1, 1.0, 10.0), (0.0, 1e-5)
REPEATS = 15  # cuts of a table; with five, nearly all verdicts were open
# synthetic tables of each kind, and cuts of each; of one table, nearly all verdicts
# were open
TABLES, OF_EACH = 8, 3
SEALED_EPSILONS = (0.5, 1.0, 3.0)
SIZES, WIDTHS, MARGINS = (200, 2000), (5, 50), (0.5, 1.5)  # of synthetic tables

RATES = (0.005, 0.01, 0.05)  # of exposures


def tasks(role: str) -> Grid:
    """Tasks of a role, lines of ``book/results/published/tasks_head_to_head.csv``.

    ``"development"``; ``"sealed"``, of data sets that no comparison had used;
    ``"seen"``, which were sealed before, run, and looked at in order to improve
    ``compare``; ``"others"``, where other libraries' methods are run, too.
    """
    table = (
        paper_table("tasks_head_to_head").query("role == @role").fillna({"target": ""})
    )
    return [
        {
            "dataset": line.dataset,
            "target": line.target,
            "rows": int(rows),
            "columns": int(d) if d > 0 else None,
        }
        for line, rows, d in zip(
            table.itertuples(), table["rows"], table["columns"], strict=True
        )
    ]


def _rows(
    tasks: Grid, epsilons: Sequence[float], deltas: Sequence[float], **more: Any
) -> Grid:
    return [
        {**task, "margin": None, "epsilon": epsilon, "delta": delta, **more}
        for task, delta, epsilon in product(tasks, deltas, epsilons)
    ]


def development(*, repeats: int = REPEATS) -> Grid:
    """Development sets and what is derived from them."""
    return _rows(tasks("development"), EPSILONS, DELTAS, repeats=repeats, seed=0)


def exposed(*, repeats: int = REPEATS) -> Grid:
    """Development sets at equal exposure."""
    common = {"margin": None, "repeats": repeats, "seed": 0}
    return [
        {**task, **common, "rate": rate}
        for task in tasks("development")
        for rate in RATES
    ]


def synthetic(*, repeats: int = OF_EACH, seeds: int = TABLES) -> Grid:
    """Two classes, where n, d and the margin are turned; each table is drawn anew,
    so that they are independent.
    """
    return [
        {**row, "margin": margin}
        for seed, n, d, margin in product(range(seeds), SIZES, WIDTHS, MARGINS)
        for task in [{"dataset": SYNTHETIC, "target": "", "rows": n, "columns": d}]
        for row in _rows([task], EPSILONS, DELTAS, repeats=repeats, seed=seed)
    ]


def sealed(*, repeats: int = 5) -> Grid:
    """Sets that no method or rule was chosen on, each task with synthetic tables of its
    own.

    With those of one seed, all choices would share their luck.
    """
    return [
        row
        for seed, task in enumerate(tasks("sealed"))
        for row in _rows([task], SEALED_EPSILONS, (1e-5,), repeats=repeats, seed=seed)
    ]


def seen(*, repeats: int = 5) -> Grid:
    """Sets that were sealed, and are no more: they showed what to change."""
    return _rows(tasks("seen"), SEALED_EPSILONS, (1e-5,), repeats=repeats, seed=0)


def others(*, repeats: int = REPEATS) -> Grid:
    """Where other libraries' methods are run, too."""
    return _rows(tasks("others"), (1.0, 3.0), DELTAS, repeats=repeats, seed=0)


def seconds(parameters: Mapping[str, Any], *, comparisons: int = 1) -> float:
    """Measured on one core, for so many comparisons."""
    bands = str(parameters["target"]).partition("/")[2]
    classes = int(bands or {"covertype": 7, "wine": 3}.get(parameters["dataset"], 2))
    if (
        parameters["dataset"] in ("fashion_mnist", "cifar10")
        and not parameters["target"]
    ):
        classes = 10
    return comparisons * (2.0 + 0.0007 * float(parameters["rows"]) * classes)


def needed(parameters: Mapping[str, Any]) -> list[str]:
    """The data set of a task, where it is one of :data:`dpnotes.data.NAMES`."""
    name = str(parameters["dataset"])
    return [] if name in (SYNTHETIC, "wine", *SURVEYS, *same()) else [name]
