"""VGG16's convolutions as ImageNet trained them, and images scaled as they expect."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from dpnotes.data import data_folder

FILE = "vgg16-397923af.pth"  # torchvision's IMAGENET1K_V1; the name ends in the first digits of its SHA-256 sum
COMMAND = (
    'python -c "from torchvision.models import VGG16_Weights; '
    'VGG16_Weights.IMAGENET1K_V1.get_state_dict(check_hash=True)"'
)
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # red, green, blue: torchvision's for these weights
PREFIX = "features."


def convolutions() -> dict[str, torch.Tensor]:
    """Weights and biases of the thirteen convolutions, by the names that ``vgg16(norm=None)`` has for them.

    The file is taken from the data folder, or from where torchvision keeps what it downloads; nothing is downloaded.

    Raises
    ------
    FileNotFoundError
        If it is in neither; the message has the command that fetches it.
    ValueError
        If it is not the published file.
    """
    places = (data_folder() / FILE, Path(torch.hub.get_dir()) / "checkpoints" / FILE)
    path = next((place for place in places if place.is_file()), None)
    if path is None:
        raise FileNotFoundError(
            f"the ImageNet weights of VGG16 are not here: there is no {' and no '.join(map(str, places))}; run "
            f"`{COMMAND}` (528 MB), or take the public data set 'cifar100_subset' in their place"
        )
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()[:8]
    if found != path.stem.rpartition("-")[2]:
        raise ValueError(f"{path} is not the published file: its SHA-256 sum begins with {found}; remove it")
    weights = torch.load(path, map_location="cpu", weights_only=True)
    return {name.removeprefix(PREFIX): value for name, value in weights.items() if name.startswith(PREFIX)}


def standardised(X: NDArray[np.float32], image_shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Rows [n, 3 * height * width] of pixels / 255, channel by channel with ImageNet's mean and deviation."""
    if len(image_shape) != 3 or image_shape[0] != len(MEAN):
        raise ValueError(f"ImageNet weights need images of 3 channels, got image_shape={image_shape}")
    mean, deviation = (np.array(values, dtype=X.dtype)[:, None] for values in (MEAN, DEVIATION))
    return ((X.reshape(len(X), len(MEAN), -1) - mean) / deviation).reshape(X.shape)
