"""Grids of the chapter on intrinsic privacy: the paper's tasks with its settings, a small task, the reader's own."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Unpack

from dpnotes._validation import one_of
from dpnotes.lab._experiment import Grid, paper_table
from dpnotes.lab.intrinsic_sgd.data import PAPER_NAMES, SCALINGS, UNSCALED, located, records
from dpnotes.lab.intrinsic_sgd.runs import INITIALS, QUANTITIES, Runs
from dpnotes.methods import logistic_loss

SCALES = ("paper", "quick")
CHECKPOINTS = 40
PROJECTIONS = 10  # of the digits
REPEATS = {"covertype": 3, "adult": 5}  # of the studies of the other tasks
LARGEST_RATE = 2 / logistic_loss(1.0).smoothness  # for rows of norm 1
EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0, 6.0)  # the classical formula is not sufficient from 8 on


SGD_FIELDS = tuple(Runs.__annotations__)


def _sgd(*values: float) -> dict[str, Any]:
    return dict(zip(SGD_FIELDS, values, strict=True))


# Batch size, rate and steps are those of Table II. The paper's number of runs is 2 R |S|, R near its root; ours is the
# next larger one: 2 * 99 * 50 for 9,799, 2 * 126 * 64 for 16,116, 2 * 160 * 81 for 25,702.
SGD: dict[str, dict[str, Any]] = {
    "mnist": _sgd(32, 0.1, 1850, 99, 49),
    UNSCALED: _sgd(32, 0.1, 1850, 99, 49),
    "covertype": _sgd(50, 1.0, 8400, 126, 63),
    "adult": _sgd(32, 0.5, 3400, 160, 80),
    "breast_cancer": _sgd(16, 1.0, 120, 60, 30),
}
# Hidden units; seeds and neighbours of the networks are ours, the paper gives none.
NETWORKS: dict[str, dict[str, Any]] = {
    "mnist": {"hidden": 10, "n_seeds": 50, "n_neighbours": 39},
    UNSCALED: {"hidden": 10, "n_seeds": 50, "n_neighbours": 39},
    "adult": {"hidden": 8, "n_seeds": 50, "n_neighbours": 39},
    "breast_cancer": {"hidden": 4, "n_seeds": 30, "n_neighbours": 10},
}
DATASETS = {"paper": ("mnist", UNSCALED, "covertype", "adult"), "quick": ("breast_cancer",)}
# Runs to fit a test to and to count its errors on, of either data set: as many as about a minute allows.
AUDITS = {
    "mnist": (800, 3000),
    UNSCALED: (800, 3000),
    "covertype": (160, 300),
    "adult": (600, 2000),
    "breast_cancer": (200, 400),
}
OWN_FEATURE = {"covertype": (240, 600), "adult": (600, 2000)}  # that no other record has; a test that is not fitted
ONLY_HOLDER = {"adult": (600, 6000)}  # one in the data; on Forest the rarest feature has 39
LAST_ITERATE = {"steps": 100, "learning_rate": LARGEST_RATE, "n_runs": 10, "seed": 0}


def settings(
    scale: str,
    *,
    dataset: str = "",
    target: str = "",
    scale_rows: bool = False,
    require_bound: bool = True,
    **own: Unpack[Runs],
) -> Grid:
    """Settings of logistic regression with varied and with fixed initial weights, for each task of a scale.

    Parameters
    ----------
    scale : {"paper", "quick"}
    dataset : str
        Another task, or a file; empty: those of the scale.
    target : str
        Of a file: column of the classes; empty: the last one, or the array ``y``.
    scale_rows : bool
        Of a file: divide each row by its own norm.
    require_bound : bool
        False: a learning rate beyond 2 / smoothness is taken, and there is no bound on the sensitivity.
    own
        batch_size, learning_rate, steps, n_seeds and n_neighbours in place of the task's own; 0 keeps those. A file has
        none: batches of 32, rate 0.5, 1,000 steps, 50 seeds and 20 neighbours.

    Raises
    ------
    ValueError
        If there is no such scale or task, or a number is out of its range.
    FileNotFoundError
        If there is no such file.
    """
    one_of("scale", scale, SCALES)
    given: dict[str, Any] = {**own}
    for name, value in given.items():
        least = {"n_seeds": ">= 2", "learning_rate": "> 0 and finite"}.get(name, ">= 1")
        if not 0 <= value < math.inf or (name == "n_seeds" and value == 1):
            raise ValueError(f"{name} must be {least}, or 0 for the task's own, got {name}={value}")
    if (learning_rate := own.get("learning_rate", 0.0)) > LARGEST_RATE and require_bound:
        raise ValueError(
            f"learning_rate must be <= 2 / smoothness = {LARGEST_RATE:g}, got learning_rate={learning_rate}; beyond, "
            "no bound on the sensitivity holds: give require_bound=False to go without one"
        )
    changed = {name: value for name, value in given.items() if value}
    names = (located(dataset, target),) if dataset else DATASETS[scale]
    if names[0] not in SGD:
        records(names[0], scale_rows)  # what is wrong with a file shows before anything runs
    rows = []
    for name in names:
        sgd = {**SGD.get(name, _sgd(32, 0.5, 1000, 50, 20)), **changed}
        scaled = {} if name in SGD else {"scale_rows": scale_rows}
        common = {"dataset": name, "hidden": None, "output": "sigmoid", "schedule": "constant", **sgd, "seed": 0}
        rows += [{**common, "initial": initial, **scaled} for initial in INITIALS]
    return rows


def by_scale(make: Callable[[Grid], Grid]) -> dict[str, Callable[[], Grid]]:
    """The grid that ``make`` makes of the settings of each scale, made when it is asked for."""
    return {scale: lambda scale=scale: make(settings(scale)) for scale in SCALES}  # type: ignore[misc]


def checkpoints(steps: int) -> tuple[int, ...]:
    """Steps after which a trajectory is recorded."""
    return tuple(range(0, steps + 1, max(1, steps // CHECKPOINTS)))


def with_networks(chosen: Grid) -> Grid:
    """These settings, and the same tasks with one hidden layer where there is a network for them."""
    deep = [(row, NETWORKS[row["dataset"]]) for row in chosen if row["dataset"] in NETWORKS]
    return [*chosen, *({**row, **own, "n_seeds": min(row["n_seeds"], own["n_seeds"])} for row, own in deep)]


def quantities(chosen: Grid) -> Grid:
    """A row for each distribution of each setting."""
    return [{**row, "quantity": quantity} for row in chosen for quantity in QUANTITIES]


def distances(chosen: Grid) -> Grid:
    """A row for each distribution of each setting, networks included."""
    return quantities(with_networks(chosen))


def utilities(chosen: Grid) -> Grid:
    """No noise, and noise by each rule at each epsilon, with and without SGD's own counted."""
    rows = []
    for row in chosen:
        # the number of records of other tasks is too small for the classical formula
        analysis = "published" if row["dataset"] in DATASETS["paper"] else "tight"
        bounded = row["learning_rate"] <= LARGEST_RATE
        proved = row["initial"] == "varied" and row["dataset"] != UNSCALED and bounded
        rules = [("published", analysis)] * bounded + [("observed", analysis)] + [("proved", "tight")] * proved
        added: Grid = [
            {"noise": noise, "analysis": calibration, "counted": counted, "epsilon": epsilon}
            for noise, calibration in rules
            for epsilon in EPSILONS
            for counted in (False, True)
        ]
        added.insert(0, {"noise": "none", "analysis": None, "counted": False, "epsilon": None})
        if proved and analysis == "published":  # what exact calibration alone does, at the paper's sensitivity
            added.append({"noise": "published", "analysis": "tight", "counted": False, "epsilon": 1.0})
        rows += [{**row, **noise} for noise in added]
    return rows


