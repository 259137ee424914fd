"""Speed of the accounting: calibrations against opacus, DPBag's personalised
accountant against the memory.
"""

import warnings
from itertools import count, product

import numpy as np
import torch
from opacus.accountants.utils import get_noise_multiplier

from dpnotes.accounting import dp_sgd_noise_multiplier, gaussian_sigma, soft_vote
from dpnotes.accounting.papers import personalised_epsilon
from dpnotes.learners import TouchedVotes
from dpnotes.mechanisms import draw_partitions

from ._common import RANDOM, Row, gathering, timed

# of the calibrations: settings that papers on DP-SGD print
RATE = 0.01
DELTA = 1e-5
EPSILONS = (0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0)
STEPS = (500, 1000, 2000, 5000, 10_000)
# of the accountant: DPBag's lambda / k, and its delta and orders on Adult
NOISE = 2 / 250
VOTES_DELTA = 1e-3
ORDERS = np.arange(1, 33)


def calibrations(small, device):
    """Job 7: noise multipliers for a table of (epsilon, steps), and calls that a
    reader waits for.
    """
    # opacus, on its way to sigma
    warnings.filterwarnings("ignore", message="Optimal order")
    pairs = list(product(EPSILONS, STEPS))[:: 10 if small else 1]
    epsilons, steps = np.array(pairs).T
    calls = count(1)

    def ours():
        # as in a fresh process: nothing is found from the last call
        rate = RATE * (1 - 1e-12 * next(calls))
        run = {"sample_rate": rate, "steps": steps.astype(int), "accountant": "rdp"}
        return dp_sgd_noise_multiplier(epsilons, DELTA, **run)

    def theirs():
        found = []
        for epsilon, n_steps in pairs:
            sigma = get_noise_multiplier(
                target_epsilon=epsilon,
                target_delta=DELTA,
                sample_rate=RATE,
                steps=int(n_steps),
                epsilon_tolerance=1e-3,
            )
            found.append(sigma)
        return np.array(found)

    (fast, slow), (mine, other) = timed(ours, theirs, repeats=3)
    low = np.min(mine / other)
    high = np.max(mine / other)
    yield Row(
        f"7. {len(pairs)} calibrations of DP-SGD",
        "no data",
        fast,
        slow,
        "opacus RDP",
        50,
        f"our sigma, computed with all real orders, is {low:.5f} to {high:.5f} of"
        " opacus'",
        # up to 1 % less noise is what the orders between opacus' allow
        gap=max(high - 1, 0.99 - low),
        allowed=1e-6,
    )
    draw = np.random.default_rng(7)
    epsilons = 10 ** draw.uniform(-3, 2, 10_000)
    deltas = 10 ** draw.uniform(-12, -1, 10_000)

    def sigmas():
        return gaussian_sigma(epsilons, deltas)[-1]

    def votes():
        return soft_vote(beta=0.05).compose(1000).epsilon(1e-5)

    # what somebody who types the call waits for without noticing
    for job, call, limit in (
        ("gaussian_sigma of 10,000 pairs", sigmas, 0.05),
        ("soft_vote(...).compose(1000).epsilon(1e-5)", votes, 0.5),
    ):
        (seconds,), (value,) = timed(call, repeats=5)
        check = f"last value {value:.6g}"
        yield Row(job, "no data", seconds, limit, "time limit", 1, check)


def literal(votes, membership):
    """Algorithm 1 as printed: epsilon after each query, from the moments of orders 1
    to 32 of all records.
    """
    # partitions, of which each has one teacher of the record
    k = len(votes)
    alpha = np.zeros((len(membership), len(ORDERS)))
    spent = []
    for q in range(votes.shape[2]):
        # [records]: the votes for class 1 of the teachers that saw the record
        ones = votes[np.arange(k), membership, q].sum(axis=1)
        m = np.maximum(ones, k - ones) / k
        alpha += 2 * NOISE**2 * m[:, None] ** 2 * ORDERS * (ORDERS + 1)
        spent.append(((alpha.max(axis=0) + np.log(1 / VOTES_DELTA)) / ORDERS).min())
    return np.array(spent)


def personal(small, device):
    """Job 3: the paper's sizes on Adult, one record yet to come; random votes (the
    cost does not depend on them).
    """
    records = 16_280
    n = 250
    k = 100
    queries, few = (512, 4) if small else (2048, 8)
    generator = np.random.default_rng(0)
    # from hard questions to unanimous ones
    agree = generator.beta(0.5, 0.5, size=queries)
    drawn = generator.random((k, n, queries), dtype=np.float32)
    votes = (drawn < agree).astype(np.uint8)
    how = {"n_chunks": n, "n_partitions": k, "scheme": "balanced", "seed": 0}
    cut = draw_partitions(records, **how)
    membership = np.vstack([cut.chunk, cut.joining])
    first = np.ascontiguousarray(votes[:, :, :few])
    # 256 queries of all teachers stay in the cache, as they do with us
    block = torch.from_numpy(votes[:, :, :256].copy()).to(device)
    teachers = torch.from_numpy(membership.T.copy()).to(device)
    (fast, limit, slow), (largest, _, spent) = timed(
        lambda: TouchedVotes(membership, n_teachers=n, device=device).add(votes),
        gathering(lambda: zip(block, teachers, strict=True)),
        lambda: literal(first, membership),
        repeats=3,
        device=device,
    )
    moments = np.outer(largest[:few] / k**2 * 2 * NOISE**2, ORDERS * (ORDERS + 1))
    capped = ((moments - np.log(VOTES_DELTA)) / ORDERS).min(axis=1)
    gap = float(np.abs(spent - capped).max())
    how = {"n_partitions": k, "beta": NOISE, "delta": VOTES_DELTA}
    best = personalised_epsilon(largest[:few], **how)[-1]
    about = f"3. accountant, D = {records:,}, n = {n}, k = {k}", RANDOM, fast / queries
    yield Row(
        *about,
        limit / 256,
        "a loop that only gathers its votes",
        0.5,
        "seconds per query; our code gathers each vote, and then adds it",
    )
    yield Row(
        *about,
        slow / few,
        "Algorithm 1 as printed, NumPy",
        None,
        f"seconds per query; with the same 32 orders epsilon differs by {gap:.1e}; with"
        f" orders up to 100 it is {best:.6g}",
        gap=gap,
        allowed=1e-8,
    )
