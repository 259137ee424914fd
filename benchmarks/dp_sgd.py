"""Speed of one step of DP-SGD against the fastest of opacus' three modes.

Each side is a whole step: gather the batch, clip, add noise, update the weights. Opacus
runs its own modules and optimizers, in the modes "hooks", "functorch" and "ghost"; the
smallest median of the three counts. Opacus' batches have the expected size of ours,
which are Poisson samples; the check beside it compares the weights after one step
without noise, in float64.
"""

import copy
import warnings
from functools import partial

import numpy as np
import torch
from opacus.grad_sample import GradSampleModule, GradSampleModuleFastGradientClipping
from opacus.optimizers import DPOptimizer, DPOptimizerFastGradientClipping
from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping
from torch import nn

from dpnotes.learners import (
    convolutional_network,
    fit_dp_sgd_linear,
    fit_dp_sgd_network,
    multilayer_perceptron,
    residual_network,
)

from ._common import RANDOM, Row, timed

MODES = ("hooks", "functorch", "ghost")
# the batches of this seed are within 1 % of the expected size
COMMON = {"clipping_norm": 1.0, "learning_rate": 0.1, "seed": 3}


def opacus(mode, network, size, *, noise):
    """One step of opacus on a batch, on the device of the network."""
    sgd = torch.optim.SGD(network.parameters(), lr=COMMON["learning_rate"])
    # the same arithmetic: a mean over the expected batch
    settings = {
        "noise_multiplier": noise,
        "max_grad_norm": COMMON["clipping_norm"],
        "expected_batch_size": size,
        "loss_reduction": "mean",
        "generator": torch.Generator(next(network.parameters()).device).manual_seed(0),
    }
    criterion = nn.CrossEntropyLoss()
    # of ghost clipping, module, optimizer and loss are others
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

    def step(x, y):
        optimizer.zero_grad()
        criterion(module(x), y).backward()
        optimizer.step()

    return step


def fit(network, X, y, **settings):
    """Weights of a copy of the network after some steps of ours."""
    fitted = fit_dp_sgd_network(
        # each call starts from the same weights
        lambda generator: copy.deepcopy(network),
        X.cpu().numpy(),
        y.cpu().numpy(),
        device=str(X.device),
        n_records=len(X),
        **COMMON,
        **settings,
    )
    return fitted.state_dict(0)


def race(job, network, X, y, ours, *, size, steps, bar):
    """Ours, a whole fit of some steps, against steps of opacus on batches of the
    same size, where the data are.
    """
    generator = np.random.default_rng(0)

    def several(step):
        for _ in range(steps):
            # gathering is a part of a step, as with us
            batch = torch.from_numpy(generator.permutation(len(X))[:size]).to(X.device)
            step(X[batch], y[batch])

    def mine():
        ours(noise_multiplier=1.0, sample_rate=size / len(X), steps=steps)

    theirs = []
    for mode in MODES:
        step = opacus(mode, copy.deepcopy(network), size, noise=1.0)
        theirs.append(partial(several, step))
    seconds, _ = timed(mine, *theirs, repeats=7, device=X.device.type)
    fast, *slow = [each / steps for each in seconds]
    # the peer is its fastest mode on this network
    best = int(np.argmin(slow))
    others = [
        f"{mode} {1e3 * each:.1f}" for mode, each in zip(MODES, slow, strict=True)
    ]
    gap = difference(network, X[:size], y[:size])
    return Row(
        f"5. DP-SGD, {job}, B = {size}",
        RANDOM,
        fast,
        slow[best],
        f"opacus {MODES[best]}",
        bar,
        f"ms per step of opacus: {', '.join(others)}; after a step in float64 without"
        f" noise the weights differ from opacus hooks by {gap:.1e} of the largest change"
        " (opacus adds 1e-6 to each gradient's norm)",
        gap=gap,
    )


def difference(network, X, y):
    """Largest difference of any weight after one step of ours and of opacus,
    relative to the largest change.
    """
    # beyond the rounding of float32
    network = copy.deepcopy(network).double()
    X = X.double()
    before = copy.deepcopy(network.state_dict())
    # a whole batch, so that the streams have no part
    ours = fit(network, X, y, noise_multiplier=0.0, sample_rate=1.0, steps=1)
    opacus("hooks", network, len(X), noise=0.0)(X, y)
    largest = apart = 0.0
    for name, value in network.named_parameters():
        after = value.detach()
        # opacus wraps the module
        name = name.removeprefix("_module.")
        largest = max(largest, float((after - before[name]).abs().max()))
        apart = max(apart, float((after - ours[name].to(X.device)).abs().max()))
    return apart / largest


def rows(small, device):
    # opacus' hooks on the first layer
    warnings.filterwarnings("ignore", message="Full backward hook is firing")
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(12_000, 784, generator=generator) / 28
    y = torch.randint(10, (12_000,), generator=generator)
    # of no hidden layer: the same model on both sides
    linear = multilayer_perceptron((784,), 10, hidden=(), generator=generator)
    mine = partial(
        fit_dp_sgd_linear,
        X.numpy(),
        y.numpy(),
        n_classes=10,
        n_records=len(X),
        device=device,
        **COMMON,
    )
    data = X.to(device), y.to(device)
    how = {"size": 600, "steps": 50 if small else 200, "bar": 2.5}
    yield race("linear 784 x 10", linear.to(device), *data, mine, **how)
    cnn = convolutional_network((1, 28, 28), 10, generator=generator)
    resnet = residual_network(generator=generator)
    for job, network, shape, size, bar in (
        ("two convolutions", cnn, (1, 28, 28), 256, 1.25),
        ("ResNet-20", resnet, (3, 32, 32), 16 if small else 64, 1.2),
    ):
        images = torch.randn(4 * size, *shape, generator=generator).to(device)
        labels = torch.randint(10, (4 * size,), generator=generator).to(device)
        network = network.to(device)
        ours = partial(fit, network, images, labels)
        yield race(job, network, images, labels, ours, size=size, steps=3, bar=bar)
