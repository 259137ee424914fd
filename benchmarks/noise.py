"""Accuracy with exact noise beside NumPy's seeded noise, at equal epsilon and delta:
what exactness costs in utility.

Each method answers or releases on the same rows, prepared with public bounds, with
either noise, until the difference of the mean accuracies has a standard error below
0.05 points, or as often as is affordable:

    python -m benchmarks.noise --keep

With ``--keep`` the rows are stored in ``book/results/implementations_noise.csv``, which
the book shows.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy.optimize import brentq

from dpnotes import accounting
from dpnotes.learners import fit_dp_sgd_linear
from dpnotes.mechanisms import (
    confident_vote,
    gaussian_vote,
    laplace_vote,
    normal_floats,
    soft_vote,
)
from dpnotes.methods import (
    AugmentedSGD,
    LossPerturbation,
    ModelSensitivity,
    NoisySGD,
    PredictionSensitivity,
    fit_shards,
    noisy_descents,
    secret_seed,
)

from ._common import RESULTS, table
from .utility import DELTA, Split, prepared

KEPT = RESULTS / "implementations_noise.csv"
EPSILON = 3.0
ENOUGH = 0.0005  # standard error of a difference of accuracies
SECONDS = 200.0  # of one comparison
LINEAR = {"intercept": False, "device": "cpu"}
TREES = 100  # models that vote
# of so many releases, with a noise seed or exact noise
Accuracies = Callable[[int, "int | None"], np.ndarray]


def releases(method: Any, split: Split) -> Accuracies:
    """Of an estimator that releases many models of one fit."""
    X, y, X_test, y_test = split

    def accuracies(count: int, seed: int | None) -> np.ndarray:
        made = method.fit_many(
            X, y, n_classes=int(y.max()) + 1, n_repeats=count, seed=seed
        )
        return (made.models.votes(X_test, device="cpu") == y_test).mean(axis=1)

    return accuracies


def fits(method: Any, split: Split) -> Accuracies:
    """Of an estimator that is fitted for each release."""
    X, y, X_test, y_test = split

    def accuracies(count: int, seed: int | None) -> np.ndarray:
        seeds = (
            [None] * count
            if seed is None
            else range(seed * 10**6, seed * 10**6 + count)
        )
        return np.array(
            [
                method.set_params(noise_seed=s).fit(X, y).score(X_test, y_test)
                for s in seeds
            ]
        )

    return accuracies


def trainings(split: Split, **settings: Any) -> Accuracies:
    """Of DP-SGD, many models at once."""
    X, y, X_test, y_test = split
    settings["noise_multiplier"] = accounting.dp_sgd_noise_multiplier(
        EPSILON, DELTA, sample_rate=settings["sample_rate"], steps=settings["steps"]
    )

    def accuracies(count: int, seed: int | None) -> np.ndarray:
        normal, seed = (
            (normal_floats, secret_seed(None)) if seed is None else (None, seed)
        )
        given = settings | {
            "n_classes": int(y.max()) + 1,
            "n_records": len(X),
            "n_repeats": count,
            "seed": seed,
            "normal": normal,
        }
        models = fit_dp_sgd_linear(X, y, **given, clipping_norm=1.0, device="cpu")
        return (models.votes(X_test, device="cpu") == y_test).mean(axis=1)

    return accuracies


def answers(split: Split, l2: float) -> Accuracies:
    """Of answers to the test rows, with the noise that a budget for them alone has,
    many times from one fit.
    """
    X, y, X_test, y_test = split
    sigma = accounting.prediction_sensitivity_sigma(EPSILON, DELTA, answers=len(X_test))

    def accuracies(count: int, seed: int | None) -> np.ndarray:
        asked = {"answers": count * len(X_test)}

        def excess(log: float) -> float:
            epsilon = np.exp(log)
            needed = accounting.prediction_sensitivity_sigma(epsilon, DELTA, **asked)
            return needed - sigma

        # of so many budgets together
        epsilon = float(np.exp(brentq(excess, 0.0, 27.0)))
        method = PredictionSensitivity(
            epsilon, DELTA, l2=l2, noise_seed=seed, **asked, **LINEAR
        ).fit(X, y)
        return (
            method.predict(np.tile(X_test, (count, 1))).reshape(count, -1) == y_test
        ).mean(axis=1)

    return accuracies


def descents(split: Split, **settings: Any) -> Accuracies:
    """Of noise in each step, many runs at once."""
    X, y, X_test, y_test = split
    sigma = NoisySGD(EPSILON, DELTA, **settings).calibrate(len(X))

    def accuracies(count: int, seed: int | None) -> np.ndarray:
        generator = None if seed is None else np.random.default_rng(seed)
        weights = noisy_descents(
            X, y, n_runs=count, sigma=sigma, generator=generator, **settings
        )
        labels = (X_test @ weights[:, :-1].T + weights[:, -1] > 0).T
        return (labels == y_test).mean(axis=1)

    return accuracies


def votes(split: Split, vote: Callable[..., Any]) -> Accuracies:
    """Of noisy votes of shards' models, the counts being the same each time; no
    label is a wrong one.
    """
    X, y, X_test, y_test = split
    counts = fit_shards(
        X, y, n_classes=10, n_models=TREES, seed=0, device="cpu"
    ).vote_counts(X_test)
    return lambda count, seed: (
        vote(counts, seed=seed, n_repeats=count) == y_test
    ).mean(axis=1)


def methods() -> Iterator[tuple[str, str, Accuracies]]:
    """Name, data and accuracies of each comparison."""
    cancer, digits = prepared("breast_cancer"), prepared("digits")
    n = len(cancer[0])
    for data, split, C in (("breast_cancer", cancer, 0.3), ("digits", digits, 0.1)):
        given = LINEAR | {"l2": 1 / (C * len(split[0]))}
        yield (
            "ModelSensitivity",
            data,
            releases(ModelSensitivity(EPSILON, DELTA, **given), split),
        )
        yield (
            "LossPerturbation",
            data,
            releases(LossPerturbation(EPSILON, DELTA, **given), split),
        )
    pure = LINEAR | {"l2": 1 / (0.1 * n)}
    yield (
        "ModelSensitivity, delta = 0",
        "breast_cancer",
        releases(ModelSensitivity(EPSILON, **pure), cancer),
    )
    yield (
        "LossPerturbation, delta = 0",
        "breast_cancer",
        releases(LossPerturbation(EPSILON, **pure), cancer),
    )
    yield "PredictionSensitivity", "breast_cancer", answers(cancer, 1 / (0.01 * n))
    for data, split in (("breast_cancer", cancer), ("digits", digits)):
        yield (
            "DPSGD",
            data,
            trainings(split, sample_rate=1.0, steps=50, learning_rate=10.0),
        )
    yield "NoisySGD", "breast_cancer", descents(cancer, steps=50, learning_rate=4.0)
    descent = {"batch_size": n // 4, "steps": 8, "learning_rate": 4.0, "device": "cpu"}
    yield (
        "AugmentedSGD",
        "breast_cancer",
        fits(AugmentedSGD(EPSILON, DELTA, **descent), cancer),
    )
    beta = accounting.soft_vote_beta(EPSILON, DELTA, answers=100)
    yield (
        "soft_vote",
        "digits",
        votes(digits, lambda c, **how: soft_vote(c, beta=beta, **how)),
    )
    yield (
        "laplace_vote",
        "digits",
        votes(digits, lambda c, **how: laplace_vote(c, scale=20.0, **how)),
    )
    yield (
        "gaussian_vote",
        "digits",
        votes(digits, lambda c, **how: gaussian_vote(c, sigma=20.0, **how)),
    )
    confident = {"threshold": 30.0, "sigma_threshold": 20.0, "sigma_answer": 10.0}
    yield (
        "confident_vote",
        "digits",
        votes(digits, lambda c, **how: confident_vote(c, **confident, **how).labels),
    )


def compared(
    accuracies: Accuracies, *, enough: float, seconds: float
) -> dict[str, float]:
    """Both means, their difference (exact less seeded) and its standard error, in
    accuracy.
    """
    found: dict[bool, list[np.ndarray]] = {True: [], False: []}
    start, size = time.perf_counter(), 8
    while True:
        for exact in (True, False):
            found[exact].append(accuracies(size, None if exact else len(found[exact])))
        exact, seeded = (np.concatenate(found[side]) for side in (True, False))
        error = float(
            np.sqrt(exact.var(ddof=1) / len(exact) + seeded.var(ddof=1) / len(seeded))
        )
        spent = time.perf_counter() - start
        if error <= enough or spent > seconds:
            break
        wanted = len(exact) * ((error / enough) ** 2 - 1)
        affordable = len(exact) * (seconds / spent - 1)
        size = int(np.clip(min(wanted, affordable), 8, 4 * len(exact)))
    difference = float(exact.mean() - seeded.mean())
    return {
        "exact": float(exact.mean()),
        "seeded": float(seeded.mean()),
        "difference": difference,
        "standard_error": error,
        "releases": len(exact),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--small", action="store_true", help="eight releases of each")
    parser.add_argument(
        "--keep", action="store_true", help="store the rows for the book"
    )
    given = parser.parse_args()
    if given.keep and given.small:
        parser.error("--keep is for the whole benchmark, without --small")
    enough = 1.0 if given.small else ENOUGH
    rows = (
        {
            "method": method,
            "data": data,
            **compared(accuracies, enough=enough, seconds=SECONDS),
        }
        for method, data, accuracies in methods()
    )
    table(KEPT, rows, ["method", "data"], kept=given.keep)


if __name__ == "__main__":
    main()
