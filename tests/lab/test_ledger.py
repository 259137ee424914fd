"""Every claim of the ledger has evidence that bears its status out, and evidence that could fail."""

import json
import re

import pytest

from dpnotes import accounting
from dpnotes.lab import ledger
from dpnotes.lab.bagging import claims as bagging_claims
from dpnotes.lab.ledger import LEDGER, Claim, Evidence, Finding


@pytest.mark.parametrize("claim", LEDGER, ids=lambda claim: f"claim-{claim.number}")
def test_evidence_bears_the_status_out(claim):
    evidence = claim.evidence()
    assert evidence.findings
    for finding in evidence.findings:
        assert finding.supports, finding
    assert evidence.supports


def test_ledger_is_complete_and_leads_somewhere(repository):
    assert [claim.number for claim in LEDGER] == list(range(1, 37))
    text = "".join(
        "".join(cell["source"])
        for path in sorted((repository / "book").glob("*.ipynb"))
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]
    )
    bibliography = (repository / "book" / "references.bib").read_text(encoding="utf-8")
    for claim in LEDGER:
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
def test_evidence_notices_a_wrong_law(number, monkeypatch):
    """The enumeration is given a sampler that draws one record less than it says."""

    def lazy(**how):
        return accounting.papers.sample_distribution(**{**how, "subsample": how["subsample"] - 1})

    monkeypatch.setattr(bagging_claims, "sample_distribution", lazy)
    assert not LEDGER[number - 1].evidence().supports


def test_no_evidence_is_no_support():
    assert not Evidence("nothing was computed", ()).supports
    assert not Evidence("one finding objects", (Finding("a", 1, 1, True), Finding("b", 1, 2, False))).supports


def test_tables():
    evidence = {claim: claim.evidence() for claim in ledger.of_paper("liu2021intrinsic")[:2]}
    table = ledger.table(evidence)
    assert table["number"].tolist() == [1, 2]
    assert set(table["evidence"]) == {"supports"}
    doubtful = {LEDGER[0]: Evidence("by guessing", (Finding("a", 1, 2, False),))}
    assert ledger.table(doubtful)["evidence"].tolist() == ["CONTRADICTS"]
    findings = ledger.findings(evidence[LEDGER[0]])
    assert findings.columns.tolist() == ["quantity", "claimed", "found", "supports the status"]
    assert findings.loc[0, "found"] == "0.683594"


def test_bad_input_is_named():
    with pytest.raises(ValueError, match=r"paper must be one of .*'liu2021intrinsic'.*, got paper='liu'"):
        ledger.of_paper("liu")
    with pytest.raises(ValueError, match=r"status must be one of .*'vacuous'.*, got status='true'"):
        Claim(1, "p", "w", "s.", "true", "r.", "section", lambda: Evidence("", ()))
