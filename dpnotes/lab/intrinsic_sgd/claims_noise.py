"""Evidence on SGD's own noise: what it is worth if it is Gaussian, and that it need not be (claims 32 and 34)."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from scipy import stats

from dpnotes.accounting import audit_epsilon, hockey_stick
from dpnotes.accounting.papers import augmenting_sigma, intrinsic_epsilon, sgd_sensitivity
from dpnotes.lab._claim import Evidence, Finding
from dpnotes.lab.intrinsic_sgd.claims_runs import (
    all_orders,
    end_weight,
    law,
    logistic_sgd,
    quadratic,
    shuffled_batches,
)
from dpnotes.lab.intrinsic_sgd.claims_tables import TASKS, Task


def intrinsic_level() -> Evidence:
    """Under the paper's assumption its epsilons are on the safe side; a one-hot feature breaks the assumption."""
    return Evidence(
        "The exact condition for Gaussian noise at the printed sigmas; and logistic regressions trained literally with "
        "the settings of each task on a pair of data sets, one of which has a record with a feature to itself. How far "
        "the weights on real data are from one isotropic Gaussian is for training runs to say.",
        tuple(finding for task in TASKS for finding in (*_if_gaussian(task), _if_one_hot(task))),
    )


def _if_gaussian(task: Task) -> tuple[Finding, ...]:
    low, high = (
        intrinsic_epsilon(sigma=1.0, sensitivity=ratio, delta=task.delta, analysis="published")
        for ratio in task.ratio_range()
    )
    mean_shift = task.bound("published")  # the expected number of visits is what moves the mean
    exact = intrinsic_epsilon(sigma=task.sigma, sensitivity=mean_shift, delta=task.delta)
    reached = gaussian_delta(exact, mean_shift / task.sigma)
    return (
        Finding(
            f"epsilon_i by Equation 16, from the printed digits, {task.name}",
            task.epsilon,
            f"{low:.2f} to {high:.2f}",
            low <= task.epsilon <= high,
        ),
        Finding(
            f"epsilon_i, exact, {task.name}",
            task.epsilon,
            exact,
            exact < task.epsilon and math.isclose(reached, task.delta, rel_tol=1e-6),
        ),
    )


def _if_one_hot(task: Task) -> Finding:
    """Neighbours that differ in a record with a feature to itself, whose weight starts uniform on [-limit, limit].

    That is the default of Keras, which the paper uses. Without the record this weight stays where it starts. With it,
    and label 0, every visit takes it down; steps push no weights apart, so that it ends below -limit from a share of
    the starts at least as large as for the lowest. The order is one with few visits: the broken-off pass has none.
    """
    limit = math.sqrt(6 / (task.d + 1))
    last = task.n // task.batch_size * task.batch_size - 1
    batches = shuffled_batches(
        task.n, batch_size=task.batch_size, steps=task.steps, generator=np.random.default_rng(0), place=last
    )
    features = np.zeros((2, task.n, 2))
    features[:, :, 1] = 1.0  # the bias
    features[0, 0, 0] = 1.0
    labels = np.tile(np.arange(task.n) % 2, (2, 1)).astype(np.float64)
    present, absent = logistic_sgd(
        features, labels, batches, learning_rate=task.learning_rate, initial=np.array([-limit, 0.0])
    )[:, 0]
    outside = float(-limit - present) / (2 * limit)
    return Finding(
        f"delta at every epsilon, uniform initial weight, {task.name}",
        task.delta,
        outside,
        bool(absent == -limit) and outside > 20 * task.delta,
    )


