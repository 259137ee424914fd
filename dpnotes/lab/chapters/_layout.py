"""Laying the book out in a folder of its own: what the installed package brings of
pages, settings and rows.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from dpnotes import __version__
from dpnotes.lab._places import CHECKOUT, MARK, PACKAGED


def lay_out(
    folder: Path, *, force: bool = False, source: Path = PACKAGED
) -> tuple[list[str], list[str]]:
    """Copy the book into a folder, or update an earlier copy to this version.

    Each file is written completely or not at all. Files that the reader changed,
    including files with adopted rows, are not overwritten. Other files in the folder
    are not touched.

    Parameters
    ----------
    folder : Path
        A folder that is new, empty, or made by this function before; it is made if it
        does not exist.
    force : bool
        Overwrite the reader's changes to files of the book.
    source : Path
        Folder of the book to copy.

    Returns
    -------
    tuple of list of str
        Names of the files that were written, and of the changed files that were not
        overwritten.

    Raises
    ------
    FileNotFoundError
        If the package contains no copy of the book. A checkout contains none, because
        the book's own files are there.
    ValueError
        If the folder contains other files, or its list of files is damaged.
    """
    if not source.is_dir():
        raise FileNotFoundError(
            f"the package contains no book; the book of the checkout {CHECKOUT} is used"
            " everywhere"
        )
    mark = folder / MARK
    before = _marked(mark)
    if not mark.is_file() and folder.is_dir() and any(folder.iterdir()):
        raise ValueError(
            f"FOLDER must be new, empty, or made by `dpnotes book`, got {folder}, which"
            " has other files"
        )
    files = {}
    fresh = {}
    written = []
    kept = []
    for path in sorted(source.rglob("*")):
        if not path.is_file():
            continue
        name = path.relative_to(source).as_posix()
        files[name] = path
        fresh[name] = _sum(path)
        there = folder / name
        own = _sum(there) if there.is_file() else None
        # neither what was laid out nor what would be: the reader changed it
        if own not in (None, before.get(name), fresh[name]) and not force:
            kept.append(name)
        elif own != fresh[name]:
            written.append(name)
    # an interrupted one is gone on with
    _write(mark, json.dumps({"version": __version__, "files": before}).encode())
    for name in written:
        _write(folder / name, files[name].read_bytes())
    _write(
        mark,
        json.dumps(
            {"version": __version__, "files": before | fresh}, indent=1
        ).encode(),
    )
    return written, kept


def _marked(mark: Path) -> dict[str, str]:
    """SHA-256 sums of the files that were laid out before."""
    if not mark.is_file():
        return {}
    try:
        files = json.loads(mark.read_text(encoding="utf-8"))["files"]
        return {str(name): str(own) for name, own in files.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{mark} is damaged; delete the folder, or lay the book out in another one"
        ) from error


def _sum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.tmp")
    partial.write_bytes(content)
    os.replace(partial, path)
