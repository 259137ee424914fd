"""What stands in a store: the finished rows of one experiment as the lines of a CSV file, every one of them checked.

The columns are ``row``, ``experiment``, the parameters, ``seconds``, the metrics, the other provenance and ``check``:
parameters stand before ``seconds``, metrics after it. A row is one line. ``row`` is the digest of what was asked
(experiment and parameters), ``check`` the digest of all else in the line, so that an edited or damaged line is noticed.
"""

import csv
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from dpnotes.lab.store._values import Scalar, digest, from_text, is_missing, row_key, to_text

PROVENANCE = (
    "data",
    "device",
    "version",
    "commit",
    "python",
    "torch",
    "numpy",
    "scikit_learn",
    "machine",
    "date",
)
RESERVED = frozenset(("row", "experiment", "seconds", *PROVENANCE, "check"))


class StoreError(ValueError):
    """A store that is damaged, foreign or of another experiment; the file is left as it was."""


@dataclass(frozen=True)
class Row:
    """One finished row: what was asked, what was found, and where the answer comes from."""

    experiment: str
    parameters: Mapping[str, Scalar]
    metrics: Mapping[str, Scalar]
    provenance: Mapping[str, Scalar]  # seconds, and those of PROVENANCE that are known

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
    def results(self) -> dict[str, str]:
        """Text of the metrics that are not empty: what a second computation of the row should give again."""
        return {name: self.cells[name] for name in self.metrics if name in self.cells}


@dataclass(frozen=True)
class Columns:
    """Which columns of a store are parameters and which are metrics, in the order of the file."""

    parameters: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """All columns of the file, in order."""
        return ("row", "experiment", *self.parameters, "seconds", *self.metrics, *PROVENANCE, "check")

    def extended(self, parameters: Iterable[str], metrics: Iterable[str] = ()) -> "Columns":
        """These columns and, after them, the new ones among ``parameters`` and ``metrics``.

        Raises
        ------
        ValueError
            If a name would be both a parameter and a metric.
        """
        columns = Columns(
            tuple(dict.fromkeys((*self.parameters, *parameters))), tuple(dict.fromkeys((*self.metrics, *metrics)))
        )
        if both := set(columns.parameters).intersection(columns.metrics):
            raise ValueError(f"{sorted(both)[0]!r} cannot be both a parameter and a metric of one experiment")
        return columns


@dataclass(frozen=True)
class Contents:
    """What a store holds."""

    rows: Mapping[str, Row] = field(default_factory=dict)  # by key, in the order of the file
    columns: Columns = Columns()

    @property
    def experiment(self) -> str | None:
        """Name of the experiment, None for an empty store."""
        return next((row.experiment for row in self.rows.values()), None)


def render(contents: Contents) -> bytes:
    """Write contents as the bytes of a CSV file; the inverse of `parse`."""
    names = contents.columns.names
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([row.cells.get(name, "") for name in names] for row in contents.rows.values())
    return text.getvalue().encode()


def parse(data: bytes, path: Path) -> Contents:
    """Read the bytes of a store, and check everything; the inverse of `render`.

    Raises
    ------
    StoreError
        With ``path`` and the line number, if anything is not as `render` writes it.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise _damaged(path, data.count(b"\n", 0, error.start) + 1, "not UTF-8 text") from error
    if not text:
        raise _damaged(path, 1, "empty file, not even a header")
    lines = text.replace("\r\n", "\n").split("\n")
    if lines.pop():
        raise _damaged(path, len(lines) + 1, "cut off, the line does not end")
    columns = _parse_header(_fields(lines[0], path, 1), path)
    rows: dict[str, Row] = {}
    for number, line in enumerate(lines[1:], start=2):
        fields = _fields(line, path, number)
        if len(fields) != len(columns.names):
            raise _damaged(path, number, f"{len(fields)} fields under {len(columns.names)} columns")
        row = _parse_row(dict(zip(columns.names, fields, strict=True)), columns, path, number)
        if row.key in rows:
            raise _damaged(path, number, f"row {row.key} is there twice")
        if rows and row.experiment != next(iter(rows.values())).experiment:
            raise _damaged(path, number, f"a row of {row.experiment!r} among those of another experiment")
        rows[row.key] = row
    return Contents(rows, columns)


def _parse_header(names: list[str], path: Path) -> Columns:
    middle = names.index("seconds") if "seconds" in names else 0
    columns = Columns(tuple(names[2:middle]), tuple(names[middle + 1 : -len(PROVENANCE) - 1]))
    if tuple(names) != columns.names:
        expected = ",".join(Columns(("<parameters>",), ("<metrics>",)).names)
        raise _damaged(path, 1, f"not the header of a store, which is {expected}")
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise _damaged(path, 1, f"column {twice!r} is there twice")
    return columns


def _parse_row(cells: dict[str, str], columns: Columns, path: Path, number: int) -> Row:
    full = {name: text for name, text in cells.items() if text}
    if full.pop("check", None) != digest(full, 8):
        raise _damaged(path, number, f"row {cells['row']} was changed after it was written (its check does not fit)")
    try:
        row = Row(
            cells["experiment"],
            {name: from_text(full[name]) for name in columns.parameters if name in full},
            {name: from_text(full[name]) for name in columns.metrics if name in full},
            {name: from_text(full[name]) for name in ("seconds", *PROVENANCE) if name in full},
        )
    except ValueError as error:
        raise _damaged(path, number, str(error)) from error
    if row.cells != full | {"check": cells["check"]}:
        raise _damaged(path, number, f"row {cells['row']} is not the row of its parameters, {row.key}")
    return row


def _fields(line: str, path: Path, number: int) -> list[str]:
    try:
        return next(csv.reader([line], strict=True), [])
    except csv.Error as error:
        raise _damaged(path, number, f"not a line of CSV: {error}") from error


def _damaged(path: Path, line: int, what: str) -> StoreError:
    return StoreError(f"{path}, line {line}: {what}; the file was left as it is, repair it or move it away")
