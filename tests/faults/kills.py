"""Processes killed by SIGKILL at random moments: a writer, one of two, workers, their parent, and all parts of Dask."""

import os
import random
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import joblib

from tests.faults.place import GRID, Place, Tally
from tests.faults.toys import TOYS, Machines, lines, status, wait_until

Kind = Callable[[Tally, Place, random.Random], None]


def one_writer(tally: Tally, place: Place, draw: random.Random, *, within=False, **settings) -> None:
    """A sweep is killed and begun again until it is finished."""
    code, most = -1, _calls(place, **settings)
    while code:
        moment = {"write": (draw.randint(1, 2 * len(GRID)), draw.random())} if within else {}
        code = place.ended(place.started(calls=0 if within else draw.randint(1, most), **moment, **settings))
        tally.add(place, tried=code == -signal.SIGKILL)


def two_writers(tally: Tally, place: Place, draw: random.Random, *, killed: int) -> None:
    """Two sweeps of one store, from either end, of which one or both are killed; then again, until it is finished."""
    while len(place.rows()) < len(GRID):
        calls = [draw.randint(1, _calls(place)) if number < killed else 0 for number in (0, 1)]
        children = [place.started(grid=GRID[::step], calls=n) for n, step in zip(calls, (1, -1), strict=True)]
        codes = [place.ended(child) for child in children]
        tally.add(place, tried=codes.count(-signal.SIGKILL))
        if killed == 1 and codes[1]:
            tally.troubles.append(f"the survivor ended with {place.error.read_text()}")


def worker(tally: Tally, place: Place, draw: random.Random) -> None:
    """Workers are killed whenever two have begun a row; a row that was struck twice is named, and run again."""
    while len(place.rows()) < len(GRID):
        child, tried = place.started(n_jobs=2, pause=0.02), 0
        while status(child)[0] not in "ZX":
            known = len(lines(place.pids))
            wait_until(lambda: status(child)[0] in "ZX" or len(lines(place.pids)) >= known + 3)  # noqa: B023
            time.sleep(draw.uniform(0, 0.05))
            victims = [int(pid) for pid in dict.fromkeys(lines(place.pids)[-3:]) if status(pid)[1] == child]
            if victims:
                os.kill(draw.choice(victims), signal.SIGKILL)
                tried += 1
        code = place.ended(child)
        if code and "lost its worker twice" not in place.error.read_text():
            tally.troubles.append(f"the sweep ended with {place.error.read_text()}")
        tally.add(place, tried)


class Dask:
    """A cluster of two workers, anew when its scheduler was killed."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.machines, self.number = folder, None, 0

    def up(self) -> Machines:
        """The cluster, with two workers."""
        if self.machines is None or self.machines.scheduler.poll() is not None:
            self.stop()
            self.number += 1
            folder = self.folder / f"cluster{self.number}"
            folder.mkdir()
            path = os.pathsep.join([str(TOYS), os.environ.get("PYTHONPATH", os.getcwd())])
            self.machines = Machines(folder, os.environ | {"PYTHONPATH": path})
            wait_until(self.machines.scheduler_file.exists)
        while len(self.machines.alive()) < 2:
            self.machines.start_worker()
        return self.machines

    def stop(self) -> None:
        """End all."""
        if self.machines:
            self.machines.stop()

    def context(self):
        """Where joblib computes, in the client."""
        import distributed

        distributed.Client(scheduler_file=str(self.machines.scheduler_file), timeout=300)
        return joblib.parallel_config(backend="dask")

    def client(self, tally: Tally, place: Place, draw: random.Random) -> None:
        """The client is killed when some rows more were reported, and begins again."""
        self.up()
        self._killed(tally, place, draw, lambda child: os.kill(child, signal.SIGKILL))

    def worker(self, tally: Tally, place: Place, draw: random.Random) -> None:
        """Workers are killed, and others come."""
        machines = self.up()

        def kill(_child: int) -> None:
            victim = draw.choice(machines.alive())
            victim.kill()
            victim.wait()
            machines.start_worker()

        self._killed(tally, place, draw, kill, may_end="lost its worker twice", again=True)

    def scheduler(self, tally: Tally, place: Place, draw: random.Random) -> None:
        """The scheduler is killed: the sweep ends with an error, its workers end, and it goes on with another."""
        machines = self.up()
        self._killed(tally, place, draw, lambda child: machines.scheduler.kill(), may_end="is gone; the rows")
        machines.scheduler.wait()
        wait_until(lambda: not machines.alive())

    def _killed(self, tally, place, draw, kill, *, may_end="", again=False) -> None:
        """Run a sweep, during which there are kills, of which it may be left unfinished."""
        child, tried, known = place.started(backend=self.context, pause=0.02), 0, 0
        while status(child)[0] not in "ZX" and (again or not tried):
            some = known + draw.randint(1, 6)
            wait_until(lambda: status(child)[0] in "ZX" or len(place.reported) >= some)  # noqa: B023
            time.sleep(draw.uniform(0, 0.03))
            known = len(place.reported)
            if status(child)[0] not in "ZX" and known < len(GRID):
                kill(child)
                tried += 1
        code, told = place.ended(child), place.error.read_text()
        if code not in (0, -signal.SIGKILL) and not (may_end and may_end in told):
            tally.troubles.append(f"the sweep ended with {told}")
        tally.add(place, tried)


_whole: dict[str, int] = {}


def _calls(place: Place, **settings) -> int:
    """A number of calls that a whole sweep hardly makes."""
    key = repr(settings)
    if key not in _whole:
        other = Place(place.folder.with_name(f"{place.folder.name}-whole"))
        other.ended(other.started(**settings))
        _whole[key] = int(int(other.calls.read_text()) * 1.05)
    return _whole[key]


LOCAL: dict[str, tuple[str, Kind, int]] = {
    "one writer, at any call": ("1", one_writer, 180),
    "one writer, within a write": ("1", partial(one_writer, within=True), 140),
    "one of two writers": ("2", partial(two_writers, killed=1), 120),
    "both of two writers": ("2", partial(two_writers, killed=2), 100),
    "a worker of two": ("1 + 2", worker, 24),
    "the parent of two workers": ("1 + 2", partial(one_writer, n_jobs=2), 24),
}
DASK = {"a Dask worker": ("worker", 12), "a Dask client": ("client", 12), "a Dask scheduler": ("scheduler", 2)}
