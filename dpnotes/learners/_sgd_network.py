"""One step of SGD on many networks of one hidden layer that share batches within a run; the backward pass by hand."""

from __future__ import annotations

import torch

from dpnotes._validation import Integers
from dpnotes.learners._sgd_architecture import Architecture
from dpnotes.learners._sgd_batches import Visits
from dpnotes.learners._sgd_models import Models, StepVisits


class NetworkModels(Models):
    """Hidden weights [R, K, h, d'] and output weights [R, K, o, h + 1] of K models in each of R runs.

    Hidden units of all models of a run are the rows of one matrix product with the shared batch, as is their update.
    With two softmax outputs the log odds of class 1 are those of the difference v of their weights, and the two
    gradients are -D and D where D is that of a single output with weights v: both outputs take one path.
    """

    @staticmethod
    def numbers_per_run(model: Architecture, *, width: int, n_models: int, batch_size: int) -> int:
        """Weights, one batch, and activations with two temporaries of their size."""
        h = model.shapes[0][0]
        weights = n_models * (h * width + 2 * (h + 1))
        return weights + batch_size * width + 3 * n_models * h * batch_size

    @staticmethod
    def cells(visits: Visits, size: Integers) -> Integers:
        """Logits are [R, K, batch]."""
        return (visits.run * visits.width[visits.step] + visits.column) * size + visits.place

    def step(self, rows: torch.Tensor, width: int, visits: StepVisits | None, *, rate: float, decay: float) -> None:
        """Update the first ``width`` models of each run on its batch."""
        runs, h, size = self._n_runs, self._model.shapes[0][0], rows.shape[0] // self._n_runs
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
        G = torch.mul(A, v[..., :h, None], out=product).sum(2).add_(v[..., h:])  # [R, width, batch]
        G.sigmoid_().sub_(self._arrays.y.index_select(0, rows).view(runs, 1, size))
        if visits is not None:
            G.view(-1).index_fill_(0, visits.cells, 0)
        D = torch.mul(A, G[:, :, None], out=product).sum(3)  # [R, width, h]
        active = torch.gt(A, 0, out=A)
        back = active.mul_(v[..., :h, None]).mul_(G[:, :, None]).view(runs, width * h, size)
        if decay != 1:
            V.mul_(decay)
        self._descend(V, D, G.sum(2), rate)
        W.baddbmm_(back, X, beta=decay, alpha=-rate)
        if visits is not None:
            for flat, gradient in zip(self._flat, gradients, strict=True):
                flat.index_add_(0, visits.models, gradient, alpha=-rate)

    def _odds(self, output: torch.Tensor) -> torch.Tensor:
        """Weights [..., h + 1] of the log odds of class 1."""
        return output[..., 1, :] - output[..., 0, :] if output.shape[-2] == 2 else output[..., 0, :]

    def _descend(self, output: torch.Tensor, D: torch.Tensor, bias: torch.Tensor, rate: float) -> None:
        """Step against the gradient of the odds' weights, D [..., h] and of their intercept [...]."""
        h = D.shape[-1]
        for unit in range(output.shape[-2]):
            signed = rate if output.shape[-2] == 2 and unit == 0 else -rate
            output[..., unit, :h].add_(D, alpha=signed)
            if self._model.intercept:
                output[..., unit, h].add_(bias, alpha=signed)

    def _at_replacement(self, models: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Gradient of the loss of the replacement record in those models: [V, h, d'] and [V, o, h + 1]."""
        (hidden, output), record = (flat.index_select(0, models) for flat in self._flat), self._arrays.replacement
        v = self._odds(output)  # [V, h + 1]
        a = torch.matmul(hidden, record).relu_()  # [V, h]
        g = ((a * v[:, :-1]).sum(1) + v[:, -1]).sigmoid_() - self._arrays.replacement_label  # [V]
        back = (a > 0) * v[:, :-1] * g[:, None]
        gradient = torch.cat([a, torch.full_like(g, self._model.intercept)[:, None]], dim=1) * g[:, None]
        both = (-gradient, gradient) if output.shape[1] == 2 else (gradient,)
        return back[:, :, None] * record, torch.stack(both, dim=1)
