"""Loss perturbation and votes trained as in the public code of van der Maaten and
Hannun (2020), for the times of the paper's table of arrows.

What it does, told here in our own words: linear models with a bias, minimised in
float32 by torch's L-BFGS with a strong Wolfe line search. The minimiser is called 100
times for at most 20 iterations each, also after it has converged. The models of a vote
are trained one after the other, without a penalty, and each labels all test rows before
an answer is drawn. It is timed and never released: its noise is floating point.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

Answer = Callable[[Tensor], Tensor]
CALLS = 100
LIPSCHITZ = math.sqrt(2)  # of the loss


def loss_perturbation(
    X: Tensor, y: Tensor, n_classes: int, *, epsilon: float, l2: float
) -> Answer:
    """Train on a loss with a random linear term.

    X has shape [n, d], y [n] holds codes. The function that is returned labels rows.
    """
    n = len(X)
    model = nn.Linear(X.shape[1], n_classes)
    directions = [torch.randn_like(p) for p in model.parameters()]
    norm = math.sqrt(sum(float(b.square().sum()) for b in directions))
    size = float(sum(b.numel() for b in directions))
    length = torch.distributions.Gamma(size, epsilon / (2 * LIPSCHITZ)).sample()
    linear = [b * (length / (norm * n)) for b in directions]
    # the least penalty with which the noise suffices
    _minimise(model, X, y, max(l2, n_classes / (epsilon * n)), linear)
    return lambda rows: model(rows).argmax(1)


def votes(
    X: Tensor, y: Tensor, n_classes: int, *, n_models: int, beta: float
) -> Answer:
    """Train the models of a vote, each on its share of the rows.

    The function that is returned draws a label for each row, with probability
    proportional to exp(beta * votes).
    """
    models = []
    each = len(X) // n_models
    # what is left over is in no model
    for rows in torch.randperm(len(X))[: each * n_models].view(n_models, each):
        model = nn.Linear(X.shape[1], n_classes)
        _minimise(model, X[rows], y[rows], 0.0)
        models.append(model)

    def answer(rows: Tensor) -> Tensor:
        labels = torch.stack([model(rows).argmax(1) for model in models])
        counts = [(labels == label).sum(0) for label in range(n_classes)]
        chances = torch.softmax(beta * torch.stack(counts, 1), 1)
        return torch.multinomial(chances, 1)[:, 0]

    return answer


def _minimise(
    model: nn.Linear, X: Tensor, y: Tensor, l2: float, linear: Sequence[Tensor] = ()
) -> None:
    optimizer: Any = torch.optim.LBFGS(
        model.parameters(), lr=1.0, tolerance_grad=1e-4, line_search_fn="strong_wolfe"
    )
    parameters = list(model.parameters())

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss: Any = cross_entropy(model(X), y)
        for p in parameters:
            loss = loss + l2 / 2 * p.flatten().dot(p.flatten())
        # a vote has none
        if linear:
            for p, b in zip(parameters, linear, strict=True):
                loss = loss + (p * b).sum()
        loss.backward()
        return cast(Tensor, loss)

    for _ in range(CALLS):
        optimizer.step(closure)
