"""scikit-learn's checks of all estimators, and use of them as its readers do:
pipelines, cross-validation, budgets.

Little noise, so that the checks of accuracy look at the plumbing; guarantees are tested
elsewhere. Which checks an estimator is exempt from, and why, is a table of the chapter
on implementations: ``python -m tests checks --keep``.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits, make_blobs
from sklearn.ensemble import AdaBoostClassifier, StackingClassifier, VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    TunedThresholdClassifierCV,
    cross_val_predict,
    cross_val_score,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from dpnotes.lab.store import published_store
from dpnotes.learners import (
    BoostedTreesClassifier,
    LogisticClassifier,
    NetworkClassifier,
)
from dpnotes.methods import (
    DPSGD,
    PATE,
    AugmentedSGD,
    Bagging,
    ClassMeans,
    DPBag,
    FilteredVote,
    LossPerturbation,
    ModelSensitivity,
    NoisyBoosting,
    NoisySGD,
    PredictionSensitivity,
    SubsampleAggregate,
)
from dpnotes.preprocessing import ClipNorm, PublicOneHot, PublicScaler
from tests.attacks.ours import SETTINGS

COMMON = {"noise_seed": 0, "device": "cpu"}
LINEAR = COMMON | {"norm": 1e4, "l2": 1e-2}  # the checks' features are up to 1e3 long
SGD = {
    "batch_size": 5,
    "norm": 1e4,
    "learning_rate": 0.1,
    "require_bound": False,
    "steps": 500,
    "noise_seed": 0,
}
COPY = {
    "check_estimators_pickle": (
        "a pickled copy does not know of other answers, so it answers only after it is"
        " resumed"
    )
}
CELL = {
    "check_dtype_object": (
        "an error would reveal a cell that is not a number, so such a cell counts as 0"
    )
}
ONE_RECORD = {
    "check_fit2d_1sample": (
        "a subsample of four needs four records, and our error is worded differently"
    )
}


class OwnRowsPATE(PATE):
    """scikit-learn's checks call fit(X, y): for them the private rows are declared
    public, too.
    """

    def fit(self, X, y):
        return super().fit(X, y, public=X)


class OwnRowsDPBag(DPBag):
    """The same of another method."""

    def fit(self, X, y):
        return super().fit(X, y, public=X)


class Case(NamedTuple):
    """An estimator, and why it is exempt from which checks."""

    estimator: Any
    exempt: Mapping[str, str] = MappingProxyType({})

    @property
    def name(self) -> str:
        """Name of the estimator's class, without the rows that are declared public."""
        return type(self.estimator).__name__.removeprefix("OwnRows")


