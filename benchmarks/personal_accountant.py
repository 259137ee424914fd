"""Speed of DPBag's personalised accountant against numpy, query by query.

Thread time on one thread, sides by turns (A B A B), medians; the first call of each is left out. The paper's Adult
sizes: 16,280 private records and one yet to come, 100 partitions of 250 teachers, two classes; random votes (the cost
does not depend on them). ``literal`` is Algorithm 1 as printed: for each query and class the votes of each record's own
teachers, then the moments of orders 1 to 32 of all records; ``lean`` keeps the squares only, one class. Both are timed
on a few queries and multiplied up. Run as ``python benchmarks/personal_accountant.py [--small]``; prints ratios beside
their bars, always exits with 0.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dpnotes.learners import TouchedVotes
from dpnotes.mechanisms import draw_partitions
from dpnotes.methods import personalised_epsilon

from ._common import RANDOM, Row, timed

NOISE, DELTA = 2 / 250, 1e-3
ORDERS = np.arange(1, 33)


def literal(votes: np.ndarray, membership: np.ndarray) -> np.ndarray:
    """Epsilon after each query, [queries]."""
    k, queries = len(votes), votes.shape[2]
    alpha, spent = np.zeros((len(membership), len(ORDERS))), []
    for q in range(queries):
        m = np.zeros(len(membership))
        for c in (0, 1):
            own = votes[np.arange(k), membership, q] == c  # [D, k]
            m = np.maximum(m, 1 - own.sum(axis=1) / k)
        alpha += 2 * NOISE**2 * m[:, None] ** 2 * ORDERS * (ORDERS + 1)
        spent.append(((alpha.max(axis=0) + np.log(1 / DELTA)) / ORDERS).min())
    return np.array(spent)


def lean(votes: np.ndarray, membership: np.ndarray) -> np.ndarray:
    """Largest sum of squares after each query, [queries]."""
    k, queries = len(votes), votes.shape[2]
    sums, largest = np.zeros(len(membership), np.int64), []
    for q in range(queries):
        ones = votes[np.arange(k), membership, q].sum(axis=1, dtype=np.int64)
        sums += np.maximum(ones, k - ones) ** 2
        largest.append(sums.max())
    return np.array(largest)


def rows(small: bool) -> Iterator[Row]:
    records, n, k, queries, few, repeats = (16_280, 250, 100, 1024, 4, 1) if small else (16_280, 250, 100, 2048, 8, 3)
    generator = np.random.default_rng(0)
    agree = generator.beta(0.5, 0.5, size=queries)  # from hard questions to unanimous ones
    votes = (generator.random((k, n, queries), dtype=np.float32) < agree).astype(np.uint8)
    cut = draw_partitions(records, n_chunks=n, n_partitions=k, scheme="balanced", seed=0)
    membership = np.vstack([cut.chunk, cut.joining])
    first = np.ascontiguousarray(votes[:, :, :few])

    def ours() -> np.ndarray:
        return TouchedVotes(membership, n_teachers=n, device="cpu").add(votes)

    fast, slow, leaner = timed(
        ours, lambda: literal(first, membership), lambda: lean(first, membership), repeats=repeats
    )
    found = ours()[:few]
    spent = personalised_epsilon(found, n_partitions=k, noise=NOISE, delta=DELTA)
    orders = np.arange(1.0, 33.0)
    capped = [((s / k**2 * 2 * NOISE**2 * orders * (orders + 1) - np.log(DELTA)) / orders).min() for s in found]
    gap = np.abs(literal(first, membership) - capped).max()
    equal = bool((lean(first, membership) == found).all())
    job = f"3. accountant, D = {records:,}, n = {n}, k = {k}"
    yield Row(
        job,
        RANDOM,
        fast / queries,
        slow / few,
        "literal numpy",
        100,
        f"seconds per query; largest difference of epsilon with the same 32 orders {gap:.1e}; with orders to 100 "
        f"{spent[-1]:.6g} after {few} queries",
        gap=float(gap),
        allowed=1e-8,
    )
    check = f"seconds per query; sums of squares equal: {equal}"
    yield Row(
        job, RANDOM, fast / queries, leaner / few, "lean numpy", 75, check, gap=float(not equal), allowed=0, floor=25
    )
