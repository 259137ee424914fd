"""Prediction sensitivity: a budget of predictions of the exact minimiser, each with
noise on its logits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dpnotes._validation import Features, Floats, Integers, at_least_one
from dpnotes.accounting import (
    PrivacyProfile,
    gaussian,
    prediction_sensitivity_sigma,
    pure,
)
from dpnotes.methods._answers import InferenceBudget
from dpnotes.methods._linear import (
    Minimiser,
    check_norms,
    noisy,
    rounded,
    streams,
)
from dpnotes.methods._linear_estimators import (
    LinearEstimator,
    checked_epsilon_delta,
    guarantee_text,
)
from dpnotes.methods._private import Learned, Records


@dataclass(kw_only=True, eq=False, repr=False)
class PredictionSensitivity(LinearEstimator):
    """Multinomial logistic regression that answers a budget of queries, with noise on
    the logits of each query.

    The guarantee covers all answers together. The estimator holds the minimiser itself,
    so the estimator must stay with the holder of the data. ``predict``,
    ``decision_function`` and ``score`` spend one answer for each row, and there is no
    ``predict_proba``. With delta = 0 the noise b of an answer has density proportional
    to ``exp(-rate ||b||)`` among the vectors b whose entries sum to 0, as the logits
    do. With delta > 0 the noise is Gaussian. In that case :class:`ModelSensitivity`
    answers any number of queries with the noise that this class needs for one query.

    Parameters
    ----------
    epsilon : float, > 0
        Epsilon of all answers together.
    delta : float, in [0, 0.999]
        0: pure differential privacy.
    l2 : float, > 0, optional
        Weight of the penalty |W|^2/2 relative to the mean cross-entropy. Default: 100
        norm^2 / (n epsilon), but at least 0.1 / n.
    answers : int, >= 1
        Number of queries that can be answered; a repeated query counts again.
    adjacency : {"zero-out", "replace-one", "add-remove"}
        Definition of neighbouring data sets. Replace-one needs twice the noise of the
        other two.
    analysis : {"tight", "published"}
        ``"tight"``: noise in proportion to the norm of the query; Gaussian noise is
        calibrated by exact composition. ``"published"``: the paper's sensitivity 2 K/(n
        l2), for replace-one, and its search over basic and advanced composition. The
        noise is then the same for all queries. With ``delta = 0`` this noise is in all
        directions.
    intercept, norm, n, classes, max_iterations, device, random_state, noise_seed
        See :class:`LinearEstimator`.

    Attributes
    ----------
    profile_ : dpnotes.accounting.PrivacyProfile
        Guarantee of all ``answers`` answers together.
    budget_ : InferenceBudget
        Numbers of answers released and left.
    classes_ : ndarray, shape [n_classes]
    n_features_in_ : int

    Source
    ------
    Van der Maaten and Hannun (2020), Theorems 5 and 6; Dong, Roth and Su (2022),
    Corollary 3.3, for the composition.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from dpnotes import BudgetExhausted
    >>> X, y = load_digits(return_X_y=True)
    >>> model = PredictionSensitivity(
    ...     5.0, 1e-5, l2=0.1, answers=100, noise_seed=0, device="cpu"
    ... ).fit(X / 128, y)
    >>> model.predict(X[:98] / 128).shape, model.budget_.left
    ((98,), 2)
    >>> try:
    ...     model.predict(X[:3] / 128)
    ... except BudgetExhausted as refusal:
    ...     print(str(refusal).split(" at ")[0])
    3 answers were asked for, 2 of 100 are left
    """

    answers: int = 100

    _answers_from_records = True

    def _learn(self, records: Records) -> Learned:
        epsilon, delta = checked_epsilon_delta(self.epsilon, self.delta)
        budget = InferenceBudget(
            self.answers,
            guarantee=guarantee_text(epsilon, delta),
            seed=self._randomness().noise,
        )
        noise = PredictionNoise.of(
            self._minimiser(*records.labelled(), len(records.classes)),
            epsilon,
            delta,
            answers=budget.answers,
            **self._chosen("adjacency", "analysis"),
        )
        model = _Answers(noise, budget)
        held = {"budget_": budget}
        return Learned(noise.profile, model, private=held, budget=budget)


class _Answers(NamedTuple):
    """Noisy logits, counted before they are computed."""

    noise: PredictionNoise
    budget: InferenceBudget

    def logits(self, X: Features) -> Floats:
        return self.noise.logits(X, self.budget.take(len(X)))


class PredictionNoise(NamedTuple):
    """Noise on the logits of one query, in units of the largest change that one
    record can make.
    """

    minimiser: Minimiser
    sensitivity: float
    how: dict[str, Any]  # arguments of noisy()
    fixed: bool
    profile: PrivacyProfile

    @classmethod
    def of(
        cls,
        minimiser: Minimiser,
        epsilon: float,
        delta: float,
        *,
        answers: int,
        adjacency: str,
        analysis: str,
    ) -> PredictionNoise:
        """Calibrate to a budget."""
        sensitivity = minimiser.sensitivity(adjacency=adjacency, analysis=analysis)
        published = analysis == "published"
        theorem = "Theorem 6" if delta else "Theorem 5"
        about = minimiser.about(theorem, analysis=analysis)
        one: PrivacyProfile
        if delta == 0:
            # pure guarantees add up
            how = {"rate": epsilon / answers}
            one = pure(epsilon / answers, adjacency=adjacency)
        else:
            sigma = prediction_sensitivity_sigma(
                epsilon, delta, answers=answers, analysis=analysis
            )
            how = {"sigma": sigma}
            one = gaussian(sigma=sigma, adjacency=adjacency)
            if published:
                about["remark"] += (
                    "; Inequality 50 of the proof points the wrong way, which the"
                    " composition theorem of Kairouz, Oh and Viswanath mends; exact"
                    " composition needs less noise"
                )
        profile = one.compose(answers).with_(**about)
        return cls(minimiser, sensitivity, how, published, profile)

    def logits(self, X: Features, generator: np.random.Generator | None) -> Floats:
        """Noisy logits of each query, shape [n, n_classes]; exact noise of the
        operating system for None.

        Each query is scaled by its own power of two, so its norm neither vanishes nor
        overflows. The sensitivity of the logits includes their rounding errors. A query
        of zeros has logits 0 for any records.
        """
        loss = self.minimiser
        rate = self.how.get("rate")
        # of the space of logits that gets noise, shape [n_classes, k]
        basis = loss.basis(float(rate is None), "published" if self.fixed else "tight")
        rows = loss.rows(X)
        asked = rows.any(axis=1)
        # a query of zeros has no length, and needs no noise
        rows = rows[asked]
        if self.fixed:
            # the paper's noise is that of the longest query, for all of them
            exponent = np.zeros(len(rows), dtype=np.int64)
            lengths = np.full(len(rows), np.hypot(loss.norm, float(loss.intercept)))
        else:
            # the largest entry comes to [1/2, 1), so the squares of a length are finite
            _, exponent = np.frexp(np.abs(rows).max(axis=1))
            rows = np.ldexp(rows, -exponent[:, None])
            lengths = np.linalg.norm(rows, axis=1)
        # of the logits, by which one record can move them; 2^-40 for its own rounding
        scales = (self.sensitivity + loss.rounding) * (1 + 2.0**-40) * lengths
        values = rows @ (basis.T @ loss.weights).T
        answers = noisy(values, generator, scales=scales, **self.how) @ basis.T
        if rate is not None and generator is None:
            # so that no lower digit tells of the logits without noise
            answers = rounded(answers, scales[:, None] / rate)
        logits = np.zeros((len(X), loss.n_classes))
        # noise of a query near the end of the range may go beyond it
        with np.errstate(over="ignore"):
            logits[asked] = np.nan_to_num(np.ldexp(answers, exponent[:, None]))
        return logits


class NoisyPredictions(NamedTuple):
    """Answers of :func:`noisy_predictions`.

    Attributes
    ----------
    labels : ndarray of int64, shape [n_repeats, n_queries]
        Class codes.
    profile : dpnotes.accounting.PrivacyProfile
        Guarantee of the whole budget, which is for ``answers`` answers, whatever the
        number of queries and repeats is here.
    """

    labels: Integers
    profile: PrivacyProfile


def noisy_predictions(
    minimiser: Minimiser,
    X: Features,
    epsilon: float,
    delta: float = 0.0,
    *,
    answers: int,
    adjacency: str = "replace-one",
    analysis: str = "tight",
    n_repeats: int = 1,
    seed: int,
) -> NoisyPredictions:
    """Answer all queries ``n_repeats`` times with the noise of a budget, without
    counting the answers.

    For experiments: the fraction of correct labels estimates the accuracy that
    :class:`PredictionSensitivity` has with a budget of ``answers`` answers, on more
    queries than it would answer. One fit serves all epsilons, budgets and repeats. Each
    repeat draws from a separate stream, so the first repeats do not depend on
    ``n_repeats``.

    Parameters
    ----------
    minimiser : Minimiser
        From :func:`fit_minimiser`.
    X : ndarray of float, shape [n_queries, d]
    epsilon, delta, answers, adjacency, analysis
        See :class:`PredictionSensitivity`.
    n_repeats, seed
        See :func:`noisy_minimisers`, which raises the same errors.

    Returns
    -------
    NoisyPredictions
        The ``labels``, and the ``profile`` of the whole budget, which is for
        ``answers`` answers.

    Examples
    --------
    >>> from dpnotes.methods import fit_minimiser
    >>> minimiser = fit_minimiser(
    ...     np.eye(3), np.arange(3), n_classes=3, l2=0.1, device="cpu"
    ... )
    >>> labels, profile = noisy_predictions(
    ...     minimiser, np.eye(3), 1.0, 1e-5, answers=10, n_repeats=20, seed=0
    ... )
    >>> labels.shape, round(profile.epsilon(1e-5), 6)
    ((20, 3), 1.0)
    """
    epsilon, delta = checked_epsilon_delta(epsilon, delta)
    # for experiments, no budget counts them
    answers = at_least_one("answers", answers)
    noise = PredictionNoise.of(
        minimiser,
        epsilon,
        delta,
        answers=answers,
        adjacency=adjacency,
        analysis=analysis,
    )
    if noise.fixed:
        # the published analysis has the same noise for all queries
        check_norms(X, minimiser.norm)
    labels = np.stack(
        [noise.logits(X, one).argmax(axis=1) for one in streams(seed, n_repeats)]
    )
    return NoisyPredictions(labels, noise.profile)
