"""Other libraries' classifiers as candidates, where these libraries are here."""

import warnings

import numpy as np
import pytest

from dpnotes.comparing import OTHERS, Task, compare
from dpnotes.comparing._tables import synthetic
from dpnotes.preprocessing import ClipNorm

pytestmark = pytest.mark.filterwarnings("ignore")  # what other libraries deprecate
N, D = 240, 4
EMPTY = 5


def made(candidate, **given):
    task = Task(
        **{
            "n": N,
            "d": D,
            "classes": range(2),
            "epsilon": 2.0,
            "delta": 1e-3,
            "answers": None,
            "seed": 0,
            **given,
        }
    )
    return candidate.made(task, candidate.settings[0])


def records(candidate):
    split = synthetic(N, D, 2, 6)
    return (
        ClipNorm().fit_transform(split.X) if candidate.ball else split.X
    ), split.codes


def needs(candidate):
    # which the book brings
    return [] if candidate.module == "opacus" else [pytest.mark.needs(candidate.module)]


each = pytest.mark.parametrize(
    "candidate", [pytest.param(one, id=one.name, marks=needs(one)) for one in OTHERS]
)


@each
def test_the_claim_is_for_empty_records_and_within_the_budget(candidate):
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "error", message=".*(privacy leakage|privacy violation).*"
        )
        fitted = made(candidate, seed=None).fit(*records(candidate))
    assert fitted.profile_.adjacency == "zero-out"
    assert fitted.profile_.delta(2.0) <= 1e-3 * (1 + 1e-9)
    assert set(np.unique(fitted.predict(records(candidate)[0]))) <= {0, 1}


@each
def test_what_an_empty_record_holds_changes_nothing(candidate):
    X, codes = records(candidate)
    codes = codes.copy()
    codes[EMPTY] = 7
    other = X.copy()
    other[EMPTY] = -X[EMPTY] / 2
    first, second = (made(candidate).fit(rows, codes).predict(X) for rows in (X, other))
    np.testing.assert_array_equal(first, second)


@each
def test_many_records_and_little_noise_are_learned(candidate):
    X, codes = records(candidate)
    assert (
        made(candidate, epsilon=1000.0).fit(X, codes).score(X, codes)
        > max(np.bincount(codes)) / N + 0.1
    )


@pytest.mark.needs("diffprivlib")
def test_an_emptied_record_moves_no_other_record_to_another_tree():
    (forest,) = [
        candidate for candidate in OTHERS if candidate.name == "diffprivlib forest"
    ]
    X, codes = records(forest)
    emptied = np.where(np.arange(N) == EMPTY, 7, codes)
    one, two = (
        made(forest, epsilon=1000.0).fit(X, each).model_.estimators_
        for each in (codes, emptied)
    )
    same = [
        np.array_equal(a.tree_.value, b.tree_.value)
        for a, b in zip(one, two, strict=True)
    ]
    assert same.count(False) <= 1


def test_they_are_compared_by_name_or_left_out_with_a_word():
    X, codes = records(OTHERS[0])
    names = [candidate.name for candidate in OTHERS]
    result = compare(
        X, codes, epsilon=1.0, bounds=(-1, 1), methods=[*names, "ClassMeans"], repeats=1
    )
    left_out = {
        name: reason for name, reason in result.left_out.items() if name in names
    }
    assert set(result.about.index) | set(left_out) >= set(names)
    known = ("is not installed: pip install ", "give a delta", "imported")
    assert all(any(words in reason for words in known) for reason in left_out.values())
    assert "has no guarantee with delta = 0" in left_out["opacus network"]
