"""The parameters of a chapter: read from its cell, and checked against what a caller gives."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_LINE = re.compile(r"(\w+) = (.+?)(?:  # (.+))?")
_KINDS = {str: "text", int: "a whole number", float: "a number", bool: "True or False", list: "a list"}


@dataclass(frozen=True)
class Parameter:
    """One parameter of a chapter.

    Parameters
    ----------
    name : str
    default : object
        A str, int, float, bool or list; a given value must be of its type.
    help : str
        The comment that follows the assignment.
    """

    name: str
    default: Any
    help: str = ""


def parse(code: str, chapter: str) -> dict[str, Parameter]:
    """Read the code of a ``parameters`` cell: one assignment of a literal a line, with a comment behind it.

    Parameters
    ----------
    code : str
    chapter : str
        Its name, for errors.

    Raises
    ------
    ValueError
        If the cell has anything else in it.

    Examples
    --------
    >>> parse("scale = 'paper'  # 'quick' or 'paper'", "bagging")
    {'scale': Parameter(name='scale', default='paper', help="'quick' or 'paper'")}
    """
    found: dict[str, Parameter] = {}
    for line in filter(str.strip, code.splitlines()):
        try:
            name, default, text = _LINE.fullmatch(line).groups("")  # type: ignore[union-attr]
            found[name] = Parameter(name, ast.literal_eval(default), text)
        except (AttributeError, ValueError, SyntaxError) as error:
            raise ValueError(
                f"lines of the parameters cell of chapter {chapter!r} must be 'name = literal  # help', got {line!r}"
            ) from error
    return found


def check(parameters: Mapping[str, Parameter], given: Mapping[str, object], chapter: str) -> dict[str, Any]:
    """Give the values as a chapter takes them, or say what is wrong with the first that it cannot take.

    Each value has the type of the parameter's default afterwards. A whole number is taken for a float, a tuple for a
    list. Text (from a command line) is read as a Python literal unless the default is text; ``true`` and ``false`` are
    read as booleans.

    Parameters
    ----------
    parameters : mapping of str to Parameter
        Those of the chapter.
    given : mapping of str to object
    chapter : str
        Its name, for errors.

    Raises
    ------
    ValueError
        If there is no parameter of a name; the message lists the known ones.
    TypeError
        If a value is of another type than the default.

    Examples
    --------
    >>> check(parse("sizes = [300, 500]", "bagging"), {"sizes": "[200, 800]"}, "bagging")
    {'sizes': [200, 800]}
    """
    if unknown := [name for name in given if name not in parameters]:
        known = ", ".join(parameters) or "none"
        raise ValueError(f"unknown parameter {unknown[0]!r} for chapter {chapter!r}; known: {known}")
    checked = {}
    for name, value in given.items():
        default = parameters[name].default
        try:
            checked[name] = _fitted(value, default)
        except (TypeError, ValueError, SyntaxError):
            raise TypeError(
                f"parameter {name!r} of chapter {chapter!r} must be {_KINDS[type(default)]}, such as {default!r}, "
                f"got {value!r}"
            ) from None
    return checked


def _fitted(value: object, default: object) -> object:
    """Value in the type of the default; TypeError or ValueError if it cannot be."""
    if isinstance(value, str) and not isinstance(default, str):
        value = ast.literal_eval(value.strip().capitalize() if isinstance(default, bool) else value.strip())
    if isinstance(default, float) and type(value) is int:
        return float(value)
    if isinstance(default, list) and isinstance(value, tuple):
        return list(value)
    if type(value) is not type(default):
        raise TypeError
    return value
