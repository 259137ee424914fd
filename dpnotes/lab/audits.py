"""Tables of audits: how near their bounds come to the truth, what each strategy finds, and the planted faults."""

from __future__ import annotations

import pandas as pd

from dpnotes.lab.tables import Column, Table

STRATEGIES = ("many runs", "betting", "one run", "lira")


def nearness(rows: pd.DataFrame) -> pd.DataFrame:
    """Of each mechanism and number of runs: the median bound of each side, as a fraction of the truth.

    Parameters
    ----------
    rows : DataFrame
        Of ``python -m benchmarks.auditing``.

    Returns
    -------
    DataFrame
        mechanism, quantity, kind ("many", "one": runs), size (runs of each kind, or canaries), ours, theirs (the best
        of the other side's auditors), above (of ``repeats``, bounds of ours above the truth), repeats.
    """
    keys = ["mechanism", "quantity", "runs_kind", "size"]
    own = rows["side"] == "dpnotes"
    ours = rows[own].set_index(keys).rename(columns={"fraction": "ours"})[["ours", "above", "repeats"]]
    theirs = rows[~own].groupby(keys)["fraction"].max().rename("theirs")
    return ours.join(theirs).reset_index().rename(columns={"runs_kind": "kind"})


def by_strategy(rows: pd.DataFrame) -> pd.DataFrame:
    """Of each training the fraction of its claim that each strategy finds, and the best of them.

    Parameters
    ----------
    rows : DataFrame
        Of ``python -m benchmarks.audit_faults strategies``.

    Returns
    -------
    DataFrame
        training, words, best, and a column for each strategy; NaN where it says that the time is too short for it.
    """
    wide = rows.pivot_table("fraction", ["training", "words"], "asked", sort=False).reindex(columns=[*STRATEGIES])
    return wide.assign(best=wide.max(axis=1)).reset_index()


SHARE = "{:.0%}"
NEARNESS = Table(
    "Median lower bound as a fraction of the truth, at confidence 0.95, from many runs (of each kind), or from one run "
    "with many canaries; and how many of our bounds were above the truth.",
    (
        "mechanism",
        Column("ours", "dpnotes", SHARE),
        Column("theirs", "jax_privacy", SHARE),
        Column("kind", "runs"),
        Column("size", "runs, canaries", "{:,.0f}"),
        "quantity",
        Column("above", text=lambda row: f"{row.above} of {row.repeats}"),
    ),
)
FOUND = Table(
    "The part of a claim that an audit finds: the largest ratio of the lower bound on delta to the claimed delta.",
    (
        "training",
        Column("best", format=SHARE),
        *(Column(name, format=SHARE, gap="too slow") for name in STRATEGIES),
        Column("words", "what it is"),
    ),
)
FAULTS = Table(
    "Planted faults, and what the audit of each found.",
    (
        "training",
        Column("refuted", labels={True: "yes", False: "no"}),
        Column("seconds", format="{:.0f}"),
        Column("epsilon_claimed", "epsilon claimed", "{:.2f}"),
        Column("epsilon", "at least", "{:.2f}"),
        Column("words", "what is wrong"),
        "canary",
        "strategy",
    ),
)
