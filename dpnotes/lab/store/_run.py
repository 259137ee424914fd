"""Running rows: here or in workers, each row handed to the one writer as soon as it is finished."""

import contextlib
import pickle
import sys
import traceback
import warnings
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice, takewhile
from pathlib import Path
from typing import Any

from joblib import Parallel, delayed, effective_n_jobs
from joblib.parallel import LokyBackend, get_active_backend
from tqdm import tqdm

from dpnotes.lab._progress import bar as progress_bar
from dpnotes.lab.store._checkpoint import under_way
from dpnotes.lab.store._code import code
from dpnotes.lab.store._format import RESERVED, Row
from dpnotes.lab.store._grid import Experiment, checked
from dpnotes.lab.store._provenance import provenance
from dpnotes.lab.store._values import Scalar
from dpnotes.lab.store._workers import Cluster, Lost, Processes, Task, Workers

_ASIDE = ("data", "device")  # what an experiment may return that is provenance, not a metric


@dataclass(frozen=True)
class Job:
    """An experiment, and how its rows are computed."""

    experiment: Experiment
    options: Mapping[str, Any] | None
    n_jobs: int | None
    progress: bool
    folder: Path | None = None  # of the store: rows under way keep checkpoints there


@dataclass(frozen=True)
class Failure:
    """An exception of the experiment; one of ours, about what it returned, has no trace."""

    request: Row
    error: BaseException
    trace: str | None

    def __getstate__(self) -> dict[str, object]:
        """What travels from a worker: an exception that cannot is replaced by one that says the same."""
        return {"request": self.request, "error": _picklable(self.error), "trace": self.trace}


def run(job: Job, todo: Sequence[Row], *, finished: Callable[[Row], object]) -> None:
    """Compute the rows of ``todo``; ``finished`` is called in this process with each row as soon as it is there.

    Raises
    ------
    RuntimeError
        From the experiment's exception, with the row's parameters, for the first row that fails. Workers then get no
        further row; those that they have are finished first. Also for rows whose worker was lost twice, the second
        time when the row was alone; all other rows are finished first.
    TypeError, ValueError
        If the experiment returns anything but a flat dict of scalars.
    ConnectionError
        If the scheduler of a Dask cluster is gone.
    """
    if not todo:
        return
    failure: Failure | None = None
    lost: list[Lost] = []
    with (
        progress_bar(todo[0].experiment, len(todo), progress=job.progress) as bar,
        contextlib.closing(_outcomes(job, todo, lambda _: failure is None)) as outcomes,
    ):
        for outcome in outcomes:
            if isinstance(outcome, Row):
                finished(outcome)
                bar.update()
            elif isinstance(outcome, Lost):
                lost.append(outcome)
            elif failure is None:
                failure = outcome
                bar.set_postfix_str("a row failed: finishing those that were begun")
    if failure is not None:
        result(failure)
    if lost:
        rows = "; ".join(f"{dict(row.request.parameters)} ({row.why})" for row in lost)
        raise RuntimeError(
            f"{todo[0].experiment} lost its worker twice, the second time as the only row there, with {rows}. "
            "It may need more memory than there is. All other rows are stored."
        )


def _outcomes(
    job: Job, todo: Sequence[Row], going: Callable[[object], bool]
) -> Generator[Row | Failure | Lost, None, None]:
    """What becomes of the rows, as they are finished; no further row is begun once ``going`` is false."""
    task = partial(compute, job.experiment, options=job.options, folder=job.folder)
    backend, _ = get_active_backend()
    if client := getattr(backend, "client", None):  # joblib's for Dask
        return _handed_out(Cluster(task, client, _say), todo, going)
    if isinstance(backend, LokyBackend) and (n_jobs := effective_n_jobs(job.n_jobs)) > 1:
        return _handed_out(Processes(task, n_jobs, backend._prepare_worker_env(n_jobs)), todo, going)
    return _by_joblib(task, job.n_jobs, takewhile(going, todo))


