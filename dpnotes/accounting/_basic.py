"""Profiles of the basic mechanisms: Gaussian and Laplace noise, and bare statements."""

from __future__ import annotations

import math

from scipy import special

from dpnotes import _validation as check
from dpnotes.accounting._kinds import (
    GaussianRelease,
    LaplaceRelease,
    LevelsRelease,
    RenyiRelease,
)
from dpnotes.accounting._profile import PrivacyProfile, describe
from dpnotes.accounting._renyi import Line


def gaussian(
    *, sigma: float, sensitivity: float = 1.0, adjacency: str = "add-remove"
) -> PrivacyProfile:
    """Guarantee of a query plus Gaussian noise, exact for every epsilon.

    Parameters
    ----------
    sigma : float, > 0
        Standard deviation of the noise on each coordinate, in the units of the query.
    sensitivity : float, > 0
        L2 distance between the query's values on adjacent data sets, in the units of
        the query.
    adjacency : {"add-remove", "zero-out", "replace-one"}
        The relation that the sensitivity was computed for.

    Returns
    -------
    PrivacyProfile

    Raises
    ------
    ValueError
        If sigma, sensitivity or their ratio is not positive and finite.

    Source
    ------
    Balle and Wang (2018), Theorem 8; Dong, Roth and Su (2022) for the trade-off
    function.

    Examples
    --------
    >>> profile = gaussian(sigma=1.0)
    >>> round(profile.delta(1.0), 6), round(profile.epsilon(1e-5), 4)
    (0.126937, 4.3772)
    """
    sigma = check.positive("sigma", sigma)
    sensitivity = check.positive("sensitivity", sensitivity)
    about = describe("gaussian", adjacency, sigma=sigma, sensitivity=sensitivity)
    mu = check.positive("sensitivity / sigma", sensitivity / sigma)
    return PrivacyProfile(
        GaussianRelease(mu), **about, source="Balle and Wang (2018), Theorem 8"
    )


def gaussian_of_advantage(
    advantage: float, *, adjacency: str = "add-remove"
) -> PrivacyProfile:
    """Guarantee of the Gaussian mechanism against which the best membership test has a
    given advantage.

    Parameters
    ----------
    advantage : float, in (0, 1)
        Total variation distance between the outputs on neighbouring data sets, ``2
        Phi(1 / (2 sigma)) - 1``.
    adjacency : {"add-remove", "zero-out", "replace-one"}

    Returns
    -------
    PrivacyProfile
        Profile of :func:`gaussian` with sensitivity 1.

    Raises
    ------
    ValueError
        If advantage is outside (0, 1).

    Source
    ------
    Dong, Roth and Su (2022): the trade-off function of Gaussian noise.

    Examples
    --------
    >>> round(gaussian_of_advantage(0.08).advantage, 12)
    0.08
    """
    why = "no Gaussian noise reveals a record with certainty"
    advantage = check.real("advantage", advantage, high=1.0, open_low=True, below=why)
    # 2 Phi(mu / 2) - 1 = advantage, solved without the digits that a sum would lose
    mu = 2 * math.sqrt(2) * float(special.erfinv(advantage))
    return gaussian(sigma=1 / mu, adjacency=adjacency)


