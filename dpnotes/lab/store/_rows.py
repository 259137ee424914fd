"""Finished rows and where they are kept: each in a small file of its own, or many as
the lines of a published CSV file.

A row that was run is ``KEY.json`` in the folder of its experiment. It is written to a
temporary name there and put in place by ``os.replace``: whatever is killed or full, and
however many processes write, a row is there whole or not at all. A published store is
one CSV file, for git and for readers: the columns ``row`` and ``experiment``, the
parameters, ``seconds``, the metrics, the other provenance. Reading either writes
nothing.
"""

import csv
import functools
import hashlib
import json
import math
import os
import time
import uuid
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pandas as pd

from dpnotes.lab._places import STATES

Scalar: TypeAlias = str | int | float | bool | None
PathLike: TypeAlias = str | os.PathLike[str]
PROVENANCE = (
    "data",
    "device",
    "version",
    "dpnotes",
    "commit",
    "python",
    "torch",
    "numpy",
    "scikit_learn",
    "machine",
    "date",
)
RESERVED = frozenset(("row", "experiment", "seconds", *PROVENANCE))
TORN = ".*.tmp"  # names that `replace_file` writes under
DAY = 86_400.0  # seconds
_WORDS = {
    "": None,
    "None": None,
    "True": True,
    "False": False,
    "inf": math.inf,
    "-inf": -math.inf,
}
# without and with missing values
_DTYPES = {bool: ("bool", "boolean"), int: ("int64", "Int64"), str: (None, None)}

csv.field_size_limit(2**31 - 1)  # a cell may hold all predictions of an ensemble


class StoreError(ValueError):
    """Error for a store that is damaged or does not hold the expected rows; its
    files are unchanged.
    """


@dataclass(frozen=True)
class Row:
    """One row: what is asked and, once it is finished, what was found and where the
    answer comes from.
    """

    experiment: str
    parameters: Mapping[str, Scalar]
    metrics: Mapping[str, Scalar] = field(default_factory=dict)
    # seconds, and those of PROVENANCE that are known
    provenance: Mapping[str, Scalar] = field(default_factory=dict)

    @cached_property
    def key(self) -> str:
        """Twelve hexadecimal digits that stand for the experiment's name and the
        parameters, in whatever order.

        Numbers of equal value are the same parameter (1 and 1.0, 0.0 and -0.0); True, 1
        and "1" are three.
        """
        same = dict(self.parameters)
        for name, value in same.items():
            # JSON tells 1 from 1.0, a key must not
            if isinstance(value, float) and value.is_integer():
                same[name] = int(value)
        text = json.dumps(
            [self.experiment, same],
            sort_keys=True,
            separators=(",", ":"),
            allow_nan=False,
        )
        # 48 bits: no two of a million rows are expected to share it
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @property
    def version(self) -> int:
        """Version of the experiment that it is of."""
        return int(self.provenance.get("version") or 0)

    @property
    def seconds(self) -> float:
        """What it took to compute."""
        return float(self.provenance.get("seconds") or 0.0)

    @property
    def values(self) -> dict[str, Scalar]:
        """Every value by its column."""
        return {
            "row": self.key,
            "experiment": self.experiment,
            **self.parameters,
            **self.metrics,
            **self.provenance,
        }

    @property
    def compared(self) -> dict[str, Scalar]:
        """Values that a second computation should repeat, namely the metrics that
        are there and the data's digest.
        """
        found = {**self.metrics, "data": self.provenance.get("data")}
        return {name: value for name, value in found.items() if value is not None}


Rows: TypeAlias = dict[str, Row]  # by key


def load(store: PathLike, *, must_exist: bool = False) -> Rows:
    """Read all rows of a folder or a CSV file; a store that does not exist has no rows.

    Raises
    ------
    FileNotFoundError
        If the store does not exist although it must.
    StoreError
        If a file does not have the format of stored rows; the message names the file.
    """
    path = Path(store)
    if must_exist and not path.exists():
        raise FileNotFoundError(f"there is no such store: {path}")
    if not path.is_dir():
        # another process may make the folder at this moment
        return _of_csv(path) if path.is_file() else {}
    rows = [_of_json(file) for file in path.glob("[!.]*.json")]
    # in the order in which they were finished
    rows.sort(key=lambda row: (str(row.provenance["date"]), row.key))
    return {row.key: row for row in rows}


