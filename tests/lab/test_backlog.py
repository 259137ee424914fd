"""What missing rows are expected to take, and running them within a budget. Rows and
clock are toys.
"""

import errno
import json

import pytest
from joblib import parallel_config

from dpnotes.lab import _shared, backlog, experiments, store
from dpnotes.lab.experiments import Experiment

CLOCK = {"now": 0.0}


def slow(x, seed, device="cpu"):
    CLOCK["now"] += x
    return {"y": x, "device": device}


def quick(x, seed):
    CLOCK["now"] += x
    return {"y": x}


def grid(*sizes):
    return lambda: [{"x": x, "seed": seed} for x in sizes for seed in range(2)]


def toy(
    name="toy",
    function=slow,
    sizes=(1,),
    cost=lambda row: float(row["x"]),
    data=lambda row: [],
    **kwargs,
):
    return Experiment(
        name, function, {"paper": grid(*sizes)}, cost=cost, data=data, **kwargs
    )


def expected(chosen, gpu=False):
    """Seconds that the last missing row is expected to take, for each of its cost."""
    rows = backlog.tasks(chosen, gpu=gpu)
    # all missing rows have the same ratio
    last = [task for task in rows if task.state == "missing"][-1]
    return last.seconds / chosen.cost(last.parameters)


def test_a_row_is_expected_to_take_its_estimate_as_measured_rows_took_theirs(stores):
    chosen = toy(sizes=(1, 2, 3, 7), gpu_speedup=5.0)
    stores(chosen)
    assert expected(chosen) == 1.0  # no row was measured
    assert expected(chosen, gpu=True) == 1 / 5
    for x, seconds in ((1, 10.0), (2, 40.0), (3, 3000.0)):
        keep(chosen, {"x": x, "seed": 0}, seconds)
    # the median of 10, 20 and 1000
    assert expected(chosen) == 20.0
    assert expected(chosen, gpu=True) == 20.0 / 5
    # one row on a GPU counts more than all on cores
    keep(chosen, {"x": 3, "seed": 1}, 9.0, device="H100")
    assert expected(chosen, gpu=True) == 3.0
    without = toy(sizes=(1, 2, 3, 7), cost=lambda row: 0.0)
    assert backlog.tasks(without)[-1].seconds == 40.0


def test_each_row_of_the_grid_has_its_state(stores, tmp_path, monkeypatch):
    monkeypatch.setenv("DPNOTES_DATA", str(tmp_path))
    chosen = toy("toy_slow", sizes=(1, 2), data=lambda row: ["mnist"] * (row["x"] == 2))
    stores(chosen)
    rows = chosen.grids["paper"]()
    store.sweep(slow, rows[:1], store=tmp_path / "made", progress=False)
    store.adopt(tmp_path / "made", tmp_path / "published" / "toy_slow.csv")
    keep(chosen, rows[1], 5.0)
    listed = backlog.tasks(chosen)
    states = [task.state for task in listed]
    assert states == ["published", "finished", "missing", "missing"]
    assert [task.parameters for task in listed] == rows
    assert [task.needs for task in listed] == [(), (), ("mnist",), ("mnist",)]
    assert listed[1].seconds == 5.0
    assert fill().without_data == {"mnist": 2}
    # rows of an earlier version are missing
    monkeypatch.setattr(slow, "experiment_version", 2, raising=False)
    assert {task.state for task in backlog.tasks(chosen)} == {"missing"}


def keep(chosen, parameters, seconds, device="cpu"):
    """A row of the runs, as if it had taken so long."""
    into = store.runs_store(chosen.name)
    row = store.sweep(
        chosen.function,
        [parameters],
        store=into,
        options={"device": device},
        progress=False,
    )["row"][0]
    path = into / f"{row}.json"
    told = json.loads(path.read_text())
    told["provenance"]["seconds"] = seconds
    path.write_text(json.dumps(told))


