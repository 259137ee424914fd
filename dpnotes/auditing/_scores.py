"""Audits from the scores of many independent runs, with the record and without it."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import special, stats

from dpnotes import _validation as check
from dpnotes._validation import Floats
from dpnotes.accounting import ADJACENCIES, PrivacyProfile
from dpnotes.auditing._report import AuditReport, draw_rates

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# fraction of what may fail that goes to the event chosen for the claim, or for mu
# without one
MAIN = 0.7
THRESHOLDS = 48  # of each score, from which an event is chosen
# runs of each kind; and as many of them are in the first split, or half of all
FEWEST = 4
DELTA = 1e-5  # where the bound of epsilon should be largest
# where a claim gets a supporting line
LEVELS = np.concatenate([[0.0], np.geomspace(1e-3, 200.0, 400)])
# more of them where delta comes down to its limit, as that of a pure level does at once
CLOSE = 40
# points of a region's frontier: of a bound, and where bounds are compared to choose
FINE, COARSE = 2048, 32
FARTHEST = 700.0  # -log of the smallest p-value told


@dataclass(frozen=True)
class Curve:
    """Lines above the error rates (FPR, TPR) of all tests that a guarantee allows,
    steepest first.

    A line comes from one (epsilon, delta): ``TPR <= delta + e^epsilon FPR`` or, with
    the two data sets exchanged, ``1 - FPR <= delta + e^epsilon (1 - TPR)``. Fewer lines
    allow more rates, which errs in favour of the claim.
    """

    intercepts: Floats  # [lines]
    gradients: Floats  # [lines]
    # false-positive rates [lines - 1] where one line takes over from the one before
    corners: Floats

    @classmethod
    @lru_cache(maxsize=16)
    def of(cls, claim: PrivacyProfile, *, symmetric: bool = False) -> Curve:
        """Make the lines of a claim; with ``symmetric``, events may be likelier on
        either of the two data sets.

        Without ``symmetric``, each direction has its own curve if the adjacency has
        directions.
        """
        ways = (
            (None,)
            if symmetric or claim.adjacency == "replace-one"
            else ("remove", "add")
        )
        found = [claim.delta(LEVELS, direction=way) for way in ways]
        worst = np.max(found, axis=0)
        end = int(np.argmax(worst <= worst[-1]))
        closer = np.linspace(LEVELS[max(end - 1, 0)], LEVELS[max(end, 1)], CLOSE + 2)[
            1:-1
        ]
        order = np.argsort(np.concatenate([LEVELS, closer]), kind="stable")
        epsilon = np.concatenate([LEVELS, closer])[order]
        deltas = [
            np.concatenate([delta, claim.delta(closer, direction=way)])[order]
            for delta, way in zip(found, ways, strict=True)
        ]
        remove, add = deltas[0], deltas[-1]
        gradients = np.concatenate([np.exp(epsilon)[::-1], np.exp(-epsilon)])
        intercepts = np.concatenate([remove[::-1], 1 - np.exp(-epsilon) * (1 - add)])
        return cls(*_envelope(intercepts, gradients))

    def most(self, fpr: Floats) -> Floats:
        """Largest true-positive rates that the claim allows, [...]."""
        line = np.searchsorted(self.corners, fpr)
        return np.asarray(
            np.clip(self.intercepts[line] + self.gradients[line] * fpr, fpr, 1.0),
            dtype=np.float64,
        )

    def least(self, tpr: Floats) -> Floats:
        """Smallest false-positive rates with which the claim allows these
        true-positive rates, [...].
        """
        line = np.searchsorted(
            self.intercepts[:-1] + self.gradients[:-1] * self.corners, tpr
        )
        return np.asarray(
            np.clip((tpr - self.intercepts[line]) / self.gradients[line], 0.0, tpr),
            dtype=np.float64,
        )


def _envelope(intercepts: Floats, gradients: Floats) -> tuple[Floats, Floats, Floats]:
    """Select, from lines of falling gradients, those that are lowest at some rate >=
    0; return also the corners.
    """
    kept: list[int] = []
    corners: list[float] = []
    heights, falls = intercepts.tolist(), gradients.tolist()
    for line, (height, fall) in enumerate(zip(heights, falls, strict=True)):
        while kept:
            rise = height - heights[kept[-1]]
            # both directions have a line of epsilon = 0
            corner = rise / max(falls[kept[-1]] - fall, 1e-300)
            if rise > 0 and not (corners and corner <= corners[-1]):
                corners.append(corner)
                break
            kept.pop()
            del corners[len(kept) - 1 :]
        kept.append(line)
    return intercepts[kept], gradients[kept], np.array(corners)


@dataclass(frozen=True)
class Counts:
    """Counts of one event in independent runs with the record and in runs without it;
    arrays [...].

    The two rates have Clopper and Pearson's one-sided p-values: ``P[Bin(positives, tpr)
    >= true_positives]`` and ``P[Bin(negatives, fpr) <= false_positives]``. The two
    p-values are independent. At the true rates, each is at most u with probability at
    most u. So their product is at most kappa with probability at most ``kappa (1 - log
    kappa)`` (Fisher). The pairs of rates with a larger product therefore form a region
    that covers the true pair as often as stated. If the region contains a pair, it also
    contains every pair with a smaller or equal false-positive rate and a larger or
    equal true-positive rate, so its frontier determines all bounds. The frontier is
    computed in steps; each step combines its largest false-positive rate with its least
    true-positive rate.
    """

    true_positives: Floats
    positives: Floats
    false_positives: Floats
    negatives: Floats

    def frontier(self, level: float, size: int = FINE) -> tuple[Floats, Floats]:
        """Largest FPR and least TPR of each step of a confidence region for the true
        pair, each of shape [..., size].

        The region misses the true pair with probability at most ``level``.
        """
        reach = stats.chi2.isf(level, 4) / 2  # -log kappa
        steps = np.linspace(0.0, reach, size + 1)
        fpr = self._fpr_of(steps)[..., 1:]
        k, n = self.true_positives[..., None], self.positives[..., None]
        with np.errstate(all="ignore"):
            tpr = special.betaincinv(k, n - k + 1, np.exp(steps[:-1] - reach))
        return fpr, np.where(k > 0, tpr, 0.0)

    def log_p_value(self, curve: Curve, size: int) -> Floats:
        """Logarithms of p-values, [...], of the claim that allows the rates under
        ``curve``, not below ``-FARTHEST``.

        The p-value is the level at which the claim's best point is still in the region.
        """
        steps = FARTHEST * np.linspace(0.0, 1.0, size + 1) ** 2
        fpr = self._fpr_of(steps)
        # the last has all that is left
        fpr = np.concatenate([fpr[..., 1:-1], np.ones_like(fpr[..., :1])], axis=-1)
        k, n = self.true_positives[..., None], self.positives[..., None]
        with np.errstate(all="ignore"):
            ours = np.log(
                np.where(k > 0, special.betainc(k, n - k + 1, curve.most(fpr)), 1.0)
            )
        log_kappa = np.maximum((ours - steps[:-1]).max(-1), -FARTHEST)
        return np.asarray(
            np.minimum(0.0, log_kappa + np.log1p(-log_kappa)), dtype=np.float64
        )

    def _fpr_of(self, steps: Floats) -> Floats:
        """False-positive rates of p-value ``e^-steps``, both ascending, [...,
        steps]; 1 if all runs were positive.
        """
        k, n = self.false_positives[..., None], self.negatives[..., None]
        near, far = np.split(steps, [np.searchsorted(steps, 1.0)])
        with np.errstate(all="ignore"):
            parts = (
                special.betaincinv(k + 1, n - k, -np.expm1(-near)),
                special.betainccinv(k + 1, n - k, np.exp(-far)),
            )
        found = np.concatenate(parts, axis=-1)
        # of expected counts within one of all runs some have no inverse
        found = np.where(np.isnan(found), 1.0, found)
        return np.where(k < n, found, np.where(steps > 0, 1.0, 0.0))


def least_epsilon(frontier: tuple[Floats, Floats], delta: float) -> Floats:
    """Smallest epsilon of any point of frontiers [..., points], for the larger of
    both directions.
    """
    fpr, tpr = frontier
    with np.errstate(divide="ignore", invalid="ignore"):
        there = np.log(np.maximum(tpr - delta, 0.0) / fpr)
        back = np.log(np.maximum(1 - fpr - delta, 0.0) / (1 - tpr))
    return np.asarray(np.maximum(0.0, np.fmax(there, back)).min(-1))


def least_delta(frontier: tuple[Floats, Floats], epsilon: float) -> Floats:
    """Smallest delta of any point of frontiers [..., points], for the larger of both
    directions.
    """
    fpr, tpr = frontier
    factor = np.exp(min(epsilon, FARTHEST))
    return np.asarray(
        np.maximum(
            0.0, np.maximum(tpr - factor * fpr, 1 - fpr - factor * (1 - tpr))
        ).min(-1)
    )


def least_mu(frontier: tuple[Floats, Floats]) -> Floats:
    """Smallest mu of any point of frontiers [..., points]."""
    fpr, tpr = frontier
    with np.errstate(invalid="ignore"):
        return np.asarray(np.fmax(0.0, special.ndtri(tpr) - special.ndtri(fpr)).min(-1))


def least_tpr(frontier: tuple[Floats, Floats], at: Floats) -> Floats:
    """Smallest true-positive rate at rates ``at`` [rates], of tests that mix this
    event with "never" and "always".
    """
    fpr, tpr = (each[..., None] for each in frontier)  # [points, 1]
    with np.errstate(divide="ignore", invalid="ignore"):
        low, high = tpr * at / fpr, tpr + (1 - tpr) * (at - fpr) / (1 - fpr)
    return np.asarray(
        np.maximum(at, np.where(at < fpr, low, np.where(fpr < 1, high, 1.0)).min(-2))
    )


@dataclass(frozen=True)
class Event:
    """An event that says "member", ``score >= threshold`` or ``score < threshold``,
    counted on the second split.
    """

    score: str
    words: str
    level: float  # probability with which what is said of it may fail
    counts: Counts
    # scores of the runs that counted, [runs], turned so that higher is more like a
    # member
    members: Floats
    nonmembers: Floats


@dataclass(frozen=True)
class Events:
    """Evidence from events that were chosen on other runs; the failure probability
    is divided among them.
    """

    chosen: tuple[Event, ...]
    part: float = 1.0  # of what may fail, which one of several looks at the runs has

    def p_value(self, claim: PrivacyProfile) -> float:
        """Smallest p-value of the events, each divided by the event's and the
        inspection's share of the level.
        """
        curve, whole = Curve.of(claim), sum(event.level for event in self.chosen)
        logs = [event.counts.log_p_value(curve, 2 * FINE)[0] for event in self.chosen]
        least = min(
            float(np.exp(log)) * whole / own.level
            for log, own in zip(logs, self.chosen, strict=True)
        )
        return min(1.0, min(1.0, least) / self.part)

    def epsilon(self, delta: float) -> float:
        """Largest lower bound on epsilon that an event gives."""
        return max(float(least_epsilon(each, delta)[0]) for each in self._frontiers())

    def delta(self, epsilon: float) -> float:
        """Largest lower bound on delta that an event gives."""
        return max(float(least_delta(each, epsilon)[0]) for each in self._frontiers())

    def mu(self) -> float:
        """Largest lower bound on mu that an event gives."""
        return max(float(least_mu(each)[0]) for each in self._frontiers())

    def tpr(self, fpr: Floats) -> Floats:
        """Largest lower bounds on the true-positive rate that an event gives."""
        return np.asarray(
            np.max([least_tpr(each, fpr)[0] for each in self._frontiers()], axis=0)
        )

    def _frontiers(self) -> list[tuple[Floats, Floats]]:
        return [event.counts.frontier(event.level) for event in self.chosen]

    def draw(self, axes: Axes) -> None:
        """Draw all thresholds of the main event's score, with the band of Dvoretzky,
        Kiefer, Wolfowitz and Massart.
        """
        event = self.chosen[0]
        fpr, fnr = draw_rates(
            axes, event.members, event.nonmembers, label=f"observed, {event.score}"
        )
        level = sum(each.level for each in self.chosen) / 2
        up, right = (
            math.sqrt(math.log(2 / level) / (2 * len(each)))
            for each in (event.members, event.nonmembers)
        )
        low = np.column_stack([fpr - right, fnr - up])
        high = np.column_stack([fpr + right, fnr + up])
        axes.fill(
            *np.clip(np.vstack([low, high[::-1]]), 0, 1).T,
            color="C0",
            alpha=0.15,
            lw=0,
            label="its band",
        )


def audit_scores(
    members: ArrayLike,
    nonmembers: ArrayLike,
    *,
    claim: PrivacyProfile | None = None,
    confidence: float = 0.95,
    adjacency: str | None = None,
    holdout: float = 0.15,
    names: Sequence[str] | None = None,
    random_state: int = 0,
) -> AuditReport:
    """Test whether scores of independent runs refute a claim, and bound the privacy
    loss from below.

    Guarantees: if the runs are independent, then with probability at least
    ``confidence`` every bound of the report holds and a true claim is not refuted, for
    any number of runs and any scores. The argument:

    1. The runs of each kind are divided at random into two splits. Events ("the score
    is at least t", or "below t") are
       chosen only on the first split: one for the claim (or for mu, if there is no
       claim), one for epsilon at delta = 1e-5, and one for the advantage. Given the
       first split the events are fixed, and the runs of the second split are still
       independent.
    2. On the second split, an event's counts with and without the record are two
    independent binomial numbers. Their
       rates lie in a joint region at a stated confidence; the region follows from
       Clopper and Pearson's one-sided p-values, combined by Fisher's method.
    3. The events divide the allowed failure probability: the first receives 0.7 of it
    and the others share the rest; a
       single event receives all of it. By the union bound all regions hold jointly.
    4. A claim is refuted, or a bound is given, only if this follows for *every* pair of
    rates in a region. This is
       computed on the region's frontier, in steps that are rounded to the side that
       proves less.

    A run may have many scores, and they may depend on one another. More scores only
    make the choice on the first split harder.

    Parameters
    ----------
    members, nonmembers : array_like of float, shape [runs] or [runs, scores]
        Scores of independent runs with the record and without it. A higher score should
        mean that a run looks more like one with the record, but both directions are
        tried. Give a failed run a score such as ``-inf``; leaving it out is not sound.
    claim : PrivacyProfile, optional
        The guarantee that the training procedure claims.
    confidence : float, in (0, 1)
        Smallest probability with which the bounds hold and a true claim is not refuted.
    adjacency : {"add-remove", "zero-out", "replace-one"}, optional
        How the data sets of the two kinds of runs differ. Default: the adjacency of the
        claim; without a claim, add-remove.
    holdout : float, in (0, 1)
        Fraction of the runs on which events are chosen.
    names : sequence of str, optional
        Names of the scores.
    random_state : int, >= 0
        Seed of the random division of the runs. Trying several seeds and reporting the
        best result is not sound.

    Returns
    -------
    AuditReport

    Raises
    ------
    ValueError
        If a score is NaN, there are fewer than four runs of a kind, the adjacency of
        the claim differs from the adjacency of the runs, or a parameter is outside its
        range.

    Source
    ------
    Kairouz, Oh and Viswanath (2015) and Dong, Roth and Su (2022) for what a guarantee
    allows; Clopper and Pearson (1934) and Fisher (1932) for the region; Nasr et al.
    (2023) for bounds of mu.

    Examples
    --------
    >>> import numpy as np
    >>> from dpnotes.accounting import gaussian
    >>> generator = np.random.default_rng(0)
    >>> with_it, without = (
    ...     generator.normal(2.0, size=500),
    ...     generator.normal(size=500),
    ... )  # noise of sigma = 1/2
    >>> audit_scores(with_it, without, claim=gaussian(sigma=1.0)).refuted
    True
    >>> audit_scores(with_it, without, claim=gaussian(sigma=0.5)).refuted
    False
    """
    given = [_matrix("members", members), _matrix("nonmembers", nonmembers)]
    if given[0].shape[1] != given[1].shape[1]:
        raise ValueError(
            f"members and nonmembers must have the same scores, got {given[0].shape[1]}"
            f" and {given[1].shape[1]}"
        )
    confidence = check.level("confidence", confidence)
    holdout = check.real(
        "holdout",
        holdout,
        high=1.0,
        open_low=True,
        below="some runs must be left for counting",
    )
    adjacency = runs_adjacency(claim, adjacency)
    titles = (
        [f"score {i}" for i in range(given[0].shape[1])]
        if names is None
        else [str(name) for name in names]
    )
    if len(titles) != given[0].shape[1]:
        raise ValueError(
            f"names must name {given[0].shape[1]} scores, got names={titles}"
        )
    generator = np.random.default_rng(check.at_least("random_state", random_state, 0))
    divided = [_divided(kind, holdout, generator) for kind in given]
    first, second = ([split[i] for split in divided] for i in (0, 1))
    if len(titles) > 1:
        first, second, titles = _with_combined(first, second, titles)
    tried = _tried(first, second, titles, claim, 1 - confidence)
    chosen = _chosen(tried, second, 1 - confidence)
    return AuditReport(
        evidence=Events(chosen),
        claim=claim,
        confidence=confidence,
        adjacency=adjacency,
        strategy=(
            f"many runs: event {chosen[0].words}, chosen on {len(first[0])} +"
            f" {len(first[1])} runs, counted on {len(second[0])} + {len(second[1])}"
        ),
        runs=len(given[0]) + len(given[1]),
        seconds=math.nan,
        tried=pd.DataFrame(tried),
        remarks=_remarks(given, claim, confidence, holdout),
    )


def runs_needed(
    claim: PrivacyProfile, *, confidence: float = 0.95, holdout: float = 0.15
) -> float:
    """Compute the fewest runs of each kind with which :func:`audit_scores` can refute a
    claim by a test without errors.

    Parameters
    ----------
    claim : PrivacyProfile
        The guarantee to refute.
    confidence : float, in (0, 1)
        Smallest probability with which a true claim is not refuted.
    holdout : float, in (0, 1)
        Fraction of the runs on which events are chosen.

    Returns
    -------
    float
        Number of runs of each kind, a whole number; infinite if the claim allows a test
        without errors.

    Examples
    --------
    >>> from dpnotes.accounting import pure
    >>> [runs_needed(pure(epsilon)) for epsilon in (0.1, 1.0, 5.0)]
    [7.0, 12.0, 418.0]
    """
    curve, level = Curve.of(claim), math.log(1 - check.level("confidence", confidence))

    def refutes(runs: int) -> bool:
        left = runs - _first(runs, holdout)
        perfect = Counts(*np.array([[left], [left], [0], [left]], dtype=np.float64))
        return float(perfect.log_p_value(curve, 2 * FINE)[0]) <= level

    high = FEWEST
    while not refutes(high):
        high *= 2
        if high > 2**40:
            return math.inf
    return float(bisect_left(range(high), True, lo=max(FEWEST, high // 2), key=refutes))


def runs_adjacency(claim: PrivacyProfile | None, adjacency: str | None) -> str:
    """Adjacency of the runs, which must equal the adjacency of the claim."""
    if adjacency is None:
        return "add-remove" if claim is None else claim.adjacency
    check.one_of("adjacency", adjacency, ADJACENCIES)
    if claim is not None and claim.adjacency != adjacency:
        raise ValueError(
            f"claim must be for the adjacency of the runs, {adjacency!r}, got a claim"
            f" for {claim.adjacency!r}; claim.for_adjacency(...) converts a claim if it"
            " implies the other guarantee"
        )
    return adjacency


def _matrix(name: str, values: ArrayLike) -> Floats:
    """Scores as [runs, scores]."""
    scores = np.asarray(values, dtype=np.float64)
    scores = scores[:, None] if scores.ndim == 1 else scores
    if scores.ndim != 2 or 0 in scores.shape:
        raise ValueError(
            f"{name} must have shape [runs] or [runs, scores], got shape"
            f" {np.shape(values)}"
        )
    if np.isnan(scores).any():
        raise ValueError(
            f"{name} must hold no NaN, got {int(np.isnan(scores).any(1).sum())} runs"
            " with one; give a failed run a score such as -inf: leaving runs out is"
            " not sound"
        )
    if len(scores) < FEWEST:
        raise ValueError(
            f"{name} must hold at least {FEWEST} runs, got {len(scores)}; see"
            " runs_needed(claim)"
        )
    return scores


def _first(runs: int, holdout: float) -> int:
    return min(
        max(FEWEST, round(holdout * runs)),
        runs // 2 if holdout * runs <= FEWEST else runs - 1,
    )


def _divided(
    scores: Floats, holdout: float, generator: np.random.Generator
) -> tuple[Floats, Floats]:
    order, first = generator.permutation(len(scores)), _first(len(scores), holdout)
    return scores[order[:first]], scores[order[first:]]


def _with_combined(
    first: Sequence[Floats], second: Sequence[Floats], names: list[str]
) -> tuple[list[Floats], list[Floats], list[str]]:
    """Add one score, the linear discriminant of the finite scores, learned only on
    the first split.
    """
    pooled = np.vstack(first)
    kept = np.flatnonzero(np.isfinite(pooled).all(0))
    kept = kept[np.ptp(pooled[:, kept], axis=0) > 0]
    if len(kept) < 2:
        return list(first), list(second), names
    low, high, scale = (of(pooled[:, kept], axis=0) for of in (np.min, np.max, np.std))
    ours = [kind[:, kept] / scale for kind in first]
    centred = np.vstack([kind - kind.mean(0) for kind in ours])
    # more where there are few runs for the scores
    ridge = len(kept) / len(centred) * np.eye(len(kept))
    weights = (
        np.linalg.solve(
            centred.T @ centred / len(centred) + ridge,
            ours[0].mean(0) - ours[1].mean(0),
        )
        / scale
    )

    def joined(kind: Floats) -> Floats:
        return np.column_stack([kind, np.clip(kind[:, kept], low, high) @ weights])

    return (
        [joined(kind) for kind in first],
        [joined(kind) for kind in second],
        [*names, "combined"],
    )


def _tried(
    first: Sequence[Floats],
    second: Sequence[Floats],
    names: list[str],
    claim: PrivacyProfile | None,
    level: float,
) -> list[dict[str, Any]]:
    """Find the event with the best bound for each score and target, if the second split
    has the same rates.

    The targets are the claim (or mu if there is no claim), epsilon and the advantage.
    """
    curve = None if claim is None else Curve.of(claim)
    rows = []
    for j, name in enumerate(names):
        kinds = [np.sort(kind[:, j]) for kind in first]
        cuts, rates = thresholds_between(np.unique(np.concatenate(kinds))), []
        for kind in kinds:
            above = len(kind) - np.searchsorted(kind, cuts)
            rates.append(
                (np.concatenate([above, len(kind) - above]) + 0.5) / (len(kind) + 1)
            )
        totals = [
            np.full(len(rate), float(len(kind)))
            for rate, kind in zip(rates, second, strict=True)
        ]
        counts = Counts(
            rates[0] * totals[0], totals[0], rates[1] * totals[1], totals[1]
        )
        frontier, gap = counts.frontier(level, COARSE), rates[0] - rates[1]
        main = (
            {"mu": least_mu(frontier)}
            if curve is None
            else {"claim": -counts.log_p_value(curve, 2 * COARSE)}
        )
        rest = {
            "epsilon": least_epsilon(frontier, DELTA),
            "advantage": least_delta(frontier, 0.0),
        }
        for target, value in (main | rest).items():
            i = int(np.lexsort((gap, value))[-1])
            event = {
                "threshold": cuts[i % len(cuts)],
                "above": i < len(cuts),
                "expected": value[i],
                "gap": gap[i],
            }
            rows.append({"score": name, "column": j, "target": target, **event})
    return rows


def thresholds_between(values: Floats) -> Floats:
    """Cuts between the ascending ``values``; if they are many, a selection that is
    denser at the ends.
    """
    if len(values) == 1:
        return values
    where = np.arange(1, len(values))
    if len(where) > THRESHOLDS:
        ends = np.unique(np.geomspace(1, len(values) / 2, THRESHOLDS // 2).astype(int))
        where = np.unique(np.concatenate([ends, len(values) - ends]))
    low, high = values[where - 1], values[where]
    with np.errstate(invalid="ignore"):
        middle = low + (high - low) / 2
    return np.where(np.isfinite(middle) & (middle > low), middle, high)


def _chosen(
    tried: list[dict[str, Any]], second: Sequence[Floats], level: float
) -> tuple[Event, ...]:
    """Best event for each target, without repeats, with its share of the level and
    its counts; noted in ``tried``.
    """
    best: dict[Any, dict[str, Any]] = {}
    for target in dict.fromkeys(row["target"] for row in tried):
        own = [row for row in tried if row["target"] == target]
        row = max(own, key=lambda row: (row["expected"], row["gap"]))
        best.setdefault((row["column"], row["threshold"], row["above"]), row)
    rows = list(best.values())
    parts = (
        [1.0]
        if len(rows) == 1
        else [MAIN] + [(1 - MAIN) / (len(rows) - 1)] * (len(rows) - 1)
    )
    events = []
    for row, part in zip(rows, parts, strict=True):
        kinds = [kind[:, row["column"]] for kind in second]
        found = [
            int(((kind >= row["threshold"]) == row["above"]).sum()) for kind in kinds
        ]
        counts = Counts(
            *np.array(
                [[found[0]], [len(kinds[0])], [found[1]], [len(kinds[1])]],
                dtype=np.float64,
            )
        )
        words = f"{row['score']} {'>=' if row['above'] else '<'} {row['threshold']:.6g}"
        members, nonmembers = kinds if row["above"] else [-kind for kind in kinds]
        events.append(
            Event(row["score"], words, part * level, counts, members, nonmembers)
        )
        row |= {
            "level": part * level,
            "tpr": found[0] / len(kinds[0]),
            "fpr": found[1] / len(kinds[1]),
        }
    return tuple(events)


def _remarks(
    given: Sequence[Floats],
    claim: PrivacyProfile | None,
    confidence: float,
    holdout: float,
) -> tuple[str, ...]:
    """Remarks on these scores for the reader of the report."""
    found = []
    if all((kind == kind[0]).all() for kind in given):
        alike = (
            "all runs" if (given[0][0] == given[1][0]).all() else "all runs of a kind"
        )
        found.append(
            f"{alike} have the same scores: do the runs use their seeds, and does the"
            " score use the results?"
        )
    if claim is not None:
        needed, runs = (
            runs_needed(claim, confidence=confidence, holdout=holdout),
            min(map(len, given)),
        )
        if runs < needed:
            found.append(
                f"{runs} runs of each kind cannot refute this claim; at least"
                f" {needed:.0f} are needed"
            )
    return tuple(found)
