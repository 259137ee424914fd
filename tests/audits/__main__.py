"""Audit the planted faults and the sound trainings: ``python -m tests.audits``; with ``--keep`` for the book.

Each fault gets two minutes of one process, in which an audit should refute it; sound trainings get short audits, again
and again, of which few may be refuted, and with ``--strategies`` one audit by each strategy, all in the same time: how
near do they come to what is claimed? With ``--curve`` those of which the truth is known get many runs in more and more
time. What is kept is not done again; a fault that is named is.
"""

import argparse
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import dpnotes
from dpnotes.accounting import clopper_pearson
from dpnotes.lab.faults import ATTAINED, FAULTS, SOUND, Target
from dpnotes.lab.faults.catalogue import NORM, table
from dpnotes.lab.faults.tables import EPSILONS, STRATEGIES
from dpnotes.lab.store import provenance, published_store

ABOUT = ("machine", "python", "commit", "date")
DELTA = 1e-5
BUDGETS = (1.0, 3.0, 10.0, 30.0, 120.0)  # seconds, of the curve
CURVE = ATTAINED | {"Poisson samples": SOUND["Poisson samples"]}


def audited(target: Target, seconds: float, random_state: int, strategy: str = "auto") -> dict[str, Any]:
    """A row of what one audit found."""
    X, y = table()
    claim = claimed(target)
    report = dpnotes.audit(
        target.train,
        X,
        y,
        claim=claim,
        seconds=seconds,
        score=target.score,
        norm=NORM,
        strategy=strategy,
        random_state=random_state,
    )
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
        "fraction": np.max(np.asarray(report.delta(EPSILONS)) / np.maximum(claim.delta(EPSILONS), 1e-12)),
    }


@cache
def claimed(target: Target) -> Any:
    return target.claim()


def kept(name: str) -> list[dict[str, Any]]:
    path = published_store(name)
    return pd.read_csv(path, dtype=str).to_dict("records") if path.is_file() else []


def keep(name: str, row: dict[str, Any]) -> None:
    """Store a row, in place of an earlier one of the same training, seed, strategy and time."""
    texts = {column: f"{value:.6g}" if isinstance(value, float) else str(value) for column, value in row.items()}
    rows = {key(old): old for old in kept(name)} | {key(texts): texts}
    path = published_store(name)
    draft = Path(f"{path}.new")
    pd.DataFrame(rows.values()).to_csv(draft, index=False)
    draft.replace(path)  # whole or not at all


def key(row: dict[str, Any]) -> tuple[str, str, str, float]:
    return row["training"], str(row["random_state"]), row.get("asked", ""), float(row["budget"])


def wanted(given: argparse.Namespace) -> Iterator[tuple[str, str, Target, int, str, float]]:
    """Store, name, target, seed, strategy and seconds of each audit to do."""
    targets = CURVE if given.curve else SOUND if given.sound or given.strategies else FAULTS
    for name, target in targets.items():
        if given.names and name not in given.names:
            continue
        if given.curve:
            yield from (("audits_curve", name, target, 0, STRATEGIES[0], seconds) for seconds in BUDGETS)
        elif given.strategies:
            seconds = given.seconds or 30.0
            yield from (("audits_strategies", name, target, 0, strategy, seconds) for strategy in STRATEGIES)
        elif given.sound:
            yield from (("audits_sound", name, target, seed, "", given.seconds or 5.0) for seed in range(given.sound))
        else:
            yield "audits_faults", name, target, 0, "", given.seconds or 120.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="only these trainings")
    parser.add_argument("--sound", type=int, default=0, help="audits of each sound training, in place of the faults")
    parser.add_argument("--strategies", action="store_true", help="each strategy on each sound training instead")
    parser.add_argument("--curve", action="store_true", help="many runs on some sound trainings, in more and more time")
    parser.add_argument(
        "--seconds", type=float, help="of each audit; 120 for a fault, 5 for a sound training, 30 for a strategy"
    )
    parser.add_argument("--keep", action="store_true", help="store the rows in book/results/audits_*.csv")
    given = parser.parse_args()
    about = {name: provenance().get(name) for name in ABOUT}
    rows = []
    for store, name, target, seed, strategy, seconds in wanted(given):
        known = [row for row in kept(store) if key(row) == (name, str(seed), strategy, seconds)]
        if known and given.keep and (store != "audits_faults" or not given.names):
            rows += known
            continue
        try:
            found = audited(target, seconds, seed, strategy or "auto")
        except ValueError as error:  # too few seconds on a busy machine
            print(name, error, flush=True)
            continue
        asked = {"asked": strategy} if strategy else {}
        row = {"training": name, "random_state": seed, "words": target.words, **asked, **found, "budget": seconds}
        rows.append(row)
        print(*row.values(), sep="  ", flush=True)
        if given.keep:
            keep(store, row | about)
    for level in (0.05, 0.01):
        refuted = sum(float(row["p_value"]) <= level for row in rows)
        low, high = clopper_pearson(refuted, max(1, len(rows)))
        print(f"{refuted} of {len(rows)} refuted at {1 - level:g}: {low:.2%} to {high:.2%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
