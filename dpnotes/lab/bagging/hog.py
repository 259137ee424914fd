"""Histograms of oriented gradients (Dalal and Triggs 2005): features of an image that no training data decides."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpnotes._validation import Features

CELL = 4  # pixels along a side
DIRECTIONS = 9  # bins of [0, 180) degrees
FLOOR = 0.01  # of the squared length by which a cell is divided: one without an edge stays near 0
CHUNK = 2000  # images at a time


def hog(X: Features, image_shape: tuple[int, ...] | None) -> NDArray[np.float32]:
    """Features of grey images, of norm 1; those of a record depend on its own pixels alone.

    Each cell of 4 x 4 pixels has a histogram of the directions of its gradients, by their length, divided by the length
    of the histograms of the 3 x 3 cells around it. Of these numbers the root is taken, and their mean over the image
    subtracted.

    Parameters
    ----------
    X : ndarray of float, shape [n, height * width]
    image_shape : tuple of int, (1, height, width)
        As a data set has it. Pixels beyond a multiple of 4 are left out.

    Returns
    -------
    ndarray of float32, shape [n, (height // 4) * (width // 4) * 9]

    Raises
    ------
    ValueError
        If the rows are no images, or have colours, or no cell.

    Examples
    --------
    >>> edge = np.repeat([[0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0]], 8, axis=0).reshape(1, 64)
    >>> hog(edge, (1, 8, 8)).reshape(4, 9).argmax(axis=1).tolist()  # each cell sees the horizontal gradient
    [0, 0, 0, 0]
    """
    channels, height, width = image_shape or (0, 0, 0)
    if channels != 1 or min(height, width) < CELL:
        raise ValueError(f"image_shape must be (1, height, width), sides of 4 and more, got image_shape={image_shape}")
    images = X.reshape(len(X), height, width)
    cells = [_cells(images[start : start + CHUNK]) for start in range(0, len(X), CHUNK)]
    features: NDArray[np.float32] = np.sqrt(np.concatenate(cells).reshape(len(X), -1))
    features -= features.mean(axis=1, keepdims=True)
    features /= np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1e-6)
    return features


def _cells(images: Features) -> NDArray[np.float32]:
    """Normalised histograms, shape [n, rows, columns, DIRECTIONS]."""
    vertical, horizontal = np.gradient(images.astype(np.float32), axis=(1, 2))
    direction = np.mod(np.arctan2(vertical, horizontal) / np.float32(np.pi), np.float32(1)) * DIRECTIONS
    lower = direction.astype(np.int64)
    upper = direction - lower  # of the two nearest bins, each gets its part of the length
    length = np.hypot(vertical, horizontal)
    shape = (len(images), *(side // CELL for side in images.shape[1:]), DIRECTIONS)
    image, row, column = np.ogrid[tuple(slice(size) for size in images.shape)]
    cell = (image * shape[1] + row // CELL) * shape[2] + column // CELL
    inside = np.broadcast_to((row < shape[1] * CELL) & (column < shape[2] * CELL), images.shape)
    histograms = np.zeros(np.prod(shape))
    for bin_, part in ((lower, length * (1 - upper)), (lower + 1, length * upper)):
        index = cell * DIRECTIONS + bin_ % DIRECTIONS
        histograms += np.bincount(index[inside], part[inside], minlength=len(histograms))
    cells: NDArray[np.float32] = histograms.astype(np.float32).reshape(shape)
    energy = np.pad((cells**2).sum(axis=3), ((0, 0), (1, 1), (1, 1)))
    around = np.lib.stride_tricks.sliding_window_view(energy, (3, 3), axis=(1, 2)).sum(axis=(3, 4))
    cells /= np.sqrt(around + np.float32(FLOOR))[..., None]
    return cells
