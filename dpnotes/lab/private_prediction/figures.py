"""Figures 1 to 6 of the private-prediction chapter: accuracy of the methods against
one quantity.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from dpnotes.lab.figures import blank, looks, name_line
from dpnotes.lab.private_prediction.grids import METHODS, NAMES
from dpnotes.lab.private_prediction.results import Series, series
from dpnotes.lab.tables import GAP

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

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
# beside a curve, where a name on one line would lie over another curve
BESIDE = dict(NAMES, loss_perturbation="loss\nperturbation")


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
        Value on the axis at which the paper states that something happens.
    places : mapping of str to (float, str)
        Of each method the place of its name, as for
        :func:`dpnotes.lab.figures.name_line`. Empty: the legend has it.
    """

    title: str
    x: str
    methods: Sequence[str] = METHODS
    fixed: Mapping[str, Any] = {}
    mark: float | None = None
    places: Mapping[str, tuple[float, str]] = {}


def trade_offs(
    rows: pd.DataFrame, panels: Sequence[Panel], *, mark: str = ""
) -> Figure:
    """Mean accuracy of each method with a band of one standard deviation over the
    releases; gaps named in the title.

    Parameters
    ----------
    rows : DataFrame
        As :func:`put_together` gives them.
    panels : sequence of Panel
        Side by side, on one vertical axis.
    mark : str
        What the dotted line of a panel stands for.

    Returns
    -------
    matplotlib.figure.Figure
    """
    figure = blank(min(4.2, 9.6 / len(panels)) * len(panels) + 0.6, 3.7)
    every = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    explained: dict[str, Any] = {}
    for axes, panel in zip(every, panels, strict=True):
        for method, line in _panel(axes, rows, panel).items():
            if method in panel.places:
                name_line(line, BESIDE[method], *panel.places[method])
            else:
                explained[NAMES[method]] = line
        if panel.mark is not None:
            axes.axvline(panel.mark, color="0.25", linestyle=":", linewidth=1.5)
            across = axes.get_xaxis_transform()
            place: dict[str, Any] = {"ha": "right", "transform": across, "fontsize": 10}
            axes.text(panel.mark, 0.03, f"{mark} ", **place)
    # room for names above the best curves
    every[0].set(ylabel="test accuracy", ylim=(0, 1.06))
    if explained:
        names, lines = list(explained), list(explained.values())
        figure.legend(lines, names, loc="outside lower center", ncols=3)
    else:
        figure.set_figheight(3.1)
    return figure


def both(
    title: str,
    x: str,
    methods: Sequence[str],
    *,
    mark: float | None = None,
    places: Sequence[Mapping[str, tuple[float, str]]] = ({}, {}),
    **fixed: Any,
) -> list[Panel]:
    """Two panels, with the paper's constants and with sound ones; the title begins
    with ``title``.
    """
    return [
        Panel(
            f"{title}{name} constants",
            x,
            methods,
            {"analysis": name, **fixed},
            mark,
            of,
        )
        for name, of in zip(("published", "tight"), places, strict=True)
    ]


def _panel(axes: Axes, rows: pd.DataFrame, panel: Panel) -> dict[str, Line2D]:
    """Draw a panel; gives the curve of each method."""
    drawn = {}
    absent = []
    constant = []
    styles = looks(NAMES.values())
    for method in panel.methods:
        points = series(rows, method, panel.x, **panel.fixed)
        # named in the title, so that a gap is seen
        if points is None:
            absent.append(NAMES[method])
        elif len(points.x) == 1 and panel.x == "answers":
            # a released model: the same at any number of answers
            constant.append((method, points))
        else:
            drawn[method] = _line(axes, points, styles[NAMES[method]])
    # as far as the curves of this panel go
    low, high = axes.get_xlim() if axes.lines else (1, 1000)
    for method, points in constant:
        # a horizontal line over the other curves
        ends = Series(
            np.array([max(low, 1), high]),
            *(np.repeat(values, 2) for values in points[1:]),
        )
        look = styles[NAMES[method]] | {"marker": ""}
        drawn[method] = _line(axes, ends, look)
    gap = f"\n{GAP}: {', '.join(absent)}" if absent else ""
    axes.set_title(panel.title + gap, fontsize=10)
    axes.set(
        xlabel=LABELS[panel.x], xscale="linear" if panel.x == "n_classes" else "log"
    )
    return drawn


def _line(axes: Axes, points: Series, style: dict[str, Any]) -> Line2D:
    (line,) = axes.plot(points.x, points.accuracy, markersize=5, **style)
    # a single release has no band
    band = np.nan_to_num(points.std)
    low = points.accuracy - band
    high = points.accuracy + band
    axes.fill_between(points.x, low, high, color=style["color"], alpha=0.2, linewidth=0)
    return line
