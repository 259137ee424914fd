"""Many networks in one tensor program: equal to the loop, whatever the chunk, the subsets' lengths and the options."""

import numpy as np
import pytest
import torch
from torch import nn

from dpnotes.learners import _network_engines as engines
from dpnotes.learners import convolutional_network, fit_networks, multilayer_perceptron, residual_network
from dpnotes.learners._network_gradients import is_chain

SHAPE = (3, 8, 8)
SETTINGS = {"epochs": 3, "batch_size": 16, "learning_rate": 1e-2, "seed": 5, "device": "cpu"}
BUILDS = {
    "convolutional": lambda g: convolutional_network(SHAPE, 3, channels=(4, 8), kernel_size=3, padding=1, generator=g),
    "residual": lambda g: residual_network(SHAPE, 3, blocks=1, width=8, groups=4, generator=g),
    "mlp": lambda g: multilayer_perceptron(SHAPE, 3, hidden=(12, 7), generator=g),
    "linear without bias": lambda g: _drawn(nn.Sequential(nn.Flatten(), nn.Linear(192, 3, bias=False), nn.Tanh()), g),
    "gated": lambda g: _drawn(_Gated(), g),
}
CHAINS = {"mlp", "linear without bias"}
OPTIONS = {
    "adam": {},
    "momentum": {"optimizer": "momentum", "momentum": 0.8, "weight_decay": 0.01, "schedule": {1: 0.3}},
    "sgd, augmented": {"optimizer": "sgd", "augmentation": "crop-flip", "schedule": {1: 0.3}},
}


class _Gated(nn.Module):
    """Uses one layer twice and is no sequence: for the general engine."""

    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Linear(192, 192), nn.Linear(192, 3)

    def forward(self, x):
        x = x.flatten(1)
        return self.outer(torch.sigmoid(self.inner(x)) * self.inner(-x))


def _drawn(network, generator):
    for parameter in network.parameters():
        nn.init.uniform_(parameter, -0.07, 0.07, generator=generator)
    return network


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=90)
    images = rng.normal(size=(90, *SHAPE)) * 0.3
    images[np.arange(90), 0, 2 * labels] += 1.0  # class c shows as a bright row 2c
    # 3, 1 and 3 batches an epoch, last batches of 9, 7, 16, 1 and 16 rows
    subsets = [rng.integers(90, size=size) for size in (41, 7, 48, 33, 16)]
    return images, labels, subsets


def difference(one, other):
    return max(float((one.parameters[name] - other.parameters[name]).abs().max()) for name in one.parameters)


@pytest.mark.parametrize("build", BUILDS.values(), ids=BUILDS)
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_batched_equals_loop(problem, build, options):
    """Catches shared orders, padding that counts, a mean over the wrong rows, rates or decay for the wrong model."""
    images, labels, subsets = problem
    loop = fit_networks(build, images, labels, subsets, engine="loop", **SETTINGS, **options)
    batched = fit_networks(build, images, labels, subsets, engine="batched", **SETTINGS, **options)
    assert difference(loop, batched) < 1e-10  # float64: rounding of sums in another order
    np.testing.assert_allclose(batched.loss, loop.loss, rtol=1e-10)
    assert list(batched.parameters) == list(loop.parameters)


@pytest.mark.parametrize("build", BUILDS.values(), ids=BUILDS)
def test_batched_equals_loop_in_float32(problem, build):
    images, labels, subsets = problem
    options = {"optimizer": "momentum", **SETTINGS}
    fits = [
        fit_networks(build, images.astype(np.float32), labels, subsets, engine=e, **options)
        for e in ("loop", "batched")
    ]
    assert difference(*fits) < 1e-4  # 9 steps magnify a rounding of 1e-7 through normalisation and kinks
    assert fits[1].parameters[next(iter(fits[1].parameters))].dtype == torch.float32


@pytest.mark.parametrize("chunk", [1, 2, None])
def test_chunks_change_nothing(problem, chunk, monkeypatch):
    images, labels, subsets = problem
    whole = fit_networks(BUILDS["mlp"], images, labels, subsets, engine="batched", chunk=5, **SETTINGS)
    seen, train = [], engines.train

    def counted(starts, *settings):
        seen.append(len(starts))
        return train(starts, *settings)

    monkeypatch.setattr(engines, "train", counted)
    parts = fit_networks(BUILDS["mlp"], images, labels, subsets, engine="batched", chunk=chunk, **SETTINGS)
    assert difference(whole, parts) < 1e-12
    # three models have 3 batches an epoch and two have 1: they are never trained together
    assert len(seen) == {1: 5, 2: 3, None: 2}[chunk]
    assert sum(seen) == 5


