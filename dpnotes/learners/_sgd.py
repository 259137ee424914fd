"""Plain mini-batch SGD on a binary classifier, from many seeds at once, on a data
set and neighbouring data sets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, DTypeLike, NDArray

from dpnotes import _validation as check
from dpnotes._validation import Booleans, Features, Floats, Integers
from dpnotes.learners import _sgd_models as kinds
from dpnotes.learners._chunks import chunk_size, memory_named, slices
from dpnotes.learners._descent import Rate, step_rates
from dpnotes.learners._devices import choose_device, full_float32, spawned_seed
from dpnotes.learners._sgd_models import Architecture, Visits

ORDER_BYTES = 128 * 2**20  # of the permutations of one epoch for all runs of a chunk
NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Batches:
    """Batches of successive epochs; no batch spans two epochs, and the leftover records
    of an epoch are not used.

    Parameters
    ----------
    n : int
        Number of records.
    size : int
        Number of records in a batch.
    steps : int
        Total number of batches.
    """

    n: int
    size: int
    steps: int

    @property
    def per_epoch(self) -> int:
        """Number of batches in one epoch."""
        return self.n // self.size

    @property
    def n_epochs(self) -> int:
        """Number of epochs that are begun."""
        return -(-self.steps // self.per_epoch)

    def in_epoch(self, epoch: int) -> int:
        """Number of batches in epoch ``epoch``; the last epoch may stop early."""
        return min(self.per_epoch, self.steps - epoch * self.per_epoch)


def epoch_orders(seeds: Integers, n: int) -> Iterator[NDArray[np.int32]]:
    """Permutations [R, n] of the records for some runs, epoch by epoch, from a separate
    stream for each run.

    The streams are NumPy's. PyTorch's generator on the CPU uses only 32 bits of its
    seed, so in one case of a hundred, two of 10,000 runs would be equal.
    """
    streams = [
        np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0,)))
        for seed in seeds.tolist()
    ]
    while True:
        drawn = np.empty((len(streams), n), dtype=np.int32)
        for row, generator in zip(drawn, streams, strict=True):
            row[:] = generator.permutation(n)
        yield drawn


class Neighbours:
    """Columns of the neighbouring data sets of some runs, assigned in the order of
    their first visits.

    A visit is a step in which the run's batch holds the replaced record. Before its
    first visit, a neighbouring data set gives the unmodified run and needs no column,
    so a run's columns in use are always the first ones.

    Attributes
    ----------
    column : ndarray of int64, shape [R, S]
        Column of each neighbouring data set; 0 before it has a column.
    since : ndarray of int64, shape [R, S]
        Step, counted from the start, of the first visit; NEVER before it is known.
    visits : ndarray of int64, shape [R, S]
        Number of steps so far in which the run's batch held the replaced record.
    """

    def __init__(self, records: Integers, n_runs: int, batches: Batches) -> None:
        self._records, self._batches = records, batches
        self.column, self.visits = np.zeros((2, n_runs, len(records)), dtype=np.int64)
        self.since = np.full((n_runs, len(records)), NEVER)

    def steps(
        self,
        orders: NDArray[np.int32],
        epoch: int,
        family: type[kinds.Models],
        device: torch.device,
    ) -> tuple[list[int], list[Visits | None]]:
        """Count the columns in use, and list the visits, for each step of an epoch with
        these orders [R, n].

        The count is the largest over all runs and includes column 0, the unmodified
        data set. Neighbouring data sets that are visited for the first time get their
        columns.
        """
        count, size, K = (
            self._batches.in_epoch(epoch),
            self._batches.size,
            len(self._records) + 1,
        )
        if K == 1:
            return [1] * count, [None] * count
        places = np.empty_like(self.column)
        inverse = np.empty(self._batches.n, dtype=np.int64)
        for index, order in enumerate(orders):
            inverse[order] = np.arange(self._batches.n)
            places[index] = inverse[self._records]
        visited = places < count * size
        new = visited & (self.column == 0)
        used = 1 + (self.column > 0).sum(axis=1)  # columns, before this epoch
        turn = np.argsort(
            np.argsort(np.where(new, places, NEVER), axis=1, kind="stable"), axis=1
        )
        self.column[new] = (used[:, None] + turn)[new]
        self.since[new] = epoch * self._batches.per_epoch + places[new] // size
        self.visits += visited
        run, neighbour = np.nonzero(visited)
        by_step = np.argsort(places[run, neighbour] // size, kind="stable")
        run, neighbour = run[by_step], neighbour[by_step]
        step, place = np.divmod(places[run, neighbour], size)
        first, column = new[run, neighbour], self.column[run, neighbour]
        started = np.zeros((count, len(orders)), dtype=np.int64)
        np.add.at(started, (step[first], run[first]), 1)
        width = (used + np.cumsum(started, axis=0)).max(axis=1)
        every, fresh = (
            np.bincount(step, minlength=count).tolist(),
            started.sum(axis=1).tolist(),
        )
        cells = family.cells(run, place, column, width=width[step], size=size)
        found = (
            (run * K + column, every),
            (cells, every),
            ((run * K + column)[first], fresh),
            (run[first] * K, fresh),
        )
        parts = [
            torch.split(torch.from_numpy(values).to(device), counts)
            for values, counts in found
        ]
        return width.tolist(), [
            Visits(*part) if n else None for n, *part in zip(every, *parts, strict=True)
        ]

    def columns(self, done: int) -> Integers:
        """Columns [R, S + 1] of the unmodified and of all neighbouring data sets
        after ``done`` steps.
        """
        return np.pad(np.where(self.since < done, self.column, 0), ((0, 0), (1, 0)))


@dataclass(frozen=True, eq=False)
class Job:
    """Data and settings that all runs share.

    Parameters
    ----------
    model : Architecture
    arrays : kinds.Arrays
    batches : Batches
    rates : ndarray of float64, shape [steps]
    checkpoints : tuple of int
        Numbers of steps after which the weights are recorded.
    neighbours : ndarray of int64, shape [S]
        Replaced records; may be empty.
    """

    model: Architecture
    arrays: kinds.Arrays
    batches: Batches
    rates: Floats
    checkpoints: tuple[int, ...]
    neighbours: Integers

    def train(
        self, initial: Features, order_seeds: Integers, *, chunk: int | None
    ) -> list[NDArray[Any]]:
        """Train all R runs, a chunk at a time; raise a ValueError if a run ends with
        weights that are not finite.

        With S neighbouring data sets, C checkpoints and p parameters, the result is the
        weights [R, S + 1, p], the trajectory [R, C, p] of the unmodified data set, and
        the visits [R, S].
        """
        n_runs, device = len(initial), self.arrays.X.device
        each = self.arrays.y.element_size() * self._family.numbers_per_run(
            self.model,
            width=self.arrays.width,
            n_models=len(self.neighbours) + 1,
            batch_size=self.batches.size,
        )
        size = chunk_size(n_runs, each, device, chunk=chunk)
        if chunk is None:
            most = max(1, ORDER_BYTES // (4 * self.batches.n))
            size = -(-n_runs // -(-n_runs // min(size, most)))
        parts = []
        for runs in slices(n_runs, size):
            with memory_named(size, each, device), full_float32():
                parts.append(self._together(initial[runs], order_seeds[runs]))
            bad = ~np.isfinite(parts[-1][0]).all(axis=(1, 2))
            if bad.any():
                first, rate = runs.start + int(np.argmax(bad)), self.rates.max()
                raise ValueError(
                    f"training of run {first} diverged; lower learning_rate (now at"
                    f" most {rate:g})"
                )
        return [np.concatenate(each) for each in zip(*parts, strict=True)]

    @property
    def _family(self) -> type[kinds.Models]:
        return (
            kinds.LogisticModels if self.model.hidden is None else kinds.NetworkModels
        )

    @torch.inference_mode()
    def _together(
        self, initial: Features, order_seeds: Integers
    ) -> tuple[NDArray[Any], ...]:
        """Train some runs in one tensor program."""
        batches, n_runs, device = self.batches, len(initial), self.arrays.X.device
        # column 0 of each run among all models
        first = np.arange(n_runs)[:, None] * (len(self.neighbours) + 1)
        unmodified = torch.from_numpy(first.ravel()).to(device)
        models = self._family(
            self.model, self.arrays, initial, len(self.neighbours) + 1
        )
        neighbours = Neighbours(self.neighbours, n_runs, batches)
        done, recorded = 0, []
        for epoch, orders in zip(
            range(batches.n_epochs), epoch_orders(order_seeds, batches.n), strict=False
        ):
            count = batches.in_epoch(epoch)
            used = (
                orders[:, : count * batches.size]
                .reshape(n_runs, count, batches.size)
                .swapaxes(0, 1)
            )
            # [steps, R * batch]
            rows = (
                torch.from_numpy(np.ascontiguousarray(used)).view(count, -1).to(device)
            )
            for step in zip(
                rows,
                *neighbours.steps(orders, epoch, self._family, device),
                strict=True,
            ):
                if done in self.checkpoints:
                    recorded.append(models.weights(unmodified))
                models.step(*step, rate=self.rates[done] * n_runs / rows.shape[1])
                done += 1
        columns = neighbours.columns(done)
        final = models.weights(
            torch.from_numpy((first + columns).ravel()).to(device)
        ).view(*columns.shape, -1)
        recorded += [final[:, 0]] * (1 + (done in self.checkpoints))
        trajectory = torch.stack(recorded, dim=1)[:, :-1]
        return final.cpu().numpy(), trajectory.cpu().numpy(), neighbours.visits


@dataclass(frozen=True, eq=False)
class SGDRuns:
    """Runs of SGD with different seeds, each on a data set and on neighbouring data
    sets that differ in one record.

    Parameters
    ----------
    architecture : Architecture
        Classifier that defines the order of the p parameters and computes logits.
    order_seeds, init_seeds : ndarrays of int64, shape [R]
        Seeds of the runs' orders and initial weights.
    checkpoints : tuple of int
        Numbers of steps after which the trajectory was recorded.
    neighbours : ndarray of int64, shape [S]
        Records that are replaced, one in each neighbouring data set; S is 0 without
        neighbouring data sets.
    all_weights : ndarray, shape [R, S + 1, p]
        Weights after the last step. Column 0 is for the unmodified data set, and column
        1 + j is for the neighbouring data set in which record ``neighbours[j]`` is
        replaced.
    trajectory : ndarray, shape [R, len(checkpoints), p]
        Recorded weights on the unmodified data set.
    visits : ndarray of int64, shape [R, S]
        Number of steps in which the run's batch held the replaced record.
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
        """L2 distance [R, S] of the weights on each neighbouring data set from
        :attr:`weights`, after the last step.
        """
        apart = (self.all_weights[:, 1:] - self.all_weights[:, :1]).astype(np.float64)
        return np.asarray(np.linalg.norm(apart, axis=2))

    def logits(self, X: Features) -> Features:
        """Log odds of class 1 by :attr:`weights` for X [n, d], in nats, shape [R,
        n], in the dtype of the weights.
        """
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
    """Train one binary classifier from each of many seeds by plain mini-batch SGD on
    the cross-entropy.

    Every epoch goes through the records in a fresh random order, in consecutive batches
    of one size; the leftover records are not used in that epoch. A step is ``w -=
    learning_rate * (mean gradient over the batch)``. Run i draws its orders and its
    initial weights on the CPU, from two separate streams. Therefore, up to rounding,
    the result depends neither on the other runs, nor on ``chunk``, nor on the device;
    adding runs does not change earlier runs.

    With ``neighbours`` each run is also trained, under the same seed, on copies of the
    data set in which one record is replaced. All copies share the initial weights and
    the batches, except for the replaced record. Up to rounding, the weights equal those
    of separate runs on each modified data set. If no batch has held the replaced
    record, the weights are exactly equal to the weights on the unmodified data set.

    Parameters
    ----------
    X : ndarray of float32 or float64, shape [n, d]
    y : array of int, shape [n]
        Class codes 0 and 1.
    empty : array of bool, shape [n], optional
        True for each record that has no gradient but retains its place in the batches:
        a sum is still divided by the batch size. Empty records are possible only for
        logistic regression.
    neighbours : array of int, shape [S >= 1], optional
        Records to be replaced, one for each neighbouring data set; repeats are allowed.
    replacement : int or (array [d], int), optional
        Record that replaces each record in ``neighbours``: the index of a record of X,
        or features and class code of any other record.
    n_runs : int, >= 1
        Number of runs R.
    random_state : int, >= 0
        Seed. The seed of run i is spawned from this seed and i.
    init_seeds : int >= 0, or array of R integers >= 0, optional
        Seeds of the initial weights, instead of the spawned seeds. A single number
        gives all runs the same initialisation, so that they differ only in the order.
    steps : int, >= 1
    batch_size : int in 1..n
        Number of records in a batch.
    learning_rate : float > 0, or callable, or array [steps]
        Step length: a constant, a function of the step 0, 1, ..., or one number for
        each step.
    hidden : int, >= 1, optional
        Number of units in a hidden layer with ReLU; None is logistic regression.
    output : {"sigmoid", "softmax"}
        Output of a network: one unit, or one unit for each class.
    initial : array [p] or [R, p], optional
        Initial weights; by default uniform in [-a, a] with a = sqrt(6 / (fan in + fan
        out)), and intercepts 0.
    checkpoints : sequence of int in 0..steps, increasing
        Numbers of steps after which the weights are recorded.
    dtype : float32 or float64, optional
        Precision of the training; by default the dtype of X, or float64 with
        ``neighbours``. Rounding in float32 moves weights by 1e-6 to 2e-5, which can
        exceed the distance between the weights on neighbouring data sets.
    device : {"auto", "cpu", "cuda", ...}
    chunk : int, >= 1, optional
        Number of runs trained together; by default chosen from the available memory.

    Returns
    -------
    SGDRuns

    Raises
    ------
    ValueError, TypeError
        If an input is not as described above, ``neighbours`` contains the replacement
        itself (the data set would not change), or training diverges (weights that are
        not finite).
    MemoryError
        If ``chunk`` runs with all their neighbouring data sets do not fit.

    Source
    ------
    Hyland and Tople (2019), arXiv:1912.02919, Section VI-A (the setting); Glorot and
    Bengio (2010), Equation 16.

    Examples
    --------
    >>> X = np.array([[-1.0], [-0.5], [0.5], [1.0]])
    >>> runs = fit_sgd(
    ...     X, [0, 0, 1, 1], n_runs=3, steps=80, batch_size=1, learning_rate=1.0
    ... )
    >>> (runs.logits(X) > 0).astype(int).tolist()
    [[0, 0, 1, 1], [0, 0, 1, 1], [0, 0, 1, 1]]
    >>> runs = fit_sgd(
    ...     X,
    ...     [0, 0, 1, 1],
    ...     neighbours=[1, 2],
    ...     replacement=0,
    ...     n_runs=3,
    ...     steps=1,
    ...     batch_size=2,
    ...     learning_rate=1.0,
    ... )
    >>> runs.all_weights.shape
    (3, 3, 2)
    >>> ((runs.distances > 0) == (runs.visits > 0)).all()
    np.True_
    """
    X = check.features(X)
    codes = check.class_codes(y, n=len(X), n_classes=2)
    records = np.zeros(0, dtype=np.int64)
    if neighbours is not None:
        records = check.codes(
            "neighbours", neighbours, shape=(max(1, np.size(neighbours)),), n=len(X)
        )
    record = _replacement(replacement, X, codes, records)
    kind = check.float_dtype(np.float64 if dtype is None and len(records) else dtype, X)
    model = Architecture(X.shape[1], hidden, output)
    order, init = _run_seeds(init_seeds, n_runs, random_state)
    size = check.at_least("batch_size", batch_size, 1, most=("n", len(X)))
    batches, where = (
        Batches(len(X), size, check.at_least("steps", steps, 1)),
        choose_device(device),
    )
    recorded = tuple(check.at_least("checkpoints", step, 0) for step in checkpoints)
    if list(recorded) != sorted(set(recorded)) or (recorded and recorded[-1] > steps):
        raise ValueError(
            f"checkpoints must increase within 0..{steps}, got"
            f" checkpoints={list(checkpoints)}"
        )
    arrays = kinds.Arrays(
        X,
        codes,
        record,
        model,
        empty=_empty(empty, len(X), hidden),
        dtype=kind,
        device=where,
    )
    job = Job(
        model, arrays, batches, step_rates(learning_rate, steps), recorded, records
    )
    trained = job.train(kinds.initial_weights(model, initial, init), order, chunk=chunk)
    return SGDRuns(model, order, init, recorded, records, *trained)


