"""Small cases: noisy votes by quadrature, all learners on a few records, the example
that refutes Theorem 6.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import special

from dpnotes._validation import Floats, Integers
from dpnotes.accounting.papers import personalised_moments
from dpnotes.lab.tables import Column, Table

Chunk = frozenset[str]
Partition = tuple[Chunk, ...]

EXAMPLE = (("ab", "cd"), ("ac", "bd"))  # two partitions of four records
# e joins the first chunk of floor(|D| / n) records, as in Theorem 5
WITH_RECORD = (("abe", "cd"), ("ace", "bd"))
# of a chunk's model, on every question
VOTES = {"ab": 1, "cd": 1, "ac": 0, "bd": 0, "abe": 0, "ace": 0}
STAND_IN = "*"  # for a record yet to come
ORDERS = np.arange(1.0, 101.0)  # of the moments in the paper's loop

# exact to rounding over one scale of an exponential
NODES, WEIGHTS = np.polynomial.legendre.leggauss(16)
REACH = 40.0  # scales of the noise beyond the outermost counts: e^-40 is left out
GAUSSIAN_NODES, GAUSSIAN_WEIGHTS = np.polynomial.legendre.leggauss(200)
GAUSSIAN_REACH = 10.0  # standard deviations: less than e^-49 lies beyond


class NeighbouringVotes(NamedTuple):
    """One answer with and without a record, for all votes of the record's k models
    before and after the change.

    Parameters
    ----------
    before, after : ndarray, [pairs, n_classes]
        Distributions of the answer before and after the record's models changed their
        votes.
    m : ndarray, [pairs]
        The largest, over the classes, of the fractions of the record's own models that
        do not vote for the class, before the change.
    counts, change : ndarray of int, [pairs, n_classes]
        Votes before the change, and what the change adds to them.
    """

    before: Floats
    after: Floats
    m: Floats
    counts: Integers
    change: Integers

    def epsilons(self) -> Floats:
        """Compute the pure epsilon of each pair, [pairs]."""
        return np.asarray(
            np.abs(np.log(self.before) - np.log(self.after)).max(-1), dtype=np.float64
        )

    def moments(self, orders: Floats) -> tuple[Floats, Floats]:
        """Compute log-moments under the distributions before and after the change,
        [pairs, orders] each.
        """
        # in logarithms, since answers may be rare
        before = np.log(self.before)[:, None]
        after = np.log(self.after)[:, None]
        order = orders[:, None]
        return (
            np.logaddexp.reduce(before + order * (before - after), axis=-1),
            np.logaddexp.reduce(after + order * (after - before), axis=-1),
        )


def neighbouring_votes(
    *, n_classes: int, k: int, n: int, beta: float
) -> NeighbouringVotes:
    """List all pairs for k partitions into n chunks: votes of the record's k models
    and of the k (n - 1) others.
    """
    # each distribution is computed once, whoever votes for it
    answers = {
        votes: answer_distribution(np.array(votes), scale=k / beta)
        for votes in tallies(k * n, n_classes)
    }
    rows = []
    own_votes = np.array(tallies(k, n_classes))
    # the others' votes stay, the record's own may all change
    for others, own, moved in itertools.product(
        np.array(tallies(k * (n - 1), n_classes)), own_votes, own_votes
    ):
        before, after = (
            answers[tuple((others + votes).tolist())] for votes in (own, moved)
        )
        rows.append((before, after, 1 - own.min() / k, others + own, moved - own))
    return NeighbouringVotes(*(np.array(column) for column in zip(*rows, strict=True)))


def tallies(total: int, n_classes: int) -> list[tuple[int, ...]]:
    """List all numbers of votes for the classes that sum up to a total."""
    return [
        counts
        for counts in itertools.product(range(total + 1), repeat=n_classes)
        if sum(counts) == total
    ]


def answer_distribution(counts: Integers, *, scale: float) -> Floats:
    """Compute by quadrature the probability that each class has the most votes after
    Laplace noise of this scale.

    The panels end at the counts, where the integrand has kinks, and are no wider than
    the scale.
    """
    # all counts lie on a grid of this spacing
    spacing = float(np.gcd.reduce(counts - counts.min())) or scale
    width = spacing / math.ceil(spacing / scale)
    # the panels begin on that grid, too
    low = float(counts.min()) - math.ceil(REACH * scale / width) * width
    # up to where the noise is spent
    panels = math.ceil((float(counts.max()) + REACH * scale - low) / width)
    at = (low + width * (np.arange(panels)[:, None] + (1 + NODES) / 2)).ravel()
    # [n_classes, nodes], noisy count at which a class wins, less its votes
    above = (at - counts[:, None]) / scale
    tail = np.exp(-np.abs(above)) / 2
    # probability that the class's own noisy count is lower
    below = np.where(above < 0, tail, 1 - tail)
    mass = tail / scale * np.tile(WEIGHTS, panels) * width / 2
    return np.array(
        [
            (mass[own] * np.delete(below, own, axis=0).prod(0)).sum()
            for own in range(len(counts))
        ]
    )


def other_answer(gap: float, beta: float) -> float:
    """Compute Equation 2 of the supplement for two classes: the probability that the
    class behind by ``gap`` wins.
    """
    return (2 + beta * gap) / (4 * math.exp(beta * gap))


def two_rounds(
    epsilons: Floats, shifts: tuple[float, float, float], threshold: float
) -> Floats:
    """Compute hockey-stick divergences of two Gaussian answers, where the second shift
    depends on the first answer.

    ``shifts`` are in standard deviations: the shift of the first answer, and the shifts
    of the second answer after a first answer below and above the threshold.
    """
    first, below, above = shifts
    total = np.zeros(len(epsilons))
    for low, high, second in (
        (-GAUSSIAN_REACH, threshold, below),
        (threshold, GAUSSIAN_REACH, above),
    ):
        at = low + (high - low) * (1 + GAUSSIAN_NODES) / 2  # the first answer
        mass = (
            GAUSSIAN_WEIGHTS
            * (high - low)
            / 2
            * np.exp(-((at - first) ** 2) / 2)
            / math.sqrt(2 * math.pi)
        )
        # [epsilons, nodes], less the loss of the first answer
        left = epsilons[:, None] - (first * at - first**2 / 2)
        total += shifted_gaussian(left, second) @ mass
    return total


def shifted_gaussian(epsilon: Floats, mu: float) -> Floats:
    """Compute the hockey-stick divergence of N(mu, 1) from N(0, 1), for real
    epsilon.
    """
    # the formula divides by mu
    if mu == 0:
        return np.maximum(-np.expm1(epsilon), 0.0)
    return np.asarray(
        special.ndtr(mu / 2 - epsilon / mu)
        - np.exp(epsilon) * special.ndtr(-mu / 2 - epsilon / mu)
    )


def pate_moments(order: Floats, *, beta: float, m: float, q: float) -> Floats:
    """Bound a log-moment of one noisy vote where the models agree: the paper's
    conjecture, with its missing conditions.

    Status: *per-instance*, and for one direction only. The bound is for the moment of
    the vote on this data set against the vote on a neighbouring data set. The reverse
    moment can be larger, so the bound alone gives no differential privacy.

    Parameters
    ----------
    order : ndarray, >= 0
        l, the order of the moment.
    beta : float, > 0
        The paper's lambda, the inverse scale of the Laplace noise on each class, per
        vote.
    m : float, in [0, 1]
        The m of :func:`dpnotes.accounting.papers.personalised_moments`.
    q : float, in [0, 1 / (1 + exp(2 beta m)))
        Bound on the probability that the likeliest class loses, from votes divided by
        the number of partitions. From raw counts, as printed, it is too small.

    Returns
    -------
    ndarray, >= 0

    Raises
    ------
    ValueError
        If q is outside this range, which the paper does not state.

    Source
    ------
    Jordon, Yoon and van der Schaar (2019), supplement, Equation 3; the proof of
    Papernot et al. (2017), Theorem 3.

    Examples
    --------
    >>> round(float(pate_moments(np.array(1), beta=1.0, m=1.0, q=1.5 * np.exp(-4))), 10)
    0.3291003345
    """
    level = 2 * beta * m
    limit = 1 / (1 + math.exp(level))
    if q >= limit:
        raise ValueError(
            f"q must be < 1 / (1 + exp(2 beta m)) = {limit:g}, got q={q!r}; no bound is"
            " proved there"
        )
    kept = math.log1p(-q)
    likely = kept + order * (kept - math.log1p(-q * math.exp(level)))
    with np.errstate(divide="ignore"):  # q = 0: certainty costs nothing
        return np.asarray(
            np.logaddexp(likely, np.log(q) + order * level), dtype=np.float64
        )


def loop(
    cut: Sequence[Sequence[str]],
    epsilon: float,
    delta: float,
    *,
    beta: float,
    joined: Sequence[str],
) -> int:
    """Count the labels of the loop of Algorithm 1; ``joined`` are the chunks that
    one more record would join.
    """
    own = {STAND_IN: joined, **chunks_of_records(cut)}
    moments = dict.fromkeys(own, np.zeros(len(ORDERS)))
    # as in the paper, the budget is looked at after each label
    labels = 0
    spent = 0.0
    while spent < epsilon:
        labels += 1
        for record, chunks in own.items():
            # every label costs the same, since the models are constant
            moments[record] = moments[record] + personalised_moments(
                ORDERS, inverse_scale=beta, m=fraction(chunks)
            )
        spent = float(
            ((np.max(list(moments.values()), axis=0) - math.log(delta)) / ORDERS).min()
        )
    return labels


def chunks_of_records(cut: Sequence[Sequence[str]]) -> dict[str, list[str]]:
    """List the chunks, one of each partition, that hold each record."""
    every = [chunk for chunks in cut for chunk in chunks]
    found = {}
    for record in "".join(cut[0]):
        found[record] = [chunk for chunk in every if record in chunk]
    return found


def fraction(chunks: Sequence[str]) -> float:
    """Compute m of a record: the largest, over classes, of the fractions of its
    models that vote for another class.
    """
    # one model for each partition
    given = [VOTES[chunk] for chunk in chunks]
    return 1 - min(given.count(0), given.count(1)) / len(given)


def largest_fraction(cut: Sequence[Sequence[str]]) -> float:
    """Compute the largest m over the records."""
    return max(map(fraction, chunks_of_records(cut).values()))


class _FixedVotes:
    """A learner whose model of a chunk gives the votes of the example, whatever it
    is asked.
    """

    def fit_many(
        self, X: Any, codes: Any, subsets: Any, *, n_classes: int, seed: int
    ) -> Any:
        votes = []
        for rows in subsets:
            # the model is named by the records that it was given
            chunk = "".join("abcde"[int(record)] for record in X[rows, 0])
            votes.append(VOTES[chunk])
        given = np.array(votes)
        return SimpleNamespace(
            votes=lambda queries: np.repeat(given[:, None], len(queries), axis=1)
        )


def counterexample() -> pd.DataFrame:
    """Run :class:`dpnotes.methods.DPBag` on the records a, b, c, d of the example, and
    on the same with a record e.

    The noise has inverse scale 0.04, and the budget is (1, 1e-5). The columns are
    records, labels and epsilon (spent).
    """
    from sklearn.linear_model import LogisticRegression

    from dpnotes.methods import DPBag

    # of a to e, and of a sixth
    chunks = np.array([[0, 0], [0, 1], [1, 0], [1, 1], [0, 0], [1, 1]])
    found = []
    for n in (4, 5):
        model = DPBag(
            estimator=_FixedVotes(),
            n_models=2,
            n_partitions=2,
            inverse_scale=0.04,
            epsilon=1.0,
            delta=1e-5,
            student=LogisticRegression(),
            device="cpu",
            noise_seed=0,
            accountant="personalised",
        ).fit(
            np.arange(n)[:, None],
            np.arange(n) % 2,
            public=np.zeros((60, 1)),
            chunks=chunks[: n + 1],
        )
        found.append(
            {
                "records": ", ".join("abcde"[:n]),
                "labels": model.n_labels_,
                "epsilon": model.epsilon_spent_,
            }
        )
    return pd.DataFrame(found)


COUNTEREXAMPLE = Table(
    "Algorithm 1 on two neighbouring data sets, with noise of inverse scale 0.04 and"
    " the budget (1, 0.00001).",
    (
        "records",
        Column("labels", "labels given out"),
        Column("epsilon", "epsilon by the personalised account"),
    ),
)


def assigned(records: str, n: int) -> list[Partition]:
    """List all equally likely partitions into n chunks if each record draws its
    chunk independently of the others.
    """
    cuts = []
    for drawn in itertools.product(range(n), repeat=len(records)):
        chunks: list[set[str]] = [set() for _ in range(n)]
        for record, chunk in zip(records, drawn, strict=True):
            chunks[chunk].add(record)
        cuts.append(tuple(map(frozenset, chunks)))
    return cuts


def balanced_partitions(records: str, n: int) -> list[Partition]:
    """List the partitions into n chunks whose sizes differ by at most one record."""
    return [
        cut
        for cut in assigned(records, n)
        if max(map(len, cut)) - min(map(len, cut)) <= 1
    ]


def worst_epsilon(
    cuts: Sequence[Partition], others: Sequence[Partition], beta: float
) -> float:
    """Find the largest pure epsilon of one answer over all learners, for equally
    likely partitions.
    """
    # a learner is a function of its chunk: one bit each
    distinct = dict.fromkeys(chunk for cut in (*cuts, *others) for chunk in cut)
    chunks = {chunk: index for index, chunk in enumerate(distinct)}
    # [learners, chunks]
    learners = (np.arange(2 ** len(chunks))[:, None] >> np.arange(len(chunks))) & 1
    n = len(cuts[0])
    answers = np.array(
        [
            answer_distribution(np.array([n - ones, ones]), scale=1 / beta)
            for ones in range(n + 1)
        ]
    )

    def mixture(drawn: Sequence[Partition]) -> Floats:
        ones = (learners[:, [chunks[chunk] for chunk in cut]].sum(1) for cut in drawn)
        # [learners, 2]
        return np.asarray(
            np.log(sum(answers[votes_for_one] for votes_for_one in ones) / len(drawn))
        )

    return float(np.abs(mixture(cuts) - mixture(others)).max())


def balanced_epsilon(*, n: int, size: int, beta: float) -> float:
    """Compute the pure epsilon at which one learner shows whether n chunks of ``size``
    records have one more record.

    The chunks are balanced. The learner votes 1 on the chunk that holds the record and
    on the larger chunk: these are one chunk or, in most partitions, two.
    """
    own = (size + 1) / (n * size + 1)  # the record is in the larger chunk
    # how often the learner votes 1
    none, one, two = (
        answer_distribution(np.array([n - ones, ones]), scale=1 / beta)[1]
        for ones in range(3)
    )
    return math.log((own * one + (1 - own) * two) / none)
