"""Schedules, augmentation and weights to start from, each against the same thing written out."""

import numpy as np
import pytest
import torch
from torch import nn

from dpnotes.learners import crop_flip, epoch_factors, fit_networks, multilayer_perceptron

SHAPE = (1, 8, 8)
SETTINGS = {"epochs": 6, "batch_size": 16, "learning_rate": 0.1, "optimizer": "sgd", "seed": 5, "device": "cpu"}


def build(generator):
    return multilayer_perceptron(SHAPE, 3, hidden=(8,), generator=generator)


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    return rng.normal(size=(60, *SHAPE)), rng.integers(3, size=60), rng.integers(60, size=(3, 40))


def generator_of(*key):
    state = np.random.SeedSequence(5, spawn_key=key).generate_state(1, np.uint64)[0]
    return torch.Generator().manual_seed(int(state) >> 1)


def plain(problem, index, *, scheduler=None, augment=False, weight_decay=0.0, momentum=0.0):
    """The same training written out with PyTorch's own schedulers and one optimizer."""
    images, labels, subsets = problem
    orders, changes = generator_of(index), generator_of(index, 1)
    network = build(orders).double()
    descent = torch.optim.SGD(network.parameters(), lr=0.1, weight_decay=weight_decay, momentum=momentum, foreach=False)
    steps = scheduler(descent) if scheduler else None
    for _ in range(6):
        order = torch.from_numpy(subsets[index])[torch.randperm(40, generator=orders)]
        x, y = torch.from_numpy(images[order]), torch.from_numpy(labels[order])
        x = crop_flip(x, changes) if augment else x
        for start in (0, 16, 32):
            part = slice(start, start + 16)
            descent.zero_grad()
            nn.functional.cross_entropy(network(x[part]), y[part]).backward()
            descent.step()
        if steps:
            steps.step()
    return dict(network.named_parameters())


@pytest.mark.parametrize("engine", ["loop", "batched"])
@pytest.mark.parametrize(
    ("options", "reference"),
    [
        (
            {"schedule": {2: 0.1, 5: 0.01}},
            {"scheduler": lambda o: torch.optim.lr_scheduler.MultiStepLR(o, [2, 5], gamma=0.1)},
        ),
        (
            {"schedule": {epoch: 0.9**epoch for epoch in range(6)}},
            {"scheduler": lambda o: torch.optim.lr_scheduler.ExponentialLR(o, 0.9)},
        ),
        (
            {"optimizer": "momentum", "momentum": 0.7, "weight_decay": 0.02},
            {"momentum": 0.7, "weight_decay": 0.02},
        ),
        ({"augmentation": "crop-flip"}, {"augment": True}),
    ],
    ids=["milestones", "every epoch", "momentum", "augmentation"],
)
def test_equals_the_same_training_written_out(problem, engine, options, reference):
    fitted = fit_networks(build, *problem, engine=engine, **SETTINGS | options)
    for index in (0, 2):
        for name, value in plain(problem, index, **reference).items():
            np.testing.assert_allclose(fitted.parameters[name][index], value.detach(), atol=1e-12)


def test_factors():
    np.testing.assert_array_equal(epoch_factors(None, 3), [1, 1, 1])
    np.testing.assert_array_equal(epoch_factors({3: 0.1, 0: 0.5, 9: 7.0}, 5), [0.5, 0.5, 0.5, 0.1, 0.1])
    with pytest.raises(ValueError, match=r"factors of schedule must be >= 0, got .*nan"):
        epoch_factors({1: float("nan")}, 3)
    with pytest.raises(TypeError, match=r"schedule must be .* got schedule=0\.1"):
        epoch_factors(0.1, 3)


def test_augmentation_draws_change_nothing_else(problem):
    """Orders and initial weights come from another stream: with a rate of 1e-12 both trainings stay at the start."""
    settings = SETTINGS | {"learning_rate": 1e-12}
    fits = [fit_networks(build, *problem, augmentation=kind, **settings) for kind in (None, "crop-flip")]
    for name, value in fits[0].parameters.items():
        np.testing.assert_allclose(fits[1].parameters[name], value, atol=1e-10)
    with pytest.raises(ValueError, match=r"augmentation='crop-flip' needs images .* got 2 axes"):
        fit_networks(build, problem[0].reshape(60, 64), *problem[1:], augmentation="crop-flip", **SETTINGS)


