"""Profiles known through their privacy loss distribution, and composition of unlike parts.

The arithmetic of distributions is that of ``dp_accounting``, which is imported on first use: it takes longer to load
than the rest of this package.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dpnotes import _validation as check
from dpnotes.accounting._kinds import GaussianRelease, SampleRelease, Statement, smallest_epsilon
from dpnotes.accounting._laplace import LaplaceRelease
from dpnotes.accounting._profile import DIRECTIONS, STATUSES, Floats, PrivacyProfile
from dpnotes.accounting._renyi import Line, RenyiRelease, Total

INTERVAL = 1e-4  # of the grid of privacy losses
MOST_POINTS = 2**21  # of one grid: 16 MB, a few seconds for each composition
LARGEST_EXPONENT = 700.0  # e^700 is a double
TAIL = 1e-15  # mass that composition may move to infinity
GRID = np.concatenate([[0.0], np.geomspace(1e-4, LARGEST_EXPONENT, 3000)])  # epsilons that support a trade-off curve


class LossDistribution(PrivacyProfile):
    """A mechanism known through the distribution of its privacy loss on a grid, rounded to the private side.

    The distribution is that of ``dp_accounting``: its "remove" half is the loss log dP/dQ under P, the output *with*
    the record, its "add" half the loss log dQ/dP under Q. Composition is convolution by Fourier transform, whose
    rounding shows as negative masses: they are set to 0, and twice their sum counts as infinite loss. What is below
    about 1e-15 per composition cannot be certified: smaller deltas have epsilon = infinity.
    """

    def __init__(self, distribution: Any, **about: Any) -> None:
        super().__init__(**about)
        self._distribution = distribution
        self._tails = {
            "remove": _Tail(distribution._pmf_remove),
            "add": _Tail(distribution._pmf_add),
        }

    def _delta(self, epsilon: Floats, direction: str) -> Floats:
        return self._tails[direction].delta(epsilon)

    def _epsilon(self, delta: Floats) -> Floats:
        return smallest_epsilon(lambda epsilon: either(self, epsilon), delta)

    def _tradeoff(self, alpha: Floats) -> Floats:
        corners = np.concatenate([[0.0], *(tail.losses for tail in self._tails.values())])
        return tradeoff_of_profile(self, np.unique(corners[corners <= LARGEST_EXPONENT]), alpha)

    def compose(self, times: int) -> LossDistribution:
        """Losses of independent releases add: convolution, with at most 1e-15 of mass moved to infinite loss."""
        times = check.at_least_one("times", times)
        if times == 1:
            return self
        return LossDistribution(self_composed(self._distribution, times), **self._about(times))


class _Tail:
    """Positive losses of one direction, with running sums from the right, so that a query is one look-up."""

    def __init__(self, pmf: Any) -> None:
        dense = pmf.to_dense_pmf()
        masses = np.asarray(dense._probs, dtype=np.float64)
        losses = (np.arange(len(masses)) + dense._lower_loss) * dense._discretization
        self.infinite = min(1.0, float(dense._infinity_mass) - 2 * float(np.minimum(masses, 0.0).sum()))
        kept = (losses > 0) & (masses > 0)  # no epsilon >= 0 sees the others
        self.losses: Floats = losses[kept]
        masses = masses[kept]
        self._above = np.append(np.cumsum(masses[::-1])[::-1], 0.0)  # mass under P at this loss or above
        with np.errstate(divide="ignore"):
            below = np.logaddexp.accumulate((np.log(masses) - self.losses)[::-1])[::-1]
        self._log_below = np.append(below, -np.inf)  # the same under Q, in logarithms: e^-loss underflows

    def delta(self, epsilon: Floats) -> Floats:
        index = np.searchsorted(self.losses, epsilon, side="right")
        log_below = self._log_below[index]
        finite = np.where(np.isinf(log_below), 0.0, epsilon)  # epsilon may be infinite beyond the last loss
        share = np.exp(np.minimum(finite + log_below, 0.0))
        return np.asarray(np.clip(self.infinite + self._above[index] - share, self.infinite, 1.0), dtype=np.float64)


class CurveRelease(PrivacyProfile):
    """A mechanism whose delta is known in both directions, from curves that some pair of distributions attains.

    Everything else follows from them, composition by the loss distribution of that pair.
    """

    never_pure = False  # no finite epsilon has delta = 0, though the doubles underflow to it

    def _epsilon(self, delta: Floats) -> Floats:
        found = smallest_epsilon(lambda epsilon: either(self, epsilon), delta)
        return np.where(delta > 0, found, np.inf) if self.never_pure else found

    def _tradeoff(self, alpha: Floats) -> Floats:
        return tradeoff_of_profile(self, GRID, alpha)

    def compose(self, times: int) -> PrivacyProfile:
        """Convolution of the privacy loss distribution, at intervals of 1e-4."""
        times = check.at_least_one("times", times)
        if times == 1:
            return self
        return LossDistribution(self_composed(distribution_of(self), times), **self._about(times))


def compose(
    first: PrivacyProfile, second: PrivacyProfile, *others: PrivacyProfile, interval: float | None = None
) -> PrivacyProfile:
    """Guarantee of releasing all of several mechanisms, each with its own randomness, on the same data.

    Exact where the kinds agree (Gaussian noise with Gaussian noise, samples with samples); Renyi curves add, also
    with Gaussian noise; everything else goes by privacy loss distributions, rounded to the private side.

    Parameters
    ----------
    first, second, *others : PrivacyProfile
        All for the same adjacency. For many releases of one mechanism, ``profile.compose(times)``.
    interval : float, > 0, or None
        Distance of the privacy losses on the grid, in units of epsilon; used for unlike kinds only. None: that of the
        parts that already are loss distributions (it must be the same for all), else 1e-4.

    Returns
    -------
    PrivacyProfile
        Its status is the weakest of the parts'.

    Raises
    ------
    ValueError
        If the adjacencies differ, a Renyi curve meets a kind that has none, the intervals differ, or the losses need
        more than 2^21 points.
    TypeError
        If an argument is no PrivacyProfile.

    Source
    ------
    Sommer, Meiser and Mohammadi (2019); Doroshenko, Ghazi, Kamath, Kumar and Manurangsi (2022) for the rounding.

    Examples
    --------
    >>> from dpnotes.accounting import approximate, gaussian
    >>> round(compose(gaussian(sigma=3.0), gaussian(sigma=4.0)).delta(1.0), 12)  # as gaussian(sigma=2.4)
    0.001835742776
    >>> compose(gaussian(sigma=3.0), approximate(0.2, 1e-6)).epsilon(1e-5) < gaussian(sigma=3.0).epsilon(9e-6) + 0.2
    True
    """
    parts = [first, second, *others]
    for index, part in enumerate(parts):
        a_profile(f"profile {index + 1}", part)
    if interval is not None:
        interval = check.positive("interval", interval)
    adjacencies = sorted({part.adjacency for part in parts})
    if len(adjacencies) > 1:
        raise ValueError(
            f"adjacency must be the same for all profiles, got {' and '.join(adjacencies)}; "
            "the guarantees speak of different neighbours, so nothing follows for either"
        )
    about: dict[str, Any] = {
        "mechanism": "compose",
        "parameters": {"parts": [part_of(part) for part in parts]},
        "adjacency": adjacencies[0],
        "status": max((part.status for part in parts), key=STATUSES.index),
        "assumption": joined([part.assumption for part in parts]),
        "source": joined([part.source for part in parts]),
        "remark": joined([part.remark for part in parts]),
    }
    gaussians = [part for part in parts if isinstance(part, GaussianRelease)]
    samples = [part for part in parts if isinstance(part, SampleRelease)]
    renyis = [part for part in parts if isinstance(part, RenyiRelease)]
    if len(gaussians) == len(parts):
        return GaussianRelease(math.hypot(*(part._mu for part in gaussians)), **about)
    if len(samples) == len(parts):
        with np.errstate(divide="ignore"):
            missed = sum(float(np.log1p(-part._inclusion)) for part in samples)
        return SampleRelease(-math.expm1(missed), both=any(part._both for part in samples), **about)
    if renyis:
        for index, part in enumerate(parts):
            if not isinstance(part, RenyiRelease | GaussianRelease):
                raise ValueError(
                    f"profile {index + 1} ({part.mechanism}) has no Renyi curve, so that it cannot be composed with "
                    f"{renyis[0].mechanism}, which is known by its Renyi curve only; use loss distributions for all"
                )
        halves = sum(part._mu**2 for part in gaussians) / 2
        return RenyiRelease(Total(((1, Line(halves)), *((1, part._curve) for part in renyis))), **about)
    if interval is None:
        own = [part._distribution._pmf_remove._discretization for part in parts if isinstance(part, LossDistribution)]
        interval = own[0] if own else INTERVAL
    distribution = distribution_of(parts[0], interval)
    for part in parts[1:]:
        other = distribution_of(part, interval)
        _same_interval(distribution, other)
        points = sum(_span(one) for one in (distribution, other))
        _enough_points(points, interval)
        distribution = distribution.compose(other, tail_mass_truncation=TAIL)
    return LossDistribution(distribution, **about)


def distribution_of(profile: PrivacyProfile, interval: float = INTERVAL) -> Any:
    """Privacy loss distribution of ``dp_accounting`` that dominates a profile, both directions, losses on a grid."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    if isinstance(profile, LossDistribution):
        return profile._distribution
    if isinstance(profile, GaussianRelease):
        mu = profile._mu
        _enough_points(2 * (mu * mu / 2 + 10 * mu) / interval, interval)
        return pld.from_gaussian_mechanism(1 / mu, value_discretization_interval=interval)
    if isinstance(profile, SampleRelease):
        pi = profile._inclusion
        if profile._both:
            return _of_atoms([0.0], [1 - pi], pi, interval)
        if pi == 1:
            return _of_atoms([0.0], [0.0], 1.0, interval)
        miss = float(np.log1p(-pi))
        return _of_atoms([miss], [1 - pi], pi, interval, add=([-miss], [1.0], 0.0))
    if isinstance(profile, Statement):
        shown = profile._shown
        losses = np.asarray(profile._loss, dtype=np.float64)
        return _of_atoms(losses, (1 - shown) * profile._mass, shown, interval)
    if isinstance(profile, LaplaceRelease):
        _enough_points(2 * profile._pure / interval, interval)
        one = pld.from_laplace_mechanism(1 / profile._pure, value_discretization_interval=interval)
        return self_composed(one, profile._times)
    if isinstance(profile, CurveRelease):
        return _of_curves(profile, interval)
    raise ValueError(f"{profile.mechanism} has no privacy loss distribution; it is known by its Renyi curve only")


