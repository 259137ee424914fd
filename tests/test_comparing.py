"""Comparisons on a public table: the same splits and budget for all, measures by hand."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse, stats
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import StratifiedShuffleSplit

import dpnotes
from dpnotes import comparing, methods


class Known(ClassifierMixin, BaseEstimator):
    """Sure of class 1 for rows whose first column is positive, half sure otherwise."""

    def fit(self, X, y):
        self.classes_ = np.array([0, 1])
        return self

    def predict_proba(self, X):
        sure = np.where(X[:, 0] > 0, 1.0, 0.4)
        return np.stack([1 - sure, sure], axis=1)

    def predict(self, X):
        return self.predict_proba(X).argmax(axis=1)


@pytest.fixture(scope="module")
def table():
    generator = np.random.default_rng(0)
    X = generator.normal(size=(300, 3))
    return X, np.where(X[:, 0] + generator.normal(size=300) > 0.8, "yes", "no")


@pytest.fixture(scope="module")
def scores(table):
    others = {"known": Known()}
    return comparing.compare(
        *table, epsilon=2.0, delta=1e-5, others=others, repeats=3, summarise=False
    )


def test_every_private_estimator_without_public_records_is_compared(scores):
    public = (getattr(dpnotes, name) for name in dpnotes.__all__)
    kinds = [kind for kind in public if isinstance(kind, type)]
    private = {
        kind.__name__ for kind in kinds if issubclass(kind, methods.PrivateClassifier)
    } - {"PATE", "DPBag"}
    assert private == {kind.__name__ for kind in comparing.MODELS + comparing.ANSWERS}
    assert private < set(scores["method"])
    assert scores.groupby("method").size().eq(3).all()


def test_all_have_the_same_budget_and_adjacency(table):
    X, y = np.tanh(table[0]), table[1]
    models = comparing.estimators(2.0, 0.1, classes=["no", "yes"], answers=10)
    profiles = [model.fit(X, y).profile_ for model in models.values()]
    assert {profile.adjacency for profile in profiles} == {"zero-out"}
    assert max(profile.epsilon(0.1) for profile in profiles) < 2 + 1e-9


def test_measures_are_those_of_the_splits(table, scores):
    X, y = table
    splits = StratifiedShuffleSplit(3, test_size=0.25, random_state=0).split(X, y)
    middle = (X[:, 0].min() + X[:, 0].max()) / 2
    found = scores[scores["method"] == "known"].set_index("split")
    for place, (_, test) in enumerate(splits):
        said, ill = X[test, 0] > middle, y[test] == "yes"
        right = said == ill
        line = found.loc[place]
        assert line["accuracy"] == pytest.approx(right.mean())
        each = [right[ill].mean(), right[~ill].mean()]
        assert line["balanced accuracy"] == pytest.approx(np.mean(each))
        # the probability that a pair is in order; of two values, this is the same
        assert line["AUC"] == pytest.approx(np.mean(each))
        gap = said.sum() * abs(right[said].mean() - 1.0)
        gap += (~said).sum() * abs(right[~said].mean() - 0.6)
        assert line["calibration error"] == pytest.approx(gap / len(test))
    (measured,) = comparing.summary(scores[scores["method"] == "known"]).itertuples()
    assert measured.accuracy == pytest.approx(found["accuracy"].mean())


def test_intervals_count_that_splits_share_records():
    values = np.array([0.7, 0.8, 0.75, 0.9])
    reach = stats.t.isf(0.025, 3) * values.std(ddof=1) * np.sqrt(1 / 4 + 1 / 3)
    assert comparing.half_width(values) == pytest.approx(reach)


def test_a_model_without_probabilities_or_without_a_fit_says_so(table):
    found = dpnotes.compare(*table, epsilon=2.0, repeats=2)
    assert found.loc["SubsampleAggregate", "released"] == "answers"
    assert np.isnan(found.loc["SubsampleAggregate", "AUC"])
    assert found.loc["DPSGD", "note"].startswith("delta must be")
    text = comparing.shown(found)
    assert text.loc["SubsampleAggregate", "log loss"] == ""
    assert "DPSGD" not in text.index


def test_columns_of_text_and_gaps_are_read(table):
    X, y = table
    frame = pd.DataFrame(X, columns=list("abc"))
    frame["ward"] = np.where(y == "yes", "lung", "heart")
    frame["same"] = 1.0
    frame.loc[:9, "a"] = np.nan
    frame.loc[5, "b"] = np.inf
    frame["same, with gaps"] = frame["a"] * 0
    given = {"epsilon": 5.0, "delta": 1e-5, "repeats": 2}
    found = dpnotes.compare(frame, y, **given)
    assert found.loc["NoisyBoosting", "accuracy"] > 0.9
    assert found.loc["logistic regression", "accuracy"] == 1


@pytest.mark.parametrize(
    ("y", "given", "message"),
    [
        ([0] * 300, {}, "at least two classes"),
        ([0] * 293 + [1] * 7, {}, "at least 8 records"),
        ([0, 1] * 150, {"repeats": 1}, "repeats must be"),
        ([0, 1] * 150, {"epsilon": 0.0}, "epsilon must be"),
        ([0, 1] * 150, {"delta": 1.0}, "delta must be"),
    ],
)
def test_bad_input_is_named(table, y, given, message):
    with pytest.raises(ValueError, match=message):
        dpnotes.compare(table[0], y, **{"epsilon": 1.0, **given})


def test_a_table_without_information_is_refused():
    with pytest.raises(ValueError, match="one column that is not constant"):
        dpnotes.compare(np.ones((20, 2)), [0, 1] * 10, epsilon=1.0)


@pytest.mark.parametrize(
    ("spoilt", "error", "message"),
    [
        (lambda X, y: (np.ma.masked_array(X), y), TypeError, "X must not be a masked"),
        (lambda X, y: (X, np.ma.masked_array(y)), TypeError, "y must not be a masked"),
        (lambda X, y: (sparse.csr_array(X), y), TypeError, "X must be dense"),
        (lambda X, y: (X[:, 0], y), ValueError, "X must have shape"),
        (lambda X, y: (X, [None, *y[1:]]), ValueError, "missing label"),
        (lambda X, y: (X, X[:, 0]), ValueError, "Unknown label type"),
    ],
)
def test_a_table_passes_the_gate(table, spoilt, error, message):
    with pytest.raises(error, match=message):
        dpnotes.compare(*spoilt(*table), epsilon=1.0)


def test_forms_of_a_table_are_one_table(table):
    X = table[0][:40].round(2)
    for form in (X.tolist(), pd.DataFrame(X)):
        found = comparing._prepared(form, None)
        np.testing.assert_array_equal(found, comparing._prepared(X, None))
    mixed = [[1.0, "a"], [None, "b"], [3.0, "a"]]
    (listed, framed) = (
        comparing._prepared(form, None) for form in (mixed, pd.DataFrame(mixed))
    )
    np.testing.assert_array_equal(listed, framed)
