"""CIFAR-10 in the bagging chapter: networks, public models and grids, on images that stand in for the data sets."""

import itertools
import re

import numpy as np
import pytest
import torch
from torchvision.models import vgg
from torchvision.transforms.v2.functional import normalize

from dpnotes import accounting, data
from dpnotes.lab import bagging, experiments
from dpnotes.lab.bagging import costs, grids, networks

SMALL = {"architecture": "vgg5", "width": 2, "kernel_size": 3, "padding": 1, "batch_size": 8, "device": "cpu"}
ADAM = {"optimizer": "adam", "learning_rate": 1e-3}
PRIVATE = {"epsilon": None, "delta": None, "clipping_norm": 1.0, "learning_rate": 0.1}


@pytest.fixture
def images(monkeypatch):
    """In the place of the image sets: 40 random images to train on and 30 to score, the first 10 of them public."""
    rng = np.random.default_rng(0)
    X, y = rng.random((70, 3072), dtype=np.float32), np.arange(70) % 10

    def load(name, *, split="original"):
        first = 50 if split == "bagging_public" else 40
        parts = {"train": slice(40), "test": slice(first, None)}
        rows = {f"{letter}_{part}": array[cut] for part, cut in parts.items() for letter, array in (("X", X), ("y", y))}
        if split == "bagging_public":
            rows |= {"X_public": X[40:50], "y_public": y[40:50]}
        names = tuple("0123456789")
        shape = {"class_names": names, "feature_names": None, "image_shape": (3, 32, 32)}
        return data.Dataset(name=name, split=split, digest=f"{name}:{split}:0", **shape, **rows)

    monkeypatch.setattr(data, "load", load)
    networks.public_weights.cache_clear()
    yield X
    networks.public_weights.cache_clear()


@pytest.fixture
def vgg16_file(tmp_path, monkeypatch):
    """A file as torchvision publishes it, with random weights; gives torchvision's own layers with these."""
    features = vgg.make_layers(vgg.cfgs["D"])
    weights = {f"features.{name}": value for name, value in features.state_dict().items()}
    weights["classifier.6.weight"] = torch.zeros(1000, 2)
    (tmp_path / "checkpoints").mkdir()
    torch.save(weights, tmp_path / "checkpoints" / "vgg16-397923af.pth")
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))
    return features


def ensemble(**change):
    row = {**SMALL, **ADAM, "dataset": "cifar10", "split": "test", "subsample": 20, "n_models": 1, "replace": True}
    return bagging.experiments.ensemble(**{**row, "epochs": 1, "seed": 0, **change})


def test_five_convolutions_narrow_to_one_pixel(images):
    arrays = networks.load("cifar10", "test")[0]
    chosen = networks.network(arrays, architecture="vgg5", width=16, kernel_size=3, padding=1)
    module = chosen.untrained((3, 32, 32), 10, torch.Generator().manual_seed(0))
    shapes = [tuple(value.shape) for name, value in module.named_parameters() if name.endswith("weight")]
    channels = [3, 16, 32, 64, 128, 128]
    assert shapes[:5] == [(b, a, 3, 3) for a, b in itertools.pairwise(channels)]
    assert shapes[5:] == [(10, 128)]  # nothing is left of height and width


def test_rows_of_each_method_on_images_with_three_channels(images):
    row = ensemble()
    assert row == ensemble()
    assert row["n"] == 40
    start = {"public": "cifar100_subset", "public_epochs": 1, "public_rate": 1e-3}
    assert ensemble(split="rest", **start)["data"] == "cifar10:bagging_public:0"
    private = {"dataset": "cifar10", "split": "rest", "epochs": 1, "seed": 0, **SMALL, **PRIVATE, **start}
    assert bagging.experiments.dp_sgd(**{**private, "noise_multiplier": 2.0})["sigma"] == 2.0
    votes = {"n_teachers": 4, "threshold": 0.5, "sigma_threshold": 0.1, "sigma_answer": 0.1, "queries": 10}
    rounds = {"answers": 5, "epochs": 2, "student_epochs": 2, "teachers_seed": 0, "seed": 0}
    answered = bagging.experiments.pate(dataset="cifar10", **votes, **rounds, **SMALL, **ADAM, **start)
    assert answered["answered"] == 5


