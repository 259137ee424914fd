"""Private prediction: tasks, rows against estimators, settings, networks, grids;
what the chapter says of rows.
"""

import ast
import json
import math
import re

import numpy as np
import pandas as pd
import pytest
import torch

from dpnotes import accounting, methods
from dpnotes.lab._shared import as_codes
from dpnotes.lab.experiments import paper_table
from dpnotes.lab.private_prediction import (
    experiments as chapter,
    grids,
    networks,
    runs,
)
from dpnotes.lab.private_prediction.authors_code import loss_perturbation, votes
from dpnotes.lab.private_prediction.grids import GRIDS, METHODS, points
from dpnotes.lab.private_prediction.results import (
    Look,
    crossing,
    crossing_in_words,
    loss_noise,
    put_together,
    series,
    vote_attack,
    with_bias,
)
from dpnotes.lab.store import published_store, read_store, sweep


def digits(method, **changed):
    given = {"epsilon": 20.0, "delta": 0.0, "dataset": "digits", "repeats": 3}
    (row,) = points(method, **{**given, **changed})
    return row


def test_tasks_lie_in_the_ball_and_vary_as_asked():
    whole = runs.task("digits")
    assert (len(whole.X), whole.X.shape[1], whole.n_classes) == (1442, 64, 10)
    few = runs.task("digits", n=100, d=5, n_classes=3)
    assert (few.X.shape, few.n_classes, set(few.y), set(few.y_score)) == (
        (100, 5),
        3,
        {0, 1, 2},
        {0, 1, 2},
    )
    for own in (whole, few):
        assert (
            np.linalg.norm(np.vstack([own.X, own.X_score]).astype(float), axis=1).max()
            <= 1
        )
    # training rows alone
    held = whole.validation
    assert len(held.X) + len(held.X_score) == 1442
    assert len(held.X_score) == 144
    np.testing.assert_array_equal(np.vstack([held.X, held.X_score]), whole.X)


def test_deformed_rows_depend_on_their_number_alone():
    X = runs.data.load("digits").X_train[:50]
    # seventy are the first of a hundred and twenty
    many = runs.deformed(X, 120, side=8)
    few = runs.deformed(X, 70, side=8)
    np.testing.assert_array_equal(many[:70], few)
    assert many.min() >= 0
    assert many.max() <= 1
    assert np.abs(many[:50] - X).max() > 0.1
    # the second copy of a row is another one
    assert np.abs(many[:20] - many[50:70]).max() > 0.1
    larger = runs.task("digits", n=1500)
    assert len(larger.X) == len(larger.y) == 1500
    assert larger.y[1442] == larger.y[0]


@pytest.mark.parametrize(
    ("kind", "given", "repeats"),
    [
        ("ModelSensitivity", {"l2": 0.01}, 400),
        ("LossPerturbation", {"l2": 0.01}, 20),
        ("SubsampleAggregate", {"n_models": 30, "answers": 355, "epsilon": 100.0}, 40),
        (
            "PredictionSensitivity",
            {"l2": 0.05, "answers": 355, "epsilon": 200.0, "delta": 1e-5},
            40,
        ),
    ],
)
def test_rows_are_what_the_estimators_do(kind, given, repeats):
    own = runs.task("digits")
    method = next(name for name in METHODS if name.replace("_", "") == kind.lower())
    row = chapter.trade_off(**digits(method, **given, repeats=repeats))
    options = {"epsilon": 20.0, **given, "adjacency": "add-remove", "device": "cpu"}
    if "l2" in given:
        options |= {"intercept": False, "n": len(own.X)}
    estimator = getattr(methods, kind)(**options)
    scores = [
        estimator.set_params(noise_seed=s)
        .fit(own.X, own.y)
        .score(own.X_score, own.y_score)
        for s in range(20)
    ]
    # of the difference of two means of twenty
    error = math.hypot(np.std(scores), row["accuracy_std"]) / math.sqrt(20)
    assert abs(np.mean(scores) - row["accuracy"]) < 4 * error


def test_settings_are_chosen_on_training_rows_alone(monkeypatch):
    """Test labels are replaced by noise: what is chosen must not change."""
    own = runs.task("digits")
    shuffled = runs.Task(
        own.X, own.y, own.X_score, own.y_score[::-1].copy(), own.n_classes, own.digest
    )
    first = chapter.trade_off(**digits("model_sensitivity"))
    monkeypatch.setattr(runs, "task", lambda *_, **__: shuffled)
    second = chapter.trade_off(**digits("model_sensitivity"))
    assert first["chosen_l2"] == second["chosen_l2"]
    assert first["accuracy"] > 0.7 > 0.3 > second["accuracy"]


