"""Evidence on what one record does to the minimiser: neighbours are fitted, the loss is differenced."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special

from dpnotes.accounting import logistic_constants, minimiser_sensitivity
from dpnotes.lab._claim import Evidence, Finding

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

N, LAMBDA = 60_000, 1e-4  # MNIST's size; a value of the paper's grid at which the worst case is nearly attained
K = math.sqrt(2)


def sensitivity_of_the_minimiser() -> Evidence:
    """Lemma 1: neighbours fitted to rounding, two that nearly attain the bound and many drawn at random."""
    bound = minimiser_sensitivity(lipschitz=K, n=N, regulariser=LAMBDA)
    first, second = worst_fits()
    worst = float(np.linalg.norm(first - second)) / bound
    drawn = _largest_random_shift(pairs=40)

    tau = 1e-5  # half of K / n
    loose = minimiser_sensitivity(lipschitz=K, n=N, regulariser=LAMBDA, gradient_tolerance=tau)
    away = (first - second) / np.linalg.norm(first - second)
    stopped = [
        end + sign * _reach(end, sign * away, *worst_neighbours()[side], tau) * away
        for side, (end, sign) in enumerate(((first, 1), (second, -1)))
    ]
    apart = float(np.linalg.norm(stopped[0] - stopped[1])) / bound

    x, y = np.array([[0.6, 0.8, 1.0]]), np.array([1])  # a record of norm 1 and the constant feature of a bias
    gradient = float(np.linalg.norm(_slope(np.outer(x[0], [40.0, -40.0]), x, y, np.ones(1))))
    biased = logistic_constants(n_classes=2, bias=True).lipschitz
    return Evidence(
        f"Minimisers of neighbouring data sets by Newton's method, n = {N:,} and lambda = {LAMBDA:g}, and 40 random "
        "pairs of n = 4 records in 3 classes; shifts in units of 2 K / (n lambda).",
        (
            Finding("shift of the worst neighbours constructed", 1.0, worst, 0.99 < worst <= 1 + 1e-9),
            Finding("largest shift of random neighbours", 1.0, drawn, drawn <= 1 + 1e-9),
            Finding(
                f"the worst neighbours stopped at gradients of norm {tau:g}",
                1.0,
                apart,
                apart > 1 and 0.99 * loose / bound < apart <= loose / bound * (1 + 1e-9),
            ),
            Finding("K with a bias: norm of a gradient", K, gradient, gradient > K and math.isclose(gradient, biased)),
        ),
    )


def logistic_loss() -> Evidence:
    """Theorems 9 and 10: differences of the loss itself at random logits and at the worst ones."""
    classes = 4
    constants = logistic_constants(n_classes=classes)
    logits = np.random.default_rng(3).normal(size=(300, classes)) * np.geomspace(0.1, 20, 300)[:, None]
    worst = np.array([[20.0, -20, -20, -20], [0.0, 0, -20, -20], [0.0, 0, 0, 0]])
    slopes = _slopes(np.concatenate([logits, worst]))
    values = np.linalg.eigvalsh(_curvatures(np.concatenate([logits, worst])))
    norms, rounding = np.linalg.norm(slopes, axis=1), 1e-6  # of second differences at steps of 1e-3
    largest, trace, zero = values[:, -1], values.sum(axis=1), np.abs(values[:, : classes - constants.rank])
    return Evidence(
        f"Central differences of the loss at {len(logits)} random logits of {classes} classes and at a certain wrong "
        "answer, a tie of two and a tie of all.",
        (
            Finding(
                "largest norm of the gradient",
                K,
                float(norms.max()),
                bool(abs(norms.max() - constants.lipschitz) < rounding) and math.isclose(constants.lipschitz, K),
            ),
            Finding(
                "largest eigenvalue of the Hessian",
                0.5,
                float(largest.max()),
                bool(abs(largest.max() - constants.smoothness) < rounding) and constants.smoothness == 0.5,
            ),
            Finding(
                "largest of the eigenvalues that vanish at rank C - 1",
                "–",
                float(zero.max()),
                bool(zero.max() < rounding < values[-1, classes - constants.rank]),
            ),
            Finding(
                "largest trace of the Hessian",
                "–",
                float(trace.max()),
                bool(abs(trace.max() - constants.trace) < 4 * rounding) and int(trace.argmax()) == len(trace) - 1,
            ),
        ),
    )


def worst_neighbours() -> tuple[tuple[Floats, Integers, Floats], tuple[Floats, Integers, Floats]]:
    """Two data sets (features, labels, how often) of N records, two classes, one record different.

    All other records, of norm 0.03, push the second weight to where both differing records are classified with
    certainty, and wrongly: their gradients have norm K and, up to an angle, opposite signs.
    """
    cosine, sine = math.sqrt(0.99), 0.1
    y, times = np.array([0, 1]), np.array([N - 1.0, 1.0])
    return (
        (np.array([[0.0, 0.03], [cosine, sine]]), y, times),
        (np.array([[0.0, 0.03], [-cosine, sine]]), y, times),
    )


def worst_fits() -> tuple[Floats, Floats]:
    """Minimisers [2, 2] on the two data sets."""
    first, second = (minimiser(*data, n_classes=2, regulariser=LAMBDA) for data in worst_neighbours())
    return first, second


def minimiser(
    x: Floats, y: Integers, times: Floats, *, n_classes: int, regulariser: float, n: float | None = None
) -> Floats:
    """Minimiser [d, n_classes] of the logistic losses over n plus ``regulariser ||theta||^2 / 2``, to rounding.

    Record i is there ``times[i]`` times; n is by default their number.
    """
    share = times / (times.sum() if n is None else n)
    identity = np.eye(n_classes)

    def value(theta: Floats) -> float:
        logits = x @ theta
        loss = special.logsumexp(logits, axis=1) - logits[np.arange(len(y)), y]
        return float(share @ loss + regulariser / 2 * (theta**2).sum())

    theta = np.zeros((x.shape[1], n_classes))
    for _ in range(100):
        p = special.softmax(x @ theta, axis=1)
        inner = p[:, :, None] * identity - p[:, :, None] * p[:, None, :]  # [records, C, C]
        hessian = np.einsum("n,ni,nj,nab->iajb", share, x, x, inner).reshape(theta.size, theta.size)
        slope = _slope(theta, x, y, share) + regulariser * theta
        step = np.linalg.solve(hessian + regulariser * np.eye(theta.size), slope.ravel()).reshape(theta.shape)
        length, start = 1.0, value(theta)
        while length > 1e-6 and value(theta - length * step) > start - 1e-4 * length * float((slope * step).sum()):
            length /= 2
        theta = theta - (length if length > 1e-6 else 1.0) * step  # at the minimum the value no longer tells
        if np.abs(step).max() < 1e-11 * max(1.0, np.abs(theta).max()):
            break
    return theta


def _largest_random_shift(*, pairs: int) -> float:
    """Largest shift between random neighbours of 4 records in 3 classes, in units of Lemma 1's bound."""
    generator = np.random.default_rng(0)
    n, found = 4, 0.0
    for _ in range(pairs):
        regulariser = 10 ** generator.uniform(-3, 1)
        x = generator.normal(size=(n + 1, 2))
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        y = generator.integers(3, size=n + 1)
        kept = (slice(0, n), slice(1, n + 1))
        fits = [minimiser(x[k], y[k], np.ones(n), n_classes=3, regulariser=regulariser) for k in kept]
        bound = minimiser_sensitivity(lipschitz=K, n=n, regulariser=regulariser)
        found = max(found, float(np.linalg.norm(fits[0] - fits[1])) / bound)
    return found


