"""The ledger of the main privacy claims of the four papers.

A claim is two cells of ``book/evidence/CHAPTER_evidence.ipynb``. The first one has its
text. The second one computes its evidence and ends with a call of :func:`claim`, which
checks the findings and stores them in
``book/results/published/findings_CHAPTER.csv``. All other pages read these two places.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import chain
from typing import TYPE_CHECKING

import pandas as pd

from dpnotes.lab._places import book_folder, book_or_packaged, paper_file
from dpnotes.lab.store import replace_file
from dpnotes.lab.tables import show

if TYPE_CHECKING:
    from pandas.io.formats.style import Styler

# keys of the bibliography
PAPERS = {
    "bagging": "liu2021intrinsic",
    "private_prediction": "vandermaaten2020tradeoffs",
    "dpbag": "jordon2019bagging",
    "intrinsic_sgd": "hyland2019intrinsic",
}
STATUSES = {
    "proved": "true as stated, with a proof that holds",
    "weaker than it looks": "true as stated, but says less than a reader might think",
    "under a condition": "true under a condition that the statement does not name",
    "wrong": "not true as stated",
    "vacuous": "gives no protection, whether it is true or false",
    "unproved": "neither a proof nor a counterexample is known",
}
# the cell with the text of a claim
TEXT = re.compile(
    r"\(claim-(?P<number>\d+)\)=\s+### Claim \d+: (?P<place>.+?)\n"
    r"\s*\*\*Claim\.\*\* (?P<statement>.+?)\n"
    r"\s*\*\*Status: (?P<status>.+?)\.\*\* (?P<reason>.+?)\n"
    r"\s*\*\*Computed\.\*\* (?P<computed>.+)",
    re.DOTALL,
)


@dataclass(frozen=True)
class Finding:
    """One computed fact.

    Both bounds of its range are finite, so that a formula that is wrong in either
    direction is noticed.

    Parameters
    ----------
    quantity : str
        The computed quantity, in words.
    claimed : float or str
        The value that the claim gives; a dash if it gives none.
    found : float
        The value that was computed.
    low, high : float
        Least and largest value at which the finding supports the status.
    """

    quantity: str
    claimed: float | str
    found: float
    low: float
    high: float

    @property
    def supports(self) -> bool:
        """Whether the finding supports the ledger's status; False if a bound is not
        finite.
        """
        return -math.inf < self.low <= self.found <= self.high < math.inf


@dataclass(frozen=True)
class Claim:
    """One statement of a paper and its status.

    Parameters
    ----------
    chapter : str
        Name of the chapter on the paper.
    number : int
        Number in the ledger.
    place : str
        Place of the statement in the paper.
    status : str
        A word in :data:`STATUSES`.
    statement : str
        The statement of the paper, in our words and notation (n records, k drawn for
        each of N models).
    reason : str
        Reason for the status.
    computed : str
        Method by which the evidence is computed, in a few sentences at most.
    """

    chapter: str
    number: int
    place: str
    status: str
    statement: str
    reason: str
    computed: str

    def __post_init__(self) -> None:
        if self.status not in STATUSES:
            raise ValueError(
                f"status must be one of {', '.join(map(repr, STATUSES))}, got"
                f" status={self.status!r}"
            )

    @property
    def paper(self) -> str:
        """Key of the paper in the bibliography."""
        return PAPERS[self.chapter]

    @property
    def findings(self) -> list[Finding]:
        """The stored findings."""
        lines = _stored(self.chapter).query("claim == @self.number")
        found = []
        for _, quantity, claimed, *numbers in lines.itertuples(index=False):
            # a dash stands where the paper gives no value
            with suppress(ValueError):
                claimed = float(claimed)
            found.append(Finding(quantity, claimed, *numbers))
        return found

    @property
    def supports(self) -> bool:
        """Whether there are findings, and every one supports the status."""
        found = self.findings
        return bool(found) and all(finding.supports for finding in found)


def claim(number: int, *lines: tuple[str, float | str, float, float, float]) -> Styler:
    """Check the findings of a claim, store them, and show them in a table.

    The file of the chapter is written only if a finding differs from the stored one by
    more than rounding.

    Parameters
    ----------
    number : int
        Number of the claim.
    lines : tuple of str, float or str, float, float, float
        The fields of each :class:`Finding`, in their order.

    Raises
    ------
    AssertionError
        If a finding does not support the status of the claim; nothing is stored.
    """
    found = []
    for quantity, claimed, *numbers in lines:
        # fractions and NumPy's numbers become floats
        value = claimed if isinstance(claimed, str) else float(claimed)
        found.append(Finding(quantity, value, *map(float, numbers)))
    for finding in found:
        if not finding.supports:
            raise AssertionError(
                f"claim {number}: {finding.quantity} is {finding.found:.9g}, which"
                f" should be in [{finding.low:.9g}, {finding.high:.9g}]"
            )
    # after the checks: nothing wrong is stored
    (own,) = [each for each in LEDGER if each.number == number]
    if not _same(own.findings, found):
        _store(own, found)
    return show(findings(found), caption=f"Claim {number} ({own.place}), {own.status}.")


def near(value: float, tolerance: float = 1e-9) -> tuple[float, float]:
    """Give the range of values whose relative difference from one is small."""
    return value - tolerance * abs(value), value + tolerance * abs(value)


def table(claims: Iterable[Claim]) -> pd.DataFrame:
    """List claims in a table, with one row for each claim.

    The columns are number, paper, where, claim, status, why and evidence. The last
    column says whether the evidence supports the status, as ``"supports"`` or
    ``"CONTRADICTS"``.
    """
    lines = []
    for claim in claims:
        line = {
            "number": claim.number,
            "paper": claim.paper,
            "where": claim.place,
            "claim": claim.statement,
            "status": claim.status,
            "why": claim.reason,
            "evidence": "supports" if claim.supports else "CONTRADICTS",
        }
        lines.append(line)
    return pd.DataFrame(lines)


def findings(found: Iterable[Finding]) -> pd.DataFrame:
    """List findings in a table, with one row for each finding.

    The columns are quantity, claimed, found, from, to, and supports the status (yes or
    NO).
    """
    lines = []
    for finding in found:
        line = {
            "quantity": finding.quantity,
            "claimed": _text(finding.claimed),
            "found": _text(finding.found),
            "from": _text(finding.low),
            "to": _text(finding.high),
            "supports the status": "yes" if finding.supports else "NO",
        }
        lines.append(line)
    return pd.DataFrame(lines)


def _text(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.6g}"


def _read(chapter: str) -> list[Claim]:
    """Claims of a chapter, from the cells with their text."""
    folder = book_or_packaged() / "book" / "evidence"
    notebook = (folder / f"{chapter}_evidence.ipynb").read_text(encoding="utf-8")
    found = []
    for cell in json.loads(notebook)["cells"]:
        # other cells are prose or code
        if match := TEXT.fullmatch("".join(cell["source"])):
            # lines of a cell are broken for editors
            texts = {}
            for name, text in match.groupdict().items():
                texts[name] = " ".join(text.split())
            number = int(texts.pop("number"))
            found.append(Claim(chapter=chapter, number=number, **texts))
    return found


def _stored(chapter: str) -> pd.DataFrame:
    return pd.read_csv(paper_file(f"findings_{chapter}.csv"), dtype={"claimed": str})


def _same(stored: list[Finding], found: list[Finding]) -> bool:
    """Whether findings differ by no more than rounding in what was found."""
    if len(stored) != len(found):
        return False
    for old, new in zip(stored, found, strict=True):
        # another machine rounds otherwise: no reason to write
        if not math.isclose(old.found, new.found, rel_tol=1e-5, abs_tol=1e-9):
            return False
    tables = [findings(each).drop(columns="found") for each in (stored, found)]
    return tables[0].equals(tables[1])


def _store(own: Claim, found: list[Finding]) -> None:
    """Put the findings of a claim in the place of the stored ones."""
    rows = _stored(own.chapter)
    new = pd.DataFrame([asdict(finding) for finding in found])
    # in place of the findings before
    rows = pd.concat([rows[rows["claim"] != own.number], new.assign(claim=own.number)])
    text = rows.sort_values("claim", kind="stable").to_csv(index=False)
    # where there is no book, as for a chapter by itself, there is nothing to keep
    with suppress(FileNotFoundError):
        folder = book_folder() / "book" / "results" / "published"
        replace_file(folder / f"findings_{own.chapter}.csv", text.encode())


LEDGER = tuple(
    sorted(
        chain.from_iterable(map(_read, PAPERS)),
        key=lambda claim: claim.number,
    )
)
