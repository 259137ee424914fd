"""Logistic regressions: the minimum of the stated objective for every shape, and
votes that follow from it.
"""

import warnings

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

R, C = 6, 10


def gradient(X, y, W, b, *, l2, linear=0.0):
    """Of the mean objective with respect to weights and intercept, written down once
    more.
    """
    P = softmax(X @ W.T + b, axis=1)
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
    for k, rows in enumerate(subsets):
        plain = LogisticRegression(
            C=1 / (len(rows) * 1e-2),
            tol=1e-9,
            fit_intercept=intercept,
            solver="newton-cg",
        )
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
    n, d, classes = (
        data.draw(st.integers(*range_)) for range_ in ((1, 12), (1, 12), (2, 5))
    )
    # ties, duplicates and zero columns are likely
    values = st.integers(-3, 3).map(float)
    X = data.draw(arrays.arrays(np.float64, (n, d), elements=values))
    y = data.draw(arrays.arrays(np.int64, n, elements=st.integers(0, classes - 1)))
    subsets = data.draw(
        st.lists(
            st.lists(st.integers(0, n - 1), min_size=1, max_size=15),
            min_size=1,
            max_size=6,
        )
    )
    intercept, l2 = data.draw(st.booleans()), data.draw(st.sampled_from([1e-2, 1.0]))
    how = {"intercept": intercept, "tolerance": 1e-9, "device": "cpu"}
    fitted = fit_multinomial_logistic(X, y, subsets, n_classes=classes, l2=l2, **how)
    for k, rows in enumerate(subsets):
        missing = np.setdiff1d(np.arange(classes), y[rows])
        down, across = gradient(
            X[rows], y[rows], fitted.weights[k], fitted.intercept[k], l2=l2
        )
        largest = max(abs(down).max(), abs(across).max() if intercept else 0)
        assert largest <= 1.01e-9
        # its own report is that number
        assert fitted.gradient_norm[k] == pytest.approx(largest, abs=1e-13)
        if intercept:
            assert (fitted.intercept[k][missing] == -np.inf).all()
            assert (fitted.weights[k][missing] == 0).all()
    assert np.isin(fitted.votes(X), np.arange(classes)).all()
    y, l2 = (y > 0).astype(int), data.draw(st.sampled_from([1e-4, 1e-2, 1.0]))
    fitted = fit_binary_logistic(X, y, subsets, l2=l2, **how)
    assert fitted.converged.all()
    for k, rows in enumerate(subsets):
        if intercept and len(set(y[rows])) == 1:
            assert fitted.intercept[k] == (np.inf if y[rows[0]] else -np.inf)
            assert (fitted.weights[k] == 0).all()
            assert (fitted.votes(X)[k] == y[rows[0]]).all()
            continue
        w, b = (
            np.stack([np.zeros_like(part), part])
            for part in (fitted.weights[k], fitted.intercept[k])
        )
        down, across = (part[1] for part in gradient(X[rows], y[rows], w, b, l2=l2))
        # rounding of w, which is up to 1e3 here
        assert (
            max(abs(down).max(), abs(across) if intercept else 0)
            <= fitted.gradient_norm[k] + 1e-11
        )


def test_large_logits_do_not_hide_the_last_step():
    """The loss of a record is far below the rounding of its logit: the objective
    must still see that a step is good.
    """
    rows = [[0, 2, -2, -1, 0, 3, 2, 0], [0, 1, 1, 3, 1, -1, 0, 1]]
    subset = [[0, 0, 0, 0, 0, 0, 1, 1]]
    fitted = fit_binary_logistic(
        np.array(rows, float),
        np.arange(2),
        subset,
        l2=0.01,
        tolerance=1e-9,
        device="cpu",
    )
    assert fitted.converged.all()
    assert fitted.iterations[0] <= 10


def test_binary_equals_the_multinomial_model_of_half_the_l2(cancer):
    """W = (-w/2, w/2) makes the same logit difference, and |W|^2 = |w|^2 / 2."""
    X, y = cancer
    subsets = np.random.default_rng(0).permutation(569)[:200].reshape(5, 40)
    single = fit_binary_logistic(X, y, subsets, l2=0.05, tolerance=1e-10)
    both = fit_multinomial_logistic(
        X, y, subsets, n_classes=2, l2=0.1, intercept=True, tolerance=1e-10
    )
    np.testing.assert_allclose(
        both.weights[:, 1] - both.weights[:, 0], single.weights, atol=1e-8
    )
    np.testing.assert_allclose(
        both.intercept[:, 1] - both.intercept[:, 0], single.intercept, atol=1e-8
    )


