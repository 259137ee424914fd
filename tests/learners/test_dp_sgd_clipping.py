"""Sums of clipped gradients: both engines against one example at a time and against opacus, and networks refused."""

import numpy as np
import pytest
import torch
from opacus.grad_sample import GradSampleModule
from torch import nn
from torch.nn.functional import cross_entropy

from dpnotes.learners import convolutional_network, multilayer_perceptron, residual_network, vgg16
from dpnotes.learners._dp_sgd_clipping import (
    BookKeeping,
    PerExample,
    _positions,
    _product,
    clip_weights,
    clipped_sums,
    micro_batch_size,
)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


class Odd(nn.Sequential):
    """Strides, dilation, unequal padding and kernels, no bias, norms of one group, positions in a linear layer."""

    def __init__(self):
        super().__init__(
            nn.Conv2d(2, 9, (3, 2), stride=(2, 1), padding=(0, 2), dilation=(1, 2), bias=False),
            nn.GroupNorm(3, 9),
            nn.Tanh(),
            nn.Conv2d(9, 10, (2, 3), stride=(1, 2), padding=(1, 0), dilation=(2, 1)),
            nn.GroupNorm(1, 10, affine=False),
            nn.Conv2d(10, 8, 1, stride=2),
            nn.Flatten(2),
            nn.Linear(4, 5),
            nn.Linear(5, 4, bias=False),
            nn.Flatten(),
            nn.Linear(32, 4),
        )
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=0.4, generator=seeded())


NETWORKS = {
    "perceptron": (lambda: multilayer_perceptron((6,), 4, hidden=(5,), generator=seeded()), (6,)),
    "convolutions": (lambda: convolutional_network((1, 12, 12), 4, kernel_size=3, generator=seeded()), (1, 12, 12)),
    "residual": (lambda: residual_network((3, 8, 8), 4, blocks=1, generator=seeded()), (3, 8, 8)),
    "odd": (Odd, (2, 9, 8)),
}


def problem(name, b=7):
    make, shape = NETWORKS[name]
    x = torch.randn(b, *shape, generator=seeded(1), dtype=torch.float64)
    return make().double(), x, torch.arange(b) % 4


def gradients(network, x, y):
    """Gradient of each example, by one backward pass each."""
    rows = []
    for i in range(len(x)):
        network.zero_grad()
        cross_entropy(network(x[i : i + 1]), y[i : i + 1]).backward()
        rows.append([p.grad.clone() for p in network.parameters() if p.requires_grad])
    return rows


def plain(network, x, y, norm):
    rows = gradients(network, x, y)
    norms = [torch.sqrt(sum(g.square().sum() for g in row)) for row in rows]
    factors = [min(1.0, norm / float(size)) for size in norms]
    return [sum(f * row[k] for f, row in zip(factors, rows, strict=True)) for k in range(len(rows[0]))], norms


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("engine", [BookKeeping, PerExample])
@pytest.mark.parametrize("name", NETWORKS)
def test_equals_one_example_at_a_time(name, engine, layout):
    network, x, y = problem(name)
    if x.ndim == 4:
        network, x = network.to(memory_format=layout), x.contiguous(memory_format=layout)
    _, norms = plain(network, x, y, 1.0)
    between = float(torch.stack(norms).median())  # some are clipped and some are not
    for norm in (between, 0.1 * between, float("inf")):
        sums, losses = engine(network)(x, y, norm)
        expected, _ = plain(network, x, y, norm)
        named = [parameter for parameter, _ in network.named_parameters()]
        assert list(named) == [key for key in named if key in sums]
        for key, value in zip(named, expected, strict=True):
            torch.testing.assert_close(sums[key], value, rtol=0, atol=1e-11)
        torch.testing.assert_close(losses, cross_entropy(network(x), y, reduction="none"))


