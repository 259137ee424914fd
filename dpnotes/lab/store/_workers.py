"""Workers that rows are handed to, one row each at a time: processes of this machine, or those of a Dask cluster.

A worker that dies costs its row and nothing else: the row comes back as `Lost`, the other workers go on.
"""

import contextlib
import ctypes
import faulthandler
import os
import pickle
import signal
import sys
import threading
import time
import traceback
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from queue import Empty, SimpleQueue
from typing import Any, Protocol, TypeAlias

from joblib import parallel_config
from joblib.externals.loky.backend import get_context
from joblib.externals.loky.backend.reduction import dumps
from joblib.externals.loky.backend.utils import kill_process_tree

from dpnotes.lab.store._format import Row

Task: TypeAlias = Callable[[Row], object]
LONG = 10.0  # seconds without a worker, after which this is said


@dataclass(frozen=True)
class Lost:
    """A row whose worker died."""

    request: Row
    why: str


class Workers(Protocol):
    """Where rows are computed."""

    @property
    def busy(self) -> int:
        """How many rows were handed out and are not finished."""

    def room(self, alone: bool) -> int:
        """How many more rows may be handed out; if they are to be ``alone``, how many that do not disturb another."""

    def submit(self, row: Row, alone: bool) -> None:
        """Hand out a row."""

    def finished(self) -> Iterator[tuple[Row, Any]]:
        """Rows that are finished, each with what the task returned, `Lost`, or why it was not run; wait a second."""

    def close(self) -> None:
        """End: rows that are still running are given up."""


class Processes:
    """Processes of this machine. They end with the process that started them, however it ends."""

    def __init__(self, task: Task, n_jobs: int, environment: Mapping[str, str]) -> None:
        self._task = bytes(dumps(task))  # by cloudpickle: an experiment may be defined in a notebook
        self._n_jobs, self._environment = n_jobs, dict(environment)
        self._idle: dict[Connection, Any] = {}
        self._running: dict[Connection, tuple[Any, Row]] = {}

    @property
    def busy(self) -> int:
        """How many rows are running."""
        return len(self._running)

    def room(self, alone: bool) -> int:
        """Workers that are free. Alone on this machine is a row without a neighbour that takes its memory."""
        return (1 if alone else self._n_jobs) - self.busy

    def submit(self, row: Row, alone: bool) -> None:
        """Hand a row to a free worker, or to a new one if it is to be alone."""
        if alone:
            self._end_idle()
        pipe, process = self._idle.popitem() if self._idle else self._started()
        self._running[pipe] = process, row
        with contextlib.suppress(OSError):  # it died while idle, which is noticed when it is waited for
            pipe.send(row)

    def finished(self) -> Iterator[tuple[Row, Any]]:
        """Give the rows that workers have sent back, and those of workers that are no more."""
        ready = wait(list(self._running), timeout=1.0)
        for pipe, (process, row) in list(self._running.items()):
            if pipe not in ready and process.is_alive():
                continue
            del self._running[pipe]
            try:
                if not pipe.poll():  # no end of the file either, where children of the worker live on
                    raise EOFError
                outcome = pipe.recv()
                self._idle[pipe] = process
            except (EOFError, OSError):
                process.join(LONG)
                outcome = Lost(row, _ended(process.exitcode))
                _end(pipe, process)
            yield row, outcome

    def close(self) -> None:
        """Kill what is there."""
        self._end_idle()
        while self._running:
            pipe, (process, _) = self._running.popitem()
            _end(pipe, process)

    def _end_idle(self) -> None:
        while self._idle:
            _end(*self._idle.popitem())

    def _started(self) -> tuple[Connection, Any]:
        # Not by fork, which torch's threads do not survive; loky's processes do not import the parent's main module.
        pipe, theirs = Pipe()
        process = get_context("loky").Process(target=_serve, args=(theirs, self._task), env=self._environment)
        process.start()
        theirs.close()
        return pipe, process


def _end(pipe: Connection, process: Any) -> None:
    kill_process_tree(process)
    pipe.close()


def _ended(code: int | None) -> str:
    if code is not None and code < 0:
        return f"its process was killed by {signal.Signals(-code).name}"
    return f"its process ended with code {code}"


