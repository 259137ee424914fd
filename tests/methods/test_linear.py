"""The exact minimiser and class means, released with noise: another solver, worst
neighbours, the law of the noise.
"""

import math

import numpy as np
import pytest
from scipy import optimize, special, stats
from sklearn.base import clone

from dpnotes.accounting import gaussian_sigma
from dpnotes.data import to_unit_ball
from dpnotes.methods import (
    ClassMeans,
    ModelSensitivity,
    _linear,
    fit_minimiser,
    noisy_minimisers,
    secret_seed,
)
from dpnotes.methods._class_means import COUNT, _discriminant, _sums
from dpnotes.methods._linear import GRADIENT_FRACTION, linear_task, streams
from tests.methods.conftest import follows, is_normal, repeated


def small(m=60, d=3, n_classes=4, seed=0):
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(m, d))
    X = X / np.linalg.norm(X, axis=1, keepdims=True) * generator.uniform(0, 1, (m, 1))
    return X, generator.integers(n_classes, size=m)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("n", [None, 100])
def test_minimiser_equals_scipys(intercept, n):
    X, y = small()
    fit = fit_minimiser(
        X, y, n_classes=4, l2=0.01, intercept=intercept, n=n, device="cpu"
    )
    rows = np.hstack([X, np.ones((len(X), 1))]) if intercept else X

    def objective(flat):
        logits = rows @ flat.reshape(4, -1).T
        loss = special.logsumexp(logits, axis=1) - logits[np.arange(len(y)), y]
        return loss.sum() / (n or len(X)) + 0.005 * flat @ flat

    other = optimize.minimize(
        objective, np.zeros(4 * rows.shape[1]), method="BFGS", options={"gtol": 1e-7}
    ).x
    # differenced gradients of norm 1e-6 leave BFGS 1e-4 away; the fit is within
    # tolerance / l2 of the minimiser
    away = np.linalg.norm(fit.weights.ravel() - other)
    assert away < 3e-4 + fit.gradient_tolerance / 0.01
    assert objective(fit.weights.ravel()) <= objective(other) + 1e-6


def worst_neighbours(intercept, m):
    """Data sets one record different: the others make the model sure, and wrong, of
    either differing record.

    Without a bias the two have opposite directions and one label. With one, whose
    feature they share, the directions agree and the labels differ; the others are
    orthogonal to both, the constant feature included, else their Hessian would hold the
    bias.
    """
    cosine = math.sqrt(0.99)
    sine = 0.1
    half = (m - 1) // 2
    aside = -cosine if intercept else 0.0
    labels = np.repeat([0, 1], [m - 1 - half, half])
    others = np.column_stack([np.full(m - 1, aside), np.where(labels, -0.03, 0.03)])
    other_end = ([cosine, -sine], 0) if intercept else ([-cosine, sine], 1)
    for row, label in (([cosine, sine], 1), other_end):
        yield np.vstack([others, row]), np.append(labels, label)
    yield others, labels


@pytest.mark.parametrize(
    ("intercept", "constant"), [(False, math.sqrt(2)), (True, 2.0)]
)
def test_worst_neighbours_nearly_attain_the_sensitivity(intercept, constant):
    m = 30_000
    l2 = 1e-4
    make = {"n_classes": 2, "l2": l2, "intercept": intercept, "n": m, "device": "cpu"}
    first, second, fewer = (
        fit_minimiser(X, y, **make) for X, y in worst_neighbours(intercept, m)
    )
    exchanged = np.linalg.norm(first.weights - second.weights)
    assert 0.98 < exchanged / first.sensitivity() <= 1
    assert exchanged / first.sensitivity(analysis="published") > 0.98
    more = np.linalg.norm(first.weights - fewer.weights)
    assert 0.98 < more / first.sensitivity(adjacency="add-remove") <= 1
    published = 2 * constant / (m * l2)
    assert math.isclose(first.sensitivity(analysis="published"), published)
    assert math.isclose(first.sensitivity(), (1 + GRADIENT_FRACTION) * published)


