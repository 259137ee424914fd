"""The base of all private classifiers: one gate in, one object per fit, one door out.

How an estimator is written
---------------------------
A subclass is a dataclass whose fields are its parameters, and has:

- ``_learn(records, **given)``: the method and its accounting. It runs on a snapshot of
  the parameters in which ``None`` is replaced by the defaults of ``_rules``, and
  returns a :class:`Learned`. It sets nothing.
- answers: each public one is ``self._answered(X, function)``, where ``function`` takes
  the :class:`Fitted` of one fit and the checked rows. It must use nothing of ``self``.
  :class:`LogitRelease` has all answers of a model that gives logits.
- class variables: ``_adjacencies``, ``_least_classes``, ``_most_classes``, and
  ``_answers_from_records`` where the model itself must stay with its holder.
- ``_rules(n, d, n_classes)``: defaults. ``n`` is None where the number of records is
  protected; a rule that needs it then gives None, and the fit asks for the parameter.

Everything else follows here for all of them. A parameter ``norm`` shortens longer rows
at the fit and at queries. Fitted attributes (``coef_``) are what ``Learned`` names.
"""

from __future__ import annotations

import copy
import re
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax
from sklearn.exceptions import NotFittedError
from sklearn.utils import Tags, check_consistent_length

from dpnotes import _gate as gate
from dpnotes._progress import fitting
from dpnotes._scikit_learn import BaseEstimator, ClassifierMixin, decision_values
from dpnotes._validation import Booleans, Features, Integers, one_of, positive, real
from dpnotes.accounting import PrivacyProfile, PrivacyStatement, statement
from dpnotes.methods._answers import Randomness, secret_seed

PREPARED = "rows were prepared without looking at them together"
# without ``classes``
READ_OFF = (
    "the labels that occur, and that no number in X is missing or infinite, are public"
)
TUNING = (
    "unknown; each other fit to these records, as in a grid search, spends epsilon"
    " again and is not counted here"
)
PROTECTS_N = (
    "add-remove"  # the adjacency under which the number of records is protected
)
SEEDS = ("random_state", "noise_seed")
COLUMNS = ("n_features_in_", "feature_names_in_")
# attributes of learners, such as _random_seed and estimators' rng
REMEMBERED = re.compile(r"(^|_)(random_state|seeds?|rng)_?$")
TOLD = 1e-6  # of the norm, by which a row that counts as longer is moved
Answer = TypeVar("Answer")


@dataclass(frozen=True, eq=False)
class Records:
    """Checked records of a fit; the content of one record does not affect another
    record.

    A record is empty if its label is not among the classes or, where the classes are
    public, if a feature is missing or infinite. An empty record contributes nothing but
    retains its place, so the number of records and all random draws for the places stay
    the same.

    Attributes
    ----------
    X : ndarray of float, shape [n, d]
    codes : ndarray of int64, shape [n]
        Class codes; the code of an empty record is ``len(classes)``.
    classes : ndarray, shape [n_classes]
        All classes, sorted.
    """

    X: Features
    codes: Integers
    classes: NDArray[Any]

    @property
    def n(self) -> int:
        """Number of places, which counts empty records."""
        return len(self.X)

    @property
    def kept(self) -> Booleans:
        """Mask of the records that are not empty, shape [n]; private."""
        return self.codes < len(self.classes)

    def labelled(self) -> tuple[Features, Integers]:
        """Features and class codes without the empty records."""
        kept = self.kept
        return (self.X, self.codes) if kept.all() else (self.X[kept], self.codes[kept])

    def standing_in(self) -> tuple[Features, Integers]:
        """Features and class codes of all places; an empty record has zeros and the
        first class.

        This is for methods that treat the places of empty records like all others. The
        content of one record does not change another record.
        """
        kept = self.kept
        if kept.all():
            return self.X, self.codes
        zero = self.X.dtype.type(0)
        return np.where(kept[:, None], self.X, zero), np.where(kept, self.codes, 0)


