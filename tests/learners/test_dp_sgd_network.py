"""DP-SGD on networks: equal to a literal loop, whatever the engine and the micro-batch, with the stated noise."""

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn
from torch.nn.functional import cross_entropy

from dpnotes.learners import convolutional_network, fit_dp_sgd_network, multilayer_perceptron

SHAPE, N = (1, 8, 8), 60
SETTINGS = {
    "noise_multiplier": 0.0,
    "clipping_norm": 1.0,
    "sample_rate": 0.2,
    "steps": 6,
    "learning_rate": 0.4,
    "seed": 5,
    "device": "cpu",
}


def build(generator):
    return convolutional_network(SHAPE, 3, channels=(3, 4), kernel_size=3, padding=1, generator=generator)


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=N)
    images = 0.3 * rng.normal(size=(N, *SHAPE))
    images[np.arange(N), 0, 2 * labels] += 1.0  # class c shows as a bright row 2c
    return images, labels


def fit(problem, **changes):
    return fit_dp_sgd_network(build, *problem, **SETTINGS | changes)


def same(one, other, tolerance):
    for name, value in one.parameters.items():
        np.testing.assert_allclose(other.parameters[name], value, atol=tolerance, err_msg=name)


def literal(problem, model, *, noise, optimizer):
    """Algorithm 1 of Abadi et al., example by example, on the streams that the documentation names."""
    streams = [np.random.SeedSequence(5, spawn_key=(model, purpose)) for purpose in range(3)]
    state = int(streams[0].generate_state(1, np.uint64)[0] >> np.uint64(1))
    network = build(torch.Generator().manual_seed(state)).double()
    batches = np.random.Generator(np.random.PCG64(streams[1]))
    normal = np.random.Generator(np.random.SFC64(streams[2]))
    images, labels = torch.tensor(problem[0]), torch.tensor(problem[1])
    parameters = list(network.parameters())
    descent = {
        "sgd": lambda: torch.optim.SGD(parameters, lr=0.4, foreach=False),
        "momentum": lambda: torch.optim.SGD(parameters, lr=0.4, momentum=0.8, foreach=False),
        "adam": lambda: torch.optim.Adam(parameters, lr=0.4, foreach=False),
    }[optimizer]()
    losses = []
    for _ in range(6):
        batch = batches.choice(N, batches.binomial(N, 0.2), replace=False, shuffle=False)
        total = [torch.zeros_like(p) for p in parameters]
        for i in batch:
            loss = cross_entropy(network(images[i : i + 1]), labels[i : i + 1])
            gradient = torch.autograd.grad(loss, parameters)
            size = float(torch.sqrt(sum(g.square().sum() for g in gradient)))
            for whole, g in zip(total, gradient, strict=True):
                whole += min(1, 1.0 / size) * g
            losses.append((_, loss.item()))
        for p, whole in zip(parameters, total, strict=True):
            whole += noise * torch.tensor(normal.standard_normal(p.numel())).view(p.shape)
            p.grad = whole / (0.2 * N)
        descent.step()
    return network, np.mean([loss for step, loss in losses if step >= 1])  # 5 steps make an expected epoch


