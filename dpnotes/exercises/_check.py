"""Exercises by name, and putting a reader's function to the check of one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

Function = Callable[..., Any]

_CHECKS: dict[str, Callable[[Function], None]] = {}


class Wrong(AssertionError):
    """A solution that the check of its exercise refuses; the message is a hint."""


def exercise(name: str) -> Callable[[Callable[[Function], None]], Callable[[Function], None]]:
    """Register the check of an exercise: it calls the reader's function and raises `Wrong` with a hint."""

    def register(function: Callable[[Function], None]) -> Callable[[Function], None]:
        _CHECKS[name] = function
        return function

    return register


def expect(condition: Any, hint: str) -> None:
    """Raise `Wrong` with the hint unless the condition holds."""
    if not condition:
        raise Wrong(hint)


def numbers(name: str, right: Sequence[float], wrong: Mapping[str, Sequence[float]]) -> None:
    """Register the check of an exercise whose answer is one or several numbers.

    Parameters
    ----------
    name : str
    right : sequence of float
        The numbers; an answer may be off by one percent.
    wrong : mapping of str to sequence of float
        Hints by the typical wrong answer that earns them; NaN where any number does.
    """
    exercise(name)(partial(_expect_numbers, right, wrong))


def _expect_numbers(right: Sequence[float], wrong: Mapping[str, Sequence[float]], answer: Any) -> None:
    expect(answer is not None and not callable(answer), "the answer is a number, or several in brackets")
    found = np.ravel(np.asarray(answer, dtype=float))
    expect(len(found) == len(right), f"numbers expected: {len(right)}, numbers given: {len(found)}")
    for hint, values in wrong.items():
        expect(not (np.isclose(found, values, rtol=1e-2, atol=0) | np.isnan(values)).all(), hint)
    for place, (own, value) in enumerate(zip(found, right, strict=True), start=1):
        size = "small" if own < value else "large"
        expect(np.isclose(own, value, rtol=1e-2, atol=0), f"number {place} is too {size}")


def _returning(function: Function) -> Function:
    """The function, refused where it returns nothing."""

    def called(*arguments: Any) -> Any:
        found = function(*arguments)
        expect(found is not None, "it returned None: the function must end with `return` and its result")
        return found

    return called


def names() -> list[str]:
    """Exercises that have a check.

    Examples
    --------
    >>> "dp-sgd-6" in names()
    True
    """
    return sorted(_CHECKS)


def check(name: str, answer: Any) -> None:
    """Put an answer to the check of an exercise; print that it passed.

    Parameters
    ----------
    name : str
        As the exercise says: ``"dp-sgd-6"``.
    answer : callable, or one or several numbers
        As the exercise asks: a function with the arguments and the result that it states, or numbers in its order.

    Raises
    ------
    ValueError
        If there is no such exercise; the message lists the known ones.
    Wrong
        If the answer is not what the exercise asks for; the message is a hint.

    Examples
    --------
    >>> import numpy as np
    >>> def clip_and_add(gradients, clipping_norm, noise):
    ...     norms = np.linalg.norm(gradients, axis=1)
    ...     return np.minimum(1, clipping_norm / np.maximum(norms, 1e-300)) @ gradients + noise
    >>> check("dp-sgd-6", clip_and_add)
    dp-sgd-6: passed
    >>> check("guarantee-4", (2.0, 9.85e-6))
    guarantee-4: passed
    """
    if name not in _CHECKS:
        raise ValueError(f"unknown exercise {name!r}; known: {', '.join(names())}")
    try:
        _CHECKS[name](_returning(answer) if callable(answer) else answer)
    except Wrong:
        raise
    except Exception as error:
        raise Wrong(f"the answer raised {type(error).__name__}: {error}") from error
    print(f"{name}: passed")
