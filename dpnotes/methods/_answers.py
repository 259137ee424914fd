"""The randomness of private answers: a secret seed, and noise that no two answers share."""

from __future__ import annotations

import secrets

import numpy as np
from sklearn.utils.validation import check_random_state

from dpnotes.mechanisms import stream as stream
from dpnotes.methods._budget import InferenceBudget, Shared


def secret_seed(random_state: int | np.random.RandomState | None) -> int:
    """Seed of 128 bits: from the system for None (never from NumPy's global state), else drawn from ``random_state``.

    Examples
    --------
    >>> secret_seed(0) == secret_seed(0), secret_seed(None) == secret_seed(None)
    (True, False)
    """
    if random_state is None:
        return secrets.randbits(128)
    words = check_random_state(random_state).randint(2**32, size=4, dtype=np.uint32)
    return int.from_bytes(words.tobytes(), "little")


def derived_seed(seed: int, index: int) -> int:
    """Seed of 128 bits from generator number ``index`` of a seed, for draws that take a seed of their own."""
    return int.from_bytes(stream(seed, index).bytes(16), "little")


class AnswerStreams(Shared):
    """Spends a budget, and gives the noise for what was spent a generator of its own.

    The generator is decided by the seed and the number of answers released before. Copies share the budget, and a
    resumed pickle goes on behind the answers it was told of, so none repeats noise that was given out: the difference
    of two answers with the same noise would be exact.

    Parameters
    ----------
    budget : InferenceBudget
    seed : int, >= 0
        Must stay secret.

    Examples
    --------
    >>> streams = AnswerStreams(InferenceBudget(10), seed=1)
    >>> first, second = streams.take(3), streams.take(3)
    >>> bool(first.normal() == second.normal()), streams.budget.left
    (False, 4)
    """

    def __init__(self, budget: InferenceBudget, seed: int) -> None:
        super().__init__()
        self.budget = budget
        self._seed = seed

    def take(self, count: int) -> np.random.Generator:
        """Spend ``count`` answers, all or none; the generator of their noise.

        Raises
        ------
        BudgetExhausted
            If fewer are left.
        """
        with self._lock:  # else two threads could read the same number of answers released
            self.budget.spend(count)
            first = self.budget.released - count
        return stream(self._seed, first)
