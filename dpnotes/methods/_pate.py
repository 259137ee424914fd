"""PATE: teachers on disjoint shards answer public queries by a private vote, and a
student learns the answers.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.tree import DecisionTreeClassifier

from dpnotes import accounting
from dpnotes._validation import (
    FIRST,
    Booleans,
    Integers,
    at_least_one,
    one_of,
    positive,
    real,
    renamed,
)
from dpnotes.accounting import PrivacyProfile
from dpnotes.mechanisms import confident_vote, gaussian_vote, laplace_vote, stream
from dpnotes.methods._student import StudentVote, Votes, fit_student
from dpnotes.methods._teachers import ADJACENCIES, partitions_of

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


@renamed(n_models=("n_teachers",), estimator=(FIRST,))
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
        at least 1 and at most 1024.
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
        Number of joblib workers for scikit-learn teachers.
    random_state : int, RandomState instance or None
        Seed of the shards and of the learners.
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
    agreement_ : ndarray of float, shape [queries]
        Fraction of the teachers that vote for the most frequent class; private, and
        available only with ``keep_votes``.
    per_instance_profile_ : dpnotes.accounting.PrivacyProfile
        The data-dependent guarantee; private, and available only with ``keep_votes``.
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
        return self._fit_at_once(X, y, public=public, shards=shards)

    def _learn(self, X: Any, y: Any, *, public: Any, shards: ArrayLike | None) -> None:  # type: ignore[override]
        records = self._private_records(X, y)
        classes = records.classes
        public = self._public_rows(public)
        n_teachers = self._check_teachers(records.n)
        queries, answers = self._sizes(len(public))
        noise, profile = self._guarantee(queries, answers, n_classes=len(classes))
        randomness = self._randomness()
        seed = randomness.learning
        partition = partitions_of(
            records.n, shards, (records.n,), n_chunks=n_teachers, seed=seed
        )
        student = self._student_learner(DecisionTreeClassifier())
        learn_seed, student_seed = (
            int(s) for s in stream(seed, 1).integers(2**31, size=2)
        )

        public = public[:queries]
        teachers = self._teach(
            records, partition, default=DecisionTreeClassifier(), seed=learn_seed
        )
        counts = teachers.vote_counts(public)
        released, answered = self._release(
            counts, answers, noise, randomness.generator(2)
        )
        self.classes_ = classes
        self.answered_ = answered
        self.labels_ = classes[released[answered]]
        self.profile_ = self._implemented(profile, exact=True)
        self.student_ = fit_student(
            student, public[answered], self.labels_, classes=classes, seed=student_seed
        )
        self._votes = Votes(counts, n_teachers) if self.keep_votes else None

    @property
    def per_instance_profile_(self) -> PrivacyProfile:
        """Data-dependent guarantee of the same release for these private votes,
        *per-instance* and not to be published.

        Only the aggregators with Gaussian noise have it. If ``"confident"`` gave no
        answer, the guarantee is ``profile_`` itself.
        """
        counts = self._kept("per_instance_profile_").counts
        # as fitted, whatever is set since
        released, parameters = self.profile_.mechanism, self.profile_.parameters
        adjacency = self.profile_.adjacency
        if released == "noisy_vote":
            raise AttributeError(
                "per_instance_profile_ exists only for Gaussian noise, and the fit had"
                " Laplace noise"
            )
        if released == "gnmax":
            return accounting.gnmax(
                sigma=parameters["sigma"], counts=counts, adjacency=adjacency
            )
        if not self.answered_.any():
            return self.profile_
        noise: dict[str, Any] = {
            name: parameters[name] for name in ("sigma_threshold", "sigma_answer")
        }
        asked: dict[str, Any] = {
            "queries": len(self.answered_),
            "answers": int(self.answered_.sum()),
        }
        return accounting.confident_gnmax(
            counts=counts[self.answered_], adjacency=adjacency, **noise, **asked
        )

    def _sizes(self, n_public: int) -> tuple[int, int]:
        """Number of queries to the aggregator, and the largest number of its
        answers; checks the other sizes, too.
        """
        one_of("aggregator", self.aggregator, tuple(NOISE))
        few = n_public  # by default
        if self.answers is None and self.epsilon is not None and self.delta is not None:
            sigma = accounting.gaussian_sigma(self.epsilon, self.delta or 1e-5)
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
        common: dict[str, Any] = {
            "adjacency": one_of("adjacency", self.adjacency, ADJACENCIES)
        }

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
        noise = {name: getattr(self, name) for name in units}
        if budget := self._budget_for(*units):
            if self.aggregator == "laplace":
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
            noise["threshold"] = real(
                "threshold",
                AGREEING * self.n_models if self.threshold is None else self.threshold,
            )
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
        everything = np.ones(len(counts), dtype=np.bool_)
        if self.aggregator == "gnmax":
            return (
                gaussian_vote(counts, sigma=noise["sigma_answer"], seed=generator),
                everything,
            )
        return laplace_vote(counts, scale=noise["scale"], seed=generator), everything
