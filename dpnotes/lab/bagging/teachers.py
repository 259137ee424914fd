"""The teachers of PATE for Tables 3a and 3b: trained once in a process, for all rows that share them."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpnotes.lab.bagging.networks import load, load_public, network


@functools.lru_cache(maxsize=1)
def votes(
    dataset: str, n_teachers: int, epochs: int | None, l2: float | None, seed: int, **start: Any
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Teacher of each record, shape [n], and the teachers' votes on all public rows, shape [n_teachers, n_public].

    ``start``: what teachers and student have in common.
    """
    from dpnotes.learners import LogisticClassifier
    from dpnotes.mechanisms import draw_partitions

    arrays, X, y, _, _ = load(dataset, "rest", start.get("public"))
    shards = draw_partitions(len(X), n_chunks=n_teachers, n_partitions=1, seed=seed).chunk[:, 0]
    subsets = [np.flatnonzero(shards == teacher) for teacher in range(n_teachers)]
    learner: Any = network(arrays, epochs=epochs, **start) if l2 is None else LogisticClassifier(l2=l2, device="cpu")
    teachers = learner.fit_many(X, y, subsets, n_classes=arrays.n_classes, seed=seed)
    return shards, teachers.votes(load_public(dataset, start.get("public"))[0])


class Trained:
    """A learner of many models that are trained already: the same shards give the same votes."""

    def __init__(self, votes: NDArray[np.int64]) -> None:
        self._votes = votes

    def fit_many(self, X: Any, _codes: Any, subsets: Any, *, n_classes: int, seed: int) -> Trained:
        """Give the trained teachers."""
        return self

    def votes(self, X: NDArray[np.floating]) -> NDArray[np.int64]:
        """Votes on the first public rows, shape [n_teachers, len(X)]."""
        return self._votes[:, : len(X)]
