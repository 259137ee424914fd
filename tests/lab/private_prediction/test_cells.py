"""What the scorecard makes of the paper on private prediction, and that the letters of the notation table are used."""

import json
import re

from dpnotes.lab.private_prediction.cells import cells
from dpnotes.lab.private_prediction.statements import STATEMENTS
from dpnotes.lab.scorecard import ALL, UNEXPLAINED
from dpnotes.lab.store import book_folder

PAGES = book_folder() / "book"
COUNTS = {  # agree, explained, unexplained, undecided, gap
    "Figure 1": [1, 0, 0, 0, 0],
    "Figure 1a": [2, 0, 0, 1, 0],
    "Figure 1b": [2, 0, 0, 1, 0],
    "Figure 2": [2, 0, 0, 0, 0],
    "Figure 2a": [3, 0, 0, 0, 0],
    "Figure 2b": [1, 0, 1, 0, 0],
    "Figure 3": [1, 0, 0, 0, 4],
    "Figure 4": [1, 0, 0, 0, 3],
    "Figure 5a": [2, 0, 0, 0, 0],
    "Figure 5b": [1, 0, 1, 0, 0],
    "Figure 6a": [1, 0, 0, 0, 0],
    "Figure 6b": [0, 0, 1, 0, 0],
    "Figure 7": [0, 0, 0, 0, 5],
    "Table of arrows": [21, 0, 6, 3, 0],
}


def test_every_sentence_number_and_arrow_once():
    found = cells()
    tables = [cell.table for cell in found]
    assert len({(cell.table, cell.cell) for cell in found}) == len(found) == len(STATEMENTS) + 5 + 30
    counts = {
        table: [[cell.outcome for cell in found if cell.table == table].count(outcome) for outcome in ALL]
        for table in sorted(set(tables))
    }
    assert counts == COUNTS
    assert all(cell.why for cell in found if cell.outcome == UNEXPLAINED)


def test_letters_of_the_notation_table_are_used():
    """Each one as a letter of its own in a formula of the pages that it is given for, and noise is not B."""
    lines = [line for line in (PAGES / "index.md").read_text().splitlines() if line.startswith("|")]
    start = next(i for i, line in enumerate(lines) if "(bagging.ipynb)" in line and line.startswith("| |"))
    pages = re.findall(r"\((\w+)\.ipynb\)", lines[start])
    assert len(pages) == 4
    texts = {}
    for page in pages:
        notebook = json.loads((PAGES / f"{page}.ipynb").read_text())
        text = "\n".join("".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "markdown")
        texts[page] = " ".join("".join(found) for found in re.findall(r"(?s)\$\$(.+?)\$\$|\$([^$\n]+)\$", text))
    checked = 0
    for line in lines[start + 2 :]:
        letter, *meanings = [cell.strip() for cell in line.strip("|").split("|")]
        if not letter.startswith("$"):
            break
        for page, meaning in zip(pages, meanings, strict=True):
            if meaning:
                checked += 1
                assert re.search(rf"(?<![A-Za-z\\]){re.escape(letter.strip('$'))}(?![A-Za-z])", texts[page]), (
                    letter,
                    page,
                )
    assert checked > 15
    assert "langle B" not in texts["private_prediction"]
