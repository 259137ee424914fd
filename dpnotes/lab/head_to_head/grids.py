"""Grids of the head-to-head. The sealed sets are run once, after code, grids and rules are committed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from dpnotes.lab._experiment import Grid
from dpnotes.lab.head_to_head.tasks import SAME, SURVEYS, SYNTHETIC

EPSILONS, DELTAS = (0.1, 1.0, 10.0), (0.0, 1e-5)
REPEATS = 15  # cuts of a table; with five, nearly all verdicts were open
TABLES, OF_EACH = 8, 3  # synthetic tables of each kind, and cuts of each; of one table, nearly all verdicts were open
SEALED_EPSILONS = (0.5, 1.0, 3.0)
SIZES, WIDTHS, MARGINS = (200, 2000), (5, 50), (0.5, 1.5)  # of synthetic tables

RATES = (0.005, 0.01, 0.05)  # of exposures
NAMED = ("dataset", "target", "rows", "columns")
Task = tuple[str, str, int, int | None]  # dataset, target, rows, columns
DEVELOPMENT: tuple[Task, ...] = (
    ("breast_cancer", "", 569, None),
    ("wine", "", 178, None),
    ("digits", "3-8", 357, None),
    ("digits", "odd", 1000, 32),
    ("mnist", "3-5", 2000, 49),
)
SEALED: tuple[Task, ...] = (  # data sets that no comparison had used
    ("401ksubs", "e401k", 4000, None),
    ("401ksubs", "inc/4", 2000, None),
    ("alcohol", "employ", 4000, None),
    ("beauty", "female", 1260, None),
    ("bwght", "cigs", 1388, None),
    ("card", "black", 3010, None),
    ("card", "lwage/3", 1000, None),
    ("catholic", "parcath", 4000, None),
    ("catholic", "read12/3", 2000, None),
    ("charity", "respond", 4000, None),
    ("charity", "respond", 500, None),
    ("countymurders", "murders", 4000, None),
    ("cps78_85", "female", 1084, None),
    ("cps91", "inlf", 4000, None),
    ("crime1", "narr86", 2725, None),
    ("crime1", "narr86", 500, 8),
    ("driving", "bac08", 1200, None),
    ("expendshares", "kids", 1519, None),
    ("fertil1", "farm", 1129, None),
    ("fertil2", "urban", 4000, None),
    ("gpa2", "female", 2000, None),
    ("gpa2", "colgpa/5", 4000, None),
    ("happiness", "vhappy", 4000, None),
    ("happiness", "vhappy", 1000, 6),
    ("htv", "urban", 1230, None),
    ("injury", "highearn", 2000, None),
    ("jtrain3", "unem75", 2675, None),
    ("labsup", "worked", 4000, None),
    ("labsup", "worked", 500, 8),
    ("loanapp", "approve", 1989, None),
    ("recid", "cens", 1445, None),
    ("recid", "cens", 400, 5),
    ("twoyear", "BA", 4000, None),
    ("twoyear", "lwage/3", 4000, None),
    ("wagepan", "union", 4000, None),
    ("wagepan", "lwage/3", 2000, None),
)
SEEN: tuple[Task, ...] = (  # sealed before, run, and looked at in order to improve `compare`
    ("adult", "", 4000, None),
    ("adult", "", 500, None),
    ("adult", "", 2000, 20),
    ("adult", "sex=Male", 2000, None),
    ("diabetes130", "", 4000, None),
    ("diabetes130", "", 1000, 20),
    ("diabetes130", "gender=Male", 2000, None),
    ("covertype", "", 4000, None),
    ("covertype", "0-1", 2000, None),
    ("covertype", "2-5", 500, None),
    ("covertype", "odd", 2000, 10),
    ("fashion_mnist", "", 2000, 49),
    ("fashion_mnist", "0-6", 2000, 49),
    ("fashion_mnist", "5-7", 500, 49),
    ("fashion_mnist", "odd", 2000, 98),
    ("anes96", "vote", 944, None),
    ("anes96", "vote", 400, 5),
    ("fair", "affairs", 4000, None),
    ("fair", "affairs", 1000, None),
    ("fair", "children", 2000, None),
    ("modechoice", "choice", 840, None),
    ("modechoice", "psize", 840, None),
    ("randhie", "mdvis", 4000, None),
    ("randhie", "physlm", 4000, None),
    ("randhie", "mdvis", 1000, 5),
    ("cifar10", "", 4000, 96),
    ("cifar10", "0-1", 2000, 96),
    ("cifar10", "3-5", 2000, 48),
    ("cifar10", "odd", 500, 48),
    ("cifar100_subset", "odd", 4000, 96),
    ("cifar100_subset", "8-13", 400, 48),
)

BESIDE_OTHERS: tuple[Task, ...] = (
    ("wine", "", 178, None),
    ("breast_cancer", "", 569, None),
    ("digits", "", 1797, None),
    ("adult", "", 4000, None),
)


def _rows(tasks: Sequence[Task], epsilons: Sequence[float], deltas: Sequence[float], **more: Any) -> Grid:
    return [
        {**dict(zip(NAMED, task, strict=True)), "margin": None, "epsilon": epsilon, "delta": delta, **more}
        for task, delta, epsilon in product(tasks, deltas, epsilons)
    ]


def development(*, repeats: int = REPEATS) -> Grid:
    """Development sets and what is derived from them."""
    return _rows(DEVELOPMENT, EPSILONS, DELTAS, repeats=repeats, seed=0)


def exposed(*, repeats: int = REPEATS) -> Grid:
    """Development sets at equal exposure."""
    named = [dict(zip(NAMED, task, strict=True)) for task in DEVELOPMENT]
    return [{**task, "margin": None, "rate": rate, "repeats": repeats, "seed": 0} for task in named for rate in RATES]


def synthetic(*, repeats: int = OF_EACH, seeds: int = TABLES) -> Grid:
    """Two classes, where n, d and the margin are turned; each table is drawn anew, so that they are independent."""
    shapes = product(SIZES, WIDTHS, MARGINS)
    tasks: list[tuple[Task, float]] = [((SYNTHETIC, "", n, d), margin) for n, d, margin in shapes]
    return [
        {**row, "margin": margin}
        for seed in range(seeds)
        for task, margin in tasks
        for row in _rows([task], EPSILONS, DELTAS, repeats=repeats, seed=seed)
    ]


def sealed(*, repeats: int = 5) -> Grid:
    """Sets that no method or rule was chosen on, each task with synthetic tables of its own.

    With those of one seed, all choices would share their luck.
    """
    return [
        row
        for seed, task in enumerate(SEALED)
        for row in _rows([task], SEALED_EPSILONS, (1e-5,), repeats=repeats, seed=seed)
    ]


def seen(*, repeats: int = 5) -> Grid:
    """Sets that were sealed, and are no more: they showed what to change."""
    return _rows(SEEN, SEALED_EPSILONS, (1e-5,), repeats=repeats, seed=0)


def others(*, repeats: int = REPEATS) -> Grid:
    """Where other libraries' methods are run, too."""
    return _rows(BESIDE_OTHERS, (1.0, 3.0), DELTAS, repeats=repeats, seed=0)


def seconds(parameters: Mapping[str, Any], *, comparisons: int = 1) -> float:
    """Measured on one core, for so many comparisons."""
    bands = str(parameters["target"]).partition("/")[2]
    classes = int(bands or {"covertype": 7, "wine": 3}.get(parameters["dataset"], 2))
    if parameters["dataset"] in ("fashion_mnist", "cifar10") and not parameters["target"]:
        classes = 10
    return comparisons * (2.0 + 0.0007 * float(parameters["rows"]) * classes)


def needed(parameters: Mapping[str, Any]) -> list[str]:
    """The data set of a task, where it is one of :data:`dpnotes.data.NAMES`."""
    name = str(parameters["dataset"])
    return [] if name in (SYNTHETIC, "wine", *SURVEYS, *SAME) else [name]
