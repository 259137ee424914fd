"""Accuracy with exact noise beside NumPy's seeded noise, at equal epsilon and delta:
what exactness costs in utility.

Each method answers or releases on the same rows, prepared with public bounds, with
either noise, until the difference of the mean accuracies has a standard error below
0.05 points, or as often as is affordable:

    python -m benchmarks.noise --keep

With ``--keep`` the rows are stored in ``book/results/implementations_noise.csv``, which
the book shows.
"""

import time
from itertools import count

import numpy as np

from dpnotes import accounting, mechanisms
from dpnotes.methods import (
    DPSGD,
    AugmentedSGD,
    LossPerturbation,
    ModelSensitivity,
    NoisySGD,
    PredictionSensitivity,
    fit_shards,
)

from ._common import RESULTS, options, table
from .utility import prepared

# one budget for all methods, so that no one is noisier than the other
BUDGET = {"epsilon": 3.0, "delta": 1e-5}
ENOUGH = 0.0005  # standard error of a difference of accuracies
SECONDS = 200.0  # of one comparison
LINEAR = {"intercept": False, "device": "cpu"}
VOTES = {
    "soft_vote": {"beta": accounting.soft_vote_beta(*BUDGET.values(), answers=100)},
    "laplace_vote": {"scale": 20.0},
    "gaussian_vote": {"sigma": 20.0},
    "confident_vote": {
        "threshold": 30.0,
        "sigma_threshold": 20.0,
        "sigma_answer": 10.0,
    },
}


def estimators(data, split):
    """Name and estimator of each comparison on this table."""
    n = len(split[0])
    answers = len(split[2])
    C = {"breast_cancer": 0.3, "digits": 0.1}[data]
    for kind in (ModelSensitivity, LossPerturbation):
        yield kind.__name__, kind(**BUDGET, l2=1 / (C * n), **LINEAR)
    run = {"sample_rate": 1.0, "steps": 50}
    # as the estimator would choose it; full batches, whose noise is smallest
    sigma = accounting.dp_sgd_noise_multiplier(*BUDGET.values(), **run)
    model = DPSGD(noise_multiplier=sigma, learning_rate=10.0, device="cpu", **run)
    yield "DPSGD", model
    # the others take long on ten classes, or are of two
    if data == "digits":
        return
    for kind in (ModelSensitivity, LossPerturbation):
        yield f"{kind.__name__}, delta = 0", kind(3.0, l2=1 / (0.1 * n), **LINEAR)
    given = {"l2": 1 / (0.01 * n), "answers": answers, **LINEAR}
    yield "PredictionSensitivity", PredictionSensitivity(**BUDGET, **given)
    yield "NoisySGD", NoisySGD(**BUDGET, steps=50, learning_rate=4.0)
    steps = {"batch_size": n // 4, "steps": 8, "learning_rate": 4.0, "device": "cpu"}
    yield "AugmentedSGD", AugmentedSGD(**BUDGET, **steps)


def comparisons():
    """Method, data, and a function of a count and a noise seed that gives accuracies
    [count]; without a seed the noise is exact.
    """
    for data in ("breast_cancer", "digits"):
        split = X, y, X_test, y_test = prepared(data)
        for name, model in estimators(data, split):

            def fits(count, seed, model=model, X=X, y=y, X_test=X_test, y_test=y_test):
                found = []
                for i in range(count):
                    # a seed for each release, none used twice
                    own = None if seed is None else seed * 10**6 + i
                    fitted = model.set_params(noise_seed=own).fit(X, y)
                    found.append(fitted.score(X_test, y_test))
                return np.array(found)

            yield name, data, fits
    # votes of one set of teachers: the noise alone differs
    shards = fit_shards(X, y, n_classes=10, n_models=100, seed=0, device="cpu")
    counts = shards.vote_counts(X_test)
    for name, settings in VOTES.items():
        vote = getattr(mechanisms, name)

        def votes(count, seed, vote=vote, settings=settings):
            # the counts are the same each time; no label is a wrong one
            found = vote(counts, seed=seed, n_repeats=count, **settings)
            return (getattr(found, "labels", found) == y_test).mean(axis=1)

        yield name, "digits", votes


def compared(accuracies, *, enough, seconds):
    """Both means, their difference (exact less seeded) and its standard error, in
    accuracy.
    """
    exact = seeded = np.zeros(0)
    start = time.perf_counter()
    # as few as give a standard error; how many are needed is not known before
    size = 8
    for turn in count():
        exact = np.append(exact, accuracies(size, None))
        seeded = np.append(seeded, accuracies(size, turn))
        error = float(np.sqrt((exact.var(ddof=1) + seeded.var(ddof=1)) / len(exact)))
        spent = time.perf_counter() - start
        if error <= enough or spent > seconds:
            break
        wanted = len(exact) * ((error / enough) ** 2 - 1)
        affordable = len(exact) * (seconds / spent - 1)
        size = int(np.clip(min(wanted, affordable), 8, 4 * len(exact)))
    return {
        "exact": float(exact.mean()),
        "seeded": float(seeded.mean()),
        "difference": float(exact.mean() - seeded.mean()),
        "standard_error": error,
        "releases": len(exact),
    }


def rows():
    for method, data, accuracies in comparisons():
        found = compared(accuracies, enough=ENOUGH, seconds=SECONDS)
        yield {"method": method, "data": data, **found}


if __name__ == "__main__":
    given = options(__doc__)
    path = RESULTS / "implementations_noise.csv"
    table(path, rows(), ["method", "data"], kept=given.keep)
