"""Membership tests on the last weights of SGD, against the epsilon that its randomness is said to give."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from dpnotes.accounting import audit_delta, audit_epsilon, audit_mu
from dpnotes.experiments._intrinsic_sgd_runs import Setting, one_thread
from dpnotes.learners import fit_sgd

Floats = NDArray[np.floating]
RECORDS = ("typical", "quiet direction", "own feature")
CONFIDENCE = 0.95
RIDGE = 1e-9  # of the mean variance, for directions in which fitted runs hardly differ
SCOUTS = 100  # runs that show in which direction the noise is small


class Pair(NamedTuple):
    """Two data sets that differ in one record, and the feature that nobody else has, if any."""

    absent: tuple[NDArray[np.floating], NDArray[np.int64]]
    present: tuple[NDArray[np.floating], NDArray[np.int64]]
    feature: int | None


def audit(
    setting: Setting, *, record: str, fit_runs: int, test_runs: int, device: str
) -> dict[str, float | int | str | None]:
    """Train with and without a record, fit a test to some runs and count its errors on others.

    The test is the likelihood ratio of two Gaussians with one full covariance, fitted to ``fit_runs`` of either data
    set; its threshold is fixed by the fit. For a feature of its own the test is whether that weight lies outside the
    range of the initial weights, where it cannot be without the record.
    """
    if setting.hidden is not None:
        raise ValueError(f"the audit is for logistic regression, got hidden={setting.hidden}")
    if record not in RECORDS:
        raise ValueError(f"record must be one of {', '.join(map(repr, RECORDS))}, got record={record!r}")
    exchange = _pair(setting, record, device)
    seeds = np.random.SeedSequence(setting.seed).generate_state(4).tolist()  # no run is shared by fit, test and sides
    how: dict[str, Any] = {"setting": setting, "device": device}
    found: dict[str, float | int | str | None] = {"mu_fitted": None, "shift": None}
    if exchange.feature is None:
        fits = [
            _ends(data, runs=fit_runs, seed=seed, **how)
            for data, seed in zip((exchange.absent, exchange.present), seeds[:2], strict=True)
        ]
        direction, threshold, mu = _likelihood_ratio(*fits, test_runs=test_runs)
        found = {"mu_fitted": mu, "shift": float(np.linalg.norm(fits[1].mean(axis=0) - fits[0].mean(axis=0)))}

        def says_member(ends: Floats) -> Any:
            return ends @ direction > threshold
    else:
        low, high = _initial_range(setting, exchange)

        def says_member(ends: Floats) -> Any:
            own = ends[:, exchange.feature]
            return (own < low) | (own > high)

    false, true = (
        int(says_member(_ends(data, runs=test_runs, seed=seed, **how)).sum())
        for data, seed in zip((exchange.absent, exchange.present), seeds[2:], strict=True)
    )
    counts: dict[str, Any] = {
        "true_positives": true,
        "positives": test_runs,
        "false_positives": false,
        "negatives": test_runs,
    }
    delta = 1 / len(setting.records.X)
    return {
        **found,
        **counts,
        "epsilon_low": audit_epsilon(**counts, delta=delta, confidence=CONFIDENCE),
        "mu_low": audit_mu(**counts, confidence=CONFIDENCE),
        "delta_low": float(audit_delta(**counts, epsilon=0.0, confidence=CONFIDENCE)),
    }


def _pair(setting: Setting, record: str, device: str) -> Pair:
    """Record 0 is left out of both data sets, and takes the place of the exchanged record in the one without it."""
    X, y = setting.records.X.astype(np.float64), setting.records.y
    absent, labels = X[1:].copy(), y[1:].copy()
    place, own, feature = 0, (X[1], y[1]), None
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
    present, codes = absent.copy(), labels.copy()
    present[place], codes[place] = own
    return Pair((absent, labels), (present, codes), feature)


def _quiet(setting: Setting, device: str) -> tuple[Floats, int]:
    """Record of norm 1 along the direction in which runs differ least, with the label that they think unlikely."""
    X, y = setting.records.X, setting.records.y
    seed = int(np.random.SeedSequence(setting.seed, spawn_key=(1,)).generate_state(1)[0])
    ends = _ends((X[1:], y[1:]), setting=setting, runs=SCOUTS, seed=seed, device=device)
    variances, directions = np.linalg.eigh(np.cov(ends.T))
    moving = int(np.argmax(variances > RIDGE * variances.mean()))  # where nothing moves, no record has the feature
    features = directions[:-1, moving] / np.linalg.norm(directions[:-1, moving])
    return features, int(np.append(features, 1.0) @ ends.mean(axis=0) < 0)


@one_thread()
def _ends(
    data: tuple[NDArray[np.floating], NDArray[np.int64]], *, setting: Setting, runs: int, seed: int, device: str
) -> Floats:
    """Last weights [runs, p]."""
    trained = fit_sgd(
        *data,
        n_runs=runs,
        random_state=seed,
        init_seeds=0 if setting.initial == "fixed" else None,
        batch_size=setting.batch_size,
        learning_rate=setting.rates(),
        steps=setting.steps,
        last_batch="drop",
        dtype=np.float64,
        device=device,
    )
    return np.asarray(trained.weights, dtype=np.float64)


def _initial_range(setting: Setting, exchange: Pair) -> tuple[float, float]:
    """Least and largest value that the initial weight of the feature can have."""
    assert exchange.feature is not None  # asked for a feature of its own only
    d = exchange.absent[0].shape[1]
    limit = math.sqrt(6 / (d + 1))
    if setting.initial == "varied":
        return -limit, limit
    start = fit_sgd(
        *exchange.absent, n_runs=1, init_seeds=0, steps=1, batch_size=1, learning_rate=1.0, checkpoints=[0],
        dtype=np.float64, device="cpu",
    )  # fmt: skip
    own = float(start.trajectory[0, 0, exchange.feature])
    return own, own


def _likelihood_ratio(absent: Floats, present: Floats, *, test_runs: int) -> tuple[Floats, float, float]:
    """Direction and threshold of the test, and the distance of the fitted means in standard deviations, debiased."""
    shift = present.mean(axis=0) - absent.mean(axis=0)
    pooled = (np.cov(absent.T) + np.cov(present.T)) / 2
    p, degrees = len(shift), len(absent) + len(present) - 2
    pooled += RIDGE * np.trace(pooled) / p * np.eye(p)
    direction = np.linalg.solve(pooled, shift)
    plain = float(shift @ direction)  # its mean is that of mu^2, times degrees / (degrees - p - 1), plus the noise's
    debiased = plain * (degrees - p - 1) / degrees - p * (1 / len(absent) + 1 / len(present))
    mu = math.sqrt(max(0.0, debiased))
    centre, scale = float(absent.mean(axis=0) @ direction), math.sqrt(plain)
    levels = np.linspace(-3, 4, 141)  # in standard deviations from the mean without the record
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
    return direction, centre + scale * float(levels[int(np.argmax(expected))]), mu
