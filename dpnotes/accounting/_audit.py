"""Lower confidence bounds on epsilon, mu and delta, from the error counts of an
attack.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
import scipy
from scipy import special

from dpnotes import _validation as check
from dpnotes.accounting._curves import LARGEST_EXPONENT

BISECTIONS = 100


class Interval(NamedTuple):
    """A confidence interval [low, high]."""

    low: float
    high: float


def clopper_pearson(
    successes: int, trials: int, *, confidence: float = 0.95
) -> Interval:
    """Two-sided confidence interval of a probability, from independent trials.

    The interval covers the true probability at least as often as stated, for any number
    of trials.

    Parameters
    ----------
    successes : int, >= 0
    trials : int, >= 1
    confidence : float, in (0, 1)
        Least coverage of the interval. The interval lies above the true probability
        with probability at most ``(1 - confidence) / 2``, and below it with probability
        at most ``(1 - confidence) / 2``.

    Returns
    -------
    Interval
        ``(low, high)``, both in [0, 1].

    Raises
    ------
    ValueError
        If there are more successes than trials, or a parameter is outside its range.

    Source
    ------
    Clopper and Pearson (1934).

    Examples
    --------
    >>> low, high = clopper_pearson(0, 1000)
    >>> low, round(high, 6)
    (0.0, 0.003682)
    """
    trials = check.at_least_one("trials", trials)
    successes = check.at_least("successes", successes, 0, most=("trials", trials))
    tail = (1 - check.level("confidence", confidence)) / 2
    # the limits are quantiles of beta distributions; beyond no success, or no failure,
    # there is nothing to cover
    failures = trials - successes
    low = 0.0
    high = 1.0
    if successes > 0:
        low = float(special.betaincinv(successes, failures + 1, tail))
    if failures > 0:
        high = float(special.betainccinv(successes + 1, failures, tail))
    return Interval(low, high)


def audit_epsilon(
    *,
    true_positives: int,
    positives: int,
    false_positives: int,
    negatives: int,
    delta: float,
    confidence: float = 0.95,
) -> float:
    """Lower confidence bound on epsilon from a membership test run on independent
    releases.

    With the stated confidence, the mechanism that made the releases is not (epsilon,
    ``delta``)-DP for any epsilon below the bound. The bound is valid for any mechanism.
    The rule that decides "member" must be fixed before you look at these runs.

    Parameters
    ----------
    true_positives : int, >= 0
        Number of runs with the record that the test called "member".
    positives : int, >= 1
        Number of runs with the record.
    false_positives : int, >= 0
        Number of runs without the record that the test called "member".
    negatives : int, >= 1
        Number of runs without the record.
    delta : float, in [0, 1]
    confidence : float, in (0, 1)
        Joint confidence for both rates.

    Returns
    -------
    float, >= 0
        The larger of ``log((TPR - delta) / FPR)`` and ``log((TNR - delta) / FNR)``,
        where TPR is at its lower and FPR at its upper confidence limit; 0 if neither is
        positive.

    Raises
    ------
    ValueError
        If a count is larger than its total, or a parameter is outside its range.

    Source
    ------
    Kairouz, Oh and Viswanath (2015) for the region of error rates; Clopper and Pearson
    (1934) for the limits.

    Examples
    --------
    >>> counts = dict(
    ...     true_positives=950, positives=1000, false_positives=0, negatives=1000
    ... )
    >>> round(audit_epsilon(**counts, delta=1e-5), 6)
    5.536639
    """
    least, most = _rates(
        true_positives, positives, false_positives, negatives, confidence
    )
    delta = check.real("delta", delta, high=1.0)
    return float(
        np.log(max(1.0, (least - delta) / most, (1 - most - delta) / (1 - least)))
    )


def audit_mu(
    *,
    true_positives: int,
    positives: int,
    false_positives: int,
    negatives: int,
    confidence: float = 0.95,
) -> float:
    """Lower confidence bound on the mu of a mechanism whose guarantee has Gaussian
    form.

    Parameters
    ----------
    true_positives, positives, false_positives, negatives : int
        The counts that :func:`audit_epsilon` takes.
    confidence : float, in (0, 1)

    Returns
    -------
    float, >= 0
        ``Phi^-1(1 - FPR) - Phi^-1(FNR)`` at the upper confidence limits of both rates,
        and at least 0.

    Raises
    ------
    ValueError
        If a count is larger than its total, or a parameter is outside its range.

    Source
    ------
    Nasr et al. (2023).

    Examples
    --------
    >>> counts = dict(
    ...     true_positives=950, positives=1000, false_positives=0, negatives=1000
    ... )
    >>> round(audit_mu(**counts), 6)
    4.190941
    """
    least, most = _rates(
        true_positives, positives, false_positives, negatives, confidence
    )
    # the trade-off function of Gaussian noise, solved for mu
    return max(0.0, float(special.ndtri(least) - special.ndtri(most)))


def audit_delta(
    *,
    true_positives: int,
    positives: int,
    false_positives: int,
    negatives: int,
    epsilon: float,
    confidence: float = 0.95,
) -> float:
    """Lower confidence bound on delta(epsilon) at a fixed epsilon.

    Use this audit for mechanisms that reveal a record outright with some probability,
    as bagging does. For such a mechanism, :func:`audit_epsilon` shows only that the
    assumed delta is too small: the bound of :func:`audit_epsilon` then grows without
    limit as the number of trials grows.

    Parameters
    ----------
    true_positives, positives, false_positives, negatives : int
        The counts that :func:`audit_epsilon` takes.
    epsilon : float, >= 0
        The epsilon at which to bound delta. Bounds at several epsilons hold jointly.
    confidence : float, in (0, 1)

    Returns
    -------
    float, in [0, 1]
        The larger of ``TPR - e^epsilon FPR`` and ``TNR - e^epsilon FNR``, where TPR is
        at its lower and FPR at its upper confidence limit; 0 if both are negative.

    Raises
    ------
    ValueError
        If a count is larger than its total, or a parameter is outside its range.

    Source
    ------
    The definition of (epsilon, delta)-DP; Clopper and Pearson (1934) for the limits.

    Examples
    --------
    >>> counts = dict(
    ...     true_positives=180, positives=1000, false_positives=0, negatives=1000
    ... )
    >>> round(audit_delta(**counts, epsilon=1.0), 4)
    0.1466
    """
    least, most = _rates(
        true_positives, positives, false_positives, negatives, confidence
    )
    # e^epsilon as a double: beyond the cap both bounds are negative all the same
    factor = float(np.exp(min(check.real("epsilon", epsilon), LARGEST_EXPONENT)))
    return max(0.0, least - factor * most, 1 - most - factor * (1 - least))


def one_run_p_value(
    *, examples: int, guesses: int, correct: int, epsilon: float, delta: float
) -> float:
    """Bound the probability that at least ``correct`` guesses of membership are right
    in one (epsilon, delta)-DP run.

    Parameters
    ----------
    examples : int, >= 1
        Number of records, each of which was included independently with probability
        1/2.
    guesses : int, >= 1
        Number of these records about which the attack made a guess. The number is fixed
        in advance.
    correct : int, >= 0
        Number of guesses that were correct.
    epsilon : float, >= 0
    delta : float, in [0, 1]

    Returns
    -------
    float, in [0, 1]
        Upper bound on the p-value of the hypothesis that the mechanism is (epsilon,
        delta)-DP.

    Raises
    ------
    ValueError
        If ``correct`` is larger than ``guesses``, ``guesses`` is larger than
        ``examples``, or a parameter is out of range.

    Source
    ------
    Steinke, Nasr and Jagielski (2023), Corollary 5.4.

    Examples
    --------
    >>> round(
    ...     one_run_p_value(
    ...         examples=1000, guesses=100, correct=95, epsilon=2.0, delta=1e-5
    ...     ),
    ...     6,
    ... )
    0.017825
    """
    examples = check.at_least_one("examples", examples)
    guesses = check.at_least("guesses", guesses, 1, most=("examples", examples))
    correct = check.at_least("correct", correct, 0, most=("guesses", guesses))
    # a guess about a record of an epsilon-DP run is right at most this often
    q = special.expit(check.real("epsilon", epsilon))
    delta = check.real("delta", delta, high=1.0)
    at_least = float(scipy.stats.binom.sf(correct - 1, guesses, q))
    # the rest is what delta adds
    if correct == 0 or delta == 0:
        return min(1.0, at_least)
    slack = _largest_mean_below(correct, guesses, float(q))
    return min(1.0, at_least + 2 * examples * delta * slack)


def _largest_mean_below(correct: int, guesses: int, q: float) -> float:
    """Largest mean, over m, of the m binomial probabilities just below ``correct``.

    They rise to the mode and fall: below a probability that is less than the mean so
    far all means are less.
    """
    size = 256 + max(0, correct - int(guesses * q))  # beyond the mode
    while True:
        size = min(2 * size, correct)
        below = scipy.stats.binom.pmf(
            np.arange(correct - 1, correct - 1 - size, -1), guesses, q
        )
        means = np.cumsum(below) / np.arange(1, size + 1)
        if size == correct or below[-1] < means[-1]:
            return float(np.max(means))


def one_run_audit(
    *, examples: int, guesses: int, correct: int, delta: float, confidence: float = 0.95
) -> float:
    """Lower confidence bound on epsilon from a single run with many inserted records.

    The bound loses its power if delta is of the order of ``1 / examples``, because a
    term of the p-value grows with ``2 * examples * delta``.

    Parameters
    ----------
    examples, guesses, correct : int
        The numbers that :func:`one_run_p_value` takes.
    delta : float, in [0, 1]
    confidence : float, in (0, 1)

    Returns
    -------
    float, >= 0
        Largest epsilon whose p-value is below ``1 - confidence``; 0 if there is no such
        epsilon.

    Raises
    ------
    ValueError
        If ``correct`` is larger than ``guesses``, ``guesses`` is larger than
        ``examples``, or a parameter is out of range.

    Source
    ------
    Steinke, Nasr and Jagielski (2023), Corollary 5.4.

    Examples
    --------
    >>> round(one_run_audit(examples=1000, guesses=100, correct=95, delta=1e-5), 6)
    2.165176
    """
    p_value = partial(
        one_run_p_value,
        examples=examples,
        guesses=guesses,
        correct=correct,
        delta=delta,
    )
    level = 1 - check.level("confidence", confidence)
    # the p-value rises with epsilon: nothing is proved if it is too large at once
    if p_value(epsilon=0.0) >= level:
        return 0.0
    # with delta = 0 the bound would be where P[Bin(guesses, q) >= correct] = level;
    # delta only lowers it
    truth = special.betaincinv(correct, guesses - correct + 1, level)
    low = 0.0
    high = float(special.logit(truth)) + 1e-6
    # low stays where the p-value is below the level: the bound errs downwards
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        if p_value(epsilon=middle) < level:
            low = middle
        else:
            high = middle
    return low


def _rates(
    true_positives: int,
    positives: int,
    false_positives: int,
    negatives: int,
    confidence: float,
) -> tuple[float, float]:
    """Least true-positive rate and largest false-positive rate, with joint
    confidence.
    """
    positives = check.at_least_one("positives", positives)
    negatives = check.at_least_one("negatives", negatives)
    true_positives = check.at_least(
        "true_positives", true_positives, 0, most=("positives", positives)
    )
    false_positives = check.at_least(
        "false_positives", false_positives, 0, most=("negatives", negatives)
    )
    # each interval spends half of what may fail on the side that is used: together,
    # what the caller allows
    least = clopper_pearson(true_positives, positives, confidence=confidence).low
    return (
        least,
        clopper_pearson(false_positives, negatives, confidence=confidence).high,
    )
