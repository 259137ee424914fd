"""Speed of one step of DP-SGD against the fastest of opacus' three modes.

Each side is a whole step: gather the batch, clip, add noise, update the weights. Opacus
runs its own modules and optimizers, in the modes "hooks", "functorch" and "ghost"; the
smallest median of the three counts. Opacus' batches have the expected size of ours,
which are Poisson samples; the check beside it compares the weights after one step
without noise, in float64.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from opacus.grad_sample import GradSampleModule, GradSampleModuleFastGradientClipping
from opacus.optimizers import DPOptimizer, DPOptimizerFastGradientClipping
from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping
from torch import nn

from dpnotes.learners import (
    convolutional_network,
    device_name,
    fit_dp_sgd_linear,
    fit_dp_sgd_network,
    multilayer_perceptron,
    residual_network,
)

from ._common import RANDOM, Row, clock_of, timed

MODES = ("hooks", "functorch", "ghost")
# whose batches are within 1 % of the expected size
COMMON = {"clipping_norm": 1.0, "learning_rate": 0.1, "seed": 3}


def opacus(
    mode: str, network: nn.Module, size: int, *, noise: float
) -> Callable[[torch.Tensor, torch.Tensor], None]:
    """One step of opacus on a batch, on the device of the network."""
    sgd = torch.optim.SGD(network.parameters(), lr=COMMON["learning_rate"])
    settings: dict[str, Any] = {
        "noise_multiplier": noise,
        "max_grad_norm": COMMON["clipping_norm"],
        "expected_batch_size": size,
        "loss_reduction": "mean",
        "generator": torch.Generator(next(network.parameters()).device).manual_seed(0),
    }
    criterion: Any = nn.CrossEntropyLoss()
    if mode == "ghost":
        module = GradSampleModuleFastGradientClipping(
            network, max_grad_norm=1.0, use_ghost_clipping=True
        )
        optimizer = DPOptimizerFastGradientClipping(sgd, **settings)
        criterion = DPLossFastGradientClipping(
            module, optimizer, criterion, loss_reduction="mean"
        )
    else:
        module = GradSampleModule(network, force_functorch=mode == "functorch")
        optimizer = DPOptimizer(sgd, **settings)

    def step(x: torch.Tensor, y: torch.Tensor) -> None:
        optimizer.zero_grad()
        criterion(module(x), y).backward()
        optimizer.step()

    return step


def fit(
    network: nn.Module, X: torch.Tensor, y: torch.Tensor, **settings: Any
) -> dict[str, torch.Tensor]:
    """Weights of a copy of the network after some steps of ours."""
    data = X.cpu().numpy(), y.cpu().numpy()
    given = COMMON | settings | {"device": str(X.device), "n_records": len(X)}
    return fit_dp_sgd_network(
        lambda generator: copy.deepcopy(network), *data, **given
    ).state_dict(0)


def race(
    job: str,
    network: nn.Module,
    X: torch.Tensor,
    y: torch.Tensor,
    ours: Callable[..., object] | None = None,
    *,
    size: int,
    steps: int,
    repeats: int,
    bar: float,
) -> Row:
    """Ours, a whole fit of some steps, against steps of opacus on batches of the
    same size, where the data are.
    """
    network, generator, settings = (
        network.to(X.device),
        np.random.default_rng(0),
        {"sample_rate": size / len(X), "steps": steps},
    )

    def several(step: Callable[[torch.Tensor, torch.Tensor], None]) -> None:
        for _ in range(steps):
            batch = torch.from_numpy(generator.permutation(len(X))[:size]).to(X.device)
            step(X[batch], y[batch])

    theirs = [
        partial(several, opacus(mode, copy.deepcopy(network), size, noise=1.0))
        for mode in MODES
    ]
    mine = partial(
        ours or partial(fit, network, X, y), noise_multiplier=1.0, **settings
    )
    fast, *slow = timed(mine, *theirs, repeats=repeats, clock=clock_of(str(X.device)))[
        0
    ]
    best = min(range(len(MODES)), key=slow.__getitem__)
    gap = difference(network, X[:size], y[:size])
    others = ", ".join(
        f"{mode} {1e3 * seconds / steps:.1f}"
        for mode, seconds in zip(MODES, slow, strict=True)
    )
    return Row(
        f"{job}, B = {size}",
        RANDOM,
        fast / steps,
        slow[best] / steps,
        f"opacus {MODES[best]}",
        bar,
        f"ms per step of opacus: {others}; after a step in float64 without noise the"
        f" weights differ from opacus hooks by {gap:.1e} of the largest change (opacus"
        " adds 1e-6 to each gradient's norm)",
        device=device_name(str(X.device)),
        gap=gap,
    )


def difference(network: nn.Module, X: torch.Tensor, y: torch.Tensor) -> float:
    """Largest difference of any weight after one step of ours and of opacus,
    relative to the largest change.
    """
    network, X = copy.deepcopy(network).double(), X.double()
    before = {
        name: value.detach().clone() for name, value in network.named_parameters()
    }
    ours = fit(network, X, y, noise_multiplier=0.0, sample_rate=1.0, steps=1)
    opacus("hooks", network, len(X), noise=0.0)(X, y)
    after = {
        name.removeprefix("_module."): value.detach()
        for name, value in network.named_parameters()
    }
    largest = max(float((after[name] - before[name]).abs().max()) for name in before)
    return (
        max(
            float((after[name] - value.to(X.device)).abs().max())
            for name, value in ours.items()
        )
        / largest
    )


def rows(small: bool, device: str) -> Iterator[Row]:
    # opacus' hooks on the first layer
    warnings.filterwarnings("ignore", message="Full backward hook is firing")
    generator = torch.Generator().manual_seed(0)
    X, y = (
        torch.rand(12_000, 784, generator=generator) / 28,
        torch.randint(10, (12_000,), generator=generator),
    )
    mine = partial(
        fit_dp_sgd_linear,
        X.numpy(),
        y.numpy(),
        n_classes=10,
        n_records=len(X),
        device=device,
        **COMMON,
    )
    linear, data = (
        multilayer_perceptron((784,), 10, hidden=(), generator=generator),
        (X.to(device), y.to(device)),
    )
    size, steps, repeats = 600, 50 if small else 200, 3 if small else 5
    how = {"size": size, "steps": steps, "repeats": repeats, "bar": 2.5}
    yield race("5. DP-SGD, linear 784 x 10", linear, *data, mine, **how)
    for job, network, shape, size, how in (
        (
            "two convolutions",
            convolutional_network((1, 28, 28), 10, generator=generator),
            (1, 28, 28),
            256,
            {"steps": 2, "bar": 1.25, "repeats": 3 if small else 9},
        ),
        (
            "ResNet-20",
            residual_network(generator=generator),
            (3, 32, 32),
            16 if small else 64,
            {"steps": 3, "bar": 1.2, "repeats": 2 if small else 7},
        ),
    ):
        images = torch.randn(4 * size, *shape, generator=generator).to(device)
        labels = torch.randint(10, (4 * size,), generator=generator).to(device)
        yield race(f"5. DP-SGD, {job}", network, images, labels, size=size, **how)
