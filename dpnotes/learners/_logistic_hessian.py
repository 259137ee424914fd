"""A preconditioner for softmax regressions that share many rows: blocks of the Hessian, one for each class."""

from __future__ import annotations

import torch

ROWS_PER_FEATURE = 8  # evenly spaced; more do not improve the preconditioner
BLOCK = 5  # a block takes about 20 d^3 operations, an iteration 4 n d for each column


def pays(n: int, d: int, *, columns: int, blocks: int, saved: int) -> bool:
    """Whether ``saved`` iterations with models times classes ``columns`` repay ``blocks`` blocks of d x d."""
    return saved * columns * n >= BLOCK * blocks * d * d


def inverse_blocks(A: torch.Tensor, penalty: torch.Tensor, *, W: torch.Tensor) -> torch.Tensor:
    """Inverses [C, p, p] of the diagonal blocks of the Hessian at W.

    Parameters
    ----------
    A : torch.Tensor, shape [n, p]
    penalty : torch.Tensor, shape [1 or p]
        Of the sum over rows.
    W : torch.Tensor, shape [C, p]

    Returns
    -------
    torch.Tensor, shape [C, p, p], symmetric, in the dtype of A
    """
    n, p = A.shape
    sample = A[:: max(1, n // (ROWS_PER_FEATURE * p))]
    if not bool(W.any()):  # at zero all classes are equally probable, and the blocks are equal
        each = 1 / len(W)
        return _inverse(sample, penalty, scale=each * (1 - each) * n / len(sample)).expand(len(W), p, p)
    P = torch.mm(W, sample.mT).softmax(0)
    blocks = [_inverse(sample * (q * (1 - q)).sqrt()[:, None], penalty, scale=n / len(sample)) for q in P]
    return torch.stack(blocks)


def _inverse(rows: torch.Tensor, penalty: torch.Tensor, *, scale: float) -> torch.Tensor:
    hessian = (rows.mT @ rows).double() * scale
    # a term of the size of rounding keeps a product in float32 positive definite
    rounding = 1e-6 * hessian.diagonal().mean() + torch.finfo(torch.float64).tiny
    hessian.diagonal().add_(penalty.double() + rounding)
    return torch.cholesky_inverse(torch.linalg.cholesky(hessian)).to(rows.dtype)
