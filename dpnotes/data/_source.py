"""One data set as the rest of the package sees it: its files, how they are read and checked, its splits."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpnotes.data._dataset import FEATURES, LABELS, Dataset


@dataclass(frozen=True, eq=False, kw_only=True)
class Published:
    """A data set as published, read and found sound; each kind adds its arrays.

    ``digest`` is the last part of :attr:`Dataset.digest`, ``note`` its :attr:`Dataset.note`.
    """

    digest: str
    note: str = ""


Rows = slice | NDArray[np.int64] | NDArray[np.bool_]
P = TypeVar("P", bound=Published)


@dataclass(frozen=True)
class Source(Generic[P]):
    """Where a data set comes from.

    Parameters
    ----------
    files : tuple of str
        Its files, relative to the data folder; empty if it comes with scikit-learn.
    read : callable
        ``read(folder)`` reads and checks all of them; :class:`DataMissing` or :class:`DataDamaged` if that fails.
    splits : mapping of str to callable
        For each split, the function that makes a :class:`Dataset` of what ``read`` gave.
    """

    files: tuple[str, ...]
    read: Callable[[Path], P]
    splits: Mapping[str, Callable[[P], Dataset]]


def sha256(*arrays: NDArray[Any]) -> str:
    """SHA-256 sum (64 hexadecimal digits) of the bytes of all arrays, in C order, one after the other."""
    total = hashlib.sha256()
    for array in arrays:
        total.update(np.ascontiguousarray(array).data)
    return total.hexdigest()


def cut(X: FEATURES, y: LABELS, rows: Mapping[str, Rows]) -> dict[str, Any]:
    """Arguments ``X_train``, ``y_train``, ``X_test``, ... of :class:`Dataset`, one pair for each entry of ``rows``."""
    return {f"{kind}_{part}": array[chosen] for part, chosen in rows.items() for kind, array in (("X", X), ("y", y))}
