"""FilteredVote: budgets kept by hand, silent retirement, the distance of neighbours, copies, errors."""

import copy
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from dpnotes.accounting import chunk_filter
from dpnotes.learners import BoostedTreesClassifier
from dpnotes.mechanisms import draw_partitions, hash_chunks, stream
from dpnotes.methods import BudgetExhausted, FilteredVote, _filtered_vote, secret_seed
from tests.methods.conftest import Votes


@pytest.mark.parametrize("k", [1, 3])
def test_equals_a_filter_kept_by_hand(standardised, k):
    """Teachers one at a time with scikit-learn, budgets in a list, queries one by one."""
    X, y = standardised
    X, y, queries = X[:200], y[:200], X[200:]
    model = FilteredVote(
        n_models=8, n_partitions=k, answers=40, sigma=1.0, confidence=0.9, device="cpu", noise_seed=3
    ).fit(X, y)
    seed = secret_seed(3)
    split = int.from_bytes(stream(seed, 2).bytes(16), "little")
    cut, generator = draw_partitions(200, n_chunks=8, n_partitions=k, seed=split), stream(seed, 1)
    teachers = [LogisticRegression(tol=1e-12, max_iter=10_000).fit(X[rows], y[rows]) for rows in cut.subsets()]
    spent, expected = [0] * (8 * k), []
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


@pytest.mark.parametrize("estimator", [None, BoostedTreesClassifier(n_trees=5, device="cpu")])
def test_answers_do_not_depend_on_how_queries_are_asked(standardised, monkeypatch, estimator):
    X, y = standardised
    asked = {"answers": 30, "sigma": 2.0, "confidence": 0.8, "noise_seed": 0}
    make = FilteredVote(estimator=estimator, n_models=10, device="cpu", **asked)
    whole = clone(make).fit(X[:300], y[:300])
    expected = whole.predict(X[300:])
    parts = clone(make).fit(X[:300], y[:300])
    monkeypatch.setattr(_filtered_vote, "QUERIES", 13)
    found = np.concatenate([parts.predict(X[300:301]), parts.predict(X[301:400]), parts.predict(X[400:])])
    assert found.tolist() == expected.tolist()
    assert parts.ledger_.spent.tolist() == whole.ledger_.spent.tolist()


def test_answers_go_on_without_end_and_are_noise_when_all_are_silent():
    """1,000 answers of two classes without a vote: 500 each, within 5 standard deviations."""
    X, y = np.arange(30.0)[:, None], np.arange(30) % 2
    learner = Votes(lambda own, query: 1)
    model = FilteredVote(estimator=learner, n_models=5, answers=10, sigma=0.1, noise_seed=0).fit(X, y)
    assert model.predict(np.zeros((10, 1))).tolist() == [1] * 10
    assert model.ledger_.retired == 5
    assert abs(model.predict(np.zeros((1000, 1))).sum() - 500) < 5 * np.sqrt(250)
    assert model.ledger_.spent.tolist() == [10] * 5


@pytest.mark.parametrize("k", [1, 3])
def test_distance_of_neighbours_stays_within_the_guarantee(monkeypatch, k):
    """Sum over all queries of the squared shift, on the worst of many learners: at most 2 budget, and attained."""
    tables = []
    monkeypatch.setattr(
        _filtered_vote,
        "gaussian_vote",
        lambda counts, sigma, seed: (tables.append(counts), np.zeros(len(counts), int))[1],
    )
    n, budget = 30, 6
    chunks = hash_chunks([str(i) for i in range(n + 1)], n_chunks=8, n_partitions=k, key=b"a")
    whims = [lambda own, query: int(n in own)]  # a teacher of record n votes against the others at every query
    whims += [lambda own, query, s=s: hash((s, own, query)) % 3 for s in range(30)]
    largest = 0.0
    for whim in whims:
        pair = []
        for records in (n, n + 1):
            X = np.arange(float(records))[:, None]
            how = {"n_models": 8, "n_partitions": k, "answers": budget, "sigma": 2.0, "noise_seed": 0}
            model = FilteredVote(estimator=Votes(whim), **how)
            model.fit(X, np.arange(records) % 3, chunks=chunks[:records])
            tables.clear()
            model.predict(np.arange(60.0)[:, None])
            pair.append(np.concatenate(tables))
        squared = float(((pair[1] - pair[0]) ** 2).sum())
        assert squared <= 2 * budget + 1e-9
        largest = max(largest, squared)
    assert largest == pytest.approx(2 * budget)
    assert model.profile_.advantage == chunk_filter(budget=budget, sigma=2.0).advantage


def test_guarantee_is_stated_whole(standardised):
    X, y = standardised
    model = FilteredVote(n_models=10, n_partitions=2, answers=100, sigma=40.0, device="cpu").fit(X, y)
    assert model.profile_.status == "proved"
    assert model.profile_.adjacency == "zero-out"
    assert model.profile_.parameters == {"budget": 100.0, "sigma": 40.0, "one_hot": True}
    assert "in 2 partitions" in model.profile_.assumption
    assert model.profile_.delta(0.0) == pytest.approx(0.14031620480, abs=1e-10)  # 2 Phi(0.3535533906 / 2) - 1
    assert "independently" in model.profile_.assumption


def test_copies_share_the_budget_and_pickles_must_be_resumed(standardised):
    X, y = standardised
    model = FilteredVote(n_models=4, answers=20, sigma=1.0, device="cpu", noise_seed=0).fit(X[:100], y[:100])
    copied = copy.deepcopy(model)
    copied.predict(X[:15])
    assert model.ledger_.spent.tolist() == [15] * 4
    loaded = pickle.loads(pickle.dumps(model))
    with pytest.raises(BudgetExhausted, match="copy made after 15 answers"):
        loaded.predict(X[:1])
    with pytest.raises(ValueError, match="released must be 15, as counted by this copy, got released=10"):
        loaded.ledger_.resume(released=10)
    loaded.ledger_.resume(released=15)
    loaded.predict(X[:10])
    assert loaded.ledger_.spent.tolist() == [20] * 4
    assert loaded.ledger_.answered == 25
