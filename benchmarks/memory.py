"""Peak memory of the learners beside the data, without the result, against the figure to stay below.

A learner holds one chunk of models with the temporaries of a step; SGD also holds one
padded copy of the data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from dpnotes.learners import LogisticModels, fit_binary_logistic, fit_multinomial_logistic, fit_sgd

from ._common import Row, peak_memory
from .logistic import adult, mnist

MIB = 2**20


def row(job: str, data: str, call: Callable[[], object], given: Callable[[], int], limit: float) -> Row:
    """Peak of a call after a first one, which imports what it needs; without the ``given()`` bytes of its result."""
    call()
    result = given() / MIB
    held = max(peak_memory(call) - result, 0.1)
    check = f"beside {result:.1f} MiB that it gives back"
    return Row(job, data, held, limit, "limit", 1, check, "MiB", floor=0.2)


def rows(small: bool) -> Iterator[Row]:
    found: dict[str, np.ndarray] = {}
    table, X, y, queries = adult()
    rng = np.random.default_rng(0)
    teachers, asked = (2500, 16_000) if small else (25_000, 16_000)
    many = LogisticModels(
        rng.normal(size=(teachers, X.shape[1])),
        rng.normal(size=teachers),
        np.zeros(teachers),
        np.zeros(teachers, np.int64),
        np.ones(teachers, bool),
    )
    wide = queries[:asked].astype(np.float64)
    asked = len(wide)

    def counts() -> None:
        found["result"] = many.vote_counts(wide, device="cpu")

    def size() -> int:
        return found["result"].nbytes

    yield row(f"2b. vote counts of {teachers:,} models on {asked:,} queries", table, counts, size, 16)

    subsets = rng.permutation(32_500)[: 500 * 65].reshape(500, 65)

    def binary() -> None:
        found["result"] = fit_binary_logistic(X, y, subsets, l2=1 / 65, device="cpu").weights

    yield row("2. 500 binary regressions 65 x 108, float64", table, binary, size, 10)

    pictures, images, digits, _ = mnist()
    shards = rng.permutation(len(images))[: 64 * 234].reshape(64, 234)

    def multinomial() -> None:
        fitted = fit_multinomial_logistic(images, digits, shards, n_classes=10, l2=1e-2, dtype=np.float32, device="cpu")
        found["result"] = fitted.weights

    yield row("1. 64 regressions 234 x 784 x 10, float32", pictures, multinomial, size, 20)

    binary_X, binary_y = X / np.linalg.norm(X, axis=1, keepdims=True), (y > 0).astype(np.int64)

    def neighbours() -> None:
        runs = fit_sgd(
            binary_X, binary_y, neighbours=np.arange(1, 101), replacement=0, n_runs=8, batch_size=32, steps=200,
            learning_rate=0.5, device="cpu",
        )  # fmt: skip
        found["result"] = runs.all_weights

    yield row("4b. SGD, 8 seeds x 101 on Adult, float64", table, neighbours, size, 20)
