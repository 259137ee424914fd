"""Running a grid: what is missing and no more, in order, with where it comes from; and what is refused."""

import datetime
import doctest
import functools
import importlib.metadata
import math
import os
import platform
import re
import subprocess
import sys

import joblib
import numpy as np
import pytest
import sweep_toys

import dpnotes
from dpnotes.lab.store import _sweep, collect, read_store, sweep
from dpnotes.lab.store._provenance import commit

GRID = [{"index": index} for index in (5, 3, 8, 1)]


def calls_in(path):
    return path.read_text().split() if path.exists() else []


def test_a_second_call_runs_only_what_the_first_has_not(store, tmp_path):
    options = {"calls": tmp_path / "calls"}
    sweep(sweep_toys.slow, GRID[:2], store=store, options=options, progress=False)
    assert calls_in(options["calls"]) == ["5", "3"]
    sweep(sweep_toys.slow, GRID, store=store, options=options, progress=False)
    assert calls_in(options["calls"]) == ["5", "3", "8", "1"]
    before = store.read_bytes()
    sweep(sweep_toys.slow, GRID[::-1], store=store, options=options, progress=False)
    assert calls_in(options["calls"]) == ["5", "3", "8", "1"]
    assert store.read_bytes() == before


@pytest.mark.parametrize("n_jobs", [None, 1, 2])
def test_rows_come_in_the_order_of_the_grid(store, n_jobs):
    sweep(sweep_toys.slow, [{"index": 1}, {"index": 99}], store=store, progress=False)
    table = sweep(sweep_toys.slow, GRID, store=store, n_jobs=n_jobs, progress=False)
    assert table["index"].tolist() == [5, 3, 8, 1]
    assert table["square"].tolist() == [25, 9, 64, 1]
    assert table.index.tolist() == [0, 1, 2, 3]
    here = table["pid"].iloc[:3] == os.getpid()
    assert (not here.any()) if n_jobs == 2 else here.all()


def test_the_table_is_what_the_file_says(store):
    table = sweep(sweep_toys.ratio, [{"a": 1, "b": 3.0}, {"a": 2, "b": 1.1}], store=store, progress=False)
    assert table.equals(read_store(store))
    assert table["ratio"].tolist() == [1 / 3, 2 / 1.1]  # to the last bit
    kinds = {"a": "int64", "b": "float64", "ratio": "float64", "whole": "int64", "even": "bool", "empty": "float64"}
    assert {name: str(table[name].dtype) for name in kinds} == kinds


def test_options_are_handed_on_but_are_no_part_of_a_row(store):
    first = sweep(sweep_toys.ratio, [{"a": 1}], store=store, options={"label": "gpu"}, progress=False)
    second = sweep(sweep_toys.ratio, [{"a": 1}], store=store, options={"label": "cpu"}, progress=False)
    assert first.equals(second)
    assert second["label"].tolist() == ["gpu"]


def test_a_row_says_where_it_comes_from(store):
    def measured(x):
        return {"y": x, "data": "sha256:12", "device": "cpu"}

    before = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
    row = sweep(measured, [{"x": 1}], store=store, progress=False).iloc[0]
    after = datetime.datetime.now(datetime.UTC)
    first, last = ["row", "experiment", "x", "seconds", "y"], ["machine", "date", "check"]
    provenance = ["data", "device", "version", "commit", "code", "python", "torch", "numpy", "scikit_learn"]
    assert list(row.index) == [*first, *provenance, *last]
    assert before <= datetime.datetime.fromisoformat(row["date"]) <= after
    assert row["date"].endswith("Z")
    assert row["version"] == dpnotes.__version__
    assert row["python"] == platform.python_version()
    assert row["scikit_learn"] == importlib.metadata.version("scikit-learn")
    assert (row["data"], row["device"]) == ("sha256:12", "cpu")
    assert platform.node() not in row["machine"] or not platform.node()
    assert re.search(r"\(\d+ cores\)$", row["machine"])
    assert re.fullmatch("[0-9a-f]{12}", row["row"])
    assert re.fullmatch("[0-9a-f]{8}", row["check"])


def test_the_commit_is_that_of_the_checkout_of_the_package_alone(tmp_path):
    def git(*arguments):
        who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
        command = ["git", "-C", str(tmp_path), *who, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    (tmp_path / "dpnotes").mkdir()
    (tmp_path / "dpnotes" / "a.py").write_text("a = 1\n")
    assert commit(tmp_path) is None
    git("init", "-q")
    assert commit(tmp_path) is None  # no commit yet
    git("add", ".")
    git("commit", "-q", "-m", "first")
    head = git("rev-parse", "HEAD")
    assert commit(tmp_path) == head[:10]
    (tmp_path / "notes.txt").write_text("not the package")
    assert commit(tmp_path) == head[:10]
    (tmp_path / "dpnotes" / "a.py").write_text("a = 2\n")
    assert commit(tmp_path) == head[:10] + "+"
    assert commit(tmp_path / "dpnotes") is None  # as site-packages inside another project's checkout


def test_an_experiment_that_fails_keeps_the_rows_before_it(store, tmp_path):
    options = {"bad": [8], "calls": tmp_path / "calls"}
    with pytest.raises(RuntimeError, match=r"sweep_toys.fragile failed with \{'index': 8\}: .*index 8: no") as raised:
        sweep(sweep_toys.fragile, GRID, store=store, options=options, progress=False)
    assert isinstance(raised.value.__cause__, sweep_toys.Unpicklable)
    assert read_store(store)["index"].tolist() == [5, 3]
    table = sweep(sweep_toys.fragile, GRID, store=store, options={"calls": tmp_path / "calls"}, progress=False)
    assert table["square"].tolist() == [25, 9, 64, 1]
    assert calls_in(tmp_path / "calls") == ["5", "3", "8", "8", "1"]


def test_a_failure_in_a_worker_says_which_row_and_where(store):
    """Its exception cannot be pickled, which would break the pool; rows that run beside it are finished and kept."""
    grid = [{"index": index} for index in range(8)]
    options = {"bad": [1], "pause": 0.3}
    with pytest.raises(RuntimeError, match=r"failed with \{'index': 1\}: RuntimeError: Unpicklable: index 1") as raised:
        sweep(sweep_toys.fragile, grid, store=store, options=options, n_jobs=2, progress=False)
    assert "raise Unpicklable" in raised.value.__cause__.__notes__[0]
    assert 0 in read_store(store)["index"].tolist()
    assert len(read_store(store)) < 5  # the rest was not begun


def test_an_interrupt_keeps_the_rows_before_it(store):
    def interrupted(index):
        if index == 8:
            raise KeyboardInterrupt
        return {"y": index}

    with pytest.raises(KeyboardInterrupt):
        sweep(interrupted, GRID, store=store, progress=False)
    assert read_store(store)["y"].tolist() == [5, 3]


def test_joblib_decides_where_rows_are_computed(store, tmp_path):
    with joblib.parallel_config(backend="loky", n_jobs=2, inner_max_num_threads=1):
        table = sweep(sweep_toys.threads, GRID, store=store, progress=False)
    assert table["threads"].tolist() == ["1"] * 4
    assert os.getpid() not in table["pid"].tolist()
    with joblib.parallel_config(backend="threading", n_jobs=2):
        table = sweep(sweep_toys.threads, GRID, store=tmp_path / "threads.csv", progress=False)
    assert table["pid"].tolist() == [os.getpid()] * 4


def test_an_experiment_defined_on_the_spot_runs_in_workers(store):
    """As in a notebook."""

    def local(index):
        return {"y": index + offset}

    offset = 10
    assert sweep(local, GRID, store=store, n_jobs=2, progress=False)["y"].tolist() == [15, 13, 18, 11]


def test_progress_is_shown_on_standard_error_or_not_at_all(store, tmp_path, capfd):
    sweep(sweep_toys.slow, GRID, store=store)
    out, err = capfd.readouterr()
    assert not out
    assert "sweep_toys.slow" in err
    assert "4/4" in err
    sweep(sweep_toys.slow, GRID, store=store)  # nothing to run
    sweep(sweep_toys.slow, GRID, store=tmp_path / "quiet.csv", progress=False)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("grid", "kind", "reason"),
    [
        ([], ValueError, "grid must have at least one row"),
        ([{"x": 1}, {"x": [1]}], TypeError, r"grid\[1\]: 'x' must be a plain scalar .* got \[1\]"),
        ([{"x": math.nan}], ValueError, r"grid\[0\]: 'x' must be finite, got nan"),
        ([{"x": np.float32(-np.inf)}], ValueError, r"grid\[0\]: 'x' must be finite, got -inf"),
        ([{"x": 1}, {"x": 2}, {"x": 1.0}], ValueError, r"grid\[2\] is the same row as grid\[0\]: \{'x': 1.0\}"),
        ([{"a b": 1}], ValueError, r"grid\[0\]: 'a b' must be a Python name"),
        ([{"device": "cpu"}], ValueError, "'device' must be a Python name that no other column of the store has"),
        ([{"check": 1}], ValueError, "'check' must be a Python name that no other column of the store has"),
        ([{"calls": 1}], ValueError, "'calls' is a parameter and an option as well"),
    ],
)
def test_a_grid_that_is_none_is_refused_before_anything_is_run(store, tmp_path, grid, kind, reason):
    calls = tmp_path / "calls"
    with pytest.raises(kind, match=reason):
        sweep(sweep_toys.slow, grid, store=store, options={"calls": calls}, progress=False)
    with pytest.raises(kind, match=reason):
        collect(
            sweep_toys.slow,
            grid,
            compute="all",
            published=store,
            runs=store,
            options={"calls": calls},
            progress=False,
        )
    assert not calls.exists()
    assert not store.exists()


