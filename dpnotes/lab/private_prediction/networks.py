"""Figure 7: ResNet-20 with group normalisation, without privacy, by DP-SGD, and
sixteen of them in a vote.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpnotes.data import Dataset
from dpnotes.lab.store import checkpoint
from dpnotes.learners import NetworkClassifier, epoch_factors
from dpnotes.methods import DPSGD, fit_shards

METHODS = ("non_private", "dp_sgd", "subsample_aggregate")
DELTA = 1e-5
BATCH = 600
RATE = 0.1
HELD_OUT = 10_000  # last training rows, while it is chosen
REPEATS = 100


def resnet(
    arrays: Dataset, *, epochs: int, seed: int, device: str
) -> NetworkClassifier:
    """The network, untrained."""
    return NetworkClassifier(
        arrays.image_shape,
        architecture="residual",
        augmentation="crop-flip",
        epochs=epochs,
        batch_size=BATCH,
        learning_rate=RATE,
        optimizer="momentum",
        schedule=_schedule(epochs),
        device=device,
        checkpoint=checkpoint(),
        random_state=seed,
    )


def by_dp_sgd(
    network: NetworkClassifier, arrays: Dataset, *, clipping_norm: Any, **noise: Any
) -> DPSGD:
    """The network trained by DP-SGD, its rate divided by ten three times, as without
    privacy.
    """
    epochs = network.epochs
    seed: Any = network.random_state
    # steps of an epoch, the last batch left out
    epoch = len(arrays.X_train) // BATCH
    factors = np.repeat(epoch_factors(_schedule(epochs), epochs), epoch)
    return DPSGD(
        network=network,
        sample_rate=BATCH / len(arrays.X_train),
        steps=epochs * epoch,
        clipping_norm=clipping_norm,
        # a gradient of full norm moves the weights as far as without clipping
        learning_rate=list(RATE / clipping_norm * factors),
        classes=range(arrays.n_classes),
        adjacency="add-remove",
        # a public constant of the experiment
        n=len(arrays.X_train),
        accountant="pld",
        device=network.device,
        noise_seed=seed,
        **noise,
    )


def held_out(arrays: Dataset) -> Dataset:
    """The same images with the last training rows in the place of the test rows."""
    X = arrays.X_train
    y = arrays.y_train
    return replace(
        arrays,
        X_train=X[:-HELD_OUT],
        y_train=y[:-HELD_OUT],
        X_test=X[-HELD_OUT:],
        y_test=y[-HELD_OUT:],
    )


def _schedule(epochs: int) -> dict[int, float]:
    """A tenth of the rate after each quarter of the epochs."""
    return {epochs * quarter // 4: 0.1**quarter for quarter in (1, 2, 3)}


@dataclass(frozen=True)
class _One:
    """Learner of one of many models, as it is when all of them are fitted."""

    network: NetworkClassifier
    model: int

    def fit_many(self, X: Any, codes: Any, subsets: Any, **given: Any) -> Any:
        # the others are other rows
        own = subsets[self.model : self.model + 1]
        return self.network.fit_many(X, codes, own, first=self.model, **given)


def vote_of(
    arrays: Dataset, model: int, n_models: int, *, epochs: int, seed: int, device: str
) -> NDArray[np.int64]:
    """Labels of the test rows, shape [n_test], by the network on one of disjoint
    shards of the records.
    """
    # shards are drawn for all, and one of them is trained on
    learner = _One(resnet(arrays, epochs=epochs, seed=seed, device=device), model)
    fit = fit_shards(
        arrays.X_train,
        arrays.y_train,
        n_classes=arrays.n_classes,
        n_models=n_models,
        estimator=learner,
        seed=seed,
    )
    found: NDArray[np.int64] = fit.models.votes(arrays.X_test)[0]
    return found
