"""Exercises of the chapter on votes."""

from __future__ import annotations

import numpy as np

from dpnotes.exercises._check import Function, exercise, expect


@exercise("votes-6")
def exponential_mechanism(function: Function) -> None:
    """``exponential_mechanism(scores, epsilon, sensitivity)``: probability of each answer."""
    scores = np.array([3.0, 1.0, 1.0])
    some = np.asarray(function(scores, 1.0, 1.0))
    expect(np.shape(some) == (3,), "the result has one probability for each score")
    expect(np.isclose(np.sum(some), 1), "probabilities add up to 1")
    expect(some[0] > some[1] and np.isclose(some[1], some[2]), "a larger score is likelier, equal ones are equally so")
    expect(
        not np.isclose(some[0] / some[1], np.exp(2)),
        "not only the answer's own weight changes with the record: the sum of the weights does, too",
    )
    expect(np.isclose(some[0] / some[1], np.e), "odds grow exponentially in epsilon times the difference of the scores")
    half = np.asarray(function(scores, 1.0, 2.0))
    expect(np.isclose(half[0] / half[1], np.exp(0.5)), "scores that change more need a flatter distribution")
    large = np.asarray(function(scores + 10_000, 1.0, 1.0))
    expect(np.allclose(large, some), "adding the same number to all scores changes nothing, also if it is large")
