"""Training procedures to audit (functions or estimators), and their runs within a
budget of seconds or of runs.
"""

from __future__ import annotations

import logging
import math
import pickle
import random
import secrets
import sys
import time
from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any, Self

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from joblib.externals.loky.backend.reduction import dumps
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from dpnotes import accounting, methods
from dpnotes._validation import Features, Floats, Integers
from dpnotes.auditing._canaries import Data
from dpnotes.auditing._observing import Observer, fingerprint, numbers_of
from dpnotes.learners import fit_dp_sgd_linear
from dpnotes.mechanisms import normal_floats
from dpnotes.preprocessing import ClipNorm

PROBED = 200  # records at which results are compared
# of runs between two looks at the clock, for each worker
BATCH_SECONDS, LARGEST_BATCH = 0.5, 2048
# the first runs, what is compiled once in one alone; fraction of the budget for more
TIMED, WARM_UP = (1, 4), 0.02
# runs of two copies, and how many must differ later: a suspicion, and more than chance
COPIES = ((2, 1), (64, 8))
FIXED_BATCH = 256  # runs in a batch where runs are counted, so that they are repeatable
# seeds are below 2^31, all different, and not in a row
PRIME, STRIDE = 2**31 - 1, 1_130_977_471
# of linear models of many runs: [R, C, d], and intercepts [R, C]
Weights = tuple[Features, Features]
log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Runs:
    """Observations of runs on one data set.

    Attributes
    ----------
    scores : dict of str to ndarray of float, shape [runs]
        NaN where a run does not have this score.
    numbers : ndarray of float, shape [runs, P], or None
        All numbers of each result, if asked for.
    prints : tuple
        A fingerprint of each result, if asked for; None where it is unknown.
    errors : tuple of str
        Errors of the runs that failed.
    """

    scores: dict[str, Floats]
    count: int
    numbers: Floats | None = None
    prints: tuple[Any, ...] = ()
    errors: tuple[str, ...] = ()

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """All runs of several parts, in their order."""
        names = dict.fromkeys(name for part in parts for name in part.scores)
        values = [part.numbers for part in parts if part.numbers is not None]
        whole = (
            len(values) == len(parts) > 0
            and len({each.shape[1:] for each in values}) == 1
        )
        return cls(
            {
                name: np.concatenate(
                    [
                        part.scores.get(name, np.full(part.count, np.nan))
                        for part in parts
                    ]
                )
                for name in names
            },
            sum(part.count for part in parts),
            np.concatenate(values) if whole else None,
            tuple(print_ for part in parts for print_ in part.prints),
            tuple(error for part in parts for error in part.errors),
        )

    def matrix(self, names: Sequence[str]) -> Floats:
        """Scores [runs, names]; -inf if there is none, because the failure of a run
        also counts as an observation.
        """
        columns = [self.scores.get(name, np.full(self.count, np.nan)) for name in names]
        values = np.stack(columns, axis=1).astype(np.float64)
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
    many : callable or None
        Fits many models at once, equal in distribution to ``fit`` with as many seeds.
        Its arguments are the estimator, records, their codes, the number of places, the
        number of runs, and the seed (None: the operating system's randomness).
    """

    fit: Callable[[NDArray[Any], NDArray[Any], int], Any]
    labels: NDArray[Any]
    estimator: Any = None
    many: Callable[[Any, Features, Integers, int, int, int | None], Weights] | None = (
        None
    )

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
                own.set_params(classes=labels.tolist())
            return cls(partial(_fit, estimator), labels, estimator, _many_of(estimator))
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
        if self.many is not None:
            return self._together(data, observers, seeds, closely)
        parts = [self._one(data, observers, seed, closely) for seed in seeds]
        return [Runs.joined(runs) for runs in zip(*parts, strict=True)]

    def _one(
        self, data: Data, observers: Sequence[Observer], seed: int, closely: bool
    ) -> list[Runs]:
        X, y = data
        trained = False
        try:
            # copies: some trainings write into their records
            result = self.fit(X.copy(), y.copy(), seed)
            trained = True
            scores: list[dict[str, float]] = []
            for observer in observers if result is not None else ():
                # the one before has used up its answers
                if scores and hasattr(result, "budget_"):
                    result = self.fit(X.copy(), y.copy(), seed)
                scores.append(observer.scores(result))
        except Exception as error:  # that a run fails is a part of what it shows
            told = f"{type(error).__name__}: {error}" + (
                " (in the score of its result)" if trained else ""
            )
            return [Runs({}, 1, errors=(told,), prints=(None,))] * len(observers)
        if result is None:
            raise TypeError(
                "train must return what is released (a fitted model, weights, an"
                " answer), got None: does it lack a return statement?"
            )
        values = numbers_of(result) if closely else None
        prints = (fingerprint(result, X[:PROBED]),) if closely else ()
        shown = None if values is None else values[None]
        return [
            Runs(
                {name: np.array([value]) for name, value in each.items()},
                1,
                shown,
                prints,
            )
            for each in scores
        ]

    def _together(
        self,
        data: Data,
        observers: Sequence[Observer],
        seeds: Sequence[int],
        closely: bool,
    ) -> list[Runs]:
        assert self.many is not None
        X, y = data
        codes = np.asarray(np.searchsorted(self.labels, y), dtype=np.int64)
        codes[codes == len(self.labels)] = 0
        kept = self.labels[codes] == y  # the others are empty records
        X = np.asarray(
            X, dtype=X.dtype if X.dtype in (np.float32, np.float64) else np.float64
        )
        seed = None if self.estimator.noise_seed is None else int(seeds[0])
        own = clone(self.estimator)
        own.set_params(**own.defaults(len(X), X.shape[1], len(self.labels)))
        coef, intercept = self.many(own, X[kept], codes[kept], len(X), len(seeds), seed)
        values = np.hstack([coef.reshape(len(coef), -1), intercept]).astype(np.float64)
        found = []
        for observer in observers:
            scores = observer.linear(coef, intercept)
            if observer.direction is not None:
                scores["learned direction"] = values @ observer.direction
            found.append(
                Runs(
                    scores,
                    len(seeds),
                    values,
                    tuple(map(bytes, values)) if closely else (),
                )
            )
        return found


def last_of(estimator: Any) -> Any:
    """The estimator itself, or the last step of a pipeline."""
    return estimator[-1] if isinstance(estimator, Pipeline) else estimator


def _fit(estimator: Any, X: NDArray[Any], y: NDArray[Any], seed: int) -> Any:
    """Fit a clone; every random state gets the seed, and so does every noise seed
    that is not None.
    """
    model = clone(estimator)
    parameters = {
        name: (name.rpartition("__")[2], value)
        for name, value in model.get_params().items()
    }
    random_states = {
        name: seed for name, (last, _) in parameters.items() if last == "random_state"
    }
    noise = {
        name: seed
        for name, (last, value) in parameters.items()
        if last == "noise_seed" and value is not None
    }
    return model.set_params(**random_states, **noise).fit(X, y)


# Many fits in one call


def _many_of(estimator: Any) -> Any:
    """Function that fits many clones of an estimator in one call; None for
    subclasses, which may do anything.
    """
    kind = type(estimator)
    if kind is methods.DPSGD and (
        estimator.network is not None or estimator.optimizer not in ("sgd", "momentum")
    ):
        return None
    return MANY.get(kind)


def _noisy_sgd(
    own: Any, X: Features, codes: Integers, n: int, runs: int, seed: int | None
) -> Weights:
    weights = methods.noisy_descents(
        ClipNorm(own.norm).fit_transform(X),
        codes,
        n_runs=runs,
        n=n,
        sigma=own.calibrate(n),
        generator=None if seed is None else np.random.default_rng(seed),
        steps=own.steps,
        learning_rate=own.learning_rate,
        l2=own.l2,
        radius=own.radius,
    )
    return weights[:, None, :-1], weights[:, -1:]


def _dp_sgd(
    own: Any, X: Features, codes: Integers, n: int, runs: int, seed: int | None
) -> Weights:
    noise = own.noise_multiplier
    if noise is None:
        noise = _calibrated(
            own.epsilon, own.delta, own.sample_rate, own.steps, own.accountant
        )
    models = fit_dp_sgd_linear(
        X,
        codes,
        n_classes=len(own.classes),
        momentum=own.momentum if own.optimizer == "momentum" else 0.0,
        noise_multiplier=noise,
        n_records=n,
        n_repeats=runs,
        seed=secrets.randbits(128) if seed is None else seed,
        normal=normal_floats if seed is None else None,
        clipping_norm=own.clipping_norm,
        learning_rate=own.learning_rate,
        device=own.device,
        sample_rate=own.sample_rate,
        steps=own.steps,
    )
    return models.weights, models.intercept


@lru_cache(maxsize=16)
def _calibrated(
    epsilon: float, delta: float, sample_rate: float, steps: int, accountant: str
) -> float:
    return float(
        accounting.dp_sgd_noise_multiplier(
            epsilon, delta, sample_rate=sample_rate, steps=steps, accountant=accountant
        )
    )


def _released_weights(
    own: Any, X: Features, codes: Integers, n: int, runs: int, seed: int | None
) -> Weights:
    X = ClipNorm(own.norm).fit_transform(X)
    models, _ = own.fit_many(
        X, codes, n_classes=len(own.classes), n_repeats=runs, seed=seed
    )
    return models.weights, models.intercept


MANY = {
    methods.NoisySGD: _noisy_sgd,
    methods.DPSGD: _dp_sgd,
    methods.ModelSensitivity: _released_weights,
    methods.LossPerturbation: _released_weights,
}


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
        return (
            self.done >= self.most
            if self.most is not None
            else self.elapsed >= self.seconds
        )

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
        left = count
        while left > 0 and not (parts and self.over):
            size = min(left, self.batch * self.workers)
            chunks = [
                self.seeds(len(each))
                for each in np.array_split(np.arange(size), min(size, self.workers))
            ]
            start = time.perf_counter()
            if len(chunks) == 1:
                parts.append(
                    self.training.runs(data, observers, chunks[0], closely=closely)
                )
            else:
                calls = (
                    delayed(_worker)(self.training, data, observers, each, closely)
                    for each in chunks
                )
                parts += Parallel()(calls)
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
        size, limit = TIMED[-1], WARM_UP * self.seconds
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
        if self.workers == 1 or self.training.many is not None:
            return
        for count, moved in COPIES:
            seeds, prints = self.seeds(count), []
            self.index -= count  # none of these runs is counted
            for _ in range(2):
                copied = replace(
                    self.training, fit=pickle.loads(dumps(self.training.fit))
                )
                prints += [
                    copied.runs(data, [observer], seeds, closely=True)[0].prints
                    for _ in range(2)
                ]
            one, later, other, _ = prints
            if (
                None in one
                or one != other
                or sum(a != b for a, b in zip(one, later, strict=True)) < moved
            ):
                return
        raise ValueError(
            "train must give results that depend only on its records and its seed, got"
            " a function that retains a generator or the like between calls: each of"
            f" {self.workers} workers gets a copy and repeats the draws of the others."
            " Make the generator from the seed, or audit in one process"
        )

    def _account(self, size: int, seconds: float) -> None:
        self.done += size
        if self.most is None:
            rate = max(seconds, 1e-7) / size
            self.rate = (
                rate
                if size >= self.batch * self.workers or rate < self.rate
                else self.rate
            )
            fitting = BATCH_SECONDS / (self.rate * self.workers)
            self.batch = int(np.clip(fitting, 1, min(2 * self.batch, LARGEST_BATCH)))
        left = (
            f"{self.elapsed:.0f} of {self.seconds:g} s"
            if self.most is None
            else f"{self.affordable} left"
        )
        log.info("%d runs, %s", self.done, left)


def _worker(
    training: Training,
    data: Data,
    observers: Sequence[Observer],
    seeds: list[int],
    closely: bool,
) -> Any:
    """Run in a worker, whose global generators may be copies of another worker's
    generators.
    """
    np.random.seed(seeds[0])  # noqa: NPY002
    random.seed(seeds[0])
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(seeds[0])
    return training.runs(data, observers, seeds, closely=closely)
