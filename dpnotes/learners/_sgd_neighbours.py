"""Plain mini-batch SGD on a data set and on many neighbours of it, under each of many seeds, at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from dpnotes import _validation as _checks
from dpnotes.learners import _sgd_batches as plan
from dpnotes.learners._devices import choose_device
from dpnotes.learners._sgd import SGDRuns
from dpnotes.learners._sgd_architecture import architecture, initial_weights
from dpnotes.learners._sgd_engine import Job, train
from dpnotes.learners._sgd_models import arrays

KEEP = ("all", "base")


@dataclass(frozen=True, eq=False)
class SGDNeighbours(SGDRuns):
    """Runs of SGD, each on a data set and on neighbours of it that differ in one record.

    Parameters
    ----------
    weights : ndarray, shape [R, S + 1, p], or [R, 1, p] with ``keep="base"``
        Column 0 is the unmodified data set, column 1 + j the neighbour that lacks record ``neighbours[j]``.
    trajectory : ndarray, shape [R, len(checkpoints), p]
        Of the unmodified data set.
    neighbours : ndarray of int64, shape [S]
    distances : ndarray of float64, shape [R, S]
        L2 distance of each neighbour's weights from those of the unmodified data set, after the last step.
    distance_trajectory : ndarray of float64, shape [R, len(checkpoints), S]
    visits : ndarray of int64, shape [R, S]
        Steps in which the run's batch held the replaced record.
    """

    neighbours: NDArray[np.int64]
    distances: NDArray[np.float64]
    distance_trajectory: NDArray[np.float64]
    visits: NDArray[np.int64]


def fit_sgd_neighbours(
    X: NDArray[np.floating],
    y: ArrayLike,
    *,
    neighbours: ArrayLike,
    replacement: int | tuple[ArrayLike, int],
    n_runs: int,
    random_state: int = 0,
    order_seeds: ArrayLike | None = None,
    init_seeds: ArrayLike | None = None,
    epochs: int | None = None,
    steps: int | None = None,
    batch_size: int,
    learning_rate: plan.Rate,
    last_batch: str = "keep",
    hidden: int | None = None,
    output: str = "sigmoid",
    intercept: bool = True,
    initial: str | NDArray[np.floating] = "glorot",
    initial_scale: float = 1.0,
    l2: float = 0.0,
    checkpoints: Sequence[int] = (),
    dtype: DTypeLike = np.float64,
    device: str = "auto",
    chunk: int | None = None,
    keep: str = "all",
    consume: Callable[[slice, NDArray[np.floating]], None] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> SGDNeighbours:
    """Train, from each of many seeds, on a data set and on neighbours of it that have one record replaced.

    Under one seed all data sets share the initial weights and the batches, but for the replaced record: the runs are
    those of :func:`fit_sgd` on each modified data set, up to rounding. A neighbour whose record no batch has held has
    exactly the weights of the unmodified data set. All other parameters are those of :func:`fit_sgd`.

    Parameters
    ----------
    neighbours : array of int, shape [S]
        Records to be replaced, one for each neighbouring data set; repeats allowed.
    replacement : int or (array [d], int)
        What they are replaced by: a record of X, or features and class code of one that need not be in X.
    dtype : float32 or float64
        To train in. Rounding in float32 moves weights by 1e-6 to 2e-5, which can exceed a distance of neighbours.
    keep : {"all", "base"}
        Whether the weights of all data sets are returned, or only those of the unmodified one.
    consume : callable, optional
        ``consume(runs, weights)`` after each chunk, with the slice of its runs and the weights [r, S + 1, p] of all its
        data sets, whatever ``keep``.

    Returns
    -------
    SGDNeighbours

    Raises
    ------
    ValueError, TypeError
        As :func:`fit_sgd`; also if ``neighbours`` holds the replacement itself, which is no neighbour.
    MemoryError
        If ``chunk`` runs with all their neighbours do not fit.

    Source
    ------
    Hyland and Tople (2019), arXiv:1912.02919, Section VI-A.

    Examples
    --------
    >>> X, y = np.array([[-1.0], [-0.5], [0.5], [1.0]]), [0, 0, 1, 1]
    >>> runs = fit_sgd_neighbours(
    ...     X, y, neighbours=[1, 2], replacement=0, n_runs=3, steps=1, batch_size=2, learning_rate=1.0
    ... )
    >>> runs.weights.shape
    (3, 3, 2)
    >>> ((runs.distances > 0) == (runs.visits > 0)).all()
    np.True_
    """
    X = _checks.features(X)
    codes = _checks.class_codes(y, n=len(X), n_classes=2)
    records = _neighbours(neighbours, n=len(X))
    record = _replacement(replacement, X, codes, records)
    if dtype is None:
        raise ValueError("dtype must be float32 or float64, got dtype=None")
    if keep not in KEEP:
        raise ValueError(f"keep must be 'all' or 'base', got keep={keep!r}")
    model = architecture(X.shape[1], hidden=hidden, output=output, intercept=intercept)
    order, init = plan.run_seeds(n_runs, random_state, order_seeds=order_seeds, init_seeds=init_seeds)
    start = initial_weights(model, initial, init, scale=_checks.real("initial_scale", initial_scale, open_low=True))
    batches = plan.batches(len(X), batch_size=batch_size, epochs=epochs, steps=steps, last_batch=last_batch)
    job = Job(
        model,
        arrays(X, codes, record, model, dtype=_checks.float_dtype(dtype, X), device=choose_device(device)),
        batches,
        plan.rates(learning_rate, batches.steps),
        _checks.real("l2", l2),
        plan.recorded_steps(checkpoints, batches.steps),
        records,
    )
    kept, parts = [], []
    for part in train(job, start, order, chunk=chunk, progress=progress):
        if consume is not None:
            consume(part.runs, part.weights)
        kept.append(part.weights if keep == "all" else part.weights[:, :1].copy())
        parts.append((part.trajectory, part.distances, part.distance_trajectory, part.visits))
    trajectory, distances, distance_trajectory, visits = (np.concatenate(each) for each in zip(*parts, strict=True))
    return SGDNeighbours(
        model, np.concatenate(kept), job.checkpoints, trajectory, order, init, records, distances, distance_trajectory,
        visits,
    )  # fmt: skip


def _neighbours(neighbours: ArrayLike, *, n: int) -> NDArray[np.int64]:
    records = np.asarray(neighbours)
    if records.ndim != 1 or not len(records) or records.dtype.kind not in "iu":
        raise ValueError(
            f"neighbours must hold integer row indices of shape [S >= 1], got {records.dtype} of shape {records.shape}"
        )
    if records.min() < 0 or records.max() >= n:
        raise ValueError(f"neighbours must hold row indices in 0..{n - 1}, got {records.min()}..{records.max()}")
    return records.astype(np.int64)


def _replacement(
    replacement: int | tuple[ArrayLike, int],
    X: NDArray[np.floating],
    y: NDArray[np.int64],
    records: NDArray[np.int64],
) -> tuple[NDArray[np.floating], int]:
    if isinstance(replacement, tuple) and len(replacement) == 2:
        features = _checks.features(np.asarray(replacement[0])[None], "replacement", d=X.shape[1])
        label = _checks.at_least("replacement's class code", replacement[1], 0)
        if label > 1:
            raise ValueError(f"replacement must hold class code 0 or 1, got {label}")
        return features[0], label
    if isinstance(replacement, tuple):
        raise TypeError(f"replacement must be a row index or (features, class code), got a tuple of {len(replacement)}")
    row = _checks.at_least("replacement", replacement, 0)
    if row >= len(X):
        raise ValueError(f"replacement must be a row index in 0..{len(X) - 1}, got replacement={row}")
    if (records == row).any():
        raise ValueError(f"neighbours must not hold replacement={row}: replaced by itself it gives no neighbour")
    return X[row], int(y[row])
