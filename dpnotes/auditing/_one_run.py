"""Audits for a budget of only a few training runs: many canaries share a run, each
included or not by a coin toss.

Audits with one canary in many runs nearly reach some claims. On these claims, the
audits here found at most 0.8 % of the claim in the same time
(``book/results/audits_strategies.csv``). Therefore ``dpnotes.audit`` does not use them.
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

# whose epsilons a claim is tested at, too
DELTAS = np.concatenate([[0.0], np.geomspace(1e-9, 0.5, 20)])
FRACTIONS = (0.05, 0.2, 0.5)  # of the canaries, how many are guessed about by default
BISECTIONS = 50
LARGEST_EPSILON, LARGEST_MU = 50.0, 20.0
VARIANCES = ("per-example", "fixed")
# chance of so unequal a number of canaries, by which an inclusion that was no coin is
# known
IMPROBABLE = 1e-9

# smallest probability of a wrong guess beside one of a correct guess
Least = Callable[[float], float]


def tail_excluded(
    tail: float, least: Least, *, examples: int, guesses: int, correct: int
) -> bool:
    """Whether a guarantee excludes that, with probability ``tail``, at least
    ``correct`` guesses are correct.

    ``least`` is the guarantee: an event of probability x on one data set has
    probability at least ``least(x)`` on its neighbour. This function is convex, and at
    least 0. Let p_w be the probability that w of the guesses are correct. A canary's
    coin toss decides between neighbours. The opposite toss turns a correct guess into a
    wrong one: the event "this guess is correct, and w guesses are correct" becomes
    "this guess is wrong, and w - 1 guesses are correct". Averaged over canaries and
    tosses, by Jensen's inequality, for every j::

        W_(j-1) >= least(R_j),   R_j = sum_(w >= j) w p_w / examples,   W_j = sum_(w >= j) (guesses - w) p_w / examples

    Among all p with this tail probability, one has the smallest ``R_j`` and ``sum_(w >=
    j) p_w`` for every j at once: its whole tail is at ``correct``, and each smaller j
    has only what its inequality requires. The proof is by induction downwards, with
    ``(guesses - j) R_j = j W_j + guesses / examples sum_(l > j) sum_(w >= l) p_w``. If
    even this p exceeds 1 in total, no such p exists.
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
    """Give the function ``least`` of :func:`tail_excluded` for a claim's curve."""
    ends = (curve.intercepts[:-1] + curve.gradients[:-1] * curve.corners).tolist()
    intercepts, gradients = curve.intercepts.tolist(), curve.gradients.tolist()

    def least(x: float) -> float:
        line = bisect_left(ends, x)
        return float(max(0.0, (x - intercepts[line]) / gradients[line]))

    return least


def of_pair(epsilon: float, delta: float) -> Least:
    """Give the function ``least`` of :func:`tail_excluded` for (epsilon, delta)-DP."""
    factor = math.exp(epsilon)
    return lambda x: max(0.0, (x - delta) / factor, 1 - delta - factor * (1 - x))


def of_mu(mu: float) -> Least:
    """Give the function ``least`` of :func:`tail_excluded` for mu-GDP."""
    return lambda x: float(special.ndtr(special.ndtri(min(x, 1.0)) - mu))


