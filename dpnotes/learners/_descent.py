"""Gradient descent of networks and regressions: the learning rate of each step or
epoch, PyTorch's optimizers, and checkpoints of long runs, from which a run continues bit
for bit.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from dpnotes import _validation as check
from dpnotes._validation import Floats
from dpnotes.learners._devices import device_name

Rate = float | Callable[[int], float] | ArrayLike
Schedule = Mapping[int, float] | None
State = dict[str, Any]

OPTIMIZERS = ("adam", "momentum", "sgd")


def step_rates(learning_rate: Rate, steps: int) -> Floats:
    """Learning rates [steps], finite and > 0, from a number, a function of the step
    0, 1, ..., or an array [steps].
    """
    # asked once for each step, before training
    if callable(learning_rate):
        learning_rate = [learning_rate(step) for step in range(steps)]
    rates = np.asarray(learning_rate)
    if rates.dtype.kind not in "fiu":
        raise TypeError(
            "learning_rate must be a number, an array of them or a callable, got"
            f" {learning_rate!r}"
        )
    if rates.shape not in ((), (steps,)):
        raise ValueError(
            f"learning_rate must have one entry for each of {steps} steps, got shape"
            f" {rates.shape}"
        )
    rates = rates.astype(np.float64)
    # NaN is wrong as well
    wrong = ~(np.isfinite(rates) & (rates > 0))
    if wrong.any():
        at = int(np.argmax(wrong))
        raise ValueError(
            f"learning_rate must be finite and > 0 at every step, got {rates.flat[at]}"
            f" at step {at}"
        )
    return np.broadcast_to(rates, (steps,))


def epoch_factors(schedule: Schedule, epochs: int) -> Floats:
    """Factors of the learning rate, one for each epoch 0 to ``epochs - 1``.

    Parameters
    ----------
    schedule : mapping of int to float, optional
        Schedule ``{epoch: factor}``: each factor holds from its epoch on, and the
        factor is 1 before the first such epoch. With None it is always 1.
    epochs : int, >= 1

    Returns
    -------
    ndarray of float64, shape [epochs]
        Factors, finite and >= 0.

    Raises
    ------
    ValueError
        If a factor is negative or not finite, or an epoch is negative.
    TypeError
        If an epoch is not an integer, or the schedule is not a mapping.

    Examples
    --------
    >>> epoch_factors({2: 0.1, 3: 0.01}, 5)
    array([1.  , 1.  , 0.1 , 0.01, 0.01])
    """
    if not isinstance(schedule, Mapping | None):
        raise TypeError(
            "schedule must be None or a mapping of epochs to factors, got"
            f" schedule={schedule!r}"
        )
    factors = np.ones(epochs)
    for epoch, factor in sorted((schedule or {}).items()):
        start = check.at_least("epochs of schedule", epoch, 0)
        # until a later epoch has another
        factors[start:] = check.real("factors of schedule", factor)
    return factors


@dataclass(frozen=True)
class Optimizer:
    """Adam, or stochastic gradient descent with or without momentum; other settings are
    PyTorch's defaults.

    Parameters
    ----------
    kind : {"adam", "momentum", "sgd"}
    momentum : float in [0, 1)
        Momentum of the kind ``"momentum"``.
    """

    kind: str
    momentum: float = 0.9

    def __post_init__(self) -> None:
        check.one_of("optimizer", self.kind, OPTIMIZERS)
        why = "the steps would not decay"
        check.real("momentum", self.momentum, high=1.0, below=why)

    def over(self, parameters: Iterable[Any]) -> torch.optim.Optimizer:
        """Make the optimizer of parameters or groups of parameters; the caller sets the
        learning rate of each step.

        A fused optimizer works entry by entry, so models that are stacked in one tensor
        remain independent.
        """
        if self.kind == "adam":
            return torch.optim.Adam(parameters, fused=True)
        momentum = self.momentum if self.kind == "momentum" else 0.0
        return torch.optim.SGD(parameters, lr=1.0, momentum=momentum, fused=True)


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
        self._checkpoint = checkpoint
        self._tensors = tensors
        self._optimizer = optimizer
        self._training = "" if checkpoint is None else training()

    def resume(self) -> int:
        """Restore the state that was saved last; return the number of steps or
        epochs done so far.
        """
        if self._checkpoint is None:
            return 0
        state = self._checkpoint.load(self._training)
        if state is None:
            return 0
        # another machine or version would not go on bit for bit
        if state["made_by"] != self._arithmetic():
            warnings.warn(
                f"a checkpoint of this training was made by {state['made_by']}, not by"
                f" {self._arithmetic()}: results may differ in rounding or more, so the"
                " training starts again",
                stacklevel=3,
            )
            return 0
        # in place: the optimizer and the engine hold these tensors
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
        # a GPU by its model, a CPU by the vector instructions that PyTorch uses
        name = device_name(str(device))
        if device.type == "cpu":
            name = torch.backends.cpu.get_cpu_capability()
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
    # one after the other, so that no copy of all the data is made
    found = hashlib.blake2b(digest_size=16)
    for part in parts:
        if isinstance(part, torch.Generator):
            part = part.get_state()
        if isinstance(part, Tensor):
            part = part.detach().cpu().numpy()
        if isinstance(part, np.ndarray):
            # the same bytes in another shape are other data
            found.update(f"{part.dtype} {part.shape}".encode())
            found.update(np.ascontiguousarray(part).data)
        else:
            found.update(repr(part).encode())
        found.update(b"\n")
    return found.hexdigest()
