"""Figures 1 to 6 of the private-prediction chapter: accuracy of the methods against one quantity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from dpnotes.lab.figures import blank, line_styles
from dpnotes.lab.private_prediction.grids import METHODS, NAMES
from dpnotes.lab.private_prediction.series import Series, series
from dpnotes.lab.tables import GAP

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MARKERS = ("o", "s", "^", "D", "v")
LABELS = {
    "epsilon": "epsilon (log)",
    "answers": "answers B (log)",
    "delta": "delta (log)",
    "n": "training records N (log)",
    "d": "dimensions D (log)",
    "n_classes": "classes C",
    "l2": "lambda (log)",
    "n_models": "models T (log)",
}


class Panel(NamedTuple):
    """What one panel shows.

    Attributes
    ----------
    title : str
    x : str
        Column of the horizontal axis.
    methods : sequence of str
    fixed : mapping
        ``delta``, ``analysis`` and other settings of :func:`series`.
    mark : float or None
        Where on the axis the paper states that something happens.
    """

    title: str
    x: str
    methods: Sequence[str] = METHODS
    fixed: Mapping[str, Any] = {}
    mark: float | None = None


def trade_offs(rows: pd.DataFrame, panels: Sequence[Panel], *, mark: str = "") -> Figure:
    """Mean accuracy of each method with a band of one standard deviation over the releases; gaps named in the title.

    Parameters
    ----------
    rows : DataFrame
        As :func:`put_together` gives them.
    panels : sequence of Panel
        Side by side, on one vertical axis.
    mark : str
        What the dotted line of a panel stands for, in the legend's words.

    Returns
    -------
    matplotlib.figure.Figure
    """
    figure = blank(min(4.2, 9.6 / len(panels)) * len(panels) + 0.6, 4.6)
    every = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    drawn: dict[str, Any] = {}
    for axes, panel in zip(every, panels, strict=True):
        _panel(axes, rows, panel, drawn)
        if panel.mark is not None:
            drawn[mark] = axes.axvline(panel.mark, color="0.25", linestyle=":", linewidth=1.5)
    every[0].set(ylabel="test accuracy", ylim=(0, 1))
    if drawn:
        figure.legend(drawn.values(), drawn.keys(), loc="outside lower center", ncols=3)
    return figure


def _panel(axes: Axes, rows: pd.DataFrame, panel: Panel, drawn: dict[str, Any]) -> None:
    absent, lines = [], []
    for method in panel.methods:
        style, marker = line_styles(len(METHODS))[METHODS.index(method)], MARKERS[METHODS.index(method)]
        points = series(rows, method, panel.x, **panel.fixed)
        if points is None:
            absent.append(NAMES[method])
        elif len(points.x) == 1 and panel.x == "answers":
            lines.append((method, points, style, marker))  # a released model: the same at any number of answers
        else:
            drawn[NAMES[method]] = _line(axes, points, {**style, "marker": marker})
    low, high = axes.get_xlim() if axes.lines else (1, 1000)
    for method, points, style, _ in lines:
        ends = np.array([max(low, 1), high])
        constant = Series(ends, *(np.repeat(values, 2) for values in points[1:]))
        drawn[NAMES[method]] = _line(axes, constant, style)
    gap = f"\n{GAP}: {', '.join(absent)}" if absent else ""
    axes.set_title(panel.title + gap, fontsize=10)
    axes.set(xlabel=LABELS[panel.x])
    if panel.x != "n_classes":
        axes.set_xscale("log")


def _line(axes: Axes, points: Series, style: dict[str, Any]) -> Any:
    (line,) = axes.plot(points.x, points.accuracy, markersize=5, **style)
    band = np.nan_to_num(points.spread)
    axes.fill_between(
        points.x, points.accuracy - band, points.accuracy + band, color=style["color"], alpha=0.2, linewidth=0
    )
    return line