@dataclass(frozen=True, eq=False)
class Learned:
    """What one fit learned.

    Attributes
    ----------
    profile : PrivacyProfile
        Guarantee of everything that the estimator will release.
    model : object
        What answers are computed from.
    attributes : mapping of str to object
        Fitted attributes that the guarantee covers.
    private : mapping of str to object
        Fitted attributes for the holder of the records; ``publish`` leaves them out.
    budget : Shared or None
        Count of the answers.
    exact : bool
        Whether the noise of the system is exact in floating point, too.
    """

    profile: PrivacyProfile
    model: Any
    attributes: Mapping[str, Any] = field(default_factory=dict)
    private: Mapping[str, Any] = field(default_factory=dict)
    budget: Any = None
    exact: bool = True


@dataclass(frozen=True, eq=False)
class Fitted(Learned):
    """The one object that a fit makes: every answer is a function of it and a query.

    Attributes
    ----------
    classes : ndarray, shape [n_classes]
    columns : mapping
        ``n_features_in_`` and, for data frames, ``feature_names_in_``.
    norm : float or None
        Bound to which rows are shortened.
    may_miss : bool
        Whether a query may miss numbers; it is then answered as a row of zeros.
    parameters : mapping
        Plain values of the parameters of the fit, without seeds and learners.
    """

    classes: NDArray[Any] = field(kw_only=True)
    columns: Mapping[str, Any] = field(kw_only=True)
    norm: float | None = field(kw_only=True)
    may_miss: bool = field(kw_only=True)
    parameters: Mapping[str, Any] = field(kw_only=True)

    def named(self) -> dict[str, Any]:
        """All fitted attributes by name."""
        own = {"classes_": self.classes, "profile_": self.profile}
        return {**own, **self.columns, **self.attributes, **self.private}


