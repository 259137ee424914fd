"""The budget of answers of a private method, and seeds that give no two answers the
same noise.
"""

from __future__ import annotations

import os
import secrets
import threading
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils import check_random_state

from dpnotes._validation import at_least
from dpnotes.mechanisms import stream


class BudgetExhausted(RuntimeError):
    """A call asked for more answers than the guarantee of a private method covers;
    no answer was released.
    """


def _mark_process() -> None:
    global _process
    _process = object()
    # a thread of the parent may have held it
    Shared._resuming = threading.Lock()


_process = object()
# a child may have the process id of its parent, in another namespace
os.register_at_fork(after_in_child=_mark_process)


class Shared:
    """State that all copies of a fitted method share, so that no copy starts with a new
    budget.

    ``copy`` and ``deepcopy`` return the object itself, even if the estimator that holds
    it is copied. Threads share its lock. A pickled copy and a forked process have the
    state but cannot know what the original did later: :meth:`refuse_copies` raises an
    error for them, before anybody waits for a lock. The state is one attribute, which
    is replaced at once, so that a copy is never half-way.
    """

    # one for all: of two threads that resume a copy, the second finds it whole, and
    # keeps the lock and the count
    _resuming: ClassVar = threading.Lock()

    def __init__(self) -> None:
        self._adopt()

    def _adopt(self) -> None:
        """Let this copy, in this process, be the only one whose count is whole."""
        # before the copy is whole, when others may ask for the lock
        self._lock = threading.Lock()
        # where the hook is not called, as by a fork in C, the id tells
        self._home: Any = (_process, os.getpid())

    def _is_whole(self) -> bool:
        return bool(self._home == (_process, os.getpid()))

    def refuse_copies(self) -> None:
        """Raise an error if this copy cannot know what was answered."""
        if not self._is_whole():
            raise BudgetExhausted(self._refusal_of_copies())

    def _refusal_of_copies(self) -> str:
        raise NotImplementedError

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, _: dict[int, Any]) -> Self:
        return self

    def __getstate__(self) -> dict[str, Any]:
        hidden = ("_lock", "_home")
        return {name: value for name, value in vars(self).items() if name not in hidden}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._adopt()
        # at home nowhere: a pickle does not know what was answered since
        vars(self).update(state, _home=None)


