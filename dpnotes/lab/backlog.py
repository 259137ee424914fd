"""What the papers' grids lack, what that would take, and running it: cheapest first,
within a budget of time.
"""

from __future__ import annotations

import inspect
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from joblib import effective_n_jobs

from dpnotes import data
from dpnotes.lab import experiments, store
from dpnotes.lab._experiment import Experiment
from dpnotes.lab._shared import lacking

# expected seconds of the rows that are begun together; one that takes longer is alone
_BATCH = 60.0


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
    failures : list of Exception
        What rows raised, one for each that failed; and what kept a whole experiment
        from going on, such as a full disk.
    """

    finished: int = 0
    left: list[Task] = field(default_factory=list)
    without_data: dict[str, int] = field(default_factory=dict)
    failures: list[Exception] = field(default_factory=list)


def chosen(names: Sequence[str] = ()) -> list[Experiment]:
    """Experiments of these names, or of the chapters of these names; without a name
    all.

    Raises
    ------
    ValueError
        If there is none of a name; the message lists the known ones.
    """
    every = experiments.EXPERIMENTS.values()
    known = {
        name for experiment in every for name in (experiment.chapter, experiment.name)
    }
    if unknown := [name for name in names if name not in known]:
        raise ValueError(
            f"unknown experiment or chapter {unknown[0]!r}; known:"
            f" {', '.join(sorted(known))}"
        )
    return [
        experiment
        for experiment in every
        if not names or {experiment.chapter, experiment.name} & {*names}
    ]


def gaps(experiment: Experiment) -> list[dict[str, Any]]:
    """Rows of the paper's grid that neither the published results nor the runs have
    of its present version.
    """
    return lacking(
        experiment.name, experiment.function, experiment.grids.get("paper", list)()
    )


def expected(
    experiment: Experiment, *, gpu: bool = False
) -> Callable[[Mapping[str, Any]], float]:
    """Seconds that a row is expected to take, as a function of its parameters, on one
    core or on a GPU.

    That is the experiment's own estimate, :attr:`Experiment.cost`, times the median of
    what the measured rows of the paper's grid took of theirs. Where none was measured
    on a GPU, it is that of a core over the experiment's speed-up.
    """
    grid = experiment.grids.get("paper", list)()
    ratios: dict[bool, list[float]] = {False: [], True: []}
    for place in (store.published_store, store.runs_store) if grid else ():
        path = place(experiment.name)
        rows = store.collect(
            experiment.function, grid, compute="stored", published=path, runs=path
        )
        for parameters, took, device in zip(
            grid, rows["seconds"], rows["device"], strict=True
        ):
            if took == took:
                ratios[isinstance(device, str) and device != "cpu"].append(
                    took / (experiment.cost(parameters) or 1.0)
                )
    ratio = median(ratios[gpu] or ratios[False] or [1.0])
    if gpu and not ratios[gpu]:
        ratio /= experiment.gpu_speedup
    return lambda parameters: ratio * (experiment.cost(parameters) or 1.0)


def tasks(
    rows: Iterable[tuple[Experiment, dict[str, Any]]], *, gpu: bool = False
) -> list[Task]:
    """Give rows with their expected seconds, cheapest first."""
    by_name: dict[str, Callable[[Mapping[str, Any]], float]] = {}
    made = []
    for experiment, row in rows:
        if experiment.name not in by_name:
            by_name[experiment.name] = expected(
                experiment, gpu=gpu and _takes_device(experiment)
            )
        made.append(Task(experiment, row, by_name[experiment.name](row)))
    return _cheapest_first(made)


def _cheapest_first(made: Iterable[Task]) -> list[Task]:
    """Costs are compared by powers of two: within one, an experiment's rows stay
    together and in the order of its grid.

    Rows that share their models follow each other there.
    """
    places = [*experiments.EXPERIMENTS]
    return sorted(
        made,
        key=lambda task: (
            math.frexp(task.seconds)[1],
            places.index(task.experiment.name),
        ),
    )


def with_data(
    rows: Sequence[tuple[Experiment, dict[str, Any]]],
) -> tuple[list[Any], dict[str, int]]:
    """Rows whose data sets are here, and how many of the others need which ones."""
    absent = set(
        data.absent(name for experiment, row in rows for name in experiment.data(row))
    )
    lacked = [absent.intersection(experiment.data(row)) for experiment, row in rows]
    without = Counter(" ".join(sorted(names)) for names in lacked if names)
    return [row for row, names in zip(rows, lacked, strict=True) if not names], dict(
        without
    )


def fill(
    names: Sequence[str] = (),
    *,
    seconds: float = math.inf,
    device: str = "auto",
    n_jobs: int | None = None,
    progress: bool = True,
    clock: Callable[[], float] = time.monotonic,
) -> Outcome:
    """Run rows that the papers' grids lack into the folder of runs, cheapest first,
    each kept as it finishes.

    A row is not begun if it is expected to take longer than what is left of the budget,
    see :func:`expected`; rows that finish correct that. Rows whose data sets are not
    here are left out. A row that fails is left out, and the others go on.

    Parameters
    ----------
    names : sequence of str
        Experiments or chapters; none: all.
    seconds : float
        The budget.
    device : {"auto", "cpu", "cuda"}
    n_jobs : int, optional
        How many rows to compute at a time, as joblib understands it: see
        :func:`dpnotes.lab.store.sweep`.
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

    end = clock() + seconds
    gpu = device_name(device) != "cpu"
    wanted = [(each, row) for each in chosen(names) for row in gaps(each)]
    outcome = Outcome()
    rows, outcome.without_data = with_data(wanted)
    left = tasks(rows, gpu=gpu)
    while left and left[0].seconds <= (budget := end - clock()):
        experiment = left[0].experiment
        batch = _together(left, budget, effective_n_jobs(n_jobs))
        asked = [task.parameters for task in batch]
        into = store.runs_store(experiment.name)
        failed: list[dict[str, Any]] = []
        try:
            store.sweep(
                experiment.function,
                asked,
                store=into,
                options={"device": device} if _takes_device(experiment) else {},
                n_jobs=n_jobs,
                progress=progress,
            )
        except store.RowError as error:
            outcome.failures.append(error)
            failed = [error.parameters]
        # a full disk, say: no row of the experiment would fare better
        except (ValueError, TypeError, OSError) as error:
            outcome.failures.append(error)
            failed = [task.parameters for task in left if task.experiment is experiment]
        lacking = store.missing(experiment.function, asked, into)
        outcome.finished += len(batch) - len(lacking)
        own = [
            task.parameters
            for task in left
            if task.experiment is experiment
            and task.parameters not in failed
            and (task not in batch or task.parameters in lacking)
        ]
        # of which no row was measured meanwhile
        others = [task for task in left if task.experiment is not experiment]
        measured = tasks([(experiment, row) for row in own], gpu=gpu)
        left = _cheapest_first([*others, *measured])
    outcome.left = left
    return outcome


def _together(left: Sequence[Task], budget: float, n_jobs: int) -> list[Task]:
    """Rows of the first experiment that are begun together: some seconds of work."""
    batch: list[Task] = []
    seconds = 0.0
    for task in left:
        if task.experiment is not left[0].experiment or task.seconds > budget:
            continue
        seconds += task.seconds / n_jobs
        if batch and seconds > min(budget, _BATCH):
            break
        batch.append(task)
    return batch


def _takes_device(experiment: Experiment) -> bool:
    return "device" in inspect.signature(experiment.function).parameters
