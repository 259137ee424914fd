"""The ordering claims of the bagging paper, one by one, against our rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

COLUMNS = ["claim", "compared", "ours", "holds"]


def orderings(
    table2a: pd.DataFrame, table3a: pd.DataFrame, fixed_draws: pd.DataFrame, replacement: pd.DataFrame
) -> pd.DataFrame:
    """What the paper says is larger than what, and whether it is so here.

    Parameters
    ----------
    table2a, table3a, fixed_draws, replacement : DataFrame
        As the functions of these names give them.

    Returns
    -------
    DataFrame
        Columns claim, compared (how many pairs both sides of which were run), ours (the least gap, in percentage
        points), holds ("yes", "no", "not run").
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
    beyond = 0.01 - replacement["difference"].abs()
    lines: list[tuple[str, Any]] = [
        ("Table 2a: bagging is above DP-SGD with the paper's noise", pairs["reproduced"] - pairs["reproduced private"]),
        ("Table 2a: accuracy grows with k", grows),
        ("Table 3a: bagging is above DP-SGD with the paper's noise", blocks["bagging"] - blocks["DP-SGD"]),
        ("Table 3a: bagging is above PATE", blocks["bagging"] - blocks["PATE"]),
        ("the same, PATE with logistic teachers", blocks["bagging"] - blocks["logistic"]),
        ("MNIST: the public model does not help bagging", helped["reproduced alone"] - helped["reproduced"]),
        ("Figure 1: accuracy falls with N at fixed N k", falls),
        ("Figure 2: with or without replacement, less than 1 point apart", beyond),
    ]
    return pd.DataFrame([_judged(claim, gaps) for claim, gaps in lines], columns=COLUMNS)


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
