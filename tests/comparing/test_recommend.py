"""Recommendations for a shape: none where nothing helps, the same as a comparison's;
sets that are judged on.
"""

import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpnotes
from dpnotes import data
from dpnotes.comparing import MajorityClass, recommend

FAST = ["ClassMeans", "RandomTrees", "LossPerturbation"]
WINE = {
    "n": 178,
    "d": 13,
    "n_classes": 3,
    "epsilon": 1.0,
    "methods": FAST,
    "repeats": 12,
}


@pytest.mark.parametrize(
    "shape", [{"n": 1, "d": 4, "n_classes": 2}, {"n": 1, "d": 30, "n_classes": 10}]
)
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
    compared = dpnotes.compare(X, y, data="shape", combinations=0.0, **given)
    pd.testing.assert_frame_equal(found.scores, compared.scores)
    assert repr(found.best) == repr(compared.best)


def test_what_helps_beats_the_majority_class_by_bonferroni_and_a_single_repeat_does_not():
    found = recommend(**WINE)
    part = 0.05 / len(found.private)
    assert found.helping
    for name in found.private:
        assert (name in found.helping) == (
            found.difference(name, "majority class", level=part).low > 0
        )
    assert recommend(**WINE | {"repeats": 1}).candidates == []


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"n": 0}, ValueError, "n must be >= 1, got n=0"),
        ({"d": 1.5}, TypeError, "d must be an integer"),
        ({"n_classes": 1}, ValueError, "n_classes must be >= 2"),
    ],
)
def test_bad_input_is_named(changed, error, message):
    with pytest.raises(error, match=message):
        recommend(**WINE | changed)


ROOT = Path(__file__).parents[2]
SETS = tomllib.loads(
    (ROOT / "benchmarks" / "data_sets.toml").read_text(encoding="utf-8")
)
OF_SCIKIT_LEARN = {"wine"}  # the others are those of dpnotes.data


def test_sets_are_split_by_source_in_halves():
    development, sealed = SETS["development"], SETS["sealed"]
    assert not set(development) & set(sealed)
    assert len(development) == len(sealed) == 4
    assert {*development, *sealed} - OF_SCIKIT_LEARN <= set(data.NAMES)


def test_nothing_of_the_comparison_names_a_sealed_set():
    files = [
        *(ROOT / "dpnotes" / "comparing").rglob("*.py"),
        *(ROOT / "tests" / "comparing").glob("test_compare*.py"),
    ]
    assert files
    for path in files:
        text = path.read_text(encoding="utf-8").lower()
        assert not [
            name for name in SETS["sealed"] if name in text.replace("-", "_")
        ], path
