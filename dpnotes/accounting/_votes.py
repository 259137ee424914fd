"""Kinds of profile that private votes have, and what one flipped vote does to a vote between two classes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special, stats

from dpnotes._validation import at_least_one
from dpnotes.accounting._kinds import Statement, smallest_epsilon, supported_tradeoff
from dpnotes.accounting._profile import Floats, PrivacyProfile
from dpnotes.accounting._renyi import EPSILONS, Line, RenyiRelease, _best

ANALYSES = ("tight", "published")
SHARDS = "the shard of each record is chosen independently of the other records, for example by a public hash"
LARGEST_EXPONENT = 700.0  # of a double


class BoundedRangeRelease(PrivacyProfile):
    """``times`` answers, each with log-likelihood ratios in an interval of length ``width``, chosen adaptively or not.

    One answer: the hockey-stick divergence is convex in the likelihood ratio, so that a ratio with two values is worst;
    the best two give ``delta = (1 - e^((epsilon - width) / 2))^2 / (1 - e^-width)``, and the trade-off function is the
    logistic one. More answers: the better of width^2 / 8 zCDP (Cesar and Rogers 2021) and the optimal composition of
    width-DP, at each epsilon.
    """

    def __init__(self, width: float, times: int, **about: Any) -> None:
        super().__init__(**about)
        self._width, self._times = width, times
        rho = times * width**2 / 8
        self._renyi = RenyiRelease(Line(rho), **about)
        self._pure = Statement(width, 0.0, times, **about)

    def _delta(self, epsilon: Floats, direction: str) -> Floats:
        if self._times == 1:
            short = np.minimum((epsilon - self._width) / 2, 0.0)
            return np.asarray(np.expm1(short) ** 2 / -np.expm1(-self._width), dtype=np.float64)
        with np.errstate(over="ignore"):  # a useless order: the minimum takes the other
            return np.minimum(self._renyi._delta(epsilon, direction), self._pure._delta(epsilon, direction))

    def _epsilon(self, delta: Floats) -> Floats:
        if self._times == 1:
            return smallest_epsilon(lambda epsilon: self._delta(epsilon, "remove"), delta)
        return np.minimum(self._renyi._epsilon(delta), self._pure._epsilon(delta))

    def _tradeoff(self, alpha: Floats) -> Floats:
        if self._times == 1:
            with np.errstate(divide="ignore"):  # alpha of 0 or 1
                return np.asarray(special.expit(special.logit(1 - alpha) - self._width), dtype=np.float64)
        with np.errstate(over="ignore"):
            kept = self._renyi._tradeoff(alpha)
        if self._times * self._width < LARGEST_EXPONENT:
            kept = np.maximum(kept, self._pure._tradeoff(alpha))
        return kept

    def compose(self, times: int) -> BoundedRangeRelease:
        """More answers of the same range, chosen adaptively or not."""
        times = at_least_one("times", times)
        return BoundedRangeRelease(self._width, self._times * times, **self._about(times))


class ConvertedRelease(PrivacyProfile):
    """``times`` answers as papers account for them: ``rho``-zCDP each, converted order by order as Mironov (2017) does.

    ``delta = min exp(l (rho (l + 1) - epsilon))`` over all real l > 0, or over the given ``moments`` l only. A paper
    may claim a pure level per answer besides (``pure``), which it adds up.
    """

    def __init__(self, rho: float, times: int, *, moments: Floats | None, pure: float | None, **about: Any) -> None:
        super().__init__(**about)
        self._rho, self._times, self._moments, self._pure = rho, times, moments, pure
        self._claimed = None if pure is None else Statement(times * pure, 0.0, 1, **about)

    def _delta(self, epsilon: Floats, direction: str) -> Floats:
        rho = self._rho * self._times
        if self._moments is None:
            exponent = -(np.maximum(epsilon - rho, 0.0) ** 2) / (4 * rho)
        else:
            exponent = (self._moments * (rho * (self._moments + 1) - epsilon[..., None])).min(-1)
        converted = np.exp(np.minimum(exponent, 0.0))
        if self._claimed is not None:
            converted = np.minimum(converted, self._claimed._delta(epsilon, direction))
        return np.asarray(converted, dtype=np.float64)

    def _epsilon(self, delta: Floats) -> Floats:
        found = smallest_epsilon(lambda epsilon: self._delta(epsilon, "remove"), delta)
        # without a pure level no finite epsilon gives delta = 0; the doubles only underflow to it
        return found if self._claimed is not None else np.where(delta > 0, found, np.inf)

    def _tradeoff(self, alpha: Floats) -> Floats:
        found = supported_tradeoff(1 - self._delta(EPSILONS, "remove"), EPSILONS, alpha)
        if self._pure is not None and self._claimed is not None and self._times * self._pure < LARGEST_EXPONENT:
            found = np.maximum(found, self._claimed._tradeoff(alpha))
        return found

    def compose(self, times: int) -> ConvertedRelease:
        """Divergences of the same order add, and so do the claimed pure levels."""
        times = at_least_one("times", times)
        return ConvertedRelease(
            self._rho, self._times * times, moments=self._moments, pure=self._pure, **self._about(times)
        )


class LeastRelease(PrivacyProfile):
    """A release of which several guarantees hold: at each epsilon the smallest delta of them."""

    def __init__(self, parts: tuple[PrivacyProfile, ...], **about: Any) -> None:
        super().__init__(**about)
        self._parts = parts

    def _delta(self, epsilon: Floats, direction: str) -> Floats:
        return np.asarray(np.min([part._delta(epsilon, direction) for part in self._parts], axis=0))

    def _epsilon(self, delta: Floats) -> Floats:
        return np.asarray(np.min([part._epsilon(delta) for part in self._parts], axis=0))

    def _tradeoff(self, alpha: Floats) -> Floats:
        return np.asarray(np.max([part._tradeoff(alpha) for part in self._parts], axis=0))

    def compose(self, times: int) -> LeastRelease:
        """Each guarantee composed by itself."""
        times = at_least_one("times", times)
        return LeastRelease(tuple(part.compose(times) for part in self._parts), **self._about(times))


def flipped_delta(epsilon: Floats, log_odds: Floats, moved: Floats, times: int) -> Floats:
    """Largest exact delta over pairs of coins thrown ``times`` times, with given log-odds [pairs] of the two coins.

    The log-odds are those of the first class with the record (``moved``) and without it. Shape of ``epsilon`` kept.
    """
    heads = np.arange(times + 1)
    up = special.log_expit(moved) - special.log_expit(log_odds)
    down = special.log_expit(-moved) - special.log_expit(-log_odds)
    loss = heads * up[:, None] + (times - heads) * down[:, None]  # [pairs, times + 1]
    mass = np.asarray(stats.binom.pmf(heads, times, special.expit(moved)[:, None]))  # under the law with the record
    above = -np.expm1(np.minimum(epsilon[..., None, None] - loss, 0.0))
    return np.asarray((above * mass).sum(-1).max(-1), dtype=np.float64)


def largest_integer(valid: Callable[[int], bool]) -> int:
    """Largest n >= 0 with ``valid(n)``, for a test that holds at 0 and stays false once it is."""
    high = 1
    while valid(high):
        high *= 2
    low = high // 2 if high > 1 else 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if valid(middle) else (low, middle)
    return low


def largest_rho(epsilon: float, delta: float) -> float:
    """Largest rho, up to the search for the best order, at which rho-zCDP gives (epsilon, delta)-DP."""

    def negative_rho(alpha: Floats) -> Floats:
        spent = np.log1p(-1 / alpha) - (math.log(delta) + np.log(alpha)) / (alpha - 1)
        return (spent - epsilon) / alpha

    return max(0.0, -float(_best(negative_rho, ())))


def at_least_two_classes(n_classes: int) -> int:
    """Give the number of classes as an int; a vote needs two."""
    n_classes = at_least_one("n_classes", n_classes)
    if n_classes < 2:
        raise ValueError(f"n_classes must be >= 2, got n_classes={n_classes}; one class needs no vote")
    return n_classes
