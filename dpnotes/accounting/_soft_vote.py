"""The soft majority vote of private prediction: its guarantee, its calibration, and what its paper states."""

from __future__ import annotations

import math
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from dpnotes import _validation as check
from dpnotes.accounting._profile import Floats, PrivacyProfile, _like_input
from dpnotes.accounting._votes import ANALYSES, SHARDS, at_least_two_classes, bounded_range, flipped_delta, largest_rho
from dpnotes.accounting.papers._converted import ConvertedRelease


def soft_vote(
    *, beta: float, answers: int = 1, adjacency: str = "add-remove", analysis: str = "tight"
) -> PrivacyProfile:
    """Guarantee of answering with class c with probability proportional to ``exp(beta n_c)``, n_c the votes for c.

    Models are trained on disjoint shards; one record changes one model, which can move its vote: one count falls and
    another rises, whichever the adjacency. The log-ratios of the answer's probabilities then lie in an interval of
    length 2 beta. Valid for any number of models and classes and for adaptively chosen questions; for one answer exact
    in the limit of many models.

    Parameters
    ----------
    beta : float, > 0
        Inverse temperature, per vote.
    answers : int, >= 1
        Questions answered in all.
    adjacency : {"add-remove", "replace-one"}
        The guarantee is the same for both.
    analysis : {"tight", "published"}
        ``"published"``: what Theorems 7 and 8 of the paper state, which does not hold.

    Returns
    -------
    PrivacyProfile

    Raises
    ------
    ValueError
        If beta is not positive and finite, answers is below 1, or an option is invalid.
    TypeError
        If answers is not an integer.

    Source
    ------
    van der Maaten and Hannun (2020), Theorems 7 and 8, corrected: bounded range 2 beta (Durfee and Rogers 2019), hence
    beta^2 / 2 zCDP (Cesar and Rogers 2021); Canonne, Kamath and Steinke (2020) for the conversion.

    Examples
    --------
    >>> profile = soft_vote(beta=0.02, answers=100)
    >>> round(profile.epsilon(1e-5), 6), round(profile.epsilon(0.0), 6)
    (0.794315, 4.0)
    """
    beta = check.positive("beta", beta)
    answers = check.at_least_one("answers", answers)
    analysis = check.one_of("analysis", analysis, ANALYSES)
    about: dict[str, Any] = {
        "mechanism": "soft_vote",
        "parameters": {"beta": beta, "answers": answers, "analysis": analysis},
        "adjacency": adjacency,
        "assumption": SHARDS,
    }
    if analysis == "published":
        return ConvertedRelease(
            beta**2 / 2,
            answers,
            moments=None,
            pure=beta,
            **about,
            status="refuted",
            source="van der Maaten and Hannun (2020), Theorems 7 and 8",
            remark="wrong: an answer is 2 beta-DP, not beta-DP, as the proof drops the normaliser; only the branch "
            "beta'' of Theorem 8 is valid, by two errors that cancel",
        )
    return bounded_range(
        2 * beta,
        answers,
        **about,
        source="van der Maaten and Hannun (2020), Theorem 8, by bounded range (Cesar and Rogers 2021)",
    )


def soft_vote_beta(epsilon: float, delta: float, *, answers: int, analysis: str = "tight") -> float:
    """Inverse temperature at which ``answers`` answers of the soft majority vote are (epsilon, delta)-DP together.

    The larger of the two valid choices: ``epsilon / (2 answers)``, and the beta of ``answers * beta^2 / 2`` zCDP. The
    result errs on the private side: ``soft_vote(beta=beta, answers=answers).delta(epsilon) <= delta``.

    Parameters
    ----------
    epsilon : float, > 0
    delta : float, in [0, 1)
    answers : int, >= 1
        Questions answered in all; they may be chosen adaptively.
    analysis : {"tight", "published"}
        ``"published"``: Theorem 7 for delta = 0 and Theorem 8 otherwise. It is too large for delta = 0 by a factor 2,
        and too large for few answers otherwise: the vote is not (epsilon, delta)-DP there.

    Returns
    -------
    float
        Inverse temperature, per vote.

    Raises
    ------
    ValueError
        If a parameter is outside its range or the analysis is unknown.

    Source
    ------
    van der Maaten and Hannun (2020), Theorems 7 and 8, corrected; see :func:`soft_vote`.

    Examples
    --------
    >>> round(soft_vote_beta(1.0, 1e-5, answers=100), 10), soft_vote_beta(1.0, 0.0, answers=100)
    (0.0247210822, 0.005)
    """
    epsilon = check.positive("epsilon", epsilon)
    delta = check.real("delta", delta, high=1.0, below="every beta is (epsilon, 1)-DP")
    answers = check.at_least_one("answers", answers)
    analysis = check.one_of("analysis", analysis, ANALYSES)
    if analysis == "published":
        basic = epsilon / answers
        if delta == 0.0:
            return basic
        log_inverse = -math.log(delta)
        # sqrt(a + epsilon) - sqrt(a), without a difference of near equals
        advanced = epsilon / (math.sqrt(log_inverse + epsilon) + math.sqrt(log_inverse))
        return max(basic, math.sqrt(2 / answers) * advanced)
    basic = epsilon / (2 * answers)
    while answers * (2 * basic) > epsilon:  # the quotient was rounded up
        basic = math.nextafter(basic, 0.0)
    if delta == 0.0:
        return basic
    beta = math.sqrt(2 * largest_rho(epsilon, delta) / answers)
    while beta > basic and soft_vote(beta=beta, answers=answers).delta(epsilon) > delta:
        beta *= 1 - 1e-12  # rounding only: the order found is valid for the rho found
    return max(basic, beta)


