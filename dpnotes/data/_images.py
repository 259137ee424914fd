"""MNIST, Fashion-MNIST, CIFAR-10 and a subset of CIFAR-100: one ``.npz`` each, uint8
as published.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpnotes.data._dataset import (
    FEATURES,
    LABELS,
    DataDamaged,
    DataMissing,
    Published,
    Source,
    cut,
    sha256,
)
from dpnotes.data._unit_ball import to_unit_ball, to_unit_sphere

CIFAR100_RECORDS = 20_000  # of the subset
MNIST_PARTS = {"_train": 60_000, "_test": 10_000}
_CLOTHES = (
    "T-shirt/top, Trouser, Pullover, Dress, Coat, Sandal, Shirt, Sneaker, Bag,"
    " Ankle boot"
)
_THINGS = "airplane, automobile, bird, cat, deer, dog, frog, horse, ship, truck"
# A copy of CIFAR-10 is in use in which the images listed here are JPEG approximations;
# all others are the original.
_IN_DOUBT = {
    "x_train": (
        "4298 5949 7066 7237 7248 7630 8006 8831 8968 9415 12762 12834 13546 21493"
        " 25728 26098 26927 27621 28435 28728 29694 29747 31066 31367 31462 31625"
        " 31663 32777 33641 33661 34067 34276 34387 34825 35160 35646 36733 37329"
        " 37474 37567 38384 38925 39358 39385 39613 39840 39888 39971 41779 42004"
        " 42389 42611 43357 43883 44882 45168 45240 46175 46435 46538 46624 47393"
        " 47597 48081 48124 48333 48821 48836 49321 49429 49631 49830 49857"
    ),
    "x_test": (
        "1259 1369 1422 2245 2737 2935 3695 3718 4085 4496 5791 5896 6286 7580 7707"
        " 7724 7832 8117 8551 9254"
    ),
}
# the rows of either array by number
_CIFAR10_IN_DOUBT = {
    array: tuple(map(int, rows.split())) for array, rows in _IN_DOUBT.items()
}
# by the SHA-256 sum of all its arrays: what its digest begins with, and its note
_CIFAR10_FORMS = {
    "e57384ac0441112e3f38e5b602d922c196a3fd842869e1570606ddf09a602df1": (
        "93-inexact:",
        "93 of 60,000 images (73 training, 20 test) are JPEG approximations",
    )
}


def cifar100_subset(
    parts: Sequence[tuple[NDArray[np.uint8], NDArray[np.uint8]]],
    others: Sequence[NDArray[np.uint8]],
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Choose the subset of CIFAR-100 from the published sets.

    Parameters
    ----------
    parts : sequence of (images, labels)
        Training and test part of CIFAR-100: uint8 [n, 32, 32, 3] and [n].
    others : sequence of images
        Parts of CIFAR-10, whose images are left out.

    Returns
    -------
    images, labels
        The first 20,000 different images in the order of the SHA-256 sums of their
        3,072 bytes, channel first as published; images with two different labels are
        left out.
    """
    excluded: set[str] = set()
    for images in others:
        excluded.update(_keys(images))
    all_images = np.concatenate([images for images, _ in parts])
    all_labels = np.concatenate([labels for _, labels in parts])
    # place of an image by its key, so that each one is chosen once
    place: dict[str, int] = {}
    for i, key in enumerate(_keys(all_images)):
        if all_labels[place.setdefault(key, i)] != all_labels[i]:
            excluded.add(key)
    kept = sorted(place.keys() - excluded)[:CIFAR100_RECORDS]
    rows = [place[key] for key in kept]
    return all_images[rows], all_labels[rows].astype(np.uint8)


def _keys(images: NDArray[np.uint8]) -> list[str]:
    # red, green and blue one after the other, as the file has them
    planes = np.ascontiguousarray(images.transpose(0, 3, 1, 2))
    return [hashlib.sha256(image.data).hexdigest() for image in planes]


