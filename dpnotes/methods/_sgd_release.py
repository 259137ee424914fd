"""What the two SGD methods share: checked binary records, constants of the logistic loss, predictions by weights."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Tags
from sklearn.utils.multiclass import type_of_target

from dpnotes._validation import Features, Floats, Integers, positive
from dpnotes.learners import LogitClassifier
from dpnotes.methods._classifier import PrivateClassifier, check_norms

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
    norm = positive("norm", norm)
    return Constants(math.hypot(norm, 1.0), (norm**2 + 1) / 4)


@dataclass(eq=False, repr=False)
class BinaryRelease(PrivateClassifier, LogitClassifier):
    """Classifier of two classes by SGD whose weights are released: its answers follow from them.

    Parameters
    ----------
    epsilon : float, > 0
    delta : float, in (0, 1)
    steps : int, >= 1
    learning_rate : float, > 0
    norm : float, > 0
        Public bound on the Euclidean norm of each row of X; longer rows are refused, not shortened.

    Attributes
    ----------
    noise_sigma_ : float
        Standard deviation of the noise, in the units of the weights.
    coef_ : ndarray of float64, shape [1, d]
    intercept_ : ndarray of float64, shape [1]
    """

    epsilon: float
    delta: float
    _: KW_ONLY
    steps: int
    learning_rate: float
    norm: float = 1.0
    noise_sigma_: float = field(init=False)
    coef_: Floats = field(init=False)
    intercept_: Floats = field(init=False)
    _published = ("coef_", "intercept_", "noise_sigma_")

    def decision_function(self, X: Any) -> Floats:
        """Log odds of the second class, shape [n]."""
        return np.asarray(self._queries(X) @ self.coef_[0] + self.intercept_[0], dtype=np.float64)

    def _bounded_records(self, X: Any, y: Any) -> tuple[Features, Integers, NDArray[Any]]:
        """Features in the ball of radius ``norm``, class codes and the two classes, all checked."""
        records = self._private_records(X, y)
        classes = records.classes
        if len(classes) > 2:
            raise ValueError(
                f"Only binary classification is supported. The type of the target is {type_of_target(y)}: "
                f"y must hold 2 classes, got {len(classes)}"
            )
        X, codes = records.standing_in()
        check_norms(X, self.norm, rounding=ROUNDING)
        return X, codes, classes

    def _release(self, weights: Floats, classes: NDArray[Any], noise_sigma: float) -> None:
        self.classes_, self.noise_sigma_ = classes, noise_sigma
        self.coef_, self.intercept_ = weights[None, :-1], weights[-1:]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags
