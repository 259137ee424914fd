"""Differentially private bagging: rows against the estimators, grids, tables of
known answers.
"""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingClassifier

from dpnotes import data
from dpnotes.accounting import noisy_vote_answers
from dpnotes.lab.dpbag import experiments, grids, results, runs
from dpnotes.lab.dpbag.experiments import seconds_and_memory
from dpnotes.lab.experiments import paper_table
from dpnotes.learners import BoostedTreesClassifier
from dpnotes.methods import DPBag


def quick(**change):
    row = {
        "dataset": "breast_cancer",
        "teachers": "logistic",
        "n_teachers": 20,
        "n_partitions": 5,
    }
    return {
        **row,
        "accountant": "personalised",
        "epsilon": 5.0,
        "delta": 1e-3,
        "seed": 0,
        "device": "cpu",
        **change,
    }


@pytest.mark.parametrize("teachers", ["logistic", "boosting"])
@pytest.mark.parametrize("accountant", ["personalised", "naive", "tight"])
def test_a_row_is_what_the_estimator_gives(teachers, accountant, monkeypatch):
    # a second instead of a minute
    few = GradientBoostingClassifier(n_estimators=3)
    if teachers == "boosting":
        monkeypatch.setattr(runs, "learner", lambda name: few)
    runs.run.cache_clear()
    row = experiments.student(**quick(teachers=teachers, accountant=accountant, seed=3))
    records = runs.thirds("breast_cancer", 3)
    own = (
        {"estimator": BoostedTreesClassifier(device="cpu"), "student": few}
        if teachers == "boosting"
        else {}
    )
    dtype = np.float32 if teachers == "boosting" else np.float64
    model = DPBag(
        **own,
        n_models=20,
        n_partitions=5,
        epsilon=5.0,
        delta=1e-3,
        adjacency="replace-one",
        keep_votes=True,
        accountant=accountant,
        partitions="balanced",
        device="cpu",
        noise_seed=3,
    ).fit(
        records.private.X.astype(dtype),
        records.private.y,
        public=records.public.X.astype(dtype),
    )
    runs.run.cache_clear()
    # the budget ends before the public rows do
    assert 10 < row["labels"] == model.n_labels_ < 189
    assert row["accuracy"] == model.score(records.test.X.astype(dtype), records.test.y)
    assert (
        row["label_accuracy"]
        == (model.labels_ == records.public.y[: model.n_labels_]).mean()
    )
    assert row["epsilon_spent"] == pytest.approx(model.epsilon_spent_, rel=1e-12)
    profile = (
        model.per_instance_profile_ if accountant == "personalised" else model.profile_
    )
    assert (row["status"], row["adjacency"]) == (profile.status, profile.adjacency)
    if accountant == "personalised":
        paid = [row[name] for name in runs.PAID]
        assert paid == pytest.approx(
            np.quantile(model.record_epsilons_, runs.QUANTILES), rel=1e-12
        )


def test_thirds_hold_each_record_once_and_change_with_the_seed():
    records = runs.thirds("breast_cancer", 0)
    other = runs.thirds("breast_cancer", 1)
    loaded = data.load("breast_cancer")
    everything = np.concatenate([records.private.X, records.public.X, records.test.X])
    assert [len(records.private.y), len(records.public.y), len(records.test.y)] == [
        189,
        189,
        191,
    ]
    # of all thirds together
    rows = np.vstack([loaded.X_train, loaded.X_test]).astype(np.float64)
    assert np.array_equal(
        np.sort(everything.view("V240").ravel()), np.sort(rows.view("V240").ravel())
    )
    assert not np.array_equal(records.private.X, other.private.X)


def test_a_student_of_one_class_is_constant():
    records = runs.thirds("breast_cancer", 0)
    y = records.test.y
    for label in (0, 1):
        found = runs.scores(
            runs.student("logistic", records.public.X[:3], np.full(3, label), 0),
            records.test,
        )
        assert found == {
            "accuracy": np.mean(y == label),
            "auroc": 0.5,
            "auprc": pytest.approx(y.mean()),
        }
    nothing = runs.scores(
        # no label at all
        runs.student("logistic", records.public.X[:0], np.zeros(0, int), 0),
        records.test,
    )
    assert nothing["accuracy"] == np.mean(y == 0)


