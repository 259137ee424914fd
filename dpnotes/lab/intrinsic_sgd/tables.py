"""Tables of the chapter on intrinsic privacy, from the rows of its experiments and the
numbers in the paper.

The functions make tidy tables. The declarations below them say which columns a page
shows.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from dpnotes.lab import own_data
from dpnotes.lab.intrinsic_sgd.audit import REAL
from dpnotes.lab.intrinsic_sgd.data import PAPER_NAMES, SCALINGS, UNSCALED
from dpnotes.lab.intrinsic_sgd.printed import intrinsic_epsilon, printed
from dpnotes.lab.intrinsic_sgd.runs import INITIALS
from dpnotes.lab.tables import GAP, Column, Table, columns
from dpnotes.lab.verdicts import HOLDS, Mean, agrees, compared

# others are shown by their own name
TASKS = {**PAPER_NAMES, UNSCALED: "MNIST-binary, rows unscaled", "": "all"}
RECORDS = {  # of an audit
    "typical": "typical",
    "only holder": "only holder of a feature",
    "quiet direction": "constructed: quiet direction",
    "own feature": "constructed: a feature and nothing else",
}
SETTINGS = {  # of Tables I and II: columns of the rows
    **{
        "n_train": "n",
        "n_test": "n_test",
        "dimension": "d",
        "n_experiments": "n_experiments",
    },
    **{
        "batch_size": "batch_size",
        "learning_rate": "learning_rate",
        "convergence_batches": "steps",
    },
}
QUANTITIES = {  # of Table III: columns of the rows, and words
    "sensitivity_theoretical": ("published", "sensitivity, theoretical"),
    "sensitivity_empirical": ("observed", "sensitivity, observed"),
    "delta": ("delta", "delta = 1/n"),
    "sigma_intrinsic": ("sigma", "sigma over seeds"),
    "epsilon_intrinsic": ("epsilon", "epsilon, theoretical"),
    "epsilon_intrinsic_empirical": ("epsilon_observed", "epsilon, observed"),
}
# of Table IV, by the sensitivity
NOISES = {"theoretical": "published", "observed": "observed"}
# of noise at epsilon = 1: a heading, words, rows of utility
RULES: dict[str, tuple[str, str, tuple[Any, ...]]] = {
    "none": ("no noise", "no noise: no guarantee", ("none",)),
    "classical": (
        "classical",
        "classical formula, bound with a fraction of a pass",
        ("published", "published", False),
    ),
    "counted": (
        "own counted",
        "classical formula, SGD's own noise counted",
        ("published", "published", True),
    ),
    "exact": (
        "exact",
        "exact calibration, bound with a fraction of a pass",
        ("published", "tight", False),
    ),
    "proved": (
        "proved bound",
        "exact calibration, proved sensitivity",
        ("proved", "tight", False),
    ),
    # an experiment of its own
    "last_iterate": ("in each step", "noise in each step, last weights released", ()),
}
EPSILONS = {  # by several readings: the sensitivity, and the analysis
    "epsilon": ("published", "published"),
    "epsilon_exact": ("published", "tight"),
    "epsilon_observed": ("observed", "published"),
    "epsilon_observed_exact": ("observed", "tight"),
    "epsilon_proved": ("proved", "tight"),
}


def task_name(dataset: Any) -> str:
    """Return the name of a task as the chapter shows it."""
    return TASKS.get(dataset, own_data.label(str(dataset)))


def sizes(summary: pd.DataFrame) -> pd.DataFrame:
    """Make Tables I and II (sizes, settings, numbers of runs), published and used: a
    row for each task and quantity.
    """
    rows = logistic(summary).assign(
        n_experiments=lambda rows: rows["n_seeds"] * (rows["n_neighbours"] + 1)
    )
    ours = rows.groupby("dataset", sort=False).agg(
        {**dict.fromkeys(SETTINGS.values(), "first"), "n_experiments": "sum"}
    )
    return _with_published(_long(ours.set_axis(list(SETTINGS), axis=1), "used"))


def table3(summary: pd.DataFrame) -> pd.DataFrame:
    """Make Table III, published, reproduced and their difference: one row for each
    task and quantity.
    """
    rows = _varied(with_epsilons(summary))
    ours = pd.DataFrame(
        {name: rows[column] for name, (column, _) in QUANTITIES.items()},
        index=rows.index,
    )
    table = _with_difference(_with_published(_long(ours, "reproduced")))
    return table.assign(relative=table["reproduced"] / table["published"] - 1)


def study(summary: pd.DataFrame) -> pd.DataFrame:
    """Make Table III with one row for each task.

    The columns are ``<quantity>_published``, ``<quantity>_reproduced``, and
    ``epsilon_exact`` and ``epsilon_proved`` of :func:`with_epsilons`.
    """
    wide = table3(summary).pivot_table(
        ["published", "reproduced"], "dataset", "quantity"
    )
    wide.columns = wide.columns.map(lambda name: "_".join(reversed(name)))
    return (
        _varied(with_epsilons(summary))[["epsilon_exact", "epsilon_proved"]]
        .join(wide)
        .reset_index()
    )


def with_epsilons(summary: pd.DataFrame) -> pd.DataFrame:
    """Add delta = 1/n and several epsilons to the rows of logistic regression.

    ``epsilon`` and ``epsilon_observed`` follow from the paper's formula, and the
    columns with ``_exact`` from the exact condition. ``epsilon_proved`` is exact for
    the sensitivity that counts a broken-off pass as a visit.
    """
    # a bound that no row has is None in all of them
    rows = logistic(summary).astype({bound: float for bound, _ in EPSILONS.values()})
    rows["delta"] = 1 / rows["n"].astype(float)
    for name, (column, analysis) in EPSILONS.items():
        rows[name] = [
            (
                intrinsic_epsilon(
                    sigma=row["sigma"],
                    sensitivity=row[column],
                    delta=row["delta"],
                    analysis=analysis,
                )
                if row["sigma"] > 0 and row[column] > 0
                else np.nan
            )
            for row in rows.to_dict("records")
        ]
    return rows.reset_index(drop=True)


def unit_epsilons(summary: pd.DataFrame) -> dict[tuple[str, str], float]:
    """Compute the epsilon of a distance of 1 by the paper's formula, for networks,
    by (data set, initialisation).
    """
    deep = summary.dropna(subset=["hidden", "sigma"]).to_dict("records")
    unit = partial(intrinsic_epsilon, sensitivity=1.0, analysis="published")
    return {
        (row["dataset"], row["initial"]): unit(sigma=row["sigma"], delta=1 / row["n"])
        for row in deep
    }


def noise_sources(summary: pd.DataFrame) -> pd.DataFrame:
    """Measure the share of the initialisation in sigma, and how far the weights are
    from one isotropic Gaussian.
    """
    values = ["sigma", "direction_sigma_low", "n_parameters", "rejected_corrected"]
    table = _by_initial(logistic(summary), ["dataset"], values).dropna(
        subset=["sigma_fixed"]
    )
    return table.assign(
        initialisation=1 - (table["sigma_fixed"] / table["sigma_varied"]) ** 2
    )


def table4(utility: pd.DataFrame) -> pd.DataFrame:
    """Make Table IV at epsilon = 1, published, reproduced and their difference: one
    row for each task and entry.
    """
    rows: list[tuple[Any, ...]] = []
    for dataset, own in matching(utility, initial="varied").groupby(
        "dataset", sort=False
    ):
        quiet = value(own, "accuracy", noise="none")
        rows.append(
            (
                dataset,
                "none",
                "noiseless",
                quiet,
                value(own, "accuracy_std", noise="none"),
                math.nan,
            )
        )
        for sensitivity, noise in NOISES.items():
            counted, plain = (
                matching(own, noise=noise, counted=count, epsilon=1.0)
                for count in (True, False)
            )
            plain = plain[plain["analysis"].isin(counted["analysis"])]
            noisy, gain = value(plain, "accuracy"), value(counted, "gain")
            closed = gain / (quiet - noisy) if quiet - noisy > 1e-4 else math.nan
            rows += [
                (
                    dataset,
                    sensitivity,
                    "noisy",
                    noisy,
                    value(plain, "accuracy_std"),
                    math.nan,
                ),
                (
                    dataset,
                    sensitivity,
                    "gain",
                    gain,
                    math.nan,
                    value(counted, "gain_t"),
                ),
                (dataset, sensitivity, "gap_closed", closed, math.nan, math.nan),
            ]
    table = pd.DataFrame(
        rows, columns=["dataset", "sensitivity", "entry", "reproduced", "std", "t"]
    )
    return _with_difference(_with_published(table))


def calibrations(utility: pd.DataFrame, last_iterate: pd.DataFrame) -> pd.DataFrame:
    """Tabulate noise and accuracy at epsilon = 1 by each rule, to separate counting
    SGD's noise from calibration.
    """
    ours = matching(utility, initial="varied")
    order = list(ours["dataset"].unique())
    ours = ours[ours["epsilon"].isna() | (ours["epsilon"] == 1.0)]
    columns = ("noise", "analysis", "counted")
    kinds = {
        rule: matching(ours, **dict(zip(columns, own, strict=False)))
        for rule, (_, _, own) in RULES.items()
    }
    kinds["last_iterate"] = matching(last_iterate, epsilon=1.0)
    table = pd.concat([rows.assign(rule=rule) for rule, rows in kinds.items()])
    # with noise of its own each, seed by seed
    table = table.assign(runs=table["n_seeds"].fillna(table["n_runs"]))
    table = table.reindex(
        columns=["dataset", "rule", "noise_sigma", "accuracy", "accuracy_std", "runs"]
    )
    return table[table["dataset"].isin(order)].sort_values(
        "dataset", key=lambda own: own.map(order.index), kind="stable"
    )


def beside(calibrations: pd.DataFrame) -> pd.DataFrame:
    """Tabulate accuracy with one row for each task and one column for each rule."""
    wide = calibrations.pivot_table("accuracy", "dataset", "rule", sort=False)
    return wide.reindex(columns=list(RULES)).reset_index()


def standings(calibrations: pd.DataFrame, rule: str, other: str) -> dict[str, str]:
    """Compare the accuracy of one rule with another for each task: ahead, behind,
    equal or undecided.
    """
    one, two = (
        {
            row["dataset"]: Mean.of(row["accuracy"], row["accuracy_std"], row["runs"])
            for row in rows.to_dict("records")
        }
        for rows in (
            matching(calibrations, rule=name).dropna(subset=["accuracy"])
            for name in (rule, other)
        )
    )
    return {
        dataset: compared(one[dataset], two[dataset])
        for dataset in one
        if dataset in two
    }


def audits(rows: pd.DataFrame, summary: pd.DataFrame) -> pd.DataFrame:
    """Compare the results of the membership tests with the claims: one row for each
    record, task and initialisation.

    ``constructed`` says whether the record does not occur in the data. The claimed
    epsilons are exact under the paper's assumption: ``epsilon_exact`` follows from the
    paper's bound on the sensitivity, and ``epsilon_observed_exact`` from the observed
    sensitivity.
    """
    claimed = [
        "epsilon_exact",
        "epsilon_observed_exact",
        "published",
        "observed",
        "sigma",
    ]
    claims = with_epsilons(summary)[["dataset", "initial", *claimed]]
    table = rows.dropna(subset=["epsilon_low"]).merge(claims, on=["dataset", "initial"])
    table = table.assign(
        constructed=~table["record"].isin(REAL),
        tpr=table["true_positives"] / table["positives"],
        fpr=table["false_positives"] / table["negatives"],
        mu_exact=table["published"] / table["sigma"],
        mu_observed_exact=table["observed"] / table["sigma"],
    )
    return table.sort_values(
        "record",
        key=lambda own: own.map([*RECORDS].index),
        kind="stable",
        ignore_index=True,
    )


def hyperparameters(rows: pd.DataFrame) -> pd.DataFrame:
    """Tabulate sigma, epsilon and accuracy for each batch size, rate and schedule, both
    initialisations side by side.

    Epsilon is exact for the proved sensitivity, under the paper's assumption. Without a
    bound it is a gap.
    """
    keys = ["dataset", "batch_size", "learning_rate", "schedule"]
    return _by_initial(
        with_epsilons(rows), keys, ["sigma", "epsilon_proved", "accuracy"]
    )


def draws(rows: pd.DataFrame) -> pd.DataFrame:
    """Tabulate Table IV with noise: as printed, with one draw for all models, and with
    a draw for each model.

    Parameters
    ----------
    rows : DataFrame
        Rows of :func:`dpnotes.lab.intrinsic_sgd.experiments.draws`.

    Returns
    -------
    DataFrame
        One row for each dataset, sensitivity ("theoretical", "observed") and entry
        ("noisy", "std", "gain", "gap_closed"), with the columns published, shared and
        own. A published gain is a tenth of the printed value.
    """
    keys, metrics = (
        ["dataset", "sensitivity", "entry"],
        {"accuracy": "noisy", "accuracy_std": "std"},
    )
    paper = printed()
    theory = matching(paper, quantity="sensitivity_theoretical").set_index("dataset")[
        "printed"
    ]
    kinds = np.where(
        rows["sensitivity"] == rows["dataset"].map(PAPER_NAMES).map(theory),
        "theoretical",
        "observed",
    )
    there = (
        rows.assign(sensitivity=kinds).rename(columns=metrics).dropna(subset=["noisy"])
    )
    there = there.set_index(["dataset", "sensitivity", "draw"])[
        [*metrics.values(), "gain", "gap_closed"]
    ]
    cells = _long(there, "value", "entry").pivot_table(
        "value", keys, "draw", sort=False
    )
    stds = paper.assign(
        quantity=paper["quantity"].str.replace("noisy", "std"), printed=paper["sd"]
    )
    tenths = paper["printed"].where(
        ~paper["quantity"].str.startswith("gain"), paper["printed"] / 10
    )
    paper = pd.concat(
        [paper.assign(printed=tenths), stds[stds["quantity"].str.startswith("std")]]
    )
    return _with_published(
        cells.reindex(columns=["shared", "own"]).reset_index(), paper
    )


def studies(
    scaling: pd.DataFrame, repeats: pd.DataFrame, summary: pd.DataFrame
) -> pd.DataFrame:
    """List whole studies with varied initial weights, one in each row, with the
    epsilons by the paper's formula.

    Parameters
    ----------
    scaling, repeats, summary : DataFrame
        Rows of these experiments of :mod:`dpnotes.lab.intrinsic_sgd.experiments`.

    Returns
    -------
    DataFrame
        Columns dataset ("mnist", "covertype", "adult"), scaling (of the digits; "rows"
        is the paper's), sigma, observed, accuracy, epsilon and epsilon_observed.
    """
    found = pd.concat(
        [scaling.assign(dataset="mnist"), repeats.assign(scaling="rows")]
    ).dropna(subset=["sigma"])
    tasks = _varied(logistic(summary))
    n, bound = (
        found["dataset"].map(tasks[name]).astype(float) for name in ("n", "published")
    )
    unit = np.sqrt(2 * np.log(1.25 * n)) / found["sigma"].astype(float)
    found = found.assign(
        epsilon=unit * bound, epsilon_observed=unit * found["observed"]
    )
    names = [
        "dataset",
        "scaling",
        "sigma",
        "observed",
        "accuracy",
        "epsilon",
        "epsilon_observed",
    ]
    return found[names].reset_index(drop=True)


def another_study(found: pd.Series) -> Mean:
    """Predict the result of one more study from several studies: their mean, with
    the error of a single study.
    """
    values = found.astype(float)
    return Mean.of(
        float(values.mean()),
        float(values.std()) * math.sqrt(len(values) + 1),
        len(values),
    )


def scaled_digits(found: pd.DataFrame) -> pd.DataFrame:
    """Compare the printed values of MNIST-binary with the values of each scaling of its
    rows over random projections.

    Parameters
    ----------
    found : DataFrame
        Result of :func:`studies`.

    Returns
    -------
    DataFrame
        One row for each scaling, with the columns projections (their number), sigma,
        observed, accuracy, their standard deviations over projections (``<name>_std``),
        and fits (the names of those values that one more projection could give as
        printed). The first row, with the scaling "published", holds the paper's values.
    """
    paper = matching(printed(), dataset="MNIST-binary").set_index("quantity")["printed"]
    names = {
        "sigma": "sigma_intrinsic",
        "observed": "sensitivity_empirical",
        "accuracy": "noiseless, none",
    }
    lines: list[dict[str, Any]] = [
        {
            "scaling": "published",
            "projections": math.nan,
            **{name: paper[names[name]] for name in names},
        }
    ]
    for scaling, own in matching(found, dataset="mnist").groupby("scaling", sort=False):
        line = {"scaling": scaling, "projections": len(own), **own[[*names]].mean()}
        line |= {f"{name}_std": own[name].std() for name in names}
        fits = [
            name
            for name in names
            if agrees(another_study(own[name]), Mean(lines[0][name]), unit=1e-3)
            == HOLDS
        ]
        lines.append({**line, "fits": ", ".join(fits)})
    return pd.DataFrame(lines)


def costs(rows: pd.DataFrame) -> pd.DataFrame:
    """Tabulate runs and processor seconds of each task, for both initialisations
    together, and of all tasks.

    Parameters
    ----------
    rows : DataFrame
        Rows of :func:`dpnotes.lab.intrinsic_sgd.experiments.cost`.

    Returns
    -------
    DataFrame
        Columns dataset ("" for all together), model ("logistic regression", "network"),
        runs, training_seconds, statistics_seconds and minutes (of training and
        statistics together).
    """
    names = ["runs", "training_seconds", "statistics_seconds"]
    model = np.where(rows["hidden"].isna(), "logistic regression", "network")
    there = rows.assign(model=model).dropna(subset=["runs"])
    table = there.groupby(["model", "dataset"], sort=False)[names].sum().reset_index()
    if len(table):
        table.loc[len(table)] = ["", "", *table[names].sum()]
    return table.assign(
        minutes=(table["training_seconds"] + table["statistics_seconds"]) / 60
    )


def logistic(summary: pd.DataFrame) -> pd.DataFrame:
    """Select the rows of logistic regression that are not gaps."""
    return summary[summary["hidden"].isna() & summary["sigma"].notna()]


def matching(rows: pd.DataFrame, **criteria: Any) -> pd.DataFrame:
    """Select the rows in which each given column has the given value."""
    for name, wanted in criteria.items():
        rows = rows[rows[name] == wanted]
    return rows


def value(rows: pd.DataFrame, column: str, **criteria: Any) -> float:
    """Return a number of the first row that matches, or NaN for a gap."""
    return float(next(iter(matching(rows, **criteria)[column].dropna()), math.nan))


def shown(rows: pd.DataFrame, column: str, pattern: str, **criteria: Any) -> str:
    """Return a value of the first row that matches as text, or the word for a gap."""
    number = value(rows, column, **criteria)
    return GAP if math.isnan(number) else pattern.format(number)


def _varied(rows: pd.DataFrame) -> pd.DataFrame:
    return matching(rows, initial="varied").set_index("dataset")


def _long(wide: pd.DataFrame, values: str, name: str = "quantity") -> pd.DataFrame:
    """A row for each cell: the index as columns, ``name`` for the cell's column,
    ``values`` for what it holds.
    """
    # melt, which the linter prefers, would order the cells by column
    cells: Any = wide.astype(float).rename_axis(columns=name).stack(future_stack=True)  # noqa: PD013
    return pd.DataFrame(cells.rename(values).reset_index())


def _with_published(
    rows: pd.DataFrame, paper: pd.DataFrame | None = None
) -> pd.DataFrame:
    """Rows with the column ``published``: what the paper prints of the task's
    quantity, or of entry and sensitivity.
    """
    quantity = (
        rows["quantity"]
        if "quantity" in rows
        else rows["entry"] + ", " + rows["sensitivity"]
    )
    values = (printed() if paper is None else paper).set_index(["dataset", "quantity"])[
        "printed"
    ]
    tasks = rows["dataset"].map(PAPER_NAMES).fillna("")
    return rows.assign(
        published=values.reindex(
            pd.MultiIndex.from_arrays([tasks, quantity])
        ).to_numpy()
    )


def _with_difference(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.assign(difference=rows["reproduced"] - rows["published"])


def _by_initial(rows: pd.DataFrame, keys: list[str], values: list[str]) -> pd.DataFrame:
    """Both initialisations side by side: a row for each of ``keys``, columns
    ``<value>_varied``, ``<value>_fixed``.
    """
    varied, fixed = (
        matching(rows, initial=initial)
        .set_index(keys)[values]
        .add_suffix(f"_{initial}")
        for initial in INITIALS
    )
    return varied.join(fixed).reset_index()


TASK = Column("dataset", "task", text=lambda row: task_name(row.dataset))
SENSITIVITY = Column("sensitivity", labels={"none": ""})
RECORD = Column("record", labels=RECORDS)
BESIDE_EPSILON = columns(
    "{:.2f}",
    epsilon_low="epsilon >=",
    epsilon_exact="bound says",
    epsilon_observed_exact="observed says",
)
SIZES = Table(
    "Tables I and II of the paper: sizes, settings and numbers of runs, as published"
    " and as we used them.",
    TASK,
    Column(
        "quantity", text=lambda row: row.quantity.removeprefix("n_").replace("_", " ")
    ),
    columns("{:,.6g}", "published", "used"),
)
NOISE_SOURCES = Table(
    "Sources of the noise. Sigma is the standard deviation of a weight over seeds, with"
    " varied or with fixed initial weights, and 'initialisation' is the fraction of its"
    " variance that comes from the initial weights. 'Quietest' is the smallest standard"
    " deviation in any direction. 'Rejected' is the number of weights for which"
    " normality is rejected at 0.05 / number of weights.",
    TASK,
    columns("{:.4f}", sigma_varied="sigma varied", sigma_fixed="sigma fixed"),
    Column("initialisation", format="{:.1%}"),
    columns(
        "{:.4f}",
        direction_sigma_low_varied="quietest",
        direction_sigma_low_fixed="quietest fixed",
    ),
    Column("n_parameters_varied", "weights", "{:.0f}"),
    columns(
        "{:.1f}",
        rejected_corrected_varied="rejected",
        rejected_corrected_fixed="rejected fixed",
    ),
)
TABLE3 = Table(
    "Table III: published values, reproduced values, and their difference. Epsilon is"
    " computed by the paper's formula. MNIST-binary appears twice: with rows of norm 1,"
    " as the paper states, and with projected rows that are not scaled.",
    TASK,
    Column("quantity", labels={name: words for name, (_, words) in QUANTITIES.items()}),
    (
        Column("published", format="{:.3g}"),
        "reproduced",
        "difference",
        Column("relative", format="{:+.1%}"),
    ),
)
STUDY = Table(
    "Table III, printed and ours: epsilon by the paper's formula, the noise of SGD"
    " (sigma) and the observed sensitivity. 'Epsilon, exact' follows from the paper's"
    " sensitivity by the exact formula, and 'epsilon, proved' from the proved"
    " sensitivity. Every epsilon is at delta = 1/n and holds only under the paper's"
    " assumption.",
    TASK,
    columns(
        "{:.2f}",
        epsilon_intrinsic_published="epsilon, printed",
        epsilon_intrinsic_reproduced="epsilon, ours",
    ),
    columns("{:.2f}", epsilon_exact="epsilon, exact", epsilon_proved="epsilon, proved"),
    columns(
        "{:.3f}",
        sigma_intrinsic_published="sigma, printed",
        sigma_intrinsic_reproduced="sigma, ours",
    ),
    columns(
        "{:.3f}",
        sensitivity_empirical_published="sensitivity, printed",
        sensitivity_empirical_reproduced="sensitivity, ours",
    ),
)
SCALED_DIGITS = Table(
    "MNIST-binary for different scalings of its rows, at the paper's batch size, rate"
    " and number of steps: means over random projections, and standard deviations (std)"
    " over projections. 'Fits' lists the printed numbers that one more projection could"
    " give.",
    Column("scaling", labels=SCALINGS),
    Column("projections", format="{:.0f}"),
    columns("{:.4f}", "sigma", sigma_std="std of sigma"),
    columns("{:.4f}", "observed", observed_std="std of observed"),
    columns("{:.3f}", "accuracy", accuracy_std="std of accuracy"),
    "fits",
)
TABLE4 = Table(
    "Table IV at epsilon = 1: accuracy without noise, accuracy with the full noise for"
    " each sensitivity ('SGD as deterministic'), and the gain in accuracy from counting"
    " SGD's own noise, also as a part of the gap that the noise makes. Std is the"
    " standard deviation of the accuracy over models, and t is the paired t statistic.",
    (TASK, SENSITIVITY),
    Column(
        "entry",
        labels={"noisy": "SGD as deterministic", "gap_closed": "part of the gap"},
    ),
    columns("{:.4f}", "published", "reproduced", "std", "difference"),
    Column("t", format="{:.1f}"),
)
DRAWS = Table(
    "Table IV with noise for epsilon = 1: as printed (gains divided by ten), with the"
    " first draw of NumPy's seed 0 for all models ('shared draw'), and with a separate"
    " draw for each model ('own draw'). Std is the standard deviation of the accuracy"
    " over models.",
    (TASK, SENSITIVITY),
    Column("entry", labels={"noisy": "accuracy", "gap_closed": "part of the gap"}),
    columns("{:.4f}", "published", shared="shared draw", own="own draw"),
)
COSTS = Table(
    "Cost of the study, for both initialisations together: number of runs, seconds of"
    " processor time for training and for all statistics and accuracies, and total"
    " minutes on one core.",
    (TASK, "model", Column("runs", format="{:,.0f}")),
    columns(
        "{:.1f}",
        training_seconds="training",
        statistics_seconds="statistics",
        minutes="minutes",
    ),
)
READINGS = Table(
    "Epsilon at delta = 1/n by several readings, all under the assumption of one"
    " isotropic Gaussian. 'Epsilon' uses the paper's sensitivity and formula. 'Exact'"
    " means the exact formula, and 'proved' means the exact formula with the proved"
    " sensitivity, which counts an unfinished pass as a whole pass. 'Observed' uses the"
    " observed sensitivity, which is not a bound.",
    (TASK, "initial", Column("sigma", format="{:.4f}")),
    columns(
        "{:.2f}",
        "epsilon",
        epsilon_exact="epsilon, exact",
        epsilon_proved="epsilon, proved",
    ),
    columns(
        "{:.2f}", epsilon_observed="observed", epsilon_observed_exact="observed, exact"
    ),
)
RULES_BESIDE = Table(
    "Accuracy at epsilon = 1 and delta = 1/n under replace-one adjacency. 'Classical'"
    " is the paper's calibration, and 'own counted' is this calibration with SGD's own"
    " noise counted. 'Exact' is exact calibration for the paper's sensitivity, and"
    " 'proved bound' for the proved sensitivity. 'In each step' is descent with noise"
    " in each step. Only the last two methods have a guarantee.",
    (
        TASK,
        *columns("{:.3f}", **{rule: heading for rule, (heading, *_) in RULES.items()}),
    ),
)
CALIBRATIONS = Table(
    "Standard deviation of the noise on each weight (for the last rule, in each step)"
    " and accuracy, at epsilon = 1 and delta = 1/n under replace-one adjacency."
    " Counting SGD's own noise rests on an assumption, and a sensitivity with a"
    " fraction of a pass is not a bound. Only the last two rules are proved.",
    TASK,
    Column("rule", labels={rule: words for rule, (_, words, _) in RULES.items()}),
    columns("{:.4f}", noise_sigma="noise", accuracy="accuracy"),
)
AUDITS = Table(
    "Membership tests on fresh runs: the epsilon at delta = 1/n, the mu, and the delta"
    " at epsilon = 0 that they prove, and the rates of true and false positives (TPR,"
    " FPR). The columns 'bound' and 'observed' give the exact values that follow from"
    " the bound on the sensitivity and from the observed sensitivity. The value inf"
    " means that no epsilon is enough, because a false positive is impossible and the"
    " fraction of true positives is above 1/n.",
    (RECORD, TASK, "initial", *BESIDE_EPSILON),
    columns(
        "{:.2f}", mu_low="mu >=", mu_exact="bound: mu", mu_observed_exact="observed: mu"
    ),
    columns("{:.4f}", delta_low="delta >=", tpr="TPR", fpr="FPR"),
)
ATTACKS = Table(
    "Membership tests on fresh runs with varied initial weights: the epsilon at delta ="
    " 1/n that they prove with 95% confidence, and the rates of true and false"
    " positives (TPR, FPR). The columns 'bound says' and 'observed says' give the"
    " claimed epsilons, which follow from the bound on the sensitivity and from the"
    " observed sensitivity. The value inf means that no epsilon is enough.",
    (RECORD, TASK, *BESIDE_EPSILON, *columns("{:.4f}", tpr="TPR", fpr="FPR")),
)
HYPERPARAMETERS = Table(
    "The noise of SGD for each batch size, learning rate and schedule, at the same"
    " number of passes. Epsilon follows from the proved sensitivity by the exact"
    " formula, under the paper's assumption.",
    (TASK, Column("batch_size", "batch"), Column("learning_rate", "rate"), "schedule"),
    columns("{:.4f}", sigma_varied="sigma varied", sigma_fixed="sigma fixed"),
    columns(
        "{:.1f}",
        epsilon_proved_varied="epsilon varied",
        epsilon_proved_fixed="epsilon fixed",
    ),
    Column("accuracy_varied", "accuracy", "{:.4f}"),
)
