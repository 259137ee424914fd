"""Exercises of the chapter on choosing a private learner."""

from __future__ import annotations

import numpy as np

from dpnotes.exercises._check import Function, exercise, expect


@exercise("head-to-head-4")
def choice(function: Function) -> None:
    """``choice(votes, epsilon)``: probability of each entry."""
    some = np.asarray(function(np.array([5, 3, 3]), 1.0))
    expect(some.shape == (3,), "the result has one probability for each entry")
    expect(np.isclose(some.sum(), 1), "probabilities add up to 1")
    expect(some[0] > some[1] and np.isclose(some[1], some[2]), "more votes are likelier, equal ones are equally so")
    moved = np.asarray(function(np.array([4, 4, 3]), 1.0))
    ratios = np.abs(np.log(some / moved))
    expect(ratios.max() <= 1 + 1e-9, "a block that changes its vote moves two counts, so that this is not private yet")
    expect(np.isclose(some[0] / some[1], np.e), "half of epsilon is for each of the two counts that move, and no less")
    large = np.asarray(function(np.array([10_005, 10_003, 10_003]), 1.0))
    expect(np.allclose(large, some), "adding the same number to all votes changes nothing, also if it is large")
