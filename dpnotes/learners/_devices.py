"""The device that tensors live on, and how many threads of a CPU they use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


def choose_device(device: str) -> torch.device:
    """The device of that name; ``"auto"`` takes the GPU where there is one."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    chosen = torch.device(device)
    if chosen.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device={device!r} is not there: PyTorch sees no GPU; use 'auto' or 'cpu'")
    return chosen


def device_name(device: str) -> str:
    """What the device of that name is: ``"cpu"``, or the model of the GPU."""
    chosen = choose_device(device)
    return torch.cuda.get_device_name(chosen) if chosen.type == "cuda" else chosen.type


@contextmanager
def one_thread() -> Iterator[None]:
    """One CPU thread for PyTorch: steps of small models are too short to share, and cost much more on a busy core.

    Several models are trained at once by several processes, each with one thread.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
