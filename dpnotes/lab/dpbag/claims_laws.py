"""Laws of one noisy vote by quadrature: for given counts, and for all that one record can change in small cases."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

NODES, WEIGHTS = np.polynomial.legendre.leggauss(16)  # exact to rounding over one scale of an exponential
REACH = 40.0  # scales of the noise beyond the outermost counts: e^-40 is left out


@dataclass(frozen=True)
class NeighbouringVotes:
    """One answer with a record and without it, for every way in which its k models vote and may change their votes.

    Parameters
    ----------
    law, other : ndarray, [pairs, n_classes]
        Law of the answer before the record's models changed their votes, and after.
    m : ndarray, [pairs]
        Largest share of the record's own models that do not vote for some class, before.
    counts, change : ndarray of int, [pairs, n_classes]
        Votes before, and what is added to them.
    """

    law: Floats
    other: Floats
    m: Floats
    counts: NDArray[np.int64]
    change: NDArray[np.int64]

    def levels(self) -> Floats:
        """Pure epsilon of each pair, [pairs]."""
        return np.asarray(np.abs(np.log(self.law) - np.log(self.other)).max(-1), dtype=np.float64)

    def moments(self, orders: Floats) -> tuple[Floats, Floats]:
        """Log-moments under the law before and under that after, [pairs, orders] each."""
        before, after = np.log(self.law)[:, None], np.log(self.other)[:, None]
        order = orders[:, None]
        return (
            np.logaddexp.reduce(before + order * (before - after), axis=-1),
            np.logaddexp.reduce(after + order * (after - before), axis=-1),
        )


def neighbouring_votes(*, n_classes: int, k: int, n: int, noise: float) -> NeighbouringVotes:
    """All pairs for k partitions into n chunks: the votes of the record's own k models, and of the k (n - 1) others."""
    laws = {votes: answer_law(np.array(votes), scale=k / noise) for votes in tallies(k * n, n_classes)}
    rows = []
    own_votes = np.array(tallies(k, n_classes))
    for others, own, moved in itertools.product(np.array(tallies(k * (n - 1), n_classes)), own_votes, own_votes):
        before, after = others + own, others + moved
        rows.append((laws[tuple(before.tolist())], laws[tuple(after.tolist())], 1 - own.min() / k, before, moved - own))
    law, other, m, counts, change = (np.array(column) for column in zip(*rows, strict=True))
    return NeighbouringVotes(law, other, m, counts, change)


def tallies(total: int, n_classes: int) -> list[tuple[int, ...]]:
    """Every way in which so many votes fall on the classes."""
    if n_classes == 1:
        return [(total,)]
    return [(first, *rest) for first in range(total + 1) for rest in tallies(total - first, n_classes - 1)]


def answer_law(counts: NDArray[np.int64], *, scale: float) -> Floats:
    """Probability that each class has the most votes after Laplace noise of this scale, by Gauss-Legendre quadrature.

    The panels end at the counts, where the integrand has kinks, and are no wider than the scale.
    """
    spacing = float(np.gcd.reduce(counts - counts.min())) or scale
    width = spacing / math.ceil(spacing / scale)
    low = float(counts.min()) - math.ceil(REACH * scale / width) * width
    panels = math.ceil((float(counts.max()) + REACH * scale - low) / width)
    at = (low + width * (np.arange(panels)[:, None] + (1 + NODES) / 2)).ravel()
    above = (at - counts[:, None]) / scale  # [n_classes, nodes], noisy count at which a class wins, less its votes
    tail = np.exp(-np.abs(above)) / 2
    below = np.where(above < 0, tail, 1 - tail)  # chance that its own noisy count lies lower
    mass = tail / scale * np.tile(WEIGHTS, panels) * width / 2
    return np.array([(mass[own] * np.delete(below, own, axis=0).prod(0)).sum() for own in range(len(counts))])
