"""One run of differentially private bagging: teachers trained once, labels for many budgets."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpnotes import data
from dpnotes.accounting import noisy_vote_answers
from dpnotes.mechanisms import draw_partitions, laplace_vote

SPLITS = {"adult": "dpbag", "diabetes130": "dpbag", "breast_cancer": "original"}
LEARNERS = ("logistic", "boosting")
QUERIES = 1024  # voted on at a time
SHARES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)  # of the records, for the quantiles of what they pay

Budget = tuple[float, float]  # epsilon, delta


@dataclass(frozen=True, eq=False)
class Parts:
    """Random thirds of a data set, drawn anew for each run."""

    X: NDArray[np.float64]
    y: NDArray[np.int64]
    X_public: NDArray[np.float64]
    y_public: NDArray[np.int64]
    X_test: NDArray[np.float64]
    y_test: NDArray[np.int64]
    digest: str


@dataclass(frozen=True, eq=False)
class Stop:
    """Where the personalised accountant stops.

    ``labels``: how many public rows are labelled; ``paid``: epsilon of the private records at quantiles :data:`SHARES`;
    ``spent``: the largest epsilon, that of a record yet to come included.
    """

    labels: int
    paid: NDArray[np.float64]
    spent: float


@dataclass(frozen=True, eq=False)
class Run:
    """Noisy labels of the first public rows, as many as any of the budgets uses, and what a student needs."""

    parts: Parts
    labels: NDArray[np.int64]
    student_seed: int
    stops: dict[Budget, Stop]


@lru_cache(maxsize=1)
def _pool(dataset: str) -> tuple[NDArray[np.float64], NDArray[np.int64], str]:
    if dataset not in SPLITS:
        raise ValueError(f"dataset must be one of {', '.join(map(repr, SPLITS))}, got dataset={dataset!r}")
    loaded = data.load(dataset, split=SPLITS[dataset])
    public = [] if loaded.X_public is None else [(loaded.X_public, loaded.y_public)]
    rows = [(loaded.X_train, loaded.y_train), *public, (loaded.X_test, loaded.y_test)]
    X, y = (np.concatenate(arrays) for arrays in zip(*rows, strict=True))
    return X.astype(np.float64), y, loaded.digest


def thirds(dataset: str, seed: int) -> Parts:
    """Private, public and test rows: thirds of all rows in the order of ``default_rng(seed).permutation``."""
    X, y, digest = _pool(dataset)
    order, third = np.random.default_rng(seed).permutation(len(y)), len(y) // 3
    cuts = order[:third], order[third : 2 * third], order[2 * third :]
    private, public, test = ((X[rows], y[rows]) for rows in cuts)
    return Parts(*private, *public, *test, digest)


def learner(name: str) -> Any:
    """scikit-learn's logistic regression or gradient boosting, both with its defaults (C = 1; 100 trees of depth 3).

    The teachers of a run are the same models, fitted many at once.
    """
    _check_learner(name)
    if name == "logistic":
        from sklearn.linear_model import LogisticRegression

        return LogisticRegression(max_iter=1000)
    from sklearn.ensemble import GradientBoostingClassifier

    return GradientBoostingClassifier()


def _check_learner(name: str) -> None:
    if name not in LEARNERS:
        raise ValueError(f"teachers must be one of {', '.join(map(repr, LEARNERS))}, got teachers={name!r}")


@lru_cache(maxsize=1)  # rows of a grid that share teachers follow each other
def run(
    dataset: str, teachers: str, n_teachers: int, n_partitions: int, seed: int, device: str, budgets: tuple[Budget, ...]
) -> Run:
    """Train the teachers of one run, and label public rows for as long as one of the budgets lasts.

    The random streams are those of :class:`dpnotes.methods.DPBag` with ``random_state=seed`` and balanced partitions,
    and so are the labels; budgets share the noise of the labels that they share.
    """
    from dpnotes.learners import BoostedTreesClassifier, TouchedVotes
    from dpnotes.methods._answers import secret_seed, stream
    from dpnotes.methods._personal_accountant import personalised_epsilon, squares_of_budget
    from dpnotes.methods._teachers import LogisticTeachers, fit_teachers

    _check_learner(teachers)
    parts, secret, noise = thirds(dataset, seed), secret_seed(seed), 2 / n_teachers
    learn_seed, student_seed = (int(s) for s in stream(secret, 0).integers(2**31, size=2))
    cut = draw_partitions(
        len(parts.X),
        n_chunks=n_teachers,
        n_partitions=n_partitions,
        scheme="balanced",
        seed=int.from_bytes(stream(secret, 2).bytes(16), "little"),
    )
    many: Any = LogisticTeachers if teachers == "logistic" else BoostedTreesClassifier
    X = parts.X if teachers == "logistic" else parts.X.astype(np.float32)  # as scikit-learn's trees take it
    fitted = fit_teachers(many(device=device), X, parts.y, cut.subsets(), n_classes=2, seed=learn_seed, n_jobs=None)
    touched = TouchedVotes(np.vstack([cut.chunk, cut.joining]), n_teachers=n_teachers, device=device)
    limits = sorted((squares_of_budget(e, d, n_partitions=n_partitions, noise=noise), (e, d)) for e, d in budgets)
    fixed = max(noisy_vote_answers(e, d, noise=noise, analysis=a) for e, d in budgets for a in ("tight", "published"))
    stops: dict[Budget, Stop] = {}
    counts: list[NDArray[np.int64]] = []
    answered = 0  # public rows that the accountant has seen

    def stop(delta: float) -> Stop:
        own = personalised_epsilon(touched.totals, n_partitions=n_partitions, noise=noise, delta=delta)
        return Stop(answered, np.quantile(own[:-1], SHARES), float(own.max()))

    for start in range(0, len(parts.X_public), QUERIES):
        votes = fitted.votes(parts.X_public[start : start + QUERIES].astype(X.dtype, copy=False))
        counts.append(np.stack([np.count_nonzero(votes == code, axis=0) for code in (0, 1)], axis=1))
        left = votes.reshape(n_partitions, n_teachers, -1)
        while left.shape[2] and limits:
            largest = touched.add(left, limit=limits[0][0])
            answered, left = answered + len(largest), left[:, :, len(largest) :]
            while limits and largest[-1] >= limits[0][0]:
                _, budget = limits.pop(0)
                stops[budget] = stop(budget[1])
        if not limits and start + QUERIES >= fixed:
            break
    stops |= {budget: stop(budget[1]) for _, budget in limits}  # public rows ran out
    labels = laplace_vote(np.concatenate(counts) / n_partitions, scale=1 / noise, seed=stream(secret, 1))
    return Run(parts, labels, student_seed, stops)


def scores(teachers: str, X: NDArray[np.float64], labels: NDArray[np.int64], parts: Parts, seed: int) -> dict[str, Any]:
    """Accuracy, AUROC and AUPRC on the test rows of a student trained on labelled rows."""
    from sklearn.metrics import average_precision_score, roc_auc_score

    from dpnotes.methods._student import fit_student

    model = fit_student(learner(teachers), X, labels, classes=np.array([0, 1]), seed=seed)
    positive = list(model.classes_).index(1) if 1 in model.classes_ else None
    score = np.zeros(len(parts.X_test)) if positive is None else model.predict_proba(parts.X_test)[:, positive]
    return {
        "accuracy": float(np.mean(model.predict(parts.X_test) == parts.y_test)),
        "auroc": float(roc_auc_score(parts.y_test, score)),
        "auprc": float(average_precision_score(parts.y_test, score)),
    }


def quantile_names() -> Iterable[str]:
    """Columns of what the records pay, in the order of :data:`SHARES`."""
    return (f"paid_{100 * share:g}" for share in SHARES)
