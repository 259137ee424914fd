"""Executing a chapter with papermill."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import click

from dpnotes.lab.chapters._chapter import Chapter
from dpnotes.lab.chapters._errors import BookError


def execute(
    chapter: Chapter, parameters: Mapping[str, object], output: Path, *, timeout: int | None = None, echo: bool = False
) -> float:
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
    timeout : int, optional
        Seconds that a single cell may take; default: any time.
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
        If a cell failed or took too long; ``output`` is what it was before.
    """
    import nbformat
    import papermill
    from nbclient.exceptions import CellTimeoutError, DeadKernelError

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
            execution_timeout=timeout,
            start_timeout=120,
            extra_arguments=["--log-level=50"],  # no notice of TCP (it stays on this machine), none of a late interrupt
        )
    except papermill.PapermillExecutionError as error:
        where = f"chapter {chapter.name!r} failed in cell {error.exec_count}"
        trace = click.unstyle("\n".join(error.traceback))
        raise BookError(f"{where}: {error.ename}: {error.evalue}; {seen}", trace) from None
    except CellTimeoutError:
        raise BookError(f"chapter {chapter.name!r}: a cell took longer than timeout={timeout} s; {seen}") from None
    except DeadKernelError:
        raise BookError(f"chapter {chapter.name!r}: its kernel died, for want of memory perhaps; {seen}") from None
    notebook.metadata["dpnotes"] = {"digest": digest, "parameters": given}
    nbformat.write(notebook, partial)
    partial.replace(output)  # atomic: both are in one folder
    return time.perf_counter() - start