def test_the_step_is_damped_where_a_whole_one_does_not_descend(monkeypatch):
    """Rows of very unequal length: a draw, found by search, from which whole Newton
    steps never arrive.
    """
    rng = np.random.default_rng(278)
    X = rng.normal(size=(40, 6)) * 10.0 ** rng.uniform(-1, 2, size=(40, 1))
    y = rng.integers(2, size=40)
    y[:2] = 0, 1
    fitted = fit_binary_logistic(
        X, y, [np.arange(40)], l2=1e-5, tolerance=1e-8, device="cpu"
    )
    assert fitted.converged.all()
    monkeypatch.setattr(newton, "HALVINGS", 1)
    with pytest.warns(ConvergenceWarning):
        fit_binary_logistic(
            X, y, [np.arange(40)], l2=1e-5, tolerance=1e-8, device="cpu"
        )


def test_not_converged_is_said(cancer):
    with pytest.warns(
        ConvergenceWarning, match="3 of 4 logistic regressions .* max_iterations=1"
    ):
        fitted = fit_binary_logistic(
            *cancer,
            [
                np.arange(20),
                np.arange(25),
                np.arange(40),
                np.flatnonzero(cancer[1])[:5],
            ],
            l2=1e-2,
            max_iterations=1,
        )
    assert fitted.converged.tolist() == [False, False, False, True]


