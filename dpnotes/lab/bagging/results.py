"""Results of the bagging chapter: tables from rows and, for what it runs live, from
small experiments; what the paper says against our rows, by the one rule.

A single run has no standard deviation of its own. A run of DP-SGD borrows that of the
ten-epoch runs of the same network by DP-SGD, pooled over their settings; the network on
all records of Table 3a borrows that of Table 2a. The paper prints no standard deviation
and no number of runs; each printed number counts as one run whose standard deviation is
that of our rows of the cell.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from dpnotes import accounting
from dpnotes.lab import scorecard
from dpnotes.lab._experiment import Grid, paper_table
from dpnotes.lab.bagging import grids
from dpnotes.lab.bagging.experiments import EXPERIMENTS
from dpnotes.lab.bagging.exposure import profile, tpr_at_fpr_1e3
from dpnotes.lab.scorecard import Cell, Ours
from dpnotes.lab.tables import (
    GAP,
    NO_BREAK,
    OVER_SEEDS,
    Column,
    Table,
    columns,
    mean_text,
)
from dpnotes.lab.verdicts import (
    NEGLIGIBLE,
    NOBODY,
    Borrowed,
    Mean,
    Question,
    above,
    compared,
    every,
    level,
    not_behind,
    verdict,
)

SETTING = [
    *("method", "variant", "subsample", "sigma", "target_epsilon", "target_delta"),
    *("answers", "queries"),
]
METHODS = ["bagging", "pate", "dp_sgd", "none"]  # in the order of Table 2a
# by table: what its rows are scored on
SPLITS = {"2a": "test", "2b": "test", "3a": "rest", "3b": "rest"}
# first seed that judges Figure 2: the rule was replaced when 0 to 2 had been seen
FRESH = {"paper": 3, "quick": 0}


def table(
    name: str,
    rows: pd.DataFrame,
    dp_sgd: pd.DataFrame,
    pate: pd.DataFrame | None = None,
    *,
    scale: str,
) -> pd.DataFrame:
    """Table 2a, 2b, 3a or 3b, published and reproduced: its lines in the paper's order,
    each variant below its cell; of Table 2a what was run besides, too.

    Columns: those of :data:`SETTING` and :func:`reproduced`, block, epsilon and delta
    (published), published (accuracy), difference (reproduced minus published). Nothing
    is published for the quick scale.
    """
    # Figures 1 and 2 have their rows in the store of Table 3a
    single = (rows["n_models"] == 1) & rows["replace"]
    rows = rows[single & (rows["split"] == SPLITS[name])]
    dp_sgd = dp_sgd[dp_sgd["split"] == SPLITS[name]]
    ours = reproduced(rows, dp_sgd, pate, scale=scale)
    lines = published(name)
    if scale == "quick":
        found = lines.head(0).merge(ours, on=SETTING, how="right")
    else:
        # other sizes than the paper's are asked for in Table 2a alone
        found = lines.merge(ours, on=SETTING, how="outer" if name == "2a" else "left")
    found["seeds"] = found["seeds"].fillna(0).astype(int)
    found["difference"] = found["reproduced"] - found["published"]
    if name != "2a" and scale != "quick":
        return found
    # lines that are not the paper's stand among the others
    found["rank"] = found["method"].map(METHODS.index)
    by = {"rank": True, "subsample": True, "sigma": False}
    found = found.sort_values([*by], ascending=[*by.values()], ignore_index=True)
    return found.drop(columns="rank")


def published(table: str) -> pd.DataFrame:
    """Lines of a published table; below each of DP-SGD the one with the least noise
    for its budget, for which nothing is published.
    """
    lines = grids.printed(table).rename(columns={"printed": "published"})
    lines = lines.assign(variant="", block=lines["delta"])
    lines = lines.reindex(columns=[*SETTING, "block", "epsilon", "delta", "published"])
    least = lines.query("method == 'dp_sgd'")
    least = least.assign(target_epsilon=least["epsilon"], target_delta=least["delta"])
    unpublished = dict.fromkeys(("sigma", "epsilon", "delta", "published"), np.nan)
    below = least.assign(variant="least_noise", **unpublished)
    both = pd.concat([lines, below]).sort_index(kind="stable")
    return both.astype(dict.fromkeys(both.columns.difference(SETTING[:2]), float))


def reproduced(
    rows: pd.DataFrame,
    dp_sgd: pd.DataFrame,
    pate: pd.DataFrame | None = None,
    *,
    scale: str,
) -> pd.DataFrame:
    """Rows of the three experiments, one line for each setting.

    Columns: those of :data:`SETTING`; reproduced (mean accuracy), std, low, high (over
    seeds), seeds; noise (the noise multiplier used); advantage (total variation that
    the release guarantees; where the noise is yet to be calibrated, that its budget
    guarantees); cpu_seconds and gpu_hours (what rows that were not run need).
    """
    bagged = _measured(rows, scale).assign(variant="")
    bagged["method"] = np.where(rows["subsample"].isna(), "none", "bagging")
    noisy = _measured(dp_sgd, scale).assign(method="dp_sgd")
    noise = noisy["noise_multiplier"]
    noisy["variant"] = np.where(noise.isna(), "least_noise", "")
    # calibrated noise is a metric of the row, which a gap lacks
    noisy["noise"] = noisy.get("sigma", noise)
    noisy["sigma"] = noise  # that was asked for
    noisy["target_epsilon"] = noisy["epsilon"]
    noisy["target_delta"] = noisy["delta"]
    frames = [bagged, noisy]
    if pate is not None:
        voted = _measured(pate, scale).assign(method="pate", variant="")
        # a row that stops after its answers is named by these
        voted["queries"] = pate["queries"].where(pate["answers"].isna())
        frames.append(voted)
    names = [*SETTING[2:], "accuracy", "noise", "advantage", "cpu_seconds", "gpu_hours"]
    numbers = dict.fromkeys(names, float)
    same = []
    for frame in frames:
        own = frame.reindex(columns=[*SETTING[:2], *names])
        same.append(own.astype(numbers))
    # settings are keys, and most of them are empty for a method
    groups = pd.concat(same, ignore_index=True).groupby(
        SETTING, dropna=False, sort=False
    )
    table: pd.DataFrame = groups["accuracy"].agg(**OVER_SEEDS)
    table[["noise", "advantage"]] = groups[["noise", "advantage"]].max()
    table[["cpu_seconds", "gpu_hours"]] = groups[["cpu_seconds", "gpu_hours"]].sum()
    return table.reset_index()


def _measured(rows: pd.DataFrame, scale: str) -> pd.DataFrame:
    """Rows with the advantage of each, the stored one or from its parameters, and
    what one that was not run needs.
    """
    told = []
    for row in parameters(rows):
        advantage = row.get("advantage")
        if advantage is None:
            guarantee = profile(row, grids.RECORDS[scale])
            advantage = np.nan if guarantee is None else guarantee.advantage
        needed = (0.0, 0.0)
        if row.get("accuracy") is None:
            needed = grids.seconds(row), grids.gpu_hours(row)
        told.append((float(advantage), *needed))
    names = ["advantage", "cpu_seconds", "gpu_hours"]
    return rows.assign(**pd.DataFrame(told, columns=names, index=rows.index))


def parameters(rows: pd.DataFrame) -> list[Mapping[str, Any]]:
    """Rows as the dicts that they were asked by, None for what a row lacks."""
    present = rows.astype(object).where(rows.notna(), None)
    found: list[Mapping[str, Any]] = present.to_dict("records")  # type: ignore[assignment]
    return found


def replacement(rows: pd.DataFrame, scale: str) -> pd.DataFrame:
    """Accuracy with and without replacement at each size, of the seeds that are judged.

    Columns: subsample, with_replacement, with_std, without_replacement, without_std,
    difference, low, high (its interval), seeds (of the side that has fewer). Sizes of
    which a side has no such seed are left out.
    """
    # Figure 2 compares single models
    single = _run(rows).query("n_models == 1")
    lines = []
    for size, group in single[single["seed"] >= FRESH[scale]].groupby("subsample"):
        sides = [
            group[group["replace"] == replace]["accuracy"] for replace in (True, False)
        ]
        # a side without a seed that may judge leaves its size out
        seeds = min(map(len, sides))
        if seeds:
            means = []
            described = []
            for side in sides:
                means.append(Mean.of(side.mean(), side.std(), len(side)))
                described += [side.mean(), side.std()]
            difference = means[0] - means[1]
            lines.append(
                (size, *described, difference.value, *difference.interval(), seeds)
            )
    columns = [
        "subsample",
        "with_replacement",
        "with_std",
        "without_replacement",
        "without_std",
    ]
    table = pd.DataFrame(
        lines, columns=[*columns, "difference", "low", "high", "seeds"]
    )
    return table.astype({"subsample": int})


def fixed_draws(rows: pd.DataFrame, scale: str) -> pd.DataFrame:
    """Figure 1: columns drawn (N k), n_models, accuracy (mean), std, low, high,
    seeds, for each point with rows.
    """
    asked = []
    for total, counts in grids.MODELS[scale].items():
        for count in counts:
            # k of each model, so that N k is the total
            asked.append((total, count, total // count))
    points = pd.DataFrame(asked, columns=["drawn", "n_models", "subsample"])
    done = _run(rows).query("replace").merge(points, on=["n_models", "subsample"])
    groups = done.groupby(["drawn", "n_models"])["accuracy"]
    table: pd.DataFrame = groups.agg(**OVER_SEEDS).reset_index()
    return table.rename(columns={"reproduced": "accuracy"})


def _run(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows on subsamples that were run."""
    rows = rows.assign(accuracy=_accuracy(rows)).astype({"subsample": float})
    return rows.dropna(subset=["subsample", "accuracy"])


