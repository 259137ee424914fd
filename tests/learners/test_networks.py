"""Networks on subsets: equal to a plain loop, independent of one another, deterministic, and strict about input."""

import numpy as np
import pytest
import torch
from torch import nn

from dpnotes.learners import NetworkClassifier, convolutional_network, fit_networks
from dpnotes.learners import _networks as engine

SHAPE = (1, 8, 8)
SETTINGS = {"epochs": 3, "batch_size": 16, "learning_rate": 1e-2, "device": "cpu"}


def build(generator):
    return convolutional_network(SHAPE, 3, channels=(4, 8), kernel_size=3, padding=1, generator=generator)


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=90)
    images = rng.normal(size=(90, *SHAPE)).astype(np.float32) * 0.3
    images[np.arange(90), 0, 2 * labels] += 1.0  # class c shows as a bright row 2c
    subsets = rng.integers(90, size=(3, 41))  # 41 rows: two full batches and one of nine
    return images, labels, subsets


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("optimizer", ["adam", "momentum", "sgd"])
def test_equals_a_plain_loop(problem, dtype, optimizer):
    """Catches a batch that is dropped, an order that is reused, a loss that is averaged wrongly, a mixed-up row."""
    images, labels, subsets = problem
    images = images.astype(dtype)
    fitted = fit_networks(build, images, labels, subsets, optimizer=optimizer, seed=5, **SETTINGS)
    for index, rows in enumerate(subsets):
        state = np.random.SeedSequence(5, spawn_key=(index,)).generate_state(1, np.uint64)[0]
        generator = torch.Generator().manual_seed(int(state) >> 1)
        network = build(generator).to(torch.tensor(images[:1]).dtype)
        plain = {
            "adam": lambda p: torch.optim.Adam(p, lr=1e-2, foreach=False),
            "momentum": lambda p: torch.optim.SGD(p, lr=1e-2, momentum=0.9, foreach=False),
            "sgd": lambda p: torch.optim.SGD(p, lr=1e-2, foreach=False),
        }[optimizer](network.parameters())
        x, y = torch.tensor(images[rows]), torch.tensor(labels[rows])
        for _ in range(3):
            losses = []
            order = torch.randperm(41, generator=generator)
            for start in (0, 16, 32):
                batch = order[start : start + 16]
                plain.zero_grad()
                loss = nn.functional.cross_entropy(network(x[batch]), y[batch])
                loss.backward()
                plain.step()
                losses.append(loss.item() * len(batch))
        # Adam divides by the root of tiny squared gradients, which magnifies float32 rounding
        tolerance = 1e-10 if dtype is np.float64 else 2e-4
        for name, value in network.named_parameters():
            np.testing.assert_allclose(fitted.parameters[name][index], value.detach(), atol=tolerance)
        assert fitted.loss[index] == pytest.approx(sum(losses) / 41, rel=1e-4)
    assert fitted.parameters["0.weight"].dtype == torch.tensor(images[:1]).dtype


def test_models_do_not_depend_on_one_another_nor_on_global_state(problem):
    images, labels, subsets = problem
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    all_three = fit_networks(build, images, labels, subsets, seed=1, **SETTINGS)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_num_threads() == threads
    torch.manual_seed(99)
    first = fit_networks(build, images, labels, subsets[:1], seed=1, **SETTINGS)
    other = fit_networks(build, images, labels, subsets[:1], seed=2, **SETTINGS)
    for name, value in first.parameters.items():
        assert torch.equal(value[0], all_three.parameters[name][0])
        assert not torch.equal(value[0], other.parameters[name][0])


def test_it_learns_and_prediction_does_not_depend_on_the_chunk(problem, monkeypatch):
    images, labels, subsets = problem
    fitted = fit_networks(build, images, labels, subsets, seed=1, **SETTINGS | {"epochs": 15})
    assert (fitted.votes(images, device="cpu") == labels).mean() > 0.9
    logits = fitted.logits(images, device="cpu")
    assert logits.shape == (3, 90, 3)
    counts = fitted.vote_counts(images, device="cpu")
    np.testing.assert_array_equal(counts, (logits.argmax(2)[..., None] == np.arange(3)).sum(0))
    np.testing.assert_array_equal(fitted[-1].logits(images, device="cpu"), logits[2:])
    np.testing.assert_array_equal(fitted[1:].votes(images, device="cpu"), logits[1:].argmax(2))
    assert fitted.votes(images[:0], device="cpu").shape == (3, 0)
    with pytest.raises(IndexError):
        fitted[3]
    module = build(torch.Generator())
    module.load_state_dict(fitted.state_dict(1))
    np.testing.assert_allclose(module(torch.tensor(images)).detach(), logits[1], atol=1e-5)
    monkeypatch.setattr(engine, "QUERY_ROWS", 7)
    # rounding only: the convolution sums in another order for another batch size
    np.testing.assert_allclose(fitted.logits(images, device="cpu"), logits, atol=1e-5)


def test_read_only_rows(problem):
    images, labels, subsets = problem
    images = images.copy()
    images.setflags(write=False)  # data sets are handed out read-only; a warning would be an error here
    assert len(fit_networks(build, images, labels, subsets, seed=1, **SETTINGS)) == 3


