"""Audits for whoever can afford a few trainings only: many canaries share a run, each in by the toss of a coin.

Of claims that one canary in many runs nearly reaches, they found 0.8 % at most (``book/results/audits_strategies.csv``,
in the same time), so that ``dpnotes.audit`` does not choose them.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import special

from dpnotes import _validation as check
from dpnotes._validation import Booleans, Floats
from dpnotes.accounting import PrivacyProfile, one_run_p_value
from dpnotes.auditing._report import AuditReport, draw_rates
from dpnotes.auditing._scores import Curve, runs_adjacency

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DELTAS = np.concatenate([[0.0], np.geomspace(1e-9, 0.5, 20)])  # whose epsilons a claim is tested at, too
FRACTIONS = (0.05, 0.2, 0.5)  # of the canaries, how many are guessed about by default
BISECTIONS = 50
LARGEST_EPSILON, LARGEST_MU = 50.0, 20.0
VARIANCES = ("per-example", "fixed")
IMPROBABLE = 1e-9  # chance of so unequal a number of canaries, by which an inclusion that was no coin is known

Least = Callable[[float], float]  # smallest probability of a wrong guess beside one of a correct guess


def tail_excluded(tail: float, least: Least, *, examples: int, guesses: int, correct: int) -> bool:
    """Whether a guarantee excludes that at least ``correct`` guesses are correct with probability ``tail``.

    ``least`` is the guarantee: an event of probability x on one data set has probability at least ``least(x)`` on its
    neighbour; it is convex, and at least 0. Let p_w be the probability that w of the guesses are correct. A canary's
    toss decides between neighbours, and turns a correct guess into a wrong one: the event "this guess is correct and w
    are" becomes "it is wrong and w - 1 are". Averaged over canaries and tosses, by Jensen's inequality, for every j::

        W_(j-1) >= least(R_j),   R_j = sum_(w >= j) w p_w / examples,   W_j = sum_(w >= j) (guesses - w) p_w / examples

    Of all p with that tail, ``R_j`` and ``sum_(w >= j) p_w`` are smallest, for every j at once, if the tail lies at
    ``correct`` and each j has as little as its inequality asks for: by induction downwards, with ``(guesses - j) R_j =
    j W_j + guesses / examples sum_(l > j) sum_(w >= l) p_w``. Where even this exceeds 1 in all, there is no such p.
    """
    right, wrong = correct * tail / examples, (guesses - correct) * tail / examples
    for w in range(correct - 1, -1, -1):
        if right + wrong > guesses / examples:
            return True
        needed = least(right)
        if needed <= wrong:
            break  # nor will any more be asked for below
        right, wrong = right + w / (guesses - w) * (needed - wrong), needed
    return right + wrong > guesses / examples


def of_curve(curve: Curve) -> Least:
    """The smallest probability that a claim's curve allows."""
    ends = (curve.intercepts[:-1] + curve.gradients[:-1] * curve.corners).tolist()
    intercepts, gradients = curve.intercepts.tolist(), curve.gradients.tolist()

    def least(x: float) -> float:
        line = bisect_left(ends, x)
        return float(max(0.0, (x - intercepts[line]) / gradients[line]))

    return least


def of_pair(epsilon: float, delta: float) -> Least:
    """The smallest probability that (epsilon, delta)-DP allows."""
    factor = math.exp(epsilon)
    return lambda x: max(0.0, (x - delta) / factor, 1 - delta - factor * (1 - x))


def of_mu(mu: float) -> Least:
    """The smallest probability that mu-GDP allows."""
    return lambda x: float(special.ndtr(special.ndtri(min(x, 1.0)) - mu))