@pytest.mark.parametrize("intercept", [True, False])
def test_a_minimum_that_the_solver_misses_is_reached_by_descent(intercept):
    X, y = small()
    setting = {"n_classes": 4, "l2": 1e-3, "intercept": intercept, "device": "cpu"}
    few, many = (
        fit_minimiser(X, y, max_iterations=steps, **setting) for steps in (1, 10_000)
    )
    away = np.linalg.norm(few.weights - many.weights)
    assert 0 < away <= 2 * many.gradient_tolerance / 1e-3


def test_descent_needs_no_more_steps_than_its_theorem(monkeypatch):
    """Every record at the bound and nearly separable, little regularisation: without
    the check that ends it early.
    """
    rows = np.vstack([np.eye(2), -np.eye(2)]).repeat(5, axis=0)
    task = linear_task(rows, np.arange(20) // 10, n_classes=2)
    penalty = 20 * 1e-3
    needed = task.loss.gradient_tolerance * 20
    true_norms = _linear._norms
    calls = []

    def never_small(gradients):
        calls.append(1)
        return np.maximum(true_norms(gradients), 2 * needed)

    monkeypatch.setattr(_linear, "_norms", never_small)
    weights = task.minimised(np.zeros((1, 2, 3)), penalty=penalty)
    assert len(calls) > 100
    assert true_norms(task._gradients(weights, penalty, 0.0))[0] <= needed


def test_rows_outside_the_ball_are_refused():
    X, y = small()
    X[5] *= 1.5 / np.linalg.norm(X[5])
    with pytest.raises(
        ValueError, match=r"rows of norm at most norm=1, got a longer row; .*to_"
    ):
        fit_minimiser(X, y, n_classes=4, l2=0.1, device="cpu")
    fit_minimiser(to_unit_ball(X, bound=1.0), y, n_classes=4, l2=0.1, device="cpu")
    X[5] /= np.linalg.norm(X[5])  # of norm 1 up to rounding
    fit_minimiser(X, y, n_classes=4, l2=0.1, device="cpu")


def test_noise_has_the_stated_distribution(minimiser):
    """Shape and scale at 1e-3 with fixed seeds; a scale 5% off must be noticed."""
    repeats = 600
    columns = minimiser.weights.shape[1]
    for analysis, dimensions in (("tight", 9), ("published", 10)):
        size = dimensions * columns
        models, _ = noisy_minimisers(
            minimiser, 2.0, analysis=analysis, n_repeats=repeats, seed=1
        )
        noise = (
            np.concatenate([models.weights, models.intercept[:, :, None]], axis=2)
            - minimiser.weights
        )
        norms = np.linalg.norm(noise, axis=(1, 2))
        scale = minimiser.sensitivity(analysis=analysis) / 2.0
        assert follows(norms, stats.gamma(size, scale=scale))
        # each coordinate has a standard deviation of at most 1 / sqrt(repeats size)
        direction = (noise / norms[:, None, None]).mean(axis=0)
        assert np.abs(direction).max() * math.sqrt(repeats * size) < 5
        sums = np.abs(noise.sum(axis=1)).max()
        assert sums < 1e-12 if analysis == "tight" else sums > 0.01

    models, _ = noisy_minimisers(minimiser, 2.0, 1e-5, n_repeats=20, seed=1)
    sigma = gaussian_sigma(2.0, 1e-5, sensitivity=minimiser.sensitivity())
    assert is_normal(models.weights - minimiser.weights[:, :-1], sigma)


def test_estimator_is_the_first_repeat(digits, minimiser):
    model = ModelSensitivity(
        3.0, 1e-6, l2=0.05, adjacency="replace-one", device="cpu", noise_seed=11
    ).fit(*digits)
    models, profile = noisy_minimisers(
        minimiser, 3.0, 1e-6, n_repeats=3, seed=secret_seed(11)
    )
    many = model.fit_many(*digits, n_classes=10, n_repeats=3, seed=secret_seed(11))
    assert (many.models.weights == models.weights).all()
    assert (model.coef_ == models.weights[0]).all()
    assert (model.intercept_ == models.intercept[0]).all()
    assert (model.predict(digits[0]) == models.votes(digits[0], device="cpu")[0]).all()
    assert model.profile_.to_dict() == repeated(profile)
    fresh = clone(model).set_params(noise_seed=None)
    first = fresh.fit(*digits).coef_
    second = fresh.fit(*digits).coef_
    assert (first != second).mean() > 0.99
    assert fresh.profile_.implementation == "exact"


def test_published_profile_says_what_is_not_counted(digits):
    model = ModelSensitivity(
        1.0, l2=0.05, analysis="published", adjacency="replace-one", device="cpu"
    ).fit(*digits)
    assert model.profile_.status == "assumption"
    assert "exact minimiser" in model.profile_.assumption
    assert "Lemma 1 does not count" in model.profile_.remark


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


@pytest.mark.parametrize(
    ("adjacency", "pure", "gaussian"),
    [
        ("zero-out", LONGEST, LONGEST),
        ("add-remove", LONGEST, LONGEST),
        ("replace-one", 2 * LONGEST, 2.0),
    ],
)
def test_noise_of_class_means_has_the_stated_distribution(adjacency, pure, gaussian):
    """Norms at 1e-3 with fixed seeds; a scale 5% off must be noticed."""
    X = np.zeros((50, 4))
    y = np.zeros(50, int)
    drawn = []
    for delta in (0.0, 1e-3):
        model = ClassMeans(2.0, delta, adjacency=adjacency)
        parts = [model._released(X, y, 3, one) for one in streams(1, 800)]
        drawn.append((np.stack([part[0] for part in parts]), parts[0][1]))
    (one, least), (other, sigma) = drawn
    start = np.array([[0, 0, 0, 0, 50 * COUNT], [0] * 5, [0] * 5])
    norms = np.linalg.norm(one - start, axis=2).ravel()
    assert follows(norms, stats.gamma(5, scale=pure / 2))
    assert np.std(one - start) == pytest.approx(least, rel=0.05)
    expected = gaussian_sigma(2.0, 1e-3, sensitivity=gaussian)
    assert sigma == pytest.approx(expected, rel=1e-6)
    assert is_normal(other - start, sigma)


def test_without_noise_equal_classes_go_to_the_nearest_mean(centred):
    X, y = centred
    kept = np.concatenate([np.flatnonzero(y == c)[:150] for c in range(10)])
    X = X[kept]
    y = y[kept]
    model = ClassMeans(1e12, norm=3.0, noise_seed=0).fit(X, y)
    rows = X * np.minimum(1, 3.0 / np.linalg.norm(X, axis=1, keepdims=True))
    means = np.stack([rows[y == c].mean(axis=0) for c in range(10)])
    distances = np.square(rows[:, None] - means).sum(axis=2)
    assert (model.predict(X) == distances.argmin(axis=1)).mean() > 0.999
    # the weights are the means in one unit
    units = model.coef_ / means
    assert units == pytest.approx(np.full(units.shape, units[0, 0]), rel=1e-3)


@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_class_means_know_that_a_class_is_rare(delta):
    generator = np.random.default_rng(9)
    y = generator.random(4000) < 0.03
    X = generator.normal(0, 0.2, size=(4000, 10)) + 0.1 * y[:, None]
    model = ClassMeans(1.0, delta, noise_seed=0).fit(X, y)
    assert model.score(X, y) > 0.96
    assert model.predict_proba(X)[:, 1].mean() == pytest.approx(y.mean(), abs=0.02)


def test_means_that_noise_explains_are_not_told_apart():
    """Then every query gets the frequencies."""
    numbers = np.array([[60.0], [40.0], [25.0]]) * COUNT
    sums = np.hstack([np.random.default_rng(0).normal(size=(3, 4)), numbers])
    coef, intercept = _discriminant(sums, 10.0)
    assert coef == pytest.approx(np.broadcast_to(coef[0], (3, 4)))
    logs = np.log([60, 40, 25])
    assert intercept - intercept[0] == pytest.approx(logs - logs[0])
