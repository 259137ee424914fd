"""Candidates of a comparison: methods, the settings to try for each, and their
estimators for a budget.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from dpnotes import methods
from dpnotes._extras import OTHERS, install_command
from dpnotes.accounting import (
    PrivacyProfile,
    gaussian,
    gaussian_sigma,
    soft_vote,
    soft_vote_beta,
)
from dpnotes.mechanisms import soft_vote as draw_soft_vote
from dpnotes.methods import PrivateClassifier

NO_PRIVACY, MAJORITY = "no privacy", "majority class"
BINARY = "two classes only"
NOT_PURE = "has no guarantee with delta = 0: give a delta"


class Unsuited(Exception):
    """Error for a method that cannot be used for a task; the message gives the
    reason in a few words.
    """


@dataclass(frozen=True)
class Task:
    """The task of a method: its data, its budget and its number of answers.

    Parameters
    ----------
    n, d : int
        Number of records of the fit, and number of features after the preparation.
    classes : sequence
        All labels.
    epsilon, delta : float
        Privacy budget.
    answers : int or None
        Number of queries to answer. None means any number, which requires a released
        model.
    seed : int or None
        Seed of the noise; None for noise from the operating system.
    scale : float, >= 1
        Number of all records divided by ``n``, if settings are tried on a part of the
        records. The epsilon of the task is then chosen so that the ratio of the noise
        to the number of records is the same as it would be with all records.
    """

    n: int
    d: int
    classes: Sequence[Any]
    epsilon: float
    delta: float
    answers: int | None
    seed: int | None
    scale: float = 1.0

    @property
    def common(self) -> dict[str, Any]:
        """Parameters common to all estimators of the package."""
        return {"classes": list(self.classes), "noise_seed": self.seed}

    def part(self, n: int, *, seed: int) -> Task:
        """Scale the task to ``n`` of the records, at an epsilon that gives noise of the
        same relative size.

        With delta = 0, the noise is inversely proportional to epsilon. Otherwise it is
        taken to be Gaussian.
        """
        scale = self.n / n
        epsilon = (
            _relative(self.epsilon, self.delta, scale) if scale > 1 else self.epsilon
        )
        return replace(self, n=n, epsilon=epsilon, seed=seed, scale=self.scale * scale)

    def needs(self, *wanted: str) -> None:
        """Raise :class:`Unsuited` if the task lacks a requirement of a method:
        "answers", "delta", "two classes".
        """
        reasons = {
            "answers": (
                self.answers is None,
                "answers queries: give their number, answers=",
            ),
            "delta": (self.delta == 0, NOT_PURE),
            "two classes": (len(self.classes) != 2, BINARY),
        }
        for name in wanted:
            lacking, reason = reasons[name]
            if lacking:
                raise Unsuited(reason)


@cache
def _relative(epsilon: float, delta: float, scale: float) -> float:
    """The epsilon at which the noise is ``1 / scale`` as large."""
    return (
        float(
            gaussian(sigma=float(gaussian_sigma(epsilon, delta) / scale)).epsilon(delta)
        )
        if delta
        else epsilon * scale
    )


@dataclass(frozen=True)
class Candidate:
    """A method in a comparison; the class also adapts methods of other libraries.

    Parameters
    ----------
    name : str
        Name of the method.
    make : callable
        ``make(task, **setting)`` gives an unfitted scikit-learn classifier, or raises
        :class:`Unsuited`. The fit must be (epsilon, delta)-DP for one record made
        empty, with the epsilon and delta of the task.
    settings : sequence of mapping
        Settings to try, beginning with the most promising one. There are at most eight,
        so that no method gets more tuning than the others.
    released : {"model", "answers", "nothing"}
        Kind of object that the method releases.
    ball : bool
        Whether rows are shortened to norm 1. If False, only the columns are bounded,
        each to [-1, 1].
    profile : callable, optional
        ``profile(task)`` gives the guarantee that another library claims. By default,
        ``profile_`` of the fitted estimator is used.
    module : str
        Package that must be installed.
    """

    name: str
    make: Callable[..., Any]
    settings: Sequence[Mapping[str, Any]] = ({},)
    _: KW_ONLY
    released: str = "model"
    ball: bool = True
    profile: Callable[[Task], PrivacyProfile] | None = None
    module: str = ""

    def made(self, task: Task, setting: Mapping[str, Any]) -> Any:
        """Make the unfitted estimator for a task.

        Raises
        ------
        Unsuited
            If the method cannot be used for the task.
        """
        if self.module and importlib.util.find_spec(self.module) is None:
            raise Unsuited(
                f"{self.module} is not installed"
                + (f": {install_command('others')}" if self.module in OTHERS else "")
            )
        return self.make(task, **setting)


@dataclass(eq=False, repr=False)
class MajorityClass(PrivateClassifier):
    """Classifier that always answers one class, drawn with probability proportional to
    ``exp(beta n_c)``.

    n_c is the number of records of class c: each record votes for its own class. This
    is the exponential mechanism on the counts. It usually finds the most frequent class
    if this class leads by more than a few multiples of ``1 / beta``. The classifier
    does not use the features.

    Parameters
    ----------
    epsilon : float, > 0
    delta : float, in [0, 1)
    adjacency : {"zero-out", "add-remove", "replace-one"}
        Definition of neighbouring data sets; the guarantee is the same under all three.
    classes, random_state, noise_seed
        See :class:`dpnotes.methods.PrivateClassifier`; ``random_state`` is not used.

    Attributes
    ----------
    profile_ : dpnotes.accounting.PrivacyProfile
    class_ : object
        The answer to every query.
    classes_ : ndarray, shape [n_classes]
    n_features_in_ : int

    Source
    ------
    McSherry and Talwar (2007); :func:`dpnotes.accounting.soft_vote`.

    Examples
    --------
    >>> model = MajorityClass(1.0, noise_seed=0).fit(
    ...     np.zeros((90, 2)), [0] * 30 + [1] * 60
    ... )
    >>> model.predict(np.zeros((2, 2))), model.profile_.epsilon(0.0)
    (array([1, 1]), 1.0)
    """

    epsilon: float
    delta: float = 0.0
    _: KW_ONLY
    adjacency: str = "zero-out"

    _published = ("class_",)

    def _learn(self, X: Any, y: Any) -> None:  # type: ignore[override]
        beta = soft_vote_beta(self.epsilon, self.delta, answers=1)
        records = self._private_records(X, y)
        counts = np.bincount(records.labelled()[1], minlength=len(records.classes))
        (code,) = draw_soft_vote(counts[None], beta=beta, seed=self._randomness().noise)
        self.profile_ = self._implemented(
            soft_vote(beta=beta, adjacency=self.adjacency), exact=True
        )
        self.classes_, self.class_ = records.classes, records.classes[code]

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict the same class for each row of X, shape [n]."""
        return np.repeat(self.class_, len(self._queries(X)))


