"""Rows that other rows are made of: computed once, kept in a store of their own,
read by all that need them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpnotes.lab._places import published_store, runs_store
from dpnotes.lab.store import collect, missing, row_under_way, sweep

Grid = list[dict[str, Any]]


def shared_rows(
    name: str,
    function: Callable[..., dict[str, Any]],
    grid: Grid,
    options: dict[str, Any],
) -> pd.DataFrame:
    """Rows of a grid of another experiment, for a row that is made of them.

    Published rows are taken. What they lack is computed: into the store ``name`` beside
    that of the row under way, or outside of a sweep for this call alone. Processes that
    need the same rows at the same time begin at different ones, and take what the
    others have finished.

    Returns
    -------
    DataFrame
        One row for each of ``grid``, in its order, with its parameters and metrics.
    """
    row = row_under_way()
    start = time.perf_counter()
    published = published_store(name)
    todo = missing(function, grid, published)
    how: dict[str, Any] = {"options": options, "n_jobs": 1, "progress": False}
    # outside of a sweep nothing is kept
    with TemporaryDirectory() as nowhere:
        runs = (Path(nowhere) if row is None else row.store.parent) / name
        # processes at the same rows begin at different ones
        for index in np.random.default_rng().permutation(len(todo)):
            # one at a time: what another has finished meanwhile is taken
            sweep(function, [todo[index]], store=runs, **how)
        found = collect(
            function, grid, compute="missing", published=published, runs=runs, **how
        )
    if row is not None:
        row.seconds -= time.perf_counter() - start  # they have their own
    return found


def lacking(name: str, function: Callable[..., dict[str, Any]], grid: Grid) -> Grid:
    """Those rows of a grid that are neither published nor in the runs."""
    for store in (published_store(name), runs_store(name)):
        grid = missing(function, grid, store) if grid else []
    return grid


def origin(data: Any, device: str) -> dict[str, str]:
    """What a row says of where it is from: the digest of its data, and the device.

    Parameters
    ----------
    data
        Anything with a ``digest``.
    device : str
        As it was asked for.
    """
    # PyTorch is not needed for grids and stored rows
    from dpnotes.learners import device_name

    return {"data": data.digest, "device": device_name(device)}


def as_text(codes: NDArray[np.integer]) -> str:
    """Class codes below 26 as letters, one each, so that predictions are a cell of a
    row.

    Examples
    --------
    >>> as_text(np.array([0, 2, 1])), as_codes("acb").tolist()
    ('acb', [0, 2, 1])
    """
    return bytes((codes.ravel() + ord("a")).astype(np.uint8)).decode()


def as_codes(text: str) -> NDArray[np.int64]:
    """Class codes from letters, the inverse of :func:`as_text`."""
    return np.frombuffer(text.encode(), np.uint8).astype(np.int64) - ord("a")
