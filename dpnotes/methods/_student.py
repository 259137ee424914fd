"""The student of a vote, a classifier that learns the released labels of public
rows.
"""

from __future__ import annotations

import inspect
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.dummy import DummyClassifier
from sklearn.pipeline import Pipeline
from sklearn.utils.metaestimators import available_if

from dpnotes import _gate as gate
from dpnotes._validation import Features, Floats, Integers
from dpnotes.methods._private import Fitted
from dpnotes.methods._teachers import TeacherVote, fit_one


def _gives_probabilities(model: StudentVote) -> bool:
    """Whether the student has ``predict_proba`` or, before a fit, will have it; the
    default students do.
    """
    learner = model.student if model.student is not None else model.estimator
    # after a fit, the student itself tells
    learner = getattr(model, "student_", learner)
    return learner is None or hasattr(learner, "predict_proba")


@dataclass(eq=False, repr=False)
class StudentVote(TeacherVote):
    """Teachers label public rows by a private vote, and a student that learns the
    labels makes the predictions.

    Parameters
    ----------
    student : object, optional
        A scikit-learn classifier.
    keep_votes : bool
        Retain the votes without noise, for diagnosis by the holder of the data. The
        guarantee does not cover any result derived from them, and a pickle contains
        them. :meth:`PrivateClassifier.publish` omits them.

    Attributes
    ----------
    student_ : object
        The fitted student.
    agreement_ : ndarray of float, shape [n_asked]
        Fraction of the teachers that vote for the most frequent class; private, and
        available only with ``keep_votes``.
    """

    _: KW_ONLY
    student: Any = None
    keep_votes: bool = False
    labels_: NDArray[Any] = field(init=False)
    student_: Any = field(init=False)

    def predict(self, X: Any) -> NDArray[Any]:
        """Label that the student gives, shape [n]."""
        return self._answered(X, lambda fitted, X: np.asarray(fitted.model.predict(X)))

    @available_if(_gives_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Floats:
        """Probabilities that the student gives, shape [n, n_classes]; 0 for a class
        that is not among the labels.
        """
        return self._answered(X, _probabilities)

    def _public_rows(self, public: Any) -> Features:
        """Give the public rows as an array [n_public, d] with the features that were
        seen, or raise ValueError.
        """
        if public is None:
            raise ValueError(
                "public must hold the unlabelled rows that teachers label and the"
                " student learns, got public=None; call fit(X, y, public=X_public)"
            )
        _refuse_untransformed(public)
        try:
            return gate.rows(self, public, reset=False, may_miss=False)[0]
        except ValueError as error:
            raise ValueError(
                f"public must be finite rows with the features of X: {error}"
            ) from error

    def _student_learner(self, default: Any) -> Any:
        """Learner of the student: ``student``, or else ``estimator``, or else the
        default.

        Raises
        ------
        TypeError
            If it cannot fit and predict, for example a learner that only fits many
            models in one call.
        """
        name = "estimator" if self.student is None else "student"
        learner = getattr(self, name)
        if learner is None:
            return default
        if not (hasattr(learner, "fit") and hasattr(learner, "predict")):
            hint = (
                "; it trains the teachers only: pass a scikit-learn classifier as"
                " student" * (name == "estimator")
            )
            raise TypeError(
                f"{name} must have fit and predict to be the student, got"
                f" {name}={learner!r}{hint}"
            )
        return learner


def _probabilities(fitted: Fitted, X: Features) -> Floats:
    result = np.zeros((len(X), len(fitted.classes)))
    known = np.searchsorted(fitted.classes, fitted.model.classes_)
    # the student knows the classes that were released
    result[:, known] = fitted.model.predict_proba(X)
    return result


def agreement(counts: Integers, teachers: int) -> Floats:
    """Fraction of the teachers that vote for the most frequent class."""
    return np.asarray(counts.max(axis=1) / teachers)


def _refuse_untransformed(public: Any) -> None:
    """Raise ValueError if a Pipeline that transforms X passes the public rows on
    without transforming them.

    An estimator sees only the rows, so the function searches its callers: for a
    Pipeline with transformers whose ``fit`` received the same rows as a parameter, and
    whose ``transform_input`` does not name ``public``.
    """
    frame = inspect.currentframe()
    while frame is not None:
        pipeline = None
        if frame.f_code.co_name.startswith("fit"):
            pipeline = frame.f_locals.get("self")
        if isinstance(pipeline, Pipeline) and "public" not in (
            pipeline.transform_input or ()
        ):
            # by identity: rows that were transformed are another object
            params = frame.f_locals.get("params", {}).values()
            given = any(value is public for value in params)
            if given and any(
                step not in (None, "passthrough") for _, step in pipeline.steps[:-1]
            ):
                raise ValueError(
                    "public must be transformed as X is, got the rows that were given"
                    " to a Pipeline which transforms only X; use Pipeline(...,"
                    " transform_input=['public']) with scikit-learn's"
                    " enable_metadata_routing and set_fit_request(public=True), or"
                    " transform X and public and fit without a Pipeline"
                )
        frame = frame.f_back


def fit_student(
    learner: Any, X: Features, labels: NDArray[Any], *, classes: NDArray[Any], seed: int
) -> Any:
    """Fit a clone of ``learner``, or a constant classifier if all labels agree; without
    labels, the first class.

    Parameters
    ----------
    learner : object
        A scikit-learn classifier.
    X : ndarray, shape [n_labels, d]
    labels : ndarray, shape [n_labels]
    classes : ndarray, shape [n_classes]
    seed : int
        Value of all random states of the learner.

    Returns
    -------
    object
        The fitted classifier; its ``classes_`` are the classes among the labels.
    """
    if not len(labels):
        # one row stands in for none, which no learner takes
        nothing = np.zeros((1, X.shape[1]))
        return DummyClassifier(strategy="constant", constant=classes[0]).fit(
            nothing, classes[:1]
        )
    return fit_one(learner, X, labels, seed)
