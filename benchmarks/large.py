"""One fit of each of three private estimators on a million records: time and memory,
beside scikit-learn's models without privacy in the same run.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from dpnotes import DPSGD, LossPerturbation, NoisyBoosting

from ._common import RANDOM, Row, peak_memory

COLUMNS, SECONDS, TIMES = 50, 60.0, 4.0  # the limits: seconds, and memory over data
PEERS = (LogisticRegression(), HistGradientBoostingClassifier(random_state=0))


def table(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Numbers in [-1, 1], and two classes that depend on three of the columns."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(n, COLUMNS))
    y = X[:, 0] + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=n) > 0
    return X, y.astype(np.int64)


def measured(model: Any, X: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Seconds of CPU time and MiB of a fit, after a small one."""
    model.fit(X[:500], y[:500])
    seconds = []

    def fit() -> None:
        start = time.process_time()
        model.fit(X, y)
        seconds.append(time.process_time() - start)

    peak = peak_memory(fit)
    return seconds[0], peak


def rows(small: bool, device: str) -> Iterator[Row]:
    X, y = table(5_000 if small else 1_000_000)
    data, held = f"{RANDOM}, {len(X):,} x {COLUMNS}", X.nbytes / 2**20
    said = []
    for peer in PEERS:
        seconds, peak = measured(peer, X, y)
        score = peer.score(X, y)
        name = type(peer).__name__
        said.append(f"{name} {seconds:.1f} s, {peak:.0f} MiB, accuracy {score:.3f}")
    for kind in (NoisyBoosting, DPSGD, LossPerturbation):
        model = kind(1.0, 1e-7, classes=[0, 1], noise_seed=0)
        if kind is not NoisyBoosting:
            model.set_params(device=device)
        seconds, peak = measured(model, X, y)
        check = f"accuracy {model.score(X, y):.3f}; without privacy: {'; '.join(said)}"
        job = f"8. {kind.__name__}, one fit"
        yield Row(job, data, seconds, SECONDS, "limit", 1, check)
        # the data are held, too
        total = peak + held
        yield Row(job, data, total, TIMES * held, "limit", 1, check, "MiB")
