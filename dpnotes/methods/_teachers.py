"""Teachers on chunks of unequal size: logistic regressions of scikit-learn's C = 1, and votes of any teachers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpnotes.methods._one_by_one import OneByOne, Voters

FLOATS = [np.float64, np.float32]  # of records and queries; others are converted to the first


class LogisticTeachers:
    """Logistic regressions of which each minimises its own summed loss plus |w|^2 / (2 C): a function of its chunk.

    A weight of the regulariser against the mean loss, the same for all, would let the size of the data set into every
    teacher; chunks of one size are fitted in one call instead.

    Parameters
    ----------
    C : float, > 0
    device : str
    """

    def __init__(self, *, C: float = 1.0, device: str = "auto") -> None:
        self.C = C
        self.device = device

    def fit_many(
        self,
        X: NDArray[np.floating],
        codes: NDArray[np.int64],
        subsets: list[NDArray[np.int64]],
        *,
        n_classes: int,
        seed: int | None = None,
    ) -> LogisticGroups:
        """One model for each subset; ``seed`` is not needed."""
        from dpnotes.learners._logistic_binary import fit_binary_logistic
        from dpnotes.learners._logistic_multinomial import fit_multinomial_logistic

        sizes = np.array([len(rows) for rows in subsets])
        X = X.astype(np.float64, copy=False)  # float32 changes votes
        groups = []
        for size in np.unique(sizes):
            models = np.flatnonzero(sizes == size)
            rows = np.stack([subsets[model] for model in models])
            l2 = 1 / (self.C * int(size))
            if n_classes == 2:
                fitted = fit_binary_logistic(X, codes, rows, l2=l2, device=self.device)
            else:
                fitted = fit_multinomial_logistic(
                    X, codes, rows, n_classes=n_classes, l2=l2, intercept=True, device=self.device
                )
            groups.append((models, fitted))
        return LogisticGroups(groups, len(subsets), self.device)


class LogisticGroups:
    """Fitted logistic regressions by size of chunk."""

    def __init__(self, groups: list[tuple[NDArray[np.intp], Any]], n_models: int, device: str) -> None:
        self._groups, self._n_models, self._device = groups, n_models, device

    def votes(self, X: NDArray[np.floating]) -> NDArray[np.uint8]:
        """Class code of each model for each row of X, shape [n_models, n]."""
        found = np.empty((self._n_models, len(X)), np.uint8)
        for models, fitted in self._groups:
            found[models] = fitted.votes(X, device=self._device, dtype=np.uint8)
        return found

    def confidence(self, X: NDArray[np.floating]) -> NDArray[np.float64]:
        """Probability that each model gives the class it votes for, shape [n_models, n]."""
        found = np.empty((self._n_models, len(X)))
        for models, fitted in self._groups:
            logits = fitted.logits(X, device=self._device)
            if logits.ndim == 2:
                found[models] = 1 / (1 + np.exp(-np.abs(logits)))
            else:
                best = logits.max(axis=2, keepdims=True)
                found[models] = 1 / np.exp(logits - best).sum(axis=2)
        return found


@dataclass(frozen=True, eq=False)
class Teachers:
    """Fitted teachers, one for each chunk; those of chunks without records do not vote.

    Parameters
    ----------
    models : object
        With ``votes(X)`` of shape [n_teachers, n].
    present : ndarray of bool, shape [n_teachers]
        Chunks that have records.
    n_classes : int
        Also the code of no vote.
    """

    models: Any
    present: NDArray[np.bool_]
    n_classes: int

    def votes(self, X: NDArray[np.floating]) -> NDArray[np.uint8]:
        """Class code of each teacher for each row of X, ``n_classes`` where it has no records, [n_teachers, n]."""
        votes = np.asarray(self.models.votes(X)).astype(np.uint8, copy=False)
        return votes if self.present.all() else np.where(self.present[:, None], votes, np.uint8(self.n_classes))

    def confident(self, X: NDArray[np.floating], least: float) -> NDArray[np.bool_]:
        """Whether each teacher gives the class it votes for at least that probability, [n_teachers, n]."""
        if isinstance(self.models, Voters):
            return np.stack([model.predict_proba(X).max(axis=1) >= least for model in self.models.models])
        return np.asarray(self.models.confidence(X) >= least)


def fit_teachers(
    learner: Any,
    X: NDArray[np.floating],
    codes: NDArray[np.int64],
    subsets: list[NDArray[np.int64]],
    *,
    n_classes: int,
    seed: int,
    n_jobs: int | None,
) -> Teachers:
    """Train a teacher on each subset, in one call where the learner can, else a clone each."""
    if not hasattr(learner, "fit_many"):
        learner = OneByOne(learner, n_jobs)
    present = np.array([len(rows) > 0 for rows in subsets])
    # a teacher without records holds its place, and with it the other teachers' random streams; it has no vote
    own = [rows if len(rows) else np.zeros(1, np.int64) for rows in subsets]
    return Teachers(learner.fit_many(X, codes, own, n_classes=n_classes, seed=seed), present, n_classes)


def check_classes(classes: NDArray[Any]) -> None:
    """Raise ValueError unless there are 2 to 255 classes."""
    if len(classes) < 2:
        (only,) = classes.tolist()
        raise ValueError(f"y must hold at least 2 classes, got 1 class: {only!r}; one class needs no vote")
    if len(classes) > 255:
        raise ValueError(f"y must hold at most 255 classes, got {len(classes)}")


def check_enough_records(n_records: int, *, n_teachers: int) -> None:
    """Raise ValueError if there are more teachers than records."""
    if n_teachers > n_records:
        raise ValueError(f"n_teachers must be at most the {n_records} records of X, got n_teachers={n_teachers}")


def checked_chunks(chunks: ArrayLike, shape: tuple[int, int], n_teachers: int) -> NDArray[np.int64]:
    """Give chunks as int64; they must be integers of that shape in 0 .. n_teachers - 1."""
    given = np.asarray(chunks)
    if given.shape != shape or given.dtype.kind not in "iu":
        raise ValueError(f"chunks must be integers of shape {list(shape)}, got {given.dtype} of shape {given.shape}")
    if given.min() < 0 or given.max() >= n_teachers:
        raise ValueError(f"chunks must be in 0..{n_teachers - 1}, got {given.min()}..{given.max()}")
    return given.astype(np.int64)
