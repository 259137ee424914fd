"""Privacy guarantees: profiles, calibration, composition and audits. This package needs
neither data nor torch.

A guarantee is a function, not a pair of numbers; :class:`PrivacyProfile` represents it.
Most constructors take only keyword arguments.
"""

from dpnotes.accounting import papers as papers
from dpnotes.accounting._audit import Interval as Interval
from dpnotes.accounting._audit import audit_delta as audit_delta
from dpnotes.accounting._audit import audit_epsilon as audit_epsilon
from dpnotes.accounting._audit import audit_mu as audit_mu
from dpnotes.accounting._audit import clopper_pearson as clopper_pearson
from dpnotes.accounting._audit import one_run_audit as one_run_audit
from dpnotes.accounting._audit import one_run_p_value as one_run_p_value
from dpnotes.accounting._basic import approximate as approximate
from dpnotes.accounting._basic import gaussian as gaussian
from dpnotes.accounting._basic import gaussian_of_advantage as gaussian_of_advantage
from dpnotes.accounting._basic import laplace as laplace
from dpnotes.accounting._basic import pure as pure
from dpnotes.accounting._basic import zcdp as zcdp
from dpnotes.accounting._calibrate import calibrate as calibrate
from dpnotes.accounting._calibrate import gaussian_sigma as gaussian_sigma
from dpnotes.accounting._curves import hockey_stick as hockey_stick
from dpnotes.accounting._descent import dp_sgd as dp_sgd
from dpnotes.accounting._descent import (
    dp_sgd_noise_multiplier as dp_sgd_noise_multiplier,
)
from dpnotes.accounting._descent import last_iterate as last_iterate
from dpnotes.accounting._descent import last_iterate_mu as last_iterate_mu
from dpnotes.accounting._descent import step_contraction as step_contraction
from dpnotes.accounting._describe import from_dict as from_dict
from dpnotes.accounting._minimisers import LogisticConstants as LogisticConstants
from dpnotes.accounting._minimisers import ObjectiveNoise as ObjectiveNoise
from dpnotes.accounting._minimisers import gradient_quantile as gradient_quantile
from dpnotes.accounting._minimisers import logistic_constants as logistic_constants
from dpnotes.accounting._minimisers import loss_perturbation as loss_perturbation
from dpnotes.accounting._minimisers import (
    minimiser_sensitivity as minimiser_sensitivity,
)
from dpnotes.accounting._minimisers import norm_noise_rate as norm_noise_rate
from dpnotes.accounting._minimisers import (
    objective_perturbation as objective_perturbation,
)
from dpnotes.accounting._minimisers import (
    prediction_sensitivity_sigma as prediction_sensitivity_sigma,
)
from dpnotes.accounting._profile import ADJACENCIES as ADJACENCIES
from dpnotes.accounting._profile import STATUSES as STATUSES
from dpnotes.accounting._profile import PrivacyProfile as PrivacyProfile
from dpnotes.accounting._profile import compose as compose
from dpnotes.accounting._sampling import bagging as bagging
from dpnotes.accounting._sampling import subsampled as subsampled
from dpnotes.accounting._statement import PrivacyStatement as PrivacyStatement
from dpnotes.accounting._statement import statement as statement
from dpnotes.accounting._votes import chunk_filter as chunk_filter
from dpnotes.accounting._votes import confident_gnmax as confident_gnmax
from dpnotes.accounting._votes import gnmax as gnmax
from dpnotes.accounting._votes import noisy_vote as noisy_vote
from dpnotes.accounting._votes import noisy_vote_answers as noisy_vote_answers
from dpnotes.accounting._votes import soft_vote as soft_vote
from dpnotes.accounting._votes import soft_vote_beta as soft_vote_beta
