"""The exact minimiser: another solver, the worst neighbours, and refusal of what breaks its sensitivity."""

import math

import numpy as np
import pytest
from scipy import optimize, special

from dpnotes.data import to_unit_ball
from dpnotes.methods import _linear, fit_minimiser
from dpnotes.methods._linear import GRADIENT_FRACTION, linear_task


def small(m=60, d=3, n_classes=4, seed=0):
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(m, d))
    X = X / np.linalg.norm(X, axis=1, keepdims=True) * generator.uniform(0, 1, (m, 1))
    return X, generator.integers(n_classes, size=m)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("n", [None, 100])
def test_minimiser_equals_scipys(intercept, n):
    X, y = small()
    fit = fit_minimiser(X, y, n_classes=4, l2=0.01, intercept=intercept, n=n, device="cpu")
    rows = np.hstack([X, np.ones((len(X), 1))]) if intercept else X

    def objective(flat):
        logits = rows @ flat.reshape(4, -1).T
        loss = special.logsumexp(logits, axis=1) - logits[np.arange(len(y)), y]
        return loss.sum() / (n or len(X)) + 0.005 * flat @ flat

    other = optimize.minimize(objective, np.zeros(4 * rows.shape[1]), method="BFGS", options={"gtol": 1e-7}).x
    # differenced gradients of norm 1e-6 leave BFGS 1e-4 away; the fit is within tolerance / l2 of the minimiser
    away = np.linalg.norm(fit.weights.ravel() - other)
    assert away < 3e-4 + fit.gradient_tolerance / 0.01
    assert objective(fit.weights.ravel()) <= objective(other) + 1e-6


def worst_neighbours(intercept, m):
    """Data sets one record different: the others make the model sure, and wrong, of either differing record.

    Without a bias the two have opposite directions and one label. With one, whose feature they share, the directions
    agree and the labels differ; the others are orthogonal to both, the constant feature included, else their Hessian
    would hold the bias.
    """
    cosine, sine = math.sqrt(0.99), 0.1
    half = (m - 1) // 2
    aside = -cosine if intercept else 0.0
    others = np.concatenate([np.tile([aside, 0.03], (m - 1 - half, 1)), np.tile([aside, -0.03], (half, 1))])
    labels = np.repeat([0, 1], [m - 1 - half, half])
    ends = (([cosine, sine], 1), ([cosine, -sine], 0)) if intercept else (([cosine, sine], 1), ([-cosine, sine], 1))
    for row, label in ends:
        yield np.vstack([others, row]), np.append(labels, label)
    yield others, labels


@pytest.mark.parametrize(("intercept", "constant"), [(False, math.sqrt(2)), (True, 2.0)])
def test_worst_neighbours_nearly_attain_the_sensitivity(intercept, constant):
    m, l2 = 30_000, 1e-4
    make = {"n_classes": 2, "l2": l2, "intercept": intercept, "n": m, "device": "cpu"}
    first, second, fewer = (fit_minimiser(X, y, **make) for X, y in worst_neighbours(intercept, m))
    exchanged = np.linalg.norm(first.weights - second.weights)
    assert 0.98 < exchanged / first.sensitivity() <= 1
    assert exchanged / first.sensitivity(analysis="published") > 0.98
    more = np.linalg.norm(first.weights - fewer.weights)
    assert 0.98 < more / first.sensitivity(adjacency="add-remove") <= 1
    assert math.isclose(first.sensitivity(analysis="published"), 2 * constant / (m * l2))
    assert math.isclose(first.sensitivity(), (2 + 2 * GRADIENT_FRACTION) * constant / (m * l2))


def test_random_neighbours_stay_within_the_sensitivity():
    for seed in range(20):
        X, y = small(m=8, d=2, n_classes=3, seed=seed)
        l2 = 10 ** np.random.default_rng(seed).uniform(-2.5, 0)
        make = {"n_classes": 3, "l2": l2, "n": 7, "device": "cpu", "intercept": bool(seed % 2)}
        first, second, fewer = (fit_minimiser(X[k], y[k], **make) for k in (slice(7), slice(1, 8), slice(1, 7)))
        assert np.linalg.norm(first.weights - second.weights) <= first.sensitivity()
        assert np.linalg.norm(first.weights - fewer.weights) <= first.sensitivity(adjacency="add-remove")


@pytest.mark.parametrize("intercept", [True, False])
def test_a_minimum_that_the_solver_misses_is_reached_by_descent(intercept):
    X, y = small()
    setting = {"n_classes": 4, "l2": 1e-3, "intercept": intercept, "device": "cpu"}
    few, many = (fit_minimiser(X, y, max_iterations=steps, **setting) for steps in (1, 10_000))
    assert (few.weights != many.weights).any()
    assert np.linalg.norm(few.weights - many.weights) <= 2 * many.gradient_tolerance / 1e-3


def test_descent_needs_no_more_steps_than_its_theorem(monkeypatch):
    """Every record at the bound and nearly separable, little regularisation: without the check that ends it early."""
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
    with pytest.raises(ValueError, match=r"rows of norm at most norm=1, got a row of norm 1\.5; .*to_"):
        fit_minimiser(X, y, n_classes=4, l2=0.1, device="cpu")
    fit_minimiser(to_unit_ball(X, bound=1.0), y, n_classes=4, l2=0.1, device="cpu")
    X[5] /= np.linalg.norm(X[5])  # of norm 1 up to rounding
    fit_minimiser(X, y, n_classes=4, l2=0.1, device="cpu")
