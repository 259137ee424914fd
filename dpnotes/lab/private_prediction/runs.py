"""The five methods of the private-prediction chapter on one task: accuracies of releases, settings by validation."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpnotes import accounting
from dpnotes.lab.private_prediction.data import Task
from dpnotes.learners import fit_dp_sgd_linear
from dpnotes.mechanisms import soft_vote
from dpnotes.methods import LossPerturbation, Minimiser, fit_minimiser, noisy_minimisers, noisy_predictions
from dpnotes.methods._shards import fit_shards

VOTES = 10  # repeats that share a partition of the records into shards
TRIALS = 20  # releases that a candidate is judged by
FIT_TRIALS = 3  # where each is a fit
L2 = {  # candidates, within the paper's range
    "model_sensitivity": (1e-4, 5e-4, 1e-3, 5e-3, 1e-2, 5e-2, 1e-1, 5e-1),
    "prediction_sensitivity": (1e-4, 5e-4, 1e-3, 5e-3, 1e-2, 5e-2, 1e-1, 5e-1),
    "loss_perturbation": (1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 5e-1),
}
CLIPPING_NORMS = (5e-2, 5e-1)
STEP_LENGTHS = (0.25, 1.0, 4.0, 16.0, 64.0, 256.0)  # learning rate times clipping norm
SAMPLE_RATE, STEPS = 0.01, 1000  # of DP-SGD: ten expected passes


class Outcome(NamedTuple):
    """Accuracy of each release, and the scale of its noise.

    Attributes
    ----------
    accuracies : ndarray of float64, shape [repeats]
    noise : float
        sigma or 1/rate on weights, linear term or logits (before the norm of the query); DP-SGD: the noise multiplier;
        subsample-and-aggregate: 1/beta.
    status : str
    adjacency : str
    """

    accuracies: NDArray[np.float64]
    noise: float
    status: str
    adjacency: str


def adjacency_of(method: str, analysis: str) -> str:
    """Tight: one record more or less for all. Published: what each of the paper's proofs assumes."""
    exchanged = analysis == "published" and method in ("model_sensitivity", "prediction_sensitivity")
    return "replace-one" if exchanged else "add-remove"


@lru_cache(maxsize=20)
def minimiser(task: Task, l2: float, device: str) -> Minimiser:
    """Fit once for all levels and repeats."""
    return fit_minimiser(task.X, task.y, n_classes=task.n_classes, l2=l2, intercept=False, device=device)


@lru_cache(maxsize=4)
def shard_votes(task: Task, n_models: int, partitions: int, seed: int, device: str) -> NDArray[np.int64]:
    """Votes of each partition for the rows to score, shape [partitions, n_score, C]: they depend on no level."""
    make: dict[str, Any] = {"n_classes": task.n_classes, "n_models": n_models, "device": device}
    return np.stack(
        [
            fit_shards(task.X, task.y, seed=seed * partitions + p, **make).vote_counts(task.X_score)
            for p in range(partitions)
        ]
    )


def model_sensitivity(
    task: Task, epsilon: float, delta: float, *, l2: float, analysis: str, repeats: int, seed: int, device: str
) -> Outcome:
    """Accuracies of the noisy minimiser."""
    adjacency = adjacency_of("model_sensitivity", analysis)
    fit = minimiser(task, l2, device)
    how: dict[str, Any] = {"adjacency": adjacency, "analysis": analysis}
    models, profile = noisy_minimisers(fit, epsilon, delta, n_repeats=repeats, seed=seed, **how)
    sensitivity = fit.sensitivity(**how)
    noise = profile.parameters["sigma"] if delta else sensitivity / epsilon
    return Outcome(_right(models.votes(task.X_score, device=device), task), noise, profile.status, adjacency)


def prediction_sensitivity(
    task: Task,
    epsilon: float,
    delta: float,
    *,
    answers: int,
    l2: float,
    analysis: str,
    repeats: int,
    seed: int,
    device: str,
) -> Outcome:
    """Accuracies of the noisy answers, each row to score asked once a repeat."""
    adjacency = adjacency_of("prediction_sensitivity", analysis)
    fit = minimiser(task, l2, device)
    how: dict[str, Any] = {"adjacency": adjacency, "analysis": analysis}
    labels, profile = noisy_predictions(
        fit, task.X_score, epsilon, delta, answers=answers, n_repeats=repeats, seed=seed, **how
    )
    unit = answers / epsilon
    if delta:
        unit = accounting.prediction_sensitivity_sigma(epsilon, delta, answers=answers, analysis=analysis)
    return Outcome(_right(labels, task), unit * fit.sensitivity(**how), profile.status, adjacency)


