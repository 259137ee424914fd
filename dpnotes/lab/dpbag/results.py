"""Results of the chapter on differentially private bagging: tables of published and
reproduced values, and further results.

The further results, which the paper lacks, are variants with a proof at equal budgets,
the effect of many partitions, the epsilon of single records, and costs.

The printed numbers are those of the eight tables of the paper's supplement, lines of
``cells_dpbag.csv``. Tables 1 and 2 of the main text repeat numbers of the supplement's Tables 1 and 2, and
count once. All numbers are judged at delta = 1e-3, which the printed counts have. The
paper prints no standard deviations, so its means of ten runs borrow our standard
deviation of the same cell. The Heart Failure data are private, so their numbers are
gaps. Only the counts of subsample-and-aggregate are judged, because they do not depend
on the data; we take ours from the clinical rows. The supposed causes of differences are
other learners. For the chapter's tables, further columns of the file give the setting
of each number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import pairwise
from typing import Any, TypeAlias

import pandas as pd

from dpnotes.lab._experiment import paper_table
from dpnotes.lab.dpbag.grids import (
    PUBLISHED_DELTA,
    STATED_DELTA,
)
from dpnotes.lab.dpbag.runs import affordable
from dpnotes.lab.tables import (
    Column,
    Table,
    columns,
    mean_and_std,
    mean_text,
)
from dpnotes.lab.verdicts import (
    ORDER as ANSWERS,
    Mean,
    Question,
    Verdict,
    above,
    agrees,
    every,
    verdict,
)

# how the pages show them
METHODS = {"dpbag": "DPBag", "dpbag_naive": "DPBag-", "saa": "SAA", "npb": "NPB"}
# and these
METRICS = {
    "labels": "labels",
    "accuracy": "accuracy",
    "auroc": "AUROC",
    "auprc": "AUPRC",
}
SETTING = ["method", "n_teachers", "k", "epsilon"]
PAPER_RUNS = 10  # each of its performances is the mean of so many
# and their columns in a table of cells
SOURCES = {"published": "published", "ours": "reproduced"}


def of_method(rows: pd.DataFrame) -> pd.DataFrame:
    """Add k and the method to rows: a key of :data:`METHODS`, or "saa_tight" or
    "dpbag_tight", not in the paper.
    """
    # None of a model without privacy becomes the text of a gap
    one = rows["n_partitions"] == 1
    accountant = rows["accountant"].astype(str)
    names = accountant.map(
        {
            "none": "npb",
            "personalised": "dpbag",
            "naive": "dpbag_naive",
            "tight": "dpbag_tight",
        }
    )
    # with one partition the naive accountant is subsample-and-aggregate
    names = names.mask(one & (accountant == "naive"), "saa").mask(
        one & (accountant == "tight"), "saa_tight"
    )
    numbers = ["n_teachers", "k", "epsilon", "delta"]
    return rows.assign(method=names, k=rows["n_partitions"]).astype(
        dict.fromkeys(numbers, float)
    )


def cells(rows: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Tabulate published values and ours for every cell of the paper's table of one
    metric.

    Where nothing is published, the cells are ours.

    Parameters
    ----------
    rows : DataFrame
        Rows of :func:`dpnotes.lab.dpbag.experiments.student` for one data set and
        learner.
    metric : {"labels", "accuracy", "auroc", "auprc"}

    Returns
    -------
    DataFrame
        One row for each cell, with means and standard deviations over seeds. The
        columns method, n_teachers, k and epsilon name the cell. The column published is
        the printed value, and unit that of its last digit. The columns reproduced, std, seeds, difference and relative
        (difference divided by the published value) are ours at delta = 1e-3, which the
        paper's numbers match. The columns stated and stated_std are ours at delta =
        1e-5, which the paper states.
        NPB has no epsilon and no delta, and its values are in the column reproduced.
    """
    # all rows are of one data set and learner
    which = {**rows[["dataset", "teachers"]].iloc[0], "metric": metric}
    paper = paper_table("cells_dpbag").rename(columns={"printed": "published"})
    paper = paper[(paper[list(which)] == pd.Series(which)).all(axis=1)]
    paper = paper[[*SETTING, "published", "unit"]]
    paper = paper.astype(dict.fromkeys(paper.columns[1:], float))
    # tight accounting is not in the paper; DPBag- has the counts of SAA, NPB no vote
    methods = ["dpbag", "saa"] if metric == "labels" else list(METHODS)
    ours = of_method(rows).reindex(columns=[*SETTING, "delta", metric])
    ours = ours[ours["method"].isin(methods)].astype({metric: float})
    # the model without privacy has no delta
    ours = ours.fillna({"delta": PUBLISHED_DELTA}).dropna(subset=[metric])

    def over_seeds(delta: float, **statistics: Any) -> pd.DataFrame:
        runs = ours[ours["delta"] == delta].groupby(SETTING, dropna=False)[metric]
        found: pd.DataFrame = runs.agg(**statistics)
        return found.reset_index()

    first = over_seeds(PUBLISHED_DELTA, reproduced="mean", std="std", seeds="count")
    stated = over_seeds(STATED_DELTA, stated="mean", stated_std="std")
    # what the paper does not print has cells of ours alone
    table = paper.merge(first, on=SETTING, how="left" if len(paper) else "right")
    table["seeds"] = table["seeds"].fillna(0).astype(int)
    table["difference"] = table["reproduced"] - table["published"]
    table["relative"] = table["difference"] / table["published"]
    table = table.merge(stated, on=SETTING, how="left")
    # sorted as the paper orders its methods
    order = table["method"].map([*METHODS].index)
    table = table.assign(order=order).sort_values(["order", *SETTING[1:]])
    return table.drop(columns="order").reset_index(drop=True)


