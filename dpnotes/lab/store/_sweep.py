"""Rows of a grid: from stores, and computed where the stores lack them."""

import contextlib
import errno
import functools
import math
import os
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from multiprocessing import current_process
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import pandas as pd
from joblib import Parallel, delayed

from dpnotes.lab._progress import bar as progress_bar, say
from dpnotes.lab.store._checkpoint import forget, under_way
from dpnotes.lab.store._provenance import provenance
from dpnotes.lab.store._rows import (
    RESERVED,
    PathLike,
    Row,
    Rows,
    Scalar,
    frame,
    load,
    plain,
    put,
    remove_torn,
)

Compute: TypeAlias = Literal["stored", "missing", "all"]
Experiment: TypeAlias = Callable[..., Mapping[str, Any]]
Grid: TypeAlias = Sequence[Mapping[str, Any]]
# what an experiment may return that is provenance, not a metric
_ASIDE = ("data", "device")


def sweep(
    experiment: Experiment,
    grid: Grid,
    *,
    store: PathLike,
    options: Mapping[str, Any] | None = None,
    n_jobs: int | None = None,
    progress: bool = True,
) -> pd.DataFrame:
    """Run the rows of a grid that a store lacks, and return all rows of the grid.

    Each finished row is written at once to a separate file, so that after any
    interruption a second call continues where the first ended. Several processes may
    fill one store. A row that fails ends the sweep; rows that finished before it, or
    that run at the same time, are stored. A worker that dies also ends the sweep; the
    next call computes the rows that this worker and the other workers had begun.

    Parameters
    ----------
    experiment : callable
        Function ``experiment(**parameters, **options)`` that returns a flat dict of
        metrics, each a str, int, float, bool or None. Two keys of the dict are
        provenance, not metrics: ``data`` (digest of the data set) and ``device``. The
        function must be defined by ``def``. Each row carries the name and version given
        by :func:`dpnotes.lab.experiment`, or otherwise its module and name. A row of an
        earlier version is computed again.
    grid : list of dict
        Parameters of each row, each a str, int, finite float, bool or None. Numbers of
        equal value (1 and 1.0) are the same parameter. Not all rows need to have the
        same parameters.
    store : path
        The folder, which is made if it does not exist.
    options : dict, optional
        Further arguments of the experiment that do not identify a row (``{"device":
        "cpu"}``).
    n_jobs : int, optional
        Number of rows to compute at a time, in the convention of joblib. None computes
        one row at a time, in this process, unless ``joblib.parallel_config`` says
        otherwise (``parallel_config(backend="dask")`` for a cluster); -1 uses all
        cores.
    progress : bool
        Show a bar on standard error.

    Returns
    -------
    pandas.DataFrame
        One row for each entry of ``grid``, in its order. The columns are ``row``,
        ``experiment``, the parameters, ``seconds``, the metrics and the other
        provenance (``date`` in UTC).

    Raises
    ------
    StoreError
        If a file of the store is damaged; the file is left unchanged.
    OSError
        If a row cannot be written. If a worker died, the error is a ChildProcessError.
    RuntimeError
        If the experiment raised, or returned anything but a flat dict of scalars. The
        message contains the parameters of the row; the experiment's exception is the
        cause of this error.
    TypeError, ValueError
        If ``grid`` is not as described above.

    Examples
    --------
    >>> def square(x):
    ...     return {"y": x * x}
    >>> table = sweep(
    ...     square, [{"x": 3}, {"x": 2}], store=tmp / "square", progress=False
    ... )
    >>> table[["x", "y"]].to_dict("list")
    {'x': [3, 2], 'y': [9, 4]}
    """
    how = {"options": options, "n_jobs": n_jobs, "progress": progress}
    return collect(
        experiment, grid, compute="missing", published=store, runs=store, **how
    )


