"""What DP-SGD learners share: the distributions of batches and noise, and settings that are refused."""

import itertools

import numpy as np
import pytest
import torch
from scipy import stats

from dpnotes.learners._dp_sgd import GaussianNoise, Sampling, Settings

CPU = torch.device("cpu")
ON_GPU = pytest.mark.needs("gpu")


def drawn(n, sampling, steps, **settings):
    sample = Sampling.checked(n, sampling=sampling, **({"sample_rate": None, "batch_size": None} | settings))
    return list(itertools.islice(sample.batches(seed=3, model=0), steps))


def noise(models, size, where, std=1.0):
    return GaussianNoise(0, models, np.full(len(models), std), size, where)


def checked(noise_multiplier=0.0, clipping_norm=1.0, learning_rate=0.5, *, steps=3, n_models=None):
    return Settings.checked(noise_multiplier, clipping_norm, learning_rate, steps=steps, seed=0, n_models=n_models)


def test_poisson_batches_are_independent_coins():
    """Sizes are binomial, every row is as likely as any other and pairs are independent; 5% off is noticed."""
    n, rate, steps = 20, 0.3, 20_000
    batches = drawn(n, "poisson", steps, sample_rate=rate)
    member = np.zeros((steps, n))
    for row, batch in zip(member, batches, strict=True):
        assert len(set(batch.tolist())) == len(batch)
        row[batch] = 1
    sizes = np.bincount(member.sum(1).astype(int), minlength=n + 1)

    def misfit(q):
        binomial = stats.binom(n, q).pmf(np.arange(n + 1))
        cells = [slice(0, 3), *(slice(k, k + 1) for k in range(3, 11)), slice(11, None)]  # each expects > 100
        seen, expected = (np.array([a[c].sum() for c in cells]) for a in (sizes, steps * binomial))
        return stats.chisquare(seen, expected).pvalue

    assert misfit(rate) > 1e-3
    assert misfit(rate * 1.05) < 1e-3
    error = np.sqrt(rate * (1 - rate) / steps)
    assert abs(member.mean(0) - rate).max() < 4.5 * error  # 20 rows
    together = (member.T @ member / steps)[np.triu_indices(n, 1)]
    assert abs(together - rate**2).max() < 5 * np.sqrt(rate**2 * (1 - rate**2) / steps)  # 190 pairs


def test_poisson_goes_from_empty_to_all():
    assert [len(batch) for batch in drawn(50, "poisson", 5, sample_rate=1.0)] == [50] * 5
    sizes = [len(batch) for batch in drawn(50, "poisson", 200, sample_rate=0.01)]
    assert sizes.count(0) > 80  # 0.99^50 = 0.605 of them are empty
    assert max(sizes) > 0


def test_shuffled_batches_go_through_each_epoch_once():
    batches = drawn(23, "shuffle", 8, batch_size=5)
    assert {len(batch) for batch in batches} == {5}
    first, second = np.concatenate(batches[:4]), np.concatenate(batches[4:])
    assert len(set(first.tolist())) == len(set(second.tolist())) == 20  # 3 rows sit out, others each time
    assert not np.array_equal(first, second)


def test_noise_is_standard_normal_and_each_model_has_its_own():
    both, alone = noise(range(2), 500, CPU), noise(range(1, 2), 500, CPU)
    numbers = torch.stack([both.draw() for _ in range(40)])
    assert torch.equal(torch.stack([alone.draw() for _ in range(40)])[:, 0], numbers[:, 1])
    flat = numbers.numpy().ravel()
    assert stats.kstest(flat, stats.norm.cdf).pvalue > 1e-3
    assert stats.kstest(flat, stats.norm(scale=1.05).cdf).pvalue < 1e-3
    table = numbers.numpy().transpose(1, 0, 2).reshape(80, 500)  # rows: both models at each step
    assert abs(np.corrcoef(table) - np.eye(80)).max() < 5 / np.sqrt(500)  # 3160 pairs


@ON_GPU
def test_noise_of_a_gpu_does_not_depend_on_the_other_models():
    where = torch.device("cuda")
    both, alone = noise(range(2), 7_000, where), noise(range(1, 2), 7_000, where)
    numbers = torch.stack([both.draw() for _ in range(80)])  # more than two blocks
    assert torch.equal(torch.stack([alone.draw() for _ in range(80)])[:, 0], numbers[:, 1])
    assert len(numbers.unique()) == numbers.numel()  # nothing is used twice
    assert stats.kstest(numbers[:, 0].flatten().cpu().numpy()[:20_000], stats.norm.cdf).pvalue > 1e-3


