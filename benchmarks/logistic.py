"""Speed of many logistic regressions at once, against scikit-learn's in a loop and
against what the machine can do.
"""

from functools import partial

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

from ._common import OPERATIONS, Row, arithmetic, clock_of, loaded, timed


def mnist():
    return loaded("mnist", n=60_000, d=784, n_classes=10)


def adult():
    return loaded("adult", n=32_561, d=108, n_classes=2)


def race(job, source, ours, loop, queries, bar, *, models, l2, repeats, device, **how):
    """Our fits against scikit-learn's of X [n, d] and y [n] on the first of the
    subsets, scaled to all ``models``.
    """
    X, y, subsets = loop

    def theirs():
        found = []
        for rows in subsets:
            C = 1 / (len(y[rows]) * l2)
            model = LogisticRegression(C=C, max_iter=1000, **how)
            found.append(model.fit(X[rows], y[rows]))
        return found

    (fast, slow), (fits, others) = timed(
        ours, theirs, repeats=repeats, clock=clock_of(device)
    )
    weights = np.stack([np.squeeze(model.coef_) for model in others])
    votes = np.stack([model.predict(queries) for model in others])
    gap = float((fits.votes(queries)[: len(others)] != votes).mean())
    moved = np.abs(fits.weights[: len(others)] - weights).max()
    scaled = f"scaled from {len(others)} of the models"
    return Row(
        job,
        source,
        fast,
        slow * models / len(others),
        f"scikit-learn lbfgs, {X.dtype if models == 1 else scaled}",
        bar,
        f"l2={l2:.3g}, {fits.iterations.mean():.1f} iterations, the other side"
        f" {np.mean([m.n_iter_ for m in others]):.1f}; largest weight"
        f" {np.abs(weights).max():.2f}; weights differ by at most {moved:.1e}, and"
        f" {gap:.1e} of the votes differ",
        device=device_name(device),
        gap=gap,
    )


def subsets_of_mnist(small, device):
    """Job 1: 256 multinomial regressions of 234 x 784."""
    source, X, y, queries = mnist()
    models, sample = (32, 4) if small else (256, 16)
    order = np.random.default_rng(0).permutation(len(X))
    subsets = order[: models * 234].reshape(models, 234)
    shared = {"l2": 1e-2, "device": device}
    for dtype, bar in (("float32", 6), ("float64", 4)):
        fit = partial(
            fit_multinomial_logistic,
            X,
            y,
            subsets,
            n_classes=10,
            dtype=dtype,
            tolerance=1e-5,
            **shared,
        )
        yield race(
            f"1. {models} regressions 234 x 784 x 10, {dtype}",
            source,
            fit,
            (X.astype(np.float64), y, subsets[:sample]),
            queries,
            bar,
            models=models,
            repeats=2 if small else 5,
            tol=1e-5,
            fit_intercept=False,
            **shared,
        )


def one_on_mnist(small, device):
    """Job 1b: one multinomial regression on all rows."""
    source, X, y, queries = mnist()
    if small:
        X, y = X[:4000], y[:4000]
    shared = {"l2": 1e-3, "device": device}
    for dtype, other, bar in (
        ("float32", "float64", 3),
        ("float32", "float32", 1.5),
        ("float64", "float64", 1.3),
    ):
        fit = partial(
            fit_multinomial_logistic,
            X.astype(dtype),
            y,
            np.arange(len(X))[None],
            n_classes=10,
            tolerance=1e-5,
            **shared,
        )
        yield race(
            f"1b. one regression {len(X)} x 784 x 10, {dtype}",
            source,
            fit,
            (X.astype(other), y, [slice(None)]),
            queries,
            bar,
            models=1,
            repeats=1,
            tol=1e-5,
            fit_intercept=False,
            **shared,
        )


def repeats_on_mnist(small, device):
    """Job 1c: loss perturbation, many noise vectors on one data set."""
    source, X, y, queries = mnist()
    n, repeats = (5000, 8) if small else (len(X), 100)
    X, y = X[:n] / np.linalg.norm(X[:n], axis=1, keepdims=True), y[:n]
    # about epsilon = 1
    noise = 14.0 * np.random.default_rng(0).normal(size=(repeats, 10, 784))
    noise = noise.astype(np.float32)
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
        f" {moved:.1e}, and {gap:.1e} of the votes differ; "
    )
    job = f"1c. {repeats} repeats on {n} x 784 x 10"
    common = {"device": device_name(device), "gap": gap}
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


def binary(job, source, X, y, subsets, queries, bar, *, dtype, sample, **how):
    """Binary regressions, of which scikit-learn fits the first."""
    fit = partial(
        fit_binary_logistic,
        X,
        y,
        subsets,
        dtype=dtype,
        tolerance=1e-4,
        l2=how["l2"],
        device=how["device"],
    )
    loop = X.astype(np.float64), y, subsets[:sample]
    return race(job, source, fit, loop, queries, bar, models=len(subsets), **how)


def teachers_on_adult(small, device):
    """Job 2: binary teachers of 65 rows."""
    source, X, y, queries = adult()
    models, sample = (200, 40) if small else (1000, 100)
    rng = np.random.default_rng(0)
    halves = [rng.permutation(32_500).reshape(500, 65) for _ in range(2)]
    subsets = np.concatenate(halves)[:models]
    # scikit-learn refuses a single class
    mixed = [rows for rows in subsets if 0 < y[rows].sum() < 65]
    how = {"sample": sample, "l2": 1 / 65, "device": device}
    how["repeats"] = 2 if small else 5
    for dtype, bar in (("float32", 10), ("float64", 8)):
        job = f"2. {len(mixed)} binary regressions 65 x {X.shape[1]}, {dtype}"
        yield binary(job, source, X, y, mixed, queries, bar, dtype=dtype, **how)


def shadow_models(small, device):
    """Job 2d: the models of a likelihood-ratio attack, each on half of the records
    of breast cancer.
    """
    found = data.load("breast_cancer")
    X = found.X_train.astype(np.float64)
    models, sample = (100, 10) if small else (1000, 100)
    generator, half = np.random.default_rng(0), len(X) // 2
    subsets = [np.sort(generator.permutation(len(X))[:half]) for _ in range(models)]
    yield binary(
        f"2d. {models} shadow models {half} x {X.shape[1]}, float64",
        "breast_cancer",
        X,
        found.y_train,
        subsets,
        found.X_test.astype(np.float64),
        3,
        dtype="float64",
        sample=sample,
        l2=1e-2,
        device=device,
        repeats=2 if small else 5,
    )


def random_models(n_models, d):
    rng = np.random.default_rng(0)
    return LogisticModels(
        rng.normal(size=(n_models, d)),
        rng.normal(size=n_models),
        np.zeros(n_models),
        np.zeros(n_models, np.int64),
        np.ones(n_models, bool),
    )


def votes_on_adult(small, device):
    """Job 2b: votes of 25,000 binary models on 5,000 queries."""
    source, _, _, queries = adult()
    M = 2500 if small else 25_000
    X = queries[:5000].astype(np.float64)
    models = random_models(M, X.shape[1])

    def loop():
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
    limit *= 2 * X.size * M / OPERATIONS
    for seconds, against, bar in (
        (limit, "its products at full speed", 0.5),
        (slow, "loop over models, NumPy", None),
    ):
        yield Row(
            f"2b. votes of {M} models on {len(X)} queries x {X.shape[1]}, float64",
            source,
            fast,
            seconds,
            against,
            bar,
            f"{(ours != theirs).sum()} of {ours.size} votes differ",
            device=device_name(device),
            gap=float((ours != theirs).mean()),
        )
