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

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone

import dpnotes
from dpnotes.accounting import (
    PrivacyProfile,
    approximate,
    clopper_pearson,
    dp_sgd,
)
from dpnotes.auditing import Betting
from dpnotes.comparing import estimators
from dpnotes.lab.audits import STRATEGIES
from dpnotes.lab.store import provenance
from dpnotes.preprocessing import ClipNorm

from ._faults import ATTAINED, FAULTS, NORM, SOUND, Descent, Target, table

RESULTS = Path(__file__).resolve().parents[1] / "book" / "results"
ABOUT = ("machine", "python", "commit", "date")
DELTA = 1e-5
# at which bounds of delta are compared with the claim
EPSILONS = np.append(0.0, np.geomspace(0.1, 10, 10))
BUDGETS = (1.0, 3.0, 10.0, 30.0, 120.0)  # seconds, of the curve
EMPTY = 2  # the label of an empty record
Row = dict[str, Any]
Train = Callable[[Any, Any, int], Any]
# what tells a row, and how the rest of it is found
Planned = tuple[Row, Callable[[], Row]]


def fraction(delta: Callable[[Any], Any], claim: PrivacyProfile) -> float:
    """The largest part of the claim's delta that a lower bound reaches."""
    return float(
        np.max(np.asarray(delta(EPSILONS)) / np.maximum(claim.delta(EPSILONS), 1e-12))
    )


def scored(target: Target) -> Any:
    """The training; with a score of its author, one that gives a function of
    records: the score for each class.
    """

    def train(X: Any, y: Any, seed: int) -> Any:
        result = target.train(X, y, seed)
        return lambda records: np.array(
            [target.score(result, records[0], label) for label in (0, 1)]
        )

    return target.train if target.score is None else train


def audited(
    target: Target, seconds: float, random_state: int = 0, runs: int | None = None
) -> Row:
    """A row of what ``audit`` finds, within a budget of runs if there is one."""
    X, y = table()
    claim = target.claim()
    settings = {
        "claim": claim,
        "seconds": seconds,
        "runs": runs,
        "domain": NORM,
        "random_state": random_state,
    }
    report = dpnotes.audit(scored(target), X, y, **settings)
    how, _, canary = report.strategy.partition("; canary: ")
    strategy, _, event = how.partition(": ")
    return {
        "refuted": report.refuted,
        "p_value": report.p_value,
        "seconds": round(report.seconds, 1),
        "runs": report.runs,
        "strategy": strategy,
        "canary": canary.partition(",")[0],
        "event": event.removeprefix("event ").partition(",")[0],
        "epsilon_claimed": claim.epsilon(DELTA),
        "epsilon": report.epsilon(DELTA),
        "mu": report.mu,
        "fraction": fraction(report.delta, claim),
    }


def planned(
    name: str, target: Target, seconds: float, seed: int = 0, **asked: str
) -> Planned:
    head = {
        "training": name,
        "random_state": seed,
        "words": target.words,
        **asked,
        "budget": seconds,
    }
    return head, partial(audited, target, seconds, seed)


def faults() -> Iterator[Planned]:
    yield from (planned(name, target, 120.0) for name, target in FAULTS.items())


def sound() -> Iterator[Planned]:
    for seed in range(100):
        for name, target in SOUND.items():
            slow = hasattr(target.train, "fit")
            if slow and seed >= 10:
                continue
            runs = 300 if slow else 600
            head = {"training": name, "random_state": seed, "words": target.words}
            audit = partial(audited, target, 5.0, seed, runs)
            yield head | {"budget": runs}, audit


def curve() -> Iterator[Planned]:
    for name, target in (
        ATTAINED | {"Poisson samples": SOUND["Poisson samples"]}
    ).items():
        yield from (
            planned(name, target, seconds, asked=STRATEGIES[0]) for seconds in BUDGETS
        )


