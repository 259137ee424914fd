"""What missing rows are expected to take, and running them within a budget. Rows and clock are toys."""

import pytest

from dpnotes.lab import _shared, backlog, experiments, store
from dpnotes.lab.costs import Costs
from dpnotes.lab.experiments import Experiment
from dpnotes.lab.store import Measured

CLOCK = {"now": 0.0}


def slow(x, seed, device="cpu"):
    CLOCK["now"] += x
    return {"y": x, "device": device}


def quick(x, seed):
    CLOCK["now"] += x
    return {"y": x}


def grid(*sizes):
    return lambda: [{"x": x, "seed": seed} for x in sizes for seed in range(2)]


def toy(name="toy", function=slow, sizes=(1,), cost=lambda row: float(row["x"]), data=lambda row: [], **kwargs):
    return Experiment(name, function, {"paper": grid(*sizes)}, cost=cost, data=data, **kwargs)


def took(x, seconds, device="cpu", **more):
    return Measured({"x": x, **more}, seconds, device)


class TestCosts:
    def expected(self, rows, parameters, *, gpu=False, others=(), **kwargs):
        chosen = toy(**kwargs)
        costs = Costs([])
        costs._experiments = {"toy": chosen, "other": toy("other")}
        costs.add("toy", rows)
        costs.add("other", others)
        return costs.seconds(chosen, parameters, gpu=gpu)

    def test_without_a_row_the_estimate_counts(self):
        assert self.expected([], {"x": 7, "seed": 0}) == 7.0

    def test_rows_of_other_seeds_are_like_it(self):
        rows = [took(2, 10.0, seed=0), took(2, 30.0, seed=1), took(3, 500.0, seed=5)]
        assert self.expected(rows, {"x": 2, "seed": 5}) == 20.0

    def test_the_nearest_row_is_scaled_by_the_estimate(self):
        rows = [took(2, 10.0, seed=0), took(100, 9.0, seed=0)]
        assert self.expected(rows, {"x": 4, "seed": 0}) == 20.0
        assert self.expected(rows, {"x": 50, "seed": 0}) == 4.5

    def test_fewer_differing_parameters_are_nearer(self):
        rows = [took(2, 10.0, kind="a", seed=0), took(200, 1.0, kind="b", seed=0)]
        assert self.expected(rows, {"x": 20, "kind": "a", "seed": 0}) == 100.0
        assert self.expected(rows, {"x": 3, "seed": 0}) == 15.0  # as many, by a smaller factor

    def test_an_experiment_without_an_estimate_takes_what_its_rows_took(self):
        assert self.expected([took(2, 10.0, seed=0)], {"x": 9, "seed": 0}, cost=lambda row: 0.0) == 10.0

    def test_on_a_gpu(self):
        row, here = {"x": 4, "seed": 0}, [took(2, 10.0, seed=0)]
        assert self.expected(here, row, gpu=True, gpu_speedup=5.0) == 4.0  # nothing was measured there
        others = [took(100, 100.0, seed=0), took(100, 10.0, "H100", seed=0)]
        assert self.expected(here, row, gpu=True, others=others, gpu_speedup=5.0) == 2.0
        assert self.expected([*here, took(2, 3.0, "H100", seed=0)], row, gpu=True, others=others) == 6.0
        assert self.expected([*here, took(2, 3.0, "H100", seed=0)], row) == 20.0


@pytest.fixture
def stores(tmp_path, monkeypatch):
    """A folder of published rows and one of runs; gives a function that makes experiments the only ones."""
    monkeypatch.setattr(_shared, "published_store", lambda name: tmp_path / "published" / f"{name}.csv")
    monkeypatch.setenv("DPNOTES_RUNS", str(tmp_path / "runs"))
    monkeypatch.setitem(CLOCK, "now", 0.0)
    read = store.measured
    monkeypatch.setattr(
        store, "measured", lambda path: [row._replace(seconds=row.parameters["x"]) for row in read(path)]
    )

    def only(*chosen):
        monkeypatch.setattr(experiments, "EXPERIMENTS", {one.name: one for one in chosen})

    return only


def fill(*names, **kwargs):
    return backlog.fill(names, device="cpu", progress=False, clock=lambda: CLOCK["now"], **kwargs)


def ran(name):
    path = store.runs_store(name)
    return store.read_store(path)["x"].tolist() if path.is_file() else []


def test_rows_are_run_cheapest_first_until_the_budget_is_spent(stores):
    stores(toy("toy_slow", sizes=(500, 100)), toy("toy_quick", quick, sizes=(150, 4000)))
    done = fill(seconds=900)
    assert ran("toy_slow") == [100, 100]
    assert ran("toy_quick") == [150, 150]
    assert done.finished == 4
    assert [task.parameters["x"] for task in done.left] == [500, 500, 4000, 4000]  # 400 seconds are left
    assert fill(seconds=499).finished == 0
    assert fill(seconds=500).finished == 1
    assert ran("toy_slow") == [100, 100, 500]


def test_rows_that_finish_correct_what_the_others_are_expected_to_take(stores):
    stores(toy("toy_slow", sizes=(100, 700), cost=lambda row: row["x"] / 10))
    done = fill(seconds=350)  # the first two are expected to take ten seconds each, then the others seventy
    assert (done.finished, CLOCK["now"]) == (2, 200.0)
    assert [task.seconds for task in done.left] == [700.0, 700.0]


def test_published_rows_and_rows_of_the_runs_are_not_run_again(stores, tmp_path):
    chosen = toy("toy_slow", sizes=(1, 2, 3))
    stores(chosen)
    rows = chosen.grids["paper"]()
    store.sweep(slow, rows[:2], store=tmp_path / "published" / "toy_slow.csv", progress=False)
    store.sweep(slow, rows[2:4], store=store.runs_store("toy_slow"), progress=False)
    assert fill().finished == 2
    assert sorted(ran("toy_slow")) == [2, 2, 3, 3]


def test_rows_whose_data_are_not_here_are_left_out(stores, tmp_path, monkeypatch):
    monkeypatch.setenv("DPNOTES_DATA", str(tmp_path))
    stores(toy("toy_slow", sizes=(1, 2), data=lambda row: ["mnist" if row["x"] == 2 else "digits", "no set"]))
    done = fill()
    assert (done.finished, done.left, done.without_data) == (2, [], {"mnist": 2})


def test_a_failing_experiment_does_not_stop_the_others(stores):
    def broken(x, seed):
        raise ValueError("no such thing")

    stores(toy("toy_broken", broken), toy("toy_slow", sizes=(2,)))
    done = fill()
    assert done.finished == 2
    assert "no such thing" in str(done.failures["toy_broken"])


def test_names_are_of_experiments_or_of_chapters(stores):
    stores(toy("toy_one"), toy("toy_two"))
    assert [one.name for one in backlog.chosen(["test_backlog", "toy_two"])] == ["toy_one", "toy_two"]
    with pytest.raises(ValueError, match="unknown experiment or chapter 'toy'; known: test_backlog, toy_one, toy_two"):
        backlog.chosen(["toy"])
