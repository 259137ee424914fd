"""The tasks of the private-prediction chapter and its five methods: rows in the unit
ball, accuracies of releases.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpnotes import accounting, data, methods
from dpnotes._validation import one_of
from dpnotes.lab import own_data
from dpnotes.lab.private_prediction.grids import REPEATS
from dpnotes.learners import fit_dp_sgd_linear
from dpnotes.mechanisms import soft_vote

# Public bounds on the norm of a row of pixels in [0, 1]: constants, not read off the
# data. No row of MNIST or digits is longer, so that none is shortened; the paper
# divides by the largest norm of MNIST's training rows, 17.18.
BOUNDS = {"mnist": 17.5, "digits": 5.0}
# a tenth of the training rows, the last ones, is held out while settings are chosen
HELD_OUT = 10
DEFORMATION = 1.2  # standard deviation of a displacement, in pixels
KNOTS = 7  # knots of the displacement field along each side
SHIFT = 2  # largest shift, in pixels
BATCH = 20_000


@dataclass(frozen=True, eq=False)
class Task:
    """Rows to train on and rows to score.

    Attributes
    ----------
    X, X_score : ndarray of float32, shape [n, d], rows of norm at most 1
    y, y_score : ndarray of int64
    n_classes : int
    digest : str
    """

    X: NDArray[np.float32]
    y: NDArray[np.int64]
    X_score: NDArray[np.float32]
    y_score: NDArray[np.int64]
    n_classes: int
    digest: str

    @cached_property
    def validation(self) -> Task:
        """The same task with the last tenth of its training rows in the place of the
        test rows.

        It is the same object each time, so that fits to it are found again.
        """
        # the last tenth is held out
        kept = len(self.X) - len(self.X) // HELD_OUT
        return Task(
            self.X[:kept],
            self.y[:kept],
            self.X[kept:],
            self.y[kept:],
            self.n_classes,
            self.digest,
        )

    def accuracies(self, labels: NDArray[np.integer]) -> NDArray[np.float64]:
        """Fraction of correct labels in each row of ``labels``, shape [repeats,
        n_score].
        """
        return np.asarray((labels == self.y_score).mean(axis=1))


@lru_cache(maxsize=2)
def task(
    dataset: str,
    *,
    n: int | None = None,
    d: int | None = None,
    n_classes: int | None = None,
) -> Task:
    """One variant of a data set.

    Parameters
    ----------
    dataset : {"mnist", "digits"}
        Or a reader's file, as :func:`dpnotes.lab.own_data.reference` calls it.
    n : int, optional
        Training rows, of the classes kept: the first ones; behind the last one,
        deformed copies of them (of images).
    d : int, optional
        Leading principal axes (without centring, so that no row grows) that rows are
        projected on. They are read off the training rows, as in the paper, and no
        guarantee counts that.
    n_classes : int, optional
        The classes 0 to n_classes - 1.
    """
    arrays: data.Dataset
    if own_data.is_own(dataset):
        # a file has a bound of its own
        arrays = mine = own_data.load(dataset)
        bound = mine.bound
    else:
        arrays = data.load(one_of("dataset", dataset, tuple(BOUNDS)))
        bound = BOUNDS[dataset]
    classes = n_classes or arrays.n_classes
    # the first classes, of training and test rows alike
    kept = arrays.y_train < classes
    scored = arrays.y_test < classes
    X = arrays.X_train[kept]
    y = arrays.y_train[kept]
    X_score = arrays.X_test[scored]
    y_score = arrays.y_test[scored]
    if n is not None and n > len(X):
        # square images
        side = int(np.sqrt(X.shape[1]))
        X = np.concatenate([X, deformed(X, n - len(X), side=side)])
        y = y[np.arange(n) % len(y)]
    elif n is not None:
        X = X[:n]
        y = y[:n]
    # by a public bound: no row is looked at
    X = data.to_unit_ball(X, bound=bound)
    X_score = data.to_unit_ball(X_score, bound=bound)
    if d is not None and d < X.shape[1]:
        # ascending: the leading axes are the last
        axes = np.linalg.eigh(X.T.astype(np.float64) @ X)[1][:, : -d - 1 : -1]
        # rounding may lengthen
        X, X_score = (
            data.to_unit_ball(rows @ axes, bound=1.0) for rows in (X, X_score)
        )
    return Task(X, y, X_score, y_score, classes, arrays.digest)


def deformed(X: NDArray[np.float32], count: int, *, side: int) -> NDArray[np.float32]:
    """Deformed copies of square images, row i of row ``i % len(X)``; the same rows
    whatever ``count`` is.

    Each pixel is moved by a smooth random field (normal displacements of 1.2 pixels'
    standard deviation at 7 x 7 knots, interpolated bicubically) and a whole shift of at
    most 2 pixels in each direction, in the manner of Loosli, Canu and Bottou (2007),
    whose generator uses fields and tangent vectors of its own.

    Parameters
    ----------
    X : ndarray of float32, shape [n, side * side]
    count : int, >= 0
    side : int

    Returns
    -------
    ndarray of float32, shape [count, side * side]
    """
    import torch
    from torch.nn.functional import grid_sample, interpolate

    result = np.empty((count, X.shape[1]), dtype=np.float32)
    axis = (torch.arange(side) + 0.5) * 2 / side - 1
    # where each pixel is, in the units of grid_sample
    identity = torch.stack(torch.meshgrid(axis, axis, indexing="xy"), dim=-1)
    for start in range(0, count, BATCH):
        # by the number of the first row, so that rows do not depend on the count
        generator = torch.Generator().manual_seed(start)
        fields = DEFORMATION * torch.randn(BATCH, 2, KNOTS, KNOTS, generator=generator)
        shifts = torch.randint(-SHIFT, SHIFT + 1, (BATCH, 2, 1, 1), generator=generator)
        size = min(BATCH, count - start)
        # a shift moves the whole image, the field parts of it
        smooth = (
            interpolate(
                fields[:size], size=(side, side), mode="bicubic", align_corners=True
            )
            + shifts[:size]
        )
        images = torch.from_numpy(X[np.arange(start, start + size) % len(X)]).reshape(
            size, 1, side, side
        )
        moved = grid_sample(
            images,
            identity + smooth.permute(0, 2, 3, 1) * 2 / side,
            align_corners=False,
        )
        result[start : start + size] = moved.reshape(size, -1).clamp(0, 1).numpy()
    return result


Settings = dict[str, float]

VOTES = 10  # repeats that share a partition of the records into shards
TRIALS = 20  # releases that a candidate is judged by
FIT_TRIALS = 3  # where each is a fit
# candidates, within the paper's range
OUTPUT_L2 = (1e-4, 5e-4, 1e-3, 5e-3, 1e-2, 5e-2, 1e-1, 5e-1)
LOSS_L2 = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 5e-1)
CLIPPING_NORMS = (5e-2, 5e-1)
STEP_LENGTHS = (0.25, 1.0, 4.0, 16.0, 64.0, 256.0)  # learning rate times clipping norm
# candidates of each method; a ladder's neighbours are alike
LADDERS: dict[str, list[list[Settings]]] = {
    "model_sensitivity": [[{"l2": l2}] for l2 in OUTPUT_L2],
    "prediction_sensitivity": [[{"l2": l2}] for l2 in OUTPUT_L2],
    "loss_perturbation": [[{"l2": l2} for l2 in LOSS_L2]],
    "dp_sgd": [
        [{"clipping_norm": c, "step_length": step} for step in STEP_LENGTHS]
        for c in CLIPPING_NORMS
    ],
}
# of DP-SGD: ten expected passes
SAMPLING: dict[str, Any] = {"sample_rate": 0.01, "steps": 1000}


@dataclass(frozen=True)
class Release:
    """What a method is asked to release, and how often.

    Attributes
    ----------
    epsilon, delta : float
    analysis : {"tight", "published"}
    answers : int or None
        What the guarantee of prediction sensitivity and of subsample-and-aggregate pays
        for.
    n_models : int or None
        Of subsample-and-aggregate.
    repeats : int
        How many releases.
    seed : int
    device : str
    intercept : bool
        Of the released models and the noisy answers; a vote's models have one.
    """

    epsilon: float
    delta: float
    analysis: str
    answers: Any
    n_models: Any
    repeats: int
    seed: int
    device: str
    intercept: bool = False

    def biased(self, method: str) -> Release:
        """The same release as in the authors' code at delta = 0, which has a bias and
        leaves it out of the sensitivity: the paper's noise for models without a bias.

        With a bias the Lipschitz constant and the longest row grow by sqrt(2) each:
        sensitivity and linear term by sqrt(2), the noise on a logit by 2. The sound
        noise at so much more epsilon is that of the code. The penalty of loss
        perturbation is sqrt(2) C / epsilon more than n l2, where the code takes the
        larger of C / epsilon and n l2.
        """
        factor = 2.0 if method == "prediction_sensitivity" else math.sqrt(2)
        return replace(
            self, epsilon=factor * self.epsilon, analysis="published", intercept=True
        )

    @property
    def draws(self) -> dict[str, Any]:
        """Privacy and repeats as keyword arguments of the methods' engines."""
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "n_repeats": self.repeats,
            "seed": self.seed,
        }

    def relation(self, *, exchange: bool) -> dict[str, Any]:
        """Adjacency and analysis as keyword arguments.

        The adjacency of a tight analysis is one record more or less for all methods,
        that of the published one what the proof of the paper assumes: an exchanged
        record for the methods that perturb the minimiser or its output.
        """
        # the proofs of the paper exchange a record
        exchanged = exchange and self.analysis == "published"
        return {
            "adjacency": "replace-one" if exchanged else "add-remove",
            "analysis": self.analysis,
        }