def laplace(
    *, scale: float, sensitivity: float = 1.0, adjacency: str = "add-remove"
) -> PrivacyProfile:
    """Guarantee of a query plus Laplace noise, exact for every epsilon; the release is
    (sensitivity / scale)-DP.

    Composition adds privacy losses on a grid. The step of the grid is small compared
    with the standard deviation of a loss.

    Parameters
    ----------
    scale : float, > 0
        Scale b of the noise density ``exp(-|x| / b) / (2 b)``, in the units of the
        query. The standard deviation of the noise is b sqrt(2).
    sensitivity : float, > 0
        Distance between the query's values on adjacent data sets, in the units of the
        query.
    adjacency : {"add-remove", "zero-out", "replace-one"}
        The relation that the sensitivity was computed for.

    Returns
    -------
    PrivacyProfile

    Raises
    ------
    ValueError
        If scale, sensitivity or their ratio is not positive and finite.

    Notes
    -----
    For a query with several coordinates and the L1 sensitivity, the profile is an upper
    bound. The worst case is a change of one coordinate by the whole sensitivity.

    Source
    ------
    Dwork, McSherry, Nissim and Smith (2006); Mironov (2017), Proposition 6 for the
    Renyi divergence; Dong, Roth and Su (2022) for the trade-off function.

    Examples
    --------
    >>> profile = laplace(scale=1.0)
    >>> round(profile.delta(0.5), 6), profile.delta(1.0), profile.epsilon(0.0)
    (0.221199, 0.0, 1.0)
    """
    # the largest privacy loss: two densities differ most outside both peaks
    pure = check.positive("sensitivity", sensitivity) / check.positive("scale", scale)
    pure = check.positive("sensitivity / scale", pure)
    about = describe(
        "laplace", adjacency, scale=float(scale), sensitivity=float(sensitivity)
    )
    return PrivacyProfile(
        LaplaceRelease(pure), **about, source="Dwork, McSherry, Nissim and Smith (2006)"
    )


def approximate(
    epsilon: float, delta: float, *, adjacency: str = "add-remove"
) -> PrivacyProfile:
    """Guarantee that follows from "the mechanism is (epsilon, delta)-DP" if nothing
    else is known of the mechanism.

    Parameters
    ----------
    epsilon : float, >= 0
    delta : float, in [0, 1]
    adjacency : {"add-remove", "zero-out", "replace-one"}

    Returns
    -------
    PrivacyProfile

    Raises
    ------
    ValueError
        If epsilon is negative or not finite, or delta is outside [0, 1].

    Source
    ------
    Kairouz, Oh and Viswanath (2015), the optimal composition theorem.

    Examples
    --------
    >>> profile = approximate(1.0, 1e-6)
    >>> float(round(profile.delta(0.5), 6)), profile.delta(1.0)
    (0.28765, 1e-06)
    """
    epsilon = check.real("epsilon", epsilon)
    delta = check.real("delta", delta, high=1.0)
    about = describe("approximate", adjacency, epsilon=epsilon, delta=delta)
    return PrivacyProfile(
        LevelsRelease(((epsilon, delta, 1),)),
        **about,
        source="Kairouz, Oh and Viswanath (2015)",
    )


def pure(epsilon: float, *, adjacency: str = "add-remove") -> PrivacyProfile:
    """Guarantee that follows from "the mechanism is epsilon-DP": :func:`approximate`
    with delta = 0.

    Parameters
    ----------
    epsilon : float, >= 0
    adjacency : {"add-remove", "zero-out", "replace-one"}

    Returns
    -------
    PrivacyProfile

    Raises
    ------
    ValueError
        If epsilon is negative or not finite.

    Source
    ------
    Kairouz, Oh and Viswanath (2015), the optimal composition theorem.

    Examples
    --------
    >>> round(pure(0.1).compose(100).delta(1.0), 6)
    0.125688
    """
    return approximate(epsilon, 0.0, adjacency=adjacency)


def zcdp(rho: float, *, adjacency: str = "add-remove") -> PrivacyProfile:
    """Guarantee that follows from rho-zCDP (zero-concentrated DP): Renyi divergence <=
    ``rho alpha`` at every order.

    Parameters
    ----------
    rho : float, > 0
    adjacency : {"add-remove", "zero-out", "replace-one"}

    Returns
    -------
    PrivacyProfile
        Profile whose epsilon is the smallest that any real order alpha gives. This
        epsilon is below the epsilon of Bun and Steinke, ``rho + 2 sqrt(rho log(1 /
        delta))``.

    Raises
    ------
    ValueError
        If rho is not positive and finite.

    Source
    ------
    Bun and Steinke (2016); Canonne, Kamath and Steinke (2020), Proposition 12.

    Examples
    --------
    >>> round(zcdp(0.5).epsilon(1e-5), 6)
    4.728387
    """
    rho = check.positive("rho", rho)
    source = (
        "Bun and Steinke (2016); Canonne, Kamath and Steinke (2020), Proposition 12"
    )
    return PrivacyProfile(
        RenyiRelease(Line(rho)), **describe("zcdp", adjacency, rho=rho), source=source
    )