def equals(name: str, value: str) -> str:
    """A setting such as k = 300, on one line."""
    return f"{name}{NO_BREAK}={NO_BREAK}{value}"


def method_name(row: Any) -> str:
    """What a line of a table is called, e.g. "bagging, k = 300"."""
    if row.variant:
        return "the same with the least sigma"
    if row.method == "pate":
        if row.answers > 0:
            return f"PATE, {row.answers:.0f} answers"
        return f"PATE, {row.queries:.0f} queries"
    if row.method == "dp_sgd":
        return f"DP-SGD, {equals('sigma', f'{row.sigma:g}')}"
    if row.method == "bagging":
        return f"bagging, {equals('k', f'{row.subsample:,.0f}')}"
    return "no privacy"


def _budget(row: Any) -> str:
    return "" if np.isnan(row.epsilon) else f"({row.epsilon:g},{NO_BREAK}{row.delta:g})"


def _minutes(row: Any) -> str:
    return (
        f"not run: {max(1, round(row.cpu_seconds / 60))} min of CPU"
        if row.cpu_seconds > 0
        else GAP
    )


def _hours(row: Any) -> str:
    return (
        f"not run: {max(row.gpu_hours, 0.01):.2f} h on a GPU"
        if row.gpu_hours > 0
        else GAP
    )


