"""Votes of many models on many queries."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpnotes._validation import Integers


def vote_counts(votes: NDArray[np.integer], n_classes: int) -> Integers:
    """How many models vote for each class.

    Parameters
    ----------
    votes : ndarray of int, shape [n_models, n]
        Class codes 0 to ``n_classes - 1``, one row for each model, one column for each query.
    n_classes : int, >= 1

    Returns
    -------
    ndarray of int64, shape [n, n_classes]

    Raises
    ------
    ValueError
        If votes is not two-dimensional or a code is out of range.

    Examples
    --------
    >>> vote_counts(np.array([[0, 2], [1, 2], [1, 0]]), 3)
    array([[1, 2, 0],
           [1, 0, 2]])
    """
    votes = np.asarray(votes)
    if votes.ndim != 2:
        raise ValueError(f"votes must have shape [n_models, n], got shape {votes.shape}")
    if votes.size and (votes.min() < 0 or votes.max() >= n_classes):
        raise ValueError(f"votes must be codes in 0..{n_classes - 1}, got {votes.min()}..{votes.max()}")
    n = votes.shape[1]
    cells = np.arange(n) * n_classes + votes  # [n_models, n], one cell of the table for each vote
    return np.bincount(cells.ravel(), minlength=n * n_classes).reshape(n, n_classes)
