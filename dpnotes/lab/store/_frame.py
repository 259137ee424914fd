"""Rows as a pandas DataFrame, each column of the narrowest type that holds its values."""

from collections.abc import Iterable, Mapping, Sequence

import pandas as pd

from dpnotes.lab.store._format import Columns, Row
from dpnotes.lab.store._values import Scalar

_INT64 = range(-(2**63), 2**63)


def values(row: Row) -> dict[str, Scalar]:
    """Give every value of a row by its column."""
    return {
        "row": row.key,
        "experiment": row.experiment,
        **row.parameters,
        **row.metrics,
        **row.provenance,
        "check": row.cells["check"],
    }


def frame(rows: Iterable[Mapping[str, Scalar]], columns: Columns) -> pd.DataFrame:
    """Table of rows; a column that a row lacks is NA there."""
    rows = list(rows)
    return pd.DataFrame({name: typed([row.get(name) for row in rows]) for name in columns.names})


def typed(column: Sequence[Scalar]) -> pd.Series:
    """Column of the narrowest type: bool, int64, float64 or str; boolean and Int64 where values are missing.

    A column without any value is float64, one of unlike kinds is object.
    """
    present = [value for value in column if value is not None]
    gaps = len(present) < len(column)
    kinds = {type(value) for value in present}
    if not kinds:
        dtype = "float64"
    elif kinds == {bool}:
        dtype = "boolean" if gaps else "bool"
    elif kinds == {int} and all(value in _INT64 for value in present):
        dtype = "Int64" if gaps else "int64"
    elif kinds == {float} or (kinds == {int, float} and all(_exact(value) for value in present)):
        dtype = "float64"
    elif kinds == {str}:
        dtype = None  # str, or object before pandas 3, where dtype="str" would make text of None
    else:
        dtype = "object"
    return pd.Series(column, dtype=dtype)


def _exact(value: Scalar) -> bool:
    """Tell whether float64 holds the number."""
    return isinstance(value, float) or (isinstance(value, int) and abs(value) <= 2**53)
