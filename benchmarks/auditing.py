"""How near audits come to the truth, where it is known, beside jax_privacy's
CanaryScoreAuditor on the same scores.

jax_privacy is no dependency of this project, and runs in an environment of its own:

    python -m venv other && other/bin/pip install jax_privacy==2.0.0
    python -m benchmarks.auditing --jax other/bin/python --keep

Of Gaussian noise the quantity is mu, of bagging delta at epsilon = 1 (the chance pi
that a record is drawn), of others the advantage, delta at epsilon = 0. jax_privacy
bounds epsilon alone: from its bounds at the deltas of a grid follow bounds of mu (that
of the Gaussian noise of this epsilon and delta) and of delta (the largest with a bound
above the epsilon), of which the best counts; what that costs it in confidence is not
charged. With ``--keep`` the rows are stored in
``book/results/benchmarks_auditing.csv``.
"""

import numpy as np
import pandas as pd

from dpnotes.accounting import bagging, dp_sgd, gaussian_sigma, laplace, pure
from dpnotes.auditing import audit_scores

from ._common import RESULTS, asked, options, table

# of each kind, with a record and without; and audits of each
RUNS = (50, 100, 300, 1000, 3000)
REPEATS = 12
# at most 2.5 % is lost between two of them
DELTAS = [0.0, 1e-5, 1e-3, 0.005, 0.01, *np.geomspace(0.02, 0.8, 150).tolist()]
RATE = 0.3
STEPS = 10
BAGGING = bagging(n=100, subsample=20)
DP_SGD = dp_sgd(noise_multiplier=1.0, sample_rate=RATE, steps=STEPS)


def near(g, n):
    return g.normal(1.0, size=n), g.normal(size=n)


def far(g, n):
    return g.normal(4.0, size=n), g.normal(size=n)


def spiked(g, n):
    return g.laplace(1.0, size=n), g.laplace(size=n)


def drawn(g, n):
    """Whether a record was drawn, seen through some noise."""
    # a gap that the noise never closes
    shown = 5.0 * (g.random(n) < BAGGING.advantage)
    return shown + g.normal(size=n) / 5, g.normal(size=n) / 5


def answered(g, n):
    """Randomised response at epsilon = 2."""
    true = 1 / (1 + np.exp(-2.0))
    members = g.random(n) < true
    return members.astype(float), (g.random(n) > true).astype(float)


def descended(g, n):
    """Likelihood ratios of all noisy steps of DP-SGD, of a record whose gradient is
    as long as the clipping norm.
    """
    noise = g.normal(size=(2, n, STEPS))
    # the record is in some of the batches
    noise[0] += g.random((n, STEPS)) < RATE
    return tuple(np.log1p(RATE * np.expm1(noise - 0.5)).sum(axis=2))


# scores, the quantity, and its true value
CASES = {
    "Gaussian, mu = 1": (near, "mu", 1.0),
    "Gaussian, mu = 4": (far, "mu", 4.0),
    "Laplace, epsilon = 1": (spiked, "advantage", laplace(scale=1.0).advantage),
    "DP-SGD, all of ten steps": (descended, "advantage", DP_SGD.advantage),
    "bagging, pi = 0.18": (drawn, "pi", BAGGING.delta(1.0)),
    "randomised response, epsilon = 2": (answered, "advantage", pure(2.0).advantage),
}
# at which a quantity is a delta
EPSILON = {"pi": 1.0, "advantage": 0.0}


def theirs(bounds, deltas, quantity):
    """Bound of the quantity from bounds of epsilon at ``deltas``."""
    best = 0.0
    for delta, bound in zip(deltas, bounds, strict=True):
        if quantity == "mu":
            if bound > 0 and delta > 0:
                best = max(best, 1 / gaussian_sigma(bound, delta))
        elif bound > EPSILON[quantity]:
            # a bound above the epsilon says that delta there is more than this one
            best = max(best, delta)
    return best


def bounds(sizes, repeats, python):
    """Each side's bound of each set of scores, and the other side's version."""
    found = []
    scores = {}
    for name, (draw, quantity, truth) in CASES.items():
        for size in sizes:
            for seed in range(repeats):
                # both libraries get the same scores
                sides = draw(np.random.default_rng([seed, size]), size)
                report = audit_scores(*sides, random_state=seed)
                if quantity == "mu":
                    bound = report.mu
                else:
                    bound = report.delta(EPSILON[quantity])
                found.append((name, quantity, truth, size, "dpnotes", float(bound)))
                scores[f"case{len(scores)}"] = np.stack(sides)
    if not python:
        return found, ""
    other = asked(python, "jax_privacy", scores, cases=len(scores), deltas=DELTAS)
    for own, answers in zip(list(found), other["found"], strict=True):
        for name, low in answers.items():
            bound = theirs(low, DELTAS, own[1])
            found.append((*own[:4], f"jax_privacy, {name}", bound))
    return found, other["version"]


def rows(sizes, repeats, python=None):
    """For each mechanism, size and side the median bound, as a fraction of the
    truth, and how often it is above.
    """
    keys = ["mechanism", "quantity", "truth", "size", "side"]
    found, version = bounds(sizes, repeats, python)
    flat = pd.DataFrame(found, columns=[*keys, "bound"])
    flat["fraction"] = flat["bound"] / flat["truth"]
    flat["above"] = flat["bound"] > flat["truth"]
    means = flat.groupby(keys, sort=False, as_index=False).agg(
        bound=("bound", "median"),
        fraction=("fraction", "median"),
        above=("above", "sum"),
        repeats=("bound", "size"),
    )
    return means.assign(version=version).to_dict("records")


if __name__ == "__main__":
    given = options(__doc__, "jax")
    found = rows(RUNS, REPEATS, given.jax)
    path = RESULTS / "benchmarks_auditing.csv"
    table(path, found, ["mechanism", "size", "side"], kept=given.keep)
