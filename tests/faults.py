"""What a store survives: ``python -m tests.faults``.

Processes are killed by SIGKILL at random moments, disks are full, folders read-only,
files overwritten. The sweep is begun again, or goes on. Every row that was reported as
finished must then be there, whole, with the metrics of an undisturbed sweep, no process
may outlive, and what cannot go on must say so in an error that names the file.
"""

import argparse
import contextlib
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import joblib
import pandas as pd
from joblib.externals.loky import get_reusable_executor
from tqdm import tqdm

from dpnotes.lab.store import (
    StoreError,
    _checkpoint,
    _sweep as sweeping,
    read_store,
    sweep,
)
from tests.lab.store import toys

GRID = [
    {"index": index} | ({"scale": 0.1} if index >= 12 else {}) for index in range(24)
]
ROOT = Path(__file__).parents[1]
LONG = 60.0  # seconds


class Place:
    """A folder with a store, sweeps of it in processes of their own, and what must
    be true after each.
    """

    def __init__(self, folder: Path, experiment=toys.plain, grid=GRID) -> None:
        folder.mkdir(parents=True)
        self.experiment = experiment
        self.grid = grid
        self.store = folder / "toy"
        self.log, self.pids, self.error, self.made = (
            folder / name for name in ("log", "pids", "error", "made")
        )
        # what an undisturbed sweep finds
        self.expected = {str(row): experiment(**row) for row in grid}
        counted = ("tried", "survived", "named", "rows_finished", "rows_lost")
        self.count = dict.fromkeys(counted, 0)

    def started(
        self,
        *,
        grid=None,
        calls=0,
        prepare=lambda: None,
        backend=contextlib.nullcontext,
        **settings,
    ) -> int:
        """Sweep in another process, which kills itself at some call of Python or C
        if it is told to; its number.
        """
        # a fork, since a spawned process would import for seconds
        if child := os.fork():
            return child
        code = 1
        try:
            sys.stderr = self.error.open("w", buffering=1)
            # what C libraries say, too
            os.dup2(sys.stderr.fileno(), 2)
            # its own is shared with forked processes, killed while they hold it
            tqdm.set_lock(threading.RLock())
            # a row counts as finished once it was reported
            sweeping.put = self._reporting(sweeping.put)
            prepare()
            made = 0

            def count(_frame, _event, _argument):
                nonlocal made
                made += 1
                if made == calls:
                    os.kill(os.getpid(), signal.SIGKILL)

            with backend():
                # sees every call of Python and C, so that a kill may fall anywhere
                sys.setprofile(count if calls >= 0 else None)
                sweep(
                    self.experiment,
                    grid or self.grid,
                    store=self.store,
                    progress=False,
                    **settings,
                )
            sys.setprofile(None)
            # how many calls a whole sweep makes
            self.made.write_text(str(made))
            get_reusable_executor().shutdown()  # as at the end of Python
            code = 0
        except BaseException as error:
            sys.setprofile(None)
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
            get_reusable_executor().shutdown()
        finally:
            os._exit(code)

    def _reporting(self, put):
        def reporting(row, folder):
            put(row, folder)
            toys.note(self.log, row.key)

        return reporting

    def ended(self, *children: int, tried: int | None = None, named: str = "") -> int:
        """Wait for processes and look at the place: their sum of kills, unless it is
        told how often was tried.
        """
        # 0, or the number of the signal, negative
        codes = [
            os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children
        ]
        kills = codes.count(-signal.SIGKILL)
        # of all processes of this place
        told = self.error.read_text()
        sound = all(code in (0, -signal.SIGKILL) for code in codes) or bool(
            named and named in told
        )
        try:
            found = {str(self._asked(row)): row for _, row in self.rows().iterrows()}
        except StoreError as error:
            found = {}
            sound = False
            print(error)
        for asked, row in found.items():
            sound &= all(
                _same(row[name], value) for name, value in self.expected[asked].items()
            )
        reported = set(toys.lines(self.log))
        # the only thing that must never happen
        lost = len(reported - {row["row"] for row in found.values()})
        # no worker may outlive its parent
        sound &= wait_until(
            lambda: not any(alive(int(pid)) for pid in set(toys.lines(self.pids)))
        )
        added = kills if tried is None else tried
        # what goes wrong without a kill counts, too
        self.count["tried"] += max(added, not sound)
        self.count["survived"] += added * bool(sound and not lost)
        self.count["named"] += bool(named and named in told)
        self.count["rows_lost"] += lost
        if not sound:
            print("not survived:", codes, told)
        return added

    def rows(self) -> pd.DataFrame:
        """All rows that are there."""
        return read_store(self.store) if self.store.exists() else pd.DataFrame()

    def _asked(self, row):
        return {
            name: row[name]
            # the last row has all parameters
            for name in self.grid[-1]
            if name in row and not pd.isna(row[name])
        }

    def finish(self) -> dict[str, int]:
        """What is missing is run, and nothing is left over."""
        self.ended(self.started(calls=-1), tried=0)
        self.count["rows_finished"] = len(set(toys.lines(self.log)))
        self.count["rows_lost"] += len(self.grid) - len(self.rows())
        return self.count


