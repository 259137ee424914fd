"""DP-SGD on networks: sums of clipped gradients, and training equal to a literal loop."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from dpnotes.learners import (
    _clipping as clipping,
    convolutional_network,
    fit_dp_sgd_network,
    multilayer_perceptron,
    residual_network,
)
from dpnotes.learners._clipping import (
    clipped_sums,
    gradient_norms,
    micro_batch_size,
)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


# a layer whose gradient comes from two places
class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        return self.layer(torch.tanh(self.layer(x)))


# one weight in two layers
class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 4)
        self.second.weight = self.first.weight

    def forward(self, x):
        return self.second(torch.tanh(self.first(x)))


NETWORKS = {
    "perceptron": (
        lambda: multilayer_perceptron((6,), 4, hidden=(5,), generator=seeded()),
        (6,),
    ),
    "convolutions": (
        lambda: convolutional_network(
            (1, 12, 12), 4, kernel_size=3, generator=seeded()
        ),
        (1, 12, 12),
    ),
    "residual": (
        lambda: residual_network((3, 8, 8), 4, blocks=1, generator=seeded()),
        (3, 8, 8),
    ),
    "twice": (Twice, (4,)),
    "tied": (Tied, (4,)),
    # a layer that overwrites what the one before has given
    "in place": (
        lambda: nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True), nn.Linear(4, 4)),
        (4,),
    ),
}


def problem(name, b=7):
    make, shape = NETWORKS[name]
    # other numbers than those of the weights
    x = torch.randn(b, *shape, generator=seeded(1), dtype=torch.float64)
    return make().double(), x, torch.arange(b) % 4


def plain(network, x, y, norm):
    """Sums of clipped gradients by one backward pass for each example, and norms."""
    rows = []
    for i in range(len(x)):
        network.zero_grad()
        cross_entropy(network(x[i : i + 1]), y[i : i + 1]).backward()
        rows.append([p.grad.clone() for p in network.parameters() if p.requires_grad])
    norms = [torch.sqrt(sum(g.square().sum() for g in row)) for row in rows]
    sums = [torch.zeros_like(g) for g in rows[0]]
    for row, size in zip(rows, norms, strict=True):
        for total, gradient in zip(sums, row, strict=True):
            total += min(1.0, norm / float(size)) * gradient
    return sums, norms


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("name", NETWORKS)
def test_equals_one_example_at_a_time(name, layout):
    network, x, y = problem(name)
    if x.ndim == 4:
        network = network.to(memory_format=layout)
        x = x.contiguous(memory_format=layout)
    _, norms = plain(network, x, y, 1.0)
    between = float(torch.stack(norms).median())  # some are clipped and some are not
    # the last clips nothing
    for norm in (between, 0.1 * between, float("inf")):
        sums, losses = clipped_sums(network)(x, y, norm)
        expected, _ = plain(network, x, y, norm)
        for value, wanted in zip(sums, expected, strict=True):
            torch.testing.assert_close(value, wanted, rtol=0, atol=1e-11)
        torch.testing.assert_close(
            losses, cross_entropy(network(x), y, reduction="none")
        )


def test_frozen_parameters_have_no_part():
    network, x, y = problem("residual")
    # of some layers, and of one bias
    frozen = next(network.children())
    for parameter in [*frozen.parameters(), network[-1].bias]:
        parameter.requires_grad_(False)
    sums, _ = clipped_sums(network)(x, y, 0.3)
    for value, wanted in zip(sums, plain(network, x, y, 0.3)[0], strict=True):
        torch.testing.assert_close(value, wanted, rtol=0, atol=1e-11)


def test_a_network_beyond_the_dtype_gives_no_gradient():
    network, x, y = problem("perceptron")
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.fill_(1e300)
    sums, losses = clipped_sums(network)(x.abs(), y, 1.0)
    assert not any(value.any() for value in sums)
    assert len(losses) == 0
    assert [v.shape for v in sums] == [p.shape for p in network.parameters()]


def test_norms_are_those_of_float64():
    """Equal entries of many units: added up in float32 they are wrong by 3e-5."""
    # of a layer with 300 units, and its bias
    gradients = [torch.full((2, 300, 900), 0.1), torch.zeros(2, 300)]
    expected = 0.1 * np.sqrt(270_000)
    assert float(gradient_norms(gradients)[0]) == pytest.approx(expected, rel=1e-6)


def test_micro_batch_counts_gradients_and_outputs(monkeypatch):
    network = multilayer_perceptron((6,), 4, hidden=(5,), generator=seeded())
    x = torch.zeros(1, 6)
    # parameters, and outputs of flatten, linear, ReLU, linear
    numbers = (6 * 5 + 5 + 5 * 4 + 4) + 2 * (6 + 5 + 5 + 4)
    for examples in (0.5, 1, 10.5):
        # bytes of float32
        monkeypatch.setattr(clipping, "CPU_BUDGET", int(4 * numbers * examples))
        assert micro_batch_size(network, x) == max(1, int(np.floor(examples)))


SHAPE = (1, 8, 8)
N = 60
SETTINGS = {
    "noise_multiplier": 0.0,
    "clipping_norm": 1.0,
    "sample_rate": 0.2,
    "n_records": N,
    "steps": 6,
    "learning_rate": 0.4,
    "seed": 5,
    "device": "cpu",
}


def build(generator):
    return convolutional_network(
        SHAPE, 3, channels=(3, 4), kernel_size=3, padding=1, generator=generator
    )


@pytest.fixture(scope="module")
def digits():
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=N)
    images = 0.3 * rng.normal(size=(N, *SHAPE))
    images[np.arange(N), 0, 2 * labels] += 1.0  # class c shows as a bright row 2c
    return images, labels


def fit(digits, **changes):
    return fit_dp_sgd_network(build, *digits, **SETTINGS | changes)


def close(found, expected, tolerance, model=slice(None)):
    assert list(found) == list(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name][model], value, atol=tolerance)


def literal(network, x, y, model, descent, *, steps, rate, std, norm):
    """Algorithm 1 of Abadi et al., example by example, on the streams that the
    documentation names; the losses of the examples of each step.
    """
    key = np.random.SeedSequence(5, spawn_key=(model,))
    _, batches, noise = key.spawn(3)
    batches = np.random.Generator(np.random.PCG64(batches))
    noise = np.random.Generator(np.random.SFC64(noise))
    n = len(x)
    losses = []
    for _ in range(steps):
        size = batches.binomial(n, rate)
        batch = torch.from_numpy(batches.choice(n, size, replace=False, shuffle=False))
        each = cross_entropy(network(x[batch]), y[batch], reduction="none")
        losses.append(each.detach())
        totals, _ = plain(network, x[batch], y[batch], norm)
        for parameter, total in zip(network.parameters(), totals, strict=True):
            drawn = torch.tensor(noise.standard_normal(parameter.numel()))
            noisy = total + std * drawn.view(parameter.shape)
            parameter.grad = noisy / (rate * n)
        descent.step()
    return losses


def started(model):
    """The network of a model before training."""
    stream = np.random.SeedSequence(5, spawn_key=(model, 0))
    state = int(stream.generate_state(1, np.uint64)[0]) >> 1
    return build(torch.Generator().manual_seed(state)).double()


OPTIMIZERS = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.4, foreach=False),
    "momentum": lambda parameters: torch.optim.SGD(
        parameters, lr=0.4, momentum=0.8, foreach=False
    ),
    "adam": lambda parameters: torch.optim.Adam(parameters, lr=0.4, foreach=False),
}


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_equals_a_literal_loop(digits, optimizer, noise):
    """Catches a wrong norm, divisor, noise scale, an order of the operations or
    streams that are mixed up.
    """
    how = {"noise_multiplier": [noise] * 2, "optimizer": optimizer, "momentum": 0.8}
    fitted = fit(digits, **how)
    x, y = (torch.tensor(each) for each in digits)
    for model in range(2):
        network = started(model)
        descent = OPTIMIZERS[optimizer](network.parameters())
        run = {"steps": 6, "rate": 0.2, "std": noise, "norm": 1.0}
        losses = literal(network, x, y, model, descent, **run)
        # Adam divides by the root of tiny squared gradients, which magnifies rounding
        close(fitted.parameters, network.state_dict(), 1e-9, model)
        # 5 steps make an expected epoch
        last = torch.cat(losses[1:]).mean()
        assert fitted.loss[model] == pytest.approx(float(last), rel=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_no_micro_batch_changes_a_model(digits, dtype, monkeypatch):
    digits = digits[0].astype(dtype), digits[1]
    tolerance = 1e-11 if dtype is np.float64 else 2e-5  # rounding over 6 steps
    whole = fit(digits, noise_multiplier=0.5)
    # one example at a time, some, and all
    for budget in (1, 10**5, 10**9):
        monkeypatch.setattr(clipping, "CPU_BUDGET", budget)
        again = fit(digits, noise_multiplier=0.5)
        close(again.parameters, whole.parameters, tolerance)


class Remembers(nn.Sequential):
    """Keeps what it has seen, as a network that is looked into does."""

    def forward(self, x):
        self.seen = x
        return super().forward(x)


def test_nothing_that_a_network_saw_is_kept(digits):
    def build(generator):
        # no reader of a released model finds records in it
        return Remembers(nn.Flatten(), nn.Linear(64, 3))

    fitted = fit_dp_sgd_network(build, *digits, **SETTINGS)
    assert not hasattr(fitted._template, "seen")
