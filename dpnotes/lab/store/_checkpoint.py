"""The row under way: where its store lies, and states of its trainings beside it until
the row is stored.

A state is ``KEY.states/TRAINING.state`` in the folder of the store. It is replaced as a
whole, and removed with its folder when the row is stored. What decides a training, its
data, settings, random streams and our code, is in its name and its state, which the
learner makes: no state is ever handed to another training.
"""

import hashlib
import io
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

from dpnotes.lab._places import STATES
from dpnotes.lab.store._rows import replace_file

LEAST = 1.0  # seconds of a training between two states
FRACTION = 0.02  # of the time of a training that states may take
_DIGEST = 16  # bytes of a digest, which a file begins with


@dataclass
class UnderWay:
    """The row that this process computes.

    Parameters
    ----------
    store : Path
        The folder in which it will be.
    key : str
    seconds : float
        What to add to its time: seconds before an interruption, less seconds for rows
        of other stores.
    """

    store: Path
    key: str
    seconds: float = 0.0
    began: float = field(default_factory=time.perf_counter)
    # when each training began, or was kept last
    since: dict[str, float] = field(default_factory=dict)
    cost: float = 0.0  # seconds that the last state took

    def state(self, training: str) -> Path:
        """File of the state of a training."""
        return self.store / f"{self.key}{STATES}" / f"{training}.state"

    def spent(self) -> float:
        """Seconds that the row took until now."""
        return time.perf_counter() - self.began + self.seconds


# of this thread: rows may be computed in several
_row: ContextVar[UnderWay | None] = ContextVar("row", default=None)


def row_under_way() -> UnderWay | None:
    """Return the row that this process is computing for a store; None outside of a
    sweep.
    """
    return _row.get()


@contextmanager
def under_way(store: Path | None, key: str) -> Iterator[UnderWay]:
    """Say that the row is computed within the block; without a store, for none."""
    row = UnderWay(store or Path(), key)
    token = _row.set(None if store is None else row)
    try:
        yield row
    finally:
        _row.reset(token)


@dataclass(frozen=True)
class RowCheckpoint:
    """Checkpoint of all trainings of the row under way, for the parameter
    ``checkpoint`` of learners.

    A file that is damaged is left out with a warning. A state that cannot be written (a
    full disk, say) is warned of once. Two processes at one row keep the same states.
    """

    def load(self, training: str) -> dict[str, Any] | None:
        """Give the state that was kept last for a training, None without one."""
        import torch
        from tqdm import tqdm

        row = _row.get()
        if row is None:
            return None
        # when to keep the next state, and how long the training took
        row.since[training] = row.since[f"begin of {training}"] = time.perf_counter()
        path = row.state(training)
        try:
            whole = path.read_bytes()
            digest = whole[:_DIGEST]
            content = whole[_DIGEST:]
            # torch may not notice a turned bit
            if hashlib.blake2b(content, digest_size=_DIGEST).digest() != digest:
                raise ValueError("it is damaged or cut short")
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            warnings.warn(
                f"the checkpoint {path} is left out, so the training starts again:"
                f" {error}",
                stacklevel=2,
            )
            return None
        found = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
        # the time before the interruption counts, too
        row.seconds += max(0.0, found["seconds"] - row.spent())
        made = f"{len(content) / 1e6:.1f} MB, made after {found['seconds']:.0f} s of it"
        tqdm.write(
            f"row {row.key} goes on from a checkpoint of {made}", file=sys.stderr
        )
        return dict(found["state"])

    def save(
        self, training: str, state: Callable[[], dict[str, Any]], *, last: bool
    ) -> None:
        """Keep a state, unless the last one of this training is too young for what
        keeping it costs.
        """
        import torch

        row = _row.get()
        if row is None:
            return
        start = time.perf_counter()
        # the result of a training is kept, once it took some time
        name = f"begin of {training}" if last else training
        # a state that costs too much for its age is skipped
        if start - row.since.get(name, start) < max(LEAST, row.cost / FRACTION):
            return
        torch.save(
            {"state": state(), "seconds": round(row.spent(), 3)},
            content := io.BytesIO(),
        )
        digest = hashlib.blake2b(content.getbuffer(), digest_size=_DIGEST).digest()
        try:
            replace_file(row.state(training), digest + content.getvalue())
        except OSError as error:
            warnings.warn(
                f"no checkpoint of row {row.key}, the training goes on: {error}",
                stacklevel=2,
            )
        row.since[training] = time.perf_counter()
        row.cost = row.since[training] - start


def checkpoint() -> RowCheckpoint | None:
    """Make a checkpoint for the training runs of the row that this process is
    computing; None outside of a sweep.

    An experiment hands the checkpoint to a learner whose training may take long. Until
    the row is stored, the store holds states of the learner from the ends of epochs. A
    state is skipped if saving it would take more than a fiftieth of the training time.
    """
    return None if _row.get() is None else RowCheckpoint()


def forget(store: Path, stored: Container[str]) -> None:
    """Remove the states of rows that are stored."""
    for states in store.glob(f"*{STATES}"):
        if states.name.removesuffix(STATES) in stored:
            # another process may remove them at this moment
            shutil.rmtree(states, ignore_errors=True)
