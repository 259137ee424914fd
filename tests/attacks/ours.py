"""Our estimators as targets, at small settings: functions that fit one to a table of
two classes.

Each has much noise, so that what an attack recovers is not recovered through a generous
guarantee.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from dpnotes import methods
from dpnotes.learners import NetworkClassifier

N, D = 64, 20
CLASSES = [0, 1]
ANSWERS = 400  # of the methods with a budget
LINEAR = {
    "delta": 1e-6,
    "epsilon": 0.1,
    "l2": 0.06,
    "intercept": False,
    "device": "cpu",
}
DESCENT = {
    "noise_multiplier": 20.0,
    "steps": 4,
    "sample_rate": 0.5,
    "learning_rate": 1.0,
    "accountant": "rdp",
}
NETWORK = NetworkClassifier((1, 4, 5), channels=(16,), kernel_size=2)
SETTINGS: dict[str, tuple[type, dict[str, Any]]] = {
    "ModelSensitivity": (methods.ModelSensitivity, LINEAR),
    "ClassMeans": (methods.ClassMeans, {"epsilon": 0.1, "delta": 1e-6}),
    "NoisyBoosting": (
        methods.NoisyBoosting,
        {"epsilon": 0.1, "delta": 1e-6, "n_trees": 2},
    ),
    "LossPerturbation": (methods.LossPerturbation, LINEAR),
    "PredictionSensitivity": (
        methods.PredictionSensitivity,
        LINEAR | {"answers": ANSWERS},
    ),
    "DPSGD": (methods.DPSGD, DESCENT | {"device": "cpu"}),
    "DPSGD of a network": (
        methods.DPSGD,
        DESCENT | {"device": "cpu", "network": NETWORK},
    ),
    "NoisySGD": (
        methods.NoisySGD,
        {"epsilon": 0.1, "delta": 1e-6, "steps": 4, "learning_rate": 1.0},
    ),
    "AugmentedSGD": (
        methods.AugmentedSGD,
        {
            "epsilon": 0.1,
            "delta": 1e-6,
            "steps": 4,
            "learning_rate": 1.0,
            "batch_size": 16,
            "device": "cpu",
        },
    ),
    "Bagging": (methods.Bagging, {"subsample": 20, "n_models": 3}),
    "SubsampleAggregate": (
        methods.SubsampleAggregate,
        {
            "epsilon": 0.1,
            "answers": ANSWERS,
            "n_models": 5,
            "l2": 0.01,
            "device": "cpu",
        },
    ),
    "FilteredVote": (
        methods.FilteredVote,
        {"n_models": 8, "sigma": 1000.0, "answers": 10, "device": "cpu"},
    ),
    "PATE": (
        methods.PATE,
        {"n_models": 8, "aggregator": "gnmax", "sigma_answer": 1000.0},
    ),
    "DPBag": (
        methods.DPBag,
        {
            "n_models": 8,
            "n_partitions": 2,
            "inverse_scale": 0.05,
            "epsilon": 1.0,
            "delta": 1e-3,
            "device": "cpu",
        }
        | {"accountant": "tight"},
    ),
}
# settings under which one record meets a model of two classes with certainty
SURELY: dict[str, dict[str, Any]] = {
    **{name: {"sample_rate": 1.0} for name in ("DPSGD", "DPSGD of a network")},
    **{name: {"n_models": 2} for name in ("FilteredVote", "PATE", "DPBag")},
    "Bagging": {"subsample": N, "replace": False},
    "SubsampleAggregate": {"n_models": 2},
}
WITH_PUBLIC = ("PATE", "DPBag")
# attacked each in its own way; all others that release a model are attacked alike
APART = ("DPSGD of a network", "Bagging", *WITH_PUBLIC)
RELEASED = tuple(
    name
    for name, (kind, _) in SETTINGS.items()
    if name not in APART and not kind._answers_from_records
)
# one for each feature
WITH_WEIGHTS = tuple(name for name in RELEASED if name != "NoisyBoosting")
WITH_BUDGET = ("PredictionSensitivity", "SubsampleAggregate")
Fit = Callable[..., Any]


def table(n: int = N, d: int = D, *, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows of norm 0.9 and random labels."""
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(n, d))
    return 0.9 * X / np.linalg.norm(X, axis=1, keepdims=True), generator.integers(
        2, size=n
    )


def queries(n: int = 200, d: int = D) -> np.ndarray:
    """Public rows."""
    return table(n, d, seed=99)[0]


def estimator(name: str) -> Fit:
    """Function (X, y, **parameters) that fits the estimator of that name, the
    classes being public.
    """
    kind, settings = SETTINGS[name]

    def fit(X: Any, y: Any, *, public: Any = None, **parameters: Any) -> Any:
        given = settings | {"classes": CLASSES} | parameters
        if (
            "noise_seed" in given
            and "noise_seed" not in inspect.signature(kind).parameters
        ):
            given["random_state"] = given.pop("noise_seed")
        further = (
            {"public": queries(d=np.shape(X)[1]) if public is None else public}
            if name in WITH_PUBLIC
            else {}
        )
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "the [0-9]+ public rows are all labelled")
            return kind(**given).fit(X, y, **further)

    return fit


def ours(*names: str) -> dict[str, Fit]:
    """Targets of those names, or all."""
    return {name: estimator(name) for name in names or SETTINGS}


def with_certainty() -> dict[str, Fit]:
    """All targets, at settings under which no record is left out by chance."""
    return {name: partial(estimator(name), **SURELY.get(name, {})) for name in SETTINGS}


def answers(fitted: Any, X: Any = None) -> np.ndarray:
    """What a fitted estimator lets the world see, as one vector: weights, labels of
    public rows, or answers.
    """
    for name in ("coef_", "labels_"):
        if hasattr(fitted, name):
            return np.asarray(getattr(fitted, name), dtype=np.float64).ravel()
    X = queries(d=fitted.n_features_in_) if X is None else X
    for name in ("decision_function", "predict_proba", "predict"):
        if hasattr(fitted, name):
            return np.asarray(getattr(fitted, name)(X), dtype=np.float64).ravel()
    raise TypeError(f"{fitted!r} gives no answers")


def weights(fitted: Any) -> np.ndarray:
    """Weights of the second class less those of the first, shape [d], through
    answers where there is no attribute.
    """
    if hasattr(fitted, "coef_"):
        return np.asarray(
            fitted.coef_[-1] - (fitted.coef_[0] if len(fitted.coef_) > 1 else 0.0),
            dtype=np.float64,
        )
    d = fitted.n_features_in_
    log = np.log(fitted.predict_proba(np.vstack([np.zeros(d), np.eye(d)])))
    odds = log[:, 1] - log[:, 0]
    return odds[1:] - odds[0]
