"""Joint confidence regions of a false- and a true-positive rate, and what all their points prove."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy import special, stats

from dpnotes._validation import Floats
from dpnotes.auditing._curve import Curve

FINE, COARSE = 2048, 32  # points of a region's frontier: of a bound, and where bounds are compared to choose
FARTHEST = 700.0  # -log of the smallest p-value told


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

    @classmethod
    def of(cls, true_positives: float, positives: float, false_positives: float, negatives: float) -> Self:
        """Of one event, with axes for nothing but it."""
        return cls(
            *(np.array([count], dtype=np.float64) for count in (true_positives, positives, false_positives, negatives))
        )

    def frontier(self, level: float, size: int = FINE) -> tuple[Floats, Floats]:
        """Largest FPR and least TPR of each step of the region that misses with probability ``level``, [..., size]."""
        reach = stats.chi2.isf(level, 4) / 2  # -log kappa
        steps = np.linspace(0.0, reach, size + 1)
        fpr = self._fpr_of(steps)[..., 1:]
        k, n = self.true_positives[..., None], self.positives[..., None]
        with np.errstate(all="ignore"):
            tpr = special.betaincinv(k, n - k + 1, np.exp(steps[:-1] - reach))
        return fpr, np.where(k > 0, tpr, 0.0)

    def p_value(self, curve: Curve, size: int = 2 * FINE) -> Floats:
        """P-values, [...], of the claim that allows the rates under ``curve``: its best point is in the region."""
        return np.asarray(np.exp(self.log_p_value(curve, size)))

    def log_p_value(self, curve: Curve, size: int) -> Floats:
        """Logarithm of the p-value, not below ``-FARTHEST``."""
        steps = FARTHEST * np.linspace(0.0, 1.0, size + 1) ** 2
        fpr = self._fpr_of(steps)
        fpr = np.concatenate(
            [fpr[..., 1:-1], np.ones_like(fpr[..., :1])], axis=-1
        )  # the last step has all that is left
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
