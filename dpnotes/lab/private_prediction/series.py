"""Rows of the private-prediction figures, put together, and series of points picked out of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpnotes.lab.private_prediction.grids import ANSWERING, N_MODELS

BASE: dict[str, float] = {"n": 60_000, "d": 784, "n_classes": 10, "answers": 100, "n_models": N_MODELS, "epsilon": 1.0}
SIZES = {"mnist": {"n": 60_000, "d": 784, "n_classes": 10}, "digits": {"n": 1442, "d": 64, "n_classes": 10}}


class Series(NamedTuple):
    """Points of one method: x (rising), accuracy, spread (standard deviation), error (standard error of the mean)."""

    x: NDArray[np.float64]
    accuracy: NDArray[np.float64]
    spread: NDArray[np.float64]
    error: NDArray[np.float64]

    def at(self, x: float) -> tuple[float, float]:
        """Accuracy and error at one point.

        Raises
        ------
        KeyError
            If the point was not run.
        """
        where = np.flatnonzero(np.isclose(self.x, x, rtol=1e-9, atol=0))
        if not len(where):
            raise KeyError(x)
        return float(self.accuracy[where[0]]), float(self.error[where[0]])


def put_together(*stores: pd.DataFrame) -> pd.DataFrame:
    """All rows of several stores; sizes that stand for "all" as numbers, empty accuracies kept as gaps."""
    rows = pd.concat([store.astype(object) for store in stores], ignore_index=True)
    for name in ("accuracy", "spread", "noise"):
        rows[name] = _numbers(rows[name]) if name in rows else np.nan
    for name in ("n", "d", "n_classes"):
        rows[name] = _numbers(rows[name]).fillna(rows["dataset"].map(lambda data, name=name: SIZES[data][name]))
    for name in ("epsilon", "delta", "answers", "n_models", "l2", "repeats"):
        rows[name] = _numbers(rows[name])
    given = rows["l2"].notna()
    rows["tuned"] = ~given
    if "chosen_l2" in rows:
        rows["l2"] = rows["l2"].fillna(_numbers(rows["chosen_l2"]))
    return rows


def _numbers(column: pd.Series[Any]) -> pd.Series[float]:
    """A column as float64; what a store lacks is NaN."""
    return column.where(column.notna(), np.nan).astype(float)


def series(
    rows: pd.DataFrame, method: str, x: str, *, analysis: str = "tight", delta: float | None = 0.0, **fixed: float
) -> Series | None:
    """Points of one method along ``x``, all else as in :data:`BASE` (or ``fixed``); None if there is none.

    Methods that release a model do not depend on the number of answers: along it they have one point. ``l2`` varies
    only where it was given rather than chosen.
    """
    setting: dict[str, Any] = {**BASE, **fixed}
    data = "digits" if (rows["dataset"] == "digits").all() else "mnist"
    setting |= {**SIZES[data], **fixed}
    if data == "digits":
        setting["n_models"] = rows["n_models"].max()
    keep = (rows["method"] == method) & (rows["analysis"] == analysis) & rows["accuracy"].notna()
    keep &= ~rows["tuned"] if x == "l2" else rows["tuned"]
    if delta is not None and x != "delta":
        keep &= rows["delta"] == delta
    if x == "delta":
        keep &= rows["delta"] > 0
    for name, value in setting.items():
        if name == x or (name == "answers" and method not in ANSWERING):
            continue
        if name == "n_models" and method != "subsample_aggregate":
            continue
        keep &= rows[name] == value
    own = rows[keep].drop_duplicates([x]) if x != "answers" else rows[keep].drop_duplicates(["answers"])
    if own.empty:
        return None
    own = own.sort_values(x)
    spread = own["spread"].to_numpy(float)
    return Series(
        own[x].to_numpy(float),
        own["accuracy"].to_numpy(float),
        spread,
        spread / np.sqrt(own["repeats"].to_numpy(float)),
    )
