"""Devices, threads of a CPU, and the random streams of each model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch


def choose_device(device: str) -> torch.device:
    """Return the device of that name; ``"auto"`` takes the GPU if there is one."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    chosen = torch.device(device)
    if chosen.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(
            f"device={device!r} is not available: PyTorch sees no GPU; use 'auto' or"
            " 'cpu'"
        )
    return chosen


def device_name(device: str) -> str:
    """Name the hardware of a device: ``"cpu"``, or the model of the GPU."""
    chosen = choose_device(device)
    return torch.cuda.get_device_name(chosen) if chosen.type == "cuda" else chosen.type


@contextmanager
def one_thread() -> Iterator[None]:
    """Restrict PyTorch to one CPU thread within a block.

    The steps of small models are too short to be shared between threads; if shared,
    they take much longer on busy cores. To train several models at once, use several
    processes, each with one thread.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@contextmanager
def full_float32() -> Iterator[None]:
    """Keep all digits of float32 in products and convolutions within a block, and let
    cuDNN take only algorithms that repeat their results.

    Whatever the caller has chosen, no product rounds its factors to TF32 or bfloat16,
    as a GPU and some processors would. A clipped gradient would then be longer than the
    clipping norm, by up to a thousandth. A GPU's fastest convolutions add up in an order
    that differs from run to run; with them, training that is resumed would end
    elsewhere.
    """
    backends: Any = torch.backends
    cudnn = backends.cudnn
    repeats = cudnn.deterministic, cudnn.benchmark
    cudnn.deterministic, cudnn.benchmark = True, False
    parts = (
        backends.cuda.matmul,
        backends.cudnn.conv,
        backends.cudnn.rnn,
        backends.mkldnn.matmul,
        backends.mkldnn.conv,
    )
    chosen = [part.fp32_precision for part in parts]
    for part in parts:
        part.fp32_precision = "ieee"
    # PyTorch has an older switch beside these, which must not contradict them
    older = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        cudnn.deterministic, cudnn.benchmark = repeats
        torch.set_float32_matmul_precision(older)
        for part, precision in zip(parts, chosen, strict=True):
            part.fp32_precision = precision


def spawned_seed(seed: int, *key: int) -> int:
    """Seed of 63 bits, spawned from ``seed`` and the numbers of a model and of a
    purpose.
    """
    return int(
        np.random.SeedSequence(seed, spawn_key=key).generate_state(1, np.uint64)[0]
        >> np.uint64(1)
    )


def torch_generator(seed: int, *key: int) -> torch.Generator:
    """PyTorch generator on the CPU, seeded by :func:`spawned_seed`."""
    return torch.Generator().manual_seed(spawned_seed(seed, *key))
