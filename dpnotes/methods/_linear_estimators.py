"""Private linear estimators: their base classes, and the minimiser released with
noise (output perturbation).
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from dpnotes import learners
from dpnotes._validation import Features, Integers, at_least_one, positive, real
from dpnotes.accounting import PrivacyProfile
from dpnotes.methods._linear import (
    MAX_ITERATIONS,
    Minimiser,
    calibrated,
    fit_minimiser,
    noisy,
    rounded,
    streams,
)
from dpnotes.methods._private import (
    Learned,
    Linear,
    LogitAnswers,
    LogitRelease,
    Records,
)

# of n l2 by default, so that there is a minimiser with little noise, too
LEAST = 0.1


class Releases(NamedTuple):
    """Independent releases on the same data, and the guarantee of one of them.

    Attributes
    ----------
    models : dpnotes.learners.LogisticModels
        ``models.votes(X)`` has shape [n_repeats, len(X)].
    profile : dpnotes.accounting.PrivacyProfile
        Guarantee of one release; ``profile.compose(n_repeats)`` is the guarantee of
        all.
    """

    models: learners.LogisticModels
    profile: PrivacyProfile


@dataclass(eq=False, repr=False)
class LinearEstimator(LogitAnswers):
    """Base class of multinomial logistic regression with an L2 term and a privacy
    guarantee.

    Parameters
    ----------
    epsilon : float, > 0
    delta : float, in [0, 1)
        0: pure differential privacy.
    l2 : float, > 0, optional
        Weight of the penalty |W|^2/2 relative to the mean cross-entropy. Default: 100
        norm^2 / (n epsilon), but at least 0.1 / n.
    intercept : bool
        Fit a bias, as the weight of a constant feature 1. The bias is penalised, and
        the guarantee accounts for the constant feature.
    norm : float, > 0
        Public bound on the Euclidean norm of each row of X. The bound must not be taken
        from the data. Longer rows are shortened to the norm without a warning, in the
        fit and in queries; :meth:`PrivateClassifier.unusable_records` counts them.
    n : int, optional
        Public number by which the sum of the losses is divided. Default: the number of
        records. Under ``"add-remove"``, which protects it, n has no default.
    adjacency : {"zero-out", "replace-one", "add-remove"}
        Definition of neighbouring data sets: one record is made empty, replaced, or
        added or removed (with public n).
    analysis : {"tight", "published"}
        ``"tight"``: the smallest noise that is known to suffice. ``"published"``: the
        noise of the paper.
    classes : sequence, optional
        All labels that can occur. By default they are taken from y, and the guarantee
        then covers everything that is released except ``classes_``. Omit them only if
        it is public which labels occur in y.
    max_iterations : int, >= 1
    device : str
        A PyTorch device, or ``"auto"`` for the GPU if there is one.
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
    l2: float = None  # type: ignore[assignment]
    intercept: bool = True
    norm: float = 1.0
    n: int | None = None
    adjacency: str = "zero-out"
    analysis: str = "tight"
    max_iterations: int = MAX_ITERATIONS
    device: str = "auto"
    # of the penalty by default, times epsilon, against the sum of the losses
    _strength: ClassVar[float] = 100.0

    _adjacencies = ("zero-out", "replace-one", "add-remove")

    def _rules(self, n: int | None, d: int, n_classes: int) -> dict[str, Any]:
        if self.n is not None:
            n = at_least_one("n", self.n)
        if n is None:
            return {"n": None}
        norm = positive("norm", self.norm)
        # the noise is proportional to 1 / (n epsilon l2): the penalty balances it
        strength = self._strength * norm**2 / positive("epsilon", self.epsilon)
        return {"n": n, "l2": max(strength, LEAST) / n}

    def _minimiser(self, X: Features, codes: Integers, n_classes: int) -> Minimiser:
        """Fit the minimiser with the parameters of the estimator."""
        given = self._chosen("l2", "intercept", "norm", "n", "max_iterations", "device")
        return fit_minimiser(X, codes, n_classes=n_classes, **given)


class WeightRelease(LinearEstimator, LogitRelease):
    """Base class of linear estimators that release noisy weights, retain nothing else,
    and answer from these weights.

    Attributes
    ----------
    profile_ : dpnotes.accounting.PrivacyProfile
        Guarantee of releasing the weights.
    coef_ : ndarray of float64, shape [n_classes, d]
    intercept_ : ndarray of float64, shape [n_classes]
    classes_ : ndarray, shape [n_classes]
    n_features_in_ : int
    """

    @abstractmethod
    def fit_many(
        self,
        X: Features,
        codes: Integers,
        *,
        n_classes: int,
        n_repeats: int = 1,
        seed: int | None,
    ) -> Releases:
        """Release ``n_repeats`` independent models of the same records; this
        estimator does not change.
        """

    def _learn(self, records: Records) -> Learned:
        models, profile = self.fit_many(
            *records.labelled(),
            n_classes=len(records.classes),
            seed=self._randomness().noise,
        )
        model = Linear(models.weights[0], models.intercept[0])
        return Learned(profile, model, model.named())


def checked_epsilon_delta(epsilon: float, delta: float) -> tuple[float, float]:
    """Checked ``epsilon > 0`` and ``0 <= delta < 1``."""
    return positive("epsilon", epsilon), real(
        "delta", delta, high=1.0, below="then no noise is needed"
    )


