"""Speed of training an ensemble of networks: the engine that ``engine="auto"`` takes
against the other one.

It should never be slower by more than 5 %. Where the engine trains all networks in one
product for each layer, the row beside it compares with the products alone; there an
optimiser step moves as many weights as the products read.
"""

from functools import partial

import numpy as np
import torch

from dpnotes.learners import (
    choose_engine,
    convolutional_network,
    fit_networks,
    multilayer_perceptron,
)

from ._common import OPERATIONS, RANDOM, Row, arithmetic, timed

ROWS = 320  # of each subset
SHAPE = (1, 28, 28)
JOBS = (  # name, networks, batch size, epochs; and of the small version
    ("CNN 16-32", (8, 64, 4), (4, 64, 1)),
    ("CNN 16-32", (32, 16, 1), (8, 16, 1)),
    ("MLP 784-32-10", (256, 32, 3), (64, 32, 2)),
)


def cnn(generator):
    return convolutional_network(SHAPE, 10, generator=generator)


def mlp(generator):
    return multilayer_perceptron(SHAPE, 10, hidden=(32,), generator=generator)


def rows(small, device):
    """Job 6."""
    draw = np.random.default_rng(1)
    images = draw.random((60_000, *SHAPE), dtype=np.float32)
    labels = draw.integers(10, size=len(images))
    for name, *sizes in JOBS:
        models, size, epochs = sizes[small]
        # the same function for both engines
        build = cnn if name.startswith("CNN") else mlp
        subsets = draw.integers(len(images), size=(models, ROWS))
        engine = choose_engine(
            "auto",
            build(torch.Generator()),
            torch.device(device),
            n_models=models,
            batch_size=size,
        )
        # both engines can train every network
        other = "batched" if engine == "loop" else "loop"
        fit = partial(
            fit_networks,
            build,
            images,
            labels,
            subsets,
            epochs=epochs,
            batch_size=size,
            learning_rate=1e-2,
            optimizer="momentum",
            seed=3,
            device=device,
        )
        (fast, slow, limit), (ours, theirs, _) = timed(
            partial(fit, engine=engine),
            partial(fit, engine=other),
            arithmetic(torch.float32, device),
            repeats=3,
            device=device,
        )
        # of all weights, though their orders of summation differ
        apart = [
            float((value - theirs.parameters[key]).abs().max())
            for key, value in ours.parameters.items()
        ]
        gap = max(apart)
        sides = [(slow, other, 0.95)]
        if build is mlp:
            # forwards, and backwards to the weights; of the second layer to its input too
            operations = models * epochs * ROWS * (4 * 784 * 32 + 6 * 32 * 10)
            limit *= operations / OPERATIONS
            sides.append((limit, "its products at full speed", 0.25))
        for seconds, against, bar in sides:
            yield Row(
                f"6. {name}, M={models}, B={size}: {engine}",
                RANDOM,
                fast,
                seconds,
                against,
                bar,
                f"the weights of the two engines differ by at most {gap:.1e} (float32,"
                " momentum)",
                gap=gap,
            )