def test_vgg16_is_the_full_one_and_starts_from_imagenet(images, vgg16_file):
    arrays, X, *_ = networks.load("cifar10", "rest", "imagenet")
    chosen = networks.network(arrays, architecture="vgg16", public="imagenet", **networks.VGG16)
    module = chosen.untrained((3, 32, 32), 10, torch.Generator().manual_seed(0))
    assert sum(value.numel() for value in module.parameters()) == 14_719_818
    plain = torch.tensor(images[:2].reshape(-1, 3, 32, 32))
    expected = normalize(plain, [0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
    np.testing.assert_allclose(X[:2].reshape(-1, 3, 32, 32), expected, rtol=1e-5, atol=1e-6)  # float32
    with torch.no_grad():
        ours, theirs = module[:-2](expected), vgg16_file(expected)
    np.testing.assert_array_equal(ours, theirs)
    scratch = networks.network(arrays, architecture="vgg16", **networks.VGG16)
    names = [type(layer).__name__ for layer in scratch.untrained((3, 32, 32), 10, torch.Generator().manual_seed(0))]
    assert names.count("GroupNorm") == names.count("Conv2d") == 13


def test_vgg16_trains_with_and_without_privacy(images, vgg16_file):
    full = {**SMALL, **networks.VGG16, "architecture": "vgg16", "batch_size": 4}
    assert 0 <= ensemble(**full, subsample=4, split="rest", public="imagenet")["accuracy"] <= 1
    private = {"dataset": "cifar10", "split": "test", "epochs": 1, "seed": 0, **full, **PRIVATE, "batch_size": 20}
    assert bagging.experiments.dp_sgd(**{**private, "noise_multiplier": 2.0})["n"] == 40


def test_bad_parameters_are_named(images):
    with pytest.raises(ValueError, match="architecture must be one of 'convolutional', 'vgg5', 'vgg16', got arch"):
        ensemble(architecture="vgg19")
    with pytest.raises(ValueError, match="public must be one of 'imagenet', 'cifar100_subset', got public='mnist'"):
        grids.cifar10("mnist")


def test_grids_hold_every_cell_of_the_paper():
    sizes = {"test": {1000, 5000, 10_000, 20_000, 30_000, None}, "rest": {1000, 5000, 10_000, None}}
    for public in grids.PUBLIC["cifar10"]:
        grid = grids.cifar10(public)
        assert {split: {row["subsample"] for row in grid if row["split"] == split} for split in sizes} == sizes
        assert {row["epochs"] for row in grid} == {100}
        rates = {split: {row["learning_rate"] for row in grid if row["split"] == split} for split in sizes}
        assert max(rates["rest"]) == pytest.approx(max(rates["test"]) / 10)
        assert {row.get("public") for row in grid if row["split"] == "rest"} == {public}
        private = grids.cifar10_dp_sgd(public)
        sigmas = [row["noise_multiplier"] for row in private if row["split"] == "test"]
        assert sorted(sigma for sigma in sigmas if sigma) == [1.4, 2.18, 4.9, 11.5, 72.0]
        assert sigmas.count(None) == 5
        assert {row["answers"] for row in grids.cifar10_pate(public)} == {100, 130, 170}


def test_costs_count_the_images():
    row = next(row for row in grids.cifar10() if row["subsample"] == 30_000)
    assert costs.images(row) == 3_000_000
    assert costs.gpu_hours(row) == pytest.approx(3_000_000 / 5000 / 3600)
    private = grids.cifar10_dp_sgd()[0]
    assert costs.gpu_hours(private) == pytest.approx(5_000_000 / 2000 / 3600)
    voted = grids.cifar10_pate()
    whole = sum(map(costs.gpu_hours, voted)) * 3600 * 5000
    assert whole == pytest.approx(50_000 * 1000 + 3 * 1000 * (100 + 130 + 170))  # teachers once, nine students


def stored(*names):
    return [experiments.rows(name) for name in names]


def test_tables_2b_and_3b_have_every_cell_as_number_or_gap_with_its_hours():
    rows, private, pate = stored("bagging_cifar10", "bagging_cifar10_dp_sgd", "bagging_cifar10_pate")
    rows, private, pate = (
        frame.drop(columns="accuracy", errors="ignore") for frame in (rows, private, pate)
    )  # nothing is run
    for name, cells, public in (("2b", 11, None), ("3b", 10, "imagenet")):
        table = bagging.tables.cifar10(name, rows, private, pate if name == "3b" else None)
        assert table["published"].notna().sum() == cells
        assert (table["gpu_hours"] > 0).all()
        assert (table["seeds"] == 0).all()
        html = bagging.tables.show_cifar10(table, public=public).to_html()
        assert len(re.findall(r"not run: \d+\.\d\d h on a GPU", html)) == len(table)
        assert ("ImageNet" in html) == (name == "3b")
        drawn = table.query("subsample == 1000")["advantage"].item()
        assert drawn == accounting.bagging(n=50_000, subsample=1000).advantage
        least = table.query("variant == 'least_noise'")["advantage"].max()  # what (epsilon, delta) implies
        assert table.query("sigma == 4.9")["advantage"].item() < 0.25 * least
    assert "not of ImageNet" in bagging.tables.show_cifar10(table, public="cifar100_subset").to_html()
    assert table.query("answers == 100")["gpu_hours"].item() == pytest.approx(0.94, abs=0.005)
    assert "not run: 0.94 h on a GPU" in html


def test_a_cell_takes_the_mean_of_its_own_rows():
    rows, private = stored("bagging_cifar10", "bagging_cifar10_dp_sgd")
    at = (rows["subsample"].astype(float) == 1000) & (rows["split"] == "test")
    rows = rows.assign(accuracy=np.where(at, 0.40 + 0.01 * rows["seed"], np.nan))
    line = bagging.tables.cifar10("2b", rows, private).query("subsample == 1000").squeeze()
    assert [line["reproduced"], line["std"], line["seeds"]] == pytest.approx([0.41, 0.01, 3])
    assert line["difference"] == pytest.approx(0.41 - 0.4163)
    tuned = bagging.tables.cifar10("3b", rows, private).query("subsample == 1000").squeeze()
    assert tuned["seeds"] == 0


def test_the_reduced_scale_keeps_starts_and_noises_apart():
    rows, private = stored("bagging_reduced", "bagging_reduced_dp_sgd")
    own = rows["split"].map({"test": 0.3, "rest": 0.4}) + 0.01 * rows["seed"]
    noisy = private["split"].map({"test": 0.1, "rest": 0.2}) + 0.05 * private["noise_multiplier"].isna()
    private = private.assign(accuracy=noisy, advantage=noisy)
    table = bagging.tables.reduced(rows.assign(accuracy=own), private)
    assert table["method"].tolist() == ["bagging", "bagging", "dp_sgd", "dp_sgd"]
    assert table["variant"].tolist() == ["", "", "", "least_noise"]
    assert table["subsample"].tolist()[:2] == [1000, 5000]
    assert table["sigma"].tolist()[2] == 11.5
    bagged = [accounting.bagging(n=50_000, subsample=size).advantage for size in (1000, 5000)]
    assert table["advantage_scratch"].tolist() == pytest.approx([*bagged, 0.1, 0.15])  # stored where run
    assert table["reproduced_scratch"].tolist() == pytest.approx([0.31, 0.31, 0.1, 0.15])
    assert table["reproduced_tuned"].tolist() == pytest.approx([0.41, 0.41, 0.2, 0.25])
    assert table["seeds_scratch"].tolist() == table["seeds_tuned"].tolist() == [3, 3, 3, 3]
    shown = bagging.tables.REDUCED(table).to_html().replace("\N{NO-BREAK SPACE}", " ")
    names = ["bagging, k = 1,000", "bagging, k = 5,000", "DP-SGD, sigma = 11.5", "DP-SGD, the least sigma"]
    assert [name for name in names if f">{name}<" in shown] == names
    assert "from CIFAR-100" in shown


def test_the_best_candidate_is_chosen_and_only_among_all():
    rows, private = stored("bagging_cifar10_settings", "bagging_reduced_dp_sgd_settings")
    marks = {"adam": 0.3, "momentum": 0.2}
    rows = rows.assign(accuracy=rows["optimizer"].map(marks) + rows["learning_rate"])
    private = private.sort_values("learning_rate").assign(accuracy=np.linspace(0.1, 0.2, len(private)))
    least = private["noise_multiplier"].isna()
    private.loc[least & (private["learning_rate"] == 0.5), "accuracy"] = np.nan  # so the least sigma has no choice
    table = bagging.tables.cifar10_candidates(rows, private)
    chosen = table.query("chosen")
    assert chosen.query("architecture == 'vgg16'")["subsample"].tolist() == [500, 1000]
    kinds = set(chosen[["method", "architecture"]].itertuples(index=False, name=None))
    assert kinds == {("bagging", "vgg5"), ("bagging", "vgg16"), ("dp_sgd", "vgg5")}
    assert chosen["sigma"].dropna().tolist() == [11.5]
    assert set(chosen["learning_rate"]) == {1e-3, 5.0}
    assert bagging.tables.CIFAR10_CANDIDATES(table).to_html().count("not run yet") == 1


def test_settings_in_use_are_those_that_the_stored_rows_choose():
    tried = bagging.tables.cifar10_candidates(*stored("bagging_cifar10_settings", "bagging_reduced_dp_sgd_settings"))
    used = {
        ("bagging", "vgg16"): grids.OPTIMIZERS["cifar10"],
        ("bagging", "vgg5"): grids.OPTIMIZERS["reduced"],
        ("dp_sgd", "given"): {"optimizer": "sgd", "learning_rate": grids.REDUCED_RATES["given"]},
        ("dp_sgd", "least"): {"optimizer": "sgd", "learning_rate": grids.REDUCED_RATES["least"]},
    }
    chosen = (
        tried.query("chosen").sort_values("subsample").drop_duplicates(["method", "architecture", "sigma"], keep="last")
    )
    assert len(chosen) == len(used)
    for line in chosen.itertuples():  # of VGG16 those of the larger sample, once they were run
        kind = line.architecture if line.method == "bagging" else "least" if np.isnan(line.sigma) else "given"
        settings = used[line.method, kind]
        assert (line.optimizer, line.learning_rate) == (settings["optimizer"], settings["learning_rate"])
