"""Random trees: what a record changes, the noise, the profile,
an attack, accuracy.
"""

import math

import numpy as np
import pytest
from scipy import stats

from dpnotes.accounting import gaussian_sigma
from dpnotes.methods import RandomTrees, _random_trees
from dpnotes.methods._random_trees import _counts, _grown, _leaves, _logits


def grown(n_trees=5, depth=4, d=3, seed=0):
    return _grown(
        n_trees, depth, np.full(d, -1.0), np.full(d, 1.0), np.random.default_rng(seed)
    )


def test_a_row_falls_where_its_splits_say():
    X = np.random.default_rng(1).uniform(-1.5, 1.5, size=(50, 3))
    features, thresholds = grown()
    trees = np.broadcast_to(np.arange(5), (50, 5))
    leaves = _leaves(X, trees, features, thresholds)
    for row, found in zip(X, leaves, strict=True):
        for tree in range(5):
            node = 0
            while node < features.shape[1]:
                node = (
                    2 * node
                    + 1
                    + int(row[features[tree, node]] > thresholds[tree, node])
                )
            assert node - features.shape[1] == found[tree]


def test_each_threshold_lies_within_the_box_of_its_node():
    features, thresholds = grown(n_trees=20, depth=6, d=2)
    for feature, threshold in zip(features, thresholds, strict=True):
        boxes = {0: np.array([[-1.0, 1.0], [-1.0, 1.0]])}
        for node in range(len(feature)):
            box = boxes[node]
            low, high = box[feature[node]]
            assert low < threshold[node] < high
            boxes[2 * node + 1], boxes[2 * node + 2] = box.copy(), box.copy()
            boxes[2 * node + 1][feature[node], 1] = boxes[2 * node + 2][
                feature[node], 0
            ] = threshold[node]
    assert set(features.ravel()) == {0, 1}


@pytest.fixture
def exact(monkeypatch):
    """Calls of the noise: the counts without it, and its rate or standard deviation."""
    calls = []

    def noisy(values, generator, *, rate, sigma, scales):
        calls.append((values.copy(), rate, sigma))
        return values

    monkeypatch.setattr(_random_trees, "noisy", noisy)
    return calls


@pytest.mark.parametrize("adjacency", ["zero-out", "replace-one"])
@pytest.mark.parametrize("delta", [0.0, 1e-3])
def test_one_record_changes_the_counts_by_no_more_than_the_noise_is_for(
    exact, adjacency, delta
):
    generator = np.random.default_rng(2)
    X, y = generator.uniform(-1, 1, size=(30, 3)), np.arange(30) % 3
    model = RandomTrees(
        2.0,
        delta,
        adjacency=adjacency,
        n_trees=4,
        depth=3,
        classes=[0, 1, 2],
        random_state=1,
    )
    changes = []
    model.fit(X, y)
    for place in range(30):
        other, labels = X.copy(), y.copy()
        if adjacency == "zero-out":
            labels[place] = 7  # not a class: the record is empty
        else:
            other[place], labels[place] = -X[place], (y[place] + 1) % 3
        model.fit(other, labels)
        changes.append(exact[-1][0] - exact[0][0])
    changed = {"zero-out": 1, "replace-one": 2}[adjacency]
    trees = 4 if delta else 1
    if delta == 0:
        assert {np.abs(change).sum() for change in changes} == {changed}
        assert exact[0][1] == 2.0 / changed
    else:
        assert {round(np.square(change).sum()) for change in changes} == {
            changed * trees
        }
        assert exact[0][2] == pytest.approx(
            gaussian_sigma(2.0, 1e-3, sensitivity=math.sqrt(changed * 4)), rel=1e-12
        )
    assert exact[0][0].sum() == 30 * trees
    assert model.profile_.epsilon(delta) == pytest.approx(2.0, rel=1e-6)
    assert model.profile_.adjacency == adjacency


def test_each_record_is_counted_in_one_tree_by_its_place_alone(exact):
    X = np.random.default_rng(3).uniform(-1, 1, size=(64, 2))
    model = RandomTrees(1.0, n_trees=4, depth=2, classes=[0, 1], random_state=0).fit(
        X, np.zeros(64)
    )
    by_tree = exact[0][0].reshape(4, -1).sum(axis=1)
    assert by_tree.tolist() == [16] * 4
    model.fit(-X, np.ones(64))
    assert exact[1][0].reshape(4, -1).sum(axis=1).tolist() == [16] * 4


def test_blocks_of_rows_change_nothing(monkeypatch):
    X = np.random.default_rng(4).uniform(-1, 1, size=(100, 3))
    trees, codes = np.broadcast_to(np.arange(5), (100, 5)), np.arange(100) % 2
    whole = _counts(X, codes, trees, *grown(), 2)
    monkeypatch.setattr(_random_trees, "BLOCK", 35)
    assert (_counts(X, codes, trees, *grown(), 2) == whole).all()
    assert whole.sum() == 500


@pytest.mark.parametrize(
    ("delta", "distribution"),
    [
        (0.0, lambda scale: stats.laplace(scale=scale / 2)),
        (
            1e-3,
            lambda scale: stats.norm(
                scale=scale * gaussian_sigma(2.0, 1e-3, sensitivity=math.sqrt(8))
            ),
        ),
    ],
)
@pytest.mark.parametrize("seed", [None, 0])
def test_noise_has_the_stated_distribution(delta, distribution, seed):
    """A scale 10 % off must be noticed; without a seed, the level is 1e-9."""
    X = np.zeros((4, 2))
    model = RandomTrees(
        2.0, delta, n_trees=8, depth=8, classes=[0, 1], noise_seed=seed
    ).fit(X, [3] * 4)
    noise = model.counts_.ravel()
    assert stats.kstest(noise, distribution(1.0).cdf).pvalue > 1e-9
    assert stats.kstest(np.tile(noise, 4), distribution(1.3).cdf).pvalue < 1e-9
    assert model.profile_.implementation == (
        "exact" if seed is None else "reproducible"
    )
    if seed is None:
        assert (model.counts_ * 2.0**26 % 1 == 0).all()


def test_logits_of_a_leaf_are_relative_to_the_class():
    """Where counts are as the classes are, a leaf says nothing; elsewhere the class
    that is there is preferred.
    """
    counts = np.array([[[300.0, 100.0], [600.0, 200.0], [0.0, 100.0]]])
    logits, prior = _logits(counts, 1e-9)
    assert np.exp(prior) == pytest.approx([900 / 1300, 400 / 1300])
    assert logits[0, 0] - logits[0, 1] == pytest.approx([math.log(1 / 2)] * 2)
    assert logits[0, 2, 1] > logits[0, 2, 0]