@dataclass(frozen=True, eq=False, kw_only=True)
class Images(Published):
    """Checked arrays, training rows first: images uint8 [n, height, width] or [n,
    height, width, 3], labels [n].
    """

    x: NDArray[np.uint8]
    y: NDArray[np.uint8]
    n_train: int

    def split(self, X: FEATURES, *, n_public: int = 0) -> dict[str, Any]:
        """Arguments of :class:`Dataset` with features X [n, d] of all images.

        The first ``n_public`` test rows are public.
        """
        height, width, *channels = self.x.shape[1:]
        end = self.n_train + n_public
        rows = {"train": slice(self.n_train), "test": slice(end, None)}
        if n_public:
            rows["public"] = slice(self.n_train, end)
        return {
            "image_shape": (*(channels or [1]), height, width),
            **cut(X, self.y.astype(np.int64), rows),
        }


@dataclass(frozen=True, kw_only=True)
class Archive:
    """Known facts about a published archive.

    Parameters
    ----------
    name : str
    parts : mapping of str to int
        Number of rows for each ending; ``x`` and ``y`` with this ending are its arrays
        of images and labels.
    image : tuple of int
        Shape of an image, (height, width) or (height, width, 3).
    class_names : tuple of str
    sum : str
        SHA-256 sum of all arrays without the images in doubt.
    in_doubt : mapping of str to tuple of int
        Rows of an array that differ between copies in use.
    forms : mapping of str to (str, str)
        Prefix of the digest and note of each known copy that is inexact in these rows,
        by its SHA-256 sum.
    n_test : int
        Number of test rows, which come last.
    strict : bool
        Whether arrays with another sum raise an error; otherwise they are marked as
        ``unverified``.
    """

    name: str
    parts: Mapping[str, int]
    image: tuple[int, ...]
    class_names: tuple[str, ...]
    sum: str
    in_doubt: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    forms: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    n_test: int = 10_000
    strict: bool = True

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of each array, in the order that the sum uses."""
        shapes: dict[str, tuple[int, ...]] = {}
        for end, n in self.parts.items():
            shapes[f"x{end}"] = (n, *self.image)
            shapes[f"y{end}"] = (n,)
        return shapes

    def read(self, folder: Path) -> Images:
        """Read the published arrays in ``folder``; raise :class:`DataMissing` or
        :class:`DataDamaged` if that fails.
        """
        path = folder / f"{self.name}.npz"
        # the sum is over the arrays in this order
        arrays = load_arrays(self.name, path, tuple(self.shapes))
        for key, shape in self.shapes.items():
            if arrays[key].dtype != np.uint8 or arrays[key].shape != shape:
                fault = (
                    f"array {key!r} is {arrays[key].dtype} {arrays[key].shape},"
                    f" expected uint8 {shape}"
                )
                raise DataDamaged(self.name, path, fault)
        digest = sha256(*arrays.values())
        prefix, note = self.forms.get(digest, ("", ""))
        # all that is the same in every copy in use
        sound = dict(arrays)
        for key, rows in self.in_doubt.items():
            sound[key] = np.delete(arrays[key], rows, axis=0)
        if sha256(*sound.values()) != self.sum:
            if self.strict:
                fault = "the images are not the published ones (SHA-256 sum"
                raise DataDamaged(self.name, path, f"{fault} {digest[:12]})")
            prefix = "unverified:"
            note = "not the subset that this version knows (SHA-256 sum)"
        y = np.concatenate([arrays[f"y{end}"] for end in self.parts])
        return Images(
            digest=prefix + digest[:12],
            note=note,
            class_names=self.class_names,
            x=np.concatenate([arrays[f"x{end}"] for end in self.parts]),
            y=y,
            n_train=len(y) - self.n_test,
        )


def load_arrays(
    name: str, path: Path, keys: tuple[str, ...]
) -> dict[str, NDArray[Any]]:
    """Read the arrays of an archive by name; raise :class:`DataMissing` or
    :class:`DataDamaged` if that fails.
    """
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return {key: archive[key] for key in keys}
    except FileNotFoundError:
        raise DataMissing(name, path) from None
    # a broken archive fails in many ways: checksum, header, compression, missing array
    except Exception as error:
        fault = (
            f"not a whole .npz archive of {', '.join(keys)} ({type(error).__name__}:"
            f" {error})"
        )
        raise DataDamaged(name, path, fault) from error


KNOWN = {
    archive.name: archive
    for archive in (
        Archive(
            name="mnist",
            parts=MNIST_PARTS,
            image=(28, 28),
            class_names=tuple("0123456789"),
            sum="06b0d1f124c4e5fa796686ade41a9b778edacc8622f2195a352ef479ad44fc16",
        ),
        Archive(
            name="fashion_mnist",
            parts=MNIST_PARTS,
            image=(28, 28),
            class_names=tuple(_CLOTHES.split(", ")),
            sum="ca3ab2a37f845e1b8ae23cab1b51749a3011ba3bf1d9016176d75cbaabac376f",
        ),
        Archive(
            name="cifar10",
            parts={"_train": 50_000, "_test": 10_000},
            image=(32, 32, 3),
            class_names=tuple(_THINGS.split(", ")),
            sum="1da76de26c9a78ebd4bf7a2898a60e4467bd5a4125bfd6f7869b9609c1401c0e",
            in_doubt=_CIFAR10_IN_DOUBT,
            forms=_CIFAR10_FORMS,
        ),
        Archive(
            name="cifar100_subset",
            parts={"": CIFAR100_RECORDS},
            image=(32, 32, 3),
            class_names=tuple(str(label) for label in range(100)),
            sum="041c75b0418d65e6aa40b7900a5a45890406db5433fc8ebc414ddc3f72fd196d",
            n_test=2_000,
            strict=False,
        ),
    )
}


def pixels(images: NDArray[np.uint8]) -> FEATURES:
    """Divide pixels by 255, and flatten each image channel first: float32 [n, d]."""
    if images.ndim == 4:
        # colours come last in the file
        images = images.transpose(0, 3, 1, 2)
    flat = np.ascontiguousarray(images).reshape(len(images), -1)
    return np.divide(flat, np.float32(255), dtype=np.float32)


def _bagging_public(images: Images) -> dict[str, Any]:
    return images.split(pixels(images.x), n_public=1_000)


def _intrinsic_sgd(images: Images) -> dict[str, Any]:
    # entries of variance 1/50 keep the length of a row on the average
    projection = np.random.default_rng(0).normal(0, 1 / np.sqrt(50), (784, 50))

    def part(rows: slice) -> tuple[FEATURES, LABELS]:
        y = images.y[rows]
        # code 0 is the digit 3, code 1 the digit 5
        chosen = (y == 3) | (y == 5)
        flat = pixels(images.x[rows][chosen]).astype(np.float64)
        X = to_unit_sphere(flat @ projection)
        return X, (y[chosen] == 5).astype(np.int64)

    X, y = part(slice(images.n_train))
    X_test, y_test = part(slice(images.n_train, None))
    # the first tenth of the rows is for validation
    first = len(X) // 10
    rows = {"validation": slice(first), "train": slice(first, None)}
    return {
        "class_names": ("3", "5"),
        "X_test": X_test,
        "y_test": y_test,
        **cut(X, y, rows),
    }


def _source(name: str, **more: Callable[[Images], dict[str, Any]]) -> Source[Images]:
    splits = {"original": lambda images: images.split(pixels(images.x)), **more}
    return Source((f"{name}.npz",), lambda folder: KNOWN[name].read(folder), splits)


SOURCES = {
    "mnist": _source(
        "mnist",
        bagging_public=_bagging_public,
        private_prediction=lambda images: images.split(to_unit_ball(pixels(images.x))),
        intrinsic_sgd=_intrinsic_sgd,
    ),
    "fashion_mnist": _source("fashion_mnist"),
    "cifar10": _source("cifar10", bagging_public=_bagging_public),
    "cifar100_subset": _source("cifar100_subset"),
}
