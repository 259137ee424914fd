"""The common part of all fits of many logistic regressions: checked data and settings, chunks, results."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, DTypeLike, NDArray
from sklearn.exceptions import ConvergenceWarning
from torch.nn.functional import one_hot

from dpnotes._validation import Features, Integers, at_least, class_codes, features, float_dtype, positive
from dpnotes.learners._chunks import Group, fit_groups
from dpnotes.learners._devices import choose_device
from dpnotes.learners._logistic_models import LogisticModels
from dpnotes.learners._subsets import row_subsets


class Solver(NamedTuple):
    """How many models are fitted, whatever their objective; see :func:`dpnotes.learners.fit_multinomial_logistic`."""

    tolerance: float
    max_iterations: int
    dtype: DTypeLike | None
    device: str
    chunk: int | None


class Fits:
    """One call that fits many logistic regressions to subsets of the rows of one data set.

    Parameters
    ----------
    X, y, subsets, n_classes
        As the caller gave them; see :func:`dpnotes.learners.fit_multinomial_logistic`.
    solver : Solver
        As the caller gave it.

    Attributes
    ----------
    X, y, n_classes, tolerance, max_iterations, dtype, chunk
        The same, checked.
    subsets : Subsets
    source : Source
    """

    def __init__(
        self,
        X: Features,
        y: NDArray[np.integer],
        subsets: NDArray[np.integer] | Sequence[ArrayLike],
        n_classes: int,
        solver: Solver,
    ) -> None:
        self.n_classes = at_least("n_classes", n_classes, 2)
        self.X = features(X)
        self.y = class_codes(y, n=len(self.X), n_classes=n_classes)
        self.subsets = row_subsets(subsets, n=len(self.X))
        self.tolerance = positive("tolerance", solver.tolerance)
        self.max_iterations = at_least("max_iterations", solver.max_iterations, 0)
        self.chunk = None if solver.chunk is None else at_least("chunk", solver.chunk, 1)
        self.dtype = float_dtype(solver.dtype, self.X)
        self.source = Source(self.X, self.y, dtype=self.dtype, device=choose_device(solver.device))

    def run(self, groups: Sequence[Group], shape: tuple[int, ...]) -> LogisticModels:
        """Fit all groups; their functions give weights, intercepts, gradient norms and iterations.

        Parameters
        ----------
        groups : sequence of Group
        shape : tuple of int
            Of all weights, [M, C, d] or [M, d].
        """
        weights, intercept = np.empty(shape, self.dtype), np.zeros(shape[:-1], self.dtype)
        gradient_norm, iterations = np.zeros(shape[0], self.dtype), np.zeros(shape[0], np.int64)
        results = weights, intercept, gradient_norm, iterations
        fit_groups(groups, results, device=self.source.device)
        converged = gradient_norm <= self.tolerance
        failed = int((~converged).sum())
        if failed:
            warnings.warn(
                f"{failed} of {len(converged)} logistic regressions have not converged: gradient max-norm up to "
                f"{gradient_norm.max():.1e} after max_iterations={self.max_iterations}, tolerance={self.tolerance:g}; "
                "raise max_iterations or tolerance, scale the features, or use float64",
                ConvergenceWarning,
                stacklevel=3,
            )
        return LogisticModels(*results, converged)


class Source:
    """Rows of one data set, given out as tensors that must not be changed: gathered on a CPU, resident on a GPU.

    On a CPU all rows in their order are not copied: a large data set is often most of what a fit holds.
    """

    def __init__(self, X: Features, y: Integers, *, dtype: np.dtype[Any], device: torch.device) -> None:
        self.device = device
        self.dtype: torch.dtype = getattr(torch, dtype.name)
        self._X, self._y = X, y
        self._resident = None if device.type == "cpu" else torch.tensor(X, device=device, dtype=self.dtype)

    def rows(self, indices: Integers) -> torch.Tensor:
        """Features [*indices.shape, d]."""
        if self._resident is not None:
            return self._resident[torch.from_numpy(indices).to(self.device)]
        n = len(self._X)
        shared = self._X.flags.c_contiguous and self._X.flags.writeable  # what PyTorch can take as it is
        if shared and indices.size == n and (indices.reshape(-1) == np.arange(n)).all():
            return torch.from_numpy(self._X).to(self.dtype).view(*indices.shape, -1)
        return torch.from_numpy(self._X.take(indices, axis=0)).to(self.dtype)

    def labels(self, indices: Integers) -> torch.Tensor:
        """Labels of the shape of indices, int64."""
        return torch.from_numpy(self._y[indices]).to(self.device)


def targets_of(labels: torch.Tensor, n_classes: int, dtype: torch.dtype) -> torch.Tensor:
    """One-hot targets, classes first: labels [..., m] to [..., n_classes, m]."""
    return one_hot(labels, n_classes).mT.to(dtype).contiguous()
