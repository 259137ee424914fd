"""Private votes: exact distributions with power, the stated guarantee attained,
repeats and chunks, bad input.
"""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import integrate, special, stats

from dpnotes.mechanisms import (
    _votes,
    confident_vote,
    gaussian_vote,
    laplace_vote,
    soft_vote,
    vote_counts,
)

LEVEL = 1e-3  # false positives of each test; seeds are fixed
TRIALS = 40_000
COUNTS = [[6.0, 4.0, 2.0, 0.0], [3.0, 3.0, 3.0, 3.0]]


VOTES = {
    "laplace": lambda counts, seed=0, **more: laplace_vote(
        counts, scale=3.0, seed=seed, **more
    ),
    "gaussian": lambda counts, seed=0, **more: gaussian_vote(
        counts, sigma=4.0, seed=seed, **more
    ),
    "soft": lambda counts, seed=0, **more: soft_vote(
        counts, beta=0.3, seed=seed, **more
    ),
    "confident": lambda counts, seed=0, **more: (
        confident_vote(
            counts,
            threshold=5.0,
            sigma_threshold=2.0,
            sigma_answer=4.0,
            seed=seed,
            **more,
        ).labels
    ),
}


def argmax_law(counts, density, distribution):
    """Chance of each class to be the noisy maximum, by quadrature: not by sampling."""
    counts = np.asarray(counts, dtype=float)

    def chance(c):
        rivals = np.delete(counts, c)
        return integrate.quad(
            lambda z: density(z) * np.prod(distribution(z + counts[c] - rivals)),
            -80,
            80,
            points=[0],
            limit=400,
        )[0]

    return np.array([chance(c) for c in range(len(counts))])


def soft_law(counts, beta):
    return special.softmax(beta * np.asarray(counts))


DISTRIBUTIONS = {
    "laplace": lambda counts, off: argmax_law(
        counts, stats.laplace(scale=3.0 * off).pdf, stats.laplace(scale=3.0 * off).cdf
    ),
    "gaussian": lambda counts, off: argmax_law(
        counts, stats.norm(scale=4.0 * off).pdf, stats.norm(scale=4.0 * off).cdf
    ),
    "soft": lambda counts, off: soft_law(counts, 0.3 / off),
}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_votes_have_the_exact_law(name):
    """Chi-square at level 1e-3 for each query; a scale 10% off is rejected."""
    labels = VOTES[name](COUNTS, n_repeats=TRIALS)
    for query, counts in enumerate(COUNTS):
        observed = np.bincount(labels[:, query], minlength=4)
        distribution = DISTRIBUTIONS[name](counts, 1.0)
        assert distribution.sum() == pytest.approx(1.0, abs=1e-6)  # quadrature
        assert (
            stats.chisquare(observed, TRIALS * distribution / distribution.sum()).pvalue
            > LEVEL
        )
    wrong = DISTRIBUTIONS[name](COUNTS[0], 1.1)
    assert (
        stats.chisquare(
            np.bincount(labels[:, 0], minlength=4), TRIALS * wrong / wrong.sum()
        ).pvalue
        < LEVEL
    )


def test_confident_vote_has_the_law_of_its_two_noises():
    counts = [[7.0, 3.0], [5.0, 5.0]]
    labels, answered = confident_vote(
        counts,
        threshold=8.0,
        sigma_threshold=2.0,
        sigma_answer=4.0,
        seed=4,
        n_repeats=TRIALS,
    )
    assert (labels.dtype, answered.dtype) == (np.int64, np.bool_)
    assert ((labels == -1) == ~answered).all()
    for query, (first, second) in enumerate(counts):
        given_answer = int(answered[:, query].sum())
        reached = stats.norm.sf((8.0 - max(first, second)) / 2.0)
        assert stats.binomtest(given_answer, TRIALS, reached).pvalue > LEVEL
        assert stats.binomtest(given_answer, TRIALS, reached * 0.9).pvalue < LEVEL
        # given that the threshold is reached the answer has GNMax's distribution: the
        # two noises are independent
        lost = stats.norm.sf((first - second) / (4.0 * np.sqrt(2)))
        wrong = int((labels[answered[:, query], query] == 1).sum())
        assert stats.binomtest(wrong, given_answer, lost).pvalue > LEVEL
    together = np.corrcoef(answered.T)[0, 1]
    assert abs(together) < 4 / np.sqrt(TRIALS)  # queries are compared independently


def test_confident_vote_stops_for_good():
    sure = {"threshold": 0.0, "sigma_threshold": 1e-3, "sigma_answer": 1e-3, "seed": 0}
    labels, answered = confident_vote(
        [[1, 9], [9, 1], [1, 9], [9, 1]], answers=2, n_repeats=3, **sure
    )
    assert labels.tolist() == [[1, 0, -1, -1]] * 3
    assert answered.tolist() == [[True, True, False, False]] * 3
    _, skipped = confident_vote(
        [[9, 1], [0, 1], [9, 1], [9, 1]], answers=2, **{**sure, "threshold": 5.0}
    )
    assert skipped.tolist() == [True, False, True, False]
    _, never = confident_vote([[9, 1]], **{**sure, "threshold": 1e6})
    assert not never.any()


