"""Evidence on claims 30 to 36: the intrinsic privacy of stochastic gradient descent
(Hyland and Tople 2019).

SGD is trained here literally: in shared batches, over all orders, in exact fractions.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import partial
from itertools import permutations, product

import numpy as np
from scipy import special, stats

from dpnotes._validation import Floats, Integers
from dpnotes.accounting import audit_epsilon, gaussian, gaussian_sigma, hockey_stick
from dpnotes.accounting.papers import augmenting_sigma, sgd_sensitivity
from dpnotes.lab import _claim
from dpnotes.lab._claim import Finding, evidence
from dpnotes.lab.intrinsic_sgd.printed import (
    HALF_DIGIT,
    LIPSCHITZ,
    SMOOTHNESS,
    Task,
    intrinsic_epsilon,
    tasks,
)

judged = partial(_claim.judged, "intrinsic_sgd")
# an ordinary norm of a row of MNIST-binary after projection, without scaling
UNSCALED = 9.0
Point = tuple[float, ...]
Batches = list[tuple[int, ...]]
Gradient = Callable[[Fraction, int | Fraction], int | Fraction]
# what was computed, and whether what else was computed supports the status
Found = tuple[float | Fraction, bool]


@evidence(30)
def sensitivity() -> list[Finding]:
    """Check that SGD never exceeds 2 ceil(k) L eta / B, but exceeds the printed
    values at the paper's own settings.
    """
    reached = max(
        _largest_fraction_of_bound(rate, steps)
        for rate in (0.1, 1.0, 4.0)
        for steps in (3, 5, 8)
    )
    moved = [
        (distance := _farthest(task, norm=1.0), _passes(task, distance))
        for task in tasks()
    ]
    # n = 4, B = 2, L = eta = 1, three steps: k = 3/2
    distances = _exchanged(4, batch_size=2, passes=2, steps=3)
    mean = sum(distances, Fraction(0)) / len(distances)
    unit = partial(
        sgd_sensitivity,
        lipschitz=1.0,
        smoothness=1e-9,
        learning_rate=1.0,
        batch_size=2,
        epochs=3 * 2 / 4,
    )
    fraction, whole = (unit(analysis=analysis) for analysis in ("published", "tight"))
    largest = (max(distances), whole == 2)
    short = max(_exchanged(3, batch_size=2))
    return judged(
        30,
        reached,
        *moved,
        _farthest(tasks()[0], norm=UNSCALED),
        largest,
        (mean, mean == fraction),
        short,
    )


@evidence(31)
def variability() -> list[Finding]:
    """Check that the bounds are ordered as claimed, but not the distances, and that
    SGD may hide nothing.
    """
    n, passes = 6, 2
    order = tuple(range(n))
    # points that stay, by shuffle
    fixed = [sum(map(int.__eq__, order, other)) for other in permutations(order)]
    # 2 L eta (n - fixed points), summed over two passes; L = eta = 1
    sums = product(Counter(fixed).items(), repeat=passes)
    masses = [
        (2 * (2 * n - one - two), Fraction(a * b, len(fixed) ** 2))
        for (one, a), (two, b) in sums
    ]
    mean = sum((bound * mass for bound, mass in masses), Fraction(0))
    variance = sum(((bound - mean) ** 2 * mass for bound, mass in masses), Fraction(0))
    tail = sum(
        (mass for bound, mass in masses if abs(bound - mean) >= passes * (n - 2)),
        Fraction(0),
    )
    exact = (mean, mean == 2 * passes * (n - 1)), (variance, variance == 4 * passes)

    half = Fraction(1, 2)
    still, moved, apart = _seed_against_record(linear, [-1, half, 1], [-1, half, -1])
    varied, shifted, revealed = _seed_against_record(
        quadratic, [-1, half, 1], [-1, half, Fraction(9, 10)]
    )
    return judged(
        31, *exact, tail, (still / moved, moved > 0), apart, varied / shifted, revealed
    )


@evidence(32)
def intrinsic_level() -> list[Finding]:
    """Check that the epsilons are on the safe side by the paper's assumption, which
    a one-hot feature breaks.
    """
    return judged(
        32,
        *(
            found
            for task in tasks()
            for found in (*_if_gaussian(task), _if_one_hot(task))
        ),
    )


@evidence(33)
def observed_sensitivity() -> list[Finding]:
    """Find pairs of data sets, at the paper's own settings, that are farther apart
    than any pair in the paper.
    """
    one, two = (
        [0 if record == left_out else record for record in range(1, 6)]
        for left_out in (1, 2)
    )
    places = sum(first != second for first, second in zip(one, two, strict=True))
    return judged(
        33,
        *(found for task in tasks()[1:] for found in _beyond_the_observed(task)),
        places,
    )


@evidence(34)
def augmented() -> list[Finding]:
    """Check that the theorem is exact if its assumption is granted, and says nothing
    about SGD itself.
    """
    worst = max(
        gaussian_delta(
            epsilon, task.sensitivity / _total_noise(task, epsilon, fraction)
        )
        / task.delta
        for task in tasks()
        for epsilon in (0.1, 0.5, 1.0, 2.0, 4.0, 8.0)
        for fraction in (0.0, 0.5, 0.9)
    )

    n, runs, target = 128, 1000, 5.0
    third = np.tile([3, -3], n // 2)  # three times the records, which are 1 and -1
    with_third = np.array([1, *third[1:]])  # a record 1 becomes 1/3
    absent, present = (
        _end_numerators(records, runs, seed=seed)
        for seed, records in enumerate((third, with_third))
    )
    sigma = float(
        np.median(
            [
                np.std((ends / (3 * 32**n)).astype(np.float64))
                for ends in (absent, present)
            ]
        )
    )
    bound = sgd_sensitivity(
        lipschitz=2.0, smoothness=1.0, learning_rate=1 / 32, batch_size=1, epochs=1
    )
    added = augmenting_sigma(
        target, 1 / n, sensitivity=bound, intrinsic_sigma=sigma, analysis="published"
    )
    true, false = (int((ends % 3 != 0).sum()) for ends in (present, absent))
    proved = audit_epsilon(
        true_positives=true,
        positives=runs,
        false_positives=false,
        negatives=runs,
        delta=1 / n,
    )

    apart = hockey_stick(_cells([1] * 3 + [-1] * 3), _cells([1] * 4 + [-1] * 2), 1)
    return judged(34, worst, added, proved, apart)


@evidence(35)
def misprinted_constant() -> list[Finding]:
    """Check that Table III was computed with log(1.25 / delta), and that the larger
    printed constant suffices.
    """
    return judged(35, *(found for task in tasks() for found in _constant(task)))


@evidence(36)
def less_noise() -> list[Finding]:
    """Compute the savings by counting on SGD's noise and by exact calibration, and
    check the entries of Table IV.
    """
    return judged(36, *(found for task in tasks() for found in _saving(task)))


def _passes(task: Task, distance: float) -> bool:
    """Whether more than is printed is found, and the bound is 2 L eta / B for each
    of the ceil(steps B / n) visits.
    """
    visits = math.ceil(task.steps * task.batch_size / task.n)
    bound = 2 * math.sqrt(2) * task.learning_rate / task.batch_size * visits
    return distance > task.sensitivity + HALF_DIGIT and math.isclose(
        task.bound(), bound, rel_tol=1e-9
    )


def _if_gaussian(task: Task) -> list[Found]:
    """The epsilons that the printed digits allow, and the exact one."""
    low, high = (
        intrinsic_epsilon(
            sigma=1.0, sensitivity=ratio, delta=task.delta, analysis="published"
        )
        for ratio in task.ratio_range()
    )
    # the expected number of visits is what moves the mean
    mean_shift = task.bound("published")
    exact = intrinsic_epsilon(
        sigma=task.sigma, sensitivity=mean_shift, delta=task.delta
    )
    reached = gaussian_delta(exact, mean_shift / task.sigma)
    same = exact < task.epsilon and math.isclose(reached, task.delta, rel_tol=1e-6)
    return [(low, True), (high, True), (exact, same)]


def _if_one_hot(task: Task) -> Found:
    """Neighbours that differ in a record with a feature to itself, whose weight starts
    uniform on [-limit, limit].

    That is the default of Keras, which the paper uses. Without the record this weight
    stays where it starts. With it, and label 0, every visit takes it down; steps push
    no weights apart, so that it ends below -limit from a fraction of the starts at
    least as large as for the lowest. The order is one with few visits: the broken-off
    pass has none.
    """
    limit = math.sqrt(6 / (task.d + 1))
    batches = _batches(task, place=task.n // task.batch_size * task.batch_size - 1)
    features = np.zeros((2, task.n, 2))
    features[:, :, 1] = 1.0  # the bias
    features[0, 0, 0] = 1.0
    labels = np.tile(np.arange(task.n) % 2, (2, 1)).astype(np.float64)
    initial = np.array([-limit, 0.0])
    present, absent = logistic_sgd(
        features, labels, batches, learning_rate=task.learning_rate, initial=initial
    )[:, 0]
    outside = float(-limit - present) / (2 * limit)
    return outside, bool(absent == -limit)


def _beyond_the_observed(task: Task) -> tuple[float, float, float]:
    # a feature that the exchanged record alone has, under either label; the other
    # records only move the bias
    distance = _exchange(
        task,
        (1.0, 1.0),
        (1.0, 1.0),
        others=(0.0, 1.0),
        mirrored=(0.0, 1.0),
        initial=(0.0, 0.0),
    )
    epsilon = intrinsic_epsilon(
        sigma=task.sigma, sensitivity=distance, delta=task.delta, analysis="published"
    )
    noise = float(
        gaussian_sigma(1.0, task.delta, sensitivity=task.observed, analysis="classical")
    )
    return (
        distance,
        epsilon,
        gaussian(sigma=noise, sensitivity=distance, adjacency="replace-one").epsilon(
            task.delta
        ),
    )


def _constant(task: Task) -> list[Found]:
    """The constant behind Table III, and the epsilon that is spent with the printed
    one.
    """
    printed = math.sqrt(2 * math.log(1.25) / task.delta) + 1e-5
    meant = intrinsic_epsilon(
        sigma=1.0, sensitivity=1.0, delta=task.delta, analysis="published"
    )
    low, high = sorted(task.epsilon / ratio for ratio in task.ratio_range())
    spent = intrinsic_epsilon(sigma=printed, sensitivity=1.0, delta=task.delta)
    checked = math.isclose(gaussian_delta(spent, 1 / printed), task.delta, rel_tol=1e-6)
    return [(meant, low <= meant <= high < printed / 10), (spent, checked)]


def _saving(task: Task) -> list[Found]:
    """Of noise, by counting on SGD's own and by exact calibration; the noise that
    suffices; the gap that is closed.
    """
    noise = partial(
        augmenting_sigma,
        1.0,
        task.delta,
        sensitivity=task.sensitivity,
        analysis="published",
    )
    classical, counted = noise(intrinsic_sigma=0.0), noise(intrinsic_sigma=task.sigma)
    exact, proved = (
        float(gaussian_sigma(1.0, task.delta, sensitivity=s))
        for s in (task.sensitivity, task.bound())
    )
    own, little = (
        1 - counted / classical,
        1 - math.sqrt(1 - (task.sigma / classical) ** 2),
    )
    enough, too_little = (
        gaussian_delta(1.0, task.sensitivity / (exact * factor))
        for factor in (1.0, 0.999)
    )
    least = enough <= task.delta * (1 + 1e-9) and too_little > task.delta
    closed = task.gain / (task.noiseless - task.noisy)
    return [
        (own, abs(own - little) <= 1e-9),
        (1 - exact / classical, least),
        (proved, (proved < counted) == (task.name != "Forest")),
        (closed, closed > task.closed),
    ]


def _largest_fraction_of_bound(
    learning_rate: float, steps: int, *, pairs: int = 2000
) -> float:
    """Random neighbours of six records on the unit sphere, weights that start near
    zero or far away, B = 2.
    """
    n, batch_size, d = 6, 2, 2
    generator = np.random.default_rng([steps, round(10 * learning_rate)])
    batches = shuffled_batches(
        n, batch_size=batch_size, steps=steps, generator=generator, place=0
    )
    points = generator.normal(size=(pairs, n + 1, d))
    points /= np.linalg.norm(points, axis=-1, keepdims=True)
    # [pairs, n + 1, d + 1], with the bias
    features = np.concatenate([points, np.ones((pairs, n + 1, 1))], axis=-1)
    labels = generator.integers(2, size=(pairs, n + 1)).astype(np.float64)
    initial = generator.normal(size=(pairs, d + 1)) * 10 ** generator.uniform(
        -1, 2.5, size=(pairs, 1)
    )
    one, two = (
        logistic_sgd(
            features[:, kept],
            labels[:, kept],
            batches,
            learning_rate=learning_rate,
            initial=initial,
        )
        for kept in (list(range(n)), [n, *range(1, n)])
    )
    epochs = steps * batch_size / n
    bound = sgd_sensitivity(
        lipschitz=LIPSCHITZ,
        smoothness=SMOOTHNESS,
        learning_rate=learning_rate,
        batch_size=batch_size,
        epochs=epochs,
    )
    return float(np.linalg.norm(one - two, axis=-1).max()) / bound


def _farthest(task: Task, *, norm: float) -> float:
    """Distance when a record of that norm is exchanged for nearly itself with the other
    label, both on the wrong side.

    The two gradients have the same direction, and the weights start where both are as
    long as can be.
    """
    far, side = (0.1 * norm, math.sqrt(0.99) * norm, 1.0), (norm, 0.0, 1.0)
    mirrored = (-norm, 0.0, 1.0)
    return _exchange(
        task,
        far,
        (-far[0], *far[1:]),
        others=side,
        mirrored=mirrored,
        initial=(400.0, 0.0, 0.0),
    )


def _exchange(
    task: Task,
    record: Point,
    other: Point,
    *,
    others: Point,
    mirrored: Point,
    initial: Point,
) -> float:
    """Distance of the weights when ``record`` of label 0 is exchanged for ``other`` of
    label 1, first in every pass.

    Of the other records half are ``others`` of label 1, half ``mirrored`` of label 0; a
    last coordinate 1 is the bias.
    """
    features: Floats = np.empty((2, task.n, len(record)))
    labels: Floats = np.empty((2, task.n))
    features[:, ::2], features[:, 1::2] = others, mirrored
    labels[:, ::2], labels[:, 1::2] = 1.0, 0.0
    features[:, 0], labels[:, 0] = (record, other), (0.0, 1.0)
    one, two = logistic_sgd(
        features,
        labels,
        _batches(task, place=0),
        learning_rate=task.learning_rate,
        initial=np.array(initial),
    )
    return float(np.linalg.norm(one - two))


def _exchanged(n: int, **batches: int) -> list[Fraction]:
    """Distance for every order when one of n linear losses turns from gradient 1 to
    -1, at learning rate 1.
    """
    one, two = (
        end_weights([own, *[0] * (n - 1)], linear, learning_rate=Fraction(1), **batches)
        for own in (1, -1)
    )
    return [abs(end - other) for end, other in zip(one, two, strict=True)]


def _seed_against_record(
    gradient: Gradient,
    records: Sequence[int | Fraction],
    neighbour: Sequence[int | Fraction],
) -> tuple[Fraction, Fraction, Fraction]:
    """Largest distance over two seeds, largest over the two data sets for one seed,
    total variation between them.

    SGD makes two passes in batches of one record at learning rate 1/4.
    """
    ends, others = (
        end_weights(own, gradient, learning_rate=Fraction(1, 4), passes=2)
        for own in (records, neighbour)
    )
    shift = max(abs(one - two) for one, two in zip(ends, others, strict=True))
    return (
        max(ends) - min(ends),
        shift,
        hockey_stick(distribution(ends), distribution(others), 1),
    )


def gaussian_delta(epsilon: float, mu: float) -> float:
    """Compute the least delta, exactly, of Gaussian noise whose standard deviation
    is 1 / mu of the sensitivity.
    """
    above, below = stats.norm.cdf(np.array([mu / 2, -mu / 2]) - epsilon / mu)
    return float(above - math.exp(epsilon) * below)


def _total_noise(task: Task, epsilon: float, fraction: float) -> float:
    """Added and own noise together, where the own noise is a fraction of what the
    target asks for.
    """
    needed = partial(
        augmenting_sigma, epsilon, task.delta, sensitivity=task.sensitivity
    )
    own = fraction * needed()
    return math.hypot(own, needed(intrinsic_sigma=own))


def _end_numerators(records: np.ndarray, runs: int, *, seed: int) -> np.ndarray:
    """``3 * 32^n`` times the end weights of so many runs, as whole numbers: each
    step is w <- (31 w + x) / 32.
    """
    generator = np.random.default_rng(seed)
    # [runs, n], of 3 x
    orders = generator.permuted(np.tile(records.astype(object), (runs, 1)), axis=1)
    ends = np.zeros(runs, dtype=object)
    for step in range(len(records)):
        ends = 31 * ends + 32**step * orders[:, step]
    return ends


def _cells(records: Sequence[int]) -> dict[Fraction, Fraction]:
    """Chance that the end weight lies between two neighbouring multiples of ``2^-n``,
    within which it is uniform.

    At learning rate 1/2 an end is a multiple of ``2^-n``, and the initial weight adds a
    number uniform within as much.
    """
    ends = [
        end * 2 ** len(records)
        for end in end_weights(records, quadratic, learning_rate=Fraction(1, 2))
    ]
    return distribution([cell for end in ends for cell in (end - 1, end)])


def _batches(task: Task, *, place: int) -> Integers:
    """Batches of the task's training, with record 0 at that place of every pass."""
    generator = np.random.default_rng(0)
    return shuffled_batches(
        task.n,
        batch_size=task.batch_size,
        steps=task.steps,
        generator=generator,
        place=place,
    )


