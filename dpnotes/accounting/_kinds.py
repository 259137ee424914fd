"""Profiles in closed form: what a sample reveals, Gaussian noise, and a bare (epsilon, delta) statement."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy import special, stats

from dpnotes.accounting._calibration import log_delta_of
from dpnotes.accounting._curves import LARGEST_EXPONENT, Atoms, Tail, smallest_epsilon
from dpnotes.accounting._profile import Floats, PrivacyProfile, Renyi, Terms
from dpnotes.accounting._renyi import Least, Line, Response, Total
from dpnotes.accounting._sampled_gaussian import sampled_gaussian_rdp

FAR = 40.0  # standard deviations beyond which a normal tail is below the doubles
UNLIKELY = 1e-300  # a probability that counts, but need not be known
LINES = 1000  # that support a trade-off curve, at most
MOST_COUNTS = 2**17  # of true answers that are told apart


class SampleRelease(PrivacyProfile):
    """A sample that holds the record with probability ``inclusion`` and is otherwise distributed as without it.

    ``both=False``: H_e(P || Q) = pi and H_e(Q || P) = max(0, 1 - e^epsilon (1 - pi)) (add-remove).
    ``both=True``: pi in either direction (zero-out, replace-one). Proof in the bagging chapter.
    """

    attained = True

    _family = "samples"

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

    def _merged(self, terms: Terms, about: dict[str, Any]) -> SampleRelease:
        """Independent samples: the record is in one of them with probability 1 - product of (1 - pi). Exact."""
        with np.errstate(divide="ignore"):
            missed = sum(times * float(np.log1p(-part._inclusion)) for part, times in terms)
        return SampleRelease(-math.expm1(missed), both=any(part._both for part, _ in terms), **about)

    def _renyi(self) -> Renyi:
        """Unless the record is drawn, the outputs are distributed alike."""
        return Renyi(Line(0.0), self._inclusion)

    def _ceiling(self) -> tuple[float, float]:
        return 0.0, self._inclusion

    def _group(self, size: int) -> SampleRelease:
        return SampleRelease(min(1.0, size * self._inclusion), both=True, **self._grouped(size))


class GaussianRelease(PrivacyProfile):
    """Gaussian noise: the test between N(0, 1) and N(mu, 1), mu = sensitivity / sigma."""

    symmetric = _never_pure = attained = True
    _family = "gaussian"

    def __init__(self, mu: float, **about: Any) -> None:
        super().__init__(**about)
        self._mu = mu

    def _delta(self, epsilon: Floats, direction: str) -> Floats:
        with np.errstate(all="ignore"):  # each form may overflow where the other is taken
            low = epsilon / self._mu - self._mu / 2
            # Phi(a) - e^epsilon Phi(b) as Phi(a) (1 - e^(epsilon + log Phi(b) - log Phi(a))), for delta near 1
            above, below = special.log_ndtr(-low), special.log_ndtr(-low - self._mu)
            head = np.exp(above) * -np.expm1(np.minimum(epsilon + below - above, 0.0))
            tail = np.exp(log_delta_of(np.full(low.shape or 1, self._mu), np.atleast_1d(epsilon))[0]).reshape(low.shape)
        value = np.where(low > -1, np.where(low < FAR, tail, 0.0), head)
        return np.where(np.isfinite(epsilon), value, 0.0) + 0.0  # no negative zero

    def _tradeoff(self, alpha: Floats) -> Floats:
        return np.asarray(stats.norm.cdf(stats.norm.isf(alpha) - self._mu), dtype=np.float64)

    def _merged(self, terms: Terms, about: dict[str, Any]) -> GaussianRelease:
        """Variances of the log-likelihood ratio add. Exact."""
        return GaussianRelease(math.hypot(*(math.sqrt(times) * part._mu for part, times in terms)), **about)

    def _renyi(self) -> Renyi:
        return Renyi(Line(self._mu**2 / 2))

    def _sampled_rdp(self, rate: float) -> Callable[[Floats], Floats]:
        return partial(sampled_gaussian_rdp, 1 / self._mu, rate)

    def _key(self) -> Hashable:
        return "gaussian", self._mu

    def _group(self, size: int) -> GaussianRelease:
        return GaussianRelease(size * self._mu, **self._grouped(size))


class Statement(PrivacyProfile):
    """All that mechanisms can do of which nothing is known but that each is (epsilon, delta)-DP.

    With probability delta the record is revealed, otherwise randomised response with e^epsilon answers (Kairouz, Oh,
    Viswanath 2015). ``levels`` are (epsilon, delta, times).
    """

    symmetric = True
    _family = "statements"

    def __init__(self, levels: Sequence[tuple[float, float, int]], **about: Any) -> None:
        super().__init__(**about)
        counted: dict[float, int] = {}
        missed = 0.0
        for epsilon, delta, times in levels:
            counted[epsilon] = counted.get(epsilon, 0) + times
            missed += times * (math.log1p(-delta) if delta < 1 else -math.inf)
        self._levels, self._shown = tuple(levels), -math.expm1(missed) + 0.0
        self._most = math.fsum(epsilon * times for epsilon, times in counted.items())
        loss, mass, self._lost = np.zeros(1), np.ones(1), 0.0
        for epsilon, times in counted.items():
            losses, masses, lost = randomised_responses(epsilon, times)
            loss, mass = (loss[:, None] + losses).ravel(), (mass[:, None] * masses).ravel()
            self._lost += lost
        order = np.argsort(loss, kind="stable")
        self._loss, self._mass = loss[order], mass[order]  # log-likelihood ratios, and their masses under P
        self._tail = Tail(self._loss, self._mass)

    def _delta(self, epsilon: Floats, direction: str) -> Floats:
        answered = np.where(epsilon < self._most, np.minimum(1.0, self._tail(epsilon) + self._lost), 0.0)
        return np.asarray(self._shown + (1 - self._shown) * answered, dtype=np.float64)

    def _epsilon(self, delta: Floats) -> Floats:
        found = smallest_epsilon(self._worst, delta, limit=self._shown)
        return np.where(delta >= self._shown, np.minimum(found, self._most), np.inf)

    def _corners(self) -> Floats:
        corners = np.unique(np.maximum(self._loss, 0.0))
        return corners[np.unique(np.linspace(0, len(corners) - 1, LINES).astype(np.int64))]

    def _merged(self, terms: Terms, about: dict[str, Any]) -> PrivacyProfile | None:
        """The optimal composition, as long as its losses can be listed."""
        levels = [(level, lost, count * times) for part, times in terms for level, lost, count in part._levels]
        if (
            math.prod(1 + count for level, _, count in levels if level) > MOST_COUNTS
            and len({at for at, *_ in levels}) > 1
        ):
            return None
        return Statement(levels, **about)

    def _key(self) -> Hashable:
        return "statement", self._levels

    def _atoms(self) -> tuple[Atoms, Atoms]:
        atoms = self._loss, (1 - self._shown) * self._mass, min(1.0, self._shown + self._lost)
        return atoms, atoms

    def _scale(self) -> float:
        return math.sqrt(sum(count * level * math.tanh(level / 2) for level, _, count in self._levels))

    def _renyi(self) -> Renyi:
        return Renyi(Total(tuple((count, Response(level)) for level, _, count in self._levels)), self._shown)

    def _ceiling(self) -> tuple[float, float]:
        return self._most, self._shown

    def _group(self, size: int) -> Statement:
        levels = []
        for epsilon, delta, times in self._levels:
            if delta > 0:  # sum of e^(i epsilon) delta over i < size
                terms = size if epsilon == 0 else math.expm1(-size * epsilon) / math.expm1(-epsilon)
                delta = min(1.0, delta * terms * math.exp(min(LARGEST_EXPONENT, (size - 1) * epsilon)))
            levels.append((size * epsilon, delta, times))
        return Statement(levels, **self._grouped(size))


class LeastRelease(PrivacyProfile):
    """A release of which several guarantees hold: at each epsilon the smallest delta of them."""

    _beyond_pair = True

    def __init__(self, bounds: tuple[PrivacyProfile, ...], **about: Any) -> None:
        super().__init__(**about)
        self._bounds = bounds

    @property
    def _ready(self) -> bool:  # type: ignore[override]
        return all(bound._ready for bound in self._bounds)

    def _delta(self, epsilon: Floats, direction: str) -> Floats:
        return np.asarray(np.min([bound._delta(epsilon, direction) for bound in self._bounds], axis=0))

    def _rough(self, epsilon: Floats, direction: str) -> Floats:
        return np.asarray(np.min([bound._rough(epsilon, direction) for bound in self._bounds], axis=0))

    def _epsilon(self, delta: Floats) -> Floats:
        return np.asarray(np.min([bound._epsilon(delta) for bound in self._bounds], axis=0))

    def _tradeoff(self, alpha: Floats) -> Floats:
        return np.asarray(np.max([bound._tradeoff(alpha) for bound in self._bounds], axis=0))

    def _renyi(self) -> Renyi:
        found = [bound._renyi() for bound in self._bounds]
        failure = min(each.failure for each in found)
        return Renyi(Least(tuple(each.curve for each in found if each.failure == failure)), failure)

    def _ceiling(self) -> tuple[float, float]:
        return min(bound._ceiling() for bound in self._bounds)

    def _group(self, size: int) -> PrivacyProfile:
        return LeastRelease(tuple(bound.group(size) for bound in self._bounds), **self._grouped(size))


def randomised_responses(epsilon: float, times: int) -> tuple[Floats, Floats, float]:
    """Losses of so many answers of e^epsilon, ascending, their masses under P, and the mass that is left out."""
    if epsilon == 0:
        return np.zeros(1), np.ones(1), 0.0
    true = float(special.expit(epsilon))  # probability of a true answer, under P
    reach = math.sqrt(times * -math.log(UNLIKELY) / 2)  # Hoeffding's inequality
    first, last = max(0, math.floor(times * true - reach)), min(times, math.ceil(times * true + reach))
    lost = 2 * UNLIKELY if last - first < times else 0.0
    stride = max(1, math.ceil((last - first + 1) / MOST_COUNTS))
    heads = np.arange(first, last + 1) if stride == 1 else np.arange(first, last + stride, stride, dtype=np.float64)
    with np.errstate(under="ignore", over="ignore"):
        if stride == 1:
            masses = stats.binom.pmf(heads, times, true)
        else:  # so many counts together, at the largest loss of them
            below, above = stats.binom.cdf(heads, times, true), stats.binom.sf(heads, times, true)
            rise, fall = np.diff(below, prepend=0.0), -np.diff(above, prepend=1.0)
            masses = np.maximum(0.0, np.where(below < 0.5, rise, fall))  # each tail from its own end
            lost += float(stats.binom.sf(heads[-1], times, true))
        losses = np.minimum(epsilon * (2.0 * heads - times), 1e308)
    return losses, np.asarray(masses, dtype=np.float64), lost


def power_of_miss(probability: float, times: float) -> float:
    """``1 - (1 - probability)^times``, without losing digits where the probability is small."""
    if probability >= 1:
        return 1.0
    return float(-np.expm1(times * np.log1p(-probability)))
