"""Experiments of the chapter on intrinsic privacy: SGD from many seeds on neighbouring data (Hyland and Tople 2019)."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from scipy import stats

from dpnotes.accounting import augmenting_sigma
from dpnotes.experiments import _intrinsic_sgd_grids as grids
from dpnotes.experiments._intrinsic_sgd_audit import audit as run_audit
from dpnotes.experiments._intrinsic_sgd_data import records
from dpnotes.experiments._intrinsic_sgd_figures import batch_sizes, p_values, pairwise_epsilons, paths
from dpnotes.experiments._intrinsic_sgd_figures import distances as distances_figure
from dpnotes.experiments._intrinsic_sgd_figures import utility as utility_figure
from dpnotes.experiments._intrinsic_sgd_grids import audits as audit_grid
from dpnotes.experiments._intrinsic_sgd_grids import hyperparameters as hyperparameter_grid
from dpnotes.experiments._intrinsic_sgd_grids import last_iterates, quantities, settings, trajectories, utilities
from dpnotes.experiments._intrinsic_sgd_runs import (
    Setting,
    accuracies,
    normality,
    one_thread,
    percentiles,
    sample,
    sensitivities,
    spread,
    trained,
)
from dpnotes.experiments._intrinsic_sgd_tables import (
    audits,
    calibrations,
    exact_saving,
    hyperparameters,
    noise_sources,
    readings,
    shown,
    sizes,
    table3,
    table4,
    unit_epsilons,
    with_epsilons,
)
from dpnotes.experiments._registry import Experiment, Grid
from dpnotes.learners import fit_sgd

NOISES = ("none", "published", "observed", "proved")
DRAWS = 2  # of the added noise for each model


def summary(*, device: str = "auto", **setting: Any) -> dict[str, Any]:
    """Train from every seed on every neighbouring data set, and say how the last weights differ.

    Parameters
    ----------
    dataset : str
        See :func:`dpnotes.experiments._intrinsic_sgd_data.records`.
    hidden : int or None
        Units of a hidden layer; None is logistic regression.
    output : {"sigmoid", "softmax"}
    initial : {"varied", "fixed"}
        Whether a seed draws the initial weights as well as the order of the records.
    batch_size, learning_rate, steps
        Of SGD; the last batch of a pass is left out when it is smaller.
    schedule : {"constant", "inverse", "inverse-root", "linear"}
        Of the learning rate.
    n_seeds, n_neighbours : int
        There are ``n_seeds * (n_neighbours + 1)`` runs.
    seed : int
    device : str

    Returns
    -------
    dict
        sigma and its range (:func:`_intrinsic_sgd_runs.spread`); observed, neighbours, means
        (:func:`_intrinsic_sgd_runs.sensitivities`); published, proved (bounds, None where there is none); rejected,
        rejected_corrected (weights of a data set whose normality is rejected at 0.05, and at 0.05 / p, means over data
        sets); accuracy and accuracy_spread over seeds; n, n_test, d, n_parameters, longest_row; data.
    """
    chosen = Setting(**setting)
    given, weights = chosen.records, trained(chosen, device).weights
    p = weights.shape[2]
    rejected = normality(weights)
    scores = accuracies(chosen, weights[:, 0]) if chosen.hidden is None else _network_accuracies(chosen, device)
    return {
        **spread(weights),
        **sensitivities(weights),
        "published": chosen.bound("published"),
        "proved": chosen.bound("tight"),
        "rejected": float((rejected < 0.05).sum(axis=1).mean()),
        "rejected_corrected": float((rejected < 0.05 / p).sum(axis=1).mean()),
        "accuracy": float(scores.mean()),
        "accuracy_spread": float(scores.std(ddof=1)),
        "n": len(given.X),
        "n_test": len(given.X_test),
        "d": given.X.shape[1],
        "n_parameters": p,
        "longest_row": given.longest,
        "data": given.digest,
        "device": device,
    }


def distances(*, quantity: str, device: str = "auto", **setting: Any) -> dict[str, Any]:
    """Percentiles of a quantity over the runs of :func:`summary`.

    Parameters
    ----------
    quantity : {"data", "seed", "both", "p-value"}
        See :func:`_intrinsic_sgd_runs.sample`.
    setting
        As :func:`summary`.

    Returns
    -------
    dict
        q0 to q100, the percentiles; mean; count, how many values there are; data.
    """
    chosen = Setting(**setting)
    values = sample(quantity, trained(chosen, device).weights, seed=chosen.seed)
    return {
        "mean": float(values.mean()),
        "count": len(values),
        **percentiles(values),
        "data": chosen.records.digest,
        "device": device,
    }


def utility(
    *, noise: str, analysis: str | None, counted: bool, epsilon: float | None, device: str = "auto", **setting: Any
) -> dict[str, Any]:
    """Accuracy of the logistic regressions of :func:`summary`, on the unmodified data set, once noise is added.

    All rows add the same standard normal draws, times their sigma, so that differences between rows are paired.

    Parameters
    ----------
    noise : {"none", "published", "observed", "proved"}
        The sensitivity that the noise is for; ``"observed"`` is the largest distance in these very runs.
    analysis : {"tight", "published"} or None
        Calibration of the Gaussian mechanism.
    counted : bool
        Whether the noise that SGD has of its own, as measured in these runs, is taken off.
    epsilon : float or None
    setting
        As :func:`summary`.

    Returns
    -------
    dict
        accuracy; accuracy_spread; noise_sigma; gain (mean of the paired differences to the same row with
        ``counted=False``) and gain_t, its t statistic; n_models; data.
    """
    if noise not in NOISES:
        raise ValueError(f"noise must be one of {', '.join(map(repr, NOISES))}, got noise={noise!r}")
    chosen = Setting(**setting)
    sigmas = [0.0, 0.0]  # not counted, counted
    if noise != "none":
        found = _scales(chosen, device)
        limits = {"published": chosen.bound("published"), "proved": chosen.bound("tight")}
        sensitivity = found["observed"] if noise == "observed" else limits[noise]
        if sensitivity is None or epsilon is None or analysis is None:
            raise ValueError(
                f"noise={noise!r} needs epsilon, analysis and a bound on the sensitivity, got epsilon={epsilon}, "
                f"analysis={analysis!r}, bound {sensitivity}"
            )
        delta = 1 / len(chosen.records.X)
        sigmas = [
            augmenting_sigma(epsilon, delta, sensitivity=sensitivity, intrinsic_sigma=own, analysis=analysis)
            for own in (0.0, found["sigma"])
        ]
    plain, scores = (_noisy_accuracies(chosen, sigma, device) for sigma in (sigmas[0], sigmas[counted]))
    gain = stats.ttest_rel(scores, plain) if counted and sigmas[0] != sigmas[1] else None
    return {
        "accuracy": float(scores.mean()),
        "accuracy_spread": float(scores.std(ddof=1)),
        "noise_sigma": sigmas[counted],
        "gain": float((scores - plain).mean()) if counted else None,
        "gain_t": float(gain.statistic) if gain is not None else None,
        "n_models": scores.size,
        "data": chosen.records.digest,
        "device": device,
    }


def trajectory(*, run: int, step: int, device: str = "auto", **setting: Any) -> dict[str, Any]:
    """Two weights of one run after so many steps, orders differing between runs from one initial weight (Figure 1).

    Returns
    -------
    dict
        first, second: weights 26 and 36, counted from 0, as in the paper, or 0 and 1 where there are fewer; data.
    """
    chosen = Setting(**setting)
    steps = tuple(range(0, chosen.steps + 1, max(1, chosen.steps // grids.CHECKPOINTS)))
    if step not in steps or not 0 <= run < chosen.n_seeds:
        raise ValueError(f"run must be in 0..{chosen.n_seeds - 1} and step in {steps}, got run={run}, step={step}")
    weights = _trajectories(chosen, steps, device)[run, steps.index(step)]
    first, second = (26, 36) if len(weights) > 36 else (0, 1)
    return {
        "first": float(weights[first]),
        "second": float(weights[second]),
        "data": chosen.records.digest,
        "device": device,
    }


def audit(*, record: str, fit_runs: int, test_runs: int, device: str = "auto", **setting: Any) -> dict[str, Any]:
    """Test membership of one record from the last weights, on fresh runs, and bound epsilon from below.

    Parameters
    ----------
    record : {"typical", "quiet direction", "own feature"}
        A record exchanged for another of the data; one in the direction in which runs differ least; one with a feature
        that nobody else has.
    fit_runs, test_runs : int
        Runs on either data set to fit the test to, and to count its errors on.
    setting
        As :func:`summary`; ``n_seeds`` and ``n_neighbours`` are not used.

    Returns
    -------
    dict
        mu_fitted (distance of the fitted means in standard deviations), shift (in the units of the weights), the four
        counts; epsilon_low at delta = 1/n, mu_low, delta_low at epsilon = 0: what the counts prove at 95%; data.
    """
    chosen = Setting(**setting, n_seeds=2, n_neighbours=1)
    found = run_audit(chosen, record=record, fit_runs=fit_runs, test_runs=test_runs, device=device)
    return {**found, "data": chosen.records.digest, "device": device}


def last_iterate(
    *, dataset: str, epsilon: float, steps: int, learning_rate: float, n_runs: int, seed: int, device: str = "cpu"
) -> dict[str, Any]:
    """Accuracy of noisy gradient descent at the same epsilon and delta = 1/n: the sound comparison.

    Returns
    -------
    dict
        accuracy and accuracy_spread over runs; noise_sigma of each weight in each step; data.
    """
    from dpnotes.methods._noisy_sgd import NoisySGD, descent_sigma, noisy_descents

    given = records(dataset)
    model = NoisySGD(epsilon, 1 / len(given.X), steps=steps, learning_rate=learning_rate)
    sigma = descent_sigma(epsilon, 1 / len(given.X), **model._setting(len(given.X)))
    weights = noisy_descents(
        given.X,
        given.y,
        n_runs=n_runs,
        steps=steps,
        learning_rate=learning_rate,
        l2=model.l2,
        radius=model.radius,
        sigma=sigma,
        generator=np.random.default_rng(seed),
    )
    odds = given.X_test.astype(np.float64) @ weights[:, :-1].T + weights[:, -1]
    scores = ((odds > 0) == given.y_test[:, None]).mean(axis=0)
    return {
        "accuracy": float(scores.mean()),
        "accuracy_spread": float(scores.std(ddof=1)),
        "noise_sigma": sigma,
        "data": given.digest,
        "device": device,
    }


def with_networks(chosen: Grid) -> Grid:
    """These settings, and the same tasks with a network."""
    return [*chosen, *grids.networks(chosen)]


@functools.lru_cache(maxsize=2)
def _scales(setting: Setting, device: str) -> dict[str, float]:
    weights = trained(setting, device).weights
    return {"sigma": spread(weights)["sigma"], "observed": sensitivities(weights)["observed"]}


@functools.lru_cache(maxsize=4)
def _noisy_accuracies(setting: Setting, sigma: float, device: str) -> Any:
    """Accuracy of every seed's weights with every draw of noise, [n_seeds, DRAWS]."""
    weights = trained(setting, device).weights[:, 0]
    draws = np.random.default_rng(setting.seed).standard_normal((len(weights), DRAWS, weights.shape[1]))
    return accuracies(setting, weights[:, None] + sigma * draws).ravel()


