"""The common part of the private linear estimators: their parameters, checked records, and releases of weights."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from dpnotes._validation import Features, Integers, one_of, positive, real
from dpnotes.accounting import PrivacyProfile
from dpnotes.learners import DecisionClassifier, LinearClassifier, LogisticModels
from dpnotes.methods._classifier import PrivateClassifier
from dpnotes.methods._linear import MAX_ITERATIONS, Minimiser, fit_minimiser
from dpnotes.preprocessing import ClipNorm

OVERFLOWS = ("clip", "raise")


class Releases(NamedTuple):
    """Independent releases on the same data, and the guarantee of one of them.

    Attributes
    ----------
    models : dpnotes.learners.LogisticModels
        ``models.votes(X)`` has shape [n_repeats, len(X)].
    profile : dpnotes.accounting.PrivacyProfile
        Of one release; ``profile.compose(n_repeats)`` is that of all.
    """

    models: LogisticModels
    profile: PrivacyProfile


@dataclass(eq=False, repr=False)
class LinearEstimator(PrivateClassifier, DecisionClassifier):
    """Multinomial logistic regression with an L2 term and a privacy guarantee: the parameters that all kinds have.

    Parameters
    ----------
    epsilon : float, > 0
    delta : float, in [0, 1)
        0: pure differential privacy.
    l2 : float, > 0
        Weight of |W|^2/2 against the mean cross-entropy.
    intercept : bool
        Fit a bias, as the weight of a constant feature 1, which is penalised and counts in the norm.
    norm : float, > 0
        Public bound on the Euclidean norm of each row of X. It must not be taken from the data.
    overflow : {"clip", "raise"}
        Longer rows are shortened to the norm, silently; or refused, where the user says that the rows are public.
    n : int, optional
        What the sum of the losses is divided by. Default: the number of records, which is public then.
    adjacency : {"zero-out", "replace-one", "add-remove"}
        Which data sets are neighbours: those with one record made empty, exchanged, or more (or less, n being public).
    analysis : {"tight", "published"}
        ``"tight"``: the smallest noise that is known to suffice. ``"published"``: that of the paper.
    classes : sequence, optional
        All labels that can occur, when they are not public knowledge: by default they are read off y, and the guarantee
        is about all that is released except ``classes_``.
    max_iterations : int, >= 1
    device : str
        A PyTorch device, or ``"auto"``: the GPU where there is one.
    random_state : int, RandomState instance or None
        Not used.
    noise_seed : int, optional
        See :class:`PrivateClassifier`.

    Attributes
    ----------
    profile_ : dpnotes.accounting.PrivacyProfile
        The guarantee.
    classes_ : ndarray, shape [n_classes]
    n_features_in_ : int
    """

    epsilon: float
    delta: float = 0.0
    _: KW_ONLY
    l2: float
    intercept: bool = True
    norm: float = 1.0
    overflow: str = "clip"
    n: int | None = None
    adjacency: str = "zero-out"
    analysis: str = "tight"
    max_iterations: int = MAX_ITERATIONS
    device: str = "auto"

    def fit(self, X: Any, y: Any) -> Self:
        """Fit and release, or get ready to answer.

        Parameters
        ----------
        X : array_like of float, shape [m, d]
        y : array_like, shape [m]

        Returns
        -------
        Self
            The estimator itself.

        Raises
        ------
        ValueError
            If data are not finite or differ in length, there is one class only, or a parameter is outside its range.
        """
        return self._fit_at_once(X, y)

    def _learn(self, X: Any, y: Any) -> None:  # type: ignore[override]
        checked_epsilon_delta(self.epsilon, self.delta)
        records = self._private_records(X, y)
        if one_of("overflow", self.overflow, OVERFLOWS) == "clip":
            records = replace(records, X=ClipNorm(self.norm).fit_transform(records.X))
        self.n = records.n if self.n is None else self.n  # also where records are empty
        self._fit(*records.labelled(), len(records.classes))
        self.classes_ = records.classes

    @abstractmethod
    def _fit(self, X: Features, codes: Integers, n_classes: int) -> None:
        """Learn from checked records: set ``profile_`` and what answers need."""

    def _minimiser(self, X: Features, codes: NDArray[np.integer], n_classes: int) -> Minimiser:
        """Fit the minimiser with the parameters of the estimator."""
        names = ("l2", "intercept", "norm", "n", "max_iterations", "device")
        return fit_minimiser(X, codes, n_classes=n_classes, **{name: getattr(self, name) for name in names})


class WeightRelease(LinearEstimator, LinearClassifier):
    """Linear estimator whose noisy weights are released: nothing else is kept, and all answers follow from them.

    Attributes
    ----------
    profile_ : dpnotes.accounting.PrivacyProfile
        Guarantee of releasing the weights.
    coef_ : ndarray of float64, shape [n_classes, d]
    intercept_ : ndarray of float64, shape [n_classes]
    classes_ : ndarray, shape [n_classes]
    n_features_in_ : int
    """

    _published = ("coef_", "intercept_")

    @abstractmethod
    def fit_many(
        self, X: Features, codes: NDArray[np.integer], *, n_classes: int, n_repeats: int = 1, seed: int | None
    ) -> Releases:
        """Release ``n_repeats`` independent models of the same records; this estimator itself stays as it is."""

    def _fit(self, X: Features, codes: Integers, n_classes: int) -> None:
        models, profile = self.fit_many(X, codes, n_classes=n_classes, seed=self._randomness().noise)
        self.profile_ = self._implemented(profile, exact=True)
        self.coef_, self.intercept_ = models.weights[0], models.intercept[0]


def checked_epsilon_delta(epsilon: float, delta: float) -> tuple[float, float]:
    """Checked ``epsilon > 0`` and ``0 <= delta < 1``."""
    return positive("epsilon", epsilon), real("delta", delta, high=1.0, below="then no noise is needed")


def guarantee_text(epsilon: float, delta: float) -> str:
    """The guarantee as messages of the budget name it."""
    return f"epsilon={epsilon}" + (f", delta={delta}" if delta else "")
