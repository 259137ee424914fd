"""Rows in their files: nothing changes a value or its kind on the way, and a file is
there whole or not at all.
"""

import enum
import errno
import math
import os

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings, strategies as st

from dpnotes.lab.store import (
    StoreError,
    _rows,
    adopt,
    published_store,
    read_store,
    sweep,
)
from dpnotes.lab.store._rows import (
    Row,
    from_text,
    load,
    plain,
    publish,
    put,
    to_text,
    typed,
)
from tests.lab.store import toys

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=50)
)
# the underscore keeps them off the columns of every store
names = st.from_regex(r"[a-z]{1,4}_", fullmatch=True)
finite = scalars.filter(lambda v: not isinstance(v, float) or v - v == 0)


def row_key(experiment, parameters):
    return Row(experiment, parameters).key


def same(first, second):
    """Equal in kind and value; repr tells the zeros of float64 apart."""
    return type(first) is type(second) and repr(first) == repr(second)


@given(scalars)
@example("")
@example("None")
@example("inf")
@example("-0")
@example("1e5")
@example('"quoted"')
@example(" space ")
@example("line\nbreak\r\n")
@example("9" * 1000)
@example(-0.0)
@example(math.inf)
@example(5e-324)
@example(2**70)
def test_a_cell_says_its_value_and_its_kind(value):
    text = to_text(value)
    assert same(from_text(text), value)
    assert len(text.splitlines()) == 1


@settings(max_examples=25)  # files that the disk is waited for
@given(
    st.lists(
        st.tuples(
            st.dictionaries(names.map("p".__add__), finite),
            st.dictionaries(names.map("m".__add__), scalars),
        ),
        max_size=4,
    )
)
def test_rows_of_any_scalars_come_back_from_both_kinds_of_store(
    tmp_path_factory, content
):
    folder = tmp_path_factory.mktemp("store")
    provenance = {
        "seconds": 0.5,
        "version": 2,
        "python": "3.11",
        "date": "2025-01-01T00:00:00Z",
    }
    # by key: equal parameters are one row
    rows = {
        row.key: row
        for row in (Row("toys.f", asked, found, provenance) for asked, found in content)
    }
    for row in rows.values():
        put(row, folder / "toy")
    publish(rows.values(), folder / "toy.csv")
    for back, complete in (
        (load(folder / "toy"), True),
        (load(folder / "toy.csv"), False),
    ):
        assert back.keys() == rows.keys()
        for key, row in rows.items():
            assert same(
                dict(sorted(back[key].parameters.items())),
                dict(sorted(row.parameters.items())),
            )
            # a table has the metrics of all of its rows
            metrics = {
                name: value
                for name, value in back[key].metrics.items()
                if complete or name in row.metrics
            }
            assert same(
                dict(sorted(metrics.items())), dict(sorted(row.metrics.items()))
            )
            assert back[key].provenance == row.provenance
            assert back[key].version == 2
    # what is read back is written the same
    before = (folder / "toy.csv").read_bytes()
    publish(load(folder / "toy.csv").values(), folder / "toy.csv")
    assert (folder / "toy.csv").read_bytes() == before


def test_numbers_of_equal_value_are_one_parameter_but_true_and_text_are_not():
    keys = [
        row_key("toy.f", {"x": value}) for value in (1, 1.0, True, "1", "1.0", None)
    ]
    # 1 and 1.0
    assert keys[0] == keys[1]
    assert len(set(keys)) == 5
    assert row_key("toy.f", {"x": 0.0}) == row_key("toy.f", {"x": -0.0})
    assert row_key("toy.f", {"x": 1, "y": 2}) == row_key("toy.f", {"y": 2, "x": 1})
    assert row_key("toy.f", {"x": None}) != row_key("toy.f", {})
    assert row_key("toy.f", {"x": 1}) != row_key("toy.g", {"x": 1})


def test_a_key_is_the_same_in_every_version():
    """Pinned, computed by hand with sha256sum: a change of the rule would orphan
    every published row.
    """
    # printf '["bagging.ensemble",{"dataset":"mnist","rate":0.001,"seed":7}]' |
    # sha256sum
    assert (
        row_key("bagging.ensemble", {"seed": 7.0, "dataset": "mnist", "rate": 1e-3})
        == "3dfc64a92eae"
    )


def test_numpy_scalars_and_subclasses_become_plain_and_all_else_is_refused_by_name():
    kind = enum.StrEnum("Kind", {"SOFT": "soft"})
    for value, expected in [
        (np.float64(0.1), 0.1),
        (np.int32(3), 3),
        (np.bool_(True), True),
        (kind.SOFT, "soft"),
    ]:
        assert same(plain(value, "x"), expected)
    for value in ([1], {"a": 1}, 1j, b"x", np.arange(2)):
        with pytest.raises(
            TypeError, match="grid\\[0\\]\\['x'\\] must be a plain scalar"
        ):
            plain(value, "grid[0]['x']")


