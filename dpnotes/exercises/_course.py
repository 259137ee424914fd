"""Checks of the exercises of the course, chapter by chapter."""

from __future__ import annotations

import numpy as np
from scipy import stats

from dpnotes.exercises._check import Function, exercise, expect

# guarantee


YES, NO = np.array([0.75, 0.25]), np.array([0.25, 0.75])  # randomised response


@exercise("guarantee-5")
def smallest_delta(function: Function) -> None:
    """``smallest_delta(p, q, epsilon)``: the hockey-stick divergence, in the worse direction."""
    expect(np.isclose(function(YES, NO, 0.0), 0.5), "at epsilon = 0 it is the total variation distance")
    expect(np.isclose(function(YES, NO, np.log(2)), 0.25), "an epsilon multiplies probabilities by its exponential")
    expect(np.isclose(function(YES, NO, np.log(6)), 0.0), "outputs that are below the bound take nothing off")
    rare, never = np.array([0.9, 0.1]), np.array([1.0, 0.0])
    hint = "either data set may be the one with Ada: the larger of both directions"
    expect(np.isclose(function(rare, never, 1.0), 0.1), hint)
    expect(np.isclose(function(never, rare, 1.0), 0.1), hint)


@exercise("guarantee-6")
def best_tpr(function: Function) -> None:
    """``best_tpr(p, q, fpr)``: the true-positive rate of the best test."""
    expect(np.isclose(function(YES, NO, 0.25), 0.75), 'the best test says "in" where p / q is largest')
    expect(np.isclose(function(YES, NO, 1.0), 1.0), "a test that always says in has both rates 1")
    expect(np.isclose(function(YES, NO, 0.1), 0.3), "a test may toss a coin at the last output that it can afford")
    p, q = np.array([0.5, 0.2, 0.3]), np.array([0.75, 0.25, 0.0])
    with np.errstate(divide="ignore", invalid="ignore"):
        found = function(p, q, 0.0)
    expect(np.isclose(found, 0.3), "an output that is impossible without Ada costs no false positives")
    p, q = np.array([0.6, 0.4]), np.array([0.8, 0.2])
    expect(np.isclose(function(p, q, 0.2), 0.4), "outputs are ordered by the ratio p / q, not only by p")


# mechanisms


@exercise("mechanisms-6")
def private_mean(function: Function) -> None:
    """``private_mean(values, low, high, epsilon, noise)``: clipped mean plus scaled Laplace noise."""
    values = np.array([1.0, 2.0, 3.0, 6.0])
    expect(
        np.isclose(function(values, 0.0, 10.0, 1.0, 0.0), 3.0), "without noise, values within the bounds are averaged"
    )
    expect(np.isclose(function(values, 2.0, 4.0, 1.0, 0.0), 2.75), "values beyond the public bounds are moved to them")
    scale = function(values, 0.0, 10.0, 1.0, 1.0) - function(values, 0.0, 10.0, 1.0, 0.0)
    wide = function(10 * values, 0.0, 10.0, 1.0, 1.0) - function(10 * values, 0.0, 10.0, 1.0, 0.0)
    expect(np.isclose(scale, wide), "the size of the noise depends only on public facts, not on the values")
    expect(scale > 0, "noise is added")
    expect(not np.isclose(scale, 10.0), "one record moves the mean only by a part of the range")
    expect(np.isclose(scale, 2.5), "the sensitivity of the mean is the width of the bounds over the number of records")
    shifted = function(values, -5.0, 10.0, 0.5, 1.0) - function(values, -5.0, 10.0, 0.5, 0.0)
    expect(np.isclose(shifted, 7.5), "the noise has scale sensitivity / epsilon, with the width of the bounds")


# composition
ORDERS = np.array([1.5, 2.0, 5.4318496, 40.0])


@exercise("composition-4")
def to_epsilon(function: Function) -> None:
    """``to_epsilon(orders, divergences, delta)``: the best of several orders."""
    found = function(ORDERS, ORDERS / 2, 1e-5)
    expect(np.ndim(found) == 0, "the result is one number, for the best order")
    expect(
        not np.isclose(found, 5.313695),
        "that is the older conversion; the equation of the text has two more logarithms",
    )
    expect(np.isclose(found, 4.728387), "each order bounds epsilon: the smallest of the bounds counts")
    expect(np.isclose(function(ORDERS, 2 * ORDERS, 1e-3), 9.521461), "the divergences and delta are arguments")
    expect(function(ORDERS, ORDERS / 1e6, 0.5) == 0, "an epsilon is not negative")


