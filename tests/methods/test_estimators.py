"""All estimators: parameters that are refused, guarantees, and what a fit leaves
behind: a release, nothing private.
"""

import copy
import json
import math
import pickle
import re
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, RidgeClassifier

from dpnotes import _gate as gate, methods
from dpnotes.accounting import PrivacyStatement, bagging, gaussian, statement
from dpnotes.auditing import audit_scores
from dpnotes.methods import ClassMeans
from tests.attacks.ours import SETTINGS, table

COMMON = {"classes": [0, 1], "noise_seed": 3}
# so that what a record changes is seen in the answers
LITTLE_NOISE = {
    "epsilon": 9.0,
    "delta": 1e-3,
    "noise_multiplier": 1.0,
    "sigma": 1.0,
    "sigma_answer": 1.0,
    "inverse_scale": 0.5,
}
ESTIMATORS = {}
for each, (kind, settings) in SETTINGS.items():
    little = {name: LITTLE_NOISE.get(name, value) for name, value in settings.items()}
    ESTIMATORS[each] = kind(**little, **COMMON)
# a learner of many models in one call cannot be a student
MANY_AT_ONCE = SimpleNamespace(fit_many=print)
PUBLISHED = sorted(
    set(ESTIMATORS) - {"PredictionSensitivity", "SubsampleAggregate", "FilteredVote"}
)
# whose guarantee is that of DPSGD
NAMES = [name for name in ESTIMATORS if name != "DPSGD of a network"]
CASES = [
    (name, parameter)
    for name, model in ESTIMATORS.items()
    for parameter in sorted(model.get_params(deep=False))
]


X, PUBLIC, QUERIES = (table(n, seed=n)[0] for n in (40, 30, 10))
Y = (X[:, 0] > 0).astype(int)


def fitted(name, X=X, y=Y, *, given=None, **parameters):
    model = clone(ESTIMATORS[name]).set_params(**parameters)
    further = {"public": PUBLIC} if hasattr(model, "student") else {}
    return model.fit(X, y, **further | (given or {}))


def seen(model):
    """What a fitted estimator tells of its guarantee, and then its answers."""
    budget = repr(getattr(model, "budget_", None))
    return [model.profile_.to_dict(), budget, model.predict(QUERIES).tolist()]


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_fit_that_fails_leaves_the_last_one_as_it_was(name):
    model = fitted(name)
    public = {"public": PUBLIC} if hasattr(model, "student") else {}
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.set_params(random_state=5).fit(X, Y[:-1], **public)
    assert seen(model) == seen(fitted(name))


@pytest.mark.parametrize("name", PUBLISHED)
def test_copies_of_a_release_predict_the_same(name):
    kept = {"keep_votes": True} if name in ("PATE", "DPBag") else {}
    model = fitted(name, **kept)
    release = model.publish()
    stored = pickle.dumps(release)
    for other in (release, pickle.loads(stored), copy.deepcopy(release)):
        np.testing.assert_array_equal(other.predict(QUERIES), model.predict(QUERIES))
        assert other.profile_.to_dict() == model.profile_.to_dict()
        assert repr(other)
        assert not hasattr(other, "agreement_")


@pytest.mark.parametrize(
    "name", ["PredictionSensitivity", "SubsampleAggregate", "FilteredVote"]
)
def test_what_answers_from_a_budget_cannot_be_published(name):
    with pytest.raises(
        TypeError, match=f"{name} cannot be published: it answers from private records"
    ):
        fitted(name).publish()


OTHERS = [2, 0.5, np.nan, None, "unknown", [1, 2], {}, 10**400]


