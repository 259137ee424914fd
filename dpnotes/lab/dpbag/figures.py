"""Figures of the chapter on differentially private bagging."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpnotes.lab.dpbag.results import (
    FILTER,
    METHODS,
    METRICS,
    VARIANT,
    agreement,
    variant_name,
)
from dpnotes.lab.dpbag.runs import QUANTILES
from dpnotes.lab.figures import blank, blank_axes, line_styles
from dpnotes.lab.verdicts import REVERSED
from dpnotes.mechanisms import Partitions

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# of the colours of differences: per cent of a count, points of a performance
LIMITS = {"labels": 25.0, "accuracy": 6.0, "auroc": 6.0, "auprc": 6.0}
# the darkest colour of a filter
FILTERS = "#332288"


def touched_teachers(cut: Partitions, record: int) -> Figure:
    """Draw which teacher of each partition is trained on which record, and highlight
    who shares a teacher with one.

    Parameters
    ----------
    cut : Partitions
    record : int
        The record whose teachers are followed.

    Returns
    -------
    matplotlib.figure.Figure
    """
    n, k = cut.chunk.shape
    # one colour for each teacher
    colors = np.array([style["color"] for style in line_styles(cut.n_chunks)])
    figure, axes = blank_axes(6.6, 0.36 * k + 1.4)
    for j, chunks in enumerate(cut.chunk.T):
        # who shares the record's teacher in this partition
        together = chunks == chunks[record]
        others = np.flatnonzero(~together)
        axes.scatter(
            others,
            np.full(len(others), j),
            s=26,
            c=colors[chunks[others]],
            alpha=0.3,
            linewidths=0,
        )
        own = np.flatnonzero(together)
        axes.plot(
            own,
            np.full(len(own), j),
            color=colors[chunks[record]],
            linewidth=1.2,
            zorder=1,
        )
        axes.scatter(
            own,
            np.full(len(own), j),
            s=60,
            c=colors[chunks[own]],
            edgecolors="0.15",
            linewidths=0.8,
        )
    axes.axvline(record, color="0.15", linewidth=1, linestyle=":", zorder=0)
    for chunk in range(cut.n_chunks):
        # for the legend alone
        axes.scatter([], [], s=40, color=colors[chunk], label=f"teacher {chunk}")
    axes.set(
        xlabel="record",
        ylabel="partition",
        yticks=range(k),
        xlim=(-1, n),
        ylim=(k - 0.5, -0.5),
    )
    axes.grid(visible=False)
    figure.legend(loc="outside upper center", ncols=cut.n_chunks)
    return figure


def differences(tables: dict[str, pd.DataFrame]) -> Figure:
    """Draw our value minus the published value of every cell as a number on a colour,
    one panel for each metric. Numbers are bold where the two values do not agree.

    Parameters
    ----------
    tables : dict of metric to DataFrame
        Tables of :func:`dpnotes.lab.dpbag.results.cells`. Counts are compared in per
        cent, performances in points.

    Returns
    -------
    matplotlib.figure.Figure
    """
    settings = list(
        dict.fromkeys(map(_setting, pd.concat(tables.values()).itertuples()))
    )
    figure = blank(8.4, 0.25 * len(settings) + 1.1)
    every = figure.subplots(1, len(tables), sharey=True)
    for axes, (metric, table) in zip(every, tables.items(), strict=True):
        _difference_panel(axes, settings, metric, table)
    every[0].set_yticks(range(len(settings)), settings, fontsize=10)
    return figure


def _difference_panel(
    axes: Axes, settings: list[str], metric: str, table: pd.DataFrame
) -> None:
    name, unit = ("relative", "%") if metric == "labels" else ("difference", "points")
    epsilons = sorted(table["epsilon"].dropna().unique())
    shown = np.full((len(settings), len(epsilons)), np.nan)
    differs = np.zeros(shown.shape, bool)
    for row in table.itertuples():
        at = settings.index(_setting(row))
        # a model without privacy has no epsilon, and one number for the whole line
        own = slice(None) if row.method == "npb" else epsilons.index(row.epsilon)
        shown[at, own] = 100 * getattr(row, name)
        differs[at, own] = agreement(row) == REVERSED
    limit = LIMITS[metric]
    # what the paper does not print
    axes.set_facecolor("0.9")
    look: dict[str, Any] = {"cmap": "RdBu_r", "edgecolors": "white", "linewidth": 1}
    places = range(len(epsilons)), range(len(settings))
    axes.pcolormesh(*places, shown, vmin=-limit, vmax=limit, **look)
    for (at, column), value in np.ndenumerate(shown):
        once = settings[at] != METHODS["npb"] or column == len(epsilons) // 2
        if once and not np.isnan(value):
            written: dict[str, Any] = {
                "ha": "center",
                "va": "center",
                "fontsize": 10,
                "color": "white" if abs(value) > 0.6 * limit else "black",
                "fontweight": "bold" if differs[at, column] else "normal",
            }
            axes.text(column, at, _two_digits(value), **written)
    # a gap between the methods
    methods = [setting.split(",")[0] for setting in settings]
    for at in range(1, len(settings)):
        if methods[at] != methods[at - 1]:
            axes.axhline(at - 0.5, color="white", linewidth=6)
    axes.set_title(f"{METRICS[metric]}, {unit}", fontsize=11)
    axes.set_xticks(range(len(epsilons)), [f"{epsilon:g}" for epsilon in epsilons])
    axes.set(xlabel="epsilon", ylim=(len(settings) - 0.5, -0.5))
    axes.grid(visible=False)


def _two_digits(value: float) -> str:
    digits = 0 if abs(value) >= 9.95 else 1
    text = f"{value:+.{digits}f}".replace("-", "\N{MINUS SIGN}")
    return "0.0" if text[1:] == "0.0" else text


def _setting(row: Any) -> str:
    if row.method == "npb":
        return METHODS["npb"]
    partitions = "" if row.k == 1 else f", k = {row.k:g}"
    return f"{METHODS[row.method]}, n = {row.n_teachers:g}{partitions}"


def variants(table: pd.DataFrame, *, n_teachers: int) -> Figure:
    """Draw the student's AUROC against epsilon, for the variants of
    :func:`dpnotes.lab.dpbag.results.variants`.

    Parameters
    ----------
    table : DataFrame
    n_teachers : int

    Returns
    -------
    matplotlib.figure.Figure
    """
    from seaborn import light_palette

    shown = table[table["n_teachers"] == n_teachers]
    groups = [
        rows for _, rows in shown.groupby([*VARIANT, "k"], sort=False, dropna=False)
    ]
    figure = blank(9.0, 3.9)
    epsilons = sorted(shown["epsilon"].unique())
    for axes, filtered, title in zip(
        figure.subplots(1, 2, sharey=True),
        (False, True),
        ("votes", "filters"),
        strict=True,
    ):
        own = [
            rows for rows in groups if (rows["method"].iloc[0] == FILTER) is filtered
        ]
        styles = line_styles(len(own))
        if filtered:
            # no colour of a vote; the fewer votes a filter allows, the lighter
            shades = light_palette(FILTERS, len(own) + 3)[:2:-1]
            styles = [
                dict(style, color=shade)
                for style, shade in zip(styles, shades, strict=True)
            ]
        for i, (rows, style) in enumerate(zip(own, styles, strict=True)):
            first = next(rows.itertuples())
            proved = first.guarantee == "proved"
            axes.errorbar(
                # beside each other, so that error bars do not hide one another
                rows["epsilon"] * 1.02 ** (i - len(own) / 2),
                rows["auroc"],
                yerr=rows["auroc_std"].fillna(0.0),
                marker="o",
                markersize=6,
                # an open marker has no guarantee
                markerfacecolor=style["color"] if proved else "white",
                elinewidth=0.8,
                label=f"{variant_name(first)}, k = {first.k:.0f}"
                + ("" if proved else " (no guarantee)"),
                **style,
            )
        axes.set(xscale="log", xlabel="epsilon (log)", title=title)
        axes.set_xticks(epsilons, [f"{e:g}" for e in epsilons])
        axes.minorticks_off()
        axes.set_visible(bool(own))
        if own:
            axes.legend(loc="lower right", fontsize="small")
    figure.axes[0].set_ylabel("AUROC of the student")
    return figure


def who_pays(table: pd.DataFrame, *, epsilon: float) -> Figure:
    """Draw quantiles of the epsilon of the records when the record with the largest
    epsilon stops the loop.

    Parameters
    ----------
    table : DataFrame
        Quantiles of the epsilons of all records, one line for each ``n_teachers``,
        ``k`` and ``epsilon``.
    epsilon : float

    Returns
    -------
    matplotlib.figure.Figure
    """
    shown = table[table["epsilon"] == epsilon].sort_values(["n_teachers", "k"])
    figure, axes = blank_axes(6.6, 0.36 * len(shown) + 1.5)
    color = line_styles(1)[0]["color"]
    places = np.arange(len(shown))
    # in the order of QUANTILES
    least, low, first, middle, third, high, largest = (
        shown[quantile].to_numpy() for quantile in QUANTILES
    )
    axes.hlines(places, least, largest, color=color, linewidth=1, label="all records")
    axes.hlines(
        places,
        low,
        high,
        color=color,
        linewidth=4,
        alpha=0.45,
        label="90 % of the records",
    )
    axes.hlines(
        places,
        first,
        third,
        color=color,
        linewidth=9,
        alpha=0.8,
        label="half of the records",
    )
    axes.plot(middle, places, "|", color="white", markersize=8, markeredgewidth=2)
    axes.set_yticks(
        places,
        [f"n = {row.n_teachers:.0f}, k = {row.k:.0f}" for row in shown.itertuples()],
    )
    axes.set(xlabel="epsilon of a record / largest epsilon", xlim=(None, 1.005))
    axes.invert_yaxis()
    figure.legend(loc="outside upper center", ncols=3)
    return figure


def two_draws(first: NDArray[np.float64], second: NDArray[np.float64]) -> Figure:
    """Draw the epsilon of each record under two draws of the partitions.

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
    axes.set(
        xlabel="epsilon of a record, one draw of the partitions",
        ylabel="epsilon, another draw",
    )
    axes.legend(loc="lower right")
    return figure
