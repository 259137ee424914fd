"""The row under way: where its store lies, and states of its trainings beside the store until the row is stored.

``<folder of the store>/.checkpoints/<row>/<training>.state``: one line of JSON (digest of the rest, seconds that the
row took until then), then what ``torch.save`` writes. A file is replaced as a whole, checked whenever it is read, and
removed with its folder when the row is in the store.
"""

import hashlib
import io
import json
import os
import pickle
import shutil
import sys
import time
import warnings
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from tqdm import tqdm

from dpnotes.lab._places import CHECKPOINTS

LEAST = 1.0  # seconds of a training between two states
FRACTION = 0.02  # of the time of a training that states may take


@dataclass
class UnderWay:
    """The row that this process computes.

    Parameters
    ----------
    folder : Path
        Of its store.
    key : str
    seconds : float
        What to add to its time: seconds before an interruption, less seconds for rows of other stores.
    """

    folder: Path
    key: str
    seconds: float = 0.0
    began: float = field(default_factory=time.perf_counter)
    since: dict[str, float] = field(default_factory=dict)  # when each training began, or was kept last
    cost: float = 0.0  # seconds that the last state took
    warned: bool = False

    def __post_init__(self) -> None:
        self.states = self.folder / CHECKPOINTS / self.key
        self.lock = FileLock(self.states / ".lock")

    def spent(self) -> float:
        """Seconds that the row took until now."""
        return time.perf_counter() - self.began + self.seconds


_row: ContextVar[UnderWay | None] = ContextVar("row", default=None)


def row_under_way() -> UnderWay | None:
    """The row that this process computes for a store, None outside of a sweep."""
    return _row.get()


@contextmanager
def under_way(folder: Path | None, key: str) -> Iterator[UnderWay]:
    """Say that the row is computed within the block; without a folder for no store."""
    row = UnderWay(folder or Path(), key)
    token = _row.set(None if folder is None else row)
    try:
        yield row
    finally:
        _row.reset(token)
        row.lock.release()


@dataclass(frozen=True)
class RowCheckpoint:
    """Checkpoint of all trainings of the row under way, for the parameter ``checkpoint`` of learners.

    A file that is damaged is left out with a warning. Of several processes at one row the first one keeps its states;
    when it is killed, the next one does. A state that cannot be written (a full disk, say) is warned of once.
    """

    def load(self, training: str) -> dict[str, Any] | None:
        """Give the state that was kept last for a training, None without one."""
        row = _row.get()
        if row is None:
            return None
        row.since[training] = row.since[f"begin of {training}"] = time.perf_counter()
        path = row.states / f"{training}.state"
        try:
            found = _parsed(path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RuntimeError, pickle.UnpicklingError) as error:
            warnings.warn(f"the checkpoint {path} is left out, the training begins anew: {error}", stacklevel=2)
            return None
        state, seconds, size = found
        row.seconds += max(0.0, seconds - row.spent())
        told = f"row {row.key} goes on from a checkpoint of {size / 1e6:.1f} MB, made after {seconds:.0f} s of it"
        tqdm.write(told, file=sys.stderr)
        return state

    def save(self, training: str, state: Callable[[], dict[str, Any]], *, last: bool) -> None:
        """Keep a state, unless the last one of this training is too young for what keeping it costs."""
        row = _row.get()
        if row is None:
            return
        start = time.perf_counter()
        name = f"begin of {training}" if last else training  # the result of a training is kept, once it took some time
        if start - row.since.get(name, start) < max(LEAST, row.cost / FRACTION):
            return
        try:
            row.states.mkdir(parents=True, exist_ok=True)
            if not row.lock.is_locked:
                row.lock.acquire(timeout=0)
            _write(row.states / f"{training}.state", state(), row.spent())
        except Timeout:
            pass
        except OSError as error:
            if not row.warned:
                warnings.warn(f"no checkpoint in {row.states}, the training goes on: {error}", stacklevel=2)
            row.warned = True
        row.since[training] = time.perf_counter()
        row.cost = row.since[training] - start


def checkpoint() -> RowCheckpoint | None:
    """Checkpoint for the trainings of the row that a sweep computes in this process; None outside of a sweep.

    An experiment hands it to a learner whose training may take long. States are kept beside the store, an epoch's end
    after the other where they cost at most a fiftieth of the time, until the row is stored.
    """
    return None if _row.get() is None else RowCheckpoint()


def forget(folder: Path, stored: Container[str]) -> None:
    """Remove the states of rows that are in their store."""
    for states in (folder / CHECKPOINTS).glob("*"):
        if states.name in stored:
            shutil.rmtree(states, ignore_errors=True)


def _write(path: Path, state: dict[str, Any], seconds: float) -> None:
    """Replace a file of a state by a new one, in one step."""
    import torch

    content = io.BytesIO()
    torch.save(state, content)
    head = {"digest": _digest(content.getbuffer()), "seconds": round(seconds, 3)}
    temporary = path.with_name(f".{path.name}.tmp")  # of the process that has the lock
    try:
        with temporary.open("wb") as file:
            file.write(json.dumps(head).encode() + b"\n")
            file.write(content.getbuffer())
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def _parsed(content: bytes) -> tuple[dict[str, Any], float, int]:
    """State, seconds and size of a file; ValueError if it is not as :func:`_write` wrote it."""
    import torch

    line, _, rest = content.partition(b"\n")
    try:
        head = json.loads(line)
        seconds, expected = float(head["seconds"]), head["digest"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError("its first line is damaged") from error
    if _digest(memoryview(rest)) != expected:
        raise ValueError("it is damaged or cut short")
    return torch.load(io.BytesIO(rest), map_location="cpu", weights_only=True), seconds, len(content)


def _digest(content: memoryview) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()