def mean_of(row: Any, source: str = "reproduced") -> Mean | None:
    """Return the mean of a cell of :func:`cells`, or None for a gap.

    A published mean borrows the standard deviation of our runs of the same cell, since
    the paper prints none.

    Parameters
    ----------
    row : named tuple
    source : {"reproduced", "published"}
    """
    # NaN differs from itself: nothing is printed
    if not (row.seeds >= 2 and row.published == row.published):
        return None
    runs = row.seeds if source == "reproduced" else PAPER_RUNS
    return Mean.of(getattr(row, source), row.std, runs, freedom=row.seeds - 1)


def agreement(row: Any) -> Verdict | None:
    """Judge a cell of :func:`cells` by the rule of the scorecard, with the deviation of
    these rows; None for a gap.
    """
    ours, published = mean_of(row), mean_of(row, "published")
    if ours is None or published is None:
        return None
    return agrees(ours, published, unit=row.unit)


# of tables with a column of means, by metric
Asked: TypeAlias = Callable[[Mapping[str, pd.DataFrame]], list[Question]]


def orderings(rows: pd.DataFrame) -> pd.DataFrame:
    """Count the cells in which the paper's ordering statements hold, by its own numbers
    and by ours at delta = 1e-3.

    There is one row for each ordering of :data:`ORDERINGS`. For each <source>,
    ``published`` and ``ours``, the columns <source>_holds, <source>_reversed,
    <source>_tie and <source>_undecided are numbers of cells, and <source>_cells is the
    number of all cells. The column <source> is the verdict on the statement for all
    cells, and is empty if there are no cells.
    """
    found: dict[str, dict[str, Any]] = {}
    for ordering in ORDERINGS:
        found[ordering] = {"ordering": ordering}
    # the same cells answer for both sources
    by_metric = {metric: cells(rows, metric) for metric in METRICS}
    for source, column in SOURCES.items():
        means = {}
        for metric, table in by_metric.items():
            means[metric] = _with_means(table, column)
        for ordering, (_, ask) in ORDERINGS.items():
            questions = ask(means)
            answers = list(map(verdict, questions))
            line = found[ordering]
            for answer in ANSWERS:
                line[f"{source}_{answer}"] = answers.count(answer)
            line[f"{source}_cells"] = len(questions)
            line[source] = verdict(every(questions)) if questions else None
    return pd.DataFrame(found.values())


def _with_means(table: pd.DataFrame, source: str) -> pd.DataFrame:
    means: list[Any] = [mean_of(row, source) for row in table.itertuples()]
    return table.assign(mean=means).dropna(subset=["mean"])


def _above(
    metrics: Iterable[str], better: str, worse: str, means: Mapping[str, pd.DataFrame]
) -> list[Question]:
    """Counts tie where they are equal, performances within the margin of accuracy."""
    # SAA has one partition, which all k are compared with
    keys = ["n_teachers", "epsilon", *(["k"] if worse == "dpbag_naive" else [])]
    found: list[Question] = []
    for metric in metrics:
        high = means[metric].query("method == @better")
        low = means[metric].query("method == @worse")
        both = high.merge(low, on=keys, suffixes=("", "_low"))
        # counts are whole numbers: any difference counts
        margin = {"margin": 0.0} if metric == "labels" else {}
        for lead in both["mean"] - both["mean_low"]:
            found.append(above(lead, **margin))
    return found


