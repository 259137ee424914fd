"""Tables of the bagging paper, line by line: published, reproduced, and what a gap needs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from dpnotes import accounting
from dpnotes.lab import tables

if TYPE_CHECKING:
    from pandas.io.formats.style import Styler

COLUMNS = ["method", "published budget", "advantage", "published", "reproduced", "spread", "seeds", "difference", "gap"]


def line(
    method: str,
    rows: pd.DataFrame,
    *,
    published: float = np.nan,
    budget: tuple[float, float] = (np.nan, np.nan),
    advantage: float | None = None,
    gap: str = tables.GAP,
) -> dict[str, Any]:
    """One line, with the columns :data:`COLUMNS`; ``advantage``: by default that of the rows that were run."""
    done = rows.dropna(subset=["accuracy"])
    accuracy = done["accuracy"].astype(float)
    return {
        "method": method,
        "published budget": budget_text(*budget),
        "advantage": run_advantage(done) if advantage is None else advantage,
        "published": published,
        "reproduced": accuracy.mean(),
        "spread": accuracy.std(ddof=1),
        "seeds": len(done),
        "difference": accuracy.mean() - published,
        "gap": gap,
    }


def view(table: pd.DataFrame, *, caption: str) -> Styler:
    """Lines as the chapter shows them."""
    reproduced = map(mean_text, table["reproduced"], table["spread"], table["gap"])
    shown = table.assign(
        method=table["method"].map(setting_text),
        reproduced=list(reproduced),
        difference=100 * table["difference"],
    )
    return tables.show(
        shown.drop(columns=["spread", "gap"]),
        caption=caption,
        formats={"published": "{:.2%}", "advantage": "{:.4f}", "difference": "{:+.2f}"},
    )


def parameters(rows: pd.DataFrame) -> list[Mapping[str, Any]]:
    """Rows as the dicts that they were asked by, None for what a row lacks."""
    found: list[Mapping[str, Any]] = rows.astype(object).where(rows.notna(), None).to_dict("records")  # type: ignore[assignment]
    return found


def run_advantage(done: pd.DataFrame) -> float:
    """Total variation that finished rows guarantee: exact for bagging, the stored one for the others."""
    if not len(done):
        return np.nan
    if "subsample" in done:
        first = done.iloc[0]
        if pd.isna(first["subsample"]):
            return np.nan
        return accounting.bagging(n=int(first["n"]), subsample=int(first["subsample"])).advantage
    return float(done["advantage"].max())


def budget_text(epsilon: float, delta: float) -> str:
    """The pair as the tables show it, on one line; empty if there is none."""
    return "" if np.isnan(epsilon) else f"({epsilon:g},{tables.NO_BREAK}{delta:g})"


def setting_text(method: str) -> str:
    """The name of a line as the tables show it: its setting, such as k = 300, is not broken."""
    return method.replace(" = ", f"{tables.NO_BREAK}={tables.NO_BREAK}")


def drawn(size: float) -> str:
    """Name of bagging with subsamples of that size, or of one model on all records."""
    return f"bagging, k = {size:,.0f}" if size > 0 else "no privacy"


def mean_text(mean: float, spread: float, gap: str) -> str:
    """Mean and spread as the tables show them, or the gap."""
    if np.isnan(mean):
        return gap
    return f"{mean:.2%}" + ("" if np.isnan(spread) else f"{tables.PLUS_MINUS}{100 * spread:.2f}")


def mean_texts(table: pd.DataFrame, columns: Iterable[str]) -> dict[str, list[str]]:
    """Columns of means, each with a column of the same name and " spread", as the tables show them, gaps named."""
    return {
        column: [mean_text(*pair, tables.GAP) for pair in zip(table[column], table[f"{column} spread"], strict=True)]
        for column in columns
    }


def filled(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows with the columns of all metrics, whether or not any was run, numbers as float."""
    numbers = ["accuracy", "advantage", "n", "epsilon", "delta", "noise_multiplier", "sigma", "answers", "epochs"]
    numbers = [name for name in numbers if name in rows or name in ("accuracy", "advantage", "n")]
    if "noise_multiplier" in rows:
        numbers = list(dict.fromkeys([*numbers, "sigma"]))
    full = rows.reindex(columns=[*rows.columns, *(name for name in numbers if name not in rows)])
    full[numbers] = full[numbers].astype(float)
    if "subsample" in full:
        full["subsample"] = full["subsample"].astype(float)
    return full
