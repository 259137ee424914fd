"""Plain scalars: which ones are taken, how they stand in a cell of a CSV file, and what makes two rows the same one."""

import functools
import hashlib
import json
import re
from collections.abc import Mapping
from typing import TypeAlias

import numpy as np

Scalar: TypeAlias = str | int | float | bool | None

_INTEGER = re.compile(r"-?(0|[1-9][0-9]*)")
_WORDS: dict[str, Scalar] = {"": None, "None": None, "True": True, "False": False}


def plain(value: object, label: str) -> Scalar:
    """Give ``value`` as a Python scalar; numpy scalars become the Python scalar of the same value.

    Raises
    ------
    TypeError
        If the value is not a str, int, float, bool or None; ``label`` names it in the message.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool):
        return value
    for kind in (str, int, float):
        if isinstance(value, kind):  # a subclass (an enumeration) is made plain
            return kind(value)
    raise TypeError(f"{label} must be a plain scalar (str, int, float, bool or None), got {value!r}")


def to_text(value: Scalar) -> str:
    """Write a scalar as the text of a cell; `from_text` gives back the same value of the same type.

    Text that could be taken for something else ("1", "True", "", a line break) is written as a JSON string in double
    quotes, so that a cell alone says what it holds.
    """
    if isinstance(value, str):
        ambiguous = value[:1] in ("", '"') or value != value.strip() or not value.isprintable()
        return json.dumps(value) if ambiguous or from_text(value) != value else value
    return str(value)


@functools.lru_cache(4096)
def from_text(text: str) -> Scalar:
    """Read the text of a cell; the inverse of `to_text`. An empty cell is None."""
    if text in _WORDS:
        return _WORDS[text]
    if text.startswith('"'):
        return str(json.loads(text))
    if _INTEGER.fullmatch(text):
        return int(text)
    try:
        number = float(text)
    except ValueError:
        return text
    return number if repr(number) == text else text


def row_key(experiment: str, parameters: Mapping[str, Scalar]) -> str:
    """Twelve hexadecimal digits that stand for an experiment's name and its parameters, in whatever order.

    Numbers of equal value are the same parameter (1 and 1.0, 0.0 and -0.0); True, 1 and "1" are three.
    """
    values = {n: int(v) if isinstance(v, float) and v.is_integer() else v for n, v in parameters.items()}
    text = json.dumps([experiment, values], sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:12]