def test_a_query_that_costs_the_smaller_bound_allows_no_fewer_labels(monkeypatch):
    setting = runs.Setting("breast_cancer", "liblinear", 40, 4, 3, "cpu")
    epsilons = (1.0, 3.0)
    with_both = runs.least_labels(setting, epsilons, 1e-3)
    # where the conjecture never applies, the counts are those of the paper's loop
    monkeypatch.setattr(runs, "conjectured_moments", lambda *_, **__: np.inf)
    runs.least_labels.cache_clear()
    by_theorem = runs.least_labels(setting, epsilons, 1e-3)
    stops = runs.run(setting, tuple((each, 1e-3) for each in epsilons)).stops
    assert by_theorem == {each: stops[each, 1e-3].labels for each in epsilons}
    # it applies where few labels are bought, and no longer where many are
    assert with_both[1.0] > by_theorem[1.0]
    assert with_both[3.0] == by_theorem[3.0]
    runs.least_labels.cache_clear()


def test_the_filter_keeps_its_budget():
    common = {
        "dataset": "breast_cancer",
        "n_teachers": 20,
        "n_partitions": 1,
        "epsilon": 5.0,
        "delta": 1e-5,
    }
    row = experiments.filtered(
        **common, confidence=0.75, vote_fraction=0.5, seed=0, device="cpu"
    )
    assert row["labels"] == noisy_vote_answers(5.0, 1e-5, inverse_scale=0.1)
    assert row["votes"] == round(row["labels"] / 2)
    # mu = sqrt(2 votes) / sigma of (5, 1e-5): the Gaussian mechanism of sensitivity 1
    # needs sigma 0.891868 (theory)
    assert row["sigma"] == pytest.approx(
        0.891868264952 * np.sqrt(2 * row["votes"]), rel=1e-6
    )
    assert (row["status"], row["adjacency"]) == ("proved", "add-remove")


def test_the_cost_of_a_setting_counts_teachers_and_students(monkeypatch):
    """The first of the two calls that are measured trains the teachers, anew each
    time; the second all students.
    """
    measured = []
    students = []

    def counted(call):
        # a miss of the cache is a training of teachers
        before = runs.run.cache_info().misses, len(students)
        call()
        measured.append(
            (runs.run.cache_info().misses - before[0], len(students) - before[1])
        )
        return seconds_and_memory(lambda: None)

    real = experiments.student
    monkeypatch.setattr(
        experiments, "student", lambda **row: students.append(row) or real(**row)
    )
    monkeypatch.setattr(experiments, "seconds_and_memory", counted)
    setting = {
        "dataset": "breast_cancer",
        "n_teachers": 10,
        "n_partitions": 1,
        "seed": 0,
        "device": "cpu",
    }
    rows = len(grids.of_setting(10, 1))
    for teachers in ("logistic", "boosting"):
        experiments.cost(teachers=teachers, **setting)
        # the same teachers, trained once more
        experiments.cost(teachers=teachers, **setting)
        assert measured[-4:] == [(1, 0), (0, rows)] * 2
    experiments.cost(**setting | {"teachers": "logistic", "n_teachers": 1})
    assert measured[-2:] == [(0, 0), (0, 1)]


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from Linux's /proc")
def test_memory_is_the_most_that_is_held_during_the_call():
    """In a process of its own: one that has freed much before need not ask the
    system for more.
    """
    code = (
        "import numpy as np; from dpnotes.lab.dpbag.experiments import"
        " seconds_and_memory as held; "
    )
    code += "print(-held(lambda: None)[1] + held(lambda: np.ones(64 * 2**17).sum())[1])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert 50 < float(done.stdout) < 90  # 64 MiB


ROW = {
    "dataset": "breast_cancer",
    "n_teachers": 10,
    "n_partitions": 2,
    "seed": 1,
    "device": "cpu",
}
BUDGET = {"accountant": "naive", "epsilon": 5.0, "delta": 1e-3}


def test_a_setting_changes_the_student_alone(monkeypatch):
    monkeypatch.setitem(grids.SETTINGS, "one tree", {"n_estimators": 1})
    row = experiments.cause(setting="one tree", **ROW, **BUDGET)
    chapter = experiments.student(teachers="boosting", **ROW, **BUDGET)
    for metric in ("labels", "label_accuracy"):
        assert row[metric] == chapter[metric]
    assert row["auroc"] < chapter["auroc"]


