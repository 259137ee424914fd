"""Where the book is, and with it the two folders of stores: results that are
published with the book, and new runs.
"""

import os
from contextlib import suppress
from pathlib import Path

from dpnotes._extras import require

require("book", part="the book")

PACKAGE = Path(__file__).resolve().parents[1]
# where the package is installed this is site-packages, and no checkout
CHECKOUT = PACKAGE.parent
# what the wheel brings: pages, settings and published rows; not in a checkout
PACKAGED = PACKAGE / "lab" / "_book"
# ends the name of the folder of states that a row has in its store until it is finished
STATES = ".states"
# in the root of a folder that `dpnotes book` made: its version and the files it wrote
MARK = ".dpnotes-book.json"


def book_folder() -> Path:
    """Find the folder of the book's settings and pages.

    The folder is the checkout that contains the package. Without a checkout, it is the
    nearest folder that ``dpnotes book`` has made, from the working directory upwards.

    Raises
    ------
    FileNotFoundError
        If there is neither a checkout nor such a folder; the message names the command
        that makes the folder.
    """
    # site-packages has neither
    if (CHECKOUT / "_toc.yml").is_file() and (CHECKOUT / "book").is_dir():
        return CHECKOUT
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / MARK).is_file():
            return folder
    raise FileNotFoundError(
        f"no book in {here} or above it; make one with `dpnotes book FOLDER`, and work"
        " in FOLDER"
    )


def published_store(name: str) -> Path:
    """Give the path of the published rows: ``book/results/<name>.csv`` in the book or,
    without one, in the package.

    Parameters
    ----------
    name : str
        Name of the store, a single part of a path (``"bagging_table2a"``).

    Raises
    ------
    FileNotFoundError
        If there is no book, neither here nor in the package.
    """
    return book_or_packaged() / "book" / "results" / f"{name}.csv"


def paper_file(name: str) -> Path:
    """File of what a paper prints or claims, ``book/results/published/<name>``."""
    return published_store(name).parent / "published" / name


def runs_store(name: str) -> Path:
    """Give the path of the folder of new rows: ``<name>`` in ``$DPNOTES_RUNS``, or in
    ``runs/`` of the book.

    Without a book, the folder is in ``runs/`` of the working directory. The folder need
    not exist.

    Parameters
    ----------
    name : str
        Name of the store, a single part of a path.
    """
    if folder := os.environ.get("DPNOTES_RUNS"):
        return Path(folder).expanduser() / name
    try:
        return book_folder() / "runs" / name
    except FileNotFoundError:  # a chapter by itself, as it is downloaded
        return Path.cwd() / "runs" / name


def unfinished(folder: Path) -> dict[str, int]:
    """Add up the sizes in bytes of the checkpoints of each unfinished row, in all
    stores of a folder.
    """
    sizes: dict[str, int] = {}
    for path in folder.glob(f"*/*{STATES}/*.state"):
        with suppress(FileNotFoundError):  # it is finished by now
            row = path.parent.name.removesuffix(STATES)
            sizes[row] = sizes.get(row, 0) + path.stat().st_size
    return sizes


def book_or_packaged() -> Path:
    """Give the folder of the book or, without one, of the copy in the package.

    Raises
    ------
    FileNotFoundError
        If there is neither.
    """
    try:
        return book_folder()
    except FileNotFoundError:
        if PACKAGED.is_dir():
            return PACKAGED
        raise