def test_climbing_ends_at_the_best_of_a_hill_and_tries_few():
    own = runs.task("digits")
    heights = {
        "a": (1, 2, 3, 4, 3, 2),
        "b": (9, 8, 7, 6, 5, 4),
        "c": (0, 0, 0, 0, 0, 0),
    }
    tried = []

    def run(task, *, hill, at):
        assert len(task.X) == 1298  # the training rows without the last tenth
        tried.append((hill, at))
        return runs.Outcome(np.full(3, heights[hill][at]), 0.0, "", "")

    def ladder(hill):
        return [{"hill": hill, "at": i} for i in range(6)]

    assert runs.climb(run, own, [ladder("a")]) == {"hill": "a", "at": 3}
    assert sorted(tried) == [("a", 2), ("a", 3), ("a", 4)]
    assert runs.climb(run, own, [ladder("a"), ladder("b"), ladder("c")]) == {
        "hill": "b",
        "at": 0,
    }
    # the first ladder twice, no candidate twice in one climb
    assert len(tried) == len(set(tried)) + 3


@pytest.fixture
def images(random_images, monkeypatch):
    monkeypatch.setattr(networks, "BATCH", 12)
    monkeypatch.setattr(grids, "VOTERS", 3)
    return random_images(8, 48)


def test_networks_of_a_vote_are_rows_that_all_votes_share(
    images, tmp_path, monkeypatch
):
    """Each is, bit for bit, the one that is fitted with all others; a sweep of votes
    trains each once.
    """
    learner = networks.resnet(images, epochs=1, seed=0, device="cpu")
    together = methods.fit_shards(
        images.X_train,
        images.y_train,
        n_classes=10,
        n_models=3,
        estimator=learner,
        seed=0,
    ).votes(images.X_test)
    votes = [
        {"method": "subsample_aggregate", "dataset": "cifar10", "seed": 0, "epochs": 1}
        | {"epsilon": e, "answers": b}
        for e, b in ((1.0, 10), (5.0, 10), (5.0, 1))
    ]
    trained = []
    vote_of = networks.vote_of
    monkeypatch.setattr(
        networks, "vote_of", lambda *a, **k: trained.append(a[1]) or vote_of(*a, **k)
    )
    options = {"device": "cpu"}
    store = tmp_path / "private_prediction_networks"
    # the second sweep needs no training
    for rows in (votes[:1], votes):
        table = sweep(
            chapter.network, rows, store=store, options=options, progress=False
        )
    assert sorted(trained) == [0, 1, 2]
    shared = read_store(tmp_path / "private_prediction_vote_networks").sort_values(
        "model"
    )
    np.testing.assert_array_equal(
        [as_codes(text) for text in shared["votes"]], together
    )
    assert table["accuracy"].between(0, 1).all()
    expected = accounting.soft_vote_beta(5.0, 1e-5, answers=1)
    assert table["noise"][2] == pytest.approx(1 / expected)
    alone = chapter.network(**votes[0], **options)  # outside of a sweep, for itself
    assert alone["accuracy"] == table["accuracy"][0]
    assert sorted(trained) == [0, 0, 1, 1, 2, 2]


def test_the_clipping_norm_is_chosen_on_held_out_rows(images, monkeypatch):
    monkeypatch.setattr(networks, "HELD_OUT", 12)
    given = {
        "dataset": "cifar10",
        "epsilon": 1.0,
        "epochs": 1,
        "whole_epochs": 2,
        "seed": 0,
        "device": "cpu",
    }
    # who was trained, and on what
    fits = []
    fit = networks.DPSGD.fit
    monkeypatch.setattr(
        networks.DPSGD,
        "fit",
        lambda self, X, y: fits.append((self, X)) or fit(self, X, y),
    )
    row = chapter.network_setting(clipping_norm=0.5, **given)
    ((model, X),) = fits
    # neither test rows nor held-out ones
    np.testing.assert_array_equal(X, images.X_train[:36])
    assert (model.clipping_norm, model.steps, model.sample_rate) == (0.5, 3, 12 / 36)
    assert row["noise"] == accounting.dp_sgd_noise_multiplier(
        1.0, 1e-5, sample_rate=12 / 36, steps=6, accountant="pld"
    )
    assert row["accuracy"] in np.arange(13) / 12


