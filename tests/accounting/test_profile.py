"""Profiles of the basic mechanisms: quadrature, inversion, composition, and the surface that all profiles share."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from dpnotes.accounting import approximate, bagging, gaussian, pure

ALL = {
    "bagging": bagging(n=1000, subsample=50),
    "published": bagging(n=1000, subsample=50, analysis="published"),
    "gaussian": gaussian(sigma=1.3),
    "approximate": approximate(0.7, 1e-3),
    "pure": pure(0.5),
    "composed": approximate(0.2, 1e-4).compose(7),
}


@pytest.mark.parametrize(
    ("mu", "epsilon", "delta"),
    [  # worked with 30 digits
        (0.5, [0, 0.5, 1, 2], [0.197412651366, 0.0524403232877, 0.00682959498311, 9.43916863495e-06]),
        (1.0, [0, 0.5, 1, 2], [0.382924922548, 0.238421708135, 0.126936737507, 0.0209236358211]),
        (2.0, [0, 0.5, 1, 2], [0.682689492137, 0.599185618534, 0.509861660055, 0.331897998777]),
    ],
)
def test_gaussian_known_values(mu, epsilon, delta):
    np.testing.assert_allclose(gaussian(sigma=1 / mu).delta(epsilon), delta, rtol=1e-11)


@pytest.mark.parametrize("mu", [0.05, 0.5, 1.0, 4.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 2.0])
def test_gaussian_equals_quadrature(mu, epsilon):
    def excess(x):
        return max(stats.norm.pdf(x - mu) - np.exp(epsilon) * stats.norm.pdf(x), 0.0)

    start = epsilon / mu + mu / 2  # the densities' ratio passes e^epsilon here
    value, _ = integrate.quad(excess, start, start + 12, epsabs=1e-13)
    # 12 standard deviations: the rest of the tail is below 1e-30
    assert gaussian(sigma=1.0, sensitivity=mu).delta(epsilon) == pytest.approx(value, abs=1e-11)


def test_gaussian_epsilon_and_tradeoff():
    profile = gaussian(sigma=1.0)
    assert profile.epsilon(1e-5) == pytest.approx(4.37717809568, rel=1e-11)
    assert gaussian(sigma=2.0).epsilon(1e-6) == pytest.approx(2.25408465022, rel=1e-11)
    np.testing.assert_allclose(profile.tradeoff([0.05, 0.5]), [0.740488977159, 0.158655253931], rtol=1e-11)
    assert profile.epsilon(0.0) == np.inf


def test_optimal_composition_known_values():
    np.testing.assert_allclose(pure(0.1).compose(100).delta([1, 2]), [0.125688390241, 0.0201401784282], rtol=1e-10)
    assert pure(1.0).delta(0.5) == pytest.approx(0.287649136645, rel=1e-11)


@pytest.mark.parametrize("name", ALL)
def test_curves_agree_with_one_another(name):
    """delta and epsilon invert each other; the trade-off curve is the profile's conjugate, found by brute force."""
    profile = ALL[name]
    epsilons = np.linspace(0, 6, 2001)
    deltas = profile.delta(epsilons)
    assert (np.diff(deltas) <= 1e-15).all()
    back = profile.epsilon(deltas)
    assert (profile.delta(back[np.isfinite(back)]) <= deltas[np.isfinite(back)]).all()  # private side
    assert (back <= epsilons + 1e-9).all()
    alphas = np.linspace(0, 1, 101)
    lines = np.maximum(
        1 - deltas - np.exp(epsilons) * alphas[:, None], np.exp(-epsilons) * (1 - deltas - alphas[:, None])
    )
    brute = np.maximum(lines.max(axis=1), 0)
    curve = profile.tradeoff(alphas)
    assert (curve >= brute - 1e-12).all()  # the grid of epsilons can only miss a supporting line
    np.testing.assert_allclose(curve, brute, atol=2e-3)  # and misses little: its step is 0.003
    assert profile.advantage == pytest.approx((1 - alphas - curve).max(), abs=6e-3)  # alphas in steps of 0.01


@pytest.mark.parametrize("name", ALL)
def test_shapes_and_text(name):
    profile = ALL[name]
    for method in (profile.delta, profile.epsilon, profile.tradeoff):
        assert isinstance(method(0.25), float)
        assert method([[0.1, 0.2, 0.3]]).shape == (1, 3)
        np.testing.assert_array_equal(method([0.1, 0.3]), [method(0.1), method(0.3)])
    text = " ".join(repr(profile).split())  # lines are wrapped
    for part in (profile.mechanism, profile.adjacency, profile.status, profile.source):
        assert part in text
    assert json.loads(json.dumps(profile.to_dict()))["advantage"] == profile.advantage


@given(mu=st.floats(1e-3, 10), times=st.integers(1, 50))
def test_gaussian_composition(mu, times):
    composed = gaussian(sigma=1 / mu).compose(times)
    direct = gaussian(sigma=1 / (mu * np.sqrt(times)))
    np.testing.assert_allclose(composed.delta([0.0, 1.0]), direct.delta([0.0, 1.0]), rtol=1e-9, atol=1e-300)


@given(epsilon=st.floats(0, 3), delta=st.floats(0, 1), first=st.integers(1, 6), second=st.integers(1, 6))
def test_composition_is_associative(epsilon, delta, first, second):
    one = approximate(epsilon, delta)
    left, right = one.compose(first).compose(second), one.compose(first * second)
    np.testing.assert_array_equal(left.delta([0.0, 0.5, 2.0]), right.delta([0.0, 0.5, 2.0]))
    assert left.parameters == right.parameters


@pytest.mark.parametrize("name", ALL)
def test_bad_input_is_named(name):
    profile = ALL[name]
    with pytest.raises(ValueError, match=r"epsilon must be >= 0, got epsilon=.*-1"):
        profile.delta(-1.0)
    with pytest.raises(ValueError, match="epsilon must be >= 0"):
        profile.delta([0.0, np.nan])
    with pytest.raises(ValueError, match=r"delta must be in \[0, 1\]"):
        profile.epsilon(1.5)
    with pytest.raises(ValueError, match=r"alpha must be in \[0, 1\]"):
        profile.tradeoff([-0.1])
    with pytest.raises(ValueError, match="direction must be one of 'remove', 'add'"):
        profile.delta(1.0, direction="sideways")
    with pytest.raises(ValueError, match="times must be >= 1"):
        profile.compose(0)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: gaussian(sigma=0.0), ValueError, "sigma must be > 0, got sigma=0.0"),
        (lambda: gaussian(sigma=1.0, sensitivity=float("inf")), ValueError, "sensitivity must be finite and > 0"),
        (lambda: gaussian(sigma="1"), TypeError, "sigma must be a number"),
        (lambda: approximate(-0.1, 0.1), ValueError, "epsilon must be >= 0"),
        (lambda: approximate(0.1, 1.1), ValueError, "delta must be >= 0 and <= 1, got delta=1.1"),
    ],
)
def test_bad_constructor_arguments_are_named(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_trade_off_survives_levels_beyond_the_doubles():
    """e^1000 is no double: no warning, no nan, and the ends are right."""
    np.testing.assert_array_equal(pure(1000.0).tradeoff([0.0, 1e-3, 1.0]), [1.0, 0.0, 0.0])