def cases() -> Iterator[Case]:
    """All estimators of the package."""
    yield from map(
        Case, (ModelSensitivity(1e12, **LINEAR), ModelSensitivity(1e11, 0.5, **LINEAR))
    )
    yield from map(
        Case,
        (
            ClassMeans(1e12, norm=100.0, noise_seed=0),
            ClassMeans(1e11, 0.5, norm=100.0, noise_seed=0),
        ),
    )
    yield Case(NoisyBoosting(1e11, 0.5, bounds=(-3.0, 3.0), noise_seed=0))
    yield from map(
        Case, (LossPerturbation(1e12, **LINEAR), LossPerturbation(1e11, 0.5, **LINEAR))
    )
    yield Case(PredictionSensitivity(1e18, answers=10**6, **LINEAR), COPY)
    yield Case(
        PredictionSensitivity(
            1e12, 0.5, answers=2000, **LINEAR | {"norm": 2e3, "l2": 1.0}
        ),
        COPY,
    )
    yield Case(
        DPSGD(
            noise_multiplier=0.1,
            sample_rate=0.5,
            steps=300,
            learning_rate=1.0,
            accountant="rdp",
            noise_seed=0,
        )
    )
    network = NetworkClassifier(None, architecture="mlp", hidden=(8,))
    yield Case(
        DPSGD(
            noise_multiplier=0.1,
            network=network,
            sample_rate=1.0,
            steps=150,
            learning_rate=1.0,
            noise_seed=0,
        )
    )
    yield Case(
        NoisySGD(1e12, 0.1, norm=1e3, learning_rate=5e-6, steps=2000, noise_seed=0)
    )
    yield from map(
        Case,
        (
            AugmentedSGD(1e12, 0.1, **SGD),
            AugmentedSGD(1e12, 0.1, intrinsic_sigma=1e-6, **SGD),
        ),
    )
    yield Case(Bagging(subsample=15, n_models=3, noise_seed=0))
    yield Case(
        Bagging(subsample=4, noise_seed=0, replace=False, n_models=41), ONE_RECORD
    )
    yield Case(SubsampleAggregate(1e9, answers=10**6, n_models=2, **COMMON), COPY)
    tree = DecisionTreeClassifier(max_depth=4)
    yield Case(
        SubsampleAggregate(
            1e9, 1e-5, answers=10**4, n_models=2, estimator=tree, noise_seed=0
        ),
        COPY,
    )
    yield Case(FilteredVote(n_models=2, sigma=0.1, answers=10**6, **COMMON), COPY)
    yield Case(
        OwnRowsPATE(n_models=3, aggregator="gnmax", sigma_answer=0.1, noise_seed=0)
    )
    confident = {
        "aggregator": "confident",
        "threshold": 1.0,
        "sigma_threshold": 0.1,
        "sigma_answer": 0.1,
    }
    yield Case(
        OwnRowsPATE(n_models=3, noise_seed=0, student=LogisticRegression(), **confident)
    )
    yield Case(
        OwnRowsPATE(
            estimator=LogisticRegression(),
            n_models=2,
            aggregator="laplace",
            scale=0.05,
            noise_seed=0,
        )
    )
    yield Case(
        OwnRowsDPBag(
            n_models=2,
            n_partitions=3,
            inverse_scale=1e3,
            epsilon=1e9,
            delta=0.5,
            **COMMON,
        )
    )
    yield Case(
        OwnRowsDPBag(
            1e5,
            estimator=LogisticRegression(),
            n_partitions=2,
            inverse_scale=20,
            **COMMON,
            n_models=2,
        )
    )
    yield from map(
        Case,
        (
            LogisticClassifier(device="cpu"),
            LogisticClassifier(intercept=False, device="cpu"),
        ),
    )
    yield Case(
        NetworkClassifier(
            None, architecture="mlp", epochs=20, learning_rate=0.01, batch_size=8
        )
    )
    yield Case(BoostedTreesClassifier(n_trees=10, device="cpu"))
    yield from (
        Case(ClipNorm(), CELL),
        Case(PublicScaler(-1.0, 1.0), CELL),
        Case(PublicOneHot([0, 1, 2])),
    )


CASES = list(cases())
EXEMPT = {id(case.estimator): dict(case.exempt) for case in CASES}


