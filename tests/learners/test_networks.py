"""Networks on subsets: equal to PyTorch written out, by both engines, with each
option; and the classifier.
"""

from functools import partial

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

from dpnotes.learners import (
    NetworkClassifier,
    _networks as networks,
    choose_engine,
    convolutional_network,
    epoch_factors,
    fit_networks,
    multilayer_perceptron,
    residual_network,
)
from dpnotes.learners._network_training import (
    KINDS,
    apply_crop_flips,
    draw_crop_flips,
    is_chain,
)

SHAPE = (3, 8, 8)
SETTINGS = {
    "epochs": 3,
    "batch_size": 16,
    "learning_rate": 1e-2,
    "seed": 5,
    "device": "cpu",
}
BUILDS = {
    "convolutional": lambda g: convolutional_network(
        SHAPE, 3, channels=(4, 8), kernel_size=3, padding=1, generator=g
    ),
    "residual": lambda g: residual_network(
        SHAPE, 3, blocks=1, width=8, groups=4, generator=g
    ),
    "mlp": lambda g: multilayer_perceptron(SHAPE, 3, hidden=(12, 7), generator=g),
    "linear without bias": lambda g: _drawn(
        nn.Sequential(nn.Flatten(), nn.Linear(192, 3, bias=False), nn.Tanh()), g
    ),
    # no engine may rely on a layer being used once
    "gated": lambda g: _drawn(_Gated(), g),
}
# for which there is an engine of products alone
CHAINS = {"mlp", "linear without bias"}


