"""DP-SGD as exposing as bagging, and a private base learner on a subsample: calibration, guarantees, bad input."""

import math

import numpy as np
import pandas as pd
import pytest

from dpnotes import accounting
from dpnotes.lab import bagging, experiments
from dpnotes.lab.bagging.exposure import noise_for_tpr, tpr_at_fpr_1e3


def test_noise_exposes_the_stated_rate_and_hardly_less():
    tpr, steps = 0.05, {"sample_rate": 0.004, "steps": 500}
    noise = noise_for_tpr(tpr, **steps)
    for factor, least, most in ((1.0, 0.99 * tpr, tpr), (0.95, tpr, 1.0)):
        assert least < tpr_at_fpr_1e3(accounting.dp_sgd(noise_multiplier=factor * noise, **steps)) <= most


def test_what_guessing_reaches_cannot_be_forbidden():
    for tpr in (0.0005, 1.0):
        with pytest.raises(ValueError, match=r"tpr_at_fpr_1e3 must be in \(0.001, 1\), got tpr_at_fpr_1e3="):
            noise_for_tpr(tpr, sample_rate=0.1, steps=10)


def row(**change):
    return {**bagging.grids.private_base("quick")[0], "device": "cpu", **change}


def test_modes_state_the_guarantee_of_what_they_release():
    """One epsilon for both private modes; amplified Gaussian noise by its closed form; pi for the bare subsample."""
    bagged, direct, bare = (bagging.experiments.private_base(**row(mode=mode)) for mode in ("bagged", "direct", "bare"))
    rate = 400 / 1442
    assert bagged["release_epsilon"] == pytest.approx(math.log1p(rate * math.expm1(1.0)), rel=1e-6)
    assert direct["release_epsilon"] == pytest.approx(bagged["release_epsilon"], rel=1e-6)
    base = accounting.gaussian(sigma=accounting.gaussian_sigma(1.0, 1e-5), adjacency="replace-one")
    assert bagged["advantage"] == pytest.approx(rate * base.advantage)
    assert bare["advantage"] == pytest.approx(rate)
    assert bare["tpr_at_fpr_1e3"] == pytest.approx(rate + 0.001)
    assert bare["release_epsilon"] is None
    assert {r["adjacency"] for r in (bagged, direct, bare)} == {"replace-one"}
    assert bare["accuracy"] > max(bagged["accuracy"], direct["accuracy"])
    assert bagged == bagging.experiments.private_base(**row())


def test_linear_dp_sgd_is_calibrated_to_what_it_exposes():
    rare, everywhere = bagging.grids.equal("quick", seeds=1)
    assert (rare["tpr_at_fpr_1e3"], everywhere["epsilon"], rare["width"]) == (everywhere["delta"], 0.0, None)
    done = bagging.experiments.dp_sgd(**{**everywhere, "epochs": 5}, device="cpu")
    assert done["advantage"] == pytest.approx(everywhere["delta"], rel=1e-3)
    assert done["accuracy"] > 0.6


def test_settings_are_those_that_held_out_rows_choose():
    rows = experiments.rows("bagging_private_base_settings")
    best = rows.groupby("l2")["accuracy"].mean().idxmax()
    assert {r["l2"] for r in bagging.grids.private_base("paper")} == {best}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mode": "half"}, "mode must be one of 'bare', 'bagged', 'direct', got mode='half'"),
        ({"split": "rest"}, "split must be one of 'test', 'validation', got split='rest'"),
    ],
)
def test_bad_parameters_are_named(change, message):
    with pytest.raises(ValueError, match=message):
        bagging.experiments.private_base(**row(**change))


def test_equal_exposure_sets_means_and_stds_at_the_same_exposure_side_by_side():
    n = bagging.grids.RECORDS["quick"]
    exposed = {size: accounting.bagging(n=n, subsample=size).advantage for size in (50, 100)}
    bagged = pd.DataFrame({"subsample": [50, 50, 100, None], "accuracy": [0.5, 0.7, 0.8, 0.9]})
    equal = pd.DataFrame(
        {
            "width": [None, None, 16, None],
            "delta": [exposed[50], exposed[50], None, None],
            "tpr_at_fpr_1e3": [None, None, exposed[100], exposed[100]],
            "accuracy": [0.2, 0.4, 0.6, None],
        }
    )
    table = bagging.tables.equal_exposure(bagged, equal, "quick").set_index("subsample")
    assert table.index.tolist() == [50, 100]
    assert table["advantage"].to_dict() == exposed
    assert table.loc[50, ["bagging", "softmax_advantage"]].tolist() == pytest.approx([0.6, 0.3])
    assert table.loc[50, "softmax_advantage_std"] == pytest.approx(0.2 / np.sqrt(2))
    assert table.loc[100, "network_tpr"] == 0.6
    assert table.loc[100, "network_tpr_seeds"] == 1
    assert table.loc[100].isna().sum() == 14  # bagging has one seed; one run of DP-SGD is known, of six
    shown = bagging.tables.EQUAL_EXPOSURE(table.reset_index()).to_html()
    assert "30.00%\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}14.14" in shown
    assert shown.count("not run yet") == 6


def exposed_lines(**sides):
    """A line of equal_exposure: mean, standard deviation and seeds of each side; the others were not run."""
    names = [
        "bagging",
        "bagging_hog",
        *(f"{model}_{sense}" for model in ("softmax", "network", "hog") for sense in ("advantage", "tpr")),
    ]
    line = {"subsample": 300}
    for name in names:
        value, std, seeds = sides.get(name, (np.nan, np.nan, 0))
        line |= {name: value, f"{name}_std": std, f"{name}_seeds": seeds}
    return pd.DataFrame([line])


def test_standings_follow_the_one_rule_and_turn_with_the_rows():
    sides = {"bagging": (0.9, 0.005, 5), "softmax_advantage": (0.85, 0.005, 3), "network_tpr": (0.95, 0.005, 3)}
    sides |= {"network_advantage": (0.899, 0.005, 3), "bagging_hog": (0.94, 0.0005, 5), "hog_tpr": (0.9405, 0.0005, 3)}
    (line,) = bagging.tables.standings(exposed_lines(**sides)).to_dict("records")
    assert line["softmax_advantage"] == "ahead"
    assert line["network_tpr"] == "behind"
    assert line["network_advantage"] == "undecided"
    assert line["hogs_tpr"] == "equal"
    assert line["hog_tpr"] == "behind"
    assert line["hogs_advantage"] == "not run"
    sides["softmax_advantage"], sides["bagging"] = sides["bagging"], sides["softmax_advantage"]
    assert bagging.tables.standings(exposed_lines(**sides))["softmax_advantage"].tolist() == ["behind"]
    shown = bagging.tables.STANDINGS(bagging.tables.standings(exposed_lines(**sides))).to_html()
    assert "behind" in shown


def test_private_bases_are_compared_by_the_one_rule():
    one = pd.Series({"accuracy": 0.85, "standard_error": 0.002, "seeds": 10})
    other = pd.Series({"accuracy": 0.83, "standard_error": 0.002, "seeds": 10})
    assert bagging.tables.stands(one, other) == "ahead"
    assert bagging.tables.stands(other, one) == "behind"
    assert bagging.tables.stands(one, one) == "undecided"
