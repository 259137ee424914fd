"""Profiles in closed form: what a sample reveals, Gaussian noise, and a bare (epsilon, delta) statement."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import special, stats

from dpnotes.accounting._calibration import log_delta_of
from dpnotes.accounting._curves import smallest_epsilon
from dpnotes.accounting._profile import Floats, PrivacyProfile

UNLIKELY = 1e-300  # a probability that counts, but need not be known
LINES = 1000  # that support a trade-off curve, at most


class SampleRelease(PrivacyProfile):
    """A sample that holds the record with probability ``inclusion`` and is otherwise distributed as without it.

    ``both=False``: H_e(P || Q) = pi and H_e(Q || P) = max(0, 1 - e^epsilon (1 - pi)) (add-remove).
    ``both=True``: pi in either direction (zero-out, replace-one). Proof in the bagging chapter.
    """

    attained = True

    def __init__(self, inclusion: float, *, both: bool, **about: Any) -> None:
        super().__init__(**about)
        self._inclusion = inclusion
        self._both = both

    def _delta(self, epsilon: Floats, direction: str) -> Floats:
        if direction == "remove" or self._both:
            return np.full_like(epsilon, self._inclusion)
        if self._inclusion == 1:  # a certain draw
            return np.ones_like(epsilon)
        added = -np.expm1(np.minimum(epsilon + np.log1p(-self._inclusion), 0.0))
        return np.asarray(np.minimum(self._inclusion, added), dtype=np.float64)  # rounding must not pass pi

    def _epsilon(self, delta: Floats) -> Floats:
        return np.where(delta >= self._inclusion, 0.0, np.inf)

    def _tradeoff(self, alpha: Floats) -> Floats:
        return np.maximum(0.0, 1 - self._inclusion - alpha)

    def _composed(self, times: int, about: dict[str, Any]) -> SampleRelease:
        """Independent samples: the record is in one of them with probability 1 - (1 - pi)^times. Exact."""
        return SampleRelease(power_of_miss(self._inclusion, times), both=self._both, **about)


class GaussianRelease(PrivacyProfile):
    """Gaussian noise: the test between N(0, 1) and N(mu, 1), mu = sensitivity / sigma."""

    symmetric = _never_pure = attained = True

    def __init__(self, mu: float, **about: Any) -> None:
        super().__init__(**about)
        self._mu = mu

    def _delta(self, epsilon: Floats, direction: str) -> Floats:
        low = epsilon / self._mu - self._mu / 2
        with np.errstate(all="ignore"):  # each form may overflow where the other is taken
            # Phi(a) - e^epsilon Phi(b) as Phi(a) (1 - e^(epsilon + log Phi(b) - log Phi(a))), for delta near 1
            above, below = special.log_ndtr(-low), special.log_ndtr(-low - self._mu)
            head = np.exp(above) * -np.expm1(np.minimum(epsilon + below - above, 0.0))
            tail = np.exp(log_delta_of(np.full(low.shape or 1, self._mu), np.atleast_1d(epsilon))[0]).reshape(low.shape)
        value = np.where(low > -1, tail, head)
        return np.where(np.isfinite(epsilon), value, 0.0) + 0.0  # no negative zero

    def _tradeoff(self, alpha: Floats) -> Floats:
        return np.asarray(stats.norm.cdf(stats.norm.isf(alpha) - self._mu), dtype=np.float64)

    def _composed(self, times: int, about: dict[str, Any]) -> GaussianRelease:
        """Variances of the log-likelihood ratio add: mu grows by the square root of ``times``. Exact."""
        return GaussianRelease(self._mu * float(np.sqrt(times)), **about)


class Statement(PrivacyProfile):
    """All that ``times`` mechanisms can do of which nothing is known but that each is (epsilon, delta)-DP.

    With probability delta the record is revealed, otherwise randomised response with e^epsilon answers
    (Kairouz, Oh, Viswanath 2015).
    """

    symmetric = True

    def __init__(self, epsilon: float, delta: float, times: int, **about: Any) -> None:
        super().__init__(**about)
        self._epsilon0, self._delta0, self._times = epsilon, delta, times
        self._shown = power_of_miss(delta, times)
        true = special.expit(epsilon)  # probability of a true answer, under P
        reach = math.sqrt(times * -math.log(UNLIKELY) / 2)  # Hoeffding's inequality
        first, last = max(0, math.floor(times * true - reach)), min(times, math.ceil(times * true + reach))
        heads = np.arange(first, last + 1)
        self._loss = epsilon * (2.0 * heads - times)  # [counts] log-likelihood ratio of so many true answers
        self._mass = np.asarray(stats.binom.pmf(heads, times, true), dtype=np.float64)  # under P
        self._lost = 2 * UNLIKELY if len(heads) <= times else 0.0  # of the other counts

    def _delta(self, epsilon: Floats, direction: str) -> Floats:
        above = -np.expm1(np.minimum(epsilon[..., None] - self._loss, 0.0))  # [..., counts]
        lost = np.where(epsilon < self._times * self._epsilon0, self._lost, 0.0)
        answered = np.minimum(1.0, (above * self._mass).sum(-1) + lost)
        return np.asarray(self._shown + (1 - self._shown) * answered, dtype=np.float64)

    def _epsilon(self, delta: Floats) -> Floats:
        found = smallest_epsilon(self._worst, delta, limit=self._shown)
        return np.where(delta >= self._shown, np.minimum(found, self._times * self._epsilon0), np.inf)

    def _corners(self) -> Floats:
        corners = np.unique(np.maximum(self._loss, 0.0))
        return corners[np.unique(np.linspace(0, len(corners) - 1, LINES).astype(np.int64))]

    def _composed(self, times: int, about: dict[str, Any]) -> Statement:
        """The optimal composition of so many (epsilon, delta) statements."""
        return Statement(self._epsilon0, self._delta0, self._times * times, **about)


class LeastRelease(PrivacyProfile):
    """A release of which several guarantees hold: at each epsilon the smallest delta of them."""

    def __init__(self, parts: tuple[PrivacyProfile, ...], **about: Any) -> None:
        super().__init__(**about)
        self._parts = self._supporting = parts  # of which the trade-off curves support the result's

    def _delta(self, epsilon: Floats, direction: str) -> Floats:
        with np.errstate(over="ignore"):  # a Renyi order that is of no use: the minimum takes another part
            return np.asarray(np.min([part._delta(epsilon, direction) for part in self._parts], axis=0))

    def _epsilon(self, delta: Floats) -> Floats:
        return np.asarray(np.min([part._epsilon(delta) for part in self._parts], axis=0))

    def _tradeoff(self, alpha: Floats) -> Floats:
        with np.errstate(over="ignore"):
            return np.asarray(np.max([part._tradeoff(alpha) for part in self._supporting], axis=0))

    def _composed(self, times: int, about: dict[str, Any]) -> PrivacyProfile:
        """Each guarantee composed by itself."""
        return LeastRelease(tuple(part.compose(times) for part in self._parts), **about)


class RepeatedRelease(LeastRelease):
    """``times`` releases of the mechanism ``once``, by guarantees that hold for all of them together."""

    def __init__(self, once: PrivacyProfile, times: int, parts: tuple[PrivacyProfile, ...], **about: Any) -> None:
        super().__init__(parts, **about)
        self._once, self._times = once, times

    def _composed(self, times: int, about: dict[str, Any]) -> PrivacyProfile:
        """Composed anew from the single release."""
        return self._once._composed(self._times * times, about)


def power_of_miss(probability: float, times: float) -> float:
    """``1 - (1 - probability)^times``, without losing digits where the probability is small."""
    if probability >= 1:
        return 1.0
    return float(-np.expm1(times * np.log1p(-probability)))
