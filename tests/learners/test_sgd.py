"""SGD from many seeds, on a data set and its neighbours: equal to a plain loop on
each, one record at a time.
"""

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from scipy import stats

from dpnotes.learners import Architecture, fit_sgd

SETTINGS = {
    "n_runs": 5,
    "steps": 10,
    "batch_size": 8,
    "learning_rate": 0.7,
    "device": "cpu",
}


def problem(n=43, d=6):
    rng = np.random.default_rng(n)
    # rows of norm about 1, on which these steps do not diverge
    X = rng.normal(size=(n, d)) / np.sqrt(d)
    return X, (X[:, 0] + 0.3 * rng.normal(size=n) > 0).astype(int)


def plain_sgd(X, y, fitted, run, *, batch_size, learning_rate, steps, empty=(), **_):
    """Weights of one run before the first and after every step, one record at a
    time.
    """
    n = len(X)
    one = np.ones(1)
    model = fitted.architecture
    hidden = model.hidden
    outputs = model.shapes[-1][0]
    rates = learning_rate if callable(learning_rate) else lambda step: learning_rate
    path = [model.initial(int(fitted.init_seeds[run]))]
    *inner, W = model.layers(path[0])
    U = inner[0] if hidden else np.zeros((0, 0))
    seed = int(fitted.order_seeds[run])
    stream = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0,)))
    while len(path) <= steps:
        # of the records that are left over none is used in this epoch
        order = stream.permutation(n)
        for first in range(0, n - n % batch_size, batch_size):
            g_U = np.zeros_like(U)
            g_W = np.zeros_like(W)
            for i in order[first : first + batch_size]:
                if i in empty:
                    continue
                x = np.r_[X[i], one]
                a = np.r_[np.maximum(U @ x, 0), one] if hidden else x
                z = W @ a
                # cross-entropy of one output, or of one for each class
                if outputs == 2:
                    delta = np.exp(z) / np.exp(z).sum() - (np.arange(2) == y[i])
                else:
                    delta = 1 / (1 + np.exp(-z)) - y[i]
                g_W += np.outer(delta, a)
                if hidden:
                    g_U += np.outer((U @ x > 0) * (W[:, :hidden].T @ delta), x)
            rate = rates(len(path) - 1) / batch_size
            U = U - rate * g_U
            W = W - rate * g_W
            path.append(np.concatenate([U.ravel(), W.ravel()]))
    return path[: steps + 1]


@pytest.mark.parametrize("hidden", [None, 4])
def test_what_is_kept_on_the_way_equals_a_plain_loop(hidden):
    X, y = problem()
    arguments = {**SETTINGS, "learning_rate": lambda step: 0.5 / (1 + step)}
    more = {"hidden": hidden, "random_state": 3, "checkpoints": (0, 2)}
    fitted = fit_sgd(X, y, **more, **arguments)
    for run in range(5):
        literal = plain_sgd(X, y, fitted, run, **arguments)
        # rounding of some 100 steps
        np.testing.assert_allclose(fitted.weights[run], literal[-1], atol=1e-12)
        early = [literal[0], literal[2]]
        np.testing.assert_allclose(fitted.trajectory[run], early, atol=1e-12)
    assert fitted.weights.dtype == np.float64


@settings(max_examples=40)
@given(st.data())
def test_equals_a_plain_loop_for_any_shape_and_neighbours(data):
    """Catches a batch left out or divided by another's size, a wrong place of a
    visit, a neighbour that starts late.
    """
    n = data.draw(st.integers(2, 20))
    d = data.draw(st.integers(1, 17))
    hidden, output = data.draw(
        st.sampled_from([(None, "sigmoid"), (3, "sigmoid"), (3, "softmax")])
    )
    arguments = {
        "n_runs": data.draw(st.integers(1, 4)),
        "batch_size": data.draw(st.integers(1, n)),
        "steps": data.draw(st.integers(1, 25)),
        "learning_rate": 0.3,
        "hidden": hidden,
        "output": output,
    }
    X, y = problem(n, d)
    replacement = data.draw(st.integers(0, n - 1))
    # a record replaced by itself would change nothing
    others = [record for record in range(n) if record != replacement]
    neighbours = data.draw(st.lists(st.sampled_from(others), min_size=1, max_size=6))
    changed = (0.5 * X[replacement], 1) if data.draw(st.booleans()) else replacement
    more = {"neighbours": neighbours, "replacement": changed, "device": "cpu"}
    chunk = data.draw(st.integers(1, 4))
    fitted = fit_sgd(X, y, chunk=chunk, **more, **arguments)
    features = X[replacement]
    label = y[replacement]
    if isinstance(changed, tuple):
        features, label = changed
    for run in range(arguments["n_runs"]):
        # the data set itself, then each neighbour by a run of its own
        ends = [plain_sgd(X, y, fitted, run, **arguments)[-1]]
        for record in neighbours:
            modified = X.copy()
            labels = y.copy()
            modified[record] = features
            labels[record] = label
            ends.append(plain_sgd(modified, labels, fitted, run, **arguments)[-1])
        np.testing.assert_allclose(fitted.all_weights[run], ends, atol=1e-12)
        apart = np.linalg.norm(ends[1:] - ends[0], axis=1)
        np.testing.assert_allclose(fitted.distances[run], apart, atol=1e-12)
    never = fitted.visits == 0
    # parted by a gradient or not at all, never by rounding
    assert (fitted.distances[never] == 0).all()


