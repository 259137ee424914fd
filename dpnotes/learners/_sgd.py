"""Plain mini-batch SGD on a binary classifier, from many seeds at once, on a data
set and neighbouring data sets.

K models of each of R runs share the batches of the run: their logits and their update
are two matrix products for each layer. A neighbouring data set is the same data set but
for one record. Its model is the unmodified one until a batch first holds that record, so
a run computes no more models than differ.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, DTypeLike, NDArray
from torch import Tensor

from dpnotes import _validation as check
from dpnotes._validation import Booleans, Features, Floats, Integers
from dpnotes.learners._descent import Rate, step_rates
from dpnotes.learners._devices import (
    choose_device,
    chunk_size,
    full_float32,
    memory_named,
    slices,
    spawned_seed,
)

OUTPUTS = ("sigmoid", "softmax")
# features are padded with zeros to a multiple: matrix products then run up to 1.3 times
# faster
PAD = 8
ORDER_BYTES = 128 * 2**20  # of the permutations of one epoch for all runs of a chunk
NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Architecture:
    """Binary classifier and the order of its parameters.

    The parameter vector goes layer by layer and, within a layer, unit by unit: first
    the weights of a unit's inputs, then its intercept.

    Parameters
    ----------
    d : int
        Number of features.
    hidden : int or None
        Number of units in the hidden layer (ReLU); None is logistic regression.
    output : {"sigmoid", "softmax"}
        One output unit, which gives the log odds of class 1, or two units, one for each
        class.

    Examples
    --------
    >>> Architecture(d=100, hidden=8).n_parameters
    817
    """

    d: int
    hidden: int | None = None
    output: str = "sigmoid"

    def __post_init__(self) -> None:
        if self.hidden is not None:
            check.at_least("hidden", self.hidden, 1)
        check.one_of("output", self.output, OUTPUTS)
        if self.hidden is None and self.output != "sigmoid":
            raise ValueError(
                "output must be 'sigmoid' without a hidden layer, got"
                f" output={self.output!r}"
            )

    @property
    def shapes(self) -> tuple[tuple[int, int], ...]:
        """Numbers of units and inputs of each layer; an intercept counts as an
        input.
        """
        outputs = 2 if self.output == "softmax" else 1
        if self.hidden is None:
            return ((outputs, self.d + 1),)
        return (self.hidden, self.d + 1), (outputs, self.hidden + 1)

    @property
    def n_parameters(self) -> int:
        """Length p of the parameter vector."""
        return sum(units * inputs for units, inputs in self.shapes)

    def layers(self, weights: Features) -> list[Features]:
        """Views of weights [..., p] as layers [..., units, inputs], with the
        intercept as the last input.
        """
        ends = np.cumsum([units * inputs for units, inputs in self.shapes])
        parts = np.split(weights, ends[:-1], axis=-1)
        return [
            part.reshape(*part.shape[:-1], *shape)
            for part, shape in zip(parts, self.shapes, strict=True)
        ]

    def logits(self, weights: Features, X: Features) -> Features:
        """Log odds of class 1 by weights [..., p] for X [n, d]: shape [..., n], in
        nats, dtype of the weights.
        """
        # [d, n]
        values: Features = (
            check.features(X, d=self.d).astype(weights.dtype, copy=False).T
        )
        for depth, layer in enumerate(self.layers(weights)):
            values = np.maximum(values, 0) if depth else values
            values = layer[..., :-1] @ values + layer[..., -1:]  # [..., units, n]
        return np.asarray(
            values[..., 1, :] - values[..., 0, :]
            if self.output == "softmax"
            else values[..., 0, :]
        )

    def initial(self, seed: int) -> Floats:
        """Initial weights [p] from the stream of a seed; :func:`fit_sgd` describes
        their distribution.
        """
        generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1,)))
        drawn = []
        for units, inputs in self.shapes:
            limit = math.sqrt(6 / (inputs - 1 + units))
            weights = np.zeros((units, inputs))
            weights[:, :-1] = generator.uniform(-limit, limit, (units, inputs - 1))
            drawn.append(weights.ravel())
        return np.concatenate(drawn)


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
        shape = (max(1, np.size(neighbours)),)
        records = check.codes("neighbours", neighbours, shape=shape, n=len(X))
    record = _replacement(replacement, X, codes, records)
    kind = check.float_dtype(np.float64 if dtype is None and len(records) else dtype, X)
    model = Architecture(X.shape[1], hidden, output)
    order, init = _run_seeds(init_seeds, n_runs, random_state)
    check.at_least("steps", steps, 1)
    recorded = tuple(check.at_least("checkpoints", step, 0) for step in checkpoints)
    if list(recorded) != sorted(set(recorded)) or (recorded and recorded[-1] > steps):
        raise ValueError(
            f"checkpoints must increase within 0..{steps}, got"
            f" checkpoints={list(checkpoints)}"
        )
    job = _Job(
        model,
        _Table(X, codes, record, _empty(empty, len(X), hidden), kind, device),
        check.at_least("batch_size", batch_size, 1, most=("n", len(X))),
        step_rates(learning_rate, steps),
        recorded,
        records,
    )
    trained = job.train(initial_weights(model, initial, init), order, chunk=chunk)
    return SGDRuns(model, order, init, recorded, records, *trained)


def initial_weights(
    model: Architecture, initial: Features | None, seeds: Integers
) -> Floats:
    """Initial weights of all runs [R, p]: each drawn from its seed, or given as [p]
    or [R, p].
    """
    if initial is None:
        return np.stack([model.initial(int(seed)) for seed in seeds])
    shape = (len(seeds), model.n_parameters)
    given = np.asarray(initial)
    if given.dtype not in (np.float32, np.float64) or given.shape not in (
        shape,
        shape[1:],
    ):
        raise ValueError(
            f"initial must be float32 or float64 of shape [{shape[1]}] or [{shape[0]},"
            f" {shape[1]}], got {given.dtype} of shape {given.shape}"
        )
    if not np.isfinite(given).all():
        raise ValueError(
            f"initial must be finite, got {int((~np.isfinite(given)).sum())} bad"
            " entries"
        )
    return np.broadcast_to(given.astype(np.float64), shape)


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


class _Table:
    """Records on the device, with a column of ones for the intercept and columns of
    zeros up to a multiple of PAD; ``empty`` records are rows of zeros.

    Attributes
    ----------
    X : torch.Tensor, shape [n, d']
        Records, in float32 if the caller gave float32. Training in float64 then widens
        each batch, and reads half as much memory.
    y : torch.Tensor, shape [n]
        Labels 0 or 1, in the dtype of the training.
    replacement : torch.Tensor, shape [1, 1, d']
        Replacement record, in the dtype of the training.
    label : torch.Tensor, shape [1, 1, 1]
        Its label.
    """

    def __init__(
        self,
        X: Features,
        y: Integers,
        replacement: tuple[Features, int],
        empty: Booleans | None,
        dtype: np.dtype[Any],
        device: str,
    ) -> None:
        n, d = X.shape
        where = choose_device(device)
        padded = np.zeros(
            (n, -(-(d + 1) // PAD) * PAD),
            dtype=np.float32 if X.dtype == np.float32 else dtype,
        )
        padded[:, :d] = X
        padded[:, d] = 1
        instead = padded[0].astype(dtype)
        instead[:d], label = replacement
        if empty is not None:
            padded[empty] = 0
        self.X = torch.from_numpy(padded).to(where)
        self.y = torch.tensor(y.astype(dtype), device=where)
        self.replacement = torch.tensor(instead, device=where)[None, None]
        self.label = self.y.new_full((1, 1, 1), label)


class _Visits(NamedTuple):
    """Visits of one step; a model has a visit if its batch holds the record that its
    data set replaces.

    ``models`` are the models with a visit, and ``cells`` the places, in the flat array
    of logits, of their logits for this record. ``fresh`` are the models with their
    first visit, and ``base`` the models of the same runs on the unmodified data. The
    number of a model is run * K + column.
    """

    models: Tensor
    cells: Tensor
    fresh: Tensor
    base: Tensor


class _Neighbours:
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

    def __init__(self, records: Integers, n_runs: int) -> None:
        self._records = records
        self.column, self.visits = np.zeros((2, n_runs, len(records)), dtype=np.int64)
        self.since = np.full((n_runs, len(records)), NEVER)

    def plan(
        self, orders: NDArray[np.int32], done: int, count: int, models: _Models
    ) -> tuple[list[int], list[_Visits | None]]:
        """Count the columns in use, and list the visits, for each of the next ``count``
        steps, which take the records in these orders [R, n].

        The count is the largest over all runs and includes column 0, the unmodified
        data set. Neighbouring data sets that are visited for the first time get their
        columns.
        """
        K = len(self._records) + 1
        if K == 1:
            return [1] * count, [None] * count
        size = models.batch_size
        places = np.empty_like(self.column)
        inverse = np.empty(orders.shape[1], dtype=np.int64)
        for index, order in enumerate(orders):
            inverse[order] = np.arange(len(order))
            places[index] = inverse[self._records]
        visited = places < count * size
        new = visited & (self.column == 0)
        # columns before these steps, and the turn of each new one
        used = 1 + (self.column > 0).sum(axis=1)
        turn = np.where(new, places, NEVER).argsort(axis=1, kind="stable")
        turn = turn.argsort(axis=1)
        self.column[new] = (used[:, None] + turn)[new]
        self.since[new] = done + places[new] // size
        self.visits += visited
        run, neighbour = np.nonzero(visited)
        by_step = np.argsort(places[run, neighbour] // size, kind="stable")
        run, neighbour = run[by_step], neighbour[by_step]
        step, place = np.divmod(places[run, neighbour], size)
        column = self.column[run, neighbour]
        first = new[run, neighbour]
        started = np.zeros((count, len(orders)), dtype=np.int64)
        np.add.at(started, (step[first], run[first]), 1)
        width = (used + np.cumsum(started, axis=0)).max(axis=1)
        every = np.bincount(step, minlength=count).tolist()
        fresh = started.sum(axis=1).tolist()
        cells = models.cells(run, place, column, width[step])
        planned = zip(
            every,
            models.split(run * K + column, every),
            models.split(cells, every),
            models.split((run * K + column)[first], fresh),
            models.split(run[first] * K, fresh),
            strict=True,
        )
        visits = [_Visits(*parts) if n else None for n, *parts in planned]
        return width.tolist(), visits

    def columns(self, done: int) -> Integers:
        """Columns [R, S + 1] of the unmodified and of all neighbouring data sets
        after ``done`` steps.
        """
        return np.pad(np.where(self.since < done, self.column, 0), ((0, 0), (1, 0)))


class _Models:
    """K models in each of R runs, trained together; column 0 of a run is trained on
    the unmodified data.

    The logits of a step are [R, K, batch], or for logistic regression [R, batch, K],
    which is up to 1.3 times faster.

    With two softmax outputs the log odds of class 1 follow from the difference v of
    their weights, and the two gradients are -D and D, where D is the gradient of a
    single output with weights v. So the same code serves both kinds of output.
    """

    def __init__(
        self,
        model: Architecture,
        table: _Table,
        batch_size: int,
        initial: Features,
        n_models: int,
    ) -> None:
        self.batch_size = batch_size
        self._model = model
        self._table = table
        self._n_runs = len(initial)
        self._kept: dict[str, Tensor] = {}
        # layer by layer, [R, K, units, inputs]; the inputs of the first are padded
        self._weights = []
        inputs = table.X.shape[1]
        for layer in model.layers(initial):
            weights = table.y.new_zeros(self._n_runs, n_models, layer.shape[1], inputs)
            weights[:, 0, :, : layer.shape[2]] = torch.tensor(layer).to(table.y)
            self._weights.append(weights)
            inputs = layer.shape[1] + 1
        # views [R * K, units, inputs]
        self._flat = [weights.flatten(0, 1) for weights in self._weights]

    @staticmethod
    def numbers_per_run(
        model: Architecture, *, width: int, n_models: int, batch_size: int
    ) -> int:
        """Count the numbers that one run holds while it is trained: weights, one batch,
        and its logits, or activations with two temporaries of the same size.
        """
        if model.hidden is None:
            return n_models * (width + batch_size) + batch_size * width
        weights = model.hidden * width + 2 * (model.hidden + 1)
        activations = 3 * model.hidden * batch_size
        return n_models * (weights + activations) + batch_size * width

    def weights(self, models: Tensor) -> Tensor:
        """Parameters [len(models), p] of models run * K + column."""
        parts = []
        for flat, (_, inputs) in zip(self._flat, self._model.shapes, strict=True):
            parts.append(flat.index_select(0, models)[..., :inputs].flatten(1))
        return torch.cat(parts, dim=1)

    def cells(
        self, run: Integers, place: Integers, column: Integers, width: Integers
    ) -> Integers:
        """Index of each visit's logit among all logits of its step, in which each
        run has ``width`` models in use.
        """
        if self._model.hidden is None:
            return (run * self.batch_size + place) * width + column
        return (run * width + column) * self.batch_size + place

    def split(self, values: Integers, counts: list[int]) -> tuple[Tensor, ...]:
        """Values of each step, on the device."""
        return torch.split(torch.from_numpy(values).to(self._table.X.device), counts)

    def step(
        self, rows: Tensor, width: int, visits: _Visits | None, *, rate: float
    ) -> None:
        """Subtract rate * (sum of gradients) from the weights of the first ``width``
        models of each run.

        ``rows`` [R * batch] lists the batches run after run. A model with a visit sees
        the replacement record instead of the original record; all gradients are taken
        at the weights before the step.
        """
        table = self._table
        instead: list[Tensor] = []
        if visits is not None:
            if len(visits.fresh):
                # these start from the run on the unmodified data
                for flat in self._flat:
                    flat.index_copy_(0, visits.fresh, flat.index_select(0, visits.base))
            seeing = [flat.index_select(0, visits.models) for flat in self._flat]
            instead = self._gradients(seeing)
        X = self._gathered(rows).view(self._n_runs, self.batch_size, -1)
        y = table.y.index_select(0, rows).view(self._n_runs, 1, self.batch_size)
        cells = None if visits is None else visits.cells
        if self._model.hidden is None:
            self._logistic_step(X, y, width, cells, rate)
        else:
            self._network_step(X, y, width, cells, rate)
        if visits is not None:
            for flat, gradient in zip(self._flat, instead, strict=True):
                flat.index_add_(0, visits.models, gradient, alpha=-rate)

    def _logistic_step(
        self, X: Tensor, y: Tensor, width: int, cells: Tensor | None, rate: float
    ) -> None:
        W = self._weights[0][:, :width, 0]
        if width == 1:
            # a product of rows is the faster one for a single model
            G = self._buffer("logits", self._n_runs, 1, self.batch_size)
            torch.bmm(W, X.mT, out=G)
        else:
            Z = self._buffer("logits", self._n_runs, self.batch_size, width)
            torch.bmm(X, W.mT, out=Z)
            G = Z.mT
        G.sigmoid_().sub_(y)
        if cells is not None:
            self._kept["logits"].index_fill_(0, cells, 0)
        W.baddbmm_(G, X, alpha=-rate)

    def _network_step(
        self, X: Tensor, y: Tensor, width: int, cells: Tensor | None, rate: float
    ) -> None:
        runs, size = X.shape[:2]
        h = self._weights[0].shape[2]
        W = self._weights[0][:, :width].flatten(1, 2)  # [R, width h, d']
        V = self._weights[1][:, :width]
        v = _odds(V)  # [R, width, h + 1]
        A = self._buffer("activations", runs, width * h, size)
        torch.bmm(W, X.mT, out=A).relu_()
        A = A.view(runs, width, h, size)
        product = self._buffer("product", runs, width, h, size)
        # [R, width, batch]
        G = torch.mul(A, v[..., :h, None], out=product).sum(2).add_(v[..., h:])
        G.sigmoid_().sub_(y)
        if cells is not None:
            G.view(-1).index_fill_(0, cells, 0)
        D = torch.mul(A, G[:, :, None], out=product).sum(3)  # [R, width, h]
        active = torch.gt(A, 0, out=A)
        back = active.mul_(v[..., :h, None]).mul_(G[:, :, None])
        gradient = torch.cat([D, G.sum(2, keepdim=True)], 2)
        V[:, :, -1].sub_(gradient, alpha=rate)
        if V.shape[2] == 2:
            V[:, :, 0].add_(gradient, alpha=rate)
        W.baddbmm_(back.view(runs, width * h, size), X, alpha=-rate)

    def _gradients(self, layers: list[Tensor]) -> list[Tensor]:
        """Gradients of the loss of the replacement record in V models with these layers
        [V, units, inputs], in the same shapes.
        """
        x, label = self._table.replacement, self._table.label
        z = torch.matmul(layers[0], x.mT[0])  # [V, units, 1]
        if len(layers) == 1:
            return [z.sigmoid_().sub_(label) * x]
        a = torch.cat([z.relu_(), torch.ones_like(z[:, :1])], 1)  # [V, h + 1, 1]
        v = _odds(layers[1])[:, :, None]
        g = (a * v).sum(1, keepdim=True).sigmoid_().sub_(label)  # [V, 1, 1]
        back = (z > 0) * v[:, :-1] * g
        gradient = (a * g).mT
        both = (-gradient, gradient) if layers[1].shape[1] == 2 else (gradient,)
        return [back * x, torch.cat(both, 1)]

    def _gathered(self, rows: Tensor) -> Tensor:
        """Rows of the table [len(rows), d'], in the dtype of the training."""
        table = self._table.X
        shape = (len(rows), table.shape[1])
        batch = self._buffer("batch", *shape)
        if table.dtype == batch.dtype:
            return torch.index_select(table, 0, rows, out=batch)
        if "narrow" not in self._kept:
            self._kept["narrow"] = table.new_empty(shape)
        narrow = torch.index_select(table, 0, rows, out=self._kept["narrow"])
        return batch.copy_(narrow)

    def _buffer(self, name: str, *shape: int) -> Tensor:
        """Memory that every step uses again."""
        size = math.prod(shape)
        if name not in self._kept or len(self._kept[name]) < size:
            self._kept[name] = self._table.y.new_empty(size)
        return self._kept[name][:size].view(shape)


def _odds(output: Tensor) -> Tensor:
    """Weights [..., h + 1] of the log odds of class 1."""
    if output.shape[-2] == 1:
        return output[..., 0, :]
    return output[..., 1, :] - output[..., 0, :]


@dataclass(frozen=True, eq=False)
class _Job:
    """Data and settings that all runs share.

    Parameters
    ----------
    model : Architecture
    table : _Table
    batch_size : int
    rates : ndarray of float64, shape [steps]
    checkpoints : tuple of int
        Numbers of steps after which the weights are recorded.
    neighbours : ndarray of int64, shape [S]
        Replaced records; may be empty.
    """

    model: Architecture
    table: _Table
    batch_size: int
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
        n_runs = len(initial)
        n, width = self.table.X.shape
        device = self.table.X.device
        each = self.table.y.element_size() * _Models.numbers_per_run(
            self.model,
            width=width,
            n_models=len(self.neighbours) + 1,
            batch_size=self.batch_size,
        )
        size = chunk_size(n_runs, each, device, chunk=chunk)
        if chunk is None:
            most = max(1, ORDER_BYTES // (4 * n))
            size = -(-n_runs // -(-n_runs // min(size, most)))
        parts = []
        for runs in slices(n_runs, size):
            with memory_named(size, each, device), full_float32():
                parts.append(self._together(initial[runs], order_seeds[runs]))
            bad = ~np.isfinite(parts[-1][0]).all(axis=(1, 2))
            if bad.any():
                raise ValueError(
                    f"training of run {runs.start + int(np.argmax(bad))} diverged;"
                    f" lower learning_rate (now at most {self.rates.max():g})"
                )
        return [np.concatenate(each) for each in zip(*parts, strict=True)]

    @torch.inference_mode()
    def _together(
        self, initial: Features, order_seeds: Integers
    ) -> tuple[NDArray[Any], ...]:
        """Train some runs in one tensor program."""
        n_runs = len(initial)
        n = len(self.table.X)
        K = len(self.neighbours) + 1
        device = self.table.X.device
        # column 0 of each run among all models
        first = np.arange(n_runs)[:, None] * K
        unmodified = torch.from_numpy(first.ravel()).to(device)
        models = _Models(self.model, self.table, self.batch_size, initial, K)
        neighbours = _Neighbours(self.neighbours, n_runs)
        # NumPy's streams. PyTorch's generator on the CPU uses only 32 bits of its seed,
        # so in one case of a hundred, two of 10,000 runs would be equal.
        streams = [
            np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0,)))
            for seed in order_seeds.tolist()
        ]
        orders = np.empty((n_runs, n), dtype=np.int32)
        recorded = []
        done = 0
        while done < len(self.rates):
            for order, stream in zip(orders, streams, strict=True):
                order[:] = stream.permutation(n)
            # no batch spans two epochs
            count = min(n // self.batch_size, len(self.rates) - done)
            used = orders[:, : count * self.batch_size].reshape(n_runs, count, -1)
            # [steps, R, batch]
            by_step = np.ascontiguousarray(used.swapaxes(0, 1))
            rows = torch.from_numpy(by_step).view(count, -1).to(device)
            plan = neighbours.plan(orders, done, count, models)
            for batch, width, visits in zip(rows, *plan, strict=True):
                if done in self.checkpoints:
                    recorded.append(models.weights(unmodified))
                rate = self.rates[done] / self.batch_size
                models.step(batch, width, visits, rate=rate)
                done += 1
        columns = neighbours.columns(done)
        numbers = torch.from_numpy((first + columns).ravel()).to(device)
        final = models.weights(numbers).view(*columns.shape, -1)
        if done in self.checkpoints:
            recorded.append(final[:, 0])
        trajectory = final[:, :0]
        if recorded:
            trajectory = torch.stack(recorded, dim=1)
        return final.cpu().numpy(), trajectory.cpu().numpy(), neighbours.visits
