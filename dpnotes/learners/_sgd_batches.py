"""Which records are in which batch: permutations of each run, and the steps that visit a replaced record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpnotes import _validation as check
from dpnotes._validation import Booleans, Integers
from dpnotes.learners._devices import spawned_seed

NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Batches:
    """Batches of one epoch after the other; none spans two epochs, and the rest of an epoch is left out.

    Parameters
    ----------
    n : int
        Records.
    size : int
        Records of a batch.
    steps : int
        Batches in all.
    """

    n: int
    size: int
    steps: int

    @property
    def per_epoch(self) -> int:
        """Batches of one epoch."""
        return self.n // self.size

    @property
    def n_epochs(self) -> int:
        """Epochs begun."""
        return -(-self.steps // self.per_epoch)

    def in_epoch(self, epoch: int) -> int:
        """Batches of epoch ``epoch``; the last epoch may stop early."""
        return min(self.per_epoch, self.steps - epoch * self.per_epoch)


def epoch_orders(seeds: Integers, n: int) -> Iterator[NDArray[np.int32]]:
    """Permutations [R, n] of the records for some runs, epoch by epoch, each run from a stream of its own.

    The streams are NumPy's: PyTorch's generator on the CPU takes only 32 bits of its seed, so that two of 10,000 runs
    would be the same run in one case of a hundred.
    """
    streams = [np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0,))) for seed in seeds.tolist()]
    while True:
        drawn = np.empty((len(streams), n), dtype=np.int32)
        for row, generator in zip(drawn, streams, strict=True):
            row[:] = generator.permutation(n)
        yield drawn


@dataclass(frozen=True, eq=False)
class Visits:
    """Visits of runs to the records that their neighbours replace, in one epoch, in order of the step.

    Parameters
    ----------
    step : ndarray of int64, shape [V]
        Batch within the epoch.
    run, place, column : ndarrays of int64, shape [V]
        Run of the chunk; place of the record within the batch; column of the neighbour among the run's models.
    first : ndarray of bool, shape [V]
        Whether this is the first step in which the neighbour differs from the unmodified data set.
    width : ndarray of int64, shape [batches of the epoch]
        Columns in use, column 0 (the unmodified data set) included, the most over all runs.
    any : ndarray of bool, shape [R, S]
        Which neighbours are visited at all.
    """

    step: Integers
    run: Integers
    place: Integers
    column: Integers
    first: Booleans
    width: Integers
    any: Booleans


class Neighbours:
    """Columns of the neighbouring data sets of some runs, assigned in the order of their first visits.

    Before its first visit a neighbour is the unmodified run; so a run's columns in use are always a prefix.

    Attributes
    ----------
    column : ndarray of int64, shape [R, S]
        Column of each neighbour; 0 before it has one.
    since : ndarray of int64, shape [R, S]
        Step, counted from the start, of the first visit; NEVER before it is known.
    """

    def __init__(self, records: Integers, n_runs: int, batches: Batches) -> None:
        self._records, self._batches = records, batches
        self.column = np.zeros((n_runs, len(records)), dtype=np.int64)
        self.since = np.full((n_runs, len(records)), NEVER)

    def visit(self, orders: NDArray[np.int32], epoch: int) -> Visits:
        """Find the visits of an epoch with these orders [R, n], and assign columns to neighbours first visited here."""
        start, size = epoch * self._batches.per_epoch, self._batches.size
        places = np.empty_like(self.column)
        inverse = np.empty(self._batches.n, dtype=np.int64)
        for index, order in enumerate(orders):
            inverse[order] = np.arange(self._batches.n)
            places[index] = inverse[self._records]
        visited = places < self._batches.in_epoch(epoch) * size
        new = visited & (self.column == 0)
        used = 1 + (self.column > 0).sum(axis=1)  # columns, before this epoch
        turn = np.argsort(np.argsort(np.where(new, places, NEVER), axis=1, kind="stable"), axis=1)
        self.column[new] = (used[:, None] + turn)[new]
        self.since[new] = start + places[new] // size
        run, neighbour = np.nonzero(visited)
        by_step = np.argsort(places[run, neighbour] // size, kind="stable")
        run, neighbour = run[by_step], neighbour[by_step]
        step, place = np.divmod(places[run, neighbour], size)
        first = new[run, neighbour]
        started = np.zeros((self._batches.in_epoch(epoch), len(orders)), dtype=np.int64)
        np.add.at(started, (step[first], run[first]), 1)
        width = (used + np.cumsum(started, axis=0)).max(axis=1)
        return Visits(step, run, place, self.column[run, neighbour], first, width, visited)

    def columns(self, done: int) -> Integers:
        """Columns [R, S + 1] of the unmodified data set and of all neighbours after ``done`` steps."""
        return np.pad(np.where(self.since < done, self.column, 0), ((0, 0), (1, 0)))


def recorded_steps(checkpoints: Sequence[int], steps: int) -> tuple[int, ...]:
    """Check the numbers of steps after which weights are recorded."""
    chosen = tuple(check.at_least("checkpoints", step, 0) for step in checkpoints)
    if list(chosen) != sorted(set(chosen)) or (chosen and chosen[-1] > steps):
        raise ValueError(f"checkpoints must increase within 0..{steps}, got checkpoints={list(checkpoints)}")
    return chosen


def run_seeds(init_seeds: ArrayLike | None, n_runs: int, random_state: int) -> tuple[Integers, Integers]:
    """Seeds [R] of orders, spawned from ``random_state`` and the index of each run, and of initial weights."""
    check.at_least("n_runs", n_runs, 1)
    check.at_least("random_state", random_state, 0)
    spawned = np.array([spawned_seed(random_state, i) for i in range(n_runs)])
    init = spawned if init_seeds is None else np.asarray(init_seeds)
    if init.dtype.kind not in "iu" or init.shape not in ((), (n_runs,)) or init.min() < 0:
        raise ValueError(f"init_seeds must be one integer >= 0 or {n_runs} of them, got init_seeds={init_seeds!r}")
    return spawned, np.broadcast_to(init.astype(np.int64), (n_runs,)).copy()
