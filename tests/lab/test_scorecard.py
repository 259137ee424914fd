"""The scorecard: what counts as agreeing, explained by its block, contradicting itself,
unexplained, undecided and not run.
"""

import json
import math
import re
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

from dpnotes.lab import scorecard as module
from dpnotes.lab.bagging import results as bagging
from dpnotes.lab.intrinsic_sgd import results as intrinsic_sgd
from dpnotes.lab.scorecard import (
    AGREES,
    ALL,
    CONTRADICTS,
    EXPLAINED,
    OPEN,
    PRIVATE,
    UNEXPLAINED,
    UNRUN,
    WHY,
    Block,
    Cause,
    Ours,
    bars,
    differing,
    in_words,
    judged,
    listed,
    scorecard,
    tried,
    verdict_in_words,
)
from dpnotes.lab.verdicts import Borrowed, Mean

# a printed number borrows our deviation
ERROR = Mean.of(0.0, 0.01, 1, freedom=4)
NEAR = Mean.of(0.91, 0.01, 5)
FAR = Mean.of(0.8, 0.01, 5)


def line(**change):
    """A printed number, 0.9."""
    given = {
        "table": "Table 1",
        "cell": "k = 3",
        "printed": "0.9",
        "unit": "0.001",
        "status": "",
        "against": "",
        "tried": "",
    }
    return SimpleNamespace(**given | change)


def judge(answer, *causes, error=ERROR, **change):
    (cell,) = judged([(line(**change), Ours(answer, error, causes))])
    return cell


@pytest.mark.parametrize(
    ("ours", "outcome"),
    [
        (None, UNRUN),
        (NEAR, AGREES),
        (FAR, UNEXPLAINED),
        (Mean.of(0.8, math.nan, 1), OPEN),
    ],
)
def test_outcomes_of_numbers(ours, outcome):
    assert judge(ours).outcome == outcome


def test_a_number_that_needs_private_data_is_not_judged():
    assert judge(NEAR, status="private").outcome == PRIVATE


@pytest.mark.parametrize(
    ("value", "outcome"), [(0.9004, AGREES), (0.9006, UNEXPLAINED)]
)
def test_exact_numbers_agree_to_the_last_printed_digit(value, outcome):
    assert judge(Mean(value), error=Mean(0.0)).outcome == outcome


def test_half_width_and_z_are_of_the_difference():
    cell = judge(FAR)
    difference = FAR - (ERROR + 0.9)
    low, high = difference.interval()
    assert cell.half_width == pytest.approx((high - low) / 2)
    assert cell.z == pytest.approx(-0.1 / math.sqrt(difference.variance))


def test_a_contradiction_counts_only_where_our_runs_differ():
    found = judge(FAR, against="Table 2 prints 0.8")
    assert (found.outcome, found.why) == (CONTRADICTS, "Table 2 prints 0.8")
    assert judge(NEAR, against="Table 2 prints 0.8").outcome == AGREES


@pytest.mark.parametrize(
    ("cells", "agree", "own", "stands"),
    [
        (4, 4, 0, True),
        (4, 3, 0, False),
        (5, 4, 0, True),
        (5, 3, 0, False),
        (10, 9, 0, True),
        (11, 10, 0, True),
        (11, 9, 0, False),
        (21, 19, 0, True),
        (21, 18, 0, False),
        (10, 9, 10, False),
        (10, 10, 10, True),
    ],
)
def test_a_cause_needs_nine_cells_in_ten_and_no_fewer_than_ours(
    cells, agree, own, stands
):
    assert Block("", "", cells, agree, own).stands == stands


def block(fitting, size, ours=FAR):
    """Cells of one block, of which a cause fits some."""
    # what the cause gives in each cell
    means = [NEAR if place < fitting else FAR for place in range(size)]
    return [
        (line(cell=str(place)), Ours(ours, ERROR, [Cause("longer", "b", mean, "T")]))
        for place, mean in enumerate(means)
    ]


def test_a_cause_explains_its_whole_block_or_nothing():
    outcomes = [cell.outcome for cell in judged(block(9, 10))]
    assert outcomes == [EXPLAINED] * 9 + [UNEXPLAINED]
    outcomes = [cell.outcome for cell in judged(block(8, 10))]
    assert outcomes == [UNEXPLAINED] * 10


def test_what_a_standing_cause_does_not_explain_stays_unexplained():
    """Our own runs agreed with the last cell, by another setting."""
    last = line(cell="last"), Ours(NEAR, ERROR, [Cause("longer", "b", FAR, "T")])
    *first, cell = judged([*block(19, 19), last])
    assert {each.outcome for each in first} == {EXPLAINED}
    assert cell.outcome == UNEXPLAINED
    assert cell.why.startswith("differs with longer (b), which agrees in 19 of 20")


