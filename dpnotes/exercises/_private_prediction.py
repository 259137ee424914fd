"""Exercises of the chapter on private prediction."""

from __future__ import annotations

import math

import numpy as np

from dpnotes import accounting
from dpnotes.exercises._check import Function, exercise, expect


@exercise("private-prediction-6")
def level(function: Function) -> None:
    """``level(n_models, beta)``: exact pure epsilon of one answer of a soft vote between two classes."""
    expect(math.isclose(function(1, 0.7), 0.7), "one model alone moves no votes of others: the level is beta")
    found = function(4, 0.7)
    expect(not math.isclose(found, 0.7), "the normaliser changes with the vote, too")
    expect(not math.isclose(found, 1.4), "2 beta is the limit for many models; four stay below it")
    worst = 0.7 + math.log((math.exp(2.8) + 1) / (math.exp(2.1) + math.exp(0.7)))
    expect(math.isclose(found, worst), "the largest log-ratio over all votes, both classes and both directions")
    expect(math.isclose(function(5000, 0.7), 1.4), "with many models exp(beta n) overflows; np.logaddexp does not")


@exercise("private-prediction-7")
def sigma(function: Function) -> None:
    """``sigma(epsilon, delta, answers, sensitivity)``: noise on each of so many logit vectors."""
    least = accounting.gaussian_sigma(1.0, 1e-5)
    one = function(1.0, 1e-5, 1, 1.0)
    expect(not math.isclose(one, math.sqrt(2 * math.log(1.25e5))), "sqrt(2 log(1.25 / delta)) / epsilon is not least")
    expect(math.isclose(one, least, rel_tol=1e-6), "for one answer the noise of the exact condition")
    many = function(1.0, 1e-5, 100, 1.0)
    expect(not math.isclose(many, 100 * least, rel_tol=1e-6), "many normal releases are one whose shift grows slower")
    expect(math.isclose(many, 10 * least, rel_tol=1e-6), "all answers together are to be private")
    expect(math.isclose(function(1.0, 1e-5, 1, 0.2), least / 5, rel_tol=1e-6), "a smaller shift needs less noise")
    strict = accounting.gaussian_sigma(0.01, 1e-9)
    expect(math.isclose(function(0.01, 1e-9, 1, 1.0), strict, rel_tol=1e-6), "small epsilons need much noise")


@exercise("private-prediction-9")
def next_token(function: Function) -> None:
    """``next_token(private, public, bound, beta)``: probability of each token."""
    public = np.array([2.0, 0.0, -1.0])
    silent = np.asarray(function(np.tile(public, (3, 1)), public, 1.0, 0.5))
    expect(np.shape(silent) == (3,), "the result has one probability for each token")
    expect(np.isclose(np.sum(silent), 1), "probabilities add up to 1")
    alone = np.exp(public) / np.exp(public).sum()
    expect(np.allclose(silent, alone), "texts that add nothing leave the public model's distribution")
    odds = np.log(np.asarray(function(public + np.array([[0.0, 50.0, 0.0]]), public, 1.0, 0.5)) / alone)
    expect(odds[1] - odds[0] < 1, "what one text adds is cut off at the bound")
    expect(np.isclose(odds[1] - odds[0], 0.5), "one text moves the exponent by beta times the bound")
    both = np.asarray(function(public + np.array([[0.0, 9.0, 0.0], [0.0, -0.25, 0.0]]), public, 1.0, 0.5))
    expect(np.isclose(np.log(both[1] / both[0] / (alone[1] / alone[0])), 0.375), "each text is cut off by itself")
    large = np.asarray(function(np.full((3, 3), 800.0), np.full(3, 799.5), 1.0, 0.5))
    expect(np.allclose(large, 1 / 3), "adding the same number to all logits changes nothing, also if it is large")
