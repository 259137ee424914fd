"""A training that is stopped at an epoch's end and goes on is, bit for bit, the
training that is not stopped.
"""

import io
import warnings
from functools import partial

import numpy as np
import pytest
import torch

from dpnotes import DPSGD
from dpnotes.learners import (
    NetworkClassifier,
    _descent as checkpoints,
    convolutional_network,
    fit_dp_sgd_network,
    fit_networks,
    multilayer_perceptron,
    residual_network,
)

N, EPOCHS = 26, 4
IMAGES = np.random.default_rng(0).normal(size=(N, 3, 8, 8)).astype(np.float32)
LABELS = np.arange(N) % 3
SUBSETS = [range(0, N, 2), range(16)]  # two batches an epoch each
NETWORKS = {
    "residual": lambda generator: residual_network((3, 8, 8), 3, generator=generator),
    "convolutional": lambda generator: convolutional_network(
        (3, 8, 8), 3, channels=(2, 4), kernel_size=3, padding=1, generator=generator
    ),
    "mlp": lambda generator: multilayer_perceptron(
        (192,), 3, hidden=(8,), generator=generator
    ),
}


class StoppedError(Exception):
    """Stands for a kill."""


class Memory:
    """Checkpoint in memory that stops trainings after some states, each of which
    goes through bytes.
    """

    def __init__(self, stop=10**9):
        self.states, self.saved, self.loaded, self.left = {}, 0, 0, stop

    def load(self, training):
        self.loaded += training in self.states
        return (
            torch.load(io.BytesIO(self.states[training]), weights_only=True)
            if training in self.states
            else None
        )

    def save(self, training, state, *, last):
        file = io.BytesIO()
        torch.save(state(), file)
        self.states[training] = file.getvalue()
        assert last == (state()["done"] in (EPOCHS, 3 * EPOCHS))
        self.saved += 1
        if self.saved == self.left:
            raise StoppedError


def fit(name, *, optimizer, engine="loop", images=IMAGES, **changes):
    settings = {
        "epochs": EPOCHS,
        "batch_size": 8,
        "learning_rate": 0.02,
        "schedule": {2: 0.1},
        "seed": 5,
    }
    images = images.reshape(N, -1) if name == "mlp" else images
    augmentation = None if name == "mlp" else "crop-flip"
    settings |= {
        "optimizer": optimizer,
        "augmentation": augmentation,
        "engine": engine,
        "device": "cpu",
    }
    return fit_networks(NETWORKS[name], images, LABELS, SUBSETS, **settings | changes)


def fit_privately(name, *, optimizer, **changes):
    settings = {
        "noise_multiplier": [0.7, 0.0],
        "clipping_norm": 1.0,
        "steps": 3 * EPOCHS,
        "n_records": len(IMAGES),
        "seed": 5,
        "device": "cpu",
    }
    settings |= {"sample_rate": 1 / 3, "optimizer": optimizer}
    learning_rate = list(np.linspace(0.1, 0.01, 3 * EPOCHS))
    return fit_dp_sgd_network(
        NETWORKS[name],
        IMAGES,
        LABELS,
        **settings | {"learning_rate": learning_rate} | changes,
    )


FITS = {
    "residual, momentum": partial(fit, "residual", optimizer="momentum"),
    "convolutional, adam": partial(fit, "convolutional", optimizer="adam"),
    "mlp, batched": partial(fit, "mlp", optimizer="adam", engine="batched"),
    "dp-sgd, momentum": partial(fit_privately, "convolutional", optimizer="momentum"),
    "dp-sgd, adam": partial(fit_privately, "convolutional", optimizer="adam"),
}


def same(one, other):
    np.testing.assert_array_equal(one.loss, other.loss)
    for name, value in one.parameters.items():
        assert value.numpy().tobytes() == other.parameters[name].numpy().tobytes(), name


