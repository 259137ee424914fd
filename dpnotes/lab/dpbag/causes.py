"""Supposed causes of differences from the paper: other settings of its learners, which it does not state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from dpnotes import _validation as check
from dpnotes.lab import experiment
from dpnotes.lab._experiment import Grid
from dpnotes.lab.dpbag.grids import EPSILONS, PUBLISHED_DELTA, SIZES
from dpnotes.lab.dpbag.runs import thirds


class Setting(NamedTuple):
    """Settings of a learner.

    Attributes
    ----------
    says : str
        In words, for a page.
    teachers : str
        The learner of the chapter whose cells it is to explain.
    models : callable
        Gives the learner of the teachers, and the student's.
    """

    says: str
    teachers: str
    models: Callable[[], tuple[Any, Any]]


def _liblinear() -> tuple[Any, Any]:
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(solver="liblinear")
    return model, model


def _students(**settings: Any) -> Callable[[], tuple[Any, Any]]:
    def models() -> tuple[Any, Any]:
        from sklearn.ensemble import GradientBoostingClassifier

        from dpnotes.learners import BoostedTreesClassifier

        return BoostedTreesClassifier(device="cpu"), GradientBoostingClassifier(**settings)

    return models


def _leaves() -> tuple[Any, Any]:
    from sklearn.ensemble import HistGradientBoostingClassifier

    teachers, _ = _students()()
    return teachers, HistGradientBoostingClassifier(early_stopping=False)


SETTINGS = {
    "liblinear": Setting("teachers and students by liblinear, the default of 2019", "logistic", _liblinear),
    "rate": Setting("students of rate 0.3", "boosting", _students(learning_rate=0.3)),
    "rate_depth": Setting("students of rate 0.3 and depth 6", "boosting", _students(learning_rate=0.3, max_depth=6)),
    "trees": Setting("students of 300 trees", "boosting", _students(n_estimators=300)),
    "leaves": Setting("students of trees with 31 leaves", "boosting", _leaves),
}
SEEDS = 5
TRIED = {"logistic": EPSILONS, "boosting": (5.0,)}  # epsilons at which a setting is tried


@experiment("dpbag.cause")
def cause(
    *,
    dataset: str,
    setting: str,
    accountant: str,
    n_teachers: int,
    n_partitions: int,
    epsilon: float | None,
    delta: float | None,
    seed: int,
    device: str = "auto",
) -> dict[str, Any]:
    """A row of :func:`dpnotes.lab.dpbag.experiments.student` whose learners have other settings.

    Parameters
    ----------
    dataset, accountant, n_teachers, n_partitions, epsilon, delta, seed, device
        As there; the thirds, partitions and noise are those of its row.
    setting : str
        One of :data:`SETTINGS`.

    Returns
    -------
    dict
        labels, label_accuracy, accuracy, auroc, auprc; data; device.
    """
    from dpnotes.learners import device_name
    from dpnotes.methods import DPBag

    records = thirds(dataset, seed)
    teachers, student = SETTINGS[check.one_of("setting", setting, tuple(SETTINGS))].models()
    if accountant == "none" or epsilon is None or delta is None:
        if "random_state" in student.get_params():
            student.set_params(random_state=seed)
        released, model = records.private.y, student.fit(*records.private)
        true = released
    else:
        dtype = np.float64 if SETTINGS[setting].teachers == "logistic" else np.float32  # as in the row there
        vote = DPBag(
            estimator=teachers, student=student, n_teachers=n_teachers, n_partitions=n_partitions, epsilon=epsilon,
            delta=delta, accountant=accountant, partitions="balanced", adjacency="replace-one", device=device,
            noise_seed=seed,
        ).fit(records.private.X.astype(dtype), records.private.y, public=records.public.X.astype(dtype))  # fmt: skip
        released, model = vote.labels_, vote.student_
        true = records.public.y[: len(released)]
    return {
        "labels": len(released),
        "label_accuracy": float(np.mean(released == true)),
        **_scores(model, records.test.X, records.test.y),
        "data": records.digest,
        "device": device_name(device),
    }


def _scores(model: Any, X: Any, y: Any) -> dict[str, float]:
    """As :func:`dpnotes.lab.dpbag.runs.scores`, of a model that is there."""
    from sklearn.metrics import average_precision_score, roc_auc_score

    score = model.predict_proba(X)[:, 1] if len(model.classes_) == 2 else np.zeros(len(y))
    return {
        "accuracy": float(np.mean(model.predict(X) == y)),
        "auroc": float(roc_auc_score(y, score)),
        "auprc": float(average_precision_score(y, score)),
    }


def grid(dataset: str = "adult", *, seeds: int = SEEDS) -> Grid:
    """Every setting on the cells of subsample-and-aggregate, and some of boosting on all private rows."""
    rows: Grid = []
    for name, (_, teachers, _) in SETTINGS.items():
        sizes = SIZES[teachers if dataset == "adult" else "quick"]["n"]
        common: dict[str, Any] = {"dataset": dataset, "setting": name, "n_partitions": 1}
        rows += [
            {**common, "accountant": "naive", "n_teachers": n, "epsilon": e, "delta": PUBLISHED_DELTA, "seed": seed}
            for seed in range(seeds)
            for n in sizes
            for e in TRIED[teachers]
        ]
        rows += [
            {**common, "accountant": "none", "n_teachers": 1, "epsilon": None, "delta": None, "seed": seed}
            for seed in range(min(seeds, 3))
        ]
    return rows


def seconds(parameters: Mapping[str, Any]) -> float:
    """Measured on one core."""
    if parameters["accountant"] == "none":
        return 1.0 if parameters["setting"] == "liblinear" else 15.0
    return 2.0 if parameters["setting"] == "liblinear" else 5.0