class InferenceBudget(Shared):
    """Count the answers that a fitted method releases, and refuse answers that its
    guarantee does not cover.

    A call is all or nothing: if fewer answers are left than it asks for, no answer is
    spent and none may be released. A method spends the answers after it has checked its
    input and before it computes them, so every released answer has been counted. If the
    computation then fails, the answers remain spent.

    All objects that answer from the same fit share the count:

    - Copies made by ``copy`` and ``deepcopy``, of this object or of the estimator that
      holds it, share the count, and so do threads.
    - A pickled copy, and the budget in a forked process, has the count but cannot know
      what the original answers later. It refuses every answer until :meth:`resume`
      declares how many answers were released in all.
    - ``sklearn.base.clone`` gives an unfitted estimator. Another fit, of a clone or of
      the same estimator, starts a new budget with a separate guarantee; on the same
      records the guarantees compose.

    Parameters
    ----------
    answers : int, >= 1
        Number of answers that the guarantee covers.
    guarantee : str
        The guarantee in words, for error messages, for example ``"epsilon=1.0,
        delta=1e-05"``.
    seed : int, >= 0, optional
        Seed of the noise of the answers, for experiments.

    Attributes
    ----------
    answers : int

    Raises
    ------
    ValueError
        If answers is below 1.
    TypeError
        If answers is not an integer.

    Examples
    --------
    >>> budget = InferenceBudget(1000, guarantee="epsilon=1.0")
    >>> budget.spend(995)
    0
    >>> try:
    ...     budget.spend(6)
    ... except BudgetExhausted as refusal:
    ...     print(str(refusal).split(";")[0])
    6 answers were asked for, 5 of 1000 are left at epsilon=1.0
    >>> budget.released, budget.left
    (995, 5)
    """

    def __init__(
        self,
        answers: int,
        *,
        guarantee: str = "the stated guarantee",
        seed: int | None = None,
    ) -> None:
        super().__init__()
        self._seed = seed
        self._answers = at_least("answers", answers, 1)
        self._guarantee = guarantee
        self._released = 0

    @property
    def answers(self) -> int:
        """Number of answers that the guarantee covers."""
        return self._answers

    @property
    def released(self) -> int:
        """Number of answers released so far, as far as this copy knows."""
        return self._released

    @property
    def left(self) -> int:
        """Number of answers that can still be released; 0 for a copy that was not
        resumed.
        """
        # what is left for a copy is known when it is resumed
        return self.answers - self._released if self._is_whole() else 0

    def spend(self, count: int) -> int:
        """If enough answers are left, spend ``count`` of them; otherwise raise an error
        and spend none.

        Parameters
        ----------
        count : int, >= 0
            Number of answers that are about to be released.

        Returns
        -------
        int
            Number of answers released before these. No two calls, from copies or
            threads, receive the same number.

        Raises
        ------
        BudgetExhausted
            If fewer than ``count`` answers are left, or if this is a pickled or forked
            copy that was not resumed. The error does not change the count.
        ValueError
            If count is negative.
        TypeError
            If count is not an integer.
        """
        count = at_least("count", count, 0)
        if count:
            # before the lock, which a thread of the parent may hold for ever in a fork
            self.refuse_copies()
        with self._lock:
            if self._released + count > self.answers:
                raise BudgetExhausted(self._refusal(count))
            self._released += count
            # the number before these: it tells their noise from that of all others
            return self._released - count

    def take(self, count: int) -> np.random.Generator | None:
        """Spend ``count`` answers, and give the generator of their noise; None stands
        for the system's noise.

        The generator follows from the seed and the number of earlier answers, so a
        resumed copy repeats no noise.
        """
        released = self.spend(count)
        return None if self._seed is None else stream(self._seed, released)

    def resume(self, *, released: int) -> None:
        """Let a pickled or forked copy continue to answer; from now on, only this copy
        may answer.

        Parameters
        ----------
        released : int, in [the copy's own count, answers]
            Number of answers released in all, by the original and all of its copies.
            The guarantee rests on this declaration.

        Raises
        ------
        ValueError
            If ``released`` is below the count of this copy, or above ``answers``.
        TypeError
            If released is not an integer.
        """
        released = at_least("released", released, 0)
        with self._resuming:
            if not self._is_whole():
                # another thread of the original may hold the lock
                self._lock = threading.Lock()
            with self._lock:
                if not self._released <= released <= self.answers:
                    raise ValueError(
                        f"released must be in {self._released}..{self.answers}, got"
                        f" released={released}"
                    )
                self._released = released
                self._home = (_process, os.getpid())

    def _refusal_of_copies(self) -> str:
        return (
            f"this is a copy of a budget of {self.answers} answers at"
            f" {self._guarantee}, {self._released} of them released when it was made;"
            " it cannot know what the original answered later: see"
            " resume(released=...)"
        )

    def _refusal(self, count: int) -> str:
        left = self.answers - self._released
        if left == 0:
            return (
                f"{self.answers} of {self.answers} answers released at"
                f" {self._guarantee}; refit with a larger answers= to continue"
                " (released answers cannot be taken back, so the guarantees compose)"
            )
        return (
            f"{count} answers were asked for, {left} of {self.answers} are left at"
            f" {self._guarantee}; ask for at most {left}, or refit with a larger"
            " answers="
        )

    def __repr__(self) -> str:
        return (
            f"InferenceBudget({self.answers}, guarantee={self._guarantee!r}):"
            f" {self._released} released"
        )


def secret_seed(random_state: int | np.random.RandomState | None) -> int:
    """Draw a seed of 128 bits from ``random_state`` or, if that is None, from the
    system (never NumPy's global state).

    Examples
    --------
    >>> secret_seed(0) == secret_seed(0), secret_seed(None) == secret_seed(None)
    (True, False)
    """
    if random_state is None:
        return secrets.randbits(128)
    # 128 bits, as many as a secret seed has: 31 bits could be guessed
    words = check_random_state(random_state).randint(2**32, size=4, dtype=np.uint32)
    return int.from_bytes(words.tobytes(), "little")


def derived_seed(seed: int, index: int) -> int:
    """Derive a seed of 128 bits from generator number ``index`` of another seed, for
    draws that take a seed.
    """
    # 16 bytes: as long as a secret seed
    return int.from_bytes(stream(seed, index).bytes(16), "little")


def short_seeds(
    random_state: int | np.random.RandomState | None, count: int
) -> list[int]:
    """Draw ``count`` seeds: secret seeds of 128 bits for None, otherwise integers
    below 2^31 from ``random_state``.
    """
    if random_state is None:
        return [secret_seed(None) for _ in range(count)]
    return [
        int(seed)
        for seed in check_random_state(random_state).randint(2**31, size=count)
    ]


@dataclass(frozen=True)
class Randomness:
    """Source of the randomness of a fit.

    Attributes
    ----------
    learning : int
        Seed of all random choices that no guarantee rests on.
    noise : int or None
        Seed of the privacy noise; None for fresh noise from the operating system each
        time.
    """

    learning: int
    noise: int | None

    def generator(self, index: int) -> np.random.Generator | None:
        """Generator number ``index`` of the noise; None if the operating system
        gives the noise.
        """
        return None if self.noise is None else stream(self.noise, index)
