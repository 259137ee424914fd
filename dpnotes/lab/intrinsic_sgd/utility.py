"""Accuracy of logistic regressions once noise is added to their last weights: a draw for each model, or one for all."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from scipy import stats

from dpnotes.accounting.papers import augmenting_sigma
from dpnotes.lab.intrinsic_sgd.runs import Floats, Setting, accuracies, ends, sensitivities, spread, trained

NOISES = ("none", "published", "observed", "proved")
DRAWS = 2  # of the added noise for each model
SHARED_SEED = 0  # of NumPy's old generator: the authors' code sets it before each draw


def utility(
    setting: Setting, *, noise: str, analysis: str | None, counted: bool, epsilon: float | None, device: str
) -> dict[str, Any]:
    """See :func:`dpnotes.lab.intrinsic_sgd.experiments.utility`."""
    if noise not in NOISES:
        raise ValueError(f"noise must be one of {', '.join(map(repr, NOISES))}, got noise={noise!r}")
    sigmas = (0.0, 0.0)  # not counted, counted
    if noise != "none":
        found = _scales(setting, device)
        limits = {"published": setting.bound("published"), "proved": setting.bound("tight")}
        sensitivity = found["observed"] if noise == "observed" else limits[noise]
        if sensitivity is None or epsilon is None or analysis is None:
            raise ValueError(
                f"noise={noise!r} needs epsilon, analysis and a bound on the sensitivity, got epsilon={epsilon}, "
                f"analysis={analysis!r}, bound {sensitivity}"
            )
        sigmas = _sigmas(setting, epsilon, sensitivity=sensitivity, intrinsic_sigma=found["sigma"], analysis=analysis)
    plain, scores = (_noisy_accuracies(setting, sigma, device) for sigma in (sigmas[0], sigmas[counted]))
    gain = stats.ttest_rel(scores, plain) if counted and sigmas[0] != sigmas[1] else None
    return {
        "accuracy": float(scores.mean()),
        "accuracy_spread": float(scores.std(ddof=1)),
        "noise_sigma": sigmas[counted],
        "gain": float((scores - plain).mean()) if counted else None,
        "gain_t": float(gain.statistic) if gain is not None else None,
        "n_models": scores.size,
    }


def draws(
    setting: Setting, *, sensitivity: float, intrinsic_sigma: float, epsilon: float, draw: str, device: str
) -> dict[str, Any]:
    """See :func:`dpnotes.lab.intrinsic_sgd.experiments.draws`."""
    if draw not in ("shared", "own"):
        raise ValueError(f"draw must be 'shared' or 'own', got draw={draw!r}")
    weights = ends(setting, device)
    full, rest = _sigmas(
        setting, epsilon, sensitivity=sensitivity, intrinsic_sigma=intrinsic_sigma, analysis="published"
    )
    shared = np.random.RandomState(SHARED_SEED).standard_normal((1, 1, weights.shape[1]))
    noise = shared if draw == "shared" else _own_draws(setting, weights)
    quiet, plain, scores = (accuracies(setting, weights[:, None] + sigma * noise) for sigma in (0.0, full, rest))
    gain, gap = float((scores - plain).mean()), float(quiet.mean() - plain.mean())
    return {
        "noiseless": float(quiet.mean()),
        "noiseless_spread": float(quiet.std(ddof=1)),
        "accuracy": float(plain.mean()),
        "accuracy_spread": float(plain.std(ddof=1)),
        "noise_sigma": full,
        "gain": gain,
        "gap_closed": gain / gap if gap > 0 else None,
    }


def _sigmas(
    setting: Setting, epsilon: float, *, sensitivity: float, intrinsic_sigma: float, analysis: str
) -> tuple[float, float]:
    """Noise at delta = 1/n in full, and less what SGD has of its own."""
    how: dict[str, Any] = {"sensitivity": sensitivity, "analysis": analysis}
    full, rest = (
        augmenting_sigma(epsilon, 1 / len(setting.records.X), intrinsic_sigma=own, **how)
        for own in (0.0, intrinsic_sigma)
    )
    return full, rest


def _own_draws(setting: Setting, weights: Floats) -> Floats:
    """Standard normal draws for each model, [n_seeds, DRAWS, p]."""
    return np.random.default_rng(setting.seed).standard_normal((len(weights), DRAWS, weights.shape[1]))


@functools.lru_cache(maxsize=2)
def _scales(setting: Setting, device: str) -> dict[str, float]:
    weights = trained(setting, device).all_weights
    return {"sigma": spread(weights)["sigma"], "observed": sensitivities(weights)["observed"]}


@functools.lru_cache(maxsize=4)
def _noisy_accuracies(setting: Setting, sigma: float, device: str) -> Any:
    """Accuracy of every seed's weights with every draw of noise, [n_seeds * DRAWS]."""
    weights = trained(setting, device).weights
    return accuracies(setting, weights[:, None] + sigma * _own_draws(setting, weights)).ravel()