def linear(weight: Fraction, record: int | Fraction) -> int | Fraction:
    """Return the gradient of the loss ``weight * record``."""
    return record


def quadratic(weight: Fraction, record: int | Fraction) -> int | Fraction:
    """Return the gradient of the loss ``(weight - record)^2 / 2``."""
    return weight - record


def end_weights(
    records: Sequence[int | Fraction],
    gradient: Gradient,
    *,
    learning_rate: Fraction,
    **batches: int,
) -> list[Fraction]:
    """Compute, for each order of :func:`all_orders`, the weight after a step on each
    batch, from weight 0.
    """
    ends = []
    for order in all_orders(len(records), **batches):
        weight = Fraction(0)
        for batch in order:
            weight -= (
                learning_rate
                * sum(gradient(weight, records[index]) for index in batch)
                / len(batch)
            )
        ends.append(weight)
    return ends


def all_orders(
    n: int, *, batch_size: int = 1, passes: int = 1, steps: int | None = None
) -> Iterator[Batches]:
    """List the batches of all equally likely orders: each pass shuffles n records
    again; ``steps`` batches are used.
    """
    for orders in product(permutations(range(n)), repeat=passes):
        yield [
            order[at : at + batch_size]
            for order in orders
            for at in range(0, n, batch_size)
        ][:steps]


