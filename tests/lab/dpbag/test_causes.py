"""Other settings of DPBag's learners: rows against those of the chapter, and what the scorecard makes of them."""

import pytest

from dpnotes.lab import experiments
from dpnotes.lab.dpbag import causes, runs
from dpnotes.lab.dpbag.cells import cells
from dpnotes.lab.dpbag.experiments import student
from dpnotes.lab.scorecard import ALL, GAP, UNEXPLAINED

ROW = {"dataset": "breast_cancer", "n_teachers": 10, "n_partitions": 2, "seed": 1, "device": "cpu"}
COUNTS = {  # agree, explained, unexplained, undecided, gap
    "Table 1": [0, 0, 0, 0, 147],
    "Table 2": [0, 9, 0, 0, 27],
    "Table 3": [0, 0, 0, 0, 93],
    "Table 4": [0, 6, 0, 0, 12],
    "Table 5": [118, 13, 16, 0, 0],
    "Table 6": [0, 21, 15, 0, 0],
    "Table 7": [40, 12, 41, 0, 0],
    "Table 8": [0, 12, 6, 0, 0],
}
BUDGET = {"accountant": "naive", "epsilon": 5.0, "delta": 1e-3}


def test_a_row_with_the_chapters_settings_is_the_chapters_row(monkeypatch):
    """The same thirds, partitions, noise and student; another solver moves the votes."""
    own = causes.Setting("", "logistic", lambda: (None, runs.learner("logistic")))
    monkeypatch.setitem(causes.SETTINGS, "own", own)
    row = causes.cause(setting="own", **ROW, **BUDGET)
    runs.run.cache_clear()
    chapter = student(teachers="logistic", **ROW, **BUDGET)
    for metric in ("labels", "label_accuracy", "accuracy", "auroc", "auprc"):
        assert row[metric] == pytest.approx(chapter[metric], rel=1e-9), metric
    other = causes.cause(setting="liblinear", **ROW, **BUDGET)
    assert other["labels"] == row["labels"]
    assert other["auroc"] != row["auroc"]


@pytest.mark.parametrize("setting", causes.SETTINGS)
def test_every_setting_runs(setting):
    nothing = {"accountant": "none", "epsilon": None, "delta": None, "dataset": "breast_cancer", "seed": 0}
    row = causes.cause(setting=setting, n_teachers=1, n_partitions=1, **nothing)
    assert row["labels"] == 189
    assert row["accuracy"] > 0.85
    with pytest.raises(ValueError, match="setting must be one of 'liblinear'"):
        causes.cause(setting="none", n_teachers=1, n_partitions=1, **nothing)


def test_the_scorecard_of_the_paper():
    """Every printed number once; what is explained names rows that exist, what is not says what was tried."""
    found = cells()
    sizes = {"Table 1": 147, "Table 2": 36, "Table 3": 93, "Table 4": 18}
    tables = [cell.table for cell in found]
    assert {table: tables.count(table) for table in tables} == sizes | {
        f"Table {int(table[-1]) + 4}": size for table, size in sizes.items()
    }
    assert len({(cell.table, cell.cell) for cell in found}) == len(found)
    counts = {
        table: [[cell.outcome for cell in found if cell.table == table].count(outcome) for outcome in ALL]
        for table in sorted(set(tables))
    }
    assert counts == COUNTS
    for cell in found:
        if cell.outcome == UNEXPLAINED:
            assert cell.why
        if cell.outcome == "explained":
            assert cell.why.partition("(")[2].rstrip(")") in experiments.EXPERIMENTS
        assert (cell.outcome == GAP) == (cell.ours != cell.ours)
    misprint = next(cell for cell in found if cell.table == "Table 8" and cell.printed == 44)
    assert "43" in misprint.why
    assert misprint.outcome == UNEXPLAINED
