"""Checks of the exercises of the course, chapter by chapter."""

from __future__ import annotations

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
    numbers,
)

# guarantee

ANY = np.nan
SIGMA = accounting.gaussian_sigma(1.0, 1e-5)
numbers(
    "guarantee-2",
    (SIGMA, 2 * SIGMA),
    {
        "if one record replaces another, a count changes by one at most": (
            2 * SIGMA,
            ANY,
        ),
        "if one value in [-1, 1] replaces another, the sum may change by more than one": (
            ANY,
            SIGMA,
        ),
    },
)
KNOWN = np.e / (9 + np.e)  # who knows all other records
numbers(
    "guarantee-3",
    (1 / (1 + 9 * np.e), KNOWN, np.e**2 / (9 + np.e**2)),
    {
        "the guarantee bounds how odds change, not how a probability changes": (
            0.1 / np.e,
            0.1 * np.e,
            ANY,
        ),
        "the smaller probability comes first": (KNOWN, 1 / (1 + 9 * np.e), ANY),
        "these are odds: turn them back into probabilities": (
            1 / (9 * np.e),
            np.e / 9,
            ANY,
        ),
        "the bound for one record does not hold if two records change together": (
            ANY,
            ANY,
            KNOWN,
        ),
    },
)
numbers(
    "guarantee-4",
    (2.0, 1e-6 * np.exp(0.5 * np.arange(4)).sum()),
    {
        "delta grows faster than the size of the group: see part (b) of the theorem": (
            ANY,
            4e-6,
        )
    },
)


# randomised response
YES = np.array([0.75, 0.25])
NO = np.array([0.25, 0.75])


@exercise("guarantee-5")
def smallest_delta(function: Function) -> None:
    """``smallest_delta(p, q, epsilon)``: the hockey-stick divergence, in the worse
    direction.
    """
    expect_close(
        function(YES, NO, 0.0),
        0.5,
        "at epsilon = 0 the result is the advantage: sum p - q over the outputs where p"
        " is larger",
    )
    expect_close(
        function(YES, NO, np.log(2)),
        0.25,
        "multiply the other probabilities by the exponential of epsilon",
    )
    expect_close(
        function(YES, NO, np.log(6)),
        0.0,
        "outputs where p is below e^epsilon q take nothing off the sum",
    )
    # the two directions differ: 0.1 with Ada against nothing, and 0 the other way
    rare = np.array([0.9, 0.1])
    never = np.array([1.0, 0.0])
    hint = (
        "either data set may be the one with Ada: return the larger result of both"
        " directions"
    )
    expect_close(function(rare, never, 1.0), 0.1, hint)
    expect_close(function(never, rare, 1.0), 0.1, hint)


@exercise("guarantee-6")
def best_tpr(function: Function) -> None:
    """``best_tpr(p, q, fpr)``: the true-positive rate of the best test."""
    expect_close(
        function(YES, NO, 0.25),
        0.75,
        'the best test says "in" where p / q is largest',
    )
    expect_close(
        function(YES, NO, 1.0),
        1.0,
        'a test that always says "in" has both rates 1',
    )
    expect_close(
        function(YES, NO, 0.1),
        0.3,
        "if the false-positive rate does not suffice for the next output, the test may"
        " toss a coin there",
    )
    # the last output occurs only with Ada
    p = np.array([0.5, 0.2, 0.3])
    q = np.array([0.75, 0.25, 0.0])
    with np.errstate(divide="ignore", invalid="ignore"):
        found = function(p, q, 0.0)
    expect_close(
        found,
        0.3,
        "an output that is impossible without Ada costs no false positives",
    )
    # the ratios are 0.75 and 2: the less likely output says more
    p = np.array([0.6, 0.4])
    q = np.array([0.8, 0.2])
    expect_close(
        function(p, q, 0.2),
        0.4,
        "order the outputs by the ratio p / q, not only by p",
    )


