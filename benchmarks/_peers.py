"""The sides of other libraries, run by ``utility.py``, ``real_tables.py`` and
``auditing.py`` in environments of their own: nothing of ours is needed here.

``python _peers.py SIDE FILE.npz JSON`` prints what the side makes of arrays and plain
values, as JSON.
"""

import json
import sys
import warnings
from importlib import metadata

import numpy as np


def diffprivlib(split, *, epsilons, C, releases):
    """Accuracies of its logistic regression.

    Rows have norm at most 1 and a constant feature, so that ``data_norm=1`` and no
    further intercept are what its documentation asks for: with them its noise is that
    of Chaudhuri, Monteleoni and Sarwate (2011), Algorithm 2.
    """
    from diffprivlib.models import LogisticRegression

    found = []
    for epsilon in epsilons:
        for setting in C:
            scores = []
            # each release with noise of its own
            for seed in range(releases):
                model = LogisticRegression(
                    epsilon=epsilon,
                    data_norm=1.0,
                    C=setting,
                    fit_intercept=False,
                    max_iter=1000,
                    random_state=seed,
                ).fit(split["X"], split["y"])
                scores.append(float(model.score(split["X_test"], split["y_test"])))
            found.append((epsilon, setting, scores))
    return {"version": metadata.version("diffprivlib"), "scores": found}


def jax_privacy(scores, *, cases, deltas):
    """For each case and strategy the bounds of epsilon at these deltas."""
    from jax_privacy import auditing

    found = []
    for case in range(cases):
        # its two ways to choose a threshold
        sides = {}
        for name, strategy in (
            ("Bonferroni", auditing.Bonferroni()),
            ("split", auditing.Split(0.5, seed=0)),
        ):
            auditor = auditing.CanaryScoreAuditor(*scores[f"case{case}"])
            bounds = []
            for delta in deltas:
                bound = auditor.epsilon_clopper_pearson(
                    0.05, delta, one_sided=False, threshold_strategy=strategy
                )
                bounds.append(float(bound))
            sides[name] = bounds
        found.append(sides)
    return {"version": metadata.version("jax_privacy"), "found": found}


def dp_ebm(epsilon, delta, seed, X, y):
    """Nori et al. (2021); for two classes."""
    from interpret.privacy import DPExplainableBoostingClassifier

    return DPExplainableBoostingClassifier(
        epsilon=epsilon,
        delta=delta,
        feature_types=["continuous"] * X.shape[1],
        # public bounds of the columns
        privacy_bounds=np.tile([-1.0, 1.0], (X.shape[1], 1)),
        random_state=seed,
    ).fit(X, y)


def forest(epsilon, delta, seed, X, y):
    from diffprivlib.models import RandomForestClassifier

    return RandomForestClassifier(
        epsilon=epsilon,
        bounds=(-1.0, 1.0),
        classes=np.arange(y.max() + 1),
        random_state=seed,
    ).fit(X, y)


def logistic(epsilon, delta, seed, X, y):
    """Rows are shortened to the norm."""
    from diffprivlib.models import LogisticRegression

    # a little shorter than the norm, which it checks in its own rounding
    X = X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True) * (1 + 1e-9), 1)
    model = LogisticRegression(epsilon=epsilon, data_norm=1.0, random_state=seed)
    return model.fit(X, y)


def before(epsilon, delta, seed, X, y):
    """NoisyBoosting without a linear model, in an installation that has that."""
    from dpnotes.methods import NoisyBoosting

    classes = list(range(int(y.max()) + 1))
    return NoisyBoosting(epsilon, delta, classes=classes, noise_seed=seed).fit(X, y)


MODELS = {
    "DP-EBM": dp_ebm,
    "diffprivlib forest": forest,
    "diffprivlib logistic": logistic,
    "NoisyBoosting before": before,
}


def tables(arrays, *, splits, models, epsilons, delta):
    """Model, epsilon, split and probabilities of the test rows."""
    found = []
    for place in range(splits):
        X, y, X_test = (arrays[f"{name}{place}"] for name in ("X", "y", "X_test"))
        # queries are shortened as the rows were
        norms = np.linalg.norm(X_test, axis=1, keepdims=True)
        for name in models:
            # it has two classes only
            if name == "DP-EBM" and y.max() > 1:
                continue
            queries = X_test
            if name == "diffprivlib logistic":
                queries = X_test / np.maximum(norms, 1)
            for epsilon in epsilons:
                model = MODELS[name](epsilon, delta, place, X, y)
                chances = model.predict_proba(queries).tolist()
                found.append((name, epsilon, place, chances))
    return found


if __name__ == "__main__":
    # of versions, and of fits that have not converged
    warnings.filterwarnings("ignore")
    side, path, given = sys.argv[1:]
    # nothing else is to be printed: what is, is read as the answer
    made = globals()[side](np.load(path), **json.loads(given))
    print(json.dumps(made))
