"""Experiments of the bagging chapter: accuracy of networks trained on random subsamples (Liu, Jia and Gong 2021)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dpnotes.data import Dataset
from dpnotes.experiments._bagging_tables import (
    RECORDS,
    baselines,
    baselines_view,
    many_models,
    memorising_attack,
    settings,
    table2a,
    table2a_view,
)
from dpnotes.experiments._registry import Experiment, Grid, paper_table

SUBSAMPLES = {"paper": (300, 500, 1000, 5000, 10_000), "quick": (50, 100, 200)}
VALIDATION_ROWS = 10_000  # last rows of MNIST's training part, held out while settings are chosen

# The paper names two convolutions with pooling and one linear layer, and 100 epochs; the rest is chosen on held-out
# training rows, never on the test set, by the rows of bagging_settings: see the chapter.
NETWORKS: dict[str, dict[str, Any]] = {
    "mnist": {
        "width": 16,
        "kernel_size": 5,
        "padding": 0,
        "epochs": 100,
        "batch_size": 32,
        "optimizer": "adam",
        "learning_rate": 1e-3,
    },
    "digits": {
        "width": 16,
        "kernel_size": 3,
        "padding": 1,
        "epochs": 30,
        "batch_size": 32,
        "optimizer": "adam",
        "learning_rate": 3e-3,
    },
}
# Batch, clipping norm and learning rate of DP-SGD are the defaults of the authors' public example for MNIST (TensorFlow
# Privacy), whose code the paper uses; nothing is chosen by looking at accuracies.
DP_SGD: dict[str, dict[str, Any]] = {
    "mnist": {"epochs": 100, "batch_size": 256, "clipping_norm": 1.0, "learning_rate": 0.15},
    "digits": {"epochs": 20, "batch_size": 64, "clipping_norm": 1.0, "learning_rate": 0.5},
}
CANDIDATES = [
    {"width": width, "optimizer": optimizer, "learning_rate": rate}
    for width in (16, 32)
    for optimizer, rate in (("adam", 1e-3), ("momentum", 1e-2))
]


def ensemble(
    *,
    dataset: str,
    part: str,
    subsample: int | None,
    n_models: int,
    replace: bool,
    width: int,
    kernel_size: int,
    padding: int,
    epochs: int,
    batch_size: int,
    optimizer: str,
    learning_rate: float,
    seed: int,
    device: str = "auto",
) -> dict[str, Any]:
    """Train networks on random subsamples (or one on all rows) and score their majority vote.

    Parameters
    ----------
    dataset : str
        An image set of :mod:`dpnotes.data`.
    part : {"test", "validation"}
        ``"validation"``: train on all but the last 10,000 training rows and score on those.
    subsample : int or None
        Records drawn for each model; None: one network on all records, without any guarantee.
    n_models, replace
        See :class:`dpnotes.methods.Bagging`.
    width : int
        Channels of the first convolution; the second has twice as many.
    kernel_size, padding, epochs, batch_size, optimizer, learning_rate
        See :class:`dpnotes.learners.NetworkClassifier`.
    seed : int
    device : str

    Returns
    -------
    dict
        accuracy; n (training records); epsilon, delta, adjacency, status of the release; data; device.
    """
    from dpnotes import data
    from dpnotes.learners import NetworkClassifier, device_name
    from dpnotes.methods import Bagging

    arrays = data.load(dataset)
    X, y, X_score, y_score = _parts(arrays, part)
    if arrays.image_shape is None:
        raise ValueError(f"dataset must hold images, got dataset={dataset!r}")
    network = NetworkClassifier(
        arrays.image_shape,
        channels=(width, 2 * width),
        kernel_size=kernel_size,
        padding=padding,
        epochs=epochs,
        batch_size=batch_size,
        optimizer=optimizer,
        learning_rate=learning_rate,
        device=device,
        random_state=seed,
    )
    if subsample is None:
        model: Any = network.fit(X, y)
        guarantee: dict[str, Any] = {"epsilon": None, "delta": None, "adjacency": None, "status": "none"}
    else:
        model = Bagging(
            subsample=subsample,
            estimator=network,
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


def table2a_grid(scale: str, *, subsamples: tuple[int, ...] = (), seeds: int = 5) -> Grid:
    """Rows of Table 2a: one network on one subsample with replacement, for each size, and one on all records.

    ``scale="paper"`` is MNIST with 100 epochs, ``"quick"`` scikit-learn's digits. ``subsamples``: other sizes than the
    scale's own. The network on all records is trained with at most three seeds (ten minutes each on one core).
    """
    if scale not in SUBSAMPLES:
        raise ValueError(f"scale must be one of {', '.join(map(repr, SUBSAMPLES))}, got scale={scale!r}")
    dataset = {"paper": "mnist", "quick": "digits"}[scale]
    common = {"dataset": dataset, "part": "test", "n_models": 1, "replace": True, **NETWORKS[dataset]}
    whole: list[tuple[int | None, int]] = [(None, seed) for seed in range(min(seeds, 3))]
    drawn = [(k, seed) for k in sorted(subsamples or SUBSAMPLES[scale], reverse=True) for seed in range(seeds)]
    return [{**common, "subsample": k, "seed": seed} for k, seed in [*whole, *drawn]]


def dp_sgd(
    *,
    dataset: str,
    part: str,
    noise_multiplier: float | None,
    epsilon: float | None,
    delta: float | None,
    width: int,
    kernel_size: int,
    padding: int,
    epochs: int,
    batch_size: int,
    clipping_norm: float,
    learning_rate: float,
    seed: int,
    device: str = "auto",
) -> dict[str, Any]:
    """Train the same network by DP-SGD, with given noise or with the least that tight accounting allows.

    Parameters
    ----------
    dataset, part, width, kernel_size, padding, seed, device
        As :func:`ensemble`.
    noise_multiplier : float or None
        None: calibrated to ``epsilon`` and ``delta``.
    epsilon, delta : float or None
    epochs : int
        Expected passes through the records: there are ``epochs * n // batch_size`` steps.
    batch_size : int
        Expected, by Poisson sampling.
    clipping_norm, learning_rate
        See :class:`dpnotes.methods.DPSGD`.

    Returns
    -------
    dict
        accuracy; n (training records); sigma (the noise multiplier used); advantage (the total variation that the
        release of all steps has at most); adjacency, status; data; device.
    """
    from dpnotes import data
    from dpnotes.learners import NetworkClassifier, device_name
    from dpnotes.methods import DPSGD

    arrays = data.load(dataset)
    X, y, X_score, y_score = _parts(arrays, part)
    if arrays.image_shape is None:
        raise ValueError(f"dataset must hold images, got dataset={dataset!r}")
    model = DPSGD(
        epsilon,
        delta,
        noise_multiplier=noise_multiplier,
        network=NetworkClassifier(
            arrays.image_shape, channels=(width, 2 * width), kernel_size=kernel_size, padding=padding
        ),
        clipping_norm=clipping_norm,
        sample_rate=batch_size / len(X),
        steps=epochs * len(X) // batch_size,
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


def dp_sgd_grid(scale: str) -> Grid:
    """DP-SGD rows of Table 2a: the paper's noise, and the least noise at the same (epsilon, delta); one seed.

    ``scale="quick"`` is scikit-learn's digits at two budgets of the same kind.
    """
    dataset = {"paper": "mnist", "quick": "digits"}[scale]
    network = {name: NETWORKS[dataset][name] for name in ("width", "kernel_size", "padding")}
    common = {"dataset": dataset, "part": "test", **network, **DP_SGD[dataset], "seed": 0}
    if scale == "quick":
        budgets = [(0.1, 0.1, 8.0), (0.4, 0.3, 3.0)]
    else:
        table = paper_table("bagging_table2").query("table == '2a' and method == 'DPSGD'")
        budgets = list(table[["epsilon", "delta", "sigma"]].itertuples(index=False, name=None))
    given = [{**common, "noise_multiplier": sigma, "epsilon": None, "delta": None} for _, _, sigma in budgets]
    least = [{**common, "noise_multiplier": None, "epsilon": eps, "delta": delta} for eps, delta, _ in budgets]
    return [row for pair in zip(reversed(given), reversed(least), strict=True) for row in pair]


def settings_grid() -> Grid:
    """Candidates for what the paper leaves open, at two of its sizes, scored on held-out training rows."""
    common = {"dataset": "mnist", "part": "validation", "n_models": 1, "replace": True}
    return [
        {**common, **NETWORKS["mnist"], **candidate, "subsample": k, "seed": seed}
        for candidate in CANDIDATES
        for k in (300, 1000)
        for seed in range(3)
    ]


def _parts(arrays: Dataset, part: str) -> tuple[Any, Any, Any, Any]:
    """Rows and labels to train on, rows and labels to score."""
    X, y, held = arrays.X_train, arrays.y_train, VALIDATION_ROWS
    if part == "test":
        return X, y, arrays.X_test, arrays.y_test
    if part == "validation":
        return X[:-held], y[:-held], X[-held:], y[-held:]
    raise ValueError(f"part must be 'test' or 'validation', got part={part!r}")


def _seconds(parameters: Mapping[str, Any]) -> float:
    """Measured on one core: 9,000 images a second with width 16, a third of it with width 32."""
    rows = (parameters["subsample"] or 60_000) * parameters["n_models"] * parameters["epochs"]
    return float(rows / 9000 * (parameters["width"] / 16) ** 1.6)


def _dp_sgd_seconds(parameters: Mapping[str, Any]) -> float:
    """Measured on one core: 6,700 images a second with width 16."""
    rows = {"mnist": 60_000, "digits": 1442}[parameters["dataset"]] * parameters["epochs"]
    return float(rows / 6700 * (parameters["width"] / 16) ** 1.6)


EXPERIMENTS = [
    Experiment(
        "bagging_table2a",
        ensemble,
        {"paper": lambda: table2a_grid("paper"), "quick": lambda: table2a_grid("quick", seeds=3)},
        tolerance={"accuracy": 0.01, "delta": 1e-12},
        cost=_seconds,
    ),
    Experiment(
        "bagging_settings",
        ensemble,
        {"paper": settings_grid},
        tolerance={"accuracy": 0.01, "delta": 1e-12},
        cost=_seconds,
    ),
    Experiment(
        "bagging_dp_sgd",
        dp_sgd,
        {"paper": lambda: dp_sgd_grid("paper"), "quick": lambda: dp_sgd_grid("quick")},
        tolerance={"accuracy": 0.03, "sigma": 1e-3, "advantage": 1e-4},
        cost=_dp_sgd_seconds,
    ),
]

__all__ = [
    "EXPERIMENTS",
    "RECORDS",
    "baselines",
    "baselines_view",
    "dp_sgd",
    "dp_sgd_grid",
    "ensemble",
    "many_models",
    "memorising_attack",
    "settings",
    "settings_grid",
    "table2a",
    "table2a_grid",
    "table2a_view",
]
