"""Binary logistic regression on many subsets of one data set at once, by Newton's method."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, DTypeLike, NDArray

from dpnotes import _validation as _checks
from dpnotes.learners._chunks import chunk_size, memory_named, slices
from dpnotes.learners._devices import choose_device
from dpnotes.learners._logistic_models import LogisticModels, finished, joined
from dpnotes.learners._logistic_multinomial import Source, checked
from dpnotes.learners._logistic_newton import DualNewton, PrimalNewton, minimise
from dpnotes.learners._subsets import Subsets


def fit_binary_logistic(
    X: NDArray[np.floating],
    y: NDArray[np.integer],
    subsets: NDArray[np.integer] | Sequence[ArrayLike],
    *,
    l2: float,
    intercept: bool = True,
    tolerance: float = 1e-6,
    max_iterations: int = 100,
    dtype: DTypeLike | None = np.float64,
    device: str = "auto",
    chunk: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> LogisticModels:
    """Fit one binary logistic regression to each subset of the rows.

    Model k minimises F(w, b) = 1/m sum_i log(1 + exp(-s_i (w'x_i + b))) + l2/2 |w|^2, s_i = 2 y_i - 1, over the m rows
    of its subset, by damped Newton steps, until the max-norm of the gradient is within ``tolerance``. scikit-learn's C
    is 1/(m l2). The system of a step is m x m (dual) for m <= d, else of the size of the weights. The result depends
    neither on the other models nor, up to rounding, on ``chunk``.

    Parameters
    ----------
    X : ndarray of float32 or float64, shape [n, d], finite
    y : ndarray of int, shape [n], 0 or 1
    subsets : ndarray of int, shape [M, m], or a sequence of M arrays of row indices
        Of any lengths >= 1; repeats allowed, and counted as often as they occur.
    l2 : float, > 0
    intercept : bool
        Fit an intercept b, which is not penalised. For one that is, append a constant feature to X.
    tolerance : float, > 0
    max_iterations : int, >= 0
        5 are usual at l2 = 1/m, 13 at l2 = 1e-4/m.
    dtype : float32 or float64, optional
        To compute in and to give; None: that of X. float32 changes votes at weak regularisation (l2 m <= 1e-2).
    device : str
        A PyTorch device, or ``"auto"``: the GPU where there is one.
    chunk : int, >= 1, optional
        Models fitted at once. Default: from the cache or the GPU memory at hand.
    progress : callable, optional
        ``progress(done, M)`` after each chunk.

    Returns
    -------
    LogisticModels
        ``weights`` [M, d] and ``intercept`` [M]. With an unpenalised intercept a subset of one class has no finite
        minimiser: its weights are 0 and its intercept is -inf (class 0) or +inf (class 1), a constant vote.

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

    Source
    ------
    Rasmussen and Williams (2006), Algorithm 3.1 (the well-conditioned dual system, without intercept).

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = (X - X.mean(0)) / X.std(0)
    >>> subsets = np.random.default_rng(0).permutation(569)[:560].reshape(28, 20)
    >>> models = fit_binary_logistic(X, y, subsets, l2=1 / 20, device="cpu")
    >>> models.weights.shape, bool(models.converged.all())
    ((28, 30), True)
    """
    X, y, rows = checked(X, y, subsets, n_classes=2)
    l2 = _checks.real("l2", l2, open_low=True)
    tolerance = _checks.real("tolerance", tolerance, open_low=True)
    max_iterations = _checks.at_least("max_iterations", max_iterations, 0)
    kind = _checks.float_dtype(dtype, X)
    where = choose_device(device)
    source = Source(X, y, kind=kind, device=where)
    d = X.shape[1]
    weights, b, norms, iterations = joined((len(rows), d), kind)
    share = np.add.reduceat(y[rows.indices], np.cumsum(rows.sizes) - rows.sizes) / rows.sizes  # of class 1
    constant = np.isin(share, (0, 1)) if intercept else np.zeros(len(rows), bool)
    weights[constant], b[constant] = 0, np.where(share[constant] == 1, np.inf, -np.inf)
    order = rows.by_size()
    order = order[~constant[order]]
    done = int(constant.sum())
    for engine, models in ((DualNewton, order[rows.sizes[order] <= d]), (PrimalNewton, order[rows.sizes[order] > d])):
        if not len(models):
            continue
        held, touched = engine.memory(int(rows.sizes[models].max()), d, kind.itemsize)
        size = chunk_size(len(models), held, where, touched=touched, chunk=chunk)
        for part in slices(len(models), size):
            some = models[part]
            with memory_named(len(some), held, where):
                weights[some], b[some], norms[some], iterations[some] = _fitted(
                    engine, source, rows, some, l2=l2, intercept=intercept, tolerance=tolerance,
                    max_iterations=max_iterations,
                )  # fmt: skip
            done += len(some)
            if progress is not None:
                progress(done, len(rows))
    if progress is not None and done == int(constant.sum()):
        progress(done, len(rows))
    return finished(weights, b, norms, iterations, tolerance=tolerance, max_iterations=max_iterations)


@torch.no_grad()
def _fitted(
    engine: type[DualNewton] | type[PrimalNewton],
    source: Source,
    rows: Subsets,
    models: NDArray[np.int64],
    *,
    l2: float,
    intercept: bool,
    tolerance: float,
    max_iterations: int,
) -> tuple[NDArray[Any], ...]:
    """Weights, intercepts, gradient norms and iterations of some models; their memory is free again afterwards."""
    indices, inside = rows.padded(models)
    A, labels = source.rows(indices), source.labels(indices)
    sizes = torch.from_numpy(rows.sizes[models]).to(A)
    counts = None if inside.all() else torch.from_numpy(inside).to(A)
    problems = engine(A, labels.to(A.dtype), penalty=l2 * sizes, counts=counts, intercept=intercept)
    w, b, norm, count = minimise(problems, tolerance * sizes, max_iterations=max_iterations)
    return tuple(part.cpu().numpy() for part in (w, b if intercept else torch.zeros_like(b), norm / sizes, count))
