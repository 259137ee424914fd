"""The ordering claims of the bagging paper, one by one, against our rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

COLUMNS = ["claim", "compared", "ours", "holds"]
LEVEL = 0.95  # of the one-sided limits in claims that nothing changes
MARGIN = 0.01  # "negligible impact" in Figure 2: less than one percentage point, fixed before the ten seeds were run


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
    table2a, table3a, fixed_draws, replacement : DataFrame
        As the functions of these names give them.
    table2b, table3b : DataFrame
        As :func:`cifar10_table` gives them.
    reduced : DataFrame
        As :func:`reduced_table` gives it.

    Returns
    -------
    DataFrame
        Columns claim, compared (how many pairs both sides of which were run), ours (the least gap, in percentage
        points; in these two claims from the end of an interval to the margin, or to no gain), holds ("yes", "no",
        "undecided", "not run").
    """
    bagged = table2a[table2a["method"] == "Bagging"]
    private = table2a[table2a["method"] == "DPSGD"]
    keys = ["published epsilon", "published delta"]
    pairs = bagged.dropna(subset=keys).merge(private, on=keys, suffixes=("", " private"))
    grows = bagged.sort_values("subsample")["reproduced"].diff()
    blocks = _blocks(table3a)
    first = table3a[table3a["method"].str.startswith("bagging")]
    sizes = first["method"].str.removeprefix("bagging, k = ").str.replace(",", "").astype(float)
    helped = first.assign(subsample=sizes).merge(bagged, on="subsample", suffixes=("", " alone"))
    falls = [
        earlier - later
        for _, curve in fixed_draws.groupby("drawn")
        for earlier, later in zip(curve["accuracy"].iloc[:-1], curve["accuracy"].iloc[1:], strict=True)
    ]
    scratch, tuned = _blocks(table2b), _blocks(table3b)
    larger = [_reduced(reduced, "bagging, k = 5,000") - _reduced(reduced, noise) for noise in ("sigma = 11.5", "least")]
    starts = reduced[reduced["method"].str.startswith("bagging")] if len(reduced) else reduced
    lines: list[tuple[str, Any]] = [
        ("Table 2a: bagging is above DP-SGD with the paper's noise", pairs["reproduced"] - pairs["reproduced private"]),
        ("Table 2a: accuracy grows with k", grows),
        ("Table 3a: bagging is above DP-SGD with the paper's noise", blocks["bagging"] - blocks["DP-SGD"]),
        ("Table 3a: bagging is above PATE", blocks["bagging"] - blocks["PATE"]),
        ("the same, PATE with logistic teachers", blocks["bagging"] - blocks["logistic"]),
        ("Figure 1: accuracy falls with N at fixed N k", falls),
        ("Table 2b: bagging is above DP-SGD with the paper's noise", scratch["bagging"] - scratch["DP-SGD"]),
        ("Table 2b: accuracy grows with k", scratch["bagging"].diff()),
        ("Table 3b: bagging is above DP-SGD with the paper's noise", tuned["bagging"] - tuned["DP-SGD"]),
        ("Table 3b: bagging is above PATE", tuned["bagging"] - tuned["PATE"]),
        ("CIFAR-10: the public model helps bagging", tuned["bagging"] - scratch["bagging"]),
        ("CIFAR-10, reduced: bagging is above DP-SGD with the paper's noise", larger[0]),
        ("the same, DP-SGD with the least noise", larger[1]),
        ("CIFAR-10, reduced: the public model helps bagging", starts["tuned"] - starts["scratch"]),
    ]
    judged = [_judged(claim, gaps) for claim, gaps in lines]
    return pd.DataFrame([*judged, _no_gain(helped), _equal(replacement)], columns=COLUMNS)


def _no_gain(helped: pd.DataFrame) -> tuple[str, int, float, str]:
    """Case II against Case I on MNIST, by a one-sided Welch test at each size that both have more than one seed of."""
    claim = "MNIST: the public model does not help bagging"
    if not {"spread", "seeds"} <= set(helped):
        return claim, 0, np.nan, "not run"
    both = helped.dropna(subset=["reproduced", "reproduced alone", "spread", "spread alone"]).astype({"seeds": float})
    if not len(both):
        return claim, 0, np.nan, "not run"
    squares = [both[f"spread{end}"] ** 2 / both[f"seeds{end}"] for end in ("", " alone")]
    terms = [square**2 / (both[f"seeds{end}"] - 1) for square, end in zip(squares, ("", " alone"), strict=True)]
    freedom = sum(squares) ** 2 / sum(terms)
    low = both["reproduced"] - both["reproduced alone"] - stats.t.ppf(LEVEL, freedom) * np.sqrt(sum(squares))
    return claim, len(both), -100 * float(low.max()), "yes" if low.max() <= 0 else "no"


def _equal(replacement: pd.DataFrame) -> tuple[str, int, float, str]:
    """Figure 2, by two one-sided tests at each size."""
    claim = "Figure 2: with or without replacement, less than 1 point apart"
    low, high = (replacement[end].dropna().to_numpy(dtype=float) for end in ("low", "high"))
    if not len(low):
        return claim, 0, np.nan, "not run"
    least = 100 * (MARGIN - float(np.maximum(-low, high).max()))
    outside = bool(((low >= MARGIN) | (high <= -MARGIN)).any())
    return claim, len(low), least, "yes" if least > 0 else "no" if outside else "undecided"


def _reduced(table: pd.DataFrame, name: str) -> pd.Series:
    """Accuracies from scratch and from the public model of the method whose name has that part."""
    found = table[table["method"].str.contains(name, regex=False)] if len(table) else table
    return found[["scratch", "tuned"]].iloc[0].astype(float) if len(found) else pd.Series(dtype=float)


def _blocks(table3a: pd.DataFrame) -> pd.DataFrame:
    """Our accuracies of each block of Table 3a: columns DP-SGD, PATE, logistic, bagging."""
    starts = {"DP-SGD": "DP-SGD", "PATE": "PATE", "the same with log": "logistic", "bagging": "bagging"}
    found: dict[str, list[float]] = {name: [] for name in starts.values()}
    for method, mean in zip(table3a["method"], table3a["reproduced"], strict=True):
        for start, name in starts.items():
            if method.startswith(start):
                found[name].append(mean)
    longest = max(map(len, found.values()), default=0)
    return pd.DataFrame({name: values + [np.nan] * (longest - len(values)) for name, values in found.items()})


def _judged(claim: str, gaps: Any) -> tuple[str, int, float, str]:
    known = np.asarray(gaps, dtype=float)
    known = known[~np.isnan(known)]
    if not len(known):
        return claim, 0, np.nan, "not run"
    return claim, len(known), 100 * float(known.min()), "yes" if known.min() > 0 else "no"
