"""A store: one CSV file of finished rows, written atomically and checked whenever it is read."""

import contextlib
import errno
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeAlias

from filelock import FileLock

from dpnotes.lab.store._format import Contents, Row, StoreError, parse, render

PathLike: TypeAlias = str | os.PathLike[str]


class Store:
    """One CSV file of finished rows, shared by any number of processes.

    Guarantees: the file is at all times either the old or the new version as a whole, whatever is killed or full; a row
    once written stays until it is replaced; rows that other processes write at the same time are kept; a file that
    fails a check is not touched.

    Parameters
    ----------
    path : path
        The CSV file; it need not exist, nor its folder. Beside it, ``.<name>.lock`` and ``.<name>.tmp`` may appear.
    """

    def __init__(self, path: PathLike) -> None:
        self.path = Path(os.path.realpath(path))
        self._lock = FileLock(self.path.with_name(f".{self.path.name}.lock"))
        self._temporary = self.path.with_name(f".{self.path.name}.tmp")  # only ever touched under the lock
        self._contents = Contents()
        self._stamp: tuple[int, int, int] | None = None  # of the file that _contents was read from or written to

    def read(self, experiment: str | None = None) -> Contents:
        """Give the contents of the file, nothing when there is no file.

        Raises
        ------
        StoreError
            If anything in the file is not as this module writes it, or it holds rows of another than ``experiment``.
        """
        try:
            with self.path.open("rb") as file:
                stamp = _stamp(file.fileno())
                if stamp != self._stamp:
                    self._contents, self._stamp = parse(file.read(), self.path), stamp
        except FileNotFoundError:
            self._contents, self._stamp = Contents(), None
        found = self._contents.experiment
        if experiment is not None and found not in (None, experiment):
            raise StoreError(f"{self.path} holds rows of {found!r}, not of {experiment!r}")
        return self._contents

    def prepare(self, experiment: str) -> Contents:
        """Make the folder, see that the store can be locked, and read it: what would fail fails before a long run."""
        with self._locked():
            return self.read(experiment)

    def put(self, rows: Iterable[Row], *, replace: bool = False) -> Contents:
        """Add rows of one experiment in one atomic step; a row that is there stays, or is replaced if ``replace``.

        Raises
        ------
        StoreError
            If the file is damaged, or holds rows of another experiment.
        OSError
            If the file cannot be written (a full disk, say); it is then what it was before.
        """
        offered = {row.key: row for row in rows}
        experiment = next((row.experiment for row in offered.values()), None)

        def add(before: Contents) -> Contents:
            new = {key: row for key, row in offered.items() if replace or key not in before.rows}
            return before.updated(new) if new else before

        return self.change(add, experiment)

    def change(self, change: Callable[[Contents], Contents], experiment: str | None = None) -> Contents:
        """Replace what the store holds by ``change`` of it, in one atomic step; what comes back itself is not written.

        Raises
        ------
        StoreError, OSError
            As :meth:`put`; also what ``change`` raises. The file is then what it was before.
        """
        with self._locked():
            before = self.read(experiment)
            after = change(before)
            if after is not before:
                self._stamp = self._write(render(after))
                self._contents = after
            return after

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the store's lock; the kernel releases it when the process dies."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self._lock.acquire(poll_interval=0.005):  # a write takes milliseconds
                try:
                    yield
                finally:
                    self._temporary.unlink(missing_ok=True)
        except OSError as error:
            reason = f"cannot write the store ({error.strerror or error}); it is as it was before"
            raise OSError(error.errno or errno.EIO, reason, str(self.path)) from error

    def _write(self, data: bytes) -> tuple[int, int, int]:
        """Replace the file by one of ``data``; give the new file's stamp."""
        with self._temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            stamp = _stamp(file.fileno())
        self._temporary.replace(self.path)
        return stamp


def _stamp(descriptor: int) -> tuple[int, int, int]:
    """What changes whenever a file is replaced or written: inode, size and time."""
    status = os.fstat(descriptor)
    return status.st_ino, status.st_size, status.st_mtime_ns
