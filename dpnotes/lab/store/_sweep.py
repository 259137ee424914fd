"""Rows of a grid: from stores, and computed where the stores lack them."""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias, get_args

import pandas as pd

from dpnotes.lab._progress import say
from dpnotes.lab.store._checkpoint import forget
from dpnotes.lab.store._format import Contents, Row, StoreError
from dpnotes.lab.store._frame import frame
from dpnotes.lab.store._grid import Experiment, Parameters, experiment_name, requests
from dpnotes.lab.store._run import Job, run
from dpnotes.lab.store._store import PathLike, Store

Compute: TypeAlias = Literal["stored", "missing", "all"]


def sweep(
    experiment: Experiment,
    grid: Sequence[Parameters],
    *,
    store: PathLike,
    options: Mapping[str, Any] | None = None,
    n_jobs: int | None = None,
    progress: bool = True,
) -> pd.DataFrame:
    """Run the rows of a grid that a store lacks, and give all rows of the grid.

    Each finished row is written at once and as a whole, so that after an interruption of whatever kind a second call
    goes on where the first ended. If the file is deleted or an older one takes its place meanwhile, rows of the grid
    are put back. Several processes may fill one store; a row that two of them finish is kept once, the first. A row
    that fails ends the sweep; what was finished before it, or running beside it, is stored. A row whose process is
    killed (for memory, say) is run once more, last and alone; all others are stored before it is named.

    Parameters
    ----------
    experiment : callable
        ``experiment(**parameters, **options)``: a function of parameters to a flat dict of metrics, each a str, int,
        float, bool or None. Two keys are no metrics but provenance: ``data`` (digest of the data set) and ``device``.
        It must be defined by ``def``; each row carries the name given by :func:`dpnotes.lab.experiment`, or else its
        module and name.
    grid : list of dict
        Parameters of each row, each a str, int, finite float, bool or None. Numbers of equal value (1 and 1.0) are the
        same parameter. Rows may differ in which parameters they have.
    store : path
        The CSV file; made when it does not exist, with its folder.
    options : dict, optional
        Handed to the experiment as well, but no part of what a row is (``{"device": "cpu"}``).
    n_jobs : int, optional
        How many rows to compute at a time, as joblib understands it: None is one, here in this process, unless
        ``joblib.parallel_config`` says otherwise (``parallel_config(backend="dask")`` for a cluster); -1 is all cores.
        Processes share the cores between them, by joblib's own ``inner_max_num_threads``, and end with this one.
        A cluster may change during the sweep, which waits, and says so, when no worker is left.
    progress : bool
        Show a bar on standard error.

    Returns
    -------
    pandas.DataFrame
        One row for each of ``grid``, in its order; columns as in the store: ``row``, ``experiment``, the parameters,
        ``seconds``, the metrics, the other provenance (``date`` in UTC), ``check``.

    Raises
    ------
    StoreError
        If the store is damaged or another experiment's; it is left as it is.
    OSError
        If the store cannot be written; it is then what it was before. ConnectionError if the scheduler of the cluster
        is gone.
    RuntimeError
        If the experiment raised: the message has the row's parameters, the cause is the experiment's exception. Also if
        the process of a row was killed twice.
    TypeError, ValueError
        If ``grid`` or what the experiment returns is not as described above.

    Examples
    --------
    >>> def square(x):
    ...     return {"y": x * x}
    >>> table = sweep(square, [{"x": 3}, {"x": 2}], store=tmp / "square.csv", progress=False)
    >>> table[["x", "y"]].to_dict("list")
    {'x': [3, 2], 'y': [9, 4]}
    """
    asked = requests(experiment_name(experiment), grid, options)
    into = Store(store)
    return _table(asked, _run_into(into, asked, Job(experiment, options, n_jobs, progress, into.path.parent)))


def collect(
    experiment: Experiment,
    grid: Sequence[Parameters],
    *,
    compute: Compute,
    published: PathLike,
    runs: PathLike,
    options: Mapping[str, Any] | None = None,
    n_jobs: int | None = None,
    progress: bool = True,
) -> pd.DataFrame:
    """Give the rows of a grid, from the published store, from new runs, or computed now.

    Parameters
    ----------
    experiment, grid, options, n_jobs, progress
        See `sweep`.
    compute : {"stored", "missing", "all"}
        ``"stored"``: rows of ``published`` only, nothing is run or written; a row that is not there is a gap.
        ``"missing"``: rows of ``published``, then of ``runs``; what both lack is run into ``runs``.
        ``"all"``: every row is run afresh into ``runs``, where it replaces the row of the same parameters.
    published, runs : path
        CSV files; neither need exist.

    Returns
    -------
    pandas.DataFrame
        As `sweep` gives it. A gap has its parameters and nothing else: its ``check``, ``date`` and metrics are NA.
        The metrics known to ``published`` are columns even if every row is a gap.

    Raises
    ------
    StoreError, OSError, RuntimeError, TypeError, ValueError
        As `sweep`; ValueError also for an unknown ``compute``.
    """
    if compute not in get_args(Compute):
        raise ValueError(f"compute must be one of {', '.join(map(repr, get_args(Compute)))}, got {compute!r}")
    asked, into = requests(experiment_name(experiment), grid, options), Store(runs)
    job = Job(experiment, options, n_jobs, progress, into.path.parent)
    if compute == "all":
        return _table(asked, _run_into(into, asked, job, replace=True))
    stored = Store(published).read(asked[0].experiment)
    gaps = [row for row in asked if row.key not in stored.rows]
    if compute == "missing" and gaps:
        added = _run_into(into, gaps, job, of=len(asked))
        stored = stored.extended(added.parameters, added.metrics)
        return _table(asked, replace(stored, rows={**added.rows, **stored.rows}))
    return _table(asked, stored)


def _run_into(store: Store, asked: Sequence[Row], job: Job, *, replace: bool = False, of: int = 0) -> Contents:
    """Run the rows that the store lacks (all of them if ``replace``) into it; give what it then holds.

    ``of``: how many rows the table has, those included that were found elsewhere.
    """
    contents = store.read(asked[0].experiment)
    contents.covering(asked)  # a parameter that is a metric there is noticed before a run, not after
    if replace or any(row.key not in contents.rows for row in asked):  # a finished sweep may lie on a read-only disk
        contents = store.prepare(asked[0].experiment, (row.key for row in asked))
    todo = [row for row in asked if replace or row.key not in contents.rows]
    if not replace:
        forget(store.path.parent, contents.rows)  # a process was killed between storing and forgetting
    of = of or len(asked)
    say(f"{asked[0].experiment}: {of - len(todo)} of {of} rows were there")

    def finished(row: Row) -> None:
        store.put([row], replace=replace)
        forget(store.path.parent, (row.key,))

    if not todo:
        return contents
    try:
        run(job, todo, finished=finished)
    except BaseException:
        with contextlib.suppress(OSError, StoreError):  # what ended the run is told
            store.finish()
        raise
    return store.finish()


def _table(asked: Sequence[Row], contents: Contents) -> pd.DataFrame:
    """Table of the rows asked for; one that the contents lack is a gap."""
    found = [contents.rows.get(row.key, row).values for row in asked]
    return frame(found, contents.covering(asked).columns)
