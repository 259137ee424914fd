"""The data sets that scikit-learn brings along, with a fixed split of our own (they have no published one)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from dpnotes.data._dataset import FEATURES, LABELS
from dpnotes.data._source import Published, Source, cut, sha256


@dataclass(frozen=True, eq=False, kw_only=True)
class Embedded(Published):
    """All records of a set in published order: features scaled to [0, 1], float32 [n, d], and labels [n]."""

    X: FEATURES
    y: LABELS
    about: dict[str, Any]  # further arguments of Dataset


def _read(name: str, folder: Path, *, images: bool) -> Embedded:
    """The set of that name; grey levels are 0 .. 16, other ranges are printed in the set's description: public."""
    bunch = getattr(import_module("sklearn.datasets"), f"load_{name}")()
    low, high = (0, 16) if images else (bunch.data.min(axis=0), bunch.data.max(axis=0))
    feature_names = {"feature_names": tuple(str(name) for name in bunch.feature_names)}
    return Embedded(
        digest=sha256(bunch.data.astype("<f8"), bunch.target.astype("<i8"))[:12],
        X=((bunch.data - low) / (high - low)).astype(np.float32),
        y=bunch.target.astype(np.int64),
        class_names=tuple(str(name) for name in bunch.target_names),
        about={"image_shape": (1, 8, 8)} if images else feature_names,
    )


def _original(data: Embedded) -> dict[str, Any]:
    """Every fifth record of each class, in published order, is a test record."""
    import pandas as pd

    labels = pd.Series(data.y)
    test = (labels.groupby(labels).cumcount() % 5 == 4).to_numpy()
    return data.about | cut(data.X, data.y, {"train": ~test, "test": test})


SOURCES = {
    name: Source((), partial(_read, name, images=images), {"original": _original})
    for name, images in (("digits", True), ("breast_cancer", False))
}
