"""Softmax regressions as functions to minimise: over the weights themselves, or over
the span of the rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import torch
from torch import Tensor

# fraction of models still active below which the others' memory is let go
COMPACT_AT = 0.75
ROWS_PER_FEATURE = 8  # evenly spaced; more do not improve the preconditioner
BLOCK = 5  # a block takes about 20 d^3 operations, an iteration 4 n d for each column
GRAM_STRIPS = 3  # of a Gram matrix: a third of its products is left out by symmetry
ROW_BLOCK, NARROW = 1024, 64
# pairs that L-BFGS keeps: more cost as much time as they save, unless rows are shared
HISTORY, LONG_HISTORY = 5, 20


class Active:
    """Problems, out of k, that are still being minimised, and the results of the
    finished problems.

    Parameters
    ----------
    tolerance : torch.Tensor, shape [k]
    max_iterations : int, >= 0
    results : tensor, shape [k, ...]
        Tensors with the shape and dtype of the results of each problem.

    Attributes
    ----------
    tolerance : torch.Tensor
        Tolerances of the problems that are still active.
    results : list of torch.Tensor
        Values that :meth:`finish` stored for each problem, in the original numbering;
        gradient norms are last.
    iterations : torch.Tensor of int64, shape [k]
    """

    def __init__(
        self, tolerance: Tensor, max_iterations: int, *results: Tensor
    ) -> None:
        k, device = len(tolerance), tolerance.device
        self.tolerance, self.max_iterations = tolerance, max_iterations
        self.results = [torch.empty_like(each) for each in (*results, tolerance)]
        self.iterations = torch.full((k,), max_iterations, device=device)
        self._numbers = torch.arange(k, device=device)
        self._done = torch.zeros(k, dtype=torch.bool, device=device)

    def finish(self, iteration: int, norm: Tensor, *values: Tensor) -> bool:
        """Store values of problems within tolerance, or of all at the last
        iteration; return True if none remains.
        """
        last = iteration == self.max_iterations
        new = ~self._done & ((norm <= self.tolerance) | last)
        which = self._numbers[new]
        for result, value in zip(self.results, (*values, norm), strict=True):
            result[which] = value[new]
        self.iterations[which] = iteration
        self._done |= new
        return last or bool(self._done.all())

    def left(self) -> Tensor | None:
        """Places of the active problems, or None as long as too few are finished to
        make dropping them worthwhile.
        """
        if float((~self._done).double().mean()) >= COMPACT_AT:
            return None
        left = (~self._done).nonzero()[:, 0]
        self._numbers, self.tolerance, self._done = (
            self._numbers[left],
            self.tolerance[left],
            self._done[left],
        )
        return left


def pays(n: int, d: int, *, columns: int, blocks: int, saved: int) -> bool:
    """Whether ``saved`` iterations on ``columns`` (models times classes) repay
    ``blocks`` blocks of d x d.
    """
    return saved * columns * n >= BLOCK * blocks * d * d


def inverse_blocks(A: Tensor, penalty: Tensor, *, W: Tensor) -> Tensor:
    """Inverses [C, p, p] of the diagonal blocks of the Hessian at W.

    Parameters
    ----------
    A : torch.Tensor, shape [n, p]
    penalty : torch.Tensor, shape [1 or p]
        Penalty in the objective, which is a sum over rows.
    W : torch.Tensor, shape [C, p]

    Returns
    -------
    torch.Tensor, shape [C, p, p], symmetric, in the dtype of A
    """
    n, p = A.shape
    sample = A[:: max(1, n // (ROWS_PER_FEATURE * p))]
    # at zero all classes are equally probable, and the blocks are equal
    if not bool(W.any()):
        each = 1 / len(W)
        return _inverse(
            sample, penalty, scale=each * (1 - each) * n / len(sample)
        ).expand(len(W), p, p)
    P = torch.mm(W, sample.mT).softmax(0)
    blocks = [
        _inverse(sample * (q * (1 - q)).sqrt()[:, None], penalty, scale=n / len(sample))
        for q in P
    ]
    return torch.stack(blocks)


def _inverse(rows: Tensor, penalty: Tensor, *, scale: float) -> Tensor:
    hessian = (rows.mT @ rows).double() * scale
    # a term of the size of rounding keeps a product in float32 positive definite
    rounding = 1e-6 * hessian.diagonal().mean() + torch.finfo(torch.float64).tiny
    hessian.diagonal().add_(penalty.double() + rounding)
    return torch.cholesky_inverse(torch.linalg.cholesky(hessian)).to(rows.dtype)


@dataclass(eq=False, kw_only=True)
class RowProblems:
    """k softmax regressions with C classes and m rows each, as functions of their
    weights, coordinates v [k, C, p].

    The objective is the cross-entropy summed, not averaged, over the rows, plus
    ``penalty``/2 times the squared norm of the penalised coordinates, plus the product
    with ``linear``. An iteration takes one forward and one backward product. The inner
    product <a, b> of coordinates is the plain product of a with the dual of b. ``dual``
    is "same" if a vector equals its dual, because the coordinates are orthonormal. It
    is "carried" if the duals of iterates and directions are needed and carried along,
    and "gradient" if only the duals of gradients are needed.

    Parameters
    ----------
    rows : torch.Tensor, shape [k, m, p], or [m, p] if all models share them
        Rows of each model; models that share rows are columns of one product.
    targets : torch.Tensor, shape [k, C, m], or [1, C, m] if all models share them
        1 at the class of each row, else 0.
    penalty : torch.Tensor, shape [k, 1, 1], or [k, 1, p] where coordinates differ
    counts : torch.Tensor, shape [k, 1, m], optional
        1 for a row, 0 for padding.
    offset : torch.Tensor, shape [k, C, 1], optional
        Offset that is added to the logits; -inf removes a class.
    linear : torch.Tensor, shape [k, C, p], optional
    start : torch.Tensor, shape [k, C, p], optional
        First iterate; by default zero.
    """

    rows: Tensor
    targets: Tensor
    penalty: Tensor
    counts: Tensor | None = None
    offset: Tensor | None = None
    linear: Tensor | None = None
    start: Tensor | None = None

    dual: ClassVar = "same"

    def __post_init__(self) -> None:
        self.history = HISTORY if self.rows.ndim == 3 else LONG_HISTORY

    def first(self) -> tuple[Tensor, Tensor, Tensor]:
        """First iterate, its dual and its logits."""
        if self.start is None:
            k, C = len(self.penalty), self.targets.shape[1]
            W = self.rows.new_zeros((k, C, self.rows.shape[-1]))
            Z = self.rows.new_zeros((k, C, self.rows.shape[-2]))
        else:
            W = self.start.clone()
            Z = self.logits(W, W)
        if self.offset is not None:
            Z += self.offset
        return W, W, Z

    def logits(self, v: Tensor, dual: Tensor) -> Tensor:
        """Logits [k, C, m] of v without the offset."""
        if self.rows.ndim == 3:
            return torch.bmm(v, self.rows.mT)
        flat = _sixteen(v.view(-1, v.shape[2]))
        # a few columns against long rows: on a CPU faster in blocks that stay in cache
        blocks = (
            (self.rows,)
            if self.rows.is_cuda or len(flat) > NARROW
            else torch.split(self.rows, ROW_BLOCK)
        )
        Z = torch.cat([torch.mm(flat, block.mT) for block in blocks], 1)
        return Z[: v.shape[0] * v.shape[1]].view(*v.shape[:2], -1)

    def gradient(self, P: Tensor, v: Tensor, dual: Tensor) -> tuple[Tensor, Tensor]:
        """Gradient at v and the dual of the gradient; P [k, C, m] are the
        probabilities at v.
        """
        R = self._residual(P)
        if self.rows.ndim == 3:
            G = torch.bmm(R, self.rows)
        else:
            G = torch.mm(_sixteen(R.view(-1, R.shape[2])), self.rows)[
                : v.shape[0] * v.shape[1]
            ].view(v.shape)
        G.addcmul_(v, self.penalty)
        if self.linear is not None:
            G += self.linear
        return G, G

    def penalty_second_derivative(self, D: Tensor, dual: Tensor) -> Tensor:
        """Second derivative [k] of the penalty along D."""
        return (D * dual).mul_(self.penalty).flatten(1).sum(1)

    def norm(
        self, g: Tensor, dual: Tensor, tolerance: Tensor, *, exact: bool
    ) -> Tensor:
        """Max-norm [k] of the gradient with respect to weights and intercepts.

        Without ``exact`` the method may return a larger number if the max-norm is, or
        probably is, above ``tolerance``.
        """
        return dual.abs().amax((1, 2))

    def keep(self, models: Tensor) -> None:
        """Drop all models except these."""
        shared = {"targets": len(self.targets) == 1, "rows": self.rows.ndim == 2}
        self._keep(
            models,
            "penalty",
            "counts",
            "linear",
            *(name for name in shared if not shared[name]),
        )

    def _keep(self, models: Tensor, *names: str) -> None:
        for name in names:
            if (values := getattr(self, name)) is not None:
                setattr(self, name, values[models])

    def _residual(self, P: Tensor) -> Tensor:
        R = P - self.targets
        return R if self.counts is None else R.mul_(self.counts)


def _sixteen(flat: Tensor) -> Tensor:
    """The rows, on a CPU in float64 made up to 16 by zeros: fewer take longer, up to
    a third.
    """
    missing = 16 - len(flat)
    if missing <= 0 or flat.is_cuda or flat.dtype != torch.float64:
        return flat
    return torch.cat([flat, flat.new_zeros((missing, flat.shape[1]))])


@dataclass(eq=False, kw_only=True)
class PreconditionedProblems(RowProblems):
    """Row problems on shared rows, whose inner product comes from one block of the
    Hessian for each class.

    All models share the blocks. A common shift of the weights of all classes does not
    change the loss, so along this shift the Hessian of the objective is only the
    Hessian of the penalty. The blocks assume it to be many times as large. If they are
    ``centred``, they act on gradients and give directions with class mean zero, and the
    class mean of a gradient is divided by the penalty.

    Parameters
    ----------
    inverse : torch.Tensor, shape [C, p, p]
        Inverse of each block.
    centred : bool
    """

    inverse: Tensor
    centred: bool = False

    dual: ClassVar = "gradient"

    def gradient(self, P: Tensor, v: Tensor, dual: Tensor) -> tuple[Tensor, Tensor]:
        G, _ = super().gradient(P, v, dual)
        if not self.centred:
            return self._through_blocks(G), G
        mean = G.mean(1, keepdim=True)
        D = self._through_blocks(G - mean)
        return D.sub_(D.mean(1, keepdim=True)).add_(mean / self.penalty), G

    def _through_blocks(self, G: Tensor) -> Tensor:
        return torch.bmm(G.transpose(0, 1), self.inverse).transpose(0, 1).contiguous()


@dataclass(eq=False, kw_only=True)
class SpanProblems(RowProblems):
    """Softmax regressions in the span of the rows X: the coordinates a [k, C, m] stand
    for the weights W = a X.

    An L2 term keeps the solution in this span. With the Gram matrix K = X X' the logits
    are a K, and the inner product of the weights of a and b is a K b', so the dual of a
    is a K, its logits. With residuals R, the gradient R X + penalty W has the
    coordinates R + penalty a. An iteration therefore takes one product with an m x m
    matrix and no factorisation; K may be singular. Every iterate equals the iterate of
    the same method in W. An unpenalised intercept is one more coordinate, orthonormal
    to the others.

    Parameters
    ----------
    rows : torch.Tensor, shape [k, m, d]
    gram : torch.Tensor, shape [k, m, m]
    intercept : bool
    """

    gram: Tensor
    intercept: bool

    dual: ClassVar = "carried"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.active = torch.arange(len(self.rows), device=self.rows.device)
        entries = self.targets.shape[1] * (self.rows.shape[2] + self.intercept)
        # 2-norm over max-norm, at most
        self.ratio = self.gram.new_full((len(self.rows),), math.sqrt(entries))

    def first(self) -> tuple[Tensor, Tensor, Tensor]:
        k, C, m = len(self.gram), self.targets.shape[1], self.gram.shape[1]
        a = self.gram.new_zeros((k, C, m + self.intercept))
        Z = self.gram.new_zeros((k, C, m))
        if self.offset is not None:
            Z += self.offset
        return a, torch.zeros_like(a), Z

    def logits(self, v: Tensor, dual: Tensor) -> Tensor:
        return dual[:, :, :-1] + dual[:, :, -1:] if self.intercept else dual

    def gradient(self, P: Tensor, v: Tensor, dual: Tensor) -> tuple[Tensor, Tensor]:
        R = self._residual(P)
        if not self.intercept:
            R.addcmul_(v, self.penalty)
            return R, torch.bmm(R, self.gram.mT)
        total = R.sum(2, keepdim=True)
        R.addcmul_(v[:, :, :-1], self.penalty)
        return torch.cat([R, total], 2), torch.cat(
            [torch.bmm(R, self.gram.mT), total], 2
        )

    def penalty_second_derivative(self, D: Tensor, dual: Tensor) -> Tensor:
        if self.intercept:
            D, dual = D[:, :, :-1], dual[:, :, :-1]
        return super().penalty_second_derivative(D, dual)

    def norm(
        self, g: Tensor, dual: Tensor, tolerance: Tensor, *, exact: bool
    ) -> Tensor:
        # 2-norm of the gradient in W
        size = (g * dual).flatten(1).sum(1).clamp_(min=0).sqrt_()
        near = (size <= self.ratio * tolerance) | exact
        if bool(near.any()):
            which = near.nonzero()[:, 0]
            largest = self._weights(g[which], self.active[which]).abs().amax((1, 2))
            # the ratio moves little between two tests: not worth a product while the
            # 2-norm is far off
            self.ratio[which] = torch.minimum(
                self.ratio[which], 1.1 * size[which] / largest
            )
            size[which] = largest
        return size

    def weights(self, v: Tensor) -> Tensor:
        """Convert coordinates of all models, also of dropped ones, to weights and
        any intercept: [k, C, d (+ 1)].
        """
        return self._weights(v, torch.arange(len(v), device=v.device))

    def _weights(self, v: Tensor, models: Tensor) -> Tensor:
        a = v[:, :, :-1] if self.intercept else v
        if len(models) == len(self.rows):
            W = torch.bmm(a, self.rows)
        elif self.rows.is_cuda:
            W = torch.bmm(a, self.rows[models])
        else:  # a copy of the rows costs more than the product with them
            W = torch.stack(
                [
                    torch.mm(one, self.rows[model])
                    for one, model in zip(a, models.tolist(), strict=True)
                ]
            )
        return torch.cat([W, v[:, :, -1:]], 2) if self.intercept else W

    def keep(self, models: Tensor) -> None:
        # weights are made of all rows
        self._keep(models, "penalty", "counts", "targets", "gram", "active", "ratio")


def gram_matrices(rows: Tensor) -> Tensor:
    """Products [k, m, m] of all pairs of rows [k, m, d]; only blocks on and below
    the diagonal are computed.
    """
    m = rows.shape[1]
    gram = rows.new_empty((len(rows), m, m))
    edges = (
        [m * i // GRAM_STRIPS for i in range(GRAM_STRIPS + 1)]
        if m >= 16 * GRAM_STRIPS
        else [0, m]
    )
    for low, high in pairwise(edges):
        block = torch.bmm(rows[:, low:high], rows[:, :high].mT)
        gram[:, low:high, :high] = block
        gram[:, :low, low:high] = block[:, :, :low].mT
    return gram
