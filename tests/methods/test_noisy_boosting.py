"""NoisyBoosting: what a record changes, the profile, exact sums, honest probabilities,
accuracy.
"""

import math

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.pipeline import make_pipeline

import dpnotes
from dpnotes.accounting import compose, gaussian
from dpnotes.methods import NoisyBoosting, _noisy_boosting
from dpnotes.methods._noisy_boosting import LONGEST, STEEPEST, _unclipped
from dpnotes.methods._private import Records
from dpnotes.preprocessing import PublicScaler


@pytest.fixture
def released(monkeypatch):
    """Calls of the noise: the exact sums, which are replaced by what an earlier fit
    released, and their sigmas.
    """
    calls = []
    kept = []

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
@pytest.mark.parametrize("adjacency", ["zero-out", "replace-one", "add-remove"])
def test_one_record_changes_the_sums_by_no_more_than_the_profile_says(
    released, adjacency, n_classes
):
    """Given the same releases before, as in a proof of adaptive composition; the
    worst record is near the bound.
    """
    generator = np.random.default_rng(0)
    X = generator.uniform(-1, 1, size=(40, 3))
    y = np.arange(40) % n_classes
    model = NoisyBoosting(
        1.0,
        1e-3,
        n_trees=30,
        linear_share=0.5,
        adjacency=adjacency,
        classes=range(n_classes),
        random_state=1,
    )

    def sums(X, y):
        released.clear()
        model.fit(X, y)
        return list(released)

    exact = sums(X, y)
    profile = model.profile_
    spent = []
    for place in range(40):
        other = X.copy()
        labels = y.copy()
        if adjacency == "zero-out":
            labels[place] = n_classes
        elif adjacency == "add-remove":
            other = np.delete(X, place, axis=0)
            labels = np.delete(y, place)
        else:
            labels[place] = (y[place] + 1) % n_classes
            other[place] = -X[place] if place % 2 else X[place]
        moved = 0.0
        for (one, sigma), (two, _) in zip(exact, sums(other, labels), strict=True):
            moved += np.square(one - two).sum() / sigma**2
        spent.append(moved)
    bound = gaussian(sigma=1 / math.sqrt(max(spent)), adjacency=adjacency)
    assert bound.epsilon(1e-3) <= profile.epsilon(1e-3) * (1 + 1e-9) <= 1.0 + 1e-6
    assert bound.epsilon(1e-3) > 0.6 * profile.epsilon(1e-3)


def test_the_profile_composes_all_releases(released):
    X = np.random.default_rng(1).uniform(-1, 1, size=(50, 4))
    model = NoisyBoosting(0.7, 1e-4, n_trees=5, classes=[0, 1], random_state=0)
    profile = model.fit(X, X[:, 0] > 0).profile_
    of_grid = math.hypot(LONGEST, _noisy_boosting.CURVATURE)
    sensitivities = [
        1.0,  # of the numbers of the classes
        math.sqrt(4),  # of the histograms of four columns
        *[LONGEST] * _noisy_boosting.STEPS,
        *[of_grid] * 4,  # of each column
        of_grid * math.sqrt(6),  # of all pairs
        *[of_grid] * 5,  # of the chosen grids
        *[math.hypot(LONGEST, STEEPEST)] * _noisy_boosting.ROUNDS,
    ]
    parts = []
    for (_, sigma), sensitivity in zip(released, sensitivities, strict=True):
        parts.append(
            gaussian(sigma=sigma, sensitivity=sensitivity, adjacency="zero-out")
        )
    composed = compose(*parts)
    assert composed.epsilon(1e-4) == pytest.approx(profile.epsilon(1e-4), rel=1e-9)
    assert profile.epsilon(1e-4) == pytest.approx(0.7, rel=1e-6)


def test_sums_are_exact_in_any_order_of_the_records(released):
    """Else noise of the last digits would tell of records."""
    generator = np.random.default_rng(6)
    X = generator.uniform(-1, 1, size=(5000, 3))
    y = generator.integers(3, size=5000)
    model = NoisyBoosting(1.0, 1e-3, n_trees=2, classes=range(3), random_state=0)
    model.fit(X, y)
    first = [values for values, _ in released]
    released.clear()
    order = generator.permutation(5000)
    model.fit(X[order], y[order])
    assert len(first) == len(released) > 100
    for one, (other, _) in zip(first, released, strict=True):
        assert np.array_equal(one, other)


