"""What stores hold: collecting, adopting, verifying, and where they lie."""

import math

import numpy as np
import pytest
import sweep_toys

from dpnotes.lab.store import (
    StoreError,
    adopt,
    cheapest,
    collect,
    missing,
    read_store,
    rename_columns,
    sweep,
    verify,
)

GRID = [{"index": index} for index in (5, 3, 8)]


@pytest.fixture
def places(tmp_path):
    """A published store with the first row, a runs store with the second; both pids are 0 to be known again."""
    published, runs = tmp_path / "published.csv", tmp_path / "runs" / "new.csv"
    sweep(sweep_toys.slow, GRID[:1], store=published, progress=False)
    sweep(sweep_toys.slow, GRID[1:2], store=runs, progress=False)
    return {"published": published, "runs": runs}


def gather(places, compute, tmp_path):
    calls = tmp_path / "calls"
    calls.write_text("")
    table = collect(sweep_toys.slow, GRID, compute=compute, options={"calls": calls}, progress=False, **places)
    assert table["index"].tolist() == [5, 3, 8]
    return table, calls.read_text().split()


def test_stored_shows_gaps_and_runs_nothing(places, tmp_path):
    before = {path: path.read_bytes() for path in places.values()}
    table, calls = gather(places, "stored", tmp_path)
    assert not calls
    assert table["square"].isna().tolist() == [False, True, True]
    assert table["date"].isna().tolist() == [False, True, True]
    assert table["row"].notna().all()
    assert {path: path.read_bytes() for path in places.values()} == before
    assert sorted(path.name for path in tmp_path.iterdir()) == [".published.csv.lock", "calls", "published.csv", "runs"]


def test_stored_without_any_store_is_all_gaps(tmp_path):
    places = {"published": tmp_path / "p.csv", "runs": tmp_path / "r" / "r.csv"}
    table, calls = gather(places, "stored", tmp_path)
    assert not calls
    assert table["check"].isna().all()
    assert [path.name for path in tmp_path.iterdir()] == ["calls"]


def test_stored_reads_a_folder_that_cannot_be_written(places, tmp_path, monkeypatch):
    def no_lock(*arguments, **settings):
        raise PermissionError("read-only")

    monkeypatch.setattr("filelock.FileLock.acquire", no_lock)
    assert len(gather(places, "stored", tmp_path)[0]) == 3
    assert len(read_store(places["published"])) == 1
    assert missing(GRID, places["published"]) == GRID[1:]


def test_missing_runs_what_both_stores_lack(places, tmp_path):
    published = places["published"].read_bytes()
    table, calls = gather(places, "missing", tmp_path)
    assert calls == ["8"]
    assert table["square"].tolist() == [25, 9, 64]
    assert places["published"].read_bytes() == published
    assert read_store(places["runs"])["index"].tolist() == [3, 8]
    again, calls = gather(places, "missing", tmp_path)
    assert not calls
    assert again.equals(table)


def test_published_rows_come_before_new_ones(places, tmp_path):
    gather(places, "all", tmp_path)
    published = read_store(places["published"])
    table, _ = gather(places, "missing", tmp_path)
    assert table["check"][0] == published["check"][0]


def test_all_runs_every_row_afresh_and_keeps_the_others(places, tmp_path):
    sweep(sweep_toys.slow, [{"index": 99}], store=places["runs"], progress=False)
    old = read_store(places["runs"]).set_index("index")["check"]
    table, calls = gather(places, "all", tmp_path)
    assert calls == ["5", "3", "8"]
    stored = read_store(places["runs"]).set_index("index")["check"]
    assert stored.index.tolist() == [3, 99, 5, 8]
    assert stored[99] == old[99]
    assert table["check"].tolist() == stored[[5, 3, 8]].tolist()


def test_all_replaces_one_row_at_a_time(places):
    """A row that fails leaves the new rows before it, and the old ones after it."""

    def changing(index):
        if index == fails:
            raise OSError("no more")
        return {"answer": answer}

    runs, fails, answer = places["runs"].with_name("changing.csv"), None, 1
    where = {"published": places["published"].with_name("none.csv"), "runs": runs, "progress": False}
    collect(changing, GRID, compute="all", **where)
    fails, answer = 8, 2
    with pytest.raises(RuntimeError, match="no more"):
        collect(changing, GRID, compute="all", **where)
    assert read_store(runs)["answer"].tolist() == [2, 2, 1]


def test_an_unknown_compute_is_refused(places):
    with pytest.raises(ValueError, match="compute must be one of 'stored', 'missing', 'all', got 'some'"):
        collect(sweep_toys.slow, GRID, compute="some", progress=False, **places)


