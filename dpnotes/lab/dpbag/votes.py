"""Distributions of noisy votes by quadrature: one answer, all that one record can change in small cases, two rounds."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

NODES, WEIGHTS = np.polynomial.legendre.leggauss(16)  # exact to rounding over one scale of an exponential
REACH = 40.0  # scales of the noise beyond the outermost counts: e^-40 is left out
GAUSSIAN_NODES, GAUSSIAN_WEIGHTS = np.polynomial.legendre.leggauss(200)
GAUSSIAN_REACH = 10.0  # standard deviations: less than e^-49 lies beyond


@dataclass(frozen=True)
class NeighbouringVotes:
    """One answer with a record and without it, for all votes of the record's k models before and after it is changed.

    Parameters
    ----------
    before, after : ndarray, [pairs, n_classes]
        Distribution of the answer before the record's models changed their votes, and after.
    m : ndarray, [pairs]
        Largest fraction of the record's own models that do not vote for some class, before.
    counts, change : ndarray of int, [pairs, n_classes]
        Votes before, and what is added to them.
    """

    before: Floats
    after: Floats
    m: Floats
    counts: Counts
    change: Counts

    def epsilons(self) -> Floats:
        """Pure epsilon of each pair, [pairs]."""
        return np.asarray(np.abs(np.log(self.before) - np.log(self.after)).max(-1), dtype=np.float64)

    def moments(self, orders: Floats) -> tuple[Floats, Floats]:
        """Log-moments under the distribution before and under that after, [pairs, orders] each."""
        before, after = np.log(self.before)[:, None], np.log(self.after)[:, None]
        order = orders[:, None]
        return (
            np.logaddexp.reduce(before + order * (before - after), axis=-1),
            np.logaddexp.reduce(after + order * (after - before), axis=-1),
        )


def neighbouring_votes(*, n_classes: int, k: int, n: int, noise: float) -> NeighbouringVotes:
    """All pairs for k partitions into n chunks: the votes of the record's own k models, and of the k (n - 1) others."""
    answers = {votes: answer_distribution(np.array(votes), scale=k / noise) for votes in tallies(k * n, n_classes)}
    rows = []
    own_votes = np.array(tallies(k, n_classes))
    for others, own, moved in itertools.product(np.array(tallies(k * (n - 1), n_classes)), own_votes, own_votes):
        before, after = (answers[tuple((others + votes).tolist())] for votes in (own, moved))
        rows.append((before, after, 1 - own.min() / k, others + own, moved - own))
    return NeighbouringVotes(*(np.array(column) for column in zip(*rows, strict=True)))


def tallies(total: int, n_classes: int) -> list[tuple[int, ...]]:
    """All numbers of votes for the classes that sum up to a total."""
    return [counts for counts in itertools.product(range(total + 1), repeat=n_classes) if sum(counts) == total]


def answer_distribution(counts: Counts, *, scale: float) -> Floats:
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
    below = np.where(above < 0, tail, 1 - tail)  # probability that the class's own noisy count is lower
    mass = tail / scale * np.tile(WEIGHTS, panels) * width / 2
    return np.array([(mass[own] * np.delete(below, own, axis=0).prod(0)).sum() for own in range(len(counts))])


def other_answer(gap: float, noise: float) -> float:
    """Equation 2 of the supplement for two classes: probability that the class behind by ``gap`` wins."""
    return (2 + noise * gap) / (4 * math.exp(noise * gap))


def two_rounds(epsilons: Floats, shifts: tuple[float, float, float], threshold: float) -> Floats:
    """Hockey-stick divergences of two Gaussian answers, where the shift of the second depends on the first answer.

    ``shifts``, in standard deviations: of the first answer, and of the second one after a first answer below and above
    the threshold.
    """
    first, below, above = shifts
    total = np.zeros(len(epsilons))
    for low, high, second in ((-GAUSSIAN_REACH, threshold, below), (threshold, GAUSSIAN_REACH, above)):
        at = low + (high - low) * (1 + GAUSSIAN_NODES) / 2  # the first answer
        mass = GAUSSIAN_WEIGHTS * (high - low) / 2 * np.exp(-((at - first) ** 2) / 2) / math.sqrt(2 * math.pi)
        left = epsilons[:, None] - (first * at - first**2 / 2)  # [epsilons, nodes], less the loss of the first answer
        total += shifted_gaussian(left, second) @ mass
    return total


def shifted_gaussian(epsilon: Floats, mu: float) -> Floats:
    """Hockey-stick divergence of N(mu, 1) from N(0, 1), for real epsilon."""
    if mu == 0:
        return np.maximum(-np.expm1(epsilon), 0.0)
    return np.asarray(special.ndtr(mu / 2 - epsilon / mu) - np.exp(epsilon) * special.ndtr(-mu / 2 - epsilon / mu))


def pate_moments(order: Floats, *, noise: float, m: float, q: float) -> Floats:
    """Bound on a log-moment of one noisy vote where the models agree: the paper's conjectured one, made true.

    Status: *per-instance*, and for one direction only. It bounds the moment of the vote on this data set against the
    vote on a neighbour's; the reverse one can be larger, so that it gives no differential privacy by itself.

    Parameters
    ----------
    order : ndarray, >= 0
        l, the order of the moment.
    noise : float, > 0
        lambda, the inverse scale of the Laplace noise on each class, per vote.
    m : float, in [0, 1]
        Of :func:`dpnotes.accounting.papers.personalised_moments`.
    q : float, in [0, 1 / (1 + exp(2 noise m)))
        Bound on the probability that another class wins than the likeliest, from votes normalised by the number of
        partitions; with raw counts, as printed, it is too small.

    Returns
    -------
    ndarray, >= 0

    Raises
    ------
    ValueError
        If q is outside its range, which the paper omits.

    Source
    ------
    Jordon, Yoon and van der Schaar (2019), supplement, Equation 3; the proof of Papernot et al. (2017), Theorem 3.

    Examples
    --------
    >>> round(float(pate_moments(np.array(1), noise=1.0, m=1.0, q=1.5 * np.exp(-4))), 10)
    0.3291003345
    """
    level = 2 * noise * m
    limit = 1 / (1 + math.exp(level))
    if q >= limit:
        raise ValueError(f"q must be < 1 / (1 + exp(2 noise m)) = {limit:g}, got q={q!r}; no bound is proved there")
    kept = math.log1p(-q)
    likely = kept + order * (kept - math.log1p(-q * math.exp(level)))
    with np.errstate(divide="ignore"):  # q = 0: certainty costs nothing
        return np.asarray(np.logaddexp(likely, np.log(q) + order * level), dtype=np.float64)
