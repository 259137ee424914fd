"""The student of a vote, a classifier that learns the labels that were released, and the public rows it learns from."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.dummy import DummyClassifier
from sklearn.utils.validation import validate_data

from dpnotes.methods._one_by_one import OneByOne
from dpnotes.methods._teachers import FLOATS


def gives_probabilities(model: Any) -> bool:
    """Whether the student of an estimator will have ``predict_proba``, from its parameters alone; the defaults have."""
    learner = model.student if model.student is not None else model.estimator
    return learner is None or hasattr(learner, "predict_proba")


def public_rows(model: Any, public: Any) -> NDArray[np.floating]:
    """Give the public rows as an array [n_public, d] with the features that the model has seen, or raise ValueError."""
    if public is None:
        raise ValueError(
            "public must hold the unlabelled rows that teachers label and the student learns, got public=None; "
            "call fit(X, y, public=X_public)"
        )
    try:
        return np.asarray(validate_data(model, public, dtype=FLOATS, reset=False))
    except ValueError as error:
        raise ValueError(f"public must be finite rows with the features of X: {error}") from error


def student_learner(model: Any, default: Any) -> Any:
    """Learner of the student by an estimator's parameters: ``student``, else ``estimator``, else the default.

    Raises
    ------
    TypeError
        If it cannot fit and predict, as a learner that only fits many models in one call.
    """
    name = "estimator" if model.student is None else "student"
    learner = getattr(model, name)
    if learner is None:
        return default
    if not (hasattr(learner, "fit") and hasattr(learner, "predict")):
        hint = "; it trains the teachers only: pass a scikit-learn classifier as student" * (name == "estimator")
        raise TypeError(f"{name} must have fit and predict to be the student, got {name}={learner!r}{hint}")
    return learner


def fit_student(
    learner: Any, X: NDArray[np.floating], labels: NDArray[Any], *, classes: NDArray[Any], seed: int
) -> Any:
    """Fit a clone of ``learner`` to labelled rows; a constant where all labels agree, and the first class without any.

    Parameters
    ----------
    learner : object
        A scikit-learn classifier.
    X : ndarray, shape [n_labels, d]
    labels : ndarray, shape [n_labels]
    classes : ndarray, shape [n_classes]
    seed : int
        Of all random states of the learner.

    Returns
    -------
    object
        The fitted classifier; its ``classes_`` are those that the labels name.
    """
    if not len(labels):
        nothing = np.zeros((1, X.shape[1]))
        return DummyClassifier(strategy="constant", constant=classes[0]).fit(nothing, classes[:1])
    return OneByOne(learner, None).fit(X, labels, seed)