@pytest.fixture
def stores(tmp_path, monkeypatch):
    """A folder of published rows and one of runs; gives a function that makes
    experiments the only ones.
    """
    for module in (_shared, store):
        monkeypatch.setattr(
            module,
            "published_store",
            lambda name: tmp_path / "published" / f"{name}.csv",
        )
    monkeypatch.setenv("DPNOTES_RUNS", str(tmp_path / "runs"))
    monkeypatch.setitem(CLOCK, "now", 0.0)
    sweep = store.sweep

    def timed(function, grid, *, store, **how):
        before = {*store.glob("*.json")}
        found = sweep(function, grid, store=store, **how)
        for path in {*store.glob("*.json")} - before:
            told = json.loads(path.read_text())
            # by the clock of the toys
            told["provenance"]["seconds"] = float(told["parameters"]["x"])
            path.write_text(json.dumps(told))
        return found

    monkeypatch.setattr(backlog.store, "sweep", timed)

    def only(*chosen):
        monkeypatch.setattr(
            experiments, "EXPERIMENTS", {one.name: one for one in chosen}
        )

    return only


def fill(*names, **kwargs):
    return backlog.fill(
        names, device="cpu", progress=False, clock=lambda: CLOCK["now"], **kwargs
    )


def ran(name):
    path = store.runs_store(name)
    return sorted(store.read_store(path)["x"]) if path.is_dir() else []


def test_rows_are_run_cheapest_first_until_the_budget_is_spent(stores):
    stores(
        toy("toy_slow", sizes=(500, 100)), toy("toy_quick", quick, sizes=(150, 4000))
    )
    done = fill(seconds=900)
    assert ran("toy_slow") == [100, 100]
    assert ran("toy_quick") == [150, 150]
    assert done.finished == 4
    # 400 seconds are left
    assert [task.parameters["x"] for task in done.left] == [500, 500, 4000, 4000]
    # the next row takes 500
    assert fill(seconds=499).finished == 0
    assert fill(seconds=500).finished == 1
    assert ran("toy_slow") == [100, 100, 500]


def test_rows_that_finish_correct_what_the_others_are_expected_to_take(stores):
    stores(toy("toy_slow", sizes=(100, 700), cost=lambda row: row["x"] / 10))
    # the first two are expected to take ten seconds each, then the others seventy
    done = fill(seconds=350)
    assert (done.finished, CLOCK["now"]) == (2, 200.0)
    assert [task.seconds for task in done.left] == [700.0, 700.0]


def test_rows_whose_data_are_not_here_are_left_out(stores, tmp_path, monkeypatch):
    monkeypatch.setenv("DPNOTES_DATA", str(tmp_path))
    stores(
        toy(
            "toy_slow",
            sizes=(1, 2),
            data=lambda row: ["mnist" if row["x"] == 2 else "digits", "no set"],
        )
    )
    done = fill()
    assert (done.finished, done.left, done.without_data) == (2, [], {"mnist": 2})


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_row_that_fails_drops_itself_alone(stores, n_jobs):
    stores(toy("toy_odd", odd, sizes=(1, 2, 3)), toy("toy_slow", sizes=(2,)))
    with parallel_config(backend="threading"):
        done = fill(n_jobs=n_jobs)
    assert (done.finished, done.left, len(done.failures)) == (6, [], 2)
    assert ran("toy_odd") == [1, 1, 3, 3]
    assert all("'x': 2" in str(error) for error in done.failures)


def odd(x, seed):
    if x == 2:
        raise ValueError("no such thing")
    return {"y": x}


def test_an_experiment_whose_rows_cannot_be_written_is_left(stores, monkeypatch):
    stores(toy("toy_one", sizes=(1, 500)), toy("toy_two"))
    put = store._sweep.put

    def full(row, folder):
        if folder.name == "toy_one":
            raise OSError(errno.ENOSPC, "no space left on device")
        put(row, folder)

    monkeypatch.setattr("dpnotes.lab.store._sweep.put", full)
    done = fill()
    assert (done.finished, done.left) == (2, [])
    assert [error.errno for error in done.failures] == [errno.ENOSPC]


def test_names_are_of_experiments_or_of_chapters(stores):
    stores(toy("toy_one"), toy("toy_two"))
    assert [one.name for one in backlog.chosen(["test_backlog", "toy_two"])] == [
        "toy_one",
        "toy_two",
    ]
    with pytest.raises(
        ValueError,
        match=(
            "unknown experiment or chapter 'toy'; known: test_backlog, toy_one, toy_two"
        ),
    ):
        backlog.chosen(["toy"])
