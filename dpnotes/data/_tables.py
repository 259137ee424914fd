"""UCI Adult and Covertype: the published files, read and encoded."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpnotes.data._dataset import FEATURES, LABELS
from dpnotes.data._source import Published, Rows, Source, cut, read_bytes
from dpnotes.data._unit_ball import to_unit_sphere

COVERTYPE_FILE = "covertype/covtype.data.gz"
_COVERTYPE_SHA256 = "0a9371cef7c964b5475d6053cc3e0894a5aa6f65ad1ed3ecb01c45aa96217945"  # of the unpacked file
_COVERTYPE_FEATURES = (
    "Elevation", "Aspect", "Slope", "Horizontal_Distance_To_Hydrology", "Vertical_Distance_To_Hydrology",
    "Horizontal_Distance_To_Roadways", "Hillshade_9am", "Hillshade_Noon", "Hillshade_3pm",
    "Horizontal_Distance_To_Fire_Points",
    *(f"Wilderness_Area{i}" for i in range(1, 5)), *(f"Soil_Type{i}" for i in range(1, 41)),
)  # fmt: skip
_COVER_TYPES = (
    "Spruce/Fir", "Lodgepole Pine", "Ponderosa Pine", "Cottonwood/Willow", "Aspen", "Douglas-fir", "Krummholz",
)  # fmt: skip

ADULT_FILES = {  # file -> SHA-256 sum
    "adult/adult.data": "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
    "adult/adult.test": "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
}
_ADULT_NUMERIC = ["age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"]
_ADULT_COLUMNS = [
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship",
    "race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income",
]  # fmt: skip
_ADULT_TRAIN = 32_561  # rows of adult.data; adult.test has 16,281


@dataclass(frozen=True, eq=False, kw_only=True)
class Table(Published):
    """All records in published order (Adult: the rows of ``adult.data``, then those of ``adult.test``).

    ``numbers`` float64 [n, .] in the published units, ``levels`` bool [n, .] one-hot, ``y`` int64 [n].
    """

    numbers: NDArray[np.float64]
    levels: NDArray[np.bool_]
    y: LABELS
    number_names: tuple[str, ...]
    level_names: tuple[str, ...]

    def features(self, by: Rows) -> FEATURES:
        """Numbers scaled so that the rows ``by`` span [0, 1] (other rows may lie outside), then levels."""
        low, high = self.numbers[by].min(axis=0), self.numbers[by].max(axis=0)
        scaled = (self.numbers - low) / (high - low)
        return np.ascontiguousarray(np.hstack([scaled, self.levels], dtype=np.float32, casting="same_kind"))

    def split(self, X: FEATURES, rows: Mapping[str, Rows]) -> dict[str, Any]:
        """Arguments of :class:`Dataset` with features X of all records."""
        return {"feature_names": self.number_names + self.level_names, **cut(X, self.y, rows)}

    def thirds(self, n: int | None = None) -> dict[str, Any]:
        """Training, public and test rows: thirds of the first ``n`` in a fixed random order; ranges of all records."""
        order = np.random.default_rng(0).permutation(len(self.y))[:n]
        third = len(order) // 3
        rows = {"train": order[:third], "public": order[third : 2 * third], "test": order[2 * third :]}
        return self.split(self.features(slice(None)), rows)

    def with_levels(self, kept: NDArray[np.bool_]) -> Table:
        """The table with some of its levels, bool [levels]."""
        return replace(self, levels=self.levels[:, kept], level_names=tuple(compress(self.level_names, kept)))


def read_adult(folder: Path) -> Table:
    """Both files of Adult, checked; categories are those of all rows, a missing value ``?`` is one of them."""
    contents = {file: read_bytes("adult", folder / file, wanted) for file, wanted in ADULT_FILES.items()}

    import pandas as pd

    rows = pd.concat(
        pd.read_csv(
            io.BytesIO(content),
            names=_ADULT_COLUMNS,
            skipinitialspace=True,
            skiprows=int(file.endswith(".test")),  # its first line is no record
            keep_default_na=False,
        )
        for file, content in contents.items()
    )
    categorical = [column for column in _ADULT_COLUMNS[:-1] if column not in _ADULT_NUMERIC]
    levels = pd.get_dummies(rows[categorical], prefix_sep="=")
    return Table(
        digest=hashlib.sha256(b"".join(contents.values())).hexdigest()[:12],
        class_names=("<=50K", ">50K"),
        numbers=rows[_ADULT_NUMERIC].to_numpy(np.float64),
        levels=levels.to_numpy(np.bool_),
        y=rows["income"].str.startswith(">").to_numpy().astype(np.int64),
        number_names=tuple(_ADULT_NUMERIC),
        level_names=tuple(levels.columns),
    )


def read_covertype(folder: Path) -> Table:
    """The packed file of Covertype, checked."""
    content = read_bytes("covertype", folder / COVERTYPE_FILE, _COVERTYPE_SHA256)

    import pandas as pd

    rows = pd.read_csv(io.BytesIO(content), header=None, dtype=np.int16).to_numpy()  # [581012, 55]
    return Table(
        digest=_COVERTYPE_SHA256[:12],
        class_names=_COVER_TYPES,
        numbers=rows[:, :10].astype(np.float64),
        levels=rows[:, 10:54].astype(np.bool_),
        y=rows[:, 54].astype(np.int64) - 1,
        number_names=_COVERTYPE_FEATURES[:10],
        level_names=_COVERTYPE_FEATURES[10:],
    )


def _adult_original(table: Table) -> dict[str, Any]:
    rows = {"train": slice(_ADULT_TRAIN), "test": slice(_ADULT_TRAIN, None)}
    return table.split(table.features(rows["train"]), rows)


def _adult_intrinsic_sgd(table: Table) -> dict[str, Any]:
    columns = [level.partition("=")[0] for level in table.level_names]
    kept = np.array([i > 0 and column == columns[i - 1] for i, column in enumerate(columns)])
    table, first = table.with_levels(kept), _ADULT_TRAIN // 10  # kept: all but the first level of each column
    rows = {"validation": slice(first), "train": slice(first, _ADULT_TRAIN), "test": slice(_ADULT_TRAIN, None)}
    return table.split(to_unit_sphere(table.features(slice(_ADULT_TRAIN))), rows)


def _covertype_original(table: Table) -> dict[str, Any]:
    rows = {"train": slice(11_340), "validation": slice(11_340, 15_120), "test": slice(15_120, None)}
    return table.split(table.features(rows["train"]), rows)


def _covertype_intrinsic_sgd(table: Table) -> dict[str, Any]:
    chosen = table.y < 2
    table = replace(table, numbers=table.numbers[chosen], levels=table.levels[chosen], y=table.y[chosen])
    order = np.random.default_rng(0).permutation(len(table.y))
    n = int(0.85 * len(order))  # training and validation rows
    table = table.with_levels(np.ptp(table.levels[order[:n]].view(np.int8), axis=0) > 0)  # others are constant
    rows = {"validation": order[: n // 10], "train": order[n // 10 : n], "test": order[n:]}
    return {"class_names": _COVER_TYPES[:2], **table.split(to_unit_sphere(table.features(order[:n])), rows)}


SOURCES = {
    "adult": Source(
        tuple(ADULT_FILES),
        read_adult,
        {"original": _adult_original, "dpbag": Table.thirds, "intrinsic_sgd": _adult_intrinsic_sgd},
    ),
    "covertype": Source(
        (COVERTYPE_FILE,), read_covertype, {"original": _covertype_original, "intrinsic_sgd": _covertype_intrinsic_sgd}
    ),
}
