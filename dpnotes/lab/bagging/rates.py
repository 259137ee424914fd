"""Learning rates of DP-SGD in the chapter "bagging": candidates, the choice on held-out rows, and its use elsewhere.

The noise of DP-SGD moves the weights like a random walk whose step is the learning rate times the noise: what is a good
rate depends on the noise. So it is chosen for short runs at four noises, and a run takes the rate of the nearest one.
The choice is made on MNIST; that it carries over to CIFAR-10 is seen at the chapter's reduced scale.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd

from dpnotes.accounting import gaussian_sigma
from dpnotes.lab import tables
from dpnotes.lab._experiment import Grid, paper_table
from dpnotes.lab.bagging.private import limiting_noise, mu_for_found

if TYPE_CHECKING:
    from pandas.io.formats.style import Styler

SHORT = 10  # epochs of the runs on which the rates are chosen, counted for 60,000 records
BATCHES = {"network": 256, "linear": 1000}  # of these runs
NOISES = (0.5, 2.0, 8.0, 32.0)  # a factor of four apart
RATES: dict[str, tuple[float, ...]] = {  # candidates, half a decade apart
    "network": (5.0, 1.5, 0.5, 0.15, 0.05, 0.015, 0.005),
    "linear": (80.0, 25.0, 8.0, 2.5, 0.8, 0.25, 0.08),
}
CHOSEN: dict[str, tuple[float, ...]] = {  # one for each noise, by the rows of bagging_dp_sgd_settings
    "network": (1.5, 0.5, 0.05, 0.015),
    "linear": (25.0, 8.0, 0.8, 0.25),
}


def dp_sgd_rate(model: str, parameters: Mapping[str, Any], *, n: int) -> float:
    """Learning rate for a run of DP-SGD on n records from scratch, for ``model`` "network" or "linear".

    A run of s times as many steps as the short ones, in batches b times as large, at the noise sigma and the rate r,
    moves as far along its gradients (r times the number of steps) and is moved as far by its noise (r sigma over the
    batch, times the root of the number) as a short run at the noise sigma / (b sqrt(s)) and the rate s r. So it takes
    1/s of the rate that is chosen there.
    """
    batch = parameters["batch_size"]
    longer = float(parameters["epochs"] * n / batch / (SHORT * 60_000 / BATCHES[model]))
    noise = about_sigma(parameters, n=n) * BATCHES[model] / batch / math.sqrt(longer)
    nearest = min(range(len(NOISES)), key=lambda i: abs(math.log(noise / NOISES[i])))
    return CHOSEN[model][nearest] / longer


def with_rates(rows: Iterable[Mapping[str, Any]], *, n: int, factor: float = 1.0) -> Grid:
    """Give each row of a network the learning rate for its noise, times a factor."""
    return [{**row, "learning_rate": decimal(factor * dp_sgd_rate("network", row, n=n))} for row in rows]


def decimal(rate: float) -> float:
    """Give the rate to six digits: of a product of decimal numbers, the decimal number that it is."""
    return float(f"{rate:.6g}")


def about_sigma(parameters: Mapping[str, Any], *, n: int) -> float:
    """Noise multiplier of a row of DP-SGD: the given one, or nearly what its calibration finds, in no time."""
    if parameters["noise_multiplier"] is not None:
        return float(parameters["noise_multiplier"])
    share = parameters.get("found")
    mu = 1 / gaussian_sigma(parameters["epsilon"], parameters["delta"]) if share is None else mu_for_found(share)
    batch, steps = parameters["batch_size"], parameters["epochs"] * n // parameters["batch_size"]
    return limiting_noise(mu, sample_rate=batch / n, steps=steps)


def rate_candidates(rows: pd.DataFrame, model: str) -> pd.DataFrame:
    """Accuracy on held-out rows of the short runs of a model: one row for each noise, one column for each rate.

    Column chosen: the best rate where all were run.
    """
    done = rows[rows["width"].isna() == (model == "linear")]
    table = done.pivot_table("accuracy", "noise_multiplier", "learning_rate", dropna=False)
    whole = table.notna().all(axis=1)
    return table.assign(chosen=table.idxmax(axis=1).where(whole)).reset_index().rename_axis(columns=None)


def rate_candidates_view(table: pd.DataFrame, model: str) -> Styler:
    """The candidates of a model as the chapter shows them."""
    rates = [column for column in table if isinstance(column, float)]
    named = table.rename(columns={rate: f"rate {rate:g}" for rate in rates})
    what = "the network, batches of 256" if model == "network" else "softmax regression, batches of 1,000"
    return tables.show(
        named,
        caption=f"DP-SGD for ten epochs, {what}: accuracy on the last 10,000 MNIST training images at four noises; "
        "trained on the first 50,000, one seed.",
        formats={**{f"rate {rate:g}": "{:.1%}" for rate in rates}, "noise_multiplier": "{:g}", "chosen": "{:g}"},
        names={"noise_multiplier": "sigma"},
        gaps=dict.fromkeys([*(f"rate {rate:g}" for rate in rates), "chosen"], tables.GAP),
    )


def two_rates(one_rate: pd.DataFrame, chosen: pd.DataFrame) -> pd.DataFrame:
    """DP-SGD with the noise of Table 2a, all with one learning rate, beside the rates chosen for each noise.

    Columns: sigma, published, one rate (accuracy), rate (the chosen), accuracy; NaN where a row was not run.
    """
    paper = paper_table("bagging_table2").query("table == '2a' and method == 'DPSGD'")
    table = paper[["sigma", "value"]].rename(columns={"value": "published"}).astype(float)
    one, own = (
        frame.dropna(subset=["noise_multiplier"])
        .reindex(columns=["noise_multiplier", "learning_rate", "accuracy"])
        .astype(float)
        .rename(columns={"noise_multiplier": "sigma"})
        for frame in (one_rate, chosen)
    )
    table = table.merge(one[["sigma", "accuracy"]].rename(columns={"accuracy": "one rate"}), on="sigma", how="left")
    return table.merge(own.rename(columns={"learning_rate": "rate"}), on="sigma", how="left")


def two_rates_view(table: pd.DataFrame) -> Styler:
    """Both rates as the chapter shows them, gaps named."""
    accuracies = ["published", "one rate", "accuracy"]
    return tables.show(
        table,
        caption="DP-SGD with the noise of Table 2a for 100 epochs, one run each: test accuracy at the rate 0.15 of the "
        "library's public example, and at the rate chosen for each noise on held-out rows.",
        formats={**dict.fromkeys(accuracies, "{:.2%}"), "sigma": "{:g}", "rate": "{:g}"},
        names={"one rate": "rate 0.15", "rate": "chosen rate", "accuracy": "at the chosen rate"},
        gaps=dict.fromkeys(["one rate", "accuracy"], tables.GAP),
    )
