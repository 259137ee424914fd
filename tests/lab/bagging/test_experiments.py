"""Experiments of the bagging chapter: rows that can be recomputed, their guarantees,
attacks, networks for images.
"""

import math

import numpy as np
import pandas as pd
import pytest
import torch
from torchvision.models import vgg
from torchvision.transforms.v2.functional import normalize

from dpnotes import accounting, data
from dpnotes.lab._shared import as_codes
from dpnotes.lab.bagging import experiments as chapter, exposure, grids, networks
from dpnotes.lab.bagging.exposure import noise_for_tpr, tpr_at_fpr_1e3
from dpnotes.lab.bagging.networks import load, load_public, network, public_weights
from dpnotes.lab.store import read_store, sweep

SMALL = {
    "architecture": "vgg5",
    "width": 2,
    "kernel_size": 3,
    "padding": 1,
    "batch_size": 8,
    "device": "cpu",
}
ADAM = {"optimizer": "adam", "learning_rate": 1e-3}
PRIVATE = {"epsilon": None, "delta": None, "clipping_norm": 1.0, "learning_rate": 0.1}


def quick(**change):
    row = next(r for r in grids.table2a("quick", seeds=1) if r["subsample"] == 100)
    return {**row, "epochs": 3, "device": "cpu", **change}


def test_a_row_can_be_recomputed_and_carries_its_guarantee():
    row = chapter.ensemble(**quick())
    assert row == chapter.ensemble(**quick())
    assert row["accuracy"] != chapter.ensemble(**quick(seed=1))["accuracy"]
    assert row["delta"] == accounting.bagging(n=row["n"], subsample=100).delta(0.0)
    assert (row["epsilon"], row["adjacency"], row["status"]) == (
        0.0,
        "add-remove",
        "proved",
    )
    assert row["n"] == grids.RECORDS["quick"]
    assert row["data"].startswith("digits:original:")


def test_case_2_scores_what_is_not_public_and_starts_from_public_weights():
    """A rate next to zero shows where training starts: all layers but the last are
    those of the public model.
    """
    arrays, X, _, X_score, _ = load("digits", "rest")
    public, labels = load_public("digits")
    assert len(X) + len(public) + len(X_score) == 1797
    np.testing.assert_array_equal(np.concatenate([public, X_score]), arrays.X_test)
    assert len(labels) == len(public) == 100
    start = {"width": 4, "kernel_size": 3, "padding": 1, "device": "cpu"}
    training = {
        "public": "digits",
        "public_epochs": 2,
        "public_rate": 3e-3,
        "learning_rate": 1e-12,
        "epochs": 1,
    }
    tuned = (
        network(arrays, **start, **training, random_state=0)
        .fit(X, arrays.y_train)
        .networks_.state_dict(0)
    )
    given = public_weights("digits", 2, 3e-3, **start)
    moved = {
        name: bool((abs(tuned[name] - given[name]) > 1e-6).any()) for name in given
    }
    assert moved == {name: name.startswith("7.") for name in given}  # the linear layer


def test_pate_shares_its_teachers_and_counts_what_it_asks():
    rows = grids.pate("quick", seeds=2)
    short = {"epochs": 8, "student_epochs": 40, "device": "cpu"}
    done = pd.DataFrame([{**row, **chapter.pate(**{**row, **short})} for row in rows])
    # one ensemble
    assert done["plurality"].nunique() == done["agreement"].nunique() == 1
    stops = done["answers"].notna()
    assert (done[stops]["answered"] <= done[stops]["answers"]).all()
    assert (done[stops]["asked"] > done[stops]["answered"]).all()
    assert (done[~stops]["asked"] == done[~stops]["queries"]).all()
    assert (done[~stops]["answered"] < done[~stops]["queries"]).all()
    assert done["accuracy"].between(0.3, 1).all()
    once = chapter.pate(**{**rows[0], **short})
    assert once["accuracy"] == done["accuracy"][0]
    other = chapter.pate(**{**rows[0], **short, "teachers_seed": 1})
    assert other["agreement"] != once["agreement"]
    logistic = chapter.pate(**{**rows[0], **short, "epochs": None, "l2": 0.01})
    assert logistic["plurality"] > 0.8


