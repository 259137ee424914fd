"""What the engine of SGD asks of a family of models, and the data and buffers that they share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import numpy as np
import torch

from dpnotes._validation import Features, Integers
from dpnotes.learners._sgd_architecture import Architecture
from dpnotes.learners._sgd_batches import Visits

PAD = 8  # features are padded with zeros to a multiple: matrix products then run up to 1.3 times faster


class StepVisits(NamedTuple):
    """Visits of one step. ``models``, ``fresh``, ``base`` count models as run * K + column; ``cells`` logits, flat."""

    models: torch.Tensor
    cells: torch.Tensor
    fresh: torch.Tensor
    base: torch.Tensor


@dataclass(frozen=True, eq=False)
class Arrays:
    """Records on the device, with a column of ones for the intercept and columns of zeros up to a multiple of PAD.

    Parameters
    ----------
    X : torch.Tensor, shape [n, d']
        In float32 where the caller's are: training in float64 widens each batch, and reads half as much memory. For
        logistic regression records of class 1 have their sign turned, and so has the replacement.
    y : torch.Tensor, shape [n]
        0 or 1, in the dtype to train in.
    replacement : torch.Tensor, shape [d']
        In the dtype to train in.
    replacement_label : float
    """

    X: torch.Tensor
    y: torch.Tensor
    replacement: torch.Tensor
    replacement_label: float

    @property
    def width(self) -> int:
        """Columns d'."""
        return self.X.shape[1]


class Models(ABC):
    """K models in each of R runs; column 0 of a run is trained on the unmodified data.

    ``_weights`` holds, layer by layer, weights [R, K, units, inputs], and ``_flat`` views [R * K, units, inputs].
    """

    def __init__(self, model: Architecture, arrays: Arrays, initial: Features, n_models: int) -> None:
        self._n_runs, self._model, self._arrays = len(initial), model, arrays
        self._buffers = Buffers(arrays.X, arrays.y)
        self._weights = []
        inputs = arrays.width  # the inputs of a hidden layer's units are padded, those of an output unit are not
        for layer in model.layers(initial):
            weights = arrays.y.new_zeros(self._n_runs, n_models, layer.shape[1], inputs)
            weights[:, 0, :, : layer.shape[2]] = torch.tensor(layer).to(arrays.y)
            self._weights.append(weights)
            inputs = layer.shape[1] + 1  # without intercepts the last column stays 0
        self._flat = [weights.flatten(0, 1) for weights in self._weights]

    @staticmethod
    @abstractmethod
    def numbers_per_run(model: Architecture, *, width: int, n_models: int, batch_size: int) -> int:
        """Numbers that one run holds while it is trained."""

    @staticmethod
    @abstractmethod
    def cells(visits: Visits, size: Integers) -> Integers:
        """Index of each visit's logit among all logits of its step, whose batch has ``size`` records."""

    @abstractmethod
    def step(self, rows: torch.Tensor, width: int, visits: StepVisits | None, *, rate: float, decay: float) -> None:
        """Weights = decay * weights - rate * (sum of gradients), for the first ``width`` models of each run.

        ``rows`` [R * batch]: run after run. A model that visits sees the replacement record in place of
        its own; all gradients are taken at the weights before the step.
        """

    def weights(self, models: torch.Tensor) -> torch.Tensor:
        """Parameters [len(models), p] of models run * K + column."""
        layers = zip(self._flat, self._model.shapes, strict=True)
        parts = [flat.index_select(0, models)[..., :inputs].flatten(1) for flat, (_, inputs) in layers]
        return torch.cat(parts, dim=1)

    def _start(self, visits: StepVisits) -> None:
        """Start the neighbours that are visited for the first time from the run on the unmodified data."""
        if visits.fresh.shape[0]:
            for flat in self._flat:
                flat.index_copy_(0, visits.fresh, flat.index_select(0, visits.base))


class Buffers:
    """Memory that is used again in every step."""

    def __init__(self, table: torch.Tensor, like: torch.Tensor) -> None:
        self._table, self._like = table, like
        self._kept: dict[str, torch.Tensor] = {}
        self._narrow: torch.Tensor | None = None

    def flat(self, name: str, size: int) -> torch.Tensor:
        """First ``size`` numbers of a buffer; a smaller request leaves them as they are."""
        if name not in self._kept or self._kept[name].numel() < size:
            self._kept[name] = self._like.new_empty(size)
        return self._kept[name][:size]

    def shaped(self, name: str, *shape: int) -> torch.Tensor:
        """Give a buffer as a tensor of that shape."""
        return self.flat(name, prod(shape)).view(shape)

    def gather(self, rows: torch.Tensor) -> torch.Tensor:
        """Rows of the table [len(rows), d'], in the dtype to train in."""
        batch = self.shaped("batch", rows.shape[0], self._table.shape[1])
        if self._table.dtype == batch.dtype:
            return torch.index_select(self._table, 0, rows, out=batch)
        if self._narrow is None or len(self._narrow) < rows.shape[0]:
            self._narrow = self._table.new_empty(batch.shape)
        return batch.copy_(torch.index_select(self._table, 0, rows, out=self._narrow[: rows.shape[0]]))


def arrays(
    X: Features,
    y: Integers,
    replacement: tuple[Features, int],
    model: Architecture,
    *,
    dtype: np.dtype[Any],
    device: torch.device,
) -> Arrays:
    """Put the records on the device, as the family of the model takes them."""
    (n, d), one = X.shape, int(model.intercept)
    width = -(-(d + one) // PAD) * PAD
    padded = np.zeros((n, width), dtype=np.float32 if X.dtype == np.float32 else dtype)
    padded[:, :d] = X
    padded[:, d : d + one] = 1
    instead = padded[0].astype(dtype)
    instead[:d], label = replacement
    if model.hidden is None:
        np.negative(padded, out=padded, where=(y == 1)[:, None])
        instead *= 1 - 2 * label
    return Arrays(
        torch.from_numpy(padded).to(device),
        torch.tensor(y.astype(dtype), device=device),
        torch.tensor(instead, device=device),
        float(label),
    )
