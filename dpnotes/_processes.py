"""Leftovers of processes that were killed: who has made a file, and whether that
process still runs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path


def leftovers(folder: Path, before: str, after: str = "") -> Iterator[Path]:
    """Give what a folder has under names ``BEFORE<process id>-ANYTHING<AFTER>`` whose
    process does not run any more.

    Of processes of this machine; where a process cannot be asked for (elsewhere than on
    POSIX), nothing is given.
    """
    pattern = re.compile(re.escape(before) + r"(\d+)-.*" + re.escape(after))
    for path in folder.iterdir():
        found = pattern.fullmatch(path.name)
        if found and os.name == "posix" and not _runs(int(found[1])):
            yield path


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)  # no signal: only asks
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # another user's, or no number of a process at all
        return True
    return True
