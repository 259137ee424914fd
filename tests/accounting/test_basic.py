"""Gaussian and Laplace noise and zCDP: quadrature, inversion, more digits."""

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import integrate, stats

from dpnotes.accounting import gaussian, laplace, zcdp
from dpnotes.accounting._renyi import laplace_rdp


@pytest.mark.parametrize("mu", [0.01, 0.5, 1.0, 2.0, 4.0, 9.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0, 5.0, 30.0])
def test_gaussian_equals_thirty_digits(mu, epsilon):
    """Both forms of the curve: below low = -1, and above it."""
    with mpmath.workdps(30):
        low = mpmath.mpf(epsilon) / mu - mpmath.mpf(mu) / 2
        exact = mpmath.ncdf(-low) - mpmath.exp(epsilon) * mpmath.ncdf(-low - mu)
    found = gaussian(sigma=1 / mu).delta(epsilon)
    assert found == pytest.approx(float(exact), rel=1e-10, abs=1e-300)


@pytest.mark.parametrize("ratio", [0.01, 0.5, 1.0, 4.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.005, 0.3, 1.0, 3.0])
def test_laplace_equals_quadrature(ratio, epsilon):
    def excess(x):
        return max(
            stats.laplace.pdf(x, scale=1 / ratio)
            - np.exp(epsilon) * stats.laplace.pdf(x, 1, 1 / ratio),
            0.0,
        )

    # densities are in ratio e^epsilon here; the excess is on its left
    kink = 0.5 - epsilon / (2 * ratio)
    pieces = [
        integrate.quad(excess, low, high, epsabs=1e-13)[0]
        for low, high in [(-np.inf, min(0.0, kink)), (min(0.0, kink), max(0.0, kink))]
    ]
    profile = laplace(scale=2.0, sensitivity=2.0 * ratio)
    assert profile.delta(epsilon) == pytest.approx(sum(pieces), abs=1e-10)
    assert profile.delta(epsilon, direction="add") == profile.delta(
        epsilon, direction="remove"
    )


@pytest.mark.parametrize("ratio", [0.1, 1.0, 5.0])
def test_tradeoff_is_that_of_the_threshold_test(ratio):
    """The likelihood ratio is monotone: the best test rejects where the output is
    large.
    """
    alphas = np.linspace(0, 1, 201)
    for profile, noise in (
        (laplace(scale=1 / ratio), stats.laplace),
        (gaussian(sigma=1 / ratio), stats.norm),
    ):
        expected = noise.cdf(noise.isf(alphas) - ratio)
        np.testing.assert_allclose(
            profile.tradeoff(alphas), expected, rtol=1e-11, atol=1e-14
        )


@given(ratio=st.floats(1e-3, 30), delta=st.floats(0, 1))
def test_epsilon_inverts_delta_from_the_private_side(ratio, delta):
    profile = laplace(scale=1 / ratio)
    epsilon = profile.epsilon(delta)
    assert profile.delta(epsilon) <= delta
    assert epsilon <= ratio * (1 + 1e-12)
    if 1e-9 < epsilon < ratio:
        assert profile.delta(epsilon * (1 - 1e-9) - 1e-12) > delta * (1 - 1e-15) - 1e-15


@pytest.mark.parametrize("ratio", [0.05, 1.0, 3.0])
@pytest.mark.parametrize("alpha", [1.5, 2.0, 7.3, 40.0])
def test_renyi_equals_quadrature(ratio, alpha):
    def power(x):
        return np.exp(-alpha * np.abs(x) - (1 - alpha) * np.abs(x - ratio)) / 2

    total = sum(
        integrate.quad(power, *ends, epsabs=0)[0]
        for ends in [(-np.inf, 0), (0, ratio), (ratio, np.inf)]
    )
    assert laplace_rdp(alpha, ratio) == pytest.approx(
        np.log(total) / (alpha - 1), rel=1e-7
    )


@settings(max_examples=30)
@given(rho=st.floats(1e-4, 5), delta=st.floats(1e-12, 0.1), times=st.integers(1, 100))
def test_zcdp_between_gaussian_and_the_simple_bound(rho, delta, times):
    epsilon = zcdp(rho).compose(times).epsilon(delta)
    total = rho * times
    assert epsilon <= total + 2 * np.sqrt(total * np.log(1 / delta)) + 1e-9
    assert epsilon >= gaussian(sigma=1 / np.sqrt(2 * total)).epsilon(delta) - 1e-9
    assert zcdp(total).epsilon(delta) == pytest.approx(epsilon, rel=1e-9)
    # of 30-digit arithmetic
    assert zcdp(0.125).epsilon(1e-6) == pytest.approx(2.41909317687, rel=2e-12)
