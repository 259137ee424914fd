"""Records of the chapter on intrinsic privacy: the paper's three tasks, an embedded one, and the reader's own file."""

from __future__ import annotations

import errno
import functools
import hashlib
import os
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpnotes import _validation as check
from dpnotes import data
from dpnotes.data import to_unit_sphere
from dpnotes.methods import longest_row

UNSCALED = "mnist-unscaled"
SPLITS = {"mnist": "intrinsic_sgd", "covertype": "intrinsic_sgd", "adult": "intrinsic_sgd", "breast_cancer": "original"}
PAPER_NAMES = {"mnist": "MNIST-binary", UNSCALED: "MNIST-binary", "covertype": "Forest", "adult": "Adult"}
SCALINGS = ("none", "rows", "rows before projection", "largest row", "features")
ROUNDING = 1e-6  # relative, of a row that was scaled to norm 1 in float32


@dataclass(frozen=True, eq=False)
class Records:
    """A binary task.

    Parameters
    ----------
    X, X_test : ndarray, shapes [n, d], [m, d]
    y, y_test : ndarray of int64
        Class codes 0 and 1.
    digest : str
    """

    X: NDArray[np.floating]
    y: NDArray[np.int64]
    X_test: NDArray[np.floating]
    y_test: NDArray[np.int64]
    digest: str

    @property
    def longest(self) -> float:
        """Largest norm of a training row."""
        return longest_row(self.X)


@functools.lru_cache(maxsize=1)
def records(dataset: str, scale_rows: bool = False) -> Records:
    """Records of a task.

    Parameters
    ----------
    dataset : str
        ``"mnist"`` (3 against 5, projected to 50 features), ``"covertype"`` (types 1 and 2), ``"adult"``: the paper's
        tasks, each row of norm 1; ``"mnist-unscaled"``: the same projection without the scaling, rows of norm 5 to 18;
        ``"breast_cancer"``, rows of norm 1; or a file: ``.csv`` with a header, numeric features and the label in the
        last column. One of its rows in five, drawn with a fixed seed, is a test row.
    scale_rows : bool
        Of a file: whether each row is divided by its norm. Else rows of norm above 1 are refused.

    Raises
    ------
    ValueError
        If there is no such task; if a file has not two classes, features that are not finite numbers, or longer rows.
    FileNotFoundError
        If there is no such file.
    """
    if dataset == UNSCALED:
        found = digits("none", 0)  # the projection of the split "intrinsic_sgd", as tests check
        return replace(found, digest=f"{found.digest}:unscaled")
    if dataset in SPLITS:
        arrays = data.load(dataset, split=SPLITS[dataset])
        X, X_test = arrays.X_train, arrays.X_test
        if arrays.split == "original":
            X, X_test = to_unit_sphere(X), to_unit_sphere(X_test)
        return Records(X, arrays.y_train, X_test, arrays.y_test, arrays.digest)
    return _file(Path(located(dataset)), scale_rows=scale_rows)


def located(dataset: str) -> str:
    """The name of a task as it is, a file by its full path; a relative one may start where the command was given.

    Raises
    ------
    ValueError
        If there is no such task.
    FileNotFoundError
        If there is no such file.
    """
    tasks = [*SPLITS, UNSCALED]
    if dataset in tasks:
        return dataset
    path = Path(dataset).expanduser()
    if path.suffix != ".csv":
        raise ValueError(f"dataset must be one of {', '.join(map(repr, tasks))}, or a .csv file, got {dataset=}")
    starts = [Path.cwd(), Path(os.environ.get("PWD", "."))]  # chapters run in the root of the checkout
    for start in starts:
        if (start / path).is_file():
            return str((start / path).absolute())
    raise FileNotFoundError(errno.ENOENT, f"dataset: there is no such file in {starts[0]} or {starts[1]}", dataset)


def digits(scaling: str, projection: int) -> Records:
    """The digits 3 and 5 of MNIST, projected to 50 features, in several readings of how their rows are scaled.

    Parameters
    ----------
    scaling : {"none", "rows", "rows before projection", "largest row", "features"}
        Projected pixels as they are; each row divided by its norm, after or before the projection; all by the largest
        norm; each feature brought to mean 0 and standard deviation 1.
    projection : int
        Seed of the random projection.
    """
    check.one_of("scaling", scaling, SCALINGS)
    train, test, split = _pixels()
    matrix = np.random.default_rng(projection).normal(0.0, 50**-0.5, size=(train.shape[1], 50))
    if scaling == "rows before projection":
        train, test = to_unit_sphere(train), to_unit_sphere(test)
    X: NDArray[np.floating] = train @ matrix
    X_test: NDArray[np.floating] = test @ matrix
    if scaling == "rows":
        X, X_test = to_unit_sphere(X), to_unit_sphere(X_test)
    if scaling == "largest row":
        X, X_test = X / longest_row(X), X_test / longest_row(X)
    if scaling == "features":
        X, X_test = ((rows - X.mean(axis=0)) / X.std(axis=0) for rows in (X, X_test))
    X, X_test = X.astype(np.float64), X_test.astype(np.float64)
    return Records(X, split.y_train, X_test, split.y_test, split.digest)


@functools.lru_cache(maxsize=1)
def _pixels() -> tuple[NDArray[np.floating], NDArray[np.floating], data.Dataset]:
    """Pixels in [0, 1] of the digits 3 and 5, without the tenth that validates, and the split that has their labels."""
    images, split = data.load("mnist"), data.load("mnist", split=SPLITS["mnist"])
    train = images.X_train[np.isin(images.y_train, (3, 5))][-len(split.X_train) :]
    return train, images.X_test[np.isin(images.y_test, (3, 5))], split


def _file(path: Path, *, scale_rows: bool) -> Records:
    table = pd.read_csv(path)
    *features, label = table
    if words := [column for column in features if not pd.api.types.is_numeric_dtype(table[column].dtype)]:
        raise ValueError(f"{path} must hold numeric features, got text in column {words[0]!r}; encode it as numbers")
    X = check.features(table[features].to_numpy(np.float64), f"features of {path}")
    classes, y = np.unique(table[label].to_numpy(), return_inverse=True)
    if len(classes) != 2:
        raise ValueError(f"{path} must hold labels of 2 classes, got {len(classes)}")
    longest = longest_row(X)
    if scale_rows:
        X = to_unit_sphere(X)
    elif longest > 1 + ROUNDING:
        raise ValueError(
            f"{path} must hold rows of norm at most 1, got a row of norm {longest:.6g}; give scale_rows=True to divide "
            "each row by its norm, as the paper does"
        )
    test = np.zeros(len(X), dtype=bool)
    test[np.random.default_rng(0).permutation(len(X))[: len(X) // 5]] = True
    digest = f"{path.name}:{hashlib.sha256(path.read_bytes()).hexdigest()[:12]}"
    return Records(X[~test], y[~test], X[test], y[test], digest)