@exercise("guarantee-9")
def recover_first(function: Function) -> None:
    """``recover_first(answer, n)``: whether the first patient's tumour is malignant,
    from answers for large groups.
    """
    # either answer must be found, so that a constant is not enough
    for first in (True, False):
        malignant = np.random.default_rng(0).random(300) < 0.4
        malignant[0] = first

        def answer(group: Any, malignant: Any = malignant) -> int:
            group = np.asarray(group)
            expect(
                group.dtype == bool and group.shape == (300,),
                "a group is an array of n booleans",
            )
            expect(
                group.sum() >= 100,
                "the clinic refuses groups with fewer than a hundred patients",
            )
            return int(malignant[group].sum())

        truth = "malignant" if first else "benign"
        expect(
            bool(function(answer, 300)) is first,
            f"the first patient's tumour is {truth}, but the result says otherwise",
        )


# mechanisms

GAP = 1 - np.exp(-1 / 8)
EXACT = accounting.gaussian_sigma(20.0, 1e-5)
CLASSICAL = np.sqrt(2 * np.log(1.25e5)) / 20
numbers(
    "mechanisms-1",
    (EXACT, CLASSICAL),
    {
        "the sigma of the library's function comes first, then the older formula's": (
            CLASSICAL,
            EXACT,
        )
    },
)
numbers(
    "mechanisms-2",
    (0.25, GAP),
    {
        "epsilon is the sensitivity over the scale": (4.0, ANY),
        "another mechanism with this epsilon has this advantage, but Laplace noise stays below it": (
            ANY,
            np.tanh(1 / 8),
        ),
    },
)
numbers(
    "mechanisms-3",
    (-1 / (2 * np.log(0.95)),),
    {"for a small epsilon, the advantage is only about half of epsilon": (20.0,)},
)


@exercise("mechanisms-6")
def private_mean(function: Function) -> None:
    """``private_mean(values, low, high, epsilon, noise)``: clipped mean plus scaled
    Laplace noise.
    """
    values = np.array([1.0, 2.0, 3.0, 6.0])
    expect_close(
        function(values, 0.0, 10.0, 1.0, 0.0),
        3.0,
        "without noise, values within the bounds are averaged",
    )
    expect_close(
        function(values, 2.0, 4.0, 1.0, 0.0),
        2.75,
        "values beyond the public bounds are moved to them",
    )
    # what one unit of noise adds
    scale = function(values, 0.0, 10.0, 1.0, 1.0) - function(
        values, 0.0, 10.0, 1.0, 0.0
    )
    # larger values, the same public bounds
    wide = function(10 * values, 0.0, 10.0, 1.0, 1.0) - function(
        10 * values, 0.0, 10.0, 1.0, 0.0
    )
    expect_close(
        scale,
        wide,
        "the size of the noise must depend only on public facts, not on the values",
    )
    expect(scale > 0, "the result must contain the noise, with a positive factor")
    expect_unlike(
        scale,
        10.0,
        "one record moves the mean only by a part of the range",
    )
    expect_close(
        scale,
        2.5,
        "the sensitivity of the mean is the width of the bounds divided by the number"
        " of records",
    )
    # bounds that do not begin at 0, and another epsilon
    shifted = function(values, -5.0, 10.0, 0.5, 1.0) - function(
        values, -5.0, 10.0, 0.5, 0.0
    )
    expect_close(
        shifted,
        7.5,
        "the scale of the noise is sensitivity / epsilon; compute the sensitivity with"
        " the width of the bounds",
    )


# composition

numbers(
    "composition-2", (28,), {"that many answers exceed the budget: round down": (29,)}
)
numbers(
    "composition-3",
    (np.log1p((np.e - 1) / 10), 1e-6),
    {
        "a tenth of epsilon is only an approximation for a small epsilon": (0.1, ANY),
        "sampling reduces delta as well": (ANY, 1e-5),
    },
)
ORDERS = np.array([1.5, 2.0, 5.4318496, 40.0])


@exercise("composition-4")
def to_epsilon(function: Function) -> None:
    """``to_epsilon(orders, divergences, delta)``: the best of several orders."""
    # the divergence of Gaussian noise with sigma = 1 at each order
    found = function(ORDERS, ORDERS / 2, 1e-5)
    expect(np.ndim(found) == 0, "the result is one number, for the best order")
    expect_unlike(
        found,
        5.313695,
        "this is the older conversion; the equation of the chapter has two more"
        " logarithms",
    )
    expect_close(
        found,
        4.728387,
        "each order bounds epsilon: the smallest of the bounds counts",
    )
    expect_close(
        function(ORDERS, 2 * ORDERS, 1e-3),
        9.521461,
        "the result must depend on the arguments divergences and delta",
    )
    expect(function(ORDERS, ORDERS / 1e6, 0.5) == 0, "an epsilon is not negative")


