"""Experiments of the chapter on differentially private bagging: rows against the estimators, grids, tables."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingClassifier

from dpnotes import data
from dpnotes.accounting import noisy_vote_answers
from dpnotes.lab.dpbag import experiments, grids, runs, tables
from dpnotes.lab.dpbag.experiments import seconds_and_memory
from dpnotes.lab.experiments import paper_table
from dpnotes.learners import BoostedTreesClassifier
from dpnotes.methods import DPBag


def quick(**change):
    row = {"dataset": "breast_cancer", "teachers": "logistic", "n_teachers": 20, "n_partitions": 5}
    return {**row, "accountant": "personalised", "epsilon": 5.0, "delta": 1e-3, "seed": 0, "device": "cpu", **change}


@pytest.mark.parametrize("teachers", runs.LEARNERS)
@pytest.mark.parametrize("accountant", ["personalised", "naive", "tight"])
def test_a_row_is_what_the_estimator_gives(teachers, accountant, monkeypatch):
    few = GradientBoostingClassifier(n_estimators=3)
    if teachers == "boosting":
        monkeypatch.setattr(runs, "learner", lambda name: few)
    runs.run.cache_clear()
    row = experiments.student(**quick(teachers=teachers, accountant=accountant, seed=3))
    records = runs.thirds("breast_cancer", 3)
    own = {"estimator": BoostedTreesClassifier(device="cpu"), "student": few} if teachers == "boosting" else {}
    dtype = np.float32 if teachers == "boosting" else np.float64
    model = DPBag(
        **own, n_teachers=20, n_partitions=5, epsilon=5.0, delta=1e-3, adjacency="replace-one", keep_votes=True,
        accountant=accountant, partitions="balanced", device="cpu", noise_seed=3,
    ).fit(records.private.X.astype(dtype), records.private.y, public=records.public.X.astype(dtype))  # fmt: skip
    runs.run.cache_clear()
    assert 10 < row["labels"] == model.n_labels_ < 189
    assert row["accuracy"] == model.score(records.test.X.astype(dtype), records.test.y)
    assert row["label_accuracy"] == (model.labels_ == records.public.y[: model.n_labels_]).mean()
    assert row["epsilon_spent"] == pytest.approx(model.epsilon_spent_, rel=1e-12)
    profile = model.per_instance_profile_ if accountant == "personalised" else model.profile_
    assert (row["status"], row["adjacency"]) == (profile.status, profile.adjacency)
    if accountant == "personalised":
        paid = [row[name] for name in runs.PAID]
        assert paid == pytest.approx(np.quantile(model.record_epsilons_, runs.QUANTILES), rel=1e-12)


def test_rows_do_not_depend_on_what_was_computed_before_them():
    first = experiments.student(**quick())
    experiments.student(**quick(n_partitions=1, accountant="naive"))
    experiments.student(**quick(seed=1))
    other = experiments.student(**quick(epsilon=4.0))  # a budget that is not the paper's
    assert experiments.student(**quick()) == first
    assert 4 <= other["epsilon_spent"] < 5 <= first["epsilon_spent"]
    assert other["labels"] < first["labels"]


def test_thirds_hold_each_record_once_and_change_with_the_seed():
    records, other = runs.thirds("breast_cancer", 0), runs.thirds("breast_cancer", 1)
    loaded = data.load("breast_cancer")
    everything = np.concatenate([records.private.X, records.public.X, records.test.X])
    assert [len(records.private.y), len(records.public.y), len(records.test.y)] == [189, 189, 191]
    rows = np.vstack([loaded.X_train, loaded.X_test]).astype(np.float64)
    assert np.array_equal(np.sort(everything.view("V240").ravel()), np.sort(rows.view("V240").ravel()))
    assert not np.array_equal(records.private.X, other.private.X)


def test_public_rows_can_run_out():
    row = experiments.student(**quick(epsilon=500.0))
    assert row["labels"] == 189
    assert row["epsilon_spent"] < 500


def test_a_student_of_one_class_is_constant():
    records = runs.thirds("breast_cancer", 0)
    y = records.test.y
    for label in (0, 1):
        found = runs.scores("logistic", records.public.X[:3], np.full(3, label), records.test, 0)
        assert found == {"accuracy": np.mean(y == label), "auroc": 0.5, "auprc": pytest.approx(y.mean())}
    nothing = runs.scores("logistic", records.public.X[:0], np.zeros(0, int), records.test, 0)
    assert nothing["accuracy"] == np.mean(y == 0)


def test_all_records_means_no_guarantee():
    row = experiments.student(**quick(accountant="none", n_teachers=1, n_partitions=1, epsilon=None, delta=None))
    assert row["status"] == "none"
    assert row["labels"] == 189
    assert row["auroc"] > 0.97


def test_the_filter_keeps_its_budget():
    common = {"dataset": "breast_cancer", "n_teachers": 20, "n_partitions": 1, "epsilon": 5.0, "delta": 1e-5}
    row = experiments.filtered(**common, confidence=0.75, vote_fraction=0.5, seed=0, device="cpu")
    assert row["labels"] == noisy_vote_answers(5.0, 1e-5, noise=0.1)
    assert row["votes"] == round(row["labels"] / 2)
    # mu = sqrt(2 votes) / sigma of (5, 1e-5): the Gaussian mechanism of sensitivity 1 needs sigma 0.891868 (theory)
    assert row["sigma"] == pytest.approx(0.891868264952 * np.sqrt(2 * row["votes"]), rel=1e-6)
    assert (row["status"], row["adjacency"]) == ("proved", "add-remove")
    assert row == experiments.filtered(**common, confidence=0.75, vote_fraction=0.5, seed=0, device="cpu")


def test_bad_parameters_are_named():
    with pytest.raises(ValueError, match="dataset must be one of 'adult', 'diabetes130', 'breast_cancer', got"):
        experiments.student(**quick(dataset="heart"))
    with pytest.raises(ValueError, match="teachers must be one of 'logistic', 'boosting', got teachers='trees'"):
        experiments.student(**quick(teachers="trees"))
    with pytest.raises(ValueError, match="accountant must be one of 'personalised'"):
        experiments.student(**quick(accountant="moments"))
    with pytest.raises(ValueError, match="epsilon and delta must be numbers for accountant='tight'"):
        experiments.student(**quick(accountant="tight", epsilon=None))
    with pytest.raises(ValueError, match="n_chunks must be at most n=189 for balanced partitions"):
        experiments.student(**quick(n_teachers=190))
    with pytest.raises(ValueError, match="n_partitions must be >= 1"):
        experiments.student(**quick(n_partitions=0))


def test_grids_are_those_of_the_paper():
    paper = pd.concat([paper_table(f"dpbag_adult_{model}") for model in ("lr", "gbm")])
    paper = paper.query("method != 'NPB'").assign(k=lambda t: t["k"].fillna(1))
    for teachers, model in (("logistic", "logistic regression"), ("boosting", "GBM")):
        grid = pd.DataFrame(grids.student("adult", teachers))
        assert grid["seed"].nunique() == 10
        asked = grid.dropna(subset=["epsilon"]).query("delta == 1e-3")
        asked = asked.rename(columns={"n_partitions": "k"})
        settings = ["n_teachers", "k", "epsilon"]
        cells = paper[paper["model"] == model]
        both = cells[settings].drop_duplicates().merge(asked, on=settings, how="outer", indicator=True)
        assert (both["_merge"] == "both").all()
        accountants = asked.groupby("k")["accountant"].agg(set)
        assert accountants[1] == {"naive"}
        assert all(found == {"naive", "personalised"} for found in accountants[accountants.index > 1])


def test_published_counts_of_one_partition_are_those_of_another_delta():
    """All SAA counts, both models, both data sets, to the label: at delta = 1e-3; none at the stated 1e-5."""
    counts = paper_table("dpbag_labels").query("method == 'SAA'")
    assert len(counts) == 30
    wrong = []
    for n, epsilon, value in counts[["n_teachers", "epsilon", "value"]].itertuples(index=False):
        at = {d: noisy_vote_answers(float(epsilon), d, noise=2 / n, analysis="published") for d in (1e-3, 1e-5)}
        if at[1e-3] != value:
            wrong.append((n, epsilon, value, at[1e-3]))
        assert at[1e-5] < value
    assert wrong == [(100, 1, 44, 43)]  # a misprint of Table 8: Tables 2, 4 and 6 have 43


def test_the_cost_of_a_setting_counts_teachers_and_students(monkeypatch):
    """The first of the two calls that are measured trains the teachers, anew each time; the second all students."""
    measured, students = [], []

    def counted(call):
        before = runs.run.cache_info().misses, len(students)
        call()
        measured.append((runs.run.cache_info().misses - before[0], len(students) - before[1]))
        return seconds_and_memory(lambda: None)

    real = experiments.student
    monkeypatch.setattr(experiments, "student", lambda **row: students.append(row) or real(**row))
    monkeypatch.setattr(experiments, "seconds_and_memory", counted)
    setting = {"dataset": "breast_cancer", "n_teachers": 10, "n_partitions": 1, "seed": 0, "device": "cpu"}
    rows = len(grids.of_setting(10, 1))
    for teachers in runs.LEARNERS:
        experiments.cost(teachers=teachers, **setting)
        found = experiments.cost(teachers=teachers, **setting)  # the same teachers, trained once more
        assert measured[-2:] == [(1, 0), (0, rows)]
        assert measured[-4:-2] == measured[-2:]
        assert found["teachers_seconds"] >= 0
    experiments.cost(**setting | {"teachers": "logistic", "n_teachers": 1})
    assert measured[-2:] == [(0, 0), (0, 1)]


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from Linux's /proc")
def test_memory_is_the_most_that_is_held_during_the_call():
    """In a process of its own: one that has freed much before need not ask the system for more."""
    code = """