@dataclass(frozen=True)
class Guesses:
    """Evidence from guesses about canaries; if several numbers of guesses were
    tried, they share the level.
    """

    tried: tuple[tuple[int, int], ...]  # how many guesses, how many of them correct
    level: float
    scores: Floats  # [canaries]
    included: Booleans

    def p_value(self, claim: PrivacyProfile) -> float:
        """Smallest p-value over the tried numbers of guesses and two bounds, times
        how many numbers were tried.
        """
        least = of_curve(Curve.of(claim, symmetric=True))
        levels = np.unique(np.asarray(claim.epsilon(DELTAS)))
        pairs = [
            (float(epsilon), claim.delta(float(epsilon)))
            for epsilon in levels[np.isfinite(levels)]
        ]
        found = [
            min(
                self._tail(least, run),
                *(self._steinke(run, *pair) for pair in pairs),
                1.0,
            )
            for run in self.tried
        ]
        return min(1.0, len(self.tried) * min(found))

    def epsilon(self, delta: float) -> float:
        """Largest epsilon that is refuted at ``delta``."""
        return _largest(
            lambda epsilon: self._refutes_pair(epsilon, delta), 0.0, LARGEST_EPSILON
        )

    def delta(self, epsilon: float) -> float:
        """Largest delta that is refuted at ``epsilon``."""
        return _largest(
            lambda delta: self._refutes_pair(min(epsilon, 700.0), delta), 0.0, 1.0
        )

    def mu(self) -> float:
        """Largest mu that is refuted."""
        return _largest(
            lambda mu: any(self._excluded(of_mu(mu), run) for run in self.tried),
            0.0,
            LARGEST_MU,
        )

    def tpr(self, fpr: Floats) -> Floats:
        """NaN, because one run does not determine the rate."""
        return np.full(len(fpr), math.nan)

    def draw(self, axes: Axes) -> None:
        """Draw the error rates among the canaries of this run, without a band,
        because canaries are not independent.
        """
        draw_rates(
            axes,
            self.scores[self.included],
            self.scores[~self.included],
            label="canaries of this run",
        )

    def _refutes_pair(self, epsilon: float, delta: float) -> bool:
        level, least = self.level / len(self.tried), of_pair(epsilon, delta)
        return any(
            self._excluded(least, run) or self._steinke(run, epsilon, delta) <= level
            for run in self.tried
        )

    def _steinke(self, run: tuple[int, int], epsilon: float, delta: float) -> float:
        guesses, correct = run
        return one_run_p_value(
            examples=len(self.scores),
            guesses=guesses,
            correct=correct,
            epsilon=epsilon,
            delta=delta,
        )

    def _excluded(
        self, least: Least, run: tuple[int, int], tail: float | None = None
    ) -> bool:
        guesses, correct = run
        tail = self.level / len(self.tried) if tail is None else tail
        return tail_excluded(
            tail, least, examples=len(self.scores), guesses=guesses, correct=correct
        )

    def _tail(self, least: Least, run: tuple[int, int]) -> float:
        """Smallest tail that the guarantee excludes."""
        return math.exp(
            -_largest(
                lambda log: self._excluded(least, run, math.exp(-log)), 0.0, 700.0
            )
        )


