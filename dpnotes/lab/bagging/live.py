"""Small experiments that the bagging chapter runs live, and the exact values beside them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from dpnotes import accounting
from dpnotes.lab.tables import Column, Table, columns

SCHEMES: dict[str, dict[str, Any]] = {
    "with_replacement": {},
    "independent": {"replace": False},
    "dealt_out": {"replace": False, "scheme": "split"},
}


def memorising_attack(*, n: int, subsample: int, n_models: int, trials: int) -> pd.DataFrame:
    """Test for membership by asking bagged nearest-neighbour classifiers for the label that one record alone has.

    Parameters
    ----------
    n : int
        Records, the last of which has a label of its own.
    subsample, n_models
        See :class:`dpnotes.methods.Bagging`.
    trials : int
        Trainings with the record, and as many without it.

    Returns
    -------
    DataFrame
        Columns rate, exact, simulated, low, high (Clopper-Pearson limits at 95 %), one row for each error rate.
    """
    from sklearn.neighbors import KNeighborsClassifier

    from dpnotes.methods import Bagging

    X, y = np.arange(float(n))[:, None], (np.arange(n) == n - 1).astype(int)

    def positives(rows: int) -> int:
        model = Bagging(subsample=subsample, n_models=n_models, estimator=KNeighborsClassifier(1), classes=[0, 1])
        fits = (model.set_params(noise_seed=seed).fit(X[:rows], y[:rows]) for seed in range(trials))
        return sum(bool(fit.predict_proba(X[-1:])[0, 1] > 0) for fit in fits)

    profile = accounting.bagging(n=n, subsample=subsample, n_models=n_models)
    cases = [("true positives", profile.advantage, positives(n)), ("false positives", 0.0, positives(n - 1))]
    lines = [(*case, accounting.clopper_pearson(case[2], trials)) for case in cases]
    return pd.DataFrame(
        [(rate, exact, count / trials, limits.low, limits.high) for rate, exact, count, limits in lines],
        columns=["rate", "exact", "simulated", "low", "high"],
    )


def many_models(*, n: int, drawn: int, n_models: tuple[int, ...]) -> pd.DataFrame:
    """Exact delta of N models on ``drawn / N`` records each, for the three schemes of drawing.

    Columns: n_models, subsample, with_replacement, independent, dealt_out.
    """
    table = pd.DataFrame({"n_models": n_models, "subsample": [drawn // count for count in n_models]})
    for name, scheme in SCHEMES.items():
        profiles = (accounting.bagging(n=n, subsample=drawn // count, n_models=count, **scheme) for count in n_models)
        table[name] = [profile.advantage for profile in profiles]
    return table


MEMORISING_ATTACK = Table(
    "Membership test against bagged nearest-neighbour classifiers.",
    ("rate", *columns("{:.4f}", "exact", "simulated", low="95 % from", high="to")),
)
MANY_MODELS = Table(
    "Exact delta of N models on k = 10,000/N records each, n = 60,000.",
    (
        Column("n_models", "N", format="{:,}"),
        Column("subsample", "k", format="{:,}"),
        *columns("{:.5f}", with_replacement="with replacement", independent="", dealt_out="dealt out"),
    ),
)
