"""Checks of accounting parameters: each error names the parameter, its value and what would be valid."""

from __future__ import annotations

import math
from numbers import Integral, Real

import numpy as np
from numpy.typing import ArrayLike, NDArray


def at_least_one(name: str, value: int) -> int:
    """Give ``value`` as an int; it must be an integer >= 1."""
    if not isinstance(value, Integral) or isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be an integer >= 1, got {name}={value!r}")
    if value < 1:
        raise ValueError(f"{name} must be >= 1, got {name}={value}")
    return int(value)


def real(name: str, value: float, *, low: float, high: float = math.inf, open_low: bool = False) -> float:
    """Give ``value`` as a finite float; it must lie in [low, high], or in (low, high] with ``open_low``."""
    if not isinstance(value, Real) or isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be a number, got {name}={value!r}")
    inside = (low < value if open_low else low <= value) and value <= high and math.isfinite(value)
    if not inside:
        finite = "finite and " if value == math.inf else ""
        most = "" if high == math.inf else f" and <= {high:g}"
        raise ValueError(f"{name} must be {finite}{'>' if open_low else '>='} {low:g}{most}, got {name}={value!r}")
    return float(value)


def array(name: str, values: ArrayLike, *, low: float, high: float = math.inf) -> NDArray[np.float64]:
    """Give ``values`` as a float64 array; every entry must lie in [low, high]."""
    result = np.asarray(values, dtype=np.float64)
    wrong = ~((result >= low) & (result <= high))  # NaN is wrong, too
    if wrong.any():
        valid = f">= {low:g}" if high == math.inf else f"in [{low:g}, {high:g}]"
        raise ValueError(f"{name} must be {valid}, got {name}={result[wrong].flat[0]!r}")
    return result


def one_of(name: str, value: str, valid: tuple[str, ...]) -> str:
    """Give ``value`` back if it is one of ``valid``."""
    if value not in valid:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, valid))}, got {name}={value!r}")
    return value
