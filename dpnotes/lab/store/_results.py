"""What stores hold: reading, comparing, adopting and verifying their rows."""

import errno
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from dpnotes.lab.store._code import code_at
from dpnotes.lab.store._format import RESERVED, Contents, Row, StoreError, render
from dpnotes.lab.store._frame import frame
from dpnotes.lab.store._grid import Parameters, requests
from dpnotes.lab.store._store import PathLike, Store
from dpnotes.lab.store._values import Scalar, is_missing


def read_store(path: PathLike) -> pd.DataFrame:
    """Give all rows of a store, in the order of the file, after checking everything in it.

    Parameters
    ----------
    path : path
        A CSV file that `sweep` wrote.

    Returns
    -------
    pandas.DataFrame
        Columns as `sweep` gives them.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    StoreError
        If a line is not as it was written; the message has file and line number.
    """
    contents = existing(path)
    return frame((row.values for row in contents.rows.values()), contents.columns)


def missing(grid: Sequence[Parameters], store: PathLike) -> list[dict[str, Any]]:
    """Give those parameters of a grid whose row a store lacks, in the order of the grid.

    Parameters
    ----------
    grid : list of dict
        See `sweep`.
    store : path
        A CSV file that `sweep` wrote; all rows are missing when it does not exist.

    Raises
    ------
    StoreError
        If the store is damaged.
    TypeError, ValueError
        If the grid is none, as in `sweep`.
    """
    contents = Store(store).read()
    asked = requests(contents.experiment or "", grid)
    return [dict(given) for given, row in zip(grid, asked, strict=True) if row.key not in contents.rows]


def adopt(
    source: PathLike, destination: PathLike, *, grid: Sequence[Parameters] | None = None, replace: bool = False
) -> tuple[int, int]:
    """Take the finished rows of one store into another, all in one step or none.

    A row that is there already with the same metrics stays as it is, with its provenance.

    Parameters
    ----------
    source, destination : path
        CSV files of the same experiment; the destination need not exist.
    grid : list of dict, optional
        Take the rows of this grid only; the source may have others.
    replace : bool
        Whether rows of the source replace those of the destination that have other metrics.

    Returns
    -------
    tuple of int
        How many rows were written (new or replaced), and how many were there already with the same metrics.

    Raises
    ------
    FileNotFoundError
        If there is no source.
    StoreError
        If a store is damaged, the two are of different experiments, or rows have other metrics and not ``replace``.
    OSError
        If the destination cannot be written; it is then what it was before.
    """
    found = existing(source)
    new = found.rows
    if grid is not None:
        asked = {row.key for row in requests(found.experiment or "", grid)}
        new = {key: row for key, row in new.items() if key in asked}
    target = Store(destination)
    old = target.read().rows
    same = {key for key, row in new.items() if key in old and compared(row) == compared(old[key])}
    differing = [row for key, row in new.items() if key in old and key not in same]
    if differing and not replace:
        row = differing[0]
        there, here = compared(old[row.key]), compared(row)
        raise StoreError(
            f"{target.path} has other metrics in {len(differing)} of the rows of {source}, first in row {row.key} "
            f"({dict(row.parameters)}): {there} there, {here} here; replace=True takes the new"
        )
    taken = {key: row for key, row in new.items() if key not in same}

    def add(before: Contents) -> Contents:  # as a whole: published stores are never appended to
        more = {key: row for key, row in taken.items() if replace or key not in before.rows}
        return before.updated(more) if more else before

    target.change(add, found.experiment)
    return len(taken), len(same)


