"""scikit-learn classifiers where many models are wanted: a clone for each subsample, and their votes."""

from __future__ import annotations

from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.dummy import DummyClassifier


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
        """Fit a clone to each subset, each with a seed of its own."""
        seeds = np.random.SeedSequence(seed).generate_state(len(subsets)) // 2  # scikit-learn's seeds are below 2^31
        fits = (delayed(self.fit)(X[rows], codes[rows], int(s)) for rows, s in zip(subsets, seeds, strict=True))
        return Voters(list(Parallel(n_jobs=self._n_jobs)(fits)))

    def fit(self, X: NDArray[np.floating], codes: NDArray[np.int64], seed: int) -> Any:
        """Fit one clone, all its random states from the seed."""
        if (codes == codes[0]).all():
            return DummyClassifier(strategy="most_frequent").fit(X, codes)
        model = clone(self._estimator)
        random = {name: seed for name in model.get_params() if name.rpartition("__")[2] == "random_state"}
        return model.set_params(**random).fit(X, codes)


class Voters:
    """Fitted classifiers, one after the other in ``models``."""

    def __init__(self, models: list[Any]) -> None:
        self.models = models

    def votes(self, X: NDArray[np.floating]) -> NDArray[np.int64]:
        """Class code of each model for each row of X, [n_models, n]."""
        return np.stack([model.predict(X) for model in self.models])
