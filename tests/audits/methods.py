"""Audit what is compared, and the private choice: ``python -m tests.audits.methods``; with ``--keep`` for the book.

Each method at two settings, those of other libraries where they are installed, and the private selection; all together
at a familywise confidence of 0.95. What is kept is not done again.
"""

import argparse
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

import dpnotes
from dpnotes.accounting import pure
from dpnotes.comparing import OTHERS, OURS, Candidate, Task, Unsuited, private_choice
from dpnotes.lab.store import provenance
from dpnotes.preprocessing import ClipNorm
from tests.audits.__main__ import ABOUT, DELTA, keep, kept

STORE = "audits_methods"
ROWS, COLUMNS = 200, 8
BUDGETS = ((1.0, 0), (4.0, 1))  # epsilon, and which of the method's settings
TASK_DELTA = 0.02  # large enough for bagging
ANSWERS, BLOCKS = 8, 4
SLOW = 8  # times as much for what takes long to train
SELECTION = "private choice"


def table() -> tuple[Any, Any]:
    """Records of breast cancer in the unit ball."""
    found = dpnotes.data.load("breast_cancer")
    rows = 2 * np.asarray(found.X_train[:ROWS, :COLUMNS], dtype=np.float64) - 1
    return ClipNorm().fit_transform(rows), found.y_train[:ROWS].astype(np.int64)


def task(epsilon: float) -> Task:
    return Task(ROWS, COLUMNS, (0, 1), epsilon, TASK_DELTA, ANSWERS, 0)


def fitted(candidate: Candidate, epsilon: float, which: int) -> Any:
    """The estimator at the setting of that number among those that suit the task.

    Raises
    ------
    Unsuited
        If none does.
    """
    reason = Unsuited("no setting")
    found = []
    for setting in candidate.settings:
        try:
            found.append(candidate.made(task(epsilon), setting))
        except Unsuited as error:
            reason = error
    if not found:
        raise reason
    return found[min(which, len(found) - 1)]


def answers(result: Any, x: Any, label: Any) -> float:
    """Score of a method with a budget: how often it gives the canary its label, all answers being asked for it."""
    return float(np.mean(result.predict(np.tile(x, (ANSWERS, 1))) == label))


def choice(shortlist: list[Any], epsilon: float, X: Any, y: Any, seed: int) -> int:
    return private_choice(
        shortlist, X, y, task(epsilon), epsilon=epsilon, n_blocks=BLOCKS, random_state=0, noise_seed=seed, n_jobs=1
    )


def targets() -> Iterator[tuple[str, float, Any, Any, dict[str, Any]]]:
    """Name, epsilon, training, claim and what else to audit with, of each audit."""
    X, y = table()
    named = {candidate.name: candidate for candidate in (*OURS, *OTHERS)}
    for name, candidate in named.items():
        for epsilon, which in BUDGETS if candidate.released != "nothing" else ():
            try:
                estimator = fitted(candidate, epsilon, which)
            except Unsuited as reason:
                print(name, reason, sep=": ", flush=True)
                break
            # one canary alone, as each that is asked for takes all answers of a result
            more = {"score": answers, "canaries": ["out of distribution"]} if candidate.released == "answers" else {}
            yield name, epsilon, estimator, estimator.fit(X, y).profile_, more
    shortlist = [(named[name], named[name].settings[0]) for name in ("ClassMeans", "majority class")]
    for epsilon, _ in BUDGETS:
        claim = pure(epsilon, adjacency="zero-out")
        yield SELECTION, epsilon, partial(choice, shortlist, epsilon), claim, {"empty": (np.zeros(COLUMNS), 2)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="only these methods")
    parser.add_argument("--seconds", type=float, default=20.0, help="of each audit")
    parser.add_argument("--keep", action="store_true", help=f"store the rows in book/results/{STORE}.csv")
    given = parser.parse_args()
    X, y = table()
    about = {name: provenance().get(name) for name in ABOUT}
    wanted = [each for each in targets() if not given.names or each[0] in given.names]
    confidence = 1 - 0.05 / (2 * len([*OURS, *OTHERS]))  # more audits than there are: no name chooses the level
    known = {(row["training"], float(row["asked"])) for row in kept(STORE)} if given.keep else set()
    for name, epsilon, train, claim, more in wanted:
        if (name, epsilon) in known:
            continue
        fixed = {"claim": claim, "norm": 1.0, "classes": (0, 1), "confidence": confidence, "strategy": "many runs"}
        report = None
        for seconds in (given.seconds, SLOW * given.seconds):
            try:
                report = dpnotes.audit(train, X, y, seconds=seconds, **fixed, **more)
                break
            except ValueError as error:  # too few seconds
                print(name, error, flush=True)
        if report is None:
            continue
        row = {
            "training": name,
            "random_state": 0,
            "asked": f"{epsilon:g}",
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
        print(*row.values(), sep="  ", flush=True)
        if given.keep:
            keep(STORE, row | about)
    return 0


if __name__ == "__main__":
    sys.exit(main())
