"""The printed numbers of Hyland and Tople: what became of each, and that a verdict turns when its rows do."""

import pytest

from dpnotes.lab.intrinsic_sgd import cells
from dpnotes.lab.scorecard import scorecard


@pytest.fixture(scope="module")
def judged():
    return {cell.cell: cell for cell in cells.cells()}


def test_counts_of_each_table():
    table = scorecard({"hyland2019": cells.cells()}).set_index("table")
    table = table[["cells", "agrees", "explained", "unexplained", "undecided", "gap"]]
    assert dict(zip(table.index, table.itertuples(index=False, name=None), strict=True)) == {
        "Table I": (15, 9, 0, 3, 0, 3),
        "Table II": (9, 9, 0, 0, 0, 0),
        "Table III": (18, 14, 4, 0, 0, 0),
        "Table IV": (21, 8, 11, 2, 0, 0),
        "Text": (33, 21, 9, 2, 1, 0),
        "Figure 2": (5, 2, 1, 2, 0, 0),
        "Figure 3": (4, 3, 1, 0, 0, 0),
        "Figure 5": (2, 0, 0, 0, 2, 0),
        "Figure 6": (4, 3, 0, 1, 0, 0),
        "Figure 7": (5, 0, 0, 2, 2, 1),
        "Figure 9": (1, 1, 0, 0, 0, 0),
        "": (117, 70, 26, 12, 5, 4),
    }


def test_numbers_follow_their_rows(monkeypatch, judged):
    """Accuracies on Adult moved by a tenth: what agreed or was explained does so no longer."""
    honest = cells.read_store

    def moved(path):
        rows = honest(path)
        shifted = rows["dataset"].eq("adult") if "dataset" in rows else rows.index < 0
        for column in {"accuracy", "noiseless"} & {*rows.columns}:
            rows.loc[shifted, column] = rows.loc[shifted, column] - 0.1
        return rows

    monkeypatch.setattr(cells, "read_store", moved)
    now = {cell.cell: cell for cell in cells.cells()}
    changed = [name for name, cell in now.items() if cell.outcome != judged[name].outcome]
    assert changed == ["noiseless, Adult", "noisy, theoretical, Adult", "noisy, observed, Adult"]
    assert {now[name].outcome for name in changed} == {"unexplained"}