def test_a_cause_applies_beyond_its_block_but_is_not_judged_there():
    causes = [Cause("longer", "b", FAR, "T", counts=False)]
    beyond = line(cell="beyond"), Ours(NEAR, ERROR, causes)
    *_, cell = judged([*block(3, 3), beyond])
    assert cell.outcome == UNEXPLAINED
    assert {found.cells for found in cell.blocks} == {3}
    *_, cell = judged([*block(2, 3), beyond])
    assert cell.outcome == AGREES


def test_a_contradiction_does_not_count_against_a_cause():
    wrong = line(against="Table 2"), Ours(FAR, ERROR, [Cause("longer", "b", FAR, "T")])
    *first, cell = judged([*block(3, 3), wrong])
    assert {each.outcome for each in first} == {EXPLAINED}
    assert cell.outcome == CONTRADICTS


def test_of_two_standing_causes_the_one_with_more_cells_is_named():
    found = block(5, 5)
    few = Cause("wider", "c", NEAR, "T")
    found[0] = found[0][0], Ours(FAR, ERROR, [few, *found[0][1].causes])
    assert judged(found)[0].why.startswith("longer (b)")


def test_rejected_causes_and_a_single_run_explain_nothing():
    far = Cause("wider", "b", Mean.of(0.81, 0.01, 5))
    single = Cause("longer", "b", Mean.of(0.9, math.nan, 1))
    cell = judge(FAR, far, single)
    assert cell.outcome == UNEXPLAINED
    assert cell.why == "wider: 0.81 (b); longer: 0.9 (b)"


@pytest.mark.parametrize(
    ("verdict", "outcome"),
    [
        ("holds", AGREES),
        ("reversed", UNEXPLAINED),
        ("tie", OPEN),
        ("undecided", OPEN),
        ("not testable here", UNRUN),
    ],
)
def test_outcomes_of_sentences(verdict, outcome):
    assert judge(verdict, printed="", unit="").outcome == outcome


def test_a_sentence_has_causes_too():
    cause = Cause("longer", "b", "holds")
    assert judge("reversed", cause, printed="", unit="").outcome == EXPLAINED


def test_counts():
    cells = [judge(None), judge(FAR), judge(NEAR), judge("holds", printed="")]
    counts = scorecard({"one": cells, "other": cells[:1]})
    assert counts["table"].tolist() == ["Table 1", "Table 1", ""]
    assert counts["cells"].tolist() == [4, 1, 5]
    assert counts[[*ALL]].iloc[-1].tolist() == [2, 0, 0, 1, 0, 2, 0]
    assert len(listed({"one": cells})) == 4
    said = re.findall(r"\d+", in_words(cells))
    assert said == ["4", "2", "0", "0", "1", "0", "1", "0"]
    private = judge(None, status="private")
    verdict = verdict_in_words([*cells, private])
    assert "agree with 2 of the 3 printed results" in verdict


def test_differences_are_sorted_and_causes_listed():
    near = Mean.of(0.85, 0.001, 5)
    papers = {"one": [judge(near), judge(NEAR), *judged(block(1, 2))]}
    assert differing(papers)["ours"].tolist() == [0.8, 0.8, 0.85]
    (found,) = tried(papers).itertuples()
    assert (found.paper, found.cause, found.cells, found.agree) == (
        "one",
        "longer",
        2,
        1,
    )
    assert not found.stands


def test_cells_are_judged_by_the_rows_that_their_lines_name(tmp_path, monkeypatch):
    """One that agrees, one that another rate explains, a lent deviation, a count,
    gaps, and what code computes.
    """
    (tmp_path / "cells_one.csv").write_text(
        "table,cell,printed,unit,store,where,at,metric,runs,lender,key,tried\n"
        "T,agrees,0.90,0.01,rows,k == 1,rate != 3,accuracy,1,,,\n"
        "T,explained,0.70,0.01,rows,k == 2,rate != 3,accuracy,1,,,\n"
        "T,lent,0.52,0.01,rows,k.isnull(),,accuracy,1,single,,\n"
        "T,count,7,1,rows,k == 1,rate != 3,labels,,,,misprinted\n"
        "T,no such row,0.9,0.01,rows,k == 9,,accuracy,1,,,\n"
        "T,no such store,0.9,0.01,absent,k == 1,,accuracy,1,,,\n"
        "F,computed,,,,,,,,,sentence,\n"
        "F,not computed,,,,,,,,,other,\n"
    )
    (tmp_path / "causes_one.csv").write_text(
        "block,cells,name,store,where\nall,metric == 'accuracy' and where !="
        " '',another rate,rows,rate == 3\n"
    )
    lines = [
        (1, 1, 0.89, 8),
        (1, 1, 0.92, 8),
        (2, 1, 0.5, 8),
        (2, 1, 0.51, 8),
        (2, 3, 0.69, 8),
        (2, 3, 0.72, 8),
    ]
    rows = pd.DataFrame(
        [*lines, (None, 1, 0.5, 8)], columns=["k", "rate", "accuracy", "labels"]
    )
    (tmp_path / "rows.csv").touch()
    monkeypatch.setattr(module, "paper_file", lambda name: tmp_path / name)
    monkeypatch.setattr(
        module, "published_store", lambda name: tmp_path / f"{name}.csv"
    )
    monkeypatch.setattr(module, "read_store", lambda path: rows)
    computed = {"sentence": Ours("reversed", tried="twice")}
    found = module.cells("one", computed, lenders={"single": Borrowed(0.02, 10)})
    outcomes = [AGREES, EXPLAINED, AGREES, UNEXPLAINED, UNRUN, UNRUN, UNEXPLAINED]
    assert [cell.outcome for cell in found] == [*outcomes, UNRUN]
    assert found[1].why == "another rate (rows), which agrees in 1 of 1 cells of all"
    assert [found[place].why for place in (3, 6)] == ["misprinted", "twice"]
    values = [cell.ours for cell in found[:4]]
    assert values == pytest.approx([0.905, 0.705, 0.5, 8])


