"""Logistic regression and boosted trees as scikit-learn classifiers that can fit many models in one call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpnotes._validation import Features
from dpnotes.learners._boosted_trees import fit_boosted_trees
from dpnotes.learners._boosted_trees_models import BoostedTrees
from dpnotes.learners._decisions import LinearClassifier, LogitClassifier
from dpnotes.learners._logistic_models import LogisticModels
from dpnotes.learners._logistic_multinomial import fit_multinomial_logistic


@dataclass(kw_only=True, eq=False, repr=False)
class LogisticClassifier(LinearClassifier):
    """Multinomial logistic regression with an L2 term, fitted in the dtype of X.

    With two classes it is still the multinomial model: the same votes as a binary one of twice the ``l2``.

    Parameters
    ----------
    l2 : float, >= 0
        Weight of |W|^2/2 against the mean cross-entropy; scikit-learn's C is 1/(n l2).
    intercept : bool
        Fit an intercept, which is not penalised.
    tolerance, max_iterations, device
        See :func:`dpnotes.learners.fit_multinomial_logistic`.

    Attributes
    ----------
    coef_, intercept_, classes_
        See :class:`LinearClassifier`.
    n_iter_ : int
        Iterations taken; a multiple of those between two tests of convergence.
    n_features_in_ : int

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> LogisticClassifier(l2=1e-3, device="cpu").fit(X[:1000] / 16, y[:1000]).score(X[1000:] / 16, y[1000:]) > 0.9
    True
    """

    l2: float = 1e-3
    intercept: bool = True
    tolerance: float = 1e-5
    max_iterations: int = 1000
    device: str = "auto"

    def fit(self, X: Any, y: Any) -> LogisticClassifier:
        """Fit one model to all rows of X [n, d], y [n].

        Raises
        ------
        ValueError
            If X is not finite, y holds a single class, or a parameter is out of its range.
        """
        X, codes, classes = self._records(X, y)
        models = self.fit_many(X, codes, np.arange(len(X))[None], n_classes=len(classes))
        self.classes_ = classes
        self.coef_, self.intercept_ = models.weights[0], models.intercept[0]
        self.n_iter_ = int(models.iterations[0])
        return self

    def fit_many(
        self,
        X: Features,
        codes: NDArray[np.integer],
        subsets: NDArray[np.integer],
        *,
        n_classes: int,
        seed: int | None = None,
    ) -> LogisticModels:
        """Fit one model to each subset; this estimator itself stays as it is.

        Parameters
        ----------
        X : ndarray of float32 or float64, shape [n, d]
        codes : ndarray of int, shape [n]
            Class codes 0 to ``n_classes - 1``; a subset need not hold all of them.
        subsets : ndarray of int, shape [n_models, m], or a sequence of arrays of row indices
        n_classes : int
        seed : int, optional
            Taken for the sake of learners that draw at random; this one does not.

        Returns
        -------
        LogisticModels
        """
        return fit_multinomial_logistic(X, codes, subsets, n_classes=n_classes, **self.get_params())


@dataclass(kw_only=True, eq=False, repr=False)
class BoostedTreesClassifier(LogitClassifier):
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
