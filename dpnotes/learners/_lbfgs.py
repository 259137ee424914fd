"""Many softmax regressions at once by L-BFGS, which carries the logits along instead
of recomputing them; over the weights themselves, or over the span of the rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

# fraction of models still active below which the others' memory is let go
COMPACT_AT = 0.75
ROWS_PER_FEATURE = 8  # evenly spaced; more do not improve the preconditioner
BLOCK = 5  # a block takes about 20 d^3 operations, an iteration 4 n d for each column
GRAM_STRIPS = 3  # of a Gram matrix: a third of its products is left out by symmetry
ROW_BLOCK = 1024
GRADIENT_BLOCK = 65_536  # rows of a gradient at a time
NARROW = 64
# pairs that L-BFGS keeps: more cost as much time as they save, unless rows are shared
HISTORY = 5
LONG_HISTORY = 20
# iterations between tests of convergence: each is a reduction and a wait for the device
CHECK_EVERY = 5


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
        k = len(tolerance)
        device = tolerance.device
        self.tolerance = tolerance
        self.max_iterations = max_iterations
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
        self._numbers = self._numbers[left]
        self.tolerance = self.tolerance[left]
        self._done = self._done[left]
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
    scale = n / len(sample)
    if not bool(W.any()):
        each = 1 / len(W)
        block = _inverse(sample, penalty, scale=each * (1 - each) * n / len(sample))
        return block.expand(len(W), p, p)
    blocks = []
    for q in torch.mm(W, sample.mT).softmax(0):
        # the second derivative of a row's loss by its own logit
        weight = (q * (1 - q)).sqrt()[:, None]
        blocks.append(_inverse(sample * weight, penalty, scale=scale))
    return torch.stack(blocks)


def _inverse(rows: Tensor, penalty: Tensor, *, scale: float) -> Tensor:
    hessian = (rows.mT @ rows).double() * scale
    # a term of the size of rounding keeps a product in float32 positive definite
    rounding = 1e-6 * hessian.diagonal().mean() + torch.finfo(torch.float64).tiny
    hessian.diagonal().add_(penalty.double() + rounding)
    factor, failed = torch.linalg.cholesky_ex(hessian)
    # rows beyond the range of float32: any inverse leads to the same minimum, and no
    # error may tell of a row
    if failed:
        return torch.eye(len(hessian)).to(rows) / penalty
    return torch.cholesky_inverse(factor).to(rows.dtype)


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
    inverse : torch.Tensor, shape [C, p, p], optional
        Inverse of one block of the Hessian for each class, from which the inner product
        comes; on shared rows only.
    centred : bool
        A common shift of the weights of all classes does not change the loss, so along
        this shift the Hessian of the objective is only the Hessian of the penalty. The
        blocks assume it to be many times as large. If they are ``centred``, they act on
        gradients and give directions with class mean zero, and the class mean of a
        gradient is divided by the penalty.
    """

    rows: Tensor
    targets: Tensor
    penalty: Tensor
    counts: Tensor | None = None
    offset: Tensor | None = None
    linear: Tensor | None = None
    start: Tensor | None = None
    inverse: Tensor | None = None
    centred: bool = False

    def __post_init__(self) -> None:
        self.history = HISTORY if self.rows.ndim == 3 else LONG_HISTORY

    @property
    def dual(self) -> str:
        """Which duals are needed."""
        return "same" if self.inverse is None else "gradient"

    def first(self) -> tuple[Tensor, Tensor, Tensor]:
        """First iterate, its dual and its logits."""
        if self.start is None:
            k = len(self.penalty)
            C = self.targets.shape[1]
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
        size = ROW_BLOCK
        if self.rows.is_cuda or len(flat) > NARROW:
            size = len(self.rows)
        # without the rows of zeros that made them sixteen
        columns = v.shape[0] * v.shape[1]
        if size >= len(self.rows):
            Z = torch.mm(flat, self.rows.mT)[:columns]
        else:
            Z = self.rows.new_empty((columns, len(self.rows)))
            for start in range(0, len(self.rows), size):
                block = slice(start, start + size)
                Z[:, block] = torch.mm(flat, self.rows[block].mT)[:columns]
        return Z.view(*v.shape[:2], -1)

    def gradient(self, P: Tensor, v: Tensor, dual: Tensor) -> tuple[Tensor, Tensor]:
        """Gradient at v and the dual of the gradient; P [k, C, m] are the
        probabilities at v.
        """
        R = self._residual(P)
        if self.rows.ndim == 3:
            G = torch.bmm(R, self.rows)
        else:
            flat = R.view(-1, R.shape[2])
            G = flat.new_zeros((len(flat), v.shape[2]))
            # in blocks, because the columns that are added take memory, too
            size = len(self.rows) if self.rows.is_cuda else GRADIENT_BLOCK
            for start in range(0, len(self.rows), size):
                block = slice(start, start + size)
                G += torch.mm(_sixteen(flat[:, block]), self.rows[block])[: len(flat)]
            G = G.view(v.shape)
        G.addcmul_(v, self.penalty)
        if self.linear is not None:
            G += self.linear
        if self.inverse is None:
            return G, G
        if not self.centred:
            return _through_blocks(G, self.inverse), G
        # along a common shift of all classes only the penalty bends
        mean = G.mean(1, keepdim=True)
        D = _through_blocks(G - mean, self.inverse)
        return D.sub_(D.mean(1, keepdim=True)).add_(mean / self.penalty), G

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
        self._keep(models, "penalty", "counts", "linear")
        if len(self.targets) > 1:
            self._keep(models, "targets")
        if self.rows.ndim == 3:
            self._keep(models, "rows")

    def _keep(self, models: Tensor, *names: str) -> None:
        for name in names:
            if (values := getattr(self, name)) is not None:
                setattr(self, name, values[models])

    def _residual(self, P: Tensor) -> Tensor:
        R = P - self.targets
        return R if self.counts is None else R.mul_(self.counts)