def test_rows_of_a_grid_may_have_unlike_parameters(store):
    def flexible(x, y=0):
        return {"sum": x + y}

    table = sweep(flexible, [{"x": 1}, {"x": 1, "y": 2}], store=store, progress=False)
    assert table["sum"].tolist() == [1, 3]
    assert table["y"].isna().tolist() == [True, False]


def test_none_is_a_parameter_unlike_a_missing_one(store):
    def optional(x="default"):
        return {"got": str(x)}

    table = sweep(optional, [{"x": None}, {}, {"x": "None"}], store=store, progress=False)
    assert table["got"].tolist() == ["None", "default", "None"]
    assert table["row"].is_unique
    assert read_store(store).equals(table)


@pytest.mark.parametrize("experiment", [lambda x: {}, functools.partial(sweep_toys.ratio, b=1), 3])
def test_an_experiment_without_a_name_is_refused(store, experiment):
    """Two lambdas would take each other's rows for their own."""
    with pytest.raises(TypeError, match="experiment must be a function defined by def"):
        sweep(experiment, [{"x": 1}], store=store, progress=False)


@pytest.mark.parametrize(
    ("returned", "kind", "reason"),
    [
        (None, TypeError, "must return a dict of metrics, got None"),
        ([1], TypeError, "must return a dict of metrics"),
        ({"y": {"z": 1}}, TypeError, "'y' must be a plain scalar"),
        ({"y": np.arange(3)}, TypeError, "'y' must be a plain scalar"),
        ({"x": 2}, ValueError, "'x' must be a Python name that no other column of the store has"),
        ({"seconds": 2}, ValueError, "'seconds' must be a Python name that no other column of the store has"),
        ({"row": 2}, ValueError, "'row' must be a Python name that no other column of the store has"),
        ({"a\nb": 2}, ValueError, "must be a Python name"),
        ({"": 2}, ValueError, "must be a Python name"),
    ],
)
def test_a_result_that_is_no_flat_dict_of_scalars_is_refused(store, returned, kind, reason):
    def odd(x):
        return returned

    with pytest.raises(kind, match=f"odd with {{'x': 1}}.*{reason}"):
        sweep(odd, [{"x": 1}], store=store, progress=False)
    assert not store.exists()


def test_a_result_that_cannot_leave_its_worker_is_refused_too(store):
    def odd(x):
        return {"y": lambda: x}

    with pytest.raises(TypeError, match=r"odd with .*: 'y' must be a plain scalar"):
        sweep(odd, [{"x": 1}, {"x": 5}], store=store, n_jobs=2, progress=False)


def test_numpy_numbers_and_missing_ones_are_metrics(store):
    def measured(x):
        return {"mean": np.float64(0.1), "count": np.int64(3), "none": None, "nan": math.nan, "inf": math.inf}

    row = sweep(measured, [{"x": 1}], store=store, progress=False).iloc[0]
    assert (row["mean"], row["count"], row["inf"]) == (0.1, 3, math.inf)
    assert np.isnan(row["nan"])
    assert np.isnan(row["none"])


def test_the_package_and_the_sweep_are_cheap_to_import():
    code = (
        "import sys, dpnotes; assert 'pandas' not in sys.modules and 'joblib' not in sys.modules;"
        "import dpnotes.lab.store; assert not {'torch', 'sklearn', 'distributed'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=600)


def test_the_example_in_the_docstring_is_true(tmp_path):
    assert doctest.testmod(_sweep, extraglobs={"tmp": tmp_path}).attempted == 3
    assert doctest.testmod(_sweep, extraglobs={"tmp": tmp_path}).failed == 0
