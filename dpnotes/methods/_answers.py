"""The randomness of private answers: a secret seed, and noise that no two answers share."""

from __future__ import annotations

import secrets

import numpy as np
from sklearn.utils import Tags, check_random_state

from dpnotes.mechanisms import stream
from dpnotes.methods._budget import InferenceBudget
from dpnotes.methods._classifier import PrivateClassifier


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


def short_seeds(random_state: int | np.random.RandomState | None, count: int) -> list[int]:
    """``count`` seeds: secret ones of 128 bits for None, else integers below 2^31 drawn from ``random_state``."""
    if random_state is None:
        return [secret_seed(None) for _ in range(count)]
    return [int(seed) for seed in check_random_state(random_state).randint(2**31, size=count)]


class AnsweringClassifier(PrivateClassifier):
    """Base of classifiers that answer a budget of queries, each with noise of its own.

    The generator of an answer's noise is decided by a secret seed and the number of answers released before. Copies
    share the budget, and a resumed pickle goes on behind the answers it was told of, so none repeats noise that was
    given out: the difference of two answers with the same noise would be exact.

    Attributes
    ----------
    budget_ : InferenceBudget
        Answers released and left.
    """

    budget_: InferenceBudget

    def _answer_from(self, budget: InferenceBudget, seed: int) -> None:
        self.budget_, self._answer_seed = budget, seed

    def _generator(self, count: int) -> np.random.Generator:
        """Spend ``count`` answers, all or none; the generator of their noise.

        Raises
        ------
        BudgetExhausted
            If fewer are left; then none is spent, and no noise is given out.
        """
        return stream(self._answer_seed, self.budget_.spend(count))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True  # two answers to one query differ by their noise
        return tags
