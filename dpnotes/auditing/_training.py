"""Training procedures to audit (functions or estimators), and their runs within a
budget of seconds or of runs.
"""

from __future__ import annotations

import logging
import math
import pickle
import random
import sys
import time
from collections.abc import Callable, Iterable, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Self

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from joblib.externals.loky.backend.reduction import dumps
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from dpnotes import methods
from dpnotes._validation import Floats
from dpnotes.auditing._canaries import Data
from dpnotes.auditing._observing import Observer, fingerprint, numbers_of

PROBED = 200  # records at which results are compared
# of runs between two looks at the clock, for each worker
BATCH_SECONDS = 0.5
LARGEST_BATCH = 2048
# the first runs, what is compiled once in one alone; fraction of the budget for more
TIMED = (1, 4)
WARM_UP = 0.02
# runs of two copies, and how many must differ later: a suspicion, and more than chance
COPIES = ((2, 1), (64, 8))
FIXED_BATCH = 256  # runs in a batch where runs are counted, so that they are repeatable
# seeds are below 2^31, all different, and not in a row
PRIME = 2**31 - 1
STRIDE = 1_130_977_471
log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Runs:
    """Observations of runs on one data set.

    Attributes
    ----------
    scores : list of dict
        Scores of each run by name; none if the run failed.
    numbers : list
        All numbers of each result, if asked for; None where there are none.
    prints : list
        A fingerprint of each result, if asked for; None where it is unknown.
    errors : list of str
        Errors of the runs that failed.
    """

    scores: list[dict[str, float]] = field(default_factory=list)
    numbers: list[Floats | None] = field(default_factory=list)
    prints: list[Any] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    @classmethod
    def joined(cls, parts: Iterable[Self]) -> Self:
        """All runs of several parts, in their order."""
        whole = cls()
        for part in parts:
            whole.scores.extend(part.scores)
            whole.numbers.extend(part.numbers)
            whole.prints.extend(part.prints)
            whole.errors.extend(part.errors)
        return whole

    @property
    def count(self) -> int:
        """Number of runs."""
        return len(self.scores)

    @property
    def names(self) -> list[str]:
        """Names of all scores that a run has."""
        found: dict[str, float] = {}
        for row in self.scores:
            found.update(row)
        return list(found)

    def stacked(self) -> Floats | None:
        """Numbers of all results, [runs, P]; None unless all have as many."""
        sizes = {-1 if values is None else len(values) for values in self.numbers}
        if len(sizes) != 1 or -1 in sizes:
            return None
        return np.array(self.numbers)

    def matrix(self, names: Sequence[str]) -> Floats:
        """Scores [runs, names]; -inf if there is none, because the failure of a run
        also counts as an observation.
        """
        values = np.full((self.count, len(names)), np.nan)
        for j, name in enumerate(names):
            values[:, j] = [row.get(name, np.nan) for row in self.scores]
        return np.where(np.isnan(values), -np.inf, values)


