"""Random trees and boosting on grids: what a record changes, the noise, the profile,
an attack, accuracy.
"""

import math

import numpy as np
import pytest
from scipy import stats
from sklearn.pipeline import make_pipeline

from dpnotes.accounting import compose, gaussian, gaussian_sigma
from dpnotes.methods import NoisyBoosting, RandomTrees, _noisy_boosting, _random_trees
from dpnotes.methods._random_trees import _counts, _grown, _leaves, _logits
from dpnotes.preprocessing import PublicScaler


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


@pytest.fixture
def released(monkeypatch):
    """Calls of the noise: the exact sums, which are replaced by what an earlier fit
    released, and their sigmas.
    """
    calls, kept = [], []

    def add(values, *, sigma, seed):
        place = len(calls)
        calls.append((values.copy(), sigma))
        if place == len(kept):
            kept.append(
                values + np.random.default_rng(place).normal(0, 2.0, size=values.shape)
            )
        return kept[place]

    monkeypatch.setattr(_noisy_boosting, "add_gaussian", add)
    return calls


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("adjacency", ["zero-out", "replace-one"])
def test_one_record_changes_the_sums_by_no_more_than_the_profile_says(
    released, adjacency, n_classes
):
    """Given the same releases before, as in a proof of adaptive composition; the
    worst record is near the bound.
    """
    generator = np.random.default_rng(0)
    X, y = generator.uniform(-1, 1, size=(40, 3)), np.arange(40) % n_classes
    model = NoisyBoosting(
        1.0,
        1e-3,
        n_trees=30,
        adjacency=adjacency,
        classes=range(n_classes),
        random_state=1,
    )

    def sums(X, y):
        released.clear()
        profile = model.fit(X, y).profile_
        return (
            [values for values, _ in released],
            [sigma for _, sigma in released],
            profile,
        )

    exact, sigmas, profile = sums(X, y)
    spent = []
    for place in range(40):
        other, labels = X.copy(), y.copy()
        if adjacency == "zero-out":
            labels[place] = n_classes
        else:
            labels[place] = (y[place] + 1) % n_classes
            other[place] = -X[place] if place % 2 else X[place]
        changed, _, _ = sums(other, labels)
        parts = zip(exact, changed, sigmas, strict=True)
        spent.append(
            sum(np.square(one - two).sum() / sigma**2 for one, two, sigma in parts)
        )
    bound = gaussian(sigma=1 / math.sqrt(max(spent)), adjacency=adjacency)
    assert bound.epsilon(1e-3) <= profile.epsilon(1e-3) * (1 + 1e-9) <= 1.0 + 1e-6
    assert bound.epsilon(1e-3) > 0.6 * profile.epsilon(1e-3)


def test_the_profile_composes_all_releases(released):
    X = np.random.default_rng(1).uniform(-1, 1, size=(50, 4))
    profile = (
        NoisyBoosting(0.7, 1e-4, n_trees=5, classes=[0, 1], random_state=0)
        .fit(X, X[:, 0] > 0)
        .profile_
    )
    counts, *grids = (sigma for _, sigma in released)
    of_one = math.hypot(_noisy_boosting.LONGEST, _noisy_boosting.CURVATURE)
    parts = [gaussian(sigma=counts, sensitivity=math.sqrt(4), adjacency="zero-out")]
    # four columns, all six pairs at once, five chosen grids
    for place, sigma in enumerate(grids):
        sensitivity = of_one * math.sqrt(6 if place == 4 else 1)
        parts.append(
            gaussian(sigma=sigma, sensitivity=sensitivity, adjacency="zero-out")
        )
    composed = compose(*parts)
    assert len(grids) == 10
    assert (
        composed.epsilon(1e-4)
        == pytest.approx(profile.epsilon(1e-4), rel=1e-9)
        == pytest.approx(0.7, rel=1e-6)
    )


def test_all_pairs_at_once_are_the_pairs_one_by_one():
    generator = np.random.default_rng(2)
    # more than one block of rows
    X, y = generator.uniform(-1, 1, size=(5000, 4)), np.arange(5000) % 3
    records = NoisyBoosting(1.0, 0.1, classes=[0, 1, 2])._private_records(X, y)
    sums = _noisy_boosting._Sums(records, 1e-9, False, np.random.default_rng(0))
    sums.logits = generator.normal(size=(5000, 3))
    coarse = _noisy_boosting.COARSE
    pairs, codes = (
        np.array([(0, 1), (1, 3), (2, 3)]),
        generator.integers(coarse, size=(5000, 4)),
    )
    together, _ = sums.pairs(codes, pairs, 1.0)
    for pair, found in zip(pairs, together, strict=True):
        alone, _ = sums.grid(
            codes[:, pair[0]] * _noisy_boosting.COARSE + codes[:, pair[1]],
            _noisy_boosting.COARSE**2,
            1.0,
        )
        assert found == pytest.approx(alone, abs=1e-6)


@pytest.mark.parametrize(("epsilon", "least"), [(0.5, 0.9), (3.0, 0.93)])
def test_a_product_of_two_columns_is_found_in_a_pipeline(epsilon, least):
    """RandomTrees has 0.82 and 0.92 here."""
    X = np.random.default_rng(3).uniform(0, 10, size=(8000, 6))
    y = np.where((X[:, 0] > 5) == (X[:, 4] > 5), "same", "other")
    model = make_pipeline(
        PublicScaler(0.0, 10.0), NoisyBoosting(epsilon, 1e-5, noise_seed=0)
    )
    assert model.fit(X[:6000], y[:6000]).score(X[6000:], y[6000:]) > least


def test_thresholds_lie_within_the_bounds_whatever_the_data():
    X = np.random.default_rng(4).normal(size=(60, 2)) * 1e300
    model = NoisyBoosting(
        1.0, 1e-3, bounds=([0.0, -5.0], [1.0, 5.0]), n_trees=4, noise_seed=0
    ).fit(X, X[:, 0] > 0)
    limits = (
        np.where(model.features_ == 0, 0.0, -5.0),
        np.where(model.features_ == 0, 1.0, 5.0),
    )
    assert (model.thresholds_ >= limits[0][..., None]).all()
    assert (model.thresholds_ <= limits[1][..., None]).all()
    assert (np.diff(model.thresholds_) >= 0).all()
