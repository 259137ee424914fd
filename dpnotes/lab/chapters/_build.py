"""Building the book: stale chapters are executed, then the pages are made, and
printed as one PDF where asked.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

from dpnotes import __version__
from dpnotes._chromium import browser
from dpnotes.lab._places import book_folder
from dpnotes.lab.chapters._chapter import Chapter, all_chapters, pages
from dpnotes.lab.chapters._checks import values_of_text
from dpnotes.lab.chapters._display import values_cell
from dpnotes.lab.chapters._execute import BookError, execute

# Jupyter Book has no __main__, and its script may not be on the path.
_JUPYTER_BOOK = "from jupyter_book.cli.main import main; main()"
# all: a warning is given only when its page is read
_STRICT = ("--all", "-W", "-n", "--keep-going")


def build(
    *,
    root: Path | None = None,
    strict: bool = False,
    force: bool = False,
    jobs: int = 2,
) -> Path:
    """Execute all chapters that are not fresh, and build the book from the executed
    copies.

    The function prints how many seconds each step took, and where the book is.

    Parameters
    ----------
    root : Path, optional
        Folder of the book. Default: :func:`dpnotes.lab.store.book_folder`.
    strict : bool
        Re-read every page and treat warnings as errors.
    force : bool
        Execute unchanged chapters too.
    jobs : int, >= 1
        Number of chapters to execute at a time.

    Returns
    -------
    Path
        The page to open.

    Raises
    ------
    BookError
        If a chapter failed, or the pages could not be built.
    """
    start = time.perf_counter()
    root = root or book_folder()
    chapters = all_chapters(root)
    # before anything is executed: all digests are of one moment
    stale = [chapter for chapter in chapters if force or not chapter.is_fresh()]
    for chapter in chapters:
        if chapter not in stale:
            _say(chapter.name, "fresh")
    _execute_all(stale, jobs)
    page = _pages(root, strict)
    _say("total", time.perf_counter() - start)
    print(f"open {page.relative_to(root)}, or {page.as_uri()} in a browser", flush=True)
    return page


def _execute_all(chapters: Sequence[Chapter], jobs: int) -> None:
    """Execute chapters for the book; all are tried before the first failure is raised.

    They are executed in worker processes of joblib, which divides the cores among their
    kernels.
    """
    from joblib import Parallel, delayed

    failures = []
    # joblib wants at least one
    n_jobs = min(jobs, max(len(chapters), 1))
    parallel = Parallel(
        n_jobs, backend="loky", return_as="generator_unordered", batch_size=1
    )
    for name, outcome in parallel(
        delayed(_execute_for_book)(chapter) for chapter in chapters
    ):
        _say(name, "FAILED" if isinstance(outcome, BookError) else outcome)
        if isinstance(outcome, BookError):
            failures.append(outcome)
    for failure in failures:
        print(f"{failure.trace}\n{failure}\n", file=sys.stderr)
    if failures:
        raise BookError(
            f"{len(failures)} of {len(chapters)} chapters failed; the book was not"
            " built"
        )


def _execute_for_book(chapter: Chapter) -> tuple[str, float | BookError]:
    """Execute a chapter with the parameters of the book; give its name, and its
    seconds or what became of it.
    """
    try:
        start = time.perf_counter()
        # a sentence that is not true ends it before anything is written
        values = values_of_text(chapter)
        execute(chapter, chapter.book_parameters, chapter.executed, values=values)
        return chapter.name, time.perf_counter() - start
    except BookError as error:
        return chapter.name, error


def _pages(root: Path, strict: bool) -> Path:
    """Let Jupyter Book build the pages, and show its warnings."""
    start = time.perf_counter()
    done = _jupyter_book(root, *(_STRICT if strict else ()))
    # warnings of Sphinx, without colours
    print(click.unstyle(done.stderr), end="", file=sys.stderr)
    if done.returncode:
        print(done.stdout, file=sys.stderr)
        raise BookError(
            "Jupyter Book could not build the pages, for the reasons above; do not"
            " trust _build/html"
        )
    _say("pages", time.perf_counter() - start)
    return root / "_build" / "html" / "index.html"


def _jupyter_book(root: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", _JUPYTER_BOOK, "build", ".", "-q", *options]
    return subprocess.run(command, cwd=root, capture_output=True, text=True)


def page_of(notebook: Path) -> Path:
    """Make a self-contained page of one executed chapter, in the folder ``html`` next
    to the notebook.

    The page looks like a page of the book and has the references. Links to other pages
    of the book do not work, and this is not reported as a warning.

    Parameters
    ----------
    notebook : Path
        See :func:`execute`.

    Returns
    -------
    Path
        The page to open.

    Raises
    ------
    BookError
        If Jupyter Book cannot make it.
    """
    root = book_folder()
    page = notebook.parent / "html" / f"{notebook.stem}.html"
    # the page is of this execution
    if page.is_file() and page.stat().st_mtime > notebook.stat().st_mtime:
        return page
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "_toc.yml").write_text(
            f"format: jb-book\nroot: {notebook.stem}\nchapters:\n- file: references\n"
        )
        shown = json.loads(notebook.read_text(encoding="utf-8"))
        name = shown["metadata"]["dpnotes"]["chapter"]
        (own,) = (each for each in all_chapters(root) if each.name == name)
        shown["cells"].append(values_cell(values_of_text(own)))
        (folder / notebook.name).write_text(json.dumps(shown), encoding="utf-8")
        for part in (
            root / "_config.yml",
            root / "book",
            root / "book" / "references.md",
        ):
            # pictures and references are found where the book has them
            (folder / part.name).symlink_to(part.absolute())
        if (done := _jupyter_book(folder)).returncode:
            raise BookError(
                f"Jupyter Book could not make a page of {notebook}",
                click.unstyle(done.stderr),
            )
        shutil.copytree(folder / "_build" / "html", page.parent, dirs_exist_ok=True)
    return page


def _say(what: str, outcome: float | str) -> None:
    print(
        f"{what:24}{outcome if isinstance(outcome, str) else f'{outcome:6.1f} s'}",
        flush=True,
    )


# formats and scale: a line of text has about 85 characters
MARGINS = {"top": "20mm", "right": "18mm", "bottom": "20mm", "left": "18mm"}
PAPER = {"format": "A4", "margin": MARGINS, "scale": 0.9}
WIDTH = 730  # CSS pixels between the margins of A4 at that scale
# names of functions and long tables are read on a screen
LEFT_OUT = ("api", "evidence")


# where the first page leads to the PDF, once there is one
PLACE = '<p class="whole"></p>'
LINK = '<p class="whole"><a href="../book.pdf">The whole book as a PDF</a></p>'

STYLE, PREPARE = (
    (Path(__file__).parent / name).read_text(encoding="utf-8")
    for name in ("print.css", "print.js")
)


def print_book(root: Path | None = None) -> Path:
    """Print the built book as ``_build/html/book.pdf``: a cover, the contents, and the pages
    with numbers and running heads, without the interface and the evidence. The first page
    then leads to it.

    Formulas and tables that are wider than the paper are scaled down; if one still does
    not fit, this is an error. Folded code and long lists are left out; other folded
    outputs and solutions are printed open.

    Parameters
    ----------
    root : Path, optional
        Folder of the book. Default: :func:`dpnotes.lab.store.book_folder`.

    Returns
    -------
    Path
        The PDF.

    Raises
    ------
    BookError
        If the book is not built, a library or Chromium is missing, or part of a page
        would be cut off.
    """
    root = root or book_folder()
    pages = _built_pages(root)
    written = root / "_build" / "html" / "book.pdf"
    with browser("pypdf", error=BookError) as opened, TemporaryDirectory() as folder:
        from pypdf import PdfReader, PdfWriter

        tab = opened.new_page(
            viewport={"width": WIDTH, "height": 1200}, color_scheme="light"
        )
        tab.emulate_media(media="print")
        paper: dict[str, Any] = {"print_background": True, "tagged": True, **PAPER}

        parts = []
        cut = []
        for number, page in enumerate(pages):
            tab.goto(page.as_uri())
            tab.add_style_tag(content=STYLE)
            cut += [f"{page.stem}: {text}" for text in tab.evaluate(PREPARE)]
            part = Path(folder) / f"{number}.pdf"
            tab.pdf(path=part, outline=True, **paper)
            title = tab.evaluate("document.querySelector('article h1').innerText")
            parts.append((title.strip("# \n"), part, len(PdfReader(part).pages)))
        # all pages are looked at, so that one run names all that is cut
        if cut:
            raise BookError(
                f"{len(cut)} formulas or tables do not fit on the paper:"
                f" {'; '.join(cut)}"
            )

        # how many pages the contents take decides which numbers they show
        front = Path(folder) / "front.pdf"
        taken = 0
        while taken != (taken := _print(tab, _front(parts, taken), front, paper)):
            pass
        heads = Path(folder) / "heads.pdf"
        _print(tab, _heads(parts, taken), heads, paper | {"margin": None, "scale": 1})

        book = PdfWriter()
        book.append(front, outline_item="Contents")
        for _, part, _ in parts:
            book.append(part)
        for page, head in zip(book.pages[taken:], PdfReader(heads).pages, strict=True):
            # the white of a head covers its page, that of a page only its text
            page.merge_page(head, over=False)
        partial = written.with_suffix(".partial")
        book.write(partial)
        partial.replace(written)
    # a page that is built without the PDF has only the place
    first = pages[0]
    text = first.read_text(encoding="utf-8")
    first.write_text(text.replace(PLACE, LINK), encoding="utf-8")
    return written


def _print(tab: Any, html: str, path: Path, paper: dict[str, Any]) -> int:
    """Print HTML; give the number of its pages."""
    from pypdf import PdfReader

    tab.set_content(f"<style>{STYLE}</style>{html}")
    tab.pdf(path=path, **paper)
    return len(PdfReader(path).pages)


def _front(parts: Sequence[tuple[str, Path, int]], before: int) -> str:
    """The cover and the contents; ``before`` pages are before the first part."""
    lines = []
    # pages are counted from the cover on
    number = before + 1
    for title, _, count in parts:
        lines.append(f"<li><span>{escape(title)}</span><b>{number}</b></li>")
        number += count
    return (
        f'<section class="cover"><h1>{escape(parts[0][0])}</h1>'
        f"<p>dpnotes {__version__}</p></section>"
        f'<h1>Contents</h1><ul class="contents">{"".join(lines)}</ul>'
    )


def _heads(parts: Sequence[tuple[str, Path, int]], before: int) -> str:
    """What stands above the text of each page: its title and its number."""
    heads = []
    number = before
    for title, _, count in parts:
        for _ in range(count):
            number += 1
            heads.append(
                f'<p class="running"><span>{escape(title)}</span><b>{number}</b></p>'
            )
    return "".join(heads)


def _built_pages(root: Path) -> list[Path]:
    """Built pages that are printed, in the order of the table of contents."""
    html = root / "_build" / "html"
    built = [
        html / f"{page}.html"
        for page in pages(root)
        if not set(LEFT_OUT) & set(page.parts)
    ]
    if missing := [page for page in built if not page.is_file()]:
        raise BookError(
            f"the book is not built, there is no {missing[0]}: run `dpnotes build`"
            " first"
        )
    return built
