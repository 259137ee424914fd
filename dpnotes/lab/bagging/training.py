"""Accuracy of one bagged ensemble, or of one network by DP-SGD: a row of the bagging chapter."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpnotes.lab.bagging import private as _bagging_private
from dpnotes.lab.bagging.networks import network, parts


def ensemble(
    *,
    dataset: str,
    part: str,
    subsample: int | None,
    n_models: int,
    replace: bool,
    seed: int,
    device: str,
    **how: Any,
) -> dict[str, Any]:
    """One row; see :func:`dpnotes.lab.bagging.experiments.ensemble`."""
    from dpnotes.learners import device_name
    from dpnotes.methods import Bagging

    arrays, X, y, X_score, y_score = parts(dataset, part, how["public"])
    learner = network(arrays, **how, device=device, random_state=seed)
    if subsample is None:
        model: Any = learner.fit(X, y)
        guarantee: dict[str, Any] = {"epsilon": None, "delta": None, "adjacency": None, "status": "none"}
    else:
        model = Bagging(
            subsample=subsample,
            estimator=learner,
            n_models=n_models,
            replace=replace,
            classes=range(arrays.n_classes),
            random_state=seed,
        ).fit(X, y)
        profile = model.profile_
        guarantee = {"epsilon": 0.0, "delta": profile.delta(0.0)}
        guarantee |= {"adjacency": profile.adjacency, "status": profile.status}
    return {
        "accuracy": float(np.mean(model.predict(X_score) == y_score)),
        "n": len(X),
        **guarantee,
        "data": arrays.digest,
        "device": device_name(device),
    }


def dp_sgd(
    *,
    dataset: str,
    part: str,
    noise_multiplier: float | None,
    epsilon: float | None,
    delta: float | None,
    found: float | None,
    width: int | None,
    epochs: int,
    batch_size: int,
    clipping_norm: float,
    learning_rate: float,
    seed: int,
    device: str,
    **start: Any,
) -> dict[str, Any]:
    """One row; see :func:`dpnotes.lab.bagging.experiments.dp_sgd`."""
    from dpnotes.learners import device_name
    from dpnotes.methods import DPSGD

    arrays, X, y, X_score, y_score = parts(dataset, part, start["public"])
    rounds: dict[str, Any] = {"sample_rate": batch_size / len(X), "steps": epochs * len(X) // batch_size}
    if found is not None:
        noise_multiplier = _bagging_private.noise_for_found(found, **rounds)
    model = DPSGD(
        epsilon,
        delta,
        noise_multiplier=noise_multiplier,
        network=None if width is None else network(arrays, width=width, **start, device=device),
        clipping_norm=clipping_norm,
        **rounds,
        learning_rate=learning_rate,
        classes=range(arrays.n_classes),
        device=device,
        random_state=seed,
    ).fit(X, y)
    return {
        "accuracy": float(np.mean(model.predict(X_score) == y_score)),
        "n": len(X),
        "sigma": model.noise_multiplier_,
        "advantage": model.profile_.advantage,
        "adjacency": model.profile_.adjacency,
        "status": model.profile_.status,
        "data": arrays.digest,
        "device": device_name(device),
    }
