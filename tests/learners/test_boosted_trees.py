"""Boosted trees: every split is the best, every leaf a Newton step, whatever the
chunk.
"""

import itertools

import numpy as np
import pytest
from scipy.special import expit, logit

from dpnotes.learners import BoostedTreesClassifier, _boosted_trees, fit_boosted_trees


def mixed_data(n=400, seed=0):
    """Two continuous features, a few-valued one and three binary ones, of which the
    last two exclude each other.
    """
    rng = np.random.default_rng(seed)
    # of three categories, two of which have indicators
    kind = rng.integers(3, size=n)
    X = np.column_stack(
        [
            rng.normal(size=(n, 2)),
            rng.integers(4, size=n),
            rng.random(n) < 0.2,
            kind == 0,
            kind == 1,
        ]
    )
    y = (X[:, 0] * (1 - X[:, 4]) + 0.4 * X[:, 2] + rng.normal(size=n) > 0.5).astype(int)
    return X.astype(float), y


def improvement(x, residual):
    """Friedman's improvement of the split x, up to the size of the node."""
    left = residual[~x]
    right = residual[x]
    if not len(left) or not len(right):
        return -np.inf
    return (left.mean() - right.mean()) ** 2 * len(left) * len(right)


def best_improvement(X, residual):
    best = -np.inf
    for column in X.T:
        for low, high in itertools.pairwise(np.unique(column)):
            best = max(best, improvement(column > (low + high) / 2, residual))
    return best


@pytest.mark.parametrize("depth", [1, 3])
def test_every_split_is_the_best_and_every_leaf_a_newton_step(depth):
    X, y = mixed_data()
    subsets = [np.arange(60), np.arange(50, 141), np.array([3, 3, 3, 7, 9, 11, 11, 20])]
    how = {"n_trees": 8, "depth": depth, "learning_rate": 0.3, "device": "cpu"}
    fitted = fit_boosted_trees(X, y, subsets, **how)
    for index, rows in enumerate(subsets):
        score = np.full(len(rows), logit(y[rows].mean()))
        assert fitted.prior[index] == pytest.approx(score[0], abs=1e-12)
        for tree in range(8):
            feature = fitted.feature[index, tree]
            threshold = fitted.threshold[index, tree]
            chance = expit(score)
            residual = y[rows] - chance
            # the node that a row has come to
            leaf = np.zeros(len(rows), int)
            for node in range(2**depth - 1):
                inside = leaf == node
                own = X[rows[inside]]
                right = own[:, feature[node]] > threshold[node]
                best = best_improvement(own, residual[inside])
                if np.isinf(threshold[node]):
                    assert best == -np.inf
                else:
                    found = improvement(right, residual[inside])
                    assert found == pytest.approx(best, rel=1e-9, abs=1e-12)
                    # midway between values of these rows, not of others
                    distinct = np.unique(own[:, feature[node]])
                    middles = (distinct[:-1] + distinct[1:]) / 2
                    assert np.isclose(threshold[node], middles).any()
                leaf[inside] = 2 * node + 1 + right
            for number, step in enumerate(fitted.value[index, tree], 2**depth - 1):
                inside = leaf == number
                newton = 0.0
                if inside.any():
                    hessian = chance * (1 - chance)
                    newton = residual[inside].sum() / hessian[inside].sum()
                assert step == pytest.approx(0.3 * newton, rel=1e-9, abs=1e-12)
                score[inside] += step
        logits = fitted.logits(X[rows], device="cpu")[index]
        np.testing.assert_allclose(logits, score, atol=1e-10)


def test_votes_confidence_and_blocks_follow_from_the_logits(monkeypatch):
    X, y = mixed_data()
    fitted = fit_boosted_trees(X, y, np.arange(200).reshape(5, 40), n_trees=6)
    logits = fitted.logits(X)
    assert len(fitted) == 5
    assert logits.shape == (5, 400)
    np.testing.assert_array_equal(fitted.votes(X), logits > 0)
    assert fitted.votes(X).dtype == np.uint8
    larger = np.maximum(expit(logits), expit(-logits))
    np.testing.assert_allclose(fitted.confidence(X), larger)
    # bytes for some queries of one model, and for less than one
    for budget in (5000, 1):
        monkeypatch.setattr(_boosted_trees, "CPU_BUDGET", budget)
        again = fitted.logits(X[:50], device="cpu")
        np.testing.assert_allclose(again, logits[:, :50], atol=1e-12)


def test_one_class_and_rows_that_are_alike():
    X, y = mixed_data(40)
    # no split tells them apart
    X[:4] = X[0]
    of_one = np.flatnonzero(y == 1)[:5]
    fitted = fit_boosted_trees(X, y, [of_one, np.arange(4), [2]], n_trees=3)
    votes = fitted.votes(X)
    assert (votes[0] == 1).all()
    assert (votes[2] == y[2]).all()
    # a class that is missing counts as the smallest fraction of float32
    fraction = np.clip(y[:4].mean(), 2**-23, 1 - 2**-23)
    np.testing.assert_allclose(fitted.logits(X)[1], logit(fraction), rtol=1e-3)
    assert np.isinf(fitted.threshold[1:]).all()


@pytest.mark.parametrize(
    ("low", "high"), [(1.0, np.nextafter(np.float32(1), np.float32(2))), (-3e38, 3e38)]
)
def test_neighbouring_and_huge_numbers_are_split(low, high):
    X = np.array([[low], [high]], np.float32)
    fitted = fit_boosted_trees(X, np.array([0, 1]), [[0, 1]], n_trees=5, device="cpu")
    assert fitted.votes(X, device="cpu").tolist() == [[0, 1]]


def test_classifier():
    X, y = mixed_data()
    # labels of any kind
    names = np.array(["no", "yes"])[y]
    model = BoostedTreesClassifier(n_trees=15, depth=2, device="cpu").fit(
        X[:300], names[:300]
    )
    assert model.score(X[300:], names[300:]) > 0.6
    np.testing.assert_allclose(
        model.predict_proba(X)[:, 1], expit(model.decision_function(X))
    )
    with pytest.raises(ValueError, match="y must hold 2 classes, got 3"):
        model.fit_many(X, y, [np.arange(4)], n_classes=3)
    with pytest.raises(ValueError, match="got 1 class"):
        BoostedTreesClassifier().fit(X[:3], ["a"] * 3)
