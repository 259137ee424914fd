"""Experiments of the private-prediction chapter: tasks, rows against estimators, settings, networks, grids."""

import math

import numpy as np
import pandas as pd
import pytest

from dpnotes import accounting, data, methods
from dpnotes.lab import experiments
from dpnotes.lab._shared import as_codes
from dpnotes.lab.private_prediction import experiments as chapter
from dpnotes.lab.private_prediction import grids, networks, runs, tables
from dpnotes.lab.private_prediction import runs as arrays
from dpnotes.lab.private_prediction.grids import GRIDS, METHODS, point
from dpnotes.lab.store import read_store, sweep


def digits(method, **changed):
    return point(method, **{"epsilon": 20.0, "delta": 0.0, "dataset": "digits", "repeats": 3, **changed})


def test_tasks_lie_in_the_ball_and_vary_as_asked():
    whole = arrays.task("digits")
    assert (len(whole.X), whole.X.shape[1], whole.n_classes) == (1442, 64, 10)
    few = arrays.task("digits", n=100, d=5, n_classes=3)
    assert (few.X.shape, few.n_classes, set(few.y), set(few.y_score)) == ((100, 5), 3, {0, 1, 2}, {0, 1, 2})
    for own in (whole, few):
        assert np.linalg.norm(np.vstack([own.X, own.X_score]).astype(float), axis=1).max() <= 1
    held = whole.validation
    assert len(held.X) + len(held.X_score) == 1442
    assert len(held.X_score) == 144
    np.testing.assert_array_equal(np.vstack([held.X, held.X_score]), whole.X)


def test_deformed_rows_depend_on_their_number_alone():
    X = arrays.data.load("digits").X_train[:50]
    many, few = arrays.deformed(X, 120, side=8), arrays.deformed(X, 70, side=8)
    np.testing.assert_array_equal(many[:70], few)
    assert many.min() >= 0
    assert many.max() <= 1
    assert np.abs(many[:50] - X).max() > 0.1
    assert np.abs(many[:20] - many[50:70]).max() > 0.1  # the second copy of a row is another one
    larger = arrays.task("digits", n=1500)
    assert len(larger.X) == len(larger.y) == 1500
    assert larger.y[1442] == larger.y[0]


@pytest.mark.parametrize(
    ("kind", "given", "repeats"),
    [
        ("ModelSensitivity", {"l2": 0.01}, 400),
        ("LossPerturbation", {"l2": 0.01}, 20),
        ("SubsampleAggregate", {"n_models": 30, "answers": 355, "epsilon": 100.0}, 40),
        ("PredictionSensitivity", {"l2": 0.05, "answers": 355, "epsilon": 200.0, "delta": 1e-5}, 40),
    ],
)
def test_rows_are_what_the_estimators_do(kind, given, repeats):
    own = arrays.task("digits")
    method = next(name for name in METHODS if name.replace("_", "") == kind.lower())
    row = chapter.trade_off(**digits(method, **given, repeats=repeats))
    options = {"epsilon": 20.0, **given, "adjacency": "add-remove", "device": "cpu"}
    estimator = getattr(methods, kind)(**options, **({"intercept": False} if "l2" in given else {}))
    scores = [estimator.set_params(noise_seed=s).fit(own.X, own.y).score(own.X_score, own.y_score) for s in range(20)]
    error = math.hypot(np.std(scores), row["accuracy_std"]) / math.sqrt(20)
    assert abs(np.mean(scores) - row["accuracy"]) < 4 * error


def test_settings_are_chosen_on_training_rows_alone(monkeypatch):
    """Test labels are replaced by noise: what is chosen must not change."""
    own = arrays.task("digits")
    shuffled = arrays.Task(own.X, own.y, own.X_score, own.y_score[::-1].copy(), own.n_classes, own.digest)
    first = chapter.trade_off(**digits("model_sensitivity"))
    monkeypatch.setattr(arrays, "task", lambda *_, **__: shuffled)
    second = chapter.trade_off(**digits("model_sensitivity"))
    assert first["chosen_l2"] == second["chosen_l2"]
    assert first["accuracy"] > 0.7 > 0.3 > second["accuracy"]


def test_climbing_ends_at_the_best_of_a_hill_and_tries_few():
    own, heights = arrays.task("digits"), {"a": (1, 2, 3, 4, 3, 2), "b": (9, 8, 7, 6, 5, 4), "c": (0, 0, 0, 0, 0, 0)}
    tried = []

    def run(task, *, hill, at):
        assert len(task.X) == 1298  # the training rows without the last tenth
        tried.append((hill, at))
        return runs.Outcome(np.full(3, heights[hill][at]), 0.0, "", "")

    def ladder(hill):
        return [{"hill": hill, "at": i} for i in range(6)]

    assert runs.climb(run, own, [ladder("a")]) == {"hill": "a", "at": 3}
    assert sorted(tried) == [("a", 2), ("a", 3), ("a", 4)]
    assert runs.climb(run, own, [ladder("a"), ladder("b"), ladder("c")]) == {"hill": "b", "at": 0}
    assert len(tried) == len(set(tried)) + 3  # the first ladder twice, no candidate twice in one climb


