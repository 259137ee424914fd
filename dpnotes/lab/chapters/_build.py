"""Building the book: stale chapters are executed, then the pages are made."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import click

from dpnotes.lab._places import book_folder
from dpnotes.lab.chapters._chapter import Chapter, all_chapters
from dpnotes.lab.chapters._execute import BookError, execute

# Jupyter Book has no __main__, and its script may not be on the path.
_JUPYTER_BOOK = "from jupyter_book.cli.main import main; main()"
_STRICT = ("--all", "-W", "-n", "--keep-going")  # all: a warning is given only when its page is read


def build(*, root: Path | None = None, strict: bool = False, force: bool = False, jobs: int = 2) -> Path:
    """Execute all chapters that are not fresh, and build the book from the executed copies.

    Prints the seconds of each step, and where the book is.

    Parameters
    ----------
    root : Path, optional
        Folder of the book. Default: :func:`dpnotes.lab.store.book_folder`.
    strict : bool
        Read every page anew, and take every warning for an error.
    force : bool
        Execute fresh chapters too.
    jobs : int, >= 1
        How many chapters to execute at a time.

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

    They are executed in worker processes of joblib, which divides the cores among their kernels.
    """
    from joblib import Parallel, delayed

    failures = []
    n_jobs = min(jobs, max(len(chapters), 1))
    parallel = Parallel(n_jobs, backend="loky", return_as="generator_unordered", batch_size=1)
    for name, outcome in parallel(delayed(_execute_for_book)(chapter) for chapter in chapters):
        _say(name, "FAILED" if isinstance(outcome, BookError) else outcome)
        if isinstance(outcome, BookError):
            failures.append(outcome)
    for failure in failures:
        print(f"{failure.trace}\n{failure}\n", file=sys.stderr)
    if failures:
        raise BookError(f"{len(failures)} of {len(chapters)} chapters failed; the book was not built")


def _execute_for_book(chapter: Chapter) -> tuple[str, float | BookError]:
    """Execute a chapter with the parameters of the book; give its name, and its seconds or what became of it."""
    try:
        return chapter.name, execute(chapter, chapter.book_parameters, chapter.executed)
    except BookError as error:
        return chapter.name, error


def _pages(root: Path, strict: bool) -> Path:
    """Let Jupyter Book build the pages."""
    start = time.perf_counter()
    command = [sys.executable, "-c", _JUPYTER_BOOK, "build", ".", "-q", *(_STRICT if strict else ())]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    print(click.unstyle(done.stderr), end="", file=sys.stderr)  # warnings
    if done.returncode:
        print(done.stdout, file=sys.stderr)
        raise BookError("Jupyter Book could not build the pages, for the reasons above; do not trust _build/html")
    _say("pages", time.perf_counter() - start)
    return root / "_build" / "html" / "index.html"


def _say(what: str, outcome: float | str) -> None:
    print(f"{what:24}{outcome if isinstance(outcome, str) else f'{outcome:6.1f} s'}", flush=True)
