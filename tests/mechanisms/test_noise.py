"""Additive noise: exact distributions with power, independence of hidden state, bad input."""

import numpy as np
import pytest
from scipy import stats

from dpnotes.accounting import norm_noise_rate
from dpnotes.mechanisms import add_gaussian, norm_noise

LEVEL = 1e-3  # false positives of each test; seeds are fixed


def fits(sample, distribution):
    return stats.kstest(sample, distribution.cdf).pvalue > LEVEL


def test_gaussian_noise_has_the_stated_scale():
    noise = add_gaussian(np.zeros((100, 500)), sigma=2.0, seed=20)
    assert (noise.shape, noise.dtype) == ((100, 500), np.float64)
    assert fits(noise.ravel(), stats.norm(scale=2.0))
    assert not fits(noise.ravel(), stats.norm(scale=2.1))  # power: 5% off is noticed
    pairs = stats.pearsonr(noise[:, :250].ravel(), noise[:, 250:].ravel())
    assert pairs.pvalue > LEVEL


@pytest.mark.parametrize("shape", [1, 3, (4, 5)])
def test_norm_noise_is_gamma_in_norm_and_uniform_in_direction(shape):
    rate = 0.4
    noise = norm_noise(shape, rate=rate, seed=3, n_repeats=20_000)
    assert noise.shape == (20_000, *np.atleast_1d(shape))
    assert noise.dtype == np.float64
    flat = noise.reshape(20_000, -1)
    d = flat.shape[1]
    norms = np.linalg.norm(flat, axis=1)
    assert fits(norms, stats.gamma(d, scale=1 / rate))
    assert not fits(norms, stats.gamma(d, scale=1.05 / rate))
    if d == 1:
        assert fits(flat[:, 0], stats.laplace(scale=1 / rate))
        return
    fixed = np.arange(1.0, d + 1) / np.linalg.norm(np.arange(1.0, d + 1))  # no coordinate axis
    cosine = flat @ fixed / norms
    assert fits(cosine**2, stats.beta(0.5, (d - 1) / 2))
    assert not fits(cosine**2, stats.beta(0.5, 1.1 * (d - 1) / 2))  # power: squares 10% off
    assert stats.binomtest(int((cosine > 0).sum()), len(cosine)).pvalue > LEVEL
    assert abs(stats.spearmanr(norms, cosine**2).statistic) < 4 / np.sqrt(len(norms))


def test_norm_noise_has_the_variance_that_the_accounting_states():
    """Another computation: the (d + 1) / rate^2 of ``norm_noise_rate``, within four standard errors."""
    rate = norm_noise_rate(2.0, sensitivity=0.5, answers=3)
    squares = norm_noise(7, rate=rate, seed=5, n_repeats=40_000)[:, 2] ** 2
    assert abs(squares.mean() - 8 / rate**2) < 4 * squares.std() / np.sqrt(len(squares))
    assert 4 * squares.std() / np.sqrt(len(squares)) < 0.1 * 8 / rate**2  # power: 5% in scale is 10% here


def test_norm_noise_attains_its_epsilon_and_no_more():
    """In one dimension the best test at sensitivity 1 is a threshold; its log-odds ratio is epsilon, exactly."""
    epsilon, trials = 1.0, 100_000
    noise = norm_noise(1, rate=norm_noise_rate(epsilon, sensitivity=1.0), seed=11, n_repeats=trials)[:, 0]
    without, present = int((noise > 1.0).sum()), int((noise + 1.0 > 1.0).sum())
    low = stats.binomtest(present, trials).proportion_ci(0.998, method="exact").low
    high = stats.binomtest(without, trials).proportion_ci(0.998, method="exact").high
    assert 0.95 * epsilon < np.log(low / high) < epsilon


def test_noise_comes_from_the_given_seed_alone():
    for draw in (
        lambda seed: add_gaussian(np.zeros(4), sigma=1.0, seed=seed),
        lambda seed: norm_noise(4, rate=1.0, seed=seed),
    ):
        np.random.seed(0)  # noqa: NPY002, the hidden state that must not matter
        first = draw(8)
        np.testing.assert_array_equal(first, draw(8))
        np.testing.assert_array_equal(first, draw(np.random.default_rng(8)))
        assert (first != draw(9)).all()
        generator = np.random.default_rng(8)
        assert (draw(generator) != draw(generator)).all()
    assert norm_noise((2, 3), rate=1.0, seed=0).shape == (2, 3)


@pytest.mark.parametrize("value", [0.0, -1.0, np.inf, np.nan])
def test_bad_scales_are_named(value):
    with pytest.raises(ValueError, match=r"sigma must be (finite and )?> 0, got sigma="):
        add_gaussian(np.zeros(3), sigma=value, seed=0)
    with pytest.raises(ValueError, match=r"rate must be (finite and )?> 0, got rate="):
        norm_noise(3, rate=value, seed=0)


def test_other_bad_input_is_named():
    with pytest.raises(ValueError, match="n_repeats must be >= 1, got n_repeats=0"):
        norm_noise(2, rate=1.0, seed=0, n_repeats=0)
    with pytest.raises(TypeError, match="n_repeats must be an integer >= 1"):
        norm_noise(2, rate=1.0, seed=0, n_repeats=2.0)
    with pytest.raises(ValueError, match="seed must be >= 0, got seed=-1"):
        add_gaussian(np.zeros(3), sigma=1.0, seed=-1)
    with pytest.raises(TypeError, match="sigma must be a number, got sigma='2'"):
        add_gaussian(np.zeros(3), sigma="2", seed=0)
