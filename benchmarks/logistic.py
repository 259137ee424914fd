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
    fit_binary_logistic,
    fit_multinomial_logistic,
    fit_perturbed_logistic,
)

from ._common import OPERATIONS, Row, arithmetic, loaded, timed


def mnist():
    return loaded("mnist", n=60_000, d=784, n_classes=10)


def adult():
    return loaded("adult", n=32_561, d=108, n_classes=2)


def race(job, data, fit, bar, *, sample, l2, device, other=None, **how):
    """Our fits of models on rows of X [n, d] and y [n] against scikit-learn's of the
    first of them, scaled to all; ``other`` is the dtype that scikit-learn is given.
    """
    source, X, y, queries, subsets = data
    models = len(subsets)
    dtype = np.dtype(other or np.float64)
    # gathered before the clock runs
    parts = [(X[rows].astype(dtype), y[rows]) for rows in subsets[:sample]]

    def theirs():
        found = []
        for part in parts:
            # scikit-learn's loss is a sum, ours a mean
            C = 1 / (len(part[1]) * l2)
            model = LogisticRegression(C=C, max_iter=1000, **how)
            found.append(model.fit(*part))
        return found

    (fast, slow), (fits, others) = timed(
        lambda: fit(X, y, subsets, l2=l2, device=device),
        theirs,
        # one fit on all rows takes so long that one is enough
        repeats=5 if models > 1 else 1,
        device=device,
    )
    # a binary model of scikit-learn has a row of weights
    weights = np.stack([np.squeeze(model.coef_) for model in others])
    votes = np.stack([model.predict(queries) for model in others])
    gap = float((fits.votes(queries)[:sample] != votes).mean())
    moved = np.abs(fits.weights[:sample] - weights).max()
    scaled = f"scaled from {sample} of the models"
    return Row(
        job,
        source,
        fast,
        slow * models / sample,
        f"scikit-learn lbfgs, {dtype if models == 1 else scaled}",
        bar,
        f"l2={l2:.3g}, {fits.iterations.mean():.1f} iterations, the other side"
        f" {np.mean([m.n_iter_ for m in others]):.1f}; largest weight"
        f" {np.abs(weights).max():.2f}; weights differ by at most {moved:.1e}, and"
        f" {gap:.1e} of the votes differ",
        gap=gap,
    )


def multinomial(job, data, bar, dtype, **how):
    """Regressions on ten digits, both sides to the same tolerance."""
    to = {"n_classes": 10, "dtype": dtype, "tolerance": 1e-5}
    fit = partial(fit_multinomial_logistic, **to)
    return race(job, data, fit, bar, tol=1e-5, fit_intercept=False, **how)


def binary(job, data, bar, dtype, **how):
    """Regressions with an intercept, both sides to scikit-learn's own tolerance."""
    fit = partial(fit_binary_logistic, dtype=dtype, tolerance=1e-4)
    return race(job, data, fit, bar, **how)


def subsets_of_mnist(small, device):
    """Job 1: 256 multinomial regressions of 234 x 784."""
    source, X, y, queries = mnist()
    models, sample = (32, 4) if small else (256, 16)
    # disjoint subsets
    order = np.random.default_rng(0).permutation(len(X))
    subsets = order[: models * 234].reshape(models, 234)
    data = source, X, y, queries, subsets
    how = {"sample": sample, "l2": 1e-2, "device": device}
    for dtype, bar in (("float32", 6), ("float64", 4)):
        job = f"1. {models} regressions 234 x 784 x 10, {dtype}"
        yield multinomial(job, data, bar, dtype, **how)


def one_on_mnist(small, device):
    """Job 1b: one multinomial regression on all rows."""
    source, X, y, queries = mnist()
    n = 4000 if small else len(X)
    how = {"sample": 1, "l2": 1e-3, "device": device}
    for dtype, other, bar in (
        ("float32", "float64", 3),
        ("float32", "float32", 1.5),
        ("float64", "float64", 1.3),
    ):
        # nothing is to be copied into another dtype while the clock runs
        data = source, X[:n].astype(dtype), y[:n], queries, np.arange(n)[None]
        job = f"1b. one regression {n} x 784 x 10, {dtype}"
        yield multinomial(job, data, bar, dtype, other=other, **how)