def test_missing_lists_what_a_store_lacks(places, tmp_path):
    assert missing(GRID, places["published"]) == GRID[1:]
    assert missing(GRID, tmp_path / "none.csv") == GRID
    assert missing([{"index": 5.0}], places["published"]) == []
    with pytest.raises(ValueError, match="at least one row"):
        missing([], places["published"])


def test_a_store_that_is_not_there_is_named(tmp_path):
    path = tmp_path / "none.csv"
    for use in (
        lambda: read_store(path),
        lambda: adopt(path, tmp_path / "other.csv"),
        lambda: verify(sweep_toys.slow, path, sample=1, random_state=0, tolerance={}),
    ):
        with pytest.raises(FileNotFoundError, match=r"there is no such store.*none\.csv"):
            use()
    assert not list(tmp_path.iterdir())


def versioned(index):
    """An experiment whose answer changes with the times."""
    return {"answer": index * versioned.factor, "kind": "odd" if index % 2 else "even"}


@pytest.fixture
def times(tmp_path):
    """A published store of three rows and a runs store of four, equal in two, unlike in one."""
    published, runs = tmp_path / "published.csv", tmp_path / "runs.csv"
    versioned.factor = 1.0
    sweep(versioned, GRID, store=published, progress=False)
    sweep(versioned, [*GRID[:2], {"index": 9}], store=runs, progress=False)
    versioned.factor = 2.0
    sweep(versioned, [*GRID, {"index": 9}], store=runs, progress=False)
    return published, runs


def test_adopting_other_metrics_is_refused_as_a_whole(times):
    published, runs = times
    before = published.read_bytes()
    with pytest.raises(StoreError, match=r"other metrics in 1 of the rows .* first in row \w{12} \(\{'index': 8\}\)"):
        adopt(runs, published)
    assert published.read_bytes() == before


def test_adopting_with_replace_takes_the_new_and_keeps_the_same(times):
    published, runs = times
    old = read_store(published).set_index("index")
    source = runs.read_bytes()
    assert adopt(runs, published, replace=True) == (2, 2)
    new = read_store(published).set_index("index")
    assert new.index.tolist() == [5, 3, 8, 9]
    assert new["answer"].tolist() == [5.0, 3.0, 16.0, 9.0]
    assert new["check"][[5, 3]].tolist() == old["check"][[5, 3]].tolist()
    assert runs.read_bytes() == source
    assert adopt(runs, published) == (0, 4)


def test_adopting_into_nothing_takes_all(times, tmp_path):
    destination = tmp_path / "results" / "new.csv"
    assert adopt(times[1], destination) == (4, 0)
    assert read_store(destination).equals(read_store(times[1]))


def test_adopting_takes_the_rows_of_a_grid_only(times, tmp_path):
    destination = tmp_path / "new.csv"
    assert adopt(times[1], destination, grid=[{"index": 9}, {"index": 77}]) == (1, 0)
    assert read_store(destination)["index"].tolist() == [9]


def test_renamed_columns_are_those_of_a_store_written_with_the_new_names(tmp_path):
    def old(part):
        return {"found": part * part, "kept": 1}

    def new(split):
        return {"tpr": split * split, "kept": 1}

    old.experiment_name = new.experiment_name = "toys.square"
    renamed, fresh = tmp_path / "renamed.csv", tmp_path / "fresh.csv"
    sweep(old, [{"part": 3}, {"part": 4}], store=renamed, progress=False)
    sweep(new, [{"split": 3}, {"split": 4}], store=fresh, progress=False)
    times = ["seconds", "date", "check"]
    assert rename_columns(renamed, {"part": "split", "found": "tpr"}) == 2
    assert missing([{"split": 3}, {"split": 4}], renamed) == []
    assert read_store(renamed).drop(columns=times).equals(read_store(fresh).drop(columns=times))


@pytest.mark.parametrize(
    ("columns", "named"),
    [({"cube": "x"}, "'cube'"), ({"square": "index"}, "'index'"), ({"square": "seconds"}, "'seconds'")],
)
def test_columns_that_are_not_there_or_are_taken_are_refused(places, columns, named):
    before = places["published"].read_bytes()
    with pytest.raises(ValueError, match=f"^columns must .*{named}$"):
        rename_columns(places["published"], columns)
    assert places["published"].read_bytes() == before


def test_verify_agrees_with_an_unchanged_experiment(store):
    def every_kind(x):
        return {
            "n": x,
            "y": x / 3,
            "up": math.inf,
            "word": "a",
            "flag": True,
            "none": None,
            "data": "d1",
            "device": "d",
        }

    sweep(every_kind, [{"x": x} for x in range(4)], store=store, progress=False)
    report = verify(every_kind, store, sample=2, random_state=0, tolerance={})
    assert list(report) == ["row", "metric", "stored", "recomputed", "difference", "tolerance", "agrees"]
    assert report["row"].nunique() == 2
    assert set(report["metric"]) == {"n", "y", "up", "word", "flag", "data"}
    assert report["agrees"].dtype == bool
    assert report["agrees"].all()
    assert (report.loc[report["metric"].isin(["n", "y", "up"]), "difference"] == 0).all()


def test_verify_catches_a_changed_experiment(store):
    versioned.factor = 1.0
    sweep(versioned, GRID, store=store, progress=False)
    versioned.factor = 1.01
    before = store.read_bytes()

    def verdicts(tolerance):
        report = verify(versioned, store, sample=10, random_state=0, tolerance=tolerance)
        assert report["metric"].tolist() == ["answer", "kind"] * 3
        assert report.loc[report["metric"] == "kind", "agrees"].all()
        answers = report[report["metric"] == "answer"]
        np.testing.assert_allclose(answers["difference"].astype(float), [0.05, 0.03, 0.08], rtol=1e-9)
        return answers["agrees"].tolist()

    assert verdicts({}) == [False, False, False]
    assert verdicts({"answer": 0.06}) == [True, True, False]
    assert verdicts({"answer": 0.1}) == [True, True, True]
    assert verdicts({"kind": 0.1}) == [False, False, False]
    assert store.read_bytes() == before


@pytest.mark.parametrize(
    ("now", "metric"),
    [
        ({"y": 1.0, "word": "b", "flag": True, "data": "d1"}, "word"),
        ({"y": 1.0, "word": "a", "flag": False, "data": "d1"}, "flag"),
        ({"y": 1.0, "word": "a", "flag": 1, "data": "d1"}, None),
        ({"y": math.nan, "word": "a", "flag": True, "data": "d1"}, "y"),
        ({"y": math.inf, "word": "a", "flag": True, "data": "d1"}, "y"),
        ({"y": "1.0", "word": "a", "flag": True, "data": "d1"}, "y"),
        ({"y": 1.0, "word": "a", "flag": True, "data": "d2"}, "data"),
        ({"y": 1.0, "word": "a", "flag": True, "data": "d1", "more": 1}, "more"),
        ({"word": "a", "flag": True, "data": "d1"}, "y"),
    ],
)
def test_verify_names_the_metric_that_differs(store, now, metric):
    found = {"y": 1.0, "word": "a", "flag": True, "data": "d1"}

    def mutable(x):
        return found

    sweep(mutable, [{"x": 1}], store=store, progress=False)
    found = now
    report = verify(mutable, store, sample=1, random_state=0, tolerance={"y": 10.0, "word": 10.0, "flag": 10.0})
    assert report.loc[~report["agrees"], "metric"].tolist() == ([metric] if metric else [])


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
def test_floats_may_differ_by_a_billionth_and_metrics_by_their_tolerance(store, stored, now, tolerance, agrees):
    found = stored

    def drifting(x):
        return {"y": found}

    sweep(drifting, [{"x": 1}], store=store, progress=False)
    found = now
    report = verify(drifting, store, sample=1, random_state=0, tolerance={"y": tolerance})
    assert report["agrees"].tolist() == [agrees]


def test_verify_takes_the_rows_that_it_is_told(store):
    grid = [{"index": index} for index in range(5)]
    rows = sweep(sweep_toys.fragile, grid, store=store, progress=False)["row"].tolist()
    report = verify(sweep_toys.fragile, store, sample=[rows[3], rows[1]], random_state=None, tolerance={})
    assert report["row"].tolist() == [rows[3], rows[1]]
    assert cheapest(store, lambda parameters: -parameters["index"])[0] == rows[4]
    with pytest.raises(StoreError, match="no row 'lost'"):
        verify(sweep_toys.fragile, store, sample=["lost"], random_state=None, tolerance={})


def test_verify_draws_its_sample_from_its_random_state(store):
    grid = [{"index": index} for index in range(30)]
    sweep(sweep_toys.fragile, grid, store=store, progress=False)

    def drawn(random_state):
        return set(verify(sweep_toys.fragile, store, sample=5, random_state=random_state, tolerance={})["row"])

    assert drawn(1) == drawn(1) == drawn(np.random.default_rng(1))
    assert len(drawn(1)) == 5
    assert len(set().union(*(drawn(seed) for seed in range(40)))) == 30  # no row is out of reach


def test_verify_refuses_the_store_of_another_experiment(places):
    with pytest.raises(StoreError, match=r"not of 'sweep_toys\.ratio'"):
        verify(sweep_toys.ratio, places["published"], sample=1, random_state=0, tolerance={})
