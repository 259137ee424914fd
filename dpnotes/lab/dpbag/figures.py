"""Figures of the chapter on differentially private bagging."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpnotes.lab.dpbag.runs import SHARES
from dpnotes.lab.dpbag.tables import METRICS
from dpnotes.lab.figures import blank, line_styles
from dpnotes.mechanisms import Partitions

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def touched_teachers(cut: Partitions, record: int) -> Figure:
    """Which teacher of each partition is trained on which record; those that share a teacher with one record stand out.

    Parameters
    ----------
    cut : Partitions
    record : int
        The one to follow.

    Returns
    -------
    matplotlib.figure.Figure
    """
    import seaborn as sns

    n, k = cut.chunk.shape
    colors = np.array(sns.color_palette("colorblind", cut.n_chunks))
    figure = blank(6.6, 0.42 * k + 1.4)
    axes = figure.subplots()
    for j, chunks in enumerate(cut.chunk.T):
        together = chunks == chunks[record]
        others = np.flatnonzero(~together)
        axes.scatter(others, np.full(len(others), j), s=26, c=colors[chunks[others]], alpha=0.3, linewidths=0)
        own = np.flatnonzero(together)
        axes.plot(own, np.full(len(own), j), color=colors[chunks[record]], linewidth=1.2, zorder=1)
        axes.scatter(own, np.full(len(own), j), s=60, c=colors[chunks[own]], edgecolors="0.15", linewidths=0.8)
    axes.axvline(record, color="0.15", linewidth=1, linestyle=":", zorder=0)
    for chunk in range(cut.n_chunks):
        axes.scatter([], [], s=40, color=colors[chunk], label=f"teacher {chunk}")
    axes.set(xlabel="record", ylabel="partition", yticks=range(k), xlim=(-1, n), ylim=(k - 0.5, -0.5))
    axes.grid(visible=False)
    figure.legend(loc="outside upper center", ncols=cut.n_chunks)
    return figure


def reproduction(tables: dict[str, pd.DataFrame]) -> Figure:
    """Ours against published for several metrics: delta = 1e-3 filled, delta = 1e-5 open, equality dashed.

    Parameters
    ----------
    tables : dict of metric to DataFrame
        Of :func:`dpnotes.lab.dpbag.experiments.cells`.

    Returns
    -------
    matplotlib.figure.Figure
    """
    figure = blank(7.6, 7.0)
    grid = figure.subplots(2, 2).ravel()
    markers = {"DPBag": "o", "DPBag-": "D", "SAA": "s", "NPB": "^"}
    for axes, (metric, table) in zip(grid, tables.items(), strict=False):
        paper = table.dropna(subset=["published"])
        for (method, marker), style in zip(markers.items(), line_styles(len(markers)), strict=True):
            part = paper[paper["method"] == method]
            if not part["reproduced"].notna().any():
                continue
            axes.errorbar(
                part["published"], part["reproduced"], yerr=part["spread"].fillna(0.0), fmt=marker, markersize=5,
                color=style["color"], linewidth=0.8, label=f"{method}, delta = 1e-3" if method != "NPB" else "NPB",
            )  # fmt: skip
            if part["stated"].notna().any():
                axes.plot(
                    part["published"], part["stated"], marker, markersize=5, color=style["color"], alpha=0.7,
                    markerfacecolor="none", label=f"{method}, delta = 1e-5",
                )  # fmt: skip
        name = METRICS[metric]
        axes.set(xlabel=f"{name}, published", ylabel=f"{name}, ours")
        if not paper["reproduced"].notna().any():
            axes.text(0.5, 0.5, "nothing to compare", ha="center", va="center", transform=axes.transAxes)
            continue
        ends = [paper["published"].min(), paper["published"].max()]
        axes.plot(ends, ends, color="0.4", linewidth=1, linestyle="--", zorder=0)
        if metric == "labels":
            axes.set(xscale="log", yscale="log")
            axes.set(xlabel="labels, published (log)", ylabel="labels, ours (log)")
    handles, names = grid[1].get_legend_handles_labels()
    order = sorted(range(len(names)), key=lambda i: (list(markers).index(names[i].partition(",")[0]), names[i]))
    chosen = [[found[i] for i in order] for found in (handles, names)]
    figure.legend(*chosen, loc="outside upper center", ncols=4, columnspacing=1.0, fontsize="small")
    return figure


def variants(table: pd.DataFrame, *, n_teachers: int, metric: str = "auroc") -> Figure:
    """A metric of the student against epsilon, for the variants of :func:`dpnotes.lab.dpbag.experiments.sound`.

    Filters are shown for one partition.

    Parameters
    ----------
    table : DataFrame
    n_teachers : int
    metric : str

    Returns
    -------
    matplotlib.figure.Figure
    """
    filters = table["variant"].str.startswith("filter")
    part = table[(table["n_teachers"] == n_teachers) & ~(filters & (table["k"] > 1))]
    groups = list(part.groupby(["variant", "k"], sort=False))
    figure = blank(6.6, 5.4)
    axes = figure.subplots()
    for i, (((name, k), rows), style) in enumerate(zip(groups, line_styles(len(groups)), strict=True)):
        proved = rows["guarantee"].iloc[0] == "proved"
        axes.errorbar(
            rows["epsilon"] * 1.02 ** (i - len(groups) / 2), rows[metric], yerr=rows[f"{metric} spread"].fillna(0.0),
            marker="o", markersize=6, markerfacecolor=style["color"] if proved else "white", elinewidth=0.8,
            label=f"{name}, k = {k:.0f}" + ("" if proved else " (no guarantee)"), **style,
        )  # fmt: skip
    axes.set(xscale="log", xlabel="epsilon (log)", ylabel=f"{METRICS.get(metric, metric)} of the student")
    axes.set_xticks(sorted(part["epsilon"].unique()), [f"{e:g}" for e in sorted(part["epsilon"].unique())])
    axes.minorticks_off()
    figure.legend(loc="outside upper center", ncols=2, fontsize="small")
    return figure


def who_pays(table: pd.DataFrame, *, epsilon: float) -> Figure:
    """Quantiles over records of what they have paid when the one that pays most stops the loop.

    Parameters
    ----------
    table : DataFrame
        Of :func:`dpnotes.lab.dpbag.experiments.paid`.
    epsilon : float

    Returns
    -------
    matplotlib.figure.Figure
    """
    part = table[table["epsilon"] == epsilon].sort_values(["n_teachers", "n_partitions"])
    figure = blank(6.6, 0.36 * len(part) + 1.5)
    axes = figure.subplots()
    import seaborn as sns

    color = sns.color_palette("colorblind")[0]
    places = np.arange(len(part))
    least, low, first, middle, third, high, largest = (part[share].to_numpy() for share in SHARES)
    axes.hlines(places, least, largest, color=color, linewidth=1, label="all records")
    axes.hlines(places, low, high, color=color, linewidth=4, alpha=0.45, label="90 % of the records")
    axes.hlines(places, first, third, color=color, linewidth=9, alpha=0.8, label="half of the records")
    axes.plot(middle, places, "|", color="white", markersize=8, markeredgewidth=2)
    names = [f"n = {n:.0f}, k = {k:.0f}" for n, k in zip(part["n_teachers"], part["n_partitions"], strict=True)]
    axes.set_yticks(places, names)
    axes.set(xlabel="epsilon of a record / largest epsilon of any", xlim=(None, 1.005))
    axes.invert_yaxis()
    figure.legend(loc="outside upper center", ncols=3)
    return figure


def two_draws(first: NDArray[np.float64], second: NDArray[np.float64]) -> Figure:
    """Epsilon of each record under two draws of the partitions.

    Parameters
    ----------
    first, second : ndarray, shape [n]

    Returns
    -------
    matplotlib.figure.Figure
    """
    import seaborn as sns

    figure = blank(5.2, 4.2)
    axes = figure.subplots()
    axes.scatter(first, second, s=16, color=sns.color_palette("colorblind")[0], alpha=0.7)
    ends = [min(first.min(), second.min()), max(first.max(), second.max())]
    axes.plot(ends, ends, color="0.4", linewidth=1, linestyle="--", label="equal")
    axes.set(xlabel="epsilon of a record, one draw of the partitions", ylabel="epsilon, another draw")
    axes.legend(loc="lower right")
    return figure
