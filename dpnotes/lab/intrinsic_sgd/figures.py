"""Figures of the chapter on intrinsic privacy: paths of weights, distributions from
percentiles, utility, noise.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from dpnotes.lab.figures import blank, blank_axes, line_styles
from dpnotes.lab.intrinsic_sgd.results import QUANTILES, matching, task_name, value
from dpnotes.lab.intrinsic_sgd.runs import INITIALS
from dpnotes.lab.tables import GAP

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

KINDS = {  # of distances, in words
    ("data", "varied"): "one record",
    ("seed", "fixed"): "order",
    ("seed", "varied"): "order and initial weights",
    ("both", "varied"): "order, initial weights and one record",
}
# of utility, by the columns noise and counted, in words; those of the paper, then one
# more
CURVES = {
    ("published", False): "theoretical sensitivity",
    ("published", True): "theoretical, SGD's own noise counted",
    ("observed", False): "observed sensitivity",
    ("observed", True): "observed, SGD's own noise counted",
    ("proved", False): "proved sensitivity, exact calibration",
}


def _or_gap(figure: Callable[..., Figure]) -> Callable[..., Figure]:
    """Decorate a figure of rows: without rows, the figure shows the word for a gap."""

    @functools.wraps(figure)
    def drawn(rows: pd.DataFrame, *args: Any, **kwargs: Any) -> Figure:
        if len(rows):
            return figure(rows, *args, **kwargs)
        gap = blank(6.6, 1.2)
        gap.text(0.5, 0.5, GAP, ha="center", va="center")
        return gap

    return drawn


@_or_gap
def paths(rows: pd.DataFrame) -> Figure:
    """Draw two weights of several runs from one start, with colour for the runs whose
    first weights end farthest apart.

    Parameters
    ----------
    rows : DataFrame
        Columns run, step, first, second.

    Returns
    -------
    matplotlib.figure.Figure
    """
    figure, axes = blank_axes(6.6, 3.2)
    runs = sorted(
        (run for _, run in rows.sort_values("step").groupby("run")),
        key=lambda run: run["first"].iloc[-1],
    )
    others: dict[str, Any] = {
        "color": "0.75",
        "linewidth": 0.8,
        "markerfacecolor": "0.5",
        "markeredgecolor": "0.5",
    }
    looks = [
        *[others] * (len(runs) - 2),
        *({"color": style["color"], "zorder": 3} for style in line_styles(2)),
    ]
    for run, look in zip([*runs[1:-1], runs[0], runs[-1]], looks, strict=True):
        axes.plot(
            run["first"],
            run["second"],
            marker="o",
            markevery=[-1],
            markersize=8,
            **look,
        )
    axes.plot(
        *runs[0][["first", "second"]].iloc[0],
        "s",
        color="0.15",
        markersize=10,
        label="start",
    )
    axes.plot(
        [], [], "o", color="0.5", markersize=8, label="end of a run, one for each order"
    )
    axes.set(xlabel="one weight", ylabel="another weight")
    axes.legend()
    return figure


@_or_gap
def distances(rows: pd.DataFrame, bounds: Mapping[str, float | None]) -> Figure:
    """Draw densities of distances between last weights, one panel for each task, with
    the bound on one record's effect.

    Parameters
    ----------
    rows : DataFrame
        Columns dataset, initial, quantity, q0 to q100.
    bounds : mapping of dataset to float or None

    Returns
    -------
    matplotlib.figure.Figure
    """
    figure, panels = _densities(
        rows, KINDS, xlabel="distance of the last weights (log)"
    )
    limit: dict[str, Any] = {
        "color": "0.25",
        "linestyle": (0, (4, 3)),
        "linewidth": 1.5,
    }
    for dataset, axes in panels.items():
        if bound := bounds.get(dataset):
            axes.axvline(bound, **limit)
    axes.plot([], [], label="bound, one record", **limit)
    figure.legend(
        *axes.get_legend_handles_labels(), loc="outside upper center", ncols=2
    )
    return figure


@_or_gap
def pairwise_epsilons(
    rows: pd.DataFrame,
    scales: Mapping[tuple[str, str], float],
    *,
    published: Any = None,
) -> Figure:
    """Draw densities of the epsilon of single pairs of data sets, one panel for each
    task.

    This epsilon is the distance of a pair multiplied by the epsilon of a distance of 1,
    by the paper's formula.

    Parameters
    ----------
    rows : DataFrame
        Columns dataset, initial, quantity, and q0 to q100 of the distances between data
        sets.
    scales : mapping of (dataset, initial) to float
        Epsilon of a distance of 1.
    published : mapping of dataset to (centre, largest), optional
        Values of the paper, shown as open markers.

    Returns
    -------
    matplotlib.figure.Figure
    """
    scale = [
        scales.get(pair, np.nan)
        for pair in zip(rows["dataset"], rows["initial"], strict=True)
    ]
    shown = rows.assign(**rows[QUANTILES].astype(float).mul(scale, axis=0)).dropna(
        subset=["q50"]
    )
    kinds = {("data", initial): f"{initial} initial weights" for initial in INITIALS}
    figure, panels = _densities(
        shown, kinds, xlabel="epsilon of a pair of data sets (log)"
    )
    for dataset, axes in panels.items():
        for epsilon, marker in zip(
            (published or {}).get(dataset, ()), ("s", "D"), strict=False
        ):
            axes.plot(
                epsilon,
                0,
                marker,
                color="0.25",
                markerfacecolor="none",
                markersize=9,
                clip_on=False,
            )
        axes.set_ylim(0, None)
    figure.legend(
        *axes.get_legend_handles_labels(), loc="outside upper center", ncols=2
    )
    return figure


@_or_gap
def p_values(rows: pd.DataFrame, n_weights: Mapping[str, int]) -> Figure:
    """Draw cumulative fractions of the p-values of the normality tests, one line for
    each task, with both thresholds.

    Parameters
    ----------
    rows : DataFrame
        Columns dataset, q0 to q100, of varied initial weights.
    n_weights : mapping of dataset to int

    Returns
    -------
    matplotlib.figure.Figure
    """
    figure, axes = blank_axes()
    shown = rows.to_dict("records")
    for row, style in zip(shown, line_styles(len(shown)), strict=True):
        values = np.maximum([row[name] for name in QUANTILES], 1e-12)
        axes.plot(
            values, np.arange(101) / 100, label=task_name(row["dataset"]), **style
        )
        axes.axvline(
            0.05 / n_weights[row["dataset"]],
            color=style["color"],
            linewidth=1,
            linestyle=":",
        )
    uniform = np.geomspace(1e-12, 1, 200)
    axes.plot(uniform, uniform, color="0.5", linewidth=1, label="if normal")
    axes.axvline(0.05, color="0.25", linewidth=1)
    axes.set(
        xscale="log",
        xlim=(1e-12, 1),
        ylim=(0, 1),
        xlabel="p-value (log)",
        ylabel="fraction of the weights below",
    )
    axes.legend()
    return figure


@_or_gap
def utility(rows: pd.DataFrame, last_iterate: pd.DataFrame | None = None) -> Figure:
    """Draw accuracy against epsilon, one panel for each task: full noise, noise without
    SGD's own part, and no noise.

    The curves are the paper's. With ``last_iterate``, they are the curves for the
    paper's theoretical sensitivity and for the proved methods.

    Parameters
    ----------
    rows : DataFrame
        Rows of one initialisation, with the columns dataset, noise, analysis, counted,
        epsilon and accuracy.
    last_iterate : DataFrame, optional
        Rows for noise in each step, with the columns dataset, epsilon and accuracy.

    Returns
    -------
    matplotlib.figure.Figure
    """
    figure, panels = _panels(
        rows, 2.3, xlabel="epsilon (log), at delta = 1/n", ylabel="test accuracy"
    )
    other = "observed" if last_iterate is None else "proved"
    styles = line_styles(len(CURVES) + 1)
    for dataset, axes in panels.items():
        own = matching(rows, dataset=dataset)
        for (noise, counted), style in zip(CURVES, styles, strict=False):
            if noise in ("published", other) and (rows["noise"] == noise).any():
                curve = matching(own, noise=noise, counted=counted).dropna(
                    subset=["epsilon"]
                )
                curve = curve[curve["analysis"].isin(curve["analysis"].mode()[:1])]
                _accuracies(axes, curve, label=CURVES[noise, counted], **style)
        if last_iterate is not None and len(last_iterate):
            sound = matching(last_iterate, dataset=dataset).dropna(subset=["accuracy"])
            _accuracies(axes, sound, label="noise in each step, proved", **styles[-1])
        axes.axhline(
            value(own, "accuracy", noise="none"),
            color="0.5",
            linewidth=1,
            label="no noise",
        )
    epsilons = sorted(rows["epsilon"].dropna().astype(float).unique())
    axes.set_xticks(epsilons, labels=[f"{epsilon:g}" for epsilon in epsilons])
    axes.set_xticks([], minor=True)
    figure.legend(
        *axes.get_legend_handles_labels(), loc="outside upper center", ncols=2
    )
    return figure


@_or_gap
def batch_sizes(table: pd.DataFrame) -> Figure:
    """Draw sigma against batch size at equal passes, a panel for each initialisation
    and a curve for each task.

    Parameters
    ----------
    table : DataFrame
        Columns dataset, batch_size, sigma_varied and sigma_fixed, at one constant rate.

    Returns
    -------
    matplotlib.figure.Figure
    """
    figure = blank(6.6, 3.8)
    panels = dict(
        zip(("varied", "fixed"), figure.subplots(1, 2, sharey=True), strict=True)
    )
    tasks = list(table.groupby("dataset", sort=False))
    for initial, axes in panels.items():
        for (dataset, rows), style in zip(tasks, line_styles(len(tasks)), strict=True):
            own = rows.sort_values("batch_size")
            axes.plot(
                own["batch_size"],
                own[f"sigma_{initial}"],
                marker="o",
                label=task_name(dataset),
                **style,
            )
        axes.set(
            xscale="log",
            yscale="log",
            xlabel="batch size (log)",
            title=f"{initial} initial weights",
        )
    panels["varied"].set_ylabel("standard deviation\nof a weight (log)")
    figure.legend(
        *axes.get_legend_handles_labels(), loc="outside upper center", ncols=4
    )
    return figure


def _panels(
    rows: pd.DataFrame, height: float, *, xlabel: str, **settings: Any
) -> tuple[Figure, dict[str, Axes]]:
    """A figure with one panel for each task, so many inches high, and the panels by
    data set; x is logarithmic.
    """
    datasets = list(rows["dataset"].unique())
    figure = blank(6.6, height * len(datasets) + 0.9)
    every = figure.subplots(len(datasets), 1, sharex=True, squeeze=False).ravel()
    for dataset, axes in zip(datasets, every, strict=True):
        axes.set(title=task_name(dataset), xscale="log", **settings)
    axes.set_xlabel(xlabel)
    return figure, dict(zip(datasets, every, strict=True))


def _accuracies(axes: Axes, curve: pd.DataFrame, **style: Any) -> None:
    axes.plot(
        curve["epsilon"].astype(float),
        curve["accuracy"],
        marker="o",
        markersize=3,
        **style,
    )


def _densities(
    rows: pd.DataFrame, kinds: Mapping[Any, str], *, xlabel: str
) -> tuple[Figure, dict[str, Axes]]:
    """Densities of the distributions of each task, by (quantity, initial); what each
    is, in words, in the last panel.

    A density is that of the logarithms of values drawn from their percentiles, scaled
    to a height of 1.
    """
    from scipy.stats import gaussian_kde

    figure, panels = _panels(
        rows, 1.1, xlabel=xlabel, yticks=[], ylabel="density", ylim=(0, 1.15)
    )
    for place, (kind, look) in enumerate(
        zip(kinds, line_styles(len(kinds)), strict=True)
    ):
        # under the others the last is broad and pale: a curve that it meets stays seen
        last = place == len(kinds) - 1 and place > 0
        broad = {"linewidth": 7, "alpha": 0.4, "linestyle": "-", "zorder": 1}
        style = look | (broad if last else {})
        own = matching(rows, quantity=kind[0], initial=kind[1]).to_dict("records")
        for row in own:
            axes = panels[row["dataset"]]
            values = np.array([row[name] for name in QUANTILES], dtype=float)
            # the least may be 0: no batch saw the record
            values = np.maximum(values, max(values[1], 1e-12))
            drawn = np.interp(
                np.linspace(0, 100, 2001), np.arange(101), np.log10(values)
            )
            if np.ptp(drawn) == 0:
                axes.axvline(10 ** drawn[0], **style)
                continue
            grid = np.linspace(drawn.min() - 0.1, drawn.max() + 0.1, 400)
            heights = gaussian_kde(drawn)(grid)
            axes.plot(10**grid, heights / heights.max(), **style)
        if own:
            [*panels.values()][-1].plot([], [], label=kinds[kind], **style)
    return figure, panels
