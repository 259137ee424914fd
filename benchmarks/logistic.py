"""Speed of many logistic regressions at once, against scikit-learn's in a loop and
against what the machine can do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression

from dpnotes import data
from dpnotes.learners import (
    LogisticModels,
    device_name,
    fit_binary_logistic,
    fit_multinomial_logistic,
    fit_perturbed_logistic,
)

from ._common import OPERATIONS, Arrays, Row, arithmetic, clock_of, loaded, timed


def mnist() -> tuple[str, *Arrays]:
    return loaded("mnist", n=60_000, d=784, n_classes=10)


def adult() -> tuple[str, *Arrays]:
    return loaded("adult", n=32_561, d=108, n_classes=2)


def race(
    job: str,
    source: str,
    ours: Callable[[], LogisticModels],
    loop: tuple[np.ndarray, np.ndarray, Sequence[Any]],
    queries: np.ndarray,
    bar: float,
    *,
    models: int,
    l2: float,
    repeats: int,
    device: str,
    **settings: Any,
) -> Row:
    """Our fits against scikit-learn's of X [n, d] and y [n] on the first of the
    subsets, scaled to all ``models``.
    """
    X, y, subsets = loop

    def theirs() -> list[LogisticRegression]:
        sizes = [len(y[rows]) for rows in subsets]
        return [
            LogisticRegression(C=1 / (size * l2), max_iter=1000, **settings).fit(
                X[rows], y[rows]
            )
            for size, rows in zip(sizes, subsets, strict=True)
        ]

    (fast, slow), (fits, others) = timed(
        ours, theirs, repeats=repeats, clock=clock_of(device)
    )
    weights = np.stack([np.squeeze(model.coef_) for model in others])
    gap = float(
        (
            fits.votes(queries)[: len(others)]
            != np.stack([model.predict(queries) for model in others])
        ).mean()
    )
    moved = np.abs(fits.weights[: len(others)] - weights).max()
    return Row(
        job,
        source,
        fast,
        slow * models / len(others),
        "scikit-learn lbfgs, "
        + (str(X.dtype) if models == 1 else f"scaled from {len(others)} of the models"),
        bar,
        f"l2={l2:.3g}, {fits.iterations.mean():.1f} iterations, the other side"
        f" {np.mean([m.n_iter_ for m in others]):.1f}; largest weight"
        f" {np.abs(weights).max():.2f}; weights differ by at most {moved:.1e}, and"
        f" {gap:.1e} of the votes differ",
        device=device_name(device),
        gap=gap,
    )


def subsets_of_mnist(small: bool, device: str) -> Iterator[Row]:
    """Job 1: 256 multinomial regressions of 234 x 784."""
    source, X, y, queries = mnist()
    models, sample = (32, 4) if small else (256, 16)
    subsets = (
        np.random.default_rng(0)
        .permutation(len(X))[: models * 234]
        .reshape(models, 234)
    )
    settings = {"l2": 1e-2, "device": device}
    loop = X.astype(np.float64), y, subsets[:sample]
    for dtype, bar in ((np.float32, 6), (np.float64, 4)):
        job = f"1. {models} regressions 234 x 784 x 10, {np.dtype(dtype)}"
        fit = partial(
            fit_multinomial_logistic,
            X,
            y,
            subsets,
            n_classes=10,
            dtype=dtype,
            tolerance=1e-5,
            **settings,
        )
        given = {
            "models": models,
            "repeats": 2 if small else 5,
            "tol": 1e-5,
            "fit_intercept": False,
            **settings,
        }
        yield race(job, source, fit, loop, queries, bar, **given)


def one_on_mnist(small: bool, device: str) -> Iterator[Row]:
    """Job 1b: one multinomial regression on all rows."""
    source, X, y, queries = mnist()
    X, y = (X[:4000], y[:4000]) if small else (X, y)
    settings = {"l2": 1e-3, "device": device}
    for dtype, other, bar in (
        ("float32", "float64", 3),
        ("float32", "float32", 1.5),
        ("float64", "float64", 1.3),
    ):
        job = f"1b. one regression {len(X)} x 784 x 10, {dtype}"
        rows, loop = np.arange(len(X))[None], (X.astype(other), y, [slice(None)])
        fit = partial(
            fit_multinomial_logistic,
            X.astype(dtype),
            y,
            rows,
            n_classes=10,
            tolerance=1e-5,
            **settings,
        )
        given = {
            "models": 1,
            "repeats": 1,
            "tol": 1e-5,
            "fit_intercept": False,
            **settings,
        }
        yield race(job, source, fit, loop, queries, bar, **given)


def repeats_on_mnist(small: bool, device: str) -> Iterator[Row]:
    """Job 1c: loss perturbation, many noise vectors on one data set."""
    source, X, y, queries = mnist()
    n, repeats = (5000, 8) if small else (len(X), 100)
    X, y = X[:n] / np.linalg.norm(X[:n], axis=1, keepdims=True), y[:n]
    # about epsilon = 1
    noise = (14.0 * np.random.default_rng(0).normal(size=(repeats, 10, 784))).astype(
        np.float32
    )
    fit = partial(
        fit_perturbed_logistic,
        X,
        y,
        n_classes=10,
        l2=1e-3,
        tolerance=1e-5,
        device=device,
    )
    start = fit(linear=noise).weights[0]  # not far from all optima
    zero = np.zeros((10, 784), np.float32)
    (fast, slow, batched, limit), (ours, one, bare, _) = timed(
        lambda: fit(linear=noise),
        lambda: fit(linear=noise[:1], start=zero, chunk=1),
        lambda: fit(linear=noise, start=start),
        arithmetic(torch.float32, device),
        repeats=1,
        clock=clock_of(device),
    )
    gap = float((ours.votes(queries)[0] != one.votes(queries)[0]).mean())
    moved = np.abs(ours.weights[0] - one.weights[0]).max()
    check = (
        "rows in the unit ball, l2=0.001, sigma 14; weights differ by at most"
        f" {moved:.1e}, "
    )
    check += f"and {gap:.1e} of the votes differ; "
    job, common = (
        f"1c. {repeats} repeats on {n} x 784 x 10",
        {"device": device_name(device), "gap": gap},
    )
    yield Row(
        f"{job}, per iteration",
        source,
        batched / bare.iterations.sum(),
        limit * 4 * X.size * 10 / OPERATIONS,
        "its products at full speed",
        0.5,
        check + "our time includes its part of the preconditioner",
        **common,
    )
    yield Row(
        f"{job}, in all",
        source,
        fast,
        slow * repeats,
        "one repeat at a time from zero, scaled from one repeat",
        4,
        f"{check}{ours.iterations.mean():.0f} iterations from the unperturbed optimum"
        f" (our time includes its fit), and {one.iterations[0]} from zero",
        **common,
    )


def teachers_on_adult(small: bool, device: str) -> Iterator[Row]:
    """Job 2: binary teachers of 65 rows."""
    source, X, y, queries = adult()
    models, sample = (200, 40) if small else (1000, 100)
    rng = np.random.default_rng(0)
    subsets = np.concatenate(
        [rng.permutation(32_500).reshape(500, 65) for _ in range(2)]
    )[:models]
    # scikit-learn refuses a single class
    mixed = [rows for rows in subsets if 0 < y[rows].sum() < 65]
    settings = {"l2": 1 / 65, "device": device}
    loop = X.astype(np.float64), y, mixed[:sample]
    for dtype, bar in ((np.float32, 10), (np.float64, 8)):
        job = f"2. {len(mixed)} binary regressions 65 x {X.shape[1]}, {np.dtype(dtype)}"
        fit = partial(
            fit_binary_logistic, X, y, mixed, dtype=dtype, tolerance=1e-4, **settings
        )
        yield race(
            job,
            source,
            fit,
            loop,
            queries,
            bar,
            models=len(mixed),
            repeats=2 if small else 5,
            **settings,
        )


def shadow_models(small: bool, device: str) -> Iterator[Row]:
    """Job 2d: the models of a likelihood-ratio attack, each on half of the records
    of breast cancer.
    """
    found = data.load("breast_cancer")
    X, y, queries = (
        found.X_train.astype(np.float64),
        found.y_train,
        found.X_test.astype(np.float64),
    )
    models, sample = (100, 10) if small else (1000, 100)
    generator, half = np.random.default_rng(0), len(X) // 2
    subsets = [np.sort(generator.permutation(len(X))[:half]) for _ in range(models)]
    settings = {"l2": 1e-2, "device": device}
    fit = partial(
        fit_binary_logistic, X, y, subsets, dtype=np.float64, tolerance=1e-4, **settings
    )
    job = f"2d. {models} shadow models {half} x {X.shape[1]}, float64"
    given = {"models": models, "repeats": 2 if small else 5, **settings}
    yield race(job, "breast_cancer", fit, (X, y, subsets[:sample]), queries, 3, **given)


def random_models(n_models: int, d: int) -> LogisticModels:
    rng = np.random.default_rng(0)
    weights, intercept = rng.normal(size=(n_models, d)), rng.normal(size=n_models)
    return LogisticModels(
        weights,
        intercept,
        np.zeros(n_models),
        np.zeros(n_models, np.int64),
        np.ones(n_models, bool),
    )


def votes_on_adult(small: bool, device: str) -> Iterator[Row]:
    """Job 2b: votes of 25,000 binary models on 5,000 queries."""
    source, _, _, queries = adult()
    M, X = 2500 if small else 25_000, queries[:5000].astype(np.float64)
    models = random_models(M, X.shape[1])

    def loop() -> np.ndarray:
        table = np.empty((M, len(X)), np.uint8)
        for k in range(M):
            np.greater(X @ models.weights[k] + models.intercept[k], 0, out=table[k])
        return table

    (fast, limit, slow), (ours, _, theirs) = timed(
        lambda: models.votes(X, device=device, dtype=np.uint8),
        arithmetic(torch.float64, device),
        loop,
        repeats=2 if small else 5,
        clock=clock_of(device),
    )
    job, operations = (
        f"2b. votes of {M} models on {len(X)} queries x {X.shape[1]}, float64",
        2 * X.size * M,
    )
    check, gap = (
        f"{(ours != theirs).sum()} of {ours.size} votes differ",
        float((ours != theirs).mean()),
    )
    common = {"device": device_name(device), "gap": gap}
    yield Row(
        job,
        source,
        fast,
        limit * operations / OPERATIONS,
        "its products at full speed",
        0.5,
        check,
        **common,
    )
    yield Row(job, source, fast, slow, "loop over models, NumPy", None, check, **common)
