from dpnotes import accounting as accounting
from dpnotes import data as data
from dpnotes import exercises as exercises
from dpnotes import lab as lab
from dpnotes import learners as learners
from dpnotes import mechanisms as mechanisms
from dpnotes import methods as methods
from dpnotes import preprocessing as preprocessing
from dpnotes.accounting import PrivacyProfile as PrivacyProfile
from dpnotes.methods import DPSGD as DPSGD
from dpnotes.methods import PATE as PATE
from dpnotes.methods import AugmentedSGD as AugmentedSGD
from dpnotes.methods import Bagging as Bagging
from dpnotes.methods import BudgetExhausted as BudgetExhausted
from dpnotes.methods import DPBag as DPBag
from dpnotes.methods import FilteredVote as FilteredVote
from dpnotes.methods import LossPerturbation as LossPerturbation
from dpnotes.methods import ModelSensitivity as ModelSensitivity
from dpnotes.methods import NoisySGD as NoisySGD
from dpnotes.methods import PredictionSensitivity as PredictionSensitivity
from dpnotes.methods import SubsampleAggregate as SubsampleAggregate
from dpnotes.methods import recommend as recommend

__version__: str
