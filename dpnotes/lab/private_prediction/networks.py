"""Figure 7: ResNet-20 with group normalisation, without privacy, by DP-SGD, and
sixteen of them in a vote.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpnotes import accounting
from dpnotes.data import Dataset
from dpnotes.lab.store import checkpoint
from dpnotes.learners import NetworkClassifier, epoch_factors
from dpnotes.mechanisms import soft_vote, vote_counts
from dpnotes.methods import DPSGD, fit_shards

METHODS = ("non_private", "dp_sgd", "subsample_aggregate")
DELTA = 1e-5
BATCH = 600
RATE = 0.1
HELD_OUT = 10_000  # last training rows, while it is chosen
REPEATS = 100


def voted(
    votes: NDArray[np.int64],
    n_classes: int,
    *,
    epsilon: float | None,
    answers: int | None,
    seed: int,
) -> tuple[NDArray[np.int64], float]:
    """Labels of a hundred soft votes, shape [repeats, n_test], and the noise, from
    votes [n_models, n_test].
    """
    if epsilon is None or answers is None:
        raise ValueError(
            f"epsilon and answers must be given, got epsilon={epsilon!r},"
            f" answers={answers!r}"
        )
    # sound, and the least noise that we know
    beta = accounting.soft_vote_beta(epsilon, DELTA, answers=answers)
    return soft_vote(
        vote_counts(votes, n_classes), beta=beta, seed=seed, n_repeats=REPEATS
    ), 1 / float(beta)


def labels(
    method: str,
    arrays: Dataset,
    *,
    epsilon: float | None,
    clipping_norm: float | None,
    epochs: int,
    seed: int,
    device: str,
) -> tuple[NDArray[np.int64], float | None]:
    """Labels of the test rows, shape [1, n_test], that one network gives, and the
    noise.
    """
    model: Any = _network(arrays, epochs=epochs, seed=seed, device=device)
    if method == "dp_sgd":
        model = _dp_sgd(
            model,
            arrays,
            epsilon=epsilon,
            delta=DELTA,
            clipping_norm=clipping_norm,
            epochs=epochs,
            seed=seed,
            device=device,
        )
    model.fit(arrays.X_train, arrays.y_train)
    return model.predict(arrays.X_test)[None], getattr(model, "noise_multiplier_", None)


def setting(
    arrays: Dataset,
    *,
    clipping_norm: float,
    epsilon: float,
    epochs: int,
    whole_epochs: int,
    seed: int,
    device: str,
) -> tuple[float, float]:
    """Accuracy on held-out training rows of a short DP-SGD with the noise of a whole
    one, and that noise.
    """
    X = arrays.X_train
    y = arrays.y_train
    own = replace(
        arrays,
        X_train=X[:-HELD_OUT],
        y_train=y[:-HELD_OUT],
        X_test=X[-HELD_OUT:],
        y_test=y[-HELD_OUT:],
    )
    # the noise is that of the whole training, so that the choice is made at that noise
    whole = {
        "sample_rate": BATCH / len(own.X_train),
        "steps": whole_epochs * (len(own.X_train) // BATCH),
    }
    noise = float(
        accounting.dp_sgd_noise_multiplier(epsilon, DELTA, accountant="pld", **whole)
    )
    model = _dp_sgd(
        _network(own, epochs=epochs, seed=seed, device=device),
        own,
        noise_multiplier=noise,
        clipping_norm=clipping_norm,
        epochs=epochs,
        seed=seed,
        device=device,
    )
    model.fit(own.X_train, own.y_train)
    return float(np.mean(model.predict(own.X_test) == own.y_test)), noise


def _dp_sgd(
    network: NetworkClassifier,
    arrays: Dataset,
    *,
    clipping_norm: Any,
    epochs: int,
    seed: int,
    device: str,
    **noise: Any,
) -> DPSGD:
    """The network trained by DP-SGD, its rate divided by ten three times, as without
    privacy.
    """
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
        device=device,
        noise_seed=seed,
        **noise,
    )


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
    network = _network(arrays, epochs=epochs, seed=seed, device=device)
    # shards are drawn for all, and one of them is trained on
    learner = _One(network, model)
    X = arrays.X_train
    y = arrays.y_train
    n_classes = arrays.n_classes
    fit = fit_shards(
        X, y, n_classes=n_classes, n_models=n_models, estimator=learner, seed=seed
    )
    found: NDArray[np.int64] = fit.models.votes(arrays.X_test)[0]
    return found


def _schedule(epochs: int) -> dict[int, float]:
    """A tenth of the rate after each quarter of the epochs."""
    return {epochs * quarter // 4: 0.1**quarter for quarter in (1, 2, 3)}


def _network(
    arrays: Dataset, *, epochs: int, seed: int, device: str
) -> NetworkClassifier:
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
