"""Perturbed softmax regressions at once: the exact minimum, from float32 steps too, in fewer steps."""

import warnings

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

from dpnotes.learners import _logistic_lbfgs, fit_multinomial_logistic, fit_perturbed_logistic
from dpnotes.learners import _logistic_repeats as repeats
from dpnotes.learners._logistic_fits import targets_of
from dpnotes.learners._logistic_hessian import inverse_blocks
from dpnotes.learners._logistic_lbfgs import minimise
from dpnotes.learners._logistic_problems import PreconditionedProblems

R, C = 6, 10


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X / 64, y


@pytest.fixture(scope="module")
def noise():
    return np.random.default_rng(0).normal(size=(R, C, 64)) * 5


def gradients(X, y, W, *, l2, linear):
    """Of the sum, the norm for each model."""
    residual = softmax(W @ X.T, axis=1) - np.eye(C)[y].T
    return np.linalg.norm(residual @ X + len(X) * np.asarray(l2).reshape(-1, 1, 1) * W + linear, axis=(1, 2))


@pytest.mark.parametrize("l2", [1e-1, 1e-3, 1e-5])
def test_float64_is_exact_although_steps_are_float32(digits, noise, l2):
    """The gradient of the sum gets as small as loss perturbation needs it, a hundred-thousandth of one record's."""
    X, y = digits
    tolerance = 1e-5 / len(X) / np.sqrt(C * 64)
    fitted = fit_perturbed_logistic(X, y, n_classes=C, l2=l2, linear=noise, tolerance=tolerance, device="cpu")
    assert fitted.converged.all()
    assert gradients(X, y, fitted.weights, l2=l2, linear=noise).max() <= 1.01e-5
    if l2 < 1e-3:
        low = fit_perturbed_logistic(
            X.astype(np.float32), y, n_classes=C, l2=l2, linear=noise, tolerance=1e-7, device="cpu"
        )
        assert gradients(X, y, low.weights, l2=l2, linear=noise).max() > 1e-4  # power: float32 alone stays above it


def test_a_minimum_found_by_scipy(digits, noise):
    X, y = digits

    def objective(flat):
        W = flat.reshape(C, 64)
        Z = X @ W.T
        residual = softmax(Z, axis=1) - np.eye(C)[y]
        value = (logsumexp(Z, axis=1) - Z[np.arange(len(y)), y]).sum() + (noise[0] * W).sum() + 9 * (W**2).sum()
        return value, (residual.T @ X + noise[0] + 18 * W).ravel()

    theirs = minimize(objective, np.zeros(C * 64), jac=True, method="L-BFGS-B", options={"gtol": 1e-7, "maxiter": 5000})
    ours = fit_perturbed_logistic(X, y, n_classes=C, l2=18 / len(X), linear=noise, tolerance=1e-10, device="cpu")
    # the objective is 18-strongly convex, and SciPy stops at a relative change of 2e-9 of a value of 4e3
    assert np.linalg.norm(ours.weights[0].ravel() - theirs.x) < 2 * np.sqrt(2 * 2e-9 * 4e3 / 18)


def test_what_float32_cannot_reach_float64_does(digits, noise, monkeypatch):
    """Far below float32's rounding; without the steps in float64 the fit would stop above it."""
    X, y = digits
    make = {"n_classes": C, "l2": 1e-3, "linear": noise, "tolerance": 1e-15, "max_iterations": 1000, "device": "cpu"}
    fitted = fit_perturbed_logistic(X, y, **make)
    assert fitted.converged.all()
    kinds = []

    def seen(problems, tolerance, **settings):
        kinds.append(problems.rows.dtype)
        return minimise(problems, tolerance, **settings)

    monkeypatch.setattr(repeats, "minimise", seen)
    fit_perturbed_logistic(X, y, **make)
    assert kinds[0] == torch.float32
    assert kinds[-1] == torch.float64
    kinds.clear()
    fit_perturbed_logistic(X, y, **make | {"tolerance": 1e-7})
    assert set(kinds) == {torch.float32}


@pytest.mark.parametrize("l2", [1e-3, 1e-2, 1e-1, 1.0])
def test_common_shift_of_all_classes_is_solved_for(digits, noise, l2):
    X, y = digits
    fitted = fit_perturbed_logistic(X, y, n_classes=C, l2=l2, linear=noise, tolerance=1e-10, device="cpu")
    expected = -noise.mean(axis=1) / (len(X) * l2)
    np.testing.assert_allclose(fitted.weights.mean(axis=1), expected, atol=1e-6)


def test_centring_saves_iterations(digits, noise, monkeypatch):
    """Blocks for each class alone misjudge the common shift: the same minimum in at most 0.7 of the steps."""
    X, y = (torch.tensor(values) for values in digits)
    penalty = torch.full((R, 1, 1), 1e-2 * len(X), dtype=torch.float64)
    W0 = torch.tensor(fit_multinomial_logistic(*digits, np.arange(len(X))[None], n_classes=C, l2=1e-2).weights)
    inverse = inverse_blocks(X, penalty[0].reshape(1), W=W0[0])
    monkeypatch.setattr(_logistic_lbfgs, "CHECK_EVERY", 1)
    found = []
    for kind in (PreconditionedProblems, repeats.CentredProblems):
        problems = kind(
            rows=X,
            targets=targets_of(y, C, X.dtype)[None],
            penalty=penalty,
            inverse=inverse,
            linear=torch.tensor(noise),
            start=W0.expand(R, C, 64),
        )
        found.append(minimise(problems, torch.full((R,), 1e-6).double(), max_iterations=1000))
    (W, _, plain), (V, _, centred) = found
    assert float(centred.double().mean() / plain.double().mean()) < 0.7
    torch.testing.assert_close(V, W, atol=1e-6, rtol=0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_one_at_a_time_is_the_same(digits, noise, dtype):
    X, y = digits
    tolerance = {np.float32: 1e-6, np.float64: 1e-11}[dtype]
    make = {"n_classes": C, "l2": 1e-2, "tolerance": tolerance, "device": "cpu"}
    together = fit_perturbed_logistic(X.astype(dtype), y, linear=noise, **make)
    reach = 2 * tolerance * np.sqrt(C * 64) / 1e-2  # gradients of both over the strong convexity
    for r in range(R):
        alone = fit_perturbed_logistic(X.astype(dtype), y, linear=noise[r : r + 1], **make)
        assert np.linalg.norm(alone.weights[0] - together.weights[r]) < reach
    assert together.weights.dtype == dtype


@pytest.mark.parametrize("limit", [0, 3])
def test_too_few_iterations_are_told(digits, noise, limit):
    X, y = digits
    with pytest.warns(ConvergenceWarning):
        fitted = fit_perturbed_logistic(
            X, y, n_classes=C, l2=1e-4, linear=noise, tolerance=1e-12, max_iterations=limit, device="cpu"
        )
    assert not fitted.converged.any()
    assert (fitted.iterations <= limit).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit_perturbed_logistic(X, y, n_classes=C, l2=1e-1, linear=noise, tolerance=1e-6, device="cpu")
