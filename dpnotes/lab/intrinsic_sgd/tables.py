"""Tables of the chapter on intrinsic privacy, from the rows of its experiments and the numbers in the paper."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd

from dpnotes.accounting import gaussian_sigma
from dpnotes.accounting.papers import intrinsic_epsilon
from dpnotes.lab._experiment import paper_table
from dpnotes.lab.intrinsic_sgd.data import TASKS, UNSCALED
from dpnotes.lab.tables import GAP

QUANTITIES = {  # of Table III: in the published file, here, in words
    "sensitivity_theoretical": ("published", "sensitivity, theoretical"),
    "sensitivity_empirical": ("observed", "sensitivity, observed"),
    "delta": ("delta", "delta = 1/n"),
    "sigma_intrinsic": ("sigma", "sigma over seeds"),
    "epsilon_intrinsic": ("epsilon", "epsilon, theoretical"),
    "epsilon_intrinsic_empirical": ("epsilon_observed", "epsilon, observed"),
}
METRICS = ("sigma", "observed", "published", "proved", "n", "n_test", "d", "accuracy")  # of a summary
AUDIT = [
    "task",
    "initial",
    "record",
    "true positives",
    "false positives",
    "epsilon at least",
    "claimed",
    "claimed, observed",
    "mu at least",
    "mu claimed, observed",
    "delta at least",
]


def task_name(dataset: str) -> str:
    """Name of a task as the chapter shows it."""
    return TASKS.get(dataset, dataset) + (", rows unscaled" if dataset == UNSCALED else "")


def sizes(summary: pd.DataFrame) -> pd.DataFrame:
    """Tables I and II: sizes, settings and numbers of runs, published and used; one row for each task and quantity."""
    ours = (
        _logistic(summary)
        .groupby("dataset", sort=False)
        .agg(
            n_train=("n", "first"),
            n_test=("n_test", "first"),
            dimension=("d", "first"),
            batch_size=("batch_size", "first"),
            learning_rate=("learning_rate", "first"),
            convergence_batches=("steps", "first"),
            runs=("n_seeds", "size"),
            n_seeds=("n_seeds", "first"),
            n_neighbours=("n_neighbours", "first"),
        )
    )
    ours["n_experiments"] = ours["runs"] * ours["n_seeds"] * (ours["n_neighbours"] + 1)
    published = pd.concat([paper_table(f"intrinsic_sgd_table{number}") for number in (1, 2)])
    names = [*published["quantity"].unique()]
    rows = []
    for dataset, row in ours.iterrows():
        printed = published[published["dataset"] == TASKS.get(str(dataset), "")].set_index("quantity")["value"]
        for name in names:
            if name in row:
                rows.append({"task": task_name(str(dataset)), "quantity": name.replace("_", " ").replace("n ", "")}
                            | {"published": printed.get(name, np.nan), "used": float(row[name])})  # fmt: skip
    return pd.DataFrame(rows, columns=["task", "quantity", "published", "used"])


def table3(summary: pd.DataFrame) -> pd.DataFrame:
    """Table III, published, reproduced and their difference: one row for each task and quantity."""
    printed = paper_table("intrinsic_sgd_table3").set_index(["dataset", "quantity"])["value"].to_dict()
    rows = []
    for row in with_epsilons(summary).query("initial == 'varied'").to_dict("records"):
        for name, (column, words) in QUANTITIES.items():
            published = printed.get((TASKS.get(row["dataset"], ""), name), np.nan)
            reproduced = row[column]
            rows.append(
                {
                    "task": task_name(row["dataset"]),
                    "quantity": words,
                    "published": published,
                    "reproduced": reproduced,
                    "difference": reproduced - published,
                    "relative": reproduced / published - 1,
                }
            )
    return pd.DataFrame(rows, columns=["task", "quantity", "published", "reproduced", "difference", "relative"])


def with_epsilons(summary: pd.DataFrame) -> pd.DataFrame:
    """Rows of logistic regression with delta = 1/n and epsilon by several readings of sensitivity and sigma.

    ``epsilon`` and ``epsilon_observed`` by the paper's formula; ``_exact`` by the exact condition; ``epsilon_proved``
    exactly, with the sensitivity that counts a broken-off pass as a visit.
    """
    bounds = ("published", "proved", "observed")
    rows = _logistic(summary).astype(dict.fromkeys(bounds, float))  # a bound that no row has is None in all of them
    rows["delta"] = 1 / rows["n"].astype(float)
    for name, column, analysis in (
        ("epsilon", "published", "published"),
        ("epsilon_exact", "published", "tight"),
        ("epsilon_observed", "observed", "published"),
        ("epsilon_observed_exact", "observed", "tight"),
        ("epsilon_proved", "proved", "tight"),
    ):
        rows[name] = [
            intrinsic_epsilon(sigma=row["sigma"], sensitivity=row[column], delta=row["delta"], analysis=analysis)
            if row["sigma"] > 0 and row[column] > 0
            else np.nan
            for row in rows.to_dict("records")
        ]
    return rows


def unit_epsilons(summary: pd.DataFrame) -> dict[tuple[str, str], float]:
    """Epsilon of a distance of 1 by the paper's formula, by (data set, initialisation): networks."""
    deep = summary[summary["hidden"].notna() & summary["sigma"].notna()]
    return {
        (row["dataset"], row["initial"]): intrinsic_epsilon(
            sigma=row["sigma"], sensitivity=1.0, delta=1 / row["n"], analysis="published"
        )
        for row in deep.to_dict("records")
    }


