"""Experiments of the chapter on intrinsic privacy: SGD from many seeds on neighbouring data (Hyland and Tople 2019)."""

from __future__ import annotations

import functools
import math
import time
from typing import Any

import numpy as np

from dpnotes.lab import experiment
from dpnotes.lab._experiment import Experiment, Grid
from dpnotes.lab.intrinsic_sgd import grids
from dpnotes.lab.intrinsic_sgd.audit import audit as run_audit
from dpnotes.lab.intrinsic_sgd.data import records
from dpnotes.lab.intrinsic_sgd.figures import batch_sizes, p_values, pairwise_epsilons, paths
from dpnotes.lab.intrinsic_sgd.figures import distances as distances_figure
from dpnotes.lab.intrinsic_sgd.figures import utility as utility_figure
from dpnotes.lab.intrinsic_sgd.grids import audits as audit_grid
from dpnotes.lab.intrinsic_sgd.grids import draws as draw_grid
from dpnotes.lab.intrinsic_sgd.grids import hyperparameters as hyperparameter_grid
from dpnotes.lab.intrinsic_sgd.grids import (
    last_iterates,
    quantities,
    scalings,
    settings,
    trajectories,
    utilities,
)
from dpnotes.lab.intrinsic_sgd.readings import costs, one_draw, scaled_digits
from dpnotes.lab.intrinsic_sgd.runs import (
    Setting,
    accuracies,
    network_accuracies,
    normality,
    percentiles,
    sample,
    sensitivities,
    spread,
    trained,
)
from dpnotes.lab.intrinsic_sgd.runs import trajectories as recorded
from dpnotes.lab.intrinsic_sgd.scalings import scaling as digits_scaled
from dpnotes.lab.intrinsic_sgd.tables import (
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
from dpnotes.lab.intrinsic_sgd.utility import draws as with_draws
from dpnotes.lab.intrinsic_sgd.utility import utility as with_noise


@experiment("intrinsic_sgd.summary")
def summary(*, device: str = "auto", **setting: Any) -> dict[str, Any]:
    """Train from every seed on every neighbouring data set, and say how the last weights differ.

    Parameters
    ----------
    dataset : str
        See :func:`dpnotes.lab.intrinsic_sgd.data.records`.
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
    given, weights = chosen.records, trained(chosen, device).all_weights
    p = weights.shape[2]
    rejected = normality(weights)
    scores = accuracies(chosen, weights[:, 0]) if chosen.hidden is None else network_accuracies(chosen, device)
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


@experiment("intrinsic_sgd.distances")
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
    values = sample(quantity, trained(chosen, device).all_weights, seed=chosen.seed)
    return {
        "mean": float(values.mean()),
        "count": len(values),
        **percentiles(values),
        "data": chosen.records.digest,
        "device": device,
    }


@experiment("intrinsic_sgd.utility")
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
    chosen = Setting(**setting)
    found = with_noise(chosen, noise=noise, analysis=analysis, counted=counted, epsilon=epsilon, device=device)
    return {**found, "data": chosen.records.digest, "device": device}


@experiment("intrinsic_sgd.draws")
def draws(
    *,
    sensitivity: float,
    intrinsic_sigma: float,
    epsilon: float,
    draw: str,
    device: str = "auto",
    **setting: Any,
) -> dict[str, Any]:
    """Accuracy with noise of the classical formula, when all models get the same draw, and when each has its own.

    The authors' code sets NumPy's seed to 0 before it draws, so that it adds the same numbers to all models.

    Parameters
    ----------
    sensitivity, intrinsic_sigma : float
        As printed in Table III.
    epsilon : float
    draw : {"shared", "own"}
        The first draws of NumPy's old generator at seed 0, for all models; or draws of :func:`utility`.
    setting
        As :func:`summary`; ``n_neighbours`` is not used.

    Returns
    -------
    dict
        noiseless and noiseless_spread, accuracy and accuracy_spread with the noise in full; noise_sigma; gain where
        SGD's own noise is taken off, and gap_closed, its share of what noise costs; data.
    """
    chosen = Setting(**setting, n_neighbours=1)
    found = with_draws(
        chosen,
        sensitivity=sensitivity,
        intrinsic_sigma=intrinsic_sigma,
        epsilon=epsilon,
        draw=draw,
        device=device,
    )
    return {**found, "data": chosen.records.digest, "device": device}


@experiment("intrinsic_sgd.scaling")
def scaling(*, device: str = "auto", **parameters: Any) -> dict[str, Any]:
    """Sigma, observed sensitivity and accuracy on the digits 3 and 5, by how their rows are scaled.

    Parameters
    ----------
    scaling : {"none", "rows", "rows before projection", "largest row", "features"}
        Projected pixels as they are; each row divided by its norm, after or before the projection; all by the largest
        norm; each feature brought to mean 0 and standard deviation 1.
    projection : int
        Seed of the random projection to 50 features.
    batch_size, learning_rate, steps, n_seeds, n_neighbours, seed
        As :func:`summary`.
    device : str

    Returns
    -------
    dict
        sigma, observed, accuracy, accuracy_spread (over seeds), longest_row; data.
    """
    return {**digits_scaled(**parameters, device=device), "device": device}


@experiment("intrinsic_sgd.cost")
def cost(*, device: str = "auto", **setting: Any) -> dict[str, Any]:
    """Processor time of the runs of :func:`summary`, and of all statistics of them, utility included.

    Returns
    -------
    dict
        runs; training_seconds and statistics_seconds of this process on one thread, without reading the data; data.
    """
    chosen = Setting(**setting)
    digest = chosen.records.digest
    trained.cache_clear()
    start = time.process_time()
    trained(chosen, device)
    training = time.process_time() - start
    summary(**setting, device=device)
    for row in grids.quantities([setting]):
        distances(**row, device=device)
    for row in grids.utilities([setting]) if chosen.hidden is None else ():
        utility(**row, device=device)
    return {
        "runs": chosen.n_seeds * (chosen.n_neighbours + 1),
        "training_seconds": training,
        "statistics_seconds": time.process_time() - start - training,
        "data": digest,
        "device": device,
    }


@experiment("intrinsic_sgd.trajectory")
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
    weights = recorded(chosen, steps, device)[run, steps.index(step)]
    first, second = (26, 36) if len(weights) > 36 else (0, 1)
    return {
        "first": float(weights[first]),
        "second": float(weights[second]),
        "data": chosen.records.digest,
        "device": device,
    }


@experiment("intrinsic_sgd.audit")
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


@experiment("intrinsic_sgd.last_iterate")
def last_iterate(
    *,
    dataset: str,
    epsilon: float,
    steps: int,
    learning_rate: float,
    n_runs: int,
    seed: int,
    scale_rows: bool = False,
    device: str = "cpu",
) -> dict[str, Any]:
    """Accuracy of noisy gradient descent at the same epsilon and delta = 1/n: the sound comparison.

    Returns
    -------
    dict
        accuracy and accuracy_spread over runs; noise_sigma of each weight in each step; data.
    """
    from dpnotes.methods import NoisySGD, noisy_descents

    given = records(dataset, scale_rows)
    model = NoisySGD(epsilon, 1 / len(given.X), steps=steps, learning_rate=learning_rate)
    sigma = model.calibrate(len(given.X))
    weights = noisy_descents(
        given.X,
        given.y,
        n_runs=n_runs,
        steps=steps,
        learning_rate=learning_rate,
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
    Experiment(
        "intrinsic_sgd_draws",
        draws,
        _both(grids.draws),
        tolerance=dict.fromkeys(("accuracy", "gain", "noiseless"), 1e-3),
        cost=grids.seconds,
    ),
    Experiment(
        "intrinsic_sgd_scaling",
        scaling,
        _both(grids.scalings),
        tolerance={"sigma": 1e-6, "observed": 1e-6, "accuracy": 1e-3},
        cost=grids.seconds,
    ),
    Experiment(
        "intrinsic_sgd_cost",
        cost,
        {scale: functools.partial(grids.settings, scale) for scale in grids.SCALES},
        tolerance=dict.fromkeys(("training_seconds", "statistics_seconds"), math.inf),  # of the machine
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
    "cost",
    "costs",
    "distances",
    "distances_figure",
    "draw_grid",
    "draws",
    "exact_saving",
    "hyperparameter_grid",
    "hyperparameters",
    "last_iterate",
    "last_iterates",
    "noise_sources",
    "one_draw",
    "p_values",
    "pairwise_epsilons",
    "paths",
    "quantities",
    "readings",
    "records",
    "scaled_digits",
    "scaling",
    "scalings",
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
