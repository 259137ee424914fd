"""Learning rate of each epoch, as a multiple of the first."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from numbers import Integral

import numpy as np
from numpy.typing import NDArray

Schedule = str | Mapping[int, float] | Callable[[int], float] | None


def epoch_factors(schedule: Schedule, epochs: int) -> NDArray[np.float64]:
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
        If a factor is negative or not finite, an epoch is negative or no integer, or the name is unknown.

    Examples
    --------
    >>> epoch_factors({2: 0.1, 3: 0.01}, 5)
    array([1.  , 1.  , 0.1 , 0.01, 0.01])
    """
    if isinstance(schedule, str) and schedule != "cosine":
        raise ValueError(
            f"schedule must be None, 'cosine', a mapping of epochs to factors or a callable, got schedule={schedule!r}"
        )
    if schedule is None:
        return np.ones(epochs)
    if isinstance(schedule, str):
        return np.array([(1 + math.cos(math.pi * epoch / epochs)) / 2 for epoch in range(epochs)])
    if isinstance(schedule, Mapping):
        factors = np.ones(epochs)
        wrong = [epoch for epoch in schedule if not isinstance(epoch, Integral) or epoch < 0]
        if wrong:
            raise ValueError(f"schedule must map epochs >= 0 to factors, got the epoch {wrong[0]!r}")
        for epoch in sorted(schedule):
            factors[epoch:] = _checked(epoch, schedule[epoch])
        return factors
    if not callable(schedule):
        raise TypeError(
            f"schedule must be None, 'cosine', a mapping of epochs to factors or a callable, got schedule={schedule!r}"
        )
    return np.array([_checked(epoch, schedule(epoch)) for epoch in range(epochs)])


def _checked(epoch: int, factor: float) -> float:
    if not (math.isfinite(factor) and factor >= 0):
        raise ValueError(f"schedule must give finite factors >= 0, got {factor!r} for epoch {epoch}")
    return float(factor)
