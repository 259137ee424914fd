"""Multinomial logistic regressions: the minimum of the stated objective, whatever the shape, the chunk and the mode."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from dpnotes.learners import _logistic_fits as fits
from dpnotes.learners import _logistic_multinomial as module
from dpnotes.learners import fit_multinomial_logistic, fit_perturbed_logistic


def gradient(X, y, W, b, *, l2, linear=0.0):
    """Of the mean objective with respect to weights and intercept, written down once more."""
    P = softmax(X @ W.T + b, axis=1)
    P[np.arange(len(y)), y] -= 1
    return P.T @ X / len(y) + l2 * W + linear / len(y), P.mean(axis=0)


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X / 16, y


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 40))
    return X, (X[:, :3] + 0.5 * rng.normal(size=(300, 3))).argmax(axis=1)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("m", [30, 150, 299])  # in the span of the rows; both sides of where it pays
def test_equals_scikit_learn(problem, m, intercept):
    X, y = problem
    rng = np.random.default_rng(m)
    subsets = [rng.integers(300, size=m - k % 4) for k in range(9)]
    fitted = fit_multinomial_logistic(X, y, subsets, n_classes=3, l2=1e-2, intercept=intercept, tolerance=1e-9)
    assert fitted.converged.all()
    for k, rows in enumerate(subsets):
        plain = LogisticRegression(C=1 / (len(rows) * 1e-2), tol=1e-9, fit_intercept=intercept, solver="newton-cg")
        plain.fit(X[rows], y[rows])
        # both gradients are within 1e-9, and the objective bends by at least l2 = 1e-2; the intercept by less
        np.testing.assert_allclose(fitted.weights[k], plain.coef_, atol=3e-7)
        np.testing.assert_allclose(fitted.intercept[k], plain.intercept_, atol=1e-6)


@pytest.mark.parametrize("l2", [1e-1, 1e-3])
def test_equals_scipy(problem, l2):
    X, y = problem
    rows = np.arange(25)

    def objective(flat):
        W = flat.reshape(3, 40)
        Z = X[rows] @ W.T
        value = (logsumexp(Z, axis=1) - Z[rows, y[rows]]).mean() + l2 / 2 * (W**2).sum()
        return value, gradient(X[rows], y[rows], W, 0, l2=l2)[0].ravel()

    best = minimize(objective, np.zeros(120), jac=True, method="L-BFGS-B", options={"gtol": 1e-10, "ftol": 0})
    fitted = fit_multinomial_logistic(X, y, [rows], n_classes=3, l2=l2, tolerance=1e-10)
    np.testing.assert_allclose(fitted.weights[0].ravel(), best.x, atol=2e-9 / l2)


@pytest.mark.parametrize("intercept", [False, True])
def test_both_coordinates_take_the_same_iterates(problem, monkeypatch, intercept):
    """L-BFGS from zero is kept by the change of coordinates, iterate by iterate, not only at the optimum."""
    X, y = problem
    subsets = np.random.default_rng(1).permutation(300)[:120].reshape(4, 30)
    settings_ = {"n_classes": 3, "l2": 1e-3, "tolerance": 1e-12, "intercept": intercept, "device": "cpu"}
    results = []
    for mode in ("span", "batch"):
        monkeypatch.setattr(module, "_mode", lambda *_, mode=mode: mode)
        with pytest.warns(ConvergenceWarning):
            results.append(fit_multinomial_logistic(X, y, subsets, max_iterations=12, **settings_))
    np.testing.assert_allclose(results[0].weights, results[1].weights, atol=1e-11)  # rounding of 12 iterations
    np.testing.assert_allclose(results[0].gradient_norm, results[1].gradient_norm, rtol=1e-6)


@settings(max_examples=40)
@given(data=st.data())
def test_gradient_vanishes_for_any_shape(data):
    """Duplicate rows, repeated and unequal subsets, constant features, missing classes, one row."""
    n, d, C = (data.draw(st.integers(*range_)) for range_ in ((1, 12), (1, 12), (2, 5)))
    values = st.integers(-3, 3).map(float)  # ties, duplicates and zero columns are likely
    X = data.draw(arrays.arrays(np.float64, (n, d), elements=values))
    y = data.draw(arrays.arrays(np.int64, n, elements=st.integers(0, C - 1)))
    subsets = data.draw(st.lists(st.lists(st.integers(0, n - 1), min_size=1, max_size=15), min_size=1, max_size=6))
    intercept, l2 = data.draw(st.booleans()), data.draw(st.sampled_from([1e-2, 1.0]))
    fitted = fit_multinomial_logistic(X, y, subsets, n_classes=C, l2=l2, intercept=intercept, tolerance=1e-8)
    for k, rows in enumerate(subsets):
        missing = np.setdiff1d(np.arange(C), y[rows])
        down, across = gradient(X[rows], y[rows], fitted.weights[k], fitted.intercept[k], l2=l2)
        assert abs(down).max() <= 1.01e-8  # and its own report is that number, up to rounding
        if intercept:
            assert abs(across).max() <= 1.01e-8
            assert (fitted.intercept[k][missing] == -np.inf).all()
            assert (fitted.weights[k][missing] == 0).all()
        largest = max(abs(down).max(), abs(across).max() if intercept else 0)
        assert fitted.gradient_norm[k] == pytest.approx(largest, abs=1e-13)
    assert np.isin(fitted.votes(X), np.arange(C)).all()


@pytest.mark.parametrize(("m", "mode"), [(50, "span"), (400, "batch"), (900, "alone")])
@pytest.mark.parametrize("intercept", [False, True])
def test_chunk_changes_nothing(digits, m, mode, intercept, monkeypatch):
    X, y = digits
    monkeypatch.setattr(module, "LARGE", 2**15)
    assert module._mode(m, 64, 10, 1000) == mode
    subsets = [np.random.default_rng(k).permutation(1797)[: m - k % 2] for k in range(7)]
    fits = [
        fit_multinomial_logistic(X, y, subsets, n_classes=10, l2=1e-2, intercept=intercept, chunk=chunk, device="cpu")
        for chunk in (None, 1, 3, 7)
    ]
    for other in fits[1:]:
        np.testing.assert_allclose(other.weights, fits[0].weights, atol=1e-12)
        np.testing.assert_allclose(other.intercept, fits[0].intercept, atol=1e-12)
        np.testing.assert_array_equal(other.iterations, fits[0].iterations)


def test_float32_agrees_with_float64(digits):
    X, y = digits
    subsets = np.random.default_rng(3).permutation(1797)[:1750].reshape(35, 50)
    wide = fit_multinomial_logistic(X, y, subsets, n_classes=10, l2=1e-2)
    narrow = fit_multinomial_logistic(X.astype(np.float32), y, subsets, n_classes=10, l2=1e-2)
    assert wide.weights.dtype == np.float64
    assert narrow.weights.dtype == np.float32
    assert narrow.converged.all()
    # each is within 1e-5 of a zero gradient, and the objective bends by 1e-2 or more
    assert np.linalg.norm(wide.weights - narrow.weights, axis=(1, 2)).max() < 2 * 1e-5 * np.sqrt(640) / 1e-2
    assert (wide.votes(X) != narrow.votes(X)).mean() < 1e-4
    again = fit_multinomial_logistic(X, y, subsets, n_classes=10, l2=1e-2, dtype=np.float32)
    assert again.weights.dtype == np.float32


def test_unattainable_tolerance_in_float32_stays_finite_and_warns(digits):
    X, y = digits
    with pytest.warns(ConvergenceWarning, match="2 of 2 logistic regressions have not converged"):
        fitted = fit_multinomial_logistic(
            X.astype(np.float32),
            y,
            [np.arange(60), np.arange(900)],
            n_classes=10,
            l2=1e-3,
            tolerance=1e-12,
            max_iterations=300,
        )
    assert np.isfinite(fitted.weights).all()
    assert fitted.gradient_norm.max() < 1e-5
    assert not fitted.converged.any()
    assert (fitted.iterations == 300).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("intercept", [False, True])
def test_a_large_problem_is_fitted_alone(digits, dtype, intercept, monkeypatch):
    X, y = digits
    monkeypatch.setattr(module, "LARGE", 2**16)
    assert module._mode(1797, 64, 10, 1000) == "alone"
    fitted = fit_multinomial_logistic(
        X.astype(dtype), y, np.arange(1797)[None], n_classes=10, l2=1e-2, intercept=intercept, device="cpu"
    )
    plain = LogisticRegression(C=1 / (1797 * 1e-2), tol=1e-7, fit_intercept=intercept, max_iter=1000).fit(X, y)
    assert fitted.weights.shape == (1, 10, 64)
    np.testing.assert_allclose(fitted.weights[0], plain.coef_, atol=1e-3)
    assert abs(gradient(X, y, fitted.weights[0], fitted.intercept[0], l2=1e-2)[0]).max() < 1.1e-5


def test_without_l2_it_stays_in_the_span_and_separates(problem):
    X, y = problem
    with pytest.warns(ConvergenceWarning):
        fitted = fit_multinomial_logistic(X, y, [np.arange(20)], n_classes=3, l2=0, tolerance=1e-12, max_iterations=40)
    assert (fitted.votes(X[:20])[0] == y[:20]).all()
    rest = fitted.weights[0] - fitted.weights[0] @ np.linalg.pinv(X[:20]) @ X[:20]
    assert abs(rest).max() < 1e-10 * abs(fitted.weights).max()


@pytest.mark.parametrize("block", [np.inf, 0])  # without and with the shared preconditioner
def test_perturbed_models_are_minima_of_their_own_objective(digits, monkeypatch, block):
    X, y = digits
    monkeypatch.setattr("dpnotes.learners._logistic_hessian.BLOCK", block)
    noise = np.random.default_rng(0).normal(size=(7, 10, 64)) * np.array([0, 1, 1, 1, 1, 1, 1])[:, None, None] * 20
    for l2 in (1.0, 1e-1, 1e-2, 1e-3):
        fitted = fit_perturbed_logistic(X, y, n_classes=10, l2=l2, linear=noise, tolerance=1e-8, chunk=3)
        for k in range(7):
            down, _ = gradient(X, y, fitted.weights[k], 0, l2=l2, linear=noise[k])
            assert abs(down).max() <= 1.01e-8
    whole = fit_perturbed_logistic(X, y, n_classes=10, l2=1e-3, linear=noise, tolerance=1e-8)
    # gradients within 1e-8 leave weights within 1e-8 sqrt(640) / l2 of the minimum, at worst
    np.testing.assert_allclose(whole.weights, fitted.weights, atol=1e-5)
    plain = fit_multinomial_logistic(X, y, np.arange(1797)[None], n_classes=10, l2=1e-3, tolerance=1e-8)
    np.testing.assert_allclose(fitted.weights[0], plain.weights[0], atol=1e-4)
    started = fit_perturbed_logistic(
        X, y, n_classes=10, l2=1e-3, linear=noise[:1], start=plain.weights[0], tolerance=1e-7
    )
    assert started.iterations[0] == 0


def test_all_rows_in_their_order_are_shared_and_stay_as_they_are(digits):
    X, y = digits
    before = X.copy()
    source = fits.Source(X, y, dtype=X.dtype, device=torch.device("cpu"))
    everything = np.arange(len(X))
    for indices in (everything, everything[None]):
        rows = source.rows(indices)
        assert rows.shape == (*indices.shape, 64)
        assert rows.data_ptr() == X.ctypes.data
    assert source.rows(everything[::-1].copy()).data_ptr() != X.ctypes.data
    for other in (X[:, ::-1], np.asfortranarray(X)):
        taken = fits.Source(other, y, dtype=X.dtype, device=torch.device("cpu")).rows(everything)
        np.testing.assert_array_equal(taken.numpy(), other)
    fitted = fit_multinomial_logistic(X, y, everything[None], n_classes=10, l2=1e-2, device="cpu")
    turned = fit_multinomial_logistic(X, y, everything[None, ::-1], n_classes=10, l2=1e-2, device="cpu")
    np.testing.assert_allclose(fitted.weights, turned.weights, atol=1e-4)
    fit_perturbed_logistic(X, y, n_classes=10, l2=1e-2, linear=np.ones((2, 10, 64)), device="cpu")
    np.testing.assert_array_equal(X, before)


def test_read_only_rows_and_global_state(problem):
    X, y = problem
    X, y = X.copy(), y.copy()
    X.setflags(write=False)
    y.setflags(write=False)
    state = torch.get_rng_state()
    fit_multinomial_logistic(X, y, [np.arange(k + 1, 300) for k in range(5)], n_classes=3, l2=0.1, chunk=2)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": np.zeros(5, int)}, "X and y must have equal length, got 300 rows"),
        ({"X": np.zeros((300, 2), int)}, "X must be float32 or float64, got int64"),
        ({"X": np.full((300, 2), np.nan)}, "X must be finite, got 600 bad entries"),
        ({"X": np.zeros(300)}, "X must have shape"),
        ({"y": np.full(300, 3)}, r"y must hold class codes in 0\.\.2, got 3\.\.3"),
        ({"y": np.full(300, -1)}, r"y must hold class codes in 0\.\.2, got -1\.\.-1"),
        ({"y": np.zeros(300)}, "y must hold integer class codes, got float64"),
        ({"subsets": []}, "at least one subset"),
        ({"subsets": [[1], []]}, "got subset 1 of 0 rows|integer row indices"),
        ({"subsets": np.array([[300]])}, r"row indices in 0\.\.299, got 300\.\.300"),
        ({"subsets": np.array([[-1]])}, r"row indices in 0\.\.299, got -1\.\.-1"),
        ({"subsets": np.array([1, 2])}, "subsets must have shape"),
        ({"subsets": np.array([[0.5]])}, "integer row indices, got float64"),
        ({"l2": -1.0}, r"l2 must be >= 0, got l2=-1\.0"),
        ({"l2": np.nan}, "l2 must be >= 0, got l2=nan"),
        ({"tolerance": 0.0}, "tolerance must be > 0"),
        ({"max_iterations": -1}, "max_iterations must be >= 0"),
        ({"n_classes": 1}, "n_classes must be >= 2"),
        ({"dtype": np.int32}, "dtype must be float32 or float64"),
        ({"chunk": 0}, "chunk must be >= 1"),
    ],
)
def test_bad_input_is_named(problem, change, message):
    X, y = problem
    arguments = {"X": X, "y": y, "subsets": np.arange(30)[None], "n_classes": 3, "l2": 0.1, **change}
    with pytest.raises(ValueError, match=message):
        fit_multinomial_logistic(arguments.pop("X"), arguments.pop("y"), arguments.pop("subsets"), **arguments)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"linear": np.zeros((2, 3, 39))}, r"linear must have shape \[R >= 1, 3, 40\]"),
        ({"linear": np.full((2, 3, 40), np.inf)}, "linear must be finite, got 240 bad entries"),
        ({"l2": 0.0}, "l2 must be > 0"),
        ({"start": np.zeros((3, 39))}, "start must have shape"),
    ],
)
def test_bad_perturbation_is_named(problem, change, message):
    arguments = {"n_classes": 3, "l2": 0.1, "linear": np.zeros((2, 3, 40)), **change}
    with pytest.raises(ValueError, match=message):
        fit_perturbed_logistic(*problem, **arguments)


@pytest.mark.needs("gpu")
@pytest.mark.parametrize("m", [50, 400])
def test_gpu_equals_cpu(digits, m):
    X, y = digits
    subsets = np.random.default_rng(0).permutation(1797)[: 4 * m].reshape(4, m)
    fits = [
        fit_multinomial_logistic(X, y, subsets, n_classes=10, l2=1e-2, intercept=True, tolerance=1e-9, device=device)
        for device in ("cpu", "cuda")
    ]
    np.testing.assert_allclose(fits[1].weights, fits[0].weights, atol=1e-6)
