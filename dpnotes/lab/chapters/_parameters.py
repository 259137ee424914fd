"""Parameters of chapters: read from the cell of that tag, with what is valid, and checked against what a caller gives.

Each line is ``name = literal  # help``, or ``name = literal  # RULE: help`` with a rule of what is valid::

    one of "quick", "paper"      the values that there are
    >= 1    > 0    <= 4          a bound
    in [1, 10]    in (0, 1)      an interval; a round bracket leaves its end out
    0 or >= 2                    a value with a meaning of its own, or a rule
    each >= 1                    a rule for each entry of a list; whole numbers if its numbers are
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_LINE = re.compile(r"(\w+) = (.+?)(?:  # (.+))?")
_RULE = re.compile(
    r"""(?P<each>each\ )? (?:(?P<own>[^\s:]+)\ or\ )?
    (?:one\ of\ (?P<choices>("[^"]*"|[\d., ]+)+) | (?P<sign>[<>]=?)\ (?P<bound>[^\s:]+)
    | in\ (?P<left>[\[(])(?P<low>[^,]+),\ (?P<high>[^\])]+)(?P<right>[\])]))""",
    re.VERBOSE,
)
_MEANT = re.compile(r"(each|one of)\b|in [\[(]|[<>]|\S+ or (one of\b|in [\[(]|[<>])")  # begins like a rule
_KINDS = {str: "text", int: "a whole number", float: "a number", bool: "True or False", list: "a list"}


@dataclass(frozen=True)
class Rule:
    """What is valid of a parameter.

    Parameters
    ----------
    text : str
        As it stands in the comment.
    each : bool
        Whether it is a rule for the entries of a list.
    choices : tuple
        The valid values; empty: an interval.
    low, high : float
        Ends of the interval.
    open_low, open_high : bool
        Whether these are left out.
    whole : bool
        Whether the entries of a list are whole numbers.
    """

    text: str
    each: bool = False
    choices: tuple[Any, ...] = ()
    own: tuple[Any, ...] = ()
    low: float = -math.inf
    high: float = math.inf
    open_low: bool = False
    open_high: bool = False
    whole: bool = False

    def wrong(self, value: Any) -> list[Any]:
        """The value, or those entries of it, which are not valid."""
        return [entry for entry in (value if self.each else [value]) if not self._allows(entry)]

    def _allows(self, value: Any) -> bool:
        if self.choices:
            return value in self.choices
        if isinstance(value, bool) or not isinstance(value, int if self.each and self.whole else int | float):
            return False
        if value in self.own:
            return True
        above = self.low < value if self.open_low else self.low <= value
        return math.isfinite(value) and above and (value < self.high if self.open_high else value <= self.high)


@dataclass(frozen=True)
class Parameter:
    """One parameter of a chapter.

    Parameters
    ----------
    name : str
    default : object
        A str, int, float, bool or list; a given value must be of its type.
    help : str
        The comment that follows the assignment, without its rule.
    rule : Rule, optional
        What is valid; default: all of its type.
    """

    name: str
    default: Any
    help: str = ""
    rule: Rule | None = None

    @property
    def valid(self) -> str:
        """What is valid, in words."""
        return self.rule.text if self.rule else _KINDS[type(self.default)]


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
        If the cell has anything else in it, a rule cannot be read, or a default breaks its own.

    Examples
    --------
    >>> found = parse('scale = "paper"  # one of "quick", "paper": of the grid', "bagging")["scale"]
    >>> found.help, found.rule.choices
    ('of the grid', ('quick', 'paper'))
    """
    found: dict[str, Parameter] = {}
    for line in filter(str.strip, code.splitlines()):
        try:
            name, default, comment = _LINE.fullmatch(line).groups("")  # type: ignore[union-attr]
            rule, text = _ruled(comment)
            found[name] = Parameter(name, ast.literal_eval(default), text, rule)
        except (AttributeError, ValueError, SyntaxError) as error:
            raise ValueError(
                f"lines of the parameters cell of chapter {chapter!r} must be 'name = literal  # help', or with a rule "
                f"'# RULE: help', got {line!r}"
            ) from error
        check(found, {name: found[name].default}, chapter)
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
        If there is no parameter of a name (the message lists the known ones), or a value breaks its rule.
    TypeError
        If a value is of another type than the default.

    Examples
    --------
    >>> check(parse("sizes = [300, 500]  # each >= 1", "bagging"), {"sizes": "[200, 800]"}, "bagging")
    {'sizes': [200, 800]}
    """
    if unknown := [name for name in given if name not in parameters]:
        known = ", ".join(parameters) or "none"
        raise ValueError(f"unknown parameter {unknown[0]!r} for chapter {chapter!r}; known: {known}")
    checked: dict[str, Any] = {}
    for name, value in given.items():
        default, rule = parameters[name].default, parameters[name].rule
        must = f"parameter {name!r} of chapter {chapter!r} must be"
        try:
            checked[name] = _fitted(value, default)
        except (TypeError, ValueError, SyntaxError):
            raise TypeError(f"{must} {_KINDS[type(default)]}, such as {default!r}, got {value!r}") from None
        if rule and (wrong := rule.wrong(checked[name])):
            within = f"{wrong[0]!r} in {checked[name]!r}" if rule.each else repr(wrong[0])
            words = f"a list, {rule.text}" + ", whole numbers" * rule.whole if rule.each else rule.text
            raise ValueError(f"{must} {words}, got {within}")
    return checked


def _ruled(comment: str) -> tuple[Rule | None, str]:
    """Rule and help of a comment; ValueError if it begins like a rule and is none."""
    found = _RULE.match(comment)
    rest = comment[found.end() :] if found else comment
    if found is None or (rest and not rest.startswith(": ")):
        if _MEANT.match(comment):
            raise ValueError(f"no rule: {comment!r}")
        return None, comment
    part = found.groupdict()
    numbers = {name: part[name] for name in ("bound", "low", "high") if part[name]}
    values = {name: ast.literal_eval(text) for name, text in numbers.items()}
    bound = {}
    if sign := part["sign"]:
        end = "low" if sign[0] == ">" else "high"
        bound = {end: values["bound"], f"open_{end}": len(sign) == 1}
    elif part["left"]:
        bound = {name: values[name] for name in ("low", "high")}
        bound |= {"open_low": part["left"] == "(", "open_high": part["right"] == ")"}
    listed = {name: ast.literal_eval(f"[{part[name]}]") if part[name] else () for name in ("choices", "own")}
    whole = bool(values) and all(isinstance(value, int) for value in values.values())
    each = part["each"] is not None
    rule = Rule(found[0], each, tuple(listed["choices"]), tuple(listed["own"]), whole=each and whole, **bound)
    return rule, rest.removeprefix(": ")


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