@dataclass(frozen=True)
class Guesses:
    """Evidence of guesses about canaries; their number was fixed, or each of several numbers pays for all."""

    tried: tuple[tuple[int, int], ...]  # how many guesses, how many of them correct
    level: float
    scores: Floats  # [canaries]
    included: Booleans

    def p_value(self, claim: PrivacyProfile) -> float:
        """The smallest of all numbers of guesses, times how many these are; of two bounds the smaller."""
        least = of_curve(Curve.of(claim, symmetric=True))
        levels = np.unique(np.asarray(claim.epsilon(DELTAS)))
        pairs = [(float(epsilon), claim.delta(float(epsilon))) for epsilon in levels[np.isfinite(levels)]]
        found = [min(self._tail(least, run), *(self._steinke(run, *pair) for pair in pairs), 1.0) for run in self.tried]
        return min(1.0, len(self.tried) * min(found))

    def epsilon(self, delta: float) -> float:
        """The largest that is refuted at ``delta``."""
        return _largest(lambda epsilon: self._refutes_pair(epsilon, delta), 0.0, LARGEST_EPSILON)

    def delta(self, epsilon: float) -> float:
        """The largest that is refuted at ``epsilon``."""
        return _largest(lambda delta: self._refutes_pair(min(epsilon, 700.0), delta), 0.0, 1.0)

    def mu(self) -> float:
        """The largest that is refuted."""
        return _largest(lambda mu: any(self._excluded(of_mu(mu), run) for run in self.tried), 0.0, LARGEST_MU)

    def tpr(self, fpr: Floats) -> Floats:
        """None is told by one run: NaN."""
        return np.full(len(fpr), math.nan)

    def draw(self, axes: Axes) -> None:
        """Error rates among the canaries of this one run, which are not independent: without a band."""
        draw_rates(axes, self.scores[self.included], self.scores[~self.included], label="canaries of this run")

    def _refutes_pair(self, epsilon: float, delta: float) -> bool:
        level, least = self.level / len(self.tried), of_pair(epsilon, delta)
        return any(self._excluded(least, run) or self._steinke(run, epsilon, delta) <= level for run in self.tried)

    def _steinke(self, run: tuple[int, int], epsilon: float, delta: float) -> float:
        guesses, correct = run
        return one_run_p_value(
            examples=len(self.scores), guesses=guesses, correct=correct, epsilon=epsilon, delta=delta
        )

    def _excluded(self, least: Least, run: tuple[int, int], tail: float | None = None) -> bool:
        guesses, correct = run
        tail = self.level / len(self.tried) if tail is None else tail
        return tail_excluded(tail, least, examples=len(self.scores), guesses=guesses, correct=correct)

    def _tail(self, least: Least, run: tuple[int, int]) -> float:
        """Smallest tail that the guarantee excludes."""
        return math.exp(-_largest(lambda log: self._excluded(least, run, math.exp(-log)), 0.0, 700.0))


def _largest(refuted: Callable[[float], bool], low: float, high: float) -> float:
    """The largest value up to which all are refuted; ``low`` if none is."""
    if not refuted(low):
        return low
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low


def one_run(
    scores: ArrayLike,
    included: ArrayLike,
    *,
    claim: PrivacyProfile | None = None,
    confidence: float = 0.95,
    adjacency: str | None = None,
    guesses: int | Sequence[int] | None = None,
) -> AuditReport:
    """Whether one run with many canaries refutes a claim, and lower bounds of what it reveals.

    It is for trainings of which there is time for one: on ten sound trainings it found at most 0.8 % of the claim, and
    :func:`audit_scores` up to 99 % in the same time.

    Guarantees: if each canary was included with probability 1/2, independently of all else, then with probability at
    least ``confidence`` every bound of the report holds and a claim that is true is not refuted. The canaries of the
    highest scores are guessed to be in and as many of the lowest to be out; it abstains from the rest. Of two bounds on
    the probability that so many guesses are correct the smaller counts: that of Steinke et al. for (epsilon, delta),
    and that of Mahloujifar et al. for the whole curve. Several numbers of guesses share what may fail equally.

    That the canaries were included by fair and independent coins is not checked: of half of them, chosen at random,
    it is not so. How much the bounds lose in the number of correct guesses is smallest for thousands of canaries; they
    have no power where delta is about 1 / canaries, as of bagging (:func:`audit_scores` has).

    Parameters
    ----------
    scores : array_like of float, shape [canaries]
        Higher where a canary looks more like an included one; of the one run alone.
    included : array_like of bool, shape [canaries]
        Which canaries were in the training data.
    claim : PrivacyProfile, optional
        What the training is said to guarantee.
    confidence : float, in (0, 1)
    adjacency : {"add-remove", "zero-out", "replace-one"}, optional
        What became of a canary that was not included: left out, zeroed, or replaced. By default as in the claim.
    guesses : int or sequence of int, optional
        How many canaries to guess about, fixed before the scores are seen, or several numbers of which the best counts
        and each pays; by default three: 5 %, 20 % and half of the canaries.

    Returns
    -------
    AuditReport
        Its ``tpr`` is NaN: one run does not tell it.

    Raises
    ------
    ValueError
        If a score is NaN, the shapes differ, none or nearly all of the canaries were included, there are more guesses
        than canaries, the claim has another adjacency, or a parameter is outside its range.

    Source
    ------
    Steinke, Nasr and Jagielski (2023), Corollary 5.4; Mahloujifar, Melis and Chaudhuri (2025), of which we have the
    recursion from its public implementation in jax_privacy and the proof by ourselves (``tail_excluded``).

    Examples
    --------
    >>> import numpy as np
    >>> generator = np.random.default_rng(0)
    >>> included = generator.random(1000) < 0.5
    >>> report = one_run(generator.normal(included * 4.0), included)  # noise of sigma = 1/4 on each canary
    >>> 1.2 < report.mu < 4
    True
    """
    scores, included = np.asarray(scores, dtype=np.float64), np.asarray(included)
    if scores.ndim != 1 or not len(scores) or scores.shape != included.shape:
        raise ValueError(
            f"scores and included must both have shape [canaries], got shapes {scores.shape} and {included.shape}"
        )
    if included.dtype != np.bool_:
        raise ValueError(f"included must be boolean, got {included.dtype}")
    if np.isnan(scores).any():
        raise ValueError(f"scores must hold no NaN, got {int(np.isnan(scores).sum())}")
    n, count = len(scores), int(included.sum())
    if 2 * special.bdtr(min(count, n - count), n, 0.5) < IMPROBABLE or count in (0, n):
        raise ValueError(f"included must be drawn with probability 1/2 for each canary, got {count} of {n}")
    confidence = check.level("confidence", confidence)
    given = np.unique(np.ceil(np.array(FRACTIONS) * n).astype(int)).tolist() if guesses is None else guesses
    numbers: list[int] = [given] if isinstance(given, int) else list(given)
    if not numbers:
        raise ValueError(f"guesses must name at least one number, got guesses={guesses!r}")
    order = np.argsort(scores, kind="stable")
    tried = []
    for number in numbers:
        number = check.at_least("guesses", number, 1, most=("canaries", n))
        out, into = number // 2, number - number // 2
        tried.append((number, int((~included[order[:out]]).sum() + included[order[n - into :]].sum())))
    table = pd.DataFrame(tried, columns=["guesses", "correct"])
    return AuditReport(
        evidence=Guesses(tuple(tried), 1 - confidence, scores, included),
        claim=claim,
        confidence=confidence,
        adjacency=runs_adjacency(claim, adjacency),
        strategy=f"one run: {n} canaries, "
        + " or ".join(f"{correct} of {number} guesses correct" for number, correct in tried),
        runs=1,
        seconds=math.nan,
        tried=table,
    )


