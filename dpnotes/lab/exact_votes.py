"""What private votes really cost: no guarantee may be below these values, and a good
one is hardly above.

The votes are those of one partition. The values for so many models are attained by
questions on which the models vote alike. Nothing is checked here: the functions serve
the chapters, their claims and the tests of the accounting.
"""

from __future__ import annotations

import math

import numpy as np
import scipy
from scipy import special

from dpnotes._validation import Floats


def noisy_vote_pure_level(*, beta: float, n_models: int) -> float:
    """Pure epsilon of one answer of the noisy vote between two classes, exact for so
    many models.

    It is below 2 beta, and it is reached when all models agree and one of them changes
    its mind.

    Parameters
    ----------
    beta : float, > 0
        The paper's lambda, the inverse scale of the Laplace noise on each class, per
        vote.
    n_models : int, >= 1

    Returns
    -------
    float, in (0, 2 beta]

    Source
    ------
    The distribution of the difference of two Laplace variables, in the chapter on
    differentially private bagging.

    Examples
    --------
    >>> round(noisy_vote_pure_level(beta=0.04, n_models=50), 10)
    0.0597972927
    """
    log_odds, moved = _noisy_log_odds(beta, n_models)
    # log-ratio of the class that loses the vote
    lost = np.logaddexp(0, moved) - np.logaddexp(0, log_odds)
    gained = np.logaddexp(0, -log_odds) - np.logaddexp(0, -moved)
    return float(np.maximum(lost, gained).max())


def noisy_vote_exact_delta(
    epsilon: float, *, beta: float, n_models: int, answers: int = 1
) -> float:
    """Exact delta of ``answers`` noisy votes between two classes, for the worst margin
    that stays.

    Parameters
    ----------
    epsilon : float, >= 0
    beta : float, > 0
        The paper's lambda, the inverse scale of the Laplace noise on each class, per
        vote.
    n_models : int, >= 1
    answers : int, >= 1

    Returns
    -------
    float, in [0, 1]

    Source
    ------
    The distribution of the difference of two Laplace variables, in the chapter on
    differentially private bagging.

    Examples
    --------
    >>> round(noisy_vote_exact_delta(1.0, beta=0.04, n_models=50, answers=46), 8)
    9.08e-06
    """
    log_odds, moved = _noisy_log_odds(beta, n_models)
    return _flipped_delta(epsilon, log_odds, moved, answers)


def soft_vote_pure_level(*, beta: float, n_models: int, n_classes: int) -> float:
    """Pure epsilon of one answer of the soft majority vote, exact for the number of
    models and classes.

    The worst votes are unanimous, and one model changes its mind. The level rises from
    beta for one model towards 2 beta for many; that many answers to the same votes add
    up.

    Parameters
    ----------
    beta : float, > 0
        Inverse temperature, per vote.
    n_models : int, >= 1
    n_classes : int, >= 2

    Returns
    -------
    float, in [beta, 2 beta]

    Source
    ------
    The private prediction chapter of the book; it refutes Theorem 7 of van der Maaten
    and Hannun (2020).

    Examples
    --------
    >>> round(soft_vote_pure_level(beta=0.01, n_models=256, n_classes=2), 8)
    0.01855145
    """
    if n_models == 1:
        return beta
    before = np.logaddexp(beta * n_models, math.log(n_classes - 1))
    after = np.logaddexp(beta * (n_models - 1), beta)
    if n_classes > 2:
        after = np.logaddexp(after, math.log(n_classes - 2))
    return beta + float(before - after)


def soft_vote_exact_delta(
    epsilon: float, *, beta: float, n_models: int, answers: int = 1
) -> float:
    """Exact delta of ``answers`` soft majority votes between two classes, for the worst
    votes that stay the same.

    Parameters
    ----------
    epsilon : float, >= 0
    beta : float, > 0
        Inverse temperature, per vote.
    n_models : int, >= 1
    answers : int, >= 1

    Returns
    -------
    float, in [0, 1]

    Source
    ------
    The private prediction chapter of the book; it refutes Theorem 8 of van der Maaten
    and Hannun (2020).

    Examples
    --------
    >>> round(soft_vote_exact_delta(1.0, beta=1.0, n_models=256), 8)
    0.17597286
    """
    log_odds = beta * _margins(n_models)
    return _flipped_delta(epsilon, log_odds, log_odds + 2 * beta, answers)


def bounded_range_delta(epsilon: float, *, width: float, answers: int = 1) -> float:
    """Optimal delta of ``answers`` bounded-range answers to questions fixed beforehand.

    No mechanism whose log-likelihood ratios lie in an interval of length ``width`` has
    a larger one. Not a guarantee for questions chosen adaptively, where the optimum is
    slightly larger.

    Parameters
    ----------
    epsilon : float, >= 0
    width : float, > 0
        Length of the interval, 2 beta for the soft majority vote.
    answers : int, >= 1

    Returns
    -------
    float, in [0, 1]

    Source
    ------
    Dong, Durfee and Rogers (2020), Theorem 3.

    Examples
    --------
    >>> (
    ...     round(bounded_range_delta(1.0, width=2.0), 8),
    ...     round(bounded_range_delta(1.0, width=0.2, answers=10), 11),
    ... )
    (0.17904989, 0.00010164282)
    """
    # l of the theorem, and the number i of the smaller ratio
    fewer = np.arange(answers + 1)
    # [l, 1] t of the theorem
    larger = np.clip((epsilon + (fewer + 1) * width) / (answers + 1), 0.0, width)[
        :, None
    ]
    # chance of the larger ratio, with record
    high = np.clip(np.expm1(larger - width) / np.expm1(-width), 0.0, 1.0)
    above = -np.expm1(np.minimum(epsilon - (answers * larger - fewer * width), 0.0))
    return float(
        (above * scipy.stats.binom.pmf(answers - fewer, answers, high)).sum(-1).max()
    )


def _margins(n_models: int) -> Floats:
    """Lead of the first class, for all votes that can still gain one."""
    return 2.0 * np.arange(n_models, dtype=np.float64) - n_models


def _noisy_log_odds(beta: float, n_models: int) -> list[Floats]:
    """Log-odds that the first class wins against Laplace noise, before and after it
    gains a vote.
    """
    pairs = []
    for margin in (beta * _margins(n_models), beta * (_margins(n_models) + 2)):
        lead = np.abs(margin)
        # the difference of two Laplace variables exceeds the lead
        log_lost = np.log((2 + lead) / 4) - lead
        pairs.append(np.sign(margin) * (np.log(-np.expm1(log_lost)) - log_lost))
    return pairs


def _flipped_delta(
    epsilon: float, log_odds: Floats, moved: Floats, times: int
) -> float:
    """Largest exact delta over pairs of coins thrown ``times`` times, with given
    log-odds [pairs] of the two coins.

    The log-odds are those of the first class with the record (``moved``) and without
    it.
    """
    heads = np.arange(times + 1)
    up = special.log_expit(moved) - special.log_expit(log_odds)
    down = special.log_expit(-moved) - special.log_expit(-log_odds)
    loss = heads * up[:, None] + (times - heads) * down[:, None]  # [pairs, times + 1]
    # under the distribution with the record
    mass = scipy.stats.binom.pmf(heads, times, special.expit(moved)[:, None])
    above = -np.expm1(np.minimum(epsilon - loss, 0.0))
    return float((above * mass).sum(-1).max())
