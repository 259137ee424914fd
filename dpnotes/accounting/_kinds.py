"""Kinds of releases: the curve delta(epsilon) of each kind, and the composition of
releases.

A kind derives from :class:`Release`. It must define ``delta``. Everything else has a
default that follows from this curve. A kind may override any of the following methods
where it has a better result:

* ``delta(epsilon, direction)``: the curve, from array to array. ``epsilon`` and
  ``tradeoff`` follow from it.
* ``renyi()``: a :class:`Renyi` curve for both directions, with the probability that it
  fails. The default is the divergence of the pair of distributions that the curve
  defines.
* ``atoms()``: privacy losses that dominate the mechanism, in both directions. The
  default is the losses of this pair.
* ``sampled_rdp(rate)``: the Renyi curve of the mechanism on a Poisson sample, if there
  is a special form.
* ``ceiling()``: one (epsilon, delta) beyond which a larger epsilon does not lower
  delta, for example a pure level.
* ``family`` and ``merged(terms)``: the name of a family ("" for none), and an exact
  composition of its parts.
* ``terms()``: the independent parts of a composition, each with the number of times
  that it occurs.
* ``group(size)``: the guarantee for several records at once.

What each kind overrides, besides ``delta`` (a kind with a dash derives from
the last one without):

=================== ======================================================= =========
kind                overrides                                               family
=================== ======================================================= =========
GroupRelease        rough, ceiling
LossDistribution
MixtureRelease      renyi, ceiling, group
ExchangeRelease
OverlapRelease      group
PerturbedLoss
SampleRelease       epsilon, tradeoff, renyi, ceiling, merged, group        samples
- SampleGroup
GaussianRelease     tradeoff, renyi, sampled_rdp, merged, group             gaussian
LaplaceRelease      epsilon, tradeoff, renyi, ceiling, group
BoundedRangeRelease tradeoff, renyi, ceiling, group
LevelsRelease       epsilon, atoms, scale, renyi, ceiling, merged, group    levels
RenyiRelease        rough, epsilon, renyi, merged, group                    renyi
ConvertedRelease    renyi, merged                                           converted
LeastRelease        rough, epsilon, tradeoff, renyi, ceiling, group
- ComposedRelease   renyi, ceiling, terms, group
=================== ======================================================= =========

Composition (:func:`together`) needs nothing else, so any two kinds compose. It counts
equal releases together. Two releases of one dataclass are equal if their parameters
are; any other release, and a dataclass with ``eq=False``, is equal only to itself.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
import scipy
from scipy import special

from dpnotes._validation import Floats, floats
from dpnotes.accounting._curves import (
    LARGEST_EXPONENT,
    Atoms,
    Pair,
    Tail,
    log_delta_of,
    on_private_side,
    pair_of,
    smallest_epsilon,
    supported_tradeoff,
)
from dpnotes.accounting._losses import Losses, natural_interval, on_grid, total, trimmed
from dpnotes.accounting._renyi import (
    Curve,
    Line,
    Renyi,
    Response,
    Smallest,
    Tabulated,
    Total,
    best_order,
    conversion,
    laplace_rdp,
    sampled_gaussian_rdp,
)

DIRECTIONS = ("remove", "add")
FAR = 40.0  # standard deviations beyond which a normal tail is below the doubles
UNLIKELY = 1e-300  # a probability that counts, but need not be known
LINES = 1000  # that support a trade-off curve, at most
MOST_COUNTS = 2**17  # of true answers that are told apart
# epsilons that support a trade-off curve
GRID = np.concatenate([[0.0], np.geomspace(1e-4, LARGEST_EXPONENT, 3000)])
# beyond so many cells, up to that part of the std
COARSER = ((2**12, 0.025), (2**14, 0.15), (2**17, math.inf))

Terms = list[tuple[Any, int]]  # releases, each with how often it is made


class Release(ABC):
    """Known facts about a release: delta as a function of epsilon, and everything
    that follows from it.
    """

    symmetric: bool = False  # delta is the same in both directions
    # no finite epsilon has delta = 0, though the doubles underflow to it
    never_pure: bool = False
    attained: bool = False  # the curve is that of some pair of adjacent data sets
    # the curve is an upper bound, whatever it is made of
    bounds_only: ClassVar[bool] = False
    # its Renyi curve says more than the losses of the pair that has its deltas
    beyond_pair: ClassVar[bool] = False
    ready: bool = True  # a delta costs little
    remark: ClassVar[str] = ""  # how the curve was found, where a profile should say it
    family: ClassVar[str] = ""

    @abstractmethod
    def delta(self, epsilon: Floats, direction: str) -> Floats:
        """Delta at each epsilon, in one direction."""

    def rough(self, epsilon: Floats, direction: str) -> Floats:
        """Delta at thousands of epsilons, or an upper bound of it that costs less to
        compute.
        """
        return self.delta(epsilon, direction)

    def worst(self, epsilon: Floats, *, rough: bool = False) -> Floats:
        """Delta, or the rough one, in the direction in which it is larger."""
        curve = self.rough if rough else self.delta
        removed = curve(epsilon, "remove")
        if self.symmetric:
            return removed
        return np.maximum(removed, curve(epsilon, "add"))

    def epsilon(self, delta: Floats) -> Floats:
        """Smallest epsilon for each delta, rounded to the private side."""
        found = smallest_epsilon(self.worst, delta)
        # the doubles round delta to 0 far out, where it is positive
        if self.never_pure:
            found = np.where(delta > 0, found, np.inf)
        return found

    @cached_property
    def pure_from(self) -> float:
        """Least epsilon at which delta is 0, infinite if there is none."""
        if self.never_pure:
            return math.inf
        return float(self.epsilon(np.zeros(())))

    def tradeoff(self, alpha: Floats) -> Floats:
        """False-negative rate of the best test at each false-positive rate."""
        # thousands of lines, so roughly; the first is the advantage and is worth its
        # cost
        corners = self.corners()
        lost = self.worst(corners, rough=True)
        # the advantage
        lost[0] = self.worst(corners[0])
        return supported_tradeoff(1 - lost, corners, alpha)

    def corners(self) -> Floats:
        """The epsilons at which the trade-off curve gets a supporting line."""
        return GRID

    @cached_property
    def _pair(self) -> Pair:
        return pair_of(self.rough, self.symmetric)

    def atoms(self) -> tuple[Atoms, Atoms]:
        """Privacy losses of both directions."""
        return self._pair.atoms()

    def scale(self) -> float:
        """Approximate standard deviation of the privacy loss."""
        return self._pair.scale

    def renyi(self) -> Renyi:
        """Renyi divergence, or a bound on it, at every order."""
        return Renyi(self._pair.rdp, self._pair.failure)

    def sampled_rdp(self, rate: float) -> Curve | None:
        """Renyi curve of this mechanism on a Poisson sample, if there is a special
        form.
        """
        return None

    def ceiling(self) -> tuple[float, float]:
        """An epsilon beyond which delta does not fall, and the delta there."""
        return math.inf, 0.0

    def terms(self) -> Terms:
        """Independent parts of the release, each with the number of times that it
        occurs.
        """
        return [(self, 1)]

    def merged(self, terms: Terms) -> Release | None:
        """Composition of parts of this family; None if there is no exact
        composition.
        """
        return None

    def group(self, size: int) -> Release:
        """Release with the guarantee for ``size`` > 1 records."""
        return GroupRelease(self, size)


class GroupRelease(Release):
    """Several records at once, by the general bound ``delta(epsilon / size) (1 +
    e^(epsilon / size) + ...)``.

    Two data sets that differ in several records are connected by steps of one record,
    and each step may add or remove a record. So every step counts in its worse
    direction, and the bound is the same in both directions. Where the mechanism sees a
    sample, ``unsampled`` is the guarantee for the group if the sample held all of it.
    """

    symmetric = bounds_only = True

    def __init__(
        self, once: Release, size: int, unsampled: Release | None = None
    ) -> None:
        self._once = once
        self._size = size
        self._unsampled = unsampled
        self.never_pure = once.never_pure

    @cached_property
    def _last(self) -> float:
        """Level of one record up to which the doubles tell its delta from 0."""
        # a delta of 0 is none that was rounded
        if math.isfinite(self._once.pure_from):
            return math.inf
        known = partial(self._once.worst, rough=True)
        return float(smallest_epsilon(known, np.array(UNLIKELY)))

    def delta(self, epsilon: Floats, direction: str, *, rough: bool = False) -> Floats:
        # Every step of one record is made at this level. Beyond the last one the factor
        # would multiply a delta that was rounded to 0; delta falls with epsilon, so the
        # bound at the last level holds there, too.
        each = np.minimum(epsilon / self._size, self._last)
        with np.errstate(over="ignore", invalid="ignore"):
            delta = self._once.worst(each, rough=rough)
            factor = np.exp(np.arange(self._size) * each[..., None]).sum(-1)
            found = np.where(delta > 0, delta * factor, 0.0)
        # total variation distances add: a second bound, better at a small epsilon
        at_zero = self._once.worst(np.zeros(()), rough=rough)
        best = np.minimum(found, self._size * at_zero)
        if self._unsampled is not None:
            best = np.minimum(best, self._unsampled.worst(epsilon, rough=rough))
        return floats(np.minimum(best, 1.0))

    def rough(self, epsilon: Floats, direction: str) -> Floats:
        return self.delta(epsilon, direction, rough=True)

    def ceiling(self) -> tuple[float, float]:
        level, lost = self._once.ceiling()
        # only a pure level carries over: a delta beyond the level grows with the group
        if lost > 0:
            return super().ceiling()
        return self._size * level, 0.0


@dataclass(frozen=True)
class SampleRelease(Release):
    """A sample that holds the record with probability ``inclusion`` and is otherwise
    distributed as without the record.

    Let pi be ``inclusion``. If ``both`` is false (add-remove), H_e(P || Q) = pi and
    H_e(Q || P) = max(0, 1 - e^epsilon (1 - pi)). If it is true (zero-out, replace-one),
    both divergences are pi. The proof is in the bagging chapter.
    """

    inclusion: float
    both: bool
    attained = True
    family = "samples"

    def delta(self, epsilon: Floats, direction: str) -> Floats:
        if direction == "remove" or self.both:
            return np.full_like(epsilon, self.inclusion)
        if self.inclusion == 1:  # a certain draw
            return np.ones_like(epsilon)
        # 1 - e^epsilon (1 - pi) without a difference of near equals
        added = -np.expm1(np.minimum(epsilon + np.log1p(-self.inclusion), 0.0))
        # rounding must not pass pi
        return floats(np.minimum(self.inclusion, added))

    def epsilon(self, delta: Floats) -> Floats:
        return np.where(delta >= self.inclusion, 0.0, np.inf)

    def tradeoff(self, alpha: Floats) -> Floats:
        return np.maximum(0.0, 1 - self.inclusion - alpha)

    def merged(self, terms: Terms) -> SampleRelease:
        """Exact composition: the record is in at least one sample with probability 1
        - product of (1 - pi).
        """
        inclusion = at_least_once((times, part.inclusion) for part, times in terms)
        return SampleRelease(inclusion, any(part.both for part, _ in terms))

    def renyi(self) -> Renyi:
        """Zero divergence except with the probability that the record is drawn."""
        return Renyi(Line(0.0), self.inclusion)

    def ceiling(self) -> tuple[float, float]:
        return 0.0, self.inclusion

    def group(self, size: int) -> SampleRelease:
        return SampleGroup(min(1.0, size * self.inclusion), both=True)


class SampleGroup(SampleRelease):
    """Several records at once; delta is bounded by the sum of their probabilities of
    being drawn.
    """

    attained = False
    bounds_only = True


@dataclass(frozen=True)
class GaussianRelease(Release):
    """Gaussian noise: the test between N(0, 1) and N(mu, 1), mu = sensitivity /
    sigma.
    """

    mu: float
    symmetric = never_pure = attained = True
    family = "gaussian"

    def delta(self, epsilon: Floats, direction: str) -> Floats:
        # each form may overflow where the other is taken
        with np.errstate(all="ignore"):
            # delta = Phi(-low) - e^epsilon Phi(-low - mu)
            low = epsilon / self.mu - self.mu / 2
            # Phi(a) - e^epsilon Phi(b) as Phi(a) (1 - e^(epsilon + log Phi(b) - log
            # Phi(a))), for delta near 1
            above = special.log_ndtr(-low)
            below = special.log_ndtr(-low - self.mu)
            head = np.exp(above) * -np.expm1(np.minimum(epsilon + below - above, 0.0))
            mu = np.full(low.shape or 1, self.mu)
            log_delta, _ = log_delta_of(mu, np.atleast_1d(epsilon))
            tail = np.exp(log_delta).reshape(low.shape)
        # log_delta_of keeps the digits of a small delta, the other form those near 1
        value = np.where(low > -1, np.where(low < FAR, tail, 0.0), head)
        return np.where(np.isfinite(epsilon), value, 0.0) + 0.0  # no negative zero

    def tradeoff(self, alpha: Floats) -> Floats:
        return floats(special.ndtr(-special.ndtri(alpha) - self.mu))

    def merged(self, terms: Terms) -> GaussianRelease:
        """Exact composition: the variances of the log-likelihood ratios add."""
        lengths = [math.sqrt(times) * part.mu for part, times in terms]
        return GaussianRelease(math.hypot(*lengths))

    def renyi(self) -> Renyi:
        return Renyi(Line(self.mu**2 / 2))

    def sampled_rdp(self, rate: float) -> Curve:
        return partial(sampled_gaussian_rdp, 1 / self.mu, rate)

    def group(self, size: int) -> GaussianRelease:
        return GaussianRelease(size * self.mu)


@dataclass(frozen=True)
class LaplaceRelease(Release):
    """A query plus Laplace noise, exact; ``pure`` is the sensitivity of the query
    divided by the scale of the noise.
    """

    pure: float
    symmetric = attained = True

    def delta(self, epsilon: Floats, direction: str) -> Floats:
        return floats(np.abs(np.expm1(np.minimum(0.0, (epsilon - self.pure) / 2))))

    def epsilon(self, delta: Floats) -> Floats:
        with np.errstate(divide="ignore"):  # delta = 1: epsilon 0
            found = np.maximum(0.0, self.pure + 2 * np.log1p(-delta))
        # the closed form may be a rounding error short
        raised = on_private_side(self.worst, found, delta)
        return np.minimum(self.pure, raised)

    def tradeoff(self, alpha: Floats) -> Floats:
        # alpha = 0 is in the first piece
        with np.errstate(divide="ignore", over="ignore"):
            # three pieces, as the threshold of the best test passes both peaks
            middle = np.exp(-self.pure - np.log(4 * alpha))
            first = -np.expm1(np.minimum(0.0, self.pure + np.log(alpha)))
        last = np.exp(-self.pure) * (1 - alpha)
        low = np.where(4 * alpha > 2 * np.exp(-self.pure), middle, first)
        return np.where(alpha > 0.5, last, low)

    def renyi(self) -> Renyi:
        return Renyi(partial(laplace_rdp, pure=self.pure))

    def ceiling(self) -> tuple[float, float]:
        return self.pure, 0.0

    def group(self, size: int) -> LaplaceRelease:
        return LaplaceRelease(size * self.pure)


@dataclass(frozen=True)
class BoundedRangeRelease(Release):
    """An answer with log-likelihood ratios in an interval of length ``width``, exact.

    The hockey-stick divergence is convex in the likelihood ratio, so the ratio takes
    only two values in the worst case. The worst two values give ``delta = (1 -
    e^((epsilon - width) / 2))^2 / (1 - e^-width)``, and the trade-off function is
    logistic.
    """

    width: float
    symmetric = beyond_pair = True

    def delta(self, epsilon: Floats, direction: str) -> Floats:
        # beyond the width no outcome is likelier by more than e^epsilon
        short = np.minimum((epsilon - self.width) / 2, 0.0)
        return floats(np.expm1(short) ** 2 / -np.expm1(-self.width))

    def tradeoff(self, alpha: Floats) -> Floats:
        with np.errstate(divide="ignore"):  # alpha of 0 or 1
            return floats(special.expit(-special.logit(alpha) - self.width))

    def renyi(self) -> Renyi:
        """Curve of (width^2 / 8)-zCDP (Cesar and Rogers 2021)."""
        return Renyi(Line(self.width**2 / 8))

    def ceiling(self) -> tuple[float, float]:
        return self.width, 0.0

    def group(self, size: int) -> BoundedRangeRelease:
        return BoundedRangeRelease(size * self.width)


@dataclass(frozen=True)
class LevelsRelease(Release):
    """Worst case of mechanisms if the only known fact is that each is (epsilon,
    delta)-DP.

    In the worst case, a mechanism reveals the record with probability delta, and
    otherwise answers by randomised response with odds e^epsilon (Kairouz, Oh and
    Viswanath 2015). ``levels`` holds triples (epsilon, delta, times).
    """

    levels: tuple[tuple[float, float, int], ...]
    symmetric = True
    family = "levels"

    @cached_property
    def _law(self) -> tuple[Floats, Floats, float, float, float]:
        """Log-likelihood ratios, their masses under P, the mass left out, the
        largest ratio, the chance of a reveal.
        """
        # responses of one level are binomial together, whatever their deltas
        counted: dict[float, int] = {}
        for epsilon, _, times in self.levels:
            counted[epsilon] = counted.get(epsilon, 0) + times
        shown = at_least_once((times, delta) for _, delta, times in self.levels)
        loss = np.zeros(1)
        mass = np.ones(1)
        lost = 0.0
        for epsilon, times in counted.items():
            if epsilon == 0:  # a coin: nothing is lost
                continue
            # probability of a true answer, under P
            true = float(special.expit(epsilon))
            # every true answer adds epsilon to the loss, every other one takes it off
            heads, masses, left_out = binomial_counts(times, true, MOST_COUNTS)
            with np.errstate(over="ignore"):
                losses = np.minimum(epsilon * (2 * heads - times), 1e308)
            loss = (loss[:, None] + losses).ravel()
            mass = (mass[:, None] * masses).ravel()
            lost += left_out
        # sums of losses of several levels, in the order that Tail looks them up
        order = np.argsort(loss, kind="stable")
        most = math.fsum(epsilon * times for epsilon, times in counted.items())
        return loss[order], mass[order], lost, most, shown

    @cached_property
    def _tail(self) -> Tail:
        return Tail(*self._law[:2])

    def delta(self, epsilon: Floats, direction: str) -> Floats:
        *_, lost, most, shown = self._law
        # what was left out counts as if it revealed the record
        above = np.minimum(1.0, self._tail(epsilon) + lost)
        answered = np.where(epsilon < most, above, 0.0)
        return floats(shown + (1 - shown) * answered)

    def epsilon(self, delta: Floats) -> Floats:
        *_, most, shown = self._law
        found = smallest_epsilon(self.worst, delta, limit=shown)
        return np.where(delta >= shown, np.minimum(found, most), np.inf)

    def corners(self) -> Floats:
        corners = np.unique(np.maximum(self._law[0], 0.0))
        # fewer lines only lower the trade-off curve, which is the private side
        chosen = np.linspace(0, len(corners) - 1, LINES).astype(np.int64)
        return corners[np.unique(chosen)]

    def merged(self, terms: Terms) -> Release | None:
        """Optimal composition; None if it has too many losses to list."""
        levels = []
        outcomes = 1
        for part, times in terms:
            for level, lost, count in part.levels:
                levels.append((level, lost, count * times))
                # different sums of losses that the composition may have
                outcomes *= 1 if level == 0 else 1 + count * times
        if outcomes > MOST_COUNTS and len({level for level, *_ in levels}) > 1:
            return None
        return LevelsRelease(tuple(levels))

    def atoms(self) -> tuple[Atoms, Atoms]:
        loss, mass, lost, _, shown = self._law
        atoms = loss, (1 - shown) * mass, min(1.0, shown + lost)
        return atoms, atoms

    def scale(self) -> float:
        variance = 0.0
        for level, _, times in self.levels:
            # of a loss that is +level or -level by randomised response, about its mean
            variance += times * level * math.tanh(level / 2)
        return math.sqrt(variance)

    def renyi(self) -> Renyi:
        parts = tuple((times, Response(level)) for level, _, times in self.levels)
        return Renyi(Total(parts), self._law[-1])

    def ceiling(self) -> tuple[float, float]:
        return self._law[-2:]

    def group(self, size: int) -> LevelsRelease:
        levels = []
        for epsilon, delta, times in self.levels:
            # sum of e^(i epsilon) over i < size
            factor = float(size)
            if epsilon > 0:
                # beyond the doubles it is infinite, and every delta grows to 1
                grown = (size - 1) * epsilon
                factor = math.exp(grown) if grown < LARGEST_EXPONENT else math.inf
                factor *= math.expm1(-size * epsilon) / math.expm1(-epsilon)
            lost = min(1.0, delta * factor) if delta else 0.0
            levels.append((size * epsilon, lost, times))
        return LevelsRelease(tuple(levels))


class RenyiRelease(Release):
    """A mechanism of Renyi divergence at most ``curve(alpha)`` at every real order
    alpha > 1, in both directions.

    With probability ``failure`` there is no guarantee. The best order is searched for
    each query. This search can err only on the private side, because every order gives
    a valid pair of epsilon and delta (Canonne, Kamath and Steinke 2020, Proposition
    12).
    """

    symmetric = True
    family = "renyi"

    def __init__(self, curve: Curve, failure: float = 0.0) -> None:
        self._curve = curve
        self._failure = failure

    def renyi(self) -> Renyi:
        return Renyi(self._curve, self._failure)

    def delta(self, epsilon: Floats, direction: str, *, refine: bool = True) -> Floats:
        def log_delta(alpha: Floats, divergence: Floats) -> Floats:
            # log delta at each order, Proposition 12
            spent = (alpha - 1) * (divergence - epsilon[..., None])
            return spent - np.log(alpha - 1) + alpha * np.log1p(-1 / alpha)

        with np.errstate(over="ignore"):  # an order that is of no use
            found = best_order(self._curve, log_delta, epsilon.shape, refine=refine)
        rest = (1 - self._failure) * np.exp(np.minimum(found, 0.0))
        return floats(self._failure + rest)

    def rough(self, epsilon: Floats, direction: str) -> Floats:
        return self.delta(epsilon, direction, refine=False)

    def epsilon(self, delta: Floats) -> Floats:
        # the delta that is left when the failure is paid for
        left = np.maximum(0.0, delta - self._failure) / max(1 - self._failure, UNLIKELY)
        # delta = 0: no order gives a finite epsilon
        with np.errstate(divide="ignore"):
            log_delta = np.log(left)[..., None]

        def epsilon(alpha: Floats, divergence: Floats) -> Floats:
            return divergence + conversion(alpha, log_delta)

        found = np.maximum(0.0, best_order(self._curve, epsilon, delta.shape))
        found = np.where(delta >= 1, 0.0, found)
        return on_private_side(self.worst, found, delta)

    def merged(self, terms: Terms) -> RenyiRelease:
        found = added(terms)
        return RenyiRelease(found.curve, found.failure)

    def group(self, size: int) -> Release:
        # zCDP of a group grows with the square of its size (Bun and Steinke 2016)
        if isinstance(self._curve, Line) and not self._failure:
            return RenyiRelease(Line(size**2 * self._curve.rho))
        return super().group(size)


class ConvertedRelease(Release):
    """Accounting of papers for answers that are together ``rho``-zCDP, converted as in
    Mironov (2017).

    This is valid, but looser than current results: ``delta`` is the minimum of ``exp(l
    (rho (l + 1) - epsilon))`` over all real l > 0, or only over the given ``moments``
    l. A paper may also claim that the answers are together ``pure``-DP.
    """

    symmetric = True
    family = "converted"

    def __init__(
        self, rho: float, *, moments: Floats | None = None, pure: float = math.inf
    ) -> None:
        self._rho = rho
        self._moments = moments
        self._pure = pure
        self.never_pure = pure == math.inf

    def delta(self, epsilon: Floats, direction: str) -> Floats:
        rho = self._rho
        if self._moments is None:
            # the best real l is (epsilon - rho) / (2 rho)
            exponent = -(np.maximum(epsilon - rho, 0.0) ** 2) / (4 * rho)
        else:
            spent = rho * (self._moments + 1) - epsilon[..., None]
            exponent = (self._moments * spent).min(-1)
        converted = np.exp(np.minimum(exponent, 0.0))
        if not self.never_pure:
            claimed = LevelsRelease(((self._pure, 0.0, 1),))
            converted = np.minimum(converted, claimed.delta(epsilon, direction))
        return floats(converted)

    def corners(self) -> Floats:
        return GRID if self.never_pure else np.union1d(GRID, self._pure)

    def merged(self, terms: Terms) -> Release:
        """Divergences of the same order add, and so do the claimed pure levels."""
        rho = math.fsum(times * part._rho for part, times in terms)
        pure = math.fsum(times * part._pure for part, times in terms)
        return ConvertedRelease(rho, moments=self._moments, pure=pure)

    def renyi(self) -> Renyi:
        return Renyi(Line(self._rho))


class LossDistribution(Release):
    """A mechanism known through the distribution of its privacy loss on a grid, rounded
    to the private side.

    ``halves`` holds the loss log dP/dQ under P, the output *with* the record, and the
    loss log dQ/dP under Q.
    """

    def __init__(self, halves: tuple[Losses, Losses]) -> None:
        self._tails = [Tail(half.values, half.masses) for half in halves]
        self._infinite = [min(1.0, half.infinite) for half in halves]

    def delta(self, epsilon: Floats, direction: str) -> Floats:
        # losses of either direction are under the distribution that it begins with
        half = DIRECTIONS.index(direction)
        return floats(
            np.minimum(1.0, self._infinite[half] + self._tails[half](epsilon))
        )

    def corners(self) -> Floats:
        corners = np.concatenate([[0.0], *(tail.losses for tail in self._tails)])
        return np.unique(corners[corners <= LARGEST_EXPONENT])


class LeastRelease(Release):
    """Release with several valid guarantees; its delta at each epsilon is the
    smallest of their deltas.
    """

    beyond_pair = True

    def __init__(self, bounds: tuple[Release, ...]) -> None:
        self.bounds = bounds

    def delta(self, epsilon: Floats, direction: str) -> Floats:
        found = [bound.delta(epsilon, direction) for bound in self.bounds]
        return np.asarray(np.min(found, axis=0))

    def rough(self, epsilon: Floats, direction: str) -> Floats:
        found = [bound.rough(epsilon, direction) for bound in self.bounds]
        return np.asarray(np.min(found, axis=0))

    def epsilon(self, delta: Floats) -> Floats:
        found = [bound.epsilon(delta) for bound in self.bounds]
        return np.asarray(np.min(found, axis=0))

    def tradeoff(self, alpha: Floats) -> Floats:
        found = [bound.tradeoff(alpha) for bound in self.bounds]
        return np.asarray(np.max(found, axis=0))

    def renyi(self) -> Renyi:
        found = [bound.renyi() for bound in self.bounds]
        # a curve without failure is worth more than a smaller one with it
        failure = min(each.failure for each in found)
        curves = [each.curve for each in found if each.failure == failure]
        return Renyi(Smallest(tuple(curves)), failure)

    def ceiling(self) -> tuple[float, float]:
        return min(bound.ceiling() for bound in self.bounds)

    def group(self, size: int) -> Release:
        return LeastRelease(tuple(bound.group(size) for bound in self.bounds))


class ComposedRelease(LeastRelease):
    """Several independent releases: the smallest of the bounds by privacy losses, by
    Renyi divergence and by levels.

    The bounds are computed at the first query. The sum of losses is exact up to its
    grid. The bound by levels is for pure levels, which the other two bounds cannot
    reach. If the Renyi curve describes several releases of one kind better, a further
    bound adds up the losses of their joint description. This is valid because an
    observer of several adaptive mechanisms that take turns learns no more than from the
    pairs that dominate each mechanism (Vadhan and Zhang 2023).
    """

    bounds_only = True
    remark = (
        "composed: the smallest of the upper bounds by privacy losses on a grid and by"
        " Renyi curves"
    )

    def __init__(self, terms: Terms, *, losses_alone: bool = False) -> None:
        self._parts = terms
        self._losses_alone = losses_alone
        self.symmetric = all(part.symmetric for part, _ in terms)
        self.never_pure = any(part.never_pure for part, _ in terms)

    @cached_property
    def bounds(self) -> tuple[Release, ...]:  # type: ignore[override]
        """All known bounds of the composition."""
        by_losses = LossDistribution(losses_of(self._parts))
        if self._losses_alone:
            return (by_losses,)
        renyi = self.renyi()
        by_renyi = RenyiRelease(renyi.curve, renyi.failure)
        bounds: list[Release] = [by_losses, by_renyi]
        # several releases as one that is known by its curve, where their losses do not
        # say all
        wholes: Terms = []
        for part, times in self._parts:
            if times > 1 and part.beyond_pair:
                wholes.append((ComposedRelease([(part, times)]), 1))
            else:
                wholes.append((part, times))
        # otherwise the first bound is this one
        if len(wholes) > 1 and wholes != self._parts:
            bounds.append(LossDistribution(losses_of(wholes)))
        level, lost = self.ceiling()
        # losses on a grid never reach delta = 0, a pure level does
        if math.isfinite(level):
            bounds.append(LevelsRelease(((level, lost, 1),)))
        return tuple(bounds)

    @property
    def ready(self) -> bool:  # type: ignore[override]
        """Whether the bounds have been computed."""
        return "bounds" in vars(self)

    def terms(self) -> Terms:
        return self._parts

    def renyi(self) -> Renyi:
        return added(self._parts)

    def ceiling(self) -> tuple[float, float]:
        most = 0.0
        losses = []
        for part, times in self._parts:
            level, lost = part.ceiling()
            most += times * level
            losses.append((times, lost))
        return most, at_least_once(losses)

    def group(self, size: int) -> Release:
        return together([(part.group(size), times) for part, times in self._parts])


def added(terms: Terms) -> Renyi:
    """Renyi curve of releases together: divergences of the same order add."""
    parts: list[tuple[int, Curve]] = []
    failures = []
    for part, times in terms:
        found = part.renyi()
        parts.append((times, found.curve))
        failures.append((times, found.failure))
    curve: Curve = Tabulated(Total(tuple(parts)))
    # zCDP stays zCDP: a line needs no table
    if all(isinstance(each, Line) for _, each in parts):
        curve = Line(float(curve(np.ones(()))))
    return Renyi(curve, at_least_once(failures))


def together(terms: Terms) -> Release:
    """Compose releases, each made a given number of times; parts of one family
    merge, and all others stay separate.
    """
    families: dict[Hashable, Terms] = {}
    for part, times in terms:
        # a part without a family is one by itself, shared by its equals
        families.setdefault(part.family or part, []).append((part, times))
    merged: Terms = []
    for family in families.values():
        found: Release | None = family[0][0].merged(family)
        if found is None:
            # equal releases are counted together
            counted: dict[Release, int] = {}
            for part, times in family:
                counted[part] = counted.get(part, 0) + times
            merged += counted.items()
        # nothing else to compose with: the exact result is the whole
        elif len(families) == 1:
            return found
        else:
            merged.append((found, 1))
    return ComposedRelease(merged)


def losses_of(terms: Terms) -> tuple[Losses, Losses]:
    """Sum of the privacy losses of independent parts, in both directions, on a grid
    of suitable step.
    """

    def summed(half: int) -> Losses:
        parts = []
        for part, times in terms:
            atoms = part.atoms()[half]
            scale = part.scale()
            span = float(np.ptp(trimmed(atoms)[0]))
            # small compared with the loss's standard deviation, unless the grid would
            # have too many points; a coarser one costs accuracy, never safety
            interval = natural_interval(scale)
            for cells, fraction in COARSER:
                while span > cells * interval and interval <= fraction * scale:
                    interval *= 2
            parts.append(on_grid(atoms, interval).times(times))
        return total(parts)

    # where no part knows a direction, one sum serves both
    remove = summed(0)
    if all(part.symmetric for part, _ in terms):
        return remove, remove
    return remove, summed(1)


def binomial_counts(
    trials: int, probability: float, most: int
) -> tuple[Floats, Floats, float]:
    """Numbers of successes, their probabilities, and the probability of all larger
    numbers.

    Numbers beyond ``UNLIKELY`` are left out. If more than ``most`` are left,
    neighbouring numbers are counted together as the largest of them, which is the
    private side.
    """
    drawn = scipy.stats.binom(trials, probability)
    counts = range(trials + 1)
    # the numbers between the two tails that are too unlikely to matter
    first = bisect_left(counts, True, key=lambda count: drawn.cdf(count) > UNLIKELY)
    last = bisect_left(counts, True, key=lambda count: drawn.sf(count) <= UNLIKELY)
    # from the last one downwards, so that each group is counted as its largest number
    stride = math.ceil((last - first + 1) / most)
    found = np.arange(last, first - 1, -stride)[::-1]
    with np.errstate(under="ignore"):
        if stride == 1:
            masses = drawn.pmf(found)
        else:
            # each tail from its own end
            below = drawn.cdf(found)
            rise = np.diff(below, prepend=0.0)
            fall = -np.diff(drawn.sf(found), prepend=1.0)
            masses = np.maximum(0.0, np.where(below < 0.5, rise, fall))
        return floats(found), floats(masses), float(drawn.sf(last))


def at_least_once(parts: Iterable[tuple[float, float]]) -> float:
    """Probability that at least one of several independent events, (times, probability)
    each, happens; without losing digits where they are unlikely.
    """
    missed = 0.0
    for times, probability in parts:
        if probability >= 1:
            return 1.0
        # log1p and expm1, as probabilities may be below the rounding of 1
        missed += times * math.log1p(-probability)
    return -math.expm1(missed) + 0.0
