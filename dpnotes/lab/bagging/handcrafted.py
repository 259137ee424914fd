"""Linear models on handcrafted features, by DP-SGD and by bagging: the strongest simple baseline (Tramer, Boneh 2021).

Batch, clipping norm and learning rate of DP-SGD are chosen for each row on held-out records, and so is the penalty of
bagging's logistic regression for each size.
"""

from __future__ import annotations

import functools
from typing import Any

from dpnotes import accounting
from dpnotes.lab import experiment
from dpnotes.lab._experiment import Grid
from dpnotes.lab.bagging import exposure
from dpnotes.lab.bagging.networks import load
from dpnotes.preprocessing import OrientedGradients

RECORDS = 60_000
SIZES = (300, 500, 1000, 5000, 10_000)  # of Table 2a
EPOCHS = 10  # of DP-SGD, as of the other baselines at equal exposure
BATCHES = (1000, 5000)
NORMS = (0.3, 1.0)
TRAVELS = {  # rate times clipping norm times steps: how far the weights can go
    "advantage": (160.0, 400.0, 1000.0, 2500.0, 6300.0),  # much noise
    "tpr": (1000.0, 2500.0, 6300.0, 16_000.0),
}
PENALTIES = (1e-3, 3e-4, 1e-4, 3e-5, 1e-5, 3e-6, 1e-6)
# By the rows of bagging_hog_settings and bagging_hog_dp_sgd_settings: the best mean accuracy on held-out rows.
PENALTY = {300: 1e-6, 500: 3e-6, 1000: 1e-5, 5000: 3e-5, 10_000: 1e-5}
CHOSEN: dict[str, tuple[tuple[int, float, float], ...]] = {  # batch, clipping norm and travel at each size
    "advantage": (
        (1000, 1.0, 400.0),
        (1000, 0.3, 1000.0),
        (1000, 0.3, 2500.0),
        (1000, 0.3, 6300.0),
        (1000, 0.3, 6300.0),
    ),
    "tpr": (
        (1000, 0.3, 16_000.0),
        (1000, 0.3, 16_000.0),
        (1000, 1.0, 16_000.0),
        (1000, 1.0, 16_000.0),
        (1000, 0.3, 16_000.0),
    ),
}


@experiment("bagging.hog_ensemble")
def hog_ensemble(
    *, dataset: str, split: str, subsample: int, l2: float, seed: int, device: str = "auto"
) -> dict[str, Any]:
    """Bagging of one logistic regression on histograms of oriented gradients, drawn with replacement.

    Parameters
    ----------
    dataset, split, subsample, seed, device
        As :func:`dpnotes.lab.bagging.experiments.ensemble`; a set of grey images.
    l2 : float
        See :class:`dpnotes.learners.LogisticClassifier`.

    Returns
    -------
    dict
        accuracy; n (training records); delta (at epsilon 0), adjacency, status of the release; data; device.
    """
    from dpnotes.learners import LogisticClassifier, device_name
    from dpnotes.methods import Bagging

    digest, classes, X, y, X_score, y_score = _features(dataset, split)
    learner = LogisticClassifier(l2=l2, device=device)
    options: dict[str, Any] = {"classes": classes, "adjacency": "add-remove", "noise_seed": seed}
    model = Bagging(subsample=subsample, estimator=learner, n_models=1, **options).fit(X, y)
    return {
        "accuracy": model.score(X_score, y_score),
        "n": len(X),
        "delta": model.profile_.delta(0.0),
        "adjacency": model.profile_.adjacency,
        "status": model.profile_.status,
        "data": digest,
        "device": device_name(device),
    }


