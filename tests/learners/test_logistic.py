"""Logistic regressions: the minimum of the stated objective for every shape, and
votes that follow from it.
"""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as arrays
from scipy.special import softmax
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from dpnotes.learners import (
    LogisticClassifier,
    LogisticModels,
    _logistic as models,
    _newton as newton,
    fit_binary_logistic,
    fit_multinomial_logistic,
    fit_perturbed_logistic,
)

R = 6
C = 10


def gradient(X, y, W, b, *, l2, linear=0.0):
    """Of the mean objective with respect to weights and intercept, written down once
    more.
    """
    P = softmax(X @ W.T + b, axis=1)
    # probabilities less targets
    P[np.arange(len(y)), y] -= 1
    return P.T @ X / len(y) + l2 * W + linear / len(y), P.mean(axis=0)


@pytest.fixture(scope="module")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return (X - X.mean(axis=0)) / X.std(axis=0), y


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X / 16, y


@pytest.fixture(scope="module")
def noise():
    return np.random.default_rng(0).normal(size=(R, C, 64)) * 20


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 40))
    return X, (X[:, :3] + 0.5 * rng.normal(size=(300, 3))).argmax(axis=1)


@pytest.mark.parametrize("intercept", [False, True])
# in the span of the rows; both sides of where it pays
@pytest.mark.parametrize("m", [30, 150, 299])
def test_multinomial_equals_scikit_learn(problem, m, intercept):
    X, y = problem
    rng = np.random.default_rng(m)
    subsets = [rng.integers(300, size=m - k % 4) for k in range(9)]
    fitted = fit_multinomial_logistic(
        X, y, subsets, n_classes=3, l2=1e-2, intercept=intercept, tolerance=1e-9
    )
    assert fitted.converged.all()
    how = {"tol": 1e-9, "fit_intercept": intercept, "solver": "newton-cg"}
    for k, rows in enumerate(subsets):
        # its loss is a sum, ours a mean
        plain = LogisticRegression(C=1 / (len(rows) * 1e-2), **how)
        plain.fit(X[rows], y[rows])
        # both gradients are within 1e-9, and the objective bends by at least l2 = 1e-2;
        # the intercept by less
        np.testing.assert_allclose(fitted.weights[k], plain.coef_, atol=3e-7)
        np.testing.assert_allclose(fitted.intercept[k], plain.intercept_, atol=1e-6)


@settings(max_examples=60)
@given(data=st.data())
def test_gradients_vanish_for_any_shape(data):
    """Duplicate rows, repeated and unequal subsets, constant features, missing
    classes, one row, all coordinates.
    """
    n = data.draw(st.integers(1, 12))
    d = data.draw(st.integers(1, 12))
    classes = data.draw(st.integers(2, 5))
    # ties, duplicates and zero columns are likely
    values = st.integers(-3, 3).map(float)
    X = data.draw(arrays.arrays(np.float64, (n, d), elements=values))
    y = data.draw(arrays.arrays(np.int64, n, elements=st.integers(0, classes - 1)))
    rows = st.lists(st.integers(0, n - 1), min_size=1, max_size=15)
    subsets = data.draw(st.lists(rows, min_size=1, max_size=6))
    intercept = data.draw(st.booleans())
    l2 = data.draw(st.sampled_from([1e-2, 1.0]))
    how = {"intercept": intercept, "tolerance": 1e-9, "device": "cpu"}
    fitted = fit_multinomial_logistic(X, y, subsets, n_classes=classes, l2=l2, **how)
    for k, rows in enumerate(subsets):
        missing = np.setdiff1d(np.arange(classes), y[rows])
        model = fitted.weights[k], fitted.intercept[k]
        down, across = gradient(X[rows], y[rows], *model, l2=l2)
        largest = max(abs(down).max(), abs(across).max() if intercept else 0)
        assert largest <= 1.01e-9
        # its own report is that number
        assert fitted.gradient_norm[k] == pytest.approx(largest, abs=1e-13)
        if intercept:
            # the limit of the minimising sequences
            assert (fitted.intercept[k][missing] == -np.inf).all()
            assert (fitted.weights[k][missing] == 0).all()
    assert np.isin(fitted.votes(X), np.arange(classes)).all()
    y = (y > 0).astype(int)
    l2 = data.draw(st.sampled_from([1e-4, 1e-2, 1.0]))
    fitted = fit_binary_logistic(X, y, subsets, l2=l2, **how)
    assert fitted.converged.all()
    for k, rows in enumerate(subsets):
        if intercept and len(set(y[rows])) == 1:
            assert fitted.intercept[k] == (np.inf if y[rows[0]] else -np.inf)
            assert (fitted.weights[k] == 0).all()
            assert (fitted.votes(X)[k] == y[rows[0]]).all()
            continue
        # as a model of two classes, of which class 0 has no weights
        W = np.stack([np.zeros(d), fitted.weights[k]])
        b = np.array([0, fitted.intercept[k]])
        down, across = gradient(X[rows], y[rows], W, b, l2=l2)
        largest = max(abs(down[1]).max(), abs(across[1]) if intercept else 0)
        # rounding of w, which is up to 1e3 here
        assert largest <= fitted.gradient_norm[k] + 1e-11


