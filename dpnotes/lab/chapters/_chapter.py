"""Where chapters are, which parameters they take, and whether their executed copies are fresh."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

from dpnotes.lab._places import PACKAGE, book_folder
from dpnotes.lab.chapters._parameters import Parameter, check, parse

EVIDENCE = "_evidence"  # ends the name of a page that has the evidence of a chapter
SUMMARIES = ("scorecard",)  # chapters that read the results of all


@dataclass(frozen=True)
class Chapter:
    """One notebook of the book.

    Parameters
    ----------
    name : str
        Name of its file without the ending, ``"bagging"``; unique in the book.
    root : Path
        Folder of the book.
    folder : str
        Of its page, from there.
    """

    name: str
    root: Path = field(default_factory=book_folder)
    folder: str = "book"

    @property
    def source(self) -> Path:
        """The notebook as committed."""
        return self.root / self.folder / f"{self.name}.ipynb"

    @property
    def executed(self) -> Path:
        """The executed copy that the book shows; it need not exist."""
        return self.root / "_build" / "executed" / self.folder / f"{self.name}.ipynb"

    @property
    def of(self) -> str:
        """Name of the chapter whose experiments it reads, which is its own unless it is the evidence of another one."""
        return self.name.removesuffix(EVIDENCE)

    @cached_property
    def parameters(self) -> dict[str, Parameter]:
        """Parameters by name, in the order of the cell.

        Raises
        ------
        ValueError
            If the notebook has not exactly one cell tagged ``parameters``, or the cell holds more than literals.
        """
        cells = [cell for cell in _json(self.source)["cells"] if "parameters" in cell["metadata"].get("tags", [])]
        if len(cells) != 1:
            raise ValueError(f"{self.source} must have one cell tagged 'parameters', got {len(cells)}")
        return parse("".join(cells[0]["source"]), self.name)

    @property
    def book_parameters(self) -> dict[str, Any]:
        """What the book executes the chapter with, apart from its defaults; no run, only stored results."""
        return {"compute": "stored"} if "compute" in self.parameters else {}

    def check(self, given: Mapping[str, object]) -> dict[str, Any]:
        """Give parameters as the chapter takes them.

        Parameters
        ----------
        given : mapping of str to object
            Values by name; text is read as a Python literal where the chapter's own value is not text.

        Raises
        ------
        ValueError
            If there is no parameter of a name; the message lists the known ones.
        TypeError
            If a value is of another type than the chapter's own.
        """
        return check(self.parameters, given, self.name)

    def digest(self, parameters: Mapping[str, Any] | None = None) -> str:
        """SHA-256 sum over all that decides what the executed chapter shows.

        That is the notebook, the package, the parameters, and those stored results whose name begins with the chapter's
        (``book/results/bagging*.csv``, and in ``published/`` there): a chapter and its evidence read no others; the
        scorecard reads all. Where a parameter names a file, its content counts as well.

        Parameters
        ----------
        parameters : mapping of str to object, optional
            What it is executed with; default: what the book executes it with.
        """
        results = self.root / "book" / "results"
        names = "*.csv" if self.name in SUMMARIES else f"{self.of}*.csv"
        stored = [path for folder in (results, results / "published") for path in folder.glob(names)]
        total = hashlib.sha256()
        own = self.root / "dpnotes"  # of a checkout; where the package is installed, it lies elsewhere
        package = own if own.is_dir() else PACKAGE
        for folder, paths in ((self.root, [self.source, *stored]), (package.parent, package.rglob("*.py"))):
            for path in sorted(paths):
                total.update(f"{path.relative_to(folder).as_posix()}\n".encode())
                total.update(hashlib.sha256(path.read_bytes()).digest())
        given = self.book_parameters if parameters is None else parameters
        for value in given.values():
            if isinstance(value, str) and value and Path(value).is_file():  # a reader's own data, and what is public
                files = (Path(value), Path(value).with_suffix(".toml"))
                for path in filter(Path.is_file, files):
                    total.update(hashlib.sha256(path.read_bytes()).digest())
        total.update(json.dumps(given, sort_keys=True).encode())
        return total.hexdigest()

    def is_fresh(self) -> bool:
        """Tell whether the executed copy is there and shows what executing the chapter now would show."""
        return bool(self.recorded(self.executed).get("digest") == self.digest())

    def recorded(self, path: Path) -> dict[str, Any]:
        """What an executed notebook records of its execution: digest, parameters; empty if it is none, or damaged."""
        try:
            return dict(_json(path)["metadata"]["dpnotes"])
        except (OSError, ValueError, KeyError, TypeError):
            return {}


def all_chapters(root: Path | None = None) -> list[Chapter]:
    """Give the chapters in the order of the table of contents.

    Parameters
    ----------
    root : Path, optional
        Folder of the book. Default: :func:`dpnotes.lab.store.book_folder`.

    Raises
    ------
    FileNotFoundError
        If there is no book.
    """
    from sphinx_external_toc.parsing import parse_toc_yaml

    root = root or book_folder()
    pages = map(PurePosixPath, parse_toc_yaml(root / "_toc.yml"))
    found = [Chapter(page.name, root, str(page.parent)) for page in pages]
    return [chapter for chapter in found if chapter.source.is_file()]  # other pages are Markdown


def chapter(name: str, root: Path | None = None) -> Chapter:
    """Give one chapter.

    Parameters
    ----------
    name : str
        Name of its file without the ending.
    root : Path, optional
        Folder of the book. Default: :func:`dpnotes.lab.store.book_folder`.

    Raises
    ------
    ValueError
        If there is no such chapter; the message lists the known ones.
    FileNotFoundError
        If there is no book.
    """
    known = {chapter.name: chapter for chapter in all_chapters(root)}
    if name not in known:
        raise ValueError(f"unknown chapter {name!r}; known: {', '.join(known)}")
    return known[name]


def _json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))