@pytest.mark.parametrize("other", OTHERS, ids=repr)
def test_a_label_that_is_no_class_is_none_whatever_it_is(other):
    labels = Y.tolist()
    labels[5] = other
    expected = np.where(np.arange(40) == 5, 2, Y)
    np.testing.assert_array_equal(gate.looked_up(labels, np.arange(2)), expected)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_what_an_empty_record_holds_makes_no_difference(name):
    """Whether it is empty for its label or for a number."""
    other = X.copy()
    bad = X.copy()
    other[5] = -X[5][::-1]
    labels = np.where(np.arange(40) == 5, 2, Y)
    empty = seen(fitted(name, y=labels))
    assert seen(fitted(name, other, y=labels)) == empty
    for value in (np.nan, -np.inf):
        bad[5, 2] = value
        assert seen(fitted(name, bad)) == empty
    whole = fitted(name)
    # the last two have empty records alone
    for same in (
        fitted(name, y=labels),
        fitted(name, y=Y + 7),
        fitted(name, np.full_like(X, np.nan)),
    ):
        assert len(same.predict(QUERIES)) == 10
        assert same.profile_.to_dict() == whole.profile_.to_dict()
    with pytest.raises(ValueError, match="Input X contains"):
        fitted(name, bad, classes=None)
    read_off = "no number in X is missing or infinite"
    assert read_off in fitted(name, classes=None).profile_.assumption
    assert read_off not in whole.profile_.assumption


def test_dp_sgd_without_any_record_is_its_noise_alone():
    """The same noise at a tenth of the steps' size: the weights are those of the
    noise, whatever the rows hold.
    """
    weights = []
    for rows, rate in ((X, 0.5), (0.1 * X[::-1], 0.5), (X, 0.05)):
        model = fitted("DPSGD", rows, Y + 7, learning_rate=rate)
        weights.append(model._fitted.model.models.weights)
    np.testing.assert_array_equal(weights[0], weights[1])
    np.testing.assert_allclose(weights[0], 10 * weights[2], rtol=1e-6)
    # sigma = 1, batches of 20 expected
    assert np.std(weights[0]) == pytest.approx(0.5 * np.sqrt(3) / 20, rel=0.9)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_classes_of_another_type_than_the_labels_are_refused(name):
    """By the dtype of y alone, which is public: what the labels are makes no
    difference.
    """
    text = Y.astype(str)
    coded = pd.Series(Y, dtype="category")
    for labels, classes in (
        (text, [0, 1]),
        (pd.Series(text, dtype="string"), [0, 1]),
        (Y, ["0", "1"]),
        (coded, ["0"]),
    ):
        kind = "numbers" if labels is Y or labels is coded else "text"
        with pytest.raises(
            ValueError,
            match=f"classes must be {kind}, as the labels in y are by .*, got classes",
        ):
            fitted(name, y=labels, classes=classes)
    # so that no error tells of a label
    assert len(fitted(name, y=text, classes=["No", "Yes"]).predict(QUERIES)) == 10
    assert len(fitted(name, y=text.astype(object)).predict(QUERIES)) == 10


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_number_to_predict_is_refused_unless_classes_are_given(name):
    """Whether it is one may be asked of labels that are public alone."""
    for labels in (Y + 0.5, np.arange(120) % 60, np.arange(120.0)):
        rows_ = np.resize(X, (len(labels), X.shape[1]))
        with pytest.raises(
            ValueError, match="y is a number to predict: cut it at public thresholds"
        ):
            fitted(name, rows_, labels, classes=None)
        assert len(fitted(name, rows_, labels, classes=[0, 1]).predict(QUERIES)) == 10


