"""Exercises of the chapter on what a guarantee says."""

from __future__ import annotations

import numpy as np

from dpnotes.exercises._check import Function, exercise, expect

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
    expect(np.isclose(function(p, q, 0.2), 0.4), "outputs are ordered by the ratio p / q, not by p alone")
