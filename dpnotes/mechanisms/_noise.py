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

from dpnotes._validation import Floats, array, at_least, at_least_one, positive
from dpnotes.mechanisms._exact import GaussianReals, NormReals, add_rounded

Shape = int | tuple[int, ...]
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
        value and noise.

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
        each = np.repeat(_up(factors * sigma), values[:1].size)
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
        value and noise.

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
    if seed is not None and scales is None:
        return values + norm_noise(values.shape, rate=rate, seed=seed)
    if seed is not None:
        noise = norm_noise(
            values.shape[1:], rate=rate, seed=seed, n_repeats=len(values)
        )
        return values + _by_row(noise, factors, scales)
    if scales is None:
        return add_rounded(values, NormReals(values.size, _up(1 / rate)))
    return add_rounded(
        values, NormReals(values[:1].size, _up(factors / rate), n_vectors=len(values))
    )


def norm_noise(
    shape: Shape, *, rate: float, seed: Seed, n_repeats: int | None = None
) -> Floats:
    """Draw noise b with density proportional to ``exp(-rate ||b||_2)``: pure DP for
    vectors of bounded L2 sensitivity.

    In d dimensions the direction is uniform on the sphere, and the norm is Gamma
    distributed with shape d and this rate. Each coordinate has variance ``(d + 1) /
    rate^2``. One dimension gives Laplace noise of scale ``1 / rate``.

    Parameters
    ----------
    shape : int or tuple of int
        Shape of one vector; a matrix is one vector of all its entries (Frobenius norm).
    rate : float, > 0
        Rate of the noise, in inverse units of the values that receive it, for example
        from :func:`dpnotes.accounting.norm_noise_rate`.
    seed : int, >= 0, or numpy Generator
        Source of the noise, which must stay secret if the noise protects data.
    n_repeats : int, >= 1, optional
        Number of independent vectors.

    Returns
    -------
    ndarray of float64, of the given shape, or [n_repeats, *shape]

    Raises
    ------
    ValueError
        If rate is not positive and finite, or n_repeats is below 1.
    TypeError
        If a number has the wrong type, or the seed is neither an integer nor a
        Generator.

    Source
    ------
    Chaudhuri, Monteleoni and Sarwate (2011), Algorithm 1; van der Maaten and Hannun
    (2020), Theorems 1, 3 and 5.

    Examples
    --------
    >>> norm_noise((3, 4), rate=0.5, seed=0, n_repeats=2).shape
    (2, 3, 4)
    """
    rate = positive("rate", rate)
    repeats = at_least_one("n_repeats", n_repeats) if n_repeats is not None else 1
    sizes = shape if isinstance(shape, tuple) else (shape,)
    d = math.prod(sizes)
    generator = generator_of(seed)
    # a normal vector has a uniform direction, whatever its length
    normal = generator.standard_normal((repeats, d))
    norms = generator.standard_gamma(d, size=(repeats, 1)) / rate
    # [repeats, d]
    noise: Floats = normal * (norms / np.linalg.norm(normal, axis=1, keepdims=True))
    return noise.reshape(sizes if n_repeats is None else (repeats, *sizes))


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
        return values, np.ones(len(values) if values.ndim else 1)
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
