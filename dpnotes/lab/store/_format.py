"""What stands in a store: the finished rows of one experiment as the lines of a CSV file, every one of them checked.

The columns are ``row``, ``experiment``, the parameters, ``seconds``, the metrics, the other provenance and ``check``:
parameters stand before ``seconds``, metrics after it. A row is one line. ``row`` is the digest of what was asked
(experiment and parameters), ``check`` the digest of all else in the line, so that an edited or damaged line is noticed.
"""

import csv
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from dpnotes.lab.store._values import Scalar, digest, from_text, is_missing, row_key, to_text

PROVENANCE = (
    *("data", "device", "version", "commit", "code", "python", "torch", "numpy", "scikit_learn", "machine", "date"),
)
RESERVED = frozenset(("row", "experiment", "seconds", *PROVENANCE, "check"))


class StoreError(ValueError):
    """A store that is damaged, foreign or of another experiment; the file is left as it was."""


@dataclass(frozen=True)
class Row:
    """One row: what is asked and, once it is finished, what was found and where the answer comes from."""

    experiment: str
    parameters: Mapping[str, Scalar]
    metrics: Mapping[str, Scalar] = field(default_factory=dict)
    provenance: Mapping[str, Scalar] = field(default_factory=dict)  # seconds, and those of PROVENANCE that are known

    @cached_property
    def key(self) -> str:
        """The row's name in the store."""
        return row_key(self.experiment, self.parameters)

    @cached_property
    def cells(self) -> dict[str, str]:
        """Text of every cell that is not empty, by column; ``check`` last."""
        cells = {"row": self.key, "experiment": self.experiment}
        cells |= {name: to_text(value) for name, value in self.parameters.items()}
        found = {**self.metrics, **self.provenance}
        cells |= {name: to_text(value) for name, value in found.items() if not is_missing(value)}
        return cells | {"check": digest(cells, 8)}

    @property
    def values(self) -> dict[str, Scalar]:
        """Every value by its column; a row that is not finished has no ``check``."""
        check = {"check": self.cells["check"]} if self.provenance else {}
        known = {**self.parameters, **self.metrics, **self.provenance}
        return {"row": self.key, "experiment": self.experiment, **known, **check}


@dataclass(frozen=True)
class Contents:
    """What a store holds: rows, and which columns are parameters and which are metrics, in the order of the file."""

    rows: Mapping[str, Row] = field(default_factory=dict)  # by key
    parameters: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """All columns of the file, in order."""
        return ("row", "experiment", *self.parameters, "seconds", *self.metrics, *PROVENANCE, "check")

    @property
    def experiment(self) -> str | None:
        """Name of the experiment, None for an empty store."""
        return next((row.experiment for row in self.rows.values()), None)

    def extended(self, parameters: Iterable[str], metrics: Iterable[str] = ()) -> "Contents":
        """The same rows with further columns after those of each kind, where ``parameters`` and ``metrics`` are new.

        Raises
        ------
        ValueError
            If a name would be both a parameter and a metric.
        """
        columns = Contents(
            self.rows,
            tuple(dict.fromkeys((*self.parameters, *parameters))),
            tuple(dict.fromkeys((*self.metrics, *metrics))),
        )
        if both := set(columns.parameters).intersection(columns.metrics):
            raise ValueError(f"{min(both)!r} cannot be both a parameter and a metric of one experiment")
        return columns

    def covering(self, rows: Iterable[Row]) -> "Contents":
        """The same rows with columns for further ones."""
        rows = list(rows)
        return self.extended((n for row in rows for n in row.parameters), (n for row in rows for n in row.metrics))

    def updated(self, rows: Mapping[str, Row]) -> "Contents":
        """These contents with further rows; one whose key is there replaces that row, in its place."""
        return replace(self.covering(rows.values()), rows={**self.rows, **rows})


def render(contents: Contents) -> bytes:
    """Write contents as the bytes of a CSV file; the inverse of `parse`."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(contents.columns)
    writer.writerows([row.cells.get(name, "") for name in contents.columns] for row in contents.rows.values())
    return text.getvalue().encode()


def parse(data: bytes, path: Path) -> Contents:
    """Read the bytes of a store, and check everything; the inverse of `render`.

    Raises
    ------
    StoreError
        With ``path`` and the line number, if anything is not as `render` writes it.
    """
    *lines, rest = data.split(b"\n")
    number = 1
    rows: dict[str, Row] = {}
    try:
        if not data:
            raise ValueError("empty file, not even a header")
        if rest:
            number = len(lines) + 1
            raise ValueError("cut off, the line does not end")
        names = _fields(lines[0])
        empty = _header(names)
        for line in lines[1:]:
            number += 1
            row = _row(_fields(line), names, empty)
            if row.key in rows:
                raise ValueError(f"row {row.key} is there twice")
            if rows and row.experiment != next(iter(rows.values())).experiment:
                raise ValueError(f"a row of {row.experiment!r} among those of another experiment")
            rows[row.key] = row
    except ValueError as error:
        what = "not UTF-8 text" if isinstance(error, UnicodeDecodeError) else error
        place = f"{path}, line {number}"
        raise StoreError(f"{place}: {what}; the file was left as it was, repair it or move it away") from error
    return replace(empty, rows=rows)


def _header(names: list[str]) -> Contents:
    """Contents without rows, whose columns are those of a file; it may be of the time before rows had a ``code``."""
    middle, last = (names.index(name) if name in names else 0 for name in ("seconds", PROVENANCE[0]))
    empty = Contents({}, tuple(names[2:middle]), tuple(names[middle + 1 : last]))
    if names not in ([*empty.columns], [name for name in empty.columns if name != "code"]):
        expected = ",".join(Contents({}, ("<parameters>",), ("<metrics>",)).columns)
        raise ValueError(f"not the header of a store, which is {expected}")
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"column {twice[0]!r} is there twice")
    return empty


def _row(fields: list[str], names: list[str], empty: Contents) -> Row:
    """Row of a line's fields under the columns of a file."""
    if len(fields) != len(names):
        raise ValueError(f"{len(fields)} fields under {len(names)} columns")
    cells = {name: text for name, text in zip(names, fields, strict=True) if text}
    if cells.get("check") != digest({name: text for name, text in cells.items() if name != "check"}, 8):
        raise ValueError(f"row {fields[0]} was changed after it was written (its check does not fit)")
    groups = (empty.parameters, empty.metrics, ("seconds", *PROVENANCE))
    values = ({name: from_text(cells[name]) for name in group if name in cells} for group in groups)
    row = Row(cells.get("experiment", ""), *values)
    if row.cells != cells:
        raise ValueError(f"row {fields[0]} is not the row of its parameters, {row.key}")
    return row


def _fields(line: bytes) -> list[str]:
    try:
        return next(csv.reader([line.decode().removesuffix("\r")], strict=True), [])
    except csv.Error as error:
        raise ValueError(f"not a line of CSV: {error}") from error