def test_large_logits_do_not_hide_the_last_step():
    """The loss of a record is far below the rounding of its logit: the objective
    must still see that a step is good.
    """
    # a draw, found by search
    rows = [[0, 2, -2, -1, 0, 3, 2, 0], [0, 1, 1, 3, 1, -1, 0, 1]]
    subset = [[0, 0, 0, 0, 0, 0, 1, 1]]
    how = {"l2": 0.01, "tolerance": 1e-9, "device": "cpu"}
    fitted = fit_binary_logistic(np.array(rows, float), np.arange(2), subset, **how)
    assert fitted.converged.all()
    assert fitted.iterations[0] <= 10


def test_the_step_is_damped_where_a_whole_one_does_not_descend(monkeypatch):
    """Rows of very unequal length: a draw, found by search, from which whole Newton
    steps never arrive.
    """
    rng = np.random.default_rng(278)
    # lengths over three orders of magnitude
    X = rng.normal(size=(40, 6)) * 10.0 ** rng.uniform(-1, 2, size=(40, 1))
    y = rng.integers(2, size=40)
    y[:2] = 0, 1
    how = {"l2": 1e-5, "tolerance": 1e-8, "device": "cpu"}
    fitted = fit_binary_logistic(X, y, [np.arange(40)], **how)
    assert fitted.converged.all()
    # power: undamped, it does not converge
    monkeypatch.setattr(newton, "HALVINGS", 1)
    with pytest.warns(ConvergenceWarning):
        fit_binary_logistic(X, y, [np.arange(40)], **how)


def test_not_converged_is_said(cancer):
    # the last holds one class, and takes no iteration
    subsets = [range(20), range(25), range(40), np.flatnonzero(cancer[1])[:5]]
    message = "3 of 4 logistic regressions .* max_iterations=1"
    with pytest.warns(ConvergenceWarning, match=message):
        fitted = fit_binary_logistic(*cancer, subsets, l2=1e-2, max_iterations=1)
    assert fitted.converged.tolist() == [False, False, False, True]


