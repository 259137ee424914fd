"""Votes of models on subsamples and shards: rebuilt by hand, budgets, attacks, the
distance of neighbours, copies.
"""

import math
import pickle

import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from dpnotes import Bagging
from dpnotes.accounting import bagging, chunk_filter, soft_vote_beta
from dpnotes.learners import BoostedTreesClassifier, NetworkClassifier
from dpnotes.mechanisms import draw_partitions, draw_subsets, hash_chunks, stream
from dpnotes.methods import (
    PATE,
    BudgetExhausted,
    FilteredVote,
    SubsampleAggregate,
    _filtered_vote,
    fit_shards,
    secret_seed,
)
from dpnotes.methods._subsample_aggregate import equal_shards
from tests.methods.conftest import Votes, proved, repeated


@pytest.mark.parametrize(
    "estimator",
    [
        None,
        LogisticRegression(max_iter=500),
        make_pipeline(StandardScaler(), DecisionTreeClassifier()),
        NetworkClassifier(
            (1, 8, 8), kernel_size=3, padding=1, epochs=25, learning_rate=3e-3
        ),
    ],
    ids=["default", "logistic", "pipeline", "network"],
)
def test_any_base_learner(pixels, estimator):
    X, y = pixels
    model = Bagging(subsample=200, n_models=5, estimator=estimator, noise_seed=0).fit(
        X[:1200], y[:1200]
    )
    score = model.score(X[1200:], y[1200:])
    assert score > 0.7
    again = clone(model).fit(X[:1200], y[:1200])
    assert again.score(X[1200:], y[1200:]) == score
    assert model.profile_.to_dict() == repeated(
        bagging(n=1200, subsample=200, n_models=5, adjacency="zero-out")
    )


def test_vote_is_the_majority_of_models_trained_on_the_stated_subsamples(pixels):
    """Another road: rebuild every model from the seed and count votes by hand; ties
    go to the first class.
    """
    X, y = pixels
    model = Bagging(
        subsample=20, n_models=4, estimator=KNeighborsClassifier(1), noise_seed=7
    ).fit(X, y)
    seed = int(np.random.RandomState(7).randint(2**31, size=2)[0])
    subsets = draw_subsets(len(X), subsample=20, n_models=4, replace=True, seed=seed)
    counts = np.zeros((300, 10))
    for rows in subsets:
        alone = KNeighborsClassifier(1).fit(X[rows], y[rows])
        counts[np.arange(300), alone.predict(X[:300])] += 1
    # the first of equal counts is the largest
    np.testing.assert_array_equal(model.predict(X[:300]), counts.argmax(axis=1))
    np.testing.assert_array_equal(model.predict_proba(X[:300]), counts / 4)


@pytest.mark.parametrize(
    "estimator",
    [None, NetworkClassifier(None, architecture="mlp", epochs=1, device="cpu")],
)
def test_a_label_that_is_no_class_empties_the_subsamples_that_drew_it(estimator):
    X = np.arange(20.0, dtype=np.float32)[:, None]
    y = np.repeat([0, 1], 10)
    make = Bagging(
        subsample=5,
        n_models=6,
        estimator=estimator,
        classes=[0, 1],
        replace=False,
        noise_seed=0,
    )
    whole = clone(make).fit(X, y)
    emptied = clone(make).fit(X, np.where(np.arange(20) == 3, 2, y))
    assert emptied.profile_.to_dict() == whole.profile_.to_dict()
    seed = int(np.random.RandomState(0).randint(2**31, size=2)[0])
    subsets = draw_subsets(20, subsample=5, n_models=6, replace=False, seed=seed)
    kept = ~(subsets == 3).any(axis=1)
    assert 0 < kept.sum() < 6
    votes = [fit._fitted.model.votes(X)[kept] for fit in (whole, emptied)]
    np.testing.assert_array_equal(*votes)
    nothing = clone(make).fit(X, y + 5)
    assert (nothing.predict_proba(X) == 0).all()


def voting(epsilon=1.0, delta=0.0, **parameters):
    settings = {
        "answers": 100,
        "n_models": 20,
        "noise_seed": 0,
        "device": "cpu",
    } | parameters
    return SubsampleAggregate(epsilon, delta, **settings)


