"""Sums of the clipped gradients of a network, from the gradient of every example.

``torch.func`` (vmap of grad) computes the gradient of each example as if it were alone,
so that nothing in a network can carry one example into the gradient of another.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, vmap
from torch.nn.functional import cross_entropy

from dpnotes.learners._chunks import temporary_bytes
from dpnotes.learners._network_initial import try_example

# bytes of one micro-batch: more leaves the caches, less wastes the calls
CPU_BUDGET = 48 * 2**20

Clipped = Callable[[Tensor, Tensor, float], tuple[dict[str, Tensor], Tensor]]


def clipped_sums(network: nn.Module) -> Clipped:
    """Make the function of x [b, ...], y [b] and a bound > 0 that gives clipped sums.

    It returns the sums over the examples of min(1, bound / |g|) g by parameter name,
    where |g| is the L2 norm over all trained parameters, and the losses [b]. Examples
    whose gradient or its squared norm is not finite are left out of both.
    """

    def loss(
        trained: dict[str, Tensor], fixed: dict[str, Tensor], x: Tensor, y: Tensor
    ) -> Tensor:
        logits = functional_call(network, {**trained, **fixed}, (x[None],))
        return cross_entropy(logits, y[None])

    each = vmap(grad_and_value(loss), in_dims=(None, None, 0, 0))

    def sums(x: Tensor, y: Tensor, bound: float) -> tuple[dict[str, Tensor], Tensor]:
        trained: dict[str, Tensor] = {}
        fixed: dict[str, Tensor] = {}
        for name, value in network.named_parameters():
            part = trained if value.requires_grad else fixed
            part[name] = value.detach()
        if not len(x):
            zeros = {name: torch.zeros_like(value) for name, value in trained.items()}
            return zeros, x.new_zeros(0)
        gradients, losses = each(trained, fixed, x, y)
        norms = gradient_norms(gradients)
        known = norms.isfinite()
        if not bool(known.all()):
            gradients = {name: g[known] for name, g in gradients.items()}
            norms, losses = norms[known], losses[known]
        # exactly 1 for a norm of 0 and for an infinite bound
        factors = (bound / norms).clamp(max=1).to(losses.dtype)
        total = {
            name: (factors @ g.flatten(1)).view(g.shape[1:])
            for name, g in gradients.items()
        }
        return total, losses

    return sums


def gradient_norms(gradients: dict[str, Tensor]) -> Tensor:
    """L2 norms [b] of the examples' gradients [b, ...], over all parameters together,
    in float64.

    Only the weights of one unit are added up in the dtype of the gradients. In float32
    a sum over all parameters can be wrong by 1e-5.
    """
    squares = []
    for gradient in gradients.values():
        units = gradient.shape[1] if gradient.ndim > 2 else 1
        norms = torch.linalg.vector_norm(
            gradient.reshape(len(gradient), units, -1), dim=2
        )
        squares.append(norms.double().square().sum(1))
    return torch.stack(squares).sum(0).sqrt()


def micro_batch_size(network: nn.Module, example: Tensor) -> int:
    """Number of examples to process at once, which depends on the caches of a CPU or
    the free memory of a GPU.
    """
    numbers = sum(
        parameter.numel()
        for parameter in network.parameters()
        if parameter.requires_grad
    )
    # an output and its gradient, and the example's gradient of the parameters
    bytes_per_example = example.element_size() * (
        numbers + 2 * try_example(network, example)[1]
    )
    budget = temporary_bytes(example.device, on_cpu=CPU_BUDGET)
    return max(1, budget // bytes_per_example)
