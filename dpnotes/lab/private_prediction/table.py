"""The paper's qualitative table: thirty arrows, each recomputed from accounting, accuracies or measured times."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from dpnotes import accounting
from dpnotes.lab import tables
from dpnotes.lab._experiment import paper_table
from dpnotes.lab.private_prediction.grids import METHODS, MODELS, NAMES
from dpnotes.lab.private_prediction.series import BASE, Series, series

if TYPE_CHECKING:
    from pandas.io.formats.style import Styler

ARROWS = {"up": "↑", "down": "↓", "unchanged": "=", "up then down": "↑↓", "down then up": "↓↑"}
QUANTITIES = (
    "privacy loss epsilon",
    "privacy failure probability delta",
    "accuracy",
    "training time",
    "inference time",
)
HYPERPARAMETERS = {"N": "n", "C": "n_classes", "D": "d", "B": "answers", "T": "n_models", "lambda": "l2"}
GRIDS: dict[str, tuple[float, ...]] = {
    "n": (10_000, 30_000, 60_000),
    "n_classes": (2, 5, 10),
    "d": (50, 200, 784),
    "answers": (10, 100, 1000),
    "n_models": (64, 256, 1024),
    "l2": (1e-3, 1e-2, 1e-1),
}
RELEVANT = {  # whose accuracy and time the row of the table is about
    "n": METHODS,
    "n_classes": METHODS,
    "d": METHODS,
    "answers": ("prediction_sensitivity", "subsample_aggregate"),
    "n_models": ("subsample_aggregate",),
    "l2": ("loss_perturbation",),
}
CONFIDENT = 2.0  # standard errors
FIVE_PERCENT = 0.05  # a time that grows less than this per doubling counts as unchanged


def trend(values: np.ndarray[Any, Any], errors: np.ndarray[Any, Any]) -> tuple[str, float]:
    """Direction of a series, and by how many standard errors: of its ends, or of its best inner point over both.

    Examples
    --------
    >>> trend(np.array([1.0, 2.0, 4.0]), np.full(3, 0.1))[0], trend(np.array([1.0, 4.0, 2.0]), np.full(3, 0.1))[0]
    ('up', 'up then down')
    """

    def apart(i: int, j: int) -> float:
        difference, error = values[j] - values[i], math.hypot(errors[i], errors[j])
        return float(difference / error) if error > 0 else math.copysign(math.inf, difference) if difference else 0.0

    last, best, worst = len(values) - 1, int(values.argmax()), int(values.argmin())
    hump, dip = min(apart(0, best), apart(last, best)), min(apart(worst, 0), apart(worst, last))
    if max(hump, dip) > CONFIDENT:
        return ("up then down", hump) if hump >= dip else ("down then up", dip)
    ends = apart(0, last)
    return ("unchanged" if abs(ends) <= CONFIDENT else "up" if ends > 0 else "down"), abs(ends)


def privacy_loss(name: str, value: float) -> float:
    """Epsilon (delta = 0) at which the method spends noise of a fixed size, by the hyperparameter that is varied.

    Fixed is what a reader of the answers sees: the standard deviation of the noise on a logit of model sensitivity
    (N, D, C, lambda), the inverse temperature of the vote (B), or the temperature over the number of votes (T).
    """
    setting = BASE | {"l2": 1e-2} | {name: value}
    if name in ("answers", "n_models"):
        beta = 0.01 if name == "answers" else 2.56 / setting["n_models"]
        return float(accounting.soft_vote(beta=beta, answers=int(setting["answers"])).epsilon(0.0))
    size = setting["d"] * setting["n_classes"]
    shift = accounting.minimiser_sensitivity(lipschitz=math.sqrt(2), n=int(setting["n"]), regulariser=setting["l2"])
    return shift * math.sqrt(size + 1) / 0.05


def failure_probability(name: str, value: float) -> float:
    """Delta at epsilon = 1 of Gaussian noise (N, D, C, lambda) or votes (B, T) of a fixed size."""
    setting = BASE | {"l2": 1e-2} | {name: value}
    if name in ("answers", "n_models"):
        return float(accounting.soft_vote(beta=0.03, answers=int(setting["answers"])).delta(1.0))
    shift = accounting.minimiser_sensitivity(lipschitz=math.sqrt(2), n=int(setting["n"]), regulariser=setting["l2"])
    return float(accounting.gaussian(sigma=0.02, sensitivity=shift).delta(1.0))


def arrows(rows: pd.DataFrame, times: pd.DataFrame) -> pd.DataFrame:
    """Published and recomputed directions: one row for each hyperparameter and quantity.

    Parameters
    ----------
    rows : DataFrame
        As :func:`all_rows` gives them.
    times : DataFrame
        Rows of ``private_prediction_times``.

    Returns
    -------
    DataFrame
        Columns hyperparameter, quantity, published, ours (the direction of most methods; empty: a gap), agrees,
        evidence (in words).
    """
    paper = paper_table("private_prediction_text").query("kind == 'table'")
    found = []
    for letter, name in HYPERPARAMETERS.items():
        own = paper[paper["claim"] == f"hyperparameter {letter}"].set_index("quantity")["value"]
        for quantity in QUANTITIES:
            ours, evidence = _direction(quantity, name, rows, times)
            found.append(
                {
                    "hyperparameter": letter,
                    "quantity": quantity,
                    "published": own[quantity],
                    "ours": ours,
                    "agrees": None if ours is None else ours == own[quantity],
                    "evidence": evidence,
                }
            )
    return pd.DataFrame(found)


def _direction(quantity: str, name: str, rows: pd.DataFrame, times: pd.DataFrame) -> tuple[str | None, str]:
    if quantity in QUANTITIES[:2]:
        exact: Callable[[str, float], float] = privacy_loss if quantity == QUANTITIES[0] else failure_probability
        values = np.array([exact(name, value) for value in GRIDS[name]])
        return trend(values, np.zeros(len(values)))[0], f"exact, {values[0]:.3g} to {values[-1]:.3g}"
    if quantity == "accuracy":
        directions = _accuracies(name, rows)
    else:
        directions = _times(name, times, "train_seconds" if quantity == "training time" else "predict_seconds")
    if not directions:
        return None, tables.GAP
    ways = [way for way, _, _ in directions]
    most = max(dict.fromkeys(ways), key=ways.count)
    words = [f"{NAMES[method]} {ARROWS[way]} ({strength})" for way, method, strength in directions]
    return most, ", ".join(words)


def _accuracies(name: str, rows: pd.DataFrame) -> list[tuple[str, str, str]]:
    """Direction of each method's accuracy: at (1, 0), and at (1, 1e-5) where that was run."""
    found = []
    for method in RELEVANT[name]:
        drawn: Series | None = series(rows, method, name, delta=0.0)
        ended = drawn is not None and (name != "n_models" or drawn.x[-1] == MODELS[-1])  # else the fall is not in sight
        if drawn is not None and ended and len(drawn.x) > 2:
            way, strength = trend(drawn.accuracy, drawn.error)
            found.append((way, method, f"{min(strength, 999):.0f} s.e."))
    return found


