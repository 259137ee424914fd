"""One step of SGD on many networks of one hidden layer that share batches within a run; the backward pass by hand."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from dpnotes.learners._sgd_architecture import Architecture
from dpnotes.learners._sgd_models import Arrays, Buffers, Models, StepHits


class NetworkModels(Models):
    """Hidden weights [R, K, h, d'] and output weights [R, K, o, h + 1] of K models in each of R runs.

    Hidden units of all models of a run are the rows of one matrix product with the shared batch, as is their update.
    With two softmax outputs the log odds of class 1 are those of the difference v of their weights, and the two
    gradients are -D and D where D is that of a single output with weights v: both outputs take one path.
    """

    def __init__(self, model: Architecture, arrays: Arrays, initial: NDArray[np.floating], n_models: int) -> None:
        assert model.hidden is not None  # else these are not networks
        self._n_runs, self._model, self._h = len(initial), model, model.hidden
        self._table, self._labels = arrays.X, arrays.y
        self._replacement, self._replacement_label = arrays.replacement, arrays.replacement_label
        inputs, outputs = (torch.tensor(part).to(arrays.y) for part in model.layers(initial))
        self._inputs = model.d + int(model.intercept)
        shape = (self._n_runs, n_models, self._h, self._table.shape[1])
        self._hidden = arrays.y.new_zeros(shape)
        self._hidden[:, 0, :, : self._inputs] = inputs
        self._output = arrays.y.new_zeros((self._n_runs, n_models, outputs.shape[1], self._h + 1))
        self._output[:, 0, :, : outputs.shape[2]] = outputs  # without intercepts the last column stays 0
        self._flat_hidden, self._flat_output = self._hidden.flatten(0, 1), self._output.flatten(0, 1)
        self._buffers = Buffers(self._table, arrays.y)

    @staticmethod
    def bytes_per_run(model: Architecture, arrays: Arrays, *, n_models: int, batch_size: int) -> int:
        """Weights, one batch, and activations with two temporaries of their size."""
        assert model.hidden is not None  # else these are not networks
        width = arrays.width
        weights = n_models * (model.hidden * width + 2 * (model.hidden + 1))
        return arrays.itemsize * (weights + batch_size * width + 3 * n_models * model.hidden * batch_size)

    @staticmethod
    def cells(
        run: NDArray[np.int64],
        place: NDArray[np.int64],
        column: NDArray[np.int64],
        *,
        width: NDArray[np.int64],
        size: NDArray[np.int64],
    ) -> NDArray[np.int64]:
        """Where the logits of those models on those records lie: logits are [R, K, batch]."""
        return (run * width + column) * size + place

    def step(self, rows: torch.Tensor, width: int, hits: StepHits | None, *, rate: float, decay: float) -> None:
        """Update the first ``width`` models of each run on its batch."""
        runs, h, size = self._n_runs, self._h, rows.shape[0] // self._n_runs
        X = self._buffers.gather(rows).view(runs, size, -1)
        W = self._hidden[:, :width].flatten(1, 2)  # [R, width h, d']
        V = self._output[:, :width]
        if hits is not None:
            self.part(hits)
            hidden_pull, output_pull = self._at_replacement(hits.models)
        v = self._odds(V)  # [R, width, h + 1]
        A = self._buffers.room("activations", runs, width * h, size)
        torch.bmm(W, X.mT, out=A).relu_()
        A = A.view(runs, width, h, size)
        product = self._buffers.room("product", runs, width, h, size)
        G = torch.mul(A, v[..., :h, None], out=product).sum(2).add_(v[..., h:])  # [R, width, batch]
        G.sigmoid_().sub_(self._labels.index_select(0, rows).view(runs, 1, size))
        if hits is not None:
            G.view(-1).index_fill_(0, hits.cells, 0)
        D = torch.mul(A, G[:, :, None], out=product).sum(3)  # [R, width, h]
        active = torch.gt(A, 0, out=A)
        back = active.mul_(v[..., :h, None]).mul_(G[:, :, None]).view(runs, width * h, size)
        if decay != 1:
            V.mul_(decay)
        self._descend(V, D, G.sum(2), rate)
        W.baddbmm_(back, X, beta=decay, alpha=-rate)
        if hits is not None:
            self._flat_hidden.index_add_(0, hits.models, hidden_pull, alpha=-rate)
            self._flat_output.index_add_(0, hits.models, output_pull, alpha=-rate)

    def part(self, hits: StepHits) -> None:
        """Start the neighbours that are hit for the first time from the run on the unmodified data."""
        if hits.fresh.shape[0]:
            for flat in (self._flat_hidden, self._flat_output):
                flat.index_copy_(0, hits.fresh, flat.index_select(0, hits.base))

    def weights(self, models: torch.Tensor) -> torch.Tensor:
        """Parameters [len(models), p] of models run * K + column."""
        hidden = self._flat_hidden.index_select(0, models)[..., : self._inputs].flatten(1)
        output = self._flat_output.index_select(0, models)[..., : self._model.shapes[1][1]].flatten(1)
        return torch.cat([hidden, output], dim=1)

    def _odds(self, output: torch.Tensor) -> torch.Tensor:
        """Weights [..., h + 1] of the log odds of class 1."""
        return output[..., 1, :] - output[..., 0, :] if output.shape[-2] == 2 else output[..., 0, :]

    def _descend(self, output: torch.Tensor, D: torch.Tensor, bias: torch.Tensor, rate: float) -> None:
        """Step against the gradient of the odds' weights, D [..., h] and of their intercept [...]."""
        h = self._h
        for unit in range(output.shape[-2]):
            signed = rate if output.shape[-2] == 2 and unit == 0 else -rate
            output[..., unit, :h].add_(D, alpha=signed)
            if self._model.intercept:
                output[..., unit, h].add_(bias, alpha=signed)

    def _at_replacement(self, models: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Gradient of the loss of the replacement record in those models: [H, h, d'] and [H, o, h + 1]."""
        v = self._odds(self._flat_output.index_select(0, models))  # [H, h + 1]
        a = torch.matmul(self._flat_hidden.index_select(0, models), self._replacement).relu_()  # [H, h]
        g = ((a * v[:, : self._h]).sum(1) + v[:, self._h]).sigmoid_() - self._replacement_label  # [H]
        back = (a > 0) * v[:, : self._h] * g[:, None]
        gradient = torch.cat([a, torch.full_like(g, self._model.intercept)[:, None]], dim=1) * g[:, None]
        both = (-gradient, gradient) if self._output.shape[2] == 2 else (gradient,)
        return back[:, :, None] * self._replacement, torch.stack(both, dim=1)
