"""Exercises by name, and the check of a reader's function for one exercise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Function = Callable[..., Any]

_CHECKS: dict[str, Callable[[Function], None]] = {}


class Wrong(AssertionError):
    """Error for a solution that fails the check of its exercise; the message is a hint."""


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


def names() -> list[str]:
    """List the exercises that have a check.

    Examples
    --------
    >>> "dp-sgd-6" in names()
    True
    """
    return sorted(_CHECKS)


def check(name: str, function: Function) -> None:
    """Check your function for an exercise, and print "passed" if it passes.

    Parameters
    ----------
    name : str
        Name of the check that the exercise states, for example ``"dp-sgd-6"``.
    function : callable
        Your function, with the arguments and the result that the exercise states.

    Raises
    ------
    ValueError
        If there is no such exercise; the message lists the known names.
    Wrong
        If the function does not do what the exercise asks; the message is a hint.

    Examples
    --------
    >>> import numpy as np
    >>> def clip_and_add(gradients, clipping_norm, noise):
    ...     norms = np.linalg.norm(gradients, axis=1)
    ...     return np.minimum(1, clipping_norm / np.maximum(norms, 1e-300)) @ gradients + noise
    >>> check("dp-sgd-6", clip_and_add)
    dp-sgd-6: passed
    """
    if name not in _CHECKS:
        raise ValueError(f"unknown exercise {name!r}; known: {', '.join(names())}")
    try:
        _CHECKS[name](function)
    except Wrong:
        raise
    except Exception as error:
        raise Wrong(f"the function raised {type(error).__name__}: {error}") from error
    print(f"{name}: passed")
