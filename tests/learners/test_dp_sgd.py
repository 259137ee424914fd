"""DP-SGD on softmax regressions against a literal loop over examples; the
distributions of batches and noise.
"""

import itertools

import numpy as np
import pytest
import torch
from scipy import stats

from dpnotes.learners import dp_sgd_batches, fit_dp_sgd_linear
from dpnotes.learners._clipping import SoftmaxSums
from dpnotes.learners._dp_sgd import GaussianNoise
from tests.learners.test_dp_sgd_networks import literal

CPU = torch.device("cpu")
N = 60
D = 6
C = 3
SETTINGS = {
    "n_classes": C,
    "noise_multiplier": 0.0,
    "clipping_norm": 0.8,
    "sample_rate": 0.15,
    "n_records": N,
    "steps": 30,
    "learning_rate": 0.7,
    "seed": 5,
    "device": "cpu",
}


# the batches that a learner draws for its first model
def drawn(n, rate, steps):
    return list(itertools.islice(dp_sgd_batches(n, sample_rate=rate, seed=3), steps))


def noise(models, size, where, std=1.0):
    return GaussianNoise(0, models, np.full(len(models), std), size, where)


def test_poisson_batches_are_independent_coins():
    """Sizes are binomial, every row is as likely as any other and pairs are
    independent; 5% off is noticed.
    """
    n = 20
    rate = 0.3
    steps = 20_000
    batches = drawn(n, rate, steps)
    # which rows are in which batch
    member = np.zeros((steps, n))
    for row, batch in zip(member, batches, strict=True):
        assert len(set(batch.tolist())) == len(batch)
        row[batch] = 1
    sizes = np.bincount(member.sum(1).astype(int), minlength=n + 1)

    def misfit(q):
        binomial = stats.binom(n, q).pmf(np.arange(n + 1))
        # each expects > 100
        cells = [slice(0, 3), *(slice(k, k + 1) for k in range(3, 11)), slice(11, None)]
        seen, expected = (
            np.array([a[c].sum() for c in cells]) for a in (sizes, steps * binomial)
        )
        return stats.chisquare(seen, expected).pvalue

    assert misfit(rate) > 1e-3
    assert misfit(rate * 1.05) < 1e-3
    # of the fraction of batches that hold a row
    error = np.sqrt(rate * (1 - rate) / steps)
    assert abs(member.mean(0) - rate).max() < 4.5 * error  # 20 rows
    together = (member.T @ member / steps)[np.triu_indices(n, 1)]
    # 190 pairs
    assert abs(together - rate**2).max() < 5 * np.sqrt(rate**2 * (1 - rate**2) / steps)


def test_poisson_goes_from_empty_to_all():
    assert [len(batch) for batch in drawn(50, 1.0, 5)] == [50] * 5
    sizes = [len(batch) for batch in drawn(50, 0.01, 200)]
    assert sizes.count(0) > 80  # 0.99^50 = 0.605 of them are empty
    assert max(sizes) > 0


def check_noise(where):
    """Standard normal, with a scale 5 % off noticed; independent, as far as 3160 pairs
    of steps and models show; and of a model the same whatever the others.
    """
    both = noise(range(2), 7_000, where)
    alone = noise(range(1, 2), 7_000, where)
    # of a GPU more than two blocks
    numbers = torch.stack([both.draw() for _ in range(80)]).cpu()
    again = torch.stack([alone.draw() for _ in range(80)]).cpu()
    assert torch.equal(again[:, 0], numbers[:, 1])
    # nothing is used twice
    assert len(numbers.unique()) == numbers.numel()
    some = numbers[:10].flatten().numpy()
    assert stats.kstest(some, stats.norm.cdf).pvalue > 1e-3
    assert stats.kstest(some, stats.norm(scale=1.05).cdf).pvalue < 1e-3
    # rows: both models at each of 40 steps
    table = numbers[:40].numpy().reshape(80, 7_000)
    assert abs(np.corrcoef(table) - np.eye(80)).max() < 5 / np.sqrt(7_000)


def test_noise_is_standard_normal_and_each_model_has_its_own():
    check_noise(CPU)


def test_noise_of_a_gpu_does_not_depend_on_the_other_models(gpu):
    check_noise(torch.device("cuda"))


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    y = rng.integers(C, size=N)
    return rng.normal(size=(N, D)) + 1.5 * np.eye(C, D)[y], y


