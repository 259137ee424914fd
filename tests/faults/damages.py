"""Faults that are no kill: what happens to the file during a sweep or between two, to the disk, to the lock."""

import os
import random
import resource
import signal
from collections.abc import Callable

from dpnotes.lab.store import _store
from dpnotes.lab.store._store import Store
from tests.faults.place import GRID, ROWS, Place, Tally
from tests.faults.toys import lines, status, sweep_toys, wait_until

Fault = Callable[[Tally, Place, random.Random], None]


def full(tally: Tally, place: Place, draw: random.Random) -> None:
    """The kernel refuses to let a file grow beyond some size."""
    size = draw.randint(300, 4500)
    child = place.started(prepare=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)))
    _named(tally, place, place.ended(child))
    tally.add(place, 1)


def during(change: Callable[[Place, bytes], object], *, named: bool = False) -> Fault:
    """Something is done to the file while a row is computed; ``change`` gets the file as it was some rows before."""

    def fault(tally: Tally, place: Place, draw: random.Random) -> None:
        some = draw.randint(1, ROWS - 4)
        place.ended(place.started(grid=GRID[:some]))
        old = place.store.read_bytes()
        code = place.ended(place.started(at=(draw.randint(some, ROWS - 1), lambda: change(place, old))))
        if named:
            _named(tally, place, code)
            if place.store.read_bytes() != _FOREIGN:
                tally.troubles.append("the foreign file was changed")
            for path in (place.store, _count(place), place.log):  # what was written over is computed again
                path.unlink(missing_ok=True)
        elif code:
            tally.troubles.append(place.error.read_text())
        tally.add(place, 1)

    return fault


def at_rest(change: Callable[[bytes, random.Random], bytes], *, named: bool = True) -> Fault:
    """Something is done to the file between two sweeps; what is refused is left as it is, and put right again."""

    def fault(tally: Tally, place: Place, draw: random.Random) -> None:
        place.ended(place.started(grid=GRID[: draw.randint(4, ROWS - 2)]))
        whole = place.store.read_bytes()
        damaged = change(whole, draw)
        place.store.write_bytes(damaged)
        code = place.ended(place.started())
        if named:
            _named(tally, place, code)
            if place.store.read_bytes() != damaged:
                tally.troubles.append("the damaged file was changed")
            place.store.write_bytes(whole)
        elif code:
            tally.troubles.append(place.error.read_text())
        tally.add(place, 1)

    return fault


def forged(column: str, text: str) -> Fault:
    """A cell of a line is another one; the check of the line fits."""

    def change(data: bytes, draw: random.Random) -> bytes:
        found = data.decode().splitlines()
        number = draw.randint(1, len(found) - 1)
        found[number] = sweep_toys.forged(found[0], found[number], column, text)
        return ("\n".join(found) + "\n").encode()

    return at_rest(change)


def stopped(tally: Tally, place: Place, draw: random.Random) -> None:
    """A process that holds the lock is stopped; it is named, and goes on or is killed."""
    place.ended(place.started(grid=GRID[:4]))
    if not (holder := os.fork()):
        with Store(place.store)._locked():
            os.kill(os.getpid(), signal.SIGSTOP)
        os._exit(0)
    wait_until(lambda: status(holder)[0] == "T")
    child = place.started(prepare=lambda: setattr(_store, "PATIENCE", 0.05))
    wait_until(lambda: f"held by process {holder}, which is stopped" in "".join(lines(place.error)))
    os.kill(holder, draw.choice([signal.SIGCONT, signal.SIGKILL]))
    os.waitpid(holder, 0)
    if place.ended(child):
        tally.troubles.append(place.error.read_text())
    tally.add(place, 1)


def read_only(tally: Tally, place: Place, draw: random.Random) -> None:
    """Nothing can be written in the folder: a finished sweep is read, another one ends with the file's name."""
    some = draw.randint(4, ROWS - 2)
    place.ended(place.started(grid=GRID[:some]))
    before = place.store.read_bytes()
    modes = {path: path.stat().st_mode for path in (place.folder, *place.folder.iterdir())}
    for path in modes:
        path.chmod(0o555 if path.is_dir() else 0o666 if path in (place.error, place.log) else 0o444)
    place.calls.chmod(0o666)
    nobody = (lambda: os.setuid(65534)) if os.geteuid() == 0 else None
    if place.ended(place.started(grid=GRID[:some], prepare=nobody)):
        tally.troubles.append(place.error.read_text())
    _named(tally, place, place.ended(place.started(prepare=nobody)))
    for path, mode in modes.items():
        path.chmod(mode)
    if place.store.read_bytes() != before:
        tally.troubles.append("the file was changed")
    tally.add(place, 1)


def _named(tally: Tally, place: Place, code: int) -> None:
    told = place.error.read_text()
    if code == 1 and str(place.store) in told:
        tally.named += 1
    else:
        tally.troubles.append(f"no error that names the file: {code}, {told}")


_FOREIGN = b"a,b\n1,2\n"


def _count(place: Place):
    return place.store.with_name(f".{place.store.name}.rows")


def _replaced(place: Place, old: bytes) -> None:
    other = place.folder / "older.csv"
    other.write_bytes(old)
    other.replace(place.store)


def _cut(data: bytes, draw: random.Random) -> bytes:
    found = data.splitlines(keepends=True)
    return b"".join(found[: draw.randint(1, len(found) - 1)])


def _torn(data: bytes, draw: random.Random) -> bytes:
    last = data.splitlines()[-1]
    return data + last[: draw.randint(1, len(last) - 1)]


def _check(data: bytes, draw: random.Random) -> bytes:
    place = data.rfind(b",") + draw.randint(1, 8)
    return data[:place] + (b"0" if data[place : place + 1] != b"0" else b"1") + data[place + 1 :]


TIMES = 8
DAMAGES: dict[str, Fault] = {
    "disk full": full,
    "file deleted during a sweep": during(lambda place, _: place.store.unlink()),
    "file and count deleted": during(lambda place, _: [path.unlink() for path in (place.store, _count(place))]),
    "file rolled back during a sweep": during(lambda place, old: place.store.write_bytes(old)),
    "file replaced by an older one": during(_replaced),
    "file overwritten by a foreign one": during(lambda place, _: place.store.write_bytes(_FOREIGN), named=True),
    "file cut at a line's end": at_rest(_cut),
    "torn last line": at_rest(_torn, named=False),
    "forged line: wrong check": at_rest(_check),
    "forged line: NaN": forged("third", "nan"),
    "forged line: infinite parameter": forged("index", "inf"),
    "forged line: lone surrogate": forged("label", '"""\\ud800"""'),
    "stopped holder of the lock": stopped,
    "disk that is read-only": read_only,
}
