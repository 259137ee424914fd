"""The exact minimiser of a regularised logistic loss on bounded features: where private linear methods start."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.exceptions import ConvergenceWarning

from dpnotes import _validation as _checks
from dpnotes.accounting import logistic_constants, minimiser_sensitivity
from dpnotes.learners._logistic_models import LogisticModels
from dpnotes.learners._logistic_multinomial import fit_multinomial_logistic

Floats = NDArray[np.float64]

GRADIENT_SHARE = 1e-3  # of K/n, half the gradient that one record can change: the norm at which a fit counts as exact
MAX_ITERATIONS = 10_000
ROW_BLOCK = 2048  # of the check of a fit: the logits of its rows stay in cache
ROUNDING = 1e-12  # relative; of the norm of a row that was scaled to the bound
ANALYSES = ("tight", "published")


@dataclass(frozen=True, eq=False)
class LinearTask:
    """Records with bounded features for a linear classifier; minimised is ``(1/n) sum_i CE(W x_i, y_i) + ...``.

    Attributes
    ----------
    X : ndarray of float64, shape [m, d], or [m, d + 1] with the constant feature 1 of a bias
    y : ndarray of int64, shape [m]
        Class codes.
    n_classes : int
    n : int
        What the sum of the losses is divided by; public.
    norm : float
        Bound on the Euclidean norm of the features without the constant one.
    intercept : bool
    """

    X: Floats
    y: NDArray[np.int64]
    n_classes: int
    n: int
    norm: float
    intercept: bool

    @property
    def lipschitz(self) -> float:
        """Bound K on the norm of the gradient of one loss."""
        return logistic_constants(n_classes=self.n_classes, norm=self.norm, bias=self.intercept).lipschitz

    @property
    def gradient_tolerance(self) -> float:
        """Largest norm of the mean objective's gradient at which a fit counts as exact; public."""
        return GRADIENT_SHARE * self.lipschitz / self.n

    def solver_tolerance(self) -> float:
        """The same for the learner: on the max-norm of the gradient of the mean over the m records."""
        return self.gradient_tolerance * self.n / len(self.X) / math.sqrt(self.n_classes * self.X.shape[1])

    def check_minimised(self, weights: NDArray[np.floating], *, penalty: float, linear: Floats | None = None) -> None:
        """Refuse weights [R, C, d] whose gradient, computed anew, is above the tolerance.

        Parameters
        ----------
        weights : ndarray, shape [R, C, d]
        penalty : float
            Factor of ``|W|^2 / 2`` in the sum of the losses.
        linear : ndarray, shape [R, C, d], optional
            Linear terms of the sum of the losses.
        """
        gradients = penalty * np.asarray(weights, dtype=np.float64) + (0.0 if linear is None else linear)
        flat = np.asarray(weights, dtype=np.float64).reshape(-1, self.X.shape[1])
        for start in range(0, len(self.X), ROW_BLOCK):
            rows, labels = self.X[start : start + ROW_BLOCK], self.y[start : start + ROW_BLOCK]
            residual = softmax((flat @ rows.T).reshape(*gradients.shape[:2], -1), axis=1)
            residual[:, labels, np.arange(len(rows))] -= 1
            gradients += (residual.reshape(len(flat), -1) @ rows).reshape(gradients.shape)
        worst = float(np.linalg.norm(gradients, axis=(1, 2)).max()) / self.n
        if not worst <= self.gradient_tolerance:
            raise RuntimeError(
                f"the minimiser was not reached: gradient norm {worst:.1e}, needed {self.gradient_tolerance:.1e} for "
                "its sensitivity to hold; raise max_iterations or l2"
            )


@dataclass(frozen=True, eq=False)
class Minimiser:
    """The minimiser itself: **not private**, to be released only with noise.

    Attributes
    ----------
    weights : ndarray of float64, shape [C, d], or [C, d + 1]: the bias is the last column
    n : int
    l2 : float
    norm : float
        Bound on the norm of the features that it was fitted to.
    intercept : bool
    lipschitz : float
    gradient_tolerance : float
        Bound on the norm of the gradient at ``weights``, checked.
    """

    weights: Floats
    n: int
    l2: float
    norm: float
    intercept: bool
    lipschitz: float
    gradient_tolerance: float

    def sensitivity(self, *, adjacency: str = "replace-one", analysis: str = "tight") -> float:
        """L2 sensitivity of ``weights``.

        Parameters
        ----------
        adjacency : {"replace-one", "add-remove"}
            Add-remove: the sum of the losses is divided by the public ``n``, whatever the number of records.
        analysis : {"tight", "published"}
            ``"published"``: Lemma 1 of the paper, ``2 K / (n l2)``, for replace-one. ``"tight"``: the same and what
            the tolerance of the fit adds to it.

        Returns
        -------
        float
        """
        analysis = _checks.one_of("analysis", analysis, ANALYSES)
        if analysis == "published" and adjacency != "replace-one":
            raise ValueError(f"the published analysis is for adjacency='replace-one', got adjacency={adjacency!r}")
        return minimiser_sensitivity(
            lipschitz=self.lipschitz,
            n=self.n,
            regulariser=self.l2,
            adjacency=adjacency,
            objective="sum",
            gradient_tolerance=self.gradient_tolerance if analysis == "tight" else 0.0,
        )

    def rows(self, X: NDArray[np.floating]) -> Floats:
        """Features [q, d] as float64, with the constant one where there is a bias."""
        return with_constant(X, self.intercept)

    def models(self, weights: Floats) -> LogisticModels:
        """Weights [R, C, d] of this layout as models."""
        return released_models(weights, self.intercept)


