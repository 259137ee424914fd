"""What the private classifiers share: checked records and queries, labels as class codes.

Their parameters are the fields of dataclasses, whose ``__init__`` is the one that scikit-learn asks for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from dpnotes._scikit_learn import BaseEstimator, ClassifierMixin
from dpnotes._validation import Features, Integers
from dpnotes.accounting import PrivacyProfile

FLOATS = [np.float64, np.float32]  # dtypes of features; others are converted to the first


@dataclass(eq=False, repr=False, kw_only=True)
class PrivateClassifier(ClassifierMixin, BaseEstimator):
    """Classifier with a guarantee, ``profile_`` after fitting.

    Parameters
    ----------
    classes : sequence, optional
        All labels that can occur, when they are not public knowledge: by default they are read off y, and the guarantee
        is about all that is released except ``classes_``.
    random_state : int, RandomState instance or None
        All randomness. The guarantee needs it secret: keep None, which takes fresh entropy from the system, or a seed
        that nobody else knows, outside of experiments.
    """

    classes: Sequence[Any] | None = None
    random_state: int | np.random.RandomState | None = None
    classes_: NDArray[Any] = field(init=False)
    profile_: PrivacyProfile = field(init=False)

    def _queries(self, X: Any) -> Features:
        """Checked features of what the fitted classifier is asked."""
        check_is_fitted(self)
        return np.asarray(validate_data(self, X, dtype=FLOATS, reset=False))


def labelled_records(
    estimator: Any, X: Any, y: Any, *, at_least: int = 2, at_most: int | None = None
) -> tuple[Features, Integers, NDArray[Any]]:
    """Checked features, class codes, and the sorted classes, read off y unless ``estimator.classes`` has them.

    Raises
    ------
    ValueError
        If data are not finite or differ in length, a label is not among the classes, or there are too few or too many.
    """
    X, y = validate_data(estimator, X, y, dtype=FLOATS)
    check_classification_targets(y)
    known, codes = encode(y, estimator.classes)
    if len(known) < at_least:
        raise ValueError(
            f"y must hold at least {at_least} classes, got 1 class: {known.tolist()[0]!r}; "
            "name all that can occur in classes="
        )
    if at_most is not None and len(known) > at_most:
        raise ValueError(f"y must hold at most {at_most} classes, got {len(known)}")
    return X, codes, known


def encode(y: NDArray[Any], classes: Sequence[Any] | None) -> tuple[NDArray[Any], Integers]:
    """Sorted classes, and the code of each label among them; ``classes=None`` reads them off the labels.

    Raises
    ------
    ValueError
        If a label is not among the classes.
    """
    if classes is None:
        known, codes = np.unique(y, return_inverse=True)
        return known, codes
    known = np.unique(np.asarray(classes))
    unknown = np.setdiff1d(y, known)
    if len(unknown):
        raise ValueError(f"y holds labels that are not among classes: {', '.join(map(repr, unknown.tolist()))}")
    return known, np.searchsorted(known, y)