@pytest.mark.parametrize("intercept", [False, True])
def test_both_coordinates_take_the_same_iterates(problem, monkeypatch, intercept):
    """L-BFGS from zero is kept by the change of coordinates, iterate by iterate, not
    only at the optimum.
    """
    X, y = problem
    subsets = np.random.default_rng(1).permutation(300)[:120].reshape(4, 30)
    # so small a tolerance that all 12 iterations are taken
    how = {"n_classes": 3, "l2": 1e-3, "tolerance": 1e-12, "max_iterations": 12}
    results = []
    for mode in ("span", "batch"):
        monkeypatch.setattr(models, "_mode", lambda *_, mode=mode: mode)
        with pytest.warns(ConvergenceWarning):
            fitted = fit_multinomial_logistic(X, y, subsets, intercept=intercept, **how)
        results.append(fitted)
    span, batch = results
    # rounding of 12 iterations
    np.testing.assert_allclose(span.weights, batch.weights, atol=1e-11)
    np.testing.assert_allclose(span.gradient_norm, batch.gradient_norm, rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("intercept", [False, True])
def test_a_large_problem_is_fitted_alone(digits, dtype, intercept, monkeypatch):
    X, y = digits
    monkeypatch.setattr(models, "LARGE", 2**16)
    assert models._mode(1797, 64, 10, 1000) == "alone"
    how = {"n_classes": 10, "l2": 1e-2, "intercept": intercept, "device": "cpu"}
    rows = X.astype(dtype)
    fitted = fit_multinomial_logistic(rows, y, np.arange(1797)[None], **how)
    assert fitted.weights.shape == (1, 10, 64)
    down, _ = gradient(X, y, fitted.weights[0], fitted.intercept[0], l2=1e-2)
    # the tolerance, and rounding in float32
    assert abs(down).max() < 1.1e-5


def test_without_l2_it_stays_in_the_span_and_separates(problem):
    X, y = problem
    with pytest.warns(ConvergenceWarning):
        fitted = fit_multinomial_logistic(
            X, y, [np.arange(20)], n_classes=3, l2=0, tolerance=1e-12, max_iterations=40
        )
    assert (fitted.votes(X[:20])[0] == y[:20]).all()
    rest = fitted.weights[0] - fitted.weights[0] @ np.linalg.pinv(X[:20]) @ X[:20]
    assert abs(rest).max() < 1e-10 * abs(fitted.weights).max()


# without and with the shared preconditioner
@pytest.mark.parametrize("block", [np.inf, 0])
def test_perturbed_models_are_minima_of_their_own_objective(
    digits, noise, monkeypatch, block
):
    X, y = digits
    monkeypatch.setattr("dpnotes.learners._lbfgs.BLOCK", block)
    # the first is the unperturbed problem
    noise = np.concatenate([np.zeros_like(noise[:1]), noise])
    how = {"n_classes": C, "tolerance": 1e-8}
    for l2 in (1.0, 1e-1, 1e-2, 1e-3):
        fitted = fit_perturbed_logistic(X, y, l2=l2, linear=noise, chunk=3, **how)
        for k in range(R + 1):
            down, _ = gradient(X, y, fitted.weights[k], 0, l2=l2, linear=noise[k])
            assert abs(down).max() <= 1.01e-8
    start = fitted.weights[0]
    again = fit_perturbed_logistic(X, y, l2=l2, linear=noise[:1], start=start, **how)
    assert again.iterations[0] == 0


def test_what_float32_cannot_reach_float64_does(digits, noise):
    """Far below float32's rounding; without the steps in float64 the fit would stop
    above it.
    """
    X, y = digits
    how = {"n_classes": C, "l2": 1e-3, "linear": noise, "tolerance": 1e-14}
    fitted = fit_perturbed_logistic(X, y, **how)
    assert fitted.converged.all()
    for k in range(R):
        down, _ = gradient(X, y, fitted.weights[k], 0, l2=1e-3, linear=noise[k])
        assert abs(down).max() <= 1.1e-14
    # power: float32 alone stays above it
    with pytest.warns(ConvergenceWarning):
        fit_perturbed_logistic(X.astype(np.float32), y, **how, max_iterations=300)


@pytest.mark.parametrize("limit", [0, 3])
def test_too_few_iterations_are_told(digits, noise, limit):
    how = {"n_classes": C, "l2": 1e-4, "linear": noise, "tolerance": 1e-12}
    with pytest.warns(ConvergenceWarning):
        fitted = fit_perturbed_logistic(*digits, max_iterations=limit, **how)
    assert not fitted.converged.any()
    assert (fitted.iterations <= limit).all()


def drawn(M, d, C=None):
    rng = np.random.default_rng(0)
    shape = (M, d) if C is None else (M, C, d)
    weights = rng.normal(size=shape)
    intercept = rng.normal(size=shape[:-1])
    return LogisticModels(weights, intercept)


@pytest.mark.parametrize("C", [None, 2, 5])
def test_votes_follow_from_the_logits_in_any_blocks(monkeypatch, C):
    fitted = drawn(23, 4, C)
    X = np.random.default_rng(1).normal(size=(31, 4))
    logits = fitted.logits(X, device="cpu")
    plain = np.einsum("m...d,nd->mn...", fitted.weights, X) + fitted.intercept[:, None]
    np.testing.assert_allclose(logits, plain, atol=1e-12)
    expected = (plain > 0).astype(int) if C is None else plain.argmax(axis=-1)
    for rows, budget in ((4096, 2**22), (7, 800), (1, 1)):
        monkeypatch.setattr(models, "QUERY_ROWS", rows)
        monkeypatch.setattr(models, "CPU_BUDGET", budget)
        votes = fitted.votes(X, device="cpu")
        np.testing.assert_array_equal(votes, expected)
        assert votes.dtype == np.uint8


def constant(intercept):
    """Models of two features that have no part in the logits."""
    weights = np.zeros((*np.shape(intercept), 2))
    return replace(drawn(1, 2), weights=weights, intercept=np.array(intercept))


def test_among_equals_the_smallest_code_and_unseen_classes_get_no_votes():
    tied = constant([[-np.inf, 1, 1]])
    assert tied.votes(np.ones((2, 2))).tolist() == [[1, 1]]
    flat = constant([0, np.inf, -np.inf])
    assert flat.votes(np.ones((1, 2))).ravel().tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("votes", "X must have the 4 features that the models were fitted to, got 3"),
        ("logits", "X must be finite"),
    ],
)
def test_bad_queries_are_named(call, message):
    d = 3 if call == "votes" else 4
    with pytest.raises(ValueError, match=message):
        getattr(drawn(2, 4), call)(np.full((2, d), np.inf))


