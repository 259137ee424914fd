"""What a missing row would take, judged by rows that were measured."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from dpnotes.lab import store
from dpnotes.lab._experiment import Experiment
from dpnotes.lab.store import Measured

Parameters = Mapping[str, Any]


class Costs:
    """Expected seconds of rows, on one core or on a GPU.

    A row takes what the rows took that are most like it: those of its experiment that differ from it in the fewest
    parameters (the seed is none), and in these by the smallest factors. Where they are not the same, the experiment's
    own estimate says how much longer it is: :attr:`Experiment.cost`. That alone counts where no row was measured.

    On a GPU, rows that were measured on a GPU count. Where the experiment has none, it is what the row takes on a core,
    times the fraction of that which the rows of all other experiments took there; where nothing was measured on any
    GPU, divided by :attr:`Experiment.gpu_speedup`.

    Parameters
    ----------
    experiments : iterable of Experiment
        Whose rows are read, from the published results and from the runs.

    Examples
    --------
    >>> costs = Costs([])
    >>> costs.add("toy", [Measured({"x": 1, "seed": 0}, 10.0, "cpu"), Measured({"x": 1, "seed": 1}, 30.0, "cpu")])
    >>> toy = Experiment("toy", dict, {}, cost=lambda row: 2.0 * row["x"])
    >>> costs.seconds(toy, {"x": 1, "seed": 7}), costs.seconds(toy, {"x": 3, "seed": 0})
    (20.0, 60.0)
    """

    def __init__(self, experiments: Iterable[Experiment]) -> None:
        self._rows: dict[tuple[str, bool], list[Measured]] = {}
        self._ratios: dict[tuple[Any, ...], float | None] = {}
        self._gpu_fraction: float | None = None
        self._experiments = {experiment.name: experiment for experiment in experiments}
        for name in self._experiments:
            for place in (store.published_store, store.runs_store):
                self.add(name, store.measured(place(name)))

    def add(self, name: str, rows: Iterable[Measured]) -> None:
        """Count these rows of an experiment, too."""
        for row in rows:
            self._rows.setdefault((name, row.device != "cpu"), []).append(row)
        self._ratios.clear()
        self._gpu_fraction = None

    def seconds(self, experiment: Experiment, parameters: Parameters, *, gpu: bool = False) -> float:
        """Expected seconds of one row, on a core, or on a GPU."""
        estimate = experiment.cost(parameters)
        ratio = self._ratio(experiment, parameters, gpu)
        if ratio is not None:
            return ratio * (estimate or 1.0)
        if not gpu:
            return estimate
        fraction = self._fraction()
        on_core = self.seconds(experiment, parameters)
        return on_core / experiment.gpu_speedup if fraction is None else on_core * fraction

    def _ratio(self, experiment: Experiment, parameters: Parameters, gpu: bool) -> float | None:
        """Measured over estimated seconds of the rows that are most like one; None where there is none."""
        own = {name: value for name, value in parameters.items() if name != "seed"}
        key = (experiment.name, gpu, *sorted((name, repr(value)) for name, value in own.items()))
        if key not in self._ratios:
            rows = self._rows.get((experiment.name, gpu), [])
            away = [_distance(own, row.parameters) for row in rows]
            like = [row for row, distance in zip(rows, away, strict=True) if distance == min(away)]
            estimated = sum(experiment.cost(row.parameters) or 1.0 for row in like)
            self._ratios[key] = sum(row.seconds for row in like) / estimated if like else None
        return self._ratios[key]

    def _fraction(self) -> float | None:
        """Seconds that rows took on a GPU, over those expected of them on a core; None if none was measured there."""
        if self._gpu_fraction is None:
            there = [(name, row) for (name, gpu), rows in self._rows.items() if gpu for row in rows]
            known = [(self._experiments[name], row) for name, row in there if name in self._experiments]
            on_core = sum(self.seconds(experiment, row.parameters) for experiment, row in known)
            if on_core:
                self._gpu_fraction = sum(row.seconds for _, row in known) / on_core
        return self._gpu_fraction


def _distance(one: Parameters, other: Parameters) -> tuple[int, float]:
    """In how many parameters two rows differ, and by which factors, all together (as logarithm)."""
    differing, factors = 0, 0.0
    for name in one.keys() | {name for name in other if name != "seed"}:
        a, b = one.get(name), other.get(name)
        if a == b:
            continue
        differing += 1
        if _positive(a) and _positive(b):
            factors += abs(math.log(a / b))  # type: ignore[operator]
    return differing, round(factors, 9)


def _positive(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0
