"""Checks of arguments, used by every package: each error names the parameter, its value
and what would be valid.

A check returns the value in the form that the caller computes with. The type aliases of
the package are here, too, and how a level is told.
"""

from __future__ import annotations

import math
import re
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]
Features = NDArray[np.floating]  # float32 or float64

# different numbers that are taken for labels where no classes are declared
MOST_CLASSES = 50
CONTINUOUS = (
    "a number to predict: cut it at public thresholds, as there is no regression here"
)


def written(value: object, pattern: str = "{:g}") -> str:
    """Text of a number as code has it, where Python pads the exponent.

    Examples
    --------
    >>> written(1e-5), written(12345678.0, "{:.2e}")
    ('1e-5', '1.23e+7')
    """
    return re.sub(r"e([+-])0", r"e\1", pattern.format(value))


def rounded(level: float, digits: int = 4, *, up: bool = True) -> str:
    """Text of a level with so many digits that says no less than the level or, for a
    lower bound, no more.

    Examples
    --------
    >>> rounded(1.9931), rounded(1.9938, up=False)
    ('1.994', '1.993')
    """
    context = Context(prec=digits, rounding=ROUND_CEILING if up else ROUND_FLOOR)
    return written(float(context.create_decimal(repr(float(level)))))


def floats(values: Any) -> Floats:
    """The values as an array of doubles."""
    return np.asarray(values, dtype=np.float64)


def at_least(
    name: str,
    value: int,
    low: int,
    *,
    most: tuple[str, int] | None = None,
    why: str = "",
) -> int:
    """Give ``value`` as an int; it must be an integer >= ``low`` and, if ``most`` is
    given, at most that limit.

    ``most`` is a pair of the limit's name and value, and ``why`` is a reason that is
    appended to the message.
    """
    if not isinstance(value, Integral) or isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be an integer >= {low}, got {name}={value!r}")
    if value < low or (most is not None and value > most[1]):
        limit = "" if most is None else f" and <= {most[0]}={most[1]}"
        raise ValueError(_message(name, f">= {low}{limit}", value, why))
    return int(value)


def at_least_one(name: str, value: int) -> int:
    """Give ``value`` as an int; it must be an integer >= 1."""
    return at_least(name, value, 1)


def jobs(name: str, value: int) -> int:
    """Give ``value`` as a number of joblib workers; it must not be 0."""
    if value == 0:
        raise ValueError(_message(name, ">= 1, or negative: -1 for all cores", value))
    return value


def real(
    name: str,
    value: float,
    *,
    low: float = 0.0,
    high: float = math.inf,
    open_low: bool = False,
    below: str = "",
) -> float:
    """Give ``value`` as a finite float; it must lie in [low, high], or in (low, high]
    with ``open_low``.

    ``below`` says why ``high`` itself is invalid; without ``below``, ``high`` is valid.
    """
    if not isinstance(value, Real) or isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be a number, got {name}={value!r}")
    if below and value == high:
        valid = f"in ({low:g}, {high:g})" if open_low else f"< {high:g}"
        raise ValueError(_message(name, valid, value, below))
    if not (
        (low < value if open_low else low <= value)
        and value <= high
        and math.isfinite(value)
    ):
        finite = "finite and " if value == math.inf else ""
        most = "" if high == math.inf else f" and <= {high:g}"
        raise ValueError(
            _message(name, f"{finite}{'>' if open_low else '>='} {low:g}{most}", value)
        )
    return float(value)


def positive(name: str, value: float) -> float:
    """Give ``value`` as a float; it must be finite and > 0."""
    return real(name, value, open_low=True)


def level(name: str, value: float) -> float:
    """Give a level of confidence as a float; it must lie in (0, 1)."""
    return real(
        name, value, high=1.0, open_low=True, below="no finite sample gives certainty"
    )


def array(
    name: str,
    values: ArrayLike,
    *,
    low: float = 0.0,
    high: float = math.inf,
    open_low: bool = False,
    open_high: bool = False,
    finite: bool = False,
    why: str = "",
    private: bool = False,
) -> Floats:
    """Give ``values`` as a float64 array; entries must lie in [low, high], without
    its ends if these are open.

    The error shows an entry, unless they are private.
    """
    result = np.asarray(values, dtype=np.float64)
    inside = (result > low if open_low else result >= low) & (
        result < high if open_high else result <= high
    )
    wrong = ~(inside & np.isfinite(result) if finite else inside)  # NaN is wrong, too
    if wrong.any():
        value = float(result[wrong].flat[0])
        if private:
            raise ValueError(f"{name} must be finite and >= {low:g}, got others")
        if high == math.inf:
            valid = (
                f"{'finite and ' if value == math.inf else ''}{'>' if open_low else '>='}"
                f" {low:g}"
            )
        else:
            valid = (
                f"in {'(' if open_low else '['}{low:g},"
                f" {high:g}{')' if open_high else ']'}"
            )
        raise ValueError(_message(name, valid, value, why))
    return result


def one_of(name: str, value: str, valid: tuple[str, ...]) -> str:
    """Give ``value`` back if it is one of ``valid``."""
    if value not in valid:
        raise ValueError(_message(name, f"one of {', '.join(map(repr, valid))}", value))
    return value


def codes(name: str, values: ArrayLike, *, shape: tuple[int, ...], n: int) -> Integers:
    """Give ``values`` as int64; they must be integers of that shape in 0 .. n - 1."""
    given = np.asarray(values)
    if given.shape != shape or given.dtype.kind not in "iu":
        raise ValueError(
            f"{name} must be integers of shape {list(shape)}, got {given.dtype} of"
            f" shape {given.shape}"
        )
    if given.min() < 0 or given.max() >= n:
        raise ValueError(f"{name} must be in 0..{n - 1}, got an entry outside")
    return given.astype(np.int64)


def features(X: ArrayLike, name: str = "X", *, d: int | None = None) -> Features:
    """Give X as an array of float32 or float64, shape [n >= 1, d >= 1], all entries
    finite.
    """
    X = np.asarray(X)
    if X.ndim != 2 or 0 in X.shape:
        raise ValueError(
            f"{name} must have shape [n >= 1, d >= 1], got shape {X.shape}"
        )
    if X.dtype not in (np.float32, np.float64):
        raise ValueError(f"{name} must be float32 or float64, got {X.dtype}")
    if d is not None and X.shape[1] != d:
        raise ValueError(
            f"{name} must have the {d} features that the models were fitted to, got"
            f" {X.shape[1]}"
        )
    # a finite sum proves all entries finite without a mask as large as X; an overflow
    # is looked into
    with np.errstate(over="ignore", invalid="ignore"):
        suspect = not np.isfinite(X.sum())
    if suspect and not np.isfinite(X).all():
        raise ValueError(
            f"{name} must be finite, got {int((~np.isfinite(X)).sum())} bad entries"
        )
    return X


def class_codes(y: ArrayLike, *, n: int, n_classes: int) -> Integers:
    """Give y as int64, shape [n], all codes in 0..n_classes - 1; X with its ``n``
    rows was checked before.
    """
    y = np.asarray(y)
    if y.ndim != 1 or len(y) != n:
        raise ValueError(
            f"X and y must have equal length, got {n} rows and labels of shape"
            f" {y.shape}"
        )
    if y.dtype.kind not in "iub":
        raise ValueError(f"y must hold integer class codes, got {y.dtype}")
    if y.min() < 0 or y.max() >= n_classes:
        raise ValueError(
            f"y must hold class codes in 0..{n_classes - 1}, got {y.min()}..{y.max()}"
        )
    return y.astype(np.int64, copy=False)


def float_dtype(dtype: Any, X: Features) -> np.dtype[Any]:
    """Give the dtype of a fit: by default the dtype of X, otherwise float32 or
    float64 as given.
    """
    chosen = X.dtype if dtype is None else np.dtype(dtype)
    if chosen not in (np.float32, np.float64):
        raise ValueError(f"dtype must be float32 or float64, got dtype={dtype!r}")
    return chosen


def _message(name: str, valid: str, value: object, why: str = "") -> str:
    return (
        f"{name} must be {valid}, got {name}={shown(value)}{'; ' + why if why else ''}"
    )


def shown(value: object) -> str:
    """Give a value as an error shows it, with NumPy's numbers as plain numbers."""
    return repr(value.item() if isinstance(value, np.generic) else value)
