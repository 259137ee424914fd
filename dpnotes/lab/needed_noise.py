"""The noise that each method needs for a setting, which methods are dominated, and
what was measured nearby.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from dpnotes import accounting
from dpnotes._validation import at_least_one, positive, real

ADJACENCY = "add-remove"
CERTAIN = 0.95  # chance of the class of most votes that the needed lead is stated for
# DP-SGD's, ten expected passes
SAMPLE_RATE = 0.01
STEPS = 1000
# per factor of e
MATTERS = {
    "n": 1.0,
    "d": 0.5,
    "n_classes": 0.5,
    "epsilon": 3.0,
    "delta": 0.2,
    "answers": 1.0,
}


class Recommendation(NamedTuple):
    """What :func:`recommend` found.

    Attributes
    ----------
    table : pandas.DataFrame
        One row for each method that can be used: method, releases ("model" or
        "answers"), what (which number noise is), noise, verdict ("", or by what it is
        dominated or why it is useless).
    caveats : tuple of str
    measured : pandas.DataFrame or None
        The nearest measured setting, methods by falling accuracy; None if no
        measurements were given.
    """

    table: pd.DataFrame
    caveats: tuple[str, ...]
    measured: pd.DataFrame | None

    @property
    def candidates(self) -> list[str]:
        """Methods that are not ruled out."""
        return list(self.table.loc[self.table["verdict"] == "", "method"])


def recommend(
    *,
    n: int,
    d: int,
    n_classes: int,
    epsilon: float,
    delta: float = 0.0,
    answers: int,
    l2: float = 1e-3,
    n_models: int = 256,
    measured: pd.DataFrame | None = None,
) -> Recommendation:
    """Compare the methods of private prediction for a setting of one's own, one record
    more or less for all of them.

    Nothing is trained. The noise is exact, given that rows lie in the unit ball and
    have no bias appended; which method is the most accurate depends on the data too,
    and is read off measurements, if they are given.

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
    n_models : int, >= 1
        Models that subsample-and-aggregate trains.
    measured : DataFrame, optional
        Measured accuracies: columns method, n, d, n_classes, epsilon, delta, answers
        (empty: any number), accuracy.

    Returns
    -------
    Recommendation

    Raises
    ------
    ValueError
        If a number is outside its range, n_models exceeds n, or a column is missing
        from ``measured``.
    TypeError
        If a number is of the wrong kind.

    Source
    ------
    The chapter on private prediction; van der Maaten and Hannun (2020), Section 5.

    Examples
    --------
    >>> found = recommend(
    ...     n=60_000, d=784, n_classes=10, epsilon=1.0, delta=1e-5, answers=100
    ... )
    >>> found.candidates
    ['model_sensitivity', 'loss_perturbation', 'dp_sgd', 'subsample_aggregate']
    >>> found.table.set_index("method").loc["prediction_sensitivity", "verdict"]
    'dominated by model_sensitivity'
    """
    epsilon = positive("epsilon", epsilon)
    delta = real("delta", delta, high=1.0, below="nothing is hidden")
    n = at_least_one("n", n)
    d = at_least_one("d", d)
    answers = at_least_one("answers", answers)
    l2 = positive("l2", l2)
    n_models = at_least_one("n_models", n_models)
    if n_models > n:
        raise ValueError(f"n_models must be at most n={n}, got n_models={n_models}")
    # of rows in the unit ball, without a bias
    lipschitz = accounting.logistic_constants(
        n_classes=n_classes, norm=1.0, bias=False
    ).lipschitz
    shift = accounting.minimiser_sensitivity(
        lipschitz=lipschitz, n=n, regulariser=l2, adjacency=ADJACENCY, objective="sum"
    )
    if delta > 0:
        # a query of norm 1 sees the noise of one direction
        by_model = shift * float(accounting.gaussian_sigma(epsilon, delta))
        by_answers = shift * accounting.prediction_sensitivity_sigma(
            epsilon, delta, answers=answers
        )
    else:
        # of a logit's axis, in the directions that sum to 0
        along = math.sqrt(1 - 1 / n_classes)
        by_model = shift / epsilon * along * math.sqrt((n_classes - 1) * d + 1)
        by_answers = shift / epsilon * along * answers * math.sqrt(n_classes)
    # of equals, too: it answers any number of queries
    verdicts = ["", "dominated by model_sensitivity"]
    if by_answers < by_model:
        verdicts = ["dominated by prediction_sensitivity", ""]
    # there cannot be more noise than where the Hessian of the loss is that of the
    # regulariser alone
    loss: Any = accounting.objective_perturbation(
        epsilon, delta, n_classes=n_classes, regulariser=n * l2, adjacency=ADJACENCY
    )
    # a row for each class, of two classes one
    scale = (
        loss.sigma
        if loss.rate is None
        else math.sqrt(d + 1) / (loss.rate * (2 if n_classes == 2 else 1))
    )
    by_loss = scale / (n * l2 + loss.regulariser)
    beta = accounting.soft_vote_beta(epsilon, delta, answers=answers)
    # odds of the soft vote against all other classes
    lead = math.log((n_classes - 1) * CERTAIN / (1 - CERTAIN)) / beta
    useless = (
        "" if lead <= n_models else f"useless: the lead exceeds the {n_models} votes"
    )
    in_votes = f"lead in votes that is answered correctly {CERTAIN:.0%} of the time"
    on_logit = "standard deviation on a logit of a query of norm 1"
    rows = [
        ("model_sensitivity", "model", on_logit, by_model, verdicts[0]),
        ("loss_perturbation", "model", f"at most this {on_logit}", by_loss, ""),
        ("prediction_sensitivity", "answers", on_logit, by_answers, verdicts[1]),
        ("subsample_aggregate", "answers", in_votes, lead, useless),
    ]
    if delta > 0:
        multiplier = accounting.dp_sgd_noise_multiplier(
            epsilon, delta, sample_rate=SAMPLE_RATE, steps=STEPS
        )
        what = f"noise multiplier, sample rate {SAMPLE_RATE:g}, {STEPS} steps"
        rows.insert(2, ("dp_sgd", "model", what, multiplier, ""))
    table = pd.DataFrame(
        rows, columns=["method", "releases", "what", "noise", "verdict"]
    )
    # ten records for each class of a shard: a rule of thumb
    few = n // n_models < 10 * n_classes
    caveats = {
        "Settings (l2, clipping norm, rate) chosen by looking at the records cost privacy that is not counted.": (
            True
        ),
        "What releases a model answers any number of queries; what releases answers stops after its budget.": (
            True
        ),
        "DP-SGD gives no pure guarantee; a delta far below 1/n makes it available.": (
            delta == 0
        ),
        f"delta={delta:g} is not below 1/n: it would allow a record to be published whole.": (
            delta * n >= 1
        ),
        f"A shard has {n // n_models} records for {n_classes} classes: votes will be poor.": (
            few
        ),
        "Rows must lie in the unit ball by a rule that does not look at the data.": (
            True
        ),
        f"Few votes survive {answers:,} answers; methods that release a model pay once.": (
            answers > 1000
        ),
    }
    asked = {
        "n": n,
        "d": d,
        "n_classes": n_classes,
        "epsilon": epsilon,
        "delta": delta,
        "answers": answers,
    }
    nearest = (
        None if measured is None else _nearest(measured, asked, list(table["method"]))
    )
    return Recommendation(
        table, tuple(text for text, holds in caveats.items() if holds), nearest
    )


def _nearest(
    measured: pd.DataFrame, setting: Mapping[str, float], methods: list[str]
) -> pd.DataFrame:
    """Accuracies of the methods, each in the measured setting that is nearest to the
    one asked for.
    """
    missing = {*MATTERS, "method", "accuracy"} - set(measured.columns)
    if missing:
        raise ValueError(f"measured must have the columns {', '.join(sorted(missing))}")
    rows = measured.dropna(subset=["accuracy"])
    rows = rows[
        rows["method"].isin(methods) & ((rows["delta"] > 0) == (setting["delta"] > 0))
    ]
    away = np.zeros(len(rows))
    # distances are in factors, weighed by what they matter
    for name, asked in setting.items():
        values = rows[name].astype(float).fillna(asked)  # no number of answers: any
        if asked > 0:
            away += MATTERS[name] * np.abs(np.log(values / asked))
    order = rows.assign(distance=away).sort_values("distance", kind="stable")
    best = (
        order.groupby("method", sort=False)
        .head(1)
        .sort_values("accuracy", ascending=False)
    )
    return best[["method", "accuracy", *MATTERS]].reset_index(drop=True)