def loss_perturbation(
    task: Task, epsilon: float, delta: float, *, l2: float, analysis: str, repeats: int, seed: int, device: str
) -> Outcome:
    """Accuracies of the minimisers of perturbed losses."""
    adjacency = adjacency_of("loss_perturbation", analysis)
    how: dict[str, Any] = {"adjacency": adjacency, "analysis": analysis}
    method = LossPerturbation(epsilon, delta, l2=l2, intercept=False, device=device, **how)
    models, profile = method.fit_many(task.X, task.y, n_classes=task.n_classes, n_repeats=repeats, seed=seed)
    stated = accounting.objective_perturbation(epsilon, delta, n_classes=task.n_classes, bias=False, **how)
    noise = float(stated.sigma) if stated.sigma is not None else 1 / float(stated.rate)  # type: ignore[arg-type]
    return Outcome(_right(models.votes(task.X_score, device=device), task), noise, profile.status, adjacency)


def dp_sgd(
    task: Task,
    epsilon: float,
    delta: float,
    *,
    clipping_norm: float,
    step_length: float,
    analysis: str,
    repeats: int,
    seed: int,
    device: str,
) -> Outcome:
    """Accuracies of DP-SGD with Poisson batches; the repeats share them and differ in their noise."""
    sampling: dict[str, Any] = {"sample_rate": SAMPLE_RATE, "steps": STEPS}
    accountant = "pld" if analysis == "tight" else "rdp"
    noise = accounting.dp_sgd_noise_multiplier(epsilon, delta, accountant=accountant, **sampling)
    models = fit_dp_sgd_linear(
        task.X,
        task.y,
        n_classes=task.n_classes,
        noise_multiplier=noise,
        clipping_norm=clipping_norm,
        learning_rate=step_length / clipping_norm,
        n_repeats=repeats,
        shared_batches=True,
        seed=seed,
        device=device,
        **sampling,
    )
    right = _right(models.votes(task.X_score, device=device), task)
    return Outcome(right, noise, "proved", adjacency_of("dp_sgd", analysis))


def subsample_aggregate(
    task: Task,
    epsilon: float,
    delta: float,
    *,
    answers: int,
    n_models: int,
    analysis: str,
    repeats: int,
    seed: int,
    device: str,
) -> Outcome:
    """Accuracies of soft votes; ten repeats share a partition of the records."""
    partitions = -(-repeats // VOTES)
    votes = shard_votes(task, n_models, partitions, seed, device)
    beta = accounting.soft_vote_beta(epsilon, delta, answers=answers, analysis=analysis)
    status = accounting.soft_vote(beta=beta, answers=answers, analysis=analysis).status
    right = [
        _right(soft_vote(votes[p], beta=beta, seed=1_000_003 * seed + p, n_repeats=VOTES), task)
        for p in range(partitions)
    ]
    return Outcome(np.concatenate(right)[:repeats], 1 / beta, status, "add-remove")


def choose(run: Callable[..., Outcome], task: Task, candidates: list[dict[str, float]]) -> dict[str, float]:
    """The candidate with the best mean accuracy on the held-out tenth of the training rows; of equals the first."""
    held_out = task_validation(task)
    means = [float(run(held_out, **candidate).accuracies.mean()) for candidate in candidates]
    return candidates[int(np.argmax(means))]


def climb(run: Callable[..., Outcome], task: Task, ladders: list[list[dict[str, float]]]) -> dict[str, float]:
    """As :func:`choose`, for dear candidates: from the middle of each ladder to one that neither neighbour beats."""
    held_out = task_validation(task)
    ends: list[tuple[float, dict[str, float]]] = []
    for ladder in ladders:
        means: dict[int, float] = {}
        at, best = -1, len(ladder) // 2
        while best != at:
            at = best
            for i in (at, at - 1, at + 1):
                if 0 <= i < len(ladder):
                    if i not in means:
                        means[i] = float(run(held_out, **ladder[i]).accuracies.mean())
                    best = i if means[i] > means[best] else best
        ends.append((means[at], ladder[at]))
    return max(ends, key=lambda end: end[0])[1]


@lru_cache(maxsize=2)
def task_validation(task: Task) -> Task:
    """``task.validation``, the same object each time, so that fits to it are found again."""
    return task.validation


def _right(labels: NDArray[np.integer], task: Task) -> NDArray[np.float64]:
    return np.asarray((labels == task.y_score).mean(axis=1))
