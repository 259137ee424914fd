"""Stochastic gradient descent as it is written down, for evidence: shared batches, all orders, exact fractions."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import permutations, product

import numpy as np
from scipy import special

from dpnotes._validation import Floats, Integers

Batches = list[tuple[int, ...]]
Gradient = Callable[[Fraction, Fraction], Fraction]


def linear(weight: Fraction, record: Fraction) -> Fraction:
    """Gradient of the loss ``weight * record``."""
    return record


def quadratic(weight: Fraction, record: Fraction) -> Fraction:
    """Gradient of the loss ``(weight - record)^2 / 2``."""
    return weight - record


def end_weight(
    records: Sequence[Fraction], batches: Batches, *, learning_rate: Fraction, gradient: Gradient, start: int = 0
) -> Fraction:
    """Weight after one step on the mean loss of each batch."""
    weight = Fraction(start)
    for batch in batches:
        mean = sum((gradient(weight, records[index]) for index in batch), Fraction(0)) / len(batch)
        weight -= learning_rate * mean
    return weight


def all_orders(n: int, *, batch_size: int = 1, passes: int = 1, steps: int | None = None) -> Iterator[Batches]:
    """Batches of all equally likely orders: n records shuffled afresh for each pass, cut off after ``steps``."""
    for orders in product(permutations(range(n)), repeat=passes):
        yield [order[at : at + batch_size] for order in orders for at in range(0, n, batch_size)][:steps]


def distribution(ends: Sequence[Fraction]) -> dict[Fraction, Fraction]:
    """Probability of each end weight, from the ends of equally likely orders."""
    return {end: Fraction(count, len(ends)) for end, count in Counter(ends).items()}


def shuffled_batches(
    n: int, *, batch_size: int, steps: int, generator: np.random.Generator, place: int | None = None
) -> Integers:
    """Records of each step, [steps, batch_size]: a fresh order for each pass, a short last batch left out.

    ``place`` is where record 0 stands in every pass, if that is to be fixed.
    """
    whole = n // batch_size  # steps of a pass
    orders = np.stack([generator.permutation(n) for _ in range(math.ceil(steps / whole))])  # [passes, n]
    if place is not None:
        orders[orders == 0] = orders[:, place]
        orders[:, place] = 0
    return orders[:, : whole * batch_size].reshape(-1, batch_size)[:steps]


def logistic_sgd(
    features: Floats, labels: Floats, batches: Integers, *, learning_rate: float, initial: Floats
) -> Floats:
    """End weights [runs, d] of logistic regressions trained side by side.

    ``features`` [runs, n, d], ``labels`` [runs, n] in {0, 1}, ``batches`` [steps, batch_size] shared by all runs or
    [steps, runs, batch_size], ``initial`` [d] or [runs, d].
    """
    runs = np.arange(len(features))[:, None]
    weights = np.broadcast_to(initial, (len(features), features.shape[-1])).copy()
    for batch in batches:
        x, y = features[runs, batch], labels[runs, batch]  # [runs, batch_size, d], [runs, batch_size]
        error = special.expit((x @ weights[..., None])[..., 0]) - y
        weights -= learning_rate / batch.shape[-1] * (error[:, None, :] @ x)[:, 0]
    return weights
