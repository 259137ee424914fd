"""Fitted gradient-boosted trees: log-odds and votes of many models."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import torch
from numpy.typing import DTypeLike, NDArray
from scipy.special import expit

from dpnotes._validation import Features, Integers, code_dtype, features
from dpnotes.learners._chunks import slices, temporary_bytes
from dpnotes.learners._devices import choose_device

QUERY_ROWS = 1024  # queries at once
CPU_BUDGET = 8 * 2**20  # bytes of the answers of all nodes of one block of models to one block of queries


@dataclass(frozen=True, eq=False)
class BoostedTrees:
    """M sums of T trees of one depth D on the same features, for two classes.

    Parameters
    ----------
    prior : ndarray of float, shape [M]
        Log-odds of class 1 that the trees are added to.
    feature : ndarray of int32, shape [M, T, 2^D - 1]
        What the inner nodes look at, level by level: the children of node i are 2 i + 1 on the left, 2 i + 2 right.
    threshold : ndarray of float, shape [M, T, 2^D - 1]
        A row goes right where its feature is above it; inf where all go left.
    value : ndarray of float, shape [M, T, 2^D]
        What the leaves add to the log-odds, from left to right.
    n_features : int
    """

    prior: Features
    feature: NDArray[np.int32]
    threshold: Features
    value: Features
    n_features: int

    def __len__(self) -> int:
        return len(self.prior)

    def logits(self, X: Features, *, device: str = "auto") -> Features:
        """Log-odds of class 1 of all models for each row of X [n, d], which is taken in their dtype, shape [M, n]."""
        X = features(X, d=self.n_features)
        result = np.empty((len(self), len(X)), self.value.dtype)
        for models, queries, logits in self._blocks(X, device):
            result[models, queries] = logits.cpu().numpy()
        return result

    def votes(self, X: Features, *, device: str = "auto", dtype: DTypeLike = np.int64) -> NDArray[Any]:
        """Class of each model for each row of X [n, d], shape [M, n]; class 0 where the log-odds are 0."""
        X = features(X, d=self.n_features)
        result = np.empty((len(self), len(X)), code_dtype(dtype, n_classes=2))
        for models, queries, logits in self._blocks(X, device):
            result[models, queries] = (logits > 0).cpu().numpy()
        return result

    def confidence(self, X: Features, *, device: str = "auto") -> Features:
        """Probability that each model gives the class it votes for, for each row of X [n, d], shape [M, n]."""
        return np.asarray(expit(np.abs(self.logits(X, device=device))))

    @torch.no_grad()
    def _blocks(self, X: Features, device: str) -> Iterator[tuple[slice, slice, torch.Tensor]]:
        """Models, queries and their log-odds [models, queries]."""
        where = choose_device(device)
        M, T, inner = self.feature.shape
        columns = torch.tensor(X, device=where, dtype=torch.from_numpy(self.value).dtype).T.contiguous()  # [d, n]
        budget = temporary_bytes(where, on_cpu=CPU_BUDGET)
        bytes_each = T * (2 * inner + 16)  # of a model and a query: the nodes' answers, the leaf as int64, its value
        n_queries = max(1, min(len(X), QUERY_ROWS, budget // bytes_each))
        for models in slices(M, max(1, budget // (bytes_each * n_queries))):
            asked, feature, threshold = _questions(self.feature[models], self.threshold[models])
            nodes = torch.from_numpy(asked).to(where).movedim(2, 0)  # [inner, models, T]
            of, at = torch.from_numpy(feature).to(where), torch.from_numpy(threshold).to(where)[:, None]
            value = torch.from_numpy(self.value[models]).to(where)
            prior = torch.from_numpy(self.prior[models]).to(where)[:, None]
            for queries in slices(len(X), n_queries):
                above = columns[:, queries].index_select(0, of) > at  # [questions, queries]
                right = above.index_select(0, nodes.flatten()).view(*nodes.shape, -1)
                yield models, queries, prior + value.gather(2, _leaves(right)).sum(1)


def _questions(feature: NDArray[np.int32], threshold: Features) -> tuple[Integers, Integers, Features]:
    """Number of each node's pair of feature and threshold, and the different pairs: many nodes have the same."""
    pairs = np.empty(feature.shape, np.complex128)  # complex numbers are in order of real part, then imaginary part
    pairs.real, pairs.imag = feature, threshold
    different, number = np.unique(pairs, return_inverse=True)
    return number.reshape(feature.shape), different.real.astype(np.int64), different.imag.astype(threshold.dtype)


def _leaves(right: torch.Tensor) -> torch.Tensor:
    """Leaf that each query reaches, int64 [models, T, n], from whether it goes right at each node [inner, ...]."""
    turns: list[torch.Tensor] = []
    nodes = iter(right)
    while len(level := list(islice(nodes, 2 ** len(turns)))) == 2 ** len(turns):
        for turn in reversed(turns):
            # of two nodes the one that the turn leads to: torch.where, much faster on bytes
            level = [even ^ (turn & (even ^ odd)) for even, odd in zip(level[::2], level[1::2], strict=True)]
        turns.extend(level)
    leaf = turns[0].to(torch.uint8)
    for turn in turns[1:]:
        leaf = leaf.mul_(2).add_(turn)
    return leaf.long()