def collect(
    experiment: Experiment,
    grid: Grid,
    *,
    compute: Compute,
    published: PathLike,
    runs: PathLike,
    **how: Any,
) -> pd.DataFrame:
    """Collect the rows of a grid from the published store or from new runs, or compute
    them now.

    Parameters
    ----------
    experiment, grid
        See `sweep`.
    compute : {"stored", "missing", "all"}
        With ``"stored"``, the rows come only from ``published``. No row is run or
        written, and a missing row is a gap. With ``"missing"``, the rows come from
        ``published``, then from ``runs``. A row that both lack is computed and saved in
        ``runs``. With ``"all"``, every row is computed again and saved in ``runs``,
        where it replaces the row of the same parameters.
    published, runs : path
        The CSV file of published rows, and the folder of new rows; neither need exist.
    how
        The arguments ``options``, ``n_jobs`` and ``progress`` of `sweep`.

    Returns
    -------
    pandas.DataFrame
        A table with the format of the result of `sweep`. A gap has only its parameters:
        its ``date`` and metrics are NA. Each metric in ``published`` has a column even
        if every row is a gap.

    Raises
    ------
    StoreError, OSError, RuntimeError, TypeError, ValueError
        Under the same conditions as in `sweep`; ValueError also if ``compute`` is not
        one of the three values above.
    """
    if compute not in get_args(Compute):
        raise ValueError(
            f"compute must be one of {', '.join(map(repr, get_args(Compute)))}, got"
            f" {compute!r}"
        )
    asked = requests(experiment, grid, how.get("options"))
    # none counts as found: each is computed
    found = {} if compute == "all" else load(published)
    # the folder of runs is read only if it has something to add
    if compute == "missing" and _lacking(experiment, asked, found):
        for key, row in load(runs).items():
            # published rows first, unless they are out of date
            if key not in found or row.version > found[key].version:
                found[key] = row
    if compute != "stored":
        todo = _lacking(experiment, asked, found)
        say(
            f"{asked[0].experiment}: {len(asked) - len(todo)} of {len(asked)} rows were"
            " there"
        )
        forget(Path(runs), found)  # a process was killed between storing and forgetting
        # and what killed writers have left
        remove_torn(Path(runs))
        found |= _computed(experiment, todo, Path(runs), **how) if todo else {}
    # a gap is the row that was asked for
    return frame([found.get(row.key, row) for row in asked], [*found.values()])


def missing(
    experiment: Experiment, grid: Grid, store: PathLike
) -> list[dict[str, Any]]:
    """List, in the order of the grid, the parameters of rows that a store lacks or has
    from an earlier version.

    Raises
    ------
    StoreError
        If the store is damaged.
    TypeError, ValueError
        If ``grid`` is not valid, as in `sweep`.
    """
    return [
        dict(row.parameters)
        for row in _lacking(experiment, requests(experiment, grid), load(store))
    ]


def experiment_name(experiment: Experiment) -> str:
    """Give the name of an experiment in its store.

    This is the name given by :func:`dpnotes.lab.experiment`, or otherwise
    ``module.function``.

    Raises
    ------
    TypeError
        If the experiment is not a named function; two lambdas would share their rows.
    """
    if given := getattr(experiment, "experiment_name", None):
        return str(given)
    name = getattr(experiment, "__name__", None)
    if not callable(experiment) or name in (None, "<lambda>"):
        raise TypeError(
            "experiment must be a function defined by def, whose name its rows carry,"
            f" got {experiment!r}"
        )
    return f"{experiment.__module__.rpartition('.')[2]}.{name}"


def experiment_version(experiment: Experiment) -> int:
    """Give the version of an experiment, as set by :func:`dpnotes.lab.experiment`."""
    return int(getattr(experiment, "experiment_version", 1))


def requests(
    experiment: Experiment, grid: Grid, options: Mapping[str, Any] | None = None
) -> list[Row]:
    """Turn a grid into the rows to be, in the order of the grid.

    Raises
    ------
    TypeError
        If the value of a parameter is no plain scalar.
    ValueError
        If the grid is empty or has a row twice, a number is not finite, or a name is
        taken.
    """
    if not grid:
        raise ValueError("grid must have at least one row, got an empty list")
    rows: Rows = {}
    for index, parameters in enumerate(grid):
        # errors name the place in the grid
        label = f"grid[{index}]"
        row = Row(
            experiment_name(experiment),
            _scalars(label, parameters, {*RESERVED, *(options or ())}),
        )
        for name, value in row.parameters.items():
            # JSON, and so the key, has no NaN or infinity
            if isinstance(value, float) and not math.isfinite(value):
                raise ValueError(f"{label}: {name!r} must be finite, got {value!r}")
        if row.key in rows:
            raise ValueError(
                f"{label} is the same row as grid[{[*rows].index(row.key)}]:"
                f" {dict(row.parameters)}"
            )
        rows[row.key] = row
    return list(rows.values())


class RowError(RuntimeError):
    """What an experiment raised, told with the parameters of its row; the cause
    travels between processes, too.

    Parameters
    ----------
    message : str
    cause : Exception
    key : str
        The row's entry in the column ``row``.
    """

    def __init__(self, message: str, cause: Exception, key: str) -> None:
        # all are args, so that the error travels between processes
        super().__init__(message, cause, key)
        self.__cause__ = cause
        self.key = key

    def __str__(self) -> str:
        return str(self.args[0])


