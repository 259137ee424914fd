import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from dpnotes.data import to_unit_ball

ROWS = arrays.arrays(
    st.sampled_from([np.float32, np.float64]),
    st.tuples(st.integers(1, 4), st.integers(1, 5)),
    elements=st.floats(-1e6, 1e6, width=32),
)


@given(ROWS, st.floats(1e-3, 1e3))
def test_rows_lie_in_the_ball_and_keep_their_direction(X, bound):
    inside = to_unit_ball(X, bound=bound)
    assert inside.dtype == np.float32
    assert (np.linalg.norm(inside.astype(np.float64), axis=1) <= 1).all()
    norms = np.linalg.norm(X.astype(np.float64), axis=1, keepdims=True)
    # float32 rounding and the guard; entries below 1e-37 are not normal numbers
    np.testing.assert_allclose(inside, X / np.maximum(norms, bound), rtol=4e-7, atol=1e-37)


@given(ROWS, st.floats(1e-3, 1e3))
def test_each_row_is_treated_by_itself(X, bound):
    alone = np.vstack([to_unit_ball(row[None], bound=bound) for row in X])
    assert np.array_equal(to_unit_ball(X, bound=bound), alone)


def test_the_default_bound_shortens_no_row_of_unit_features():
    X = np.random.default_rng(0).uniform(size=(50, 64))
    np.testing.assert_allclose(to_unit_ball(X), X / 8, rtol=4e-7)
    assert np.linalg.norm(to_unit_ball(np.ones((1, 64))).astype(np.float64)) <= 1


def test_whole_numbers_are_not_rounded_away():
    np.testing.assert_allclose(to_unit_ball(np.array([[3, 4]])), [[0.6, 0.8]] / np.sqrt(1), rtol=4e-7)


@pytest.mark.parametrize("bound", [0, -1.0, float("nan"), float("inf")])
def test_a_bound_must_be_positive(bound):
    with pytest.raises(ValueError, match="bound must be positive and finite, got bound="):
        to_unit_ball(np.ones((2, 2)), bound=bound)


def test_rows_must_be_finite_and_a_matrix():
    with pytest.raises(ValueError, match="rows of finite norm, got 1 other rows"):
        to_unit_ball(np.array([[1.0, np.nan], [1.0, 0.0]]))
    with pytest.raises(ValueError, match=r"X must be a matrix \[n, d\], got shape \(3,\)"):
        to_unit_ball(np.ones(3))
