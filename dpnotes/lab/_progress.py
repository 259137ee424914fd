"""What a sweep says while it runs: on standard error, or, in the kernel of a chapter,
to the process that runs it.

A chapter's own standard error belongs into its notebook; ``dpnotes run`` names a file
in ``$DPNOTES_PROGRESS`` instead, and shows what is written there.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CHANNEL = "DPNOTES_PROGRESS"


def bar(experiment: str, total: int, *, progress: bool) -> Any:
    """A bar of tqdm over rows, which the caller updates and closes; it shows nothing
    if nobody wants it.
    """
    from tqdm import tqdm

    return tqdm(
        total=total,
        desc=experiment,
        unit="row",
        file=_stream(),
        # a chapter's sweeps ask for none, but `dpnotes run` shows them
        disable=not (progress or _watched()),
    )


def say(text: str) -> None:
    """Write a line for the process that runs the chapter, if there is one."""
    if _watched():
        print(text, file=_stream(), flush=True)


def _watched() -> bool:
    return CHANNEL in os.environ


def _stream() -> Any:
    return _Channel(Path(os.environ[CHANNEL])) if _watched() else sys.stderr


@dataclass(frozen=True)
class _Channel:
    """What tqdm and print need of a text stream; nothing is left open or unwritten."""

    path: Path

    def write(self, text: str) -> None:
        # appended, as processes share the file
        with self.path.open("a", encoding="utf-8") as file:
            file.write(text)

    def flush(self) -> None:
        pass
