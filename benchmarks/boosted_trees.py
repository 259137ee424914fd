"""Speed of the boosted teachers of DPBag against scikit-learn's GradientBoostingClassifier, one after the other.

Both sides on one thread, by turns (A B A B), medians of CPU time; the first call of each is left out. The other side
runs on some of the models, without its checks of parameters and of finiteness, and its time is multiplied up.

"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from sklearn import config_context
from sklearn.ensemble import GradientBoostingClassifier

from dpnotes.learners import BoostedTrees, fit_boosted_trees

from ._common import Row, loaded, timed

QUERIES = 1024
SIZES = (163, 108, 54)  # rows of a teacher on Adult with 100 and 150 of them, on Diabetes 130 with 150
BARS = {"teachers": 5, "votes": 2}  # set after a first measurement


def agreement(ours: np.ndarray, one: np.ndarray, other: np.ndarray) -> tuple[str, dict[str, float]]:
    """What a row says of the agreement of both sides, from votes of shape [models, queries].

    Splits that are equally good are ties, which scikit-learn breaks by its ``random_state``: ``one`` and ``other`` are
    its votes by two of them. Ours break them by a rule of their own, and so may differ from either as often as these
    differ from each other. The gap is how much more often they do. Votes of a model differ together, so the gap is
    allowed three standard errors of the mean of ``ties`` over models, which no fault of ours widens, and 5 % at most.
    """
    differ = (np.mean(ours != one, axis=1) + np.mean(ours != other, axis=1)) / 2
    ties = np.mean(one != other, axis=1)
    error = float(np.std(ties, ddof=1)) / len(ties) ** 0.5
    words = f"{differ.mean():.1%} of the votes differ, between two seeds of scikit-learn {ties.mean():.1%}"
    return words, {"gap": max(0.0, float(np.mean(differ - ties))), "allowed": min(3 * error, 0.05)}


def rows(small: bool) -> Iterator[Row]:
    """Job 2c: teachers, and their votes."""
    name, X, y, queries = loaded("adult", split="dpbag", n=30_162, d=108, n_classes=2)
    X, queries = X.astype(np.float32), queries[:QUERIES].astype(np.float32)
    if name != "adult":  # as there, all columns but six are binary: a split for each value is what a tree costs
        X, queries = (np.concatenate([rows[:, :6], rows[:, 6:] > 0], axis=1) for rows in (X, queries))
    models, sample = (32, 8) if small else (256, 32)
    for size in SIZES[: 1 if small else None]:
        rng = np.random.default_rng(0)
        drawn = [rng.choice(len(X), size=size, replace=False) for _ in range(models)]
        subsets = [rows for rows in drawn if 0 < y[rows].sum() < size]  # scikit-learn refuses a single class
        found: dict[str, BoostedTrees] = {}
        loop: list[GradientBoostingClassifier] = []
        again: list[GradientBoostingClassifier] = []

        def ours(subsets: list[np.ndarray] = subsets, found: dict[str, BoostedTrees] = found) -> None:
            found["ours"] = fit_boosted_trees(X, y, subsets, device="cpu")

        def theirs(
            subsets: list[np.ndarray] = subsets, loop: list[GradientBoostingClassifier] = loop, seed: int = 0
        ) -> None:
            with config_context(skip_parameter_validation=True, assume_finite=True):
                loop[:] = [
                    GradientBoostingClassifier(random_state=seed).fit(X[rows], y[rows]) for rows in subsets[:sample]
                ]

        def our_votes(found: dict[str, BoostedTrees] = found) -> np.ndarray:
            return found["ours"].votes(queries, device="cpu")

        def their_votes(loop: list[GradientBoostingClassifier] = loop) -> np.ndarray:
            with config_context(skip_parameter_validation=True, assume_finite=True):
                return np.stack([model.predict(queries) for model in loop])

        repeats = 1 if small else 3
        fast, slow = timed(ours, theirs, repeats=repeats)
        theirs(loop=again, seed=1)
        agree, compared = agreement(our_votes()[:sample], their_votes(), their_votes(again))
        agree = f"100 trees of depth 3, float32; {agree}"
        against = f"scikit-learn, {sample} of them scaled"
        scale, what = len(subsets) / sample, f"{len(subsets)} boosted models {size} x {X.shape[1]}"
        yield Row(f"2c. {what}", name, fast, slow * scale, against, BARS["teachers"], agree, **compared)
        fast, slow = timed(our_votes, their_votes, repeats=repeats)
        yield Row(
            f"2c. votes of {what}",
            name,
            fast,
            slow * scale,
            against,
            BARS["votes"],
            f"on {len(queries)} rows; {agree}",
            **compared,
        )