def test_empty_records_keep_their_places():
    X, y = problem()
    # so that no batch is without one
    empty = np.arange(43) % 3 == 0
    fitted = fit_sgd(X, y, empty=empty, **SETTINGS)
    literal = plain_sgd(X, y, fitted, 2, empty=np.flatnonzero(empty), **SETTINGS)
    np.testing.assert_allclose(fitted.weights[2], literal[-1], atol=1e-12)


@pytest.mark.parametrize(
    ("hidden", "output"), [(None, "sigmoid"), (4, "sigmoid"), (4, "softmax")]
)
def test_logits_are_those_of_pytorch(hidden, output):
    X, y = problem()
    fitted = fit_sgd(X, y, hidden=hidden, output=output, **SETTINGS)
    z = torch.tensor(X)
    for depth, layer in enumerate(fitted.architecture.layers(fitted.weights[1])):
        layer = torch.tensor(layer)
        z = torch.nn.functional.linear(
            z.relu() if depth else z, layer[:, :-1], layer[:, -1]
        )
    # log odds of class 1
    if output == "softmax":
        z = z[:, 1:] - z[:, :1]
    np.testing.assert_allclose(fitted.logits(X)[1], z[:, 0], atol=1e-12)


def test_order_and_initialisation_vary_apart():
    """The two sources of variability of Hyland and Tople: the same initial weights
    for all runs leave the order.
    """
    X, y = problem()
    # one seed of the weights for all runs
    fixed = fit_sgd(X, y, init_seeds=4, checkpoints=(0,), **SETTINGS)
    assert (fixed.trajectory[:, 0] == fixed.trajectory[0, 0]).all()
    assert len(np.unique(fixed.weights[:, 0])) == 5
    again = fit_sgd(X, y, initial=fixed.trajectory[0, 0], **SETTINGS)
    np.testing.assert_array_equal(again.weights, fixed.weights)


def test_initial_weights_have_the_stated_distribution():
    """A scale ten percent off is noticed."""
    model = Architecture(d=100, hidden=8)
    hidden, out = model.layers(np.stack([model.initial(seed) for seed in range(500)]))
    # Glorot and Bengio: the root of 6 over the sum of inputs and units
    for layer, limit in ((hidden, np.sqrt(6 / 108)), (out, np.sqrt(6 / 9))):
        assert (layer[..., -1] == 0).all()
        uniform = stats.uniform(-limit, 2 * limit).cdf
        drawn = layer[..., :-1].ravel()
        assert stats.kstest(drawn, uniform).pvalue > 1e-3
        assert stats.kstest(1.1 * drawn, uniform).pvalue < 1e-3


def test_parameters_are_those_of_the_paper():
    """Hyland and Tople, Section VI-E: 817 parameters; 521, which are 10 hidden units
    on 50 features, not 16.
    """
    assert Architecture(d=100, hidden=8).n_parameters == 817
    assert Architecture(d=50, hidden=10).n_parameters == 521
    assert Architecture(d=50, hidden=16).n_parameters == 833
    assert Architecture(d=50, hidden=16, output="softmax").n_parameters == 850


def test_a_coarse_precision_of_the_caller_has_no_part():
    X, y = problem()
    X = X.astype(np.float32)
    # at the precision of a caller who chose none
    expected = fit_sgd(X, y, **SETTINGS).weights
    # products in bfloat16, if the learner did not see to it
    torch.set_float32_matmul_precision("medium")
    try:
        fitted = fit_sgd(X, y, chunk=2, **SETTINGS)
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision("highest")
    np.testing.assert_allclose(fitted.weights, expected, atol=1e-6)
