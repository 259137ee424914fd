"""Which cells a page folds."""

from types import SimpleNamespace

import pytest
from myst_nb.sphinx_ import HideCodeCellNode

from dpnotes.lab.folds import LONGEST, fold_cells, open_fold

LONG = "\n".join(["x = 1"] * (LONGEST + 1))


@pytest.mark.parametrize(
    ("source", "tags", "folded"),
    [
        ("x = 1", [], False),
        ("x = 1\nassert x", [], True),
        ("asserted = 1", [], False),
        (LONG, [], True),
        (LONG.partition("\n")[2] + "\n\n\n", [], False),
        ("scale = 1", ["parameters"], True),
        (LONG, ["remove-cell"], False),
        (LONG, ["hide-cell"], False),
    ],
)
def test_checks_and_long_cells_are_folded(source, tags, folded):
    cell = {"cell_type": "code", "source": source, "metadata": {"tags": tags}}
    text = {"cell_type": "markdown", "source": LONG, "metadata": {}}
    fold_cells([cell, text])
    assert cell["metadata"]["tags"] == [*tags, *["hide-input"] * folded]
    assert text["metadata"] == {}


@pytest.mark.parametrize(
    ("prompt", "name"),
    [("Show code cell outputs", "Output"), ("All <3", "All &lt;3")],
)
def test_a_folded_output_has_the_name_that_its_cell_gives(prompt, name):
    body = []
    folded = HideCodeCellNode(prompt_show=prompt, classes=["above-output"])
    open_fold(SimpleNamespace(body=body), folded)
    assert f"<summary>{name}</summary>" in "".join(body)
