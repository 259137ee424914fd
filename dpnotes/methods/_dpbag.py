"""Differentially private bagging: each partition assigns a record to one teacher,
and a student learns the vote.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.linear_model import LogisticRegression

from dpnotes import accounting, learners
from dpnotes._validation import (
    Integers,
    at_least_one,
    one_of,
    positive,
)
from dpnotes.accounting.papers import (
    personalised_epsilon,
    personalised_vote,
    squares_of_budget,
)
from dpnotes.mechanisms import Partitions, laplace_vote, stream
from dpnotes.methods._answers import derived_seed
from dpnotes.methods._private import Learned, Records
from dpnotes.methods._student import StudentVote, agreement, fit_student
from dpnotes.methods._teachers import LogisticTeachers, counts_of, partitions_of

# of an accountant
ANALYSES = {"tight": "tight", "naive": "published", "personalised": "published"}
QUERIES = 1024  # voted on at a time
SCHEMES = {  # of the partitions: adjacencies, and what the guarantee assumes
    "independent": (
        ("zero-out", "add-remove"),
        (
            "the chunks of a record are chosen independently of the other records in"
            " each partition, and the number of labels does not depend on the data"
        ),
    ),
    "balanced": (
        ("zero-out", "replace-one"),
        (
            "the number of records is public, the partitions do not depend on the"
            " records, and neither does the number of labels"
        ),
    ),
}
LOCAL = (
    "bounds the release for these records against the same records without one, or with"
    " one more in the stated chunks, as if this number of labels had been fixed"
    " beforehand; it was not: the accountant stopped on the private votes, so the"
    " number of labels alone can distinguish two neighbouring data sets with certainty,"
    " and no (epsilon, delta) with delta < 1 holds"
)
THEOREM = (
    "Jordon, Yoon and van der Schaar (2019), Theorem 6, refuted in the chapter on"
    " differentially private bagging"
)
NO_GUARANTEE = (
    "no guarantee: the personalised accountant stopped on the private votes, so the"
    " number of labels alone can distinguish two neighbouring data sets with certainty,"
    " and no (epsilon, delta) with delta < 1 holds"
)


@dataclass(eq=False, repr=False)
class DPBag(StudentVote):
    """Bagging over many partitions of the records: teachers label public rows by a
    noisy vote, to train a student.

    Each of ``n_partitions`` partitions splits the private records into ``n_models``
    shards with one teacher each. The votes for each class are divided by the number of
    partitions, and Laplace noise of scale ``1 / inverse_scale`` is added. Public rows
    are answered in order until the accountant stops. With ``n_partitions=1`` the method
    is subsample-and-aggregate: ``accountant="naive"`` gives the paper's baseline, and
    ``"tight"`` gives the same mechanism with a sharper analysis.

    Parameters
    ----------
    epsilon : float, > 0
    delta : float, in (0, 1)
    estimator : object, optional
        The teachers' learner: a scikit-learn classifier, or a learner like
        :class:`dpnotes.learners.BoostedTreesClassifier`, which has ``fit_many`` and
        fits many models in one call. ``fit_many`` must accept a list of index arrays of
        unequal length. If ``noise_seed`` is None, ``fit_many`` is called separately for
        each teacher. A teacher must depend only on the records of its shard. Default:
        logistic regression with scikit-learn's C = 1.
    n_models : int, in 1 .. n, optional
        Number of teachers in each partition. Default: n / (5 n_classes) for n records,
        rounded down, but at least 1 and at most 1024; under ``"add-remove"``, which
        protects n, it has no default.
    n_partitions : int, >= 1
    inverse_scale : float, > 0, optional
        The paper's lambda, the *inverse* scale of the Laplace noise per normalised
        vote: a larger value means less noise. Default: ``2 / n_models``.
    accountant : {"tight", "naive", "personalised"}
        ``"tight"`` allows as many labels as the tight analysis proves to be (epsilon,
        delta)-DP together, for any data and any number of partitions. ``"naive"`` is
        the paper's bound with the largest charge for each label, as if the paper's m
        were always 1; the paper calls this version DPBag-. The number of labels that it
        allows does not depend on the data, and is one more than the budget covers.
        ``"personalised"`` is the paper's accountant. From the private votes it computes
        an epsilon for each record, and for one additional record. It stops after the
        first label at which any of these epsilons reaches the budget. With this
        accountant the method is *not* differentially private.
    partitions : {"independent", "balanced"}
        See :func:`dpnotes.mechanisms.draw_partitions`.
    adjacency : {"zero-out", "add-remove", "replace-one"}
        Definition of neighbouring data sets. A record that is made empty leaves its
        shards, and no other record moves, so one vote of each partition may change. The
        guarantee is the same under all three. Add-remove needs independent partitions,
        and replace-one needs balanced partitions.
    student : object, optional
        A scikit-learn classifier. Default: a clone of ``estimator``, or scikit-learn's
        logistic regression.
    keep_votes : bool
        Retain the votes without noise, for diagnosis by the holder of the data. The
        guarantee does not cover any result derived from them, and a pickle contains
        them. :meth:`PrivateClassifier.publish` omits them.
    classes : sequence, optional
        All labels that can occur. By default they are taken from y, and the guarantee
        then covers everything that is released except ``classes_``. Omit them only if
        it is public which labels occur in y.
    n_jobs : int or None
        Number of joblib workers for scikit-learn teachers, which start none
        of their own.
    device : str
        Device of the accountant and of the default teachers: a PyTorch device, or
        ``"auto"``.
    random_state : int, RandomState instance or None
        Seed of the learners and, unless the adjacency is ``"add-remove"``, of the
        shards.
    noise_seed : int, optional
        See :class:`PrivateClassifier`.

    Attributes
    ----------
    profile_ : dpnotes.accounting.PrivacyProfile
        Guarantee of releasing ``labels_`` and the student. For ``"personalised"`` there
        is no guarantee: epsilon is then infinite for every delta below 1.
    labels_ : ndarray, shape [n_labels_]
        Labels of the first public rows.
    n_labels_ : int
        Number of labels; all public rows are labelled if they do not exhaust the
        budget.
    epsilon_spent_ : float
        ``profile_.epsilon(delta)``; for ``"personalised"`` instead the value of the
        paper's accountant, which guarantees nothing. ``"naive"`` and ``"personalised"``
        stop only after the label that reaches ``epsilon``. With either of them
        ``epsilon_spent_`` is therefore at least ``epsilon``, except if the public rows
        run out first.
    agreement_ : ndarray of float, shape [n_labels_]
        Fraction of the teachers that vote for the most frequent class; private, and
        available only with ``keep_votes``.
    record_epsilons_ : ndarray of float, shape [n]
        Epsilon of each record by the paper's accountant; private, and available only
        with ``keep_votes`` and ``"personalised"``.
    per_instance_profile_ : dpnotes.accounting.PrivacyProfile
        The bound of the paper's accountant, as a profile of status *per-instance*; the
        ``assumption`` of the profile says what this status means. The profile is
        private, and available only with ``keep_votes`` and ``"personalised"``.
    student_ : object
    classes_ : ndarray, shape [n_classes]
    n_features_in_ : int

    Source
    ------
    Jordon, Yoon and van der Schaar (2019), Algorithm 1;
    :func:`dpnotes.accounting.noisy_vote` for the proved part, and claim 24 of the
    book's ledger for the unproved part.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = (X - X.mean(0)) / X.std(0)
    >>> model = DPBag(
    ...     3.0, 1e-3, n_models=20, n_partitions=10, device="cpu", noise_seed=0
    ... )
    >>> model = model.fit(X[:300], y[:300], public=X[300:])
    >>> model.n_labels_, model.profile_.status, model.score(X, y) > 0.7
    (76, 'proved', True)
    >>> model.set_params(accountant="personalised").fit(
    ...     X[:300], y[:300], public=X[300:]
    ... ).profile_.epsilon(1e-3)
    inf
    """

    epsilon: float = 1.0
    delta: float = 1e-5
    _: KW_ONLY
    n_partitions: int = 100
    inverse_scale: float | None = None
    accountant: str = "tight"
    partitions: str = "independent"
    device: str = "auto"
    n_labels_: int = field(init=False)
    epsilon_spent_: float = field(init=False)

    _adjacencies: ClassVar = accounting.ADJACENCIES
    _most_classes = 255

    def fit(
        self, X: Any, y: Any, *, public: Any = None, chunks: ArrayLike | None = None
    ) -> DPBag:
        """Train the teachers on the private records, label public rows by their private
        vote, and train the student.

        Parameters
        ----------
        X : array_like of float, shape [n, d], finite
            Private records.
        y : array_like, shape [n]
            Their labels.
        public : array_like of float, shape [n_public, d], finite
            Public unlabelled rows; required. A Pipeline transforms them like X if its
            ``transform_input`` names ``public``; otherwise the fit raises an error.
        chunks : array_like of int, shape [n + 1, n_partitions], in 0 .. n_models - 1,
        optional
            Shard of each record in each partition, for example from
            :func:`dpnotes.mechanisms.hash_chunks`. The last row is for one additional
            record. Chunks can be given only for ``partitions="independent"``. Default:
            drawn at random.

        Returns
        -------
        DPBag
            The estimator itself.

        Raises
        ------
        ValueError
            If public is missing or not transformed like X, data are not finite or
            differ in length or features, there are fewer than 2 classes or more than
            255, there are more teachers than records, or a parameter is outside its
            range.
        TypeError
            If a number has the wrong type, or the student's learner is not a
            classifier.
        """
        return self._fit_to(X, y, public=public, chunks=chunks)

    def _learn(
        self, records: Records, *, public: Any, chunks: ArrayLike | None
    ) -> Learned:
        classes = records.classes
        public = self._public_rows(public)
        n_teachers = self._check_teachers(records)
        if chunks is not None and self.partitions != "independent":
            raise ValueError(
                f"chunks must be None for partitions={self.partitions!r}, which are"
                " drawn"
            )
        beta, most = self._settings(len(classes))
        randomness = self._randomness()
        seed = randomness.learning
        learn_seed, student_seed = (
            int(s) for s in stream(seed, 0).integers(2**31, size=2)
        )
        cut = partitions_of(
            records.n,
            chunks,
            (records.n + 1, self.n_partitions),
            n_chunks=n_teachers,
            scheme=self.partitions,
            seed=derived_seed(self._seed_of_shards(randomness), 2),
        )
        learner = self._student_learner(LogisticRegression(max_iter=1000))
        default = LogisticTeachers(device=self.device)
        teachers = self._teach(records, cut.subsets(), default=default, seed=learn_seed)
        # a sound accountant knows the number of labels before any vote
        n_queries = len(public) if most is None else min(most, len(public))
        starts = range(0, n_queries, QUERIES)
        asked = public[:n_queries]
        # made when they are asked for: the paper's accountant may stop before
        voted = (teachers.votes(asked[start : start + QUERIES]) for start in starts)
        private: dict[str, Any] = {}
        if most is None:
            counts, squares = self._personalised(voted, cut, beta, len(classes))
            epsilons = personalised_epsilon(
                squares, n_partitions=self.n_partitions, beta=beta, delta=self.delta
            )
            # its stop depends on the votes, so no delta below 1 holds
            nothing = accounting.approximate(0.0, 1.0, adjacency=self.adjacency)
            about = {"status": "refuted", "source": THEOREM, "remark": NO_GUARANTEE}
            profile = nothing.with_(**about)
            spent = float(epsilons.max())
            # the last one is for a record that may join
            private["record_epsilons_"] = epsilons[:-1]
            private["per_instance_profile_"] = personalised_vote(
                squares,
                inverse_scale=beta,
                n_partitions=self.n_partitions,
                answers=len(counts),
                assumption=LOCAL,
            )
        else:
            tables = [counts_of(votes, len(classes)) for votes in voted]
            nobody = np.zeros((0, len(classes)), np.int64)
            counts = np.concatenate([nobody, *tables])
            profile = self._guarantee(beta, n_queries, len(classes))
            spent = float(profile.epsilon(self.delta))
        released = self._released(counts, beta, randomness.generator(1))
        labels = classes[released]
        student = fit_student(
            learner, public[: len(labels)], labels, classes=classes, seed=student_seed
        )
        # each partition has its own teachers
        all_teachers = n_teachers * self.n_partitions
        private["agreement_"] = agreement(counts, all_teachers)
        told = {
            "labels_": labels,
            "n_labels_": len(labels),
            "epsilon_spent_": spent,
            "student_": student,
        }
        return Learned(profile, student, told, private if self.keep_votes else {})

    def _settings(self, n_classes: int) -> tuple[float, int | None]:
        """Check all parameters; give lambda, and the number of labels, None for the
        personalised accountant.
        """
        at_least_one("n_partitions", self.n_partitions)
        one_of("accountant", self.accountant, tuple(ANALYSES))
        one_of("partitions", self.partitions, tuple(SCHEMES))
        one_of("adjacency", self.adjacency, SCHEMES[self.partitions][0])
        # noise of half of the votes, where nothing is given
        beta = 2 / self.n_models
        if self.inverse_scale is not None:
            beta = positive("inverse_scale", self.inverse_scale)
        # checks the pair
        squares_of_budget(self.epsilon, self.delta, n_partitions=1, beta=beta)
        if self.accountant == "personalised":
            return beta, None
        return beta, accounting.noisy_vote_answers(
            self.epsilon,
            self.delta,
            inverse_scale=beta,
            n_classes=n_classes,
            analysis=ANALYSES[self.accountant],
        )

    def _guarantee(
        self, beta: float, labels: int, n_classes: int
    ) -> accounting.PrivacyProfile:
        """Guarantee of a number of labels that does not depend on the data."""
        if not labels:
            # a student of no label tells nothing
            return accounting.approximate(0.0, 0.0, adjacency=self.adjacency)
        profile = accounting.noisy_vote(
            inverse_scale=beta,
            answers=labels,
            n_classes=n_classes,
            adjacency=self.adjacency,
            analysis=ANALYSES[self.accountant],
        )
        return profile.with_(assumption=SCHEMES[self.partitions][1])

    def _personalised(
        self,
        voted: Iterator[NDArray[np.unsignedinteger]],
        cut: Partitions,
        beta: float,
        n_classes: int,
    ) -> tuple[Integers, Integers]:
        """Votes for each class until the sum of squares of a record, or of an
        additional record, reaches the budget's limit; and these sums.
        """
        k = self.n_partitions
        limit = squares_of_budget(self.epsilon, self.delta, n_partitions=k, beta=beta)
        touched = learners.TouchedVotes(
            np.vstack([cut.chunk, cut.joining]),
            n_teachers=self.n_models,
            n_classes=n_classes,
            device=self.device,
        )
        tables = [np.zeros((0, n_classes), np.int64)]
        for votes in voted:
            largest = touched.add(votes.reshape(k, self.n_models, -1), limit=limit)
            tables.append(counts_of(votes[:, : len(largest)], n_classes))
            # the label at which the budget is reached is still released
            if largest[-1] >= limit:
                break
        return np.concatenate(tables), touched.totals

    def _released(
        self, counts: Integers, beta: float, generator: np.random.Generator | None
    ) -> Integers:
        """Class codes that win the noisy votes."""
        k = self.n_partitions
        if generator is None:  # whole counts, since those divided are rounded
            return laplace_vote(counts, scale=np.nextafter(k / beta, np.inf))
        return laplace_vote(counts / k, scale=1 / beta, seed=generator)