def distribution(ends: Sequence[Fraction]) -> dict[Fraction, Fraction]:
    """Compute the probability of each end weight, from the ends of equally likely
    orders.
    """
    return {end: Fraction(count, len(ends)) for end, count in Counter(ends).items()}


def shuffled_batches(
    n: int, *, batch_size: int, steps: int, generator: np.random.Generator, place: int
) -> Integers:
    """Draw the records of each step, [steps, batch_size]: a fresh order for each pass,
    without a short last batch.

    ``place`` is the place of record 0 in every pass.
    """
    whole = n // batch_size  # steps of a pass
    # [passes, n]
    orders = np.stack(
        [generator.permutation(n) for _ in range(math.ceil(steps / whole))]
    )
    orders[orders == 0] = orders[:, place]
    orders[:, place] = 0
    return orders[:, : whole * batch_size].reshape(-1, batch_size)[:steps]


def logistic_sgd(
    features: Floats,
    labels: Floats,
    batches: Integers,
    *,
    learning_rate: float,
    initial: Floats,
) -> Floats:
    """Train logistic regressions side by side, and return their end weights [runs, d].

    The shapes are ``features`` [runs, n, d], ``labels`` [runs, n] with values in {0,
    1}, ``initial`` [d] or [runs, d], and ``batches`` [steps, batch_size] if all runs
    share them, else [steps, runs, batch_size].
    """
    runs = np.arange(len(features))[:, None]
    weights = np.broadcast_to(initial, (len(features), features.shape[-1])).copy()
    for batch in batches:
        # [runs, batch_size, d], [runs, batch_size]
        x, y = features[runs, batch], labels[runs, batch]
        error = special.expit((x @ weights[..., None])[..., 0]) - y
        weights -= learning_rate / batch.shape[-1] * (error[:, None, :] @ x)[:, 0]
    return weights
