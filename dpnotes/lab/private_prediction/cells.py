"""What became of the paper's results: the numbers and sentences on Figures 1 to 7, and the arrows of its table."""

from __future__ import annotations

from typing import Any

import pandas as pd

from dpnotes.lab._experiment import paper_table
from dpnotes.lab.private_prediction.arrows import arrows
from dpnotes.lab.private_prediction.grids import GRIDS
from dpnotes.lab.private_prediction.series import put_together
from dpnotes.lab.private_prediction.statements import statements
from dpnotes.lab.scorecard import Cell, number, sentence
from dpnotes.lab.store import published_store, read_store
from dpnotes.lab.verdicts import HOLDS, REVERSED, UNDECIDED, UNTESTED, Mean, Verdict

FIGURE_7 = {"pp001": 0.001, "pp002": 0.01, "pp004": 1.0}  # numbers of the text, and the unit of their last digit
ON_FIGURE_7 = {
    "pp062": "votes ahead for few answers and a large epsilon",
    "pp063": "DP-SGD ahead in most other settings",
}


def cells() -> list[Cell]:
    """All of them.

    The figures are curves without printed numbers, so that their sentences are judged, with the paper's own constants;
    where these were not run, the sentence is a gap, whatever sound constants say. The networks of Figure 7 were not
    trained.
    """
    rows = put_together(*(read_store(published_store(f"private_prediction_{name}")) for name in GRIDS))
    times = read_store(published_store("private_prediction_times"))
    return [*_sentences(statements(rows)), *_figure_7(), *_arrows(arrows(rows, times))]


def _sentences(table: pd.DataFrame) -> list[Cell]:
    found = []
    row: Any
    for row in table.itertuples():
        verdict: Verdict = UNTESTED if row.published == "gap" else row.published
        tight = f"with sound constants: {row.tight} ({row.evidence})"
        found.append(sentence(f"Figure {row.figure}", row.says, verdict, tried=tight))
    return found


def _figure_7() -> list[Cell]:
    text = paper_table("private_prediction_text").set_index("claim_id")
    numbers = [
        number(
            "Figure 7",
            f"{text['method'][name]}, {text['quantity'][name]}",
            None,
            Mean(float(text["value"][name])),
            unit=unit,
        )
        for name, unit in FIGURE_7.items()
    ]
    return numbers + [sentence("Figure 7", words, UNTESTED) for words in ON_FIGURE_7.values()]


def _arrows(table: pd.DataFrame) -> list[Cell]:
    found = []
    judged: dict[object, Verdict] = {True: HOLDS, False: REVERSED}
    row: Any
    for row in table.itertuples():
        verdict = judged.get(row.agrees, UNDECIDED if row.ours == UNDECIDED else UNTESTED)
        cell = f"{row.quantity} as {row.hyperparameter} grows: {row.published}"
        found.append(sentence("Table of arrows", cell, verdict, tried=f"ours: {row.ours}; {row.evidence}"))
    return found
