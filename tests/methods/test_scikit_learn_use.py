"""The five private methods as a reader of scikit-learn uses them: pipelines, cross-validation, data frames, budgets."""

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.tree import DecisionTreeClassifier

from dpnotes import DPSGD, PATE, DPBag, LossPerturbation, ModelSensitivity, PredictionSensitivity, SubsampleAggregate

COMMON = {"noise_seed": 0, "device": "cpu"}
RELEASED = [  # methods that release a model: any number of predictions
    ModelSensitivity(100.0, 1e-5, l2=1e-2, **COMMON),
    LossPerturbation(100.0, 1e-5, l2=1e-2, **COMMON),
    DPSGD(100.0, 1e-5, sample_rate=0.2, steps=60, learning_rate=16.0, clipping_norm=0.1, accountant="rdp", **COMMON),
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


def test_parameters_are_searched_by_name(digits):
    X, y = digits
    pipeline = make_pipeline(FunctionTransformer(shorten), RELEASED[0])
    search = GridSearchCV(pipeline, {"modelsensitivity__l2": [1e-2, 10.0]}, cv=3, error_score="raise").fit(X, y)
    assert search.best_params_ == {"modelsensitivity__l2": 1e-2}


VOTING = [  # methods whose student learns from public rows
    PATE(n_models=5, aggregator="gnmax", sigma_answer=0.5, noise_seed=0),
    DPBag(estimator=DecisionTreeClassifier(), n_models=5, n_partitions=2, noise=5.0, epsilon=1e4, noise_seed=0),
]


@pytest.mark.filterwarnings("ignore:the 500 public rows are all labelled")
@pytest.mark.parametrize("estimator", VOTING, ids=named)
def test_a_pipeline_transforms_public_rows_or_is_refused(digits, estimator):
    """Public rows that stay as they were would be labelled and learned on another scale than records and queries."""
    X, y = digits
    X, y, public, queries, labels = X[:900], y[:900], X[900:1400], X[1400:], y[1400:]
    by_hand = clone(estimator).fit(shorten(X), y, public=shorten(public))
    accuracy = by_hand.score(shorten(queries), labels)
    assert accuracy > 0.6
    untransformed = clone(estimator).fit(shorten(X), y, public=public)
    assert untransformed.score(shorten(queries), labels) < 0.4

    steps = (FunctionTransformer(shorten), clone(estimator))
    name = type(estimator).__name__.lower()
    for pipeline in (make_pipeline(*steps), make_pipeline(make_pipeline(*steps))):
        outer = "pipeline__" * (len(pipeline) == 1)
        with pytest.raises(ValueError, match=r"public must be transformed as X is.*transform_input=\['public'\]"):
            pipeline.fit(X, y, **{f"{outer}{name}__public": public})
    with sklearn.config_context(enable_metadata_routing=True):
        routed = make_pipeline(steps[0], steps[1].set_fit_request(public=True), transform_input=["public"])
        np.testing.assert_array_equal(routed.fit(X, y, public=public)[-1].labels_, by_hand.labels_)
        assert routed.score(queries, labels) == accuracy


def test_a_pipeline_that_leaves_X_as_it_is_needs_no_transform_of_public_rows(digits):
    X, y = digits
    pipeline = make_pipeline("passthrough", VOTING[0])
    assert pipeline.fit(X[:900], y[:900], pate__public=X[900:1400]).score(X[1400:], y[1400:]) > 0.6
