"""Networks that do not mix examples, with group normalisation or none: ResNet, VGG,
convolutions, perceptron.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import pad
from torch.nn.utils import skip_init

# configuration D, pooling between
VGG16 = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))


def residual_network(
    image_shape: Sequence[int] = (3, 32, 32),
    n_classes: int = 10,
    *,
    blocks: int = 3,
    width: int = 16,
    groups: int = 8,
    generator: torch.Generator,
) -> nn.Module:
    """Residual network for small images, of depth ``6 * blocks + 2``; by default
    ResNet-20, with 269,722 parameters.

    The network consists of one 3x3 convolution, three stages of ``blocks`` residual
    blocks with ``width``, 2 ``width`` and 4 ``width`` channels, the mean over the
    positions, and one linear layer. The second and third stage halve the sides. Their
    shortcuts have no parameters (type A): they take every second row and column, and
    fill the new channels with zeros. Each convolution has no bias, and group
    normalisation follows it. Initial weights are normal with variance 2 / fan_in (1 /
    fan_in in the last layer), biases are 0, and normalisation starts with factors 1.

    Parameters
    ----------
    image_shape, n_classes, generator
        See :func:`convolutional_network`.
    blocks : int, >= 1
        Number of residual blocks in each stage.
    width : int
        Number of channels of the first stage, a multiple of ``groups``.
    groups : int, >= 1
        Number of groups of channels that are normalised together.

    Returns
    -------
    torch.nn.Module
        Network that maps images [n, channels, height, width] to logits [n, n_classes];
        float32, on the CPU.

    Raises
    ------
    ValueError
        If ``blocks`` < 1 or ``width`` is not a multiple of ``groups``.

    Source
    ------
    He, Zhang, Ren and Sun (2016), arXiv:1512.03385, section 4.2; Wu and He (2018),
    arXiv:1803.08494.

    Examples
    --------
    >>> network = residual_network(generator=torch.Generator().manual_seed(0))
    >>> sum(parameter.numel() for parameter in network.parameters())
    269722
    """
    if blocks < 1:
        raise ValueError(f"blocks must be >= 1, got blocks={blocks}")
    layers: list[nn.Module] = [
        _convolution(image_shape[0], width),
        nn.GroupNorm(groups, width),
        nn.ReLU(),
    ]
    depth = width
    for stage in range(3):
        channels = width * 2**stage
        for block in range(blocks):
            # a new stage begins with half the sides
            stride = 2 if stage > 0 and block == 0 else 1
            layers.append(_ResidualBlock(depth, channels, stride=stride, groups=groups))
            depth = channels
    layers += [
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        _layer(nn.Linear, depth, n_classes),
    ]
    return _drawn(nn.Sequential(*layers), generator)


def vgg16(
    image_shape: Sequence[int] = (3, 32, 32),
    n_classes: int = 10,
    *,
    norm: str | None = "group",
    groups: int = 32,
    generator: torch.Generator,
) -> nn.Module:
    """VGG16 (configuration D) with a single linear layer as classifier, as is usual for
    32 x 32 images.

    The network has thirteen 3x3 convolutions with bias, 2x2 max-pooling after the 2nd,
    4th, 7th, 10th and 13th, and then one fully connected layer instead of three.
    Initial weights are normal with variance 2 / fan_in (1 / fan_in in the last layer),
    and biases are 0.

    Parameters
    ----------
    image_shape, n_classes, generator
        See :func:`convolutional_network`; the sides must have at least 32 pixels.
    norm : {"group", None}
        Group normalisation after each convolution, or none.
    groups : int, >= 1
        Number of groups of channels that are normalised together; it must divide 64.

    Returns
    -------
    torch.nn.Module
        Network that maps images [n, channels, height, width] to logits [n, n_classes];
        float32, on the CPU.

    Raises
    ------
    ValueError
        If the image is too small, or ``norm`` or ``groups`` is not valid.

    Source
    ------
    Simonyan and Zisserman (2015), arXiv:1409.1556, Table 1.

    Examples
    --------
    >>> network = vgg16(norm=None, generator=torch.Generator().manual_seed(0))
    >>> sum(parameter.numel() for parameter in network.parameters())
    14719818
    """
    # an unknown name must not mean that there is no normalisation
    if norm not in ("group", None):
        raise ValueError(
            f"norm must be 'group' or None, got norm={norm!r}; batch normalisation"
            " would mix examples"
        )
    depth, *sides = image_shape
    sides = [side // 2 ** len(VGG16) for side in sides]
    if min(sides) < 1:
        raise ValueError(
            f"image_shape={tuple(image_shape)} is too small for {len(VGG16)} layers of"
            " 2x2 pooling"
        )
    layers: list[nn.Module] = []
    for stage in VGG16:
        for width in stage:
            layers.append(_convolution(depth, width, bias=True))
            layers += [nn.GroupNorm(groups, width), nn.ReLU()] if norm else [nn.ReLU()]
            depth = width
        # a stage halves the sides
        layers.append(nn.MaxPool2d(2))
    layers += [nn.Flatten(), _layer(nn.Linear, depth * math.prod(sides), n_classes)]
    return _drawn(nn.Sequential(*layers), generator)


def convolutional_network(
    image_shape: Sequence[int],
    n_classes: int,
    *,
    channels: Sequence[int] = (16, 32),
    kernel_size: int = 5,
    padding: int = 0,
    generator: torch.Generator,
) -> nn.Module:
    """Network with a convolution, 2x2 max-pooling and ReLU for each entry of
    ``channels``, then a linear layer.

    Weights and biases are uniform in [-a, a] with ``a = 1/sqrt(fan_in)`` (PyTorch's own
    rule), drawn only from ``generator``.

    Parameters
    ----------
    image_shape : (channels, height, width)
    n_classes : int, >= 1
    channels : sequence of int
        Number of output channels of each convolution.
    kernel_size : int
        Side of the square kernels, in pixels.
    padding : int
        Zeros added on every side of the input of each convolution, in pixels.
    generator : torch.Generator
        Source of the initial weights, which are never drawn from global state.

    Returns
    -------
    torch.nn.Module
        Network that maps images [n, channels, height, width] to logits [n, n_classes];
        float32, on the CPU.

    Raises
    ------
    ValueError
        If the image is too small for the convolutions.
    """
    depth, *sides = image_shape
    layers: list[nn.Module] = []
    for width in channels:
        layers += [
            _layer(nn.Conv2d, depth, width, kernel_size, padding=padding),
            nn.MaxPool2d(2),
            nn.ReLU(),
        ]
        depth = width
        # of the convolution, then of the pooling
        sides = [(side + 2 * padding - kernel_size + 1) // 2 for side in sides]
        if min(sides) < 1:
            raise ValueError(
                f"image_shape={tuple(image_shape)} is too small for {len(channels)}"
                f" convolutions with kernel_size={kernel_size} and padding={padding},"
                " each followed by 2x2 pooling"
            )
    # of what the last pooling leaves
    linear = _layer(nn.Linear, depth * math.prod(sides), n_classes)
    return _drawn(nn.Sequential(*layers, nn.Flatten(), linear), generator, uniform=True)


def multilayer_perceptron(
    image_shape: Sequence[int],
    n_classes: int,
    *,
    hidden: Sequence[int] = (64,),
    generator: torch.Generator,
) -> nn.Module:
    """Network of fully connected layers with ReLU between them; an empty ``hidden``
    gives a linear model.

    Weights and biases are uniform in [-a, a] with ``a = 1/sqrt(fan_in)`` (PyTorch's own
    rule), drawn only from ``generator``.

    Parameters
    ----------
    image_shape : sequence of int
        Shape of one example, which is flattened; (d,) for the rows of a table.
    n_classes : int, >= 1
    hidden : sequence of int
        Width of each hidden layer.
    generator : torch.Generator
        Source of the initial weights.

    Returns
    -------
    torch.nn.Module
        Network that maps examples [n, ...] to logits [n, n_classes]; float32, on the
        CPU.

    Examples
    --------
    >>> network = multilayer_perceptron(
    ...     (50,), 2, hidden=(16,), generator=torch.Generator().manual_seed(0)
    ... )
    >>> network(torch.ones(3, 50)).shape
    torch.Size([3, 2])
    """
    # inputs of each layer
    widths = [math.prod(image_shape), *hidden]
    layers: list[nn.Module] = [nn.Flatten()]
    for fan_in, fan_out in zip(widths, hidden, strict=False):
        layers += [_layer(nn.Linear, fan_in, fan_out), nn.ReLU()]
    layers.append(_layer(nn.Linear, widths[-1], n_classes))
    return _drawn(nn.Sequential(*layers), generator, uniform=True)


class _ResidualBlock(nn.Module):
    """Two 3x3 convolutions beside a shortcut without parameters."""

    def __init__(self, depth: int, width: int, *, stride: int, groups: int) -> None:
        super().__init__()
        self.stride = stride
        self.extra = width - depth
        self.branch = nn.Sequential(
            _convolution(depth, width, stride=stride),
            nn.GroupNorm(groups, width),
            nn.ReLU(),
            _convolution(width, width),
            nn.GroupNorm(groups, width),
        )

    def forward(self, x: Tensor) -> Tensor:
        # every second place where the branch halves the sides
        shortcut = x[:, :, :: self.stride, :: self.stride]
        if self.extra:
            # empty channels on both sides
            before = self.extra // 2
            after = self.extra - before
            shortcut = pad(shortcut, (0, 0, 0, 0, before, after))
        return torch.relu(self.branch(x) + shortcut)


def _drawn(
    network: nn.Module, generator: torch.Generator, *, uniform: bool = False
) -> nn.Module:
    """Draw weights of variance 2 / fan_in before a ReLU, 1 / fan_in in the last
    layer; or uniform ones, biases too.
    """
    for layer in network.modules():
        # normalisation starts with factors of 1, without chance
        if not isinstance(layer, nn.Conv2d | nn.Linear):
            continue
        fan_in = layer.weight[0].numel()  # the inputs of one output unit
        if uniform:
            bound = 1 / math.sqrt(fan_in)
            for parameter in layer.parameters():
                nn.init.uniform_(parameter, -bound, bound, generator=generator)
            continue
        # a ReLU, which loses half of the variance, follows a convolution
        gain = 2.0 if isinstance(layer, nn.Conv2d) else 1.0
        nn.init.normal_(layer.weight, std=math.sqrt(gain / fan_in), generator=generator)
        # convolutions before a normalisation have none
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)
    return network


def _convolution(
    depth: int, width: int, *, stride: int = 1, bias: bool = False
) -> nn.Module:
    return _layer(nn.Conv2d, depth, width, 3, stride=stride, padding=1, bias=bias)


def _layer(kind: type[nn.Module], *arguments: int, **options: int) -> nn.Module:
    """A layer without PyTorch's own initial weights, which come from global random
    state.
    """
    layer: nn.Module = skip_init(kind, *arguments, **options)  # type: ignore[no-untyped-call]
    return layer
