"""Gradient-boosted trees on many small subsets at once; products with one array
evaluate every possible split.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpnotes._validation import (
    Features,
    Integers,
    at_least,
    class_codes,
    features,
    positive,
)
from dpnotes.learners._devices import (
    Group,
    RowSubsets,
    Subsets,
    choose_device,
    fit_groups,
    row_subsets,
    slices,
    temporary_bytes,
)
from dpnotes.learners._models import ManyModels

QUERY_ROWS = 1024  # queries at once
# bytes of the answers of all nodes of one block of models to one block of queries
CPU_BUDGET = 8 * 2**20
# 256 leaves: deeper trees have more nodes than the rows that this learner is made for
LARGEST_DEPTH = 8
EQUAL = 1000  # roundings by which improvements of equal splits may differ
# smallest fraction of a class, from which the log-odds start
CERTAIN = float(np.finfo(np.float32).eps)


@dataclass(frozen=True, eq=False)
class BoostedTrees(ManyModels):
    """M models of two classes on the same features, each a sum of T trees of one depth
    D.

    Parameters
    ----------
    prior : ndarray of float, shape [M]
        Log-odds of class 1 to which the trees are added.
    feature : ndarray of int32, shape [M, T, 2^D - 1]
        Feature that each inner node compares with its threshold. Nodes are numbered
        level by level: the children of node i are 2 i + 1 on the left and 2 i + 2 on
        the right.
    threshold : ndarray of float, shape [M, T, 2^D - 1]
        Threshold of each inner node, or inf if all rows go left. A row goes right if
        its feature exceeds the threshold.
    value : ndarray of float, shape [M, T, 2^D]
        Value that each leaf adds to the log-odds; leaves are ordered from left to
        right.
    n_features : int
    device : str
        Where the models answer, unless they are told otherwise.
    """

    prior: Features
    feature: NDArray[np.int32]
    threshold: Features
    value: Features
    n_features: int
    device: str = "auto"

    def __len__(self) -> int:
        return len(self.prior)

    def _blocks(
        self, X: Features, device: str
    ) -> Iterator[tuple[slice, slice, Tensor]]:
        X = features(X, d=self.n_features)
        where = choose_device(device)
        M, T, inner = self.feature.shape
        # [d, n]
        kind = getattr(torch, self.value.dtype.name)
        columns = torch.tensor(X, device=where, dtype=kind).T.contiguous()
        budget = temporary_bytes(where, on_cpu=CPU_BUDGET)
        # of a model and a query: the nodes' answers, the leaf as int64, its value
        bytes_each = T * (2 * inner + 16)
        n_queries = max(1, min(len(X), QUERY_ROWS, budget // bytes_each))
        for models in slices(M, max(1, budget // (bytes_each * n_queries))):
            asked, feature, threshold = _questions(
                self.feature[models], self.threshold[models]
            )
            # [inner, models, T]
            nodes = torch.from_numpy(asked).to(where).movedim(2, 0)
            of = torch.from_numpy(feature).to(where)
            at = torch.from_numpy(threshold).to(where)[:, None]
            value = torch.from_numpy(self.value[models]).to(where)
            prior = torch.from_numpy(self.prior[models]).to(where)[:, None]
            for queries in slices(len(X), n_queries):
                # [questions, queries]
                above = columns[:, queries].index_select(0, of) > at
                right = above.index_select(0, nodes.flatten()).view(*nodes.shape, -1)
                logits = prior + value.gather(2, _leaves(right)).sum(1)
                yield models, queries, logits[:, None]


def _questions(
    feature: NDArray[np.int32], threshold: Features
) -> tuple[Integers, Integers, Features]:
    """Number of each node's pair of feature and threshold, and the different pairs:
    many nodes have the same.
    """
    # complex numbers are in order of real part, then imaginary part
    pairs = np.empty(feature.shape, np.complex128)
    pairs.real = feature
    pairs.imag = threshold
    different, number = np.unique(pairs, return_inverse=True)
    return (
        number.reshape(feature.shape),
        different.real.astype(np.int64),
        different.imag.astype(threshold.dtype),
    )


def _leaves(right: Tensor) -> Tensor:
    """Leaf that each query reaches, int64 [models, T, n], from whether it goes right
    at each node [inner, ...].
    """
    turns: list[Tensor] = []
    nodes = iter(right)
    while len(level := list(islice(nodes, 2 ** len(turns)))) == 2 ** len(turns):
        for turn in reversed(turns):
            # of two nodes the one that the turn leads to: torch.where, much faster on
            # bytes
            level = [
                even ^ (turn & (even ^ odd))
                for even, odd in zip(level[::2], level[1::2], strict=True)
            ]
        turns.extend(level)
    leaf = turns[0].to(torch.uint8)
    for turn in turns[1:]:
        leaf = leaf.mul_(2).add_(turn)
    return leaf.long()


class Splits(NamedTuple):
    """All splits of the rows X [B, m, d] of B models, feature by feature; a model has
    at most C splits.

    Parameters
    ----------
    X : tensor of float, shape [B, m, d]
    feature : tensor of int64, shape [B, C]
    below : tensor of float, shape [B, C]
        Largest value on the left; inf where a model has fewer than C splits.
    right : tensor of float, shape [B, m, C]
        1 where the feature of a row is above ``below``, else 0.
    """

    X: Tensor
    feature: Tensor
    below: Tensor
    right: Tensor


def fit_boosted_trees(
    X: Features,
    y: NDArray[np.integer],
    subsets: RowSubsets,
    *,
    n_trees: int = 100,
    depth: int = 3,
    learning_rate: float = 0.1,
    chunk: int | None = None,
    device: str = "auto",
) -> BoostedTrees:
    """Fit gradient-boosted trees of two classes to each subset.

    The algorithm is the same as in scikit-learn's ``GradientBoostingClassifier`` with
    its default loss (log-loss) and criterion (Friedman's improvement). Only the depth
    limits a tree: the algorithm considers all splits, and leaves take one Newton step.
    It makes no random draws. Among splits of equal improvement (up to a thousand
    rounding errors) it takes the lowest threshold of the first feature, whereas
    scikit-learn chooses at random. Without such ties, both algorithms give the same
    trees.

    For each model, memory holds an entry for each pair of a row and a split. There is
    one split between any two successive values that a feature has in the model's rows.
    The function is therefore suitable for many subsets of up to about a thousand rows,
    not for one large data set.

    Parameters
    ----------
    X : ndarray of float32 or float64, shape [n, d]
        Features, whose dtype is used for the fit.
    y : ndarray of int, shape [n]
        Class codes 0 and 1. A model whose subset holds only one class votes for that
        class.
    subsets : ndarray of int, shape [n_models, m], or sequence of index arrays of any
    lengths >= 1
        Row indices of each model; repeats are allowed.
    n_trees : int, >= 1
    depth : int, 1 to 8
        Depth of every tree, which has at most ``2^depth`` leaves.
    learning_rate : float, > 0
        Factor by which each tree is multiplied before it is added.
    chunk : int, >= 1, optional
        Number of models in one tensor program; by default chosen from the available
        memory.
    device : {"auto", "cpu", "cuda", ...}
        ``"auto"``: the GPU if there is one.

    Returns
    -------
    BoostedTrees

    Raises
    ------
    ValueError
        If shapes disagree, an index or a class code is out of range, X is not finite,
        or a setting is out of its range.
    MemoryError
        If ``chunk`` models or, without ``chunk``, a single model do not fit into
        memory.

    Source
    ------
    Friedman (2001), Greedy function approximation: a gradient boosting machine,
    Algorithm 5 and equation (35).

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> teachers = fit_boosted_trees(
    ...     X, y, np.arange(400).reshape(4, 100), n_trees=20, device="cpu"
    ... )
    >>> bool((teachers.votes(X[400:]) == y[400:]).mean() > 0.85)
    True
    """
    X = features(X)
    y = class_codes(y, n=len(X), n_classes=2)
    chosen = row_subsets(subsets, n=len(X))
    n_trees = at_least("n_trees", n_trees, 1)
    depth = at_least("depth", depth, 1, most=("the largest depth", LARGEST_DEPTH))
    rate = positive("learning_rate", learning_rate)
    where = choose_device(device)
    rows = torch.tensor(X, device=where)
    labels = torch.tensor(y, device=where, dtype=rows.dtype)

    def fit(models: Integers) -> tuple[Tensor, ...]:
        indices, inside = chosen.padded(models)
        own = torch.from_numpy(indices).to(where)
        weight = torch.from_numpy(inside).to(rows)
        how = {"n_trees": n_trees, "depth": depth}
        return _boost(rows[own], labels[own], weight, rate=rate, **how)

    M = len(chosen)
    inner = 2**depth - 1
    leaves = 2**depth
    results = (
        np.empty(M, X.dtype),
        np.empty((M, n_trees, inner), np.int32),
        np.empty((M, n_trees, inner), X.dtype),
        np.empty((M, n_trees, leaves), X.dtype),
    )
    models = Group(chosen.by_size(), fit, *_bytes_per_model(X, chosen, depth), chunk)
    fit_groups([models], results, device=where)
    return BoostedTrees(*results, n_features=X.shape[1], device=device)


def _boost(
    X: Tensor, y: Tensor, weight: Tensor, *, n_trees: int, depth: int, rate: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Fit B models on rows X [B, m, d] with labels y [B, m], of which those of weight 0
    do not count.

    Gives the log-odds that they start from [B]; features and thresholds of the inner
    nodes [B, n_trees, 2^depth - 1]; values of the leaves [B, n_trees, 2^depth], which
    hold the learning rate.
    """
    splits = all_splits(X)
    prior = ((weight * y).sum(1) / weight.sum(1)).clamp(CERTAIN, 1 - CERTAIN).logit()
    logit = prior[:, None].expand_as(y).clone()
    features = []
    thresholds = []
    values = []
    for _ in range(n_trees):
        chance = logit.sigmoid()
        residual = weight * (y - chance)
        hessian = weight * chance * (1 - chance)
        feature, threshold, leaf = grow(splits, residual, weight, depth)
        sums = X.new_zeros(2, len(X), 2**depth)
        sums.scatter_add_(2, leaf.expand(2, -1, -1), torch.stack([residual, hessian]))
        # an empty leaf adds nothing
        value = rate * (sums[0] / sums[1]).masked_fill_(sums[1] == 0, 0)
        logit += value.gather(1, leaf)
        features.append(feature)
        thresholds.append(threshold)
        values.append(value)
    feature, threshold, value = (
        torch.stack(of_trees, 1) for of_trees in (features, thresholds, values)
    )
    return prior, feature, threshold, value


def all_splits(X: Tensor) -> Splits:
    """Find all splits of each model's rows X [B, m, d]: one split between any two
    successive values of a feature.
    """
    values = X.mT.sort(dim=2).values  # [B, d, m]
    rises = values[..., :-1] < values[..., 1:]
    each = rises.flatten(1).sum(1)
    model, of, place = rises.nonzero(as_tuple=True)
    column = torch.arange(len(model), device=X.device) - (each.cumsum(0) - each)[model]
    shape = (len(X), max(1, int(each.max())))
    feature = of.new_zeros(shape)
    below = X.new_full(shape, torch.inf)
    feature[model, column] = of
    below[model, column] = values[model, of, place]
    right = X.gather(2, feature[:, None].expand(-1, X.shape[1], -1)) > below[:, None]
    return Splits(X, feature, below, right.to(X.dtype))


def grow(
    splits: Splits, residual: Tensor, weight: Tensor, depth: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Grow one tree for each of B models, level by level; a node is split where
    Friedman's improvement is largest.

    If a node has n rows with the sum R of residuals, and a split sends n_r rows with
    the sum R_r to the right and n_l
    rows with the sum R_l to the left, the improvement is
    (R_r / n_r - R_l / n_l)^2 n_r n_l / n = (n R_r - n_r R)^2 / (n n_r n_l).

    Parameters
    ----------
    splits : Splits
    residual, weight : tensor, shape [B, m]
        Rows of weight 0 have residual 0.
    depth : int

    Returns
    -------
    feature : tensor of int64, shape [B, 2^depth - 1]
        Features of the inner nodes, level by level.
    threshold : tensor of float, shape [B, 2^depth - 1]
        Thresholds midway between successive values of the rows in the node, or inf if
        all rows go left.
    leaf : tensor of int64, shape [B, m]
        Leaf in which each row ends, from left to right.
    """
    right = splits.right
    # of the largest improvement, which splits that are as good may lack
    least = 1 - EQUAL * torch.finfo(residual.dtype).eps
    leaf = torch.zeros_like(residual, dtype=torch.int64)
    # [B, 2, nodes]: R and n
    total = torch.stack([residual.sum(1), weight.sum(1)], 1)[:, :, None]
    # [B, 2, nodes, C]: R_r and n_r
    part = torch.bmm(torch.stack([residual, weight], 1), right)[:, :, None]
    features = []
    thresholds = []
    for level in range(depth):
        # sums of the children on the right; those on the left are what remains of their
        # parents'
        if level:
            odd = torch.arange(1, 2**level, 2, device=leaf.device)
            # [B, nodes / 2, m]
            inside = (leaf[:, None] == odd[:, None]).to(right.dtype)
            own = torch.stack([inside * residual[:, None], inside * weight[:, None]], 1)
            sums = torch.bmm(own.flatten(1, 2), right).view(*own.shape[:3], -1)
            part = torch.stack([part - sums, sums], 3).flatten(2, 3)
        all_residuals, all_rows = total[..., None].unbind(1)
        residuals, rows = part.unbind(1)
        product = rows * (all_rows - rows)
        gain = (all_rows * residuals - rows * all_residuals).square_().div_(product)
        best = gain.masked_fill_(product == 0, -1).amax(2)  # [B, nodes]
        # the first of the best
        split = (gain >= (best * least)[..., None]).to(torch.uint8).argmax(2)
        divided = best >= 0
        feature = splits.feature.gather(1, split)
        below = splits.below.gather(1, split).masked_fill_(~divided, torch.inf)
        seen = splits.X.gather(2, feature.gather(1, leaf)[..., None])[..., 0]  # [B, m]
        leaf = 2 * leaf + (seen > below.gather(1, leaf))
        features.append(feature)
        threshold = _between(seen, leaf, 2 ** (level + 1))
        thresholds.append(threshold.masked_fill_(~divided, torch.inf))
        chosen = split[:, None, :, None].expand(-1, 2, -1, -1)
        moved = part.gather(3, chosen).squeeze(3) * divided[:, None]
        total = torch.stack([total - moved, moved], 3).flatten(2, 3)
    return torch.cat(features, 1), torch.cat(thresholds, 1), leaf


def _between(seen: Tensor, child: Tensor, n_children: int) -> Tensor:
    """Thresholds [B, n_children / 2] of nodes whose feature the rows ``seen`` [B, m]
    have, and that sent them on.
    """
    ends = seen.new_zeros(len(seen), n_children)
    below = ends.scatter_reduce(1, child, seen, "amax", include_self=False)[:, ::2]
    above = ends.scatter_reduce(1, child, seen, "amin", include_self=False)[:, 1::2]
    middle = below / 2 + above / 2
    # there may be no number between two
    return torch.where(middle < above, middle, below)


def _bytes_per_model(X: Features, chosen: Subsets, depth: int) -> tuple[int, int]:
    """Bytes of the model with most rows, and those of its splits, which every level
    of a tree reads.
    """
    values = np.sort(X[chosen.padded(chosen.by_size()[-1:])[0][0]], axis=0)
    m = len(values)
    splits = int(np.count_nonzero(values[:-1] < values[1:]))
    level = 2 ** (depth + 2) * (splits + 1)
    held = m * (splits + X.shape[1] + 8) + level
    return X.itemsize * held, X.itemsize * (m * splits + 1)
