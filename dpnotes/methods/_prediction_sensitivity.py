"""Prediction sensitivity: a budget of predictions of the exact minimiser, each with noise on its logits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from dpnotes import _validation as _checks
from dpnotes._validation import at_least_one
from dpnotes.accounting import PrivacyProfile, gaussian, prediction_sensitivity_sigma, pure
from dpnotes.mechanisms import gaussian_noise, norm_noise
from dpnotes.methods._answers import AnswerStreams, secret_seed, stream
from dpnotes.methods._budget import InferenceBudget
from dpnotes.methods._linear import MAX_ITERATIONS, Floats, Minimiser, check_norms, fit_minimiser
from dpnotes.methods._linear_estimators import (
    FLOATS,
    decisions,
    described,
    labelled_records,
    labels_of,
    level_in_words,
    privacy_level,
)
from dpnotes.methods._model_sensitivity import about_minimiser


class PredictionSensitivity(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Multinomial logistic regression that answers a budget of queries, with noise on the logits of each.

    The guarantee is that of all answers together; the estimator holds the minimiser itself, so that the estimator must
    stay with who holds the data. ``predict``, ``decision_function`` and ``score`` spend one answer for each row, and
    there is no ``predict_proba``. With delta = 0 the noise b of an answer has density proportional to
    ``exp(-rate ||b||)``, otherwise it is Gaussian. Gaussian :class:`ModelSensitivity` answers any number of queries
    with the noise that is needed here for one.

    Parameters
    ----------
    epsilon : float, > 0
        For all answers together.
    delta : float, in [0, 0.999]
        0: pure differential privacy.
    l2 : float, > 0
        Weight of |W|^2/2 against the mean cross-entropy.
    answers : int, >= 1
        Queries that can be answered; one asked again counts again.
    intercept : bool
        Fit a bias, as the weight of a constant feature 1, which is penalised and counts in the norm.
    norm : float, > 0
        Public bound on the Euclidean norm of each row that is fitted; longer rows are refused, not shortened. It must
        not be taken from the data.
    n : int, optional
        What the sum of the losses is divided by. Default: the number of records, which is public then.
    adjacency : {"replace-one", "add-remove"}
        With one record more or less, and n public, the noise is half of that for one exchanged.
    analysis : {"tight", "published"}
        ``"tight"``: Gaussian noise by exact composition, in proportion to the norm of the query. ``"published"``: the
        paper's search over basic and advanced composition and its sensitivity 2 K/(n l2) (replace-one), the same noise
        for all queries, which must be no longer than ``norm``.
    classes : sequence, optional
        All labels that can occur, when they are not public knowledge: by default they are read off y, and the guarantee
        is about all answers, but not the list of classes.
    max_iterations : int, >= 1
    device : str
        A PyTorch device, or ``"auto"``: the GPU where there is one.
    random_state : int, RandomState instance or None
        The noise. The guarantee needs it secret: keep None, which takes fresh entropy from the system, or a seed that
        nobody else knows, outside of experiments.

    Attributes
    ----------
    profile_ : dpnotes.accounting.PrivacyProfile
        Guarantee of ``answers`` answers.
    budget_ : InferenceBudget
        Answers released and left.
    classes_ : ndarray, shape [n_classes]
    n_features_in_ : int

    Source
    ------
    Van der Maaten and Hannun (2020), Theorems 5 and 6; Dong, Roth and Su (2022), Corollary 3.3, for the composition.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from dpnotes import BudgetExhausted
    >>> X, y = load_digits(return_X_y=True)
    >>> model = PredictionSensitivity(5.0, 1e-5, l2=0.1, answers=100, random_state=0, device="cpu").fit(X / 128, y)
    >>> model.predict(X[:98] / 128).shape, model.budget_.left
    ((98,), 2)
    >>> try:
    ...     model.predict(X[:3] / 128)
    ... except BudgetExhausted as refusal:
    ...     print(str(refusal).split(" at ")[0])
    3 answers were asked for, 2 of 100 are left
    """

    def __init__(
        self,
        epsilon: float,
        delta: float = 0.0,
        *,
        l2: float,
        answers: int,
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
        self.answers = answers
        self.intercept = intercept
        self.norm = norm
        self.n = n
        self.adjacency = adjacency
        self.analysis = analysis
        self.classes = classes
        self.max_iterations = max_iterations
        self.device = device
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> PredictionSensitivity:
        """Fit the minimiser and start a budget.

        Parameters
        ----------
        X : array_like of float, shape [m, d], rows of norm at most ``norm``
        y : array_like, shape [m]

        Returns
        -------
        PredictionSensitivity
            Itself.

        Raises
        ------
        ValueError
            If a row of X is too long, data are not finite or differ in length, a label is not among ``classes``, there
            is one class only, or a parameter is outside its range.
        RuntimeError
            If the minimiser was not reached.
        """
        epsilon, delta = privacy_level(self.epsilon, self.delta)
        budget = InferenceBudget(self.answers, guarantee=level_in_words(epsilon, delta))
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
        noise = PredictionNoise.of(
            minimiser, epsilon, delta, answers=budget.answers, adjacency=self.adjacency, analysis=self.analysis
        )
        self.classes_ = classes
        self._minimiser, self._noise = minimiser, noise
        self.budget_ = budget
        self._streams = AnswerStreams(budget, secret_seed(self.random_state))
        self.profile_ = noise.profile
        return self

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Noisy logits, shape [n, n_classes]; for two classes their difference, shape [n]. Spends n answers.

        Raises
        ------
        BudgetExhausted
            If fewer are left; then none is spent.
        """
        check_is_fitted(self)
        X = validate_data(self, X, dtype=FLOATS, reset=False)
        scales = self._noise.scales(X)
        generator = self._streams.take(len(X))
        logits = self._minimiser.rows(X) @ self._minimiser.weights.T
        return decisions(logits + self._noise.draw(scales, logits.shape[1], generator))

    def predict(self, X: Any) -> NDArray[Any]:
        """Label with the largest noisy logit, shape [n]; spends n answers, see :meth:`decision_function`."""
        return labels_of(self.decision_function(X), self.classes_)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True  # two answers to one query differ by their noise
        return tags


class PredictionNoise(NamedTuple):
    """Noise on the logits of one query, in units of what one record can change them by."""

    minimiser: Minimiser
    sensitivity: float
    sigma: float | None
    rate: float | None
    fixed: bool
    profile: PrivacyProfile

    @classmethod
    def of(
        cls, minimiser: Minimiser, epsilon: float, delta: float, *, answers: int, adjacency: str, analysis: str
    ) -> PredictionNoise:
        """Calibrate to a budget."""
        sensitivity = minimiser.sensitivity(adjacency=adjacency, analysis=analysis)
        about = about_minimiser(minimiser, "Theorem 6" if delta else "Theorem 5", analysis=analysis)
        profile: PrivacyProfile
        sigma, rate = None, None
        if delta == 0:
            rate = epsilon / answers
            profile = pure(rate, adjacency=adjacency).compose(answers)
        else:
            sigma = prediction_sensitivity_sigma(epsilon, delta, answers=answers, analysis=analysis)
            profile = gaussian(sigma=sigma, adjacency=adjacency).compose(answers)
            if analysis == "published":
                about["remark"] += (
                    "; Inequality 50 of the proof points the wrong way, which the composition theorem of Kairouz, Oh "
                    "and Viswanath mends; exact composition needs less noise"
                )
        return cls(minimiser, sensitivity, sigma, rate, analysis == "published", described(profile, **about))

    def scales(self, X: NDArray[np.floating]) -> Floats:
        """What one record can change the logits of each query by, shape [n]."""
        rows = self.minimiser
        if self.fixed:
            check_norms(X, rows.norm)
            longest = np.hypot(rows.norm, float(rows.intercept))
            return np.full(len(X), self.sensitivity * longest)
        return np.asarray(self.sensitivity * np.linalg.norm(rows.rows(X), axis=1))

    def draw(self, scales: Floats, n_classes: int, generator: np.random.Generator) -> Floats:
        """Noise on the logits of each query, shape [n, n_classes]."""
        if self.rate is not None:
            unit = norm_noise((n_classes,), rate=self.rate, seed=generator, n_repeats=len(scales))
        else:
            assert self.sigma is not None
            unit = gaussian_noise((len(scales), n_classes), sigma=self.sigma, seed=generator)
        return unit * scales[:, None]


class NoisyPredictions(NamedTuple):
    """Answers of :func:`noisy_predictions`.

    Attributes
    ----------
    labels : ndarray of int64, shape [n_repeats, n_queries]
        Class codes.
    profile : dpnotes.accounting.PrivacyProfile
        Of ``answers`` answers, whatever the number of queries and repeats here.
    """

    labels: NDArray[np.int64]
    profile: PrivacyProfile


def noisy_predictions(
    minimiser: Minimiser,
    X: NDArray[np.floating],
    epsilon: float,
    delta: float = 0.0,
    *,
    answers: int,
    adjacency: str = "replace-one",
    analysis: str = "tight",
    n_repeats: int = 1,
    seed: int,
) -> NoisyPredictions:
    """Answer all queries ``n_repeats`` times with the noise of a budget: no budget is kept.

    For experiments: the share of right labels estimates the accuracy that :class:`PredictionSensitivity` has with
    ``answers`` answers, on more queries than it would answer. One fit serves all levels, budgets and repeats. Repeat r
    draws from a stream of its own, so that the first repeats of many are those of a few.

    Parameters
    ----------
    minimiser : Minimiser
        From :func:`fit_minimiser`.
    X : ndarray of float, shape [n_queries, d]
    epsilon, delta, answers, adjacency, analysis
        See :class:`PredictionSensitivity`.
    n_repeats : int, >= 1
    seed : int, >= 0

    Returns
    -------
    NoisyPredictions
        ``labels`` and the ``profile`` of ``answers`` of them.

    Raises
    ------
    ValueError
        If a parameter is outside its range.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> minimiser = fit_minimiser(X / 128, y, n_classes=10, l2=0.1, device="cpu")
    >>> labels, profile = noisy_predictions(minimiser, X / 128, 1.0, 1e-5, answers=10, n_repeats=20, seed=0)
    >>> labels.shape, round(profile.epsilon(1e-5), 6)
    ((20, 1797), 1.0)
    """
    epsilon, delta = privacy_level(epsilon, delta)
    answers, n_repeats = _checks.at_least_one("answers", answers), at_least_one("n_repeats", n_repeats)
    noise = PredictionNoise.of(minimiser, epsilon, delta, answers=answers, adjacency=adjacency, analysis=analysis)
    scales = noise.scales(X)
    logits = minimiser.rows(X) @ minimiser.weights.T
    labels = np.empty((n_repeats, len(X)), dtype=np.int64)
    for r in range(n_repeats):
        labels[r] = (logits + noise.draw(scales, logits.shape[1], stream(seed, r))).argmax(axis=1)
    return NoisyPredictions(labels, noise.profile)