def test_the_curator_can_count_empty_records():
    bad = np.where(np.arange(40)[:, None] < 3, np.nan, X)
    model = ClassMeans(1.0, classes=["no", "yes"])
    found = model.unusable_records(bad, np.where(np.arange(40) < 5, "No", "no"))
    assert list(found.values()) == [40, 5, 3, 5, 0]
    shorter = ClassMeans(1.0, classes=[0, 1], norm=0.5)
    assert shorter.unusable_records(X, Y)["longer than the norm"] == 40
    assert not hasattr(model, "n_features_in_")
    with pytest.raises(ValueError, match="classes must hold all labels"):
        ClassMeans(1.0).unusable_records(X, Y)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_messages_show_no_value(name):
    secret = X.astype(object)
    secret[5, 3] = "patient 4711"
    for bad in (secret, X[:, 0] * 4711, X * (1 + 4711j), [*X.tolist(), [4711.0]]):
        with pytest.raises((ValueError, TypeError)) as refusal:
            fitted(name, bad, classes=None)
        error = refusal.value
        while error is not None:
            assert "4711" not in str(error)
            error = error.__context__
    if name != "Bagging":  # it takes one class
        with pytest.raises(ValueError, match="got 1 class; set classes=") as refusal:
            fitted(name, y=np.full(40, 4711), classes=None)
        assert "4711" not in str(refusal.value)


BAD = {  # invalid values of each parameter, of whatever estimator
    "epsilon": [0.0, -1.0, math.inf],
    "delta": [1.0, -0.1],
    "l2": [-1.0],
    "norm": [0.0, -1.0],
    "n": [0, 1.5],
    "adjacency": ["swap"],
    "analysis": ["loose"],
    "max_iterations": [0],
    "answers": [0, 1.5],
    "noise_multiplier": [0.0],
    "clipping_norm": [-1.0],
    "sample_rate": [1.5],
    "steps": [0],
    "learning_rate": [-1.0],
    "radius": [0.0],
    "batch_size": [0, 41],
    "sensitivity": ["empirical", 0.0],
    "intrinsic_sigma": [-0.1],
    "subsample": [0, 0.5],
    "n_models": [0, 2.5],
    "scheme": ["pairs"],
    "n_partitions": [0],
    "sigma": [0.0],
    "confidence": [1.5],
    "queries": [0, 31],
    "aggregator": ["majority"],
    "sigma_answer": [0.0],
    "inverse_scale": [-1.0],
    "accountant": ["moments"],
    "partitions": ["equal"],
    "n_trees": [0],
    "bounds": [3.0, (1.0, -1.0)],
    "optimizer": ["lion"],
    "classes": [[0]],
    "student": [3],
    "n_jobs": [0],
}
# may be None beside another one; one class is enough; of the default learner alone
UNUSED = {("Bagging", "classes"), ("SubsampleAggregate", "l2")}
UNUSED |= {
    (name, known)
    for name in ("Bagging", "DPSGD", "FilteredVote", "PATE")
    for known in ("epsilon", "delta")
}


