"""Softmax regressions on shared rows that differ in a linear term: a minimiser that makes use of both."""

from __future__ import annotations

import torch

from dpnotes.learners._logistic_lbfgs import minimise
from dpnotes.learners._logistic_problems import PreconditionedProblems, RowProblems

ROW_BLOCK = 2048  # rows of an exact gradient at a time: their logits stay in cache
REDUCTION = 1e-4  # of the gradient, asked of the steps in float32 between two exact gradients
ROUND = 100  # steps between two exact gradients, at most
STALLED = 0.1  # the fraction of the gradient above which a round in float32 is the last one


class CentredProblems(PreconditionedProblems):
    """Preconditioned problems whose preconditioner knows that a common shift of all classes changes no loss.

    Along such a shift the Hessian of the objective is that of the penalty alone, which the blocks of the Hessian, one
    for each class, take for many times as large. So they act on gradients and give directions with class mean zero, and
    the class mean of a gradient is divided by the penalty.
    """

    def gradient(self, P: torch.Tensor, v: torch.Tensor, dual: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        G, _ = RowProblems.gradient(self, P, v, dual)
        mean = G.mean(1, keepdim=True)
        D = torch.bmm((G - mean).transpose(0, 1), self.inverse).transpose(0, 1).contiguous()
        return D.sub_(D.mean(1, keepdim=True)).add_(mean / self.penalty), G


def minimise_repeats(
    problems: RowProblems, tolerance: torch.Tensor, *, inverse: torch.Tensor, max_iterations: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Minimise all problems by preconditioned L-BFGS, those in float64 with most of their products in float32.

    In float64 the steps are rounds of iterative refinement: with the exact gradient at W, what is left to minimise is a
    problem in the change of W, whose gradient at zero is given. It is solved roughly in float32, at twice the speed,
    and the exact gradient, computed anew, decides. What float32 cannot reach is left to steps in float64.

    Parameters
    ----------
    problems : RowProblems
        On shared rows [n, p] and targets [1, C, n], each with a linear term and a start [C, p]; they stay as they are.
    tolerance : torch.Tensor, shape [k]
        On the max-norm of the gradient of the sum.
    inverse : torch.Tensor, shape [C, p, p]
        Inverse blocks of the Hessian, of any precision.
    max_iterations : int, >= 0

    Returns
    -------
    W : torch.Tensor, shape [k, C, p]
    gradient_norm : torch.Tensor, shape [k]
    iterations : torch.Tensor of int64, shape [k]
    """
    rows, targets, penalty = problems.rows, problems.targets, problems.penalty
    linear, start = problems.linear, problems.start
    assert linear is not None
    assert start is not None
    # the class mean of the minimiser is known: the residuals of a row sum to zero
    W = start - start.mean(1, keepdim=True) - linear.mean(1, keepdim=True) / penalty
    norms, iterations = W.new_empty(len(W)), torch.zeros(len(W), dtype=torch.int64, device=W.device)
    left = torch.arange(len(W), device=W.device)
    if rows.dtype == torch.float64:
        low, low_inverse = rows.float(), inverse.float()
        while True:
            G, Z = _gradient_and_logits(rows, targets, W[left], penalty[left], linear[left])
            before, norms[left] = norms[left], G.abs().amax((1, 2))
            over = norms[left] > tolerance[left]
            allowed = max_iterations - int(iterations.max())
            stalled = bool(iterations.any()) and bool((over & (norms[left] > STALLED * before)).any())
            G, Z, left = G[over], Z[over], left[over]
            if stalled or not len(left) or allowed <= 0:
                break
            rest = CentredProblems(
                rows=low,
                targets=Z.softmax(1),
                penalty=penalty[left].float(),
                inverse=low_inverse,
                linear=G.float(),
                offset=Z,
            )
            aim = torch.maximum(0.5 * tolerance[left], REDUCTION * norms[left]).float()
            change, _, count = minimise(rest, aim, max_iterations=min(ROUND, allowed))
            W[left] += change
            iterations[left] += count
    if len(left) and (allowed := max_iterations - int(iterations.max())) >= 0:
        rest = CentredProblems(
            rows=rows,
            targets=targets,
            penalty=penalty[left],
            inverse=inverse.to(rows),
            linear=linear[left],
            start=W[left],
        )
        W[left], norms[left], count = minimise(rest, tolerance[left], max_iterations=allowed)
        iterations[left] += count
    return W, norms, iterations


def _gradient_and_logits(
    rows: torch.Tensor, targets: torch.Tensor, W: torch.Tensor, penalty: torch.Tensor, linear: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Gradient [k, C, p] in the precision of the rows, and logits [k, C, n] in float32."""
    G, flat = penalty * W + linear, W.flatten(0, 1)
    logits = rows.new_empty((*W.shape[:2], len(rows)), dtype=torch.float32)
    size = len(rows) if rows.is_cuda else ROW_BLOCK
    for start in range(0, len(rows), size):
        block = slice(start, start + size)
        Z = torch.mm(flat, rows[block].mT).view(*W.shape[:2], -1)
        logits[:, :, block] = Z
        residual = Z.softmax(1).sub_(targets[:, :, block])
        G.view(flat.shape).addmm_(residual.view(len(flat), -1), rows[block])
    return G, logits
