"""What follows from the curve delta(epsilon): the smallest epsilon for a delta, and the trade-off of error rates."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dpnotes._validation import Floats

EPSILONS = np.concatenate([[0.0], np.geomspace(1e-4, 1e3, 2000)])  # where a trade-off curve gets a supporting line
LARGEST_EXPONENT = 700.0  # e^700 is a double
BISECTIONS = 200  # halves any bracket of doubles to neighbouring numbers


def smallest_epsilon(curve: Callable[[Floats], Floats], delta: Floats, *, limit: float = 0.0) -> Floats:
    """Smallest epsilon >= 0 with ``curve(epsilon) <= delta``, found from the private side; inf where delta < limit.

    ``curve`` falls with epsilon towards ``limit``; a delta equal to a limit that is only approached gives infinity.
    """
    low, high = np.zeros_like(delta), np.ones_like(delta)
    for _ in range(60):  # up to 2^60; beyond, no double epsilon is of use
        short = curve(high) > delta
        if not short.any():
            break
        high = np.where(short, 2 * high, high)
    reachable = curve(high) <= delta
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        enough = curve(middle) <= delta
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    found = np.where(curve(np.zeros_like(delta)) <= delta, 0.0, high)
    return np.where(reachable & (delta >= limit), found, np.inf)


def supported_tradeoff(kept: Floats, epsilon: Floats, alpha: Floats) -> Floats:
    """Trade-off function as the upper envelope of the lines that ``kept = 1 - delta(epsilon)`` allows, both ways round.

    ``kept`` and ``epsilon`` have shape [lines]; fewer lines only lower the result, which is the private side.
    """
    alpha = alpha[..., None]
    with np.errstate(over="ignore", invalid="ignore"):  # e^epsilon alpha may be inf; at alpha = 0 nothing falls
        fall = np.where(alpha > 0, np.exp(epsilon) * alpha, 0.0)
    lines = np.maximum(kept - fall, np.exp(-epsilon) * (kept - alpha))
    return np.asarray(np.maximum(0.0, lines.max(-1)), dtype=np.float64)


def sorted_tradeoff(kept: Floats, epsilon: Floats, alpha: Floats) -> Floats:
    """As :func:`supported_tradeoff`, for ascending ``epsilon`` <= 700: each alpha looks its own line up."""
    right = _largest(kept, np.exp(epsilon), alpha)
    left = _largest((np.exp(-epsilon) * kept)[::-1], np.exp(-epsilon)[::-1], alpha)
    return np.maximum(0.0, np.maximum(right, left))


def _largest(intercept: Floats, gradient: Floats, alpha: Floats) -> Floats:
    """``max(intercept - gradient * alpha)``, at the line where the rise of the concave intercepts passes alpha."""
    rise = np.minimum.accumulate(np.diff(intercept) / np.diff(gradient))
    index = len(rise) - np.searchsorted(rise[::-1], alpha, side="left")
    return np.asarray(intercept[index] - gradient[index] * alpha, dtype=np.float64)
