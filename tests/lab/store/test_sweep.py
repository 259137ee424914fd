"""Running a grid: what is missing and no more, in order, here or in workers, with
where it comes from.
"""

import datetime
import functools
import itertools
import math
import os
import platform
import subprocess
import sys
import time

import distributed
import joblib
import numpy as np
import pytest

import dpnotes
from dpnotes.lab import experiment
from dpnotes.lab.store import collect, missing, read_store, sweep
from dpnotes.lab.store._provenance import commit
from tests.lab.store import toys
from tests.lab.store.toys import GRID, lines


@pytest.fixture
def store(tmp_path):
    return tmp_path / "toy"


@pytest.fixture
def calls(tmp_path):
    return tmp_path / "calls"


def run(store, grid=GRID, n_jobs=None, **options):
    return sweep(
        toys.plain, grid, store=store, options=options, n_jobs=n_jobs, progress=False
    )


def test_a_second_call_runs_only_what_the_first_has_not(store, calls):
    run(store, GRID[:2], calls=calls)
    assert lines(calls) == ["5", "3"]
    run(store, calls=calls)
    # times of files, too: a second sweep must not write
    before = {path: path.stat() for path in store.iterdir()}
    table = run(store, GRID[::-1], calls=calls)
    assert lines(calls) == ["5", "3", "8", "1"]
    assert table["index"].tolist() == [1, 8, 3, 5]
    assert {path: path.stat() for path in store.iterdir()} == before


def test_a_row_of_an_earlier_version_is_computed_anew(store, tmp_path):
    def of_version(version):
        @experiment("toys.changed", version=version)
        def changed(x):
            return {"y": x * version}

        return changed

    grid = [{"x": 1}, {"x": 2}]
    sweep(of_version(1), grid[:1], store=store, progress=False)
    assert missing(of_version(1), grid, store) == grid[1:]
    assert missing(of_version(2), grid, store) == grid
    # an out-of-date row is shown, and computed where it may be
    places = {"published": store, "runs": tmp_path / "runs"}
    shown = collect(of_version(2), grid, compute="stored", **places)
    assert shown["version"].fillna(0).tolist() == [1, 0]  # shown as what it is
    assert collect(of_version(2), grid, compute="missing", progress=False, **places)[
        "y"
    ].tolist() == [2, 4]
    assert sweep(of_version(2), grid, store=store, progress=False)["y"].tolist() == [
        2,
        4,
    ]
    # a later one stays
    assert sweep(of_version(1), grid, store=store, progress=False)["y"].tolist() == [
        2,
        4,
    ]
    with pytest.warns(
        UserWarning, match="stays as version 2 made it; this row is of version 1"
    ):
        mine = collect(
            of_version(1),
            grid[:1],
            compute="all",
            published=store,
            runs=store,
            progress=False,
        )
    assert mine["y"].tolist() == [1]
    assert read_store(store).set_index("x")["y"].to_dict() == {1: 2, 2: 4}


def test_what_killed_writers_left_is_removed_after_a_day(store):
    run(store, GRID[:1])
    (store / "key.states").mkdir()
    names = [".a.json.0.tmp", "key.states/.b.state.0.tmp", "mine.tmp"]
    for name, hours in itertools.product(names, (23, 25)):
        path = store / name.replace("0", str(hours))
        path.touch()
        # a day is the limit
        os.utime(path, times=(time.time() - hours * 3600,) * 2)
    run(store, GRID[:1])
    left = sorted(path.relative_to(store).as_posix() for path in store.rglob("*.tmp"))
    assert left == [".a.json.23.tmp", "key.states/.b.state.23.tmp", "mine.tmp"]


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_rows_come_in_the_order_of_the_grid(store, tmp_path, n_jobs):
    run(store, [{"index": 1}, {"index": 99}])
    table = run(store, n_jobs=n_jobs, pids=tmp_path / "pids", pause=0.1)
    assert table["index"].tolist() == [5, 3, 8, 1]
    # to the last bit
    assert table["third"].tolist() == [index / 3 for index in (5, 3, 8, 1)]
    assert table.index.tolist() == [0, 1, 2, 3]
    # one at a time means in this process
    assert (set(lines(tmp_path / "pids")) == {str(os.getpid())}) == (n_jobs is None)
    dtypes = {
        "index": "int64",
        "third": "float64",
        "even": "bool",
        "count": "int64",
        "empty": "float64",
    }
    assert {name: str(table[name].dtype) for name in dtypes} == dtypes


def test_options_are_handed_on_but_are_no_part_of_a_row(store):
    assert run(store, scale=2.0).equals(run(store, scale=3.0))
    assert read_store(store).set_index("index").loc[3, "third"] == 2.0


