"""DP-SGD: the Poisson-sampled Gaussian mechanism, by Renyi curves or by privacy loss distributions, and its noise."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from dpnotes import _validation as check
from dpnotes.accounting._calibration import gaussian_sigma
from dpnotes.accounting._kinds import GaussianRelease, SampleRelease
from dpnotes.accounting._loss_distribution import (
    INTERVAL,
    LossDistribution,
    _enough_points,
    of_sampled_gaussian,
    self_composed,
)
from dpnotes.accounting._profile import Floats, PrivacyProfile
from dpnotes.accounting._renyi import RenyiRelease, Total

ACCOUNTANTS = ("pld", "rdp")
SOURCES = {
    "rdp": "Mironov, Talwar and Zhang (2019)",
    "pld": "Koskela, Jalko and Honkela (2020); privacy loss distribution of dp_accounting",
}

SMALLEST_INTERVAL = 1e-5
LEAST_DELTA = 1e-12  # that noise is calibrated for by loss distributions

# The moment E[((1 - q) + q e^((2 z - 1) / (2 sigma^2)))^a], z ~ N(0, sigma^2), by the trapezoidal rule
REACH = 12.0  # standard deviations beyond the outermost peaks, z = 0 and z = a: the rest is below e^-72
NODES = 2 ** np.arange(6, 14.5, 0.5)  # sizes of the grids in use; beyond the last, an upper bound takes over
CHUNK = 2**17  # nodes at once: 1 MB for each array of them

# Calibration: a grid of sigmas, at these orders, brackets every pair; the best order is then closed in on
COARSE_SIGMAS = 2.0 ** np.arange(-6, 40)
COARSE_ORDERS = 1 + np.logspace(-3, 6, 55)
SEARCH = (9, 7, 7, 7, 7, 7)  # orders at once, each time between the neighbours of the best; a parabola follows
ROUNDS = 30  # at most, of regula falsi, for
PRECISION = 1e-8  # in log sigma
LOWEST = -7.0  # log sigma: below 1e-3 nothing is of use


def dp_sgd(
    *,
    noise_multiplier: float,
    sample_rate: float,
    steps: int,
    accountant: str = "pld",
    interval: float | None = None,
) -> PrivacyProfile:
    """Guarantee of DP-SGD: all iterates, each step on a fresh Poisson sample of the records.

    Each step adds Gaussian noise of standard deviation ``noise_multiplier * clip_norm`` to the **sum** of the
    gradients clipped to ``clip_norm``. A batch of fixed size or shuffled epochs are not what this covers.

    Parameters
    ----------
    noise_multiplier : float, > 0
        Standard deviation of the noise on the sum, in units of the clip norm.
    sample_rate : float, in [0, 1]
        Probability with which each record takes part in a step, independently of all others.
    steps : int, >= 1
    accountant : {"pld", "rdp"}
        ``"pld"``: privacy loss distribution, tight up to its grid; for the number that is printed. ``"rdp"``: Renyi
        curve over real orders, several per cent larger in epsilon; for sweeps.
    interval : float, > 0, or None
        Distance of the privacy losses on the grid of ``"pld"``, in units of epsilon. None: 1e-4, or where that is
        coarse for the loss of one step, a sixteenth of its standard deviation, but no less than 1e-5.

    Returns
    -------
    PrivacyProfile
        Adjacency add-remove. Without sampling (rate 1) that of Gaussian noise, exact with either accountant.

    Raises
    ------
    ValueError
        If a parameter is outside its range, or the losses need more than 2^21 points of the grid.
    TypeError
        If steps is not an integer.

    Source
    ------
    Mironov, Talwar and Zhang (2019) for the Renyi curve; Koskela, Jalko and Honkela (2020) for the loss distribution.

    Examples
    --------
    >>> dp_sgd(noise_multiplier=1.0, sample_rate=0.01, steps=1000, accountant="rdp").epsilon(1e-5) < 2.1078
    True
    >>> round(dp_sgd(noise_multiplier=1.0, sample_rate=0.01, steps=1000).epsilon(1e-5), 3)
    1.828
    """
    sigma = check.positive("noise_multiplier", noise_multiplier)
    rate = check.real("sample_rate", sample_rate, high=1.0)
    steps = check.at_least_one("steps", steps)
    accountant = check.one_of("accountant", accountant, ACCOUNTANTS)
    if interval is not None:
        interval = check.positive("interval", interval)
    about: dict[str, Any] = {
        "mechanism": "dp_sgd",
        "parameters": {
            "noise_multiplier": sigma,
            "sample_rate": rate,
            "steps": steps,
            "accountant": accountant,
        },
        "adjacency": "add-remove",
        "source": SOURCES[accountant],
        "remark": "noise on the sum of clipped gradients; requires Poisson sampling",
    }
    if rate == 0:
        return SampleRelease(0.0, both=False, **about)
    if rate == 1:
        return GaussianRelease(math.sqrt(steps) / sigma, **about)
    if accountant == "pld":
        grid = _fine_interval(sigma, rate) if interval is None else interval
        return LossDistribution(_sampled_gaussian(sigma, rate, steps, grid), **about)
    return RenyiRelease(Total(((steps, partial(sampled_gaussian_rdp, sigma, rate)),)), **about)


@overload
def dp_sgd_noise_multiplier(
    epsilon: float, delta: float, *, sample_rate: float, steps: int, accountant: str = "rdp"
) -> float: ...
@overload
def dp_sgd_noise_multiplier(
    epsilon: ArrayLike, delta: ArrayLike, *, sample_rate: ArrayLike, steps: ArrayLike, accountant: str = "rdp"
) -> float | Floats: ...
def dp_sgd_noise_multiplier(
    epsilon: ArrayLike, delta: ArrayLike, *, sample_rate: ArrayLike, steps: ArrayLike, accountant: str = "rdp"
) -> float | Floats:
    """Smallest noise multiplier at which DP-SGD is (epsilon, delta)-DP by the given accountant.

    Errs on the private side: ``dp_sgd(noise_multiplier=result, ...).delta(epsilon) <= delta``; the result is within
    1e-3 of the smallest multiplier, relatively, and most often within 1e-7 (``"rdp"``) or 1e-5 (``"pld"``). The
    arguments broadcast, and all their combinations are solved at once (``"rdp"``) or one after the other (``"pld"``,
    about a second each).

    Parameters
    ----------
    epsilon : float or array_like, >= 0
    delta : float or array_like, in (0, 1)
    sample_rate : float or array_like, in (0, 1]
        Probability with which each record takes part in a step, independently of all others.
    steps : int or array_like of int, >= 1
    accountant : {"rdp", "pld"}

    Returns
    -------
    float or ndarray
        Standard deviation of the noise on the sum, in units of the clip norm; of the arguments' common shape.

    Raises
    ------
    ValueError
        If an argument is outside its range, or no noise multiplier up to 2^39 meets the budget by this accountant.
    TypeError
        If steps holds something else than integers.

    Source
    ------
    As :func:`dp_sgd`.

    Examples
    --------
    >>> sigma = dp_sgd_noise_multiplier([1.0, 2.0], 1e-5, sample_rate=0.01, steps=1000)
    >>> [round(float(value), 3) for value in sigma]
    [1.5..., 1.0...]
    """
    accountant = check.one_of("accountant", accountant, ACCOUNTANTS)
    epsilons = check.array("epsilon", epsilon)
    deltas = _open_unit("delta", delta)
    rates = check.array("sample_rate", sample_rate, high=1.0)
    if (rates == 0).any():
        raise ValueError(
            "sample_rate must be in (0, 1], got sample_rate=0.0; where nothing is sampled, no noise is needed"
        )
    if not np.issubdtype(np.asarray(steps).dtype, np.integer):
        raise TypeError(f"steps must be integers >= 1, got steps={steps!r}")
    counts = check.array("steps", steps, low=1.0)
    if not np.isfinite(epsilons).all():
        raise ValueError("epsilon must be finite, got epsilon=inf; it needs no noise")
    if accountant == "pld" and (deltas < LEAST_DELTA).any():
        raise ValueError(
            f"delta must be >= {LEAST_DELTA:g} with accountant='pld', got delta={float(deltas.min())!r}; the rounding "
            "of its grid is as large as smaller ones, and no noise meets them"
        )
    shape = np.broadcast_shapes(epsilons.shape, deltas.shape, rates.shape, counts.shape)
    pairs = [np.broadcast_to(values, shape).ravel() for values in (epsilons, deltas, rates, counts)]
    result = np.empty(pairs[0].shape)
    plain = pairs[2] == 1
    if plain.any():
        result[plain] = gaussian_sigma(pairs[0][plain], pairs[1][plain], sensitivity=np.sqrt(pairs[3][plain]))
    if not plain.all():
        sampled = [values[~plain] for values in pairs]
        sigmas = calibrated_rdp(*sampled, required=accountant == "rdp")
        if accountant == "pld":
            sigmas = np.array([_calibrated_pld(*pair) for pair in zip(*sampled, sigmas, strict=True)])
        result[~plain] = sigmas
    return float(result[0]) if shape == () else result.reshape(shape)


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


def calibrated_rdp(
    epsilon: Floats, delta: Floats, rate: Floats, steps: Floats, *, orders: Floats | None = None, required: bool = True
) -> Floats:
    """Noise multipliers [pairs] for arrays [pairs]; ``orders`` restricts the accountant to these.

    A pair that no noise can meet is an error if ``required``, and NaN otherwise.
    """
    coarse = COARSE_ORDERS if orders is None else np.asarray(orders, dtype=np.float64)
    log_delta = np.log(delta)

    # which two neighbours of the grid enclose the answer, for all pairs of the same rate at once
    low, high = np.empty(epsilon.shape), np.empty(epsilon.shape)
    first, last = np.empty(epsilon.shape, dtype=np.int64), np.empty(epsilon.shape, dtype=np.int64)
    for value in np.unique(rate):
        table = _coarse_rdp(float(value), tuple(coarse))  # [sigmas, orders]
        for index in np.flatnonzero(rate == value):
            total = steps[index] * table + _conversion(coarse, log_delta[index])
            best, curve = total.argmin(-1), total.min(-1)  # falls with sigma
            place = int(np.searchsorted(-curve, -epsilon[index], side="left"))  # first sigma that is enough
            if place == len(COARSE_SIGMAS):
                if required:
                    raise ValueError(
                        f"epsilon must be > {max(0.0, float(curve[-1])):.3g} for delta={float(delta[index])!r} with "
                        f"accountant='rdp', got epsilon={float(epsilon[index])!r}; no noise meets this budget"
                    )
                low[index] = high[index] = np.nan
                first[index] = last[index] = 0
                continue
            before = max(place - 1, 0)
            low[index], high[index] = COARSE_SIGMAS[before], COARSE_SIGMAS[place]
            first[index], last[index] = sorted((best[before], best[place]))
    reached = np.flatnonzero(np.isfinite(high))
    if not len(reached):
        return high
    epsilon, rate, steps, log_delta = (values[reached, None] for values in (epsilon, rate, steps, log_delta))
    low, high = low[reached], high[reached]
    left, right = np.maximum(first[reached] - 1, 0), np.minimum(last[reached] + 1, len(coarse) - 1)

    def at(sigma: Floats, order: Floats) -> Floats:
        """Epsilon, not cut at 0, of [pairs] and [pairs, orders]."""
        return steps * sampled_gaussian_rdp(sigma[:, None], rate, order) + _conversion(order, log_delta)

    def spent(sigma: Floats) -> Floats:
        if orders is not None:
            columns = np.minimum(left[:, None] + np.arange(int((right - left).max()) + 1), len(coarse) - 1)
            return np.asarray(at(sigma, coarse[columns]).min(-1), dtype=np.float64)
        return _smallest(lambda order: at(sigma, order), np.log(coarse[left] - 1), np.log(coarse[right] - 1))

    result = np.full(delta.shape, np.nan)
    result[reached] = _regula_falsi(spent, epsilon[:, 0], low, high) * (1 + PRECISION)  # the profile searches anew
    return result


def _smallest(curve: Callable[[Floats], Floats], left: Floats, right: Floats) -> Floats:
    """Smallest value of ``curve`` ([pairs, orders] to the same shape) for log(order - 1) between the ends, [pairs]."""
    best = np.full(left.shape, np.inf)
    for count in SEARCH:
        place = left[:, None] + (right - left)[:, None] * np.linspace(0, 1, count)
        values = curve(1 + np.exp(place))
        index = np.clip(values.argmin(-1), 1, count - 2)[:, None]
        three = [np.take_along_axis(values, index + shift, -1)[:, 0] for shift in (-1, 0, 1)]
        middle = np.take_along_axis(place, index, -1)[:, 0]
        gap = (right - left) / (count - 1)
        left, right = middle - gap, middle + gap
        best = np.minimum(best, values.min(-1))
    bend = three[0] - 2 * three[1] + three[2]
    with np.errstate(divide="ignore", invalid="ignore"):
        shift = np.clip(np.nan_to_num((three[0] - three[2]) / (2 * bend)), -1.0, 1.0)
    vertex = curve(1 + np.exp(middle + shift * gap)[:, None])[:, 0]
    return np.asarray(np.minimum(best, vertex), dtype=np.float64)


def _regula_falsi(spent: Callable[[Floats], Floats], epsilon: Floats, low: Floats, high: Floats) -> Floats:
    """Sigma where ``spent`` falls to epsilon, from the side where it is enough; all pairs at once, in log sigma.

    The Illinois rule: an end that stays twice counts half.
    """
    a, b = np.log(low), np.log(high)
    f_low, f_high = spent(low) - epsilon, spent(high) - epsilon
    stride = 0.1  # the bracket was found with fewer orders: its ends may be off
    while (wrong := f_high > 0).any():
        a, f_low = np.where(wrong, b, a), np.where(wrong, f_high, f_low)
        b = np.where(wrong, b + stride, b)
        f_high = spent(np.exp(b)) - epsilon
    while (wrong := (f_low <= 0) & (a > LOWEST)).any():
        b, f_high = np.where(wrong, a, b), np.where(wrong, f_low, f_high)
        a = np.where(wrong, a - stride, a)
        f_low = spent(np.exp(a)) - epsilon
    side = np.zeros(len(a))
    for _ in range(ROUNDS):
        if (b - a < PRECISION).all():
            break
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.nan_to_num(f_low / (f_low - f_high), nan=0.5)
        middle = a + np.clip(share * (b - a), PRECISION / 4, np.maximum(b - a - PRECISION / 4, PRECISION / 4))
        value = spent(np.exp(middle)) - epsilon
        enough = value <= 0
        f_low = np.where(enough, np.where(side > 0, f_low / 2, f_low), value)
        f_high = np.where(enough, value, np.where(side < 0, f_high / 2, f_high))
        side = np.where(enough, 1, -1)
        a, b = np.where(enough, a, middle), np.where(enough, middle, b)
    return np.exp(b)


def _conversion(order: Floats, log_delta: Floats) -> Floats:
    """What is added to the Renyi divergence of an order to give epsilon (Canonne, Kamath and Steinke 2020)."""
    return np.asarray(np.log1p(-1 / order) - (log_delta + np.log(order)) / (order - 1), dtype=np.float64)


@lru_cache(maxsize=64)
def _coarse_rdp(rate: float, orders: tuple[float, ...]) -> Floats:
    return sampled_gaussian_rdp(COARSE_SIGMAS[:, None], rate, np.array(orders))


@lru_cache(maxsize=16)
def _sampled_gaussian(sigma: float, rate: float, steps: int, interval: float) -> Any:
    one = _one_step(sigma, rate, interval)
    return one if steps == 1 else self_composed(one, steps)


def _fine_interval(sigma: float, rate: float) -> float:
    """Rounding to the grid widens each step's loss: it must be small against the loss's own deviation."""
    deviation = rate * math.sqrt(math.expm1(min(1 / sigma**2, 100.0)))
    return min(INTERVAL, max(SMALLEST_INTERVAL, deviation / 16))


@lru_cache(maxsize=16)
def _one_step(sigma: float, rate: float, interval: float) -> Any:
    _enough_points((10 / sigma + 0.5 / sigma**2) / interval, interval)  # noise beyond 10 sigma is cut, mass below e^-50
    return of_sampled_gaussian(sigma, rate, interval)


def _open_unit(name: str, values: ArrayLike) -> Floats:
    result = np.asarray(values, dtype=np.float64)
    wrong = ~((result > 0) & (result < 1))
    if wrong.any():
        raise ValueError(
            f"{name} must be in (0, 1), got {name}={float(result[wrong].flat[0])!r}; "
            "Gaussian noise gives no pure guarantee"
        )
    return result


def _calibrated_pld(epsilon: float, delta: float, rate: float, steps: float, start: float) -> float:
    """Sigma of one pair: regula falsi on the logarithms of sigma and delta, from the Renyi answer downwards."""
    times = int(steps)

    def excess(log_sigma: float) -> float:
        profile = dp_sgd(noise_multiplier=math.exp(log_sigma), sample_rate=rate, steps=times)
        return math.log(max(profile.delta(float(epsilon)), 1e-300)) - math.log(delta)

    high = math.log(start) if math.isfinite(start) else 0.0
    f_high = excess(high)
    while f_high > 0:
        high += 0.5
        if high > math.log(COARSE_SIGMAS[-1]):
            raise ValueError(
                f"no noise meets epsilon={float(epsilon)!r}, delta={float(delta)!r} with accountant='pld'; its grid "
                "certifies no delta below about 1e-15 per step"
            )
        f_high = excess(high)
    low, f_low = high, f_high
    while f_low <= 0:
        high, f_high = low, f_low
        low -= 0.15
        f_low = excess(low)
    side = 0
    for _ in range(40):
        if high - low < 1e-5:
            break
        middle = low + (high - low) * min(max(f_low / (f_low - f_high), 0.02), 0.98)
        value = excess(middle)
        if value <= 0:
            f_low = f_low / 2 if side > 0 else f_low
            high, f_high, side = middle, value, 1
        else:
            f_high = f_high / 2 if side < 0 else f_high
            low, f_low, side = middle, value, -1
    return math.exp(high)