@pytest.mark.parametrize(
    ("name", "parameter"), [(name, p) for name, p in CASES if p in BAD]
)
def test_an_invalid_parameter_is_named(name, parameter):
    if (name.removesuffix(" of a network"), parameter) in UNUSED:
        return
    for value in BAD[parameter]:
        with pytest.raises(
            (ValueError, TypeError), match=f"{parameter} must (be|hold|have) "
        ) as refusal:
            fitted(name, **{parameter: value})
        assert parameter == "classes" or repr(value) in str(refusal.value)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        (
            "NoisySGD",
            {"learning_rate": 4.1},
            r"must be <= 2 / \(smoothness \+ l2\) = 4, got learning_rate=4.1",
        ),
        (
            "AugmentedSGD",
            {"learning_rate": 4.5},
            r"learning_rate must be <= 2 / smoothness = 4, got learning_rate=4.5",
        ),
        ("AugmentedSGD", {"epsilon": 30.0, "analysis": "published"}, "epsilon"),
        (
            "AugmentedSGD",
            {"classes": [0, 1, 2]},
            "Only binary classification .* classes must hold at most 2 classes, got 3",
        ),
        (
            "ModelSensitivity",
            {"adjacency": "add-remove", "analysis": "published", "n": 40},
            "is for adjacency='replace-one', got",
        ),
        (
            "LossPerturbation",
            {"adjacency": "replace-one", "analysis": "published"},
            "valid for adjacency='replace-one'",
        ),
        (
            "DPSGD",
            {"noise_multiplier": None},
            "give epsilon and delta, or noise_multiplier, got epsilon=None",
        ),
        (
            "DPSGD",
            {
                "noise_multiplier": None,
                "epsilon": 0.0,
                "delta": 1e-300,
                "accountant": "best",
            },
            "no noise meets epsilon=0.0, delta=1e-300",
        ),
        (
            "DPSGD",
            {"optimizer": "adam"},
            "optimizer must be 'sgd' or 'momentum' for softmax regression",
        ),
        (
            "Bagging",
            {"subsample": 41, "replace": False},
            "subsample must be at most n=40 without replacement",
        ),
        (
            "Bagging",
            {"subsample": 21, "n_models": 2, "replace": False, "scheme": "split"},
            "there are only n=40",
        ),
        (
            "SubsampleAggregate",
            {"n_models": 99, "adjacency": "replace-one"},
            "at most the number of records 40",
        ),
        (
            "PATE",
            {"answers": 6, "queries": 5, "aggregator": "confident"},
            "must be at most queries=5, got answers=6",
        ),
        (
            "PATE",
            {"n_models": 41},
            "n_models must be at most the 40 records of X, got n_models=41",
        ),
        ("PATE", {"answers": 6}, "answers must be None for aggregator='gnmax'"),
        (
            "PATE",
            {"aggregator": "confident", "sigma_threshold": 1.0, "threshold": -1.0},
            "threshold must be >= 0, got",
        ),
        (
            "PATE",
            {"aggregator": "confident", "sigma_threshold": 0.0},
            "sigma_threshold must be > 0",
        ),
        ("PATE", {"aggregator": "laplace", "scale": 0.0}, "scale must be > 0"),
        (
            "DPBag",
            {"adjacency": "add-remove", "partitions": "balanced"},
            "one of 'zero-out', 'replace-one', got",
        ),
        (
            "DPBag",
            {"student": None, "estimator": MANY_AT_ONCE},
            "estimator must have fit and predict .* a scikit-learn",
        ),
        (
            "FilteredVote",
            {"estimator": RidgeClassifier(), "confidence": 0.6},
            "estimator must have predict_proba for confidence=0.6",
        ),
    ],
)
def test_parameters_that_do_not_go_together_are_named(name, change, message):
    with pytest.raises((ValueError, TypeError, AttributeError), match=message):
        fitted(name, **change)


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("PATE", {"shards": np.zeros(40)}, "shards must be integers .*, got float64"),
        ("PATE", {"shards": np.arange(40) % 9}, r"shards must be in 0\.\.7, got an"),
        ("SubsampleAggregate", {"shards": [0, 1]}, r"of shape \[40\], got int64"),
        ("FilteredVote", {"chunks": np.zeros(40, int)}, r"of shape \[40, 1\]"),
        ("DPBag", {"chunks": np.zeros((40, 2), int)}, r"of shape \[41, 2\]"),
        (
            "PATE",
            {"public": None},
            (
                r"public must hold the unlabelled rows .* call fit\(X, y,"
                r" public=X_public\)"
            ),
        ),
        (
            "DPBag",
            {"public": np.zeros((3, 2))},
            "public must be finite rows with the features of X: X has 2 features, but",
        ),
        (
            "PATE",
            {"public": np.full((2, 20), np.nan)},
            "public must be finite rows .*contains NaN",
        ),
        ("DPBag", {"public": np.zeros((0, 20))}, "public must be finite rows"),
    ],
)
def test_data_that_do_not_fit_are_named(name, given, message):
    with pytest.raises(ValueError, match=message):
        fitted(name, given=given)


@pytest.mark.parametrize(
    ("name", "table", "change", "value"),
    [
        ("SubsampleAggregate", "shards", "adjacency", "replace-one"),
        ("DPBag", "chunks", "partitions", "balanced"),
    ],
)
def test_places_that_must_be_drawn_cannot_be_given(name, table, change, value):
    with pytest.raises(ValueError, match=f"{table} must be None for {change}='{value}"):
        fitted(name, given={table: np.zeros(40, int)}, **{change: value})