def draws(chosen: Grid) -> Grid:
    """Table IV at epsilon = 1 with the numbers of Table III: one draw of noise for all models, and a draw for each."""
    printed = paper_table("intrinsic_sgd_table3").set_index(["dataset", "quantity"])["value"].astype(float).to_dict()
    return [
        {
            **_without(row, "n_neighbours"),
            "sensitivity": printed[task, f"sensitivity_{kind}"],
            "intrinsic_sigma": printed[task, "sigma_intrinsic"],
            "epsilon": 1.0,
            "draw": draw,
        }
        for row in chosen
        if (task := PAPER_NAMES.get(row["dataset"])) and row["initial"] == "varied"
        for kind in ("theoretical", "empirical")
        for draw in ("shared", "own")
    ]


def scalings(chosen: Grid) -> Grid:
    """The digits in each scaling and several projections."""
    return [
        {"scaling": scaling, "projection": projection, **{name: row[name] for name in (*SGD_FIELDS, "seed")}}
        for row in chosen
        if row["dataset"] == UNSCALED and row["initial"] == "varied"
        for scaling in SCALINGS
        for projection in range(PROJECTIONS)
    ]


def repeats(chosen: Grid) -> Grid:
    """The studies of Forest and of Adult, each several times with another seed."""
    return [
        {"dataset": row["dataset"], **{name: row[name] for name in SGD_FIELDS}, "seed": seed}
        for row in chosen
        if row["dataset"] in REPEATS and row["initial"] == "varied"
        for seed in range(1, REPEATS[row["dataset"]] + 1)
    ]