@exercise("composition-5")
def composed_delta(function: Function) -> None:
    """``composed_delta(p, q, times, epsilon)``: the hockey-stick divergence of a
    product.
    """
    p = np.array([0.75, 0.25])
    q = np.array([0.25, 0.75])
    expect_close(
        function(p, q, 1, np.log(2)),
        0.25,
        "for one release, sum the positive part of p - e^epsilon q",
    )
    expect_unlike(
        function(p, q, 2, 0.0),
        1.0,
        "the delta of several releases need not be the sum of their deltas: compose the"
        " distributions instead",
    )
    expect_close(
        function(p, q, 2, 0.0),
        0.5,
        "for independent releases, multiply the probabilities of their outputs",
    )
    expect_close(
        function(p, q, 3, np.log(3)),
        0.375,
        "epsilon is for all releases together, not for each",
    )
    # the second output is impossible under q, which a ratio would divide by
    sure = np.array([0.9, 0.1]), np.array([1.0, 0.0])
    with np.errstate(divide="ignore", invalid="ignore"):
        found = function(*sure, 2, 1.0)
    expect_close(
        found,
        0.19,
        "an output that is impossible under q counts with its whole probability",
    )


# dp sgd


def _expect_last(
    found: int, budget: float, what: str, profile: Function, **settings: float
) -> None:
    """Expect the largest number of steps, or answers, whose epsilon is within the
    budget at delta 1e-5.
    """

    def spent(n: int) -> float:
        return float(profile(**{what: max(1, n)}, **settings).epsilon(1e-5))

    within = spent(found)
    beyond = spent(found + 1)
    expect(
        within <= budget,
        f"{found} {what} spend an epsilon of {within:.3g}, which is more than"
        f" {budget:g}",
    )
    expect(
        beyond > budget,
        f"{found + 1} {what} spend an epsilon of {beyond:.3g}, which is still within"
        f" {budget:g}",
    )


def _expect_least(found: float, right: float) -> None:
    """Expect the smallest sufficient noise, up to one percent."""
    expect(found > 0.9999 * right, f"{found:.4g} is not enough noise")
    expect(
        found < 1.01 * right,
        f"less noise than {found:.4g} is enough; noise up to 1 % above the least would"
        " pass",
    )


@exercise("dp-sgd-2")
def most_steps(function: Function) -> None:
    """``most_steps(epsilon, noise_multiplier)``: at sample rate 0.1 and delta 1e-5."""
    # two budgets, so that no number of steps answers both
    for budget, sigma in ((3.0, 1.5), (1.0, 4.0)):
        run = {"noise_multiplier": sigma, "sample_rate": 0.1}
        _expect_last(
            int(function(budget, sigma)), budget, "steps", accounting.dp_sgd, **run
        )


@exercise("dp-sgd-3")
def least_noise(function: Function) -> None:
    """``least_noise(epsilon, sample_rate, steps)``: at delta 1e-5."""
    for epsilon, rate, steps in ((1.0, 0.01, 1000), (3.0, 0.1, 100)):
        right = accounting.dp_sgd_noise_multiplier(
            epsilon, 1e-5, sample_rate=rate, steps=steps
        )
        _expect_least(function(epsilon, rate, steps), float(right))


@exercise("dp-sgd-4")
def worst_pair(function: Function) -> None:
    """``worst_pair(m, clipping_norm)``: gradients of m records and one more, whose
    clipped means are 2 C apart.
    """
    # from one record to many, at two norms
    for m, clipping_norm in ((1, 1.0), (50, 2.0)):
        many, last = map(np.asarray, function(m, clipping_norm))
        expect(
            many.shape == (m, last.size),
            "return m gradients, of shape [m, weights], and one more gradient, of shape"
            " [weights]",
        )
        # clipped *after* the mean is taken, which is the mistake that the exercise is
        # about
        means = np.stack([many.mean(axis=0), np.vstack([many, last]).mean(axis=0)])
        norms = np.linalg.norm(means, axis=1, keepdims=True)
        apart = np.linalg.norm(
            np.diff(
                means * np.minimum(1, clipping_norm / np.maximum(norms, 1e-300)), axis=0
            )
        )
        expect(
            apart > 1.999 * clipping_norm,
            f"at C = {clipping_norm:g} the clipped means are {apart:.3g} apart,"
            " not 2 C",
        )


