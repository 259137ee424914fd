"""Which images of CIFAR-100 are in the subset for public pre-training."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

NAME = "cifar100_subset"
RECORDS = 20_000


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
