"""The paper's qualitative table: thirty arrows, each recomputed from accounting, accuracies or measured times."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from dpnotes import accounting
from dpnotes.lab._experiment import paper_table
from dpnotes.lab.private_prediction.grids import ANSWERING, METHODS, MODELS, NAMES
from dpnotes.lab.private_prediction.series import BASE, series
from dpnotes.lab.tables import GAP, show
from dpnotes.lab.verdicts import UNDECIDED, Mean, trend

if TYPE_CHECKING:
    from pandas.io.formats.style import Styler


class Hyperparameter(NamedTuple):
    """A row of the paper's table.

    Attributes
    ----------
    letter : str
        In the paper.
    values : tuple of float
        At which the accounting is evaluated.
    methods : tuple of str
        Whose accuracy the row is about.
    """

    letter: str
    values: tuple[float, ...]
    methods: tuple[str, ...]


HYPERPARAMETERS = {
    "n": Hyperparameter("N", (10_000, 30_000, 60_000), METHODS),
    "n_classes": Hyperparameter("C", (2, 5, 10), METHODS),
    "d": Hyperparameter("D", (50, 200, 784), METHODS),
    "answers": Hyperparameter("B", (10, 100, 1000), ANSWERING),
    "n_models": Hyperparameter("T", (64, 256, 1024), ("subsample_aggregate",)),
    "l2": Hyperparameter("lambda", (1e-3, 1e-2, 1e-1), ("loss_perturbation",)),
}
VOTING = ("answers", "n_models")  # hyperparameters of the votes
TIMED = ("loss_perturbation", "subsample_aggregate")
SECONDS = {"training time": "train_seconds", "inference time": "predict_seconds"}
ARROWS = {"up": "↑", "down": "↓", "unchanged": "=", "up then down": "↑↓", "down then up": "↓↑", UNDECIDED: "?"}
STEADY = 0.05  # a time whose logarithm to base 2 changes by less than this per doubling counts as unchanged


def privacy_loss(name: str, value: float) -> float:
    """Epsilon (delta = 0) at which the method spends noise of a fixed size, by the hyperparameter that is varied.

    Fixed is what a reader of the answers sees: the standard deviation of the noise on a logit of model sensitivity
    (N, D, C, lambda), the inverse temperature of the vote (B), or the temperature over the number of votes (T).
    """
    setting = BASE | {"l2": 1e-2} | {name: value}
    if name in VOTING:
        return float(accounting.soft_vote(beta=_beta(name, setting), answers=int(setting["answers"])).epsilon(0.0))
    return _shift(setting) * math.sqrt(setting["d"] * setting["n_classes"] + 1) / 0.05


def failure_probability(name: str, value: float) -> float:
    """Delta at epsilon = 1 of Gaussian noise (N, D, C, lambda) or votes (B, T), fixed as in :func:`privacy_loss`."""
    setting = BASE | {"l2": 1e-2} | {name: value}
    if name in VOTING:
        return float(accounting.soft_vote(beta=_beta(name, setting), answers=int(setting["answers"])).delta(1.0))
    return float(accounting.gaussian(sigma=0.02, sensitivity=_shift(setting)).delta(1.0))


def _beta(name: str, setting: dict[str, float]) -> float:
    """Inverse temperature: fixed while B is varied, over the number of votes while T is, for epsilon as for delta."""
    return 0.03 if name == "answers" else 7.68 / setting["n_models"]


def _shift(setting: dict[str, float]) -> float:
    """Sensitivity of the minimiser."""
    n = int(setting["n"])
    return accounting.minimiser_sensitivity(lipschitz=math.sqrt(2), n=n, regulariser=setting["l2"])


EXACT: dict[str, Callable[[str, float], float]] = {
    "privacy loss epsilon": privacy_loss,
    "privacy failure probability delta": failure_probability,
}
QUANTITIES = (*EXACT, "accuracy", *SECONDS)


def arrows(rows: pd.DataFrame, times: pd.DataFrame) -> pd.DataFrame:
    """Published and recomputed directions: one row for each hyperparameter and quantity.

    Parameters
    ----------
    rows : DataFrame
        As :func:`put_together` gives them.
    times : DataFrame
        Rows of ``private_prediction_times``.

    Returns
    -------
    DataFrame
        Columns hyperparameter, quantity, published, ours (the direction of most methods, of those that are decided;
        empty: a gap), agrees (empty where nothing is decided), evidence (in words).
    """
    paper = paper_table("private_prediction_text").query("kind == 'table'").set_index(["claim", "quantity"])["value"]
    found = [
        (
            row.letter,
            quantity,
            paper[f"hyperparameter {row.letter}", quantity],
            *_direction(quantity, name, rows, times),
        )
        for name, row in HYPERPARAMETERS.items()
        for quantity in QUANTITIES
    ]
    table = pd.DataFrame(found, columns=["hyperparameter", "quantity", "published", "ours", "evidence"])
    decided = table["ours"].notna() & (table["ours"] != UNDECIDED)
    agrees = (table["ours"] == table["published"]).where(decided, None)
    return table.assign(agrees=agrees)


def _direction(quantity: str, name: str, rows: pd.DataFrame, times: pd.DataFrame) -> tuple[str | None, str]:
    """Direction of a quantity as a hyperparameter grows, None if it was not run, and the evidence in words."""
    if quantity in EXACT:
        values = np.array([EXACT[quantity](name, value) for value in HYPERPARAMETERS[name].values])
        return trend([Mean(value) for value in values], margin=0.0), f"exact, {values[0]:.3g} to {values[-1]:.3g}"
    found = list(_accuracies(name, rows) if quantity == "accuracy" else _times(name, times, SECONDS[quantity]))
    if not found:
        return None, GAP
    directions = [direction for _, direction, _ in found if direction != UNDECIDED] or [UNDECIDED]
    most = max(dict.fromkeys(directions), key=directions.count)
    return most, ", ".join(f"{NAMES[method]} {ARROWS[direction]} ({values})" for method, direction, values in found)


def _accuracies(name: str, rows: pd.DataFrame) -> Iterator[tuple[str, str, str]]:
    """Method, direction and ends: of each method's accuracy at (1, 0)."""
    for method in HYPERPARAMETERS[name].methods:
        points = series(rows, method, name)
        ended = points is not None and (
            name != "n_models" or points.x[-1] == MODELS[-1]
        )  # else the fall is not in sight
        if points is not None and ended and len(points.x) > 2:
            yield method, trend(points.means), f"{points.accuracy[0]:.3f} to {points.accuracy[-1]:.3f}"


