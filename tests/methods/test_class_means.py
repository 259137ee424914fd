"""Class means: what a record adds to the sums, the distribution of the noise, the profile, an attack, accuracy."""

import math

import numpy as np
import pytest
from scipy import stats

from dpnotes.accounting import gaussian_sigma
from dpnotes.methods import ClassMeans
from dpnotes.methods._class_means import COUNT, _means, _sums
from tests.methods.conftest import follows

LONGEST = math.hypot(1.0, COUNT)


@pytest.fixture(scope="module")
def centred(digits):
    X, y = digits
    return 2 * X - X.mean(), y  # any rows will do: they are shortened


def of_norm_one(n, d, *, seed):
    X = np.random.default_rng(seed).normal(size=(n, d))
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def test_what_a_record_adds_to_the_sums_does_not_depend_on_the_others():
    X = of_norm_one(3000, 7, seed=0)
    y = np.arange(3000) % 3
    whole = _sums(X, y, 3)
    added = {tuple(X[i]): _sums(X[i : i + 1], y[i : i + 1], 3) for i in range(5)}
    for i, alone in enumerate(added.values()):
        rest = np.delete(np.arange(3000), i)
        assert (whole - _sums(X[rest], y[rest], 3) == alone).all()
        assert (alone[np.arange(3) != y[i]] == 0).all()
        assert LONGEST - 1e-6 < np.linalg.norm(alone) <= LONGEST


@pytest.mark.parametrize(("adjacency", "pure", "gaussian"), [
    ("zero-out", LONGEST, LONGEST), ("add-remove", LONGEST, LONGEST), ("replace-one", 2 * LONGEST, 2.0),
])  # fmt: skip
def test_noise_has_the_stated_distribution(adjacency, pure, gaussian, monkeypatch):
    """Norms at 1e-3 with fixed seeds; a scale 5% off must be noticed."""
    X, y, repeats = np.zeros((50, 4)), np.zeros(50, int), 800
    seen = []
    monkeypatch.setattr("dpnotes.methods._class_means._means", lambda sums, least: seen.append((sums, least)) or sums)
    for delta in (0.0, 1e-3):
        ClassMeans(2.0, delta, adjacency=adjacency).fit_many(X, y, n_classes=3, n_repeats=repeats, seed=1)
    (one, least), (other, sigma) = seen
    start = np.array([[0, 0, 0, 0, 50 * COUNT], [0] * 5, [0] * 5])
    norms = np.linalg.norm(one - start, axis=2).ravel()
    assert follows(norms, stats.gamma(5, scale=pure / 2))
    assert np.std(one - start) == pytest.approx(least, rel=0.05)
    assert sigma == pytest.approx(gaussian_sigma(2.0, 1e-3, sensitivity=gaussian), rel=1e-6)
    assert stats.kstest((other - start).ravel(), stats.norm(scale=sigma).cdf).pvalue > 1e-3


def test_means_are_quotients_within_the_ball():
    sums = np.array([[3.0, 4.0, 10 * COUNT], [30.0, 40.0, 10 * COUNT], [0.3, 0.4, -5.0]])
    means = _means(sums, least=2 * COUNT)
    assert means == pytest.approx(np.array([[0.3, 0.4], [0.6, 0.8], [0.15, 0.2]]))


def test_without_noise_it_is_the_nearest_mean(centred):
    X, y = centred
    model = ClassMeans(1e12, norm=3.0, noise_seed=0).fit(X, y)
    rows = X * np.minimum(1, 3.0 / np.linalg.norm(X, axis=1, keepdims=True))
    means = np.stack([rows[y == c].mean(axis=0) for c in range(10)])
    distances = np.square(rows[:, None] - means).sum(axis=2)
    assert (model.predict(X) == distances.argmin(axis=1)).mean() > 0.999
    assert model.coef_ == pytest.approx(means, abs=1e-6)
