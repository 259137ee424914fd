"""Experiments of the chapter on intrinsic privacy: SGD from many seeds on
neighbouring data (Hyland and Tople 2019).
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy

from dpnotes import data, methods
from dpnotes._validation import Features
from dpnotes.accounting.papers import augmenting_sigma
from dpnotes.lab import experiment
from dpnotes.lab._experiment import Experiment
from dpnotes.lab._shared import origin
from dpnotes.lab.intrinsic_sgd import audit as audits, grids, runs
from dpnotes.lab.intrinsic_sgd.data import (
    SPLITS,
    Records,
    digits,
    records,
    resplit,
)
from dpnotes.lab.intrinsic_sgd.printed import intrinsic_epsilon
from dpnotes.lab.intrinsic_sgd.runs import Setting
from dpnotes.learners import one_thread

DRAWS = 2  # of the added noise for each model
SHARED_SEED = 0  # of NumPy's old generator: the authors' code sets it before each draw

Metrics = dict[str, Any]


@experiment("intrinsic_sgd.sizes")
def sizes(*, dataset: str) -> Metrics:
    """Count the records that select the hyperparameters (Table I).

    Returns
    -------
    dict
        n_validation; data.
    """
    split: Any = data.load(dataset, split=SPLITS[dataset])
    return {"n_validation": len(split.y_validation), "data": split.digest}


@experiment("intrinsic_sgd.summary")
def summary(*, device: str = "auto", **row: Any) -> Metrics:
    """Train from every seed on every neighbouring data set, and measure how the last
    weights differ.

    Returns
    -------
    dict
        sigma and its range (:func:`dpnotes.lab.intrinsic_sgd.runs.weight_stds`);
        observed, neighbours and means
        (:func:`dpnotes.lab.intrinsic_sgd.runs.sensitivities`); published and proved
        (bounds, or None if there is none); rejected and rejected_corrected (number of
        weights for which normality is rejected at 0.05 and at 0.05 / p, averaged over
        data sets); accuracy and accuracy_std over seeds; n, n_test, d, n_parameters,
        longest_row; data.
    """
    setting = Setting(**row)
    given = setting.records
    trained = runs.trained(setting, device)
    # of every weight, over seeds
    p_values = runs.normality(trained.all_weights)
    p = trained.weights.shape[1]
    network = None if setting.hidden is None else trained.architecture
    return {
        **runs.statistics(setting, device),
        "published": setting.bound("published"),
        "proved": setting.bound("tight"),
        "rejected": float((p_values < 0.05).sum(axis=1).mean()),
        # Bonferroni, over the weights of a data set
        "rejected_corrected": float((p_values < 0.05 / p).sum(axis=1).mean()),
        **runs.mean_and_std(runs.accuracies(given, trained.weights, network=network)),
        "n": len(given.X),
        "n_test": len(given.X_test),
        "d": given.X.shape[1],
        "n_parameters": p,
        "longest_row": given.longest,
        **origin(setting.records, device),
    }


@experiment("intrinsic_sgd.distances")
def distances(*, quantity: str, device: str = "auto", **row: Any) -> Metrics:
    """Compute percentiles of a quantity over the runs of :func:`summary`.

    Parameters
    ----------
    quantity : {"data", "seed", "both", "p-value"}
        Quantity of :func:`dpnotes.lab.intrinsic_sgd.runs.sample`.

    Returns
    -------
    dict
        q0 to q100 (the percentiles), mean, count (number of values) and data.
    """
    setting = Setting(**row)
    values = runs.sample(
        quantity, runs.trained(setting, device).all_weights, seed=setting.seed
    )
    percentiles = {
        f"q{level}": float(q)
        for level, q in enumerate(np.percentile(values, np.arange(101)))
    }
    return {
        "mean": float(values.mean()),
        "count": len(values),
        **percentiles,
        **origin(setting.records, device),
    }


@experiment("intrinsic_sgd.pairs")
def pairs(*, device: str = "auto", **row: Any) -> Metrics:
    """Compute epsilons of pairs of data sets from the largest distance over seeds, as
    the authors' public code does.

    The paper names the distance between two weights, and nothing of a largest one.

    Returns
    -------
    dict
        mean, median and largest (epsilon over pairs, by the paper's formula); sigma;
        data.
    """
    setting = Setting(**row)
    sigma = runs.statistics(setting, device)["sigma"]
    unit = intrinsic_epsilon(
        sigma=sigma,
        sensitivity=1.0,
        delta=1 / len(setting.records.X),
        analysis="published",
    )
    epsilons = unit * runs.farthest(runs.trained(setting, device).all_weights)
    return {
        "mean": float(epsilons.mean()),
        "median": float(np.median(epsilons)),
        "largest": float(epsilons.max()),
        "sigma": sigma,
        **origin(setting.records, device),
    }


@experiment("intrinsic_sgd.utility")
def utility(
    *,
    noise: str,
    analysis: str | None,
    counted: bool,
    epsilon: float | None,
    device: str = "auto",
    **row: Any,
) -> Metrics:
    """Measure the accuracy of the logistic regressions of :func:`summary` with noise,
    on the unmodified data set.

    All rows add the same standard normal draws, multiplied by their own sigma.
    Differences between rows are therefore paired.

    Parameters
    ----------
    noise : {"none", "published", "observed", "proved"}
        The sensitivity that the noise covers. ``"observed"`` is the largest distance in
        the same runs.
    analysis : {"tight", "published"} or None
        Calibration of the Gaussian mechanism.
    counted : bool
        Whether SGD's own noise, as measured in these runs, is subtracted.
    epsilon : float or None

    Returns
    -------
    dict
        accuracy, accuracy_std, noise_sigma, gain (mean of the paired differences to the
        same row with ``counted=False``), gain_t (t statistic of the gain), n_models and
        data.
    """
    setting = Setting(**row)
    # the same when nothing is added
    # without and with what is counted
    full = 0.0
    used = 0.0
    if noise != "none":
        found = runs.statistics(setting, device)
        # which bound the noise covers
        analyses = {"published": "published", "proved": "tight"}
        sensitivity = (
            found["observed"] if noise == "observed" else setting.bound(analyses[noise])
        )
        full, rest = _sigmas(
            setting,
            epsilon,
            sensitivity,
            intrinsic_sigma=found["sigma"],
            analysis=analysis,
        )
        used = rest if counted else full
    plain, scores = (
        _noisy_accuracies(setting, sigma, device) for sigma in (full, used)
    )
    return {
        **runs.mean_and_std(scores),
        "noise_sigma": used,
        "gain": float((scores - plain).mean()) if counted else None,
        "gain_t": (
            float(scipy.stats.ttest_rel(scores, plain).statistic)
            if full != used
            else None
        ),
        "n_models": scores.size,
        **origin(setting.records, device),
    }


@experiment("intrinsic_sgd.draws")
def draws(
    *,
    sensitivity: float,
    intrinsic_sigma: float,
    epsilon: float,
    draw: str,
    device: str = "auto",
    **row: Any,
) -> Metrics:
    """Measure accuracy with noise of the classical formula, with one draw for all
    models or a draw for each.

    An early version of the authors' code sets NumPy's seed to 0 before it draws. It
    therefore adds the same numbers to all models.

    Parameters
    ----------
    sensitivity, intrinsic_sigma : float
        As printed in Table III.
    epsilon : float
    draw : {"shared", "own"}
        ``"shared"``: the first draws of NumPy's old generator at seed 0, for all
        models. ``"own"``: the draws of :func:`utility`.

    Returns
    -------
    dict
        noiseless and noiseless_std (accuracy without noise), accuracy and accuracy_std
        (with the full noise), noise_sigma, gain (if SGD's own noise is subtracted),
        gap_closed (the gain divided by the accuracy that the noise costs) and data.
    """
    setting = Setting(**row)
    weights = runs.trajectories(setting, (setting.steps,), device)  # [n_seeds, 1, p]
    full, rest = _sigmas(
        setting,
        epsilon,
        sensitivity,
        intrinsic_sigma=intrinsic_sigma,
        analysis="published",
    )
    # one vector for all models, as in the authors' code
    shared = np.random.RandomState(SHARED_SEED).standard_normal(
        (1, 1, weights.shape[2])
    )
    noise = shared if draw == "shared" else _own_draws(setting, weights)
    quiet, plain, scores = (
        runs.accuracies(setting.records, weights + s * noise) for s in (0.0, full, rest)
    )
    # what counting gains, of what the noise costs
    gain = float((scores - plain).mean())
    gap = float(quiet.mean() - plain.mean())
    return {
        **runs.mean_and_std(quiet, "noiseless"),
        **runs.mean_and_std(plain),
        "noise_sigma": full,
        "gain": gain,
        "gap_closed": gain / gap if gap > 0 else None,
        **origin(setting.records, device),
    }


def _sigmas(
    setting: Setting, epsilon: Any, sensitivity: Any, **own: Any
) -> tuple[float, float]:
    """Noise at delta = 1/n in full, and less what SGD has of its own."""
    # the difference of variances, down to no noise
    needed = functools.partial(
        augmenting_sigma,
        epsilon,
        1 / len(setting.records.X),
        sensitivity=sensitivity,
        **own,
    )
    return needed(intrinsic_sigma=0.0), needed()


def _own_draws(setting: Setting, weights: Features) -> Features:
    """Standard normal draws for each model, [n_seeds, DRAWS, p], of weights
    [n_seeds, ., p].
    """
    return np.random.default_rng(setting.seed).standard_normal(
        (len(weights), DRAWS, weights.shape[-1])
    )


@functools.lru_cache(maxsize=4)
def _noisy_accuracies(setting: Setting, sigma: float, device: str) -> Features:
    """Accuracy of every seed's weights with every draw of noise, [n_seeds * DRAWS]."""
    # [n_seeds, 1, p], beside the draws of each
    weights = runs.trained(setting, device).weights[:, None]
    return runs.accuracies(
        setting.records, weights + sigma * _own_draws(setting, weights)
    ).ravel()


@experiment("intrinsic_sgd.scaling")
@one_thread()
def scaling(
    *, scaling: str, projection: int, seed: int, device: str = "auto", **row: Any
) -> Metrics:
    """Measure sigma, observed sensitivity and accuracy on the digits 3 and 5, with one
    of several scalings.

    Parameters
    ----------
    scaling, projection
        Arguments of :func:`dpnotes.lab.intrinsic_sgd.data.digits`.
    seed, row
        Seed, batch_size, learning_rate, steps, n_seeds and n_neighbours, as for
        :func:`summary`.
    device : str

    Returns
    -------
    dict
        sigma, observed, accuracy, accuracy_std (over seeds), longest_row; data.
    """
    return _study(digits(scaling, projection), seed, device, row)


@experiment("intrinsic_sgd.repeats")
@one_thread()
def repeats(*, dataset: str, seed: int, device: str = "auto", **row: Any) -> Metrics:
    """Repeat the study of Table III with other training records, neighbouring data sets
    and seeds.

    Parameters
    ----------
    dataset, seed
        Arguments of :func:`dpnotes.lab.intrinsic_sgd.data.resplit`. The study uses the
        same seed.
    row, device
        The same as for :func:`scaling`, which repeats MNIST-binary with other
        projections.

    Returns
    -------
    dict
        The same keys as for :func:`scaling`.
    """
    return _study(resplit(dataset, seed), seed, device, row)


def _study(given: Records, seed: int, device: str, row: Mapping[str, Any]) -> Metrics:
    """Sigma, observed sensitivity and accuracy of a grid of runs with varied initial
    weights.
    """
    # seeds draw the initial weights, too
    weights = runs.neighbour_runs(
        given.X, given.y, random_state=seed, device=device, **row
    ).all_weights
    return {
        "sigma": runs.weight_stds(weights)["sigma"],
        "observed": runs.sensitivities(weights)["observed"],
        **runs.mean_and_std(runs.accuracies(given, weights[:, 0])),
        "longest_row": given.longest,
        **origin(given, device),
    }


@experiment("intrinsic_sgd.cost")
def cost(*, device: str = "auto", **row: Any) -> Metrics:
    """Measure the processor time of the runs of :func:`summary` and of all their
    statistics, utility included.

    Returns
    -------
    dict
        runs, training_seconds, statistics_seconds and data. The seconds are processor
        time of this process on one thread, without reading the data.
    """
    setting = Setting(**row)
    _ = setting.records  # reading them is not counted
    runs.trained.cache_clear()
    runs.statistics.cache_clear()
    start = time.process_time()
    runs.trained(setting, device)
    training = time.process_time() - start
    summary(**row, device=device)
    # everything that the chapter reads of these runs
    for quantity in runs.QUANTITIES:
        distances(**row, quantity=quantity, device=device)
    for each in grids.utilities([dict(row)]) if setting.hidden is None else ():
        utility(**each, device=device)
    return {
        "runs": setting.n_seeds * (setting.n_neighbours + 1),
        "training_seconds": training,
        "statistics_seconds": time.process_time() - start - training,
        **origin(setting.records, device),
    }


@experiment("intrinsic_sgd.trajectory")
def trajectory(*, run: int, step: int, device: str = "auto", **row: Any) -> Metrics:
    """Return two weights of one run after a number of steps (Figure 1).

    The runs start from the same initial weights and have different orders.

    Returns
    -------
    dict
        first, second and data. The two weights are weights 26 and 36, counted from 0,
        as in the paper, or weights 0 and 1 if there are fewer.
    """
    setting = Setting(**row)
    steps = grids.checkpoints(setting.steps)
    weights = runs.trajectories(setting, steps, device)[run, steps.index(step)]
    first, second = (26, 36) if len(weights) > 36 else (0, 1)
    return {
        "first": float(weights[first]),
        "second": float(weights[second]),
        **origin(setting.records, device),
    }


@experiment("intrinsic_sgd.audit")
def audit(
    *, record: str, fit_runs: int, test_runs: int, device: str = "auto", **row: Any
) -> Metrics:
    """Test membership of one record from the last weights, on fresh runs, and bound
    epsilon from below.

    Each seed trains on both data sets, so the effect of the record is seen whatever the
    seed does. The bounds only need the runs on each data set to be independent of each
    other; the two sets of runs may depend on each other.

    The test is the likelihood ratio of two Gaussians with the same full covariance,
    fitted to three quarters of ``fit_runs``. The other quarter determines the
    threshold. If the record has a feature that no other record has, the test asks
    whether the weight of this feature lies outside the range of the initial weights.
    Without the record this cannot happen, so no false positive is possible. The
    fraction of true positives then estimates a lower bound on delta at every epsilon,
    and no epsilon is enough if this bound is above 1/n.

    Parameters
    ----------
    record : {"typical", "only holder", "quiet direction", "own feature"}
        ``"typical"`` and ``"only holder"`` are records of the data: a record that is
        exchanged for another one, and the only record with some feature. The others are
        constructed: a record in the direction in which runs differ least, and a record
        that has its own feature and nothing else.
    fit_runs, test_runs : int
        Numbers of runs on each data set to which the test is fitted, and on which its
        errors are counted.

    Returns
    -------
    dict
        mu_fitted (distance of the fitted means in standard deviations), shift (in the
        units of the weights), the four counts, data, and three bounds that the counts
        prove at 95%: epsilon_low (at delta = 1/n), mu_low and delta_low (at epsilon =
        0).
    """
    setting = Setting(**row)
    pair = audits.pair(setting, record, device)
    # a test must not be fitted to the runs that it is judged on
    fit_seed, test_seed = (
        np.random.SeedSequence(setting.seed).generate_state(2).tolist()
    )
    mu = shift = None
    if pair.feature is None:
        ends = pair.ends(setting, runs=fit_runs, seed=fit_seed, device=device)
        direction, threshold, mu = audits.likelihood_ratio(ends, test_runs=test_runs)
        shift = float(np.linalg.norm((ends[:, 1] - ends[:, 0]).mean(axis=0)))
        says_member = (
            pair.ends(setting, runs=test_runs, seed=test_seed, device=device)
            @ direction
            > threshold
        )
    else:
        # without the record this weight never moves
        low, high = pair.initial_range(setting)
        own = pair.ends(setting, runs=test_runs, seed=test_seed, device=device)[
            ..., pair.feature
        ]
        says_member = (own < low) | (own > high)
    false, true = says_member.sum(axis=0).tolist()  # of [test_runs, 2]
    counts = audits.counts(true, false, test_runs)
    # a false positive would show an error of the argument
    certain = pair.feature is not None and false == 0
    proved = audits.proved(counts, delta=1 / len(setting.records.X), certain=certain)
    return {
        "mu_fitted": mu,
        "shift": shift,
        **counts,
        **proved,
        **origin(setting.records, device),
    }


@experiment("intrinsic_sgd.last_iterate")
def last_iterate(
    *,
    dataset: str,
    epsilon: float,
    n_runs: int,
    seed: int,
    scale_rows: bool = False,
    device: str = "cpu",
    **sgd: Any,
) -> Metrics:
    """Measure the accuracy of noisy gradient descent, which has a guarantee, at the
    same epsilon and delta = 1/n.

    Parameters
    ----------
    sgd
        steps and learning_rate.

    Returns
    -------
    dict
        accuracy and accuracy_std over runs, noise_sigma (of each weight in each step),
        data and device (NumPy computes it, whatever the device is).
    """
    given = records(dataset, scale_rows)
    # calibrated once for all runs
    sigma = methods.NoisySGD(
        epsilon, 1 / len(given.X), adjacency="replace-one", **sgd
    ).calibrate(len(given.X))
    generator = np.random.default_rng(seed)
    weights = methods.noisy_descents(
        given.X, given.y, n_runs=n_runs, sigma=sigma, generator=generator, **sgd
    )
    scores = runs.mean_and_std(runs.accuracies(given, weights))
    return {**scores, "noise_sigma": sigma, "data": given.digest, "device": "cpu"}


ACCURACY = {"accuracy": 1e-3}
GAIN = {**ACCURACY, "gain": 1e-4}
# rounding adds up over thousands of steps
WEIGHTS = dict.fromkeys(
    ("sigma", "sigma_low", "sigma_high", "observed", "neighbours", "means"), 1e-6
)
SUMMARY = {**WEIGHTS, **ACCURACY, "rejected": 0.5, "rejected_corrected": 0.5}
STUDY = {**ACCURACY, "sigma": 1e-6, "observed": 1e-6}
TIMES = {"training_seconds": math.inf, "statistics_seconds": math.inf}  # of the machine

EXPERIMENTS = [
    Experiment(
        f"intrinsic_sgd_{name}",
        function,
        grids.by_scale(grid),
        tolerance=tolerance,
        cost=grids.seconds,
    )
    for name, function, grid, tolerance in (
        ("sizes", sizes, grids.sizes, {}),
        ("summary", summary, grids.with_networks, SUMMARY),
        (
            "distances",
            distances,
            grids.distances,
            {"mean": 1e-5, "q50": 1e-5, "q100": 1e-5},
        ),
        (
            "pairs",
            pairs,
            grids.network_pairs,
            dict.fromkeys(("mean", "median", "largest", "sigma"), 1e-5),
        ),
        ("utility", utility, grids.utilities, {**GAIN, "noise_sigma": 1e-6}),
        (
            "trajectories",
            trajectory,
            grids.trajectories,
            {"first": 1e-6, "second": 1e-6},
        ),
        ("hyperparameters", summary, grids.hyperparameters, SUMMARY),
        ("draws", draws, grids.draws, {**GAIN, "noiseless": 1e-3}),
        ("scaling", scaling, grids.scalings, STUDY),
        ("repeats", repeats, grids.repeats, STUDY),
        ("cost", cost, list, TIMES),
        ("audit", audit, grids.audits, {"shift": 1e-6}),
        (
            "last_iterate",
            last_iterate,
            grids.last_iterates,
            {"accuracy": 2e-3, "noise_sigma": 1e-9},
        ),
    )
]
