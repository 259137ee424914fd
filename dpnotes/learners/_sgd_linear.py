"""One step of SGD on many logistic regressions that share batches within a run."""

from __future__ import annotations

import torch

from dpnotes._validation import Integers
from dpnotes.learners._sgd_architecture import Architecture
from dpnotes.learners._sgd_batches import Visits
from dpnotes.learners._sgd_models import Models, StepVisits


class LogisticModels(Models):
    """Weights [R, K, 1, d'] of K models in each of R runs.

    A record of class 1 has its sign turned: with u = (1 - 2 y) (x, 1) the loss is log(1 + exp(w'u)) and its
    gradient sigmoid(w'u) u, whatever the class, so that a step needs no labels. One gather for each run serves its K
    models: their logits and their update are two matrix products.
    """

    @staticmethod
    def numbers_per_run(model: Architecture, *, width: int, n_models: int, batch_size: int) -> int:
        """Weights, one batch and its logits."""
        return n_models * width + batch_size * width + n_models * batch_size

    @staticmethod
    def cells(visits: Visits, size: Integers) -> Integers:
        """Logits are [R, batch, K]."""
        return (visits.run * size + visits.place) * visits.width[visits.step] + visits.column

    def step(self, rows: torch.Tensor, width: int, visits: StepVisits | None, *, rate: float, decay: float) -> None:
        """Update the first ``width`` models of each run on its batch."""
        size, replacement = rows.shape[0] // self._n_runs, self._arrays.replacement
        X = self._buffers.gather(rows).view(self._n_runs, size, -1)
        W = self._weights[0][:, :width, 0]
        if visits is not None:
            self._start(visits)
            flat = self._flat[0][:, 0]
            factors = torch.mv(flat.index_select(0, visits.models), replacement).sigmoid_()  # [V], gradients over u
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
        W.baddbmm_(G, X, beta=decay, alpha=-rate)
        if visits is not None:
            flat.index_add_(0, visits.models, torch.outer(factors, replacement), alpha=-rate)
