"""UCI Diabetes 130-US hospitals: first hospital stays, and whether the patient was admitted again."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np

from dpnotes.data._source import Source, read_bytes
from dpnotes.data._tables import Table

FILE = "diabetes130/dataset_diabetes.zip"
_MEMBER = "dataset_diabetes/diabetic_data.csv"
_SHA256 = "0689e7ec031237dc63031b938805c48377748761a3b26acab621567afa24df97"  # of the unpacked member
_ENDS_OF_CARE = (11, 13, 14, 19, 20, 21)  # discharge dispositions: died, or to a hospice
_COUNTS = (
    "time_in_hospital", "num_lab_procedures", "num_procedures", "num_medications", "number_outpatient",
    "number_emergency", "number_inpatient", "number_diagnoses",
)  # fmt: skip
_LEVELS = (
    "race", "gender", "admission_type_id", "discharge_disposition_id", "admission_source_id", "max_glu_serum",
    "A1Cresult", "insulin", "change", "diabetesMed",
)  # fmt: skip
_CHAPTERS = (  # of ICD-9 codes: first code beyond the chapter, and its name
    (140, "infectious"), (240, "neoplasms"), (280, "endocrine"), (290, "blood"), (320, "mental"), (390, "nervous"),
    (460, "circulatory"), (520, "respiratory"), (580, "digestive"), (630, "genitourinary"), (680, "pregnancy"),
    (710, "skin"), (740, "musculoskeletal"), (780, "congenital"), (800, "symptoms"), (1000, "injury"),
)  # fmt: skip
_HEART_FAILURE = 24_175  # records of the private data that the split stands in for


def read_diabetes(folder: Path) -> Table:
    """First stay of each patient who left alive and not for a hospice, checked; the label: readmitted at any time."""
    content = read_bytes("diabetes130", folder / FILE, _SHA256, member=_MEMBER)

    import pandas as pd

    stays = pd.read_csv(io.BytesIO(content), keep_default_na=False).sort_values("encounter_id")
    first = stays.drop_duplicates("patient_nbr")
    first = first[~first["discharge_disposition_id"].isin(_ENDS_OF_CARE)]
    categories = first[list(_LEVELS)].astype(str).assign(diagnosis=first["diag_1"].map(_chapter))
    levels = pd.get_dummies(categories, prefix_sep="=")
    age = first["age"].str.extract(r"\[(\d+)-", expand=False).astype(np.float64)
    return Table(
        digest=_SHA256[:12],
        class_names=("not readmitted", "readmitted"),
        numbers=np.column_stack([age, np.log1p(first[list(_COUNTS)].to_numpy(np.float64))]),
        levels=levels.to_numpy(np.bool_),
        y=(first["readmitted"] != "NO").to_numpy().astype(np.int64),
        number_names=("age", *_COUNTS),
        level_names=tuple(levels.columns),
    )


def _chapter(code: Any) -> str:
    """Chapter of an ICD-9 code; diabetes (250) on its own, as most of its neighbours here are something else."""
    if not str(code)[:1].isdigit():
        return "missing" if code == "?" else "supplementary"
    number = int(float(code))
    return "diabetes" if number == 250 else next(name for end, name in _CHAPTERS if number < end)


SOURCES = {"diabetes130": Source((FILE,), read_diabetes, {"dpbag": lambda table: table.thirds(_HEART_FAILURE)})}
