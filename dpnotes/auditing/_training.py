"""Trainings to audit: a function, an estimator of any library, or many fits of one of ours in one call."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from dpnotes import accounting, methods
from dpnotes._validation import Booleans, Features, Floats, Integers
from dpnotes.auditing._observing import Observer, fingerprint, is_answer, numbers_of
from dpnotes.learners import LogisticModels, fit_dp_sgd_linear
from dpnotes.mechanisms import draw_subsets, normal_floats
from dpnotes.preprocessing import ClipNorm

Data = tuple[NDArray[Any], NDArray[Any]]
PROBED = 200  # records at which results are compared


@dataclass(frozen=True, eq=False)
class Runs:
    """What runs on one data set showed.

    Attributes
    ----------
    scores : dict of str to ndarray of float, shape [runs]
        NaN where a run has not this score.
    numbers : ndarray of float, shape [runs, P], or None
        All numbers of each result, if asked for.
    prints : tuple
        A fingerprint of each result, if asked for; None where it is unknown.
    errors : tuple of str
        Of the runs that failed.
    """

    scores: dict[str, Floats]
    count: int
    numbers: Floats | None = None
    prints: tuple[Any, ...] = ()
    errors: tuple[str, ...] = ()
    discrete: bool = False  # a result is one answer, which may well be the same in all runs

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """All runs of several parts, in their order."""
        names = dict.fromkeys(name for part in parts for name in part.scores)
        scores = {
            name: np.concatenate([part.scores.get(name, np.full(part.count, np.nan)) for part in parts])
            for name in names
        }
        numbers = [part.numbers for part in parts if part.count]
        whole = bool(numbers) and all(n is not None and n.shape[1:] == numbers[0].shape[1:] for n in numbers)  # type: ignore[union-attr]
        return cls(
            scores,
            sum(part.count for part in parts),
            np.concatenate(numbers) if whole else None,  # type: ignore[arg-type]
            tuple(print_ for part in parts for print_ in part.prints),
            tuple(error for part in parts for error in part.errors),
            all(part.discrete for part in parts),
        )

    def matrix(self, names: Sequence[str]) -> Floats:
        """Scores [runs, names]; -inf where there is none: that a run failed is a part of what it shows."""
        columns = [self.scores.get(name, np.full(self.count, np.nan)) for name in names]
        values = np.stack(columns, axis=1).astype(np.float64)
        return np.where(np.isnan(values), -np.inf, values)


class Fits(NamedTuple):
    """Many fits of one estimator on the same records, checked.

    Attributes
    ----------
    estimator : object
    X : ndarray of float, shape [m, d]
    codes : ndarray of int64, shape [m]
    n : int
        Places: m, and the empty records.
    runs : int
    seed : int or None
        None: all randomness that the guarantee rests on is the operating system's.
    """

    estimator: Any
    X: Features
    codes: Integers
    n: int
    runs: int
    seed: int | None

    def of(self, *names: str) -> dict[str, Any]:
        """Parameters of the estimator."""
        return {name: getattr(self.estimator, name) for name in names}


class Fitted(Protocol):
    """Models of many runs."""

    def numbers(self) -> Floats | None:
        """All numbers of each run's result, [runs, P]."""

    def scores(self, observer: Observer) -> dict[str, Floats]:
        """Scores of all runs, by name."""


@dataclass(frozen=True, eq=False)
class Linear:
    """Linear models: coef [R, C, d], intercept [R, C]; or [R, 1, d] and [R, 1] of two classes."""

    coef: Features
    intercept: Features

    def numbers(self) -> Floats:
        """Weights and intercepts."""
        return np.hstack([self.coef.reshape(len(self.coef), -1), self.intercept]).astype(np.float64)

    def scores(self, observer: Observer) -> dict[str, Floats]:
        """What they say of the canary, by class."""
        return observer.linear(self.coef, self.intercept)


@dataclass(frozen=True, eq=False)
class Ensembles:
    """Ensembles of ``count`` runs, all models in the order of the runs; ``present`` [R n_models]: which there are."""

    models: Any
    present: Booleans
    count: int
    classes: list[Any]
    dtype: Any

    def numbers(self) -> None:
        """Too many."""

    def scores(self, observer: Observer) -> dict[str, Floats]:
        """Votes for the canary's label, and the margin by which some model gives it."""
        code, at = self.classes.index(observer.label), np.asarray(observer.x, self.dtype)[None]
        voted = np.zeros(len(self.present))
        voted[self.present] = self.models.votes(at)[:, 0] == code
        votes, there = (each.reshape(self.count, -1).sum(axis=1) for each in (voted, self.present))
        scores = {"votes for the label": votes / np.maximum(there, 1)}
        if isinstance(self.models, LogisticModels) and self.models.weights.ndim == 3:
            logits = self.models.logits(at)[:, 0].astype(np.float64)
            margin = np.full(len(self.present), -np.inf)
            margin[self.present] = logits[:, code] - np.delete(logits, code, axis=1).max(axis=1)
            scores["largest margin of a model"] = margin.reshape(self.count, -1).max(axis=1)
        return scores


