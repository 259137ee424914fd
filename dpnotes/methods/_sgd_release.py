"""What the two SGD methods share: checked binary records, constants of the logistic loss, predictions by weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from dpnotes import _validation as _checks
from dpnotes.methods._labels import encode

FLOATS = [np.float64, np.float32]
ROUNDING = 1e-6  # relative, of a row that was scaled to the bound in float32


class Constants(NamedTuple):
    """Of the loss ``log(1 + exp(-y (w'x + b)))`` in (w, b), where rows have norm at most a bound."""

    lipschitz: float
    smoothness: float


def logistic_loss(norm: float) -> Constants:
    """Constants for rows of that norm; the intercept counts as a feature that is 1.

    Examples
    --------
    >>> lipschitz, smoothness = logistic_loss(1.0)
    >>> round(lipschitz, 4), smoothness
    (1.4142, 0.5)
    """
    norm = _checks.real("norm", norm, low=0.0, open_low=True)
    return Constants(math.hypot(norm, 1.0), (norm**2 + 1) / 4)


def longest_row(X: NDArray[np.floating]) -> float:
    """Largest Euclidean norm of a row, in float64."""
    return math.sqrt(float(np.einsum("ij,ij->i", X, X, dtype=np.float64).max()))


class BinaryRelease(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Classifier of two classes whose weights ``coef_`` and ``intercept_`` are released: its answers follow from them.

    Subclasses have the parameters ``norm`` and ``classes``.
    """

    norm: float
    classes: Sequence[Any] | None
    classes_: NDArray[Any]
    coef_: NDArray[np.float64]
    intercept_: NDArray[np.float64]

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Log odds of the second class, shape [n]."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=FLOATS, reset=False)
        return np.asarray(X @ self.coef_[0] + self.intercept_[0], dtype=np.float64)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probabilities of the two classes, shape [n, 2]."""
        odds = self.decision_function(X)
        return np.stack([expit(-odds), expit(odds)], axis=1)

    def predict(self, X: Any) -> NDArray[Any]:
        """Label whose probability is above 1/2, shape [n]."""
        second = self.decision_function(X) > 0
        return np.asarray(self.classes_[second.astype(np.int64)])

    def _records(self, X: Any, y: Any) -> tuple[NDArray[np.floating], NDArray[np.int64], NDArray[Any]]:
        """Features, class codes and the two classes, all checked."""
        X, y = validate_data(self, X, y, dtype=FLOATS)
        check_classification_targets(y)
        known, codes = encode(y, self.classes)
        if len(known) < 2:
            raise ValueError(
                f"y must hold 2 classes, got 1 class: {known.tolist()[0]!r}; name both in classes= if one may be absent"
            )
        if len(known) > 2:
            raise ValueError(
                f"Only binary classification is supported. The type of the target is {type_of_target(y)}: "
                f"y must hold 2 classes, got {len(known)}"
            )
        longest, norm = longest_row(X), _checks.real("norm", self.norm, low=0.0, open_low=True)
        if longest > norm * (1 + ROUNDING):
            raise ValueError(
                f"X must have rows of norm at most norm={norm:g}, got a row of norm {longest:.6g}; scale by a public "
                "constant (dpnotes.data.to_unit_ball does), or give a larger norm, which costs more noise"
            )
        return X, codes, known

    def _release(self, weights: NDArray[np.float64], classes: NDArray[Any]) -> None:
        self.classes_ = classes
        self.coef_, self.intercept_ = weights[None, :-1], weights[-1:]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True  # two fits differ by their noise
        tags.classifier_tags.multi_class = False
        return tags
