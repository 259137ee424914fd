"""Exercises of the chapter on bagging."""

from __future__ import annotations

import numpy as np

from dpnotes import accounting
from dpnotes.exercises._check import Function, exercise, expect


@exercise("bagging-5")
def inclusion(function: Function) -> None:
    """``inclusion(n, subsample, n_models, replace)``: probability that a given record is drawn at least once."""
    once = function(10, 3, 1, False)
    expect(np.isclose(once, 0.3), "3 of 10 records without replacement have a given one with probability 3/10")
    twice = function(10, 3, 2, False)
    expect(not np.isclose(twice, 0.6), "independent subsamples may overlap: probabilities do not add up")
    for sizes in ((10, 3, 2, False), (10, 3, 2, True), (60_000, 300, 5, True)):
        n, subsample, n_models, replace = sizes
        exact = accounting.bagging(n=n, subsample=subsample, n_models=n_models, replace=replace).advantage
        expect(np.isclose(function(*sizes), exact), f"one minus the probability of no hit, at replace={replace}")
    tiny = function(10**17, 1, 1, True)
    expect(np.isclose(tiny, 1e-17, atol=0), "1 - (1 - x) loses all digits of a small x; np.log1p and np.expm1 do not")


@exercise("bagging-6")
def error_rates(function: Function) -> None:
    """``error_rates(pi, alpha)``: least false-negative rates at the false-positive rates, of who sees the sample."""
    alpha = np.array([0.0, 0.01, 0.5, 1.0])
    least = np.asarray(function(0.2, alpha))
    expect(least.shape == alpha.shape, "the result has one rate for each false-positive rate")
    expect(np.all(least >= 0), "a rate is not negative")
    expect(np.isclose(least[0], 0.8), "without false positives a record is missed exactly when it was not drawn")
    expect(np.allclose(least, np.maximum(0, 0.8 - alpha)), "what is called at random adds to the true positives, too")


@exercise("bagging-8")
def fewest(function: Function) -> None:
    """``fewest(n, subsample, lead)``: records to be added before a label that leads by so much can lose the vote."""
    expect(function(10**9, 10, 5e-9) == 1, "a part of a record is a record: round up")
    wide = function(1000, 50, 0.999)
    expect(wide < 100, "a model that drew one no longer votes for the first label, and does for the other")
    expect(wide <= 14, "a model is lost once, however many of the added records it drew")
    expect(function(1000, 50, 0.5) == 9, "models that drew none of them vote as before, for the second label, too")
    expect(
        function(100, 1, 0.499) == 50, "with added records the data set is larger, so that each is drawn more rarely"
    )
