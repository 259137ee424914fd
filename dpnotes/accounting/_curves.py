"""Numerics of curves delta(epsilon): inverse, trade-off of error rates, dominating
pair, and Gaussian noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeVar

import numpy as np
from scipy import special

from dpnotes._validation import Floats, floats

K = TypeVar("K", bound=Hashable)

# of Gaussian noise: where delta tends to 1, its derivative in sigma falls below
# rounding
LARGEST_DELTA = 0.999
NEWTON_STEPS = 60  # a dozen suffice
PRIVATE_MARGIN = 2e-12  # of sigma: ten times what rounding in log delta can cost
NARROW = 0.1  # below this mu, Mills ratios differ too little to be subtracted
# exact to 1e-15 over so short an interval
NODES, WEIGHTS = np.polynomial.legendre.leggauss(4)
LARGEST_EXPONENT = 700.0  # e^700 is a double
BISECTIONS = 200  # halves any bracket of doubles to neighbouring numbers


def hockey_stick(
    p: Mapping[K, Fraction], q: Mapping[K, Fraction], factor: Fraction | int
) -> Fraction:
    """Exact hockey-stick divergence: the sum over outcomes of ``max(0, p - factor *
    q)``; ``factor`` is ``e^epsilon``.

    Examples
    --------
    >>> with_record = {"yes": Fraction(3, 4), "no": Fraction(1, 4)}
    >>> without = {"yes": Fraction(1, 4), "no": Fraction(3, 4)}
    >>> hockey_stick(with_record, without, 1), hockey_stick(with_record, without, 2)
    (Fraction(1, 2), Fraction(1, 4))
    """
    total = Fraction(0)
    for outcome, mass in p.items():
        excess = mass - factor * q.get(outcome, Fraction(0))
        if excess > 0:
            total += excess
    return total


def like_input(values: Floats) -> float | Floats:
    """Return a float for an array without dimensions, and any other array as it is."""
    return float(values) if values.ndim == 0 else values


def smallest_epsilon(
    curve: Callable[[Floats], Floats], delta: Floats, *, limit: float = 0.0
) -> Floats:
    """Smallest epsilon >= 0 with ``curve(epsilon) <= delta``, found from the private
    side; inf where delta < limit.

    ``curve`` must fall with epsilon towards ``limit``. If it never reaches ``limit``, a
    delta equal to ``limit`` gives infinity.
    """
    low = np.zeros_like(delta)
    high = np.full_like(delta, LARGEST)
    # at LARGEST delta is at its limit: what is not met there is never met
    reachable = curve(high) <= delta
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        enough = curve(middle) <= delta
        high = np.where(enough, middle, high)
        low = np.where(enough, low, middle)
    # high is enough in every round, which is the private side
    found = np.where(curve(np.zeros_like(delta)) <= delta, 0.0, high)
    return np.where(reachable & (delta >= limit), found, np.inf)


def on_private_side(
    curve: Callable[[Floats], Floats], found: Floats, delta: Floats
) -> Floats:
    """Raise epsilons that rounding left where ``curve`` is above ``delta``, by steps
    that grow from the last digit; inf where no step is enough.
    """
    # from the last binary digit to a sixteenth of the number
    for exponent in range(-52, 0, 4):
        finite = np.where(np.isfinite(found), found, 0.0)
        short = np.isfinite(found) & (curve(finite) > delta)
        if not short.any():
            return found
        step = 2.0**exponent * np.maximum(finite, 1e-3)
        found = np.where(short, finite + step, found)
    return np.where(curve(np.minimum(found, 1e300)) > delta, np.inf, found)


def supported_tradeoff(kept: Floats, epsilon: Floats, alpha: Floats) -> Floats:
    """Trade-off function: the upper envelope of the lines given by ``kept = 1 -
    delta(epsilon)``, in both directions.

    ``kept`` and ``epsilon`` have shape [lines]. Fewer lines can only lower the result,
    which is the private side.
    """
    found = np.zeros(alpha.shape)
    # e^epsilon may be inf
    with np.errstate(over="ignore"):
        gradients = np.exp(epsilon)
        # one by one: all lines at all alphas would take too much memory
        for place, rate in np.ndenumerate(alpha):
            # inf times 0 is no number
            fall = gradients * rate if rate > 0 else 0.0
            # a line of one direction, and its mirror image of the other
            highest = max((kept - fall).max(), ((kept - rate) / gradients).max())
            found[place] = max(0.0, highest)
    return found


# A dominating pair from the curve: its deltas at some nodes, connected by lines in
# e^epsilon

# losses, their masses under the first distribution, its mass at infinite loss
Atoms = tuple[Floats, Floats, float]
# nodes in one standard deviation of the loss, so many standard deviations far
FINE = 100
REACH = 12.0
COARSE = 1600  # nodes beyond, at equal ratios
NEGLIGIBLE = 1e-100  # delta above its limit that ends the nodes
ROUNDING = 1e-15  # relative, of a sum of masses and of a logarithm
LARGEST = 2.0**60  # an epsilon where delta has reached its limit


@dataclass(frozen=True)
class Pair:
    """Two distributions that dominate a mechanism, given by their deltas at ``nodes``
    in both directions.

    The hockey-stick divergence is convex in e^epsilon. Therefore no curve lies above
    the chord between two nodes, and the lower convex hull of upper bounds is still an
    upper bound. A pair of distributions attains this hull (Zhu, Dong and Wang 2022;
    Doroshenko et al. 2022).
    """

    nodes: Floats  # epsilons [m], from 0 on
    deltas: tuple[Floats, Floats]  # "remove" and "add", [m] each, convex in e^epsilon
    scale: float  # about the standard deviation of the loss

    def atoms(self) -> tuple[Atoms, Atoms]:
        """Losses of both directions: log dP/dQ under P, log dQ/dP under Q."""
        masses = [masses_of(self.nodes, deltas) for deltas in self.deltas]
        # at a node either distribution may be the likelier one: losses of both signs
        losses = np.concatenate([-self.nodes[:0:-1], self.nodes])
        found = []
        for own, other, deltas in zip(masses, masses[::-1], self.deltas, strict=True):
            both = np.concatenate([(np.exp(-self.nodes) * other)[:0:-1], own])
            infinite = float(deltas[-1])
            # the rest of the mass is at loss 0, where it adds to no delta
            both[len(other) - 1] = max(0.0, 1 - infinite - (both.sum() - own[0]))
            found.append((losses, both, infinite))
        return found[0], found[1]

    @property
    def failure(self) -> float:
        """Mass of infinite loss, in the worse direction."""
        return max(float(self.deltas[0][-1]), float(self.deltas[1][-1]))

    def rdp(self, alpha: Floats) -> Floats:
        """Upper bound on the Renyi divergence of the finite losses, in the direction in
        which it is larger.

        ``alpha`` has shape [..., 1] or [orders]. E_Q[(dP/dQ)^alpha] is 1 plus alpha
        (alpha - 1) times the integral of e^((alpha - 1) epsilon) H(P, Q) + e^(-alpha
        epsilon) H(Q, P) over epsilon >= 0 (Sason and Verdu 2016).
        """
        # [..., 1], beside the pieces between the nodes
        order = floats(alpha)[..., None]
        start = self.nodes[:-1]
        width = np.diff(self.nodes)
        if not len(width):
            return np.zeros(np.shape(alpha))
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            power = (order - 1) * width
            # log of the mean of e^power over a piece, which is 1 for a short one
            mean = _log_expm1(power) - np.log(power)
            grown = np.where(power < 1e-9, 0.0, mean)
            # integrals of e^((alpha - 1) epsilon) and e^(-alpha epsilon) over each
            # piece
            rising = (order - 1) * start + grown
            ends = -np.expm1(-order * width) / order
            other = -np.expm1(-(order - 1) * width) / (order - 1) - ends
            found = []
            for own, reverse in (self.deltas, self.deltas[::-1]):
                lost = float(own[-1])
                # the finite losses alone, whose delta comes down to 0
                kept = own - lost
                # delta is a straight line in e^epsilon between two nodes
                area = width * kept[:-1] + np.diff(kept) * (1 - width / np.expm1(width))
                below = reverse[:-1] * ends + np.diff(reverse) * other / np.expm1(width)
                pieces = np.logaddexp(
                    rising + np.log(area), np.log(below) - order * start
                )
                # beyond the last node the reverse delta stays at its limit
                last = np.log(reverse[-1]) - order * self.nodes[-1] - np.log(order)
                # the sum in logarithms: powers overflow at high orders
                top = np.maximum(pieces.max(-1, keepdims=True), last)
                total = np.exp(pieces - top).sum(-1, keepdims=True) + np.exp(last - top)
                excess = np.logaddexp(
                    0.0, np.log(order * (order - 1)) + top + np.log(total)
                )
                # the finite losses have mass 1 - lost: divided by it, they are a
                # distribution
                unseen = np.minimum(order * lost * np.exp(-excess), 1.0)
                found.append(
                    (excess + np.log1p(-unseen) - order * np.log1p(-lost)) / (order - 1)
                )
        found = [np.where(np.isnan(each), np.inf, each) for each in found]
        return floats(np.maximum(0.0, np.maximum(*found))[..., 0])


class Tail:
    """Delta of finitely many losses, looked up in running sums over the positive
    losses.
    """

    def __init__(self, losses: Floats, masses: Floats) -> None:
        kept = (losses > 0) & (masses > 0)  # no epsilon >= 0 sees the others
        self.losses = losses[kept]
        masses = masses[kept]
        # mass under P at this loss or above
        self._above = np.append(np.cumsum(masses[::-1])[::-1], 0.0)
        below = np.logaddexp.accumulate((np.log(masses) - self.losses)[::-1])[::-1]
        # the same under Q, in logarithms: e^-loss underflows
        self._log_below = np.append(below, -np.inf)

    def __call__(self, epsilon: Floats) -> Floats:
        """Sum of mass times 1 - e^(epsilon - loss) over the losses above epsilon,
        rounded up.
        """
        index = np.searchsorted(self.losses, epsilon, side="right")
        above = self._above[index]
        log_below = self._log_below[index]
        finite = np.isfinite(log_below)  # epsilon may be infinite beyond the last loss
        below = np.exp(np.minimum(np.where(finite, epsilon, 0.0) + log_below, 0.0))
        # a bound on the rounding of both sums, on the private side
        margin = ROUNDING * (1 + np.where(finite, np.abs(log_below), 0.0))
        return floats(np.maximum(above - below, 0.0) + margin * above)


def pair_of(curve: Callable[[Floats, str], Floats], symmetric: bool) -> Pair:
    """Make the pair of a curve ``delta(epsilon, direction)``, and choose the range
    and the spacing of its nodes.
    """

    def both(epsilon: Floats) -> list[Floats]:
        remove = np.clip(curve(epsilon, "remove"), 0.0, 1.0)
        return [
            remove,
            remove if symmetric else np.clip(curve(epsilon, "add"), 0.0, 1.0),
        ]

    # what no epsilon takes away: the mass of infinite loss
    limits = [float(deltas) for deltas in both(np.array(LARGEST))]
    # three rounds close in on the epsilon beyond which delta is at its limit
    ends = np.array([2.0**-60, LARGEST])
    for count in (121, 257, 257):
        trial = np.geomspace(ends[0], ends[1], count)
        excess = np.maximum(
            *(deltas - limit for deltas, limit in zip(both(trial), limits, strict=True))
        )
        index = int(np.argmax(excess <= NEGLIGIBLE))
        ends = trial[[max(index - 1, 0), index]]
    last = float(ends[1])
    # the spacing of the nodes follows from the standard deviation of the loss
    rough = np.geomspace(min(1e-12, last / 2), last, 400)
    total = sum(
        deltas - limit for deltas, limit in zip(both(rough), limits, strict=True)
    )
    # Jeffreys divergence
    scale = float(np.sqrt(np.trapezoid((1 + np.exp(-rough)) * total, rough) + rough[0]))
    # evenly where the mass is, at equal ratios beyond
    reach = min(REACH * scale, last)
    nodes = [
        np.linspace(0.0, reach, math.ceil(FINE * reach / scale) + 1),
        np.geomspace(reach, last, COARSE)[1:],
    ]
    epsilons = np.unique(np.concatenate(nodes[: 1 + (reach < last)]))
    # rounding may let a delta rise, which no curve does
    deltas = [np.minimum.accumulate(each) for each in both(epsilons)]
    hulls = [convex(epsilons, each) for each in (deltas[:1] if symmetric else deltas)]
    return Pair(epsilons, bridged(epsilons, hulls[0], hulls[-1]), scale)


def masses_of(nodes: Floats, deltas: Floats) -> Floats:
    """Masses of the losses at ``nodes`` [m] that attain ``deltas`` there; the first
    mass, at 0, has no meaning.
    """
    if len(nodes) < 2:
        return np.zeros(len(nodes))
    fall = -np.diff(deltas)
    width = np.diff(nodes)
    with np.errstate(over="ignore"):
        masses = np.append(0.0, fall / -np.expm1(-width))
        masses[:-1] -= fall / np.expm1(width)
    return floats(np.maximum(0.0, masses))


def convex(nodes: Floats, deltas: Floats) -> Floats:
    """The lower convex hull, in e^epsilon, of a curve at ``nodes``."""
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        fall = -np.diff(deltas)
        width = np.diff(nodes)
        # gradients in e^epsilon rise: it is convex, as most curves are
        if (fall[:-1] / -np.expm1(-width[:-1]) >= fall[1:] / np.expm1(width[1:])).all():
            return deltas
        # the hull by one pass (Andrew 1979): points that lie above a chord are dropped
        kept: list[int] = []
        for index in range(len(nodes)):
            while len(kept) > 1:
                a, b = kept[-2:]
                before = (deltas[a] - deltas[b]) / -np.expm1(nodes[a] - nodes[b])
                after = (deltas[b] - deltas[index]) / np.expm1(nodes[index] - nodes[b])
                if before >= after:
                    break
                kept.pop()
            kept.append(index)
        left = np.maximum(
            np.searchsorted(kept, np.arange(len(nodes)), side="left") - 1, 0
        )
        low = np.array(kept)[left]
        high = np.array(kept)[np.minimum(left + 1, len(kept) - 1)]
        span = nodes[high] - nodes[low]
        part = (
            np.exp(nodes - nodes[high])
            * -np.expm1(nodes[low] - nodes)
            / -np.expm1(-span)
        )
        line = deltas[low] + (deltas[high] - deltas[low]) * np.where(
            span > 0, part, 0.0
        )
    return floats(np.minimum(line, deltas))


def bridged(nodes: Floats, remove: Floats, add: Floats) -> tuple[Floats, Floats]:
    """Make both directions of one curve convex where they meet; otherwise their masses
    would sum to more than 1.

    With x = e^epsilon, the curve is ``remove`` for x >= 1. For x < 1 it is ``1 - x (1 -
    add)``, with ``add`` taken at epsilon = -log x.
    """
    least = min(remove[0], add[0])  # the total variation distance, from either side
    remove = np.minimum(remove, least)
    add = np.minimum(add, least)
    with np.errstate(over="ignore"):
        rise = np.append(np.expm1(np.diff(nodes)), 1.0)
        # gradients outwards
        right = -np.exp(-nodes) * (remove - np.append(remove[1:], remove[-1])) / rise
        left = add - 1 + (add - np.append(add[1:], add[-1])) / rise
        # convex as they meet
        if left[0] <= right[0] or len(nodes) < 2:
            return remove, add
        i = j = 1
        high = np.exp(nodes)
        # the common tangent of both branches, from the point where they meet outwards
        while True:
            gradient = (remove[j] - 1 + (1 - add[i]) / high[i]) / (
                high[j] - 1 / high[i]
            )
            if left[i] > gradient and i + 1 < len(nodes):
                i += 1
            elif gradient > right[j] and j + 1 < len(nodes):
                j += 1
            else:
                break
    near = nodes < nodes[j]
    remove = np.where(
        near, remove[j] + gradient * (np.where(near, high, high[j]) - high[j]), remove
    )
    near = nodes < nodes[i]
    inner = np.where(near, high, 1.0)
    return remove, np.where(
        near, 1 - inner + inner * (remove[j] + gradient * (1 / inner - high[j])), add
    )


def _log_expm1(x: Floats) -> Floats:
    return floats(x + np.log(-np.expm1(-x)))


def largest_mu(epsilon: Floats, delta: Floats) -> Floats:
    """Largest mu = sensitivity / sigma of an (epsilon, delta)-DP Gaussian mechanism,
    minus a margin for rounding.

    The method is Newton's method on log delta as a function of log mu. This function is
    concave, so every step from a mu that is too small stays on the private side. Two
    such values are known. One solves Phi(mu/2 - epsilon/mu) = delta, because the other
    term only lowers delta. The other is the mu whose total variation distance is delta.
    """
    # the root in mu of mu / 2 - epsilon / mu = quantile
    quantile = special.ndtri(delta)
    root = np.hypot(quantile, np.sqrt(2 * epsilon))
    below = quantile < 0  # there mu = quantile + root would lose its digits
    start = np.where(
        below, 2 * epsilon / np.where(below, root - quantile, 1.0), quantile + root
    )
    # the better of the two known values of the docstring
    mu = np.maximum(start, np.sqrt(8) * special.erfinv(delta))
    log_delta = np.log(delta)
    # the second term: rounding in log delta
    tolerance = 3e-13 + 1e-15 * np.abs(log_delta)
    # each pair stops by itself: the result does not depend on its neighbours
    going = np.ones(mu.shape, dtype=bool)
    for _ in range(NEWTON_STEPS):
        reached, derivative = log_delta_of(mu, epsilon)
        step = (log_delta - reached) / derivative
        mu = np.where(going, mu * np.exp(step), mu)
        going &= np.abs(step) >= tolerance
        if not going.any():
            break
    return floats(mu * (1 - PRIVATE_MARGIN))


def log_delta_of(mu: Floats, epsilon: Floats) -> tuple[Floats, Floats]:
    """Logarithm of delta(epsilon) for the Gaussian mechanism, and its derivative in log
    mu.

    With z = mu/2 - epsilon/mu and M the Mills ratio Phi(-x) / phi(x): delta = phi(z)
    (M(-z) - M(mu - z)), and the derivative of delta in mu is phi(z).
    """
    # -z of the docstring, and mu - z = low + mu
    low = epsilon / mu - mu / 2
    gap = mills(low) - mills(low + mu)
    narrow = mu < NARROW
    if narrow.any():  # as the integral of -M'(x) = 1 - x M(x)
        width = mu[narrow][..., None]
        x = low[narrow][..., None] + width * (1 + NODES) / 2
        gap = np.where(narrow, 0.0, gap)
        gap[narrow] = ((1 - x * mills(x)) * WEIGHTS).sum(-1) * mu[narrow] / 2
    return -(low**2) / 2 - np.log(2 * np.pi) / 2 + np.log(gap), mu / gap


def mills(x: Floats) -> Floats:
    """Mills ratio of the standard normal distribution, Phi(-x) / phi(x)."""
    return floats(np.sqrt(np.pi / 2) * special.erfcx(x / np.sqrt(2)))
