"""31 trainings with a planted fault and ten sound ones, each with its claim: what
``audit_faults.py`` audits.

The broken ones protect nothing that they claim to protect. Each is written as its
author would write it: a right engine (noisy gradients, a noisy sum, noisy votes) of
which a line or two are wrong; the docstring of a class says which.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats
from scipy.special import expit

from dpnotes.accounting import dp_sgd, gaussian, laplace
from dpnotes.methods import DPSGD, Bagging, LossPerturbation, ModelSensitivity

N = 60
D = 6
NORM = 1.0  # public bound of a record


def table():
    """60 records of 6 features and two classes; the public bound of their norms is
    1, and most are far below it.
    """
    generator = np.random.default_rng(0)
    y = np.arange(N) % 2
    # the classes differ along the first axis, and hardly along the last
    means = np.array([0.25, 0, 0, 0, 0, 0.02])
    noise = generator.normal(0.0, np.linspace(0.06, 0.01, D), (N, D))
    return (2 * y - 1)[:, None] * means + noise, y


# Noisy gradients


EXPECTED = 60  # records, a public constant


@dataclass(frozen=True)
class Descent:
    """Gradients of single records are clipped, summed with noise, and all steps are
    accounted for.

    ``train(X, y, seed)`` gives the weights of the features and the intercept, shape [d
    + 1], and here and there more.
    """

    steps: int = 5
    rate: float = 1.0
    noise: float = 4.0  # standard deviation of the noise on a sum, in clipping norms
    clip: float = 0.2
    learning_rate: float = 1.0
    momentum: float = 0.0
    decay: float = 0.0
    adjacency: str = "add-remove"

    def claim(self):
        """What the author says."""
        return dp_sgd(
            noise_multiplier=self.noise,
            sample_rate=self.rate,
            steps=self.steps,
            adjacency=self.adjacency,
        )

    def __call__(self, X, y, seed):
        return self.weights(X, y, np.random.default_rng(seed))

    def weights(self, X, y, generator):
        """Train."""
        return self.path(X, y, generator)[-1]

    def path(self, X, y, generator):
        """Weights after each step, each [d + 1]."""
        Z = self.prepared(X)
        # all trainings start from zero weights
        path = [np.zeros(Z.shape[1])]
        velocity = np.zeros_like(path[0])
        for step, chosen in enumerate(self.batches(generator, len(Z))):
            w = path[-1]
            total, sensitivity = self.summed(Z[chosen], y[chosen], w)
            drawn = self.drawn(generator, step, len(w)) * self.noise * sensitivity
            velocity, direction = self.moved(velocity, total, drawn)
            # of a mean over the batch that is expected, as the real one is a secret
            length = self.learning_rate / (self.rate * self.expected(Z))
            path.append((1 - self.decay) * w - length * direction)
            if self.finished(Z, y, path[-1]):
                break
        return path

    def prepared(self, X):
        return np.column_stack([X, np.ones(len(X))])

    def expected(self, Z):
        """The number of records by which steps are scaled."""
        return EXPECTED

    def batches(self, generator, n):
        for _ in range(self.steps):
            yield np.flatnonzero(generator.random(n) < self.rate)

    def gradients(self, Z, y, w):
        return (expit(Z @ w) - y)[:, None] * Z

    def clipped(self, gradients):
        # a gradient of norm 0 stays
        norms = np.sqrt(np.square(gradients).sum(axis=1, keepdims=True))
        return gradients * np.minimum(1, self.clip / np.maximum(norms, 1e-300))

    def summed(self, Z, y, w):
        """Sum over a batch, and by how much one record moves it."""
        return self.clipped(self.gradients(Z, y, w)).sum(axis=0), self.clip

    def drawn(self, generator, step, size):
        """Noise of standard deviation 1."""
        return generator.normal(size=size)

    def moved(self, velocity, total, drawn):
        """The next velocity, and what the weights move along."""
        velocity = self.momentum * velocity + total + drawn
        return velocity, velocity

    def finished(self, Z, y, w):
        return False

    def shown(self, epsilons, length=1.0):
        """Delta at each epsilon of the sum of all steps, along a record's gradient that
        is the same in all of them.

        ``length``, in clipping norms, is what can be seen of that gradient. A binomial
        number of it is added to the noise, so that the likelihood ratio grows along the
        sum, and tests by a threshold are the best.
        """
        sigma = self.noise * self.steps**0.5
        drawn = np.arange(self.steps + 1)
        chances = stats.binom.pmf(drawn, self.steps, self.rate)
        cuts = np.linspace(-10 * sigma, self.steps + 10 * sigma, 10_000)
        # of being above a cut, with the record [cuts] and without
        moved = stats.norm.sf((cuts[:, None] - length * drawn) / sigma) @ chances
        still = stats.norm.sf(cuts / sigma)
        factors = np.exp(epsilons)[:, None]
        above = moved - factors * still
        below = (1 - still) - factors * (1 - moved)
        return np.maximum(above, below).max(axis=1)

    def length(self, X, y):
        """What can be seen, in clipping norms, of the gradient of a record of norm 1
        where the others have least.

        The gradient is clipped, and the first step's; besides the noise it is hidden by
        which of the others are drawn.
        """
        Z = self.prepared(X)
        w = np.zeros(Z.shape[1])
        others = self.clipped(self.gradients(Z, y, w))
        # the covariance of the others that are drawn, and of the noise
        hidden = self.rate * (1 - self.rate) * others.T @ others
        hidden += (self.noise * self.clip) ** 2 * np.eye(len(w))
        quiet = self.prepared(np.linalg.eigh(X.T @ X)[1][:, :1].T)
        (own,) = self.clipped(self.gradients(quiet, y[:1], w))
        return float(self.noise * np.sqrt(own @ np.linalg.solve(hidden, own)))


class AllSteps(Descent):
    """All noisy sums are published, in clipping norms, shape [steps, d]; there is no
    intercept.

    The guarantee of DP-SGD is about these, and a record whose gradient is clipped and
    like no other's attains it.
    """

    def __call__(self, X, y, seed):
        moves = np.diff(self.path(X, y, np.random.default_rng(seed)), axis=0)
        return moves * (-self.rate * EXPECTED / self.learning_rate / self.clip)

    def prepared(self, X):
        return X

    def likelihood_ratio(self, sums, x, label):
        """Logarithm, of a record whose clipped gradient is that of its label at
        every step.
        """
        along = sums @ x * (1 - 2 * label) / max(np.linalg.norm(x), 1e-300)
        ratios = np.expm1((along - 0.5) / self.noise**2)
        return float(np.log1p(self.rate * ratios).sum())


class NoiseOfMean(Descent):
    """The noise is scaled for the mean over a batch, but added to the sum."""

    def drawn(self, generator, step, size):
        return generator.normal(size=size) / EXPECTED


class NotClipped(Descent):
    """Gradients are not clipped."""

    def clipped(self, gradients):
        return gradients


class BatchClipped(Descent):
    """The mean gradient of the batch is clipped, instead of each record's gradient."""

    def summed(self, Z, y, w):
        # as if one record could move it no further than the clipping norm
        mean = self.gradients(Z, y, w).mean(axis=0, keepdims=True)
        return EXPECTED * self.clipped(mean)[0], self.clip


