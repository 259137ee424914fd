"""What the private linear estimators share: labels, levels, descriptions of guarantees, predictions by weights."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from dpnotes import _validation as _checks
from dpnotes.accounting import PrivacyProfile
from dpnotes.learners._logistic_models import LogisticModels
from dpnotes.methods._labels import encode

FLOATS = [np.float64, np.float32]


class Releases(NamedTuple):
    """Independent releases on the same data, and the guarantee of one of them.

    Attributes
    ----------
    models : dpnotes.learners.LogisticModels
        ``models.votes(X)`` has shape [n_repeats, len(X)].
    profile : dpnotes.accounting.PrivacyProfile
        Of one release; ``profile.compose(n_repeats)`` is that of all.
    """

    models: LogisticModels
    profile: PrivacyProfile


class LinearRelease(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Classifier whose weights ``coef_`` and ``intercept_`` are released: what it answers follows from them."""

    classes_: NDArray[Any]
    coef_: NDArray[np.float64]
    intercept_: NDArray[np.float64]

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Logits, shape [n, n_classes]; for two classes their difference, shape [n]."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=FLOATS, reset=False)
        return decisions(X @ self.coef_.T + self.intercept_)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Softmax of the logits, shape [n, n_classes]."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=FLOATS, reset=False)
        return np.asarray(softmax(X @ self.coef_.T + self.intercept_, axis=1))

    def predict(self, X: Any) -> NDArray[Any]:
        """Label with the largest logit, shape [n]; among equals the first in ``classes_``."""
        return labels_of(self.decision_function(X), self.classes_)

    def _release(self, releases: Releases, classes: NDArray[Any]) -> None:
        """Take over the first release."""
        self.classes_ = classes
        self.coef_, self.intercept_ = releases.models.weights[0], releases.models.intercept[0]
        self.profile_ = releases.profile

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True  # two fits differ by their noise
        return tags


def labelled_records(
    estimator: BaseEstimator, X: Any, y: Any, classes: Sequence[Any] | None
) -> tuple[NDArray[np.floating], NDArray[np.int64], NDArray[Any]]:
    """Checked features, class codes, and the sorted classes, read off y unless they are given."""
    X, y = validate_data(estimator, X, y, dtype=FLOATS)
    check_classification_targets(y)
    known, codes = encode(y, classes)
    if len(known) < 2:
        raise ValueError(
            f"y must hold at least 2 classes, got 1 class: {known[0]!r}; name all that can occur in classes="
        )
    return X, codes, known


def privacy_level(epsilon: float, delta: float) -> tuple[float, float]:
    """Checked ``epsilon > 0`` and ``0 <= delta < 1``."""
    if epsilon == math.inf:
        raise ValueError("epsilon must be finite, got epsilon=inf; without privacy, fit without noise")
    epsilon = _checks.real("epsilon", epsilon, low=0.0, open_low=True)
    delta = _checks.real("delta", delta, low=0.0, high=1.0)
    if delta == 1.0:
        raise ValueError("delta must be < 1, got delta=1.0; then no noise is needed")
    return epsilon, delta


def level_in_words(epsilon: float, delta: float) -> str:
    """For messages of the budget."""
    return f"epsilon={epsilon}" + (f", delta={delta}" if delta else "")


def described(profile: PrivacyProfile, **about: str) -> PrivacyProfile:
    """The profile with another ``status``, ``assumption``, ``source`` or ``remark``."""
    result = copy.copy(profile)
    for name, words in about.items():
        setattr(result, name, words)
    return result


def decisions(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """scikit-learn's decision function: the logits [n, C], or for two classes their difference [n]."""
    return np.asarray(logits[:, 1] - logits[:, 0] if logits.shape[1] == 2 else logits)


def labels_of(decision: NDArray[np.float64], classes: NDArray[Any]) -> NDArray[Any]:
    """Label of the largest decision value; among equals the first."""
    codes = (decision > 0).astype(np.int64) if decision.ndim == 1 else decision.argmax(axis=1)
    return np.asarray(classes[codes])
