"""Subsample-and-aggregate: models on disjoint shards answer a budget of queries by a soft majority vote."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpnotes import accounting
from dpnotes._validation import Features, at_least_one, one_of
from dpnotes.accounting import ADJACENCIES, soft_vote_beta
from dpnotes.learners import LogisticClassifier
from dpnotes.mechanisms import Partitions, soft_vote, stream
from dpnotes.methods._answers import InferenceBudget, derived_seed
from dpnotes.methods._classifier import AnsweringClassifier, Records
from dpnotes.methods._linear_estimators import checked_epsilon_delta, guarantee_text
from dpnotes.methods._teachers import Teachers, fit_teachers, models_for, partitions_of

L2 = 1e-4  # of the default learner
TOLERANCE = 1e-4  # on its gradient; no guarantee rests on it
SHARDS, LEARNERS, ANSWERS = 0, 1, 2  # streams of the seed


def fit_shards(
    X: Features,
    y: NDArray[np.integer],
    *,
    n_classes: int,
    n_models: int = 256,
    estimator: Any = None,
    l2: float = L2,
    adjacency: str = "add-remove",
    shards: ArrayLike | None = None,
    n_jobs: int | None = None,
    device: str = "auto",
    together: bool = True,
    seed: int,
) -> Teachers:
    """Train one model on each shard.

    For experiments: the counts of votes do not depend on epsilon, and
    ``mechanisms.soft_vote(counts, beta=accounting.soft_vote_beta(epsilon, delta, answers=answers), n_repeats=...)``
    answers them as often as wanted in one call.

    Parameters
    ----------
    X : ndarray of float, shape [m, d]
    y : ndarray of int, shape [m]
        Class codes 0 to ``n_classes - 1``.
    n_classes : int, in 2 .. 255
    seed : int, >= 0
        Must stay secret where the shards protect data.
    together : bool
        Fit all models in one call where the learner can; else each by itself, as a release asks for.
    n_models, estimator, l2, adjacency, shards, n_jobs, device
        See :class:`SubsampleAggregate`.

    Returns
    -------
    Teachers
        ``vote_counts(X)`` gives the votes for each class, shape [n, n_classes].

    Raises
    ------
    ValueError
        If a parameter is outside its range.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> models = fit_shards(X / 16, y, n_classes=10, n_models=30, seed=0, device="cpu")
    >>> models.vote_counts(X[:4] / 16).sum(axis=1)
    array([30, 30, 30, 30])
    """
    n_models = at_least_one("n_models", n_models)
    if not 2 <= n_classes <= 255:
        raise ValueError(f"n_classes must be in 2..255, got n_classes={n_classes}")
    adjacency = one_of("adjacency", adjacency, ADJACENCIES)
    if shards is None and adjacency == "replace-one":
        cut = equal_shards(len(X), n_models=n_models, seed=seed)
    else:
        cut = partitions_of(len(X), shards, (len(X),), n_chunks=n_models, seed=seed)
    learner = LogisticClassifier(l2=l2, tolerance=TOLERANCE, device=device) if estimator is None else estimator
    records = Records(X, np.asarray(y, dtype=np.int64), np.arange(n_classes))
    learn_seed = int(stream(seed, LEARNERS).integers(2**31))
    return fit_teachers(learner, records, cut.subsets(), seed=learn_seed, n_jobs=n_jobs, together=together)


def equal_shards(n: int, *, n_models: int, seed: int) -> Partitions:
    """Shards whose sizes differ by one at most: the positions of the records are permuted and dealt out.

    A record exchanged for another one changes the records of one model only.

    Examples
    --------
    >>> [len(rows) for rows in equal_shards(10, n_models=4, seed=0).subsets()]
    [3, 3, 2, 2]
    """
    if n_models > n:
        raise ValueError(f"n_models must be at most the number of records {n}, got n_models={n_models}")
    places = np.argsort(stream(seed, SHARDS).permutation(n))
    return Partitions(places[:, None] % n_models, np.zeros(1, np.int64), n_models)


@dataclass(eq=False, repr=False)
class SubsampleAggregate(AnsweringClassifier):
    """Soft majority vote of models that are trained on disjoint shards, for a budget of queries.

    Class c is answered with probability proportional to ``exp(beta n_c)``, n_c the models that vote for it. One record
    changes one model, whatever the learner; the features need no bound. The guarantee is that of all answers together;
    the estimator holds the models themselves, so that it must stay with who holds the data. ``predict`` and ``score``
    spend one answer for each row, and there is no ``predict_proba``.

    Parameters
    ----------
    epsilon : float, > 0
        For all answers together.
    delta : float, in [0, 1)
        0: pure differential privacy.
    answers : int, >= 1
        Queries that can be answered; one asked again counts again.
    n_models : int, >= 1, optional
        Default: one for every five records of each class, at most 1024.
    estimator : object, optional
        The base learner: a scikit-learn classifier, or one that fits many models in one call (it has ``fit_many``, as
        :class:`dpnotes.learners.NetworkClassifier`, and takes a list of index arrays of unequal length), which is
        called for each model by itself unless there is a ``noise_seed``. A model must depend on the records of its own
        shard only. Default: multinomial logistic regression with a bias.
    l2 : float, >= 0
        Weight of |W|^2/2 against the mean cross-entropy, in the default learner. The paper has none, which leaves the
        minimum unattained where the classes can be separated; small values keep votes well defined.
    adjacency : {"zero-out", "add-remove", "replace-one"}
        Which data sets are neighbours. A record that is made empty leaves its shard and no other changes, so that one
        model may change its vote: the guarantee is the same for all three. The shards are not: each record draws its
        shard independently of the others, and shards differ in size; for one record exchanged the positions are
        permuted and cut into shards of equal size (or one more), and no ``shards`` can be given.
    analysis : {"tight", "published"}
        ``"published"``: the beta of the paper's Theorems 7 and 8. The first, and the second for few answers, are wrong:
        up to twice the epsilon is spent, and ``profile_`` is that statement, with status ``"refuted"``.
    classes : sequence, optional
        All labels that can occur, when they are not public knowledge: by default they are read off y, and the guarantee
        is about all answers, but not the list of classes.
    n_jobs : int or None
        joblib workers for scikit-learn base learners.
    device : str
        Where the default learner computes: a PyTorch device, or ``"auto"``: the GPU where there is one.
    random_state : int, RandomState instance or None
        Shards and learners.
    noise_seed : int, optional
        See :class:`PrivateClassifier`.

    Attributes
    ----------
    profile_ : dpnotes.accounting.PrivacyProfile
        Guarantee of ``answers`` answers.
    beta_ : float
        Inverse temperature of the vote, per vote.
    budget_ : InferenceBudget
        Answers released and left.
    classes_ : ndarray, shape [n_classes]
    n_features_in_ : int

    Source
    ------
    Nissim, Raskhodnikova and Smith (2007); van der Maaten and Hannun (2020), Theorems 7 and 8, corrected:
    :func:`dpnotes.accounting.soft_vote`.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> model = SubsampleAggregate(1.0, 1e-5, answers=10, n_models=30, noise_seed=0, device="cpu").fit(X / 16, y)
    >>> model.predict(X[:7] / 16).shape, model.budget_.left, round(model.beta_, 4)
    ((7,), 3, 0.0782)
    """

    epsilon: float
    delta: float = 0.0
    _: KW_ONLY
    answers: int = 100
    n_models: int = None  # type: ignore[assignment]
    estimator: Any = None
    l2: float = L2
    adjacency: str = "zero-out"
    analysis: str = "tight"
    n_jobs: int | None = None
    device: str = "auto"

    def _rules(self, n: int, d: int, n_classes: int) -> dict[str, Any]:
        return {"n_models": models_for(n, n_classes)}

    def fit(self, X: Any, y: Any, *, shards: ArrayLike | None = None) -> SubsampleAggregate:
        """Train one model on each shard and start a budget.

        Parameters
        ----------
        X : array_like of float, shape [m, d], finite
        y : array_like, shape [m]
        shards : array_like of int, shape [m], in 0 .. n_models - 1, optional
            Model of each record, for example by a public hash of its identifier; all records of a person in one shard
            make the guarantee one for the person. The guarantee assumes that each was chosen independently of the
            other records. Default: drawn, see ``adjacency``. A model without records has no vote.

        Returns
        -------
        SubsampleAggregate
            Itself.

        Raises
        ------
        ValueError
            If data are not finite or differ in length, there is one class only, or a parameter is outside its range.
        TypeError
            If a number is of the wrong kind.
        """
        return self._fit_at_once(X, y, shards=shards)

    def _learn(self, X: Any, y: Any, *, shards: ArrayLike | None) -> None:  # type: ignore[override]
        epsilon, delta = checked_epsilon_delta(self.epsilon, self.delta)
        budget = InferenceBudget(self.answers, guarantee=guarantee_text(epsilon, delta))
        beta = soft_vote_beta(epsilon, delta, answers=budget.answers, analysis=self.analysis)
        profile = accounting.soft_vote(
            beta=beta, answers=budget.answers, adjacency=self.adjacency, analysis=self.analysis
        )
        if shards is not None and self.adjacency == "replace-one":
            raise ValueError("shards must be None for adjacency='replace-one': an exchanged record may change two")
        records = self._private_records(X, y)
        randomness = self._randomness()
        own = {name: getattr(self, name) for name in ("n_models", "estimator", "l2", "adjacency", "n_jobs", "device")}
        n_classes = len(records.classes)
        self._models = fit_shards(
            records.X,
            records.codes,
            n_classes=n_classes,
            shards=shards,
            together=self.noise_seed is not None,
            seed=randomness.learning,
            **own,
        )
        self.classes_ = records.classes
        self.beta_ = beta
        noise = None if randomness.noise is None else derived_seed(randomness.noise, ANSWERS)
        self._budget, self._answers_seed, self._beta = budget, noise, beta
        self.profile_ = self._implemented(profile, exact=True)

    def predict(self, X: Any) -> NDArray[Any]:
        """Label drawn by the soft majority vote, shape [n]; spends n answers.

        Raises
        ------
        BudgetExhausted
            If fewer are left; then none is spent.
        """
        X = self._queries(X)
        generator = self._take(len(X))
        return np.asarray(self.classes_[soft_vote(self._models.vote_counts(X), beta=self._beta, seed=generator)])
