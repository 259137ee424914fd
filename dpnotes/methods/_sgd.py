"""SGD that releases its last weights: with noise in every step, or with noise on the
weights.
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np
from scipy.special import expit

from dpnotes import accounting, learners
from dpnotes._progress import counted
from dpnotes._validation import (
    Features,
    Floats,
    Integers,
    at_least_one,
    one_of,
    positive,
    real,
)
from dpnotes.accounting import PrivacyProfile
from dpnotes.mechanisms import add_gaussian
from dpnotes.methods._answers import secret_seed
from dpnotes.methods._logistic_loss import Constants, logistic_loss
from dpnotes.methods._private import Learned, Linear, LogitRelease, Records

SENSITIVITIES = ("proved", "published")
FRACTION = (
    "a record may be visited ceil(passes) times, which the sensitivity with a fraction"
    " of a pass does not cover"
)
OBSERVED = (
    "the weights of any two neighbouring data sets differ by at most the given"
    " sensitivity, which is below the proved bound"
)
# by default
BATCH = 50
PASSES = 2


@dataclass(eq=False, repr=False)
class BinaryRelease(LogitRelease):
    """Classifier of two classes, trained by gradient descent, that predicts from the
    released weights.

    Parameters
    ----------
    epsilon : float, > 0
    delta : float, in (0, 1)
    steps : int, >= 1
    learning_rate : float, > 0, optional
        Default: a quarter of the largest rate that the guarantee allows.
    norm : float, > 0
        Public bound on the Euclidean norm of each row of X. The bound must not be taken
        from the data. Longer rows are shortened to the norm without a warning, in the
        fit and in queries; :meth:`PrivateClassifier.unusable_records` counts them.
    adjacency : {"zero-out", "replace-one"}
        Definition of neighbouring data sets: one record is made empty, or replaced. An
        empty record has no gradient, not even for the intercept, but it counts in the
        number by which a sum of gradients is divided.

    Attributes
    ----------
    noise_sigma_ : float
        Standard deviation of the noise, in the units of the weights.
    coef_ : ndarray of float64, shape [1, d]
    intercept_ : ndarray of float64, shape [1]
    """

    epsilon: float
    delta: float
    _: KW_ONLY
    steps: int = None  # type: ignore[assignment]
    learning_rate: float = None  # type: ignore[assignment]
    norm: float = 1.0
    adjacency: str = "zero-out"
    noise_sigma_: float = field(init=False)
    coef_: Floats = field(init=False)
    intercept_: Floats = field(init=False)

    _adjacencies = ("zero-out", "replace-one")
    _most_classes = 2


@dataclass(eq=False, repr=False)
class NoisySGD(BinaryRelease):
    """Logistic regression by full-batch gradient descent with noise in every step; only
    the last weights are released.

    This is a sound alternative to relying on the randomness of SGD. Earlier weights
    stay secret, so their privacy cost fades as steps contract (``l2 > 0``) or a ball
    bounds the weights (``radius``). The privacy loss then stops growing with the number
    of steps. The method assumes nothing about the data except the bound ``norm``, which
    holds because longer rows are shortened.

    Parameters
    ----------
    epsilon : float, > 0
    delta : float, in (0, 1)
    steps : int, >= 1
    learning_rate : float, > 0, optional
        Step size, at most 2 / (smoothness + l2), where the smoothness is (norm^2 + 1) /
        4. Default: a quarter of this maximum.
    l2 : float, >= 0
        Penalty l2/2 |w|^2 on all weights, including the intercept.
    radius : float, > 0
        Radius of the ball onto which the weights are projected after every step;
        infinite for no projection.
    norm, adjacency, classes, random_state, noise_seed
        See :class:`dpnotes.methods.AugmentedSGD`.

    Attributes
    ----------
    profile_ : dpnotes.accounting.PrivacyProfile
        Guarantee of releasing the last weights.
    noise_sigma_ : float
        Standard deviation of the noise on each weight in each step, in the units of the
        weights.
    coef_, intercept_, classes_, n_features_in_
        See :class:`dpnotes.methods.AugmentedSGD`.

    Source
    ------
    Bok, Su and Altschuler (2024); the number of records and all parameters are public.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X /= np.linalg.norm(X, axis=1, keepdims=True)
    >>> model = NoisySGD(
    ...     2.0, 1e-3, steps=100, learning_rate=2.0, radius=5.0, noise_seed=0
    ... ).fit(X, y)
    >>> (
    ...     model.profile_.status,
    ...     round(model.profile_.epsilon(1e-3), 6),
    ...     round(model.noise_sigma_, 4),
    ... )
    ('proved', 2.0, 0.0718)
    """

    _: KW_ONLY
    steps: int = 100
    l2: float = 0.0
    radius: float = math.inf

    def _rules(self, n: Any, d: int, n_classes: int) -> dict[str, Any]:
        return {
            "learning_rate": (
                0.5 / (logistic_loss(self.norm).smoothness + real("l2", self.l2))
            )
        }

    def _learn(self, records: Records) -> Learned:
        setting = self._setting(records.n)
        sigma = self.calibrate(records.n)
        (weights,) = noisy_descents(
            *records.labelled(),
            n_runs=1,
            n=records.n,
            sigma=sigma,
            generator=self._randomness().generator(0),
            **self._chosen("steps", "learning_rate", "l2", "radius"),
        )
        profile = accounting.last_iterate(
            sigma=sigma, adjacency=self.adjacency, **setting
        )
        return _released(weights, profile, {"noise_sigma_": sigma}, exact=False)

    def calibrate(self, n: int) -> float:
        """Compute the standard deviation that the noise on each weight in each step
        must have for ``n`` records.

        Every bound on mu is inversely proportional to this standard deviation.
        """
        epsilon = positive("epsilon", self.epsilon)
        # mu is inversely proportional to sigma, so one value gives them all
        once = accounting.last_iterate_mu(sigma=1.0, **self._setting(n))
        return once * float(accounting.gaussian_sigma(epsilon, self.delta))

    def _setting(self, n: int) -> dict[str, Any]:
        """Arguments of the bounds on the last iterate."""
        loss = logistic_loss(self.norm)
        l2 = real("l2", self.l2)
        rate = positive("learning_rate", self.learning_rate)
        limit = 2 / (loss.smoothness + l2)
        if rate > limit:
            raise ValueError(
                f"learning_rate must be <= 2 / (smoothness + l2) = {limit:g}, got"
                f" learning_rate={rate!r}; with a larger rate, a step can push the"
                " weights apart"
            )
        contraction = accounting.step_contraction(
            learning_rate=rate, smoothness=loss.smoothness + l2, convexity=l2
        )
        radius = math.inf
        if self.radius != math.inf:
            radius = positive("radius", self.radius)
        return {
            # of one step over all records, by which a record can move it
            "shift": accounting.papers.sgd_sensitivity(
                **loss._asdict(),
                learning_rate=rate,
                batch_size=n,
                epochs=1,
                adjacency=self.adjacency,
            ),
            "steps": at_least_one("steps", self.steps),
            # 1 up to rounding at the largest rate
            "contraction": min(contraction, 1.0),
            "diameter": 2 * radius,
        }


def noisy_descents(
    X: Features,
    codes: Integers,
    *,
    n_runs: int,
    n: int | None = None,
    steps: int,
    learning_rate: float,
    sigma: float,
    generator: np.random.Generator | None,
    l2: float = 0.0,
    radius: float = math.inf,
) -> Floats:
    """Run noisy projected descent from zero many times; return the last weights, as
    :class:`NoisySGD` releases them.

    Parameters
    ----------
    X : ndarray of float, shape [n, d]
    codes : ndarray of int, shape [n]
        Class codes 0 and 1.
    n_runs : int, >= 1
    n : int, >= 1, optional
        Number by which sums of gradients are divided. Default: the number of rows. Give
        a larger number if there are empty records.
    steps, learning_rate, l2, radius
        See :class:`NoisySGD`.
    sigma : float, >= 0
        Standard deviation of the noise on each weight in each step.
    generator : numpy.random.Generator or None
        Generator of the noise; None for noise from the operating system.

    Returns
    -------
    ndarray of float64, shape [n_runs, d + 1]
        The weights of each run; the intercept is last.
    """
    n = len(X) if n is None else n
    rows = np.hstack([X, np.ones((len(X), 1))], dtype=np.float64)  # [rows, d + 1]
    # a start that no record decides
    weights = np.zeros((n_runs, rows.shape[1]))
    for _ in counted(range(steps), steps):
        error = expit(rows @ weights.T) - codes[:, None]  # [rows, n_runs]
        gradient = error.T @ rows / n + l2 * weights
        weights = add_gaussian(
            weights - learning_rate * gradient, sigma=sigma, seed=generator
        )
        if radius != math.inf:
            # a projection brings no two weights further apart
            length = np.linalg.norm(weights, axis=1, keepdims=True)
            weights *= np.minimum(1, radius / np.maximum(length, np.finfo(float).tiny))
    return weights


@dataclass(eq=False, repr=False)
class AugmentedSGD(BinaryRelease):
    """Logistic regression by plain SGD, whose last weights are released with Gaussian
    noise.

    With ``intrinsic_sigma=0`` this is output perturbation: the added noise gives the
    guarantee for any seed. With a positive ``intrinsic_sigma``, the weights are assumed
    to contain this much noise already, and less noise is added. The guarantee then has
    status "assumption", and is false in the worst case (see the chapter on intrinsic
    privacy).

    Each pass goes through the records in a fresh order. A last batch of fewer than
    ``batch_size`` records is left out, because the sensitivity bound would not hold
    with it. The estimator retains only the noisy weights. The descent uses floating
    point, and the sensitivity includes its rounding errors. If the ``status`` of the
    guarantee is "proved", its ``implementation`` is therefore "exact".

    Parameters
    ----------
    epsilon : float, > 0
    delta : float, in (0, 1)
    batch_size : int, in 1..n, optional
        Default: 50, or n if that is smaller.
    steps : int, >= 1, optional
        Total number of batches. Default: two passes.
    learning_rate : float, > 0, optional
        Step size, at most 2 / smoothness, which is 8 / (norm^2 + 1). With
        ``require_bound=False`` it may be larger. Default: a quarter of this maximum.
    sensitivity : {"proved", "published"} or float > 0
        ``"proved"``: L learning_rate / batch_size for each visit of a record, and twice
        as much for replace-one. Here ``L = (norm^2 + 1)^(1/2)``, and each pass counts
        as one visit, complete or not. ``"published"``: an incomplete pass counts as a
        fraction of a visit. A number, such as a maximum over sampled pairs of data
        sets, is used without a check; if it is below the proved bound, the guarantee
        has status "assumption".
    intrinsic_sigma : float, >= 0
        Standard deviation of each weight over seeds; the calibration relies on it.
        Estimate it from public data, as in the chapter on intrinsic privacy.
    analysis : {"tight", "published"}
        ``"published"`` uses the classical formula of the Gaussian mechanism, and raises
        an error where this formula is not sufficient.
    require_bound : bool
        If False, a learning rate beyond 2 / smoothness is accepted; for such a rate
        ``profile_`` guarantees nothing.
    norm : float, > 0
        Public bound on the Euclidean norm of each row of X. The bound must not be taken
        from the data. Longer rows are shortened to the norm without a warning, in the
        fit and in queries; :meth:`PrivateClassifier.unusable_records` counts them.
    adjacency : {"zero-out", "replace-one"}
        Definition of neighbouring data sets: one record is made empty, or replaced. An
        empty record has no gradient, not even for the intercept, and retains its place
        in the batches, whose size is public.
    classes : sequence of two labels, optional
        Both labels. By default they are taken from y, and the guarantee then covers all
        of the fitted estimator except ``classes_``. Omit them only if it is public
        which labels occur in y.
    device : {"auto", "cpu", "cuda", ...}
    random_state : int, RandomState instance or None
        Not used: initial weights and batches can be part of the guarantee.
    noise_seed : int, optional
        See :class:`PrivateClassifier`.

    Attributes
    ----------
    profile_ : dpnotes.accounting.PrivacyProfile
        Guarantee of releasing the weights.
    sensitivity_, noise_sigma_ : float
        Sensitivity of the weights, and standard deviation of the added noise, both in
        the units of the weights.
    coef_ : ndarray of float64, shape [1, d]
    intercept_ : ndarray of float64, shape [1]
    classes_ : ndarray, shape [2]
    n_features_in_ : int

    Source
    ------
    Wu et al. (2017), Algorithm 1 (output perturbation); Hyland and Tople (2019),
    Algorithm 2.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X /= np.linalg.norm(X, axis=1, keepdims=True)
    >>> model = AugmentedSGD(
    ...     2.0, 1e-3, batch_size=50, steps=33, learning_rate=1.0, noise_seed=0
    ... ).fit(X, y)
    >>> (
    ...     model.profile_.status,
    ...     round(model.profile_.epsilon(1e-3), 6),
    ...     round(model.sensitivity_, 4),
    ... )
    ('proved', 2.0, 0.0849)
    """

    _: KW_ONLY
    batch_size: int = None  # type: ignore[assignment]
    sensitivity: str | float = "proved"
    intrinsic_sigma: float = 0.0
    analysis: str = "tight"
    require_bound: bool = True
    device: str = "auto"
    sensitivity_: float = field(init=False)

    def _rules(self, n: Any, d: int, n_classes: int) -> dict[str, Any]:
        size = min(n, BATCH)
        if self.batch_size is not None:
            size = at_least_one("batch_size", self.batch_size)
        # a quarter of what the bound allows
        rate = 0.5 / logistic_loss(self.norm).smoothness
        return {
            "batch_size": size,
            "steps": PASSES * max(n // size, 1),
            "learning_rate": rate,
        }

    def _learn(self, records: Records) -> Learned:
        if at_least_one("batch_size", self.batch_size) > records.n:
            raise ValueError(
                f"batch_size must be <= n={records.n} records, got"
                f" batch_size={self.batch_size}"
            )
        proved, distance = self._distances(*records.X.shape)
        noise = accounting.papers.augmenting_sigma(
            positive("epsilon", self.epsilon),
            self.delta,
            sensitivity=distance,
            intrinsic_sigma=self.intrinsic_sigma,
            analysis=self.analysis,
        )
        runs = learners.fit_sgd(
            # an empty record keeps its place, so the order of the others is the same
            *records.standing_in(),
            empty=~records.kept,
            n_runs=1,
            random_state=secret_seed(self.noise_seed),
            dtype=np.float64,
            **self._chosen("steps", "batch_size", "learning_rate", "device"),
        )
        weights = runs.weights[0]
        # a large intrinsic_sigma may need none
        if noise > 0:
            weights = add_gaussian(
                weights, sigma=noise, seed=self._randomness().generator(1)
            )
        profile = self._guarantee(proved, distance, noise)
        told = {"noise_sigma_": noise, "sensitivity_": distance}
        return _released(weights, profile, told, exact=profile.status == "proved")

    def _distances(self, n: int, d: int) -> tuple[float, float]:
        """Proved bound on the sensitivity (infinite if there is none), and the bound
        to calibrate with.
        """
        steps = at_least_one("steps", self.steps)
        loss = logistic_loss(self.norm)
        rate = positive("learning_rate", self.learning_rate)
        holds = rate <= 2 / loss.smoothness
        if not (holds or self.require_bound):
            # the formula is evaluated where nothing proves it
            loss = loss._replace(smoothness=1 / rate)

        size = self.batch_size
        setting = {
            **loss._asdict(),
            "learning_rate": rate,
            "batch_size": size,
            "adjacency": self.adjacency,
        }
        rounding = _rounding(loss, steps=steps, rate=rate, batch_size=size, d=d)

        def bound(passes: float, analysis: str) -> float:
            return (
                accounting.papers.sgd_sensitivity(
                    epochs=passes, analysis=analysis, **setting
                )
                + rounding
            )

        # the last pass may be broken off: ceil
        used = proved = bound(steps / (n // size), "tight")
        if not isinstance(self.sensitivity, str):
            used = positive("sensitivity", self.sensitivity)
        elif one_of("sensitivity", self.sensitivity, SENSITIVITIES) == "published":
            used = bound(steps * size / n, "published")
        return (proved if holds else math.inf), used

    def _guarantee(
        self, proved: float, distance: float, noise: float
    ) -> PrivacyProfile:
        """Guarantee of the released weights, with its condition."""
        if proved == math.inf:
            # steps may push weights apart, and nothing bounds how far
            nothing = accounting.approximate(0.0, 1.0, adjacency=self.adjacency)
            return nothing.with_(
                remark=(
                    "no guarantee: beyond a learning rate of 2 / smoothness no"
                    " sensitivity is proved"
                )
            )
        if self.intrinsic_sigma > 0:
            profile = accounting.papers.intrinsic_sgd(
                # independent noises add their squares
                sigma=math.hypot(noise, self.intrinsic_sigma),
                sensitivity=distance,
                adjacency=self.adjacency,
            )
            # the fraction does bound the means' distance
            if distance < proved and self.sensitivity != "published":
                profile = profile.with_(
                    assumption=f"{profile.assumption}; and {OBSERVED}"
                )
            return profile
        profile = accounting.gaussian(
            sigma=noise, sensitivity=distance, adjacency=self.adjacency
        )
        profile = profile.with_(
            source="Wu et al. (2017); Balle and Wang (2018), Theorem 8",
            exactness="upper bound",
        )
        if distance < proved:
            if self.sensitivity == "published":
                return profile.with_(status="refuted", remark=FRACTION)
            return profile.with_(status="assumption", assumption=OBSERVED)
        return profile


def _released(
    weights: Floats, profile: PrivacyProfile, told: dict[str, float], *, exact: bool
) -> Learned:
    """Weights [d + 1] for the second of two classes, the intercept last."""
    model = Linear(weights[None, :-1], weights[-1:])
    return Learned(profile, model, {**model.named(), **told}, exact=exact)


def _rounding(
    loss: Constants, *, steps: int, rate: float, batch_size: int, d: int
) -> float:
    """Bound on the error that floating point adds to the distance of two descents from
    the same initial weights.

    No step pushes weights apart, so the errors of all steps add up. A step has three
    errors: of a logit, which is a sum of d + 1 products; of the mean of a batch and its
    sigmoids, each off by at most 2^-49; and of the new weights. The bounds hold for any
    order of the sums and are twice as large as necessary.
    """
    # of the weights, which start at a norm of at most 6^(1/2)
    longest = 3 + steps * rate * loss.lipschitz
    logit = (d + 1) * loss.lipschitz * longest
    return (
        2
        * steps
        * 2.0**-52
        * (rate * loss.lipschitz * (logit / 4 + batch_size + 8) + longest)
    )
