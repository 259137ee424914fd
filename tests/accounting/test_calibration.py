"""The least Gaussian noise: known values, 700-digit arithmetic at the extremes, the profile that it must satisfy."""

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpnotes.accounting import _calibration, gaussian, gaussian_sigma
from dpnotes.accounting._calibration import log_delta_of, mills

EPSILONS = [0.1, 0.5, 1, 2, 3, 5, 8]
KNOWN = {  # sigma / sensitivity, 30-digit arithmetic
    1e-5: [
        30.749566132,
        7.03182667558,
        3.73063163482,
        1.99381244564,
        1.39059345667,
        0.891868264952,
        0.600229072199,
    ],
    1e-6: [
        36.3046904262,
        8.05761848073,
        4.22467888933,
        2.23047627119,
        1.54386141778,
        0.980049000309,
        0.652935384358,
    ],
}
CLASSICAL = [48.4480526261, 9.68961052521, 4.84480526261, 2.4224026313, 1.61493508754, 0.968961052521, 0.605600657826]
ALPHA = [13.7516240299, 7.03182667558, 5.27590985417, 3.98762489129, 3.40624440851, 2.82033509007, 2.4009162888]


@pytest.mark.parametrize("delta", KNOWN)
def test_known_values(delta):
    # 1e-11: the last of the digits given, and the margin of 2e-12
    np.testing.assert_allclose(gaussian_sigma(EPSILONS, delta), KNOWN[delta], rtol=1e-11)


def test_known_values_of_the_other_forms():
    np.testing.assert_allclose(gaussian_sigma(EPSILONS, 1e-5, analysis="classical"), CLASSICAL, rtol=1e-11)
    np.testing.assert_allclose(np.sqrt(2 * np.array(EPSILONS)) * gaussian_sigma(EPSILONS, 1e-5), ALPHA, rtol=2e-11)


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


@given(epsilon=st.floats(0.05, 100), delta=st.floats(1e-12, 0.99), sensitivity=st.floats(1e-3, 1e3))
def test_inverse_of_the_profile(epsilon, delta, sensitivity):
    sigma = gaussian_sigma(epsilon, delta, sensitivity=sensitivity)
    profile = gaussian(sigma=sigma, sensitivity=sensitivity)
    # rounding of the profile itself, which subtracts near equals where mu is small
    assert profile.delta(epsilon) <= delta * (1 + 1e-10)
    assert gaussian(sigma=sigma * (1 - 1e-9), sensitivity=sensitivity).delta(epsilon) > delta
    assert profile.epsilon(delta) == pytest.approx(epsilon, rel=1e-8, abs=1e-10)


@given(epsilon=st.floats(0, 1e3), delta=st.floats(1e-300, 0.98), factor=st.floats(1.001, 100))
def test_monotone(epsilon, delta, factor):
    sigma = gaussian_sigma(epsilon, delta)
    assert gaussian_sigma(epsilon * factor + 1e-6, delta) < sigma
    assert gaussian_sigma(epsilon, min(0.99, delta * factor)) < sigma
    assert gaussian_sigma(epsilon, delta, sensitivity=factor) == pytest.approx(factor * sigma, rel=1e-15)


def test_log_delta_is_concave_in_log_mu():
    """Newton's steps stay on the private side because of it."""
    log_mu = np.linspace(np.log(1e-6), np.log(50), 4001)
    for epsilon in [0.0, 1e-6, 0.01, 1.0, 10.0, 300.0]:
        with np.errstate(divide="ignore", invalid="ignore"):  # delta below all doubles
            reached, slope = log_delta_of(np.exp(log_mu), np.full_like(log_mu, epsilon))
        kept = reached > -745
        assert (np.diff(slope[kept]) <= 1e-9 * slope[kept][1:]).all()
        assert (slope[kept] > 0).all()