def test_bytes_stand_for_fractions_of_255(problem):
    _, labels, subsets = problem
    pixels = np.random.default_rng(1).integers(256, size=(60, *SHAPE), dtype=np.uint8)
    as_bytes = fit_networks(build, pixels, labels, subsets, **SETTINGS)
    as_floats = fit_networks(build, pixels.astype(np.float32) / 255, labels, subsets, **SETTINGS)
    for name, value in as_floats.parameters.items():
        assert torch.equal(as_bytes.parameters[name], value)
    logits = as_floats.logits(pixels.astype(np.float32) / 255, device="cpu")
    np.testing.assert_array_equal(as_bytes.logits(pixels, device="cpu"), logits)


@pytest.mark.parametrize("engine", ["loop", "batched"])
def test_fine_tuning_starts_from_all_but_the_last_layer(problem, engine):
    """One step of plain descent: each layer changes by the rate times the gradient at the start."""
    images, labels, subsets = problem
    ready = fit_networks(build, *problem, **SETTINGS)
    settings = SETTINGS | {"epochs": 1, "batch_size": 40, "seed": 6}
    options = {"new_last_layer": True, "engine": engine}
    tuned = fit_networks(build, *problem, initial=ready.state_dict(1), **options, **settings)
    for index, rows in enumerate(subsets):
        state = np.random.SeedSequence(6, spawn_key=(index,)).generate_state(1, np.uint64)[0]
        network = build(torch.Generator().manual_seed(int(state) >> 1)).double()  # its last layer is the new one
        given = ready.state_dict(1)
        with torch.no_grad():
            network[1].weight.copy_(given["1.weight"])
            network[1].bias.copy_(given["1.bias"])
        nn.functional.cross_entropy(network(torch.from_numpy(images[rows])), torch.from_numpy(labels[rows])).backward()
        for name, value in network.named_parameters():
            expected = (value - 0.1 * value.grad).detach()
            np.testing.assert_allclose(tuned.parameters[name][index], expected, atol=1e-13)


def test_going_on_from_a_model(problem):
    """Plain descent has no state: 3 epochs and 3 more on the whole subset equal 6, model by model."""
    settings = SETTINGS | {"batch_size": 40, "epochs": 3}
    half = fit_networks(build, *problem, **settings)
    whole = fit_networks(build, *problem, **settings | {"epochs": 6})
    for model in range(3):
        on = fit_networks(build, *problem, initial=half.state_dict(model), **settings | {"seed": 77})
        for name, value in whole.parameters.items():
            np.testing.assert_allclose(on.parameters[name][model], value[model], atol=1e-12)


def test_other_classes_need_a_new_last_layer(problem):
    images, labels, subsets = problem
    ready = fit_networks(build, *problem, **SETTINGS)

    def five(generator):
        return multilayer_perceptron(SHAPE, 5, hidden=(8,), generator=generator)

    with pytest.raises(
        ValueError, match=r"initial\['3.weight'\] must have shape \(5, 8\), got \(3, 8\); .*new_last_layer"
    ):
        fit_networks(five, *problem, initial=ready.state_dict(0) | {"3.bias": torch.zeros(5)}, **SETTINGS)
    tuned = fit_networks(
        five, images, labels + 2, subsets, initial=ready.state_dict(0), new_last_layer=True, **SETTINGS
    )
    assert tuned.parameters["3.weight"].shape == (3, 5, 8)
    broken = {name: value * float("nan") for name, value in ready.state_dict(0).items()}
    with pytest.raises(ValueError, match=r"initial\['.*'\] must be finite"):
        fit_networks(build, *problem, initial=broken, **SETTINGS)

    def convolution(generator):
        network = nn.Sequential(nn.Conv2d(1, 3, 8), nn.Flatten())
        nn.init.normal_(network[0].weight, generator=generator)
        return network

    with pytest.raises(ValueError, match="new_last_layer=True needs a network with a linear layer"):
        fit_networks(convolution, *problem, initial={}, new_last_layer=True, **SETTINGS)