def lira(
    scores_in: ArrayLike | None, scores_out: ArrayLike, observed: ArrayLike, *, variance: str = "per-example"
) -> Floats:
    """Log-likelihood ratio of each example's score between shadow models that had it and models that had not.

    Like :func:`one_run`, for which these are scores, it is for trainings of which there is time for a few: on ten sound
    trainings, ratios of many canaries in few runs found at most 0.8 % of the claim.

    The scores of an example are taken as normal on either side, so that they should be nearly so: a logit of the
    probability of the true class, not the probability. The shadow models' randomness must be independent of that of the
    models observed. An audit stays sound whatever is wrong with the ratio, which then only finds less.

    The ratios of one example under many models are scores for :func:`audit_scores`; those of many examples under one
    model are not independent runs, and are for :func:`one_run`.

    Parameters
    ----------
    scores_in : array_like of float, shape [models, examples], or None
        Scores under shadow models; NaN where a model did not have the example. None: how unlikely the
        observed score is without the example is all that is used (the "offline" attack), in standard deviations.
    scores_out : array_like of float, shape [models, examples]
        The same where a model had not the example; rows need not be those of ``scores_in``.
    observed : array_like of float, shape [examples] or [targets, examples]
    variance : {"per-example", "fixed"}
        Whether each example has its own two variances, or all have two in common, which few shadow models estimate
        better (below 64, say Carlini et al.).

    Returns
    -------
    ndarray, the shape of ``observed``
        Higher is more like a member.

    Raises
    ------
    ValueError
        If the shapes do not fit, an observed score is not finite, an example has too few scores for its variance, or a
        variance is 0.

    Source
    ------
    Carlini, Chien, Nasr, Song, Terzis and Tramer (2022), Algorithm 1 and its offline variant.

    Examples
    --------
    >>> import numpy as np
    >>> lira([[3.0], [5.0]], [[-1.0], [1.0]], [2.0])  # halfway between the means
    array([0.])
    >>> lira(None, [[-1.0], [1.0]], [2.0]).round(3)
    array([1.414])
    """
    check.one_of("variance", variance, VARIANCES)
    seen = np.asarray(observed, dtype=np.float64)
    if seen.ndim not in (1, 2) or not seen.size:
        raise ValueError(f"observed must have shape [examples] or [targets, examples], got shape {seen.shape}")
    if not np.isfinite(seen).all():
        raise ValueError(f"observed must be finite, got {int((~np.isfinite(seen)).sum())} bad entries")
    distance, log_std = _standardised("scores_out", scores_out, seen, variance)
    if scores_in is None:
        return distance
    nearer, its_log_std = _standardised("scores_in", scores_in, seen, variance)
    return np.asarray((distance**2 - nearer**2) / 2 + log_std - its_log_std, dtype=np.float64)


def _standardised(name: str, scores: ArrayLike, observed: Floats, variance: str) -> tuple[Floats, Floats]:
    """Distance of the observed scores from the shadow models' mean, in standard deviations, and their logarithms."""
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 2 or values.shape[1] != observed.shape[-1]:
        raise ValueError(f"{name} must have shape [models, {observed.shape[-1]}], got shape {values.shape}")
    there = np.isfinite(values)
    count = there.sum(axis=0)
    with np.errstate(all="ignore"):
        mean = values.sum(axis=0, where=there) / count
        squares = np.square(values - mean).sum(axis=0, where=there)
        std = np.sqrt(squares.sum() / (count - 1).sum() if variance == "fixed" else squares / (count - 1))
    if not (std > 0).all() or not count.all():
        raise ValueError(f'{name} must have finite scores that vary for each example; variance="fixed" needs fewer')
    return (observed - mean) / std, np.log(std)
