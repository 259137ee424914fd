"""What audits find, on trainings with planted faults, on sound ones and on what
``compare`` compares.

    python -m benchmarks.audit_faults faults --keep

``faults``: is each refuted, in two minutes of one process? ``sound``: again and again
in a few hundred runs, how often is one refuted? ``curve``: of known truth, how near is the
bound in more and more time? ``strategies``: many runs and bets, in 30 seconds.
``methods``: private learners. ``visible``: what the last weights
of DP-SGD could show (no runs).

With ``--keep`` rows go to ``book/results/audits_NAME.csv``, and what is there is not
done again.
"""

import math
import time
from contextlib import suppress
from functools import partial

import numpy as np
import pandas as pd
from sklearn.base import clone

import dpnotes
from dpnotes.accounting import approximate, clopper_pearson
from dpnotes.auditing import Betting
from dpnotes.comparing import estimators
from dpnotes.lab.audits import STRATEGIES
from dpnotes.preprocessing import ClipNorm

from ._common import RESULTS, keep, options
from ._faults import ATTAINED, FAULTS, NORM, SOUND, Descent, table

DELTA = 1e-5
# at which bounds of delta are compared with the claim
EPSILONS = np.append(0.0, np.geomspace(0.1, 10, 10))
BUDGETS = (1.0, 3.0, 10.0, 30.0, 120.0)  # seconds, of the curve


def fraction(delta, claim):
    """The largest part of the claim's delta that a lower bound reaches."""
    # no division by a claim of 0
    claimed = np.maximum(claim.delta(EPSILONS), 1e-12)
    return float(np.max(np.asarray(delta(EPSILONS)) / claimed))


def audit(target, seconds, seed=0, runs=None):
    """An audit; with a score of the author, of a training that gives a function of
    records: the score for each class.
    """

    def scored(X, y, seed):
        result = target.train(X, y, seed)

        def scores(records):
            return np.array([target.score(result, records[0], c) for c in (0, 1)])

        return scores

    return dpnotes.audit(
        target.train if target.score is None else scored,
        *table(),
        claim=target.claim(),
        seconds=seconds,
        runs=runs,
        domain=NORM,
        random_state=seed,
    )


def found(report, claim):
    return {
        "refuted": report.refuted,
        "p_value": report.p_value,
        "seconds": round(report.seconds, 1),
        "runs": report.runs,
        "canary": report.strategy.partition("; canary: ")[2].partition(",")[0],
        "epsilon_claimed": claim.epsilon(DELTA),
    }


def audited(target, seconds, seed=0, runs=None):
    """A row of what ``audit`` finds, within a budget of runs if there is one."""
    claim = target.claim()
    report = audit(target, seconds, seed, runs)
    strategy, _, event = report.strategy.partition("; canary: ")[0].partition(": ")
    return {
        **found(report, claim),
        "strategy": strategy,
        "event": event.removeprefix("event ").partition(",")[0],
        "epsilon": report.epsilon(DELTA),
        "mu": report.mu,
        "fraction": fraction(report.delta, claim),
    }


# Each part gives rows: what tells a row, and a function that finds the rest of it.


def head(name, target, **more):
    return {"training": name, "random_state": 0, "words": target.words, **more}


def faults():
    for name, target in FAULTS.items():
        yield head(name, target, budget=120.0), partial(audited, target, 120.0)


def sound():
    for seed in range(100):
        for name, target in SOUND.items():
            # estimators take seconds a fit
            slow = hasattr(target.train, "fit")
            if slow and seed >= 10:
                continue
            runs = 300 if slow else 600
            about = head(name, target, budget=runs, random_state=seed)
            yield about, partial(audited, target, 5.0, seed, runs)


def curve():
    targets = ATTAINED | {"Poisson samples": SOUND["Poisson samples"]}
    for name, target in targets.items():
        for seconds in BUDGETS:
            about = head(name, target, asked=STRATEGIES[0], budget=seconds)
            yield about, partial(audited, target, seconds)


def strategies():
    for name, target in SOUND.items():
        for asked, way in zip(STRATEGIES, (audited, bets), strict=True):
            yield head(name, target, asked=asked, budget=30.0), partial(way, target, 30)


# Betting, which audit does not choose: by the plain functions, with a canary that it
# found


def shown(result, x, label):
    """Scores of a result for a record."""
    # of estimators what their attributes say
    if hasattr(result, "coef_"):
        along = float(np.ravel(result.coef_[-1] @ x)[0])
        return [along, along + float(result.intercept_[-1])]
    if hasattr(result, "predict_proba"):
        return [float(result.predict_proba(x[None])[0, label])]
    numbers = np.ravel(result)
    return [*numbers, float(numbers[: len(x)] @ x[: len(numbers)])]


