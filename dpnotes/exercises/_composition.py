"""Exercises of the chapter on composition and accounting."""

from __future__ import annotations

import numpy as np

from dpnotes.exercises._check import Function, exercise, expect

ORDERS = np.array([1.5, 2.0, 5.4318496, 40.0])


@exercise("composition-4")
def to_epsilon(function: Function) -> None:
    """``to_epsilon(orders, divergences, delta)``: the best of several orders."""
    found = function(ORDERS, ORDERS / 2, 1e-5)
    expect(np.ndim(found) == 0, "the result is one number, of the best order")
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
    expect(np.isclose(function(p, q, 3, np.log(3)), 0.375), "epsilon is that of all releases together, not of each")
    sure = np.array([0.9, 0.1]), np.array([1.0, 0.0])
    with np.errstate(divide="ignore", invalid="ignore"):
        found = function(*sure, 2, 1.0)
    expect(np.isclose(found, 0.19), "an output that is impossible under q counts with its whole probability")
