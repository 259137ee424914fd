"""What the experiments on handcrafted features guarantee."""

import numpy as np
import pytest

from dpnotes import accounting
from dpnotes.lab import experiments
from dpnotes.lab.bagging import exposure, handcrafted

TARGET = ["epsilon", "delta", "tpr_at_fpr_1e3"]
TUNED = ["batch_size", "clipping_norm", "learning_rate"]


def test_candidates_are_tuned_alike_at_every_exposure():
    rows = handcrafted.dp_sgd_settings()
    assert {row["split"] for row in [*rows, *handcrafted.ensemble_settings()]} == {"validation"}
    assert len({tuple(row.items()) for row in rows}) == len(rows) == 5 * 2 * 2 * (5 + 4)
    for row in rows:
        steps = row["epochs"] * 50_000 // row["batch_size"]
        sense = "advantage" if row["tpr_at_fpr_1e3"] is None else "tpr"
        assert any(
            row["learning_rate"] * row["clipping_norm"] * steps == pytest.approx(travel, rel=1e-5)
            for travel in handcrafted.TRAVELS[sense]
        )


def test_rows_satisfy_their_exposure():
    given = {"dataset": "digits", "split": "test", "epochs": 5, "batch_size": 200, "seed": 0, "device": "cpu"}
    given |= {"clipping_norm": 1.0, "learning_rate": 20.0}
    equal = handcrafted.hog_dp_sgd(**given, epsilon=0.0, delta=0.3, tpr_at_fpr_1e3=None)
    assert 0.299 < equal["advantage"] <= 0.3
    assert equal["accuracy"] > 0.5
    rare = handcrafted.hog_dp_sgd(**given, epsilon=None, delta=None, tpr_at_fpr_1e3=0.3)
    row = {**given, "noise_multiplier": None, "sigma": rare["sigma"]}
    assert 0.297 < exposure.tpr_at_fpr_1e3(exposure.profile(row, rare["n"])) <= 0.3
    drawn = handcrafted.hog_ensemble(dataset="digits", split="test", subsample=200, l2=1e-3, seed=0, device="cpu")
    assert drawn["delta"] == accounting.bagging(n=drawn["n"], subsample=200).advantage
    assert drawn["accuracy"] > 0.8


def test_settings_are_those_that_held_out_rows_choose():
    rows = experiments.rows("bagging_hog_settings")
    means = rows.astype({"accuracy": float}).groupby(["subsample", "l2"])["accuracy"].mean().unstack()
    assert means.notna().all(axis=None)
    assert means.idxmax(axis=1).to_dict() == handcrafted.PENALTY
    tried = experiments.rows("bagging_hog_dp_sgd_settings")
    final = handcrafted.dp_sgds()
    assert {row["split"] for row in [*final, *handcrafted.ensembles()]} == {"test"}
    for row in final:
        same = [tried[name].isna() if row[name] is None else tried[name] == row[name] for name in TARGET]
        own = tried[np.logical_and.reduce(same)].astype({"accuracy": float})
        best = own[own["accuracy"] == own["accuracy"].max()]
        assert len(own) == (20 if row["tpr_at_fpr_1e3"] is None else 16)
        assert tuple(row[name] for name in TUNED) in best[TUNED].itertuples(index=False, name=None)
