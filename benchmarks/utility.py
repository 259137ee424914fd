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

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn import datasets
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from dpnotes import accounting
from dpnotes.methods import DPSGD, LossPerturbation, ModelSensitivity
from dpnotes.preprocessing import ClipNorm, PublicScaler

from ._common import RESULTS, table

KEPT = RESULTS / "benchmarks_utility.csv"
OTHER_SIDE = Path(__file__).with_name("_diffprivlib.py")
EPSILONS, DELTA, RELEASES = (1.0, 3.0), 1e-5, 20
# l2 = 1 / (C n), as in scikit-learn and diffprivlib
C = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0]
RATES = [0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0]
STEPS = 50
# round numbers of each quantity's order of magnitude
_CELL = [30, 40, 200, 2500, 0.2, 0.5, 0.5, 0.25, 0.4, 0.1]
BOUNDS = {
    # means, their standard errors and worst values of 10 quantities
    "breast_cancer": (
        [0] * 30,
        [factor * bound for factor in (1, 0.1, 1.5) for bound in _CELL],
    ),
    # pixels are 0 to 16 by definition; bounds of one size keep zeros
    "digits": (-16, 16),
}
Split = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def prepared(name: str) -> Split:
    """Rows for training and testing of norm at most 1, with a constant feature; no
    step looks at two rows together.
    """
    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    scaled = PublicScaler(*BOUNDS[name]).fit_transform(X)
    X = ClipNorm().fit_transform(np.hstack([scaled, np.ones((len(X), 1))]))
    X_train, X_test, y_train, y_test = train_test_split(
        X, y, test_size=0.25, stratify=y, random_state=0
    )
    return X_train, y_train, X_test, y_test


def row(
    method: str, epsilon: float, setting: float, scores: np.ndarray, **about: Any
) -> dict[str, Any]:
    """One method at one setting, in plain columns."""
    std = np.std(scores, ddof=1) if len(scores) > 1 else np.nan
    return {
        "method": method,
        "epsilon": epsilon,
        "setting": setting,
        "accuracy": float(np.mean(scores)),
        "accuracy_std": float(std),
        "releases": len(scores),
        **about,
    }


def without_privacy(split: Split, settings: list[float]) -> Iterator[dict[str, Any]]:
    X, y, X_test, y_test = split
    for setting in settings:
        fitted = LogisticRegression(C=setting, fit_intercept=False, max_iter=2000).fit(
            X, y
        )
        yield row(
            "no privacy", np.inf, setting, np.array([fitted.score(X_test, y_test)])
        )


def linear(
    split: Split, settings: list[float], releases: int
) -> Iterator[dict[str, Any]]:
    """Both estimators that release a minimiser; replace-one is diffprivlib's
    adjacency, zero-out our default.
    """
    X, y, X_test, y_test = split
    n_classes = int(y.max()) + 1
    for method in (ModelSensitivity, LossPerturbation):
        for adjacency in ("replace-one", "zero-out"):
            for delta in (0.0, DELTA):
                for epsilon in EPSILONS:
                    for setting in settings:
                        estimator = method(
                            epsilon,
                            delta,
                            l2=1 / (setting * len(X)),
                            intercept=False,
                            adjacency=adjacency,
                            device="cpu",
                        )
                        made = estimator.fit_many(
                            X, y, n_classes=n_classes, n_repeats=releases, seed=0
                        )
                        scores = (
                            made.models.votes(X_test, device="cpu") == y_test
                        ).mean(axis=1)
                        about = {
                            "delta": delta,
                            "adjacency": made.profile.adjacency,
                            "status": made.profile.status,
                        }
                        yield row(method.__name__, epsilon, setting, scores, **about)


def dp_sgd(
    split: Split, settings: list[float], releases: int
) -> Iterator[dict[str, Any]]:
    """Full batches: on tables of this size a sample would be small beside its noise."""
    X, y, X_test, y_test = split
    for epsilon in EPSILONS:
        noise = accounting.dp_sgd_noise_multiplier(
            epsilon, DELTA, sample_rate=1.0, steps=STEPS
        )
        for setting in settings:
            scores = []
            for seed in range(releases):
                estimator = DPSGD(
                    noise_multiplier=noise,
                    sample_rate=1.0,
                    steps=STEPS,
                    learning_rate=setting,
                    device="cpu",
                    noise_seed=seed,
                )
                scores.append(estimator.fit(X, y).score(X_test, y_test))
            profile = estimator.profile_
            about = {
                "delta": DELTA,
                "adjacency": profile.adjacency,
                "status": profile.status,
            }
            yield row("DPSGD", epsilon, setting, np.array(scores), **about)


def diffprivlib(
    python: str, split: Split, settings: list[float], releases: int
) -> Iterator[dict[str, Any]]:
    """The other side, in the environment of ``python``."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "split.npz"
        np.savez(path, **dict(zip(("X", "y", "X_test", "y_test"), split, strict=True)))
        given = json.dumps(
            {
                "path": str(path),
                "epsilons": EPSILONS,
                "C": settings,
                "releases": releases,
            }
        )
        done = subprocess.run(
            [python, OTHER_SIDE, given], stdout=subprocess.PIPE, text=True, check=True
        )
    found = json.loads(done.stdout)
    for epsilon, setting, scores in found["scores"]:
        about = {
            "delta": 0.0,
            "adjacency": "replace-one",
            "status": "",
            "version": found["version"],
        }
        yield row("diffprivlib", epsilon, setting, np.array(scores), **about)


def rows(
    python: str | None, *, releases: int = RELEASES, every: int = 1
) -> Iterator[dict[str, Any]]:
    """All rows; those of diffprivlib where there is a Python that has it."""
    for name in BOUNDS:
        split = prepared(name)
        sides = [
            without_privacy(split, C[::every]),
            linear(split, C[::every], releases),
            dp_sgd(split, RATES[::every], releases),
        ]
        if python is not None:
            sides.insert(1, diffprivlib(python, split, C[::every], releases))
        for side in sides:
            for found in side:
                yield {
                    "data": name,
                    "n": len(split[0]),
                    "d": split[0].shape[1],
                    **found,
                }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--diffprivlib", metavar="PYTHON", help="a Python that has diffprivlib"
    )
    parser.add_argument(
        "--small", action="store_true", help="two releases, every fourth setting"
    )
    parser.add_argument(
        "--keep", action="store_true", help="store the rows for the book"
    )
    given = parser.parse_args()
    if given.keep and (given.small or not given.diffprivlib):
        parser.error(
            "--keep is for the whole benchmark, with --diffprivlib and without --small"
        )
    size = {"releases": 2, "every": 4} if given.small else {}
    table(KEPT, rows(given.diffprivlib, **size), ["data", "method"], kept=given.keep)


if __name__ == "__main__":
    main()
