"""The five private methods as a reader of scikit-learn uses them: pipelines, cross-validation, data frames, budgets."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from dpnotes import (
    DPSGD,
    BudgetExhausted,
    LossPerturbation,
    ModelSensitivity,
    PredictionSensitivity,
    SubsampleAggregate,
)

COMMON = {"random_state": 0, "device": "cpu"}
RELEASED = [  # methods that release a model: any number of predictions
    ModelSensitivity(100.0, 1e-5, l2=1e-2, **COMMON),
    LossPerturbation(100.0, 1e-5, l2=1e-2, **COMMON),
    DPSGD(
        100.0, 1e-5, sample_rate=0.2, steps=60, learning_rate=16.0, clipping_norm=0.1, accountant="rdp", random_state=0
    ),
]
ANSWERING = [  # methods that answer: a budget for each fit, here for the 450 rows of a fold
    PredictionSensitivity(1e4, 1e-5, l2=1e-2, answers=450, **COMMON),
    SubsampleAggregate(1e3, 1e-5, answers=450, n_models=20, **COMMON),
]


def named(estimator):
    return type(estimator).__name__


@pytest.fixture(scope="module")
def digits():
    return load_digits(return_X_y=True)


def shorten(X):
    """A public constant: no row of 64 pixels up to 16 is longer than 128."""
    return X / 128


@pytest.mark.parametrize("estimator", RELEASED + ANSWERING, ids=named)
def test_pipeline_under_cross_validation(digits, estimator):
    X, y = digits
    scores = cross_val_score(make_pipeline(FunctionTransformer(shorten), estimator), X, y, cv=4, error_score="raise")
    assert scores.shape == (4,)
    assert scores.min() > 0.6


@pytest.mark.parametrize("estimator", ANSWERING, ids=named)
def test_more_answers_than_the_budget_are_refused_in_words(digits, estimator):
    X, y = digits
    pipeline = make_pipeline(FunctionTransformer(shorten), estimator)
    with pytest.raises(
        BudgetExhausted, match=r"599 answers were asked for, 450 of 450 are left.*refit with a larger answers="
    ):
        cross_val_score(pipeline, X, y, cv=3, error_score="raise")
    pipeline.fit(X, y).predict(X[:450])
    with pytest.raises(BudgetExhausted, match="450 of 450 answers released"):
        pipeline.predict(X[:1])


@pytest.mark.parametrize("estimator", RELEASED, ids=named)
def test_a_released_model_predicts_without_end(digits, estimator):
    X, y = digits
    fitted = make_pipeline(FunctionTransformer(shorten), estimator).fit(X, y)
    first = fitted.predict(X)
    assert all((fitted.predict(X) == first).all() for _ in range(3))


@pytest.mark.parametrize("estimator", RELEASED + ANSWERING, ids=named)
def test_data_frames_keep_their_names_and_labels(digits, estimator):
    X, y = digits
    frame = pd.DataFrame(shorten(X), columns=[f"pixel {i}" for i in range(64)])
    words = pd.Series(np.array(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])[y])
    fitted = type(estimator)(**estimator.get_params()).fit(frame, words)
    assert fitted.feature_names_in_.tolist() == frame.columns.tolist()
    assert (fitted.predict(frame[:450]) == words[:450]).mean() > 0.6
    with pytest.raises(ValueError, match="feature names"):
        fitted.predict(frame.rename(columns={"pixel 0": "other"})[:1])


def test_parameters_are_searched_by_name(digits):
    X, y = digits
    pipeline = make_pipeline(FunctionTransformer(shorten), RELEASED[0])
    search = GridSearchCV(pipeline, {"modelsensitivity__l2": [1e-2, 10.0]}, cv=3, error_score="raise").fit(X, y)
    assert search.best_params_ == {"modelsensitivity__l2": 1e-2}
