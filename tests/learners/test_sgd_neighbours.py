"""SGD on neighbouring data sets that share batches: equal to runs on each modified data set, one at a time."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpnotes.learners import fit_sgd
from dpnotes.learners._sgd_batches import Batches, Neighbours

SETTINGS = {"n_runs": 3, "steps": 10, "batch_size": 8, "learning_rate": 0.7, "device": "cpu"}


def problem(n=43, d=6):
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, d)) / np.sqrt(d)
    return X, (X[:, 0] + 0.3 * rng.normal(size=n) > 0).astype(int)


def replaced(X, y, record, features, label):
    X, y = X.copy(), y.copy()
    X[record], y[record] = features, label
    return X, y


def plain_logistic(X, y, w, seed, *, steps, batch_size, learning_rate):
    """One run of logistic regression with an intercept, rests dropped."""
    stream = np.random.default_rng(np.random.SeedSequence(int(seed), spawn_key=(0,)))
    X, order = np.hstack([X, np.ones((len(X), 1))]), []
    for _ in range(steps):
        if len(order) < batch_size:
            order = list(stream.permutation(len(X)))
        batch, order = order[:batch_size], order[batch_size:]
        w = w - learning_rate / batch_size * X[batch].T @ (1 / (1 + np.exp(-X[batch] @ w)) - y[batch])
    return w


@pytest.mark.parametrize("label", [0, 1])
@pytest.mark.parametrize("chunk", [1, 2, 3, None])
def test_equals_a_plain_loop_on_the_modified_data(chunk, label):
    """Catches a visit at the wrong place, a gradient taken after the update, a neighbour that starts too late."""
    X, y = problem()
    neighbours, features = [4, 17, 42, 4], np.full(6, 0.4)
    path = {"steps": 17, "batch_size": 8, "learning_rate": 0.7}
    fitted = fit_sgd(
        X, y, neighbours=neighbours, replacement=(features, label), n_runs=3, chunk=chunk,
        checkpoints=(0, 3, 17), device="cpu", **path,
    )  # fmt: skip
    for run, seed in enumerate(fitted.order_seeds):
        start = fitted.trajectory[run, 0]
        ends = [plain_logistic(X, y, start, seed, **path)]
        for record in neighbours:
            ends.append(plain_logistic(*replaced(X, y, record, features, label), start, seed, **path))
        np.testing.assert_allclose(fitted.all_weights[run], ends, atol=1e-12)  # rounding of 17 steps
        np.testing.assert_allclose(fitted.distances[run], np.linalg.norm(ends[1:] - ends[0], axis=1), atol=1e-12)
    np.testing.assert_array_equal(fitted.trajectory[:, 2], fitted.weights)
    early = fit_sgd(
        X, y, neighbours=neighbours, replacement=(features, label), n_runs=3, chunk=chunk, device="cpu",
        **path | {"steps": 3},
    ).distances  # fmt: skip
    assert ((early == 0) | (early > 1e-6)).all()  # parted by a gradient or not at all, never by rounding
    assert 0 < (early == 0).sum() < early.size


@settings(max_examples=40)
@given(st.data())
def test_equals_runs_on_the_modified_data_for_any_shape(data):
    n, d = data.draw(st.integers(2, 20)), data.draw(st.integers(1, 17))
    X, y = problem(n, d)
    replacement = data.draw(st.integers(0, n - 1))
    others = [record for record in range(n) if record != replacement]
    neighbours = data.draw(st.lists(st.sampled_from(others), min_size=1, max_size=6))
    hidden, output = data.draw(st.sampled_from([(None, "sigmoid"), (3, "sigmoid"), (3, "softmax")]))
    arguments = {
        "n_runs": data.draw(st.integers(1, 4)),
        "batch_size": data.draw(st.integers(1, n)),
        "steps": data.draw(st.integers(1, 25)),
        "learning_rate": 0.3,
        "hidden": hidden,
        "output": output,
        "device": "cpu",
    }
    chunk = data.draw(st.integers(1, 4))
    fitted = fit_sgd(X, y, neighbours=neighbours, replacement=replacement, chunk=chunk, **arguments)
    np.testing.assert_allclose(fitted.weights, fit_sgd(X, y, **arguments).weights, atol=1e-12)
    for column, record in enumerate(neighbours, start=1):
        alone = fit_sgd(*replaced(X, y, record, X[replacement], y[replacement]), **arguments)
        np.testing.assert_allclose(fitted.all_weights[:, column], alone.weights, atol=1e-12)
    never = fitted.visits == 0
    assert (fitted.all_weights[:, 1:][never] == fitted.all_weights[:, :1].repeat(len(neighbours), 1)[never]).all()
    assert (fitted.distances[never] == 0).all()


def test_visits_bound_the_distance():
    """Hardt, Recht and Singer: at most 2 L rate / B for each visit, L the norm of (x, 1); nearly half is attained."""
    X, y = problem()
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    fitted = fit_sgd(
        X, y, neighbours=np.arange(1, 43), replacement=(-X[1] * (1 if y[1] else -1), 1),
        **SETTINGS | {"batch_size": 43, "steps": 2},
    )  # fmt: skip
    assert (fitted.visits == 2).all()
    bound = 2 * np.sqrt(2) * 0.7 / 43 * fitted.visits
    assert (fitted.distances <= bound).all()
    assert (fitted.distances / bound).max() > 0.4
    visits = fit_sgd(X, y, neighbours=np.arange(1, 43), replacement=0, **SETTINGS).visits
    assert set(np.unique(visits)) == {0, 1, 2} or set(np.unique(visits)) == {1, 2}
    assert (visits.sum(axis=1) <= 80).all()
    assert (visits.sum(axis=1) >= 78).all()  # 80 places, of which record 0 takes up to two


def test_columns_grow_with_the_first_visits():
    orders = np.array([[3, 1, 0, 2, 4], [0, 2, 4, 3, 1]], dtype=np.int32)
    found = Neighbours(np.array([2, 3, 4]), 2, Batches(5, 2, 3))
    visits = found.visit(orders, 0)
    assert found.column.tolist() == [[2, 1, 0], [1, 3, 2]]
    assert visits.width.tolist() == [2, 4]
    assert visits.step.tolist() == [0, 0, 1, 1, 1]
    assert found.columns(0).tolist() == [[0, 0, 0, 0], [0, 0, 0, 0]]
    assert found.columns(1).tolist() == [[0, 0, 1, 0], [0, 1, 0, 0]]
    later = found.visit(orders[::-1], 1)  # one step of the second epoch: the first run meets record 2 again
    assert later.width.tolist() == [4]
    assert later.first.tolist() == [False, False]
    assert found.columns(3).tolist() == [[0, 2, 1, 0], [0, 1, 3, 2]]


@pytest.mark.parametrize("hidden", [None, 4])
def test_float32_and_chunks(hidden):
    X, y = problem()
    arguments = {"neighbours": [3, 9, 30], "replacement": 0, "hidden": hidden, **SETTINGS}
    full = fit_sgd(X.astype(np.float32), y, **arguments)
    assert full.all_weights.dtype == np.float64  # whatever the dtype of X
    wide = fit_sgd(X.astype(np.float32).astype(np.float64), y, **arguments)
    np.testing.assert_array_equal(wide.all_weights, full.all_weights)
    single = fit_sgd(X.astype(np.float32), y, dtype=np.float32, **arguments)
    assert single.all_weights.dtype == np.float32
    np.testing.assert_allclose(single.all_weights, full.all_weights, atol=1e-5)
    parts = fit_sgd(X.astype(np.float32), y, chunk=2, **arguments)
    np.testing.assert_allclose(parts.all_weights, full.all_weights, atol=1e-13)
    np.testing.assert_allclose(parts.distances, full.distances, atol=1e-13)
    assert parts.logits(X).shape == (3, 43)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"neighbours": []}, ValueError, "neighbours must be integers of shape"),
        ({"neighbours": [0.5]}, ValueError, "neighbours must be integers of shape"),
        ({"neighbours": 3}, ValueError, "neighbours must be integers of shape"),
        ({"neighbours": [43]}, ValueError, r"neighbours must be in 0\.\.42, got 43\.\.43"),
        ({"neighbours": [0]}, ValueError, "neighbours must not hold replacement=0"),
        ({"replacement": 43}, ValueError, "replacement must be >= 0 and <= the last row=42, got replacement=43"),
        ({"replacement": 1.5}, TypeError, "replacement must be an integer"),
        ({"replacement": (np.zeros(5), 1)}, ValueError, "replacement must have the 6 features"),
        ({"replacement": (np.full(6, np.nan), 1)}, ValueError, "replacement must be finite"),
        (
            {"replacement": (np.zeros(6), 2)},
            ValueError,
            "class code must be >= 0 and <= the last class=1",
        ),
        ({"dtype": "float16"}, ValueError, "dtype must be float32 or float64, got dtype='float16'"),
        ({"replacement": None}, TypeError, "replacement must be an integer"),
        ({"chunk": 0}, ValueError, "chunk must be >= 1"),
        ({"batch_size": 44}, ValueError, "batch_size must be >= 1 and <= n=43"),
    ],
)
def test_bad_input_is_named_before_training(change, error, message, monkeypatch):
    monkeypatch.setattr("dpnotes.learners._sgd_models.LogisticModels.step", lambda *_, **__: pytest.fail("trained"))
    X, y = problem()
    with pytest.raises(error, match=message):
        fit_sgd(X, y, **{"neighbours": [1], "replacement": 0, **SETTINGS, **change})


@pytest.mark.needs("gpu")
@pytest.mark.parametrize("hidden", [None, 4])
def test_gpu_equals_cpu(hidden):
    X, y = problem()
    arguments = {"neighbours": [3, 9, 30, 9], "replacement": 0, "hidden": hidden, "n_runs": 3, "steps": 10}
    arguments |= {"batch_size": 8, "learning_rate": 0.7}
    on_cpu = fit_sgd(X, y, device="cpu", **arguments)
    on_gpu = fit_sgd(X, y, device="cuda", **arguments)
    np.testing.assert_allclose(on_gpu.all_weights, on_cpu.all_weights, atol=1e-10)
    np.testing.assert_allclose(on_gpu.distances, on_cpu.distances, atol=1e-10)
