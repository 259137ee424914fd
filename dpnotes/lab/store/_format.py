"""What stands in a store: the finished rows of one experiment as the lines of a CSV file, every one of them checked.

The columns are ``row``, ``experiment``, the parameters, ``seconds``, the metrics, the other provenance and ``check``:
parameters stand before ``seconds``, metrics after it. A row is one line. ``row`` is the digest of what was asked
(experiment and parameters), ``check`` the digest of all else in the line, so that an edited or damaged line is noticed.

A row is checked when it is read, every cell of it. That is done column by column: cells that many rows share are read
once, and 100,000 rows take a tenth of the time that one after the other would.
"""

import contextlib
import csv
import gc
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import compress
from pathlib import Path
from typing import TypeVar

from dpnotes.lab.store._values import (
    Scalar,
    canonical,
    digest,
    digest_of_text,
    from_text,
    is_missing,
    quoted,
    row_key,
    to_text,
)

T = TypeVar("T")

csv.field_size_limit(2**31 - 1)  # a cell may hold all predictions of an ensemble

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

    @cached_property
    def check(self) -> str:
        """Digest of all other cells."""
        return self.cells["check"]

    @property
    def values(self) -> dict[str, Scalar]:
        """Every value by its column; a row that is not finished has no ``check``."""
        check = {"check": self.check} if self.provenance else {}
        known = {**self.parameters, **self.metrics, **self.provenance}
        return {"row": self.key, "experiment": self.experiment, **known, **check}


@dataclass(frozen=True)
class Contents:
    """What a store holds: rows, and which columns are parameters and which are metrics, in the order of the file."""

    rows: Mapping[str, Row] = field(default_factory=dict)  # by key
    parameters: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    names: tuple[str, ...] = ()  # columns of the file that this was read from; older files lack ``code``

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
            self.names,
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
    return _lines([contents.columns]) + render_rows(contents.rows.values(), contents.columns)


def render_rows(rows: Iterable[Row], columns: Sequence[str]) -> bytes:
    """Write rows as lines of a CSV file with these columns."""
    return _lines([row.cells.get(name, "") for name in columns] for row in rows)


