"""Logistic regressions on many subsets of one data set at once: softmax regressions by
L-BFGS, their repeats under linear perturbations of the objective, and what all fits
share.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, DTypeLike, NDArray
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor
from torch.nn.functional import one_hot

from dpnotes._validation import (
    Features,
    Floats,
    Integers,
    array,
    at_least,
    class_codes,
    features,
    float_dtype,
    positive,
)
from dpnotes.learners._devices import (
    CPU_BUDGET,
    Group,
    RowSubsets,
    choose_device,
    fit_groups,
    row_subsets,
    slices,
    temporary_bytes,
)
from dpnotes.learners._lbfgs import (
    HISTORY,
    RowProblems,
    SpanProblems,
    gram_matrices,
    inverse_blocks,
    minimise,
    pays,
)
from dpnotes.learners._models import ManyModels

QUERY_ROWS = 1024  # queries of one product
TYPICAL_ITERATIONS = 30  # at least so many are needed at tolerances that matter
# iterations that a preconditioner saves where l2 is weak, and after a warm start
SAVED = 75
SAVED_AFTER_START = 20
LARGE = 2**17  # entries of the rows: from here on a batch gains nothing
# models times classes of one product on a CPU: from here on it is bound by arithmetic
COLUMNS = 128


@dataclass(frozen=True, eq=False)
class LogisticModels(ManyModels):
    """M logistic regressions on the same features.

    Parameters
    ----------
    weights : ndarray of float, shape [M, C, d], or [M, d] for binary regressions
    intercept : ndarray of float, shape [M, C], or [M] for binary regressions
        Intercepts, zero if none were fitted. An unpenalised intercept is -inf, the
        limit of the minimising sequence, for a class that a model never saw. A binary
        model that saw only one class has the intercept -inf or +inf and votes only for
        that class.
    gradient_norm : ndarray of float, shape [M], or None
        Of models that are fitted to a minimum, as the next two: max-norm of the
        gradient of the mean objective at the result.
    iterations : ndarray of int64, shape [M], or None
    converged : ndarray of bool, shape [M], or None
        Whether ``gradient_norm`` is within the requested tolerance.
    device : str
        Where the models answer, unless they are told otherwise.
    """

    weights: Features
    intercept: Features
    gradient_norm: Features | None = None
    iterations: Integers | None = None
    converged: NDArray[np.bool_] | None = None
    device: str = "auto"

    def __len__(self) -> int:
        return len(self.weights)

    def _blocks(
        self, X: Features, device: str
    ) -> Iterator[tuple[slice, slice, Tensor]]:
        M = len(self)
        d = self.weights.shape[-1]
        X = features(X, d=d)
        where = choose_device(device)
        # of two classes one row, which decides by its sign
        weights = self.weights.reshape(M, -1, d)
        intercept = self.intercept.reshape(M, -1)
        C = weights.shape[1]
        kind = getattr(torch, self.weights.dtype.name)
        # logits, and what votes make of them, each of this size
        budget = temporary_bytes(where, on_cpu=CPU_BUDGET) // 4
        for queries in slices(len(X), QUERY_ROWS):
            block = torch.tensor(X[queries], device=where, dtype=kind)
            size = max(1, budget // (C * len(block) * self.weights.itemsize))
            for models in slices(M, size):
                # classes of several models are rows of one product
                W = torch.tensor(weights[models], device=where).flatten(0, 1)
                b = torch.tensor(intercept[models], device=where).flatten()[:, None]
                logits = torch.addmm(b, W, block.mT)
                yield models, queries, logits.view(-1, C, len(block))


class Fits:
    """One call that fits many logistic regressions to subsets of the rows of one data
    set.

    On a CPU, a subset that consists of all rows in their order is not copied, because a
    large data set often takes most of the memory of a fit.

    Parameters
    ----------
    X, y, subsets, n_classes, l2, tolerance, max_iterations, dtype, device, chunk
        Arguments of the caller; see :func:`dpnotes.learners.fit_multinomial_logistic`.

    Attributes
    ----------
    X, y, n_classes, tolerance, max_iterations, chunk
        Checked arguments.
    l2 : ndarray of float64, shape [M]
    dtype : numpy.dtype
    kind : torch.dtype
    device : torch.device
    asked : str
        The caller's name of the device.
    subsets : Subsets
    """

    def __init__(
        self,
        X: Features,
        y: NDArray[np.integer],
        subsets: RowSubsets,
        n_classes: int,
        l2: ArrayLike,
        tolerance: float,
        max_iterations: int,
        dtype: DTypeLike | None,
        device: str,
        chunk: int | None,
    ) -> None:
        self.n_classes = at_least("n_classes", n_classes, 2)
        self.X = features(X)
        self.y = class_codes(y, n=len(self.X), n_classes=n_classes)
        self.subsets = row_subsets(subsets, n=len(self.X))
        weight = array("l2", l2, finite=True)
        count = len(self.subsets)
        if weight.shape not in ((), (count,)):
            raise ValueError(
                f"l2 must be one number or one for each of {count} models, got shape"
                f" {weight.shape}"
            )
        self.l2 = np.broadcast_to(weight, count)
        self.tolerance = positive("tolerance", tolerance)
        self.max_iterations = at_least("max_iterations", max_iterations, 0)
        self.chunk = None if chunk is None else at_least("chunk", chunk, 1)
        self.dtype = float_dtype(dtype, self.X)
        self.device = choose_device(device)
        # what the caller said, which is valid on another machine, too
        self.asked = device
        self.kind: torch.dtype = getattr(torch, self.dtype.name)
        self._resident = None
        if self.device.type != "cpu":
            # a GPU gathers from its own copy: each transfer would take longer
            self._resident = torch.tensor(self.X, device=self.device, dtype=self.kind)

    def rows(self, indices: Integers) -> Tensor:
        """Features [*indices.shape, d] of the rows at ``indices``; the caller must
        not change them.
        """
        if self._resident is not None:
            return self._resident[torch.from_numpy(indices).to(self.device)]
        n = len(self.X)
        # what PyTorch can take as it is
        shared = self.X.flags.c_contiguous and self.X.flags.writeable
        if shared and indices.size == n and (indices.reshape(-1) == np.arange(n)).all():
            return torch.from_numpy(self.X).to(self.kind).view(*indices.shape, -1)
        return torch.from_numpy(self.X.take(indices, axis=0)).to(self.kind)

    def labels(self, indices: Integers) -> Tensor:
        """Labels of the rows at ``indices``, int64, in the shape of ``indices``."""
        return torch.from_numpy(self.y[indices]).to(self.device)

    def run(self, groups: Sequence[Group], shape: tuple[int, ...]) -> LogisticModels:
        """Fit all groups; their functions return weights, intercepts, gradient norms
        and iterations.

        ``shape`` is the shape of all weights, [M, C, d] or [M, d].
        """
        gradient_norm = np.zeros(shape[0], self.dtype)
        results = (
            np.empty(shape, self.dtype),
            np.zeros(shape[:-1], self.dtype),
            gradient_norm,
            np.zeros(shape[0], np.int64),
        )
        fit_groups(groups, results, device=self.device)
        # the bound is the same for all models, whichever way they were fitted
        converged = gradient_norm <= self.tolerance
        if failed := int((~converged).sum()):
            warnings.warn(
                f"{failed} of {len(converged)} logistic regressions have not converged:"
                f" gradient max-norm up to {gradient_norm.max():.1e} after"
                f" max_iterations={self.max_iterations}, tolerance={self.tolerance:g};"
                " raise max_iterations or tolerance, scale the features, or use"
                " float64",
                ConvergenceWarning,
                stacklevel=3,
            )
        return LogisticModels(*results, converged, self.asked)


def targets_of(labels: Tensor, n_classes: int, dtype: torch.dtype) -> Tensor:
    """One-hot targets, classes first: labels [..., m] to [..., n_classes, m]."""
    return one_hot(labels, n_classes).mT.to(dtype).contiguous()


def fit_multinomial_logistic(
    X: Features,
    y: NDArray[np.integer],
    subsets: RowSubsets,
    *,
    n_classes: int,
    l2: ArrayLike,
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
    l2 : float or array [M], >= 0
        Weight of the L2 term, for all models or for each. With 0 the minimum may not be
        attained; the result is then the last iterate.
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
        X, y, subsets, n_classes, l2, tolerance, max_iterations, dtype, device, chunk
    )
    return fits.run(
        softmax_groups(fits, intercept=intercept),
        (len(fits.subsets), n_classes, fits.X.shape[1]),
    )


def softmax_groups(fits: Fits, *, intercept: bool) -> list[Group]:
    """Group the models that are fitted in the same way, which :func:`_mode` decides."""
    sizes = fits.subsets.sizes
    order = fits.subsets.by_size()
    d = fits.X.shape[1]
    C = fits.n_classes
    # by size alone, so that no other model has a part in it
    modes = [_mode(int(size), d, C, fits.max_iterations) for size in sizes[order]]
    groups = []
    for mode in ("span", "batch", "alone"):
        models = order[np.array(modes) == mode]
        if not len(models):
            continue
        most = int(sizes[models].max())
        held, touched = _bytes(most, d, C, fits.dtype.itemsize, mode=mode)
        fit = partial(_fitted, fits, intercept=intercept, mode=mode)
        # its preconditioner is of one data set
        chunk = 1 if mode == "alone" else fits.chunk
        groups.append(Group(models, fit, held, touched, chunk))
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
    saved = min(max_iterations, SAVED)
    if m * d >= LARGE and pays(m, d, columns=C, blocks=1, saved=saved):
        return "alone"
    return "batch"


def _bytes(m: int, d: int, C: int, itemsize: int, *, mode: str) -> tuple[int, int]:
    """Bytes that one model holds, and those that a CPU should keep in cache."""
    # steps and changes of the gradient
    pairs = 2 * HISTORY
    if mode == "span":
        held = m * d + 2 * m * m + (2 * pairs + 10) * C * m
        touched = m * m + (pairs + 4) * C * m
    else:
        held = m * d + (pairs + 4) * C * d + 6 * C * m
        touched = m * d // 2 + 4 * C * m
    return itemsize * held, itemsize * touched


def _fitted(
    fits: Fits, models: Integers, *, intercept: bool, mode: str
) -> tuple[Tensor, ...]:
    """Weights, intercepts, gradient norms and iterations of some models."""
    problems, sizes = _problems(fits, models, intercept=intercept, mode=mode)
    v, norm, count = minimise(
        problems, fits.tolerance * sizes, max_iterations=fits.max_iterations
    )
    W = problems.weights(v) if isinstance(problems, SpanProblems) else v
    if not intercept:
        return W, torch.zeros_like(W[:, :, 0]), norm / sizes, count
    b = W[:, :, -1]
    if problems.offset is not None:
        b = b + problems.offset[:, :, 0]
    return W[:, :, :-1], b, norm / sizes, count


def _problems(
    fits: Fits, models: Integers, *, intercept: bool, mode: str
) -> tuple[RowProblems, Tensor]:
    """Problems of some models, and their sizes [k] in the dtype of the fit."""
    C = fits.n_classes
    indices, inside = fits.subsets.padded(models)
    # not as a batch of one: rows are shared by the columns
    rows = fits.rows(indices[0] if mode == "alone" else indices)
    labels = fits.labels(indices)
    # objectives are sums over rows, tolerances are of means
    sizes = torch.from_numpy(fits.subsets.sizes[models]).to(rows)
    penalty = (torch.from_numpy(fits.l2[models]).to(rows) * sizes)[:, None, None]
    targets = targets_of(labels, C, rows.dtype)
    shared: dict[str, Any] = {"targets": targets, "penalty": penalty}
    if not inside.all():
        # padding does not count
        shared["counts"] = torch.from_numpy(inside).to(rows)[:, None]
    if intercept:
        # without a row of a class, its intercept falls without end
        present = rows.new_zeros((len(models), C)).scatter_(1, labels, 1) > 0
        if not bool(present.all()):
            offset = torch.zeros_like(present, dtype=rows.dtype)
            shared["offset"] = offset.masked_fill_(~present, -torch.inf)[:, :, None]
    if mode == "span":
        gram = gram_matrices(rows)
        span = SpanProblems(rows=rows, gram=gram, intercept=intercept, **shared)
        return span, sizes
    if intercept:
        # one more feature, which is not penalised
        rows = torch.cat([rows, rows.new_ones((*rows.shape[:-1], 1))], -1)
        penalty = penalty.repeat(1, 1, rows.shape[-1])
        penalty[:, :, -1] = 0
        shared["penalty"] = penalty
    if mode == "alone":
        start = rows.new_zeros((C, rows.shape[1]))
        shared["inverse"] = inverse_blocks(rows, penalty[0, 0], W=start)
    return RowProblems(rows=rows, **shared), sizes


def fit_perturbed_logistic(
    X: Features,
    y: NDArray[np.integer],
    *,
    n_classes: int,
    l2: float,
    linear: Features,
    start: Features | None = None,
    tolerance: float = 1e-5,
    max_iterations: int = 1000,
    dtype: DTypeLike | None = None,
    device: str = "auto",
    chunk: int | None = None,
) -> LogisticModels:
    """Fit R multinomial logistic regressions to all rows, each with a different linear
    term in the objective.

    Model r minimises 1/n sum_i CE(W x_i, y_i) + l2/2 |W|^2 + <B_r, W>/n over W, without
    intercept, by L-BFGS, until the max-norm of the gradient is within ``tolerance``.
    The models are columns of one product with X, which is read once for many models.
    All models start at the optimum without the linear term. This optimum is fitted
    first unless it is given. If R n is large compared with d^2, the models share a
    preconditioner: the blocks of the Hessian at that optimum, one for each class.

    Parameters
    ----------
    X : ndarray of float32 or float64, shape [n, d], finite
    y : ndarray of int, shape [n]
        Class codes 0 to ``n_classes - 1``.
    n_classes : int, >= 2
    l2 : float, > 0
        Total weight of the L2 term: a term rho/(2n) |W|^2 of loss perturbation adds
        rho/n to it.
    linear : ndarray of float, shape [R, n_classes, d], finite
        Linear terms B_r; zero gives the unperturbed fit.
    start : ndarray of float, shape [n_classes, d], optional
        First iterate of all models.
    tolerance, max_iterations, dtype, device
        See :func:`fit_multinomial_logistic`.
    chunk : int, >= 1, optional
        Number of models fitted at once; each model holds 6 n_classes n numbers.

    Returns
    -------
    LogisticModels
        Models with ``weights`` [R, n_classes, d]; their ``iterations`` do not include
        the first fit.

    Raises
    ------
    ValueError, MemoryError
        As for :func:`fit_multinomial_logistic`, which also describes the warnings.

    Source
    ------
    Chaudhuri, Monteleoni, Sarwate (2011), Algorithm 2, for the objective.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> noise = np.random.default_rng(0).normal(size=(5, 10, 64))
    >>> models = fit_perturbed_logistic(
    ...     X / 16, y, n_classes=10, l2=1e-3, linear=noise, device="cpu"
    ... )
    >>> models.weights.shape, bool(models.converged.all())
    ((5, 10, 64), True)
    """
    l2 = positive("l2", l2)
    every = np.arange(len(X))[None]
    fits = Fits(
        X, y, every, n_classes, l2, tolerance, max_iterations, dtype, device, chunk
    )
    n, d = fits.X.shape
    C = fits.n_classes
    R = len(linear)
    linear = _finite("linear", linear, (R, C, d))
    if start is None:
        # the optimum without the linear term
        groups = softmax_groups(fits, intercept=False)
        start = fits.run(groups, (1, C, d)).weights[0]
    # all models share the rows
    A = fits.rows(fits.subsets.indices)
    penalty = l2 * n
    targets = targets_of(fits.labels(fits.subsets.indices), C, A.dtype)[None]
    # broadcast to all models, not copied
    W0 = torch.tensor(_finite("start", start, (C, d))).to(A)
    inverse = None
    if pays(n, d, columns=R * C, blocks=C, saved=SAVED_AFTER_START):
        # in float32, which is exact enough for a preconditioner
        ridge = A.new_tensor([penalty]).float()
        inverse = inverse_blocks(A.float(), ridge, W=W0.float()).to(A)

    def fit(some: Integers) -> tuple[Tensor, ...]:
        B = torch.tensor(linear[some]).to(A)
        first = W0.expand(B.shape)
        if inverse is not None:
            # the class mean of the minimiser is known: the residuals of a row sum to
            # zero
            mean = first.mean(1, keepdim=True) + B.mean(1, keepdim=True) / penalty
            first = first - mean
        problems = RowProblems(
            rows=A,
            targets=targets,
            penalty=A.new_full((len(some), 1, 1), penalty),
            linear=B,
            start=first,
            inverse=inverse,
            centred=True,
        )
        # of a sum over rows
        limit = A.new_full((len(B),), fits.tolerance * n)
        W, norm, count = minimise(problems, limit, max_iterations=fits.max_iterations)
        return W, torch.zeros_like(W[:, :, 0]), norm / n, count

    # iterates, directions and history; probabilities and logits of the rows
    held = fits.dtype.itemsize * (48 * linear[0].size + 6 * C * n)
    chunk = fits.chunk
    if chunk is None and fits.device.type == "cpu":
        chunk = -(-COLUMNS // C)
    return fits.run([Group(np.arange(R), fit, held, chunk=chunk)], linear.shape)


def _finite(name: str, values: ArrayLike, shape: tuple[int, ...]) -> Floats:
    # checked once for all models, whatever the dtype of the fit
    array = np.asarray(values, dtype=np.float64)
    if array.shape != shape or 0 in shape:
        raise ValueError(
            f"{name} must have shape {list(shape)}, got shape {array.shape}"
        )
    if not np.isfinite(array).all():
        raise ValueError(
            f"{name} must be finite, got {int((~np.isfinite(array)).sum())} bad entries"
        )
    return array
