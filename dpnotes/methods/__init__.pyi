from ._answers import (
    BudgetExhausted as BudgetExhausted,
    InferenceBudget as InferenceBudget,
    secret_seed as secret_seed,
)
from ._bagging import Bagging as Bagging
from ._class_means import ClassMeans as ClassMeans
from ._dp_sgd import DPSGD as DPSGD
from ._dpbag import DPBag as DPBag
from ._filtered_vote import FilteredVote as FilteredVote, VoteLedger as VoteLedger
from ._linear import (
    Minimiser as Minimiser,
    fit_minimiser as fit_minimiser,
    longest_row as longest_row,
)
from ._linear_estimators import (
    LinearEstimator as LinearEstimator,
    ModelSensitivity as ModelSensitivity,
    Releases as Releases,
    WeightRelease as WeightRelease,
    noisy_minimisers as noisy_minimisers,
)
from ._logistic_loss import logistic_loss as logistic_loss
from ._loss_perturbation import LossPerturbation as LossPerturbation
from ._noisy_boosting import NoisyBoosting as NoisyBoosting
from ._pate import PATE as PATE
from ._prediction_sensitivity import (
    NoisyPredictions as NoisyPredictions,
    PredictionSensitivity as PredictionSensitivity,
    noisy_predictions as noisy_predictions,
)
from ._private import (
    Learned as Learned,
    PrivateClassifier as PrivateClassifier,
    Records as Records,
)
from ._sgd import (
    AugmentedSGD as AugmentedSGD,
    NoisySGD as NoisySGD,
    noisy_descents as noisy_descents,
)
from ._subsample_aggregate import (
    SubsampleAggregate as SubsampleAggregate,
    fit_shards as fit_shards,
)
from ._teachers import LogisticTeachers as LogisticTeachers
