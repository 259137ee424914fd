"""The scorecard: what counts as agreeing, explained by runs, unexplained, undecided
and a gap.
"""

import math
from importlib import import_module
from pathlib import Path

import pandas as pd
import pytest

from dpnotes.lab import scorecard as module
from dpnotes.lab.scorecard import (
    AGREES,
    ALL,
    EXPLAINED,
    GAP,
    OPEN,
    UNEXPLAINED,
    Cause,
    listed,
    number,
    scorecard,
    sentence,
)
from dpnotes.lab.verdicts import Borrowed, Mean

PRINTED = Mean.of(0.9, 0.01, 1, freedom=4)
FAR = Mean.of(0.8, 0.01, 5)


def judged(ours, *causes, printed=PRINTED, tried=""):
    return number(
        "Table 1", "k = 3", ours, printed, unit=1e-3, causes=causes, tried=tried
    )


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


@pytest.mark.parametrize(
    ("value", "outcome"), [(0.9004, AGREES), (0.9006, UNEXPLAINED)]
)
def test_exact_numbers_agree_to_the_last_printed_digit(value, outcome):
    assert judged(Mean(value), printed=Mean(0.9)).outcome == outcome


def test_a_difference_is_explained_by_runs_alone():
    near, far = (
        Cause(name, "store_b", Mean.of(value, 0.01, 5))
        for name, value in (("longer", 0.9), ("wider", 0.81))
    )
    assert judged(FAR, far, near).outcome == EXPLAINED
    assert judged(FAR, far, near).why == "longer (store_b)"
    unexplained = judged(FAR, far, tried="their code was read")
    assert unexplained.outcome == UNEXPLAINED
    assert unexplained.why == "wider: 0.81 (store_b); their code was read"
    single = Cause("longer", "store_b", Mean.of(0.9, math.nan, 1))
    assert judged(FAR, single).outcome == UNEXPLAINED  # a single run explains nothing


@pytest.mark.parametrize(
    ("verdict", "outcome"),
    [
        ("holds", AGREES),
        ("reversed", UNEXPLAINED),
        ("tie", OPEN),
        ("undecided", OPEN),
        ("not testable here", GAP),
    ],
)
def test_outcomes_of_sentences(verdict, outcome):
    assert sentence("Figure 1", "bagging is ahead", verdict).outcome == outcome


def test_counts():
    cells = [
        judged(None),
        judged(FAR),
        judged(PRINTED),
        sentence("Figure 1", "it rises", "holds"),
    ]
    counts = scorecard({"one": cells, "other": cells[:1]})
    assert counts["table"].tolist() == ["Table 1", "Figure 1", "Table 1", ""]
    assert counts["cells"].tolist() == [3, 1, 1, 5]
    assert counts["run"].tolist() == [2, 1, 0, 3]
    assert counts[[AGREES, EXPLAINED, UNEXPLAINED, OPEN, GAP]].iloc[-1].tolist() == [
        2,
        0,
        1,
        0,
        2,
    ]
    assert len(listed({"one": cells})) == 4


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
        "cells,name,store,where\nmetric == 'accuracy' and where != '',another"
        " rate,rows,rate == 3\n"
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
    computed = {"sentence": module.Ours("reversed", tried="twice")}
    found = module.cells("one", computed, lenders={"single": Borrowed(0.02, 10)})
    outcomes = [AGREES, EXPLAINED, AGREES, UNEXPLAINED, GAP, GAP, UNEXPLAINED, GAP]
    assert [cell.outcome for cell in found] == outcomes
    assert [found[place].why for place in (1, 3, 6)] == [
        "another rate (rows)",
        "misprinted",
        "twice",
    ]
    assert [cell.ours for cell in found[:4]] == pytest.approx([0.905, 0.505, 0.5, 8])


COUNTS = pd.read_csv(Path(__file__).with_name("scorecard.csv"))


@pytest.mark.parametrize("paper", COUNTS["paper"].unique())
def test_outcomes_of_each_paper_are_those_that_were_noted(paper):
    found = import_module(f"dpnotes.lab.{paper}.cells").cells()
    counts = scorecard({paper: found}).query("table != ''")
    noted = COUNTS[COUNTS["paper"] == paper]
    lines = (
        frame[["table", *ALL]].itertuples(index=False, name=None)
        for frame in (counts, noted)
    )
    assert sorted(next(lines)) == sorted(next(lines))
    if paper == "private_prediction":  # every sentence, number and arrow once
        assert len({(cell.table, cell.cell) for cell in found}) == len(found)
    assert all(cell.why for cell in found if cell.outcome in (EXPLAINED, UNEXPLAINED))
