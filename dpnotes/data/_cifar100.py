"""A subset of CIFAR-100 for public pre-training: one ``.npz``, uint8, pixels as published."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpnotes.data._dataset import DataDamaged, Dataset
from dpnotes.data._images import features, load_arrays
from dpnotes.data._source import Published, Source, cut, sha256

NAME = "cifar100_subset"
FILE = f"{NAME}.npz"
ARRAYS = ("x", "y")
RECORDS = 20_000
TEST_ROWS = 2_000  # the last ones
IMAGE = (32, 32, 3)
_NAMES = (
    "apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can "
    "castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin "
    "elephant flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard lobster "
    "man maple_tree motorcycle mountain mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck "
    "pine_tree plain plate poppy porcupine possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk "
    "skyscraper snail snake spider squirrel streetcar sunflower sweet_pepper table tank telephone television tiger "
    "tractor train trout tulip turtle wardrobe whale willow_tree wolf woman worm"
)
CLASSES = tuple(_NAMES.split())
KNOWN = "041c75b0418d65e6aa40b7900a5a45890406db5433fc8ebc414ddc3f72fd196d"  # SHA-256 sum of x and y


@dataclass(frozen=True, eq=False, kw_only=True)
class Subset(Published):
    """Checked arrays: images uint8 [20000, 32, 32, 3], labels uint8 [20000]."""

    x: NDArray[np.uint8]
    y: NDArray[np.uint8]


def read(folder: Path) -> Subset:
    """Arrays of the subset; :class:`DataMissing` or :class:`DataDamaged` if they cannot be had.

    A set of the right form that is not the known one is taken, and called ``unverified``.
    """
    path = folder / FILE
    arrays: dict[str, Any] = load_arrays(NAME, path, ARRAYS)
    for key, shape in (("x", (RECORDS, *IMAGE)), ("y", (RECORDS,))):
        if arrays[key].dtype != np.uint8 or arrays[key].shape != shape:
            found = f"{arrays[key].dtype} {arrays[key].shape}"
            raise DataDamaged(NAME, path, f"array {key!r} is {found}, expected uint8 {shape}")
    if set(np.unique(arrays["y"])) != set(range(len(CLASSES))):
        raise DataDamaged(NAME, path, f"array 'y' must hold the labels 0 .. {len(CLASSES) - 1}, each at least once")
    digest = sha256(arrays["x"], arrays["y"])
    if digest == KNOWN:
        return Subset(**arrays, digest=digest[:12])
    note = "not the subset that this version knows (SHA-256 sum)"
    return Subset(**arrays, digest=f"unverified:{digest[:12]}", note=note)


def subset(
    parts: Sequence[tuple[NDArray[np.uint8], NDArray[np.uint8]]], others: Sequence[NDArray[np.uint8]]
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Choose the subset from the published sets.

    Parameters
    ----------
    parts : sequence of (images, labels)
        Training and test part of CIFAR-100: uint8 [n, 32, 32, 3] and [n].
    others : sequence of images
        Parts of CIFAR-10, whose images are left out.

    Returns
    -------
    images, labels
        The first 20,000 different images in the order of the SHA-256 sums of their 3,072 bytes, channel first as
        published; images with two different labels are left out.
    """
    excluded = {key for images in others for key in _keys(images)}
    chosen: dict[str, tuple[NDArray[np.uint8], int]] = {}
    for images, labels in parts:
        for key, image, label in zip(_keys(images), images, labels.tolist(), strict=True):
            if key in chosen and chosen[key][1] != label:
                excluded.add(key)
            chosen[key] = image, label
    kept = [chosen[key] for key in sorted(chosen.keys() - excluded)[:RECORDS]]
    return np.stack([image for image, _ in kept]), np.array([label for _, label in kept], dtype=np.uint8)


def _keys(images: NDArray[np.uint8]) -> list[str]:
    planes = np.ascontiguousarray(images.transpose(0, 3, 1, 2))
    return [hashlib.sha256(image.data).hexdigest() for image in planes]


def _original(images: Subset) -> Dataset:
    rows = {"train": slice(-TEST_ROWS), "test": slice(-TEST_ROWS, None)}
    return Dataset(
        name=NAME,
        split="original",
        class_names=CLASSES,
        feature_names=None,
        image_shape=(3, 32, 32),
        digest=f"{NAME}:original:{images.digest}",
        note=images.note,
        **cut(features(images.x), images.y.astype(np.int64), rows),
    )


SOURCES = {NAME: Source((FILE,), read, {"original": _original})}
