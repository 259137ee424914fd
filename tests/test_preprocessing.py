"""Transformers with public bounds: norms in exact arithmetic, one row at a time,
nothing learned, nothing disclosed.
"""

import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from scipy.sparse import csr_array
from sklearn.base import clone

from dpnotes.preprocessing import (
    DIRECTIONS,
    FLOOR,
    ClipNorm,
    OrientedGradients,
    PublicOneHot,
    PublicScaler,
)

NUMBERS = [ClipNorm(), PublicScaler(-1.0, 1.0)]
ALL = [*NUMBERS, PublicOneHot([0, 1, 2])]
LARGEST = float(np.finfo(np.float64).max)
SMALLEST = 5e-324
SECRET = 4974.697


# ClipNorm


def exact_square(row):
    """The squared norm without rounding."""
    return sum(Fraction(float(x)) ** 2 for x in row)


rows = st.sampled_from([np.float32, np.float64]).flatmap(
    lambda dtype: arrays(dtype, array_shapes(min_dims=2, max_dims=2, max_side=6))
)


@given(rows, st.floats(1e-30, LARGEST))
def test_no_row_is_longer_than_the_bound(X, norm):
    """In exact arithmetic, whatever the row holds; shortened rows stay as they are
    when they are clipped again.
    """
    clipped = ClipNorm(norm).fit_transform(X)
    assert clipped.dtype == X.dtype
    assert all(exact_square(row) <= Fraction(norm) ** 2 for row in clipped)
    np.testing.assert_array_equal(ClipNorm(norm).fit_transform(clipped), clipped)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("d", [1, 2, 3, 1000])
def test_long_rows_get_the_bound_and_short_ones_stay(dtype, d):
    generator = np.random.default_rng(0)
    X = generator.normal(size=(200, d)) * np.logspace(-30, 30, 200)[:, None]
    X = X.astype(dtype)
    clipped = ClipNorm(2.5).fit_transform(X)
    norms = np.linalg.norm(X.astype(np.float64), axis=1)
    short = norms < 2.4
    loss = (d + 4) * 4.5e-16 if dtype == np.float64 else 1e-6
    np.testing.assert_array_equal(clipped[short], X[short])
    assert 0.3 < short.mean() < 0.7
    long = clipped[norms > 2.5].astype(np.float64)
    np.testing.assert_allclose(
        np.linalg.norm(long, axis=1), 2.5 * (1 - loss / 2), rtol=2 * loss
    )
    cosine = (long * X[norms > 2.5]).sum(axis=1) / norms[norms > 2.5] / 2.5
    assert (cosine > 1 - 2 * loss).all()


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ([3e300, 4e300], [0.6, 0.8]),
        ([LARGEST, LARGEST], [math.sqrt(0.5)] * 2),
        ([3e200, -4e-200], [1.0, -0.0]),
        ([0.6, -0.0], [0.6, -0.0]),
        ([SMALLEST, -SMALLEST], [SMALLEST, -SMALLEST]),
        ([math.inf, 1.0], [1.0, 0.0]),
        ([-math.inf, math.inf], [-math.sqrt(0.5), math.sqrt(0.5)]),
        ([math.nan, 0.25], [0.0, 0.25]),
        ([-0.0, 0.0], [-0.0, 0.0]),
    ],
)
def test_rows_of_any_magnitude(row, expected):
    clipped = ClipNorm().fit_transform([row])[0]
    np.testing.assert_allclose(
        clipped, expected, rtol=1e-14, atol=0 if 0.0 not in expected else 1e-300
    )
    zero = clipped == 0
    signs = np.signbit(np.array(expected)[zero])
    np.testing.assert_array_equal(np.signbit(clipped[zero]), signs)


