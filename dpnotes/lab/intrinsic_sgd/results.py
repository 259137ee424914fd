"""Results of the chapter on intrinsic privacy: tables from the rows of its experiments
and the numbers in the paper, and every printed number and sentence judged by our rows.

The standard errors have several sources. The results of a whole study (Table III,
accuracy without noise) have the standard deviation over our studies, with other splits
on Forest and Adult and other projections on MNIST-binary. The printed study counts as
one more study. With noise, there are as many runs as seeds, here and in the paper,
which prints a standard deviation of single runs and says "average across experiments".
The error of the study itself is then the error of its accuracy without noise. A gain
has its paired error, and the printed gain has ours. With the shared draw, this error is
borrowed from separate draws at the same sensitivity. Settings and bounds are exact. The
largest of many distances in one study has no known error.

MNIST-binary is read as the paper states it, with rows of norm 1; other readings are
possible causes of differences.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from dpnotes.lab import own_data, scorecard
from dpnotes.lab.intrinsic_sgd import grids
from dpnotes.lab.intrinsic_sgd.audit import REAL
from dpnotes.lab.intrinsic_sgd.data import PAPER_NAMES, UNSCALED
from dpnotes.lab.intrinsic_sgd.printed import intrinsic_epsilon, printed
from dpnotes.lab.intrinsic_sgd.runs import INITIALS
from dpnotes.lab.scorecard import Cause, Cell, Ours
from dpnotes.lab.store import published_store, read_store
from dpnotes.lab.tables import GAP, Column, Table, columns
from dpnotes.lab.verdicts import (
    HOLDS,
    UNTESTED,
    Mean,
    Question,
    Verdict,
    above,
    compared,
    every,
    inside,
    verdict,
)
from dpnotes.methods import logistic_loss

QUANTILES = [f"q{level}" for level in range(101)]
# others are shown by their own name
TASKS = {**PAPER_NAMES, UNSCALED: "MNIST-binary, rows unscaled", "": "all"}
RECORDS = {  # of an audit
    "typical": "typical",
    "only holder": "only holder of a feature",
    "quiet direction": "constructed: quiet direction",
    "own feature": "constructed: a feature and nothing else",
}
SETTINGS = {  # of Tables I and II: columns of the rows
    "n_train": "n",
    "n_test": "n_test",
    "dimension": "d",
    "n_experiments": "n_experiments",
    "batch_size": "batch_size",
    "learning_rate": "learning_rate",
    "convergence_batches": "steps",
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
    # of both initialisations, which count together
    rows = logistic(summary).assign(
        n_experiments=lambda rows: rows["n_seeds"] * (rows["n_neighbours"] + 1)
    )
    ours = rows.groupby("dataset", sort=False).agg(
        {**dict.fromkeys(SETTINGS.values(), "first"), "n_experiments": "sum"}
    )
    return with_published(long_form(ours.set_axis(list(SETTINGS), axis=1), "used"))


def table3(summary: pd.DataFrame) -> pd.DataFrame:
    """Make Table III, published, reproduced and their difference: one row for each
    task and quantity.
    """
    rows = of_varied(with_epsilons(summary))
    ours = pd.DataFrame(
        {name: rows[column] for name, (column, _) in QUANTITIES.items()},
        index=rows.index,
    )
    table = with_difference(with_published(long_form(ours, "reproduced")))
    return table.assign(relative=table["reproduced"] / table["published"] - 1)


def study(summary: pd.DataFrame) -> pd.DataFrame:
    """Make Table III with one row for each task.

    The columns are ``<quantity>_published``, ``<quantity>_reproduced``, and
    ``epsilon_exact`` and ``epsilon_proved`` of :func:`with_epsilons`.
    """
    wide = table3(summary).pivot_table(
        ["published", "reproduced"], "dataset", "quantity"
    )
    # the quantity first, then whose it is
    wide.columns = wide.columns.map(lambda name: "_".join(reversed(name)))
    return (
        of_varied(with_epsilons(summary))[["epsilon_exact", "epsilon_proved"]]
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
    # as the paper chooses it
    rows["delta"] = 1 / rows["n"].astype(float)
    for name, (column, analysis) in EPSILONS.items():
        epsilons = []
        for _, row in rows.iterrows():
            epsilon = math.nan
            # no noise or no bound: no epsilon
            if row["sigma"] > 0 and row[column] > 0:
                epsilon = intrinsic_epsilon(
                    sigma=row["sigma"],
                    sensitivity=row[column],
                    delta=row["delta"],
                    analysis=analysis,
                )
            epsilons.append(epsilon)
        rows[name] = epsilons
    return rows.reset_index(drop=True)


def unit_epsilons(summary: pd.DataFrame) -> dict[tuple[str, str], float]:
    """Compute the epsilon of a distance of 1 by the paper's formula, for networks,
    by (data set, initialisation).
    """
    # networks have no bound, so the paper shows epsilons of pairs
    deep = summary.dropna(subset=["hidden", "sigma"]).to_dict("records")
    unit = partial(intrinsic_epsilon, sensitivity=1.0, analysis="published")
    found = {}
    for row in deep:
        epsilon = unit(sigma=row["sigma"], delta=1 / row["n"])
        found[row["dataset"], row["initial"]] = epsilon
    return found


def calibrations(utility: pd.DataFrame, last_iterate: pd.DataFrame) -> pd.DataFrame:
    """Tabulate noise and accuracy at epsilon = 1 by each rule, to separate counting
    SGD's noise from calibration.
    """
    ours = matching(utility, initial="varied")
    # the order of the tasks is that of the settings
    order = list(ours["dataset"].unique())
    ours = ours[ours["epsilon"].isna() | (ours["epsilon"] == 1.0)]
    columns = ("noise", "analysis", "counted")
    kinds = {}
    for rule, (_, _, own) in RULES.items():
        chosen = dict(zip(columns, own, strict=False))
        kinds[rule] = matching(ours, **chosen)
    # the one rule here that is an algorithm of its own
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
    # in the order of the tasks
    wide = calibrations.pivot_table("accuracy", "dataset", "rule", sort=False)
    return wide.reindex(columns=list(RULES)).reset_index()


def standings(calibrations: pd.DataFrame, rule: str, other: str) -> dict[str, str]:
    """Compare the accuracy of one rule with another for each task: ahead, behind,
    equal or undecided.
    """

    def means(rule: str) -> dict[str, Mean]:
        rows = matching(calibrations, rule=rule).dropna(subset=["accuracy"])
        found = {}
        for row in rows.to_dict("records"):
            mean = Mean.of(row["accuracy"], row["accuracy_std"], row["runs"])
            found[row["dataset"]] = mean
        return found

    theirs = means(other)
    return {
        dataset: compared(mean, theirs[dataset])
        for dataset, mean in means(rule).items()
        if dataset in theirs
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
        # mu of the Gaussian mechanism that the paper assumes
        mu_exact=table["published"] / table["sigma"],
        mu_observed_exact=table["observed"] / table["sigma"],
    )
    return table.sort_values(
        "record",
        key=lambda own: own.map([*RECORDS].index),
        kind="stable",
        ignore_index=True,
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
    tasks = of_varied(logistic(summary))
    n = found["dataset"].map(tasks["n"]).astype(float)
    bound = found["dataset"].map(tasks["published"]).astype(float)
    # the paper's formula at delta = 1/n, for a distance of 1
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
        # the error of the mean and that of one more study
        float(values.std()) * math.sqrt(len(values) + 1),
        len(values),
    )


def logistic(summary: pd.DataFrame) -> pd.DataFrame:
    """Select the rows of logistic regression that are not gaps."""
    return summary[summary["hidden"].isna() & summary["sigma"].notna()]


def matching(rows: pd.DataFrame, **criteria: Any) -> pd.DataFrame:
    """Select the rows in which each given column has the given value."""
    # one criterion after the other, so that an unknown column is an error
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


def of_varied(rows: pd.DataFrame) -> pd.DataFrame:
    """Select the rows with varied initial weights, by task."""
    return matching(rows, initial="varied").set_index("dataset")


def long_form(wide: pd.DataFrame, values: str, name: str = "quantity") -> pd.DataFrame:
    """A row for each cell: the index as columns, ``name`` for the cell's column,
    ``values`` for what it holds.
    """
    # melt, which the linter prefers, would order the cells by column
    cells: Any = wide.astype(float).rename_axis(columns=name).stack(future_stack=True)  # noqa: PD013
    return pd.DataFrame(cells.rename(values).reset_index())


def with_published(
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
    # a sentence of all tasks has the empty name
    tasks = rows["dataset"].map(PAPER_NAMES).fillna("")
    return rows.assign(
        published=values.reindex(
            pd.MultiIndex.from_arrays([tasks, quantity])
        ).to_numpy()
    )


def with_difference(rows: pd.DataFrame) -> pd.DataFrame:
    """Add reproduced minus published."""
    return rows.assign(difference=rows["reproduced"] - rows["published"])


TASK = Column("dataset", "task", text=lambda row: task_name(row.dataset))
RECORD = Column("record", labels=RECORDS)
BESIDE_EPSILON = columns(
    "{:.2f}",
    epsilon_low="epsilon >=",
    epsilon_exact="bound says",
    epsilon_observed_exact="observed says",
)
STUDY = Table(
    "Table III, printed and ours: epsilon by the paper's formula, the noise of SGD"
    " (sigma) and the observed sensitivity. 'Epsilon, exact' follows from the paper's"
    " sensitivity by the exact formula, and 'epsilon, proved' from the proved"
    " sensitivity. Every epsilon is at delta = 1/n and holds only under the paper's"
    " assumption. A dash stands where nothing is printed, or no bound holds.",
    TASK,
    columns(
        "{:.2f}",
        gap="–",
        epsilon_intrinsic_published="epsilon, printed",
        epsilon_intrinsic_reproduced="epsilon, ours",
    ),
    columns(
        "{:.2f}",
        gap="–",
        epsilon_exact="epsilon, exact",
        epsilon_proved="epsilon, proved",
    ),
    columns(
        "{:.3f}",
        gap="–",
        sigma_intrinsic_published="sigma, printed",
        sigma_intrinsic_reproduced="sigma, ours",
    ),
    columns(
        "{:.3f}",
        gap="–",
        sensitivity_empirical_published="sensitivity, printed",
        sensitivity_empirical_reproduced="sensitivity, ours",
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
ATTACKS = Table(
    "Membership tests on fresh runs with varied initial weights: the epsilon at delta ="
    " 1/n that they prove with 95% confidence, and the rates of true and false"
    " positives (TPR, FPR). The columns 'bound says' and 'observed says' give the"
    " claimed epsilons, which follow from the bound on the sensitivity and from the"
    " observed sensitivity. The value inf means that no epsilon is enough.",
    (RECORD, TASK, *BESIDE_EPSILON, *columns("{:.4f}", tpr="TPR", fpr="FPR")),
)


STORES = (
    "summary",
    "distances",
    "pairs",
    "utility",
    "draws",
    "scaling",
    "repeats",
)
PRINTED_TASKS = {name: task for task, name in PAPER_NAMES.items() if task != UNSCALED}
OF_STUDIES = {  # printed quantities of Table III and IV: columns of studies
    "sigma_intrinsic": "sigma",
    "sensitivity_empirical": "observed",
    "epsilon_intrinsic": "epsilon",
    "epsilon_intrinsic_empirical": "epsilon_observed",
    "noiseless, none": "accuracy",
}
SCALED = {  # of the rows of MNIST-binary, apart from the stated one
    "none": "rows not scaled",
    "features": "features standardised",
    "rows before projection": "norm 1 before the projection",
    "largest row": "scaled by the largest norm",
}
SHARED = "one draw of noise for all models"
# blocks of cells that the paper ran with one setting
DIGITS = "MNIST-binary"
FARTHEST = "the largest distance over seeds, as in the authors' public code"
PAIRS = "centres of the epsilons of networks"
NOISE = "Table IV with noise, Forest and Adult"
NOISY_DIGITS = "MNIST-binary, Table IV with noise"

Rows = dict[str, pd.DataFrame]
# by the keys of the file of cells: a quantity and the paper's name of the task, or a
# sentence
Found = dict[str, Ours]


def cells() -> list[Cell]:
    """List all printed numbers and sentences of the paper, in the order of its
    tables.
    """
    return scorecard.cells("intrinsic_sgd", computed())


def computed() -> Found:
    """Compute the results of the published rows, by the key of the cell."""
    rows = {
        name: read_store(published_store(f"intrinsic_sgd_{name}")) for name in STORES
    }
    # what is printed is judged as one more of these
    found = studies(rows["scaling"], rows["repeats"], rows["summary"])
    return {
        **_settings(rows["summary"]),
        **_of_studies(found),
        **_of_noise(rows, found),
        **_of_text(rows, found),
        **_networks(rows),
        **_of_distances(rows, found),
        **_of_gains(rows),
    }


def _settings(summary: pd.DataFrame) -> Found:
    """Tables I and II, the bound on the sensitivity and delta: exact."""
    tidy = (
        sizes(summary),
        table3(summary).rename(columns={"reproduced": "used"}),
    )
    ours: Any = pd.concat(tidy).query("dataset != @UNSCALED").itertuples()
    return {
        f"{row.quantity}, {PAPER_NAMES[row.dataset]}": _exact(row.used) for row in ours
    }


def _of_studies(found: pd.DataFrame) -> Found:
    """Table III, and the accuracy without noise, of one more study."""
    entries: Found = {}
    for (name, task), (quantity, column) in product(
        PRINTED_TASKS.items(), OF_STUDIES.items()
    ):
        # MNIST-binary has several readings of its rows
        own = matching(found, dataset=task).groupby("scaling")[column]
        means = {str(scaling): another_study(values) for scaling, values in own}
        causes = []
        for scaled, words in SCALED.items():
            if scaled in means:
                cause = Cause(words, "intrinsic_sgd_scaling", means[scaled], DIGITS)
                causes.append(cause)
        entries[f"{quantity}, {name}"] = Ours(means.get("rows"), causes=causes)
    return entries


def _of_noise(rows: Rows, found: pd.DataFrame) -> Found:
    """Table IV with noise: own draws, and for causes one draw for all models, and
    rows that are not scaled.
    """
    entries: Found = {}
    # the paper prints these with noise alone
    stds = printed().set_index(["quantity", "dataset"])["sd"]
    for (name, task), kind in product(PRINTED_TASKS.items(), NOISES):
        study = _of_study(found, task, "rows")
        own, shared, runs = _with_noise(rows, task, kind, study)
        # cause, block, store, means
        read = [(SHARED, NOISE, "draws", shared)]
        # the paper's text and its code may differ in the scaling of the digits
        if task == "mnist":
            study = _of_study(found, task, "none")
            unscaled, both, _ = _with_noise(
                rows, UNSCALED, kind, study, same_numbers=False
            )
            words = SCALED["none"]
            read = [
                (words, DIGITS, "utility", unscaled),
                (f"{words}, {SHARED}", NOISY_DIGITS, "draws", both),
            ]
        # a printed gain has no error of its own: it gets ours
        error = {quantity: mean - mean.value for quantity, mean in own.items()}
        error["noisy"] = Mean.of(0.0, stds[f"noisy, {kind}", name], runs)
        # both studies may have drawn other records
        error["noisy"] += _of_study(found, task, "rows")
        for quantity, off in error.items():
            causes = []
            for words, block, store, means in read:
                stored = f"intrinsic_sgd_{store}"
                causes.append(Cause(words, stored, means[quantity], block))
            entries[f"{quantity}, {kind}, {name}"] = Ours(own[quantity], off, causes)
    return {**entries, **_range_of_gains(entries)}


def _range_of_gains(entries: Found) -> Found:
    """The smallest and the largest of all gains, wherever they are: the text says from
    where to where the gains of Table IV range.
    """
    gains: list[Any] = []
    shared: list[Any] = []
    for name, kind in product(PRINTED_TASKS, NOISES):
        gain = entries[f"gain, {kind}, {name}"]
        gains.append(gain)
        shared += [cause for cause in gain.causes if SHARED in cause.name]
    found: Found = {}
    for name, extreme in (("smallest", min), ("largest", max)):
        # whichever task it is of, as in the text
        own = extreme(gains, key=lambda gain: gain.answer.value)
        cause = extreme(shared, key=lambda cause: cause.answer.value)
        causes = [replace(cause, name=SHARED, block=NOISE)]
        found[f"gain, {name}"] = replace(own, causes=causes)
    return found


def _of_study(found: pd.DataFrame, task: str, scaling: str) -> Mean:
    """The error of one study of a task."""
    accuracies = matching(found, dataset=task, scaling=scaling)["accuracy"]
    return Mean.of(0.0, float(accuracies.std()), 1, freedom=len(accuracies) - 1)


def _with_noise(
    rows: Rows,
    dataset: str,
    kind: str,
    study: Mean,
    *,
    same_numbers: bool = True,
) -> tuple[dict[str, Mean], dict[str, Mean], int]:
    """Means of a task with noise for epsilon = 1: own draws, the shared draw; and
    how many seeds they are of.

    With another projection than the paper's, the same numbers act as another draw
    (``same_numbers`` is False). The shared draw's accuracy and the printed one then
    each have the error of one draw.
    """
    utility = matching(rows["utility"], dataset=dataset, initial="varied")
    # its runs are those that the noise is added to
    quiet = matching(utility, noise="none").iloc[0]
    utility = matching(utility, noise=NOISES[kind], analysis="published", epsilon=1.0)
    plain = matching(utility, counted=False).iloc[0]
    counted = matching(utility, counted=True).iloc[0]
    # the observed sensitivity is the smaller one
    given = matching(rows["draws"], dataset=dataset, draw="shared").sort_values(
        "sensitivity"
    )
    shared = given.iloc[{"observed": 0, "theoretical": -1}[kind]]
    runs = int(quiet["n_seeds"])
    # the same draws with less noise, so that its error is small
    paired = _gain(counted)
    one_draw = Mean.of(0.0, plain["accuracy_std"], 1, freedom=runs - 1)
    # the same numbers leave nothing to vary
    two_draws = Mean(0.0) if same_numbers else one_draw + one_draw

    def means(
        silent: Mean, noisy: Mean, gain: float, *, whole: bool
    ) -> dict[str, Mean]:
        # the error of our gain at this value
        added = paired + (gain - paired.value)
        return {
            "noisy": noisy + study,
            "gain": added,
            "gap_closed": _closed(added, silent - noisy, whole=whole),
        }

    def accuracy(row: pd.Series, name: str = "accuracy") -> Mean:
        return Mean.of(row[name], row[f"{name}_std"], runs)

    own = means(
        accuracy(quiet),
        accuracy(plain),
        paired.value,
        whole=counted["noise_sigma"] == 0,
    )
    same = means(
        accuracy(shared, "noiseless"),
        accuracy(shared) + two_draws,
        shared["gain"],
        whole=shared["gap_closed"] == 1,
    )
    return own, same, runs


def _closed(gain: Mean, gap: Mean, *, whole: bool) -> Mean:
    """Fraction of the gap that a gain closes; anything where no gap is shown, and 1
    where no noise is left.
    """
    if whole:
        # SGD's own noise covers all that is needed
        return Mean(1.0)
    return (
        _ratio(gain, gap)
        if verdict(above(gap, margin=0.0)) == HOLDS
        else Mean(gain.value / gap.value, math.inf)
    )


def _of_text(rows: Rows, found: pd.DataFrame) -> Found:
    """Numbers of the text that stand in no table; a largest factor is that of the
    largest task.
    """
    varied = matching(logistic(rows["summary"]), initial="varied").set_index("dataset")
    tests = _quantiles(rows, quantity="p-value", initial="varied")["mnist"]
    # with and without the initial weights among what a seed draws
    moved = _quantiles(rows, quantity="seed", initial="varied")
    still = _quantiles(rows, quantity="seed", initial="fixed")
    factors = {}
    for task, distances in still.items():
        factor = _ratio(_mean_distance(moved[task]), _mean_distance(distances))
        factors[task] = factor
    scaled = _largest(factors[task] for task in factors if task != UNSCALED)
    unscaled = _largest(factors[task] for task in factors if task != "mnist")
    found = matching(found, scaling="rows")
    # how many times the bound is what was observed
    loose = (found["dataset"].map(varied["published"]) / found["observed"]).groupby(
        found["dataset"]
    )
    unscaled_factor = Cause(SCALED["none"], "intrinsic_sgd_distances", unscaled, DIGITS)
    return {
        "variability, varying over fixed initialisation, all": Ours(
            scaled, causes=[unscaled_factor]
        ),
        "theoretical over empirical sensitivity, all": Ours(
            _largest(another_study(own) for _, own in loose)
        ),
        "training size ratio, Forest vs MNIST-binary": _exact(
            varied["n"]["covertype"] / varied["n"]["mnist"]
        ),
        "n_datasets, MNIST-binary": _exact(
            # one p-value for each weight and data set
            tests["count"] / varied["n_parameters"]["mnist"]
        ),
        # at which the experiment counts, too
        "p threshold, MNIST-binary": _exact(0.05),
        "Lipschitz constant L, all": _exact(logistic_loss(1.0).lipschitz),
    }


def _largest(means: Iterable[Mean]) -> Mean:
    return max(means, key=lambda mean: mean.value)


def _networks(rows: Rows) -> Found:
    """Figure 7: epsilons of pairs of data sets, with that of the mean distance for
    the centre.
    """
    found: Found = {}
    scales = unit_epsilons(rows["summary"])
    apart = _quantiles(rows, deep=True, quantity="data", initial="varied")
    for name, task in (("MNIST-binary", "mnist"), ("Adult", "adult")):
        # stated, and as the code may have it
        readings = [task, UNSCALED] if task == "mnist" else [task]
        centres = [
            _mean_distance(apart[reading]) * scales[reading, "varied"]
            for reading in readings
        ]
        causes = [
            Cause(SCALED["none"], "intrinsic_sgd_distances", centre, DIGITS)
            for centre in centres[1:]
        ]
        studies = matching(rows["pairs"], dataset=readings[-1])
        farthest = another_study(studies["mean"])
        causes.append(Cause(FARTHEST, "intrinsic_sgd_pairs", farthest, PAIRS))
        found[f"pairwise epsilon_intrinsic, centre, {name}"] = Ours(
            centres[0], causes=causes
        )
        # of a largest distance no error is known: it is shown, not judged
        largest = Mean(apart[task]["q100"] * scales[task, "varied"], math.inf)
        found[f"pairwise epsilon_intrinsic, largest, {name}"] = Ours(largest)
    return found


def _all_above(means: Iterable[Mean]) -> Question:
    """Whether all are above 0."""
    return every(above(mean, margin=0.0) for mean in means)


def _of_distances(rows: Rows, found: pd.DataFrame) -> Found:
    """What is said of distances.

    "Almost always" is all but one in a hundred on either side; quantiles and maxima are
    those of the runs, without errors, as in the paper.
    """
    varied = matching(logistic(rows["summary"]), initial="varied").set_index("dataset")
    quiet = {}
    loud = {}
    for initial in INITIALS:
        quiet[initial] = _quantiles(rows, quantity="data", initial=initial)
        loud[initial] = _quantiles(rows, quantity="seed", initial=initial)

    def beyond(limit: Any, *tasks: str) -> Verdict:
        """Whether the first percentile over seeds is beyond a limit, for both
        initialisations and all tasks.
        """
        apart = []
        # the sentence is of both initialisations
        for start, task in product(INITIALS, tasks):
            apart.append(Mean(loud[start][task]["q1"] - limit(start, task)))
        return verdict(_all_above(apart))

    def bound(_: str, task: str) -> float:
        return float(varied["published"][task])

    found = found[found["dataset"].isin(("covertype", "adult"))]
    louder = (
        another_study(own["sigma"] - own["observed"])
        for _, own in found.groupby("dataset")
    )
    loose = (
        Mean(varied["published"][task] - varied["observed"][task])
        for task in ("covertype", "adult")
    )
    answer = beyond(bound, UNSCALED, "covertype", "adult")
    unscaled = Cause(SCALED["none"], "intrinsic_sgd_distances", answer, DIGITS)
    tasks = PRINTED_TASKS.values()
    return {
        "sigma is above the observed sensitivity on Forest and Adult": Ours(
            verdict(_all_above(louder))
        ),
        "seeds move the end farther than a record does": Ours(
            beyond(lambda start, task: quiet[start][task]["q99"], *tasks)
        ),
        "seeds move the end farther than the bound on a record": Ours(
            beyond(bound, *tasks), causes=[unscaled]
        ),
        "the bound is above all that was observed on Forest and Adult": Ours(
            verdict(_all_above(loose))
        ),
        "epsilons of networks on Adult fall off after 30": Ours(UNTESTED),
    }


def _of_gains(rows: Rows) -> Found:
    """What is said of the accuracy that counting on SGD's own noise gains."""
    varied, fixed = (_gains(rows["utility"], initial) for initial in INITIALS)
    tasks = PRINTED_TASKS.values()
    shown = (gain for (task, _, _), gain in varied.items() if task in tasks)
    at_one = (
        varied[task, noise, 1.0] for task, noise in product(tasks, NOISES.values())
    )
    smaller = (
        varied[task, "published", 1.0] - fixed[task, "published", 1.0] for task in tasks
    )
    # it grows first and falls in the end, on each task
    turns = []
    for task in tasks:
        gains = [varied[task, "published", epsilon] for epsilon in grids.EPSILONS]
        turns.append(inside(gains, margin=0.0))
    # near 4 it must be above every other epsilon
    largest = varied["covertype", "published", 4.0]
    lead = []
    for epsilon in grids.EPSILONS:
        if epsilon != 4.0:
            lead.append(largest - varied["covertype", "published", epsilon])
    elsewhere = "nor is it on MNIST-binary or Adult (intrinsic_sgd_utility)"
    return {
        # the level is the paper's own, two-sided
        "every gain at epsilon = 1 has p < 1e-6": Ours(_all_above(at_one)(1e-6 / 2)),
        "on Forest the gain is largest near epsilon = 4": Ours(
            verdict(_all_above(lead)), tried=elsewhere
        ),
        "the gain is above 0 at every epsilon": Ours(verdict(_all_above(shown))),
        "the gain grows with epsilon and then closes": Ours(verdict(every(turns))),
        "the gain is smaller with fixed initial weights": Ours(
            verdict(_all_above(smaller))
        ),
    }


