"""Residual network, VGG16 and perceptron: exact size and shapes, initial
distribution, and no global randomness.
"""

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

from dpnotes.learners import (
    NetworkClassifier,
    convolutional_network,
    multilayer_perceptron,
    residual_network,
    vgg16,
)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(
    ("make", "shape"),
    [
        (lambda g: residual_network((3, 32, 32), 7, generator=g), (3, 32, 32)),
        (
            lambda g: residual_network((1, 27, 28), 7, blocks=1, generator=g),
            (1, 27, 28),
        ),
        (lambda g: vgg16((3, 32, 32), 7, generator=g), (3, 32, 32)),
        (lambda g: vgg16((1, 32, 40), 7, norm=None, generator=g), (1, 32, 40)),
        (lambda g: multilayer_perceptron((2, 5), 7, hidden=(4,), generator=g), (2, 5)),
    ],
)
def test_shapes_randomness_and_examples_apart(make, shape):
    state = torch.get_rng_state()
    first = make(seeded(1))
    again = make(seeded(1))
    other = make(seeded(2))
    assert torch.equal(torch.get_rng_state(), state)
    weights, same, others = (
        nn.utils.parameters_to_vector(each.parameters())
        for each in (first, again, other)
    )
    assert torch.equal(weights, same)
    assert not torch.equal(weights, others)
    assert weights.isfinite().all()
    # three examples, of which one is looked at alone
    images = torch.randn(3, *shape, generator=seeded())
    with torch.no_grad():
        logits = first(images)
        assert logits.shape == (3, 7)
        assert logits.dtype == torch.float32
        assert logits.std() > 0.05  # signals do not die on the way through the layers
        # rounding only
        torch.testing.assert_close(
            first(images[1:2]), logits[1:2], atol=1e-5, rtol=1e-4
        )


def test_shortcut_takes_every_second_place_and_adds_empty_channels():
    network = residual_network(generator=seeded()).double()
    # the first of the second stage, with half the sides and twice the channels
    block = next(layer for layer in network if getattr(layer, "stride", 0) == 2)
    for parameter in block.parameters():
        nn.init.zeros_(parameter)  # the branch gives zeros
    x = torch.rand(2, 16, 8, 8, generator=seeded(), dtype=torch.float64)
    with torch.no_grad():
        out = block(x)
    assert out.shape == (2, 32, 4, 4)
    assert torch.equal(out[:, 8:24], x[:, :, ::2, ::2])
    assert not out[:, :8].any()
    assert not out[:, 24:].any()


def test_initial_weights_have_the_stated_distribution():
    """A standard deviation four percent off, a bound two percent off is noticed."""
    convolution = residual_network(generator=seeded())[-4].branch[3]
    linear = multilayer_perceptron((784,), 10, generator=seeded())[1]
    for layer, scale, right, wrong in (
        # a variance of 2 over 64 * 9 inputs
        (convolution, np.sqrt(64 * 9 / 2), stats.norm(), stats.norm(scale=1.04)),
        # a bound of 1 over the root of 784 inputs
        (linear, 28, stats.uniform(-1, 2), stats.uniform(-1.02, 2.04)),
    ):
        scaled = layer.weight.detach().numpy().ravel() * scale
        assert stats.kstest(scaled, right.cdf).pvalue > 1e-3
        assert stats.kstest(scaled, wrong.cdf).pvalue < 1e-3


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: residual_network(blocks=0, generator=seeded()),
            "blocks must be >= 1, got blocks=0",
        ),
        (
            lambda: residual_network(groups=5, generator=seeded()),
            "must be divisible by num_groups",
        ),
        (
            lambda: vgg16(groups=48, generator=seeded()),
            "must be divisible by num_groups",
        ),
        (
            lambda: convolutional_network((1, 8, 8), 3, generator=seeded()),
            r"image_shape=\(1, 8, 8\) is too small for 2 convolutions",
        ),
        (
            lambda: vgg16((1, 28, 28), generator=seeded()),
            r"image_shape=\(1, 28, 28\) is too small for 5 layers",
        ),
        (
            lambda: vgg16(norm="batch", generator=seeded()),
            "norm must be 'group' or None, got norm='batch'",
        ),
    ],
)
def test_bad_settings_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_the_classifier_offers_every_architecture():
    rows = np.random.default_rng(0).normal(size=(12, 3 * 32 * 32)).astype(np.float32)
    how = {"epochs": 1, "random_state": 0, "augmentation": "crop-flip"}
    # ResNet-20 as in its paper's table, VGG16 as in configuration D, of which group
    # normalisation makes 2 * 4224 more
    for name, size in {
        "convolutional": 22058,
        "residual": 269722,
        "vgg16": 14728266,
        "mlp": 3072 * 64 + 64 + 650,
        multilayer_perceptron: 3072 * 64 + 64 + 650,
    }.items():
        model = NetworkClassifier((3, 32, 32), architecture=name, **how)
        parameters = model.fit(rows, np.arange(12) % 10).models_.parameters
        assert sum(value[0].numel() for value in parameters.values()) == size
    # the right name without a shape, and a wrong name
    for wrong in ("convolutional", "resnet"):
        with pytest.raises(
            ValueError,
            match=r"image_shape must be|architecture must be one of .*'resnet'",
        ):
            NetworkClassifier(None, architecture=wrong).fit(rows, np.arange(12) % 10)
