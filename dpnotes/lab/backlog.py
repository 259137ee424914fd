"""What the papers' grids lack, and running it: cheapest first, within a budget of time."""

from __future__ import annotations

import inspect
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from joblib import effective_n_jobs

from dpnotes import data
from dpnotes.lab import experiments, store
from dpnotes.lab._experiment import Experiment
from dpnotes.lab._shared import lacking
from dpnotes.lab.costs import Costs

_BATCH = 60.0  # expected seconds of the rows that are begun together; one that takes longer is alone


@dataclass(frozen=True)
class Task:
    """A row that neither the published results nor the runs have."""

    experiment: Experiment
    parameters: dict[str, Any]
    seconds: float  # expected, on the device


@dataclass
class Outcome:
    """What became of missing rows.

    Parameters
    ----------
    finished : int
        Rows that were run; they are in the folder of runs.
    left : list of Task
        What the budget had no room for, cheapest first.
    without_data : dict of str to int
        Rows that need data sets which are not here, by the names of these.
    failures : dict of str to Exception
        What ended an experiment, by its name; its other rows were left out.
    """

    finished: int = 0
    left: list[Task] = field(default_factory=list)
    without_data: dict[str, int] = field(default_factory=dict)
    failures: dict[str, Exception] = field(default_factory=dict)


def chosen(names: Sequence[str] = ()) -> list[Experiment]:
    """Experiments of these names, or of the chapters of these names; without a name all.

    Raises
    ------
    ValueError
        If there is none of a name; the message lists the known ones.
    """
    of_chapters: dict[str, list[Experiment]] = {}
    for experiment in experiments.EXPERIMENTS.values():
        of_chapters.setdefault(experiment.chapter, []).append(experiment)
    known = of_chapters | {name: [experiment] for name, experiment in experiments.EXPERIMENTS.items()}
    if unknown := [name for name in names if name not in known]:
        raise ValueError(f"unknown experiment or chapter {unknown[0]!r}; known: {', '.join(known)}")
    found = [experiment for name in names for experiment in known[name]] if names else experiments.EXPERIMENTS.values()
    return list({experiment.name: experiment for experiment in found}.values())


def gaps(experiment: Experiment) -> list[dict[str, Any]]:
    """Rows of the paper's grid that are neither published nor in the runs."""
    return lacking(experiment.name, experiment.grids.get("paper", list)())


def tasks(rows: Iterable[tuple[Experiment, dict[str, Any]]], costs: Costs, *, gpu: bool = False) -> list[Task]:
    """Give rows with their expected seconds, cheapest first.

    Costs are compared by powers of two: within one, an experiment's rows stay together and in the order of its grid, in
    which rows that share their models follow each other.
    """
    made = [
        Task(experiment, row, costs.seconds(experiment, row, gpu=gpu and _takes_device(experiment)))
        for experiment, row in rows
    ]
    places = {name: place for place, name in enumerate(experiments.EXPERIMENTS)}
    return sorted(made, key=lambda task: (math.frexp(task.seconds)[1], places[task.experiment.name]))


def fill(
    names: Sequence[str] = (),
    *,
    seconds: float = math.inf,
    device: str = "auto",
    n_jobs: int | None = None,
    progress: bool = True,
    clock: Callable[[], float] = time.monotonic,
) -> Outcome:
    """Run rows that the papers' grids lack into the folder of runs, cheapest first, each kept as it finishes.

    A row is not begun if it is expected to take longer than what is left of the budget. Expectations are those of
    :class:`dpnotes.lab.costs.Costs`; rows that finish correct them. Rows whose data sets are not here are left out. An
    experiment that fails is left, the others go on.

    Parameters
    ----------
    names : sequence of str
        Experiments or chapters; none: all.
    seconds : float
        The budget.
    device : {"auto", "cpu", "cuda"}
    n_jobs : int, optional
        How many rows to compute at a time, as joblib understands it: see :func:`dpnotes.lab.store.sweep`.
    progress : bool
        Show a bar for the rows of one experiment that are begun together.
    clock : callable
        Seconds from any moment on.

    Raises
    ------
    ValueError
        If there is no experiment of a name, or no such device here.
    """
    from dpnotes.learners import device_name

    begun, asked = clock(), chosen(names)
    gpu = device_name(device) != "cpu"
    costs, outcome = Costs(experiments.EXPERIMENTS.values()), Outcome()
    rows, outcome.without_data = _with_data([(experiment, row) for experiment in asked for row in gaps(experiment)])
    while True:
        outcome.left = tasks(rows, costs, gpu=gpu)
        together = _together(outcome.left, begun + seconds - clock(), effective_n_jobs(n_jobs))
        if not together:
            return outcome
        experiment, grid = together[0].experiment, [task.parameters for task in together]
        try:
            options = {"device": device} if _takes_device(experiment) else {}
            into = store.runs_store(experiment.name)
            store.sweep(experiment.function, grid, store=into, options=options, n_jobs=n_jobs, progress=progress)
        except (RuntimeError, ValueError, TypeError, OSError) as error:
            outcome.failures[experiment.name] = error
            grid = [row for other, row in rows if other is experiment]
        else:
            outcome.finished += len(grid)
            took = store.measured(into)
            costs.add(experiment.name, took[len(took) - len(grid) :])
        rows = [(other, row) for other, row in rows if other is not experiment or row not in grid]


def _with_data(rows: Sequence[tuple[Experiment, dict[str, Any]]]) -> tuple[list[Any], dict[str, int]]:
    """Rows whose data sets are here, and how many of the others need which ones."""
    absent = set(data.absent(name for experiment, row in rows for name in experiment.data(row)))
    lacked = [absent.intersection(experiment.data(row)) for experiment, row in rows]
    without = Counter(", ".join(sorted(names)) for names in lacked if names)
    return [row for row, names in zip(rows, lacked, strict=True) if not names], dict(without)


def _together(left: Sequence[Task], budget: float, n_jobs: int) -> list[Task]:
    """The next rows to begin: of one experiment, at most about a minute of them, and only what the budget has room for.

    Rows of an experiment are taken in order until the first that does not fit.
    """
    fitting = [task for task in left if task.seconds <= budget]
    batch: list[Task] = []
    for task in (task for task in fitting if task.experiment is fitting[0].experiment):
        costs = [other.seconds for other in (*batch, task)]
        wall = max(max(costs), sum(costs) / n_jobs)
        if batch and wall > min(budget, max(_BATCH, max(costs[:-1]))):
            break
        batch.append(task)
    return batch


def _takes_device(experiment: Experiment) -> bool:
    return "device" in inspect.signature(experiment.function).parameters