@pytest.mark.parametrize("name", VOTES)
def test_shapes_dtypes_and_streams(name):
    vote = VOTES[name]
    single = vote(COUNTS)
    assert (single.shape, single.dtype) == ((2,), np.int64)
    many = vote(COUNTS, n_repeats=5)
    assert (many.shape, many.dtype) == ((5, 2), np.int64)
    np.testing.assert_array_equal(many[0], single)
    np.testing.assert_array_equal(
        vote(np.array(COUNTS, dtype=np.int32), n_repeats=5), many
    )
    np.testing.assert_array_equal(
        vote(COUNTS, seed=np.random.default_rng(0), n_repeats=5), many
    )
    assert vote(np.empty((0, 3))).shape == (0,)


@pytest.mark.parametrize("name", VOTES)
def test_chunks_change_nothing(name, monkeypatch):
    whole = VOTES[name](COUNTS * 5, n_repeats=40)
    # 7 rows of 4 classes: chunks end within a repeat
    monkeypatch.setattr(_votes, "CELLS", 28)
    np.testing.assert_array_equal(VOTES[name](COUNTS * 5, n_repeats=40), whole)


BAD = [
    (
        [1, 2],
        {},
        r"counts must have shape \[n_queries, n_classes >= 2\], got shape \(2,\)",
    ),
    ([[1], [2]], {}, r"counts must have shape .* got shape \(2, 1\)"),
    ([[1, -2]], {}, r"counts must be >= 0, got counts=-2\.0"),
    ([[1, np.nan]], {}, "counts must be >= 0, got counts=nan"),
    ([[1, np.inf]], {}, "counts must be finite and >= 0, got counts=inf"),
    ([[1, 2]], {"n_repeats": 0}, "n_repeats must be >= 1, got n_repeats=0"),
    ([[1, 2]], {"seed": -3}, "seed must be >= 0, got seed=-3"),
]


@pytest.mark.parametrize("name", VOTES)
@pytest.mark.parametrize(("counts", "more", "message"), BAD)
def test_bad_input_is_named(name, counts, more, message):
    with pytest.raises(ValueError, match=message):
        VOTES[name](counts, **more)


PAIR, GOOD = (
    [[1, 2]],
    {"threshold": 1.0, "sigma_threshold": 1.0, "sigma_answer": 1.0, "seed": 0},
)


@pytest.mark.parametrize(
    ("vote", "message"),
    [
        (
            lambda: laplace_vote(PAIR, scale=0.0, seed=0),
            r"scale must be > 0, got scale=0\.0",
        ),
        (
            lambda: gaussian_vote(PAIR, sigma=np.inf, seed=0),
            "sigma must be finite and > 0, got sigma=inf",
        ),
        (
            lambda: soft_vote(PAIR, beta=-1.0, seed=0),
            r"beta must be > 0, got beta=-1\.0",
        ),
        (
            lambda: confident_vote(PAIR, **GOOD | {"sigma_threshold": 0.0}),
            "sigma_threshold must be .* got sigma_thr",
        ),
        (
            lambda: confident_vote(PAIR, **GOOD | {"sigma_answer": -1.0}),
            "sigma_answer must be .* got sigma_answer=",
        ),
        (
            lambda: confident_vote(PAIR, **GOOD | {"threshold": np.nan}),
            "threshold must be .* got threshold=",
        ),
        (
            lambda: confident_vote(PAIR, **GOOD | {"answers": 0}),
            "answers must be .* got answers=",
        ),
        (
            lambda: vote_counts(np.array([0, 1]), 2),
            r"votes must have shape \[n_models, n\]",
        ),
        (
            lambda: vote_counts(np.array([[0, 2]]), 2),
            r"votes must be codes in 0\.\.1, got others",
        ),
        (lambda: vote_counts(np.array([[0, -1]]), 2), "votes must be codes"),
    ],
)
def test_bad_parameters_are_named(vote, message):
    with pytest.raises(ValueError, match=message):
        vote()
    with pytest.raises(TypeError, match="seed must be an integer >= 0"):
        soft_vote(PAIR, beta=1.0, seed=1.5)


@given(
    st.integers(1, 6).flatmap(
        lambda c: st.tuples(
            st.just(c),
            st.lists(
                st.lists(st.integers(0, c - 1), min_size=4, max_size=4),
                min_size=1,
                max_size=9,
            ),
        )
    )
)
def test_counts_equal_counting_by_hand(case):
    n_classes, votes = case
    counts = vote_counts(np.array(votes), n_classes)
    for query in range(4):
        column = [row[query] for row in votes]
        assert counts[query].tolist() == [column.count(c) for c in range(n_classes)]
