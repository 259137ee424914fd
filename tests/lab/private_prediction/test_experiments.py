"""Experiments of the private-prediction chapter: tasks, rows against estimators, grids, series, arrows, statements."""

import math

import numpy as np
import pandas as pd
import pytest

from dpnotes import accounting, data, methods
from dpnotes.lab import experiments
from dpnotes.lab._shared import as_codes
from dpnotes.lab.experiments import paper_table
from dpnotes.lab.private_prediction import data as arrays
from dpnotes.lab.private_prediction import experiments as chapter
from dpnotes.lab.private_prediction import figures as drawn
from dpnotes.lab.private_prediction import grids, networks, runs, tables
from dpnotes.lab.private_prediction.arrows import HYPERPARAMETERS, arrows, show_arrows
from dpnotes.lab.private_prediction.grids import GRIDS, METHODS, point
from dpnotes.lab.private_prediction.series import put_together, series
from dpnotes.lab.private_prediction.statements import STATEMENTS, Look, crossing, crossing_in_words, statements
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
    with pytest.raises(ValueError, match="dataset must be one of 'mnist', 'digits', got dataset='iris'"):
        arrays.task("iris")


def test_principal_axes_keep_the_most_of_the_rows():
    """Another road: the singular values of the rows."""
    whole, few = arrays.task("digits"), arrays.task("digits", d=7)
    values = np.linalg.svd(whole.X.astype(float), compute_uv=False)
    assert math.isclose((few.X.astype(float) ** 2).sum(), (values[:7] ** 2).sum(), rel_tol=1e-4)


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


def test_rows_are_what_the_estimators_do():
    """Model sensitivity and loss perturbation by their estimators, the first of the releases."""
    own = arrays.task("digits")
    for method, kind in (("model_sensitivity", "ModelSensitivity"), ("loss_perturbation", "LossPerturbation")):
        row = chapter.trade_off(**digits(method, l2=0.01, repeats=400 if method == "model_sensitivity" else 20))
        estimator = getattr(methods, kind)(20.0, l2=0.01, intercept=False, adjacency="add-remove", device="cpu")
        scores = [
            estimator.set_params(noise_seed=s).fit(own.X, own.y).score(own.X_score, own.y_score) for s in range(20)
        ]
        error = math.hypot(np.std(scores), row["accuracy_std"]) / math.sqrt(20)
        assert abs(np.mean(scores) - row["accuracy"]) < 4 * error


def test_answers_are_what_the_estimators_give():
    own = arrays.task("digits")
    row = chapter.trade_off(**digits("subsample_aggregate", n_models=30, answers=355, epsilon=100.0, repeats=40))
    estimator = methods.SubsampleAggregate(100.0, answers=355, n_models=30, device="cpu")
    scores = [estimator.set_params(noise_seed=s).fit(own.X, own.y).score(own.X_score, own.y_score) for s in range(20)]
    error = math.hypot(np.std(scores), row["accuracy_std"]) / math.sqrt(20)
    assert abs(np.mean(scores) - row["accuracy"]) < 4 * error
    row = chapter.trade_off(
        **digits("prediction_sensitivity", l2=0.05, answers=355, epsilon=200.0, delta=1e-5, repeats=40)
    )
    estimator = methods.PredictionSensitivity(
        200.0, 1e-5, l2=0.05, answers=355, intercept=False, adjacency="add-remove", device="cpu"
    )
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
    assert tables.CLIPPING(tables.clipping_norms(pd.DataFrame(grid))).to_html().count("not run yet") == 4


def test_the_clipping_norm_in_use_is_that_of_the_stored_rows():
    chosen = tables.clipping_norms(experiments.rows("private_prediction_network_settings")).query("chosen")
    assert chosen["clipping_norm"].tolist() in ([], [networks.CLIPPING_NORM])


def test_bad_parameters_are_named():
    with pytest.raises(ValueError, match=r"method must be one of 'model_sensitivity', .*, got method='pate'"):
        chapter.trade_off(**digits("model_sensitivity") | {"method": "pate"})
    with pytest.raises(ValueError, match="method must be one of 'non_private'"):
        chapter.network(method="pate", dataset="digits", epsilon=None, answers=None, seed=0)


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


def made_up(accuracy, **changed):
    """Rows of a grid whose accuracies are a function of the parameters."""
    rows = pd.DataFrame([row for make in GRIDS.values() for row in make()]).drop_duplicates()
    rows = rows.assign(
        accuracy=[accuracy(row) for row in rows.to_dict("records")], accuracy_std=0.001, noise=1.0, **changed
    )
    return put_together(rows.assign(chosen_l2=0.01))


def test_series_pick_their_points():
    rows = made_up(lambda row: 0.5)
    assert list(series(rows, "model_sensitivity", "epsilon").x) == [0.1, 0.25, 0.5, 1.0, 2.0, 5.0]
    assert list(series(rows, "subsample_aggregate", "answers", delta=1e-5).x)[:3] == [1, 2, 5]
    assert len(series(rows, "loss_perturbation", "answers").x) == 1  # a released model: any number
    assert 60_000 in series(rows, "model_sensitivity", "n").x
    assert 784 in series(rows, "model_sensitivity", "d").x
    assert 1e-5 in series(rows, "dp_sgd", "delta", delta=None).x
    assert list(series(rows, "loss_perturbation", "l2", epsilon=5.0).x) == [1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 5e-1]
    assert 256 in series(rows, "subsample_aggregate", "n_models").x
    assert series(rows, "dp_sgd", "epsilon", delta=0.0) is None
    with pytest.raises(KeyError):
        series(rows, "model_sensitivity", "epsilon").at(0.3)


