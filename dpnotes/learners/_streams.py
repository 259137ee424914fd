"""Seeds of each model's own random streams, spawned from one seed, so that no model depends on what else is trained."""

from __future__ import annotations

import numpy as np
import torch


def spawned_seed(seed: int, *key: int) -> int:
    """Seed of 63 bits, spawned from ``seed`` and the numbers of a model and of a purpose."""
    return int(np.random.SeedSequence(seed, spawn_key=key).generate_state(1, np.uint64)[0] >> np.uint64(1))


def torch_generator(seed: int, *key: int) -> torch.Generator:
    """Generator on the CPU, spawned like :func:`spawned_seed`."""
    return torch.Generator().manual_seed(spawned_seed(seed, *key))
