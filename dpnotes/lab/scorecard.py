"""The outcome of every printed number and figure of the four papers, judged from rows
by the rule of verdicts.

A *cell* is one printed number, or one sentence about a figure without printed numbers.
The cells of a paper are the lines of ``cells_<chapter>.csv`` in
``book/results/published``. Possible causes of differences are the lines of
``causes_<chapter>.csv`` (:func:`cells` describes the columns of both files). Every
comparison is made by :mod:`dpnotes.lab.verdicts`.

A cause is judged by its *block*: the cells of a table and learner, or what the paper
ran with one setting. It stands for the block if the rows with it agree in nine of ten
cells or more, and in no fewer than our own rows. Then all these cells are judged with
it, also those that agreed without it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import pandas as pd

from dpnotes.lab._places import paper_file
from dpnotes.lab.store import published_store, read_store, replace_file
from dpnotes.lab.tables import NO_BREAK, Column, Table
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

AGREES = "agrees"
EXPLAINED = "explained"
CONTRADICTS = "contradicts itself"
UNEXPLAINED = "unexplained"
OPEN = "undecided"
UNRUN = "not run yet"
PRIVATE = "private data"
WORDS = {  # what one cell does, and what several do
    AGREES: ("agrees", "agree"),
    EXPLAINED: (
        "differs for a reason that runs show",
        "differ for a reason that runs show",
    ),
    CONTRADICTS: (
        "contradicts another number of the same paper",
        "contradict another number of the same paper",
    ),
    UNEXPLAINED: ("differs without an explanation", "differ without an explanation"),
    OPEN: ("is undecided", "are undecided"),
    UNRUN: ("could be run and was not", "could be run and were not"),
    PRIVATE: ("needs private data", "need private data"),
}
ALL = tuple(WORDS)
# outcomes that their words say; to other words the key of a bar adds the outcome
TOLD = (AGREES, OPEN, PRIVATE)
OUTCOMES: dict[Verdict, str] = {
    HOLDS: AGREES,
    REVERSED: UNEXPLAINED,
    UNTESTED: UNRUN,
}
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
    "status",
    "against",
    "tried",
)

Answer: TypeAlias = Mean | Verdict | None


@dataclass(frozen=True)
class Block:
    """How the runs with a possible cause compare with the cells of a block.

    Parameters
    ----------
    cause : str
        The cause in words.
    name : str
        The block in words.
    cells : int
        Number of cells for which there are runs with the cause.
    agree : int
        Number of cells that agree with the runs with the cause.
    own : int
        Number of cells that agree with our own runs.
    """

    cause: str
    name: str
    cells: int
    agree: int
    own: int

    @property
    def stands(self) -> bool:
        """Whether the cause stands for the block.

        It must agree in nine of ten cells (in a block of five to nine cells, in all but
        one), and in no fewer than our own runs.
        """
        exceptions = max(self.cells // 10, 1 if self.cells >= 5 else 0)
        return self.agree >= max(self.cells - exceptions, self.own)


@dataclass(frozen=True)
class Cause:
    """A possible cause of differences in a block, and the runs with this cause.

    Parameters
    ----------
    name : str
        The cause in words, for the page.
    rows : str
        The store of these runs.
    answer : Mean or str
        The mean of these runs, or their verdict on a sentence.
    block : str
        The block in words.
    counts : bool
        Whether the cell belongs to the block; if not, the cause applies to the cell as
        soon as it stands for the block.
    """

    name: str
    rows: str
    answer: Mean | Verdict
    block: str = ""
    counts: bool = True


@dataclass(frozen=True)
class Ours:
    """Our result for a cell.

    Parameters
    ----------
    answer : Mean, str or None
        Our value for a printed number, or the verdict on a sentence; None if the cell
        was not run.
    error : Mean
        Uncertainty of the printed number: a mean with value 0, whose standard error is
        that of the printed number.
    causes : sequence of Cause
        Possible causes of a difference.
    tried : str
        Other attempts to explain a difference.
    """

    answer: Answer
    error: Mean = Mean(0.0)  # noqa: RUF009 - is frozen
    causes: Sequence[Cause] = ()
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
    outcome : str
        The outcome of the comparison, a key of ``WORDS``.
    why : str
        For an explained difference, the cause and the store of the runs with this
        cause; for an unexplained difference, the attempts to explain it; for a
        contradiction, what it contradicts.
    printed, ours : float
        The two values; NaN for a sentence, or for a cell that was not run.
    half_width : float
        Half-width of the 95 % interval of their difference.
    z : float
        Their difference (ours minus printed) in standard errors; NaN if both are exact.
    status : str
        "replicated" if our runs are on other data than the paper's.
    blocks : tuple of Block
        The possible causes that were tried.
    """

    table: str
    cell: str
    outcome: str
    why: str = ""
    printed: float = math.nan
    ours: float = math.nan
    half_width: float = math.nan
    z: float = math.nan
    status: str = ""
    blocks: tuple[Block, ...] = field(default=(), repr=False)


