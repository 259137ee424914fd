"""Learning rates of DP-SGD in the chapter "bagging": candidates, the choice on held-out rows, and its use elsewhere.

The noise of DP-SGD moves the weights like a random walk whose step is the learning rate times the noise: what is a good
rate depends on the noise. So it is chosen for short runs at four noises, and a run takes the rate of the nearest one.
The choice is made on MNIST; that it carries over to CIFAR-10 is seen at the chapter's reduced scale.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from dpnotes.accounting import gaussian_sigma
from dpnotes.lab._experiment import Grid
from dpnotes.lab.bagging.exposure import limiting_noise, mu_for_tpr

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
    """Noise multiplier of a row of DP-SGD: the given one, or nearly the calibrated one, without a calibration."""
    if parameters["noise_multiplier"] is not None:
        return float(parameters["noise_multiplier"])
    tpr = parameters.get("tpr_at_fpr_1e3")
    mu = 1 / gaussian_sigma(parameters["epsilon"], parameters["delta"]) if tpr is None else mu_for_tpr(tpr)
    batch, steps = parameters["batch_size"], parameters["epochs"] * n // parameters["batch_size"]
    return limiting_noise(mu, sample_rate=batch / n, steps=steps)
