"""Tables of the bagging chapter, and its small live experiments."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from dpnotes import accounting
from dpnotes.lab import tables
from dpnotes.lab._experiment import paper_table
from dpnotes.lab.bagging.cells import budget_text, drawn, mean_text, setting_text
from dpnotes.lab.bagging.grids import RECORDS

if TYPE_CHECKING:
    from pandas.io.formats.style import Styler


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


def table2a(rows: pd.DataFrame, scale: str, dp_sgd: pd.DataFrame | None = None) -> pd.DataFrame:
    """Table 2a, published and reproduced: one row for each of its settings, and for further sizes that were run.

    Columns: method, subsample, sigma (the DP-SGD rows' noise), published epsilon and delta, delta (exact), published,
    reproduced, spread, low, high, seeds, difference. Nothing is published for the quick scale. ``dp_sgd``: rows of
    DP-SGD, of which those with a given noise multiplier are shown.
    """
    ours = rows.assign(method=rows["subsample"].isna().map({True: "No Privacy", False: "Bagging"}), sigma=np.nan)
    if dp_sgd is not None:
        given = dp_sgd.dropna(subset=["noise_multiplier"])
        given = given.assign(method="DPSGD", subsample=np.nan, sigma=given["noise_multiplier"].astype(float))
        given = given.reindex(columns=[*given.columns, *({"accuracy"} - set(given.columns))])  # nothing was run
        ours = pd.concat([ours, given[["method", "subsample", "sigma", "seed", "accuracy"]]], ignore_index=True)
    paper = paper_table("bagging_table2").query("table == '2a'") if scale == "paper" else None
    keys = ["method", "subsample", "sigma"]
    if paper is None:
        paper = pd.DataFrame(columns=[*keys, "epsilon", "delta", "accuracy"], dtype=float).astype({"method": str})
    paper = paper.rename(columns={"k": "subsample", "value": "accuracy"})
    merged = tables.compare(paper, ours.astype({"subsample": float}), on=keys).rename(columns={"std": "spread"})
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

    def setting(subsample: float, sigma: float) -> str:
        return setting_text(f"DP-SGD, sigma = {sigma:g}" if sigma > 0 else drawn(subsample))

    means = zip(table["reproduced"], table["spread"], strict=True)
    shown = pd.DataFrame(
        {
            "method": [*map(setting, table["subsample"], table["sigma"])],
            "budget": [*map(budget_text, table["published epsilon"], table["published delta"])],
            "delta": table["delta"],
            "published": table["published"],
            "reproduced": [mean_text(*pair, tables.GAP) for pair in means],
            "seeds": table["seeds"],
            "difference": 100 * table["difference"],
        }
    )
    return tables.show(
        shown,
        caption="Test accuracy, published and reproduced (mean and standard deviation over seeds). Published budget: "
        "(epsilon, delta). Difference: reproduced minus published, in percentage points.",
        formats={"published": "{:.2%}", "delta": "{:.5f}", "difference": "{:+.2f}"},
        names={"budget": "published budget", "delta": "exact delta"},
    )


def baselines(rows: pd.DataFrame, dp_sgd: pd.DataFrame, scale: str) -> pd.DataFrame:
    """DP-SGD at each budget of Table 2a, with the paper's noise and with the least noise that the budget allows.

    Columns: epsilon, delta, sigma (the paper's), advantage (total variation at that noise), published and accuracy at
    that noise, tight sigma, tight advantage, tight accuracy, bagging (mean accuracy at the same budget), subsample.
    Nothing is published for the quick scale, which has no such table: it is empty then.
    """
    columns = ["epsilon", "delta", "sigma", "advantage", "published", "accuracy"]
    columns += ["tight sigma", "tight advantage", "tight accuracy", "bagging", "subsample"]
    if scale != "paper":
        return pd.DataFrame(columns=columns)
    paper = paper_table("bagging_table2").query("table == '2a'")
    theirs = paper.query("method == 'DPSGD'")[["epsilon", "delta", "sigma", "value"]]
    bagged = paper.query("method == 'Bagging'")[["epsilon", "delta", "k"]].rename(columns={"k": "subsample"})
    table = theirs.rename(columns={"value": "published"}).merge(bagged, on=["epsilon", "delta"])
    results = dp_sgd.reindex(columns=[*dp_sgd.columns, *{"sigma", "advantage", "accuracy"} - set(dp_sgd.columns)])
    given = results.dropna(subset=["noise_multiplier"])[["noise_multiplier", "advantage", "accuracy"]].astype(float)
    least = results[results["noise_multiplier"].isna()][["epsilon", "delta", "sigma", "advantage", "accuracy"]]
    least = least.astype(float).rename(columns=lambda name: name if name in ("epsilon", "delta") else f"tight {name}")
    table = table.merge(given.rename(columns={"noise_multiplier": "sigma"}), on="sigma", how="left")
    table = table.merge(least, on=["epsilon", "delta"], how="left")
    means = rows.dropna(subset=["subsample"]).groupby("subsample")["accuracy"].mean().astype(float)
    return table.assign(bagging=table["subsample"].map(means))[columns]


def baselines_view(table: pd.DataFrame) -> Styler:
    """DP-SGD's two noises as the chapter shows them, gaps named."""
    shown = table.assign(budget=[*map(budget_text, table["epsilon"], table["delta"])])
    names = {
        "sigma": "published sigma",
        "advantage": "its total variation",
        "accuracy": "accuracy, published sigma",
        "tight sigma": "tight sigma",
        "tight advantage": "its total variation ",
        "tight accuracy": "accuracy, tight sigma",
        "bagging": "accuracy, bagging",
    }
    accuracies = ["accuracy", "tight accuracy", "bagging"]
    return tables.show(
        shown[["budget", *names]],
        caption="DP-SGD at the budgets of Table 2a: with the noise of the paper and with the least noise that tight "
        "accounting allows, one run each, beside bagging (mean over seeds). Accuracies on the test set.",
        formats={**dict.fromkeys(accuracies, "{:.2%}"), "sigma": "{:g}", "tight sigma": "{:.3g}"},
        names=names,
        gaps=dict.fromkeys([*accuracies, "advantage", "tight sigma", "tight advantage"], tables.GAP),
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