@pytest.mark.parametrize("norm", [1e-30, 1e30])
def test_float32_keeps_its_range(norm):
    tiny = 1e-45
    huge = float(np.finfo(np.float32).max)
    X = np.array([[tiny, tiny], [huge, huge], [huge, tiny]], dtype=np.float32)
    clipped = ClipNorm(norm).fit_transform(X)
    np.testing.assert_array_equal(clipped[0], X[0])
    np.testing.assert_allclose(
        clipped[1:], [[norm / math.sqrt(2)] * 2, [norm, 0.0]], rtol=2e-6, atol=1e-44
    )


# PublicScaler


def test_bounds_become_minus_one_and_one():
    years = [0.0, 50.0, 100.0, -5.0, math.inf, math.nan]
    degrees = [-8.0, 0.0, 8.0, 1e30, -math.inf, 2.0]
    X = np.column_stack([years, degrees])
    expected = np.column_stack([[-1, 0, 1, -1, 1, 0], [-1, 0, 1, 1, -1, 0.25]])
    scaler = PublicScaler([0, -8], [100, 8])
    np.testing.assert_array_equal(scaler.fit_transform(X), expected)
    scaler = PublicScaler(pd.Series([0, -8]), (100, 8))
    np.testing.assert_array_equal(scaler.fit_transform(X.astype("f4")), expected)
    scaler = PublicScaler(-8, 8)
    np.testing.assert_array_equal(scaler.fit_transform(X[:, 1:]), expected[:, 1:])


BOUND = st.floats(allow_nan=False, allow_infinity=False)


@given(rows, BOUND, BOUND)
def test_scaled_values_are_in_order_and_between_the_ends(X, one, other):
    low, high = sorted((one, other))
    if not low / 2 < high / 2:
        return
    X = np.where(np.isnan(X), 0, X)
    scaled = PublicScaler(low, high).fit_transform(X)
    assert scaled.dtype == X.dtype
    assert ((scaled >= -1) & (scaled <= 1)).all()
    exact = X.astype(np.float64)
    assert (scaled[exact >= high] == 1).all()
    assert (scaled[exact <= low] == -1).all()
    column = np.sort(X, axis=None)[:, None]
    assert (np.diff(PublicScaler(low, high).fit_transform(column), axis=0) >= 0).all()


# PublicOneHot


def test_categories_of_any_kind():
    table = pd.DataFrame(
        {
            "job": ["baker", "spy", None],
            "shift": [2, 1, 7],
            "night": [True, False, True],
        }
    )
    encoder = PublicOneHot([["nurse", "baker"], (1, 2), np.array([False, True])])
    expected = [[0, 1, 0, 1, 0, 1], [0, 0, 1, 0, 1, 0], [0, 0, 0, 0, 0, 1]]
    typed = table.astype({"job": "category", "shift": "Int64"})
    for rows_ in (table.to_numpy().tolist(), table.to_numpy(), typed, table):
        np.testing.assert_array_equal(encoder.fit_transform(rows_), expected)
    assert " ".join(encoder.get_feature_names_out()) == (
        "job_nurse job_baker shift_1 shift_2 night_False night_True"
    )


def test_one_list_of_categories_is_for_all_columns():
    encoder = PublicOneHot(["yes", "no"])
    result = encoder.fit_transform(
        [["no", "yes"], ["yes", {"no": "hash"}], [math.nan, 1]]
    )
    np.testing.assert_array_equal(result, [[0, 1, 1, 0], [1, 0, 0, 0], [0, 0, 0, 0]])
    names = " ".join(encoder.get_feature_names_out())
    assert names == "x0_yes x0_no x1_yes x1_no"


def test_the_curator_can_count_values_that_are_not_read():
    table = np.array([["unknown", np.nan], [None, np.inf], [3, 99.0]], dtype=object)
    assert PublicScaler(0, 1).fit(table).unread(table).tolist() == [2, 1]
    jobs = pd.DataFrame({"job": ["spy", None, "nurse"], "shift": [1, 2, 7]})
    assert PublicOneHot([["baker", "nurse"], [1, 2, 3]]).fit(jobs).unread(
        jobs
    ).tolist() == [2, 1]


