"""Model sensitivity: the minimiser of a regularised loss, released with noise (output perturbation)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dpnotes._validation import at_least_one
from dpnotes.accounting import PrivacyProfile, gaussian, gaussian_sigma, norm_noise_rate, pure
from dpnotes.mechanisms import gaussian_noise, norm_noise
from dpnotes.methods._answers import secret_seed, stream
from dpnotes.methods._linear import MAX_ITERATIONS, Minimiser, fit_minimiser
from dpnotes.methods._linear_estimators import LinearRelease, Releases, described, labelled_records, privacy_level


class ModelSensitivity(LinearRelease):
    """Multinomial logistic regression whose exact L2-regularised minimiser is released with noise.

    With delta = 0 the noise B has density proportional to ``exp(-rate ||B||_F)``, otherwise it is Gaussian with the
    least sigma (Balle and Wang 2018). Nothing but the noisy weights is kept, so that any number of predictions and the
    fitted estimator itself are covered by ``profile_``.

    Parameters
    ----------
    epsilon : float, > 0
    delta : float, in [0, 0.999]
        0: pure differential privacy.
    l2 : float, > 0
        Weight of |W|^2/2 against the mean cross-entropy.
    intercept : bool
        Fit a bias, as the weight of a constant feature 1, which is penalised and counts in the norm.
    norm : float, > 0
        Public bound on the Euclidean norm of each row of X; longer rows are refused, not shortened. It must not be
        taken from the data.
    n : int, optional
        What the sum of the losses is divided by. Default: the number of records, which is public then.
    adjacency : {"replace-one", "add-remove"}
        With one record more or less, and n public, the noise is half of that for one exchanged.
    analysis : {"tight", "published"}
        ``"published"``: the paper's sensitivity 2 K/(n l2) (replace-one), which takes the fit as exact to the last
        digit. ``"tight"`` counts what the fit's tolerance adds, 0.1% (add-remove: 0.2%).
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
    Chaudhuri, Monteleoni and Sarwate (2011), Algorithm 1; van der Maaten and Hannun (2020), Theorems 1 and 2.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> model = ModelSensitivity(5.0, 1e-5, l2=0.01, random_state=0, device="cpu").fit(X / 128, y)
    >>> model.coef_.shape, model.profile_.adjacency, model.profile_.status
    ((10, 64), 'replace-one', 'proved')
    >>> round(model.profile_.epsilon(1e-5), 6)
    5.0
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
        adjacency: str = "replace-one",
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

    def fit(self, X: Any, y: Any) -> ModelSensitivity:
        """Fit the minimiser and release it with noise.

        Parameters
        ----------
        X : array_like of float, shape [m, d], rows of norm at most ``norm``
        y : array_like, shape [m]

        Returns
        -------
        ModelSensitivity
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
        minimiser = fit_minimiser(
            X,
            codes,
            n_classes=len(classes),
            l2=self.l2,
            intercept=self.intercept,
            norm=self.norm,
            n=self.n,
            max_iterations=self.max_iterations,
            device=self.device,
        )
        releases = noisy_minimisers(
            minimiser,
            self.epsilon,
            self.delta,
            adjacency=self.adjacency,
            analysis=self.analysis,
            seed=secret_seed(self.random_state),
        )
        self._release(releases, classes)
        return self


def noisy_minimisers(
    minimiser: Minimiser,
    epsilon: float,
    delta: float = 0.0,
    *,
    adjacency: str = "replace-one",
    analysis: str = "tight",
    n_repeats: int = 1,
    seed: int,
) -> Releases:
    """Release one minimiser ``n_repeats`` times, as :class:`ModelSensitivity` does once.

    For experiments: one fit serves all levels and repeats. Repeat r draws from a stream of its own, so that the first
    repeats of many are those of a few. Together they cost ``profile.compose(n_repeats)``.

    Parameters
    ----------
    minimiser : Minimiser
        From :func:`fit_minimiser`.
    epsilon, delta, adjacency, analysis
        See :class:`ModelSensitivity`.
    n_repeats : int, >= 1
    seed : int, >= 0
        Must stay secret where the noise protects data.

    Returns
    -------
    Releases
        ``models`` and the ``profile`` of one.

    Raises
    ------
    ValueError
        If a parameter is outside its range.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> minimiser = fit_minimiser(X / 128, y, n_classes=10, l2=0.1, device="cpu")
    >>> models, profile = noisy_minimisers(minimiser, 100.0, n_repeats=20, seed=0)
    >>> models.votes(X / 128, device="cpu").shape, profile.epsilon(0.0)
    ((20, 1797), 100.0)
    """
    epsilon, delta = privacy_level(epsilon, delta)
    repeats = range(at_least_one("n_repeats", n_repeats))
    sensitivity = minimiser.sensitivity(adjacency=adjacency, analysis=analysis)
    shape = minimiser.weights.shape
    profile: PrivacyProfile
    if delta == 0:
        rate = norm_noise_rate(epsilon, sensitivity=sensitivity)
        noise = [norm_noise(shape, rate=rate, seed=stream(seed, r)) for r in repeats]
        profile, theorem = pure(epsilon, adjacency=adjacency), "Theorem 1"
    else:
        sigma = gaussian_sigma(epsilon, delta, sensitivity=sensitivity)
        noise = [gaussian_noise(shape, sigma=sigma, seed=stream(seed, r)) for r in repeats]
        profile, theorem = gaussian(sigma=sigma, sensitivity=sensitivity, adjacency=adjacency), "Theorem 2"
    models = minimiser.models(minimiser.weights + np.stack(noise))
    return Releases(models, described(profile, **about_minimiser(minimiser, theorem, analysis=analysis)))


def about_minimiser(minimiser: Minimiser, theorem: str, *, analysis: str) -> dict[str, str]:
    """Status, assumption, source and remark of a guarantee that rests on the sensitivity of the minimiser."""
    public = f"n={minimiser.n} and norm={minimiser.norm:g} are public"
    about = {
        "status": "proved",
        "assumption": public,
        "source": f"van der Maaten and Hannun (2020), Lemma 1 and {theorem}",
        "remark": "",
    }
    if analysis == "published":
        about["status"] = "assumption"
        about["assumption"] = f"the fit is the exact minimiser; {public}"
        about["remark"] = (
            f"the fit's gradient has norm at most {minimiser.gradient_tolerance:.1e}, which Lemma 1 does not count"
        )
    return about
