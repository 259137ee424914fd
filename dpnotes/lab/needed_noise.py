"""The noise that each method of private prediction needs on data of a given size, and
the lead that its votes need.
"""

from __future__ import annotations

import math
from typing import Any

from dpnotes import accounting

ADJACENCY = "add-remove"
CERTAIN = 0.95  # chance of the class of most votes that the needed lead is stated for


def on_logits(
    *,
    n: int,
    d: int,
    n_classes: int,
    epsilon: float,
    delta: float,
    answers: int,
    l2: float = 1e-3,
) -> dict[str, float]:
    """Find the standard deviation of the noise on a logit of a query of norm 1, by the
    method; of loss perturbation, the most that it can be.

    Nothing is trained. The noise is exact, given that rows lie in the unit ball and
    have no bias appended; which method is the most accurate depends on the data too.

    Parameters
    ----------
    n : int, >= 1
        Training records.
    d : int, >= 1
        Features.
    n_classes : int, >= 2
    epsilon : float, > 0
    delta : float, in [0, 1)
    answers : int, >= 1
        Queries that will be answered.
    l2 : float, > 0
        Regulariser of the linear models; the noise of the sensitivity methods is
        inverse to it.

    Returns
    -------
    dict of str to float

    Source
    ------
    The chapter on private prediction; van der Maaten and Hannun (2020), Section 5.

    Examples
    --------
    >>> setting = {"n": 60_000, "d": 784, "n_classes": 10, "epsilon": 1.0}
    >>> for delta in (0.0, 1e-5):
    ...     noise = on_logits(**setting, delta=delta, answers=100)
    ...     print({method: round(value, 2) for method, value in noise.items()})
    {'model_sensitivity': 1.88, 'loss_perturbation': 0.95, 'prediction_sensitivity': 7.07}
    {'model_sensitivity': 0.09, 'loss_perturbation': 0.1, 'prediction_sensitivity': 0.88}
    """
    # of rows in the unit ball, without a bias
    lipschitz = accounting.logistic_constants(
        n_classes=n_classes, norm=1.0, bias=False
    ).lipschitz
    shift = accounting.minimiser_sensitivity(
        lipschitz=lipschitz, n=n, regulariser=l2, adjacency=ADJACENCY, objective="sum"
    )
    loss: Any = accounting.objective_perturbation(
        epsilon, delta, n_classes=n_classes, regulariser=n * l2, adjacency=ADJACENCY
    )
    if delta > 0:
        # a query of norm 1 sees the noise of one direction
        by_model = shift * float(accounting.gaussian_sigma(epsilon, delta))
        by_answers = shift * accounting.prediction_sensitivity_sigma(
            epsilon, delta, answers=answers
        )
        in_loss = loss.sigma
    else:
        # of a logit's axis, in the directions that sum to 0
        along = math.sqrt(1 - 1 / n_classes)
        by_model = shift / epsilon * along * math.sqrt((n_classes - 1) * d + 1)
        by_answers = shift / epsilon * along * answers * math.sqrt(n_classes)
        # a row for each class, of two classes one
        in_loss = math.sqrt(d + 1) / (loss.rate * (2 if n_classes == 2 else 1))
    return {
        "model_sensitivity": by_model,
        # there cannot be more noise than where the Hessian of the loss is that of the
        # regulariser alone
        "loss_perturbation": in_loss / (n * l2 + loss.regulariser),
        "prediction_sensitivity": by_answers,
    }


def sure_lead(n_classes: int, epsilon: float, delta: float, *, answers: int) -> float:
    """Find the lead in votes with which a class wins a soft vote in 95 % of cases."""
    beta = accounting.soft_vote_beta(epsilon, delta, answers=answers)
    # odds of the soft vote against all other classes
    return math.log((n_classes - 1) * CERTAIN / (1 - CERTAIN)) / beta
