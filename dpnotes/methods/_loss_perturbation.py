"""Loss perturbation: a random linear term in the objective, whose minimiser is released (objective perturbation)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpnotes import _validation as _checks
from dpnotes._validation import at_least_one
from dpnotes.accounting import ObjectiveNoise, PrivacyProfile, approximate, objective_perturbation, pure
from dpnotes.learners._logistic_multinomial import fit_multinomial_logistic
from dpnotes.learners._logistic_perturbed import fit_perturbed_logistic
from dpnotes.mechanisms import gaussian_noise, norm_noise
from dpnotes.methods._answers import secret_seed, stream
from dpnotes.methods._linear import (
    GRADIENT_SHARE,
    MAX_ITERATIONS,
    Floats,
    LinearTask,
    linear_task,
    released_models,
    unconverged_ignored,
)
from dpnotes.methods._linear_estimators import LinearRelease, Releases, described, labelled_records, privacy_level

ROUGH, ROUGH_ITERATIONS = 1e-4, 100  # of the unperturbed fit, in float32, that all repeats start from


class LossPerturbation(LinearRelease):
    """Multinomial logistic regression that minimises a randomly perturbed loss.

    Minimised is ``(1/n) (sum_i CE(W x_i, y_i) + <B, W> + rho/2 |W|^2) + l2/2 |W|^2``. With delta = 0 the random B has
    density proportional to ``exp(-rate ||B||_F)``, otherwise it is Gaussian. Nothing but the weights is kept, so that
    any number of predictions and the fitted estimator itself are covered by ``profile_``.

    The theorems are about the exact minimiser. The fit goes on until the gradient of the sum has a norm of at most
    0.001 K (checked anew), K being what one record can make it: an exact minimiser for noise shifted by so much. That
    rest is not covered by the proof, and ``profile_.status`` is ``"assumption"``.

    Parameters
    ----------
    epsilon : float, > 0
        Half of it is spent on the noise, half on the change of volume.
    delta : float, in [0, 1)
        0: pure differential privacy.
    l2 : float, > 0
        Weight of |W|^2/2 against the mean cross-entropy, besides the rho/n that the guarantee needs.
    intercept : bool
        Fit a bias, as the weight of a constant feature 1, which is penalised and counts in the norm.
    norm : float, > 0
        Public bound on the Euclidean norm of each row of X; longer rows are refused, not shortened. It must not be
        taken from the data.
    n : int, optional
        What the sum of the losses is divided by. Default: the number of records, which is public then.
    adjacency : {"add-remove", "replace-one"}
        For one record exchanged the noise has twice the scale.
    analysis : {"tight", "published"}
        ``"published"``: the paper's constants (add-remove), with a rho several times as large. Its proof for Gaussian
        noise has a gap beyond two classes; ``profile_`` says whether the noise suffices by another proof.
    classes : sequence, optional
        All labels that can occur, when they are not public knowledge: by default they are read off y, and the guarantee
        is about all of the fitted estimator except ``classes_``.
    max_iterations : int, >= 1
    device : str
        A PyTorch device, or ``"auto"``: the GPU where there is one.
    random_state : int, RandomState instance or None
        The noise. The guarantee needs it secret: keep None, which takes fresh entropy from the system, or a seed that
        nobody else knows, outside of experiments.

    Attributes
    ----------
    profile_ : dpnotes.accounting.PrivacyProfile
        Guarantee of releasing the weights.
    coef_ : ndarray of float64, shape [n_classes, d]
    intercept_ : ndarray of float64, shape [n_classes]
    classes_ : ndarray, shape [n_classes]
    n_features_in_ : int

    Source
    ------
    Chaudhuri, Monteleoni and Sarwate (2011), Algorithm 2; van der Maaten and Hannun (2020), Theorems 3 and 4, and
    :func:`dpnotes.accounting.objective_perturbation` for the sharpened constants.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> model = LossPerturbation(5.0, l2=0.01, random_state=0, device="cpu").fit(X / 128, y)
    >>> model.coef_.shape, model.profile_.adjacency, model.profile_.epsilon(0.0)
    ((10, 64), 'add-remove', 5.0)
    """

    def __init__(
        self,
        epsilon: float,
        delta: float = 0.0,
        *,
        l2: float,
        intercept: bool = True,
        norm: float = 1.0,
        n: int | None = None,
        adjacency: str = "add-remove",
        analysis: str = "tight",
        classes: Sequence[Any] | None = None,
        max_iterations: int = MAX_ITERATIONS,
        device: str = "auto",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.l2 = l2
        self.intercept = intercept
        self.norm = norm
        self.n = n
        self.adjacency = adjacency
        self.analysis = analysis
        self.classes = classes
        self.max_iterations = max_iterations
        self.device = device
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> LossPerturbation:
        """Draw the linear term and release the minimiser.

        Parameters
        ----------
        X : array_like of float, shape [m, d], rows of norm at most ``norm``
        y : array_like, shape [m]

        Returns
        -------
        LossPerturbation
            Itself.

        Raises
        ------
        ValueError
            If a row of X is too long, data are not finite or differ in length, a label is not among ``classes``, there
            is one class only, or a parameter is outside its range.
        RuntimeError
            If the minimiser was not reached.
        """
        privacy_level(self.epsilon, self.delta)
        X, codes, classes = labelled_records(self, X, y, self.classes)
        releases = perturbed_minimisers(
            X,
            codes,
            self.epsilon,
            self.delta,
            n_classes=len(classes),
            l2=self.l2,
            intercept=self.intercept,
            norm=self.norm,
            n=self.n,
            adjacency=self.adjacency,
            analysis=self.analysis,
            max_iterations=self.max_iterations,
            device=self.device,
            seed=secret_seed(self.random_state),
        )
        self._release(releases, classes)
        return self


def perturbed_minimisers(
    X: NDArray[np.floating],
    y: NDArray[np.integer],
    epsilon: float,
    delta: float = 0.0,
    *,
    n_classes: int,
    l2: float,
    intercept: bool = True,
    norm: float = 1.0,
    n: int | None = None,
    adjacency: str = "add-remove",
    analysis: str = "tight",
    n_repeats: int = 1,
    max_iterations: int = MAX_ITERATIONS,
    device: str = "auto",
    seed: int,
) -> Releases:
    """Release ``n_repeats`` minimisers of perturbed losses, fitted at once, as :class:`LossPerturbation` does once.

    For experiments: repeat r draws from a stream of its own, so that the first repeats of many are those of a few.
    Together they cost ``profile.compose(n_repeats)``.

    Parameters
    ----------
    X : ndarray of float, shape [m, d]
    y : ndarray of int, shape [m]
        Class codes 0 to ``n_classes - 1``.
    n_classes : int, >= 2
    n_repeats : int, >= 1
    seed : int, >= 0
        Must stay secret where the noise protects data.
    epsilon, delta, l2, intercept, norm, n, adjacency, analysis, max_iterations, device
        See :class:`LossPerturbation`.

    Returns
    -------
    Releases
        ``models`` and the ``profile`` of one.

    Raises
    ------
    ValueError
        If a row of X is too long, or a parameter is outside its range.
    RuntimeError
        If a minimiser was not reached.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> models, profile = perturbed_minimisers(
    ...     X / 128, y, 10.0, n_classes=10, l2=0.01, n_repeats=20, seed=0, device="cpu"
    ... )
    >>> models.votes(X / 128, device="cpu").shape, profile.status
    ((20, 1797), 'assumption')
    """
    epsilon, delta = privacy_level(epsilon, delta)
    repeats = range(at_least_one("n_repeats", n_repeats))
    l2 = _checks.real("l2", l2, low=0.0, open_low=True)
    max_iterations = _checks.at_least_one("max_iterations", max_iterations)
    noise = objective_perturbation(
        epsilon, delta, n_classes=n_classes, norm=norm, bias=intercept, adjacency=adjacency, analysis=analysis
    )
    task = linear_task(X, y, n_classes=n_classes, intercept=intercept, norm=norm, n=n)
    linear = np.stack([_linear_term(noise, (n_classes, task.X.shape[1]), stream(seed, r)) for r in repeats])
    penalty = task.n * l2 + noise.regulariser
    with unconverged_ignored():
        start = fit_multinomial_logistic(
            task.X,
            task.y,
            np.arange(len(task.X))[None],
            n_classes=n_classes,
            l2=penalty / len(task.X),
            tolerance=max(ROUGH * task.norm, task.solver_tolerance()),
            max_iterations=min(ROUGH_ITERATIONS, max_iterations),
            dtype=np.float32,
            device=device,
        )
        fitted = fit_perturbed_logistic(
            task.X,
            task.y,
            n_classes=n_classes,
            l2=penalty / len(task.X),
            linear=linear,
            start=start.weights[0],
            tolerance=task.solver_tolerance(),
            max_iterations=max_iterations,
            device=device,
        )
    task.check_minimised(fitted.weights, penalty=penalty, linear=linear)
    profile = _profile(task, noise, epsilon, delta, adjacency=adjacency, analysis=analysis)
    return Releases(released_models(fitted.weights, task.intercept), profile)


def _linear_term(noise: ObjectiveNoise, shape: tuple[int, int], generator: np.random.Generator) -> Floats:
    if noise.rate is not None:
        return norm_noise(shape, rate=noise.rate, seed=generator)
    assert noise.sigma is not None
    return gaussian_noise(shape, sigma=noise.sigma, seed=generator)


def _profile(
    task: LinearTask, noise: ObjectiveNoise, epsilon: float, delta: float, *, adjacency: str, analysis: str
) -> PrivacyProfile:
    profile = pure(epsilon, adjacency=adjacency) if delta == 0 else approximate(epsilon, delta, adjacency=adjacency)
    theorem, remark = "Theorem 3" if delta == 0 else "Theorem 4", ""
    if analysis == "published" and delta == 0:
        remark = "the paper's regulariser is larger than the Hessian's rank and trace require"
    elif analysis == "published" and noise.status == "proved":
        remark = (
            "the published proof takes the gradient of the record as fixed, which it is not beyond two classes; a "
            "union bound over the labels proves the same noise"
        )
    elif analysis == "published":
        remark = (
            "the published proof takes the gradient of the record as fixed, which it is not beyond two classes; for "
            f"{task.n_classes} classes neither a proof nor a counter-example is known"
        )
    return described(
        profile,
        status="assumption" if noise.status == "proved" else noise.status,
        assumption="the perturbed loss is minimised exactly (checked: the gradient of the sum has a norm of at most "
        f"{GRADIENT_SHARE:g} K); n={task.n} and norm={task.norm:g} are public",
        source=f"van der Maaten and Hannun (2020), {theorem}"
        + ("" if analysis == "published" else ", constants sharpened in the private-prediction chapter"),
        remark=remark,
    )
