"""UCI Adult and Covertype: the published files, read and encoded."""

from __future__ import annotations

import gzip
import hashlib
import io
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import compress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dpnotes.data._dataset import FEATURES, LABELS, DataDamaged, DataMissing, Dataset
from dpnotes.data._source import Published, Rows, Source, cut
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


def _check(name: str, path: Path, content: bytes, wanted: str) -> None:
    found = hashlib.sha256(content).hexdigest()
    if found != wanted:
        fault = f"{len(content):,} bytes with SHA-256 sum {found[:12]}..., the published content has {wanted[:12]}..."
        raise DataDamaged(name, path, fault)


def _read_bytes(name: str, path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise DataMissing(name, path) from None


def read_adult(folder: Path) -> Table:
    """Both files of Adult, checked; categories are those of all rows, a missing value ``?`` is one of them."""
    contents = {}
    for file, wanted in ADULT_FILES.items():
        contents[file] = _read_bytes("adult", folder / file)
        _check("adult", folder / file, contents[file], wanted)

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
        numbers=rows[_ADULT_NUMERIC].to_numpy(np.float64),
        levels=levels.to_numpy(np.bool_),
        y=rows["income"].str.startswith(">").to_numpy().astype(np.int64),
        number_names=tuple(_ADULT_NUMERIC),
        level_names=tuple(levels.columns),
    )


def read_covertype(folder: Path) -> Table:
    """The packed file of Covertype, checked."""
    path = folder / COVERTYPE_FILE
    packed = _read_bytes("covertype", path)
    try:
        content = gzip.decompress(packed)
    except (OSError, EOFError, zlib.error) as error:
        raise DataDamaged("covertype", path, f"not a whole gzip file ({error})") from error
    _check("covertype", path, content, _COVERTYPE_SHA256)

    import pandas as pd

    rows = pd.read_csv(io.BytesIO(content), header=None, dtype=np.int16).to_numpy()  # [581012, 55]
    return Table(
        digest=_COVERTYPE_SHA256[:12],
        numbers=rows[:, :10].astype(np.float64),
        levels=rows[:, 10:54].astype(np.bool_),
        y=rows[:, 54].astype(np.int64) - 1,
        number_names=_COVERTYPE_FEATURES[:10],
        level_names=_COVERTYPE_FEATURES[10:],
    )


def _min_max(numbers: NDArray[np.float64], by: Rows) -> NDArray[np.float64]:
    """Scale each column so that the rows ``by`` span [0, 1]; other rows may lie outside."""
    low, high = numbers[by].min(axis=0), numbers[by].max(axis=0)
    scaled: NDArray[np.float64] = (numbers - low) / (high - low)
    return scaled


def _side_by_side(numbers: NDArray[np.float64], levels: NDArray[np.bool_]) -> FEATURES:
    return np.ascontiguousarray(np.hstack([numbers, levels], dtype=np.float32, casting="same_kind"))


def _adult(split: str, table: Table, X: FEATURES, feature_names: tuple[str, ...], rows: Mapping[str, Rows]) -> Dataset:
    return Dataset(
        name="adult",
        split=split,
        class_names=("<=50K", ">50K"),
        feature_names=feature_names,
        image_shape=None,
        digest=f"adult:{split}:{table.digest}",
        **cut(X, table.y, rows),
    )


def _adult_original(table: Table) -> Dataset:
    rows = {"train": slice(_ADULT_TRAIN), "test": slice(_ADULT_TRAIN, None)}
    X = _side_by_side(_min_max(table.numbers, rows["train"]), table.levels)
    return _adult("original", table, X, table.number_names + table.level_names, rows)


def _adult_dpbag(table: Table) -> Dataset:
    order, third = np.random.default_rng(0).permutation(len(table.y)), len(table.y) // 3
    rows = {"train": order[:third], "public": order[third : 2 * third], "test": order[2 * third :]}
    X = _side_by_side(_min_max(table.numbers, slice(None)), table.levels)
    return _adult("dpbag", table, X, table.number_names + table.level_names, rows)


def _adult_intrinsic_sgd(table: Table) -> Dataset:
    columns = [level.partition("=")[0] for level in table.level_names]
    kept = [i > 0 and column == columns[i - 1] for i, column in enumerate(columns)]  # all but the first of each column
    names = tuple(compress(table.level_names, kept))
    X = to_unit_sphere(_side_by_side(_min_max(table.numbers, slice(_ADULT_TRAIN)), table.levels[:, kept]))
    first = _ADULT_TRAIN // 10
    rows = {"validation": slice(first), "train": slice(first, _ADULT_TRAIN), "test": slice(_ADULT_TRAIN, None)}
    return _adult("intrinsic_sgd", table, X, table.number_names + names, rows)


def _covertype_original(table: Table) -> Dataset:
    rows = {"train": slice(11_340), "validation": slice(11_340, 15_120), "test": slice(15_120, None)}
    X = _side_by_side(_min_max(table.numbers, rows["train"]), table.levels)
    return Dataset(
        name="covertype",
        split="original",
        class_names=_COVER_TYPES,
        feature_names=_COVERTYPE_FEATURES,
        image_shape=None,
        digest=f"covertype:original:{table.digest}",
        **cut(X, table.y, rows),
    )


def _covertype_intrinsic_sgd(table: Table) -> Dataset:
    chosen = table.y < 2
    numbers, levels, y = table.numbers[chosen], table.levels[chosen], table.y[chosen]
    order = np.random.default_rng(0).permutation(len(y))
    n = int(0.85 * len(y))  # training and validation rows
    kept = np.ptp(levels[order[:n]].view(np.int8), axis=0) > 0  # columns that are not constant
    X = to_unit_sphere(_side_by_side(_min_max(numbers, order[:n]), levels[:, kept]))
    return Dataset(
        name="covertype",
        split="intrinsic_sgd",
        class_names=_COVER_TYPES[:2],
        feature_names=table.number_names + tuple(compress(table.level_names, kept)),
        image_shape=None,
        digest=f"covertype:intrinsic_sgd:{table.digest}",
        **cut(X, y, {"validation": order[: n // 10], "train": order[n // 10 : n], "test": order[n:]}),
    )


SOURCES = {
    "adult": Source(
        tuple(ADULT_FILES),
        read_adult,
        {"original": _adult_original, "dpbag": _adult_dpbag, "intrinsic_sgd": _adult_intrinsic_sgd},
    ),
    "covertype": Source(
        (COVERTYPE_FILE,),
        read_covertype,
        {"original": _covertype_original, "intrinsic_sgd": _covertype_intrinsic_sgd},
    ),
}
