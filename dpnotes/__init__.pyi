from . import (
    accounting as accounting,
    auditing as auditing,
    comparing as comparing,
    data as data,
    exercises as exercises,
    lab as lab,
    learners as learners,
    mechanisms as mechanisms,
    methods as methods,
    preprocessing as preprocessing,
)
from .accounting import PrivacyProfile as PrivacyProfile
from .auditing import AuditReport as AuditReport, audit as audit
from .comparing import compare as compare
from .methods import (
    DPSGD as DPSGD,
    PATE as PATE,
    AugmentedSGD as AugmentedSGD,
    Bagging as Bagging,
    BudgetExhausted as BudgetExhausted,
    ClassMeans as ClassMeans,
    DPBag as DPBag,
    FilteredVote as FilteredVote,
    LossPerturbation as LossPerturbation,
    ModelSensitivity as ModelSensitivity,
    NoisyBoosting as NoisyBoosting,
    NoisySGD as NoisySGD,
    PredictionSensitivity as PredictionSensitivity,
    SubsampleAggregate as SubsampleAggregate,
)

__version__: str