def _serve(pipe: Connection, task: bytes) -> None:
    """Compute the rows that come through the pipe, in the worker, for as long as the other end is there."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches every process of a terminal; the parent decides
    faulthandler.enable()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG, for code that never lets the thread below run
    rows: SimpleQueue[Row] = SimpleQueue()
    threading.Thread(target=_listen, args=(pipe, rows), daemon=True).start()
    while True:
        row = rows.get()
        try:
            with parallel_config(backend="threading"):  # the cores are divided already
                answer = pickle.dumps(pickle.loads(task)(row))
        except BaseException as error:
            answer = pickle.dumps(_unsent(error))
        sys.stdout.flush()  # this process will be killed, not ended
        pipe.send_bytes(answer)


def _listen(pipe: Connection, rows: SimpleQueue[Row]) -> None:
    try:
        while True:
            rows.put(pipe.recv())
    finally:
        os._exit(1)


def _unsent(error: BaseException) -> RuntimeError:
    """An error that can be sent, in place of one that perhaps cannot."""
    sent = RuntimeError("".join(traceback.format_exception_only(error)).strip())
    sent.add_note(f"In the worker:\n{''.join(traceback.format_exception(error))}")
    return sent


class Cluster:
    """The workers of a Dask cluster, as many as there are at the time."""

    def __init__(self, task: Task, client: Any, say: Callable[[str], object]) -> None:
        self._task, self._client, self._say = bytes(dumps(task)), client, say  # the scheduler would read a function
        self._address = client.scheduler.address
        self._done: SimpleQueue[Any] = SimpleQueue()
        self._running: dict[str, tuple[Any, Row]] = {}
        self._threads: dict[str, int] = {}
        self._look, self._without = 0.0, 0.0  # when to look for workers again; since when there are none, or 0

    @property
    def busy(self) -> int:
        """How many rows are running or waiting for a worker."""
        return len(self._running)

    def room(self, alone: bool) -> int:
        """As many rows as threads, and one more, by which an adaptive cluster sees that there is more to do.

        No more than these are ever known to the scheduler. Rows are alone when there are no more of them than
        workers, among which the scheduler divides them.
        """
        if time.monotonic() >= self._look:
            self._count_workers()
        return max(1, len(self._threads) if alone else sum(self._threads.values()) + 1) - self.busy

    def submit(self, row: Row, alone: bool) -> None:
        """Hand a row to the scheduler."""
        key = f"{row.experiment}-{row.key}-{uuid.uuid4().hex}"
        future = self._client.submit(_once, key, self._task, row, key=key)
        self._running[key] = future, row
        future.add_done_callback(self._done.put)

    def finished(self) -> Iterator[tuple[Row, Any]]:
        """Give a row that is finished, if one is within a second.

        Raises
        ------
        ConnectionError
            If the scheduler is gone.
        """
        from distributed import KilledWorker

        try:
            future = self._done.get(timeout=1.0)
        except Empty:
            return
        if future.status == "cancelled":
            raise self._disconnected()
        _, row = self._running[future.key]
        outcome: object
        try:
            outcome = future.result(timeout=LONG)
        except KilledWorker as error:
            outcome = Lost(row, str(error))
        except Exception as error:
            if future.status != "error":  # the worker was lost with the result: Dask runs the row again
                future.add_done_callback(self._done.put)
                return
            outcome = error
        del self._running[future.key]
        future.release()
        yield row, outcome

    def close(self) -> None:
        """Give up what waits for a worker; a row that runs is finished there, and forgotten."""
        for future, _ in self._running.values():
            future.release()

    def _count_workers(self) -> None:
        try:
            self._threads = self._client.sync(self._client.scheduler.ncores, callback_timeout=LONG)  # its nthreads()
        except TimeoutError:
            self._threads = {}
        except Exception as error:  # of many kinds, as the connection is being given up
            raise self._disconnected() from error
        now = time.monotonic()
        self._look = now + 1.0
        if self._threads:
            self._without = 0.0
        elif not self._without:
            self._without = now
        elif now >= self._without + LONG:
            self._without = float("inf")
            self._say(
                f"the Dask scheduler {self._address} has had no worker, or has not answered, for {LONG:.0f} s: "
                "the sweep goes on when one comes; Ctrl-C ends it, and keeps the rows that are finished"
            )

    def _disconnected(self) -> ConnectionError:
        return ConnectionError(f"the Dask scheduler {self._address} is gone; the rows that were finished are stored")


def _once(key: str, task: bytes, row: Row) -> Any:
    """Compute a row in a Dask worker, unless an earlier worker began it and died: the client then decides."""
    from distributed import Event

    begun: Any = Event(key)  # type: ignore[no-untyped-call]
    try:
        if begun.is_set():
            return Lost(row, "the Dask worker that computed it was lost")
        begun.set()
        with parallel_config(backend="threading"):
            return pickle.loads(task)(row)
    finally:
        begun.clear()
