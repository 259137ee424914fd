"""What the private-prediction chapter computes live: against closed forms, and an attack that can fail."""

import math

import pytest

from dpnotes.lab.private_prediction.tables import ATTACK, noise_by_answers, volume_regularisers, vote_attack


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
    assert table["tight"].tolist() == pytest.approx([0.7707470413, 1.750462939, 1.975004209], rel=1e-8)
    assert table["published"].tolist() == [2.0, 10.0, 100.0]


def test_attack_catches_the_published_vote_only():
    table = vote_attack(epsilon=1.0, n_models=4, trials=20_000, seed=0).set_index("analysis")
    assert list(table["caught"]) == [True, False]
    assert (table["audited"] <= table["exact"]).all()
    assert table.loc["tight", "exact"] <= 1.0 < 1.85 < table.loc["published", "exact"] <= 2.0
    few = vote_attack(epsilon=1.0, n_models=4, trials=50, seed=0)
    assert list(few["caught"]) == [False, False]  # without power nothing is caught
    assert ATTACK(few).to_html().count(">no<") == 2
