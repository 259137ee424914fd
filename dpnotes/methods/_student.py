"""The student of a vote: a classifier that learns the labels that were released."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.dummy import DummyClassifier

from dpnotes.methods._one_by_one import OneByOne


def gives_probabilities(model: Any) -> bool:
    """Whether the student of an estimator will have ``predict_proba``, from its parameters alone; the defaults have."""
    learner = model.student if model.student is not None else model.estimator
    return learner is None or hasattr(learner, "predict_proba")


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
