"""The noise by other roads, and where noise on weights and noise on answers are equal."""

import math

import numpy as np
import pytest

from dpnotes.accounting import gaussian_sigma, objective_perturbation, soft_vote_beta
from dpnotes.lab.needed_noise import on_logits, sure_lead
from dpnotes.mechanisms import add_norm_noise

MNIST = {"n": 60_000, "d": 784, "n_classes": 10, "epsilon": 1.0, "answers": 100}
SHIFT = math.sqrt(2) / (60_000 * 1e-2)


def test_gaussian_noise_by_formula():
    found = on_logits(**MNIST, delta=1e-5, l2=1e-2)
    by_model = gaussian_sigma(1.0, 1e-5) * SHIFT
    assert found["model_sensitivity"] == pytest.approx(by_model, rel=1e-9)
    assert found["prediction_sensitivity"] == pytest.approx(10 * by_model, rel=1e-9)
    stated = objective_perturbation(1.0, 1e-5, n_classes=10, regulariser=600)
    by_loss = stated.sigma / (600 + stated.regulariser)
    assert found["loss_perturbation"] == pytest.approx(by_loss, rel=1e-9)


@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_a_class_with_the_lead_has_its_share(delta):
    leading = np.array([sure_lead(10, 1.0, delta, answers=100), *[0.0] * 9])
    shares = np.exp(soft_vote_beta(1.0, delta, answers=100) * leading)
    assert shares[0] / shares.sum() == pytest.approx(0.95, rel=1e-9)


def vectors(*shape, rate, seed):
    """Noise on 10,000 vectors, each with a norm of its own; their standard deviation is
    known to 0.7%, so 5% is seven of its own.
    """
    values = np.zeros((10_000, *shape))
    return add_norm_noise(values, rate=rate, scales=np.ones(10_000), seed=seed)


def test_pure_noise_on_a_logit_by_sampling():
    small = MNIST | {"d": 7, "n_classes": 3}
    found = on_logits(**small, delta=0.0, l2=1e-2)
    # directions of three logits that sum to 0
    basis = np.array([[1, 1], [-1, 1], [0, -2]]) / np.sqrt([2, 6])
    query = np.full(7, 1 / math.sqrt(7))
    on_weights = (basis @ vectors(2, 7, rate=1 / SHIFT, seed=0) @ query)[:, 0]
    on_answers = (vectors(2, rate=1 / (100 * SHIFT), seed=1) @ basis.T)[:, 0]
    assert found["model_sensitivity"] == pytest.approx(on_weights.std(), rel=0.05)
    assert found["prediction_sensitivity"] == pytest.approx(on_answers.std(), rel=0.05)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_pure_loss_perturbation_on_a_logit_by_sampling(n_classes):
    small = MNIST | {"d": 7, "n_classes": n_classes}
    found = on_logits(**small, delta=0.0, l2=1e-2)["loss_perturbation"]
    stated = objective_perturbation(1.0, n_classes=n_classes, regulariser=600)
    rate = stated.rate * (2 if n_classes == 2 else 1)  # of the row of the first class
    row = vectors(7, rate=rate, seed=0) / 600
    assert found == pytest.approx(row[:, 0].std(), rel=0.05)


@pytest.mark.parametrize(("answers", "fewer"), [(26, True), (27, False)])
def test_noise_on_answers_is_less_up_to_where_the_chapter_says(answers, fewer):
    """Up to sqrt((d (C - 1) + 1) / C) = 26.6 answers."""
    found = on_logits(**MNIST | {"answers": answers}, delta=0.0)
    assert (found["prediction_sensitivity"] < found["model_sensitivity"]) is fewer
