"""The scorecard of the bagging paper: every printed number is there, and what became of it is pinned."""

import math

import pytest

from dpnotes.lab import bagging, experiments
from dpnotes.lab.bagging import cells as card
from dpnotes.lab.scorecard import scorecard


@pytest.fixture(scope="module")
def cells():
    return card.cells()


def test_counts_of_each_table(cells):
    counts = scorecard({"bagging": cells}).set_index("table").drop(columns=["paper", "run"])
    assert {table: line.tolist() for table, line in counts.iterrows() if table} == {  # cells, agrees, ..., gap
        "Table 2a": [11, 7, 0, 4, 0, 0],
        "Table 2b": [11, 1, 0, 0, 0, 10],
        "Table 3a": [10, 0, 4, 3, 0, 3],
        "Table 3b": [10, 0, 0, 0, 0, 10],
        "Figure 1": [2, 0, 0, 0, 1, 1],
        "Figure 2": [2, 1, 0, 0, 0, 1],
    }


def test_every_printed_number_is_a_cell(cells):
    for table in ("2a", "2b", "3a", "3b"):
        printed = bagging.tables.published(table)["published"].tolist()
        assert sorted(cell.printed for cell in cells if cell.table == f"Table {table}") == sorted(printed)
    assert len({(cell.table, cell.cell) for cell in cells}) == len(cells) == 46


def test_what_differs_says_what_was_tried_and_explained_names_rows_that_agree(cells):
    for cell in cells:
        assert bool(cell.why) >= (cell.outcome == "explained")
        assert bool(cell.why) <= (cell.outcome in ("explained", "unexplained"))
        assert math.isnan(cell.ours) == (cell.outcome == "gap" or cell.table.startswith("Figure"))
    explained = {
        cell.cell.replace("\N{NO-BREAK SPACE}", " "): cell.why for cell in cells if cell.outcome == "explained"
    }
    sizes = [f"bagging, k = {size}" for size in ("500", "1,000", "5,000")]
    assert explained == dict.fromkeys(["no privacy", *sizes], "going on by Adam at rate 3e-05 (bagging_causes)")


def test_causes_differ_from_the_cell_in_optimiser_and_rate_alone():
    of_sizes, whole = (
        {key: row[key] for key in ("split", "public", "epochs", "width", "n_models")}
        for row in (bagging.grids.table3a("paper")[0], bagging.grids.table3a("paper")[-1])
    )
    for row in bagging.grids.causes():
        assert (whole if row["subsample"] is None else of_sizes).items() <= row.items()
        assert (row["optimizer"], row["learning_rate"]) != ("adam", 1e-4)
    assert experiments.rows("bagging_causes")["accuracy"].notna().sum() == 16
