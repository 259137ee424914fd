"""Speed of many logistic regressions at once against fitting them one at a time.

Thread time on one thread, both sides in one process and by turns (A B A B), medians; the first call of each is left
out. On MNIST and Adult where the data folder has them, else on synthetic data of the same shape, which the rows then
say.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression

from dpnotes import data
from dpnotes.learners import LogisticModels, fit_binary_logistic, fit_multinomial_logistic, fit_perturbed_logistic

from ._common import Arrays, Row, loaded, timed


def mnist() -> tuple[str, *Arrays]:
    return loaded("mnist", n=60_000, d=784, n_classes=10)


def adult() -> tuple[str, *Arrays]:
    return loaded("adult", n=32_561, d=108, n_classes=2)


def plain(X: np.ndarray, y: np.ndarray, *, l2: float, **settings: object) -> LogisticRegression:
    return LogisticRegression(C=1 / (len(X) * l2), **settings).fit(X, y)


def agreement(
    about: str, weights: np.ndarray, others: np.ndarray, ours_votes: np.ndarray, votes: np.ndarray
) -> dict[str, Any]:
    """What a row says of the agreement of both sides, the gap being the fraction of votes that differ."""
    gap = float((ours_votes != votes).mean())
    largest = f"largest |dW| {abs(weights - others).max():.1e} of |W| {abs(others).max():.2f}"
    return {"check": f"{about}; {largest}; {gap:.1e} of the votes differ", "gap": gap}


def subsets_of_mnist(small: bool) -> Iterator[Row]:
    """Job 1: 256 multinomial regressions of 234 x 784; scikit-learn's are timed on 16 of them."""
    name, X, y, queries = mnist()
    models, sample = (32, 4) if small else (256, 16)
    subsets = np.random.default_rng(0).permutation(len(X))[: models * 234].reshape(models, 234)
    wide = X.astype(np.float64)
    for kind, bar in ((np.float32, 6), (np.float64, 4)):
        found: dict[str, LogisticModels] = {}
        loop: list[LogisticRegression] = []

        def ours(kind: type = kind, found: dict[str, LogisticModels] = found) -> None:
            found["ours"] = fit_multinomial_logistic(
                X, y, subsets, n_classes=10, l2=1e-2, dtype=kind, tolerance=1e-5, device="cpu"
            )

        def theirs(loop: list[LogisticRegression] = loop) -> None:
            loop[:] = [
                plain(wide[rows], y[rows], l2=1e-2, tol=1e-5, fit_intercept=False, max_iter=1000)
                for rows in subsets[:sample]
            ]

        fast, slow = timed(ours, theirs, repeats=2 if small else 5)
        fitted = found["ours"]
        yield Row(
            f"1. {models} regressions 234 x 784 x 10, {np.dtype(kind)}",
            name,
            fast,
            slow * models / sample,
            f"scikit-learn lbfgs, {sample} of them scaled",
            bar,
            **agreement(
                f"l2=0.01, tolerance 1e-5, {fitted.iterations.mean():.0f} iterations",
                fitted.weights[:sample],
                np.stack([model.coef_ for model in loop]),
                fitted.votes(queries)[:sample],
                np.stack([model.predict(queries) for model in loop]),
            ),
        )


def one_on_mnist(small: bool) -> Iterator[Row]:
    """Job 1b: one multinomial regression on all rows."""
    name, X, y, queries = mnist()
    X, y = (X[:12_000], y[:12_000]) if small else (X, y)
    rows = np.arange(len(X))[None]
    for ours_kind, their_kind, bar in (
        (np.float32, np.float64, 3),
        (np.float32, np.float32, 1.5),
        (np.float64, np.float64, 1.3),
    ):
        A, B = X.astype(ours_kind), X.astype(their_kind)
        found: dict[str, LogisticModels] = {}
        loop: list[LogisticRegression] = []

        def ours(A: np.ndarray = A, found: dict[str, LogisticModels] = found) -> None:
            found["ours"] = fit_multinomial_logistic(A, y, rows, n_classes=10, l2=1e-3, tolerance=1e-5, device="cpu")

        def theirs(B: np.ndarray = B, loop: list[LogisticRegression] = loop) -> None:
            loop[:] = [plain(B, y, l2=1e-3, tol=1e-5, fit_intercept=False, max_iter=1000)]

        fast, slow = timed(ours, theirs, repeats=1)
        fitted = found["ours"]
        yield Row(
            f"1b. one regression {len(X)} x 784 x 10, {np.dtype(ours_kind)}",
            name,
            fast,
            slow,
            f"scikit-learn lbfgs, {np.dtype(their_kind)}",
            bar,
            **agreement(
                f"l2=0.001, tolerance 1e-5, {fitted.iterations[0]} iterations against {loop[0].n_iter_[0]}",
                fitted.weights[0],
                loop[0].coef_,
                fitted.votes(queries)[0],
                loop[0].predict(queries),
            ),
        )


