"""Speed of the boosted teachers of DPBag against scikit-learn's
GradientBoostingClassifier, one after the other.

The other side runs on some of the models, without its checks of parameters and of
finiteness, and its time is scaled.
"""

import numpy as np
from sklearn import config_context
from sklearn.ensemble import GradientBoostingClassifier

from dpnotes.learners import fit_boosted_trees

from ._common import Row, loaded, timed

# rows of a teacher on Adult with 100 and 150 of them, on Diabetes 130 with 150
SIZES = (163, 108, 54)


def agreement(ours, one, other):
    """What a row says of the agreement of both sides, from votes of shape [models,
    queries]; the gap, and the largest that is allowed.

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
    return words, max(0.0, float(np.mean(differ - ties))), min(3 * error, 0.05)


def rows(small, device):
    """Job 2c: teachers, and their votes."""
    source, X, y, queries = loaded("adult", split="dpbag", n=30_162, d=108, n_classes=2)
    X = X.astype(np.float32)
    queries = queries[:1024].astype(np.float32)
    # as there, all columns but six are binary: a split for each value is what a tree
    # costs
    if source != "adult":
        for table in (X, queries):
            table[:, 6:] = table[:, 6:] > 0
    models, sample = (32, 8) if small else (256, 32)
    how = {"repeats": 3, "device": device}
    for size in SIZES[: 1 if small else None]:
        rng = np.random.default_rng(0)
        drawn = [rng.choice(len(X), size=size, replace=False) for _ in range(models)]
        # scikit-learn refuses a single class
        subsets = [rows for rows in drawn if 0 < y[rows].sum() < size]

        def ours(subsets=subsets):
            return fit_boosted_trees(X, y, subsets, device=device)

        def theirs(seed=0, subsets=subsets):
            found = []
            for rows in subsets[:sample]:
                model = GradientBoostingClassifier(random_state=seed)
                found.append(model.fit(X[rows], y[rows]))
            return found

        def votes(models):
            return np.stack([model.predict(queries) for model in models])

        # without its checks, which are much of its time on so few rows
        with config_context(skip_parameter_validation=True, assume_finite=True):
            fits, (batch, loop) = timed(ours, theirs, **how)
            asked, (mine, one) = timed(
                lambda batch=batch: batch.votes(queries, device=device),
                lambda loop=loop: votes(loop),
                **how,
            )
            agree, gap, allowed = agreement(mine[:sample], one, votes(theirs(1)))
        what = f"{len(subsets)} boosted models {size} x {X.shape[1]}"
        # bars set after a first measurement
        for job, (fast, slow), bar in ((what, fits, 5), (f"votes of {what}", asked, 2)):
            yield Row(
                f"2c. {job}",
                source,
                fast,
                slow * len(subsets) / sample,
                f"scikit-learn, scaled from {sample} of the models",
                bar,
                f"100 trees of depth 3, float32; {agree}",
                gap=gap,
                allowed=allowed,
            )
