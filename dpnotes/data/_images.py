"""MNIST, Fashion-MNIST and CIFAR-10: one ``.npz`` each, uint8 as published."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpnotes.data._dataset import FEATURES, LABELS, DataDamaged, DataMissing, Dataset
from dpnotes.data._source import Published, Source, cut, sha256
from dpnotes.data._unit_ball import to_unit_ball, to_unit_sphere

ARRAYS = ("x_train", "y_train", "x_test", "y_test")

_DIGITS = tuple("0123456789")
_CLOTHES = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip
_THINGS = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


@dataclass(frozen=True, kw_only=True)
class _Known:
    """What is known of the published arrays; images are [n, height, width] or [n, height, width, 3]."""

    n_train: int
    n_test: int
    image: tuple[int, ...]
    class_names: tuple[str, ...]
    labels: str  # SHA-256 sum of y_train and y_test
    arrays: str | None  # SHA-256 sum of the four arrays; None where several sets of images go by the name

    def shape(self, array: str) -> tuple[int, ...]:
        n = self.n_train if array.endswith("train") else self.n_test
        return (n, *self.image) if array.startswith("x") else (n,)


KNOWN = {
    "mnist": _Known(
        n_train=60_000,
        n_test=10_000,
        image=(28, 28),
        class_names=_DIGITS,
        labels="671ff9d70b4811116d55c3dd479efa7a981e2e62753ef7a6d5c15fea81e63d27",
        arrays="06b0d1f124c4e5fa796686ade41a9b778edacc8622f2195a352ef479ad44fc16",
    ),
    "fashion_mnist": _Known(
        n_train=60_000,
        n_test=10_000,
        image=(28, 28),
        class_names=_CLOTHES,
        labels="8ab940a680640f36c0bf1d2549cb2f3b3d4068c12547116cc7b1161b1d26663d",
        arrays="ca3ab2a37f845e1b8ae23cab1b51749a3011ba3bf1d9016176d75cbaabac376f",
    ),
    "cifar10": _Known(
        n_train=50_000,
        n_test=10_000,
        image=(32, 32, 3),
        class_names=_THINGS,
        labels="3edb456524d5918aefded81f5aef7c32efab2a788211df998a4eb0c8957baa1f",
        arrays=None,
    ),
}

# A copy of CIFAR-10 is in use in which the images listed here are JPEG approximations; all others are the original.
# Sums: of its four arrays, and of the arrays of either set without the listed images (labels all kept).
_CIFAR10_INEXACT = "e57384ac0441112e3f38e5b602d922c196a3fd842869e1570606ddf09a602df1"
_CIFAR10_EXACT_PART = "1da76de26c9a78ebd4bf7a2898a60e4467bd5a4125bfd6f7869b9609c1401c0e"
_CIFAR10_INEXACT_TRAIN = (
    4298, 5949, 7066, 7237, 7248, 7630, 8006, 8831, 8968, 9415, 12762, 12834, 13546, 21493, 25728, 26098, 26927,
    27621, 28435, 28728, 29694, 29747, 31066, 31367, 31462, 31625, 31663, 32777, 33641, 33661, 34067, 34276,
    34387, 34825, 35160, 35646, 36733, 37329, 37474, 37567, 38384, 38925, 39358, 39385, 39613, 39840, 39888,
    39971, 41779, 42004, 42389, 42611, 43357, 43883, 44882, 45168, 45240, 46175, 46435, 46538, 46624, 47393,
    47597, 48081, 48124, 48333, 48821, 48836, 49321, 49429, 49631, 49830, 49857,
)  # fmt: skip
_CIFAR10_INEXACT_TEST = (
    1259, 1369, 1422, 2245, 2737, 2935, 3695, 3718, 4085, 4496, 5791, 5896, 6286, 7580, 7707, 7724, 7832, 8117,
    8551, 9254,
)  # fmt: skip


@dataclass(frozen=True, eq=False, kw_only=True)
class Images(Published):
    """Checked arrays as published: images uint8 [n, height, width] or [n, height, width, 3], labels uint8 [n]."""

    x_train: NDArray[np.uint8]
    y_train: NDArray[np.uint8]
    x_test: NDArray[np.uint8]
    y_test: NDArray[np.uint8]


def read_npz(name: str, path: Path) -> Images:
    """Arrays of ``path``, if they are the published ones of data set ``name``; :class:`DataDamaged` if not."""
    arrays: dict[str, Any] = load_arrays(name, path)
    known = KNOWN[name]
    for key, array in arrays.items():
        if array.dtype != np.uint8 or array.shape != known.shape(key):
            found, wanted = f"{array.dtype} {array.shape}", f"uint8 {known.shape(key)}"
            raise DataDamaged(name, path, f"array {key!r} is {found}, expected {wanted}")
        if key.startswith("y") and array.max() >= len(known.class_names):
            raise DataDamaged(name, path, f"array {key!r} has label {array.max()}, labels are 0 .. 9")
    if sha256(arrays["y_train"], arrays["y_test"]) != known.labels:
        raise DataDamaged(name, path, "the labels are not the published ones (SHA-256 sum)")
    digest = sha256(*arrays.values())
    if known.arrays is None:
        kind, note = _cifar10_kind(arrays, digest)
        return Images(**arrays, digest=kind + digest[:12], note=note)
    if digest != known.arrays:
        raise DataDamaged(name, path, f"the images are not the published ones (SHA-256 sum {digest[:12]}...)")
    return Images(**arrays, digest=digest[:12])


def load_arrays(name: str, path: Path, keys: tuple[str, ...] = ARRAYS) -> dict[str, NDArray[Any]]:
    """Arrays of an archive by name; :class:`DataMissing` or :class:`DataDamaged` if they cannot be had."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        raise DataMissing(name, path) from None
    with file:
        if not zipfile.is_zipfile(file):
            raise DataDamaged(name, path, "not a whole .npz archive: truncated, or another kind of file")
        file.seek(0)
        try:
            with np.load(file, allow_pickle=False) as archive:
                return {key: archive[key] for key in keys}
        except Exception as error:  # a broken archive fails in many ways: checksum, header, compression, missing array
            fault = f"not an .npz archive of {', '.join(keys)} ({type(error).__name__}: {error})"
            raise DataDamaged(name, path, fault) from error