@pytest.mark.filterwarnings("ignore:Full backward hook is firing:UserWarning")  # opacus' hooks on the first layer
@pytest.mark.parametrize("name", NETWORKS)
def test_equals_opacus(name):
    network, x, y = problem(name)
    sums = {engine: engine(network)(x, y, 0.5)[0] for engine in (BookKeeping, PerExample)}
    wrapped = GradSampleModule(network, loss_reduction="sum")
    cross_entropy(wrapped(x), y, reduction="sum").backward()
    samples = [parameter.grad_sample for parameter in network.parameters()]
    norms = torch.stack([sample.flatten(1).norm(dim=1) for sample in samples]).norm(dim=0)
    factors = (0.5 / norms).clamp(max=1)
    for (key, _), sample in zip(network.named_parameters(), samples, strict=True):
        for found in sums.values():
            torch.testing.assert_close(found[key], torch.einsum("b,b...->...", factors, sample), rtol=0, atol=1e-9)


def test_both_ways_to_a_norm_are_taken():
    """Late layers of VGG go by Gram matrices, its early ones by kept gradients: equal to the other engine."""
    network = vgg16((3, 32, 32), 4, generator=seeded()).double()
    x, y = torch.randn(2, 3, 32, 32, generator=seeded(1), dtype=torch.float64), torch.tensor([0, 3])
    for norm in (1.0, float("inf")):
        kept, apart = BookKeeping(network)(x, y, norm)[0], PerExample(network)(x, y, norm)[0]
        for key, value in apart.items():
            torch.testing.assert_close(kept[key], value, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("engine", [BookKeeping, PerExample])
def test_frozen_parameters_have_no_part(engine):
    network, x, y = problem("residual")
    parameters = dict(network.named_parameters())
    frozen = [name for name in parameters if not name.startswith(("3.branch.1", "3.branch.3", "8"))]
    for name in frozen:
        parameters[name].requires_grad_(False)
    parameters["8.bias"].requires_grad_(False)
    sums, _ = engine(network)(x, y, 0.3)
    trained = [name for name, parameter in parameters.items() if parameter.requires_grad]
    assert set(sums) == set(trained)
    assert [p.requires_grad for p in network.parameters()] == [name in trained for name in parameters]
    for name, value in zip(trained, plain(network, x, y, 0.3)[0], strict=True):
        torch.testing.assert_close(sums[name], value, rtol=0, atol=1e-11)


def test_the_factor_is_exact():
    squared = torch.tensor([0.0, 0.25, 1.0, 4.0, -1e-20], dtype=torch.float64)  # a rounded zero may be below 0
    assert clip_weights(squared, 1.0).tolist() == [1.0, 1.0, 1.0, 0.5, 1.0]
    assert clip_weights(squared, float("inf")).tolist() == [1.0] * 5
    assert clip_weights(torch.tensor([float("nan")]), 1.0).isnan().all()  # divergence is not hidden


def moved(engine, network, x, y, norm):
    """Norm by which the first example moves the sum."""
    network = network.to(x.dtype)
    with_it, without = engine(network)(x, y, norm), engine(network)(x[1:], y[1:], norm)
    return float(sum((with_it[0][k] - without[0][k]).double().square().sum() for k in with_it[0]).sqrt())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("engine", [BookKeeping, PerExample])
@pytest.mark.parametrize("name", NETWORKS)
def test_an_example_of_any_size_moves_the_sum_by_at_most_the_norm(name, engine, dtype):
    network, x, y = problem(name)
    x = x.to(dtype)
    most = torch.finfo(dtype).max
    for size in (0.0, torch.finfo(dtype).tiny, 1e5, most**0.25, most**0.5, most**0.75, most):
        x[0] = x[0].sign() * size
        for norm in (1e-3, 10.0):
            assert moved(engine, network, x, y, norm) < norm * (1 + 1e-4)


@pytest.mark.parametrize("engine", [BookKeeping, PerExample])
def test_a_network_beyond_the_dtype_gives_no_gradient(engine):
    network, x, y = problem("perceptron")
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.fill_(1e300)
    sums, losses = engine(network)(x.abs(), y, 1.0)
    assert not any(value.any() for value in sums.values())
    assert len(losses) == 0
    assert [value.shape for value in sums.values()] == [p.shape for p in network.parameters()]


def true_norm(x, g):
    return float(torch.einsum("btk,bto->bok", x.double(), g.double()).norm())


@pytest.mark.parametrize("scale", [1e-30, 1e-20, 1e-12, 1.0, 1e12, 1e18])
@pytest.mark.parametrize("size", [1e-30, 1e-12, 1.0, 1e12, 1e18])
@pytest.mark.parametrize("positions", [1, 3])
def test_norms_of_products_are_never_too_small(positions, size, scale):
    """Squares of inputs underflow where those of gradients overflow, and positions cancel to rounding errors."""
    x = torch.randn(1, positions, 40, generator=seeded()) * size
    g = torch.randn(1, positions, 30, generator=seeded(1)) * scale
    if positions == 3:
        x[0, 1], g[0, 1], g[0, 2] = x[0, 0] * (1 + 2e-6), -g[0, 0], 0.0
    if positions == 1:
        squared, _ = _product(nn.Linear(40, 30), x[:, 0], g[:, 0], "weight")
    else:
        squared, _ = _positions(x, g, "weight")
    norm, known = true_norm(x, g), bool(squared.isfinite())
    for clip in (2.0**-30, 1e-3, 1.0):
        assert not known or float(clip_weights(squared, clip)) * norm < clip * (1 + 1e-4)
    assert known or size * scale > 1e18 or max(size, scale) > 1e9 or min(size, scale) < 1e-9


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        return self.layer(torch.tanh(self.layer(x)))


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.second.weight = self.first.weight

    def forward(self, x):
        return self.second(torch.tanh(self.first(x)))


IN_PLACE = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.ReLU(inplace=True), nn.Linear(4, 4))


