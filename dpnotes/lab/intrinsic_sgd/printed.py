"""What Hyland and Tople (2019) print in their Tables I to IV, for logistic regression."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpnotes._validation import Integers
from dpnotes.accounting.papers import intrinsic_sgd, sgd_sensitivity
from dpnotes.lab.intrinsic_sgd.literal_sgd import shuffled_batches

LIPSCHITZ = 2**0.5  # of the logistic loss where the norm of x is at most 1 and a bias is learnt
SMOOTHNESS = 0.5  # the same: a quarter of the squared norm of (x, 1)
HALF_DIGIT = 5e-4  # sensitivities and sigmas are printed to three decimals


@dataclass(frozen=True)
class Task:
    """One data set of the paper and what is printed of it.

    Parameters
    ----------
    name : str
    n, d : int
        Training records and their features.
    batch_size, steps : int
        Records in a batch, and batches until convergence.
    learning_rate : float
    sensitivity, observed : float
        The "theoretical" and the "empirical" sensitivity, in the units of the weights.
    sigma : float
        Standard deviation of a weight over seeds, initialisation included.
    delta : float
        1 / n.
    epsilon, epsilon_observed : float
        The intrinsic epsilon with either sensitivity.
    noiseless, noisy, gain, closed : float
        At epsilon = 1 with the theoretical sensitivity: accuracy without noise and with it, what counting on SGD's own
        noise adds to the latter, and the fraction of the gap that this is said to close.
    """

    name: str
    n: int
    d: int
    batch_size: int
    learning_rate: float
    steps: int
    sensitivity: float
    observed: float
    sigma: float
    delta: float
    epsilon: float
    epsilon_observed: float
    noiseless: float
    noisy: float
    gain: float
    closed: float

    def bound(self, analysis: str = "tight") -> float:
        """Sensitivity for one fixed seed; ``"published"`` counts a broken-off pass as a fraction."""
        return sgd_sensitivity(
            lipschitz=LIPSCHITZ,
            smoothness=SMOOTHNESS,
            learning_rate=self.learning_rate,
            batch_size=self.batch_size,
            epochs=self.steps * self.batch_size / self.n,
            analysis=analysis,
        )

    def batches(self, *, place: int) -> Integers:
        """Batches of the task's training, with record 0 at that place of every pass."""
        generator = np.random.default_rng(0)
        return shuffled_batches(self.n, batch_size=self.batch_size, steps=self.steps, generator=generator, place=place)

    def ratio_range(self) -> tuple[float, float]:
        """Least and largest sensitivity / sigma that the printed digits allow."""
        low, high = ((self.sensitivity + off) / (self.sigma - off) for off in (-HALF_DIGIT, HALF_DIGIT))
        return low, high


MNIST = Task(
    *("MNIST-binary", 10_397, 50, 32, 0.1, 1850, 0.050, 0.041, 0.028, 9.62e-5, 7.88, 6.36),
    *(0.927, 0.83, 0.015, 0.0155),
)
FOREST = Task(
    *("Forest", 378_783, 49, 50, 1.0, 8400, 0.063, 0.020, 0.114, 2.64e-6, 2.80, 0.89),
    *(0.771, 0.758, 0.013, 0.1007),
)
ADULT = Task(
    *("Adult", 29_305, 100, 32, 0.5, 3400, 0.164, 0.032, 0.108, 3.41e-5, 6.95, 1.37),
    *(0.8341, 0.64, 0.029, 0.0019),
)
TASKS = (MNIST, FOREST, ADULT)


def intrinsic_epsilon(*, sigma: float, sensitivity: float, delta: float, analysis: str = "tight") -> float:
    """Epsilon at ``delta`` under the assumption of :func:`dpnotes.accounting.papers.intrinsic_sgd`.

    Parameters
    ----------
    sigma : float, > 0
    sensitivity : float, > 0
        In the units of sigma.
    delta : float, in (0, 1)
    analysis : {"tight", "published"}
        ``"published"``: ``sqrt(2 log(1.25 / delta)) sensitivity / sigma``, the paper's formula. It is proved for
        results below 1, and too small for results above about 8.

    Returns
    -------
    float

    Source
    ------
    Hyland and Tople (2019), Algorithm 1 (with log(1.25 / delta)); Balle and Wang (2018), Theorem 8.

    Examples
    --------
    >>> entry = dict(sigma=0.028, sensitivity=0.050, delta=9.62e-5)
    >>> round(intrinsic_epsilon(**entry), 3), round(intrinsic_epsilon(**entry, analysis="published"), 3)
    (7.717, 7.772)
    """
    if analysis == "published":
        return math.sqrt(2 * math.log(1.25 / delta)) * sensitivity / sigma
    return intrinsic_sgd(sigma=sigma, sensitivity=sensitivity).epsilon(delta)