def _labels_rise(means: Mapping[str, pd.DataFrame]) -> list[Question]:
    counts = (
        means["labels"]
        .query("method == 'dpbag'")
        .sort_values("k")
        .groupby(["n_teachers", "epsilon"])["mean"]
    )
    found: list[Question] = []
    for _, group in counts:
        # in the order of k
        for fewer, more in pairwise(group):
            found.append(above(more - fewer, margin=0.0))
    return found


# the statement, and what is asked of each cell
ORDERINGS: dict[str, tuple[str, Asked]] = {
    "dpbag_above_saa": (
        "DPBag above SAA of the same n",
        partial(_above, METRICS, "dpbag", "saa"),
    ),
    "naive_above_saa": (
        "DPBag- above SAA of the same n",
        partial(_above, METRICS, "dpbag_naive", "saa"),
    ),
    "dpbag_above_naive": (
        "DPBag above DPBag- of the same n and k",
        partial(_above, METRICS, "dpbag", "dpbag_naive"),
    ),
    "more_labels": (
        "DPBag has more labels than SAA",
        partial(_above, ["labels"], "dpbag", "saa"),
    ),
    "labels_rise": ("labels of DPBag rise with k", _labels_rise),
}


def implied_fractions(labels: pd.DataFrame) -> pd.DataFrame:
    """Compute the mean of m^2 over queries that counts imply for the record with the
    largest epsilon.

    It is the count of SAA divided by the count of DPBag.

    Parameters
    ----------
    labels : DataFrame
        Result of :func:`cells` for the labels.

    Returns
    -------
    DataFrame
        One row for each n_teachers and k. The other columns are published_<epsilon> and
        ours_<epsilon> (at delta = 1e-3) for each epsilon.
    """
    one, many = (labels[labels["method"] == method] for method in ("saa", "dpbag"))
    both = many.merge(one, on=["n_teachers", "epsilon"], suffixes=("", "_saa"))
    for source, column in SOURCES.items():
        # a label of m < 1 costs m^2 of one of m = 1
        both[source] = both[f"{column}_saa"] / both[column]
    wide = both.pivot_table(list(SOURCES), ["n_teachers", "k"], "epsilon", dropna=False)
    # one level of columns, as tables take it
    wide.columns = wide.columns.map(lambda name: f"{name[0]}_{name[1]:g}")
    return wide.reset_index().astype({"n_teachers": int, "k": int})


def counts() -> pd.DataFrame:
    """Count labels of subsample-and-aggregate at lambda = 2 / n: published, by the
    paper's loop, and tight.

    There is one row for each n_teachers and epsilon. The columns loop_reproduced and
    loop_stated are the numbers by the paper's loop at delta = 1e-3 and 1e-5. The column
    tight is the number by bounded range at 1e-5. The column gain divides tight by the
    largest number that the paper's bound allows, which is one label less than its loop
    gives.
    """
    keys = ["n_teachers", "epsilon"]
    paper = (
        paper_table("cells_dpbag")
        .query("method == 'saa' and metric == 'labels'")
        .astype({"n_teachers": int})
    )
    table = (
        paper.sort_values([*keys, "table"])
        .drop_duplicates(keys)[[*keys, "printed"]]
        .reset_index(drop=True)
    )
    # the paper states 1e-5, and its counts are those of 1e-3
    for column, delta, analysis in (
        ("loop_reproduced", PUBLISHED_DELTA, "published"),
        ("loop_stated", STATED_DELTA, "published"),
        ("tight", STATED_DELTA, "tight"),
    ):
        table[column] = [
            affordable(epsilon, delta, n, analysis)
            for n, epsilon in table[keys].itertuples(index=False)
        ]
    return table.rename(columns={"printed": "published"}).assign(
        # the loop stops one label after its budget is spent
        gain=table["tight"] / (table["loop_stated"] - 1)
    )


