"""A private linear model, and from its logits on boosting on grids of two columns:
everything is computed from noisy sums of clipped gradients.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_softmax, softmax

from dpnotes._progress import counted
from dpnotes._validation import (
    Features,
    Floats,
    Integers,
    at_least_one,
    positive,
    real,
)
from dpnotes.accounting import gaussian, gaussian_sigma
from dpnotes.mechanisms import add_gaussian
from dpnotes.methods._private import Learned, LogitRelease, Records
from dpnotes.preprocessing import PublicScaler

# chosen grids: one more for each column
LEAST = 20
MOST = 100
# bins for each of a grid's two columns
BINS = 4
# the fraction of a step that is taken
RATE = 0.5
DIGITS = 26  # binary ones of a gradient, so that sums of 2^27 of them are exact
# of which so many are those of a row, where a gradient is multiplied by it
OF_ROWS = 12
# norm that a gradient is shortened to: that of two equally likely classes
LONGEST = math.sqrt(0.5)
CURVATURE = 0.25  # the largest hessian
STEEPEST = 0.5  # the largest curvature along logits of norm 1
SHORTER = 1 - 2.0**-40  # leaves room for rounding

# of the squares of mu; the rest is for the linear model and the grids
SHARES = {"classes": 0.02, "histograms": 0.02, "scale": 0.03}
# of what the grids have; the rest is for the chosen ones
OF_GRIDS = {"columns": 0.2, "pairs": 0.3}
# least share of the linear model, how much more it is at most, and the number of
# records for each noisy number, in units of the noise, at which half of that is added
LINEAR = (0.33, 0.58, 110.0)

STEPS = 100
# of the linear model's descent, the length of all steps together is at most PATH for
# each column, HEARD times the records in units of the noise, and FASTEST a step
PATH = 24.0
HEARD = 1.0
FASTEST = 16.0
# moments of a column in units of half its bounds, as they are supposed before its
# histogram is seen, and their variances
MEAN = (0.0, 0.25)
SECOND = (0.35, 0.05)
FLOOR = 0.3  # of a column's variance: rarely used columns are not blown up
FARTHEST = 3.0  # standard deviations of a column, beyond which it is cut
# for their factor, logits are shortened to REACH times a typical norm, but not below
# SHORTEST
REACH = 1.5
SHORTEST = 1e-9
# Newton steps to the factor of all logits
ROUNDS = 3
LEAST_FACTOR = 0.1

HISTOGRAM = 32  # bins of equal width, of which thresholds are drawn
SPREAD = 0.1  # of the thresholds, that histograms do not move
COARSE = 3  # bins of a column, where all pairs are looked at
WIDEST = 64  # columns of which all pairs are looked at
# correlation of values of cells an eighth of the records apart
SMOOTH = 0.8
# and that of all cells, however far apart
ALIKE = 0.2
# of the values of a grid, one of which is supposed
VARIANCES = np.array([0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0])
ROWS = 4096  # at a time


@dataclass(eq=False, repr=False)
class NoisyBoosting(LogitRelease):
    """Gradient boosting on pairs of columns that starts from a private linear model:
    one estimator for most tables.

    Everything is computed from noisy sums over the records, and a later sum may depend
    on earlier ones. First, the noisy numbers of records of the classes give the logits
    to start from. Second, histograms of all columns give their centres and the
    quantiles between which thresholds are drawn. Third, softmax regression is fitted by
    100 steps along sums of clipped gradients of all records. Fourth, there are grids of
    thresholds of one or two columns. For each cell of a grid, the sums of the clipped
    gradients and of the hessians of its records give a Newton step, whose values are a
    posterior mean: the better the sums can be explained by noise alone, the closer this
    mean is to 0. There is one grid for each column, then a coarse one for each pair of
    the most promising columns, at most 64, then ``n_trees`` grids of those columns or
    pairs that promise the largest gain. Last, one factor of all logits is fitted.

    Clipped gradients have another optimum than the frequencies of the classes;
    probabilities allow for this, so they are honest for rare classes, too.

    Without the linear model (``linear_share=0``) the fit takes less time; for
    ``delta=0`` use :class:`LossPerturbation` or :class:`ClassMeans`, because pure
    privacy of so many sums would need far more noise.

    Parameters
    ----------
    epsilon : float, > 0
    delta : float, in (0, 0.999]
    bounds : tuple (low, high), each a float or array_like of float, shape [d]
        Public bounds of the columns, between which thresholds are drawn; low < high.
        They must not be taken from the data; the default suits
        :class:`dpnotes.preprocessing.PublicScaler`. Values outside the bounds fall in
        the outer cells.
    linear_share : float, in [0, 0.9], optional
        Part of the budget (of the squared ``mu`` of Gaussian privacy) for the linear
        model; 0: none. Default: between 0.33 and 0.91, larger where there are many
        columns and classes for the number of records and epsilon; see :meth:`PrivateClassifier.defaults`.
        It must be given if the adjacency is ``"add-remove"``.
    n_trees : int, >= 1, optional
        Number of grids in the fourth part. Default: 20 more than there are columns, at
        most 100.
    adjacency : {"zero-out", "replace-one", "add-remove"}
        Definition of neighbouring data sets: one record is made empty, replaced, or
        added or removed. Replacing needs nearly twice the noise.
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
    thresholds_ : ndarray of float64, shape [n_grids, 2, 3]
        Thresholds of each grid.
    logits_ : ndarray of float64, shape [n_grids, 16, n_classes]
        Contributions of the cells to the logits of the classes.
    linear_ : ndarray of float64, shape [d + 1, n_classes]
        Weights of the centred columns and of the constant.
    classes_ : ndarray, shape [n_classes]
    n_features_in_ : int

    Source
    ------
    Descent along clipped gradients: Abadi et al. (2016), here with all records in each
    step; random splits and noisy Newton steps: Maddock, Cormode, Wang, Maple and Jha (2022);
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
    linear_share: float = None  # type: ignore[assignment]
    n_trees: int = None  # type: ignore[assignment]
    adjacency: str = "zero-out"

    _adjacencies = ("zero-out", "replace-one", "add-remove")

    def _rules(self, n: int | None, d: int, n_classes: int) -> dict[str, Any]:
        share = None
        if n is not None:
            least, more, half = LINEAR
            numbers = math.sqrt(d * max(n_classes - 1, 1))
            heard = n / (self._noise() * numbers)
            share = least + more / (1 + (heard / half) ** 2)
        return {"n_trees": min(LEAST + d, MOST), "linear_share": share}

    def _noise(self) -> float:
        """Standard deviation of the noise that one sum of entries in [0, 1] needs."""
        delta = real("delta", self.delta, high=0.999, open_low=True)
        sigma = gaussian_sigma(positive("epsilon", self.epsilon), delta)
        return sigma * (1 + (self.adjacency == "replace-one"))

    def _learn(self, records: Records) -> Learned:
        n_trees = at_least_one("n_trees", self.n_trees)
        linear = real("linear_share", self.linear_share, high=sum(LINEAR[:2]))
        randomness = self._randomness()
        box = boxed(self.bounds, records.X)
        sums = _Sums(records, self._noise(), self.adjacency, randomness.generator(0))
        generator = np.random.default_rng(randomness.learning)
        d = records.X.shape[1]

        start = sums.start(SHARES["classes"])
        edges = np.linspace(box.low_, box.high_, HISTOGRAM + 1, axis=1)
        counts, noise = sums.histograms(edges, SHARES["histograms"])
        quantiles = _quantiles(counts)
        scaled = _Scaled.of(box, counts, noise, sums.number)
        weights = np.zeros((d + 1, len(start)))
        if linear > 0:
            weights = sums.descend(scaled, linear)

        def thresholds(columns: Sequence[int], bins: int) -> Floats:
            found = []
            for j in columns:
                # moved by up to half a bin, so that grids of one column differ
                shift = generator.uniform(-0.5, 0.5)
                places = (np.arange(1, bins) + shift) / bins
                found.append(np.interp(places, quantiles[j], edges[j]))
            return np.stack(found)

        grids: list[tuple[tuple[int, int], Floats, Floats]] = []
        promise: dict[tuple[int, int], float] = {}

        def step(columns: tuple[int, int], share: float) -> None:
            limits = thresholds(columns, BINS)
            cells = _cells(records.X, columns, limits)
            values, gain = _newton(*sums.grid(cells, BINS**2, share), BINS, odds=d)
            # a shorter step leaves something to the next grids
            values *= RATE
            sums.logits += values[cells]
            grids.append((columns, limits, values))
            # what is left of the gain after the step
            promise[columns] = gain * (1 - RATE) ** 2

        left = 1 - linear - sum(SHARES.values())
        shares = {name: left * part for name, part in OF_GRIDS.items()}
        for j in counted(generator.permutation(d), d):
            step((int(j), int(j)), shares["columns"] / d)
        # all pairs share one budget, so only the most promising columns are paired
        widest = sorted(range(d), key=lambda j: -promise[j, j])[:WIDEST]
        pairs = list(combinations(sorted(widest), 2))
        if pairs:
            coarse = thresholds(range(d), COARSE)
            # one byte a cell: this is a copy of the whole table
            codes = np.empty(records.X.shape, dtype=np.int8)
            for j, limits in enumerate(coarse):
                codes[:, j] = np.searchsorted(limits, records.X[:, j])
            released, noise = sums.pairs(codes, np.array(pairs), shares["pairs"])
            for pair, cells in zip(pairs, released, strict=True):
                promise[pair] = _newton(cells, noise, COARSE, odds=d)[1]
        left -= shares["columns"] + (shares["pairs"] if pairs else 0)
        for _ in counted(range(n_trees), n_trees):
            # chosen by what was released, which costs nothing
            step(max(promise, key=lambda columns: promise[columns]), left / n_trees)

        columns, limits, values = zip(*grids, strict=True)
        own = (np.array(columns), np.stack(limits), np.stack(values))
        model = Boosted(start, scaled, weights, *own)
        scale = sums.scale(start, model.typical(), SHARES["scale"])
        # adaptive Gaussian releases compose by the sum of their squared mu
        profile = gaussian(sigma=1 / math.sqrt(sums.spent), adjacency=self.adjacency)
        about = {
            "status": "proved",
            "source": "Dong et al. (2022)",
            "assumption": "bounds are public",
        }
        model = replace(model, scale=scale)
        return Learned(profile.with_(**about), model, model.named())


