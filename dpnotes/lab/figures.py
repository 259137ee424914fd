"""A common style for every figure of the book: chapters set no colours, sizes or fonts.

A published result always has an open marker, and our result a filled marker. Epsilon
axes are logarithmic, and the legend explains each band. A cell also outputs each figure
as a picture for a phone (:func:`narrow`), which the page shows on narrow screens.
"""

from __future__ import annotations

import base64
import json
import pickle
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from IPython.display import HTML
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.legend import Legend
    from matplotlib.lines import Line2D

    from dpnotes.accounting import PrivacyProfile


# a mime type that no notebook shows: the PNG for a phone, in base 64
NARROW = "application/vnd.dpnotes.narrow"
# inches of a picture for a phone, whose letters then are nearly of the text's size
_WIDTH = 4.4

DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1)), (0, (3, 1)))
MARKERS = "os^DvP"
# Each mechanism has one colour in all figures, and its place here is that of its dash
# and marker; figures that a reader moves take the same colours (custom.css).
MECHANISMS = {
    "bagging": "#0173b2",
    "gaussian": "#d55e00",
    "dp-sgd": "#029e73",
    "votes": "#cc78bc",
    "laplace": "#56b4e9",
    "perturbation": "#332288",
}
ALIASES = {"aggregate": "votes", "pate": "votes"}
PUBLISHED = "#5c5c5c"  # what a paper's own calculation gives
# Each outcome of a printed number and each status of a claim has one colour: green is
# good, red is bad, and grey is what nobody knows.
STATUSES = {
    "agrees": "#029e73",
    "explained": "#56b4e9",
    "contradicts itself": "#de8f05",
    "unexplained": "#e8434f",
    "undecided": "#cc78bc",
    "not run yet": "#949494",
    "private data": "#d0d0d0",
    "proved": "#029e73",
    "weaker than it looks": "#56b4e9",
    "under a condition": "#de8f05",
    "wrong": "#e8434f",
    "vacuous": "#8a63c9",
    "unproved": "#949494",
}


def use_style() -> None:
    """Set the style of all later figures in this kernel."""
    import matplotlib_inline.backend_inline as inline
    import seaborn as sns
    from IPython.core.interactiveshell import InteractiveShell
    from matplotlib.figure import Figure

    spines = {
        "axes.spines.top": False,
        "axes.spines.right": False,
        "grid.color": "0.88",
    }
    # over no grid lines
    legends = {
        "legend.framealpha": 0.9,
        "legend.edgecolor": "none",
        "legend.borderpad": 0.2,
    }
    settings = {**spines, **legends, "lines.linewidth": 2, "savefig.facecolor": "white"}
    sns.set_theme(
        context="notebook",
        style="whitegrid",
        palette="colorblind",
        font_scale=1.0,
        rc=settings,
    )
    inline.set_matplotlib_formats("retina")  # type: ignore[no-untyped-call,unused-ignore]
    display: Any = InteractiveShell.instance().display_formatter
    display.mimebundle_formatter.for_type(Figure, _beside)


def given(name: str, value: object) -> HTML:
    """Hand numbers to the figure that a reader moves in the place of the still figure
    ``name`` (``book/_static/live.js``).
    """
    from IPython.display import HTML

    text = json.dumps(value).replace("<", "\\u003c")
    script = f'<script type="application/json" id="given-{name}">{text}</script>'
    return HTML(script)  # type: ignore[no-untyped-call]


def _beside(figure: Figure, **which: Any) -> dict[str, str]:
    """What is shown beside a figure's usual picture."""
    found = narrow(figure)
    return {} if found is None else {NARROW: base64.b64encode(found).decode()}


