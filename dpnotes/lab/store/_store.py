"""A store: one CSV file of finished rows, checked whenever it is read.

A row is appended under a lock, by one write; what other processes appended is read from where the last reading ended.
The file is replaced as a whole, by another one of the same mode, where columns are new or rows change. Beside a file
that rows were appended to stands ``.<name>.rows``, the number of its rows, written after them: a file with fewer was
cut, or an older one put in its place, and is refused, unless the process itself can put back all that is missing. A
line that does not end is an append that was killed, and is left out, if the file has as many whole rows as are counted.
Published files are only ever replaced and have no count: it would be wrong on another branch of git, which knows by
itself what was in them.

A process that is killed loses nothing that it has written. What a power failure could take is less than a second of
rows: the disk is waited for (7 ms) once a second, at the end of a sweep and before a file is replaced.
"""

import contextlib
import errno
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeAlias

from filelock import FileLock, Timeout
from tqdm import tqdm

from dpnotes.lab.store._format import Contents, Row, StoreError, parse, render, render_rows

PathLike: TypeAlias = str | os.PathLike[str]
PATIENCE = 5.0  # seconds of waiting for the lock, after which its holder is named
SYNC = 1.0  # seconds between two waits for the disk
_END = 200  # bytes before the end of what was read, which are compared before reading on from there


class Store:
    """One CSV file of finished rows, shared by any number of processes.

    Guarantees: a row that was put is in the file, whole, whatever is killed or full afterwards, and stays until it is
    replaced; a row is in the file as a whole or not at all; rows that other processes write at the same time are kept;
    rows that this object put, or was to keep, are put back if the file is deleted or an older one takes its place; a
    file that fails a check is not touched.

    Parameters
    ----------
    path : path
        The CSV file; it need not exist, nor its folder. Beside it, ``.<name>.lock``, ``.<name>.rows`` and
        ``.<name>.tmp`` may appear.
    """

    def __init__(self, path: PathLike) -> None:
        self.path = Path(os.path.realpath(path))
        self._lock = FileLock(self.path.with_name(f".{self.path.name}.lock"))
        self._count = _Count(self.path)
        self._temporary = self.path.with_name(f".{self.path.name}.tmp")  # only ever touched under the lock
        self._contents = Contents()
        self._stamp: _Stamp | None = None  # of the file when _contents was read from it or written to it
        self._size = 0  # bytes that _contents was read from
        self._end = b""  # the last of them
        self._synced = time.monotonic()
        self._kept: dict[str, Row] = {}

    def read(self, experiment: str | None = None) -> Contents:
        """Give the contents of the file, nothing when there is no file. What comes back grows with the file.

        Raises
        ------
        StoreError
            If anything in the file is not as this module writes it, it has fewer rows than were counted, or it holds
            rows of another than ``experiment``.
        """
        try:
            if _Stamp.of(os.stat(self.path)) != self._stamp:
                self._load()
        except (FileNotFoundError, NotADirectoryError):
            self._contents, self._stamp = Contents(), None
        found = self._contents.experiment
        if experiment is not None and found not in (None, experiment):
            raise StoreError(f"{self.path} holds rows of {found!r}, not of {experiment!r}")
        return self._contents

    def prepare(self, experiment: str, keep: Iterable[str] = ()) -> Contents:
        """Make the folder, see that the store can be locked, and read it: what would fail fails before a long run.

        Rows with keys in ``keep`` are put back from now on if they vanish.
        """
        with self._locked():
            self._temporary.unlink(missing_ok=True)  # of a process that was killed
            contents = self.read(experiment)
            self._kept |= {key: contents.rows[key] for key in keep if key in contents.rows}
            return contents

    def put(self, rows: Iterable[Row], *, replace: bool = False) -> Contents:
        """Add rows of one experiment in one step; a row that is there stays, or is replaced if ``replace``.

        Raises
        ------
        StoreError
            If the file is damaged, or holds rows of another experiment.
        OSError
            If the file cannot be written (a full disk, say); it is then what it was before.
        """
        offered = {row.key: row for row in rows}
        self._kept |= offered
        experiment = next((row.experiment for row in self._kept.values()), None)
        with self._locked():
            known = self._contents.rows
            before = self.read(experiment)
            if before.rows is not known:  # another file, or it was written by another program
                offered = {key: row for key, row in self._kept.items() if key not in before.rows} | offered
            new = {key: row for key, row in offered.items() if replace or key not in before.rows}
            self._kept |= {key: before.rows[key] for key in offered if key not in new}
            if new and not self._append(new):
                self._replace(self.read(experiment).updated(new))
            return self._contents

    def finish(self) -> Contents:
        """Give what the store holds at the end of a sweep: the rows to keep are in it, and on the disk."""
        contents = self.put(())
        if lost := [row for key, row in self._kept.items() if key not in contents.rows]:
            contents = self.put(lost)
        with contextlib.suppress(FileNotFoundError), self.path.open("rb") as file:
            os.fsync(file.fileno())
        return contents

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
                self._replace(after)
            return self._contents

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the store's lock; the kernel releases it when the process dies."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            try:
                self._lock.acquire(timeout=PATIENCE, poll_interval=0.005)  # a write takes milliseconds
            except Timeout:
                tqdm.write(f"waiting for the lock of {self.path}, held by {_holder(self._lock)}", file=sys.stderr)
                self._lock.acquire(poll_interval=0.05)
            try:
                yield
            finally:
                self._lock.release()
        except OSError as error:
            reason = f"cannot write the store ({error.strerror or error}); it is as it was before"
            raise OSError(error.errno or errno.EIO, reason, str(self.path)) from error

    def _load(self) -> None:
        """Read what is new in the file, or all of it where it is not the one that was read."""
        counted = self._count.read()  # before the file, in which rows stand before they are counted
        with self.path.open("rb") as file:
            stamp = _Stamp.of(os.fstat(file.fileno()))
            for start in (self._size, 0) if self._has_grown(file, stamp) else (0,):
                file.seek(start)
                data = file.read()
                whole = data if counted is None else data[: data.rfind(b"\n") + 1]
                try:
                    before = self._contents if start else None
                    contents = before if before and not whole else parse(whole or data, self.path, before)
                    break
                except StoreError:  # perhaps another file after all, whose lines are to be counted from its beginning
                    if not start:
                        raise
        if len(contents.rows) < (counted or 0) > len({*contents.rows, *self._kept.keys() & self._contents.rows.keys()}):
            raise StoreError(
                f"{self.path} has {len(contents.rows)} rows, and {counted} were finished: it was cut, or an older file "
                f"was put in its place; put the right one back, or remove {self._count.path} to go on with what is left"
            )
        self._contents, self._size = contents, start + len(whole)
        self._stamp = stamp._replace(size=self._size)  # of no file as long as a line there does not end
        self._end = (self._end * bool(start) + whole)[-_END:]
        if len(data) > len(whole) and self._lock.is_locked:  # an append that was killed
            os.truncate(self.path, self._size)
            self._stamp = _Stamp.of(os.stat(self.path))

    def _has_grown(self, file: BinaryIO, stamp: "_Stamp") -> bool:
        """Tell whether the file is the one that was read, and more was appended to it."""
        if self._stamp is None or stamp.inode != self._stamp.inode or stamp.size <= self._size:
            return False
        file.seek(self._size - len(self._end))
        return file.read(len(self._end)) == self._end

    def _append(self, rows: dict[str, Row]) -> bool:
        """Write rows at the end of the file; False if it has to be replaced, or is not the one that was read."""
        contents = self._contents
        if self._stamp is None or contents.covering(rows.values()).columns != contents.names:
            return False
        if any(key in contents.rows for key in rows):
            return False
        data = render_rows(rows.values(), contents.names)
        if self._count.read() is None:
            self._count.write(len(contents.rows))
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        try:
            if _Stamp.of(os.fstat(descriptor)) != self._stamp:
                return False
            try:
                _write(descriptor, data)
                if time.monotonic() >= self._synced + SYNC:
                    os.fsync(descriptor)
                    self._synced = time.monotonic()
            except BaseException:
                os.ftruncate(descriptor, self._size)
                raise
            stamp = _Stamp.of(os.fstat(descriptor))
        finally:
            os.close(descriptor)
        assert isinstance(contents.rows, dict)
        contents.rows.update(rows)
        self._size += len(data)
        self._end = (self._end + data)[-_END:]
        self._stamp = stamp if stamp.size == self._size else None
        self._count.write(len(contents.rows))
        return True

    def _replace(self, contents: Contents) -> None:
        """Replace the file by one of these contents, with the same mode."""
        data = render(contents)
        try:
            with self._temporary.open("wb") as file:
                with contextlib.suppress(FileNotFoundError):
                    os.chmod(self._temporary, self.path.stat().st_mode & 0o7777)
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
                stamp = _Stamp.of(os.fstat(file.fileno()))
            counted = self._count.read()
            if not self.path.exists() and counted is not None:
                self._count.write(0)  # the file was deleted: to begin anew, or its rows are put back now
            self._temporary.replace(self.path)
        finally:
            self._temporary.unlink(missing_ok=True)
        self._contents = replace(contents, rows=dict(contents.rows), names=contents.columns)
        self._stamp, self._size, self._end = stamp, len(data), data[-_END:]
        if counted is not None:
            self._count.write(len(contents.rows))


