"""Fitted logistic regressions, and the common part of all fits: checked data and
settings, chunks, results.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import DTypeLike, NDArray
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor
from torch.nn.functional import one_hot

from dpnotes._validation import (
    Features,
    Integers,
    at_least,
    class_codes,
    code_dtype,
    features,
    float_dtype,
    positive,
)
from dpnotes.learners._chunks import (
    CPU_BUDGET,
    Group,
    RowSubsets,
    fit_groups,
    row_subsets,
    slices,
    temporary_bytes,
)
from dpnotes.learners._devices import choose_device

QUERY_ROWS = 1024  # queries of one product


@dataclass(frozen=True, eq=False)
class LogisticModels:
    """M logistic regressions on the same features.

    Parameters
    ----------
    weights : ndarray of float, shape [M, C, d], or [M, d] for binary regressions
    intercept : ndarray of float, shape [M, C], or [M] for binary regressions
        Intercepts, zero if none were fitted. An unpenalised intercept is -inf, the
        limit of the minimising sequence, for a class that a model never saw. A binary
        model that saw only one class has the intercept -inf or +inf and votes only for
        that class.
    gradient_norm : ndarray of float, shape [M]
        Max-norm of the gradient of the mean objective at the result.
    iterations : ndarray of int64, shape [M]
    converged : ndarray of bool, shape [M]
        Whether ``gradient_norm`` is within the requested tolerance.
    """

    weights: Features
    intercept: Features
    gradient_norm: Features
    iterations: Integers
    converged: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.weights)

    @property
    def n_classes(self) -> int:
        """Number of classes C; 2 for binary regressions."""
        return int(self.weights.shape[1]) if self.weights.ndim == 3 else 2

    def logits(self, X: Features, *, device: str = "auto") -> Features:
        """Logits of all models.

        Parameters
        ----------
        X : ndarray of float32 or float64, shape [n, d]
            Features, which are converted to the dtype of the weights.
        device : str

        Returns
        -------
        ndarray of float, shape [M, n, C], or [M, n] for binary regressions: the logit
        of class 1
        """
        X = features(X, d=self.weights.shape[-1])
        shape = (
            (len(self), len(X))
            if self.weights.ndim == 2
            else (len(self), len(X), self.n_classes)
        )
        result = np.empty(shape, self.weights.dtype)
        for models, queries, Z in self._blocks(X, device):
            result[models, queries] = (
                (Z[:, 0] if self.weights.ndim == 2 else Z.mT).cpu().numpy()
            )
        return result

    def votes(
        self, X: Features, *, device: str = "auto", dtype: DTypeLike = np.int64
    ) -> NDArray[Any]:
        """Class with the largest logit for each model and row; among equal logits, the
        class with the smallest code.

        Parameters
        ----------
        X : ndarray of float32 or float64, shape [n, d]
        device : str
        dtype : dtype
            Integer type that can hold C - 1; uint8 takes an eighth of the memory of the
            default.

        Returns
        -------
        ndarray of ``dtype``, shape [M, n]
        """
        X = features(X, d=self.weights.shape[-1])
        result = np.empty(
            (len(self), len(X)), code_dtype(dtype, n_classes=self.n_classes)
        )
        for models, queries, Z in self._blocks(X, device):
            result[models, queries] = _largest(Z).cpu().numpy()
        return result

    def vote_counts(self, X: Features, *, device: str = "auto") -> Integers:
        """Number of models that vote for each class, computed without holding all votes
        in memory.

        Parameters
        ----------
        X : ndarray of float32 or float64, shape [n, d]
        device : str

        Returns
        -------
        ndarray of int64, shape [n, C]
        """
        X = features(X, d=self.weights.shape[-1])
        counts = np.zeros((len(X), self.n_classes), np.int64)
        for _, queries, Z in self._blocks(X, device):
            codes = _largest(Z)
            votes = [(codes == code).sum(0) for code in range(1, self.n_classes)]
            others = torch.stack(votes, 1).cpu().numpy()  # [queries, C - 1]
            counts[queries, 1:] += others
            counts[queries, 0] += len(Z) - others.sum(1)
        return counts

    @torch.no_grad()
    def _blocks(
        self, X: Features, device: str
    ) -> Iterator[tuple[slice, slice, Tensor]]:
        """Models, queries and their logits [models, C, queries], or [models, 1,
        queries] for binary regressions.
        """
        where = choose_device(device)
        M, d = len(self), self.weights.shape[-1]
        weights, intercept = (
            self.weights.reshape(M, -1, d),
            self.intercept.reshape(M, -1),
        )
        C = weights.shape[1]
        budget = temporary_bytes(where, on_cpu=CPU_BUDGET) // 4
        for queries in slices(len(X), QUERY_ROWS):
            block = torch.tensor(
                X[queries], device=where, dtype=getattr(torch, self.weights.dtype.name)
            )
            size = max(1, budget // (C * len(block) * self.weights.itemsize))
            for models in slices(M, size):
                W = torch.tensor(weights[models], device=where).flatten(0, 1)
                b = torch.tensor(intercept[models], device=where).flatten()[:, None]
                yield (
                    models,
                    queries,
                    torch.addmm(b, W, block.mT).view(-1, C, len(block)),
                )


def _largest(Z: Tensor) -> Tensor:
    """Code of the first largest logit [k, C, n]; of the sign for [k, 1, n]."""
    if Z.shape[1] == 1:
        return (Z[:, 0] > 0).to(torch.uint8)
    best, codes = Z[:, 0].clone(), torch.zeros_like(Z[:, 0], dtype=torch.int32)
    # whole rows at a time: many times faster than argmax across rows
    for code in range(1, Z.shape[1]):
        codes.masked_fill_(Z[:, code] > best, code)
        torch.maximum(best, Z[:, code], out=best)
    return codes


class Fits:
    """One call that fits many logistic regressions to subsets of the rows of one data
    set.

    On a CPU, a subset that consists of all rows in their order is not copied, because a
    large data set often takes most of the memory of a fit.

    Parameters
    ----------
    X, y, subsets, n_classes, tolerance, max_iterations, dtype, device, chunk
        Arguments of the caller; see :func:`dpnotes.learners.fit_multinomial_logistic`.

    Attributes
    ----------
    X, y, n_classes, tolerance, max_iterations, chunk
        Checked arguments.
    dtype : numpy.dtype
    kind : torch.dtype
    device : torch.device
    subsets : Subsets
    """

    def __init__(
        self,
        X: Features,
        y: NDArray[np.integer],
        subsets: RowSubsets,
        n_classes: int,
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
        self.tolerance = positive("tolerance", tolerance)
        self.max_iterations = at_least("max_iterations", max_iterations, 0)
        self.chunk = None if chunk is None else at_least("chunk", chunk, 1)
        self.dtype, self.device = float_dtype(dtype, self.X), choose_device(device)
        self.kind: torch.dtype = getattr(torch, self.dtype.name)
        on_cpu = self.device.type == "cpu"
        self._resident = (
            None
            if on_cpu
            else torch.tensor(self.X, device=self.device, dtype=self.kind)
        )

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
        weights, intercept = (
            np.empty(shape, self.dtype),
            np.zeros(shape[:-1], self.dtype),
        )
        gradient_norm, iterations = (
            np.zeros(shape[0], self.dtype),
            np.zeros(shape[0], np.int64),
        )
        results = weights, intercept, gradient_norm, iterations
        fit_groups(groups, results, device=self.device)
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
        return LogisticModels(*results, converged)


def targets_of(labels: Tensor, n_classes: int, dtype: torch.dtype) -> Tensor:
    """One-hot targets, classes first: labels [..., m] to [..., n_classes, m]."""
    return one_hot(labels, n_classes).mT.to(dtype).contiguous()