def test_a_row_says_where_it_comes_from(store):
    def measured(x):
        return {"y": x, "data": "sha256:12", "device": "cpu"}

    before = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
    row = sweep(measured, [{"x": 1}], store=store, progress=False).iloc[0]
    assert list(row.index[:5]) == ["row", "experiment", "x", "seconds", "y"]
    provenance = [
        "data",
        "device",
        "version",
        "dpnotes",
        "commit",
        "python",
        "torch",
        "numpy",
        "scikit_learn",
    ]
    assert list(row.index[5:]) == [*provenance, "machine", "date"]
    assert (
        before
        <= datetime.datetime.fromisoformat(row["date"])
        <= datetime.datetime.now(datetime.UTC)
    )
    assert (row["data"], row["device"], row["version"]) == ("sha256:12", "cpu", 1)
    assert (row["dpnotes"], row["python"]) == (
        dpnotes.__version__,
        platform.python_version(),
    )
    assert row["machine"].endswith(" cores)")
    # published rows name no machine of a person
    assert not platform.node() or platform.node() not in row["machine"]


def test_the_commit_is_that_of_the_checkout_of_the_package_alone(tmp_path):
    def git(*arguments):
        who = [
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@b",
            "-c",
            "commit.gpgsign=false",
        ]
        command = ["git", "-C", str(tmp_path), *who, *arguments]
        return subprocess.run(
            command, check=True, capture_output=True, text=True
        ).stdout.strip()

    (tmp_path / "dpnotes").mkdir()
    (tmp_path / "dpnotes" / "a.py").write_text("a = 1\n")
    assert commit(tmp_path) is None
    git("init", "-q")
    assert commit(tmp_path) is None  # no commit yet
    git("add", ".")
    git("commit", "-q", "-m", "first")
    # ten digits are in rows
    head = git("rev-parse", "HEAD")[:10]
    (tmp_path / "notes.txt").write_text("not the package")
    assert commit(tmp_path) == head
    (tmp_path / "dpnotes" / "a.py").write_text("a = 2\n")
    assert commit(tmp_path) == head + "+"
    # as site-packages inside another project's checkout
    assert commit(tmp_path / "dpnotes") is None


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_a_row_that_fails_is_named_and_the_others_are_kept(store, calls, n_jobs):
    grid = [{"index": index} for index in range(12)]
    with pytest.raises(
        RuntimeError, match=r"toys.plain failed with \{'index': 3\}: .*index 3: no"
    ) as raised:
        run(store, grid, bad=[3], calls=calls, pause=0.05, n_jobs=n_jobs)
    assert "index 3: no" in str(raised.value.__cause__)
    if n_jobs:
        assert "raise UnpicklableError" in raised.value.__cause__.__notes__[0]
    kept = set(read_store(store)["index"])
    # rows that ran at the same time may be there, none that began later
    assert {0, 1, 2} <= kept < set(range(12)) - {3}
    run(store, grid, calls=calls)
    assert len(lines(calls)) == 13  # once each, and twice the one that failed


def test_an_interrupt_keeps_the_rows_before_it(store):
    def interrupted(index):
        if index == 8:
            raise KeyboardInterrupt
        return {"square": index**2}

    with pytest.raises(KeyboardInterrupt):
        sweep(interrupted, GRID, store=store, progress=False)
    assert set(read_store(store)["index"]) == {5, 3}


def test_a_worker_that_dies_ends_the_sweep_with_a_sentence_and_the_next_goes_on(
    store, calls
):
    grid = [{"index": index} for index in range(8)]
    with pytest.raises(
        ChildProcessError,
        match=r"toys.plain lost a worker \(Termin.*are in .*toy: the same command goes",
    ):
        run(store, grid, deadly=[5], calls=calls, pause=0.2, n_jobs=2)
    kept = set(read_store(store)["index"])
    assert {0, 1, 2, 3} <= kept
    assert run(store, grid, calls=calls, n_jobs=2)["count"].tolist() == [*range(8)]
    assert all(lines(calls).count(str(index)) == 1 for index in kept)


def test_an_experiment_defined_on_the_spot_runs_in_workers(store):
    factor = 3

    def local(index):
        return {"y": factor * index}

    assert sweep(local, GRID, store=store, n_jobs=2, progress=False)["y"].tolist() == [
        15,
        9,
        24,
        3,
    ]
    # an experiment may be run in threads of one process
    with joblib.parallel_config(backend="threading", n_jobs=2):
        table = run(store / "threads")
    assert table["count"].tolist() == [5, 3, 8, 1]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning:distributed")
