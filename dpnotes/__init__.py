"""Differential privacy in machine learning: methods, their exact guarantees, and many models trained at once.

The estimators are here (``dpnotes.Bagging``); guarantees are in :mod:`dpnotes.accounting`, data sets in
:mod:`dpnotes.data`, learners in :mod:`dpnotes.learners`. Importing the package is cheap: a part is imported when used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

__version__ = "0.1.0"
_METHODS = (
    "DPSGD",
    "PATE",
    "AugmentedSGD",
    "Bagging",
    "BudgetExhausted",
    "DPBag",
    "FilteredVote",
    "NoisySGD",
    "LossPerturbation",
    "ModelSensitivity",
    "PredictionSensitivity",
    "SubsampleAggregate",
    "recommend",
)
__all__ = [
    "DPSGD",
    "PATE",
    "AugmentedSGD",
    "Bagging",
    "BudgetExhausted",
    "DPBag",
    "FilteredVote",
    "LossPerturbation",
    "ModelSensitivity",
    "NoisySGD",
    "PredictionSensitivity",
    "PrivacyProfile",
    "SubsampleAggregate",
    "__version__",
    "recommend",
]

_HOMES = {**dict.fromkeys(_METHODS, "dpnotes.methods"), "PrivacyProfile": "dpnotes.accounting"}
_PARTS = ("accounting", "data", "lab", "learners", "mechanisms", "methods")


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name in _PARTS:
        return import_module(f"dpnotes.{name}")
    raise AttributeError(f"module 'dpnotes' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES, *_PARTS])
