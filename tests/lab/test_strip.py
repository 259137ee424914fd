"""The strip at the head of a paper's chapter."""

import pytest

from dpnotes.lab import ledger, strip
from dpnotes.lab.scorecard import Cell

CARD = [
    Cell("Table 1", "k\xa0=\xa03", "agrees", printed=0.9, ours=0.91),
    Cell("Table 1", "k\xa0=\xa05", "unexplained", printed=1e-5, ours=2.5e-3),
]


def test_a_line_shows_a_cell_or_a_finding_of_a_claim():
    claim = next(each for each in ledger.LEDGER if each.number == 19)
    finding = claim.findings[2]
    lines = [
        strip.Line(cell="k = 3", pattern="{:.0%}"),
        strip.Line(19, cell="k = 5", pattern="{:g}"),
        strip.Line(19, finding.quantity[:20], pattern="{:g}"),
    ]
    found = strip.values("toy", lines, CARD)
    shown = [str(found[f"toy-holds-{number}"]) for number in (1, 2, 3)]
    assert shown == ["agrees", claim.status, claim.status]
    assert "wrong" in found["toy-holds-2"].html
    assert found["toy-numbers-1"] == "90% → 91%"
    assert found["toy-numbers-2"] == "10⁻⁵ → 0.0025"
    assert found["toy-numbers-3"] == f"{finding.claimed:g} → {finding.found:g}"
    assert "2 printed results" in str(found["toy-bar"])
    with pytest.raises(StopIteration):
        strip.values("toy", [strip.Line(cell="k = 4")], CARD)
