"""The rows of the papers' grids, each with its state; and running those that are
missing, cheapest first, within a budget of time.
"""

from __future__ import annotations

import inspect
import math
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Literal

from joblib import effective_n_jobs

from dpnotes import data
from dpnotes.lab import experiments, store
from dpnotes.lab._experiment import Experiment

# expected seconds of the rows that are begun together; one that takes longer is alone
_BATCH = 60.0


@dataclass(frozen=True)
class Task:
    """A row of a paper's grid.

    Parameters
    ----------
    experiment : Experiment
    key : str
        The row's entry in the column ``row``.
    parameters : dict
    state : {"published", "finished", "missing"}
        ``"finished"``: in the folder of runs only. A row of an earlier version of its
        experiment is missing.
    seconds : float
        What it took or, if it is missing, what it is expected to take.
    needs : tuple of str
        Data sets that it needs and that are not here.
    """

    experiment: Experiment
    key: str
    parameters: dict[str, Any]
    state: Literal["published", "finished", "missing"]
    seconds: float
    needs: tuple[str, ...]


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
    every = [*experiments.EXPERIMENTS.values()]
    known = {each.name for each in every} | {each.chapter for each in every}
    for name in names:
        if name not in known:
            raise ValueError(
                f"unknown experiment or chapter {name!r}; known:"
                f" {', '.join(sorted(known))}"
            )
    if not names:
        return every
    return [each for each in every if each.name in names or each.chapter in names]


def tasks(experiment: Experiment, *, gpu: bool = False) -> list[Task]:
    """List the rows of the paper's grid in its order, with their states.

    A missing row is expected to take the experiment's own estimate,
    :attr:`Experiment.cost`, times the median of what the measured rows of the grid took
    of theirs. Where none was measured on a GPU, it is that of a core over the
    experiment's speed-up.

    Parameters
    ----------
    experiment : Experiment
    gpu : bool
        Whether missing rows will be run on a GPU, if the experiment can use one.
    """
    grid = experiment.grids.get("paper", list)()
    # an experiment of live rows alone
    if not grid:
        return []
    gpu = gpu and takes_device(experiment)
    # both stores are read once for all rows
    published = store.load(store.published_store(experiment.name))
    finished = store.load(store.runs_store(experiment.name))
    asked = store.requests(experiment.function, grid)
    measured: dict[bool, list[float]] = {False: [], True: []}
    for row in asked:
        for found in (published.get(row.key), finished.get(row.key)):
            if found and "seconds" in found.provenance:
                on_gpu = found.provenance.get("device", "cpu") != "cpu"
                # without an estimate the seconds themselves are the ratio
                estimate = experiment.cost(row.parameters) or 1.0
                measured[on_gpu].append(found.seconds / estimate)
    # robust against a row that a busy machine slowed
    ratio = median(measured[gpu] or measured[False] or [1.0])
    if gpu and not measured[gpu]:
        ratio /= experiment.gpu_speedup

    # rows of earlier versions are as good as missing
    version = store.experiment_version(experiment.function)
    listed = []
    for row in asked:
        state: Literal["published", "finished", "missing"] = "missing"
        seconds = ratio * (experiment.cost(row.parameters) or 1.0)
        if row.key in finished and finished[row.key].version >= version:
            state = "finished"
            seconds = finished[row.key].seconds
        # last, so that a published row counts before one of the runs
        if row.key in published and published[row.key].version >= version:
            state = "published"
            seconds = published[row.key].seconds
        needs = tuple(data.absent(experiment.data(row.parameters)))
        parameters = dict(row.parameters)
        listed.append(Task(experiment, row.key, parameters, state, seconds, needs))
    return listed


def without_data(listed: Iterable[Task]) -> dict[str, int]:
    """Count the rows that need data sets which are not here, by the names of these."""
    return dict(Counter(" ".join(sorted(task.needs)) for task in listed if task.needs))


def sample(listed: Sequence[Task], size: int, *, cheapest: bool) -> list[Task]:
    """Choose rows at random, or those that took the least time."""
    size = min(size, len(listed))
    if cheapest:
        return sorted(listed, key=lambda task: task.seconds)[:size]
    return random.sample(listed, size)


def _cheapest_first(left: Iterable[Task]) -> list[Task]:
    """Costs are compared by powers of two: within one, an experiment's rows stay
    together and in the order of its grid.

    Rows that share their models follow each other there.
    """
    places = [*experiments.EXPERIMENTS]

    def place(task: Task) -> tuple[int, int]:
        # the exponent: a factor of two is one step
        return math.frexp(task.seconds)[1], places.index(task.experiment.name)

    return sorted(left, key=place)


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
    see :func:`tasks`; rows that finish correct that. Rows whose data sets are not
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

    # from here on, however often the list is made anew
    end = clock() + seconds
    gpu = device_name(device) != "cpu"
    outcome = Outcome()
    failed: set[str] = set()

    def missing(experiment: Experiment) -> list[Task]:
        rows = tasks(experiment, gpu=gpu)
        return [task for task in rows if task.state == "missing"]

    wanted = [task for each in chosen(names) for task in missing(each)]
    outcome.without_data = without_data(wanted)
    left = _cheapest_first(task for task in wanted if not task.needs)
    while left and left[0].seconds <= (budget := end - clock()):
        experiment = left[0].experiment
        # small rows in one sweep: starting workers takes seconds
        batch = _together(left, budget, effective_n_jobs(n_jobs))
        try:
            store.sweep(
                experiment.function,
                [task.parameters for task in batch],
                store=store.runs_store(experiment.name),
                options={"device": device} if takes_device(experiment) else {},
                n_jobs=n_jobs,
                progress=progress,
            )
        except store.RowError as error:
            outcome.failures.append(error)
            failed.add(error.key)
        # a full disk, say: no row of the experiment would fare better
        except (ValueError, TypeError, OSError) as error:
            outcome.failures.append(error)
            failed |= {task.key for task in left if task.experiment is experiment}
        # what was measured meanwhile corrects what the others are expected to take
        own = missing(experiment)
        outcome.finished += len(batch)
        outcome.finished -= len({task.key for task in own} & {t.key for t in batch})
        others = [task for task in left if task.experiment is not experiment]
        # a row that failed would fail again
        again = [task for task in own if not task.needs and task.key not in failed]
        left = _cheapest_first([*others, *again])
    outcome.left = left
    return outcome


def _together(left: Sequence[Task], budget: float, n_jobs: int) -> list[Task]:
    """Rows of the first experiment that are begun together: some seconds of work."""
    batch: list[Task] = []
    seconds = 0.0
    for task in left:
        if task.experiment is not left[0].experiment or task.seconds > budget:
            continue
        # rows run side by side
        seconds += task.seconds / n_jobs
        if batch and seconds > min(budget, _BATCH):
            break
        batch.append(task)
    return batch


def takes_device(experiment: Experiment) -> bool:
    """Whether an experiment can run on a GPU."""
    return "device" in inspect.signature(experiment.function).parameters