class _Gated(nn.Module):
    """Uses one layer twice and is no sequence: for the general engine."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(192, 192)
        self.outer = nn.Linear(192, 3)

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
    # so that there is something to learn
    images[np.arange(90), 0, 2 * labels] += 1.0  # class c shows as a bright row 2c
    # 3, 1 and 3 batches an epoch, last batches of 9, 7, 16, 1 and 16 rows
    subsets = [rng.integers(90, size=size) for size in (41, 7, 48, 33, 16)]
    return images, labels, subsets


def generator_of(*key):
    state = np.random.SeedSequence(5, spawn_key=key).generate_state(1, np.uint64)[0]
    return torch.Generator().manual_seed(int(state) >> 1)


def plain(build, problem, index, *, optimizer, schedule, augment):
    """The same training written out with PyTorch's own optimizers and schedulers;
    weights, and the last loss.
    """
    images, labels, subsets = problem
    rows = torch.from_numpy(subsets[index])
    # the first stream gives the weights, too
    orders = generator_of(index)
    changes = generator_of(index, 1)
    network = build(orders).double()
    descent = optimizer(network.parameters())
    factors = epoch_factors(schedule, 4)
    steps = torch.optim.lr_scheduler.LambdaLR(descent, factors.__getitem__)
    for _ in range(3):
        order = rows[torch.randperm(len(rows), generator=orders)]
        x = torch.from_numpy(images)[order]
        y = torch.from_numpy(labels)[order]
        if augment:
            x = apply_crop_flips(x, draw_crop_flips(len(x), changes))
        losses = []
        for part in torch.arange(len(rows)).split(16):
            descent.zero_grad()
            loss = nn.functional.cross_entropy(network(x[part]), y[part])
            loss.backward()
            descent.step()
            # the mean over rows, not over batches
            losses.append(loss.item() * len(part))
        steps.step()
    return dict(network.named_parameters()), sum(losses) / len(rows)


HEAVY = {"momentum": 0.8}
# settings of ours, and PyTorch's class of the optimizer with its settings
OPTIONS = {
    "adam": ({}, torch.optim.Adam, {}),
    "momentum": ({"schedule": {1: 0.3}, **HEAVY}, torch.optim.SGD, HEAVY),
    "sgd": (
        {"augmentation": "crop-flip", "schedule": {0: 0.9, 2: 0.1}},
        torch.optim.SGD,
        {},
    ),
}


@pytest.mark.parametrize("build", BUILDS.values(), ids=BUILDS)
@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("engine", ["loop", "batched"])
def test_equals_the_same_training_written_out(problem, build, name, engine):
    """Catches shared orders, padding that counts, a mean over the wrong rows, or rates
    for the wrong model.
    """
    options, kind, own = OPTIONS[name]
    how = {"engine": engine, "optimizer": name, **SETTINGS, **options}
    fitted = fit_networks(build, *problem, **how)
    reference = {
        "optimizer": partial(kind, lr=1e-2, foreach=False, **own),
        "schedule": options.get("schedule"),
        "augment": "augmentation" in options,
    }
    for index in range(5):
        values, loss = plain(build, problem, index, **reference)
        for key, value in values.items():
            found = fitted.parameters[key][index]
            # Adam divides by the root of tiny squared gradients, which magnifies
            # rounding
            np.testing.assert_allclose(found, value.detach(), atol=1e-9)
        assert fitted.loss[index] == pytest.approx(loss, rel=1e-8)
    # in the order of the module
    assert list(fitted.parameters) == list(values)


@pytest.mark.parametrize("engine", ["loop", "batched"])
def test_parameters_without_gradient_stay(problem, engine):
    def build(generator):
        network = BUILDS["mlp"](generator)
        # one of a layer, so that none is frozen as a whole
        network[1].weight.requires_grad_(False)
        return network

    fitted = fit_networks(build, *problem, engine=engine, **SETTINGS)
    start = build(generator_of(2))
    np.testing.assert_array_equal(fitted.parameters["1.weight"][2], start[1].weight)
    assert not np.allclose(fitted.parameters["1.bias"][2], start[1].bias.detach())


def test_prediction_follows_from_the_weights_whatever_is_batched(problem, monkeypatch):
    images, labels, subsets = problem
    fitted = fit_networks(BUILDS["mlp"], images, labels, subsets * 4, **SETTINGS)
    together = fitted.logits(images, device="cpu")  # 20 models: 16 and 4
    assert together.shape == (20, 90, 3)
    np.testing.assert_array_equal(
        fitted.votes(images, device="cpu"), together.argmax(2)
    )
    for i in (0, 17):
        module = BUILDS["mlp"](torch.Generator()).double()
        module.load_state_dict(fitted.state_dict(i))
        plain = module(torch.tensor(images)).detach()
        np.testing.assert_allclose(plain, together[i], atol=1e-12)
        alone = fitted[i].logits(images, device="cpu")[0]
        np.testing.assert_allclose(alone, together[i], atol=1e-12)
    np.testing.assert_array_equal(fitted[-1].loss, fitted.loss[19:])
    assert fitted.votes(images[:0], device="cpu").shape == (20, 0)
    flat = images.reshape(90, -1)
    np.testing.assert_array_equal(fitted.logits(flat, device="cpu"), together)
    with pytest.raises(ValueError, match="got shape"):
        fitted.votes(np.moveaxis(images, 1, -1), device="cpu")
    with pytest.raises(IndexError):
        fitted[20]
    # which does not divide the 90 rows
    monkeypatch.setattr(networks, "QUERY_ROWS", 7)
    np.testing.assert_allclose(
        fitted.logits(images, device="cpu"), together, atol=1e-12
    )


def test_which_networks_are_chains():
    generator = torch.Generator().manual_seed(0)
    assert {
        name for name, build in BUILDS.items() if is_chain(build(generator))
    } == CHAINS
    shared = nn.Linear(4, 4)
    # of a layer that is used twice, the gradients must be added
    assert not is_chain(nn.Sequential(shared, nn.ReLU(), shared))
    assert not is_chain(nn.Sequential(nn.Linear(4, 4), nn.Flatten()))
    assert not is_chain(nn.Sequential(nn.Flatten(2), nn.Linear(4, 4)))
    assert not is_chain(nn.Sequential(nn.Linear(4, 4), nn.Softmax(1)))


def test_choice_of_engine():
    for asked, name, device, models, batch, expected in (
        ("auto", "convolutional", "cpu", 8, 32, "loop"),
        ("auto", "mlp", "cpu", 8, 32, "batched"),
        ("auto", "mlp", "cpu", 1, 32, "loop"),
        ("auto", "convolutional", "cuda", 8, 32, "batched"),
        ("auto", "convolutional", "cuda", 1, 32, "loop"),
        ("auto", "convolutional", "cuda", 8, 512, "loop"),
        ("batched", "convolutional", "cpu", 1, 600, "batched"),
    ):
        network = BUILDS[name](torch.Generator())
        sizes = {"n_models": models, "batch_size": batch}
        found = choose_engine(asked, network, torch.device(device), **sizes)
        assert found == expected, (asked, name, device, models, batch)


def test_factors():
    np.testing.assert_array_equal(epoch_factors(None, 3), [1, 1, 1])
    np.testing.assert_array_equal(
        epoch_factors({3: 0.1, 0: 0.5, 9: 7.0}, 5), [0.5, 0.5, 0.5, 0.1, 0.1]
    )


def test_bytes_stand_for_fractions_of_255(problem):
    _, labels, subsets = problem
    # so that every byte occurs
    pixels = np.random.default_rng(1).integers(256, size=(90, *SHAPE), dtype=np.uint8)
    floats = pixels.astype(np.float32) / 255
    logits = []
    for images in (pixels, floats):
        fitted = fit_networks(BUILDS["mlp"], images, labels, subsets, **SETTINGS)
        logits.append(fitted.logits(images, device="cpu"))
    np.testing.assert_array_equal(*logits)


@pytest.mark.parametrize("engine", ["loop", "batched"])
def test_training_goes_on_from_given_weights(problem, engine):
    """Plain descent has no state: two epochs after one, on whole subsets, equal
    three; a new last layer starts anew.
    """
    own = {"batch_size": 90, "optimizer": "sgd", "engine": engine}
    settings = SETTINGS | own

    def fit(**changes):
        return fit_networks(BUILDS["mlp"], *problem, **settings | changes).parameters

    whole = fit()
    first = {name: value[1] for name, value in fit(epochs=1).items()}
    # another seed, which decides nothing but the order of the rows of a batch
    on = fit(initial=first, seed=77, epochs=2)
    for name, value in whole.items():
        np.testing.assert_allclose(on[name][1], value[1], atol=1e-12)
    # steps too short to be seen
    still = {"epochs": 1, "learning_rate": 1e-12}
    tuned = fit(initial=first, new_last_layer=True, **still)
    for name, value in BUILDS["mlp"](generator_of(2)).named_parameters():
        expected = value.detach() if name.startswith("5.") else first[name]
        np.testing.assert_allclose(tuned[name][2], expected, atol=1e-9)


def test_weights_that_do_not_fit_are_named(problem):
    ready = dict(BUILDS["mlp"](torch.Generator()).named_parameters())

    def five(generator):
        return multilayer_perceptron(SHAPE, 5, hidden=(12, 7), generator=generator)

    def convolution(generator):
        return _drawn(nn.Sequential(nn.Conv2d(3, 3, 8), nn.Flatten()), generator)

    def fit(build, initial, **changes):
        settings = {"initial": initial, **SETTINGS, **changes}
        return fit_networks(build, *problem, **settings)

    shape = r"'5.weight'\] must have shape \(5, 7\), got \(3, 7\); .*new_last_layer"
    with pytest.raises(ValueError, match=shape):
        fit(five, ready | {"5.bias": torch.zeros(5)})
    tuned = fit(five, ready, new_last_layer=True)
    assert tuned.parameters["5.weight"].shape == (5, 5, 7)
    # of which training would give no number
    broken = {name: value * float("nan") for name, value in ready.items()}
    with pytest.raises(ValueError, match=r"initial\['.*'\] must be finite"):
        fit(BUILDS["mlp"], broken)
    none = "new_last_layer=True needs a network with a linear layer"
    with pytest.raises(ValueError, match=none):
        fit(convolution, {}, new_last_layer=True)


def test_every_kind_equals_numpy_slicing():
    # not square: catches exchanged axes
    images = torch.arange(2 * 3 * 6 * 5).reshape(2, 3, 6, 5).float() + 1
    padded = np.pad(images.numpy(), ((0, 0), (0, 0), (4, 4), (4, 4)))
    for kind, (mirrored, top, left) in enumerate(np.ndindex(2, 9, 9)):
        # the second image keeps its place: kinds are not mixed up between images
        cut = apply_crop_flips(images, torch.tensor([kind, 40]))
        expected = padded[0, :, top : top + 6, left : left + 5]
        if mirrored:
            expected = expected[..., ::-1]
        np.testing.assert_array_equal(cut[0], expected)
        np.testing.assert_array_equal(cut[1], images[1])


def test_kinds_are_uniform():
    """At a false-alarm rate of 1e-3."""
    kinds = draw_crop_flips(40_000, torch.Generator().manual_seed(2)).numpy()
    # some 250 of each are expected
    assert stats.chisquare(np.bincount(kinds, minlength=KINDS)).pvalue > 1e-3


def test_classifier_follows_scikit_learn(problem):
    images, labels, _ = problem
    names = np.array(["cat", "dog", "emu"])[labels]
    rows = images.reshape(90, -1)
    make = NetworkClassifier(
        SHAPE, channels=(4, 8), kernel_size=3, padding=1, epochs=15, learning_rate=1e-2
    )
    # enough epochs to learn the bright rows
    model = make.set_params(random_state=0).fit(rows, names)
    assert model.score(rows, names) > 0.9
    probabilities = model.predict_proba(rows)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-6)
    assert (model.classes_[probabilities.argmax(axis=1)] == model.predict(rows)).all()
    # the seed decides all
    again = make.fit(rows, names).predict_proba(rows)
    np.testing.assert_array_equal(again, probabilities)
    with pytest.raises(ValueError, match="has 784 pixels, but X has 192"):
        NetworkClassifier((1, 28, 28)).fit(rows, names)
