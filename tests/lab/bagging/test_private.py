"""DP-SGD as exposing as bagging, and a private base learner on a subsample: calibration, guarantees, bad input."""

import math

import numpy as np
import pandas as pd
import pytest

from dpnotes import accounting
from dpnotes.lab import experiments
from dpnotes.lab.bagging import experiments as bagging
from dpnotes.lab.bagging.private import found, noise_for_found


def test_noise_exposes_the_stated_share_and_hardly_less():
    share, steps = 0.05, {"sample_rate": 0.004, "steps": 500}
    noise = noise_for_found(share, **steps)
    for factor, least, most in ((1.0, 0.99 * share, share), (0.95, share, 1.0)):
        assert least < found(accounting.dp_sgd(noise_multiplier=factor * noise, **steps)) <= most


def test_what_chance_finds_cannot_be_forbidden():
    for share in (0.0005, 1.0):
        with pytest.raises(ValueError, match=r"found must be in \(0.001, 1\), got found="):
            noise_for_found(share, sample_rate=0.1, steps=10)


def row(**change):
    return {**bagging.private_base_grid("quick")[0], "device": "cpu", **change}


def test_ways_state_the_guarantee_of_what_they_release():
    """The same level for both private ways; amplified Gaussian noise by its closed form; pi for the bare subsample."""
    bagged, direct, bare = (bagging.private_base(**row(way=way)) for way in ("bagged", "direct", "bare"))
    rate = 400 / 1442
    assert bagged["level"] == pytest.approx(math.log1p(rate * math.expm1(1.0)), rel=1e-6)
    assert direct["level"] == pytest.approx(bagged["level"], rel=1e-6)
    base = accounting.gaussian(sigma=accounting.gaussian_sigma(1.0, 1e-5), adjacency="replace-one")
    assert bagged["advantage"] == pytest.approx(rate * base.advantage)
    assert bare["advantage"] == pytest.approx(rate)
    assert bare["found"] == pytest.approx(rate + 0.001)
    assert bare["level"] is None
    assert {r["adjacency"] for r in (bagged, direct, bare)} == {"replace-one"}
    assert bare["accuracy"] > max(bagged["accuracy"], direct["accuracy"])
    assert bagged == bagging.private_base(**row())


def test_linear_dp_sgd_is_calibrated_to_what_it_exposes():
    rare, everywhere = bagging.equal_grid("quick", seeds=1)
    assert (rare["found"], everywhere["epsilon"], rare["width"]) == (everywhere["delta"], 0.0, None)
    done = bagging.dp_sgd(**{**everywhere, "epochs": 5}, device="cpu")
    assert done["advantage"] == pytest.approx(everywhere["delta"], rel=1e-3)
    assert done["accuracy"] > 0.6


def test_settings_are_those_that_held_out_rows_choose():
    rows = experiments.rows("bagging_private_base_settings")
    best = rows.groupby("l2")["accuracy"].mean().idxmax()
    assert {r["l2"] for r in bagging.private_base_grid("paper")} == {best}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"way": "half"}, "way must be 'bare', 'bagged' or 'direct', got way='half'"),
        ({"part": "rest"}, "part must be 'test' or 'validation', got part='rest'"),
    ],
)
def test_bad_parameters_are_named(change, message):
    with pytest.raises(ValueError, match=message):
        bagging.private_base(**row(**change))


def test_equal_exposure_sets_means_and_spreads_of_the_same_share_side_by_side():
    n = bagging.RECORDS["quick"]
    shares = {size: accounting.bagging(n=n, subsample=size).advantage for size in (50, 100)}
    bagged = pd.DataFrame({"subsample": [50, 50, 100, None], "accuracy": [0.5, 0.7, 0.8, 0.9]})
    equal = pd.DataFrame(
        {
            "width": [None, None, 16, None],
            "delta": [shares[50], shares[50], None, None],
            "found": [None, None, shares[100], shares[100]],
            "accuracy": [0.2, 0.4, 0.6, None],
        }
    )
    table = bagging.equal_exposure(bagged, equal, "quick").set_index("k")
    assert table.index.tolist() == [50, 100]
    assert table["pi"].to_dict() == shares
    assert table.loc[50, ["bagging", "softmax, equal advantage"]].tolist() == pytest.approx([0.6, 0.3])
    assert table.loc[50, "softmax, equal advantage spread"] == pytest.approx(0.2 / np.sqrt(2))
    assert table.loc[100, "network, equal found"] == 0.6
    assert table.loc[100].isna().sum() == 8  # bagging has one seed; one run of DP-SGD is known, of four
    shown = bagging.equal_exposure_view(table.reset_index()).to_html()
    assert "30.00%\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}14.14" in shown
    assert shown.count("not run yet") == 6
