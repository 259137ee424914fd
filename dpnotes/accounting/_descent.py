"""Private gradient descent: DP-SGD with all iterates released, its least noise, and
release of the last iterate.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import overload

import numpy as np
from numpy.typing import ArrayLike

from dpnotes import _validation as check
from dpnotes._validation import Floats, Integers
from dpnotes.accounting._calibrate import boundary, gaussian_sigma
from dpnotes.accounting._curves import LARGEST_DELTA, largest_mu
from dpnotes.accounting._kinds import (
    ComposedRelease,
    GaussianRelease,
    Release,
    RenyiRelease,
    SampleRelease,
    together,
)
from dpnotes.accounting._profile import ADJACENCIES, PrivacyProfile, describe
from dpnotes.accounting._renyi import (
    Total,
    conversion,
    sampled_gaussian_rdp,
    smallest,
)
from dpnotes.accounting._sampling import MixtureRelease, OverlapRelease

ACCOUNTANTS = ("best", "pld", "rdp")
LEAST_DELTA = 1e-12  # that noise is calibrated for by loss distributions

# Calibration: a grid of sigmas, at these orders, brackets every pair; the best order is
# then closed in on
COARSE_SIGMAS = 2.0 ** np.arange(-24, 40)
COARSE_ORDERS = 1 + np.logspace(-3, 6, 55)
PRECISION = 1e-8  # in log sigma


def dp_sgd(
    *,
    noise_multiplier: float,
    sample_rate: float,
    steps: int,
    accountant: str = "best",
    adjacency: str = "add-remove",
) -> PrivacyProfile:
    """Guarantee of releasing all iterates of DP-SGD, where each step uses a secret
    Poisson sample of the records.

    In each step each record takes part independently with probability ``sample_rate``.
    Gaussian noise of standard deviation ``noise_multiplier * clip_norm`` is added to
    the **sum** of the gradients clipped to ``clip_norm``. The guarantee does not hold
    for batches that are drawn in another way, for example by shuffling.

    Parameters
    ----------
    noise_multiplier : float, > 0
        Standard deviation of the noise on the sum, in units of the clip norm.
    sample_rate : float, in [0, 1]
        Probability with which a record takes part in a step.
    steps : int, >= 1
    accountant : {"best", "pld", "rdp"}
        ``"pld"``: privacy loss distribution, tight except for the rounding to its grid.
        On large grids (for example a rate of 1e-6 with little noise) the sum of the
        losses uses Fourier transforms. Their rounding errors are estimated, not bounded
        by a proof, and are added to delta, which is then never below about 1e-14
        ``steps``.
        ``"rdp"``: Renyi curve over real orders. Its epsilon is usually several per cent
        larger, and many times larger for few steps at a small rate.
        ``"best"``: the smaller of the two deltas at each epsilon.
    adjacency : {"add-remove", "zero-out", "replace-one"}
        Relation between neighbouring data sets; under zero-out an empty record has no
        gradient.

    Returns
    -------
    PrivacyProfile
        Without sampling (rate 1) it is the profile of Gaussian noise, which is exact
        with every accountant. One step has an exact curve, except with ``"rdp"``.

    Raises
    ------
    ValueError
        If a parameter is outside its range.
    TypeError
        If steps is not an integer.

    Source
    ------
    Mironov, Talwar and Zhang (2019) for the Renyi curve; Koskela, Jalko and Honkela
    (2020) and Zhu, Dong and Wang (2022) for the losses; Balle, Barthe and Gaboardi
    (2018), Theorem 2, for replace-one adjacency.

    Examples
    --------
    >>> dp_sgd(
    ...     noise_multiplier=1.0, sample_rate=0.01, steps=1000, accountant="rdp"
    ... ).epsilon(1e-5) < 2.1078
    True
    >>> round(
    ...     dp_sgd(noise_multiplier=1.0, sample_rate=0.01, steps=1000).epsilon(1e-5), 2
    ... )
    1.83
    """
    sigma = check.positive("noise_multiplier", noise_multiplier)
    rate = check.real("sample_rate", sample_rate, high=1.0)
    steps = check.at_least_one("steps", steps)
    accountant = check.one_of("accountant", accountant, ACCOUNTANTS)
    exchanged = check.one_of("adjacency", adjacency, ADJACENCIES) == "replace-one"
    run = {
        "noise_multiplier": sigma,
        "sample_rate": rate,
        "steps": steps,
        "accountant": accountant,
    }
    about = describe("dp_sgd", adjacency, **run)
    about["source"] = "Mironov, Talwar and Zhang (2019); Zhu, Dong and Wang (2022)"
    about["remark"] = "noise on the sum of clipped gradients; requires Poisson sampling"
    return PrivacyProfile(
        _accounted(_step(sigma, rate, exchanged), steps, accountant), **about
    )


def _step(sigma: float, rate: float, exchanged: bool) -> Release:
    """One step; the two records of a replacement are drawn together and move the sum
    by up to two clip norms.
    """
    # no record takes part: nothing is released about it
    if rate == 0:
        return SampleRelease(0.0, both=False)
    if rate == 1:
        return GaussianRelease((1 + exchanged) * (1 / sigma))
    if exchanged:
        return OverlapRelease(rate, 1 / sigma)
    return MixtureRelease(GaussianRelease(1 / sigma), rate)


def _accounted(once: Release, times: int, accountant: str) -> Release:
    """Steps by the accountant; without sampling, and at rate 0, the result is exact
    with every accountant.
    """
    # the curve of one step is exact and needs no accountant
    if times == 1 and accountant != "rdp":
        return once
    if accountant == "best" or isinstance(once, GaussianRelease | SampleRelease):
        return together([(once, times)])
    if accountant == "pld":
        return ComposedRelease([(once, times)], losses_alone=True)
    return RenyiRelease(Total(((times, once.renyi().curve),)))


@overload
def dp_sgd_noise_multiplier(
    epsilon: float,
    delta: float,
    *,
    sample_rate: float,
    steps: int,
    accountant: str = "best",
) -> float: ...
@overload
def dp_sgd_noise_multiplier(
    epsilon: ArrayLike,
    delta: ArrayLike,
    *,
    sample_rate: ArrayLike,
    steps: ArrayLike,
    accountant: str = "best",
) -> float | Floats: ...
def dp_sgd_noise_multiplier(
    epsilon: ArrayLike,
    delta: ArrayLike,
    *,
    sample_rate: ArrayLike,
    steps: ArrayLike,
    accountant: str = "best",
) -> float | Floats:
    """Smallest noise multiplier at which DP-SGD on Poisson samples is (epsilon,
    delta)-DP by the given accountant.

    The result errs on the private side: ``dp_sgd(noise_multiplier=result,
    ...).delta(epsilon) <= delta``. Its relative distance to the smallest multiplier is
    at most 1e-3, and usually at most 1e-7 (``"rdp"``) or 1e-5 (the other accountants);
    for epsilons above 1000 it may be larger.

    The arguments are broadcast. All combinations of their values are first solved at
    once with Renyi curves. ``"best"`` and ``"pld"`` then compute three or four loss
    distributions for each combination (0.2 to 5 seconds). For aims other than (epsilon,
    delta), use :func:`calibrate`.

    Parameters
    ----------
    epsilon : float or array_like, >= 0
    delta : float or array_like, in (0, 1)
    sample_rate : float or array_like, in (0, 1]
        Probability with which each record takes part in a step, independently of all
        others.
    steps : int or array_like of int, >= 1
    accountant : {"best", "pld", "rdp"}
        The accountants of :func:`dp_sgd`. Use ``"rdp"`` for sweeps over thousands of
        combinations.

    Returns
    -------
    float or ndarray
        Standard deviation of the noise on the sum, in units of the clip norm. The
        result has the arguments' common shape.

    Raises
    ------
    ValueError
        If an argument is outside its range, or no noise multiplier up to 2^39 meets the
        budget by this accountant.
    TypeError
        If steps holds anything other than integers.

    Source
    ------
    The sources of :func:`dp_sgd`.

    Examples
    --------
    >>> round(dp_sgd_noise_multiplier(2.0, 1e-5, sample_rate=0.01, steps=1000), 3)
    0.959
    >>> sigma = dp_sgd_noise_multiplier(
    ...     [1.0, 2.0], 1e-5, sample_rate=0.01, steps=1000, accountant="rdp"
    ... )
    >>> [round(float(value), 3) for value in sigma]
    [1.5..., 1.0...]
    """
    accountant = check.one_of("accountant", accountant, ACCOUNTANTS)
    if not np.issubdtype(np.asarray(steps).dtype, np.integer):
        raise TypeError(f"steps must be integers >= 1, got steps={steps!r}")
    given = (
        check.array("epsilon", epsilon, finite=True),
        check.array(
            "delta",
            delta,
            high=1.0,
            open_low=True,
            open_high=True,
            why="noise gives no pure guarantee",
        ),
        check.array("sample_rate", sample_rate, high=1.0, open_low=True),
        check.array("steps", steps, low=1.0),
    )
    if accountant == "pld":
        why = (
            "a smaller delta is lost in the rounding errors of accountant='pld', so no"
            " noise meets it"
        )
        check.array("delta", delta, low=LEAST_DELTA, why=why)
    shape = np.broadcast_shapes(*(values.shape for values in given))
    epsilons, deltas, rates, counts = (
        np.broadcast_to(values, shape).ravel() for values in given
    )
    result = np.empty(epsilons.shape)
    # without sampling the steps are one release of Gaussian noise, solved in closed
    # form
    plain = rates == 1
    if plain.any():
        result[plain] = gaussian_sigma(
            epsilons[plain], deltas[plain], sensitivity=np.sqrt(counts[plain])
        )
    if not plain.all():
        pairs = [values[~plain] for values in (epsilons, deltas, rates, counts)]
        sigmas = calibrated_rdp(*pairs, required=accountant == "rdp")
        # losses are costly: they start from the answers by Renyi curves
        if accountant != "rdp":
            best = accountant == "best"
            for index, pair in enumerate(zip(*pairs, sigmas, strict=True)):
                sigmas[index] = _calibrated_pld(*pair, best=best)
        result[~plain] = sigmas
    return float(result[0]) if shape == () else result.reshape(shape)


def calibrated_rdp(
    epsilon: Floats,
    delta: Floats,
    rate: Floats,
    steps: Floats,
    *,
    required: bool,
) -> Floats:
    """Noise multipliers by Renyi curves, for arrays of one shape, [pairs].

    A pair that no noise can meet raises an error if ``required``; otherwise its result
    is NaN.
    """
    from scipy.optimize import elementwise

    log_delta = np.log(delta)
    low, high, left, right = _brackets(epsilon, log_delta, rate, steps)
    reached = np.isfinite(high)
    if required and not reached.all():
        index = int(np.flatnonzero(~reached)[0])
        least = _coarse_epsilon(
            float(rate[index]), steps[index], log_delta[index]
        ).min()
        raise ValueError(
            f"epsilon must be > {max(0.0, float(least)):.3g} for"
            f" delta={float(delta[index])!r} with accountant='rdp', got"
            f" epsilon={float(epsilon[index])!r}; no noise meets this budget"
        )
    if not reached.any():
        return high

    def excess(
        place: Floats,
        epsilon: Floats,
        log_delta: Floats,
        rate: Floats,
        steps: Floats,
        left: Floats,
        right: Floats,
    ) -> Floats:
        """Epsilon at log sigma, which may be negative, minus the wanted one, [pairs]."""
        sigma = np.exp(place)

        def at(order: Floats) -> Floats:
            divergence = sampled_gaussian_rdp(sigma[:, None], rate[:, None], order)
            return steps[:, None] * divergence + conversion(order, log_delta[:, None])

        return smallest(at, left, right) - epsilon

    ends = [np.log(COARSE_ORDERS[end] - 1) for end in (left, right)]
    pairs = [each[reached] for each in (epsilon, log_delta, rate, steps, *ends)]
    # epsilon falls with the noise: one root for each pair, all pairs at once
    found = elementwise.find_root(
        excess,
        (np.log(low[reached]), np.log(high[reached])),
        args=tuple(pairs),
        tolerances={"xatol": PRECISION / 2},
    )
    result = np.full(delta.shape, np.nan)
    # the end that is enough, and a margin: the profile searches anew
    result[reached] = np.exp(np.fmax(found.x, found.bracket[1])) * (1 + PRECISION)
    return result


def _brackets(
    epsilon: Floats, log_delta: Floats, rate: Floats, steps: Floats
) -> tuple[Floats, Floats, Integers, Integers]:
    """Two adjacent coarse sigmas around each answer, and the coarse orders around its
    best order.

    Sigmas are NaN if no noise is enough.
    """
    low, high = np.full((2, len(epsilon)), np.nan)
    left, right = np.zeros((2, len(epsilon)), dtype=np.int64)
    # pairs of the same rate together, for the cache
    for index in np.argsort(rate, kind="stable"):
        total = _coarse_epsilon(float(rate[index]), steps[index], log_delta[index])
        best = total.argmin(-1)
        curve = total.min(-1)  # falls with sigma
        # first sigma that is enough
        place = int(np.searchsorted(-curve, -epsilon[index], side="left"))
        if place < len(COARSE_SIGMAS):
            # a coarse order may ask for more noise than the best one: a wide bracket
            pair = [max(place - 1, 0), place]
            low[index], high[index] = COARSE_SIGMAS[pair] * [0.5, 1.0]
            left[index] = best[pair].min() - 1
            right[index] = best[pair].max() + 1
    return low, high, np.maximum(left, 0), np.minimum(right, len(COARSE_ORDERS) - 1)


@lru_cache(maxsize=256)  # sweeps and fits repeat their budgets
def _calibrated_pld(
    epsilon: float,
    delta: float,
    rate: float,
    steps: float,
    by_rdp: float,
    *,
    best: bool,
) -> float:
    """Sigma of one pair by losses, searched from the Renyi answer downwards; that
    answer if it is better.
    """
    # NaN where no noise is enough by Renyi curves
    known = math.isfinite(by_rdp)
    if best and known and delta < LEAST_DELTA:
        return by_rdp

    wanted = math.log(
        float(largest_mu(np.array(epsilon), np.array(min(delta, LARGEST_DELTA))))
    )

    def excess(place: float) -> float:
        """In units of mu, of Gaussian noise with the same delta: nearly a straight
        line.
        """
        run = dp_sgd(
            noise_multiplier=math.exp(place),
            sample_rate=rate,
            steps=int(steps),
            accountant="pld",
        )
        found = run.delta(float(epsilon))
        if not 1e-300 < found < LARGEST_DELTA:
            return math.log(max(found, 1e-300) / delta)
        return math.log(float(largest_mu(np.array(epsilon), np.array(found)))) - wanted

    # losses need no more noise than Renyi curves, and seldom much less
    start = math.log(by_rdp) if known else 0.0
    variance = math.exp(-2 * max(start, -2.0))
    # of log(e^(1 / sigma^2) - 1) / 2: many small losses
    slope = variance * math.exp(variance) / math.expm1(variance)
    found = boundary(excess, start, slope=-slope, furthest=27.0)
    if found is None:
        raise ValueError(
            f"no noise meets epsilon={float(epsilon)!r}, delta={float(delta)!r} with"
            f" accountant={'best' if best else 'pld'!r}; loss distributions cannot"
            " certify so small a delta"
        )
    sigma = math.exp(found)
    return min(sigma, by_rdp) if best and known else sigma


def _coarse_epsilon(rate: float, steps: float, log_delta: float) -> Floats:
    """Epsilon at the coarse sigmas and orders, [sigmas, orders]."""
    return steps * _coarse_rdp(rate) + conversion(COARSE_ORDERS, log_delta)


@lru_cache(maxsize=64)
def _coarse_rdp(rate: float) -> Floats:
    return sampled_gaussian_rdp(COARSE_SIGMAS[:, None], rate, COARSE_ORDERS)


def step_contraction(
    *, learning_rate: float, smoothness: float, convexity: float = 0.0
) -> float:
    """Lipschitz constant of one step of gradient descent, as a map of the weights.

    Parameters
    ----------
    learning_rate : float, > 0
    smoothness : float, > 0
        Upper bound on the largest eigenvalue of the objective's Hessian.
    convexity : float, >= 0 and <= smoothness
        Lower bound on the smallest eigenvalue of the objective's Hessian.

    Returns
    -------
    float, >= 0
        Constant that is at most 1 for ``learning_rate <= 2 / smoothness``, and below 1
        only if the objective is also strongly convex.

    Raises
    ------
    ValueError
        If a parameter is outside its range.

    Source
    ------
    Hardt, Recht and Singer (2016), Lemma 3.7.

    Examples
    --------
    >>> step_contraction(learning_rate=0.5, smoothness=1.0, convexity=0.25)
    0.875
    """
    learning_rate = check.positive("learning_rate", learning_rate)
    smoothness = check.positive("smoothness", smoothness)
    convexity = check.real("convexity", convexity, high=smoothness)
    # the eigenvalues of I - learning_rate Hessian lie between these two
    return max(abs(1 - learning_rate * convexity), abs(1 - learning_rate * smoothness))


def last_iterate_mu(
    *,
    sigma: float,
    shift: float,
    steps: int,
    contraction: float = 1.0,
    diameter: float = math.inf,
) -> float:
    """Bound on the mu of the Gaussian guarantee of the last iterate after ``steps``
    steps.

    The iterates come from full-batch descent on a convex objective, projected on a
    convex set: ``theta <- Proj(theta - learning_rate gradient + N(0, sigma^2 I))``.

    Parameters
    ----------
    sigma : float, > 0
        Standard deviation of the noise on each coordinate in each step, in the units of
        theta. Without noise there is no guarantee.
    shift : float, > 0
        Bound on the distance between the results of one step from the same point on
        adjacent data sets, in the units of theta. With L-Lipschitz losses and mean
        gradients it is ``2 learning_rate L / n`` for replace-one, and half as much for
        zero-out.
    steps : int, >= 1
    contraction : float, in [0, 1]
        Lipschitz constant of a step (:func:`step_contraction`); 1 for a convex
        objective and a learning rate of at most 2 / smoothness.
    diameter : float, > 0
        Diameter of the set on which the iterates are projected; infinite if they are
        not projected.

    Returns
    -------
    float, > 0
        The least of three bounds. The bound by composition also holds for the release
        of all iterates. The bound by the contraction is for strongly convex objectives,
        and the bound by the diameter is for convex objectives.

    Raises
    ------
    ValueError
        If a parameter is outside its range. A contraction above 1 is invalid, because
        iterates can then drift apart.

    Source
    ------
    Bok, Su and Altschuler (2024); Feldman, Mironov, Talwar and Thakurta (2018) for
    amplification by iteration.

    Examples
    --------
    >>> round(last_iterate_mu(sigma=1.0, shift=0.1, steps=50, contraction=0.9), 6)
    0.433649
    >>> round(last_iterate_mu(sigma=0.05, shift=0.01, steps=1000, diameter=2.0), 6)
    5.656854
    """
    sigma = check.positive("sigma", sigma)
    shift = check.positive("shift", shift)
    steps = check.at_least_one("steps", steps)
    contraction = check.real("contraction", contraction, high=1.0)
    if diameter != math.inf:
        diameter = check.positive("diameter", diameter)
    # (1 - c^T)(1 + c) / ((1 - c)(1 + c^T)) shifts, which is T at c = 1, by tanh, as
    # 1 - c loses its digits near c = 1
    if contraction in (0.0, 1.0):
        shifts = 1.0 if contraction == 0.0 else float(steps)
    else:
        half = -math.log(contraction) / 2
        shifts = math.tanh(steps * half) / math.tanh(half)
    # sqrt T by composition, and min over t <= T of (D + t) / sqrt t, D the diameter in
    # units of the shift; the minimum over real t is at t = D
    width = diameter / shift
    best = int(min(float(steps), width))
    bounds = [math.sqrt(shifts), math.sqrt(steps)]
    for t in (max(1, best), min(steps, best + 1)):
        bounds.append((width + t) / math.sqrt(t))
    return shift / sigma * min(bounds)


def last_iterate(
    *,
    sigma: float,
    shift: float,
    steps: int,
    contraction: float = 1.0,
    diameter: float = math.inf,
    adjacency: str = "replace-one",
) -> PrivacyProfile:
    """Guarantee of releasing only the last iterate of noisy projected gradient descent
    on a convex objective.

    Parameters
    ----------
    sigma, shift, steps, contraction, diameter
        The numbers that :func:`last_iterate_mu` takes.
    adjacency : {"replace-one", "zero-out", "add-remove"}
        The relation that the shift was computed for.

    Returns
    -------
    PrivacyProfile
        Profile of Gaussian noise with the mu that :func:`last_iterate_mu` returns.

    Raises
    ------
    ValueError
        If a parameter is outside its range.

    Source
    ------
    Bok, Su and Altschuler (2024).

    Examples
    --------
    >>> profile = last_iterate(sigma=1.0, shift=0.1, steps=50, contraction=0.9)
    >>> round(profile.epsilon(1e-5), 4)
    1.7008
    """
    mu = last_iterate_mu(
        sigma=sigma,
        shift=shift,
        steps=steps,
        contraction=contraction,
        diameter=diameter,
    )
    given = {
        "sigma": float(sigma),
        "shift": float(shift),
        "steps": int(steps),
        "contraction": float(contraction),
    }
    about = describe("last_iterate", adjacency, **given, diameter=float(diameter))
    remark = (
        "for a convex objective, full-batch steps that shift by at most `shift`, and"
        " secret earlier iterates"
    )
    mu = check.positive("shift / sigma", mu)
    source = "Bok, Su and Altschuler (2024)"
    return PrivacyProfile(
        GaussianRelease(mu),
        **about,
        source=source,
        remark=remark,
        exactness="upper bound",
    )
