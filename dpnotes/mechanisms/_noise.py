"""Additive noise on a real vector: exact noise from the operating system, or noise from
the caller's generator.

Use `add_gaussian` and `add_norm_noise` to release data. Without a seed, their result is
the correctly rounded sum with *real* noise, as :mod:`dpnotes.mechanisms._exact`
describes. With a seed, they add NumPy's floating-point noise. Anyone who has the seed
can repeat this noise, so it does not protect the data.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpnotes._validation import Floats, array, at_least, positive
from dpnotes.mechanisms._exact import GaussianReals, NormReals, add_rounded

Seed = int | np.random.Generator


def add_gaussian(
    values: ArrayLike,
    *,
    sigma: float,
    scales: ArrayLike | None = None,
    seed: Seed | None = None,
) -> Floats:
    """Add independent normal noise to values: the Gaussian mechanism.

    Parameters
    ----------
    values : array_like of float, finite, any shape
    sigma : float, > 0
        Standard deviation of the noise, for example from
        :func:`dpnotes.accounting.gaussian_sigma`.
    scales : array_like of float, shape [len(values)], > 0, optional
        Public factors by which the noise on each row of the values is multiplied.
    seed : int, >= 0, or numpy Generator, optional
        Source of reproducible noise; by default the noise is exact and comes from the
        operating system.

    Returns
    -------
    ndarray of float64, of the values' shape
        Noisy values. Without a seed they are multiples of a power of two near 2^-24
        times the noise's scale, and each is the multiple nearest to the exact sum of
        value and noise, as precisely as a double can say it.

    Raises
    ------
    ValueError
        If values are not finite, sigma or a scale is not positive and finite, or scales
        have another shape.
    TypeError
        If a number has the wrong type, or the seed is neither an integer nor a
        Generator.

    Source
    ------
    Balle and Wang (2018), Theorem 8; Karney (2016) for digits on demand.

    Examples
    --------
    >>> noisy = add_gaussian([[1.0, 2.0], [3.0, 4.0]], sigma=1.0)
    >>> noisy.shape, bool((noisy * 2**24 % 1 == 0).all())
    ((2, 2), True)
    """
    values, factors = _released(values, scales)
    sigma = positive("sigma", sigma)
    if seed is None:
        # a factor for each row, repeated for its entries
        row = values.size // max(1, len(factors))
        each = np.repeat(_up(factors * sigma), row)
        return add_rounded(values, GaussianReals(values.size, each))
    noise = generator_of(seed).normal(0.0, sigma, size=values.shape)
    return values + _by_row(noise, factors, scales)


def add_norm_noise(
    values: ArrayLike,
    *,
    rate: float,
    scales: ArrayLike | None = None,
    seed: Seed | None = None,
) -> Floats:
    """Add noise b with density proportional to ``exp(-rate ||b||_2)`` to values: pure
    DP for a bounded L2 sensitivity.

    In d dimensions the direction of b is uniform on the sphere, and its norm is Gamma
    distributed with shape d and this rate. Each coordinate has variance ``(d + 1) /
    rate^2``. One dimension gives Laplace noise of scale ``1 / rate``.

    Parameters
    ----------
    values : array_like of float, finite, any shape
    rate : float, > 0
        Rate of the noise, for example from :func:`dpnotes.accounting.norm_noise_rate`.
    scales : array_like of float, shape [len(values)], > 0, optional
        Public factors of the rows. If given, each row is a separate vector with
        independent noise, which is multiplied by the row's factor. By default all
        values are one vector.
    seed : int, >= 0, or numpy Generator, optional
        Source of reproducible noise; by default the noise is exact and comes from the
        operating system.

    Returns
    -------
    ndarray of float64, of the values' shape
        Noisy values. Without a seed they are multiples of a power of two near 2^-24
        times the noise's scale, and each is the multiple nearest to the exact sum of
        value and noise, as precisely as a double can say it.

    Raises
    ------
    ValueError, TypeError
        In the same cases as :func:`add_gaussian`.

    Source
    ------
    Chaudhuri, Monteleoni and Sarwate (2011), Algorithm 1; van der Maaten and Hannun
    (2020), Theorems 1, 3 and 5.

    Examples
    --------
    >>> add_norm_noise(np.zeros((3, 4)), rate=0.5).shape
    (3, 4)
    """
    values, factors = _released(values, scales)
    rate = positive("rate", rate)
    if not values.size:  # a vector without entries has no direction
        return values
    # one vector of all values, or a vector for each row
    n_vectors = 1 if scales is None else len(values)
    size = values.size // n_vectors
    if seed is None:
        scale = _up(factors[:n_vectors] / rate)
        return add_rounded(values, NormReals(size, scale, n_vectors=n_vectors))
    generator = generator_of(seed)
    # a normal vector has a uniform direction, whatever its length
    normal = generator.standard_normal((n_vectors, size))
    norms = generator.standard_gamma(size, size=(n_vectors, 1)) / rate
    vectors = normal * (norms / np.linalg.norm(normal, axis=1, keepdims=True))
    return values + _by_row(vectors.reshape(values.shape), factors, scales)


def generator_of(seed: Seed) -> np.random.Generator:
    """Return the given generator, or a new generator made from the given seed."""
    if isinstance(seed, np.random.Generator):
        return seed
    return np.random.default_rng(at_least("seed", seed, 0))


def stream(seed: int, index: int) -> np.random.Generator:
    """Return the generator of a seed and an ``index``; generators of one seed with
    different indices are independent.

    Examples
    --------
    >>> stream(1, 0).integers(100, size=3), stream(1, 1).integers(100, size=3)
    (array([ 1, 69, 82]), array([94, 47, 14]))
    """
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(index,)))


def _released(values: ArrayLike, scales: ArrayLike | None) -> tuple[Floats, Floats]:
    """Checked values, of which no error tells anything, and the factors of their
    rows' noise.
    """
    values = np.asarray(values, dtype=np.float64)
    if not np.isfinite(values).all():
        raise ValueError("values must be finite")
    if scales is None:
        return values, np.ones(max(1, len(values)) if values.ndim else 1)
    factors = array("scales", scales, open_low=True, finite=True)
    if factors.shape != values.shape[:1]:
        raise ValueError(
            f"scales must have one entry for each of the {len(values)} rows, got shape"
            f" {factors.shape}"
        )
    return values, factors


def _by_row(noise: Floats, factors: Floats, scales: ArrayLike | None) -> Floats:
    if scales is None:
        return noise
    return noise * factors.reshape(-1, *[1] * (noise.ndim - 1))


def _up(scale: Any) -> Any:
    """A float above the real number whose rounded value this is: more noise costs no
    privacy.
    """
    return np.nextafter(scale, math.inf)
