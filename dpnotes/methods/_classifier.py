"""What the private classifiers share: checked records and queries, labels as class codes.

Their parameters are the fields of dataclasses, whose ``__init__`` is the one that scikit-learn asks for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from dpnotes._scikit_learn import BaseEstimator, ClassifierMixin
from dpnotes._validation import Features, Integers, positive
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

    def _records(
        self, X: Any, y: Any, *, least: int = 2, most: int | None = None
    ) -> tuple[Features, Integers, NDArray[Any]]:
        """Checked features, class codes, and the sorted classes, read off y unless ``classes`` has them.

        Raises
        ------
        ValueError
            If data are not finite or differ in length, a label is not among the classes, or there are too few or too
            many.
        """
        X, y = validate_data(self, X, y, dtype=FLOATS)
        check_classification_targets(y)
        known = np.unique(y if self.classes is None else np.asarray(self.classes))
        unknown = np.setdiff1d(y, known)
        if len(unknown):
            raise ValueError(f"y holds labels that are not among classes: {', '.join(map(repr, unknown.tolist()))}")
        if len(known) < least:
            raise ValueError(
                f"y must hold at least {least} classes, got 1 class: {known.tolist()[0]!r}; "
                "name all that can occur in classes="
            )
        if most is not None and len(known) > most:
            raise ValueError(f"y must hold at most {most} classes, got {len(known)}")
        return X, np.searchsorted(known, y), known


def longest_row(X: Features) -> float:
    """Largest Euclidean norm of a row."""
    return math.sqrt(float(np.einsum("ij,ij->i", X, X, dtype=np.float64).max()))


def check_norms(X: Features, norm: float, *, rounding: float) -> None:
    """Refuse rows that are longer than ``norm`` by more than a relative rounding error."""
    longest, norm = longest_row(X), positive("norm", norm)
    if longest > norm * (1 + rounding):
        raise ValueError(
            f"X must have rows of norm at most norm={norm:g}, got a row of norm {longest:.7g}; scale by a rule that "
            "does not look at the data (dpnotes.data.to_unit_ball does), or give a larger norm, which costs more noise"
        )
