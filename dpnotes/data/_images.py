"""MNIST, Fashion-MNIST, CIFAR-10 and a subset of CIFAR-100: one ``.npz`` each, uint8 as published."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpnotes.data import _cifar100
from dpnotes.data._dataset import FEATURES, LABELS, DataDamaged, DataMissing
from dpnotes.data._source import Published, Source, cut, sha256
from dpnotes.data._unit_ball import to_unit_ball, to_unit_sphere

Arrays = Mapping[str, NDArray[np.uint8]]
MNIST_PARTS = {"_train": 60_000, "_test": 10_000}
_CLOTHES = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip
_THINGS = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")

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
    """Checked arrays, training rows first: images uint8 [n, height, width] or [n, height, width, 3], labels [n]."""

    x: NDArray[np.uint8]
    y: NDArray[np.uint8]
    n_train: int

    def split(self, X: FEATURES, *, n_public: int = 0) -> dict[str, Any]:
        """Arguments of :class:`Dataset` with features X [n, d] of all images; the first rows of the test are public."""
        height, width, *channels = self.x.shape[1:]
        n, end = self.n_train, self.n_train + n_public
        rows = {"train": slice(n), "test": slice(end, None)} | ({"public": slice(n, end)} if n_public else {})
        return {"image_shape": (*(channels or [1]), height, width), **cut(X, self.y.astype(np.int64), rows)}


@dataclass(frozen=True, kw_only=True)
class Archive:
    """What is known of a published archive.

    Parameters
    ----------
    name : str
    parts : mapping of str to int
        Ends of the names of its arrays of images ``x...`` and labels ``y...``, and the rows of each.
    image : tuple of int
        Shape of an image, (height, width) or (height, width, 3).
    class_names : tuple of str
    n_test : int
        Test rows, the last ones.
    labels : str or None
        SHA-256 sum of all labels; None where they are not checked apart from the images.
    sums : mapping of str to (str, str)
        SHA-256 sums of all arrays that are known: prefix of the digest and note for each.
    other : callable, optional
        The same for arrays of another sum; without it these are refused.
    """

    name: str
    parts: Mapping[str, int]
    image: tuple[int, ...]
    class_names: tuple[str, ...]
    n_test: int = 10_000
    labels: str | None = None
    sums: Mapping[str, tuple[str, str]]
    other: Callable[[Arrays], tuple[str, str]] | None = None

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of each array, in the order of the sum of all."""
        return {
            f"{kind}{end}": (n, *rest) for end, n in self.parts.items() for kind, rest in (("x", self.image), ("y", ()))
        }

    def read(self, folder: Path) -> Images:
        """Arrays of ``folder``, if they are the published ones; :class:`DataMissing` or :class:`DataDamaged` if not."""
        path = folder / f"{self.name}.npz"
        arrays = load_arrays(self.name, path, tuple(self.shapes))
        last = len(self.class_names) - 1
        for key, shape in self.shapes.items():
            array = arrays[key]
            if array.dtype != np.uint8 or array.shape != shape:
                fault = f"array {key!r} is {array.dtype} {array.shape}, expected uint8 {shape}"
                raise DataDamaged(self.name, path, fault)
            if key.startswith("y") and not np.array_equal(np.unique(array), np.arange(last + 1)):
                raise DataDamaged(
                    self.name, path, f"array {key!r} must hold the labels 0 .. {last}, each at least once"
                )
        x, y = ([arrays[kind + end] for end in self.parts] for kind in "xy")
        if self.labels is not None and sha256(*y) != self.labels:
            raise DataDamaged(self.name, path, "the labels are not the published ones (SHA-256 sum)")
        digest = sha256(*arrays.values())
        if digest in self.sums:
            prefix, note = self.sums[digest]
        elif self.other is not None:
            prefix, note = self.other(arrays)
        else:
            raise DataDamaged(self.name, path, f"the images are not the published ones (SHA-256 sum {digest[:12]}...)")
        return Images(
            digest=prefix + digest[:12],
            note=note,
            class_names=self.class_names,
            x=np.concatenate(x),
            y=np.concatenate(y),
            n_train=sum(map(len, y)) - self.n_test,
        )


def load_arrays(name: str, path: Path, keys: tuple[str, ...]) -> dict[str, NDArray[Any]]:
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