def test_crossing_is_told_by_the_points_around_it():
    """Votes fall by 0.1 a decade from 0.6, loss perturbation stands at 0.41: they meet at 10^1.9, too close to 80."""

    def accuracy(row):
        return 0.6 - 0.1 * math.log10(row["answers"]) if row["method"] == "subsample_aggregate" else 0.41

    assert crossing(Look(made_up(accuracy), "tight"), 0.0) == (60, 100)
    assert crossing_in_words((60, 80)) == "between B = 60 and 80"
    assert crossing_in_words((-math.inf, 80)) == "from B = 80 on"
    level = crossing(Look(made_up(lambda row: 0.5), "tight"), 0.0)
    assert crossing_in_words(level) == "at no B that was run"
    assert crossing_in_words((math.nan, math.nan)) == "not run yet"


def test_statements_can_hold_and_fail_and_be_gaps():
    def paper_like(row):
        rank = {"subsample_aggregate": 0.1, "loss_perturbation": 0.05, "dp_sgd": 0.3, "prediction_sensitivity": -0.3}
        return 0.5 + rank.get(row["method"], 0.0)

    verdicts = statements(made_up(paper_like)).set_index("id")
    assert verdicts.loc["pp033", "tight"] == "holds"
    assert verdicts.loc["pp036", "tight"] == "holds"
    assert verdicts.loc["pp039", "tight"] == "holds"
    assert verdicts.loc["pp034", "tight"] == "reversed"
    assert verdicts.loc["pp042", "published"] == "reversed"
    assert verdicts.loc["pp045", "tight"] == "reversed"  # no gain at all
    assert verdicts.loc["pp038", "tight"] == "undecided"  # places that are known to be equal
    empty = statements(made_up(lambda row: math.nan))
    assert set(empty["tight"]) == {"gap"}
    assert set(empty["published"]) == {"gap"}
    assert tables.STATEMENTS(empty).to_html().count("not run yet") > len(STATEMENTS)
    known = set(paper_table("private_prediction_text")["claim_id"])
    assert {statement.claim_id for statement in STATEMENTS} <= known


def test_thirty_arrows():
    rows = made_up(lambda row: 0.5 + 0.001 * (row["n_classes"] or 10))
    times = pd.DataFrame(grids.times())
    steps = {"n": 1.0, "d": 0.8, "n_classes": 1.0, "n_models": 1.0, "answers": 0.0, "l2": 0.0}
    seconds = [row["n"] * row["d"] * row["n_classes"] * row["n_models"] ** steps["n_models"] for row in grids.times()]
    noise = np.random.default_rng(0).normal(0, 0.01, len(times))
    times = times.assign(train_seconds=np.array(seconds) * np.exp(noise), predict_seconds=np.exp(noise))
    table = arrows(rows, times)
    assert len(table) == 30
    ours = table.set_index(["hyperparameter", "quantity"])["ours"]
    assert ours["N", "training time"] == ours["T", "training time"] == "up"
    assert ours["B", "training time"] == ours["N", "inference time"] == "unchanged"
    assert ours["C", "accuracy"] == "up"
    assert (ours["N", "privacy loss epsilon"], ours["B", "privacy loss epsilon"]) == ("down", "up")
    gaps = arrows(made_up(lambda row: math.nan), pd.DataFrame(columns=["method", "varied"]))
    assert gaps["ours"].isna().sum() == 18
    assert "?" in show_arrows(gaps).to_html()
    # one convention for both columns of T: at a temperature over the number of votes both fall, at a fixed one neither
    assert ours["T", "privacy loss epsilon"] == ours["T", "privacy failure probability delta"] == "down"
    assert set(HYPERPARAMETERS) == {"n", "n_classes", "d", "answers", "n_models", "l2"}


def test_figures_draw_every_method_and_name_gaps():
    rows = made_up(lambda row: math.nan if row["method"] == "dp_sgd" else 0.5)
    panels = [
        drawn.Panel("one", "epsilon", METHODS, {"delta": 1e-5}),
        drawn.Panel("two", "answers", METHODS, {"delta": 1e-5}, mark=80),
    ]
    figure = drawn.trade_offs(rows, panels, mark="published crossing")
    first, second = figure.axes
    assert len(first.lines) == 4
    assert len(second.lines) == 5  # and the mark
    assert first.get_title() == "one\nnot run yet: DP-SGD"
    assert "published crossing" in [text.get_text() for text in figure.legends[0].get_texts()]


def test_quick_rows_are_quick_and_ordered():
    """More privacy, less accuracy; and the tight analysis of the votes has half the temperature at delta = 0."""
    rows = {e: chapter.trade_off(**digits("model_sensitivity", epsilon=e, repeats=20)) for e in (1.0, 20.0)}
    assert rows[1.0]["accuracy"] < rows[20.0]["accuracy"]
    noise = {
        a: chapter.trade_off(**digits("subsample_aggregate", n_models=30, analysis=a)) for a in ("tight", "published")
    }
    assert math.isclose(noise["tight"]["noise"], 2 * noise["published"]["noise"])
    assert (noise["tight"]["status"], noise["published"]["status"]) == ("proved", "refuted")
    private = chapter.trade_off(**digits("dp_sgd", delta=1e-5, analysis="published", epsilon=5.0))
    assert private["accuracy"] > 0.8
    assert private["clipping_norm"] in (5e-2, 5e-1)
