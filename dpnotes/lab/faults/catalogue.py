"""The suite by name: trainings, what they are run on, and what they claim."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpnotes._validation import Features, Floats, Integers
from dpnotes.accounting import PrivacyProfile
from dpnotes.lab.faults import descent, sums, votes
from dpnotes.methods import DPSGD, Bagging, LossPerturbation, ModelSensitivity

N, D = 60, 6
NORM = 1.0  # public bound of a record


def table() -> tuple[Features, Integers]:
    """60 records of 6 features and two classes; the public bound of their norms is 1, and most are far below it."""
    generator = np.random.default_rng(0)
    y = np.arange(N) % 2
    means = np.array([0.25, 0, 0, 0, 0, 0.02])
    return (2 * y - 1)[:, None] * means + generator.normal(0.0, np.linspace(0.06, 0.01, D), (N, D)), y


@dataclass(frozen=True)
class Target:
    """A training, a function or an estimator, and in one sentence what is wrong with it, or what it is."""

    train: Any
    claim: Callable[[], PrivacyProfile]
    words: str
    score: Callable[[Any, Floats, Any], float] | None = None  # where the author of an audit would write one


def largest_step(steps: Floats, x: Floats, label: Any) -> float:
    """Score of all steps: how far the one that moved most towards a record did so."""
    return float((steps[:, :-1] @ x * (2 * label - 1)).max())


def _target(train: Any, words: str | None = None, **more: Any) -> Target:
    return Target(train, train.claim, words or str(type(train).__doc__), **more)


def _estimator(kind: type, **settings: Any) -> Target:
    estimator = kind(**settings, classes=(0, 1), noise_seed=0)
    return Target(estimator, lambda: estimator.fit(*table()).profile_, f"dpnotes.{kind.__name__}")


FAULTS: dict[str, Target] = {
    "noise of the mean on the sum": _target(descent.NoiseOfMean()),
    "sum in place of the mean": _target(sums.SumForMean()),
    "no clipping": _target(descent.NotClipped()),
    "batch clipped": _target(descent.BatchClipped()),
    "bias not clipped": _target(descent.BiasNotClipped()),
    "shuffled as Poisson": _target(descent.Shuffled(steps=10, rate=0.1, noise=0.2), score=largest_step),
    "noise reused": _target(descent.NoiseReused(rate=0.5)),
    "seed reused": _target(descent.SeedFixed(rate=0.5)),
    "bounds from the data": _target(sums.BoundsFromData()),
    "standardised": _target(descent.Standardised()),
    "batch normalisation": _target(descent.BatchNormalised()),
    "early stopping": _target(descent.StopsEarly(steps=30, noise=10.0)),
    "best of ten": _target(descent.BestOfTen(steps=1, noise=8.0)),
    "labels counted": _target(descent.LabelsCounted()),
    "budget counted once": _target(descent.CountedOnce(steps=1, noise=1.0)),
    "noise on the velocity": _target(descent.MomentumNoise(steps=10, momentum=0.9)),
    "clipped late": _target(descent.ClippedLate(clip=0.05)),
    "one step more": _target(descent.OneStepMore(steps=1, noise=1.0)),
    "rate twice": _target(descent.RateTwice(learning_rate=3.0)),
    "one draw for all": _target(descent.OneDraw()),
    "last step clean": _target(descent.LastStepClean(decay=0.9)),
    "adaptive clipping": _target(descent.AdaptiveClip()),
    "Laplace for L2": _target(sums.LaplaceForL2(noise=0.4)),
    "replace-one as add-remove": _target(sums.ReplaceOne(adjacency="replace-one")),
    "count published": _target(sums.CountPublished()),
    "low entropy": _target(sums.LowEntropy()),
    "answers not composed": _target(votes.EachForItself(noise=2.0)),
    "threshold without noise": _target(votes.ThresholdExact()),
    "consensus without noise": _target(votes.ConsensusExact(noise=20.0)),
    "answers by the data": _target(votes.DataDependent()),
}
SOUND: dict[str, Target] = {
    "full gradients": _target(descent.Descent(steps=1, noise=1.0), "One full gradient with noise."),
    "Poisson samples": _target(descent.Descent(rate=0.3, steps=10, noise=1.0), "DP-SGD as it should be."),
    "momentum": _target(descent.Descent(momentum=0.9, steps=10), "Momentum of noisy gradients."),
    "noisy sum": _target(sums.Sum(), "A sum of bounded records with Gaussian noise."),
    "Laplace sum": _target(sums.LaplaceSum(), "A sum of bounded records with Laplace noise."),
    "votes": _target(votes.Vote(), "Labels by noisy votes, all accounted for."),
    "DPSGD": _estimator(DPSGD, noise_multiplier=2.0, steps=5, sample_rate=0.5, accountant="rdp", device="cpu"),
    "ModelSensitivity": _estimator(ModelSensitivity, epsilon=1.0, l2=0.1, norm=1.0, device="cpu"),
    "LossPerturbation": _estimator(LossPerturbation, epsilon=1.0, l2=0.1, norm=1.0, device="cpu"),
    "Bagging": _estimator(Bagging, subsample=10),
}
_WORST = descent.AllSteps(rate=0.3, steps=10, noise=1.0)
ATTAINED: dict[str, Target] = {  # claims that some record attains on this table, and a score by which
    name: SOUND[name] for name in ("noisy sum", "full gradients", "votes", "Bagging")
} | {"all steps": _target(_WORST, "DP-SGD of which all steps are published.", score=_WORST.likelihood_ratio)}
