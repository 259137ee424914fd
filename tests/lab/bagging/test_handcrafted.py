"""Histograms of oriented gradients by a second computation, and what the experiments on them guarantee."""

import numpy as np
import pytest

from dpnotes import accounting
from dpnotes.lab import experiments
from dpnotes.lab.bagging import exposure, handcrafted
from dpnotes.lab.bagging.hog import DIRECTIONS, FLOOR, hog

TARGET = ["epsilon", "delta", "tpr_at_fpr_1e3"]
TUNED = ["batch_size", "clipping_norm", "learning_rate"]


def slowly(image):
    """Features of one image, pixel by pixel."""
    rows, columns = image.shape[0] // 4, image.shape[1] // 4
    cells = np.zeros((rows, columns, DIRECTIONS))
    vertical, horizontal = np.gradient(image)
    for i in range(4 * rows):
        for j in range(4 * columns):
            angle = np.arctan2(vertical[i, j], horizontal[i, j]) / np.pi % 1.0 * DIRECTIONS
            part, length = angle - int(angle), np.hypot(vertical[i, j], horizontal[i, j])
            cells[i // 4, j // 4, int(angle) % DIRECTIONS] += (1 - part) * length
            cells[i // 4, j // 4, (int(angle) + 1) % DIRECTIONS] += part * length
    around = np.zeros((rows, columns))
    for i in range(rows):
        for j in range(columns):
            near = cells[max(i - 1, 0) : i + 2, max(j - 1, 0) : j + 2]
            around[i, j] = (near**2).sum()
    features = np.sqrt(cells / np.sqrt(around + FLOOR)[..., None]).ravel()
    features -= features.mean()
    return features / np.linalg.norm(features)


@pytest.mark.parametrize("shape", [(8, 8), (13, 10)])
def test_features_are_those_of_a_slow_computation(shape):
    images = np.random.default_rng(0).random((3, *shape))
    found = hog(images.reshape(3, -1), (1, *shape))
    assert found.dtype == np.float32
    assert found == pytest.approx(np.stack([slowly(image) for image in images]), abs=1e-5)


def test_features_of_a_record_depend_on_it_alone():
    images = np.random.default_rng(1).random((2500, 64))  # more than are computed at a time
    whole = hog(images, (1, 8, 8))
    assert (whole[2100:2110] == hog(images[2100:2110], (1, 8, 8))).all()
    assert np.linalg.norm(whole, axis=1) == pytest.approx(np.ones(2500), abs=1e-5)
    assert not hog(np.zeros((1, 64)), (1, 8, 8)).any()  # an empty image has no direction


@pytest.mark.parametrize("shape", [(3, 8, 8), (1, 3, 8)])
def test_images_without_features_are_refused(shape):
    with pytest.raises(ValueError, match="image_shape must be"):
        hog(np.zeros((2, int(np.prod(shape)))), shape)


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