@experiment("bagging.hog_dp_sgd")
def hog_dp_sgd(
    *,
    dataset: str,
    split: str,
    epsilon: float | None,
    delta: float | None,
    tpr_at_fpr_1e3: float | None,
    epochs: int,
    batch_size: int,
    clipping_norm: float,
    learning_rate: float,
    seed: int,
    device: str = "auto",
) -> dict[str, Any]:
    """Softmax regression by DP-SGD on histograms of oriented gradients, with the least noise for an exposure.

    Parameters
    ----------
    dataset, split, epsilon, delta, tpr_at_fpr_1e3, epochs, batch_size, clipping_norm, learning_rate, seed, device
        As :func:`dpnotes.lab.bagging.experiments.dp_sgd`; a set of grey images.

    Returns
    -------
    dict
        accuracy; n (training records); sigma (the noise multiplier used); advantage (total variation of the release at
        most); adjacency, status; data; device.
    """
    from dpnotes.learners import device_name
    from dpnotes.methods import DPSGD

    digest, classes, X, y, X_score, y_score = _features(dataset, split)
    rounds: dict[str, Any] = {"sample_rate": batch_size / len(X), "steps": epochs * len(X) // batch_size}
    noise = None if tpr_at_fpr_1e3 is None else exposure.noise_for_tpr(tpr_at_fpr_1e3, **rounds)
    options: dict[str, Any] = {"classes": classes, "adjacency": "add-remove", "accountant": "pld"}
    steps: dict[str, Any] = {"clipping_norm": clipping_norm, "learning_rate": learning_rate}
    model = DPSGD(epsilon, delta, noise_multiplier=noise, **rounds, **steps, **options, device=device, noise_seed=seed)
    model.fit(X, y)
    return {
        "accuracy": model.score(X_score, y_score),
        "n": len(X),
        "sigma": model.noise_multiplier_,
        "advantage": model.profile_.advantage,
        "adjacency": model.profile_.adjacency,
        "status": model.profile_.status,
        "data": digest,
        "device": device_name(device),
    }


@functools.lru_cache(maxsize=2)
def _features(dataset: str, split: str) -> tuple[str, range, Any, Any, Any, Any]:
    """Digest, classes, features and labels to train on and to score."""
    arrays, X, y, X_score, y_score = load(dataset, split)
    hog = OrientedGradients(arrays.image_shape or ())
    return arrays.digest, range(arrays.n_classes), hog.fit_transform(X), y, hog.fit_transform(X_score), y_score


def ensemble_settings() -> Grid:
    """Candidates for the penalty of bagging's logistic regression at each size, on held-out training rows."""
    return [
        {**_bagged("validation", size), "l2": l2, "seed": seed}
        for size in SIZES
        for l2 in PENALTIES
        for seed in range(3)
    ]


def ensembles() -> Grid:
    """Bagging with the chosen penalty at each size of Table 2a, five seeds, as many as its networks have."""
    return [{**_bagged("test", size), "l2": l2, "seed": seed} for size, l2 in PENALTY.items() for seed in range(5)]


def dp_sgd_settings() -> Grid:
    """Candidates for batch, clipping norm and rate of DP-SGD at each exposure, on held-out training rows."""
    return [
        {**target, **_run("validation", batch, norm, travel), "seed": 0}
        for sense, travels in TRAVELS.items()
        for target in targets(sense)
        for batch in BATCHES
        for norm in NORMS
        for travel in travels
    ]


def dp_sgds() -> Grid:
    """DP-SGD with the chosen settings at each exposure, three seeds."""
    return [
        {**target, **_run("test", *settings), "seed": seed}
        for sense, chosen in CHOSEN.items()
        for target, settings in zip(targets(sense), chosen, strict=True)
        for seed in range(3)
    ]


def targets(sense: str) -> Grid:
    """As exposing as bagging of each size: in "advantage", or in "tpr", the true positives at 0.1% false ones."""
    exposed = [accounting.bagging(n=RECORDS, subsample=size).advantage for size in SIZES]
    if sense == "advantage":
        return [{"epsilon": 0.0, "delta": pi, "tpr_at_fpr_1e3": None} for pi in exposed]
    return [{"epsilon": None, "delta": None, "tpr_at_fpr_1e3": pi} for pi in exposed]


def _bagged(split: str, size: int) -> dict[str, Any]:
    return {"dataset": "mnist", "split": split, "subsample": size}


def _run(split: str, batch: int, norm: float, travel: float) -> dict[str, Any]:
    rate = travel * batch / (norm * EPOCHS * 50_000)  # steps are those of the records that are not held out
    common = {"dataset": "mnist", "split": split, "epochs": EPOCHS, "batch_size": batch, "clipping_norm": norm}
    return {**common, "learning_rate": float(f"{rate:.6g}")}
