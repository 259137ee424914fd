"""Tables of the chapter on differentially private bagging: published beside reproduced, at both deltas, and costs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import pairwise, product
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from dpnotes.lab._experiment import paper_table
from dpnotes.lab.dpbag.causes import SETTINGS
from dpnotes.lab.dpbag.grids import EPSILONS, PUBLISHED_DELTA, SIZES, STATED_DELTA
from dpnotes.lab.dpbag.runs import affordable
from dpnotes.lab.tables import GAP, Column, Table, compare, mean_and_std, mean_text
from dpnotes.lab.verdicts import HOLDS, REVERSED, TIE, UNDECIDED, Mean, Question, above, agrees, every, places, verdict

METHODS = {"dpbag": "DPBag", "dpbag_naive": "DPBag-", "saa": "SAA", "npb": "NPB"}  # how the pages show them
METRICS = {"labels": "labels", "accuracy": "accuracy", "auroc": "AUROC", "auprc": "AUPRC"}  # and these
SETTING = ["method", "n_teachers", "k", "epsilon"]
PRINTED = {"DPBag": "dpbag", "DPBag-": "dpbag_naive", "SAA": "saa", "NPB": "npb"}  # in the files of published values
PRINTED_METRICS = {"accuracy": "accuracy", "auroc": "AUROC", "auprc": "AUPRC"}
PAPER_RUNS = 10  # each of its performances is the mean of so many
PUBLISHED = {  # data set and learner: file of performances, and the names in the file of counts
    ("adult", "logistic"): ("dpbag_adult_lr", "UCI Adult", "logistic regression"),
    ("adult", "boosting"): ("dpbag_adult_gbm", "UCI Adult", "GBM"),
    ("diabetes130", "logistic"): ("dpbag_heart_lr", "Heart Failure", "logistic regression"),
    ("diabetes130", "boosting"): ("dpbag_heart_gbm", "Heart Failure", "GBM"),
}


def of_method(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows with k and their method: of :data:`METHODS`, or "saa_tight" or "dpbag_tight", which the paper lacks."""
    one, accountant = rows["n_partitions"] == 1, rows["accountant"].astype(str)
    names = accountant.map({"none": "npb", "personalised": "dpbag", "naive": "dpbag_naive", "tight": "dpbag_tight"})
    names = names.mask(one & (accountant == "naive"), "saa").mask(one & (accountant == "tight"), "saa_tight")
    numbers = ["n_teachers", "k", "epsilon", "delta"]
    return rows.assign(method=names, k=rows["n_partitions"]).astype(dict.fromkeys(numbers, float))


def published(dataset: str, teachers: str, metric: str) -> pd.DataFrame:
    """Published values: method, n_teachers, k, epsilon, value. Nothing is published for other data."""
    if (dataset, teachers) not in PUBLISHED:
        return pd.DataFrame(columns=[*SETTING, metric]).astype(dict.fromkeys([*SETTING[1:], metric], float))
    file, data, model = PUBLISHED[dataset, teachers]
    if metric == "labels":
        table = paper_table("dpbag_labels")
        table = table[(table["dataset"] == data) & (table["model"] == model)]
    else:
        table = paper_table(file)
        table = table[table["metric"] == PRINTED_METRICS[metric]]
    table = table.assign(method=table["method"].map(PRINTED), k=table["k"].fillna(1))
    return table.rename(columns={"value": metric})[[*SETTING, metric]].astype(dict.fromkeys(SETTING[1:], float))


