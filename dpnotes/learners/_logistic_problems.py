"""Softmax regressions as functions to minimise: over the weights themselves, or over the span of the rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import torch

GRAM_STRIPS = 3  # of a Gram matrix: a third of its products is left out by symmetry
ROW_BLOCK, NARROW = 1024, 64


@dataclass(eq=False, kw_only=True)
class Problems:
    """k softmax regressions with C classes and m rows each, as functions of coordinates v [k, C, p].

    Minimised is the sum, not the mean, over the rows of the cross-entropy, plus ``penalty``/2 times the squared norm of
    the penalised coordinates, plus the product with ``linear``. Coordinates carry an inner product <a, b>, given as the
    plain product of a with the dual of b. ``dual`` says how: "same" (orthonormal: a vector is its own dual), "carried"
    (duals of iterates and directions are needed, and carried along), "gradient" (only those of gradients are).

    Parameters
    ----------
    targets : torch.Tensor, shape [k, C, m], or [1, C, m] if all models share them
        1 at the class of each row, else 0.
    penalty : torch.Tensor, shape [k, 1, 1], or [k, 1, p] where coordinates differ
    counts : torch.Tensor, shape [k, 1, m], optional
        1 for a row, 0 for padding.
    offset : torch.Tensor, shape [k, C, 1], optional
        Added to the logits; -inf takes a class out.
    """

    targets: torch.Tensor
    penalty: torch.Tensor
    counts: torch.Tensor | None = None
    offset: torch.Tensor | None = None

    dual: ClassVar = "same"
    history = 5  # pairs that L-BFGS keeps: more cost as much time as they save, unless the rows are many

    def first(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """First iterate, its dual and its logits."""
        raise NotImplementedError

    def logits(self, v: torch.Tensor, dual: torch.Tensor) -> torch.Tensor:
        """Logits [k, C, m] of v without the offset."""
        raise NotImplementedError

    def gradient(self, P: torch.Tensor, v: torch.Tensor, dual: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Gradient at v, where the probabilities are P [k, C, m], and its dual."""
        raise NotImplementedError

    def penalty_second_derivative(self, D: torch.Tensor, dual: torch.Tensor) -> torch.Tensor:
        """Second derivative [k] of the penalty along D."""
        return (D * dual).mul_(self.penalty).flatten(1).sum(1)

    def norm(self, g: torch.Tensor, dual: torch.Tensor, tolerance: torch.Tensor, *, exact: bool) -> torch.Tensor:
        """Max-norm [k] of the gradient with respect to weights and intercepts.

        Without ``exact`` a larger number may stand in where the max-norm is, or probably is, above ``tolerance``.
        """
        raise NotImplementedError

    def keep(self, models: torch.Tensor) -> None:
        """Drop all models but these."""
        self._keep("penalty", "counts", *(["targets"] if len(self.targets) > 1 else []), models=models)

    def _keep(self, *names: str, models: torch.Tensor) -> None:
        for name in names:
            if (values := getattr(self, name)) is not None:
                setattr(self, name, values[models])

    def _residual(self, P: torch.Tensor) -> torch.Tensor:
        R = P - self.targets
        return R if self.counts is None else R.mul_(self.counts)