def _cifar10_kind(arrays: Mapping[str, NDArray[Any]], digest: str) -> tuple[str, str]:
    """Prefix of the digest and note for a set of CIFAR-10 images whose labels are the published ones."""
    train, test = _CIFAR10_INEXACT_TRAIN, _CIFAR10_INEXACT_TEST
    if digest == _CIFAR10_INEXACT:
        count = len(train) + len(test)
        counts = f"{count} of 60,000 images ({len(train)} training, {len(test)} test)"
        return f"{count}-inexact:", f"{counts} are JPEG approximations"
    exact_part = sha256(
        np.delete(arrays["x_train"], train, axis=0),
        arrays["y_train"],
        np.delete(arrays["x_test"], test, axis=0),
        arrays["y_test"],
    )
    if exact_part == _CIFAR10_EXACT_PART:
        return "", ""
    return "unverified:", "labels are the published ones; images differ from those that this version knows"


def features(images: NDArray[np.uint8]) -> FEATURES:
    """Pixels / 255, float32 [n, d], channel first."""
    if images.ndim == 4:
        images = images.transpose(0, 3, 1, 2)
    flat = np.ascontiguousarray(images).reshape(len(images), -1)
    return np.divide(flat, np.float32(255), dtype=np.float32)


def _original(name: str, images: Images) -> Dataset:
    height, width, *channels = KNOWN[name].image
    return Dataset(
        name=name,
        split="original",
        X_train=features(images.x_train),
        y_train=images.y_train.astype(np.int64),
        X_test=features(images.x_test),
        y_test=images.y_test.astype(np.int64),
        class_names=KNOWN[name].class_names,
        feature_names=None,
        image_shape=(*(channels or [1]), height, width),
        digest=f"{name}:original:{images.digest}",
        note=images.note,
    )


def _with_split(data: Dataset, split: str, **changes: Any) -> Dataset:
    return replace(data, split=split, digest=data.digest.replace(":original:", f":{split}:"), **changes)


def _private_prediction(images: Images) -> Dataset:
    data = _original("mnist", images)
    X_train, X_test = to_unit_ball(data.X_train), to_unit_ball(data.X_test)
    return _with_split(data, "private_prediction", X_train=X_train, X_test=X_test)


def _bagging_public(name: str, images: Images) -> Dataset:
    data = _original(name, images)
    parts = cut(data.X_test, data.y_test, {"public": slice(1_000), "test": slice(1_000, None)})
    return _with_split(data, "bagging_public", **parts)


def _intrinsic_sgd(images: Images) -> Dataset:
    projection = np.random.default_rng(0).normal(0, 1 / np.sqrt(50), (784, 50))

    def part(x: NDArray[np.uint8], y: NDArray[np.uint8]) -> tuple[FEATURES, LABELS]:
        chosen = (y == 3) | (y == 5)
        X = to_unit_sphere(features(x[chosen]).astype(np.float64) @ projection)
        return X, (y[chosen] == 5).astype(np.int64)

    X, y = part(images.x_train, images.y_train)
    X_test, y_test = part(images.x_test, images.y_test)
    first = len(X) // 10
    return Dataset(
        name="mnist",
        split="intrinsic_sgd",
        X_test=X_test,
        y_test=y_test,
        class_names=("3", "5"),
        feature_names=None,
        image_shape=None,
        digest=f"mnist:intrinsic_sgd:{images.digest}",
        **cut(X, y, {"validation": slice(first), "train": slice(first, None)}),
    )


def _source(name: str, **more: Callable[[Images], Dataset]) -> Source[Images]:
    file = f"{name}.npz"
    return Source((file,), lambda folder: read_npz(name, folder / file), {"original": partial(_original, name), **more})


SOURCES = {
    "mnist": _source(
        "mnist",
        bagging_public=partial(_bagging_public, "mnist"),
        private_prediction=_private_prediction,
        intrinsic_sgd=_intrinsic_sgd,
    ),
    "fashion_mnist": _source("fashion_mnist"),
    "cifar10": _source("cifar10", bagging_public=partial(_bagging_public, "cifar10")),
}