@exercise("dp-sgd-6")
def clip_and_add(function: Function) -> None:
    """``clip_and_add(gradients, clipping_norm, noise)``: the noisy sum of clipped
    gradients.
    """
    nothing = np.zeros(2)
    # norms below 1, and above
    small = np.array([[0.3, 0.4], [0.0, -0.1]])
    large = np.array([[30.0, 40.0], [0.0, 0.1]])
    expect(
        np.shape(function(large, 1.0, nothing)) == (2,),
        "the result has one number for each weight",
    )
    expect_close(
        function(small, 1.0, nothing),
        [0.3, 0.3],
        "gradients within the clipping norm are added unchanged: a sum, not a mean",
    )
    expect_close(
        function(large, 1.0, nothing),
        [0.6, 0.9],
        "each record's gradient is clipped separately, to at most the clipping norm,"
        " and its direction does not change",
    )
    expect_close(
        function(large, 5.0, nothing),
        [3.0, 4.1],
        "the clipping norm is an argument: use its value",
    )
    expect_close(
        function(np.zeros((0, 2)), 1.0, np.array([0.5, 0.2])),
        [0.5, 0.2],
        "with an empty batch the step consists only of noise",
    )
    expect_close(
        function(np.zeros((1, 2)), 4.0, np.array([0.5, 0.2])),
        [0.5, 0.2],
        "a gradient of norm 0 stays 0, and the noise is added once, unchanged",
    )


# votes


@exercise("votes-2")
def most_answers(function: Function) -> None:
    """``most_answers(beta, epsilon)``: of the Laplace vote at delta 1e-5."""
    # many answers of much noise, few of little
    for beta, budget in ((0.05, 1.0), (0.2, 3.0)):
        _expect_last(
            int(function(beta, budget)),
            budget,
            "answers",
            accounting.noisy_vote,
            inverse_scale=beta,
        )


@exercise("votes-3")
def vote_sigma(function: Function) -> None:
    """``vote_sigma(epsilon, answers)``: of the Gaussian vote at delta 1e-5."""
    # a single answer must not need the noise of many
    for epsilon, answers in ((1.0, 100), (3.0, 1)):
        right = accounting.gaussian_sigma(
            epsilon, 1e-5, sensitivity=np.sqrt(2 * answers)
        )
        found = function(epsilon, answers)
        expect_unlike(
            found,
            right / np.sqrt(2),
            "when one vote moves, two counts change",
        )
        _expect_least(found, float(right))


@exercise("votes-7")
def largest_advantage(function: Function) -> None:
    """``largest_advantage(beta, answers)``: bound on TPR minus FPR for the Laplace
    vote.
    """
    # one answer, and so many that a sum of bounds passes 1
    for beta, answers in ((0.2, 1), (0.2, 100)):
        found = function(beta, answers)
        right = accounting.noisy_vote(inverse_scale=beta, answers=answers).advantage
        expect(
            found > 0.999 * right,
            f"an attacker may gain more at beta = {beta:g}, answers = {answers}",
        )
        expect(
            found < 1.01 * right,
            "there is a smaller bound, which is at most 1: compose the answers first",
        )


@exercise("votes-6")
def exponential_mechanism(function: Function) -> None:
    """``exponential_mechanism(scores, epsilon, sensitivity)``: probability of each
    answer.
    """
    scores = np.array([3.0, 1.0, 1.0])
    # one best score, and two equal ones
    some = np.asarray(function(scores, 1.0, 1.0))
    expect(np.shape(some) == (3,), "the result has one probability for each score")
    expect_close(np.sum(some), 1, "probabilities add up to 1")
    expect(
        some[0] > some[1] and np.isclose(some[1], some[2]),
        "answers with larger scores are likelier, and answers with equal scores are"
        " equally likely",
    )
    expect_unlike(
        some[0] / some[1],
        np.exp(2),
        "a record changes more than the answer's own weight: the sum of the weights"
        " changes, too",
    )
    expect_close(
        some[0] / some[1],
        np.e,
        "odds grow exponentially in epsilon times the difference of the scores",
    )
    # a sensitivity of 2 halves the exponent
    half = np.asarray(function(scores, 1.0, 2.0))
    expect_close(
        half[0] / half[1],
        np.exp(0.5),
        "scores that change more need a flatter distribution",
    )
    # exp(5000) is no double
    large = np.asarray(function(scores + 10_000, 1.0, 1.0))
    expect_close(
        large,
        some,
        "the same number added to all scores changes no probability, even if it is"
        " large",
    )


