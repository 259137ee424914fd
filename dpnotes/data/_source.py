"""One data set as the rest of the package sees it: its files, how they are read and checked, its splits."""

from __future__ import annotations

import gzip
import hashlib
import io
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpnotes.data._dataset import FEATURES, LABELS, DataDamaged, DataMissing, Dataset


@dataclass(frozen=True, eq=False, kw_only=True)
class Published:
    """A data set as published, read and found sound; each kind adds its arrays.

    ``digest`` is the last part of :attr:`Dataset.digest`, ``note`` its :attr:`Dataset.note`.
    """

    digest: str
    note: str = ""
    class_names: tuple[str, ...]


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
        For each split, the function that gives the arguments of :class:`Dataset`, made from what ``read`` gave; those
        that :meth:`load` knows may be left out.
    """

    files: tuple[str, ...]
    read: Callable[[Path], P]
    splits: Mapping[str, Callable[[P], dict[str, Any]]]

    def load(self, name: str, split: str, folder: Path) -> Dataset:
        """Read the files in ``folder``, and make one of the splits."""
        published = self.read(folder)
        digest = f"{name}:{split}:{published.digest}"
        common = {"class_names": published.class_names, "digest": digest, "note": published.note}
        return Dataset(name=name, split=split, **common | self.splits[split](published))


def sha256(*arrays: NDArray[Any]) -> str:
    """SHA-256 sum (64 hexadecimal digits) of the bytes of all arrays, in C order, one after the other."""
    total = hashlib.sha256()
    for array in arrays:
        total.update(np.ascontiguousarray(array).data)
    return total.hexdigest()


def cut(X: FEATURES, y: LABELS, rows: Mapping[str, Rows]) -> dict[str, Any]:
    """Arguments ``X_train``, ``y_train``, ``X_test``, ... of :class:`Dataset`, one pair for each entry of ``rows``."""
    return {f"{kind}_{part}": array[chosen] for part, chosen in rows.items() for kind, array in (("X", X), ("y", y))}


def read_bytes(name: str, path: Path, wanted: str, *, member: str = "") -> bytes:
    """Content of a published file of data set ``name``, unpacked, if its SHA-256 sum is the ``wanted`` one.

    A ``.gz`` file is unpacked, and of a ``.zip`` archive the ``member`` is read; :class:`DataMissing` or
    :class:`DataDamaged` if that fails.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise DataMissing(name, path) from None
    try:
        if path.suffix == ".gz":
            content = gzip.decompress(content)
        elif path.suffix == ".zip":
            content = zipfile.ZipFile(io.BytesIO(content)).read(member)
    except Exception as error:  # a broken archive fails in many ways
        kind = f"zip archive with {member}" if member else "gzip file"
        raise DataDamaged(name, path, f"not a whole {kind} ({error})") from error
    found = hashlib.sha256(content).hexdigest()
    if found != wanted:
        fault = f"{len(content):,} bytes with SHA-256 sum {found[:12]}..., the published content has {wanted[:12]}..."
        raise DataDamaged(name, path, fault)
    return content
