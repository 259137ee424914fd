"""Executing chapters with papermill: what a run shows, what it leaves behind, and
when an earlier one will do.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import shutil
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TextIO

import click

from dpnotes._processes import leftovers
from dpnotes.lab._progress import CHANNEL
from dpnotes.lab.chapters._chapter import Chapter
from dpnotes.lab.chapters._display import values_cell

if TYPE_CHECKING:
    from traitlets.config import Config

_TITLE = re.compile(r"^#{1,3} (.+)$", re.MULTILINE)
_EACH = 0.2  # seconds between two looks at what the kernel says


class BookError(RuntimeError):
    """Error for a chapter that was not executed or a book that was not built; earlier
    output is unchanged.

    Parameters
    ----------
    message : str
        One line that says what failed.
    trace : str
        Traceback of the cell that failed; empty if no cell failed.
    """

    def __init__(self, message: str, trace: str = "") -> None:
        # both are args, so that the error travels between processes
        super().__init__(message, trace)
        self.trace = trace

    def __str__(self) -> str:
        return str(self.args[0])


def execute(
    chapter: Chapter,
    parameters: Mapping[str, object],
    output: Path,
    *,
    values: Mapping[str, object] | None = None,
    echo: bool = False,
) -> float:
    """Execute a chapter into a new notebook, which is written completely or not at all.

    The kernel runs in the folder of the book, with the Python that runs this function.
    During the run, the unfinished notebook is saved next to the output under a name
    that contains the number of this process; after a failure, it is named
    ``NAME.partial.ipynb``.

    Parameters
    ----------
    chapter : Chapter
    parameters : mapping of str to object
        See `Chapter.check`.
    output : Path
        Path of the executed notebook; its folder is made. The metadata of the notebook
        hold the parameters and the digest.
    values : mapping of str to object, optional
        Values that the text shows, by name: see :func:`values_of_text`.
    echo : bool
        Whether to show, on standard error, the titles of the sections as they are
        reached, the progress over rows, and the text that cells write there.

    Returns
    -------
    float
        Duration in seconds.

    Raises
    ------
    ValueError, TypeError
        If the chapter does not have these parameters; no cell is run.
    BookError
        If a cell failed; ``output`` is then unchanged.
    """
    import nbformat
    import papermill

    start = time.perf_counter()
    given = chapter.check(parameters)
    # before execution: what is changed meanwhile makes the copy stale
    digest = chapter.digest(given)
    output.parent.mkdir(parents=True, exist_ok=True)
    for leftover in leftovers(output.parent, f"{output.stem}.", ".partial.ipynb"):
        leftover.unlink(missing_ok=True)
    # two executions of one chapter do not meet
    partial = output.with_name(
        f"{output.stem}.{os.getpid()}-{threading.get_ident()}.partial.ipynb"
    )
    failed = output.with_name(f"{output.stem}.partial.ipynb")
    seen = f"the notebook as far as it went is {failed}"
    # of a kernel that died or was stopped: it is said below
    for talkative in ("papermill", "traitlets", "asyncio"):
        logging.getLogger(talkative).setLevel(logging.CRITICAL)
    try:
        showing: AbstractContextManager[dict[str, Any]] = (
            _shown(start) if echo else nullcontext({})
        )
        with showing as hooks, _sockets() as config:
            notebook = papermill.execute_notebook(
                _literal(chapter.source),
                _literal(partial),
                parameters=given,
                kernel_name="python3",
                cwd=str(chapter.root),
                progress_bar=False,
                stderr_file=sys.stderr if echo else None,
                start_timeout=120,
                config=config,
                # no notice of a late interrupt
                extra_arguments=["--log-level=50"],
                **hooks,
            )
        if values:
            notebook.cells.append(nbformat.from_dict(values_cell(values)))
        # by which the build knows whether the copy is fresh
        notebook.metadata["dpnotes"] = {
            "chapter": chapter.name,
            "digest": digest,
            "parameters": given,
            "rows": _rows(chapter, output.parent),
        }
        nbformat.write(notebook, partial)
        partial.replace(output)  # atomic: both are in one folder
    except papermill.PapermillExecutionError as error:
        where = f"chapter {chapter.name!r} failed in cell {error.exec_count}"
        trace = click.unstyle("\n".join(error.traceback))
        raise BookError(
            f"{where}: {error.ename}: {error.evalue}; {seen}", trace
        ) from None
    # of jupyter_client, if it did not start, or of nbclient, if it ended meanwhile
    except RuntimeError as error:
        raise BookError(
            f"chapter {chapter.name!r}: its kernel died, for want of memory perhaps"
            f" ({error}); {seen}"
        ) from None
    finally:
        # as far as it went
        if partial.is_file():
            partial.replace(failed)
    failed.unlink(missing_ok=True)  # of an earlier run
    return time.perf_counter() - start


def is_unchanged(
    chapter: Chapter, parameters: Mapping[str, object], output: Path
) -> bool:
    """Check whether executing a chapter would reproduce an executed notebook.

    This is so if the chapter, the package, the published results, the files that
    parameters name, and the rows next to the notebook are unchanged. A run of all rows
    (``compute="all"``) is never skipped. The parameters are those of `execute`.
    """
    given = chapter.check(parameters)
    recorded = chapter.recorded(output)
    same = recorded.get("digest") == chapter.digest(given) and recorded.get(
        "rows"
    ) == _rows(chapter, output.parent)
    return same and given.get("compute") != "all"


def _rows(chapter: Chapter, folder: Path) -> str:
    """Digest of the rows of a chapter in the folder of runs."""
    total = hashlib.sha256()
    for path in sorted(folder.glob(f"{chapter.name}*/*.json")):
        total.update(path.name.encode() + hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


def _literal(path: Path) -> str:
    """A path as papermill takes it, which would replace names in braces by
    parameters.
    """
    return str(path).replace("{", "{{").replace("}", "}}")


@contextmanager
def _sockets() -> Iterator[Config]:
    """Configuration of a kernel that is spoken to through files in a folder of its own.

    A port is found free before the kernel takes it: of chapters that start together,
    two may find the same.
    """
    from traitlets.config import Config

    # a short path: the system allows about a hundred characters
    with TemporaryDirectory(prefix="dpnotes.") as folder:
        manager = {"transport": "ipc", "connection_file": f"{folder}/kernel.json"}
        # there are no such sockets on Windows
        yield Config({"KernelManager": manager} if os.name == "posix" else {})


@contextmanager
def _shown(start: float, stream: TextIO | None = None) -> Iterator[dict[str, Any]]:
    """Show titles of cells, and what sweeps in the kernel say; gives papermill's hook
    for the first.

    A kernel's own output belongs into the notebook. What is for the terminal alone, it
    writes into a file.
    """
    stream = stream or sys.stderr
    with TemporaryDirectory(prefix="dpnotes.") as folder:
        channel = Path(folder) / "progress"
        channel.touch()
        done = threading.Event()
        turn = threading.Lock()
        at = 0

        def copy() -> None:
            nonlocal at
            with turn:
                said = channel.read_bytes()[at:]
                # a character may be written in part
                whole = len(said.decode("utf-8", "ignore").encode())
                stream.write(said[:whole].decode("utf-8"))
                stream.flush()
                at += whole

        def follow() -> None:
            while not done.wait(_EACH):
                copy()

        def title(cell: Mapping[str, Any], cell_index: int) -> None:  # nbclient's names
            found = (
                _TITLE.search(cell["source"])
                if cell["cell_type"] == "markdown"
                else None
            )
            if found:
                copy()
                print(
                    f"{time.perf_counter() - start:6.0f} s  {found[1]}",
                    file=stream,
                    flush=True,
                )

        # the kernel has no terminal to ask
        width = shutil.get_terminal_size().columns - 1
        # a log is not a terminal
        slow = {} if stream.isatty() else {"TQDM_MININTERVAL": "30"}
        before = {
            name: os.environ.get(name)
            for name in (CHANNEL, "TQDM_NCOLS", "TQDM_MININTERVAL")
        }
        os.environ.update({CHANNEL: str(channel), "TQDM_NCOLS": str(width)} | slow)
        follower = threading.Thread(target=follow, daemon=True)
        follower.start()
        try:
            yield {"on_cell_start": title}
        finally:
            done.set()
            follower.join()
            copy()
            for name, value in before.items():
                os.environ.pop(name, None)
                if value is not None:
                    os.environ[name] = value