def test_a_record_that_is_removed_moves_no_other(released, monkeypatch):
    """Not by the last digit of a logit, though the blocks have other sizes then."""
    scale = _noisy_boosting._Sums.scale
    logits = []

    def kept(sums, *arguments):
        logits.append(sums.logits)
        return scale(sums, *arguments)

    monkeypatch.setattr(_noisy_boosting._Sums, "scale", kept)
    monkeypatch.setattr(_noisy_boosting, "STEPS", 3)
    model = NoisyBoosting(1.0, 1e-3, n_trees=2, classes=range(10), random_state=0)
    model.set_params(adjacency="add-remove", linear_share=0.5)
    generator = np.random.default_rng(0)
    for n in (10, 101, _noisy_boosting.ROWS + 2):
        released.clear()
        X = generator.uniform(-1, 1, size=(n, 30))
        y = generator.integers(10, size=n)
        for rows in (slice(None), slice(1, None)):
            released.clear()
            model.fit(X[rows], y[rows])
        assert np.array_equal(logits[-2][1:], logits[-1])


@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_clipped_gradients_cancel_out_at_the_probabilities_that_are_told(n_classes):
    generator = np.random.default_rng(n_classes)
    logits = generator.normal(0, 3, size=(200, n_classes))
    told = softmax(_unclipped(logits), axis=1)
    expected = np.zeros_like(logits)
    for code in range(n_classes):
        codes = np.full(200, code)
        records = Records(np.zeros((200, 1)), codes, np.arange(n_classes))
        sums = _noisy_boosting._Sums(records, 1.0, "zero-out", None)
        _, gradients = sums._gradients(logits)
        assert np.linalg.norm(gradients, axis=1).max() <= LONGEST
        expected += told[:, code, None] * gradients
    assert expected == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("linear_share", [None, 0])
def test_probabilities_are_honest_for_a_rare_class(linear_share):
    """Without allowing for clipping, the mean would be about half of the frequency."""
    generator = np.random.default_rng(7)
    X = generator.uniform(-1, 1, size=(20_000, 3))
    y = generator.random(20_000) < 0.07 * (X[:, 0] > 0) + 0.03
    model = NoisyBoosting(2.0, 1e-5, linear_share=linear_share, noise_seed=0)
    chances = model.fit(X, y).predict_proba(X)[:, 1]
    for part in (X[:, 0] > 0, X[:, 0] < 0):
        assert chances[part].mean() == pytest.approx(y[part].mean(), rel=0.25)


def test_planes_are_found_where_columns_are_many():
    generator = np.random.default_rng(8)
    X = generator.uniform(-1, 1, size=(4000, 30))
    y = X @ generator.normal(size=30) > 0
    scores = []
    for share in (None, 0):
        model = NoisyBoosting(1.0, 1e-5, linear_share=share, noise_seed=0)
        scores.append(model.fit(X[:3000], y[:3000]).score(X[3000:], y[3000:]))
    assert scores[0] > 0.88 > scores[1] + 0.02


def test_all_pairs_at_once_are_the_pairs_one_by_one():
    generator = np.random.default_rng(2)
    # more than one block of rows
    X = generator.uniform(-1, 1, size=(5000, 4))
    y = np.arange(5000) % 3
    records = Records(X, y, np.arange(3))
    noise = np.random.default_rng(0)
    sums = _noisy_boosting._Sums(records, 1e-9, "zero-out", noise)
    sums.logits = generator.normal(size=(5000, 3))
    coarse = _noisy_boosting.COARSE
    pairs = np.array([(0, 1), (1, 3), (2, 3)])
    codes = generator.integers(coarse, size=(5000, 4))
    together, _ = sums.pairs(codes, pairs, 1.0)
    for (i, j), found in zip(pairs, together, strict=True):
        alone, _ = sums.grid(codes[:, i] * coarse + codes[:, j], coarse**2, 1.0)
        assert found == pytest.approx(alone, abs=1e-6)


@pytest.mark.parametrize(("epsilon", "least"), [(0.5, 0.9), (3.0, 0.92)])
def test_a_product_of_two_columns_is_found_in_a_pipeline(epsilon, least):
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
    features = model.features_[..., None]
    assert (model.thresholds_ >= np.where(features == 0, 0.0, -5.0)).all()
    assert (model.thresholds_ <= np.where(features == 0, 1.0, 5.0)).all()
    assert (np.diff(model.thresholds_) >= 0).all()


@pytest.mark.parametrize("noise", ["all", "not the linear part's"])
def test_an_audit_refutes_a_copy_without_the_noise_of_the_linear_part(
    monkeypatch, noise
):
    generator = np.random.default_rng(10)
    X = generator.uniform(-1, 1, size=(30, 2))
    y = np.arange(30) % 2
    model = NoisyBoosting(1.0, 1e-3, n_trees=1, classes=[0, 1], noise_seed=0)
    if noise != "all":
        descend = _noisy_boosting._Sums.descend

        def exact(self, scaled, share):
            with pytest.MonkeyPatch.context() as patched:
                patched.setattr(_noisy_boosting, "add_gaussian", lambda sums, **_: sums)
                return descend(self, scaled, share)

        monkeypatch.setattr(_noisy_boosting._Sums, "descend", exact)
    monkeypatch.setattr(_noisy_boosting, "STEPS", 3)
    report = dpnotes.audit(model, X, y, runs=400, random_state=0)
    assert report.refuted == (noise != "all")
