"""Exercises of the chapter on attacks and audits."""

from __future__ import annotations

from scipy import stats

from dpnotes.exercises._check import Function, exercise, expect


@exercise("attacks-6")
def clopper_pearson(function: Function) -> None:
    """``clopper_pearson(successes, trials, confidence)``: exact limits of a probability."""
    low, high = function(3, 50, 0.95)
    expect(low < 3 / 50 < high, "the limits enclose the fraction that was counted, the lower one first")
    tails = stats.binom.sf(2, 50, low), stats.binom.cdf(3, 50, high)
    expect(max(tails) < 0.04, "the interval may miss on either side: each has half of what is left of the confidence")
    expect(abs(tails[1] - 0.025) < 1e-6, "at the upper limit, so few successes or fewer have half of that probability")
    expect(abs(tails[0] - 0.025) < 1e-6, "at the lower limit, so many successes or more have half of that probability")
    low, high = function(0, 50, 0.95)
    expect(low == 0.0, "without any success the lower limit is 0")
    expect(abs((1 - high) ** 50 - 0.025) < 1e-6, "without any success the upper limit is not 0")
    low, high = function(50, 50, 0.95)
    expect(high == 1.0, "without any failure the upper limit is 1")
    expect(abs(function(3, 50, 0.5)[1] - stats.beta.ppf(0.75, 4, 47)) < 1e-6, "the confidence is an argument")