def repeats_on_mnist(small, device):
    """Job 1c: loss perturbation, many noise vectors on one data set."""
    source, X, y, queries = mnist()
    n, repeats = (5000, 8) if small else (len(X), 100)
    X = X[:n] / np.linalg.norm(X[:n], axis=1, keepdims=True)
    y = y[:n]
    # about epsilon = 1
    noise = 14.0 * np.random.default_rng(0).normal(size=(repeats, 10, 784))
    noise = noise.astype(np.float32)
    how = {"n_classes": 10, "l2": 1e-3, "tolerance": 1e-5, "device": device}
    fit = partial(fit_perturbed_logistic, X, y, **how)
    # not far from all optima
    start = fit(linear=noise).weights[0]
    # where somebody without a warm start begins
    zero = np.zeros((10, 784), np.float32)
    (fast, slow, batched, limit), (ours, one, bare, _) = timed(
        lambda: fit(linear=noise),
        lambda: fit(linear=noise[:1], start=zero, chunk=1),
        lambda: fit(linear=noise, start=start),
        arithmetic(torch.float32, device),
        repeats=1,
        device=device,
    )
    gap = float((ours.votes(queries)[0] != one.votes(queries)[0]).mean())
    moved = np.abs(ours.weights[0] - one.weights[0]).max()
    check = (
        "rows in the unit ball, l2=0.001, sigma 14; weights differ by at most"
        f" {moved:.1e}, and {gap:.1e} of the votes differ; "
    )
    job = f"1c. {repeats} repeats on {n} x 784 x 10"
    yield Row(
        f"{job}, per iteration",
        source,
        batched / bare.iterations.sum(),
        # a product forwards and one backwards, two operations each
        limit * 4 * X.size * 10 / OPERATIONS,
        "its products at full speed",
        0.5,
        check + "our time includes its part of the preconditioner",
        gap=gap,
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
        gap=gap,
    )


def teachers_on_adult(small, device):
    """Job 2: binary teachers of 65 rows."""
    source, X, y, queries = adult()
    models, sample = (200, 40) if small else (1000, 100)
    rng = np.random.default_rng(0)
    # every record is in two teachers
    halves = [rng.permutation(32_500).reshape(500, 65) for _ in range(2)]
    subsets = np.concatenate(halves)[:models]
    # scikit-learn refuses a single class
    mixed = [rows for rows in subsets if 0 < y[rows].sum() < 65]
    how = {"sample": sample, "l2": 1 / 65, "device": device}
    for dtype, bar in (("float32", 10), ("float64", 8)):
        job = f"2. {len(mixed)} binary regressions 65 x {X.shape[1]}, {dtype}"
        yield binary(job, (source, X, y, queries, mixed), bar, dtype, **how)


def shadow_models(small, device):
    """Job 2d: the models of a likelihood-ratio attack, each on half of the records
    of breast cancer.
    """
    name = "breast_cancer"
    found = data.load(name)
    X = found.X_train.astype(np.float64)
    queries = found.X_test.astype(np.float64)
    models, sample = (100, 10) if small else (1000, 100)
    # half of the records are in each model, as the attack asks
    generator = np.random.default_rng(0)
    half = len(X) // 2
    subsets = [np.sort(generator.permutation(len(X))[:half]) for _ in range(models)]
    task = name, X, found.y_train, queries, subsets
    job = f"2d. {models} shadow models {half} x {X.shape[1]}, float64"
    yield binary(job, task, 3, "float64", sample=sample, l2=1e-2, device=device)


def random_models(n_models, d):
    rng = np.random.default_rng(0)
    return LogisticModels(rng.normal(size=(n_models, d)), rng.normal(size=n_models))


def votes_on_adult(small, device):
    """Job 2b: votes of 25,000 binary models on 5,000 queries."""
    source, _, _, queries = adult()
    M = 2500 if small else 25_000
    X = queries[:5000].astype(np.float64)
    models = random_models(M, X.shape[1])

    def loop():
        # as small as votes of two classes can be
        table = np.empty((M, len(X)), np.uint8)
        for k in range(M):
            np.greater(X @ models.weights[k] + models.intercept[k], 0, out=table[k])
        return table

    (fast, limit, slow), (ours, _, theirs) = timed(
        lambda: models.votes(X, device=device),
        arithmetic(torch.float64, device),
        loop,
        repeats=5,
        device=device,
    )
    # a multiplication and an addition for each weight and query
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
            gap=float((ours != theirs).mean()),
        )