def test_votes_are_those_of_models_on_disjoint_shards(pixels):
    """Another road: every model by hand; a shard without records has no vote;
    without noise the plurality answers.
    """
    X = pixels[0][:900]
    y = pixels[1][:900]
    asked = pixels[0][900:1200]
    base = KNeighborsClassifier(1)
    shards = np.random.default_rng(3).integers(12, size=900)
    shards[shards == 5] = 6
    by_hand = np.zeros((300, 10), dtype=np.int64)
    for shard in set(range(12)) - {5}:
        own = KNeighborsClassifier(1).fit(X[shards == shard], y[shards == shard])
        by_hand[np.arange(300), own.predict(asked)] += 1
    models = fit_shards(
        X, y, n_classes=10, n_models=12, estimator=base, shards=shards, seed=0
    )
    np.testing.assert_array_equal(models.vote_counts(asked), by_hand)
    vote = voting(1e6, n_models=12, estimator=base, answers=300)
    answers = vote.fit(X, y, shards=shards).predict(asked)
    pate = PATE(
        estimator=base, n_models=12, sigma_answer=1e-3, keep_votes=True, noise_seed=0
    )
    # as hash_chunks gives one partition
    pate.fit(X, y, public=asked, shards=shards[:, None])
    for labels in (answers, pate.labels_):
        assert (by_hand[np.arange(300), labels] == by_hand.max(axis=1)).all()
    np.testing.assert_allclose(pate.agreement_, by_hand.max(axis=1) / 12)
    student = KNeighborsClassifier(1).fit(asked, pate.labels_)
    np.testing.assert_array_equal(
        pate.predict(pixels[0][1200:]), student.predict(pixels[0][1200:])
    )


def test_shards_of_equal_size_are_uniform():
    """Two of 20 records share one of 5 shards with chance 3/19; with independent
    shards it would be 1/5.
    """
    drawn = [equal_shards(20, n_models=5, seed=s).chunk[:, 0] for s in range(4000)]
    shards = np.stack(drawn)
    together = int((shards[:, 0] == shards[:, 19]).sum())
    assert stats.binomtest(together, 4000, 3 / 19).pvalue > 1e-3
    assert stats.binomtest(together, 4000, 1 / 5).pvalue < 1e-3
    assert stats.chisquare(np.bincount(shards[:, 7], minlength=5)).pvalue > 1e-3


def test_attack_stays_below_epsilon_and_catches_theorem_7():
    """One record turns one of six votes; 20,000 answers, each of them claimed to be
    one-DP.
    """
    trials = 20_000
    found = {}
    X = np.arange(6.0)[:, None]
    y = np.zeros(6, dtype=np.int64)
    learner = KNeighborsClassifier(1)
    for epsilon, analysis in ((1.0, "tight"), (2.0, "tight"), (1.0, "published")):
        vote = voting(
            epsilon * trials,
            answers=trials,
            analysis=analysis,
            classes=[0, 1],
            n_models=6,
            estimator=learner,
        )
        answers = []
        for seed, labels in enumerate((np.where(X[:, 0] == 5, 1, 0), y)):
            vote.set_params(noise_seed=seed).fit(X, labels, shards=np.arange(6))
            answers.append(vote.predict(np.zeros((trials, 1))))
        found[epsilon, analysis] = proved(*answers, 0.0)
    # the second has half the noise
    assert 0.7 < found[1.0, "tight"] <= 1.0 < found[2.0, "tight"]
    assert found[1.0, "published"] > 1.0


def test_answers_have_the_law_of_the_soft_vote(pixels):
    X, y = pixels
    repeats = 6000
    delta = 1e-5
    fitted = voting(5.0, delta, answers=repeats, n_models=15).fit(X, y)
    counts = fitted._fitted.model.vote_counts(X[5:6])[0]
    assert fitted.beta_ == soft_vote_beta(5.0, delta, answers=repeats)
    law = np.exp(fitted.beta_ * counts) / np.exp(fitted.beta_ * counts).sum()
    answers = np.bincount(
        fitted.predict(np.repeat(X[5:6], repeats, axis=0)), minlength=10
    )
    assert stats.chisquare(answers, repeats * law).pvalue > 1e-3
    colder = np.exp(4 * fitted.beta_ * counts) / np.exp(4 * fitted.beta_ * counts).sum()
    assert stats.chisquare(answers, repeats * colder).pvalue < 1e-3


def test_published_profile_is_refuted(pixels):
    X, y = pixels
    fitted = voting(1.0, analysis="published", answers=10).fit(X, y)
    assert math.isclose(fitted.beta_, 1 / 10)
    assert math.isclose(voting(1.0, answers=10).fit(X, y).beta_, 1 / 20)
    assert fitted.profile_.status == "refuted"
    assert fitted.profile_.epsilon(0.0) == pytest.approx(1.0)


@pytest.mark.parametrize("k", [1, 3])
def test_equals_a_filter_kept_by_hand(standardised, k):
    """Teachers one at a time with scikit-learn, budgets in a list, queries one by
    one.
    """
    X, y = standardised
    X, y, queries = X[:200], y[:200], X[200:]
    model = FilteredVote(
        n_models=8,
        n_partitions=k,
        answers=40,
        sigma=1.0,
        confidence=0.9,
        device="cpu",
        noise_seed=3,
    ).fit(X, y)
    seed = secret_seed(3)
    split = int.from_bytes(stream(seed, 2).bytes(16), "little")
    cut = draw_partitions(200, n_chunks=8, n_partitions=k, seed=split)
    generator = stream(seed, 1)
    teachers = [
        LogisticRegression(tol=1e-12, max_iter=10_000).fit(X[rows], y[rows])
        for rows in cut.subsets()
    ]
    spent = [0] * (8 * k)
    expected = []
    for x in queries:
        counts = np.zeros(2)
        for j, teacher in enumerate(teachers):
            shares = teacher.predict_proba(x[None])[0]
            if shares.max() >= 0.9 and spent[j] < 40:
                spent[j] += 1
                counts[shares.argmax()] += 1 / k
        expected.append(int((counts + generator.normal(0, 1.0, 2)).argmax()))
    assert model.predict(queries).tolist() == expected
    assert model.ledger_.spent.tolist() == spent
    assert model.ledger_.retired == spent.count(40) > 0
    assert model.ledger_.answered == len(queries)


