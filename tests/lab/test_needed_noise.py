"""Recommendations: the noise by other roads, dominated methods, what drops out, the
nearest measurement, bad input.
"""

import math

import numpy as np
import pandas as pd
import pytest

from dpnotes.accounting import (
    dp_sgd_noise_multiplier,
    gaussian_sigma,
    objective_perturbation,
    soft_vote_beta,
)
from dpnotes.lab.needed_noise import recommend
from dpnotes.mechanisms import add_norm_noise

MNIST = {
    "n": 60_000,
    "d": 784,
    "n_classes": 10,
    "epsilon": 1.0,
    "delta": 1e-5,
    "answers": 100,
}


def noise(found, method):
    return float(found.table.set_index("method").loc[method, "noise"])


def test_gaussian_noise_by_formula():
    found = recommend(**MNIST, l2=1e-2)
    sensitivity = math.sqrt(2) / (60_000 * 1e-2)
    assert math.isclose(
        noise(found, "model_sensitivity"), gaussian_sigma(1.0, 1e-5) * sensitivity
    )
    assert math.isclose(
        noise(found, "prediction_sensitivity"), 10 * noise(found, "model_sensitivity")
    )
    assert noise(found, "dp_sgd") == dp_sgd_noise_multiplier(
        1.0, 1e-5, sample_rate=0.01, steps=1000
    )
    stated = objective_perturbation(1.0, 1e-5, n_classes=10, regulariser=600)
    assert math.isclose(
        noise(found, "loss_perturbation"), stated.sigma / (600 + stated.regulariser)
    )
    lead = noise(found, "subsample_aggregate")
    shares = np.exp(
        soft_vote_beta(1.0, 1e-5, answers=100) * np.array([lead, *[0.0] * 9])
    )
    assert math.isclose(shares[0] / shares.sum(), 0.95)


def vectors(*shape, rate, seed):
    """Noise on 10,000 vectors, each with a norm of its own."""
    values = np.zeros((10_000, *shape))
    return add_norm_noise(values, rate=rate, scales=np.ones(10_000), seed=seed)


def test_pure_noise_on_a_logit_by_sampling():
    """10,000 draws have a relative deviation of 0.7%, so 5% is seven of them."""
    found = recommend(**MNIST | {"delta": 0.0, "d": 7, "n_classes": 3}, l2=1e-2)
    sensitivity = math.sqrt(2) / (60_000 * 1e-2)
    # directions of the logits that sum to 0
    basis = np.array([[1, 1], [-1, 1], [0, -2]]) / np.sqrt([2, 6])
    weights = basis @ vectors(2, 7, rate=1 / sensitivity, seed=0)
    logits = vectors(2, rate=1 / (100 * sensitivity), seed=1) @ basis.T
    query = np.full(7, 1 / math.sqrt(7))
    assert noise(found, "model_sensitivity") == pytest.approx(
        (weights @ query)[:, 0].std(), rel=0.05
    )
    assert noise(found, "prediction_sensitivity") == pytest.approx(
        logits[:, 0].std(), rel=0.05
    )


@pytest.mark.parametrize("n_classes", [2, 3])
def test_pure_loss_perturbation_on_a_logit_by_sampling(n_classes):
    found = recommend(**MNIST | {"delta": 0.0, "d": 7, "n_classes": n_classes}, l2=1e-2)
    stated = objective_perturbation(1.0, n_classes=n_classes, regulariser=600)
    rate = stated.rate * (2 if n_classes == 2 else 1)  # of the row of the first class
    row = vectors(7, rate=rate, seed=0) / 600
    assert noise(found, "loss_perturbation") == pytest.approx(row[:, 0].std(), rel=0.05)


@pytest.mark.parametrize(
    ("answers", "dominated"),
    [(26, "model_sensitivity"), (27, "prediction_sensitivity")],
)
def test_pure_domination_turns_where_the_norms_of_the_noise_cross(answers, dominated):
    """At sqrt((d C + 1)/(C + 1)) = 26.7 answers; Gaussian model sensitivity
    dominates from the first on.
    """
    verdicts = recommend(**MNIST | {"delta": 0.0, "answers": answers}).table.set_index(
        "method"
    )["verdict"]
    assert [
        name for name, verdict in verdicts.items() if verdict.startswith("dominated")
    ] == [dominated]
    one = recommend(**MNIST | {"answers": 1}).table.set_index("method")["verdict"]
    assert one["prediction_sensitivity"] == "dominated by model_sensitivity"


def test_what_cannot_be_used_drops_out():
    assert "dp_sgd" not in list(recommend(**MNIST | {"delta": 0.0}).table["method"])
    many = recommend(**MNIST | {"answers": 10**6})
    assert (
        many.table.set_index("method")
        .loc["subsample_aggregate", "verdict"]
        .startswith("useless")
    )
    assert "subsample_aggregate" not in many.candidates
    assert any(
        "1/n" in caveat for caveat in recommend(**MNIST | {"delta": 1e-3}).caveats
    )
    assert any("poor" in caveat for caveat in recommend(**MNIST | {"n": 2000}).caveats)


def test_nearest_measurement():
    rows = [
        ("dp_sgd", 1.0, 1e-5, np.nan, 0.8),
        ("dp_sgd", 4.0, 1e-5, np.nan, 0.9),
        ("subsample_aggregate", 1.0, 1e-5, 50, 0.85),
        ("subsample_aggregate", 1.0, 1e-5, 900, 0.2),
        ("subsample_aggregate", 1.0, 0.0, 100, 0.1),
        ("model_sensitivity", 1.0, 1e-5, np.nan, np.nan),
    ]
    names = ["method", "epsilon", "delta", "answers", "accuracy"]
    measured = pd.DataFrame(rows, columns=names).assign(n=60_000, d=784, n_classes=10)
    found = recommend(**MNIST | {"epsilon": 1.2}, measured=measured)
    assert list(found.measured["method"]) == ["subsample_aggregate", "dp_sgd"]
    assert list(found.measured["accuracy"]) == [0.85, 0.8]
    with pytest.raises(ValueError, match="measured must have the columns accuracy"):
        recommend(**MNIST, measured=measured.drop(columns="accuracy"))
