"""Networks with group normalisation, which unlike batch normalisation keeps examples apart: ResNet, VGG, perceptron."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

import torch
from torch import nn
from torch.nn.functional import pad
from torch.nn.utils import skip_init

VGG16 = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))  # configuration D, pooling between


def residual_network(
    image_shape: Sequence[int] = (3, 32, 32),
    n_classes: int = 10,
    *,
    blocks: int = 3,
    width: int = 16,
    groups: int = 8,
    generator: torch.Generator | None = None,
) -> nn.Module:
    """Residual network of depth ``6 blocks + 2`` for small images: ResNet-20 as it stands, 269,722 parameters.

    One 3x3 convolution, three stages of ``blocks`` residual blocks with ``width``, 2 ``width`` and 4 ``width``
    channels, mean over the positions, one linear layer. The second and third stage halve the sides; their shortcut has
    no parameters (type A): every second row and column, and zeros for the channels to come. Each convolution is without
    bias and followed by group normalisation. Weights are normal of variance 2 / fan_in (1 / fan_in in the last layer),
    biases 0, normalisation starts with factors 1.

    Parameters
    ----------
    image_shape : (channels, height, width)
    n_classes : int, >= 1
    blocks : int, >= 1
        Residual blocks of each stage.
    width : int
        Channels of the first stage, a multiple of ``groups``.
    groups : int, >= 1
        Groups of channels that are normalised together.
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
        If ``blocks`` < 1 or ``width`` is no multiple of ``groups``.

    Source
    ------
    He, Zhang, Ren and Sun (2016), arXiv:1512.03385, section 4.2; Wu and He (2018), arXiv:1803.08494.

    Examples
    --------
    >>> network = residual_network(generator=torch.Generator().manual_seed(0))
    >>> sum(parameter.numel() for parameter in network.parameters())
    269722
    """
    _need(generator, "residual_network")
    if blocks < 1:
        raise ValueError(f"blocks must be >= 1, got blocks={blocks}")
    _check_groups(groups, width)
    layers: list[nn.Module] = [_convolution(image_shape[0], width), _group_norm(groups, width), nn.ReLU()]
    depth = width
    for stage in range(3):
        for block in range(blocks):
            stride = 2 if stage > 0 and block == 0 else 1
            layers.append(_ResidualBlock(depth, width * 2**stage, stride=stride, groups=groups))
            depth = width * 2**stage
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), _linear(depth, n_classes)]
    return _initialise(nn.Sequential(*layers), generator)


def vgg16(
    image_shape: Sequence[int] = (3, 32, 32),
    n_classes: int = 10,
    *,
    norm: str | None = "group",
    groups: int = 32,
    generator: torch.Generator | None = None,
) -> nn.Module:
    """VGG16 (configuration D) with a single linear layer for classifier, as is usual for 32 x 32 images.

    Thirteen 3x3 convolutions with bias, 2x2 max-pooling after the 2nd, 4th, 7th, 10th and 13th, then one fully
    connected layer in the place of three. Weights are normal of variance 2 / fan_in (1 / fan_in in the last layer),
    biases 0.

    Parameters
    ----------
    image_shape : (channels, height, width)
        Sides of at least 32 pixels.
    n_classes : int, >= 1
    norm : {"group", None}
        Group normalisation after each convolution, or none.
    groups : int, >= 1
        Groups of channels that are normalised together; divides 64.
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
        If the image is too small, or ``norm`` or ``groups`` is none of the above.

    Source
    ------
    Simonyan and Zisserman (2015), arXiv:1409.1556, Table 1.

    Examples
    --------
    >>> network = vgg16(norm=None, generator=torch.Generator().manual_seed(0))
    >>> sum(parameter.numel() for parameter in network.parameters())
    14719818
    """
    _need(generator, "vgg16")
    if norm not in ("group", None):
        raise ValueError(f"norm must be 'group' or None, got norm={norm!r}; batch normalisation would mix examples")
    if norm:
        _check_groups(groups, VGG16[0][0])
    depth, *sides = image_shape
    sides = [side // 2 ** len(VGG16) for side in sides]
    if min(sides) < 1:
        raise ValueError(f"image_shape={tuple(image_shape)} is too small for {len(VGG16)} times 2x2 pooling")
    layers: list[nn.Module] = []
    for stage in VGG16:
        for width in stage:
            layers.append(_convolution(depth, width, bias=True))
            layers += [_group_norm(groups, width), nn.ReLU()] if norm else [nn.ReLU()]
            depth = width
        layers.append(nn.MaxPool2d(2))
    layers += [nn.Flatten(), _linear(depth * math.prod(sides), n_classes)]
    return _initialise(nn.Sequential(*layers), generator)


def multilayer_perceptron(
    image_shape: Sequence[int],
    n_classes: int,
    *,
    hidden: Sequence[int] = (64,),
    generator: torch.Generator | None = None,
) -> nn.Module:
    """Fully connected layers with ReLU between them; no entry in ``hidden`` makes it a linear model.

    Weights and biases are uniform on ``+-1/sqrt(fan_in)`` (PyTorch's own rule), drawn from ``generator`` alone.

    Parameters
    ----------
    image_shape : sequence of int
        Shape of one example, which is flattened; (d,) for rows of a table.
    n_classes : int, >= 1
    hidden : sequence of int
        Width of each hidden layer.
    generator : torch.Generator
        Source of the initial weights.

    Returns
    -------
    torch.nn.Module
        Maps examples [n, ...] to logits [n, n_classes]; float32, on the CPU.

    Raises
    ------
    TypeError
        If no generator is given: weights are never drawn from global state.

    Examples
    --------
    >>> network = multilayer_perceptron((50,), 2, hidden=(16,), generator=torch.Generator().manual_seed(0))
    >>> network(torch.ones(3, 50)).shape
    torch.Size([3, 2])
    """
    _need(generator, "multilayer_perceptron")
    widths = [math.prod(image_shape), *hidden]
    layers: list[nn.Module] = [nn.Flatten()]
    for fan_in, fan_out in zip(widths, hidden, strict=False):
        layers += [_linear(fan_in, fan_out), nn.ReLU()]
    network = nn.Sequential(*layers, _linear(widths[-1], n_classes))
    for layer in network:
        if isinstance(layer, nn.Linear):
            bound = 1 / math.sqrt(layer.in_features)
            for parameter in layer.parameters():
                nn.init.uniform_(parameter, -bound, bound, generator=generator)
    return network


class _ResidualBlock(nn.Module):
    """Two 3x3 convolutions beside a shortcut without parameters."""

    def __init__(self, depth: int, width: int, *, stride: int, groups: int) -> None:
        super().__init__()
        self.stride = stride
        self.extra = width - depth
        self.branch = nn.Sequential(
            _convolution(depth, width, stride=stride),
            _group_norm(groups, width),
            nn.ReLU(),
            _convolution(width, width),
            _group_norm(groups, width),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shortcut = x[:, :, :: self.stride, :: self.stride]
        if self.extra:
            shortcut = pad(shortcut, (0, 0, 0, 0, self.extra // 2, self.extra - self.extra // 2))
        return torch.relu(self.branch(x) + shortcut)


def _initialise(network: nn.Module, generator: torch.Generator | None) -> nn.Module:
    """Draw weights of variance 2 / fan_in before a ReLU, 1 / fan_in in the last layer."""
    for layer in network.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            gain = 2.0 if isinstance(layer, nn.Conv2d) else 1.0
            nn.init.normal_(layer.weight, std=math.sqrt(gain / layer.weight[0].numel()), generator=generator)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
    return network


def _convolution(depth: int, width: int, *, stride: int = 1, bias: bool = False) -> nn.Module:
    # PyTorch's own initial weights come from global random state: skip them
    options = {"stride": stride, "padding": 1, "bias": bias}
    return cast(nn.Module, skip_init(nn.Conv2d, depth, width, 3, **options))  # type: ignore[no-untyped-call]


def _linear(fan_in: int, fan_out: int) -> nn.Module:
    return cast(nn.Module, skip_init(nn.Linear, fan_in, fan_out))  # type: ignore[no-untyped-call]


def _group_norm(groups: int, width: int) -> nn.Module:
    return nn.GroupNorm(groups, width)  # starts as ones and zeros: nothing is drawn


def _check_groups(groups: int, width: int) -> None:
    if groups < 1 or width % groups:
        raise ValueError(f"groups must be >= 1 and divide the {width} channels of the first stage, got groups={groups}")


def _need(generator: torch.Generator | None, name: str) -> None:
    if generator is None:
        raise TypeError(f"{name} needs generator=torch.Generator().manual_seed(seed)")