def put(row: Row, folder: Path) -> None:
    """Write a row into a folder, in place of one of the same parameters, unless that
    is of a later version.
    """
    path = folder / f"{row.key}.json"
    # none is there, or none that can be read
    with suppress(FileNotFoundError, StoreError):
        if (there := _of_json(path).version) > row.version:
            warnings.warn(
                f"{path} stays as version {there} made it; this row is of version"
                f" {row.version}",
                stacklevel=2,
            )
            return
    # indented, so that a person can read it
    replace_file(path, json.dumps(asdict(row), indent=1).encode())


def remove_torn(folder: Path) -> None:
    """Remove what writers that were killed have left of files in a folder and in
    those of its states, after a day.
    """
    for torn in (*folder.glob(TORN), *folder.glob(f"*{STATES}/{TORN}")):
        with suppress(OSError):  # another process has removed it, say
            if time.time() - torn.stat().st_mtime > DAY:
                torn.unlink()


def publish(rows: Iterable[Row], path: Path) -> None:
    """Write rows as a CSV file, which replaces an existing file."""
    listed = list(rows)
    lines = []
    for row in listed:
        line = {}
        for name, value in row.values.items():
            # None is a value of a parameter, and a gap of a metric
            if name in row.parameters or value is not None:
                line[name] = to_text(value)
        # these are always text
        line["row"] = row.key
        line["experiment"] = row.experiment
        lines.append(line)
    table = pd.DataFrame(lines, columns=_columns(listed))
    replace_file(path, table.to_csv(index=False, lineterminator="\n").encode())


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Let no other process that asks for this lock change a file within the block, so
    that what is read there can be written back with additions.

    The lock is one of the folder, so it leaves no file behind, and ends with the
    process that holds it. There is none on Windows, where folders have no locks.
    """
    if os.name != "posix":
        yield
        return
    import fcntl

    path.parent.mkdir(parents=True, exist_ok=True)
    # the file itself is replaced, so that its lock would be lost
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def replace_file(path: Path, content: bytes) -> None:
    """Write a file as a whole or not at all, whatever happens meanwhile.

    Raises
    ------
    OSError
        If it cannot be written (a full disk, say); what was there before is there
        still.
    """
    # in the same folder, since a file is moved in one step only within a file system
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # nobody else writes under this name
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            # or a power cut could leave the new name with old content
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise OSError(
            error.errno,
            f"cannot write ({error.strerror}); nothing there was changed",
            str(path),
        ) from error
    finally:
        temporary.unlink(missing_ok=True)


def frame(rows: Sequence[Row], like: Iterable[Row] = ()) -> pd.DataFrame:
    """Table of rows, with the columns of these and of those that it is to be like;
    what a row lacks is NA there.
    """
    values = [row.values for row in rows]
    columns = {}
    for name in _columns([*like, *rows]):
        columns[name] = typed([row.get(name) for row in values])
    return pd.DataFrame(columns)


def typed(column: Sequence[Scalar]) -> pd.Series:
    """Column of the narrowest type: bool, int64, float64 or str; boolean and Int64
    where values are missing.

    A column without any value is float64, one of unlike kinds is object.
    """
    # True is an int for Python, but another kind here
    kinds = {type(value) for value in column if value is not None}
    if kinds <= {int, float} and kinds != {int}:
        return pd.Series(column, dtype="float64")
    # int64 ends there
    large = kinds == {int} and any(
        abs(int(value)) >= 2**63 for value in column if value is not None
    )
    (kind,) = kinds if len(kinds) == 1 and not large else (object,)
    return pd.Series(
        column, dtype=_DTYPES.get(kind, ("object", "object"))[None in column]
    )


def plain(value: object, label: str) -> Scalar:
    """Give ``value`` as a Python scalar; numpy scalars become the Python scalar of the
    same value.

    Raises
    ------
    TypeError
        If the value is not a str, int, float, bool or None; ``label`` names it in the
        message.
    """
    value = value.item() if isinstance(value, np.generic) else value
    if value is None or isinstance(value, bool):
        return value
    for kind in (str, int, float):
        if isinstance(value, kind):  # a subclass (an enumeration) is made plain
            return kind(value)
    raise TypeError(
        f"{label} must be a plain scalar (str, int, float, bool or None), got {value!r}"
    )


def to_text(value: Scalar) -> str:
    """Write a scalar as the text of a cell; `from_text` gives back the same value of
    the same type.

    Text that could be taken for something else ("1", "True", "", a line break) is
    written as a JSON string in double quotes, so that a cell alone says what it holds.
    """
    if isinstance(value, str):
        ambiguous = (
            value[:1] in ("", '"') or value != value.strip() or not value.isprintable()
        )
        return json.dumps(value) if ambiguous or from_text(value) != value else value
    return str(value)


@functools.lru_cache(4096)
def from_text(text: str) -> Scalar:
    """Read the text of a cell; the inverse of `to_text`. An empty cell is None."""
    if text in _WORDS:
        return _WORDS[text]
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return (
        value
        if type(value) is str or (type(value) in (int, float) and str(value) == text)
        else text
    )


def _columns(rows: Sequence[Row]) -> list[str]:
    """All columns; the row with the most parameters tells their order, and rows of a
    table have all of its metrics.
    """
    # stable, so that equals keep their order
    full = sorted(rows, key=lambda row: -len(row.parameters))
    parameters: dict[str, object] = {}
    for row in full:
        parameters.update(row.parameters)
    metrics: dict[str, object] = {}
    for row in rows:
        metrics.update(row.metrics)
    if both := parameters.keys() & metrics.keys():
        raise ValueError(
            f"{min(both)!r} cannot be both a parameter and a metric of one experiment"
        )
    return ["row", "experiment", *parameters, "seconds", *metrics, *PROVENANCE]


def _of_json(path: Path) -> Row:
    try:
        row = Row(**json.loads(path.read_bytes()))
        # a file that was edited is no longer the row of its name
        if row.key != path.stem or not (row.version and row.values["date"]):
            raise ValueError("its name is not that of its parameters")
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise StoreError(
            f"{path} is damaged or no row: {error}; remove it, and its row is computed"
            " again"
        ) from error
    return row


def _of_csv(path: Path) -> Rows:
    rows: Rows = {}
    try:
        with path.open(newline="", encoding="utf-8") as file:
            header, *lines = csv.reader(file)
        first = header.index("seconds")
        last = len(header) - len(PROVENANCE)
        if header[:2] != ["row", "experiment"] or header[last:] != [*PROVENANCE]:
            raise ValueError(
                f"not the header of a store, which ends with {','.join(PROVENANCE)}"
            )
        for cells in lines:
            text = dict(zip(header, cells, strict=True))
            # an empty cell is a parameter that the row does not have
            known = {name: from_text(cell) for name, cell in text.items() if cell}
            parameters = _part(known, header[2:first])
            metrics = {name: known.get(name) for name in header[first + 1 : last]}
            provenance = _part(known, ("seconds", *PROVENANCE))
            row = Row(text["experiment"], parameters, metrics, provenance)
            if row.key != text["row"] or row.key in rows or not row.version:
                raise ValueError(
                    f"{text['row']!r} is not the row of these parameters, or there"
                    " twice"
                )
            rows[row.key] = row
    except (ValueError, csv.Error) as error:
        reason = f"{path}, after {len(rows)} rows: {error}; the file was left as it is"
        raise StoreError(reason) from error
    return rows


def _part(values: Mapping[str, Scalar], names: Iterable[str]) -> dict[str, Scalar]:
    """Those of the values that have these names, in the order of the names."""
    return {name: values[name] for name in names if name in values}