def own(rows: pd.DataFrame) -> pd.DataFrame:
    """Average a reader's rows over runs: epsilon, n_teachers, n_partitions, labels,
    accuracy, std, auroc, seeds.
    """
    keys = ["epsilon", "n_teachers", "n_partitions"]
    means = ["labels", "accuracy", "auroc"]
    done = (
        rows.reindex(columns=[*keys, *means]).astype(float).dropna(subset=["accuracy"])
    )
    # one model on all records has no epsilon
    groups = done.groupby(keys, dropna=False)
    return (
        groups[means]
        .mean()
        .join(groups["accuracy"].agg(std="std", seeds="count"))
        .reset_index()
    )


def costs(rows: pd.DataFrame) -> pd.DataFrame:
    """Tabulate the seconds of each setting of a run, and the largest memory.

    Parameters
    ----------
    rows : DataFrame
        Rows of :func:`dpnotes.lab.dpbag.experiments.cost`.

    Returns
    -------
    DataFrame
        One row for each teachers and n_teachers. The columns seconds_<k> are the
        seconds for teachers, votes, accounts and students with k partitions, and are
        empty where nothing was measured. The column memory is the largest memory over
        all k, in GiB. n = k = 1 is one model on all records.
    """
    measured = rows.dropna(subset=["teachers_seconds"]).astype(
        {"n_teachers": int, "n_partitions": int}
    )
    measured["seconds"] = measured["teachers_seconds"] + measured["students_seconds"]
    keys = ["teachers", "n_teachers"]
    table = (
        measured.pivot_table("seconds", keys, "n_partitions")
        .add_prefix("seconds_")
        .rename_axis(columns=None)
    )
    # MiB to GiB
    table["memory"] = measured.groupby(keys)["peak_memory"].max() / 1024
    return table.sort_index(ascending=[False, True]).reset_index()


FILTER = "filter"
VARIANTS = {
    "saa": "SAA, the paper's accounting",
    "dpbag": "DPBag, personalised",
    "saa_tight": "SAA, tight",
    "dpbag_tight": "many partitions, tight",
}
VARIANT = ["method", "confidence", "vote_fraction"]  # a filter alone has the last two


def variants(rows: pd.DataFrame, filters: pd.DataFrame) -> pd.DataFrame:
    """Compare variants at equal (epsilon, 1e-5), for each number of teachers.

    The columns method (a key of :data:`VARIANTS`, or "filter"), confidence and
    vote_fraction (of a filter), guarantee, n_teachers, k and epsilon name a variant.
    The columns labels, label_accuracy, accuracy, auroc and auprc are means over seeds,
    and <metric>_std are their standard deviations. Variants with many partitions have
    the largest k.
    """
    numbers = ["n_teachers", "k", "epsilon"]
    metrics = ["label_accuracy", *METRICS]
    ours = of_method(rows)
    shown = (
        (ours["delta"] == STATED_DELTA)
        # the ends of the range say what partitions do
        & ours["k"].isin([1, ours["k"].max()])
        & ours["method"].isin(VARIANTS)
    )
    every = pd.concat(
        [ours[shown], filters.assign(method=FILTER, k=filters["n_partitions"])],
        ignore_index=True,
    )
    every = every.rename(columns={"status": "guarantee"})
    every = every.reindex(columns=[*VARIANT, "guarantee", *numbers, *metrics]).dropna(
        subset=["accuracy"]
    )
    every = every.astype(
        {"guarantee": str, **dict.fromkeys([*VARIANT[1:], *numbers, *metrics], float)}
    )
    # for the order of the table; settings of a variant are in that of the rows
    every["method"] = pd.Categorical(every["method"], [*VARIANTS, FILTER])
    keys = [*VARIANT, "guarantee", *numbers]
    groups = every.groupby(keys, dropna=False, observed=True, sort=False)[metrics]
    table = groups.agg(["mean", "std"])
    # the mean has the name of the metric
    table.columns = table.columns.map(lambda name: "_".join(name).removesuffix("_mean"))
    table = table.reset_index().sort_values(["n_teachers", "epsilon", "method"])
    return table.reset_index(drop=True).astype({"method": str})


def variant_name(row: Any) -> str:
    """Name a row of :func:`variants` in words."""
    # a filter is named by its settings
    if row.method != FILTER:
        return VARIANTS[row.method]
    sure = f"{row.confidence:g} sure, votes on {row.vote_fraction:g}"
    return f"filter: {'votes on all' if row.confidence == 0 else sure}"


