"""Figures of the bagging chapter that set several methods or sizes side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from dpnotes.lab import figures

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MARKERS = "osD^vP"
# of the curves of plane, by method and variant
LABELS = {
    ("dp_sgd", "short"): "DP-SGD,\n10 epochs",
    ("dp_sgd", "long"): "DP-SGD, 100 epochs",
    ("dp_sgd", "softmax"): "DP-SGD,\nsoftmax",
    ("pate", ""): "PATE",
    ("bagging", ""): "bagging",
}
# where the names of these curves are clear of all curves, in each panel of plane
PLACES = {
    "DP-SGD,\n10 epochs": ((0.48, "n"), (0.0165, "n")),
    "DP-SGD, 100 epochs": ((0.0017, "se"), (0.001, "ne")),
    "DP-SGD,\nsoftmax": ((0.005, "w"), (0.15, "sw")),
    "PATE": ((0.14, "sw"), (0.003, "se")),
    "bagging": ((0.0165, "nw"), (0.006, "se")),
}


def models(points: pd.DataFrame) -> Figure:
    """Accuracy against the number of models, a curve for each N k, from the points
    of Figure 1.
    """
    figure = figures.blank()
    axes = figure.subplots()
    curves = list(points.groupby("drawn"))
    for (drawn, curve), style, marker in zip(
        curves, figures.line_styles(len(curves)), MARKERS, strict=False
    ):
        band = np.stack(
            [curve["accuracy"] - curve["low"], curve["high"] - curve["accuracy"]]
        )
        axes.errorbar(
            curve["n_models"],
            curve["accuracy"],
            yerr=band,
            label=f"N k = {drawn:,}",
            capsize=4,
            marker=marker,
            **style,
        )
    axes.set(xscale="log", xlabel="number of models N (log)", ylabel="test accuracy")
    counts = sorted(set(points["n_models"]))
    axes.set_xticks(counts, [str(count) for count in counts])
    # the numbers of models are the ticks
    axes.minorticks_off()
    if curves:
        axes.legend()
    return figure


def plane(points: pd.DataFrame) -> Figure:
    """Accuracy against what is exposed: over all error rates, and at 0.1% false
    positives.

    ``points``: as :func:`dpnotes.lab.bagging.results.exposures` gives them.
    """
    figure = figures.blank(9.0, 3.7)
    left, right = figure.subplots(1, 2, sharey=True)
    groups = dict(list(points.groupby(["method", "variant"])))
    curves = {label: groups[key] for key, label in LABELS.items() if key in groups}
    looks = figures.looks(curves)
    for label, curve in curves.items():
        panels = (left, "advantage"), (right, "tpr_at_fpr_1e3")
        for (axes, x), place in zip(panels, PLACES[label], strict=True):
            ordered = curve.sort_values(x)
            best = ordered["accuracy"].cummax() == ordered["accuracy"]
            # the best models of at most some exposure; the others are faint
            front = ordered[best]
            [line] = axes.plot(
                front[x],
                front["accuracy"],
                drawstyle="steps-post",
                linewidth=1.5,
                markersize=5,
                **looks[label],
            )
            figures.name_line(line, label, *place)
            rest = looks[label] | {"linestyle": "", "alpha": 0.3}
            others = ordered[~best]
            axes.plot(others[x], others["accuracy"], markersize=5, **rest)
    left.set(
        xscale="log",
        xlabel="advantage over all error rates (log)",
        ylabel="test accuracy",
    )
    right.set(xscale="log", xlabel="true-positive rate at 0.1 % false positives (log)")
    return figure
