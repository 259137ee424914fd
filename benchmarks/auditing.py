"""How near audits come to the truth, where it is known, beside jax_privacy's
CanaryScoreAuditor on the same scores.

jax_privacy is no dependency of this project, and runs in an environment of its own:

    python -m venv other && other/bin/pip install jax_privacy==2.0.0
    python -m benchmarks.auditing --jax-privacy other/bin/python --keep

Of Gaussian noise the quantity is mu, of bagging delta at epsilon = 1 (the chance pi
that a record is drawn), of others the advantage, delta at epsilon = 0. jax_privacy
bounds epsilon alone: from its bounds at the deltas of a grid follow bounds of mu (that
of the Gaussian noise of this epsilon and delta) and of delta (the largest with a bound
above the epsilon), of which the best counts; what that costs it in confidence is not
charged. With ``--keep`` the rows are stored in
``book/results/benchmarks_auditing.csv``.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dpnotes.accounting import bagging, dp_sgd, gaussian_sigma, laplace, pure
from dpnotes.auditing import AuditReport, audit_scores

from ._common import RESULTS, keep, stoppable

KEPT = RESULTS / "benchmarks_auditing.csv"
OTHER_SIDE = Path(__file__).with_name("_jax_privacy.py")
RUNS, REPEATS = (50, 100, 300, 1000, 3000), 12
# at most 2.5 % is lost between two of them
DELTAS = [0.0, 1e-5, 1e-3, 0.005, 0.01, *np.geomspace(0.02, 0.8, 150)]
Scores = tuple[np.ndarray, np.ndarray]
Side = dict[str, tuple[list[float], float]]


def noise(name: str, distance: float) -> Callable[[np.random.Generator, int], Scores]:
    """Scores that are a query's answers, ``distance`` apart, in units of the noise."""
    return lambda generator, n: (
        getattr(generator, name)(distance, size=n),
        getattr(generator, name)(0.0, size=n),
    )


def drawn(generator: np.random.Generator, n: int) -> Scores:
    """Whether a record was drawn, seen through some noise."""
    shown = 5.0 * (generator.random(n) < BAGGING.advantage)
    return shown + generator.normal(size=n) / 5, generator.normal(size=n) / 5


def answered(generator: np.random.Generator, n: int) -> Scores:
    """Randomised response at epsilon = 2."""
    true = 1 / (1 + np.exp(-2.0))
    return (generator.random(n) < true).astype(float), (
        generator.random(n) > true
    ).astype(float)


def descended(generator: np.random.Generator, n: int) -> Scores:
    """Likelihood ratios of all noisy steps of DP-SGD, of a record whose gradient is
    as long as the clipping norm.
    """
    with_, without = generator.normal(size=(2, n, STEPS))
    with_ += generator.random((n, STEPS)) < RATE
    with_, without = (
        np.log1p(RATE * np.expm1(each - 0.5)).sum(axis=1) for each in (with_, without)
    )
    return with_, without


RATE, STEPS = 0.3, 10
BAGGING = bagging(n=100, subsample=20)
DP_SGD = dp_sgd(noise_multiplier=1.0, sample_rate=RATE, steps=STEPS)
CASES = {  # scores, the quantity, its true value, where it is a delta the epsilon
    "Gaussian, mu = 1": (noise("normal", 1.0), "mu", 1.0, 0.0),
    "Gaussian, mu = 4": (noise("normal", 4.0), "mu", 4.0, 0.0),
    "Laplace, epsilon = 1": (
        noise("laplace", 1.0),
        "advantage",
        laplace(scale=1.0).advantage,
        0.0,
    ),
    "DP-SGD, all of ten steps": (descended, "advantage", DP_SGD.advantage, 0.0),
    "bagging, pi = 0.18": (drawn, "pi", BAGGING.delta(1.0), 1.0),
    "randomised response, epsilon = 2": (
        answered,
        "advantage",
        pure(2.0).advantage,
        0.0,
    ),
}


def ours(report: AuditReport, quantity: str, epsilon: float) -> float:
    return report.mu if quantity == "mu" else float(report.delta(epsilon))