def _same(found, expected) -> bool:
    return bool(pd.isna(found) if expected is None else found == expected)


def alive(pid: int) -> bool:
    """Whether a process runs; one that its parent has not asked for yet does not."""
    with contextlib.suppress(OSError):
        return (
            Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
            not in "ZX"
        )
    return False


def wait_until(condition: Callable[[], bool]) -> bool:
    """Wait for a condition; tell whether it came true."""
    end = time.monotonic() + LONG
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return condition()


def writers(
    place: Place,
    draw: random.Random,
    whole: int,
    *,
    writers: int,
    killed: int,
    **settings,
) -> None:
    """Sweeps of one store, from either end, of which some are killed at any call;
    again until it is full.
    """
    while len(place.rows()) < len(place.grid):
        calls = [
            draw.randint(1, whole) if number < killed else -1
            for number in range(writers)
        ]
        # every second one begins at the end
        grids = [place.grid[:: 1 - 2 * (number % 2)] for number in range(writers)]
        place.ended(
            *(
                place.started(grid=g, calls=c, **settings)
                for g, c in zip(grids, calls, strict=True)
            )
        )


def workers(
    place: Place,
    draw: random.Random,
    _whole: int,
    *,
    victim: str,
    backend=contextlib.nullcontext,
) -> None:
    """A sweep with two workers, of which one, or their parent, is killed while rows
    are computed; again until full.
    """
    # a cluster's outlive a sweep
    pids = place.store.with_name("workers") if victim.startswith("Dask") else place.pids
    while len(place.rows()) < len(place.grid):
        # workers of this sweep are behind these lines
        known = len(toys.lines(pids))
        tried = 0
        child = place.started(
            calls=-1, options={"pause": 0.03, "pids": pids}, n_jobs=2, backend=backend
        )
        # after so many rows were begun
        some = known + draw.randint(1, 8)
        wait_until(lambda: len(toys.lines(pids)) >= some or not alive(child))  # noqa: B023
        # within a row, which takes 0.03 seconds
        time.sleep(draw.uniform(0, 0.05))
        pid = (
            int((toys.lines(pids) or ["0"])[-1]) if victim.endswith("worker") else child
        )
        if pid and alive(child) and alive(pid):
            os.kill(pid, signal.SIGKILL)
            tried = 1
        place.ended(
            child,
            tried=tried,
            named="ChildProcessError: toys.plain lost a worker" if tried else "",
        )


def broken(
    place: Place,
    draw: random.Random,
    _whole: int,
    *,
    prepare: Callable[[Place, int], None],
    named: str,
) -> None:
    """From some row on, nothing can be written."""
    place.ended(
        place.started(calls=-1, grid=place.grid[: draw.randint(1, 20)]), tried=0
    )
    child = place.started(
        calls=-1, prepare=partial(prepare, place, draw.randint(300, 500))
    )
    place.ended(child, tried=1, named=named)
    # for the sweeps that finish it
    os.chmod(place.store, 0o755)


def full_disk(_place: Place, size: int) -> None:
    # a write fails then, instead of killing the process
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def read_only(place: Place, _size: int) -> None:
    os.chmod(place.store, 0o555)
    if os.geteuid() == 0:
        os.setuid(65534)  # root writes everywhere


