"""Peak memory of the learners beside the data, without the result, against the figure
to stay below.

A learner holds one chunk of models with the temporaries of a step; SGD also holds one
padded copy of the data.
"""

import numpy as np

from dpnotes.learners import fit_binary_logistic, fit_multinomial_logistic, fit_sgd

from ._common import Row, peak_memory
from .logistic import adult, mnist


def row(job, data, limit, call):
    """Peak of a call after a first one, which imports what it needs; without the
    bytes of its result.
    """
    call()
    found = []
    peak = peak_memory(lambda: found.append(call()))
    result = found[0].nbytes / 2**20
    check = f"without the result, which takes {result:.1f} MiB"
    return Row(job, data, max(peak - result, 0.1), limit, "limit", 1, check, "MiB")


def rows(small, device):
    if device != "cpu":
        # what is counted is the memory of this process
        return
    table, X, y, _ = adult()
    pictures, images, digits, _ = mnist()
    rng = np.random.default_rng(0)

    subsets = rng.permutation(32_500).reshape(500, 65)

    def teachers():
        how = {"l2": 1 / 65, "device": "cpu"}
        return fit_binary_logistic(X, y, subsets, **how).weights

    yield row("2. 500 binary regressions 65 x 108, float64", table, 10, teachers)

    shards = rng.permutation(len(images))[: 64 * 234].reshape(64, 234)

    def softmax():
        how = {"n_classes": 10, "l2": 1e-2, "dtype": np.float32, "device": "cpu"}
        return fit_multinomial_logistic(images, digits, shards, **how).weights

    yield row("1. 64 regressions 234 x 784 x 10, float32", pictures, 20, softmax)

    # as the paper scales its records
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    labels = (y > 0).astype(np.int64)
    job = "4b. SGD, 8 seeds x 101 on Adult, float64"
    runs = {"neighbours": np.arange(1, 101), "replacement": 0, "n_runs": 8}
    runs |= {"batch_size": 32, "steps": 200, "learning_rate": 0.5, "device": "cpu"}
    yield row(job, table, 20, lambda: fit_sgd(unit, labels, **runs).all_weights)
