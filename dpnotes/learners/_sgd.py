"""Plain mini-batch SGD on a binary classifier, from many seeds at once, on a data set and on neighbours of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, DTypeLike, NDArray
from torch import Tensor

from dpnotes import _validation as check
from dpnotes._validation import Booleans, Features, Floats, Integers
from dpnotes.learners import _sgd_batches as plan
from dpnotes.learners import _sgd_models as kinds
from dpnotes.learners._chunks import chunk_size, memory_named, slices
from dpnotes.learners._descent import Rate, step_rates
from dpnotes.learners._devices import choose_device
from dpnotes.learners._sgd_models import Architecture, StepVisits

ORDER_BYTES = 128 * 2**20  # of the permutations of one epoch for all runs of a chunk


@dataclass(frozen=True, eq=False)
class Job:
    """What every run shares.

    Parameters
    ----------
    model : Architecture
    arrays : kinds.Arrays
    batches : plan.Batches
    rates : ndarray of float64, shape [steps]
    checkpoints : tuple of int
        Numbers of steps done.
    neighbours : ndarray of int64, shape [S]
        Replaced records; may be empty.
    """

    model: Architecture
    arrays: kinds.Arrays
    batches: plan.Batches
    rates: Floats
    checkpoints: tuple[int, ...]
    neighbours: Integers


def train(job: Job, initial: Features, order_seeds: Integers, *, chunk: int | None) -> list[NDArray[Any]]:
    """Train all R runs, a chunk at a time; ValueError if a run ends with weights that are not finite.

    With S neighbours, C checkpoints and p parameters: weights [R, S + 1, p], the trajectory [R, C, p] of the unmodified
    data set, and visits [R, S].
    """
    family: type[kinds.Models] = kinds.LogisticModels if job.model.hidden is None else kinds.NetworkModels
    n_runs, device = len(initial), job.arrays.X.device
    each = job.arrays.y.element_size() * family.numbers_per_run(
        job.model, width=job.arrays.width, n_models=len(job.neighbours) + 1, batch_size=job.batches.size
    )
    size = chunk_size(n_runs, each, device, chunk=chunk)
    if chunk is None:
        most = max(1, ORDER_BYTES // (4 * job.batches.n))
        size = -(-n_runs // -(-n_runs // min(size, most)))
    parts = []
    for runs in slices(n_runs, size):
        with memory_named(size, each, device), _full_float32():
            parts.append(_Chunk(job, family, initial[runs], order_seeds[runs]).train())
        bad = ~np.isfinite(parts[-1][0]).all(axis=(1, 2))
        if bad.any():
            first, rate = runs.start + int(np.argmax(bad)), job.rates.max()
            raise ValueError(f"training of run {first} diverged; lower learning_rate (at most {rate:g} now)")
    return [np.concatenate(each) for each in zip(*parts, strict=True)]


@contextmanager
def _full_float32() -> Iterator[None]:
    """Products in float32 keep all its digits, whatever the caller has chosen."""
    chosen = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(chosen)


class _Chunk:
    """Runs that are trained together."""

    def __init__(self, job: Job, family: type[kinds.Models], initial: Features, order_seeds: Integers) -> None:
        self._job, self._family, self._n_runs = job, family, len(initial)
        self._n_models = len(job.neighbours) + 1
        self._device = job.arrays.X.device
        self._orders = plan.epoch_orders(order_seeds, job.batches.n)
        self._neighbours = plan.Neighbours(job.neighbours, self._n_runs, job.batches)
        self._models = family(job.model, job.arrays, initial, self._n_models)

    @torch.inference_mode()
    def train(self) -> tuple[NDArray[Any], ...]:
        job, done, recorded = self._job, 0, []
        unmodified = torch.arange(self._n_runs, device=self._device) * self._n_models
        visits = np.zeros((self._n_runs, len(job.neighbours)), dtype=np.int64)
        for epoch in range(job.batches.n_epochs):
            for rows, width, found in self._epoch(epoch, visits):
                if done in job.checkpoints:
                    recorded.append(self._models.weights(unmodified))
                self._models.step(rows, width, found, rate=job.rates[done] * self._n_runs / rows.shape[0])
                done += 1
        final = self._weights(done)
        recorded += [final[:, 0]] * (1 + (done in job.checkpoints))
        trajectory = torch.stack(recorded, dim=1)[:, :-1]
        return final.cpu().numpy(), trajectory.cpu().numpy(), visits

    def _epoch(self, epoch: int, visits: Integers) -> Iterator[tuple[Tensor, int, StepVisits | None]]:
        """Rows [R * batch], models in use and visits of each step."""
        batches, orders = self._job.batches, next(self._orders)
        count = batches.in_epoch(epoch)
        widths: list[int] = [1] * count
        found: list[StepVisits | None] = [None] * count
        if len(self._job.neighbours):
            widths, found = self._visits(orders, epoch, visits)
        used = orders[:, : count * batches.size].reshape(self._n_runs, count, batches.size).swapaxes(0, 1)
        rows = torch.from_numpy(np.ascontiguousarray(used)).view(count, -1).to(self._device)
        return zip(rows, widths, found, strict=True)

    def _visits(
        self, orders: NDArray[np.int32], epoch: int, visits: Integers
    ) -> tuple[list[int], list[StepVisits | None]]:
        """Models in use and visits of each step of an epoch, which are added to ``visits`` [R, S]."""
        batches, count, K = self._job.batches, self._job.batches.in_epoch(epoch), self._n_models
        found = self._neighbours.visit(orders, epoch)
        visits += found.any
        first = np.bincount(found.step[found.first], minlength=count).tolist()
        every = np.bincount(found.step, minlength=count).tolist()
        models, base = found.run * K + found.column, found.run * K
        parts = [
            torch.split(torch.from_numpy(values).to(self._device), counts)
            for values, counts in (
                (models, every), (self._family.cells(found, batches.size), every),
                (models[found.first], first), (base[found.first], first),
            )
        ]  # fmt: skip
        return found.width.tolist(), [StepVisits(*part) if n else None for n, *part in zip(every, *parts, strict=True)]

    def _weights(self, done: int) -> Tensor:
        """Parameters [R, S + 1, p] after ``done`` steps."""
        columns = self._neighbours.columns(done)
        models = np.arange(self._n_runs)[:, None] * self._n_models + columns
        chosen = self._models.weights(torch.from_numpy(models.ravel()).to(self._device))
        return chosen.view(*columns.shape, -1)


@dataclass(frozen=True, eq=False)
class SGDRuns:
    """Runs of SGD that differ in their seeds, each on a data set and on neighbours of it that differ in one record.

    Parameters
    ----------
    architecture : Architecture
        Says how the p parameters lie, and computes logits.
    order_seeds, init_seeds : ndarrays of int64, shape [R]
        Seeds of the runs' orders and initial weights.
    checkpoints : tuple of int
        Numbers of steps done at which the trajectory was recorded.
    neighbours : ndarray of int64, shape [S]
        Records that the neighbouring data sets replace; S is 0 without neighbours.
    all_weights : ndarray, shape [R, S + 1, p]
        After the last step. Column 0 is the unmodified data set, column 1 + j the neighbour without record
        ``neighbours[j]``.
    trajectory : ndarray, shape [R, len(checkpoints), p]
        Of the unmodified data set.
    visits : ndarray of int64, shape [R, S]
        Steps in which the run's batch held the replaced record.
    """

    architecture: Architecture
    order_seeds: Integers
    init_seeds: Integers
    checkpoints: tuple[int, ...]
    neighbours: Integers
    all_weights: Features
    trajectory: Features
    visits: Integers

    @property
    def weights(self) -> Features:
        """Weights [R, p] on the unmodified data set, after the last step."""
        return self.all_weights[:, 0]

    @property
    def distances(self) -> Floats:
        """L2 distance [R, S] of each neighbour's weights from those of the unmodified data set, after the last step."""
        apart = (self.all_weights[:, 1:] - self.all_weights[:, :1]).astype(np.float64)
        return np.asarray(np.linalg.norm(apart, axis=2))

    def logits(self, X: Features) -> Features:
        """Log odds of class 1 by :attr:`weights`: X [n, d] in, [R, n] out, in nats and the weights' dtype."""
        return self.architecture.logits(self.weights, X)


