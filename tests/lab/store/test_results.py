"""What stores hold: collecting, adopting, verifying."""

import math
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pandas as pd
import pytest

from dpnotes.lab import experiment
from dpnotes.lab.store import (
    StoreError,
    _results,
    adopt,
    collect,
    read_store,
    sweep,
    verify,
)
from tests.lab.store import toys
from tests.lab.store.toys import lines

GRID = [{"index": index} for index in (5, 3, 8)]


@pytest.fixture
def places(tmp_path):
    """A published store with the first row, one of runs with the second."""
    sweep(toys.plain, GRID[:1], store=tmp_path / "first", progress=False)
    adopt(tmp_path / "first", tmp_path / "published.csv")
    sweep(toys.plain, GRID[1:2], store=tmp_path / "runs" / "new", progress=False)
    return {"published": tmp_path / "published.csv", "runs": tmp_path / "runs" / "new"}


def gather(places, compute, tmp_path, **options):
    calls = tmp_path / "calls"
    calls.write_text("")
    options["calls"] = calls
    table = collect(
        toys.plain, GRID, compute=compute, options=options, progress=False, **places
    )
    assert table["index"].tolist() == [5, 3, 8]
    return table, lines(calls)


def test_stored_shows_gaps_and_runs_nothing(places, tmp_path):
    before = sorted(tmp_path.rglob("*"))
    table, calls = gather(places, "stored", tmp_path)
    assert not calls
    for column in ("count", "date", "version"):
        assert table[column].isna().tolist() == [False, True, True]
    assert table["row"].notna().all()
    assert sorted(tmp_path.rglob("*")) == sorted([*before, tmp_path / "calls"])
    # neither store needs to be there
    nowhere = {"published": tmp_path / "p.csv", "runs": tmp_path / "r"}
    assert gather(nowhere, "stored", tmp_path)[0]["date"].isna().all()
    gaps = collect(toys.plain, GRID[1:], compute="stored", **places)
    assert "third" in gaps  # a metric that other rows have


def test_missing_runs_what_both_stores_lack_and_takes_the_published_first(
    places, tmp_path
):
    sweep(
        toys.plain,
        GRID[:1],
        store=places["runs"],
        options={"scale": 2.0},
        progress=False,
    )
    table, calls = gather(places, "missing", tmp_path)
    assert calls == ["8"]
    assert table["third"].tolist() == [5 / 3, 1.0, 8 / 3]
    assert set(read_store(places["runs"])["index"]) == {5, 3, 8}
    assert gather(places, "missing", tmp_path)[1] == []


def test_all_runs_every_row_afresh_one_after_the_other(places, tmp_path):
    sweep(toys.plain, [{"index": 99}], store=places["runs"], progress=False)
    table, calls = gather(places, "all", tmp_path, scale=2.0)
    assert calls == ["5", "3", "8"]
    assert table["third"].tolist() == [10 / 3, 2.0, 16 / 3]
    assert set(read_store(places["runs"])["index"]) == {5, 3, 8, 99}
    # a row that fails leaves the earlier rows as they were
    with pytest.raises(RuntimeError, match="index 3"):
        gather(places, "all", tmp_path, bad=[3])
    kept = read_store(places["runs"]).set_index("index")["third"]
    assert kept[[5, 3, 8]].tolist() == [5 / 3, 2.0, 16 / 3]


def test_a_store_that_is_not_there_is_named(tmp_path):
    path = tmp_path / "none.csv"
    for use in (
        lambda: read_store(path),
        lambda: adopt(path, tmp_path / "other.csv"),
        lambda: verify(toys.plain, path, sample=[], tolerance={}),
    ):
        with pytest.raises(
            FileNotFoundError, match=r"there is no such store: .*none\.csv"
        ):
            use()
    assert not list(tmp_path.iterdir())


def of_version(version, factor):
    @experiment("toys.versioned", version=version)
    def versioned(index):
        return {"answer": index * factor, "kind": "odd" if index % 2 else "even"}

    return versioned


