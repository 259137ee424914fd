"""Tables on which methods are compared: a public table, split again and again, or
synthetic tables of a given shape.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.stats.qmc import Halton
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline

from dpnotes._validation import Features, Integers
from dpnotes.preprocessing import (
    ClipNorm,
    PublicOneHot,
    PublicScaler,
    places,
    told_unread,
)

Bounds = tuple[Any, Any] | Mapping[Any, Sequence[Any]]
TEST = 0.25  # fraction of the records that methods are tested on
# of synthetic tables: distance of two classes, in standard deviations of a factor
MARGINS = (1.5, 8.0)
# fractions of columns that tell only whether something is there
CODED = (0.0, 0.5, 1.0)
OFTEN = (0.02, 0.5)  # how often it is
GROUPS = (1, 1, 1, 3)  # of which a class consists
# share of the records that is the same for all classes, where frequencies are drawn
RAREST = 0.1
FACTORS = 10  # independent directions in which synthetic rows vary, besides noise
DECLARE = (
    "declare public facts: bounds=(low, high), each of them one number or one number"
    " per column; for a data frame, bounds={column: (low, high) or [categories]}"
)
NO_NUMBERS = "no numbers"


class Split(NamedTuple):
    """Records to fit on and to test on, with features in [-1, 1] and labels as
    codes.
    """

    X: Features
    codes: Integers
    X_test: Features
    codes_test: Integers

    def thinned(self, rows: int | None) -> Split:
        """Return a split with all test records, and with at most ``rows`` evenly
        spaced records to fit on.
        """
        if rows is None or rows >= len(self.X):
            return self
        kept = np.linspace(0, len(self.X) - 1, rows).astype(np.int64)
        return self._replace(X=self.X[kept], codes=self.codes[kept])


@dataclass(frozen=True, eq=False)
class Preparation:
    """Preparation of each row separately, before any method, by public facts about the
    columns.

    Parameters
    ----------
    box : transformer
        Unfitted transformer that maps numbers from their bounds to [-1, 1], and
        categories to indicators.
    d : int
        Number of features after the preparation.
    """

    box: Any
    d: int

    def before(self, estimator: Any, *, ball: bool) -> Any:
        """Return an unfitted pipeline of the preparation and an estimator."""
        steps = [clone(self.box), *([ClipNorm()] if ball else []), estimator]
        return make_pipeline(*steps)

    def unread(self, table: Any) -> list[str]:
        """Count the values of a public table that are missing or not as declared, in
        a sentence if there are any.
        """
        box = clone(self.box).fit(table)
        steps = [
            (step, table[on]) for _, step, on in getattr(box, "transformers_", ())
        ] or [(box, table)]
        names = [name for _, part in steps for name, _ in _dtypes(part)]
        return told_unread(
            names, np.concatenate([step.unread(part) for step, part in steps]).tolist()
        )


def table_of(X: Any) -> Any:
    """Return X as a table of columns: a data frame as it is, anything else as an array
    [n, d], pictures flattened.

    Raises
    ------
    ValueError
        If X is not a table, or has more columns than rows, two columns of the same
        name, or dates.
    """
    table = X if hasattr(X, "columns") else np.asarray(X)
    if table.ndim > 2:
        table = table.reshape(len(table), -1)
    if table.ndim != 2 or 0 in table.shape:
        raise ValueError(
            f"X must be a dense table of shape [n >= 1, d >= 1], got {type(X).__name__}"
            f" of shape {table.shape}"
        )
    if table.shape[1] > table.shape[0]:
        raise ValueError(
            f"X must have at least as many rows as columns, got shape {table.shape}: is"
            " it transposed? Otherwise leave columns out by a rule that does not look"
            " at the records"
        )
    names = [name for name, _ in _dtypes(table)]
    if twice := sorted({str(name) for name in names if names.count(name) > 1}):
        raise ValueError(
            f"X must have columns of distinct names, got {_list(twice)} twice"
        )
    dates = [name for name, dtype in _dtypes(table) if dtype.kind in "mM"]
    if dates:
        raise ValueError(
            f"X must hold numbers or categories, got dates in {_list(dates)}: give days"
            " since a public date"
        )
    return table


def preparation(table: Any, bounds: Bounds | None, *, public: bool) -> Preparation:
    """Make the preparation of rows; bounds that are not declared are inferred from the
    table only if it is public.

    Raises
    ------
    ValueError
        If bounds of a private table are missing, or bounds do not fit the columns.
    """
    text = _without_numbers(table)
    if isinstance(bounds, Mapping):
        return _by_column(table, bounds)
    if text:
        raise ValueError(
            f"columns {_list(text)} hold {NO_NUMBERS}: bounds must be a mapping;"
            f" {DECLARE}"
        )
    if bounds is None:
        if not public:
            raise ValueError(
                "bounds must be given, because they may not be inferred from private"
                f" records: {DECLARE}"
            )
        bounds = _read_off(table)
    if not isinstance(bounds, tuple) or len(bounds) != 2:
        raise ValueError(
            f"bounds must be a pair or a mapping, got {type(bounds).__name__}:"
            f" {DECLARE}"
        )
    box = PublicScaler(*bounds)
    clone(box).fit(np.zeros((1, table.shape[1])))  # its checks of the bounds
    return Preparation(box, table.shape[1])


def _by_column(table: Any, bounds: Mapping[Any, Sequence[Any]]) -> Preparation:
    if not hasattr(table, "columns"):
        raise ValueError(
            "bounds may be a mapping only if X is a data frame, got X of type"
            f" {type(table).__name__}"
        )
    names = list(table.columns)
    if wrong := [name for name in names if name not in bounds] + [
        name for name in bounds if name not in names
    ]:
        raise ValueError(
            "bounds must name the columns of X and no others, got a difference in"
            f" {_list(wrong)}: {DECLARE}"
        )
    if wrong := [
        name
        for name in names
        if isinstance(bounds[name], str) or not isinstance(bounds[name], Sized)
    ]:
        raise ValueError(
            "bounds must be (low, high) or [categories] for each column, got neither"
            f" for {_list(wrong)}"
        )
    numbers = [name for name in names if _is_pair(bounds[name])]
    if text := [name for name in _without_numbers(table) if name in numbers]:
        raise ValueError(
            f"columns {_list(text)} hold {NO_NUMBERS}, but bounds has (low, high) for"
            " them: declare their categories, bounds={column: [categories]}, or"
            " convert the columns to numbers, such as days since a public date"
        )
    others = [name for name in names if name not in numbers]
    steps: list[tuple[str, Any, list[Any]]] = []
    if numbers:
        low, high = np.array([bounds[name] for name in numbers], dtype=np.float64).T
        steps.append(("numbers", PublicScaler(low.tolist(), high.tolist()), numbers))
    if others:
        steps.append(
            (
                "categories",
                PublicOneHot([list(bounds[name]) for name in others]),
                others,
            )
        )
    for _, step, columns in steps:
        # its checks
        clone(step).fit(pd.DataFrame(np.zeros((1, len(columns))), columns=columns))
    return Preparation(
        ColumnTransformer(steps),
        len(numbers) + sum(len(bounds[name]) for name in others),
    )


def _is_pair(known: Any) -> bool:
    return len(known) == 2 and all(
        isinstance(v, int | float | np.number) and not isinstance(v, bool)
        for v in known
    )


def _read_off(table: Any) -> tuple[list[float], list[float]]:
    numbers = pd.DataFrame(table).apply(pd.to_numeric, errors="coerce")
    values = numbers.to_numpy(np.float64, na_value=np.nan)
    values = np.where(np.isfinite(values), values, np.nan)
    with np.errstate(all="ignore"):
        low = np.fmin.reduce(values, axis=0)
        high = np.fmax.reduce(values, axis=0)
    constant = [
        name
        for (name, _), wide in zip(_dtypes(table), high > low, strict=True)
        if not wide
    ]
    if constant:
        raise ValueError(
            f"columns {_list(constant)} are constant or empty: leave them out, or"
            f" {DECLARE}"
        )
    return low.tolist(), high.tolist()


def _dtypes(table: Any) -> list[tuple[Any, Any]]:
    """Names and dtypes of the columns, of numpy or pandas, whose categories and
    strings are of kind "O".
    """
    if not hasattr(table, "columns"):
        return [(place, table.dtype) for place in range(table.shape[1])]
    return list(table.dtypes.items())


def _without_numbers(table: Any) -> list[Any]:
    """Columns of another type that hold no number at all, which one record seldom
    decides.
    """
    others = [name for name, dtype in _dtypes(table) if dtype.kind not in "biuf"]
    framed = hasattr(table, "columns")
    columns = {
        name: table[name] if framed else pd.Series(table[:, name]) for name in others
    }
    return [
        name
        for name, cells in columns.items()
        if not pd.to_numeric(cells, errors="coerce").notna().any()
    ]


def _list(names: Sequence[Any]) -> str:
    return ", ".join(map(repr, names[:10])) + (
        f" and {len(names) - 10} more" if len(names) > 10 else ""
    )


def codes_of(y: Any, classes: Sequence[Any]) -> Integers:
    """Look up the code of each label separately; a label that is not among the
    classes gets ``len(classes)``.
    """
    # a list, as an array, may be text
    labels = y if isinstance(y, list | tuple) else np.asarray(y).ravel().tolist()
    return places(labels, np.asarray(classes).tolist())


def cut(X: Features, codes: Integers, seed: Sequence[int]) -> Split:
    """Split each class: a random quarter, shuffled, for testing; the rest for fitting.

    The test records are shuffled because some methods answer only the first rows.
    """
    generator = np.random.default_rng(seed)
    order = generator.permutation(len(codes))
    # class by class, shuffled within each
    order = order[np.argsort(codes[order], kind="stable")]
    place = np.arange(len(codes)) - np.searchsorted(codes[order], codes[order])
    test = place < np.floor(TEST * np.bincount(codes)[codes[order]])
    fitted, tested = order[~test], generator.permutation(order[test])
    return Split(X[fitted], codes[fitted], X[tested], codes[tested])


def synthetic(
    n: int,
    d: int,
    n_classes: int,
    seed: int,
    repeat: int = 0,
    *,
    combinations: float = 0.0,
) -> Split:
    """Make a synthetic table of this shape; the tables of a seed form a series, in
    which ``repeat`` is the place.

    A row mixes a few Gaussian factors into all columns, and adds noise and an offset
    for each column. The means of the factors depend on the class or, in a quarter of
    the tables, on one of three groups within the class. The distance between classes is
    log-uniform. In half of the tables the classes are equally frequent; in the others
    their frequencies are random. In a table, no columns, about half of the columns, or
    all columns are binary: they show only whether a number is above a threshold, like
    coded categories and pixels. In some binary columns, the number is seldom above it.
    A scrambled Halton sequence spreads the distances and the kinds of tables evenly
    over a series. Means are then nearer to the truth than with the same number of
    independent tables, but the intervals do not rely on this.

    The fraction ``combinations`` of the tables has independent columns, and the class
    depends on two of them at once. In these tables no single column says anything about
    the class.
    """
    generator = np.random.default_rng([seed, repeat])
    series = Halton(4, seed=np.random.default_rng(seed)).fast_forward(repeat)
    at_margin, at_coded, at_groups, at_frequencies = series.random()[0]
    margin = float(
        np.exp(np.log(MARGINS[0]) + at_margin * np.log(MARGINS[1] / MARGINS[0]))
    )
    frequencies = np.full(n_classes, 1 / n_classes)
    if at_frequencies < 0.5:
        frequencies = RAREST * frequencies + (1 - RAREST) * generator.dirichlet(
            np.ones(n_classes)
        )
    groups, factors = GROUPS[int(at_groups * len(GROUPS))], min(d, FACTORS)
    centres = generator.normal(size=(n_classes, groups, factors))
    codes = generator.choice(n_classes, p=frequencies, size=n + max(200, int(n * TEST)))
    centre = centres[codes, generator.integers(groups, size=len(codes))]
    hidden = margin / np.sqrt(2 * factors) * centre + generator.normal(
        size=(len(codes), factors)
    )
    mixed = hidden @ generator.normal(size=(factors, d)) / np.sqrt(factors)
    mixed += 0.3 * generator.normal(size=mixed.shape)
    X = np.clip(generator.uniform(-0.5, 0.5, d) + 0.25 * mixed, -1, 1)
    for j in np.flatnonzero(generator.random(d) < CODED[int(at_coded * len(CODED))]):
        often = float(np.exp(generator.uniform(*np.log(OFTEN))))
        X[:, j] = np.where(mixed[:, j] > np.quantile(mixed[:, j], 1 - often), 1.0, -1.0)
    if int((repeat + 1) * combinations) > int(repeat * combinations):
        X = generator.uniform(-1, 1, X.shape)
        pair = generator.permutation(d)[:2]
        cells = np.floor((X[:, pair] + 1) / 2 * n_classes * (3 - len(pair)))
        codes = cells.sum(axis=1).astype(np.int64) % n_classes
    return Split(X[:n], codes[:n], X[n:], codes[n:])
