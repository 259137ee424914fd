"""PATE for Table 3a: teachers that several rows share, and a student on the released labels."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpnotes.lab.bagging.networks import network, parts, public_rows


def pate(
    *,
    dataset: str,
    n_teachers: int,
    threshold: float,
    sigma_threshold: float,
    sigma_answer: float,
    queries: int,
    answers: int | None,
    epochs: int | None,
    l2: float | None,
    student_epochs: int,
    teachers_seed: int,
    seed: int,
    **start: Any,
) -> dict[str, Any]:
    """One row; see :func:`dpnotes.lab.bagging.experiments.pate`.

    ``start``: what teachers and student have in common.
    """
    from dpnotes.learners import device_name
    from dpnotes.methods import PATE

    arrays, X, y, X_score, y_score = parts(dataset, "rest", start["public"])
    X_public, y_public = public_rows(dataset, start["public"])
    shards, votes = _teachers(dataset, n_teachers, epochs, l2, teachers_seed, **start)
    model = PATE(
        _Trained(votes, X_public),
        n_teachers=n_teachers,
        threshold=threshold,
        sigma_threshold=sigma_threshold,
        sigma_answer=sigma_answer,
        queries=queries,
        answers=answers,
        student=network(arrays, epochs=student_epochs, **start),
        classes=range(arrays.n_classes),
        random_state=seed,
    ).fit(X, y, public=X_public, shards=shards)
    answered = np.flatnonzero(model.answered_)
    stopped = len(answered) == answers
    counts = np.stack([(votes == label).sum(axis=0) for label in range(arrays.n_classes)])  # [n_classes, n_public]
    return {
        "accuracy": float(np.mean(model.predict(X_score) == y_score)),
        "answered": len(answered),
        "asked": int(answered[-1]) + 1 if stopped else queries,
        "right": float(np.mean(model.labels_ == y_public[answered])) if len(answered) else None,
        "agreement": float(counts.max(axis=0).mean() / n_teachers),
        "plurality": float(np.mean(counts.argmax(axis=0) == y_public)),
        "n": len(X),
        "advantage": model.profile_.advantage,
        "adjacency": model.profile_.adjacency,
        "status": model.profile_.status,
        "data": arrays.digest,
        "device": device_name(start["device"]),
    }


@functools.lru_cache(maxsize=1)
def _teachers(
    dataset: str, n_teachers: int, epochs: int | None, l2: float | None, seed: int, **start: Any
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Teacher of each record, shape [n], and the teachers' votes on all public rows, shape [n_teachers, n_public]."""
    from dpnotes.learners import LogisticClassifier
    from dpnotes.mechanisms import draw_partitions

    if (epochs is None) == (l2 is None):
        raise ValueError(f"give epochs for networks or l2 for logistic teachers, got epochs={epochs}, l2={l2}")
    arrays, X, y, _, _ = parts(dataset, "rest", start["public"])
    shards = draw_partitions(len(X), n_chunks=n_teachers, n_partitions=1, seed=seed).chunk[:, 0]
    subsets = [np.flatnonzero(shards == teacher) for teacher in range(n_teachers)]
    learner: Any = network(arrays, epochs=epochs, **start) if l2 is None else LogisticClassifier(l2=l2, device="cpu")
    teachers = learner.fit_many(X, y, subsets, n_classes=arrays.n_classes, seed=seed)
    return shards, teachers.votes(public_rows(dataset, start["public"])[0])


class _Trained:
    """A learner of many models whose models are there: the same shards give the same votes."""

    def __init__(self, votes: NDArray[np.int64], public: NDArray[np.floating]) -> None:
        self._votes, self._public = votes, public

    def fit_many(self, X: Any, codes: Any, subsets: Any, *, n_classes: int, seed: int) -> _Trained:
        return self

    def votes(self, X: NDArray[np.floating]) -> NDArray[np.int64]:
        if not np.array_equal(X, self._public[: len(X)]):
            raise ValueError("the teachers voted on other public rows")
        return self._votes[:, : len(X)]
