"""The least Gaussian noise for a given (epsilon, delta): the exact condition, solved for many pairs at once."""

from __future__ import annotations

from typing import overload

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from dpnotes import _validation as check
from dpnotes._validation import Floats
from dpnotes.accounting._curves import like_input

LARGEST_DELTA = 0.999  # where delta tends to 1, its derivative in sigma falls below rounding
LARGEST_EPSILON = 1e12  # epsilon / mu - mu / 2 still has nine digits after the point
NEWTON_STEPS = 60  # a dozen suffice
PRIVATE_MARGIN = 2e-12  # of sigma: ten times what rounding in log delta can cost
NARROW = 0.1  # below this mu, Mills ratios differ too little to be subtracted
NODES, WEIGHTS = np.polynomial.legendre.leggauss(4)  # exact to 1e-15 over so short an interval


@overload
def gaussian_sigma(epsilon: float, delta: float, *, sensitivity: float = 1.0, analysis: str = "tight") -> float: ...
@overload
def gaussian_sigma(
    epsilon: ArrayLike, delta: ArrayLike, *, sensitivity: ArrayLike = 1.0, analysis: str = "tight"
) -> float | Floats: ...
def gaussian_sigma(
    epsilon: ArrayLike, delta: ArrayLike, *, sensitivity: ArrayLike = 1.0, analysis: str = "tight"
) -> float | Floats:
    """Smallest sigma at which the Gaussian mechanism is (epsilon, delta)-DP.

    The result errs on the private side: delta at the returned sigma is <= ``delta``, and a sigma smaller by one part
    in 10^9 would exceed it. Valid for every epsilon >= 0 (the classical formula is proved for epsilon < 1 only, and is
    larger there).

    Parameters
    ----------
    epsilon : float or array_like, >= 0
    delta : float or array_like, in (0, 1)
        At most 0.999: beyond, next to nothing is guaranteed.
    sensitivity : float or array_like, > 0
        L2 distance between the query's values on adjacent data sets, in the units of the query. The three broadcast.
    analysis : {"tight", "classical"}
        ``"classical"``: ``sensitivity sqrt(2 log(1.25 / delta)) / epsilon``, refused where it is not sufficient
        (beyond epsilon = 8.4 at delta = 1e-5).

    Returns
    -------
    float or ndarray
        Standard deviation of the noise on each coordinate, in the units of the query.

    Raises
    ------
    ValueError
        If a parameter is outside its range; delta = 0 is never reached by Gaussian noise.

    Source
    ------
    Balle and Wang (2018), Theorem 8; Dwork and Roth (2014), Theorem A.1 for the classical formula.

    Examples
    --------
    >>> round(gaussian_sigma(1.0, 1e-5), 4), round(gaussian_sigma(1.0, 1e-5, analysis="classical"), 4)
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
        mu = _classical_mu(epsilon, delta) if analysis == "classical" else largest_mu(epsilon, delta)
        sigma = sensitivity / mu
    if not np.isfinite(sigma).all():
        index = np.unravel_index(np.argmin(np.isfinite(sigma)), sigma.shape)
        raise ValueError(
            "epsilon and delta must be large enough for a finite sigma, got "
            f"epsilon={float(epsilon[index])!r}, delta={float(delta[index])!r}"
        )
    return like_input(np.asarray(sigma))


def largest_mu(epsilon: Floats, delta: Floats) -> Floats:
    """Largest mu = sensitivity / sigma of an (epsilon, delta)-DP Gaussian mechanism, less a margin for rounding.

    Newton's method on log delta as a function of log mu. It is concave, so that from a mu that is too small every step
    stays on the private side. Two such starts are known: Phi(mu/2 - epsilon/mu) = delta, for the other term only
    lowers delta, and the mu whose total variation is delta.
    """
    quantile = special.ndtri(delta)
    root = np.hypot(quantile, np.sqrt(2 * epsilon))
    below = quantile < 0  # there mu = quantile + root would lose its digits
    start = np.where(below, 2 * epsilon / np.where(below, root - quantile, 1.0), quantile + root)
    mu = np.maximum(start, np.sqrt(8) * special.erfinv(delta))
    log_delta = np.log(delta)
    tolerance = 3e-13 + 1e-15 * np.abs(log_delta)  # the second term: rounding in log delta
    going = np.ones(mu.shape, dtype=bool)  # each pair stops by itself: the result does not depend on its neighbours
    for _ in range(NEWTON_STEPS):
        reached, derivative = log_delta_of(mu, epsilon)
        step = (log_delta - reached) / derivative
        mu = np.where(going, mu * np.exp(step), mu)
        going &= np.abs(step) >= tolerance
        if not going.any():
            break
    return np.asarray(mu * (1 - PRIVATE_MARGIN), dtype=np.float64)


def log_delta_of(mu: Floats, epsilon: Floats) -> tuple[Floats, Floats]:
    """Logarithm of delta(epsilon) for the Gaussian mechanism, and its derivative in log mu.

    With z = mu/2 - epsilon/mu and M the Mills ratio Phi(-x) / phi(x): delta = phi(z) (M(-z) - M(mu - z)), and the
    derivative of delta in mu is phi(z).
    """
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
    return np.asarray(np.sqrt(np.pi / 2) * special.erfcx(x / np.sqrt(2)), dtype=np.float64)


def _classical_mu(epsilon: Floats, delta: Floats) -> Floats:
    mu = epsilon / np.sqrt(2 * np.log(1.25 / delta))
    if (wrong := (epsilon <= 0) | (mu > largest_mu(epsilon, delta))).any():
        raise ValueError(
            "the classical formula is proved for 0 < epsilon < 1 and not sufficient for "
            f"epsilon={float(epsilon[wrong].flat[0])!r} at delta={float(delta[wrong].flat[0])!r}; use analysis='tight'"
        )
    return np.asarray(mu, dtype=np.float64)
