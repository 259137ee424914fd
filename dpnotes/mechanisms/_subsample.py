"""Random subsamples of the records: the only randomness of bagging."""

from __future__ import annotations

import numpy as np

from dpnotes._validation import Integers, at_least_one, one_of
from dpnotes.mechanisms._noise import stream


def draw_subsets(
    n: int, *, subsample: int, n_models: int, replace: bool, scheme: str = "independent", seed: int
) -> Integers:
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
        If a number is below 1, more records are drawn without replacement than there are, or the scheme is invalid.

    Examples
    --------
    >>> draw_subsets(5, subsample=3, n_models=2, replace=False, seed=0).shape
    (2, 3)
    """
    for name, value in (("n", n), ("subsample", subsample), ("n_models", n_models)):
        at_least_one(name, value)
    one_of("scheme", scheme, ("independent", "split"))
    if not replace and subsample > n:
        raise ValueError(f"subsample must be at most n={n} without replacement, got subsample={subsample}")
    if scheme == "split":
        drawn = n_models * subsample
        if not replace and drawn > n:
            raise ValueError(f"scheme='split' draws n_models*subsample={drawn} records without replacement, of n={n}")
        return stream(seed, 0).choice(n, size=(n_models, subsample), replace=replace)
    return np.stack([stream(seed, i).choice(n, size=subsample, replace=replace) for i in range(n_models)])
