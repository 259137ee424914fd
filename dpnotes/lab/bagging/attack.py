"""Membership attacks on bagged networks: who was drawn, told from the confidence in each record."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpnotes.lab.bagging.networks import network, parts

Floats = NDArray[np.float64]

ATTACKS = ("loss", "likelihood-ratio")
LEAST_DEVIATION = 1e-3  # of the confidences of one record; a record on which all networks agree to the last digit


def membership(
    *,
    dataset: str,
    attack: str,
    false_positive_rate: float,
    mislabelled: bool,
    subsample: int,
    n_networks: int,
    flipped: float,
    others: int,
    seed: int,
    device: str,
    **how: Any,
) -> dict[str, Any]:
    """One row; see :func:`dpnotes.lab.bagging.experiments.membership`."""
    from dpnotes.learners import device_name

    if attack not in ATTACKS:
        raise ValueError(f"attack must be 'loss' or 'likelihood-ratio', got attack={attack!r}")
    if n_networks < 6 or n_networks % 2:
        raise ValueError(f"n_networks must be even and >= 6, half of them for reference, got n_networks={n_networks}")
    confidence, drawn, changed, digest, n = _networks(
        dataset, subsample, n_networks, flipped, others, seed, device, **how
    )
    half = n_networks // 2
    reference, known = confidence[:half], drawn[:half]
    score, calibration = confidence[half:], reference
    if attack == "likelihood-ratio":
        calibration = np.stack([_standardised(reference, ~known, index) for index in range(half)])
        mean, deviation = _moments(reference, ~known)
        score = (score - mean) / deviation
    threshold = np.quantile(calibration[~known], 1 - false_positive_rate)
    member, kind = drawn[half:], changed == mislabelled
    called = score > threshold
    rates = [called[i, kind & member[i]].mean() for i in range(half) if (kind & member[i]).any()]
    return {
        "hits": int((called & member)[:, kind].sum()),
        "members": int(member[:, kind].sum()),
        "alarms": int((called & ~member)[:, kind].sum()),
        "nonmembers": int((~member)[:, kind].sum()),
        "deviation": float(np.std(rates, ddof=1)) if len(rates) > 1 else None,
        "n": n,
        "data": digest,
        "device": device_name(device),
    }


@functools.lru_cache(maxsize=1)
def _networks(
    dataset: str,
    subsample: int,
    n_networks: int,
    flipped: float,
    others: int,
    seed: int,
    device: str,
    **how: Any,
) -> tuple[Floats, NDArray[np.bool_], NDArray[np.bool_], str, int]:
    """Bagged networks of one model each, and what they say of ``others`` and of the records that the second half drew.

    Gives the confidence ``log p - log(1 - p)`` in the label that a record has in training, and whether it was drawn,
    both [n_networks, records]; which of these records have a wrong label, [records]; digest and number of all records.
    """
    from scipy.special import logsumexp

    from dpnotes.mechanisms import draw_subsets

    arrays, X, y, _, _ = parts(dataset, "test")
    generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0,)))
    changed = np.zeros(len(X), dtype=np.bool_)
    changed[generator.choice(len(X), size=round(flipped * len(X)), replace=False)] = True
    labels = np.where(changed, (y + generator.integers(1, arrays.n_classes, size=len(y))) % arrays.n_classes, y)
    subsets = draw_subsets(len(X), subsample=subsample, n_models=n_networks, replace=True, seed=seed)
    further = generator.choice(len(X), size=min(others, len(X)), replace=False)
    rows = np.unique(np.concatenate([subsets[n_networks // 2 :].ravel(), further]))
    learner = network(arrays, device=device, **how)
    fitted = learner.fit_many(X, labels, subsets, n_classes=arrays.n_classes, seed=seed).networks
    confidence = np.empty((n_networks, len(rows)))
    for index in range(n_networks):
        logits = fitted[index].logits(learner.as_images(X[rows]), device=device)[0].astype(np.float64)
        own = np.arange(arrays.n_classes) == labels[rows, None]
        confidence[index] = logits[own] - logsumexp(np.where(own, -np.inf, logits), axis=1)
    drawn = np.stack([np.isin(rows, subset) for subset in subsets])
    return confidence, drawn, changed[rows], arrays.digest, len(X)


def _moments(confidence: Floats, undrawn: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Mean and standard deviation of each record's confidence over the networks that did not draw it, [records]."""
    count = undrawn.sum(axis=0)
    mean = (confidence * undrawn).sum(axis=0) / np.maximum(count, 1)
    square = ((confidence - mean) ** 2 * undrawn).sum(axis=0) / np.maximum(count - 1, 1)
    return mean, np.maximum(np.sqrt(square), LEAST_DEVIATION)


def _standardised(confidence: Floats, undrawn: NDArray[np.bool_], index: int) -> Floats:
    """Confidence of one network against those of the others that did not draw the record, [records]."""
    rest = np.arange(len(confidence)) != index
    mean, deviation = _moments(confidence[rest], undrawn[rest])
    return np.asarray((confidence[index] - mean) / deviation)
