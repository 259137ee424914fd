"""The personalised accountant: from integer sums of squares to epsilon, and to the number of labels of any budget."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from dpnotes._validation import Floats, array, at_least_one, positive, real
from dpnotes.accounting.papers import MOMENTS, personalised_moments


def personalised_epsilon(squares: ArrayLike, *, n_partitions: int, noise: float, delta: float) -> Floats:
    """Epsilon that the paper's accountant gives for sums of squares: the least of its integer moments 1 to 100.

    Status: *per-instance*; see :func:`dpnotes.accounting.papers.personalised_moments`. The best moment is one of the
    two neighbours of the real optimum.

    Parameters
    ----------
    squares : array_like of int, >= 0
        Sums of (k m)^2 over the answered queries, of :class:`dpnotes.learners.TouchedVotes`.
    n_partitions : int, >= 1
        k.
    noise : float, > 0
        lambda, the inverse scale of the Laplace noise on each class, per vote.
    delta : float, in (0, 1)

    Returns
    -------
    ndarray of float64, same shape; 0 for a sum of 0

    Raises
    ------
    ValueError
        If a parameter is outside its range.

    Source
    ------
    Jordon, Yoon and van der Schaar (2019), Theorem 4 and Algorithm 1.

    Examples
    --------
    >>> personalised_epsilon([0, 11], n_partitions=1, noise=2 / 50, delta=1e-3).round(6)
    array([0.      , 1.021411])
    """
    sums = array("squares", squares)
    k = at_least_one("n_partitions", n_partitions)
    noise = positive("noise", noise)
    log_delta = math.log(real("delta", delta, high=1.0, open_low=True, below="nothing would be spent"))
    totals = np.where(sums > 0, sums, 1.0) / k**2
    best = np.sqrt(-log_delta / (2 * noise**2 * totals))
    result = np.full(sums.shape, np.inf)
    for order in _neighbours(best):
        moments = totals * personalised_moments(order, noise=noise)
        result = np.minimum(result, (moments - log_delta) / order)
    return np.where(sums > 0, result, 0.0)


def squares_of_budget(epsilon: float, delta: float, *, n_partitions: int, noise: float) -> int:
    """Least sum of squares, over the answered queries, at which :func:`personalised_epsilon` reaches epsilon.

    Parameters
    ----------
    epsilon : float, > 0
    delta : float, in (0, 1)
    n_partitions, noise
        See :func:`personalised_epsilon`.

    Returns
    -------
    int, >= 1

    Raises
    ------
    ValueError
        If a parameter is outside its range.

    Examples
    --------
    >>> squares_of_budget(1.0, 1e-3, n_partitions=10, noise=2 / 50)  # 11 labels, all models agreed: 1100
    1056
    """
    epsilon = positive("epsilon", epsilon)
    k = at_least_one("n_partitions", n_partitions)
    noise = positive("noise", noise)
    lost = -math.log(real("delta", delta, high=1.0, open_low=True, below="nothing would be spent"))
    best = np.asarray((lost + math.sqrt(lost**2 + epsilon * lost)) / epsilon)  # of (epsilon l - lost) / (l (l + 1))
    reached = max(
        float((epsilon * order - lost) / personalised_moments(order, noise=noise)) for order in _neighbours(best)
    )
    return max(1, math.ceil(reached * k**2))


def _neighbours(best: Floats) -> tuple[Floats, Floats]:
    """Integer moments on both sides of a real optimum; what is optimised has no other."""
    below = np.clip(np.floor(best), MOMENTS[0], MOMENTS[-1])
    return below, np.minimum(below + 1, MOMENTS[-1])
