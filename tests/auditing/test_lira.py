"""The likelihood-ratio attack: against densities of another library, masks, and what it gains."""

import numpy as np
import pytest
from scipy import stats

from dpnotes.auditing import lira, one_run


def test_ratio_equals_the_densities():
    generator = np.random.default_rng(0)
    inside, outside = generator.normal(1.0, 2.0, (8, 3)), generator.normal(0.0, 1.0, (9, 3))
    observed = generator.normal(size=(4, 3))
    mean, std = (lambda each: each.mean(0)), (lambda each: each.std(0, ddof=1))
    expected = stats.norm.logpdf(observed, mean(inside), std(inside)) - stats.norm.logpdf(
        observed, mean(outside), std(outside)
    )
    np.testing.assert_allclose(lira(inside, outside, observed), expected, atol=1e-12)
    np.testing.assert_allclose(lira(inside, outside, observed[0]), expected[0], atol=1e-12)
    pooled = [np.sqrt(((each - mean(each)) ** 2).sum() / (each.size - 3)) for each in (inside, outside)]
    expected = stats.norm.logpdf(observed, mean(inside), pooled[0]) - stats.norm.logpdf(
        observed, mean(outside), pooled[1]
    )
    np.testing.assert_allclose(lira(inside, outside, observed, variance="fixed"), expected, atol=1e-12)
    offline = lira(None, outside, observed)
    np.testing.assert_allclose(offline, (observed - mean(outside)) / std(outside), atol=1e-12)


def test_masks_and_nan_leave_out_the_same():
    """One matrix of shadow models serves both sides."""
    generator = np.random.default_rng(1)
    scores, included = generator.normal(size=(10, 4)), np.arange(40).reshape(10, 4) % 3 == 0
    observed = np.zeros(4)
    masked = lira(np.ma.array(scores, mask=~included), np.ma.array(scores, mask=included), observed)
    by_nan = lira(np.where(included, scores, np.nan), np.where(included, np.nan, scores), observed)
    np.testing.assert_array_equal(masked, by_nan)
    alone = lira(scores[included[:, 2], 2:3], scores[~included[:, 2], 2:3], observed[:1])
    np.testing.assert_allclose(masked[2], alone[0], atol=1e-12)


def test_difficulty_of_an_example_is_taken_out():
    """Examples differ by far more than membership does."""
    generator = np.random.default_rng(2)
    difficulty, n = generator.normal(scale=10.0, size=1000), 1000
    included = generator.random((33, n)) < 0.5
    scores = difficulty + 2.0 * included + generator.normal(size=(33, n))
    shadow, ours = scores[1:], scores[0]
    ratio = lira(np.where(included[1:], shadow, np.nan), np.where(included[1:], np.nan, shadow), ours, variance="fixed")
    assert one_run(ratio, included[0]).mu > 0.9
    assert one_run(ours, included[0]).mu < 0.2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"observed": [np.nan, 0.0]}, "observed must be finite, got 1 bad entries"),
        ({"observed": 1.0}, "observed must have shape"),
        ({"scores_out": np.zeros((3, 1))}, r"scores_out must have shape \[models, 2\], got shape \(3, 1\)"),
        ({"scores_in": [[1.0, 2.0], [np.nan, 3.0]]}, "scores_in must have at least 2 finite scores for each example"),
        ({"scores_in": [[1.0, 2.0]], "variance": "fixed"}, "at least 1 finite scores, and some example two"),
        ({"scores_in": [[1.0, 2.0], [1.0, 3.0]]}, "scores_in must vary, got equal scores of 1 examples"),
        ({"variance": "global"}, "variance must be one of 'per-example', 'fixed'"),
    ],
)
def test_bad_input_is_named(arguments, message):
    given = {"scores_in": [[1.0, 2.0], [2.0, 3.0]], "scores_out": [[0.0, 0.0], [1.0, 1.0]], "observed": [0.0, 0.0]}
    with pytest.raises(ValueError, match=message):
        lira(**{**given, **arguments})
