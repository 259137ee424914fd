"""Base classes of the private classifiers, which check records and queries and encode
labels as class codes.

The parameters are the fields of dataclasses, whose ``__init__`` has the form that
scikit-learn requires.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils import Tags, check_consistent_length
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from dpnotes._validation import (
    CONTINUOUS,
    MOST_CLASSES,
    Features,
    Integers,
    positive,
    real,
)
from dpnotes.accounting import PrivacyProfile, PrivacyStatement, statement
from dpnotes.mechanisms import stream
from dpnotes.methods import _private
from dpnotes.methods._answers import InferenceBudget, Randomness, secret_seed
from dpnotes.methods._private import Records as Records
from dpnotes.preprocessing import places

# dtypes of features; others are converted to the first
FLOATS = [np.float64, np.float32]
PREPARED = "rows were prepared without looking at them together"
# without ``classes``
READ_OFF = (
    "the labels that occur, and that no number in X is missing or infinite, are public"
)
TUNING = (
    "unknown; each other fit to these records, as in a grid search, spends epsilon"
    " again and is not counted here"
)
# parameters that may know of private rows
UNPUBLISHED = ("estimator", "student", "random_state", "noise_seed")
PUBLIC_ERRORS = (  # beginnings of messages about sizes, names and types alone
    "Found ",
    "Input X contains",
    "Input y contains",
    "X has ",
    "The feature names",
    "Sparse ",
    "Unknown label type",
    "y should be",
    "float() argument",
    "This ",
)

FINITE = (
    "replace missing values by a rule that looks at one record at a time, as"
    " dpnotes.preprocessing does"
)
REWORDED = {  # beginnings of messages that show values
    "Complex data not supported": (
        "Complex data not supported: X and y must not hold complex numbers"
    ),
    "Unknown label type: continuous": (
        f"Unknown label type: y is {CONTINUOUS}; if the numbers are labels, set"
        " classes= to all labels that can occur"
    ),
    "Input X contains NaN": f"Input X contains NaN: {FINITE}",
    "Input X contains infinity": f"Input X contains infinity: {FINITE}",
    "could not convert": (
        "X must hold numbers, got a cell that cannot be converted to float"
    ),
    "Unknown label type: unknown": (
        "Unknown label type: y must hold labels of one kind, none missing; with"
        " classes=, records whose label is missing or of another kind count as empty"
    ),
}
NO_TABLE = "X must be a table of numbers of shape [n, d], and y must hold n labels"


@dataclass(eq=False, repr=False, kw_only=True)
class PrivateClassifier(_private.PrivateClassifier):
    """Base class of classifiers with a privacy guarantee, which is ``profile_`` after
    fitting.

    Each fit spends the guarantee again. ``GridSearchCV`` and ``cross_val_score`` fit
    many times, and no ``profile_`` counts these fits. Choose settings on public records.

    Parameters
    ----------
    classes : sequence, optional
        All labels that can occur. By default they are taken from y, and the guarantee
        then covers everything that is released except ``classes_``. Omit them only if
        it is public which labels occur in y. If ``classes`` are given, a record with
        another label counts as empty, and so does a record with a missing or infinite
        feature. If the classes are taken from y, such a feature is an error. A table of
        only empty records is not an error, because the error would distinguish it with
        certainty from a table with a single usable record. :meth:`unusable_records`
        counts the empty records. The dtype of y is public, like the names of columns.
        Declare it when you read a file (``dtype=`` of ``pandas.read_csv``), because an
        inferred dtype may depend on a single record. If the dtype is numeric and the
        classes are text, or the reverse, the fit raises an error. Lists and columns of
        objects (text in pandas before version 3) have no such dtype and raise no error.
        An array made from them, such as ``np.asarray(y, dtype=str)``, has a dtype and
        can raise the error. Without ``classes``, labels with fractions, or more than 50
        different numbers, are treated as a numeric target. They raise an error, because
        only classification is supported.
    random_state : int, RandomState instance or None
        Seed of the random choices that the guarantee does not need: those of learners,
        shards and students.
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

    _published: ClassVar[tuple[str, ...]] = ()  # attributes that the guarantee is about

    def __sklearn_is_fitted__(self) -> bool:
        return any(name.endswith("_") for name in vars(self))

    def __dir__(self) -> list[str]:
        return list(object.__dir__(self))

    def defaults(self, n: int, d: int, n_classes: int) -> dict[str, Any]:
        """Compute the values that a fit uses for parameters that are None, by rules
        that depend on public numbers.

        Parameters
        ----------
        n, d, n_classes : int
            Numbers of records, features and classes.

        Examples
        --------
        >>> from dpnotes import LossPerturbation
        >>> LossPerturbation(epsilon=1.0, delta=1e-5).defaults(1000, 30, 2)
        {'n': 1000, 'l2': 0.01}
        """
        return {
            name: value
            for name, value in self._rules(n, d, n_classes).items()
            if getattr(self, name) is None
        }

    def _rules(self, n: Any, d: int, n_classes: int) -> dict[str, Any]:
        """Default values of parameters by name, whether they are None or not."""
        return {}

    def publish(self) -> Self:
        """Copy the part of the estimator that the guarantee covers; the copy can be
        pickled and shared.

        The copy makes the same predictions. It has only the public parameters,
        ``classes_``, ``profile_`` and the attributes that predictions need. It contains
        no seed, no learner that was given as ``estimator`` or ``student``, and no vote,
        teacher or record.

        Raises
        ------
        TypeError
            If the estimator cannot be shared, because it answers from a budget.
        """
        check_is_fitted(self)
        if not self._published:
            because = (
                "it answers from private records, which must stay with their holder"
            )
            raise TypeError(f"{type(self).__name__} cannot be published: {because}")
        names = {
            *self.get_params(deep=False),
            "classes_",
            "profile_",
            "tuning_",
            "n_features_in_",
            "feature_names_in_",
        }
        release = copy.copy(self)
        kept = {
            name: value
            for name, value in vars(self).items()
            if name in names.union(self._published)
        }
        kept |= {name: None for name in UNPUBLISHED if name in names}
        release.__dict__ = copy.deepcopy(kept)
        return release

    def unusable_records(self, X: Any, y: Any) -> dict[str, int]:
        """Count, by reason, the records that a fit to X and y treats as empty; the
        counts are **private**.

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
            one of these two faults).

        Raises
        ------
        ValueError
            If ``classes`` are not given; a fit then treats no record as empty, and
            raises an error for records with such faults. For other reasons see ``fit``.

        Examples
        --------
        >>> from dpnotes import ClassMeans
        >>> X, y = [[0.1], [0.2], [float("nan")]], ["yes", "no", "No"]
        >>> ClassMeans(1.0, classes=["Yes", "No"]).unusable_records(X, y)
        {'records': 3, 'unknown label': 2, 'missing or infinite feature': 1, 'empty': 3}
        """
        if self.classes is None:
            raise ValueError(
                "classes must hold all labels that can occur, got classes=None; without"
                " classes no record is empty"
            )
        X, classes = (
            clone(self)._checked(X, ensure_all_finite=False),
            np.unique(np.asarray(self.classes)),
        )
        unknown, unfinished = (
            _codes(y, classes) == len(classes),
            ~np.isfinite(X).all(axis=1),
        )
        check_consistent_length(X, unknown)
        found = {
            "unknown label": unknown,
            "missing or infinite feature": unfinished,
            "empty": unknown | unfinished,
        }
        return {"records": len(X)} | {
            name: int(which.sum()) for name, which in found.items()
        }

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
        check_is_fitted(self)
        name, budget = type(self).__name__, getattr(self, "budget_", None)
        released = (
            f"the fitted {name} as publish() gives it, and any number of its"
            " predictions"
        )
        if not self._published:
            number = "any number of" if budget is None else f"at most {budget.answers}"
            released = (
                f"{number} answers of one fitted {name}, which stays with the holder of"
                " the records"
            )
        told = {
            "released": released,
            "method": f"dpnotes.{name}",
            "tuning": getattr(self, "tuning_", TUNING),
        }
        told |= declared or {}
        given = getattr(self, "delta", None) if delta is None else delta
        read_off = (
            (READ_OFF.partition(",")[0],)
            if READ_OFF in self.profile_.assumption
            else ()
        )
        return statement(
            self.profile_,
            delta=() if given is None else given,
            epsilon=epsilon,
            declared=told,
            unprotected=tuple(dict.fromkeys((*read_off, *unprotected))),
            n_public=n_public,
            audit=audit,
        )

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the estimator, and release its result or prepare it to answer queries.

        Parameters
        ----------
        X : array_like of float, shape [n, d]
        y : array_like, shape [n]

        Returns
        -------
        Self
            The estimator itself.

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
        return self._fit_at_once(X, y)

    def _fit_at_once(self, X: Any, y: Any, **given: Any) -> Self:
        """Learn with the present parameters, and set the learned attributes only after
        all are computed.

        Parameters that are set during the fit change only the next fit. A fit that
        fails leaves the last fit unchanged.
        """
        parameters = self.get_params(deep=False)
        attempt = copy.copy(self)
        attempt.__dict__ = parameters.copy()
        attempt._learn(X, y, **given)
        learned = {
            name: value
            for name, value in vars(attempt).items()
            if name not in parameters
        }
        for name in [
            name for name in vars(self) if name.endswith("_") and name not in learned
        ]:
            delattr(self, name)
        vars(self).update(learned)
        return self

    def _learn(self, X: Any, y: Any, **given: Any) -> Any:
        """Set the learned attributes from records that have not been checked."""
        raise NotImplementedError

    def _randomness(self) -> Randomness:
        """Randomness of a fit; ``noise_seed`` decides everything that
        ``random_state`` does not decide.
        """
        if self.noise_seed is None:
            return Randomness(secret_seed(self.random_state), None)
        noise = secret_seed(self.noise_seed)
        return Randomness(
            noise if self.random_state is None else secret_seed(self.random_state),
            noise,
        )

    def _implemented(
        self, profile: PrivacyProfile, *, exact: bool = False
    ) -> PrivacyProfile:
        """Describe in the profile how its noise was made, and what it assumes about
        the steps before.
        """
        own = "exact" if exact else "ideal reals"
        assumed = (
            profile.assumption,
            PREPARED,
            READ_OFF if self.classes is None else "",
        )
        return profile.with_(
            implementation=own if self.noise_seed is None else "reproducible",
            assumption="; ".join(filter(None, assumed)),
        )

    def _budget_for(self, *noise: str) -> tuple[float, float] | None:
        """Epsilon and delta, from which noise is calibrated; None if the parameters
        of the noise are given.
        """
        names = ("epsilon", "delta", *noise)
        epsilon, delta, *others = given = [getattr(self, name) for name in names]
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

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        # two fits, or two answers to a query
        tags.non_deterministic = self.noise_seed is None or not self._published
        tags.input_tags.allow_nan = self.classes is not None
        return tags

    def _queries(self, X: Any) -> Features:
        """Checked features of the queries to the fitted classifier."""
        check_is_fitted(self)
        return np.asarray(self._checked(X, reset=False))

    def _private_records(
        self, X: Any, y: Any, *, least: int = 2, most: int | None = None
    ) -> Records:
        """Checked records with the sorted classes, which are read off y unless
        ``classes`` names them.

        Errors show no value of X or y. With public classes, no error depends on a
        number or a label.

        Raises
        ------
        ValueError
            If X is no table of numbers or differs from y in length, or there are too
            few or too many classes; if X is not finite, or y is a number to predict,
            and the classes are read off y.
        """
        if self.classes is None:
            X, y = self._checked(X, y)
            classes, codes = np.unique(y, return_inverse=True)
        else:
            X, classes = (
                self._checked(X, ensure_all_finite=False),
                np.unique(np.asarray(self.classes)),
            )
            codes = _codes(y, classes)
            check_consistent_length(X, codes)
            X, codes = _finite(X, codes, empty=len(classes))
        name = "y" if self.classes is None else "classes"
        if len(classes) < least:
            hint = (
                "; set classes= to all labels that can occur"
                if self.classes is None
                else ""
            )
            raise ValueError(
                f"{name} must hold at least {least} classes, got 1 class{hint}"
            )
        if most is not None and len(classes) > most:
            raise ValueError(f"{name} must hold at most {most} classes, got more")
        vars(self).update(
            self.defaults(len(X), X.shape[1], len(classes))
        )  # of an attempt: the estimator itself keeps its None
        return Records(X, codes.astype(np.int64, copy=False), classes)

    def _checked(self, X: Any, y: Any = "no_validation", **how: Any) -> Any:
        """Validate data by scikit-learn, with messages that show no value of the
        data.
        """
        try:
            with np.errstate(over="ignore"):  # of longer types, which are converted
                checked = validate_data(self, X, y, dtype=FLOATS, **how)
            if not isinstance(y, str):
                if (
                    checked[1].dtype.kind in "iuf"
                    and len(np.unique(checked[1])) > MOST_CLASSES
                ):
                    raise ValueError("Unknown label type: continuous")
                check_classification_targets(checked[1])
            return checked
        except (ValueError, TypeError) as error:
            kind, message = type(error), _without_values(str(error))
            named = (
                [str(name) for name in X.columns if _kind(X[name]) != "numbers"]
                if hasattr(X, "columns")
                else []
            )
            # the dtypes of a frame are public
            if named and message in (REWORDED["could not convert"], NO_TABLE):
                message += (
                    f"; by their dtype, no numbers are in {', '.join(map(repr, named))}"
                )
            labels = (
                []
                if isinstance(y, str)
                else np.ravel(np.asarray(y, dtype=object)).tolist()
            )
            if (
                message.startswith(NO_TABLE)
                and not named
                and any(label is None or label != label for label in labels)
            ):
                kind, message = ValueError, REWORDED["Unknown label type: unknown"]
        # not within the handler, so that the first message does not hang on to this one
        raise kind(message)