class BiasNotClipped(Descent):
    """The gradient of the intercept is not clipped."""

    def clipped(self, gradients):
        return np.column_stack([super().clipped(gradients[:, :-1]), gradients[:, -1]])


class Shuffled(Descent):
    """Batches are slices of a shuffled file, accounted for as Poisson samples. All
    steps are published.
    """

    def __call__(self, X, y, seed):
        return np.diff(self.path(X, y, np.random.default_rng(seed)), axis=0)

    def batches(self, generator, n):
        yield from np.array_split(generator.permutation(n), self.steps)


class NoiseReused(Descent):
    """Two models, one per class, are trained from the same seed. The added noise
    cancels in their difference.
    """

    def claim(self):
        return super().claim().compose(2)

    def __call__(self, X, y, seed):
        # the seed of both is the same
        models = []
        for label in (0, 1):
            generator = np.random.default_rng(seed)
            models.append(self.weights(X, y == label, generator))
        return np.stack(models)


class SeedFixed(Descent):
    """The noise comes from a seed that is the same in each run."""

    def drawn(self, generator, step, size):
        return np.random.default_rng(step).normal(size=size)


class Standardised(Descent):
    """Features are standardised with the mean and standard deviation of the private
    records.
    """

    def prepared(self, X):
        return super().prepared((X - X.mean(axis=0)) / X.std(axis=0))