def _lines(rows: Iterable[Sequence[str]]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


class _Damage(ValueError):
    """What is wrong with a line, counted from the first of those that are read."""

    def __init__(self, line: int, what: object) -> None:
        super().__init__("not UTF-8 text" if isinstance(what, UnicodeDecodeError) else str(what))
        self.line = line


def parse(data: bytes, path: Path, before: Contents | None = None) -> Contents:
    """Read the bytes of a store, and check everything; the inverse of `render`.

    Parameters
    ----------
    data : bytes
        The whole file; or, with ``before``, what was appended to it since.
    path : Path
        Named in errors.
    before : Contents, optional
        What the file held until then; it is given the further rows.

    Raises
    ------
    StoreError
        With ``path`` and the line number, if anything is not as `render` writes it.
    """
    *lines, rest = data.split(b"\n")
    line = 1 if before is None else 2 + len(before.rows)  # the first of those that are read now
    try:
        if not data:
            raise _Damage(0, "empty file, not even a header")
        if rest:
            raise _Damage(len(lines), "cut off, the line does not end")
        if before is None:
            before, lines, line = _header(lines[0]), lines[1:], 2
        known: dict[str, Row] = {}
        with _no_collection():
            for start in range(0, len(lines), _CHUNK):
                _add(known, lines[start : start + _CHUNK], before)
                line += _CHUNK
    except _Damage as error:
        place = f"{path}, line {line + error.line}"
        raise StoreError(f"{place}: {error}; the file was left as it was, repair it or move it away") from error
    assert isinstance(before.rows, dict)
    before.rows.update(known)
    return before


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """Let the collector of garbage rest, which looks at all rows again and again while they become more."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _header(line: bytes) -> Contents:
    """Contents without rows, whose columns are those of a file; it may be of the time before rows had a ``code``."""
    names = _fields(0, line)
    middle, last = (names.index(name) if name in names else 0 for name in ("seconds", PROVENANCE[0]))
    empty = Contents({}, tuple(names[2:middle]), tuple(names[middle + 1 : last]), tuple(names))
    if names not in ([*empty.columns], [name for name in empty.columns if name != "code"]):
        expected = ",".join(Contents({}, ("<parameters>",), ("<metrics>",)).columns)
        raise _Damage(0, f"not the header of a store, which is {expected}")
    if twice := [name for name in names if names.count(name) > 1]:
        raise _Damage(0, f"column {twice[0]!r} is there twice")
    return empty


def _add(rows: dict[str, Row], lines: list[bytes], before: Contents) -> None:
    """Add the rows of lines; the first line that is damaged in the first way that is looked for is named."""
    names, table = before.names, _table(lines)
    widths = [len(fields) for fields in table]
    _same(widths, [len(names)] * len(table), lambda i: f"{widths[i]} fields under {len(names)} columns")
    columns = dict(zip(names, zip(*table, strict=True), strict=True))
    keys, checks = columns["row"], columns["check"]
    texts = _objects({name: column for name, column in columns.items() if name != "check"}, quoted)
    expected = [digest_of_text(text, 8) for text in texts]
    _same(checks, expected, lambda i: f"row {keys[i]} was changed after it was written (its check does not fit)")
    values = {name: _translated(column, _value) for name, column in columns.items() if name not in _TEXTS}
    experiments = columns["experiment"]
    asked = _objects({name: columns[name] for name in before.parameters}, _canonical) or ["{}"] * len(keys)
    named = _translated(experiments, quoted)
    own = [digest_of_text(f"[{name},{text}]", 12) for name, text in zip(named, asked, strict=True)]
    _same(keys, own, lambda i: f"row {keys[i]} is not the row of its parameters, {own[i]}")
    first = before.experiment or next((row.experiment for row in rows.values()), experiments[0])
    _same(experiments, [first] * len(keys), lambda i: f"a row of {experiments[i]!r} among those of another experiment")
    groups = (before.parameters, before.metrics, ("seconds", *PROVENANCE))
    parts = [_dicts(group, values, len(keys)) for group in groups]
    for index, (key, check, *found) in enumerate(zip(keys, checks, *parts, strict=True)):
        if key in rows or key in before.rows:
            raise _Damage(index, f"row {key} is there twice")
        row = rows[key] = Row(first, *found)
        row.__dict__["key"], row.__dict__["check"] = key, check  # as its cached properties would


_TEXTS = frozenset(("row", "experiment", "check"))  # columns that hold text, whatever it looks like


def _same(found: Sequence[object], expected: Sequence[object], what: Callable[[int], str]) -> None:
    """Say what is wrong with the first line in which two columns differ."""
    if tuple(found) != tuple(expected):
        line = next(i for i, (one, two) in enumerate(zip(found, expected, strict=True)) if one != two)
        raise _Damage(line, what(line))


def _translated(column: Sequence[str], translate: Callable[[str], T]) -> list[T]:
    """A column of cells, each different one translated once."""
    table: dict[str, T] = {}
    for text in dict.fromkeys(column):
        try:
            table[text] = translate(text)
        except ValueError as error:
            raise _Damage(column.index(text), error) from error
    return [table[text] for text in column]


def _objects(columns: Mapping[str, Sequence[str]], value: Callable[[str], str]) -> list[str]:
    """Canonical JSON object of each row's cells that are not empty, as `digest` would write it; [] of no columns."""

    def member(name: str) -> Callable[[str], str]:
        begin = quoted(name)
        return lambda text: f"{begin}:{value(text)}," if text else ""

    members = [_translated(columns[name], member(name)) for name in sorted(columns)]
    return ["{" + "".join(parts)[:-1] + "}" for parts in zip(*members, strict=True)]


def _dicts(names: Sequence[str], values: Mapping[str, list[object]], count: int) -> list[dict[str, Scalar]]:
    """For each row the values of some columns, without those that are empty."""
    known = [name for name in names if name in values]
    if not known:
        return [{} for _ in range(count)]
    rows = zip(*(values[name] for name in known), strict=True)
    if any(_EMPTY in values[name] for name in known):
        return [dict(compress(zip(known, row, strict=True), [v is not _EMPTY for v in row])) for row in rows]
    return [dict(zip(known, row, strict=True)) for row in rows]


_EMPTY = object()  # value of an empty cell
_CHUNK = 1000  # lines that are read together: they fit into the processor's cache


def _value(text: str) -> object:
    """Value of a cell, which stands there as `to_text` writes it."""
    if not text:
        return _EMPTY
    value = from_text(text)
    if value != value:
        raise ValueError("not a number (nan), which is an empty cell where it is a metric and is no parameter")
    if to_text(value) != text:
        raise ValueError(f"{text} stands for {value!r}, which is written as {to_text(value)}")
    return value


def _canonical(text: str) -> str:
    return canonical(from_text(text))


def _table(lines: Sequence[bytes]) -> list[list[str]]:
    """Fields of lines; a line that a quote joins to the next is found by reading each by itself."""
    try:
        table = list(csv.reader([line.decode().removesuffix("\r") for line in lines], strict=True))
    except (ValueError, csv.Error):
        table = []
    return table if len(table) == len(lines) else [_fields(index, line) for index, line in enumerate(lines)]


def _fields(index: int, line: bytes) -> list[str]:
    try:
        return next(csv.reader([line.decode().removesuffix("\r")], strict=True), [])
    except UnicodeDecodeError as error:
        raise _Damage(index, error) from error
    except csv.Error as error:
        raise _Damage(index, f"not a line of CSV: {error}") from error
