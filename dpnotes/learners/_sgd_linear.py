"""One step of SGD on many logistic regressions that share batches within a run."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from dpnotes.learners._sgd_architecture import Architecture
from dpnotes.learners._sgd_models import Arrays, Buffers, Models, StepHits


class LogisticModels(Models):
    """Weights [R, K, d'] of K models in each of R runs.

    A record of class 1 has its sign turned: with u = (1 - 2 y) (x, 1) the loss is log(1 + exp(w'u)) and its
    gradient sigmoid(w'u) u, whatever the class, so that a step needs no labels. One gather for each run serves its K
    models: their logits and their update are two matrix products.
    """

    def __init__(self, model: Architecture, arrays: Arrays, initial: NDArray[np.floating], n_models: int) -> None:
        self._n_runs, self._p = len(initial), model.n_parameters
        self._table, self._replacement = arrays.X, arrays.replacement
        shape = (self._n_runs, n_models, self._table.shape[1])
        self._weights = arrays.y.new_zeros(shape)
        self._weights[:, 0, : self._p] = torch.tensor(initial).to(arrays.y)
        self._flat = self._weights.view(-1, shape[2])
        self._buffers = Buffers(self._table, arrays.y)

    @staticmethod
    def bytes_per_run(model: Architecture, arrays: Arrays, *, n_models: int, batch_size: int) -> int:
        """Weights, one batch and its logits."""
        width = arrays.width
        return arrays.itemsize * (n_models * width + batch_size * width + n_models * batch_size)

    @staticmethod
    def cells(
        run: NDArray[np.int64],
        place: NDArray[np.int64],
        column: NDArray[np.int64],
        *,
        width: NDArray[np.int64],
        size: NDArray[np.int64],
    ) -> NDArray[np.int64]:
        """Where the logits of those models on those records lie: logits are [R, batch, K]."""
        return (run * size + place) * width + column

    def step(self, rows: torch.Tensor, width: int, hits: StepHits | None, *, rate: float, decay: float) -> None:
        """Update the first ``width`` models of each run on its batch."""
        size = rows.shape[0] // self._n_runs
        X = self._buffers.gather(rows).view(self._n_runs, size, -1)
        W = self._weights[:, :width]
        if hits is not None:
            self.part(hits)
            pull = torch.mv(self._flat.index_select(0, hits.models), self._replacement).sigmoid_()  # [H]
        if width == 1:  # a product of rows is the faster one for a single model
            G = self._buffers.room("logits", self._n_runs, 1, size)
            torch.bmm(W, X.mT, out=G)
        else:
            Z = self._buffers.room("logits", self._n_runs, size, width)
            torch.bmm(X, W.mT, out=Z)
            G = Z.mT  # [R, width, batch]
        G.sigmoid_()
        if hits is not None:
            self._buffers.flat("logits", G.numel()).index_fill_(0, hits.cells, 0)
        W.baddbmm_(G, X, beta=decay, alpha=-rate)
        if hits is not None:
            self._flat.index_add_(0, hits.models, torch.outer(pull, self._replacement), alpha=-rate)

    def part(self, hits: StepHits) -> None:
        """Start the neighbours that are hit for the first time from the run on the unmodified data."""
        if hits.fresh.shape[0]:
            self._flat.index_copy_(0, hits.fresh, self._flat.index_select(0, hits.base))

    def weights(self, models: torch.Tensor) -> torch.Tensor:
        """Parameters [len(models), p] of models run * K + column."""
        return self._flat.index_select(0, models)[:, : self._p]