def test_votes_hold_the_codes_of_many_classes():
    last = constant([np.arange(300.0)])
    assert last.votes(np.ones((2, 2))).tolist() == [[299, 299]]


@pytest.mark.parametrize("C", [2, 3])
def test_each_model_may_have_its_own_l2(problem, C):
    X, y = problem
    subsets = [np.arange(40), np.arange(20, 45), np.arange(10, 50)]
    l2 = np.array([1e-2, 1.0, 1e-1])
    how = {"tolerance": 1e-9, "device": "cpu"}
    fit = fit_binary_logistic
    if C > 2:
        fit = partial(fit_multinomial_logistic, n_classes=C)
    codes = np.minimum(y, C - 1)
    together = fit(X, codes, subsets, l2=l2, **how)
    for k, rows in enumerate(subsets):
        alone = fit(X, codes, [rows], l2=l2[k], **how)
        np.testing.assert_allclose(together.weights[k], alone.weights[0], atol=1e-7)
        np.testing.assert_array_equal(together.votes(X)[k], alone.votes(X)[0])
    with pytest.raises(ValueError, match="l2 must be > 0" if C == 2 else ">= 0"):
        fit(X, codes, subsets, l2=[1.0, -1.0, 1.0], **how)
    with pytest.raises(ValueError, match="l2 must be one number or one for each of 3"):
        fit(X, codes, subsets, l2=[1.0, 1.0], **how)


def test_classifier_equals_scikit_learn(digits):
    X, y = digits
    names = np.array([f"digit {label}" for label in y])
    ours = LogisticClassifier(l2=1e-3, tolerance=1e-8, device="cpu").fit(X, names)
    plain = LogisticRegression(C=1 / (len(X) * 1e-3), tol=1e-8, solver="newton-cg")
    plain.fit(X, names)
    np.testing.assert_allclose(ours.predict_proba(X), plain.predict_proba(X), atol=1e-5)
    assert (ours.predict(X) == plain.predict(X)).all()
