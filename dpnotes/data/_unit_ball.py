"""Data-independent rules that bring rows into the unit ball."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpnotes.data._dataset import FEATURES


def to_unit_ball(X: NDArray[np.floating], *, bound: float | None = None) -> FEATURES:
    """Divide by ``bound``, then shorten to length 1 every row that is still longer.

    The function treats each row separately, and ``bound`` is the caller's constant, so
    no row depends on another row. Privacy proofs that need ``||x|| <= 1`` therefore
    hold for the result. (Some published code divides by the largest norm *of the data*.
    This breaks the proofs, because that norm depends on every record.)

    Guarantees: every row norm is at most 1, computed in float64; a row of norm up to
    ``bound`` is only divided; the direction of a row does not change; a zero row stays
    zero.

    Parameters
    ----------
    X : array [n, d]
        Finite features.
    bound : float, > 0, optional
        Divisor in the units of ``X``; by default sqrt(d). No row with entries in [-1,
        1] exceeds sqrt(d), so no such row is shortened. A smaller bound retains more of
        the signal and shortens the longest rows.

    Returns
    -------
    float32 array [n, d]

    Raises
    ------
    ValueError
        If ``bound`` is not positive, or ``X`` is not a matrix with rows of finite norm.

    Examples
    --------
    >>> to_unit_ball(np.array([[3.0, 4.0], [30.0, 40.0]]), bound=10.0).round(3).tolist()
    [[0.30000001192092896, 0.4000000059604645], [0.6000000238418579, 0.800000011920929]]
    """
    X = np.asarray(X)
    if X.ndim != 2:
        raise ValueError(f"X must be a matrix [n, d], got shape {X.shape}")
    bound = math.sqrt(X.shape[1]) if bound is None else bound
    if not 0 < bound < math.inf:
        raise ValueError(f"bound must be positive and finite, got bound={bound}")
    norms = np.sqrt(np.einsum("ij,ij->i", X, X, dtype=np.float64))  # [n]
    if not np.isfinite(norms).all():
        raise ValueError(
            f"X must have rows of finite norm, got {(~np.isfinite(norms)).sum()} rows"
            " without one"
        )
    # Rounding to float32 lengthens a row by a factor of up to 1 + 2**-24: shorten a
    # little more than that.
    scale = (1 - 2.0**-23) / np.maximum(norms, bound)
    scaled: FEATURES = np.empty(X.shape, dtype=np.float32)
    np.multiply(X, scale[:, None], out=scaled, dtype=np.float64, casting="same_kind")
    return scaled


def to_unit_sphere(X: NDArray[np.floating]) -> FEATURES:
    """Divide each row of X [n, d] by its norm.

    Guarantees: a zero row stays zero, and no row exceeds norm 1 in float64.

    Examples
    --------
    >>> to_unit_sphere(np.array([[3.0, 4.0], [0.0, 0.0]])).astype(float).round(
    ...     3
    ... ).tolist()
    [[0.6, 0.8], [0.0, 0.0]]
    """
    # shorter than any other row, so each is shortened to 1
    return to_unit_ball(X, bound=1e-9)
