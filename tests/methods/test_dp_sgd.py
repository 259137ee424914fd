"""DPSGD: calibration, what is trained, where it starts, and bad input."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from dpnotes import DPSGD
from dpnotes.accounting import dp_sgd, dp_sgd_noise_multiplier
from dpnotes.learners import NetworkClassifier, fit_dp_sgd_linear, fit_networks, multilayer_perceptron

LINEAR = {"sample_rate": 0.1, "steps": 60, "learning_rate": 4.0, "clipping_norm": 0.5, "accountant": "rdp"}


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X / 64, y


@pytest.mark.parametrize("accountant", ["rdp", "pld"])
def test_budget_is_met_with_the_least_noise(digits, accountant):
    budget = {"sample_rate": 0.1, "steps": 40, "accountant": accountant}
    model = DPSGD(2.0, 1e-4, learning_rate=4.0, noise_seed=0, **budget).fit(*digits)
    assert model.noise_multiplier_ == dp_sgd_noise_multiplier(2.0, 1e-4, **budget)
    assert model.profile_.delta(2.0) <= 1e-4
    assert dp_sgd(noise_multiplier=0.99 * model.noise_multiplier_, **budget).delta(2.0) > 1e-4
    assert (model.profile_.adjacency, model.profile_.implementation) == ("zero-out", "reproducible")
    assert "public" in model.profile_.assumption


def test_what_is_trained_is_the_learner(digits):
    X, y = digits
    model = DPSGD(noise_multiplier=1.0, noise_seed=3, **LINEAR).fit(X, y)
    seed = int(np.random.RandomState(3).randint(2**31))
    settings = {name: value for name, value in LINEAR.items() if name != "accountant"}
    models = fit_dp_sgd_linear(X, y, n_classes=10, noise_multiplier=1.0, seed=seed, **settings)
    np.testing.assert_array_equal(model.predict(X), models.votes(X)[0])
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)
    assert model.score(X, y) > 0.6


def test_noise_without_a_seed_is_the_mechanisms_own(digits, monkeypatch):
    """Batches of all rows leave the noise as the only random choice: constants in its place repeat the fit."""
    whole = LINEAR | {"sample_rate": 1.0, "steps": 3}
    model = DPSGD(noise_multiplier=1.0, **whole).fit(*digits)
    assert model.profile_.implementation == "ideal reals"
    monkeypatch.setattr("dpnotes.methods._dp_sgd.normal_floats", np.ones)
    first, second = (DPSGD(noise_multiplier=1.0, **whole).fit(*digits).predict_proba(digits[0]) for _ in range(2))
    np.testing.assert_allclose(first, second, rtol=1e-10)


def test_a_network_starts_from_public_weights(digits):
    """With next to no step the predictions are those of the weights that were given, but for a new last layer."""
    X, y = digits[0].astype(np.float32), digits[1]

    def build(generator):
        return multilayer_perceptron((64,), 10, hidden=(16,), generator=generator)

    public = fit_networks(build, X, y, np.arange(len(X))[None], epochs=5, batch_size=32, learning_rate=0.01, seed=0)
    how = {"noise_multiplier": 1.0, "steps": 1, "learning_rate": 1e-12, "noise_seed": 0, "accountant": "rdp"}
    for new in (False, True):
        given = public.state_dict(0)
        start = NetworkClassifier(None, architecture="mlp", hidden=(16,), initial=given, new_last_layer=new)
        tuned = DPSGD(network=start, **how).fit(X, y)
        same = (tuned.predict(X) == public.votes(X)[0]).mean()
        assert same == 1 if not new else same < 0.5
        torch.testing.assert_close(tuned._fitted.models.parameters["1.weight"][0], given["1.weight"])
