"""The one gate through which tables and labels pass, at a fit and at a query.

It decides by type, dtype, shape and declarations alone, never by what a cell holds. A
cell that is no finite number becomes NaN without a word. What runs behind the gate runs
under :func:`quiet`, because a warning or an error there would tell of a record.
"""

from __future__ import annotations

import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from numbers import Number
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.utils.validation import check_array, column_or_1d, validate_data

from dpnotes._validation import CONTINUOUS, MOST_CLASSES, Booleans, Features, Integers

BLOCK = 10_000  # rows that are shortened at a time
NUMERIC = "biuf"  # kinds of dtypes
ROWS = (list, tuple, np.ndarray, pd.Series)  # of a table that is a list
FINITE = (
    "replace missing values by a rule that looks at one record at a time, as"
    " dpnotes.preprocessing does, or set classes= so that such records count as empty"
)
DECLARE = "; if the numbers are labels, set classes= to all labels that can occur"

# whether this thread is behind the gate
_muted: ContextVar[bool] = ContextVar("muted", default=False)


class _WhileMuted(type):
    """A category of warnings that covers all others while this thread is muted."""

    def __subclasscheck__(cls, _: type) -> bool:
        return _muted.get()


class _Mute(Warning, metaclass=_WhileMuted):
    pass


_FILTER: Any = ("ignore", None, _Mute, None, 0)