def _handed_out(
    workers: Workers, todo: Iterable[Row], going: Callable[[object], bool]
) -> Generator[Row | Failure | Lost, None, None]:
    """Hand rows to workers. One whose worker is lost is handed out once more: last, and alone."""
    suspects: list[Row] = []
    with contextlib.closing(workers):
        for rows, alone in ((todo, False), (suspects, True)):
            left = takewhile(going, rows)
            while True:
                for row in islice(left, max(0, workers.room(alone))):
                    workers.submit(row, alone)
                if not workers.busy:
                    break
                for row, outcome in workers.finished():
                    if isinstance(outcome, Lost) and not alone:
                        _say(f"{row.experiment} with {dict(row.parameters)}: {outcome.why}; it is run again at the end")
                        suspects.append(row)
                    else:
                        yield Failure(row, outcome, "") if isinstance(outcome, BaseException) else outcome


def _by_joblib(task: Task, n_jobs: int | None, todo: Iterable[Row]) -> Generator[Row | Failure, None, None]:
    """Rows in this process, in its threads, or in what else joblib knows."""
    # One row a task, and none handed out before a worker is free, so that none waits for its neighbours and few are
    # still to finish after a failure.
    parallel = Parallel(n_jobs=n_jobs, return_as="generator_unordered", batch_size=1, pre_dispatch="n_jobs")
    outcomes = parallel(delayed(task)(row) for row in todo)
    try:
        for outcome in outcomes:  # noqa: UP028 - it would be closed before what follows
            yield outcome
    finally:
        with warnings.catch_warnings():  # joblib's, that rows were still running: that is why they are stopped
            warnings.filterwarnings("ignore", category=UserWarning, module="joblib")
            outcomes.close()


def _say(text: str) -> None:
    """Write a line on standard error, above the bar if there is one."""
    tqdm.write(text, file=sys.stderr)


def compute(
    experiment: Experiment, request: Row, options: Mapping[str, Any] | None, folder: Path | None = None
) -> Row | Failure:
    """Compute one row in this process, for a store in ``folder`` or for none."""
    with under_way(folder, request.key) as row:
        try:
            returned = experiment(**request.parameters, **(options or {}))
        except (Exception, SystemExit) as error:
            return Failure(request, error, traceback.format_exc())
        seconds = round(row.spent(), 3)
    try:
        found = _metrics(returned, request)
    except (TypeError, ValueError) as error:
        return Failure(request, error, None)
    aside = {name: found.pop(name) for name in _ASIDE if name in found}
    return replace(
        request, metrics=found, provenance={"seconds": seconds, **aside, **provenance(), "code": code(experiment)}
    )


def result(outcome: Row | Failure) -> Row:
    """Give the row, or raise what its experiment raised."""
    if isinstance(outcome, Row):
        return outcome
    request, error = outcome.request, outcome.error
    if outcome.trace is None:
        raise error
    if error.__traceback__ is None and outcome.trace:  # it was lost between processes
        error.add_note(f"In the worker:\n{outcome.trace}")
    raise RuntimeError(f"{request.experiment} failed with {dict(request.parameters)}: {_told(error)}") from error


def _metrics(returned: Mapping[str, object], request: Row) -> dict[str, Scalar]:
    """Give what an experiment returned as a dict of plain scalars, or say what is wrong with it."""
    label = f"{request.experiment} with {dict(request.parameters)}"
    if not isinstance(returned, Mapping):
        raise TypeError(f"{label} must return a dict of metrics, got {returned!r}")
    taken = RESERVED.difference(_ASIDE).union(request.parameters)
    return {name: checked(label, name, value, taken) for name, value in returned.items()}


def _picklable(error: BaseException) -> BaseException:
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(_told(error))
    return error


def _told(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # of its own __str__
        return type(error).__name__
