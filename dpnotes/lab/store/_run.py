"""Running rows: here or in joblib's workers, each row handed to the one writer as soon as it is finished."""

import pickle
import time
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

from joblib import Parallel, delayed
from tqdm import tqdm

from dpnotes.lab.store._code import code
from dpnotes.lab.store._format import RESERVED, Row
from dpnotes.lab.store._grid import Experiment, checked
from dpnotes.lab.store._provenance import provenance
from dpnotes.lab.store._values import Scalar

_ASIDE = ("data", "device")  # what an experiment may return that is provenance, not a metric


@dataclass(frozen=True)
class Job:
    """An experiment, and how its rows are computed."""

    experiment: Experiment
    options: Mapping[str, Any] | None
    n_jobs: int | None
    progress: bool


@dataclass(frozen=True)
class Failure:
    """An experiment's own exception."""

    request: Row
    error: Exception
    trace: str

    def __getstate__(self) -> dict[str, object]:
        """What travels from a worker: an exception that cannot is replaced by one that says the same."""
        return {"request": self.request, "error": _picklable(self.error), "trace": self.trace}


def run(job: Job, todo: Sequence[Row], *, finished: Callable[[Row], object]) -> None:
    """Compute the rows of ``todo``; ``finished`` is called in this process with each row as soon as it is there.

    Raises
    ------
    RuntimeError
        From the experiment's exception, with the row's parameters, for the first row that fails. Joblib's workers
        then get no further row; those that they have are finished first.
    TypeError, ValueError
        If the experiment returns anything but a flat dict of scalars.
    """
    if not todo:
        return
    failure: Failure | None = None
    # One row a task, and none handed out before a worker is free, so that none waits for its neighbours and few are
    # still to finish after a failure. joblib divides the cores among the workers.
    parallel = Parallel(n_jobs=job.n_jobs, return_as="generator_unordered", batch_size=1, pre_dispatch="n_jobs")
    unfailed = takewhile(lambda _: failure is None, todo)
    outcomes = parallel(delayed(compute)(job.experiment, request, job.options) for request in unfailed)
    bar = tqdm(total=len(todo), desc=todo[0].experiment, unit="row", disable=not job.progress)
    try:
        for outcome in outcomes:
            if isinstance(outcome, Row):
                finished(outcome)
                bar.update()
            elif failure is None:
                failure = outcome
                bar.set_postfix_str("a row failed: finishing those that were begun")
    finally:
        bar.close()
        with warnings.catch_warnings():  # joblib's, that rows were still running: that is why they are stopped
            warnings.filterwarnings("ignore", category=UserWarning, module="joblib")
            outcomes.close()
    if failure is not None:
        result(failure)


def compute(experiment: Experiment, request: Row, options: Mapping[str, Any] | None) -> Row | Failure:
    """Compute one row in this process."""
    start = time.perf_counter()
    try:
        returned = experiment(**request.parameters, **(options or {}))
    except Exception as error:
        return Failure(request, error, traceback.format_exc())
    seconds = round(time.perf_counter() - start, 3)
    found = _metrics(returned, request)
    aside = {name: found.pop(name) for name in _ASIDE if name in found}
    return replace(
        request, metrics=found, provenance={"seconds": seconds, **aside, **provenance(), "code": code(experiment)}
    )


def result(outcome: Row | Failure) -> Row:
    """Give the row, or raise what its experiment raised."""
    if isinstance(outcome, Row):
        return outcome
    request, error = outcome.request, outcome.error
    if error.__traceback__ is None:  # it was lost between processes
        error.add_note(f"In the worker:\n{outcome.trace}")
    what = f"{request.experiment} failed with {dict(request.parameters)}: {type(error).__name__}: {error}"
    raise RuntimeError(what) from error


def _metrics(returned: Mapping[str, object], request: Row) -> dict[str, Scalar]:
    """Give what an experiment returned as a dict of plain scalars, or say what is wrong with it."""
    label = f"{request.experiment} with {dict(request.parameters)}"
    if not isinstance(returned, Mapping):
        raise TypeError(f"{label} must return a dict of metrics, got {returned!r}")
    taken = RESERVED.difference(_ASIDE).union(request.parameters)
    return {name: checked(label, name, value, taken) for name, value in returned.items()}


def _picklable(error: Exception) -> Exception:
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