# attacks


def _perfect(m: int, delta: float) -> float:
    return accounting.audit_epsilon(
        true_positives=m, positives=m, false_positives=0, negatives=m, delta=delta
    )


@exercise("attacks-2")
def perfect(function: Function) -> None:
    """``perfect(m, delta)``: lower bound of epsilon by an attack that is right in
    all runs.
    """
    # with and without delta
    for m, delta in ((1000, 1e-5), (30, 0.0)):
        hint = (
            "no false positives in m runs: the upper limit of their rate is not 0; it"
            " may be too low in 2.5 % of cases"
        )
        expect_close(function(m, delta), _perfect(m, delta), hint, rtol=1e-3)


@exercise("attacks-3")
def runs_needed(function: Function) -> None:
    """``runs_needed(epsilon)``: of a perfect attack, of each kind, at delta 0."""
    # the number of runs grows as e^epsilon
    for epsilon in (1.0, 4.0):
        found = int(function(epsilon))
        expect(
            _perfect(found, 0.0) >= epsilon,
            f"{found} runs do not prove an epsilon of {epsilon:g}",
        )
        expect(
            _perfect(found - 1, 0.0) < epsilon,
            f"{found - 1} runs are enough to prove an epsilon of {epsilon:g}",
        )


@exercise("attacks-9")
def fewest_right(function: Function) -> None:
    """``fewest_right(m, epsilon)``: right guesses of m that refute (epsilon, 0) at
    95 % confidence.
    """
    # at epsilon = 0 a fair coin, at 2 a biased one
    for m, epsilon in ((100, 0.0), (114, 2.0)):
        found = int(function(m, epsilon))
        p = 1 / (1 + np.exp(-epsilon))
        expect(
            stats.binom.sf(found - 1, m, p) < 0.05,
            f"{found} right guesses of {m} are not rare enough at epsilon ="
            f" {epsilon:g}",
        )
        expect(
            stats.binom.sf(found - 2, m, p) >= 0.05,
            f"already {found - 1} right guesses of {m} refute epsilon = {epsilon:g}",
        )


@exercise("attacks-6")
def clopper_pearson(function: Function) -> None:
    """``clopper_pearson(successes, trials, confidence)``: exact limits of a
    probability.
    """
    low, high = function(3, 50, 0.95)
    expect(
        low < 3 / 50 < high,
        "return the lower limit first; the two limits enclose the observed fraction",
    )
    # the upper limit of Wald's interval for 3 of 50
    normal = 0.06 + stats.norm.ppf(0.975) * np.sqrt(0.06 * 0.94 / 50)
    hint = (
        "this is the normal approximation, which is wrong for few successes: use the"
        " binomial distribution"
    )
    expect(low >= 0 and not np.isclose(high, normal), hint)
    # what the interval's limits leave to either side
    tails = stats.binom.sf(2, 50, low), stats.binom.cdf(3, 50, high)
    expect_unlike(
        max(tails),
        0.05,
        "the interval may miss on either side: at 95 % confidence, 2.5 % on each side",
    )
    expect(
        abs(tails[1] - 0.025) < 1e-6,
        "at 95 % confidence, the upper limit gives 3 or fewer successes in 50 trials"
        " probability 2.5 %",
    )
    expect(
        abs(tails[0] - 0.025) < 1e-6,
        "at 95 % confidence, the lower limit gives 3 or more successes in 50 trials"
        " probability 2.5 %",
    )
    low, high = function(0, 50, 0.95)
    expect(low == 0.0, "without any success the lower limit is 0")
    expect(
        abs((1 - high) ** 50 - 0.025) < 1e-6,
        "without any success the upper limit is not 0",
    )
    low, high = function(50, 50, 0.95)
    expect(high == 1.0, "without any failure the upper limit is 1")
    expect(
        abs(function(3, 50, 0.5)[1] - stats.beta.ppf(0.75, 4, 47)) < 1e-6,
        "the confidence is an argument: use its value",
    )
