"""Intrinsic privacy of SGD: the paper's Table III from its own inputs, and two runs whose distance is measured."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpnotes.accounting import gaussian_sigma
from dpnotes.accounting.papers import (
    augmenting_sigma,
    sgd_sensitivity,
)
from dpnotes.lab.intrinsic_sgd.printed import intrinsic_epsilon

SENSITIVITY = {"mnist": 0.050, "forest": 0.063, "adult": 0.164}
EMPIRICAL = {"mnist": 0.041, "forest": 0.020, "adult": 0.032}
SIGMA = {"mnist": 0.028, "forest": 0.114, "adult": 0.108}
DELTA = {"mnist": 9.62e-5, "forest": 2.64e-6, "adult": 3.41e-5}
TRAINING = {  # learning rate, batch size, epochs
    "mnist": (0.1, 32, 5.693950),
    "forest": (1.0, 50, 1.108814),
    "adult": (0.5, 32, 3.712677),
}


def bound(name, analysis="tight"):
    rate, batch, epochs = TRAINING[name]
    setting = {"learning_rate": rate, "batch_size": batch, "epochs": epochs, "analysis": analysis}
    return sgd_sensitivity(lipschitz=math.sqrt(2), smoothness=0.5, **setting)


@pytest.mark.parametrize(
    ("name", "tight", "published"),
    [
        ("mnist", 0.05303301, 0.05032788),
        ("forest", 0.11313708, 0.06272401),
        ("adult", 0.17677670, 0.16407869),
    ],
)
def test_sensitivity_known_values(name, tight, published):
    assert bound(name) == pytest.approx(tight, abs=5e-9)
    assert bound(name, "published") == pytest.approx(published, abs=3e-8)  # epochs are given to six decimals
    assert round(bound(name, "published"), 3) == SENSITIVITY[name]  # the table's entry


@pytest.mark.parametrize(
    ("name", "published", "published_star", "tight", "tight_star"),
    [
        ("mnist", 7.7723610718, 6.3733360789, 7.71671188623, 6.03844287628),
        ("forest", 2.8252259390, 0.8968971235, 2.39921911774, 0.685549537816),
        ("adult", 6.9618258833, 1.3584050504, 6.71267645807, 1.02395373076),
    ],
)
def test_epsilon_known_values(name, published, published_star, tight, tight_star):
    entry = {"sigma": SIGMA[name], "delta": DELTA[name]}
    for sensitivity, formula, exact in [
        (SENSITIVITY[name], published, tight),
        (EMPIRICAL[name], published_star, tight_star),
    ]:
        assert intrinsic_epsilon(**entry, sensitivity=sensitivity) == pytest.approx(exact, rel=2e-11)
        found = intrinsic_epsilon(**entry, sensitivity=sensitivity, analysis="published")
        assert found == pytest.approx(formula, rel=1e-10)


@pytest.mark.parametrize(
    ("name", "classical", "exact", "augment", "saving"),
    [
        ("mnist", 0.2176261100, 0.1597684169, 0.2158173389, 0.8311),
        ("forest", 0.3220757570, 0.2533741595, 0.3012254858, 6.4737),
        ("adult", 0.7518771954, 0.5653902616, 0.7440801818, 1.0370),
    ],
)
def test_noise_known_values(name, classical, exact, augment, saving):
    setting = {"epsilon": 1.0, "delta": DELTA[name], "sensitivity": SENSITIVITY[name]}
    total = augmenting_sigma(**setting, analysis="published")
    assert total == pytest.approx(classical, rel=5e-10)
    assert augmenting_sigma(**setting) == pytest.approx(exact, rel=5e-10)
    added = augmenting_sigma(**setting, intrinsic_sigma=SIGMA[name], analysis="published")
    assert added == pytest.approx(augment, rel=5e-10)
    assert 100 * (1 - added / total) == pytest.approx(saving, abs=5e-5)
    assert 1 - exact / classical > 3 * saving / 100  # the exact mechanism saves more than the claimed intrinsic noise


@given(epsilon=st.floats(0.01, 20), delta=st.floats(1e-10, 0.5), share=st.floats(0, 1.5))
def test_noise_adds_to_what_is_assumed(epsilon, delta, share):
    total = gaussian_sigma(epsilon, delta, sensitivity=0.3)
    added = augmenting_sigma(epsilon, delta, sensitivity=0.3, intrinsic_sigma=share * total)
    assert math.hypot(added, share * total) == pytest.approx(max(1.0, share) * total, rel=1e-9)
    assert intrinsic_epsilon(sigma=math.hypot(added, share * total), sensitivity=0.3, delta=delta) <= epsilon + 1e-8


@pytest.mark.parametrize("epochs", [0.5, 1.0, 1.25, 3.0])
def test_sensitivity_bounds_two_runs_and_the_fraction_does_not(epochs):
    """Linear losses attain the bound: gradients of the exchanged record point apart, and nothing contracts."""
    n, batch, rate, record = 8, 2, 0.1, 0  # the record is in the first batch of every pass
    steps = round(epochs * n / batch)
    slopes = np.zeros(n)
    weights = np.zeros(2)
    for step in range(steps):
        start = step * batch % n
        for run, sign in enumerate([1.0, -1.0]):
            data = slopes.copy()
            data[record] = sign  # gradient of norm L = 1
            weights[run] -= rate * data[start : start + batch].sum() / batch
    setting = {"lipschitz": 1.0, "smoothness": 1e-9, "learning_rate": rate, "batch_size": batch, "epochs": epochs}
    distance = abs(weights[0] - weights[1])
    assert distance == pytest.approx(sgd_sensitivity(**setting))
    fraction = sgd_sensitivity(**setting, analysis="published")
    assert (fraction < distance * (1 - 1e-12)) == (epochs % 1 != 0)
