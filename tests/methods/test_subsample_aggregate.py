"""Subsample-and-aggregate: votes by hand, shards, an attack on Theorem 7, the budget, errors."""

import math

import numpy as np
import pytest
from scipy import stats
from sklearn.neighbors import KNeighborsClassifier

from dpnotes.accounting import soft_vote_beta
from dpnotes.mechanisms import draw_partitions
from dpnotes.methods import SubsampleAggregate, fit_shards
from dpnotes.methods._subsample_aggregate import equal_shards
from tests.methods.conftest import proved


def model(epsilon=1.0, delta=0.0, **parameters):
    settings = {"answers": 100, "n_models": 20, "noise_seed": 0, "device": "cpu"} | parameters
    return SubsampleAggregate(epsilon, delta, **settings)


def test_votes_are_those_of_models_on_disjoint_shards(pixels):
    """Another road: every model by hand; a shard without records has no vote; without noise the plurality answers."""
    X, y = pixels
    shards = np.random.default_rng(3).integers(12, size=900)
    shards[shards == 5] = 6
    base = KNeighborsClassifier(1)
    models = fit_shards(X[:900], y[:900], n_classes=10, n_models=12, estimator=base, shards=shards, seed=0)
    by_hand = np.zeros((200, 10), dtype=np.int64)
    for shard in set(range(12)) - {5}:
        own = KNeighborsClassifier(1).fit(X[:900][shards == shard], y[:900][shards == shard])
        by_hand[np.arange(200), own.predict(X[900:1100])] += 1
    np.testing.assert_array_equal(models.vote_counts(X[900:1100]), by_hand)
    answered = model(1e6, n_models=12, estimator=base, answers=200).fit(X[:900], y[:900], shards=shards)
    assert (by_hand[np.arange(200), answered.predict(X[900:1100])] == by_hand.max(axis=1)).all()


def test_shards_are_uniform_and_independent():
    """Two of 20 records share one of 5 shards with chance 1/5; in shards of equal size it is 3/19."""
    drawn = {
        "add-remove": [draw_partitions(20, n_chunks=5, n_partitions=1, seed=s).chunk[:, 0] for s in range(4000)],
        "replace-one": [equal_shards(20, n_models=5, seed=s).chunk[:, 0] for s in range(4000)],
    }
    drawn = {adjacency: np.stack(found) for adjacency, found in drawn.items()}
    together = {adjacency: int((found[:, 0] == found[:, 19]).sum()) for adjacency, found in drawn.items()}
    for adjacency, chance, other in (("add-remove", 1 / 5, 3 / 19), ("replace-one", 3 / 19, 1 / 5)):
        assert stats.binomtest(together[adjacency], 4000, chance).pvalue > 1e-3
        assert stats.binomtest(together[adjacency], 4000, other).pvalue < 1e-3
        counts = np.bincount(drawn[adjacency][:, 7], minlength=5)
        assert stats.chisquare(counts).pvalue > 1e-3


def test_attack_stays_below_epsilon_and_catches_theorem_7():
    """One record turns one of six votes; 20,000 answers, each of them claimed to be one-DP."""
    trials, found = 20_000, {}
    X, y = np.arange(6.0)[:, None], np.zeros(6, dtype=np.int64)
    for epsilon, analysis in ((1.0, "tight"), (2.0, "tight"), (1.0, "published")):
        budget = {"epsilon": epsilon * trials, "answers": trials, "analysis": analysis, "classes": [0, 1]}
        answers = []
        for seed, labels in enumerate((np.where(X[:, 0] == 5, 1, 0), y)):
            vote = model(**budget, n_models=6, estimator=KNeighborsClassifier(1), noise_seed=seed)
            answers.append(vote.fit(X, labels, shards=np.arange(6)).predict(np.zeros((trials, 1))))
        found[epsilon, analysis] = proved(*answers, 0.0)
    assert 0.7 < found[1.0, "tight"] <= 1.0 < found[2.0, "tight"]  # the second has half the noise
    assert found[1.0, "published"] > 1.0


def test_answers_have_the_law_of_the_soft_vote(pixels):
    X, y = pixels
    repeats, delta = 6000, 1e-5
    fitted = model(5.0, delta, answers=repeats, n_models=15).fit(X, y)
    counts = fitted._models.vote_counts(X[5:6])[0]
    assert fitted.beta_ == soft_vote_beta(5.0, delta, answers=repeats)
    law = np.exp(fitted.beta_ * counts) / np.exp(fitted.beta_ * counts).sum()
    answers = np.bincount(fitted.predict(np.repeat(X[5:6], repeats, axis=0)), minlength=10)
    assert stats.chisquare(answers, repeats * law).pvalue > 1e-3
    colder = np.exp(4 * fitted.beta_ * counts) / np.exp(4 * fitted.beta_ * counts).sum()
    assert stats.chisquare(answers, repeats * colder).pvalue < 1e-3


def test_published_profile_is_refuted(pixels):
    X, y = pixels
    fitted = model(1.0, analysis="published", answers=10).fit(X, y)
    assert math.isclose(fitted.beta_, 1 / 10)
    assert math.isclose(model(1.0, answers=10).fit(X, y).beta_, 1 / 20)
    assert fitted.profile_.status == "refuted"
    assert fitted.profile_.epsilon(0.0) == pytest.approx(1.0)