@exercise("composition-5")
def composed_delta(function: Function) -> None:
    """``composed_delta(p, q, times, epsilon)``: the hockey-stick divergence of a product."""
    p, q = np.array([0.75, 0.25]), np.array([0.25, 0.75])
    expect(np.isclose(function(p, q, 1, np.log(2)), 0.25), "one release: the positive part of p - e^epsilon q, summed")
    expect(
        not np.isclose(function(p, q, 2, 0.0), 1.0),
        "deltas of releases need not add: compose the distributions instead",
    )
    expect(np.isclose(function(p, q, 2, 0.0), 0.5), "independent releases multiply the probabilities of their outputs")
    expect(np.isclose(function(p, q, 3, np.log(3)), 0.375), "epsilon is for all releases together, not for each")
    sure = np.array([0.9, 0.1]), np.array([1.0, 0.0])
    with np.errstate(divide="ignore", invalid="ignore"):
        found = function(*sure, 2, 1.0)
    expect(np.isclose(found, 0.19), "an output that is impossible under q counts with its whole probability")


# dp sgd


@exercise("dp-sgd-6")
def clip_and_add(function: Function) -> None:
    """``clip_and_add(gradients, clipping_norm, noise)``: the noisy sum of clipped gradients."""
    nothing = np.zeros(2)
    small = np.array([[0.3, 0.4], [0.0, -0.1]])
    large = np.array([[30.0, 40.0], [0.0, 0.1]])
    expect(np.shape(function(large, 1.0, nothing)) == (2,), "the result has one number for each weight")
    expect(
        np.allclose(function(small, 1.0, nothing), [0.3, 0.3]),
        "gradients within the clipping norm are added unchanged: a sum, not a mean",
    )
    expect(
        np.allclose(function(large, 1.0, nothing), [0.6, 0.9]),
        "each record's gradient is clipped separately, to at most the clipping norm, and its direction does not change",
    )
    expect(np.allclose(function(large, 5.0, nothing), [3.0, 4.1]), "the clipping norm is an argument")
    expect(
        np.allclose(function(np.zeros((0, 2)), 1.0, np.array([0.5, 0.2])), [0.5, 0.2]),
        "with an empty batch the step consists only of noise",
    )
    expect(
        np.allclose(function(np.zeros((1, 2)), 4.0, np.array([0.5, 0.2])), [0.5, 0.2]),
        "a gradient of norm 0 stays 0, and the noise is added once, unchanged",
    )


# votes


@exercise("votes-6")
def exponential_mechanism(function: Function) -> None:
    """``exponential_mechanism(scores, epsilon, sensitivity)``: probability of each answer."""
    scores = np.array([3.0, 1.0, 1.0])
    some = np.asarray(function(scores, 1.0, 1.0))
    expect(np.shape(some) == (3,), "the result has one probability for each score")
    expect(np.isclose(np.sum(some), 1), "probabilities add up to 1")
    expect(some[0] > some[1] and np.isclose(some[1], some[2]), "a larger score is likelier, equal scores are equal")
    expect(
        not np.isclose(some[0] / some[1], np.exp(2)),
        "not only the answer's own weight changes with the record: the sum of the weights does, too",
    )
    expect(np.isclose(some[0] / some[1], np.e), "odds grow exponentially in epsilon times the difference of the scores")
    half = np.asarray(function(scores, 1.0, 2.0))
    expect(np.isclose(half[0] / half[1], np.exp(0.5)), "scores that change more need a flatter distribution")
    large = np.asarray(function(scores + 10_000, 1.0, 1.0))
    expect(np.allclose(large, some), "the same number added to all scores changes no probability, even if it is large")


# attacks


@exercise("attacks-6")
def clopper_pearson(function: Function) -> None:
    """``clopper_pearson(successes, trials, confidence)``: exact limits of a probability."""
    low, high = function(3, 50, 0.95)
    expect(low < 3 / 50 < high, "the limits enclose the observed fraction, the lower limit first")
    tails = stats.binom.sf(2, 50, low), stats.binom.cdf(3, 50, high)
    expect(max(tails) < 0.04, "the interval may miss on either side: each side has half of the remaining probability")
    expect(abs(tails[1] - 0.025) < 1e-6, "at the upper limit, `successes` or fewer have half of that probability")
    expect(abs(tails[0] - 0.025) < 1e-6, "at the lower limit, `successes` or more have half of that probability")
    low, high = function(0, 50, 0.95)
    expect(low == 0.0, "without any success the lower limit is 0")
    expect(abs((1 - high) ** 50 - 0.025) < 1e-6, "without any success the upper limit is not 0")
    low, high = function(50, 50, 0.95)
    expect(high == 1.0, "without any failure the upper limit is 1")
    expect(abs(function(3, 50, 0.5)[1] - stats.beta.ppf(0.75, 4, 47)) < 1e-6, "the confidence is an argument")
