"""The command line: what it prints, how it fails. Rows are those of a toy
experiment, in stores of the test's own.
"""

import datetime
import json
import subprocess
import sys
from dataclasses import replace

import pandas as pd
import pytest
from click.testing import CliRunner

import dpnotes
from dpnotes.lab import _places, _shared, chapters, cli, experiments, store as sweep
from dpnotes.lab.experiments import Experiment

HERE = {"more": 0.0, "fault": None}  # what is different about the machine that computes


def toy(x, seed):
    if HERE["fault"]:
        raise HERE["fault"]
    return {"y": x + HERE["more"], "kind": "toy"}


GRID = [{"x": x, "seed": seed} for x in (1, 100) for seed in range(8)]
TOY = Experiment(
    "toy_table",
    toy,
    {"paper": lambda: GRID},
    {"y": 0.01},
    lambda row: 60.0 * row["x"],
    data=lambda row: [],
)


@pytest.fixture
def run():
    """Call the command line in this process; gives its exit code, output and errors."""

    def call(*arguments):
        result = CliRunner().invoke(cli.main, list(map(str, arguments)))
        # an error that nobody foresaw
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result.exit_code, result.stdout, result.stderr

    return call


@pytest.fixture
def stores(tmp_path, monkeypatch):
    """Folders of published rows and of runs, and the toy as the only experiment."""
    for name in ("published", "runs"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(experiments, "EXPERIMENTS", {"toy_table": TOY})
    for module in (sweep, experiments, _places, _shared):
        monkeypatch.setattr(
            module,
            "published_store",
            lambda name: tmp_path / "published" / f"{name}.csv",
        )
    monkeypatch.setenv("DPNOTES_RUNS", str(tmp_path / "runs"))
    (tmp_path / "published" / "verifications.csv").write_text(
        "store,row,metrics,differing,cpu_seconds,date\n"
    )
    return tmp_path


def publish(stores, grid):
    """Rows as published ones."""
    run_rows(stores, grid, "made")
    sweep.adopt(stores / "made" / "toy_table", stores / "published" / "toy_table.csv")


def run_rows(stores, grid, folder="runs"):
    """Rows as new ones, of which each took the minutes that are estimated."""
    into = stores / folder / "toy_table"
    sweep.sweep(toy, grid, store=into, progress=False)
    for file in into.iterdir():
        row = json.loads(file.read_text())
        # as if each had taken what was estimated
        row["provenance"]["seconds"] = 60.0 * row["parameters"]["x"]
        file.write_text(json.dumps(row))


def test_it_is_a_module_too(repository):
    done = subprocess.run(
        [sys.executable, "-m", "dpnotes", "--help"],
        cwd=repository,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0
    assert done.stdout.startswith("Usage: dpnotes ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "baging"], "unknown chapter 'baging'; known: guarantee, "),
        (
            ["run", "bagging", "-p", "scala", "quick"],
            "unknown parameter 'scala' for chapter 'bagging'; known: scale, ",
        ),
        (
            ["run", "bagging", "-p", "subsample_sizes", "x"],
            "parameter 'subsample_sizes' of chapter 'bagging' must be",
        ),
        (
            ["results", "verify", "bagging_tabel"],
            "unknown experiment or chapter 'bagging_tabel'; known: bagging, ",
        ),
        (["data", "fetch", "minst"], "unknown data set 'minst'; known: digits, "),
    ],
)
def test_foreseen_errors_are_one_line(run, arguments, message):
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith(f"Error: {message}")
    assert err.count("\n") == 1


def test_other_errors_keep_their_traceback(run, monkeypatch):
    def broken():
        raise KeyError("a fault of ours")

    monkeypatch.setattr(dpnotes.data, "status", broken)
    with pytest.raises(KeyError):
        run("data", "status")


def test_parameters_can_be_listed(run):
    code, out, _ = run("run", "bagging", "--list")
    assert code == 0
    assert "scale" in out.splitlines()[0]
    assert "quick" in out.splitlines()[0]


def test_an_interrupted_run_says_how_to_go_on(run, tmp_path, monkeypatch):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(chapters, "execute", interrupted)
    quick = ("-p", "scale", "quick")
    code, out, err = run("run", "bagging", *quick, "--out", tmp_path)
    assert code == 130
    assert out.startswith("bagging: running; results are saved in ")
    assert "finished rows are saved; the same command continues" in err


def test_status_names_what_is_missing_and_what_it_costs(run, stores):
    publish(stores, GRID[:3])
    run_rows(stores, GRID[2:5])
    files = sorted(stores.rglob("*"))
    code, out, _ = run("results", "status")
    assert sorted(stores.rglob("*")) == files  # reading writes nothing
    assert code == 0
    lines = out.splitlines()
    assert (
        lines[0] == "toy_table: 3 of 16 rows published (computed again: none of 3), "
        "13 missing (13.4 h on one core; 2 finished in runs: dpnotes results adopt)"
    )
    assert lines[1] == "  1.7 h    x=100  seed=0"  # the most expensive first
    assert lines[-1] == "  and 3 more: dpnotes results status --all"
    # of one experiment
    assert run("results", "status", "toy_table")[1].splitlines() == lines
    assert "unknown experiment or chapter 'toy'" in run("results", "status", "toy")[2]
    assert len(run("results", "status", "--all")[1].splitlines()) == 1 + 13


def test_what_is_missing_is_run_and_then_adopted(run, stores):
    publish(stores, GRID[:3])
    code, _, err = run("results", "adopt", "toy_table")
    assert (code, err.startswith("Error: no rows of toy_table in ")) == (2, True)
    code, out, _ = run("results", "run", "toy_table")
    assert code == 0
    assert out.splitlines()[0] == "13 rows finished"
    assert out.splitlines()[1].startswith("next: dpnotes results adopt")
    assert run("results", "adopt", "toy_table")[1].endswith(
        "toy_table.csv: 13 new rows, 0 were there already\n"
    )
    # nothing is left
    assert run("results", "run") == (0, "0 rows finished\n", "")


def test_a_budget_leaves_out_what_it_has_no_room_for(run, stores):
    # the chapter; an estimate of a minute a row
    code, out, _ = run("results", "run", "test_cli", "--minutes", 0.5)
    assert code == 0
    assert (
        out
        == "0 rows finished\n16 rows left out: the cheapest (from toy_table) would take"
        " 1.0 min, all together 13.5 h\n"
    )


def test_an_experiment_that_fails_is_told(run, stores, monkeypatch):
    monkeypatch.setitem(HERE, "fault", ValueError("no such kernel"))
    code, out, err = run("results", "run", "toy_table")
    assert (code, out) == (1, "0 rows finished\n")
    assert "no such kernel" in err
    assert err.endswith("Error: rows that failed: 16; the others were run\n")


def test_adopt_leaves_rows_that_are_not_of_the_papers_grid(run, stores):
    run_rows(stores, [*GRID[:2], {"x": 12345, "seed": 9}])
    out = run("results", "adopt")[1]
    assert (
        "toy_table.csv: 2 new rows, 0 were there already; 1 rows outside the paper's"
        " grid stay in" in out
    )


def test_adopt_refuses_other_metrics_unless_told_to(run, stores, monkeypatch):
    publish(stores, GRID[:3])
    monkeypatch.setitem(HERE, "more", 1.0)
    run_rows(stores, GRID[:3])
    code, _, err = run("results", "adopt", stores / "runs" / "toy_table")
    assert (code, err.count("\n")) == (2, 1)
    assert "other metrics in 3 of the rows" in err
    assert run("results", "adopt", "--replace")[0] == 0
    assert (
        sweep.read_store(stores / "published" / "toy_table.csv")["y"].tolist()
        == [2.0] * 3
    )


def test_adopt_knows_every_store_before_it_takes_the_first(run, stores):
    run_rows(stores, GRID[:3])
    (stores / "runs" / "unknown").mkdir()
    paths = [stores / "runs" / name for name in ("toy_table", "unknown")]
    assert (
        run("results", "adopt", *paths)[2]
        == "Error: unknown experiment 'unknown'; known: toy_table\n"
    )
    # not even the known one was adopted
    assert not (stores / "published" / "toy_table.csv").exists()


def test_verify_agrees_within_the_tolerance_and_not_beyond(run, stores, monkeypatch):
    publish(stores, GRID)
    # the tolerance is 0.01
    monkeypatch.setitem(HERE, "more", 0.009)
    code, out, _ = run("results", "verify", "--sample", 4)
    assert code == 0
    assert "8 of 8 metrics in 4 rows agree" in out
    monkeypatch.setitem(HERE, "more", 0.011)
    code, out, err = run("results", "verify", "toy_table", "--sample", 4)
    assert code == 1
    assert "computing 4 of 16 rows again" in out
    assert "4 of 8 metrics in 4 rows agree" in out
    assert (
        err == "Error: 4 metrics differ from the published ones by more than the"
        " tolerance\n"
    )


def test_status_says_what_was_computed_again_and_what_is_out_of_date(
    run, stores, monkeypatch
):
    published = stores / "published" / "toy_table.csv"
    today = f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}"
    publish(stores, GRID)
    standing = "toy_table: 16 of 16 rows published (computed again: "
    run("results", "verify", "--sample", 2, "--cheapest", "--no-keep")
    assert run("results", "status")[1] == f"{standing}none of 16)\n"
    run("results", "verify", "--sample", 2, "--cheapest")
    assert (
        run("results", "status")[1]
        == f"{standing}2 of 16, the last on {today}; all agree)\n"
    )
    kept = pd.read_csv(stores / "published" / "verifications.csv")
    rows = sweep.read_store(published).set_index("row")
    assert (rows.loc[kept["row"], "x"] == 1).all()  # of the cheap half
    assert "computed again as a check: 2 of 16, the last" in experiments.verified(
        "test_cli"
    )
    monkeypatch.setitem(HERE, "more", 1.0)
    run("results", "verify", "--sample", 1, "--cheapest")
    assert (
        run("results", "status")[1]
        == f"{standing}2 of 16, the last on {today}; 1 differ)\n"
    )
    monkeypatch.setattr(toy, "experiment_version", 2, raising=False)
    lines = run("results", "status")[1].splitlines()
    assert lines[0].startswith("toy_table: 0 of 16 rows published")
    assert "16 missing" in lines[0]
    assert experiments.verified("test_cli").endswith(
        "16 come from an earlier version of their experiment and are out of date."
    )


def test_what_an_experiment_says_is_missing_is_one_line_too(run, stores, monkeypatch):
    publish(stores, GRID[:1])
    monkeypatch.setitem(HERE, "fault", FileNotFoundError("data set 'x' is not here"))
    code, _, err = run("results", "verify")
    assert (code, err.count("\n")) == (2, 1)
    assert "data set 'x' is not here" in err
    monkeypatch.setitem(HERE, "fault", KeyError("a fault of the experiment"))
    with pytest.raises(RuntimeError, match="a fault of the experiment"):
        run("results", "verify")


def test_verify_says_which_data_it_lacks_and_computes_the_others(
    run, stores, monkeypatch, tmp_path
):
    publish(stores, GRID[6:9])
    needs = replace(
        TOY, data=lambda row: ["mnist", "adult"] if row["x"] == 1 else ["digits"]
    )
    monkeypatch.setattr(experiments, "EXPERIMENTS", {"toy_table": needs})
    monkeypatch.setenv("DPNOTES_DATA", str(tmp_path))
    code, out, _ = run("results", "verify")
    assert code == 0
    assert (
        "toy_table: 2 of 3 rows need data that are not here: dpnotes data fetch adult"
        " mnist\n" in out
    )
    assert "toy_table: computing 1 of 3 rows again; the longest took 1.7 h\n" in out
    monkeypatch.setattr(
        experiments,
        "EXPERIMENTS",
        {"toy_table": replace(TOY, data=lambda row: ["mnist"])},
    )
    assert run("results", "verify")[::2] == (
        1,
        "Error: no row could be computed again\n",
    )


def test_what_is_wrong_with_a_file_shows_before_a_kernel_starts(
    tmp_path, monkeypatch, run
):
    (tmp_path / "bad.csv").write_text("a,b,c\n1,,x\n2,y,x\n")
    monkeypatch.setattr(
        "dpnotes.lab.chapters.execute", lambda *_, **__: pytest.fail("it was run")
    )
    arguments = [
        "run",
        "dpbag",
        "-p",
        "dataset",
        str(tmp_path / "bad.csv"),
        "-p",
        "target",
        "d",
    ]
    done = CliRunner().invoke(cli.main, arguments)
    assert done.exit_code == 2
    assert (
        "there is no column 'd' for the target; there are 'a', 'b', 'c'\n- columns 'b',"
        " 'c': constant\n" in done.output
    )
    for name, kind in (
        ("dpbag", "a .csv or .npz file"),
        ("intrinsic_sgd", "one of 'mnist'"),
    ):
        code, _, err = run("run", name, "-p", "dataset", tmp_path)  # a folder
        assert (code, err.count("\n")) == (2, 1)
        assert err.startswith(f"Error: dataset must be {kind}")
