"""Subsample-and-aggregate: models on disjoint shards answer a budget of queries by a
soft majority vote.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpnotes import accounting, learners
from dpnotes._validation import Features, Integers, at_least_one, one_of
from dpnotes.accounting import ADJACENCIES, soft_vote_beta
from dpnotes.mechanisms import Partitions, soft_vote, stream
from dpnotes.methods._answers import InferenceBudget, derived_seed
from dpnotes.methods._linear_estimators import checked_epsilon_delta, guarantee_text
from dpnotes.methods._private import Fitted, Learned, Records
from dpnotes.methods._teachers import (
    Ensemble,
    Teachers,
    fit_teachers,
    models_for,
    partitions_of,
)

# of the default learner
L2 = 1e-4
# on its gradient; no guarantee rests on it
TOLERANCE = 1e-4
# streams of the seed
SHARDS = 0
LEARNERS = 1
ANSWERS = 2


def fit_shards(
    X: Features,
    y: Integers,
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
    shard_seed: int | None = None,
) -> Teachers:
    """Train one model on each shard.

    For experiments: the counts of votes do not depend on epsilon, and
    ``mechanisms.soft_vote(counts, beta=accounting.soft_vote_beta(epsilon, delta,
    answers=answers), n_repeats=...)``
    answers from them any number of times in one call.

    Parameters
    ----------
    X : ndarray of float, shape [m, d]
    y : ndarray of int, shape [m]
        Class codes 0 to ``n_classes - 1``.
    n_classes : int, in 2 .. 255
    seed : int, >= 0
        Seed of the learners, and of the shards unless these have their own.
    shard_seed : int, optional
        Seed of the shards, which must stay secret if the shards protect data.
    together : bool
        Fit all models in one call if the learner can. If False, fit each model
        separately, as a release requires.
    n_models, estimator, l2, adjacency, shards, n_jobs, device
        See :class:`SubsampleAggregate`.

    Returns
    -------
    Teachers
        The models; ``vote_counts(X)`` gives the votes for each class, shape [n,
        n_classes].

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
    if shard_seed is None:
        shard_seed = seed
    if shards is None and adjacency == "replace-one":
        cut = equal_shards(len(X), n_models=n_models, seed=shard_seed)
    else:
        cut = partitions_of(
            len(X), shards, (len(X),), n_chunks=n_models, seed=shard_seed
        )
    if estimator is None:
        estimator = learners.LogisticClassifier(
            l2=l2, tolerance=TOLERANCE, device=device
        )
    records = Records(X, np.asarray(y, dtype=np.int64), np.arange(n_classes))
    learn_seed = int(stream(seed, LEARNERS).integers(2**31))
    return fit_teachers(
        estimator,
        records,
        cut.subsets(),
        seed=learn_seed,
        n_jobs=n_jobs,
        together=together,
    )


def equal_shards(n: int, *, n_models: int, seed: int) -> Partitions:
    """Permute the positions of the records and deal them out to shards, whose sizes
    differ by at most one.

    Replacing a record changes the records of only one model.

    Examples
    --------
    >>> [len(rows) for rows in equal_shards(10, n_models=4, seed=0).subsets()]
    [3, 3, 2, 2]
    """
    if n_models > n:
        raise ValueError(
            f"n_models must be at most the number of records {n}, got"
            f" n_models={n_models}"
        )
    places = np.argsort(stream(seed, SHARDS).permutation(n))
    return Partitions(places[:, None] % n_models, np.zeros(1, np.int64), n_models)


