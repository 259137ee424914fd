"""Runs of SGD that differ in seed and in one record, kept while rows about them are computed, and their statistics."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from dpnotes.accounting.papers import sgd_sensitivity
from dpnotes.lab.intrinsic_sgd.data import ROUNDING, Records, records
from dpnotes.learners import SGDRuns, fit_sgd
from dpnotes.methods import logistic_loss, neighbour_runs

Floats = NDArray[np.floating]
INITIALS = ("varied", "fixed")
SCHEDULES = ("constant", "inverse", "inverse-root", "linear")
QUANTITIES = ("data", "seed", "both", "p-value")
TESTED_DATASETS = 25  # of the test of normality, as in the paper's Figure 3
PAIRS = 200_000  # of runs that differ in seed and data set, drawn of tens of millions


@dataclass(frozen=True)
class Setting:
    """How the runs of one row are made: data, model, SGD, seeds and neighbours."""

    dataset: str
    hidden: int | None
    output: str
    initial: str
    batch_size: int
    learning_rate: float
    schedule: str
    steps: int
    n_seeds: int
    n_neighbours: int
    seed: int
    scale_rows: bool = False

    def __post_init__(self) -> None:
        for name, known in (("initial", INITIALS), ("schedule", SCHEDULES)):
            if getattr(self, name) not in known:
                raise ValueError(f"{name} must be one of {', '.join(map(repr, known))}, got {getattr(self, name)!r}")
        if self.n_seeds < 2:
            raise ValueError(f"n_seeds must be >= 2, got n_seeds={self.n_seeds}; one run has no spread")

    @property
    def records(self) -> Records:
        """The data."""
        return records(self.dataset, self.scale_rows)

    @property
    def steps_per_pass(self) -> int:
        """Batches of a pass through the records but the first one; the rest of a pass is left out."""
        n = len(self.records.X) - 1
        if self.batch_size > n:
            raise ValueError(f"batch_size must be <= {n} records, got batch_size={self.batch_size}")
        return n // self.batch_size

    def rates(self) -> Floats:
        """Step lengths [steps]: constant, or falling as 1/(1 + passes), its root, or in a line towards 0."""
        passes = np.arange(self.steps) / self.steps_per_pass
        shape = {
            "constant": np.ones(self.steps),
            "inverse": 1 / (1 + passes),
            "inverse-root": 1 / np.sqrt(1 + passes),
            "linear": 1 - np.arange(self.steps) / self.steps,
        }
        return self.learning_rate * shape[self.schedule]

    def bound(self, analysis: str) -> float | None:
        """Sensitivity for rows of norm 1, the paper's (a fraction of a pass counts as such) or the proved one.

        None where there is none: the paper's is for logistic regression at a constant rate; the proved one also needs
        rows of norm at most 1, and a learning rate of at most 2 / smoothness. At a falling rate each pass counts with
        its first, largest step.
        """
        loss = logistic_loss(1.0)
        how: dict[str, Any] = {**loss._asdict(), "batch_size": self.batch_size, "analysis": analysis}
        if self.hidden is not None or self.learning_rate > 2 / loss.smoothness:
            return None
        if analysis == "published":
            passes = self.steps * self.batch_size / len(self.records.X)
            constant = self.schedule == "constant"
            return sgd_sensitivity(**how, learning_rate=self.learning_rate, epochs=passes) if constant else None
        if self.records.longest > 1 + ROUNDING:
            return None
        first = self.rates()[:: self.steps_per_pass]
        return float(sum(sgd_sensitivity(**how, learning_rate=float(rate), epochs=1) for rate in first))


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Steps of microseconds are not worth sharing between threads."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@functools.lru_cache(maxsize=2)
@one_thread()
def trained(setting: Setting, device: str, dtype: str = "float64") -> SGDRuns:
    """Weights [n_seeds, n_neighbours + 1, p]; column 0 is the data set without its first record."""
    given = setting.records
    runs: SGDRuns = neighbour_runs(
        given.X,
        given.y,
        n_seeds=setting.n_seeds,
        n_neighbours=setting.n_neighbours,
        fixed_initial=setting.initial == "fixed",
        random_state=setting.seed,
        batch_size=setting.batch_size,
        learning_rate=setting.rates(),
        steps=setting.steps,
        hidden=setting.hidden,
        output=setting.output,
        dtype=dtype,
        device=device,
    )
    return runs


@functools.lru_cache(maxsize=1)
@one_thread()
def trajectories(setting: Setting, steps: tuple[int, ...], device: str) -> Floats:
    """Weights [n_seeds, len(steps), p] after so many steps, on the data set without its first record."""
    given = setting.records
    runs = fit_sgd(
        np.ascontiguousarray(given.X[1:]),
        given.y[1:],
        n_runs=setting.n_seeds,
        random_state=setting.seed,
        init_seeds=0 if setting.initial == "fixed" else None,
        batch_size=setting.batch_size,
        learning_rate=setting.rates(),
        steps=setting.steps,
        last_batch="drop",
        checkpoints=steps,
        dtype=np.float64,
        device=device,
    )
    return runs.trajectory


def ends(setting: Setting, device: str) -> Floats:
    """Last weights [n_seeds, p] on the data set without its first record: column 0 of :func:`trained`."""
    return trajectories(setting, (setting.steps,), device)[:, 0]


def spread(weights: Floats) -> dict[str, float]:
    """Standard deviation of a weight over seeds, from weights [R, S + 1, p].

    ``sigma`` pools all weights of a data set, and is the median over data sets, as in the paper.
    """
    deviations = weights - weights.mean(axis=0)
    sigmas, each = deviations.std(axis=(0, 2)), deviations[:, 0].std(axis=0)
    directions = np.linalg.svd(deviations[:, 0], compute_uv=False) / math.sqrt(len(weights) - 1)
    p = weights.shape[2]
    return {
        "sigma": float(np.median(sigmas)),
        "sigma_low": float(sigmas.min()),
        "sigma_high": float(sigmas.max()),
        "weight_sigma_low": float(each.min()),
        "weight_sigma_high": float(each.max()),
        "direction_sigma_low": float(directions[-1]) if len(directions) == p < len(weights) else 0.0,
        "direction_sigma_high": float(directions[0]),
    }


def sensitivities(weights: Floats) -> dict[str, float]:
    """Largest distances between data sets under one seed, from weights [R, S + 1, p].

    ``observed`` is over all pairs, which differ in two records but for those with column 0; ``neighbours`` over these
    alone; ``means`` between the means over seeds, of the same pairs with column 0.
    """
    apart = (weights[:, 1:] - weights[:, :1]).astype(np.float64)
    return {
        "observed": max(float(pairwise(run).max()) for run in weights),
        "neighbours": float(np.linalg.norm(apart, axis=2).max()),
        "means": float(np.linalg.norm(apart.mean(axis=0), axis=1).max()),
    }


def normality(weights: Floats) -> Floats:
    """p-values [data sets, p] of Shapiro and Wilk's test of each weight over seeds, for the first data sets."""
    return np.array(
        [
            [stats.shapiro(values).pvalue for values in column.T]
            for column in weights[:, :TESTED_DATASETS].swapaxes(0, 1)
        ]
    )


