"""scikit-learn transformers with public bounds, which treat each row separately and do
not learn from the data.

The guarantee of an estimator holds for the rows that it is given. A step before it may
look at several rows together, as ``StandardScaler`` does for its means. Such a step
releases statistics that no ``profile_`` counts. The transformers here use bounds and
categories that the user knows beforehand, so one record changes only its own
transformed row: ``make_pipeline(PublicScaler(0, 100), ClipNorm(), DPSGD(1.0, 1e-5))``
is as private as its last step.

One rule holds for all transformers: they transform any row, whatever its values,
without an error or a warning. A value that is missing or not of the expected kind
counts as 0. The method ``unread`` counts such values for the person who holds the
table. ``fit`` looks only at the number and the names of the columns.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from dpnotes import _extras

_extras.require("learn", part="dpnotes.preprocessing")

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from pandas.api.types import is_list_like
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from dpnotes import _gate as gate
from dpnotes._scikit_learn import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from dpnotes._validation import Booleans, Features, Floats, Integers, real

CELL = 4  # pixels along a side of a cell of oriented gradients
DIRECTIONS = 9  # bins of [0, 180) degrees
# of the squared length by which a cell is divided: one without an edge stays near 0
FLOOR = 0.01
CHUNK = 2000  # images at a time


class RowTransformer(TransformerMixin, BaseEstimator):
    """Base of the transformers in :mod:`dpnotes.preprocessing`, which treat each row
    separately, by public parameters.

    ``fit`` freezes the parameters: setting a parameter later changes only the next fit.
    """

    n_features_in_: int
    _keeps_dtype: ClassVar[bool] = True

    def fit(self, X: Any, y: Any = None) -> Self:
        """Check the parameters, and remember the number and the names of the columns,
        without looking at values in X.

        Parameters
        ----------
        X : array_like or data frame, shape [n, d]
        y : object
            Ignored.

        Returns
        -------
        Self
            The transformer itself.

        Raises
        ------
        ValueError
            If a parameter is outside its range or does not fit the number of columns,
            or X is not a table.
        """
        gate.table(self, X, reset=True)
        self._freeze(self.n_features_in_)
        return self

    def transform(self, X: Any) -> Any:
        """Transform each row separately, shape [n, d] to [n, d_out]; return a data
        frame if ``set_output`` says so.

        Raises
        ------
        ValueError
            If X is not a table, or its columns differ from the columns in ``fit``;
            never because of a value in X.
        """
        check_is_fitted(self)
        values = gate.table(self, X, reset=False)
        with gate.quiet():
            return self._transform(values)

    def unread(self, X: Any) -> Integers:
        """Count, for each column, the values that are missing or not of the expected
        kind.

        The counts have shape [d] and are **private**: no guarantee covers them. They
        are for the person who holds the table, before a fit.

        Raises
        ------
        ValueError
            As for :meth:`transform`.
        """
        check_is_fitted(self)
        values = gate.table(self, X, reset=False)
        with gate.quiet():
            return np.asarray(self._unread(values).sum(axis=0), dtype=np.int64)

    def _unread(self, values: NDArray[Any]) -> Booleans:
        """Whether each value, shape [n, d], is missing or not of the expected kind."""
        return np.asarray(np.isnan(gate.numbers(values)), dtype=bool)

    @abstractmethod
    def _freeze(self, d: int) -> None:
        """Check the parameters for ``d`` columns and keep them as fitted attributes."""

    @abstractmethod
    def _transform(self, values: NDArray[Any]) -> Features:
        """Transform an array [n, d] of any dtype."""

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = (
            ["float64", "float32"] if self._keeps_dtype else []
        )
        return tags


@dataclass(eq=False, repr=False)
class ClipNorm(OneToOneFeatureMixin, RowTransformer):
    """Shorten each row whose norm exceeds a public bound, down to that bound, without
    changing the other rows.

    The Euclidean norm of a result, computed without rounding, is at most ``norm``; the
    direction of a longer row does not change. Each row is measured at its own scale, so
    no finite row overflows or vanishes. To leave room for rounding, rows are shortened
    by up to about (d + 4) * 4.5e-16 of the norm more than necessary (float32: 1e-6). An
    entry that is not a number counts as 0, and an infinite entry counts as the largest
    finite number.

    Parameters
    ----------
    norm : float, >= 1e-30
        Bound on the norm, in the units of X. The bound must not be taken from the data.
        Estimators with a parameter ``norm`` need the same value.

    Attributes
    ----------
    norm_ : float
    n_features_in_ : int
    feature_names_in_ : ndarray of str, only for data frames

    Examples
    --------
    >>> ClipNorm(norm=10.0).fit_transform(
    ...     [[3.0, 4.0], [3e300, 4e300], [float("nan"), 0.0]]
    ... ).round(6).tolist()
    [[3.0, 4.0], [6.0, 8.0], [0.0, 0.0]]
    """

    norm: float = 1.0

    def _freeze(self, d: int) -> None:
        # float32 has room below that for the rounding of short entries
        self.norm_ = real("norm", self.norm, low=1e-30)

    def _transform(self, values: NDArray[Any]) -> Features:
        return gate.clipped(gate.numbers(values), self.norm_)


@dataclass(eq=False, repr=False)
class PublicScaler(OneToOneFeatureMixin, RowTransformer):
    """Map each column from public bounds to [-1, 1]; values outside the bounds are
    clipped.

    A value that is missing or not a number becomes 0, the middle of the bounds. With
    ``low = -high``, zeros stay zero.

    Parameters
    ----------
    low, high : float, or array_like of float, shape [d]
        Finite bounds, one for all columns or one for each column, in the units of the
        column; low < high. The bounds must not be taken from the data: use knowledge of
        the quantity (an age is in 0 .. 120), not the least and largest observed values.

    Attributes
    ----------
    low_, high_ : ndarray of float64, shape [d]
    n_features_in_ : int
    feature_names_in_ : ndarray of str, only for data frames

    Examples
    --------
    >>> scaler = PublicScaler(low=[0, 15], high=[100, 45])  # years, kg per square metre
    >>> scaler.fit_transform([[50, 45], [999, None]]).tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """

    low: float | ArrayLike
    high: float | ArrayLike

    def _freeze(self, d: int) -> None:
        self.low_ = _bounds("low", self.low, d)
        self.high_ = _bounds("high", self.high, d)
        # halves, whose difference is finite for any bounds
        if not (self.high_ / 2 > self.low_ / 2).all():
            raise ValueError(
                f"low must be < high in each column, got low={self.low!r},"
                f" high={self.high!r}"
            )

    def _transform(self, values: NDArray[Any]) -> Features:
        X = gate.numbers(values)
        start = self.low_ / 2
        inside = np.clip(X.astype(np.float64), self.low_, self.high_)
        fraction = (inside / 2 - start) / (self.high_ / 2 - start)
        # a missing value is in the middle
        return np.where(np.isnan(fraction), 0.0, 2 * fraction - 1).astype(X.dtype)


@dataclass(eq=False, repr=False)
class PublicOneHot(RowTransformer):
    """Map each column to indicators of public categories; a missing or unknown value
    becomes all zeros.

    Parameters
    ----------
    categories : sequence
        Distinct categories of all columns (``["yes", "no"]``), or one sequence of
        categories for each column. They must not be taken from the data: a category
        that only one record has would disclose that record.

    Attributes
    ----------
    categories_ : list of d lists
    n_features_in_ : int
    feature_names_in_ : ndarray of str, only for data frames

    Examples
    --------
    >>> table = pd.DataFrame({"job": ["nurse", "spy", None], "shift": [1, 2, 3]})
    >>> encoder = PublicOneHot([["baker", "nurse"], [1, 2]]).set_output(
    ...     transform="pandas"
    ... )
    >>> encoder.fit_transform(table)
       job_baker  job_nurse  shift_1  shift_2
    0        0.0        1.0      1.0      0.0
    1        0.0        0.0      0.0      1.0
    2        0.0        0.0      0.0      0.0
    """

    categories: Sequence[Any]
    _keeps_dtype = False

    def get_feature_names_out(
        self, input_features: ArrayLike | None = None
    ) -> NDArray[Any]:
        """Names of the columns, ``column_category``; columns without a name are
        ``x0``, ``x1`` and so on.
        """
        check_is_fitted(self)
        names = OneToOneFeatureMixin.get_feature_names_out(self, input_features)
        pairs = zip(names, self.categories_, strict=True)
        return np.array(
            [f"{name}_{category}" for name, known in pairs for category in known],
            dtype=object,
        )

    def _freeze(self, d: int) -> None:
        # one list for all columns, or one for each of them
        nested = {is_list_like(entry) for entry in self.categories}
        columns = list(self.categories) if nested == {True} else [self.categories] * d
        if len(columns) != d or len(nested) != 1:
            raise ValueError(
                f"categories must be one sequence, or one for each of {d} columns, got"
                f" {self.categories!r}"
            )
        self.categories_ = [list(known) for known in columns]
        for known in self.categories_:
            if (
                not known
                or len(set(known)) < len(known)
                or pd.isna(pd.Series(known, dtype=object)).any()
            ):
                raise ValueError(
                    "categories must be distinct and not missing, at least one for"
                    f" each column, got {known!r}; a missing value becomes all zeros"
                )

    def _transform(self, values: NDArray[Any]) -> Features:
        parts = []
        for column, known in zip(values.T.tolist(), self.categories_, strict=True):
            # the last row, of zeros, is that of an unknown value
            indicators = np.eye(len(known) + 1, len(known))
            parts.append(indicators[gate.places(column, known)])
        return np.hstack(parts)

    def _unread(self, values: NDArray[Any]) -> Booleans:
        # place of the first indicator of each column
        first = np.cumsum([0, *map(len, self.categories_[:-1])])
        found = np.add.reduceat(self._transform(values), first, axis=1)
        return np.asarray(found == 0, dtype=bool)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = tags.input_tags.string = True
        return tags


@dataclass(eq=False, repr=False)
class OrientedGradients(RowTransformer):
    """Map each image to a row of norm 1 or 0: histograms of the directions of its
    gradients (Dalal and Triggs 2005).

    These features suit private linear models of pictures (Tramer and Boneh 2021). Each
    cell of 4 x 4 pixels has a histogram of its gradients, weighted by their length. The
    histogram is divided by the joint norm of the histograms of the 3 x 3 cells around
    it. The transformer takes the square root of these numbers and subtracts their mean
    over the image. Norms are 1 up to rounding in float32: add :class:`ClipNorm` as the
    next step if a bound matters.

    Parameters
    ----------
    image_shape : tuple of int
        Shape (height, width), or (channels, height, width) for rows that hold one
        channel after the other, as the data sets of this package do. The channels are
        then averaged. The sides must be at least 4; pixels beyond a multiple of 4 are
        left out.
    low, high : float
        Public bounds of a pixel, low < high. Values outside are clipped, and a value
        that is not a number becomes ``low``.

    Attributes
    ----------
    n_features_in_ : int
    feature_names_in_ : ndarray of str, only for data frames

    Examples
    --------
    >>> edge = np.repeat([[0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0]], 8, axis=0).reshape(
    ...     1, 64
    ... )
    >>> features = OrientedGradients((8, 8)).fit_transform(edge)
    >>> features.reshape(4, 9).argmax(
    ...     axis=1
    ... ).tolist()  # each cell sees the horizontal gradient
    [0, 0, 0, 0]
    """

    image_shape: tuple[int, ...]
    low: float = 0.0
    high: float = 1.0
    _keeps_dtype = False

    def get_feature_names_out(
        self, input_features: ArrayLike | None = None
    ) -> NDArray[Any]:
        """Names of the features, ``row_column_direction`` for each cell and
        direction.
        """
        check_is_fitted(self)
        sizes = [side // CELL for side in self.shape_[1:]]
        return np.array(
            ["_".join(map(str, place)) for place in np.ndindex(*sizes, DIRECTIONS)],
            dtype=object,
        )

    def _freeze(self, d: int) -> None:
        sides = tuple(self.image_shape)
        whole = len(sides) in (2, 3) and all(
            isinstance(side, int | np.integer) and side > 0 for side in sides
        )
        if not whole or min(sides[-2:]) < CELL or int(np.prod(sides)) != d:
            raise ValueError(
                "image_shape must be (height, width) or (channels, height, width) with"
                f" sides >= {CELL}, for {d} columns, got"
                f" image_shape={self.image_shape!r}"
            )
        bounds = {"low": self.low, "high": self.high}
        self.low_, self.high_ = (
            real(name, bound, low=-1e30, high=1e30) for name, bound in bounds.items()
        )
        if not self.low_ < self.high_:
            raise ValueError(
                f"low must be < high, got low={self.low!r}, high={self.high!r}"
            )
        # (channels, height, width)
        self.shape_ = (1, *sides)[-3:]

    def _transform(self, values: NDArray[Any]) -> Features:
        pixels = np.nan_to_num(gate.numbers(values), nan=self.low_)
        pixels = pixels.clip(self.low_, self.high_)
        pixels = (pixels - self.low_) / (self.high_ - self.low_)
        # mean over the channels
        images = pixels.reshape(len(values), *self.shape_).mean(axis=1)
        cells = []
        for start in range(0, len(images), CHUNK):
            cells.append(_cells(images[start : start + CHUNK]))
        features = np.sqrt(np.concatenate(cells).reshape(len(images), -1))
        features -= features.mean(axis=1, keepdims=True)
        # an empty image stays a row of zeros
        features /= np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1e-6)
        return features


def _bounds(name: str, values: ArrayLike, d: int) -> Floats:
    """One finite bound for each of ``d`` columns."""
    # a bound that is no number becomes NaN, and is refused as such
    bounds = gate.numbers(np.asarray(values, dtype=object))
    if bounds.shape not in ((), (1,), (d,)) or not np.isfinite(bounds).all():
        raise ValueError(
            f"{name} must be a finite number, or one for each of {d} columns, got"
            f" {name}={values!r}"
        )
    return np.broadcast_to(bounds, d)


def _cells(images: Features) -> NDArray[np.float32]:
    """Normalised histograms, shape [n, rows, columns, DIRECTIONS]."""
    vertical, horizontal = np.gradient(images.astype(np.float32), axis=(1, 2))
    # an edge and its reverse have the same direction
    turn = np.arctan2(vertical, horizontal) / np.float32(np.pi)
    direction = np.mod(turn, np.float32(1)) * DIRECTIONS
    lower = direction.astype(np.int64)
    # of the two nearest bins, each gets its part of the length
    upper = direction - lower
    length = np.hypot(vertical, horizontal)
    shape = (len(images), *(side // CELL for side in images.shape[1:]), DIRECTIONS)
    image, row, column = np.ogrid[tuple(slice(size) for size in images.shape)]
    # number of each pixel's cell, over all images
    cell = (image * shape[1] + row // CELL) * shape[2] + column // CELL
    # pixels beyond the last whole cell are left out
    inside = np.broadcast_to(
        (row < shape[1] * CELL) & (column < shape[2] * CELL), images.shape
    )
    histograms = np.zeros(np.prod(shape))
    for bin_, part in ((lower, length * (1 - upper)), (lower + 1, length * upper)):
        index = cell * DIRECTIONS + bin_ % DIRECTIONS
        histograms += np.bincount(
            index[inside], part[inside], minlength=len(histograms)
        )
    cells: NDArray[np.float32] = histograms.astype(np.float32).reshape(shape)
    # squared length of each cell, with zeros around the image
    energy = np.pad((cells**2).sum(axis=3), ((0, 0), (1, 1), (1, 1)))
    around = np.lib.stride_tricks.sliding_window_view(energy, (3, 3), axis=(1, 2)).sum(
        axis=(3, 4)
    )
    cells /= np.sqrt(around + np.float32(FLOOR))[..., None]
    return cells
