"""Random subsamples of the records: the only randomness of bagging."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def draw_subsets(
    n: int, *, subsample: int, n_models: int, replace: bool, scheme: str = "independent", seed: int
) -> NDArray[np.int64]:
    """Row indices of the subsample of each model.

    Model i draws from a stream of its own, spawned from the seed and i: the first models of a larger draw are those of
    a smaller one (``scheme="independent"``).

    Parameters
    ----------
    n : int, >= 1
        Number of records.
    subsample : int, >= 1
        Records of each model; at most ``n`` without replacement.
    n_models : int, >= 1
    replace : bool
        Whether a record can stand in one subsample more than once.
    scheme : {"independent", "split"}
        Each subsample drawn anew, or one draw of ``n_models * subsample`` records dealt out to the models.
    seed : int, >= 0

    Returns
    -------
    ndarray of int64, shape [n_models, subsample]

    Raises
    ------
    ValueError
        If a number is below 1, more records are drawn without replacement than there are, or the scheme is unknown.

    Examples
    --------
    >>> draw_subsets(5, subsample=3, n_models=2, replace=False, seed=0).shape
    (2, 3)
    """
    for name, value in (("n", n), ("subsample", subsample), ("n_models", n_models)):
        if value < 1:
            raise ValueError(f"{name} must be >= 1, got {name}={value}")
    if scheme not in ("independent", "split"):
        raise ValueError(f"scheme must be one of 'independent', 'split', got scheme={scheme!r}")
    if not replace and subsample > n:
        raise ValueError(f"subsample must be at most n={n} without replacement, got subsample={subsample}")
    if scheme == "split":
        drawn = n_models * subsample
        if not replace and drawn > n:
            raise ValueError(f"scheme='split' draws n_models*subsample={drawn} records without replacement, of n={n}")
        return _stream(seed, 0).choice(n, size=(n_models, subsample), replace=replace)
    return np.stack([_stream(seed, i).choice(n, size=subsample, replace=replace) for i in range(n_models)])


def _stream(seed: int, index: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(index,)))
