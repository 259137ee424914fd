"""SGD from many seeds at once: equal to a plain loop, whatever the chunk, and strict about input."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpnotes.learners import Architecture, fit_sgd

SETTINGS = {"n_runs": 5, "steps": 10, "batch_size": 8, "learning_rate": 0.7, "device": "cpu"}


def problem(n=43, d=6):
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, d)) / np.sqrt(d)
    return X, (X[:, 0] + 0.3 * rng.normal(size=n) > 0).astype(int)


def plain_sgd(
    X, y, fitted, run, *, hidden, batch_size, learning_rate, steps, output="sigmoid", **_,
):  # fmt: skip
    """Weights of one run before the first and after every step, one record at a time."""
    n, one = len(X), np.ones(1)
    shapes, outputs = fitted.architecture.shapes, 2 if output == "softmax" else 1
    start = fitted.architecture.initial(int(fitted.init_seeds[run]))
    cut = shapes[0][0] * shapes[0][1] if hidden else 0
    U, W = start[:cut].reshape(hidden or 0, shapes[0][1]), start[cut:].reshape(outputs, -1)
    stream = np.random.default_rng(np.random.SeedSequence(int(fitted.order_seeds[run]), spawn_key=(0,)))
    path = [start]
    while len(path) <= steps:
        order = stream.permutation(n)
        for first in range(0, n - n % batch_size, batch_size):
            batch = order[first : first + batch_size]
            g_U, g_W = np.zeros_like(U), np.zeros_like(W)
            for i in batch:
                x = np.r_[X[i], one]
                a = np.r_[np.maximum(U @ x, 0), one] if hidden else x
                z = W @ a
                p = np.exp(z) / np.exp(z).sum() if outputs == 2 else 1 / (1 + np.exp(-z))
                delta = p - (np.arange(2) == y[i] if outputs == 2 else y[i])
                g_W += np.outer(delta, a)
                if hidden:
                    g_U += np.outer((U @ x > 0) * (W[:, :hidden].T @ delta), x)
            rate = learning_rate(len(path) - 1) if callable(learning_rate) else learning_rate
            U = U - rate * g_U / len(batch)
            W = W - rate * g_W / len(batch)
            path.append(np.concatenate([U.ravel(), W.ravel()]))
    return path[: steps + 1]


@pytest.mark.parametrize("hidden", [None, 4])
@pytest.mark.parametrize(
    "change",
    [
        {},
        {"batch_size": 1, "steps": 43},
        {"batch_size": 43, "steps": 2},
        {"batch_size": 42, "steps": 2},  # a rest of one record
        {"steps": 3},
        {"steps": 13},
        {"learning_rate": lambda step: 0.5 / (1 + step)},
        {"chunk": 1},
        {"chunk": 2},
        {"chunk": 5},
    ],
)
def test_equals_a_plain_loop(hidden, change):
    """Catches a batch that is left out or divided by another's size, and an order used twice."""
    X, y = problem()
    arguments = {**SETTINGS, **change}
    fitted = fit_sgd(X, y, hidden=hidden, random_state=3, checkpoints=(0, 2), **arguments)
    for run in range(5):
        literal = plain_sgd(X, y, fitted, run, hidden=hidden, **arguments)
        np.testing.assert_allclose(fitted.weights[run], literal[-1], atol=1e-12)  # rounding of some 100 steps
        np.testing.assert_allclose(fitted.trajectory[run], [literal[0], literal[2]], atol=1e-12)
    assert fitted.weights.dtype == np.float64


@settings(max_examples=25)
@given(st.data())
def test_equals_a_plain_loop_for_any_shape(data):
    n, d = data.draw(st.integers(1, 20)), data.draw(st.integers(1, 17))
    arguments = {
        "n_runs": data.draw(st.integers(1, 4)),
        "batch_size": data.draw(st.integers(1, n)),
        "steps": data.draw(st.integers(1, 25)),
        "learning_rate": 0.3,
    }
    hidden, output = data.draw(st.sampled_from([(None, "sigmoid"), (3, "sigmoid"), (3, "softmax")]))
    X, y = problem(n, d)
    chunk = data.draw(st.integers(1, 4))
    fitted = fit_sgd(X, y, hidden=hidden, output=output, chunk=chunk, device="cpu", **arguments)
    for run in range(arguments["n_runs"]):
        literal = plain_sgd(X, y, fitted, run, hidden=hidden, output=output, **arguments)
        np.testing.assert_allclose(fitted.weights[run], literal[-1], atol=1e-12)


