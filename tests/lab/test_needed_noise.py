"""Recommendations: the noise by other roads, and votes that are useless; where noise on
weights and noise on answers are equal.
"""

import math

import numpy as np
import pytest

from dpnotes.accounting import (
    dp_sgd_noise_multiplier,
    gaussian_sigma,
    objective_perturbation,
    soft_vote_beta,
)
from dpnotes.lab.needed_noise import recommend
from dpnotes.mechanisms import add_norm_noise

MNIST = {"n": 60_000, "n_classes": 10, "epsilon": 1.0, "delta": 1e-5, "answers": 100}


def test_gaussian_noise_by_formula():
    found = recommend(**MNIST, l2=1e-2).set_index("method")["noise"]
    sensitivity = math.sqrt(2) / (60_000 * 1e-2)
    by_model = gaussian_sigma(1.0, 1e-5) * sensitivity
    assert found["model_sensitivity"] == pytest.approx(by_model, rel=1e-9)
    assert found["prediction_sensitivity"] == pytest.approx(10 * by_model, rel=1e-9)
    assert found["dp_sgd"] == dp_sgd_noise_multiplier(
        1.0, 1e-5, sample_rate=0.01, steps=1000
    )
    stated = objective_perturbation(1.0, 1e-5, n_classes=10, regulariser=600)
    by_loss = stated.sigma / (600 + stated.regulariser)
    assert found["loss_perturbation"] == pytest.approx(by_loss, rel=1e-9)
    leading = np.array([found["subsample_aggregate"], *[0.0] * 9])
    shares = np.exp(soft_vote_beta(1.0, 1e-5, answers=100) * leading)
    assert shares[0] / shares.sum() == pytest.approx(0.95, rel=1e-9)


def test_votes_are_useless_where_the_lead_exceeds_them():
    many = recommend(**MNIST | {"answers": 10**6}).set_index("method")["verdict"]
    assert many["subsample_aggregate"].startswith("useless")


def test_noise_on_weights_and_on_answers_are_equal_where_the_chapter_says():
    """At sqrt((d (C - 1) + 1) / C) answers, by 10,000 draws: their standard deviation is
    known to 0.7%, so 5% is seven of its own.
    """
    answers = math.sqrt((7 * 2 + 1) / 3)
    # directions of three logits that sum to 0
    basis = np.array([[1, 1], [-1, 1], [0, -2]]) / np.sqrt([2, 6])
    norms = np.ones(10_000)
    weights = add_norm_noise(np.zeros((10_000, 2, 7)), rate=1.0, scales=norms, seed=0)
    logits = add_norm_noise(
        np.zeros((10_000, 2)), rate=1 / answers, scales=norms, seed=1
    )
    query = np.full(7, 1 / math.sqrt(7))
    on_weights = (basis @ weights @ query)[:, 0]
    on_answers = (logits @ basis.T)[:, 0]
    assert on_weights.std() == pytest.approx(on_answers.std(), rel=0.05)
