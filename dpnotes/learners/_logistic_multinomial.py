"""Multinomial logistic regression on many subsets of one data set at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, DTypeLike, NDArray
from torch.nn.functional import one_hot

from dpnotes import _validation as _checks
from dpnotes.learners._chunks import chunk_size, memory_named, slices
from dpnotes.learners._devices import choose_device
from dpnotes.learners._logistic_curvature import inverse_blocks, pays
from dpnotes.learners._logistic_lbfgs import minimise
from dpnotes.learners._logistic_models import LogisticModels, finished, joined
from dpnotes.learners._logistic_problems import (
    PreconditionedProblems,
    Problems,
    RowProblems,
    SpanProblems,
    gram_matrices,
)
from dpnotes.learners._subsets import Subsets, row_subsets

TYPICAL_ITERATIONS = 30  # at least so many are needed at tolerances that matter
SAVED = 75  # iterations that a preconditioner saves where l2 is weak
LARGE = 2**17  # entries of the rows: from here on a batch gains nothing


def fit_multinomial_logistic(
    X: NDArray[np.floating],
    y: NDArray[np.integer],
    subsets: NDArray[np.integer] | Sequence[ArrayLike],
    *,
    n_classes: int,
    l2: float,
    intercept: bool = False,
    tolerance: float = 1e-5,
    max_iterations: int = 1000,
    dtype: DTypeLike | None = None,
    device: str = "auto",
    chunk: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> LogisticModels:
    """Fit one multinomial logistic regression to each subset of the rows.

    Model k minimises F(W, b) = 1/m sum_i CE(W x_i + b, y_i) + l2/2 |W|^2 over the m rows of its subset, by L-BFGS from
    zero, until the max-norm of the gradient is within ``tolerance``. scikit-learn's C is 1/(m l2). The result depends
    neither on the other models nor, up to rounding, on ``chunk``. Where d is not small against m the same iterates are
    computed in the span of the rows, with an m x m matrix in place of the rows; a single model with many rows is
    preconditioned by the second moments of its rows.

    Parameters
    ----------
    X : ndarray of float32 or float64, shape [n, d], finite
    y : ndarray of int, shape [n]
        Class codes 0 to ``n_classes - 1``; a subset need not hold all of them.
    subsets : ndarray of int, shape [M, m], or a sequence of M arrays of row indices
        Of any lengths >= 1; repeats allowed, and counted as often as they occur.
    n_classes : int, >= 2
    l2 : float, >= 0
        Without it (0) the minimum may be attained nowhere; the result is then where the iteration stopped.
    intercept : bool
        Fit an intercept b, which is not penalised. For one that is, append a constant feature to X.
    tolerance : float, > 0
        float32 seldom reaches less than 1e-6.
    max_iterations : int, >= 0
    dtype : float32 or float64, optional
        To compute in and to give. Default: that of X.
    device : str
        A PyTorch device, or ``"auto"``: the GPU where there is one.
    chunk : int, >= 1, optional
        Models fitted at once. Default: from the cache or the GPU memory at hand.
    progress : callable, optional
        ``progress(done, M)`` after each chunk.

    Returns
    -------
    LogisticModels
        ``weights`` [M, n_classes, d] and ``intercept`` [M, n_classes]. A class that a subset lacks takes part without
        intercept; with one, its weights are 0 and its intercept -inf, to which the minimising sequences tend.

    Raises
    ------
    ValueError
        If shapes disagree, an index or label is out of range, an entry is not finite, or a setting is out of its range.
    MemoryError
        If the chunk does not fit; it names one that would.

    Warns
    -----
    sklearn.exceptions.ConvergenceWarning
        If models have not converged, with their number.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> subsets = np.random.default_rng(0).permutation(1797)[:1500].reshape(30, 50)
    >>> models = fit_multinomial_logistic(X / 16, y, subsets, n_classes=10, l2=1e-2, device="cpu")
    >>> models.weights.shape, bool(models.converged.all())
    ((30, 10, 64), True)
    """
    X, y, rows = checked(X, y, subsets, n_classes=n_classes)
    l2 = _checks.real("l2", l2)
    tolerance = _checks.real("tolerance", tolerance, open_low=True)
    max_iterations = _checks.at_least("max_iterations", max_iterations, 0)
    kind = _checks.float_dtype(dtype, X)
    where = choose_device(device)
    source = Source(X, y, kind=kind, device=where)
    weights, b, norms, iterations = joined((len(rows), n_classes, X.shape[1]), kind)
    order = rows.by_size()
    roads = np.array([_road(int(size), X.shape[1], n_classes, max_iterations) for size in rows.sizes[order]])
    done = 0
    for road in ("span", "batch", "alone"):
        models = order[roads == road]
        if not len(models):
            continue
        held, touched = _bytes(int(rows.sizes[models].max()), X.shape[1], n_classes, kind.itemsize, road=road)
        size = chunk_size(len(models), held, where, touched=touched, chunk=chunk)
        size = 1 if road == "alone" else size
        for part in slices(len(models), size):
            some = models[part]
            with memory_named(len(some), held, where):
                weights[some], b[some], norms[some], iterations[some] = _fitted(
                    source, rows, some, n_classes, l2=l2, intercept=intercept, road=road, tolerance=tolerance,
                    max_iterations=max_iterations,
                )  # fmt: skip
            done += len(some)
            if progress is not None:
                progress(done, len(rows))
    return finished(weights, b, norms, iterations, tolerance=tolerance, max_iterations=max_iterations)


class Source:
    """Rows of one data set, given out as tensors that nobody may change: gathered on a CPU, resident on a GPU.

    On a CPU all rows in their order are not copied: a large data set is often most of what a fit holds.
    """

    def __init__(
        self, X: NDArray[np.floating], y: NDArray[np.int64], *, kind: np.dtype[Any], device: torch.device
    ) -> None:
        self.device = device
        self.dtype = torch.float32 if kind == np.float32 else torch.float64
        self._X, self._y = X, y
        self._resident = None if device.type == "cpu" else torch.tensor(X, device=device, dtype=self.dtype)

    def rows(self, indices: NDArray[np.int64]) -> torch.Tensor:
        """Features [*indices.shape, d]."""
        if self._resident is not None:
            return self._resident[torch.from_numpy(indices).to(self.device)]
        n = len(self._X)
        shared = self._X.flags.c_contiguous and self._X.flags.writeable  # what PyTorch can take as it is
        if shared and indices.size == n and (indices.reshape(-1) == np.arange(n)).all():
            return torch.from_numpy(self._X).to(self.dtype).view(*indices.shape, -1)
        return torch.from_numpy(self._X.take(indices, axis=0)).to(self.dtype)

    def labels(self, indices: NDArray[np.int64]) -> torch.Tensor:
        """Labels of the shape of indices, int64."""
        return torch.from_numpy(self._y[indices]).to(self.device)


def checked(
    X: NDArray[np.floating],
    y: NDArray[np.integer],
    subsets: NDArray[np.integer] | Sequence[ArrayLike],
    *,
    n_classes: int,
) -> tuple[NDArray[np.floating], NDArray[np.int64], Subsets]:
    """The data in checked form."""
    n_classes = _checks.at_least("n_classes", n_classes, 2)
    X = _checks.features(X)
    return X, _checks.class_codes(y, n=len(X), n_classes=n_classes), row_subsets(subsets, n=len(X))


def targets_of(labels: torch.Tensor, n_classes: int, dtype: torch.dtype) -> torch.Tensor:
    """One-hot targets, classes first: labels [..., m] to [..., n_classes, m]."""
    return one_hot(labels, n_classes).mT.to(dtype).contiguous()


def _road(m: int, d: int, C: int, max_iterations: int) -> str:
    """How to fit a model of m rows; it must not depend on the other models nor on the chunk.

    "span" if the Gram matrix (m^2 d) costs less than the products that it saves (2 C m d against C m^2 an iteration);
    else "alone", preconditioned, if that is repaid and the rows are too many for a cache; else "batch".
    """
    if m * d < 2 * C * (2 * d - m) * min(max_iterations, TYPICAL_ITERATIONS):
        return "span"
    if m * d >= LARGE and pays(m, d, columns=C, blocks=1, saved=min(max_iterations, SAVED)):
        return "alone"
    return "batch"


def _bytes(m: int, d: int, C: int, itemsize: int, *, road: str) -> tuple[int, int]:
    """Bytes that one model holds, and those that a CPU should keep in cache."""
    pairs = 2 * Problems.history
    if road == "span":
        return itemsize * (m * d + 2 * m * m + (2 * pairs + 10) * C * m), itemsize * (m * m + (pairs + 4) * C * m)
    return itemsize * (m * d + (pairs + 4) * C * d + 6 * C * m), itemsize * (m * d // 2 + 4 * C * m)


@torch.no_grad()
def _fitted(
    source: Source,
    subsets: Subsets,
    models: NDArray[np.int64],
    C: int,
    *,
    l2: float,
    intercept: bool,
    road: str,
    tolerance: float,
    max_iterations: int,
) -> tuple[NDArray[Any], ...]:
    """Weights, intercepts, gradient norms and iterations of some models; their memory is free again afterwards."""
    problems, sizes = _problems(source, subsets, models, C, l2=l2, intercept=intercept, road=road)
    v, norm, count = minimise(problems, tolerance * sizes, max_iterations=max_iterations)
    W = problems.weights(v) if isinstance(problems, SpanProblems) else v
    b = torch.zeros_like(W[:, :, 0])
    if intercept:
        W, b = W[:, :, :-1], W[:, :, -1] if problems.offset is None else W[:, :, -1] + problems.offset[:, :, 0]
    return tuple(part.cpu().numpy() for part in (W, b, norm / sizes, count))


def _problems(
    source: Source,
    subsets: Subsets,
    models: NDArray[np.int64],
    C: int,
    *,
    l2: float,
    intercept: bool,
    road: str,
) -> tuple[Problems, torch.Tensor]:
    """Problems of some models, and their sizes [k] in the dtype of the fit."""
    indices, inside = subsets.padded(models)
    rows = source.rows(indices[0] if road == "alone" else indices)
    dtype, device = rows.dtype, rows.device
    labels = source.labels(indices)
    sizes = torch.from_numpy(subsets.sizes[models]).to(device, dtype)
    penalty = l2 * sizes[:, None, None]
    counts = None if inside.all() else torch.from_numpy(inside).to(device, dtype)[:, None]
    targets = targets_of(labels, C, dtype)
    offset = None
    if intercept:
        present = torch.zeros((len(models), C), dtype=torch.bool, device=device).scatter_(1, labels, True)
        if not bool(present.all()):
            offset = torch.zeros_like(present, dtype=dtype).masked_fill_(~present, -torch.inf)[:, :, None]
    if road == "span":
        gram = gram_matrices(rows)
        return SpanProblems(rows, gram, targets, penalty, intercept=intercept, counts=counts, offset=offset), sizes
    if intercept:
        rows = torch.cat([rows, rows.new_ones((*rows.shape[:-1], 1))], -1)
        penalty = penalty.repeat(1, 1, rows.shape[-1])
        penalty[:, :, -1] = 0
    if road == "alone":
        inverse = inverse_blocks(rows, penalty[0, 0], W=rows.new_zeros((C, rows.shape[1])))
        return PreconditionedProblems(rows, targets, penalty, inverse=inverse, offset=offset), sizes
    return RowProblems(rows, targets, penalty, counts=counts, offset=offset), sizes
