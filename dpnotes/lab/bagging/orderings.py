"""The ordering claims of the bagging paper, one by one, against our rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from dpnotes.lab.tables import Column, Table

CONFIDENCE = 0.95  # of the one-sided limits in claims that nothing changes
MARGIN = 0.01  # "negligible impact" in Figure 2: less than one percentage point, fixed before the ten seeds were run
STATEMENTS = {
    "2a_above_dp_sgd": "Table 2a: bagging is above DP-SGD with the paper's noise",
    "2a_grows": "Table 2a: accuracy grows with k",
    "3a_above_dp_sgd": "Table 3a: bagging is above DP-SGD with the paper's noise",
    "3a_above_pate": "Table 3a: bagging is above PATE",
    "3a_above_logistic": "the same, PATE with logistic teachers",
    "figure1_falls": "Figure 1: accuracy falls with N at fixed N k",
    "2b_above_dp_sgd": "Table 2b: bagging is above DP-SGD with the paper's noise",
    "2b_grows": "Table 2b: accuracy grows with k",
    "3b_above_dp_sgd": "Table 3b: bagging is above DP-SGD with the paper's noise",
    "3b_above_pate": "Table 3b: bagging is above PATE",
    "cifar10_public_helps": "CIFAR-10: the public model helps bagging",
    "reduced_above_dp_sgd": "CIFAR-10, reduced: bagging is above DP-SGD with the paper's noise",
    "reduced_above_least": "the same, DP-SGD with the least noise",
    "reduced_public_helps": "CIFAR-10, reduced: the public model helps bagging",
    "mnist_public_is_no_gain": "MNIST: the public model does not help bagging",
    "figure2_equal": "Figure 2: with or without replacement, less than 1 point apart",
}


class Verdict(NamedTuple):
    """What became of one claim.

    Parameters
    ----------
    compared : int
        Pairs both sides of which were run.
    ours : float
        The least gap, in percentage points; in claims that nothing changes from the end of an interval to the margin,
        or to no gain.
    holds : {"yes", "no", "undecided", "not run"}
    """

    compared: int
    ours: float
    holds: str


NOT_RUN = Verdict(0, np.nan, "not run")


def orderings(
    table2a: pd.DataFrame,
    table3a: pd.DataFrame,
    fixed_draws: pd.DataFrame,
    replacement: pd.DataFrame,
    *,
    table2b: pd.DataFrame,
    table3b: pd.DataFrame,
    reduced: pd.DataFrame,
) -> pd.DataFrame:
    """What the paper says is larger than what, and whether it is so here.

    With or without replacement is a claim of equality, judged by two one-sided tests: it holds if at each size the 90 %
    interval of the difference lies within one percentage point, fails if one lies outside, and is undecided otherwise.
    That the public model does not help on MNIST fails if at some size a one-sided test at 5 % finds a gain.

    Parameters
    ----------
    table2a, table3a, fixed_draws, replacement, table2b, table3b, reduced : DataFrame
        As the functions of :mod:`dpnotes.lab.bagging.tables` give them; ``table2b`` and ``table3b`` as ``cifar10``.

    Returns
    -------
    DataFrame
        Column claim (a key of :data:`STATEMENTS`), and those of :class:`Verdict`.
    """
    bagged = {name: _method(table, "bagging") for name, table in (("2a", table2a), ("2b", table2b), ("3b", table3b))}
    gaps: dict[str, Any] = {
        f"{name}_above_dp_sgd": _above(table, "dp_sgd")
        for name, table in (("2a", table2a), ("3a", table3a), ("2b", table2b), ("3b", table3b))
    }
    gaps |= {f"{name}_above_pate": _above(table, "pate") for name, table in (("3a", table3a), ("3b", table3b))}
    gaps |= {f"{name}_grows": bagged[name].sort_values("subsample")["reproduced"].diff() for name in ("2a", "2b")}
    gaps["3a_above_logistic"] = _above(table3a, "pate", "logistic_teachers")
    gaps["figure1_falls"] = -fixed_draws.sort_values("n_models").groupby("drawn")["accuracy"].diff()
    gaps["cifar10_public_helps"] = _gaps(bagged["3b"], bagged["2b"], on="subsample")
    gaps |= _reduced(reduced)
    tuned = _method(table3a, "bagging").merge(bagged["2a"], on="subsample", suffixes=("", "_alone"))
    verdicts = {claim: _judged(values) for claim, values in gaps.items()}
    verdicts |= {"mnist_public_is_no_gain": no_gain(tuned), "figure2_equal": equality(replacement)}
    return pd.DataFrame([{"claim": claim, **verdicts[claim]._asdict()} for claim in STATEMENTS])


def no_gain(helped: pd.DataFrame) -> Verdict:
    """Case II against Case I on MNIST, by a one-sided Welch test at each size that both have more than one seed of.

    ``helped``: columns reproduced, std and seeds of Case II, and with the suffix "_alone" of Case I.
    """
    ends = ("", "_alone")
    needed = [f"{name}{end}" for name in ("reproduced", "std", "seeds") for end in ends]
    both = helped.reindex(columns=needed).astype(float).dropna()
    if not len(both):
        return NOT_RUN
    squares = [both[f"std{end}"] ** 2 / both[f"seeds{end}"] for end in ends]
    terms = [square**2 / (both[f"seeds{end}"] - 1) for square, end in zip(squares, ends, strict=True)]
    freedom = sum(squares) ** 2 / sum(terms)
    low = both["reproduced"] - both["reproduced_alone"] - stats.t.ppf(CONFIDENCE, freedom) * np.sqrt(sum(squares))
    return Verdict(len(both), -100 * float(low.max()), "yes" if low.max() <= 0 else "no")


def equality(replacement: pd.DataFrame) -> Verdict:
    """Figure 2, by two one-sided tests at each size."""
    low, high = (replacement[end].dropna().to_numpy(dtype=float) for end in ("low", "high"))
    if not len(low):
        return NOT_RUN
    least = 100 * (MARGIN - float(np.maximum(-low, high).max()))
    outside = bool(((low >= MARGIN) | (high <= -MARGIN)).any())
    return Verdict(len(low), least, "yes" if least > 0 else "no" if outside else "undecided")


def _method(table: pd.DataFrame, method: str, variant: str = "") -> pd.DataFrame:
    return table[(table["method"] == method) & (table["variant"] == variant)]


def _above(table: pd.DataFrame, method: str, variant: str = "") -> pd.Series:
    """By how much bagging is above a method in each block of a table."""
    return _gaps(_method(table, "bagging").dropna(subset=["block"]), _method(table, method, variant), on="block")


def _gaps(upper: pd.DataFrame, lower: pd.DataFrame, *, on: str) -> pd.Series:
    pairs = upper.merge(lower, on=on, suffixes=("", "_lower"))
    return pairs["reproduced"] - pairs["reproduced_lower"]


def _reduced(table: pd.DataFrame) -> dict[str, Any]:
    """Bagging with k = 5,000 above DP-SGD at the same budget, and what the public model adds to bagging."""
    sides = ["reproduced_scratch", "reproduced_tuned"]
    large = _method(table, "bagging").query("subsample == 5000")[sides].to_numpy(dtype=float)
    noisy = {name: _method(table, "dp_sgd", name)[sides].to_numpy(dtype=float) for name in ("", "least_noise")}
    bagged = _method(table, "bagging")
    return {
        "reduced_above_dp_sgd": large - noisy[""],
        "reduced_above_least": large - noisy["least_noise"],
        "reduced_public_helps": bagged["reproduced_tuned"] - bagged["reproduced_scratch"],
    }


def _judged(gaps: Any) -> Verdict:
    known = np.asarray(gaps, dtype=float).ravel()
    known = known[~np.isnan(known)]
    return Verdict(len(known), 100 * float(known.min()), "yes" if known.min() > 0 else "no") if len(known) else NOT_RUN


ORDERINGS = Table(
    "Ordering claims of the paper against our rows.",
    (
        Column("claim", labels=STATEMENTS),
        Column("compared", "pairs"),
        Column("ours", "least gap", format="{:+.2f}"),
        "holds",
    ),
)