def _gain(row: Any) -> Mean:
    """A gain with its paired error."""
    std = (
        # back from t to a standard deviation
        abs(row["gain"] / row["gain_t"]) * math.sqrt(row["n_seeds"])
        if row["gain_t"]
        else 0.0
    )
    return Mean.of(row["gain"], std, row["n_seeds"])


def _gains(utility: pd.DataFrame, initial: str) -> dict[tuple[str, str, float], Mean]:
    """Gains of counting on SGD's own noise, by task, noise and epsilon, with their
    paired errors; one model a seed.
    """
    counted = matching(
        utility, initial=initial, counted=True, analysis="published"
    ).dropna(subset=["gain"])
    found = {}
    for row in counted.to_dict("records"):
        found[row["dataset"], row["noise"], row["epsilon"]] = _gain(row)
    return found


def _quantiles(rows: Rows, *, deep: bool = False, **which: str) -> dict[str, Any]:
    """A distribution of each task: its percentiles, mean and count."""
    found = rows["distances"].dropna(subset=["q50"])
    found = matching(found[found["hidden"].notna() == deep], **which)
    return {row["dataset"]: row for row in found.to_dict("records")}


def _mean_distance(row: dict[str, Any]) -> Mean:
    """Mean distance of two runs: of R seeds, each in many pairs, at most twice the
    variance over R.
    """
    # percentiles stand for the distribution
    std = float(np.std([row[name] for name in QUANTILES]))
    return Mean.of(row["mean"], math.sqrt(2) * std, row["n_seeds"])


def _ratio(one: Mean, other: Mean) -> Mean:
    """Ratio of two means, its error to first order."""
    ratio = one.value / other.value
    # (a - r b) / b + r, whose value is r
    return (one - other * ratio) * (1 / other.value) + ratio


def _exact(value: float) -> Ours:
    return Ours(Mean(float(value)))