@pytest.mark.parametrize("output", ["sigmoid", "softmax"])
def test_network_equals_autograd(output):
    """Another road for the backward pass: PyTorch's own, and its own optimizer."""
    X, y = problem()
    fitted = fit_sgd(X, y, hidden=6, output=output, **SETTINGS | {"steps": 20})
    for run in range(5):
        hidden, out = fitted.architecture.layers(fitted.architecture.initial(int(fitted.init_seeds[run])))
        parameters = [
            torch.tensor(part, requires_grad=True) for part in (hidden[:, :-1], hidden[:, -1], out[:, :-1], out[:, -1])
        ]
        optimizer = torch.optim.SGD(parameters, lr=0.7, foreach=False)
        stream = np.random.default_rng(np.random.SeedSequence(int(fitted.order_seeds[run]), spawn_key=(0,)))
        for _ in range(4):
            order = stream.permutation(43)
            for start in range(0, 40, 8):
                x, t = torch.tensor(X[order[start : start + 8]]), torch.tensor(y[order[start : start + 8]])
                z = torch.relu(x @ parameters[0].T + parameters[1]) @ parameters[2].T + parameters[3]
                if output == "softmax":
                    loss = torch.nn.functional.cross_entropy(z, t)
                else:
                    loss = torch.nn.functional.binary_cross_entropy_with_logits(z[:, 0], t.double())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        W, b, V, c = (p.detach().numpy() for p in parameters)
        literal = [np.hstack([W, b[:, None]]), np.hstack([V, c[:, None]])]
        for ours, theirs in zip(fitted.architecture.layers(fitted.weights[run]), literal, strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-12)
        z = (np.maximum(X @ W.T + b, 0) @ V.T + c).T
        np.testing.assert_allclose(fitted.logits(X)[run], z[1] - z[0] if output == "softmax" else z[0], atol=1e-12)


@pytest.mark.parametrize("hidden", [None, 4])
def test_float32_is_float64_up_to_rounding(hidden):
    X, y = problem()
    double = fit_sgd(X, y, hidden=hidden, **SETTINGS)
    single = fit_sgd(X.astype(np.float32), y, hidden=hidden, **SETTINGS)
    asked = fit_sgd(X, y, hidden=hidden, dtype="float32", **SETTINGS)
    assert single.weights.dtype == asked.weights.dtype == np.float32
    np.testing.assert_allclose(single.weights, double.weights, atol=1e-5)  # 10 steps, weights about 1
    np.testing.assert_array_equal(single.weights, asked.weights)
    assert np.abs(single.weights - double.weights).max() > 1e-9


def test_runs_depend_on_their_own_seeds_only():
    X, y = problem()
    torch.manual_seed(1)
    state = torch.get_rng_state()
    five = fit_sgd(X, y, random_state=9, **SETTINGS)
    assert torch.equal(torch.get_rng_state(), state)
    three = fit_sgd(X, y, random_state=9, **SETTINGS | {"n_runs": 3})
    np.testing.assert_allclose(three.weights, five.weights[:3], atol=1e-13)
    assert len(np.unique(five.weights[:, 0])) == 5
    other = fit_sgd(X, y, random_state=10, **SETTINGS)
    assert not np.isin(other.order_seeds, five.order_seeds).any()


def test_order_and_initialisation_vary_apart():
    """The two sources of variability of Hyland and Tople: the same initial weights for all runs leave the order."""
    X, y = problem()
    fixed = fit_sgd(X, y, init_seeds=4, checkpoints=(0,), **SETTINGS)
    assert (fixed.trajectory[:, 0] == fixed.trajectory[0, 0]).all()
    assert len(np.unique(fixed.weights[:, 0])) == 5
    given_weights = fit_sgd(X, y, init_seeds=4, initial=fixed.trajectory[0, 0], **SETTINGS)
    np.testing.assert_array_equal(given_weights.weights, fixed.weights)


def test_initial_weights_have_the_stated_distribution():
    """A scale ten percent off is noticed."""
    model = Architecture(d=100, hidden=8)
    hidden, out = model.layers(np.stack([model.initial(seed) for seed in range(50)]))
    assert (hidden[..., -1] == 0).all()
    assert (out[..., -1] == 0).all()
    for weights, limit in ((hidden[..., :-1], np.sqrt(6 / 108)), (out[..., :-1], np.sqrt(6 / 9))):
        uniform = stats.uniform(-limit, 2 * limit)
        assert stats.kstest(weights.ravel(), uniform.cdf).pvalue > 1e-3
        assert stats.kstest(hidden[..., :-1].ravel() * 1.1, stats.uniform(-0.236, 0.472).cdf).pvalue < 1e-3


def test_parameters_are_those_of_the_paper():
    """Hyland and Tople, Section VI-E: 817 parameters; 521, which are 10 hidden units on 50 features, not 16."""
    assert Architecture(d=100, hidden=8).n_parameters == 817
    assert Architecture(d=50, hidden=10).n_parameters == 521
    assert Architecture(d=50, hidden=16).n_parameters == 833
    assert Architecture(d=50, hidden=16, output="softmax").n_parameters == 850