# sockets that distributed leaves to the collector
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_rows_are_computed_on_a_dask_cluster(store, tmp_path):
    grid = [{"index": index} for index in range(8)]
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster),
        joblib.parallel_config(backend="dask"),
    ):
        with pytest.raises(
            RuntimeError, match=r"failed with \{'index': 6\}: .*index 6: no"
        ):
            run(store, grid, bad=[6], pids=tmp_path / "pids")
        assert run(store, grid, pids=tmp_path / "pids")["count"].tolist() == [*range(8)]
    assert str(os.getpid()) not in lines(tmp_path / "pids")


@pytest.mark.slow
def test_no_fault_costs_a_row(repository):
    """A few faults of each cheap kind; all of them, many times, are tried by ``make
    campaign``.
    """
    command = [
        sys.executable,
        "-m",
        "tests.faults",
        "--fraction",
        "0.05",
        "writer",
        "disk",
        "folder",
        "foreign",
    ]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command,
        cwd=repository,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 rows lost" in done.stdout.splitlines()[-1]


def test_progress_is_shown_on_standard_error_or_not_at_all(
    store, tmp_path, capfd, monkeypatch
):
    sweep(toys.plain, GRID, store=store)
    assert "toys.plain: 100%" in capfd.readouterr().err
    run(tmp_path / "other")
    # asked for silence
    assert capfd.readouterr() == ("", "")
    monkeypatch.setenv("DPNOTES_PROGRESS", str(tmp_path / "channel"))
    run(tmp_path / "third", GRID[:1])
    run(tmp_path / "third")
    assert "toys.plain: 1 of 4 rows were there" in (tmp_path / "channel").read_text()


@pytest.mark.parametrize(
    ("grid", "kind", "reason"),
    [
        ([], ValueError, "grid must have at least one row"),
        (
            [{"index": 1}, {"index": 1.0}],
            ValueError,
            r"grid\[1\] is the same row as grid\[0\]",
        ),
        ([{"index": math.nan}], ValueError, "'index' must be finite, got nan"),
        ([{"index": [1]}], TypeError, r"grid\[0\]: 'index' must be a plain scalar"),
        (
            [{"index": 1, "seconds": 1}],
            ValueError,
            "'seconds' must be a Python name that is not an option",
        ),
        (
            [{"index": 1, "scale": 1.0}],
            ValueError,
            "'scale' must be a Python name that is not an option",
        ),
    ],
)
def test_a_grid_that_is_none_is_refused_before_anything_is_run(
    store, calls, grid, kind, reason
):
    with pytest.raises(kind, match=reason):
        run(store, grid, calls=calls, scale=2.0)
    assert not store.exists()
    assert not lines(calls)


def test_rows_may_differ_in_their_parameters_and_none_is_one(store):
    def clipped(**given):
        return {"got": len(given)}

    grid = [{"x": 1}, {"x": 1, "clip": None}, {"x": 1, "clip": 0.5}]
    table = sweep(clipped, grid, store=store, progress=False)
    assert table["got"].tolist() == [1, 2, 2]
    assert table["clip"].isna().tolist() == [True, True, False]


@pytest.mark.parametrize(
    "function",
    [lambda x: {"y": x}, functools.partial(toys.plain, scale=2.0), "no function"],
)
def test_an_experiment_without_a_name_is_refused(store, function):
    with pytest.raises(TypeError, match="experiment must be a function defined by def"):
        sweep(function, [{"x": 1}], store=store, progress=False)


@pytest.mark.parametrize(
    ("returned", "reason"),
    [
        (None, "it must return a dict of metrics, got None"),
        ({"y": [1]}, "what it returned: 'y' must be a plain scalar"),
        ({"x": 1}, "'x' must be a Python name that is not an option or another column"),
    ],
)
def test_a_result_that_is_no_flat_dict_of_scalars_is_refused(store, returned, reason):
    def odd(x):
        return returned

    with pytest.raises(
        RuntimeError, match=rf"odd failed with \{{'x': 1\}}: .*{reason}"
    ):
        sweep(odd, [{"x": 1}], store=store, progress=False)


def test_numpy_numbers_and_missing_ones_are_metrics(store):
    def odd(x):
        return {
            "mean": np.float32(0.5),
            "many": np.int64(3),
            "none": None,
            "nan": math.nan,
            "inf": math.inf,
        }

    row = sweep(odd, [{"x": 1}], store=store, progress=False).iloc[0]
    assert (row["mean"], row["many"], row["inf"]) == (0.5, 3, math.inf)
    assert row[["none", "nan"]].isna().all()
    assert read_store(store)[["none", "nan"]].isna().all(axis=None)
