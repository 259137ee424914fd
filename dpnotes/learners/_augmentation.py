"""Random crops and mirror images of small pictures, for whole batches at once."""

from __future__ import annotations

import torch
from torch.nn.functional import pad

PADDING = 4  # pixels on each side
OFFSETS = 2 * PADDING + 1  # places of the crop along one side
KINDS = 2 * OFFSETS**2  # mirrored or not, vertical and horizontal place


def crop_flip(images: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Crop each image at random out of itself with a border of 4 zeros, and mirror half of them left to right.

    Each image is changed by itself alone: place and mirroring are uniform over the 9 x 9 x 2 possibilities,
    independently of all others. Shape, dtype and device are kept.

    Parameters
    ----------
    images : torch.Tensor, shape [n, channels, height, width]
    generator : torch.Generator
        On the CPU, whatever the device of the images.

    Returns
    -------
    torch.Tensor, shape [n, channels, height, width]

    Source
    ------
    He, Zhang, Ren and Sun (2016), arXiv:1512.03385, section 4.2.

    Examples
    --------
    >>> images = torch.ones(2, 3, 32, 32)
    >>> crop_flip(images, torch.Generator().manual_seed(0)).shape
    torch.Size([2, 3, 32, 32])
    """
    return apply_crop_flips(images, draw_crop_flips(len(images), generator))


def draw_crop_flips(n: int, generator: torch.Generator) -> torch.Tensor:
    """Draw what :func:`apply_crop_flips` does to n images: int64 below ``KINDS``, shape [n], on the CPU."""
    return torch.randint(KINDS, (n,), generator=generator)


def apply_crop_flips(images: torch.Tensor, kinds: torch.Tensor) -> torch.Tensor:
    """Crop and mirror images [n, channels, height, width] as drawn, kinds [n] on the same device.

    Kind ``(mirrored * 9 + top) * 9 + left`` is the crop whose upper left corner lies ``top`` and ``left`` pixels into
    the padded image; ``(0 * 9 + 4) * 9 + 4`` leaves the image as it is.
    """
    if images.ndim != 4:
        raise ValueError(f"images must have shape [n, channels, height, width], got {images.ndim} axes")
    height, width = images.shape[2:]
    places, left = kinds // OFFSETS, kinds % OFFSETS
    mirrored, top = places // OFFSETS, places % OFFSETS
    windows = pad(images, (PADDING,) * 4).unfold(2, height, 1).unfold(3, width, 1)  # [n, channels, 9, 9, height, width]
    crops = windows[torch.arange(len(images), device=images.device), :, top, left]  # [n, channels, height, width]
    return torch.where(mirrored.bool()[:, None, None, None], crops.flip(3), crops)
