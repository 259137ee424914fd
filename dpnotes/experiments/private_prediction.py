"""Experiments of the private-prediction chapter: the trade-offs of five methods (van der Maaten and Hannun 2020)."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping
from typing import Any

from dpnotes.experiments._private_prediction_grids import ANSWERING, GRIDS, METHODS, quick_grid
from dpnotes.experiments._registry import Experiment


def trade_off(
    *,
    method: str,
    dataset: str,
    epsilon: float,
    delta: float,
    answers: int | None,
    analysis: str,
    n: int | None,
    d: int | None,
    n_classes: int | None,
    l2: float | None,
    n_models: int | None,
    repeats: int,
    seed: int,
    device: str = "auto",
) -> dict[str, Any]:
    """Test accuracy of a linear model that one private method releases or answers with.

    Parameters
    ----------
    method : {"model_sensitivity", "loss_perturbation", "dp_sgd", "prediction_sensitivity", "subsample_aggregate"}
    dataset : {"mnist", "digits"}
    epsilon, delta : float
    answers : int or None
        What the guarantee of the last two methods pays for; all test rows are scored, as in the paper. None for the
        others.
    analysis : {"tight", "published"}
        ``"tight"``: sound and the least noise that we know, one record more or less for all methods. ``"published"``:
        the paper's noise, its proofs' own adjacencies.
    n, d, n_classes : int or None
        Training rows, principal axes and classes; None: all.
    l2 : float or None
        None: chosen on the last tenth of the training rows, as are the clipping norm and the step length of DP-SGD.
    n_models : int or None
        Of subsample-and-aggregate.
    repeats : int
        Releases; of subsample-and-aggregate, spread over up to ten partitions of the records.
    seed : int
    device : str

    Returns
    -------
    dict
        accuracy and spread (mean and standard deviation over repeats); chosen_l2, clipping_norm, step_length (what was
        chosen); noise (see :class:`Outcome`); adjacency and status of the guarantee; data; device.
    """
    from dpnotes.experiments import _private_prediction_runs as runs
    from dpnotes.experiments._private_prediction_data import task
    from dpnotes.learners import device_name

    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(map(repr, METHODS))}, got method={method!r}")
    own = task(dataset, n=n, d=d, n_classes=n_classes)
    how: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "analysis": analysis, "seed": seed, "device": device}
    if method in ANSWERING:
        how["answers"] = answers
    if method == "subsample_aggregate":
        how["n_models"] = n_models
    run = functools.partial(getattr(runs, method), **how)
    chosen: dict[str, float] = {}
    if method == "dp_sgd":
        pairs = itertools.product(runs.CLIPPING_NORMS, runs.STEP_LENGTHS)
        candidates = [{"clipping_norm": clip, "step_length": step} for clip, step in pairs]
        chosen = runs.choose(functools.partial(run, repeats=3), own, candidates)
    elif method in runs.L2:
        chosen = {"l2": l2} if l2 is not None else {}
        if not chosen:
            trials = 2 if method == "loss_perturbation" else runs.TRIALS
            chosen = runs.choose(functools.partial(run, repeats=trials), own, [{"l2": c} for c in runs.L2[method]])
    found = run(own, repeats=repeats, **chosen)
    return {
        "accuracy": float(found.accuracies.mean()),
        "spread": float(found.accuracies.std(ddof=1)) if repeats > 1 else None,
        "noise": float(found.noise),
        "chosen_l2": chosen.get("l2"),
        "clipping_norm": chosen.get("clipping_norm"),
        "step_length": chosen.get("step_length"),
        "adjacency": found.adjacency,
        "status": found.status,
        "data": own.digest,
        "device": device_name(device),
    }


def _seconds(parameters: Mapping[str, Any]) -> float:
    """Measured on one core: a perturbed fit takes 3 s at the size of MNIST, all else a few seconds."""
    size = (parameters["n"] or 60_000) / 60_000 * (parameters["d"] or 784) / 784
    fits = {"loss_perturbation": parameters["repeats"] + 10, "subsample_aggregate": 15}.get(parameters["method"], 10)
    return float(3 * fits * size) if parameters["dataset"] == "mnist" else 1.0


EXPERIMENTS = [
    Experiment(
        f"private_prediction_{name}",
        trade_off,
        {"paper": grid, "quick": quick_grid} if name == "privacy" else {"paper": grid},
        tolerance={"accuracy": 0.01, "spread": 0.01, "noise": 1e-6},
        cost=_seconds,
    )
    for name, grid in GRIDS.items()
]

__all__ = ["EXPERIMENTS", "METHODS", "trade_off"]
