"""What is asked: the rows of a grid, checked before anything is run."""

from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any, TypeAlias

from dpnotes.lab.store._format import RESERVED, Row
from dpnotes.lab.store._values import Scalar, plain

Experiment: TypeAlias = Callable[..., Mapping[str, Any]]
Parameters: TypeAlias = Mapping[str, Any]


def experiment_name(experiment: Experiment) -> str:
    """Name of an experiment in its store: the one given by :func:`dpnotes.lab.experiment`, else ``module.function``.

    Raises
    ------
    TypeError
        If it is not a function with a name of its own; two lambdas would share their rows.
    """
    if given := getattr(experiment, "experiment_name", None):
        return str(given)
    name = getattr(experiment, "__name__", None)
    if not callable(experiment) or name in (None, "<lambda>"):
        raise TypeError(f"experiment must be a function defined by def, whose name its rows carry, got {experiment!r}")
    return f"{experiment.__module__.rpartition('.')[2]}.{name}"


def requests(experiment: str, grid: Sequence[Parameters], options: Mapping[str, Any] | None = None) -> list[Row]:
    """Turn a grid into the rows to be, in the order of the grid.

    Rows may differ in their parameters (a method with a clipping norm beside one without).

    Raises
    ------
    TypeError
        If the value of a parameter is no plain scalar.
    ValueError
        If the grid is empty or has a row twice, a number is not finite, or a name is taken.
    """
    if not grid:
        raise ValueError("grid must have at least one row, got an empty list")
    rows: dict[str, Row] = {}
    for index, parameters in enumerate(grid):
        label = f"grid[{index}]"
        row = Row(experiment, {name: _parameter(label, name, value) for name, value in parameters.items()})
        if taken := sorted(set(row.parameters).intersection(options or {})):
            raise ValueError(f"{label}: {taken[0]!r} is a parameter and an option as well; give it once")
        if row.key in rows:
            raise ValueError(f"{label} is the same row as grid[{[*rows].index(row.key)}]: {dict(row.parameters)}")
        rows[row.key] = row
    return list(rows.values())


def _parameter(label: str, name: str, value: object) -> Scalar:
    scalar = checked(label, name, value)
    if isinstance(scalar, float) and not abs(scalar) < float("inf"):
        raise ValueError(f"{label}: {name!r} must be finite, got {scalar!r}")
    return scalar


def checked(label: str, name: str, value: object, taken: Container[str] = RESERVED) -> Scalar:
    """Give the value of a parameter or metric as a plain scalar.

    Raises
    ------
    ValueError
        If its name is no Python name, or among those that are ``taken``.
    TypeError
        If the value is no scalar.
    """
    if not name.isidentifier() or name in taken:
        raise ValueError(f"{label}: {name!r} must be a Python name that no other column of the store has")
    return plain(value, f"{label}: {name!r}")
