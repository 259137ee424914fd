"""Speed of the accounting: calibrations against opacus, DPBag's personalised
accountant against the memory.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from itertools import count, product

import numpy as np
import torch
from opacus.accountants.utils import get_noise_multiplier

from dpnotes.accounting import dp_sgd_noise_multiplier, gaussian_sigma, soft_vote
from dpnotes.accounting.papers import personalised_epsilon
from dpnotes.learners import TouchedVotes, device_name
from dpnotes.mechanisms import draw_partitions

from ._common import RANDOM, Row, clock_of, gathering, timed

RATE, DELTA = 0.01, 1e-5
EPSILONS, STEPS = (
    (0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0),
    (500, 1000, 2000, 5000, 10_000),
)
NOISE, VOTES_DELTA = 2 / 250, 1e-3
ORDERS = np.arange(1, 33)


def calibrations(small: bool, device: str) -> Iterator[Row]:
    """Job 7: noise multipliers for a table of (epsilon, steps), and calls that a
    reader waits for.
    """
    # opacus, on its way to sigma
    warnings.filterwarnings("ignore", message="Optimal order")
    pairs = list(product(EPSILONS, STEPS))[:: 10 if small else 1]
    epsilons, steps = np.array(pairs).T
    calls = count(1)

    def ours() -> np.ndarray:
        # as in a fresh process: nothing is found from the last call
        rate = RATE * (1 - 1e-12 * next(calls))
        run = {"sample_rate": rate, "steps": steps.astype(int), "accountant": "rdp"}
        return np.asarray(dp_sgd_noise_multiplier(epsilons, DELTA, **run))

    def theirs() -> np.ndarray:
        run = {"target_delta": DELTA, "sample_rate": RATE, "epsilon_tolerance": 1e-3}
        return np.array(
            [
                get_noise_multiplier(target_epsilon=e, steps=int(s), **run)
                for e, s in pairs
            ]
        )

    (fast, slow), found = timed(ours, theirs, repeats=1 if small else 3)
    ratios = found[0] / found[1]
    check = (
        f"our sigma, computed with all real orders, is {ratios.min():.5f} to"
        f" {ratios.max():.5f} of opacus'"
    )
    job, gap = (
        f"7. {len(pairs)} calibrations of DP-SGD",
        float(max(ratios.max() - 1, 0.99 - ratios.min())),
    )
    yield Row(
        job, "no data", fast, slow, "opacus RDP", 50, check, gap=gap, allowed=1e-6
    )
    draw = np.random.default_rng(7)
    epsilons, deltas = (
        10 ** draw.uniform(-3, 2, 10_000),
        10 ** draw.uniform(-12, -1, 10_000),
    )
    yield promised(
        "gaussian_sigma of 10,000 pairs",
        lambda: np.asarray(gaussian_sigma(epsilons, deltas)),
        0.05,
    )
    job = "soft_vote(...).compose(1000).epsilon(1e-5)"
    yield promised(job, lambda: soft_vote(beta=0.05).compose(1000).epsilon(1e-5), 0.5)


def promised(job: str, call: Callable[[], np.ndarray | float], limit: float) -> Row:
    """Time of one call, and the limit for it."""
    (seconds,), (value,) = timed(call, repeats=5)
    return Row(
        job,
        "no data",
        seconds,
        limit,
        "time limit",
        1,
        f"last value {np.ravel(value)[-1]:.6g}",
    )


def literal(votes: np.ndarray, membership: np.ndarray) -> np.ndarray:
    """Algorithm 1 as printed: epsilon after each query, from the moments of orders 1
    to 32 of all records.
    """
    k, queries = len(votes), votes.shape[2]
    alpha, spent = np.zeros((len(membership), len(ORDERS))), []
    for q in range(queries):
        m = np.zeros(len(membership))
        for c in (0, 1):
            own = votes[np.arange(k), membership, q] == c  # [D, k]
            m = np.maximum(m, 1 - own.sum(axis=1) / k)
        alpha += 2 * NOISE**2 * m[:, None] ** 2 * ORDERS * (ORDERS + 1)
        spent.append(((alpha.max(axis=0) + np.log(1 / VOTES_DELTA)) / ORDERS).min())
    return np.array(spent)


def personal(small: bool, device: str) -> Iterator[Row]:
    """Job 3: the paper's sizes on Adult, one record yet to come; random votes (the
    cost does not depend on them).
    """
    records, n, k, queries, few = (
        (16_280, 250, 100, 512, 4) if small else (16_280, 250, 100, 2048, 8)
    )
    generator = np.random.default_rng(0)
    # from hard questions to unanimous ones
    agree = generator.beta(0.5, 0.5, size=queries)
    votes = (generator.random((k, n, queries), dtype=np.float32) < agree).astype(
        np.uint8
    )
    cut = draw_partitions(
        records, n_chunks=n, n_partitions=k, scheme="balanced", seed=0
    )
    membership = np.vstack([cut.chunk, cut.joining])
    first = np.ascontiguousarray(votes[:, :, :few])
    block, teachers = (
        torch.from_numpy(votes[:, :, :256].copy()).to(device),
        torch.from_numpy(membership.T.copy()),
    )
    teachers = teachers.to(device)
    (fast, limit, slow), (largest, _, spent) = timed(
        lambda: TouchedVotes(membership, n_teachers=n, device=device).add(votes),
        gathering(lambda: zip(block, teachers, strict=True)),
        lambda: literal(first, membership),
        repeats=1 if small else 3,
        clock=clock_of(device),
    )
    sums = largest[:few] / k**2 * 2 * NOISE**2
    capped = [
        ((s * ORDERS * (ORDERS + 1) - np.log(VOTES_DELTA)) / ORDERS).min() for s in sums
    ]
    gap = float(np.abs(spent - capped).max())
    best = personalised_epsilon(
        largest[:few], n_partitions=k, beta=NOISE, delta=VOTES_DELTA
    )[-1]
    job, about = (
        f"3. accountant, D = {records:,}, n = {n}, k = {k}",
        {"device": device_name(device)},
    )
    check = "seconds per query; our code gathers each vote, and then adds it"
    yield Row(
        job,
        RANDOM,
        fast / queries,
        limit / 256,
        "a loop that only gathers its votes",
        0.5,
        check,
        **about,
    )
    check = f"seconds per query; with the same 32 orders epsilon differs by {gap:.1e}; "
    check += f"with orders up to 100 it is {best:.6g}"
    about |= {"gap": gap, "allowed": 1e-8}
    yield Row(
        job,
        RANDOM,
        fast / queries,
        slow / few,
        "Algorithm 1 as printed, NumPy",
        None,
        check,
        **about,
    )
