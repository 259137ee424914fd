"""Row indices of many models, laid end to end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True, eq=False)
class Subsets:
    """Row indices of M models, laid end to end.

    Parameters
    ----------
    indices : ndarray of int64, shape [sum of sizes]
    sizes : ndarray of int64, shape [M]
    """

    indices: NDArray[np.int64]
    sizes: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.sizes)

    def by_size(self) -> NDArray[np.int64]:
        """Models in order of size, so that a chunk of neighbours needs little padding."""
        return np.argsort(self.sizes, kind="stable")

    def padded(self, models: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Rows of some models, padded by repeats of a first row, and which count, both [len(models), largest size]."""
        starts = (np.cumsum(self.sizes) - self.sizes)[models, None]
        place = np.arange(self.sizes[models].max())
        counts = place < self.sizes[models, None]
        return self.indices[starts + np.where(counts, place, 0)], counts


def row_subsets(subsets: NDArray[np.integer] | Sequence[ArrayLike], *, n: int) -> Subsets:
    """Check subsets, an array [M, m] or a sequence of M index arrays of any lengths >= 1, against ``n`` rows."""
    if isinstance(subsets, np.ndarray) and subsets.ndim != 2:
        raise ValueError(f"subsets must have shape [n_models, m] or be a list of index arrays, got {subsets.shape}")
    rows = [np.asarray(subset) for subset in subsets]
    if not rows:
        raise ValueError("subsets must hold at least one subset, got none")
    for index, subset in enumerate(rows):
        if subset.ndim != 1:
            raise ValueError(f"subsets must hold one-dimensional index arrays, got shape {subset.shape} at {index}")
        if not len(subset):
            raise ValueError(f"subsets must not be empty, got subset {index} of 0 rows")
        if subset.dtype.kind not in "iu":
            raise ValueError(f"subsets must hold integer row indices, got {subset.dtype} at {index}")
    flat = np.concatenate(rows).astype(np.int64, copy=False)
    if flat.min() < 0 or flat.max() >= n:
        raise ValueError(f"subsets must hold row indices in 0..{n - 1}, got {flat.min()}..{flat.max()}")
    return Subsets(flat, np.array([len(subset) for subset in rows], dtype=np.int64))