class Outcome(NamedTuple):
    """Accuracy of each release, and the scale of its noise.

    Attributes
    ----------
    accuracies : ndarray of float64, shape [repeats]
    noise : float
        sigma or 1/rate on weights, linear term or logits (before the norm of the
        query); DP-SGD: the noise multiplier; subsample-and-aggregate: 1/beta.
    status : str
    adjacency : str
    """

    accuracies: NDArray[np.float64]
    noise: float
    status: str
    adjacency: str


@lru_cache(maxsize=20)
def minimiser(task: Task, l2: float, device: str, intercept: bool) -> methods.Minimiser:
    """Fit once for every epsilon and all repeats."""
    return methods.fit_minimiser(
        task.X,
        task.y,
        n_classes=task.n_classes,
        l2=l2,
        intercept=intercept,
        device=device,
    )


@lru_cache(maxsize=4)
def shard_votes(
    task: Task, n_models: int, partitions: int, seed: int, device: str
) -> NDArray[np.int64]:
    """Votes of each partition for the rows to score, shape [partitions, n_score, C]:
    they depend on no epsilon.
    """
    fit = partial(
        methods.fit_shards,
        task.X,
        task.y,
        n_classes=task.n_classes,
        n_models=n_models,
        device=device,
    )
    return np.stack(
        [
            fit(seed=seed * partitions + p).vote_counts(task.X_score)
            for p in range(partitions)
        ]
    )