@dataclass(frozen=True, eq=False)
class _Scaled:
    """How a row is centred, scaled and shortened to a norm of at most 1, from released
    numbers; ``length`` is the typical norm before.
    """

    centre: Floats
    spread: Floats
    length: float

    @classmethod
    def of(cls, box: Any, counts: Floats, noise: float, number: float) -> _Scaled:
        """From noisy histograms between the bounds: posterior means of the first two
        moments of each column.
        """
        middle = (box.low_ + box.high_) / 2
        half = (box.high_ - box.low_) / 2
        # centres of the bins, in units of half the bounds
        places = (2 * np.arange(HISTOGRAM) + 1) / HISTOGRAM - 1
        moments = []
        for power, (supposed, variance) in ((1, MEAN), (2, SECOND)):
            error = np.square(noise / number) * np.sum(places ** (2 * power))
            found = counts @ places**power / number
            trust = variance / (variance + error)
            moments.append(supposed + trust * (found - supposed))
        mean = np.clip(moments[0], -1, 1)
        second = moments[1]
        variances = np.clip(second - np.square(mean), 0, 1) + FLOOR
        length = math.sqrt(1 + float(np.sum(1 - FLOOR / variances)))
        return cls(middle + half * mean, half * np.sqrt(variances), length)

    def rows(self, X: Features) -> Floats:
        """Rows with a constant, of norm at most 1, shape [n, d + 1]."""
        rows = np.ones((len(X), X.shape[1] + 1))
        rows[:, :-1] = np.clip((X - self.centre) / self.spread, -FARTHEST, FARTHEST)
        norms = np.linalg.norm(rows, axis=1, keepdims=True)
        return np.asarray(rows * (SHORTER / np.maximum(norms, self.length)))