def overwritten(place: Place, draw: random.Random, _whole: int) -> None:
    """A foreign program writes over the file of a row: it is refused by name, and
    its row computed once it is gone.
    """
    place.ended(place.started(calls=-1), tried=0)
    # any of the finished rows
    victim = draw.choice(sorted(place.store.glob("*.json")))
    content = victim.read_bytes()
    victim.write_bytes(
        draw.choice(
            [
                content[: len(content) // 2],
                b"",
                b"{}",
                content.replace(b'"index"', b'"other"'),
            ]
        )
    )
    child = place.started(calls=-1)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    # refused, by the name of the file
    named = code == 1 and victim.name in place.error.read_text()
    victim.unlink()
    # the file is foreign by now
    place.log.write_text("\n".join(set(toys.lines(place.log)) - {victim.stem}) + "\n")
    place.count["named"] += named
    place.ended(place.started(calls=-1), tried=int(named))


@contextlib.contextmanager
def cluster(folder: Path) -> Iterator[Callable]:
    """A Dask scheduler and two workers with nannies, which begin another where one
    is killed.
    """
    file = folder / "scheduler.json"
    common = (
        [sys.executable, "-m", "dask"],
        ["--scheduler-file", file, "--host", "127.0.0.1", "--no-dashboard"],
    )
    about = {"cwd": ROOT, "stderr": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
    roles = [
        ["scheduler", "--port", "0"],
        ["worker", "--nworkers", "2", "--nthreads", "1"],
    ]
    started = [
        subprocess.Popen([*common[0], *role, *common[1]], **about) for role in roles
    ]

    def backend():
        import distributed

        # joblib finds the client by itself
        distributed.Client(scheduler_file=str(file), timeout=LONG)
        return joblib.parallel_config(backend="dask")

    wait_until(file.exists)
    yield backend
    for process in reversed(started):
        process.terminate()
        process.wait()


def campaign(
    folder: Path, fraction: float = 1.0, names: tuple[str, ...] = ()
) -> Iterator[dict[str, object]]:
    """A row for each kind of fault (of one of the names), with a fraction of all
    that are tried of it.
    """
    _checkpoint.LEAST = 0.0
    _checkpoint.FRACTION = float("inf")
    with contextlib.ExitStack() as stack:
        dask = (
            stack.enter_context(cluster(folder))
            if any("Dask" in n for n in names) or not names
            else None
        )
        training = {
            "experiment": toys.train,
            "grid": [{"kind": kind} for kind in ("mlp", "residual")],
        }
        full = {"prepare": full_disk, "named": "cannot write"}
        closed = {"prepare": read_only, "named": "Permission denied"}
        one = partial(writers, writers=1, killed=1)
        # how often each kind is tried, and what does it
        kinds: dict[str, tuple[int, Callable]] = {
            "SIGKILL: one writer, at any call": (150, one),
            "SIGKILL: one of two writers": (80, partial(writers, writers=2, killed=1)),
            "SIGKILL: both of two writers": (80, partial(writers, writers=2, killed=2)),
            "SIGKILL: a training with checkpoints": (20, one),
            "SIGKILL: a loky worker of two": (20, partial(workers, victim="worker")),
            "SIGKILL: the parent of two loky workers": (
                20,
                partial(workers, victim="parent"),
            ),
            "SIGKILL: a Dask worker of two": (
                10,
                partial(workers, victim="Dask worker", backend=dask),
            ),
            "SIGKILL: a Dask client": (
                10,
                partial(workers, victim="Dask client", backend=dask),
            ),
            "disk full": (10, partial(broken, **full)),
            "folder read-only": (10, partial(broken, **closed)),
            "row overwritten by a foreign program": (10, overwritten),
        }
        for name, (times, kind) in kinds.items():
            if names and not any(part in name for part in names):
                continue
            what = training if "a training" in name else {}
            draw = random.Random(name)
            total = dict.fromkeys(("tried",), 0)
            number = 0
            # tells how many calls there are to be killed at
            undisturbed = Place(folder / f"{abs(hash(name))}-undisturbed", **what)
            undisturbed.ended(undisturbed.started())
            whole = int(undisturbed.made.read_text())
            while total["tried"] < max(1, round(times * fraction)):
                place = Place(folder / f"{abs(hash(name))}-{number}", **what)
                kind(place, draw, whole)
                total = {
                    key: total.get(key, 0) + value
                    for key, value in place.finish().items()
                }
                number += 1
            yield {"fault": name, **total}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "names",
        nargs="*",
        help="only kinds of faults that have one of these texts in their names",
    )
    parser.add_argument(
        "--fraction", type=float, default=1.0, help="of all that are tried"
    )
    chosen = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        os.chmod(temporary, 0o755)  # one fault is a process of another user
        for row in campaign(Path(temporary), chosen.fraction, tuple(chosen.names)):
            print(*row.values(), flush=True)
            rows.append(row)
    table = pd.DataFrame(rows)
    bad = int((table["tried"] - table["survived"] + table["rows_lost"]).sum())
    print(
        f"{table['tried'].sum()} faults, {table['survived'].sum()} survived,"
        f" {table['rows_lost'].sum()} rows lost"
    )
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