def _largest(refuted: Callable[[float], bool], low: float, high: float) -> float:
    """Largest value up to which all values are refuted; ``low`` if none is refuted."""
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
    """Test whether one run with many canaries refutes a claim, and bound the privacy
    loss from below.

    Use it when you can afford only one training run. On ten sound training procedures,
    with 15 canaries in each of thousands of runs, its lower bound on delta was at most
    0.8 % of the claimed delta at every epsilon that was tried. In the same time, the
    bound of :func:`audit_scores` reached up to 99 % of the claimed delta.

    Guarantees: if each canary was included with probability 1/2, independently of
    everything else, then with probability at least ``confidence`` every bound of the
    report holds and a true claim is not refuted. The test guesses that the canaries
    with the highest scores are in the training data, and that an equal number with the
    lowest scores are not; it abstains from the rest. Two theorems bound the probability
    of at least as many correct guesses: Steinke et al. for (epsilon, delta), and
    Mahloujifar et al. for the whole curve. The test uses the smaller of the two bounds.
    Several numbers of guesses share the allowed failure probability equally.

    The function raises an error if the number of included canaries is very unlikely,
    but it cannot check that fair and independent coins included them. For example,
    including a random half of the canaries violates the assumption. The bounds use only
    the number of correct guesses. This wastes information; the waste is least when
    there are thousands of canaries. The bounds have no power where delta is about 1 /
    canaries, as for bagging, but :func:`audit_scores` has power there.

    Parameters
    ----------
    scores : array_like of float, shape [canaries]
        Score of each canary, from this run only. A higher score means that the canary
        looks more like an included one.
    included : array_like of bool, shape [canaries]
        Which canaries were in the training data.
    claim : PrivacyProfile, optional
        The guarantee that the training procedure claims.
    confidence : float, in (0, 1)
        Smallest probability with which the bounds hold and a true claim is not refuted.
    adjacency : {"add-remove", "zero-out", "replace-one"}, optional
        How a canary was excluded: left out, zeroed, or replaced. Default: the adjacency
        of the claim.
    guesses : int or sequence of int, optional
        Number of canaries to guess about, fixed before the scores are seen. If there
        are several numbers, the report uses the best result, and each number receives
        an equal share of the failure probability. Default: three numbers, 5 %, 20 % and
        half of the canaries.

    Returns
    -------
    AuditReport
        The report; its ``tpr`` is NaN, because one run does not determine the rate.

    Raises
    ------
    ValueError
        If a score is NaN, the shapes differ, too few or too many canaries were included
        for fair coins, there are more guesses than canaries, the claim has another
        adjacency, or a parameter is outside its range.

    Source
    ------
    Steinke, Nasr and Jagielski (2023), Corollary 5.4; Mahloujifar, Melis and Chaudhuri
    (2025), whose recursion we take from its public implementation in jax_privacy; the
    proof is ours (``tail_excluded``).

    Examples
    --------
    >>> import numpy as np
    >>> generator = np.random.default_rng(0)
    >>> included = generator.random(1000) < 0.5
    >>> report = one_run(
    ...     generator.normal(included * 4.0), included
    ... )  # noise of sigma = 1/4 on each canary
    >>> 1.2 < report.mu < 4
    True
    """
    scores, included = np.asarray(scores, dtype=np.float64), np.asarray(included)
    if scores.ndim != 1 or not len(scores) or scores.shape != included.shape:
        raise ValueError(
            "scores and included must both have shape [canaries], got shapes"
            f" {scores.shape} and {included.shape}"
        )
    if included.dtype != np.bool_:
        raise ValueError(f"included must be boolean, got {included.dtype}")
    if np.isnan(scores).any():
        raise ValueError(f"scores must hold no NaN, got {int(np.isnan(scores).sum())}")
    n, count = len(scores), int(included.sum())
    if 2 * special.bdtr(min(count, n - count), n, 0.5) < IMPROBABLE or count in (0, n):
        raise ValueError(
            f"included must be drawn with probability 1/2 for each canary, got {count}"
            f" of {n}"
        )
    confidence = check.level("confidence", confidence)
    given = (
        np.unique(np.ceil(np.array(FRACTIONS) * n).astype(int)).tolist()
        if guesses is None
        else guesses
    )
    numbers: list[int] = [given] if isinstance(given, int) else list(given)
    if not numbers:
        raise ValueError(
            f"guesses must name at least one number, got guesses={guesses!r}"
        )
    order = np.argsort(scores, kind="stable")
    tried = []
    for number in numbers:
        number = check.at_least("guesses", number, 1, most=("canaries", n))
        out, into = number // 2, number - number // 2
        tried.append(
            (
                number,
                int((~included[order[:out]]).sum() + included[order[n - into :]].sum()),
            )
        )
    table = pd.DataFrame(tried, columns=["guesses", "correct"])
    return AuditReport(
        evidence=Guesses(tuple(tried), 1 - confidence, scores, included),
        claim=claim,
        confidence=confidence,
        adjacency=runs_adjacency(claim, adjacency),
        strategy=f"one run: {n} canaries, "
        + " or ".join(
            f"{correct} of {number} guesses correct" for number, correct in tried
        ),
        runs=1,
        seconds=math.nan,
        tried=table,
    )


