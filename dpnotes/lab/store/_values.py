"""Plain scalars: which ones are taken, how they stand in a CSV cell, and what makes two parameter sets the same row."""

import hashlib
import json
import math
import re
from collections.abc import Mapping
from typing import TypeAlias

import numpy as np

Scalar: TypeAlias = str | int | float | bool | None

_INTEGER = re.compile(r"-?(0|[1-9][0-9]*)")
_JSON = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False).encode
quoted = json.encoder.encode_basestring_ascii  # a str as JSON
_WORDS: dict[str, Scalar] = {"None": None, "True": True, "False": False}


def plain(value: object, label: str) -> Scalar:
    """Give ``value`` as a Python scalar; numpy scalars become the Python scalar of the same value.

    Raises
    ------
    TypeError
        If the value is not a str, int, float, bool or None; ``label`` names it in the message.
    ValueError
        If it is a str that is no text: half of a pair of surrogates.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool):
        return value
    for kind in (str, int, float):
        if isinstance(value, kind):  # a subclass (an enumeration) is made plain
            scalar = kind(value)
            if isinstance(scalar, str) and not _is_text(scalar):
                raise ValueError(f"{label} must be text, got half of a pair of surrogates: {scalar!r}")
            return scalar
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


def from_text(text: str) -> Scalar:
    """Read the text of a cell; the inverse of `to_text`. An empty cell is None.

    Raises
    ------
    ValueError
        If the text starts with a double quote, but is no JSON string of text.
    """
    if text == "" or text in _WORDS:
        return _WORDS.get(text)
    if text.startswith('"'):
        value = json.loads(text)
        if not isinstance(value, str):
            raise ValueError(f"not a JSON string: {text}")
        if not _is_text(value):
            raise ValueError(f"half of a pair of surrogates is no text: {text}")
        return value
    if _INTEGER.fullmatch(text):
        return int(text)
    try:
        number = float(text)
    except ValueError:
        return text
    return number if repr(number) == text else text


def _is_text(value: str) -> bool:
    return value.isascii() or not any("\ud800" <= character <= "\udfff" for character in value)


def row_key(experiment: str, parameters: Mapping[str, Scalar]) -> str:
    """Twelve hexadecimal digits that stand for an experiment's name and its parameters, in whatever order.

    Numbers of equal value are the same parameter (1 and 1.0, 0.0 and -0.0); True, 1 and "1" are three.
    """
    members = (f"{quoted(name)}:{canonical(parameters[name])}" for name in sorted(parameters))
    return digest_of_text(f"[{quoted(experiment)},{{{','.join(members)}}}]", 12)


def canonical(value: Scalar) -> str:
    """Write the value of a parameter as JSON, the same for numbers of equal value.

    Raises
    ------
    ValueError
        If it is a number that is not finite.
    """
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{value!r} is no parameter, which must be finite")
        value = int(value) if value.is_integer() else value
    return repr(value) if type(value) in (int, float) else _JSON(value)


def digest(content: object, length: int) -> str:
    """Return the first ``length`` hexadecimal digits of the SHA-256 of the content's canonical JSON."""
    return digest_of_text(_JSON(content), length)


def digest_of_text(text: str, length: int) -> str:
    """Return the first ``length`` hexadecimal digits of the SHA-256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:length]


def is_missing(value: Scalar) -> bool:
    """Tell whether a metric is None or not a number: both are an empty cell."""
    return value is None or (isinstance(value, float) and math.isnan(value))
