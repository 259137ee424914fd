"""The Bagging estimator: the vote, the guarantee, an attack, and bad input."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from dpnotes import Bagging
from dpnotes.accounting import bagging
from dpnotes.learners import NetworkClassifier
from dpnotes.mechanisms import draw_subsets
from tests.methods.conftest import repeated


@pytest.mark.parametrize("estimator", [
    None, LogisticRegression(max_iter=500), make_pipeline(StandardScaler(), DecisionTreeClassifier()),
    NetworkClassifier((1, 8, 8), kernel_size=3, padding=1, epochs=25, learning_rate=3e-3),
], ids=["default", "logistic", "pipeline", "network"])  # fmt: skip
def test_any_base_learner(pixels, estimator):
    X, y = pixels
    model = Bagging(subsample=200, n_models=5, estimator=estimator, noise_seed=0).fit(X[:1200], y[:1200])
    assert model.score(X[1200:], y[1200:]) > 0.7
    assert clone(model).fit(X[:1200], y[:1200]).score(X[1200:], y[1200:]) == model.score(X[1200:], y[1200:])
    assert model.profile_.to_dict() == repeated(bagging(n=1200, subsample=200, n_models=5, adjacency="zero-out"))


def test_vote_is_the_majority_of_models_trained_on_the_stated_subsamples(pixels):
    """Another road: rebuild every model from the seed and count votes by hand; ties go to the first class."""
    X, y = pixels
    model = Bagging(subsample=20, n_models=4, estimator=KNeighborsClassifier(1), noise_seed=7).fit(X, y)
    seed = int(np.random.RandomState(7).randint(2**31, size=2)[0])
    subsets = draw_subsets(len(X), subsample=20, n_models=4, replace=True, seed=seed)
    votes = np.stack([KNeighborsClassifier(1).fit(X[rows], y[rows]).predict(X[:300]) for rows in subsets])
    by_hand = [min(set(v), key=lambda c, v=v: (-list(v).count(c), c)) for v in votes.T.tolist()]
    assert model.predict(X[:300]).tolist() == by_hand
    assert model.predict_proba(X[:300])[0, by_hand[0]] == votes[:, 0].tolist().count(by_hand[0]) / 4


def test_subsample_of_one_class_votes_for_it():
    X, y = np.zeros((50, 2)), np.array([3] * 49 + [8])
    model = Bagging(subsample=1, n_models=9, estimator=LogisticRegression(), noise_seed=0).fit(X, y)
    assert set(model.predict(X)) <= {3, 8}
    assert model.predict(X)[0] == 3


@pytest.mark.parametrize("estimator", [None, NetworkClassifier(None, architecture="mlp", epochs=1, device="cpu")])
def test_a_label_that_is_no_class_empties_the_subsamples_that_drew_it(estimator):
    X, y = np.arange(20.0, dtype=np.float32)[:, None], np.repeat([0, 1], 10)
    make = Bagging(subsample=5, n_models=6, estimator=estimator, classes=[0, 1], replace=False, noise_seed=0)
    whole = clone(make).fit(X, y)
    emptied = clone(make).fit(X, np.where(np.arange(20) == 3, 2, y))
    assert emptied.profile_.to_dict() == whole.profile_.to_dict()
    seed = int(np.random.RandomState(0).randint(2**31, size=2)[0])
    subsets = draw_subsets(20, subsample=5, n_models=6, replace=False, seed=seed)
    kept = ~(subsets == 3).any(axis=1)
    assert 0 < kept.sum() < 6
    votes = [fit._models.votes(X)[kept] for fit in (whole, emptied)]
    np.testing.assert_array_equal(*votes)
    nothing = clone(make).fit(X, y + 5)
    assert (nothing.predict_proba(X) == 0).all()
