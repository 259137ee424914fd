"""Exercises of the chapter on intrinsic SGD."""

from __future__ import annotations

import math

import numpy as np
from scipy import stats

from dpnotes.exercises._check import Function, exercise, expect


@exercise("intrinsic-sgd-5")
def sensitivity(function: Function) -> None:
    """``sensitivity(n, batch_size, steps, learning_rate, lipschitz, smoothness)``: what one record can do."""
    expect(
        np.isclose(function(100, 10, 10, 0.5, 2.0, 0.5), 0.2),
        "in one pass a record is in one batch: its two gradients differ by twice the Lipschitz constant, over B",
    )
    expect(np.isclose(function(100, 10, 30, 0.5, 2.0, 0.5), 0.6), "every pass visits the record once more")
    expect(np.isclose(function(100, 10, 11, 0.5, 2.0, 0.5), 0.4), "a pass that is begun may have visited the record")
    expect(np.isclose(function(7, 2, 7, 1.0, 1.0, 0.5), 3.0), "a pass has no batch of what is left over")
    expect(function(100, 10, 10, 4.0, 1.0, 0.5) < math.inf, "the largest rate for which it is proved is 2 / smoothness")
    expect(function(100, 10, 10, 4.1, 1.0, 0.5) == math.inf, "beyond a rate of 2 / smoothness there is no bound")


@exercise("intrinsic-sgd-6")
def epsilon_of(function: Function) -> None:
    """``epsilon_of(sensitivity, sigma, delta)``: of a Gaussian mechanism, exactly."""
    for distance, sigma, delta in ((0.164, 0.108, 3.41e-5), (1.0, 2.0, 1e-6), (3.0, 0.5, 1e-3)):
        mu, epsilon = distance / sigma, function(distance, sigma, delta)
        above, below = stats.norm.logcdf(np.array([mu / 2, -mu / 2]) - epsilon / mu)
        reached = np.exp(above) - np.exp(epsilon + below)
        expect(reached < 1.01 * delta, "the epsilon is too small: delta(epsilon) is above delta")
        expect(reached > 0.99 * delta, "the epsilon is too large: a smaller one reaches delta as well")
    expect(function(0.1, 1.0, 0.1) == 0.0, "where delta(0) is below delta, epsilon is 0")


@exercise("intrinsic-sgd-7")
def last_iterate_delta(function: Function) -> None:
    """``last_iterate_delta(epsilon, noise_multiplier, sample_rate, steps)``: the heuristic of linear losses."""
    full = 2 * stats.norm.cdf(0.5) - 1
    expect(
        np.isclose(function(0.0, 2.0, 1.0, 4), full, rtol=1e-4),
        "with q = 1 it is T against noise of variance sigma^2 T: steps add up, and so do variances",
    )
    once = 0.3 * (2 * stats.norm.cdf(0.25) - 1)
    expect(np.isclose(function(0.0, 2.0, 0.3, 1), once, rtol=1e-4), "a record is in a step with probability q")
    points = np.linspace(-30, 40, 20_001)
    p = stats.norm.pdf(points[:, None], np.arange(6), 5**0.5) @ stats.binom.pmf(np.arange(6), 5, 0.6)
    q = stats.norm.pdf(points, 0, 5**0.5)
    for_epsilon = [np.trapezoid(np.maximum(a - np.exp(0.4) * b, 0), points) for a, b in ((p, q), (q, p))]
    found = function(0.4, 1.0, 0.6, 5)
    expect(not np.isclose(found, min(for_epsilon), rtol=1e-3), "delta is that of the worse of the two directions")
    expect(
        np.isclose(found, max(for_epsilon), rtol=1e-3),
        "the number of visits is binomial, and an epsilon multiplies the other density by its exponential",
    )