@pytest.mark.parametrize("name", FITS)
def test_a_stopped_training_goes_on_bit_for_bit(name):
    """Catches a state without momentum, streams that start again, a loss summed
    twice, a model trained twice.
    """
    fit = FITS[name]
    undisturbed, checkpoint, stops = fit(), Memory(), 0
    while True:
        checkpoint.left = checkpoint.saved + 1 + stops % 2  # after one epoch or two
        try:
            fitted = fit(checkpoint=checkpoint)
            break
        except StoppedError:
            stops += 1
    same(undisturbed, fitted)
    trainings = 1 if "batched" in name else 2
    assert stops >= 3
    assert checkpoint.saved == trainings * EPOCHS  # no epoch twice
    assert len(checkpoint.states) == trainings
    same(undisturbed, fit(checkpoint=checkpoint))  # all states are the last
    assert checkpoint.saved == trainings * EPOCHS


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("convolutional, adam", {"seed": 6}),
        ("convolutional, adam", {"first": 1}),
        ("convolutional, adam", {"learning_rate": 0.03}),
        ("convolutional, adam", {"weight_decay": 0.1}),
        ("convolutional, adam", {"augmentation": None}),
        ("mlp, batched", {"engine": "loop"}),
        ("mlp, batched", {"images": IMAGES + np.float32(1e-6)}),
        ("dp-sgd, momentum", {"seed": 6}),
        ("dp-sgd, momentum", {"noise_multiplier": [0.8, 0.1]}),
        ("dp-sgd, momentum", {"sample_rate": 0.3}),
        ("dp-sgd, momentum", {"momentum": 0.8}),
        ("dp-sgd, momentum", {"steps": 9, "learning_rate": 0.1}),
    ],
)
def test_a_state_of_other_settings_or_data_is_not_handed_out(name, changes):
    checkpoint = Memory(stop=1)
    with pytest.raises(StoppedError):
        FITS[name](checkpoint=checkpoint)
    checkpoint.left, before = checkpoint.saved + 1, set(checkpoint.states)
    with pytest.raises(StoppedError):
        FITS[name](checkpoint=checkpoint, **changes)
    assert checkpoint.loaded == 0
    assert before.isdisjoint(set(checkpoint.states) - before)
    assert len(checkpoint.states) == 2


@pytest.mark.parametrize("change", ["torch", "code", "device"])
def test_a_state_of_another_torch_code_or_device_is_refused_with_a_word(
    monkeypatch, change
):
    undisturbed, checkpoint = fit("mlp", optimizer="adam"), Memory(stop=2)
    with pytest.raises(StoppedError):
        fit("mlp", optimizer="adam", checkpoint=checkpoint)
    if change == "torch":
        monkeypatch.setattr(torch, "__version__", "2.0.0")
    elif change == "code":
        monkeypatch.setattr(checkpoints, "_code", lambda: "0" * 10)
    else:
        monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "VSX")
    checkpoint.left = 10**9
    with pytest.warns(
        UserWarning, match="was made by code .* the training starts again"
    ):
        fitted = fit("mlp", optimizer="adam", checkpoint=checkpoint)
    same(undisturbed, fitted)
    # the states that were written anew are its own
    with warnings.catch_warnings(action="error"):
        same(undisturbed, fit("mlp", optimizer="adam", checkpoint=checkpoint))


def test_models_that_are_trained_by_themselves_are_those_of_many():
    whole = fit("convolutional", optimizer="adam")
    own = fit_networks(
        NETWORKS["convolutional"],
        IMAGES,
        LABELS,
        SUBSETS[1:],
        first=1,
        seed=5,
        epochs=EPOCHS,
        batch_size=8,
        learning_rate=0.02,
        schedule={2: 0.1},
        optimizer="adam",
        augmentation="crop-flip",
        engine="loop",
        device="cpu",
    )
    same(whole[1], own)


def test_secret_noise_is_kept_by_no_checkpoint():
    """What the operating system drew cannot be drawn again, and a state beside it
    would not be private.
    """
    with pytest.raises(
        ValueError, match=r"^checkpoint must be None if normal is given"
    ):
        fit_privately("mlp", optimizer="sgd", normal=np.zeros, checkpoint=Memory())
    checkpoint = Memory()
    network = NetworkClassifier(
        (3, 8, 8), channels=(2,), kernel_size=3, padding=1, checkpoint=checkpoint
    )
    model = DPSGD(
        noise_multiplier=1.0,
        network=network,
        sample_rate=1 / 3,
        steps=3 * EPOCHS,
        device="cpu",
    )
    model.fit(IMAGES.reshape(N, -1), LABELS)
    assert not checkpoint.states
    model.noise_seed = 0
    model.fit(IMAGES.reshape(N, -1), LABELS)
    assert len(checkpoint.states) == 1