def guarantee_text(epsilon: float, delta: float) -> str:
    """The guarantee in the words of the budget's messages."""
    return f"epsilon={epsilon}" + (f", delta={delta}" if delta else "")


class ModelSensitivity(WeightRelease):
    """Private logistic regression whose exact L2-regularised minimiser is released with
    noise.

    With delta = 0 the noise B has density proportional to ``exp(-rate ||B||_F)`` among
    the matrices B whose rows, one for each class, add up to zero, as the rows of the
    minimiser do. With delta > 0 the noise is Gaussian, with the least sigma that
    suffices (Balle and Wang 2018). The estimator retains only the noisy weights, so
    ``profile_`` covers any number of predictions and the fitted estimator itself.

    Parameters
    ----------
    epsilon : float, > 0
    delta : float, in [0, 0.999]
        0: pure differential privacy.
    l2 : float, > 0, optional
        Weight of the penalty |W|^2/2 relative to the mean cross-entropy. Default: 100
        norm^2 / (n epsilon), but at least 0.1 / n.
    adjacency : {"zero-out", "replace-one", "add-remove"}
        Definition of neighbouring data sets. Replace-one needs twice the noise of the
        other two.
    analysis : {"tight", "published"}
        ``"published"``: the paper's sensitivity 2 K/(n l2), for replace-one. It treats
        the fit as exact to the last digit, and with ``delta = 0`` the noise is in all
        directions. ``"tight"`` adds the contribution of the fit's tolerance, 0.1%
        (add-remove: 0.2%).
    intercept, norm, n, classes, max_iterations, device, random_state, noise_seed
        See :class:`LinearEstimator`.

    Attributes
    ----------
    profile_, coef_, intercept_, classes_, n_features_in_
        See :class:`WeightRelease`.

    Source
    ------
    Chaudhuri, Monteleoni and Sarwate (2011), Algorithm 1; van der Maaten and Hannun
    (2020), Theorems 1 and 2.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> model = ModelSensitivity(5.0, 1e-5, l2=0.01, noise_seed=0, device="cpu").fit(
    ...     X / 128, y
    ... )
    >>> model.coef_.shape, model.profile_.adjacency, model.profile_.status
    ((10, 64), 'zero-out', 'proved')
    >>> round(model.profile_.epsilon(1e-5), 6)
    5.0
    """

    def fit_many(
        self,
        X: Features,
        codes: Integers,
        *,
        n_classes: int,
        n_repeats: int = 1,
        seed: int | None,
    ) -> Releases:
        """Fit the minimiser once, and release it ``n_repeats`` times by
        :func:`noisy_minimisers`.

        Parameters, result and errors are the same as for
        :meth:`LossPerturbation.fit_many`.
        """
        how = self._chosen("adjacency", "analysis")
        minimiser = self._minimiser(X, codes, n_classes)
        return noisy_minimisers(
            minimiser, self.epsilon, self.delta, n_repeats=n_repeats, seed=seed, **how
        )


def noisy_minimisers(
    minimiser: Minimiser,
    epsilon: float,
    delta: float = 0.0,
    *,
    adjacency: str = "replace-one",
    analysis: str = "tight",
    n_repeats: int = 1,
    seed: int | None,
) -> Releases:
    """Release one minimiser ``n_repeats`` times, each time as :class:`ModelSensitivity`
    does.

    For experiments: one fit serves all epsilons and repeats. Each repeat draws from a
    separate stream, so the first repeats do not depend on ``n_repeats``. Together the
    repeats cost ``profile.compose(n_repeats)``.

    Parameters
    ----------
    minimiser : Minimiser
        From :func:`fit_minimiser`.
    epsilon, delta, adjacency, analysis
        See :class:`ModelSensitivity`.
    n_repeats : int, >= 1
    seed : int, >= 0, or None
        Seed of the noise; None for exact noise from the operating system.

    Returns
    -------
    Releases
        The ``models``, and the ``profile`` of one release.

    Raises
    ------
    ValueError
        If a parameter is outside its range.

    Examples
    --------
    >>> from dpnotes.methods import fit_minimiser
    >>> minimiser = fit_minimiser(
    ...     np.eye(3), np.arange(3), n_classes=3, l2=0.1, device="cpu"
    ... )
    >>> models, profile = noisy_minimisers(minimiser, 100.0, n_repeats=20, seed=0)
    >>> models.votes(np.eye(3), device="cpu").shape, profile.epsilon(0.0)
    ((20, 3), 100.0)
    """
    epsilon, delta = checked_epsilon_delta(epsilon, delta)
    sensitivity = minimiser.sensitivity(adjacency=adjacency, analysis=analysis)
    basis = minimiser.basis(delta, analysis)
    # coordinates in the space in which there is noise
    values = basis.T @ minimiser.weights
    # of the coordinates, for exact noise of pure privacy
    rounds = delta == 0 and seed is None
    if rounds:
        # two neighbours are rounded apart by so much more
        sensitivity += minimiser.rounding
    how, profile = calibrated(
        epsilon, delta, sensitivity=sensitivity, adjacency=adjacency
    )
    # each repeat has its own stream
    drawn = [basis @ noisy(values, one, **how) for one in streams(seed, n_repeats)]
    weights = np.stack(drawn)
    if rounds:
        # float noise has no exact law in its last digits
        weights = rounded(weights, 1 / how["rate"])
    about = minimiser.about("Theorem 2" if delta else "Theorem 1", analysis=analysis)
    return Releases(minimiser.models(weights), profile.with_(**about))