def cells(
    chapter: str,
    computed: Mapping[str, Ours] | None = None,
    *,
    lenders: Mapping[str, Borrowed] | None = None,
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
        For a result that is not in a store, its key in the mapping ``computed`` or, for
        a sentence that the page of evidence asks of the rows, in
        ``outcomes_<chapter>.csv`` (see :func:`store_outcomes`). If both lack the key,
        the cell counts as not run.
    ``status``
        "private" if the cell needs private data, "replicated" if our rows are on other
        data than the paper's.
    ``against``
        What the paper prints elsewhere that contradicts the cell. A difference then
        counts as the paper's own, and no cause is judged by the cell.
    ``tried``
        See :class:`Ours`.

    Further columns say what setting a number is of, for the tables of the chapter.

    ``causes_<chapter>.csv`` has the columns ``block`` (in words), ``cells`` (a query
    for the lines that are the block), ``stands`` (a query for further lines to which
    the cause applies if it stands for the block), ``name``, ``store`` and ``where`` (a
    query that is applied together with the query ``where`` of the cell).

    Parameters
    ----------
    chapter : str
        Name of the chapter.
    computed : mapping of str to Ours, optional
        Results that no query of rows can give, by key.
    lenders : mapping of str to Borrowed, optional
        Borrowed standard deviations, by name.

    Returns
    -------
    list of Cell
        The cells in the order of the file.
    """
    lines = _table(f"cells_{chapter}")
    results = {**_stored_outcomes(chapter), **(computed or {})}
    lending = lenders or {}
    causes: list[tuple[Any, set[int], set[int]]] = []
    if paper_file(f"causes_{chapter}.csv").exists():
        cause: Any
        for cause in _table(f"causes_{chapter}").itertuples():
            block = set(lines.query(cause.cells).index)
            also = set(lines.query(cause.stands).index) if cause.stands else set()
            causes.append((cause, block, also))

    def found(line: Any) -> Ours:
        if line.key or not line.store:
            return results.get(line.key, Ours(None))
        tries = []
        for cause, block, also in causes:
            if line.Index not in block | also:
                continue
            answer = _measured(line, cause.store, cause.where, lending).answer
            if isinstance(answer, Mean):
                counts = line.Index in block
                tries.append(
                    Cause(cause.name, cause.store, answer, cause.block, counts)
                )
        return replace(_measured(line, line.store, line.at, lending), causes=tries)

    return judged([(line, found(line)) for line in lines.itertuples()])


def store_outcomes(chapter: str, outcomes: pd.DataFrame) -> None:
    """Write what a page of evidence found of sentences of the paper to
    ``outcomes_<chapter>.csv``, from which all pages read it.

    The columns are key, answer (a verdict, empty for a gap), tried (see
    :class:`Ours`), cause, block and rows (see :class:`Cause`; empty if no cause was
    tried), with_cause (the verdict on these rows), and what else the page tells. The
    file is written only if it changes.
    """
    text = outcomes.to_csv(index=False).encode()
    path = paper_file(f"outcomes_{chapter}.csv")
    if not path.exists() or path.read_bytes() != text:
        replace_file(path, text)


def _stored_outcomes(chapter: str) -> dict[str, Ours]:
    if not paper_file(f"outcomes_{chapter}.csv").exists():
        return {}
    found: dict[str, Ours] = {}
    line: Any
    for line in _table(f"outcomes_{chapter}").itertuples():
        causes = []
        if line.cause:
            causes.append(Cause(line.cause, line.rows, line.with_cause, line.block))
        found[line.key] = Ours(line.answer or None, causes=causes, tried=line.tried)
    return found


def judged(found: Sequence[tuple[Any, Ours]]) -> list[Cell]:
    """Judge lines of a file of cells, each with our result.

    Causes are compared over all these lines before any line is judged.
    """
    tallies: dict[tuple[str, str], list[tuple[bool, bool]]] = {}
    for line, ours in found:
        own = _agreement(line, ours, ours.answer) == HOLDS
        for cause in ours.causes:
            if cause.counts and not line.against:
                there = _agreement(line, ours, cause.answer) == HOLDS
                tallies.setdefault((cause.name, cause.block), []).append((there, own))
    blocks = {}
    for (name, block), pairs in tallies.items():
        agree, own_agree = (sum(side) for side in zip(*pairs, strict=True))
        blocks[name, block] = Block(name, block, len(pairs), agree, own_agree)
    return [_cell(line, ours, blocks) for line, ours in found]


def _cell(line: Any, ours: Ours, blocks: Mapping[tuple[str, str], Block]) -> Cell:
    """Judge a line by the cause that stands for it, if there is one."""
    if line.status == "private":
        return Cell(line.table, line.cell, PRIVATE, printed=float(line.printed))
    tried = []
    standing = []
    for cause in ours.causes:
        block = blocks.get((cause.name, cause.block))
        if block is None:
            continue
        tried.append(block)
        if block.stands:
            standing.append((cause.counts, block.agree, cause, block))
    answer, why = ours.answer, ""
    own = _agreement(line, ours, answer)
    outcome = OUTCOMES.get(own, OPEN)
    if standing and not line.against:
        # of several, the one of the cell's own block, and then that with most evidence
        *_, cause, block = max(standing, key=lambda found: found[:2])
        answer = cause.answer
        outcome = OUTCOMES.get(_agreement(line, ours, answer), OPEN)
        if outcome == AGREES and own == REVERSED:
            outcome = EXPLAINED
        why = f"{cause.name} ({cause.rows}), which agrees in {block.agree} of"
        why += f" {block.cells} cells of {block.name}" if block.name else " the block"
    elif outcome == UNEXPLAINED and line.against:
        outcome, why = CONTRADICTS, line.against
    if outcome == UNEXPLAINED:
        named = [f"differs with {why}"] if why else []
        others = [
            f"{each.name}: {_in_words(each.answer)} ({each.rows})"
            for each in ours.causes
            if each.answer is not answer and not why.startswith(f"{each.name} (")
        ]
        more = [ours.tried or line.tried]
        # a cause of two blocks is told once
        why = "; ".join(dict.fromkeys(filter(None, [*named, *others, *more])))
    elif outcome not in (EXPLAINED, CONTRADICTS):
        why = ""
    difference = Mean(math.nan)
    if isinstance(answer, Mean):
        difference = answer - (ours.error + float(line.printed))
    low, high = difference.interval()
    error = math.sqrt(difference.variance)
    return Cell(
        line.table,
        line.cell,
        outcome,
        why,
        float(line.printed or math.nan),
        answer.value if isinstance(answer, Mean) else math.nan,
        (high - low) / 2,
        difference.value / error if error else math.nan,
        line.status,
        tuple(tried),
    )


def _agreement(line: Any, ours: Ours, answer: Answer) -> Verdict:
    if isinstance(answer, Mean):
        printed = ours.error + float(line.printed)
        return agrees(answer, printed, unit=float(line.unit))
    return answer or UNTESTED


def _in_words(answer: Mean | Verdict) -> str:
    return f"{answer.value:.4g}" if isinstance(answer, Mean) else answer


def _measured(
    line: Any, store: str, query: str, lenders: Mapping[str, Borrowed]
) -> Ours:
    """Mean of the rows that the line's own query and another pick, and the error of
    the printed number.
    """
    rows = _rows(published_store(store))
    if line.metric not in rows:
        return Ours(None)
    queries = [f"({part})" for part in (line.where, query) if part]
    picked = rows.query(" and ".join(queries), engine="python")
    runs = picked[line.metric].dropna().astype(float)
    if runs.empty:
        return Ours(None)
    if not line.runs:
        return Ours(Mean(float(runs.iloc[0])))
    own = lenders.get(line.lender, NOBODY)
    if len(runs) > 1:
        own = Borrowed(float(runs.std()), len(runs) - 1)
    error = Mean.of(0.0, own.std, float(line.runs), freedom=own.freedom)
    mean = Mean.of(float(runs.mean()), own.std, len(runs), freedom=own.freedom)
    return Ours(mean, error)


@functools.lru_cache(maxsize=32)
def _read(path: Any, changed: int) -> pd.DataFrame:
    return read_store(path)


def _rows(path: Any) -> pd.DataFrame:
    """Rows of a store, which are read again only if the file has changed."""
    if not path.exists():
        return pd.DataFrame()
    return _read(path, path.stat().st_mtime_ns)


def _table(name: str) -> pd.DataFrame:
    """A table of text; columns that it lacks are empty."""
    given = pd.read_csv(paper_file(f"{name}.csv"), dtype=str, keep_default_na=False)
    named = dict.fromkeys([*given, *COLUMNS, "stands"])
    return given.reindex(columns=[*named], fill_value="")


def scorecard(papers: Mapping[str, Iterable[Cell]]) -> pd.DataFrame:
    """Count the cells of each table and figure.

    Returns
    -------
    DataFrame
        One line for each table or figure, and a last line for all cells. The columns
        are paper, table, cells (their number) and the outcomes.
    """
    frame = listed(papers)
    flags = pd.DataFrame({name: frame["outcome"] == name for name in ALL})
    flags.insert(0, "cells", 1)
    groups = flags.groupby([frame["paper"], frame["table"]], sort=False)
    counts = groups.sum().reset_index()
    counts.loc[len(counts)] = ["all", "", *flags.sum()]
    return counts


def in_words(judged: Iterable[Cell]) -> str:
    """Say how many cells have which outcome, as every page says it.

    Examples
    --------
    >>> in_words([Cell("Table 1", "k = 3", "agrees")])
    'Of the 1 printed results, 1 agrees, 0 differ for a reason that runs show, 0 contradict another number of the same paper, 0 differ without an explanation, 0 are undecided, 0 could be run and were not, and 0 need private data.'
    """
    outcomes = [cell.outcome for cell in judged]
    parts = []
    for outcome, (one, many) in WORDS.items():
        count = outcomes.count(outcome)
        parts.append(f"{count} {one if count == 1 else many}")
    *first, last = parts
    return f"Of the {len(outcomes)} printed results, {', '.join(first)}, and {last}."


def verdict_in_words(judged: Iterable[Cell]) -> str:
    """Say how many of the cells that were run agree, before all counts are listed.

    Examples
    --------
    >>> verdict_in_words([Cell("T", "k = 3", AGREES), Cell("T", "k = 5", UNRUN)])
    'Our runs agree with 1 of the 1 printed results that were tested here.'
    """
    tested = [cell for cell in judged if cell.outcome not in (UNRUN, PRIVATE)]
    agree = sum(cell.outcome == AGREES for cell in tested)
    return (
        f"Our runs agree with {agree} of the {len(tested)} printed results that were"
        " tested here."
    )


def bar(judged: Iterable[Cell]) -> str:
    """Draw how many cells have which outcome, as a bar in HTML with its key."""
    cells = list(judged)
    return _pieces(cells) + _key(cells)


def bars(papers: Mapping[str, Iterable[Cell]]) -> str:
    """Draw a bar of equal length for each paper, with the counts in its pieces and one
    key for all, in HTML.
    """
    parts = []
    everything: list[Cell] = []
    for paper, judged in papers.items():
        cells = list(judged)
        everything += cells
        name = f"{paper} <small>(n{NO_BREAK}={NO_BREAK}{len(cells)})</small>"
        parts.append(f'<div class="paper">{name}</div>{_pieces(cells, counts=True)}')
    return f'<div class="bars">{"".join(parts)}</div>{_key(everything)}'


def _pieces(cells: Sequence[Cell], *, counts: bool = False) -> str:
    """One piece for each outcome; a piece too short for its count hides it."""
    pieces = []
    for outcome in ALL:
        count = sum(cell.outcome == outcome for cell in cells)
        if count:
            shown = f"<b>{count}</b>" if counts else ""
            look = f"{_hue(outcome)}; background: var(--hue); flex: {count}"
            pieces.append(f'<i class="{_slug(outcome)}" style="{look}">{shown}</i>')
    # also drawn where the book's style is missing
    return (
        f'<div class="outcomes" style="display: flex" role="img"'
        f' aria-label="{in_words(cells)}">{"".join(pieces)}</div>'
    )


def _hue(outcome: str) -> str:
    from dpnotes.lab.figures import STATUSES

    return f"--hue: {STATUSES[outcome]}"


def _slug(outcome: str) -> str:
    return outcome.replace(" ", "-")


def _key(cells: Sequence[Cell]) -> str:
    parts = [f'<span class="all"><b>{len(cells)}</b> printed results:</span>']
    for outcome, (one, many) in WORDS.items():
        count = sum(cell.outcome == outcome for cell in cells)
        if count:
            said = one if count == 1 else many
            short = "" if outcome in TOLD else f" ({outcome})"
            parts.append(
                f'<span class="{_slug(outcome)}" style="{_hue(outcome)}">'
                f"<b>{count}</b> {said}{short}</span>"
            )
    return f'<div class="key">{"".join(parts)}</div>'


def listed(papers: Mapping[str, Iterable[Cell]]) -> pd.DataFrame:
    """List all cells in a table, whose columns are the paper, the fields of
    :class:`Cell`, ``relative`` (the difference as a fraction of the printed number) and
    ``relative_half_width`` (the same of the half-width).
    """
    lines = []
    for paper, judged in papers.items():
        lines += [{"paper": paper, **vars(cell)} for cell in judged]
    frame = pd.DataFrame(lines, columns=["paper", *Cell.__dataclass_fields__])
    size = frame["printed"].abs()
    difference = frame["ours"] - frame["printed"]
    return frame.assign(
        relative=difference / size, relative_half_width=frame["half_width"] / size
    )


def differing(papers: Mapping[str, Iterable[Cell]]) -> pd.DataFrame:
    """List the cells that differ from our rows, the largest differences first."""
    frame = listed(papers)
    differ = frame["outcome"].isin((EXPLAINED, CONTRADICTS, UNEXPLAINED))
    order = frame.loc[differ, "relative"].abs().sort_values(ascending=False)
    return frame.loc[order.index].reset_index(drop=True)


def tried(papers: Mapping[str, Iterable[Cell]]) -> pd.DataFrame:
    """List the causes that were tried, and how many cells of their block agree."""
    blocks: dict[tuple[str, Block], None] = {}
    for paper, judged in papers.items():
        for cell in judged:
            for block in cell.blocks:
                blocks[paper, block] = None
    lines = [
        {"paper": paper, **vars(block), "stands": block.stands}
        for paper, block in blocks
    ]
    names = ["paper", *Block.__dataclass_fields__, "stands"]
    return pd.DataFrame(lines, columns=names)


COUNTS = Table(
    "Every table and figure of the four papers: the number of its cells (printed"
    " numbers, or sentences about a figure without printed numbers) with each outcome.",
    Column("table", text=lambda row: f"{row.paper}, {row.table}"),
    "cells",
    *ALL,
    cards=True,
)
TRIED = Table(
    "Possible causes: how many cells of a block agree with our runs, and with the runs"
    " that have the cause.",
    "paper",
    Column("name", "block"),
    "cause",
    "cells",
    Column("own", "ours agree"),
    Column("agree", "with the cause"),
    Column("stands", labels={True: "stands", False: "rejected"}),
    cards=True,
)
WHY = Table(
    "{what}, the largest differences first. A difference and ±, the half-width of its"
    " 95 % interval, are in per cent of the printed number.",
    # all in one column, which stays in sight where the others scroll
    Column("cell", text=lambda row: f"{row.paper}, {row.table}: {row.cell}"),
    Column("printed", format="{:.4g}"),
    Column("ours", format="{:.4g}"),
    Column("relative", "difference", "{:+.1%}"),
    Column("relative_half_width", "±", "{:.1%}"),
    "outcome",
    Column("why", "cause, or what was tried"),
    cards=True,
)