def theirs(
    bounds: list[float], deltas: list[float], quantity: str, epsilon: float
) -> float:
    """Bound of the quantity from bounds of epsilon at ``deltas``."""
    if quantity != "mu":
        return max(
            (
                delta
                for delta, bound in zip(deltas, bounds, strict=True)
                if bound > epsilon
            ),
            default=0.0,
        )
    pairs = [
        (bound, delta)
        for delta, bound in zip(deltas, bounds, strict=True)
        if delta > 0 and bound > 0
    ]
    return max(
        (1 / gaussian_sigma(bound, delta) for bound, delta in pairs), default=0.0
    )


def cases(sizes: tuple[int, ...], repeats: int) -> Iterator[dict[str, Any]]:
    """All sets of scores, with our bounds."""
    for name, (draw, quantity, truth, epsilon) in CASES.items():
        for size in sizes:
            for seed in range(repeats):
                scores = draw(np.random.default_rng([seed, size]), size)
                started = time.perf_counter()
                bound = ours(
                    audit_scores(*scores, random_state=seed), quantity, epsilon
                )
                seconds = time.perf_counter() - started
                yield {
                    "mechanism": name,
                    "quantity": quantity,
                    "truth": truth,
                    "epsilon": epsilon,
                    "size": size,
                    "scores": [list(side) for side in scores],
                    "sides": {"dpnotes": (bound, seconds)},
                }


def jax_privacy(python: str, given: list[dict[str, Any]]) -> str:
    """Add the other side's bounds, computed in the environment of ``python``; its
    version.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scores.json"
        asked = [{"scores": case["scores"], "deltas": DELTAS} for case in given]
        path.write_text(json.dumps(asked))
        done = subprocess.run(
            [python, OTHER_SIDE, str(path)],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    answer = json.loads(done.stdout)
    for case, found in zip(given, answer["found"], strict=True):
        for name, (bounds, seconds) in found.items():
            bound = theirs(bounds, DELTAS, case["quantity"], case["epsilon"])
            case["sides"][f"jax_privacy, {name}"] = bound, seconds
    return str(answer["version"])


def rows(given: list[dict[str, Any]]) -> pd.DataFrame:
    """For each mechanism, size and side the median bound, as a fraction of the
    truth, and how often it is above.
    """
    keys = ["mechanism", "quantity", "truth", "size"]
    flat = pd.DataFrame(
        {
            **{key: case[key] for key in keys},
            "side": side,
            "bound": bound,
            "seconds": seconds,
        }
        for case in given
        for side, (bound, seconds) in case["sides"].items()
    )
    flat["fraction"], flat["above"] = (
        flat["bound"] / flat["truth"],
        flat["bound"] > flat["truth"],
    )
    return flat.groupby([*keys, "side"], sort=False, as_index=False).agg(
        bound=("bound", "median"),
        fraction=("fraction", "median"),
        fraction_std=("fraction", "std"),
        above=("above", "sum"),
        repeats=("bound", "size"),
        seconds=("seconds", "median"),
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--jax-privacy", metavar="PYTHON", help="a Python that has jax_privacy"
    )
    parser.add_argument("--small", action="store_true", help="two repeats of 100 runs")
    parser.add_argument(
        "--keep", action="store_true", help="store the rows for the book"
    )
    asked = parser.parse_args()
    if asked.keep and (asked.small or not asked.jax_privacy):
        parser.error(
            "--keep is for the whole benchmark, with --jax-privacy and without --small"
        )
    with stoppable(
        lambda: f"Stopped: {KEPT.name} is as before; run the same command again."
    ):
        sizes, repeats = (RUNS[1:2], 2) if asked.small else (RUNS, REPEATS)
        given = list(cases(sizes, repeats))
        version = jax_privacy(asked.jax_privacy, given) if asked.jax_privacy else ""
        found = rows(given)
        print(found.to_string(index=False, float_format="%.3g"))
    if asked.keep:
        keep(
            KEPT,
            found.assign(version=version).to_dict("records"),
            ["mechanism", "size"],
        )


if __name__ == "__main__":
    main()