def fit_sgd(
    X: Features,
    y: ArrayLike,
    *,
    empty: ArrayLike | None = None,
    neighbours: ArrayLike | None = None,
    replacement: int | tuple[ArrayLike, int] | None = None,
    n_runs: int,
    random_state: int = 0,
    init_seeds: ArrayLike | None = None,
    steps: int,
    batch_size: int,
    learning_rate: Rate,
    hidden: int | None = None,
    output: str = "sigmoid",
    initial: Features | None = None,
    checkpoints: Sequence[int] = (),
    dtype: DTypeLike | None = None,
    device: str = "auto",
    chunk: int | None = None,
) -> SGDRuns:
    """Train one binary classifier from each of many seeds by plain mini-batch SGD on the cross-entropy.

    Every epoch goes through the records in a fresh random order, in consecutive batches of one size; the records that
    are left over sit out the epoch. A step is ``w -= learning_rate * (mean gradient over the batch)``. Run i draws its
    orders and its initial weights from two streams of its own, on the CPU: up to rounding the result depends neither on
    the other runs, nor on ``chunk``, nor on the device; more runs leave the first ones as they are.

    With ``neighbours`` each run is also trained on copies of the data set that have one record replaced, under the same
    seed: all share the initial weights and the batches, but for the replaced record, and equal the runs on each
    modified data set alone, up to rounding. A neighbour whose record no batch has held has exactly the weights of the
    unmodified data set.

    Parameters
    ----------
    X : ndarray of float32 or float64, shape [n, d]
    y : array of int, shape [n]
        Class codes 0 and 1.
    empty : array of bool, shape [n], optional
        Records without a gradient, which keep their places in the batches: a sum is divided by the batch size as ever.
        For logistic regression only.
    neighbours : array of int, shape [S >= 1], optional
        Records to be replaced, one for each neighbouring data set; repeats allowed.
    replacement : int or (array [d], int), optional
        What they are replaced by: a record of X, or features and class code of one that need not be in X.
    n_runs : int, >= 1
        R.
    random_state : int, >= 0
        Seed i of a run is spawned from it and i.
    init_seeds : int >= 0, or array of R of them, optional
        Seeds of the initial weights in place of the spawned ones; one number is the same for all runs and varies the
        order under a fixed initialisation.
    steps : int, >= 1
    batch_size : int in 1..n
        Records.
    learning_rate : float > 0, or callable, or array [steps]
        Step length, in the same at every step, as a function of the step 0, 1, ..., or one for each step.
    hidden : int, >= 1, optional
        Units of a hidden layer with ReLU; None is logistic regression.
    output : {"sigmoid", "softmax"}
        Of a network: one output unit, or one for each class.
    initial : array [p] or [R, p], optional
        Initial weights. Default: uniform on +-sqrt(6 / (fan in + fan out)), intercepts 0.
    checkpoints : sequence of int in 0..steps, increasing
        Numbers of steps done after which the weights are recorded.
    dtype : float32 or float64, optional
        To train in. Default: that of X, or float64 with ``neighbours``: rounding in float32 moves weights by 1e-6 to
        2e-5, which can exceed a distance of neighbours.
    device : {"auto", "cpu", "cuda", ...}
    chunk : int, >= 1, optional
        Runs trained together. Default: chosen from the memory at hand.

    Returns
    -------
    SGDRuns

    Raises
    ------
    ValueError, TypeError
        If an input is not as above, ``neighbours`` holds the replacement itself, which is no neighbour, or training
        diverges (weights that are not finite).
    MemoryError
        If ``chunk`` runs with all their neighbours do not fit.

    Source
    ------
    Hyland and Tople (2019), arXiv:1912.02919, Section VI-A (the setting); Glorot and Bengio (2010), Equation 16.

    Examples
    --------
    >>> X = np.array([[-1.0], [-0.5], [0.5], [1.0]])
    >>> runs = fit_sgd(X, [0, 0, 1, 1], n_runs=3, steps=80, batch_size=1, learning_rate=1.0)
    >>> (runs.logits(X) > 0).astype(int).tolist()
    [[0, 0, 1, 1], [0, 0, 1, 1], [0, 0, 1, 1]]
    >>> runs = fit_sgd(X, [0, 0, 1, 1], neighbours=[1, 2], replacement=0, n_runs=3, steps=1, batch_size=2,
    ...                learning_rate=1.0)
    >>> runs.all_weights.shape
    (3, 3, 2)
    >>> ((runs.distances > 0) == (runs.visits > 0)).all()
    np.True_
    """
    X = check.features(X)
    codes = check.class_codes(y, n=len(X), n_classes=2)
    records = _neighbours(neighbours, n=len(X))
    record = _replacement(replacement, X, codes, records)
    kind = check.float_dtype(np.float64 if dtype is None and len(records) else dtype, X)
    model = Architecture(X.shape[1], hidden, output)
    order, init = plan.run_seeds(init_seeds, n_runs, random_state)
    start = kinds.initial_weights(model, initial, init)
    batches = plan.Batches(
        len(X), check.at_least("batch_size", batch_size, 1, most=("n", len(X))), check.at_least("steps", steps, 1)
    )
    job = Job(
        model,
        kinds.Arrays(
            X, codes, record, model, empty=_empty(empty, len(X), hidden), dtype=kind, device=choose_device(device)
        ),
        batches,
        step_rates(learning_rate, batches.steps),
        plan.recorded_steps(checkpoints, batches.steps),
        records,
    )
    return SGDRuns(model, order, init, job.checkpoints, records, *train(job, start, order, chunk=chunk))