def cells(rows: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Published beside ours for every cell of the paper's table of one metric, or of ours where nothing is published.

    Parameters
    ----------
    rows : DataFrame
        Of :func:`dpnotes.lab.dpbag.experiments.student`, of one data set and learner.
    metric : {"labels", "accuracy", "auroc", "auprc"}

    Returns
    -------
    DataFrame
        method, n_teachers, k, epsilon; published; reproduced, std, seeds and difference (also relative to the published
        value) at delta = 1e-3 (what the paper's numbers are of); agrees (a performance by the rule of
        :func:`dpnotes.lab.verdicts.agrees`, with our standard deviation for both sides, since the paper prints none;
        empty for counts and for single runs); stated, stated_std at delta = 1e-5 (what it says).
        Means and standard deviations over seeds. NPB has no epsilon and no delta: its values are under "reproduced".
    """
    paper, ours = published(rows["dataset"].iloc[0], rows["teachers"].iloc[0], metric), of_method(rows)
    ours = ours.astype({metric: float} if metric in ours else {})
    shown = ["dpbag", "saa"] if metric == "labels" else list(METHODS)  # DPBag- has the counts of SAA, NPB has no vote
    ours = ours[ours["method"].isin(shown)]
    first = ours[(ours["delta"] == PUBLISHED_DELTA) | (ours["method"] == "npb")]
    table = compare(paper, first, on=SETTING, metric=metric)
    stated = compare(paper, ours[ours["delta"] == STATED_DELTA], on=SETTING, metric=metric)
    stated = stated.rename(columns={"reproduced": "stated", "std": "stated_std"})
    table = table.merge(stated[[*SETTING, "stated", "stated_std"]], on=SETTING, how="left")
    table["relative"] = table["difference"] / table["published"]
    if len(paper):
        table = table[table["published"].notna()]
    table["method"] = pd.Categorical(table["method"], list(METHODS))
    table["agrees"] = [None if metric == "labels" else _agrees(row) for row in table.itertuples()]
    columns = ["published", "reproduced", "std", "seeds", "difference", "relative", "agrees", "stated", "stated_std"]
    table = table.sort_values(SETTING)[[*SETTING, *columns]].reset_index(drop=True)
    return table.astype({"method": str})


def mean_of(row: Any, source: str = "reproduced") -> Mean | None:
    """Mean of a cell of :func:`cells`, None for a gap.

    A published one borrows the standard deviation of our runs of the same cell, since the paper prints none.

    Parameters
    ----------
    row : named tuple
    source : {"reproduced", "published"}
    """
    if not (row.seeds >= 2 and row.published == row.published):
        return None
    runs = row.seeds if source == "reproduced" else PAPER_RUNS
    return Mean.of(getattr(row, source), row.std, runs, freedom=row.seeds - 1)


def _agrees(row: Any) -> bool | None:
    ours, printed = mean_of(row), mean_of(row, "published")
    return None if ours is None or printed is None else agrees(ours, printed, unit=1e-4) == HOLDS


def _cells_table(metric: str) -> Table:
    counts = metric == "labels"
    formats = ("{:.0f}", "{:.1f}") if counts else ("{:.3f}", "{:.3f}")

    def mean(value: float, std: float) -> str:
        return mean_text(value, np.nan if counts and std == 0 else std, formats=formats)

    return Table(
        "{caption}",
        (
            Column("method", labels=METHODS),
            Column("n_teachers", "n", text=lambda row: f"{row.n_teachers:.0f}"),
            Column("k", text=lambda row: f"{row.k:.0f}" if row.k > 1 else ""),
            Column("epsilon", text=lambda row: "" if np.isnan(row.epsilon) else f"{row.epsilon:g}"),
            Column("published", format="{:.0f}" if counts else "{:.4f}"),
            Column(
                "reproduced", "at delta = 1e\N{NON-BREAKING HYPHEN}3", text=lambda row: mean(row.reproduced, row.std)
            ),
            Column("seeds", "runs"),
            Column("relative", "difference", "{:+.1f} %", scale=100)
            if counts
            else Column("difference", format="{:+.1f}", scale=100),
            *(() if counts else [Column("agrees", labels={True: "yes", False: "no"})]),
            Column(
                "stated",
                "at delta = 1e\N{NON-BREAKING HYPHEN}5",
                text=lambda row: "" if row.method == "npb" else mean(row.stated, row.stated_std),
            ),
        ),
    )


CELLS = {metric: _cells_table(metric) for metric in METRICS}  # of cells(rows, metric); the chapter gives the caption

SOURCES = {"published": "published", "ours": "reproduced"}  # and their columns in a table of cells


def tried(others: pd.DataFrame, *of_paper: pd.DataFrame) -> pd.DataFrame:
    """Other settings of the learners, on the cells that they were tried on, beside those of the chapter.

    Parameters
    ----------
    others : DataFrame
        Of :func:`dpnotes.lab.dpbag.causes.cause`.
    of_paper : DataFrame
        Of :func:`dpnotes.lab.dpbag.experiments.student`, one for each learner.

    Returns
    -------
    DataFrame
        teachers, setting ("" for that of the chapter), cells (how many performances), agree (of them, by the rule of
        verdicts), and for each performance <metric> (mean difference from the published ones of subsample-and-aggregate
        at epsilon = 5) and <metric>_all (of one model on all records).
    """
    found = []
    for rows in of_paper:
        teachers = str(rows["teachers"].iloc[0])
        mine = others.loc[[SETTINGS[name].teachers == teachers for name in others["setting"]]].assign(teachers=teachers)
        same = rows[rows["accountant"].isin(mine["accountant"]) & (rows["n_partitions"] == 1)]
        same = same[same["epsilon"].isna() | same["epsilon"].isin(mine["epsilon"])].assign(setting="")
        for setting, own in pd.concat([same, mine]).groupby("setting", sort=False):
            line: dict[str, Any] = {"teachers": teachers, "setting": setting, "cells": 0, "agree": 0}
            for metric in PRINTED_METRICS:
                table = cells(own, metric).dropna(subset=["reproduced"])
                line["cells"] += int(table["agrees"].notna().sum())
                line["agree"] += int(table["agrees"].eq(True).sum())
                line[metric] = table.loc[table["epsilon"] == 5, "difference"].mean()
                line[f"{metric}_all"] = table.loc[table["method"] == "npb", "difference"].mean()
            found.append(line)
    return pd.DataFrame(found)


def _points(suffix: str = "", of: str = "") -> list[Column]:
    return [Column(f"{metric}{suffix}", f"{METRICS[metric]}{of}", "{:+.1f}", scale=100) for metric in PRINTED_METRICS]


TRIED = Table(
    "Other settings of the learners, on subsample-and-aggregate and on one model of all records (NPB), at delta = "
    "1e-3: published performances that agree, and mean differences in points, at epsilon = 5 and of NPB.",
    (
        Column("setting", labels={"": "as in the tables"} | {name: setting.says for name, setting in SETTINGS.items()}),
        "teachers",
        Column("agree", text=lambda row: f"{row.agree} of {row.cells}"),
        *_points(),
        *_points("_all", ", NPB"),
    ),
)


def orderings(rows: pd.DataFrame) -> pd.DataFrame:
    """In how many cells the paper's ordering statements hold, by its own numbers and by ours at delta = 1e-3.

    Columns: ordering (one of :data:`ORDERINGS`) and, for ``published`` and ``ours``, <source>_holds, <source>_reversed,
    <source>_tie, <source>_undecided (cells), <source>_cells (of how many) and <source> (verdict on the statement for
    all cells; empty where there is none).
    """
    by_metric = {metric: cells(rows, metric) for metric in METRICS}
    found = []
    for ordering, (_, ask) in ORDERINGS.items():
        line: dict[str, Any] = {"ordering": ordering}
        for source, column in SOURCES.items():
            questions = ask(by_metric, column)
            answers = [verdict(question) for question in questions]
            line |= {f"{source}_{answer}": answers.count(answer) for answer in (HOLDS, REVERSED, TIE, UNDECIDED)}
            line |= {f"{source}_cells": len(questions), source: verdict(every(questions)) if questions else None}
        found.append(line)
    return pd.DataFrame(found)


Asked: TypeAlias = Callable[[Mapping[str, pd.DataFrame], str], list[Question]]


def _above(better: str, worse: str, *metrics: str) -> Asked:
    keys = ["n_teachers", "epsilon", *(["k"] if worse == "dpbag_naive" else [])]

    def ask(by_metric: Mapping[str, pd.DataFrame], column: str) -> list[Question]:
        found: list[Question] = []
        for metric in metrics:
            table = by_metric[metric]
            low = {_key(row, keys): mean_of(row, column) for row in table.itertuples() if row.method == worse}
            for row in table[table["method"] == better].itertuples():
                high, other = mean_of(row, column), low.get(_key(row, keys))
                if high is not None and other is not None:
                    found.append(_lead(high - other, metric))
        return found

    return ask


def _key(row: Any, names: list[str]) -> tuple[Any, ...]:
    return tuple(getattr(row, name) for name in names)


def _lead(difference: Mean, metric: str) -> Question:
    """Whether one is ahead; counts tie where they are equal, performances within the margin of accuracy."""
    return above(difference, margin=0.0) if metric == "labels" else above(difference)


def _labels_rise(by_metric: Mapping[str, pd.DataFrame], column: str) -> list[Question]:
    counts = by_metric["labels"].query("method == 'dpbag'").sort_values("k")
    found: list[Question] = []
    for _, group in counts.groupby(["n_teachers", "epsilon"]):
        means = [mean for row in group.itertuples() if (mean := mean_of(row, column)) is not None]
        found += [above(more - fewer, margin=0.0) for fewer, more in pairwise(means)]
    return found


ORDERINGS: dict[str, tuple[str, Asked]] = {  # the statement, and what is asked of each cell
    "dpbag_above_saa": ("DPBag above SAA of the same n", _above("dpbag", "saa", *METRICS)),
    "naive_above_saa": ("DPBag- above SAA of the same n", _above("dpbag_naive", "saa", *METRICS)),
    "dpbag_above_naive": ("DPBag above DPBag- of the same n and k", _above("dpbag", "dpbag_naive", *METRICS)),
    "more_labels": ("DPBag has more labels than SAA", _above("dpbag", "saa", "labels")),
    "labels_rise": ("labels of DPBag rise with k", _labels_rise),
}


def _of(source: str) -> Column:
    def text(row: Any) -> str:
        answers = {answer: getattr(row, f"{source}_{answer}") for answer in (HOLDS, REVERSED, TIE, UNDECIDED)}
        said = ", ".join(f"{answer} {count}" for answer, count in answers.items() if count)
        return f"{said} of {getattr(row, f'{source}_cells')}" if said else GAP

    return Column(f"{source}_cells", source, text=text)


ORDER = Table(
    "Cells in which an ordering statement of the paper holds, is reversed, ties or stays undecided: by its own numbers "
    "(with our standard deviations, since it prints none), and by ours at delta = 1e-3.",
    (
        Column("ordering", "statement", labels={ordering: statement for ordering, (statement, _) in ORDERINGS.items()}),
        _of("published"),
        _of("ours"),
    ),
)


def best(rows: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Settings of DPBag that may have the largest value at each epsilon: none is shown to be ahead of them.

    Columns: epsilon; published_n, published_k, ours_n, ours_k (values that occur in such settings, as text), and
    published and ours (how many such settings there are).
    """
    table = cells(rows, metric).query("method == 'dpbag'")
    found = []
    for epsilon, group in table.groupby("epsilon"):
        line: dict[str, Any] = {"epsilon": epsilon}
        for source, column in SOURCES.items():
            means = {
                f"{row.n_teachers:g} {row.k:g}": mean for row in group.itertuples() if (mean := mean_of(row, column))
            }
            first = [name.split() for name in means if places(means, name)[0] == 1]
            line[source] = len(first)
            for at, letter in enumerate("nk"):
                line[f"{source}_{letter}"] = ", ".join(sorted({name[at] for name in first}, key=float))
        found.append(line)
    return pd.DataFrame(found)


BEST = Table(
    "Settings of DPBag that may have the largest accuracy at each epsilon: those that no other is shown to exceed.",
    (
        Column("epsilon", format="{:g}"),
        *(Column(f"{source}_{name}", f"{source}, {name}") for name in "nk" for source in SOURCES),
        *(Column(source, f"{source}, settings") for source in SOURCES),
    ),
)


def implied_fractions(labels: pd.DataFrame) -> pd.DataFrame:
    """Mean of m^2 over queries, for the record that pays most, that counts of labels imply: SAA count / DPBag count.

    Parameters
    ----------
    labels : DataFrame
        Of :func:`cells`.

    Returns
    -------
    DataFrame
        n_teachers, k, and for each epsilon published_<epsilon> and ours_<epsilon> (delta = 1e-3).
    """
    one, many = (labels[labels["method"] == method] for method in ("saa", "dpbag"))
    both = many.merge(one, on=["n_teachers", "epsilon"], suffixes=("", "_saa"))
    for source, column in SOURCES.items():
        both[source] = both[f"{column}_saa"] / both[column]
    wide = both.pivot_table(list(SOURCES), ["n_teachers", "k"], "epsilon", dropna=False)
    wide.columns = wide.columns.map(lambda name: f"{name[0]}_{name[1]:g}")
    return wide.reset_index().astype({"n_teachers": int, "k": int})


IMPLIED = Table(
    "Mean of m^2 that the counts imply, for the record that pays most, at each epsilon: SAA count / DPBag count.",
    (
        Column("n_teachers", "n"),
        "k",
        *(Column(f"{source}_{e:g}", f"{source}, {e:g}", "{:.2f}") for source in SOURCES for e in EPSILONS),
    ),
)


def counts() -> pd.DataFrame:
    """Labels of subsample-and-aggregate at lambda = 2 / n: published, by the paper's loop at both deltas, and tight.

    Columns: n_teachers, epsilon, published, loop_reproduced and loop_stated (by the loop at 1e-3 and 1e-5), tight
    (bounded range, at 1e-5), gain (tight over the most that the paper's own bound allows, one label less than its
    loop).
    """
    keys = ["n_teachers", "epsilon"]
    paper = paper_table("dpbag_labels").query("method == 'SAA'").sort_values([*keys, "table"]).drop_duplicates(keys)
    table = paper[[*keys, "value"]].rename(columns={"value": "published"}).reset_index(drop=True)
    for column, delta, analysis in (
        ("loop_reproduced", PUBLISHED_DELTA, "published"),
        ("loop_stated", STATED_DELTA, "published"),
        ("tight", STATED_DELTA, "tight"),
    ):
        table[column] = [
            affordable(float(epsilon), delta, n, analysis) for n, epsilon in table[keys].itertuples(index=False)
        ]
    return table.assign(gain=table["tight"] / (table["loop_stated"] - 1))


COUNTS = Table(
    "Labels of subsample-and-aggregate: published (stated delta: 1e-5); by tight accounting, derived below, and its "
    "gain over the most that the paper's bound allows within the budget; by the paper's loop.",
    (
        Column("n_teachers", "n"),
        Column("epsilon", format="{:g}"),
        "published",
        Column("tight", "tight 1e-5"),
        Column("gain", format="{:.1f}"),
        Column("loop_reproduced", "loop 1e-3"),
        Column("loop_stated", "loop 1e-5"),
    ),
)


def own(rows: pd.DataFrame) -> pd.DataFrame:
    """Means over runs of a reader's rows: epsilon, n_teachers, n_partitions, labels, accuracy, std, auroc, seeds."""
    keys = ["epsilon", "n_teachers", "n_partitions"]
    done = rows.reindex(columns=[*keys, "labels", "accuracy", "auroc"]).astype(float).dropna(subset=["accuracy"])
    groups = done.groupby(keys, dropna=False)
    means: Any = {name: (name, "mean") for name in ("labels", "accuracy", "auroc")}
    table: pd.DataFrame = groups.agg(**means, std=("accuracy", "std"), seeds=("accuracy", "count")).reset_index()
    return table


OWN = Table(
    "Your records, tight accounting at delta = 1e-5: labels that the budget pays for, and the student on the test "
    "third. Without epsilon: one model on all private records, with no guarantee.",
    (
        Column("epsilon", format="{:g}"),
        Column("n_teachers", "n", "{:.0f}"),
        Column("n_partitions", "k", "{:.0f}"),
        Column("labels", format="{:.0f}"),
        mean_and_std("accuracy"),
        Column("auroc", "AUROC", "{:.3f}"),
        "seeds",
    ),
)


def costs(rows: pd.DataFrame) -> pd.DataFrame:
    """Seconds of each setting of a run, and the most memory.

    Parameters
    ----------
    rows : DataFrame
        Of :func:`dpnotes.lab.dpbag.experiments.cost`.

    Returns
    -------
    DataFrame
        teachers, n_teachers, seconds_<k> (seconds of teachers, votes, accounts and students for each number k of
        partitions; empty where not measured), memory (the most of any k, in GiB). n = k = 1 is one model on all
        records.
    """
    measured = rows.dropna(subset=["teachers_seconds"]).astype({"n_teachers": int, "n_partitions": int})
    measured["seconds"] = measured["teachers_seconds"] + measured["students_seconds"]
    keys = ["teachers", "n_teachers"]
    table = measured.pivot_table("seconds", keys, "n_partitions").add_prefix("seconds_").rename_axis(columns=None)
    table["memory"] = measured.groupby(keys)["peak_memory"].max() / 1024
    return table.sort_index(ascending=[False, True]).reset_index()


PARTITIONS = sorted({k for sizes in SIZES.values() for k in sizes["k"]})
COSTS = Table(
    "Seconds of one core for each setting of a run, and the most memory that the process holds, in GiB. n = 1: one "
    "model on all private records.",
    (
        "teachers",
        Column("n_teachers", "n"),
        *(Column(f"seconds_{k}", f"k = {k}", "{:.1f}") for k in PARTITIONS),
        Column("memory", "GiB", "{:.2f}"),
    ),
)


def run_seconds(rows: pd.DataFrame, teachers: str) -> float:
    """Seconds of all settings of one run on one core, NaN where one of them was not measured.

    Parameters
    ----------
    rows : DataFrame
        Of :func:`dpnotes.lab.dpbag.experiments.cost`.
    teachers : {"logistic", "boosting"}
    """
    own = rows[rows["teachers"] == teachers].set_index(["n_teachers", "n_partitions"])
    seconds = (own["teachers_seconds"] + own["students_seconds"]).astype(float)
    settings = [(1, 1), *product(SIZES[teachers]["n"], SIZES[teachers]["k"])]
    return float(sum(seconds.get(setting, math.nan) for setting in settings))
