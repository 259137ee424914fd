"""Noise for an aim: 700-digit arithmetic, fits of mu, searches by other roads."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import optimize, stats

from dpnotes.accounting import (
    _curves,
    approximate,
    bagging,
    calibrate,
    dp_sgd,
    gaussian,
    gaussian_sigma,
    laplace,
    pure,
    zcdp,
)
from dpnotes.accounting._curves import log_delta_of


@pytest.mark.parametrize("epsilon", [0.0, 1e-8, 1e-4, 0.1, 1.0, 8.0, 100.0, 1e3])
@pytest.mark.parametrize("delta", [1e-300, 1e-100, 1e-12, 1e-5, 0.01, 0.5, 0.99, 0.999])
def test_private_side_and_least_at_the_extremes(epsilon, delta):
    """Both terms can agree in hundreds of digits, hence so many."""
    sigma = gaussian_sigma(epsilon, delta)
    with mpmath.workdps(700):

        def reached(mu):
            below = mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu)
            return mpmath.ncdf(mu / 2 - epsilon / mu) - below

        mu = 1 / mpmath.mpf(sigma)
        assert reached(mu) <= delta
        assert reached(mu / (1 - mpmath.mpf(1e-9))) > delta


@given(
    epsilon=st.floats(0.05, 100),
    delta=st.floats(1e-12, 0.99),
    sensitivity=st.floats(1e-3, 1e3),
)
def test_inverse_of_the_profile(epsilon, delta, sensitivity):
    sigma = gaussian_sigma(epsilon, delta, sensitivity=sensitivity)
    profile = gaussian(sigma=sigma, sensitivity=sensitivity)
    # rounding of the profile itself, which subtracts near equals where mu is small
    assert profile.delta(epsilon) <= delta * (1 + 1e-10)
    less = gaussian(sigma=sigma * (1 - 1e-9), sensitivity=sensitivity)
    assert less.delta(epsilon) > delta
    assert profile.epsilon(delta) == pytest.approx(epsilon, rel=1e-8, abs=1e-10)


def test_ten_thousand_pairs_take_the_steps_of_one(monkeypatch):
    """All pairs go through Newton's method together: few evaluations, each of the
    whole array.
    """
    generator = np.random.default_rng(7)
    epsilon, delta = (
        10 ** generator.uniform(-3, 2, 10_000),
        10 ** generator.uniform(-30, -1, 10_000),
    )
    sizes = []

    def counted(mu, epsilon):
        sizes.append(np.size(mu))
        return log_delta_of(mu, epsilon)

    monkeypatch.setattr(_curves, "log_delta_of", counted)
    gaussian_sigma(epsilon, delta)
    assert len(sizes) <= 10  # 7 today
    assert set(sizes) == {10_000}


def test_shapes():
    assert isinstance(gaussian_sigma(1, 1e-5), float)
    grid = gaussian_sigma(
        np.array([[0.5], [1.0]]), [1e-5, 1e-6, 1e-7], sensitivity=[1.0, 2.0, 3.0]
    )
    assert grid.shape == (2, 3)
    assert grid[1, 2] == pytest.approx(
        gaussian_sigma(1.0, 1e-7, sensitivity=3.0), rel=1e-15
    )
    assert gaussian_sigma([], 1e-5).shape == (0,)


@pytest.mark.parametrize(
    ("delta", "limit"),
    [
        (1e-5, 8.419771302),
        (1e-6, 8.782091752),
        (9.62e-5, 7.998903807),
        (3.41e-5, 8.201208893),
        (2.64e-6, 8.636049403),
    ],
)
def test_classical_is_refused_where_it_is_not_enough(delta, limit):
    assert gaussian_sigma(limit - 1e-7, delta, analysis="classical") >= gaussian_sigma(
        limit - 1e-7, delta
    )
    with pytest.raises(
        ValueError, match="the classical formula is proved for 0 < epsilon < 1"
    ):
        gaussian_sigma(limit + 1e-7, delta, analysis="classical")


PROFILES = [
    laplace(scale=1.0),
    laplace(scale=5.0).compose(30),
    pure(0.5),
    zcdp(0.1),
    approximate(1.0, 1e-12),
]


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.mechanism)
def test_mu_covers_the_profile_and_no_smaller_one_does(profile):
    cover = gaussian(sigma=1 / profile.mu)
    epsilons = np.concatenate([[0.0], np.geomspace(1e-4, 30, 2000)])
    assert (profile.delta(epsilons) <= cover.delta(epsilons) + 1.001e-10).all()
    less = gaussian(sigma=1 / (0.999 * profile.mu))
    assert (profile.delta(epsilons) > less.delta(epsilons) + 1e-10).any()


def test_gaussian_noise_fits_itself_and_a_certain_leak_nothing():
    assert gaussian(sigma=4.0).mu == 0.25
    assert gaussian(sigma=4.0).misfit == pytest.approx(0, abs=1e-9)
    assert bagging(n=1000, subsample=10).mu == math.inf
    assert pure(0.0).mu == 0 == pure(0.0).misfit


def test_misfit_of_laplace_noise_by_another_search():
    """The smallest kappa by which the curve moves, found with an optimiser in the
    place of a grid.
    """
    profile = laplace(scale=1.0)

    def needed(alpha):
        cover = stats.norm.cdf(stats.norm.isf(alpha) - profile.mu)
        return optimize.brentq(
            lambda kappa: profile.tradeoff(min(alpha + kappa, 1.0)) - kappa - cover,
            0,
            1 - alpha,
        )

    kappas = [needed(alpha) for alpha in np.linspace(1e-4, 0.6, 400)]
    assert profile.misfit == pytest.approx(max(kappas), rel=5e-3)
    assert 0.02 < profile.misfit < 0.06
    assert laplace(scale=10.0).compose(100).misfit < 1e-3  # the central limit theorem


AIMS = [
    ({"epsilon": 1.0, "delta": 1e-5}, gaussian_sigma(1.0, 1e-5)),
    ({"mu": 0.5}, 2.0),
    ({"advantage": 0.1}, 0.5 / stats.norm.ppf(0.55)),
    ({"tpr": 0.3, "fpr": 0.01}, 1 / (stats.norm.isf(0.01) - stats.norm.isf(0.3))),
]


@pytest.mark.parametrize(("aim", "sigma"), AIMS)
@pytest.mark.parametrize("start", [1e-3, 1.0, 1e4])
def test_the_noise_of_gaussian_noise_for_each_aim(aim, sigma, start):
    found = calibrate(lambda sigma: gaussian(sigma=sigma), **aim, start=start)
    assert sigma * (1 - 1e-9) <= found <= sigma * (1 + 1.1e-5)
    rising = calibrate(lambda mu: gaussian(sigma=1 / mu), **aim, start=1 / start)
    assert (1 - 1.1e-5) / sigma <= rising <= (1 + 1e-9) / sigma


def test_pure_levels_and_dp_sgd():
    scale = calibrate(lambda scale: laplace(scale=scale), epsilon=0.5, delta=0.0)
    assert scale == pytest.approx(2.0, rel=2e-5)

    def power(noise):
        return dp_sgd(noise_multiplier=noise, sample_rate=0.05, steps=200).tpr(0.01)

    sigma = calibrate(
        lambda noise: dp_sgd(noise_multiplier=noise, sample_rate=0.05, steps=200),
        tpr=0.05,
        fpr=0.01,
    )
    assert power(sigma) <= 0.05 < power(sigma * 0.999)


def test_few_profiles_are_made():
    made = []
    calibrate(
        lambda sigma: made.append(sigma) or gaussian(sigma=sigma),
        epsilon=1.0,
        delta=1e-5,
    )
    assert len(made) <= 20


def test_aims_that_nothing_or_everything_meets():
    with pytest.raises(
        ValueError,
        match=(
            "make_profile must meet the aim for some positive parameter and not for all"
        ),
    ):
        calibrate(lambda sigma: pure(1.0), advantage=0.1)
    with pytest.raises(
        TypeError, match=r"make_profile\(\.\.\.\) must be a PrivacyProfile, got 1\.0"
    ):
        calibrate(lambda sigma: 1.0, advantage=0.1)