def test_read_only_data_and_a_coarse_precision():
    X, y = problem()
    X = X.astype(np.float32)
    expected = fit_sgd(X, y, **SETTINGS).weights
    X.setflags(write=False)
    torch.set_float32_matmul_precision("medium")
    try:
        fitted = fit_sgd(X, y, chunk=2, **SETTINGS)
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision("highest")
    np.testing.assert_allclose(fitted.weights, expected, atol=1e-6)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"X": np.zeros((43, 6), int)}, ValueError, "X must be float32 or float64"),
        ({"X": np.full((43, 6), np.inf)}, ValueError, "X must be finite, got 258"),
        ({"y": np.zeros(5, int)}, ValueError, "X and y must have equal length"),
        ({"y": np.full(43, 2)}, ValueError, r"y must hold class codes in 0\.\.1"),
        ({"n_runs": 0}, ValueError, "n_runs must be >= 1"),
        ({"n_runs": 2.0}, TypeError, "n_runs must be an integer"),
        ({"random_state": -1}, ValueError, "random_state must be >= 0"),
        ({"init_seeds": [1, 2]}, ValueError, "init_seeds must be one integer >= 0 or 5 of them"),
        ({"init_seeds": -3}, ValueError, "init_seeds must be one integer >= 0"),
        ({"init_seeds": 0.5}, ValueError, "init_seeds must be one integer >= 0"),
        ({"replacement": 3}, ValueError, "replacement needs neighbours, the records to replace, got replacement=3"),
        ({"steps": 0}, ValueError, "steps must be >= 1"),
        ({"batch_size": 44}, ValueError, "batch_size must be >= 1 and <= n=43, got batch_size=44"),
        ({"batch_size": 0}, ValueError, "batch_size must be >= 1"),
        ({"learning_rate": 0.0}, ValueError, "learning_rate must be finite and > 0"),
        ({"learning_rate": "0.1"}, TypeError, "learning_rate must be a number, an array of them or a callable"),
        ({"learning_rate": np.ones(3)}, ValueError, "learning_rate must have one entry for each of 10 steps"),
        ({"learning_rate": lambda step: 3 - step}, ValueError, "learning_rate .* got 0.0 at step 3"),
        ({"hidden": 0}, ValueError, "hidden must be >= 1"),
        ({"output": "tanh"}, ValueError, "output must be one of 'sigmoid', 'softmax', got output='tanh'"),
        ({"output": "softmax"}, ValueError, "output must be 'sigmoid' without a hidden layer"),
        ({"initial": np.zeros(6)}, ValueError, r"initial must be .* of shape \[7\] or \[5, 7\]"),
        ({"initial": np.full(7, np.nan)}, ValueError, "initial must be finite, got 7"),
        ({"checkpoints": [3, 2]}, ValueError, r"checkpoints must increase within 0\.\.10"),
        ({"checkpoints": [11]}, ValueError, r"checkpoints must increase within 0\.\.10"),
        ({"dtype": "float16"}, ValueError, "dtype must be float32 or float64"),
        ({"chunk": 0}, ValueError, "chunk must be >= 1"),
        ({"device": "cuda"}, ValueError, "PyTorch sees no GPU"),
    ],
)
def test_bad_input_is_named_before_training(change, error, message, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr("dpnotes.learners._sgd_models.LogisticModels.step", lambda *_, **__: pytest.fail("trained"))
    X, y = problem()
    arguments = {"X": X, "y": y, **SETTINGS, **change}
    with pytest.raises(error, match=message):
        fit_sgd(arguments.pop("X"), arguments.pop("y"), **arguments)


def test_divergence_and_lack_of_memory_are_named(monkeypatch):
    X, y = problem()
    with pytest.raises(ValueError, match="training of run 0 diverged; lower learning_rate"):
        fit_sgd(X * 1e200, y, hidden=3, **SETTINGS)
    monkeypatch.setattr("dpnotes.learners._chunks.free_bytes", lambda device: 2000)  # a run: 8 (8 + 8 * 8 + 8) bytes
    assert len(fit_sgd(X, y, chunk=3, **SETTINGS).weights) == 5
    with pytest.raises(MemoryError, match=r"chunk=4 models of 0\.0 MB .* chunk=3 would fit"):
        fit_sgd(X, y, chunk=4, **SETTINGS)


@pytest.mark.needs("gpu")
@pytest.mark.parametrize("hidden", [None, 4])
def test_gpu_equals_cpu(hidden):
    X, y = problem()
    on_cpu = fit_sgd(X, y, hidden=hidden, **SETTINGS)
    on_gpu = fit_sgd(X, y, hidden=hidden, **SETTINGS | {"device": "cuda"})
    np.testing.assert_allclose(on_gpu.weights, on_cpu.weights, atol=1e-10)