@dataclass(frozen=True, eq=False)
class Boosted:
    """Released numbers; see the attributes of :class:`NoisyBoosting`."""

    start: Floats
    scaled: _Scaled
    weights: Floats
    features: Integers
    thresholds: Floats
    values: Floats
    scale: float = 1.0

    def logits(self, X: Features) -> Floats:
        """Logits of honest probabilities, shape [n, n_classes]."""
        logits = self.scaled.rows(X) @ self.weights
        for columns, limits, values in zip(
            self.features, self.thresholds, self.values, strict=True
        ):
            logits += values[_cells(X, columns, limits)]
        return _unclipped(self.start + self.scale * logits)

    def typical(self) -> float:
        """Norm that the logits, less the start, have for a typical record."""
        linear = np.square(self.weights).sum() / len(self.weights)
        return math.sqrt(linear + np.square(self.values).sum(axis=2).mean(axis=1).sum())

    def named(self) -> dict[str, Any]:
        """The fitted attributes."""
        return {
            "features_": self.features,
            "thresholds_": self.thresholds,
            "logits_": self.values,
            "linear_": self.weights,
        }


class _Sums:
    """Noisy sums over records, each for a share of the whole squared mu; ``spent``
    is the squared mu used so far.

    Parameters
    ----------
    noise : float
        Standard deviation of the noise of one sum of entries in [0, 1] for the whole
        budget.
    """

    def __init__(
        self,
        records: Records,
        noise: float,
        adjacency: str,
        generator: np.random.Generator | None,
    ) -> None:
        exchanged = adjacency == "replace-one"
        self.records = records
        self._generator = generator
        self._sigma = noise / (1 + exchanged)
        self.logits = np.zeros((len(records.X), len(records.classes)))
        self.number = 0.0
        self.spent = 0.0
        # of the counts of one column; exchanged, a record changes two
        self._count = math.sqrt(1 + exchanged)
        # of the sum of gradients; exchanged, they may be opposite
        self._gradient = LONGEST * (1 + exchanged)
        # of the gradients and hessians in a cell, where exchanged hessians cannot be
        self._grid = math.hypot(self._gradient, CURVATURE)

    def start(self, share: float) -> Floats:
        """Logits of the noisy frequencies of the classes; also keeps the noisy number
        of the records.
        """
        n_classes = len(self.records.classes)
        _, codes = self.records.labelled()
        found = np.bincount(codes, minlength=n_classes).astype(np.float64)
        counts, noise = self._noisy(found, self._count, share)
        # a class of no record still gets a probability that is not 0
        counts = np.maximum(counts, noise)
        self.number = float(counts.sum())
        frequencies = np.log(counts / self.number)
        start = frequencies
        for _ in range(30):  # halves the error at least
            start = start + frequencies - _unclipped(start[None])[0]
        self.logits += start
        return np.asarray(start)

    def histograms(self, edges: Floats, share: float) -> tuple[Floats, float]:
        """Counts of the records between the edges [d, bins + 1] of each column, and
        their noise; outer bins hold values outside, too.
        """
        bins = edges.shape[1] - 1
        kept = self.records.kept.astype(np.float64)
        found = [
            np.bincount(
                np.searchsorted(own[1:-1], column), weights=kept, minlength=bins
            )
            for own, column in zip(edges, self.records.X.T, strict=True)
        ]
        return self._noisy(np.stack(found), self._count * math.sqrt(len(edges)), share)

    def descend(self, scaled: _Scaled, share: float) -> Floats:
        """Weights of softmax regression on the scaled rows, [d + 1, n_classes], by
        steps along noisy sums of clipped gradients; its logits are added.

        Rows, gradients and weights are rounded towards zero to so few digits that sums
        of their products are exact. A record's gradient is then the same wherever it
        stands, so one that is removed moves no other.
        """
        X = self.records.X
        rows = np.empty((len(X), X.shape[1] + 1), dtype=np.float32)
        for part in self._parts():
            rows[part] = _truncated(scaled.rows(X[part]), OF_ROWS)
        weights = np.zeros((rows.shape[1], self.logits.shape[1]))
        heard = self.number * math.sqrt(share) / (self._sigma * self._gradient)
        pace = min(min(PATH * X.shape[1], HEARD * heard) / STEPS, FASTEST)
        for _ in counted(range(STEPS), STEPS):
            total = np.zeros_like(weights)
            for part in self._parts():
                own = rows[part].astype(np.float64)
                _, gradients = self._gradients(self.logits[part] + own @ weights, part)
                total += own.T @ _truncated(gradients, DIGITS - OF_ROWS)
            noisy, _ = self._noisy(total, self._gradient, share / STEPS)
            # gradients sum to 0 over the classes, so what noise adds to the sum is no signal
            noisy -= noisy.mean(axis=1, keepdims=True)
            weights = _truncated(weights + pace / self.number * noisy, DIGITS)
        for part in self._parts():
            self.logits[part] += rows[part].astype(np.float64) @ weights
        return weights

    def scale(self, start: Floats, typical: float, share: float) -> float:
        """Factor of the logits, less the start, by Newton steps from 1; each is a
        posterior mean of the factor, whose prior is normal around 1.
        """
        reach = max(REACH * typical, SHORTEST)
        logits = self.logits - start
        norms = np.linalg.norm(logits, axis=1, keepdims=True)
        logits *= SHORTER / np.maximum(norms, reach)
        sensitivity = math.hypot(self._gradient, STEEPEST)
        # the prior deviates from 1 by 1; all in units of logits of norm 1
        mean = factor = reach
        known = 1 / reach**2
        for _ in range(ROUNDS):
            chances, gradients = self._gradients(start + factor * logits)
            slopes = (gradients * logits).sum(axis=1)
            tilts = (chances * logits).sum(axis=1)
            curves = (chances * np.square(logits)).sum(axis=1) - np.square(tilts)
            curves = np.clip(curves, 0, STEEPEST) * self.records.kept
            found = _truncated(np.stack([slopes, curves]), DIGITS).sum(axis=1)
            noisy, noise = self._noisy(found, sensitivity, share / ROUNDS)
            slope = float(noisy[0])
            # noise may hide it, and a step divides by it
            curve = max(float(noisy[1]), 1.0)
            target = factor + np.clip(slope / curve, -factor / 2, factor)
            heard = curve**2 / (noise**2 + curve)
            mean = (known * mean + heard * target) / (known + heard)
            known += heard
            factor = max(mean, LEAST_FACTOR * reach)
        return float(factor / reach)

    def grid(self, cells: Integers, n_cells: int, share: float) -> tuple[Floats, float]:
        """Sums of gradients and hessians in the cells [n] of a grid, [n_cells,
        n_classes + 1], and their noise.
        """
        found = [
            np.bincount(cells, weights=column, minlength=n_cells)
            for column in self._exact().T
        ]
        return self._noisy(np.stack(found, axis=1), self._grid, share)

    def pairs(
        self, codes: NDArray[np.int8], pairs: Integers, share: float
    ) -> tuple[Floats, float]:
        """Sums as of :meth:`grid`, for all pairs of columns at once, from the bins
        [n, d], by products of matrices.
        """
        gradients = self._exact()
        d = codes.shape[1]
        found = np.zeros((gradients.shape[1], d * COARSE, d * COARSE))
        for rows in self._parts():
            of = codes[rows, :, None] == np.arange(COARSE)
            of = of.reshape(-1, d * COARSE).astype(np.float64)
            for total, own in zip(found, gradients[rows].T, strict=True):
                total += (own[:, None] * of).T @ of
        # [pairs, K + 1, bins, bins]
        blocks = found.reshape(-1, d, COARSE, d, COARSE)[:, pairs[:, 0], :, pairs[:, 1]]
        cells = blocks.reshape(len(pairs), gradients.shape[1], -1).swapaxes(1, 2)
        return self._noisy(cells, self._grid * math.sqrt(len(pairs)), share)

    def _parts(self) -> Iterator[slice]:
        """The records, so many at a time that what is made of them stays small."""
        for start in range(0, len(self.logits), ROWS):
            yield slice(start, start + ROWS)

    def _gradients(
        self, logits: Floats, part: slice = slice(None)
    ) -> tuple[Floats, Floats]:
        """Probabilities and clipped gradient of each record of a part, both [n,
        n_classes]; zeros for the gradient of an empty record.
        """
        # sums over few classes are several times as fast if those lie far apart
        by_class = np.ascontiguousarray(logits.T)
        chances = np.ascontiguousarray(softmax(by_class, axis=0).T)
        codes = self.records.codes[part, None]
        gradients = (codes == np.arange(chances.shape[1])) - chances
        norms = np.sqrt(np.einsum("nk,nk->n", gradients, gradients))[:, None]
        gradients *= SHORTER * LONGEST / np.maximum(norms, LONGEST)
        return chances, gradients * (codes < chances.shape[1])

    def _exact(self) -> Floats:
        """Clipped gradient and hessian of each record [n, n_classes + 1], zeros for
        an empty record; sums are exact.
        """
        chances, gradients = self._gradients(self.logits)
        largest = 1 - 1 / chances.shape[1]
        spread = (1 - np.einsum("nk,nk->n", chances, chances)) / largest
        hessians = np.clip(spread, 0, 1) * CURVATURE * self.records.kept
        return _truncated(np.column_stack([gradients, hessians]), DIGITS)

    def _noisy(
        self, values: Floats, sensitivity: float, share: float
    ) -> tuple[Floats, float]:
        noise = sensitivity * self._sigma / math.sqrt(share)
        self.spent += (sensitivity / noise) ** 2
        return add_gaussian(values, sigma=noise, seed=self._generator), noise


