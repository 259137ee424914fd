"""The scorecard: what counts as agreeing, explained by runs, unexplained, undecided and a gap."""

import math

import pandas as pd
import pytest

from dpnotes.lab import chapters
from dpnotes.lab.scorecard import (
    AGREES,
    EXPLAINED,
    GAP,
    OPEN,
    UNEXPLAINED,
    Cause,
    listed,
    noticed,
    number,
    scorecard,
    sentence,
)
from dpnotes.lab.store import published_store
from dpnotes.lab.verdicts import Mean

PRINTED = Mean.of(0.9, 0.01, 1, freedom=4)
FAR = Mean.of(0.8, 0.01, 5)


def judged(ours, *causes, printed=PRINTED, tried=""):
    return number("Table 1", "k = 3", ours, printed, unit=1e-3, causes=causes, tried=tried)


@pytest.mark.parametrize(
    ("ours", "outcome"),
    [
        (None, GAP),
        (Mean.of(0.91, 0.01, 5), AGREES),
        (FAR, UNEXPLAINED),
        (Mean.of(0.8, math.nan, 1), OPEN),
    ],
)
def test_outcomes_of_numbers(ours, outcome):
    assert judged(ours).outcome == outcome


@pytest.mark.parametrize(("value", "outcome"), [(0.9004, AGREES), (0.9006, UNEXPLAINED)])
def test_exact_numbers_agree_to_the_last_printed_digit(value, outcome):
    assert judged(Mean(value), printed=Mean(0.9)).outcome == outcome


def test_a_difference_is_explained_by_runs_alone():
    near, far = (Cause(name, "store_b", Mean.of(value, 0.01, 5)) for name, value in (("longer", 0.9), ("wider", 0.81)))
    assert judged(FAR, far, near).outcome == EXPLAINED
    assert judged(FAR, far, near).why == "longer (store_b)"
    unexplained = judged(FAR, far, tried="their code was read")
    assert unexplained.outcome == UNEXPLAINED
    assert unexplained.why == "wider: 0.81 (store_b); their code was read"
    single = Cause("longer", "store_b", Mean.of(0.9, math.nan, 1))
    assert judged(FAR, single).outcome == UNEXPLAINED  # a single run explains nothing


@pytest.mark.parametrize(
    ("verdict", "outcome"),
    [("holds", AGREES), ("reversed", UNEXPLAINED), ("tie", OPEN), ("undecided", OPEN), ("not testable here", GAP)],
)
def test_outcomes_of_sentences(verdict, outcome):
    assert sentence("Figure 1", "bagging is ahead", verdict).outcome == outcome


def test_counts():
    cells = [judged(None), judged(FAR), judged(PRINTED), sentence("Figure 1", "it rises", "holds")]
    counts = scorecard({"one": cells, "other": cells[:1]})
    assert counts["table"].tolist() == ["Table 1", "Figure 1", "Table 1", ""]
    assert counts["cells"].tolist() == [3, 1, 1, 5]
    assert counts["run"].tolist() == [2, 1, 0, 3]
    assert counts[[AGREES, EXPLAINED, UNEXPLAINED, OPEN, GAP]].iloc[-1].tolist() == [2, 0, 1, 0, 2]
    assert len(listed({"one": cells})) == 4


def test_what_pages_notice_is_counted_by_what_noticed_it():
    names = ["chapter", "store", "change", "failed", "verdicts", "glued"]
    rows = [("one", "a", "up", 1, 0, 3), ("one", "a", "shuffled", 0, 0, 2), ("one", "b", "down", 0, 0, 0)]
    found = noticed(pd.DataFrame([*rows, ("two", "a", "reversed", 0, 4, 0)], columns=names))
    assert found["stores"].tolist() == [2, 1]
    assert found.loc[0, "orders":].tolist() == [1, 0, 1, 0, 2, 1, 0, 1]
    assert found.loc[1, "orders":].tolist() == [1, 1, 0, 0, 0, 0, 0, 0]


def test_each_page_of_a_paper_was_tried_and_what_it_does_not_notice_has_a_reason():
    rows = pd.read_csv(published_store("row_mutants"), keep_default_na=False)
    papers = ("bagging", "private_prediction", "dpbag", "intrinsic_sgd")
    pages = {chapter.name for chapter in chapters.all_chapters() if chapter.name.removesuffix("_evidence") in papers}
    assert set(rows["chapter"]) == pages
    assert len(pages) == 8
    missed = rows[rows["change"].isin(["shuffled", "reversed"]) & ~rows["noticed"]]
    assert (missed["reason"] != "").all()
