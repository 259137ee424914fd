"""Results of the private-prediction chapter: rows of the figures, series of points
picked out of them, and tables, some computed live.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache, partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpnotes import accounting
from dpnotes.lab import own_data
from dpnotes.lab.exact_votes import soft_vote_pure_level
from dpnotes.lab.private_prediction import grids
from dpnotes.lab.private_prediction.grids import ANSWERING, METHODS, N_MODELS, NAMES
from dpnotes.lab.tables import GAP, Column, Table, columns, mean_and_std
from dpnotes.lab.verdicts import Mean, crossing as crossing_of
from dpnotes.mechanisms import soft_vote

NUMBERS = [
    "n",
    "d",
    "n_classes",
    "epsilon",
    "delta",
    "answers",
    "n_models",
    "l2",
    "chosen_l2",
    "repeats",
]
NUMBERS += ["accuracy", "accuracy_std", "noise"]
BASE: dict[str, float] = {
    "n": 60_000,
    "d": 784,
    "n_classes": 10,
    "answers": 100,
    "n_models": N_MODELS,
    "epsilon": 1.0,
}
SIZES = {
    "mnist": {"n": 60_000, "d": 784, "n_classes": 10},
    "digits": {"n": 1442, "d": 64, "n_classes": 10},
}


class Series(NamedTuple):
    """Points of one method: x (rising), mean accuracy, std (over releases), runs
    (how many releases).
    """

    x: NDArray[np.float64]
    accuracy: NDArray[np.float64]
    std: NDArray[np.float64]
    runs: NDArray[np.float64]

    def at(self, x: float) -> Mean:
        """Mean accuracy at one point.

        Raises
        ------
        KeyError
            If the point was not run.
        """
        # values were written as decimal text
        found = np.flatnonzero(np.isclose(self.x, x, rtol=1e-9, atol=0))
        if not len(found):
            raise KeyError(x)
        return self.means[int(found[0])]

    @property
    def means(self) -> list[Mean]:
        """Mean accuracies, point by point."""
        return [
            Mean.of(*map(float, point))
            for point in zip(self.accuracy, self.std, self.runs, strict=True)
        ]


def put_together(*stores: pd.DataFrame) -> pd.DataFrame:
    """All rows of several stores; sizes that stand for "all" as numbers, empty
    accuracies kept as gaps.

    The column ``tuned`` says whether ``l2`` was chosen on held-out rows.
    """
    rows = pd.concat([store.astype(object) for store in stores], ignore_index=True)
    rows = rows.reindex(columns=list(dict.fromkeys([*rows, *NUMBERS])))
    for name in NUMBERS:
        rows[name] = rows[name].where(rows[name].notna(), np.nan).astype(float)
    for name in ("n", "d", "n_classes"):
        rows[name] = rows[name].fillna(
            rows["dataset"].map(
                {data: size_of(data)[name] for data in set(rows["dataset"])}
            )
        )
    return rows.assign(tuned=rows["l2"].isna(), l2=rows["l2"].fillna(rows["chosen_l2"]))


def with_bias(rows: pd.DataFrame, bias: pd.DataFrame) -> pd.DataFrame:
    """Points of models with a bias, beside those of the votes, which have one in
    ``rows``.
    """
    voted = rows["method"] == "subsample_aggregate"
    votes = rows[voted & (rows["analysis"] == "published") & (rows["delta"] == 0)]
    return pd.concat([put_together(bias), votes.assign(analysis="in_code")])


def size_of(dataset: str) -> Mapping[str, float]:
    """Training records, features and classes of a data set."""
    if own_data.is_own(dataset):
        # a file tells its own sizes
        mine = own_data.load(dataset)
        return {"n": mine.n_train, "d": mine.d, "n_classes": mine.n_classes}
    return SIZES[dataset]


def series(
    rows: pd.DataFrame,
    method: str,
    x: str,
    *,
    analysis: str = "tight",
    delta: float = 0.0,
    **fixed: float,
) -> Series | None:
    """Points of one method along ``x``, all else as in :data:`BASE` (or ``fixed``);
    None if there is none.

    Methods that release a model do not depend on the number of answers: along it they
    have one point. ``l2`` varies only where it was given rather than chosen.
    """
    # the small rows of a page may be of one other data set
    datasets = set(rows["dataset"])
    dataset = "mnist" if "mnist" in datasets or len(datasets) != 1 else datasets.pop()
    setting: dict[str, Any] = {
        "method": method,
        "analysis": analysis,
        "delta": delta,
        "tuned": x != "l2",
    }
    setting |= {**BASE, **size_of(dataset)}
    if dataset != "mnist":
        # small data have fewer shards than BASE says
        setting["n_models"] = rows["n_models"].max()
    setting |= fixed
    # a released model answers any number of queries
    if method not in ANSWERING:
        del setting["answers"]
    # others have no shards
    if method != "subsample_aggregate":
        del setting["n_models"]
    # what varies is not asked for
    setting.pop(x, None)
    # delta = 0 has no place on a logarithmic axis
    keep = rows["accuracy"].notna() & (rows["delta"] > 0 if x == "delta" else True)
    for name, value in setting.items():
        keep &= rows[name] == value
    # figures share points, which several stores then have
    own = rows[keep].drop_duplicates([x]).sort_values(x)
    if own.empty:
        return None
    return Series(
        *(own[name].to_numpy() for name in (x, "accuracy", "accuracy_std", "repeats"))
    )


OWN = Table(
    "Test accuracy on your records for 100 answers, with sound noise: mean and standard"
    " deviation over releases.",
    Column("method", labels=NAMES),
    columns("{:g}", "delta", "epsilon"),
    mean_and_std("accuracy", std="accuracy_std"),
)

NOISE = Table(
    "Noise on a logit at (1, {delta:g}), in units of the sensitivity: the exact noise,"
    " and the noise of the published search.",
    Column("answers", "answers B"),
    columns("{:.2f}", "exact", "published", "ratio"),
)
ATTACK = Table(
    "Membership test on one answer of a soft vote of four models. The answer is claimed"
    " to be (1, 0)-private.",
    "analysis",
    Column("caught", "claim refuted", labels={True: "yes", False: "no"}),
    columns("{:.3f}", audited="audited, at least", exact="exact epsilon"),
    columns("{:g}", "claimed", "beta"),
)
NETWORKS = Table(
    "Figure 7: accuracy of ResNet-20 on CIFAR-10 at delta = 1e-5. The paper reports"
    " 86.6 % without privacy.",
    "method",
    "epsilon",
    "answers",
    Column("accuracy", format="{:.2%}", gap=GAP),
)


def noise_by_answers(
    budgets: Sequence[int], *, epsilon: float, delta: float
) -> pd.DataFrame:
    """Gaussian noise on a logit in units of the shift that one record makes, and the
    lead that votes need.

    Returns
    -------
    DataFrame
        Columns answers, model (noise on the weights), exact and published (noise on
        each answer), ratio (published over exact), lead and published_lead (votes that
        the correct class must be ahead of one other to win 95 %).
    """

    def each(function: Any, analysis: str = "tight") -> np.ndarray[Any, Any]:
        return np.array(
            [
                function(epsilon, delta, answers=answers, analysis=analysis)
                for answers in budgets
            ]
        )

    # odds of the right class against one other, at 95 %
    sigma = accounting.prediction_sensitivity_sigma
    beta = accounting.soft_vote_beta
    odds = math.log(0.95 / 0.05)
    return pd.DataFrame(
        {
            "answers": budgets,
            "model": accounting.gaussian_sigma(epsilon, delta),
            "exact": each(sigma),
            "published": each(sigma, "published"),
            "lead": odds / each(beta),
            "published_lead": odds / each(beta, "published"),
        }
    ).assign(ratio=lambda table: table["published"] / table["exact"])


def loss_noise(
    penalties: Sequence[float],
    *,
    n: int,
    d: int,
    n_classes: int,
    epsilon: float,
    deltas: Sequence[float],
) -> pd.DataFrame:
    """Noise of loss perturbation for problems of unlike regularisers, by three
    analyses, one record more or less.

    Returns
    -------
    DataFrame
        Columns l2, delta; published, split, tight: standard deviation of an entry of
        the random linear term of the sum of the losses; ratio (published over tight);
        volume (what the tight analysis spends on the change of volume).
    """
    rows = []
    for delta, l2 in product(deltas, penalties):
        found: dict[str, float] = {"l2": l2, "delta": delta}
        for analysis in ("published", "split", "tight"):
            noise = accounting.objective_perturbation(
                epsilon,
                delta,
                n_classes=n_classes,
                regulariser=n * l2,
                analysis=analysis,
            )
            # of density exp(-rate |b|) in k dimensions an entry has variance (k + 1) /
            # rate^2
            # one vector for each class, or one for all
            k = d if noise.per_class else d * n_classes
            found[analysis] = noise.sigma or math.sqrt(k + 1) / (noise.rate or math.nan)
        # the determinant grows by so much with one record more
        found["volume"] = (n_classes - 1) * math.log1p(
            1 / (n_classes * (n * l2 + noise.regulariser))
        )
        rows.append(found)
    return pd.DataFrame(rows).assign(
        ratio=lambda table: table["published"] / table["tight"]
    )


def vote_attack(
    *, epsilon: float, n_models: int, trials: int, seed: int
) -> pd.DataFrame:
    """Test for membership by one answer of the soft vote, where one record turns the
    last of unanimous votes.

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
        One row for each analysis: analysis, beta, claimed, exact (pure epsilon of these
        votes), audited (lower confidence bound at 99.9 %), caught (bool: whether it
        exceeds the claim).
    """
    rows = []
    for analysis in ("published", "tight"):
        # what the analysis takes for epsilon-DP
        beta = accounting.soft_vote_beta(epsilon, 0.0, answers=1, analysis=analysis)
        true_positives, false_positives = (
            int(
                soft_vote(
                    np.array([votes]), beta=beta, seed=seed + i, n_repeats=trials
                ).sum()
            )
            for i, votes in enumerate(([n_models - 1, 1], [n_models, 0]))
        )
        counts = {"true_positives": true_positives, "false_positives": false_positives}
        audited = accounting.audit_epsilon(
            **counts, positives=trials, negatives=trials, delta=0.0, confidence=0.999
        )
        # no attack can exceed it
        exact = soft_vote_pure_level(beta=beta, n_models=n_models, n_classes=2)
        rows.append((analysis, beta, epsilon, exact, audited, audited > epsilon))
    return pd.DataFrame(
        rows, columns=["analysis", "beta", "claimed", "exact", "audited", "caught"]
    )


# points that a curve needs
CURVES = ("n", "d", "n_classes", "l2", "n_models", "delta")
FEWEST = 3
MS, LP, SGD, PS, SAA = METHODS
PURE = grids.methods_at(0.0)


class Look:
    """Curves of one analysis.

    Parameters
    ----------
    rows : DataFrame
        As :func:`put_together` gives them.
    analysis : {"published", "tight"}
    """

    def __init__(self, rows: pd.DataFrame, analysis: str):
        self._series = cache(
            partial(series, rows[rows["analysis"] == analysis], analysis=analysis)
        )

    def __call__(
        self, method: str, x: str, delta: float = 0.0, **fixed: float
    ) -> Series:
        """Curve of a method; the points with the values in ``fixed``."""
        found = self._series(method, x, delta=delta, **fixed)
        # a curve of two points has no shape to speak of
        if found is None or (x in CURVES and len(found.x) < FEWEST):
            raise LookupError(method)
        return found

    def mean(self, method: str, x: str, value: float, delta: float = 0.0) -> Mean:
        """Mean accuracy of a method at one point; the accuracy of a released model
        is the same along x.
        """
        found = self(method, x, delta)
        # a released model has one point along the answers
        return found.at(value if len(found.x) > 1 else float(found.x[0]))

    def means(
        self, x: str, value: float, delta: float = 0.0, methods: tuple[str, ...] = PURE
    ) -> dict[str, Mean]:
        """Those of several methods."""
        return {method: self.mean(method, x, value, delta) for method in methods}


def crossing(look: Look, delta: float) -> tuple[float, float]:
    """Up to which number of answers votes are ahead of loss perturbation, and from
    which on they are behind.
    """
    # the only curve that falls with B, next to prediction sensitivity's
    votes = look(SAA, "answers", delta)
    released = look.mean(LP, "epsilon", 1.0, delta)
    return crossing_of(votes.x.tolist(), [mean - released for mean in votes.means])


def crossing_at(
    rows: pd.DataFrame, *, analysis: str, delta: float
) -> tuple[float, float]:
    """The same for a page; NaN for a gap."""
    try:
        return crossing(Look(rows, analysis), delta)
    except LookupError:
        # a page shows the gap instead of an error
        return math.nan, math.nan


def crossing_in_words(between: tuple[float, float]) -> str:
    """Numbers of answers of :func:`crossing_at` for a page."""
    ahead, behind = between
    if math.isnan(ahead):
        return GAP
    if math.isinf(behind):
        return "at no B that was run"
    return (
        f"between B = {ahead:.0f} and {behind:.0f}"
        if math.isfinite(ahead)
        else f"from B = {behind:.0f} on"
    )
