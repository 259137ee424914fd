"""The parameters of a chapter: read from its cell, and checked against what a caller gives."""

from __future__ import annotations

import ast
import contextlib
import io
import tokenize
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_BOOLEANS = {"true": True, "false": False}


@dataclass(frozen=True)
class Parameter:
    """One parameter of a chapter.

    Parameters
    ----------
    name : str
    default : object
        A Python literal; a given value must be of its type.
    help : str
        The comment that follows the assignment.
    """

    name: str
    default: Any
    help: str = ""


def parse(code: str, chapter: str) -> dict[str, Parameter]:
    """Read the code of a ``parameters`` cell: assignments of literals, each with a comment behind it.

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
    try:
        statements = ast.parse(code).body
    except SyntaxError as error:
        raise ValueError(f"the parameters cell of chapter {chapter!r} is not Python: {error}") from error
    comments = dict(_comments(code))
    found = {}
    for statement in statements:
        try:
            name, default = _assignment(statement)
        except ValueError as error:
            raise ValueError(
                f"the parameters cell of chapter {chapter!r} may hold only assignments of literals to names, "
                f"got {ast.unparse(statement)!r}"
            ) from error
        if name in found:
            raise ValueError(f"the parameters cell of chapter {chapter!r} assigns {name!r} twice")
        lines = range(statement.lineno, (statement.end_lineno or statement.lineno) + 1)
        found[name] = Parameter(name, default, " ".join(comments[line] for line in lines if line in comments))
    return found


def check(parameters: Mapping[str, Parameter], given: Mapping[str, object], chapter: str) -> dict[str, Any]:
    """Give the values as a chapter takes them, or say what is wrong with the first that it cannot take.

    Each value has the type of the parameter's default afterwards, elements of a list that of the default's elements. A
    whole number is taken for a float. Text (from a command line) is read as a Python literal unless the default is
    text; ``true`` and ``false`` are read as booleans. A default of None takes any literal or text.

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
            checked[name] = _fitted(_literal(value, default), default)
        except TypeError:
            kind = "a list with elements of the same type" if default and isinstance(default, list) else _kind(default)
            raise TypeError(
                f"parameter {name!r} of chapter {chapter!r} must be {kind}, such as {default!r}, got {value!r}"
            ) from None
    return checked


def _comments(code: str) -> Iterator[tuple[int, str]]:
    """Line number and text of each comment."""
    for token in tokenize.generate_tokens(io.StringIO(code).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string.lstrip("# ").rstrip()


def _assignment(statement: ast.stmt) -> tuple[str, object]:
    """Name and value of ``name = literal`` or ``name: type = literal``; ValueError for anything else."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            return name, ast.literal_eval(value)
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
            return name, ast.literal_eval(value)
    raise ValueError("no assignment of a literal to a name")


def _literal(value: object, default: object) -> object:
    """Value of a text that stands for something else than text; TypeError if it is no literal."""
    if not isinstance(value, str) or isinstance(default, str):
        return value
    if isinstance(default, bool) and value.lower() in _BOOLEANS:
        return _BOOLEANS[value.lower()]
    try:
        return ast.literal_eval(value.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        if default is None:
            return value
        raise TypeError from None


def _fitted(value: object, like: object) -> object:
    """Value in the type of ``like``; TypeError if it is of another."""
    if like is None:
        return value
    if isinstance(like, float) and type(value) is int:
        return float(value)
    if isinstance(like, list) and isinstance(value, list | tuple):
        return [_fitted_element(element, like) if like else element for element in value]
    if type(value) is not type(like):
        raise TypeError
    return value


def _fitted_element(value: object, likes: list[object]) -> object:
    """Element of a list in the type of the first of ``likes`` that takes it; TypeError if none does."""
    for like in likes:
        if like is not None or value is None:  # a None in a list stands for itself, not for anything
            with contextlib.suppress(TypeError):
                return _fitted(value, like)
    raise TypeError


def _kind(default: object) -> str:
    return {"str": "text", "int": "a whole number", "float": "a number", "bool": "True or False"}.get(
        type(default).__name__, f"a {type(default).__name__}"
    )
