"""Experiments in a module that worker processes can import: some need no learning,
one trains for a second.
"""

import hashlib
import os
import time
from functools import partial
from pathlib import Path

import numpy as np

from dpnotes.lab import experiment
from dpnotes.lab.store import checkpoint

GRID = [{"index": index} for index in (5, 3, 8, 1)]


def note(file, text):
    """Append a line to a file, whole whatever other processes append."""
    if file is not None:
        descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(descriptor, f"{text}\n".encode())
        os.close(descriptor)


def lines(file):
    return Path(file).read_text().splitlines() if Path(file).exists() else []


@experiment("toys.plain")
def plain(index, *, scale=1.0, pause=0.0, calls=None, pids=None, bad=(), deadly=()):
    """Metrics of every kind that are the same wherever they are computed."""
    note(calls, index)
    note(pids, os.getpid())
    time.sleep(pause)
    if index in bad:
        raise UnpicklableError(index, "no")
    if index in deadly:
        os.kill(os.getpid(), 9)
    return {
        "third": scale * index / 3,
        "even": index % 2 == 0,
        "label": f"row {index}",
        "count": index,
        "empty": None,
    }


class UnpicklableError(Exception):
    """Cannot be read back from a pickle: its arguments are not those of its message."""

    def __init__(self, index, reason):
        super().__init__(f"index {index}: {reason}")


def train(*, kind="mlp", seed=0, epochs=5):
    """Train a network, or three in one tensor program; their weights as a digest."""
    from dpnotes.learners import NetworkClassifier

    rng = np.random.default_rng(seed)
    X = rng.normal(size=(36, 3 * 64)).astype(np.float32)
    y = np.arange(36) % 3
    common = {
        "epochs": epochs,
        "batch_size": 12,
        "device": "cpu",
        "random_state": 0,
        "checkpoint": checkpoint(),
    }
    make = {
        "mlp": partial(NetworkClassifier, None, architecture="mlp", hidden=(16,)),
        "residual": partial(
            NetworkClassifier,
            (3, 8, 8),
            architecture="residual",
            augmentation="crop-flip",
        ),
    }[kind]
    subsets = (
        [range(36)] if kind == "residual" else [range(25), range(30), range(6, 36)]
    )
    networks = make(**common).fit_many(X, y, subsets, n_classes=3, seed=seed)
    weights = hashlib.sha256(
        b"".join(value.numpy().tobytes() for value in networks.parameters.values())
    )
    return {"weights": weights.hexdigest()[:16], "loss": float(networks.loss.sum())}
