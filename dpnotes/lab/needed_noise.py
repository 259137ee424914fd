"""The noise that each method of private prediction needs for a setting, and which
methods are dominated.
"""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from dpnotes import accounting

ADJACENCY = "add-remove"
CERTAIN = 0.95  # chance of the class of most votes that the needed lead is stated for
# DP-SGD's, ten expected passes
SAMPLE_RATE = 0.01
STEPS = 1000


def recommend(
    *,
    n: int,
    n_classes: int,
    epsilon: float,
    delta: float,
    answers: int,
    l2: float = 1e-3,
    n_models: int = 256,
) -> pd.DataFrame:
    """Compare the methods of private prediction for a setting of one's own, one record
    more or less for all of them.

    Nothing is trained. The noise is exact, given that rows lie in the unit ball and
    have no bias appended; which method is the most accurate depends on the data too.

    Parameters
    ----------
    n : int, >= 1
        Training records.
    n_classes : int, >= 2
    epsilon : float, > 0
    delta : float, in (0, 1)
    answers : int, >= 1
        Queries that will be answered.
    l2 : float, > 0
        Regulariser of the linear models; the noise of the sensitivity methods is
        inverse to it.
    n_models : int, >= 1
        Models that subsample-and-aggregate trains.

    Returns
    -------
    DataFrame
        One row for each method: method, releases ("model" or "answers"), what (which
        number noise is), noise, verdict ("", or by what it is dominated or why it is
        useless).

    Source
    ------
    The chapter on private prediction; van der Maaten and Hannun (2020), Section 5.

    Examples
    --------
    >>> setting = {"n": 60_000, "n_classes": 10, "epsilon": 1.0, "delta": 1e-5}
    >>> recommend(**setting, answers=100).set_index("method")["verdict"].to_dict()
    {'model_sensitivity': '', 'loss_perturbation': '', 'dp_sgd': '', 'prediction_sensitivity': 'dominated by model_sensitivity', 'subsample_aggregate': ''}
    """
    # of rows in the unit ball, without a bias
    lipschitz = accounting.logistic_constants(
        n_classes=n_classes, norm=1.0, bias=False
    ).lipschitz
    shift = accounting.minimiser_sensitivity(
        lipschitz=lipschitz, n=n, regulariser=l2, adjacency=ADJACENCY, objective="sum"
    )
    # a query of norm 1 sees the noise of one direction
    by_model = shift * float(accounting.gaussian_sigma(epsilon, delta))
    # never less, and it answers no other query
    by_answers = shift * accounting.prediction_sensitivity_sigma(
        epsilon, delta, answers=answers
    )
    loss: Any = accounting.objective_perturbation(
        epsilon, delta, n_classes=n_classes, regulariser=n * l2, adjacency=ADJACENCY
    )
    # there cannot be more noise than where the Hessian of the loss is that of the
    # regulariser alone
    by_loss = loss.sigma / (n * l2 + loss.regulariser)
    multiplier = accounting.dp_sgd_noise_multiplier(
        epsilon, delta, sample_rate=SAMPLE_RATE, steps=STEPS
    )
    beta = accounting.soft_vote_beta(epsilon, delta, answers=answers)
    # odds of the soft vote against all other classes
    lead = math.log((n_classes - 1) * CERTAIN / (1 - CERTAIN)) / beta
    useless = ""
    if lead > n_models:
        useless = f"useless: the lead exceeds the {n_models} votes"
    on_logit = "standard deviation on a logit of a query of norm 1"
    in_steps = f"noise multiplier, sample rate {SAMPLE_RATE:g}, {STEPS} steps"
    in_votes = f"lead in votes that is answered correctly {CERTAIN:.0%} of the time"
    dominated = "dominated by model_sensitivity"
    rows = [
        ("model_sensitivity", "model", on_logit, by_model, ""),
        ("loss_perturbation", "model", f"at most this {on_logit}", by_loss, ""),
        ("dp_sgd", "model", in_steps, multiplier, ""),
        ("prediction_sensitivity", "answers", on_logit, by_answers, dominated),
        ("subsample_aggregate", "answers", in_votes, lead, useless),
    ]
    return pd.DataFrame(
        rows, columns=["method", "releases", "what", "noise", "verdict"]
    )