def of_sampled_gaussian(sigma: float, rate: float, interval: float) -> Any:
    """Distribution of one step of DP-SGD with sample rate in (0, 1): that of ``dp_accounting``, all losses at once.

    There the point where the loss reaches epsilon is found for one epsilon after the other, in Python; the rest is its.
    """
    from dp_accounting.pld import pld_pmf
    from dp_accounting.pld import privacy_loss_distribution as pld
    from dp_accounting.pld.privacy_loss_mechanism import AdjacencyType, GaussianPrivacyLoss

    absent = math.log1p(-rate)  # the loss where the record left no trace

    def half(adjacency: AdjacencyType, sign: int) -> Any:
        loss = GaussianPrivacyLoss(sigma, sampling_prob=rate, adjacency_type=adjacency)
        bounds = loss.connect_dots_bounds()
        first, last = math.floor(bounds.epsilon_lower / interval), math.ceil(bounds.epsilon_upper / interval)
        epsilons = np.arange(first, last + 1) * interval
        deltas = np.maximum(0.0, -np.expm1(epsilons))  # where all outputs, or none, have a larger loss
        reached = np.flatnonzero(sign * epsilons > absent)
        epsilon = epsilons[reached]
        of_sampled = sign * epsilon + np.log(-np.expm1(absent - sign * epsilon)) - math.log(rate)
        place = -sign * (0.5 + sigma**2 * of_sampled)
        deltas[reached] = loss.mu_upper_cdf(place) - np.exp(epsilon + loss.mu_lower_log_cdf(place))
        return pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(interval, first, last, deltas.clip(0.0, 1.0))

    return pld.PrivacyLossDistribution(half(AdjacencyType.REMOVE, 1), half(AdjacencyType.ADD, -1))