@dataclass(eq=False, kw_only=True)
class RowProblems(Problems):
    """Coordinates are the weights: one forward and one backward product an iteration.

    Parameters
    ----------
    rows : torch.Tensor, shape [k, m, p], or [m, p] if all models share them
        Then the models are columns of one product.
    linear : torch.Tensor, shape [k, C, p], optional
    start : torch.Tensor, shape [k, C, p], optional
        First iterate; default zero.
    """

    rows: torch.Tensor
    linear: torch.Tensor | None = None
    start: torch.Tensor | None = None

    def __post_init__(self) -> None:
        self.history = 5 if self.rows.ndim == 3 else 20

    def first(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        k, C = len(self.penalty), self.targets.shape[1]
        if self.start is None:
            W = self.rows.new_zeros((k, C, self.rows.shape[-1]))
            Z = self.rows.new_zeros((k, C, self.rows.shape[-2]))
        else:
            W = self.start.clone()
            Z = self.logits(W, W)
        if self.offset is not None:
            Z += self.offset
        return W, W, Z

    def logits(self, v: torch.Tensor, dual: torch.Tensor) -> torch.Tensor:
        if self.rows.ndim == 3:
            return torch.bmm(v, self.rows.mT)
        flat = _sixteen(v.view(-1, v.shape[2]))
        # a few columns against long rows: on a CPU faster in blocks that stay in cache
        blocks = (self.rows,) if self.rows.is_cuda or len(flat) > NARROW else torch.split(self.rows, ROW_BLOCK)
        Z = torch.cat([torch.mm(flat, block.mT) for block in blocks], 1)
        return Z[: v.shape[0] * v.shape[1]].view(*v.shape[:2], -1)

    def gradient(self, P: torch.Tensor, v: torch.Tensor, dual: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        R = self._residual(P)
        if self.rows.ndim == 3:
            G = torch.bmm(R, self.rows)
        else:
            G = torch.mm(_sixteen(R.view(-1, R.shape[2])), self.rows)[: v.shape[0] * v.shape[1]].view(v.shape)
        G.addcmul_(v, self.penalty)
        if self.linear is not None:
            G += self.linear
        return G, G

    def norm(self, g: torch.Tensor, dual: torch.Tensor, tolerance: torch.Tensor, *, exact: bool) -> torch.Tensor:
        return g.abs().amax((1, 2))

    def keep(self, models: torch.Tensor) -> None:
        super().keep(models)
        self._keep("linear", *(["rows"] if self.rows.ndim == 3 else []), models=models)


def _sixteen(flat: torch.Tensor) -> torch.Tensor:
    """The rows, on a CPU in float64 made up to 16 by zeros: fewer take longer, up to a third."""
    missing = 16 - len(flat)
    if missing <= 0 or flat.is_cuda or flat.dtype != torch.float64:
        return flat
    return torch.cat([flat, flat.new_zeros((missing, flat.shape[1]))])


@dataclass(eq=False, kw_only=True)
class PreconditionedProblems(RowProblems):
    """Row problems on shared rows, in the inner product of blocks of the Hessian that all models share, one a class.

    Parameters
    ----------
    inverse : torch.Tensor, shape [C, p, p]
        Inverse of each block.
    """

    inverse: torch.Tensor

    dual: ClassVar = "gradient"

    def gradient(self, P: torch.Tensor, v: torch.Tensor, dual: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        G, _ = super().gradient(P, v, dual)
        return torch.bmm(G.transpose(0, 1), self.inverse).transpose(0, 1).contiguous(), G

    def norm(self, g: torch.Tensor, dual: torch.Tensor, tolerance: torch.Tensor, *, exact: bool) -> torch.Tensor:
        return dual.abs().amax((1, 2))


@dataclass(eq=False, kw_only=True)
class SpanProblems(Problems):
    """Coordinates a [k, C, m] are the weights W = a X in the span of the rows X, where an L2 term keeps the solution.

    With the Gram matrix K = X X' the logits are a K and the inner product of weights is a K b', so the dual of a is
    a K, its logits. The gradient R X + penalty W has the coordinates R + penalty a, so an iteration takes one product,
    with an m x m matrix, and no factorisation; K may be singular. Every iterate is the one that the same method in W
    would take. An unpenalised intercept is one more coordinate, orthonormal to the others.

    Parameters
    ----------
    rows : torch.Tensor, shape [k, m, d]
    gram : torch.Tensor, shape [k, m, m]
    intercept : bool
    """

    rows: torch.Tensor
    gram: torch.Tensor
    intercept: bool

    dual: ClassVar = "carried"

    def __post_init__(self) -> None:
        self.active = torch.arange(len(self.rows), device=self.rows.device)
        entries = self.targets.shape[1] * (self.rows.shape[2] + self.intercept)
        self.ratio = self.gram.new_full((len(self.rows),), math.sqrt(entries))  # 2-norm over max-norm, at most

    def first(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        k, C, m = len(self.gram), self.targets.shape[1], self.gram.shape[1]
        a = self.gram.new_zeros((k, C, m + self.intercept))
        Z = self.gram.new_zeros((k, C, m))
        if self.offset is not None:
            Z += self.offset
        return a, torch.zeros_like(a), Z

    def logits(self, v: torch.Tensor, dual: torch.Tensor) -> torch.Tensor:
        return dual[:, :, :-1] + dual[:, :, -1:] if self.intercept else dual

    def gradient(self, P: torch.Tensor, v: torch.Tensor, dual: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        R = self._residual(P)
        if not self.intercept:
            R.addcmul_(v, self.penalty)
            return R, torch.bmm(R, self.gram.mT)
        total = R.sum(2, keepdim=True)
        R.addcmul_(v[:, :, :-1], self.penalty)
        return torch.cat([R, total], 2), torch.cat([torch.bmm(R, self.gram.mT), total], 2)

    def penalty_second_derivative(self, D: torch.Tensor, dual: torch.Tensor) -> torch.Tensor:
        if self.intercept:
            D, dual = D[:, :, :-1], dual[:, :, :-1]
        return super().penalty_second_derivative(D, dual)

    def norm(self, g: torch.Tensor, dual: torch.Tensor, tolerance: torch.Tensor, *, exact: bool) -> torch.Tensor:
        size = (g * dual).flatten(1).sum(1).clamp_(min=0).sqrt_()  # 2-norm of the gradient in W
        near = (size <= self.ratio * tolerance) | exact
        if bool(near.any()):
            which = near.nonzero()[:, 0]
            largest = self._weights(g[which], self.active[which]).abs().amax((1, 2))
            # the ratio moves little between two tests: not worth a product while the 2-norm is far off
            self.ratio[which] = torch.minimum(self.ratio[which], 1.1 * size[which] / largest)
            size[which] = largest
        return size

    def weights(self, v: torch.Tensor) -> torch.Tensor:
        """Coordinates of all models, as they were at first, as weights, and intercept if any: [k, C, d (+ 1)]."""
        return self._weights(v, torch.arange(len(v), device=v.device))

    def _weights(self, v: torch.Tensor, models: torch.Tensor) -> torch.Tensor:
        a = v[:, :, :-1] if self.intercept else v
        if len(models) == len(self.rows):
            W = torch.bmm(a, self.rows)
        elif self.rows.is_cuda:
            W = torch.bmm(a, self.rows[models])
        else:  # a copy of the rows costs more than the product with them
            W = torch.stack([torch.mm(one, self.rows[model]) for one, model in zip(a, models.tolist(), strict=True)])
        return torch.cat([W, v[:, :, -1:]], 2) if self.intercept else W

    def keep(self, models: torch.Tensor) -> None:
        super().keep(models)
        self._keep("gram", "active", "ratio", models=models)


def gram_matrices(rows: torch.Tensor) -> torch.Tensor:
    """Products [k, m, m] of all pairs of rows [k, m, d]; only blocks on and below the diagonal are multiplied out."""
    m = rows.shape[1]
    gram = rows.new_empty((len(rows), m, m))
    edges = [m * i // GRAM_STRIPS for i in range(GRAM_STRIPS + 1)] if m >= 16 * GRAM_STRIPS else [0, m]
    for low, high in pairwise(edges):
        block = torch.bmm(rows[:, low:high], rows[:, :high].mT)
        gram[:, low:high, :high] = block
        gram[:, :low, low:high] = block[:, :, :low].mT
    return gram
