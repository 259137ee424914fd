"""Speed of SGD from many seeds and on many neighbouring data sets, against one run at a time.

Thread time on one thread, sides by turns (A B A B), medians; the first call of each is left out. Real data in the
splits of Hyland and Tople: Adult (100 features), digits 3 and 5 of MNIST projected to 50, Covertype classes 1 and 2
(one-hot soil types that occur); synthetic data of the same shape, which the rows then say, where the data folder lacks
them. Ours is the whole call, data copied; a competitor trains one run in full, and its time is multiplied by the number
of runs. Both sides draw their orders within the time. Competitors: ``torch.nn.Module`` with autograd and
``torch.optim.SGD``; PyTorch operations by hand. Compiled loops (numba) are no dependency of this project and are left
out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import nn

from dpnotes.learners import device_name, fit_sgd

from ._common import Row, clock_of, loaded, timed


@dataclass(frozen=True)
class Task:
    """A data set with its settings: batch size, learning rate and steps of the paper; S neighbours as in its grid."""

    name: str
    data: str
    X: np.ndarray
    y: np.ndarray
    batch_size: int
    learning_rate: float
    steps: int
    neighbours: int
    hidden: int

    @property
    def settings(self) -> dict[str, Any]:
        return {"batch_size": self.batch_size, "learning_rate": self.learning_rate, "steps": self.steps}

    def batches(self, seed: int, device: str = "cpu") -> list[torch.Tensor]:
        """Batches of the run with that order seed."""
        stream = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0,)))
        each, found = len(self.y) // self.batch_size, []
        while len(found) < self.steps:
            order = torch.from_numpy(stream.permutation(len(self.y))[: each * self.batch_size])
            found += list(order.to(device).split(self.batch_size))
        return found[: self.steps]

    def tensors(self, record: int | None, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
        """The records, one of them replaced by record 0."""
        X, y = torch.tensor(self.X, dtype=dtype), torch.tensor(self.y, dtype=dtype)
        if record is not None:
            X[record], y[record] = X[0], y[0]
        return X, y


def tasks() -> Iterator[Task]:
    for name, n, d, (batch_size, rate, steps, neighbours, hidden) in (
        ("adult", 29_305, 100, (32, 0.5, 3400, 160, 8)),
        ("mnist", 10_397, 50, (32, 0.1, 1850, 98, 16)),
        ("covertype", 378_783, 49, (50, 1.0, 8400, 126, 0)),
    ):
        source, X, y, _ = loaded(name, split="intrinsic_sgd", n=n, d=d, n_classes=2)
        X = X / np.linalg.norm(X, axis=1, keepdims=True).clip(1e-6)  # as the real ones are
        yield Task(name, source, X, y, batch_size, rate, steps, neighbours, hidden)


def by_hand(
    task: Task, record: int | None, dtype: torch.dtype, seed: int, start: np.ndarray
) -> Callable[[], np.ndarray]:
    X, y = task.tensors(record, dtype)
    X = torch.cat([X, torch.ones(len(X), 1, dtype=dtype)], dim=1)

    def run() -> np.ndarray:
        w = torch.tensor(start, dtype=dtype)
        rate = task.learning_rate / task.batch_size
        with torch.inference_mode():
            for rows in task.batches(seed):
                x = X.index_select(0, rows)
                w.addmv_(x.T, torch.mv(x, w).sigmoid_().sub_(y.index_select(0, rows)), alpha=-rate)
        return w.numpy()

    return run


def by_module(
    task: Task, record: int | None, dtype: torch.dtype, seed: int, layers: list[np.ndarray], device: str = "cpu"
) -> Callable[[], np.ndarray]:
    X, y = (tensor.to(device) for tensor in task.tensors(record, dtype))
    softmax = len(layers) == 2
    codes, criterion = (y.long(), nn.CrossEntropyLoss()) if softmax else (y[:, None], nn.BCEWithLogitsLoss())

    def run() -> np.ndarray:
        linear = [nn.Linear(layer.shape[1] - 1, layer.shape[0], dtype=dtype) for layer in layers]
        with torch.no_grad():
            for unit, layer in zip(linear, layers, strict=True):
                unit.weight.copy_(torch.tensor(layer[:, :-1]))
                unit.bias.copy_(torch.tensor(layer[:, -1]))
        module = nn.Sequential(linear[0], nn.ReLU(), linear[1]) if softmax else linear[0]
        module.to(device)
        optimizer = torch.optim.SGD(module.parameters(), lr=task.learning_rate)
        for rows in task.batches(seed, device):
            optimizer.zero_grad()
            criterion(module(X[rows]), codes[rows]).backward()
            optimizer.step()
        both = [torch.cat([unit.weight, unit.bias[:, None]], dim=1).detach().cpu().numpy().ravel() for unit in linear]
        return np.concatenate(both)

    return run


def distinct_seeds(task: Task, dtype: str, *, n_runs: int, repeats: int, bar: float) -> Iterator[Row]:
    """Job 4a: one run for each seed."""
    found: dict[str, Any] = {}

    def ours() -> None:
        found["ours"] = fit_sgd(task.X, task.y, n_runs=n_runs, dtype=dtype, device="cpu", **task.settings)

    ours()
    runs = found["ours"]
    start = runs.architecture.initial(int(runs.init_seeds[0]))
    hand = by_hand(task, None, getattr(torch, dtype), int(runs.order_seeds[0]), start)
    fast, slow = timed(ours, hand, repeats=repeats)
    gap = float(np.abs(runs.weights[0] - hand()).max())
    yield Row(
        f"4a. {task.name} {dtype}, {n_runs} seeds, {task.steps} steps",
        task.data,
        fast,
        slow * n_runs,
        "torch by hand",
        bar,
        f"{fast / n_runs / task.steps * 1e6:.2f} us per run and step, by hand {slow / task.steps * 1e6:.1f}; largest "
        f"difference of a weight in run 0: {gap:.1e}",
        gap=gap,
        floor=2,  # rows at random from a table larger than the cache: bound by the memory of the machine
    )


def shared_seeds(
    task: Task,
    dtype: str,
    *,
    n_runs: int,
    repeats: int,
    hidden: int | None,
    bars: dict[str, float],
    device: str = "cpu",
) -> Iterator[Row]:
    """Jobs 4b and 4c: neighbours that share a seed, against the competitors that have a bar; one is checked."""
    records = np.random.default_rng(0).choice(np.arange(1, len(task.y)), task.neighbours, replace=False)
    found: dict[str, Any] = {}
    output = "softmax" if hidden else "sigmoid"

    def ours() -> None:
        found["ours"] = fit_sgd(
            task.X, task.y, neighbours=records, replacement=0, n_runs=n_runs, dtype=dtype, hidden=hidden,
            output=output, device=device, **task.settings,
        )  # fmt: skip

    ours()
    runs = found["ours"]
    column = 1 + int(np.argmax(runs.distances[0]))
    start = runs.architecture.initial(int(runs.init_seeds[0]))
    seed, kind = int(runs.order_seeds[0]), getattr(torch, dtype)
    record = int(records[column - 1])
    module = by_module(task, record, kind, seed, runs.architecture.layers(start), device)
    sides = {"nn.Module and SGD": module}
    if "torch by hand" in bars:
        sides["torch by hand"] = by_hand(task, record, kind, seed, start)
    fast, *slow = timed(ours, *sides.values(), repeats=repeats, clock=clock_of(device))
    models = n_runs * (task.neighbours + 1)
    for (name, side), seconds in zip(sides.items(), slow, strict=True):
        gap = float(np.abs(runs.all_weights[0, column] - side()).max())
        yield Row(
            f"4{'c' if hidden else 'b'}. {task.name}{f' 100-{hidden}-2' if hidden else ''} {dtype}, {n_runs} seeds x "
            f"{task.neighbours + 1}, {task.steps} steps".replace("100-16", "50-16"),
            task.data,
            fast,
            seconds * models,
            name,
            bars[name],
            f"{fast / models / task.steps * 1e6:.3f} us per run and step, the other {seconds / task.steps * 1e6:.1f}; "
            f"largest difference of a weight in one neighbour: {gap:.1e}; "
            f"distances of neighbours {runs.distances.min():.1e} to {runs.distances.max():.1e}",
            device=device_name(device),
            gap=gap,
            floor=0.3 * bars[name],  # the loop takes 12 us a step on some machines, 17 where the bar was set
        )


def rows(small: bool) -> Iterator[Row]:
    repeats = 1 if small else 3
    for task in tasks():
        chosen = replace(task, steps=task.steps // 4) if small else task
        for dtype in ("float32", "float64"):
            single = dtype == "float32"
            yield from distinct_seeds(chosen, dtype, n_runs=128, repeats=repeats, bar=14 if single else 8)
            bars = {"nn.Module and SGD": 700, "torch by hand": 100} if single else {
                "nn.Module and SGD": 400, "torch by hand": 65,
            }  # fmt: skip
            yield from shared_seeds(chosen, dtype, n_runs=16, repeats=repeats, hidden=None, bars=bars)
            if task.hidden:
                short = replace(task, steps=task.steps // 10 if small else task.steps // 4)
                bars = {"nn.Module and SGD": 60}
                yield from shared_seeds(short, dtype, n_runs=8, repeats=repeats, hidden=task.hidden, bars=bars)
