"""What an experiment of the book must have, whatever its chapter."""

import math
from importlib import import_module

import pytest

from dpnotes.lab import experiment, experiments
from dpnotes.lab._experiment import two_stds
from dpnotes.lab.experiments import EXPERIMENTS
from dpnotes.lab.store import Standing, code, published_store, read_store, sweep

CHAPTERS = ("bagging", "dpbag", "intrinsic_sgd", "private_prediction", "head_to_head")


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_has_a_name_of_its_own_that_begins_with_its_chapter(name):
    function = EXPERIMENTS[name].function
    given = getattr(function, "experiment_name", None)  # without it the rows would depend on the function's address
    assert given is not None, f"{function.__module__}.{function.__name__} has no @experiment(name)"
    chapter, dot, own = given.partition(".")
    assert dot
    assert own.isidentifier()
    assert function.__module__.startswith(f"dpnotes.lab.{chapter}.")
    assert name.startswith(f"{chapter}_")


def test_no_two_experiments_share_a_name():
    functions = {id(e.function): e.function for e in EXPERIMENTS.values()}.values()
    given = [function.experiment_name for function in functions]
    assert len(set(given)) == len(given), sorted(name for name in given if given.count(name) > 1)
    chapters = [import_module(f"dpnotes.lab.{chapter}.experiments") for chapter in CHAPTERS]
    stores = [e.name for chapter in chapters for e in chapter.EXPERIMENTS]
    assert len(set(stores)) == len(stores) == len(EXPERIMENTS)  # a store that is there twice would hide another


@pytest.fixture
def of_earlier_code():
    """Two published rows of a store, of which one says that other code computed it."""
    rows = read_store(published_store("bagging_private_base")).head(2).copy()
    rows["code"] = [code(EXPERIMENTS["bagging_private_base"].function), "0123456789ab"]
    return rows


def test_provenance_says_which_rows_are_of_earlier_code(of_earlier_code, monkeypatch, tmp_path):
    monkeypatch.setattr(experiments, "published_store", lambda name: tmp_path / f"{name}.csv")
    assert experiments.provenance(of_earlier_code)["code"].tolist() == ["stale: 1 of earlier code"]
    assert experiments.provenance(of_earlier_code.head(1))["code"].tolist() == ["present code"]
    gap = of_earlier_code.assign(check=None)
    assert experiments.code_standing(gap) == Standing(0, 0, 0, 0)


def test_a_chapter_says_beside_its_table_that_rows_are_stale(of_earlier_code, monkeypatch, tmp_path):
    said = []
    monkeypatch.setattr(experiments, "_say", said.append)
    monkeypatch.setattr(experiments, "collect", lambda *given, **options: of_earlier_code)
    monkeypatch.setattr(experiments, "published_store", lambda name: tmp_path / f"{name}.csv")
    experiments.rows("bagging_private_base")
    assert said == ["`bagging_private_base`, 2 rows: stale: 1 of earlier code."]

    @experiment("store.verification")
    def verification(store, key):
        return {"metrics": 8}

    agreed, earlier = of_earlier_code.itertuples()
    monkeypatch.setattr("dpnotes.lab.store._run.code", lambda experiment: agreed.code)
    grid = [{"store": "bagging_private_base", "key": earlier.row}]
    sweep(verification, grid, store=tmp_path / "verifications.csv", progress=False)
    experiments.rows("bagging_private_base")
    assert len(said) == 1  # a sample agrees: nothing to say
    assert str(experiments.code_standing(of_earlier_code)) == "1 of earlier code, 1 of them computed again: agree"


MACHINES = ("_seconds", "peak_memory")  # metrics that say what a machine did: no tolerance can be too large


@pytest.mark.parametrize("name", [name for name in EXPERIMENTS if published_store(name).is_file()])
def test_no_tolerance_is_as_large_as_what_tells_rows_apart(name):
    rows = read_store(published_store(name))
    for metric, own in EXPERIMENTS[name].tolerance.items():
        assert metric in rows, f"{name} has no metric {metric!r}"
        values = rows[metric].dropna().astype(float)
        low, high = values.quantile([0.25, 0.75])
        between = high - low or values.max() - values.min()  # half of the rows lie within; all, if that is one value
        apart = between or abs(values.median())  # a metric that no row changes must be told from 0
        tolerance = own(values.median()) if callable(own) else own
        if metric.endswith(MACHINES):
            assert tolerance == math.inf
        else:
            assert tolerance < apart, f"{name}: {metric} may differ by {tolerance:g}, but rows differ by {apart:g}"


def test_a_tolerance_of_counts_grows_with_them_and_stays_below():
    assert two_stds(100) == 20
    assert all(two_stds(count) < count for count in range(5, 2000))
