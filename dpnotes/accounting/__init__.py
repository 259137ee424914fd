"""Privacy guarantees: profiles, calibration, composition and audits. This package needs
neither data nor torch.

A guarantee is a function, not a pair of numbers; :class:`PrivacyProfile` represents it.
Most constructors take only keyword arguments.
"""

from dpnotes.accounting import papers as papers
from dpnotes.accounting._audit import (
    Interval as Interval,
    audit_delta as audit_delta,
    audit_epsilon as audit_epsilon,
    audit_mu as audit_mu,
    clopper_pearson as clopper_pearson,
    one_run_audit as one_run_audit,
    one_run_p_value as one_run_p_value,
)
from dpnotes.accounting._basic import (
    approximate as approximate,
    gaussian as gaussian,
    gaussian_of_advantage as gaussian_of_advantage,
    laplace as laplace,
    pure as pure,
    zcdp as zcdp,
)
from dpnotes.accounting._calibrate import (
    calibrate as calibrate,
    gaussian_sigma as gaussian_sigma,
)
from dpnotes.accounting._curves import hockey_stick as hockey_stick
from dpnotes.accounting._descent import (
    dp_sgd as dp_sgd,
    dp_sgd_noise_multiplier as dp_sgd_noise_multiplier,
    last_iterate as last_iterate,
    last_iterate_mu as last_iterate_mu,
    step_contraction as step_contraction,
)
from dpnotes.accounting._describe import from_dict as from_dict
from dpnotes.accounting._minimisers import (
    LogisticConstants as LogisticConstants,
    ObjectiveNoise as ObjectiveNoise,
    gradient_quantile as gradient_quantile,
    logistic_constants as logistic_constants,
    loss_perturbation as loss_perturbation,
    minimiser_sensitivity as minimiser_sensitivity,
    norm_noise_rate as norm_noise_rate,
    objective_perturbation as objective_perturbation,
    prediction_sensitivity_sigma as prediction_sensitivity_sigma,
)
from dpnotes.accounting._profile import (
    ADJACENCIES as ADJACENCIES,
    STATUSES as STATUSES,
    PrivacyProfile as PrivacyProfile,
    compose as compose,
)
from dpnotes.accounting._sampling import bagging as bagging, subsampled as subsampled
from dpnotes.accounting._statement import (
    PrivacyStatement as PrivacyStatement,
    statement as statement,
)
from dpnotes.accounting._votes import (
    chunk_filter as chunk_filter,
    confident_gnmax as confident_gnmax,
    gnmax as gnmax,
    noisy_vote as noisy_vote,
    noisy_vote_answers as noisy_vote_answers,
    soft_vote as soft_vote,
    soft_vote_beta as soft_vote_beta,
)
