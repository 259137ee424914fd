"""Finished rows and where they are kept: each in a small file of its own, or many as the lines of a published CSV file.

A row that was run is ``KEY.json`` in the folder of its experiment. It is written to a temporary name there and put in
place by ``os.replace``: whatever is killed or full, and however many processes write, a row is there whole or not at
all. A published store is one CSV file, for git and for readers: the columns ``row`` and ``experiment``, the parameters,
``seconds``, the metrics, the other provenance. Reading either writes nothing.
"""

import csv
import dataclasses
import io
import json
import math
import os
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

import pandas as pd

from dpnotes.lab.store._values import Scalar, from_text, row_key, to_text

PathLike: TypeAlias = str | os.PathLike[str]
PROVENANCE = (
    *("data", "device", "version", "dpnotes", "commit", "python", "torch", "numpy", "scikit_learn", "machine", "date"),
)
RESERVED = frozenset(("row", "experiment", "seconds", *PROVENANCE))
_DTYPES = {bool: ("bool", "boolean"), int: ("int64", "Int64")}  # without and with missing values

csv.field_size_limit(2**31 - 1)  # a cell may hold all predictions of an ensemble


class StoreError(ValueError):
    """A store that is damaged, foreign or of another experiment; its files are left as they were."""


@dataclass(frozen=True)
class Row:
    """One row: what is asked and, once it is finished, what was found and where the answer comes from."""

    experiment: str
    parameters: Mapping[str, Scalar]
    version: int = 1  # of the experiment
    metrics: Mapping[str, Scalar] = field(default_factory=dict)
    provenance: Mapping[str, Scalar] = field(default_factory=dict)  # seconds, and those of PROVENANCE that are known

    @cached_property
    def key(self) -> str:
        """The row's name in the store."""
        return row_key(self.experiment, self.parameters)

    @property
    def values(self) -> dict[str, Scalar]:
        """Every value by its column; a row that is not finished has no version either."""
        version = {"version": self.version} if self.provenance else {}
        return {
            "row": self.key,
            "experiment": self.experiment,
            **self.parameters,
            **self.metrics,
            **self.provenance,
        } | version

    @property
    def compared(self) -> dict[str, Scalar]:
        """What a second computation should give again: the metrics that are not missing, and the data's digest."""
        found = {**self.metrics, "data": self.provenance.get("data")}
        return {name: value for name, value in found.items() if not _is_missing(value)}


Rows: TypeAlias = dict[str, Row]  # by key


def load(store: PathLike) -> Rows:
    """Read all rows of a folder or a CSV file; there are none where nothing is.

    Raises
    ------
    StoreError
        If a file is not as this module writes it; the message names it.
    """
    path = Path(store)
    if path.is_dir():
        rows = sorted(
            (_of_json(file) for file in path.glob("[!.]*.json")), key=lambda r: (str(r.provenance.get("date")), r.key)
        )
        return {row.key: row for row in rows}
    return _of_csv(path) if path.exists() else {}


def put(row: Row, folder: Path) -> None:
    """Write a row into a folder, in place of an earlier one of the same parameters."""
    replace_file(folder / f"{row.key}.json", json.dumps(dataclasses.asdict(row), indent=1).encode())


def publish(rows: Iterable[Row], path: Path) -> None:
    """Write rows as a CSV file, in place of the one that is there."""
    rows = list(rows)
    names, text = _columns(rows), io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    for row in rows:
        cells = {n: to_text(v) for n, v in row.values.items() if n in row.parameters or not _is_missing(v)}
        cells |= {"row": row.key, "experiment": row.experiment}  # always text
        writer.writerow([cells.get(name, "") for name in names])
    replace_file(path, text.getvalue().encode())


def replace_file(path: Path, content: bytes) -> None:
    """Write a file as a whole or not at all, whatever happens meanwhile.

    Raises
    ------
    OSError
        If it cannot be written (a full disk, say); what was there before is there still.
    """
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        reason = f"cannot write ({error.strerror or error}); nothing there was changed"
        raise OSError(error.errno, reason, str(path)) from error
    finally:
        temporary.unlink(missing_ok=True)


def frame(rows: Sequence[Row], like: Iterable[Row] = ()) -> pd.DataFrame:
    """Table of rows, with the columns of these and of those that it is to be like; what a row lacks is NA there."""
    values = [row.values for row in rows]
    return pd.DataFrame({name: typed([row.get(name) for row in values]) for name in _columns([*like, *rows])})


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


def _columns(rows: Iterable[Row]) -> list[str]:
    rows = list(rows)
    parameters, metrics = _merged(row.parameters for row in rows), _merged(row.metrics for row in rows)
    if both := set(parameters).intersection(metrics):
        raise ValueError(f"{min(both)!r} cannot be both a parameter and a metric of one experiment")
    return ["row", "experiment", *parameters, "seconds", *metrics, *PROVENANCE]


def _merged(orders: Iterable[Iterable[str]]) -> list[str]:
    """All names once; one that is new follows the name that stands before it in its row."""
    names: list[str] = []
    for order in dict.fromkeys(map(tuple, orders)):
        place = 0
        for name in order:
            if name not in names:
                names.insert(place, name)
            place = names.index(name) + 1
    return names


def _of_json(path: Path) -> Row:
    try:
        row = Row(**json.loads(path.read_bytes()))
        if row.key != path.stem or not row.provenance.keys() <= RESERVED or not isinstance(row.metrics, dict):
            raise ValueError("its name is not that of its parameters")
    except (ValueError, TypeError, AttributeError) as error:
        raise StoreError(f"{path} is damaged or no row: {error}; remove it, and its row is computed again") from error
    return row


def _of_csv(path: Path) -> Rows:
    rows: Rows = {}
    line = 1
    try:
        with path.open(newline="", encoding="utf-8") as file:
            header, *lines = csv.reader(file)
        first, last = header.index("seconds"), len(header) - len(PROVENANCE)
        if header[:2] != ["row", "experiment"] or header[last:] != [*PROVENANCE]:
            raise ValueError(f"not the header of a store, which ends with {','.join(PROVENANCE)}")
        for line, cells in enumerate(lines, start=2):  # noqa: B007 - the error tells it
            text = dict(zip(header, cells, strict=True))
            parameters = {name: from_text(text[name]) for name in header[2:first] if text[name]}
            metrics = {name: from_text(text[name]) for name in header[first + 1 : last]}
            provenance = {
                name: from_text(text[name]) for name in ("seconds", *PROVENANCE) if text[name] and name != "version"
            }
            row = Row(text["experiment"], parameters, int(text["version"]), metrics, provenance)
            if row.key != text["row"] or row.key in rows:
                raise ValueError(f"{text['row']!r} is not the row of these parameters, or there twice")
            rows[row.key] = row
    except (ValueError, csv.Error) as error:
        raise StoreError(f"{path}, row {line} of the table: {error}; the file was left as it is") from error
    return rows


def _is_missing(value: Scalar) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))
