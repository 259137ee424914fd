"""Bets against a claim: their mean under a true claim, and how soon a false one falls."""

import math
from itertools import product

import numpy as np
import pytest
from scipy import stats

from dpnotes.accounting import approximate, dp_sgd, gaussian, pure
from dpnotes.auditing import Betting

ANSWERS = list(product([0.0, 1.0], repeat=2))


@pytest.mark.parametrize(
    ("claim", "tpr", "fpr"),
    [
        (pure(1.0), 1 / (1 + np.exp(-1.0)), 1 / (1 + np.exp(1.0))),
        (approximate(0.0, 0.3), 0.3, 0.0),
    ],
)
def test_wealth_against_a_true_claim_has_a_mean_of_at_most_one(claim, tpr, fpr):
    """Over all outcomes of four pairs of a mechanism that uses all that the claim
    allows.
    """
    mean = reached = 0.0
    for outcome in product(ANSWERS, repeat=4):
        audit = Betting(claim, confidence=0.3)
        for pair in outcome:
            audit.update(*pair)
        chance = math.prod(
            (tpr if ours else 1 - tpr) * (fpr if theirs else 1 - fpr)
            for ours, theirs in outcome
        )
        mean += chance * audit.wealth
        reached += chance * audit.refuted
    assert 0.5 < mean <= 1 + 1e-12
    assert 0.005 < reached <= 0.7


@pytest.mark.parametrize(
    "claim",
    [gaussian(sigma=1.0), dp_sgd(noise_multiplier=1.0, sample_rate=0.2, steps=1)],
)
def test_no_bet_has_a_positive_mean_against_a_true_claim(claim):
    """Whatever the past was: the next payoff's mean by the mechanism's own
    distributions.
    """

    def tail(t, rate):
        return (1 - rate) * stats.norm.sf(t) + rate * stats.norm.sf(t - 1)

    rate = 1.0 if claim.mechanism == "gaussian" else 0.2
    for seed in range(20):
        generator, audit = np.random.default_rng(seed), Betting(claim)
        for _ in range(seed):
            # a past that makes one bold
            audit.update(generator.normal(2.0), generator.normal())
        bet = audit._bet
        ours, theirs = tail(bet.threshold, rate), tail(bet.threshold, 0.0)
        p, q = (ours, theirs) if bet.above else (1 - ours, 1 - theirs)
        p, q = (q, p) if bet.swapped else (p, q)
        assert bet.stake * (p - bet.factor * q - bet.delta) <= 1e-12
        assert 0 <= bet.stake * (bet.factor + bet.delta) < 1
        assert seed < 3 or bet.stake > 0


def test_false_claims_fall_soon_and_true_ones_stand():
    refuted, pairs = 0, []
    for seed in range(60):
        generator = np.random.default_rng(seed)
        noise = generator.normal(size=(200, 2))
        true, false = Betting(gaussian(sigma=0.5)), Betting(gaussian(sigma=2.0))
        for member, nonmember in noise + np.array([2.0, 0.0]):
            true.update(member, nonmember)
            if not false.refuted:
                false.update(member, nonmember)
        refuted += true.refuted
        pairs.append(false.pairs)
    assert refuted <= stats.binom.isf(1e-9, 60, 0.05)
    assert np.median(pairs) < 25
    assert max(pairs) < 200


def test_several_scores_and_both_directions():
    generator = np.random.default_rng(1)
    audit = Betting(pure(0.5))
    while not audit.refuted:
        audit.update(
            [generator.normal(), -generator.normal(3.0)],
            [generator.normal(), -generator.normal()],
        )
    assert audit._bet.column == 1
    assert audit.pairs < 40
    assert audit.wealth >= 20


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        ((np.nan, 1.0), "must hold no NaN"),
        (([1.0, 2.0], [1.0]), "must have shape"),
        (([1.0, 2.0], [1.0, 2.0]), r"must have shape \[1\], got \[\[2\], \[2\]\]"),
    ],
)
def test_bad_bets_are_named(pair, message):
    audit = Betting(pure(1.0))
    audit.update(1.0, 0.0)
    with pytest.raises(ValueError, match=message):
        audit.update(*pair)
    with pytest.raises(ValueError, match="claim must be for the adjacency of the runs"):
        Betting(pure(1.0), adjacency="zero-out")
