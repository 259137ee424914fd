"""Binary logistic regressions: the minimum of the stated objective, for every size of subset, one class included."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy.special import expit
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from dpnotes.learners import _logistic_newton as newton
from dpnotes.learners import fit_binary_logistic, fit_multinomial_logistic


def gradient(X, y, w, b, *, l2):
    """Of the mean objective with respect to weights and intercept, written down once more."""
    r = expit(X @ w + b) - y
    return X.T @ r / len(y) + l2 * w, r.mean()


@pytest.fixture(scope="module")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return (X - X.mean(axis=0)) / X.std(axis=0), y


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("m", [20, 60])  # dual: fewer rows than the 30 features; primal: more
@pytest.mark.parametrize("C", [1, 1e4])
def test_equals_scikit_learn(cancer, m, intercept, C):
    X, y = cancer
    rng = np.random.default_rng(m)
    subsets = [rng.permutation(569)[: m + k % 3] for k in range(6)]
    l2 = 1 / (C * m)
    fitted = fit_binary_logistic(X, y, subsets, l2=l2, intercept=intercept, tolerance=1e-10)
    assert fitted.converged.all()
    for k, rows in enumerate(subsets):
        plain = LogisticRegression(
            C=1 / (len(rows) * l2), tol=1e-12, fit_intercept=intercept, solver="newton-cholesky", max_iter=500
        ).fit(X[rows], y[rows])
        scale = abs(plain.coef_).max()
        # the smallest eigenvalue of the Hessian is l2 = 2e-6
        np.testing.assert_allclose(fitted.weights[k], plain.coef_[0], atol=2e-5 * scale)
        np.testing.assert_allclose(fitted.intercept[k], plain.intercept_[0] if intercept else 0, atol=2e-5 * scale)


@settings(max_examples=60)
@given(data=st.data())
def test_gradient_vanishes_for_any_shape(data):
    """Duplicate rows, repeated and unequal subsets, constant features, one class, one row, dual and primal at once."""
    n, d = data.draw(st.integers(1, 12)), data.draw(st.integers(1, 8))
    X = data.draw(arrays.arrays(np.float64, (n, d), elements=st.integers(-3, 3).map(float)))
    y = data.draw(arrays.arrays(np.int64, n, elements=st.integers(0, 1)))
    subsets = data.draw(st.lists(st.lists(st.integers(0, n - 1), min_size=1, max_size=15), min_size=1, max_size=6))
    intercept, l2 = data.draw(st.booleans()), data.draw(st.sampled_from([1e-4, 1e-2, 1.0]))
    fitted = fit_binary_logistic(X, y, subsets, l2=l2, intercept=intercept, tolerance=1e-9, device="cpu")
    assert fitted.converged.all()
    votes = fitted.votes(X)
    for k, rows in enumerate(subsets):
        if intercept and len(set(y[rows])) == 1:
            assert fitted.intercept[k] == (np.inf if y[rows[0]] else -np.inf)
            assert (fitted.weights[k] == 0).all()
            assert (votes[k] == y[rows[0]]).all()
            continue
        down, across = gradient(X[rows], y[rows], fitted.weights[k], fitted.intercept[k], l2=l2)
        # rounding of w, which is up to 1e3 here
        assert max(abs(down).max(), abs(across) if intercept else 0) <= fitted.gradient_norm[k] + 1e-11


def test_large_logits_do_not_hide_the_last_step():
    """The loss of a record is far below the rounding of its logit: the objective must still see that a step is good."""
    rows = [[0, 2, -2, -1, 0, 3, 2, 0], [0, 1, 1, 3, 1, -1, 0, 1]]
    subset = [[0, 0, 0, 0, 0, 0, 1, 1]]
    fitted = fit_binary_logistic(np.array(rows, float), np.arange(2), subset, l2=0.01, tolerance=1e-9, device="cpu")
    assert fitted.converged.all()
    assert fitted.iterations[0] <= 10


@pytest.mark.parametrize("intercept", [False, True])
def test_dual_and_primal_agree(cancer, intercept):
    X, y = cancer
    rows = torch.tensor(X[:90].reshape(3, 30, 30))
    labels = torch.tensor(y[:90].reshape(3, 30), dtype=torch.float64)
    penalty = torch.full((3,), 0.3, dtype=torch.float64)
    results = [
        newton.minimise(
            engine(rows, labels, penalty=penalty, counts=None, intercept=intercept),
            torch.full((3,), 1e-11, dtype=torch.float64),
            max_iterations=30,
        )
        for engine in (newton.DualNewton, newton.PrimalNewton)
    ]
    for first, second in zip(results[0][:2], results[1][:2], strict=True):
        torch.testing.assert_close(first, second, atol=1e-10, rtol=0)


def test_equals_the_multinomial_model_of_half_the_l2(cancer):
    """W = (-w/2, w/2) makes the same logit difference, and |W|^2 = |w|^2 / 2."""
    X, y = cancer
    subsets = np.random.default_rng(0).permutation(569)[:200].reshape(5, 40)
    binary = fit_binary_logistic(X, y, subsets, l2=0.05, tolerance=1e-10)
    both = fit_multinomial_logistic(X, y, subsets, n_classes=2, l2=0.1, intercept=True, tolerance=1e-10)
    np.testing.assert_allclose(both.weights[:, 1] - both.weights[:, 0], binary.weights, atol=1e-8)
    np.testing.assert_allclose(both.intercept[:, 1] - both.intercept[:, 0], binary.intercept, atol=1e-8)


@pytest.mark.parametrize("m", [20, 60])
def test_chunk_changes_nothing(cancer, m):
    X, y = cancer
    subsets = [np.random.default_rng(k).permutation(569)[: m + k % 4] for k in range(11)]
    fits = [fit_binary_logistic(X, y, subsets, l2=1 / m, chunk=chunk, device="cpu") for chunk in (None, 1, 4, 11)]
    for other in fits[1:]:
        np.testing.assert_allclose(other.weights, fits[0].weights, atol=1e-12)
        np.testing.assert_allclose(other.intercept, fits[0].intercept, atol=1e-12)
        np.testing.assert_array_equal(other.iterations, fits[0].iterations)


def test_the_step_is_damped_where_a_whole_one_does_not_descend(monkeypatch):
    """Rows of very unequal length: a draw, found by search, from which whole Newton steps never arrive."""
    rng = np.random.default_rng(278)
    X = rng.normal(size=(40, 6)) * 10.0 ** rng.uniform(-1, 2, size=(40, 1))
    y = rng.integers(2, size=40)
    y[:2] = 0, 1
    fitted = fit_binary_logistic(X, y, [np.arange(40)], l2=1e-5, tolerance=1e-8, device="cpu")
    assert fitted.converged.all()
    monkeypatch.setattr(newton, "HALVINGS", 1)
    with pytest.warns(ConvergenceWarning):
        fit_binary_logistic(X, y, [np.arange(40)], l2=1e-5, tolerance=1e-8, device="cpu")


def test_dtypes(cancer):
    X, y = cancer
    subsets = np.random.default_rng(0).permutation(569)[:560].reshape(28, 20)
    wide = fit_binary_logistic(X.astype(np.float32), y, subsets, l2=1 / 20)
    narrow = fit_binary_logistic(X.astype(np.float32), y, subsets, l2=1 / 20, dtype=None)
    assert wide.weights.dtype == np.float64  # the default, whatever X is
    assert narrow.weights.dtype == np.float32
    assert narrow.converged.all()
    np.testing.assert_allclose(narrow.weights, wide.weights, atol=1e-4)


def test_not_converged_is_said(cancer):
    with pytest.warns(ConvergenceWarning, match="3 of 4 logistic regressions .* max_iterations=1"):
        fitted = fit_binary_logistic(
            *cancer,
            [np.arange(20), np.arange(25), np.arange(40), np.flatnonzero(cancer[1])[:5]],
            l2=1e-2,
            max_iterations=1,
        )
    assert fitted.converged.tolist() == [False, False, False, True]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": np.full(569, 2)}, r"y must hold class codes in 0\.\.1, got 2\.\.2"),
        ({"l2": 0.0}, r"l2 must be > 0, got l2=0\.0"),
        ({"subsets": np.array([[569]])}, r"row indices in 0\.\.568"),
        ({"tolerance": -1.0}, "tolerance must be > 0"),
        ({"dtype": "float16"}, "dtype must be float32 or float64"),
    ],
)
def test_bad_input_is_named(cancer, change, message):
    X, y = cancer
    arguments = {"y": y, "subsets": np.arange(30)[None], "l2": 0.1, **change}
    with pytest.raises(ValueError, match=message):
        fit_binary_logistic(X, arguments.pop("y"), arguments.pop("subsets"), **arguments)


@pytest.mark.needs("gpu")
@pytest.mark.parametrize("m", [20, 60])
def test_gpu_equals_cpu(cancer, m):
    subsets = np.random.default_rng(0).permutation(569)[: 9 * m].reshape(9, m)
    fits = [fit_binary_logistic(*cancer, subsets, l2=0.05, tolerance=1e-10, device=d) for d in ("cpu", "cuda")]
    np.testing.assert_allclose(fits[1].weights, fits[0].weights, atol=1e-8)
