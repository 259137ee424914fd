"""Profiles known through their Renyi divergence: zCDP, and whatever is composed order by order."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dpnotes.accounting._curves import EPSILONS, supported_tradeoff
from dpnotes.accounting._profile import Floats, PrivacyProfile, Renyi, Terms

Curve = Callable[[Floats], Floats]
Objective = Callable[[Floats, Floats], Floats]  # of orders and the divergences there

ORDERS = 1 + np.logspace(-4, 6, 401)  # real orders; the best one is then searched between its neighbours
REFINEMENTS = 28  # golden sections of that bracket: the order to 1e-7, its value to rounding
GOLDEN = (np.sqrt(5) - 1) / 2


@dataclass(frozen=True)
class Line:
    """The curve ``rho * alpha``: zCDP, Gaussian noise."""

    rho: float

    def __call__(self, alpha: Floats) -> Floats:
        return self.rho * alpha


@dataclass(frozen=True)
class Response:
    """The curve of randomised response with e^epsilon answers."""

    epsilon: float

    def __call__(self, alpha: Floats) -> Floats:
        up, tanh = (alpha - 1) * self.epsilon, np.tanh(self.epsilon / 2)
        with np.errstate(over="ignore"):
            excess = 2 * np.sinh(up / 2) ** 2 + tanh * np.sinh(up)  # E[ratio^(alpha - 1)] - 1, positive terms
            large = up + np.log1p(np.exp(-2 * up - self.epsilon)) - np.log1p(np.exp(-self.epsilon))
        return np.asarray(np.where(up < 1, np.log1p(excess), large) / (alpha - 1), dtype=np.float64)


@dataclass(frozen=True)
class Total:
    """Sum of curves, each so many times: releases together."""

    parts: tuple[tuple[int, Curve], ...]

    def __call__(self, alpha: Floats) -> Floats:
        return np.asarray(sum(times * curve(alpha) for times, curve in self.parts), dtype=np.float64)

    @property
    def ready(self) -> bool:
        """Whether all curves have been computed."""
        return all(getattr(curve, "ready", True) for _, curve in self.parts)


@dataclass(frozen=True)
class Least:
    """The smallest of several curves."""

    curves: tuple[Curve, ...]

    def __call__(self, alpha: Floats) -> Floats:
        return np.asarray(np.min([curve(alpha) for curve in self.curves], axis=0), dtype=np.float64)


@dataclass(frozen=True)
class Tabulated:
    """A curve that is expensive, kept at all ``ORDERS``."""

    curve: Curve

    def __call__(self, alpha: Floats) -> Floats:
        return self._values if alpha is ORDERS else self.curve(alpha)

    @cached_property
    def _values(self) -> Floats:
        return np.asarray(self.curve(ORDERS), dtype=np.float64)

    @property
    def ready(self) -> bool:
        """Whether the curve has been computed."""
        return "_values" in vars(self)


class RenyiRelease(PrivacyProfile):
    """A mechanism of Renyi divergence at most ``curve(alpha)`` at every real order alpha > 1, both directions.

    With probability ``failure`` nothing is guaranteed. Every order gives a valid pair (Canonne, Kamath and Steinke
    2020, Proposition 12); the best order is searched for each query, so that the search can only err on the private
    side.
    """

    symmetric = True
    _family = "renyi"

    def __init__(self, curve: Curve, *, failure: float = 0.0, **about: Any) -> None:
        super().__init__(**about)
        self._curve, self._failure = curve, failure

    @property
    def _ready(self) -> bool:  # type: ignore[override]
        return bool(getattr(self._curve, "ready", True))

    def _renyi(self) -> Renyi:
        return Renyi(self._curve, self._failure)

    def _delta(self, epsilon: Floats, direction: str, *, refine: bool = True) -> Floats:
        def log_delta(alpha: Floats, divergence: Floats) -> Floats:
            spent = (alpha - 1) * (divergence - epsilon[..., None])
            return spent - np.log(alpha - 1) + alpha * np.log1p(-1 / alpha)

        with np.errstate(over="ignore"):  # an order that is of no use
            found = np.exp(np.minimum(best_order(self._curve, log_delta, epsilon.shape, refine=refine), 0.0))
        return np.asarray(self._failure + (1 - self._failure) * found, dtype=np.float64)

    def _rough(self, epsilon: Floats, direction: str) -> Floats:
        return self._delta(epsilon, direction, refine=False)

    def _epsilon(self, delta: Floats) -> Floats:
        left = (delta - self._failure) / (1 - self._failure) if self._failure < 1 else np.zeros_like(delta)
        with np.errstate(divide="ignore", invalid="ignore"):  # delta = 0: no order gives a finite epsilon
            log_delta = np.log(np.maximum(left, 0.0))[..., None]

        def epsilon(alpha: Floats, divergence: Floats) -> Floats:
            return divergence + np.log1p(-1 / alpha) - (log_delta + np.log(alpha)) / (alpha - 1)

        found = np.full(delta.shape, np.inf)
        positive = left > 0
        if positive.any():
            found = np.where(positive, np.maximum(0.0, best_order(self._curve, epsilon, delta.shape)), np.inf)
        found = np.where(delta >= 1, 0.0, found)
        for exponent in range(-52, 0, 4):  # rounding left some of them on the wrong side
            short = np.isfinite(found) & (self._worst(np.where(np.isfinite(found), found, 0.0)) > delta)
            if not short.any():
                break
            found = np.where(short, found + 2.0**exponent * np.maximum(found, 1e-3), found)
        return np.where(np.isfinite(found) & (self._worst(np.minimum(found, 1e300)) > delta), np.inf, found)

    def _tradeoff(self, alpha: Floats) -> Floats:
        lost = self._rough(EPSILONS, "remove")
        lost[0] = self._worst(EPSILONS[0])  # the advantage
        return supported_tradeoff(1 - lost, EPSILONS, alpha)

    def _merged(self, terms: Terms, about: dict[str, Any]) -> RenyiRelease:
        """Divergences of the same order add."""
        curve: Curve = Total(tuple((times, part._curve) for part, times in terms))
        if all(isinstance(part._curve, Line) for part, _ in terms):
            curve = Line(math.fsum(times * part._curve.rho for part, times in terms))
        kept = sum(times * float(np.log1p(-part._failure)) for part, times in terms if part._failure)
        return RenyiRelease(curve, failure=float(-np.expm1(kept)), **about)

    def _group(self, size: int) -> PrivacyProfile:
        rho = self._curve.rho if isinstance(self._curve, Line) and not self._failure else None
        return super()._group(size) if rho is None else RenyiRelease(Line(size**2 * rho), **self._grouped(size))


def best_order(curve: Curve, objective: Objective, shape: tuple[int, ...], *, refine: bool = True) -> Floats:
    """Smallest value of ``objective(alpha, curve(alpha))`` over real orders.

    The objective gives [*shape, orders] for [orders] or [*shape, 1].
    """
    values = np.broadcast_to(objective(ORDERS, curve(ORDERS)), (*shape, len(ORDERS)))
    values = np.where(np.isnan(values), np.inf, values)
    index = values.argmin(-1)[..., None]
    best = np.take_along_axis(values, index, -1)
    if not refine:
        return np.asarray(best[..., 0], dtype=np.float64)
    low = np.log(ORDERS[np.maximum(index - 1, 0)] - 1)
    high = np.log(ORDERS[np.minimum(index + 1, len(ORDERS) - 1)] - 1)
    left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
    f_left, f_right = (objective(1 + np.exp(place), curve(1 + np.exp(place))) for place in (left, right))
    for _ in range(REFINEMENTS):
        best = np.fmin(best, np.fmin(f_left, f_right))
        smaller = f_left < f_right
        low, high = np.where(smaller, low, left), np.where(smaller, right, high)
        place = np.where(smaller, high - GOLDEN * (high - low), low + GOLDEN * (high - low))
        value = objective(1 + np.exp(place), curve(1 + np.exp(place)))
        left, right = np.where(smaller, place, right), np.where(smaller, left, place)
        f_left, f_right = np.where(smaller, value, f_right), np.where(smaller, f_left, value)
    return np.asarray(np.fmin(best, np.fmin(f_left, f_right))[..., 0], dtype=np.float64)
