"""The reader's records in a chapter: their name in stored rows, and the statement on
the page about them.
"""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import Any

import pandas as pd

from dpnotes.data import OwnDataset, load_file

_TARGET = "?target="
_DIGEST = "&digest="


def reference(dataset: str, target: str = "") -> str:
    """Name of a file in stored rows: its full path, the target and a digest.

    The digest prevents the use of rows that were computed from other content.

    Parameters
    ----------
    dataset : str
        See :func:`dpnotes.data.load_file`. A relative path may start where the command
        was given.
    target : str
        Column of the classes. If empty, the last column, or ``y``.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the file cannot be used; the message lists all of its faults.
    """
    path = Path(dataset).expanduser()
    # chapters run in the folder of the book
    starts = [Path.cwd(), Path(os.environ.get("PWD", "."))]
    # the folder of the book first, then that of the command
    found = next((start / path for start in starts if (start / path).is_file()), None)
    if found is None:
        places = " or ".join(dict.fromkeys(map(str, starts)))
        raise FileNotFoundError(
            f"dataset must be a .csv or .npz file, got {dataset!r}: no such file is in"
            f" {places}"
        )
    return f"{found.absolute()}{_TARGET}{target}{_DIGEST}{_read(found, target).digest}"


def is_own(dataset: str) -> bool:
    """Tell whether a row's data set is a reader's file."""
    return _TARGET in dataset


def load(reference: str) -> OwnDataset:
    """Load the records that a row names.

    Raises
    ------
    ValueError
        If the file has changed since then.
    """
    path, _, rest = reference.rpartition(_TARGET)
    target, _, digest = rest.rpartition(_DIGEST)
    # cached: a grid asks for it once a row
    own = _read(Path(path), target)
    if own.digest != digest:
        raise ValueError(f"{path} changed while its rows were computed")
    return own


def label(dataset: str) -> str:
    """Name of a data set as tables show it."""
    return Path(dataset.rpartition(_TARGET)[0]).name if is_own(dataset) else dataset


SCALINGS = {
    "columns": (
        "; then each record is divided by the root of the number of columns,"
        " {bound:.3g}, to norm at most 1"
    ),
    "record": "; then each record is divided by its norm",
    "none": "",
}


def statement(reference: str, *, scaling: str = "columns") -> str:
    """State in Markdown the private and the public facts and the preparation of each
    record; scaling: see SCALINGS.
    """
    own = load(reference)
    # what was read off private records, not declared
    taken = [] if own.classes_given else ["the classes"]
    taken += [f"`{column.name}`" for column in own.columns if not column.given]
    # the good case; the other one says what to do
    source = "All of this was declared beforehand, in the file next to the table."
    if taken:
        source = (
            "**Inferred from the records as if public, which no guarantee covers:**"
            f" {', '.join(taken)}. Unless these facts are public knowledge, declare"
            f" them beforehand, in a file `{own.name}.toml` next to the table."
        )
    return "\n".join(
        [
            (
                f"* **Private**: the content of each record of `{label(reference)}`,"
                " its features and its class."
            ),
            (
                f"* **Public**: the number of records, {own.n_train + own.n_test:,};"
                f" the columns, their bounds and categories; and the {own.n_classes}"
                f" classes: {', '.join(own.class_names)}. {source}"
            ),
            (
                "* **Preparation**, separately for each record: numbers are mapped"
                " from their bounds to [-1, 1], and numbers outside are clipped;"
                " categories become"
                f" indicators{SCALINGS[scaling].format(bound=own.bound)}."
            ),
            (
                "* **Not private**: the accuracies below. They are computed directly"
                " from the test records."
            ),
            *(f"* **Also not private**: {told}." for told in own.unread()),
        ]
    )


def public_columns(own: OwnDataset) -> pd.DataFrame:
    """Table of the public facts about each column: column, kind, public (bounds or
    categories, in words), given.
    """
    rows = []
    for column in own.columns:
        kind = "categories"
        known = ", ".join(map(str, column.known))
        if column.is_number:
            kind = "numbers"
            known = " to ".join(map(_shown, column.known))
        given = "beforehand" if column.given else "inferred from the records"
        rows.append((column.name, kind, known, given))
    return pd.DataFrame(rows, columns=["column", "kind", "public", "given"])


def _shown(bound: Any) -> str:
    return f"{bound:g}" if isinstance(bound, float) else str(bound)


def show(reference: str, *, scaling: str = "columns") -> None:
    """Show :func:`statement` and the table of public facts on a page."""
    from IPython.display import Markdown, display

    from dpnotes.lab import tables

    display(Markdown(statement(reference, scaling=scaling)))  # type: ignore[no-untyped-call]
    display(
        tables.show(
            public_columns(load(reference)), caption="Public facts about the features."
        )
    )  # type: ignore[no-untyped-call]


@lru_cache(maxsize=2)
def _read(path: Path, target: str) -> OwnDataset:
    return load_file(path, target=target)
