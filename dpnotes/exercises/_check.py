"""Exercises by name, and the check of a reader's function for one exercise."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from typing import Any

import numpy as np

Function = Callable[..., Any]

_CHECKS: dict[str, Callable[[Function], None]] = {}


class Wrong(AssertionError):
    """Error that :func:`check` raises for a wrong answer; the message is a hint."""


def exercise(
    name: str,
) -> Callable[[Callable[[Function], None]], Callable[[Function], None]]:
    """Register the check of an exercise: it calls the reader's function and raises
    `Wrong` with a hint.
    """

    def register(function: Callable[[Function], None]) -> Callable[[Function], None]:
        # the page asks for it by the name in the exercise
        _CHECKS[name] = function
        return function

    return register


def expect(condition: Any, hint: str) -> None:
    """Raise `Wrong` with the hint unless the condition holds."""
    if not condition:
        raise Wrong(hint)


def expect_close(
    found: Any, right: Any, hint: str, *, rtol: float = 1e-5, atol: float = 1e-8
) -> None:
    """Raise `Wrong` with the hint unless a result, or each of its numbers, is right up
    to rounding.
    """
    expect(np.allclose(found, right, rtol=rtol, atol=atol), hint)


def expect_unlike(
    found: Any, wrong: Any, hint: str, *, rtol: float = 1e-5, atol: float = 1e-8
) -> None:
    """Raise `Wrong` with the hint if a result is the typical wrong one."""
    expect(not np.allclose(found, wrong, rtol=rtol, atol=atol), hint)


def numbers(
    name: str, right: Sequence[float], wrong: Mapping[str, Sequence[float]]
) -> None:
    """Register the check of an exercise whose answer is one or several numbers.

    Parameters
    ----------
    name : str
    right : sequence of float
        Correct numbers; an answer may be off by 1 %.
    wrong : mapping of str to sequence of float
        Typical wrong answer for each hint; NaN where any number counts.
    """
    exercise(name)(partial(_expect_numbers, right, wrong))


def _expect_numbers(
    right: Sequence[float], wrong: Mapping[str, Sequence[float]], answer: Any
) -> None:
    asked = "one number" if len(right) == 1 else f"{len(right)} numbers in brackets"
    expect(
        not callable(answer),
        f"the exercise asks for {asked}, not for a function: pass what your function"
        " returns",
    )
    expect(answer is not None, f"the exercise asks for {asked}, got None")
    # one number and a list of one are the same answer
    found = np.ravel(np.asarray(answer, dtype=float))
    expect(len(found) == len(right), f"the exercise asks for {asked}, got {len(found)}")
    # a typical mistake has its own hint, before the number is compared
    for hint, values in wrong.items():
        expect(
            not (np.isclose(found, values, rtol=1e-2, atol=0) | np.isnan(values)).all(),
            hint,
        )
    for place, (own, value) in enumerate(zip(found, right, strict=True), start=1):
        size = "small" if own < value else "large"
        expect(
            np.isclose(own, value, rtol=1e-2, atol=0),
            f"number {place} is too {size}; an error of up to 1 % would pass",
        )


def _returning(function: Function) -> Function:
    """Wrap the function so that it raises `Wrong` if it returns nothing."""

    def called(*arguments: Any) -> Any:
        found = function(*arguments)
        expect(
            found is not None,
            "the function returned None: it must end with `return` and its result",
        )
        return found

    return called


def numeric() -> dict[str, tuple[Sequence[float], Mapping[str, Sequence[float]]]]:
    """Give the answers of the exercises that ask for numbers, for a page that checks
    them.

    Returns
    -------
    dict
        By name, the correct numbers and, by its hint, each typical wrong answer; NaN
        where any number counts.

    Examples
    --------
    >>> right, wrong = numeric()["guarantee-4"]
    >>> right[0], len(wrong)
    (2.0, 1)
    """
    return {
        name: check.args
        for name, check in _CHECKS.items()
        if isinstance(check, partial) and check.func is _expect_numbers
    }


def names() -> list[str]:
    """List the exercises that have a check.

    Examples
    --------
    >>> "dp-sgd-6" in names()
    True
    """
    return sorted(_CHECKS)


def check(name: str, answer: Any) -> None:
    """Check your answer to an exercise, and print "passed" if it passes.

    Parameters
    ----------
    name : str
        Name that the exercise states, for example ``"dp-sgd-6"``.
    answer : callable, or one or several numbers
        Your answer. It is a function with the arguments and the result that the
        exercise states, or the numbers that the exercise asks for, in the order of the
        exercise. Each number may be off by up to 1 %.

    Raises
    ------
    ValueError
        If there is no check of that name; the message gives similar names.
    Wrong
        If the answer is not what the exercise asks for; the message is a hint.

    Examples
    --------
    >>> import numpy as np
    >>> def clip_and_add(gradients, clipping_norm, noise):
    ...     norms = np.linalg.norm(gradients, axis=1)
    ...     return (
    ...         np.minimum(1, clipping_norm / np.maximum(norms, 1e-300)) @ gradients
    ...         + noise
    ...     )
    >>> check("dp-sgd-6", clip_and_add)
    dp-sgd-6: passed
    >>> check("guarantee-4", (2.0, 9.85e-6))
    guarantee-4: passed
    """
    if name not in _CHECKS:
        plain = str(name).lower().replace("_", "-")
        close = (
            ", ".join(sorted(get_close_matches(plain, _CHECKS, n=5)))
            or "none (names() lists all)"
        )
        raise ValueError(
            f"no check is named {name!r}, and some exercises have no check; similar"
            f" names: {close}"
        )
    checked = _CHECKS[name]
    if not (callable(answer) or isinstance(checked, partial)):
        # the check's first line has the signature between backquotes
        asked = str(checked.__doc__).split("``")[1]
        hint = "pass the function itself, without calling it"
        raise Wrong(f"the exercise asks for a function {asked}, got {answer!r}: {hint}")
    try:
        # numbers are compared as they are
        checked(_returning(answer) if callable(answer) else answer)
    except Wrong:
        raise
    except Exception as error:
        # a reader's error is a wrong answer, with its own message
        raise Wrong(f"the answer raised {type(error).__name__}: {error}") from error
    print(f"{name}: passed")
