"""What turns a run into a row: which rows are trained on, which are scored, which seed
draws what, and what is counted.

Learners that only remember what they were given stand in the place of the trained ones.
"""

import numpy as np
import pytest

from dpnotes import accounting, data, methods
from dpnotes.lab import bagging
from dpnotes.lab.bagging import networks
from dpnotes.lab.dpbag import experiments as dpbag
from dpnotes.lab.dpbag.runs import Labelled, Thirds
from dpnotes.lab.intrinsic_sgd import experiments as sgd
from dpnotes.lab.private_prediction import runs
from dpnotes.lab.private_prediction.runs import Task

HELD_OUT = 300


class Remembers:
    """Answers 3 to everything, and keeps what it was made of and trained on."""

    noise_multiplier_ = 2.5
    profile_ = accounting.gaussian(sigma=2.5)

    def __init__(self, *args, **given):
        self.args = args
        self.given = given
        Remembers.last = self

    def fit(self, X, y):
        self.X = X
        self.y = y
        return self

    def predict(self, X):
        return np.full(len(X), 3)


@pytest.fixture
def remembering(monkeypatch):
    """Networks and DP-SGD of the bagging chapter only remember; 300 rows are held
    out.
    """
    monkeypatch.setattr(networks, "VALIDATION_ROWS", HELD_OUT)
    monkeypatch.setattr(
        bagging.experiments, "network", lambda arrays, **given: Remembers(**given)
    )
    monkeypatch.setattr(methods, "DPSGD", Remembers)


def ensemble(split, **change):
    row = next(
        row
        for row in bagging.grids.table2a("quick", seeds=1)
        if row["subsample"] is None
    )
    return bagging.experiments.ensemble(
        **{**row, "split": split, "device": "cpu", **change}
    )


def dp_sgd(split, **change):
    row = bagging.grids.dp_sgd("quick")[0]
    given = {"noise_multiplier": 2.0, "epochs": 7, "batch_size": 50}
    return bagging.experiments.dp_sgd(
        **{**row, "split": split, "device": "cpu", **given, **change}
    )


@pytest.mark.parametrize("run", [ensemble, dp_sgd])
@pytest.mark.parametrize("split", ["test", "validation", "rest"])
def test_bagging_trains_on_no_row_that_it_scores(remembering, run, split):
    """Held-out rows are the last of the training rows; public rows are none that is
    scored.
    """
    arrays = data.load("digits")
    public = networks.PUBLIC_ROWS.get("digits", 0)
    if split == "validation":
        train = slice(None, -HELD_OUT)
        scored = arrays.y_train[-HELD_OUT:]
    else:
        arrays = (
            data.load("digits", split="bagging_public")
            if split == "rest" and not public
            else arrays
        )
        train = slice(None)
        scored = arrays.y_test[public if split == "rest" else 0 :]
    row = run(split)
    np.testing.assert_array_equal(Remembers.last.X, arrays.X_train[train])
    np.testing.assert_array_equal(Remembers.last.y, arrays.y_train[train])
    assert row["accuracy"] == np.mean(scored == 3)
    # the two would differ if training rows were scored
    assert row["accuracy"] != np.mean(arrays.y_train[train] == 3)
    assert row["n"] == len(Remembers.last.X) != len(scored)


def test_dp_sgd_is_told_of_its_own_records_and_seed(remembering):
    row = dp_sgd("test", seed=11)
    given = Remembers.last.given
    n = row["n"]
    assert given["noise_seed"] == 11
    assert given["sample_rate"] == 50 / n
    # epochs times records over the batch
    assert given["steps"] == 7 * n // 50
    assert given["noise_multiplier"] == 2.0
    assert row["sigma"] == 2.5  # what the model says that it used
    assert row["advantage"] == Remembers.profile_.advantage


def test_dpbag_scores_the_test_third_and_the_labels_of_the_rows_asked(monkeypatch):
    rng = np.random.default_rng(0)
    thirds = [
        Labelled(rng.normal(size=(20, 2)), rng.integers(2, size=20)) for _ in range(3)
    ]
    scored = []
    monkeypatch.setattr(
        dpbag.runs, "scores", lambda model, test: scored.append(test) or {}
    )
    row = dpbag._scored(
        None, thirds[1], 1 - thirds[1].y[:7], Thirds(*thirds, "digest"), "cpu"
    )
    assert scored[0] is thirds[2]
    assert (row["labels"], row["label_accuracy"]) == (7, 0.0)


def test_each_partition_of_a_vote_has_noise_of_its_own(monkeypatch):
    task = Task(
        np.zeros((4, 2), np.float32),
        np.arange(4),
        np.zeros((2, 2), np.float32),
        np.arange(2),
        4,
        "digest",
    )
    seeds = []

    def vote(counts, *, beta, seed, n_repeats):
        seeds.append(seed)
        return np.zeros((n_repeats, 2), int)

    monkeypatch.setattr(runs, "soft_vote", vote)
    monkeypatch.setattr(runs, "shard_votes", lambda *_: np.ones((3, 2, 4), int))
    for seed in (0, 1):
        release = runs.Release(
            1.0,
            0.0,
            "tight",
            answers=5,
            n_models=2,
            repeats=30,
            seed=seed,
            device="cpu",
        )
        assert len(runs.subsample_aggregate(task, release).accuracies) == 30
    # three partitions for each of two seeds
    assert len(set(seeds)) == 6


def test_an_audit_counts_on_runs_that_its_test_was_not_fitted_to(monkeypatch):
    experiment = next(
        found for found in sgd.EXPERIMENTS if found.name == "intrinsic_sgd_audit"
    )
    row = next(row for row in experiment.grids["quick"]() if row["record"] == "typical")
    seeds = []

    class Pair:
        feature = None

        def ends(self, setting, *, runs, seed, device):
            seeds.append(seed)
            ends = np.random.default_rng(seed).normal(size=(runs, 2, 3))
            return ends + np.array([[0.0], [4.0]])  # the member's are farther on

    monkeypatch.setattr(sgd.audits, "pair", lambda *_: Pair())
    found = sgd.audit(**{**row, "fit_runs": 60, "test_runs": 50, "device": "cpu"})
    # fitted on some runs, judged on others
    assert len(set(seeds)) == 2
    assert found["true_positives"] > 40 > 10 > found["false_positives"]
    assert found["positives"] == found["negatives"] == 50
