"""The one adapter to ``dp_accounting``: privacy loss distributions on a grid, and their convolution."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from dp_accounting.pld import common, pld_pmf
from dp_accounting.pld import privacy_loss_distribution as pld
from dp_accounting.pld.privacy_loss_mechanism import AdjacencyType, GaussianPrivacyLoss
from numpy.typing import ArrayLike

from dpnotes._validation import Floats

MOST_POINTS = 2**21  # of one grid: 16 MB, a few seconds for each composition
TAIL = 1e-15  # mass that composition may move to infinity

Atoms = tuple[ArrayLike, ArrayLike, float]  # losses, masses, mass at infinity


def gaussian(mu: float, interval: float) -> Any:
    """Distribution of Gaussian noise."""
    enough_points(2 * (mu * mu / 2 + 10 * mu) / interval, interval)
    return pld.from_gaussian_mechanism(1 / mu, value_discretization_interval=interval)


def laplace(pure: float, interval: float) -> Any:
    """Distribution of Laplace noise of scale sensitivity / ``pure``."""
    enough_points(2 * pure / interval, interval)
    return pld.from_laplace_mechanism(1 / pure, value_discretization_interval=interval)


def sampled_gaussian(sigma: float, rate: float, interval: float) -> Any:
    """Distribution of one step of DP-SGD with sample rate in (0, 1), as ``dp_accounting`` gives it.

    There the point where the loss reaches epsilon is found for one epsilon after the other, in Python, and here for all
    epsilons at once; the rounding to the grid is that of ``dp_accounting``.
    """
    enough_points((10 / sigma + 0.5 / sigma**2) / interval, interval)  # noise beyond 10 sigma is cut, mass below e^-50
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


def of_atoms(remove: Atoms, add: Atoms | None, interval: float) -> Any:
    """Distribution of finitely many losses in each direction; None: the same in both."""
    return pld.PrivacyLossDistribution(_on_grid(*remove, interval), None if add is None else _on_grid(*add, interval))


def grid(last: float, interval: float) -> Floats:
    """The multiples of ``interval`` from 0 to at least ``last``, for :func:`of_curves`."""
    count = math.ceil(last / interval)
    enough_points(2 * count + 1, interval)
    return np.arange(count + 1, dtype=np.float64) * interval


def of_curves(remove: Floats, add: Floats, epsilons: Floats, interval: float) -> Any:
    """Dominating distribution of deltas known at the points of a :func:`grid`: straight in e^epsilon between them."""
    count = len(epsilons) - 1

    def half(above: Floats, other: Floats) -> Any:
        below = 1 - np.exp(-epsilons[:0:-1]) * (1 - other[:0:-1])  # H_e at a negative epsilon, by the other direction
        deltas = np.concatenate([below, above])
        return pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(interval, -count, count, deltas)

    return pld.PrivacyLossDistribution(half(remove, add), half(add, remove))


def self_composed(distribution: Any, times: int) -> Any:
    """``times``-fold convolution; refuses what would not fit in memory."""
    if times == 1:
        return distribution
    for pmf in (distribution._pmf_remove, distribution._pmf_add):
        dense = pmf.to_dense_pmf()
        low, high = common.compute_self_convolve_bounds(dense._probs, times, TAIL)
        enough_points(high - low, dense._discretization)
    return distribution.self_compose(times, tail_mass_truncation=TAIL)


def composed(first: Any, second: Any) -> Any:
    """Convolution of two distributions on grids of the same interval; refuses what would not fit in memory."""
    spans = [max(pmf.to_dense_pmf().size for pmf in (one._pmf_remove, one._pmf_add)) for one in (first, second)]
    enough_points(sum(spans), interval_of(first))
    return first.compose(second, tail_mass_truncation=TAIL)


def interval_of(distribution: Any) -> float:
    """Distance of the points of a distribution's grid."""
    return float(distribution._pmf_remove._discretization)


def enough_points(points: float, interval: float) -> None:
    """Raise ValueError, with an interval that would do, if a grid would have too many points."""
    if points > MOST_POINTS:
        least = interval * points / MOST_POINTS
        raise ValueError(
            f"interval must be >= {least:.1g} for losses so far apart, got interval={interval:g}; the grid would "
            f"have {points:.2g} points"
        )


def _on_grid(losses: ArrayLike, masses: ArrayLike, infinite: float, interval: float) -> Any:
    """Each atom divided between its two grid points so that both its masses, under P and under Q, are kept."""
    losses, masses = np.asarray(losses), np.asarray(masses)
    enough_points(float(np.ptp(losses)) / interval, interval)
    lower = np.floor(losses / interval)
    ahead = losses - lower * interval  # in [0, interval)
    upper = np.clip(np.expm1(-ahead) / np.expm1(-interval), 0.0, 1.0)  # fraction that goes to the upper point
    first = int(lower.min())
    points = np.zeros(int(lower.max()) - first + 2)
    np.add.at(points, (lower - first).astype(np.int64), masses * (1 - upper))
    np.add.at(points, (lower - first).astype(np.int64) + 1, masses * upper)
    used = {first + int(index): float(points[index]) for index in np.flatnonzero(points)} or {0: 0.0}
    return pld_pmf.create_pmf(used, interval, infinite, True)
