"""The evidence on differentially private bagging: a wrong ingredient makes it object."""

import math
from fractions import Fraction

import numpy as np
import pytest

from dpnotes import accounting
from dpnotes.lab import exact_votes
from dpnotes.lab.dpbag import claims, votes
from dpnotes.lab.ledger import LEDGER

CLAIMS = {claim.number: claim for claim in LEDGER}
DISTRIBUTION = votes.answer_distribution


def scaled(factor, name, of=accounting):
    """An accountant that is told of ``factor`` times the noise."""
    return lambda *args, **kwargs: getattr(of, name)(*args, **{**kwargs, "noise": factor * kwargs["noise"]})


def one_fraction(*arguments, **kwargs):
    """The moments of records whose models all agree."""
    return accounting.papers.personalised_moments(*arguments, **{**kwargs, "m": np.ones_like(kwargs["m"])})


WRONG = {  # by claim: what of a module is replaced by what
    22: (claims, "noisy_vote_pure_level", scaled(0.9, "noisy_vote_pure_level", exact_votes)),
    23: (votes, "largest_fraction", lambda cut: 1.0),
    24: (votes, "personalised_moments", one_fraction),
    25: (claims, "noisy_vote_answers", scaled(0.9, "noisy_vote_answers")),
    26: (claims, "noisy_vote_answers", scaled(0.5, "noisy_vote_answers")),
    27: (votes, "balanced_partitions", votes.assigned),
    28: (votes, "answer_distribution", lambda counts, *, scale: DISTRIBUTION(counts, scale=scale / 2)),
    29: (claims, "personalised_answers", lambda *_, **__: 7),
}


@pytest.mark.parametrize("number", WRONG)
def test_evidence_notices_a_wrong_ingredient(number, monkeypatch):
    monkeypatch.setattr(*WRONG[number])
    assert not CLAIMS[number].evidence().supports


@pytest.mark.parametrize("gap", [0, 1, 7, 60])
def test_distribution_of_two_classes_is_that_of_a_difference_of_laplace_variables(gap):
    scale = 2.5
    expected = (2 + gap / scale) / 4 * math.exp(-gap / scale)
    assert math.isclose(votes.answer_distribution(np.array([gap, 0]), scale=scale)[1], expected, rel_tol=1e-12)


def test_distribution_of_three_classes_agrees_with_draws():
    counts, scale, runs = np.array([3, 1, 0]), 2.0, 100_000
    expected = votes.answer_distribution(counts, scale=scale)
    assert math.isclose(expected.sum(), 1.0, abs_tol=1e-12)
    noisy = counts + np.random.default_rng(22).laplace(scale=scale, size=(runs, 3))
    seen = np.bincount(noisy.argmax(-1), minlength=3) / runs
    assert (np.abs(seen - expected) < 4 * np.sqrt(expected * (1 - expected) / runs)).all()
    other = votes.answer_distribution(counts, scale=1.05 * scale)  # power: a scale 5% off is noticed
    assert (np.abs(seen - other) > 4 * np.sqrt(expected * (1 - expected) / runs)).any()


def test_neighbouring_votes_are_all_there_and_sum_to_one():
    pairs = votes.neighbouring_votes(n_classes=3, k=2, n=2, noise=0.5)
    assert len(pairs.before) == 6**3  # own votes, the same changed, votes of the others
    assert (pairs.change.sum(-1) == 0).all()
    assert pairs.m.min() == 1  # two models leave one of three classes without a vote
    np.testing.assert_allclose(pairs.before.sum(-1), 1.0, atol=1e-12)


@pytest.mark.parametrize(("n", "size"), [(2, 2), (3, 1), (3, 2)])
def test_a_record_is_seldom_in_the_chunk_that_grew(n, size):
    """Counted over all balanced partitions; the epsilon of the one learner is that of its votes on them."""
    noise = 0.7
    records = "abcdefgh"[: n * size + 1]
    cuts = votes.balanced_partitions(records, n)
    ones = [sum("a" in chunk or len(chunk) > size for chunk in cut) for cut in cuts]
    assert Fraction(ones.count(1), len(ones)) == Fraction(size + 1, n * size + 1)
    answers = [votes.answer_distribution(np.array([n - one, one]), scale=1 / noise)[1] for one in range(3)]
    epsilon = math.log(np.mean([answers[one] for one in ones]) / answers[0])
    assert math.isclose(votes.balanced_epsilon(n=n, size=size, noise=noise), epsilon, rel_tol=1e-12)


def test_the_example_is_a_pair_of_neighbours():
    """The record joins the first smallest chunk of each partition, and no other chunk changes."""
    for cut, grown in zip(votes.EXAMPLE, votes.WITH_RECORD, strict=True):
        smallest = min(map(len, cut))
        first = next(index for index, chunk in enumerate(cut) if len(chunk) == smallest)
        assert grown == tuple(chunk + "e" * (index == first) for index, chunk in enumerate(cut))


@pytest.mark.parametrize(("first", "second", "tolerance"), [(0.0, 0.4, 1e-13), (0.3, 0.4, 1e-13), (0.3, 0.0, 1e-5)])
def test_two_rounds_without_a_choice_are_one_gaussian(first, second, tolerance):
    """Without a second shift the integrand has a kink, which the quadrature feels."""
    epsilons = np.array([0.0, 0.2, 1.0])
    total = votes.two_rounds(epsilons, (first, second, second), threshold=0.5)
    expected = accounting.gaussian(sigma=1 / math.hypot(first, second)).delta(epsilons)
    np.testing.assert_allclose(total, expected, rtol=0, atol=tolerance)
