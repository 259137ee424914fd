"""Privacy losses on a grid: one direction of a loss distribution, and the sum of
independent losses.

The intervals of grids are powers of two times a common unit, so any two grids fit after
the finer grid is made coarser. Rounding and cutting move mass only to larger losses,
which is the private side.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count

import numpy as np
import scipy

from dpnotes._validation import Floats, floats
from dpnotes.accounting._curves import Atoms

LARGEST_LOSS = 1e15  # beyond, a loss counts as infinite
CELLS = 100  # of the grid in one standard deviation of the loss, at least
CUT = 1e-24  # mass that one sum moves to infinity, or up to the least loss
CUT_OF_TRANSFORMS = 1e-15  # the same where rounding hides less
# points of the shorter sequence up to which sums are direct, without rounding of
# Fourier transforms
DIRECT = 20_000


@dataclass(frozen=True)
class Losses:
    """Distribution with mass ``masses[i]`` at loss ``(first + i) * interval``, and
    ``infinite`` at infinity.
    """

    interval: float
    first: int
    masses: Floats
    infinite: float

    @property
    def values(self) -> Floats:
        """The finite losses, one for each mass."""
        return floats((self.first + np.arange(len(self.masses))) * self.interval)

    @property
    def std(self) -> float:
        """Standard deviation of the finite losses."""
        total = self.masses.sum()
        if total == 0:
            return 0.0
        steps = np.arange(len(self.masses))
        mean = (self.masses * steps).sum() / total
        return float(
            self.interval * np.sqrt((self.masses * (steps - mean) ** 2).sum() / total)
        )

    def coarser(self, interval: float) -> Losses:
        """Double the interval until it is at least ``interval``; every second mass
        is split between its neighbours.
        """
        result = self
        while result.interval < interval:
            start = result.first // 2
            masses = np.zeros(2 * ((len(result.masses) + 3) // 2) + 2)
            offset = result.first - 2 * start
            masses[offset : offset + len(result.masses)] = result.masses
            even = masses[::2].copy()
            odd = masses[1::2]
            # the fraction that keeps the mass under Q as well, so that no delta changes
            # at the nodes
            up = math.expm1(-result.interval) / math.expm1(-2 * result.interval)
            even += (1 - up) * odd
            even[1:] += up * odd[:-1]
            coarse = Losses(2 * result.interval, start, even, result.infinite)
            result = coarse._trimmed(0.0)
        return result

    def _trimmed(self, cut: float = CUT) -> Losses:
        """Without the ends that hold at most ``cut``: the upper one counts as
        infinite, the lower one moves up.
        """
        low, masses, lost = cut_ends(self.masses, cut)
        if not len(masses):
            return Losses(self.interval, self.first, self.masses[:1], self.infinite)
        return Losses(self.interval, self.first + low, masses, self.infinite + lost)

    def plus(self, other: Losses) -> Losses:
        """Distribution of the sum of two independent losses, on a grid of suitable
        step.
        """
        # a sum of two losses need not be finer than its own standard deviation asks
        interval = max(self.interval, other.interval)
        wanted = math.hypot(self.std, other.std) / CELLS
        while 2 * interval <= wanted:
            interval *= 2
        one = self.coarser(interval)
        two = other.coarser(interval)
        infinite = one.infinite + two.infinite - one.infinite * two.infinite
        # direct sums are of positive terms and lose no digits
        if min(len(one.masses), len(two.masses)) <= DIRECT:
            masses = np.convolve(one.masses, two.masses)
            cut = CUT
        else:
            masses = scipy.signal.fftconvolve(one.masses, two.masses)
            cut = CUT_OF_TRANSFORMS
            # rounding, seen where negative
            infinite = min(1.0, infinite - 2 * float(np.minimum(masses, 0.0).sum()))
            masses = np.maximum(masses, 0.0)
        return Losses(interval, one.first + two.first, masses, infinite)._trimmed(cut)

    def times(self, times: int) -> Losses:
        """Distribution of the sum of ``times`` independent losses: by doubling, or
        at once on a large grid.
        """
        # doubling would be quadratic in so many points
        if times > 1 and len(self.masses) > DIRECT:
            return self._transformed(times)
        base = self
        result = None
        while True:
            if times & 1:
                result = base if result is None else result.plus(base)
            times >>= 1
            if not times:
                return base if result is None else result
            base = base.plus(base)

    def _transformed(self, times: int) -> Losses:
        from dp_accounting.pld import common

        first, found = common.self_convolve(self.masses, times, CUT_OF_TRANSFORMS)
        masses = floats(found)
        # of the ends that self_convolve cuts off, and of the infinite losses of any
        # part
        lost = CUT_OF_TRANSFORMS - math.expm1(
            times * math.log1p(-min(self.infinite, 1 - 1e-16))
        )
        # rounding, seen where it is negative
        lost -= 2 * float(np.minimum(masses, 0.0).sum())
        result = Losses(
            self.interval,
            times * self.first + first,
            np.maximum(masses, 0.0),
            min(1.0, lost),
        )
        return result.coarser(result.std / (2 * CELLS))


def total(parts: Iterable[Losses]) -> Losses:
    """Add independent losses, at each step the two with the smallest standard
    deviations.
    """
    # of equal standard deviations the first comes first: losses have no order
    tie = count()
    heap = [(part.std, next(tie), part) for part in parts]
    heapq.heapify(heap)
    while len(heap) > 1:
        first = heapq.heappop(heap)[2]
        second = heapq.heappop(heap)[2]
        both = first.plus(second)
        heapq.heappush(heap, (both.std, next(tie), both))
    return heap[0][2]


def natural_interval(scale: float) -> float:
    """Largest power of two that is at most the standard deviation ``scale`` divided
    by the number of cells.
    """
    return float(2.0 ** math.floor(math.log2(max(scale, 1e-280) / CELLS)))


def on_grid(atoms: Atoms, interval: float) -> Losses:
    """Split each atom between the grid points below and above its loss; its masses
    under P and Q do not change.
    """
    losses, masses, infinite = trimmed(atoms)
    lower = np.floor(losses / interval)
    ahead = losses - lower * interval  # in [0, interval)
    # fraction that goes to the upper point
    upper = np.clip(np.expm1(-ahead) / np.expm1(-interval), 0.0, 1.0)
    place = (lower - lower.min()).astype(np.int64)
    # one more point than places, for the upper neighbour of the last
    points = np.zeros(int(place.max()) + 2)
    np.add.at(points, place, masses * (1 - upper))
    np.add.at(points, place + 1, masses * upper)
    return Losses(interval, int(lower.min()), points, min(1.0, infinite))._trimmed()


def trimmed(atoms: Atoms) -> Atoms:
    """Cut off the smallest and largest losses that hold next to no mass; the losses
    must be ascending.
    """
    losses, masses, infinite = atoms
    huge = losses > LARGEST_LOSS
    infinite += float(masses[huge].sum())
    losses = np.maximum(losses[~huge], -LARGEST_LOSS)
    masses = masses[~huge]
    low, kept, lost = cut_ends(masses, CUT)
    if not len(kept):  # all is at infinity
        return np.zeros(1), np.zeros(1), infinite + float(masses.sum())
    return losses[low : low + len(kept)], kept, infinite + lost


def cut_ends(masses: Floats, cut: float) -> tuple[int, Floats, float]:
    """Masses without the ends that hold at most ``cut``: how many are cut off below,
    whose mass moves up, the masses that are left, and the mass cut off above.
    """
    # from either end, so that small masses are not lost in large sums
    below = np.cumsum(masses)
    above = np.cumsum(masses[::-1])
    low = int(np.searchsorted(below, cut, "right"))
    high = int(np.searchsorted(above, cut, "right"))
    kept = masses[low : max(low, len(masses) - high)].copy()
    if low and len(kept):
        kept[0] += below[low - 1]
    return low, kept, float(above[high - 1]) if high else 0.0
