"""The data sets that scikit-learn brings along, with a fixed split of our own (they have no published one)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpnotes.data._dataset import FEATURES, LABELS, Dataset
from dpnotes.data._source import Published, Source, cut, sha256


@dataclass(frozen=True, eq=False, kw_only=True)
class Embedded(Published):
    """All records of a set in published order: features scaled to [0, 1], float32 [n, d], and labels [n]."""

    name: str
    X: FEATURES
    y: LABELS
    class_names: tuple[str, ...]
    feature_names: tuple[str, ...] | None = None
    image_shape: tuple[int, ...] | None = None


def _digest(bunch: Any) -> str:
    """First 12 digits of the SHA-256 sum of features (float64) and labels (int64), both little-endian."""
    return sha256(bunch.data.astype("<f8"), bunch.target.astype("<i8"))[:12]


def _digits(folder: Path) -> Embedded:
    from sklearn.datasets import load_digits

    bunch = load_digits()
    return Embedded(
        name="digits",
        digest=_digest(bunch),
        X=(bunch.data / 16).astype(np.float32),  # grey levels are 0 .. 16
        y=bunch.target.astype(np.int64),
        class_names=tuple(str(name) for name in bunch.target_names),
        image_shape=(1, 8, 8),
    )


def _breast_cancer(folder: Path) -> Embedded:
    from sklearn.datasets import load_breast_cancer

    bunch = load_breast_cancer()
    low, high = bunch.data.min(axis=0), bunch.data.max(axis=0)  # printed in the set's description, hence public
    return Embedded(
        name="breast_cancer",
        digest=_digest(bunch),
        X=((bunch.data - low) / (high - low)).astype(np.float32),
        y=bunch.target.astype(np.int64),
        class_names=tuple(str(name) for name in bunch.target_names),
        feature_names=tuple(str(name) for name in bunch.feature_names),
    )


def _is_test(y: LABELS) -> NDArray[np.bool_]:
    """Every fifth record of each class, in published order, is a test record; bool [n]."""
    rank = np.empty(len(y), dtype=np.int64)  # of a record within its class
    for label in np.unique(y):
        rank[y == label] = np.arange((y == label).sum())
    chosen: NDArray[np.bool_] = rank % 5 == 4
    return chosen


def _original(data: Embedded) -> Dataset:
    test = _is_test(data.y)
    return Dataset(
        name=data.name,
        split="original",
        class_names=data.class_names,
        feature_names=data.feature_names,
        image_shape=data.image_shape,
        digest=f"{data.name}:original:{data.digest}",
        **cut(data.X, data.y, {"train": ~test, "test": test}),
    )


SOURCES = {
    "digits": Source((), _digits, {"original": _original}),
    "breast_cancer": Source((), _breast_cancer, {"original": _original}),
}
