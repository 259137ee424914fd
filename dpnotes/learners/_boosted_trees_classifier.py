"""Gradient-boosted trees as a scikit-learn classifier that can fit many models in one call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from dpnotes._validation import Features
from dpnotes.learners._boosted_trees import fit_boosted_trees
from dpnotes.learners._boosted_trees_models import BoostedTrees
from dpnotes.learners._decisions import DecisionClassifier


@dataclass(kw_only=True, eq=False, repr=False)
class BoostedTreesClassifier(DecisionClassifier):
    """Gradient-boosted trees of two classes, as scikit-learn's ``GradientBoostingClassifier``, for many small subsets.

    It is made for thousands of teachers at once, which are fitted in the dtype of X.

    Parameters
    ----------
    n_trees, depth, learning_rate, device
        See :func:`dpnotes.learners.fit_boosted_trees`.

    Attributes
    ----------
    classes_ : ndarray, shape [2]
    trees_ : BoostedTrees
        The one model, with a leading axis of length 1.
    n_features_in_ : int

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> BoostedTreesClassifier(n_trees=20, device="cpu").fit(X[:400], y[:400]).score(X[400:], y[400:]) > 0.9
    True
    """

    n_trees: int = 100
    depth: int = 3
    learning_rate: float = 0.1
    device: str = "auto"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def fit(self, X: Any, y: Any) -> BoostedTreesClassifier:
        """Fit one model to all rows of X [n, d], y [n].

        Raises
        ------
        ValueError
            If X is not finite, y does not hold two classes, or a parameter is out of its range.
        """
        X, codes, classes = self._records(X, y)
        self.trees_ = self.fit_many(X, codes, np.arange(len(X))[None], n_classes=len(classes))
        self.classes_ = classes
        return self

    def fit_many(
        self,
        X: Features,
        codes: NDArray[np.integer],
        subsets: NDArray[np.integer] | Sequence[ArrayLike],
        *,
        n_classes: int,
        seed: int | None = None,
    ) -> BoostedTrees:
        """Fit one model to each subset, of two classes; see :meth:`LogisticClassifier.fit_many`."""
        if n_classes != 2:
            raise ValueError(f"Only binary classification is supported: y must hold 2 classes, got {n_classes}")
        return fit_boosted_trees(X, codes, subsets, **self.get_params())

    def decision_function(self, X: Any) -> Features:
        """Log-odds of the second class, shape [n]."""
        X = self._queries(X)
        return np.asarray(self.trees_.logits(X, device=self.device)[0])

    def predict_proba(self, X: Any) -> Features:
        """Probability of each class, shape [n, 2]."""
        logits = self.decision_function(X)
        return np.stack([expit(-logits), expit(logits)], axis=1)
