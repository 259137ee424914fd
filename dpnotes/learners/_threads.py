"""How many threads PyTorch uses; PyTorch is imported when a block begins."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def one_thread() -> Iterator[None]:
    """Restrict PyTorch to one CPU thread within a block.

    The steps of small models are too short to be shared between threads; if shared,
    they take much longer on busy cores. To train several models at once, use several
    processes, each with one thread.
    """
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
