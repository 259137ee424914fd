"""Rows as a pandas DataFrame, each column of the narrowest type that holds its values."""

from collections.abc import Iterable, Mapping, Sequence

import pandas as pd

from dpnotes.lab.store._values import Scalar

_DTYPES = {bool: ("bool", "boolean"), int: ("int64", "Int64")}  # without and with missing values


def frame(rows: Iterable[Mapping[str, Scalar]], columns: Iterable[str]) -> pd.DataFrame:
    """Table of rows; a column that a row lacks is NA there."""
    rows = list(rows)
    return pd.DataFrame({name: typed([row.get(name) for row in rows]) for name in columns})


def typed(column: Sequence[Scalar]) -> pd.Series:
    """Column of the narrowest type: bool, int64, float64 or str; boolean and Int64 where values are missing.

    A column without any value is float64, one of unlike kinds is object.
    """
    present = [value for value in column if value is not None]
    kinds = {type(value) for value in present}
    dtype: str | None = "object"
    if kinds in ({bool}, {int}):
        dtype = _DTYPES[kinds.pop()][len(present) < len(column)]
    elif kinds <= {int, float}:
        dtype = "float64"
    elif kinds == {str}:
        dtype = None  # str, or object before pandas 3, where dtype="str" would make text of None
    return pd.Series(column, dtype=dtype)
