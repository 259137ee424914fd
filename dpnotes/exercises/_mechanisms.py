"""Exercises of the chapter on mechanisms."""

from __future__ import annotations

import numpy as np

from dpnotes.exercises._check import Function, exercise, expect


@exercise("mechanisms-6")
def private_mean(function: Function) -> None:
    """``private_mean(values, low, high, epsilon, noise)``: clipped mean plus scaled Laplace noise."""
    values = np.array([1.0, 2.0, 3.0, 6.0])
    expect(
        np.isclose(function(values, 0.0, 10.0, 1.0, 0.0), 3.0), "without noise, values within the bounds are averaged"
    )
    expect(np.isclose(function(values, 2.0, 4.0, 1.0, 0.0), 2.75), "values beyond the public bounds are moved to them")
    scale = function(values, 0.0, 10.0, 1.0, 1.0) - function(values, 0.0, 10.0, 1.0, 0.0)
    wide = function(10 * values, 0.0, 10.0, 1.0, 1.0) - function(10 * values, 0.0, 10.0, 1.0, 0.0)
    expect(np.isclose(scale, wide), "the size of the noise is a function of what is public, not of the values")
    expect(scale > 0, "noise is added")
    expect(not np.isclose(scale, 10.0), "one record moves the mean by a part of the range only")
    expect(np.isclose(scale, 2.5), "the sensitivity of the mean is the width of the bounds over the number of records")
    shifted = function(values, -5.0, 10.0, 0.5, 1.0) - function(values, -5.0, 10.0, 0.5, 0.0)
    expect(np.isclose(shifted, 7.5), "the noise has scale sensitivity / epsilon, with the width of the bounds")
