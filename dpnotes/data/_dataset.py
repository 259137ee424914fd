"""Data sets, the errors of loading them, and reading and checking their files."""

from __future__ import annotations

import gzip
import hashlib
import io
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

FEATURES = NDArray[np.float32]
LABELS = NDArray[np.int64]
Rows = slice | NDArray[np.int64] | NDArray[np.bool_]


class DataError(Exception):
    """Error of a data set that is not available; parent of `DataMissing`,
    `DataDamaged` and `DataUnreachable`.
    """


class DataMissing(DataError, FileNotFoundError):
    """Error for a file that the data folder lacks; the message names the file and
    the command that fetches it.
    """

    def __init__(self, name: str, path: Path):
        super().__init__(
            f"data set {name!r} is not here: there is no {path}; run `dpnotes data"
            f" fetch {name}` (in Python, dpnotes.data.fetch({name!r})), or set the"
            " environment variable DPNOTES_DATA to a folder that has this file"
        )
        self.name = name
        self.path = path

    # an exception is pickled with its message alone, and processes send it as a pickle
    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.name, self.path)


class DataDamaged(DataError, ValueError):
    """Error for a file that differs from the published file; the message names it,
    and ``fault`` says what is wrong.
    """

    def __init__(self, name: str, path: Path, fault: str):
        super().__init__(
            f"data set {name!r} is damaged: {path}: {fault}; run `dpnotes data fetch"
            f" {name}` to replace it"
        )
        self.name = name
        self.path = path
        self.fault = fault

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.name, self.path, self.fault)


class DataUnreachable(DataError, ConnectionError):
    """Error for a download that failed; the data folder is unchanged."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Dataset:
    """Read-only arrays of one data set in one split, with the rows in a documented
    order.

    The arrays cannot be written to, because several models train on them at once.
    ``torch.tensor(data.X_train)`` makes a copy without a warning (``torch.from_numpy``
    would warn about the read-only memory).

    Parameters
    ----------
    name : str
        One of :data:`NAMES`.
    split : str
        Name of the split, which defines the training rows and the scaling of features;
        :func:`load` documents each split.
    X_train, X_test : float32 array [n, d]
        Features, without physical units. Images are flattened channel first, so
        ``row.reshape(image_shape)`` is a valid input of a torch convolution.
    y_train, y_test : int64 array [n]
        Class codes 0 .. n_classes - 1, indices into ``class_names``.
    class_names : tuple of str
    feature_names : tuple of str or None
        Name of each column; None if columns are pixels or projections.
    image_shape : tuple (channels, height, width) or None
        Shape of each image; None if rows are not images.
    digest : str
        ``"name:split:"`` and the first 12 hexadecimal digits of the SHA-256 sum of the
        data *as published*, so the same data gives the same digest on every machine.
        The digest also shows whether data are inexact.
    note : str
        Description of inexact data, in words; empty if the data are exact.
    X_validation, y_validation, X_public, y_public : arrays as above, or None
        Further rows, disjoint from all others, if the split has such rows.
    """

    name: str
    split: str
    X_train: FEATURES = field(repr=False)
    y_train: LABELS = field(repr=False)
    X_test: FEATURES = field(repr=False)
    y_test: LABELS = field(repr=False)
    class_names: tuple[str, ...] = field(repr=False)
    feature_names: tuple[str, ...] | None = field(default=None, repr=False)
    image_shape: tuple[int, ...] | None = None
    digest: str
    note: str = ""
    X_validation: FEATURES | None = field(default=None, repr=False)
    y_validation: LABELS | None = field(default=None, repr=False)
    X_public: FEATURES | None = field(default=None, repr=False)
    y_public: LABELS | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        # several models train on the same arrays at once
        for value in vars(self).values():
            if isinstance(value, np.ndarray):
                value.setflags(write=False)

    @property
    def n_train(self) -> int:
        """Number of training rows."""
        return len(self.X_train)

    @property
    def n_test(self) -> int:
        """Number of test rows."""
        return len(self.X_test)

    @property
    def d(self) -> int:
        """Number of features."""
        return int(self.X_train.shape[1])

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.class_names)


@dataclass(frozen=True, eq=False, kw_only=True)
class Published:
    """A published data set after it was read and checked; each subclass adds its
    arrays.

    ``digest`` is the last part of :attr:`Dataset.digest`, and ``note`` is
    :attr:`Dataset.note`.
    """

    digest: str
    note: str = ""
    class_names: tuple[str, ...]


P = TypeVar("P", bound=Published)


@dataclass(frozen=True)
class Source(Generic[P]):
    """Source of a data set.

    Parameters
    ----------
    files : tuple of str
        Files of the data set, relative to the data folder; empty if it comes with
        scikit-learn.
    read : callable
        Function ``read(folder)`` that reads and checks all files. It raises
        :class:`DataMissing` or :class:`DataDamaged` if that fails.
    splits : mapping of str to callable
        Function for each split that computes the arguments of :class:`Dataset` from the
        result of ``read``; arguments that :meth:`load` sets may be left out.
    """

    files: tuple[str, ...]
    read: Callable[[Path], P]
    splits: Mapping[str, Callable[[P], dict[str, Any]]]

    def load(self, name: str, split: str, folder: Path) -> Dataset:
        """Read the files in ``folder``, and make one of the splits."""
        published = self.read(folder)
        given: dict[str, Any] = {
            "class_names": published.class_names,
            "digest": f"{name}:{split}:{published.digest}",
            "note": published.note,
        }
        # a split may have other classes
        given |= self.splits[split](published)
        return Dataset(name=name, split=split, **given)


def sha256(*arrays: NDArray[Any]) -> str:
    """SHA-256 sum (64 hexadecimal digits) of the bytes of all arrays, in C order,
    one after the other.
    """
    total = hashlib.sha256()
    for array in arrays:
        # no copy, where the array lies in C order
        total.update(np.ascontiguousarray(array).data)
    return total.hexdigest()


def cut(X: FEATURES, y: LABELS, rows: Mapping[str, Rows]) -> dict[str, Any]:
    """Arguments ``X_train``, ``y_train``, ``X_test``, ... of :class:`Dataset`, one
    pair for each entry of ``rows``.
    """
    parts: dict[str, Any] = {}
    for part, chosen in rows.items():
        parts[f"X_{part}"] = X[chosen]
        parts[f"y_{part}"] = y[chosen]
    return parts


def read_bytes(name: str, path: Path, wanted: str, *, member: str = "") -> bytes:
    """Return the unpacked content of a published file of data set ``name``, if its
    SHA-256 sum equals ``wanted``.

    The function unpacks a ``.gz`` file, and reads the ``member`` of a ``.zip`` archive.
    It raises :class:`DataMissing` or :class:`DataDamaged` if that fails.
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
    # a broken archive fails in many ways
    except Exception as error:
        kind = f"zip archive with {member}" if member else "gzip file"
        raise DataDamaged(name, path, f"not a whole {kind} ({error})") from error
    # of the unpacked content: an archive has the time when it was packed
    found = hashlib.sha256(content).hexdigest()
    if found != wanted:
        fault = (
            f"{len(content):,} bytes with SHA-256 sum {found[:12]}..., but the"
            f" published sum is {wanted[:12]}..."
        )
        raise DataDamaged(name, path, fault)
    return content