def _accuracies(caption: str, exposed: Column, gap: Callable[[Any], str]) -> Table:
    means = Column(
        "reproduced", text=lambda row: mean_text(row.reproduced, row.std, gap=gap(row))
    )
    difference = Column("difference", format="{:+.2f}", scale=100)
    published = Column("published", format="{:.2%}")
    return Table(
        caption,
        Column("method", text=method_name),
        published,
        means,
        difference,
        exposed,
        BUDGET,
        "seeds",
    )


BUDGET = Column("budget", "published budget", text=_budget)
ADVANTAGE = Column("advantage", format="{:.4f}")

TABLE_2A = _accuracies(
    "Test accuracy, published and reproduced (mean and standard deviation over seeds)."
    " Difference: reproduced minus published, in percentage points. Published budget:"
    " (epsilon, delta). Sigma: noise multiplier. Rows: bagging_table2a.csv (by the"
    " experiment bagging.ensemble, above) and bagging_dp_sgd.csv, in book/results.",
    Column("advantage", "least delta at epsilon 0", format="{:.5f}", gap="–"),
    _minutes,
)
TABLE_3A = _accuracies(
    "Accuracy on 9,000 test images after training from a public model, published and"
    " reproduced (mean and standard deviation over seeds). Advantage: the largest"
    " advantage of any membership test that the guarantee of our run allows.",
    ADVANTAGE,
    _minutes,
)
CIFAR10 = _accuracies(
    "{which}: accuracy on CIFAR-10. Advantage: the largest advantage of any membership"
    " test that the guarantee of the run allows. If the least sigma has not been"
    " computed yet, it is the largest advantage that the budget allows. The hours are"
    " estimates for a GPU that trains on {plain:,.0f} images a second, or on"
    " {private:,.0f} with DP-SGD.",
    ADVANTAGE,
    _hours,
)
# of runs that differ in seeds
KEYS = ["subsample", "width", "sigma", "batch_size", "epochs", "queries", "answers"]
# what the noise of DP-SGD at equal exposure is calibrated to
TARGET = ["epsilon", "delta", "tpr_at_fpr_1e3"]
SENSES = {"advantage": "delta", "tpr": "tpr_at_fpr_1e3"}
CONTENDERS = ("softmax", "network", "hog")
ATTACK = ["attack", "mislabelled", "false_positive_rate"]
POINT = [
    "method",
    "variant",
    "setting",
    "advantage",
    "tpr_at_fpr_1e3",
    "accuracy",
    "seeds",
]


