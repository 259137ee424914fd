"""Checks of the exercises of the chapters on the papers, and of the head-to-head."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import stats

from dpnotes import accounting
from dpnotes.exercises._check import (
    Function,
    exercise,
    expect,
    expect_close,
    expect_unlike,
)

# how far an answer in closed form may be off, and one that a solver gives
CLOSED: Any = {"rtol": 1e-9, "atol": 0.0}
SOLVED: Any = {"rtol": 1e-6, "atol": 0.0}

# bagging


@exercise("bagging-5")
def inclusion(function: Function) -> None:
    """``inclusion(n, subsample, n_models, replace)``: probability that a given
    record is drawn at least once.
    """
    # one subsample, then two that may overlap
    once = function(10, 3, 1, False)
    expect_close(
        once,
        0.3,
        "3 of 10 records without replacement include a given record with probability"
        " 3/10",
    )
    twice = function(10, 3, 2, False)
    expect_unlike(
        twice,
        0.6,
        "independent subsamples may overlap, so the probabilities of two of them do not"
        " add up",
    )
    for sizes in ((10, 3, 2, False), (10, 3, 2, True), (60_000, 300, 5, True)):
        n, subsample, n_models, replace = sizes
        exact = accounting.bagging(
            n=n, subsample=subsample, n_models=n_models, replace=replace
        ).advantage
        expect_close(
            function(*sizes),
            exact,
            "return 1 minus the probability that no subsample contains the record;"
            f" wrong at replace={replace}",
        )
    # 1 - 1e-17 is 1 in doubles
    tiny = function(10**17, 1, 1, True)
    expect_close(
        tiny,
        1e-17,
        "1 - (1 - x) loses all digits of a small x; np.log1p and np.expm1 do not",
        atol=0.0,
    )


@exercise("bagging-6")
def error_rates(function: Function) -> None:
    """``error_rates(pi, alpha)``: least false-negative rates at the false-positive
    rates, if the sample is public.
    """
    # to where the record is certain to be recognised, and beyond
    alpha = np.array([0.0, 0.01, 0.5, 1.0])
    least = np.asarray(function(0.2, alpha))
    expect(
        least.shape == alpha.shape,
        "the result has one rate for each false-positive rate",
    )
    expect(np.all(least >= 0), "a rate is not negative")
    expect_close(
        least[0],
        0.8,
        "without false positives a record is missed exactly when it was not drawn",
    )
    expect_close(
        least,
        np.maximum(0, 0.8 - alpha),
        "the true-positive rate can rise by as much as the false-positive rate, until"
        " it is 1",
    )


@exercise("bagging-8")
def fewest(function: Function) -> None:
    """``fewest(n, subsample, lead)``: fewest added records with which a label with
    this lead can lose the vote.
    """
    expect(
        function(10**9, 10, 5e-9) == 1,
        "a part of a record counts as a whole record: round up",
    )
    # a lead of nearly all votes: each model that changes sides counts twice
    wide = function(1000, 50, 0.999)
    expect(
        wide < 100,
        "a model that drew an added record no longer votes for the first label, but for"
        " the second",
    )
    expect(
        wide <= 14, "a model is lost once, however many of the added records it drew"
    )
    expect(
        function(1000, 50, 0.5) == 9,
        "models that drew no added record vote as before, some of them for the second"
        " label",
    )
    expect(
        function(100, 1, 0.499) == 50,
        "with added records the data set is larger, so each record is drawn more"
        " rarely",
    )


# private prediction


@exercise("private-prediction-6")
def level(function: Function) -> None:
    """``level(n_models, beta)``: exact pure epsilon of one answer of a soft vote
    between two classes.
    """
    expect_close(
        function(1, 0.7), 0.7, "for a single model, the exact epsilon is beta", **CLOSED
    )
    # four models: few enough for the exact level to differ from its limit
    found = function(4, 0.7)
    expect_unlike(found, 0.7, "the normaliser changes with the vote, too", **CLOSED)
    expect_unlike(
        found,
        1.4,
        "2 beta is the limit for many models; four models stay below it",
        **CLOSED,
    )
    # all four votes for one class, one of which moves
    worst = 0.7 + math.log((math.exp(2.8) + 1) / (math.exp(2.1) + math.exp(0.7)))
    expect_close(
        found,
        worst,
        "return the largest log-ratio over all divisions of the votes, both classes and"
        " both directions",
        **CLOSED,
    )
    expect_close(
        function(5000, 0.7),
        1.4,
        "with many models exp(beta n) overflows; np.logaddexp does not",
        **CLOSED,
    )


@exercise("private-prediction-7")
def sigma(function: Function) -> None:
    """``sigma(epsilon, delta, answers, sensitivity)``: noise on each of ``answers``
    logit vectors.
    """
    # of one answer; the exact condition, solved by the library
    least = accounting.gaussian_sigma(1.0, 1e-5)
    one = function(1.0, 1e-5, 1, 1.0)
    expect_unlike(
        one,
        math.sqrt(2 * math.log(1.25e5)),
        "sqrt(2 log(1.25 / delta)) / epsilon is not the least noise",
        **CLOSED,
    )
    expect_close(
        one, least, "one answer needs the noise of the exact condition", **SOLVED
    )
    many = function(1.0, 1e-5, 100, 1.0)
    expect_unlike(
        many,
        100 * least,
        "the shift of many normal releases together is smaller than the sum of their"
        " shifts",
        **SOLVED,
    )
    expect_close(many, 10 * least, "all answers together must be private", **SOLVED)
    expect_close(
        function(1.0, 1e-5, 1, 0.2),
        least / 5,
        "a smaller shift needs less noise",
        **SOLVED,
    )
    # beyond the range of a search that stops too early
    strict = accounting.gaussian_sigma(0.01, 1e-9)
    expect_close(
        function(0.01, 1e-9, 1, 1.0), strict, "small epsilons need much noise", **SOLVED
    )


@exercise("private-prediction-9")
def next_token(function: Function) -> None:
    """``next_token(private, public, bound, beta)``: probability of each token."""
    public = np.array([2.0, 0.0, -1.0])
    # three private texts that predict as the public model does
    silent = np.asarray(function(np.tile(public, (3, 1)), public, 1.0, 0.5))
    expect(np.shape(silent) == (3,), "the result has one probability for each token")
    expect_close(np.sum(silent), 1, "probabilities add up to 1")
    alone = np.exp(public) / np.exp(public).sum()
    expect_close(
        silent,
        alone,
        "texts that add nothing do not change the public model's distribution",
    )
    # one text that is far beyond the bound in one token
    odds = np.log(
        np.asarray(function(public + np.array([[0.0, 50.0, 0.0]]), public, 1.0, 0.5))
        / alone
    )
    expect(
        odds[1] - odds[0] < 1, "the contribution of one text is cut off at the bound"
    )
    expect_close(
        odds[1] - odds[0],
        0.5,
        "one text moves the exponent by beta times the bound",
    )
    # two texts that pull in opposite directions, one of them within the bound
    both = np.asarray(
        function(
            public + np.array([[0.0, 9.0, 0.0], [0.0, -0.25, 0.0]]), public, 1.0, 0.5
        )
    )
    expect_close(
        np.log(both[1] / both[0] / (alone[1] / alone[0])),
        0.375,
        "each text is cut off separately",
    )
    # exp(800) is no double
    large = np.asarray(function(np.full((3, 3), 800.0), np.full(3, 799.5), 1.0, 0.5))
    expect_close(
        large,
        1 / 3,
        "the same number added to all logits changes no probability, even if it is"
        " large",
    )


# dpbag


@exercise("dpbag-6")
def wins(function: Function) -> None:
    """``wins(counts, inverse_scale)``: probability that class 1 is answered."""
    expect_close(
        function((5.0, 5.0), 0.3),
        0.5,
        "equal counts make both classes equally likely",
        **CLOSED,
    )
    one = function((2.0, 3.5), 0.8)
    other = function((3.5, 2.0), 0.8)
    expect_close(
        one + other,
        1,
        "exchanging the counts exchanges the classes: the two probabilities add up"
        " to 1",
        **CLOSED,
    )
    expect(one > 0.5, "the class with more votes is likelier")
    # with one Laplace variable, and with the scale in the place of its inverse
    single = 1 - math.exp(-1.2) / 2
    inverse = 1 - (2 + 1.5 / 0.8) / 4 * math.exp(-1.5 / 0.8)
    expect_unlike(
        one,
        single,
        "both counts have noise: the difference of two Laplace variables is not Laplace"
        " noise",
        **CLOSED,
    )
    expect_unlike(
        one,
        inverse,
        "inverse_scale is the inverse of the Laplace distribution's scale",
        **CLOSED,
    )
    expect_close(
        one,
        1 - (2 + 1.2) / 4 * math.exp(-1.2),
        "the noisy vote answers class 1 with a different probability",
        **CLOSED,
    )
    expect_close(
        function((102.0, 103.5), 0.8),
        one,
        "only the difference of the counts matters",
        **CLOSED,
    )


@exercise("dpbag-7")
def answers(function: Function) -> None:
    """``answers(epsilon, delta, inverse_scale)``: largest number of answers within
    the budget.
    """
    found = function(1.0, 1e-3, 2 / 50)
    expect(
        found != 11,
        "the last of these answers takes the total over epsilon, as in the paper's"
        " loop",
    )
    expect(
        found == 10,
        "10 answers fit at epsilon = 1, delta = 0.001 and inverse scale 2/50, got"
        f" {found}",
    )
    expect(
        function(1.0, 1e-5, 2 / 50) == 6,
        "a smaller delta leaves room for fewer answers: do you use the natural"
        " logarithm?",
    )
    expect(
        function(5.0, 1e-5, 2 / 250) == 3512,
        "with little noise for each answer another order is best",
    )
    expect(
        function(0.1, 1e-5, 0.1) == 0,
        "if one answer is already too many, the number is 0",
    )


# intrinsic sgd


@exercise("intrinsic-sgd-5")
def sensitivity(function: Function) -> None:
    """``sensitivity(n, batch_size, steps, learning_rate, lipschitz, smoothness)``:
    largest effect of one record.
    """
    expect_close(
        function(100, 10, 10, 0.5, 2.0, 0.5),
        0.2,
        "in one pass a record is in one batch, whose mean gradient changes by at most"
        " twice the Lipschitz constant, divided by B",
    )
    expect_close(
        function(100, 10, 30, 0.5, 2.0, 0.5),
        0.6,
        "every pass visits the record once more",
    )
    expect_close(
        function(100, 10, 11, 0.5, 2.0, 0.5),
        0.4,
        "a pass that is begun but not finished may have visited the record",
    )
    expect_close(
        function(7, 2, 7, 1.0, 1.0, 0.5),
        3.0,
        "the records left over at the end of a pass do not form a batch",
    )
    expect(
        function(100, 10, 10, 4.0, 1.0, 0.5) < math.inf,
        "the largest rate for which the bound is proved is 2 / smoothness",
    )
    expect(
        function(100, 10, 10, 4.1, 1.0, 0.5) == math.inf,
        "beyond a rate of 2 / smoothness there is no bound",
    )


@exercise("intrinsic-sgd-6")
def epsilon_of(function: Function) -> None:
    """``epsilon_of(sensitivity, sigma, delta)``: exact epsilon of a Gaussian
    mechanism.
    """
    # small and large shifts: a classical formula fails at one of them
    for distance, sigma, delta in (
        (0.164, 0.108, 3.41e-5),
        (1.0, 2.0, 1e-6),
        (3.0, 0.5, 1e-3),
    ):
        mu = distance / sigma
        epsilon = function(distance, sigma, delta)
        above, below = stats.norm.logcdf(np.array([mu / 2, -mu / 2]) - epsilon / mu)
        reached = np.exp(above) - np.exp(epsilon + below)
        expect(
            reached < 1.01 * delta,
            "the epsilon is too small: delta(epsilon) is above delta",
        )
        expect(
            reached > 0.99 * delta,
            "the epsilon is too large: a smaller one reaches delta as well",
        )
    expect(function(0.1, 1.0, 0.1) == 0.0, "if delta(0) is below delta, epsilon is 0")


@exercise("intrinsic-sgd-7")
def last_iterate_delta(function: Function) -> None:
    """``last_iterate_delta(epsilon, noise_multiplier, sample_rate, steps)``: the
    heuristic of linear losses.
    """
    # a shift of 4 against a standard deviation of 2 sqrt(4)
    full = 2 * stats.norm.cdf(0.5) - 1
    expect_close(
        function(0.0, 2.0, 1.0, 4),
        full,
        "with q = 1, compare a shift of T with noise of variance sigma^2 T: shifts add"
        " up, and so do variances",
        rtol=1e-4,
    )
    once = 0.3 * (2 * stats.norm.cdf(0.25) - 1)
    expect_close(
        function(0.0, 2.0, 0.3, 1),
        once,
        "each step uses the record with probability q",
        rtol=1e-4,
    )
    # the mixture over the number of visits, by the trapezoidal rule
    points = np.linspace(-30, 40, 20_001)
    p = stats.norm.pdf(points[:, None], np.arange(6), 5**0.5) @ stats.binom.pmf(
        np.arange(6), 5, 0.6
    )
    q = stats.norm.pdf(points, 0, 5**0.5)
    removed = np.trapezoid(np.maximum(p - np.exp(0.4) * q, 0), points)
    added = np.trapezoid(np.maximum(q - np.exp(0.4) * p, 0), points)
    found = function(0.4, 1.0, 0.6, 5)
    expect_unlike(
        found,
        min(removed, added),
        "return the delta of the worse of the two directions",
        rtol=1e-3,
    )
    expect_close(
        found,
        max(removed, added),
        "the number of visits is binomial, and the other density is multiplied by the"
        " exponential of epsilon",
        rtol=1e-3,
    )


# head to head


@exercise("head-to-head-4")
def choice(function: Function) -> None:
    """``choice(votes, epsilon)``: probability of each entry."""
    some = np.asarray(function(np.array([5, 3, 3]), 1.0))
    expect(some.shape == (3,), "the result has one probability for each entry")
    expect_close(some.sum(), 1, "probabilities add up to 1")
    expect(
        some[0] > some[1] and np.isclose(some[1], some[2]),
        "entries with more votes are likelier, and entries with equal votes are equally"
        " likely",
    )
    # one block moves its vote to another entry
    moved = np.asarray(function(np.array([4, 4, 3]), 1.0))
    ratios = np.abs(np.log(some / moved))
    expect(
        ratios.max() <= 1 + 1e-9,
        "a block that changes its vote moves two counts, so this choice is not"
        " private yet",
    )
    expect_close(
        some[0] / some[1],
        np.e,
        "each of the two counts that move has half of epsilon, not less",
    )
    large = np.asarray(function(np.array([10_005, 10_003, 10_003]), 1.0))
    expect_close(
        large,
        some,
        "the same number added to all votes changes no probability, even if it is"
        " large",
    )
