"""Running trainings within a budget: batches, joblib, the clock, progress, and what an earlier process has found."""

from __future__ import annotations

import math
import pickle
import random
import sys
import time
from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, cpu_count, delayed
from joblib.externals.loky.backend.reduction import dumps

from dpnotes._validation import Floats, Integers
from dpnotes.auditing._observing import Observer
from dpnotes.auditing._training import Data, Runs, Training

BATCH_SECONDS, LARGEST_BATCH = 0.5, 2048  # of runs between two looks at the clock, for each worker
TIMED, WARM_UP = (1, 4), 0.02  # the first runs, what is compiled once in one alone; fraction of the budget for more
COPIES = ((2, 1), (64, 8))  # runs of two copies, and how many must differ later: a suspicion, and more than chance
PROBES = 3  # runs that are made again, of those that repeat an earlier one's scores, and of those that are repeated
FIXED_BATCH = 256  # runs in a batch where runs are counted, so that they are repeatable
PRIME, STRIDE = 2**31 - 1, 1_130_977_471  # seeds are below 2^31, all different, and not in a row


@dataclass(eq=False)
class Runner:
    """Runs of one training, counted against a budget of seconds, or of runs.

    Attributes
    ----------
    training : Training
    seconds : float
        Infinite where ``most`` is given.
    most : int or None
        Runs.
    n_jobs : int
    random_state : int
    progress : bool
    memory : mutable mapping, optional
        Scores that were found before, and decisions that must not be made twice, by their names; plain values.
    """

    training: Training
    seconds: float
    most: int | None
    n_jobs: int
    random_state: int
    progress: bool
    memory: MutableMapping[str, Any] | None = None
    done: int = 0
    recalled: int = 0  # runs that an earlier process had counted
    index: int = 0  # of the next run, which decides its seed
    rate: float = math.inf  # seconds for one run, with all workers
    errors: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._began = time.perf_counter()
        self._seed = int(np.random.default_rng(self.random_state).integers(PRIME))
        self.batch = 1 if self.most is None else FIXED_BATCH

    @property
    def elapsed(self) -> float:
        """Seconds since the audit began."""
        return time.perf_counter() - self._began

    @property
    def affordable(self) -> int:
        """Runs that are left."""
        if self.most is not None:
            return max(0, self.most - self.done)
        return int(min(max(0.0, self.seconds - self.elapsed) / self.rate, 1e9))

    @property
    def over(self) -> bool:
        """Whether the budget is spent."""
        return self.done >= self.most if self.most is not None else self.elapsed >= self.seconds

    def seeds(self, count: int) -> list[int]:
        """Seeds that no other run has."""
        seeds = [(self._seed + (self.index + i) * STRIDE) % PRIME for i in range(count)]
        self.index += count
        return seeds

    def run(self, data: Data, observers: Sequence[Observer], count: int, *, closely: bool = False) -> list[Runs]:
        """Train ``count`` times, fewer if the budget ends; at least once."""
        parts: list[list[Runs]] = []
        left = count
        while left > 0 and not (parts and self.over):
            workers = self.n_jobs if self.n_jobs > 0 else cpu_count() + 1 + self.n_jobs
            size = min(left, self.batch * max(1, workers))
            chunks = [self.seeds(len(each)) for each in np.array_split(np.arange(size), min(size, workers))]
            start = time.perf_counter()
            if len(chunks) == 1:
                found = [self.training.runs(data, observers, chunks[0], closely=closely)]
            else:
                calls = (delayed(_worker)(self.training, data, observers, each, closely) for each in chunks)
                found = Parallel(n_jobs=self.n_jobs)(calls)
            parts += found
            left -= size
            self._account(size, time.perf_counter() - start, max(1, workers))
        runs = [Runs.joined(part) for part in zip(*parts, strict=True)]
        self.errors += runs[0].errors
        return runs

    def warm_up(self, data: Data, observers: Sequence[Observer]) -> Runs:
        """Some runs; of a budget in seconds more and more at once, until they are long enough to be timed well."""
        found = [self.run(data, observers, each, closely=True)[0] for each in TIMED]
        size, limit = TIMED[-1], WARM_UP * self.seconds
        while self.most is None and size < LARGEST_BATCH and 4 * size * self.rate < limit:
            size *= 4
            self.batch = size
            self.run(data, observers, size)
        return Runs.joined(found[1:])

    def check_copies(self, data: Data, observer: Observer) -> None:
        """Whether workers, which get copies of the training, would repeat one another's results.

        Raises
        ------
        ValueError
            If two copies give the same results with the same seeds, and others when they go on: the training keeps a
            generator, or something else that its results depend on.
        """
        if self.n_jobs == 1 or self.training.many is not None:
            return
        for count, moved in COPIES:
            seeds, prints = self.seeds(count), []
            self.index -= count  # none of these runs is counted
            for _ in range(2):
                copied = replace(self.training, fit=pickle.loads(dumps(self.training.fit)))
                prints += [copied.runs(data, [observer], seeds, closely=True)[0].prints for _ in range(2)]
            one, later, other, _ = prints
            if None in one or one != other or sum(a != b for a, b in zip(one, later, strict=True)) < moved:
                return
        raise ValueError(
            "train must give results that depend on its records and its seed alone, got one that keeps a generator or "
            f"the like between calls: with n_jobs={self.n_jobs} each worker gets a copy, and repeats what the others "
            "draw. Make the generator from the seed, or use n_jobs=1"
        )

    def check_memory(
        self, data: Data, observer: Observer, names: Sequence[str], scores: Floats, indices: Integers
    ) -> None:
        """Whether runs with these scores [runs, names], and these indices, depend on those before them.

        Raises
        ------
        ValueError
            If some have the scores of others, and their seeds give, twice, other results now.
        """
        if self.training.many is not None:
            return
        index, rows = self.index, pd.DataFrame(scores)
        again, repeated = rows.duplicated(), rows.duplicated(keep="last")
        for i in [*np.flatnonzero(repeated & ~again)[:PROBES], *np.flatnonzero(again)[:PROBES]]:
            self.index = int(indices[i])
            seeds = self.seeds(1)
            now, later = (self.training.runs(data, [observer], seeds, closely=True)[0] for _ in range(2))
            if now.numbers is None or (now.numbers == np.round(now.numbers)).all() or now.prints != later.prints:
                break  # answers and counts are often the same by chance, and the operating system's noise is never
            if not np.array_equal(now.matrix(names)[0], scores[i]):
                raise ValueError(
                    f"train must give results that depend on its records and its seed alone, got one again in "
                    f"{again.sum()} of {len(rows)} runs, and others now with the same seeds: does it keep results? "
                    "Runs are then not independent, and nothing can be concluded from them"
                )
        self.index = index

    def remembered(self, name: str, find: Callable[[], Any]) -> Any:
        """What was found under this name before, else what is found now."""
        if self.memory is None:
            return find()
        if name not in self.memory:
            self.memory[name] = find()
        return self.memory[name]

    def recall(self, name: str, size: int, find: Callable[[], Any]) -> Any:
        """As :meth:`remembered`, of so many runs."""
        self.recalled += size * (name in (self.memory or {}))
        return self.remembered(name, find)

    def _account(self, size: int, seconds: float, workers: int) -> None:
        self.done += size
        if self.most is not None:
            return self._tell()
        rate = max(seconds, 1e-7) / size
        self.rate = rate if size >= self.batch * workers or rate < self.rate else self.rate
        self.batch = int(np.clip(BATCH_SECONDS / (self.rate * workers), 1, min(2 * self.batch, LARGEST_BATCH)))
        return self._tell()

    def _tell(self) -> None:
        if self.progress:
            left = f"{self.affordable} left" if self.most is not None else f"{self.elapsed:.0f} of {self.seconds:g} s"
            print(f"\raudit: {self.done} runs, {left} ", end="", file=sys.stderr, flush=True)


def _worker(training: Training, data: Data, observers: Sequence[Observer], seeds: list[int], closely: bool) -> Any:
    """Runs in a worker, whose global generators may be copies of those of another."""
    np.random.seed(seeds[0])  # noqa: NPY002
    random.seed(seeds[0])
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(seeds[0])
    return training.runs(data, observers, seeds, closely=closely)
