"""What private votes have in common: their kind of profile, and searches for the most that a budget allows."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
from scipy import special

from dpnotes.accounting._composition import together
from dpnotes.accounting._profile import Floats, PrivacyProfile, Renyi
from dpnotes.accounting._renyi import Line, best_order

ANALYSES = ("tight", "published")
SHARDS = "the shard of each record is chosen independently of the other records, for example by a public hash"


class BoundedRangeRelease(PrivacyProfile):
    """An answer with log-likelihood ratios in an interval of length ``width``, exact.

    The hockey-stick divergence is convex in the likelihood ratio, so that a ratio with two values is worst; the best
    two give ``delta = (1 - e^((epsilon - width) / 2))^2 / (1 - e^-width)``, and the trade-off function is the logistic
    one.
    """

    symmetric = _beyond_pair = True

    def __init__(self, width: float, **about: Any) -> None:
        super().__init__(**about)
        self._width = width

    def _delta(self, epsilon: Floats, direction: str) -> Floats:
        short = np.minimum((epsilon - self._width) / 2, 0.0)
        return np.asarray(np.expm1(short) ** 2 / -np.expm1(-self._width), dtype=np.float64)

    def _tradeoff(self, alpha: Floats) -> Floats:
        with np.errstate(divide="ignore"):  # alpha of 0 or 1
            return np.asarray(special.expit(-special.logit(alpha) - self._width), dtype=np.float64)

    def _renyi(self) -> Renyi:
        """Width^2 / 8 zCDP (Cesar and Rogers 2021)."""
        return Renyi(Line(self._width**2 / 8))

    def _ceiling(self) -> tuple[float, float]:
        return self._width, 0.0

    def _key(self) -> Hashable:
        return "bounded range", self._width

    def _group(self, size: int) -> BoundedRangeRelease:
        return BoundedRangeRelease(size * self._width, **self._grouped(size))


def bounded_range(width: float, answers: int, **about: Any) -> PrivacyProfile:
    """Profile of ``answers`` answers, each with log-likelihood ratios in an interval of length ``width``."""
    one = BoundedRangeRelease(width, **about)
    return one if answers == 1 else together([(one, answers)], about)


def largest_integer(valid: Callable[[int], bool]) -> int:
    """Largest n >= 0 with ``valid(n)``, for a test that holds at 0 and stays false once it is."""
    high = 1
    while valid(high):
        high *= 2
    return high // 2 + bisect_left(range(high // 2 + 1, high), True, key=lambda n: not valid(n))


def largest_rho(epsilon: float, delta: float) -> float:
    """Largest rho, up to the search for the best order, at which rho-zCDP gives (epsilon, delta)-DP."""

    def negative_rho(alpha: Floats, spent: Floats) -> Floats:
        spent = np.log1p(-1 / alpha) - (math.log(delta) + np.log(alpha)) / (alpha - 1)
        return (spent - epsilon) / alpha

    return max(0.0, -float(best_order(Line(0.0), negative_rho, ())))
