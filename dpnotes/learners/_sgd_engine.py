"""Train chunks of runs of SGD, each with its neighbouring data sets, step by step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from dpnotes._validation import Features, Floats, Integers
from dpnotes.learners import _chunks
from dpnotes.learners._sgd_architecture import Architecture
from dpnotes.learners._sgd_batches import Batches, Neighbours, Orders
from dpnotes.learners._sgd_models import Arrays, LogisticModels, Models, NetworkModels, StepVisits

ORDER_BYTES = 128 * 2**20  # of the permutations of one epoch for all runs of a chunk


@dataclass(frozen=True, eq=False)
class Job:
    """What every run shares.

    Parameters
    ----------
    model : Architecture
    arrays : Arrays
    batches : Batches
    rates : ndarray of float64, shape [steps]
    checkpoints : tuple of int
        Numbers of steps done.
    neighbours : ndarray of int64, shape [S]
        Replaced records; may be empty.
    """

    model: Architecture
    arrays: Arrays
    batches: Batches
    rates: Floats
    checkpoints: tuple[int, ...]
    neighbours: Integers


class Trained(NamedTuple):
    """Some runs after training: S neighbours, C checkpoints, p parameters.

    ``weights`` [r, S + 1, p]; ``trajectory`` [r, C, p] of the unmodified data set; ``visits`` [r, S] int64.
    """

    weights: Features
    trajectory: Features
    visits: Integers


def train(job: Job, initial: Features, order_seeds: Integers, *, chunk: int | None) -> Iterator[Trained]:
    """Train all runs, a chunk at a time; ValueError if a run ends with weights that are not finite."""
    family: type[Models] = LogisticModels if job.model.hidden is None else NetworkModels
    n_runs, device = len(initial), job.arrays.X.device
    numbers = family.numbers_per_run(
        job.model, width=job.arrays.width, n_models=len(job.neighbours) + 1, batch_size=job.batches.size
    )
    each = job.arrays.y.element_size() * numbers
    size = _chunks.chunk_size(n_runs, each, device, chunk=chunk)
    if chunk is None:
        most = max(1, ORDER_BYTES // (4 * job.batches.n))
        size = -(-n_runs // -(-n_runs // min(size, most)))
    for runs in _chunks.slices(n_runs, size):
        with _chunks.memory_named(size, each, device), _full_float32():
            trained = _Chunk(job, family, initial[runs], order_seeds[runs]).train()
        bad = ~np.isfinite(trained.weights).all(axis=(1, 2))
        if bad.any():
            first, rate = runs.start + int(np.argmax(bad)), job.rates.max()
            raise ValueError(f"training of run {first} diverged; lower learning_rate (at most {rate:g} now)")
        yield trained


@contextmanager
def _full_float32() -> Iterator[None]:
    """Products in float32 keep all its digits, whatever the caller has chosen."""
    chosen = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(chosen)


class _Chunk:
    """Runs that are trained together."""

    def __init__(self, job: Job, family: type[Models], initial: Features, order_seeds: Integers) -> None:
        self._job, self._family, self._n_runs = job, family, len(initial)
        self._n_models = len(job.neighbours) + 1
        self._device = job.arrays.X.device
        self._orders = Orders(order_seeds, job.batches.n)
        self._neighbours = Neighbours(job.neighbours, self._n_runs, job.batches)
        self._models = family(job.model, job.arrays, initial, self._n_models)

    @torch.inference_mode()
    def train(self) -> Trained:
        job, done, recorded = self._job, 0, []
        unmodified = torch.arange(self._n_runs, device=self._device) * self._n_models
        visits = np.zeros((self._n_runs, len(job.neighbours)), dtype=np.int64)
        for epoch in range(job.batches.n_epochs):
            for rows, width, found in self._epoch(epoch, visits):
                if done in job.checkpoints:
                    recorded.append(self._models.weights(unmodified))
                self._models.step(rows, width, found, rate=job.rates[done] * self._n_runs / rows.shape[0])
                done += 1
        final = self._weights(done)
        recorded += [final[:, 0]] * (1 + (done in job.checkpoints))
        trajectory = torch.stack(recorded, dim=1)[:, :-1]
        return Trained(final.cpu().numpy(), trajectory.cpu().numpy(), visits)

    def _epoch(self, epoch: int, visits: Integers) -> Iterator[tuple[torch.Tensor, int, StepVisits | None]]:
        """Rows [R * batch], models in use and visits of each step."""
        batches, orders = self._job.batches, self._orders.draw()
        count = batches.in_epoch(epoch)
        widths: list[int] = [1] * count
        found: list[StepVisits | None] = [None] * count
        if len(self._job.neighbours):
            widths, found = self._visits(orders, epoch, visits)
        used = orders[:, : batches.rows_used(epoch)].reshape(self._n_runs, count, batches.size).swapaxes(0, 1)
        rows = torch.from_numpy(np.ascontiguousarray(used)).view(count, -1).to(self._device)
        return zip(rows, widths, found, strict=True)

    def _visits(
        self, orders: NDArray[np.int32], epoch: int, visits: Integers
    ) -> tuple[list[int], list[StepVisits | None]]:
        """Models in use and visits of each step of an epoch, which are added to ``visits`` [R, S]."""
        batches, count, K = self._job.batches, self._job.batches.in_epoch(epoch), self._n_models
        found = self._neighbours.visit(orders, epoch)
        visits += found.any
        first = np.bincount(found.step[found.first], minlength=count).tolist()
        every = np.bincount(found.step, minlength=count).tolist()
        models, base = found.run * K + found.column, found.run * K
        parts = [
            torch.split(torch.from_numpy(values).to(self._device), counts)
            for values, counts in (
                (models, every), (self._family.cells(found, batches.size), every),
                (models[found.first], first), (base[found.first], first),
            )
        ]  # fmt: skip
        return found.width.tolist(), [StepVisits(*part) if n else None for n, *part in zip(every, *parts, strict=True)]

    def _weights(self, done: int) -> torch.Tensor:
        """Parameters [R, S + 1, p] after ``done`` steps."""
        columns = self._neighbours.columns(done)
        models = np.arange(self._n_runs)[:, None] * self._n_models + columns
        chosen = self._models.weights(torch.from_numpy(models.ravel()).to(self._device))
        return chosen.view(*columns.shape, -1)
