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


def test_case_2_scores_what_is_not_public_and_starts_from_public_weights():
    """A rate next to zero shows where training starts: all layers but the last are
    those of the public model.
    """
    arrays, X, _, X_score, _ = load("digits", "rest")
    public, labels = load_public("digits")
    # every record of the digits has one part
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
        .models_.state_dict(0)
    )
    given = public_weights("digits", 2, 3e-3, **start)
    moved = {
        name: bool((abs(tuned[name] - given[name]) > 1e-6).any()) for name in given
    }
    assert moved == {name: name.startswith("7.") for name in given}  # the linear layer


def test_pate_shares_its_teachers_and_counts_what_it_asks():
    # both readings of the paper's count
    rows = grids.pate("quick", seeds=2)
    short = {"epochs": 8, "student_epochs": 40, "device": "cpu"}
    done = pd.DataFrame([{**row, **chapter.pate(**{**row, **short})} for row in rows])
    # one ensemble
    assert done["plurality"].nunique() == done["agreement"].nunique() == 1
    # rows that stop after their answers
    stops = done["answers"].notna()
    assert (done[stops]["answered"] <= done[stops]["answers"]).all()
    assert (done[stops]["asked"] > done[stops]["answered"]).all()
    assert (done[~stops]["asked"] == done[~stops]["queries"]).all()
    assert (done[~stops]["answered"] < done[~stops]["queries"]).all()
    assert done["accuracy"].between(0.3, 1).all()
    once = chapter.pate(**{**rows[0], **short})
    assert once["accuracy"] == done["accuracy"][0]
    other = chapter.pate(**{**rows[0], **short, "teachers_seed": 1})
    # other shards and teachers
    assert other["agreement"] != once["agreement"]


def test_blocks_of_teachers_vote_as_all_teachers_at_once():
    """Bit for bit; and rows of PATE count the votes of their blocks."""
    short = {"epochs": 3, "student_epochs": 2, "n_teachers": 14}
    row = {**grids.pate("quick", seeds=1)[0], **short}
    blocks = grids.blocks_of_teachers(row)
    assert [block["n_models"] for block in blocks] == [10, 4]
    # 250 teachers, which the readings of the paper's count share
    assert len(grids.teachers("paper")) == 25
    text = chapter.teachers(**{**blocks[0], "n_models": 14}, device="cpu")["votes"]
    parts = [chapter.teachers(**block, device="cpu")["votes"] for block in blocks]
    assert "".join(parts) == text
    votes = as_codes(text).reshape(14, -1)
    counts = np.stack([(votes == label).sum(axis=0) for label in range(10)])
    chapter._votes.cache_clear()
    found = chapter.pate(**row, device="cpu")
    assert found["agreement"] == counts.max(axis=0).mean() / 14
    chapter._votes.cache_clear()


def test_moments_are_those_of_the_networks_that_did_not_draw_the_record():
    generator = np.random.default_rng(0)
    confidence = generator.normal(size=(9, 40))
    undrawn = generator.random((9, 40)) < 0.7
    # two networks that know every record, so that no column is empty
    undrawn[:2] = True
    mean, std = chapter.moments(confidence, undrawn)
    for record in range(40):
        known = confidence[undrawn[:, record], record]
        assert mean[record] == pytest.approx(known.mean())
        assert std[record] == pytest.approx(known.std(ddof=1))
    # as if the first network were not there
    alone = chapter.standardised(confidence, undrawn, 0)
    mean, std = chapter.moments(confidence[1:], undrawn[1:])
    np.testing.assert_allclose(alone, (confidence[0] - mean) / std)


def rigged(memory):
    """Networks whose confidence in a record is noise, and ``memory`` where they drew
    it; every tenth is mislabelled.
    """

    def networks(dataset, subsample, n_networks, flipped, others, seed, **training):
        generator = np.random.default_rng(seed)
        # who drew what
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
        # no training: the attack is what is tested
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
def images(random_images):
    networks.public_weights.cache_clear()
    yield random_images(32, 40)
    networks.public_weights.cache_clear()