# OrientedGradients


def slowly(image):
    """Features of one image, pixel by pixel."""
    rows = image.shape[0] // 4
    columns = image.shape[1] // 4
    cells = np.zeros((rows, columns, DIRECTIONS))
    vertical, horizontal = np.gradient(image)
    for i in range(4 * rows):
        for j in range(4 * columns):
            up = vertical[i, j]
            right = horizontal[i, j]
            angle = np.arctan2(up, right) / np.pi % 1.0 * DIRECTIONS
            lower = int(angle)
            part = angle - lower
            length = np.hypot(up, right)
            cells[i // 4, j // 4, lower % DIRECTIONS] += (1 - part) * length
            cells[i // 4, j // 4, (lower + 1) % DIRECTIONS] += part * length
    around = np.zeros((rows, columns))
    for i in range(rows):
        for j in range(columns):
            near = cells[max(i - 1, 0) : i + 2, max(j - 1, 0) : j + 2]
            around[i, j] = (near**2).sum()
    features = np.sqrt(cells / np.sqrt(around + FLOOR)[..., None]).ravel()
    features -= features.mean()
    return features / np.linalg.norm(features)


@pytest.mark.parametrize("shape", [(8, 8), (13, 10)])
def test_features_are_those_of_a_slow_computation(shape):
    images = np.random.default_rng(0).random((3, *shape))
    expected = np.stack([slowly(image) for image in images])
    rows = images.reshape(3, -1)
    colours = np.stack([images] * 3, axis=1)
    for hog, images_ in (
        (OrientedGradients((1, *shape)), rows),
        (OrientedGradients((3, *shape)), colours.reshape(3, -1)),
        (OrientedGradients(shape, high=255), 255 * rows),
    ):
        found = hog.fit_transform(images_)
        assert found.dtype == np.float32
        assert found == pytest.approx(expected, abs=1e-5)


def test_features_of_an_image_depend_on_it_alone_whatever_it_holds():
    # more than are computed at a time
    images = np.random.default_rng(1).random((2500, 64))
    hog = OrientedGradients((8, 8))
    whole = hog.fit_transform(images)
    assert (whole[2100:2110] == hog.transform(images[2100:2110])).all()
    assert np.linalg.norm(whole, axis=1) == pytest.approx(np.ones(2500), abs=1e-5)
    assert not hog.transform(np.zeros((1, 64))).any()  # an empty image has no direction
    for value in ODD:
        changed = images[:20].astype(object)
        changed[7, 3] = value
        result = hog.transform(changed)
        assert np.isfinite(result).all()
        np.testing.assert_array_equal(
            np.delete(result, 7, axis=0), np.delete(whole[:20], 7, axis=0)
        )
    assert len(hog.get_feature_names_out()) == whole.shape[1] == 36


# all of them

ODD = [math.nan, math.inf, -math.inf, LARGEST, SMALLEST, -0.0, 10**400, 1j, True]
ODD += [None, pd.NA, "spy", "", {}, [1], b"x"]


@pytest.mark.parametrize("transformer", ALL, ids=lambda t: type(t).__name__)
def test_a_row_changes_its_own_result_only(transformer):
    """Whatever the row holds, it is neither refused nor seen in fit, in other rows
    or in attributes.
    """
    X = np.random.default_rng(0).normal(size=(20, 3)).astype(object)
    X[:, 2] = np.arange(20) % 4
    first = clone(transformer).fit(X)
    whole = first.transform(X)
    expected = first.__dict__
    for value in ODD:
        changed = X.copy()
        changed[7, 1] = value
        other = clone(transformer).fit(changed)
        assert repr(other.__dict__) == repr(expected)
        result = other.transform(changed)
        assert np.isfinite(result.astype(np.float64)).all()
        np.testing.assert_array_equal(
            np.delete(result, 7, axis=0), np.delete(whole, 7, axis=0)
        )
        np.testing.assert_array_equal(other.transform(changed[7:8]), result[7:8])


@pytest.mark.parametrize("transformer", ALL, ids=lambda t: type(t).__name__)
@pytest.mark.parametrize(
    ("X", "message"),
    [
        (SECRET, r"X must have shape \[n, d\], got shape \(\)"),
        (np.full(5, SECRET), r"X must have shape .*, got shape \(5,\)"),
        (np.full((2, 2, 2), SECRET), "X must have shape .*, got shape"),
        ([[SECRET, SECRET], [SECRET]], r"X must have shape .*, got shape \(2,\)"),
        (np.full((2, 2), SECRET * 1j), "X must hold real numbers, got complex128"),
        (csr_array([[SECRET, SECRET]]), "X must be dense, got sparse X of type csr_"),
        (np.full((2, 3), SECRET), "X has 3 features"),
        (pd.DataFrame({"age": [SECRET], "wage": [SECRET]}), "feature names"),
        (np.empty((0, 2)), "0 sample"),
    ],
)
def test_errors_show_the_shape_and_no_value(transformer, X, message):
    table = pd.DataFrame({"age": [1.0], "height": [2.0]})
    fitted = clone(transformer).fit(
        table if isinstance(X, pd.DataFrame) else table.to_numpy()
    )
    with pytest.raises((ValueError, TypeError), match=message) as caught:
        fitted.transform(X)
    assert "4974" not in str(caught.value)


@pytest.mark.parametrize(
    ("transformer", "message"),
    [
        (ClipNorm(0.0), "norm must be >= 1e-30, got norm=0.0"),
        (ClipNorm(math.inf), "norm must be finite and >= 1e-30, got norm=inf"),
        (PublicScaler(0, [1, 2]), r"high must be .* 64 columns, got high=\[1, 2\]"),
        (PublicScaler(math.nan, 1), "low must be a finite number"),
        (PublicScaler([1] + [0] * 63, 1), "low must be < high .* got low=.* high=1"),
        (PublicOneHot([[1], 2]), r"one for each of 64 columns, got \[\[1\], 2\]"),
        (PublicOneHot([]), "categories must be one sequence"),
        (PublicOneHot([[1]] * 63 + [[]]), r"at least one .* got \[\]"),
        (PublicOneHot(["a", "b", "a"]), r"distinct .* got \['a', 'b', 'a'\]"),
        (OrientedGradients((3, 8, 8)), r"64 columns, got image_shape=\(3, 8, 8\)"),
        (OrientedGradients((2, 32)), "image_shape must be"),
        (OrientedGradients((64,)), "image_shape must be"),
        (OrientedGradients((8, 8), low=1.0), "low must be < high, got low=1.0, high="),
    ],
)
def test_bad_parameters_are_named(transformer, message):
    with pytest.raises(ValueError, match=message):
        transformer.fit(np.zeros((4, 64)))


@pytest.mark.parametrize("transformer", ALL, ids=lambda t: type(t).__name__)
def test_data_frames_in_and_out(transformer):
    frame = pd.DataFrame({"age": [1.0, 2.0], "height": [0.5, 2.0]}, index=["a", "b"])
    fitted = clone(transformer).set_output(transform="pandas").fit(frame)
    result = fitted.transform(frame)
    assert result.columns.tolist() == fitted.get_feature_names_out().tolist()
    assert result.index.tolist() == ["a", "b"]
    np.testing.assert_array_equal(
        result, clone(transformer).fit_transform(frame.to_numpy())
    )


def test_parameters_are_frozen_by_fit():
    X = np.array([[1.0, 2.0]])
    changes = [{"norm": 1e3}, {"low": -100, "high": 100}, {"categories": [7, 8]}]
    for transformer, change in zip(ALL, changes, strict=True):
        fitted = clone(transformer).fit(X)
        before = fitted.transform(X)
        np.testing.assert_array_equal(fitted.set_params(**change).transform(X), before)
