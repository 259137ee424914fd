"""What plain SGD trains: logistic regression, or a network of one hidden layer, as a flat vector of parameters."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpnotes import _validation as check
from dpnotes._validation import Features, Floats, Integers

OUTPUTS = ("sigmoid", "softmax")


@dataclass(frozen=True)
class Architecture:
    """A binary classifier and the order of its parameters.

    The parameters lie end to end, layer by layer; in a layer unit by unit: the weights of a unit's inputs, then its
    intercept.

    Parameters
    ----------
    d : int
        Features.
    hidden : int or None
        Units of the hidden layer (ReLU); None is logistic regression.
    output : {"sigmoid", "softmax"}
        One output unit, the log odds of class 1; or two, one for each class.

    Examples
    --------
    >>> Architecture(d=100, hidden=8).n_parameters
    817
    """

    d: int
    hidden: int | None = None
    output: str = "sigmoid"

    def __post_init__(self) -> None:
        if self.hidden is not None:
            check.at_least("hidden", self.hidden, 1)
        check.one_of("output", self.output, OUTPUTS)
        if self.hidden is None and self.output != "sigmoid":
            raise ValueError(f"output must be 'sigmoid' without a hidden layer, got output={self.output!r}")

    @property
    def shapes(self) -> tuple[tuple[int, int], ...]:
        """Units and inputs of each layer; an intercept counts as an input."""
        outputs = 2 if self.output == "softmax" else 1
        if self.hidden is None:
            return ((outputs, self.d + 1),)
        return (self.hidden, self.d + 1), (outputs, self.hidden + 1)

    @property
    def n_parameters(self) -> int:
        """Length p of the parameter vector."""
        return sum(units * inputs for units, inputs in self.shapes)

    def layers(self, weights: Features) -> list[Features]:
        """Views of weights [..., p] as layers [..., units, inputs], the intercept as the last input."""
        ends = np.cumsum([units * inputs for units, inputs in self.shapes])
        parts = np.split(weights, ends[:-1], axis=-1)
        return [part.reshape(*part.shape[:-1], *shape) for part, shape in zip(parts, self.shapes, strict=True)]

    def logits(self, weights: Features, X: Features) -> Features:
        """Log odds of class 1, in nats: weights [..., p] and X [n, d] in, [..., n] out, in the weights' dtype."""
        values: Features = check.features(X, d=self.d).astype(weights.dtype, copy=False).T  # [d, n]
        for depth, layer in enumerate(self.layers(weights)):
            values = np.maximum(values, 0) if depth else values
            values = layer[..., :-1] @ values + layer[..., -1:]  # [..., units, n]
        return np.asarray(values[..., 1, :] - values[..., 0, :] if self.output == "softmax" else values[..., 0, :])

    def initial(self, seed: int) -> Floats:
        """Initial weights [p] from the stream of that seed; :func:`fit_sgd` says how they are distributed."""
        generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1,)))
        drawn = []
        for units, inputs in self.shapes:
            limit = math.sqrt(6 / (inputs - 1 + units))
            weights = np.zeros((units, inputs))
            weights[:, :-1] = generator.uniform(-limit, limit, (units, inputs - 1))
            drawn.append(weights.ravel())
        return np.concatenate(drawn)


def initial_weights(model: Architecture, initial: Features | None, seeds: Integers) -> Floats:
    """Initial weights of all runs [R, p]: each drawn from its seed, or given as [p] or [R, p]."""
    if initial is None:
        return np.stack([model.initial(int(seed)) for seed in seeds])
    shape = (len(seeds), model.n_parameters)
    given = np.asarray(initial)
    if given.dtype not in (np.float32, np.float64) or given.shape not in (shape, shape[1:]):
        raise ValueError(
            f"initial must be float32 or float64 of shape [{shape[1]}] or [{shape[0]}, {shape[1]}], "
            f"got {given.dtype} of shape {given.shape}"
        )
    if not np.isfinite(given).all():
        raise ValueError(f"initial must be finite, got {int((~np.isfinite(given)).sum())} bad entries")
    return np.broadcast_to(given.astype(np.float64), shape)
