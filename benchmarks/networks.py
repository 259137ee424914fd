"""Speed of training an ensemble of networks: the engine that ``engine="auto"`` takes against the other one.

On a CPU thread time on one thread, on a GPU wall time between synchronisations; both engines in one process and by
turns (A B A B), medians; the first call of each is left out. Runs on the GPU where there is one.

"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from dpnotes.learners import (
    Networks,
    choose_engine,
    convolutional_network,
    device_name,
    fit_networks,
    multilayer_perceptron,
)

from ._common import RANDOM, Row, clock_of, timed

ROWS = 320  # of each subset
SHAPE = (1, 28, 28)


@dataclass(frozen=True)
class Job:
    """An ensemble; ``bar`` and ``gpu_bar`` are the ratios to reach on one CPU core and on a GPU."""

    architecture: str
    n_models: int
    batch_size: int
    epochs: int
    bar: float
    gpu_bar: float

    def build(self, generator: torch.Generator) -> nn.Module:
        if self.architecture == "CNN 16-32":
            return convolutional_network(SHAPE, 10, generator=generator)
        return multilayer_perceptron(SHAPE, 10, hidden=(32,), generator=generator)


JOBS = (
    Job("CNN 16-32", 8, 64, 4, 0.95, 5),
    Job("CNN 16-32", 32, 16, 1, 0.95, 5),
    Job("MLP 784-32-10", 256, 32, 3, 4, 5),
)
SMALL = (
    Job("CNN 16-32", 4, 64, 1, 0.95, 2),
    Job("CNN 16-32", 8, 16, 1, 0.95, 2),
    Job("MLP 784-32-10", 64, 32, 2, 2, 2),
)


def rows(small: bool) -> Iterator[Row]:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    draw = np.random.default_rng(1)
    images = draw.random((60_000, *SHAPE), dtype=np.float32)
    labels = draw.integers(10, size=len(images))
    gpu = torch.device(device).type == "cuda"
    for job in SMALL if small else JOBS:
        subsets = draw.integers(len(images), size=(job.n_models, ROWS))
        network = job.build(torch.Generator())
        chosen = choose_engine("auto", network, torch.device(device), n_models=job.n_models, batch_size=job.batch_size)
        other = "batched" if chosen == "loop" else "loop"
        found: dict[str, Networks] = {}

        def fit(engine: str, job: Job = job, subsets: np.ndarray = subsets, found: dict = found) -> None:
            found[engine] = fit_networks(
                job.build,
                images,
                labels,
                subsets,
                epochs=job.epochs,
                batch_size=job.batch_size,
                learning_rate=1e-2,
                optimizer="momentum",
                engine=engine,
                seed=3,
                device=device,
            )
            if gpu:
                torch.cuda.synchronize()

        ours, theirs = timed(
            lambda fit=fit, engine=chosen: fit(engine),
            lambda fit=fit, engine=other: fit(engine),
            repeats=1 if small else 3,
            clock=clock_of(device),
        )
        gap = max(
            float((value - found[other].parameters[name]).abs().max())
            for name, value in found[chosen].parameters.items()
        )
        yield Row(
            f"6. {job.architecture}, M={job.n_models}, B={job.batch_size}: {chosen}",
            RANDOM,
            ours,
            theirs,
            other,
            job.gpu_bar if gpu else job.bar,
            f"largest difference of a weight between the engines {gap:.1e} (float32, momentum)",
            device=device_name(device),
            gap=gap,
        )
