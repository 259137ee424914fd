"""The soft majority vote of private prediction: its guarantee, its calibration, and what its paper states."""

from __future__ import annotations

import math

from dpnotes import _validation as check
from dpnotes.accounting._profile import PrivacyProfile, describe
from dpnotes.accounting._votes import ANALYSES, SHARDS, bounded_range, largest_rho
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
    adjacency : {"add-remove", "zero-out", "replace-one"}
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
    about = describe("soft_vote", adjacency, beta=beta, answers=answers, analysis=analysis) | {"assumption": SHARDS}
    if analysis == "published":
        return ConvertedRelease(
            beta**2 / 2,
            answers,
            pure=beta,
            **about,
            status="refuted",
            source="van der Maaten and Hannun (2020), Theorems 7 and 8",
            remark="wrong: an answer is 2 beta-DP, not beta-DP, as the proof drops the normaliser; only the branch "
            "beta'' of Theorem 8 is valid, by two errors that cancel",
        )
    source = "van der Maaten and Hannun (2020), Theorem 8, by bounded range (Cesar and Rogers 2021)"
    return bounded_range(2 * beta, answers, **about, source=source)


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
