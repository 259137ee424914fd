"""Checks of the data and the layers of networks, and initial weights from another
training run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd


def check_data(
    images: NDArray[Any], labels: NDArray[np.integer], *, dtypes: tuple[str, ...]
) -> None:
    """Raise an error for images and labels that do not fit each other or are not
    suitable numbers.
    """
    if len(labels) != len(images):
        raise ValueError(
            f"images and labels must have equal length, got {len(images)} and"
            f" {len(labels)}"
        )
    if not len(images):
        raise ValueError("images must hold at least one image, got none")
    if images.dtype.name not in dtypes:
        raise ValueError(
            f"images must be {', '.join(dtypes[:-1])} or {dtypes[-1]}, got"
            f" {images.dtype}"
        )
    if np.ndim(labels) != 1 or labels.dtype.kind not in "iu":
        raise ValueError(
            f"labels must hold class codes, shape [n], got {labels.dtype} of shape"
            f" {np.shape(labels)}"
        )
    if images.dtype != np.uint8 and not np.isfinite(images).all():
        raise ValueError(
            f"images must be finite, got {int((~np.isfinite(images)).sum())} bad"
            " entries"
        )


def check_buffers(network: nn.Module) -> None:
    """Raise an error for buffers, which several models of one tensor program would
    share.
    """
    for name, _ in network.named_buffers():
        raise ValueError(
            f"build gives a network with the buffer {name!r}, which is not separate"
            " between models; make it a parameter or a constant"
        )


@contextmanager
def forward_hook(
    layers: Iterable[nn.Module], hook: Callable[..., Any]
) -> Iterator[None]:
    """Call ``hook(layer, inputs, output)`` after each of these layers, within the
    block.
    """
    handles = [layer.register_forward_hook(hook) for layer in layers]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@torch.no_grad()
def try_example(network: nn.Module, example: Tensor) -> tuple[int, int]:
    """Check the logits of one example [1, ...]; return the number of classes and the
    number of values of all layers.
    """
    counts: list[int] = []

    def count(_layer: nn.Module, _inputs: object, output: Tensor) -> None:
        counts.append(output.numel())

    with forward_hook(
        (layer for layer in network.modules() if not any(layer.children())), count
    ):
        logits = network(example)
    if logits.ndim != 2 or len(logits) != 1:
        raise ValueError(
            "build must give a network with logits [n, n_classes], got shape"
            f" {tuple(logits.shape)} for one example"
        )
    return logits.shape[1], sum(counts)


def check_network(
    network: nn.Module, example: Tensor, labels: NDArray[np.integer]
) -> tuple[int, int]:
    """Check the network's layers, and that its logits for one example [1, ...] include
    one for each label.

    Layers that make a model depend on other models, on other examples or on global
    random state raise an error. The function returns the result of :func:`try_example`.
    """
    for name, layer in network.named_modules():
        kind = type(layer).__name__
        if isinstance(layer, _BatchNorm):
            raise ValueError(
                f"build gives a network with batch normalisation (layer {name!r},"
                f" {kind}), which mixes the examples of a batch and stores running"
                " statistics; use GroupNorm"
            )
        if isinstance(layer, _DropoutNd) and layer.p > 0:
            raise ValueError(
                f"build gives a network with dropout (layer {name!r}, {kind}), which"
                " draws from global random state; leave it out"
            )
    if not any(parameter.requires_grad for parameter in network.parameters()):
        raise ValueError(
            "build gives a network without any parameter that requires a gradient:"
            " nothing to train"
        )
    n_classes, n_values = try_example(network, example)
    if labels.min() < 0 or labels.max() >= n_classes:
        raise ValueError(
            f"labels must hold class codes of the network, 0..{n_classes - 1}, got"
            f" {labels.min()}..{labels.max()}"
        )
    return n_classes, n_values


@torch.no_grad()
def load_weights(
    network: nn.Module, weights: Mapping[str, Tensor], *, new_last_layer: bool
) -> None:
    """Copy weights into the network.

    Parameters
    ----------
    network : torch.nn.Module
    weights : mapping of str to torch.Tensor
        Values of parameters by name; values for a new last layer are ignored.
    new_last_layer : bool
        Whether to leave the last linear layer of ``network`` unchanged.

    Raises
    ------
    ValueError
        If a name does not belong to the network or is missing, a shape differs, an
        entry is not finite, or there is no linear layer.
    """
    named = dict(network.named_parameters())
    kept = _last_layer(network) if new_last_layer else frozenset()
    unknown = sorted(set(weights) - set(named))
    if unknown:
        raise ValueError(
            f"initial names {unknown[0]!r}, but the network has {', '.join(named)}"
        )
    missing = sorted(set(named) - set(weights) - kept)
    if missing:
        raise ValueError(
            f"initial must hold all parameters, but {missing[0]!r} is missing"
        )
    for name in set(weights) - kept:
        value, own = torch.as_tensor(weights[name]), named[name]
        if value.shape != own.shape:
            raise ValueError(
                f"initial[{name!r}] must have shape {tuple(own.shape)}, got"
                f" {tuple(value.shape)}; for other classes use new_last_layer=True"
            )
        if not value.isfinite().all():
            raise ValueError(f"initial[{name!r}] must be finite")
        own.copy_(value)


def _last_layer(network: nn.Module) -> frozenset[str]:
    linear = [
        name for name, layer in network.named_modules() if isinstance(layer, nn.Linear)
    ]
    if not linear:
        raise ValueError(
            "new_last_layer=True needs a network with a linear layer, but build gives"
            " none"
        )
    prefix = f"{linear[-1]}." if linear[-1] else ""
    return frozenset(
        prefix + name
        for name, _ in network.get_submodule(linear[-1]).named_parameters()
    )