@pytest.mark.parametrize(
    ("network", "reason"),
    [
        (Twice(), "used once"),
        (Tied(), "shares its parameters"),
        (IN_PLACE, "changed in place"),
        (nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4)), "layer '1' is a LayerNorm"),
        (
            nn.Sequential(nn.Unflatten(1, (4, 1, 1)), nn.Conv2d(4, 4, 1, groups=2), nn.Flatten()),
            "groups or named padding",
        ),
    ],
)
def test_networks_that_book_keeping_would_get_wrong_go_to_vmap(network, reason):
    network = network.double()
    x, y = torch.randn(5, 4, generator=seeded(), dtype=torch.float64), torch.arange(5) % 4
    with pytest.raises(ValueError, match=reason):
        clipped_sums(network, "book-keeping", x[:1])
    chosen = clipped_sums(network, "auto", x[:1])
    assert isinstance(chosen, PerExample)
    if network is not IN_PLACE:  # vmap cannot change a view of one example in place under every release
        named = [name for name, _ in network.named_parameters()]
        for name, value in zip(named, plain(network, x, y, 0.4)[0], strict=True):
            torch.testing.assert_close(chosen(x, y, 0.4)[0][name], value, rtol=0, atol=1e-11)


def test_auto_keeps_book_where_it_can():
    for name in NETWORKS:
        network, x, _ = problem(name)
        assert isinstance(clipped_sums(network, "auto", x[:1]), BookKeeping)
        assert isinstance(clipped_sums(network, "vmap", x[:1]), PerExample)
    with pytest.raises(ValueError, match="engine must be one of 'auto', 'book-keeping', 'vmap', got engine='fast'"):
        clipped_sums(network, "fast", x[:1])


def test_micro_batch_counts_gradients_and_outputs(monkeypatch):
    network = multilayer_perceptron((6,), 4, hidden=(5,), generator=seeded())
    x = torch.zeros(1, 6)
    numbers = (6 * 5 + 5 + 5 * 4 + 4) + 2 * (6 + 5 + 5 + 4)  # parameters, and outputs of flatten, linear, ReLU, linear
    for examples in (0.5, 1, 10.5):
        monkeypatch.setattr("dpnotes.learners._dp_sgd_clipping.CPU_BUDGET", int(4 * numbers * examples))
        assert micro_batch_size(network, x) == max(1, int(np.floor(examples)))
