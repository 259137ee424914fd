"""Grids of the chapter on intrinsic privacy: the paper's tasks with its settings, a
small task, the reader's own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import product as pairs
from typing import Any

from dpnotes._validation import one_of
from dpnotes.lab._experiment import Grid, product, without
from dpnotes.lab.intrinsic_sgd.data import (
    PAPER_NAMES,
    SCALINGS,
    SPLITS,
    UNSCALED,
    located,
    records,
)
from dpnotes.lab.intrinsic_sgd.printed import printed
from dpnotes.lab.intrinsic_sgd.runs import INITIALS, QUANTITIES
from dpnotes.methods import logistic_loss

SCALES = ("paper", "quick")
# points of a path in the figure
CHECKPOINTS = 40
PROJECTIONS = 10  # of the digits
REPEATS = {"covertype": 3, "adult": 5}  # of the studies of the other tasks
LARGEST_RATE = 2 / logistic_loss(1.0).smoothness  # for rows of norm 1
# the classical formula is not sufficient from 8 on
EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0, 6.0)
SGD_FIELDS = ("batch_size", "learning_rate", "steps", "n_seeds", "n_neighbours")
# The first three are those of Table II. The paper's number of runs is 2 R |S|, R near
# its root; ours is the next larger one: 2 * 99 * 50 for 9,799, 2 * 126 * 64 for 16,116,
# 2 * 160 * 81 for 25,702.
SGD: dict[str, tuple[float, ...]] = {
    "mnist": (32, 0.1, 1850, 99, 49),
    UNSCALED: (32, 0.1, 1850, 99, 49),
    "covertype": (50, 1.0, 8400, 126, 63),
    "adult": (32, 0.5, 3400, 160, 80),
    "breast_cancer": (16, 1.0, 120, 60, 30),
}
OWN_SGD = (32, 0.5, 1000, 50, 20)  # of a file
# Hidden units, seeds and neighbours of the networks; the latter are ours, the paper
# gives none.
NETWORKS = {
    "mnist": (10, 50, 39),
    UNSCALED: (10, 50, 39),
    "adult": (8, 50, 39),
    "breast_cancer": (4, 30, 10),
}
# The authors' public code of May 2020 trains networks on Adult for so many steps, at the
# rate of Table II. Its networks on MNIST-binary have other features and another rate.
NETWORK_STEPS = {"adult": 1850}
# Seeds of its epsilons of pairs, which were found on seeds 0 to 2
PAIR_SEEDS = range(10, 15)
DATASETS = {
    "paper": ("mnist", UNSCALED, "covertype", "adult"),
    "quick": ("breast_cancer",),
}
# Runs to fit a test to and to count its errors on, of either data set: as many as about
# a minute allows.
AUDITS = {
    "mnist": (800, 3000),
    UNSCALED: (800, 3000),
    "covertype": (160, 300),
    "adult": (600, 2000),
    "breast_cancer": (200, 400),
}
# that no other record has; a test that is not fitted
OWN_FEATURE = {"covertype": (240, 600), "adult": (600, 2000)}
# one in the data; on Forest the rarest feature has 39
ONLY_HOLDER = {"adult": (600, 6000)}
LAST_ITERATE = {"steps": 100, "learning_rate": LARGEST_RATE, "n_runs": 10, "seed": 0}


def settings(
    scale: str,
    *,
    dataset: str = "",
    target: str = "",
    scale_rows: bool = False,
    require_bound: bool = True,
    **own: float,
) -> Grid:
    """List settings of logistic regression with varied and with fixed initial weights,
    for each task of a scale.

    Parameters
    ----------
    scale : {"paper", "quick"}
    dataset : str
        Another task, or a file. If empty, the tasks of the scale are used.
    target : str
        Column of the classes of a file. If empty, it is the last column, or the array
        ``y``.
    scale_rows : bool
        Whether each row of a file is divided by its own norm.
    require_bound : bool
        If False, a learning rate above 2 / smoothness is accepted, and there is no
        bound on the sensitivity.
    own
        batch_size, learning_rate, steps, n_seeds and n_neighbours, which replace the
        task's values; 0 retains the task's value. A file has batches of 32, rate 0.5,
        1,000 steps, 50 seeds and 20 neighbours.

    Raises
    ------
    ValueError
        If there is no such scale or task, or a number is out of its range.
    FileNotFoundError
        If there is no such file.
    """
    one_of("scale", scale, SCALES)
    # 0 stands for the task's own number, whatever it is
    for name, value in own.items():
        least = {"n_seeds": ">= 2", "learning_rate": "> 0 and finite"}.get(name, ">= 1")
        if not 0 <= value < math.inf or (name == "n_seeds" and value == 1):
            raise ValueError(
                f"{name} must be {least}, or 0 for the task's own, got {name}={value}"
            )
    if (
        learning_rate := own.get("learning_rate", 0.0)
    ) > LARGEST_RATE and require_bound:
        raise ValueError(
            f"learning_rate must be <= 2 / smoothness = {LARGEST_RATE:g}, got"
            f" learning_rate={learning_rate}; above this rate no bound on the"
            " sensitivity holds: give require_bound=False to train without a bound"
        )
    changed = {name: value for name, value in own.items() if value}
    # a task by name, or a file
    names = (located(dataset, target),) if dataset else DATASETS[scale]
    if names[0] not in SGD:
        # what is wrong with a file shows before anything runs
        records(names[0], scale_rows)
    common = {"hidden": None, "output": "sigmoid", "schedule": "constant", "seed": 0}
    rows: Grid = []
    for name in names:
        settings = dict(zip(SGD_FIELDS, SGD.get(name, OWN_SGD), strict=True))
        rows.append({"dataset": name, **common, **settings, **changed})
    # rows of the tasks have no such parameter, and their keys must stay
    scaled = {} if names[0] in SGD else {"scale_rows": scale_rows}
    return product(rows, initial=INITIALS, **scaled)


def by_scale(make: Callable[[Grid], Grid]) -> dict[str, Callable[[], Grid]]:
    """Return, for each scale, a function that makes the grid of its settings with
    ``make``.
    """
    return {scale: lambda scale=scale: make(settings(scale)) for scale in SCALES}  # type: ignore[misc]


def checkpoints(steps: int) -> tuple[int, ...]:
    """List the steps after which a trajectory is recorded."""
    return tuple(range(0, steps + 1, max(1, steps // CHECKPOINTS)))


def sizes(chosen: Grid) -> Grid:
    """List the data sets of these settings."""
    names = dict.fromkeys(row["dataset"] for row in chosen)
    return [{"dataset": name} for name in names if name in SPLITS]


def with_networks(chosen: Grid) -> Grid:
    """Add the same tasks with one hidden layer to these settings, if there is a
    network for them.
    """
    deep = []
    for row in chosen:
        if row["dataset"] in NETWORKS:
            units, seeds, neighbours = NETWORKS[row["dataset"]]
            # a reader may ask for fewer
            own = {"n_seeds": min(row["n_seeds"], seeds), "n_neighbours": neighbours}
            deep.append({**row, "hidden": units, **own})
    return chosen + deep


def distances(chosen: Grid) -> Grid:
    """List a row for each distribution of each setting, networks included."""
    return product(with_networks(chosen), quantity=QUANTITIES)


def network_pairs(chosen: Grid) -> Grid:
    """List studies of networks for :func:`dpnotes.lab.intrinsic_sgd.experiments.pairs`,
    of MNIST-binary those whose rows are not scaled.
    """
    rows: Grid = []
    for row in with_networks(_varied(chosen)):
        if row["hidden"] and row["dataset"] != "mnist":
            steps = NETWORK_STEPS.get(row["dataset"], row["steps"])
            rows += product([row], steps=steps, seed=PAIR_SEEDS)
    return rows


def utilities(chosen: Grid) -> Grid:
    """List rows without noise, and with noise by each rule at each epsilon, with
    SGD's own noise counted or not.
    """
    names = ("noise", "analysis", "epsilon", "counted")
    rows = []
    for row in chosen:
        # the number of records of other tasks is too small for the classical formula
        analysis = "published" if row["dataset"] in DATASETS["paper"] else "tight"
        bounded = row["learning_rate"] <= LARGEST_RATE
        # the proved bound is for rows of norm 1 at most
        proved = row["initial"] == "varied" and row["dataset"] != UNSCALED and bounded
        rules = (
            [("published", analysis)] * bounded
            + [("observed", analysis)]
            + [("proved", "tight")] * proved
        )
        added: list[tuple[Any, ...]] = [("none", None, None, False)]
        added += [
            (*rule, *rest) for rule, *rest in pairs(rules, EPSILONS, (False, True))
        ]
        # what exact calibration alone does, at the paper's sensitivity
        if proved and analysis == "published":
            added.append(("published", "tight", 1.0, False))
        rows += [{**row, **dict(zip(names, noise, strict=True))} for noise in added]
    return rows


def draws(chosen: Grid) -> Grid:
    """List rows of Table IV at epsilon = 1, from the numbers of Table III: one draw
    for all models, or one for each.
    """
    paper = printed().set_index(["dataset", "quantity"])["printed"]
    rows = []
    for row in chosen:
        task = PAPER_NAMES.get(row["dataset"])
        # Table IV is of varied initial weights
        if task is None or row["initial"] != "varied":
            continue
        for kind in ("theoretical", "empirical"):
            given = {
                "sensitivity": float(paper[task, f"sensitivity_{kind}"]),
                "intrinsic_sigma": float(paper[task, "sigma_intrinsic"]),
                "epsilon": 1.0,
            }
            own = without(row, "n_neighbours")
            rows += product([own], **given, draw=["shared", "own"])
    return rows


def scalings(chosen: Grid) -> Grid:
    """List the digits in each scaling and several projections."""
    own = [_study(row) for row in _varied(chosen) if row["dataset"] == UNSCALED]
    return product(own, scaling=[*SCALINGS], projection=range(PROJECTIONS))


def repeats(chosen: Grid) -> Grid:
    """List the studies of Forest and of Adult, each with several other seeds."""
    rows = []
    for row in _varied(chosen):
        task = row["dataset"]
        seeds = range(1, REPEATS.get(task, 0) + 1)
        rows += product([_study(row)], dataset=task, seed=seeds)
    return rows


def trajectories(chosen: Grid) -> Grid:
    """List steps of eight runs from the same initial weights, on Forest or, without
    it, on the first task.
    """
    # from one start, the order alone tells the runs apart
    fixed = [row for row in chosen if row["initial"] == "fixed"]
    row = next((row for row in fixed if row["dataset"] == "covertype"), fixed[0])
    runs = {"n_seeds": 8, "n_neighbours": 1, "run": range(8)}
    return product([row], **runs, step=checkpoints(row["steps"]))


def hyperparameters(chosen: Grid) -> Grid:
    """List other batch sizes at the same number of passes, other rates and falling
    rates: one change at a time.
    """
    rows = []
    for row in chosen:
        base = {
            **row,
            # about ten settings a task: fewer runs for each
            "n_seeds": min(50, row["n_seeds"]),
            "n_neighbours": min(4, row["n_neighbours"]),
        }
        sizes = [
            max(1, row["batch_size"] // 4),
            # the task's own size is among them
            *(row["batch_size"] * factor for factor in (1, 4, 16)),
        ]
        if row["dataset"] not in SGD:  # a file may be smaller than a large batch
            n = len(records(row["dataset"], row["scale_rows"]).X)
            sizes = [size for size in sizes if size < n]
        for size in sizes:
            # the same number of passes
            steps = row["steps"] * row["batch_size"] // size
            rows.append({**base, "batch_size": size, "steps": steps})
        rates = [row["learning_rate"] * factor for factor in (0.25, 4.0)]
        allowed = [rate for rate in rates if rate <= LARGEST_RATE]
        rows += product([base], learning_rate=allowed)
        rows += product([base], schedule=["inverse", "inverse-root", "linear"])
    return rows


def audits(chosen: Grid) -> Grid:
    """List the tests of records for
    :func:`dpnotes.lab.intrinsic_sgd.experiments.audit`.
    """
    rows = []
    for row in chosen:
        task = row["dataset"]
        setting = without(row, "n_seeds", "n_neighbours")
        # a task of a reader has a number of its own
        fitted = {task: AUDITS.get(task, (400, 1000))}
        tests = {
            "own feature": OWN_FEATURE,
            "typical": fitted,
            "quiet direction": fitted,
            "only holder": ONLY_HOLDER,
        }
        for record, of_task in tests.items():
            if task in of_task:
                runs = dict(zip(("fit_runs", "test_runs"), of_task[task], strict=True))
                rows.append({**setting, "record": record, **runs})
    return rows


def last_iterates(chosen: Grid) -> Grid:
    """List noisy descent at each epsilon, for tasks whose rows have norm at most 1."""
    own = []
    for row in _varied(chosen):
        if row["dataset"] != UNSCALED:
            kept = row.keys() & {"dataset", "scale_rows"}
            own.append({name: row[name] for name in kept})
    return product(own, epsilon=EPSILONS, **LAST_ITERATE)


def _varied(chosen: Grid) -> Grid:
    return [row for row in chosen if row["initial"] == "varied"]


def _study(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in (*SGD_FIELDS, "seed")}


def seconds(row: Mapping[str, Any]) -> float:
    """Estimate seconds on one core: a step takes 0.3 microseconds for a run that
    shares its batch, and 7 for a pair.
    """
    if "steps" not in row:
        return 1.0
    if "n_runs" in row:
        return 10.0
    if "test_runs" in row:
        return float((row["fit_runs"] + row["test_runs"]) * row["steps"] * 7e-6)
    # a network takes about eight times as long
    width = 8 if row.get("hidden") else 1
    return float(
        row["n_seeds"] * (5 + row.get("n_neighbours", 0) * width) * row["steps"] * 3e-7
    )