@pytest.fixture
def times(tmp_path):
    """A published store of three rows, and runs of four: equal in two, unlike in
    one, one that is new.
    """
    published = tmp_path / "published.csv"
    runs = tmp_path / "runs"
    sweep(of_version(1, 1.0), GRID, store=tmp_path / "first", progress=False)
    adopt(tmp_path / "first", published)
    sweep(of_version(1, 1.0), [*GRID[:2], {"index": 9}], store=runs, progress=False)
    sweep(of_version(1, 2.0), GRID, store=runs, progress=False)
    return published, runs


def test_adopting_other_metrics_is_refused_as_a_whole_or_replaces(times):
    published, runs = times
    # to the byte: a refusal writes nothing
    before = published.read_bytes()
    old = read_store(published).set_index("index")
    with pytest.raises(
        StoreError,
        match=(
            r"other metrics in 1 of the rows .* first in row \w{12} \(\{'index': 8\}\)"
        ),
    ):
        adopt(runs, published)
    assert published.read_bytes() == before
    assert adopt(runs, published, replace=True) == (2, 2)
    new = read_store(published).set_index("index")
    assert new.index.tolist() == [*old.index, 9]  # each in its place
    assert new.loc[[5, 3, 8, 9], "answer"].tolist() == [5.0, 3.0, 16.0, 9.0]
    # equal rows keep their provenance
    assert new["seconds"][[5, 3]].tolist() == old["seconds"][[5, 3]].tolist()
    after = published.read_bytes()
    assert adopt(runs, published) == (0, 4)
    assert published.read_bytes() == after


def test_adopting_takes_the_rows_of_a_grid_only_and_from_a_table_too(times, tmp_path):
    destination = tmp_path / "results" / "new.csv"
    grid = [{"index": 9}, {"index": 77}]
    assert adopt(times[1], destination, experiment=of_version(1, 1.0), grid=grid) == (
        1,
        0,
    )
    assert read_store(destination)["index"].tolist() == [9]
    assert adopt(times[0], destination) == (3, 0)  # that of another branch
    assert set(read_store(destination)["index"]) == {5, 3, 8, 9}


def test_rows_that_are_adopted_at_once_are_all_published(tmp_path, monkeypatch):
    """Both read the published rows before either writes, unless one waits for the
    other.
    """
    for k, row in enumerate(GRID[:2]):
        sweep(toys.plain, [row], store=tmp_path / f"run{k}", progress=False)
    published = tmp_path / "published.csv"
    # waits for the other reader, unless the lock keeps that one out
    both = threading.Barrier(2, timeout=0.5)
    load = _results.load

    def read(path, **how):
        rows = load(path, **how)
        if Path(path) == published:
            with suppress(threading.BrokenBarrierError):
                both.wait()
        return rows

    monkeypatch.setattr(_results, "load", read)
    with ThreadPoolExecutor(2) as pool:
        done = pool.map(lambda k: adopt(tmp_path / f"run{k}", published), range(2))
        assert list(done) == [(1, 0)] * 2
    assert len(read_store(published)) == 2


@pytest.mark.parametrize("replace", [False, True])
def test_an_earlier_version_replaces_no_later_one(replace, tmp_path):
    for version in (1, 2):
        sweep(
            of_version(version, float(version)),
            GRID[:1],
            store=tmp_path / str(version),
            progress=False,
        )
    adopt(tmp_path / "2", tmp_path / "published.csv")
    before = (tmp_path / "published.csv").read_bytes()
    assert adopt(tmp_path / "1", tmp_path / "published.csv", replace=replace) == (0, 0)
    assert (tmp_path / "published.csv").read_bytes() == before