def compute(
    experiment: Experiment,
    request: Row,
    options: Mapping[str, Any] | None = None,
    store: Path | None = None,
) -> Row:
    """Compute one row in this process, for a store or for none; nothing is written but
    checkpoints.

    Raises
    ------
    RowError
        From whatever the experiment raised, or if it returned anything but a flat dict
        of scalars.
    """
    with under_way(store, request.key) as row:
        try:
            returned = experiment(**request.parameters, **(options or {}))
            # less what rows of other stores took
            seconds = round(row.spent(), 3)
            if not isinstance(returned, Mapping):
                raise TypeError(f"it must return a dict of metrics, got {returned!r}")
            found = _scalars(
                "what it returned",
                returned,
                RESERVED.difference(_ASIDE).union(request.parameters),
            )
            # a row must say which hardware, not what was asked for
            if found.get("device") in ("auto", "cuda"):
                raise ValueError(
                    "device must name the hardware, as learners.device_name does, got"
                    f" {found['device']!r}"
                )
        except Exception as error:
            told = f"{type(error).__name__}: {error}"
            # An exception of another library may be one that cannot be read in another
            # process.
            cause = (
                error
                if type(error).__module__.startswith(("builtins", "dpnotes"))
                else RuntimeError(told)
            )
            # a traceback does not travel between processes, a note does
            cause.add_note(f"Where the row was computed:\n{traceback.format_exc()}")
            parameters = dict(request.parameters)
            message = f"{request.experiment} failed with {parameters}: {told}"
            raise RowError(message, cause, request.key) from cause
    about = {
        "seconds": seconds,
        "version": experiment_version(experiment),
        **provenance(),
    }
    about |= {name: found.pop(name) for name in _ASIDE if name in found}
    # not a number is no value
    metrics = {name: value if value == value else None for name, value in found.items()}
    known = {name: value for name, value in about.items() if value is not None}
    return replace(request, metrics=metrics, provenance=known)


@functools.cache
def _end_with(parent: int) -> None:
    """Let a worker end with the process that began it, for which loky's would wait
    five minutes.
    """

    def watch() -> None:
        # an orphan has another parent
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    if os.getpid() != parent and current_process().name.startswith("Loky"):
        threading.Thread(target=watch, daemon=True).start()


def _attempt(parent: int, *given: Any) -> Row | RowError:
    """Compute a row in a worker; an exception would end the others, too."""
    _end_with(parent)
    try:
        return compute(*given)
    except RowError as error:
        return error


def _computed(
    experiment: Experiment,
    todo: list[Row],
    store: Path,
    options: Any = None,
    n_jobs: Any = None,
    progress: bool = True,
) -> Rows:
    """Compute rows; this process writes each as soon as it is finished, wherever
    that was.
    """
    if store.is_file():
        raise NotADirectoryError(
            errno.ENOTDIR,
            "new rows are kept in a folder, and this is a file",
            str(store),
        )
    store.mkdir(parents=True, exist_ok=True)
    # what cannot be written is noticed before a long run
    tempfile.TemporaryFile(dir=store).close()
    rows: Rows = {}
    errors: list[RowError] = []
    # One row a task, and none handed out before a worker is free: few are still to
    # finish after a failure.
    parallel = Parallel(
        n_jobs=n_jobs,
        return_as="generator_unordered",
        batch_size=1,
        pre_dispatch="n_jobs",
    )
    # nothing new begins after a failure
    going = takewhile(lambda _: not errors, todo)
    outcomes = parallel(
        delayed(_attempt)(os.getpid(), experiment, row, options, store) for row in going
    )
    with (
        progress_bar(todo[0].experiment, len(todo), progress=progress) as bar,
        contextlib.closing(outcomes),
    ):
        for outcome in _with_workers(outcomes, todo[0].experiment, store):
            if isinstance(outcome, RowError):
                errors.append(outcome)
                continue
            put(outcome, store)
            # its checkpoints have served
            forget(store, [outcome.key])
            rows[outcome.key] = outcome
            bar.update()
    if errors:
        raise errors[0]
    return rows


def _with_workers(outcomes: Iterator[Any], name: str, store: Path) -> Iterator[Any]:
    """Give what workers found; tell in one sentence if they are no more. Exceptions
    of experiments are outcomes.
    """
    try:
        yield from outcomes
    except Exception as error:
        raise ChildProcessError(
            f"{name} lost a worker ({type(error).__name__}: killed, or short of"
            f" memory). Finished rows are in {store}: the same command goes on with the"
            " others; with fewer rows at a time, each has more memory"
        ) from error


def _scalars(
    label: str, values: Mapping[str, object], taken: Container[str]
) -> dict[str, Scalar]:
    """Parameters or metrics as plain scalars."""
    for name in values:
        if not name.isidentifier() or name in taken:
            raise ValueError(
                f"{label}: {name!r} must be a Python name that is not an option or"
                " another column"
            )
    return {name: plain(value, f"{label}: {name!r}") for name, value in values.items()}


def _lacking(experiment: Experiment, asked: Sequence[Row], found: Rows) -> list[Row]:
    """Rows that are not found, or of an earlier version of the experiment."""
    version = experiment_version(experiment)
    return [
        row for row in asked if row.key not in found or found[row.key].version < version
    ]
