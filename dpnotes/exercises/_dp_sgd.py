"""Exercises of the chapter on DP-SGD."""

from __future__ import annotations

import numpy as np

from dpnotes.exercises._check import Function, exercise, expect


@exercise("dp-sgd-6")
def clip_and_add(function: Function) -> None:
    """``clip_and_add(gradients, clipping_norm, noise)``: the noisy sum of clipped gradients."""
    nothing = np.zeros(2)
    small = np.array([[0.3, 0.4], [0.0, -0.1]])
    large = np.array([[30.0, 40.0], [0.0, 0.1]])
    expect(np.shape(function(large, 1.0, nothing)) == (2,), "the result has one number for each weight")
    expect(
        np.allclose(function(small, 1.0, nothing), [0.3, 0.3]),
        "gradients within the clipping norm are added as they are: a sum, not a mean",
    )
    expect(
        np.allclose(function(large, 1.0, nothing), [0.6, 0.9]),
        "each record's gradient is clipped by itself, to a norm of at most the clipping norm, and keeps its direction",
    )
    expect(np.allclose(function(large, 5.0, nothing), [3.0, 4.1]), "the clipping norm is an argument")
    expect(
        np.allclose(function(np.zeros((0, 2)), 1.0, np.array([0.5, 0.2])), [0.5, 0.2]),
        "an empty batch is a step of noise alone",
    )
    expect(
        np.allclose(function(np.zeros((1, 2)), 1.0, np.array([0.5, 0.2])), [0.5, 0.2]),
        "a gradient of norm 0 stays 0, and the noise is added once",
    )