@pytest.mark.parametrize("intercept", [False, True])
def test_both_coordinates_take_the_same_iterates(problem, monkeypatch, intercept):
    """L-BFGS from zero is kept by the change of coordinates, iterate by iterate, not
    only at the optimum.
    """
    X, y = problem
    subsets = np.random.default_rng(1).permutation(300)[:120].reshape(4, 30)
    settings_ = {
        "n_classes": 3,
        "l2": 1e-3,
        "tolerance": 1e-12,
        "intercept": intercept,
        "device": "cpu",
    }
    results = []
    for mode in ("span", "batch"):
        monkeypatch.setattr(models, "_mode", lambda *_, mode=mode: mode)
        with pytest.warns(ConvergenceWarning):
            results.append(
                fit_multinomial_logistic(X, y, subsets, max_iterations=12, **settings_)
            )
    # rounding of 12 iterations
    np.testing.assert_allclose(results[0].weights, results[1].weights, atol=1e-11)
    np.testing.assert_allclose(
        results[0].gradient_norm, results[1].gradient_norm, rtol=1e-6
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("intercept", [False, True])
def test_a_large_problem_is_fitted_alone(digits, dtype, intercept, monkeypatch):
    X, y = digits
    monkeypatch.setattr(models, "LARGE", 2**16)
    assert models._mode(1797, 64, 10, 1000) == "alone"
    fitted = fit_multinomial_logistic(
        X.astype(dtype),
        y,
        np.arange(1797)[None],
        n_classes=10,
        l2=1e-2,
        intercept=intercept,
        device="cpu",
    )
    plain = LogisticRegression(
        C=1 / (1797 * 1e-2), tol=1e-7, fit_intercept=intercept, max_iter=1000
    ).fit(X, y)
    assert fitted.weights.shape == (1, 10, 64)
    np.testing.assert_allclose(fitted.weights[0], plain.coef_, atol=1e-3)
    assert (
        abs(gradient(X, y, fitted.weights[0], fitted.intercept[0], l2=1e-2)[0]).max()
        < 1.1e-5
    )


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
def test_perturbed_models_are_minima_of_their_own_objective(digits, monkeypatch, block):
    X, y = digits
    monkeypatch.setattr("dpnotes.learners._lbfgs.BLOCK", block)
    noise = (
        np.random.default_rng(0).normal(size=(7, 10, 64))
        * np.array([0, 1, 1, 1, 1, 1, 1])[:, None, None]
        * 20
    )
    for l2 in (1.0, 1e-1, 1e-2, 1e-3):
        fitted = fit_perturbed_logistic(
            X, y, n_classes=10, l2=l2, linear=noise, tolerance=1e-8, chunk=3
        )
        for k in range(7):
            down, _ = gradient(X, y, fitted.weights[k], 0, l2=l2, linear=noise[k])
            assert abs(down).max() <= 1.01e-8
    whole = fit_perturbed_logistic(
        X, y, n_classes=10, l2=1e-3, linear=noise, tolerance=1e-8
    )
    # gradients within 1e-8 leave weights within 1e-8 sqrt(640) / l2 of the minimum, at
    # worst
    np.testing.assert_allclose(whole.weights, fitted.weights, atol=1e-5)
    plain = fit_multinomial_logistic(
        X, y, np.arange(1797)[None], n_classes=10, l2=1e-3, tolerance=1e-8
    )
    np.testing.assert_allclose(fitted.weights[0], plain.weights[0], atol=1e-4)
    started = fit_perturbed_logistic(
        X,
        y,
        n_classes=10,
        l2=1e-3,
        linear=noise[:1],
        start=plain.weights[0],
        tolerance=1e-7,
    )
    assert started.iterations[0] == 0


def test_what_float32_cannot_reach_float64_does(digits, noise):
    """Far below float32's rounding; without the steps in float64 the fit would stop
    above it.
    """
    X, y = digits
    how = {
        "n_classes": C,
        "l2": 1e-3,
        "linear": noise,
        "tolerance": 1e-14,
        "device": "cpu",
    }
    fitted = fit_perturbed_logistic(X, y, **how)
    assert fitted.converged.all()
    for k in range(R):
        assert (
            abs(gradient(X, y, fitted.weights[k], 0, l2=1e-3, linear=noise[k])[0]).max()
            <= 1.1e-14
        )
    with pytest.warns(ConvergenceWarning):  # power: float32 alone stays above it
        fit_perturbed_logistic(X.astype(np.float32), y, **how, max_iterations=300)


@pytest.mark.parametrize("limit", [0, 3])
def test_too_few_iterations_are_told(digits, noise, limit):
    X, y = digits
    with pytest.warns(ConvergenceWarning):
        fitted = fit_perturbed_logistic(
            X,
            y,
            n_classes=C,
            l2=1e-4,
            linear=noise,
            tolerance=1e-12,
            max_iterations=limit,
            device="cpu",
        )
    assert not fitted.converged.any()
    assert (fitted.iterations <= limit).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit_perturbed_logistic(
            X, y, n_classes=C, l2=1e-1, linear=noise, tolerance=1e-6, device="cpu"
        )


def drawn(M, d, C=None, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    shape = (M, d) if C is None else (M, C, d)
    return LogisticModels(
        rng.normal(size=shape).astype(dtype),
        rng.normal(size=shape[:-1]).astype(dtype),
        np.zeros(M),
        np.zeros(M, np.int64),
        np.ones(M, bool),
    )


@pytest.mark.parametrize("C", [None, 2, 5])
def test_votes_and_counts_follow_from_the_logits_in_any_blocks(monkeypatch, C):
    fitted, X = drawn(23, 4, C), np.random.default_rng(1).normal(size=(31, 4))
    logits = fitted.logits(X, device="cpu")
    plain = np.einsum("m...d,nd->mn...", fitted.weights, X) + fitted.intercept[:, None]
    np.testing.assert_allclose(logits, plain, atol=1e-12)
    expected = (plain > 0).astype(int) if C is None else plain.argmax(axis=-1)
    for rows, budget in ((4096, 2**22), (7, 800), (1, 1)):
        monkeypatch.setattr(models, "QUERY_ROWS", rows)
        monkeypatch.setattr(models, "CPU_BUDGET", budget)
        votes = fitted.votes(X, device="cpu")
        np.testing.assert_array_equal(votes, expected)
        assert votes.dtype == np.int64
        counts = fitted.vote_counts(X, device="cpu")
        assert counts.shape == (31, C or 2)
        np.testing.assert_array_equal(
            counts, (expected[:, :, None] == np.arange(C or 2)).sum(axis=0)
        )
    np.testing.assert_array_equal(
        fitted.votes(X, dtype=np.uint8), expected.astype(np.uint8)
    )


def test_among_equals_the_smallest_code_and_unseen_classes_get_no_votes():
    tied = LogisticModels(
        np.zeros((1, 3, 2)),
        np.array([[-np.inf, 1, 1]]),
        np.zeros(1),
        np.zeros(1, int),
        [True],
    )
    assert tied.votes(np.ones((2, 2))).tolist() == [[1, 1]]
    assert tied.vote_counts(np.ones((2, 2))).tolist() == [[0, 1, 0]] * 2
    flat = LogisticModels(
        np.zeros((3, 2)),
        np.array([0, np.inf, -np.inf]),
        np.zeros(3),
        np.zeros(3, int),
        [True] * 3,
    )
    assert flat.votes(np.ones((1, 2))).ravel().tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda m: m.votes(np.zeros((2, 3))),
            "X must have the 4 features that the models were fitted to, got 3",
        ),
        (lambda m: m.logits(np.full((2, 4), np.inf)), "X must be finite"),
        (
            lambda m: m.votes(np.zeros((2, 4)), dtype=np.float32),
            "dtype must be an integer type",
        ),
        (
            lambda m: drawn(1, 4, 300).votes(np.zeros((2, 4)), dtype=np.uint8),
            "that holds 299",
        ),
    ],
)
def test_bad_queries_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call(drawn(2, 4))


def test_classifier_equals_scikit_learn():
    X, y = load_digits(return_X_y=True)
    names = np.array([f"digit {label}" for label in y])
    ours = LogisticClassifier(l2=1e-3, tolerance=1e-8, device="cpu").fit(X / 16, names)
    plain = LogisticRegression(C=1 / (len(X) * 1e-3), tol=1e-8, solver="newton-cg").fit(
        X / 16, names
    )
    np.testing.assert_allclose(
        ours.predict_proba(X / 16), plain.predict_proba(X / 16), atol=1e-5
    )
    assert (ours.predict(X / 16) == plain.predict(X / 16)).all()