def _cifar10_other(arrays: Arrays) -> tuple[str, str]:
    """Prefix of the digest and note for a set of CIFAR-10 images whose labels are the published ones."""
    exact_part = sha256(
        np.delete(arrays["x_train"], _CIFAR10_INEXACT_TRAIN, axis=0),
        arrays["y_train"],
        np.delete(arrays["x_test"], _CIFAR10_INEXACT_TEST, axis=0),
        arrays["y_test"],
    )
    if exact_part == _CIFAR10_EXACT_PART:
        return "", ""
    return "unverified:", "labels are the published ones; images differ from those that this version knows"


def _cifar100_other(arrays: Arrays) -> tuple[str, str]:
    return "unverified:", "not the subset that this version knows (SHA-256 sum)"


def _cifar10_inexact() -> tuple[str, str]:
    train, test = len(_CIFAR10_INEXACT_TRAIN), len(_CIFAR10_INEXACT_TEST)
    counts = f"{train + test} of 60,000 images ({train} training, {test} test)"
    return f"{train + test}-inexact:", f"{counts} are JPEG approximations"


KNOWN = {
    archive.name: archive
    for archive in (
        Archive(
            name="mnist",
            parts=MNIST_PARTS,
            image=(28, 28),
            class_names=tuple("0123456789"),
            labels="671ff9d70b4811116d55c3dd479efa7a981e2e62753ef7a6d5c15fea81e63d27",
            sums={"06b0d1f124c4e5fa796686ade41a9b778edacc8622f2195a352ef479ad44fc16": ("", "")},
        ),
        Archive(
            name="fashion_mnist",
            parts=MNIST_PARTS,
            image=(28, 28),
            class_names=_CLOTHES,
            labels="8ab940a680640f36c0bf1d2549cb2f3b3d4068c12547116cc7b1161b1d26663d",
            sums={"ca3ab2a37f845e1b8ae23cab1b51749a3011ba3bf1d9016176d75cbaabac376f": ("", "")},
        ),
        Archive(
            name="cifar10",
            parts={"_train": 50_000, "_test": 10_000},
            image=(32, 32, 3),
            class_names=_THINGS,
            labels="3edb456524d5918aefded81f5aef7c32efab2a788211df998a4eb0c8957baa1f",
            sums={_CIFAR10_INEXACT: _cifar10_inexact()},
            other=_cifar10_other,
        ),
        Archive(
            name=_cifar100.NAME,
            parts={"": _cifar100.RECORDS},
            image=(32, 32, 3),
            class_names=_cifar100.CLASSES,
            n_test=2_000,
            sums={"041c75b0418d65e6aa40b7900a5a45890406db5433fc8ebc414ddc3f72fd196d": ("", "")},
            other=_cifar100_other,
        ),
    )
}


def pixels(images: NDArray[np.uint8]) -> FEATURES:
    """Pixels / 255, float32 [n, d], channel first."""
    if images.ndim == 4:
        images = images.transpose(0, 3, 1, 2)
    flat = np.ascontiguousarray(images).reshape(len(images), -1)
    return np.divide(flat, np.float32(255), dtype=np.float32)


def _read(name: str, folder: Path) -> Images:
    return KNOWN[name].read(folder)


def _original(images: Images) -> dict[str, Any]:
    return images.split(pixels(images.x))


def _bagging_public(images: Images) -> dict[str, Any]:
    return images.split(pixels(images.x), n_public=1_000)


def _private_prediction(images: Images) -> dict[str, Any]:
    return images.split(to_unit_ball(pixels(images.x)))


def _intrinsic_sgd(images: Images) -> dict[str, Any]:
    projection = np.random.default_rng(0).normal(0, 1 / np.sqrt(50), (784, 50))

    def part(rows: slice) -> tuple[FEATURES, LABELS]:
        x, y = images.x[rows], images.y[rows]
        chosen = (y == 3) | (y == 5)
        X = to_unit_sphere(pixels(x[chosen]).astype(np.float64) @ projection)
        return X, (y[chosen] == 5).astype(np.int64)

    X, y = part(slice(images.n_train))
    X_test, y_test = part(slice(images.n_train, None))
    first = len(X) // 10
    rows = {"validation": slice(first), "train": slice(first, None)}
    return {"class_names": ("3", "5"), "X_test": X_test, "y_test": y_test, **cut(X, y, rows)}


MORE = {  # splits beside the original one
    "mnist": {
        "bagging_public": _bagging_public,
        "private_prediction": _private_prediction,
        "intrinsic_sgd": _intrinsic_sgd,
    },
    "cifar10": {"bagging_public": _bagging_public},
}
SOURCES = {
    name: Source((f"{name}.npz",), partial(_read, name), {"original": _original} | MORE.get(name, {})) for name in KNOWN
}