class BatchNormalised(Descent):
    """Each batch is standardised before clipping, so a record changes the gradients
    of all others in it.
    """

    def gradients(self, Z, y, w):
        X = Z[:, :-1]
        X = (X - X.mean(axis=0)) / (X.std(axis=0) + 1e-6)
        return super().gradients(self.prepared(X), y, w)


class StopsEarly(Descent):
    """Training ends once all private records are classified correctly, and the
    number of steps is published.
    """

    def __call__(self, X, y, seed):
        path = self.path(X, y, np.random.default_rng(seed))
        return {"weights": path[-1], "n_iter": len(path) - 1}

    def finished(self, Z, y, w):
        return bool(((Z @ w > 0) == y).all())


class BestOfTen(Descent):
    """The most accurate of ten models on the private records is published. Only one
    model is accounted for.
    """

    def __call__(self, X, y, seed):
        generators = np.random.default_rng(seed).spawn(10)
        models = [self.weights(X, y, generator) for generator in generators]
        return max(models, key=lambda w: ((self.prepared(X) @ w > 0) == y).mean())


class LabelsCounted(Descent):
    """The intercept is set to the log-odds of the classes, which are counted without
    noise.
    """

    def __call__(self, X, y, seed):
        w = self.weights(X, y, np.random.default_rng(seed))
        w[-1] = np.log(y.sum() / (len(y) - y.sum()))
        return w


class CountedOnce(Descent):
    """The mean of two models is published. The training of each model uses up the
    whole budget.
    """

    def __call__(self, X, y, seed):
        one, two = np.random.default_rng(seed).spawn(2)
        return (self.weights(X, y, one) + self.weights(X, y, two)) / 2


class MomentumNoise(Descent):
    """Noise for one gradient is added to the velocity, which contains many gradients
    of each record.
    """

    def moved(self, velocity, total, drawn):
        velocity = self.momentum * velocity + total
        return velocity, velocity + drawn


class ClippedLate(Descent):
    """Gradients are added up over micro-batches of four records, and only these sums
    are clipped.
    """

    def clipped(self, gradients):
        # a sum of four may point along one of them
        ends = range(0, len(gradients), 4)
        return super().clipped(np.add.reduceat(gradients, ends, axis=0))


class OneStepMore(Descent):
    """Training takes one more step than is accounted for."""

    def batches(self, generator, n):
        # which nobody counts
        yield np.arange(n)
        yield from super().batches(generator, n)


class RateTwice(Descent):
    """The sum is multiplied by the learning rate before the noise is added, and
    again afterwards.
    """

    def moved(self, velocity, total, drawn):
        # the noise is for a sum that is not multiplied
        return velocity, self.learning_rate * total + drawn


class OneDraw(Descent):
    """One random number is drawn, and added to all coordinates."""

    def drawn(self, generator, step, size):
        return np.full(size, generator.normal())


class LastStepClean(Descent):
    """The last step has no noise, so that the model is not spoilt."""

    def drawn(self, generator, step, size):
        return generator.normal(size=size) * (step < self.steps - 1)


class AdaptiveClip(Descent):
    """The clipping norm is the largest gradient norm in the batch."""

    def prepared(self, X):
        return X

    def summed(self, Z, y, w):
        gradients = self.gradients(Z, y, w)
        return gradients.sum(axis=0), float(np.linalg.norm(gradients, axis=1).max())


class StepFromCount(Descent):
    """Steps are divided by the number of records, which the guarantee hides; 2,000
    noisy weights show it by their length.
    """

    def prepared(self, X):
        return np.cos(X @ WAVES)

    def expected(self, Z):
        return len(Z)


# public random features, as in a kernel machine
WAVES = np.random.default_rng(7).normal(size=(D, 2_000))


# A noisy sum


@dataclass(frozen=True)
class Sum:
    """Records are shortened to a norm of 1, and Gaussian noise for that is added to
    their sum, shape [d].
    """

    noise: float = 2.0
    adjacency: str = "add-remove"

    def claim(self):
        """What the author says."""
        return gaussian(sigma=self.noise, adjacency=self.adjacency)

    def __call__(self, X, y, seed):
        lengths = np.linalg.norm(X, axis=1, keepdims=True)
        total = ((2 * y - 1)[:, None] * X / np.maximum(1, lengths)).sum(axis=0)
        return self.released(total, X, np.random.default_rng(seed))

    def released(self, total, X, generator):
        return total + generator.normal(0.0, self.noise, len(total))


