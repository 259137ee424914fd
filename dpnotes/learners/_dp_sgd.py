"""What all learners by DP-SGD share: random batches, Gaussian noise, and the checks of their settings.

Each model has three streams of its own for initial weights, batches and noise, spawned from the seed and the model's
index, so that neither the number of models nor any chunk changes a model.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from dpnotes import _validation as _checks

WEIGHTS, BATCHES, NOISE = range(3)  # what the streams of a model are for
NOISE_BLOCK = 2**18  # numbers that a GPU draws for one model at once: a fixed size, since it decides the stream


def stream(seed: int, model: int, purpose: int) -> np.random.SeedSequence:
    """Stream of one model for ``WEIGHTS``, ``BATCHES`` or ``NOISE``."""
    return np.random.SeedSequence(seed, spawn_key=(model, purpose))


@dataclass(frozen=True)
class Sampling:
    """How batches are drawn from n rows.

    Parameters
    ----------
    law : {"poisson", "shuffle"}
        ``"poisson"``: every row is in a batch with probability ``sample_rate``, independently of all others; a batch
        can be empty. ``"shuffle"``: a fresh permutation each epoch, cut into batches of one size; the rows that are
        left over sit out the epoch.
    sample_rate : float in (0, 1]
    expected_batch : float, > 0
        Rows of a batch on average; for ``"shuffle"`` the rows of each.
    """

    law: str
    sample_rate: float
    expected_batch: float

    @classmethod
    def checked(cls, n: int, *, sampling: str, sample_rate: float | None, batch_size: int | None) -> Sampling:
        """Check what the caller gave: either a sample rate or a batch size."""
        if sampling not in ("poisson", "shuffle"):
            raise ValueError(f"sampling must be 'poisson' or 'shuffle', got sampling={sampling!r}")
        if (sample_rate is None) == (batch_size is None):
            raise ValueError(
                f"give either sample_rate or batch_size, got sample_rate={sample_rate} and batch_size={batch_size}"
            )
        if batch_size is not None:
            size = _checks.at_least("batch_size", batch_size, 1)
            if size > n:
                raise ValueError(f"batch_size must be at most the {n} rows, got batch_size={batch_size}")
            return cls(sampling, size / n, size)
        assert sample_rate is not None
        rate = _checks.real("sample_rate", sample_rate, open_low=True)
        if rate > 1:
            raise ValueError(f"sample_rate must be in (0, 1], got sample_rate={sample_rate}")
        if sampling == "shuffle":
            raise ValueError(f"sampling='shuffle' needs batch_size, got sample_rate={sample_rate}")
        return cls(sampling, rate, rate * n)

    def batches(self, n: int, source: np.random.SeedSequence) -> Iterator[NDArray[np.int64]]:
        """Positions 0..n - 1 of each batch, without end."""
        generator = np.random.Generator(np.random.PCG64(source))
        if self.law == "poisson":
            while True:  # a size by its law, then a subset of that size: the same as n coins
                yield generator.choice(n, generator.binomial(n, self.sample_rate), replace=False, shuffle=False)
        size = int(self.expected_batch)
        while True:
            order = generator.permutation(n)
            for start in range(0, n - size + 1, size):
                yield order[start : start + size]


class GaussianNoise:
    """Standard normal numbers for several models, float64, each model from a generator of its own.

    On a CPU NumPy draws them. On a GPU they are drawn there, since a CPU could not keep up: another stream, so that
    noisy models depend on the kind of device, while neither depends on what else is trained.

    Parameters
    ----------
    sources : sequence of SeedSequence
        One for each model.
    size : int
        Numbers for each model and step.
    device : torch.device
    """

    def __init__(self, sources: Sequence[np.random.SeedSequence], size: int, device: torch.device) -> None:
        self._device = device
        self._shape = (len(sources), size)
        self._numpy: list[np.random.Generator] = []
        self._torch: list[torch.Generator] = []
        if device.type == "cpu":
            self._numpy = [np.random.Generator(np.random.SFC64(source)) for source in sources]
            return
        self._torch = [torch.Generator(device).manual_seed(seed_of(source)) for source in sources]
        self._steps = max(1, NOISE_BLOCK // size)
        self._left: list[torch.Tensor] = []

    def draw(self) -> torch.Tensor:
        """The next step's numbers, shape [models, size]."""
        if self._device.type == "cpu":
            drawn = np.empty(self._shape)
            for generator, row in zip(self._numpy, drawn, strict=True):
                generator.standard_normal(out=row)
            return torch.from_numpy(drawn)
        if not self._left:
            block = [
                torch.randn(self._steps, self._shape[1], dtype=torch.float64, device=self._device, generator=generator)
                for generator in self._torch
            ]
            self._left = list(torch.stack(block, dim=1).flip(0))
        return self._left.pop()


def seed_of(source: np.random.SeedSequence) -> int:
    """Seed of a torch generator."""
    return int(source.generate_state(1, np.uint64)[0] >> np.uint64(1))


def learning_rates(learning_rate: ArrayLike, steps: int) -> NDArray[np.float64]:
    """Check a learning rate, or one for each step; shape [steps]."""
    rates = np.asarray(learning_rate, dtype=np.float64)
    if rates.ndim > 1 or (rates.ndim == 1 and len(rates) != steps):
        raise ValueError(f"learning_rate must be a number or have shape [{steps}], got shape {rates.shape}")
    wrong = ~((rates > 0) & np.isfinite(rates))
    if wrong.any():
        raise ValueError(f"learning_rate must be positive and finite, got learning_rate={rates[wrong].flat[0]}")
    return np.broadcast_to(rates, (steps,))


def noise_multipliers(noise_multiplier: ArrayLike, n_models: int | None) -> NDArray[np.float64]:
    """Check noise multipliers, one for all of ``n_models`` or one for each; shape [n_models]."""
    noise = np.asarray(noise_multiplier, dtype=np.float64)
    if noise.ndim > 1 or noise.size == 0:
        raise ValueError(f"noise_multiplier must be a number or have shape [n_models], got shape {noise.shape}")
    wrong = ~((noise >= 0) & np.isfinite(noise))
    if wrong.any():
        raise ValueError(f"noise_multiplier must be finite and >= 0, got noise_multiplier={noise[wrong].flat[0]}")
    if noise.ndim == 1 and n_models not in (None, len(noise)):
        raise ValueError(
            f"noise_multiplier has {len(noise)} entries for {n_models} models; give one number or one each"
        )
    return np.broadcast_to(noise, (len(noise) if noise.ndim else n_models or 1,))


def clipping(clipping_norm: float, noise: NDArray[np.float64]) -> float:
    """Check the clipping norm: positive, and infinite only where there is no noise to scale."""
    if not clipping_norm > 0:
        raise ValueError(f"clipping_norm must be positive, got clipping_norm={clipping_norm}")
    if math.isinf(clipping_norm) and noise.any():
        raise ValueError(
            f"clipping_norm=inf needs noise_multiplier=0, got noise_multiplier={noise.max():g}: the noise is a "
            "multiple of the clipping norm, and without one no noise hides an example"
        )
    return float(clipping_norm)


def noise_scale(noise: NDArray[np.float64], clipping_norm: float) -> NDArray[np.float64]:
    """Standard deviation of the noise on each coordinate of the summed gradient, shape [n_models]."""
    return noise * clipping_norm if noise.any() else np.zeros_like(noise)