def readings(summary: pd.DataFrame) -> pd.DataFrame:
    """Epsilon of each task and initialisation, by each reading."""
    rows = with_epsilons(summary)
    columns = ["sigma", "epsilon", "epsilon_exact", "epsilon_proved", "epsilon_observed", "epsilon_observed_exact"]
    return rows.assign(task=rows["dataset"].map(task_name))[["task", "initial", *columns]].reset_index(drop=True)


def noise_sources(summary: pd.DataFrame) -> pd.DataFrame:
    """How much of sigma is the initialisation, and how far the weights are from one isotropic Gaussian."""
    rows = _logistic(summary).set_index(["dataset", "initial"])
    found = []
    for dataset in rows.index.get_level_values(0).unique():
        if not {"varied", "fixed"} <= set(rows.loc[dataset].index):
            continue
        varied, fixed = (rows.loc[(dataset, initial)] for initial in ("varied", "fixed"))
        found.append(
            {
                "task": task_name(dataset),
                "sigma varied": varied["sigma"],
                "sigma fixed": fixed["sigma"],
                "initialisation": 1 - (fixed["sigma"] / varied["sigma"]) ** 2,
                "quietest": varied["direction_sigma_low"],
                "quietest fixed": fixed["direction_sigma_low"],
                "weights": varied["n_parameters"],
                "rejected": varied["rejected_corrected"],
                "rejected fixed": fixed["rejected_corrected"],
            }
        )
    columns = ["task", "sigma varied", "sigma fixed", "initialisation", "quietest", "quietest fixed", "weights"]
    return pd.DataFrame(found, columns=[*columns, "rejected", "rejected fixed"])


def table4(utility: pd.DataFrame) -> pd.DataFrame:
    """Table IV, published, reproduced and their difference, at epsilon = 1: one row for each task and entry."""
    keys = ["dataset", "sensitivity", "treatment", "metric"]
    printed = paper_table("intrinsic_sgd_table4").fillna({"sensitivity": "none"}).set_index(keys)["value"].to_dict()
    ours = utility.query("initial == 'varied'")
    rows = []
    for dataset in ours["dataset"].unique():
        own = ours[ours["dataset"] == dataset]
        quiet = _value(own, "accuracy", noise="none")
        entries = [("none", "noiseless", "accuracy", quiet, _value(own, "accuracy_spread", noise="none"), np.nan)]
        for sensitivity, noise in (("theoretical", "published"), ("empirical", "observed")):
            same = own[own["analysis"] == _analysis(own, noise)]
            plain, counted = ({"noise": noise, "epsilon": 1.0, "counted": flag} for flag in (False, True))
            noisy, gain, t = (
                _value(same, "accuracy", **plain),
                *(_value(same, n, **counted) for n in ("gain", "gain_t")),
            )
            gap = quiet - noisy
            entries += [
                (
                    sensitivity,
                    "SGD as deterministic",
                    "accuracy",
                    noisy,
                    _value(same, "accuracy_spread", **plain),
                    np.nan,
                ),
                (sensitivity, "SGD as random", "accuracy_gain", gain, np.nan, t),
                (sensitivity, "SGD as random", "gap_closed", gain / gap if gap > 1e-4 else np.nan, np.nan, np.nan),
            ]
        for sensitivity, treatment, metric, value, spread, t in entries:
            published = printed.get((TASKS.get(dataset, ""), sensitivity, treatment, metric), np.nan)
            rows.append(
                {
                    "task": task_name(dataset),
                    "sensitivity": {"none": "", "theoretical": "theoretical", "empirical": "observed"}[sensitivity],
                    "entry": {"accuracy": treatment, "accuracy_gain": "gain", "gap_closed": "of the gap"}[metric],
                    "published": published,
                    "reproduced": value,
                    "spread": spread,
                    "difference": value - published,
                    "t": t,
                }
            )
    return pd.DataFrame(rows)