def test_noise_scale_is_on_the_sum():
    settings = checked([0.0, 2.0], 0.5)
    np.testing.assert_array_equal(settings.noise_std, [0.0, 1.0])
    np.testing.assert_array_equal(checked([0.0], np.inf).noise_std, [0.0])
    assert settings.noise(np.array([0]), 5, CPU) is None
    drawn = settings.noise(np.arange(2), 5, CPU).draw()
    assert torch.equal(drawn[1], noise(range(1, 2), 5, CPU).draw()[0])
    assert not drawn[0].any()
    halved = noise(range(1, 2), 5, CPU, std=0.5)
    assert torch.equal(halved.draw()[0] * 2, drawn[1])


@pytest.mark.parametrize("where", ["cpu", pytest.param("cuda", marks=ON_GPU)])
def test_noise_of_another_source_is_scaled_and_nothing_else(where):
    asked = []

    def count(size):
        asked.append(size)
        return np.arange(size, dtype=np.float64)

    drawn = GaussianNoise(0, [3, 5], np.array([0.5, 2.0]), 3, torch.device(where), count).draw()
    assert drawn.tolist() == [[0.0, 0.5, 1.0], [6.0, 8.0, 10.0]]
    assert (drawn.device.type, asked) == (where, [6])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: drawn(5, "cyclic", 1, batch_size=2),
            "sampling must be one of 'poisson', 'shuffle', got sampling='cyclic'",
        ),
        (lambda: drawn(5, "poisson", 1), "give either sample_rate or batch_size"),
        (lambda: drawn(5, "poisson", 1, sample_rate=0.1, batch_size=2), "give either sample_rate or batch_size"),
        (lambda: drawn(5, "poisson", 1, sample_rate=1.5), r"sample_rate must be in \(0, 1\], got sample_rate=1.5"),
        (lambda: drawn(5, "poisson", 1, sample_rate=0.0), "sample_rate must be > 0"),
        (lambda: drawn(5, "poisson", 1, batch_size=2, n_records=9), "n_records=9 needs sample_rate, got batch_size=2"),
        (lambda: drawn(5, "poisson", 1, sample_rate=0.5, n_records=4), "n_records must be >= 5, got n_records=4"),
        (lambda: drawn(5, "shuffle", 1, sample_rate=0.5), "sampling='shuffle' needs batch_size"),
        (lambda: drawn(5, "shuffle", 1, batch_size=6), "batch_size must be >= 1 and <= n=5, got batch_size=6"),
        (lambda: checked(-1.0), "noise_multiplier must be >= 0, got noise_multiplier=-1.0"),
        (lambda: checked([1.0, np.nan]), "noise_multiplier must be >= 0, got .*nan"),
        (lambda: checked([1.0, np.inf]), "noise_multiplier must be finite and >= 0, got .*inf"),
        (lambda: checked([]), "noise_multiplier must be a number or have shape"),
        (lambda: checked([1.0, 2.0], n_models=3), "noise_multiplier has 2 entries for 3 models"),
        (lambda: checked(0.0, 0.0), "clipping_norm must be positive, got clipping_norm=0.0"),
        (lambda: checked(0.0, np.nan), "clipping_norm must be positive, got clipping_norm=nan"),
        (lambda: checked(1.0, np.inf), "clipping_norm=inf needs noise_multiplier=0, got noise_multiplier=1"),
        (
            lambda: checked(1.0, 1e-200),
            r"clipping_norm must be in \[4.9e-91, 3.3e\+150\] for torch.float64, got .*200",
        ),
        (lambda: checked(1.0, 1e151), "clipping_norm must be in .*, got clipping_norm=1e"),
        (lambda: checked(learning_rate=0.0), "learning_rate must be finite and > 0 at every step, got 0.0 at step 0"),
        (lambda: checked(learning_rate=[1.0, 1.0]), "learning_rate must have one entry for each of 3 steps"),
    ],
)
def test_bad_settings_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_one_setting_serves_all_models():
    np.testing.assert_array_equal(checked(1.5, n_models=3).noise_multiplier, [1.5] * 3)
    np.testing.assert_array_equal(checked([1.0, 2.0]).noise_multiplier, [1.0, 2.0])
    np.testing.assert_array_equal(checked(learning_rate=0.5, steps=2).rates, [0.5, 0.5])
