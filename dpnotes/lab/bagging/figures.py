"""Figures of the bagging chapter that set several methods or sizes side by side."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from dpnotes import accounting
from dpnotes.lab import figures
from dpnotes.lab.bagging.grids import RECORDS
from dpnotes.lab.bagging.private import found

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MARKERS = "osD^vP"


def models_figure(points: pd.DataFrame) -> Figure:
    """Accuracy against the number of models, a curve for each N k, from the points of Figure 1."""
    figure = figures.blank()
    axes = figure.subplots()
    curves = list(points.groupby("drawn"))
    for (drawn, curve), style, marker in zip(curves, figures.line_styles(len(curves)), MARKERS, strict=False):
        band = np.stack([curve["accuracy"] - curve["low"], curve["high"] - curve["accuracy"]])
        axes.errorbar(
            curve["n_models"], curve["accuracy"], yerr=band, label=f"N k = {drawn:,}", capsize=4, marker=marker, **style
        )
    axes.set(xscale="log", xlabel="number of models N (log)", ylabel="test accuracy")
    counts = sorted(set(points["n_models"]))
    axes.set_xticks(counts, [str(count) for count in counts])
    axes.minorticks_off()
    if curves:
        axes.legend()
    return figure


def exposures(
    bagging: pd.DataFrame, dp_sgd: pd.DataFrame, equal: pd.DataFrame, pate: pd.DataFrame, scale: str
) -> pd.DataFrame:
    """What each run exposes, and its accuracy: the points of :func:`plane`.

    Columns: method, setting, advantage, found (largest true-positive rate at 0.1% false positives), accuracy (mean),
    seeds. Profiles are exact for bagging, of tight accounting for DP-SGD and PATE, whatever the data.
    """
    n, lines = RECORDS[scale], []
    groups: Any = _done(bagging).dropna(subset=["subsample"]).groupby("subsample")
    for size, group in groups:
        profile = accounting.bagging(n=n, subsample=int(size))
        lines.append(_point("bagging, a network", f"k = {size:,.0f}", profile, group))
    for frame, kind in ((dp_sgd, "100 epochs"), (equal, "10 epochs")):
        done = _done(frame)
        if not len(done):
            continue
        keys = ["width", "sigma", "batch_size", "epochs"]
        groups = done.groupby(keys, dropna=False)
        for (width, sigma, batch, epochs), group in groups:
            name = "DP-SGD, softmax regression" if pd.isna(width) else f"DP-SGD, a network, {kind}"
            profile = _dp_sgd(float(sigma), batch / n, int(epochs * n // batch))
            lines.append(_point(name, f"sigma = {sigma:.3g}", profile, group))
    done = _done(pate)
    groups = done.groupby(["queries", "answers", "epochs"], dropna=False) if len(done) else ()
    for (queries, answers, epochs), group in groups:
        first = group.iloc[0]
        profile = accounting.confident_gnmax(
            sigma_threshold=float(first["sigma_threshold"]),
            sigma_answer=float(first["sigma_answer"]),
            queries=int(queries),
            answers=int(queries if pd.isna(answers) else answers),
        )
        what = f"{queries} queries" if pd.isna(answers) else f"{answers:.0f} answers"
        kind = "logistic teachers" if pd.isna(epochs) else "networks"
        lines.append(_point(f"PATE with public data, {kind}", what, profile, group))
    columns = ["method", "setting", "advantage", "found", "accuracy", "seeds"]
    return pd.DataFrame(lines, columns=columns).sort_values(["method", "advantage"], ignore_index=True)


def plane(points: pd.DataFrame) -> Figure:
    """Accuracy against what is exposed: over all error rates, and at 0.1% false positives."""
    figure = figures.blank(9.0, 4.4)
    left, right = figure.subplots(1, 2, sharey=True)
    methods = list(points.groupby("method"))
    for (method, curve), style, marker in zip(methods, figures.line_styles(len(methods)), MARKERS, strict=False):
        for axes, x in ((left, "advantage"), (right, "found")):
            ordered = curve.sort_values(x)
            axes.plot(ordered[x], ordered["accuracy"], marker=marker, label=method if axes is left else None, **style)
    left.set(xscale="log", xlabel="advantage: largest gap of the rates (log)", ylabel="test accuracy")
    right.set(xscale="log", xlabel="members found at 0.1% false positives (log)")
    figure.legend(loc="outside upper center", ncols=2)
    return figure


@functools.lru_cache(maxsize=64)
def _dp_sgd(sigma: float, rate: float, steps: int) -> accounting.PrivacyProfile:
    return accounting.dp_sgd(noise_multiplier=sigma, sample_rate=rate, steps=steps)


def _point(method: str, setting: str, profile: accounting.PrivacyProfile, rows: pd.DataFrame) -> dict[str, object]:
    return {
        "method": method,
        "setting": setting,
        "advantage": profile.advantage,
        "found": found(profile),
        "accuracy": float(rows["accuracy"].astype(float).mean()),
        "seeds": len(rows),
    }


def _done(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.dropna(subset=["accuracy"]) if "accuracy" in rows else rows.iloc[:0]
