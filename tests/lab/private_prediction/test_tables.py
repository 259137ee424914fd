"""What the private-prediction chapter says of rows: cells, sentences, arrows, figures, and what it computes live."""

import math

import numpy as np
import pandas as pd
import pytest

from dpnotes.lab.experiments import paper_table
from dpnotes.lab.private_prediction import grids
from dpnotes.lab.private_prediction.cells import Look, arrows, crossing, crossing_in_words, statements
from dpnotes.lab.private_prediction.grids import GRIDS
from dpnotes.lab.private_prediction.tables import (
    loss_noise,
    noise_by_answers,
    put_together,
    series,
    volume_regularisers,
    vote_attack,
)


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
    assert list(series(rows, "loss_perturbation", "l2", epsilon=5.0).x) == [1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 5e-1]
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
    assert set(empty["id"]) <= set(paper_table("private_prediction_text")["claim_id"])


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
    # one convention for both columns of T: at a temperature over the number of votes both fall, at a fixed one neither
    assert ours["T", "privacy loss epsilon"] == ours["T", "privacy failure probability delta"] == "down"


def test_noise_by_answers():
    """Values of theory: 5.297 times too much noise at 100 answers, none at one; the released model does not grow."""
    table = noise_by_answers((1, 100), epsilon=1.0, delta=1e-5).set_index("answers")
    assert table.loc[100, "ratio"] == pytest.approx(5.29674416, rel=1e-6)
    assert table.loc[1, "ratio"] == pytest.approx(1.0, rel=1e-9)
    assert table.loc[100, "exact"] == pytest.approx(10 * table.loc[100, "model"], rel=1e-9)
    assert table.loc[100, "lead"] == pytest.approx(math.log(19) / 0.02472108218, rel=1e-6)
    assert table.loc[100, "published_lead"] == pytest.approx(math.log(19) / 0.02040585129, rel=1e-6)


def test_regularisers_by_closed_form():
    table = volume_regularisers((2, 10, 100), epsilon=1.0).set_index("n_classes")
    assert table["least"].tolist() == pytest.approx([0.7707470413, 1.750462939, 1.975004209], rel=1e-8)
    assert table["published"].tolist() == [2.0, 10.0, 100.0]


def test_noise_in_the_loss():
    """Test vectors of theory; at n l2 = 600 the volume costs 0.0015, and a class-wise density leaves rate 0.4993."""
    setting = {"n": 60_000, "d": 784, "n_classes": 10, "epsilon": 1.0}
    table = loss_noise((1e-2, 1e-5), deltas=(0.0, 1e-5), **setting)
    assert table["volume"].tolist()[:2] == pytest.approx([0.0014998750, 0.5], rel=1e-6)
    pure, normal = table.iloc[0], table.iloc[2]
    assert pure["published"] == pure["split"] == pytest.approx(math.sqrt(7841) * 2 * math.sqrt(2), rel=1e-9)
    assert pure["tight"] == pytest.approx(2 * math.sqrt(785) / (1 - 0.0014998750), rel=1e-8)
    assert [normal["published"], normal["split"]] == pytest.approx([14.25823139, 13.5321616], rel=1e-8)
    assert normal["published"] / normal["ratio"] == pytest.approx(normal["tight"], rel=1e-12)
    assert 5.2759 < normal["tight"] < 5.95  # that of one shift of norm sqrt(2), and a union bound over nine


def test_attack_catches_the_published_vote_only():
    table = vote_attack(epsilon=1.0, n_models=4, trials=20_000, seed=0).set_index("analysis")
    assert list(table["caught"]) == [True, False]
    assert (table["audited"] <= table["exact"]).all()
    assert table.loc["tight", "exact"] <= 1.0 < 1.85 < table.loc["published", "exact"] <= 2.0
    few = vote_attack(epsilon=1.0, n_models=4, trials=50, seed=0)
    assert list(few["caught"]) == [False, False]  # without power nothing is caught
