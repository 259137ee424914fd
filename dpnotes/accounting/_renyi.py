"""Profiles known through their Renyi divergence: zCDP, and whatever is composed order by order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpnotes.accounting._profile import Floats, PrivacyProfile

Curve = Callable[[Floats], Floats]

ORDERS = 1 + np.logspace(-4, 6, 401)  # real orders; the best one is then searched between its neighbours
REFINEMENTS = 60  # golden sections of that bracket, down to the resolution of doubles
GOLDEN = (np.sqrt(5) - 1) / 2


@dataclass(frozen=True)
class Line:
    """The curve ``rho * alpha``: zCDP, Gaussian noise."""

    rho: float

    def __call__(self, alpha: Floats) -> Floats:
        return self.rho * alpha


@dataclass(frozen=True)
class Total:
    """Sum of curves, each so many times: releases together."""

    parts: tuple[tuple[int, Curve], ...]

    def __call__(self, alpha: Floats) -> Floats:
        return np.asarray(sum(times * curve(alpha) for times, curve in self.parts), dtype=np.float64)


class RenyiRelease(PrivacyProfile):
    """A mechanism of Renyi divergence at most ``curve(alpha)`` at every real order alpha > 1, both directions.

    Every order gives a valid pair (Canonne, Kamath and Steinke 2020, Proposition 12); the best order is searched for
    each query, so that the search can only err on the private side.
    """

    symmetric = True

    def __init__(self, curve: Curve, **about: Any) -> None:
        super().__init__(**about)
        self._curve = curve

    def _delta(self, epsilon: Floats, direction: str) -> Floats:
        def log_delta(alpha: Floats) -> Floats:
            spent = (alpha - 1) * (self._curve(alpha) - epsilon[..., None])
            return spent - np.log(alpha - 1) + alpha * np.log1p(-1 / alpha)

        return np.exp(np.minimum(_best(log_delta, epsilon.shape), 0.0))

    def _epsilon(self, delta: Floats) -> Floats:
        with np.errstate(divide="ignore"):  # delta = 0: no order gives a finite epsilon
            log_delta = np.log(delta)[..., None]

        def epsilon(alpha: Floats) -> Floats:
            return self._curve(alpha) + np.log1p(-1 / alpha) - (log_delta + np.log(alpha)) / (alpha - 1)

        found = np.full(delta.shape, np.inf)
        positive = np.broadcast_to(delta > 0, delta.shape)
        if positive.any():
            found = np.where(positive, np.maximum(0.0, _best(epsilon, delta.shape)), np.inf)
        found = np.where(delta >= 1, 0.0, found)
        for exponent in range(-52, 0, 4):  # rounding left some of them on the wrong side
            short = np.isfinite(found) & (self._worst(np.where(np.isfinite(found), found, 0.0)) > delta)
            if not short.any():
                break
            found = np.where(short, found + 2.0**exponent * np.maximum(found, 1e-3), found)
        return found

    def _composed(self, times: int, about: dict[str, Any]) -> RenyiRelease:
        """Divergences of the same order add."""
        return RenyiRelease(Total(((times, self._curve),)), **about)


def _best(objective: Curve, shape: tuple[int, ...]) -> Floats:
    """Smallest value of ``objective`` over real orders; it gives [*shape, orders] for [orders] or [*shape, 1]."""
    values = np.broadcast_to(objective(ORDERS), (*shape, len(ORDERS)))
    values = np.where(np.isnan(values), np.inf, values)
    index = values.argmin(-1)[..., None]
    best = np.take_along_axis(values, index, -1)
    low = np.log(ORDERS[np.maximum(index - 1, 0)] - 1)
    high = np.log(ORDERS[np.minimum(index + 1, len(ORDERS) - 1)] - 1)
    for _ in range(REFINEMENTS):
        left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
        f_left, f_right = objective(1 + np.exp(left)), objective(1 + np.exp(right))
        best = np.fmin(best, np.fmin(f_left, f_right))
        smaller = f_left < f_right
        low, high = np.where(smaller, low, left), np.where(smaller, right, high)
    return np.asarray(best[..., 0], dtype=np.float64)