def augmented() -> Evidence:
    """The theorem is exact where its assumption is granted, and gives SGD itself nothing."""
    shares = (0.0, 0.5, 0.9)
    worst = max(
        gaussian_delta(epsilon, task.sensitivity / _total_noise(task, epsilon, share)) / task.delta
        for task in TASKS
        for epsilon in (0.1, 0.5, 1.0, 2.0, 4.0, 8.0)
        for share in shares
    )

    n, runs, target = 128, 1000, 5.0
    third = np.tile([3, -3], n // 2)  # three times the records, which are 1 and -1
    with_third = np.array([1, *third[1:]])  # a record 1 becomes 1/3
    absent, present = (_end_numerators(records, runs, seed=seed) for seed, records in enumerate((third, with_third)))
    sigma = float(np.median([np.std((ends / (3 * 32**n)).astype(np.float64)) for ends in (absent, present)]))
    sensitivity = sgd_sensitivity(lipschitz=2.0, smoothness=1.0, learning_rate=1 / 32, batch_size=1, epochs=1)
    added = augmenting_sigma(target, 1 / n, sensitivity=sensitivity, intrinsic_sigma=sigma, analysis="published")
    proved = audit_epsilon(
        true_positives=int((present % 3 != 0).sum()),
        positives=runs,
        false_positives=int((absent % 3 != 0).sum()),
        negatives=runs,
        delta=1 / n,
    )

    one = Fraction(1)
    apart = hockey_stick(_law_of_cells([one] * 3 + [-one] * 3), _law_of_cells([one] * 4 + [-one] * 2), 1)
    return Evidence(
        f"The exact condition over a grid of targets; {runs:,} runs of SGD on each of two neighbours of {n} records in "
        "[-1, 1], losses (w - x)^2 / 2, learning rate 1/32, one pass from w = 0, in whole numbers, with a test fixed "
        "beforehand (is the weight a multiple of a power of 1/2?); all orders of six records at learning rate 1/2 from "
        "an initial weight uniform on [-1, 1], in fractions.",
        (
            Finding("delta reached / delta allowed, assumption granted, largest", 1.0, worst, abs(worst - 1) < 1e-9),
            Finding("noise that Algorithm 2 adds for epsilon = 5", "–", added, added == 0),
            Finding("epsilon that the runs prove at least, 95% confidence", target, proved, proved > target),
            Finding("total variation between neighbours, uniform initial weight", "< 1", float(apart), apart == 1),
        ),
    )


def gaussian_delta(epsilon: float, mu: float) -> float:
    """Least delta for Gaussian noise whose standard deviation is 1 / mu of the sensitivity: the textbook condition."""
    above, below = stats.norm.cdf(np.array([mu / 2, -mu / 2]) - epsilon / mu)
    return float(above - math.exp(epsilon) * below)


def _total_noise(task: Task, epsilon: float, share: float) -> float:
    """Added and own noise together, where the own noise is a share of what the target asks for."""
    alone = augmenting_sigma(epsilon, task.delta, sensitivity=task.sensitivity)
    own = share * alone
    return math.hypot(own, augmenting_sigma(epsilon, task.delta, sensitivity=task.sensitivity, intrinsic_sigma=own))


def _end_numerators(records: np.ndarray, runs: int, *, seed: int) -> np.ndarray:
    """``3 * 32^n`` times the end weights of so many runs, as whole numbers: each step is w <- (31 w + x) / 32."""
    generator = np.random.default_rng(seed)
    orders = generator.permuted(np.tile(records.astype(object), (runs, 1)), axis=1)  # [runs, n], of 3 x
    ends = np.zeros(runs, dtype=object)
    for step in range(len(records)):
        ends = 31 * ends + 32**step * orders[:, step]
    return ends


def _law_of_cells(records: list[Fraction]) -> dict[Fraction, Fraction]:
    """Chance that the end weight lies between two neighbouring multiples of ``2^-n``, within which it is uniform.

    At learning rate 1/2 an end is a multiple of ``2^-n``, and the initial weight adds a number uniform within as much.
    """
    n = len(records)
    ends = [end_weight(records, order, learning_rate=Fraction(1, 2), slope=quadratic) for order in all_orders(n)]
    cells: dict[Fraction, Fraction] = {}
    for end, mass in law(ends).items():
        for cell in (end * 2**n - 1, end * 2**n):
            cells[cell] = cells.get(cell, Fraction(0)) + mass / 2
    return cells
