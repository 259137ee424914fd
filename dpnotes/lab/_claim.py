"""The classes of claims and of the evidence for their status."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, cast

import pandas as pd

from dpnotes.lab._places import paper_file

STATUSES = {
    "proved": "true as stated, with a proof that holds",
    "weaker than it looks": "true as stated, but says less than a reader might think",
    "under a condition": "true under a condition that the statement does not name",
    "wrong": "not true as stated",
    "vacuous": "gives no protection, whether it is true or false",
    "unproved": "neither a proof nor a counterexample is known",
}

_EVIDENCE: dict[int, Callable[[], list[Finding]]] = {}  # by the number of the claim


@dataclass(frozen=True)
class Finding:
    """One computed fact: the quantity, the value that the claim gives, the computed
    value, and its allowed range.

    Both bounds of the range are finite, so that a formula that is wrong in either
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
    also : bool
        Whether further computations, for example of the same value by another method,
        support the status.
    """

    quantity: str
    claimed: float | str
    found: float
    low: float
    high: float
    also: bool = True

    @property
    def supports(self) -> bool:
        """Whether the finding supports the ledger's status; False if a bound is not
        finite.
        """
        return bool(
            -math.inf < self.low <= self.found <= self.high < math.inf and self.also
        )


def judged(
    chapter: str, number: int, *found: float | Fraction | tuple[float | Fraction, bool]
) -> list[Finding]:
    """Findings of a claim of which all but the computed values is in
    ``book/results/published/findings_<chapter>.csv``.

    Parameters
    ----------
    chapter : str
    number : int
        Of the claim. A line of the file has claim, quantity, claimed, low and high: see
        :class:`Finding`.
    found : float, Fraction, or pair of one and bool
        What was computed, in the order of the lines; with a pair, whether what else was
        computed supports the status.
    """
    lines = pd.read_csv(paper_file(f"findings_{chapter}.csv")).query("claim == @number")
    values = [value if isinstance(value, tuple) else (value, True) for value in found]
    return [
        Finding(
            line.quantity,
            _number(line.claimed),
            float(value),
            line.low,
            line.high,
            bool(also),
        )
        for line, (value, also) in zip(
            cast(Any, lines.itertuples()), values, strict=True
        )
    ]


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


@dataclass(frozen=True)
class Evidence:
    """The computation that shows the status of a claim.

    Parameters
    ----------
    method : str
        The method, in a few sentences at most.
    findings : tuple of Finding
        The computed facts, at least one.
    """

    method: str
    findings: tuple[Finding, ...]

    @property
    def supports(self) -> bool:
        """Whether every finding supports the status."""
        return bool(self.findings) and all(
            finding.supports for finding in self.findings
        )


@dataclass(frozen=True)
class Claim:
    """One statement of a paper and its status: an entry of
    ``book/results/published/claims_<chapter>.toml``.

    Parameters
    ----------
    number : int
        Number in the ledger.
    paper : str
        Key of the paper in the bibliography.
    place : str
        Place of the statement in the paper.
    status : str
        A word in :data:`STATUSES`.
    section : str
        Label of the section of the book that treats the claim.
    computed : str
        Method by which the evidence is computed, in a few sentences at most.
    statement : str
        The statement of the paper, in our words and notation (n records, k drawn for
        each of N models).
    reason : str
        Reason for the status.
    """

    number: int
    paper: str
    place: str
    status: str
    section: str
    computed: str
    statement: str
    reason: str

    def __post_init__(self) -> None:
        if self.status not in STATUSES:
            raise ValueError(
                f"status must be one of {', '.join(map(repr, STATUSES))}, got"
                f" status={self.status!r}"
            )

    def evidence(self) -> Evidence:
        """Compute the evidence, which takes a few seconds at most."""
        return Evidence(self.computed, tuple(_EVIDENCE[self.number]()))


Finder = Callable[[], list[Finding]]


def evidence(number: int) -> Callable[[Finder], Finder]:
    """Decorator of the function that computes the findings of a claim's evidence, by
    the claim's number.
    """

    def registered(find: Finder) -> Finder:
        _EVIDENCE[number] = find
        return find

    return registered


def read(chapter: str) -> list[Claim]:
    """Claims of a chapter, from ``book/results/published/claims_<chapter>.toml``,
    whose line ends count as spaces.
    """
    found: dict[str, Any] = tomllib.loads(
        paper_file(f"claims_{chapter}.toml").read_text(encoding="utf-8")
    )
    texts = ("place", "status", "section", "computed", "statement", "reason")
    return [
        Claim(
            entry["number"],
            found["paper"],
            *(" ".join(entry[name].split()) for name in texts),
        )
        for entry in found["claim"]
    ]


def table(evidence: Mapping[Claim, Evidence]) -> pd.DataFrame:
    """List the claims in a table, with one row for each claim.

    The columns are number, paper, where, claim, status, why and evidence. The last
    column says whether the evidence supports the status, as ``"supports"`` or
    ``"CONTRADICTS"``.

    Parameters
    ----------
    evidence : mapping of Claim to Evidence
        The evidence of each claim, as ``{claim: claim.evidence() for claim in LEDGER}``
        computes it.
    """
    lines = [
        (
            c.number,
            c.paper,
            c.place,
            c.statement,
            c.status,
            c.reason,
            "supports" if e.supports else "CONTRADICTS",
        )
        for c, e in evidence.items()
    ]
    return pd.DataFrame(
        lines,
        columns=["number", "paper", "where", "claim", "status", "why", "evidence"],
    )


def findings(evidence: Evidence) -> pd.DataFrame:
    """List the findings of one `Evidence` in a table, with one row for each finding.

    The columns are quantity, claimed, found, from, to, and supports the status (yes or
    NO).
    """
    lines = [
        (
            f.quantity,
            *map(_text, (f.claimed, f.found, f.low, f.high)),
            "yes" if f.supports else "NO",
        )
        for f in evidence.findings
    ]
    return pd.DataFrame(
        lines,
        columns=["quantity", "claimed", "found", "from", "to", "supports the status"],
    )


def _text(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.6g}"