def _times(name: str, times: pd.DataFrame, metric: str) -> Iterator[tuple[str, str, str]]:
    """Method, direction and rate: the regression of the seconds' logarithm on that of the hyperparameter."""
    for method in TIMED if metric in times else ():
        own = times[(times["method"] == method) & (times["varied"] == name)].dropna(subset=[metric])
        if own[name].nunique() < 3:
            continue
        x, y = np.log2(own[name].astype(float)), np.log2(own[metric].astype(float))
        (rate, _), covariance = np.polyfit(x, y, 1, cov=True)
        variance = float(covariance[0, 0])
        slope = Mean(float(rate), variance, variance**2 / max(len(own) - 2, 1))
        yield method, trend([Mean(0.0), slope], margin=STEADY), f"{2**rate:.2f} times per doubling"


def show_arrows(table: pd.DataFrame) -> Styler:
    """The table as the chapter shows it: published | ours in each cell."""
    asterisk = table["agrees"].map({False: " *"}).fillna("")
    ours = table["ours"].map(ARROWS).fillna("?") + asterisk
    cells = table.assign(cell=table["published"].map(ARROWS) + " | " + ours)
    wide = cells.pivot_table(index="hyperparameter", columns="quantity", values="cell", aggfunc="first")
    return show(
        wide.loc[[row.letter for row in HYPERPARAMETERS.values()], [*QUANTITIES]].reset_index(),
        caption="What happens as a hyperparameter grows, all else equal: published | ours, of most methods. An "
        "asterisk marks a difference, a question mark what is undecided or not run yet.",
        names={"privacy loss epsilon": "epsilon", "privacy failure probability delta": "delta"},
    )