def model_sensitivity(task: Task, release: Release, *, l2: float) -> Outcome:
    """Accuracies of the noisy minimiser."""
    relation = release.relation(exchange=True)
    fit = minimiser(task, l2, release.device, release.intercept)
    models, profile = methods.noisy_minimisers(fit, **relation, **release.draws)
    noise = (
        profile.parameters["sigma"]
        if release.delta
        else fit.sensitivity(**relation) / release.epsilon
    )
    labels = models.votes(task.X_score, device=release.device)
    return Outcome(
        task.accuracies(labels), noise, profile.status, relation["adjacency"]
    )


def prediction_sensitivity(task: Task, release: Release, *, l2: float) -> Outcome:
    """Accuracies of the noisy answers; each row to score is asked once per repeat."""
    relation = release.relation(exchange=True)
    fit = minimiser(task, l2, release.device, release.intercept)
    labels, profile = methods.noisy_predictions(
        fit, task.X_score, answers=release.answers, **relation, **release.draws
    )
    unit = release.answers / release.epsilon
    if release.delta:
        unit = accounting.prediction_sensitivity_sigma(
            release.epsilon,
            release.delta,
            answers=release.answers,
            analysis=release.analysis,
        )
    return Outcome(
        task.accuracies(labels),
        unit * fit.sensitivity(**relation),
        profile.status,
        relation["adjacency"],
    )


