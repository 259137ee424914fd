"""Records of the chapter on intrinsic privacy: the paper's three tasks, a small
task, and the reader's own file.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dpnotes import data, methods
from dpnotes._validation import Features, Integers
from dpnotes.data import to_unit_ball, to_unit_sphere
from dpnotes.lab import own_data

UNSCALED = "mnist-unscaled"
ROUNDING = 1e-6  # relative, of a row that was scaled to norm 1 in float32
SPLITS = {
    "mnist": "intrinsic_sgd",
    "covertype": "intrinsic_sgd",
    "adult": "intrinsic_sgd",
    "breast_cancer": "original",
}
PAPER_NAMES = {
    "mnist": "MNIST-binary",
    UNSCALED: "MNIST-binary",
    "covertype": "Forest",
    "adult": "Adult",
}
SCALINGS = {  # of the rows of the digits, in words
    "none": "none",
    "rows": "rows to norm 1, as the paper states",
    "rows before projection": "rows to norm 1, then projected",
    "largest row": "all rows divided by the largest norm",
    "features": "features standardised",
}


class Records(NamedTuple):
    """A binary task.

    Parameters
    ----------
    X, X_test : ndarray, shapes [n, d], [m, d]
    y, y_test : ndarray of int64
        Class codes 0 and 1.
    digest : str
    """

    X: Features
    y: Integers
    X_test: Features
    y_test: Integers
    digest: str

    @property
    def longest(self) -> float:
        """Largest norm of a training row."""
        return methods.longest_row(self.X)


@functools.lru_cache(maxsize=1)
def records(dataset: str, scale_rows: bool = False) -> Records:
    """Load the records of a task.

    Parameters
    ----------
    dataset : str
        ``"mnist"`` (3 against 5, projected to 50 features), ``"covertype"`` (types 1
        and 2) and ``"adult"`` are the paper's tasks, with rows of norm 1.
        ``"mnist-unscaled"`` is the same projection without the scaling, with rows of
        norm 5 to 18. ``"breast_cancer"`` has rows of norm 1. Anything else is a file
        that :func:`dpnotes.data.load_file` can read; if it has several classes, the
        first one has code 0, and all others 1.
    scale_rows : bool
        Scaling of a file: whether each row is divided by its own norm. If not, all rows
        are divided by the root of the number of columns.

    Raises
    ------
    ValueError
        If there is no such task, or the file cannot be used. The message lists all
        faults of the file.
    FileNotFoundError
        If there is no such file.
    """
    if dataset == UNSCALED:
        # the projection of the split "intrinsic_sgd", as tests check
        found = digits("none", 0)
        return found._replace(digest=f"{found.digest}:unscaled")
    if dataset in SPLITS:
        arrays = data.load(dataset, split=SPLITS[dataset])
        X = arrays.X_train
        X_test = arrays.X_test
        if arrays.split == "original":
            X = to_unit_sphere(X)
            X_test = to_unit_sphere(X_test)
        return Records(X, arrays.y_train, X_test, arrays.y_test, arrays.digest)
    mine = own_data.load(located(dataset))
    bound = 1e-9 if scale_rows else mine.bound  # the former shortens each row to norm 1
    X, X_test = (
        to_unit_ball(rows, bound=bound) for rows in (mine.X_train, mine.X_test)
    )
    return Records(
        X,
        (mine.y_train > 0).astype(np.int64),
        X_test,
        (mine.y_test > 0).astype(np.int64),
        mine.digest,
    )


def located(dataset: str, target: str = "") -> str:
    """Return the name of a task unchanged, and of a file its
    :func:`dpnotes.lab.own_data.reference`, as in rows.

    Raises
    ------
    ValueError
        If there is no such task, or the file cannot be used.
    FileNotFoundError
        If there is no such file.
    """
    tasks = [*SPLITS, UNSCALED]
    if dataset in tasks or own_data.is_own(dataset):
        return dataset
    if Path(dataset).suffix not in (".csv", ".npz"):
        known = ", ".join(map(repr, tasks))
        raise ValueError(
            f"dataset must be one of {known}, or a .csv or .npz file, got {dataset=}"
        )
    return own_data.reference(dataset, target)


def digits(scaling: str, projection: int) -> Records:
    """Load the digits 3 and 5 of MNIST, projected to 50 features, with one of several
    scalings of the rows.

    Parameters
    ----------
    scaling : {"none", "rows", "rows before projection", "largest row", "features"}
        In this order: projected pixels without scaling; each row divided by its norm
        after the projection, or before it; all rows divided by the largest norm; each
        feature scaled to mean 0 and standard deviation 1.
    projection : int
        Seed of the random projection.
    """
    train, test, split = _pixels()
    # lengths are kept on average
    matrix = np.random.default_rng(projection).normal(
        0.0, 50**-0.5, size=(train.shape[1], 50)
    )
    if scaling == "rows before projection":
        train = to_unit_sphere(train)
        test = to_unit_sphere(test)
    X: Features = train @ matrix
    X_test: Features = test @ matrix
    if scaling == "rows":
        X = to_unit_sphere(X)
        X_test = to_unit_sphere(X_test)
    # test rows by the same number, which is of the training rows
    if scaling == "largest row":
        X, X_test = X / methods.longest_row(X), X_test / methods.longest_row(X)
    if scaling == "features":
        X, X_test = ((rows - X.mean(axis=0)) / X.std(axis=0) for rows in (X, X_test))
    X = X.astype(np.float64)
    X_test = X_test.astype(np.float64)
    return Records(X, split.y_train, X_test, split.y_test, split.digest)


def resplit(dataset: str, seed: int) -> Records:
    """Load a task with other training records, drawn again as the split
    ``"intrinsic_sgd"`` draws them.

    Parameters
    ----------
    dataset : {"covertype", "adult"}
        For Forest, the seed decides which records train, validate and test. For Adult,
        it decides which of the records of ``adult.data`` validate.
    seed : int
        Seed of the order. With 0, Forest has its own split.
    """
    split: Any = data.load(
        dataset, split=SPLITS["adult"] if dataset == "adult" else "original"
    )
    X = np.concatenate([split.X_train, split.X_validation])
    y = np.concatenate([split.y_train, split.y_validation])
    if dataset == "adult":
        # a tenth validates, as in the data's own split
        kept = np.random.default_rng(seed).permutation(len(X))[len(X) // 10 :]
        return Records(X[kept], y[kept], split.X_test, split.y_test, split.digest)
    X = np.concatenate([X, split.X_test])
    y = np.concatenate([y, split.y_test])
    # the two most frequent of seven types
    X = X[y < 2]
    y = y[y < 2]
    order = np.random.default_rng(seed).permutation(len(y))
    # of which a tenth validates; the rest is for the test
    n = int(0.85 * len(order))
    # ranges of the training records
    low = X[order[:n]].min(axis=0)
    high = X[order[:n]].max(axis=0)
    X = to_unit_sphere((X[:, high > low] - low[high > low]) / (high - low)[high > low])
    train = order[n // 10 : n]
    test = order[n:]
    return Records(X[train], y[train], X[test], y[test], split.digest)


@functools.lru_cache(maxsize=1)
def _pixels() -> tuple[Features, Features, data.Dataset]:
    """Pixels in [0, 1] of the digits 3 and 5, without the tenth that validates, and
    the split that has their labels.
    """
    images = data.load("mnist")
    split = data.load("mnist", split=SPLITS["mnist"])
    train = images.X_train[np.isin(images.y_train, (3, 5))][-len(split.X_train) :]
    return train, images.X_test[np.isin(images.y_test, (3, 5))], split