Many = Callable[[Fits], Fitted]


@dataclass(frozen=True, eq=False)
class Training:
    """What is audited.

    Attributes
    ----------
    fit : callable
        ``fit(X, y, seed)`` gives a result.
    many : callable or None
        Fits many models at once, equal in distribution to ``fit`` with as many seeds.
    estimator : object
        What ``many`` takes its parameters from.
    labels : ndarray
    words : str
        What it is, for the report.
    """

    fit: Callable[[NDArray[Any], NDArray[Any], int], Any]
    labels: NDArray[Any]
    words: str
    many: Many | None = None
    estimator: Any = None

    @classmethod
    def of(cls, train: Any, labels: NDArray[Any]) -> Self:
        """A function ``train(X, y, seed)``, or an unfitted estimator.

        Raises
        ------
        TypeError
            If it is neither.
        """
        if hasattr(train, "fit") and hasattr(train, "get_params"):
            estimator, many = clone(train), None
            if isinstance(estimator, methods.PrivateClassifier):
                if estimator.classes is None:
                    estimator.set_params(classes=labels.tolist())
                many = _many_of(estimator)
            words = type(estimator).__name__ + (", many fits in one call" if many else "")
            return cls(_EstimatorFit(estimator), labels, words, many, estimator)
        if not callable(train):
            raise TypeError(f"train must be a function train(X, y, seed) or an unfitted estimator, got train={train!r}")
        return cls(train, labels, getattr(train, "__name__", type(train).__name__))

    def runs(
        self, data: Data, observers: Sequence[Observer], seeds: Sequence[int], *, closely: bool = False
    ) -> list[Runs]:
        """Train with each seed, and score by each observer; ``closely``: with numbers and fingerprints, in the first.

        Raises
        ------
        TypeError
            If a training returns nothing.
        """
        if self.many is not None and observers[0].score is None:
            return self._together(data, observers, seeds, closely)
        parts = [self._one(data, observers, seed, closely) for seed in seeds]
        return [Runs.joined(runs) for runs in zip(*parts, strict=True)]

    def _one(self, data: Data, observers: Sequence[Observer], seed: int, closely: bool) -> list[Runs]:
        X, y = data
        trained = False
        try:
            result = self.fit(X.copy(), y.copy(), seed)  # copies: some trainings write into their records
            trained = True
            scores = [observer.scores(result) for observer in observers] if result is not None else []
        except Exception as error:  # that a run fails is a part of what it shows
            told = f"{type(error).__name__}: {error}" + (" (in the score of its result)" if trained else "")
            failed = Runs({}, 1, errors=(told,), prints=(None,))
            return [failed] * len(observers)
        if result is None:
            raise TypeError(
                "train must return what is released (a fitted model, weights, an answer), got None: does it lack a "
                "return statement?"
            )
        found = [Runs({name: np.array([value]) for name, value in each.items()}, 1) for each in scores]
        if closely:
            values, discrete = numbers_of(result), is_answer(result)
            found[0] = replace(
                found[0],
                numbers=None if values is None else values[None],
                prints=(fingerprint(result, X[:PROBED]),),
                discrete=discrete,
            )
        return found

    def _together(self, data: Data, observers: Sequence[Observer], seeds: Sequence[int], closely: bool) -> list[Runs]:
        assert self.many is not None
        X, y = data
        codes = np.asarray(np.searchsorted(self.labels, y), dtype=np.int64)
        codes[codes == len(self.labels)] = 0
        kept = self.labels[codes] == y  # the others are empty records
        X = np.asarray(X, dtype=X.dtype if X.dtype in (np.float32, np.float64) else np.float64)
        seed = None if self.estimator.noise_seed is None else int(seeds[0])
        fitted = self.many(Fits(self.estimator, X[kept], codes[kept], len(X), len(seeds), seed))
        values = fitted.numbers() if closely or any(each.direction is not None for each in observers) else None
        found = []
        for observer in observers:
            scores = fitted.scores(observer)
            if values is not None and observer.direction is not None:
                scores["learned direction"] = values @ observer.direction
            found.append(Runs(scores, len(seeds)))
        if closely:
            prints = (None,) * len(seeds) if values is None else tuple(row.tobytes() for row in values)
            found[0] = replace(found[0], numbers=values, prints=prints)
        return found