def test_teachers_are_rows_that_rows_of_pate_share(tmp_path, monkeypatch):
    """The votes of blocks are, bit for bit, those of all teachers at once; a sweep
    trains each block once.
    """
    rows = [
        {**row, "epochs": 3, "student_epochs": 2, "n_teachers": 14}
        for row in grids.pate("quick", seeds=2)
    ]
    blocks = grids.blocks_of_teachers(rows[0])
    assert [(block["first"], block["n_models"]) for block in blocks] == [
        (0, 10),
        (10, 4),
    ]
    assert len(grids.teachers("quick")) == 1
    assert len(grids.teachers("paper")) == 26  # 250 networks, and logistic regressions
    text = chapter.teachers(**{**blocks[0], "n_models": 14}, device="cpu")["votes"]
    assert (
        "".join(chapter.teachers(**block, device="cpu")["votes"] for block in blocks)
        == text
    )
    whole = as_codes(text).reshape(14, -1)
    made_of, as_text = [], chapter.as_text
    monkeypatch.setattr(
        chapter, "as_text", lambda votes: made_of.append(len(votes)) or as_text(votes)
    )
    chapter._votes.cache_clear()
    store, options = tmp_path / "bagging_pate", {"device": "cpu"}
    first = sweep(chapter.pate, rows[:1], store=store, options=options, progress=False)
    chapter._votes.cache_clear()  # as in another process
    second = sweep(chapter.pate, rows, store=store, options=options, progress=False)
    assert sorted(made_of) == [4, 10]
    assert set(second["agreement"]) == set(first["agreement"])
    shared = read_store(tmp_path / "bagging_teachers").sort_values("first")
    assert shared["n_models"].tolist() == [10, 4]
    counts = np.stack([(whole == label).sum(axis=0) for label in range(10)])
    assert first["agreement"][0] == counts.max(axis=0).mean() / 14
    chapter._votes.cache_clear()


def test_moments_are_those_of_the_networks_that_did_not_draw_the_record():
    generator = np.random.default_rng(0)
    confidence, undrawn = (
        generator.normal(size=(9, 40)),
        generator.random((9, 40)) < 0.7,
    )
    undrawn[:2] = True
    mean, std = chapter.moments(confidence, undrawn)
    for record in range(40):
        known = confidence[undrawn[:, record], record]
        assert mean[record] == pytest.approx(known.mean())
        assert std[record] == pytest.approx(known.std(ddof=1))
    alone = chapter.standardised(confidence, undrawn, 0)
    mean, std = chapter.moments(confidence[1:], undrawn[1:])
    np.testing.assert_allclose(alone, (confidence[0] - mean) / std)


def rigged(memory):
    """Networks whose confidence in a record is noise, and ``memory`` where they drew
    it; every tenth is mislabelled.
    """

    def networks(dataset, subsample, n_networks, flipped, others, seed, **training):
        generator = np.random.default_rng(seed)
        drawn = generator.random((n_networks, 3000)) < 0.05
        # some records are easy, some are hard
        ease = generator.normal(scale=5.0, size=3000)
        confidence = ease + generator.normal(size=drawn.shape) + memory * drawn
        return chapter.Confidences(
            confidence, drawn, np.arange(3000) % 10 == 0, 3000, data.load("digits")
        )

    return networks


def attacked(**change):
    first = grids.membership("quick")[0]
    return {
        **first,
        "n_networks": 40,
        "false_positive_rate": 0.01,
        "device": "cpu",
        **change,
    }


@pytest.mark.parametrize("mislabelled", [False, True])
def test_false_positives_are_as_set_and_only_memory_is_recognised(
    monkeypatch, mislabelled
):
    """3,000 records and 20 networks; a rate is off by five of its standard errors
    with chance below 1e-6.
    """
    for memory, power in ((0.0, 0.01), (5.0, 0.9)):
        monkeypatch.setattr(chapter, "confidences", rigged(memory))
        counts = chapter.membership(
            **attacked(attack="likelihood-ratio", mislabelled=mislabelled)
        )
        false = counts["false_positives"] / counts["nonmembers"]
        # the quantile is estimated, too
        assert abs(false - 0.01) < 5 * np.sqrt(0.01 / counts["nonmembers"]) + 0.003
        true = counts["true_positives"] / counts["members"]
        assert abs(true - power) < 0.03 if memory == 0 else true > power
    one = chapter.membership(**attacked(attack="loss", mislabelled=mislabelled))
    # one threshold for easy and hard records sees far less
    assert one["true_positives"] / one["members"] < 0.3


