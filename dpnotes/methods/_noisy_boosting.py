"""Boosted trees grown without data, whose leaves sum clipped gradients with noise, batch after batch."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import softmax

from dpnotes._validation import Features, Floats, at_least, at_least_one, one_of, positive, real
from dpnotes.accounting import gaussian, gaussian_sigma
from dpnotes.learners import LogitClassifier, decision_values
from dpnotes.methods._classifier import PrivateClassifier
from dpnotes.methods._linear import noisy
from dpnotes.methods._random_trees import ADJACENCIES, _blocks, _grown, _leaves
from dpnotes.preprocessing import PublicScaler

DIGITS = 26  # binary ones of a gradient, so that sums of 2^27 of them are exact
CURVATURE = 0.25  # largest hessian that is counted
LEAST = 2.0  # of a leaf's hessian, in standard deviations of its noise


@dataclass(eq=False, repr=False)
class NoisyBoosting(PrivateClassifier, LogitClassifier):
    """Gradient boosting of trees whose splits are drawn at random, with noisy Newton steps in the leaves.

    Parameters
    ----------
    epsilon : float, > 0
    delta : float, in (0, 0.999]
    low, high : float, or array_like of float, shape [d]
        Public bounds of the columns, between which thresholds are drawn, as those of :class:`RandomTrees`.
    n_trees, depth, learning_rate : optional
    adjacency : {"zero-out", "replace-one"}
    classes, random_state, noise_seed
        See :class:`PrivateClassifier`; ``random_state`` draws the splits.
    """

    epsilon: float
    delta: float
    _: KW_ONLY
    low: float | ArrayLike = -1.0
    high: float | ArrayLike = 1.0
    n_trees: int | None = None
    depth: int | None = None
    learning_rate: float | None = None
    adjacency: str = "zero-out"

    _published = ("features_", "thresholds_", "logits_", "intercept_")

    def _learn(self, X: Any, y: Any) -> None:  # type: ignore[override]
        records, randomness = self._private_records(X, y), self._randomness()
        n, k = records.n, len(records.classes)
        n_trees = 64 if self.n_trees is None else at_least_one("n_trees", self.n_trees)
        depth = 4 if self.depth is None else at_least("depth", self.depth, 1, most=("the deepest", 20))
        rate = 1.0 if self.learning_rate is None else positive("learning_rate", self.learning_rate)
        delta = real("delta", self.delta, low=0.0, high=1.0, open_low=True)
        twice = one_of("adjacency", self.adjacency, ADJACENCIES) == "replace-one"
        clip = math.sqrt(0.5)
        sensitivity = math.sqrt(n_trees * ((4 if twice else 1) * clip**2 + CURVATURE**2))
        sigma = gaussian_sigma(positive("epsilon", self.epsilon), delta, sensitivity=sensitivity)
        profile = gaussian(sigma=sigma, sensitivity=sensitivity, adjacency=self.adjacency)
        generator, noise = np.random.default_rng(randomness.learning), randomness.generator(0)
        box = PublicScaler(self.low, self.high).fit(records.X)
        features, thresholds = _grown(n_trees, depth, box.low_, box.high_, generator)
        onehot = (records.codes[:, None] == np.arange(k)).astype(np.float64)
        logits = np.zeros((n, k))
        values = np.zeros((n_trees, 2**depth, k))
        batch = 8
        trees = np.broadcast_to(np.arange(n_trees), (n, n_trees))
        leaves = np.concatenate(
            [_leaves(records.X[rows], trees[rows], features, thresholds) for rows in _blocks(n, n_trees)]
        )
        for start in range(0, n_trees, batch):
            p = softmax(logits, axis=1)
            gradient = onehot - p
            gradient *= np.minimum(1, clip / np.maximum(np.linalg.norm(gradient, axis=1), 1e-300))[:, None]
            hessian = np.minimum((1 - np.square(p).sum(axis=1)) / 2, CURVATURE)
            rows = np.ldexp(np.trunc(np.ldexp(np.column_stack([gradient, hessian]), DIGITS)), -DIGITS)
            rows *= records.kept[:, None]
            stop = min(start + batch, n_trees)
            sums: Floats = np.stack(
                [
                    [np.bincount(leaves[:, t], weights=column, minlength=2**depth) for column in rows.T]
                    for t in range(start, stop)
                ]
            ).swapaxes(1, 2)
            shape = sums.shape
            out = noisy(sums.reshape(-1, 1), noise, rate=None, sigma=sigma, scales=np.ones(sums.size)).reshape(shape)
            g, h = out[..., :k], np.maximum(out[..., k:], 0) * 4 / k
            step = g / (h * 1.0 + LEAST * sigma) * rate / (stop - start) * 2
            values[start:stop] = step - step.mean(axis=2, keepdims=True)
            for t in range(start, stop):
                logits += values[t][leaves[:, t]]
        about = {"status": "proved", "source": "Maddock et al. (2022)", "assumption": "low and high are public"}
        self.profile_, self.classes_ = self._implemented(profile.with_(**about), exact=True), records.classes
        self.features_, self.thresholds_, self.logits_, self.intercept_ = features, thresholds, values, np.zeros(k)

    def decision_function(self, X: Any) -> Features:
        """Sums over the trees of the logits in the query's leaves, [n, n_classes]; for two classes differences, [n]."""
        X, n_trees = self._queries(X), len(self.features_)
        logits: Floats = np.empty((len(X), len(self.classes_)))
        for rows in _blocks(len(X), n_trees):
            trees = np.broadcast_to(np.arange(n_trees), (len(X[rows]), n_trees))
            leaves = _leaves(X[rows], trees, self.features_, self.thresholds_)
            logits[rows] = self.intercept_ + self.logits_[trees, leaves].sum(axis=1)
        return decision_values(logits)