class WhileAny:
    """Sets a state of the process while any thread is inside; the last one that leaves
    gives it back as the first one found it.

    Otherwise a thread that leaves would change the state under another one.
    """

    def __init__(
        self, get: Callable[[], Any], put: Callable[[Any], Any], value: Any
    ) -> None:
        self._get = get
        self._put = put
        self._value = value
        self._restart()
        # a thread of the parent may have held the lock
        os.register_at_fork(after_in_child=self._restart)

    def _restart(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._before: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._before = self._get()
            self._inside += 1
            self._put(self._value)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._put(self._before)


_no_anomalies = WhileAny(
    lambda: sys.modules["torch"].is_anomaly_enabled(),
    lambda on: sys.modules["torch"].autograd.set_detect_anomaly(on),
    False,
)


def _install() -> None:
    """Let no warning be shown by a muted thread, whatever filters another one sets.

    ``warnings.catch_warnings`` would not do: it changes the filters of all threads.
    """
    show = warnings._showwarnmsg  # type: ignore[attr-defined]

    def unless_muted(message: Any) -> None:
        if not _muted.get():
            show(message)

    warnings._showwarnmsg = unless_muted  # type: ignore[attr-defined]


_install()


@contextmanager
def quiet() -> Iterator[None]:
    """Mute floating-point errors, warnings and torch's anomaly mode in this thread.

    It serves as a decorator, too. A thread or process that is started inside must be
    muted anew.
    """
    filters: list[Any] = warnings.filters  # type: ignore[assignment]
    if not filters or filters[0] is not _FILTER:
        # before a filter that would turn warnings into errors
        filters.insert(0, _FILTER)
    before = _muted.set(True)
    torch = _no_anomalies if "torch" in sys.modules else nullcontext()
    try:
        with torch, np.errstate(all="ignore"):
            yield
    finally:
        _muted.reset(before)


def rows(
    estimator: Any, X: Any, *, reset: bool, may_miss: bool, norm: float | None = None
) -> tuple[Features, Booleans]:
    """Records or queries as an estimator computes with them.

    Parameters
    ----------
    estimator : object
        It has the columns of its fit, or gets them if ``reset``.
    X : array_like of float, shape [n, d]
    reset : bool
    may_miss : bool
        Whether a cell may be missing, infinite or no number; otherwise it is an error.
    norm : float, optional
        Norm that longer rows are shortened to.

    Returns
    -------
    X : ndarray of float, shape [n, d], finite
        Zeros for a row with a missing cell.
    missing : ndarray of bool, shape [n]
        Which rows have one.
    """
    values = table(estimator, X, reset=reset)
    refuse_text(X)
    numeric = numbers(values)
    if not may_miss:
        require_finite(numeric, values)
    finite, missing = without_missing(numeric)
    if norm is not None:
        finite = clipped(finite, norm)
    return finite, missing


def table(estimator: Any, X: Any, *, reset: bool) -> NDArray[Any]:
    """X as an array [n >= 1, d >= 1] of any dtype, with the columns of the estimator's
    fit unless ``reset``; errors show no value.

    Raises
    ------
    ValueError
        If X is no table, is empty or complex, or its columns are others.
    TypeError
        If X is sparse.
    """
    # how many cells a sparse table stores is content
    if issparse(X):
        raise TypeError(f"X must be dense, got sparse X of type {type(X).__name__}")
    _refuse_masked("X", X)
    with quiet():
        values = _array(X)
    if values.ndim != 2:
        raise ValueError(
            f"X must have shape [n, d], got shape {values.shape}. Reshape your data:"
            " one row per record"
        )
    if values.dtype.kind == "c":
        raise ValueError(
            f"Complex data not supported: X must hold real numbers, got {values.dtype}"
        )
    check_array(values, dtype=None, ensure_all_finite=False)
    # number and names of the columns, as scikit-learn remembers and compares them
    named = X if hasattr(X, "columns") else values
    validate_data(estimator, named, skip_check_array=True, reset=reset)
    return values


def _refuse_masked(name: str, values: Any) -> None:
    if isinstance(values, np.ma.MaskedArray):
        raise TypeError(
            f"{name} must not be a masked array: give missing cells as NaN or None, got"
            f" {name} of type {type(values).__name__}"
        )


def _array(X: Any) -> NDArray[Any]:
    """X as an array whose dtype no cell decides."""
    if isinstance(X, list | tuple):
        return _of_rows(X)
    if isinstance(X, pd.DataFrame):
        known = [dtype for dtype in X.dtypes if isinstance(dtype, np.dtype)]
        if len(known) == X.shape[1] and all(d.kind in NUMERIC for d in known):
            return X.to_numpy()
        columns = [X.iloc[:, place] for place in range(X.shape[1])]
    elif hasattr(X, "get_columns"):
        # a frame of polars
        columns = X.get_columns()
    else:
        has_dtype = hasattr(X, "dtype") or hasattr(X, "columns")
        return np.asarray(X, dtype=None if has_dtype else object)
    values = np.empty((len(X), len(columns)), dtype=object)
    for place, column in enumerate(columns):
        # an array of cells would be made from what they hold
        values[:, place] = np.fromiter(cells(column), dtype=object, count=len(X))
    return values


def _of_rows(rows: Sequence[Any]) -> NDArray[Any]:
    """A list of rows as an array of objects; no cell is looked into."""
    # lengths of rows are the shape, which is public
    lengths = {len(row) if isinstance(row, ROWS) else -1 for row in rows}
    if len(lengths) != 1 or -1 in lengths:
        # no table, as its shape of one dimension says
        return np.fromiter(rows, dtype=object, count=len(rows))
    values = np.empty((len(rows), lengths.pop()), dtype=object)
    for place, row in enumerate(rows):
        values[place] = np.fromiter(row, dtype=object, count=len(row))
    return values


def cells(column: Any) -> Any:
    """Each cell of a column by itself, so that a missing one changes no other: an
    array of integers with a gap would be one of floats.
    """
    dtype = getattr(column, "dtype", None)
    if isinstance(dtype, pd.CategoricalDtype):
        column = pd.Series(column)
        named = [*dtype.categories.tolist(), None]
        # the code of a missing cell is -1
        return [named[code] for code in column.cat.codes]
    # each cell as Python knows it
    if isinstance(dtype, np.dtype) and hasattr(column, "to_numpy"):
        return column.to_numpy(dtype=object)
    for method in ("tolist", "to_list"):
        if hasattr(column, method):
            return getattr(column, method)()
    return np.asarray(column, dtype=object)


@quiet()
def numbers(values: NDArray[Any]) -> Features:
    """Floats of the same shape, float32 if they were float32; NaN where a cell is no
    number.

    They lie row after row in memory, whatever was given: one record decides whether
    the rows are copied later, and a sum or an error may depend on how they lie.
    """
    if values.dtype.kind not in NUMERIC:
        cells = [_number(value) for value in values.ravel()]
        values = np.reshape(np.array(cells, dtype=np.float64), values.shape)
    dtype = np.float32 if values.dtype == np.float32 else np.float64
    return np.require(values, dtype, ("C", "ALIGNED"))


def _number(value: Any) -> float:
    try:
        return float(value)
    except Exception:  # whatever a cell's own class raises
        return np.nan


def refuse_text(X: Any) -> None:
    """Refuse a table whose dtypes say that a column holds no numbers; dtypes are
    public.
    """
    if isinstance(X, pd.DataFrame):
        names = [str(name) for name, dtype in X.dtypes.items() if not _countable(dtype)]
        if names:
            raise ValueError(
                "X must hold numbers, got columns of other dtypes:"
                f" {', '.join(map(repr, names))}; see dpnotes.preprocessing"
            )
    elif not _countable(getattr(X, "dtype", np.dtype(object))):
        raise ValueError(f"X must hold numbers, got an array of dtype {X.dtype}")


def _countable(dtype: Any) -> bool:
    dtype = getattr(getattr(dtype, "categories", None), "dtype", dtype)
    of = getattr(dtype, "type", np.object_)
    kind = getattr(dtype, "kind", "O")
    if kind != "O" or not isinstance(of, type):
        return kind in NUMERIC + "O"
    # of all other dtypes of objects, such as intervals, no cell is a number
    return issubclass(of, np.object_ | Number)


def kind_of(labels: Any) -> str:
    """Kind of labels, ``"text"``, ``"numbers"`` or ``""``, by the dtype of their array
    or series, or by a dtype.
    """
    dtype = getattr(labels, "dtype", labels)
    dtype = getattr(getattr(dtype, "categories", None), "dtype", dtype)
    of = getattr(dtype, "type", object)
    if not isinstance(of, type):
        return ""
    if issubclass(of, str):
        return "text"
    if issubclass(of, np.number | np.bool_ | int | float):
        return "numbers"
    return ""


def declared(classes: Any) -> NDArray[Any]:
    """Sorted labels of the parameter ``classes``, each of which must be there once."""
    # labels may be given as a column
    given = np.ravel(np.asarray(classes))
    labels = np.unique(given)
    if len(labels) < len(given) or any(label != label for label in labels.tolist()):
        raise ValueError(
            "classes must hold each label that can occur once, and no missing one, got"
            f" {len(given)} entries of which {len(labels)} differ"
        )
    return labels


@quiet()
def looked_up(y: Any, classes: NDArray[Any]) -> Integers:
    """Code of each label, looked up separately; ``len(classes)`` for a label that is
    not one of the classes.
    """
    if y is None:
        raise ValueError("y should be a 1d array of labels, got y=None")
    if {kind_of(y), kind_of(classes)} == {"text", "numbers"}:
        raise ValueError(
            f"classes must be {kind_of(y)}, as the labels in y are by their dtype, got"
            f" classes={classes.tolist()}"
        )
    _refuse_masked("y", y)
    if hasattr(y, "columns") and len(y.columns) == 1:
        y = y[y.columns[0]]
    # a list is looked up as it is: an array of it could have another type
    if isinstance(y, list | tuple):
        return places(y, classes.tolist())
    if hasattr(y, "dtype") and not isinstance(y.dtype, np.dtype):
        return places(cells(y), classes.tolist())
    labels = np.asarray(y)
    if labels.ndim != 1 and labels.shape[1:] != (1,):
        raise ValueError(
            f"y should be a 1d array, got an array of shape {labels.shape} instead"
        )
    return places(labels.ravel().tolist(), classes.tolist())


def places(values: Sequence[Any], known: Sequence[Any]) -> Integers:
    """Place of each value among the known values; ``len(known)`` for a value that is
    not among them.
    """
    codes = {value: code for code, value in enumerate(known)}

    def place(value: Any) -> int:
        try:
            return codes.get(value, len(known))
        except Exception:  # what cannot be hashed or compared equals none of them
            return len(known)

    return np.fromiter(map(place, values), dtype=np.int64, count=len(values))


def read_off(y: Any) -> tuple[NDArray[Any], Integers]:
    """Sorted labels that occur in y, which are then public, and their codes.

    Raises
    ------
    ValueError
        If y is no column of labels of one kind, or is a number to predict.
    """
    if y is None:
        raise ValueError("y should be a 1d array of labels, got y=None")
    _refuse_masked("y", y)
    labels = column_or_1d(y, warn=True)
    values = labels.tolist()
    if any(_is_missing(value) for value in values):
        raise ValueError(
            "Unknown label type: y must hold labels, Input y contains NaN or another"
            " missing label; with classes=, records without a label count as empty"
        )
    # numbers beside text would be compared as text
    if labels.dtype.kind == "O":
        if len(set(map(type, values))) > 1:
            raise ValueError("Unknown label type: y must hold labels of one kind")
        labels = np.asarray(values)
    if labels.dtype.kind not in NUMERIC + "US" or labels.ndim != 1:
        raise ValueError("Unknown label type: y must hold numbers or text")
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise ValueError(
            "Input y contains infinity or a value too large for dtype('float64')"
        )
    classes, codes = np.unique(labels, return_inverse=True)
    # a number to predict
    with_fractions = labels.dtype.kind == "f" and (labels != np.trunc(labels)).any()
    if labels.dtype.kind in "iuf" and (with_fractions or len(classes) > MOST_CLASSES):
        raise ValueError(f"Unknown label type: y is {CONTINUOUS}{DECLARE}")
    return classes, codes


@quiet()
def without_missing(X: Features) -> tuple[Features, Booleans]:
    """Rows, those with a number that is not finite as zeros, and which ones these
    are, shape [n].
    """
    missing = ~np.isfinite(X.sum(axis=1))
    # a sum that overflowed is looked into
    missing[missing] = ~np.isfinite(X[missing]).all(axis=1)
    if missing.any():
        X = X.copy()
        X[missing] = 0
    return X, missing


def require_finite(X: Features, values: NDArray[Any]) -> None:
    """Refuse numbers that are not finite, where they were made from these values."""
    with quiet():
        missing = np.isnan(X)
        infinite = np.isinf(X)
    if values.dtype.kind not in NUMERIC and missing.any():
        unread = [value for value in values[missing] if not _is_missing(value)]
        if unread:
            raise TypeError(
                "X must hold numbers: each argument must be a number or a string that"
                " holds a number, got a cell that is neither"
            )
    if missing.any():
        raise ValueError(f"Input X contains NaN: {FINITE}")
    if infinite.any():
        raise ValueError(f"Input X contains infinity: {FINITE}")


def _is_missing(value: Any) -> bool:
    return value is None or value is pd.NA or value is pd.NaT or value != value


@quiet()
def clipped(X: Features, norm: float) -> Features:
    """Rows shortened to a Euclidean norm, computed without rounding, of at most
    ``norm``; an entry that is not a number counts as 0.

    Each row is measured at its own scale, so no finite row overflows or vanishes.
    """
    X = np.nan_to_num(X)
    # in blocks, because the steps hold several copies
    for start in range(0, len(X), BLOCK):
        X[start : start + BLOCK] = _shortened(X[start : start + BLOCK], norm)
    return X


def _shortened(X: Features, norm: float) -> Features:
    # more than all that rounding adds
    margin = X.shape[1] * 2.0**-52 + 4 * float(np.finfo(X.dtype).eps)
    bound, bound_exponent = np.frexp(norm)
    largest = np.abs(X).max(axis=1, keepdims=True).astype(np.float64)
    _, exponent = np.frexp(largest)
    # the largest entry of a row is in [1/2, 1), or 0
    scaled = np.ldexp(X.astype(np.float64), -exponent)
    length = np.sqrt(np.square(scaled).sum(axis=1, keepdims=True))
    longer = np.ldexp(length * (1 + margin), exponent - bound_exponent) > bound
    factor = (1 - 2 * margin) * bound / np.where(longer, length, 1.0)
    shortened = np.ldexp(scaled * factor, bound_exponent)
    return np.where(longer, shortened, X).astype(X.dtype)
