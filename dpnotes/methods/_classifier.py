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
from sklearn.utils import Tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from dpnotes._scikit_learn import BaseEstimator, ClassifierMixin
from dpnotes._validation import Features, Integers, positive
from dpnotes.accounting import PrivacyProfile
from dpnotes.methods._answers import Answering, Randomness
from dpnotes.methods._budget import InferenceBudget

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
        What the guarantee does not need: the random choices of learners, shards and students.
    noise_seed : int, optional
        Default: the noise and all else that the guarantee rests on come from the operating system, afresh for each fit,
        answer and copy. A seed repeats them, for experiments: then ``profile_.implementation`` is ``"reproducible"``,
        and the noise protects nothing from who knows the seed. Where ``random_state`` is None, it follows the seed.
    """

    classes: Sequence[Any] | None = None
    random_state: int | np.random.RandomState | None = None
    noise_seed: int | None = None
    classes_: NDArray[Any] = field(init=False)
    profile_: PrivacyProfile = field(init=False)

    def _randomness(self) -> Randomness:
        return Randomness.of(self.noise_seed, self.random_state)

    def _implemented(self, profile: PrivacyProfile, *, exact: bool = False) -> PrivacyProfile:
        """The profile with the words for how its noise was made."""
        own = "exact" if exact else "ideal reals"
        return profile.with_(implementation=own if self.noise_seed is None else "reproducible")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = self.noise_seed is None  # two fits, or two answers to one query, differ by their noise
        return tags

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
        if not np.isin(y, known).all():
            raise ValueError(f"y holds labels that are not among classes={known.tolist()}")
        if len(known) < least:
            raise ValueError(
                f"y must hold at least {least} classes, got 1 class: {known.tolist()[0]!r}; "
                "name all that can occur in classes="
            )
        if most is not None and len(known) > most:
            raise ValueError(f"y must hold at most {most} classes, got {len(known)}")
        return X, np.searchsorted(known, y), known


class AnsweringClassifier(PrivateClassifier):
    """Base of classifiers that answer a budget of queries, each with noise of its own.

    Attributes
    ----------
    budget_ : InferenceBudget
        Answers released and left.
    """

    _answering: Answering

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True  # also with a noise seed two answers to one query differ
        return tags

    @property
    def budget_(self) -> InferenceBudget:
        """Answers released and left."""
        check_is_fitted(self)
        return self._answering.budget


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
