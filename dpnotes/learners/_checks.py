"""Checks of what learners are given: each error names the parameter, its value and what would be valid."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray


def features(X: ArrayLike, name: str = "X", *, d: int | None = None) -> NDArray[np.floating]:
    """Give X as an array of float32 or float64, shape [n >= 1, d >= 1], all entries finite."""
    X = np.asarray(X)
    if X.ndim != 2 or 0 in X.shape:
        raise ValueError(f"{name} must have shape [n >= 1, d >= 1], got shape {X.shape}")
    if X.dtype not in (np.float32, np.float64):
        raise ValueError(f"{name} must be float32 or float64, got {X.dtype}")
    if d is not None and X.shape[1] != d:
        raise ValueError(f"{name} must have the {d} features that the models were fitted to, got {X.shape[1]}")
    # a finite sum proves all entries finite without a mask as large as X; an overflow is looked into
    with np.errstate(over="ignore", invalid="ignore"):
        suspect = not np.isfinite(X.sum())
    if suspect and not np.isfinite(X).all():
        raise ValueError(f"{name} must be finite, got {int((~np.isfinite(X)).sum())} bad entries")
    return X


def class_codes(y: ArrayLike, *, n: int, n_classes: int) -> NDArray[np.int64]:
    """Give y as int64, shape [n], all codes in 0..n_classes - 1; X with its ``n`` rows was checked before."""
    y = np.asarray(y)
    if y.ndim != 1 or len(y) != n:
        raise ValueError(f"X and y must have equal length, got {n} rows and labels of shape {y.shape}")
    if y.dtype.kind not in "iub":
        raise ValueError(f"y must hold integer class codes, got {y.dtype}")
    if y.min() < 0 or y.max() >= n_classes:
        raise ValueError(f"y must hold class codes in 0..{n_classes - 1}, got {y.min()}..{y.max()}")
    return y.astype(np.int64, copy=False)


def at_least(name: str, value: int, low: int) -> int:
    """Give ``value`` as an int; it must be an integer >= ``low``."""
    if not isinstance(value, Integral) or isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be an integer >= {low}, got {name}={value!r}")
    if value < low:
        raise ValueError(f"{name} must be >= {low}, got {name}={value}")
    return int(value)


def real(name: str, value: float, *, low: float = 0.0, open_low: bool = False) -> float:
    """Give ``value`` as a finite float; it must be >= ``low``, or > ``low`` with ``open_low``."""
    if not isinstance(value, Real) or isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be a number, got {name}={value!r}")
    if not math.isfinite(value) or value < low or (open_low and value == low):
        raise ValueError(f"{name} must be finite and {'>' if open_low else '>='} {low:g}, got {name}={value!r}")
    return float(value)


def float_dtype(dtype: Any, X: NDArray[np.floating]) -> np.dtype[Any]:
    """Dtype to fit in: that of X by default, else float32 or float64."""
    chosen = X.dtype if dtype is None else np.dtype(dtype)
    if chosen not in (np.float32, np.float64):
        raise ValueError(f"dtype must be float32 or float64, got dtype={dtype!r}")
    return chosen


def code_dtype(dtype: DTypeLike, *, n_classes: int) -> np.dtype[Any]:
    """Give ``dtype`` as an integer dtype that holds the class codes 0..n_classes - 1."""
    chosen = np.dtype(dtype)
    if chosen.kind not in "iu" or np.iinfo(chosen).max < n_classes - 1:
        raise ValueError(f"dtype must be an integer type that holds {n_classes - 1}, got dtype={dtype!r}")
    return chosen


@dataclass(frozen=True, eq=False)
class Subsets:
    """Row indices of M models, laid end to end.

    Parameters
    ----------
    indices : ndarray of int64, shape [sum of sizes]
    sizes : ndarray of int64, shape [M]
    """

    indices: NDArray[np.int64]
    sizes: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.sizes)

    def by_size(self) -> NDArray[np.int64]:
        """Models in order of size, so that a chunk of neighbours needs little padding."""
        return np.argsort(self.sizes, kind="stable")

    def padded(self, models: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Rows of some models, padded by repeats of a first row, and which count, both [len(models), largest size]."""
        starts = (np.cumsum(self.sizes) - self.sizes)[models, None]
        place = np.arange(self.sizes[models].max())
        counts = place < self.sizes[models, None]
        return self.indices[starts + np.where(counts, place, 0)], counts


def row_subsets(subsets: NDArray[np.integer] | Sequence[ArrayLike], *, n: int) -> Subsets:
    """Check subsets, an array [M, m] or a sequence of M index arrays of any lengths >= 1, against ``n`` rows."""
    if isinstance(subsets, np.ndarray) and subsets.ndim != 2:
        raise ValueError(f"subsets must have shape [n_models, m] or be a list of index arrays, got {subsets.shape}")
    rows = [np.asarray(subset) for subset in subsets]
    if not rows:
        raise ValueError("subsets must hold at least one subset, got none")
    for index, subset in enumerate(rows):
        if subset.ndim != 1:
            raise ValueError(f"subsets must hold one-dimensional index arrays, got shape {subset.shape} at {index}")
        if not len(subset):
            raise ValueError(f"subsets must not be empty, got subset {index} of 0 rows")
        if subset.dtype.kind not in "iu":
            raise ValueError(f"subsets must hold integer row indices, got {subset.dtype} at {index}")
    flat = np.concatenate(rows).astype(np.int64, copy=False)
    if flat.min() < 0 or flat.max() >= n:
        raise ValueError(f"subsets must hold row indices in 0..{n - 1}, got {flat.min()}..{flat.max()}")
    return Subsets(flat, np.array([len(subset) for subset in rows], dtype=np.int64))
