"""Boosting on grids of two columns, one grid after another, with noisy sums of
clipped gradients in the cells.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import softmax

from dpnotes._validation import (
    Features,
    Floats,
    Integers,
    at_least,
    at_least_one,
    positive,
    real,
)
from dpnotes.accounting import gaussian, gaussian_sigma
from dpnotes.mechanisms import add_gaussian
from dpnotes.methods._private import Learned, LogitRelease, Records
from dpnotes.preprocessing import PublicScaler

LEAST, MOST = 20, 100  # chosen grids: one more for each column
BINS, RATE = 4, 0.5
DIGITS = 26  # binary ones of a gradient, so that sums of 2^27 of them are exact
# norm that a gradient is shortened to: that of two equally likely classes
LONGEST = math.sqrt(0.5)
CURVATURE = 0.25  # the largest hessian
# of the squares of mu; the rest is for the chosen grids
SHARES = {"histograms": 0.02, "columns": 0.18, "pairs": 0.3}
HISTOGRAM = 32  # bins of equal width, of which thresholds are drawn
SPREAD = 0.1  # of the thresholds, that histograms do not move
COARSE = 3  # bins of a column, where all pairs are looked at
WIDEST = 64  # columns of which all pairs are looked at
# correlation of values of cells an eighth of the records apart, and how much all have
SMOOTH, ALIKE = 0.8, 0.2
# of the values of a grid, one of which is supposed
VARIANCES = np.array([0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0])
ROWS = 4096  # at a time, where all pairs are looked at


@dataclass(eq=False, repr=False)
class NoisyBoosting(LogitRelease):
    """Gradient boosting on pairs of columns, by noisy Newton steps: for tables where
    columns matter in combination.

    Each step divides the records by a grid of thresholds of one or two columns. For
    each cell it releases the sums of the clipped gradients and of the hessians of its
    records, with Gaussian noise. Everything else is computed from released sums,
    including the columns of the next grid and the values of a step. The values are a
    posterior mean: the better the sums can be explained by noise alone, the closer this
    mean is to 0. The fit has four parts. First, histograms of all columns give the
    quantiles between which thresholds are drawn. Second, there is one grid for each
    column. Third, there is a coarse grid for each pair of the most promising columns,
    at most 64 columns. Fourth, there are ``n_trees`` grids of the columns or pairs that
    promise the largest gain.

    Use it for tables whose columns matter in combination or by thresholds. If planes
    separate the classes, :class:`LossPerturbation` is better; for ``delta=0`` use
    :class:`ClassMeans`.

    Parameters
    ----------
    epsilon : float, > 0
    delta : float, in (0, 0.999]
    bounds : tuple (low, high), each a float or array_like of float, shape [d]
        Public bounds of the columns, between which thresholds are drawn; low < high.
        They must not be taken from the data; the default suits
        :class:`dpnotes.preprocessing.PublicScaler`. Values outside the bounds fall in
        the outer cells.
    n_trees : int, >= 1, optional
        Number of grids in the fourth part. Default: 20 more than there are columns, at
        most 100.
    bins : int, in [2, 16], optional
        Number of bins for each of a grid's two columns. Default: 4.
    learning_rate : float, in (0, 1], optional
        Fraction of each step that is taken. Default: 0.5.
    adjacency : {"zero-out", "replace-one"}
        Definition of neighbouring data sets: one record is made empty, or replaced.
        Replacing needs nearly twice the noise. The number of records is public.
    classes, random_state, noise_seed
        See :class:`PrivateClassifier`; ``random_state`` draws the thresholds between
        the quantiles, and the order of the columns in the second part.

    Attributes
    ----------
    profile_ : dpnotes.accounting.PrivacyProfile
        Guarantee of releasing all noisy sums, where each grid may be chosen after
        seeing the earlier sums.
    features_ : ndarray of int64, shape [n_grids, 2]
        Columns of each grid; a grid of one column has the same column twice.
    thresholds_ : ndarray of float64, shape [n_grids, 2, bins - 1]
        Thresholds of each grid.
    logits_ : ndarray of float64, shape [n_grids, bins^2, n_classes]
        Contributions of the cells to the logits of the classes.
    classes_ : ndarray, shape [n_classes]
    n_features_in_ : int

    Source
    ------
    Random splits and noisy Newton steps: Maddock, Cormode, Wang, Maple and Jha (2022);
    pairs of columns: Nori, Caruana, Bu, Shen and Kulkarni (2021); adaptive Gaussian
    releases compose: Dong, Roth and Su (2022), Corollary 3.3.

    Examples
    --------
    >>> generator = np.random.default_rng(0)
    >>> X = generator.uniform(-1, 1, size=(3000, 5))
    >>> y = X[:, 0] * X[:, 1] > 0
    >>> model = NoisyBoosting(1.0, 1e-5, noise_seed=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.85), round(model.profile_.epsilon(1e-5), 6)
    (True, 1.0)
    """

    epsilon: float
    delta: float
    _: KW_ONLY
    bounds: tuple[ArrayLike, ArrayLike] = (-1.0, 1.0)
    n_trees: int | None = None
    bins: int | None = None
    learning_rate: float | None = None
    adjacency: str = "zero-out"

    _adjacencies = ("zero-out", "replace-one")

    def _learn(self, records: Records) -> Learned:
        randomness = self._randomness()
        bins = (
            BINS
            if self.bins is None
            else at_least("bins", self.bins, 2, most=("the largest number", 16))
        )
        rate = (
            RATE
            if self.learning_rate is None
            else real("learning_rate", self.learning_rate, high=1, open_low=True)
        )
        delta = real("delta", self.delta, high=0.999, open_low=True)
        exchanged = self.adjacency == "replace-one"
        sigma = gaussian_sigma(positive("epsilon", self.epsilon), delta)
        box = boxed(self.bounds, records.X)
        sums = _Sums(records, sigma, exchanged, randomness.generator(0))
        generator, d = np.random.default_rng(randomness.learning), records.X.shape[1]
        n_trees = (
            min(LEAST + d, MOST)
            if self.n_trees is None
            else at_least_one("n_trees", self.n_trees)
        )
        edges = np.linspace(box.low_, box.high_, HISTOGRAM + 1, axis=1)
        quantiles = _quantiles(sums.histograms(edges, SHARES["histograms"]))

        def thresholds(columns: Sequence[int], bins: int) -> Floats:
            places = (
                np.arange(1, bins) + generator.uniform(-0.5, 0.5, (len(columns), 1))
            ) / bins
            return np.stack(
                [
                    np.interp(u, quantiles[j], edges[j])
                    for u, j in zip(places, columns, strict=True)
                ]
            )

        grids: list[tuple[tuple[int, int], Floats, Floats]] = []
        promise: dict[tuple[int, int], float] = {}

        def step(columns: tuple[int, int], share: float) -> None:
            limits = thresholds(columns, bins)
            cells = _cells(records.X, columns, limits)
            values, gain = _newton(*sums.grid(cells, bins**2, share), bins)
            sums.logits += rate * values[cells]
            grids.append((columns, limits, rate * values))
            promise[columns] = gain * (1 - rate) ** 2

        for j in generator.permutation(d):
            step((int(j), int(j)), SHARES["columns"] / d)
        widest = sorted(range(d), key=lambda j: -promise[j, j])[:WIDEST]
        pairs = list(combinations(sorted(widest), 2))
        if pairs:
            coarse = thresholds(range(d), COARSE)
            codes = np.stack(
                [
                    np.searchsorted(*own)
                    for own in zip(coarse, records.X.T, strict=True)
                ],
                axis=1,
            )
            released, noise = sums.pairs(codes, np.array(pairs), SHARES["pairs"])
            promise |= {
                pair: _newton(cells, noise, COARSE)[1]
                for pair, cells in zip(pairs, released, strict=True)
            }
        left = (
            1
            - SHARES["histograms"]
            - SHARES["columns"]
            - (SHARES["pairs"] if pairs else 0)
        )
        for _ in range(n_trees):
            step(max(promise, key=lambda columns: promise[columns]), left / n_trees)
        profile = gaussian(sigma=1 / math.sqrt(sums.spent), adjacency=self.adjacency)
        about = {
            "status": "proved",
            "source": "Dong et al. (2022)",
            "assumption": "bounds are public",
        }
        columns, limits, values = zip(*grids, strict=True)
        model = Grids(np.array(columns), np.stack(limits), np.stack(values))
        return Learned(profile.with_(**about), model, model.named())


@dataclass(frozen=True, eq=False)
class Grids:
    """Released grids; see the attributes of :class:`NoisyBoosting`."""

    features: Integers
    thresholds: Floats
    values: Floats

    def logits(self, X: Features) -> Floats:
        """Logits summed over the grids, shape [n, n_classes]."""
        logits = np.zeros((len(X), self.values.shape[2]))
        for columns, limits, values in zip(
            self.features, self.thresholds, self.values, strict=True
        ):
            logits += values[_cells(X, columns, limits)]
        return logits

    def named(self) -> dict[str, Any]:
        """The fitted attributes."""
        return {
            "features_": self.features,
            "thresholds_": self.thresholds,
            "logits_": self.values,
        }


class _Sums:
    """Noisy sums over records, each for a share of the whole squared mu; ``spent``
    is the squared mu used so far.
    """

    def __init__(
        self,
        records: Records,
        sigma: float,
        exchanged: bool,
        generator: np.random.Generator | None,
    ) -> None:
        self.records, self._sigma, self._generator = records, sigma, generator
        self.logits = np.zeros((records.n, len(records.classes)))
        self.spent = 0.0
        # of the counts of one column; exchanged, a record changes two
        self._histogram = math.sqrt(1 + exchanged)
        # of the gradients in a cell; exchanged in one cell, they may be opposite
        longest = LONGEST * (1 + exchanged)
        self._grid = math.hypot(longest, CURVATURE)

    def histograms(self, edges: Floats, share: float) -> Floats:
        """Counts of the records between the edges [d, bins + 1] of each column;
        outer bins hold values outside, too.
        """
        bins, kept = edges.shape[1] - 1, self.records.kept.astype(np.float64)
        found = [
            np.bincount(
                np.searchsorted(own[1:-1], column), weights=kept, minlength=bins
            )
            for own, column in zip(edges, self.records.X.T, strict=True)
        ]
        return self._noisy(
            np.stack(found), self._histogram * math.sqrt(len(edges)), share
        )[0]

    def grid(self, cells: Integers, n_cells: int, share: float) -> tuple[Floats, float]:
        """Sums of gradients and hessians in the cells [n] of a grid, [n_cells,
        n_classes + 1], and their noise.
        """
        found = [
            np.bincount(cells, weights=column, minlength=n_cells)
            for column in self._gradients().T
        ]
        return self._noisy(np.stack(found, axis=1), self._grid, share)

    def pairs(
        self, codes: Integers, pairs: Integers, share: float
    ) -> tuple[Floats, float]:
        """Sums as of :meth:`grid`, for all pairs of columns at once, from the bins
        [n, d], by products of matrices.
        """
        gradients, (n, d) = self._gradients(), codes.shape
        found = np.zeros((gradients.shape[1], d * COARSE, d * COARSE))
        for start in range(0, n, ROWS):
            rows = slice(start, start + ROWS)
            of = (
                (codes[rows, :, None] == np.arange(COARSE))
                .reshape(-1, d * COARSE)
                .astype(np.float64)
            )
            for total, own in zip(found, gradients[rows].T, strict=True):
                total += (own[:, None] * of).T @ of
        # [pairs, K + 1, bins, bins]
        blocks = found.reshape(-1, d, COARSE, d, COARSE)[:, pairs[:, 0], :, pairs[:, 1]]
        cells = blocks.reshape(len(pairs), gradients.shape[1], -1).swapaxes(1, 2)
        return self._noisy(cells, self._grid * math.sqrt(len(pairs)), share)

    def _gradients(self) -> Floats:
        """Clipped gradient and hessian of each record [n, n_classes + 1], zeros for
        an empty record; sums are exact.
        """
        n_classes = self.logits.shape[1]
        chances = softmax(self.logits, axis=1)
        gradients = (self.records.codes[:, None] == np.arange(n_classes)) - chances
        norms = np.sqrt(np.square(gradients).sum(axis=1, keepdims=True))
        gradients *= np.minimum(
            1.0, LONGEST * (1 - 2.0**-40) / np.maximum(norms, LONGEST / 2)
        )
        hessians = (
            (1 - np.square(chances).sum(axis=1, keepdims=True))
            * CURVATURE
            / (1 - 1 / n_classes)
        )
        rows = (
            np.hstack([gradients, np.clip(hessians, 0, CURVATURE)])
            * self.records.kept[:, None]
        )
        exact: Floats = np.ldexp(np.trunc(np.ldexp(rows, DIGITS)), -DIGITS)
        return exact

    def _noisy(
        self, values: Floats, sensitivity: float, share: float
    ) -> tuple[Floats, float]:
        noise = sensitivity * self._sigma / math.sqrt(share)
        self.spent += (sensitivity / noise) ** 2
        return add_gaussian(values, sigma=noise, seed=self._generator), noise


def boxed(bounds: Any, X: Features) -> PublicScaler:
    """Checked bounds of the columns of X, as ``low_`` and ``high_``."""
    try:
        low, high = bounds
        return PublicScaler(low, high).fit(X)
    except (TypeError, ValueError):
        each = "each a number, or one number for each column, with low < high"
        raise ValueError(
            f"bounds must be a pair (low, high), {each}, got bounds={bounds!r}"
        ) from None


def _quantiles(counts: Floats) -> Floats:
    """Fractions of the records below each edge [d, bins + 1], from noisy counts."""
    counts = np.maximum(counts, 0)
    fractions = (1 - SPREAD) * counts / np.maximum(
        counts.sum(axis=1, keepdims=True), 1e-9
    ) + SPREAD / counts.shape[1]
    summed = np.cumsum(fractions, axis=1)
    return np.hstack([np.zeros((len(counts), 1)), summed / summed[:, -1:]])


def _cells(X: Features, columns: Sequence[int] | Integers, limits: Floats) -> Integers:
    """Cell of each row in the grid of two columns with these thresholds [2, bins -
    1].
    """
    first, second = (
        np.searchsorted(own, X[:, j]) for own, j in zip(limits, columns, strict=True)
    )
    return np.asarray(first * (limits.shape[1] + 1) + second)


@cache
def _kernel(bins: int) -> Floats:
    """How alike the values of each two cells are [bins^2, bins^2], as a covariance."""
    apart = np.abs(np.subtract.outer(np.arange(bins), np.arange(bins)))
    alike = ALIKE + (1 - ALIKE) * SMOOTH ** (apart * 8 / bins)
    return np.asarray(np.kron(alike, alike), dtype=np.float64)


def _newton(sums: Floats, noise: float, bins: int) -> tuple[Floats, float]:
    """Values of the cells [bins^2, n_classes], and their gain, from noisy sums of
    gradients and hessians.

    The values are a posterior mean. Their prior is Gaussian, with values that are more
    alike in neighbouring cells. Its variance is 0 or one of a few numbers, all equally
    likely before the sums are seen.
    """
    n_classes = sums.shape[1] - 1
    gradients = sums[:, :-1] - sums[:, :-1].mean(axis=1, keepdims=True)
    hessians = (
        np.maximum(sums[:, -1], 0) * (1 - 1 / n_classes) / (CURVATURE * n_classes)
    )
    kernel = _kernel(bins)
    weights = 1 / np.sqrt(noise**2 + hessians)  # of noise and of chance
    scale = hessians * weights
    spectrum, basis = np.linalg.eigh(scale[:, None] * kernel * scale)
    seen = basis.T @ (gradients * weights[:, None])
    variances = 1 + np.outer(np.append(0.0, VARIANCES), np.maximum(spectrum, 0))
    logs = -0.5 * (
        (n_classes - 1) * np.log(variances) + np.square(seen).sum(axis=1) / variances
    ).sum(axis=1)
    shrunk = (
        softmax(logs)[:, None] * np.append(0.0, VARIANCES)[:, None] / variances
    ).sum(axis=0)
    values: Floats = kernel @ (scale[:, None] * (basis @ (shrunk[:, None] * seen)))
    return values, float((hessians[:, None] * np.square(values)).sum() / 2)
