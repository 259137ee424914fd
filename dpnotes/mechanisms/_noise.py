"""Additive noise on a real vector, drawn from the caller's generator alone."""

from __future__ import annotations

import math

import numpy as np

from dpnotes._validation import Floats, at_least, at_least_one, positive

Shape = int | tuple[int, ...]
Seed = int | np.random.Generator


def gaussian_noise(shape: Shape, *, sigma: float, seed: Seed) -> Floats:
    """Independent normal noise of standard deviation ``sigma`` on each coordinate.

    Parameters
    ----------
    shape : int or tuple of int
    sigma : float, > 0
        In the units of what it is added to; see :func:`dpnotes.accounting.gaussian_sigma`.
    seed : int, >= 0, or numpy Generator
        Must stay secret where the noise protects data.

    Returns
    -------
    ndarray of float64, of that shape

    Raises
    ------
    ValueError
        If sigma is not positive and finite.
    TypeError
        If sigma is not a number, or the seed neither an integer nor a Generator.

    Source
    ------
    Balle and Wang (2018), Theorem 8.

    Examples
    --------
    >>> gaussian_noise((2, 3), sigma=4.0, seed=0).shape
    (2, 3)
    """
    return generator_of(seed).normal(0.0, positive("sigma", sigma), size=shape)


def norm_noise(shape: Shape, *, rate: float, seed: Seed, n_repeats: int | None = None) -> Floats:
    """Noise b with density proportional to ``exp(-rate ||b||_2)``: pure DP for a vector of bounded L2 sensitivity.

    In d dimensions the direction is uniform on the sphere and the norm Gamma distributed with shape d and this rate;
    each coordinate has variance ``(d + 1) / rate^2``. One dimension gives Laplace noise of scale ``1 / rate``.

    Parameters
    ----------
    shape : int or tuple of int
        Of one vector; a matrix is one vector of all its entries (Frobenius norm).
    rate : float, > 0
        In inverse units of what it is added to; see :func:`dpnotes.accounting.norm_noise_rate`.
    seed : int, >= 0, or numpy Generator
        Must stay secret where the noise protects data.
    n_repeats : int, >= 1, optional
        Independent vectors.

    Returns
    -------
    ndarray of float64, that shape, or [n_repeats, *shape]

    Raises
    ------
    ValueError
        If rate is not positive and finite, or n_repeats is below 1.
    TypeError
        If a number is of the wrong kind, or the seed neither an integer nor a Generator.

    Source
    ------
    Chaudhuri, Monteleoni and Sarwate (2011), Algorithm 1; van der Maaten and Hannun (2020), Theorems 1, 3 and 5.

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
    normal = generator.standard_normal((repeats, d))
    norms = generator.standard_gamma(d, size=(repeats, 1)) / rate
    noise: Floats = normal * (norms / np.linalg.norm(normal, axis=1, keepdims=True))  # [repeats, d]
    return noise.reshape(sizes if n_repeats is None else (repeats, *sizes))


def generator_of(seed: Seed) -> np.random.Generator:
    """The generator itself, or a fresh one of that seed; nothing is drawn from hidden state."""
    return seed if isinstance(seed, np.random.Generator) else np.random.default_rng(at_least("seed", seed, 0))


def stream(seed: int, index: int) -> np.random.Generator:
    """Generator number ``index`` of a seed, independent of the others.

    Examples
    --------
    >>> stream(1, 0).integers(100, size=3), stream(1, 1).integers(100, size=3)
    (array([ 1, 69, 82]), array([94, 47, 14]))
    """
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(index,)))