def made_up(accuracy, **changed):
    """Rows of a grid whose accuracies are a function of the parameters."""
    rows = pd.DataFrame(
        [row for make in GRIDS.values() for row in make()]
    ).drop_duplicates()
    rows = rows.assign(
        accuracy=[accuracy(row) for row in rows.to_dict("records")],
        accuracy_std=0.001,
        noise=1.0,
        **changed,
    )
    return put_together(rows.assign(chosen_l2=0.01))


def test_a_series_has_no_point_that_was_not_run():
    rows = made_up(lambda row: 0.5)
    # a released model: any number
    assert len(series(rows, "loss_perturbation", "answers").x) == 1
    assert series(rows, "dp_sgd", "epsilon", delta=0.0) is None
    with pytest.raises(KeyError):
        series(rows, "model_sensitivity", "epsilon").at(0.3)


def test_crossing_is_told_by_the_points_around_it():
    """Votes fall by 0.1 a decade from 0.6, loss perturbation stands at 0.41: they
    meet at 10^1.9, too close to 80.
    """

    def accuracy(row):
        return (
            0.6 - 0.1 * math.log10(row["answers"])
            if row["method"] == "subsample_aggregate"
            else 0.41
        )

    assert crossing(Look(made_up(accuracy), "tight"), 0.0) == (60, 100)
    assert crossing_in_words((60, 80)) == "between B = 60 and 80"
    assert crossing_in_words((-math.inf, 80)) == "from B = 80 on"
    level = crossing(Look(made_up(lambda row: 0.5), "tight"), 0.0)
    assert crossing_in_words(level) == "at no B that was run"
    assert crossing_in_words((math.nan, math.nan)) == "not run yet"


SENTENCES = r"pp-ev-(looks|figure-\d|39|arrows-.*|45|outcomes)"


@pytest.fixture(scope="module")
def asked(repository):
    """What the page of evidence asks of rows: its cells on the sentences and arrows."""
    path = repository / "book" / "evidence" / "private_prediction_evidence.ipynb"
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    programs = []
    for cell in cells:
        tree = ast.parse("".join(cell["source"]) if cell["cell_type"] == "code" else "")
        if cell["id"] == "pp-ev-02":  # its imports
            tree.body = [node for node in tree.body if hasattr(node, "names")]
        elif not re.fullmatch(SENTENCES, cell["id"]):
            continue
        programs.append(compile(tree, cell["id"], "exec"))

    def ask(rows, times, biased=None):
        names = {"rows": rows, "times": times, "compute": "missing"}
        names["biased"] = rows.iloc[:0] if biased is None else biased
        for program in programs:
            exec(program, names)
        return names

    return ask


def test_stored_outcomes_are_those_of_the_published_rows(asked):
    stores = [read_store(published_store(f"private_prediction_{x}")) for x in GRIDS]
    times = read_store(published_store("private_prediction_times"))
    rows = put_together(*stores)
    biased = with_bias(rows, read_store(published_store("private_prediction_bias")))
    found = asked(rows, times, biased)["outcomes"].astype(str)
    stored = paper_table("outcomes_private_prediction").fillna("").astype(str)
    assert found.to_dict("records") == stored.to_dict("records")


def test_sentences_can_hold_and_fail_and_be_gaps(asked):
    # an order in which some sentences hold and some fail
    rank = {
        "subsample_aggregate": 0.1,
        "loss_perturbation": 0.05,
        "dp_sgd": 0.3,
        "prediction_sensitivity": -0.3,
    }
    no_times = pd.DataFrame(columns=["method", "varied"])
    rows = made_up(lambda row: 0.5 + rank.get(row["method"], 0.0))
    verdicts = asked(rows, no_times)["sentences"].set_index("key")
    for key in ("pp033", "pp036", "pp039"):
        assert verdicts.loc[key, "tight"] == "holds"
    assert verdicts.loc["pp034", "tight"] == "reversed"
    assert verdicts.loc["pp042", "published"] == "reversed"
    assert verdicts.loc["pp045", "tight"] == "reversed"  # no gain at all
    # places that are known to be equal
    assert verdicts.loc["pp038", "tight"] == "undecided"
    empty = asked(made_up(lambda row: math.nan), no_times)
    assert set(empty["sentences"]["tight"]) == {"gap"}
    assert set(empty["sentences"]["published"]) == {"gap"}
    assert set(empty["sentences"]["key"]) <= set(
        paper_table("private_prediction_text")["claim_id"]
    )
    assert empty["arrows"]["ours"].isna().sum() == 18