class AnsweringClassifier(PrivateClassifier):
    """Base class of classifiers that answer a budget of queries, each with fresh noise.

    By default the noise comes from the operating system, fresh for each answer in each
    copy. With a noise seed, the generator of an answer follows from the seed and the
    number of earlier answers, so a resumed copy repeats no noise.

    Attributes
    ----------
    budget_ : InferenceBudget
        Numbers of answers released and left.
    """

    _budget: InferenceBudget
    _answers_seed: int | None

    @property
    def budget_(self) -> InferenceBudget:
        """Numbers of answers released and left."""
        check_is_fitted(self)
        return self._budget

    def _take(self, count: int) -> np.random.Generator | None:
        """Spend ``count`` answers, all or none, and return the generator of their
        noise.
        """
        released = self._budget.spend(count)
        return (
            None if self._answers_seed is None else stream(self._answers_seed, released)
        )


def _codes(y: Any, classes: NDArray[Any]) -> Integers:
    """Code of each label, looked up separately; ``len(classes)`` for a label that is
    not one of the classes.
    """
    if y is None:
        raise ValueError(
            "y must hold the labels, got y=None: the fit requires y to be passed"
        )
    if {_kind(y), _kind(classes)} == {"text", "numbers"}:
        raise ValueError(
            f"classes must be {_kind(y)}, as the labels in y are by their dtype, got"
            f" classes={classes.tolist()}"
        )
    labels = y if isinstance(y, list | tuple) else np.asarray(y)
    # a list is looked up as it is: an array of it could have another type
    if isinstance(labels, np.ndarray):
        if labels.ndim != 1 and labels.shape[1:] != (1,):
            raise ValueError(
                f"y should be a 1d array, got an array of shape {labels.shape} instead"
            )
        labels = labels.ravel().tolist()
    return places(labels, classes.tolist())