@pytest.fixture
def vgg16_file(monkeypatch):
    """A file as torchvision publishes it, with random weights; gives torchvision's
    own layers with these.
    """
    # torchvision's own layers of VGG16
    features = vgg.make_layers(vgg.cfgs["D"])
    weights = {
        f"features.{name}": value for name, value in features.state_dict().items()
    }
    weights["classifier.6.weight"] = torch.zeros(1000, 2)
    monkeypatch.setattr(data, "load_weights", lambda: weights)
    return features


def test_vgg16_is_the_full_one_and_starts_from_imagenet(images, vgg16_file):
    arrays, X, *_ = networks.load("cifar10", "rest", "imagenet")
    chosen = networks.network(
        arrays, architecture="vgg16", public="imagenet", **networks.VGG16
    )
    module = chosen.untrained((3, 32, 32), 10, torch.Generator().manual_seed(0))
    # the number that VGG16 has with ten classes and one linear layer
    assert sum(value.numel() for value in module.parameters()) == 14_719_818
    plain = torch.tensor(images.X_train[:2].reshape(-1, 3, 32, 32))
    expected = normalize(plain, [0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
    # float32
    np.testing.assert_allclose(
        X[:2].reshape(-1, 3, 32, 32), expected, rtol=1e-5, atol=1e-6
    )
    with torch.no_grad():
        ours = module[:-2](expected)
        theirs = vgg16_file(expected)
    np.testing.assert_array_equal(ours, theirs)
    scratch = networks.network(arrays, architecture="vgg16", **networks.VGG16)
    names = [
        type(layer).__name__
        for layer in scratch.untrained(
            (3, 32, 32), 10, torch.Generator().manual_seed(0)
        )
    ]
    assert names.count("GroupNorm") == names.count("Conv2d") == 13


CIFAR_100 = {"public": "cifar100_subset", "public_epochs": 1, "public_rate": 1e-3}
VGG5 = {"architecture": "vgg5", "width": 2, "kernel_size": 3, "padding": 1}
VGG16 = {"architecture": "vgg16", **networks.VGG16}


@pytest.mark.parametrize("start", [VGG5, VGG5 | CIFAR_100, VGG16])
def test_networks_for_images_train_with_and_without_noise(images, vgg16_file, start):
    split = "rest" if "public" in start else "test"
    common = {"dataset": "cifar10", "split": split, "epochs": 1, "seed": 0, **start}
    common["device"] = "cpu"
    bagged = {"subsample": 4, "n_models": 1, "replace": True, "batch_size": 4}
    adam = {"optimizer": "adam", "learning_rate": 1e-3}
    row = chapter.ensemble(**common, **bagged, **adam)
    parts = {"test": "original", "rest": "bagging_public"}
    assert row["data"] == f"cifar10:{parts[split]}:0"
    noise = {"epsilon": None, "delta": None, "noise_multiplier": 2.0}
    steps = {"batch_size": 20, "clipping_norm": 1.0, "learning_rate": 0.1}
    private = chapter.dp_sgd(**common, **noise, **steps)
    assert (private["n"], private["sigma"]) == (row["n"], 2.0) == (40, 2.0)


def test_pate_answers_on_images_from_a_public_model(images):
    row = {
        **next(r for r in grids.cifar10_pate() if r["answers"]),
        **CIFAR_100,
        **VGG5,
        "n_teachers": 4,
        "threshold": 0.5,
        "sigma_threshold": 0.1,
        "sigma_answer": 0.1,
        "queries": 10,
        "answers": 5,
        "epochs": 2,
        "student_epochs": 2,
    }
    assert chapter.pate(**row, device="cpu")["answered"] == 5


def test_noise_exposes_the_stated_rate_and_hardly_less():
    tpr = 0.05
    steps = {"sample_rate": 0.004, "steps": 500}
    noise = noise_for_tpr(tpr, **steps)
    # 5 % less noise would expose more than is allowed
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
    # records of the subsample over all of digits
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
