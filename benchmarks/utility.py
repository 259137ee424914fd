"""Accuracy of diffprivlib's logistic regression and of our linear estimators, on two
tables of scikit-learn.

Every method gets the same rows, prepared with public bounds, the same epsilon, and a
grid of as many values of its one hyperparameter; the accuracies on held-out rows are of
20 releases each. diffprivlib is no dependency of this project, and version 0.6.6 needs
an older scikit-learn than ours, so it runs in an environment of its own:

    python -m venv other && other/bin/pip install diffprivlib==0.6.6 scikit-learn==1.5.2
    python -m benchmarks.utility --diffprivlib other/bin/python --keep

With ``--keep`` the rows are stored in ``book/results/benchmarks_utility.csv``, which
the book shows.
"""

from itertools import product

import numpy as np
from sklearn import datasets
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from dpnotes import accounting
from dpnotes.methods import DPSGD, LossPerturbation, ModelSensitivity
from dpnotes.preprocessing import ClipNorm, PublicScaler

from ._common import RESULTS, asked, options, table

EPSILONS = (1.0, 3.0)
DELTA = 1e-5
RELEASES = 20
# l2 = 1 / (C n), as in scikit-learn and diffprivlib
# as many values as rates below, so that no method has more choice
C = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0]
RATES = [0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0]
# means, their standard errors and worst values of 10 quantities: round numbers of each
# quantity's order of magnitude
CELL = np.array([30, 40, 200, 2500, 0.2, 0.5, 0.5, 0.25, 0.4, 0.1])
BOUNDS = {
    "breast_cancer": (np.zeros(30), np.concatenate([CELL, 0.1 * CELL, 1.5 * CELL])),
    # pixels are 0 to 16 by definition; bounds of one size keep zeros
    "digits": (-16, 16),
}


def prepared(name):
    """Rows for training and testing of norm at most 1, with a constant feature; no
    step looks at two rows together.
    """
    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    scaled = PublicScaler(*BOUNDS[name]).fit_transform(X)
    # the constant feature takes part in the norm
    X = ClipNorm().fit_transform(np.hstack([scaled, np.ones((len(X), 1))]))
    X_train, X_test, y_train, y_test = train_test_split(
        X, y, test_size=0.25, stratify=y, random_state=0
    )
    return X_train, y_train, X_test, y_test


def row(method, epsilon, setting, scores, **about):
    """One method at one setting, in plain columns."""
    return {
        "method": method,
        "epsilon": epsilon,
        "setting": setting,
        "accuracy": float(np.mean(scores)),
        "accuracy_std": float(np.std(scores, ddof=1)) if len(scores) > 1 else np.nan,
        "releases": len(scores),
        **about,
    }


def without_privacy(split, settings):
    X, y, X_test, y_test = split
    for setting in settings:
        model = LogisticRegression(C=setting, fit_intercept=False, max_iter=2000)
        score = model.fit(X, y).score(X_test, y_test)
        yield row("no privacy", np.inf, setting, [score])


def estimators(n, every):
    """Ours for n records, each with epsilon, delta and its setting; replace-one is
    diffprivlib's adjacency, zero-out our default.
    """
    kinds = ModelSensitivity, LossPerturbation
    adjacencies = "replace-one", "zero-out"
    grid = product(kinds, adjacencies, (0.0, DELTA), EPSILONS, C[::every])
    for kind, adjacency, delta, epsilon, setting in grid:
        l2 = 1 / (setting * n)
        how = {"intercept": False, "adjacency": adjacency, "device": "cpu"}
        yield kind(epsilon, delta, l2=l2, **how), epsilon, delta, setting
    # full batches: on tables of this size a sample would be small beside its noise
    run = {"sample_rate": 1.0, "steps": 50}
    for epsilon in EPSILONS:
        noise = accounting.dp_sgd_noise_multiplier(epsilon, DELTA, **run)
        for setting in RATES[::every]:
            how = {"learning_rate": setting, "device": "cpu", **run}
            yield DPSGD(noise_multiplier=noise, **how), epsilon, DELTA, setting


def ours(split, every, releases):
    X, y, X_test, y_test = split
    for model, epsilon, delta, setting in estimators(len(X), every):
        scores = []
        for seed in range(releases):
            # a release has noise of its own, and the split is one
            model.set_params(noise_seed=seed).fit(X, y)
            scores.append(model.score(X_test, y_test))
        about = {"delta": delta, "adjacency": model.profile_.adjacency}
        about["status"] = model.profile_.status
        yield row(type(model).__name__, epsilon, setting, scores, **about)


def diffprivlib(python, split, settings, releases):
    """The other side, in the environment of ``python``."""
    arrays = dict(zip(("X", "y", "X_test", "y_test"), split, strict=True))
    how = {"epsilons": EPSILONS, "C": settings, "releases": releases}
    found = asked(python, "diffprivlib", arrays, **how)
    about = {"delta": 0.0, "adjacency": "replace-one", "status": ""}
    for epsilon, setting, scores in found["scores"]:
        version = found["version"]
        yield row("diffprivlib", epsilon, setting, scores, **about, version=version)


def rows(python, *, releases=RELEASES, every=1):
    """All rows; those of diffprivlib where there is a Python that has it."""
    for name in BOUNDS:
        split = prepared(name)
        sides = [without_privacy(split, C[::every]), ours(split, every, releases)]
        if python:
            sides.insert(1, diffprivlib(python, split, C[::every], releases))
        n, d = split[0].shape
        for side in sides:
            for found in side:
                yield {"data": name, "n": n, "d": d, **found}


if __name__ == "__main__":
    given = options(__doc__, "diffprivlib")
    path = RESULTS / "benchmarks_utility.csv"
    table(path, rows(given.diffprivlib), ["data", "method"], kept=given.keep)
