"""Multinomial logistic regression on many subsets of one data set at once."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import DTypeLike, NDArray
from torch import Tensor

from dpnotes._validation import Features, Integers, real
from dpnotes.learners._chunks import Group, RowSubsets
from dpnotes.learners._logistic_lbfgs import minimise
from dpnotes.learners._logistic_models import Fits, LogisticModels, targets_of
from dpnotes.learners._logistic_problems import (
    HISTORY,
    PreconditionedProblems,
    RowProblems,
    SpanProblems,
    gram_matrices,
    inverse_blocks,
    pays,
)

TYPICAL_ITERATIONS = 30  # at least so many are needed at tolerances that matter
SAVED = 75  # iterations that a preconditioner saves where l2 is weak
LARGE = 2**17  # entries of the rows: from here on a batch gains nothing


def fit_multinomial_logistic(
    X: Features,
    y: NDArray[np.integer],
    subsets: RowSubsets,
    *,
    n_classes: int,
    l2: float,
    intercept: bool = False,
    tolerance: float = 1e-5,
    max_iterations: int = 1000,
    dtype: DTypeLike | None = None,
    device: str = "auto",
    chunk: int | None = None,
) -> LogisticModels:
    """Fit one multinomial logistic regression to each subset of the rows.

    Model k minimises F(W, b) = 1/m sum_i CE(W x_i + b, y_i) + l2/2 |W|^2 over the m
    rows of its subset, where CE is the cross-entropy. L-BFGS starts at zero and stops
    when the max-norm of the gradient is within ``tolerance``. scikit-learn's C is 1/(m
    l2). The result depends neither on the other models nor, up to rounding, on
    ``chunk``. If d is not small compared with m, the same iterates are computed in the
    span of the rows, with an m x m matrix instead of the rows. A single model with many
    rows is preconditioned by the second moments of its rows.

    Parameters
    ----------
    X : ndarray of float32 or float64, shape [n, d], finite
    y : ndarray of int, shape [n]
        Class codes 0 to ``n_classes - 1``; a subset need not contain all of them.
    subsets : ndarray of int, shape [M, m], or a sequence of M arrays of row indices
        Row indices of each model, of any lengths >= 1. Repeats are allowed and count as
        often as they occur.
    n_classes : int, >= 2
    l2 : float, >= 0
        Weight of the L2 term. With 0 the minimum may not be attained; the result is
        then the last iterate.
    intercept : bool
        Whether to fit an intercept b, which is not penalised. For a penalised
        intercept, append a constant feature to X.
    tolerance : float, > 0
        Bound on the max-norm of the gradient; float32 seldom reaches less than 1e-6.
    max_iterations : int, >= 0
    dtype : float32 or float64, optional
        Precision of the computation and the result; by default the dtype of X.
    device : str
        A PyTorch device, or ``"auto"``: the GPU if there is one.
    chunk : int, >= 1, optional
        Number of models fitted at once; by default chosen from the cache or the
        available GPU memory.

    Returns
    -------
    LogisticModels
        Models with ``weights`` [M, n_classes, d] and ``intercept`` [M, n_classes].
        Without an intercept, a class that a subset lacks is fitted like the others.
        With an intercept, the weights of that class are 0 and its intercept is -inf,
        the limit of the minimising sequences.

    Raises
    ------
    ValueError
        If shapes disagree, an index or label is out of range, an entry is not finite,
        or a setting is out of its range.
    MemoryError
        If the chunk does not fit into memory; the message names a chunk that would fit.

    Warns
    -----
    sklearn.exceptions.ConvergenceWarning
        If some models have not converged; the warning gives their number.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> subsets = np.random.default_rng(0).permutation(1797)[:1500].reshape(30, 50)
    >>> models = fit_multinomial_logistic(
    ...     X / 16, y, subsets, n_classes=10, l2=1e-2, device="cpu"
    ... )
    >>> models.weights.shape, bool(models.converged.all())
    ((30, 10, 64), True)
    """
    fits = Fits(
        X, y, subsets, n_classes, tolerance, max_iterations, dtype, device, chunk
    )
    return fits.run(
        softmax_groups(fits, real("l2", l2), intercept=intercept),
        (len(fits.subsets), n_classes, fits.X.shape[1]),
    )


def softmax_groups(fits: Fits, l2: float, *, intercept: bool) -> list[Group]:
    """Group the models that are fitted in the same way, which :func:`_mode` decides."""
    sizes, d, C, order = (
        fits.subsets.sizes,
        fits.X.shape[1],
        fits.n_classes,
        fits.subsets.by_size(),
    )
    modes = np.array(
        [_mode(int(size), d, C, fits.max_iterations) for size in sizes[order]]
    )
    groups = []
    for mode in ("span", "batch", "alone"):
        models = order[modes == mode]
        if len(models):
            held, touched = _bytes(
                int(sizes[models].max()), d, C, fits.dtype.itemsize, mode=mode
            )
            fit = partial(_fitted, fits, l2=l2, intercept=intercept, mode=mode)
            groups.append(
                Group(models, fit, held, touched, 1 if mode == "alone" else fits.chunk)
            )
    return groups


def _mode(m: int, d: int, C: int, max_iterations: int) -> str:
    """How a model of m rows is fitted; it must not depend on the other models nor on
    the chunk.

    "span" if the Gram matrix (m^2 d) costs less than the products that it saves (2 C m
    d against C m^2 an iteration); else "alone", preconditioned, if that is repaid and
    the rows are too many for a cache; else "batch".
    """
    if m * d < 2 * C * (2 * d - m) * min(max_iterations, TYPICAL_ITERATIONS):
        return "span"
    if m * d >= LARGE and pays(
        m, d, columns=C, blocks=1, saved=min(max_iterations, SAVED)
    ):
        return "alone"
    return "batch"


def _bytes(m: int, d: int, C: int, itemsize: int, *, mode: str) -> tuple[int, int]:
    """Bytes that one model holds, and those that a CPU should keep in cache."""
    pairs = 2 * HISTORY
    if mode == "span":
        return itemsize * (m * d + 2 * m * m + (2 * pairs + 10) * C * m), itemsize * (
            m * m + (pairs + 4) * C * m
        )
    return itemsize * (m * d + (pairs + 4) * C * d + 6 * C * m), itemsize * (
        m * d // 2 + 4 * C * m
    )


def _fitted(
    fits: Fits, models: Integers, *, l2: float, intercept: bool, mode: str
) -> tuple[Tensor, ...]:
    """Weights, intercepts, gradient norms and iterations of some models."""
    problems, sizes = _problems(fits, models, l2=l2, intercept=intercept, mode=mode)
    v, norm, count = minimise(
        problems, fits.tolerance * sizes, max_iterations=fits.max_iterations
    )
    W = problems.weights(v) if isinstance(problems, SpanProblems) else v
    b = torch.zeros_like(W[:, :, 0])
    if intercept:
        W, b = (
            W[:, :, :-1],
            (
                W[:, :, -1]
                if problems.offset is None
                else W[:, :, -1] + problems.offset[:, :, 0]
            ),
        )
    return W, b, norm / sizes, count


def _problems(
    fits: Fits, models: Integers, *, l2: float, intercept: bool, mode: str
) -> tuple[RowProblems, Tensor]:
    """Problems of some models, and their sizes [k] in the dtype of the fit."""
    C, (indices, inside) = fits.n_classes, fits.subsets.padded(models)
    rows, labels = (
        fits.rows(indices[0] if mode == "alone" else indices),
        fits.labels(indices),
    )
    dtype, device = rows.dtype, rows.device
    sizes = torch.from_numpy(fits.subsets.sizes[models]).to(device, dtype)
    penalty = l2 * sizes[:, None, None]
    counts = (
        None if inside.all() else torch.from_numpy(inside).to(device, dtype)[:, None]
    )
    targets = targets_of(labels, C, dtype)
    offset = None
    if intercept:
        present = torch.zeros(
            (len(models), C), dtype=torch.bool, device=device
        ).scatter_(1, labels, True)
        if not bool(present.all()):
            offset = torch.zeros_like(present, dtype=dtype).masked_fill_(
                ~present, -torch.inf
            )[:, :, None]
    shared: dict[str, Any] = {
        "targets": targets,
        "penalty": penalty,
        "counts": counts,
        "offset": offset,
    }
    if mode == "span":
        return (
            SpanProblems(
                rows=rows, gram=gram_matrices(rows), intercept=intercept, **shared
            ),
            sizes,
        )
    if intercept:
        rows = torch.cat([rows, rows.new_ones((*rows.shape[:-1], 1))], -1)
        penalty = penalty.repeat(1, 1, rows.shape[-1])
        penalty[:, :, -1] = 0
        shared["penalty"] = penalty
    if mode == "alone":
        inverse = inverse_blocks(
            rows, penalty[0, 0], W=rows.new_zeros((C, rows.shape[1]))
        )
        return PreconditionedProblems(rows=rows, inverse=inverse, **shared), sizes
    return RowProblems(rows=rows, **shared), sizes