def equal_exposure(
    bagging: pd.DataFrame,
    equal: pd.DataFrame,
    scale: str,
    handcrafted: tuple[pd.DataFrame, pd.DataFrame] | None = None,
) -> pd.DataFrame:
    """Bagging at each size beside DP-SGD that exposes as much: in advantage, or at 0.1%
    false positives.

    Parameters
    ----------
    bagging, equal : DataFrame
        Rows of networks, and of DP-SGD on pixels.
    scale : str
    handcrafted : tuple of DataFrame, optional
        Rows of bagging and of DP-SGD on handcrafted features.

    Returns
    -------
    DataFrame
        Columns subsample, advantage; mean accuracy of bagging, bagging_hog (logistic
        regressions on handcrafted features), and of DP-SGD at equal advantage and at
        equal true-positive rate: softmax_advantage, softmax_tpr, network_advantage,
        network_tpr, hog_advantage, hog_tpr. For each of them its standard deviation
        ("..._std") and number of seeds ("..._seeds"); NaN and 0 where not run.
    """
    # handcrafted features have no quick scale
    nothing = pd.DataFrame(
        columns=["subsample", "width", "delta", "tpr_at_fpr_1e3", "accuracy"]
    )
    frames = (bagging, equal, *(handcrafted or (nothing, nothing)))
    bagging, equal, bagged, features = (
        frame.assign(accuracy=_accuracy(frame)) for frame in frames
    )
    rows = {
        "softmax": equal[equal["width"].isna()],
        "network": equal[equal["width"].notna()],
        "hog": features,
    }
    lines = []
    # the network on all records has no exposure to be equal to
    sizes: Any = bagging.dropna(subset=["subsample"]).groupby("subsample")
    for size, drawn in sizes:
        pi = accounting.bagging(n=grids.RECORDS[scale], subsample=int(size)).advantage
        groups = {
            "bagging": drawn,
            "bagging_hog": bagged[bagged["subsample"].astype(float) == size],
        }
        for sense, column in SENSES.items():
            for model in CONTENDERS:
                groups[f"{model}_{sense}"] = rows[model][
                    # exposures are floats that were written as decimal text
                    np.isclose(rows[model][column].astype(float), pi)
                ]
        line = {"subsample": int(size), "advantage": pi}
        for name, group in groups.items():
            accuracy = group["accuracy"]
            line |= {
                name: accuracy.mean(),
                f"{name}_std": accuracy.std(),
                f"{name}_seeds": accuracy.count(),
            }
        lines.append(line)
    return pd.DataFrame(lines)


def standings(equal: pd.DataFrame) -> pd.DataFrame:
    """How bagging stands to each contender at equal exposure: ahead, behind, equal,
    undecided or not run.

    Columns: subsample; softmax_advantage, ..., hog_tpr (bagging of networks to DP-SGD);
    hogs_advantage, hogs_tpr (bagging on handcrafted features to DP-SGD on them).
    """
    pairs = {}
    for sense, model in itertools.product(SENSES, CONTENDERS):
        pairs[f"{model}_{sense}"] = ("bagging", f"{model}_{sense}")
    for sense in SENSES:
        pairs[f"hogs_{sense}"] = ("bagging_hog", f"hog_{sense}")
    lines = []
    for line in equal.to_dict("records"):
        found = {}
        for name, sides in pairs.items():
            one, other = (_mean(line, side) for side in sides)
            found[name] = (
                "not run" if one is None or other is None else compared(one, other)
            )
        lines.append({"subsample": line["subsample"], **found})
    return pd.DataFrame(lines, columns=["subsample", *pairs])


def _mean(line: Any, name: str) -> Mean | None:
    runs = line[f"{name}_seeds"]
    return Mean.of(line[name], line[f"{name}_std"], runs) if runs else None