@dataclass(frozen=True, eq=False)
class Training:
    """The training procedure that is audited.

    Attributes
    ----------
    fit : callable
        ``fit(X, y, seed)`` gives a result.
    labels : ndarray
    estimator : object
        Estimator that ``fit`` clones and fits, if there is one.
    """

    fit: Callable[[NDArray[Any], NDArray[Any], int], Any]
    labels: NDArray[Any]
    estimator: Any = None

    @classmethod
    def of(cls, train: Any, labels: NDArray[Any]) -> Self:
        """Make a training procedure from a function ``train(X, y, seed)`` or from an
        unfitted estimator.

        Raises
        ------
        TypeError
            If it is neither.
        """
        if hasattr(train, "fit") and hasattr(train, "get_params"):
            estimator = clone(train)
            own = last_of(estimator)
            if isinstance(own, methods.PrivateClassifier) and own.classes is None:
                # else the classes would be those of the records, which differ between
                # neighbours
                own.set_params(classes=labels.tolist())
            return cls(partial(_fit, estimator), labels, estimator)
        if not callable(train):
            raise TypeError(
                "train must be a function train(X, y, seed) or an unfitted estimator,"
                f" got train={train!r}"
            )
        return cls(train, labels)

    def runs(
        self,
        data: Data,
        observers: Sequence[Observer],
        seeds: Sequence[int],
        *,
        closely: bool = False,
    ) -> list[Runs]:
        """Train with each seed, and score by each observer; ``closely`` adds the
        numbers and fingerprints of results.

        Raises
        ------
        TypeError
            If a training run returns nothing.
        """
        found = [Runs() for _ in observers]
        for seed in seeds:
            self._one(data, observers, seed, found, closely)
        return found

    def _one(
        self,
        data: Data,
        observers: Sequence[Observer],
        seed: int,
        found: list[Runs],
        closely: bool,
    ) -> None:
        """Train with one seed, and add what each observer sees to what it found."""
        X, y = data
        told = where = ""
        numbers = prints = None
        scores: list[dict[str, float]] = []
        try:
            # copies: some training procedures write into their records
            result = self.fit(X.copy(), y.copy(), seed)
            where = " (in the score of its result)"
            # one result for all canaries: a run costs more than a look at it
            for observer in observers if result is not None else ():
                # the observer before has used up its answers
                if scores and hasattr(result, "budget_"):
                    result = self.fit(X.copy(), y.copy(), seed)
                scores.append(observer.scores(result))
        except Exception as error:  # that a run fails is a part of what it shows
            told = f"{type(error).__name__}: {error}{where}"
            scores = [{} for _ in observers]
        if not told and result is None:
            raise TypeError(
                "train must return what is released (a fitted model, weights, an"
                " answer), got None: does it lack a return statement?"
            )
        if not told and closely:
            numbers = numbers_of(result)
            prints = fingerprint(result, X[:PROBED])
        for runs, each in zip(found, scores, strict=True):
            runs.scores.append(each)
            runs.numbers.append(numbers)
            runs.prints.append(prints)
            if told:
                runs.errors.append(told)


def last_of(estimator: Any) -> Any:
    """The estimator itself, or the last step of a pipeline."""
    return estimator[-1] if isinstance(estimator, Pipeline) else estimator


def _fit(estimator: Any, X: NDArray[Any], y: NDArray[Any], seed: int) -> Any:
    """Fit a clone; every random state gets the seed, and so does every noise seed
    that is not None.
    """
    model = clone(estimator)
    seeded = {}
    for name, value in model.get_params().items():
        last = name.rpartition("__")[2]
        if last == "random_state" or (last == "noise_seed" and value is not None):
            seeded[name] = seed
    return model.set_params(**seeded).fit(X, y)


# Within a budget


