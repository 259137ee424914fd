"""Methods as scikit-learn estimators: a learner, a mechanism and the privacy profile of what is released."""

from dpnotes.methods._bagging import Bagging
from dpnotes.methods._budget import BudgetExhausted, InferenceBudget
from dpnotes.methods._dp_sgd import DPSGD
from dpnotes.methods._dpbag import DPBag
from dpnotes.methods._filtered_vote import FilteredVote, VoteLedger
from dpnotes.methods._pate import PATE

__all__ = [
    "DPSGD",
    "PATE",
    "Bagging",
    "BudgetExhausted",
    "DPBag",
    "FilteredVote",
    "InferenceBudget",
    "VoteLedger",
]
