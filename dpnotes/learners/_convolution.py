"""The small convolutional network of the bagging paper: two convolutions, each with pooling, one linear layer."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import nn
from torch.nn.utils import skip_init


def convolutional_network(
    image_shape: Sequence[int],
    n_classes: int,
    *,
    channels: Sequence[int] = (16, 32),
    kernel_size: int = 5,
    padding: int = 0,
    generator: torch.Generator | None = None,
) -> nn.Module:
    """Convolution, 2x2 max-pooling, ReLU for each entry of ``channels``, then one fully connected layer.

    Weights and biases are uniform on ``+-1/sqrt(fan_in)`` (PyTorch's own rule), drawn from ``generator`` alone.

    Parameters
    ----------
    image_shape : (channels, height, width)
    n_classes : int, >= 1
    channels : sequence of int
        Output channels of each convolution.
    kernel_size : int
        Side of the square kernels, in pixels.
    padding : int
        Zeros added on every side of the input of each convolution, in pixels.
    generator : torch.Generator
        Source of the initial weights.

    Returns
    -------
    torch.nn.Module
        Maps images [n, channels, height, width] to logits [n, n_classes]; float32, on the CPU.

    Raises
    ------
    TypeError
        If no generator is given: weights are never drawn from global state.
    ValueError
        If the image is too small for the convolutions.
    """
    if generator is None:
        raise TypeError("convolutional_network needs generator=torch.Generator().manual_seed(seed)")
    depth, *sides = image_shape
    layers: list[nn.Module] = []
    for width in channels:
        layers += [_bare(nn.Conv2d, depth, width, kernel_size, padding=padding), nn.MaxPool2d(2), nn.ReLU()]
        depth, sides = width, [(side + 2 * padding - kernel_size + 1) // 2 for side in sides]
        if min(sides) < 1:
            raise ValueError(
                f"image_shape={tuple(image_shape)} is too small for {len(channels)} convolutions with "
                f"kernel_size={kernel_size} and padding={padding}, each followed by 2x2 pooling"
            )
    network = nn.Sequential(*layers, nn.Flatten(), _bare(nn.Linear, depth * math.prod(sides), n_classes))
    for layer in network:
        if isinstance(layer, nn.Conv2d | nn.Linear):
            bound = 1 / math.sqrt(layer.weight[0].numel())  # fan_in: the inputs of one output unit
            for parameter in layer.parameters():
                nn.init.uniform_(parameter, -bound, bound, generator=generator)
    return network


def _bare(kind: type[nn.Module], *arguments: int, **options: int) -> nn.Module:
    """A layer without PyTorch's own initial weights, which come from global random state."""
    layer: nn.Module = skip_init(kind, *arguments, **options)  # type: ignore[no-untyped-call]
    return layer
