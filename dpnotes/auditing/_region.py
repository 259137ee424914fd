"""What a claim allows of a test's two rates, and what counts of a test prove about them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import special, stats

from dpnotes._validation import Floats
from dpnotes.accounting import PrivacyProfile

LEVELS = np.concatenate([[0.0], np.geomspace(1e-3, 200.0, 400)])  # where a claim gets a supporting line
CLOSE = 40  # more of them where delta comes down to its limit, as that of a pure level does at once
FINE, COARSE = 2048, 32  # points of a region's frontier: of a bound, and where bounds are compared to choose
FARTHEST = 700.0  # -log of the smallest p-value told


@dataclass(frozen=True)
class Curve:
    """Lines above all (FPR, TPR) of tests against a mechanism of some guarantee, steepest first.

    A line comes from one (epsilon, delta): ``TPR <= delta + e^epsilon FPR``, or, of the rates of errors the other way
    round, ``1 - FPR <= delta + e^epsilon (1 - TPR)``. Fewer lines allow more, which is the side of the claim.
    """

    intercepts: Floats  # [lines]
    gradients: Floats  # [lines]
    corners: Floats  # false-positive rates [lines - 1] where one line takes over from the one before

    @classmethod
    @lru_cache(maxsize=16)
    def of(cls, claim: PrivacyProfile, *, symmetric: bool = False) -> Curve:
        """Of a claim; ``symmetric``: whichever of the two data sets the event is more likely on.

        Otherwise it is taken at its word in each direction, except where the adjacency has none.
        """
        ways = (None,) if symmetric or claim.adjacency == "replace-one" else ("remove", "add")
        found = [claim.delta(LEVELS, direction=way) for way in ways]
        worst = np.max(found, axis=0)
        end = int(np.argmax(worst <= worst[-1]))
        closer = np.linspace(LEVELS[max(end - 1, 0)], LEVELS[max(end, 1)], CLOSE + 2)[1:-1]
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
        return np.asarray(np.clip(self.intercepts[line] + self.gradients[line] * fpr, fpr, 1.0), dtype=np.float64)

    def least(self, tpr: Floats) -> Floats:
        """Smallest false-positive rates with which the claim allows these true-positive rates, [...]."""
        line = np.searchsorted(self.intercepts[:-1] + self.gradients[:-1] * self.corners, tpr)
        return np.asarray(np.clip((tpr - self.intercepts[line]) / self.gradients[line], 0.0, tpr), dtype=np.float64)


def _envelope(intercepts: Floats, gradients: Floats) -> tuple[Floats, Floats, Floats]:
    """The lines, of falling gradients, that are lowest at some rate >= 0, and the corners between them."""
    kept: list[int] = []
    corners: list[float] = []
    heights, falls = intercepts.tolist(), gradients.tolist()
    for line, (height, fall) in enumerate(zip(heights, falls, strict=True)):
        while kept:
            rise = height - heights[kept[-1]]
            corner = rise / max(falls[kept[-1]] - fall, 1e-300)  # both directions have a line of epsilon = 0
            if rise > 0 and not (corners and corner <= corners[-1]):
                corners.append(corner)
                break
            kept.pop()
            del corners[len(kept) - 1 :]
        kept.append(line)
    return intercepts[kept], gradients[kept], np.array(corners)


@dataclass(frozen=True)
class Counts:
    """Of one event: how often it came with the record and how often without, in independent runs; arrays [...].

    The two rates have Clopper and Pearson's one-sided p-values: ``P[Bin(positives, tpr) >= true_positives]`` and
    ``P[Bin(negatives, fpr) <= false_positives]``. They are independent and, at the true rates, at most u with
    probability at most u. So their product is at most kappa with probability at most ``kappa (1 - log kappa)``
    (Fisher), and the pairs of rates whose product is larger are a region that covers the true pair as often as stated.
    With a pair it holds all of no larger false-positive and no smaller true-positive rate, so that its frontier tells
    all; that is computed in steps, and each step has its largest false- beside its least true-positive rate.
    """

    true_positives: Floats
    positives: Floats
    false_positives: Floats
    negatives: Floats

    def frontier(self, level: float, size: int = FINE) -> tuple[Floats, Floats]:
        """Largest FPR and least TPR of each step of the region that misses with probability ``level``, [..., size]."""
        reach = stats.chi2.isf(level, 4) / 2  # -log kappa
        steps = np.linspace(0.0, reach, size + 1)
        fpr = self._fpr_of(steps)[..., 1:]
        k, n = self.true_positives[..., None], self.positives[..., None]
        with np.errstate(all="ignore"):
            tpr = special.betaincinv(k, n - k + 1, np.exp(steps[:-1] - reach))
        return fpr, np.where(k > 0, tpr, 0.0)

    def log_p_value(self, curve: Curve, size: int) -> Floats:
        """Logarithms of p-values, [...], of the claim that allows the rates under ``curve``, not below ``-FARTHEST``.

        It is that at which the claim's best point is still in the region.
        """
        steps = FARTHEST * np.linspace(0.0, 1.0, size + 1) ** 2
        fpr = self._fpr_of(steps)
        fpr = np.concatenate([fpr[..., 1:-1], np.ones_like(fpr[..., :1])], axis=-1)  # the last has all that is left
        k, n = self.true_positives[..., None], self.positives[..., None]
        with np.errstate(all="ignore"):
            ours = np.log(np.where(k > 0, special.betainc(k, n - k + 1, curve.most(fpr)), 1.0))
        log_kappa = np.maximum((ours - steps[:-1]).max(-1), -FARTHEST)
        return np.asarray(np.minimum(0.0, log_kappa + np.log1p(-log_kappa)), dtype=np.float64)

    def _fpr_of(self, steps: Floats) -> Floats:
        """False-positive rates of p-value ``e^-steps``, both ascending, [..., steps]; 1 if all runs were positive."""
        k, n = self.false_positives[..., None], self.negatives[..., None]
        near, far = np.split(steps, [np.searchsorted(steps, 1.0)])
        with np.errstate(all="ignore"):
            parts = special.betaincinv(k + 1, n - k, -np.expm1(-near)), special.betainccinv(k + 1, n - k, np.exp(-far))
        found = np.concatenate(parts, axis=-1)
        found = np.where(np.isnan(found), 1.0, found)  # of expected counts within one of all runs some have no inverse
        return np.where(k < n, found, np.where(steps > 0, 1.0, 0.0))


def least_epsilon(frontier: tuple[Floats, Floats], delta: float) -> Floats:
    """Smallest epsilon of any point of frontiers [..., points], for the larger of both directions."""
    fpr, tpr = frontier
    with np.errstate(divide="ignore", invalid="ignore"):
        there = np.log(np.maximum(tpr - delta, 0.0) / fpr)
        back = np.log(np.maximum(1 - fpr - delta, 0.0) / (1 - tpr))
    return np.asarray(np.maximum(0.0, np.fmax(there, back)).min(-1))


def least_delta(frontier: tuple[Floats, Floats], epsilon: float) -> Floats:
    """Smallest delta of any point of frontiers [..., points], for the larger of both directions."""
    fpr, tpr = frontier
    factor = np.exp(min(epsilon, FARTHEST))
    return np.asarray(np.maximum(0.0, np.maximum(tpr - factor * fpr, 1 - fpr - factor * (1 - tpr))).min(-1))


def least_mu(frontier: tuple[Floats, Floats]) -> Floats:
    """Smallest mu of any point of frontiers [..., points]."""
    fpr, tpr = frontier
    with np.errstate(invalid="ignore"):
        return np.asarray(np.fmax(0.0, special.ndtri(tpr) - special.ndtri(fpr)).min(-1))


def least_tpr(frontier: tuple[Floats, Floats], at: Floats) -> Floats:
    """Smallest true-positive rate at the rates ``at`` [rates] of tests that mix this event with none and with all."""
    fpr, tpr = (each[..., None] for each in frontier)  # [points, 1]
    with np.errstate(divide="ignore", invalid="ignore"):
        low, high = tpr * at / fpr, tpr + (1 - tpr) * (at - fpr) / (1 - fpr)
    return np.asarray(np.maximum(at, np.where(at < fpr, low, np.where(fpr < 1, high, 1.0)).min(-2)))
