"""Trees grown without data, whose leaves count the records of each class with noise."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dpnotes._validation import (
    Features,
    Floats,
    Integers,
    at_least,
    at_least_one,
    one_of,
    renamed,
)
from dpnotes.accounting import PrivacyProfile, gaussian, gaussian_sigma, laplace, pure
from dpnotes.learners import LogitClassifier, decision_values
from dpnotes.methods._classifier import PrivateClassifier
from dpnotes.methods._linear import noisy
from dpnotes.methods._linear_estimators import checked_epsilon_delta
from dpnotes.preprocessing import PublicScaler

ADJACENCIES = ("zero-out", "replace-one")
TREES = (8, 64)  # with delta = 0, each record being counted in one tree, and otherwise
DEEPEST = 10  # levels, by default
# records of a leaf, over all trees, in standard deviations of their noise, that choose
# the depth
SIGNAL = 2.0
SMOOTHING = 0.25  # of a count, in standard deviations of its noise
BLOCK = 2**22  # pairs of a row and a tree at a time


@renamed(bounds=("low", "high"))
@dataclass(eq=False, repr=False)
class RandomTrees(PrivateClassifier, LogitClassifier):
    """Trees with random splits between public bounds, which release noisy counts of the
    records in their leaves.

    Splits do not depend on the data, so a record affects only the counts of its leaves.
    With ``delta=0`` each record is counted in one tree, which is drawn for the record's
    place in the table. Under zero-out, Laplace noise of scale ``1 / epsilon`` on each
    count is then epsilon-DP for any number of trees. With ``delta > 0`` each record is
    counted in all T trees. Making the record empty then moves the counts by ``sqrt(T)``
    in Euclidean norm, and the counts get Gaussian noise. A query reaches one leaf in
    each tree. Each of these leaves adds a term to the logit of a class: the logarithm
    of the fraction of the class's records that are in the leaf. The numerator and the
    denominator of the fraction are both smoothed.

    Use it for tables of few columns where no plane separates the classes and ``delta``
    must be 0. A split of a column that does not matter halves the counts without any
    benefit. With ``delta > 0``, :class:`NoisyBoosting` was more accurate on nearly all
    tables that we tried. If planes separate the classes, prefer :class:`ClassMeans`.

    Parameters
    ----------
    epsilon : float, > 0
    delta : float, in [0, 0.999]
        0: pure differential privacy.
    bounds : tuple (low, high), each a float or array_like of float, shape [d]
        Public bounds of the columns, between which thresholds are drawn; low < high.
        They must not be taken from the data; the default suits
        :class:`dpnotes.preprocessing.PublicScaler`. Values outside the bounds fall in
        the outer leaves.
    n_trees : int, >= 1, optional
        Number of trees. Default: 8 with ``delta=0``, 64 otherwise.
    depth : int, in [1, 20], optional
        Depth of the trees; each tree has ``2^depth`` leaves. The default, at most 10,
        depends only on the number of records and the noise. With it, the number of
        records of an average leaf, summed over all trees, is about twice the standard
        deviation of the noise on this sum.
    adjacency : {"zero-out", "replace-one"}
        Definition of neighbouring data sets: one record is made empty, or replaced.
        Replacing a record changes two counts of each tree in which it is counted. The
        number of records is public.
    classes, random_state, noise_seed
        See :class:`PrivateClassifier`; ``random_state`` draws the splits and the tree
        in which each record is counted.

    Attributes
    ----------
    profile_ : dpnotes.accounting.PrivacyProfile
        Guarantee of releasing all noisy counts, which determine everything else.
    features_ : ndarray of int64, shape [n_trees, 2^depth - 1]
        Columns of the splits, level by level; the children of node j are 2j + 1 and 2j
        + 2.
    thresholds_ : ndarray of float64, shape [n_trees, 2^depth - 1]
        Thresholds of the splits; a row with a larger value goes to the second child.
    counts_ : ndarray of float64, shape [n_trees, 2^depth, n_classes]
        Noisy numbers of records.
    classes_ : ndarray, shape [n_classes]
    n_features_in_ : int

    Source
    ------
    Random decision trees with noisy leaves: Jagannathan, Pillaipakkamnatt and Wright
    (2009); disjoint records compose in parallel (McSherry 2009); Gaussian noise by
    Balle and Wang (2018).

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(1000, noise=0.2, random_state=0)
    >>> model = RandomTrees(1.0, bounds=([-1.5, -1.0], [2.5, 1.5]), noise_seed=0).fit(
    ...     X, y
    ... )
    >>> model.counts_.shape, bool(model.score(X, y) > 0.85), model.profile_.epsilon(0.0)
    ((8, 128, 2), True, 1.0)
    """

    epsilon: float
    delta: float = 0.0
    _: KW_ONLY
    bounds: tuple[ArrayLike, ArrayLike] = (-1.0, 1.0)
    n_trees: int | None = None
    depth: int | None = None
    adjacency: str = "zero-out"

    _published = ("features_", "thresholds_", "counts_", "logits_", "intercept_")

    def _learn(self, X: Any, y: Any) -> None:  # type: ignore[override]
        records, randomness = self._private_records(X, y), self._randomness()
        n, kept = records.n, records.kept
        plan = self._plan(n)
        generator = np.random.default_rng(randomness.learning)
        box = boxed(self.bounds, records.X)
        features, thresholds = _grown(
            plan.n_trees, plan.depth, box.low_, box.high_, generator
        )
        trees = (
            generator.permutation(n)[:, None] % plan.n_trees
            if plan.rate
            else np.arange(plan.n_trees)
        )
        # in which a place is counted
        trees = np.broadcast_to(trees, (n, 1 if plan.rate else plan.n_trees))
        exact = _counts(
            records.X[kept],
            records.codes[kept],
            trees[kept],
            features,
            thresholds,
            len(records.classes),
        )
        one = np.ones(exact.size)
        flat = noisy(
            exact.reshape(-1, 1),
            randomness.generator(0),
            rate=plan.rate,
            sigma=plan.sigma,
            scales=one,
        )
        self.profile_, self.classes_ = (
            self._implemented(plan.profile, exact=True),
            records.classes,
        )
        self.features_, self.thresholds_, self.counts_ = (
            features,
            thresholds,
            flat.reshape(exact.shape),
        )
        self.logits_, self.intercept_ = _logits(self.counts_, plan.deviation)

    def _plan(self, n: int) -> _Plan:
        """Numbers of trees and leaves, and the noise, for ``n`` records."""
        epsilon, delta = checked_epsilon_delta(self.epsilon, self.delta)
        # counts of a tree
        changed = 1 + (
            one_of("adjacency", self.adjacency, ADJACENCIES) == "replace-one"
        )
        n_trees = (
            TREES[delta > 0]
            if self.n_trees is None
            else at_least_one("n_trees", self.n_trees)
        )
        rate = sigma = None
        profile = pure(epsilon, adjacency=self.adjacency)
        if delta == 0:
            rate, deviation = epsilon / changed, math.sqrt(2) * changed / epsilon
            if changed == 1:
                profile = laplace(scale=1 / rate, adjacency=self.adjacency)
        else:
            sensitivity = math.sqrt(changed * n_trees)
            deviation = sigma = gaussian_sigma(epsilon, delta, sensitivity=sensitivity)
            profile = gaussian(
                sigma=sigma, sensitivity=sensitivity, adjacency=self.adjacency
            )
        places = n * n_trees if delta else n
        depth = self.depth
        if depth is None:
            noise = SIGNAL * deviation * math.sqrt(n_trees)  # of the sum over all trees
            depth = min(max(round(math.log2(max(places / noise, 1))), 1), DEEPEST)
        depth = at_least("depth", depth, 1, most=("the deepest", 20))
        about = {
            "status": "proved",
            "source": "Jagannathan et al. (2009)",
            "assumption": "bounds are public",
        }
        return _Plan(n_trees, depth, rate, sigma, deviation, profile.with_(**about))

    def decision_function(self, X: Any) -> Features:
        """Logits summed over the trees, shape [n, n_classes]; for two classes their
        difference, shape [n].
        """
        X, n_trees = self._queries(X), len(self.features_)
        logits = np.empty((len(X), len(self.classes_)))
        for rows in _blocks(len(X), n_trees):
            trees = np.broadcast_to(np.arange(n_trees), (len(X[rows]), n_trees))
            leaves = _leaves(X[rows], trees, self.features_, self.thresholds_)
            logits[rows] = self.intercept_ + self.logits_[trees, leaves].sum(axis=1)
        return decision_values(logits)


class _Plan(NamedTuple):
    """Public settings, made before the data are seen; either ``rate`` (Laplace) or
    ``sigma`` (Gaussian) is None.
    """

    n_trees: int
    depth: int
    rate: float | None
    sigma: float | None
    deviation: float  # of the noise of a count
    profile: PrivacyProfile


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


def _grown(
    n_trees: int, depth: int, low: Floats, high: Floats, generator: np.random.Generator
) -> tuple[Integers, Floats]:
    """Columns and thresholds of the nodes of all trees, level by level: uniform,
    within the box of each node.
    """
    features: list[Integers] = []
    thresholds: list[Floats] = []
    for level in range(depth):
        feature, place = (
            generator.integers(len(low), size=(n_trees, 2**level)),
            generator.random((n_trees, 2**level)),
        )
        start, end = low[feature], high[feature]
        # a split of the same column further up bounds the box
        for above in range(level):
            path = np.arange(2**level) >> (level - above - 1)
            split, same = (
                thresholds[above][:, path >> 1],
                features[above][:, path >> 1] == feature,
            )
            start, end = (
                np.where(same & (path % 2 == 1), split, start),
                np.where(same & (path % 2 == 0), split, end),
            )
        features.append(feature)
        thresholds.append((1 - place) * start + place * end)
    return np.concatenate(features, axis=1), np.concatenate(thresholds, axis=1)


def _leaves(
    X: Features, trees: Integers, features: Integers, thresholds: Floats
) -> Integers:
    """Leaf of each row [n, d] in each of its trees [n, k], shape [n, k]."""
    node = np.zeros_like(trees)
    rows, inner = np.arange(len(X))[:, None], features.shape[1]
    for _ in range((inner + 1).bit_length() - 1):
        node = 2 * node + 1 + (X[rows, features[trees, node]] > thresholds[trees, node])
    return np.asarray(node - inner)


def _counts(
    X: Features,
    codes: Integers,
    trees: Integers,
    features: Integers,
    thresholds: Floats,
    n_classes: int,
) -> Floats:
    """Numbers of rows of each class in each leaf; a row is counted only in its trees
    [n, k].
    """
    shape = (len(features), features.shape[1] + 1, n_classes)
    counts = np.zeros(math.prod(shape))
    for rows in _blocks(len(X), trees.shape[1]):
        leaves = _leaves(X[rows], trees[rows], features, thresholds)
        cells = (trees[rows] * shape[1] + leaves) * n_classes + codes[rows, None]
        counts += np.bincount(cells.ravel(), minlength=counts.size)
    return counts.reshape(shape)


def _logits(counts: Floats, deviation: float) -> tuple[Floats, Floats]:
    """Logits of the leaves [n_trees, leaves, n_classes], and of the classes
    [n_classes], from noisy counts.

    The logit of a leaf for a class is the logarithm of the fraction of the class's
    records that are in the leaf. The numerator and the denominator of the fraction are
    both smoothed.
    """
    trees, leaves, _ = counts.shape
    totals = (
        np.maximum(counts.sum(axis=(0, 1)), 0)
        + deviation * math.sqrt(trees * leaves) / 2
    )
    smoothing = SMOOTHING * deviation
    fractions = (np.maximum(counts, 0) + smoothing) / (
        totals / trees + leaves * smoothing
    )
    return np.log(fractions), np.log(totals / totals.sum())


def _blocks(n: int, k: int) -> Iterator[slice]:
    """Slices of n rows, each of a bounded number of pairs with k trees."""
    size = max(1, BLOCK // k)
    return (slice(start, start + size) for start in range(0, n, size))
