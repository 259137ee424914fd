"""Repeats of one multinomial logistic regression under linear perturbations of its objective, fitted at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import ArrayLike, DTypeLike, NDArray

from dpnotes._validation import Features, Integers, positive
from dpnotes.learners._chunks import Group
from dpnotes.learners._logistic_fits import Fits, Solver, targets_of
from dpnotes.learners._logistic_hessian import inverse_blocks, pays
from dpnotes.learners._logistic_lbfgs import minimise
from dpnotes.learners._logistic_models import LogisticModels
from dpnotes.learners._logistic_multinomial import fit_multinomial_logistic
from dpnotes.learners._logistic_problems import RowProblems
from dpnotes.learners._logistic_repeats import minimise_repeats

SAVED = 20  # iterations, at least, that a preconditioner saves after a warm start
COLUMNS = 128  # models times classes of one product on a CPU: from here on it is bound by arithmetic


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
    """Fit R multinomial logistic regressions to all rows, each with a linear term of its own in the objective.

    Model r minimises 1/n sum_i CE(W x_i, y_i) + l2/2 |W|^2 + <B_r, W>/n over W, without intercept, by L-BFGS, until the
    max-norm of the gradient is within ``tolerance``. The models are columns of one product with X, which is read once
    for many. All of them start at the optimum without the linear term, which is fitted first unless it is given. Where
    R n is large against d^2 they share a preconditioner, the blocks of the Hessian there, one for each class, and fits
    in float64 take most of their steps in float32: the gradients that decide are in float64.

    Parameters
    ----------
    X : ndarray of float32 or float64, shape [n, d], finite
    y : ndarray of int, shape [n]
        Class codes 0 to ``n_classes - 1``.
    n_classes : int, >= 2
    l2 : float, > 0
        In all: a term rho/(2n) |W|^2 of loss perturbation adds rho/n to it.
    linear : ndarray of float, shape [R, n_classes, d], finite
        The terms B_r; zero gives the unperturbed fit.
    start : ndarray of float, shape [n_classes, d], optional
        First iterate of all models.
    tolerance, max_iterations, dtype, device
        See :func:`fit_multinomial_logistic`.
    chunk : int, >= 1, optional
        Models fitted at once; each holds 6 n_classes n numbers.

    Returns
    -------
    LogisticModels
        ``weights`` [R, n_classes, d]; ``iterations`` without those of the first fit.

    Raises
    ------
    ValueError, MemoryError
        As :func:`fit_multinomial_logistic`, which says when it warns, too.

    Source
    ------
    Chaudhuri, Monteleoni, Sarwate (2011), Algorithm 2, for the objective.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> noise = np.random.default_rng(0).normal(size=(5, 10, 64))
    >>> models = fit_perturbed_logistic(X / 16, y, n_classes=10, l2=1e-3, linear=noise, device="cpu")
    >>> models.weights.shape, bool(models.converged.all())
    ((5, 10, 64), True)
    """
    solver = Solver(tolerance, max_iterations, dtype, device, chunk)
    fits = Fits(X, y, np.arange(len(X))[None], n_classes, solver)
    shape = (n_classes, fits.X.shape[1])
    linear = _finite("linear", linear)
    if linear.ndim != 3 or linear.shape[1:] != shape or not len(linear):
        raise ValueError(f"linear must have shape [R >= 1, {shape[0]}, {shape[1]}], got shape {linear.shape}")
    l2 = positive("l2", l2)
    if start is None:
        unperturbed = fit_multinomial_logistic(
            X,
            y,
            np.arange(len(X))[None],
            n_classes=n_classes,
            l2=l2,
            tolerance=tolerance,
            max_iterations=max_iterations,
            dtype=fits.dtype,
            device=device,
        )
        start = unperturbed.weights[0]
    start = _finite("start", start)
    if start.shape != shape:
        raise ValueError(f"start must have shape [{shape[0]}, {shape[1]}], got shape {start.shape}")
    held = fits.dtype.itemsize * (48 * linear[0].size + 6 * n_classes * len(X))
    chunk = -(-COLUMNS // n_classes) if chunk is None and fits.source.device.type == "cpu" else fits.chunk
    repeats = Group(np.arange(len(linear)), _solver(fits, l2, linear, start), held, chunk=chunk)
    return fits.run([repeats], linear.shape)


def _solver(fits: Fits, l2: float, linear: Features, start: Features) -> Callable[[Integers], tuple[torch.Tensor, ...]]:
    """The function that fits some of the repeats; what they share is prepared once."""
    (n, d), C, R = fits.X.shape, fits.n_classes, len(linear)
    A = fits.source.rows(fits.subsets.indices)
    targets = targets_of(fits.source.labels(fits.subsets.indices), C, A.dtype)[None]
    W0 = torch.tensor(start).to(A)
    penalty = A.new_full((R, 1, 1), l2 * n)
    inverse = None
    if pays(n, d, columns=R * C, blocks=C, saved=SAVED):
        inverse = inverse_blocks(A.float(), penalty[0, 0].float(), W=W0.float())

    def fit(some: Integers) -> tuple[torch.Tensor, ...]:
        B = torch.tensor(linear[some]).to(A)
        problems = RowProblems(rows=A, targets=targets, penalty=penalty[some], linear=B, start=W0.expand(B.shape))
        limit = A.new_full((len(B),), fits.tolerance * n)
        if inverse is None:
            W, norm, count = minimise(problems, limit, max_iterations=fits.max_iterations)
        else:
            W, norm, count = minimise_repeats(problems, limit, inverse=inverse, max_iterations=fits.max_iterations)
        return W, torch.zeros_like(W[:, :, 0]), norm / n, count

    return fit


def _finite(name: str, values: ArrayLike) -> Features:
    array = np.asarray(values, dtype=None if isinstance(values, np.ndarray) else np.float64)
    if array.dtype.kind != "f":
        raise ValueError(f"{name} must be floating point, got {array.dtype}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite, got {int((~np.isfinite(array)).sum())} bad entries")
    return array
