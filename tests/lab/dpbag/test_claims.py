"""The evidence on differentially private bagging: a wrong ingredient makes it object."""

import math
from fractions import Fraction

import numpy as np
import pytest

from dpnotes import accounting
from dpnotes.lab.dpbag import claims, partitions, votes
from dpnotes.lab.exact_votes import noisy_vote_pure_level
from dpnotes.lab.ledger import LEDGER

CLAIMS = {claim.number: claim for claim in LEDGER}


def quieter(**arguments):
    """A wrong accountant: half of the noise counted as all of it."""
    return accounting.noisy_vote(**{**arguments, "noise": arguments["noise"] / 2})


def scaled_answers(factor):
    return lambda *budget, **kwargs: int(factor * accounting.noisy_vote_answers(*budget, **kwargs))


def one_fraction(*arguments, **kwargs):
    """The moments, or the labels, of records whose models all agree."""
    return accounting.papers.personalised_moments(*arguments, **{**kwargs, "m": np.ones_like(kwargs["m"])})


def epsilon_of(factor):
    return lambda *, noise, n_models: noisy_vote_pure_level(noise=factor * noise, n_models=n_models)


WRONG = {  # wrong versions of the formulas themselves are in tests/claims
    "22, wrong epsilon": (22, claims, "noisy_vote_pure_level", epsilon_of(0.9)),
    "23, no gain by m": (23, partitions, "largest_fraction", lambda cut: 1.0),
    "24, no gain by m": (24, partitions, "personalised_moments", one_fraction),
    "24, other counts": (24, claims, "personalised_answers", lambda *_, **__: 27),
    "24, too many labels": (24, claims, "noisy_vote_answers", scaled_answers(2)),
    "24, wrong epsilon of printed numbers": (24, claims, "noisy_vote", quieter),
    "25, labels of the tight accountant": (25, claims, "noisy_vote_answers", scaled_answers(1.1)),
    "26, too many labels": (26, claims, "noisy_vote_answers", scaled_answers(2)),
    "26, too few labels": (26, claims, "noisy_vote_answers", scaled_answers(0.5)),
    "27, wrong epsilon": (27, claims, "noisy_vote_pure_level", epsilon_of(1.1)),
    "27, wrong guarantee": (27, claims, "noisy_vote", quieter),
    "27, balance without loss": (27, partitions, "balanced_partitions", partitions.assigned),
    "29, no gain by m": (29, claims, "personalised_answers", lambda *_, **__: 7),
}


@pytest.mark.parametrize("case", WRONG)
def test_evidence_notices_a_wrong_ingredient(case, monkeypatch):
    number, module, name, wrong = WRONG[case]
    monkeypatch.setattr(module, name, wrong)
    assert not CLAIMS[number].evidence().supports


@pytest.mark.parametrize("number", [27, 28])
def test_evidence_notices_a_wrong_distribution(number, monkeypatch):
    """The votes are given half of the noise."""
    distribution = votes.answer_distribution
    monkeypatch.setattr(votes, "answer_distribution", lambda counts, *, scale: distribution(counts, scale=scale / 2))
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


def test_balanced_partitions_by_counting():
    cuts = partitions.balanced_partitions("abcde", 2)
    assert len(cuts) == 2 * math.comb(5, 2)
    assert len(partitions.assigned("abcde", 2)) == 2**5


@pytest.mark.parametrize(("n", "size"), [(2, 2), (3, 1), (3, 2)])
def test_a_record_is_seldom_in_the_chunk_that_grew(n, size):
    """Counted over all balanced partitions; the epsilon of the one learner is that of its votes on them."""
    noise = 0.7
    records = "abcdefgh"[: n * size + 1]
    cuts = partitions.balanced_partitions(records, n)
    ones = [sum("a" in chunk or len(chunk) > size for chunk in cut) for cut in cuts]
    assert Fraction(ones.count(1), len(ones)) == Fraction(size + 1, n * size + 1)
    answers = [votes.answer_distribution(np.array([n - one, one]), scale=1 / noise)[1] for one in range(3)]
    epsilon = math.log(np.mean([answers[one] for one in ones]) / answers[0])
    assert math.isclose(partitions.balanced_epsilon(n=n, size=size, noise=noise), epsilon, rel_tol=1e-12)


def test_the_example_is_a_pair_of_neighbours():
    """The record joins the first smallest chunk of each partition, and no other chunk changes."""
    for cut, grown in zip(partitions.EXAMPLE, partitions.WITH_RECORD, strict=True):
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
