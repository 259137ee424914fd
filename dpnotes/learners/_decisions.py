"""Base classes of classifiers that predict from a decision function: any, one of logits, or a linear one."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from dpnotes._scikit_learn import BaseEstimator, ClassifierMixin
from dpnotes._validation import Features, Integers


class DecisionClassifier(ClassifierMixin, BaseEstimator):
    """Classifier whose label is that of the largest decision value.

    A subclass has ``decision_function(X)``, which gives one value for each class, shape [n, n_classes], or for two
    classes one value that is positive for the second, shape [n].

    Attributes
    ----------
    classes_ : ndarray, shape [n_classes]
    """

    classes_: NDArray[Any]

    _dtypes: ClassVar = [np.float64, np.float32]  # of features; others are converted to the first

    @abstractmethod
    def decision_function(self, X: Any) -> Features:
        """Decision values, shape [n, n_classes], or [n] for two classes."""

    def predict(self, X: Any) -> NDArray[Any]:
        """Label of the largest decision value, shape [n]; among equals the first in ``classes_``."""
        values = self.decision_function(X)
        codes = (values > 0).astype(np.int64) if values.ndim == 1 else values.argmax(axis=1)
        return np.asarray(self.classes_[codes])

    def _records(self, X: Any, y: Any, *, least: int = 2) -> tuple[Features, Integers, NDArray[Any]]:
        """Checked features, class codes, and the sorted classes, at least ``least``."""
        X, y = validate_data(self, X, y, dtype=self._dtypes)
        check_classification_targets(y)
        classes, codes = np.unique(y, return_inverse=True)
        if len(classes) < least:
            raise ValueError(f"y must hold at least 2 classes, got 1 class: {classes[0]!r}")
        return X, codes, classes

    def _queries(self, X: Any) -> Features:
        """Checked features of what the fitted classifier is asked."""
        check_is_fitted(self)
        return np.asarray(validate_data(self, X, dtype=self._dtypes, reset=False))


class LogitClassifier(DecisionClassifier):
    """Classifier whose decision values are logits, or for two classes their difference."""

    def predict_proba(self, X: Any) -> Features:
        """Softmax of the logits, shape [n, n_classes]."""
        values = self.decision_function(X)
        if values.ndim == 1:
            values = np.stack([np.zeros_like(values), values], axis=1)
        return np.asarray(softmax(values, axis=1))


class LinearClassifier(LogitClassifier):
    """Classifier whose answers follow from its weights.

    Attributes
    ----------
    classes_ : ndarray, shape [n_classes]
    coef_ : ndarray of float, shape [n_classes, d]
    intercept_ : ndarray of float, shape [n_classes]
    """

    coef_: Features
    intercept_: Features

    def decision_function(self, X: Any) -> Features:
        """Logits, shape [n, n_classes]; for two classes their difference, shape [n]."""
        return decision_values(self._queries(X) @ self.coef_.T + self.intercept_)


def decision_values(logits: Features) -> Features:
    """scikit-learn's decision values of logits [n, C]: the logits, or for two classes their difference [n]."""
    return np.asarray(logits[:, 1] - logits[:, 0] if logits.shape[1] == 2 else logits)
