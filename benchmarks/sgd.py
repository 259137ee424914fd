"""Speed of SGD from many seeds and on many neighbouring data sets, against what the
machine can do.

Real data in the splits of Hyland and Tople: Adult (100 features), digits 3 and 5 of
MNIST projected to 50, Covertype classes 1 and 2 (one-hot soil types that occur). Ours
is the whole call, data copied and orders drawn. One run by ``torch.nn.Module``,
autograd and ``torch.optim.SGD`` checks the result; its time is scaled to all runs,
without a bar.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import nn

from dpnotes.learners import device_name, fit_sgd

from ._common import OPERATIONS, Row, arithmetic, clock_of, gathering, loaded, timed


@dataclass(frozen=True)
class Task:
    """A data set with its settings: batch size, learning rate and steps of the
    paper; S neighbours as in its grid.
    """

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
        return {
            "batch_size": self.batch_size,
            "learning_rate": self.learning_rate,
            "steps": self.steps,
        }

    def batches(self, seed: int) -> list[torch.Tensor]:
        """Batches of the run with that order seed."""
        stream = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0,)))
        each, found = len(self.y) // self.batch_size, []
        while len(found) < self.steps:
            order = torch.from_numpy(
                stream.permutation(len(self.y))[: each * self.batch_size]
            )
            found += list(order.split(self.batch_size))
        return found[: self.steps]


def tasks() -> Iterator[Task]:
    for name, n, d, (batch_size, rate, steps, neighbours, hidden) in (
        ("adult", 29_305, 100, (32, 0.5, 3400, 160, 8)),
        ("mnist", 10_397, 50, (32, 0.1, 1850, 98, 16)),
        ("covertype", 378_783, 49, (50, 1.0, 8400, 126, 0)),
    ):
        source, X, y, _ = loaded(name, split="intrinsic_sgd", n=n, d=d, n_classes=2)
        # as the real ones are
        X = X / np.linalg.norm(X, axis=1, keepdims=True).clip(1e-6)
        yield Task(name, source, X, y, batch_size, rate, steps, neighbours, hidden)


def by_module(
    task: Task,
    record: int,
    dtype: torch.dtype,
    seed: int,
    layers: list[np.ndarray],
    device: str,
) -> np.ndarray:
    """Weights after one run in which ``record`` is replaced by record 0."""
    X, y = (
        torch.tensor(task.X, dtype=dtype, device=device),
        torch.tensor(task.y, dtype=dtype, device=device),
    )
    X[record], y[record] = X[0], y[0]
    softmax = len(layers) == 2
    codes, criterion = (
        (y.long(), nn.CrossEntropyLoss())
        if softmax
        else (y[:, None], nn.BCEWithLogitsLoss())
    )
    linear = [
        nn.Linear(layer.shape[1] - 1, layer.shape[0], dtype=dtype) for layer in layers
    ]
    with torch.no_grad():
        for unit, layer in zip(linear, layers, strict=True):
            unit.weight.copy_(torch.tensor(layer[:, :-1]))
            unit.bias.copy_(torch.tensor(layer[:, -1]))
    module = (
        nn.Sequential(linear[0], nn.ReLU(), linear[1]) if softmax else linear[0]
    ).to(device)
    optimizer = torch.optim.SGD(module.parameters(), lr=task.learning_rate)
    for rows in task.batches(seed):
        rows = rows.to(device)
        optimizer.zero_grad()
        criterion(module(X[rows]), codes[rows]).backward()
        optimizer.step()
    both = [
        torch.cat([unit.weight, unit.bias[:, None]], dim=1)
        .detach()
        .cpu()
        .numpy()
        .ravel()
        for unit in linear
    ]
    return np.concatenate(both)


def race(
    job: str,
    task: Task,
    dtype: str,
    *,
    seeds: int,
    records: np.ndarray,
    repeats: int,
    device: str,
) -> Iterator[Row]:
    """Seeds, each on a data set and on its neighbours without one of these records;
    one of the runs is checked.
    """
    fit: dict[str, Any] = {
        "n_runs": seeds,
        "dtype": dtype,
        "device": device,
        **task.settings,
    }
    if len(records):
        fit |= {"neighbours": records, "replacement": 0}
    if task.hidden:
        fit |= {"hidden": task.hidden, "output": "softmax"}
    runs = fit_sgd(task.X, task.y, **fit)
    column = 1 + int(np.argmax(runs.distances[0])) if len(records) else 0
    record = int(records[column - 1]) if column else 0
    layers = runs.architecture.layers(
        runs.architecture.initial(int(runs.init_seeds[0]))
    )
    seed, kind, models = (
        int(runs.order_seeds[0]),
        getattr(torch, dtype),
        1 + len(records),
    )
    (fast, limit, slow), (_, _, one) = timed(
        lambda: fit_sgd(task.X, task.y, **fit),
        (
            arithmetic(kind, device)
            if len(records)
            else rows_of(task, seeds, kind, device)
        ),
        lambda: by_module(task, record, kind, seed, layers, device),
        repeats=repeats,
        clock=clock_of(device),
    )
    if len(records):
        limit *= operations(task, models) * seeds / OPERATIONS
    gap = float(np.abs(runs.all_weights[0, column] - one).max())
    steps = seeds * models * task.steps
    job += (
        f" {dtype}, {seeds} seeds"
        + f" x {models}" * (models > 1)
        + f", {task.steps} steps"
    )
    limited, bar = (
        ("its products at full speed", 0.4)
        if len(records)
        else ("a loop that only gathers its rows", 0.33)
    )
    check = f"{fast / steps * 1e6:.3f} us per run and step"
    common = {"device": device_name(device)}
    yield Row(job, task.data, fast, limit, limited, bar, check, **common)
    check += (
        f", {slow / task.steps * 1e6:.1f} for the other side; largest difference of a"
        f" weight in one run: {gap:.1e}"
    )
    yield Row(
        job,
        task.data,
        fast,
        slow * models * seeds,
        "nn.Module and SGD",
        None,
        check,
        gap=gap,
        **common,
    )


def rows_of(
    task: Task, seeds: int, dtype: torch.dtype, device: str
) -> Callable[[], None]:
    """The batches of all seeds, gathered. A step touches a batch three times: here,
    and in each of its two products.
    """
    # with the intercept's feature
    table = torch.ones(len(task.X), task.X.shape[1] + 1, dtype=dtype, device=device)
    rows = torch.randint(len(table), (100, seeds * task.batch_size), device=device)
    return gathering(lambda: ((table, rows[step % 100]) for step in range(task.steps)))


def operations(task: Task, models: int) -> float:
    """What the products of one seed take: a neighbour is the same model until a
    batch first holds its record.
    """
    epoch, steps, d = len(task.y) // task.batch_size, task.steps, task.X.shape[1] + 1
    apart = steps / epoch / 2 if steps < epoch else 1 - epoch / steps / 2
    products = 2 * task.hidden * d + 3 * 2 * (task.hidden + 1) if task.hidden else 2 * d
    return 2 * steps * task.batch_size * products * (1 + (models - 1) * apart)


def rows(small: bool, device: str = "cpu") -> Iterator[Row]:
    for task in tasks():
        short = replace(task, steps=task.steps // (20 if small else 1), hidden=0)
        layered = replace(task, steps=task.steps // (20 if small else 4))
        records = np.random.default_rng(0).choice(
            np.arange(1, len(task.y)), task.neighbours, replace=False
        )
        common = {"repeats": 1 if small else 3, "device": device}
        for dtype in ("float32", "float64"):
            yield from race(
                f"4a. {task.name}",
                short,
                dtype,
                seeds=128,
                records=records[:0],
                **common,
            )
            yield from race(
                f"4b. {task.name}", short, dtype, seeds=16, records=records, **common
            )
            if task.hidden:
                job = f"4c. {task.name} {task.X.shape[1]}-{task.hidden}-2"
                yield from race(job, layered, dtype, seeds=8, records=records, **common)
