"""Where stores lie: results that are published with the book, and new runs."""

import os
from pathlib import Path

from dpnotes.lab.store._provenance import REPOSITORY


def published_store(name: str) -> Path:
    """File of the published rows, ``book/results/<name>.csv`` of the checkout that the package is used from.

    Parameters
    ----------
    name : str
        Name of the store, a single part of a path (``"bagging_table2a"``).

    Raises
    ------
    FileNotFoundError
        If the package is installed without the book.
    """
    folder = REPOSITORY / "book" / "results"
    if not folder.is_dir():
        raise FileNotFoundError(
            f"the published results are not there ({folder}): they come with a checkout of the repository, "
            "not with the installed package; clone it and install it with pip install -e"
        )
    return folder / f"{name}.csv"


def runs_store(name: str) -> Path:
    """File of new rows: ``<name>.csv`` in the folder ``$DPNOTES_RUNS``, or in ``runs/`` of the checkout.

    Neither the file nor its folder need exist.

    Parameters
    ----------
    name : str
        Name of the store, a single part of a path.

    Raises
    ------
    FileNotFoundError
        If the package is installed without the book and ``DPNOTES_RUNS`` is not set.
    """
    if folder := os.environ.get("DPNOTES_RUNS"):
        return Path(folder).expanduser() / f"{name}.csv"
    if not (REPOSITORY / "book").is_dir():
        raise FileNotFoundError("no checkout of the repository to keep runs in; set DPNOTES_RUNS to a folder for them")
    return REPOSITORY / "runs" / f"{name}.csv"
