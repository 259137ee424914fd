"""scikit-learn classifiers where many models are wanted: a clone for each subsample, and their votes."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.dummy import DummyClassifier

from dpnotes._validation import Booleans, Features, Floats

TRIED = 10  # made-up records of each class that a learner is tried on


class OneByOne:
    """Fits clones of a scikit-learn classifier; a subsample of one class gets a model that always votes for it."""

    def __init__(self, estimator: Any, n_jobs: int | None) -> None:
        self._estimator = estimator
        self._n_jobs = n_jobs

    def fit_many(
        self,
        X: NDArray[np.floating],
        codes: NDArray[np.int64],
        subsets: NDArray[np.int64],
        *,
        n_classes: int,
        seed: int,
    ) -> Voters:
        """Fit a clone to each subset, each with a seed of its own; one that cannot be fitted is left out.

        Neither warnings nor errors come from a subset, as they would tell of its records. What is wrong with the
        learner itself shows first, at made-up records.
        """
        self._try(X.shape[1], n_classes)
        seeds = np.random.SeedSequence(seed).generate_state(len(subsets)) // 2  # scikit-learn's seeds are below 2^31
        fits = (delayed(self._model)(X[rows], codes[rows], int(s)) for rows, s in zip(subsets, seeds, strict=True))
        return Voters(list(Parallel(n_jobs=self._n_jobs)(fits)))

    def fit(self, X: NDArray[np.floating], codes: NDArray[np.int64], seed: int) -> Any:
        """Fit one clone, all its random states from the seed."""
        if (codes == codes[0]).all():
            return DummyClassifier(strategy="most_frequent").fit(X, codes)
        model = clone(self._estimator)
        random = {name: seed for name in model.get_params() if name.rpartition("__")[2] == "random_state"}
        return model.set_params(**random).fit(X, codes)

    def _model(self, X: NDArray[np.floating], codes: NDArray[np.int64], seed: int) -> Any:
        """A fitted clone that can predict, or None; a function of these records alone."""
        with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
            try:
                model = self.fit(X, codes, seed)
                model.predict(X[:1])
            except Exception:  # any failure would be one that private records decide
                return None
            return model

    def _try(self, d: int, n_classes: int) -> None:
        """Fit a clone to public records, so that a learner with wrong parameters is an error."""
        codes = np.tile(np.arange(n_classes), TRIED)
        self.fit(np.random.default_rng(0).random((len(codes), d)), codes, 0)


class Voters:
    """Fitted classifiers, one after the other in ``models``; None has no vote."""

    def __init__(self, models: list[Any]) -> None:
        self.models = models

    @property
    def present(self) -> Booleans:
        """Which models there are."""
        return np.array([model is not None for model in self.models])

    def votes(self, X: Features) -> NDArray[np.int64]:
        """Class code of each model for each row of X, [n_models, n]; 0 where there is none."""
        absent = np.zeros(len(X), np.int64)
        with np.errstate(all="ignore"):
            return np.stack([absent if model is None else model.predict(X) for model in self.models])

    def confidence(self, X: Features) -> Floats:
        """Probability that each model gives the class it votes for, [n_models, n]; 0 where there is none."""
        absent = np.zeros(len(X))
        with np.errstate(all="ignore"):
            return np.stack([absent if model is None else model.predict_proba(X).max(axis=1) for model in self.models])
