"""Every claim of the ledger has evidence that supports its status, and evidence that could fail."""

import json
import math
import re
from fractions import Fraction

import pytest

from dpnotes import accounting
from dpnotes.lab import _claim, ledger
from dpnotes.lab._claim import at_most, claims_of, equal, exceeds, shown
from dpnotes.lab.bagging import claims as bagging_claims
from dpnotes.lab.bagging.claims import sample_distribution
from dpnotes.lab.ledger import LEDGER, STATUSES, Claim, Evidence, Finding


@pytest.mark.parametrize("claim", LEDGER, ids=lambda claim: f"claim-{claim.number}")
def test_evidence_supports_the_status(claim):
    evidence = claim.evidence()
    assert evidence.findings
    for finding in evidence.findings:
        assert finding.supports is True, finding
    assert evidence.supports is True


def test_ledger_is_complete_and_leads_somewhere(repository):
    assert [claim.number for claim in LEDGER] == list(range(1, 38))
    text = "".join(
        "".join(cell["source"])
        for path in sorted((repository / "book").glob("*.ipynb"))
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]
    )
    bibliography = (repository / "book" / "references.bib").read_text(encoding="utf-8")
    for claim in LEDGER:
        assert claim.status in STATUSES
        assert f"({claim.section})=" in text, f"claim {claim.number}: no section {claim.section!r} in the book"
        assert re.search(rf"{{{claim.paper},", bibliography)
        assert claim.statement.endswith(".")
        assert claim.reason.endswith(".")


def weakened(**arguments):
    """A wrong accountant: it counts twice as many records as there are."""
    return accounting.bagging(**{**arguments, "n": 2 * arguments["n"]})


@pytest.mark.parametrize("number", [3, 5, 6])
def test_evidence_notices_a_wrong_profile(number, monkeypatch):
    monkeypatch.setattr(bagging_claims, "bagging", weakened)
    assert not LEDGER[number - 1].evidence().supports


@pytest.mark.parametrize("number", [1, 2, 4])
def test_evidence_notices_a_wrong_distribution(number, monkeypatch):
    """The enumeration is given a sampler that draws one record less than it says."""

    def lazy(**kwargs):
        return sample_distribution(**{**kwargs, "subsample": kwargs["subsample"] - 1})

    monkeypatch.setattr(bagging_claims, "sample_distribution", lazy)
    assert not LEDGER[number - 1].evidence().supports


def test_no_evidence_is_no_support():
    assert not Evidence("nothing was computed", ()).supports
    assert not Evidence("one finding objects", (Finding("a", 1, 1, 1, 1), Finding("b", 1, 2, 1, 1))).supports


def test_tables():
    evidence = {claim: claim.evidence() for claim in ledger.of_paper("liu2021intrinsic")[:2]}
    table = ledger.table(evidence)
    assert table["number"].tolist() == [1, 2]
    assert set(table["evidence"]) == {"supports"}
    doubtful = {LEDGER[0]: Evidence("by guessing", (Finding("a", 1, 2, 1, 1),))}
    assert ledger.table(doubtful)["evidence"].tolist() == ["CONTRADICTS"]
    findings = ledger.findings(evidence[LEDGER[0]])
    assert findings.columns.tolist() == ["quantity", "claimed", "found", "from", "to", "supports the status"]
    assert findings.loc[0, "found"] == "0.683594"


PAPERS = {
    "liu2021intrinsic": (*range(1, 9), 37),
    "vandermaaten2020tradeoffs": range(9, 22),
    "jordon2019bagging": range(22, 30),
    "hyland2019intrinsic": range(30, 37),
}


@pytest.mark.parametrize("paper", PAPERS)
def test_claims_are_those_of_their_paper(paper):
    assert [claim.number for claim in ledger.of_paper(paper)] == list(PAPERS[paper])


def test_a_claim_is_what_stands_in_the_docstring():
    """The paragraphs may be wrapped; the ledger shows each in one line."""

    @_claim.claim(3, "Theorem 1", "proved", paper="p", section="s")
    def first():
        """Count.

        Computed: By
        counting.

        Statement: Two and two
        are four.

        Reason: They are
        counted.
        """
        return [equal("2 + 2", 4, 2 + 2)]

    assert (first.number, first.paper, first.place, first.status, first.section) == (3, "p", "Theorem 1", "proved", "s")
    assert (first.statement, first.reason) == ("Two and two are four.", "They are counted.")
    assert first.evidence() == Evidence("By counting.", (Finding("2 + 2", 4.0, 4.0, 4.0, 4.0),))


def test_claims_of_modules_are_ordered_by_number():
    assert [claim.number for claim in claims_of(bagging_claims)] == [*range(1, 9), 37]


def test_what_a_finding_supports():
    third = Fraction(1, 3)
    assert equal("q", third, third) == Finding("q", 1 / 3, 1 / 3, 1 / 3, 1 / 3)
    assert not equal("q", third, 0.3333).supports
    assert equal("q", 0.3333, third, rel_tol=1e-3).supports
    assert not equal("q", 1, 1, also=False).supports
    assert at_most("q", 1.0, 1.0, least=0.5).supports
    assert not at_most("q", 1.0, 1.0 + 1e-9, least=0.5).supports
    assert at_most("q", 1.0, 1.0 + 1e-9, least=0.5, rel_tol=1e-8).supports
    assert not at_most("q", 1.0, 0.4, least=0.5).supports
    assert not at_most("q", 1.0, 0.5, least=0.5, also=False).supports
    assert not exceeds("q", 1.0, 1.0, low=1.0, high=2.0).supports
    assert exceeds("q", 1.0, 2.5, low=2, high=3).supports
    assert not exceeds("q", 1.0, 1.5, low=2, high=3).supports
    assert not exceeds("q", 1.0, 3.5, low=2, high=3).supports
    assert shown("q", third, 0.3, 0.4) == Finding("q", "–", 1 / 3, 0.3, 0.4)
    assert not shown("q", 2, 1).supports
    assert not shown("q", math.nan, 0, 1).supports
    assert not shown("q", 2.0, 1, math.inf).supports  # a bound on one side is none


def test_bad_input_is_named():
    for text in (None, "Count.", "Count.\n\nStatement: s.\n\nReason: r.", "Count.\n\nReason: r.\n\nStatement: s."):
        computed = lambda: []  # noqa: E731 - a function of which the docstring can be set
        computed.__doc__ = text
        with pytest.raises(ValueError, match=r"paragraphs .* 'Statement: \.\.\.' .*, got claim 3 with"):
            _claim.claim(3, "w", "proved", paper="p", section="section")(computed)
    with pytest.raises(ValueError, match=r"paper must be one of .*'liu2021intrinsic'.*, got paper='liu'"):
        ledger.of_paper("liu")
    with pytest.raises(ValueError, match=r"status must be one of .*'vacuous'.*, got status='true'"):
        Claim(1, "p", "w", "s.", "true", "r.", "section", lambda: Evidence("", ()))
