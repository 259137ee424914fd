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

COMPANY = 4  # examples, of which one is looked at
MIXED = (
    "for an example depend on the other examples of its batch, as with batch"
    " normalisation; use GroupNorm"
)
CHANCE = (
    "for an example differ from call to call, as with dropout or a layer that remembers"
    " examples; leave it out"
)


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


@torch.no_grad()
def check_alone(network: nn.Module, example: Tensor) -> None:
    """Raise an error if the logits for an example depend on more than the example.

    Batch normalisation mixes examples, other layers remember earlier ones, and dropout
    draws from global random state. None is looked for by its name: the function
    computes the logits of random examples, alone, in company and alone again, both
    while training and not. Of ``example`` [1, ...] it uses the shape, the dtype and the
    device.
    """
    examples = torch.rand(
        COMPANY,
        *example.shape[1:],
        dtype=example.dtype,
        generator=torch.Generator().manual_seed(0),
    ).to(example.device)
    training = network.training
    tolerance = torch.finfo(example.dtype).eps ** 0.5
    for mode in (True, False):
        network.train(mode)
        try:
            alone = network(examples[:1])
            together = network(examples)
            again = network(examples[:1])
        except ValueError as error:
            raise ValueError(
                "build gives a network that cannot compute the logits of an example"
                f" alone: {error}"
            ) from error
        room = tolerance * float(together.abs().max())
        for other, what in ((again, CHANCE), (together[:1], MIXED)):
            if not torch.allclose(alone, other, rtol=0, atol=room, equal_nan=True):
                raise ValueError(f"build gives a network whose logits {what}")
    network.train(training)


def check_network(
    network: nn.Module, example: Tensor, labels: NDArray[np.integer]
) -> tuple[int, int]:
    """Check the network's layers, and that its logits for one example [1, ...] include
    one for each label.

    A network whose logits for an example depend on more than the example raises an
    error. The function returns the result of :func:`try_example`.
    """
    if not any(parameter.requires_grad for parameter in network.parameters()):
        raise ValueError(
            "build gives a network without any parameter that requires a gradient:"
            " nothing to train"
        )
    check_alone(network, example)
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
