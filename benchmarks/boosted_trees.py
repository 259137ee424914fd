"""Speed of the boosted teachers of DPBag against scikit-learn's
GradientBoostingClassifier, one after the other.

The other side runs on some of the models, without its checks of parameters and of
finiteness, and its time is scaled.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from sklearn import config_context
from sklearn.ensemble import GradientBoostingClassifier

from dpnotes.learners import device_name, fit_boosted_trees

from ._common import Row, clock_of, loaded, timed

QUERIES = 1024
# rows of a teacher on Adult with 100 and 150 of them, on Diabetes 130 with 150
SIZES = (163, 108, 54)
BARS = (5, 2)  # of fits and of votes, set after a first measurement


def agreement(
    ours: np.ndarray, one: np.ndarray, other: np.ndarray
) -> tuple[str, dict[str, float]]:
    """What a row says of the agreement of both sides, from votes of shape [models,
    queries].

    Splits that are equally good are ties, which scikit-learn breaks by its
    ``random_state``: ``one`` and ``other`` are its votes by two of them. Ours break
    them by a rule of their own, and so may differ from either as often as these differ
    from each other. The gap is how much more often they do. Votes of a model differ
    together, so the gap is allowed three standard errors of the mean of ``ties`` over
    models, which no fault of ours widens, and 5 % at most.
    """
    differ = (np.mean(ours != one, axis=1) + np.mean(ours != other, axis=1)) / 2
    ties = np.mean(one != other, axis=1)
    error = float(np.std(ties, ddof=1)) / len(ties) ** 0.5
    words = (
        f"{differ.mean():.1%} of the votes differ from scikit-learn's, and"
        f" {ties.mean():.1%} between two of its seeds"
    )
    return words, {
        "gap": max(0.0, float(np.mean(differ - ties))),
        "allowed": min(3 * error, 0.05),
    }


def race(
    source: str,
    X: np.ndarray,
    y: np.ndarray,
    queries: np.ndarray,
    *,
    size: int,
    small: bool,
    device: str,
) -> list[Row]:
    """Teachers of so many rows, and their votes."""
    models, sample = (32, 8) if small else (256, 32)
    rng = np.random.default_rng(0)
    drawn = [rng.choice(len(X), size=size, replace=False) for _ in range(models)]
    # scikit-learn refuses a single class
    subsets = [rows for rows in drawn if 0 < y[rows].sum() < size]

    def theirs(seed: int = 0) -> list[GradientBoostingClassifier]:
        return [
            GradientBoostingClassifier(random_state=seed).fit(X[rows], y[rows])
            for rows in subsets[:sample]
        ]

    def votes(models: list[GradientBoostingClassifier]) -> np.ndarray:
        return np.stack([model.predict(queries) for model in models])

    how = {"repeats": 1 if small else 3, "clock": clock_of(device)}
    with config_context(skip_parameter_validation=True, assume_finite=True):
        fits, (ours, loop) = timed(
            lambda: fit_boosted_trees(X, y, subsets, device=device), theirs, **how
        )
        asked, (mine, one) = timed(
            lambda: ours.votes(queries, device=device), lambda: votes(loop), **how
        )
        agree, compared = agreement(mine[:sample], one, votes(theirs(1)))
    what, check = (
        f"{len(subsets)} boosted models {size} x {X.shape[1]}",
        f"100 trees of depth 3, float32; {agree}",
    )
    rows = zip(
        (f"2c. {what}", f"2c. votes of {what}"), (fits, asked), BARS, strict=True
    )
    against, about = (
        f"scikit-learn, scaled from {sample} of the models",
        {"device": device_name(device), **compared},
    )
    return [
        Row(
            job,
            source,
            fast,
            slow * len(subsets) / sample,
            against,
            bar,
            check,
            **about,
        )
        for job, (fast, slow), bar in rows
    ]


def rows(small: bool, device: str) -> Iterator[Row]:
    """Job 2c: teachers, and their votes."""
    source, X, y, queries = loaded("adult", split="dpbag", n=30_162, d=108, n_classes=2)
    X, queries = X.astype(np.float32), queries[:QUERIES].astype(np.float32)
    # as there, all columns but six are binary: a split for each value is what a tree
    # costs
    if source != "adult":
        X, queries = (
            np.concatenate([rows[:, :6], rows[:, 6:] > 0], axis=1)
            for rows in (X, queries)
        )
    for size in SIZES[: 1 if small else None]:
        yield from race(source, X, y, queries, size=size, small=small, device=device)
