"""A few faults of each kind; all of them, and those of workers and of Dask, are tried by ``make campaign``."""

import pytest

from dpnotes.lab.store import read_store
from tests.faults.__main__ import campaign
from tests.faults.damages import DAMAGES
from tests.faults.place import GRID, Place, undisturbed
from tests.faults.tables import COLUMNS, marked, shown


def test_no_fault_costs_a_row(tmp_path):
    tmp_path.chmod(0o755)
    for row in campaign(tmp_path, kills=1 / 60, times=1, names=("writer", *DAMAGES)):
        assert row["survived"] == row["tried"] >= 1, row
        assert row["rows_lost"] == 0, row


def test_a_lost_an_altered_and_a_repeated_row_are_noticed(tmp_path):
    undisturbed(tmp_path / "undisturbed")
    place, whole = Place(tmp_path / "place"), Place.expected
    place.ended(place.started())
    found = place.store.read_text().splitlines(keepends=True)
    place.store.with_name(f".{place.store.name}.rows").unlink()
    first, last = (read_store(place.store)["row"].iloc[index] for index in (0, -1))
    assert place.troubles() == (0, [])
    place.store.write_text("".join(found[:-1]))
    assert place.troubles() == (1, [])
    place.store.write_text("".join([*found, found[-1]]))
    assert place.troubles()[0] == len(GRID)
    place.store.write_text("".join(found))
    Place.expected = whole | {first: whole[last]}
    assert place.troubles() == (1, [f"row {first} is altered"])


def test_a_process_that_outlives_is_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr("processes.HANG", 0.1)
    undisturbed(tmp_path / "undisturbed")
    place = Place(tmp_path / "place")
    place.ended(place.started())
    place.pids.write_text("1\n")
    assert place.troubles() == (0, ["process 1 outlived"])


@pytest.mark.parametrize("name", COLUMNS)
def test_the_tables_are_those_of_the_rows(name):
    assert shown(name) == marked(name)
