"""The optimizers of networks, as PyTorch has them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch

from dpnotes import _validation as check

OPTIMIZERS = ("adam", "momentum", "sgd")


@dataclass(frozen=True)
class Optimizer:
    """Adam, or stochastic gradient descent with or without momentum; other settings are PyTorch's.

    Parameters
    ----------
    kind : {"adam", "momentum", "sgd"}
    momentum : float in [0, 1)
        Of the kind ``"momentum"``.
    weight_decay : float, >= 0
        Multiple of the weights that is added to the gradient.
    """

    kind: str
    momentum: float = 0.9
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        check.one_of("optimizer", self.kind, OPTIMIZERS)
        check_momentum(self.momentum)
        check.real("weight_decay", self.weight_decay)

    def over(self, parameters: Iterable[Any]) -> torch.optim.Optimizer:
        """Optimizer of parameters, or of groups of them; the caller sets the learning rate of each step.

        Fused, it works entry by entry, so that models stacked in one tensor stay apart.
        """
        if self.kind == "adam":
            return torch.optim.Adam(parameters, weight_decay=self.weight_decay, fused=True)
        momentum = self.momentum if self.kind == "momentum" else 0.0
        return torch.optim.SGD(parameters, lr=1.0, momentum=momentum, weight_decay=self.weight_decay, fused=True)


def check_momentum(momentum: float) -> None:
    """Refuse a momentum outside [0, 1), with which the steps would not decay."""
    if not 0 <= momentum < 1:
        raise ValueError(f"momentum must be in [0, 1), got momentum={momentum}")
