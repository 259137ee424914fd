"""The randomness of private methods: noise of the operating system, or of a seed that repeats an experiment."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

import numpy as np
from sklearn.utils import check_random_state

from dpnotes.mechanisms import stream
from dpnotes.methods._budget import InferenceBudget


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


@dataclass(frozen=True)
class Randomness:
    """Where a fit takes its randomness from.

    Attributes
    ----------
    learning : int
        Seed of what no guarantee needs to be secret or random.
    noise : int or None
        Seed of the privacy noise; None: the operating system, afresh each time.
    """

    learning: int
    noise: int | None

    @classmethod
    def of(cls, noise_seed: int | None, random_state: int | np.random.RandomState | None) -> Randomness:
        """``noise_seed`` decides everything that ``random_state`` does not."""
        if noise_seed is None:
            return cls(secret_seed(random_state), None)
        noise = secret_seed(noise_seed)
        return cls(noise if random_state is None else secret_seed(random_state), noise)

    def generator(self, index: int) -> np.random.Generator | None:
        """Generator number ``index`` of the noise; None for the operating system's."""
        return None if self.noise is None else stream(self.noise, index)


class Answering:
    """A budget of answers, each with noise of its own; frozen at fit.

    The noise is the operating system's, fresh for each answer, in each copy. With a noise seed, the generator of an
    answer is decided by the seed and the number of answers released before, so that a resumed copy repeats none.

    Parameters
    ----------
    budget : InferenceBudget
    seed : int or None
    """

    def __init__(self, budget: InferenceBudget, seed: int | None) -> None:
        self._budget, self._seed = budget, seed

    @property
    def budget(self) -> InferenceBudget:
        """Answers released and left."""
        return self._budget

    def take(self, count: int) -> np.random.Generator | None:
        """Spend ``count`` answers, all or none; the generator of their noise.

        Raises
        ------
        BudgetExhausted
            If fewer are left; then none is spent, and no noise is given out.
        """
        released = self._budget.spend(count)
        return None if self._seed is None else stream(self._seed, released)
