"""Membership tests on the last weights of SGD, against the epsilon that its randomness is said to give."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from dpnotes.accounting import audit_delta, audit_epsilon, audit_mu, clopper_pearson
from dpnotes.lab.intrinsic_sgd.runs import Setting, one_thread
from dpnotes.learners import fit_sgd

Floats = NDArray[np.floating]
RECORDS = ("typical", "quiet direction", "own feature")
CONFIDENCE = 0.95
RIDGE = 1e-9  # of the mean variance, for directions in which fitted runs hardly differ
SCOUTS = 4  # runs for each weight, which show in which direction the noise is small
HELD_OUT = 4  # one in so many fitted runs sets the threshold, the others the direction


class Pair(NamedTuple):
    """A data set, the place in it that the record takes, the record and its label, the feature that only it has."""

    X: NDArray[np.floating]
    y: NDArray[np.int64]
    place: int
    record: NDArray[np.floating]
    label: int
    feature: int | None


def audit(
    setting: Setting, *, record: str, fit_runs: int, test_runs: int, device: str
) -> dict[str, float | int | str | None]:
    """Train with and without a record, fit a test to some runs and count its errors on others.

    Both data sets are trained under each seed: what the record does is then seen at the first digit, whatever the seed
    does. The bounds need the runs of either data set to be independent of each other, not the two sets.

    The test is the likelihood ratio of two Gaussians with one full covariance, fitted to three in four of ``fit_runs``;
    its threshold is fixed on the rest. For a feature of its own the test is whether that weight lies outside the range
    of the initial weights, where it cannot be without the record: no false positive is possible, so that the share of
    true positives is a delta at every epsilon, and none is enough where it is above 1/n.
    """
    if setting.hidden is not None:
        raise ValueError(f"the audit is for logistic regression, got hidden={setting.hidden}")
    if record not in RECORDS:
        raise ValueError(f"record must be one of {', '.join(map(repr, RECORDS))}, got record={record!r}")
    pair = _pair(setting, record, device)
    fit_seed, test_seed = np.random.SeedSequence(setting.seed).generate_state(2).tolist()
    how: dict[str, Any] = {"setting": setting, "device": device}
    found: dict[str, float | int | str | None] = {"mu_fitted": None, "shift": None}
    if pair.feature is None:
        ends = _ends(pair, runs=fit_runs, seed=fit_seed, **how)
        direction, threshold, mu = _likelihood_ratio(ends, test_runs=test_runs)
        found = {"mu_fitted": mu, "shift": float(np.linalg.norm((ends[:, 1] - ends[:, 0]).mean(axis=0)))}
        says_member = _ends(pair, runs=test_runs, seed=test_seed, **how) @ direction > threshold  # [test_runs, 2]
    else:
        low, high = _initial_range(setting, pair)
        own = _ends(pair, runs=test_runs, seed=test_seed, **how)[..., pair.feature]
        says_member = (own < low) | (own > high)
    false, true = says_member.sum(axis=0).tolist()
    counts: dict[str, Any] = {
        "true_positives": true,
        "positives": test_runs,
        "false_positives": false,
        "negatives": test_runs,
    }
    certain = pair.feature is not None and false == 0
    return {**found, **counts, **_proved(counts, delta=1 / len(setting.records.X), certain=certain)}


def _proved(counts: dict[str, Any], *, delta: float, certain: bool) -> dict[str, float]:
    """What the counts prove with confidence; ``certain``: false positives are impossible, and not only not seen."""
    if certain:
        tail = 2 * CONFIDENCE - 1  # all that may fail is spent on one side of one rate
        share = clopper_pearson(counts["true_positives"], counts["positives"], confidence=tail).low
        if share > delta:
            return {"epsilon_low": math.inf, "mu_low": math.inf, "delta_low": share}
    return {
        "epsilon_low": audit_epsilon(**counts, delta=delta, confidence=CONFIDENCE),
        "mu_low": audit_mu(**counts, confidence=CONFIDENCE),
        "delta_low": float(audit_delta(**counts, epsilon=0.0, confidence=CONFIDENCE)),
    }


def _pair(setting: Setting, record: str, device: str) -> Pair:
    """Record 0 is left out of both data sets, and takes the place of the exchanged record in the one without it."""
    X, y = setting.records.X, setting.records.y
    absent, labels = X[1:].copy(), y[1:].copy()
    place, own, feature = 0, (X[1], int(y[1])), None
    if record == "quiet direction":
        own = _quiet(setting, device)
    if record == "own feature":
        feature = int((absent != 0).sum(axis=0).argmin())
        holders = np.flatnonzero(absent[:, feature])
        if len(holders) > len(absent) // 100:
            raise ValueError(f"dataset must have a rare feature, got dataset={setting.dataset!r}, where none is rare")
        absent[holders], labels[holders] = X[0], y[0]  # nobody else has it
        absent[:, feature] = 0.0
        place = int(holders[0]) if len(holders) else 0
        own = (np.eye(X.shape[1])[feature], int(y.mean() < 0.5))  # the rarer class pulls harder
    absent[place], labels[place] = np.where(np.arange(X.shape[1]) == feature, 0.0, X[0]), y[0]
    return Pair(absent, labels, place, *own, feature)


def _quiet(setting: Setting, device: str) -> tuple[Floats, int]:
    """Record along the direction in which runs differ least, as long as any, with the label that runs find unlikely."""
    X, y = setting.records.X, setting.records.y
    seed = int(np.random.SeedSequence(setting.seed, spawn_key=(1,)).generate_state(1)[0])
    scout = Pair(X[1:].copy(), y[1:], 0, X[0], int(y[0]), None)
    ends = _ends(scout, setting=setting, runs=SCOUTS * (X.shape[1] + 1), seed=seed, device=device)[:, 0]
    variances, directions = np.linalg.eigh(np.cov(ends.T))
    moving = int(np.argmax(variances > RIDGE * variances.mean()))  # where nothing moves, no record has the feature
    features = directions[:-1, moving] / np.linalg.norm(directions[:-1, moving])
    features *= setting.records.longest
    return features, int(np.append(features, 1.0) @ ends.mean(axis=0) < 0)


@one_thread()
def _ends(pair: Pair, *, setting: Setting, runs: int, seed: int, device: str) -> Floats:
    """Last weights without and with the record, [runs, 2, p]."""
    trained = fit_sgd(
        pair.X,
        pair.y,
        neighbours=[pair.place],
        replacement=(pair.record, pair.label),
        n_runs=runs,
        random_state=seed,
        init_seeds=0 if setting.initial == "fixed" else None,
        batch_size=setting.batch_size,
        learning_rate=setting.rates(),
        steps=setting.steps,
        last_batch="drop",
        device=device,
    )
    return trained.all_weights


def _initial_range(setting: Setting, pair: Pair) -> tuple[float, float]:
    """Least and largest value that the initial weight of the feature can have."""
    assert pair.feature is not None  # asked for a feature of its own only
    limit = math.sqrt(6 / (pair.X.shape[1] + 1))
    if setting.initial == "varied":
        return -limit, limit
    start = fit_sgd(
        pair.X, pair.y, n_runs=1, init_seeds=0, steps=1, batch_size=1, learning_rate=1.0, checkpoints=[0],
        dtype=np.float64, device="cpu",
    )  # fmt: skip
    own = float(start.trajectory[0, 0, pair.feature])
    return own, own


def _likelihood_ratio(ends: Floats, *, test_runs: int) -> tuple[Floats, float, float]:
    """Direction and threshold of the test, from ends [runs, 2, p], and the distance in standard deviations along it.

    The threshold is where the most epsilon is to be expected of so many test runs; where none is, in the middle.
    """
    held_out, fitted = ends[: len(ends) // HELD_OUT], ends[len(ends) // HELD_OUT :]
    shift = (fitted[:, 1] - fitted[:, 0]).mean(axis=0)
    pooled = (np.cov(fitted[:, 0].T) + np.cov(fitted[:, 1].T)) / 2
    pooled += RIDGE * np.trace(pooled) / len(shift) * np.eye(len(shift))
    direction = np.linalg.solve(pooled, shift)
    along = held_out @ direction  # [held out, 2]
    scale = math.sqrt(along.var(axis=0, ddof=1).mean())
    mu = max(0.0, float((along[:, 1] - along[:, 0]).mean()) / scale)
    levels = np.linspace(-3, mu + 3, 181)  # in standard deviations from the mean without the record
    expected = [
        audit_epsilon(
            true_positives=round(test_runs * stats.norm.sf(level - mu)),
            positives=test_runs,
            false_positives=round(test_runs * stats.norm.sf(level)),
            negatives=test_runs,
            delta=0.0,
            confidence=CONFIDENCE,
        )
        for level in levels
    ]
    level = float(levels[int(np.argmax(expected))]) if max(expected) > 0 else mu / 2
    return direction, float(along[:, 0].mean()) + scale * level, mu
