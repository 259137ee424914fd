"""Noisy answers without a limit on their number: a teacher that has spent its budget
of votes abstains.
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpnotes import accounting
from dpnotes._validation import Features, Integers, at_least_one, real
from dpnotes.mechanisms import gaussian_vote, stream
from dpnotes.methods._answers import Shared, derived_seed
from dpnotes.methods._private import Fitted, Learned, Records
from dpnotes.methods._teachers import (
    LogisticTeachers,
    Teachers,
    TeacherVote,
    counts_of,
    partitions_of,
)

QUERIES = 1024  # voted on at a time


@dataclass(eq=False, repr=False)
class FilteredVote(TeacherVote):
    """Noisy vote of teachers with individual vote budgets: any number of answers under
    one guarantee.

    Each private record goes to one of ``n_models`` shards, chosen independently of the
    other records. A teacher votes if it is confident enough, and abstains permanently
    once another vote would exceed its budget. Gaussian noise is added to the votes for
    each class, and the class with the largest sum is the answer. It remains secret
    which teachers abstained, even if all of them did and the answers are only noise.
    With several partitions, the votes are divided by the number of partitions; the
    guarantee is the same.

    Parameters
    ----------
    epsilon : float, >= 0, optional
    delta : float, in (0, 1), optional
        Delta of all answers together.
    estimator : object, optional
        The teachers' learner: a scikit-learn classifier (with ``predict_proba`` for a
        ``confidence`` above 0), or a learner whose ``fit_many`` fits many models in one
        call and gives models with ``confidence(X)``. Without a ``noise_seed``,
        ``fit_many`` is called separately for each teacher. A teacher must depend only
        on the records of its shard. Default: logistic regression with scikit-learn's C
        = 1.
    n_models : int, in 1 .. n, optional
        Number of teachers in each partition. Default: n / (5 n_classes) for n records,
        rounded down, but at least 1 and at most 1024; under ``"add-remove"``, which
        protects n, it has no default.
    n_partitions : int, >= 1
    answers : int, >= 1
        Number of votes that each teacher may cast in total. With ``confidence=0``, the
        teachers therefore vote on the first ``answers`` queries and abstain from all
        later queries.
    sigma : float, > 0, optional
        Standard deviation of the noise on each class, in votes divided by
        ``n_partitions``. Give it instead of ``epsilon`` and ``delta``, from which the
        smallest sigma is otherwise calibrated.
    confidence : float, in [0, 1]
        Least probability that a teacher must give a class to vote for it. With 0 a
        teacher votes on every query until its budget is spent.
    adjacency : {"zero-out", "add-remove"}
        Definition of neighbouring data sets. A record that is made empty leaves its
        shards, and no other record moves, so one vote of each partition may change. The
        guarantee is the same under both.
    classes : sequence, optional
        All labels that can occur. By default they are taken from y, and the guarantee
        then covers everything that is released except ``classes_``. Omit them only if
        it is public which labels occur in y.
    n_jobs : int or None
        Number of joblib workers for scikit-learn teachers, which start none
        of their own.
    device : str
        Device of the default teachers: a PyTorch device, or ``"auto"``.
    random_state : int, RandomState instance or None
        Seed of the learners and, unless the adjacency is ``"add-remove"``, of the
        shards.
    noise_seed : int, optional
        See :class:`PrivateClassifier`.

    Attributes
    ----------
    profile_ : dpnotes.accounting.PrivacyProfile
        Guarantee of all answers together, for any data and any number of queries:
        mu-GDP with ``mu = sqrt(2 answers) / sigma``, where ``answers`` is the
        parameter.
    ledger_ : VoteLedger
        Record of the votes that the teachers have cast; private, like the teachers.
    classes_ : ndarray, shape [n_classes]
    n_features_in_ : int

    Source
    ------
    :func:`dpnotes.accounting.chunk_filter`; Feldman and Zrnic (2021), Koskela, Tobaben
    and Honkela (2023).

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = (X - X.mean(0)) / X.std(0)
    >>> vote = FilteredVote(
    ...     n_models=40, answers=50, sigma=10.0, device="cpu", noise_seed=0
    ... ).fit(X[:400], y[:400])
    >>> vote.score(X[400:450], y[400:450]) > 0.8, vote.ledger_.retired
    (True, 40)
    >>> round(vote.profile_.epsilon(1e-5), 4)
    4.3772
    """

    _: KW_ONLY
    n_partitions: int = 1
    answers: int = 100
    sigma: float | None = None
    confidence: float = 0.0
    device: str = "auto"
    ledger_: VoteLedger = field(init=False)

    _most_classes = 255
    _answers_from_records = True

    def fit(self, X: Any, y: Any, *, chunks: ArrayLike | None = None) -> FilteredVote:
        """Train the teachers, and give each of them a budget of votes.

        On the same records the guarantees of several fits compose.

        Parameters
        ----------
        X : array_like of float, shape [n, d], finite
        y : array_like, shape [n]
        chunks : array_like of int, shape [n, n_partitions], in 0 .. n_models - 1,
        optional
            Shard of each record in each partition, for example from
            :func:`dpnotes.mechanisms.hash_chunks`. The guarantee assumes that the
            shards of each record were chosen independently of the other records.
            Default: drawn uniformly.

        Returns
        -------
        FilteredVote
            The estimator itself.

        Raises
        ------
        ValueError
            If data are not finite or differ in length, there are fewer than 2 classes
            or more than 255, there are more teachers than records, or a parameter is
            outside its range.
        TypeError
            If a number has the wrong type.
        """
        return self._fit_to(X, y, chunks=chunks)

    def _learn(self, records: Records, *, chunks: ArrayLike | None) -> Learned:
        n_teachers = self._check_teachers(records)
        k = at_least_one("n_partitions", self.n_partitions)
        answers = at_least_one("answers", self.answers)
        confidence = real("confidence", self.confidence, high=1.0)
        own = self.estimator
        if (
            confidence > 0
            and own is not None
            and not (hasattr(own, "fit_many") or hasattr(own, "predict_proba"))
        ):
            raise AttributeError(
                f"estimator must have predict_proba for confidence={confidence}, got"
                f" estimator={own}"
            )
        sigma: Any = self.sigma
        if budget := self._budget_for("sigma"):
            # a vote moves two counts by 1, and each teacher votes ``answers`` times
            sigma = accounting.gaussian_sigma(
                *budget, sensitivity=math.sqrt(2 * answers)
            )
        profile = accounting.chunk_filter(
            budget=answers, sigma=sigma, adjacency=self.adjacency
        )
        chunks_alone = (
            f"each record's chunks in {k} partitions are chosen independently of the"
            " other records"
        )
        profile = profile.with_(assumption=chunks_alone)
        randomness = self._randomness()
        seed = randomness.learning
        learn_seed = int(stream(seed, 0).integers(2**31))
        cut = partitions_of(
            records.n,
            chunks,
            (records.n, k),
            n_chunks=n_teachers,
            seed=derived_seed(self._seed_of_shards(randomness), 2),
        )
        default = LogisticTeachers(device=self.device)
        teachers = self._teach(records, cut.subsets(), default=default, seed=learn_seed)
        if confidence > 0 and not isinstance(teachers.models, list):
            # models of a learner that give no confidence fail here
            teachers.confident(np.zeros_like(records.X[:1]), confidence)
        ledger = VoteLedger(
            n_teachers * k,
            answers,
            randomness.generator(1),
            sigma=sigma,
            n_partitions=k,
            n_classes=len(records.classes),
        )
        voters = _Confident(teachers, confidence)
        return Learned(profile, voters, private={"ledger_": ledger}, budget=ledger)

    def predict(self, X: Any) -> NDArray[Any]:
        """Answer queries privately, shape [n]. Each call casts new votes, even for rows
        that were asked before.

        Raises
        ------
        BudgetExhausted
            If this is a pickled or forked copy that was not resumed: see
            :meth:`VoteLedger.resume`.
        """
        return self._answered(X, _voted)


@dataclass(frozen=True, eq=False)
class _Confident:
    """Teachers that vote only where they are confident enough."""

    teachers: Teachers
    least: float

    def votes(self, X: Features) -> NDArray[np.unsignedinteger]:
        votes = self.teachers.votes(X)
        if self.least > 0:
            votes[~self.teachers.confident(X, self.least)] = self.teachers.n_classes
        return votes


def _voted(fitted: Fitted, X: Features) -> NDArray[Any]:
    answers = []
    for start in range(0, len(X), QUERIES):
        votes = fitted.model.votes(X[start : start + QUERIES])
        answers.append(fitted.budget.answer(votes))
    return np.asarray(fitted.classes[np.concatenate(answers)])


class VoteLedger(Shared):
    """Record of the votes that each teacher has cast; copies of the classifier share
    it, so no budget is spent twice.

    It also draws the noise of the answers. Copies made by ``copy`` and ``deepcopy``, of
    the ledger or of the estimator that holds it, share the ledger, and so do threads. A
    pickled copy, and a copy in a forked process, refuses to answer until :meth:`resume`
    is called.

    Parameters
    ----------
    n_teachers : int, >= 1
        Number of teachers.
    budget : int, >= 1
        Number of votes that each teacher may cast.
    generator : numpy Generator or None
        Generator of the noise. If it is None, and in a resumed copy, the operating
        system gives exact noise.
    sigma : float, > 0
        Standard deviation of the noise on each class, in votes divided by
        ``n_partitions``.
    n_partitions : int, >= 1
    n_classes : int, >= 2
    """

    def __init__(
        self,
        n_teachers: int,
        budget: int,
        generator: np.random.Generator | None,
        *,
        sigma: float,
        n_partitions: int,
        n_classes: int,
    ) -> None:
        super().__init__()
        self._budget = budget
        self._generator = generator
        self._sigma = sigma
        self._n_partitions = n_partitions
        self._n_classes = n_classes
        # votes of each teacher, and queries answered: replaced together
        self._cast = (np.zeros(n_teachers, np.int64), 0)

    @property
    def spent(self) -> Integers:
        """Number of votes cast by each teacher, shape [n_teachers]; it must not be
        published.
        """
        return self._cast[0].copy()

    @property
    def retired(self) -> int:
        """Number of teachers that will not vote again; it must not be published."""
        return int((self._cast[0] == self._budget).sum())

    @property
    def answered(self) -> int:
        """Number of queries answered so far, as far as this copy knows."""
        return self._cast[1]

    def answer(self, votes: NDArray[np.uint8]) -> Integers:
        """Answer each query by the class code that wins a noisy vote, shape [queries];
        teachers without budget abstain.

        Parameters
        ----------
        votes : ndarray of uint8, shape [n_teachers, queries], in 0 .. n_classes
            Class code that each teacher would vote for, or ``n_classes`` for no vote.

        Raises
        ------
        BudgetExhausted
            If this is a pickled or forked copy that was not resumed.
        """
        self.refuse_copies()
        with self._lock:
            # one pair, so that a pickle made now has both or neither
            spent, answered = self._cast
            wanted = votes < self._n_classes
            # of a call of many queries, the first ones are paid
            cast = wanted & (spent[:, None] + wanted.cumsum(axis=1) <= self._budget)
            # a new array: states that were pickled keep theirs
            self._cast = (spent + cast.sum(axis=1), answered + votes.shape[1])
            counts = counts_of(votes, self._n_classes, among=cast)
            if self._generator is None:  # whole counts, since those divided are rounded
                return gaussian_vote(
                    counts, sigma=np.nextafter(self._sigma * self._n_partitions, np.inf)
                )
            return gaussian_vote(
                1 / self._n_partitions * counts, sigma=self._sigma, seed=self._generator
            )

    def _refusal_of_copies(self) -> str:
        return (
            f"this is a copy made after {self.answered} answers; it cannot know what"
            " the original answered later: see ledger_.resume(released=...)"
        )

    def resume(self, *, released: int) -> None:
        """Let a pickled or forked copy continue to answer; from now on, only this copy
        may answer.

        Parameters
        ----------
        released : int
            Number of queries answered in total, by the original and every copy. The
            guarantee rests on this declaration. It must equal the count of this copy:
            if more queries were answered, this copy does not know which teachers voted,
            and only a newer copy can continue.

        Raises
        ------
        ValueError
            If ``released`` differs from the count of this copy.
        """
        with self._resuming:
            # which teachers voted elsewhere is not known from a number
            if released != self.answered:
                raise ValueError(
                    f"released must be {self.answered}, as counted by this copy, got"
                    f" released={released}"
                )
            if not self._is_whole():
                # a seeded copy would repeat the noise of the original
                self._generator = None
                self._adopt()

    def __getstate__(self) -> dict[str, Any]:
        # no pickle tells the noise that comes
        return {**super().__getstate__(), "_generator": None}