def test_both_branches_of_the_gap_agree_where_they_meet():
    mu = np.array([0.1 * (1 - 1e-12), 0.1])  # by quadrature, by subtraction
    for epsilon in [0.0, 0.01, 1.0, 3.0]:
        low, high = log_delta_of(mu, np.full(2, epsilon))[0]
        assert low == pytest.approx(high, rel=1e-10)
    assert mills(np.array(0.0)) == pytest.approx(np.sqrt(np.pi / 2), rel=1e-15)


def test_ten_thousand_pairs_take_the_steps_of_one(monkeypatch):
    """All pairs go through Newton's method together: few evaluations, each of the whole array."""
    generator = np.random.default_rng(7)
    epsilon, delta = 10 ** generator.uniform(-3, 2, 10_000), 10 ** generator.uniform(-30, -1, 10_000)
    sizes = []

    def counted(mu, epsilon):
        sizes.append(np.size(mu))
        return log_delta_of(mu, epsilon)

    monkeypatch.setattr(_calibration, "log_delta_of", counted)
    gaussian_sigma(epsilon, delta)
    assert len(sizes) <= 10  # 7 today
    assert set(sizes) == {10_000}


def test_shapes():
    assert isinstance(gaussian_sigma(1, 1e-5), float)
    grid = gaussian_sigma(np.array([[0.5], [1.0]]), [1e-5, 1e-6, 1e-7], sensitivity=[1.0, 2.0, 3.0])
    assert grid.shape == (2, 3)
    assert grid[1, 2] == pytest.approx(gaussian_sigma(1.0, 1e-7, sensitivity=3.0), rel=1e-15)
    assert gaussian_sigma([], 1e-5).shape == (0,)


@pytest.mark.parametrize(
    ("delta", "limit"),
    [(1e-5, 8.419771302), (1e-6, 8.782091752), (9.62e-5, 7.998903807), (3.41e-5, 8.201208893), (2.64e-6, 8.636049403)],
)
def test_classical_is_refused_where_it_is_not_enough(delta, limit):
    assert gaussian_sigma(limit - 1e-7, delta, analysis="classical") >= gaussian_sigma(limit - 1e-7, delta)
    with pytest.raises(ValueError, match="the classical formula is proved for 0 < epsilon < 1"):
        gaussian_sigma(limit + 1e-7, delta, analysis="classical")


@settings(max_examples=30)
@given(epsilon=st.floats(1e-6, 1), delta=st.floats(1e-100, 0.9))
def test_classical_is_enough_in_its_range(epsilon, delta):
    assert gaussian_sigma(epsilon, delta, analysis="classical") >= gaussian_sigma(epsilon, delta)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((1.0, 0.0), {}, r"delta must be in \(0, 0\.999\], got delta=0.0; for delta = 0 use laplace"),
        ((1.0, [1e-5, 0.0]), {}, r"delta must be in \(0, 0\.999\], got delta=0.0"),
        ((1.0, 1.0), {}, r"delta must be in \(0, 0\.999\], got delta=1.0; .* above 0.999 next to nothing"),
        ((1.0, -0.1), {}, r"delta must be in \(0, 0\.999\], got delta=-0.1"),
        ((1.0, np.nan), {}, "delta must be in"),
        ((-1.0, 1e-5), {}, r"epsilon must be in \[0, 1e\+12\], got epsilon=.*-1"),
        ((np.nan, 1e-5), {}, "epsilon must be in"),
        ((np.inf, 1e-5), {}, "epsilon must be in"),
        ((1.0, 1e-5), {"sensitivity": 0.0}, "sensitivity must be > 0, got sensitivity=0.0"),
        ((1.0, 1e-5), {"sensitivity": np.inf}, "sensitivity must be finite and > 0, got sensitivity=inf"),
        ((1.0, 1e-5), {"analysis": "best"}, "analysis must be one of 'tight', 'classical'"),
        ((0.0, 1e-5), {"analysis": "classical"}, "not sufficient for epsilon=0.0"),
        ((0.0, 5e-324), {}, "epsilon and delta must be large enough for a finite sigma, got epsilon=0.0"),
    ],
)
def test_bad_input_is_named(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        gaussian_sigma(*arguments, **options)