def partitions_effect(rows: pd.DataFrame) -> pd.DataFrame:
    """Compare the largest number of partitions with one, at the same budget, labels and
    noise, paired by seed.

    There is one row for each n_teachers and epsilon. The column correct_fraction is the
    fraction of correct labels with one partition. The columns label_gain and auroc_gain
    are mean differences in percentage points, and label_gain_se and auroc_gain_se are
    their standard errors over seeds.
    """
    keys = ["n_teachers", "epsilon", "seed"]
    metrics = ["labels", "label_accuracy", "auroc"]
    # labels and noise are equal there, so that only the partitions differ
    tight = rows[(rows["accountant"] == "tight") & (rows["delta"] == STATED_DELTA)]
    tight = (
        tight.reindex(columns=[*keys, "n_partitions", *metrics]).astype(float).dropna()
    )
    most = tight["n_partitions"].max()
    one = tight[tight["n_partitions"] == 1].set_index(keys)[metrics]
    many = tight[tight["n_partitions"] == most].set_index(keys)[metrics]
    gains = (
        # paired by seed, in percentage points
        (100 * (many - one))
        .dropna()[metrics[1:]]
        .set_axis(["label_gain", "auroc_gain"], axis=1)
    )
    groups = one.join(gains, how="inner").groupby(keys[:2])
    table = (
        groups.mean()
        .rename(columns={"label_accuracy": "correct_fraction"})
        .drop(columns="auroc")
    )
    return (
        table.join(groups[list(gains)].sem().add_suffix("_se"))
        .reset_index()
        .astype({"n_teachers": int})
    )


def _text(name: str, heading: str, pattern: str) -> Column:
    return Column(name, heading, text=lambda row: pattern.format(getattr(row, name)))


def _cells_table(metric: str) -> Table:
    # counts have no per cent and hardly a deviation
    counts = metric == "labels"
    formats = ("{:.0f}", "{:.1f}") if counts else ("{:.3f}", "{:.3f}")

    def mean(value: float, std: float) -> str:
        return mean_text(
            # counts that do not depend on the data have no deviation to show
            value,
            math.nan if counts and std == 0 else std,
            formats=formats,
        )

    relative = Column("relative", "difference", "{:+.1f} %", scale=100)
    points = Column("difference", format="{:+.1f}", scale=100)
    return Table(
        "{caption}",
        Column("method", labels=METHODS),
        _text("n_teachers", "n", "{:.0f}"),
        Column("k", text=lambda row: f"{row.k:.0f}" if row.k > 1 else ""),
        Column(
            "epsilon",
            text=lambda row: "" if math.isnan(row.epsilon) else f"{row.epsilon:g}",
        ),
        Column("published", format="{:.0f}" if counts else "{:.4f}"),
        Column(
            "reproduced",
            "at delta = 1e\N{NON-BREAKING HYPHEN}3",
            text=lambda row: mean(row.reproduced, row.std),
        ),
        Column("seeds", "runs"),
        relative if counts else points,
        Column(
            "stated",
            "at delta = 1e\N{NON-BREAKING HYPHEN}5",
            text=lambda row: (
                "" if row.method == "npb" else mean(row.stated, row.stated_std)
            ),
        ),
    )


# of cells(rows, metric); the chapter gives the caption
CELLS = {metric: _cells_table(metric) for metric in METRICS}


COUNTS = Table(
    "Number of labels of subsample-and-aggregate. 'Published' is the printed number,"
    " for a stated delta of 1e-5. 'Tight' is the number by the tight accounting that is"
    " derived below, and 'gain' divides it by the largest number that the paper's bound"
    " allows within the budget. 'Loop' is the number by the paper's loop at the given"
    " delta.",
    columns("{:g}", n_teachers="n", epsilon="", published="", tight="tight 1e-5"),
    Column("gain", format="{:.1f}"),
    columns("{:.0f}", loop_reproduced="loop 1e-3", loop_stated="loop 1e-5"),
)
OWN = Table(
    "Your records, by tight accounting at delta = 1e-5: number of labels that the"
    " budget allows, and performance of the student on the test third. The row without"
    " epsilon is one model on all private records, without a guarantee.",
    Column("epsilon", format="{:g}"),
    columns("{:.0f}", n_teachers="n", n_partitions="k", labels=""),
    mean_and_std("accuracy"),
    Column("auroc", "AUROC", "{:.3f}"),
    "seeds",
)