def linear_task(
    X: NDArray[np.floating],
    y: NDArray[np.integer],
    *,
    n_classes: int,
    intercept: bool = True,
    norm: float = 1.0,
    n: int | None = None,
) -> LinearTask:
    """Check that the features keep their bound, and append the constant feature of a bias.

    Raises
    ------
    ValueError
        If a row of X is longer than ``norm``, or a number is outside its range.
    """
    norm = _checks.real("norm", norm, low=0.0, open_low=True)
    n = len(X) if n is None else _checks.at_least_one("n", n)
    check_norms(X, norm)
    return LinearTask(with_constant(X, intercept), np.asarray(y, dtype=np.int64), n_classes, n, norm, bool(intercept))


def fit_minimiser(
    X: NDArray[np.floating],
    y: NDArray[np.integer],
    *,
    n_classes: int,
    l2: float,
    intercept: bool = True,
    norm: float = 1.0,
    n: int | None = None,
    max_iterations: int = MAX_ITERATIONS,
    device: str = "auto",
) -> Minimiser:
    """Minimise ``(1/n) sum_i CE(W x_i, y_i) + l2/2 |W|^2``, in float64, until it counts as exact.

    The norm of the gradient at the result, computed anew, is at most 0.001 K/n, where K/n is half the change that one
    record can make; its part in the sensitivity is counted. A bias is the weight of a constant feature 1: it is
    penalised, and counts in the norm.

    Parameters
    ----------
    X : ndarray of float, shape [m, d]
    y : ndarray of int, shape [m]
        Class codes 0 to ``n_classes - 1``.
    n_classes : int, >= 2
    l2 : float, > 0
    intercept : bool
    norm : float, > 0
        Bound on the Euclidean norm of each row of X, known beforehand; it must not be taken from the data.
    n : int, >= 1, optional
        What the sum is divided by, public. Default: m, which is public then.
    max_iterations : int, >= 1
    device : str
        A PyTorch device, or ``"auto"``: the GPU where there is one.

    Returns
    -------
    Minimiser

    Raises
    ------
    ValueError
        If a row is longer than ``norm`` (:func:`dpnotes.data.to_unit_ball` shortens), or a setting is out of range.
    RuntimeError
        If the minimiser was not reached.

    Source
    ------
    Van der Maaten and Hannun (2020), Lemma 1, for the sensitivity.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> fit = fit_minimiser(X / 128, y, n_classes=10, l2=0.01, device="cpu")
    >>> fit.weights.shape, round(fit.sensitivity(), 4)
    ((10, 65), 0.2228)
    """
    l2 = _checks.real("l2", l2, low=0.0, open_low=True)
    max_iterations = _checks.at_least_one("max_iterations", max_iterations)
    task = linear_task(X, y, n_classes=n_classes, intercept=intercept, norm=norm, n=n)
    with unconverged_ignored():
        models = fit_multinomial_logistic(
            task.X,
            task.y,
            np.arange(len(task.X))[None],
            n_classes=n_classes,
            l2=task.n * l2 / len(task.X),
            tolerance=task.solver_tolerance(),
            max_iterations=max_iterations,
            device=device,
        )
    task.check_minimised(models.weights, penalty=task.n * l2)
    weights = np.asarray(models.weights[0], dtype=np.float64)
    return Minimiser(weights, task.n, l2, task.norm, task.intercept, task.lipschitz, task.gradient_tolerance)


def check_norms(X: NDArray[np.floating], norm: float) -> None:
    """Refuse rows longer than ``norm``."""
    norms = np.sqrt(np.einsum("ij,ij->i", X, X, dtype=np.float64))
    longer = norms > norm * (1 + ROUNDING)
    if longer.any():
        raise ValueError(
            f"X must have rows of Euclidean norm at most norm={norm:g}, got {int(longer.sum())} longer ones, up to "
            f"{norms.max():.7g}; scale them by a rule that does not look at the data, as dpnotes.data.to_unit_ball does"
        )


def with_constant(X: NDArray[np.floating], intercept: bool) -> Floats:
    """Features [m, d] as float64, and a column of ones behind them."""
    rows = np.ones((len(X), X.shape[1] + int(intercept)))
    rows[:, : X.shape[1]] = X
    return rows


def released_models(weights: NDArray[np.floating], intercept: bool) -> LogisticModels:
    """Models of weights [R, C, d] whose last column is the bias; how the fit went is not part of the release."""
    R, C, d = weights.shape
    columns = d - int(intercept)
    return LogisticModels(
        np.ascontiguousarray(weights[:, :, :columns]),
        weights[:, :, columns] if intercept else np.zeros((R, C)),
        gradient_norm=np.full(R, np.nan),
        iterations=np.zeros(R, dtype=np.int64),
        converged=np.ones(R, dtype=np.bool_),
    )


@contextmanager
def unconverged_ignored() -> Iterator[None]:
    """Silence the learner's warning: the gradient is checked, and an error raised, afterwards."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield
