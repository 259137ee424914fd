"""PATE: teachers on disjoint shards answer public queries by a private vote, and a student learns the answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from dpnotes import _validation as _checks
from dpnotes import accounting
from dpnotes.mechanisms import confident_vote, draw_partitions, gaussian_vote, laplace_vote, vote_counts
from dpnotes.methods._answers import secret_seed, stream
from dpnotes.methods._labels import encode
from dpnotes.methods._student import fit_student, gives_probabilities, public_rows, student_learner
from dpnotes.methods._teachers import FLOATS, check_enough_records, fit_teachers

AGGREGATORS = ("confident", "gnmax", "laplace")


class PATE(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Private aggregation of teacher ensembles, with the guarantee of releasing the student and all that it learned.

    Each private record goes to one of ``n_teachers`` shards, chosen uniformly and independently of the other records,
    so that one record more or less changes one teacher. A teacher without records abstains; one whose records are of
    one class votes for it. The teachers vote on the public rows, the aggregator releases some labels, the student is
    trained on the rows that have one, and the teachers are dropped: predictions are post-processing, without limit.
    Without any answer the student always predicts the first of ``classes_``.

    Parameters
    ----------
    estimator : object, optional
        The teachers' learner: a scikit-learn classifier, or one that fits many models in one call (it has ``fit_many``,
        as :class:`dpnotes.learners.NetworkClassifier`, and takes a list of index arrays of unequal length). A teacher
        must depend on the records of its own shard only. Default: a decision tree.
    n_teachers : int, >= 1
    queries : int, >= 1, optional
        Public rows put to the aggregator, from the first on. Default: all.
    answers : int, in [1, queries], optional
        Only for ``"confident"``: stop for good after so many answers. Default: ``queries``.
    aggregator : {"confident", "gnmax", "laplace"}
        Answer where the largest noisy count reaches the threshold, or always; with Gaussian or Laplace noise.
    threshold : float, >= 0
        Of ``"confident"``, in votes.
    sigma_threshold : float, > 0
        Of ``"confident"``: standard deviation of the noise on the largest count, in votes.
    sigma_answer : float, > 0
        Of ``"confident"`` and ``"gnmax"``: standard deviation of the noise on each count, in votes.
    scale : float, > 0
        Of ``"laplace"``: scale of the noise on each count, in votes.
    student : object, optional
        A scikit-learn classifier. Default: a clone of ``estimator``.
    allow_overlap : bool
        Take public rows that equal a private one, where records of different people can coincide, as in a table of few
        values. Else they are refused: a private record among the public rows is no longer protected.
    classes : sequence, optional
        All labels that can occur, when they are not public knowledge: by default they are read off y, and the guarantee
        is about all that is released except ``classes_``.
    n_jobs : int or None
        joblib workers for scikit-learn teachers.
    random_state : int, RandomState instance or None
        Shards, learners and noise. The guarantee needs it secret: keep None, which takes fresh entropy from the system,
        or a seed that nobody else knows, outside of experiments.

    Attributes
    ----------
    profile_ : dpnotes.accounting.PrivacyProfile
        Guarantee of releasing ``labels_``, ``answered_`` and the student, whatever the data; the same for both
        adjacencies.
    labels_ : ndarray, shape [answered_.sum()]
        Labels of the answered public rows.
    answered_ : ndarray of bool, shape [queries]
        Which of the first ``queries`` public rows were answered.
    student_ : object
        The fitted student.
    agreement_ : ndarray of float, shape [queries]
        Share of the teachers that vote for the class of most votes. Not covered by the guarantee: it stays with who
        holds the data, as does ``per_instance_profile_``, and both travel with a pickled estimator.
    classes_ : ndarray, shape [n_classes]
    n_features_in_ : int

    Source
    ------
    Papernot et al. (2017) and Papernot et al. (2018); :func:`dpnotes.accounting.confident_gnmax`,
    :func:`dpnotes.accounting.gnmax` and :func:`dpnotes.accounting.noisy_vote` for the guarantees.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> model = PATE(n_teachers=60, aggregator="gnmax", sigma_answer=10.0, queries=50, random_state=0)
    >>> model = model.fit(X[:1600], y[:1600], public=X[1600:])
    >>> model.labels_.shape, round(model.profile_.epsilon(1e-5), 4)
    ((50,), 4.3772)
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        n_teachers: int = 250,
        queries: int | None = None,
        answers: int | None = None,
        aggregator: str = "confident",
        threshold: float = 200.0,
        sigma_threshold: float = 150.0,
        sigma_answer: float = 40.0,
        scale: float = 20.0,
        student: Any = None,
        allow_overlap: bool = False,
        classes: Sequence[Any] | None = None,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.estimator = estimator
        self.n_teachers = n_teachers
        self.queries = queries
        self.answers = answers
        self.aggregator = aggregator
        self.threshold = threshold
        self.sigma_threshold = sigma_threshold
        self.sigma_answer = sigma_answer
        self.scale = scale
        self.student = student
        self.allow_overlap = allow_overlap
        self.classes = classes
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Any, y: Any, *, public: Any = None, shards: ArrayLike | None = None) -> PATE:
        """Train the teachers on the private records, label public rows by their private vote, train the student.

        Parameters
        ----------
        X : array_like of float, shape [n, d], finite
            Private records.
        y : array_like, shape [n]
            Their labels.
        public : array_like of float, shape [n_public, d], finite
            Unlabelled rows that are no secret; required.
        shards : array_like of int, shape [n], in 0 .. n_teachers - 1, optional
            Teacher of each record, for example by :func:`dpnotes.mechanisms.hash_chunks` of its identifier; all records
            of a person in one shard make the guarantee one for the person. It assumes that each shard was chosen
            independently of the other records. Default: drawn uniformly.

        Returns
        -------
        PATE
            Itself.

        Raises
        ------
        ValueError
            If public is missing or has a row of X, data are not finite or differ in length or features, a label is not
            among ``classes``, there is one class only or are more teachers than records, or a parameter is outside its
            range.
        TypeError
            If a number is of the wrong kind, or the student's learner is no classifier.
        """
        X, y = validate_data(self, X, y, dtype=FLOATS)
        check_classification_targets(y)
        public = public_rows(self, public)
        classes, codes = encode(y, self.classes)
        if len(classes) < 2:
            (only,) = classes.tolist()
            raise ValueError(f"y must hold at least 2 classes, got 1 class: {only!r}; one class needs no vote")
        queries, answers = self._sizes(len(public))
        profile = self._guarantee(queries, answers, n_classes=len(classes))
        check_enough_records(len(X), n_teachers=self.n_teachers)
        if not self.allow_overlap and (shared := _shared_rows(X, public)):
            raise ValueError(
                f"public must hold no private record, got {shared} of {len(public)} rows that equal a row of X; leave "
                "them out, or set allow_overlap=True where records of different people can be equal"
            )
        seed = secret_seed(self.random_state)
        shards = self._shards(shards, len(X), seed)
        student = student_learner(self, DecisionTreeClassifier())
        learn_seed, student_seed = (int(s) for s in stream(seed, 1).integers(2**31, size=2))

        public = public[:queries]
        counts = self._counts_of_votes(X, codes, shards, public, n_classes=len(classes), seed=learn_seed)
        released, answered = self._release(counts, answers, stream(seed, 2))
        self.classes_ = classes
        self.answered_ = answered
        self.labels_ = classes[released[answered]]
        self.agreement_ = counts.max(axis=1) / self.n_teachers
        self.profile_ = profile
        self._counts = counts
        self.student_ = fit_student(student, public[answered], self.labels_, classes=classes, seed=student_seed)
        return self

    @property
    def per_instance_profile_(self) -> accounting.PrivacyProfile:
        """Data-dependent guarantee of the same release for these private votes; *per-instance*, not to be published.

        The aggregators with Gaussian noise have one; of ``"confident"`` without any answer it is ``profile_``.
        """
        check_is_fitted(self)
        released, parameters = self.profile_.mechanism, self.profile_.parameters  # as fitted, whatever is set since
        if released == "noisy_vote":
            raise AttributeError(
                "per_instance_profile_ is there for Gaussian noise only, the fit was with Laplace noise"
            )
        if released == "gnmax":
            return accounting.gnmax(sigma=parameters["sigma"], counts=self._counts)
        if not self.answered_.any():
            return self.profile_
        return accounting.confident_gnmax(
            sigma_threshold=parameters["sigma_threshold"],
            sigma_answer=parameters["sigma_answer"],
            queries=len(self.answered_),
            answers=int(self.answered_.sum()),
            counts=self._counts[self.answered_],
        )

    def predict(self, X: Any) -> NDArray[Any]:
        """Label that the student gives, shape [n]."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=FLOATS, reset=False)
        return np.asarray(self.student_.predict(X))

    @available_if(gives_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probabilities that the student gives, shape [n, n_classes]; 0 for a class that no answer named."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=FLOATS, reset=False)
        found = np.zeros((len(X), len(self.classes_)))
        found[:, np.searchsorted(self.classes_, self.student_.classes_)] = self.student_.predict_proba(X)
        return found

    def _sizes(self, n_public: int) -> tuple[int, int]:
        """Queries put to the aggregator, and answers that it gives at most; other sizes are checked, too."""
        _checks.at_least_one("n_teachers", self.n_teachers)
        _checks.one_of("aggregator", self.aggregator, AGGREGATORS)
        queries = n_public if self.queries is None else _checks.at_least_one("queries", self.queries)
        if queries > n_public:
            raise ValueError(f"queries must be at most the {n_public} rows of public, got queries={queries}")
        if self.answers is None:
            return queries, queries
        if self.aggregator != "confident":
            raise ValueError(
                f"answers must be None for aggregator={self.aggregator!r}, which answers every query, "
                f"got answers={self.answers}; set queries"
            )
        answers = _checks.at_least_one("answers", self.answers)
        if answers > queries:
            raise ValueError(f"answers must be at most queries={queries}, got answers={answers}")
        return queries, answers

    def _guarantee(self, queries: int, answers: int, *, n_classes: int) -> accounting.PrivacyProfile:
        if self.aggregator == "laplace":
            scale = _checks.real("scale", self.scale, low=0.0, open_low=True)
            return accounting.noisy_vote(noise=1 / scale, answers=queries, n_classes=n_classes)
        sigma = _checks.real("sigma_answer", self.sigma_answer, low=0.0, open_low=True)
        if self.aggregator == "gnmax":
            return accounting.gnmax(sigma=sigma, answers=queries)
        _checks.real("threshold", self.threshold, low=0.0)
        return accounting.confident_gnmax(
            sigma_threshold=self.sigma_threshold, sigma_answer=sigma, queries=queries, answers=answers
        )

    def _shards(self, shards: ArrayLike | None, n: int, seed: int) -> NDArray[np.int64]:
        if shards is None:
            return draw_partitions(n, n_chunks=self.n_teachers, n_partitions=1, seed=seed).chunk[:, 0]
        given = np.asarray(shards)
        if given.shape != (n,) or given.dtype.kind not in "iu":
            raise ValueError(f"shards must be integers of shape [{n}], got {given.dtype} of shape {given.shape}")
        if given.min() < 0 or given.max() >= self.n_teachers:
            raise ValueError(f"shards must be in 0..{self.n_teachers - 1}, got {given.min()}..{given.max()}")
        return given.astype(np.int64)

    def _counts_of_votes(
        self,
        X: NDArray[np.floating],
        codes: NDArray[np.int64],
        shards: NDArray[np.int64],
        public: NDArray[np.floating],
        *,
        n_classes: int,
        seed: int,
    ) -> NDArray[np.int64]:
        """Train a teacher on each shard; votes for each class, shape [queries, n_classes]."""
        order = np.argsort(shards, kind="stable")
        sizes = np.bincount(shards, minlength=self.n_teachers)
        learner = DecisionTreeClassifier() if self.estimator is None else self.estimator
        subsets = np.split(order, np.cumsum(sizes)[:-1])
        teachers = fit_teachers(learner, X, codes, subsets, n_classes=n_classes, seed=seed, n_jobs=self.n_jobs)
        return vote_counts(teachers.models.votes(public)[teachers.present], n_classes)

    def _release(
        self, counts: NDArray[np.int64], answers: int, generator: np.random.Generator
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Class code of each query, and which of them are answered."""
        if self.aggregator == "confident":
            return confident_vote(
                counts,
                threshold=self.threshold,
                sigma_threshold=self.sigma_threshold,
                sigma_answer=self.sigma_answer,
                seed=generator,
                answers=answers,
            )
        everything = np.ones(len(counts), dtype=np.bool_)
        if self.aggregator == "gnmax":
            return gaussian_vote(counts, sigma=self.sigma_answer, seed=generator), everything
        return laplace_vote(counts, scale=self.scale, seed=generator), everything


def _shared_rows(X: NDArray[np.floating], public: NDArray[np.floating]) -> int:
    """How many public rows equal a private one."""
    private, others = ([row.tobytes() for row in part.astype(np.float64) + 0.0] for part in (X, public))  # -0 is 0
    return sum(map(set(private).__contains__, others))
