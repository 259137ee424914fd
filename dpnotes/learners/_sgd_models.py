"""Binary classifiers for plain SGD, and one step on many models, which share their
batches within a run.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from dpnotes import _validation as check
from dpnotes._validation import Booleans, Features, Floats, Integers

OUTPUTS = ("sigmoid", "softmax")
# features are padded with zeros to a multiple: matrix products then run up to 1.3 times
# faster
PAD = 8


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


class Visits(NamedTuple):
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


class Arrays:
    """Records on the device, with a column of ones for the intercept and columns of
    zeros up to a multiple of PAD.

    The ``empty`` records are rows of zeros. For logistic regression, records of class 1
    have their sign reversed; the same holds for a replacement of class 1.

    Attributes
    ----------
    X : torch.Tensor, shape [n, d']
        Records, in float32 if the caller gave float32. Training in float64 then widens
        each batch, and reads half as much memory.
    y : torch.Tensor, shape [n]
        Labels 0 or 1, in the dtype of the training.
    replacement : torch.Tensor, shape [d']
        Replacement record, in the dtype of the training.
    replacement_label : float
    width : int
        Number of columns d'.
    """

    def __init__(
        self,
        X: Features,
        y: Integers,
        replacement: tuple[Features, int],
        model: Architecture,
        *,
        empty: Booleans | None,
        dtype: np.dtype[Any],
        device: torch.device,
    ) -> None:
        n, d = X.shape
        self.width = -(-(d + 1) // PAD) * PAD
        padded = np.zeros(
            (n, self.width), dtype=np.float32 if X.dtype == np.float32 else dtype
        )
        padded[:, :d] = X
        padded[:, d] = 1
        instead = padded[0].astype(dtype)
        instead[:d], label = replacement
        if model.hidden is None:
            np.negative(padded, out=padded, where=(y == 1)[:, None])
            instead *= 1 - 2 * label
        if empty is not None:
            padded[empty] = 0
        self.X, self.y = (
            torch.from_numpy(padded).to(device),
            torch.tensor(y.astype(dtype), device=device),
        )
        self.replacement, self.replacement_label = (
            torch.tensor(instead, device=device),
            float(label),
        )


class Models(ABC):
    """K models in each of R runs; column 0 of a run is trained on the unmodified data.

    ``_weights`` holds, layer by layer, weights [R, K, units, inputs], and ``_flat``
    their views [R * K, units, inputs].
    """

    def __init__(
        self, model: Architecture, arrays: Arrays, initial: Features, n_models: int
    ) -> None:
        self._n_runs, self._model, self._arrays = len(initial), model, arrays
        self._buffers = Buffers(arrays.X, arrays.y)
        self._weights = []
        # the inputs of a hidden layer's units are padded, those of an output unit are
        # not
        inputs = arrays.width
        for layer in model.layers(initial):
            weights = arrays.y.new_zeros(self._n_runs, n_models, layer.shape[1], inputs)
            weights[:, 0, :, : layer.shape[2]] = torch.tensor(layer).to(arrays.y)
            self._weights.append(weights)
            inputs = layer.shape[1] + 1
        self._flat = [weights.flatten(0, 1) for weights in self._weights]

    @staticmethod
    @abstractmethod
    def numbers_per_run(
        model: Architecture, *, width: int, n_models: int, batch_size: int
    ) -> int:
        """Count of the numbers that one run holds while it is trained."""

    @staticmethod
    @abstractmethod
    def cells(
        run: Integers, place: Integers, column: Integers, *, width: Integers, size: int
    ) -> Integers:
        """Index of each visit's logit among all logits of its step, in which each
        run has ``width`` models in use.
        """

    @abstractmethod
    def step(
        self, rows: Tensor, width: int, visits: Visits | None, *, rate: float
    ) -> None:
        """Subtract rate * (sum of gradients) from the weights of the first ``width``
        models of each run.

        ``rows`` [R * batch] lists the batches run after run. A model with a visit sees
        the replacement record instead of the original record; all gradients are taken
        at the weights before the step.
        """

    def weights(self, models: Tensor) -> Tensor:
        """Parameters [len(models), p] of models run * K + column."""
        layers = zip(self._flat, self._model.shapes, strict=True)
        parts = [
            flat.index_select(0, models)[..., :inputs].flatten(1)
            for flat, (_, inputs) in layers
        ]
        return torch.cat(parts, dim=1)

    def _start(self, visits: Visits) -> None:
        """Start the neighbours that are visited for the first time from the run on
        the unmodified data.
        """
        if visits.fresh.shape[0]:
            for flat in self._flat:
                flat.index_copy_(0, visits.fresh, flat.index_select(0, visits.base))


class LogisticModels(Models):
    """Weights [R, K, 1, d'] of K models in each of R runs.

    A record of class 1 has its sign reversed. With u = (1 - 2 y) (x, 1) the loss is
    log(1 + exp(w'u)) and its gradient is sigmoid(w'u) u for either class, so a step
    does not need labels. The batch of a run is gathered once for its K models: their
    logits and their update are two matrix products.
    """

    @staticmethod
    def numbers_per_run(
        model: Architecture, *, width: int, n_models: int, batch_size: int
    ) -> int:
        """Count the weights, one batch and its logits."""
        return n_models * width + batch_size * width + n_models * batch_size

    @staticmethod
    def cells(
        run: Integers, place: Integers, column: Integers, *, width: Integers, size: int
    ) -> Integers:
        """Index of each visit's logit; the logits are [R, batch, K]."""
        return (run * size + place) * width + column

    def step(
        self, rows: Tensor, width: int, visits: Visits | None, *, rate: float
    ) -> None:
        """Update the first ``width`` models of each run on its batch."""
        size, replacement = rows.shape[0] // self._n_runs, self._arrays.replacement
        X = self._buffers.gather(rows).view(self._n_runs, size, -1)
        W = self._weights[0][:, :width, 0]
        if visits is not None:
            self._start(visits)
            flat = self._flat[0][:, 0]
            # [V], gradients over u
            factors = torch.mv(
                flat.index_select(0, visits.models), replacement
            ).sigmoid_()
        if width == 1:  # a product of rows is the faster one for a single model
            G = self._buffers.shaped("logits", self._n_runs, 1, size)
            torch.bmm(W, X.mT, out=G)
        else:
            Z = self._buffers.shaped("logits", self._n_runs, size, width)
            torch.bmm(X, W.mT, out=Z)
            G = Z.mT  # [R, width, batch]
        G.sigmoid_()
        if visits is not None:
            self._buffers.flat("logits", G.numel()).index_fill_(0, visits.cells, 0)
        W.baddbmm_(G, X, alpha=-rate)
        if visits is not None:
            flat.index_add_(
                0, visits.models, torch.outer(factors, replacement), alpha=-rate
            )


class NetworkModels(Models):
    """Hidden weights [R, K, h, d'] and output weights [R, K, o, h + 1] of K models in
    each of R runs.

    One matrix product with the shared batch gives the hidden units of all models of a
    run, and one gives their update. With two softmax outputs the log odds of class 1
    follow from the difference v of their weights, and the two gradients are -D and D,
    where D is the gradient of a single output with weights v. So the same code serves
    both kinds of output.
    """

    @staticmethod
    def numbers_per_run(
        model: Architecture, *, width: int, n_models: int, batch_size: int
    ) -> int:
        """Count weights, one batch, and activations with two temporaries of the same
        size.
        """
        h = model.shapes[0][0]
        weights = n_models * (h * width + 2 * (h + 1))
        return weights + batch_size * width + 3 * n_models * h * batch_size

    @staticmethod
    def cells(
        run: Integers, place: Integers, column: Integers, *, width: Integers, size: int
    ) -> Integers:
        """Index of each visit's logit; the logits are [R, K, batch]."""
        return (run * width + column) * size + place

    def step(
        self, rows: Tensor, width: int, visits: Visits | None, *, rate: float
    ) -> None:
        """Update the first ``width`` models of each run on its batch."""
        runs, h, size = (
            self._n_runs,
            self._model.shapes[0][0],
            rows.shape[0] // self._n_runs,
        )
        X = self._buffers.gather(rows).view(runs, size, -1)
        W = self._weights[0][:, :width].flatten(1, 2)  # [R, width h, d']
        V = self._weights[1][:, :width]
        if visits is not None:
            self._start(visits)
            gradients = self._at_replacement(visits.models)
        v = self._odds(V)  # [R, width, h + 1]
        A = self._buffers.shaped("activations", runs, width * h, size)
        torch.bmm(W, X.mT, out=A).relu_()
        A = A.view(runs, width, h, size)
        product = self._buffers.shaped("product", runs, width, h, size)
        # [R, width, batch]
        G = torch.mul(A, v[..., :h, None], out=product).sum(2).add_(v[..., h:])
        G.sigmoid_().sub_(self._arrays.y.index_select(0, rows).view(runs, 1, size))
        if visits is not None:
            G.view(-1).index_fill_(0, visits.cells, 0)
        D = torch.mul(A, G[:, :, None], out=product).sum(3)  # [R, width, h]
        active = torch.gt(A, 0, out=A)
        back = (
            active.mul_(v[..., :h, None])
            .mul_(G[:, :, None])
            .view(runs, width * h, size)
        )
        self._descend(V, torch.cat([D, G.sum(2, keepdim=True)], 2), rate)
        W.baddbmm_(back, X, alpha=-rate)
        if visits is not None:
            for flat, gradient in zip(self._flat, gradients, strict=True):
                flat.index_add_(0, visits.models, gradient, alpha=-rate)

    def _odds(self, output: Tensor) -> Tensor:
        """Weights [..., h + 1] of the log odds of class 1."""
        return (
            output[..., 1, :] - output[..., 0, :]
            if output.shape[-2] == 2
            else output[..., 0, :]
        )

    def _descend(self, output: Tensor, gradient: Tensor, rate: float) -> None:
        """Step against the gradient [..., h + 1] of the odds' weights."""
        for unit in range(output.shape[-2]):
            signed = rate if output.shape[-2] == 2 and unit == 0 else -rate
            output[..., unit, :].add_(gradient, alpha=signed)

    def _at_replacement(self, models: Tensor) -> tuple[Tensor, Tensor]:
        """Gradient of the loss of the replacement record in those models: [V, h, d']
        and [V, o, h + 1].
        """
        (hidden, output), record = (
            (flat.index_select(0, models) for flat in self._flat),
            self._arrays.replacement,
        )
        v = self._odds(output)  # [V, h + 1]
        a = torch.matmul(hidden, record).relu_()  # [V, h]
        # [V]
        g = (
            (a * v[:, :-1]).sum(1) + v[:, -1]
        ).sigmoid_() - self._arrays.replacement_label
        back = (a > 0) * v[:, :-1] * g[:, None]
        gradient = torch.cat([a, torch.ones_like(g)[:, None]], dim=1) * g[:, None]
        both = (-gradient, gradient) if output.shape[1] == 2 else (gradient,)
        return back[:, :, None] * record, torch.stack(both, dim=1)


class Buffers:
    """Memory that every step uses again."""

    def __init__(self, table: Tensor, like: Tensor) -> None:
        self._table, self._like = table, like
        self._kept: dict[str, Tensor] = {}
        self._narrow: Tensor | None = None

    def flat(self, name: str, size: int) -> Tensor:
        """First ``size`` numbers of a buffer; a smaller request does not change
        them.
        """
        if name not in self._kept or self._kept[name].numel() < size:
            self._kept[name] = self._like.new_empty(size)
        return self._kept[name][:size]

    def shaped(self, name: str, *shape: int) -> Tensor:
        """Give a buffer as a tensor of that shape."""
        return self.flat(name, prod(shape)).view(shape)

    def gather(self, rows: Tensor) -> Tensor:
        """Rows of the table [len(rows), d'], in the dtype of the training."""
        batch = self.shaped("batch", rows.shape[0], self._table.shape[1])
        if self._table.dtype == batch.dtype:
            return torch.index_select(self._table, 0, rows, out=batch)
        if self._narrow is None or len(self._narrow) < rows.shape[0]:
            self._narrow = self._table.new_empty(batch.shape)
        return batch.copy_(
            torch.index_select(self._table, 0, rows, out=self._narrow[: rows.shape[0]])
        )
