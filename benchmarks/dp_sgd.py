"""Speed of one step of DP-SGD against the fastest of opacus' three modes.

Each side is a whole step: gather the batch, clip, add noise, update the weights. Opacus runs its own modules and
optimizers, in the modes "hooks", "functorch" and "ghost"; the smallest median of the three counts. Batches have
the same fixed size; the check beside it compares the weights after one step without noise, in float64.

CPU time of one thread, or wall time on a GPU; sides by turns, medians.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator

import numpy as np
import torch
from opacus.grad_sample import GradSampleModule, GradSampleModuleFastGradientClipping
from opacus.optimizers import DPOptimizer, DPOptimizerFastGradientClipping
from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping
from torch import nn

from dpnotes.learners import (
    Networks,
    convolutional_network,
    device_name,
    fit_dp_sgd_linear,
    fit_dp_sgd_network,
    multilayer_perceptron,
    residual_network,
)

from ._common import RANDOM, Row, clock_of, timed

NORM, NOISE_MULTIPLIER, RATE = 1.0, 1.0, 0.1
MODES = ("hooks", "functorch", "ghost")

Step = Callable[[torch.Tensor, torch.Tensor], None]


def opacus(mode: str, network: nn.Module, batch_size: int, *, noise: float) -> Step:
    """One step of opacus on a batch, on the device of the network."""
    device = next(network.parameters()).device
    settings = {
        "noise_multiplier": noise,
        "max_grad_norm": NORM,
        "expected_batch_size": batch_size,
        "loss_reduction": "mean",
        "generator": torch.Generator(device).manual_seed(0),
    }
    criterion = nn.CrossEntropyLoss()
    if mode == "ghost":
        ghost = GradSampleModuleFastGradientClipping(network, max_grad_norm=NORM, use_ghost_clipping=True)
        fast = DPOptimizerFastGradientClipping(torch.optim.SGD(ghost.parameters(), lr=RATE), **settings)
        loss_of = DPLossFastGradientClipping(ghost, fast, criterion, loss_reduction="mean")

        def clip_twice(x: torch.Tensor, y: torch.Tensor) -> None:
            fast.zero_grad()
            loss_of(ghost(x), y).backward()
            fast.step()

        return clip_twice
    module = GradSampleModule(network, force_functorch=mode == "functorch")
    optimizer = DPOptimizer(torch.optim.SGD(module.parameters(), lr=RATE), **settings)

    def step(x: torch.Tensor, y: torch.Tensor) -> None:
        optimizer.zero_grad()
        criterion(module(x), y).backward()
        optimizer.step()

    return step


def race(
    job: str,
    ours: Callable[[], object],
    network: nn.Module,
    data: torch.Tensor,
    labels: torch.Tensor,
    **settings: float,
) -> Row:
    """Ours, a whole fit of some steps, against steps of opacus on batches of the same size, where the data are."""
    size, steps, repeats = int(settings["batch_size"]), int(settings["steps"]), int(settings["repeats"])
    generator = np.random.default_rng(0)

    def several(step: Step) -> Callable[[], None]:
        def run() -> None:
            for _ in range(steps):
                batch = torch.from_numpy(generator.permutation(len(data))[:size]).to(data.device)
                step(data[batch], labels[batch])
            if data.is_cuda:
                torch.cuda.synchronize()

        return run

    theirs = [several(opacus(mode, copy.deepcopy(network), size, noise=NOISE_MULTIPLIER)) for mode in MODES]
    clock = clock_of(str(data.device))
    fast, *slow = (seconds / steps for seconds in timed(ours, *theirs, repeats=repeats, clock=clock))
    best = min(range(len(MODES)), key=slow.__getitem__)
    gap = difference(network, data, labels, size)
    others = ", ".join(f"{mode} {1e3 * seconds:.1f}" for mode, seconds in zip(MODES, slow, strict=True))
    return Row(
        job,
        RANDOM,
        fast,
        slow[best],
        f"opacus {MODES[best]}",
        settings["bar"],
        f"ms/step of opacus: {others}; one step in float64 without noise: "
        f"{gap:.1e} off opacus hooks (it adds 1e-6 to the norm that it clips by)",
        device=device_name(str(data.device)),
        gap=gap,
    )


def difference(network: nn.Module, data: torch.Tensor, labels: torch.Tensor, size: int) -> float:
    """Largest difference of any weight after one step of ours and of opacus, relative to the largest change."""
    network, x, y = copy.deepcopy(network).double(), data[:size].double(), labels[:size]
    before = {name: value.detach().clone() for name, value in network.named_parameters()}
    ours = fit(network, x, y, noise=0.0, size=size, steps=1).state_dict(0)
    opacus("hooks", network, size, noise=0.0)(x, y)
    moved = {name: value.detach() - before[name] for name, value in network.named_parameters()}
    largest = max(float(value.abs().max()) for value in moved.values())
    gaps = (moved[name] + before[name] - value.to(data.device) for name, value in ours.items())
    return max(float(gap.abs().max()) for gap in gaps) / largest


def fit(
    network: nn.Module, data: torch.Tensor, labels: torch.Tensor, *, noise: float, size: int, steps: int
) -> Networks:
    """A copy of the network after some steps of ours."""
    return fit_dp_sgd_network(
        lambda generator: copy.deepcopy(network),
        data.cpu().numpy(),
        labels.cpu().numpy(),
        noise_multiplier=noise,
        clipping_norm=NORM,
        batch_size=size,
        sampling="shuffle",
        steps=steps,
        learning_rate=RATE,
        seed=0,
        device=str(data.device),
    )


def linear(small: bool, device: str) -> Row:
    n, d, size, steps = 12_000, 784, 600, 50 if small else 200
    generator = np.random.default_rng(0)
    X, y = generator.random((n, d), np.float32) / 28, generator.integers(10, size=n)

    def ours() -> None:
        fit_dp_sgd_linear(
            X,
            y,
            n_classes=10,
            noise_multiplier=NOISE_MULTIPLIER,
            clipping_norm=NORM,
            batch_size=size,
            sampling="shuffle",
            steps=steps,
            learning_rate=RATE,
            seed=0,
            device=device,
        )

    network = multilayer_perceptron((d,), 10, hidden=(), generator=torch.Generator().manual_seed(0))
    settings = {"batch_size": size, "steps": steps, "repeats": 3 if small else 5, "bar": 2.5}
    data, labels = torch.tensor(X, device=device), torch.tensor(y, device=device)
    return race(f"5. DP-SGD, linear {d} x 10, B = {size}", ours, network.to(device), data, labels, **settings)


def deep(
    job: str,
    network: nn.Module,
    shape: tuple[int, ...],
    *,
    size: int,
    steps: int,
    repeats: int,
    bar: float,
    device: str,
) -> Row:
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(4 * size, *shape, generator=generator).to(device)
    labels = torch.randint(10, (4 * size,), generator=generator).to(device)
    network = network.to(device)

    def ours() -> None:
        fit(network, images, labels, noise=NOISE_MULTIPLIER, size=size, steps=steps)
        if images.is_cuda:
            torch.cuda.synchronize()

    return race(
        f"{job}, B = {size}", ours, network, images, labels, batch_size=size, steps=steps, repeats=repeats, bar=bar
    )


def rows(small: bool, device: str = "cpu") -> Iterator[Row]:
    def seeded() -> torch.Generator:
        return torch.Generator().manual_seed(0)

    warnings.filterwarnings("ignore", message="Full backward hook is firing")  # opacus' hooks on the first layer
    yield linear(small, device)
    network = convolutional_network((1, 28, 28), 10, generator=seeded())
    common = {"repeats": 3 if small else 9, "device": device}
    yield deep("5. DP-SGD, two convolutions", network, (1, 28, 28), size=256, steps=2, bar=1.25, **common)
    size, repeats = (16, 2) if small else (64, 7)
    common = {"repeats": repeats, "device": device}
    yield deep(
        "5. DP-SGD, ResNet-20", residual_network(generator=seeded()), (3, 32, 32), size=size, steps=3, bar=1.2, **common
    )
