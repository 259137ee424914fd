"""Error rates of membership tests: which a claim allows, and which the counts of an
event leave possible.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import special, stats

from dpnotes._validation import Floats
from dpnotes.accounting import PrivacyProfile

# where a claim gets a supporting line
LEVELS = np.concatenate([[0.0], np.geomspace(1e-3, 200.0, 400)])
# more of them where delta comes down to its limit
CLOSE = 42
FINE = 2048  # points of a region's frontier
FARTHEST = 700.0  # -log of the smallest p-value told
Frontier = tuple[Floats, Floats]  # false- and true-positive rates, each [..., points]


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
    def of(cls, claim: PrivacyProfile) -> Curve:
        """Make the lines of a claim. Each direction has its own curve if the adjacency
        has directions.
        """
        delta = claim.delta(LEVELS)
        # delta comes down to its limit there, at once for a pure level
        end = int(np.argmax(delta <= delta[-1]))
        # a corner of the claim's curve needs lines on both sides of it
        close = np.linspace(LEVELS[max(end - 1, 0)], LEVELS[max(end, 1)], CLOSE)
        epsilon = np.union1d(LEVELS, close)
        if claim.adjacency == "replace-one":
            remove = add = claim.delta(epsilon)
        else:
            remove = claim.delta(epsilon, direction="remove")
            add = claim.delta(epsilon, direction="add")
        # steepest first: lines of one direction, then of the other one
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


def _envelope(intercepts: Floats, gradients: Floats) -> tuple[Floats, Floats, Floats]:
    """Select, from lines of falling gradients, those that are lowest at some rate >=
    0; return also the corners.
    """
    kept: list[int] = []
    corners: list[float] = []
    heights = intercepts.tolist()
    falls = gradients.tolist()
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

    def frontier(self, level: float, size: int = FINE) -> Frontier:
        """Largest FPR and least TPR of each step of a confidence region for the true
        pair, each of shape [..., size].

        The region misses the true pair with probability at most ``level``.
        """
        reach = stats.chi2.isf(level, 4) / 2  # -log kappa
        # -log of one p-value; the other one has the rest of -log kappa
        steps = np.linspace(0.0, reach, size + 1)
        return self._fpr_of(steps)[..., 1:], self._tpr_of(reach - steps[:-1])

    def log_p_value(self, curve: Curve, size: int) -> Floats:
        """Logarithms of p-values, [...], of the claim that allows the rates under
        ``curve``, not below ``-FARTHEST``.

        The p-value is the level at which the claim's best point is still in the region.
        """
        # denser near 0, where p-values decide
        steps = FARTHEST * np.linspace(0.0, 1.0, size + 1) ** 2
        fpr = self._fpr_of(steps)
        # the last has all that is left
        fpr = np.concatenate([fpr[..., 1:-1], np.ones_like(fpr[..., :1])], axis=-1)
        k = self.true_positives[..., None]
        n = self.positives[..., None]
        with np.errstate(all="ignore"):
            ours = np.log(
                np.where(k > 0, special.betainc(k, n - k + 1, curve.most(fpr)), 1.0)
            )
        # the claim's best point: the largest product of both p-values
        log_kappa = np.maximum((ours - steps[:-1]).max(-1), -FARTHEST)
        return np.asarray(
            np.minimum(0.0, log_kappa + np.log1p(-log_kappa)), dtype=np.float64
        )

    def _tpr_of(self, steps: Floats) -> Floats:
        """True-positive rates of p-value ``e^-steps``, [..., steps]."""
        k = self.true_positives[..., None]
        n = self.positives[..., None]
        with np.errstate(all="ignore"):
            found = special.betaincinv(k, n - k + 1, np.exp(-steps))
        return np.where(k > 0, found, 0.0)

    def _fpr_of(self, steps: Floats) -> Floats:
        """False-positive rates of p-value ``e^-steps``, both ascending, [...,
        steps]; 1 if all runs were positive.
        """
        k = self.false_positives[..., None]
        n = self.negatives[..., None]
        near, far = np.split(steps, [np.searchsorted(steps, 1.0)])
        with np.errstate(all="ignore"):
            low = special.betaincinv(k + 1, n - k, -np.expm1(-near))
            high = special.betainccinv(k + 1, n - k, np.exp(-far))
        found = np.concatenate([low, high], axis=-1)
        # of expected counts within one of all runs some have no inverse
        found = np.where(np.isnan(found), 1.0, found)
        return np.where(k < n, found, np.where(steps > 0, 1.0, 0.0))


class ExpectedCounts(Counts):
    """Counts that are only expected, to choose an event by: their logits count as
    normally distributed, because inverses of exact p-values take most of the time of a
    short audit.
    """

    def _tpr_of(self, steps: Floats) -> Floats:
        return _rate(self.true_positives, self.positives, -1.0, steps)

    def _fpr_of(self, steps: Floats) -> Floats:
        return _rate(self.false_positives, self.negatives, 1.0, steps)


def _rate(hits: Floats, runs: Floats, side: float, steps: Floats) -> Floats:
    """Rate of one-sided p-value ``e^-steps`` above (side 1) or below (-1) the
    observed rate, [..., steps].
    """
    misses = (runs - hits)[..., None] + 0.5
    hits = hits[..., None] + 0.5
    error = np.sqrt(1 / hits + 1 / misses)
    # quantiles of the normal distribution, from logarithms
    distance = -special.ndtri_exp(-steps)
    return special.expit(np.log(hits / misses) + side * error * distance)


def least_epsilon(frontier: Frontier, delta: float) -> Floats:
    """Smallest epsilon of any point of frontiers [..., points], for the larger of
    both directions.
    """
    fpr, tpr = frontier
    with np.errstate(divide="ignore", invalid="ignore"):
        there = np.log(np.maximum(tpr - delta, 0.0) / fpr)
        back = np.log(np.maximum(1 - fpr - delta, 0.0) / (1 - tpr))
    return np.asarray(np.maximum(0.0, np.fmax(there, back)).min(-1))


def least_delta(frontier: Frontier, epsilon: float) -> Floats:
    """Smallest delta of any point of frontiers [..., points], for the larger of both
    directions.
    """
    fpr, tpr = frontier
    factor = np.exp(min(epsilon, FARTHEST))
    there = tpr - factor * fpr
    back = 1 - fpr - factor * (1 - tpr)
    return np.asarray(np.maximum(0.0, np.maximum(there, back)).min(-1))


def least_mu(frontier: Frontier) -> Floats:
    """Smallest mu of any point of frontiers [..., points]."""
    fpr, tpr = frontier
    with np.errstate(invalid="ignore"):
        return np.asarray(np.fmax(0.0, special.ndtri(tpr) - special.ndtri(fpr)).min(-1))


def least_tpr(frontier: Frontier, at: float) -> Floats:
    """Smallest true-positive rate at false-positive rate ``at`` of any point of
    frontiers [..., points], of tests that mix this event with "never" and "always".
    """
    fpr, tpr = frontier
    with np.errstate(divide="ignore", invalid="ignore"):
        low = tpr * at / fpr
        high = tpr + (1 - tpr) * (at - fpr) / (1 - fpr)
    high = np.where(fpr < 1, high, 1.0)
    return np.asarray(np.maximum(at, np.where(at < fpr, low, high).min(-1)))
