"""Mini-batch descent for networks: one model after the other, or many in one tensor program, with the same draws."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from dpnotes import _validation as check
from dpnotes._validation import Floats, Integers
from dpnotes.learners._augmentation import apply_crop_flips
from dpnotes.learners._checkpoints import Checkpoint, Progress, digest
from dpnotes.learners._chunks import chunk_size, free_bytes, slices
from dpnotes.learners._descent import Optimizer
from dpnotes.learners._network_gradients import is_chain, stacked_gradients
from dpnotes.learners._network_initial import Start

ENGINES = ("auto", "loop", "batched")
CHAIN_MODELS, OTHER_MODELS = 16, 64  # at least at once on a CPU: a step costs 0.2 or 1 ms beside the arithmetic
GPU_BATCH = 512  # rows of one model's batch that fill a GPU by themselves


@dataclass(frozen=True, eq=False)
class Training:
    """Data and settings that all models share.

    Parameters
    ----------
    images : torch.Tensor of float32, float64 or uint8, shape [n, ...]
    labels : torch.Tensor of int64, shape [n], on the same device
    n_classes : int
    dtype : torch.dtype
        Of weights and of images as the network sees them.
    batch_size : int
    rates : ndarray of float64, shape [epochs]
        Learning rates.
    optimizer : Optimizer
    augmentation : None or "crop-flip"
    checkpoint : Checkpoint, optional
    """

    images: torch.Tensor
    labels: torch.Tensor
    n_classes: int
    dtype: torch.dtype
    batch_size: int
    rates: Floats
    optimizer: Optimizer
    augmentation: str | None
    checkpoint: Checkpoint | None = None

    def __post_init__(self) -> None:
        if self.augmentation not in (None, "crop-flip"):
            raise ValueError(f"augmentation must be None or 'crop-flip', got augmentation={self.augmentation!r}")
        if self.augmentation and self.images.ndim != 4:
            raise ValueError(
                f"augmentation='crop-flip' needs images [n, channels, height, width], got {self.images.ndim} axes"
            )

    @cached_property
    def digest(self) -> str:
        """Digest of data and settings."""
        settings = (self.n_classes, self.dtype, self.batch_size, self.optimizer, self.augmentation)
        return digest(self.images, self.labels, self.rates, *settings)

    def progress(
        self, starts: Sequence[Start], tensors: Sequence[torch.Tensor], optimizer: torch.optim.Optimizer
    ) -> Progress:
        """Progress of some models together, before the first epoch."""

        def training() -> str:
            return digest(self.digest, [start.digest() for start in starts], [value.shape for value in tensors])

        return Progress(self.checkpoint, training, tensors, optimizer)

    def take(self, rows: torch.Tensor, kinds: torch.Tensor | None) -> torch.Tensor:
        """Images of some rows [b], augmented as drawn [b], as the network sees them."""
        images = self.images.index_select(0, rows)  # copies whole rows, twice as fast as an index
        return as_pixels(images if kinds is None else apply_crop_flips(images, kinds), self.dtype)

    def batches(
        self, orders: torch.Tensor, kinds: torch.Tensor | None
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor | None]]:
        """Rows of each batch of an epoch, from orders [..., m], and their augmentation, both on the device."""
        where, size = self.images.device, self.batch_size
        rows = torch.split(orders.to(where), size, dim=-1)
        changes = [None] * len(rows) if kinds is None else torch.split(kinds.to(where), size, dim=-1)
        return zip(rows, changes, strict=True)


def train(starts: Sequence[Start], training: Training, engine: str) -> tuple[dict[str, torch.Tensor], Floats]:
    """Train some models; give parameters [M, ...] on the CPU and mean losses over the last epoch [M]."""
    parameters, losses = train_one(starts[0], training) if engine == "loop" else train_together(starts, training)
    return parameters, losses.numpy()


def train_one(start: Start, training: Training) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """Train the network of ``start`` in place; give its parameters [1, ...] and its loss [1], both on the CPU."""
    where = training.images.device
    network = start.network.to(where).to(memory_format=torch.channels_last)
    network.train()
    optimizer = training.optimizer.over([p for p in network.parameters() if p.requires_grad])
    total = torch.zeros((), dtype=torch.float64, device=where)
    progress = training.progress([start], [*network.parameters(), total], optimizer)
    done = progress.resume()
    for epoch, rate in enumerate(training.rates):
        drawn = start.epoch(training.augmentation)
        if epoch < done:
            continue
        optimizer.param_groups[0]["lr"] = float(rate)
        total.zero_()
        for rows, changes in training.batches(*drawn):
            optimizer.zero_grad(set_to_none=True)
            loss = cross_entropy(network(training.take(rows, changes)), training.labels[rows])
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            total += loss.detach() * len(rows)
        progress.keep(epoch + 1, last=epoch + 1 == len(training.rates))
    parameters = {name: value.detach()[None].cpu().contiguous() for name, value in network.named_parameters()}
    return parameters, (total / len(start.rows)).cpu()[None]


def train_together(starts: Sequence[Start], training: Training) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """Train models with equally many batches an epoch at once; give parameters [M, ...] and losses [M], on the CPU.

    The last batch of an epoch is filled up to the longest with rows of weight 0.
    """
    where, template = training.images.device, starts[0].network.to(training.images.device).train()
    named = [dict(start.network.named_parameters()) for start in starts]
    stacked = {name: torch.stack([one[name].detach().cpu() for one in named]).to(where) for name in named[0]}
    trained = {name: value for name, value in stacked.items() if named[0][name].requires_grad}
    fixed = {name: value for name, value in stacked.items() if name not in trained}
    sizes = torch.tensor([len(start.rows) for start in starts])
    weights = [weight.to(where) for weight in _row_weights(sizes, training)]

    gradients_of = stacked_gradients(template)
    optimizer = training.optimizer.over(trained.values())
    losses = torch.zeros(len(starts), dtype=torch.float64, device=where)
    one_hot = torch.eye(training.n_classes, dtype=training.dtype, device=where)
    progress = training.progress(starts, [*stacked.values(), losses], optimizer)
    done = progress.resume()
    for epoch, rate in enumerate(training.rates):
        drawn = _epoch(starts, training.augmentation, longest=int(sizes.max()))
        if epoch < done:
            continue
        optimizer.param_groups[0]["lr"] = float(rate)
        batches = training.batches(*drawn)
        for (rows, changes), weight in zip(batches, weights, strict=True):
            x = training.take(rows.flatten(), None if changes is None else changes.flatten())
            y = training.labels[rows]
            x = x.view(*rows.shape, *x.shape[1:])
            gradients, logits = gradients_of(trained, fixed, x, one_hot[y], weight)
            for name, value in trained.items():
                value.grad = gradients[name].contiguous()  # the fused optimizer takes entries in storage order
            optimizer.step()
            if epoch == len(training.rates) - 1:
                each = cross_entropy(logits.flatten(0, 1), y.flatten(), reduction="none").view(rows.shape)
                losses += (each * (weight > 0)).sum(1)
        progress.keep(epoch + 1, last=epoch + 1 == len(training.rates))
    return {name: value.detach().cpu() for name, value in stacked.items()}, losses.cpu() / sizes


def _row_weights(sizes: torch.Tensor, training: Training) -> list[torch.Tensor]:
    """Weight [M, b] of each row in the mean over its batch, for the batches of an epoch of M models."""
    counts = torch.arange(int(sizes.max())) < sizes[:, None]  # [M, longest]
    batches = torch.split(counts.to(training.dtype), training.batch_size, dim=1)
    return [batch / batch.sum(1, keepdim=True) for batch in batches]


def _epoch(
    starts: Sequence[Start], augmentation: str | None, *, longest: int
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Rows of the next epoch and their augmentation [M, longest], filled up with each model's first row, unchanged."""
    orders = torch.stack([start.rows[:1].expand(longest) for start in starts])
    kinds = torch.zeros_like(orders)
    for order, kind, start in zip(orders, kinds, starts, strict=True):
        own, changes = start.epoch(augmentation)
        order[: len(own)] = own
        if changes is not None:
            kind[: len(own)] = changes
    return orders, None if augmentation is None else kinds