def each_of(**lists: Sequence[Any]) -> tuple[dict[str, Any], ...]:
    """List settings of one parameter, or of several parameters whose values change
    together.
    """
    return tuple(
        dict(zip(lists, values, strict=True))
        for values in zip(*lists.values(), strict=True)
    )


def _fixed(kind: Any, *needs: str, **fixed: Any) -> Callable[..., Any]:
    """Give a maker of estimators whose parameters are the settings, for tasks that
    meet its needs.
    """

    def make(task: Task, **setting: Any) -> Any:
        task.needs(*needs)
        return kind(task.epsilon, task.delta, **fixed, **setting, **task.common)

    return make


def _linear(kind: Any, **more: Any) -> Callable[..., Any]:
    """Give a maker of linear estimators; ``strength``, l2 times the number of
    records, decides their noise.
    """

    def make(task: Task, *, strength: float) -> Any:
        return kind(
            task.epsilon,
            task.delta,
            l2=strength / (task.n * task.scale),
            device="cpu",
            **more,
            **task.common,
        )

    return make


def _predictions(task: Task, *, strength: float) -> Any:
    task.needs("answers")
    return _linear(methods.PredictionSensitivity, answers=task.answers)(
        task, strength=strength
    )


def _augmented(task: Task, *, passes: int, learning_rate: float) -> Any:
    batch = min(task.n, max(1, round(50 / task.scale)))
    given = {
        "batch_size": batch,
        "steps": passes * (task.n // batch),
        "learning_rate": learning_rate,
    }
    return _fixed(methods.AugmentedSGD, "delta", "two classes", device="cpu")(
        task, **given
    )


def _shards(task: Task, *, n_models: int) -> Any:
    task.needs("answers")
    given = {"answers": task.answers, "n_models": _fitting(task, n_models)}
    return _fixed(methods.SubsampleAggregate, device="cpu")(task, **given)


def _filtered(task: Task, *, n_models: int) -> Any:
    task.needs("answers", "delta")
    given = {"answers": task.answers, "n_models": _fitting(task, n_models)}
    return _fixed(methods.FilteredVote, device="cpu")(task, **given)


def _fitting(task: Task, models: int) -> int:
    """Scale the number of models to the task; there must be five records for each
    model and class.
    """
    if task.n * task.scale < 5 * len(task.classes) * models:
        raise Unsuited(f"too few records for {models} models")
    return max(1, round(models / task.scale))


def _bagged(task: Task) -> Any:
    """Make one model on the largest subsample that the guarantee allows."""
    model = methods.Bagging(task.epsilon, task.delta, **task.common)
    try:
        model.calibrate(task.n)
    except ValueError:
        raise Unsuited("no subsample is small enough for this delta") from None
    return model


def _student(task: Task) -> Any:
    raise Unsuited(
        "needs public rows of the same kind, which a comparison does not have"
    )


def _without(task: Task, *, C: float) -> Any:
    if C:
        return LogisticRegression(C=C, max_iter=200)
    return RandomForestClassifier(
        50, min_samples_leaf=2, max_features="sqrt", random_state=task.seed
    )


STRENGTHS = each_of(strength=(10.0, 1.0, 100.0, 3.0, 30.0, 300.0, 0.3, 1000.0))
OURS: tuple[Candidate, ...] = (
    Candidate("ClassMeans", _fixed(methods.ClassMeans)),
    Candidate(
        "RandomTrees",
        _fixed(methods.RandomTrees),
        each_of(
            n_trees=(None, None, 16, 32, None, 4, 16, 4),
            depth=(None, 4, None, 4, 6, 3, 6, 5),
        ),
        ball=False,
    ),
    Candidate("NoisyBoosting", _fixed(methods.NoisyBoosting, "delta"), ball=False),
    Candidate("LossPerturbation", _linear(methods.LossPerturbation), STRENGTHS),
    Candidate("ModelSensitivity", _linear(methods.ModelSensitivity), STRENGTHS),
    Candidate("PredictionSensitivity", _predictions, STRENGTHS, released="answers"),
    Candidate(
        "DPSGD",
        _fixed(methods.DPSGD, "delta", sample_rate=1.0, device="cpu"),
        each_of(
            steps=(30, 10, 100, 30, 100, 10, 30, 3),
            learning_rate=(1.0, 2.0, 0.5, 4.0, 2.0, 0.5, 0.25, 2.0),
        ),
    ),
    Candidate(
        "NoisySGD",
        _fixed(methods.NoisySGD, "delta", "two classes", steps=100),
        each_of(
            radius=(3.0, 1.0, 10.0, 3.0, 1.0, 10.0, 30.0, 0.3),
            learning_rate=(1, 1, 1, 0.2, 0.2, 0.2, 1, 1),
        ),
    ),
    Candidate(
        "AugmentedSGD",
        _augmented,
        each_of(
            passes=(1, 1, 2, 5, 1, 2, 1, 5),
            learning_rate=(1.0, 0.3, 1.0, 1.0, 3.0, 0.3, 0.1, 3.0),
        ),
    ),
    Candidate(
        "SubsampleAggregate",
        _shards,
        each_of(n_models=(32, 8, 128, 512, 16, 64, 256, 1024)),
        released="answers",
        ball=False,
    ),
    Candidate(
        "FilteredVote",
        _filtered,
        each_of(n_models=(32, 8, 128, 512, 16, 64, 256, 1024)),
        released="answers",
        ball=False,
    ),
    Candidate("Bagging", _bagged, ball=False),
    Candidate("PATE", _student),
    Candidate("DPBag", _student),
    Candidate(MAJORITY, _fixed(MajorityClass)),
    Candidate(
        NO_PRIVACY,
        _without,
        each_of(C=(10.0, 1.0, 100.0, 0.0)),
        released="nothing",
        ball=False,
    ),
)
