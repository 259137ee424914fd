"""Estimators that scikit-learn's checks run on, and the checks of which they are exempt, with the reason.

Little noise, so that the checks of accuracy look at the plumbing; guarantees are tested elsewhere. The table of the
chapter on implementations is made from here: ``python -m tests.checks --keep``.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from dpnotes.learners import BoostedTreesClassifier, LogisticClassifier, NetworkClassifier
from dpnotes.methods import (
    DPSGD,
    PATE,
    AugmentedSGD,
    Bagging,
    ClassMeans,
    DPBag,
    FilteredVote,
    LossPerturbation,
    ModelSensitivity,
    NoisyBoosting,
    NoisySGD,
    PredictionSensitivity,
    RandomTrees,
    SubsampleAggregate,
)
from dpnotes.preprocessing import ClipNorm, PublicOneHot, PublicScaler

COMMON = {"noise_seed": 0, "device": "cpu"}
LINEAR = COMMON | {"norm": 1e4, "l2": 1e-2}  # the checks' features are up to 1e3 long
SGD = {"batch_size": 5, "norm": 1e4, "learning_rate": 0.1, "require_bound": False, "steps": 500, "noise_seed": 0}
COPY = {"check_estimators_pickle": "a pickled copy answers only once it is resumed: it cannot know of other answers"}
CELL = {"check_dtype_object": "an error about a cell that is no number would tell that a row has one; it counts as 0"}
ONE_RECORD = {"check_fit2d_1sample": "one record holds no subsample of four distinct ones: refused in other words"}


class OwnRowsPATE(PATE):
    """scikit-learn's checks call fit(X, y): for them the private rows are declared public, too."""

    def fit(self, X, y):
        return super().fit(X, y, public=X)


class OwnRowsDPBag(DPBag):
    """The same of another method."""

    def fit(self, X, y):
        return super().fit(X, y, public=X)


class Case(NamedTuple):
    """An estimator, and why it is exempt from which checks."""

    estimator: Any
    exempt: Mapping[str, str] = MappingProxyType({})

    @property
    def name(self) -> str:
        """Name of the estimator's class, without the rows that are declared public."""
        return type(self.estimator).__name__.removeprefix("OwnRows")


def cases() -> Iterator[Case]:
    """All estimators of the package."""
    yield from map(Case, (ModelSensitivity(1e12, **LINEAR), ModelSensitivity(1e11, 0.5, **LINEAR)))
    yield from map(Case, (ClassMeans(1e12, norm=1e4, noise_seed=0), ClassMeans(1e11, 0.5, norm=1e4, noise_seed=0)))
    trees = {"bounds": (-3.0, 3.0), "depth": 10, "noise_seed": 0}
    yield from map(Case, (RandomTrees(1e12, n_trees=1, **trees), RandomTrees(1e11, 0.5, **trees)))
    yield Case(NoisyBoosting(1e11, 0.5, bounds=(-3.0, 3.0), noise_seed=0))
    yield from map(Case, (LossPerturbation(1e12, **LINEAR), LossPerturbation(1e11, 0.5, **LINEAR)))
    yield Case(PredictionSensitivity(1e18, answers=10**6, **LINEAR), COPY)
    yield Case(PredictionSensitivity(1e12, 0.5, answers=2000, **LINEAR | {"norm": 2e3, "l2": 1.0}), COPY)
    yield Case(
        DPSGD(noise_multiplier=0.1, sample_rate=0.5, steps=300, learning_rate=1.0, accountant="rdp", noise_seed=0)
    )
    network = NetworkClassifier(None, architecture="mlp", hidden=(8,))
    yield Case(
        DPSGD(noise_multiplier=0.1, network=network, sample_rate=1.0, steps=150, learning_rate=1.0, noise_seed=0)
    )
    yield Case(NoisySGD(1e12, 0.1, norm=1e3, learning_rate=5e-6, steps=2000, noise_seed=0))
    yield from map(Case, (AugmentedSGD(1e12, 0.1, **SGD), AugmentedSGD(1e12, 0.1, intrinsic_sigma=1e-6, **SGD)))
    yield Case(Bagging(subsample=15, n_models=3, noise_seed=0))
    yield Case(Bagging(subsample=4, noise_seed=0, replace=False, n_models=41), ONE_RECORD)
    yield Case(SubsampleAggregate(1e9, answers=10**6, n_models=2, **COMMON), COPY)
    tree = DecisionTreeClassifier(max_depth=4)
    yield Case(SubsampleAggregate(1e9, 1e-5, answers=10**4, n_models=2, estimator=tree, noise_seed=0), COPY)
    yield Case(FilteredVote(n_models=2, sigma=0.1, answers=10**6, **COMMON), COPY)
    yield Case(OwnRowsPATE(n_models=3, aggregator="gnmax", sigma_answer=0.1, noise_seed=0))
    confident = {"aggregator": "confident", "threshold": 1.0, "sigma_threshold": 0.1, "sigma_answer": 0.1}
    yield Case(OwnRowsPATE(n_models=3, noise_seed=0, student=LogisticRegression(), **confident))
    yield Case(OwnRowsPATE(estimator=LogisticRegression(), n_models=2, aggregator="laplace", scale=0.05, noise_seed=0))
    yield Case(OwnRowsDPBag(n_models=2, n_partitions=3, noise=1e3, epsilon=1e9, delta=0.5, **COMMON))
    yield Case(OwnRowsDPBag(1e5, estimator=LogisticRegression(), n_models=2, n_partitions=2, noise=20, **COMMON))
    yield from map(Case, (LogisticClassifier(device="cpu"), LogisticClassifier(intercept=False, device="cpu")))
    yield Case(NetworkClassifier(None, architecture="mlp", epochs=20, learning_rate=0.01, batch_size=8))
    yield Case(BoostedTreesClassifier(n_trees=10, device="cpu"))
    yield from (Case(ClipNorm(), CELL), Case(PublicScaler(-1.0, 1.0), CELL), Case(PublicOneHot([0, 1, 2])))