@pytest.fixture
def images(monkeypatch):
    """In the place of the image sets: 40 random images to train on and 30 to score,
    the first 10 of them public.
    """
    rng = np.random.default_rng(0)
    X, y = rng.random((70, 3072), dtype=np.float32), np.arange(70) % 10

    def load(name, *, split="original"):
        first = 50 if split == "bagging_public" else 40
        parts = {"train": slice(40), "test": slice(first, None)}
        rows = {
            f"{letter}_{part}": array[cut]
            for part, cut in parts.items()
            for letter, array in (("X", X), ("y", y))
        }
        if split == "bagging_public":
            rows |= {"X_public": X[40:50], "y_public": y[40:50]}
        names = tuple("0123456789")
        shape = {
            "class_names": names,
            "feature_names": None,
            "image_shape": (3, 32, 32),
        }
        return data.Dataset(
            name=name, split=split, digest=f"{name}:{split}:0", **shape, **rows
        )

    monkeypatch.setattr(data, "load", load)
    networks.public_weights.cache_clear()
    yield X
    networks.public_weights.cache_clear()


@pytest.fixture
def vgg16_file(monkeypatch):
    """A file as torchvision publishes it, with random weights; gives torchvision's
    own layers with these.
    """
    features = vgg.make_layers(vgg.cfgs["D"])
    weights = {
        f"features.{name}": value for name, value in features.state_dict().items()
    }
    weights["classifier.6.weight"] = torch.zeros(1000, 2)
    monkeypatch.setattr(data, "load_weights", lambda: weights)
    return features


def ensemble(**change):
    row = {
        **SMALL,
        **ADAM,
        "dataset": "cifar10",
        "split": "test",
        "subsample": 20,
        "n_models": 1,
        "replace": True,
    }
    return chapter.ensemble(**{**row, "epochs": 1, "seed": 0, **change})


def test_rows_of_each_method_on_images_with_three_channels(images):
    row = ensemble()
    assert row == ensemble()
    assert row["n"] == 40
    start = {"public": "cifar100_subset", "public_epochs": 1, "public_rate": 1e-3}
    assert ensemble(split="rest", **start)["data"] == "cifar10:bagging_public:0"
    private = {
        "dataset": "cifar10",
        "split": "rest",
        "epochs": 1,
        "seed": 0,
        **SMALL,
        **PRIVATE,
        **start,
    }
    assert chapter.dp_sgd(**{**private, "noise_multiplier": 2.0})["sigma"] == 2.0
    votes = {
        "n_teachers": 4,
        "threshold": 0.5,
        "sigma_threshold": 0.1,
        "sigma_answer": 0.1,
        "queries": 10,
    }
    rounds = {
        "answers": 5,
        "epochs": 2,
        "student_epochs": 2,
        "teachers_seed": 0,
        "seed": 0,
    }
    answered = chapter.pate(
        dataset="cifar10", **votes, **rounds, **SMALL, **ADAM, **start
    )
    assert answered["answered"] == 5


