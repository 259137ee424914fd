"""Loss perturbation by exact densities: the worst of random problems in few dimensions,
beside the bound.

``python -m tests.accounting.loss_densities`` runs 1,000; with ``--keep`` the worst are
kept in ``book/results``.

The map between noise b and released weights W is a bijection, so that the loss log
dP/dQ at W is explicit. The part of b along the sum of the classes is the same for all
data: (C - 1) d dimensions are left. In up to two of them the hockey-stick divergence is
summed over a grid of b, in more it is the mean over points of a Sobol sequence.
"""

import argparse
from itertools import product
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import linalg, special, stats

from dpnotes.accounting import loss_perturbation
from dpnotes.lab.store import published_store

SIZES = ((2, 1), (2, 2), (3, 1), (3, 2))  # classes, features
RELATIONS = ("zero-out", "replace-one")
POINTS = {1: 1001, 2: 81}  # of an axis of the grid, by dimensions
DRAWS = 2**13
REACH = 7.0  # of the grid, in standard deviations
KINKS = 5e-4  # what a grid can be off by, where the integrand turns


class Problem(NamedTuple):
    """Records that both data sets have, so many times each, the one with and the one
    without, and the noise.
    """

    x: np.ndarray
    y: np.ndarray
    times: np.ndarray
    record: tuple[np.ndarray, int]
    other: tuple[np.ndarray, int] | None
    n_classes: int
    regulariser: float
    sigma: float


def drawn(generator, n_classes, d, adjacency):
    """A random problem; others that occur often steer the noise to where it shows
    the record.
    """

    def record():
        x = generator.normal(size=d)
        return (
            x
            / np.linalg.norm(x)
            * generator.choice([1.0, generator.uniform()], p=[0.8, 0.2])
        )

    n = int(generator.integers(0, 4))
    return Problem(
        np.array([record() for _ in range(n)]).reshape(n, d),
        generator.integers(n_classes, size=n),
        np.round(10.0 ** generator.uniform(0, 2.5, size=n)),
        (record(), int(generator.integers(n_classes))),
        (
            (record(), int(generator.integers(n_classes)))
            if adjacency == "replace-one"
            else None
        ),
        n_classes,
        10.0 ** generator.uniform(-0.5, 2),
        10.0 ** generator.uniform(-0.3, 1),
    )


def terms(v, x, y, times, basis):
    """Gradient [g, k, d] and Hessian [g, k d, k d] of the records' losses at v [g,
    k, d], k = C - 1, and the losses.
    """
    logits = np.einsum("ck,gkd,nd->gnc", basis, v, x)
    p = special.softmax(logits, axis=2)
    residual = (p - np.eye(len(basis))[y]) @ basis
    gradient = np.einsum("n,gnk,nd->gkd", times, residual, x)
    weights = (
        np.einsum("ck,gnc,cl->gnkl", basis, p, basis)
        - (p @ basis)[..., :, None] * (p @ basis)[..., None, :]
    )
    size = v.shape[1] * v.shape[2]
    hessian = np.einsum("n,gnkl,nd,ne->gkdle", times, weights, x, x).reshape(
        len(v), size, size
    )
    own = np.take_along_axis(
        logits, np.broadcast_to(y[None, :, None], (*logits.shape[:2], 1)), axis=2
    )[..., 0]
    return gradient, hessian, (special.logsumexp(logits, axis=2) - own) @ times


def minimisers(b, x, y, times, basis, regulariser):
    """Weights [g, k, d] at which the gradient is -b, by Newton's method with halved
    steps.
    """
    v = -b / regulariser

    def value(v, losses):
        return losses + (b * v).sum((1, 2)) + regulariser * (v**2).sum((1, 2)) / 2

    for _ in range(100):
        gradient, hessian, losses = terms(v, x, y, times, basis)
        gradient = gradient + b + regulariser * v
        norms = np.sqrt((gradient**2).sum((1, 2)))
        if norms.max() < 1e-9 * (1 + np.abs(b).max() + times.sum()):
            return v
        flat = gradient.reshape(len(v), -1, 1)
        step = np.linalg.solve(hessian + regulariser * np.eye(flat.shape[1]), flat)[
            ..., 0
        ]
        falls = (step * flat[..., 0]).sum(1)
        step, now, length = step.reshape(v.shape), value(v, losses), np.ones(len(v))
        for _ in range(40):
            moved = v - length[:, None, None] * step
            missed = value(
                moved, terms(moved, x, y, times, basis)[2]
            ) > now - 1e-4 * length * falls + 1e-9 * np.abs(now)
            if not missed.any():
                break
            length[missed] /= 2
        v = moved
    raise AssertionError


def added(z, d):
    """A record as arrays of one, or none."""
    if z is None:
        return np.zeros((1, d)), np.zeros(1, dtype=np.int64), np.zeros(1)
    return z[0][None], np.array([z[1]]), np.ones(1)


def grid(problem, count):
    """Noise [points, size] on a grid of so many points an axis, and its probability
    masses.
    """
    size, sigma = (problem.n_classes - 1) * problem.x.shape[1], problem.sigma
    axis, spacing = np.linspace(-1, 1, count, retstep=True)
    reach = REACH * sigma + np.sqrt(8) / 2
    points = np.stack(
        np.meshgrid(*[axis * reach] * size, indexing="ij"), axis=-1
    ).reshape(-1, size)
    log_q = -(points**2).sum(1) / (2 * sigma**2) - size * np.log(
        sigma * np.sqrt(2 * np.pi)
    )
    return points, np.exp(log_q) * (spacing * reach) ** size