def _kind(labels: Any) -> str:
    """Kind of labels by the dtype of their array or series, which is public; the
    function looks at no label.
    """
    dtype = getattr(labels, "dtype", None)
    of = getattr(
        getattr(getattr(dtype, "categories", None), "dtype", dtype), "type", object
    )
    return (
        "text"
        if issubclass(of, str)
        else "numbers"
        if issubclass(of, np.number | np.bool_ | int | float)
        else ""
    )


def _finite(X: Features, codes: Integers, *, empty: int) -> tuple[Features, Integers]:
    """Replace each row that has a feature that is not finite by zeros, with the code
    ``empty``.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        # a row that overflows is looked into
        suspect = np.flatnonzero(~np.isfinite(X.sum(axis=1)))
    rows = suspect[~np.isfinite(X[suspect]).all(axis=1)]
    if len(rows):
        X, codes = X.copy(), codes.copy()
        X[rows], codes[rows] = 0, empty
    return X, codes


def _without_values(message: str) -> str:
    """Message of scikit-learn without the values that it shows."""
    if message.startswith("Expected 2D array"):
        return (
            f"{message.splitlines()[0].rstrip(':')}. Reshape your data: X must have"
            " shape [n, d]"
        )
    known = message if message.startswith(PUBLIC_ERRORS) else NO_TABLE
    return next(
        (words for start, words in REWORDED.items() if message.startswith(start)), known
    )


def longest_row(X: Features) -> float:
    """Largest Euclidean norm of a row."""
    return math.sqrt(
        float(np.einsum("ij,ij->i", X, X, dtype=np.float64).max(initial=0.0))
    )


def check_norms(X: Features, norm: float, *, rounding: float) -> None:
    """Refuse rows that are longer than ``norm`` by more than a relative rounding
    error.
    """
    longest, norm = longest_row(X), positive("norm", norm)
    if longest > norm * (1 + rounding):
        raise ValueError(
            f"X must have rows of norm at most norm={norm:g}, got a row of norm"
            f" {longest:.7g}; scale by a rule that ignores the data, such as"
            " dpnotes.data.to_unit_ball, or give a larger norm, which costs more noise"
        )
