"""Runs of SGD that differ in seed and in one record, stored while their rows are
computed, and their statistics.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy

from dpnotes import learners
from dpnotes._validation import Features, Integers
from dpnotes.accounting.papers import sgd_sensitivity
from dpnotes.lab.intrinsic_sgd.data import ROUNDING, Records, records
from dpnotes.learners import one_thread
from dpnotes.methods import logistic_loss

if TYPE_CHECKING:
    from dpnotes.learners import Architecture

INITIALS = ("varied", "fixed")
QUANTITIES = ("data", "seed", "both", "p-value")
TESTED_DATASETS = 25  # of the test of normality, as in the paper's Figure 3
PAIRS = 200_000  # of runs that differ in seed and data set, drawn of tens of millions


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Setting of the runs of one row: data, model, SGD, seeds and neighbours.

    Parameters
    ----------
    dataset : str
        See :func:`dpnotes.lab.intrinsic_sgd.data.records`.
    hidden : int or None
        Number of units of the hidden layer. None is logistic regression.
    output : {"sigmoid", "softmax"}
    initial : {"varied", "fixed"}
        Whether a seed draws the initial weights as well as the order of the records.
    batch_size, learning_rate, steps
        Settings of SGD. The last batch of a pass is left out if it is smaller.
    schedule : {"constant", "inverse", "inverse-root", "linear"}
        Schedule of the learning rate.
    n_seeds, n_neighbours : int
        There are ``n_seeds * (n_neighbours + 1)`` runs. The defaults are the smallest
        numbers, for rows that need only one data set or make their own pair.
    seed : int
    scale_rows : bool
        Whether each row of a file is divided by its norm.
    """

    dataset: str
    hidden: int | None
    output: str
    initial: str
    batch_size: int
    learning_rate: float
    schedule: str
    steps: int
    seed: int
    n_seeds: int = 2
    n_neighbours: int = 1
    scale_rows: bool = False

    @property
    def records(self) -> Records:
        """The data."""
        return records(self.dataset, self.scale_rows)

    @property
    def steps_per_pass(self) -> int:
        """Number of batches in a pass through all records except the first; the
        remainder of a pass is left out.
        """
        # fit_sgd refuses a batch of more than all
        return max(1, (len(self.records.X) - 1) // self.batch_size)

    @property
    def rates(self) -> Features:
        """Step lengths [steps]: constant, or falling as 1/(1 + passes), as the root
        of this, or linearly to 0.
        """
        # passes begun before each step
        passes = np.arange(self.steps) / self.steps_per_pass
        shape = {
            "constant": np.ones(self.steps),
            "inverse": 1 / (1 + passes),
            "inverse-root": 1 / np.sqrt(1 + passes),
            "linear": 1 - np.arange(self.steps) / self.steps,
        }
        return self.learning_rate * shape[self.schedule]

    @property
    def sgd(self) -> dict[str, Any]:
        """Keyword arguments of all functions that train; without a seed each run
        draws its own initial weights.
        """
        # one seed for all runs
        seeds = 0 if self.initial == "fixed" else None
        return {
            "batch_size": self.batch_size,
            "learning_rate": self.rates,
            "steps": self.steps,
            "init_seeds": seeds,
        }

    def bound(self, analysis: str) -> float | None:
        """Bound the sensitivity for rows of norm 1, as in the paper (with a fraction of
        a pass) or as proved.

        The result is None if there is no bound. The paper's bound is for logistic
        regression at a constant rate. The proved bound also needs rows of norm at most
        1 and a learning rate of at most 2 / smoothness. At a falling rate, each pass
        counts with its first step, which is the largest.
        """
        loss = logistic_loss(1.0)
        bounded = functools.partial(
            sgd_sensitivity,
            **loss._asdict(),
            batch_size=self.batch_size,
            analysis=analysis,
        )
        if self.hidden is not None or self.learning_rate > 2 / loss.smoothness:
            return None
        if analysis == "published":
            # the paper counts a broken-off pass as a fraction
            passes = self.steps * self.batch_size / len(self.records.X)
            return (
                bounded(learning_rate=self.learning_rate, epochs=passes)
                if self.schedule == "constant"
                else None
            )
        if self.records.longest > 1 + ROUNDING:
            return None
        return float(
            sum(
                bounded(learning_rate=float(rate), epochs=1)
                # rates fall, so that the first step of a pass is its largest
                for rate in self.rates[:: self.steps_per_pass]
            )
        )


def neighbour_runs(
    X: Features,
    y: Integers,
    *,
    n_seeds: int,
    n_neighbours: int,
    random_state: int,
    **setting: Any,
) -> learners.SGDRuns:
    """Train :func:`dpnotes.learners.fit_sgd` on data sets in which record 0 takes the
    place of another record.

    Parameters
    ----------
    X : ndarray of float32 or float64, shape [n, d]
    y : ndarray of int64, shape [n]
        Class codes 0 and 1.
    n_seeds : int
    n_neighbours : int, in 1 .. n - 1
        Number of data sets besides the data set without record 0. In each of them,
        record 0 takes the place of another record, which is drawn without replacement.
    random_state : int
    setting : keyword arguments
        Other arguments of :func:`dpnotes.learners.fit_sgd`: batch_size, steps,
        learning_rate, init_seeds, hidden, ...

    Returns
    -------
    dpnotes.learners.SGDRuns
        The runs. ``all_weights`` has shape [n_seeds, n_neighbours + 1, p]; column 0 is
        the data set without record 0.
    """
    if n_neighbours >= len(X):
        raise ValueError(
            f"n_neighbours must be < n={len(X)} records, got"
            f" n_neighbours={n_neighbours}"
        )
    # one place for each neighbouring data set
    chosen = np.random.default_rng(random_state).choice(
        len(X) - 1, n_neighbours, replace=False
    )
    return learners.fit_sgd(
        np.ascontiguousarray(X[1:]),
        y[1:],
        neighbours=np.sort(chosen),
        replacement=(X[0], int(y[0])),
        n_runs=n_seeds,
        random_state=random_state,
        **setting,
    )


@functools.lru_cache(maxsize=2)
@one_thread()
def trained(setting: Setting, device: str) -> learners.SGDRuns:
    """Train weights [n_seeds, n_neighbours + 1, p]; column 0 is the data set without
    its first record.
    """
    return neighbour_runs(
        setting.records.X,
        setting.records.y,
        n_seeds=setting.n_seeds,
        n_neighbours=setting.n_neighbours,
        hidden=setting.hidden,
        output=setting.output,
        random_state=setting.seed,
        device=device,
        **setting.sgd,
    )


@functools.lru_cache(maxsize=1)
@one_thread()
def trajectories(setting: Setting, steps: tuple[int, ...], device: str) -> Features:
    """Train weights [n_seeds, len(steps), p], after each number of steps, on the data
    set without its first record.

    The last weights equal column 0 of :func:`trained`.
    """
    runs = learners.fit_sgd(
        np.ascontiguousarray(setting.records.X[1:]),
        setting.records.y[1:],
        n_runs=setting.n_seeds,
        random_state=setting.seed,
        checkpoints=steps,
        dtype=np.float64,
        device=device,
        **setting.sgd,
    )
    return runs.trajectory


@functools.lru_cache(maxsize=2)
def statistics(setting: Setting, device: str) -> dict[str, float]:
    """Compute :func:`weight_stds` and :func:`sensitivities` of the runs of a
    setting.
    """
    weights = trained(setting, device).all_weights
    return {**weight_stds(weights), **sensitivities(weights)}


def weight_stds(weights: Features) -> dict[str, float]:
    """Compute the standard deviation of a weight over seeds, from weights [R, S + 1,
    p].

    ``sigma`` is pooled over all weights of a data set, and is the median over data
    sets, as in the paper.
    """
    # over seeds, for each data set and weight
    centred = weights - weights.mean(axis=0)
    sigmas = centred.std(axis=(0, 2))
    each = centred[:, 0].std(axis=0)
    # square roots of the eigenvalues of the covariance
    directions = np.linalg.svd(centred[:, 0], compute_uv=False) / math.sqrt(
        len(weights) - 1
    )
    p = weights.shape[2]
    return {
        "sigma": float(np.median(sigmas)),
        "sigma_low": float(sigmas.min()),
        "sigma_high": float(sigmas.max()),
        "weight_sigma_low": float(each.min()),
        "weight_sigma_high": float(each.max()),
        "direction_sigma_low": (
            float(directions[-1]) if len(directions) == p < len(weights) else 0.0
        ),
        "direction_sigma_high": float(directions[0]),
    }


def sensitivities(weights: Features) -> dict[str, float]:
    """Compute the largest distances between data sets under one seed, from weights [R,
    S + 1, p].

    ``observed`` is the largest over all pairs. Pairs with column 0 differ in one
    record, and all other pairs in two. ``neighbours`` is the largest over the pairs
    with column 0. ``means`` is the largest distance of these pairs between the means
    over seeds. Differences are taken first, so that no digits are lost between near
    points.
    """
    apart = (weights[:, 1:] - weights[:, :1]).astype(np.float64)
    return {
        "observed": max(
            float(scipy.spatial.distance.pdist(run).max()) for run in weights
        ),
        "neighbours": float(np.linalg.norm(apart, axis=2).max()),
        "means": float(np.linalg.norm(apart.mean(axis=0), axis=1).max()),
    }


def normality(weights: Features) -> Features:
    """Compute p-values [data sets, p] of Shapiro and Wilk's test of each weight over
    seeds, for the first data sets.
    """
    # [data sets, seeds, p]
    tested = weights[:, :TESTED_DATASETS].swapaxes(0, 1)
    return np.asarray(scipy.stats.shapiro(tested, axis=1).pvalue)


def farthest(weights: Features) -> Features:
    """Compute the largest distance over seeds of each pair of data sets, from weights
    [R, S + 1, p].
    """
    largest: Features = np.max(
        [scipy.spatial.distance.pdist(run) for run in weights], axis=0
    )
    return largest


def sample(quantity: str, weights: Features, *, seed: int) -> Features:
    """Compute all values of a quantity whose distribution the paper shows, from weights
    [R, S + 1, p].

    ``"data"`` gives the distances between two data sets under one seed, and ``"seed"``
    the distances between two seeds on one data set. ``"both"`` gives distances between
    runs that differ in both, for a random sample of the pairs. ``"p-value"`` gives the
    p-values of the tests of normality.
    """
    if quantity == "p-value":
        return normality(weights).ravel()
    if quantity != "both":
        groups = weights if quantity == "data" else weights.swapaxes(0, 1)
        return np.concatenate([scipy.spatial.distance.pdist(group) for group in groups])
    R, S, _ = weights.shape
    generator = np.random.default_rng(seed)
    first = generator.integers(R, size=(2, PAIRS))
    second = generator.integers(S, size=(2, PAIRS))
    # a pair must differ in seed and in data set
    differ = (first[0] != first[1]) & (second[0] != second[1])
    pairs = np.stack([first, second])[:, :, differ]  # [2, 2, pairs]
    apart = []
    # in fifty parts, since all differences at once are gigabytes
    for (a, b), (s, t) in np.array_split(pairs, 50, axis=2):
        apart.append(np.linalg.norm(weights[a, s] - weights[b, t], axis=1))
    return np.concatenate(apart)


def accuracies(
    given: Records, weights: Features, *, network: Architecture | None = None
) -> Features:
    """Compute the fraction of test records that each vector of weights [..., p]
    classifies correctly.

    The weights belong to logistic regressions, with the intercept last, or to networks
    of the given architecture.
    """
    flat = weights.reshape(-1, weights.shape[-1])
    if network is None:
        # [m, runs]
        logits: Features = (
            given.X_test.astype(np.float64) @ flat[:, :-1].T + flat[:, -1]
        )
    else:
        logits = network.logits(flat, given.X_test).T
    return np.asarray(((logits > 0) == given.y_test[:, None]).mean(axis=0)).reshape(
        weights.shape[:-1]
    )


def mean_and_std(scores: Features, name: str = "accuracy") -> dict[str, float]:
    """Compute the mean ``<name>`` and the standard deviation ``<name>_std`` of
    accuracies over models.
    """
    return {name: float(scores.mean()), f"{name}_std": float(scores.std(ddof=1))}
