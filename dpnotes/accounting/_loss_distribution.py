"""Profiles known through their privacy loss distribution.

The arithmetic of distributions is in ``_pld``, which is imported on first use: ``dp_accounting`` takes longer to load
than the rest of this package.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpnotes.accounting._curves import LARGEST_EXPONENT, sorted_tradeoff
from dpnotes.accounting._kinds import GaussianRelease, RepeatedRelease, SampleRelease, Statement
from dpnotes.accounting._laplace import LaplaceRelease
from dpnotes.accounting._profile import DIRECTIONS, Floats, PrivacyProfile

INTERVAL = 1e-4  # of the grid of privacy losses
GRID = np.concatenate([[0.0], np.geomspace(1e-4, LARGEST_EXPONENT, 3000)])  # epsilons that support a trade-off curve


class CurveRelease(PrivacyProfile):
    """A mechanism whose delta is known in both directions, from curves that some pair of distributions attains.

    Everything else follows from them, composition by the loss distribution of that pair.
    """

    def _tradeoff(self, alpha: Floats) -> Floats:
        corners = self._corners()
        return sorted_tradeoff(1 - self._worst(corners), corners, alpha)

    def _corners(self) -> Floats:
        return GRID

    def _composed(self, times: int, about: dict[str, Any]) -> LossDistribution:
        """Losses of independent releases add: convolution, with at most 1e-15 of mass moved to infinite loss."""
        from dpnotes.accounting import _pld

        return LossDistribution(_pld.self_composed(distribution_of(self), times), **about)


class LossDistribution(CurveRelease):
    """A mechanism known through the distribution of its privacy loss on a grid, rounded to the private side.

    The distribution is that of ``dp_accounting``: its "remove" half is the loss log dP/dQ under P, the output *with*
    the record, its "add" half the loss log dQ/dP under Q. Composition is convolution by Fourier transform, whose
    rounding shows as negative masses: they are set to 0, and twice their sum counts as infinite loss. What is below
    about 1e-15 per composition cannot be certified: smaller deltas have epsilon = infinity.
    """

    def __init__(self, distribution: Any, **about: Any) -> None:
        super().__init__(**about)
        self._distribution = distribution
        self._tails = {"remove": _Tail(distribution._pmf_remove), "add": _Tail(distribution._pmf_add)}

    def _delta(self, epsilon: Floats, direction: str) -> Floats:
        return self._tails[direction].delta(epsilon)

    def _corners(self) -> Floats:
        corners = np.concatenate([[0.0], *(tail.losses for tail in self._tails.values())])
        return np.unique(corners[corners <= LARGEST_EXPONENT])


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
        below = np.exp(np.minimum(finite + log_below, 0.0))
        return np.asarray(np.clip(self.infinite + self._above[index] - below, self.infinite, 1.0), dtype=np.float64)


def distribution_of(profile: PrivacyProfile, interval: float = INTERVAL) -> Any:
    """Privacy loss distribution of ``dp_accounting`` that dominates a profile, both directions, losses on a grid."""
    from dpnotes.accounting import _pld

    if isinstance(profile, LossDistribution):
        return profile._distribution
    if isinstance(profile, GaussianRelease):
        return _pld.gaussian(profile._mu, interval)
    if isinstance(profile, LaplaceRelease):
        return _pld.laplace(profile._pure, interval)
    if isinstance(profile, RepeatedRelease):
        return _pld.self_composed(distribution_of(profile._once, interval), profile._times)
    if isinstance(profile, SampleRelease):
        pi = profile._inclusion
        if profile._both or pi == 1:
            return _pld.of_atoms(([0.0], [1 - pi], pi), None, interval)
        miss = float(np.log1p(-pi))
        return _pld.of_atoms(([miss], [1 - pi], pi), ([-miss], [1.0], 0.0), interval)
    if isinstance(profile, Statement):
        return _pld.of_atoms((profile._loss, (1 - profile._shown) * profile._mass, profile._shown), None, interval)
    if isinstance(profile, CurveRelease):
        last = 1.0
        while last < 2**12 and (profile._worst(np.array(last)) - profile._worst(np.array(2.0**40))) > 1e-18:
            last *= 2
        epsilons = _pld.grid(last, interval)
        remove, add = (profile._delta(epsilons, direction) for direction in DIRECTIONS)
        return _pld.of_curves(remove, add, epsilons, interval)
    raise ValueError(f"{profile.mechanism} has no privacy loss distribution; it is known by its Renyi curve only")