def _through_blocks(G: Tensor, blocks: Tensor) -> Tensor:
    """Each class's gradient [k, C, p] times its block [C, p, p]."""
    return torch.bmm(G.transpose(0, 1), blocks).transpose(0, 1).contiguous()


def _sixteen(flat: Tensor) -> Tensor:
    """The rows, on a CPU in float64 made up to 16 by zeros: fewer take longer, up to
    a third.
    """
    missing = 16 - len(flat)
    if missing <= 0 or flat.is_cuda or flat.dtype != torch.float64:
        return flat
    return torch.cat([flat, flat.new_zeros((missing, flat.shape[1]))])


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

    @property
    def dual(self) -> str:
        return "carried"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.active = torch.arange(len(self.rows), device=self.rows.device)
        entries = self.targets.shape[1] * (self.rows.shape[2] + self.intercept)
        # 2-norm over max-norm, at most
        self.ratio = self.gram.new_full((len(self.rows),), math.sqrt(entries))

    def first(self) -> tuple[Tensor, Tensor, Tensor]:
        k = len(self.gram)
        C = self.targets.shape[1]
        m = self.gram.shape[1]
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
        image = torch.bmm(R, self.gram.mT)
        return torch.cat([R, total], 2), torch.cat([image, total], 2)

    def penalty_second_derivative(self, D: Tensor, dual: Tensor) -> Tensor:
        if self.intercept:
            D = D[:, :, :-1]
            dual = dual[:, :, :-1]
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
            found = 1.1 * size[which] / largest
            self.ratio[which] = torch.minimum(self.ratio[which], found)
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
        else:
            # a copy of the rows costs more than the product with them
            rows = [self.rows[model] for model in models.tolist()]
            products = [torch.mm(one, own) for one, own in zip(a, rows, strict=True)]
            W = torch.stack(products)
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
    strips = GRAM_STRIPS if m >= 16 * GRAM_STRIPS else 1
    edges = [m * i // strips for i in range(strips + 1)]
    for low, high in pairwise(edges):
        block = torch.bmm(rows[:, low:high], rows[:, :high].mT)
        gram[:, low:high, :high] = block
        gram[:, :low, low:high] = block[:, :, :low].mT
    return gram


def minimise(
    problems: RowProblems, tolerance: Tensor, *, max_iterations: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Minimise all problems; a model is finished at the first test at which its
    gradient is within its tolerance.

    The direction comes from L-BFGS in its compact form, so the history costs three
    batched products and no loop. The step along this direction is a Newton step on the
    carried logits, shortened so that it cannot pass the minimum. Along a ray the loss f
    satisfies |f'''| <= r f'', where r is the largest range of the change of a row's
    logits. Hence f'(t) <= f'(0) + f''(0) (exp(r t) - 1)/r, which is <= 0 up to t =
    log(1 - r f'(0)/f''(0))/r. The method needs no loss value, so float32 does not stall
    where differences of the loss are smaller than rounding errors.

    Parameters
    ----------
    problems : RowProblems
        Problems to minimise; the function drops finished models from this object.
    tolerance : torch.Tensor, shape [k]
        Bound on the max-norm of the gradient.
    max_iterations : int, >= 0

    Returns
    -------
    v : torch.Tensor, shape [k, C, p]
        Result in the coordinates of the problems.
    gradient_norm : torch.Tensor, shape [k]
        Max-norm of the gradient at v.
    iterations : torch.Tensor of int64, shape [k]

    Source
    ------
    Byrd, Nocedal, Schnabel (1994), Theorem 2.2 (compact form); Bach (2010),
    arXiv:0910.4627, Lemma 1 (the bound).
    """
    # logits are carried along from here on
    v, dual, Z = problems.first()
    P = Z.softmax(1)
    g, g_dual = problems.gradient(P, v, dual)
    active = Active(tolerance, max_iterations, v)
    history = _History(v, problems.history, problems.dual)
    for iteration in range(max_iterations + 1):
        last = iteration == max_iterations
        if last or iteration % CHECK_EVERY == 0:
            norm = problems.norm(g, g_dual, active.tolerance, exact=last)
            if active.finish(iteration, norm, v):
                break
            left = active.left()
            if left is not None:
                v, Z, P, g = (values[left] for values in (v, Z, P, g))
                dual = dual[left] if problems.dual == "carried" else v
                g_dual = g if problems.dual == "same" else g_dual[left]
                problems.keep(left)
                history.keep(left)
        D, D_dual = history.direction(g, g_dual)
        # the one forward product of an iteration
        dZ = problems.logits(D, D_dual)
        derivative = (D * g_dual).flatten(1).sum(1)
        step = _newton_step(
            P,
            dZ,
            problems.counts,
            derivative=derivative,
            penalty_second_derivative=problems.penalty_second_derivative(D, D_dual),
        )
        t = step[:, None, None]
        Z.addcmul_(dZ, t)
        torch.softmax(Z, 1, out=P)
        v.addcmul_(D, t)
        if problems.dual == "carried":
            dual.addcmul_(D_dual, t)
        old = g
        old_dual = g_dual
        g, g_dual = problems.gradient(P, v, dual)
        history.add((D, D_dual), step, (g, g_dual), (old, old_dual))
    result, norms = active.results
    return result, norms, active.iterations


def _newton_step(
    P: Tensor,
    dZ: Tensor,
    counts: Tensor | None,
    *,
    derivative: Tensor,
    penalty_second_derivative: Tensor,
) -> Tensor:
    """Step length [k] along dZ from probabilities P, where the objective has that
    derivative along the direction.
    """
    product = P * dZ
    mean = product.sum(1)  # [k, m]
    # of a row's change of logits
    variance = product.mul_(dZ).sum(1).addcmul_(mean, mean, value=-1)
    if counts is not None:
        variance = variance * counts[:, 0]
    second = variance.sum(1).clamp_(min=0) + penalty_second_derivative
    full = torch.where(second > 0, -derivative / second, 0.0)
    reach = 2 * dZ.abs().amax((1, 2))
    return torch.where(reach > 0, torch.log1p(reach * full.clamp(min=0)) / reach, full)


class _History:
    """The last pairs s (step) and y (change of the gradient) of k models.

    ``pairs`` holds s in its first slots and y in the others, ``duals`` their duals, or
    those of y alone where directions need none. Slots are used in turn.
    """

    def __init__(self, v: Tensor, size: int, dual: str) -> None:
        h = size
        n_numbers = v[0].numel()
        self.size = size
        # of the pairs entered so far
        self.count = 0
        self.pairs = v.new_zeros((len(v), 2 * h, n_numbers))
        self.duals = self.pairs
        if dual != "same":
            slots = 2 * h if dual == "carried" else h
            self.duals = v.new_zeros((len(v), slots, n_numbers))
        # s_i'y_j, where j is not older than i, and y_i'y_j
        self.products = v.new_zeros((len(v), 2, h, h))
        self.gamma = v.new_ones((len(v), 1, 1))
        # slots in order of time, the newest last, and each slot's place in that order
        turns = [(torch.arange(h, device=v.device) + first) % h for first in range(h)]
        self.turns = turns
        self.places = [torch.cat([t.argsort(), h + t.argsort()]) for t in turns]

    def keep(self, models: Tensor) -> None:
        """Drop all models but these."""
        same = self.duals is self.pairs
        self.pairs = self.pairs[models]
        self.duals = self.pairs if same else self.duals[models]
        self.products = self.products[models]
        self.gamma = self.gamma[models]

    def direction(self, g: Tensor, g_dual: Tensor) -> tuple[Tensor, Tensor]:
        """Minus the estimated inverse Hessian times the gradient [k, C, p], and its
        dual, or itself without one.
        """
        h = self.size
        turn = self.turns[self.count % h]
        carried = self.duals is not self.pairs and self.duals.shape[1] == 2 * h
        if self.count == 0:
            return -g, -(g_dual if carried else g)
        # inner products of the gradient with all pairs, in order of time
        at = torch.bmm(g_dual.flatten(1)[:, None], self.pairs.mT).view(-1, 2, h)
        at = at.index_select(2, turn)
        products = self.products.index_select(2, turn).index_select(3, turn)
        sy, yy = products.unbind(1)
        along = sy.diagonal(dim1=1, dim2=2)
        size = yy.diagonal(dim1=1, dim2=2)
        # a slot that is empty, or has seen no second derivative, as at a minimum, has no
        # part in the direction
        seen = ((along > 0) & (size > 0)).to(g.dtype)
        gamma = (along[:, -1] / size[:, -1])[:, None, None]
        self.gamma = torch.where(seen[:, -1:, None] > 0, gamma, self.gamma)
        both = seen[:, :, None] * seen[:, None]
        at_s, at_y = (at * seen[:, None])[..., None].unbind(1)
        # 1 on the diagonal of an empty slot keeps the triangle invertible
        sy = sy * both
        sy.diagonal(dim1=1, dim2=2).add_(1 - seen)
        u = torch.linalg.solve_triangular(sy, at_s, upper=True)
        right = torch.baddbmm(at_y, yy * both, u, beta=-1).mul_(self.gamma)
        right.addcmul_(sy.diagonal(dim1=1, dim2=2)[:, :, None], u)
        w = torch.linalg.solve_triangular(sy.mT, right, upper=False)
        weights = torch.cat([-w, u.mul_(self.gamma)], 1)  # [k, 2h, 1]
        weights = weights.index_select(1, self.places[self.count % h]).mT

        def combined(vectors: Tensor, last: Tensor) -> Tensor:
            found = torch.bmm(weights, vectors).view(last.shape)
            return found.addcmul_(last, self.gamma, value=-1)

        D = combined(self.pairs, g)
        return D, combined(self.duals, g_dual) if carried else D

    def add(
        self,
        direction: tuple[Tensor, Tensor],
        step: Tensor,
        gradient: tuple[Tensor, Tensor],
        before: tuple[Tensor, Tensor],
    ) -> None:
        """Enter the pair of a step [k] along a direction, and the gradients after it
        and before it, each [k, C, p] with its dual.
        """
        h = self.size
        slot = self.count % h
        stores = [self.pairs]
        if self.duals is not self.pairs:
            stores.append(self.duals)
        for store, D, g, old in zip(stores, direction, gradient, before, strict=False):
            if store.shape[1] == 2 * h:
                torch.mul(D.flatten(1), step[:, None], out=store[:, slot])
            change = store[:, store.shape[1] - h + slot]
            torch.sub(g.flatten(1), old.flatten(1), out=change)
        y_dual = self.duals[:, self.duals.shape[1] - h + slot]
        column = torch.bmm(y_dual[:, None], self.pairs.mT).view(-1, 2, h)
        self.products[..., slot] = column
        self.products[:, 1, slot] = column[:, 1]
        self.count += 1
