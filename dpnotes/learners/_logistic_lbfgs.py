"""Many softmax regressions at once by L-BFGS, which carries the logits along instead
of recomputing them.
"""

from __future__ import annotations

import torch
from torch import Tensor

from dpnotes.learners._logistic_problems import Active, RowProblems

# iterations between tests of convergence: each is a reduction and a wait for the device
CHECK_EVERY = 5


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
    v, dual, Z = problems.first()
    P = Z.softmax(1)
    g, g_dual = problems.gradient(P, v, dual)
    active = Active(tolerance, max_iterations, v)
    history = _History(v, problems.history, carried=problems.dual == "carried")
    for iteration in range(max_iterations + 1):
        last = iteration == max_iterations
        if last or iteration % CHECK_EVERY == 0:
            if active.finish(
                iteration, problems.norm(g, g_dual, active.tolerance, exact=last), v
            ):
                break
            if (left := active.left()) is not None:
                v, Z, P, g = (values[left] for values in (v, Z, P, g))
                dual = dual[left] if problems.dual == "carried" else v
                g_dual = g if problems.dual == "same" else g_dual[left]
                problems.keep(left)
                history.keep(left)
        D, D_dual = history.direction(g, g_dual)
        dZ = problems.logits(D, D_dual)
        derivative = (D * g_dual).flatten(1).sum(1)
        of_penalty = problems.penalty_second_derivative(D, D_dual)
        step = _newton_step(
            P,
            dZ,
            problems.counts,
            derivative=derivative,
            penalty_second_derivative=of_penalty,
        )
        t = step[:, None, None]
        Z.addcmul_(dZ, t)
        torch.softmax(Z, 1, out=P)
        v.addcmul_(D, t)
        if problems.dual == "carried":
            dual.addcmul_(D_dual, t)
        old, old_dual = g, g_dual
        g, g_dual = problems.gradient(P, v, dual)
        history.add((D, D_dual), step, (g, g_dual), (old, old_dual), derivative)
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
    """The last pairs s (step) and y (change of the gradient) of k models, and their
    inner products.

    ``pairs`` holds s in its first slots and y in the others, ``duals`` their duals if
    directions need one. Slots are used in turn; the small products are kept in order of
    time, the newest last.
    """

    def __init__(self, v: Tensor, size: int, *, carried: bool) -> None:
        k, h = len(v), size
        self.size = size
        self.pairs = v.new_zeros((k, 2 * h, v[0].numel()))
        self.duals = torch.zeros_like(self.pairs) if carried else None
        self.products = v.new_zeros((k, 2, h, h))  # s_i'y_j for i <= j, else 0; y_i'y_j
        # an empty slot has no part in the direction
        self.products[:, 0].diagonal(dim1=1, dim2=2).fill_(1)
        self.at_gradient = v.new_zeros((k, 2, h))  # s_i'g, y_i'g
        self.gamma = v.new_ones((k, 1, 1))
        self.count = 0
        turns = [(torch.arange(h, device=v.device) + first) % h for first in range(h)]
        self.slots = [torch.cat([turn, h + turn]) for turn in turns]  # in order of time
        self.places = [slots.argsort() for slots in self.slots]

    def keep(self, models: Tensor) -> None:
        """Drop all models but these."""
        self.pairs = self.pairs[models]
        self.duals = None if self.duals is None else self.duals[models]
        self.products, self.at_gradient = (
            self.products[models],
            self.at_gradient[models],
        )
        self.gamma = self.gamma[models]

    def direction(self, g: Tensor, g_dual: Tensor) -> tuple[Tensor, Tensor]:
        """Minus the estimated inverse Hessian times the gradient [k, C, p], and its
        dual, or itself without one.
        """
        if self.count == 0:
            D = -g
            return D, D if self.duals is None else -g_dual
        sy, yy = self.products[:, 0], self.products[:, 1]
        at_s, at_y = self.at_gradient[:, 0, :, None], self.at_gradient[:, 1, :, None]
        u = torch.linalg.solve_triangular(sy, at_s, upper=True)
        right = torch.baddbmm(at_y, yy, u, beta=-1).mul_(self.gamma)
        right.addcmul_(sy.diagonal(dim1=1, dim2=2)[:, :, None], u)
        w = torch.linalg.solve_triangular(sy.mT, right, upper=False)
        weights = torch.cat([-w, u.mul_(self.gamma)], 1)  # [k, 2h, 1], in order of time
        weights = weights.index_select(1, self.places[self.count % self.size]).mT
        D = (
            torch.bmm(weights, self.pairs)
            .view(g.shape)
            .addcmul_(g, self.gamma, value=-1)
        )
        if self.duals is None:
            return D, D
        return D, torch.bmm(weights, self.duals).view(g.shape).addcmul_(
            g_dual, self.gamma, value=-1
        )

    def add(
        self,
        direction: tuple[Tensor, Tensor],
        step: Tensor,
        gradient: tuple[Tensor, Tensor],
        before: tuple[Tensor, Tensor],
        derivative: Tensor,
    ) -> None:
        """Enter the pair of a step.

        Parameters
        ----------
        direction, gradient, before : pair of torch.Tensor, shape [k, C, p]
            Direction, current gradient and gradient before the step, each with its
            dual.
        step : torch.Tensor, shape [k]
        derivative : torch.Tensor, shape [k]
            Derivative of the objective along the direction: inner product of the
            direction with the gradient before.
        """
        slot, h = self.count % self.size, self.size
        for store, D, g, old in zip(
            (self.pairs, self.duals), direction, gradient, before, strict=True
        ):
            if store is not None:
                torch.mul(D.flatten(1), step[:, None], out=store[:, slot])
                torch.sub(g.flatten(1), old.flatten(1), out=store[:, h + slot])
        self.count += 1
        y = self.pairs[:, h + slot]
        if gradient[1] is gradient[0]:
            y_dual = y
        else:
            y_dual = (
                (gradient[1] - before[1]).flatten(1)
                if self.duals is None
                else self.duals[:, h + slot]
            )
        now = torch.bmm(gradient[1].flatten(1)[:, None], self.pairs.mT)[:, 0]
        now = now.index_select(1, self.slots[self.count % self.size]).view(-1, 2, h)
        # pairs times y are differences of pairs times g, no less exact than y itself is
        at_y = now.clone()
        at_y[:, :, :-1] -= self.at_gradient[:, :, 1:]
        at_y[:, 0, -1] -= step * derivative
        at_y[:, 1, -1] = (y * y_dual).sum(1)
        self.at_gradient = now
        self.products[:, :, :-1, :-1] = self.products[:, :, 1:, 1:].clone()
        self.products[:, :, :, -1] = at_y
        self.products[:, 1, -1] = at_y[:, 1]
        sy, yy = at_y[:, 0, -1], at_y[:, 1, -1]
        good = (sy > 0) & (yy > 0)
        if bool(good.all()):
            self.gamma = (sy / yy)[:, None, None]
        else:  # no second derivative seen, as at a minimum
            self.gamma = torch.where(good, sy / yy, self.gamma[:, 0, 0])[:, None, None]
            self._empty(slot, (~good).nonzero()[:, 0])

    def _empty(self, slot: int, models: Tensor) -> None:
        """Remove the newest pair of some models."""
        for store in (self.pairs, self.duals):
            if store is not None:
                store[models, slot] = 0
                store[models, self.size + slot] = 0
        self.at_gradient[models, :, -1] = 0
        self.products[models, :, :, -1] = 0
        self.products[models, 1, -1] = 0
        self.products[models, 0, -1, -1] = 1