def test_parameters_without_gradient_stay(problem):
    images, labels, subsets = problem

    def build(generator):
        network = BUILDS["mlp"](generator)
        network[1].weight.requires_grad_(False)
        return network

    loop = fit_networks(build, images, labels, subsets, engine="loop", **SETTINGS)
    batched = fit_networks(build, images, labels, subsets, engine="batched", **SETTINGS)
    assert difference(loop, batched) < 1e-10
    state = np.random.SeedSequence(5, spawn_key=(2,)).generate_state(1, np.uint64)[0]
    start = build(torch.Generator().manual_seed(int(state) >> 1))
    np.testing.assert_array_equal(batched.parameters["1.weight"][2], start[1].weight)
    assert not np.allclose(batched.parameters["1.bias"][2], start[1].bias.detach())


def test_batched_prediction_equals_one_at_a_time(problem):
    images, labels, subsets = problem
    fitted = fit_networks(BUILDS["mlp"], images, labels, subsets * 4, **SETTINGS | {"epochs": 1})
    together = fitted.logits(images, device="cpu")  # 20 models: 16 and 4
    alone = np.concatenate([fitted[i].logits(images, device="cpu") for i in range(20)])
    np.testing.assert_allclose(together, alone, atol=1e-12)
    np.testing.assert_array_equal(fitted.votes(images, device="cpu"), together.argmax(2))
    counts = (together.argmax(2)[..., None] == np.arange(3)).sum(0)
    np.testing.assert_array_equal(fitted.vote_counts(images, device="cpu"), counts)


def test_which_networks_are_chains():
    generator = torch.Generator().manual_seed(0)
    assert {name for name, build in BUILDS.items() if is_chain(build(generator))} == CHAINS
    shared = nn.Linear(4, 4)
    assert not is_chain(nn.Sequential(shared, nn.ReLU(), shared))
    assert not is_chain(nn.Sequential(nn.Linear(4, 4), nn.Flatten()))
    assert not is_chain(nn.Sequential(nn.Flatten(2), nn.Linear(4, 4)))
    assert not is_chain(nn.Sequential(nn.Linear(4, 4), nn.Softmax(1)))


def test_choice_of_engine():
    cpu, gpu = torch.device("cpu"), torch.device("cuda")
    generator = torch.Generator().manual_seed(0)
    cnn, mlp = BUILDS["convolutional"](generator), BUILDS["mlp"](generator)
    choice = [
        engines.choose_engine("auto", network, device, n_models=models, batch_size=batch)
        for network, device, models, batch in [
            (cnn, cpu, 8, 32), (mlp, cpu, 8, 32), (mlp, cpu, 1, 32),
            (cnn, gpu, 8, 32), (cnn, gpu, 1, 32), (cnn, gpu, 8, 512),
        ]
    ]  # fmt: skip
    assert choice == ["loop", "batched", "loop", "batched", "loop", "loop"]
    assert engines.choose_engine("batched", cnn, cpu, n_models=1, batch_size=600) == "batched"


@pytest.mark.parametrize("engine", ["loop", "batched"])
@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ([nn.BatchNorm1d(192), nn.Linear(192, 3)], r"batch normalisation \(layer '1', BatchNorm1d\)"),
        ([nn.BatchNorm1d(192, track_running_stats=False), nn.Linear(192, 3)], "batch normalisation"),
        ([nn.Dropout(0.1), nn.Linear(192, 3)], r"dropout \(layer '1', Dropout\), which draws from global random state"),
        ([nn.Linear(192, 3).requires_grad_(False)], "nothing to train"),
        ([nn.PReLU(), nn.Unflatten(1, (3, 64))], r"logits \[n, n_classes\], got shape \(1, 3, 64\) for one example"),
    ],
)
def test_layers_that_do_not_fit_are_named(problem, engine, layers, message):
    images, labels, subsets = problem

    def build(generator):
        return nn.Sequential(nn.Flatten(), *layers)

    with pytest.raises(ValueError, match=message):
        fit_networks(build, images, labels, subsets, engine=engine, **SETTINGS)


def test_a_chunk_that_does_not_fit_is_named(problem, monkeypatch):
    images, labels, subsets = problem
    monkeypatch.setattr("dpnotes.learners._chunks.free_bytes", lambda device: 300_000)
    with pytest.raises(MemoryError, match=r"chunk=2 models of .* chunk=\d would fit"):
        fit_networks(BUILDS["mlp"], images, labels, subsets, engine="batched", chunk=5, **SETTINGS)


@pytest.mark.needs("gpu")
@pytest.mark.parametrize("build", BUILDS.values(), ids=BUILDS)
def test_batched_on_a_gpu_equals_loop_on_a_cpu(problem, build):
    images, labels, subsets = problem
    on_cpu = fit_networks(build, images, labels, subsets, engine="loop", **SETTINGS)
    on_gpu = fit_networks(build, images, labels, subsets, engine="batched", **SETTINGS | {"device": "cuda"})
    assert difference(on_cpu, on_gpu) < 1e-8
    np.testing.assert_allclose(on_gpu.logits(images, device="cuda"), on_cpu.logits(images, device="cpu"), atol=1e-7)