def narrow(figure: Figure) -> bytes | None:
    """Draw a figure again for a phone: panels below each other, legends above their
    panels, letters as large as before.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        The figure, which is not changed.

    Returns
    -------
    bytes or None
        PNG, 4.4 inches wide. None for panels that are tall and thin or have square
        cells, because they are legible only at their full width.
    """
    from IPython.core.pylabtools import print_figure

    copy: Figure = pickle.loads(pickle.dumps(figure))
    width, height = copy.get_size_inches()
    panels = [axes for axes in copy.axes if axes.get_subplotspec() is not None]
    if not panels or any(
        axes.get_aspect() != "auto" and axes.get_adjustable() == "box"
        for axes in panels
    ):
        return None
    rows, columns = (
        getattr(panels[0].get_gridspec(), name) for name in ("nrows", "ncols")
    )
    if columns > 1 and (rows > 1 or height > 2 * width / columns):
        return None
    if columns > 1:
        # rows of a table keep their height
        each = height if panels[0].yaxis_inverted() else 2.6
        height, grid = each * columns, copy.add_gridspec(columns, 1)
        # a title is nearer to its own panel
        copy.set_layout_engine("constrained", h_pad=0.1)
        for row, axes in enumerate(panels):
            axes.set_subplotspec(grid[row])
            axes.tick_params(labelbottom=True, labelleft=True)
            axes.set_ylabel(axes.get_ylabel() or panels[0].get_ylabel())
    drawn: dict[str, Any] = {}
    for axes in panels:
        artists, names = axes.get_legend_handles_labels()
        drawn |= dict(zip(names, artists, strict=True))
    for axes in panels:
        if (own := axes.get_legend()) is not None:
            lines = _lines(own, drawn)
            above: dict[str, Any] = {
                "loc": "lower left",
                "bbox_to_anchor": (-0.15, 1),
                "alignment": "left",
            }
            axes.legend(
                lines.values(),
                lines,
                title=axes.get_title() or None,
                fontsize="small",
                **above,
            )
            axes.set_title("")
            height += 0.25 * len(lines)
    for shared in list(copy.legends):
        lines = _lines(shared, drawn)
        shared.remove()
        copy.legend(lines.values(), lines, loc="outside upper left")
        height += 0.25 * len(lines)
    copy.set_size_inches(_WIDTH, height)
    return cast(bytes, print_figure(copy, fmt="png", dpi=2 * copy.dpi))  # type: ignore[no-untyped-call]


def _lines(legend: Legend, drawn: Mapping[str, Any]) -> dict[str, Any]:
    """What a legend explains: artists by name, the legend's own where the panels
    have none of the name.
    """
    own = zip(legend.get_texts(), legend.legend_handles, strict=True)
    return {text.get_text(): drawn.get(text.get_text(), line) for text, line in own}


def blank(width: float = 6.6, height: float = 4.0) -> Figure:
    """Make an empty figure outside of pyplot's global state; it is shown only if a cell
    returns it.

    Parameters
    ----------
    width, height : float, > 0
        Size in inches; the default width is the width of the book's text.

    Returns
    -------
    matplotlib.figure.Figure
        A figure whose layout places labels and outside legends within the figure.

    Examples
    --------
    >>> axes = blank(6.6, 3.0).subplots()
    """
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def line_styles(count: int) -> list[dict[str, Any]]:
    """Choose a colour and a dash for each of several curves, so that the curves differ
    even without colour.

    Parameters
    ----------
    count : int, in 0..30
        Number of curves. Colours repeat after ten curves and dashes after six; their
        pairs repeat after thirty.

    Returns
    -------
    list of dict
        Keyword arguments ``color`` and ``linestyle`` of ``Axes.plot``, one dict for
        each curve.

    Raises
    ------
    ValueError
        If two of the curves would look the same.

    Examples
    --------
    >>> [style["linestyle"] for style in line_styles(3)]
    ['-', '--', '-.']
    """
    if not 0 <= count <= 30:
        raise ValueError(
            f"count must be in 0..30, got count={count}: more curves cannot be"
            " distinguished"
        )
    return [
        {"color": color, "linestyle": dash}
        for color, dash in zip(_colors(count), cycle(DASHES), strict=False)
    ]