def soft_vote_pure_level(*, beta: float, n_models: int, n_classes: int) -> float:
    """Pure epsilon of one answer of the soft majority vote, exact for the number of models and classes.

    The worst votes are unanimous, and one model changes its mind. The level rises from beta for one model towards
    2 beta for many; that many answers to the same votes add up.

    Parameters
    ----------
    beta : float, > 0
        Inverse temperature, per vote.
    n_models : int, >= 1
    n_classes : int, >= 2

    Returns
    -------
    float, in [beta, 2 beta]

    Raises
    ------
    ValueError
        If a parameter is outside its range.

    Source
    ------
    The private prediction chapter of the book; it refutes Theorem 7 of van der Maaten and Hannun (2020).

    Examples
    --------
    >>> round(soft_vote_pure_level(beta=0.01, n_models=256, n_classes=2), 8)
    0.01855145
    """
    beta = check.positive("beta", beta)
    n_models = check.at_least_one("n_models", n_models)
    n_classes = at_least_two_classes(n_classes)
    if n_models == 1:
        return beta
    before = np.logaddexp(beta * n_models, math.log(n_classes - 1))
    after = np.logaddexp(beta * (n_models - 1), beta)
    if n_classes > 2:
        after = np.logaddexp(after, math.log(n_classes - 2))
    return beta + float(before - after)


@overload
def soft_vote_exact_delta(epsilon: float, *, beta: float, n_models: int, answers: int = 1) -> float: ...
@overload
def soft_vote_exact_delta(epsilon: ArrayLike, *, beta: float, n_models: int, answers: int = 1) -> Floats: ...
def soft_vote_exact_delta(epsilon: ArrayLike, *, beta: float, n_models: int, answers: int = 1) -> float | Floats:
    """Exact delta of ``answers`` soft majority votes between two classes, for the worst votes that stay the same.

    A lower bound of what any guarantee must state: it is attained by questions on which the models vote alike.

    Parameters
    ----------
    epsilon : float or array_like, >= 0
    beta : float, > 0
        Inverse temperature, per vote.
    n_models : int, >= 1
    answers : int, >= 1

    Returns
    -------
    float or ndarray, in [0, 1]

    Raises
    ------
    ValueError
        If a parameter is outside its range.

    Source
    ------
    The private prediction chapter of the book; it refutes Theorem 8 of van der Maaten and Hannun (2020).

    Examples
    --------
    >>> round(soft_vote_exact_delta(1.0, beta=1.0, n_models=256), 8)
    0.17597286
    """
    epsilons = check.array("epsilon", epsilon)
    beta = check.positive("beta", beta)
    n_models = check.at_least_one("n_models", n_models)
    answers = check.at_least_one("answers", answers)
    log_odds: Floats = beta * (
        2.0 * np.arange(n_models, dtype=np.float64) - n_models
    )  # of votes that can still gain one
    return _like_input(flipped_delta(epsilons, log_odds, log_odds + 2 * beta, answers))


@overload
def bounded_range_delta(epsilon: float, *, width: float, answers: int = 1) -> float: ...
@overload
def bounded_range_delta(epsilon: ArrayLike, *, width: float, answers: int = 1) -> Floats: ...
def bounded_range_delta(epsilon: ArrayLike, *, width: float, answers: int = 1) -> float | Floats:
    """Optimal delta of ``answers`` bounded-range answers to questions fixed beforehand.

    No mechanism whose log-likelihood ratios lie in an interval of length ``width`` has a larger one. Not a guarantee
    for questions chosen adaptively, where the optimum is slightly larger.

    Parameters
    ----------
    epsilon : float or array_like, >= 0
    width : float, > 0
        Length of the interval, 2 beta for the soft majority vote.
    answers : int, >= 1

    Returns
    -------
    float or ndarray, in [0, 1]

    Raises
    ------
    ValueError
        If a parameter is outside its range.

    Source
    ------
    Dong, Durfee and Rogers (2020), Theorem 3.

    Examples
    --------
    >>> round(bounded_range_delta(1.0, width=2.0), 8), round(bounded_range_delta(1.0, width=0.2, answers=10), 11)
    (0.17904989, 0.00010164282)
    """
    epsilons = check.array("epsilon", epsilon)
    width = check.positive("width", width)
    answers = check.at_least_one("answers", answers)
    fewer = np.arange(answers + 1)  # l of the theorem, and the number i of the smaller ratio
    found = [_non_adaptive(float(value), width, fewer) for value in epsilons.flat]
    return _like_input(np.asarray(found, dtype=np.float64).reshape(epsilons.shape))


def _non_adaptive(epsilon: float, width: float, fewer: Any) -> float:
    answers = len(fewer) - 1
    larger = np.clip((epsilon + (fewer + 1) * width) / (answers + 1), 0.0, width)[:, None]  # [l, 1] t of the theorem
    high = np.clip(-np.expm1(larger - width) / -np.expm1(-width), 0.0, 1.0)  # chance of the larger ratio, with record
    loss = answers * larger - fewer * width
    above = -np.expm1(np.minimum(epsilon - loss, 0.0))
    mass = stats.binom.pmf(answers - fewer, answers, high)
    return float((above * mass).sum(-1).max())