def sample(quantity: str, weights: Floats, *, seed: int) -> Floats:
    """All values of a quantity whose distribution the paper shows, from weights [R, S + 1, p].

    ``"data"``: distances of two data sets under one seed; ``"seed"``: of two seeds on one data set; ``"both"``: of runs
    that differ in both, a random sample of the pairs; ``"p-value"``: of the tests of normality.
    """
    if quantity == "p-value":
        return normality(weights).ravel()
    if quantity == "data":
        return np.concatenate([pairwise(run) for run in weights])
    if quantity == "seed":
        return np.concatenate([pairwise(column) for column in weights.swapaxes(0, 1)])
    if quantity != "both":
        raise ValueError(f"quantity must be one of {', '.join(map(repr, QUANTITIES))}, got quantity={quantity!r}")
    R, S, _ = weights.shape
    generator = np.random.default_rng(seed)
    first, second = generator.integers(R, size=(2, PAIRS)), generator.integers(S, size=(2, PAIRS))
    differ = (first[0] != first[1]) & (second[0] != second[1])
    one, two = zip(first[:, differ], second[:, differ], strict=True)
    return np.concatenate(
        [
            np.linalg.norm(weights[a, s] - weights[b, t], axis=1)
            for a, s, b, t in zip(*(np.array_split(x, 50) for x in (*one, *two)), strict=True)
        ]
    )


def pairwise(points: Floats) -> Floats:
    """Euclidean distances of all pairs of rows, differences taken first: no digits are lost between near points."""
    from scipy.spatial.distance import pdist

    return np.asarray(pdist(points))


def percentiles(values: Floats) -> dict[str, float]:
    """The 101 percentiles q0 (the least) to q100 (the largest)."""
    levels = np.arange(101)
    return {f"q{level}": float(q) for level, q in zip(levels, np.percentile(values, levels), strict=True)}


def accuracies(setting: Setting, weights: Floats) -> Floats:
    """Share of test records that each of weights [..., p] of a logistic regression gets right."""
    given = setting.records
    odds = given.X_test.astype(np.float64) @ weights[..., :-1].reshape(-1, weights.shape[-1] - 1).T
    right = (odds + weights[..., -1].ravel() > 0) == given.y_test[:, None]  # [m, runs]
    return np.asarray(right.mean(axis=0)).reshape(weights.shape[:-1])


def network_accuracies(setting: Setting, device: str) -> Floats:
    """Share of test records that each seed's network gets right, [n_seeds]."""
    given, runs = setting.records, trained(setting, device)
    odds = runs.architecture.logits(runs.weights, given.X_test)  # [n_seeds, m]
    return np.asarray(((odds > 0) == given.y_test).mean(axis=1))
