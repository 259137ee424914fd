"""Teachers, each a function only of its own records, and their votes."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from joblib import Parallel, delayed, parallel_config
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.dummy import DummyClassifier

from dpnotes import learners
from dpnotes._gate import quiet
from dpnotes._progress import counted
from dpnotes._validation import (
    Booleans,
    Features,
    Floats,
    Integers,
    at_least_one,
    codes,
    jobs,
)
from dpnotes.mechanisms import Partitions, draw_partitions
from dpnotes.methods._answers import Randomness, secret_seed
from dpnotes.methods._private import PROTECTS_N, PrivateClassifier, Records

# by default a model has so many records of each class, where classes are equally
# frequent
RECORDS = 5
MOST = 1024
# made-up records of each class that a learner is tried on
TRIED = 10


def fit_each(
    learner: Any,
    X: Features,
    codes: Integers,
    subsets: Any,
    *,
    n_classes: int,
    seed: int,
    n_jobs: int | None,
) -> list[Any]:
    """Fit a model to each subset separately, each with its own seed; None stands for a
    model that cannot be fitted.

    The learner is a scikit-learn classifier or has ``fit_many``. In one call for many
    models, ``fit_many`` may change each model by rounding errors, because the shape of
    its products and the step at which it stops depend on all subsets. A query at the
    boundary of a model would show the difference, and could change many votes at once.

    A subset causes neither warnings nor errors, because they would reveal something
    about its records. A faulty learner fails earlier, on made-up records.
    """
    made_up = np.tile(np.arange(n_classes), TRIED)
    rows = np.random.default_rng(0).random((len(made_up), X.shape[1]))
    # errors of the learner itself are told here, before it sees a record
    with _by_itself():
        _fit_alone(learner, rows, made_up, n_classes, 0).predict(rows)
    # scikit-learn's seeds are below 2^31
    seeds = np.random.SeedSequence(seed).generate_state(len(subsets)) // 2
    fit = delayed(_fit_quietly)
    fits = (
        fit(learner, X[rows], codes[rows], n_classes, int(s))
        for rows, s in zip(subsets, seeds, strict=True)
    )
    return list(Parallel(n_jobs=n_jobs)(counted(fits, len(subsets))))


def fit_one(learner: Any, X: Features, labels: NDArray[Any], seed: int) -> Any:
    """Fit a clone of a scikit-learn classifier with the seed; if all labels agree,
    fit a constant classifier.
    """
    # many learners refuse records of one class, which would tell of a shard
    if (labels == labels[0]).all():
        return DummyClassifier(strategy="most_frequent").fit(X, labels)
    model = clone(learner)
    seeds = {
        name: seed
        for name in model.get_params()
        if name.rpartition("__")[2] == "random_state"
    }
    return model.set_params(**seeds).fit(X, labels)


def _fit_alone(
    learner: Any, X: Features, codes: Integers, n_classes: int, seed: int
) -> Any:
    if not hasattr(learner, "fit_many"):
        return fit_one(learner, X, codes, seed)
    # what the learner remembers of a fit, the next one does not see
    own = deepcopy(learner)
    return Alone(
        own.fit_many(X, codes, [np.arange(len(X))], n_classes=n_classes, seed=seed)
    )


# muted here, because it may run in a process of its own
@quiet()
def _fit_quietly(
    learner: Any, X: Features, codes: Integers, n_classes: int, seed: int
) -> Any:
    """Fit a model that can predict, or return None; the result is a function only of
    these records and the seed.
    """
    try:
        with _by_itself():
            _draw_from(seed)
            model = _fit_alone(learner, X, codes, n_classes, seed)
            model.predict(X[:1])
    except KeyboardInterrupt:  # of the person who holds the records
        raise
    except BaseException:  # any would be one that private records decide
        return None
    return model


@contextmanager
def _by_itself() -> Iterator[None]:
    """Let a learner start no threads or processes of joblib, whose warnings nobody
    mutes and whose draws nobody seeds; give the global generators back as they were.
    """
    torch = sys.modules.get("torch")
    # of whoever calls us
    before = random.getstate(), np.random.get_state()  # noqa: NPY002
    kept = nullcontext() if torch is None else torch.random.fork_rng()
    with parallel_config(backend="sequential"), kept:
        try:
            yield
        finally:
            random.setstate(before[0])
            np.random.set_state(before[1])  # noqa: NPY002


def _draw_from(seed: int) -> None:
    """Let the global generators start from the seed: some learners draw from them,
    and other teachers would advance them by as much as their records decide.
    """
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.default_generator.manual_seed(seed)
        if torch.cuda.is_initialized():
            torch.cuda.manual_seed_all(seed)


@dataclass(frozen=True)
class Alone:
    """The result of a ``fit_many`` for one model, as a classifier."""

    models: Any

    def predict(self, X: Features) -> Integers:
        """Class codes, shape [n]."""
        return np.asarray(self.models.votes(X)[0])

    def predict_proba(self, X: Features) -> Floats:
        """Probability of the class that is voted for, shape [n, 1]."""
        return np.asarray(self.models.confidence(X)[0])[:, None]


@dataclass(eq=False)
class LogisticTeachers:
    """Logistic regressions that each minimise the summed loss of their shard plus |w|^2
    / (2 C).

    Each model is therefore a function only of its shard: relative to the mean loss, the
    weight of the regulariser depends on the size of the shard. With a common weight for
    all shards, every teacher would depend on the size of the data set.

    Parameters
    ----------
    C : float, > 0
    device : str
    """

    _: KW_ONLY
    C: float = 1.0
    device: str = "auto"

    def fit_many(
        self,
        X: Features,
        y: Integers,
        subsets: list[Integers],
        *,
        n_classes: int,
        seed: int | None = None,
    ) -> learners.LogisticModels:
        """Fit one model for each subset; ``seed`` is not needed."""
        X = X.astype(np.float64, copy=False)  # float32 changes votes
        sizes = np.array([len(rows) for rows in subsets])
        how: Any = {"l2": 1 / (self.C * sizes), "device": self.device}
        if n_classes == 2:
            return learners.fit_binary_logistic(X, y, subsets, **how)
        return learners.fit_multinomial_logistic(
            X, y, subsets, n_classes=n_classes, intercept=True, **how
        )


@dataclass(frozen=True, eq=False)
class Teachers:
    """Fitted teachers, one for each shard with records; no guarantee covers them or
    their votes.

    Parameters
    ----------
    models : list or object
        Classifiers, each for itself, with None for one that could not be fitted; or one
        object with ``votes(X)``, of shape [n_teachers, n], for all of them.
    present : ndarray of bool, shape [n_teachers]
        Whether each shard has records.
    n_classes : int
        Number of classes, and the code for no vote.
    """

    models: Any
    present: Booleans
    n_classes: int

    def votes(self, X: Features) -> NDArray[np.unsignedinteger]:
        """Class code of each teacher for each row of X, or ``n_classes`` for no vote,
        [n_teachers, n].

        A teacher has no vote if it has no records or cannot be fitted, and for rows at
        which it fails or says what is no class.
        """
        if isinstance(self.models, list):
            silent = np.full(len(X), self.n_classes)
            votes = np.stack(_told(self.models, "predict", X, silent))
        else:
            votes = np.asarray(self.models.votes(X.copy()))
        # what is no class counts as no vote
        counted = (votes >= 0) & (votes < self.n_classes) & self.present[:, None]
        # of the table of all votes, which may be large
        code = np.min_scalar_type(self.n_classes)
        return np.where(counted, votes, self.n_classes).astype(code)

    def vote_counts(self, X: Features) -> Integers:
        """Votes for each class, shape [n, n_classes]."""
        return counts_of(self.votes(X), self.n_classes)

    def confident(self, X: Features, least: float) -> Booleans:
        """Whether each teacher gives the class it votes for at least that
        probability, [n_teachers, n].
        """
        if not isinstance(self.models, list):
            # a copy, as for each of many models
            return np.asarray(self.models.confidence(X.copy()) >= least)
        silent = np.zeros((len(X), 1))
        shares = _told(self.models, "predict_proba", X, silent)
        return np.stack([share.max(axis=1) >= least for share in shares])


def _told(
    models: list[Any], method: str, X: Features, silent: NDArray[Any]
) -> list[NDArray[np.number]]:
    """What each model says of the rows, as if it were asked alone."""
    with _by_itself():
        return [_said(model, method, X, silent) for model in models]


def _said(
    model: Any, method: str, X: Features, silent: NDArray[Any]
) -> NDArray[np.number]:
    """What a model says of the rows, or ``silent`` if it fails or gives no numbers."""
    if model is None:
        return silent
    try:
        # a copy for each: a model that works in place would tell the next one, and
        # whoever holds the rows, of its records
        _draw_from(0)
        said = np.asarray(getattr(model, method)(X.copy()))
    except KeyboardInterrupt:
        raise
    except BaseException:  # any would be one that private records decide
        return silent
    # the shape of an answer may depend on records, too
    fits = (
        said.ndim == silent.ndim and len(said) == len(X) and said.dtype.kind in "biuf"
    )
    return said if fits else silent


def fit_teachers(
    learner: Any,
    records: Records,
    subsets: Sequence[Integers] | Integers,
    *,
    seed: int,
    n_jobs: int | None,
    together: bool = True,
) -> Teachers:
    """Train a teacher on each subset without its empty records, ``together`` in one
    call if the learner can.

    A vote is protected only if each teacher is trained separately, as :func:`fit_each`
    explains.
    """
    jobs("n_jobs", 1 if n_jobs is None else n_jobs)
    X, codes = records.standing_in()
    kept = records.kept
    own = subsets
    if not kept.all():
        own = [rows[kept[rows]] for rows in subsets]
    present = np.array([len(rows) > 0 for rows in own])
    if not present.all():
        # a row of zeros, which is nobody's, holds the place of a teacher without
        # records, and with it the random streams of the others
        own = [rows if len(rows) else np.array([len(X)]) for rows in own]
        X = np.vstack([X, np.zeros_like(X, shape=(1, X.shape[1]))])
        codes = np.append(codes, 0)
    fit = partial(fit_each, learner, n_jobs=n_jobs)
    # faster by far, where rounding may tell of other records
    if together and hasattr(learner, "fit_many"):
        fit = learner.fit_many
    n_classes = len(records.classes)
    with quiet():
        models = fit(X, codes, own, n_classes=n_classes, seed=seed)
    return Teachers(models, present, n_classes)


def partitions_of(
    n: int,
    given: ArrayLike | None,
    shape: tuple[int, ...],
    *,
    n_chunks: int,
    scheme: str = "independent",
    seed: int,
) -> Partitions:
    """Partitions of ``n`` records, drawn unless a table is given.

    The shape of the table is [n] for one partition, which errors call "shards", and
    otherwise [n, n_partitions], which errors call "chunks". If there are n + 1 rows,
    the last row is for an additional record.
    """
    name = "shards"
    n_partitions = 1
    if len(shape) > 1:
        name = "chunks"
        n_partitions = shape[1]
    if given is None:
        return draw_partitions(
            n, n_chunks=n_chunks, n_partitions=n_partitions, scheme=scheme, seed=seed
        )
    # as hash_chunks gives one partition
    if np.shape(given) == (*shape, 1):
        given = np.ravel(given)
    chunks = codes(name, given, shape=shape, n=n_chunks).reshape(shape[0], -1)
    joining = np.zeros(n_partitions, np.int64)
    if len(chunks) > n:
        joining = chunks[n]
    return Partitions(chunks[:n], joining, n_chunks)


@dataclass(eq=False, repr=False, kw_only=True)
class Ensemble(PrivateClassifier):
    """Base class of classifiers whose models are each trained on other records.

    Parameters
    ----------
    estimator : object, optional
        The models' learner: a scikit-learn classifier, or a learner with ``fit_many``.
    n_jobs : int or None
        Number of joblib workers for scikit-learn learners, which start none
        of their own.
    """

    estimator: Any = None
    n_jobs: int | None = None

    def _seed_of_shards(self, randomness: Randomness) -> int:
        """Seed of the draw of shards.

        A record that leaves moves all later ones to other places of the draw. Where
        that must not show, nobody may know the draw, so ``random_state`` has no say.
        """
        if getattr(self, "adjacency", None) == PROTECTS_N:
            return secret_seed(self.noise_seed)
        return randomness.learning

    def _teach(
        self, records: Records, subsets: Any, *, default: Any, seed: int
    ) -> Teachers:
        """Train a model on each subset, with the default learner if ``estimator`` is
        None; all in one call only if the noise is seeded.
        """
        return fit_teachers(
            default if self.estimator is None else self.estimator,
            records,
            subsets,
            seed=seed,
            n_jobs=self.n_jobs,
            together=self.noise_seed is not None,
        )


@dataclass(eq=False, repr=False)
class TeacherVote(Ensemble):
    """Base class of classifiers that answer by a private vote of teachers on disjoint
    shards of the records.

    Parameters
    ----------
    epsilon, delta : float, optional
        Guarantee of everything that is released.
    estimator : object, optional
        The teachers' learner: a scikit-learn classifier, or a learner whose
        ``fit_many`` fits many models in one call and accepts a list of index arrays of
        unequal length. Without a ``noise_seed``, ``fit_many`` is called separately for
        each teacher: in a joint call, rounding can make a teacher depend on other
        records.
    n_models : int, in 1 .. n, optional
        Number of teachers. Default: n / (5 n_classes) for n records, rounded down, but
        at least 1 and at most 1024. Under ``"add-remove"``, which protects n, it has no
        default.
    adjacency : {"zero-out", "add-remove"}
        Definition of neighbouring data sets. If a record is made empty or left out,
        only the shards that held it change, and each of these shards has one vote.
    n_jobs : int or None
        Number of joblib workers for scikit-learn teachers, which start none
        of their own.
    """

    epsilon: float | None = None
    delta: float | None = None
    _: KW_ONLY
    n_models: int = None  # type: ignore[assignment]
    adjacency: str = "zero-out"

    _adjacencies: ClassVar[Sequence[str]] = ("zero-out", "add-remove")

    def _rules(self, n: int | None, d: int, n_classes: int) -> dict[str, Any]:
        return {"n_models": models_for(n, n_classes)}

    def _check_teachers(self, records: Records) -> int:
        """Number of teachers; at most the number of records, if that is public."""
        n_models = at_least_one("n_models", self.n_models)
        if self.adjacency != PROTECTS_N and n_models > records.n:
            raise ValueError(
                f"n_models must be at most the {records.n} records of X, got"
                f" n_models={n_models}"
            )
        return n_models


def models_for(n: int | None, n_classes: int) -> int | None:
    """Default number of models that vote; None if the number of records is
    protected.
    """
    return None if n is None else min(max(n // (RECORDS * n_classes), 1), MOST)


def counts_of(
    votes: NDArray[np.integer], n_classes: int, *, among: Any = True
) -> Integers:
    """Count votes [n_teachers, queries] for each class, shape [queries, n_classes];
    only those in ``among``.
    """
    counts = np.empty((votes.shape[1], n_classes), np.int64)
    for code in range(n_classes):
        counts[:, code] = np.count_nonzero((votes == code) & among, axis=0)
    return counts
