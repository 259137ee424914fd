"""Renyi divergence of one step of DP-SGD, the Poisson-sampled Gaussian mechanism.

It is the moment E[((1 - q) + q e^((2 z - 1) / (2 sigma^2)))^a], z ~ N(0, sigma^2), by the trapezoidal rule.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from dpnotes._validation import Floats

REACH = 12.0  # standard deviations beyond the outermost peaks, z = 0 and z = a: what lies further out is below e^-72
NODES = 2 ** np.arange(6, 14.5, 0.5)  # sizes of the grids in use; beyond the last, an upper bound takes over
CHUNK = 2**17  # nodes at once: 1 MB for each array of them


def sampled_gaussian_rdp(sigma: ArrayLike, rate: ArrayLike, alpha: ArrayLike) -> Floats:
    """Renyi divergence of real order ``alpha`` > 1 of one step, with the record against without (the larger one).

    The arguments broadcast. Exact to rounding while the grid of nodes suffices; an upper bound (Minkowski's
    inequality, good where alpha is much larger than sigma) beyond.

    Source
    ------
    Mironov, Talwar and Zhang (2019), Theorem 4 and Section 3.3; here by quadrature.
    """
    sigma, rate, alpha = np.broadcast_arrays(*(np.asarray(x, dtype=np.float64) for x in (sigma, rate, alpha)))
    shape = sigma.shape
    sigma, rate, alpha = sigma.ravel(), rate.ravel(), alpha.ravel()
    exponent = (alpha - 1) / (2 * sigma**2)
    moment = alpha * np.logaddexp(np.log1p(-rate), np.log(rate) + exponent)
    small = exponent < 1
    moment[small] = alpha[small] * np.log1p(rate[small] * np.expm1(exponent[small]))
    spacing = np.minimum(sigma, sigma**2) / 2  # the integrand's peaks are as wide as sigma, its poles pi sigma^2 away
    size = np.searchsorted(NODES, (alpha + 2 * REACH * sigma) / spacing)
    for index in range(len(NODES)):
        members = np.flatnonzero(size == index)
        rows = max(1, int(CHUNK / NODES[index]))
        for start in range(0, len(members), rows):
            some = members[start : start + rows]
            exact = _log_moment(sigma[some, None], rate[some, None], alpha[some, None], int(NODES[index]))
            moment[some] = np.minimum(moment[some], exact)
    return np.asarray(moment / (alpha - 1), dtype=np.float64).reshape(shape)


def _log_moment(sigma: Floats, rate: Floats, alpha: Floats, nodes: int) -> Floats:
    """Logarithm of E[(P/Q)^alpha] for columns [rows, 1] of parameters, each with its own nodes; gives [rows]."""
    grid = np.linspace(0.0, 1.0, nodes)
    width = alpha + 2 * REACH * sigma
    z = width * grid - REACH * sigma
    step = width[:, 0] / (nodes - 1)
    log_weight = np.log(step / sigma[:, 0])[:, None] - 0.5 * np.log(2 * np.pi) - 0.5 * (z / sigma) ** 2
    lift = (z - 0.5) / sigma**2
    ratio = rate * np.expm1(np.minimum(lift, 600.0))  # P/Q - 1
    power = np.log1p(ratio)
    if (lift > 600.0).any():
        power = np.where(lift > 600.0, np.log(rate) + lift, power)
    power *= alpha
    total = np.asarray(special.logsumexp(log_weight + power, axis=-1), dtype=np.float64)
    tiny = total < 1e-3
    if tiny.any():  # E[P/Q - 1] = 0 may be taken off, so that the sum is of small positive terms and not 1 + rounding
        weight, power, ratio, lift = np.exp(log_weight[tiny]), power[tiny], ratio[tiny], lift[tiny]
        high = power > 1
        with np.errstate(over="ignore", invalid="ignore"):
            order = alpha[tiny]
            series = order * (order - 1) / 2 * ratio**2 * (1 + (order - 2) / 3 * ratio * (1 + (order - 3) / 4 * ratio))
            exact = np.expm1(power) - order * ratio
            near = weight * np.where(np.abs(order * ratio) < 1e-4, series, exact)
        far = np.exp(log_weight[tiny] + power) - weight
        far -= alpha[tiny] * rate[tiny] * (np.exp(log_weight[tiny] + lift) - weight)
        total[tiny] = np.log1p(np.maximum(0.0, np.where(high, far, near).sum(-1)))
    return total