def repeats_on_mnist(small: bool) -> Iterator[Row]:
    """Job 1c: loss perturbation, many noise vectors on one data set, against one at a time from zero."""
    name, X, y, queries = mnist()
    n, repeats = (10_000, 13) if small else (len(X), 100)
    X, y = X[:n] / np.linalg.norm(X[:n], axis=1, keepdims=True), y[:n]
    rng = np.random.default_rng(0)
    noise = (14.0 * rng.normal(size=(repeats, 10, 784))).astype(np.float32)  # about epsilon = 1, delta = 1e-5
    settings = {"n_classes": 10, "l2": 1e-3, "tolerance": 1e-5, "device": "cpu"}
    start = np.zeros((10, 784), np.float32)
    found: dict[str, LogisticModels] = {}

    def ours() -> None:
        found["ours"] = fit_perturbed_logistic(X, y, linear=noise, **settings)

    def one() -> None:
        found["one"] = fit_perturbed_logistic(X, y, linear=noise[:1], start=start, chunk=1, **settings)

    def bare() -> None:
        found["bare"] = fit_perturbed_logistic(X, y, linear=noise, start=found["ours"].weights[0], **settings)

    ours()
    fast, slow, products = timed(ours, one, bare, repeats=1)
    compared = agreement(
        "in the unit ball, l2=0.001, sigma 14",
        found["ours"].weights[0],
        found["one"].weights[0],
        found["ours"].votes(queries)[0],
        found["one"].votes(queries)[0],
    )
    single = slow / max(1, found["one"].iterations[0])
    batched = products / found["bare"].iterations.sum()
    yield Row(
        f"1c. {repeats} repeats on {n} x 784 x 10, per iteration",
        name,
        batched,
        single,
        "one at a time, classes first",
        2,
        **compared | {"check": compared["check"] + "; ours with its part of the preconditioner"},
    )
    yield Row(
        f"1c. {repeats} repeats on {n} x 784 x 10, in all",
        name,
        fast,
        slow * repeats,
        "one at a time from zero, one of them scaled",
        4,
        **compared
        | {
            "check": f"{compared['check']}; {found['ours'].iterations.mean():.0f} iterations from the unperturbed "
            f"optimum, fitted within the time, against {found['one'].iterations[0]} from zero"
        },
    )


def teachers_on_adult(small: bool) -> Iterator[Row]:
    """Job 2: binary teachers of 65 rows."""
    name, X, y, queries = adult()
    models, sample = (200, 40) if small else (1000, 100)
    rng = np.random.default_rng(0)
    subsets = np.concatenate([rng.permutation(32_500)[:32_500].reshape(500, 65) for _ in range(2)])[:models]
    mixed = [rows for rows in subsets if 0 < y[rows].sum() < 65]  # scikit-learn refuses a single class
    wide = X.astype(np.float64)
    for kind, bar in ((np.float32, 10), (np.float64, 8)):
        found: dict[str, LogisticModels] = {}
        loop: list[LogisticRegression] = []

        def ours(kind: type = kind, found: dict[str, LogisticModels] = found) -> None:
            found["ours"] = fit_binary_logistic(X, y, mixed, l2=1 / 65, dtype=kind, tolerance=1e-4, device="cpu")

        def theirs(loop: list[LogisticRegression] = loop) -> None:
            loop[:] = [plain(wide[rows], y[rows], l2=1 / 65, max_iter=1000) for rows in mixed[:sample]]

        fast, slow = timed(ours, theirs, repeats=2 if small else 5)
        fitted = found["ours"]
        yield Row(
            f"2. {len(mixed)} binary regressions 65 x {X.shape[1]}, {np.dtype(kind)}",
            name,
            fast,
            slow * len(mixed) / sample,
            f"scikit-learn lbfgs, {sample} of them scaled",
            bar,
            **agreement(
                f"C=1, tolerance 1e-4 (scikit-learn's default), {fitted.iterations.mean():.1f} iterations",
                fitted.weights[:sample],
                np.stack([model.coef_[0] for model in loop]),
                fitted.votes(queries)[:sample],
                np.stack([model.predict(queries) for model in loop]),
            ),
        )


