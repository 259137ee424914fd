"""Tables of audits: how close their bounds are to the truth, what each strategy
finds, and the planted faults.
"""

from __future__ import annotations

import pandas as pd

from dpnotes.lab.tables import Column, Table

STRATEGIES = ("many runs", "betting")


def nearness(rows: pd.DataFrame) -> pd.DataFrame:
    """Give the median bound of each library as a fraction of the truth, for each
    mechanism and number of runs.

    Parameters
    ----------
    rows : DataFrame
        Rows of ``python -m benchmarks.auditing``.

    Returns
    -------
    DataFrame
        One row for each mechanism, quantity and size. The columns are mechanism,
        quantity, size (number of runs of each kind), ours, theirs (the best auditor of
        the other library), above (how many of our bounds are above the truth) and
        repeats (how many bounds each auditor computed).
    """
    keys = ["mechanism", "quantity", "size"]
    # other sides are auditors of the other library
    own = rows["side"] == "dpnotes"
    ours = (
        rows[own]
        .set_index(keys)
        .rename(columns={"fraction": "ours"})[["ours", "above", "repeats"]]
    )
    # the best of theirs, whichever that is
    theirs = rows[~own].groupby(keys)["fraction"].max().rename("theirs")
    return ours.join(theirs).reset_index()


def by_strategy(rows: pd.DataFrame) -> pd.DataFrame:
    """Give, for each training function, the fraction of its claim that each strategy
    finds, and the largest fraction.

    Parameters
    ----------
    rows : DataFrame
        Rows of ``python -m benchmarks.audit_faults strategies``.

    Returns
    -------
    DataFrame
        One row for each training function. The columns are training, words, best, and
        one column for each strategy, which is NaN if the time was too short for this
        strategy.
    """
    # in the order of the rows, which is that of the faults
    wide = rows.pivot_table(
        "fraction", ["training", "words"], "asked", sort=False
    ).reindex(columns=[*STRATEGIES])
    return wide.assign(best=wide.max(axis=1)).reset_index()


SHARE = "{:.0%}"
NEARNESS = Table(
    "How close the lower bounds of two libraries are to the truth. For each library,"
    " the table gives the median bound as a fraction of the truth, at confidence 0.95."
    " The last column counts our bounds that are above the truth.",
    (
        "mechanism",
        Column("ours", "dpnotes", SHARE),
        Column("theirs", "jax_privacy", SHARE),
        Column("size", "runs of each kind", "{:,.0f}"),
        Column("quantity", "bounded quantity"),
        Column(
            "above",
            "our bounds above the truth",
            text=lambda row: f"{row.above} of {row.repeats}",
        ),
    ),
)
FOUND = Table(
    "The fraction of its claim that an audit of each training function finds: the"
    " largest ratio, over epsilon, of the lower bound on delta to the claimed delta."
    ' The column "best strategy" repeats the largest fraction of its row.',
    (
        Column("training", "training function"),
        Column("best", "best strategy", SHARE),
        *(Column(name, name, SHARE, gap="too slow") for name in STRATEGIES),
        Column("words", "description"),
    ),
)
FAULTS = Table(
    "Planted faults, and what an audit of each faulty training function found. The"
    " claimed epsilon and the lower bound on the true epsilon are for delta = 1e-5.",
    (
        Column("training", "fault"),
        Column("refuted", "claim refuted", labels={True: "yes", False: "no"}),
        Column("seconds", format="{:.0f}"),
        Column("epsilon_claimed", "claimed epsilon", "{:.2f}"),
        Column("epsilon", "lower bound on epsilon", "{:.2f}"),
        Column("words", "what is wrong"),
        "canary",
        "strategy",
    ),
)
