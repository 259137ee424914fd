"""PATE: teachers on disjoint shards answer public queries by a private vote, and a
student learns the answers.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.tree import DecisionTreeClassifier

from dpnotes import accounting
from dpnotes._validation import Booleans, Integers, at_least_one, one_of, positive, real
from dpnotes.accounting import PrivacyProfile
from dpnotes.mechanisms import confident_vote, gaussian_vote, laplace_vote, stream
from dpnotes.methods._private import Learned, Records
from dpnotes.methods._student import StudentVote, agreement, fit_student
from dpnotes.methods._teachers import partitions_of

# of each aggregator, in units of the last one's, where they follow from epsilon and
# delta
NOISE = {
    "gnmax": {"sigma_answer": 1.0},
    "confident": {"sigma_threshold": 1.5, "sigma_answer": 1.0},
    "laplace": {"scale": 1.0},
}
# standard deviations of the noise on a count that all teachers are worth, by default
CLEAR = 4.0
AGREEING = 0.8  # of the teachers, at which "confident" answers by default


@dataclass(eq=False, repr=False)
class PATE(StudentVote):
    """Private aggregation of teacher ensembles, with a guarantee for the student and
    its training labels.

    Each private record goes to one of ``n_models`` shards, chosen uniformly and
    independently of the other records. So a record that is made empty, or left out,
    changes only one teacher. A teacher without records abstains, and a teacher whose
    records all have the same class votes for that class. The teachers vote on the
    public rows, and the aggregator releases some labels. The student is trained on the
    labelled rows, and the teachers are discarded. Predictions are post-processing, so
    their number is unlimited. Without any answer the student always predicts the first
    of ``classes_``.

    Parameters
    ----------
    epsilon : float, > 0, optional
    delta : float, in [0, 1), optional
        Delta of everything that is released; 0 only for ``"laplace"``. Epsilon and
        delta determine the least noise that suffices.
    estimator : object, optional
        The teachers' learner: a scikit-learn classifier, or a learner like
        :class:`dpnotes.learners.NetworkClassifier`, which has ``fit_many`` and fits
        many models in one call. ``fit_many`` must accept a list of index arrays of
        unequal length. Without a ``noise_seed``, ``fit_many`` is called separately for
        each teacher. A teacher must depend only on the records of its shard. Default: a
        decision tree.
    n_models : int, in 1 .. n, optional
        Number of teachers. Default: n / (5 n_classes) for n records, rounded down, but
        at least 1 and at most 1024. Under ``"add-remove"``, which protects n, it has no
        default.
    queries : int, >= 1, optional
        Number of public rows, counted from the first, that the teachers vote on.
        Default: all rows. If epsilon and delta are given and ``answers`` is not, the
        default is limited to the largest number of rows at which Gaussian noise on a
        count has a standard deviation of at most a quarter of ``n_models``.
    answers : int, in [1, queries], optional
        Number of answers after which ``"confident"`` stops permanently. Default:
        ``queries``.
    aggregator : {"gnmax", "confident", "laplace"}
        ``"gnmax"`` always answers, with Gaussian noise. ``"confident"`` answers if the
        largest noisy count reaches the threshold, with Gaussian noise. ``"laplace"``
        always answers, with Laplace noise.
    threshold : float, >= 0, optional
        Number of votes that the largest noisy count must reach for ``"confident"`` to
        answer. Default: four fifths of the teachers.
    sigma_threshold : float, > 0, optional
        Standard deviation of the noise that ``"confident"`` adds to the largest count,
        in votes. The noise of the aggregator can be given instead of ``epsilon`` and
        ``delta``; for ``"confident"``, give both this parameter and ``sigma_answer``.
    sigma_answer : float, > 0, optional
        Standard deviation of the noise that ``"confident"`` and ``"gnmax"`` add to each
        count, in votes.
    scale : float, > 0, optional
        Scale of the noise that ``"laplace"`` adds to each count, in votes.
    student : object, optional
        A scikit-learn classifier. Default: a clone of ``estimator``.
    keep_votes : bool
        Retain the votes without noise, for diagnosis by the holder of the data. The
        guarantee does not cover any result derived from them, and a pickle contains
        them. ``publish()`` omits them.
    adjacency : {"zero-out", "add-remove"}
        Definition of neighbouring data sets. A record that is made empty leaves its
        shard, and no other record moves, so one teacher may change its vote. The
        guarantee is the same under both.
    classes : sequence, optional
        All labels that can occur. By default they are taken from y, and the guarantee
        then covers everything that is released except ``classes_``. Omit them only if
        it is public which labels occur in y.
    n_jobs : int or None
        Number of joblib workers for scikit-learn teachers, which start none
        of their own.
    random_state : int, RandomState instance or None
        Seed of the learners and, unless the adjacency is ``"add-remove"``, of the
        shards.
    noise_seed : int, optional
        See :class:`PrivateClassifier`.

    Attributes
    ----------
    profile_ : dpnotes.accounting.PrivacyProfile
        Guarantee of releasing ``labels_``, ``answered_`` and the student, for any data.
    labels_ : ndarray, shape [answered_.sum()]
        Labels of the answered public rows.
    answered_ : ndarray of bool, shape [queries]
        Whether each of the first ``queries`` public rows was answered.
    student_ : object
        The fitted student.
    votes_ : ndarray of int64, shape [queries, n_classes]
        Votes of the teachers, private, and available only with ``keep_votes``.
    agreement_ : ndarray of float, shape [queries]
        Fraction of the teachers that vote for the most frequent class; private, and
        available only with ``keep_votes``.
    per_instance_profile_ : dpnotes.accounting.PrivacyProfile
        The data-dependent guarantee of the same release for these private votes,
        *per-instance*; private, and available only with ``keep_votes`` and Gaussian
        noise.
    classes_ : ndarray, shape [n_classes]
    n_features_in_ : int

    Source
    ------
    Papernot et al. (2017) and Papernot et al. (2018);
    :func:`dpnotes.accounting.confident_gnmax`, :func:`dpnotes.accounting.gnmax` and
    :func:`dpnotes.accounting.noisy_vote` for the guarantees.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> model = PATE(
    ...     n_models=60, aggregator="gnmax", sigma_answer=10.0, queries=50, noise_seed=0
    ... )
    >>> model = model.fit(X[:1600], y[:1600], public=X[1600:])
    >>> model.labels_.shape, round(model.profile_.epsilon(1e-5), 4)
    ((50,), 4.3772)
    """

    _: KW_ONLY
    queries: int | None = None
    answers: int | None = None
    aggregator: str = "gnmax"
    threshold: float | None = None
    sigma_threshold: float | None = None
    sigma_answer: float | None = None
    scale: float | None = None
    answered_: Booleans = field(init=False)

    def fit(
        self, X: Any, y: Any, *, public: Any = None, shards: ArrayLike | None = None
    ) -> PATE:
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
        shards : array_like of int, shape [n], in 0 .. n_models - 1, optional
            Teacher of each record, for example from
            :func:`dpnotes.mechanisms.hash_chunks` of its identifier. If all records of
            a person are in one shard, the guarantee protects the person. The guarantee
            assumes that each shard was chosen independently of the other records.
            Default: drawn uniformly.

        Returns
        -------
        PATE
            The estimator itself.

        Raises
        ------
        ValueError
            If public is missing or not transformed like X, data are not finite or
            differ in length or features, there is only one class or there are more
            teachers than records, or a parameter is outside its range.
        TypeError
            If a number has the wrong type, or the student's learner is not a
            classifier.
        """
        return self._fit_to(X, y, public=public, shards=shards)

    def _learn(
        self, records: Records, *, public: Any, shards: ArrayLike | None
    ) -> Learned:
        classes = records.classes
        public = self._public_rows(public)
        n_teachers = self._check_teachers(records)
        queries, answers = self._sizes(len(public))
        noise, profile = self._guarantee(queries, answers, n_classes=len(classes))
        randomness = self._randomness()
        seed = randomness.learning
        partition = partitions_of(
            records.n,
            shards,
            (records.n,),
            n_chunks=n_teachers,
            seed=self._seed_of_shards(randomness),
        )
        learner = self._student_learner(DecisionTreeClassifier())
        # teachers and the student get seeds of their own
        learn_seed, student_seed = (
            int(s) for s in stream(seed, 1).integers(2**31, size=2)
        )

        # rows that are not voted on are not learned from, either
        public = public[:queries]
        teachers = self._teach(
            records,
            partition.subsets(),
            default=DecisionTreeClassifier(),
            seed=learn_seed,
        )
        counts = teachers.vote_counts(public)
        released, answered = self._release(
            counts, answers, noise, randomness.generator(2)
        )
        labels = classes[released[answered]]
        student = fit_student(
            learner, public[answered], labels, classes=classes, seed=student_seed
        )
        private: dict[str, Any] = {}
        if self.keep_votes:
            private["votes_"] = counts
            private["agreement_"] = agreement(counts, n_teachers)
            if self.aggregator != "laplace":
                own = self._per_instance(profile, counts, answered)
                private["per_instance_profile_"] = own
        told = {"labels_": labels, "answered_": answered, "student_": student}
        return Learned(profile, student, told, private)

    def _per_instance(
        self, profile: PrivacyProfile, counts: Integers, answered: Booleans
    ) -> PrivacyProfile:
        """The data-dependent guarantee of the same release for these private votes."""
        noise = profile.parameters
        if self.aggregator == "gnmax":
            return accounting.gnmax(
                sigma=noise["sigma"], counts=counts, adjacency=self.adjacency
            )
        # the comparisons with the threshold were still made
        if not answered.any():
            return profile
        return accounting.confident_gnmax(
            counts=counts[answered],
            adjacency=self.adjacency,
            sigma_threshold=noise["sigma_threshold"],
            sigma_answer=noise["sigma_answer"],
            queries=len(answered),
            answers=int(answered.sum()),
        )

    def _sizes(self, n_public: int) -> tuple[int, int]:
        """Number of queries to the aggregator, and the largest number of its
        answers; checks the other sizes, too.
        """
        one_of("aggregator", self.aggregator, tuple(NOISE))
        few = n_public  # by default
        if self.answers is None and self.epsilon is not None and self.delta is not None:
            # 1e-5 stands in for the delta of pure privacy
            sigma = accounting.gaussian_sigma(self.epsilon, self.delta or 1e-5)
            # so many answers cost sqrt(2 answers) sigma, and the noise stays clear of a count
            few = min(max(int((self.n_models / (CLEAR * sigma)) ** 2 / 2), 1), n_public)
        queries = few if self.queries is None else at_least_one("queries", self.queries)
        if queries > n_public:
            raise ValueError(
                f"queries must be at most the {n_public} rows of public, got"
                f" queries={queries}"
            )
        if self.answers is None:
            return queries, queries
        if self.aggregator != "confident":
            raise ValueError(
                f"answers must be None for aggregator={self.aggregator!r}, which"
                f" answers every query, got answers={self.answers}; set queries="
                " instead"
            )
        answers = at_least_one("answers", self.answers)
        if answers > queries:
            raise ValueError(
                f"answers must be at most queries={queries}, got answers={answers}"
            )
        return queries, answers

    def _guarantee(
        self, queries: int, answers: int, *, n_classes: int
    ) -> tuple[dict[str, Any], PrivacyProfile]:
        """Noise and threshold of the aggregator, and the guarantee that they give."""
        common: dict[str, Any] = {"adjacency": self.adjacency}

        def profile(noise: dict[str, Any]) -> PrivacyProfile:
            if self.aggregator == "laplace":
                rate = 1 / positive("scale", noise["scale"])
                return accounting.noisy_vote(
                    inverse_scale=rate, answers=queries, n_classes=n_classes, **common
                )
            if self.aggregator == "gnmax":
                sigma = positive("sigma_answer", noise["sigma_answer"])
                return accounting.gnmax(sigma=sigma, answers=queries, **common)
            return accounting.confident_gnmax(
                queries=queries, answers=answers, **noise, **common
            )

        units = NOISE[self.aggregator]
        noise = self._chosen(*units)
        if budget := self._budget_for(*units):
            if self.aggregator == "laplace":
                # mu is not proportional to Laplace noise, so it is searched
                unit = accounting.calibrate(
                    lambda scale: profile({"scale": scale}),
                    epsilon=budget[0],
                    delta=budget[1],
                )
            else:  # mu is inverse to the noise
                unit = accounting.gaussian_sigma(*budget, sensitivity=profile(units).mu)
            noise = {name: unit * units[name] for name in units}
        found = profile(noise)
        if self.aggregator == "confident":
            threshold = AGREEING * self.n_models
            if self.threshold is not None:
                threshold = real("threshold", self.threshold)
            noise["threshold"] = threshold
        return noise, found

    def _release(
        self,
        counts: Integers,
        answers: int,
        noise: dict[str, Any],
        generator: np.random.Generator | None,
    ) -> tuple[Integers, Booleans]:
        """Class code of each query, and whether the query is answered."""
        if self.aggregator == "confident":
            return confident_vote(counts, answers=answers, seed=generator, **noise)
        # these two answer every query
        everything = np.ones(len(counts), dtype=np.bool_)
        if self.aggregator == "gnmax":
            sigma = noise["sigma_answer"]
            return gaussian_vote(counts, sigma=sigma, seed=generator), everything
        return laplace_vote(counts, scale=noise["scale"], seed=generator), everything
