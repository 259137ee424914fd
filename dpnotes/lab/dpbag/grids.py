"""Grids of the chapter on differentially private bagging, and what their rows take."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

from dpnotes.lab._experiment import Grid

EPSILONS = (1.0, 3.0, 5.0)
PUBLISHED_DELTA, STATED_DELTA = 1e-3, 1e-5  # what the paper's numbers are of, and what it says they are of
BUDGETS = tuple(product(EPSILONS, (PUBLISHED_DELTA, STATED_DELTA)))
SIZES: dict[str, dict[str, tuple[int, ...]]] = {  # teachers of a partition, partitions
    "logistic": {"n": (50, 100, 250), "k": (1, 10, 50, 100)},
    "boosting": {"n": (100, 150), "k": (1, 50, 100)},
    "quick": {"n": (10, 20), "k": (1, 10)},
}
LARGE = ("adult", "diabetes130")  # others have hundreds of records rather than thousands
FILTERS = ((0.0, 1.0), (0.75, 0.75), (0.9, 0.5), (0.9, 0.25))  # confidence, votes of a teacher as a fraction of queries
NOTHING: dict[str, Any] = {"accountant": "none", "epsilon": None, "delta": None, "n_teachers": 1, "n_partitions": 1}


def of_setting(n_teachers: int, n_partitions: int) -> Grid:
    """Accountants and budgets of the rows that share teachers.

    For k = 1 the personalised accountant is the naive one and is left out; tight accounting is for the stated delta.
    """
    accountants = {"naive": (PUBLISHED_DELTA, STATED_DELTA), "tight": (STATED_DELTA,)}
    if n_partitions > 1:
        accountants = {"personalised": (PUBLISHED_DELTA, STATED_DELTA), **accountants}
    setting = {"n_teachers": n_teachers, "n_partitions": n_partitions}
    return [
        {**setting, "accountant": accountant, "epsilon": epsilon, "delta": delta}
        for accountant, deltas in accountants.items()
        for delta in deltas
        for epsilon in EPSILONS
    ]


def student(dataset: str, teachers: str, *, seeds: int = 10) -> Grid:
    """Rows of one data set and learner, those that share teachers in a row; few teachers on others."""
    sizes = SIZES[teachers if dataset in LARGE else "quick"]
    rows = [NOTHING, *(row for n, k in product(sizes["n"], sizes["k"]) for row in of_setting(n, k))]
    return [{"dataset": dataset, "teachers": teachers, "seed": seed, **row} for seed in range(seeds) for row in rows]


def own(dataset: str, *, seeds: int = 10) -> Grid:
    """Rows of :func:`student` on a reader's file by tight accounting, and of one model on all private records."""
    rows = student(dataset, "logistic", seeds=seeds)
    return [row for row in rows if row["accountant"] in ("none", "tight")]


def filtered(dataset: str, *, seeds: int = 10) -> Grid:
    """Rows of the filter of one partition at the stated delta, for all settings of :data:`FILTERS`."""
    common = {"dataset": dataset, "delta": STATED_DELTA, "n_partitions": 1}
    names = ("seed", "n_teachers", "epsilon", "confidence", "vote_fraction")
    numbers = SIZES["logistic" if dataset in LARGE else "quick"]["n"]
    return [
        {**common, **dict(zip(names, (*setting, *chosen), strict=True))}
        for *setting, chosen in product(range(seeds), numbers, EPSILONS, FILTERS)
    ]


def cost() -> Grid:
    """Settings of one run on Adult, whose cost is measured."""
    learners = ("logistic", "boosting")
    settings = [(name, n, k) for name in learners for n, k in product(SIZES[name]["n"], SIZES[name]["k"])]
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