@dataclass(eq=False, repr=False)
class SubsampleAggregate(Ensemble):
    """Soft majority vote of models that are trained on disjoint shards, for a budget of
    queries.

    The answer is class c with probability proportional to ``exp(beta n_c)``, where n_c
    models vote for c. One record changes one model, for any learner, and the features
    need no bound. The guarantee covers all answers together. The estimator holds the
    models themselves, so the estimator must stay with the holder of the data.
    ``predict`` and ``score`` spend one answer for each row, and there is no
    ``predict_proba``.

    Parameters
    ----------
    epsilon : float, > 0
        Epsilon of all answers together.
    delta : float, in [0, 1)
        0: pure differential privacy.
    answers : int, >= 1
        Number of queries that can be answered; a repeated query counts again.
    n_models : int, >= 1, optional
        Number of models. Default: n / (5 n_classes) for n records, rounded down, but at
        least 1 and at most 1024. Under ``"add-remove"``, which protects n, it has no
        default.
    estimator : object, optional
        The base learner: a scikit-learn classifier, or a learner like
        :class:`dpnotes.learners.NetworkClassifier`, which has ``fit_many`` and fits
        many models in one call. ``fit_many`` must accept a list of index arrays of
        unequal length. Without a ``noise_seed``, ``fit_many`` is called separately for
        each model. A model must depend only on the records of its shard. Default:
        multinomial logistic regression with a bias.
    l2 : float, >= 0
        Weight of the penalty |W|^2/2 relative to the mean cross-entropy, in the default
        learner. The paper has no penalty, so its minimum is not attained if the classes
        are separable. A small penalty makes the votes well defined.
    adjacency : {"zero-out", "add-remove", "replace-one"}
        Definition of neighbouring data sets. A record that is made empty leaves its
        shard, and no other record moves, so one model may change its vote. The
        guarantee is the same under all three, but the shards differ. For zero-out and
        add-remove, each record draws its shard independently of the others, and shards
        differ in size. For replace-one, the positions are permuted and split into
        shards whose sizes differ by at most one, and ``shards`` cannot be given.
    analysis : {"tight", "published"}
        ``"published"``: the beta of the paper's Theorems 7 and 8. Theorem 7, and
        Theorem 8 for few answers, are wrong: up to twice the epsilon is spent, and
        ``profile_`` reports the paper's wrong statement with status ``"refuted"``.
    classes : sequence, optional
        All labels that can occur. By default they are taken from y, and the guarantee
        then covers all answers, but not the list of classes. Omit them only if it is
        public which labels occur in y.
    n_jobs : int or None
        Number of joblib workers for scikit-learn base learners, which start none
        of their own.
    device : str
        Device of the default learner: a PyTorch device, or ``"auto"`` for the GPU if
        there is one.
    random_state : int, RandomState instance or None
        Seed of the learners and, unless the adjacency is ``"add-remove"``, of the
        shards.
    noise_seed : int, optional
        See :class:`PrivateClassifier`.

    Attributes
    ----------
    profile_ : dpnotes.accounting.PrivacyProfile
        Guarantee of all ``answers`` answers together.
    beta_ : float
        Inverse temperature, by which the number of votes is multiplied in the exponent.
    budget_ : InferenceBudget
        Numbers of answers released and left.
    classes_ : ndarray, shape [n_classes]
    n_features_in_ : int

    Source
    ------
    Nissim, Raskhodnikova and Smith (2007); van der Maaten and Hannun (2020), Theorems 7
    and 8, corrected: :func:`dpnotes.accounting.soft_vote`.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> model = SubsampleAggregate(
    ...     1.0, 1e-5, answers=10, n_models=30, noise_seed=0, device="cpu"
    ... ).fit(X / 16, y)
    >>> model.predict(X[:7] / 16).shape, model.budget_.left, round(model.beta_, 4)
    ((7,), 3, 0.0782)
    """

    epsilon: float
    delta: float = 0.0
    _: KW_ONLY
    answers: int = 100
    n_models: int = None  # type: ignore[assignment]
    l2: float = L2
    adjacency: str = "zero-out"
    analysis: str = "tight"
    device: str = "auto"

    _adjacencies = ADJACENCIES
    _most_classes = 255
    _answers_from_records = True

    def _rules(self, n: int | None, d: int, n_classes: int) -> dict[str, Any]:
        return {"n_models": models_for(n, n_classes)}

    def fit(
        self, X: Any, y: Any, *, shards: ArrayLike | None = None
    ) -> SubsampleAggregate:
        """Train one model on each shard and start a budget.

        Parameters
        ----------
        X : array_like of float, shape [m, d], finite
        y : array_like, shape [m]
        shards : array_like of int, shape [m], in 0 .. n_models - 1, optional
            Model of each record, for example from a public hash of its identifier. If
            all records of a person are in one shard, the guarantee protects the person.
            The guarantee assumes that each shard was chosen independently of the other
            records. Default: drawn as described under ``adjacency``. A model without
            records has no vote.

        Returns
        -------
        SubsampleAggregate
            The estimator itself.

        Raises
        ------
        ValueError
            If data are not finite or differ in length, there is only one class, or a
            parameter is outside its range.
        TypeError
            If a number has the wrong type.
        """
        return self._fit_to(X, y, shards=shards)

    def _learn(self, records: Records, *, shards: ArrayLike | None) -> Learned:
        epsilon, delta = checked_epsilon_delta(self.epsilon, self.delta)
        randomness = self._randomness()
        seed = randomness.noise
        budget = InferenceBudget(
            self.answers,
            guarantee=guarantee_text(epsilon, delta),
            seed=None if seed is None else derived_seed(seed, ANSWERS),
        )
        beta = soft_vote_beta(
            epsilon, delta, answers=budget.answers, analysis=self.analysis
        )
        profile = accounting.soft_vote(
            beta=beta,
            answers=budget.answers,
            adjacency=self.adjacency,
            analysis=self.analysis,
        )
        # shards of equal size depend on no record, as given ones might
        if shards is not None and self.adjacency == "replace-one":
            raise ValueError(
                "shards must be None for adjacency='replace-one': a replaced record may"
                " change two shards"
            )
        teachers = fit_shards(
            records.X,
            records.codes,
            n_classes=len(records.classes),
            shards=shards,
            together=self.noise_seed is not None,
            seed=randomness.learning,
            shard_seed=self._seed_of_shards(randomness),
            **self._chosen(
                "n_models", "estimator", "l2", "adjacency", "n_jobs", "device"
            ),
        )
        held = {"budget_": budget}
        return Learned(profile, teachers, {"beta_": beta}, held, budget)

    def predict(self, X: Any) -> NDArray[Any]:
        """Draw labels by the soft majority vote, shape [n]; this spends n answers.

        Raises
        ------
        BudgetExhausted
            If fewer answers are left than there are queries; then no answer is spent.
        """
        return self._answered(X, _drawn)


def _drawn(fitted: Fitted, X: Features) -> NDArray[Any]:
    # counted before any vote is cast
    generator = fitted.budget.take(len(X))
    counts = fitted.model.vote_counts(X)
    codes = soft_vote(counts, beta=fitted.attributes["beta_"], seed=generator)
    return np.asarray(fitted.classes[codes])
