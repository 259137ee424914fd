"""Private votes of teachers or of models on disjoint shards: soft votes, and votes
with Laplace or Gaussian noise.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from dpnotes import _validation as check
from dpnotes._validation import Floats, floats
from dpnotes.accounting._kinds import (
    BoundedRangeRelease,
    ConvertedRelease,
    GaussianRelease,
    LeastRelease,
    LevelsRelease,
    Release,
    RenyiRelease,
    together,
)
from dpnotes.accounting._profile import PrivacyProfile, describe
from dpnotes.accounting._renyi import Line, Tabulated, Total, best_order, conversion
from dpnotes.accounting.papers import MOMENTS, personalised_answers

Counts = ArrayLike  # votes, [queries, n_classes]; no option of the command line

ANALYSES = ("tight", "published")
SHARDS = (
    "no record decides the shard of another one, as if a public hash had chosen them"
)
SECRET = (
    "the votes are as given: the bound holds for the release on this data set against a"
    " neighbour's, in both directions, for questions chosen before the answers; it is"
    " itself a function of the private votes, and must be sanitised (smooth"
    " sensitivity) before it is published"
)
PATH = (
    "other outcomes of the comparisons would lead to other answered queries, and their"
    " cost is not counted"
)
FILTER = "Smith and Thakurta (2022) and Koskela, Tobaben and Honkela (2023)"


def soft_vote(
    *,
    beta: float,
    answers: int = 1,
    adjacency: str = "add-remove",
    analysis: str = "tight",
) -> PrivacyProfile:
    """Guarantee of the soft vote: class c, with n_c votes, has probability proportional
    to ``exp(beta n_c)``.

    Models are trained on disjoint shards. One record changes one model, which can move
    its vote: one count falls and another rises, under any adjacency. The log-ratios of
    the answer's probabilities therefore lie in an interval of length 2 beta. The
    guarantee is valid for any number of models and classes and for adaptively chosen
    queries. For one answer it is exact in the limit of many models. For several answers
    delta may be up to three times too large.

    Parameters
    ----------
    beta : float, > 0
        Inverse temperature, per vote.
    answers : int, >= 1
        Total number of queries that are answered.
    adjacency : {"add-remove", "zero-out", "replace-one"}
        The guarantee is the same under all three, because one record changes one vote.
    analysis : {"tight", "published"}
        ``"published"``: the statement of Theorems 7 and 8 of the paper, which does not
        hold.

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
    van der Maaten and Hannun (2020), Theorems 7 and 8, corrected: bounded range 2 beta
    (Durfee and Rogers 2019), hence beta^2 / 2 zCDP (Cesar and Rogers 2021); Canonne,
    Kamath and Steinke (2020) for the conversion.

    Examples
    --------
    >>> profile = soft_vote(beta=0.02, answers=100)
    >>> round(profile.epsilon(1e-5), 6), round(profile.epsilon(0.0), 6)
    (0.794315, 4.0)
    """
    beta = check.positive("beta", beta)
    answers = check.at_least_one("answers", answers)
    analysis = check.one_of("analysis", analysis, ANALYSES)
    about = describe(
        "soft_vote", adjacency, beta=beta, answers=answers, analysis=analysis
    ) | {"assumption": SHARDS}
    if analysis == "published":
        return PrivacyProfile(
            ConvertedRelease(answers * beta**2 / 2, pure=answers * beta),
            **about,
            status="refuted",
            source="van der Maaten and Hannun (2020), Theorems 7 and 8",
            remark=(
                "wrong: an answer is 2 beta-DP, not beta-DP, as the proof drops the"
                " normaliser; only the branch beta'' of Theorem 8 is valid, by two"
                " errors that cancel"
            ),
        )
    source = (
        "van der Maaten and Hannun (2020), Theorem 8, by bounded range (Cesar and"
        " Rogers 2021)"
    )
    return PrivacyProfile(bounded_range(2 * beta, answers), **about, source=source)


def soft_vote_beta(
    epsilon: float, delta: float, *, answers: int, analysis: str = "tight"
) -> float:
    """Inverse temperature at which all answers of the soft majority vote together are
    (epsilon, delta)-DP.

    The result is the larger of two valid choices: ``epsilon / (2 answers)``, and the
    largest beta for which ``(answers * beta^2 / 2)``-zCDP implies (epsilon, delta)-DP.
    It errs on the private side: ``soft_vote(beta=beta, answers=answers).delta(epsilon)
    <= delta``.

    Parameters
    ----------
    epsilon : float, > 0
    delta : float, in [0, 1)
    answers : int, >= 1
        Total number of queries that are answered; they may be chosen adaptively.
    analysis : {"tight", "published"}
        ``"published"``: Theorem 7 for delta = 0 and Theorem 8 otherwise. The beta of
        Theorem 7 is too large by a factor 2. The beta of Theorem 8 is too large for few
        answers; the vote is then not (epsilon, delta)-DP.

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
    van der Maaten and Hannun (2020), Theorems 7 and 8, corrected as in
    :func:`soft_vote`.

    Examples
    --------
    >>> (
    ...     round(soft_vote_beta(1.0, 1e-5, answers=100), 10),
    ...     soft_vote_beta(1.0, 0.0, answers=100),
    ... )
    (0.0247210822, 0.005)
    """
    epsilon = check.positive("epsilon", epsilon)
    delta = check.real("delta", delta, high=1.0, below="every beta meets delta = 1")
    answers = check.at_least_one("answers", answers)
    analysis = check.one_of("analysis", analysis, ANALYSES)
    if analysis == "published":
        basic = epsilon / answers
        if delta == 0.0:
            return basic
        # beta'' of Theorem 8
        log_inverse = -math.log(delta)
        # sqrt(a + epsilon) - sqrt(a), without a difference of near equals
        advanced = epsilon / (math.sqrt(log_inverse + epsilon) + math.sqrt(log_inverse))
        return max(basic, math.sqrt(2 / answers) * advanced)
    basic = epsilon / (2 * answers)
    while answers * (2 * basic) > epsilon:  # the quotient was rounded up
        basic = math.nextafter(basic, 0.0)
    if delta == 0.0:
        return basic

    def negative_rho(alpha: Floats, spent: Floats) -> Floats:
        return (conversion(alpha, math.log(delta)) - epsilon) / alpha

    # the largest rho at which rho-zCDP gives (epsilon, delta)-DP, as precise as the
    # search for the best order
    negative = best_order(Line(0.0), negative_rho, ())
    # rho = answers beta^2 / 2, by the bounded range of 2 beta
    beta = math.sqrt(2 * max(0.0, -float(negative)) / answers)
    while beta > basic and soft_vote(beta=beta, answers=answers).delta(epsilon) > delta:
        beta *= 1 - 1e-12  # rounding only: the order found is valid for the rho found
    return max(basic, beta)


def noisy_vote(
    *,
    inverse_scale: float,
    answers: int = 1,
    n_classes: int = 2,
    adjacency: str = "add-remove",
    analysis: str = "tight",
) -> PrivacyProfile:
    """Guarantee of answering with the class with most votes, after Laplace noise of
    scale 1 / lambda on each class.

    Lambda is ``inverse_scale``. With k partitions, a class with n_c votes has the count
    n_c / k. One record changes one model of each partition, so the counts fall by at
    most 1 in all and rise by at most 1 in all. An answer is (2 lambda)-DP. With two
    classes, an answer is the event that a difference of two Laplace variables exceeds a
    margin, and one record changes this margin by at most 2. The log-odds of the event
    change by at most lambda per unit of the margin, because (1 + u/2)^2 <= e^u for u >=
    0. So they change by at most 2 lambda in all. The rho of zCDP that follows from this
    bounded range is a quarter of the rho that follows from the pure guarantee. The
    guarantee is valid for adaptively chosen queries.

    Parameters
    ----------
    inverse_scale : float, > 0
        The paper's lambda, the *inverse* scale of the noise, per vote: larger means
        less noise and less privacy.
    answers : int, >= 1
        Total number of queries that are answered; it must not depend on the data.
    n_classes : int, >= 2
    adjacency : {"add-remove", "zero-out", "replace-one"}
        The guarantee is the same under all three, because one record changes one vote
        of each partition.
    analysis : {"tight", "published"}
        ``"published"``: moments 2 lambda^2 l (l + 1) at integer orders l up to 100, for
        any number of classes; valid but loose.

    Returns
    -------
    PrivacyProfile

    Raises
    ------
    ValueError
        If inverse_scale is not positive and finite, answers is below 1, n_classes below
        2, or an option is invalid.
    TypeError
        If answers or n_classes is not an integer.

    Source
    ------
    Jordon, Yoon and van der Schaar (2019), Theorems 1 and 4 with m = 1; the bounded
    range is proved in the chapter on differentially private bagging. For more than two
    classes: Kairouz, Oh and Viswanath (2015).

    Examples
    --------
    >>> round(noisy_vote(inverse_scale=0.04, answers=38).epsilon(1e-5), 6)
    0.997208
    >>> round(
    ...     noisy_vote(inverse_scale=0.04, answers=38, analysis="published").epsilon(
    ...         1e-5
    ...     ),
    ...     6,
    ... )
    2.488893
    """
    beta = check.positive("inverse_scale", inverse_scale)
    answers = check.at_least_one("answers", answers)
    n_classes = check.at_least("n_classes", n_classes, 2, why="one class needs no vote")
    analysis = check.one_of("analysis", analysis, ANALYSES)
    about = describe(
        "noisy_vote",
        adjacency,
        inverse_scale=beta,
        answers=answers,
        n_classes=n_classes,
        analysis=analysis,
    )
    about["assumption"] = (
        f"{SHARDS}, and the number of answers does not depend on the data"
    )
    if analysis == "published":
        source = "Jordon, Yoon and van der Schaar (2019), Theorem 4 with m = 1"
        remark = (
            "valid but not tight: a better conversion and, between two classes, bounded"
            " range give more"
        )
        release = ConvertedRelease(2 * answers * beta**2, moments=MOMENTS)
        return PrivacyProfile(release, **about, source=source, remark=remark)
    if n_classes == 2:
        source = (
            "Jordon, Yoon and van der Schaar (2019), Theorem 1, by bounded range (Cesar"
            " and Rogers 2021)"
        )
        return PrivacyProfile(bounded_range(2 * beta, answers), **about, source=source)
    source = (
        "Jordon, Yoon and van der Schaar (2019), Theorem 1; Kairouz, Oh and Viswanath"
        " (2015)"
    )
    remark = (
        "a range of 2 inverse_scale is proved for two classes only; Gumbel or Gaussian"
        " noise do better for more"
    )
    return PrivacyProfile(
        LevelsRelease(((2 * beta, 0.0, answers),)),
        **about,
        source=source,
        remark=remark,
    )


def noisy_vote_answers(
    epsilon: float,
    delta: float,
    *,
    inverse_scale: float,
    n_classes: int = 2,
    analysis: str = "tight",
) -> int:
    """Largest number of answers of :func:`noisy_vote` that are together (epsilon,
    delta)-DP.

    Parameters
    ----------
    epsilon : float, > 0
    delta : float, in [0, 1)
        Delta of the guarantee, which must be positive for the published analysis.
    inverse_scale : float, > 0
        The paper's lambda, the *inverse* scale of the Laplace noise on each class, per
        vote.
    n_classes : int, >= 2
    analysis : {"tight", "published"}
        ``"published"``: the count of the paper's loop, which stops *after* the answer
        that reaches epsilon. This count is one larger than the budget allows.

    Returns
    -------
    int, >= 0

    Raises
    ------
    ValueError
        If a parameter is outside its range or the analysis is unknown.

    Source
    ------
    Jordon, Yoon and van der Schaar (2019), Algorithm 1 with m = 1; the sources of
    :func:`noisy_vote`.

    Examples
    --------
    >>> [
    ...     noisy_vote_answers(1.0, 1e-5, inverse_scale=0.04, analysis=name)
    ...     for name in ("tight", "published")
    ... ]
    [38, 7]
    """
    epsilon = check.positive("epsilon", epsilon)
    beta = check.positive("inverse_scale", inverse_scale)
    n_classes = check.at_least("n_classes", n_classes, 2, why="one class needs no vote")
    analysis = check.one_of("analysis", analysis, ANALYSES)
    if analysis == "published":
        return personalised_answers(epsilon, delta, inverse_scale=beta, m=1.0)
    delta = check.real(
        "delta", delta, high=1.0, below="every number of answers meets delta = 1"
    )

    def within(answers: int) -> bool:
        vote = noisy_vote(inverse_scale=beta, answers=answers, n_classes=n_classes)
        return vote.delta(epsilon) <= delta

    # doubled until it fails, then halved between the last two
    high = 1
    while within(high):
        high *= 2
    low = high // 2
    return low + bisect_left(range(low + 1, high), True, key=lambda n: not within(n))


def gnmax(
    *,
    sigma: float,
    answers: int = 1,
    counts: Counts | None = None,
    adjacency: str = "add-remove",
    analysis: str = "tight",
) -> PrivacyProfile:
    """Guarantee of answering with the class with most votes after Gaussian noise on
    each count.

    One record changes one teacher, which can move its vote, so the counts change by
    sqrt 2 in L2 norm under any adjacency. The guarantee is exact for the release of all
    noisy counts, and valid for adaptively chosen queries. With ``counts`` the result is
    a data-dependent bound, which is far smaller where teachers agree. This bound is
    *per-instance*, holds only for queries that do not depend on the answers, and must
    not be published. It holds in both directions: for the answers of this data set
    against the answers of a neighbouring data set, and for the reverse. The bound for
    the reverse is larger, and Theorem 6 of Papernot et al. (2018) does not cover it.

    Parameters
    ----------
    sigma : float, > 0
        Standard deviation of the noise on each count, in votes.
    answers : int, >= 1
        Total number of queries that are answered; with ``counts``, the number of times
        that each query in ``counts`` is answered.
    counts : None or array_like, [queries, n_classes], >= 0
        Votes for each class, before noise.
    adjacency : {"add-remove", "zero-out", "replace-one"}
        The guarantee is the same under all three, because one record changes one vote.
    analysis : {"tight", "published"}
        ``"published"``: Renyi divergence and its classical conversion instead of the
        exact profile. This analysis does not accept ``counts``.

    Returns
    -------
    PrivacyProfile

    Raises
    ------
    ValueError
        If sigma is not positive and finite, answers is below 1, counts are negative or
        not [queries, n_classes], or an option is invalid.
    TypeError
        If answers is not an integer.

    Source
    ------
    Papernot et al. (2018), Proposition 8; Dong, Roth and Su (2022) for the exact
    composition. For given counts, Proposition 7 of Papernot et al. (2018) bounds the
    probability q of an answer other than the class with most votes. Let a test reject
    with probability p under one data set, where p <= q or p >= 1 - q. Under the other
    data set it rejects with probability at most Phi(Phi^-1(p) + sqrt 2 / sigma).

    Examples
    --------
    >>> round(gnmax(sigma=40.0, answers=100).epsilon(1e-5), 6)
    1.356467
    >>> round(
    ...     gnmax(sigma=40.0, answers=100, counts=[[240, 5, 5]]).epsilon(1e-5), 6
    ... )  # one batch, 100 times
    0.208019
    """
    sigma = check.positive("sigma", sigma)
    answers = check.at_least_one("answers", answers)
    analysis = check.one_of("analysis", analysis, ANALYSES)
    votes = None if counts is None else _votes(counts, analysis)
    given = {"sigma": sigma, "answers": answers, "analysis": analysis}
    about = describe("gnmax", adjacency, **given, **_shown(votes))
    return _aggregate(answers, 0.0, votes, sigma, analysis, about)


def confident_gnmax(
    *,
    sigma_threshold: float,
    sigma_answer: float,
    queries: int,
    answers: int,
    counts: Counts | None = None,
    adjacency: str = "add-remove",
    analysis: str = "tight",
) -> PrivacyProfile:
    """Guarantee of answering, by :func:`gnmax`, only if the largest count plus Gaussian
    noise reaches a threshold.

    One record changes the largest count by at most 1, and every query compares this
    count with the threshold. Without ``counts`` the guarantee holds in the worst case,
    if the aggregator stops for good after ``queries`` queries, or earlier, once it has
    answered ``answers`` of them. Which queries are answered, and how many, depends on
    the data and on the noise. The composition is therefore fully adaptive; it is valid
    because no run spends more than this bound.

    Parameters
    ----------
    sigma_threshold : float, > 0
        Standard deviation of the noise on the largest count, in votes.
    sigma_answer : float, > 0
        Standard deviation of the noise on each count of an answered query, in votes.
    queries : int, >= 1
        Number of queries that the aggregator receives.
    answers : int, in [0, queries]
        Largest number of queries that the aggregator answers.
    counts : None or array_like, [answers, n_classes], >= 0
        Votes on the answered queries, before noise. If they are given, the result is
        the data-dependent bound for these answers; the comparisons with the threshold
        are charged for the worst case. Another run can answer other queries; the bound
        does not count their cost, as ``assumption`` says.
    adjacency : {"add-remove", "zero-out", "replace-one"}
        The guarantee is the same under all three, because one record changes one vote.
    analysis : {"tight", "published"}
        ``"published"``: Renyi divergence and its classical conversion instead of the
        exact profile. This analysis does not accept ``counts``.

    Returns
    -------
    PrivacyProfile

    Raises
    ------
    ValueError
        If a number is outside its range, counts are negative or not [answers,
        n_classes], or an option is invalid.
    TypeError
        If queries or answers is not an integer.

    Source
    ------
    Papernot et al. (2018), Section 4; the sources of :func:`gnmax` for given counts.
    For a number of releases that depends on earlier outputs: Smith and Thakurta (2022)
    and Koskela, Tobaben and Honkela (2023) with Gaussian noise, Feldman and Zrnic
    (2021) with Renyi divergences.

    Examples
    --------
    >>> profile = confident_gnmax(
    ...     sigma_threshold=150.0, sigma_answer=40.0, queries=170, answers=170
    ... )
    >>> round(profile.epsilon(0.18), 8), round(profile.advantage, 6)
    (0.01345677, 0.185442)
    """
    sigma_threshold = check.positive("sigma_threshold", sigma_threshold)
    sigma_answer = check.positive("sigma_answer", sigma_answer)
    queries = check.at_least_one("queries", queries)
    answers = check.at_least("answers", answers, 0, most=("queries", queries))
    analysis = check.one_of("analysis", analysis, ANALYSES)
    votes = None if counts is None else _votes(counts, analysis)
    if votes is not None and len(votes) != answers:
        raise ValueError(
            f"counts must have one row for each of answers={answers}, got {len(votes)}"
            " rows"
        )
    sigmas = {"sigma_threshold": sigma_threshold, "sigma_answer": sigma_answer}
    asked = {"queries": queries, "answers": answers, "analysis": analysis}
    about = describe("confident_gnmax", adjacency, **sigmas, **asked, **_shown(votes))
    times = answers if votes is None else 1  # the votes are those of all the answers
    profile = _aggregate(
        times, queries / sigma_threshold**2, votes, sigma_answer, analysis, about
    )
    if votes is not None:
        return profile.with_(assumption=f"{profile.assumption}; {PATH}")
    theorem = "Feldman and Zrnic (2021)" if analysis == "published" else FILTER
    return profile.with_(
        source=(
            f"{profile.source}; {theorem} for a number of answers that depends on the"
            " data"
        )
    )


def chunk_filter(
    *, budget: float, sigma: float, one_hot: bool = True, adjacency: str = "add-remove"
) -> PrivacyProfile:
    """Guarantee of votes with Gaussian noise in which each teacher stops voting when
    its budget is spent.

    Teacher j votes with a vector v of length at most 1, or abstains (v = 0), by any
    rule that looks only at its own shard and at past answers. Each vote uses
    ``||v||^2`` of the teacher's budget; a teacher whose remaining budget is too small
    for a vote abstains from then on. The mechanism releases the class of the largest
    sum of votes plus noise, and never reveals who abstains. The number of queries is
    unlimited, and they may be chosen adaptively.

    Parameters
    ----------
    budget : float, > 0
        Sum of squared lengths of the votes that a teacher may cast; with one-hot votes,
        the number of votes.
    sigma : float, > 0
        Standard deviation of the noise on each class, in votes.
    one_hot : bool
        Whether each vote is for one class, with weight 1. The difference of two votes
        of one teacher then has a length of at most sqrt 2 instead of 2.
    adjacency : {"add-remove", "zero-out", "replace-one"}
        The guarantee is the same under all three, because one record changes one
        teacher.

    Returns
    -------
    PrivacyProfile

    Raises
    ------
    ValueError
        If budget or sigma is not positive and finite.

    Source
    ------
    Feldman and Zrnic (2021); Koskela, Tobaben and Honkela (2023) for Gaussian noise.

    Examples
    --------
    >>> round(chunk_filter(budget=100, sigma=40.0).epsilon(1e-5), 6)
    1.356467
    """
    budget = check.positive("budget", budget)
    sigma = check.positive("sigma", sigma)
    return PrivacyProfile(
        GaussianRelease(math.sqrt(budget * (2 if one_hot else 4)) / sigma),
        **describe(
            "chunk_filter", adjacency, budget=budget, sigma=sigma, one_hot=bool(one_hot)
        ),
        assumption=f"{SHARDS}, and each record is in one chunk",
        source="Feldman and Zrnic (2021); Koskela, Tobaben and Honkela (2023)",
        exactness="upper bound",
    )


def _aggregate(
    answers: int,
    compared: float,
    votes: Floats | None,
    sigma: float,
    analysis: str,
    about: dict[str, Any],
) -> PrivacyProfile:
    """Profile of answers of squared mu 2 / sigma^2 each (``votes`` so often) and
    comparisons of ``compared`` in all.
    """
    # Gaussian releases compose by the sum of their squared mu
    total = answers * (1 if votes is None else len(votes)) * (2 / sigma**2) + compared
    if votes is not None:
        source = (
            "Papernot et al. (2018), Proposition 7, with the trade-off function of"
            " Gaussian noise; see gnmax"
        )
        about |= {
            "status": "per-instance",
            "assumption": f"{SHARDS}; {SECRET}",
            "source": source,
        }
        curve = Tabulated(_DataDependent(votes, sigma))
        # the comparisons are charged for the worst case, as a line of zCDP
        dependent = RenyiRelease(Total(((answers, curve), (1, Line(compared / 2)))))
        return PrivacyProfile(
            LeastRelease((dependent, GaussianRelease(math.sqrt(total)))), **about
        )
    about["assumption"] = SHARDS
    if analysis == "published":
        source = (
            "Papernot et al. (2018), Proposition 8, and Mironov (2017), Proposition 3"
        )
        remark = (
            "valid but not tight: the composition of Gaussian noise is known exactly"
        )
        return PrivacyProfile(
            ConvertedRelease(total / 2), **about, source=source, remark=remark
        )
    source = (
        "Papernot et al. (2018), Proposition 8, composed exactly (Dong, Roth and Su"
        " 2022)"
    )
    return PrivacyProfile(
        GaussianRelease(math.sqrt(total)),
        **about,
        source=source,
        exactness="upper bound",
    )


def _votes(counts: ArrayLike, analysis: str) -> Floats:
    votes = check.array("counts", counts, finite=True, private=True)
    if votes.ndim != 2 or votes.shape[0] < 1 or votes.shape[1] < 2:
        raise ValueError(
            "counts must be [queries, n_classes] with n_classes >= 2, got shape"
            f" {votes.shape}"
        )
    if analysis == "published":
        raise ValueError(
            "analysis must be 'tight' if counts are given, got analysis='published'"
        )
    return votes


def _shown(votes: Floats | None) -> dict[str, Any]:
    """The votes as a parameter: their shape alone, as they are private."""
    return {} if votes is None else {"counts": list(votes.shape)}


class _DataDependent:
    """Renyi divergence of the answers to queries with the given votes, both directions,
    summed over the queries.

    A test that rejects on the outcomes S has P(S) <= q or P(S) >= 1 - q, as S leaves
    out the likely answer or holds it, and Q(S) <= Phi(Phi^-1(P(S)) + mu), mu = sqrt 2 /
    sigma, as the noise is Gaussian. The pair N(0, 1), N(mu, 1) with the losses between
    the quantiles q and 1 - q merged into one attains all of these, so that it dominates
    (P, Q), and hence (Q, P): the divergence is at most its divergence, in the direction
    in which it is larger.
    """

    def __init__(self, votes: Floats, sigma: float) -> None:
        # Proposition 7: the sum over the other classes of the chance to overtake the
        # winner
        leads = votes.max(-1, keepdims=True) - votes
        others = np.sort(leads, axis=-1)[:, 1:]  # all but one class of most votes
        exponents = special.log_ndtr(-others / (math.sqrt(2) * sigma))
        # the winner is the likeliest answer, so has at least its equal share
        most = math.log1p(-1 / votes.shape[1])
        capped = np.minimum(special.logsumexp(exponents, axis=-1), most)
        # chance of another answer, at most
        self._log_q, self._repeats = np.unique(capped, return_counts=True)
        self._sigma = sigma

    def __call__(self, alpha: Floats) -> Floats:
        mu = math.sqrt(2) / self._sigma
        # [..., queries]: each query has its own q
        order = floats(alpha)[..., None]  # [..., queries]
        quantile = np.maximum(-special.ndtri_exp(self._log_q), 0.0)
        # where nothing is merged, or the doubles end, the bound is not used
        with np.errstate(all="ignore"):
            log_p = np.log1p(-2 * special.ndtr(-quantile))  # of the merged losses
            above = special.log_ndtr(quantile - mu)
            log_q = above + np.log(-np.expm1(special.log_ndtr(-quantile - mu) - above))
            scale = order * (order - 1) * mu**2 / 2
            excess = np.zeros(order.shape[:-1] + quantile.shape)
            # of the neighbour's probability
            for power in (order, 1 - order):
                tails = np.logaddexp(
                    special.log_ndtr(power * mu - quantile),
                    special.log_ndtr(-power * mu - quantile),
                )
                # both distributions have one mass at the merged losses
                merged = power * log_q + (1 - power) * log_p
                excess = np.maximum(excess, np.logaddexp(scale + tails, merged))
            bound = excess / (order - 1)
        general = order / self._sigma**2
        # above 1/2 the quantiles cross, and the general bound of Gaussian noise holds
        # alone
        usable = (self._log_q < -math.log(2)) & ~np.isnan(bound)
        best = np.where(usable, np.fmin(bound, general), general)
        return np.asarray((best * self._repeats).sum(-1))


def bounded_range(width: float, answers: int) -> Release:
    """Release of ``answers`` answers, each with log-likelihood ratios in an interval
    of length ``width``.
    """
    one = BoundedRangeRelease(width)
    return one if answers == 1 else together([(one, answers)])