def exposures(
    bagging: pd.DataFrame,
    dp_sgd: pd.DataFrame,
    equal: pd.DataFrame,
    pate: pd.DataFrame,
    scale: str,
) -> pd.DataFrame:
    """What each run exposes, and its accuracy: the points of
    :func:`dpnotes.lab.bagging.figures.plane`.

    Columns: method, variant ("softmax", "long" and "short" of DP-SGD), setting (records
    for each model, noise multiplier, or answers), advantage, tpr_at_fpr_1e3, accuracy
    (mean), seeds. Profiles are exact for bagging, of tight accounting for DP-SGD and
    PATE, whatever the data.
    """
    lines = []
    for method, setting, frame, length in (
        ("bagging", "subsample", bagging.dropna(subset=["subsample"]), ""),
        ("dp_sgd", "sigma", dp_sgd, "long"),
        ("dp_sgd", "sigma", equal, "short"),
        ("pate", "answers", pate, ""),
    ):
        done = frame.assign(accuracy=_accuracy(frame)).dropna(subset=["accuracy"])
        # each experiment has some of the keys
        keys = [name for name in KEYS if name in done]
        for _, group in done.groupby(keys, dropna=False) if len(done) else ():
            # seeds share their guarantee
            row = next(iter(parameters(group)))
            guarantee = profile(row, grids.RECORDS[scale])
            if guarantee is not None:
                # of DP-SGD the length of a run, or that it is not of a network
                linear = method == "dp_sgd" and row["width"] is None
                variant = "softmax" if linear else length
                exposed = (
                    guarantee.advantage,
                    tpr_at_fpr_1e3(guarantee),
                    group["accuracy"].mean(),
                    len(group),
                )
                lines.append(
                    (method, variant, row[setting] or row["queries"], *exposed)
                )
    return pd.DataFrame(lines, columns=POINT).sort_values(
        ["method", "variant", "advantage"], ignore_index=True
    )


def private_bases(rows: pd.DataFrame) -> pd.DataFrame:
    """The modes of using a subsample, bare, private or not at all: guarantee and
    accuracy.

    Columns: subsample, base_epsilon, mode, release_epsilon (at the common delta),
    advantage, tpr_at_fpr_1e3, accuracy (mean), standard_error, seeds.
    """
    numbers = [
        "base_epsilon",
        "release_epsilon",
        "advantage",
        "tpr_at_fpr_1e3",
        "accuracy",
    ]
    # without noise there is no epsilon, whatever the row was asked with
    rows = rows.assign(base_epsilon=rows["epsilon"].where(rows["mode"] != "bare"))
    done = (
        rows.reindex(columns=["subsample", "mode", *numbers])
        .dropna(subset=["accuracy"])
        .astype(dict.fromkeys(numbers, float))
    )
    aggregated: Any = {name: (name, "first") for name in numbers[1:-1]}
    aggregated |= {
        "accuracy": ("accuracy", "mean"),
        "standard_error": ("accuracy", "sem"),
    }
    groups: Any = done.groupby(["subsample", "base_epsilon", "mode"], dropna=False)
    table: pd.DataFrame = groups.agg(
        **aggregated, seeds=("accuracy", "count")
    ).reset_index()
    return table


def stands(one: pd.Series[Any], other: pd.Series[Any]) -> str:
    """How the accuracy of a line of :func:`private_bases` stands to that of another:
    see ``verdicts.compared``.
    """

    def mean_of(line: pd.Series[Any]) -> Mean:
        # back to the standard deviation of single runs
        std = line["standard_error"] * math.sqrt(line["seeds"])
        return Mean.of(line["accuracy"], std, line["seeds"])

    return compared(mean_of(one), mean_of(other))