def lira(
    scores_in: ArrayLike | None,
    scores_out: ArrayLike,
    observed: ArrayLike,
    *,
    variance: str = "per-example",
) -> Floats:
    """Compute the log-likelihood ratio of each example's score between shadow models
    with and without the example.

    Use it when you can afford only a few training runs; :func:`one_run` accepts these
    ratios as scores. On ten sound training procedures, with 15 canaries in each of
    thousands of runs, the lower bound on delta from these ratios was at most 0.8 % of
    the claimed delta at every epsilon that was tried.

    The ratio treats an example's scores as normally distributed, both with and without
    the example. The scores should therefore be nearly normal: use a logit of the
    probability of the true class, not the probability. The randomness of the shadow
    models must be independent of the randomness of the observed models. An audit stays
    sound even if the ratio is wrong; it then only finds less.

    The ratios of one example under many models are scores for :func:`audit_scores`. The
    ratios of many examples under one model do not come from independent runs; use them
    with :func:`one_run`.

    Parameters
    ----------
    scores_in : array_like of float, shape [models, examples], or None
        Scores under shadow models; NaN where a model did not have the example. If None,
        the result is instead the number of standard deviations by which the observed
        score exceeds the mean score without the example (the "offline" attack).
    scores_out : array_like of float, shape [models, examples]
        Scores under shadow models that did not have the example; NaN where a model had
        it. The models may differ from the models of ``scores_in``.
    observed : array_like of float, shape [examples] or [targets, examples]
        Scores of the examples under the observed models.
    variance : {"per-example", "fixed"}
        Whether the two variances, with and without the example, are estimated for each
        example ("per-example") or for all examples together ("fixed"). From few shadow
        models (fewer than 64, according to Carlini et al.), the variances of "fixed"
        are estimated better.

    Returns
    -------
    ndarray, the shape of ``observed``
        Ratios; a higher value means that the example looks more like a member.

    Raises
    ------
    ValueError
        If the shapes do not fit, an observed score is not finite, an example has too
        few scores for its variance, or a variance is 0.

    Source
    ------
    Carlini, Chien, Nasr, Song, Terzis and Tramer (2022), Algorithm 1 and its offline
    variant.

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
        raise ValueError(
            "observed must have shape [examples] or [targets, examples], got shape"
            f" {seen.shape}"
        )
    if not np.isfinite(seen).all():
        raise ValueError(
            f"observed must be finite, got {int((~np.isfinite(seen)).sum())} bad"
            " entries"
        )
    distance, log_std = _standardised("scores_out", scores_out, seen, variance)
    if scores_in is None:
        return distance
    nearer, its_log_std = _standardised("scores_in", scores_in, seen, variance)
    return np.asarray(
        (distance**2 - nearer**2) / 2 + log_std - its_log_std, dtype=np.float64
    )


def _standardised(
    name: str, scores: ArrayLike, observed: Floats, variance: str
) -> tuple[Floats, Floats]:
    """Distance of observed scores from the shadow mean in standard deviations, and
    the logarithms of the latter.
    """
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 2 or values.shape[1] != observed.shape[-1]:
        raise ValueError(
            f"{name} must have shape [models, {observed.shape[-1]}], got shape"
            f" {values.shape}"
        )
    there = np.isfinite(values)
    count = there.sum(axis=0)
    with np.errstate(all="ignore"):
        mean = values.sum(axis=0, where=there) / count
        squares = np.square(values - mean).sum(axis=0, where=there)
        std = np.sqrt(
            squares.sum() / (count - 1).sum()
            if variance == "fixed"
            else squares / (count - 1)
        )
    if not (std > 0).all() or not count.all():
        raise ValueError(
            f"{name} must have finite scores that vary for each example;"
            ' variance="fixed" needs fewer'
        )
    return (observed - mean) / std, np.log(std)
