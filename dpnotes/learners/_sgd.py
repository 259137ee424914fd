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
from torch.nn.functional import pad

from dpnotes import _validation as check
from dpnotes._validation import Features, Floats, Integers
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
        found = []
        for part, shape in zip(parts, self.shapes, strict=True):
            found.append(part.reshape(*part.shape[:-1], *shape))
        return found

    def logits(self, weights: Features, X: Features) -> Features:
        """Log odds of class 1 by weights [..., p] for X [n, d]: shape [..., n], in
        nats, dtype of the weights.
        """
        # [d, n]
        values = check.features(X, d=self.d).astype(weights.dtype, copy=False).T
        for depth, layer in enumerate(self.layers(weights)):
            if depth:
                values = np.maximum(values, 0)
            # [..., units, n]
            values = layer[..., :-1] @ values + layer[..., -1:]
        if self.output == "softmax":
            return np.asarray(values[..., 1, :] - values[..., 0, :])
        return np.asarray(values[..., 0, :])

    def initial(self, seed: int) -> Floats:
        """Initial weights [p] from the stream of a seed; :func:`fit_sgd` describes
        their distribution.
        """
        generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1,)))
        # layer by layer, as the parameters are ordered
        drawn = []
        for units, inputs in self.shapes:
            # an intercept is no input here
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


