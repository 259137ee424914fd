"""The machine: devices, threads, precision, random streams of each model; and the rows
of many models, and how many are trained at once, which depends on CPU caches or GPU
memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from dpnotes._gate import WhileAny
from dpnotes._validation import Integers, at_least

# [M, m], or M arrays of any lengths
RowSubsets = NDArray[np.integer] | Sequence[ArrayLike]
CPU_BUDGET = 4 * 2**20  # bytes for each thread: a little over L2, well inside L3
# of the free memory: temporaries of a step take about as much again
GPU_FRACTION = 0.25


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


def image_layout(device: torch.device) -> torch.memory_format:
    """How weights and images of convolutions lie in memory, where they are fastest.

    With all digits of float32, an H100 trains ResNet-20 1.35 times and VGG16 1.2 times
    as fast as with channels last.
    """
    return torch.channels_last if device.type == "cpu" else torch.contiguous_format


@contextmanager
def full_float32() -> Iterator[None]:
    """Keep all digits of float32 in products and convolutions within a block, and let
    cuDNN take only algorithms that repeat their results.

    Whatever the caller has chosen, no product rounds its factors to TF32 or bfloat16,
    as a GPU, some processors and ``torch.autocast`` would. A clipped gradient would
    then be longer than the clipping norm, by up to three thousandths. A GPU's fastest
    convolutions add up in an order that differs from run to run; with them, training
    that is resumed would end elsewhere.
    """
    # autocast would lower the precision of products behind the settings' back
    cast = [kind for kind in ("cpu", "cuda") if torch.is_autocast_enabled(kind)]
    for kind in cast:
        torch.set_autocast_enabled(kind, False)
    try:
        with _full_precision:
            yield
    finally:
        for kind in cast:
            torch.set_autocast_enabled(kind, True)


class _Precision(NamedTuple):
    """What PyTorch was told about the precision and the order of its sums."""

    deterministic: bool
    benchmark: bool
    parts: Sequence[str]
    older: str


def _parts() -> tuple[Any, ...]:
    backends: Any = torch.backends
    return (
        backends.cuda.matmul,
        backends.cudnn.conv,
        backends.cudnn.rnn,
        backends.mkldnn.matmul,
        backends.mkldnn.conv,
    )


def _chosen_precision() -> _Precision:
    cudnn = torch.backends.cudnn
    chosen = [part.fp32_precision for part in _parts()]
    # PyTorch has an older switch beside these, which cannot be read while they
    # contradict it
    for part in _parts():
        part.fp32_precision = "ieee"
    older = torch.get_float32_matmul_precision()
    return _Precision(cudnn.deterministic, cudnn.benchmark, chosen, older)


def _choose_precision(chosen: _Precision) -> None:
    torch.backends.cudnn.deterministic = chosen.deterministic
    torch.backends.cudnn.benchmark = chosen.benchmark
    torch.set_float32_matmul_precision(chosen.older)
    for part, precision in zip(_parts(), chosen.parts, strict=True):
        part.fp32_precision = precision


_full_precision = WhileAny(
    _chosen_precision,
    _choose_precision,
    _Precision(True, False, ["ieee"] * len(_parts()), "highest"),
)


def spawned_seed(seed: int, *key: int) -> int:
    """Seed of 63 bits, spawned from ``seed`` and the numbers of a model and of a
    purpose.
    """
    stream = np.random.SeedSequence(seed, spawn_key=key)
    return int(stream.generate_state(1, np.uint64)[0] >> np.uint64(1))


def torch_generator(seed: int, *key: int) -> torch.Generator:
    """PyTorch generator on the CPU, seeded by :func:`spawned_seed`."""
    return torch.Generator().manual_seed(spawned_seed(seed, *key))


@dataclass(frozen=True, eq=False)
class Subsets:
    """Row indices of M models, laid end to end.

    Parameters
    ----------
    indices : ndarray of int64, shape [sum of sizes]
    sizes : ndarray of int64, shape [M]
    """

    indices: NDArray[np.int64]
    sizes: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.sizes)

    def by_size(self) -> NDArray[np.int64]:
        """Models in order of size, so that a chunk of successive models needs little
        padding.
        """
        return np.argsort(self.sizes, kind="stable")

    def padded(
        self, models: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Rows [len(models), size] of some models, padded by repeats of first rows,
        and whether each row counts.
        """
        # where each model's rows begin in the indices
        starts = (np.cumsum(self.sizes) - self.sizes)[models, None]
        place = np.arange(self.sizes[models].max())
        counts = place < self.sizes[models, None]
        return self.indices[starts + np.where(counts, place, 0)], counts