@pytest.mark.parametrize(
    ("column", "dtype"),
    [
        ([True, False], "bool"),
        ([True, None], "boolean"),
        ([1, 2], "int64"),
        ([2**60 + 1, None], "Int64"),
        ([1, 0.5, None], "float64"),
        ([1, True], "object"),
        ([1, "a"], "object"),
        ([None, None], "float64"),
        ([], "float64"),
    ],
)
def test_a_column_is_of_the_narrowest_type_that_holds_its_values(column, dtype):
    series = typed(column)
    assert series.dtype == dtype
    assert [None if pd.isna(value) else value for value in series] == column


@pytest.fixture
def store(tmp_path):
    sweep(toys.plain, toys.GRID, store=tmp_path / "toy", progress=False)
    adopt(tmp_path / "toy", tmp_path / "toy.csv")
    return tmp_path / "toy"


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[:-1],
        lambda content: b"",
        lambda content: b"\xff" + content,
        lambda content: b"[1, 2]",
        lambda content: b'{"a": 1}',
        lambda content: content.replace(b'"index": 5', b'"index": 6'),
        lambda content: content.replace(
            b'"metrics": {', b'"metrics": [], "provenance": {'
        ),
    ],
)
def test_a_damaged_file_of_a_row_is_refused_by_name_and_left_alone(store, damage):
    path = store / f"{row_key('toys.plain', {'index': 5})}.json"
    path.write_bytes(damage(path.read_bytes()))
    before = path.read_bytes()
    for use in (
        lambda: read_store(store),
        lambda: sweep(toys.plain, toys.GRID, store=store, progress=False),
    ):
        with pytest.raises(
            StoreError,
            match=f"{path.name} is damaged or no row: .*; remove it, and its row is",
        ):
            use()
    assert path.read_bytes() == before
    # as the error says
    path.unlink()
    assert len(sweep(toys.plain, toys.GRID, store=store, progress=False)) == 4


@pytest.mark.parametrize(
    ("old", "new", "rows"),
    [
        ("row,experiment", "row,experimen", 0),
        ("machine,date", "machine,day", 0),
        (",row 3,", ",", 2),
        ("toys.plain,3,", "toys.plain,4,", 2),
        ("toys.plain,3,", 'toys.plain,"""3",', 2),
        (",1,0.1.0,", ",one,0.1.0,", 0),
    ],
)
def test_a_damaged_table_is_refused_with_its_place(store, old, new, rows):
    path = store.with_suffix(".csv")
    changed = path.read_text().replace(old, new)
    path.write_text(changed)
    with pytest.raises(
        StoreError, match=rf"toy.csv, after {rows} rows: .*left as it is"
    ):
        read_store(path)
    assert path.read_text() == changed


def test_a_row_that_is_there_twice_is_refused(store):
    path = store.with_suffix(".csv")
    path.write_text(path.read_text() + path.read_text().splitlines()[-1] + "\n")
    with pytest.raises(StoreError, match=r"after 4 rows: .*there twice"):
        read_store(path)


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_full_disk_leaves_what_was_there_and_no_other_file(store, monkeypatch, call):
    def full(*arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    before = sorted(
        (path, path.read_bytes()) for path in store.parent.rglob("*") if path.is_file()
    )
    monkeypatch.setattr(_rows.os, call, full)
    with pytest.raises(
        OSError,
        match=(
            r"cannot write \(No space left on device\); nothing there was"
            r" changed.*\.json"
        ),
    ):
        sweep(toys.plain, [{"index": 2}], store=store, progress=False)
    with pytest.raises(OSError, match="No space left"):
        publish(load(store).values(), store.with_suffix(".csv"))
    assert (
        sorted(
            (path, path.read_bytes())
            for path in store.parent.rglob("*")
            if path.is_file()
        )
        == before
    )


def test_reading_writes_nothing(store, monkeypatch):
    """Neither in a folder that could be written, nor by calls that a read-only one
    would refuse.
    """
    before = sorted(store.parent.rglob("*"))
    monkeypatch.setattr(_rows, "replace_file", None)
    monkeypatch.setattr("tempfile.TemporaryFile", None)
    for path in (store, store.with_suffix(".csv")):
        assert len(read_store(path)) == 4
    # a finished sweep
    assert len(sweep(toys.plain, toys.GRID, store=store, progress=False)) == 4
    folder = published_store("any").parent
    published = sorted(folder.rglob("*"))
    read_store(published_store("bagging_table2a"))
    assert sorted(folder.rglob("*")) == published
    assert sorted(store.parent.rglob("*")) == before


def test_a_cell_as_long_as_the_predictions_of_an_ensemble_is_read_back(tmp_path):
    row = Row(
        "toys.f",
        {},
        {"votes": "ab" * 200_000},
        {"version": 1, "date": "2025-01-01T00:00:00Z"},
    )
    publish([row], tmp_path / "x.csv")
    assert load(tmp_path / "x.csv")[row.key].metrics == row.metrics
