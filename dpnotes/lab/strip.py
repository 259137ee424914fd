"""The strip at the head of a paper's chapter: what the paper claims, whether it holds,
and what is printed beside what we found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dpnotes.lab import ledger, scorecard, tables
from dpnotes.lab.figures import STATUSES


@dataclass(frozen=True)
class Shown:
    """A value that the text of a page shows, in words and as HTML."""

    text: str
    html: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Line:
    """One line of the strip.

    Parameters
    ----------
    claim : int, optional
        Number in the ledger. Without one, the line shows the outcome of its cell.
    finding : str
        Beginning of the quantity of a finding of the claim.
    cell : str
        Name of a cell of the scorecard, whose numbers are shown instead.
    pattern : str
        How the numbers are written.
    """

    claim: int | None = None
    finding: str = ""
    cell: str = ""
    pattern: str = "{:.3g}"


def chip(status: str) -> Shown:
    """A status of a claim, or an outcome of a printed number, in its colour."""
    html = f'<span class="chip" style="--hue: {STATUSES[status]}">{status}</span>'
    return Shown(status, html)


def values(
    prefix: str, lines: Sequence[Line], judged: Sequence[scorecard.Cell]
) -> dict[str, object]:
    """What the strip of a chapter shows: ``PREFIX-holds-1``, ``PREFIX-numbers-1``, and
    so on, and ``PREFIX-bar``, the outcomes of all printed numbers.

    Parameters
    ----------
    prefix : str
    lines : sequence of Line
    judged : sequence of Cell
        All cells of the paper.

    Raises
    ------
    StopIteration
        If there is no claim, finding or cell of a name.
    """
    bar = Shown(scorecard.in_words(judged), scorecard.bar(judged))
    found: dict[str, object] = {f"{prefix}-bar": bar}
    for number, line in enumerate(lines, 1):
        if line.cell:
            # names keep "k = 300" on one line by other spaces
            cell = next(
                cell for cell in judged if " ".join(cell.cell.split()) == line.cell
            )
            status: str = cell.outcome
            printed: float | str = cell.printed
            ours = cell.ours
        if line.claim is not None:
            claim = next(each for each in ledger.LEDGER if each.number == line.claim)
            status = claim.status
        if line.finding:
            finding = next(
                each
                for each in claim.findings
                if each.quantity.startswith(line.finding)
            )
            printed, ours = finding.claimed, finding.found
        numbers = [tables.written(line.pattern, value) for value in (printed, ours)]
        found[f"{prefix}-holds-{number}"] = chip(status)
        found[f"{prefix}-numbers-{number}"] = " → ".join(numbers)
    return found
