"""Grids of the chapter on differentially private bagging, and what their rows take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpnotes.lab._experiment import Grid

EPSILONS = (1.0, 3.0, 5.0)
PUBLISHED_DELTA, STATED_DELTA = 1e-3, 1e-5  # what the paper's numbers are of, and what it says they are of
BUDGETS = tuple((epsilon, delta) for epsilon in EPSILONS for delta in (PUBLISHED_DELTA, STATED_DELTA))
SIZES: dict[str, dict[str, tuple[int, ...]]] = {  # teachers of a partition, partitions
    "logistic": {"n": (50, 100, 250), "k": (1, 10, 50, 100)},
    "boosting": {"n": (100, 150), "k": (1, 50, 100)},
    "quick": {"n": (10, 20), "k": (1, 10)},
}
FILTERS = ((0.0, 1.0), (0.75, 0.75), (0.9, 0.5), (0.9, 0.25))  # confidence, votes of a teacher as a share of queries
NOTHING: dict[str, Any] = {"accountant": "none", "epsilon": None, "delta": None, "n_teachers": 1, "n_partitions": 1}


def of_setting(n_teachers: int, n_partitions: int) -> Grid:
    """Accountants and budgets of the rows that share teachers.

    For k = 1 the personalised accountant is the naive one and is left out; tight accounting is for the stated delta.
    """
    return [
        {
            "n_teachers": n_teachers,
            "n_partitions": n_partitions,
            "accountant": accountant,
            "epsilon": epsilon,
            "delta": delta,
        }
        for accountant in (("personalised", "naive", "tight") if n_partitions > 1 else ("naive", "tight"))
        for delta in ((STATED_DELTA,) if accountant == "tight" else (PUBLISHED_DELTA, STATED_DELTA))
        for epsilon in EPSILONS
    ]


def student_grid(dataset: str, teachers: str, *, size: str | None = None, seeds: int = 10) -> Grid:
    """Rows of one data set and learner, those that share teachers in a row."""
    sizes = SIZES[size or teachers]
    grid: Grid = []
    for seed in range(seeds):
        common = {"dataset": dataset, "teachers": teachers, "seed": seed}
        grid.append({**common, **NOTHING})
        grid += [{**common, **row} for n in sizes["n"] for k in sizes["k"] for row in of_setting(n, k)]
    return grid


def filtered_grid(dataset: str, size: str, *, partitions: tuple[int, ...] = (1,), seeds: int = 10) -> Grid:
    """Rows of the filter at the stated delta, for all settings of :data:`FILTERS`."""
    return [
        {
            "dataset": dataset,
            "n_teachers": n,
            "n_partitions": k,
            "epsilon": epsilon,
            "delta": STATED_DELTA,
            "confidence": confidence,
            "share": share,
            "seed": seed,
        }
        for seed in range(seeds)
        for n in SIZES[size]["n"]
        for k in partitions
        for epsilon in EPSILONS
        for confidence, share in FILTERS
    ]


def cost_grid() -> Grid:
    """Settings of one run on Adult, whose cost is measured."""
    learners = ("logistic", "boosting")
    settings = [(name, n, k) for name in learners for n in SIZES[name]["n"] for k in SIZES[name]["k"]]
    settings += [(name, 1, 1) for name in learners]  # one model on all records
    return [
        {"dataset": "adult", "teachers": teachers, "n_teachers": n, "n_partitions": k, "seed": 0}
        for teachers, n, k in settings
    ]


def student_seconds(parameters: Mapping[str, Any]) -> float:
    """Measured on one core: teachers and votes, shared by the rows of a setting, and the student."""
    models = parameters["n_teachers"] * parameters["n_partitions"]
    each = 0.01 if parameters["teachers"] == "boosting" else 7e-4
    return float(models * each / len(of_setting(1, parameters["n_partitions"])) + 0.3)


def filtered_seconds(parameters: Mapping[str, Any]) -> float:
    """Measured on one core."""
    return float(0.5 + parameters["n_teachers"] * parameters["n_partitions"] * 7e-4)