def as_pixels(images: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Images as a network sees them: bytes divided by 255, all in ``dtype``."""
    return images.to(dtype).div_(255) if images.dtype == torch.uint8 else images.to(dtype)


def choose_engine(engine: str, network: nn.Module, device: torch.device, *, n_models: int, batch_size: int) -> str:
    """Which engine :func:`fit_networks` takes: ``"loop"``, one model after the other, or ``"batched"``, all at once.

    Parameters
    ----------
    engine : {"auto", "loop", "batched"}
        ``"auto"``: the loop for one model, for convolutions on a CPU (bound by arithmetic already; batching them is
        slower) and for batches that fill a GPU.
    network : torch.nn.Module
    device : torch.device
    n_models, batch_size : int

    Returns
    -------
    str
    """
    if check.one_of("engine", engine, ENGINES) != "auto":
        return engine
    if n_models == 1 or batch_size >= GPU_BATCH:
        return "loop"
    return "loop" if device.type == "cpu" and has_convolutions(network) else "batched"


def has_convolutions(network: nn.Module) -> bool:
    """Whether a layer of the network is a convolution."""
    return any(isinstance(layer, nn.Conv1d | nn.Conv2d | nn.Conv3d) for layer in network.modules())


def batches_queries(network: nn.Module, device: torch.device) -> bool:
    """Whether to predict by many models at once."""
    return device.type != "cpu" or not has_convolutions(network)


def model_bytes(network: nn.Module, example: torch.Tensor, n_activations: int, *, batch_size: int) -> int:
    """What one model holds while it is trained: weights, gradients, moments, and a batch, forward and backward."""
    parameters = sum(parameter.numel() for parameter in network.parameters())
    return example.itemsize * (5 * parameters + batch_size * (2 * example.numel() + 3 * n_activations))


def groups(
    sizes: Integers,
    engine: str,
    network: nn.Module,
    bytes_per_model: int,
    device: torch.device,
    *,
    batch_size: int,
    chunk: int | None,
) -> list[Integers]:
    """Models that are trained at once: one with the loop, else some with equally many batches an epoch."""
    if engine == "loop":
        return list(np.arange(len(sizes))[:, None])
    least, n_threads = 1, None
    if chunk is None and device.type == "cpu":
        by_memory = free_bytes(device) // (2 * bytes_per_model)
        least, n_threads = min(CHAIN_MODELS if is_chain(network) else OTHER_MODELS, by_memory), 1
    batches, found = -(-sizes // batch_size), []
    for count in np.unique(batches):
        models = np.flatnonzero(batches == count)
        at_once = chunk_size(len(models), bytes_per_model, device, chunk=chunk, n_threads=n_threads)
        if at_once < least:
            at_once = -(-len(models) // -(-len(models) // least))
        found += [models[part] for part in slices(len(models), at_once)]
    return found