def _truncated(values: Floats, digits: int) -> Floats:
    """Values, rounded towards zero to so many binary digits."""
    return np.asarray(np.ldexp(np.trunc(np.ldexp(values, digits)), -digits))


def _unclipped(logits: Floats) -> Floats:
    """Logits of the frequencies of the classes at which clipped gradients cancel out,
    where plain ones do at the probabilities of ``logits`` [n, n_classes].
    """
    logs = log_softmax(logits, axis=1)
    chances = np.exp(logs)
    squares = 1 - 2 * chances + np.square(chances).sum(axis=1, keepdims=True)
    # by how much the gradient of a record of each class is shortened
    longer = np.maximum(squares / LONGEST**2, 1)
    return np.asarray(log_softmax(logs + np.log(longer) / 2, axis=1))


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


def _newton(
    sums: Floats, noise: float, bins: int, *, odds: float
) -> tuple[Floats, float]:
    """Values of the cells [bins^2, n_classes], and their gain, from noisy sums of
    gradients and hessians.

    The values are a posterior mean. Their prior is Gaussian, with values that are more
    alike in neighbouring cells. Its variance is one of a few numbers, all equally
    likely before the sums are seen, or 0, which is ``odds`` times as likely.
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
    logs[0] += math.log(odds)
    shrunk = (
        softmax(logs)[:, None] * np.append(0.0, VARIANCES)[:, None] / variances
    ).sum(axis=0)
    # back from the basis to the cells
    values: Floats = kernel @ (scale[:, None] * (basis @ (shrunk[:, None] * seen)))
    return values, float((hessians[:, None] * np.square(values)).sum() / 2)