@dataclass(eq=False)
class Runner:
    """Runs of one training procedure, counted against a budget of seconds or of runs.

    Attributes
    ----------
    training : Training
    seconds : float
    most : int or None
        Budget of runs, instead of seconds.
    random_state : int
    memory : mutable mapping
        Scores that were found before, and decisions that must not be made twice, by
        name, as plain values.
    """

    training: Training
    seconds: float
    most: int | None
    random_state: int
    memory: MutableMapping[str, Any] = field(default_factory=dict)
    done: int = 0
    recalled: int = 0  # runs that an earlier process had counted
    index: int = 0  # of the next run, which decides its seed
    rate: float = math.inf  # seconds for one run, with all workers
    errors: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._began = time.perf_counter()
        # where the seeds of this audit begin
        self._seed = int(np.random.default_rng(self.random_state).integers(PRIME))
        self.batch = 1 if self.most is None else FIXED_BATCH
        self.workers = effective_n_jobs(None)  # of joblib.parallel_config

    @property
    def elapsed(self) -> float:
        """Seconds since the audit began."""
        return time.perf_counter() - self._began

    @property
    def affordable(self) -> int:
        """Number of runs that the rest of the budget allows."""
        if self.most is not None:
            return max(0, self.most - self.done)
        return int(min(max(0.0, self.seconds - self.elapsed) / self.rate, 1e9))

    @property
    def over(self) -> bool:
        """Whether the budget is spent."""
        if self.most is not None:
            return self.done >= self.most
        return self.elapsed >= self.seconds

    def seeds(self, count: int) -> list[int]:
        """Seeds for the next runs; no two runs have the same seed."""
        seeds = [(self._seed + (self.index + i) * STRIDE) % PRIME for i in range(count)]
        self.index += count
        return seeds

    def run(
        self,
        data: Data,
        observers: Sequence[Observer],
        count: int,
        *,
        closely: bool = False,
    ) -> list[Runs]:
        """Train ``count`` times, fewer if the budget ends; at least once."""
        parts: list[list[Runs]] = []
        work = partial(self.training.runs, data, observers)
        left = count
        while left > 0 and not (parts and self.over):
            # between two looks at the clock
            size = min(left, self.batch * self.workers)
            places = np.array_split(np.arange(size), min(size, self.workers))
            chunks = [self.seeds(len(each)) for each in places]
            start = time.perf_counter()
            if len(chunks) == 1:
                parts.append(work(chunks[0], closely=closely))
            else:
                task = delayed(_worker)
                parts += Parallel()(task(work, each, closely) for each in chunks)
            left -= size
            self._account(size, time.perf_counter() - start)
        runs = [Runs.joined(part) for part in zip(*parts, strict=True)]
        self.errors += runs[0].errors
        return runs

    def warm_up(self, data: Data, observers: Sequence[Observer]) -> Runs:
        """Make the first runs; with a budget of seconds, in growing batches until
        they can be timed well.
        """
        found = [self.run(data, observers, each, closely=True)[0] for each in TIMED]
        size = TIMED[-1]
        limit = WARM_UP * self.seconds
        while (
            self.most is None and size < LARGEST_BATCH and 4 * size * self.rate < limit
        ):
            size *= 4
            self.batch = size
            self.run(data, observers, size)
        return Runs.joined(found[1:])

    def check_copies(self, data: Data, observer: Observer) -> None:
        """Check that workers, which get copies of the training procedure, do not repeat
        each other's results.

        Raises
        ------
        ValueError
            If two copies give the same results with the same seeds, but other results
            when they continue. The training procedure then retains a generator, or
            something else that its results depend on.
        """
        if self.workers == 1:
            return
        for count, moved in COPIES:
            seeds = self.seeds(count)
            self.index -= count  # none of these runs is counted
            one, later = self._copied(data, observer, seeds)
            other, _ = self._copied(data, observer, seeds)
            differ = sum(a != b for a, b in zip(one, later, strict=True))
            # equal copies that move on alike: no shared state, or none that shows
            if None in one or one != other or differ < moved:
                return
        raise ValueError(
            "train must give results that depend only on its records and its seed, got"
            " a function that retains a generator or the like between calls: each of"
            f" {self.workers} workers gets a copy and repeats the draws of the others."
            " Make the generator from the seed, or audit in one process"
        )

    def _copied(self, data: Data, observer: Observer, seeds: list[int]) -> list[Any]:
        """Fingerprints of the runs of a copy, which makes them twice."""
        fit = pickle.loads(dumps(self.training.fit))
        copied = replace(self.training, fit=fit)
        runs = [copied.runs(data, [observer], seeds, closely=True)[0] for _ in range(2)]
        return [each.prints for each in runs]

    def _account(self, size: int, seconds: float) -> None:
        self.done += size
        if self.most is not None:
            log.info("%d runs, %d left", self.done, self.affordable)
            return
        # a batch that was cut short says little about the time of a run
        rate = max(seconds, 1e-7) / size
        if size >= self.batch * self.workers or rate < self.rate:
            self.rate = rate
        # batches grow slowly, as the first runs are slower than the others
        fitting = BATCH_SECONDS / (self.rate * self.workers)
        self.batch = int(np.clip(fitting, 1, min(2 * self.batch, LARGEST_BATCH)))
        log.info("%d runs, %.0f of %g s", self.done, self.elapsed, self.seconds)


def _worker(work: Callable[..., list[Runs]], seeds: list[int], closely: bool) -> Any:
    """Run in a worker, whose global generators may be copies of another worker's
    generators.
    """
    np.random.seed(seeds[0])  # noqa: NPY002
    random.seed(seeds[0])
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(seeds[0])
    return work(seeds, closely=closely)