def self_composed(distribution: Any, times: int) -> Any:
    """``times``-fold convolution; refuses what would not fit in memory."""
    from dp_accounting.pld import common

    for pmf in (distribution._pmf_remove, distribution._pmf_add):
        dense = pmf.to_dense_pmf()
        low, high = common.compute_self_convolve_bounds(dense._probs, times, TAIL)
        _enough_points(high - low, dense._discretization)
    return distribution.self_compose(times, tail_mass_truncation=TAIL)


def tradeoff_of_profile(profile: PrivacyProfile, epsilons: Floats, alpha: Floats) -> Floats:
    """Trade-off curve supported by the lines that delta allows at sorted ``epsilons``; fewer lines only lower it."""
    kept = 1 - either(profile, epsilons)
    right = _largest(kept, np.exp(epsilons), alpha)
    left = _largest((np.exp(-epsilons) * kept)[::-1], np.exp(-epsilons)[::-1], alpha)
    return np.maximum(0.0, np.maximum(right, left))


def _largest(intercept: Floats, slope: Floats, alpha: Floats) -> Floats:
    """``max(intercept - slope * alpha)``, by the place where the rise of the concave intercepts passes alpha."""
    rise = np.minimum.accumulate(np.diff(intercept) / np.diff(slope))
    index = len(rise) - np.searchsorted(rise[::-1], alpha, side="left")
    return np.asarray(intercept[index] - slope[index] * alpha, dtype=np.float64)


