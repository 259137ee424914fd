"""Experiments of the bagging chapter: accuracy of networks trained on random subsamples (Liu, Jia and Gong 2021)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from dpnotes import accounting, figures
from dpnotes.data import Dataset
from dpnotes.experiments._registry import Experiment, Grid, paper_table

if TYPE_CHECKING:
    from pandas.io.formats.style import Styler

SUBSAMPLES = {"paper": (300, 500, 1000, 5000, 10_000), "quick": (50, 100, 200)}
NO_BREAK = "\u00a0"  # a space that keeps its line together
RECORDS = {"paper": 60_000, "quick": 1442}  # training records of MNIST, and of digits in our split
VALIDATION_ROWS = 10_000  # last rows of MNIST's training part, held out while settings are chosen

# The paper names two convolutions with pooling and one linear layer, and 100 epochs; the rest is chosen on held-out
# training rows, never on the test set, by the rows of bagging_settings: see the chapter.
NETWORKS: dict[str, dict[str, Any]] = {
    "mnist": {
        "width": 16,
        "kernel_size": 5,
        "padding": 0,
        "epochs": 100,
        "batch_size": 32,
        "optimizer": "adam",
        "learning_rate": 1e-3,
    },
    "digits": {
        "width": 16,
        "kernel_size": 3,
        "padding": 1,
        "epochs": 30,
        "batch_size": 32,
        "optimizer": "adam",
        "learning_rate": 3e-3,
    },
}
CANDIDATES = [
    {"width": width, "optimizer": optimizer, "learning_rate": rate}
    for width in (16, 32)
    for optimizer, rate in (("adam", 1e-3), ("momentum", 1e-2))
]


def ensemble(
    *,
    dataset: str,
    part: str,
    subsample: int | None,
    n_models: int,
    replace: bool,
    width: int,
    kernel_size: int,
    padding: int,
    epochs: int,
    batch_size: int,
    optimizer: str,
    learning_rate: float,
    seed: int,
    device: str = "auto",
) -> dict[str, Any]:
    """Train networks on random subsamples (or one on all rows) and score their majority vote.

    Parameters
    ----------
    dataset : str
        An image set of :mod:`dpnotes.data`.
    part : {"test", "validation"}
        ``"validation"``: train on all but the last 10,000 training rows and score on those.
    subsample : int or None
        Records drawn for each model; None: one network on all records, without any guarantee.
    n_models, replace
        See :class:`dpnotes.methods.Bagging`.
    width : int
        Channels of the first convolution; the second has twice as many.
    kernel_size, padding, epochs, batch_size, optimizer, learning_rate
        See :class:`dpnotes.learners.NetworkClassifier`.
    seed : int
    device : str

    Returns
    -------
    dict
        accuracy; n (training records); epsilon, delta, adjacency, status of the release; data; device.
    """
    from dpnotes import data
    from dpnotes.learners import NetworkClassifier, device_name
    from dpnotes.methods import Bagging

    arrays = data.load(dataset)
    X, y, X_score, y_score = _parts(arrays, part)
    if arrays.image_shape is None:
        raise ValueError(f"dataset must hold images, got dataset={dataset!r}")
    network = NetworkClassifier(
        arrays.image_shape,
        channels=(width, 2 * width),
        kernel_size=kernel_size,
        padding=padding,
        epochs=epochs,
        batch_size=batch_size,
        optimizer=optimizer,
        learning_rate=learning_rate,
        device=device,
        random_state=seed,
    )
    if subsample is None:
        model: Any = network.fit(X, y)
        guarantee: dict[str, Any] = {"epsilon": None, "delta": None, "adjacency": None, "status": "none"}
    else:
        model = Bagging(
            subsample=subsample,
            estimator=network,
            n_models=n_models,
            replace=replace,
            classes=range(arrays.n_classes),
            random_state=seed,
        ).fit(X, y)
        profile = model.profile_
        guarantee = {"epsilon": 0.0, "delta": profile.delta(0.0)}
        guarantee |= {"adjacency": profile.adjacency, "status": profile.status}
    return {
        "accuracy": float(np.mean(model.predict(X_score) == y_score)),
        "n": len(X),
        **guarantee,
        "data": arrays.digest,
        "device": device_name(device),
    }


def table2a_grid(scale: str, *, subsamples: tuple[int, ...] = (), seeds: int = 5) -> Grid:
    """Rows of Table 2a: one network on one subsample with replacement, for each size, and one on all records.

    ``scale="paper"`` is MNIST with 100 epochs, ``"quick"`` scikit-learn's digits. ``subsamples``: other sizes than the
    scale's own. The network on all records is trained with at most three seeds (ten minutes each on one core).
    """
    if scale not in SUBSAMPLES:
        raise ValueError(f"scale must be one of {', '.join(map(repr, SUBSAMPLES))}, got scale={scale!r}")
    dataset = {"paper": "mnist", "quick": "digits"}[scale]
    common = {"dataset": dataset, "part": "test", "n_models": 1, "replace": True, **NETWORKS[dataset]}
    whole: list[tuple[int | None, int]] = [(None, seed) for seed in range(min(seeds, 3))]
    drawn = [(k, seed) for k in sorted(subsamples or SUBSAMPLES[scale], reverse=True) for seed in range(seeds)]
    return [{**common, "subsample": k, "seed": seed} for k, seed in [*whole, *drawn]]


def settings_grid() -> Grid:
    """Candidates for what the paper leaves open, at two of its sizes, scored on held-out training rows."""
    common = {"dataset": "mnist", "part": "validation", "n_models": 1, "replace": True}
    return [
        {**common, **NETWORKS["mnist"], **candidate, "subsample": k, "seed": seed}
        for candidate in CANDIDATES
        for k in (300, 1000)
        for seed in range(3)
    ]


def settings(rows: pd.DataFrame) -> pd.DataFrame:
    """Mean validation accuracy of each candidate, and the one that the rule chooses.

    The rule: the smallest network whose mean accuracy, over sizes and seeds, lies within one standard error of the best
    candidate's, with the optimiser that is better for it. The standard error is that of the best candidate's mean over
    seeds at each size, the two sizes taken as independent.
    """
    keys = ["width", "optimizer", "learning_rate"]
    means = rows.pivot_table("accuracy", keys, "subsample", aggfunc="mean")
    errors = rows.pivot_table("accuracy", keys, "subsample", aggfunc="sem")
    table = means.set_axis([f"k = {k:,}" for k in means.columns], axis="columns")
    table = table.assign(**{"mean": means.mean(axis=1), "standard error": np.sqrt((errors**2).sum(axis=1)) / 2})
    table = table.reset_index()
    best = table.sort_values("mean").iloc[-1]
    good = table[table["mean"] >= best["mean"] - best["standard error"]]
    chosen = good.sort_values(["width", "mean"], ascending=[True, False]).index[0]
    return table.assign(chosen=["yes" if i == chosen else "" for i in table.index])


def table2a(rows: pd.DataFrame, scale: str) -> pd.DataFrame:
    """Table 2a, published and reproduced: one row for each of its settings, and for further sizes that were run.

    Columns: method, subsample, sigma (the DP-SGD rows' noise), published epsilon and delta, delta (exact), published,
    reproduced, spread, low, high, seeds, difference. Nothing is published for the quick scale.
    """
    ours = rows.assign(method=rows["subsample"].isna().map({True: "No Privacy", False: "Bagging"}), sigma=np.nan)
    paper = paper_table("bagging_table2").query("table == '2a'") if scale == "paper" else None
    keys = ["method", "subsample", "sigma"]
    if paper is None:
        paper = pd.DataFrame(columns=[*keys, "epsilon", "delta", "accuracy"], dtype=float).astype({"method": str})
    paper = paper.rename(columns={"k": "subsample", "value": "accuracy"})
    merged = figures.compare(paper, ours.astype({"subsample": float}), on=keys)
    budgets = paper.rename(columns={"epsilon": "published epsilon", "delta": "published delta"})
    merged = merged.merge(budgets[[*keys, "published epsilon", "published delta"]], on=keys, how="left")
    n = RECORDS[scale]
    merged["delta"] = [
        np.nan if np.isnan(k) else accounting.bagging(n=n, subsample=int(k)).advantage for k in merged["subsample"]
    ]
    rank = merged["method"].map({"No Privacy": 2, "Bagging": 0, "DPSGD": 1})
    order = merged.assign(rank=rank).sort_values(["rank", "subsample", "sigma"], ascending=[True, True, False])
    columns = ["published epsilon", "published delta", "delta", "published", "reproduced", "spread", "low", "high"]
    return order[[*keys, *columns, "seeds", "difference"]].reset_index(drop=True)


def table2a_view(table: pd.DataFrame) -> Styler:
    """Table 2a as the chapter shows it: published, reproduced and their difference, gaps named."""

    def budget(epsilon: float, delta: float) -> str:
        return "" if np.isnan(epsilon) else f"({epsilon:g}, {delta:g})"

    def setting(subsample: float, sigma: float) -> str:
        if subsample > 0:
            return f"Bagging, k = {subsample:,.0f}"
        return f"DP-SGD, sigma = {sigma:g}" if sigma > 0 else "no privacy"

    def mean(value: float, spread: float) -> str:
        if np.isnan(value):
            return figures.GAP
        return f"{value:.2%}" if np.isnan(spread) else f"{value:.2%} ± {100 * spread:.2f}"

    def each(write: Callable[[float, float], str], *columns: str) -> list[str]:
        written = (write(*pair) for pair in zip(*(table[column] for column in columns), strict=True))
        return [text if text == figures.GAP else text.replace(" ", NO_BREAK) for text in written]

    shown = pd.DataFrame(
        {
            "method": each(setting, "subsample", "sigma"),
            "budget": each(budget, "published epsilon", "published delta"),
            "delta": table["delta"],
            "published": table["published"],
            "reproduced": each(mean, "reproduced", "spread"),
            "seeds": table["seeds"],
            "difference": 100 * table["difference"],
        }
    )
    return figures.table(
        shown,
        caption="Test accuracy, published and reproduced (mean and standard deviation over seeds). Published budget: "
        "(epsilon, delta). Difference: reproduced minus published, in percentage points.",
        formats={"published": "{:.2%}", "delta": "{:.5f}", "difference": "{:+.2f}"},
        names={"budget": "published budget", "delta": "exact delta"},
    )


def memorising_attack(*, n: int, subsample: int, n_models: int, trials: int) -> pd.DataFrame:
    """Test for membership by asking bagged nearest-neighbour classifiers for the label that one record alone has.

    Parameters
    ----------
    n : int
        Records, the last of which has a label of its own.
    subsample, n_models
        See :class:`dpnotes.methods.Bagging`.
    trials : int
        Trainings with the record, and as many without it.

    Returns
    -------
    DataFrame
        Columns rate, exact, simulated, low, high (Clopper-Pearson limits at 95 %), one row for each error rate.
    """
    from scipy.stats import binomtest
    from sklearn.neighbors import KNeighborsClassifier

    from dpnotes.methods import Bagging

    X, y = np.arange(float(n))[:, None], (np.arange(n) == n - 1).astype(int)

    def alarms(rows: int) -> int:
        model = Bagging(
            subsample=subsample, n_models=n_models, estimator=KNeighborsClassifier(1), classes=[0, 1]
        )  # fmt: skip
        fits = (model.set_params(random_state=seed).fit(X[:rows], y[:rows]) for seed in range(trials))
        return sum(bool(fit.predict_proba(X[-1:])[0, 1] > 0) for fit in fits)

    profile = accounting.bagging(n=n, subsample=subsample, n_models=n_models)
    cases = [("true positives", profile.advantage, alarms(n)), ("false positives", 0.0, alarms(n - 1))]
    limits = [binomtest(hits, trials).proportion_ci(0.95, method="exact") for _, _, hits in cases]
    return pd.DataFrame(
        {
            "rate": [name for name, _, _ in cases],
            "exact": [exact for _, exact, _ in cases],
            "simulated": [hits / trials for _, _, hits in cases],
            "low": [limit.low for limit in limits],
            "high": [limit.high for limit in limits],
        }
    )


def many_models(*, n: int, drawn: int, n_models: tuple[int, ...]) -> pd.DataFrame:
    """Exact delta of N models on ``drawn / N`` records each, for the three ways of drawing."""
    return pd.DataFrame(
        [
            {
                "N": count,
                "k": drawn // count,
                "with replacement": accounting.bagging(n=n, subsample=drawn // count, n_models=count).advantage,
                "independent": accounting.bagging(
                    n=n, subsample=drawn // count, n_models=count, replace=False
                ).advantage,
                "dealt out": accounting.bagging(
                    n=n, subsample=drawn // count, n_models=count, replace=False, scheme="split"
                ).advantage,
            }
            for count in n_models
        ]
    )


def _parts(arrays: Dataset, part: str) -> tuple[Any, Any, Any, Any]:
    """Rows and labels to train on, rows and labels to score."""
    X, y, held = arrays.X_train, arrays.y_train, VALIDATION_ROWS
    if part == "test":
        return X, y, arrays.X_test, arrays.y_test
    if part == "validation":
        return X[:-held], y[:-held], X[-held:], y[-held:]
    raise ValueError(f"part must be 'test' or 'validation', got part={part!r}")


def _seconds(parameters: Mapping[str, Any]) -> float:
    """Measured on one core: 9,000 images a second with width 16, a third of it with width 32."""
    rows = (parameters["subsample"] or 60_000) * parameters["n_models"] * parameters["epochs"]
    return float(rows / 9000 * (parameters["width"] / 16) ** 1.6)


EXPERIMENTS = [
    Experiment(
        "bagging_table2a",
        ensemble,
        {"paper": lambda: table2a_grid("paper"), "quick": lambda: table2a_grid("quick", seeds=3)},
        tolerance={"accuracy": 0.01, "delta": 1e-12},
        cost=_seconds,
    ),
    Experiment(
        "bagging_settings",
        ensemble,
        {"paper": settings_grid},
        tolerance={"accuracy": 0.01, "delta": 1e-12},
        cost=_seconds,
    ),
]
