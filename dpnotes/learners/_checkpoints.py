"""Checkpoints of long training runs: the state saved after an epoch, from which a
run continues bit for bit.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from dpnotes.learners._devices import device_name

State = dict[str, Any]


class Checkpoint(Protocol):
    """Store of the states of training runs, so that a run that was stopped can continue
    from its last state.

    A training run is identified by a digest of everything that decides its result:
    data, initial weights, random streams and settings. Therefore a state is never given
    to a different training run. States are not private, even if the training procedure
    is.
    """

    def load(self, training: str) -> State | None:
        """Return the state that was saved last for a training run, or None if there
        is none.
        """

    def save(self, training: str, state: Callable[[], State], *, last: bool) -> None:
        """Save the state that ``state()`` returns: numbers, strings and tensors in
        dicts and lists.

        The training run calls this method at the end of each epoch, with ``last=True``
        after the last epoch. A checkpoint may skip some epochs.
        """


class Progress:
    """Progress of one training run, with the tensors that it changes in place.

    A state does not contain random streams: a run that continues draws the earlier
    numbers again and ignores them.

    Parameters
    ----------
    checkpoint : Checkpoint or None
        Checkpoint to use; with None, no state is saved.
    training : callable
        Function that returns the :func:`digest` of everything that decides the run. It
        is called only if there is a checkpoint.
    tensors : sequence of torch.Tensor
        Weights and sums over an epoch, all on one device.
    optimizer : torch.optim.Optimizer
    """

    def __init__(
        self,
        checkpoint: Checkpoint | None,
        training: Callable[[], str],
        tensors: Sequence[Tensor],
        optimizer: torch.optim.Optimizer,
    ) -> None:
        self._checkpoint, self._tensors, self._optimizer = (
            checkpoint,
            tensors,
            optimizer,
        )
        self._training = "" if checkpoint is None else training()

    def resume(self) -> int:
        """Restore the state that was saved last; return the number of steps or
        epochs done so far.
        """
        state = (
            None if self._checkpoint is None else self._checkpoint.load(self._training)
        )
        if state is None:
            return 0
        if state["made_by"] != self._arithmetic():
            warnings.warn(
                f"a checkpoint of this training was made by {state['made_by']}, not by"
                f" {self._arithmetic()}: results may differ in rounding or more, so the"
                " training starts again",
                stacklevel=3,
            )
            return 0
        with torch.no_grad():
            for own, kept in zip(self._tensors, state["tensors"], strict=True):
                own.copy_(kept)
        self._optimizer.load_state_dict(state["optimizer"])
        return int(state["done"])

    def keep(self, done: int, *, last: bool) -> None:
        """Offer the state after ``done`` steps or epochs to the checkpoint."""
        if self._checkpoint is not None:
            self._checkpoint.save(self._training, lambda: self._state(done), last=last)

    def _state(self, done: int) -> State:
        tensors = [value.detach() for value in self._tensors]
        return {
            "done": done,
            "tensors": tensors,
            "optimizer": self._optimizer.state_dict(),
            "made_by": self._arithmetic(),
        }

    def _arithmetic(self) -> str:
        """What else decides the result: our code, PyTorch, and the device or the
        instructions of the processor.
        """
        device = self._tensors[0].device
        name = (
            torch.backends.cpu.get_cpu_capability()
            if device.type == "cpu"
            else device_name(str(device))
        )
        return f"code {_code()} and torch {torch.__version__} on {device.type} ({name})"


@cache
def _code() -> str:
    """Digest of the sources of this package, which train and draw."""
    sources = sorted(Path(__file__).parent.glob("*.py"))
    return digest(*((path.name, path.read_bytes()) for path in sources))[:10]


def digest(*parts: Any) -> str:
    """Digest, 32 hexadecimal digits, of arrays, tensors, PyTorch generators, and
    other objects by their ``repr``.
    """
    found = hashlib.blake2b(digest_size=16)
    for part in parts:
        part = part.get_state() if isinstance(part, torch.Generator) else part
        if isinstance(part, Tensor):
            part = part.detach().cpu().numpy()
        if isinstance(part, np.ndarray):
            found.update(f"{part.dtype} {part.shape}".encode())
            found.update(np.ascontiguousarray(part).data)
        else:
            found.update(repr(part).encode())
        found.update(b"\n")
    return found.hexdigest()