def loss_perturbation(task: Task, release: Release, *, l2: float) -> Outcome:
    """Accuracies of the minimisers of perturbed losses."""
    epsilon = release.epsilon
    delta = release.delta
    relation = release.relation(exchange=False)
    method = methods.LossPerturbation(
        epsilon,
        delta,
        l2=l2,
        intercept=release.intercept,
        device=release.device,
        **relation,
    )
    models, profile = method.fit_many(
        task.X,
        task.y,
        n_classes=task.n_classes,
        n_repeats=release.repeats,
        seed=release.seed,
    )
    stated = accounting.objective_perturbation(
        epsilon,
        delta,
        n_classes=task.n_classes,
        regulariser=len(task.X) * l2,
        norm=math.hypot(1.0, float(release.intercept)),
        **relation,
    )
    noise = float(stated.sigma) if stated.sigma is not None else 1 / float(stated.rate)  # type: ignore[arg-type]
    labels = models.votes(task.X_score, device=release.device)
    return Outcome(
        task.accuracies(labels), noise, profile.status, relation["adjacency"]
    )


def dp_sgd(
    task: Task, release: Release, *, clipping_norm: float, step_length: float
) -> Outcome:
    """Accuracies of DP-SGD with Poisson batches; the repeats share them and differ
    in their noise.
    """
    # the paper's accountant is by Renyi divergences
    accountant = "pld" if release.analysis == "tight" else "rdp"
    noise = accounting.dp_sgd_noise_multiplier(
        release.epsilon, release.delta, accountant=accountant, **SAMPLING
    )
    models = fit_dp_sgd_linear(
        task.X,
        task.y,
        n_classes=task.n_classes,
        # of a published data set: a public number
        n_records=len(task.X),
        shared_batches=True,
        clipping_norm=clipping_norm,
        learning_rate=step_length / clipping_norm,
        noise_multiplier=noise,
        n_repeats=release.repeats,
        seed=release.seed,
        device=release.device,
        **SAMPLING,
    )
    labels = models.votes(task.X_score, device=release.device)
    return Outcome(task.accuracies(labels), noise, "proved", "add-remove")


def subsample_aggregate(task: Task, release: Release) -> Outcome:
    """Accuracies of soft votes; ten repeats share a partition of the records."""
    # rounded up; what is too much is left out below
    partitions = -(-release.repeats // VOTES)
    beta = accounting.soft_vote_beta(
        release.epsilon,
        release.delta,
        answers=release.answers,
        analysis=release.analysis,
    )
    votes = shard_votes(
        task, release.n_models, partitions, release.seed, release.device
    )
    correct = [
        task.accuracies(
            soft_vote(
                votes[p], beta=beta, seed=1_000_003 * release.seed + p, n_repeats=VOTES
            )
        )
        for p in range(partitions)
    ]
    status = accounting.soft_vote(
        beta=beta, answers=release.answers, analysis=release.analysis
    ).status
    return Outcome(
        np.concatenate(correct)[: release.repeats], 1 / beta, status, "add-remove"
    )


METHODS: dict[str, Callable[..., Outcome]] = {
    run.__name__: run
    for run in (
        model_sensitivity,
        loss_perturbation,
        dp_sgd,
        prediction_sensitivity,
        subsample_aggregate,
    )
}


def choose(method: str, task: Task, release: Release) -> Settings:
    """Settings of a method, chosen on the held-out tenth of the training rows."""
    if method not in LADDERS:
        return {}
    # enough to tell candidates apart
    trials = replace(release, repeats=FIT_TRIALS if method in REPEATS else TRIALS)
    return climb(partial(METHODS[method], release=trials), task, LADDERS[method])


def climb(
    run: Callable[..., Outcome], task: Task, ladders: list[list[Settings]]
) -> Settings:
    """The best of what each ladder gives, of equals the first, by mean accuracy on the
    held-out rows.

    On a ladder we climb from its middle to a candidate that neither neighbour beats:
    candidates may be expensive.
    """
    ends: list[tuple[float, Settings]] = []
    for ladder in ladders:
        # a candidate is fitted once in a climb
        means: dict[int, float] = {}
        # from the middle, where the best is expected
        at = -1
        best = len(ladder) // 2
        while best != at:
            at = best
            # of equals the one that is there already
            for i in (at, at - 1, at + 1):
                if 0 <= i < len(ladder):
                    if i not in means:
                        means[i] = float(
                            run(task.validation, **ladder[i]).accuracies.mean()
                        )
                    best = i if means[i] > means[best] else best
        # the best of this ladder
        ends.append((means[at], ladder[at]))
    return max(ends, key=lambda end: end[0])[1]
