"""Figures of the chapter on differentially private bagging."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpnotes.lab.dpbag.runs import QUANTILES
from dpnotes.lab.dpbag.tables import METHODS, METRICS
from dpnotes.lab.dpbag.variants import SETTING, variant_name
from dpnotes.lab.figures import blank, blank_axes, line_styles
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
    n, k = cut.chunk.shape
    colors = np.array([style["color"] for style in line_styles(cut.n_chunks)])
    figure, axes = blank_axes(6.6, 0.42 * k + 1.4)
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
        Of :func:`dpnotes.lab.dpbag.tables.cells`.

    Returns
    -------
    matplotlib.figure.Figure
    """
    figure = blank(7.6, 7.0)
    markers = dict(zip(METHODS, "oDs^", strict=True))
    styles = line_styles(len(markers))
    handles: dict[str, Any] = {}
    for axes, (metric, table) in zip(figure.subplots(2, 2).ravel(), tables.items(), strict=False):
        handles = {}  # the legend is that of the last axes, which have all methods
        paper = table.dropna(subset=["published"])
        for (method, marker), style in zip(markers.items(), styles, strict=True):
            own, look = paper[paper["method"] == method], {"markersize": 5, "color": style["color"]}
            if not own["reproduced"].notna().any():
                continue
            name = METHODS[method]
            handles[name if method == "npb" else f"{name}, delta = 1e-3"] = axes.errorbar(
                own["published"], own["reproduced"], yerr=own["std"].fillna(0.0), fmt=marker, linewidth=0.8, **look
            )
            if own["stated"].notna().any():
                (handles[f"{name}, delta = 1e-5"],) = axes.plot(
                    own["published"], own["stated"], marker, alpha=0.7, markerfacecolor="none", **look
                )
        log = metric == "labels" and bool(handles)
        ends = " (log)" if log else ""
        axes.set(xlabel=f"{METRICS[metric]}, published{ends}", ylabel=f"{METRICS[metric]}, ours{ends}")
        if log:
            axes.set(xscale="log", yscale="log")
        if handles:
            diagonal = [paper["published"].min(), paper["published"].max()]
            axes.plot(diagonal, diagonal, color="0.4", linewidth=1, linestyle="--", zorder=0)
        else:
            axes.text(0.5, 0.5, "nothing to compare", ha="center", va="center", transform=axes.transAxes)
    legend = {"ncols": 4, "columnspacing": 1.0, "fontsize": "small"}
    figure.legend(handles.values(), handles.keys(), loc="outside upper center", **legend)
    return figure


def variants(table: pd.DataFrame, *, n_teachers: int, metric: str = "auroc") -> Figure:
    """A metric of the student against epsilon, for the variants of :func:`dpnotes.lab.dpbag.variants.compared`.

    Parameters
    ----------
    table : DataFrame
    n_teachers : int
    metric : str

    Returns
    -------
    matplotlib.figure.Figure
    """
    shown = table[table["n_teachers"] == n_teachers]
    groups = [rows for _, rows in shown.groupby([*SETTING, "k"], sort=False, dropna=False)]
    figure, axes = blank_axes(6.6, 5.4)
    for i, (rows, style) in enumerate(zip(groups, line_styles(len(groups)), strict=True)):
        first = next(rows.itertuples())
        proved = first.guarantee == "proved"
        axes.errorbar(
            rows["epsilon"] * 1.02 ** (i - len(groups) / 2), rows[metric], yerr=rows[f"{metric}_std"].fillna(0.0),
            marker="o", markersize=6, markerfacecolor=style["color"] if proved else "white", elinewidth=0.8,
            label=f"{variant_name(first)}, k = {first.k:.0f}" + ("" if proved else " (no guarantee)"), **style,
        )  # fmt: skip
    axes.set(xscale="log", xlabel="epsilon (log)", ylabel=f"{METRICS.get(metric, metric)} of the student")
    epsilons = sorted(shown["epsilon"].unique())
    axes.set_xticks(epsilons, [f"{e:g}" for e in epsilons])
    axes.minorticks_off()
    figure.legend(loc="outside upper center", ncols=2, fontsize="small")
    return figure


def who_pays(table: pd.DataFrame, *, epsilon: float) -> Figure:
    """Quantiles over records of what they have paid when the one that pays most stops the loop.

    Parameters
    ----------
    table : DataFrame
        Of :func:`dpnotes.lab.dpbag.variants.paid`.
    epsilon : float

    Returns
    -------
    matplotlib.figure.Figure
    """
    shown = table[table["epsilon"] == epsilon].sort_values(["n_teachers", "k"])
    figure, axes = blank_axes(6.6, 0.36 * len(shown) + 1.5)
    color = line_styles(1)[0]["color"]
    places = np.arange(len(shown))
    least, low, first, middle, third, high, largest = (shown[quantile].to_numpy() for quantile in QUANTILES)
    axes.hlines(places, least, largest, color=color, linewidth=1, label="all records")
    axes.hlines(places, low, high, color=color, linewidth=4, alpha=0.45, label="90 % of the records")
    axes.hlines(places, first, third, color=color, linewidth=9, alpha=0.8, label="half of the records")
    axes.plot(middle, places, "|", color="white", markersize=8, markeredgewidth=2)
    axes.set_yticks(places, [f"n = {row.n_teachers:.0f}, k = {row.k:.0f}" for row in shown.itertuples()])
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
    figure, axes = blank_axes(5.2, 4.2)
    axes.scatter(first, second, s=16, color=line_styles(1)[0]["color"], alpha=0.7)
    ends = [min(first.min(), second.min()), max(first.max(), second.max())]
    axes.plot(ends, ends, color="0.4", linewidth=1, linestyle="--", label="equal")
    axes.set(xlabel="epsilon of a record, one draw of the partitions", ylabel="epsilon, another draw")
    axes.legend(loc="lower right")
    return figure
