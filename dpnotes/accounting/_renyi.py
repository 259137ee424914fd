"""Renyi divergence: its curves, the best order, and the divergences of Laplace and
sampled Gaussian noise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from dpnotes._validation import Floats, floats

Curve = Callable[[Floats], Floats]
Objective = Callable[[Floats, Floats], Floats]  # of orders and the divergences there

# real orders; the best one is then searched between its neighbours
ORDERS = 1 + np.logspace(-4, 6, 401)
ROUNDS = 5  # each at these places between the neighbours of the best order before
PLACES = np.linspace(0, 1, 9)
SMALL = 0.05  # below, e^x - 1 - x is computed as a series
# standard deviations beyond the outermost peaks, z = 0 and z = a: what lies further out
# is below e^-72
REACH = 12.0
# sizes of the grids in use; beyond the last, an upper bound takes over
NODES = 2 ** np.arange(6, 14.5, 0.5)
CHUNK = 2**17  # nodes at once: 1 MB for each array of them


@dataclass(frozen=True)
class Renyi:
    """Divergence at most ``curve(alpha)`` at every order in both directions, except
    with probability ``failure``.
    """

    curve: Curve
    failure: float = 0.0


@dataclass(frozen=True)
class Line:
    """The curve ``rho * alpha`` of zCDP and of Gaussian noise."""

    rho: float

    def __call__(self, alpha: Floats) -> Floats:
        return self.rho * alpha


@dataclass(frozen=True)
class Response:
    """The curve of randomised response with odds e^epsilon of the true answer."""

    epsilon: float

    def __call__(self, alpha: Floats) -> Floats:
        up = (alpha - 1) * self.epsilon
        tanh = np.tanh(self.epsilon / 2)
        with np.errstate(over="ignore"):
            # E[ratio^(alpha - 1)] - 1, positive terms
            excess = 2 * np.sinh(up / 2) ** 2 + tanh * np.sinh(up)
            large = (
                up
                + np.log1p(np.exp(-2 * up - self.epsilon))
                - np.log1p(np.exp(-self.epsilon))
            )
        return floats(np.where(up < 1, np.log1p(excess), large) / (alpha - 1))


@dataclass(frozen=True)
class Total:
    """Curve of several releases together: the sum of curves, each counted a given
    number of times.
    """

    parts: tuple[tuple[int, Curve], ...]

    def __call__(self, alpha: Floats) -> Floats:
        return floats(sum(times * curve(alpha) for times, curve in self.parts))


@dataclass(frozen=True)
class Smallest:
    """The smallest of several curves."""

    curves: tuple[Curve, ...]

    def __call__(self, alpha: Floats) -> Floats:
        return floats(np.min([curve(alpha) for curve in self.curves], axis=0))


@dataclass(frozen=True)
class Tabulated:
    """A curve that is expensive to compute; its values at all ``ORDERS`` are stored."""

    curve: Curve

    def __call__(self, alpha: Floats) -> Floats:
        return self._values if alpha is ORDERS else self.curve(alpha)

    @cached_property
    def _values(self) -> Floats:
        return floats(self.curve(ORDERS))


def conversion(alpha: Floats, log_delta: Floats | float) -> Floats:
    """Term added to the Renyi divergence of order ``alpha`` to give epsilon (Canonne,
    Kamath and Steinke 2020).
    """
    return floats(np.log1p(-1 / alpha) - (log_delta + np.log(alpha)) / (alpha - 1))


def best_order(
    curve: Curve, objective: Objective, shape: tuple[int, ...], *, refine: bool = True
) -> Floats:
    """Smallest value of ``objective(alpha, curve(alpha))`` over real orders.

    The objective takes orders of shape [orders] or [*shape, orders], and returns values
    that broadcast to [*shape, orders].
    """
    # a grid first: the objective can have several local minima
    values = np.broadcast_to(objective(ORDERS, curve(ORDERS)), (*shape, len(ORDERS)))
    values = np.where(np.isnan(values), np.inf, values)
    index = values.argmin(-1)[..., None]
    best = np.take_along_axis(values, index, -1)
    if not refine:
        return floats(best[..., 0])
    # then between the neighbours of the best of the grid
    left = ORDERS[np.maximum(index - 1, 0)]
    right = ORDERS[np.minimum(index + 1, len(ORDERS) - 1)]

    def at(alpha: Floats) -> Floats:
        values = objective(alpha, curve(alpha))
        return np.where(np.isnan(values), np.inf, values)

    found = smallest(at, np.log(left - 1)[..., 0], np.log(right - 1)[..., 0])
    return floats(np.minimum(best[..., 0], found))


def smallest(curve: Callable[[Floats], Floats], left: Floats, right: Floats) -> Floats:
    """Smallest value of ``curve`` ([..., orders] to the same shape) for log(order - 1)
    between the ends, [...].
    """
    best = np.full(left.shape, np.inf)
    # each round narrows the orders to the neighbours of the best one
    for _ in range(ROUNDS):
        place = left[..., None] + (right - left)[..., None] * PLACES
        values = curve(1 + np.exp(place))
        index = np.clip(values.argmin(-1), 1, len(PLACES) - 2)[..., None]
        three = [
            np.take_along_axis(values, index + shift, -1)[..., 0]
            for shift in (-1, 0, 1)
        ]
        middle = np.take_along_axis(place, index, -1)[..., 0]
        gap = (right - left) * PLACES[1]
        left = middle - gap
        right = middle + gap
        best = np.minimum(best, values.min(-1))
    # the vertex of the parabola through the last three
    with np.errstate(divide="ignore", invalid="ignore"):
        bend = three[0] - 2 * three[1] + three[2]
        shift = np.clip(np.nan_to_num((three[0] - three[2]) / (2 * bend)), -1.0, 1.0)
    vertex = curve(1 + np.exp(middle + shift * gap)[..., None])[..., 0]
    return floats(np.minimum(best, vertex))


def laplace_rdp(alpha: Floats, pure: float) -> Floats:
    """Renyi divergence of order ``alpha`` between Laplace distributions ``pure``
    scales apart (Mironov 2017).
    """
    up = (alpha - 1) * pure
    down = alpha * pure
    weight = alpha / (2 * alpha - 1)
    rest = (alpha - 1) / (2 * alpha - 1)
    # E[ratio^(alpha - 1)] - 1, the linear terms cancelled by hand: no difference of
    # near equals for little privacy loss
    excess = weight * _above_line(np.minimum(up, 700.0)) + rest * _above_line(-down)
    large = np.logaddexp(np.log(weight) + up, np.log(rest) - down)
    return floats(np.where(up < 1, np.log1p(excess), large) / (alpha - 1))


def _above_line(x: Floats) -> Floats:
    """e^x - 1 - x."""
    near = np.clip(x, -SMALL, SMALL)
    series = near**2 / 2 * special.hyp1f1(1, 3, near)
    return np.where(near == x, series, np.expm1(x) - x)


def sampled_gaussian_rdp(sigma: ArrayLike, rate: ArrayLike, alpha: ArrayLike) -> Floats:
    """Renyi divergence of real order ``alpha`` > 1 of one DP-SGD step, with the record
    against without it.

    The divergence is larger in this direction. The arguments are broadcast. The result
    is exact to rounding if the largest grid of nodes suffices. Otherwise it is an upper
    bound by Minkowski's inequality, which is good where alpha is much larger than
    sigma.

    Source
    ------
    Mironov, Talwar and Zhang (2019), Theorem 4 and Section 3.3; the integral is
    computed by quadrature.
    """
    # one flat list of cases, so that cases of like size share a grid
    sigma, rate, alpha = np.broadcast_arrays(*(floats(x) for x in (sigma, rate, alpha)))
    shape = sigma.shape
    sigma = sigma.ravel()
    rate = rate.ravel()
    alpha = alpha.ravel()
    # first an upper bound that holds for all; exact moments then replace it where a
    # grid suffices
    exponent = (alpha - 1) / (2 * sigma**2)
    moment = alpha * np.logaddexp(np.log1p(-rate), np.log(rate) + exponent)
    small = exponent < 1
    moment[small] = alpha[small] * np.log1p(rate[small] * np.expm1(exponent[small]))
    # the integrand's peaks are as wide as sigma, its poles pi sigma^2 away
    spacing = np.minimum(sigma, sigma**2) / 2
    size = np.searchsorted(NODES, (alpha + 2 * REACH * sigma) / spacing)
    for index in range(len(NODES)):
        members = np.flatnonzero(size == index)
        # as many cases at once as fit into the cache
        rows = max(1, int(CHUNK / NODES[index]))
        for start in range(0, len(members), rows):
            some = members[start : start + rows]
            exact = _log_moment(
                sigma[some, None],
                rate[some, None],
                alpha[some, None],
                int(NODES[index]),
            )
            moment[some] = np.minimum(moment[some], exact)
    return floats(moment / (alpha - 1)).reshape(shape)


def _log_moment(sigma: Floats, rate: Floats, alpha: Floats, nodes: int) -> Floats:
    """Logarithm of E[(P/Q)^alpha] for columns [rows, 1] of parameters, each with its
    own nodes; gives [rows].
    """
    # the trapezoidal rule, which converges geometrically for an analytic integrand
    grid = np.linspace(0.0, 1.0, nodes)
    width = alpha + 2 * REACH * sigma
    z = width * grid - REACH * sigma
    step = width[:, 0] / (nodes - 1)
    log_weight = (
        np.log(step / sigma[:, 0])[:, None]
        - 0.5 * np.log(2 * np.pi)
        - 0.5 * (z / sigma) ** 2
    )
    # log of the likelihood ratio of the noise alone, N(1, sigma^2) to N(0, sigma^2)
    lift = (z - 0.5) / sigma**2
    ratio = rate * np.expm1(np.minimum(lift, 600.0))  # P/Q - 1
    power = np.log1p(ratio)
    # beyond e^600 the rest of the mixture does not matter
    if (lift > 600.0).any():
        power = np.where(lift > 600.0, np.log(rate) + lift, power)
    power *= alpha
    total = floats(special.logsumexp(log_weight + power, axis=-1))
    tiny = total < 1e-3
    # E[P/Q - 1] = 0 may be taken off, so that the sum is of small positive terms and
    # not 1 + rounding
    if tiny.any():
        log_weight = log_weight[tiny]
        weight = np.exp(log_weight)
        power = power[tiny]
        ratio = ratio[tiny]
        order = alpha[tiny]
        with np.errstate(over="ignore", invalid="ignore"):
            # x^order - 1 - order (x - 1) near x = 1, without a difference of near
            # equals
            series = 1 + (order - 2) / 3 * ratio * (1 + (order - 3) / 4 * ratio)
            series *= order * (order - 1) / 2 * ratio**2
            exact = np.expm1(power) - order * ratio
            near = weight * np.where(np.abs(order * ratio) < 1e-4, series, exact)
        far = np.exp(log_weight + power) - weight
        far -= order * rate[tiny] * (np.exp(log_weight + lift[tiny]) - weight)
        excess = np.where(power > 1, far, near).sum(-1)
        total[tiny] = np.log1p(np.maximum(0.0, excess))
    return total
