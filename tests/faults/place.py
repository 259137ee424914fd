"""A store in a folder of its own, sweeps of it in processes that are killed, and what must then be true."""

import contextlib
import csv
import os
import signal
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from filelock import FileLock
from tqdm import tqdm

from dpnotes.lab.store import StoreError, _sweep, read_store, sweep
from dpnotes.lab.store._store import Store
from tests.faults.toys import gone, lines, sweep_toys, wait_until

ROWS = 24
GRID = [{"index": index} | ({"scale": 0.1} if index >= ROWS // 2 else {}) for index in range(ROWS)]  # a column is new
NAME = "sweep_toys.plain"
COMPARED = ("row", "experiment", "index", "scale", "third", "even", "label", "empty")


@dataclass
class Tally:
    """What became of a kind of fault."""

    tried: int = 0
    survived: int = 0  # everything that was reported is there, once and unaltered, and nothing outlived
    named: int = 0  # the sweep ended with an error that names the file, which was left as it was
    rows_finished: int = 0
    rows_lost: int = 0
    troubles: list[str] = field(default_factory=list)

    def add(self, place: "Place", tried: int) -> None:
        """Look at a place after so many faults."""
        lost, troubles = place.troubles()
        self.tried += tried
        self.survived += tried * (not lost and not troubles)
        self.rows_lost += lost
        self.troubles += troubles

    def complete(self, place: "Place") -> None:
        """End with a place: what is missing is run, and all rows are as in an undisturbed sweep."""
        self.rows_finished += len(set(place.reported))
        place.ended(place.started())
        lost, troubles = place.troubles()
        self.rows_lost += lost + len(GRID) - len(place.rows())
        self.troubles += troubles


class Place:
    """A folder with a store."""

    expected: ClassVar[dict[str, dict[str, str]]] = {}  # rows of an undisturbed sweep, by key

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder, self.store = folder, folder / "toy.csv"
        self.log, self.pids, self.error, self.calls = (folder / name for name in ("reported", "pids", "error", "calls"))

    @property
    def reported(self) -> list[str]:
        """Keys of the rows that sweeps have reported as finished."""
        return lines(self.log)

    def rows(self) -> dict[str, dict[str, str]]:
        """Texts of the columns that do not vary, of each row by its key; whatever is damaged or twice is an error."""
        if not self.store.exists():
            return {}
        keys = read_store(self.store)["row"].tolist()
        with self.store.open(newline="") as file:
            found = {row["row"]: {name: row.get(name) or "" for name in COMPARED} for row in csv.DictReader(file)}
        return {key: found[key] for key in keys}

    def troubles(self) -> tuple[int, list[str]]:
        """How many reported rows are missing or altered; and what else should not be."""
        try:
            found = self.rows()
        except StoreError as error:
            return len(set(self.reported)), [str(error)]
        lost = sum(found.get(key) != self.expected[key] for key in set(self.reported))
        strange = [f"row {key} is altered" for key, row in found.items() if row != self.expected[key]]
        with contextlib.suppress(AssertionError):
            wait_until(lambda: all(gone(pid) for pid in set(lines(self.pids))))
        strange += [f"process {pid} outlived" for pid in set(lines(self.pids)) if not gone(pid)]
        lock = FileLock(self.store.with_name(f".{self.store.name}.lock"))
        with contextlib.suppress(FileNotFoundError), lock.acquire(timeout=1.0):
            pass
        return lost, strange

    def started(self, *, grid=GRID, calls=0, write=None, n_jobs=None, pause=0.0, backend=None, prepare=None, at=None):
        """Sweep in a process of its own; give its number.

        Parameters
        ----------
        calls : int
            The process kills itself at this call of a function of Python or of C, in its main thread.
        write : (int, float), optional
            It kills itself within this call of ``os.write``, after this fraction of the bytes.
        backend : callable, optional
            Gives the context in which joblib computes elsewhere.
        prepare : callable, optional
            Called before the sweep.
        at : (int, callable), optional
            What is called while the row of this index is computed.
        """
        if child := os.fork():
            return child
        code = 1
        try:
            sys.stderr = self.error.open("w", buffering=1)
            os.dup2(sys.stderr.fileno(), 1)
            os.dup2(sys.stderr.fileno(), 2)
            tqdm.set_lock(threading.RLock())  # its own is shared with processes that are killed while they hold it
            _sweep.Store = _reporting(self.log)  # type: ignore[misc]
            options = {"pause": pause, **({"pids": self.pids} if n_jobs else {})}
            experiment = _disturbed(*at) if at else sweep_toys.plain
            if prepare:
                prepare()
            if write:
                os.write = _torn(*write)
            made = _count(calls)
            with backend() if backend else contextlib.nullcontext():
                sweep(experiment, grid, store=self.store, options=options, n_jobs=n_jobs, progress=False)
            sys.setprofile(None)
            self.calls.write_text(str(made[0]))
            code = 0
        except BaseException as error:
            sys.setprofile(None)
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        finally:
            os._exit(code)

    def ended(self, child: int) -> int:
        """Wait for a process; 0 if it finished, -9 if it was killed, 1 if it told an error."""
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def undisturbed(folder: Path) -> None:
    """Keep the rows of an undisturbed sweep; what is imported late is imported before processes are forked."""
    place = Place(folder)
    sweep(sweep_toys.plain, GRID, store=place.store, progress=False)
    Place.expected = place.rows()


def _count(calls: int) -> list[int]:
    """Count calls in this thread, and die at one of them (never at number 0)."""
    made = [0]

    def count(_frame, _event, _argument):
        made[0] += 1
        if made[0] == calls:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(count)
    return made


def _torn(number: int, fraction: float):
    """Such an ``os.write`` that one call of it writes some of its bytes and is the last."""
    real, made = os.write, [0]

    def write(descriptor, data):
        made[0] += 1
        if made[0] == number:
            real(descriptor, data[: int(fraction * len(data))])
            os.kill(os.getpid(), signal.SIGKILL)
        return real(descriptor, data)

    return write


def _reporting(log: Path):
    """A store that writes down each row once it was put."""

    class Reporting(Store):
        def put(self, rows, **settings):
            rows = list(rows)
            contents = super().put(rows, **settings)
            with log.open("ab", buffering=0) as file:
                file.write("".join(f"{row.key}\n" for row in rows).encode())
            return contents

    return Reporting


def _disturbed(at: int, disturb):
    def plain(index, **settings):
        if index == at:
            disturb()
        return sweep_toys.plain(index, **settings)

    plain.experiment_name = NAME
    return plain
