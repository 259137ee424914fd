"""The noise that SGD has of its own, estimated from runs that differ in seed and in one record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpnotes import _validation as check
from dpnotes.learners import fit_sgd


@dataclass(frozen=True, eq=False)
class IntrinsicNoise:
    """Standard deviation of SGD's last weights over seeds, and what one record did to them, in their units.

    Parameters
    ----------
    sigma : float
        The paper's sigma_i: standard deviation of a weight over seeds, all weights pooled, the median over data sets.
    sigmas : ndarray, shape [S + 1]
        The same for each data set, the unmodified one first.
    weight_sigmas : ndarray, shape [p]
        Standard deviation of each weight over seeds, on the unmodified data set.
    observed_sensitivity : float
        Largest distance of two of the data sets under one seed: a lower bound on the sensitivity, no guarantee.
    n_seeds, n_datasets : int
    """

    sigma: float
    sigmas: NDArray[np.float64]
    weight_sigmas: NDArray[np.float64]
    observed_sensitivity: float
    n_seeds: int
    n_datasets: int


def estimate_intrinsic_noise(
    X: NDArray[np.floating],
    y: NDArray[np.int64],
    *,
    batch_size: int,
    steps: int,
    learning_rate: float,
    n_seeds: int = 100,
    n_neighbours: int = 50,
    fixed_initial: bool = False,
    random_state: int = 0,
    device: str = "auto",
) -> IntrinsicNoise:
    """Train on a data set and on neighbours of it, from many seeds, and measure how the last weights differ.

    The first record is left out, and each neighbour has it in the place of another one. Two neighbours therefore differ
    in two records. What is estimated from private data is itself not private.

    Parameters
    ----------
    X : ndarray of float32 or float64, shape [n, d]
    y : ndarray of int, shape [n]
        Class codes 0 and 1.
    batch_size, steps, learning_rate
        As :class:`dpnotes.methods.AugmentedSGD`.
    n_seeds : int, >= 2
    n_neighbours : int, >= 1
    fixed_initial : bool
        Whether all runs start from the same weights, and only the order differs.
    random_state : int, >= 0
        Seeds of the runs; the replaced records.
    device : {"auto", "cpu", "cuda", ...}

    Returns
    -------
    IntrinsicNoise

    Raises
    ------
    ValueError
        If there are fewer than two seeds or one class only, the batch is larger than the data, there are fewer records
        than neighbours, or training diverges.

    Source
    ------
    Hyland and Tople (2019), Algorithm 1.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X /= np.linalg.norm(X, axis=1, keepdims=True)
    >>> setting = dict(batch_size=50, steps=40, learning_rate=0.5, n_seeds=20, n_neighbours=5, device="cpu")
    >>> noise = estimate_intrinsic_noise(X, y, **setting)
    >>> fixed = estimate_intrinsic_noise(X, y, **setting, fixed_initial=True)
    >>> noise.sigma > 5 * fixed.sigma
    True
    """
    if check.at_least_one("n_seeds", n_seeds) < 2:
        raise ValueError(f"n_seeds must be >= 2, got n_seeds={n_seeds}; one run has no standard deviation")
    weights = neighbour_runs(
        X,
        y,
        batch_size=batch_size,
        steps=steps,
        learning_rate=learning_rate,
        n_seeds=n_seeds,
        n_neighbours=n_neighbours,
        fixed_initial=fixed_initial,
        random_state=random_state,
        device=device,
    ).all_weights
    centred = weights - weights.mean(axis=0)
    sigmas = centred.std(axis=(0, 2))
    apart = max(float(np.linalg.norm(run[:, None] - run, axis=-1).max()) for run in weights)
    return IntrinsicNoise(
        float(np.median(sigmas)), sigmas, centred[:, 0].std(axis=0), apart, len(weights), weights.shape[1]
    )


def neighbour_runs(
    X: NDArray[np.floating],
    y: NDArray[np.int64],
    *,
    n_seeds: int,
    n_neighbours: int,
    fixed_initial: bool,
    random_state: int,
    **setting: Any,
) -> Any:
    """Runs of :func:`dpnotes.learners.fit_sgd` on neighbours in which record 0 takes another one's place.

    Parameters
    ----------
    X, y, n_seeds, n_neighbours, fixed_initial, random_state
        As :func:`estimate_intrinsic_noise`.
    setting : keyword arguments
        Others of :func:`dpnotes.learners.fit_sgd`: batch_size, steps, learning_rate, hidden, ...

    Returns
    -------
    dpnotes.learners.SGDRuns
        Its ``all_weights`` have shape [n_seeds, n_neighbours + 1, p]; column 0 lacks the first record.
    """
    y = np.asarray(y)
    if len(np.unique(y)) < 2:
        raise ValueError(f"y must hold 2 classes, got {len(np.unique(y))}")
    if check.at_least_one("n_neighbours", n_neighbours) >= len(X):
        raise ValueError(f"n_neighbours must be < n={len(X)} records, got n_neighbours={n_neighbours}")
    chosen = np.random.default_rng(random_state).choice(len(X) - 1, n_neighbours, replace=False)
    return fit_sgd(
        np.ascontiguousarray(X[1:]),
        y[1:],
        neighbours=np.sort(chosen),
        replacement=(X[0], int(y[0])),
        n_runs=n_seeds,
        random_state=random_state,
        init_seeds=0 if fixed_initial else None,
        **setting,
    )