def _empty(empty: ArrayLike | None, n: int, hidden: int | None) -> Booleans | None:
    if empty is None or not np.any(empty):
        return None
    if hidden is not None or np.shape(empty) != (n,):
        raise ValueError(f"empty must be {n} truth values, for hidden=None, got shape {np.shape(empty)}, {hidden=}")
    return np.asarray(empty, dtype=np.bool_)


def _neighbours(neighbours: ArrayLike | None, *, n: int) -> Integers:
    if neighbours is None:
        return np.zeros(0, dtype=np.int64)
    return check.codes("neighbours", neighbours, shape=(max(1, np.size(neighbours)),), n=n)


def _replacement(
    replacement: int | tuple[ArrayLike, int] | None, X: Features, y: Integers, records: Integers
) -> tuple[Features, int]:
    """Features and class code of the record that replaces others; those of the first one if none is replaced."""
    if not len(records):
        if replacement is not None:
            raise ValueError(f"replacement needs neighbours, the records to replace, got replacement={replacement!r}")
        return X[0], int(y[0])
    if isinstance(replacement, tuple):
        features = check.features(np.asarray(replacement[0])[None], "replacement", d=X.shape[1])
        return features[0], check.at_least("replacement's class code", replacement[1], 0, most=("the last class", 1))
    row = check.at_least("replacement", replacement, 0, most=("the last row", len(X) - 1))  # type: ignore[arg-type]
    if (records == row).any():
        raise ValueError(f"neighbours must not hold replacement={row}: replaced by itself it gives no neighbour")
    return X[row], int(y[row])