@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adam"])
@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_equals_a_literal_loop(problem, optimizer, noise):
    fitted = fit(problem, noise_multiplier=[noise] * 2, optimizer=optimizer, momentum=0.8)
    for model in range(2):
        network, loss = literal(problem, model, noise=noise, optimizer=optimizer)
        for name, value in network.named_parameters():
            # Adam divides by the root of tiny squared gradients, which magnifies rounding
            np.testing.assert_allclose(fitted.parameters[name][model], value.detach(), atol=1e-9)
        assert fitted.loss[model] == pytest.approx(loss, rel=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_neither_engine_nor_micro_batch_changes_a_model(problem, dtype):
    problem = problem[0].astype(dtype), problem[1]
    tolerance = 1e-11 if dtype is np.float64 else 2e-5  # rounding over 6 steps
    whole = fit(problem, noise_multiplier=0.5, engine="book-keeping")
    assert next(iter(whole.parameters.values())).dtype == torch.tensor(problem[0]).dtype
    same(whole, fit(problem, noise_multiplier=0.5, engine="vmap"), tolerance)
    for engine in ("book-keeping", "vmap"):
        for micro_batch in (1, 5):
            same(whole, fit(problem, noise_multiplier=0.5, engine=engine, micro_batch=micro_batch), tolerance)


def test_models_do_not_depend_on_one_another_nor_on_global_state(problem):
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    three = fit(problem, noise_multiplier=[0.5] * 3)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_num_threads() == threads
    torch.manual_seed(99)
    one = fit(problem, noise_multiplier=0.5)
    for name, value in one.parameters.items():
        assert torch.equal(value[0], three.parameters[name][0])
        assert not torch.equal(value[0], three.parameters[name][1])
    assert fit(problem, noise_multiplier=[0.5, 0.1]).votes(problem[0], device="cpu").shape == (2, N)


def test_noise_has_the_stated_variance(problem):
    """An empty batch moves the weights by -rate * sigma * C / (q n) times a normal, and gives no loss."""
    make = {"steps": 1, "sample_rate": 1e-7, "learning_rate": 1e-6, "clipping_norm": 0.5, "noise_multiplier": 3.0}

    def wide(generator):
        network = multilayer_perceptron(SHAPE, 200, hidden=(), generator=generator)
        for parameter in network.parameters():
            nn.init.zeros_(parameter)
        return network

    fitted = fit_dp_sgd_network(wide, *problem, **SETTINGS | make)
    scale = 1e-6 * 3.0 * 0.5 / (1e-7 * N)
    for name in ("1.weight", "1.bias"):
        moved = fitted.parameters[name].numpy().ravel()
        assert stats.kstest(moved, stats.norm(scale=scale).cdf).pvalue > 1e-3
    moved = fitted.parameters["1.weight"].numpy().ravel()
    assert stats.kstest(moved, stats.norm(scale=1.05 * scale).cdf).pvalue < 1e-3
    assert np.isnan(fitted.loss).all()
    still = fit_dp_sgd_network(wide, *problem, **SETTINGS | make | {"noise_multiplier": 0.0})
    assert not any(value.any() for value in still.parameters.values())


def test_empty_records_count_in_the_expected_batch(problem):
    more = fit(problem, n_records=2 * N, noise_multiplier=0.3)
    same(more, fit(problem, learning_rate=0.2, noise_multiplier=0.3), 1e-12)


def test_noise_may_have_another_source(problem):
    numbers = np.random.Generator(np.random.SFC64(np.random.SeedSequence(5, spawn_key=(0, 2)))).standard_normal
    same(fit(problem, noise_multiplier=0.3), fit(problem, noise_multiplier=0.3, normal=numbers), 0)
    same(fit(problem), fit(problem, noise_multiplier=0.3, normal=np.zeros), 0)


@pytest.mark.parametrize("engine", ["book-keeping", "vmap"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_an_example_of_any_size_is_no_error(problem, dtype, engine):
    """Its gradient counts as 0 where it is beyond the dtype: then the others' step is what it is without it."""
    images, labels = problem[0].astype(dtype), problem[1]
    step = {"noise_multiplier": 0.1, "normal": np.zeros, "sample_rate": 1.0, "engine": engine}
    empty = images.copy()
    for size in (np.finfo(dtype).max ** 0.6, np.finfo(dtype).max):
        empty[3] = size
        assert all(value.isfinite().all() for value in fit((empty, labels), **step).parameters.values())
    step |= {"steps": 1, "learning_rate": 1.0}
    with_it, without = fit((empty, labels), **step), fit((images[np.arange(N) != 3], labels[np.arange(N) != 3]), **step)
    start = fit((images, labels), **step | {"learning_rate": 1e-30})
    for name, value in start.parameters.items():
        moves = [(fitted.parameters[name] - value) * n for fitted, n in ((with_it, N), (without, N - 1))]
        np.testing.assert_allclose(*moves, atol=1e-3 if dtype is np.float32 else 1e-9)


class Remembers(nn.Sequential):
    """Keeps what it has seen, as a network that is looked into does."""

    def forward(self, x):
        self.seen = x
        return super().forward(x)


def test_nothing_that_a_network_saw_is_kept(problem):
    def build(generator):
        return Remembers(nn.Flatten(), nn.Linear(64, 3))

    fitted = fit_dp_sgd_network(build, *problem, **SETTINGS)
    assert not hasattr(fitted._template, "seen")


def test_it_learns_under_noise(problem):
    settings = {"steps": 60, "noise_multiplier": 0.5, "sampling": "shuffle", "batch_size": 20, "sample_rate": None}
    fitted = fit(problem, **settings, learning_rate=np.geomspace(1.0, 0.1, 60), optimizer="momentum", momentum=0.5)
    assert (fitted.votes(problem[0], device="cpu") == problem[1]).mean() > 0.9


def test_fine_tuning_keeps_what_is_frozen(problem):
    start = fit(problem, steps=2)
    weights = {name: value[0] for name, value in start.parameters.items()}

    def frozen(generator):
        network = build(generator).double()
        network.load_state_dict(weights)
        for name, parameter in network.named_parameters():
            parameter.requires_grad_(name.startswith("7."))
        return network

    for engine in ("book-keeping", "vmap"):
        tuned = fit_dp_sgd_network(frozen, *problem, **SETTINGS | {"noise_multiplier": 0.3}, engine=engine)
        for name, value in weights.items():
            assert torch.equal(tuned.parameters[name][0], value) == (not name.startswith("7."))


def with_layer(layer):
    return lambda generator: nn.Sequential(nn.Flatten(), layer, nn.Linear(64, 3))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"build": with_layer(nn.BatchNorm1d(64))},
            r"batch normalisation \(layer '1', BatchNorm1d\), which mixes the examples",
        ),
        ({"build": with_layer(nn.Dropout(0.5))}, r"dropout \(layer '1', Dropout\)"),
        ({"build": with_layer(nn.LayerNorm(64)), "engine": "book-keeping"}, "layer '1' is a LayerNorm"),
        ({"build": with_layer(nn.Identity()), "labels": np.full(N, 3)}, r"class codes in 0\.\.2, the network's, got 3"),
        ({"build": lambda generator: nn.Flatten(), "labels": np.zeros(N, int)}, "nothing to train"),
        ({"labels": np.zeros(5, int)}, "images and labels must have equal length, got 60 and 5"),
        ({"labels": np.full(N, -1)}, r"labels must hold class codes in 0\.\.2, the network's, got -1\.\.-1"),
        ({"images": np.zeros((N, *SHAPE), np.uint8)}, "images must be float32 or float64, got uint8"),
        ({"images": np.full((N, *SHAPE), np.nan)}, "images must be finite, got 3840 bad entries"),
        ({"clipping_norm": np.inf, "noise_multiplier": 1.0}, "clipping_norm=inf needs noise_multiplier=0"),
        ({"optimizer": "sgdd"}, "optimizer must be one of 'adam', 'momentum', 'sgd', got optimizer='sgdd'"),
        ({"momentum": 1.0}, "momentum must be < 1, got momentum=1.0"),
        ({"engine": "fast"}, "engine must be one of"),
        ({"micro_batch": 0}, "micro_batch must be >= 1"),
        ({"learning_rate": 1e308, "noise_multiplier": 1e6}, "training of model 0 diverged"),
    ],
)
def test_bad_input_is_named(problem, change, message):
    arguments = {"build": build, "images": problem[0], "labels": problem[1], **SETTINGS, **change}
    with pytest.raises(ValueError, match=message):
        fit_dp_sgd_network(**arguments)


@pytest.mark.needs("gpu")
@pytest.mark.parametrize("engine", ["book-keeping", "vmap"])
def test_gpu_equals_cpu(problem, engine):
    on_cpu, on_gpu = fit(problem, engine=engine), fit(problem, engine=engine, device="cuda")
    same(on_cpu, on_gpu, 1e-9)
    noisy = [fit(problem, engine=engine, device="cuda", noise_multiplier=1.0, micro_batch=m) for m in (3, 60)]
    same(*noisy, 1e-9)