PAGES = ["scorecard"]
for chapter in ("bagging", "private_prediction", "dpbag", "intrinsic_sgd"):
    PAGES += [chapter, f"evidence/{chapter}_evidence"]


@pytest.mark.parametrize("page", PAGES)
def test_every_page_says_the_counts_of_the_scorecard(repository, page):
    """One function says them, from the same cells, and the page shows what it says."""
    cells = json.loads((repository / f"book/{page}.ipynb").read_text())["cells"]
    checks = repository / f"book/checks/{page}.py"
    code = checks.read_text() if checks.is_file() else ""
    text = ""
    for cell in cells:
        if cell["cell_type"] == "code":
            code += "".join(cell["source"])
        else:
            text += "".join(cell["source"])
    names = re.findall(r'"([\w-]+-outcomes)"[:,] scorecard.in_words\(', code)
    names = [name for name in names if f"glue:text}}`{name}`" in text]
    assert len(names) == 1
    assert text.count(f"{{glue:text}}`{names[0]}`") == 1


CELLS = {"bagging": bagging.cells, "intrinsic_sgd": intrinsic_sgd.cells}
COUNTS = pd.read_csv(Path(__file__).with_name("scorecard.csv"))


@pytest.mark.parametrize("paper", COUNTS["paper"].unique())
def test_outcomes_of_each_paper_are_those_that_were_noted(paper):
    found = CELLS.get(paper, partial(module.cells, paper))()
    counts = scorecard({paper: found}).query("table != ''")
    noted = COUNTS[COUNTS["paper"] == paper]
    lines = (
        frame[["table", *ALL]].itertuples(index=False, name=None)
        for frame in (counts, noted)
    )
    assert sorted(next(lines)) == sorted(next(lines))
    if paper == "private_prediction":  # every sentence, number and arrow once
        assert len({(cell.table, cell.cell) for cell in found}) == len(found)
    assert all(cell.why for cell in found if cell.outcome in (EXPLAINED, CONTRADICTS))
    said = [int(number) for number in re.findall(r"\b\d+\b", in_words(found))]
    assert said == [len(found), *(int(noted[name].sum()) for name in ALL)]


def test_a_bar_and_its_key_have_every_count_and_every_outcome():
    cells = [judge(None), judge(FAR), judge(NEAR), judge(NEAR)]
    drawn = bars({"one": cells, "other": cells[:1]})
    counts = re.findall(r'class="([\w-]+)" [^>]*flex: (\d+)"><b>(\d+)</b>', drawn)
    assert counts == [
        ("agrees", "2", "2"),
        ("unexplained", "1", "1"),
        ("not-run-yet", "1", "1"),
        ("not-run-yet", "1", "1"),
    ]
    assert "one <small>(n\xa0=\xa04)" in drawn
    key = re.findall(r"<b>(\d+)</b> ([^<]*)</span>", drawn)
    assert key == [
        ("5", "printed results:"),
        ("2", "agree"),
        ("1", "differs without an explanation (unexplained)"),
        ("2", "could be run and were not (not run yet)"),
    ]


def test_a_difference_and_its_half_width_are_shares_of_the_printed_number():
    (line,) = listed({"one": [judge(FAR)]}).itertuples()
    assert line.relative == pytest.approx(-0.1 / 0.9)
    assert line.relative_half_width == pytest.approx(line.half_width / 0.9)
    shown = WHY(listed({"one": [judge(FAR)]}), what="All").to_html()
    assert f"{line.relative_half_width:.1%}" in shown
    assert '--label: "±"' in shown


def test_a_cause_of_two_blocks_is_told_once():
    longer = Mean.of(0.7, 0.01, 5)
    causes = [Cause("longer", "rows", longer, block) for block in ("one", "two")]
    assert judge(FAR, *causes).why == "longer: 0.7 (rows)"