def merge(base: PathLike, ours: PathLike, theirs: PathLike) -> tuple[int, int]:
    """Merge a store that two branches changed, as git's merge driver: rows of both sides, written to ``ours``.

    A row that one side alone added, computed anew or removed is as that side has it. A row that both sides have with
    the same metrics stays as ours. An empty file is a store without rows.

    Parameters
    ----------
    base, ours, theirs : path
        The file at the common ancestor, here, and on the other branch.

    Returns
    -------
    tuple of int
        How many rows the merged store holds, and how many of them are theirs.

    Raises
    ------
    StoreError
        If a file is damaged, the experiments differ, or both sides changed a row to different metrics or one of them
        removed it; ``ours`` is then what it was before.
    """
    old, here, there = (Contents() if not os.path.getsize(path) else existing(path) for path in (base, ours, theirs))
    if len(names := {contents.experiment for contents in (here, there)} - {None}) > 1:
        raise StoreError(f"rows of different experiments cannot be merged: {sorted(map(str, names))}")
    rows, conflicts = dict(here.rows), []
    for key in dict.fromkeys((*there.rows, *old.rows)):
        before, mine, other = (contents.rows.get(key) for contents in (old, here, there))
        if _check(mine) == _check(before) and other is not None:
            rows[key] = other
        elif _check(mine) == _check(before):
            rows.pop(key, None)
        elif _check(other) != _check(before) and (not (mine and other) or compared(mine) != compared(other)):
            conflicts.append(mine or other)
    if row := next(filter(None, conflicts), None):
        sides = [
            "removed" if not side else str(compared(side)) for side in (c.rows.get(row.key) for c in (here, there))
        ]
        raise StoreError(
            f"both sides changed {len(conflicts)} rows of {row.experiment!r}, first row {row.key} "
            f"({dict(row.parameters)}): {sides[0]} here, {sides[1]} there; keep one side's file (git checkout "
            "--ours or --theirs), then dpnotes results adopt --replace what is right of the other"
        )
    if not names:
        return 0, 0
    columns = here.extended(there.parameters, there.metrics)
    Path(ours).write_bytes(render(replace(columns, rows=rows)))
    return len(rows), sum(row is there.rows.get(key) for key, row in rows.items())


def _check(row: Row | None) -> str | None:
    return row.check if row else None


def rename_columns(store: PathLike, columns: Mapping[str, str]) -> int:
    """Rename parameters or metrics in a store after their names changed in the code, all in one step or none.

    The values stay; the key of each row, which depends on its parameters' names, and its check are computed anew.

    Parameters
    ----------
    store : path
        A CSV file that `sweep` wrote.
    columns : dict of str to str
        New names by old names.

    Returns
    -------
    int
        How many rows the store holds.

    Raises
    ------
    FileNotFoundError
        If there is no store.
    StoreError
        If the store is damaged.
    ValueError
        If there is no column of an old name, or a new name is taken.
    """
    existing(store)

    def renamed(values: Mapping[str, Scalar]) -> dict[str, Scalar]:
        return {columns.get(name, name): value for name, value in values.items()}

    def change(old: Contents) -> Contents:  # checked here, under the lock: another process may have added a column
        known = (*old.parameters, *old.metrics)
        if unknown := sorted(set(columns) - set(known)):
            raise ValueError(f"columns must name parameters or metrics ({', '.join(known)}), got {unknown[0]!r}")
        new = [columns.get(name, name) for name in known]
        if taken := sorted(name for name in new if new.count(name) > 1 or name in RESERVED or not name.isidentifier()):
            raise ValueError(f"columns must give new names that are free Python names, got {taken[0]!r}")
        rows = [
            replace(row, parameters=renamed(row.parameters), metrics=renamed(row.metrics)) for row in old.rows.values()
        ]
        names = (renamed(dict.fromkeys(group)) for group in (old.parameters, old.metrics))
        return Contents({row.key: row for row in rows}).extended(*names)

    return len(Store(store).change(change).rows)


def trace(store: PathLike) -> tuple[int, int]:
    """Fill in the digest ``code`` of rows that lack it, from the sources at the commit that they name.

    It stays empty where the commit is not there, was changed (``+``), or does not have the experiment. Nothing else of
    a row changes but its check.

    Parameters
    ----------
    store : path
        A CSV file that `sweep` wrote.

    Returns
    -------
    tuple of int
        How many rows got a digest, and how many are left without one.

    Raises
    ------
    FileNotFoundError
        If there is no store.
    StoreError
        If the store is damaged.
    """
    before = existing(store)

    def traced(row: Row) -> Row:
        found = row.provenance.get("code") or code_at(str(row.provenance.get("commit")), row.experiment)
        return row if found is None else replace(row, provenance={**row.provenance, "code": found})

    after = Store(store).change(lambda old: replace(old, rows={key: traced(row) for key, row in old.rows.items()}))
    lacking = [sum("code" not in row.provenance for row in contents.rows.values()) for contents in (before, after)]
    return lacking[0] - lacking[1], lacking[1]


def existing(path: PathLike, experiment: str | None = None) -> Contents:
    """Contents of a store that must be there."""
    store = Store(path)
    if not store.path.is_file():
        raise FileNotFoundError(errno.ENOENT, "there is no such store", os.fspath(path))
    return store.read(experiment)


def compared(row: Row) -> dict[str, Scalar]:
    """What a second computation should give again: the metrics that are not missing, and the data's digest."""
    found = {**row.metrics, "data": row.provenance.get("data")}
    return {name: value for name, value in found.items() if not is_missing(value)}