# their noise follows from epsilon and delta
CALIBRATED = [
    name
    for name, (_, settings) in SETTINGS.items()
    if "epsilon" in settings and name != "DPBag"
]


@pytest.mark.parametrize("delta", [0.0, 1e-5])
@pytest.mark.parametrize("adjacency", ["zero-out", "replace-one", "add-remove"])
@pytest.mark.parametrize("name", CALIBRATED)
def test_the_guarantee_is_the_budget(name, adjacency, delta):
    model = clone(ESTIMATORS[name]).set_params(
        epsilon=0.5, delta=delta, adjacency=adjacency
    )
    for parameter, constant in (("n", 50), ("linear_share", 0.5)):
        if adjacency == "add-remove" and hasattr(model, parameter):
            model.set_params(**{parameter: constant})
    unknown = name in ("NoisySGD", "AugmentedSGD") and adjacency == "add-remove"
    if unknown or (name.endswith(("SGD", "Boosting")) and delta == 0):
        with pytest.raises(ValueError, match=r"adjacency must be one of|delta must be"):
            model.fit(X, Y)
        return
    found = model.fit(X, Y).profile_
    assert found.adjacency == adjacency
    assert found.status == ("assumption" if name == "LossPerturbation" else "proved")
    assert found.delta(0.5 * (1 + 1e-9)) <= delta * (1 + 1e-6)
    assert 0.99 * 0.5 < found.epsilon(delta) <= 0.5 * (1 + 1e-6)
    assert found.compose(3).status == found.status


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("FilteredVote", {"sigma": None}),
        ("PATE", {"sigma_answer": None}),
        ("PATE", {"sigma_answer": None, "aggregator": "confident", "answers": 3}),
        ("PATE", {"sigma_answer": None, "aggregator": "laplace"}),
    ],
)
def test_the_noise_of_votes_follows_from_the_budget(name, change):
    found = fitted(name, epsilon=0.5, delta=1e-5, **change).profile_
    assert 0.999 * 0.5 < found.epsilon(1e-5) <= 0.5 * (1 + 1e-9)
    with pytest.raises(
        ValueError,
        match=r"give epsilon and delta, or \w+.*, got epsilon=0.5, delta=None",
    ):
        fitted(name, epsilon=0.5, **change)


@pytest.mark.parametrize("name", NAMES)
def test_epsilon_and_delta_suffice_to_make_it(name):
    public = {"public": PUBLIC} if name in ("PATE", "DPBag") else {}
    made = getattr(methods, name)(1.0, 0.2, noise_seed=0).fit(X, Y, **public)
    assert made.profile_.delta(1.0) <= 0.2 * (1 + 1e-9)
    assert "at delta 0.2" in str(made.profile_)
    assert made.predict(QUERIES).shape == (10,)


def test_the_subsample_of_bagging_is_the_largest_within_the_budget():
    size = methods.Bagging(0.5, 0.3, n_models=3).calibrate(100)
    within, beyond = (
        bagging(n=100, subsample=s, n_models=3, adjacency="zero-out")
        for s in (size, size + 1)
    )
    assert within.delta(0.5) <= 0.3 < beyond.delta(0.5)
    with pytest.raises(ValueError, match="delta must be at least about n_models / n"):
        methods.Bagging(0.5, 1e-5).fit(X, Y)


def test_a_teacher_that_cannot_learn_its_records_abstains():
    """A shard that scikit-learn refuses, for example of numbers beyond float32, must
    not be told from the others.
    """
    huge = X.copy()
    huge[5] *= 1e300
    for name in ("Bagging", "PATE"):
        assert len(fitted(name, huge, estimator=None).predict(QUERIES)) == 10
    with pytest.raises(ValueError, match="max_iter"):
        fitted(
            "PATE",
            estimator=LogisticRegression(max_iter=-5),
            student=LogisticRegression(),
        )


# statements


