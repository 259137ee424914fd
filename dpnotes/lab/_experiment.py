"""The class of experiments, and the published numbers that their rows are compared
with.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from dpnotes.lab._places import paper_file
from dpnotes.lab.store import (
    Compute,
    Tolerance as Tolerance,
    collect,
    experiment_name,
    published_store,
    runs_store,
)

Grid = list[dict[str, Any]]


def product(*grids: Grid, **lists: Any) -> Grid:
    """Build the rows of a grid: every combination of rows of other grids and of values,
    the last one varying fastest.

    A parameter takes the values of a list, tuple or range in turn; any other value is
    the same in all rows. It replaces that of a row of the other grids.

    Examples
    --------
    >>> product(dataset="digits", subsample=[50, 100], seed=range(2))[1:3]
    [{'dataset': 'digits', 'subsample': 50, 'seed': 1}, {'dataset': 'digits', 'subsample': 100, 'seed': 0}]
    >>> product([{"k": 1, "n": 2}, {"k": 3}], seed=range(2))[1:3]
    [{'k': 1, 'n': 2, 'seed': 1}, {'k': 3, 'seed': 0}]
    """
    choices = [*grids]
    for name, given in lists.items():
        # text is a sequence, too, but one value
        values = given if isinstance(given, (list, tuple, range)) else [given]
        choices.append([{name: value} for value in values])
    rows: Grid = []
    for parts in itertools.product(*choices):
        row: dict[str, Any] = {}
        for part in parts:
            row |= part
        rows.append(row)
    return rows


def once(rows: Iterable[dict[str, Any]]) -> Grid:
    """Each row once, in the order of the first ones."""
    return list({tuple(sorted(row.items(), key=str)): row for row in rows}.values())


def without(row: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Give a row of a grid without some of its parameters."""
    return {name: value for name, value in row.items() if name not in names}


def _named(parameters: Mapping[str, Any]) -> list[str]:
    """Data sets that the parameters name: the private data set (by default MNIST)
    and, if any, the public data set.
    """
    # rows of a time measurement name none
    named = [parameters.get("dataset", "mnist"), parameters.get("public")]
    # mnist-unscaled is of the files of mnist
    return [str(name).partition("-")[0] for name in named if name]


@dataclass(frozen=True)
class Experiment:
    """One experiment: its function, the store of its rows, and its grids.

    Parameters
    ----------
    name : str
        Name of the store, which begins with the name of the chapter
        (``bagging_table2a``).
    function : callable
        Function ``function(**parameters, **options) -> dict``, which takes plain
        parameters (str, int, float, bool, None) and a seed, and returns a flat dict of
        metrics. Options (such as the device) may change rounding, but never the meaning
        of a row.
    grids : mapping of str to callable
        For each scale (``"quick"``, ``"paper"``) a function that gives the list of
        parameter dicts.
    tolerance : mapping of str to float or callable
        For each metric, the largest allowed difference between the stored value and a
        value recomputed on another machine: a number, or a function of the stored
        value. It is smaller than the differences that distinguish rows; see
        :func:`dpnotes.lab.store.verify`.
    cost : callable
        ``cost(parameters) -> float``: rough time of one row on one CPU core, in
        seconds. Once some rows have been measured, only the ratios between the
        estimated times of rows with different parameters matter: see
        ``dpnotes.lab.backlog``.
    gpu_speedup : float
        Estimated speed-up of a row on a GPU, used until a row of the experiment has
        been measured on a GPU.
    data : callable
        ``data(parameters) -> list of str``: the data sets that a row needs.
    """

    name: str
    function: Callable[..., dict[str, Any]]
    grids: Mapping[str, Callable[[], Grid]]
    tolerance: Tolerance = field(default_factory=dict)
    cost: Callable[[Mapping[str, Any]], float] = lambda parameters: 0.0
    gpu_speedup: float = 1.0
    data: Callable[[Mapping[str, Any]], list[str]] = _named

    @property
    def chapter(self) -> str:
        """Name of the chapter that reads the rows, e.g. ``"bagging"``."""
        return experiment_name(self.function).partition(".")[0]

    def rows(
        self,
        grid: Grid | None = None,
        *,
        compute: Compute = "stored",
        experiment: Callable[..., dict[str, Any]] | None = None,
        **kwargs: Any,
    ) -> pd.DataFrame:
        """Collect rows of the experiment: see :func:`dpnotes.lab.experiments.rows`."""
        return collect(
            experiment or self.function,
            self.grids["paper"]() if grid is None else grid,
            compute=compute,
            published=published_store(self.name),
            runs=runs_store(self.name),
            **kwargs,
        )


def two_stds(count: float) -> float:
    """Tolerance of a count of records that a retrained network may classify
    differently: two standard deviations.
    """
    # of a count whose variance is at most itself
    return 2 * math.sqrt(count)


def paper_table(name: str) -> pd.DataFrame:
    """Published numbers of a paper, from ``book/results/published/<name>.csv``:
    facts to compare with, in tidy form.
    """
    return pd.read_csv(paper_file(f"{name}.csv"))