def test_teachers_by_liblinears_objective_are_liblinears():
    """Its intercept is penalised, so the votes are not those of the chapter."""
    generator = np.random.default_rng(0)
    X = generator.normal(size=(90, 4)) + 1
    y = (X @ [1.0, -1.0, 0.5, 0.0] + generator.normal(size=90) > 0.3).astype(int)
    # two sizes, as balanced chunks have
    subsets = [np.arange(0, 40), np.arange(40, 90), np.arange(10, 50)]
    votes = {
        name: runs.teach(name, X, y, subsets, seed=0, device="cpu").votes(X)
        for name in ("liblinear", "logistic")
    }
    for rows, own in zip(subsets, votes["liblinear"], strict=True):
        # liblinear itself, one by one
        alone = runs.learner("liblinear").set_params(tol=1e-8).fit(X[rows], y[rows])
        assert (alone.predict(X) == own).all()
    assert (votes["liblinear"] != votes["logistic"]).any()


@pytest.mark.parametrize("setting", grids.SETTINGS)
def test_every_setting_runs(setting):
    row = experiments.cause(
        setting=setting, dataset="breast_cancer", seed=0, **grids.NOTHING
    )
    assert row["labels"] == 189
    assert row["accuracy"] > 0.85


def made(shift=0.0, step=0.01):
    """Rows of the paper's grid whose values are the published ones plus a shift,
    plus (seed - 1) steps.
    """
    grid = pd.DataFrame(grids.student("adult", "logistic", seeds=3)).astype(
        {"epsilon": float, "delta": float}
    )
    rows = results.of_method(grid)
    for metric in results.METRICS:
        printed = results.cells(grid, metric)[[*results.SETTING, "published"]]
        found = rows.merge(printed, on=results.SETTING, how="left")["published"]
        grid[metric] = (
            found * np.where(grid["delta"] == 1e-5, 0.5, 1.0)
            + shift
            + (grid["seed"] - 1) * step
        )
    # of tight accounting, which has no published value
    grid["accuracy"] = grid["accuracy"].fillna(0.5)
    return grid


def test_runs_are_averaged_beside_the_printed_number():
    rows = made(step=0.1)
    first = (rows["n_teachers"] == 50) & (rows["epsilon"] == 1) & (rows["delta"] < 1)
    rows.loc[first & (rows["seed"] == 2), "auroc"] = np.nan  # a gap is no run
    setting = (rows["n_teachers"] == 100) & (rows["epsilon"] == 3)
    table = results.cells(rows[~setting], "auroc")
    printed = table.dropna(subset=["epsilon"]).query("method == 'dpbag'")
    cut = printed.query("n_teachers == 50 and epsilon == 1")
    assert set(cut["seeds"]) == {2}
    np.testing.assert_allclose(cut["difference"], -0.05)
    np.testing.assert_allclose(cut["std"], np.std([0.0, 0.1], ddof=1))
    np.testing.assert_allclose(cut["stated"], cut["published"] / 2 - 0.05)
    missing = printed.query("n_teachers == 100 and epsilon == 3")
    assert len(missing)
    assert set(missing["seeds"]) == {0}
    assert missing["published"].notna().all()  # beside a gap, too
    assert missing[["reproduced", "difference", "stated"]].isna().all(axis=None)


def test_orderings_of_the_paper_are_counted():
    """The published side by another road, where nothing varies but by rounding; ours
    are the same there.
    """
    order = results.orderings(made(step=1e-7)).set_index("ordering")
    printed = paper_table("cells_dpbag").query(
        "dataset == 'adult' and teachers == 'logistic' and metric != 'labels'"
    )
    wide = printed.pivot_table(
        "printed", ["n_teachers", "epsilon", "metric"], ["method", "k"]
    )
    leads = (wide["dpbag_naive"].to_numpy() - wide["saa"].to_numpy())[
        wide["dpbag_naive"].notna().all(axis=1)
    ].ravel()
    counted = {
        "holds": (leads > 0.002).sum(),
        "reversed": (leads < -0.002).sum(),
        "tie": (abs(leads) < 0.002).sum(),
    }
    assert sum(counted.values()) == 36
    for answer, count in counted.items():
        assert order.loc["naive_above_saa", f"published_{answer}"] == count > 0
    assert order.loc["naive_above_saa", "published"] == "reversed"  # not in all cells
    assert order.loc["more_labels", "published"] == "holds"
    for answer in ("holds", "reversed", "tie", "undecided", "cells"):
        assert (order[f"published_{answer}"] == order[f"ours_{answer}"]).all()
    noisy = results.orderings(made(step=0.1)).set_index("ordering")
    assert (
        noisy.loc["naive_above_saa", "ours"]
        == noisy.loc["naive_above_saa", "published"]
        == "undecided"
    )