def _times(name: str, times: pd.DataFrame, metric: str) -> list[tuple[str, str, str]]:
    """Direction of the seconds: slope of their logarithm per doubling, with its standard error."""
    found: list[tuple[str, str, str]] = []
    if metric not in times:
        return found
    for method in ("loss_perturbation", "subsample_aggregate"):
        own = times[(times["method"] == method) & (times["varied"] == name)].dropna(subset=[metric])
        if own[name].nunique() < 3:
            continue
        x, y = np.log2(own[name].astype(float)), np.log2(own[metric].astype(float))
        (slope, _), cover = np.polyfit(x, y, 1, cov=True)
        error = math.sqrt(cover[0, 0])
        steady = abs(slope) <= max(CONFIDENT * error, FIVE_PERCENT)
        way = "unchanged" if steady else "up" if slope > 0 else "down"
        found.append((way, method, f"{2**slope:.2f} times per doubling"))
    return found


def arrows_view(table: pd.DataFrame) -> Styler:
    """The table as the chapter shows it: published | ours in each cell."""

    def cell(row: pd.Series[Any]) -> str:
        ours = "?" if pd.isna(row["ours"]) else ARROWS[row["ours"]]
        return f"{ARROWS[row['published']]} | {ours}" + ("" if row["agrees"] is not False else " *")

    cells = table.assign(cell=table.apply(cell, axis=1))
    wide = cells.pivot_table(index="hyperparameter", columns="quantity", values="cell", aggfunc="first").loc[
        list(HYPERPARAMETERS)
    ]
    return tables.show(
        wide[list(QUANTITIES)].reset_index(),
        caption="What happens as a hyperparameter grows, all else equal: published | ours, of most methods. An "
        "asterisk marks a difference, a question mark what is not run yet.",
        names={"privacy loss epsilon": "epsilon", "privacy failure probability delta": "delta"},
    )
