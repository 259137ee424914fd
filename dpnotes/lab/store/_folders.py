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
    ValueError
        If the name is no file name.
    """
    folder = REPOSITORY / "book" / "results"
    if not folder.is_dir():
        raise FileNotFoundError(
            f"the published results are not there ({folder}): they come with a checkout of the repository, "
            "not with the installed package; clone it and install it with pip install -e"
        )
    return folder / _file(name)


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
    ValueError
        If the name is no file name.
    """
    if folder := os.environ.get("DPNOTES_RUNS"):
        return Path(folder).expanduser() / _file(name)
    if not (REPOSITORY / "book").is_dir():
        raise FileNotFoundError("no checkout of the repository to keep runs in; set DPNOTES_RUNS to a folder for them")
    return REPOSITORY / "runs" / _file(name)


def _file(name: str) -> str:
    if not name or name.startswith(".") or name != Path(name).name or "\\" in name:
        raise ValueError(f"name must be the name of a store, such as 'bagging_table2a', got {name!r}")
    return f"{name}.csv"
