"""Figure 7: ResNet-20 with group normalisation, without privacy, by DP-SGD, and sixteen of them in a vote."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpnotes import accounting
from dpnotes.data import Dataset
from dpnotes.learners import NetworkClassifier, epoch_factors
from dpnotes.mechanisms import soft_vote
from dpnotes.methods import DPSGD
from dpnotes.methods._shards import fit_shards

DELTA = 1e-5
N_MODELS, EPOCHS, DP_EPOCHS = 16, 500, 100
BATCH, RATE = 600, 0.1
CLIPPING_NORM = 0.1  # to be chosen on held-out rows before the rows are published
REPEATS = 100

Accuracies = NDArray[np.float64]


def non_private(
    arrays: Dataset, *, epsilon: float | None, answers: int | None, seed: int, device: str
) -> tuple[Accuracies, float | None]:
    """One network on all records; 86.6 % in the paper."""
    model = _network(arrays, seed=seed, device=device).fit(arrays.X_train, arrays.y_train)
    return np.array([np.mean(model.predict(arrays.X_test) == arrays.y_test)]), None


def dp_sgd(
    arrays: Dataset, *, epsilon: float | None, answers: int | None, seed: int, device: str
) -> tuple[Accuracies, float | None]:
    """One network, its rate divided by ten three times, as without privacy."""
    n = len(arrays.X_train)
    model = DPSGD(
        epsilon,
        DELTA,
        network=_network(arrays, seed=seed, device=device),
        clipping_norm=CLIPPING_NORM,
        sample_rate=BATCH / n,
        steps=DP_EPOCHS * (n // BATCH),
        learning_rate=list(
            RATE / CLIPPING_NORM * np.repeat(epoch_factors(_schedule(DP_EPOCHS), DP_EPOCHS), n // BATCH)
        ),
        classes=range(arrays.n_classes),
        device=device,
        random_state=seed,
    ).fit(arrays.X_train, arrays.y_train)
    return np.array([np.mean(model.predict(arrays.X_test) == arrays.y_test)]), float(model.noise_multiplier_)


def subsample_aggregate(
    arrays: Dataset, *, epsilon: float | None, answers: int | None, seed: int, device: str
) -> tuple[Accuracies, float | None]:
    """Votes of sixteen networks; one training serves all levels and budgets."""
    if epsilon is None or answers is None:
        raise ValueError(f"epsilon and answers must be given, got epsilon={epsilon!r}, answers={answers!r}")
    beta = accounting.soft_vote_beta(epsilon, DELTA, answers=answers)
    labels = soft_vote(_votes(arrays, seed, device), beta=beta, seed=seed, n_repeats=REPEATS)
    return np.asarray((labels == arrays.y_test).mean(axis=1)), 1 / float(beta)


@lru_cache(maxsize=1)
def _votes(arrays: Dataset, seed: int, device: str) -> NDArray[np.int64]:
    models = fit_shards(
        arrays.X_train,
        arrays.y_train,
        n_classes=arrays.n_classes,
        n_models=N_MODELS,
        estimator=_network(arrays, seed=seed, device=device),
        seed=seed,
    )
    return models.vote_counts(arrays.X_test)


def _schedule(epochs: int) -> dict[int, float]:
    """A tenth of the rate after each quarter of the epochs."""
    return {epochs * quarter // 4: 0.1**quarter for quarter in (1, 2, 3)}


def _network(arrays: Dataset, *, seed: int, device: str) -> NetworkClassifier:
    return NetworkClassifier(
        arrays.image_shape,
        architecture="residual",
        epochs=EPOCHS,
        batch_size=BATCH,
        learning_rate=RATE,
        optimizer="momentum",
        schedule=_schedule(EPOCHS),
        augmentation="crop-flip",
        device=device,
        random_state=seed,
    )


NETWORKS: dict[str, Callable[..., tuple[Accuracies, float | None]]] = {
    "non_private": non_private,
    "dp_sgd": dp_sgd,
    "subsample_aggregate": subsample_aggregate,
}
