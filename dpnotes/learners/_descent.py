"""Gradient descent of networks and regressions: the learning rate of each step or
epoch, and PyTorch's optimizers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike

from dpnotes import _validation as check
from dpnotes._validation import Floats

Rate = float | Callable[[int], float] | ArrayLike
Schedule = Mapping[int, float] | None

OPTIMIZERS = ("adam", "momentum", "sgd")


def step_rates(learning_rate: Rate, steps: int) -> Floats:
    """Learning rates [steps], finite and > 0, from a number, a function of the step
    0, 1, ..., or an array [steps].
    """
    rates = np.asarray(
        [learning_rate(i) for i in range(steps)]
        if callable(learning_rate)
        else learning_rate
    )
    if rates.dtype.kind not in "fiu":
        raise TypeError(
            "learning_rate must be a number, an array of them or a callable, got"
            f" {learning_rate!r}"
        )
    if rates.shape not in ((), (steps,)):
        raise ValueError(
            f"learning_rate must have one entry for each of {steps} steps, got shape"
            f" {rates.shape}"
        )
    rates = rates.astype(np.float64)
    wrong = ~(np.isfinite(rates) & (rates > 0))
    if wrong.any():
        at = int(np.argmax(wrong))
        raise ValueError(
            f"learning_rate must be finite and > 0 at every step, got {rates.flat[at]}"
            f" at step {at}"
        )
    return np.broadcast_to(rates, (steps,))


def epoch_factors(schedule: Schedule, epochs: int) -> Floats:
    """Factors of the learning rate, one for each epoch 0 to ``epochs - 1``.

    Parameters
    ----------
    schedule : mapping of int to float, optional
        Schedule ``{epoch: factor}``: each factor holds from its epoch on, and the
        factor is 1 before the first such epoch. With None it is always 1.
    epochs : int, >= 1

    Returns
    -------
    ndarray of float64, shape [epochs]
        Factors, finite and >= 0.

    Raises
    ------
    ValueError
        If a factor is negative or not finite, or an epoch is negative.
    TypeError
        If an epoch is not an integer, or the schedule is not a mapping.

    Examples
    --------
    >>> epoch_factors({2: 0.1, 3: 0.01}, 5)
    array([1.  , 1.  , 0.1 , 0.01, 0.01])
    """
    if not isinstance(schedule, Mapping | None):
        raise TypeError(
            "schedule must be None or a mapping of epochs to factors, got"
            f" schedule={schedule!r}"
        )
    factors = np.ones(epochs)
    for epoch, factor in sorted((schedule or {}).items()):
        factors[check.at_least("epochs of schedule", epoch, 0) :] = check.real(
            "factors of schedule", factor
        )
    return factors


@dataclass(frozen=True)
class Optimizer:
    """Adam, or stochastic gradient descent with or without momentum; other settings are
    PyTorch's defaults.

    Parameters
    ----------
    kind : {"adam", "momentum", "sgd"}
    momentum : float in [0, 1)
        Momentum of the kind ``"momentum"``.
    weight_decay : float, >= 0
        Multiple of the weights that is added to the gradient.
    """

    kind: str
    momentum: float = 0.9
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        check.one_of("optimizer", self.kind, OPTIMIZERS)
        check.real(
            "momentum", self.momentum, high=1.0, below="the steps would not decay"
        )
        check.real("weight_decay", self.weight_decay)

    def over(self, parameters: Iterable[Any]) -> torch.optim.Optimizer:
        """Make the optimizer of parameters or groups of parameters; the caller sets the
        learning rate of each step.

        A fused optimizer works entry by entry, so models that are stacked in one tensor
        remain independent.
        """
        if self.kind == "adam":
            return torch.optim.Adam(
                parameters, weight_decay=self.weight_decay, fused=True
            )
        momentum = self.momentum if self.kind == "momentum" else 0.0
        return torch.optim.SGD(
            parameters,
            lr=1.0,
            momentum=momentum,
            weight_decay=self.weight_decay,
            fused=True,
        )