def test_thirty_arrows(asked):
    rows = made_up(lambda row: 0.5 + 0.001 * (row["n_classes"] or 10))
    times = pd.DataFrame(grids.times())
    # a time that grows with each of them
    seconds = times["n"] * times["d"] * times["n_classes"] * times["n_models"]
    noise = np.exp(np.random.default_rng(0).normal(0, 0.01, len(times)))
    times = times.assign(train_seconds=seconds * noise, predict_seconds=noise)
    table = asked(rows, times)["arrows"]
    assert len(table) == 30
    ours = table.set_index(["hyperparameter", "quantity"])["ours"]
    assert ours["N", "training time"] == ours["T", "training time"] == "up"
    assert ours["B", "training time"] == ours["N", "inference time"] == "unchanged"
    assert ours["C", "accuracy"] == "up"
    assert ours["N", "privacy loss epsilon"] == "down"
    assert ours["B", "privacy loss epsilon"] == "up"
    # one convention for both columns of T: at a temperature over the number of votes
    # both fall, at a fixed one neither
    assert ours["T", "privacy loss epsilon"] == "down"
    assert ours["T", "privacy failure probability delta"] == "down"


def test_noise_in_the_loss():
    """At n l2 = 600 the volume costs 0.0015; a pure density by its variance."""
    setting = {"n": 60_000, "d": 784, "n_classes": 10, "epsilon": 1.0}
    table = loss_noise((1e-2, 1e-5), deltas=(0.0,), **setting)
    assert table["volume"].tolist() == pytest.approx([0.0014998750, 0.5], rel=1e-6)
    pure = table.iloc[0]
    published = math.sqrt(7841) * 2 * math.sqrt(2)
    assert pure[["published", "split"]].tolist() == pytest.approx([published] * 2)
    tight = 2 * math.sqrt(785) / (1 - pure["volume"])
    assert pure["tight"] == pytest.approx(tight, rel=1e-8)


def test_an_attack_without_power_catches_nothing():
    few = vote_attack(epsilon=1.0, n_models=4, trials=50, seed=0)
    assert (few["audited"] < few["exact"]).all()
    assert not few["caught"].any()


@pytest.mark.parametrize("method", ["model_sensitivity", "loss_perturbation"])
def test_a_bias_as_in_the_authors_code_adds_no_noise(method):
    row = digits(method, epsilon=1.0, l2=0.1)
    paper = chapter.trade_off(**{**row, "analysis": "published"})
    code = chapter.trade_off(**{**row, "analysis": "in_code"})
    assert code["noise"] == pytest.approx(paper["noise"], rel=1e-9)
    assert code["status"] == "refuted"
    with pytest.raises(ValueError, match="delta = 0"):
        chapter.trade_off(**{**row, "analysis": "in_code", "delta": 1e-5})


def test_answers_with_a_bias_are_released_at_twice_the_budget():
    # tests/methods/test_answers.py has the noise that follows
    release = runs.Release(1.0, 0.0, "published", 10, None, 1, 0, "cpu")
    biased = release.biased("prediction_sensitivity")
    assert (biased.epsilon, biased.intercept) == (2.0, True)


def test_steps_of_the_authors_code_find_minima_and_draw_answers():
    own = runs.task("digits")
    X, y, X_score = map(torch.as_tensor, (own.X, own.y, own.X_score))
    torch.manual_seed(0)
    # so little noise that it is ordinary logistic regression
    released = loss_perturbation(X, y, 10, epsilon=1e6, l2=1e-4)
    assert (released(X_score).numpy() == own.y_score).mean() > 0.85
    answer = votes(X, y, 10, n_models=4, beta=100.0)
    assert (answer(X_score).numpy() == own.y_score).mean() > 0.8
    # at beta = 0 the votes do not count
    blind = votes(X, y, 10, n_models=2, beta=0.0)
    assert (blind(X_score).numpy() == own.y_score).mean() < 0.2