def strategies() -> Iterator[Planned]:
    ways = (None, bets)
    for name, target in SOUND.items():
        for asked, way in zip(STRATEGIES, ways, strict=True):
            head, by_audit = planned(name, target, 30.0, asked=asked)
            yield (
                head,
                by_audit if way is None else partial(way, target, target.claim(), 30.0),
            )


# Betting, which audit does not choose: by the plain functions, with a canary that it
# found


def fitted(target: Target) -> Train:
    """The training as a function; an estimator takes an empty record in place of one
    that is left out.
    """
    if not hasattr(target.train, "get_params"):
        return target.train
    return lambda X, y, seed: clone(target.train).set_params(noise_seed=seed).fit(X, y)


def shown(result: Any, x: Any, label: int) -> list[float]:
    """Scores of a result for a record."""
    if hasattr(result, "coef_"):
        along = float(np.ravel(result.coef_[-1] @ x)[0])
        return [along, along + float(result.intercept_[-1])]
    if hasattr(result, "predict_proba"):
        return [float(result.predict_proba(x[None])[0, label])]
    numbers = np.ravel(result)
    return [*numbers, float(numbers[: len(x)] @ x[: len(numbers)])]


def bets(target: Target, claim: PrivacyProfile, seconds: float) -> Row:
    """Betting on pairs of runs, with the canary of an audit in a quarter of the
    time.
    """
    X, y = table()
    began, train = time.perf_counter(), fitted(target)
    report = dpnotes.audit(
        scored(target), X, y, claim=claim, seconds=seconds / 4, domain=NORM
    )
    x, label = report.canary
    without = (
        (X, y)
        if train is target.train
        else (np.vstack([0 * x, X]), np.append(EMPTY, y))
    )
    pairs: list[tuple[Any, Any]] = []
    while time.perf_counter() - began < seconds:
        seed = 2 * len(pairs)
        results = (
            train(np.vstack([x, X]), np.append(label, y), seed),
            train(*without, seed + 1),
        )
        pairs.append(tuple(shown(result, x, label) for result in results))
    audit = _replayed(claim, pairs)
    low = [
        _largest(lambda delta, e=e: _replayed(approximate(e, delta), pairs).refuted)
        for e in EPSILONS
    ]
    runs, own = (
        report.runs + 2 * len(pairs),
        {"refuted": audit.refuted, "p_value": audit.p_value},
    )
    return own | {
        "seconds": seconds,
        "runs": runs,
        "fraction": fraction(lambda _: low, claim),
    }


def _replayed(claim: PrivacyProfile, pairs: list[tuple[Any, Any]]) -> Betting:
    audit = Betting(claim, adjacency=claim.adjacency)
    for pair in pairs[:20_000]:
        audit.update(*pair)
    return audit


def _largest(refuted: Callable[[float], bool], steps: int = 7) -> float:
    low, high = 0.0, 1.0
    for _ in range(steps):
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low


# What is compared, together at a familywise confidence of 0.95

# a delta that is large enough for bagging
ROWS, COLUMNS, TASK_DELTA, ANSWERS = 200, 8, 0.02, 8
ASKED = (1.0, 4.0)


def methods() -> Iterator[Planned]:
    """Each method of ``compare``, at two budgets."""
    cancer = dpnotes.data.load("breast_cancer")
    X = ClipNorm().fit_transform(
        2 * np.asarray(cancer.X_train[:ROWS, :COLUMNS], dtype=np.float64) - 1
    )
    y = cancer.y_train[:ROWS].astype(np.int64)
    budgets = [
        estimators(epsilon, TASK_DELTA, classes=(0, 1), answers=ANSWERS, noise_seed=0)
        for epsilon in ASKED
    ]
    confidence = 1 - 0.05 / sum(map(len, budgets))

    def found(train: Any, claim: PrivacyProfile, seconds: float) -> Row:
        try:
            report = dpnotes.audit(
                train,
                X,
                y,
                claim=claim,
                seconds=seconds,
                domain=1.0,
                confidence=confidence,
            )
        except ValueError:  # too few seconds for what takes long to train
            if seconds > 20:
                raise
            return found(train, claim, 8 * seconds)
        return {
            "refuted": report.refuted,
            "p_value": report.p_value,
            "confidence": confidence,
            "seconds": round(report.seconds, 1),
            "runs": report.runs,
            "canary": report.strategy.partition("; canary: ")[2].partition(",")[0],
            "epsilon_claimed": claim.epsilon(DELTA),
            "epsilon": report.epsilon(TASK_DELTA),
            "claimed_at_delta": claim.epsilon(TASK_DELTA),
            "budget": seconds,
        }

    for epsilon, models in zip(ASKED, budgets, strict=True):
        for name, model in models.items():
            claim = clone(model).fit(X, y).profile_
            head = {"training": name, "random_state": 0, "asked": f"{epsilon:g}"}
            yield head, partial(found, model, claim, 20.0)


