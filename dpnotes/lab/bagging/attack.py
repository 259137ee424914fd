"""What membership attacks on bagged networks are given: the confidence of each network in each record."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpnotes.lab.bagging.networks import load, network

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

LEAST_STD = 1e-3  # of the confidences of one record; a record on which all networks agree to the last digit


@dataclass(frozen=True)
class Confidences:
    """Bagged networks of one model each, and their confidence in some of the records.

    Parameters
    ----------
    confidence : ndarray of float, shape [n_networks, records]
        ``log p - log(1 - p)`` for the label that a record has in training.
    drawn : ndarray of bool, shape [n_networks, records]
    mislabelled : ndarray of bool, shape [records]
        Which of these records have a wrong label in training.
    n : int
        Number of all records.
    digest : str
        Of the data set.
    """

    confidence: Floats
    drawn: Flags
    mislabelled: Flags
    n: int
    digest: str


@functools.lru_cache(maxsize=1)
def confidences(
    dataset: str, subsample: int, n_networks: int, flipped: float, others: int, seed: int, **training: Any
) -> Confidences:
    """Train the networks; the records are ``others`` random ones and all that the second half of the networks drew."""
    from scipy.special import logsumexp

    from dpnotes.mechanisms import draw_subsets

    arrays, X, y, _, _ = load(dataset, "test")
    generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0,)))
    changed = np.zeros(len(X), dtype=np.bool_)
    changed[generator.choice(len(X), size=round(flipped * len(X)), replace=False)] = True
    labels = np.where(changed, (y + generator.integers(1, arrays.n_classes, size=len(y))) % arrays.n_classes, y)
    subsets = draw_subsets(len(X), subsample=subsample, n_models=n_networks, replace=True, seed=seed)
    further = generator.choice(len(X), size=min(others, len(X)), replace=False)
    rows = np.unique(np.concatenate([subsets[n_networks // 2 :].ravel(), further]))
    learner = network(arrays, **training)
    fitted = learner.fit_many(X, labels, subsets, n_classes=arrays.n_classes, seed=seed).networks
    own = np.arange(arrays.n_classes) == labels[rows, None]
    confidence = np.empty((n_networks, len(rows)))
    for index in range(n_networks):
        logits = fitted[index].logits(learner.as_images(X[rows]), device=training["device"])[0].astype(np.float64)
        confidence[index] = logits[own] - logsumexp(np.where(own, -np.inf, logits), axis=1)
    drawn = np.stack([np.isin(rows, subset) for subset in subsets])
    return Confidences(confidence, drawn, changed[rows], len(X), arrays.digest)


def moments(confidence: Floats, undrawn: Flags) -> tuple[Floats, Floats]:
    """Mean and standard deviation of each record's confidence over the networks that did not draw it, [records]."""
    count = undrawn.sum(axis=0)
    mean = (confidence * undrawn).sum(axis=0) / np.maximum(count, 1)
    square = ((confidence - mean) ** 2 * undrawn).sum(axis=0) / np.maximum(count - 1, 1)
    return mean, np.maximum(np.sqrt(square), LEAST_STD)


def standardised(confidence: Floats, undrawn: Flags, index: int) -> Floats:
    """Confidence of one network, standardised by the others that did not draw the record, [records]."""
    rest = np.arange(len(confidence)) != index
    mean, std = moments(confidence[rest], undrawn[rest])
    return np.asarray((confidence[index] - mean) / std)