def test_vgg16_is_the_full_one_and_starts_from_imagenet(images, vgg16_file):
    arrays, X, *_ = networks.load("cifar10", "rest", "imagenet")
    chosen = networks.network(
        arrays, architecture="vgg16", public="imagenet", **networks.VGG16
    )
    module = chosen.untrained((3, 32, 32), 10, torch.Generator().manual_seed(0))
    assert sum(value.numel() for value in module.parameters()) == 14_719_818
    plain = torch.tensor(images[:2].reshape(-1, 3, 32, 32))
    expected = normalize(plain, [0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
    # float32
    np.testing.assert_allclose(
        X[:2].reshape(-1, 3, 32, 32), expected, rtol=1e-5, atol=1e-6
    )
    with torch.no_grad():
        ours, theirs = module[:-2](expected), vgg16_file(expected)
    np.testing.assert_array_equal(ours, theirs)
    scratch = networks.network(arrays, architecture="vgg16", **networks.VGG16)
    names = [
        type(layer).__name__
        for layer in scratch.untrained(
            (3, 32, 32), 10, torch.Generator().manual_seed(0)
        )
    ]
    assert names.count("GroupNorm") == names.count("Conv2d") == 13


def test_vgg16_trains_with_and_without_privacy(images, vgg16_file):
    full = {**SMALL, **networks.VGG16, "architecture": "vgg16", "batch_size": 4}
    assert (
        0
        <= ensemble(**full, subsample=4, split="rest", public="imagenet")["accuracy"]
        <= 1
    )
    private = {
        "dataset": "cifar10",
        "split": "test",
        "epochs": 1,
        "seed": 0,
        **full,
        **PRIVATE,
        "batch_size": 20,
    }
    assert chapter.dp_sgd(**{**private, "noise_multiplier": 2.0})["n"] == 40


def test_noise_exposes_the_stated_rate_and_hardly_less():
    tpr, steps = 0.05, {"sample_rate": 0.004, "steps": 500}
    noise = noise_for_tpr(tpr, **steps)
    for factor, least, most in ((1.0, 0.99 * tpr, tpr), (0.95, tpr, 1.0)):
        assert (
            least
            < tpr_at_fpr_1e3(
                accounting.dp_sgd(noise_multiplier=factor * noise, **steps)
            )
            <= most
        )


def released(**change):
    return {**grids.private_base("quick")[0], "device": "cpu", **change}


def test_modes_state_the_guarantee_of_what_they_release():
    """One epsilon for both private modes; amplified Gaussian noise by its closed
    form; pi for the bare subsample.
    """
    bagged, direct, bare = (
        chapter.private_base(**released(mode=mode))
        for mode in ("bagged", "direct", "bare")
    )
    rate = 400 / 1442
    assert bagged["release_epsilon"] == pytest.approx(
        math.log1p(rate * math.expm1(1.0)), rel=1e-6
    )
    assert direct["release_epsilon"] == pytest.approx(
        bagged["release_epsilon"], rel=1e-6
    )
    base = accounting.gaussian(
        sigma=accounting.gaussian_sigma(1.0, 1e-5), adjacency="replace-one"
    )
    assert bagged["advantage"] == pytest.approx(rate * base.advantage)
    assert bare["advantage"] == pytest.approx(rate)
    assert bare["tpr_at_fpr_1e3"] == pytest.approx(rate + 0.001)
    assert bare["release_epsilon"] is None
    assert {r["adjacency"] for r in (bagged, direct, bare)} == {"replace-one"}
    assert bare["accuracy"] > max(bagged["accuracy"], direct["accuracy"])
    assert bagged == chapter.private_base(**released())


def test_rows_satisfy_their_exposure():
    given = {
        "dataset": "digits",
        "split": "test",
        "epochs": 5,
        "batch_size": 200,
        "seed": 0,
        "device": "cpu",
    }
    given |= {"clipping_norm": 1.0, "learning_rate": 20.0}
    equal = chapter.hog_dp_sgd(**given, epsilon=0.0, delta=0.3, tpr_at_fpr_1e3=None)
    assert 0.299 < equal["advantage"] <= 0.3
    assert equal["accuracy"] > 0.5
    rare = chapter.hog_dp_sgd(**given, epsilon=None, delta=None, tpr_at_fpr_1e3=0.3)
    row = {**given, "noise_multiplier": None, "sigma": rare["sigma"]}
    assert 0.297 < exposure.tpr_at_fpr_1e3(exposure.profile(row, rare["n"])) <= 0.3
    drawn = chapter.hog_ensemble(
        dataset="digits", split="test", subsample=200, l2=1e-3, seed=0, device="cpu"
    )
    assert drawn["delta"] == accounting.bagging(n=drawn["n"], subsample=200).advantage
    assert drawn["accuracy"] > 0.8