def test_initial_weights_have_the_stated_distribution():
    """Uniform on +-1/sqrt(fan_in), bias included; a bound ten percent off is noticed."""
    network = convolutional_network((1, 28, 28), 10, generator=torch.Generator().manual_seed(0))
    shapes = [tuple(p.shape) for p in network.parameters()]
    assert shapes == [(16, 1, 5, 5), (16,), (32, 16, 5, 5), (32,), (10, 512), (10,)]
    linear = network[-1].weight.detach().numpy().ravel() * np.sqrt(512)
    from scipy import stats

    assert stats.kstest(linear, stats.uniform(-1, 2).cdf).pvalue > 1e-3
    assert stats.kstest(linear * 1.1, stats.uniform(-1, 2).cdf).pvalue < 1e-3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": np.zeros(5, int)}, "images and labels must have equal length, got 90 and 5"),
        ({"labels": np.full(90, 3)}, r"labels must hold class codes in 0\.\.2, the network's, got 3\.\.3"),
        ({"labels": np.full(90, 0.5)}, "labels must hold class codes, shape .n., got float64"),
        ({"images": np.zeros((90, *SHAPE), np.int16)}, "images must be float32, float64 or uint8, got int16"),
        ({"images": np.full((90, *SHAPE), np.nan)}, "images must be finite, got 5760 bad entries"),
        ({"subsets": np.zeros((2, 0), int)}, "subsets must not be empty, got subset 0 of 0 rows"),
        ({"subsets": [[0, 1], [2.5]]}, "subsets must hold integer row indices, got float64 at 1"),
        ({"subsets": np.array([[90]])}, r"row indices in 0\.\.89, got 90\.\.90"),
        ({"epochs": 0}, "epochs must be >= 1"),
        ({"batch_size": 0}, "batch_size must be >= 1"),
        ({"learning_rate": -1.0}, "learning_rate must be > 0"),
        ({"optimizer": "sgdd"}, "optimizer must be one of 'adam', 'momentum', 'sgd', got optimizer='sgdd'"),
        ({"momentum": 1.0}, "momentum must be < 1, got momentum=1.0"),
        ({"weight_decay": -1e-4}, "weight_decay must be >= 0, got weight_decay=-0.0001"),
        ({"augmentation": "flip"}, "augmentation must be None or 'crop-flip', got augmentation='flip'"),
        ({"schedule": {-1: 0.1}}, "epochs of schedule must be >= 0, got .*-1"),
        ({"schedule": {1: -1}}, "factors of schedule must be >= 0, got .*-1"),
        ({"new_last_layer": True}, "new_last_layer=True needs .* got initial=None"),
        ({"initial": {}}, "initial must hold all parameters, '.*' is missing"),
        ({"initial": {"9.weight": torch.zeros(2)}}, "initial names '9.weight', the network has 0.weight, "),
        ({"engine": "vmap"}, "engine must be one of 'auto', 'loop', 'batched', got engine='vmap'"),
        ({"engine": "batched", "chunk": 0}, "chunk must be >= 1, got chunk=0"),
        ({"learning_rate": 1e30}, "training of model 0 diverged"),
        ({"learning_rate": 1e30, "engine": "batched"}, "training of model 0 diverged .* lower learning_rate=1e.30"),
    ],
)
def test_bad_input_is_named(problem, change, message):
    images, labels, subsets = problem
    arguments = {"images": images, "labels": labels, "subsets": subsets, "optimizer": "momentum", **SETTINGS, **change}
    with pytest.raises(ValueError, match=message):
        fit_networks(build, seed=0, **arguments)


def test_device_that_is_not_there_is_named(problem, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match="PyTorch sees no GPU"):
        fit_networks(build, *problem, seed=0, **SETTINGS | {"device": "cuda"})


def test_network_needs_a_generator_and_room():
    with pytest.raises(TypeError, match="generator"):
        convolutional_network(SHAPE, 3)
    with pytest.raises(ValueError, match="too small for 2 convolutions"):
        convolutional_network(SHAPE, 3, kernel_size=5, generator=torch.Generator())


@pytest.mark.needs("gpu")
def test_gpu_equals_cpu(problem):
    images, labels, subsets = problem
    images = images.astype(np.float64)
    on_cpu = fit_networks(build, images, labels, subsets, seed=1, **SETTINGS)
    on_gpu = fit_networks(build, images, labels, subsets, seed=1, **SETTINGS | {"device": "cuda"})
    for name, value in on_cpu.parameters.items():
        np.testing.assert_allclose(on_gpu.parameters[name], value, atol=1e-8)


def test_classifier_follows_scikit_learn(problem):
    images, labels, _ = problem
    names = np.array(["cat", "dog", "emu"])[labels]
    rows = images.reshape(90, -1)
    make = NetworkClassifier(SHAPE, channels=(4, 8), kernel_size=3, padding=1, epochs=15, learning_rate=1e-2)
    model = make.set_params(random_state=0).fit(rows, names)
    assert model.score(rows, names) > 0.9
    probabilities = model.predict_proba(rows)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-6)
    assert (model.classes_[probabilities.argmax(axis=1)] == model.predict(rows)).all()
    again = make.fit(rows, names).predict_proba(rows)
    np.testing.assert_array_equal(again, probabilities)
    with pytest.raises(ValueError, match="holds 784 pixels, X has 64"):
        NetworkClassifier((1, 28, 28)).fit(rows, names)
