"""A linear classifier from one noisy sum, the records each times its label's sign; and what goes wrong in it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpnotes._validation import Features, Floats, Integers
from dpnotes.accounting import PrivacyProfile, gaussian, laplace

SECONDS = 60  # of a clock's minute


@dataclass(frozen=True)
class Sum:
    """Records are shortened to a norm of 1, and Gaussian noise for that is added to their sum, shape [d]."""

    noise: float = 2.0
    adjacency: str = "add-remove"

    def claim(self) -> PrivacyProfile:
        """What the author says."""
        return gaussian(sigma=self.noise, adjacency=self.adjacency)

    def __call__(self, X: Features, y: Integers, seed: int) -> Any:
        return self.released(self.summed(X, y), X, np.random.default_rng(seed))

    def summed(self, X: Features, y: Integers) -> Floats:
        lengths = np.linalg.norm(X, axis=1, keepdims=True)
        return np.asarray(((2 * y - 1)[:, None] * X / np.maximum(1, lengths)).sum(axis=0))

    def released(self, total: Floats, X: Features, generator: np.random.Generator) -> Any:
        return total + generator.normal(0.0, self.noise, len(total))


class LaplaceSum(Sum):
    """Laplace noise for the L1 norm, which is up to sqrt(d) times the L2 norm."""

    def claim(self) -> PrivacyProfile:
        return laplace(scale=self.noise)

    def released(self, total: Floats, X: Features, generator: np.random.Generator) -> Any:
        return total + generator.laplace(0.0, self.noise * math.sqrt(len(total)), len(total))


class SumForMean(Sum):
    """The noise is that of the mean, and the sum is what is published."""

    def released(self, total: Floats, X: Features, generator: np.random.Generator) -> Any:
        return total + generator.normal(0.0, self.noise / len(X), len(total))


class BoundsFromData(Sum):
    """The bound of the norms, and with it the scale of the noise, is read off the private records."""

    def released(self, total: Floats, X: Features, generator: np.random.Generator) -> Any:
        return total + generator.normal(0.0, self.noise * np.linalg.norm(X, axis=1).max(), len(total))


class LaplaceForL2(LaplaceSum):
    """Laplace noise on each coordinate is scaled to the L2 norm."""

    def released(self, total: Floats, X: Features, generator: np.random.Generator) -> Any:
        return total + generator.laplace(0.0, self.noise, len(total))


class ReplaceOne(Sum):
    """The claim is about a record exchanged for another, the noise is for one added or removed."""


class CountPublished(Sum):
    """The number of records, which the guarantee hides, is published beside the noisy sum."""

    def released(self, total: Floats, X: Features, generator: np.random.Generator) -> Any:
        return {"sum": super().released(total, X, generator), "n": len(X)}


class LowEntropy(Sum):
    """The noise is seeded by the second of the minute."""

    def released(self, total: Floats, X: Features, generator: np.random.Generator) -> Any:
        clock = np.random.default_rng(generator.integers(SECONDS))
        return super().released(total, X, clock)