@pytest.mark.parametrize(
    "estimator", [None, BoostedTreesClassifier(n_trees=5, device="cpu")]
)
def test_answers_do_not_depend_on_how_queries_are_asked(
    standardised, monkeypatch, estimator
):
    X, y = standardised
    asked = {"answers": 30, "sigma": 2.0, "confidence": 0.8, "noise_seed": 0}
    make = FilteredVote(estimator=estimator, n_models=10, device="cpu", **asked)
    whole = clone(make).fit(X[:300], y[:300])
    expected = whole.predict(X[300:])
    parts = clone(make).fit(X[:300], y[:300])
    monkeypatch.setattr(_filtered_vote, "QUERIES", 13)
    found = np.concatenate(
        [parts.predict(X[300:301]), parts.predict(X[301:400]), parts.predict(X[400:])]
    )
    assert found.tolist() == expected.tolist()
    assert parts.ledger_.spent.tolist() == whole.ledger_.spent.tolist()


def test_answers_go_on_without_end_and_are_noise_when_all_are_silent():
    """1,000 answers of two classes without a vote: 500 each, within 5 standard
    deviations.
    """
    X = np.arange(30.0)[:, None]
    y = np.arange(30) % 2
    learner = Votes(lambda own, query: 1)
    model = FilteredVote(
        estimator=learner, n_models=5, answers=10, sigma=0.1, noise_seed=0
    ).fit(X, y)
    assert model.predict(np.zeros((10, 1))).tolist() == [1] * 10
    assert model.ledger_.retired == 5
    assert abs(model.predict(np.zeros((1000, 1))).sum() - 500) < 5 * np.sqrt(250)
    assert model.ledger_.spent.tolist() == [10] * 5


@pytest.mark.parametrize("k", [1, 3])
def test_distance_of_neighbours_stays_within_the_guarantee(monkeypatch, k):
    """Sum over all queries of the squared shift, on the worst of many learners: at
    most 2 budget, and attained.
    """
    tables = []
    monkeypatch.setattr(
        _filtered_vote,
        "gaussian_vote",
        lambda counts, sigma, seed: (tables.append(counts), np.zeros(len(counts), int))[
            1
        ],
    )
    n = 30
    budget = 6
    chunks = hash_chunks(
        [str(i) for i in range(n + 1)], n_chunks=8, n_partitions=k, key=b"a"
    )
    # a teacher of record n votes against the others at every query
    whims = [lambda own, query: int(n in own)]
    whims += [lambda own, query, s=s: hash((s, own, query)) % 3 for s in range(30)]
    largest = 0.0
    model = FilteredVote(
        n_models=8, n_partitions=k, answers=budget, sigma=2.0, noise_seed=0
    )
    for whim in whims:
        model.set_params(estimator=Votes(whim))
        pair = []
        for records in (n, n + 1):
            X = np.arange(float(records))[:, None]
            model.fit(X, np.arange(records) % 3, chunks=chunks[:records])
            tables.clear()
            model.predict(np.arange(60.0)[:, None])
            pair.append(np.concatenate(tables))
        squared = float(((pair[1] - pair[0]) ** 2).sum())
        assert squared <= 2 * budget + 1e-9
        largest = max(largest, squared)
    assert largest == pytest.approx(2 * budget)
    assert model.profile_.advantage == chunk_filter(budget=budget, sigma=2.0).advantage
    assert f"in {k} partitions are chosen independently" in model.profile_.assumption


def test_pickles_of_a_ledger_must_be_resumed(standardised):
    X, y = standardised
    model = FilteredVote(
        n_models=4, answers=20, sigma=1.0, device="cpu", noise_seed=0
    ).fit(X[:100], y[:100])
    model.predict(X[:15])
    assert model.ledger_.spent.tolist() == [15] * 4
    loaded = pickle.loads(pickle.dumps(model))
    with pytest.raises(BudgetExhausted, match="copy made after 15 answers"):
        loaded.predict(X[:1])
    with pytest.raises(
        ValueError,
        match="released must be 15, as counted by this copy, got released=10",
    ):
        loaded.ledger_.resume(released=10)
    loaded.ledger_.resume(released=15)
    loaded.predict(X[:10])
    assert loaded.ledger_.spent.tolist() == [20] * 4
    assert loaded.ledger_.answered == 25