class _Stamp(NamedTuple):
    """What changes whenever a file is replaced or written."""

    inode: int
    size: int
    time: int

    @classmethod
    def of(cls, status: os.stat_result) -> "_Stamp":
        return cls(status.st_ino, status.st_size, status.st_mtime_ns)


class _Count:
    """The number of rows that a store has at least; the file always has the same size, so that no disk is too full."""

    def __init__(self, store: Path) -> None:
        self.path = store.with_name(f".{store.name}.rows")

    def read(self) -> int | None:
        """None where rows are not counted."""
        try:
            return int(self.path.read_bytes().split()[0])
        except (FileNotFoundError, ValueError, IndexError):  # killed before the first number was written
            return None

    def write(self, rows: int) -> None:
        """Write the number in place, in one step."""
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT, 0o666)
        try:
            _write(descriptor, f"{rows:>15} rows\n".encode())
        finally:
            os.close(descriptor)


def _write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def _holder(lock: FileLock) -> str:
    """Who holds a lock, as the kernel of Linux knows it."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        inode = os.stat(lock.lock_file).st_ino
        for fields in map(str.split, Path("/proc/locks").read_text().splitlines()):
            if fields[1] == "FLOCK" and fields[5].rpartition(":")[2] == str(inode):
                state = Path(f"/proc/{fields[4]}/stat").read_text().rpartition(")")[2].split()[0]
                return f"process {fields[4]}" + ", which is stopped: kill -CONT or kill -KILL it" * (state in "Tt")
    return "another process"
