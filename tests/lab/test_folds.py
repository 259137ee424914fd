"""Which cells a page folds."""

import pytest

from dpnotes.lab.folds import LONGEST, fold_cells

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