def fit(rows, **changes):
    return fit_dp_sgd_linear(*rows, **SETTINGS | changes)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "change",
    [
        {},
        {"noise": 1.3},
        {"noise": 1.3, "norm": 0.1},
        {"norm": np.inf},
        {"momentum": 0.6, "noise": 0.5},
    ],
)
def test_equals_a_literal_loop(rows, dtype, change):
    """Catches a wrong norm, divisor, noise scale or order of the operations."""
    noise = change.get("noise", 0.0)
    norm = change.get("norm", 0.8)
    momentum = change.get("momentum", 0.0)
    how = {"noise_multiplier": noise, "clipping_norm": norm, "momentum": momentum}
    fitted = fit(rows, dtype=dtype, n_repeats=2, **how)
    assert fitted.weights.dtype == dtype
    # a weight for the intercept
    x = torch.tensor(np.hstack([rows[0], np.ones((N, 1))]))
    y = torch.tensor(rows[1])
    tolerance = 1e-12 if dtype is np.float64 else 1e-5  # rounding over 30 steps
    for model in range(2):
        network = torch.nn.Linear(D + 1, C, bias=False).double()
        torch.nn.init.zeros_(network.weight)
        descent = torch.optim.SGD(network.parameters(), 0.7, momentum)
        run = {"steps": 30, "rate": 0.15, "norm": norm}
        # without noise the norm may be infinite
        literal(network, x, y, model, descent, std=noise * norm if noise else 0, **run)
        expected = network.weight.detach().numpy()
        np.testing.assert_allclose(
            fitted.weights[model], expected[:, :D], atol=tolerance
        )
        np.testing.assert_allclose(
            fitted.intercept[model], expected[:, D], atol=tolerance
        )
    assert not np.array_equal(fitted.weights[0], fitted.weights[1])
    # a look at it would be one at the data without noise
    assert fitted.gradient_norm is fitted.converged is None


def test_shared_batches_are_those_of_model_0(rows):
    """Without noise all models are one; with noise model 0 is as alone, and the
    noise is each model's own.
    """
    own = fit(rows, noise_multiplier=1.0, n_repeats=3)
    shared = fit(rows, noise_multiplier=1.0, n_repeats=3, shared_batches=True)
    np.testing.assert_allclose(shared.weights[0], own.weights[0], atol=1e-12)
    assert abs(shared.weights[1] - own.weights[1]).max() > 0.01
    still = fit(rows, n_repeats=3, shared_batches=True)
    np.testing.assert_allclose(
        still.weights, np.repeat(still.weights[:1], 3, axis=0), atol=1e-12
    )
    apart = fit(rows, n_repeats=3)
    assert abs(apart.weights[1] - apart.weights[0]).max() > 0.01


def fixed(X, y, weights, norm):
    """Sum of the clipped gradients of all rows at given weights [C, d], shape [C, d
    + 1], in the dtype of X.
    """
    data = torch.tensor(X)
    held = data.new_zeros(1, len(weights), X.shape[1] + 1)
    held[0, :, : X.shape[1]] = torch.tensor(weights)
    whole = torch.arange(len(X))[None]
    sums = SoftmaxSums(data, torch.tensor(y), norm)(held, whole, None)[0]
    return sums.numpy().astype(np.float64)


def test_an_example_of_large_logits_leaves_the_others_alone(rows):
    """Its own gradient counts as 0, and the sum is that of the others to the last
    digit but rounding.
    """
    X = rows[0][:20].copy()
    y = rows[1][:20]
    weights = np.full((C, D), 1e200) * np.array([[1.0], [-1.0], [1.0]])
    X[0] = 1e300
    whole, rest = (fixed(X[k:], y[k:], weights, 0.5) for k in (0, 1))
    np.testing.assert_allclose(whole, rest, atol=1e-12)


def test_a_plan_of_any_length_gives_the_same(rows, monkeypatch):
    whole = fit(rows, n_repeats=3, noise_multiplier=1.0)
    monkeypatch.setattr("dpnotes.learners._dp_sgd.PLAN_ROWS", 1)
    np.testing.assert_array_equal(
        fit(rows, n_repeats=3, noise_multiplier=1.0).weights, whole.weights
    )


def test_products_keep_all_digits_whatever_the_caller_has_chosen(rows):
    """A caller's TF32 or bfloat16 would lengthen clipped gradients; it is given back
    afterwards.
    """
    seen = []

    def state():
        return [
            torch.backends.cuda.matmul.fp32_precision,
            torch.backends.cudnn.conv.fp32_precision,
            torch.backends.mkldnn.matmul.fp32_precision,
            torch.backends.mkldnn.conv.fp32_precision,
        ]

    def watched(size):
        seen.append(state())
        return np.zeros(size)

    torch.set_float32_matmul_precision("medium")
    try:
        chosen = state()
        fit(rows, noise_multiplier=1.0, normal=watched, steps=1)
        assert state() == chosen
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision("highest")
    assert "bf16" in chosen
    assert seen == [["ieee"] * 4]
