"""Gradients of the cross-entropy for many networks of one architecture at once."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.func import functional_call, vjp, vmap

Weights = dict[str, torch.Tensor]
Gradients = Callable[[Weights, Weights, torch.Tensor, torch.Tensor, torch.Tensor], tuple[Weights, torch.Tensor]]

ELEMENTWISE = (nn.ReLU, nn.LeakyReLU, nn.ELU, nn.GELU, nn.SiLU, nn.Sigmoid, nn.Tanh)


def stacked_gradients(template: nn.Module) -> Gradients:
    """Give the function of trained and fixed weights, x, targets and row weights that returns gradients and logits.

    The networks are stacked and like ``template``: trained and fixed weights [M, ...] are given by name, x is
    [M, b, ...], targets [M, b, n_classes] are one-hot, and the row weights [M, b] are those of each model's mean.
    Gradients [M, ...] are those of the trained weights, logits [M, b, n_classes]. A chain of fully connected layers is
    differentiated by batched matrix products, anything else by ``torch.func``, whose own cost is about 1 ms a call.
    """
    return _of_chain(template) if is_chain(template) else _of_any(template)


def is_chain(network: nn.Module) -> bool:
    """Whether the network is a plain sequence of fully connected and elementwise layers, flattening at most first."""
    if type(network) is not nn.Sequential:
        return False
    layers = list(network)
    flatten = bool(layers) and type(layers[0]) is nn.Flatten and (layers[0].start_dim, layers[0].end_dim) == (1, -1)
    rest = layers[1:] if flatten else layers
    linear = [layer for layer in rest if type(layer) is nn.Linear]
    known = all(type(layer) in (nn.Linear, *ELEMENTWISE) for layer in rest)
    once = len({id(parameter) for layer in linear for parameter in layer.parameters()})
    return known and bool(linear) and once == sum(len(list(layer.parameters())) for layer in linear)


def _of_chain(template: nn.Module) -> Gradients:
    layers = dict(template.named_children())

    def gradients(
        trained: Weights, fixed: Weights, x: torch.Tensor, targets: torch.Tensor, weight: torch.Tensor
    ) -> tuple[Weights, torch.Tensor]:
        leaves = {name: value.detach().requires_grad_() for name, value in trained.items()}
        values = {**leaves, **fixed}
        h = x.flatten(2).mT  # [M, d, b]: rows last, so that the gradient of a weight lies in memory as the weight does
        for name, layer in layers.items():
            if isinstance(layer, nn.Linear):
                W, bias = values[f"{name}.weight"], values.get(f"{name}.bias")
                h = W @ h if bias is None else torch.baddbmm(bias[:, :, None], W, h)  # [M, units, b]
            elif not isinstance(layer, nn.Flatten):
                h = layer(h)
        error = (torch.softmax(h.detach(), 1) - targets.mT) * weight[:, None]  # the derivative of cross-entropy
        found = torch.autograd.grad(h, list(leaves.values()), error)
        return dict(zip(leaves, found, strict=True)), h.detach().mT

    return gradients


def _of_any(template: nn.Module) -> Gradients:
    def gradients(
        trained: Weights, fixed: Weights, x: torch.Tensor, targets: torch.Tensor, weight: torch.Tensor
    ) -> tuple[Weights, torch.Tensor]:
        logits, back, *_ = vjp(lambda own: functional_call(template, {**own, **fixed}, (x,)), trained)
        probabilities = torch.softmax(logits.T.contiguous(), 0).T  # classes first: ten times faster on a CPU
        (found,) = back((probabilities - targets) * weight[:, None])  # the derivative of cross-entropy
        return found, logits

    return vmap(gradients)
