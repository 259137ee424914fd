"""Common parts of all learners by DP-SGD: random batches, Gaussian noise, and the
checks of their settings.

Each model has three separate streams for initial weights, batches and noise, spawned
from the seed and the model's index. Therefore the draws of a model depend neither on
the number of models nor on the chunks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from dpnotes import _validation as check
from dpnotes._validation import Floats, Integers
from dpnotes.learners._descent import Rate, step_rates
from dpnotes.learners._devices import spawned_seed

WEIGHTS, BATCHES, NOISE = range(3)  # what the streams of a model are for
# numbers that a GPU draws for one model at once: a fixed size, since it decides the
# stream
NOISE_BLOCK = 2**18
# of a clipping norm, kept free for the rounding of norms and factors
ROOM = {torch.float32: 2.0**-18, torch.float64: 2.0**-40}
# norms with squares to spare
SAFE = {torch.float32: (2.0**-30, 2.0**60), torch.float64: (2.0**-300, 2.0**500)}

# gives so many standard normal numbers, independent of all that was given before
Normal = Callable[[int], Floats]


def dp_sgd_batches(
    n: int, *, sample_rate: float, seed: int, model: int = 0
) -> Iterator[Integers]:
    """Yield the Poisson batches that :func:`fit_dp_sgd_linear` and
    :func:`fit_dp_sgd_network` draw for one model.

    Parameters
    ----------
    n : int, >= 1
        Number of rows to draw from.
    sample_rate : float in (0, 1]
    seed : int, >= 0
        Seed that the learner was given.
    model : int, >= 0
        Index of the model.

    Yields
    ------
    ndarray of int
        Positions 0..n - 1 of the rows of a batch, which can be empty; the iterator does
        not end.

    Examples
    --------
    >>> next(dp_sgd_batches(10, sample_rate=0.3, seed=1)).tolist()
    [0, 7, 4]
    """
    rate, generator = (
        checked_rate(sample_rate),
        np.random.Generator(np.random.PCG64(stream(seed, model, BATCHES))),
    )
    while True:  # a binomial size, then a subset of that size: the same as n coins
        yield generator.choice(
            n, generator.binomial(n, rate), replace=False, shuffle=False
        )


def checked_rate(sample_rate: float) -> float:
    """Check a sample rate, which is in (0, 1]."""
    rate = check.positive("sample_rate", sample_rate)
    if rate > 1:
        raise ValueError(
            f"sample_rate must be in (0, 1], got sample_rate={sample_rate}"
        )
    return rate


class Settings:
    """Checked settings: the noise of each model, and what all models share.

    Parameters
    ----------
    data : torch.Tensor, shape [n, ...]
        Rows, each of which is in a batch with probability ``sample_rate``,
        independently of all others.
    noise_multiplier, clipping_norm, learning_rate, steps, sample_rate, n_records, seed,
    normal
        Arguments of the caller; see :func:`fit_dp_sgd_linear`. With noise, the clipping
        norm must be one to which rows of any size can be scaled in the dtype of the
        data.
    n_models : int, optional
        Number of models if there is a single noise multiplier; by default one.

    Attributes
    ----------
    noise_multiplier : ndarray of float64, shape [M]
        Standard deviation of the noise over the clipping norm.
    clipping_norm : float
        Clipping norm; infinite only without noise.
    bound : float
        What norms are clipped to: a few rounding errors below the clipping norm, so
        that no clipped gradient is longer than that, rounded as it is.
    rates : ndarray of float64, shape [steps]
        Learning rates.
    n, sample_rate, seed, normal
    expected_batch : float, > 0
        Public number by which a sum is divided: ``sample_rate * n_records``.
    """

    def __init__(
        self,
        data: Tensor,
        noise_multiplier: ArrayLike,
        clipping_norm: float,
        learning_rate: Rate,
        steps: int,
        sample_rate: float,
        n_records: int,
        seed: int,
        normal: Normal | None,
        n_models: int | None = None,
    ) -> None:
        noise = check.array("noise_multiplier", noise_multiplier, finite=True)
        if noise.ndim > 1 or noise.size == 0:
            raise ValueError(
                "noise_multiplier must be a number or have shape [n_models], got shape"
                f" {noise.shape}"
            )
        if noise.ndim == 1 and n_models not in (None, len(noise)):
            raise ValueError(
                f"noise_multiplier has {len(noise)} entries for {n_models} models; give"
                " one number or one for each"
            )
        if not clipping_norm > 0:
            raise ValueError(
                f"clipping_norm must be positive, got clipping_norm={clipping_norm}"
            )
        if math.isinf(clipping_norm) and noise.any():
            raise ValueError(
                "clipping_norm=inf needs noise_multiplier=0, got"
                f" noise_multiplier={noise.max():g}: the noise is a multiple of the"
                " clipping norm, and without a finite norm no noise hides an example"
            )
        low, high = SAFE[data.dtype]
        if noise.any() and not low <= clipping_norm <= high:
            raise ValueError(
                f"clipping_norm must be in [{low:.2g}, {high:.2g}] for {data.dtype},"
                f" got clipping_norm={clipping_norm}"
            )
        self.noise_multiplier = np.broadcast_to(
            noise, (len(noise) if noise.ndim else n_models or 1,)
        )
        self.clipping_norm = float(clipping_norm)
        self.bound = self.clipping_norm * (1 - ROOM[data.dtype])
        self.n = len(data)
        self.normal = normal
        self.rates = step_rates(learning_rate, check.at_least("steps", steps, 1))
        self.sample_rate = checked_rate(sample_rate)
        # a constant of the caller, which the number of rows must not decide, and may
        # exceed: where it is protected, not even an error compares the two
        records = check.at_least("n_records", n_records, 1)
        self.expected_batch = self.sample_rate * records
        self.seed = check.at_least("seed", seed, 0)

    def batches(self, model: int) -> Iterator[Integers]:
        """Yield the positions 0..n - 1 of the rows of each batch of a model, without
        end.
        """
        return dp_sgd_batches(
            self.n, sample_rate=self.sample_rate, seed=self.seed, model=model
        )

    def noise(
        self, models: Integers, size: int, device: torch.device
    ) -> GaussianNoise | None:
        """Noise on ``size`` coordinates of the summed gradients of some models; None
        if they have none.
        """
        noise = self.noise_multiplier[models]
        if not noise.any():
            return None
        return GaussianNoise(
            self.seed,
            models.tolist(),
            noise * self.clipping_norm,
            size,
            device,
            self.normal,
        )


class GaussianNoise:
    """Normal numbers for several models, float64, from a separate generator for each
    model.

    On a CPU, NumPy draws the numbers. A GPU draws its numbers itself, because a CPU
    would be too slow. The streams differ, so noisy models depend on the kind of device.
    On neither kind do a model's numbers depend on the other models. Numbers of another
    source (``normal``) are always made on the CPU.

    Parameters
    ----------
    seed : int
    models : sequence of int
        Indices of the models.
    std : ndarray of float64, shape [len(models)]
        Standard deviation of each model's numbers.
    size : int
        Count of numbers for each model and step.
    device : torch.device
    normal : callable, optional
        Source of standard normal numbers instead of the generators.
    """

    def __init__(
        self,
        seed: int,
        models: Sequence[int],
        std: Floats,
        size: int,
        device: torch.device,
        normal: Normal | None = None,
    ) -> None:
        self._device, self._shape, self._normal = device, (len(models), size), normal
        self._std = torch.tensor(std, device=device)[:, None]
        self._numpy: list[np.random.Generator] = []
        self._torch: list[torch.Generator] = []
        if normal is not None:
            return
        if device.type == "cpu":
            self._numpy = [
                np.random.Generator(np.random.SFC64(stream(seed, model, NOISE)))
                for model in models
            ]
            return
        seeds = [spawned_seed(seed, model, NOISE) for model in models]
        self._torch = [torch.Generator(device).manual_seed(own) for own in seeds]
        self._steps = max(1, NOISE_BLOCK // size)
        self._left: list[Tensor] = []

    def draw(self) -> Tensor:
        """Draw the numbers of the next step, shape [models, size]."""
        if self._normal is not None:
            numbers = torch.from_numpy(
                self._normal(self._shape[0] * self._shape[1])
            ).view(self._shape)
            return numbers.to(self._device).mul_(self._std)
        if self._device.type == "cpu":
            drawn = np.empty(self._shape)
            for generator, row in zip(self._numpy, drawn, strict=True):
                generator.standard_normal(out=row)
            return torch.from_numpy(drawn).mul_(self._std)
        if not self._left:
            block = [
                torch.randn(
                    self._steps,
                    self._shape[1],
                    dtype=torch.float64,
                    device=self._device,
                    generator=generator,
                )
                for generator in self._torch
            ]
            self._left = list(torch.stack(block, dim=1).flip(0))
        return self._left.pop().mul_(self._std)


def stream(seed: int, model: int, purpose: int) -> np.random.SeedSequence:
    """Random stream of one model for ``WEIGHTS``, ``BATCHES`` or ``NOISE``."""
    return np.random.SeedSequence(seed, spawn_key=(model, purpose))