def _run_seeds(
    init_seeds: ArrayLike | None, n_runs: int, random_state: int
) -> tuple[Integers, Integers]:
    """Seeds [R] of orders, spawned from ``random_state`` and the index of each run,
    and of initial weights.
    """
    check.at_least("n_runs", n_runs, 1)
    check.at_least("random_state", random_state, 0)
    spawned = np.array([spawned_seed(random_state, i) for i in range(n_runs)])
    init = spawned if init_seeds is None else np.asarray(init_seeds)
    if (
        init.dtype.kind not in "iu"
        or init.shape not in ((), (n_runs,))
        or init.min() < 0
    ):
        raise ValueError(
            f"init_seeds must be one integer >= 0 or {n_runs} of them, got"
            f" init_seeds={init_seeds!r}"
        )
    return spawned, np.broadcast_to(init.astype(np.int64), (n_runs,)).copy()


def _empty(empty: ArrayLike | None, n: int, hidden: int | None) -> Booleans | None:
    if empty is None or not np.any(empty):
        return None
    if hidden is not None or np.shape(empty) != (n,):
        raise ValueError(
            f"empty must be {n} truth values, with hidden=None, got shape"
            f" {np.shape(empty)}, {hidden=}"
        )
    return np.asarray(empty, dtype=np.bool_)


def _replacement(
    replacement: int | tuple[ArrayLike, int] | None,
    X: Features,
    y: Integers,
    records: Integers,
) -> tuple[Features, int]:
    """Features and class code of the record that replaces others; those of the first
    one if none is replaced.
    """
    if not len(records):
        if replacement is not None:
            raise ValueError(
                "replacement needs neighbours=, the records to replace, got"
                f" replacement={replacement!r}"
            )
        return X[0], int(y[0])
    if isinstance(replacement, tuple):
        features = check.features(
            np.asarray(replacement[0])[None], "replacement", d=X.shape[1]
        )
        return features[0], check.at_least(
            "replacement's class code", replacement[1], 0, most=("the last class", 1)
        )
    last = ("the last row", len(X) - 1)
    row = check.at_least("replacement", replacement, 0, most=last)  # type: ignore[arg-type]
    if (records == row).any():
        raise ValueError(
            f"neighbours must not hold replacement={row}: a record replaced by itself"
            " changes nothing"
        )
    return X[row], int(y[row])
