"""Claims 24 and 27: data sets cut into chunks, all learners tried on small ones, and the paper's loop run on two."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpnotes.accounting import (
    hockey_stick,
    noisy_vote,
    noisy_vote_answers,
    noisy_vote_exact_delta,
    noisy_vote_pure_level,
)
from dpnotes.accounting.papers import personalised_counterexample, personalised_moments
from dpnotes.lab._claim import Evidence, Finding
from dpnotes.lab.dpbag.claims_laws import answer_law

Chunk = frozenset[str]
Partition = tuple[Chunk, ...]

EXAMPLE = (("ab", "cd"), ("ac", "bd"))  # two partitions of four records
WITH_RECORD = (("abe", "cd"), ("ace", "bd"))  # e joins the first chunk of floor(|D| / n) records, as in Theorem 5
VOTES = {"ab": 1, "cd": 1, "ac": 0, "bd": 0, "abe": 0, "ace": 0}  # of the model that a chunk gives, on every question
STAND_IN = "*"  # for a record yet to come
ORDERS = np.arange(1.0, 101.0)


def stopped_loop() -> Evidence:
    """Algorithm 1, run as printed on the two data sets of the example: how many labels it gives out."""
    noise, epsilon, delta = 0.04, 1.0, 1e-5
    without, with_record = (
        loop(cut, epsilon, delta, noise=noise, joined=("ab", "ac") if cut is EXAMPLE else ("cd", "bd"))
        for cut in (EXAMPLE, WITH_RECORD)
    )
    lengths = [{labels: Fraction(1)} for labels in (without, with_record)]
    distance = float(hockey_stick(lengths[0], lengths[1], Fraction(math.e**epsilon)))
    profile = personalised_counterexample(noise=noise, epsilon=epsilon, delta=delta)
    fixed = noisy_vote_answers(epsilon, delta, noise=noise)
    spent = noisy_vote_exact_delta(epsilon, noise=noise, n_models=50, answers=max(fixed, 1))
    return Evidence(
        "The loop of Algorithm 1 on four records in two partitions of two chunks, and with a fifth record; "
        f"lambda = {noise:g}, epsilon = {epsilon:g}, delta = {delta:g}.",
        (
            Finding("labels without the record", "–", without, without == profile[0]),
            Finding("labels with the record", without, with_record, with_record == profile[1] < without),
            Finding("least delta at epsilon = 1 for the number of labels alone", delta, distance, distance == 1),
            Finding("labels if their number is fixed beforehand, 50 chunks", "–", fixed, fixed > 0 and spent <= delta),
        ),
    )


def moved_chunks() -> Evidence:
    """All learners on three chunks, three records and a fourth: chunks drawn independently, and balanced partitions."""
    noise, n = 2.0, 3
    single = noisy_vote_pure_level(noise=noise, n_models=n)
    independent = worst_level(assigned("abc", n), assigned("abce", n), noise)
    balanced = worst_level(balanced_partitions("abc", n), balanced_partitions("abce", n), noise)
    one_learner = balanced_level(n=n, size=1, noise=noise)
    chunks, size = 50, 100
    paper = 2 / chunks  # lambda
    level = balanced_level(n=chunks, size=size, noise=paper)
    guaranteed = noisy_vote(noise=noise).epsilon(0.0)
    return Evidence(
        "All votes of all chunks of three records and a fourth, two classes, laws by quadrature, lambda = 2; one "
        f"learner on {chunks} chunks of {size} records at the paper's lambda = 2 / {chunks}.",
        (
            Finding(
                "largest pure level, 3 chunks, each record's chunk drawn independently",
                guaranteed,
                independent,
                math.isclose(independent, single, rel_tol=1e-9) and independent <= guaranteed,
            ),
            Finding(
                "largest pure level, 3 chunks, uniform balanced partitions", guaranteed, balanced, balanced > guaranteed
            ),
            Finding(
                "that of the learner that votes for the record's chunk and the larger one",
                balanced,
                one_learner,
                math.isclose(one_learner, balanced, rel_tol=1e-9),
            ),
            Finding(f"the same, {chunks} chunks of {size} records", 2 * paper, level, level > 2 * paper),
        ),
    )


def loop(cut: Sequence[Sequence[str]], epsilon: float, delta: float, *, noise: float, joined: Sequence[str]) -> int:
    """Labels that the loop of Algorithm 1 gives out; ``joined`` are the chunks that a record yet to come would join."""
    own = {record: [chunk for chunks in cut for chunk in chunks if record in chunk] for record in set("".join(cut[0]))}
    own[STAND_IN] = list(joined)
    moments = dict.fromkeys(own, np.zeros(len(ORDERS)))
    labels, spent = 0, 0.0
    while spent < epsilon:
        labels += 1
        for record, chunks in own.items():
            moments[record] = moments[record] + personalised_moments(ORDERS, noise=noise, m=share(chunks))
        spent = float(((np.max(list(moments.values()), axis=0) - math.log(delta)) / ORDERS).min())
    return labels


def share(chunks: Sequence[str]) -> float:
    """Give m of a record: the largest share of its models, those of its chunks, that do not vote for some class."""
    votes = [VOTES[chunk] for chunk in chunks]
    return 1 - min(votes.count(0), votes.count(1)) / len(votes)


def largest_share(cut: Sequence[Sequence[str]]) -> float:
    """Largest m over the records."""
    return max(share([chunk for chunks in cut for chunk in chunks if record in chunk]) for record in "".join(cut[0]))


def assigned(records: str, n: int) -> list[Partition]:
    """All equally likely cuts into n chunks, when each record draws its chunk independently of the others."""
    return [
        tuple(frozenset(r for r, chunk in zip(records, chunks, strict=True) if chunk == j) for j in range(n))
        for chunks in itertools.product(range(n), repeat=len(records))
    ]


def balanced_partitions(records: str, n: int) -> list[Partition]:
    """Those cuts of which no chunk is larger than another by more than one record."""
    return [cut for cut in assigned(records, n) if max(map(len, cut)) - min(map(len, cut)) <= 1]


def worst_level(cuts: Sequence[Partition], others: Sequence[Partition], noise: float) -> float:
    """Largest pure epsilon of one answer over all learners (every vote of every chunk), cuts equally likely."""
    chunks = {chunk: index for index, chunk in enumerate(_distinct((*cuts, *others)))}
    learners = (np.arange(2 ** len(chunks))[:, None] >> np.arange(len(chunks))) & 1  # [learners, chunks]
    n = len(cuts[0])
    laws = np.log([answer_law(np.array([n - ones, ones]), scale=1 / noise) for ones in range(n + 1)])  # [ones, 2]

    def mixture(drawn: Sequence[Partition]) -> NDArray[np.float64]:
        which = np.array([[chunks[chunk] for chunk in cut] for cut in drawn])  # [cuts, n]
        total = np.zeros((len(learners), 2))
        for row in which:
            total += np.exp(laws[learners[:, row].sum(1)])
        return np.asarray(np.log(total / len(which)))

    return float(np.abs(mixture(cuts) - mixture(others)).max())


def balanced_level(*, n: int, size: int, noise: float) -> float:
    """Pure epsilon at which one learner tells n chunks of ``size`` records from a record more in balanced chunks.

    The learner votes 1 on a chunk that holds the record and on a larger one: one chunk, or in most partitions two.
    """
    own = (size + 1) / (n * size + 1)  # the record is in the larger chunk
    none, one, two = (answer_law(np.array([n - ones, ones]), scale=1 / noise)[1] for ones in range(3))
    return math.log((own * one + (1 - own) * two) / none)


def _distinct(cuts: Iterable[Partition]) -> list[Chunk]:
    return list(dict.fromkeys(chunk for cut in cuts for chunk in cut))
