"""Fitted logistic regressions: logits, votes, and counts of votes without a table of all votes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import DTypeLike, NDArray

from dpnotes._validation import Features, Integers, code_dtype, features
from dpnotes.learners._chunks import CPU_BUDGET, slices, temporary_bytes
from dpnotes.learners._devices import choose_device

QUERY_ROWS = 1024  # queries of one product


@dataclass(frozen=True, eq=False)
class LogisticModels:
    """M logistic regressions on the same features.

    Parameters
    ----------
    weights : ndarray of float, shape [M, C, d], or [M, d] for binary regressions
    intercept : ndarray of float, shape [M, C], or [M] for binary regressions
        Zero where none was fitted. A class that a model never saw has -inf with an unpenalised intercept, the limit of
        the minimising sequence; a binary model that saw one class has -inf or +inf and votes for that class alone.
    gradient_norm : ndarray of float, shape [M]
        Max-norm of the gradient of the mean objective at the result.
    iterations : ndarray of int64, shape [M]
    converged : ndarray of bool, shape [M]
        Whether ``gradient_norm`` is within the tolerance that was asked for.
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
            Taken in the dtype of the weights.
        device : str

        Returns
        -------
        ndarray of float, shape [M, n, C], or [M, n] for binary regressions: the logit of class 1
        """
        X = features(X, d=self.weights.shape[-1])
        shape = (len(self), len(X)) if self.weights.ndim == 2 else (len(self), len(X), self.n_classes)
        result = np.empty(shape, self.weights.dtype)
        for models, queries, Z in self._blocks(X, device):
            result[models, queries] = (Z[:, 0] if self.weights.ndim == 2 else Z.mT).cpu().numpy()
        return result

    def votes(self, X: Features, *, device: str = "auto", dtype: DTypeLike = np.int64) -> NDArray[Any]:
        """Class with the largest logit, for all models; among equals the one with the smallest code.

        Parameters
        ----------
        X : ndarray of float32 or float64, shape [n, d]
        device : str
        dtype : dtype
            An integer type that holds C - 1: uint8 takes an eighth of the memory of the default.

        Returns
        -------
        ndarray of ``dtype``, shape [M, n]
        """
        X = features(X, d=self.weights.shape[-1])
        result = np.empty((len(self), len(X)), code_dtype(dtype, n_classes=self.n_classes))
        for models, queries, Z in self._blocks(X, device):
            result[models, queries] = _largest(Z).cpu().numpy()
        return result

    def vote_counts(self, X: Features, *, device: str = "auto") -> Integers:
        """How many models vote for each class, without holding all votes.

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
    def _blocks(self, X: Features, device: str) -> Iterator[tuple[slice, slice, torch.Tensor]]:
        """Models, queries and their logits [models, C, queries], or [models, 1, queries] for binary regressions."""
        where = choose_device(device)
        M, d = len(self), self.weights.shape[-1]
        weights, intercept = self.weights.reshape(M, -1, d), self.intercept.reshape(M, -1)
        C = weights.shape[1]
        budget = temporary_bytes(where, on_cpu=CPU_BUDGET) // 4
        for queries in slices(len(X), QUERY_ROWS):
            block = torch.tensor(X[queries], device=where, dtype=getattr(torch, self.weights.dtype.name))
            size = max(1, budget // (C * len(block) * self.weights.itemsize))
            for models in slices(M, size):
                W = torch.tensor(weights[models], device=where).flatten(0, 1)
                b = torch.tensor(intercept[models], device=where).flatten()[:, None]
                yield models, queries, torch.addmm(b, W, block.mT).view(-1, C, len(block))


def _largest(Z: torch.Tensor) -> torch.Tensor:
    """Code of the first largest logit [k, C, n]; of the sign for [k, 1, n]."""
    if Z.shape[1] == 1:
        return (Z[:, 0] > 0).to(torch.uint8)
    best, codes = Z[:, 0].clone(), torch.zeros_like(Z[:, 0], dtype=torch.int32)
    for code in range(1, Z.shape[1]):  # whole rows at a time: many times faster than argmax across rows
        codes.masked_fill_(Z[:, code] > best, code)
        torch.maximum(best, Z[:, code], out=best)
    return codes
