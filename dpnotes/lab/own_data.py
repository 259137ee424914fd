"""The reader's own records in a chapter: how a row names them, and what the page says of them."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd

from dpnotes.data import OwnDataset, load_file

_TARGET, _DIGEST = "?target=", "&digest="


def reference(dataset: str, target: str = "") -> str:
    """What rows call a file: its full path, the target and a digest, so that rows of another content are not taken.

    Parameters
    ----------
    dataset : str
        See :func:`dpnotes.data.load_file`. A relative path may start where the command was given.
    target : str
        Column of the classes; empty: the last one, or ``y``.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it cannot be used; the message lists all that is wrong with it.
    """
    path = Path(dataset).expanduser()
    starts = [Path.cwd(), Path(os.environ.get("PWD", "."))]  # chapters run in the folder of the book
    found = next((start / path for start in starts if (start / path).is_file()), None)
    if found is None:
        places = " or ".join(dict.fromkeys(map(str, starts)))
        raise FileNotFoundError(f"dataset must be a .csv or .npz file, got {dataset!r}: no such file is in {places}")
    return f"{found.absolute()}{_TARGET}{target}{_DIGEST}{_read(found, target).digest}"


def is_own(dataset: str) -> bool:
    """Tell whether a row's data set is a reader's file."""
    return _TARGET in dataset


def load(reference: str) -> OwnDataset:
    """The records of a row.

    Raises
    ------
    ValueError
        If the file is another one by now.
    """
    path, _, rest = reference.rpartition(_TARGET)
    target, _, digest = rest.rpartition(_DIGEST)
    own = _read(Path(path), target)
    if own.digest != digest:
        raise ValueError(f"{path} changed while its rows were computed")
    return own


def label(dataset: str) -> str:
    """Name of a data set as tables show it."""
    return Path(dataset.rpartition(_TARGET)[0]).name if is_own(dataset) else dataset


SCALINGS = {
    "columns": "; then all divided by the root of the number of columns, {bound:.3g}, so that none is longer than 1",
    "record": "; then each record divided by its own norm",
    "none": "",
}


def statement(reference: str, *, scaling: str = "columns") -> str:
    """What is private, what is public and what is done to each record, in Markdown; scaling: one of SCALINGS."""
    own = load(reference)
    taken = [] if own.classes_given else ["the classes"]
    taken += [f"`{column.name}`" for column in own.columns if not column.given]
    source = "All of it was given beforehand, in the file beside the table."
    if taken:
        source = (
            f"**Taken from the records, as if it were public, which no guarantee counts:** {', '.join(taken)}. Give it "
            f"beforehand, in a file `{own.name}.toml` beside the table, unless it is known to everyone."
        )
    return "\n".join(
        [
            f"* **Private**: what each record of `{label(reference)}` holds, its features and its class.",
            f"* **Public**: that there are {own.n_train + own.n_test:,} records; the columns, their bounds and "
            f"categories, and the {own.n_classes} classes: {', '.join(own.class_names)}. {source}",
            f"* **Preparation**, of each record by itself: numbers from their bounds to [-1, 1], a number outside "
            f"clipped; categories to indicators{SCALINGS[scaling].format(bound=own.bound)}.",
            "* **Not private**: the accuracies below. They are computed from test records as they are.",
            *(f"* **Not private**, too: {told}." for told in own.unread()),
        ]
    )


def public_columns(own: OwnDataset) -> pd.DataFrame:
    """What is public of each column: column, kind, public (bounds or categories, in words), given."""
    rows = [
        (column.name, "numbers", "{:g} to {:g}".format(*column.known), column.given)
        if column.is_number
        else (column.name, "categories", ", ".join(map(str, column.known)), column.given)
        for column in own.columns
    ]
    table = pd.DataFrame(rows, columns=["column", "kind", "public", "given"])
    return table.assign(given=np.where(table["given"], "beforehand", "taken from the records"))


def show(reference: str, *, scaling: str = "columns") -> None:
    """Say on a page what is private, public and prepared; see :func:`statement`."""
    from IPython.display import Markdown, display

    from dpnotes.lab import tables

    display(Markdown(statement(reference, scaling=scaling)))  # type: ignore[no-untyped-call]
    display(tables.show(public_columns(load(reference)), caption="What is public of the features."))  # type: ignore[no-untyped-call]


@lru_cache(maxsize=2)
def _read(path: Path, target: str) -> OwnDataset:
    return load_file(path, target=target)
