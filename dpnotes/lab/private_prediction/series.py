"""Rows of the private-prediction figures, put together, and series of points picked out of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpnotes.lab import own_data
from dpnotes.lab.private_prediction.grids import ANSWERING, N_MODELS
from dpnotes.lab.verdicts import Mean

NUMBERS = ["n", "d", "n_classes", "epsilon", "delta", "answers", "n_models", "l2", "chosen_l2", "repeats"]
NUMBERS += ["accuracy", "accuracy_std", "noise"]
BASE: dict[str, float] = {"n": 60_000, "d": 784, "n_classes": 10, "answers": 100, "n_models": N_MODELS, "epsilon": 1.0}
SIZES = {"mnist": {"n": 60_000, "d": 784, "n_classes": 10}, "digits": {"n": 1442, "d": 64, "n_classes": 10}}


class Series(NamedTuple):
    """Points of one method: x (rising), mean accuracy, std (over releases), runs (how many releases)."""

    x: NDArray[np.float64]
    accuracy: NDArray[np.float64]
    std: NDArray[np.float64]
    runs: NDArray[np.float64]

    def at(self, x: float) -> Mean:
        """Mean accuracy at one point.

        Raises
        ------
        KeyError
            If the point was not run.
        """
        found = np.flatnonzero(np.isclose(self.x, x, rtol=1e-9, atol=0))
        if not len(found):
            raise KeyError(x)
        return self.means[int(found[0])]

    @property
    def means(self) -> list[Mean]:
        """Mean accuracies, point by point."""
        return [Mean.of(*map(float, point)) for point in zip(self.accuracy, self.std, self.runs, strict=True)]


def put_together(*stores: pd.DataFrame) -> pd.DataFrame:
    """All rows of several stores; sizes that stand for "all" as numbers, empty accuracies kept as gaps.

    The column ``tuned`` says whether ``l2`` was chosen on held-out rows.
    """
    rows = pd.concat([store.astype(object) for store in stores], ignore_index=True)
    rows = rows.reindex(columns=list(dict.fromkeys([*rows, *NUMBERS])))
    for name in NUMBERS:
        rows[name] = rows[name].where(rows[name].notna(), np.nan).astype(float)
    for name in ("n", "d", "n_classes"):
        rows[name] = rows[name].fillna(
            rows["dataset"].map({data: size_of(data)[name] for data in set(rows["dataset"])})
        )
    return rows.assign(tuned=rows["l2"].isna(), l2=rows["l2"].fillna(rows["chosen_l2"]))


def size_of(dataset: str) -> Mapping[str, float]:
    """Training records, features and classes of a data set."""
    if own_data.is_own(dataset):
        mine = own_data.load(dataset)
        return {"n": mine.n_train, "d": mine.d, "n_classes": mine.n_classes}
    return SIZES[dataset]


def series(
    rows: pd.DataFrame, method: str, x: str, *, analysis: str = "tight", delta: float = 0.0, **fixed: float
) -> Series | None:
    """Points of one method along ``x``, all else as in :data:`BASE` (or ``fixed``); None if there is none.

    Methods that release a model do not depend on the number of answers: along it they have one point. ``l2`` varies
    only where it was given rather than chosen.
    """
    datasets = set(rows["dataset"])
    dataset = "mnist" if "mnist" in datasets or len(datasets) != 1 else datasets.pop()
    setting: dict[str, Any] = {"method": method, "analysis": analysis, "delta": delta, "tuned": x != "l2"}
    setting |= {**BASE, **size_of(dataset)}
    if dataset != "mnist":
        setting["n_models"] = rows["n_models"].max()
    setting |= fixed
    if method not in ANSWERING:
        del setting["answers"]
    if method != "subsample_aggregate":
        del setting["n_models"]
    setting.pop(x, None)
    keep = rows["accuracy"].notna() & (rows["delta"] > 0 if x == "delta" else True)
    for name, value in setting.items():
        keep &= rows[name] == value
    own = rows[keep].drop_duplicates([x]).sort_values(x)
    if own.empty:
        return None
    return Series(*(own[name].to_numpy() for name in (x, "accuracy", "accuracy_std", "repeats")))