@parametrize_with_checks(
    [case.estimator for case in CASES],
    expected_failed_checks=lambda estimator: EXEMPT[id(estimator)],
    xfail_strict=True,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_every_private_estimator_is_checked():
    # each one that is exported has settings there
    exported = {kind.__name__ for kind, _ in SETTINGS.values()}
    assert exported <= {case.name for case in CASES}


def test_the_book_shows_these_exemptions():
    kept = pd.read_csv(published_store("implementations_checks"), keep_default_na=False)
    shown = {
        (row.estimator, row.check, row.reason) for row in kept.itertuples() if row.check
    }
    assert shown == {
        (case.name, check, reason)
        for case in CASES
        for check, reason in case.exempt.items()
    }
    assert set(kept["estimator"]) == {case.name for case in CASES}


RELEASED = [  # methods that release a model: any number of predictions
    ModelSensitivity(100.0, 1e-5, l2=1e-2, **COMMON),
    LossPerturbation(100.0, 1e-5, l2=1e-2, **COMMON),
    DPSGD(
        100.0,
        1e-5,
        sample_rate=0.2,
        steps=60,
        learning_rate=16.0,
        clipping_norm=0.1,
        accountant="rdp",
        **COMMON,
    ),
]
# methods that answer: a budget for each fit, here for the 450 rows of a fold
ANSWERING = [
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
    scores = cross_val_score(
        make_pipeline(FunctionTransformer(shorten), estimator),
        X,
        y,
        cv=4,
        error_score="raise",
    )
    assert scores.shape == (4,)
    assert scores.min() > 0.6


def test_parameters_are_searched_by_name(digits):
    X, y = digits
    pipeline = make_pipeline(FunctionTransformer(shorten), RELEASED[0])
    search = GridSearchCV(
        pipeline, {"modelsensitivity__l2": [1e-2, 10.0]}, cv=3, error_score="raise"
    ).fit(X, y)
    assert search.best_params_ == {"modelsensitivity__l2": 1e-2}


VOTING = [  # methods whose student learns from public rows
    PATE(n_models=5, aggregator="gnmax", sigma_answer=0.5, noise_seed=0),
    DPBag(
        estimator=DecisionTreeClassifier(),
        n_models=5,
        n_partitions=2,
        inverse_scale=5.0,
        epsilon=1e4,
        noise_seed=0,
    ),
]


@pytest.mark.filterwarnings("ignore:the 500 public rows are all labelled")
@pytest.mark.parametrize("estimator", VOTING, ids=named)
def test_a_pipeline_transforms_public_rows_or_is_refused(digits, estimator):
    """Public rows that stay as they were would be labelled and learned on another
    scale than records and queries.
    """
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
        with pytest.raises(
            ValueError,
            match=r"public must be transformed as X is.*transform_input=\['public'\]",
        ):
            pipeline.fit(X, y, **{f"{outer}{name}__public": public})
    with sklearn.config_context(enable_metadata_routing=True):
        routed = make_pipeline(
            steps[0], steps[1].set_fit_request(public=True), transform_input=["public"]
        )
        np.testing.assert_array_equal(
            routed.fit(X, y, public=public)[-1].labels_, by_hand.labels_
        )
        assert routed.score(queries, labels) == accuracy


def test_a_pipeline_that_leaves_X_as_it_is_needs_no_transform_of_public_rows(digits):
    X, y = digits
    pipeline = make_pipeline("passthrough", VOTING[0])
    assert (
        pipeline.fit(X[:900], y[:900], pate__public=X[900:1400]).score(
            X[1400:], y[1400:]
        )
        > 0.6
    )


WRAPPED = {
    "pipeline": (make_pipeline, 1),
    "vote": (lambda model: VotingClassifier([("ours", model)]), 1),
    "calibration": (lambda model: CalibratedClassifierCV(model, cv=3), 3),
    "threshold": (lambda model: TunedThresholdClassifierCV(model, cv=3), 4),
    "stack": (lambda model: StackingClassifier([("ours", model)], cv=3), 4),
    "search": (lambda model: GridSearchCV(model, {"norm": [5.0, 10.0]}, cv=3), 7),
}


@pytest.mark.parametrize(("wrap", "fits"), WRAPPED.values(), ids=WRAPPED)
def test_a_wrapper_claims_no_guarantee_of_its_own(wrap, fits, monkeypatch):
    """It fits so many times to the same records, and each fit spends epsilon again."""
    X, y = make_blobs(60, centers=2, random_state=0)
    counted = []
    learn = ClassMeans._learn

    def counting(self, records):
        counted.append(records.n)
        return learn(self, records)

    monkeypatch.setattr(ClassMeans, "_learn", counting)
    wrapper = wrap(ClassMeans(100.0, norm=10.0)).fit(X, y)
    assert len(counted) == fits
    for name in ("profile_", "publish", "statement_"):
        assert not hasattr(wrapper, name)


def test_predictions_of_other_fits_are_counted_by_nobody():
    """``cross_val_predict`` gives what unseen models say; boosting, which would give
    records weights, is refused.
    """
    X, y = make_blobs(60, centers=2, random_state=0)
    model = ClassMeans(100.0, norm=10.0)
    cross_val_predict(model, X, y, cv=3)
    assert not hasattr(model, "profile_")
    with pytest.raises(ValueError, match="sample_weight"):
        AdaBoostClassifier(model).fit(X, y)
