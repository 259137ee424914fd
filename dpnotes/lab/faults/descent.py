"""Logistic regression by noisy gradient steps, and what goes wrong in it.

The engine is DP-SGD on Poisson samples, or on all records at ``rate = 1``; a subclass is a fault, and its docstring
says which. The number of records that sets the scale of a step is a public constant.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from dpnotes._validation import Features, Floats, Integers
from dpnotes.accounting import PrivacyProfile, dp_sgd

EXPECTED = 60  # records, a public constant


def sigmoid(logits: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-np.clip(logits, -500, 500))))


def with_ones(X: Features) -> Features:
    return np.column_stack([X, np.ones(len(X))])


@dataclass(frozen=True)
class Descent:
    """Gradients of single records are clipped, summed with noise, and all steps are accounted for.

    ``train(X, y, seed)`` gives the weights of the features and the intercept, shape [d + 1], and here and there more.
    """

    steps: int = 5
    rate: float = 1.0
    noise: float = 4.0  # standard deviation of the noise on a sum, in clipping norms
    clip: float = 0.2
    learning_rate: float = 1.0
    momentum: float = 0.0
    decay: float = 0.0
    adjacency: str = "add-remove"

    def claim(self) -> PrivacyProfile:
        """What the author says."""
        return dp_sgd(noise_multiplier=self.noise, sample_rate=self.rate, steps=self.steps, adjacency=self.adjacency)

    def __call__(self, X: Features, y: Integers, seed: int) -> Any:
        return self.weights(X, y, np.random.default_rng(seed))

    def weights(self, X: Features, y: Integers, generator: np.random.Generator) -> Floats:
        """Train."""
        return self.path(X, y, generator)[-1]

    def path(self, X: Features, y: Integers, generator: np.random.Generator) -> list[Floats]:
        """Weights after each step, each [d + 1]."""
        Z = self.prepared(X)
        path = [np.zeros(Z.shape[1])]
        velocity = np.zeros_like(path[0])
        for step, chosen in enumerate(self.batches(generator, len(Z))):
            w = path[-1]
            total, sensitivity = self.summed(Z[chosen], y[chosen], w)
            drawn = self.drawn(generator, step, len(w)) * self.noise * sensitivity
            velocity, direction = self.moved(velocity, total, drawn)
            path.append((1 - self.decay) * w - self.learning_rate / (self.rate * EXPECTED) * direction)
            if self.finished(Z, y, path[-1]):
                break
        return path

    def prepared(self, X: Features) -> Features:
        return with_ones(X)

    def batches(self, generator: np.random.Generator, n: int) -> Iterator[Integers]:
        for _ in range(self.steps):
            yield np.flatnonzero(generator.random(n) < self.rate)

    def gradients(self, Z: Features, y: Integers, w: Floats) -> Floats:
        return np.asarray((sigmoid(Z @ w) - y)[:, None] * Z)

    def clipped(self, gradients: Floats) -> Floats:
        norms = np.sqrt(np.square(gradients).sum(axis=1, keepdims=True))
        return np.asarray(gradients * np.minimum(1, self.clip / np.maximum(norms, 1e-300)))

    def summed(self, Z: Features, y: Integers, w: Floats) -> tuple[Floats, float]:
        """Sum over a batch, and by how much one record moves it."""
        return self.clipped(self.gradients(Z, y, w)).sum(axis=0), self.clip

    def drawn(self, generator: np.random.Generator, step: int, size: int) -> Floats:
        """Noise of standard deviation 1."""
        return generator.normal(size=size)

    def moved(self, velocity: Floats, total: Floats, drawn: Floats) -> tuple[Floats, Floats]:
        """The next velocity, and what the weights move along."""
        velocity = self.momentum * velocity + total + drawn
        return velocity, velocity

    def finished(self, Z: Features, y: Integers, w: Floats) -> bool:
        return False

    def shown(self, epsilons: Floats, length: float = 1.0) -> Floats:
        """Delta at each epsilon of the sum of all steps, along a record's gradient that is the same in all of them.

        ``length``, in clipping norms, is what can be seen of that gradient. A binomial number of it is added to the
        noise, so that the likelihood ratio grows along the sum, and tests by a threshold are the best.
        """
        sigma, drawn = self.noise * self.steps**0.5, np.arange(self.steps + 1)
        cuts = np.linspace(-10 * sigma, self.steps + 10 * sigma, 10_000)
        chances, factors = stats.binom.pmf(drawn, self.steps, self.rate), np.exp(epsilons)[:, None]
        moved, still = (cuts[:, None] - length * drawn) / sigma, cuts / sigma
        above = stats.norm.sf(moved) @ chances - factors * stats.norm.sf(still)
        below = stats.norm.cdf(still) - factors * (stats.norm.cdf(moved) @ chances)
        return np.asarray(np.maximum(above, below).max(axis=1))

    def length(self, X: Features, y: Integers) -> float:
        """What can be seen, in clipping norms, of the gradient of a record of norm 1 where the others have least.

        The gradient is clipped, and the first step's; besides the noise it is hidden by which of the others are drawn.
        """
        Z, w = self.prepared(X), np.zeros(self.prepared(X).shape[1])
        others = self.clipped(self.gradients(Z, y, w))
        hidden = self.rate * (1 - self.rate) * others.T @ others + (self.noise * self.clip) ** 2 * np.eye(len(w))
        quiet = self.prepared(np.linalg.eigh(X.T @ X)[1][:, :1].T)
        (own,) = self.clipped(self.gradients(quiet, y[:1], w))
        return float(self.noise * np.sqrt(own @ np.linalg.solve(hidden, own)))


class AllSteps(Descent):
    """All noisy sums are published, in clipping norms, shape [steps, d]; there is no intercept.

    The guarantee of DP-SGD is about these, and a record whose gradient is clipped and like no other's attains it.
    """

    def __call__(self, X: Features, y: Integers, seed: int) -> Any:
        path = self.path(X, y, np.random.default_rng(seed))
        return np.diff(path, axis=0) * (-self.rate * EXPECTED / self.learning_rate / self.clip)

    def prepared(self, X: Features) -> Features:
        return X

    def likelihood_ratio(self, sums: Floats, x: Floats, label: Any) -> float:
        """Logarithm, of a record whose clipped gradient is that of its label at every step."""
        along = sums @ x * (1 - 2 * label) / max(np.linalg.norm(x), 1e-300)
        return float(np.log1p(self.rate * np.expm1((along - 0.5) / self.noise**2)).sum())


class NoiseOfMean(Descent):
    """The noise that a mean over the batch would need is added to a sum."""

    def drawn(self, generator: np.random.Generator, step: int, size: int) -> Floats:
        return generator.normal(size=size) / EXPECTED


class NotClipped(Descent):
    """Gradients are not clipped."""

    def clipped(self, gradients: Floats) -> Floats:
        return gradients


class BatchClipped(Descent):
    """The batch's mean gradient is clipped, not each record's."""

    def summed(self, Z: Features, y: Integers, w: Floats) -> tuple[Floats, float]:
        mean = self.gradients(Z, y, w).mean(axis=0, keepdims=True)
        return EXPECTED * self.clipped(mean)[0], self.clip


class BiasNotClipped(Descent):
    """Clipping leaves out the intercept."""

    def clipped(self, gradients: Floats) -> Floats:
        return np.column_stack([super().clipped(gradients[:, :-1]), gradients[:, -1]])


class Shuffled(Descent):
    """Batches are a shuffled file's slices and accounted as Poisson samples; all steps are published."""

    def __call__(self, X: Features, y: Integers, seed: int) -> Any:
        return np.diff(self.path(X, y, np.random.default_rng(seed)), axis=0)

    def batches(self, generator: np.random.Generator, n: int) -> Iterator[Integers]:
        yield from np.array_split(generator.permutation(n), self.steps)