def calibrations(utility: pd.DataFrame, last_iterate: pd.DataFrame) -> pd.DataFrame:
    """Noise and accuracy at epsilon = 1 by each rule: what is counting on SGD's noise, what is calibration."""
    rules: dict[str, dict[str, Any]] = {
        "no noise: no guarantee": {"noise": "none"},
        "classical formula, a fraction of a pass": {"noise": "published", "analysis": "published", "counted": False},
        "the same, counting SGD's own noise": {"noise": "published", "analysis": "published", "counted": True},
        "exact calibration, a fraction of a pass": {"noise": "published", "analysis": "tight", "counted": False},
        "exact calibration, proved sensitivity": {"noise": "proved", "analysis": "tight", "counted": False},
    }
    ours = utility.query("initial == 'varied'")
    ours = ours[ours["epsilon"].isna() | (ours["epsilon"] == 1.0)]
    rows = []
    for dataset in ours["dataset"].unique():
        own = ours[ours["dataset"] == dataset]
        sound = _where(last_iterate, dataset=dataset, epsilon=1.0)
        kinds = [(words, own, where) for words, where in rules.items() if len(_where(own, **where))]
        kinds += [("noise in each step, last weights released", sound, {})] if len(sound) else []
        rows += [
            {
                "task": task_name(dataset),
                "rule": words,
                "noise": _value(found, "noise_sigma", **where),
                "accuracy": _value(found, "accuracy", **where),
            }
            for words, found, where in kinds
        ]
    return pd.DataFrame(rows, columns=["task", "rule", "noise", "accuracy"])


def audits(rows: pd.DataFrame, summary: pd.DataFrame) -> pd.DataFrame:
    """What the membership tests prove, beside what is claimed: one row for each task, initialisation and record."""
    claims = with_epsilons(summary).set_index(["dataset", "initial"])
    found = []
    for row in rows.to_dict("records"):
        key = (row["dataset"], row["initial"])
        if key not in claims.index or np.isnan(float(row["epsilon_low"])):
            continue
        claim = claims.loc[key]
        found.append(
            {
                "task": task_name(row["dataset"]),
                "initial": row["initial"],
                "record": row["record"],
                "true positives": row["true_positives"] / row["positives"],
                "false positives": row["false_positives"] / row["negatives"],
                "epsilon at least": row["epsilon_low"],
                "claimed": claim["epsilon_exact"],
                "claimed, observed": claim["epsilon_observed_exact"],
                "mu at least": row["mu_low"],
                "mu claimed, observed": claim["observed"] / claim["sigma"],
                "delta at least": row["delta_low"],
            }
        )
    return pd.DataFrame(found, columns=AUDIT)


def hyperparameters(rows: pd.DataFrame) -> pd.DataFrame:
    """Sigma, epsilon and accuracy for each batch size, rate and schedule; both initialisations side by side.

    Epsilon is exact, for the proved sensitivity, under the paper's assumption; without a bound it is a gap.
    """
    given = with_epsilons(rows)
    keys = ["dataset", "batch_size", "learning_rate", "schedule"]
    both = {
        initial: given[given["initial"] == initial].set_index(keys)[["sigma", "epsilon_proved", "accuracy"]]
        for initial in ("varied", "fixed")
    }
    wide = both["varied"].add_suffix(" varied").join(both["fixed"].add_suffix(" fixed")).reset_index()
    wide = wide.assign(task=wide["dataset"].map(task_name))
    columns = ["task", *keys[1:], *(f"sigma {i}" for i in both), *(f"epsilon_proved {i}" for i in both)]
    wide = wide[["dataset", *columns, "accuracy varied"]]
    names = {f"epsilon_proved {i}": f"epsilon {i}" for i in both} | {"accuracy varied": "accuracy"}
    return wide.rename(columns=names)


def exact_saving(epsilon: float, delta: float) -> float:
    """Share of the noise that exact calibration saves against the classical formula."""
    return 1 - float(gaussian_sigma(epsilon, delta)) / float(gaussian_sigma(epsilon, delta, analysis="classical"))


def _logistic(summary: pd.DataFrame) -> pd.DataFrame:
    """Rows of logistic regression that are there; a store that does not exist yet has no columns of metrics."""
    rows = summary.reindex(columns=[*summary.columns, *(name for name in METRICS if name not in summary)])
    return rows[rows["hidden"].isna() & rows["sigma"].notna()]


def _analysis(own: pd.DataFrame, noise: str) -> str:
    """The calibration of the rows with SGD's noise counted: the classical one on the paper's tasks."""
    found = _where(own, noise=noise, counted=True)["analysis"]
    return str(found.iloc[0]) if len(found) else ""


def _where(rows: pd.DataFrame, **where: Any) -> pd.DataFrame:
    """Rows in which each column has the value; none where there is not even the column."""
    if not set(where) <= set(rows):
        return rows.iloc[:0]
    for name, value in where.items():
        rows = rows[rows[name] == value]
    return rows


def _value(rows: pd.DataFrame, column: str, **where: Any) -> float:
    """A number of the first row that fits; not a number where there is a gap."""
    if column not in rows:
        return math.nan
    values = _where(rows, **where)[column].dropna()
    return float(values.iloc[0]) if len(values) else math.nan


def shown(table: pd.DataFrame, column: str, pattern: str, **where: Any) -> str:
    """One value of a table as text, of the first row that fits; the word for a gap where there is none."""
    value = _value(table, column, **where)
    return GAP if math.isnan(value) else pattern.format(value)