@pytest.mark.parametrize("name", NAMES)
def test_a_statement_says_what_is_released(name):
    model = fitted(name)
    stated = model.statement_(declared={"name": name})
    release = stated.content["release"]
    assert release["method"] == f"dpnotes.{type(model).__name__}"
    if name in PUBLISHED:
        assert release["released"].endswith(
            "as publish() gives it, and any number of its predictions"
        )
        assert model.publish().statement_(declared={"name": name}) == stated
    else:
        number = "any number of" if name == "FilteredVote" else "at most 400"
        assert release["released"].startswith(f"{number} answers")
        model.predict(QUERIES)
        assert model.statement_(declared={"name": name}) == stated
    assert stated.content["guarantee"]["profile"] == json.loads(
        json.dumps(model.profile_.to_dict())
    )
    assert PrivacyStatement.from_json(stated.to_json()).to_html() == stated.to_html()
    stated.verify()


@pytest.mark.parametrize("name", NAMES)
def test_it_is_the_same_for_other_records_and_after_other_parameters(name):
    """Nothing of private records is in it: a function of their number and of the
    parameters alone.
    """
    stated = fitted(name).statement_(delta=1e-5)
    other, _ = table(len(X), seed=9)
    again = fitted(name, 0.5 * other, (other[:, 1] > 0.3).astype(int))
    assert again.statement_(delta=1e-5) == stated
    again.set_params(classes=[0, 1, 2], noise_seed=None, adjacency="replace-one")
    for parameter, value in (("epsilon", 77.0), ("answers", 10**6)):
        if hasattr(again, parameter):
            again.set_params(**{parameter: value})
    assert again.statement_(delta=1e-5) == stated


def test_no_label_is_shown_and_labels_read_off_are_named_as_unprotected():
    labels = np.array(["healthy", "gravely ill"])[Y]
    model = ClassMeans(1.0, noise_seed=0)
    for classes, quantities in ((None, 2), (["gravely ill", "healthy"], 1)):
        stated = model.set_params(classes=classes).fit(X, labels).statement_()
        assert "ill" not in stated.to_json().replace("still", "")
        assert len(stated.content["protection"]["unprotected"]) == quantities
    assert "seed" in stated.to_html().partition("<h2>")[0]  # and no number of it
    assert "noise_seed" not in stated.to_json()


def test_what_is_refuted_says_so_first():
    stated = fitted("DPBag", accountant="personalised").statement_()
    first = stated.to_html().partition("<h2>")[0]
    assert "This guarantee is refuted" in first
    assert "true positives." not in first


@pytest.mark.parametrize(
    ("sigma", "claim", "verdict", "about"),
    [
        (1.0, 1.0, "not refuted, which is no proof", "this guarantee"),
        (0.1, 1.0, "REFUTED", "this guarantee"),
        (1.0, 0.5, "not refuted", "another guarantee, PrivacyProfile of gaussian("),
        (1.0, 9.0, "refuted", "another guarantee"),
        (1.0, None, "no claim was tested", ""),
    ],
)
def test_an_audit_is_told_with_its_claim(sigma, claim, verdict, about):
    noise = np.random.default_rng(0).normal(size=(2, 500))
    noise *= sigma
    claimed = None if claim is None else gaussian(sigma=claim)
    report = audit_scores(1 + noise[0], noise[1], claim=claimed)
    stated = statement(gaussian(sigma=1.0), audit=report)
    audit = stated.content["audit"]
    assert audit["verdict"].startswith(verdict)
    assert about in audit["verdict"]
    told = re.search(r"epsilon at least ([\d.]+) at delta 1e-5", audit["evidence"])
    # a lower bound is never rounded up
    assert 0.99 * report.epsilon(1e-5) <= float(told[1]) <= report.epsilon(1e-5)
    assert "public or stand in" in audit["evidence"]
    assert ("An audit refuted this guarantee" in stated.to_html()) == (
        verdict == "REFUTED"
    )
