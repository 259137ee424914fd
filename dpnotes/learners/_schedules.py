"""Learning rates: one for each step, or a multiple of the first for each epoch."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from numbers import Integral

import numpy as np
from numpy.typing import ArrayLike

from dpnotes._validation import Floats

Rate = float | Callable[[int], float] | ArrayLike
Schedule = str | Mapping[int, float] | Callable[[int], float] | None


def step_rates(learning_rate: Rate, steps: int) -> Floats:
    """Rates [steps], finite and > 0, from a number, a function of the step 0, 1, ..., or one entry for each step."""
    rates = np.asarray([learning_rate(i) for i in range(steps)] if callable(learning_rate) else learning_rate)
    if rates.dtype.kind not in "fiu":
        raise TypeError(f"learning_rate must be a number, an array of them or a callable, got {learning_rate!r}")
    if rates.shape not in ((), (steps,)):
        raise ValueError(f"learning_rate must have one entry for each of {steps} steps, got shape {rates.shape}")
    rates = rates.astype(np.float64)
    wrong = ~(np.isfinite(rates) & (rates > 0))
    if wrong.any():
        at = int(np.argmax(wrong))
        raise ValueError(f"learning_rate must be finite and > 0 at every step, got {rates.flat[at]} at step {at}")
    return np.broadcast_to(rates, (steps,))


def epoch_factors(schedule: Schedule, epochs: int) -> Floats:
    """Multiples of the learning rate, one for each epoch 0 to ``epochs - 1``.

    Parameters
    ----------
    schedule : None, "cosine", mapping of int to float, or callable
        None: 1 throughout. ``"cosine"``: half a cosine wave, ``(1 + cos(pi epoch / epochs)) / 2``. A mapping
        ``{epoch: factor}``: each factor holds from its epoch on, 1 before the first. A callable: ``factor(epoch)``.
    epochs : int, >= 1

    Returns
    -------
    ndarray of float64, shape [epochs]
        Finite, >= 0.

    Raises
    ------
    ValueError
        If a factor is negative or not finite, an epoch is negative or no integer, or the name is not one of the above.

    Examples
    --------
    >>> epoch_factors({2: 0.1, 3: 0.01}, 5)
    array([1.  , 1.  , 0.1 , 0.01, 0.01])
    """
    if schedule is None:
        return np.ones(epochs)
    if schedule == "cosine":
        return np.array([(1 + math.cos(math.pi * epoch / epochs)) / 2 for epoch in range(epochs)])
    if isinstance(schedule, Mapping):
        factors = np.ones(epochs)
        wrong = [epoch for epoch in schedule if not isinstance(epoch, Integral) or epoch < 0]
        if wrong:
            raise ValueError(f"schedule must map epochs >= 0 to factors, got the epoch {wrong[0]!r}")
        for epoch in sorted(schedule):
            factors[epoch:] = _checked(epoch, schedule[epoch])
        return factors
    if callable(schedule):
        return np.array([_checked(epoch, schedule(epoch)) for epoch in range(epochs)])
    kind = ValueError if isinstance(schedule, str) else TypeError
    raise kind(
        f"schedule must be None, 'cosine', a mapping of epochs to factors or a callable, got schedule={schedule!r}"
    )


def _checked(epoch: int, factor: float) -> float:
    if not (math.isfinite(factor) and factor >= 0):
        raise ValueError(f"schedule must give finite factors >= 0, got {factor!r} for epoch {epoch}")
    return float(factor)