def test_adopting_a_later_version_needs_no_force_and_other_experiments_are_refused(
    times, tmp_path
):
    published, _ = times
    sweep(of_version(2, 3.0), GRID[:1], store=tmp_path / "later", progress=False)
    assert adopt(tmp_path / "later", published) == (1, 0)
    kept = read_store(published).set_index("index")
    assert kept.loc[[5, 3, 8], "version"].tolist() == [2, 1, 1]
    assert kept.loc[5, "answer"] == 15.0
    sweep(toys.plain, GRID, store=tmp_path / "other", progress=False)
    with pytest.raises(
        StoreError,
        match=r"hold rows of different experiments: toys\.plain, toys\.versioned",
    ):
        adopt(tmp_path / "other", published)
    with pytest.raises(StoreError, match=r"has no row '\w{12}' of 'toys\.plain'"):
        verify(toys.plain, published, sample=kept["row"], tolerance={})


EVERY_KIND = {
    "n": 1,
    "y": 1.0,
    "up": math.inf,
    "word": "a",
    "flag": True,
    "none": None,
    "data": "d1",
    "device": "d",
}


@pytest.mark.parametrize(
    ("now", "metric"),
    [
        ({}, None),
        ({"device": "e"}, None),
        ({"flag": 1}, None),
        ({"word": "b"}, "word"),
        ({"flag": False}, "flag"),
        ({"y": math.nan}, "y"),
        ({"y": math.inf}, "y"),
        ({"y": "1.0"}, "y"),
        ({"y": None}, "y"),
        ({"n": 2}, "n"),
        ({"data": "d2"}, "data"),
        ({"more": 1}, "more"),
    ],
)
def test_verify_names_the_metric_that_differs_and_keeps_what_it_found(
    tmp_path, now, metric
):
    found = EVERY_KIND

    def mutable(x):
        return found

    rows = sweep(mutable, [{"x": 1}], store=tmp_path / "toy", progress=False)["row"]
    # the second computation differs in one thing
    found = EVERY_KIND | now
    kept = tmp_path / "kept.csv"
    for _ in range(2):  # the newest alone is kept
        report = verify(
            mutable,
            tmp_path / "toy",
            sample=rows,
            tolerance={"y": 10.0, "word": 10.0},
            keep=kept,
        )
    assert list(report) == [
        "row",
        "metric",
        "stored",
        "recomputed",
        "difference",
        "tolerance",
        "agrees",
    ]
    assert set(report["metric"]) == {"n", "y", "up", "word", "flag", "data"} | {
        *now
    } - {"device"}
    assert report.loc[~report["agrees"], "metric"].tolist() == (
        [metric] if metric else []
    )
    (line,) = pd.read_csv(kept, keep_default_na=False).to_dict("records")
    assert (line["store"], line["row"], line["differing"]) == (
        "toy",
        report["row"][0],
        metric or "",
    )
    assert line["metrics"] == len(report)
    assert line["date"].endswith("Z")


@pytest.mark.parametrize(
    ("stored", "now", "tolerance", "agrees"),
    [
        (0.3, 0.3 * (1 + 5e-10), 0.0, True),
        (0.3, 0.3 * (1 + 5e-9), 0.0, False),
        (0.3, 0.3 * (1 + 5e-9), 1e-6, True),
        (0.0, 1e-300, 0.0, False),  # a billionth of nothing is nothing
        (10**12, 10**12 + 1, 0.0, False),  # counts are exact
        (100, 119, lambda count: 2 * count**0.5, True),
        (100, 121, lambda count: 2 * count**0.5, False),
    ],
)
def test_floats_may_differ_by_a_billionth_and_metrics_by_their_tolerance(
    tmp_path, stored, now, tolerance, agrees
):
    found = stored

    def drifting(x):
        return {"y": found}

    rows = sweep(drifting, [{"x": 1}], store=tmp_path / "toy", progress=False)["row"]
    found = now
    report = verify(drifting, tmp_path / "toy", sample=rows, tolerance={"y": tolerance})
    assert report["agrees"].tolist() == [agrees]
    assert report["difference"].tolist() == [now - stored]
