"""What stores hold: reading, adopting and verifying their rows."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pandas as pd

from dpnotes.lab.store._rows import (
    PathLike,
    Row,
    Rows,
    Scalar,
    StoreError,
    frame,
    load,
    locked,
    publish,
    replace_file,
    typed,
)
from dpnotes.lab.store._sweep import (
    Experiment,
    Grid,
    compute,
    experiment_name,
    requests,
)

# By how much a float may differ in any metric, as a fraction of it. Another processor
# or release adds up in another order: some units of the sixteenth digit an operation
# (2.6e-14 at most after 8,400 steps of SGD, where it was measured on rows that are
# right). What a wrong line of code changes is far more than a billionth.
RELATIVE = 1e-9
Tolerance: TypeAlias = Mapping[str, float | Callable[[float], float]]
_REPORT = ("row", "metric", "stored", "recomputed", "difference", "tolerance", "agrees")


def read_store(path: PathLike) -> pd.DataFrame:
    """Read all rows of a store, in the order of its CSV file or of the times at which
    the rows were finished.

    Returns
    -------
    pandas.DataFrame
        Rows, with the same columns as the result of `sweep`.

    Raises
    ------
    FileNotFoundError
        If there is no such store.
    StoreError
        If a file does not have the format of stored rows; the message names the file.
    """
    return frame([*load(path, must_exist=True).values()])


def adopt(
    source: PathLike,
    destination: PathLike,
    *,
    experiment: Experiment | None = None,
    grid: Grid = (),
    replace: bool = False,
) -> tuple[int, int]:
    """Add the finished rows of one store to a published store, either all of them in
    one step or none.

    A row that the destination already has with the same metrics keeps its provenance
    and its place. New rows are appended, in the order of the grid or, without a grid,
    in the order of the source. A row from a later version of its experiment replaces a
    row from an earlier version, never the reverse.

    Parameters
    ----------
    source : path
        A folder, or a CSV file, for example from another branch.
    destination : path
        A CSV file of the same experiment; it need not exist.
    experiment, grid : callable and list of dict, optional
        The experiment, and the grid whose rows are added. The source may also have
        other rows, which are not added.
    replace : bool
        Whether a row of the source replaces the same row of the destination if the
        metrics differ.

    Returns
    -------
    tuple of int
        The number of rows that were written (new or replaced), and the number of rows
        that were already there with the same metrics.

    Raises
    ------
    FileNotFoundError
        If there is no source.
    StoreError
        If a store is damaged, the stores belong to different experiments, or a row has
        other metrics in the source than in the destination and ``replace`` is False.
    OSError
        If the destination cannot be written; it is then unchanged.
    """
    new = load(source, must_exist=True)
    if experiment and grid:
        # in the order of the grid
        asked = [row.key for row in requests(experiment, grid)]
        new = {key: new[key] for key in asked if key in new}
    path = Path(destination)
    with locked(path):
        # under the lock: rows that another process adopts meanwhile are seen
        old = load(path)
        taken, same = _to_take(new, old, source, path, replace)
        if taken:
            publish((old | taken).values(), path)
    return len(taken), same


def _to_take(
    new: Rows, old: Rows, source: PathLike, destination: Path, replace: bool
) -> tuple[Rows, int]:
    """Rows that are to be published, and how many are published with the same metrics;
    see `adopt`.
    """
    names = {row.experiment for row in (*new.values(), *old.values())}
    if len(names) > 1:
        raise StoreError(
            f"{source} and {destination} hold rows of different experiments:"
            f" {', '.join(sorted(names))}"
        )
    taken: Rows = {}
    differing: list[Row] = []
    same = 0
    for key, row in new.items():
        there = old.get(key)
        if there is None or row.version > there.version:
            taken[key] = row
        # the published row keeps its provenance
        elif row.version == there.version and row.compared == there.compared:
            same += 1
        elif row.version == there.version:
            taken[key] = row
            differing.append(row)
    if differing and not replace:
        first = differing[0]
        raise StoreError(
            f"{destination} has other metrics in {len(differing)} of the rows of"
            f" {source}, first in row {first.key} ({dict(first.parameters)}):"
            f" {old[first.key].compared} there, {first.compared} here; replace=True"
            " takes the new"
        )
    return taken, same


def verify(
    experiment: Experiment,
    store: PathLike,
    *,
    sample: Sequence[str],
    tolerance: Tolerance,
    keep: PathLike | None = None,
) -> pd.DataFrame:
    """Compute rows of a store again, and compare them with the stored rows, metric by
    metric.

    Parameters
    ----------
    experiment : callable
        The function whose rows the store holds.
    store : path
    sample : list of str
        The rows to compute, identified by their entries in the column ``row``.
    tolerance : dict of str to float or callable
        For each metric, the largest allowed difference of its numbers, in the unit of
        the metric, or a function that computes this difference from the stored number.
        A float may always differ by a billionth of its value, because sums may be taken
        in another order. Apart from these differences, values must be equal.
    keep : path, optional
        A CSV file to which the newest findings for each row are saved, in the columns
        ``store``, ``row``, ``metrics`` (number of metrics), ``differing`` (names of the
        metrics that differ), ``cpu_seconds``, and the provenance of the new
        computation.

    Returns
    -------
    pandas.DataFrame
        One row for each metric of each recomputed row, with the columns ``row``,
        ``metric``, ``stored``, ``recomputed``, ``difference`` (recomputed - stored, NA
        unless both are numbers), ``tolerance`` and ``agrees`` (bool). If a row has a
        digest in the column ``data``, the digest is compared, too.

    Raises
    ------
    FileNotFoundError
        If there is no store.
    StoreError
        If the store is damaged, belongs to another experiment, or lacks the rows.
    RuntimeError
        As in `sweep`.
    """
    rows = load(store, must_exist=True)
    report: list[dict[str, Scalar]] = []
    for key in sample:
        if key not in rows or rows[key].experiment != experiment_name(experiment):
            raise StoreError(
                f"{os.fspath(store)} has no row {key!r} of"
                f" {experiment_name(experiment)!r}"
            )
        start = time.process_time()
        # for no store, so that nothing is kept but the finding
        new = compute(experiment, Row(rows[key].experiment, rows[key].parameters))
        # by itself; the row's own seconds were in a run of many
        cpu_seconds = round(time.process_time() - start, 3)
        lines = _compare(rows[key], new, tolerance)
        report += lines
        if keep is not None:
            differing = []
            for line in lines:
                if not line["agrees"]:
                    differing.append(str(line["metric"]))
            counts: dict[str, Scalar] = {
                "metrics": len(lines),
                "differing": " ".join(differing),
                "cpu_seconds": cpu_seconds,
            }
            about = {"store": Path(store).stem, "row": key}
            _keep(Path(keep), {**about, **counts, **new.provenance})
    columns = {}
    for name in _REPORT:
        columns[name] = typed([line[name] for line in report])
    return pd.DataFrame(columns)


def _keep(path: Path, found: Mapping[str, Scalar]) -> None:
    """Add a line to the table of verifications, in place of an earlier one of the
    same row.
    """
    table = pd.DataFrame([found]).drop(columns="seconds")
    text = dict.fromkeys(("row", "differing", "commit"), str)
    with locked(path):
        if path.exists():
            table = pd.concat([pd.read_csv(path, dtype=text), table])
        # the newest finding of a row counts
        table = table.drop_duplicates(["store", "row"], keep="last")
        replace_file(path, table.to_csv(index=False, lineterminator="\n").encode())


def _compare(old: Row, new: Row, tolerance: Tolerance) -> list[dict[str, Scalar]]:
    """Lines of the report on one row."""
    lines = []
    for metric in sorted(old.compared.keys() | new.compared.keys()):
        stored = old.compared.get(metric)
        again = new.compared.get(metric)
        # text and truth values are equal or not
        agrees = stored == again
        difference = None
        limit = 0.0
        if type(stored) in (int, float) and type(again) in (int, float):
            a = float(stored)  # type: ignore[arg-type]
            b = float(again)  # type: ignore[arg-type]
            own = tolerance.get(metric, 0.0)
            difference = 0.0 if agrees else b - a
            limit = own(a) if callable(own) else own
            if float in (type(stored), type(again)) and np.isfinite([a, b]).all():
                # of the smaller one, so that nothing is near to 0 but 0
                limit = max(limit, RELATIVE * min(abs(a), abs(b)))
            agrees = agrees or abs(difference) <= limit
        found = (old.key, metric, stored, again, difference, limit, agrees)
        lines.append(dict(zip(_REPORT, found, strict=True)))
    return lines
