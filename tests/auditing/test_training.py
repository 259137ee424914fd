"""What is read off the results of training procedures, and the canaries."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeRegressor

from dpnotes import DPSGD, SubsampleAggregate
from dpnotes.accounting import ADJACENCIES
from dpnotes.auditing._canaries import Domain, Neighbours, find_canaries
from dpnotes.auditing._observing import Observer, fingerprint, numbers_of
from dpnotes.auditing._training import Runs

X, Y = load_breast_cancer(return_X_y=True)
X = (X / np.linalg.norm(X, axis=1, keepdims=True))[:60]
Y = Y[:60]
LABELS = np.array([0, 1])
OBSERVER = Observer(X[0], 1, LABELS)
RUNS = 60


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(X.shape[1], 2)

    def forward(self, x):
        return self.layer(x)


def fitted(model):
    return model.fit(X, Y)


@pytest.mark.parametrize(
    ("result", "names"),
    [
        (2.5, {"value"}),
        (np.float32(2.5), {"value"}),
        (True, {"value"}),
        ("1", {"is the label"}),
        (np.ones(30), {"along the canary", "length of the release"}),
        (np.ones(31), {"along the canary", "intercept"}),
        (np.ones((2, 31)), {"margin", "along the canary"}),
        (np.ones((7, 30)), {"distance of the nearest row"}),
        (np.ones(5), {"entry 0", "entry 4"}),
        ([1.0, 2.0], {"entry 0", "entry 1"}),
        ({"mean": np.ones(30), "n": 60}, {"mean: along the canary", "n: value"}),
        ((np.ones(30), 1.5), {"0: along the canary", "1: value"}),
        (torch.ones(30), {"along the canary"}),
        (Network(), {"margin", "output 0", "length of the release"}),
        (fitted(LogisticRegression()), {"margin", "along the canary"}),
        (fitted(LinearSVC()), {"margin"}),
        (fitted(GaussianNB()), {"log-odds of the label"}),
        (fitted(LinearRegression()), {"along the canary"}),
        (fitted(SVC()), {"margin"}),
        (fitted(DecisionTreeRegressor()), {"prediction"}),
        (lambda x: x.sum(axis=1), {"output 0"}),
        (lambda x: np.array(["1"]), {"entries that are the label"}),
        (object(), set()),
    ],
)
def test_scores_are_read_off_whatever_comes(result, names):
    found = OBSERVER.scores(result)
    assert names <= set(found) if names else not found
    assert all(np.isfinite(value) for value in found.values())


def test_a_budget_of_answers_is_used_up():
    model = SubsampleAggregate(5.0, answers=20, n_models=5, noise_seed=0).fit(X, Y)
    found = OBSERVER.scores(model)
    assert 0 <= found["answers with the label"] <= 1
    assert model.budget_.left == 0


def test_margins_favour_the_label():
    model = fitted(LogisticRegression())
    for coef, intercept in (
        (np.zeros((2, 30)), np.array([0.0, 1.0])),
        (np.zeros((1, 30)), np.array([1.0])),
    ):
        model.coef_, model.intercept_ = coef, intercept
        for label, sign in ((0, -1.0), (1, 1.0)):
            assert Observer(X[0], label, LABELS).scores(model)["margin"] == sign


def test_fingerprints_forget_the_seed_only():
    same, other = (GaussianNB().fit(X, Y) for _ in range(2))
    assert fingerprint(same, X) == fingerprint(other, X)
    assert fingerprint(same, X) != fingerprint(GaussianNB().fit(X[:40], Y[:40]), X)
    assert numbers_of({"a": [1, 2.0], "b": None}).tolist() == [1, 2]


def test_all_numbers_of_a_release_count():
    model = DPSGD(noise_multiplier=1.0, steps=1, classes=LABELS, device="cpu")
    values = numbers_of(model.fit(X, Y))
    assert len(values) > X.shape[1]
    assert OBSERVER.scores(model)["length of the release"] == np.linalg.norm(values)
    votes = SubsampleAggregate(5.0, answers=2, n_models=5, noise_seed=0).fit(X, Y)
    assert numbers_of(votes) is None  # it only answers


def test_runs_join_where_scores_lack():
    joined = Runs.joined([Runs([{"a": 1.0}]), Runs([{"b": 2.0}])])
    assert joined.matrix(["a", "b"]).tolist() == [[1, -np.inf], [-np.inf, 2]]


@pytest.mark.parametrize(
    ("allowed", "norm"),
    [(None, None), (1.0, None), ((-1, 1), None), ((0, np.ones(30)), 0.5), (None, 0.5)],
)
def test_canaries_are_records_that_the_claim_allows(allowed, norm):
    """Those of the data itself are taken as they are; constructed ones reach the
    bounds where there are any.
    """
    domain = Domain.of(X, Y, allowed, norm=norm, classes=None)
    found, place = find_canaries(X, Y, domain)
    assert (found[0].x == X[place]).all()
    constructed = [canary for canary in found if canary.origin == "constructed"]
    assert len(constructed) == 4
    for canary in constructed:
        for x, label in (canary.record, canary.opposite):
            assert (np.clip(x, domain.low, domain.high) == x).all()
            assert np.linalg.norm(x) <= domain.norm * (1 + 1e-6)
            assert label in domain.labels
    if domain.norm <= 1:
        longest = max(np.linalg.norm(canary.x) for canary in constructed)
        assert longest > 0.999 * domain.norm


def test_an_exchanged_record_moves_what_a_linear_model_sums():
    for canary in find_canaries(X, Y, Domain.of(X, Y, 1.0, classes=None))[0]:
        sums = [
            (2 * y - 1) * np.append(x, 1.0)
            for x, y in ((canary.x, canary.label), canary.opposite)
        ]
        assert np.linalg.norm(sums[0] - sums[1]) >= 2 * max(
            np.linalg.norm(canary.x), 0.2
        ) * (1 - 1e-6), canary.kind


def test_canaries_of_images_and_of_numbers():
    images, targets = X.reshape(60, 5, 6), X.sum(axis=1)
    domain = Domain.of(X, targets, 1.0, classes=None)
    assert domain.labels.tolist() == [targets.min(), targets.max()]
    assert {canary.x.shape for canary in find_canaries(images, targets, domain)[0]} == {
        (5, 6)
    }


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_neighbours_differ_in_one_record(adjacency):
    empty = (np.zeros(30), 2) if adjacency == "zero-out" else None
    neighbours = Neighbours(X, Y, adjacency, empty)
    canary = find_canaries(X, Y, Domain.of(X, Y, 1.0, classes=None))[0][1]
    with_it = neighbours.with_(*canary.record)
    without = neighbours.without(canary)
    assert len(with_it[0]) == 61
    assert len(without[0]) == (60 if adjacency == "add-remove" else 61)
    assert (with_it[0][0] == canary.x).all()
    for one, other in zip(with_it, without, strict=True):
        assert (one[-60:] == other[-60:]).all()
