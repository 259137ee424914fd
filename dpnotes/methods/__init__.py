"""Methods as scikit-learn estimators: a learner, a mechanism and the privacy profile of what is released."""

from dpnotes.methods._augmented_sgd import AugmentedSGD
from dpnotes.methods._bagging import Bagging
from dpnotes.methods._budget import BudgetExhausted, InferenceBudget
from dpnotes.methods._dp_sgd import DPSGD
from dpnotes.methods._dpbag import DPBag
from dpnotes.methods._filtered_vote import FilteredVote, VoteLedger
from dpnotes.methods._intrinsic_noise import IntrinsicNoise, estimate_intrinsic_noise, neighbour_runs
from dpnotes.methods._loss_perturbation import LossPerturbation
from dpnotes.methods._model_sensitivity import ModelSensitivity
from dpnotes.methods._noisy_sgd import NoisySGD, noisy_descents
from dpnotes.methods._pate import PATE
from dpnotes.methods._prediction_sensitivity import PredictionSensitivity
from dpnotes.methods._recommend import Recommendation, recommend
from dpnotes.methods._sgd_release import logistic_loss, longest_row
from dpnotes.methods._subsample_aggregate import SubsampleAggregate

__all__ = [
    "DPSGD",
    "PATE",
    "AugmentedSGD",
    "Bagging",
    "BudgetExhausted",
    "DPBag",
    "FilteredVote",
    "InferenceBudget",
    "IntrinsicNoise",
    "LossPerturbation",
    "ModelSensitivity",
    "NoisySGD",
    "PredictionSensitivity",
    "Recommendation",
    "SubsampleAggregate",
    "VoteLedger",
    "estimate_intrinsic_noise",
    "logistic_loss",
    "longest_row",
    "neighbour_runs",
    "noisy_descents",
    "recommend",
]