class LaplaceSum(Sum):
    """Laplace noise for the L1 norm, which is up to sqrt(d) times the L2 norm."""

    def claim(self):
        return laplace(scale=self.noise)

    def released(self, total, X, generator):
        scale = self.noise * math.sqrt(len(total))
        return total + generator.laplace(0.0, scale, len(total))


class SumForMean(Sum):
    """The sum of the records is published, with noise that is scaled for their mean."""

    def released(self, total, X, generator):
        return total + generator.normal(0.0, self.noise / len(X), len(total))


class BoundsFromData(Sum):
    """The bound on the norms, which also scales the noise, is read off the private
    records.
    """

    def released(self, total, X, generator):
        sigma = self.noise * np.linalg.norm(X, axis=1).max()
        return total + generator.normal(0.0, sigma, len(total))


class LaplaceForL2(LaplaceSum):
    """The Laplace noise on each coordinate is scaled for the L2 norm."""

    def released(self, total, X, generator):
        return total + generator.laplace(0.0, self.noise, len(total))


class ReplaceOne(Sum):
    """The claim is for replacing a record, but the noise is for adding or removing a
    record.
    """


class CountPublished(Sum):
    """The number of records, which the guarantee hides, is published together with
    the noisy sum.
    """

    def released(self, total, X, generator):
        return {"sum": super().released(total, X, generator), "n": len(X)}


class LowEntropy(Sum):
    """The noise is seeded with the current second of the minute."""

    def released(self, total, X, generator):
        # 60 seeds, which somebody who knows the minute tries in turn
        clock = np.random.default_rng(generator.integers(60))
        return super().released(total, X, clock)


# Noisy votes


def queries(d):
    """Public records, [8, d]: near the last axis, the one along which the private
    records have least.
    """
    return np.random.default_rng(8).normal(0.0, 0.01, (8, d)) + np.eye(d)[-1]


@dataclass(frozen=True)
class Vote:
    """Each record goes to a teacher drawn for it; the teachers' votes on each public
    record are counted with noise.
    """

    teachers: int = 8
    noise: float = 8.0

    def claim(self):
        """What the author says: a record moves one vote on each public record."""
        return gaussian(sigma=self.noise, sensitivity=math.sqrt(8))

    def __call__(self, X, y, seed):
        generator = np.random.default_rng(seed)
        teachers = generator.integers(self.teachers, size=len(X))
        # a teacher is the difference of its records' sums in the two classes
        directions = np.zeros((self.teachers, X.shape[1]))
        np.add.at(directions, teachers, (2 * y - 1)[:, None] * X)
        # [queries], for class 1
        votes = (queries(X.shape[1]) @ directions.T > 0).sum(axis=1)
        noisy = votes + generator.normal(0.0, self.noise, len(votes))
        return self.answers(votes, noisy)

    def answers(self, votes, noisy):
        """What is published of the votes for class 1 and the same with noise, both
        [queries].
        """
        return noisy

    def labels(self, votes):
        """Of the larger class, [queries]."""
        return np.asarray(votes > self.teachers / 2, dtype=np.int64)


class EachForItself(Vote):
    """The claim covers one answer, but eight answers are given."""

    def claim(self):
        return gaussian(sigma=self.noise)


class ThresholdExact(Vote):
    """An answer is refused if too few teachers agree, which is decided on the votes
    without noise.
    """

    def answers(self, votes, noisy):
        agree = np.maximum(votes, self.teachers - votes)
        # -1: no answer
        return np.where(agree > 0.9 * self.teachers, self.labels(noisy), -1)


class ConsensusExact(Vote):
    """If all teachers agree, the label is given without noise."""

    def answers(self, votes, noisy):
        agree = votes % self.teachers == 0
        return self.labels(np.where(agree, votes, noisy))


class DataDependent(Vote):
    """The more teachers agree, the less an answer costs. Answers end when the budget
    is spent, as in DPBag.
    """

    def answers(self, votes, noisy):
        # of the votes themselves, which the answers then tell
        spent = np.cumsum(np.exp(-np.abs(2 * votes - self.teachers) / 2))
        return self.labels(noisy)[spent <= 8 * math.exp(-self.teachers / 2) + 0.05]


# By name


@dataclass(frozen=True)
class Target:
    """A training, a function or an estimator, its claim, in one sentence what is wrong
    with it, or what it is, and a score where the author of an audit would write one.
    """

    train: Any
    claim: Any
    words: str
    score: Any = None


