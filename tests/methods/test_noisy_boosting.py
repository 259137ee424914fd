"""Boosting on grids: what one record changes, what is spent, and that combinations of columns are found."""

import math

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

from dpnotes.accounting import compose, gaussian
from dpnotes.methods import NoisyBoosting
from dpnotes.methods import _noisy_boosting as module
from dpnotes.preprocessing import PublicScaler


@pytest.fixture
def released(monkeypatch):
    """Calls of the noise: the exact sums, which are replaced by what an earlier fit released, and their sigmas."""
    calls, kept = [], []

    def add(values, *, sigma, seed):
        place = len(calls)
        calls.append((values.copy(), sigma))
        if place == len(kept):
            kept.append(values + np.random.default_rng(place).normal(0, 2.0, size=values.shape))
        return kept[place]

    monkeypatch.setattr(module, "add_gaussian", add)
    return calls


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("adjacency", ["zero-out", "replace-one"])
def test_one_record_changes_the_sums_by_no_more_than_the_profile_says(released, adjacency, n_classes):
    """Given the same releases before, as in a proof of adaptive composition; the worst record is near the bound."""
    generator = np.random.default_rng(0)
    X, y = generator.uniform(-1, 1, size=(40, 3)), np.arange(40) % n_classes
    model = NoisyBoosting(1.0, 1e-3, n_trees=30, adjacency=adjacency, classes=range(n_classes), random_state=1)

    def sums(X, y):
        released.clear()
        profile = model.fit(X, y).profile_
        return [values for values, _ in released], [sigma for _, sigma in released], profile

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
        spent.append(sum(np.square(one - two).sum() / sigma**2 for one, two, sigma in parts))
    bound = gaussian(sigma=1 / math.sqrt(max(spent)), adjacency=adjacency)
    assert bound.epsilon(1e-3) <= profile.epsilon(1e-3) * (1 + 1e-9) <= 1.0 + 1e-6
    assert bound.epsilon(1e-3) > 0.6 * profile.epsilon(1e-3)


def test_the_profile_composes_all_releases(released):
    X = np.random.default_rng(1).uniform(-1, 1, size=(50, 4))
    profile = NoisyBoosting(0.7, 1e-4, n_trees=5, classes=[0, 1], random_state=0).fit(X, X[:, 0] > 0).profile_
    counts, *grids = (sigma for _, sigma in released)
    of_one = math.hypot(module.LONGEST, module.CURVATURE)
    parts = [gaussian(sigma=counts, sensitivity=math.sqrt(4), adjacency="zero-out")]
    for place, sigma in enumerate(grids):  # four columns, all six pairs at once, five chosen grids
        sensitivity = of_one * math.sqrt(6 if place == 4 else 1)
        parts.append(gaussian(sigma=sigma, sensitivity=sensitivity, adjacency="zero-out"))
    composed = compose(*parts)
    assert len(grids) == 10
    assert composed.epsilon(1e-4) == pytest.approx(profile.epsilon(1e-4), rel=1e-9) == pytest.approx(0.7, rel=1e-6)


def test_all_pairs_at_once_are_the_pairs_one_by_one():
    generator = np.random.default_rng(2)
    X, y = generator.uniform(-1, 1, size=(5000, 4)), np.arange(5000) % 3  # more than one block of rows
    records = NoisyBoosting(1.0, 0.1, classes=[0, 1, 2])._private_records(X, y)
    sums = module._Sums(records, 1e-9, False, np.random.default_rng(0))
    sums.logits = generator.normal(size=(5000, 3))
    pairs, codes = np.array([(0, 1), (1, 3), (2, 3)]), generator.integers(module.COARSE, size=(5000, 4))
    together, _ = sums.pairs(codes, pairs, 1.0)
    for pair, found in zip(pairs, together, strict=True):
        alone, _ = sums.grid(codes[:, pair[0]] * module.COARSE + codes[:, pair[1]], module.COARSE**2, 1.0)
        assert found == pytest.approx(alone, abs=1e-6)


@pytest.mark.parametrize(("epsilon", "least"), [(0.5, 0.9), (3.0, 0.93)])
def test_a_product_of_two_columns_is_found_in_a_pipeline(epsilon, least):
    """RandomTrees has 0.82 and 0.92 here."""
    X = np.random.default_rng(3).uniform(0, 10, size=(8000, 6))
    y = np.where((X[:, 0] > 5) == (X[:, 4] > 5), "same", "other")
    model = make_pipeline(PublicScaler(0.0, 10.0), NoisyBoosting(epsilon, 1e-5, noise_seed=0))
    assert model.fit(X[:6000], y[:6000]).score(X[6000:], y[6000:]) > least


def test_thresholds_lie_within_the_bounds_whatever_the_data():
    X = np.random.default_rng(4).normal(size=(60, 2)) * 1e300
    model = NoisyBoosting(1.0, 1e-3, bounds=([0.0, -5.0], [1.0, 5.0]), n_trees=4, noise_seed=0).fit(X, X[:, 0] > 0)
    limits = np.where(model.features_ == 0, 0.0, -5.0), np.where(model.features_ == 0, 1.0, 5.0)
    assert (model.thresholds_ >= limits[0][..., None]).all()
    assert (model.thresholds_ <= limits[1][..., None]).all()
    assert (np.diff(model.thresholds_) >= 0).all()
