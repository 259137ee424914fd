"""Sums of clipped gradients: of softmax regressions in closed form, and of networks from
the gradient of every example.

For an example x of class y with probabilities p, the gradient of a softmax regression
[C, d + 1] is the outer product of the residual p - e_y and (x, 1). Its norm is
therefore |p - e_y| sqrt(|x|^2 + 1). The clipped sum is one matrix product with scaled
residuals, and no per-example gradient is ever formed. Weights are [R, C, d + 1] and
logits [R, C, batch], with the short axis first, which is several times faster than
last.

For a network ``torch.func`` (vmap of vjp) computes the gradient of each example as if
it were alone, so that nothing in a network can carry one example into the gradient of
another.

In both, norms are clipped to a bound that lies :data:`ROOM` below the clipping norm, and
float32 keeps all its digits.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.func import functional_call, vjp, vmap
from torch.nn.functional import cross_entropy

from dpnotes.learners._devices import slices, temporary_bytes
from dpnotes.learners._network_training import try_example

# of a clipping norm, kept free for the rounding of norms and factors
ROOM = {torch.float32: 2.0**-18, torch.float64: 2.0**-40}
# norms with squares to spare
SAFE = {torch.float32: (2.0**-30, 2.0**60), torch.float64: (2.0**-300, 2.0**500)}
# numbers whose squares are added up in float32
FEW = 2**12
# bytes of rows that are copied to float64 at once: more leave the cache of a core
NORM_BYTES = 2**20
# bytes of one micro-batch: more leaves the caches, less wastes the calls
CPU_BUDGET = 96 * 2**20

Clipped = Callable[[Tensor, Tensor, float], tuple[list[Tensor], Tensor]]


class SoftmaxSums:
    """Sums of clipped gradients of softmax regressions with intercepts.

    A row whose norm is too large to be squared, or to be multiplied by a residual
    whose square is not normal, is shortened to one that is not. Its clipped gradient
    has the same direction.

    Parameters
    ----------
    X : torch.Tensor, shape [n, d]
        Rows, which are changed.
    y : torch.Tensor of int64, shape [n]
    clipping_norm : float, > 0
    """

    def __init__(self, X: Tensor, y: Tensor, clipping_norm: float) -> None:
        longest = SAFE[X.dtype][1] * min(1.0, clipping_norm)
        norms = row_norms(X)
        far = norms > longest
        # entries may be beyond the dtype that they were converted to
        rows = X[far].clamp_(-torch.finfo(X.dtype).max, torch.finfo(X.dtype).max)
        largest = rows.abs().amax(1, keepdim=True)
        rows *= longest / math.sqrt(X.shape[1]) / largest
        X[far] = rows
        norms[far] = row_norms(rows)
        self._X = X
        self._y = y
        self._bound = clipping_norm * (1 - ROOM[X.dtype])
        # with the constant 1 of the intercept
        self._squares = (norms.square() + 1).to(X.dtype)
        # memory that each call uses again
        self._rows = X.new_empty(0, X.shape[1])
        self._sums = X.new_empty(0)

    def __call__(self, weights: Tensor, batch: Tensor, counts: Tensor | None) -> Tensor:
        """Sums [R, C, d + 1] of models with weights [R, C, d + 1], which the next call
        overwrites.

        ``batch`` [1 or R, B] lists rows, of which those in ``counts`` are in the batch.
        """
        models, classes, columns = weights.shape
        groups, size = batch.shape
        if self._sums.shape != weights.shape:
            self._sums = torch.empty_like(weights)
        if size == 0:
            return self._sums.zero_()
        d = columns - 1
        x = self._gathered(batch.flatten()).view(groups, size, d)
        # with shared batches (one group) all models' classes are rows of one product
        flat = weights[:, :, :d].reshape(groups, -1, d)
        residual = torch.bmm(flat, x.mT).view(models, classes, size)
        residual += weights[:, :, d:]
        residual = torch.softmax(residual, dim=1)
        target = self._y[batch].view(groups, 1, size).expand(models, 1, size)
        residual.scatter_add_(1, target, residual.new_full((), -1).expand(target.shape))
        # all classes of an example are NaN, or none
        residual.nan_to_num_()
        squares = residual.square().sum(1) * self._squares[batch]
        factor = (self._bound / squares.sqrt_()).clamp_(max=1)
        if counts is not None:
            factor = factor * counts
        residual *= factor[:, None]
        products = torch.bmm(residual.view(groups, -1, size), x)
        self._sums[:, :, :d] = products.view(models, classes, d)
        self._sums[:, :, d] = residual.sum(2)
        return self._sums

    def _gathered(self, rows: Tensor) -> Tensor:
        if len(self._rows) < len(rows):
            self._rows = self._X.new_empty(len(rows), self._X.shape[1])
        return torch.index_select(self._X, 0, rows, out=self._rows[: len(rows)])


def row_norms(X: Tensor) -> Tensor:
    """L2 norms [n] of rows, in float64: in float32 equal entries of a long row add up
    to an error of 1e-5.
    """
    norms = X.new_empty(len(X), dtype=torch.float64)
    most = temporary_bytes(X.device, on_cpu=NORM_BYTES) // (8 * X.shape[1])
    for part in slices(len(X), max(1, most)):
        norms[part] = torch.linalg.vector_norm(X[part], dim=1, dtype=torch.float64)
    return norms


def clipped_sums(network: nn.Module) -> Clipped:
    """Make the function of x [b, ...], y [b] and a clipping norm that gives clipped sums.

    It returns the sums over the examples of min(1, bound / |g|) g for each trained
    parameter, where |g| is the L2 norm over all of them, and the losses [b]. Examples
    whose gradient or its squared norm is not finite are left out of both.
    """

    def alone(
        trained: dict[str, Tensor], fixed: dict[str, Tensor], x: Tensor, y: Tensor
    ) -> tuple[dict[str, Tensor], Tensor]:
        def loss(own: dict[str, Tensor]) -> Tensor:
            logits = functional_call(network, {**own, **fixed}, (x[None],))
            return cross_entropy(logits, y[None])

        value, back, *_ = vjp(loss, trained)
        # to be differentiated again, which nobody does, a gradient would take group
        # normalisation apart into many small operations
        with torch.no_grad():
            (found,) = back(torch.ones_like(value))
        return found, value

    each = vmap(alone, in_dims=(None, None, 0, 0))

    def sums(x: Tensor, y: Tensor, clipping_norm: float) -> tuple[list[Tensor], Tensor]:
        trained: dict[str, Tensor] = {}
        fixed: dict[str, Tensor] = {}
        for name, value in network.named_parameters():
            part = trained if value.requires_grad else fixed
            part[name] = value.detach()
        if not len(x):
            zeros = [torch.zeros_like(value) for value in trained.values()]
            return zeros, x.new_zeros(0)
        found, losses = each(trained, fixed, x, y)
        gradients = list(found.values())
        norms = gradient_norms(gradients)
        known = norms.isfinite()
        if not bool(known.all()):
            gradients = [gradient[known] for gradient in gradients]
            norms = norms[known]
            losses = losses[known]
        bound = clipping_norm * (1 - ROOM[x.dtype])
        # exactly 1 for a norm of 0 and for an infinite bound
        factors = (bound / norms).clamp(max=1).to(x.dtype)
        total = [(factors @ g.flatten(1)).view(g.shape[1:]) for g in gradients]
        return total, losses

    return sums


def gradient_norms(gradients: list[Tensor]) -> Tensor:
    """L2 norms [b] of the examples' gradients [b, ...], over all parameters together,
    in float64.

    Only the weights of one unit, if they are few, are added up in the dtype of the
    gradients. In float32 a sum over many numbers can be wrong by 1e-3.
    """
    squares = []
    for gradient in gradients:
        units = gradient.shape[1] if gradient.ndim > 2 else 1
        rows = gradient.reshape(len(gradient), units, -1)
        exact = torch.float64 if rows.shape[2] > FEW else None
        norms = torch.linalg.vector_norm(rows, dim=2, dtype=exact)
        squares.append(norms.double().square().sum(1))
    return torch.stack(squares).sum(0).sqrt()


def micro_batch_size(network: nn.Module, example: Tensor) -> int:
    """Number of examples to process at once, which depends on the caches of a CPU or
    the free memory of a GPU.
    """
    numbers = sum(p.numel() for p in network.parameters() if p.requires_grad)
    _, outputs = try_example(network, example)
    # an output and its gradient, and the example's gradient of the parameters
    bytes_per_example = example.element_size() * (numbers + 2 * outputs)
    budget = temporary_bytes(example.device, on_cpu=CPU_BUDGET)
    return max(1, budget // bytes_per_example)