def row_subsets(subsets: RowSubsets, *, n: int) -> Subsets:
    """Check subsets, an array [M, m] or a sequence of M index arrays of any lengths
    >= 1, against ``n`` rows.
    """
    if isinstance(subsets, np.ndarray) and subsets.ndim != 2:
        raise ValueError(
            "subsets must have shape [n_models, m] or be a list of index arrays, got"
            f" {subsets.shape}"
        )
    rows = [np.asarray(subset) for subset in subsets]
    if not rows:
        raise ValueError("subsets must hold at least one subset, got none")
    for index, subset in enumerate(rows):
        if subset.ndim != 1:
            raise ValueError(
                "subsets must hold one-dimensional index arrays, got shape"
                f" {subset.shape} at {index}"
            )
        if not len(subset):
            raise ValueError(f"subsets must not be empty, got subset {index} of 0 rows")
        if subset.dtype.kind not in "iu":
            raise ValueError(
                f"subsets must hold integer row indices, got {subset.dtype} at {index}"
            )
    # the range is looked at once for all: there may be thousands of subsets
    flat = np.concatenate(rows).astype(np.int64, copy=False)
    if flat.min() < 0 or flat.max() >= n:
        raise ValueError(
            f"subsets must hold row indices in 0..{n - 1}, got"
            f" {flat.min()}..{flat.max()}"
        )
    return Subsets(flat, np.array([len(subset) for subset in rows], dtype=np.int64))


