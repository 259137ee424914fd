"""Data sets cut into chunks: all learners on small ones, and the paper's loop on the example that refutes Theorem 6."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd

from dpnotes.accounting.papers import personalised_moments
from dpnotes.lab.dpbag import votes
from dpnotes.lab.dpbag.votes import Floats
from dpnotes.lab.tables import Column, Table

Chunk = frozenset[str]
Partition = tuple[Chunk, ...]

EXAMPLE = (("ab", "cd"), ("ac", "bd"))  # two partitions of four records
WITH_RECORD = (("abe", "cd"), ("ace", "bd"))  # e joins the first chunk of floor(|D| / n) records, as in Theorem 5
VOTES = {"ab": 1, "cd": 1, "ac": 0, "bd": 0, "abe": 0, "ace": 0}  # of a chunk's model, on every question
STAND_IN = "*"  # for a record yet to come
ORDERS = np.arange(1.0, 101.0)


def loop(cut: Sequence[Sequence[str]], epsilon: float, delta: float, *, noise: float, joined: Sequence[str]) -> int:
    """Labels that the loop of Algorithm 1 gives out; ``joined`` are the chunks that a record yet to come would join."""
    own = {STAND_IN: joined, **chunks_of_records(cut)}
    moments = dict.fromkeys(own, np.zeros(len(ORDERS)))
    labels, spent = 0, 0.0
    while spent < epsilon:
        labels += 1
        for record, chunks in own.items():
            moments[record] = moments[record] + personalised_moments(ORDERS, noise=noise, m=fraction(chunks))
        spent = float(((np.max(list(moments.values()), axis=0) - math.log(delta)) / ORDERS).min())
    return labels


def chunks_of_records(cut: Sequence[Sequence[str]]) -> dict[str, list[str]]:
    """Chunks, one of each partition, that hold each record."""
    return {record: [chunk for chunks in cut for chunk in chunks if record in chunk] for record in "".join(cut[0])}


def fraction(chunks: Sequence[str]) -> float:
    """Give m of a record: the largest fraction of its models, those of its chunks, that do not vote for some class."""
    given = [VOTES[chunk] for chunk in chunks]
    return 1 - min(given.count(0), given.count(1)) / len(given)


def largest_fraction(cut: Sequence[Sequence[str]]) -> float:
    """Largest m over the records."""
    return max(map(fraction, chunks_of_records(cut).values()))


class _FixedVotes:
    """A learner whose model of a chunk gives the votes of the example, whatever it is asked."""

    def fit_many(self, X: Any, codes: Any, subsets: Any, *, n_classes: int, seed: int) -> Any:
        given = np.array([VOTES["".join("abcde"[int(record)] for record in X[rows, 0])] for rows in subsets])
        return SimpleNamespace(votes=lambda queries: np.repeat(given[:, None], len(queries), axis=1))


def counterexample() -> pd.DataFrame:
    """Run :class:`dpnotes.methods.DPBag` on the records a, b, c, d of the example, and on the same with a record e.

    Noise 0.04, budget (1, 1e-5). Columns: records, labels, epsilon (spent).
    """
    from sklearn.linear_model import LogisticRegression

    from dpnotes.methods import DPBag

    chunks = np.array([[0, 0], [0, 1], [1, 0], [1, 1], [0, 0], [1, 1]])  # of a to e, and of a sixth
    found = []
    for n in (4, 5):
        model = DPBag(
            _FixedVotes(), n_teachers=2, n_partitions=2, noise=0.04, epsilon=1.0, delta=1e-5,
            student=LogisticRegression(), device="cpu", noise_seed=0,
            accountant="personalised",
        ).fit(np.arange(n)[:, None], np.arange(n) % 2, public=np.zeros((60, 1)), chunks=chunks[: n + 1])  # fmt: skip
        found.append({"records": ", ".join("abcde"[:n]), "labels": model.n_labels_, "epsilon": model.epsilon_spent_})
    return pd.DataFrame(found)


COUNTEREXAMPLE = Table(
    "Algorithm 1 on neighbouring data sets: noise 0.04, (1, 0.00001).",
    ("records", Column("labels", "labels given out"), Column("epsilon", "epsilon by its own account")),
)


def assigned(records: str, n: int) -> list[Partition]:
    """All equally likely cuts into n chunks, when each record draws its chunk independently of the others."""
    return [
        tuple(frozenset(r for r, chunk in zip(records, chunks, strict=True) if chunk == j) for j in range(n))
        for chunks in itertools.product(range(n), repeat=len(records))
    ]


def balanced_partitions(records: str, n: int) -> list[Partition]:
    """Those cuts of which no chunk is larger than another by more than one record."""
    return [cut for cut in assigned(records, n) if max(map(len, cut)) - min(map(len, cut)) <= 1]


def worst_epsilon(cuts: Sequence[Partition], others: Sequence[Partition], noise: float) -> float:
    """Largest pure epsilon of one answer over all learners (every vote of every chunk), cuts equally likely."""
    distinct = dict.fromkeys(chunk for cut in (*cuts, *others) for chunk in cut)
    chunks = {chunk: index for index, chunk in enumerate(distinct)}
    learners = (np.arange(2 ** len(chunks))[:, None] >> np.arange(len(chunks))) & 1  # [learners, chunks]
    n = len(cuts[0])
    answers = np.array(
        [votes.answer_distribution(np.array([n - ones, ones]), scale=1 / noise) for ones in range(n + 1)]
    )

    def mixture(drawn: Sequence[Partition]) -> Floats:
        ones = (learners[:, [chunks[chunk] for chunk in cut]].sum(1) for cut in drawn)
        return np.asarray(np.log(sum(answers[votes_for_one] for votes_for_one in ones) / len(drawn)))  # [learners, 2]

    return float(np.abs(mixture(cuts) - mixture(others)).max())


def balanced_epsilon(*, n: int, size: int, noise: float) -> float:
    """Pure epsilon at which one learner tells n chunks of ``size`` records from a record more in balanced chunks.

    The learner votes 1 on a chunk that holds the record and on a larger one: one chunk, or in most partitions two.
    """
    own = (size + 1) / (n * size + 1)  # the record is in the larger chunk
    none, one, two = (votes.answer_distribution(np.array([n - ones, ones]), scale=1 / noise)[1] for ones in range(3))
    return math.log((own * one + (1 - own) * two) / none)
