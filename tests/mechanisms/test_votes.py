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
SETTINGS = {
    laplace_vote: {"scale": 3.0},
    gaussian_vote: {"sigma": 4.0},
    soft_vote: {"beta": 0.3},
    confident_vote: {"threshold": 5.0, "sigma_threshold": 2.0, "sigma_answer": 4.0},
}
each_vote = pytest.mark.parametrize("vote", SETTINGS)


def labels_of(vote, counts=COUNTS, **more):
    found = vote(counts, **{**SETTINGS[vote], "seed": 0, **more})
    return found.labels if vote is confident_vote else found


def chances(counts, noise):
    """Chance of each class to be the noisy maximum, by quadrature: not by sampling."""
    found = []
    for c, own in enumerate(counts):
        lead = own - np.delete(counts, c)

        def density(z, lead=lead):
            return noise.pdf(z) * np.prod(noise.cdf(z + lead))

        found.append(integrate.quad(density, -80, 80, points=[0], limit=400)[0])
    assert sum(found) == pytest.approx(1.0, abs=1e-6)  # quadrature
    return np.array(found) / sum(found)


DISTRIBUTIONS = {
    laplace_vote: lambda counts, off: chances(counts, stats.laplace(scale=3.0 * off)),
    gaussian_vote: lambda counts, off: chances(counts, stats.norm(scale=4.0 * off)),
    soft_vote: lambda counts, off: special.softmax(0.3 / off * np.array(counts)),
}


@pytest.mark.parametrize("vote", DISTRIBUTIONS)
def test_votes_have_the_exact_distribution(vote):
    """Chi-square at level 1e-3 for each query; a scale 10% off is rejected."""
    labels = labels_of(vote, n_repeats=TRIALS)

    def p_value(query, off):
        observed = np.bincount(labels[:, query], minlength=4)
        expected = DISTRIBUTIONS[vote](COUNTS[query], off)
        return stats.chisquare(observed, TRIALS * expected).pvalue

    assert p_value(0, 1.0) > LEVEL
    assert p_value(1, 1.0) > LEVEL
    assert p_value(0, 1.1) < LEVEL


def test_confident_vote_has_the_distribution_of_its_two_noises():
    counts = [[7.0, 3.0], [5.0, 5.0]]
    given_noise = {**SETTINGS[confident_vote], "threshold": 8.0, "seed": 4}
    labels, answered = confident_vote(counts, **given_noise, n_repeats=TRIALS)
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
    sure = {"threshold": 5.0, "sigma_threshold": 1e-3, "sigma_answer": 1e-3, "seed": 0}
    labels, answered = confident_vote(
        [[1, 9], [0, 1], [9, 1], [9, 1]], answers=2, n_repeats=3, **sure
    )
    assert labels.tolist() == [[1, -1, 0, -1]] * 3
    assert answered.tolist() == [[True, False, True, False]] * 3


@each_vote
def test_shapes_dtypes_and_streams(vote):
    single = labels_of(vote)
    assert (single.shape, single.dtype) == ((2,), np.int64)
    many = labels_of(vote, n_repeats=5)
    assert (many.shape, many.dtype) == ((5, 2), np.int64)
    np.testing.assert_array_equal(many[0], single)
    for counts, seed in (
        (np.array(COUNTS, dtype=np.int32), 0),
        (COUNTS, np.random.default_rng(0)),
    ):
        again = labels_of(vote, counts, n_repeats=5, seed=seed)
        np.testing.assert_array_equal(again, many)
    assert labels_of(vote, np.empty((0, 3))).shape == (0,)


@each_vote
def test_chunks_change_nothing(vote, monkeypatch):
    whole = labels_of(vote, COUNTS * 5, n_repeats=40)
    # 7 rows of 4 classes: chunks end within a repeat
    monkeypatch.setattr(_votes, "CELLS", 28)
    np.testing.assert_array_equal(labels_of(vote, COUNTS * 5, n_repeats=40), whole)


@each_vote
@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ([1, 2], r"shape \[n_queries, n_classes >= 2\], got shape \(2,\)"),
        ([[1], [2]], r"counts must have shape .* got shape \(2, 1\)"),
        ([[1, -2]], "counts must be finite and >= 0, got others$"),
        ([[1, np.nan]], "counts must be finite and >= 0, got others$"),
        ([[1, np.inf]], "counts must be finite and >= 0, got others$"),
    ],
)
def test_bad_counts_are_named(vote, counts, message):
    with pytest.raises(ValueError, match=message):
        labels_of(vote, counts)


@each_vote
def test_bad_parameters_are_named(vote):
    wrong = [(name, each) for name in SETTINGS[vote] for each in (-1.0, np.nan, np.inf)]
    wrong += [("n_repeats", 0), ("seed", -3)]
    if vote is confident_vote:
        wrong.append(("answers", 0))
    for name, each in wrong:
        with pytest.raises(ValueError, match=f"{name} must be .* got {name}={each}"):
            labels_of(vote, **{name: each})
    with pytest.raises(TypeError, match="seed must be an integer >= 0"):
        labels_of(vote, seed=1.5)


@given(data=st.data(), n_classes=st.integers(1, 6), n_models=st.integers(1, 9))
def test_counts_equal_counting_by_hand(data, n_classes, n_models):
    codes = st.lists(st.integers(0, n_classes - 1), min_size=4, max_size=4)
    votes = np.array([data.draw(codes) for _ in range(n_models)])
    counts = vote_counts(votes, n_classes)
    for query in range(4):
        column = votes[:, query].tolist()
        assert counts[query].tolist() == [column.count(c) for c in range(n_classes)]


@pytest.mark.parametrize(
    ("votes", "message"),
    [
        ([0, 1], r"votes must have shape \[n_models, n\]"),
        ([[0, 2]], r"votes must be codes in 0\.\.1, got others"),
        ([[0, -1]], "votes must be codes"),
    ],
)
def test_bad_votes_are_named(votes, message):
    with pytest.raises(ValueError, match=message):
        vote_counts(np.array(votes), 2)
