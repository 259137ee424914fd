"""Text that a command worked out once and tells again as long as no file that it was read from has changed."""

import contextlib
import hashlib
import io
import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path

from platformdirs import user_cache_path


def tell(command: str, files: Iterable[Path], make: Callable[[], None], *, anew: bool = False) -> None:
    """Print what ``make`` prints, or what it printed when all files were of the same size and time as now.

    Parameters
    ----------
    command : str
        The command with its options; the text of each is kept in a file of the user's cache folder.
    files : iterable of path
        All that the text depends on, whether it exists or not.
    make : callable
        Prints the text.
    anew : bool
        Have it made in any case.
    """
    stamp = hashlib.sha256(json.dumps([command, sorted(map(_state, files))]).encode()).hexdigest()
    kept = user_cache_path("dpnotes") / "told" / f"{command.replace(' ', '-')}.json"
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):  # no such file, or not one of ours
        found = json.loads(kept.read_text(encoding="utf-8"))
        if found["stamp"] == stamp and not anew:
            print(str(found["text"]), end="")
            return
    with contextlib.redirect_stdout(io.StringIO()) as text:
        make()
    print(text.getvalue(), end="")
    with contextlib.suppress(OSError):  # a folder that cannot be written costs time, no more
        kept.parent.mkdir(parents=True, exist_ok=True)
        part = kept.with_suffix(f".{os.getpid()}")
        part.write_text(json.dumps({"stamp": stamp, "text": text.getvalue()}), encoding="utf-8")
        part.replace(kept)


def _state(path: Path) -> tuple[str, int, int, int]:
    try:
        status = path.stat()
    except OSError:
        return str(path), 0, 0, 0
    return str(path), status.st_ino, status.st_size, status.st_mtime_ns
