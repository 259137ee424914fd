"""Executing a chapter with papermill."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import click

from dpnotes.lab.chapters._chapter import Chapter


class BookError(RuntimeError):
    """A chapter could not be executed, or the book not be built; what was published before is as it was.

    Parameters
    ----------
    message : str
        One line that says what failed.
    trace : str
        Traceback of the cell that failed; empty if none did.
    """

    def __init__(self, message: str, trace: str = "") -> None:
        super().__init__(message, trace)  # both are args, so that the error travels between processes
        self.trace = trace

    def __str__(self) -> str:
        return str(self.args[0])


def execute(chapter: Chapter, parameters: Mapping[str, object], output: Path, *, echo: bool = False) -> float:
    """Execute a chapter into a new notebook, which is there as a whole or not at all.

    The kernel is the Python that runs this, in the root of the checkout. While it runs, and after a failure, the
    notebook as far as it went is kept beside the output as ``NAME.partial.ipynb``.

    Parameters
    ----------
    chapter : Chapter
    parameters : mapping of str to object
        See `Chapter.check`.
    output : Path
        The executed notebook; its folder is made. Its metadata tell the parameters and the digest.
    echo : bool
        Show on standard error what cells write there, such as progress bars.

    Returns
    -------
    float
        Seconds it took.

    Raises
    ------
    ValueError, TypeError
        If the parameters are not the chapter's; nothing is run.
    BookError
        If a cell failed; ``output`` is what it was before.
    """
    import nbformat
    import papermill
    from nbclient.exceptions import DeadKernelError

    start = time.perf_counter()
    given = chapter.check(parameters)
    digest = chapter.digest(given)  # before execution: what is changed meanwhile makes the copy stale
    output.parent.mkdir(parents=True, exist_ok=True)
    partial = output.with_name(f"{chapter.name}.partial.ipynb")
    seen = f"the notebook as far as it went is {partial}"
    logging.getLogger("papermill").setLevel(logging.ERROR)
    try:
        notebook = papermill.execute_notebook(
            str(chapter.source),
            str(partial),
            parameters=given,
            kernel_name="python3",
            cwd=str(chapter.root),
            progress_bar=False,
            stderr_file=sys.stderr if echo else None,
            start_timeout=120,
            extra_arguments=["--log-level=50"],  # no notice of TCP (it stays on this machine), none of a late interrupt
        )
    except papermill.PapermillExecutionError as error:
        where = f"chapter {chapter.name!r} failed in cell {error.exec_count}"
        trace = click.unstyle("\n".join(error.traceback))
        raise BookError(f"{where}: {error.ename}: {error.evalue}; {seen}", trace) from None
    except DeadKernelError:
        raise BookError(f"chapter {chapter.name!r}: its kernel died, for want of memory perhaps; {seen}") from None
    notebook.metadata["dpnotes"] = {"digest": digest, "parameters": given}
    nbformat.write(notebook, partial)
    partial.replace(output)  # atomic: both are in one folder
    return time.perf_counter() - start