def shadow_models(small: bool) -> Iterator[Row]:
    """Job 2d: the models of a likelihood-ratio attack, each on half of the records of breast cancer."""
    found = data.load("breast_cancer")
    X, y, queries = found.X_train.astype(np.float64), found.y_train, found.X_test.astype(np.float64)
    models, sample, l2 = (100, 10, 1e-2) if small else (1000, 100, 1e-2)
    generator, half = np.random.default_rng(0), len(X) // 2
    subsets = [np.sort(generator.permutation(len(X))[:half]) for _ in range(models)]
    fits: dict[str, LogisticModels] = {}
    loops: dict[str, np.ndarray] = {}

    def ours() -> None:
        fits["ours"] = fit_binary_logistic(X, y, subsets, l2=l2, dtype=np.float64, tolerance=1e-4, device="cpu")

    def by_scikit_learn() -> None:
        loop = [plain(X[rows], y[rows], l2=l2, max_iter=1000) for rows in subsets[:sample]]
        loops["scikit-learn lbfgs"] = np.stack([np.append(model.coef_[0], model.intercept_) for model in loop])

    def by_torch() -> None:
        loops["torch LBFGS"] = np.stack([_by_torch(X[rows], y[rows], l2) for rows in subsets[:sample]])

    fast, *slow = timed(ours, by_scikit_learn, by_torch, repeats=2 if small else 5)
    votes = fits["ours"].votes(queries)[:sample]
    for (name, weights), seconds, bar in zip(loops.items(), slow, (3, 6), strict=True):
        theirs = (queries @ weights[:, :-1].T + weights[:, -1] > 0).T
        accuracies = f"accuracy {(votes == found.y_test).mean():.4f} against {(theirs == found.y_test).mean():.4f}"
        yield Row(
            f"2d. {models} shadow models {half} x {X.shape[1]}, float64",
            "breast_cancer",
            fast,
            seconds * models / sample,
            f"{name}, {sample} of them scaled",
            bar,
            **agreement(
                f"l2=0.01, tolerance 1e-4, {accuracies}, {models / fast:,.0f} models a second",
                fits["ours"].weights[:sample],
                weights[:, :-1],
                votes,
                theirs,
            ),
        )


def _by_torch(X: np.ndarray, y: np.ndarray, l2: float) -> np.ndarray:
    """Weights and intercept of one logistic regression, as one writes it in torch."""
    rows, labels = torch.tensor(X), torch.tensor(y, dtype=torch.float64)
    w = torch.zeros(X.shape[1] + 1, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([w], max_iter=200, tolerance_grad=1e-4, line_search_fn="strong_wolfe")

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = torch.nn.functional.binary_cross_entropy_with_logits(rows @ w[:-1] + w[-1], labels)
        loss = loss + l2 / 2 * (w[:-1] @ w[:-1])
        loss.backward()
        return loss

    optimizer.step(closure)
    return w.detach().numpy()


def votes_on_adult(small: bool) -> Iterator[Row]:
    """Job 2b: votes of 25,000 binary models on 5,000 queries."""
    name, _, _, queries = adult()
    M, d = 2500 if small else 25_000, queries.shape[1]
    rng = np.random.default_rng(0)
    models = LogisticModels(
        rng.normal(size=(M, d)), rng.normal(size=M), np.zeros(M), np.zeros(M, np.int64), np.ones(M, bool)
    )
    X = queries[:5000].astype(np.float64)
    found: dict[str, np.ndarray] = {}

    def ours() -> None:
        found["ours"] = models.votes(X, device="cpu", dtype=np.uint8)

    def theirs() -> None:
        table = np.empty((M, len(X)), np.uint8)
        for k in range(M):
            np.greater(X @ models.weights[k] + models.intercept[k], 0, out=table[k])
        found["loop"] = table

    fast, slow = timed(ours, theirs, repeats=2 if small else 5)
    yield Row(
        f"2b. votes of {M} models on {len(X)} queries x {d}, float64",
        name,
        fast,
        slow,
        "loop over models, NumPy",
        2,
        f"{(found['ours'] != found['loop']).sum()} of {found['loop'].size} votes differ",
        gap=float((found["ours"] != found["loop"]).mean()),
    )
