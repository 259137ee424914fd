"""Differentially private bagging: a record has a teacher in each of many partitions, and a student learns the vote."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.linear_model import LogisticRegression

from dpnotes import accounting
from dpnotes._validation import at_least_one, one_of, positive
from dpnotes.accounting.papers import personalised_vote
from dpnotes.learners import TouchedVotes
from dpnotes.mechanisms import Partitions, laplace_vote, stream
from dpnotes.methods._answers import derived_seed
from dpnotes.methods._personal_accountant import personalised_epsilon, squares_of_budget
from dpnotes.methods._student import StudentVote, fit_student
from dpnotes.methods._teachers import LogisticTeachers, counts_of, partitions_of

ACCOUNTANTS = ("personalised", "naive", "tight")
QUERIES = 1024  # voted on at a time
SCHEMES = {  # of the partitions: adjacency, and what the guarantee assumes
    "independent": (
        "add-remove",
        "the chunks of a record are chosen independently of the other records in each partition, and the number of "
        "labels does not depend on the data",
    ),
    "balanced": (
        "replace-one",
        "the number of records is public, the partitions do not depend on the records, and neither does the number of "
        "labels",
    ),
}
LOCAL = (
    "bounds the release for these records against the same with one less or one more that joins the stated chunks, if "
    "the number of labels were fixed at this one; it was not: the accountant stopped on the private votes, so that the "
    "number of labels alone can tell two neighbouring data sets apart with certainty and no (epsilon, delta) with "
    "delta < 1 holds"
)


@dataclass(eq=False, repr=False)
class DPBag(StudentVote):
    """Bagging over many partitions of the records: the teachers' noisy vote labels public rows, a student learns them.

    Each of ``n_partitions`` partitions cuts the private records into ``n_teachers`` chunks, one teacher each. Votes are
    divided by the number of partitions, Laplace noise of scale ``1 / noise`` is added to each class, and public rows
    are answered in their order until the accountant stops. Subsample-and-aggregate is ``n_partitions=1``: the paper's
    baseline with ``accountant="naive"``, the same mechanism under its exact range with ``"tight"``.

    Parameters
    ----------
    estimator : object, optional
        The teachers' learner: a scikit-learn classifier, or one that fits many models in one call (it has ``fit_many``
        and takes a list of index arrays of unequal length, as :class:`dpnotes.learners.BoostedTreesClassifier` does). A
        teacher must depend on the records of its own chunk only. Default: logistic regression with scikit-learn's
        C = 1, all teachers at once.
    n_teachers : int, in 1 .. n
        Chunks of each partition. More than there are records are refused; that refusal is not covered by the guarantee.
    n_partitions : int, >= 1
    epsilon : float, > 0
    delta : float, in (0, 1)
    noise : float, > 0, optional
        lambda, the *inverse* scale of the Laplace noise per normalised vote. Default: ``2 / n_teachers``.
    accountant : {"personalised", "naive", "tight"}
        ``"personalised"``: the paper's, which stops after the label at which the epsilon of a record reaches the budget
        for the private votes at hand; *not* differentially private. ``"naive"``: the same bound with m = 1 (DPBag-),
        a number of labels that no data enter, one more than the budget pays for. ``"tight"``: the most labels that are
        (epsilon, delta)-DP in all whatever the data, for any number of partitions.
    partitions : {"independent", "balanced"}
        See :func:`dpnotes.mechanisms.draw_partitions`: the guarantee is for add-remove or for replace-one adjacency.
    student : object, optional
        A scikit-learn classifier. Default: a clone of ``estimator``, or scikit-learn's logistic regression.
    classes : sequence, optional
        All labels that can occur, when they are not public knowledge: by default they are read off y, and the guarantee
        is about all that is released except ``classes_``.
    n_jobs : int or None
        joblib workers for scikit-learn teachers.
    device : str
        Where the accountant and the default teachers compute: a PyTorch device, or ``"auto"``.
    random_state : int, RandomState instance or None
        Chunks and learners.
    noise_seed : int, optional
        See :class:`PrivateClassifier`.

    Attributes
    ----------
    profile_ : dpnotes.accounting.PrivacyProfile
        Of releasing ``labels_`` and the student. *per-instance* and no guarantee for ``"personalised"``, see its
        ``assumption``; proved for the other accountants.
    labels_ : ndarray, shape [n_labels_]
        Labels of the first public rows.
    n_labels_ : int
        All public rows where they do not exhaust the budget.
    epsilon_spent_ : float
        ``profile_.epsilon(delta)``; at least ``epsilon`` for the two accountants of the paper, which stop after the
        label that reaches it.
    record_epsilons_ : ndarray of float, shape [n]
        Only for ``"personalised"``: epsilon of each private record. With ``joining_epsilon_``, that of a record yet to
        come, and ``agreement_`` a diagnosis for who holds the data, not to be published; they travel with a pickle.
    agreement_ : ndarray of float, shape [n_labels_]
        Fraction of the teachers that vote for the class of most votes.
    student_ : object
    classes_ : ndarray, shape [n_classes]
    n_features_in_ : int

    Source
    ------
    Jordon, Yoon and van der Schaar (2019), Algorithm 1; :func:`dpnotes.accounting.noisy_vote` for what is proved, and
    claim 24 of the book's ledger for what is not.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = (X - X.mean(0)) / X.std(0)
    >>> model = DPBag(n_teachers=20, n_partitions=10, epsilon=3.0, delta=1e-3, device="cpu", noise_seed=0)
    >>> model = model.fit(X[:300], y[:300], public=X[300:])
    >>> model.profile_.status, bool(3.0 <= model.epsilon_spent_ < 3.3), model.score(X, y) > 0.7
    ('per-instance', True, True)
    >>> model.set_params(accountant="tight").fit(X[:300], y[:300], public=X[300:]).n_labels_
    76
    """

    _: KW_ONLY
    n_partitions: int = 100
    epsilon: float = 1.0
    delta: float = 1e-5
    noise: float | None = None
    accountant: str = "personalised"
    partitions: str = "independent"
    device: str = "auto"

    def fit(self, X: Any, y: Any, *, public: Any = None, chunks: ArrayLike | None = None) -> DPBag:
        """Train the teachers on the private records, label public rows by their private vote, train the student.

        Parameters
        ----------
        X : array_like of float, shape [n, d], finite
            Private records.
        y : array_like, shape [n]
            Their labels.
        public : array_like of float, shape [n_public, d], finite
            Unlabelled rows that are no secret; required. A Pipeline transforms them as X where it names them in
            ``transform_input``, and is refused otherwise.
        chunks : array_like of int, shape [n + 1, n_partitions], in 0 .. n_teachers - 1, optional
            Chunk of each record in each partition, and last of one more record, for example by
            :func:`dpnotes.mechanisms.hash_chunks`; only for independent ``partitions``. Default: drawn.

        Returns
        -------
        DPBag
            Itself.

        Raises
        ------
        ValueError
            If public is missing or not transformed as X is, data are not finite or differ in length or features, a
            label is not among ``classes``, there are fewer than 2 classes or more than 255, there are more teachers
            than records, or a parameter is outside its range.
        TypeError
            If a number is of the wrong kind, or the student's learner is no classifier.
        """
        X, codes, classes = self._records(X, y, most=255)
        public = self._public_rows(public)
        n_teachers = self._check_teachers(len(X))
        if chunks is not None and self.partitions != "independent":
            raise ValueError(f"chunks must be None for partitions={self.partitions!r}, which are drawn")
        noise, within = self._settings(len(classes))
        randomness = self._randomness()
        seed = randomness.learning
        learn_seed, student_seed = (int(s) for s in stream(seed, 0).integers(2**31, size=2))
        generator = randomness.generator(1)
        cut = partitions_of(
            len(X), chunks, (len(X) + 1, self.n_partitions), n_chunks=n_teachers, scheme=self.partitions,
            seed=derived_seed(seed, 2),
        )  # fmt: skip
        student = self._student_learner(LogisticRegression(max_iter=1000))
        default = LogisticTeachers(device=self.device)
        teachers = self._teach(X, codes, cut, default=default, n_classes=len(classes), seed=learn_seed)
        n_queries = len(public) if within is None else min(within, len(public))
        asked = public[:n_queries]
        voted = (teachers.votes(asked[start : start + QUERIES]) for start in range(0, n_queries, QUERIES))
        self.classes_ = classes
        if within is None:
            self._answer_personalised(voted, cut, noise, generator)
        else:
            self._answer(voted, noise, n_queries, generator)
        labelled = public[: self.n_labels_]
        self.student_ = fit_student(student, labelled, self.labels_, classes=classes, seed=student_seed)
        return self

    def _analysis(self) -> str:
        return "tight" if self.accountant == "tight" else "published"

    def _settings(self, n_classes: int) -> tuple[float, int | None]:
        """Noise, and the number of labels unless the personalised accountant finds it; checks all parameters."""
        at_least_one("n_partitions", self.n_partitions)
        one_of("accountant", self.accountant, ACCOUNTANTS)
        one_of("partitions", self.partitions, tuple(SCHEMES))
        noise = 2 / self.n_teachers if self.noise is None else positive("noise", self.noise)
        squares_of_budget(self.epsilon, self.delta, n_partitions=1, noise=noise)  # checks the pair
        if self.accountant == "personalised":
            return noise, None
        return noise, accounting.noisy_vote_answers(
            self.epsilon, self.delta, noise=noise, n_classes=n_classes, analysis=self._analysis()
        )

    def _answer(
        self, voted: Iterator[NDArray[np.uint8]], noise: float, labels: int, generator: np.random.Generator | None
    ) -> None:
        """Answer a number of queries that no data entered."""
        self._release([(votes, votes.shape[1]) for votes in voted], noise, generator)
        adjacency, assumption = SCHEMES[self.partitions]
        if labels == 0:
            self.profile_ = accounting.approximate(0.0, 0.0)
        else:
            self.profile_ = accounting.noisy_vote(
                noise=noise,
                answers=labels,
                n_classes=len(self.classes_),
                adjacency=adjacency,
                analysis=self._analysis(),
            )
            self.profile_ = self._implemented(self.profile_.with_(assumption=assumption), exact=True)
        self.epsilon_spent_ = float(self.profile_.epsilon(self.delta))

    def _answer_personalised(
        self, voted: Iterator[NDArray[np.uint8]], cut: Partitions, noise: float, generator: np.random.Generator | None
    ) -> None:
        """Answer until the sum of squares of a record, or of one yet to come, reaches what the budget allows."""
        k = self.n_partitions
        limit = squares_of_budget(self.epsilon, self.delta, n_partitions=k, noise=noise)
        touched = TouchedVotes(
            np.vstack([cut.chunk, cut.joining]),
            n_teachers=self.n_teachers,
            n_classes=len(self.classes_),
            device=self.device,
        )
        kept: list[tuple[NDArray[np.uint8], int]] = []
        for votes in voted:
            largest = touched.add(votes.reshape(k, self.n_teachers, -1), limit=limit)
            kept.append((votes, len(largest)))
            if largest[-1] >= limit:
                break
        self._release(kept, noise, generator)
        squares = touched.totals
        own = personalised_epsilon(squares, n_partitions=k, noise=noise, delta=self.delta)
        self.record_epsilons_, self.joining_epsilon_ = own[:-1], float(own[-1])
        spent = personalised_vote(squares, noise=noise, n_partitions=k, answers=self.n_labels_, assumption=LOCAL)
        self.profile_ = self._implemented(spent, exact=True)
        self.epsilon_spent_ = float(own.max())

    def _release(
        self, kept: list[tuple[NDArray[np.uint8], int]], noise: float, generator: np.random.Generator | None
    ) -> None:
        """Noisy class of most normalised votes, for the first queries of each block."""
        n_classes = len(self.classes_)
        tables = [counts_of(votes[:, :answered], n_classes) for votes, answered in kept]
        counts = np.concatenate([np.zeros((0, n_classes), np.int64), *tables])
        if generator is None:  # whole counts, since those divided are rounded
            released = laplace_vote(counts, scale=np.nextafter(self.n_partitions / noise, np.inf))
        else:
            released = laplace_vote(counts / self.n_partitions, scale=1 / noise, seed=generator)
        self.labels_ = self.classes_[released]
        self.n_labels_ = len(released)
        self.agreement_ = counts.max(axis=1) / (self.n_teachers * self.n_partitions)
