"""Labels as class codes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def encode(y: NDArray[Any], classes: Sequence[Any] | None) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Sorted classes, and the code of each label among them; ``classes=None`` reads them off the labels.

    Raises
    ------
    ValueError
        If a label is not among the classes.
    """
    if classes is None:
        found, codes = np.unique(y, return_inverse=True)
        return found, codes
    known = np.unique(np.asarray(classes))
    unknown = np.setdiff1d(y, known)
    if len(unknown):
        raise ValueError(f"y holds labels that are not among classes: {', '.join(map(repr, unknown.tolist()))}")
    return known, np.searchsorted(known, y)