def either(profile: PrivacyProfile, epsilon: Floats) -> Floats:
    remove, add = (profile._delta(epsilon, direction) for direction in DIRECTIONS)
    return np.asarray(np.maximum(remove, add), dtype=np.float64)


def _of_atoms(
    losses: Sequence[float] | Floats,
    masses: Sequence[float] | Floats,
    infinite: float,
    interval: float,
    add: tuple[Sequence[float], Sequence[float], float] | None = None,
) -> Any:
    from dp_accounting.pld import privacy_loss_distribution as pld

    remove = _on_grid(np.asarray(losses), np.asarray(masses), infinite, interval)
    return pld.PrivacyLossDistribution(
        remove, None if add is None else _on_grid(np.asarray(add[0]), np.asarray(add[1]), add[2], interval)
    )


def _on_grid(losses: Floats, masses: Floats, infinite: float, interval: float) -> Any:
    """Each atom shared between its two grid points so that both its masses, under P and under Q, are kept."""
    from dp_accounting.pld import pld_pmf

    _enough_points(float(np.ptp(losses)) / interval, interval)
    lower = np.floor(losses / interval)
    ahead = losses - lower * interval  # in [0, interval)
    share = np.clip(np.expm1(-ahead) / np.expm1(-interval), 0.0, 1.0)  # to the upper point
    first = int(lower.min())
    grid = np.zeros(int(lower.max()) - first + 2)
    np.add.at(grid, (lower - first).astype(np.int64), masses * (1 - share))
    np.add.at(grid, (lower - first).astype(np.int64) + 1, masses * share)
    used = {first + int(index): float(grid[index]) for index in np.flatnonzero(grid)} or {0: 0.0}
    return pld_pmf.create_pmf(used, interval, infinite, True)


def _of_curves(profile: PrivacyProfile, interval: float) -> Any:
    """Dominating distribution of a profile whose delta is known in both directions: straight in e^epsilon between."""
    from dp_accounting.pld import pld_pmf
    from dp_accounting.pld import privacy_loss_distribution as pld

    last = 1.0
    while last < 2**12 and (either(profile, np.array(last)) - either(profile, np.array(2.0**40))) > 1e-18:
        last *= 2
    count = math.ceil(last / interval)
    _enough_points(2 * count + 1, interval)
    epsilons: Floats = np.arange(count + 1, dtype=np.float64) * interval
    one, two = (profile._delta(epsilons, direction) for direction in DIRECTIONS)

    def half(above: Floats, other: Floats) -> Any:
        below = 1 - np.exp(-epsilons[:0:-1]) * (1 - other[:0:-1])  # H_e at a negative epsilon, by the other direction
        deltas = np.concatenate([below, above])
        return pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(interval, -count, count, deltas)

    return pld.PrivacyLossDistribution(half(one, two), half(two, one))


def _span(distribution: Any) -> int:
    return max(int(pmf.to_dense_pmf().size) for pmf in (distribution._pmf_remove, distribution._pmf_add))


def _enough_points(points: float, interval: float) -> None:
    if points > MOST_POINTS:
        least = interval * points / MOST_POINTS
        raise ValueError(
            f"interval must be >= {least:.1g} for losses so far apart, got interval={interval:g}; the grid would "
            f"have {points:.2g} points"
        )


def _same_interval(one: Any, other: Any) -> None:
    first, second = one._pmf_remove._discretization, other._pmf_remove._discretization
    if first != second:
        raise ValueError(f"interval must be that of the loss distributions given, got {first:g} and {second:g}")


def a_profile(name: str, value: object) -> None:
    if not isinstance(value, PrivacyProfile):
        raise TypeError(f"{name} must be a PrivacyProfile, got {value!r}")


def part_of(profile: PrivacyProfile) -> dict[str, Any]:
    return {"mechanism": profile.mechanism, **profile.parameters}


def joined(words: Sequence[str]) -> str:
    return "; ".join(dict.fromkeys(word for word in words if word))
