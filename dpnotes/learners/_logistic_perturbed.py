"""Repeats of one multinomial logistic regression under linear perturbations of its
objective, fitted at once.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import ArrayLike, DTypeLike, NDArray
from torch import Tensor

from dpnotes._validation import Features, Floats, Integers, positive
from dpnotes.learners._chunks import Group
from dpnotes.learners._logistic_lbfgs import minimise
from dpnotes.learners._logistic_models import Fits, LogisticModels, targets_of
from dpnotes.learners._logistic_multinomial import softmax_groups
from dpnotes.learners._logistic_problems import (
    PreconditionedProblems,
    RowProblems,
    inverse_blocks,
    pays,
)

ROW_BLOCK = 2048  # rows of an exact gradient at a time: their logits stay in cache
# of the gradient, asked of the steps in float32 between two exact gradients
REDUCTION = 1e-4
ROUND = 100  # steps between two exact gradients, at most
# the fraction of the gradient above which a round in float32 is the last one
STALLED = 0.1
SAVED = 20  # iterations, at least, that a preconditioner saves after a warm start
# models times classes of one product on a CPU: from here on it is bound by arithmetic
COLUMNS = 128


def minimise_repeats(
    problems: RowProblems, tolerance: Tensor, *, inverse: Tensor, max_iterations: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Minimise all problems by preconditioned L-BFGS; problems in float64 compute most
    of their products in float32.

    In float64 the method works in rounds of iterative refinement. A round computes the
    exact gradient at W and then solves roughly, in float32 and at twice the speed, for
    the change of W that remains. A new exact gradient decides whether to go on. Steps
    in float64 do the part that float32 cannot reach.

    Parameters
    ----------
    problems : RowProblems
        Problems on shared rows [n, p] and targets [1, C, n], each with a linear term
        and a start [C, p]; the function does not change them.
    tolerance : torch.Tensor, shape [k]
        Bound on the max-norm of the gradient of the objective, a sum over rows.
    inverse : torch.Tensor, shape [C, p, p]
        Inverses of the blocks of the Hessian, in any precision.
    max_iterations : int, >= 0

    Returns
    -------
    W : torch.Tensor, shape [k, C, p]
    gradient_norm : torch.Tensor, shape [k]
    iterations : torch.Tensor of int64, shape [k]
    """
    rows, targets, penalty = problems.rows, problems.targets, problems.penalty
    linear, start = problems.linear, problems.start
    assert linear is not None
    assert start is not None
    # the class mean of the minimiser is known: the residuals of a row sum to zero
    W = start - start.mean(1, keepdim=True) - linear.mean(1, keepdim=True) / penalty
    norms, iterations = (
        W.new_empty(len(W)),
        torch.zeros(len(W), dtype=torch.int64, device=W.device),
    )
    left = torch.arange(len(W), device=W.device)
    if rows.dtype == torch.float64:
        low, low_inverse = rows.float(), inverse.float()
        while True:
            G, Z = _gradient_and_logits(
                rows, targets, W[left], penalty[left], linear[left]
            )
            before, norms[left] = norms[left], G.abs().amax((1, 2))
            over = norms[left] > tolerance[left]
            allowed = max_iterations - int(iterations.max())
            stalled = bool(iterations.any()) and bool(
                (over & (norms[left] > STALLED * before)).any()
            )
            G, Z, left = G[over], Z[over], left[over]
            if stalled or not len(left) or allowed <= 0:
                break
            rest = PreconditionedProblems(
                centred=True,
                rows=low,
                targets=Z.softmax(1),
                penalty=penalty[left].float(),
                inverse=low_inverse,
                linear=G.float(),
                offset=Z,
            )
            aim = torch.maximum(0.5 * tolerance[left], REDUCTION * norms[left]).float()
            change, _, count = minimise(rest, aim, max_iterations=min(ROUND, allowed))
            W[left] += change
            iterations[left] += count
    if len(left) and (allowed := max_iterations - int(iterations.max())) >= 0:
        rest = PreconditionedProblems(
            centred=True,
            rows=rows,
            targets=targets,
            penalty=penalty[left],
            inverse=inverse.to(rows),
            linear=linear[left],
            start=W[left],
        )
        W[left], norms[left], count = minimise(
            rest, tolerance[left], max_iterations=allowed
        )
        iterations[left] += count
    return W, norms, iterations


def _gradient_and_logits(
    rows: Tensor, targets: Tensor, W: Tensor, penalty: Tensor, linear: Tensor
) -> tuple[Tensor, Tensor]:
    """Gradient [k, C, p] in the precision of the rows, and logits [k, C, n] in
    float32.
    """
    G, flat = penalty * W + linear, W.flatten(0, 1)
    logits = rows.new_empty((*W.shape[:2], len(rows)), dtype=torch.float32)
    size = len(rows) if rows.is_cuda else ROW_BLOCK
    for start in range(0, len(rows), size):
        block = slice(start, start + size)
        Z = torch.mm(flat, rows[block].mT).view(*W.shape[:2], -1)
        logits[:, :, block] = Z
        residual = Z.softmax(1).sub_(targets[:, :, block])
        G.view(flat.shape).addmm_(residual.view(len(flat), -1), rows[block])
    return G, logits


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
    preconditioner: the blocks of the Hessian at that optimum, one for each class. Fits
    in float64 then take most of their steps in float32, but the gradients that decide
    about convergence are computed in float64.

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
    fits = Fits(
        X,
        y,
        np.arange(len(X))[None],
        n_classes,
        tolerance,
        max_iterations,
        dtype,
        device,
        chunk,
    )
    (n, d), C, R, l2 = fits.X.shape, fits.n_classes, len(linear), positive("l2", l2)
    linear = _finite("linear", linear, (R, C, d))
    if start is None:
        start = fits.run(softmax_groups(fits, l2, intercept=False), (1, C, d)).weights[
            0
        ]
    A, penalty = fits.rows(fits.subsets.indices), l2 * n
    targets = targets_of(fits.labels(fits.subsets.indices), C, A.dtype)[None]
    W0 = torch.tensor(_finite("start", start, (C, d))).to(A)
    inverse = None
    if pays(n, d, columns=R * C, blocks=C, saved=SAVED):
        inverse = inverse_blocks(
            A.float(), A.new_tensor([penalty]).float(), W=W0.float()
        )

    def fit(some: Integers) -> tuple[Tensor, ...]:
        B, penalties = (
            torch.tensor(linear[some]).to(A),
            A.new_full((len(some), 1, 1), penalty),
        )
        problems = RowProblems(
            rows=A,
            targets=targets,
            penalty=penalties,
            linear=B,
            start=W0.expand(B.shape),
        )
        limit, most = A.new_full((len(B),), fits.tolerance * n), fits.max_iterations
        if inverse is None:
            W, norm, count = minimise(problems, limit, max_iterations=most)
        else:
            W, norm, count = minimise_repeats(
                problems, limit, inverse=inverse, max_iterations=most
            )
        return W, torch.zeros_like(W[:, :, 0]), norm / n, count

    held = fits.dtype.itemsize * (48 * linear[0].size + 6 * C * n)
    chunk = (
        -(-COLUMNS // C) if chunk is None and fits.device.type == "cpu" else fits.chunk
    )
    return fits.run([Group(np.arange(R), fit, held, chunk=chunk)], linear.shape)


def _finite(name: str, values: ArrayLike, shape: tuple[int, ...]) -> Floats:
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