class NoiseReused(Descent):
    """One model for each class, trained from the same seed: both have the same noise, which their difference lacks."""

    def claim(self) -> PrivacyProfile:
        return super().claim().compose(2)

    def __call__(self, X: Features, y: Integers, seed: int) -> Any:
        return np.stack([self.weights(X, y == label, np.random.default_rng(seed)) for label in (0, 1)])


class SeedFixed(Descent):
    """The noise comes from a seed that is the same in each run."""

    def drawn(self, generator: np.random.Generator, step: int, size: int) -> Floats:
        return np.random.default_rng(step).normal(size=size)


class Standardised(Descent):
    """Features are standardised with the mean and standard deviation of the private records."""

    def prepared(self, X: Features) -> Features:
        return with_ones((X - X.mean(axis=0)) / X.std(axis=0))


class BatchNormalised(Descent):
    """Each batch is standardised before its gradients are clipped: a record changes those of all others."""

    def gradients(self, Z: Features, y: Integers, w: Floats) -> Floats:
        X = Z[:, :-1]
        return super().gradients(with_ones((X - X.mean(axis=0)) / (X.std(axis=0) + 1e-6)), y, w)


class StopsEarly(Descent):
    """Training ends once all private records are on the right side, and the number of steps is published."""

    def __call__(self, X: Features, y: Integers, seed: int) -> Any:
        path = self.path(X, y, np.random.default_rng(seed))
        return {"weights": path[-1], "n_iter": len(path) - 1}

    def finished(self, Z: Features, y: Integers, w: Floats) -> bool:
        return bool(((Z @ w > 0) == y).all())