def log_ratio(problem, points):
    """log dP/dQ at the weights that noise ``points`` [points, size] gives without
    the record.
    """
    basis, d, sigma = (
        linalg.helmert(problem.n_classes).T,
        problem.x.shape[1],
        problem.sigma,
    )
    z, other = added(problem.record, d), added(problem.other, d)
    base = [
        np.concatenate(parts)
        for parts in zip((problem.x, problem.y, problem.times), other, strict=True)
    ]
    b = points.reshape(len(points), problem.n_classes - 1, d)
    v = minimisers(b, *base, basis, problem.regulariser)
    of_base, of_other, of_z = (
        terms(v, *records, basis) for records in (base, other, z)
    )
    moved = b + of_other[0] - of_z[0]
    identity = problem.regulariser * np.eye(points.shape[1])
    volumes = [
        np.linalg.slogdet(h + identity)[1]
        for h in (of_base[1], of_base[1] - of_other[1] + of_z[1])
    ]
    return (
        ((b**2).sum((1, 2)) - (moved**2).sum((1, 2))) / (2 * sigma**2)
        + volumes[1]
        - volumes[0]
    )


def exact(problem, epsilons, draws=DRAWS):
    """Hockey-stick divergences [2, epsilons] of both directions, and bounds on their
    errors.
    """
    size, factors = (problem.n_classes - 1) * problem.x.shape[1], np.exp(epsilons)
    if size in POINTS:
        points, masses = grid(problem, POINTS[size])
    else:
        points = problem.sigma * stats.norm.ppf(
            stats.qmc.Sobol(size, rng=0).random(draws)
        )
        masses = np.full(draws, 1 / draws)
    ratio = np.exp(log_ratio(problem, points))[:, None]
    parts = np.maximum(ratio - factors, 0.0), np.maximum(1 - factors * ratio, 0.0)
    errors = [
        (
            np.full(len(epsilons), KINKS)
            if size in POINTS
            else 5 * part.std(0) / np.sqrt(draws)
        )
        for part in parts
    ]
    return np.array([masses @ part for part in parts]), np.array(errors)


def compared(generator, n_classes, d, adjacency, draws=DRAWS):
    """Largest excess over the bound and ratio to it of one problem, at five
    epsilons, two below the volume.
    """
    problem = drawn(generator, n_classes, d, adjacency)
    profile = loss_perturbation(
        n_classes=n_classes,
        regulariser=problem.regulariser,
        sigma=problem.sigma,
        adjacency=adjacency,
    )
    volume = (n_classes - 1) * np.log1p(1 / (n_classes * problem.regulariser))
    beyond = max(profile.epsilon(0.02) - volume, 0.0)
    epsilons = np.array([0.0, volume / 2, volume, volume + beyond / 3, volume + beyond])
    found, errors = exact(problem, epsilons, draws)
    bounds = np.array(
        [
            profile.delta(epsilons, direction=direction)
            for direction in ("remove", "add")
        ]
    )
    return {
        "excess": float((found - errors - bounds).max()),
        "ratio": float(((found - errors) / bounds).max()),
    }


def pure_ratio(generator, n_classes, d, adjacency):
    """Largest log-ratio of the densities of the weights, class-wise noise, over the
    epsilon of the bound.
    """
    problem = drawn(generator, n_classes, d, adjacency)
    rate = 10.0 ** generator.uniform(-1.5, 0.5)
    bound = loss_perturbation(
        n_classes=n_classes,
        regulariser=problem.regulariser,
        rate=rate,
        adjacency=adjacency,
    ).epsilon(0.0)
    w = generator.normal(size=(400, n_classes, d)) * 10.0 ** generator.uniform(
        -2, 3, size=(400, 1, 1)
    )
    if n_classes == 2:
        w -= w.mean(axis=1, keepdims=True)

    def log_density(extra):
        records = [problem.x, problem.y, problem.times]
        if extra is not None:
            more = (extra[0][None], np.array([extra[1]]), np.ones(1))
            records = [
                np.concatenate(parts) for parts in zip(records, more, strict=True)
            ]
        gradient, hessian, _ = terms(w, *records, np.eye(n_classes))
        noise = np.linalg.norm(gradient + problem.regulariser * w, axis=2).sum(1)
        return (
            -rate * noise
            + np.linalg.slogdet(hessian + problem.regulariser * np.eye(n_classes * d))[
                1
            ]
        )

    return float(
        np.abs(log_density(problem.record) - log_density(problem.other)).max() / bound
    )


def campaign(problems):
    """The worst of so many random problems of each size and relation."""
    for index, ((n_classes, d), adjacency) in enumerate(product(SIZES, RELATIONS)):
        found, ratios = [], []
        for i in range(problems):
            generator = np.random.default_rng([5, index, i])
            found.append(compared(generator, n_classes, d, adjacency))
            ratios.append(pure_ratio(generator, n_classes, d, adjacency))
        worst = {
            name: max(each[name] for each in found) for name in ("excess", "ratio")
        }
        row = {
            "n_classes": n_classes,
            "d": d,
            "adjacency": adjacency,
            "problems": problems,
        }
        yield {
            **row,
            "excess": worst["excess"],
            "gaussian_ratio": worst["ratio"],
            "pure_ratio": max(ratios),
        }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--problems", type=int, default=125, help="of each size and relation"
    )
    parser.add_argument(
        "--keep",
        action="store_true",
        help="store the rows for the chapter on private prediction",
    )
    asked, rows = parser.parse_args(), []
    for row in campaign(asked.problems):
        print(row, flush=True)
        rows.append(row)
    if asked.keep:
        pd.DataFrame(rows).to_csv(
            published_store("private_prediction_densities"), index=False
        )
