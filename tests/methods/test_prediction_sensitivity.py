"""Prediction sensitivity: the noise of a query, an attack, the budget, profiles, bad input."""

import math

import numpy as np
import pytest
from scipy import stats

from dpnotes.accounting import gaussian_sigma, prediction_sensitivity_sigma
from dpnotes.methods import PredictionSensitivity, noisy_predictions
from dpnotes.methods._prediction_sensitivity import PredictionNoise
from tests.methods.conftest import follows


def model(epsilon=1.0, delta=0.0, **parameters):
    settings = {"l2": 0.05, "answers": 100, "noise_seed": 0, "device": "cpu"} | parameters
    return PredictionSensitivity(epsilon, delta, **settings)


@pytest.mark.parametrize("analysis", ["tight", "published"])
@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_noise_of_each_query_has_the_stated_distribution(digits, minimiser, delta, analysis):
    """Shape and scale at 1e-3 with a fixed seed, and a scale 5% off is noticed; tight: in proportion to the query."""
    repeats, answers = 4000, 40
    X = np.tile(digits[0][:2] * [[1.0], [0.1]], (repeats // 2, 1))
    make = {"adjacency": "replace-one", "overflow": "raise", "analysis": analysis}
    fitted = model(2.0 * repeats / answers if delta == 0 else 2.0, delta, answers=repeats, **make)
    noise = fitted.fit(*digits).decision_function(X) - (X @ minimiser.weights[:, :-1].T + minimiser.weights[:, -1])
    lengths = np.hypot(np.linalg.norm(X, axis=1), 1.0) if analysis == "tight" else np.full(len(X), math.sqrt(2))
    unit = noise / (lengths * minimiser.sensitivity(analysis=analysis))[:, None]
    norms, distribution = np.linalg.norm(unit, axis=1), stats.gamma(9 + (analysis == "published"), scale=answers / 2.0)
    if delta > 0:
        sigma = prediction_sensitivity_sigma(2.0, 1e-5, answers=repeats, analysis=analysis)
        assert analysis == "published" or math.isclose(sigma, math.sqrt(repeats) * gaussian_sigma(2.0, 1e-5))
        distribution = stats.chi(10, scale=sigma)
    assert follows(norms, distribution)
    assert follows(norms, distribution, 1 / 1.05)


def test_published_noise_is_what_the_paper_searches_for(digits, minimiser):
    """5.3 times the exact noise at 100 answers, the same for all queries, which must not be longer than the bound."""
    make = {"answers": 100, "adjacency": "replace-one"}
    theirs = PredictionNoise.of(minimiser, 1.0, 1e-5, analysis="published", **make)
    exact = PredictionNoise.of(minimiser, 1.0, 1e-5, analysis="tight", **make)
    assert math.isclose(theirs.sigma / exact.sigma, 5.29674416, rel_tol=1e-3)
    assert "Inequality 50" in theirs.profile.remark
    assert "takes the fit" not in exact.profile.remark
    X = np.full((1, 64), 0.2)  # norm 1.6
    exact.check(X)
    with pytest.raises(ValueError, match="X must have rows of norm at most norm=1"):
        theirs.check(X)


def test_repeats_and_estimator_agree(digits, minimiser):
    X, y = digits
    few, many = (noisy_predictions(minimiser, X, 50.0, 1e-5, answers=10, n_repeats=r, seed=3).labels for r in (2, 5))
    assert (many[:2] == few).all()
    assert (many[0] != many[1]).any()
    labels = noisy_predictions(minimiser, X, 30.0, 1e-5, answers=2000, n_repeats=20, seed=3).labels
    fitted = model(30.0, 1e-5, answers=2000).fit(X, y)
    assert abs(fitted.score(X, y) - (labels == y).mean()) < 0.05  # 1,797 answers: four standard deviations
