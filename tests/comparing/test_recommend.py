"""Recommendations for a shape: none where nothing helps, the same as a comparison's, bad input."""

import numpy as np
import pandas as pd
import pytest

import dpnotes
from dpnotes.comparing import MajorityClass, recommend

FAST = ["ClassMeans", "RandomTrees", "LossPerturbation"]
WINE = {"n": 178, "d": 13, "n_classes": 3, "epsilon": 1.0, "methods": FAST, "repeats": 12}


@pytest.mark.parametrize("shape", [{"n": 1, "d": 4, "n_classes": 2}, {"n": 1, "d": 30, "n_classes": 10}])
@pytest.mark.parametrize("budget", [{"delta": 0.0}, {"delta": 1e-5, "answers": 50}])
def test_of_one_record_no_method_is_recommended(shape, budget):
    found = recommend(**shape, **budget, epsilon=1.0, repeats=6)
    assert (found.candidates, found.chosen) == ([], "majority class")
    assert isinstance(found.best[-1], MajorityClass)
    assert "No method is shown to be better" in str(found)
    assert found.table["low"].notna().sum() >= 5


def test_wine_and_breast_cancer_are_large_enough_for_class_means():
    wine = recommend(**WINE)
    assert wine.chosen == wine.candidates[0] == "ClassMeans"
    assert "and it reveals" in str(wine).splitlines()[0]
    assert "data=" not in str(wine)
    cancer = recommend(**WINE | {"n": 569, "d": 30, "n_classes": 2})
    assert {"ClassMeans"} <= set(cancer.candidates) < set(cancer.about.index)
    assert cancer.accuracy(cancer.chosen).low > 0.6


def test_it_is_what_a_comparison_finds_for_the_shape():
    found = dpnotes.recommend(**WINE)
    X, y = np.zeros((178, 13)), np.arange(178) % 3
    given = {"epsilon": 1.0, "bounds": (-1.0, 1.0), "methods": FAST, "repeats": 12}
    compared = dpnotes.compare(X, y, **given)
    pd.testing.assert_frame_equal(found.scores, compared.scores)
    assert repr(found.best) == repr(compared.best)


def test_what_helps_beats_the_majority_class_by_bonferroni_and_a_single_repeat_does_not():
    found = recommend(**WINE)
    part = 0.05 / len(found.private)
    assert found.helping
    for name in found.private:
        assert (name in found.helping) == (found.difference(name, "majority class", level=part).low > 0)
    assert recommend(**WINE | {"repeats": 1}).candidates == []


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"n": 0}, ValueError, "n must be >= 1, got n=0"),
        ({"d": 1.5}, TypeError, "d must be an integer"),
        ({"n_classes": 1}, ValueError, "n_classes must be >= 2"),
        ({"n_classes": 51}, ValueError, "n_classes must be >= 2 and <= "),
        ({"epsilon": 0.0}, ValueError, "epsilon must be > 0"),
        ({"delta": 1.0}, ValueError, "delta must be < 1"),
        ({"answers": 0}, ValueError, "answers must be >= 1, got answers=0"),
        ({"seconds": 0.0}, ValueError, "seconds must be > 0"),
        ({"methods": ["dp_sgd"]}, ValueError, "methods must be candidates"),
    ],
)
def test_bad_input_is_named(changed, error, message):
    with pytest.raises(error, match=message):
        recommend(**WINE | changed)
