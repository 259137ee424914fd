"""UCI Adult, Covertype and Diabetes 130-US hospitals as published, and the sets that
come with scikit-learn.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpnotes.data._dataset import (
    FEATURES,
    LABELS,
    Published,
    Rows,
    Source,
    cut,
    read_bytes,
    sha256,
)
from dpnotes.data._unit_ball import to_unit_sphere

COVERTYPE_FILE = "covertype/covtype.data.gz"
# of the unpacked file
_COVERTYPE_SHA256 = "0a9371cef7c964b5475d6053cc3e0894a5aa6f65ad1ed3ecb01c45aa96217945"


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split(", "))


# names of columns and classes as the files' descriptions print them
_COVERTYPE_FEATURES = (
    *_names(
        "Elevation, Aspect, Slope, Horizontal_Distance_To_Hydrology,"
        " Vertical_Distance_To_Hydrology, Horizontal_Distance_To_Roadways,"
        " Hillshade_9am, Hillshade_Noon, Hillshade_3pm,"
        " Horizontal_Distance_To_Fire_Points"
    ),
    *(f"Wilderness_Area{i}" for i in range(1, 5)),
    *(f"Soil_Type{i}" for i in range(1, 41)),
)
_COVER_TYPES = _names(
    "Spruce/Fir, Lodgepole Pine, Ponderosa Pine, Cottonwood/Willow, Aspen,"
    " Douglas-fir, Krummholz"
)

# SHA-256 sum of each file
ADULT_FILES = {
    "adult/adult.data": (
        "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d"
    ),
    "adult/adult.test": (
        "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05"
    ),
}
_ADULT_NUMERIC = _names(
    "age, fnlwgt, education-num, capital-gain, capital-loss, hours-per-week"
)
_ADULT_COLUMNS = _names(
    "age, workclass, fnlwgt, education, education-num, marital-status, occupation,"
    " relationship, race, sex, capital-gain, capital-loss, hours-per-week,"
    " native-country, income"
)
_ADULT_TRAIN = 32_561  # rows of adult.data; adult.test has 16,281
DIABETES_FILE = "diabetes130/dataset_diabetes.zip"
_DIABETES_MEMBER = "dataset_diabetes/diabetic_data.csv"
# of the unpacked member
_DIABETES_SHA256 = "0689e7ec031237dc63031b938805c48377748761a3b26acab621567afa24df97"
# discharge dispositions: died, or to a hospice
_ENDS_OF_CARE = (11, 13, 14, 19, 20, 21)
_DIABETES_COUNTS = _names(
    "time_in_hospital, num_lab_procedures, num_procedures, num_medications,"
    " number_outpatient, number_emergency, number_inpatient, number_diagnoses"
)
_DIABETES_LEVELS = _names(
    "race, gender, admission_type_id, discharge_disposition_id, admission_source_id,"
    " max_glu_serum, A1Cresult, insulin, change, diabetesMed"
)
# of ICD-9 codes: the first code beyond each chapter, and its name
_ICD_CHAPTERS = (
    (140, "infectious"),
    (240, "neoplasms"),
    (280, "endocrine"),
    (290, "blood"),
    (320, "mental"),
    (390, "nervous"),
    (460, "circulatory"),
    (520, "respiratory"),
    (580, "digestive"),
    (630, "genitourinary"),
    (680, "pregnancy"),
    (710, "skin"),
    (740, "musculoskeletal"),
    (780, "congenital"),
    (800, "symptoms"),
    (1000, "injury"),
)
# records of the private data that the split stands in for
_HEART_FAILURE = 24_175


@dataclass(frozen=True, eq=False, kw_only=True)
class Table(Published):
    """All records in published order (Adult: the rows of ``adult.data``, then those of
    ``adult.test``).

    ``numbers`` are float64 [n, .] in the published units, ``levels`` are one-hot bool
    [n, .], and ``y`` is int64 [n].
    """

    numbers: NDArray[np.float64]
    levels: NDArray[np.bool_]
    y: LABELS
    number_names: tuple[str, ...]
    level_names: tuple[str, ...]

    def features(self, by: Rows) -> FEATURES:
        """Numbers, scaled so that the rows ``by`` span [0, 1] (other rows may lie
        outside), followed by the levels.
        """
        low = self.numbers[by].min(axis=0)
        high = self.numbers[by].max(axis=0)
        scaled = (self.numbers - low) / (high - low)
        return np.ascontiguousarray(
            np.hstack([scaled, self.levels], dtype=np.float32, casting="same_kind")
        )

    def split(self, X: FEATURES, rows: Mapping[str, Rows]) -> dict[str, Any]:
        """Arguments of :class:`Dataset` with features X of all records."""
        return {
            "feature_names": self.number_names + self.level_names,
            **cut(X, self.y, rows),
        }

    def thirds(self, n: int | None = None) -> dict[str, Any]:
        """Training, public and test rows: thirds of the first ``n`` in a fixed
        random order; min-max over all rows.
        """
        # a fixed order: no random state changes the split
        order = np.random.default_rng(0).permutation(len(self.y))[:n]
        third = len(order) // 3
        rows = {
            "train": order[:third],
            "public": order[third : 2 * third],
            "test": order[2 * third :],
        }
        return self.split(self.features(slice(None)), rows)

    def with_levels(self, kept: NDArray[np.bool_]) -> Table:
        """Return the table with only the levels that ``kept`` marks, bool [levels]."""
        return replace(
            self,
            levels=self.levels[:, kept],
            level_names=tuple(compress(self.level_names, kept)),
        )


def read_adult(folder: Path) -> Table:
    """Read and check both files of Adult; the categories come from all rows and
    include a missing value ``?``.
    """
    contents = {
        file: read_bytes("adult", folder / file, wanted)
        for file, wanted in ADULT_FILES.items()
    }

    import pandas as pd

    rows = pd.concat(
        pd.read_csv(
            io.BytesIO(content),
            names=_ADULT_COLUMNS,
            skipinitialspace=True,
            # the first line of adult.test is no record
            skiprows=int(file.endswith(".test")),
            # "?" is a level of its own
            keep_default_na=False,
        )
        for file, content in contents.items()
    )
    categorical = rows.drop(columns=["income", *_ADULT_NUMERIC])
    levels = pd.get_dummies(categorical, prefix_sep="=")
    return Table(
        digest=hashlib.sha256(b"".join(contents.values())).hexdigest()[:12],
        class_names=("<=50K", ">50K"),
        numbers=rows[list(_ADULT_NUMERIC)].to_numpy(np.float64),
        levels=levels.to_numpy(np.bool_),
        # adult.test has a point after each label
        y=rows["income"].str.startswith(">").to_numpy().astype(np.int64),
        number_names=_ADULT_NUMERIC,
        level_names=tuple(levels.columns),
    )


def read_covertype(folder: Path) -> Table:
    """Read and check the packed file of Covertype."""
    content = read_bytes("covertype", folder / COVERTYPE_FILE, _COVERTYPE_SHA256)

    import pandas as pd

    # [581012, 55]
    rows = pd.read_csv(io.BytesIO(content), header=None, dtype=np.int16).to_numpy()
    return Table(
        digest=_COVERTYPE_SHA256[:12],
        class_names=_COVER_TYPES,
        numbers=rows[:, :10].astype(np.float64),
        levels=rows[:, 10:54].astype(np.bool_),
        # types are numbered from 1
        y=rows[:, 54].astype(np.int64) - 1,
        number_names=_COVERTYPE_FEATURES[:10],
        level_names=_COVERTYPE_FEATURES[10:],
    )


def _adult_original(table: Table) -> dict[str, Any]:
    rows = {"train": slice(_ADULT_TRAIN), "test": slice(_ADULT_TRAIN, None)}
    return table.split(table.features(rows["train"]), rows)


def _adult_intrinsic_sgd(table: Table) -> dict[str, Any]:
    columns = np.array([level.partition("=")[0] for level in table.level_names])
    # all but the first level of each column
    kept = np.append(False, columns[1:] == columns[:-1])
    table = table.with_levels(kept)
    first = _ADULT_TRAIN // 10
    rows = {
        "validation": slice(first),
        "train": slice(first, _ADULT_TRAIN),
        "test": slice(_ADULT_TRAIN, None),
    }
    return table.split(to_unit_sphere(table.features(slice(_ADULT_TRAIN))), rows)


def _covertype_original(table: Table) -> dict[str, Any]:
    rows = {
        "train": slice(11_340),
        "validation": slice(11_340, 15_120),
        "test": slice(15_120, None),
    }
    return table.split(table.features(rows["train"]), rows)


def _covertype_intrinsic_sgd(table: Table) -> dict[str, Any]:
    # types 1 and 2 of the paper
    chosen = table.y < 2
    table = replace(
        table,
        numbers=table.numbers[chosen],
        levels=table.levels[chosen],
        y=table.y[chosen],
    )
    order = np.random.default_rng(0).permutation(len(table.y))
    # training and validation rows
    n = int(0.85 * len(order))
    # levels that are constant there tell nothing
    table = table.with_levels(np.ptp(table.levels[order[:n]].view(np.int8), axis=0) > 0)
    rows = {
        "validation": order[: n // 10],
        "train": order[n // 10 : n],
        "test": order[n:],
    }
    return {
        "class_names": _COVER_TYPES[:2],
        **table.split(to_unit_sphere(table.features(order[:n])), rows),
    }


@dataclass(frozen=True, eq=False, kw_only=True)
class Embedded(Published):
    """All records of a set in published order: features scaled to [0, 1], float32
    [n, d], and labels [n].
    """

    X: FEATURES
    y: LABELS
    about: dict[str, Any]  # further arguments of Dataset


def _read(name: str, folder: Path, *, images: bool) -> Embedded:
    """Read the set of that name; its ranges are public: grey levels 0 .. 16, or
    printed in the set's description.
    """
    bunch = getattr(import_module("sklearn.datasets"), f"load_{name}")()
    low = bunch.data.min(axis=0)
    high = bunch.data.max(axis=0)
    about: dict[str, Any] = {"feature_names": tuple(map(str, bunch.feature_names))}
    if images:
        # the grey levels of a pixel
        low = 0
        high = 16
        about = {"image_shape": (1, 8, 8)}
    return Embedded(
        # of the numbers as every machine stores them
        digest=sha256(bunch.data.astype("<f8"), bunch.target.astype("<i8"))[:12],
        X=((bunch.data - low) / (high - low)).astype(np.float32),
        y=bunch.target.astype(np.int64),
        class_names=tuple(map(str, bunch.target_names)),
        about=about,
    )


def _original(data: Embedded) -> dict[str, Any]:
    """Every fifth record of each class, in published order, is a test record."""
    import pandas as pd

    labels = pd.Series(data.y)
    # by class, so that both parts have the same proportions
    test = (labels.groupby(labels).cumcount() % 5 == 4).to_numpy()
    return data.about | cut(data.X, data.y, {"train": ~test, "test": test})


EMBEDDED = {
    name: Source((), partial(_read, name, images=images), {"original": _original})
    for name, images in (("digits", True), ("breast_cancer", False))
}


def read_diabetes(folder: Path) -> Table:
    """Read and check the first stay of each patient who left alive and not for a
    hospice; label 1: readmitted.
    """
    content = read_bytes(
        "diabetes130", folder / DIABETES_FILE, _DIABETES_SHA256, member=_DIABETES_MEMBER
    )

    import pandas as pd

    stays = pd.read_csv(io.BytesIO(content), keep_default_na=False).sort_values(
        "encounter_id"
    )
    # one record for each patient, so that the guarantee is for patients
    first = stays.drop_duplicates("patient_nbr")
    first = first[~first["discharge_disposition_id"].isin(_ENDS_OF_CARE)]
    categories = first[list(_DIABETES_LEVELS)].astype(str)
    categories["diagnosis"] = first["diag_1"].map(_chapter)
    levels = pd.get_dummies(categories, prefix_sep="=")
    # the lower end of an interval such as [70-80)
    age = first["age"].str.extract(r"\[(\d+)-", expand=False).astype(np.float64)
    counts = first[list(_DIABETES_COUNTS)].to_numpy(np.float64)
    return Table(
        digest=_DIABETES_SHA256[:12],
        class_names=("not readmitted", "readmitted"),
        numbers=np.column_stack([age, np.log1p(counts)]),
        levels=levels.to_numpy(np.bool_),
        y=(first["readmitted"] != "NO").to_numpy().astype(np.int64),
        number_names=("age", *_DIABETES_COUNTS),
        level_names=tuple(levels.columns),
    )


def _chapter(code: Any) -> str:
    """Chapter of an ICD-9 code; diabetes (250) is separate, because its chapter is
    mostly other diseases.
    """
    # codes that begin with E or V: causes outside, and visits for another reason
    if not str(code)[:1].isdigit():
        return "missing" if code == "?" else "supplementary"
    number = int(float(code))
    if number == 250:
        return "diabetes"
    for end, name in _ICD_CHAPTERS:
        if number < end:
            return name
    raise ValueError(f"no ICD-9 code: {code}")


SOURCES = {
    "adult": Source(
        tuple(ADULT_FILES),
        read_adult,
        {
            "original": _adult_original,
            "dpbag": Table.thirds,
            "intrinsic_sgd": _adult_intrinsic_sgd,
        },
    ),
    "covertype": Source(
        (COVERTYPE_FILE,),
        read_covertype,
        {"original": _covertype_original, "intrinsic_sgd": _covertype_intrinsic_sgd},
    ),
    "diabetes130": Source(
        (DIABETES_FILE,),
        read_diabetes,
        {"dpbag": lambda table: table.thirds(_HEART_FAILURE)},
    ),
}
