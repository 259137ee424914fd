"""One fit of each of three private estimators on a million records: time and memory,
beside scikit-learn's models without privacy in the same run.
"""

import time

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from dpnotes import DPSGD, LossPerturbation, NoisyBoosting

from ._common import RANDOM, Row, peak_memory

# the table, and the limits: seconds, and memory over data
COLUMNS = 50
SECONDS = 60.0
TIMES = 4.0


def measured(model, X, y):
    """Seconds of CPU time, MiB and accuracy of a fit, after a small one."""
    model.fit(X[:500], y[:500])
    start = time.process_time()
    peak = peak_memory(lambda: model.fit(X, y))
    return time.process_time() - start, peak, model.score(X, y)


def rows(small, device):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(5_000 if small else 1_000_000, COLUMNS))
    # two classes that depend on three of the columns
    y = X[:, 0] + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=len(X)) > 0
    y = y.astype(np.int64)
    data = f"{RANDOM}, {len(X):,} x {COLUMNS}"
    held = X.nbytes / 2**20
    said = []
    # of what they take without privacy
    for peer in LogisticRegression(), HistGradientBoostingClassifier(random_state=0):
        seconds, peak, score = measured(peer, X, y)
        name = type(peer).__name__
        said.append(f"{name} {seconds:.1f} s, {peak:.0f} MiB, accuracy {score:.3f}")
    for kind in (NoisyBoosting, DPSGD, LossPerturbation):
        model = kind(1.0, 1e-7, classes=[0, 1], noise_seed=0)
        if kind is not NoisyBoosting:
            model.set_params(device=device)
        seconds, peak, score = measured(model, X, y)
        check = f"accuracy {score:.3f}; without privacy: {'; '.join(said)}"
        job = f"8. {kind.__name__}, one fit"
        yield Row(job, data, seconds, SECONDS, "limit", 1, check)
        # the data are held, too
        total = peak + held
        yield Row(job, data, total, TIMES * held, "limit", 1, check, "MiB")