def _reach(end: Floats, direction: Floats, x: Floats, y: Integers, times: Floats, tau: float) -> float:
    """How far from the minimiser, in a direction, the objective's gradient has norm tau."""

    def over(length: float) -> float:
        theta = end + length * direction
        return float(np.linalg.norm(_slope(theta, x, y, times / N) + LAMBDA * theta)) - tau

    return float(optimize.brentq(over, 0.0, 2 * tau / LAMBDA))


def _slope(theta: Floats, x: Floats, y: Integers, share: Floats) -> Floats:
    """Gradient [d, C] of the weighted sum of the losses."""
    residual = special.softmax(x @ theta, axis=1) - np.eye(theta.shape[1])[y]
    return np.asarray(x.T @ (share[:, None] * residual), dtype=np.float64)


def _loss(logits: Floats) -> Floats:
    """Cross-entropy of the last class."""
    return np.asarray(special.logsumexp(logits, axis=-1) - logits[..., -1], dtype=np.float64)


def _slopes(logits: Floats, step: float = 1e-4) -> Floats:
    steps = step * np.eye(logits.shape[1])
    ahead, behind = (_loss(logits[:, None, :] + sign * steps) for sign in (1, -1))
    return (ahead - behind) / (2 * step)


def _curvatures(logits: Floats, step: float = 1e-3) -> Floats:
    steps = step * np.eye(logits.shape[1])
    corners = [
        sign * other * _loss(logits[:, None, None, :] + sign * steps[:, None, :] + other * steps[None, :, :])
        for sign in (1, -1)
        for other in (1, -1)
    ]
    return np.asarray(sum(corners[1:], corners[0]), dtype=np.float64) / (4 * step**2)