def trajectories(chosen: Grid) -> Grid:
    """Steps of eight runs from one initial weight, on Forest if it is among the tasks, else on the first."""
    fixed = [row for row in chosen if row["initial"] == "fixed"]
    row = {**next((r for r in fixed if r["dataset"] == "covertype"), fixed[0]), "n_seeds": 8, "n_neighbours": 1}
    return [{**row, "run": run, "step": step} for run in range(8) for step in checkpoints(row["steps"])]


def hyperparameters(chosen: Grid) -> Grid:
    """Other batch sizes at the same number of passes, other rates, falling rates: one at a time."""
    rows = []
    for row in chosen:
        base = {**row, "n_seeds": min(50, row["n_seeds"]), "n_neighbours": min(4, row["n_neighbours"])}
        sizes = [max(1, row["batch_size"] // 4), *(row["batch_size"] * factor for factor in (1, 4, 16))]
        if row["dataset"] not in SGD:  # a file may be smaller than a large batch
            sizes = [size for size in sizes if size < len(records(row["dataset"], row["scale_rows"]).X)]
        rows += [{**base, "batch_size": size, "steps": row["steps"] * row["batch_size"] // size} for size in sizes]
        rates = [row["learning_rate"] * factor for factor in (0.25, 4.0)]
        rows += [{**base, "learning_rate": rate} for rate in rates if rate <= LARGEST_RATE]
        rows += [{**base, "schedule": schedule} for schedule in ("inverse", "inverse-root", "linear")]
    return rows


def audits(chosen: Grid) -> Grid:
    """Records to tell from the last weights: see :data:`dpnotes.lab.intrinsic_sgd.audit.RECORDS`."""
    rows = []
    for row in chosen:
        runs = dict.fromkeys(("typical", "quiet direction"), AUDITS.get(row["dataset"], (400, 1000)))
        if row["dataset"] in OWN_FEATURE:
            runs = {"own feature": OWN_FEATURE[row["dataset"]], **runs}
        if row["dataset"] in ONLY_HOLDER:
            runs["only holder"] = ONLY_HOLDER[row["dataset"]]
        setting = _without(row, "n_seeds", "n_neighbours")
        rows += [{**setting, "record": kind, "fit_runs": fit, "test_runs": test} for kind, (fit, test) in runs.items()]
    return rows


def last_iterates(chosen: Grid) -> Grid:
    """Noisy descent at each epsilon, for tasks whose rows have norm at most 1."""
    return [
        {**{name: row[name] for name in ("dataset", "scale_rows") if name in row}, "epsilon": epsilon, **LAST_ITERATE}
        for row in chosen
        if row["initial"] == "varied" and row["dataset"] != UNSCALED
        for epsilon in EPSILONS
    ]


def _without(row: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in names}


def seconds(row: Mapping[str, Any]) -> float:
    """Measured on one core: 0.3 microseconds a step of a logistic regression that shares its batch, 7 of a pair."""
    if "n_runs" in row:
        return 10.0
    if "test_runs" in row:
        return float((row["fit_runs"] + row["test_runs"]) * row["steps"] * 7e-6)
    width = 8 if row.get("hidden") else 1
    return float(row["n_seeds"] * (5 + row.get("n_neighbours", 0) * width) * row["steps"] * 3e-7)