def bets(target, seconds):
    """Betting on pairs of runs, with the canary of an audit in a quarter of the
    time.
    """
    X, y = table()
    began = time.perf_counter()
    claim = target.claim()
    report = audit(target, seconds / 4)
    x, label = report.canary
    member = np.vstack([x, X]), np.append(label, y)
    other = X, y
    train = target.train
    if hasattr(train, "get_params"):
        # an estimator takes an empty record, of no class, in place of one left out
        other = np.vstack([0 * x, X]), np.append(2, y)

        def train(X, y, seed):
            return clone(target.train).set_params(noise_seed=seed).fit(X, y)

    pairs = []
    while time.perf_counter() - began < seconds:
        # no two runs share a seed
        sides = train(*member, 2 * len(pairs)), train(*other, 2 * len(pairs) + 1)
        pairs.append([shown(result, x, label) for result in sides])

    def replayed(claim):
        bet = Betting(claim, adjacency=claim.adjacency)
        for pair in pairs[:20_000]:
            bet.update(*pair)
        return bet

    low = []
    for epsilon in EPSILONS:
        # the largest delta that is refuted, by bisection to 1 / 128
        delta = 0.0
        for step in 0.5 ** np.arange(1, 8):
            if replayed(approximate(epsilon, delta + step)).refuted:
                delta += step
        low.append(delta)
    bet = replayed(claim)
    return {
        "refuted": bet.refuted,
        "p_value": bet.p_value,
        "seconds": seconds,
        "runs": report.runs + 2 * len(pairs),
        "fraction": fraction(lambda _: low, claim),
    }


def methods():
    """Each method of ``compare``, at two budgets, together at a familywise confidence
    of 0.95; delta is large enough for bagging.
    """
    delta = 0.02
    cancer = dpnotes.data.load("breast_cancer")
    # columns in [-1, 1], then rows in the unit ball
    rows = 2 * np.asarray(cancer.X_train[:200, :8], dtype=np.float64) - 1
    X = ClipNorm().fit_transform(rows)
    y = cancer.y_train[:200].astype(np.int64)
    how = {"classes": (0, 1), "answers": 8, "noise_seed": 0}
    chosen = []
    for epsilon in (1.0, 4.0):
        for name, model in estimators(epsilon, delta, **how).items():
            chosen.append((name, epsilon, model))
    # by Bonferroni
    confidence = 1 - 0.05 / len(chosen)

    def compared(model, claim):
        # again where the first are too few for what takes long to train
        for seconds in (20.0, 160.0):
            with suppress(ValueError):
                how = {"seconds": seconds, "domain": 1.0, "confidence": confidence}
                report = dpnotes.audit(model, X, y, claim=claim, **how)
                break
        return {
            **found(report, claim),
            "confidence": confidence,
            "epsilon": report.epsilon(delta),
            "claimed_at_delta": claim.epsilon(delta),
            "budget": seconds,
        }

    for name, epsilon, model in chosen:
        about = {"training": name, "random_state": 0, "asked": f"{epsilon:g}"}
        claim = clone(model).fit(X, y).profile_
        yield about, partial(compared, model, claim)


def visible():
    """Of claims of DP-SGD that publishes its last weights alone, as fractions of the
    claim: what could be seen at the best epsilon, however long.

    ``accounted``: what exact accounting leaves of it; ``last``: what of it the last
    weights show along the gradient of one record; ``seen``: what they show by one of
    norm 1.
    """
    model = SOUND["DPSGD"].train
    # of two classes: gradients are those of one logit, sqrt(2) times as long
    clip = model.clipping_norm / math.sqrt(2)
    run = model.steps, model.sample_rate, model.noise_multiplier
    trainings = {"Poisson samples": SOUND["Poisson samples"].train}
    trainings["DPSGD"] = Descent(*run, clip=clip)
    for name, training in trainings.items():
        # by loss distributions, where the estimator's own is by Renyi divergences
        exact = training.claim()
        claim = SOUND[name].claim()
        seen = partial(training.shown, length=training.length(*table()))
        row = {
            "accounted": fraction(exact.delta, claim),
            "last": fraction(training.shown, claim),
            "seen": fraction(seen, claim),
        }
        yield {"training": name}, row.copy


PARTS = {  # and what tells its rows apart
    faults: ["training"],
    sound: ["training", "random_state"],
    curve: ["training", "budget"],
    strategies: ["training", "asked"],
    methods: ["training", "asked"],
    visible: ["training"],
}


def main():
    parts = {part.__name__: part for part in PARTS}
    given = options(__doc__, parts=parts)
    part = parts[given.part]
    names = PARTS[part]
    path = RESULTS / f"audits_{given.part}.csv"
    known = set()
    if given.keep and path.is_file():
        there = pd.read_csv(path, dtype=str)
        known = set(there[names].itertuples(index=False, name=None))
    p_values = []
    for about, compute in part():
        # as in the file
        if tuple(f"{about[name]}".removesuffix(".0") for name in names) in known:
            continue
        try:
            row = about | compute()
        except ValueError as error:
            # too few seconds on a busy machine
            print(about["training"], error, flush=True)
            continue
        print(*row.values(), sep="  ", flush=True)
        if "p_value" in row:
            p_values.append(row["p_value"])
        if given.keep:
            keep(path, [row], names)
    for level in (0.05, 0.01) if p_values else ():
        refuted = sum(p_value <= level for p_value in p_values)
        low, high = clopper_pearson(refuted, len(p_values))
        print(
            f"{refuted} of {len(p_values)} refuted at {1 - level:g}: {low:.2%} to"
            f" {high:.2%}"
        )


if __name__ == "__main__":
    main()
