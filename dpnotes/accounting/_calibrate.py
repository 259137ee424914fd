"""Least noise for (epsilon, delta), and the parameter at which any mechanism just
meets an aim.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import overload

import numpy as np
from numpy.typing import ArrayLike

from dpnotes import _validation as check
from dpnotes._validation import Floats, floats
from dpnotes.accounting._curves import LARGEST_DELTA, largest_mu, like_input
from dpnotes.accounting._profile import PrivacyProfile, a_profile

LARGEST_EPSILON = 1e12  # epsilon / mu - mu / 2 still has nine digits after the point
# of a step until there is a bracket, in the logarithm: of the first, doubling, and of
# any
STRIDE = 0.1
LONGEST = 3.0
PRECISION = 1e-5  # of the logarithm
ROUNDS = 80  # a dozen suffice
# where it is looked whether the curve rises; it may be flat at the start
APART = (STRIDE, 2.0, 9.0)
FURTHEST = 45.0  # e^45 and e^-45 times the start: no parameter of use
EVERY = "every mechanism meets it"
AIMS = "epsilon and delta, or mu, or advantage, or tpr and fpr"


@overload
def gaussian_sigma(
    epsilon: float, delta: float, *, sensitivity: float = 1.0, analysis: str = "tight"
) -> float: ...
@overload
def gaussian_sigma(
    epsilon: ArrayLike,
    delta: ArrayLike,
    *,
    sensitivity: ArrayLike = 1.0,
    analysis: str = "tight",
) -> float | Floats: ...
def gaussian_sigma(
    epsilon: ArrayLike,
    delta: ArrayLike,
    *,
    sensitivity: ArrayLike = 1.0,
    analysis: str = "tight",
) -> float | Floats:
    """Smallest sigma at which the Gaussian mechanism is (epsilon, delta)-DP.

    The result errs on the private side: the mechanism is (epsilon, delta)-DP at the
    returned sigma, but not at a sigma smaller by one part in 10^9. The result is valid
    for every epsilon >= 0. (The classical formula is proved only for epsilon < 1 and
    gives a larger sigma there.)

    Parameters
    ----------
    epsilon : float or array_like, >= 0
    delta : float or array_like, in (0, 1)
        Delta of the guarantee; at most 0.999, because a larger delta guarantees next to
        nothing.
    sensitivity : float or array_like, > 0
        L2 distance between the query's values on adjacent data sets, in the units of
        the query. ``epsilon``, ``delta`` and ``sensitivity`` are broadcast.
    analysis : {"tight", "classical"}
        ``"classical"``: the formula ``sensitivity sqrt(2 log(1.25 / delta)) /
        epsilon``. The function raises an error where this sigma is not sufficient
        (above epsilon = 8.4 for delta = 1e-5).

    Returns
    -------
    float or ndarray
        Standard deviation of the noise on each coordinate, in the units of the query.

    Raises
    ------
    ValueError
        If a parameter is outside its range. Gaussian noise never reaches delta = 0.

    Source
    ------
    Balle and Wang (2018), Theorem 8; Dwork and Roth (2014), Theorem A.1 for the
    classical formula.

    Examples
    --------
    >>> (
    ...     round(gaussian_sigma(1.0, 1e-5), 4),
    ...     round(gaussian_sigma(1.0, 1e-5, analysis="classical"), 4),
    ... )
    (3.7306, 4.8448)
    >>> gaussian_sigma([0.5, 1.0], 1e-5).round(4)
    array([7.0318, 3.7306])
    """
    epsilon = check.array("epsilon", epsilon, high=LARGEST_EPSILON)
    why = "for delta = 0 use laplace(...); above 0.999 next to nothing is guaranteed"
    delta = check.array("delta", delta, high=LARGEST_DELTA, open_low=True, why=why)
    sensitivity = check.array("sensitivity", sensitivity, open_low=True, finite=True)
    analysis = check.one_of("analysis", analysis, ("tight", "classical"))

    epsilon, delta, sensitivity = np.broadcast_arrays(epsilon, delta, sensitivity)
    with np.errstate(divide="ignore", over="ignore"):  # caught below
        largest = _classical_mu if analysis == "classical" else largest_mu
        sigma = sensitivity / largest(epsilon, delta)
    # at a tiny epsilon and delta the largest mu underflows to 0
    if not np.isfinite(sigma).all():
        # the first pair without a sigma, to name it
        index = np.unravel_index(np.argmin(np.isfinite(sigma)), sigma.shape)
        raise ValueError(
            "epsilon and delta must be large enough for a finite sigma, got "
            f"epsilon={float(epsilon[index])!r}, delta={float(delta[index])!r}"
        )
    return like_input(np.asarray(sigma))


def _classical_mu(epsilon: Floats, delta: Floats) -> Floats:
    # Theorem A.1 of Dwork and Roth, solved for mu = sensitivity / sigma
    mu = epsilon / np.sqrt(2 * np.log(1.25 / delta))
    wrong = (epsilon <= 0) | (mu > largest_mu(epsilon, delta))
    if wrong.any():
        raise ValueError(
            "the classical formula is proved for 0 < epsilon < 1 and is not sufficient"
            f" for epsilon={float(epsilon[wrong].flat[0])!r} at"
            f" delta={float(delta[wrong].flat[0])!r}; use analysis='tight'"
        )
    return floats(mu)


def calibrate(
    make_profile: Callable[[float], PrivacyProfile],
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    mu: float | None = None,
    advantage: float | None = None,
    tpr: float | None = None,
    fpr: float | None = None,
    start: float = 1.0,
) -> float:
    """Find the parameter at which a mechanism just meets an aim, for example the least
    noise or the largest sample.

    Give exactly one aim: ``epsilon`` and ``delta``; ``mu``; ``advantage``; or ``tpr``
    and ``fpr``.

    Parameters
    ----------
    make_profile : callable
        Function that returns the profile for a positive number. The guarantee must rise
        or fall monotonically with that number.
    epsilon, delta : float, >= 0 and in [0, 1), optional
        Aim: the mechanism is (epsilon, delta)-DP.
    mu : float, > 0, optional
        Aim: the profile's :attr:`PrivacyProfile.mu` is at most ``mu``.
    advantage : float, in (0, 1), optional
        Aim: no membership test has a larger difference between its true- and
        false-positive rates.
    tpr, fpr : float, in (0, 1), optional
        Aim: no membership test with false-positive rate ``fpr`` has a larger
        true-positive rate than ``tpr``.
    start : float, > 0
        Parameter at which the search begins.

    Returns
    -------
    float
        Parameter on the private side: the profile at the result meets the aim. The
        relative distance to the boundary is at most 1e-5.

    Raises
    ------
    ValueError
        If not exactly one aim is given, or a number is out of its range. Also if none
        of the parameters between 1e-19 and 1e19 times the start meets the aim, or if
        all of them meet it.
    TypeError
        If ``make_profile`` does not return a profile.

    Source
    ------
    Kulynych, Gomez, Kaissis, Calmon and Troncoso (2024), who choose noise by the risk
    of an attack.

    Examples
    --------
    >>> from dpnotes.accounting import gaussian, pure
    >>> round(
    ...     calibrate(lambda sigma: gaussian(sigma=sigma), epsilon=1.0, delta=1e-5), 4
    ... )
    3.7306
    >>> round(calibrate(lambda sigma: gaussian(sigma=sigma), tpr=0.05, fpr=0.01), 4)
    1.4674
    >>> round(calibrate(lambda level: pure(level).compose(100), advantage=0.1), 4)
    0.0252
    """
    excess = _aim(
        epsilon=epsilon, delta=delta, mu=mu, advantage=advantage, tpr=tpr, fpr=fpr
    )
    # parameters are positive and may span decades: the search is in their logarithm
    begin = math.log(check.positive("start", start))

    @cache
    def at(place: float) -> float:
        profile = make_profile(math.exp(place))
        a_profile("make_profile(...)", profile)
        return excess(profile)

    sign = -1.0  # of the direction of more privacy
    # near the start the curve may be flat, so look further away for its direction
    for step in APART:
        change = at(begin + step) - at(begin) or at(begin) - at(begin - step)
        if change != 0:
            sign = -math.copysign(1.0, change)
            break
    # turned so that privacy rises with the place
    found = boundary(lambda place: at(sign * place), sign * begin)
    if found is None:
        raise ValueError(
            "make_profile must meet the aim for some positive parameter and not for"
            f" all; the search began at {start=}"
        )
    return math.exp(sign * found)


def boundary(
    excess: Callable[[float], float],
    start: float,
    *,
    slope: float = -1.0,
    furthest: float = FURTHEST,
) -> float | None:
    """Find the least point where a falling function is <= 0, to ``PRECISION`` and
    rounded up; None if there is none.

    The function uses the secant method, and bisection where a step would leave the
    bracket. ``slope`` is a first guess of the derivative.
    """
    low = -math.inf
    high = math.inf
    stride = STRIDE
    before: tuple[float, float] | None = None
    place = start
    for _ in range(ROUNDS):
        # every value narrows the bracket, whichever step led to it
        value = excess(place)
        low, high = (max(low, place), high) if value > 0 else (low, min(high, place))
        if before is not None and place != before[0]:
            # the curve falls: a rising secant is rounding or a kink, and the last slope
            # serves
            secant = (value - before[1]) / (place - before[0])
            slope = secant if secant < 0 else slope
        before = place, value
        step = -value / slope
        # enough when the bracket is short, or when the next step from the private side
        # is
        if high - low <= PRECISION or (value <= 0 and -step <= PRECISION):
            return high
        aim = place + step + PRECISION / 3  # a little to the private side
        if math.isinf(low) or math.isinf(high):
            place += min(max(aim - place, -stride), stride)
            stride = min(2 * stride, LONGEST)
        else:
            place = aim if low < aim < high else (low + high) / 2
        if abs(place - start) > furthest:
            return None
    return high if math.isfinite(high) else None


def _below_one(name: str, value: float, why: str, low: float = 0.0) -> float:
    return check.real(name, value, low=low, high=1.0, open_low=True, below=why)


def _aim(**numbers: float | None) -> Callable[[PrivacyProfile], float]:
    """Amount by which a profile misses the given aim; not positive if the profile
    meets it.
    """
    aim = {name: value for name, value in numbers.items() if value is not None}
    match aim:
        case {"mu": mu, **others} if not others:
            most = check.positive("mu", mu)
            # relative, as the search wants differences and not inf
            return lambda profile: min(profile.mu, 1e300) / most - 1
        case {"advantage": advantage, **others} if not others:
            largest = _below_one("advantage", advantage, EVERY)
            return lambda profile: profile.advantage / largest - 1
        case {"tpr": tpr, "fpr": fpr, **others} if not others:
            rate = _below_one("fpr", fpr, "a test with this rate is always positive")
            power = _below_one("tpr", tpr, EVERY, low=rate)
            return lambda profile: float(profile.tpr(rate)) - power
        case {"epsilon": epsilon, "delta": delta, **others} if not others:
            level = check.real("epsilon", epsilon)
            failure = check.real("delta", delta, high=1.0, below=EVERY)
            # a pure level has no logarithm of delta
            if failure == 0:
                return lambda profile: min(float(profile.epsilon(0.0)), 1e300) - level
            # log delta is nearly a straight line in the logarithm of the noise
            least = 1e-300
            return lambda profile: math.log(max(profile.delta(level), least) / failure)
    raise ValueError(
        f"exactly one aim must be given ({AIMS}), got {' and '.join(aim) or 'none'}"
    )
