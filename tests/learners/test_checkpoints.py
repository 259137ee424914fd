"""A training that is stopped at an epoch's end and goes on is, bit for bit, the
training that is not stopped.
"""

import io
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

N = 26
EPOCHS = 4
IMAGES = np.random.default_rng(0).normal(size=(N, 3, 8, 8)).astype(np.float32)
# all classes in each subset
LABELS = np.arange(N) % 3
SUBSETS = [range(0, N, 2), range(16)]  # two batches an epoch each
NETWORKS = {
    "residual": lambda generator: residual_network((3, 8, 8), 3, generator=generator),
    "convolutional": lambda generator: convolutional_network(
        (3, 8, 8), 3, channels=(2,), kernel_size=3, generator=generator
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
        # saved and loaded so often, and the number of states after which it stops
        self.states = {}
        self.saved = 0
        self.loaded = 0
        self.left = stop

    def load(self, training):
        if training not in self.states:
            return None
        self.loaded += 1
        return torch.load(io.BytesIO(self.states[training]), weights_only=True)

    def save(self, training, state, *, last):
        file = io.BytesIO()
        # through bytes: a tensor that is changed later must not change the state
        torch.save(state(), file)
        self.states[training] = file.getvalue()
        # a last state is one that need not be continued
        assert last == (state()["done"] in (EPOCHS, 3 * EPOCHS))
        self.saved += 1
        if self.saved == self.left:
            raise StoppedError


TRAINING = {
    "epochs": EPOCHS,
    "batch_size": 8,
    "learning_rate": 0.02,
    "schedule": {2: 0.1},
    "augmentation": "crop-flip",
    "engine": "loop",
    "seed": 5,
    "device": "cpu",
}
PRIVATE = {
    "noise_multiplier": [0.7, 0.0],
    "clipping_norm": 1.0,
    # three steps are an epoch
    "sample_rate": 1 / 3,
    "steps": 3 * EPOCHS,
    "n_records": N,
    "learning_rate": list(np.linspace(0.1, 0.01, 3 * EPOCHS)),
    "seed": 5,
    "device": "cpu",
}


def fit(name, *, images=IMAGES, subsets=SUBSETS, **changes):
    settings = TRAINING | changes
    if name == "mlp":
        images = images.reshape(N, -1)
        settings["augmentation"] = None
    return fit_networks(NETWORKS[name], images, LABELS, subsets, **settings)


def fit_privately(name, **changes):
    return fit_dp_sgd_network(NETWORKS[name], IMAGES, LABELS, **PRIVATE | changes)


FITS = {
    "residual, momentum": partial(fit, "residual", optimizer="momentum"),
    "convolutional, adam": partial(fit, "convolutional", optimizer="adam"),
    "mlp, batched": partial(fit, "mlp", optimizer="adam", engine="batched"),
    "dp-sgd, momentum": partial(fit_privately, "convolutional", optimizer="momentum"),
    "dp-sgd, adam": partial(fit_privately, "convolutional", optimizer="adam"),
}


def same(one, other):
    np.testing.assert_array_equal(one.loss, other.loss)
    # not even the last bit
    for name, value in one.parameters.items():
        assert value.numpy().tobytes() == other.parameters[name].numpy().tobytes(), name


@pytest.mark.parametrize("name", FITS)
def test_a_stopped_training_goes_on_bit_for_bit(name):
    """Catches a state without momentum, streams that start again, a loss summed
    twice, a model trained twice.
    """
    fit = FITS[name]
    undisturbed = fit()
    checkpoint = Memory()
    stops = 0
    while True:
        # after one epoch or two
        checkpoint.left = checkpoint.saved + 1 + stops % 2
        try:
            fitted = fit(checkpoint=checkpoint)
            break
        except StoppedError:
            stops += 1
    same(undisturbed, fitted)
    trainings = 1 if "batched" in name else 2
    assert stops >= 3
    # no epoch twice
    assert checkpoint.saved == trainings * EPOCHS
    assert len(checkpoint.states) == trainings
    # all states are the last
    same(undisturbed, fit(checkpoint=checkpoint))
    assert checkpoint.saved == trainings * EPOCHS


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("convolutional, adam", {"seed": 6}),
        ("convolutional, adam", {"first": 1}),
        ("convolutional, adam", {"learning_rate": 0.03}),
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
    checkpoint.left = checkpoint.saved + 1
    with pytest.raises(StoppedError):
        FITS[name](checkpoint=checkpoint, **changes)
    # the second training has a state of its own
    assert checkpoint.loaded == 0
    assert len(checkpoint.states) == 2


@pytest.mark.parametrize("change", ["torch", "code", "device"])
def test_a_state_of_another_torch_code_or_device_is_refused_with_a_word(
    monkeypatch, change
):
    fit = FITS["mlp, batched"]
    undisturbed = fit()
    checkpoint = Memory(stop=2)
    with pytest.raises(StoppedError):
        fit(checkpoint=checkpoint)
    if change == "torch":
        monkeypatch.setattr(torch, "__version__", "2.0.0")
    elif change == "code":
        # as if a module of the package had changed
        monkeypatch.setattr(checkpoints, "_code", lambda: "0" * 10)
    else:
        monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "VSX")
    checkpoint.left = 10**9
    message = "was made by code .* the training starts again"
    with pytest.warns(UserWarning, match=message):
        fitted = fit(checkpoint=checkpoint)
    same(undisturbed, fitted)
    # the states that were written anew are its own: a warning would be an error
    same(undisturbed, fit(checkpoint=checkpoint))


def test_models_that_are_trained_by_themselves_are_those_of_many():
    whole = fit("convolutional", optimizer="adam")
    own = fit("convolutional", optimizer="adam", subsets=SUBSETS[1:], first=1)
    same(whole[1], own)


def test_secret_noise_is_kept_by_no_checkpoint():
    """What the operating system drew cannot be drawn again, and a state beside it
    would not be private.
    """
    with pytest.raises(ValueError, match="checkpoint must be None if normal is given"):
        fit_privately("mlp", normal=np.zeros, checkpoint=Memory())
    checkpoint = Memory()
    how = {"channels": (2,), "kernel_size": 3, "checkpoint": checkpoint}
    network = NetworkClassifier((3, 8, 8), **how)
    run = {"sample_rate": 1 / 3, "steps": 3 * EPOCHS, "device": "cpu"}
    model = DPSGD(noise_multiplier=1.0, network=network, **run)
    model.fit(IMAGES.reshape(N, -1), LABELS)
    assert not checkpoint.states
    # noise that can be drawn again
    model.noise_seed = 0
    model.fit(IMAGES.reshape(N, -1), LABELS)
    assert len(checkpoint.states) == 1