import numpy as np
from dpnotes.lab.dpbag.experiments import seconds_and_memory
_, little = seconds_and_memory(lambda: None)
_, much = seconds_and_memory(lambda: np.ones(64 * 2**17).sum())
print(much - little)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 50 < float(done.stdout) < 90  # 64 MiB


def test_the_price_of_a_run():
    names = ["teachers", "n_teachers", "n_partitions", "teachers_seconds", "students_seconds", "peak_memory"]
    of_two = [("boosting", n, k, 10.0 * k, 2.0, 2048.0) for n in (100, 150) for k in (1, 50, 100)]
    rows = pd.DataFrame([("boosting", 1, 1, 0.0, 7.0, 3072.0), *of_two], columns=names)
    assert tables.run_seconds(rows, "boosting") == 7 + 2 * (10 * 151 + 3 * 2)
    assert np.isnan(tables.run_seconds(rows.iloc[:-1], "boosting"))
    assert np.isnan(tables.run_seconds(rows, "logistic"))
    table = tables.costs(rows.iloc[:-1]).set_index(["teachers", "n_teachers"])
    assert table.loc[("boosting", 100), ["seconds_1", "seconds_50", "memory"]].tolist() == [12, 502, 2]
    assert table.loc[("boosting", 1), "memory"] == 3
    assert np.isnan(table.loc[("boosting", 150), "seconds_100"])
