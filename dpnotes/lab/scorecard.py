"""The outcome of every printed number and figure of the four papers, judged from rows
by the rule of verdicts.

A *cell* is one printed number, or one sentence about a figure without printed numbers.
The cells of a paper are the lines of ``cells_<chapter>.csv`` in
``book/results/published``. Possible causes of differences are the lines of
``causes_<chapter>.csv`` (:func:`cells` describes the columns of both files). Every
comparison is made by :mod:`dpnotes.lab.verdicts`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias, cast

import pandas as pd

from dpnotes.lab._places import paper_file
from dpnotes.lab.store import published_store, read_store
from dpnotes.lab.tables import Column, Table
from dpnotes.lab.verdicts import (
    HOLDS,
    NOBODY,
    REVERSED,
    UNTESTED,
    Borrowed,
    Mean,
    Verdict,
    agrees,
)

Outcome: TypeAlias = Literal["agrees", "explained", "unexplained", "undecided", "gap"]
AGREES: Final = "agrees"
EXPLAINED: Final = "explained"
UNEXPLAINED: Final = "unexplained"
OPEN: Final = "undecided"
GAP: Final = "gap"
ALL: tuple[Outcome, ...] = (AGREES, EXPLAINED, UNEXPLAINED, OPEN, GAP)
COLUMNS = (
    "printed",
    "unit",
    "store",
    "where",
    "at",
    "metric",
    "runs",
    "lender",
    "key",
    "tried",
)
OF_SENTENCES: dict[Verdict, Outcome] = {
    "holds": AGREES,
    "reversed": UNEXPLAINED,
    "not testable here": GAP,
}


@dataclass(frozen=True)
class Cause:
    """A possible cause of a difference, and the runs with this cause.

    Parameters
    ----------
    name : str
        The cause in words, for the page.
    rows : str
        The store of these runs.
    mean : Mean
        The mean of these runs.
    """

    name: str
    rows: str
    mean: Mean


@dataclass(frozen=True)
class Ours:
    """Our result for a cell, computed by code instead of by queries of rows.

    Parameters
    ----------
    answer : Mean, str or None
        Our value for a printed number, or the verdict on a sentence; None if the cell
        was not run.
    error : Mean
        Uncertainty of the printed number: a mean with value 0, whose standard error is
        that of the printed number.
    causes : iterable of Cause
        Possible causes of a difference.
    tried : str
        Other attempts to explain a difference.
    """

    answer: Mean | Verdict | None
    error: Mean = Mean(0.0)  # noqa: RUF009 - is frozen
    causes: Iterable[Cause] = ()
    tried: str = ""


@dataclass(frozen=True)
class Cell:
    """A printed number, or a sentence about a figure, and its outcome.

    Parameters
    ----------
    table : str
        Table or figure of the paper, such as "Table 2a".
    cell : str
        The cell in words.
    outcome : Outcome
        The outcome of the comparison.
    why : str
        For an explained difference, the cause and the store of the runs with this
        cause; for an unexplained difference, the attempts to explain it.
    printed, ours : float
        The two values; NaN for a sentence, or for a cell that was not run.
    """

    table: str
    cell: str
    outcome: Outcome
    why: str = ""
    printed: float = math.nan
    ours: float = math.nan


def number(
    table: str,
    cell: str,
    ours: Mean | None,
    printed: Mean,
    *,
    unit: float,
    causes: Iterable[Cause] = (),
    all_causes: bool = False,
    tried: str = "",
) -> Cell:
    """Judge one printed number.

    Parameters
    ----------
    table, cell : str
        See :class:`Cell`.
    ours : Mean or None
        Our mean; None if the cell was not run.
    printed : Mean
        The printed mean, with the standard deviation of single runs that the paper
        prints or, if it prints none, with the standard deviation of our runs.
    unit : float
        Unit of the last printed digit.
    causes : iterable of Cause
        Possible causes. The first cause whose runs agree with the printed number
        explains a difference; without such runs the difference is unexplained.
    all_causes : bool
        Whether to name all causes that explain a difference, instead of only the first.
    tried : str
        Other attempts to explain a difference.

    Examples
    --------
    >>> number(
    ...     "Table 2a",
    ...     "k = 300",
    ...     Mean.of(0.9, 0.002, 10),
    ...     Mean.of(0.92, 0.002, 1, freedom=9),
    ...     unit=1e-4,
    ... ).outcome
    'unexplained'
    """
    if ours is None:
        return Cell(table, cell, GAP, printed=printed.value)
    found = agrees(ours, printed, unit=unit)
    outcome: Outcome = (
        AGREES if found == HOLDS else OPEN if found != REVERSED else UNEXPLAINED
    )
    if outcome != UNEXPLAINED:
        return Cell(table, cell, outcome, "", printed.value, ours.value)
    tries = list(causes)
    if fitting := [
        cause for cause in tries if agrees(cause.mean, printed, unit=unit) == HOLDS
    ]:
        named = fitting if all_causes else fitting[:1]
        names, stores = (
            dict.fromkeys(getattr(cause, field) for cause in named)
            for field in ("name", "rows")
        )
        return Cell(
            table,
            cell,
            EXPLAINED,
            f"{' or '.join(names)} ({', '.join(stores)})",
            printed.value,
            ours.value,
        )
    why = [
        f"{cause.name}: {cause.mean.value:.4g} ({cause.rows})" for cause in tries
    ] + [tried] * bool(tried)
    return Cell(table, cell, UNEXPLAINED, "; ".join(why), printed.value, ours.value)


def sentence(table: str, cell: str, verdict: Verdict, *, tried: str = "") -> Cell:
    """Judge one sentence about a figure. A reversed sentence is an unexplained
    difference, and a tie is undecided.
    """
    outcome = OF_SENTENCES.get(verdict, OPEN)
    return Cell(table, cell, outcome, tried if outcome == UNEXPLAINED else "")


def cells(
    chapter: str,
    computed: Mapping[str, Ours] | None = None,
    *,
    lenders: Mapping[str, Borrowed] | None = None,
    all_causes: bool = False,
) -> list[Cell]:
    """Judge all cells of a paper by our published rows.

    ``cells_<chapter>.csv`` has a line for each cell, in the order of the paper. It has
    the following columns; a chapter may omit columns that it does not need:

    ``table``, ``cell``
        See :class:`Cell`.
    ``printed``, ``unit``
        The printed number, and the unit of its last digit; empty for a sentence.
    ``store``, ``where``, ``at``, ``metric``
        Our value is the mean of ``metric`` over the published rows of ``store`` that
        two queries select. The query ``where`` selects the setting of the cell, and is
        also applied to the runs of possible causes. The query ``at`` is applied only to
        our own rows. A cell without a store counts as not run.
    ``runs``
        Number of runs behind the printed number. The printed number counts as the mean
        of these runs, with the standard deviation of our runs. If ``runs`` is empty,
        the printed number and our number count as exact.
    ``lender``
        Name of the entry of ``lenders`` that gives the standard deviation for a cell of
        which we have only one run.
    ``key``
        For a result that is not in a store, its key in the mapping ``computed``. If the
        mapping lacks the key, the cell counts as not run.
    ``tried``
        See :func:`number`.

    ``causes_<chapter>.csv`` has the columns ``cells`` (a query for the lines that the
    cause might explain), ``name``, ``store`` and ``where`` (a query that is applied
    together with the query ``where`` of the cell).

    Parameters
    ----------
    chapter : str
        Name of the chapter.
    computed : mapping of str to Ours, optional
        Results that no query of rows can give, by key.
    lenders : mapping of str to Borrowed, optional
        Borrowed standard deviations, by name.
    all_causes : bool
        See :func:`number`.

    Returns
    -------
    list of Cell
        The cells in the order of the file.
    """
    lines = _table(f"cells_{chapter}")
    causes = (
        _table(f"causes_{chapter}")
        if paper_file(f"causes_{chapter}.csv").exists()
        else lines.head(0)
    )
    explain: Any = [
        (cause, set(lines.query(str(cause.cells)).index))
        for cause in causes.itertuples()
    ]

    @functools.cache
    def rows(store: str) -> pd.DataFrame:
        path = published_store(store)
        return read_store(path) if path.exists() else pd.DataFrame()

    def measured(line: Any, store: str, query: str) -> Ours:
        """Mean of the rows that the line's own query and another pick, and the error
        of the printed number.
        """
        queries = [f"({part})" for part in (line.where, query) if part]
        picked = (
            rows(store).query(" and ".join(queries), engine="python")
            if line.metric in rows(store)
            else pd.DataFrame()
        )
        runs = picked.get(line.metric, pd.Series()).dropna().astype(float)
        if runs.empty:
            return Ours(None)
        if not line.runs:
            return Ours(Mean(float(runs.iloc[0])))
        own = (
            Borrowed(float(runs.std()), len(runs) - 1)
            if len(runs) > 1
            else (lenders or {}).get(line.lender, NOBODY)
        )
        error = Mean.of(0.0, own.std, float(line.runs), freedom=own.freedom)
        return Ours(
            Mean.of(float(runs.mean()), own.std, len(runs), freedom=own.freedom), error
        )

    def found(line: Any) -> Ours:
        if line.key or not line.store:
            return (computed or {}).get(line.key, Ours(None))
        tries = [
            (each, measured(line, each.store, each.where))
            for each, own in explain
            if line.Index in own
        ]
        causes = [
            Cause(each.name, each.store, ours.answer)
            for each, ours in tries
            if isinstance(ours.answer, Mean)
        ]
        return replace(measured(line, line.store, line.at), causes=causes)

    def judged(line: Any, ours: Ours) -> Cell:
        tried = ours.tried or line.tried
        if not line.printed:
            return sentence(
                line.table,
                line.cell,
                cast(Verdict, ours.answer or UNTESTED),
                tried=tried,
            )
        answer, printed = (
            cast("Mean | None", ours.answer),
            ours.error + float(line.printed),
        )
        how: Any = {
            "unit": float(line.unit),
            "causes": ours.causes,
            "all_causes": all_causes,
            "tried": tried,
        }
        return number(line.table, line.cell, answer, printed, **how)

    return [judged(line, found(line)) for line in lines.itertuples()]


def _table(name: str) -> pd.DataFrame:
    """A table of text; columns that it lacks are empty."""
    given = pd.read_csv(paper_file(f"{name}.csv"), dtype=str, keep_default_na=False)
    return given.reindex(columns=[*dict.fromkeys([*given, *COLUMNS])], fill_value="")


def scorecard(papers: Mapping[str, Iterable[Cell]]) -> pd.DataFrame:
    """Count the cells of each table and figure.

    Returns
    -------
    DataFrame
        One line for each table or figure, and a last line for all cells. The columns
        are paper, table, and the numbers of cells: cells (all), run, agrees, explained,
        unexplained, undecided and gap.
    """
    frame = listed(papers)
    flags = pd.DataFrame(
        {"cells": 1, "run": frame["outcome"] != GAP}
        | {name: frame["outcome"] == name for name in ALL}
    )
    counts = (
        flags.groupby([frame["paper"], frame["table"]], sort=False).sum().reset_index()
    )
    counts.loc[len(counts)] = ["all", "", *flags.sum()]
    return counts


def listed(papers: Mapping[str, Iterable[Cell]]) -> pd.DataFrame:
    """List all cells in a table, whose columns are the paper and the fields of
    :class:`Cell`.
    """
    lines = [
        {"paper": paper, **vars(cell)}
        for paper, cells in papers.items()
        for cell in cells
    ]
    return pd.DataFrame(lines, columns=["paper", *Cell.__dataclass_fields__])


OUTCOMES = (
    "cells",
    Column(AGREES, "agree"),
    Column(UNEXPLAINED, "differ, unexplained"),
    Column(EXPLAINED, "differ, explained"),
    Column(OPEN, "undecided"),
    "run",
    Column(GAP, "gaps"),
)
COUNTS = Table(
    "Every table and figure of the four papers: the number of its cells (printed"
    " numbers, or sentences about a figure without printed numbers), and how many of"
    " them agree, differ, are undecided, were run, or were not run (gaps).",
    Column("table", text=lambda row: f"{row.paper}, {row.table}"),
    *OUTCOMES,
)
WHY = Table(
    "Cells, {outcome}.",
    "paper",
    "table",
    "cell",
    Column("printed", format="{:.4g}"),
    Column("ours", format="{:.4g}"),
    "why",
)