def largest_step(steps, x, label):
    """Score of all steps: how far the one that moved most towards a record did so."""
    return float((steps[:, :-1] @ x * (2 * label - 1)).max())


def _target(train, words=None, score=None):
    # one sentence, on one line
    words = words or " ".join(type(train).__doc__.split())
    return Target(train, train.claim, words, score)


def _estimator(kind, **settings):
    # the classes are public; noise that can be drawn again
    model = kind(**settings, classes=(0, 1), noise_seed=0)
    words = f"dpnotes.{kind.__name__}"
    return Target(model, lambda: model.fit(*table()).profile_, words)


FAULTS = {
    "noise of the mean on the sum": NoiseOfMean(),
    "sum in place of the mean": SumForMean(),
    "no clipping": NotClipped(),
    "batch clipped": BatchClipped(),
    "bias not clipped": BiasNotClipped(),
    "shuffled as Poisson": Shuffled(steps=10, rate=0.1, noise=0.2),
    "noise reused": NoiseReused(rate=0.5),
    "seed reused": SeedFixed(rate=0.5),
    "bounds from the data": BoundsFromData(),
    "standardised": Standardised(),
    "batch normalisation": BatchNormalised(),
    "early stopping": StopsEarly(steps=30, noise=10.0),
    "best of ten": BestOfTen(steps=1, noise=8.0),
    "labels counted": LabelsCounted(),
    "budget counted once": CountedOnce(steps=1, noise=1.0),
    "noise on the velocity": MomentumNoise(steps=10, momentum=0.9),
    "clipped late": ClippedLate(clip=0.05),
    "one step more": OneStepMore(steps=1, noise=1.0),
    "rate twice": RateTwice(learning_rate=3.0),
    "one draw for all": OneDraw(),
    "last step clean": LastStepClean(decay=0.9),
    "adaptive clipping": AdaptiveClip(),
    "Laplace for L2": LaplaceForL2(noise=0.4),
    "replace-one as add-remove": ReplaceOne(adjacency="replace-one"),
    "count published": CountPublished(),
    "step from the count": StepFromCount(steps=1, noise=8.0),
    "low entropy": LowEntropy(),
    "answers not composed": EachForItself(noise=2.0),
    "threshold without noise": ThresholdExact(),
    "consensus without noise": ConsensusExact(noise=20.0),
    "answers by the data": DataDependent(),
}
# of all steps, a matrix, the author of an audit would write a score
FAULTS = {
    name: _target(train, score=largest_step if isinstance(train, Shuffled) else None)
    for name, train in FAULTS.items()
}
# the engines themselves, described as what they are
_one = Descent(steps=1, noise=1.0)
_sampled = Descent(rate=0.3, steps=10, noise=1.0)
_moving = Descent(momentum=0.9, steps=10)
SOUND = {
    "full gradients": _target(_one, "One step along the full gradient, with noise."),
    "Poisson samples": _target(_sampled, "Correct DP-SGD on Poisson samples."),
    "momentum": _target(_moving, "SGD with momentum on noisy gradients."),
    "noisy sum": _target(Sum(), "A sum of bounded records with Gaussian noise."),
    "Laplace sum": _target(
        LaplaceSum(), "A sum of bounded records with Laplace noise."
    ),
    "votes": _target(Vote(), "Noisy counts of votes, all of them accounted for."),
    "DPSGD": _estimator(
        DPSGD,
        noise_multiplier=2.0,
        steps=5,
        learning_rate=0.5,
        sample_rate=0.5,
        accountant="rdp",
        device="cpu",
    ),
    "ModelSensitivity": _estimator(
        ModelSensitivity, epsilon=1.0, l2=0.1, norm=1.0, device="cpu"
    ),
    "LossPerturbation": _estimator(
        LossPerturbation, epsilon=1.0, l2=0.1, norm=1.0, device="cpu"
    ),
    "Bagging": _estimator(Bagging, subsample=10),
}
_worst = AllSteps(rate=0.3, steps=10, noise=1.0)
# claims that some record attains on this table, and a score by which
ATTAINED = {
    name: SOUND[name] for name in ("noisy sum", "full gradients", "votes", "Bagging")
}
ATTAINED["all steps"] = _target(
    _worst, "DP-SGD that publishes all of its steps.", _worst.likelihood_ratio
)
