"""Data of the private-prediction chapter: rows in the unit ball, in the sizes that its figures vary."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from dpnotes import data
from dpnotes._validation import one_of
from dpnotes.lab import own_data

# Public bounds on the norm of a row of pixels in [0, 1]: constants, not read off the data. No row of MNIST or digits is
# longer, so that none is shortened; the paper divides by the largest norm of MNIST's training rows, 17.18.
BOUNDS = {"mnist": 17.5, "digits": 5.0}
HELD_OUT = 10  # a tenth of the training rows, the last ones, is held out while settings are chosen
DEFORMATION = 1.2  # standard deviation of a displacement, in pixels
KNOTS = 7  # knots of the displacement field along each side
SHIFT = 2  # largest shift, in pixels
BATCH = 20_000


@dataclass(frozen=True, eq=False)
class Task:
    """Rows to train on and rows to score.

    Attributes
    ----------
    X, X_score : ndarray of float32, shape [n, d], rows of norm at most 1
    y, y_score : ndarray of int64
    n_classes : int
    digest : str
    """

    X: NDArray[np.float32]
    y: NDArray[np.int64]
    X_score: NDArray[np.float32]
    y_score: NDArray[np.int64]
    n_classes: int
    digest: str

    @cached_property
    def validation(self) -> Task:
        """The same task with the last tenth of its training rows in the place of the test rows.

        It is the same object each time, so that fits to it are found again.
        """
        kept = len(self.X) - len(self.X) // HELD_OUT
        return Task(self.X[:kept], self.y[:kept], self.X[kept:], self.y[kept:], self.n_classes, self.digest)

    def accuracies(self, labels: NDArray[np.integer]) -> NDArray[np.float64]:
        """Fraction of correct labels in each row of ``labels``, shape [repeats, n_score]."""
        return np.asarray((labels == self.y_score).mean(axis=1))


@lru_cache(maxsize=2)
def task(dataset: str, *, n: int | None = None, d: int | None = None, n_classes: int | None = None) -> Task:
    """One variant of a data set.

    Parameters
    ----------
    dataset : {"mnist", "digits"}
        Or a reader's file, as :func:`dpnotes.lab.own_data.reference` calls it.
    n : int, optional
        Training rows, of the classes kept: the first ones; behind the last one, deformed copies of them (of images).
    d : int, optional
        Leading principal axes (without centring, so that no row grows) that rows are projected on. They are read off
        the training rows, as in the paper, and no guarantee counts that.
    n_classes : int, optional
        The classes 0 to n_classes - 1.
    """
    arrays: data.Dataset
    if own_data.is_own(dataset):
        arrays = mine = own_data.load(dataset)
        bound = mine.bound
    else:
        arrays = data.load(one_of("dataset", dataset, tuple(BOUNDS)))
        bound = BOUNDS[dataset]
    classes = n_classes or arrays.n_classes
    kept, scored = arrays.y_train < classes, arrays.y_test < classes
    X, y, X_score, y_score = arrays.X_train[kept], arrays.y_train[kept], arrays.X_test[scored], arrays.y_test[scored]
    if n is not None and n > len(X):
        side = int(np.sqrt(X.shape[1]))
        X, y = np.concatenate([X, deformed(X, n - len(X), side=side)]), y[np.arange(n) % len(y)]
    elif n is not None:
        X, y = X[:n], y[:n]
    X = data.to_unit_ball(X, bound=bound)
    X_score = data.to_unit_ball(X_score, bound=bound)
    if d is not None and d < X.shape[1]:
        axes = np.linalg.eigh(X.T.astype(np.float64) @ X)[1][:, : -d - 1 : -1]
        X, X_score = (data.to_unit_ball(rows @ axes, bound=1.0) for rows in (X, X_score))  # rounding may lengthen
    return Task(X, y, X_score, y_score, classes, arrays.digest)


def deformed(X: NDArray[np.float32], count: int, *, side: int) -> NDArray[np.float32]:
    """Deformed copies of square images, row i of row ``i % len(X)``; the same rows whatever ``count`` is.

    Each pixel is moved by a smooth random field (normal displacements of 1.2 pixels' standard deviation at 7 x 7 knots,
    interpolated bicubically) and a whole shift of at most 2 pixels in each direction, in the manner of Loosli, Canu and
    Bottou (2007), whose generator uses fields and tangent vectors of its own.

    Parameters
    ----------
    X : ndarray of float32, shape [n, side * side]
    count : int, >= 0
    side : int

    Returns
    -------
    ndarray of float32, shape [count, side * side]
    """
    import torch
    from torch.nn.functional import grid_sample, interpolate

    result = np.empty((count, X.shape[1]), dtype=np.float32)
    axis = (torch.arange(side) + 0.5) * 2 / side - 1
    identity = torch.stack(torch.meshgrid(axis, axis, indexing="xy"), dim=-1)
    for start in range(0, count, BATCH):
        generator = torch.Generator().manual_seed(start)
        fields = DEFORMATION * torch.randn(BATCH, 2, KNOTS, KNOTS, generator=generator)
        shifts = torch.randint(-SHIFT, SHIFT + 1, (BATCH, 2, 1, 1), generator=generator)
        size = min(BATCH, count - start)
        smooth = interpolate(fields[:size], size=(side, side), mode="bicubic", align_corners=True) + shifts[:size]
        images = torch.from_numpy(X[np.arange(start, start + size) % len(X)]).reshape(size, 1, side, side)
        moved = grid_sample(images, identity + smooth.permute(0, 2, 3, 1) * 2 / side, align_corners=False)
        result[start : start + size] = moved.reshape(size, -1).clamp(0, 1).numpy()
    return result
