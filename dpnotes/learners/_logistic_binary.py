"""Binary logistic regression on many subsets of one data set at once, by Newton's method."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import torch
from numpy.typing import ArrayLike, DTypeLike, NDArray

from dpnotes._validation import Features, Integers, positive
from dpnotes.learners._chunks import Group
from dpnotes.learners._logistic_fits import Fits, Solver
from dpnotes.learners._logistic_models import LogisticModels
from dpnotes.learners._logistic_newton import DualNewton, PrimalNewton, minimise


def fit_binary_logistic(
    X: Features,
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
    device, chunk
        See :func:`fit_multinomial_logistic`.

    Returns
    -------
    LogisticModels
        ``weights`` [M, d] and ``intercept`` [M]. With an unpenalised intercept a subset of one class has no finite
        minimiser: its weights are 0 and its intercept is -inf (class 0) or +inf (class 1), a constant vote.

    Raises
    ------
    ValueError, MemoryError
        As :func:`fit_multinomial_logistic`, which says when it warns, too.

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
    solver = Solver(tolerance, max_iterations, dtype, device, chunk)
    fits = Fits(X, y, subsets, 2, solver)
    l2, rows, d = positive("l2", l2), fits.subsets, fits.X.shape[1]
    sizes, order = rows.sizes, rows.by_size()
    second = np.add.reduceat(fits.y[rows.indices], np.cumsum(sizes) - sizes)  # records of class 1
    groups = []
    constant = (second == 0) | (second == sizes)
    if intercept and constant.any():
        groups.append(Group(np.flatnonzero(constant), partial(_constant, second=second == sizes, fits=fits), 1))
        order = order[~constant[order]]
    for engine, models in ((DualNewton, order[sizes[order] <= d]), (PrimalNewton, order[sizes[order] > d])):
        if len(models):
            held, touched = engine.memory(int(sizes[models].max()), d, fits.dtype.itemsize)
            fit = partial(_fitted, fits, engine=engine, l2=l2, intercept=intercept)
            groups.append(Group(models, fit, held, touched, fits.chunk))
    return fits.run(groups, (len(sizes), d))


def _constant(some: Integers, second: NDArray[np.bool_], fits: Fits) -> tuple[torch.Tensor, ...]:
    """Models whose subset holds one class alone, the second or the first: the limit of the intercept, no iterations."""
    zeros = torch.zeros(len(some), dtype=fits.source.dtype)
    intercept = torch.where(torch.from_numpy(second[some]), torch.inf, -torch.inf)
    return zeros[:, None].expand(-1, fits.X.shape[1]), intercept, zeros, zeros


def _fitted(
    fits: Fits, models: Integers, *, engine: type[DualNewton] | type[PrimalNewton], l2: float, intercept: bool
) -> tuple[torch.Tensor, ...]:
    """Weights, intercepts, gradient norms and iterations of some models."""
    indices, inside = fits.subsets.padded(models)
    A, labels = fits.source.rows(indices), fits.source.labels(indices)
    sizes = torch.from_numpy(fits.subsets.sizes[models]).to(A)
    counts = None if inside.all() else torch.from_numpy(inside).to(A)
    problems = engine(A, labels.to(A.dtype), penalty=l2 * sizes, counts=counts, intercept=intercept)
    w, b, norm, count = minimise(problems, fits.tolerance * sizes, max_iterations=fits.max_iterations)
    return w, b if intercept else torch.zeros_like(b), norm / sizes, count