@functools.lru_cache(maxsize=1)
@one_thread()
def _trajectories(setting: Setting, steps: tuple[int, ...], device: str) -> Any:
    """Weights [n_seeds, checkpoints, p] of runs from one initial weight."""
    given = setting.records
    return fit_sgd(
        np.ascontiguousarray(given.X[1:]),
        given.y[1:],
        n_runs=setting.n_seeds,
        random_state=setting.seed,
        init_seeds=0,
        batch_size=setting.batch_size,
        learning_rate=setting.rates(),
        steps=setting.steps,
        last_batch="drop",
        checkpoints=steps,
        dtype=np.float64,
        device=device,
    ).trajectory


def _network_accuracies(setting: Setting, device: str) -> Any:
    given, runs = setting.records, trained(setting, device)
    odds = runs.architecture.logits(runs.weights[:, 0], given.X_test)  # [n_seeds, m]
    return ((odds > 0) == given.y_test).mean(axis=1)


def _grid(make: Any, scale: str) -> Any:
    return lambda: make(grids.settings(scale))


def _both(make: Any) -> dict[str, Any]:
    return {scale: _grid(make, scale) for scale in grids.SCALES}


WEIGHTS = dict.fromkeys(("sigma", "sigma_low", "sigma_high", "observed", "neighbours", "means"), 1e-6)
EXPERIMENTS = [
    Experiment(
        "intrinsic_sgd_summary",
        summary,
        _both(with_networks),
        tolerance={**WEIGHTS, "accuracy": 1e-3, "rejected": 0.5, "rejected_corrected": 0.5},
        cost=grids.seconds,
    ),
    Experiment(
        "intrinsic_sgd_distances",
        distances,
        _both(lambda chosen: grids.quantities(with_networks(chosen))),
        tolerance={"mean": 1e-5, "q50": 1e-5, "q100": 1e-5},
        cost=grids.seconds,
    ),
    Experiment(
        "intrinsic_sgd_utility",
        utility,
        _both(grids.utilities),
        tolerance={"accuracy": 1e-3, "gain": 1e-3, "noise_sigma": 1e-6},
        cost=grids.seconds,
    ),
    Experiment(
        "intrinsic_sgd_trajectories",
        trajectory,
        _both(grids.trajectories),
        tolerance=dict.fromkeys(("first", "second"), 1e-6),
        cost=grids.seconds,
    ),
    Experiment(
        "intrinsic_sgd_hyperparameters",
        summary,
        _both(grids.hyperparameters),
        tolerance={**WEIGHTS, "accuracy": 1e-3},
        cost=grids.seconds,
    ),
    Experiment("intrinsic_sgd_audit", audit, _both(grids.audits), tolerance={"shift": 1e-6}, cost=grids.seconds),
    Experiment(
        "intrinsic_sgd_last_iterate",
        last_iterate,
        _both(grids.last_iterates),
        tolerance={"accuracy": 2e-3, "noise_sigma": 1e-9},
        cost=grids.seconds,
    ),
]

__all__ = [
    "EXPERIMENTS",
    "audit",
    "audit_grid",
    "audits",
    "batch_sizes",
    "calibrations",
    "distances",
    "distances_figure",
    "exact_saving",
    "hyperparameter_grid",
    "hyperparameters",
    "last_iterate",
    "last_iterates",
    "noise_sources",
    "p_values",
    "pairwise_epsilons",
    "paths",
    "quantities",
    "readings",
    "records",
    "settings",
    "shown",
    "sizes",
    "summary",
    "table3",
    "table4",
    "trajectories",
    "trajectory",
    "unit_epsilons",
    "utilities",
    "utility",
    "utility_figure",
    "with_epsilons",
    "with_networks",
]