def looks(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Choose the look of several curves by their names: a mechanism's own colour where
    the name has a mechanism (darker, then lighter, where several have it), a colour
    that is free where it has none, and grey with open markers where it says
    "published".

    Returns
    -------
    dict
        By name, the keyword arguments ``color``, ``linestyle`` and ``marker`` of
        ``Axes.plot``. No two have the same colour and dash.

    Examples
    --------
    >>> found = looks(["DP-SGD, 10 epochs", "DP-SGD, 100 epochs", "none"])
    >>> [(look["color"], look["linestyle"]) for look in found.values()]
    [('#029e73', '-.'), ('#014f3a', '-'), ('#0173b2', '--')]
    """
    names = list(names)
    known = list(MECHANISMS)
    places: dict[str, int | None] = {}
    for name in names:
        said = name.lower()
        for word, mechanism in ALIASES.items():
            said = said.replace(word, mechanism)
        places[name] = next((i for i, key in enumerate(known) if key in said), None)
    given = {place for place in places.values() if place is not None}
    own = {MECHANISMS[known[place]] for place in given}
    free = cycle([color for color in _colors(10) if color not in own])
    taken: set[tuple[str, int]] = set()
    found = {}
    for name, place in places.items():
        published = "published" in name
        first = len(taken) % len(DASHES) if place is None else place
        if published:
            color, first = PUBLISHED, 4
        elif place is None:
            color = next(free)
        else:
            color = MECHANISMS[known[place]]
        unused = [i for i in range(len(DASHES)) if (color, i) not in taken]
        if place is None:
            # curves differ without colour, too, while there are dashes
            used = given.union(dash for _, dash in taken)
            unused = [i for i in unused if i not in used] or unused
        dash = first if first in unused else unused[0]
        before = sum(color == other for other, _ in taken)
        taken.add((color, dash))
        shade = _shade(color, before) if place is not None else color
        look = {"color": shade, "linestyle": DASHES[dash], "marker": MARKERS[dash]}
        if published:
            look["markerfacecolor"] = "white"
        found[name] = look
    return found


def _shade(color: str, before: int) -> str:
    """The colour of a mechanism's curve, after ``before`` others of the mechanism."""
    from matplotlib.colors import to_hex, to_rgb

    # how far to black or to white; the figures have at most three such curves
    toward, share = ((0.0, 0.0), (0.0, 0.5), (1.0, 0.4))[before % 3]
    red, green, blue = ((1 - share) * part + share * toward for part in to_rgb(color))
    return to_hex((red, green, blue))


def _colors(count: int) -> list[Any]:
    """The first colours of the palette, which repeats after ten; red is second, and
    orange sixth: dark pages turn orange brown, and red orange.
    """
    import seaborn as sns

    palette = sns.color_palette("colorblind").as_hex()
    ten = [palette[place] for place in (0, 3, 2, 4, 9, 1, 5, 6, 7, 8)]
    return (ten * (1 + count // 10))[:count]


def name_line(line: Line2D, name: str, at: float, side: str) -> None:
    """Write the name of a curve beside it, in its colour.

    Parameters
    ----------
    line : matplotlib.lines.Line2D
        The curve.
    name : str
    at : float
        The name is at the point of the curve that is nearest to this place on the
        horizontal axis.
    side : str
        Where the name lies, seen from the point, as on a compass: "n", "ne", ...
    """
    from matplotlib.colors import to_rgb
    from matplotlib.patheffects import withStroke

    x, y = (np.asarray(values, dtype=float) for values in line.get_data())
    point = np.abs(x - at).argmin()
    east = ("e" in side) - ("w" in side)
    north = ("n" in side) - ("s" in side)
    colour = np.array(to_rgb(line.get_color()))
    brightness = float(colour**2.2 @ (0.21, 0.72, 0.07))
    # letters are thinner than a curve, and need more contrast: 4.5 on white
    darkening = min(0.75, (0.16 / max(brightness, 0.16)) ** (1 / 2.2))
    cast("Axes", line.axes).annotate(
        name,
        (x[point], y[point]),
        xytext=(5 * east, 5 * north),
        textcoords="offset points",
        ha=("center", "left", "right")[east],
        va=("center", "bottom", "top")[north],
        fontsize=10,
        color=[darkening * part for part in colour],
        path_effects=[withStroke(linewidth=3, foreground="white")],
    )


def blank_axes(width: float = 6.6, height: float = 4.0) -> tuple[Figure, Axes]:
    """Make an empty figure as :func:`blank` does, with one pair of axes.

    Parameters
    ----------
    width, height : float, > 0
        Size in inches.

    Returns
    -------
    matplotlib.figure.Figure, matplotlib.axes.Axes
    """
    figure = blank(width, height)
    return figure, figure.subplots()


def tradeoff(profiles: Mapping[str, PrivacyProfile]) -> Figure:
    """Draw trade-off curves: the smallest false-negative rate of any membership test at
    each false-positive rate.

    Parameters
    ----------
    profiles : mapping of str to PrivacyProfile
        Guarantees, by their names in the legend.

    Returns
    -------
    matplotlib.figure.Figure
    """
    alphas = np.linspace(0, 1, 1001)
    curves = {name: profile.tradeoff(alphas) for name, profile in profiles.items()}
    labels = {"xlabel": "false-positive rate", "ylabel": "smallest false-negative rate"}
    return _curves(
        alphas, curves, nothing=1 - alphas, xlim=(0, 1), ylim=(0, 1), **labels
    )


def roc(profiles: Mapping[str, PrivacyProfile], *, least: float = 1e-6) -> Figure:
    """Draw the largest true-positive rate of any membership test; logarithmic axes show
    small false-positive rates.

    Parameters
    ----------
    profiles : mapping of str to PrivacyProfile
        Guarantees, by their names in the legend.
    least : float, in (0, 1)
        False-positive rate at the left edge.

    Returns
    -------
    matplotlib.figure.Figure
    """
    alphas = np.geomspace(least, 1, 601)
    curves = {name: 1 - profile.tradeoff(alphas) for name, profile in profiles.items()}
    labels = {
        "xlabel": "false-positive rate (log)",
        "ylabel": "largest true-positive rate (log)",
    }
    limits = {"xlim": (least, 1), "ylim": (least, 1.3)}
    return _curves(
        alphas,
        curves,
        nothing=alphas,
        legend="lower right",
        xscale="log",
        yscale="log",
        **limits,
        **labels,
    )


def privacy_profiles(profiles: Mapping[str, PrivacyProfile]) -> Figure:
    """Draw delta against epsilon (logarithmic axis) for several guarantees.

    Parameters
    ----------
    profiles : mapping of str to PrivacyProfile
        Guarantees, by their names in the legend.

    Returns
    -------
    matplotlib.figure.Figure
    """
    limits = 1e-3, 10.0
    grid = np.geomspace(*limits, 400)
    curves = {name: profile.delta(grid) for name, profile in profiles.items()}
    return _curves(
        grid,
        curves,
        xscale="log",
        xlabel="epsilon (log)",
        ylabel="delta",
        xlim=limits,
        ylim=(0, None),
    )


def growth(
    times: Sequence[int],
    curves: Mapping[str, Sequence[float]],
    *,
    xlabel: str,
    ylabel: str,
    nothing: Sequence[float] | None = None,
) -> Figure:
    """Draw several quantities that grow with the number of releases, on two logarithmic
    axes.

    Parameters
    ----------
    times : sequence of int, >= 1
        Numbers of releases.
    curves : mapping of str to sequence of float
        For each name in the legend, one value for each entry of ``times``; values that
        are not positive are left out.
    xlabel, ylabel : str
        Labels of the axes.
    nothing : sequence of float, optional
        The curve of a test that learns nothing.

    Returns
    -------
    matplotlib.figure.Figure
    """
    positive = {
        name: np.where(np.asarray(values) > 0, values, np.nan)
        for name, values in curves.items()
    }
    labels = {"xlabel": xlabel, "ylabel": ylabel}
    return _curves(
        times, positive, nothing=nothing, xscale="log", yscale="log", **labels
    )


def _curves(
    x: Any,
    curves: Mapping[str, Any],
    *,
    nothing: Any = None,
    legend: Any = "best",
    **settings: Any,
) -> Figure:
    """Curves of distinct styles; ``nothing``: that of a test which learns nothing."""
    figure, axes = blank_axes(height=3.0)
    styles = looks(curves)
    for name, values in curves.items():
        axes.plot(x, values, label=name, **styles[name] | {"marker": ""})
    if nothing is not None:
        axes.plot(x, nothing, color="0.5", linewidth=1, label="nothing to learn")
    axes.set(**settings)
    if legend == "best" and len(curves) > 3:  # it would lie on a curve
        figure.legend(loc="outside upper left", ncols=2)
    else:
        axes.legend(loc=legend)
    return figure


def stacked_counts(counts: pd.DataFrame, *, xlabel: str) -> Figure:
    """Draw one stacked bar for each group; each piece of a bar shows the number of one
    kind.

    Parameters
    ----------
    counts : DataFrame of int, a row for each group, a column for each kind
        The numbers; the name of the index is the label of the vertical axis. The kinds
        are outcomes or statuses, which have their own colours (``STATUSES``).
    xlabel : str
        Label of the horizontal axis.

    Returns
    -------
    matplotlib.figure.Figure
    """
    figure, axes = blank_axes(height=0.5 * len(counts) + 1.6)
    left = np.zeros(len(counts))
    places = np.arange(len(counts))
    for kind in counts:
        widths = counts[kind].to_numpy()
        bars = axes.barh(
            places,
            widths,
            left=left,
            color=STATUSES[str(kind)],
            alpha=0.75,
            edgecolor="white",
            label=kind,
        )
        for bar, count in zip(bars, widths, strict=True):
            # by hand, as what bar_label leaves in a figure cannot be copied
            if count:
                middle, at = bar.get_center()
                axes.text(
                    middle, at, str(count), ha="center", va="center", color="black"
                )
        left += widths
    # an axis of names is one more thing that cannot be copied
    axes.set_yticks(places, counts.index.astype(str))
    axes.set(xlabel=xlabel, ylabel=counts.index.name)
    axes.invert_yaxis()
    axes.grid(visible=False)
    figure.legend(loc="outside upper center", ncols=3)
    return figure


def membership(drawn: np.ndarray[Any, np.dtype[np.bool_]], record: int) -> Figure:
    """Draw which records are in which subsample, and highlight one record.

    Parameters
    ----------
    drawn : ndarray of bool, shape [runs, n]
        Whether each run drew each record.
    record : int
        The column to highlight.

    Returns
    -------
    matplotlib.figure.Figure
    """
    runs, n = drawn.shape
    plain, picked = _colors(2)
    figure, axes = blank_axes(height=0.2 * runs + 1.1)
    row, column = np.nonzero(drawn)
    own = column == record
    axes.scatter(column[~own], row[~own], s=30, color=plain, label="drawn")
    exposed, hidden = (
        np.flatnonzero(drawn[:, record]),
        np.flatnonzero(~drawn[:, record]),
    )
    for rows, face, outcome in (
        (exposed, picked, "drawn: exposed"),
        (hidden, "none", "not drawn: untouched"),
    ):
        look: dict[str, Any] = {
            "s": 80,
            "marker": "D",
            "facecolors": face,
            "edgecolors": [picked],
        }
        axes.scatter(
            np.full(len(rows), record), rows, label=f"record {record} {outcome}", **look
        )
    axes.set(
        xlabel="record",
        ylabel="run",
        yticks=range(runs),
        xlim=(-1, n),
        ylim=(runs - 0.5, -0.5),
    )
    axes.grid(visible=False)
    figure.legend(loc="outside upper center", ncols=3)
    return figure


def reproduction(
    table: pd.DataFrame, *, x: str, metric: str, xlabel: str, ylabel: str
) -> Figure:
    """Draw published values, and reproduced values with their range over seeds.

    Parameters
    ----------
    table : DataFrame
        Columns published, reproduced, low and high (over seeds), and ``x``; rows
        without ``x`` are left out.
    x : str
        Column of the horizontal axis (logarithmic).
    metric : str
        Name of the compared value in the legend.
    xlabel, ylabel : str
        Labels of the axes, with units.

    Returns
    -------
    matplotlib.figure.Figure
    """
    figure, axes = blank_axes()
    rows = table.dropna(subset=[x]).sort_values(x)
    ours = rows.dropna(subset=["reproduced"])
    [color] = _colors(1)
    band = np.stack(
        [ours["reproduced"] - ours["low"], ours["high"] - ours["reproduced"]]
    ).astype(float)
    axes.errorbar(
        ours[x],
        ours["reproduced"],
        yerr=band,
        fmt="o",
        color=color,
        capsize=4,
        markersize=6,
        zorder=2,
    )
    axes.plot(
        [],
        [],
        "o",
        color=color,
        label=f"{metric}, reproduced: mean and range over seeds",
    )
    paper = rows.dropna(subset=["published"])
    if len(paper):
        look: dict[str, Any] = {
            "color": "0.25",
            "markerfacecolor": "none",
            "markersize": 10,
            "markeredgewidth": 1.5,
            "zorder": 3,
        }
        axes.plot(
            paper[x], paper["published"], "s", label=f"{metric}, published", **look
        )
    axes.set(xscale="log", xlabel=xlabel, ylabel=ylabel)
    axes.legend(loc="lower right")
    return figure


def intervals(
    rows: pd.DataFrame,
    *,
    xlabel: str,
    ylabel: str,
    outcomes: tuple[str, str],
    level: float = 0.0,
    **settings: Any,
) -> Figure:
    """Draw values with their intervals, one below another, beside a level that they
    reach or miss.

    Parameters
    ----------
    rows : DataFrame
        Columns label (a line of the figure, in their order), value, low, high and sure
        (whether it reaches the level); optionally note, a text above the interval.
    xlabel, ylabel : str
        Labels of the axes.
    outcomes : pair of str
        What the legend says of rows that reach the level, and of the others.
    level : float
    settings
        Of the axes, as in ``Axes.set``.

    Returns
    -------
    matplotlib.figure.Figure
    """
    lines = list(dict.fromkeys(rows["label"]))
    figure, axes = blank_axes(7.6, height=0.9 + 0.38 * len(lines))
    places = rows["label"].map(lines.index)
    [color] = _colors(1)
    for sure, face, outcome in zip(
        (True, False), (color, "white"), outcomes, strict=True
    ):
        own = rows[rows["sure"] == sure]
        at = places[own.index]
        look: dict[str, Any] = {"color": color, "markerfacecolor": face, "zorder": 3}
        axes.hlines(at, own["low"], own["high"], color=color, linewidth=2)
        axes.plot(own["value"], at, "o", label=outcome, markeredgewidth=1.5, **look)
    axes.axvline(level, color="0.25", linewidth=1)
    across = axes.get_yaxis_transform()
    for place, note in zip(places, rows.get("note", ()), strict=False):
        look = {"va": "center", "fontsize": 8, "bbox": {"color": "white", "pad": 0.5}}
        axes.text(0.01, place - 0.32, note, transform=across, **look)
    # names on two lines leave room for the figure
    names = [textwrap.fill(line, 29) for line in lines]
    axes.set_yticks(range(len(lines)), names, fontsize=9)
    axes.set(xlabel=xlabel, ylabel=ylabel, ylim=(len(lines) - 0.5, -0.7), **settings)
    axes.minorticks_off()
    axes.grid(visible=False, axis="y")
    figure.legend(loc="outside upper center", ncols=2)
    return figure


def point_panels(
    panels: Mapping[str, Mapping[str, tuple[Any, Any]]], *, xlabel: str, ylabel: str
) -> Figure:
    """Draw clouds of points over a logarithmic axis, in adjacent panels that share
    their axes.

    Parameters
    ----------
    panels : mapping of str to mapping of str to pair of array_like
        Coordinates x (> 0) and y of the points, by the title of the panel and the name
        of the cloud in the legend. All panels have clouds of the same names.
    xlabel, ylabel : str
        Labels of the axes.

    Returns
    -------
    matplotlib.figure.Figure
    """
    figure = blank(height=3.1)
    both = figure.subplots(1, len(panels), sharex=True, sharey=True, squeeze=False)[0]
    for axes, (title, clouds) in zip(both, panels.items(), strict=True):
        for color, marker, (name, (x, y)) in zip(
            _colors(len(clouds)), cycle("ox"), clouds.items(), strict=False
        ):
            axes.plot(
                x,
                y,
                marker,
                color=color,
                markersize=4,
                alpha=0.5,
                label=name,
                rasterized=True,
            )
        axes.set(xscale="log", xlabel=xlabel, ylabel=ylabel, title=title)
        axes.label_outer()
    handles, names = both[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper center", ncols=len(names))
    return figure


def line_panels(
    panels: Mapping[str, Mapping[str, tuple[Any, Any]]],
    *,
    xlabel: str = "",
    ylabel: str = "",
    names: Sequence[Mapping[str, tuple[float, str]]] = (),
    **settings: Any,
) -> Figure:
    """Draw curves over logarithmic axes, in adjacent panels.

    Parameters
    ----------
    panels : mapping of str to mapping of str to pair of array_like
        Coordinates x (> 0) and y, by the name of the panel and the name of the curve in
        the legend.
    xlabel, ylabel : str
        Labels of the axes. The name of a panel is the label that is not given; panels
        with one ``ylabel`` share this axis.
    names : sequence of mapping of str to (float, str)
        For each panel, where the name of each curve is and on which side of it, as for
        :func:`name_line`. Empty: a legend has the names.
    settings
        Of the axes, as in ``Axes.set``.

    Returns
    -------
    matplotlib.figure.Figure
    """
    figure = blank(height=3.1)
    every = figure.subplots(1, len(panels), sharey=bool(ylabel), squeeze=False)[0]
    lines = {}
    for axes, (panel, curves) in zip(every, panels.items(), strict=True):
        styles = looks(curves)
        for name, (x, y) in curves.items():
            [lines[name]] = axes.plot(x, y, markersize=4, label=name, **styles[name])
        labels = {"xlabel": xlabel or panel, "ylabel": ylabel or panel}
        axes.set(xscale="log", **labels, **settings)
        if ylabel:
            axes.label_outer()
    for axes, places in zip(every, names, strict=False):
        for line in axes.lines:
            name_line(line, line.get_label(), *places[line.get_label()])
    if not names:
        figure.legend(lines.values(), lines, loc="outside upper center", ncols=3)
    return figure


def matrix(values: pd.DataFrame, *, label: str) -> Figure:
    """Draw values by row and column as coloured cells; a cell without a value stays
    grey.

    Parameters
    ----------
    values : DataFrame
        The values; the axes show the names of the rows and columns.
    label : str
        Label of the colours.

    Returns
    -------
    matplotlib.figure.Figure
    """
    import seaborn as sns

    figure, axes = blank_axes(width=7.6, height=7.0)
    axes.set_facecolor("0.8")
    bar = {"label": label, "shrink": 0.7}
    look: dict[str, Any] = {"cmap": "viridis", "linewidths": 0.3, "cbar_kws": bar}
    names = {"xticklabels": values.columns, "yticklabels": values.index}
    sns.heatmap(values.astype(float), ax=axes, square=True, **names, **look)
    axes.tick_params(labelsize=7)
    return figure
