"""The subset of CIFAR-100: which images are in it, how it is fetched, read and refused."""

import hashlib
from dataclasses import replace

import numpy as np
import pytest
from torchvision import datasets

from dpnotes import data
from dpnotes.data import _cifar100, _images

N = 230  # images of either published part here; 400 are chosen


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(_cifar100, "RECORDS", 400)
    known = replace(_images.KNOWN["cifar100_subset"], parts={"": 400}, n_test=150)
    monkeypatch.setitem(_images.KNOWN, "cifar100_subset", known)


def published():
    """Two parts of CIFAR-100 and one of CIFAR-10, with an image twice, one with two labels and one in both sets."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (2, N, 32, 32, 3), dtype=np.uint8)
    labels = np.arange(2 * N, dtype=np.uint8).reshape(2, N) % 100
    others = rng.integers(0, 256, (5, 32, 32, 3), dtype=np.uint8)
    images[1, 0], labels[1, 0] = images[0, 0], labels[0, 0]  # twice
    images[1, 1], labels[1, 1] = images[0, 1], labels[0, 1] + 1  # with two labels
    others[3] = images[0, 2]
    return list(zip(images, labels, strict=True)), others


def key(image):
    """SHA-256 sum of one image as the published files hold it: red plane, green plane, blue plane."""
    return hashlib.sha256(b"".join(image[:, :, channel].tobytes() for channel in range(3))).hexdigest()


def test_the_subset_is_the_first_images_by_hash(small):
    parts, others = published()
    x, y = _cifar100.subset(parts, [others])
    assert x.shape == (400, 32, 32, 3)
    keys = [key(image) for image in x]
    assert keys == sorted(set(keys))
    label_of = {key(image): label for images, labels in parts for image, label in zip(images, labels, strict=True)}
    assert y.tolist() == [label_of[k] for k in keys]
    (first, _), _ = parts
    assert key(first[1]) not in keys
    assert key(first[2]) not in keys
    left = set(label_of) - {key(first[1]), key(first[2])}
    assert keys == sorted(left)[:400]
    assert key(first[0]) in left


def test_it_is_fetched_from_both_sets_of_torchvision(small, folder, monkeypatch):
    parts, others = published()

    def kind(arrays):
        class Set:
            def __init__(self, root, *, train, download):
                assert download
                self.data, labels = arrays[0 if train else 1]
                self.targets = labels.tolist()

        return Set

    monkeypatch.setattr(datasets, "CIFAR100", kind(parts))
    monkeypatch.setattr(datasets, "CIFAR10", kind([(others, np.zeros(5)), (others, np.zeros(5))]))
    assert data.fetch("cifar100_subset") == folder / "cifar100_subset.npz"
    loaded = data.load("cifar100_subset")
    x, y = _cifar100.subset(parts, [others])
    assert np.array_equal(loaded.y_train, y[:-150])
    assert np.array_equal(loaded.y_test, y[-150:])
    planes = (x[-1].transpose(2, 0, 1) / 255).astype(np.float32)
    assert np.array_equal(loaded.X_test[-1].reshape(3, 32, 32), planes)
    assert "unverified" in loaded.digest
    assert "not the subset" in loaded.note
    assert [path.name for path in folder.iterdir()] == ["cifar100_subset.npz"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x, y: {"x": x[1:], "y": y}, r"'x' is uint8 \(399, 32, 32, 3\), expected uint8 \(400, 32, 32, 3\)"),
        (lambda x, y: {"x": x, "y": y.astype(int)}, r"'y' is int64 \(400,\), expected uint8 \(400,\)"),
        (lambda x, y: {"x_train": x, "y": y}, "not a whole .npz archive of x, y"),
    ],
    ids=["rows", "dtype", "names"],
)
def test_another_file_is_refused(small, folder, change, message):
    folder.mkdir()
    np.savez(folder / "cifar100_subset.npz", **change(*_cifar100.subset(published()[0], [])))
    with pytest.raises(data.DataDamaged, match=message):
        data.load("cifar100_subset")


@pytest.mark.needs("cifar100_subset", "cifar10")
def test_the_file_here_follows_the_rule_and_shares_no_image_with_cifar10(load, path_of):
    with np.load(path_of("cifar100_subset")) as archive:
        keys = [key(image) for image in archive["x"]]
    assert keys == sorted(set(keys))
    with np.load(path_of("cifar10")) as archive:
        assert not {key(image) for part in ("x_train", "x_test") for image in archive[part]} & set(keys)
    loaded = load("cifar100_subset")
    assert (loaded.class_names[0], loaded.class_names[99], len(loaded.class_names)) == ("0", "99", 100)