# What could be seen at the best epsilon, however long


def visible() -> Iterator[Planned]:
    """Of claims of DP-SGD that publishes its last weights alone, as fractions of the
    claim.

    ``accounted``: what exact accounting leaves of it; ``last``: what of it the last
    weights show along the gradient of one record; ``seen``: what they show by one of
    norm 1.
    """
    model = SOUND["DPSGD"].train
    # of two classes: gradients are those of one logit, sqrt(2) times as long
    softmax = Descent(
        model.steps,
        model.sample_rate,
        model.noise_multiplier,
        clip=model.clipping_norm / math.sqrt(2),
    )
    for name, training in (
        ("Poisson samples", SOUND["Poisson samples"].train),
        ("DPSGD", softmax),
    ):
        exact = dp_sgd(
            noise_multiplier=training.noise,
            sample_rate=training.rate,
            steps=training.steps,
        )
        length, claim = training.length(*table()), SOUND[name].claim()
        shows = {
            "accounted": exact.delta,
            "last": training.shown,
            "seen": partial(training.shown, length=length),
        }
        yield {"training": name}, partial(_fractions, shows, claim)


def _fractions(shows: dict[str, Any], claim: PrivacyProfile) -> Row:
    return {kind: fraction(delta, claim) for kind, delta in shows.items()}


PARTS = {  # and what tells its rows apart
    faults: ("training",),
    sound: ("training", "random_state"),
    curve: ("training", "budget"),
    strategies: ("training", "asked"),
    methods: ("training", "asked"),
    visible: ("training",),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", choices=[part.__name__ for part in PARTS])
    parser.add_argument(
        "--keep", action="store_true", help="store the rows for the book"
    )
    given = parser.parse_args()
    part, names = next(
        (part, names) for part, names in PARTS.items() if part.__name__ == given.part
    )
    path = RESULTS / f"audits_{given.part}.csv"
    there = given.keep and path.is_file()
    rows = (
        pd.read_csv(path, dtype=str, keep_default_na=False).to_dict("records")
        if there
        else []
    )
    known = {tuple(row[name] for name in names) for row in rows}
    about, p_values = {name: provenance().get(name) for name in ABOUT}, []
    for head, compute in part():
        if tuple(text(head[name]) for name in names) in known:
            continue
        try:
            row = head | compute()
        except ValueError as error:  # too few seconds on a busy machine
            print(head["training"], error, flush=True)
            continue
        print(*row.values(), sep="  ", flush=True)
        p_values += [row["p_value"]] if "p_value" in row else []
        rows.append({name: text(value) for name, value in (row | about).items()})
        if given.keep:
            draft = path.with_suffix(".new")
            pd.DataFrame(rows).to_csv(draft, index=False)
            draft.replace(path)  # whole or not at all
    for level in (0.05, 0.01) if p_values else ():
        refuted = sum(p_value <= level for p_value in p_values)
        low, high = clopper_pearson(refuted, len(p_values))
        print(
            f"{refuted} of {len(p_values)} refuted at {1 - level:g}: {low:.2%} to"
            f" {high:.2%}"
        )


def text(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main()
