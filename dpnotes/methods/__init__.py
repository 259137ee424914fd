"""Methods as scikit-learn estimators: a learner, a mechanism and the privacy profile
of the release.
"""

from dpnotes import _extras

_extras.require("learn", part="dpnotes.methods")

from dpnotes.methods._answers import BudgetExhausted as BudgetExhausted
from dpnotes.methods._answers import InferenceBudget as InferenceBudget
from dpnotes.methods._answers import secret_seed as secret_seed
from dpnotes.methods._bagging import Bagging as Bagging
from dpnotes.methods._class_means import ClassMeans as ClassMeans
from dpnotes.methods._dp_sgd import DPSGD as DPSGD
from dpnotes.methods._dpbag import DPBag as DPBag
from dpnotes.methods._filtered_vote import FilteredVote as FilteredVote
from dpnotes.methods._filtered_vote import VoteLedger as VoteLedger
from dpnotes.methods._linear import Minimiser as Minimiser
from dpnotes.methods._linear import fit_minimiser as fit_minimiser
from dpnotes.methods._linear import longest_row as longest_row
from dpnotes.methods._linear_estimators import LinearEstimator as LinearEstimator
from dpnotes.methods._linear_estimators import ModelSensitivity as ModelSensitivity
from dpnotes.methods._linear_estimators import Releases as Releases
from dpnotes.methods._linear_estimators import WeightRelease as WeightRelease
from dpnotes.methods._linear_estimators import noisy_minimisers as noisy_minimisers
from dpnotes.methods._loss_perturbation import LossPerturbation as LossPerturbation
from dpnotes.methods._noisy_boosting import NoisyBoosting as NoisyBoosting
from dpnotes.methods._pate import PATE as PATE
from dpnotes.methods._prediction_sensitivity import NoisyPredictions as NoisyPredictions
from dpnotes.methods._prediction_sensitivity import (
    PredictionSensitivity as PredictionSensitivity,
)
from dpnotes.methods._prediction_sensitivity import (
    noisy_predictions as noisy_predictions,
)
from dpnotes.methods._private import Learned as Learned
from dpnotes.methods._private import PrivateClassifier as PrivateClassifier
from dpnotes.methods._private import Records as Records
from dpnotes.methods._sgd import AugmentedSGD as AugmentedSGD
from dpnotes.methods._sgd import NoisySGD as NoisySGD
from dpnotes.methods._sgd import logistic_loss as logistic_loss
from dpnotes.methods._sgd import noisy_descents as noisy_descents
from dpnotes.methods._subsample_aggregate import (
    SubsampleAggregate as SubsampleAggregate,
)
from dpnotes.methods._subsample_aggregate import fit_shards as fit_shards
from dpnotes.methods._teachers import LogisticTeachers as LogisticTeachers
