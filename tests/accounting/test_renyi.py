"""Profiles through Renyi divergence: known conversions, every order is an upper bound, composition adds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpnotes.accounting import gaussian
from dpnotes.accounting._renyi import RenyiRelease


def gaussian_curve(mu):
    about = {"mechanism": "renyi", "parameters": {"mu": mu}, "adjacency": "add-remove", "source": "test"}
    return RenyiRelease(lambda alpha: alpha * mu**2 / 2, **about)


@pytest.mark.parametrize(("mu", "delta", "epsilon"), [(1.0, 1e-5, 4.72838698494), (0.5, 1e-6, 2.41909317687)])
def test_known_conversions(mu, delta, epsilon):
    assert gaussian_curve(mu).epsilon(delta) == pytest.approx(epsilon, rel=1e-11)


@given(mu=st.floats(1e-3, 20), log_delta=st.floats(-300, -0.1))
def test_inverse_and_never_below_the_exact_profile(mu, log_delta):
    profile, exact, delta = gaussian_curve(mu), gaussian(sigma=1 / mu), 10**log_delta
    epsilon = profile.epsilon(delta)
    assert epsilon >= exact.epsilon(delta) * (1 - 1e-9)
    if epsilon > 0:
        assert profile.delta(epsilon) == pytest.approx(delta, rel=1e-6)  # two searches for the best order
    assert profile.delta(epsilon + 1e-3) >= exact.delta(epsilon + 1e-3) * (1 - 1e-9)


@given(mu=st.floats(1e-2, 5), times=st.integers(1, 1000))
def test_composition_adds_divergences(mu, times):
    together = gaussian_curve(mu).compose(times)
    direct = gaussian_curve(mu * np.sqrt(times))
    assert together.epsilon(1e-5) == pytest.approx(direct.epsilon(1e-5), rel=1e-9)
    assert together.parameters.get("times", 1) == times


def test_ends_of_the_range():
    profile = gaussian_curve(1.0)
    assert profile.epsilon(0.0) == np.inf
    assert profile.epsilon(1.0) == 0.0
    assert 0 < profile.delta(0.0) <= 1
    assert profile.delta(1e3) < 1e-300
    assert np.isfinite(profile.epsilon(1e-300))
    assert profile.tradeoff(0.0) == pytest.approx(1.0)
    assert profile.tradeoff(1.0) == 0.0


def test_trade_off_is_below_the_exact_one():
    alphas = np.linspace(0, 1, 21)
    assert (gaussian_curve(1.0).tradeoff(alphas) <= gaussian(sigma=1.0).tradeoff(alphas) + 1e-12).all()
