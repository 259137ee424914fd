"""Speed of training an ensemble of networks: the engine that ``engine="auto"`` takes
against the other one.

It should never be slower by more than 5 %. Where the engine trains all networks in one
product for each layer, the row beside it compares with the products alone; there an
optimiser step moves as many weights as the products read.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import torch

from dpnotes.learners import (
    choose_engine,
    convolutional_network,
    device_name,
    fit_networks,
    multilayer_perceptron,
)

from ._common import OPERATIONS, RANDOM, Row, arithmetic, clock_of, timed

ROWS = 320  # of each subset
SHAPE = (1, 28, 28)
CNN = partial(convolutional_network, SHAPE, 10)
MLP = partial(multilayer_perceptron, SHAPE, 10, hidden=(32,))
JOBS = (  # name, architecture, networks, batch size, epochs; and of the small version
    ("CNN 16-32", CNN, (8, 64, 4), (4, 64, 1)),
    ("CNN 16-32", CNN, (32, 16, 1), (8, 16, 1)),
    ("MLP 784-32-10", MLP, (256, 32, 3), (64, 32, 2)),
)


def rows(small: bool, device: str) -> Iterator[Row]:
    """Job 6."""
    draw = np.random.default_rng(1)
    images = draw.random((60_000, *SHAPE), dtype=np.float32)
    labels = draw.integers(10, size=len(images))
    for name, architecture, *sizes in JOBS:
        models, size, epochs = sizes[small]
        subsets = draw.integers(len(images), size=(models, ROWS))
        network, on = architecture(generator=torch.Generator()), torch.device(device)
        chosen = choose_engine("auto", network, on, n_models=models, batch_size=size)
        other = "batched" if chosen == "loop" else "loop"
        training = {
            "epochs": epochs,
            "batch_size": size,
            "learning_rate": 1e-2,
            "optimizer": "momentum",
            "seed": 3,
        }

        def build(
            generator: torch.Generator, architecture: partial = architecture
        ) -> torch.nn.Module:
            return architecture(generator=generator)

        fit = partial(
            fit_networks, build, images, labels, subsets, device=device, **training
        )
        (fast, slow, limit), (ours, theirs, _) = timed(
            partial(fit, engine=chosen),
            partial(fit, engine=other),
            arithmetic(torch.float32, device),
            repeats=1 if small else 3,
            clock=clock_of(device),
        )
        gap = max(
            float((v - theirs.parameters[name]).abs().max())
            for name, v in ours.parameters.items()
        )
        job, about = (
            f"6. {name}, M={models}, B={size}: {chosen}",
            {"device": device_name(device), "gap": gap},
        )
        check = (
            f"the weights of the two engines differ by at most {gap:.1e} (float32,"
            " momentum)"
        )
        yield Row(job, RANDOM, fast, slow, other, 0.95, check, **about)
        if architecture is MLP:
            operations = models * epochs * ROWS * (4 * 784 * 32 + 6 * 32 * 10)
            limit *= operations / OPERATIONS
            yield Row(
                job,
                RANDOM,
                fast,
                limit,
                "its products at full speed",
                0.25,
                check,
                **about,
            )
