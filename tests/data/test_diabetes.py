"""Diabetes 130-US hospitals against the published file, read by the csv module alone."""

import csv
import io
import math
import zipfile

import numpy as np
import pytest

from dpnotes.data import _diabetes


@pytest.fixture(scope="module")
def stays():
    from dpnotes import data

    path = data.data_folder() / _diabetes.FILE
    with zipfile.ZipFile(path) as archive, archive.open("dataset_diabetes/diabetic_data.csv") as file:
        return path, list(csv.DictReader(io.TextIOWrapper(file)))


@pytest.mark.needs("diabetes130")
def test_one_record_for_each_patient_who_could_return(stays):
    path, rows = stays
    assert len(rows) == 101_766
    first = {}
    for row in sorted(rows, key=lambda row: int(row["encounter_id"])):
        first.setdefault(row["patient_nbr"], row)
    assert len(first) == 71_518
    kept = [
        row for row in first.values() if row["discharge_disposition_id"] not in {"11", "13", "14", "19", "20", "21"}
    ]
    table = _diabetes.read_diabetes(path.parents[1])
    assert len(kept) == len(table.y) == 69_973
    assert table.y.tolist() == [int(row["readmitted"] != "NO") for row in kept]
    names = table.number_names + table.level_names
    for index in (0, 1234, 69_972):
        row, values = kept[index], dict(zip(names, [*table.numbers[index], *table.levels[index]], strict=True))
        assert values["age"] == int(row["age"][1:].partition("-")[0])
        assert values["number_inpatient"] == pytest.approx(math.log(1 + int(row["number_inpatient"])))
        assert values["num_medications"] == pytest.approx(math.log(1 + int(row["num_medications"])))
        for column in ("race", "gender", "admission_type_id", "A1Cresult", "insulin", "diabetesMed"):
            assert [n for n in names if n.startswith(column + "=") and values[n]] == [f"{column}={row[column]}"]
    ends = np.cumsum([sum(n.startswith(c + "=") for n in table.level_names) for c in (*_diabetes._LEVELS, "diagnosis")])
    assert ends[-1] == table.levels.shape[1]
    assert (table.levels.sum(axis=1) == len(_diabetes._LEVELS) + 1).all()


@pytest.mark.parametrize(
    ("code", "chapter"),
    [
        ("250.83", "diabetes"),
        ("276", "endocrine"),
        ("428", "circulatory"),
        ("8", "infectious"),
        ("139", "infectious"),
        ("140", "neoplasms"),
        ("V57", "supplementary"),
        ("E909", "supplementary"),
        ("786", "symptoms"),
        ("996", "injury"),
        ("?", "missing"),
    ],
)
def test_chapters_of_diagnoses(code, chapter):
    assert _diabetes._chapter(code) == chapter


@pytest.mark.needs("diabetes130")
def test_stays_are_known_by_their_content_not_by_their_packing(stays, tmp_path):
    path, _ = stays
    (tmp_path / "diabetes130").mkdir()
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(tmp_path / _diabetes.FILE, "w") as other:
        other.writestr(_diabetes._MEMBER, archive.read(_diabetes._MEMBER), zipfile.ZIP_STORED)
    assert _diabetes.read_diabetes(tmp_path).digest == "0689e7ec0312"
    with zipfile.ZipFile(tmp_path / _diabetes.FILE, "w") as other:
        other.writestr("readme.txt", "no data")
    with pytest.raises(ValueError, match="not a whole zip archive with dataset_diabetes"):
        _diabetes.read_diabetes(tmp_path)
