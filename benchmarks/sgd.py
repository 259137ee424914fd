"""Speed of SGD from many seeds and on many neighbouring data sets, against what the
machine can do.

Real data in the splits of Hyland and Tople: Adult (100 features), digits 3 and 5 of
MNIST projected to 50, Covertype classes 1 and 2 (one-hot soil types that occur). Ours
is the whole call, data copied and orders drawn. One run by ``torch.nn.Module``,
autograd and ``torch.optim.SGD`` checks the result; its time is scaled to all runs,
without a bar.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import nn

from dpnotes.learners import fit_sgd

from ._common import OPERATIONS, Row, arithmetic, gathering, loaded, timed


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

    def batches(self, seed):
        """Batches of the run with that order seed."""
        # the stream of orders that the learner documents
        stream = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0,)))
        each = len(self.y) // self.batch_size
        found = []
        while len(found) < self.steps:
            order = stream.permutation(len(self.y))[: each * self.batch_size]
            found += list(torch.from_numpy(order).split(self.batch_size))
        return found[: self.steps]


def tasks():
    for name, n, d, settings in (
        ("adult", 29_305, 100, (32, 0.5, 3400, 160, 8)),
        ("mnist", 10_397, 50, (32, 0.1, 1850, 98, 16)),
        ("covertype", 378_783, 49, (50, 1.0, 8400, 126, 0)),
    ):
        source, X, y, _ = loaded(name, split="intrinsic_sgd", n=n, d=d, n_classes=2)
        # as the real ones are
        X = X / np.linalg.norm(X, axis=1, keepdims=True).clip(1e-6)
        yield Task(name, source, X, y, *settings)


def by_module(task, record, dtype, seed, layers, device):
    """Weights after one run in which ``record`` is replaced by record 0."""
    # a copy, in which a record is replaced
    X = torch.tensor(task.X, dtype=dtype, device=device)
    y = torch.tensor(task.y, dtype=dtype, device=device)
    # nothing changes for record 0, the base run
    X[record] = X[0]
    y[record] = y[0]
    # the same initial weights as ours
    linear = []
    for layer in layers:
        unit = nn.Linear(layer.shape[1] - 1, layer.shape[0], dtype=dtype)
        unit.weight.data = torch.tensor(layer[:, :-1], dtype=dtype)
        unit.bias.data = torch.tensor(layer[:, -1], dtype=dtype)
        linear.append(unit)
    if len(linear) == 2:
        module = nn.Sequential(linear[0], nn.ReLU(), linear[1]).to(device)
        criterion = nn.CrossEntropyLoss()
        codes = y.long()
    else:
        module = linear[0].to(device)
        criterion = nn.BCEWithLogitsLoss()
        codes = y[:, None]
    optimizer = torch.optim.SGD(module.parameters(), lr=task.learning_rate)
    for rows in task.batches(seed):
        rows = rows.to(device)
        optimizer.zero_grad()
        criterion(module(X[rows]), codes[rows]).backward()
        optimizer.step()
    weights = [torch.cat([unit.weight, unit.bias[:, None]], 1) for unit in linear]
    return torch.cat([each.detach().ravel() for each in weights]).cpu().numpy()


def race(job, task, dtype, *, seeds, records, device):
    """Seeds, each on a data set and on its neighbours without one of these records;
    one of the runs is checked.
    """
    fit = {
        "n_runs": seeds,
        "dtype": dtype,
        "device": device,
        "batch_size": task.batch_size,
        "learning_rate": task.learning_rate,
        "steps": task.steps,
    }
    kind = getattr(torch, dtype)
    models = 1 + len(records)
    # the run that is checked: the base run, or the neighbour that is farthest from it
    column = record = 0
    if task.hidden:
        fit |= {"hidden": task.hidden, "output": "softmax"}
    if len(records):
        fit |= {"neighbours": records, "replacement": 0}
    runs = fit_sgd(task.X, task.y, **fit)
    limited = "a loop that only gathers its rows"
    bar = 0.33
    machine = rows_of(task, seeds, kind, device)
    if len(records):
        column = 1 + int(np.argmax(runs.distances[0]))
        record = int(records[column - 1])
        limited = "its products at full speed"
        bar = 0.4
        machine = arithmetic(kind, device)
    # of the first run, which is checked
    initial = runs.architecture.initial(int(runs.init_seeds[0]))
    layers = runs.architecture.layers(initial)
    seed = int(runs.order_seeds[0])
    (fast, limit, slow), (_, _, one) = timed(
        lambda: fit_sgd(task.X, task.y, **fit),
        machine,
        lambda: by_module(task, record, kind, seed, layers, device),
        repeats=3,
        device=device,
    )
    if len(records):
        limit *= operations(task, models) * seeds / OPERATIONS
    gap = float(np.abs(runs.all_weights[0, column] - one).max())
    job += f" {dtype}, {seeds} seeds" + f" x {models}" * (models > 1)
    job += f", {task.steps} steps"
    check = f"{fast / (seeds * models * task.steps) * 1e6:.3f} us per run and step"
    yield Row(job, task.data, fast, limit, limited, bar, check)
    yield Row(
        job,
        task.data,
        fast,
        slow * models * seeds,
        "nn.Module and SGD",
        None,
        f"{check}, {slow / task.steps * 1e6:.1f} for the other side; largest difference"
        f" of a weight in one run: {gap:.1e}",
        gap=gap,
    )


def rows_of(task, seeds, dtype, device):
    """The batches of all seeds, gathered. A step touches a batch three times: here,
    and in each of its two products.
    """
    # with the intercept's feature
    table = torch.ones(len(task.X), task.X.shape[1] + 1, dtype=dtype, device=device)
    # a hundred batches in turn are as far apart in memory as all would be
    rows = torch.randint(len(table), (100, seeds * task.batch_size), device=device)
    return gathering(lambda: ((table, rows[step % 100]) for step in range(task.steps)))


def operations(task, models):
    """What the products of one seed take: a neighbour is the same model until a
    batch first holds its record.
    """
    epoch = len(task.y) // task.batch_size
    steps = task.steps
    d = task.X.shape[1] + 1
    # the mean fraction of the steps after a record that is anywhere in the first epoch
    apart = steps / epoch / 2 if steps < epoch else 1 - epoch / steps / 2
    # forwards, and backwards to the weights
    products = 2 * d
    if task.hidden:
        products = 2 * task.hidden * d + 3 * 2 * (task.hidden + 1)
    return 2 * steps * task.batch_size * products * (1 + (models - 1) * apart)


def rows(small, device):
    for task in tasks():
        few = task.steps // 20
        short = replace(task, steps=few if small else task.steps, hidden=0)
        # networks take longer a step
        layered = replace(task, steps=few if small else task.steps // 4)
        records = np.random.default_rng(0).choice(
            np.arange(1, len(task.y)), task.neighbours, replace=False
        )
        jobs = [
            (f"4a. {task.name}", short, 128, records[:0]),
            (f"4b. {task.name}", short, 16, records),
        ]
        if task.hidden:
            name = f"4c. {task.name} {task.X.shape[1]}-{task.hidden}-2"
            jobs.append((name, layered, 8, records))
        for dtype in ("float32", "float64"):
            for job, chosen, seeds, changed in jobs:
                how = {"seeds": seeds, "records": changed, "device": device}
                yield from race(job, chosen, dtype, **how)
