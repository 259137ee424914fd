"""The digits 3 and 5 in other readings of how their rows are scaled, to find out which one the paper's numbers fit."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpnotes import data
from dpnotes.data import to_unit_sphere
from dpnotes.lab.intrinsic_sgd.runs import one_thread, sensitivities, spread
from dpnotes.methods import longest_row, neighbour_runs

Floats = NDArray[np.floating]
SCALINGS = ("none", "rows", "rows before projection", "largest row", "features")


@one_thread()
def scaling(
    *,
    scaling: str,
    projection: int,
    batch_size: int,
    learning_rate: float,
    steps: int,
    n_seeds: int,
    n_neighbours: int,
    seed: int,
    device: str,
) -> dict[str, Any]:
    """See :func:`dpnotes.lab.intrinsic_sgd.experiments.scaling`."""
    if scaling not in SCALINGS:
        raise ValueError(f"scaling must be one of {', '.join(map(repr, SCALINGS))}, got scaling={scaling!r}")
    X, X_test, y, y_test, digest = _projected(scaling, projection)
    weights = neighbour_runs(
        X,
        y,
        n_seeds=n_seeds,
        n_neighbours=n_neighbours,
        fixed_initial=False,
        random_state=seed,
        batch_size=batch_size,
        learning_rate=learning_rate,
        steps=steps,
        device=device,
    ).all_weights
    right = (X_test @ weights[:, 0, :-1].T + weights[:, 0, -1] > 0) == y_test[:, None]
    scores = right.mean(axis=0)
    return {
        "sigma": spread(weights)["sigma"],
        "observed": sensitivities(weights)["observed"],
        "accuracy": float(scores.mean()),
        "accuracy_spread": float(scores.std(ddof=1)),
        "longest_row": longest_row(X),
        "data": digest,
    }


def _projected(scaling: str, projection: int) -> tuple[Floats, Floats, NDArray[np.int64], NDArray[np.int64], str]:
    """Training and test rows [n, 50], [m, 50] and their labels."""
    train, test, y, y_test, digest = _digits()
    matrix = np.random.default_rng(projection).normal(0.0, 50**-0.5, size=(train.shape[1], 50))
    if scaling == "rows before projection":
        train, test = to_unit_sphere(train), to_unit_sphere(test)
    X: Floats = train @ matrix
    X_test: Floats = test @ matrix
    if scaling == "rows":
        X, X_test = to_unit_sphere(X), to_unit_sphere(X_test)
    if scaling == "largest row":
        X, X_test = X / longest_row(X), X_test / longest_row(X)
    if scaling == "features":
        X, X_test = ((rows - X.mean(axis=0)) / X.std(axis=0) for rows in (X, X_test))
    return X.astype(np.float64), X_test.astype(np.float64), y, y_test, digest


@functools.lru_cache(maxsize=1)
def _digits() -> tuple[Floats, Floats, NDArray[np.int64], NDArray[np.int64], str]:
    """Pixels in [0, 1] of the digits 3 and 5, without the tenth that validates."""
    images, split = data.load("mnist"), data.load("mnist", split="intrinsic_sgd")
    chosen = np.isin(images.y_train, (3, 5))
    train = images.X_train[chosen][-len(split.X_train) :]
    test = images.X_test[np.isin(images.y_test, (3, 5))]
    return train, test, split.y_train, split.y_test, split.digest
