"""Which rows stand in which batch: permutations of each run, and the steps in which a replaced record is met."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpnotes import _validation as _checks

LAST_BATCH = ("keep", "drop")
NEVER = np.iinfo(np.int64).max

Rate = float | Callable[[int], float] | ArrayLike


@dataclass(frozen=True)
class Batches:
    """Batches of one epoch after the other; none spans two epochs.

    Parameters
    ----------
    n : int
        Records.
    size : int
        Records of a full batch.
    steps : int
        Batches in all.
    keep_last : bool
        Whether an epoch ends with a smaller batch of the rest, or leaves the rest out.
    """

    n: int
    size: int
    steps: int
    keep_last: bool

    @property
    def per_epoch(self) -> int:
        """Batches of one epoch."""
        return -(-self.n // self.size) if self.keep_last else self.n // self.size

    @property
    def n_epochs(self) -> int:
        """Epochs begun."""
        return -(-self.steps // self.per_epoch)

    def in_epoch(self, epoch: int) -> int:
        """Batches of epoch ``epoch``; the last epoch may stop early."""
        return min(self.per_epoch, self.steps - epoch * self.per_epoch)

    def rows_used(self, epoch: int) -> int:
        """Records that stand in a batch of epoch ``epoch``."""
        return min(self.in_epoch(epoch) * self.size, self.n)


class Orders:
    """Permutations of the records for some runs, epoch by epoch, each run from a stream of its own.

    The streams are NumPy's: PyTorch's generator on the CPU takes only 32 bits of its seed, so that two of 10,000 runs
    would be the same run in one case of a hundred.
    """

    def __init__(self, seeds: NDArray[np.int64], n: int) -> None:
        self._n = n
        distinct = {seed: index for index, seed in enumerate(dict.fromkeys(seeds.tolist()))}  # in order of the runs
        self._of_run = [distinct[seed] for seed in seeds.tolist()] if len(distinct) < len(seeds) else None
        self._streams = [np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0,))) for seed in distinct]

    def draw(self) -> NDArray[np.int32]:
        """Draw the next epoch: [R, n]."""
        drawn = np.empty((len(self._streams), self._n), dtype=np.int32)
        for row, generator in zip(drawn, self._streams, strict=True):
            row[:] = generator.permutation(self._n)
        return drawn if self._of_run is None else drawn[self._of_run]


@dataclass(frozen=True, eq=False)
class Hits:
    """Meetings of a run with the record that one of its neighbours replaces, in one epoch, in order of the step.

    Parameters
    ----------
    step : ndarray of int64, shape [H]
        Batch within the epoch.
    run, place, column : ndarrays of int64, shape [H]
        Run of the chunk; place of the record within the batch; column of the neighbour among the run's models.
    first : ndarray of bool, shape [H]
        Whether the neighbour parts from the unmodified data set in this step.
    width : ndarray of int64, shape [batches of the epoch]
        Columns in use, column 0 (the unmodified data set) included, the most over all runs.
    visits : ndarray of bool, shape [R, S]
        Which neighbours are met at all.
    """

    step: NDArray[np.int64]
    run: NDArray[np.int64]
    place: NDArray[np.int64]
    column: NDArray[np.int64]
    first: NDArray[np.bool_]
    width: NDArray[np.int64]
    visits: NDArray[np.bool_]


class Neighbours:
    """Columns of the neighbouring data sets of some runs, given out in the order of their first hit.

    Before its first hit a neighbour is the unmodified run; so a run's columns in use are always a prefix.

    Attributes
    ----------
    column : ndarray of int64, shape [R, S]
        Column of each neighbour; 0 before it has one.
    since : ndarray of int64, shape [R, S]
        Step, counted from the start, of the first hit; NEVER before it is known.
    """

    def __init__(self, records: NDArray[np.int64], n_runs: int, batches: Batches) -> None:
        self._records, self._batches = records, batches
        self.column = np.zeros((n_runs, len(records)), dtype=np.int64)
        self.since = np.full((n_runs, len(records)), NEVER)
        self._used = np.ones(n_runs, dtype=np.int64)

    def meet(self, orders: NDArray[np.int32], epoch: int) -> Hits:
        """Find the hits of an epoch with these orders [R, n], giving columns to neighbours that are hit first here."""
        start, size = epoch * self._batches.per_epoch, self._batches.size
        places = np.empty_like(self.column)
        inverse = np.empty(self._batches.n, dtype=np.int64)
        for index, order in enumerate(orders):
            inverse[order] = np.arange(self._batches.n)
            places[index] = inverse[self._records]
        met = places < self._batches.rows_used(epoch)
        new = met & (self.column == 0)
        began = self._used.copy()
        for run in np.flatnonzero(new.any(axis=1)):
            fresh = np.flatnonzero(new[run])
            fresh = fresh[np.argsort(places[run, fresh], kind="stable")]
            self.column[run, fresh] = self._used[run] + np.arange(len(fresh))
            self._used[run] += len(fresh)
        self.since[new] = start + places[new] // size
        runs, hit = np.nonzero(met)
        by_step = np.argsort(places[runs, hit] // size, kind="stable")
        runs, hit = runs[by_step], hit[by_step]
        place, first = places[runs, hit], new[runs, hit]
        joined = np.zeros((self._batches.in_epoch(epoch), len(began)), dtype=np.int64)
        np.add.at(joined, ((place // size)[first], runs[first]), 1)
        width = (began + np.cumsum(joined, axis=0)).max(axis=1)
        return Hits(place // size, runs, place % size, self.column[runs, hit], first, width, met)

    def columns(self, done: int) -> NDArray[np.int64]:
        """Columns [R, S + 1] of the unmodified data set and of all neighbours after ``done`` steps."""
        current = np.where(self.since < done, self.column, 0)
        return np.hstack([np.zeros((len(current), 1), dtype=np.int64), current])


def batches(n: int, *, batch_size: int, epochs: int | None, steps: int | None, last_batch: str) -> Batches:
    """Check the settings of :class:`Batches`."""
    _checks.at_least("batch_size", batch_size, 1)
    if batch_size > n:
        raise ValueError(f"batch_size must be <= n={n} records, got batch_size={batch_size}")
    if last_batch not in LAST_BATCH:
        raise ValueError(f"last_batch must be 'keep' or 'drop', got last_batch={last_batch!r}")
    if (epochs is None) == (steps is None):
        raise ValueError(f"exactly one of epochs and steps must be given, got epochs={epochs} and steps={steps}")
    once = Batches(n, batch_size, 1, last_batch == "keep")
    if steps is None:
        assert epochs is not None  # one of the two is given
        steps = _checks.at_least("epochs", epochs, 1) * once.per_epoch
    return Batches(n, batch_size, _checks.at_least("steps", steps, 1), last_batch == "keep")


def rates(learning_rate: Rate, steps: int) -> NDArray[np.float64]:
    """Step lengths [steps], each finite and > 0, of a number, a function of the step 0, 1, ..., or an array."""
    if callable(learning_rate):
        values = np.array([learning_rate(step) for step in range(steps)], dtype=np.float64)
    elif np.ndim(learning_rate) == 0:
        values = np.full(steps, _checks.real("learning_rate", learning_rate, open_low=True))  # type: ignore[arg-type]
    else:
        values = np.asarray(learning_rate, dtype=np.float64)
    if values.shape != (steps,):
        raise ValueError(f"learning_rate must have one entry for each of {steps} steps, got shape {values.shape}")
    bad = ~(np.isfinite(values) & (values > 0))
    if bad.any():
        at = int(np.argmax(bad))
        raise ValueError(f"learning_rate must be finite and > 0 at every step, got {values[at]} at step {at}")
    return values


def recorded_steps(checkpoints: Sequence[int], steps: int) -> tuple[int, ...]:
    """Check the numbers of steps after which weights are recorded."""
    chosen = tuple(_checks.at_least("checkpoints", step, 0) for step in checkpoints)
    if list(chosen) != sorted(set(chosen)) or (chosen and chosen[-1] > steps):
        raise ValueError(f"checkpoints must increase within 0..{steps}, got checkpoints={list(checkpoints)}")
    return chosen


def run_seeds(
    n_runs: int,
    random_state: int,
    *,
    order_seeds: ArrayLike | None,
    init_seeds: ArrayLike | None,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Seeds [R] of the orders and of the initial weights; run i's default is spawned from random_state and i."""
    _checks.at_least("n_runs", n_runs, 1)
    _checks.at_least("random_state", random_state, 0)
    spawned = np.array(
        [
            int(np.random.SeedSequence(random_state, spawn_key=(i,)).generate_state(1, np.uint64)[0] >> np.uint64(1))
            for i in range(n_runs)
        ]
    )
    chosen = []
    for name, given in (("order_seeds", order_seeds), ("init_seeds", init_seeds)):
        seeds = spawned if given is None else np.asarray(given)
        if seeds.dtype.kind not in "iu" or seeds.shape not in ((), (n_runs,)) or seeds.min() < 0:
            raise ValueError(f"{name} must be one integer >= 0 or {n_runs} of them, got {name}={given!r}")
        chosen.append(np.broadcast_to(seeds.astype(np.int64), (n_runs,)).copy())
    return chosen[0], chosen[1]
