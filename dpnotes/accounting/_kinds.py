"""Profiles in closed form: what a sample reveals, Gaussian noise, and a bare (epsilon, delta) statement."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special, stats

from dpnotes._validation import at_least_one
from dpnotes.accounting._calibration import log_delta_of
from dpnotes.accounting._profile import Floats, PrivacyProfile

UNLIKELY = 1e-300  # a probability that counts, but need not be known
LINES = 1000  # that support a trade-off curve, at most
BISECTIONS = 200  # halves any bracket of doubles to neighbouring numbers


class SampleRelease(PrivacyProfile):
    """A sample that holds the record with probability ``inclusion`` and has the same law as without it otherwise.

    ``both=False``: H_e(P || Q) = pi and H_e(Q || P) = max(0, 1 - e^epsilon (1 - pi)) (add-remove).
    ``both=True``: pi in either direction (replace-one). Proof in the bagging chapter.
    """

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

    def compose(self, times: int) -> SampleRelease:
        """Independent samples: the record is in one of them with probability 1 - (1 - pi)^times. Exact."""
        times = at_least_one("times", times)
        together = power_of_miss(self._inclusion, times)
        return SampleRelease(together, both=self._both, **self._about(times))


class GaussianRelease(PrivacyProfile):
    """Gaussian noise: the test between N(0, 1) and N(mu, 1), mu = sensitivity / sigma."""

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

    def _epsilon(self, delta: Floats) -> Floats:
        found = smallest_epsilon(lambda epsilon: self._delta(epsilon, "remove"), delta)
        return np.where(delta > 0, found, np.inf)  # no finite epsilon is pure; the doubles only underflow to it

    def _tradeoff(self, alpha: Floats) -> Floats:
        return np.asarray(stats.norm.cdf(stats.norm.isf(alpha) - self._mu), dtype=np.float64)

    def compose(self, times: int) -> GaussianRelease:
        """Variances of the log-likelihood ratio add: mu grows by the square root of ``times``. Exact."""
        times = at_least_one("times", times)
        return GaussianRelease(self._mu * float(np.sqrt(times)), **self._about(times))


class Statement(PrivacyProfile):
    """All that ``times`` mechanisms can do of which nothing is known but that each is (epsilon, delta)-DP.

    With probability delta the record is revealed, otherwise randomised response with e^epsilon answers
    (Kairouz, Oh, Viswanath 2015).
    """

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
        found = smallest_epsilon(lambda epsilon: self._delta(epsilon, "remove"), delta, limit=self._shown)
        return np.where(delta >= self._shown, np.minimum(found, self._times * self._epsilon0), np.inf)

    def _tradeoff(self, alpha: Floats) -> Floats:
        corners = np.unique(np.maximum(self._loss, 0.0))
        corners = corners[np.unique(np.linspace(0, len(corners) - 1, LINES).astype(np.int64))]
        return supported_tradeoff(1 - self._delta(corners, "remove"), corners, alpha)

    def compose(self, times: int) -> Statement:
        """The optimal composition of so many (epsilon, delta) statements."""
        times = at_least_one("times", times)
        return Statement(self._epsilon0, self._delta0, self._times * times, **self._about(times))


def supported_tradeoff(kept: Floats, epsilon: Floats, alpha: Floats) -> Floats:
    """Trade-off function as the upper envelope of the lines that ``kept = 1 - delta(epsilon)`` allows, both ways round.

    ``kept`` and ``epsilon`` have shape [lines]; fewer lines only lower the result, which is the private side.
    """
    alpha = alpha[..., None]
    with np.errstate(over="ignore", invalid="ignore"):  # e^epsilon alpha may be inf; at alpha = 0 nothing falls
        fall = np.where(alpha > 0, np.exp(epsilon) * alpha, 0.0)
    lines = np.maximum(kept - fall, np.exp(-epsilon) * (kept - alpha))
    return np.asarray(np.maximum(0.0, lines.max(-1)), dtype=np.float64)


def power_of_miss(probability: float, times: float) -> float:
    """``1 - (1 - probability)^times``, without losing digits where the probability is small."""
    if probability >= 1:
        return 1.0
    return float(-np.expm1(times * np.log1p(-probability)))


def smallest_epsilon(curve: Callable[[Floats], Floats], delta: Floats, *, limit: float = 0.0) -> Floats:
    """Smallest epsilon >= 0 with ``curve(epsilon) <= delta``, found from the private side; inf where delta < limit.

    ``curve`` falls with epsilon towards ``limit``; a delta equal to a limit that is only approached gives infinity.
    """
    low, high = np.zeros_like(delta), np.ones_like(delta)
    for _ in range(60):  # up to 2^60; beyond, no double epsilon is of use
        short = curve(high) > delta
        if not short.any():
            break
        high = np.where(short, 2 * high, high)
    reachable = curve(high) <= delta
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        enough = curve(middle) <= delta
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    found = np.where(curve(np.zeros_like(delta)) <= delta, 0.0, high)
    return np.where(reachable & (delta >= limit), found, np.inf)
