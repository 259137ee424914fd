"""Speed of the learners on a GPU: all models at once against one after the other on the same GPU.

Wall time between synchronisations, sides by turns (A B A B), medians; the first call of each is left out. Logistic
regressions, boosted trees and seeds are trained one at a time by the same learner (``chunk=1``), data on the GPU
already; neighbouring data sets by ``torch.nn.Module`` with autograd and ``torch.optim.SGD``; steps of DP-SGD by opacus.
The other side runs on a part of the models, and its time is multiplied up. Job 6 chooses the GPU by itself. Without a
GPU there are no rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import torch

from dpnotes.learners import (
    device_name,
    fit_binary_logistic,
    fit_boosted_trees,
    fit_multinomial_logistic,
    fit_perturbed_logistic,
    fit_sgd,
)

from . import dp_sgd, logistic, sgd
from ._common import Row, timed

BAR = 5  # as for networks: what launches cost, divided among the models; set before any was measured

Fit = Callable[[slice, int | None], np.ndarray]  # weights of these models, trained in chunks of that size


def rows(small: bool, device: str | None = None) -> Iterator[Row]:
    """All rows of ``device``; by default of the GPU, if there is one."""
    if device is None and not torch.cuda.is_available():
        return
    device = device or "cuda"
    yield from teachers_rows(small, device)
    for task in islice(sgd.tasks(), 1 if small else None):
        short = replace(task, steps=task.steps // (40 if small else 4))
        yield seeds_row(short, 16 if small else 1024, device)
        yield from sgd.shared_seeds(
            short, "float64", n_runs=2 if small else 160, repeats=1, hidden=None,
            bars={"nn.Module and SGD": 400}, device=device,
        )  # fmt: skip
    yield from dp_sgd.rows(small, device)


def against_one_by_one(job: str, data: str, fit: Fit, n_models: int, *, sample: int, device: str, repeats: int) -> Row:
    """All models at once against the first ``sample`` of them one after the other."""
    found: dict[str, np.ndarray] = {}

    def ours() -> None:
        found["ours"] = fit(slice(n_models), None)

    def theirs() -> None:
        found["loop"] = fit(slice(sample), 1)

    fast, slow = timed(ours, theirs, repeats=repeats, clock=time.perf_counter)
    gap = np.abs(found["ours"][:sample] - found["loop"]).max()
    return Row(
        f"{job}, {n_models} models",
        data,
        fast,
        slow * n_models / sample,
        f"one at a time there, {sample} of them scaled",
        BAR,
        f"largest |dW| {gap:.1e} of |W| {np.abs(found['loop']).max():.2f}",
        device=device_name(device),
        gap=float(gap),
    )


def teachers_rows(small: bool, device: str) -> Iterator[Row]:
    """Jobs 1, 1c, 2 and 2c."""
    common: dict[str, Any] = {"device": device, "repeats": 1 if small else 3}
    source, X, y, _ = logistic.mnist()
    models = 16 if small else 256
    subsets = np.random.default_rng(0).permutation(len(X))[: models * 234].reshape(models, 234)

    def multinomial(some: slice, chunk: int | None) -> np.ndarray:
        fitted = fit_multinomial_logistic(
            X, y, subsets[some], n_classes=10, l2=1e-2, dtype=np.float32, device=device, chunk=chunk
        )
        return fitted.weights

    yield against_one_by_one("1. regressions 234 x 784 x 10", source, multinomial, models, sample=4, **common)

    unit, labels = (rows[: 6000 if small else None] for rows in (X, y))
    unit = unit / np.linalg.norm(unit, axis=1, keepdims=True)
    models = 8 if small else 100
    noise = (14.0 * np.random.default_rng(0).normal(size=(models, 10, 784))).astype(np.float32)
    start = np.zeros((10, 784), np.float32)

    def perturbed(some: slice, chunk: int | None) -> np.ndarray:
        return fit_perturbed_logistic(
            unit, labels, n_classes=10, l2=1e-3, linear=noise[some], start=start, device=device, chunk=chunk
        ).weights

    yield against_one_by_one(f"1c. repeats on {len(unit)} x 784 x 10", source, perturbed, models, sample=2, **common)

    source, X, y, _ = logistic.adult()
    models = 100 if small else 25_000
    draw = np.random.default_rng(0)
    teachers = np.concatenate([draw.permutation(32_500).reshape(500, 65) for _ in range(-(-models // 500))])[:models]

    def binary(some: slice, chunk: int | None) -> np.ndarray:
        return fit_binary_logistic(X, y, teachers[some], l2=1 / 65, device=device, chunk=chunk).weights

    yield against_one_by_one(f"2. binary regressions 65 x {X.shape[1]}", source, binary, models, sample=20, **common)

    models, sample = (8, 2) if small else (4000, 4)
    wide = X.astype(np.float64)

    def boosted(some: slice, chunk: int | None) -> np.ndarray:
        return fit_boosted_trees(wide, y, teachers[:models][some], device=device, chunk=chunk).value

    yield against_one_by_one(f"2c. boosted models 65 x {X.shape[1]}", source, boosted, models, sample=sample, **common)


def seeds_row(task: sgd.Task, n_runs: int, device: str) -> Row:
    """Job 4a."""

    def seeds(some: slice, chunk: int | None) -> np.ndarray:
        return fit_sgd(
            task.X,
            task.y,
            n_runs=len(range(n_runs)[some]),
            dtype="float64",
            device=device,
            chunk=chunk,
            **task.settings,
        ).weights

    job = f"4a. {task.name} float64, {task.steps} steps"
    return against_one_by_one(job, task.data, seeds, n_runs, sample=2, device=device, repeats=1)
