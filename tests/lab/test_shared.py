"""Rows that other rows are made of: computed once for all, by one process at a time,
on their own time.
"""

import shutil
import time

import joblib
import pytest

from dpnotes.lab import _shared
from dpnotes.lab.store import adopt, read_store, sweep

CALLS = []


def part(*, number, pause=0.0):
    CALLS.append(number)
    time.sleep(pause)
    return {"square": number**2}


def whole(*, numbers, pause=0.0):
    rows = _shared.shared_rows(
        "parts", part, [{"number": n} for n in range(numbers)], {"pause": pause}
    )
    return {"sum": int(rows["square"].sum())}


@pytest.fixture(autouse=True)
def _places(tmp_path, monkeypatch):
    CALLS.clear()
    monkeypatch.setattr(
        _shared, "published_store", lambda name: tmp_path / "published" / f"{name}.csv"
    )
    monkeypatch.setattr(_shared, "runs_store", lambda name: tmp_path / "runs" / name)


def run(tmp_path, *numbers, **options):
    grid = [{"numbers": n} for n in numbers]
    return sweep(
        whole, grid, store=tmp_path / "runs" / "wholes", options=options, progress=False
    )


def test_each_part_is_computed_once_and_kept(tmp_path):
    assert run(tmp_path, 3, 5, 4)["sum"].tolist() == [5, 30, 14]
    assert sorted(CALLS) == [0, 1, 2, 3, 4]
    assert sorted(read_store(tmp_path / "runs" / "parts")["number"]) == [0, 1, 2, 3, 4]
    assert _shared.lacking("parts", part, [{"number": n} for n in range(7)]) == [
        {"number": 5},
        {"number": 6},
    ]


def test_published_parts_are_taken_and_outside_of_a_sweep_nothing_is_written(tmp_path):
    run(tmp_path, 2)
    adopt(tmp_path / "runs" / "parts", tmp_path / "published" / "parts.csv")
    shutil.rmtree(tmp_path / "runs" / "parts")
    CALLS.clear()
    assert whole(numbers=4) == {"sum": 14}
    assert sorted(CALLS) == [2, 3]
    assert not (tmp_path / "runs" / "parts").exists()
    assert run(tmp_path, 4)["sum"].tolist() == [14]
    assert sorted(CALLS) == [2, 2, 3, 3]


def test_the_time_of_parts_is_their_own(tmp_path):
    table = run(tmp_path, 2, pause=0.4)
    assert (read_store(tmp_path / "runs" / "parts")["seconds"] >= 0.4).all()
    assert 0 <= table["seconds"][0] < 0.8


def test_processes_that_need_the_same_parts_share_the_work(tmp_path):
    grid = [{"numbers": 12, "pause": 0.05}, {"numbers": 12, "pause": 0.0500001}]
    with joblib.parallel_config(backend="threading", n_jobs=2):
        assert sweep(whole, grid, store=tmp_path / "runs" / "wholes", progress=False)[
            "sum"
        ].tolist() == [506, 506]
    # each begins elsewhere, and takes what the other has finished
    assert len(CALLS) < 24