@torch.inference_mode()
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
    n = len(X)
    codes = check.class_codes(y, n=n, n_classes=2)
    records = np.zeros(0, dtype=np.int64)
    if neighbours is not None:
        shape = (max(1, np.size(neighbours)),)
        records = check.codes("neighbours", neighbours, shape=shape, n=n)
    changed = _replacement(replacement, X, codes, records)
    kind = check.float_dtype(np.float64 if dtype is None and len(records) else dtype, X)
    # refuses what has no such network
    model = Architecture(X.shape[1], hidden, output)
    order, init = _run_seeds(init_seeds, n_runs, random_state)
    check.at_least("steps", steps, 1)
    recorded = tuple(check.at_least("checkpoints", step, 0) for step in checkpoints)
    if list(recorded) != sorted(set(recorded)) or (recorded and recorded[-1] > steps):
        raise ValueError(
            f"checkpoints must increase within 0..{steps}, got"
            f" checkpoints={list(checkpoints)}"
        )
    if empty is not None and (hidden is not None or np.shape(empty) != (n,)):
        raise ValueError(
            f"empty must be {n} truth values, with hidden=None, got shape"
            f" {np.shape(empty)}, {hidden=}"
        )
    size = check.at_least("batch_size", batch_size, 1, most=("n", n))
    rates = step_rates(learning_rate, steps)
    where = choose_device(device)
    table = _table(X, codes, changed, kind, empty, hidden is None, where)
    # drawn on the CPU for any device
    first = initial_weights(model, initial, init)
    # numbers that one run holds: weights, one batch, and its logits, or activations
    # with two temporaries of the same size
    values = model.n_parameters + size * (1 if hidden is None else 3 * hidden)
    # data sets that are equal share one model
    distinct, repeats = np.unique(records, return_inverse=True)
    each = kind.itemsize * ((len(distinct) + 1) * values + size * table.X.shape[1])
    at_once = chunk_size(n_runs, each, where, chunk=chunk)
    if chunk is None:
        # orders are held for a whole epoch, in four bytes for each record
        most = max(1, ORDER_BYTES // (4 * n))
        at_once = -(-n_runs // -(-n_runs // min(at_once, most)))
    parts = []
    for runs in slices(n_runs, at_once):
        with memory_named(at_once, each, where), full_float32():
            job = _Runs(model, table, size, first[runs], distinct)
            parts.append(job.train(rates, order[runs], recorded))
        # of weights; what is not finite stays so
        bad = ~np.isfinite(parts[-1][0]).all(axis=(1, 2))
        if bad.any():
            raise ValueError(
                f"training of run {runs.start + int(np.argmax(bad))} diverged;"
                f" lower learning_rate (now at most {rates.max():g})"
            )
    weights, trajectory, visits = (
        np.concatenate(arrays) for arrays in zip(*parts, strict=True)
    )
    return SGDRuns(
        model,
        order,
        init,
        recorded,
        records,
        weights[:, np.append(0, 1 + repeats)],
        trajectory,
        visits[:, repeats],
    )


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
    fits = given.shape in (shape, shape[1:])
    if not fits or given.dtype not in (np.float32, np.float64):
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
    fits = init.dtype.kind in "iu" and init.shape in ((), (n_runs,))
    if not fits or init.min() < 0:
        raise ValueError(
            f"init_seeds must be one integer >= 0 or {n_runs} of them, got"
            f" init_seeds={init_seeds!r}"
        )
    return spawned, np.broadcast_to(init.astype(np.int64), (n_runs,)).copy()


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
        alone = np.asarray(replacement[0])[None]
        features = check.features(alone, "replacement", d=X.shape[1])
        most = ("the last class", 1)
        name = "replacement's class code"
        return features[0], check.at_least(name, replacement[1], 0, most=most)
    last = ("the last row", len(X) - 1)
    row = check.at_least("replacement", replacement, 0, most=last)  # type: ignore[arg-type]
    if (records == row).any():
        raise ValueError(
            f"neighbours must not hold replacement={row}: a record replaced by itself"
            " changes nothing"
        )
    return X[row], int(y[row])


class _Table(NamedTuple):
    """Records on the device, with a column of ones for the intercept and columns of
    zeros up to a multiple of PAD; empty records are rows of zeros.

    Attributes
    ----------
    X : torch.Tensor, shape [n, d']
        Records, in float32 if the caller gave float32. Training in float64 then widens
        each batch, and reads half as much memory. For logistic regression, records of
        class 1 have the opposite sign: as records of class 0, they then have the same
        gradient, and a step reads no labels.
    y : torch.Tensor, shape [n]
        Labels 0 or 1, in the dtype of the training.
    x_new, y_new : torch.Tensor, shapes [1, d'] and [1]
        Replacement record, in the dtype of the training.
    """

    X: Tensor
    y: Tensor
    x_new: Tensor
    y_new: Tensor


def _table(
    X: Features,
    y: Integers,
    changed: tuple[Features, int],
    dtype: np.dtype[Any],
    empty: ArrayLike | None,
    signed: bool,
    device: torch.device,
) -> _Table:
    n, d = X.shape
    columns = -(-(d + 1) // PAD) * PAD
    kind = np.float32 if X.dtype == np.float32 else dtype
    padded = np.zeros((n, columns), kind)
    padded[:, :d] = X
    padded[:, d] = 1
    instead = np.zeros((1, padded.shape[1]), dtype)
    instead[0, :d] = changed[0]
    instead[0, d] = 1
    if empty is not None:
        # the intercept's feature, too: no gradient at all
        padded[np.asarray(empty, dtype=np.bool_)] = 0
    # of the replacement
    label = np.full(1, changed[1], dtype)
    if signed:
        padded *= (1 - 2 * y[:, None]).astype(kind)
        instead *= 1 - 2 * changed[1]
    arrays = padded, y.astype(dtype), instead, label
    return _Table(*(torch.from_numpy(values).to(device) for values in arrays))


class _Runs:
    """K models in each of R runs, trained together; model 0 of a run is trained on
    the unmodified data, the others in the order in which batches first hold their
    records.

    The logits of a step are [R, K, batch], or for logistic regression [R, batch, K],
    which is up to 1.3 times faster. With two softmax outputs the log odds of class 1
    follow from the difference v of their weights, and the two gradients are -D and D,
    where D is the gradient of a single output with weights v. So the same code serves
    both kinds of output.
    """

    def __init__(
        self,
        model: Architecture,
        table: _Table,
        batch_size: int,
        initial: Features,
        records: Integers,
    ) -> None:
        self._model = model
        self._table = table
        self._size = batch_size
        self._shape = len(initial), len(records) + 1
        # which neighbouring data set replaces a record, -1 for none
        self._neighbour = np.full(len(table.y), -1, np.int32)
        self._neighbour[records] = np.arange(len(records))
        self._kept: dict[str, Tensor] = {}
        # layer by layer, [R, K, units, inputs]; the inputs of the first are padded
        self._weights = []
        inputs = table.X.shape[1]
        for layer in model.layers(initial):
            weights = table.y.new_zeros(*self._shape, layer.shape[1], inputs)
            weights[:, 0, :, : layer.shape[2]] = torch.tensor(layer).to(table.y)
            self._weights.append(weights)
            inputs = layer.shape[1] + 1
        # views [R * K, units, inputs]
        self._flat = [weights.flatten(0, 1) for weights in self._weights]

    def train(
        self, rates: Floats, order_seeds: Integers, checkpoints: tuple[int, ...]
    ) -> tuple[NDArray[Any], ...]:
        """Train all models.

        With S neighbouring data sets, C checkpoints and p parameters, the result is the
        weights [R, S + 1, p], the trajectory [R, C, p] of the unmodified data set, and
        the visits [R, S], the numbers of steps whose batch held the record.
        """
        n = len(self._table.y)
        device = self._table.X.device
        R, K = self._shape
        # NumPy's streams. PyTorch's generator on the CPU uses only 32 bits of its seed,
        # so in one case of a hundred, two of 10,000 runs would be equal.
        streams = []
        for seed in order_seeds.tolist():
            sequence = np.random.SeedSequence(seed, spawn_key=(0,))
            streams.append(np.random.default_rng(sequence))
        orders = np.empty((R, n), dtype=np.int32)
        # of each neighbour's model; 0, the unmodified one, until its first visit
        columns = np.zeros((R, K - 1), dtype=np.int64)
        visits = np.zeros((R, K - 1), dtype=np.int64)
        # weights at the checkpoints
        recorded = []
        done = 0
        width = 1
        while done < len(rates):
            for order, stream in zip(orders, streams, strict=True):
                order[:] = stream.permutation(n)
            # no batch spans two epochs
            count = min(n // self._size, len(rates) - done)
            used = orders[:, : count * self._size].reshape(R, count, -1)
            # [steps, R, batch]
            by_step = np.ascontiguousarray(used.swapaxes(0, 1))
            rows = torch.from_numpy(by_step).view(count, -1).to(device)
            widths, hits = self._hits(by_step, columns, visits)
            for batch, wide, held in zip(rows, widths.tolist(), hits, strict=True):
                if done in checkpoints:
                    recorded.append(self._parameters()[:, 0])
                if wide > width:
                    # these are from now on other models than the unmodified one
                    for weights in self._weights:
                        weights[:, width:wide] = weights[:, :1]
                    width = wide
                self._step(batch, width, held, float(rates[done]) / self._size)
                done += 1
        models = np.pad(columns, ((0, 0), (1, 0)))
        # in the order of the neighbours again
        final = self._parameters()[np.arange(R)[:, None], models]
        if done in checkpoints:
            recorded.append(final[:, 0])
        trajectory = torch.stack(recorded, dim=1) if recorded else final[:, :0]
        return final.cpu().numpy(), trajectory.cpu().numpy(), visits

    def _hits(
        self, batches: NDArray[np.int32], columns: Integers, visits: Integers
    ) -> tuple[Integers, list[Tensor | None]]:
        """What the batches [steps, R, batch] of an epoch hold of the replaced records;
        visits are counted, and a model gets its column at its first one.

        Gives the number of models that each step trains, and for each step [2, visits]:
        the numbers run * K + column of the models whose record its batch holds, and the
        places of their logits for it, in the memory of all logits of the step.
        """
        K = self._shape[1]
        widths = np.full(len(batches), 1 + columns.max(initial=0))
        if K == 1:
            return widths, [None] * len(batches)
        neighbours = self._neighbour[batches]
        step, run, place = np.nonzero(neighbours >= 0)
        neighbour = neighbours[step, run, place]
        new = visits[run, neighbour] == 0
        for r, j in zip(run[new], neighbour[new], strict=True):
            columns[r, j] = columns[r].max() + 1
        # an epoch has each record once
        visits[run, neighbour] += 1
        column = columns[run, neighbour]
        np.maximum.at(widths, step, 1 + column)
        widths = np.maximum.accumulate(widths)
        # logits of a regression lie in memory with models last
        if self._model.hidden is None:
            cell = (run * self._size + place) * widths[step] + column
        else:
            cell = (run * widths[step] + column) * self._size + place
        held = torch.from_numpy(np.stack([run * K + column, cell]))
        every = np.bincount(step, minlength=len(batches)).tolist()
        parts = torch.split(held.to(self._table.X.device), every, 1)
        return widths, [part if part.numel() else None for part in parts]

    def _parameters(self) -> Tensor:
        """Parameters [R, K, p] of all models."""
        parts = []
        for weights, (_, inputs) in zip(self._weights, self._model.shapes, strict=True):
            parts.append(weights[..., :inputs].flatten(2))
        return torch.cat(parts, dim=2)

    def _step(self, rows: Tensor, width: int, hits: Tensor | None, rate: float) -> None:
        """Subtract rate * (sum of gradients) from the weights of the first ``width``
        models of each run.

        ``rows`` [R * batch] lists the batches run after run. A model whose batch holds
        its record sees the replacement instead; all gradients are taken at the weights
        before the step.
        """
        cells = None
        if hits is not None:
            # to iterate over a tensor takes a detour through Python, as its `len`
            models, cells = hits.unbind()
            gradients = self._at_replacement(models)
        R = self._shape[0]
        X = self._gathered(rows).view(R, self._size, -1)
        y = None
        if self._model.hidden is not None:
            y = self._table.y.index_select(0, rows).view(R, 1, self._size)
        used = [weights[:, :width] for weights in self._weights]
        self._descend(used, X, y, rate, cells)
        if hits is not None:
            for flat, gradient in zip(self._flat, gradients, strict=True):
                flat.index_add_(0, models, gradient, alpha=-rate)

    def _at_replacement(self, models: Tensor) -> list[Tensor]:
        """Gradients of the layers [V, units, inputs] of these models at the replacement
        alone: as in `_descend`, which would take twice the calls of a few numbers.
        """
        x = self._table.x_new[0]
        own = [flat.index_select(0, models) for flat in self._flat]
        if self._model.hidden is None:
            factors = torch.mv(own[0][:, 0], x).sigmoid_()
            return [torch.outer(factors, x)[:, None]]
        W, V = own
        v = _odds(V)
        # [V, h + 1], with the intercept's input
        inputs = pad(torch.matmul(W, x).relu_(), (0, 1), value=1)
        residuals = (inputs * v).sum(1).sigmoid_().sub_(self._table.y_new)[:, None]
        back = (v * (inputs > 0))[:, :-1] * residuals
        outer = inputs * residuals
        units = [-outer, outer] if V.shape[1] == 2 else [outer]
        return [back[:, :, None] * x, torch.stack(units, 1)]

    def _descend(
        self,
        layers: list[Tensor],
        X: Tensor,
        y: Tensor | None,
        rate: float,
        cells: Tensor | None,
    ) -> None:
        """One step of models with layers [R, K, units, inputs] on batches X [R, b, d']
        and labels y [R, 1, b], in place; the gradients of ``cells`` do not count.
        Without labels all are 0.
        """
        runs, size = X.shape[:2]
        width = layers[0].shape[1]
        if len(layers) == 1:
            W = layers[0][:, :, 0]
            if width == 1:
                # a product of rows is the faster one for a single model
                G = self._buffer("logits", runs, 1, size)
                torch.bmm(W, X.mT, out=G)
            else:
                Z = self._buffer("logits", runs, size, width)
                torch.bmm(X, W.mT, out=Z)
                G = Z.mT
            _residuals(G, y, cells)
            W.baddbmm_(G, X, alpha=-rate)
            return
        # [R, K h, d']
        W = layers[0].flatten(1, 2)
        V = layers[1]
        h = layers[0].shape[2]
        # [R, K, h + 1]
        v = _odds(V)
        A = self._buffer("activations", runs, width * h, size)
        torch.bmm(W, X.mT, out=A).relu_()
        A = A.view(runs, width, h, size)
        product = self._buffer("product", runs, width, h, size)
        # [R, K, batch]
        G = torch.mul(A, v[..., :h, None], out=product).sum(2).add_(v[..., h:])
        _residuals(G, y, cells)
        D = torch.mul(A, G[:, :, None], out=product).sum(3)  # [R, K, h]
        # the derivative of ReLU, in the memory of the activations
        active = torch.gt(A, 0, out=A)
        back = active.mul_(v[..., :h, None]).mul_(G[:, :, None])
        gradient = torch.cat([D, G.sum(2, keepdim=True)], 2)
        V[:, :, -1].sub_(gradient, alpha=rate)
        if V.shape[2] == 2:
            V[:, :, 0].add_(gradient, alpha=rate)
        W.baddbmm_(back.view(runs, width * h, size), X, alpha=-rate)

    def _gathered(self, rows: Tensor) -> Tensor:
        """Rows of the table [len(rows), d'], in the dtype of the training."""
        table = self._table.X
        shape = (rows.shape[0], table.shape[1])
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
        if name not in self._kept or self._kept[name].numel() < size:
            self._kept[name] = self._table.y.new_empty(size)
        return self._kept[name][:size].view(shape)


def _odds(output: Tensor) -> Tensor:
    """Weights [..., h + 1] of the log odds of class 1, from output layers [..., units,
    h + 1].
    """
    if output.shape[-2] == 1:
        return output[..., 0, :]
    return output[..., 1, :] - output[..., 0, :]


def _residuals(logits: Tensor, y: Tensor | None, cells: Tensor | None) -> None:
    """Probabilities of class 1 less labels, in place of logits [R, K, b]; 0 in the
    ``cells`` of their memory.
    """
    logits.sigmoid_()
    if y is not None:
        logits.sub_(y)
    if cells is not None:
        memory = logits if logits.is_contiguous() else logits.mT
        memory.view(-1).index_fill_(0, cells, 0)