@pytest.fixture
def images(monkeypatch):
    """In the place of CIFAR-10: 48 random images to train on, 20 to score; networks of one epoch."""
    rng = np.random.default_rng(0)
    X, y = rng.random((68, 192), dtype=np.float32), np.arange(68) % 10
    shape = {"class_names": tuple("0123456789"), "feature_names": None, "image_shape": (3, 8, 8)}
    split = {"X_train": X[:48], "y_train": y[:48], "X_test": X[48:], "y_test": y[48:]}
    images = data.Dataset(name="cifar10", split="original", digest="cifar10:0", **shape, **split)
    monkeypatch.setattr(data, "load", lambda name: images)
    monkeypatch.setattr(networks, "EPOCHS", 1)
    monkeypatch.setattr(networks, "BATCH", 12)
    monkeypatch.setattr(grids, "VOTERS", 3)
    return images


def test_networks_of_a_vote_are_rows_that_all_votes_share(images, tmp_path, monkeypatch):
    """Each is, bit for bit, the one that is fitted with all others; a sweep of votes trains each once."""
    learner = networks._network(images, seed=0, device="cpu")
    together = methods.fit_shards(
        images.X_train, images.y_train, n_classes=10, n_models=3, estimator=learner, seed=0
    ).votes(images.X_test)
    votes = [
        {"method": "subsample_aggregate", "dataset": "cifar10", "seed": 0} | {"epsilon": e, "answers": b}
        for e, b in ((1.0, 10), (5.0, 10), (5.0, 1))
    ]
    trained, vote_of = [], networks.vote_of
    monkeypatch.setattr(networks, "vote_of", lambda *a, **k: trained.append(a[1]) or vote_of(*a, **k))
    options = {"device": "cpu"}
    store = tmp_path / "private_prediction_networks"
    for rows in (votes[:1], votes):
        table = sweep(chapter.network, rows, store=store, options=options, progress=False)
    assert sorted(trained) == [0, 1, 2]
    shared = read_store(tmp_path / "private_prediction_vote_networks").sort_values("model")
    np.testing.assert_array_equal([as_codes(text) for text in shared["votes"]], together)
    assert table["accuracy"].between(0, 1).all()
    expected = accounting.soft_vote_beta(5.0, 1e-5, answers=1)
    assert table["noise"][2] == pytest.approx(1 / expected)
    alone = chapter.network(**votes[0], **options)  # outside of a sweep, for itself
    assert alone["accuracy"] == table["accuracy"][0]
    assert sorted(trained) == [0, 0, 1, 1, 2, 2]


def test_the_clipping_norm_is_chosen_on_held_out_rows(images, monkeypatch):
    monkeypatch.setattr(networks, "HELD_OUT", 12)
    monkeypatch.setattr(networks, "DP_EPOCHS", 2)
    given = {"dataset": "cifar10", "epsilon": 1.0, "epochs": 1, "seed": 0, "device": "cpu"}
    fits, fit = [], networks.DPSGD.fit
    monkeypatch.setattr(networks.DPSGD, "fit", lambda self, X, y: fits.append((self, X)) or fit(self, X, y))
    row = chapter.network_setting(clipping_norm=0.5, **given)
    ((model, X),) = fits
    np.testing.assert_array_equal(X, images.X_train[:36])  # neither test rows nor held-out ones
    assert (model.clipping_norm, model.steps, model.sample_rate) == (0.5, 3, 12 / 36)
    assert row["noise"] == accounting.dp_sgd_noise_multiplier(1.0, 1e-5, sample_rate=12 / 36, steps=6, accountant="pld")
    assert row["accuracy"] in np.arange(13) / 12
    grid = grids.network_settings()
    rows = pd.DataFrame(grid).assign(accuracy=[0.3, 0.3, 0.3, 0.2, 0.5, 0.5, 0.9, 0.0, 0.0, 0.1, 0.1, 0.1])
    table = tables.clipping_norms(rows)
    assert table.query("chosen")["clipping_norm"].tolist() == [0.1]  # the best mean, not the best seed
    assert not tables.clipping_norms(rows.assign(accuracy=rows["accuracy"].replace(0.9, np.nan)))["chosen"].any()


def test_the_clipping_norm_in_use_is_that_of_the_stored_rows():
    chosen = tables.clipping_norms(experiments.rows("private_prediction_network_settings")).query("chosen")
    assert chosen["clipping_norm"].tolist() in ([], [networks.CLIPPING_NORM])


def test_grids_have_each_point_once():
    for grid in (*(make() for make in GRIDS.values()), grids.quick(), grids.times(), grids.networks()):
        assert len({tuple(row.items()) for row in grid}) == len(grid)
        assert len({tuple(row) for row in grid}) == 1  # the same parameters in each
    for experiment in chapter.EXPERIMENTS:
        assert experiment.chapter == "private_prediction"
        assert experiments.find(experiment.name) is experiment
        assert all(experiment.cost(row) > 0 for make in experiment.grids.values() for row in make())
    trained = [
        row for row in GRIDS["privacy"]() if row["method"] in ("model_sensitivity", "loss_perturbation", "dp_sgd")
    ]
    assert all(row["answers"] is None for row in trained)