def attacks(rows: pd.DataFrame) -> pd.DataFrame:
    """Error rates of the membership attacks with 95% Clopper-Pearson limits, as if
    records were independent.

    Columns: attack, mislabelled, false_positive_rate (that was set), tpr, low, high,
    fpr (measured), dispersion (standard deviation of the true-positive rate between
    networks, in units of what independent records would have). Rows that were not run
    are left out.
    """
    counts = ["true_positives", "members", "false_positives", "nonmembers", "tpr_std"]
    done = rows.reindex(columns=[*ATTACK, "n_networks", *counts]).dropna(
        subset=["true_positives"]
    )
    done = done.astype(dict.fromkeys(("n_networks", *counts), float))
    limits = [
        accounting.clopper_pearson(int(k), int(n))
        for k, n in done[counts[:2]].itertuples(index=False)
    ]
    tpr = done["true_positives"] / done["members"]
    binomial = np.sqrt(
        # no member recognised: the binomial would have no deviation
        (tpr * (1 - tpr)).clip(lower=1e-12)
        * (done["n_networks"] // 2)
        / done["members"]
    )
    table = done[ATTACK].assign(
        tpr=tpr,
        low=[limit.low for limit in limits],
        high=[limit.high for limit in limits],
    )
    fpr = done["false_positives"] / done["nonmembers"]
    return table.assign(fpr=fpr, dispersion=done["tpr_std"] / binomial)


def _accuracy(rows: pd.DataFrame) -> pd.Series:
    if "accuracy" not in rows:  # a store without a row has no metric yet
        return pd.Series(np.nan, index=rows.index)
    return rows["accuracy"].astype(float)


EXPOSED = (Column("subsample", "k", "{:,}"), Column("advantage", "pi", "{:.4f}"))
_MODELS = {
    "softmax": "softmax",
    "network": "network",
    "hog": "features",
    "hogs": "features, both",
}
STANDINGS = Table(
    "Whether bagging is ahead of DP-SGD or behind it, by the rule of this book. Headings"
    " name what DP-SGD trains: softmax regression or a network on pixels, or softmax"
    ' regression on handcrafted features. Bagging trains networks on pixels; under "both"'
    " it uses the features, too. Exposure is equal in advantage, or in true-positive rate"
    " (TPR).",
    EXPOSED[0],
    *(Column(f"{model}_advantage", words) for model, words in _MODELS.items()),
    *(Column(f"{model}_tpr", f"{words}, TPR") for model, words in _MODELS.items()),
)
MODES = {
    "bare": "subsample, no noise",
    "bagged": "subsample, private base",
    "direct": "all records, same epsilon",
}
PRIVATE_BASES = Table(
    "A private base learner on a subsample drawn without replacement, compared with no"
    " noise on the subsample and with the same epsilon on all records. The epsilon of"
    " the release is at delta = 1e-5 k/n, and the true-positive rate is at 0.1 % false"
    " positives.",
    Column("mode", labels=MODES),
    Column("base_epsilon", "base epsilon", "{:g}"),
    Column("release_epsilon", "epsilon of the release", "{:.3g}"),
    Column("advantage", format="{:.3f}"),
    columns(
        "{:.2%}",
        tpr_at_fpr_1e3="true positives",
        accuracy="",
        standard_error="standard error",
    ),
    "seeds",
)
OWN = Table(
    "Your records: logistic regression on a subsample of k records drawn without"
    " replacement, with and without noise, and on all records at the same epsilon. The"
    " epsilon of the release is at delta = 1e-5 k/n.",
    Column("subsample", "k"),
    *PRIVATE_BASES.columns,
)


def memorising_attack(
    *, n: int, subsample: int, n_models: int, trials: int
) -> pd.DataFrame:
    """Test for membership by asking bagged nearest-neighbour classifiers for the label
    that one record alone has.

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
        Columns rate, exact, simulated, low, high (Clopper-Pearson limits at 95 %), one
        row for each error rate.
    """
    from sklearn.neighbors import KNeighborsClassifier

    from dpnotes.methods import Bagging

    # the last record alone has label 1: only a model that drew it can say 1
    X = np.arange(float(n))[:, None]
    y = (np.arange(n) == n - 1).astype(int)

    def positives(rows: int) -> int:
        model = Bagging(
            subsample=subsample,
            n_models=n_models,
            estimator=KNeighborsClassifier(1),
            classes=[0, 1],
        )
        found = 0
        for seed in range(trials):
            model.set_params(noise_seed=seed).fit(X[:rows], y[:rows])
            found += int(model.predict_proba(X[-1:])[0, 1] > 0)
        return found

    profile = accounting.bagging(n=n, subsample=subsample, n_models=n_models)
    cases = [
        ("true positives", profile.advantage, positives(n)),
        # without the record no model can know its label
        ("false positives", 0.0, positives(n - 1)),
    ]
    lines = []
    for rate, exact, count in cases:
        limits = accounting.clopper_pearson(count, trials)
        lines.append((rate, exact, count / trials, limits.low, limits.high))
    return pd.DataFrame(lines, columns=["rate", "exact", "simulated", "low", "high"])


MEMORISING_ATTACK = Table(
    "Membership test against bagged nearest-neighbour classifiers: exact and simulated"
    " error rates.",
    "rate",
    columns("{:.4f}", "exact", "simulated", low="95 % from", high="to"),
)


QUESTIONS: dict[str, Callable[[Mean], Question]] = {
    "": above,
    "not behind": not_behind,
    "negligible": lambda difference: level(difference, margin=NEGLIGIBLE),
}


def cells() -> list[Cell]:
    """Cells of Tables 2 and 3, and sentences about Figures 1 and 2, in the paper's
    order.
    """
    bagged = rows("bagging_table2a")
    case2 = rows("bagging_case2")
    lenders = {
        "dp_sgd": noisy(rows("bagging_equal")),
        # Table 3a has a single network on all records
        "none": pooled(bagged[bagged["subsample"].isna()], ["epochs"]),
    }
    judged = orderings(
        printed_tables(),
        fixed_draws(case2, "paper"),
        replacement(case2, "paper"),
        noisy=lenders["dp_sgd"],
    )
    answers = judged.set_index("claim")["verdict"]
    sentences = {str(claim): Ours(answer) for claim, answer in answers.items()}
    return scorecard.cells("bagging", sentences, lenders=lenders)


def printed_tables() -> dict[str, pd.DataFrame]:
    """Tables 2 and 3 of the paper by their names, our published rows beside."""
    images = rows("bagging_cifar10"), rows("bagging_cifar10_dp_sgd")
    given = {
        "2a": (
            rows("bagging_table2a"),
            rows("bagging_dp_sgd", grids.dp_sgd("paper")),
        ),
        "2b": images,
        "3a": (
            rows("bagging_case2"),
            rows("bagging_case2_dp_sgd", grids.case2_dp_sgd("paper")),
            rows("bagging_pate"),
        ),
        "3b": (*images, rows("bagging_cifar10_pate")),
    }
    found = {}
    for name, own in given.items():
        scale = "cifar10" if "b" in name else "paper"
        found[name] = table(name, *own, scale=scale)
    return found


def rows(name: str, grid: Grid | None = None) -> pd.DataFrame:
    """Published rows of an experiment of this chapter; metrics of a row that is not
    there are empty.
    """
    (chosen,) = (own for own in EXPERIMENTS if own.name == name)
    return chosen.rows(grid)


def orderings(
    tables: Mapping[str, pd.DataFrame],
    fixed_draws: pd.DataFrame,
    replacement: pd.DataFrame,
    *,
    noisy: Borrowed = NOBODY,
) -> pd.DataFrame:
    """What the paper says is larger than what, and whether it is so here, in every pair
    that was run.

    Parameters
    ----------
    tables : mapping of str to DataFrame
        As :func:`table` gives them, by their names.
    fixed_draws, replacement : DataFrame
        As the functions of these names give them.
    noisy : Borrowed
        What single runs of DP-SGD borrow. Without it comparisons with them are
        undecided.

    Returns
    -------
    DataFrame
        As :func:`judged` gives it.
    """
    found = {
        "2a_as_far": further_than_published(tables["2a"], noisy),
        "figure2_equal": differences(replacement),
    }
    for name in ("2a", "2b"):
        series = (
            method(tables[name], "bagging")
            .query("seeds > 0")
            .sort_values("subsample")
            .to_dict("records")
        )
        found[f"{name}_grows"] = steps([mean(line) for line in series])
    # accuracy falls with N, so a fall is a positive difference
    falls = []
    for _, curve in fixed_draws.sort_values("n_models").groupby("drawn"):
        means = [mean(line, "accuracy") for line in curve.to_dict("records")]
        falls += [gap * -1.0 for gap in steps(means)]
    found["figure1_falls"] = falls
    return judged("paper", tables, found, to=noisy)


def counted(outcomes: Iterable[str]) -> str:
    """Say how often there is each outcome or verdict.

    Examples
    --------
    >>> counted(["gap", "agrees", "gap"])
    '2 gap, 1 agrees'
    """
    return ", ".join(f"{n} {outcome}" for outcome, n in Counter(outcomes).items())


def differences(replacement: pd.DataFrame) -> list[Mean]:
    """Accuracy with less accuracy without replacement, at each size of Figure 2."""
    found = []
    for line in replacement.to_dict("records"):
        upper = mean(line, "with_replacement", std="with_std")
        lower = mean(line, "without_replacement", std="without_std")
        found.append(upper - lower)
    return found


def method(table: pd.DataFrame, name: str, variant: str = "") -> pd.DataFrame:
    """Lines of a table that are of one method."""
    return table[(table["method"] == name) & (table["variant"] == variant)]


def leads(
    table: pd.DataFrame, other: str, variant: str = "", *, to: Borrowed = NOBODY
) -> list[Mean]:
    """Accuracy of bagging less that of another method, at each pair of the table for
    which both were run.
    """
    return gaps(
        method(table, "bagging").dropna(subset=["block"]),
        method(table, other, variant),
        on="block",
        to=to,
    )


def further_than_published(table2a: pd.DataFrame, noisy: Borrowed) -> list[Mean]:
    """Our distance between bagging and DP-SGD with the least noise, less the printed
    distance, at each pair.
    """
    bagged = method(table2a, "bagging").dropna(subset=["block"])
    given = method(table2a, "dp_sgd").dropna(subset=["block"])
    printed = bagged.merge(given, on="block", suffixes=("", "_given"))
    distances: list[float] = (
        printed["published"] - printed["published_given"]
    ).tolist()
    ours = leads(table2a, "dp_sgd", "least_noise", to=noisy)
    if len(ours) < len(distances):
        # the paper speaks of every pair: a gap leaves the sentence open
        return []
    return [gap - far for gap, far in zip(ours, distances, strict=True)]


def pooled(rows: pd.DataFrame, by: list[str]) -> Borrowed:
    """Standard deviation of accuracy within settings, over all settings with several
    seeds; nobody's if none has.
    """
    done = (
        rows.reindex(columns=[*by, "accuracy"])
        .dropna(subset=["accuracy"])
        .astype({"accuracy": float})
    )
    found = done.groupby(by, dropna=False)["accuracy"].agg(["var", "count"]).dropna()
    freedom = float((found["count"] - 1).sum())
    if not freedom:
        return NOBODY
    # pooled over settings, each weighed by its degrees of freedom
    variance = np.average(found["var"], weights=found["count"] - 1)
    return Borrowed(math.sqrt(variance), freedom)


def noisy(equal: pd.DataFrame) -> Borrowed:
    """What a single run of a network by DP-SGD borrows: from the rows of the store
    ``bagging_equal``.
    """
    return pooled(equal[equal["width"].notna()], TARGET)


def mean(
    line: Any,
    name: str = "reproduced",
    *,
    std: str = "std",
    seeds: str = "seeds",
    to: Borrowed = NOBODY,
) -> Mean:
    """The mean in a line of a table; a single run borrows."""
    runs = int(line[seeds])
    return (
        borrowed(float(line[name]), to, runs)
        if runs < 2
        else Mean.of(float(line[name]), float(line[std]), runs)
    )


def borrowed(value: float, lender: Borrowed, runs: int = 1) -> Mean:
    """A value, of the paper or a single run of ours, with a standard deviation that
    is not its own.
    """
    return Mean.of(value, lender.std, runs, freedom=lender.freedom)


def gaps(
    upper: pd.DataFrame, lower: pd.DataFrame, *, on: str, to: Borrowed = NOBODY
) -> list[Mean]:
    """Differences of two methods wherever both were run; ``to``: what a single run
    borrows.
    """
    pairs = upper.merge(lower, on=on, suffixes=("", "_lower"))
    # what was not run on either side says nothing
    lines = pairs[(pairs["seeds"] > 0) & (pairs["seeds_lower"] > 0)].to_dict("records")
    ends = {"name": "reproduced_lower", "std": "std_lower", "seeds": "seeds_lower"}
    return [mean(line, to=to) - mean(line, **ends, to=to) for line in lines]


def steps(means: Sequence[Mean]) -> list[Mean]:
    """Differences of neighbours in a series."""
    return [after - before for before, after in itertools.pairwise(means)]


def judged(
    scale: str,
    given: Mapping[str, pd.DataFrame],
    found: Mapping[str, Sequence[Mean]] | None = None,
    *,
    to: Borrowed = NOBODY,
) -> pd.DataFrame:
    """Verdicts on the statements of a scale, lines of
    ``book/results/published/orderings_bagging.csv``.

    A line says of ``upper`` of one table that it is above ``lower`` of another, or asks
    another ``question`` of their differences, of which there is one wherever both were
    run and are equal in ``on``, or one of all.

    Parameters
    ----------
    scale : {"paper", "reduced"}
    given : mapping of str to DataFrame
        The tables.
    found : mapping of str to sequence of Mean, optional
        Differences of statements that name no table.
    to : Borrowed
        What a single run borrows where pairs of a privacy budget are compared.

    Returns
    -------
    DataFrame
        Columns claim (a name), says, compared (how many differences), ours (the least,
        in percentage points), verdict.
    """
    lines = []
    line: Any
    for line in (
        paper_table("orderings_bagging")
        .query("scale == @scale")
        .fillna("")
        .itertuples()
    ):
        if line.table:
            upper = given[line.table].query(line.upper)
            lower = given[line.other].query(line.lower)
            # one pair of all lines where the sentence names no key
            differences = gaps(
                upper.assign(all=1).dropna(subset=[line.on]),
                lower.assign(all=1).dropna(subset=[line.on]),
                on=line.on,
                to=to if line.on == "block" else NOBODY,
            )
        else:
            differences = list((found or {})[line.claim])
        # in percentage points, as the paper speaks
        least = 100 * min((gap.value for gap in differences), default=math.nan)
        answer = verdict(
            every(map(QUESTIONS[line.question], differences)) if differences else None
        )
        lines.append((line.claim, line.says, len(differences), least, answer))
    return pd.DataFrame(lines, columns=["claim", "says", "compared", "ours", "verdict"])


SHOWN = (
    Column("says", "claim"),
    Column("compared", "pairs"),
    Column("ours", "least gap", "{:+.2f}"),
    "verdict",
)
ORDERINGS = Table(
    "Ordering claims of the paper, judged on our results by the rule of this book.",
    SHOWN,
)