@dataclass(frozen=True, eq=False)
class _EstimatorFit:
    """Fits clones; every random state gets the seed, and a noise seed where the estimator has one."""

    estimator: Any

    def __call__(self, X: NDArray[Any], y: NDArray[Any], seed: int) -> Any:
        model = clone(self.estimator)
        parameters = model.get_params()
        given = {name: seed for name in parameters if name.rpartition("__")[2] == "random_state"}
        given |= {
            name: seed
            for name, value in parameters.items()
            if name.rpartition("__")[2] == "noise_seed" and value is not None
        }
        return model.set_params(**given).fit(X, y)


def _many_of(estimator: Any) -> Many | None:
    """How many fits of an estimator are made in one call; subclasses may do anything, and are fitted one at a time."""
    kind = type(estimator)
    if kind is methods.DPSGD and (estimator.network is not None or estimator.optimizer not in ("sgd", "momentum")):
        return None
    if kind is methods.Bagging and not hasattr(estimator.estimator, "fit_many"):
        return None
    return MANY.get(kind)


def _noisy_sgd(fits: Fits) -> Fitted:
    weights = methods.noisy_descents(
        ClipNorm(fits.estimator.norm).fit_transform(fits.X),
        fits.codes,
        n_runs=fits.runs,
        n=fits.n,
        sigma=fits.estimator.calibrate(fits.n),
        generator=None if fits.seed is None else np.random.default_rng(fits.seed),
        **fits.of("steps", "learning_rate", "l2", "radius"),
    )
    return Linear(weights[:, None, :-1], weights[:, -1:])


def _dp_sgd(fits: Fits) -> Fitted:
    estimator = fits.estimator
    accounted = fits.of("sample_rate", "steps", "accountant")
    noise = estimator.noise_multiplier
    models = fit_dp_sgd_linear(
        fits.X,
        fits.codes,
        n_classes=len(estimator.classes),
        momentum=estimator.momentum if estimator.optimizer == "momentum" else 0.0,
        noise_multiplier=_calibrated(estimator.epsilon, estimator.delta, **accounted) if noise is None else noise,
        n_records=fits.n,
        n_repeats=fits.runs,
        seed=secrets.randbits(128) if fits.seed is None else fits.seed,
        normal=normal_floats if fits.seed is None else None,
        **fits.of("clipping_norm", "learning_rate", "device", "sample_rate", "steps"),
    )
    return Linear(models.weights, models.intercept)


@lru_cache(maxsize=16)
def _calibrated(epsilon: float, delta: float, *, sample_rate: float, steps: int, accountant: str) -> float:
    return float(
        accounting.dp_sgd_noise_multiplier(epsilon, delta, sample_rate=sample_rate, steps=steps, accountant=accountant)
    )


def _released_weights(fits: Fits) -> Fitted:
    own = clone(fits.estimator).set_params(n=fits.n if fits.estimator.n is None else fits.estimator.n)
    models, _ = own.fit_many(
        ClipNorm(own.norm).fit_transform(fits.X),
        fits.codes,
        n_classes=len(own.classes),
        n_repeats=fits.runs,
        seed=fits.seed,
    )
    return Linear(models.weights, models.intercept)


def _bagging(fits: Fits) -> Fitted:
    """All models of all runs; an empty record keeps its place, and is left out of the subsamples that drew it."""
    empty = fits.n - len(fits.X)  # they stand first
    seed = secrets.randbits(128) if fits.seed is None else fits.seed
    learning, *drawing = np.random.SeedSequence(seed).generate_state(fits.runs + 1, np.uint64).tolist()
    names = ("subsample", "n_models", "replace", "scheme")
    subsets = [rows for each in drawing for rows in draw_subsets(fits.n, **fits.of(*names), seed=each)]
    own = [rows[rows >= empty] - empty for rows in subsets]
    present = np.array([len(rows) > 0 for rows in own])
    estimator, classes = fits.estimator.estimator, np.unique(fits.estimator.classes).tolist()
    drawn = [rows for rows in own if len(rows)]
    models = estimator.fit_many(fits.X, fits.codes, drawn, n_classes=len(classes), seed=learning // 2**33)
    return Ensembles(models, present, fits.runs, classes, fits.X.dtype)


MANY: dict[type, Many] = {
    methods.NoisySGD: _noisy_sgd,
    methods.DPSGD: _dp_sgd,
    methods.ModelSensitivity: _released_weights,
    methods.LossPerturbation: _released_weights,
    methods.Bagging: _bagging,
}


def code_of(train: Any) -> Any:
    """What tells a training or score from another: parameters of an estimator; name, code and numbers of a function."""
    if hasattr(train, "get_params"):
        return [type(train).__qualname__, repr(train.get_params())]
    code = getattr(train, "__code__", None)
    if code is None:
        return type(train).__qualname__
    cells = [cell.cell_contents for cell in train.__closure__ or ()]
    plain = [
        each
        for each in (*code.co_consts, *cells, *(train.__defaults__ or ()))
        if isinstance(each, str | int | float | None)
    ]
    return [train.__module__, train.__qualname__, code.co_code, code.co_names, plain]
