"""Small live computations of the private-prediction chapter: noise by number of answers, an attack on the soft vote."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from dpnotes import accounting
from dpnotes.mechanisms import soft_vote


def noise_by_answers(budgets: Sequence[int], *, epsilon: float, delta: float) -> pd.DataFrame:
    """Gaussian noise on a logit in units of the shift that one record makes, and the lead that votes need.

    Returns
    -------
    DataFrame
        Columns answers, model (noise on the weights), exact and published (noise on each answer), ratio (published over
        exact), lead and published lead (votes that the right class must be ahead of one other to win 95 %).
    """
    odds = math.log(0.95 / 0.05)
    return pd.DataFrame(
        [
            {
                "answers": answers,
                "model": accounting.gaussian_sigma(epsilon, delta),
                "exact": accounting.prediction_sensitivity_sigma(epsilon, delta, answers=answers),
                "published": accounting.prediction_sensitivity_sigma(
                    epsilon, delta, answers=answers, analysis="published"
                ),
                "lead": odds / accounting.soft_vote_beta(epsilon, delta, answers=answers),
                "published lead": odds
                / accounting.soft_vote_beta(epsilon, delta, answers=answers, analysis="published"),
            }
            for answers in budgets
        ]
    ).assign(ratio=lambda table: table["published"] / table["exact"])


def volume_regularisers(classes: Sequence[int], *, epsilon: float) -> pd.DataFrame:
    """Rho of loss perturbation, published and by rank and trace of the Hessian: columns C, published, tight, ratio."""
    table = pd.DataFrame(
        [
            {
                "C": C,
                **{a: accounting.objective_perturbation(epsilon, n_classes=C, analysis=a).regulariser for a in kinds},
            }
            for kinds in [("published", "tight")]
            for C in classes
        ]
    )
    return table.assign(ratio=table["published"] / table["tight"])


def vote_attack(*, epsilon: float, n_models: int, trials: int, seed: int) -> pd.DataFrame:
    """Test for membership by one answer of the soft vote, where one record turns the last of unanimous votes.

    Parameters
    ----------
    epsilon : float
        Claimed for the answer, with delta = 0.
    n_models : int
    trials : int
        Answers with the record, and as many without it.
    seed : int

    Returns
    -------
    DataFrame
        One row for each analysis: analysis, beta, claimed, exact (pure epsilon of these votes), audited (lower
        confidence bound at 99.9 %), caught (whether it exceeds the claim).
    """
    present, absent = np.array([[n_models - 1, 1]]), np.array([[n_models, 0]])
    rows = []
    for analysis in ("published", "tight"):
        beta = accounting.soft_vote_beta(epsilon, 0.0, answers=1, analysis=analysis)
        hits = [
            int(soft_vote(votes, beta=beta, seed=seed + i, n_repeats=trials).sum())
            for i, votes in enumerate((present, absent))
        ]
        bound = accounting.audit_epsilon(
            true_positives=hits[0],
            positives=trials,
            false_positives=hits[1],
            negatives=trials,
            delta=0.0,
            confidence=0.999,
        )
        exact = accounting.soft_vote_pure_level(beta=beta, n_models=n_models, n_classes=2)
        rows.append({"analysis": analysis, "beta": beta, "claimed": epsilon, "exact": exact, "audited": bound})
    return pd.DataFrame(rows).assign(caught=lambda table: np.where(table["audited"] > table["claimed"], "yes", "no"))
