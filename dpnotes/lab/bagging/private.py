"""A private base learner on a subsample, and noise that makes DP-SGD expose as much as bagging does."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.stats import norm

from dpnotes import accounting

FALSE_ALARMS = 0.001  # the false-positive rate at which records count as found
STEP = 0.1  # of log sigma
WAYS = ("bare", "bagged", "direct")
DIGITS_NORM = 8.0  # of grey levels / 16 on 8 x 8 pixels: a bound that sees no data


def found(profile: accounting.PrivacyProfile) -> float:
    """Largest true-positive rate of a membership test with 0.1% false positives."""
    return 1 - float(profile.tradeoff(FALSE_ALARMS))


@functools.lru_cache(maxsize=32)  # seeds of a row have their noise in common
def noise_for_found(share: float, *, sample_rate: float, steps: int) -> float:
    """Noise multiplier of DP-SGD at which the best test with 0.1% false positives finds that share of the members.

    Up to a relative 1e-3 on the private side.
    """
    if not FALSE_ALARMS < share < 1:
        raise ValueError(f"found must be in ({FALSE_ALARMS}, 1), got found={share}; chance alone finds {FALSE_ALARMS}")

    @functools.cache
    def excess(log_sigma: float) -> float:
        sigma = math.exp(log_sigma)
        return found(accounting.dp_sgd(noise_multiplier=sigma, sample_rate=sample_rate, steps=steps)) - share

    limit = math.log(limiting_noise(mu_for_found(share), sample_rate=sample_rate, steps=steps))
    low = high = limit
    while excess(high) > 0:
        high += STEP
    while excess(low) < 0:  # no further down than needed: the losses of very small noise are too far apart for the grid
        low -= STEP
    root = brentq(excess, low, high, xtol=5e-4) if low < high else limit
    return math.exp(root + 5e-4)


def mu_for_found(share: float) -> float:
    """Mu of the Gaussian mechanism against which the best test with 0.1% false positives finds that share."""
    return float(norm.ppf(share) - norm.ppf(FALSE_ALARMS))


def limiting_noise(mu: float, *, sample_rate: float, steps: int) -> float:
    """Noise multiplier at which the central limit of DP-SGD's steps is the Gaussian mechanism of that mu.

    From mu = q sqrt(T (exp(1 / sigma^2) - 1)), Bu, Dong, Long and Su (2020): near to the least noise, not a guarantee.
    """
    return 1 / math.sqrt(math.log1p((mu / sample_rate) ** 2 / steps))


def private_base(
    *,
    dataset: str,
    part: str,
    way: str,
    subsample: int,
    epsilon: float,
    delta: float,
    l2: float,
    seed: int,
    device: str,
) -> dict[str, Any]:
    """One row; see :func:`dpnotes.lab.bagging.experiments.private_base`."""
    from sklearn.linear_model import LogisticRegression

    from dpnotes.learners import device_name
    from dpnotes.mechanisms import draw_subsets
    from dpnotes.methods import ModelSensitivity

    if way not in WAYS:
        raise ValueError(f"way must be 'bare', 'bagged' or 'direct', got way={way!r}")
    arrays, X, y, X_score, y_score = _rows_in_the_unit_ball(dataset, part)
    n, rate = len(X), subsample / len(X)
    drawn = draw_subsets(n, subsample=subsample, n_models=1, replace=False, seed=seed)[0]
    how: dict[str, Any] = {"l2": l2, "classes": range(arrays.n_classes), "device": device, "random_state": seed}
    model: Any
    if way == "bare":
        model = LogisticRegression(C=1 / (l2 * subsample), tol=1e-6, max_iter=2000).fit(X[drawn], y[drawn])
        profile = accounting.bagging(n=n, subsample=subsample, replace=False, adjacency="replace-one")
    elif way == "bagged":
        model = ModelSensitivity(epsilon, delta, **how).fit(X[drawn], y[drawn])
        profile = accounting.subsampled(model.profile_, n=n, subsample=subsample)
    else:
        model = ModelSensitivity(math.log1p(rate * math.expm1(epsilon)), rate * delta, **how).fit(X, y)
        profile = model.profile_
    return {
        "accuracy": float(np.mean(model.predict(X_score) == y_score)),
        "n": n,
        "advantage": profile.advantage,
        "found": found(profile),
        "level": profile.epsilon(rate * delta) if way != "bare" else None,
        "adjacency": profile.adjacency,
        "status": profile.status,
        "data": arrays.digest,
        "device": device_name(device),
    }


def _rows_in_the_unit_ball(dataset: str, part: str) -> tuple[Any, Any, Any, Any, Any]:
    from dpnotes import data

    if part not in ("test", "validation"):
        raise ValueError(f"part must be 'test' or 'validation', got part={part!r}")
    if dataset == "digits":
        arrays = data.load("digits")
        return arrays, arrays.X_train / DIGITS_NORM, arrays.y_train, arrays.X_test / DIGITS_NORM, arrays.y_test
    arrays = data.load(dataset, split="intrinsic_sgd")
    if part == "validation":
        return arrays, arrays.X_train, arrays.y_train, arrays.X_validation, arrays.y_validation
    return arrays, arrays.X_train, arrays.y_train, arrays.X_test, arrays.y_test
