"""What a guarantee is: privacy profiles, calibration, composition, audits. No data and no torch in here.

A guarantee is a function, not a pair of numbers: see :class:`PrivacyProfile`. The constructors take keywords only.
"""

from dpnotes.accounting._amplification import subsampled
from dpnotes.accounting._audit import (
    Interval,
    audit_delta,
    audit_epsilon,
    audit_mu,
    clopper_pearson,
    one_run_audit,
    one_run_p_value,
)
from dpnotes.accounting._bagging import bagging
from dpnotes.accounting._calibration import gaussian_sigma
from dpnotes.accounting._constructors import approximate, gaussian, gaussian_of_advantage, pure
from dpnotes.accounting._dp_sgd import dp_sgd, dp_sgd_noise_multiplier
from dpnotes.accounting._enumeration import Outcome, hockey_stick, sample_law
from dpnotes.accounting._gnmax import chunk_filter, confident_gnmax, gnmax
from dpnotes.accounting._intrinsic_sgd import augmenting_sigma, intrinsic_epsilon, intrinsic_sgd, sgd_sensitivity
from dpnotes.accounting._laplace import laplace, laplace_rdp, zcdp
from dpnotes.accounting._last_iterate import last_iterate, last_iterate_mu, step_contraction
from dpnotes.accounting._loss_distribution import compose
from dpnotes.accounting._noisy_vote import (
    noisy_vote,
    noisy_vote_answers,
    noisy_vote_exact_delta,
    noisy_vote_pure_level,
)
from dpnotes.accounting._personalised_vote import (
    personalised_answers,
    personalised_counterexample,
    personalised_moments,
    personalised_pate_moments,
)
from dpnotes.accounting._profile import ADJACENCIES, STATUSES, PrivacyProfile
from dpnotes.accounting._sensitivity import (
    LogisticConstants,
    ObjectiveNoise,
    gradient_quantile,
    logistic_constants,
    minimiser_sensitivity,
    norm_noise_rate,
    objective_perturbation,
    prediction_sensitivity_sigma,
)
from dpnotes.accounting._soft_vote import (
    bounded_range_delta,
    soft_vote,
    soft_vote_beta,
    soft_vote_exact_delta,
    soft_vote_pure_level,
)

__all__ = [
    "ADJACENCIES",
    "STATUSES",
    "Interval",
    "LogisticConstants",
    "ObjectiveNoise",
    "Outcome",
    "PrivacyProfile",
    "approximate",
    "audit_delta",
    "audit_epsilon",
    "audit_mu",
    "augmenting_sigma",
    "bagging",
    "bounded_range_delta",
    "chunk_filter",
    "clopper_pearson",
    "compose",
    "confident_gnmax",
    "dp_sgd",
    "dp_sgd_noise_multiplier",
    "gaussian",
    "gaussian_of_advantage",
    "gaussian_sigma",
    "gnmax",
    "gradient_quantile",
    "hockey_stick",
    "intrinsic_epsilon",
    "intrinsic_sgd",
    "laplace",
    "laplace_rdp",
    "last_iterate",
    "last_iterate_mu",
    "logistic_constants",
    "minimiser_sensitivity",
    "noisy_vote",
    "noisy_vote_answers",
    "noisy_vote_exact_delta",
    "noisy_vote_pure_level",
    "norm_noise_rate",
    "objective_perturbation",
    "one_run_audit",
    "one_run_p_value",
    "personalised_answers",
    "personalised_counterexample",
    "personalised_moments",
    "personalised_pate_moments",
    "prediction_sensitivity_sigma",
    "pure",
    "sample_law",
    "sgd_sensitivity",
    "soft_vote",
    "soft_vote_beta",
    "soft_vote_exact_delta",
    "soft_vote_pure_level",
    "step_contraction",
    "subsampled",
    "zcdp",
]