@dataclass(eq=False, repr=False, kw_only=True)
class PrivateClassifier(ClassifierMixin, BaseEstimator):
    """Base class of classifiers with a privacy guarantee, which is ``profile_`` after
    fitting.

    Each fit spends the guarantee again. ``GridSearchCV`` and ``cross_val_score`` fit
    many times, and no ``profile_`` counts these fits. A parameter that is set, or a
    refit in another thread, does not change an answer that is being computed: an answer
    uses the result of one fit.

    At a terminal, a fit that takes more than a few seconds shows a progress bar. It
    counts steps or models, whose numbers are public.

    Parameters
    ----------
    classes : sequence, optional
        All labels that can occur, each once. By default they are taken from y, and the
        guarantee then covers everything that is released except ``classes_``. Omit them
        only if it is public which labels occur in y. If ``classes`` are given, a record
        with another label counts as empty, and so does a record with a feature that is
        missing, infinite or no number; a query with such a feature is answered as a row
        of zeros. If the classes are taken from y, such a feature is an error. A table
        of only empty records is not an error, because the error would distinguish it
        with certainty from a table with a single usable record. A table without rows is
        an error, so that there is at least one record is public.
        :meth:`unusable_records` counts the empty records. The dtypes of X and y are
        public, like the names of columns. Declare them when you read a file (``dtype=``
        of ``pandas.read_csv``), because an inferred dtype may depend on a single
        record. If the dtype of y is numeric and the classes are text, or the reverse,
        the fit raises an error. Lists and columns of objects have no such dtype and
        raise no error. Without ``classes``, labels with fractions, or more than 50
        different numbers, are treated as a numeric target. They raise an error, because
        only classification is supported.
    random_state : int, RandomState instance or None
        Seed of the random choices that the guarantee does not need: those of learners
        and students, and of shards where the number of records is public.
    noise_seed : int, optional
        By default, the noise and all other randomness that the guarantee needs come
        from the operating system, fresh for each fit, answer and copy. A seed makes
        them repeatable, for experiments. Then ``profile_.implementation`` is
        ``"reproducible"``, and the noise does not protect against a person who knows
        the seed. If ``random_state`` is None, ``noise_seed`` also determines the random
        choices that ``random_state`` would seed.
    """

    classes: Sequence[Any] | None = None
    random_state: int | np.random.RandomState | None = None
    noise_seed: int | None = None
    classes_: NDArray[Any] = field(init=False)
    profile_: PrivacyProfile = field(init=False)

    _adjacencies: ClassVar[Sequence[str]] = ("zero-out",)
    _least_classes: ClassVar[int] = 2
    _most_classes: ClassVar[int | None] = None
    # whether answers are computed from private records, with noise for each
    _answers_from_records: ClassVar[bool] = False

    def defaults(self, n: int, d: int, n_classes: int) -> dict[str, Any]:
        """Compute the values that a fit uses for parameters that are None, by rules
        that depend on public numbers.

        Parameters
        ----------
        n, d, n_classes : int
            Numbers of records, features and classes. Where the adjacency protects the
            number of records, no value depends on n.

        Raises
        ------
        ValueError
            If a parameter has no default because n is protected.

        Examples
        --------
        >>> from dpnotes import LossPerturbation
        >>> LossPerturbation(epsilon=1.0, delta=1e-5).defaults(1000, 30, 2)
        {'n': 1000, 'l2': 0.01}
        """
        protected = getattr(self, "adjacency", None) == PROTECTS_N
        rules = self._rules(None if protected else n, d, n_classes)
        found = {}
        for name, value in rules.items():
            if getattr(self, name) is not None:
                continue
            if value is None:
                raise ValueError(
                    f"{name} must be given, and be public, for adjacency="
                    f"{PROTECTS_N!r}: its default follows from the number of records,"
                    f" which is protected, got {name}=None"
                )
            found[name] = value
        return found

    def _rules(self, n: int | None, d: int, n_classes: int) -> dict[str, Any]:
        """Default values of parameters by name, whether they are None or not."""
        return {}

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the estimator, and release its result or prepare it to answer queries.

        Parameters
        ----------
        X : array_like of float, shape [n, d]
        y : array_like, shape [n]

        Returns
        -------
        Self
            The estimator itself. A fit that fails leaves the last fit unchanged.

        Raises
        ------
        ValueError
            If X and y differ in length, or a parameter is outside its range, cannot
            give the guarantee or does not fit the number of records or columns. Without
            ``classes``, also if X is not finite, or y has too few or too many classes
            for the method.
        TypeError
            If a parameter has the wrong type.
        """
        return self._fit_to(X, y)

    def _fit_to(self, X: Any, y: Any, **given: Any) -> Self:
        """Learn with a snapshot of the parameters; the result takes effect at once."""
        # a parameter that another thread sets has no effect on this fit
        snapshot = self._with(self.get_params(deep=False))
        vars(self)["_fitted"] = snapshot._fit_snapshot(X, y, given)
        return self

    def _with(self, attributes: Mapping[str, Any]) -> Self:
        # not by __init__, which would take attributes for parameters
        made = object.__new__(type(self))
        vars(made).update(attributes)
        return made

    def _fit_snapshot(self, X: Any, y: Any, given: Mapping[str, Any]) -> Fitted:
        if hasattr(self, "adjacency"):
            one_of("adjacency", self.adjacency, tuple(self._adjacencies))
        # before defaults are filled in: the release tells what was asked for
        chosen = dict(vars(self))
        norm = self._norm()
        records = self._gated(X, y, norm)
        columns = {name: vars(self)[name] for name in vars(self).keys() - chosen.keys()}
        n, d = records.X.shape
        vars(self).update(self.defaults(n, d, len(records.classes)))
        with gate.quiet(), fitting(type(self).__name__):
            learned = self._learn(records, **given)
        chosen["classes"] = None if self.classes is None else records.classes.tolist()
        # a release has no seed
        chosen.update(dict.fromkeys(SEEDS))
        profile = self._described(learned.profile, exact=learned.exact)
        return Fitted(
            **{**vars(learned), "profile": profile},
            classes=records.classes,
            columns=columns,
            norm=norm,
            may_miss=self.classes is not None,
            parameters={name: _plain(value) for name, value in chosen.items()},
        )

    def _chosen(self, *names: str) -> dict[str, Any]:
        """Parameters by name."""
        return {name: getattr(self, name) for name in names}

    @abstractmethod
    def _learn(self, *args: Any, **given: Any) -> Learned:
        """The method and its accounting."""

    def _norm(self) -> float | None:
        norm = getattr(self, "norm", None)
        # float32 has room below that for the rounding of short entries
        return None if norm is None else real("norm", positive("norm", norm), low=1e-30)

    def _gated(self, X: Any, y: Any, norm: float | None) -> Records:
        """Let records pass the gate; with public classes, no error depends on a number
        or a label.
        """
        public = self.classes is not None
        rows, missing = gate.rows(self, X, reset=True, may_miss=public, norm=norm)
        if self.classes is None:
            name = "y"
            classes, codes = gate.read_off(y)
        else:
            name = "classes"
            classes = gate.declared(self.classes)
            codes = gate.looked_up(y, classes)
        check_consistent_length(rows, codes)
        if len(classes) < self._least_classes:
            # with public classes the fault is in the parameter, not in y
            hint = gate.DECLARE.partition("labels, ")[2] if name == "y" else ""
            raise ValueError(
                f"{name} must hold at least {self._least_classes} classes, got 1 class"
                f"{'; ' * bool(hint)}{hint}"
            )
        most = self._most_classes
        if most is not None and len(classes) > most:
            only = "Only binary classification is supported: " if most == 2 else ""
            raise ValueError(
                f"{only}{name} must hold at most {most} classes, got {len(classes)}"
            )
        return Records(rows, np.where(missing, len(classes), codes), classes)

    def _bound(self) -> Fitted:
        """The result of the last fit, which an answer binds once."""
        fitted: Fitted | None = vars(self).get("_fitted")
        if fitted is None:
            raise NotFittedError(
                f"This {type(self).__name__} instance is not fitted yet. Call 'fit'"
                " with appropriate arguments before using this estimator."
            )
        return fitted

    def _answered(
        self, X: Any, function: Callable[[Fitted, Features], Answer]
    ) -> Answer:
        """Let queries pass the gate, and compute the answer from one fit and them."""
        fitted = self._bound()
        if fitted.budget is not None:
            # before any work, whose time could tell of the rows
            fitted.budget.refuse_copies()
        # the gate compares with the columns of the fit that answers
        columns = self._with(fitted.columns)
        rows, _ = gate.rows(
            columns, X, reset=False, may_miss=fitted.may_miss, norm=fitted.norm
        )
        with gate.quiet():
            return function(fitted, rows)

    def publish(self) -> Self:
        """Make the part of the estimator that the guarantee covers; the release can be
        pickled and shared.

        The release makes the same predictions. It is made of the released model, plain
        numbers, and the public parameters of the fit. It has no seed, no learner that
        was given as a parameter, and no vote, teacher or record, but for what a
        released model itself keeps, as nearest neighbours keep their records.

        Raises
        ------
        TypeError
            If the estimator cannot be shared, because it answers from a budget, or its
            fit has no guarantee.
        """
        fitted = self._bound()
        because = ""
        if self._answers_from_records:
            because = (
                "it answers from private records, which must stay with their holder"
            )
        elif fitted.profile.status == "refuted":
            because = fitted.profile.remark
        if because:
            raise TypeError(f"{type(self).__name__} cannot be published: {because}")
        # deep, so that the release shares nothing with what is private
        released = copy.deepcopy(replace(fitted, private={}))
        _forget_seeds(released.model)
        _forget_seeds(released.attributes)
        return self._with({**released.parameters, "_fitted": released})

    def unusable_records(self, X: Any, y: Any) -> dict[str, int]:
        """Count, by reason, the records that a fit to X and y treats as empty or
        shortens; the counts are **private**.

        No guarantee covers these exact counts. They are for the holder of the data: do
        not publish them, or anything that you decided because of them.

        Parameters
        ----------
        X : array_like of float, shape [n, d]
        y : array_like, shape [n]

        Returns
        -------
        dict
            Counts under four names: ``"records"`` (all records), ``"unknown label"``,
            ``"missing or infinite feature"``, and ``"empty"`` (records with at least
            one of these two faults). Estimators with a parameter ``norm`` add
            ``"longer than the norm"``: such records are shortened, as queries are.

        Raises
        ------
        ValueError
            If ``classes`` are not given; a fit then treats no record as empty, and
            raises an error for records with such faults. For other reasons see ``fit``.

        Examples
        --------
        >>> from dpnotes import ClassMeans
        >>> X, y = [[0.1], [0.2], [float("nan")]], ["yes", "no", "No"]
        >>> counts = ClassMeans(1.0, classes=["Yes", "No"]).unusable_records(X, y)
        >>> counts["records"], counts["unknown label"], counts["empty"]
        (3, 2, 3)
        """
        if self.classes is None:
            raise ValueError(
                "classes must hold all labels that can occur, got classes=None; without"
                " classes no record is empty"
            )
        classes = gate.declared(self.classes)
        rows, missing = gate.rows(self._with({}), X, reset=True, may_miss=True)
        unknown = gate.looked_up(y, classes) == len(classes)
        check_consistent_length(rows, unknown)
        found = {
            "unknown label": unknown,
            "missing or infinite feature": missing,
            "empty": unknown | missing,
        }
        norm = self._norm()
        if norm is not None:
            # rounding alone moves a row, too
            moved = np.abs(gate.clipped(rows, norm) - rows).max(axis=1)
            found["longer than the norm"] = moved > TOLD * norm
        counts = {name: int(which.sum()) for name, which in found.items()}
        return {"records": len(rows), **counts}

    def statement_(
        self,
        *,
        delta: ArrayLike | None = None,
        epsilon: ArrayLike = (),
        declared: Mapping[str, str] | None = None,
        unprotected: Sequence[str] = (),
        n_public: bool = False,
        audit: Any = None,
    ) -> PrivacyStatement:
        """State what this fit guarantees and what it does not, on one page for
        signature and as JSON.

        Parameters
        ----------
        delta : float or array_like, optional
            Deltas at which to state epsilon. Default: the parameter ``delta``, if there
            is one.
        epsilon, declared, unprotected, n_public, audit
            See :func:`dpnotes.accounting.statement`.

        Returns
        -------
        PrivacyStatement

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If the estimator is not fitted.
        ValueError, TypeError
            See :func:`dpnotes.accounting.statement`.

        Source
        ------
        Near, Darais, Lefkovitz and Howarth (2025), NIST SP 800-226.
        """
        fitted = self._bound()
        name = type(self).__name__
        told = {
            "released": (
                f"the fitted {name} as publish() gives it, and any number of its"
                " predictions"
            ),
            "method": f"dpnotes.{name}",
            "tuning": TUNING,
        }
        if self._answers_from_records:
            limit = getattr(fitted.budget, "answers", None)
            number = "any number of" if limit is None else f"at most {limit}"
            told["released"] = (
                f"{number} answers of one fitted {name}, which stays with the holder of"
                " the records"
            )
        # not the parameter of now, which may have been set since
        given = fitted.parameters.get("delta") if delta is None else delta
        read_off = [] if fitted.may_miss else [READ_OFF.partition(",")[0]]
        return statement(
            fitted.profile,
            delta=() if given is None else given,
            epsilon=epsilon,
            declared={**told, **(declared or {})},
            unprotected=tuple(dict.fromkeys((*read_off, *unprotected))),
            n_public=n_public,
            audit=audit,
        )

    def _randomness(self) -> Randomness:
        """Randomness of a fit; ``noise_seed`` decides everything that
        ``random_state`` does not decide.
        """
        if self.noise_seed is None:
            return Randomness(secret_seed(self.random_state), None)
        noise = secret_seed(self.noise_seed)
        if self.random_state is None:
            return Randomness(noise, noise)
        return Randomness(secret_seed(self.random_state), noise)

    def _described(self, profile: PrivacyProfile, *, exact: bool) -> PrivacyProfile:
        """Describe in the profile how its noise was made, and what it assumes about
        the steps before.
        """
        assumed = [profile.assumption, PREPARED]
        if self.classes is None:
            assumed.append(READ_OFF)
        # noise of real numbers, drawn in floating point
        own = "exact" if exact else "ideal reals"
        return profile.with_(
            implementation=own if self.noise_seed is None else "reproducible",
            assumption="; ".join(filter(None, assumed)),
            asked=getattr(self, "delta", None),
        )

    def _budget_for(self, *noise: str) -> tuple[float, float] | None:
        """Epsilon and delta, from which noise is calibrated; None if the parameters
        of the noise are given.
        """
        names = ("epsilon", "delta", *noise)
        epsilon, delta, *others = given = [getattr(self, name) for name in names]
        # either all of them are given or none
        known = {value is not None for value in others}
        if known == {False} and epsilon is not None and delta is not None:
            return real("epsilon", epsilon), real("delta", delta, high=1.0)
        if known == {True} and epsilon is None and delta is None:
            return None
        values = ", ".join(
            f"{name}={value!r}" for name, value in zip(names, given, strict=True)
        )
        raise ValueError(
            f"give epsilon and delta, or {' and '.join(noise)}, got {values}"
        )

    def __sklearn_is_fitted__(self) -> bool:
        return "_fitted" in vars(self)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        # two fits, or two answers to a query
        # fresh noise makes two fits differ
        unseeded = self.noise_seed is None
        tags.non_deterministic = unseeded or self._answers_from_records
        tags.input_tags.allow_nan = self.classes is not None
        tags.classifier_tags.multi_class = self._most_classes != 2
        return tags

    def __dir__(self) -> list[str]:
        fitted = vars(self).get("_fitted")
        return [*super().__dir__(), *(fitted.named() if fitted else ())]

    def __setattr__(self, name: str, value: object) -> None:
        # scikit-learn sets the columns of a snapshot
        if name[0] != "_" and name.endswith("_") and name not in COLUMNS:
            raise AttributeError(f"{name} follows from a fit, and cannot be set")
        super().__setattr__(name, value)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            fitted = vars(self).get("_fitted")
            if fitted is not None and name.endswith("_") and name[0] != "_":
                named = fitted.named()
                if name in named:
                    return named[name]
            raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")


@dataclass(eq=False, repr=False, kw_only=True)
class LogitAnswers(PrivateClassifier):
    """Base class of classifiers whose model gives logits: ``fitted.model.logits(X)``
    has shape [n, n_classes].
    """

    def decision_function(self, X: Any) -> Features:
        """Logits, shape [n, n_classes]; for two classes their difference, shape [n]."""
        return self._answered(X, lambda fitted, X: decision_values(_logits(fitted, X)))

    def predict(self, X: Any) -> NDArray[Any]:
        """Label with the largest logit, shape [n]; among equal ones the first in
        ``classes_``.
        """
        return self._answered(
            X, lambda fitted, X: fitted.classes[_logits(fitted, X).argmax(axis=1)]
        )


@dataclass(eq=False, repr=False, kw_only=True)
class LogitRelease(LogitAnswers):
    """Base class of classifiers that release a model of logits."""

    def predict_proba(self, X: Any) -> Features:
        """Softmax of the logits, shape [n, n_classes]."""
        return self._answered(X, lambda fitted, X: softmax(_logits(fitted, X), axis=1))


def _logits(fitted: Fitted, X: Features) -> Features:
    return np.asarray(fitted.model.logits(X))


@dataclass(frozen=True, eq=False)
class Linear:
    """Released weights.

    Parameters
    ----------
    coef : ndarray of float, shape [n_classes, d], or [1, d] for the second of two
    classes
    intercept : ndarray of float, shape [n_classes] or [1]
    """

    coef: Features
    intercept: Features

    def logits(self, X: Features) -> Features:
        """Logits, shape [n, n_classes]."""
        values = X @ self.coef.T + self.intercept
        if values.shape[1] > 1:
            return values
        return np.hstack([np.zeros_like(values), values])

    def named(self) -> dict[str, Features]:
        """The fitted attributes."""
        return {"coef_": self.coef, "intercept_": self.intercept}


def _forget_seeds(thing: Any, met: set[int] | None = None) -> None:
    """Let released models forget their seeds and generators, from which those of the
    fit could be guessed.
    """
    met = set() if met is None else met
    if id(thing) in met:
        return
    # objects may refer to each other in a circle
    met.add(id(thing))
    if isinstance(thing, Mapping):
        parts = list(thing.values())
    elif isinstance(thing, list | tuple):
        parts = list(thing)
    elif isinstance(thing, np.ndarray):
        parts = thing.ravel().tolist() if thing.dtype.kind == "O" else []
    elif hasattr(thing, "__dict__") and not isinstance(thing, type | ModuleType):
        held = vars(thing)
        # a seed says which records a model drew
        held.update((name, None) for name in held if REMEMBERED.search(name))
        parts = list(held.values())
    else:
        return
    for part in parts:
        _forget_seeds(part, met)


def _plain(value: Any) -> Any:
    """A parameter as plain values: None, numbers, text, and tuples and arrays of
    numbers; None for anything else, such as a learner.
    """
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            # also of a subclass, which could hold more
            return kind(value)
    if isinstance(value, np.generic):
        return _plain(value.item())
    if type(value) in (list, tuple):
        return type(value)(map(_plain, value))
    numbers = np.asarray(value) if hasattr(value, "__array__") else np.array(None)
    return np.array(numbers) if numbers.dtype.kind in gate.NUMERIC else None
