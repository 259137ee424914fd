"""Private classifiers of other libraries, and of an earlier dpnotes, on splits that
``real_tables.py`` wrote; to be run by a Python that has the library.
"""

import json
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

Model = Callable[[float, float, int, np.ndarray, np.ndarray], Any]


def dp_ebm(
    epsilon: float, delta: float, seed: int, X: np.ndarray, y: np.ndarray
) -> Any:
    """Nori et al. (2021); for two classes."""
    from interpret.privacy import DPExplainableBoostingClassifier

    d = X.shape[1]
    model = DPExplainableBoostingClassifier(
        epsilon=epsilon,
        delta=delta,
        feature_types=["continuous"] * d,
        privacy_bounds=np.tile([-1.0, 1.0], (d, 1)),
        random_state=seed,
    )
    return model.fit(X, y)


def forest(
    epsilon: float, delta: float, seed: int, X: np.ndarray, y: np.ndarray
) -> Any:
    from diffprivlib.models import RandomForestClassifier

    model = RandomForestClassifier(
        epsilon=epsilon,
        bounds=(-1.0, 1.0),
        classes=np.arange(y.max() + 1),
        random_state=seed,
    )
    return model.fit(X, y)


def logistic(
    epsilon: float, delta: float, seed: int, X: np.ndarray, y: np.ndarray
) -> Any:
    """Rows are shortened to the norm."""
    from diffprivlib.models import LogisticRegression

    model = LogisticRegression(epsilon=epsilon, data_norm=1.0, random_state=seed)
    return model.fit(X, y)


def before(
    epsilon: float, delta: float, seed: int, X: np.ndarray, y: np.ndarray
) -> Any:
    """NoisyBoosting without a linear model, in an installation that has that."""
    from dpnotes.methods import NoisyBoosting

    classes = list(range(int(y.max()) + 1))
    return NoisyBoosting(epsilon, delta, classes=classes, noise_seed=seed).fit(X, y)


MODELS: dict[str, Model] = {
    "DP-EBM": dp_ebm,
    "diffprivlib forest": forest,
    "diffprivlib logistic": logistic,
    "NoisyBoosting before": before,
}


def chances(given: dict[str, Any]) -> Iterator[tuple[str, np.ndarray]]:
    """Probabilities of the test rows for each model, epsilon and split."""
    splits = np.load(given["path"])
    for place in range(given["splits"]):
        X, y, X_test = (splits[f"{name}{place}"] for name in ("X", "y", "X_test"))
        norms = np.linalg.norm(X, axis=1, keepdims=True)
        norms_test = np.linalg.norm(X_test, axis=1, keepdims=True)
        for name in given["models"]:
            if name == "DP-EBM" and y.max() > 1:
                continue
            rows, queries = X, X_test
            if name == "diffprivlib logistic":
                rows = X / np.maximum(norms * (1 + 1e-9), 1)
                queries = X_test / np.maximum(norms_test, 1)
            for epsilon in given["epsilons"]:
                model = MODELS[name](epsilon, given["delta"], place, rows, y)
                yield f"{name}|{epsilon}|{place}", model.predict_proba(queries)


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    np.savez(sys.argv[2], **dict(chances(json.loads(sys.argv[1]))))