class BestOfTen(Descent):
    """Of ten models that with the best accuracy on the private records is published, and one is accounted for."""

    def __call__(self, X: Features, y: Integers, seed: int) -> Any:
        models = [self.weights(X, y, generator) for generator in np.random.default_rng(seed).spawn(10)]
        return max(models, key=lambda w: (((with_ones(X) @ w) > 0) == y).mean())


class LabelsCounted(Descent):
    """The intercept is set to the log-odds of the classes, counted without noise."""

    def __call__(self, X: Features, y: Integers, seed: int) -> Any:
        w = self.weights(X, y, np.random.default_rng(seed))
        w[-1] = np.log(y.sum() / (len(y) - y.sum()))
        return w


class CountedOnce(Descent):
    """Two models are trained, each with noise for the whole budget, and their mean is published."""

    def __call__(self, X: Features, y: Integers, seed: int) -> Any:
        return np.mean([self.weights(X, y, each) for each in np.random.default_rng(seed).spawn(2)], axis=0)


class MomentumNoise(Descent):
    """Noise for one gradient is added to the velocity, in which a record has many."""

    def moved(self, velocity: Floats, total: Floats, drawn: Floats) -> tuple[Floats, Floats]:
        velocity = self.momentum * velocity + total
        return velocity, velocity + drawn


class ClippedLate(Descent):
    """Gradients are accumulated over micro-batches of four, and clipped when they have been added up."""

    def clipped(self, gradients: Floats) -> Floats:
        ends = range(0, len(gradients), 4)
        return super().clipped(np.add.reduceat(gradients, ends, axis=0))


class OneStepMore(Descent):
    """One step more is taken than is accounted for."""

    def batches(self, generator: np.random.Generator, n: int) -> Iterator[Integers]:
        yield np.arange(n)
        yield from super().batches(generator, n)


class RateTwice(Descent):
    """The learning rate multiplies the sum before the noise, and the noisy sum once more."""

    def moved(self, velocity: Floats, total: Floats, drawn: Floats) -> tuple[Floats, Floats]:
        return velocity, self.learning_rate * total + drawn


class OneDraw(Descent):
    """One number is drawn, and added to all coordinates."""

    def drawn(self, generator: np.random.Generator, step: int, size: int) -> Floats:
        return np.full(size, generator.normal())


class LastStepClean(Descent):
    """The last step has no noise, so that the model is not spoilt."""

    def drawn(self, generator: np.random.Generator, step: int, size: int) -> Floats:
        return generator.normal(size=size) * (step < self.steps - 1)


class AdaptiveClip(Descent):
    """The clipping norm is the largest norm in the batch."""

    def prepared(self, X: Features) -> Features:
        return X

    def summed(self, Z: Features, y: Integers, w: Floats) -> tuple[Floats, float]:
        gradients = self.gradients(Z, y, w)
        return gradients.sum(axis=0), float(np.linalg.norm(gradients, axis=1).max())
