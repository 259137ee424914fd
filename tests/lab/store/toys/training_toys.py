"""Trainings of a second that keep checkpoints, and processes that are killed by SIGKILL in the midst of them.

``python tests/lab/store/toys/training_toys.py 200 [KIND ...]`` kills two hundred processes at random moments, and says
what was lost: ``{"kills": 200, "rows": ..., "continued": ..., "other results": 0, "left over": 0}``. A moment is a
number of calls of Python functions or of C, so that the same seed gives the same moments.
"""

import hashlib
import json
import os
import random
import signal
import sys
import tempfile
from functools import partial
from pathlib import Path

import numpy as np

from dpnotes import DPSGD
from dpnotes.lab.store import _checkpoint, checkpoint, provenance, read_store, sweep, unfinished
from dpnotes.learners import NetworkClassifier

EPOCHS = 5
COMMON = {"epochs": EPOCHS, "batch_size": 12, "device": "cpu", "random_state": 0}
SCHEDULE = {"schedule": {2: 0.1}, "augmentation": "crop-flip", "optimizer": "momentum", "learning_rate": 0.05}
NETWORKS = {
    "residual": partial(NetworkClassifier, (3, 8, 8), architecture="residual", **COMMON, **SCHEDULE),
    "vgg": partial(NetworkClassifier, (3, 32, 32), channels=(2, 4, 8, 8, 8), kernel_size=3, padding=1, **COMMON),
    "mlp": partial(NetworkClassifier, None, architecture="mlp", hidden=(16,), **COMMON),
}


def train(*, kind, seed=0):
    """Train a network, several in one tensor program or one with noise; its weights as a digest."""
    side = 32 if kind == "vgg" else 8
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(36, 3 * side * side)).astype(np.float32), np.arange(36) % 3
    network = NETWORKS["residual" if kind == "dp_sgd" else kind](checkpoint=checkpoint())
    if kind == "dp_sgd":
        settings = {"sample_rate": 1 / 3, "steps": 3 * EPOCHS, "clipping_norm": 1.0, "optimizer": "momentum"}
        model = DPSGD(noise_multiplier=1.0, network=network, device="cpu", noise_seed=seed, **settings).fit(X, y)
        networks = model._fitted.models
    else:
        subsets = [range(36)] if kind != "mlp" else [range(25), range(30), range(6, 36)]
        networks = network.fit_many(X, y, subsets, n_classes=3, seed=seed).networks
    weights = hashlib.sha256(b"".join(value.numpy().tobytes() for value in networks.parameters.values()))
    return {"weights": weights.hexdigest()[:16], "loss": float(networks.loss.sum()) if kind != "dp_sgd" else None}


def always(least=0.0):
    """Keep a state at the end of each epoch."""
    _checkpoint.LEAST, _checkpoint.FRACTION = least, float("inf")


def run(kind, store, calls, seed=0):
    """One row in a process of its own, killed after some calls; tell whether it was killed, and the calls it made."""
    log = store.with_name("calls")
    if not (child := os.fork()):
        made = 0

        def count(_frame, _event, _argument):
            nonlocal made
            made += 1
            if made == calls:
                os.kill(os.getpid(), signal.SIGKILL)

        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        sys.setprofile(count)
        sweep(train, [{"kind": kind, "seed": seed}], store=store, progress=False)
        sys.setprofile(None)
        log.write_text(str(made))
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    if status not in (0, signal.SIGKILL):
        raise RuntimeError(f"{kind} ended with status {status}")
    return status != 0, int(log.read_text()) if status == 0 else calls


def campaign(kills, folder, kinds=(*NETWORKS, "dp_sgd"), seed=20):
    """Kill processes until there were that many; compare each row with that of an undisturbed process."""
    always()
    draw = random.Random(seed)
    whole, expected = {}, {}
    provenance()
    for kind in kinds:
        train(kind=kind)  # what is imported late is imported before processes are forked
        store = folder / f"undisturbed_{kind}.csv"
        _, whole[kind] = run(kind, store, 0)
        expected[kind] = _metrics(store)
    done = {"kills": 0, "rows": 0, "continued": 0, "other results": 0, "left over": 0}
    while done["kills"] < kills:
        kind = kinds[done["rows"] % len(kinds)]
        store, killed = folder / f"{done['rows']}.csv", True
        while killed:
            done["continued"] += bool(unfinished(folder))
            killed, _ = run(kind, store, draw.randrange(1, 2 * whole[kind]))
            done["kills"] += killed
        done["rows"] += 1
        done["other results"] += _metrics(store) != expected[kind]
        done["left over"] += len(unfinished(folder)) + len(list(folder.glob(".checkpoints/*/*")))
    return done


def _metrics(store):
    return read_store(store)[["weights", "loss"]].astype(str).to_numpy().tolist()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        kills, *only = sys.argv[1:]
        print(json.dumps(campaign(int(kills), Path(temporary), *([only] if only else []))))
