"""Building the book: execute what is not fresh, then let Jupyter Book make the pages."""

from __future__ import annotations

import contextlib
import importlib.util
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from multiprocessing.connection import Connection
from pathlib import Path

import click

from dpnotes.lab.chapters._chapter import ROOT, Chapter, all_chapters
from dpnotes.lab.chapters._errors import BookError
from dpnotes.lab.chapters._execute import execute

# Jupyter Book has no __main__, and its script may not be on the path.
_JUPYTER_BOOK = "from jupyter_book.cli.main import main; main()"
_STRICT = ("--all", "-W", "-n", "--keep-going")  # all: a warning is given only when its page is read


def build(*, root: Path = ROOT, strict: bool = False, force: bool = False, jobs: int = 2) -> Path:
    """Execute all chapters that are not fresh, and build the book from the executed copies.

    Prints the seconds of each step, and where the book is.

    Parameters
    ----------
    root : Path
        The checkout.
    strict : bool
        Read every page anew, and take every warning for an error.
    force : bool
        Execute fresh chapters too.
    jobs : int, >= 1
        How many chapters to execute at a time, each in a process of its own.

    Returns
    -------
    Path
        The page to open.

    Raises
    ------
    BookError
        If Jupyter Book is not installed, a chapter failed, or the pages could not be built.
    """
    if jobs < 1:
        raise ValueError(f"jobs must be at least 1, got jobs={jobs}")
    if importlib.util.find_spec("jupyter_book") is None:
        raise BookError("building the book needs Jupyter Book: pip install -r requirements.txt -c constraints.txt")
    start = time.perf_counter()
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
    """Execute chapters for the book; all are tried before the first failure is raised."""
    failures = []
    pool = ThreadPoolExecutor(jobs)
    # Threads that fight for cores are slower than none: each of several kernels has one.
    settings = {"OMP_NUM_THREADS": "1"} if min(jobs, len(chapters)) > 1 else {}
    try:
        running = {pool.submit(_in_own_process, chapter, settings): chapter.name for chapter in chapters}
        for future in as_completed(running):
            try:
                _say(running[future], future.result())
            except BookError as error:
                _say(running[future], "FAILED")
                failures.append(error)
    finally:
        pool.shutdown(cancel_futures=True)  # after an interruption no further chapter is begun
    for failure in failures:
        print(f"{failure.trace}\n{failure}\n", file=sys.stderr)
    if failures:
        raise BookError(f"{len(failures)} of {len(chapters)} chapters failed; the book was not built")


def _in_own_process(chapter: Chapter, settings: Mapping[str, str]) -> float:
    """Execute a chapter for the book in a process that ends with it, whatever becomes of this one; give its seconds."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_execute_for_book, args=(chapter, settings, sender))
    process.start()
    sender.close()
    try:
        outcome = receiver.recv()
    except EOFError:
        outcome = BookError(f"chapter {chapter.name!r}: its process died, for want of memory perhaps")
    process.join()
    if isinstance(outcome, Exception):
        raise outcome
    return float(outcome)


def _execute_for_book(chapter: Chapter, settings: Mapping[str, str], sender: Connection) -> None:
    outcome: float | Exception
    os.environ.update({name: value for name, value in settings.items() if name not in os.environ})
    try:
        outcome = execute(chapter, chapter.book_parameters, chapter.executed)
    except KeyboardInterrupt:  # the other process says so
        return
    except Exception as error:
        outcome = error
    with contextlib.suppress(BrokenPipeError):  # the parent process has ended
        sender.send(outcome)


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
