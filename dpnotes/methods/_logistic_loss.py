"""Public constants of the logistic loss."""

import math
from typing import NamedTuple

from dpnotes._validation import positive


class Constants(NamedTuple):
    """Constants of the loss ``log(1 + exp(-y (w'x + b)))`` in (w, b), for rows whose
    norm is at most a bound.
    """

    lipschitz: float
    smoothness: float


def logistic_loss(norm: float) -> Constants:
    """Compute the Lipschitz and smoothness constants for rows of at most this norm,
    plus the intercept's feature 1.

    Examples
    --------
    >>> lipschitz, smoothness = logistic_loss(1.0)
    >>> round(lipschitz, 4), smoothness
    (1.4142, 0.5)
    """
    norm = positive("norm", norm)
    # the derivative of the loss is at most 1, and its second one at most 1/4
    return Constants(math.hypot(norm, 1.0), (norm**2 + 1) / 4)
