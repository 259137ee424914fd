"""What became of every printed number and figure of the four papers: counted from rows, by the one rule of verdicts.

A *cell* is one printed number, or one sentence about a figure of which no numbers are printed. Each paper's folder
lists its own (``lab/<paper>/cells.py``); nothing is judged here but by :mod:`dpnotes.lab.verdicts`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import pandas as pd

from dpnotes.lab.tables import Column, Table
from dpnotes.lab.verdicts import HOLDS, REVERSED, Mean, Verdict, agrees

Outcome: TypeAlias = Literal["agrees", "explained", "unexplained", "undecided", "gap"]
AGREES: Final = "agrees"
EXPLAINED: Final = "explained"
UNEXPLAINED: Final = "unexplained"
OPEN: Final = "undecided"
GAP: Final = "gap"
ALL: tuple[Outcome, ...] = (AGREES, EXPLAINED, UNEXPLAINED, OPEN, GAP)
OF_SENTENCES: dict[Verdict, Outcome] = {"holds": AGREES, "reversed": UNEXPLAINED, "not testable here": GAP}


@dataclass(frozen=True)
class Cause:
    """A supposed cause of a difference, and the runs that have it.

    Parameters
    ----------
    name : str
        In words, for the page.
    rows : str
        The store of these runs.
    mean : Mean
    """

    name: str
    rows: str
    mean: Mean


@dataclass(frozen=True)
class Cell:
    """A printed number, or a sentence about a figure, and what became of it.

    Parameters
    ----------
    table : str
        Of the paper, as "Table 2a".
    cell : str
        Which one, in words.
    outcome : Outcome
    why : str
        If explained: the cause, and the store of the runs that have it. If unexplained: what has been tried.
    printed, ours : float
        NaN for a sentence, or for a gap.
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
    tried: str = "",
) -> Cell:
    """Judge one printed number.

    Parameters
    ----------
    table, cell : str
        See :class:`Cell`.
    ours : Mean or None
        None if it has not been run.
    printed : Mean
        With the paper's standard deviation of single runs; where it prints none, with that of ours.
    unit : float
        Of the last digit that is printed.
    causes : iterable of Cause
        A difference is explained by the first whose runs agree with the printed number; without such runs it is not.
    tried : str
        What has been tried otherwise to explain a difference.

    Examples
    --------
    >>> number("Table 2a", "k = 300", Mean.of(0.9, 0.002, 10), Mean.of(0.92, 0.002, 1, freedom=9), unit=1e-4).outcome
    'unexplained'
    """
    if ours is None:
        return Cell(table, cell, GAP, printed=printed.value)
    found = agrees(ours, printed, unit=unit)
    outcome: Outcome = AGREES if found == HOLDS else OPEN if found != REVERSED else UNEXPLAINED
    tries = [tried] if tried else []
    for cause in causes if outcome == UNEXPLAINED else ():
        if agrees(cause.mean, printed, unit=unit) == HOLDS:
            outcome, tries = EXPLAINED, [f"{cause.name} ({cause.rows})"]
            break
        tries.insert(len(tries) - bool(tried), f"{cause.name}: {cause.mean.value:.4g} ({cause.rows})")
    why = "; ".join(tries) if outcome in (EXPLAINED, UNEXPLAINED) else ""
    return Cell(table, cell, outcome, why, printed.value, ours.value)


def sentence(table: str, cell: str, verdict: Verdict, *, tried: str = "") -> Cell:
    """Judge one sentence about a figure: what is reversed differs, a tie or what is undecided stays undecided."""
    outcome = OF_SENTENCES.get(verdict, OPEN)
    return Cell(table, cell, outcome, tried if outcome == UNEXPLAINED else "")


def scorecard(papers: Mapping[str, Iterable[Cell]]) -> pd.DataFrame:
    """Count the cells of each table and figure.

    Returns
    -------
    DataFrame
        Columns paper, table, cells, run, agrees, explained, unexplained, undecided, gap; a last line for all.
    """
    frame = listed(papers)
    flags = pd.DataFrame(
        {"cells": 1, "run": frame["outcome"] != GAP} | {name: frame["outcome"] == name for name in ALL}
    )
    counts = flags.groupby([frame["paper"], frame["table"]], sort=False).sum().reset_index()
    counts.loc[len(counts)] = ["all", "", *flags.sum()]
    return counts


def listed(papers: Mapping[str, Iterable[Cell]]) -> pd.DataFrame:
    """All cells: paper, and the fields of :class:`Cell`."""
    lines = [{"paper": paper, **vars(cell)} for paper, cells in papers.items() for cell in cells]
    return pd.DataFrame(lines, columns=["paper", *Cell.__dataclass_fields__])


def noticed(changes: pd.DataFrame) -> pd.DataFrame:
    """Count, page by page, how many changes of rows its assertions, words of verdict and numbers in sentences noticed.

    Parameters
    ----------
    changes : DataFrame
        The rows of ``row_mutants.csv``: chapter, store, change ("shuffled", "reversed": the order; "up", "down": by two
        standard errors), failed, verdicts, glued (how many of each changed), reason.

    Returns
    -------
    DataFrame
        chapter, stores; orders and shifts: how many were tried; of them ``<kind>_checked`` noticed by an assertion or a
        verdict, ``<kind>_told`` by a number in a sentence alone, ``<kind>_missed`` by neither.
    """
    checked = (changes["failed"] > 0) | (changes["verdicts"] > 0)
    told = ~checked & (changes["glued"] > 0)
    flags = {"": checked | ~checked, "_checked": checked, "_told": told, "_missed": ~checked & ~told}
    kinds = {"orders": changes["change"].isin(["shuffled", "reversed"])}
    kinds["shifts"] = ~kinds["orders"]
    columns = {f"{kind}{end}": flag & own for kind, own in kinds.items() for end, flag in flags.items()}
    pages = changes.groupby("chapter", sort=False)["store"].nunique().rename("stores")
    counts = pd.DataFrame(columns).groupby(changes["chapter"], sort=False).sum()
    return pd.concat([pages, counts], axis=1).reset_index()


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
    "Every table and figure of the four papers: how many of its printed numbers, or of the sentences about a figure "
    "without printed numbers, were run, agree, differ or are not there.",
    (Column("table", text=lambda row: f"{row.paper}, {row.table}"), *OUTCOMES),
)
TOTALS = Table("All tables and figures of a paper together.", ("paper", *OUTCOMES))
WHY = Table(
    "Cells, {outcome}.",
    (
        "paper",
        "table",
        "cell",
        Column("printed", format="{:.4g}"),
        Column("ours", format="{:.4g}"),
        "why",
    ),
)
NOTICED = Table(
    "What the pages notice when the rows of one store are changed: their order, or the first method's by two standard "
    "errors. Checked: an assertion fails, or a word of verdict changes; told: a number in a sentence changes.",
    (
        Column("chapter", "page"),
        "stores",
        *(
            Column(f"{kind}{end}", f"{words}{name}")
            for kind, words in (("orders", "orders"), ("shifts", "shifts"))
            for end, name in (("", ""), ("_missed", ": neither"), ("_checked", ": checked"), ("_told", ": told"))
        ),
    ),
)
UNNOTICED = Table(
    "Changed orders that a page does not notice, and why no sentence of it is wrong then.",
    (Column("chapter", "page"), "store", "change", "reason"),
)