def chunk_size(
    n_models: int,
    bytes_per_model: int,
    device: torch.device,
    *,
    touched: int | None = None,
    chunk: int | None = None,
    n_threads: int | None = None,
) -> int:
    """Give the number of models to train at once, between 1 and ``n_models``.

    Chunks have nearly equal sizes: 1,024 models are 18 chunks of 54 and one of 52, not
    18 of 56 and one of 16. Up to rounding, the results of a learner do not depend on
    the size.

    Parameters
    ----------
    n_models : int, >= 1
    bytes_per_model : int, >= 1
        Memory that one model needs while it is trained: its rows, its parameters, their
        history, its logits.
    device : torch.device
    touched : int, >= 1, optional
        Number of these bytes that every iteration reads, and that should therefore fit
        into the cache of a CPU; by default all.
    chunk : int, >= 1, optional
        Caller's choice, which is used if the available memory allows it.
    n_threads : int, >= 1, optional
        Number of threads that share the work on a CPU; by default PyTorch's number.

    Returns
    -------
    int

    Raises
    ------
    ValueError
        If ``chunk`` is below 1.
    TypeError
        If ``chunk`` is not an integer.
    MemoryError
        If ``chunk`` models, or a single model, need more memory than is free; the
        message names the largest chunk that would fit.

    Examples
    --------
    >>> chunk_size(1024, 75_000, torch.device("cpu"), n_threads=1)
    54
    """
    free = free_bytes(device)
    if chunk is None:
        # each thread has its own cache
        threads = n_threads or torch.get_num_threads()
        if device.type == "cuda":
            most = int(GPU_FRACTION * free) // bytes_per_model
        else:
            in_cache = CPU_BUDGET * threads // (touched or bytes_per_model)
            most = min(in_cache, free // (2 * bytes_per_model))
        most = max(1, most)
        # as few chunks as the limit allows, of nearly equal size
        size = -(-n_models // -(-n_models // most))
    else:
        why = "with None, it is chosen from the available memory"
        size = min(at_least("chunk", chunk, 1, why=why), n_models)
    if size * bytes_per_model > free:
        raise out_of_memory(size, bytes_per_model, free)
    return size


def out_of_memory(chunk: int, bytes_per_model: int, free: int) -> MemoryError:
    """Error for ``chunk`` models that do not fit into ``free`` bytes; the message
    names a chunk that would fit.
    """
    fits = free // bytes_per_model
    advice = f"chunk={fits} would fit"
    if not fits:
        advice = "not even chunk=1 fits: use fewer rows or float32"
    return MemoryError(
        f"chunk={chunk} models of {bytes_per_model / 1e6:.1f} MB need"
        f" {chunk * bytes_per_model / 1e9:.2f} GB, but {free / 1e9:.2f} GB are free;"
        f" {advice}"
    )


@contextmanager
def memory_named(
    chunk: int, bytes_per_model: int, device: torch.device
) -> Iterator[None]:
    """Replace PyTorch's out-of-memory errors inside the block by an error that names
    a chunk that would fit.
    """
    try:
        yield
    except RuntimeError as error:
        # of a GPU, which is a RuntimeError too, and of a CPU
        of_gpu = isinstance(error, torch.OutOfMemoryError)
        if not of_gpu and "allocate memory" not in str(error):
            raise
        # what was free was not enough for this chunk, so half of it is the most that
        # can be promised
        free = min(free_bytes(device), chunk * bytes_per_model // 2)
        raise out_of_memory(chunk, bytes_per_model, free) from error


def slices(n_models: int, size: int) -> Iterator[slice]:
    """Consecutive slices of ``size`` (the last may be shorter) that cover
    ``range(n_models)``.
    """
    for start in range(0, n_models, size):
        yield slice(start, min(start + size, n_models))


class Group(NamedTuple):
    """Models that are fitted by one function.

    Parameters
    ----------
    models : ndarray of int64
        Numbers of the models, in the order in which they are fitted; successive models
        have similar sizes.
    fit : callable
        Function ``fit(some)`` that returns the results of some of the models, as
        tensors with a leading axis of models.
    bytes_per_model, touched, chunk
        See :func:`chunk_size`.
    """

    models: Integers
    fit: Callable[[Integers], Sequence[Tensor]]
    bytes_per_model: int
    touched: int | None = None
    chunk: int | None = None


def fit_groups(
    groups: Sequence[Group], results: Sequence[NDArray[Any]], *, device: torch.device
) -> None:
    """Fit all groups chunk by chunk and write each result to its place in
    ``results``, arrays with a leading axis M.
    """
    for models, fit, bytes_per_model, touched, chunk in groups:
        size = chunk_size(
            len(models), bytes_per_model, device, touched=touched, chunk=chunk
        )
        for part in slices(len(models), size):
            # a choice of the results, in their original places
            some = models[part]
            memory = memory_named(len(some), bytes_per_model, device)
            with full_float32(), memory, torch.no_grad():
                for array, values in zip(results, fit(some), strict=True):
                    array[some] = values.cpu().numpy()


def temporary_bytes(device: torch.device, *, on_cpu: int) -> int:
    """Bytes to use for temporary arrays: a fraction of the free memory of a GPU, or
    ``on_cpu`` bytes on a CPU.
    """
    return int(GPU_FRACTION * free_bytes(device)) if device.type == "cuda" else on_cpu


def free_bytes(device: torch.device) -> int:
    """Bytes that a new allocation on the device can have; on a CPU, the memory that
    the system reports as available.
    """
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        # PyTorch keeps what it was given, and uses it again
        held = torch.cuda.memory_reserved(device)
        return int(free) + int(held - torch.cuda.memory_allocated(device))
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        # a system that does not say: the budget alone decides
        return 2**40
    available = next(line for line in lines if line.startswith("MemAvailable:"))
    return int(available.split()[1]) * 1024
