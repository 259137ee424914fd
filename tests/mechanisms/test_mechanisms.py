"""Subsamples and votes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpnotes.mechanisms import draw_subsets, vote_counts


def test_subsets_have_the_promised_repeats():
    free = draw_subsets(50, subsample=50, n_models=20, replace=False, seed=1)
    assert all(len(set(row)) == 50 for row in free.tolist())
    split = draw_subsets(60, subsample=3, n_models=20, replace=False, scheme="split", seed=1)
    assert len(set(split.ravel().tolist())) == 60
    assert any(len(set(row)) < 50 for row in draw_subsets(50, subsample=50, n_models=3, replace=True, seed=1).tolist())


def test_streams_do_not_depend_on_the_number_of_models():
    few = draw_subsets(100, subsample=5, n_models=2, replace=True, seed=3)
    many = draw_subsets(100, subsample=5, n_models=7, replace=True, seed=3)
    np.testing.assert_array_equal(few, many[:2])
    assert len(np.unique(many, axis=0)) == 7
    assert (draw_subsets(100, subsample=5, n_models=2, replace=True, seed=4) != few).any()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n": 0, "subsample": 1, "n_models": 1, "replace": True}, "n must be >= 1"),
        ({"n": 3, "subsample": 0, "n_models": 1, "replace": True}, "subsample must be >= 1"),
        ({"n": 3, "subsample": 1, "n_models": 0, "replace": True}, "n_models must be >= 1"),
        ({"n": 3, "subsample": 4, "n_models": 1, "replace": False}, "at most n=3 without replacement"),
        ({"n": 3, "subsample": 2, "n_models": 2, "replace": False, "scheme": "split"}, "of n=3"),
        ({"n": 3, "subsample": 2, "n_models": 2, "replace": False, "scheme": "other"}, "scheme must be one of"),
    ],
)
def test_bad_draws_are_named(arguments, message):
    n = arguments.pop("n")
    with pytest.raises(ValueError, match=message):
        draw_subsets(n, **arguments, seed=0)


@given(
    st.integers(1, 6).flatmap(
        lambda c: st.tuples(
            st.just(c), st.lists(st.lists(st.integers(0, c - 1), min_size=4, max_size=4), min_size=1, max_size=9)
        )
    )
)
def test_counts_equal_counting_by_hand(case):
    n_classes, votes = case
    counts = vote_counts(np.array(votes), n_classes)
    for query in range(4):
        column = [row[query] for row in votes]
        assert counts[query].tolist() == [column.count(c) for c in range(n_classes)]


def test_bad_votes_are_named():
    with pytest.raises(ValueError, match=r"votes must have shape \[n_models, n\]"):
        vote_counts(np.array([0, 1]), 2)
    with pytest.raises(ValueError, match=r"votes must be codes in 0\.\.1, got 0\.\.2"):
        vote_counts(np.array([[0, 2]]), 2)
    with pytest.raises(ValueError, match="votes must be codes"):
        vote_counts(np.array([[0, -1]]), 2)
